/*
 * cutting: who needs an image of the state, and the moment at which it is cut.
 *
 * Waits at the barrier of mvcc, with no entry half applied and no commit under way; pins
 * compaction; then everybody who has asked gets an image of his own, as of this index.
 *
 *     cutting_ask --> history is settled, no entry is under way, the store can be frozen
 *                 --> the cut: on_cut, with an image that is being planned
 *                 --> the reader's until image_close, or until it fails
 *
 * What may take long is waited for while entries go on being applied: settling a large delete, the
 * commit under way. Only for an entry that is under way itself nobody begins another one; and if
 * commit and entries alternate for CUTTING_PATIENCE_MS, none begins either.
 *
 * A compaction waits for every open image, so clients that come and go, each staying for a while,
 * could hold it back for ever. When one has waited for CUTTING_COMPACTION_MS, clients' requests are
 * held until it is over: unless it has to wait anyway, for an image of a member or one that a
 * client had before that. So it waits until those who came in time have read theirs, then at most
 * for those who came meanwhile, and nobody who reads well is interrupted. On a full disk, where
 * compactions stand still, nobody is held.
 *
 * Images fail, which their readers are told by on_more, when they
 *     are not read for IMAGE_STALLED_MS, though there is something to be read
 *     are a client's that takes less than IMAGE_PACE_BYTES in IMAGE_PACE_MS, while a compaction
 *         waits, or somebody else for the place: then the slowest of them
 *     are the newest of a host's that has two more than that of a client who waits for the place
 *     are of a state that was replaced (install.h), INSTALL_OLD_MS later
 *     meet damage in the store, or the member stops
 *
 * Promises   1. An image has exactly the entries up to its index, settled (image.h).
 *            2. At most CUTTING_IMAGES_MAX are open; of them CUTTING_MEMBERS_MAX are kept free for
 *               other members, so that clients' backups do not keep one from catching up.
 *            3. Nothing is removed from the store, and no state that was replaced is closed, while
 *               an image of it is open.
 *            4. Who has asked is told, once, unless he forgets it.
 * Not here   What becomes of an image: sending.h, and api for backups.
 * Leans on   snap/image.h, mvcc, backend, io for workers.
 */
#pragma once

#include "base/limits.h"
#include "base/list.h"
#include "base/logger.h"
#include "mvcc/mvcc.h"
#include "snap/image.h"

struct server;
struct cutting;

struct cutting_request { /* embedded in whoever asks; all zeroes with on_cut filled in */
    /* In the turn. image: his from now on, image_close ends it; NULL: `why`, the member stops or
     * too many images are open. */
    void (*on_cut)(struct cutting_request *r, struct image *image, const char *why);
    bool is_for_member;
    struct bytes host; /* of the client; lives until on_cut */
    struct list link;  /* cutting's own */
};

/* One that is open. */
struct cutting_image {
    struct cutting *cutting;
    struct image *image; /* NULL: the place is free */
    struct mvcc *mvcc;   /* that it pins */
    bool is_for_member;
    struct buf host;
    uint64_t number; /* the later it was cut, the higher */
    uint64_t cut_ms;
    bool has_said;        /* that it has failed */
    uint64_t replaced_ms; /* when it was noticed that its state is an old one; 0: it is not */
};

struct cutting_options {
    struct workers *workers;
    const struct logger *logger;
};

struct cutting {
    struct cutting_options o;
    struct list requests;
    struct list held; /* of clients, until a compaction is over */
    struct mvcc_waiter waiter;
    uint64_t since_ms; /* the first of them waits; 0: nobody does */
    bool holds_back;   /* no entry may begin */
    bool is_new, is_stopping;
    struct cutting_compaction {
        const struct mvcc *mvcc;
        uint64_t before;   /* so many compactions were over in there */
        uint64_t since_ms; /* it waits for images; 0: it has not yet */
    } compaction;
    struct cutting_image images[CUTTING_IMAGES_MAX];
    uint64_t count; /* cut so far */
};

void cutting_init(struct cutting *c, const struct cutting_options *options);
/* Also one that is all zeroes. Nobody reads an image any more, and workers have forgotten theirs.
 */
void cutting_free(struct cutting *c);

/* --- tell --- */

void cutting_ask(struct cutting *c, struct cutting_request *r);
void cutting_forget(struct cutting *c, struct cutting_request *r); /* again is fine */

/* The member stops: all images fail, and nobody gets another one. */
void cutting_stop(struct cutting *c);

/* Another state is about to take the place of the one whose history may be waited for. */
void cutting_state_replaced(struct cutting *c);

/* --- ask --- */

/* May no further entry be begun for now? */
bool cutting_holds_back(const struct cutting *c);
/* Has somebody asked since the last cutting_some? */
bool cutting_has_more(const struct cutting *c);
/* Is no image open, and does nobody wait for one? */
bool cutting_is_idle(const struct cutting *c);

/* All invariants, asserted. */
void cutting_check(const struct cutting *c);

/* --- the server's --- */

/* One step of whatever is under way; called in every turn, where nobody is in the middle of
 * anything. */
void cutting_some(struct server *s);
