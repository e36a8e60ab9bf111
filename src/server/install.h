/*
 * install: the state is replaced as a whole, by an image that was built beside it.
 *
 * A member that has fallen too far behind is sent a snapshot, and what it had is thrown away. The
 * image comes as an open state (state.h) whose store is whole and lies beside the old one. First
 * it becomes the truth on disk, in an order that a crash cannot hurt; then, in one turn, the rooms
 * that look at the state are told to look at the other one.
 *
 *     IDLE --begin--> FILE --a worker has saved the .snap file--> FILE_SAVED --take_record,
 *     recorded_as--> RECORDING --durable--> SWAPPING --the store has its new name--> SWAPPED
 *     --install_image--> IDLE
 *
 * A snapshot of another member's, which raft has taken, has its file already, and its record is in
 * the log together with what else raft had to be written: IDLE --begin_received--> RECORDING. Raft
 * hears that it is installed by the responses of that very write, and so does the leader; they are
 * held back until it is (install_held_seq), and with them those of all writes behind it.
 *
 * With the record in the log the image counts. A crash before it leaves the old store, one behind
 * it the new one: backend_open ends what is left to be done (backend.h, "another image").
 *
 * What becomes of those who were in the middle of something:
 *
 *     reads and replies under way   finish on the old state, which stays for them: one that has
 *                                   been replaced is closed, on a worker, when the last of them
 *                                   has ended. After INSTALL_OLD_MS they are ended
 *     watchers                      lag, each at its own next revision (watch_store_replaced);
 *                                   those below the new compact revision are told so
 *     proposals                     whose entry the image contains fail (pending_overtaken); later
 *                                   ones wait on
 *     reads that wait for an index  that the image has, may go on
 *     an entry half applied         is given up whole: the image contains it, or it would not be
 *                                   above the applied index
 *     compaction, settling a large  stop where they are in the old store; the new one has notes of
 *     delete, a commit              its own, and goes on from those
 *     leases                        of a leader start afresh, as those of a new one do
 *
 * Promises   1. At each moment log and store on disk fit together.
 *            2. Nothing is written to the old state once it is replaced, nor read from it by
 *               whoever begins after that.
 *            3. At most INSTALL_OLD_MAX old states are there; with so many, an install waits.
 * Not here   Where an image comes from (receiving.h; for tests own_image.h). Raft's own log, which
 *            begins anew when it takes a snapshot. The log's record, which the server writes.
 * Leans on   state.h, snap/snapfile.h, io for workers.
 */
#pragma once

#include "backend/backend.h"
#include "base/arena.h"
#include "base/list.h"
#include "entry/entry.h"
#include "io/worker.h"
#include "server/state.h"

struct server;

struct install_options {
    struct disk *disk;
    struct workers *workers;
    const struct logger *logger;
    const char *snap_dir; /* of the .snap files; lent */
    unsigned keep;        /* of them; 0: all */
};

enum install_step {
    INSTALL_IDLE,
    INSTALL_FILE,
    INSTALL_FILE_SAVED,
    INSTALL_RECORDING,
    INSTALL_SWAPPING,
    INSTALL_SWAPPED,
};

/* A state that was replaced. */
struct install_old {
    struct list link;
    struct state state;
    uint64_t since_ms;
    bool is_ending, is_closed; /* given to a worker; which has done it */
    struct job job;
};

struct install {
    struct install_options o;
    enum install_step step;
    uint64_t apply_up_to; /* entries above it are held back; UINT64_MAX: none are */
    uint64_t lead_at; /* with this entry, and not before, the leases of a leader that has installed
                         start afresh; 0: it has not, in this term */
    uint64_t count;   /* installed so far */

    /* the one under way */
    struct state image;
    struct arena arena;
    struct raft_snapshot snapshot;
    struct job job;
    enum err err;     /* the worker's */
    bool file_is_due; /* the file could not be saved, and is to be tried again, */
    uint64_t file_ms; /* not before that */
    uint64_t seq;     /* of the record in the log */
    bool is_received; /* from another member: raft's log, too, begins with it */
    struct backend_install swap;

    struct list olds;
    size_t old_count;
};

void install_init(struct install *i, const struct install_options *options);
/* Also one that is all zeroes. Nobody reads an old state any more, and workers have nothing in hand
 * or have forgotten it. */
void install_free(struct install *i);

/* --- tell --- */

/* Takes over the image. May be begun (asserted). */
void install_begin(struct install *i, const struct state *image);

/* The same for one that was received: its .snap file is there, and its record has this number in
 * the log. */
void install_begin_received(struct install *i, const struct state *image, uint64_t seq);

/* The record has this number in the log. */
void install_recorded_as(struct install *i, uint64_t seq);

/* What the log has durable, and the store that is to be replaced. */
void install_durable(struct install *i, uint64_t durable_seq, struct backend *old);

/* Time has passed: old states that nobody reads any more go; a file that could not be saved is
 * tried again. */
void install_tick(struct install *i, uint64_t now_ms);

/* --- take --- */

/* A snapshot to be recorded in the log, or NULL; lent until install_recorded_as, which must follow.
 */
const struct raft_snapshot *install_take_record(struct install *i);

/* --- ask --- */

/* Is none under way, and is there space for one more old state? */
bool install_may_begin(const struct install *i);
/* Is one under way? Then no snapshot of the log is made from the old state. */
bool install_is_busy(const struct install *i);
/* Of what the log has durable, responses from this number on have to wait; UINT64_MAX: none. */
uint64_t install_held_seq(const struct install *i);
/* Is nothing left to be done at all, with old states neither? */
bool install_is_idle(const struct install *i);

/* What its .snap file says: an image as a snapshot. *out looks into the arena. */
void install_describe(const struct state *image, struct arena *arena, struct raft_snapshot *out);

/* All invariants, asserted. */
void install_check(const struct install *i);

/* --- the server's --- */

/* One step of whatever is under way; called in every turn, where nobody is in the middle of
 * anything. */
void install_some(struct server *s);

/* The exchange, in etcd's order: leases, keys, alarms, members. The store has its new name. */
void install_image(struct server *s);
