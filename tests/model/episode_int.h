/*
 * The inside of an episode.
 *
 *     episode.c     the run: climate, the choice of steps, the end
 *     rooms.c       the rooms under test: opened, closed, crashed; commits; what is in the store
 *     entries.c     commands: made up, applied to the rooms and to the model
 *     readers.c     scans and hashes under way
 *     clients.c     streams and watchers, and what a client expects of them
 *     leaders.c     time, leadership, expiry
 *     naive.c       the model
 */
#pragma once

#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "base/arena.h"
#include "base/list.h"
#include "base/rng.h"
#include "io/loop.h"
#include "lease/lease.h"
#include "model/episode.h"
#include "model/naive.h"
#include "mvcc/mvcc.h"
#include "watch/watch.h"

enum {
    READERS = 4,
    HASHERS = 2,
    CLIENTS = 4,
    WATCHERS = 6, /* of a client */
    OPS_MAX = 6,  /* of a transaction, but for the loading of many keys */
};

/* What the seed has decided for the whole episode. */
struct climate {
    bool lmdb;
    bool many;          /* thousands of keys instead of a few dozen */
    unsigned key_count; /* that may ever be */
    unsigned value_bytes_max;
    bool checkpoint, persist;
    size_t pending_bytes_max, credit_bytes, fragment_bytes;
    int64_t range_tombstone_keys_min;   /* 0: mvcc's own, which is more than most episodes have */
    unsigned crash_weight, read_weight; /* how often power goes; how often clients read */
};

/* --- the log --- */

enum op_kind { OP_PUT, OP_DELETE, OP_RANGE };

struct op {
    enum op_kind kind;
    struct bytes key, end, value;
    unsigned key_number; /* OP_PUT */
    int64_t lease;
    struct mvcc_question question; /* OP_RANGE; `at` is filled in when it is applied */
    int64_t revision;              /* 0: as it is then */
};

enum entry_kind { ENTRY_WRITE, ENTRY_GRANT, ENTRY_REVOKE, ENTRY_CHECKPOINT, ENTRY_COMPACT };

struct entry {
    enum entry_kind kind;
    struct op *ops;
    unsigned op_count;
    int64_t id;     /* of a lease */
    int64_t number; /* ttl, remaining ttl, revision */
    bool at_newest; /* the revision is that of the moment when it is applied */
};

struct log {
    struct entry **entries; /* entries[i] has index i + 1; they live as long as the episode */
    size_t count, cap;
    size_t applied; /* to the model: its state is the one after so many */
};

/* An entry that is being applied, which may take many steps. */
struct applying {
    const struct entry *entry; /* NULL: none */
    bool again;                /* the model has it already */
    bool writing;              /* mvcc_write_begin was called */
    unsigned op;               /* the next one */
    bool deleting;             /* it is a delete of a range and has begun */
    struct mvcc_delete_range range;
};

/* --- readers --- */

struct reader {
    bool open, measured;
    struct mvcc_scan scan;
    struct naive_result want;
    struct buf got;
};

struct hasher {
    bool open;
    struct mvcc_hash hash;
    uint32_t want;
    int64_t want_revision, want_compact;
};

/* --- clients --- */

struct watcher_wish {
    struct bytes key, end;
    bool no_put, no_delete, prev_kv, fragment, progress;
};

struct client_watcher {
    bool used;
    bool created; /* was answered */
    bool asked_to_cancel;
    bool ended; /* by compaction: the id is taken until it is canceled */
    int64_t id;
    uint64_t
        serial; /* of its making: an id may be used again before the client has read of its end */
    struct watcher_wish wish;
    int64_t start; /* as it was asked for */
    int64_t next;  /* everything before has been delivered */

    /* What the server must know of it, seen from outside: */
    bool prompt;                /* it was up to date, and the stream had credit, when work ended */
    int64_t prompt_since;       /* the revision then; since it the stream had credit all the time */
    int64_t kept_from, kept_to; /* compactions at which it was live: none may end it. 0: none */
};

enum reply_kind { REPLY_CREATED, REPLY_REFUSED, REPLY_CANCELED };

/* What the client is owed for something it has asked, in the order of asking. */
struct reply {
    enum reply_kind kind;
    int64_t id, revision;
    const char *reason;
    struct client_watcher *watcher; /* NULL: of none */
};

struct letter {
    struct list link;
    struct watch_message message;
    struct buf events; /* read so far, of a long one */
};

struct client {
    struct watch_stream *stream; /* NULL: not connected */
    struct client_watcher watchers[WATCHERS];
    int64_t next_id;
    uint64_t next_serial;
    struct reply replies[64];
    size_t reply_count;
    size_t progress_asked;
    struct list inbox; /* of struct letter: taken, and not read yet */
    size_t read_bytes; /* read, and the stream not told yet */
    uint64_t
        full_ms; /* the stream has no credit since then, or had none; 0: it had, all the time */

