/*
 * receiving: a snapshot that another member sends, from its first byte until raft takes it.
 *
 * A leader whose log no longer has what this member needs posts its whole state, as etcd's file.
 * Raft believes a snapshot at once and forgets its own log for it, so it hears of this one only
 * when nothing can go wrong any more: the bytes are here, the file is sound from the first page to
 * the last, a store of ours is made of it beside the old one and all rooms are open on that.
 *
 *     IDLE --begin--> OPENING --> BYTES: by credit, to a temporary file --end--> WHOLE: until no
 *     other image is under way --> BUILDING, a worker: check, copy, open, .snap file --> BUILT
 *     --raft takes it--> OFFERED --receiving_take_image--> IDLE
 *
 *     whatever is not wanted (any more) --> ENDING, a worker: files and image go --> IDLE
 *
 *     member/snap/tmp%016x        while it comes; the number is the post's
 *     member/snap/%016x.snap.db   when it is whole, by the snapshot's index, as etcd has it
 *     member/store/image.mdb      the store that is made of it (backend.h, "another image")
 *
 * The disk has to have space for the file and for the store that is made of it (which is larger, up
 * to half as large again) beside all that is there. That is asked before the first byte is taken,
 * if the sender says how many there are, and at each MiB that has come: a snapshot that does not
 * fit is refused before log and store notice, since its sender tries again and again.
 *
 * Neither file is ever the truth, nor synced: what a crash leaves of them goes at the next boot.
 * The image counts from its record in the log on, which turn.c writes when raft has taken it.
 *
 * Who is turned away, and how. What raft is certain to ignore (it is not above the commit index, of
 * an earlier term, or not meant for us) is shown to raft without its image, whose response tells
 * the leader how far we are: 204, and the body is not read. One that comes while another is under
 * way gets a 500, unless it is of a later term, or its sender has begun anew: then the older one
 * is given up, by its worker too, as long as raft has not taken it. What cannot be stored, or is
 * damaged, gets a 500 with the reason. So does a sound image of a state that this server cannot
 * execute, such as one with auth enabled; but then the member ends, as it does at an entry that it
 * cannot apply. It also ends if a sync of the .snap file fails, as at every sync of what the log is
 * to rely on.
 *
 * Promises   1. Nothing of this member's state or log is touched before raft has taken the
 *               snapshot; a refused one leaves no file behind.
 *            2. The response, 204, comes after raft has heard of it and not before: the leader
 *               probes at once.
 *            3. Memory: RECEIVING_WINDOW_BYTES while it comes, then what db.h says and the rooms.
 *            4. No call of the turn waits for a disk or for the worker.
 * Not here   Bytes on the wire and senders that fall silent (peer). The exchange (install.h).
 * Leans on   snap/db.h, state.h, peer, io for disk and workers.
 */
#pragma once

#include "base/buf.h"
#include "base/histogram.h"
#include "entry/entry.h"
#include "io/disk.h"
#include "io/worker.h"
#include "server/state.h"

#include "backend/backend.h"

#include <stdatomic.h>

struct peer_event;
struct peers;
struct server;

struct receiving_options {
    struct disk *disk;
    struct workers *workers;
    struct peers *peers;
    const struct logger *logger;
    const char *snap_dir; /* lent */
    uint64_t member_id;
};

enum receiving_step {
    RECEIVING_IDLE,
    RECEIVING_OPENING,
    RECEIVING_BYTES,
    RECEIVING_WHOLE,
    RECEIVING_BUILDING,
    RECEIVING_BUILT,
    RECEIVING_OFFERED,
    RECEIVING_ENDING,
};

/* A post of somebody's. */
struct receiving_post {
    uint64_t id;
    struct raft_message *message; /* without the snapshot's data; NULL: there is no post */
    uint64_t image_bytes;         /* UINT64_MAX: the sender does not say */
    bool is_answered;             /* nobody waits for a response any more */
    bool has_ended;               /* all bytes were handed in */
};

struct receiving {
    struct receiving_options o;
    enum receiving_step step;
    struct receiving_post now;
    struct receiving_post next; /* it waits until what is left of the other has gone */
    atomic_bool is_canceled;    /* the one under way is not wanted any more; the worker looks */
    uint64_t count;             /* taken by raft so far */
    struct histogram saves;     /* how long files took to come: HISTOGRAM_100MS_10 */
    struct histogram syncs;     /* and images to be made durable: HISTOGRAM_1MS_14 */

    /* the file */
    char *path, *db_path; /* while it comes, and when it is whole */
    struct disk_file *file;
    struct disk_op op;
    bool is_writing, has_written; /* the op is under way; is done and was not looked at */
    bool is_beyond_us;            /* there is no image: it holds what this server cannot execute */
    struct buf gathered, being_written;
    struct bytes piece;    /* of the write */
    uint64_t bytes;        /* in the file */
    uint64_t spaced_bytes; /* so many were there when the disk's space was last asked for */
    uint64_t began_ms;

    /* the worker's, while it builds or ends */
    struct job job;
    bool is_done;
    struct backend_options store; /* where the image is to be */
    struct state_options rooms;
    struct state image;
    uint64_t sync_ns; /* of the image */
    struct buf why;   /* empty, or why there is no image */
    bool has_image;   /* on disk, whole or in parts */
    bool is_unsynced; /* there is none since a sync of the .snap file has failed */
};

void receiving_init(struct receiving *r, const struct receiving_options *options);
/* Also one that is all zeroes. Disk and worker have nothing in hand, or have forgotten it. */
void receiving_free(struct receiving *r);

/* At boot: what an earlier life has left behind goes. */
void receiving_clean(struct disk *disk, const char *snap_dir, const struct logger *logger);

/* The member ends: what is under way is refused. */
void receiving_stop(struct receiving *r);

/* --- ask --- */

bool receiving_is_idle(const struct receiving *r);
/* Is an image being made, or made? Then there must be no other one beside the store. */
bool receiving_has_image(const struct receiving *r);
/* Does one wait for raft? Then no snapshot of the log is begun, whose record would come after it.
 */
bool receiving_is_ready(const struct receiving *r);

/* All invariants, asserted. */
void receiving_check(const struct receiving *r);

/* --- take --- */

/* Raft has this snapshot to be persisted: the image of it, which is the caller's from now on. It is
 * the one that was offered (asserted). */
struct state receiving_take_image(struct receiving *r, const struct raft_snapshot *snapshot);

/* --- the server's --- */

/* PEER_SNAPSHOT_BEGIN, _BYTES, _END and _GONE. */
void receiving_hear(struct server *s, const struct peer_event *e);

/* One step of whatever is under way; called in every turn, before raft's output is taken. */
void receiving_some(struct server *s);
