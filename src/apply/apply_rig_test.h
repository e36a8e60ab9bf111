/*
 * rig: apply with everything it stands on, and a log that the test writes, for tests.
 *
 * Entries get the next index and are kept, so that after a restart they can be given once more, as
 * raft does. The page store commits when the test says so.
 */
#pragma once

#include "apply/apply.h"
#include "auth/auth.h"
#include "auth/tokens.h"
#include "backend/backend_rig_test.h"
#include "cluster/cluster.h"
#include "harness/test.h"
#include "lease/lease.h"

#define APPLY_RIG_OWN_ID 0x1001

struct apply_rig {
    struct backend_rig backend_rig;
    struct lease_set *leases;
    struct mvcc *mvcc;
    struct cluster *cluster;
    struct auth *auth;
    struct auth_tokens *tokens; /* NULL: none are given out */
    struct apply *apply;

    int64_t quota_bytes;
    int64_t range_tombstone_keys_min; /* of mvcc_options */
    unsigned steps;                   /* of each slice */
    unsigned slices;                  /* that the last entry took */
    uint64_t now_ms;
    struct identity who; /* makes the requests */
    bool nobody_waits;   /* for any response */
    bool check_slices;   /* all invariants after every slice, not only after every entry */
    struct buf refused;  /* what on_refused was told */

    struct raft_entry *log;
    size_t log_count, log_cap;
};

/* On a new store. */
void apply_rig_init(struct apply_rig *d, enum backend_rig_kind kind);
void apply_rig_init_settling(struct apply_rig *d, enum backend_rig_kind kind,
                             int64_t range_tombstone_keys_min);
void apply_rig_free(struct apply_rig *d);

/* Opens the rooms on the store there is; false: apply_open has failed, and said why in `refused`.
 * apply_rig_init has called it. */
bool apply_rig_open_rooms(struct apply_rig *d);
void apply_rig_close_rooms(struct apply_rig *d);

/* Commits everything, closes and opens; the whole log comes again and changes nothing. */
void apply_rig_restart(struct apply_rig *d);

/* The power goes. What was not committed is applied again from the log. */
void apply_rig_crash(struct apply_rig *d);

/* Writes an entry and applies it, up to its end: its effects are there until apply_rig_done. NULL:
 * it was refused. */
struct apply_effects *apply_rig_entry(struct apply_rig *d, enum raft_entry_type type,
                                      struct bytes data);
void apply_rig_done(struct apply_rig *d);

/* The same for a request, whose header gets an id; and both at once, where only the answer counts.
 */
struct apply_effects *apply_rig_request(struct apply_rig *d,
                                        struct pb_internal_raft_request *request);
enum result apply_rig_do(struct apply_rig *d, struct pb_internal_raft_request *request);

/* Shorter words for the most common ones. */
enum result apply_rig_put(struct apply_rig *d, const char *key, const char *value, int64_t lease);
enum result apply_rig_delete(struct apply_rig *d, const char *key, const char *end);

/* All of a reply, read in chunks. */
void apply_rig_read_reply(struct reply *r, size_t chunk, struct buf *out);

/* A line for each item of a bucket; or of all buckets. */
void apply_rig_dump_bucket(struct apply_rig *d, enum bucket bucket, struct buf *out);
void apply_rig_dump(struct apply_rig *d, struct buf *out);

/* Text with everything that cannot be printed as \xx; and the end of a range, "*" for "\0". */
void apply_rig_print(struct bytes text, struct buf *out);
struct bytes apply_rig_end(const char *text);
