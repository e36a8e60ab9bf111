/*
 * desk: apply with everything it stands on, and a log that the test writes, for tests.
 *
 * Entries get the next index and are kept, so that after a restart they can be given once more, as
 * raft does. The page store commits when the test says so.
 */
#pragma once

#include "apply/apply.h"
#include "backend/stand_test.h"
#include "cluster/cluster.h"
#include "harness/test.h"
#include "lease/lease.h"

#define DESK_OWN_ID 0x1001

struct desk {
    struct stand stand;
    struct lease_set *leases;
    struct mvcc *mvcc;
    struct cluster *cluster;
    struct apply *apply;

    int64_t quota_bytes;
    int64_t range_tombstone_keys_min; /* of mvcc_options */
    unsigned steps;                   /* of each slice */
    unsigned slices;                  /* that the last entry took */
    uint64_t now_ms;
    bool nobody_waits;  /* for any response */
    bool check_slices;  /* all invariants after every slice, not only after every entry */
    struct buf refused; /* what on_refused was told */

    struct raft_entry *log;
    size_t log_count, log_cap;
};

/* On a new store. */
void desk_init(struct desk *d, enum stand_kind kind);
void desk_init_settling(struct desk *d, enum stand_kind kind, int64_t range_tombstone_keys_min);
void desk_free(struct desk *d);

/* Opens the rooms on the store there is; false: apply_open has failed, and said why in `refused`.
 * desk_init has called it. */
bool desk_open_rooms(struct desk *d);
void desk_close_rooms(struct desk *d);

/* Commits everything, closes and opens; the whole log comes again and changes nothing. */
void desk_restart(struct desk *d);

/* The power goes. What was not committed is applied again from the log. */
void desk_crash(struct desk *d);

/* Writes an entry and applies it, up to its end: its effects are there until desk_done. NULL: it
 * was refused. */
struct apply_effects *desk_entry(struct desk *d, enum raft_entry_type type, struct bytes data);
void desk_done(struct desk *d);

/* The same for a request, whose header gets an id; and both at once, where only the answer counts.
 */
struct apply_effects *desk_request(struct desk *d, struct pb_internal_raft_request *request);
enum result desk_do(struct desk *d, struct pb_internal_raft_request *request);

/* Shorter words for the most common ones. */
enum result desk_put(struct desk *d, const char *key, const char *value, int64_t lease);
enum result desk_delete(struct desk *d, const char *key, const char *end);

/* All of a reply, read in chunks. */
void desk_read_reply(struct reply *r, size_t chunk, struct buf *out);

/* A line for each item of a bucket; or of all buckets. */
void desk_dump_bucket(struct desk *d, enum bucket bucket, struct buf *out);
void desk_dump(struct desk *d, struct buf *out);

/* Text with everything that cannot be printed as \xx; and the end of a range, "*" for "\0". */
void desk_print(struct bytes text, struct buf *out);
struct bytes desk_end(const char *text);