    struct client_watcher *run_of; /* fragments are coming for this one */
    struct buf run;
    int64_t run_revision;
};

/* --- all --- */

struct episode {
    uint64_t seed;
    bool verbose;
    struct rng rng;
    struct arena arena; /* of the whole episode */
    uint64_t step;
    uint64_t now_ms;
    uint64_t trace;
    struct episode_totals totals;
    struct climate climate;

    struct naive naive;
    struct log log;
    bool leading;

    struct memory_disk *disk;
    struct loop *loop;
    const char *dir;
    struct workers workers;
    struct job *job; /* of the backend */
    bool job_has_run, failed;
    struct backend *backend;
    struct mvcc *mvcc;
    struct lease_set *leases;
    struct watch *watch;
    uint64_t worked_ms; /* the time that watch was told last */
    int64_t through;    /* the last compaction that was seen to be through */

    struct applying applying;
    struct reader readers[READERS];
    struct hasher hashers[HASHERS];
    struct client clients[CLIENTS];
};

/* Ends the process, naming the seed. */
__attribute__((noreturn, format(printf, 3, 4))) void
episode_broken(const struct episode *e, const char *rule, const char *format, ...);

/* On standard output, if it is wanted. */
__attribute__((format(printf, 2, 3))) void episode_say(const struct episode *e, const char *format,
                                                       ...);

/* Part of what makes one episode differ from another. */
void episode_trace(struct episode *e, uint64_t what);

static inline uint64_t pick(struct episode *e, uint64_t bound)
{
    return rng_below(&e->rng, bound);
}

static inline bool chance(struct episode *e, uint64_t times, uint64_t outof)
{
    return rng_chance(&e->rng, times, outof);
}

/* A budget for one slice: often tiny, sometimes ample. */
unsigned some_steps(struct episode *e);

/* A range as a client would ask for it: one key, some, from here on, all, none. */
void some_range(struct episode *e, struct bytes *key, struct bytes *end);

/* --- rooms.c --- */

void rooms_init(struct episode *e, const struct episode_options *options);
void rooms_open(struct episode *e);

/* Ends everything that was under way, and the rooms. With `power`, the disk forgets what was not
 * synced. rooms_open is next. */
void rooms_close(struct episode *e, bool power);
void rooms_free(struct episode *e);

/* The keys are loaded anew under the watchers' feet, as when a snapshot is installed. */
void rooms_replace_store(struct episode *e);

void rooms_commit_step(struct episode *e);
void rooms_compact_step(struct episode *e);
void rooms_settle_step(struct episode *e);
void rooms_check(struct episode *e);

/* Rule 5, and 6 if it is time: the whole state against the model. */
void rooms_compare(struct episode *e);

/* --- entries.c --- */

void entries_propose_write(struct episode *e);
void entries_propose_many(struct episode *e); /* loads thousands of keys, or deletes them */
void entries_propose(struct episode *e, enum entry_kind kind, int64_t id, int64_t number);
void entries_propose_compaction(struct episode *e);

/* A slice of the entry under way, or of the next; false if there is none or the store is full. */
bool entries_apply_step(struct episode *e, unsigned steps);

/* What the store has lost: all entries behind `index` that the model has. */
void entries_replay(struct episode *e, uint64_t index);
void entries_give_up(struct episode *e);

/* --- readers.c --- */

void some_question(struct episode *e, struct mvcc_question *q);
void readers_step(struct episode *e);
void hashers_step(struct episode *e);
void readers_close(struct episode *e);
/* To its end, at once. */
void reader_ask(struct episode *e, const struct mvcc_question *q);

/* --- clients.c --- */

void clients_init(struct episode *e);
void clients_ask_step(struct episode *e); /* connect, create, cancel, ask for progress, leave */
void clients_take_step(struct episode *e);
void clients_read_step(struct episode *e);
void clients_work_step(struct episode *e);
void clients_look(struct episode *e); /* after each step: who has credit? */
void clients_compacted(struct episode *e, int64_t revision);
void clients_forget_liveness(struct episode *e); /* another store: everybody lags */
void clients_cut_off(struct episode *e);         /* the member is gone: all streams with it */
void clients_finish(struct episode *e); /* everything is read, and nothing may be missing */
void clients_free(struct episode *e);

/* --- leaders.c --- */

void leaders_step(struct episode *e);
void leaders_restarted(struct episode *e);
void leaders_granted(struct episode *e, struct naive_lease *l);
void leaders_compare(struct episode *e);
