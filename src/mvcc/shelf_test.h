/*
 * shelf: mvcc on a backend that the test works by hand, for tests.
 *
 * Entries get the next index. The backend's thread runs when the test says so (stand_test.h), so a
 * test can stand between a write, its commit and the report of it.
 */
#pragma once

#include "backend/stand_test.h"
#include "harness/test.h"
#include "mvcc/mvcc.h"

struct shelf {
    struct stand stand;
    struct mvcc *m;
    uint64_t index;                   /* of the last entry */
    struct buf damage;                /* what on_damage was told */
    struct buf leased;                /* at the last opening: "key=lease " for each */
    int64_t range_tombstone_keys_min; /* of mvcc_options */
};

void shelf_init(struct shelf *r, enum stand_kind kind);
void shelf_init_settling(struct shelf *r, enum stand_kind kind, int64_t range_tombstone_keys_min);
void shelf_free(struct shelf *r);

/* Loads the store anew beside the old one, which is returned, to be closed. */
struct mvcc *shelf_replace(struct shelf *r);

/* Closes and opens again: after a commit of everything; or after the power was gone, and then what
 * was not committed is lost and r->index goes back. */
void shelf_reopen(struct shelf *r);
void shelf_crash(struct shelf *r);

/* One entry with one write. */
void shelf_begin(struct shelf *r);
struct mvcc_changes shelf_end(struct shelf *r);

/* The same around one change. The result is the number of changes. */
size_t shelf_put(struct shelf *r, const char *key, const char *value);
size_t shelf_put_leased(struct shelf *r, const char *key, const char *value, int64_t lease);
size_t shelf_delete(struct shelf *r, const char *key);

/* An entry with a compaction. */
enum mvcc_result shelf_compact(struct shelf *r, int64_t revision);

/* Commits, if there is something to commit. */
void shelf_commit(struct shelf *r);

/* Commits and removes until nothing is left to remove, and that is durable. */
void shelf_settle(struct shelf *r);

/* HashKV at once. */
uint32_t shelf_hash(struct shelf *r, int64_t revision);

/* Opens the scan, measures and reads it, in chunks of this many bytes and steps, and closes it. */
void shelf_scan(struct shelf *r, struct mvcc_scan *s, size_t chunk, unsigned steps,
                struct buf *out);
