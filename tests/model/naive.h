/*
 * naive: everything ever written, in a sorted list.
 *
 * What mvcc, watch and lease promise, told so simply that it can be read and believed. A change is
 * appended to the list and never leaves it; every question is answered by walking all of it.
 * Compaction is one number. There is no index, no store, no time but what the caller says.
 *
 *     changes   2.0 put a | 3.0 put b | 3.1 delete a | 4.0 put c | 4.1 put a
 *                                                      '-- a write under way, not published --
 *
 * Keys are numbers in a sorted list of all keys that may ever be, chosen before the first write.
 * The bytes of keys and values are lent, and outlive this.
 */
#pragma once

#include "base/buf.h"
#include "mvcc/mvcc.h"

struct naive_change {
    struct revision at;
    unsigned key;
    bool tombstone;
    int64_t created, version, lease; /* 0 for a tombstone, as is the value */
    struct bytes value;
};

enum { NAIVE_LEASES = 12 };

struct naive_lease {
    int64_t id;
    bool there;
    int64_t ttl, remaining_ttl;
    uint64_t expires_ms, due_ms; /* if somebody leads */
};

struct naive {
    const struct bytes *keys; /* ascending */
    unsigned key_count;
    struct naive_change *changes;
    size_t count, cap;
    size_t published; /* of them; the others belong to the write under way */
    int64_t revision, compact_revision;
    struct naive_lease leases[NAIVE_LEASES];
};

/* The keys are lent. */
void naive_init(struct naive *n, const struct bytes *keys, unsigned key_count);
void naive_free(struct naive *n);

/* --- writing --- */

void naive_put(struct naive *n, unsigned key, struct bytes value, int64_t lease);
bool naive_delete(struct naive *n, unsigned key);
int64_t naive_delete_range(struct naive *n, struct bytes key, struct bytes end);
void naive_publish(struct naive *n);
void naive_forget_unpublished(struct naive *n);

/* As mvcc_working says it. */
struct revision naive_working(const struct naive *n);

enum mvcc_result naive_compact(struct naive *n, int64_t revision);

/* --- asking --- */

/* Does the API's range (key, end) hold it? */
bool naive_has(struct bytes key, struct bytes end, struct bytes candidate);

/* The last change of the key that is not later; NULL if it was not alive then. */
const struct naive_change *naive_alive(const struct naive *n, unsigned key, struct revision at);

/* The lease the key hangs on, as published; 0 for none. */
int64_t naive_lease_of(const struct naive *n, unsigned key);

/* NULL if there is none of that id. */
struct naive_lease *naive_find_lease(struct naive *n, int64_t id);

struct naive_result {
    int64_t count, kvs;
    bool more;
    struct buf bytes;
};

/* What a scan must say. The caller frees out->bytes. */
void naive_range(const struct naive *n, const struct mvcc_question *q, struct naive_result *out);

/* HashKV at a revision, when history was last compacted at `compacted`. A compaction there hashes
 * in the same way what it finds, but that it counts tombstones at its own revision among what it
 * keeps.
 */
uint32_t naive_hash(const struct naive *n, int64_t compacted, int64_t revision, bool of_compaction);

/* Must the store still have this change once all compaction is done? */
bool naive_keeps(const struct naive *n, const struct naive_change *c);

/* Is it overwritten under the same main revision? A compaction there may take it early. */
bool naive_is_overwritten_within(const struct naive *n, const struct naive_change *c);

struct pb_key_value naive_kv(const struct naive *n, const struct naive_change *c);
