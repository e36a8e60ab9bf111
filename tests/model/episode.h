/*
 * episode: mvcc, watch and lease together, a thousand random steps, and a naive model beside them.
 *
 * One member's state machine without raft around it: a log of commands, applied in slices; a
 * backend whose commits are started, run and reported as chance has it; readers that read a chunk
 * at a time while others write; clients that watch, stop reading, go on, cancel; leases with time
 * passing, leadership won and lost; compactions in slices between all that. The power goes, the
 * store is opened again at its last durable batch and the log is applied from there.
 *
 *      log --> apply, in slices --> mvcc, lease --> backend (memory twin, now and then LMDB)
 *                    |                 ^    ^
 *                    v                 |    +-- scans, hashes, compaction
 *                  naive ..........  watch --> streams --> clients that count what they get
 *                  (naive.h)
 *
 * Rules      1. Answers of every command are what the model says.
 *            2. A scan says what the model says at its revision, however it is cut into chunks and
 *               whatever happens meanwhile. So does HashKV.
 *            3. A watcher gets every event of its own, whole revisions, in order, once; resumed
 *               after a crash at what it has not seen, it misses none. A progress message comes
 *               after every event it covers. It ends only if it asked for that, or for what is
 *               compacted; and not by a compaction that was applied while it was live, wherever
 *               that cut history: then it gets all up to the cut, with the values before.
 *            4. A lease is named as expired when it is, not before, in order; keys hang on the
 *               lease that their last put said.
 *            5. After a restart everything is as before.
 *            6. When a compaction is through, the store holds what must be kept and nothing else.
 *            mvcc_check, watch_check, lease_check and backend_check hold after every step.
 *
 * A broken rule ends the process with status 1, naming seed and rule; a failed assertion aborts it
 * as ever, and the seed is printed after it. The same seed gives the same episode.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct episode_options {
    uint64_t seed;
    unsigned steps;  /* 0: a thousand */
    const char *dir; /* a folder for LMDB, empty; NULL: every episode is on the memory twin */
    bool verbose;    /* every step on standard output */
};

/* What was seen: a clean run that met no crash or compaction would prove little. */
struct episode_totals {
    uint64_t episodes, steps;
    uint64_t revisions;
    uint64_t scans, hashes;
    uint64_t compactions; /* through */
    uint64_t settlings;   /* through */
    uint64_t restarts;    /* the store was opened again */
    uint64_t replayed;    /* entries applied a second time */
    uint64_t events;      /* that a client has counted */
    uint64_t resumed;     /* watchers that went on after a crash */
    uint64_t lagged;      /* events that were not live any more when they came */
    uint64_t fragments, longs, progress, cut_off;
    uint64_t kept; /* watchers that were live at a compaction, and had not been given all below */
    uint64_t expired; /* leases */
    uint64_t on_lmdb; /* episodes */
};

struct episode_result {
    struct episode_totals totals;
    uint64_t trace; /* a hash of everything that happened */
};

/* Runs one seed to its end. */
void episode_run(const struct episode_options *options, struct episode_result *out);

void episode_totals_add(struct episode_totals *sum, const struct episode_totals *more);
