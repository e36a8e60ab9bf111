/*
 * mvcc_rig: mvcc on a backend that the test works by hand, for tests.
 *
 * Entries get the next index. The backend's thread runs when the test says so (backend_rig_test.h),
 * so a test can stand between a write, its commit and the report of it.
 */
#pragma once

#include "backend/backend_rig_test.h"
#include "harness/test.h"
#include "mvcc/mvcc.h"

struct mvcc_rig {
    struct backend_rig backend_rig;
    struct mvcc *m;
    uint64_t index;                   /* of the last entry */
    struct buf damage;                /* what on_damage was told */
    struct buf leased;                /* at the last opening: "key=lease " for each */
    int64_t range_tombstone_keys_min; /* of mvcc_options */
};

void mvcc_rig_init(struct mvcc_rig *r, enum backend_rig_kind kind);
void mvcc_rig_init_settling(struct mvcc_rig *r, enum backend_rig_kind kind,
                            int64_t range_tombstone_keys_min);
void mvcc_rig_free(struct mvcc_rig *r);

/* Loads the store anew beside the old one, which is returned, to be closed. */
struct mvcc *mvcc_rig_replace(struct mvcc_rig *r);

/* Closes and opens again: after a commit of everything; or after the power was gone, and then what
 * was not committed is lost and r->index goes back. */
void mvcc_rig_reopen(struct mvcc_rig *r);
void mvcc_rig_crash(struct mvcc_rig *r);

/* One entry with one write. */
void mvcc_rig_begin(struct mvcc_rig *r);
struct mvcc_changes mvcc_rig_end(struct mvcc_rig *r);

/* The same around one change. The result is the number of changes. */
size_t mvcc_rig_put(struct mvcc_rig *r, const char *key, const char *value);
size_t mvcc_rig_put_leased(struct mvcc_rig *r, const char *key, const char *value, int64_t lease);
size_t mvcc_rig_delete(struct mvcc_rig *r, const char *key);

/* An entry with a compaction. */
enum mvcc_result mvcc_rig_compact(struct mvcc_rig *r, int64_t revision);

/* Commits, if there is something to commit. */
void mvcc_rig_commit(struct mvcc_rig *r);

/* Commits and removes until nothing is left to remove, and that is durable. */
void mvcc_rig_settle(struct mvcc_rig *r);

/* Reads what slices of a cold store have asked for. False: nothing that could be read now. */
bool mvcc_rig_warm(struct mvcc_rig *r);

/* HashKV at once. */
uint32_t mvcc_rig_hash(struct mvcc_rig *r, int64_t revision);

/* Opens the scan, measures and reads it, in chunks of this many bytes and steps, and closes it. */
void mvcc_rig_scan(struct mvcc_rig *r, struct mvcc_scan *s, size_t chunk, unsigned steps,
                   struct buf *out);
