#include "server/digest.h"

#include "apply/apply.h"
#include "backend/backend.h"
#include "base/crc32c.h"
#include "cluster/cluster.h"
#include "lease/lease.h"
#include "mvcc/mvcc.h"
#include "server/state.h"

#include <limits.h>
#include <stdlib.h>

const char *digest_part_name(enum digest_part part)
{
#define DIGEST_PART_NAME(name, text) [name] = (text),
    static const char *const names[] = {DIGEST_PART_LIST(DIGEST_PART_NAME)};
#undef DIGEST_PART_NAME

    return names[part];
}

static uint32_t hash_number(uint32_t hash, uint64_t number)
{
    return crc32c(hash, bytes_of(&number, sizeof(number)));
}

/* With its length, or the end of one could be the beginning of the next. */
static uint32_t hash_bytes(uint32_t hash, struct bytes what)
{
    return crc32c(hash_number(hash, what.len), what);
}

/* Nothing is unsettled, so it comes to its end. A store that is damaged has told so by itself, and
 * the member has failed. */
static uint32_t hash_keys(struct mvcc *m)
{
    struct mvcc_hash h = {.at_once = true};

    enum mvcc_result result = mvcc_hash_open(m, &h);
    assert(result == MVCC_OK);
    while (!mvcc_hash_some(m, &h, UINT_MAX))
        ;
    mvcc_hash_close(m, &h);
    return h.hash;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static uint32_t hash_lease(uint32_t hash, const struct lease_set *leases, int64_t id)
{
    struct bytes key = {0};
    struct lease_info info;

    bool is_there = lease_look(leases, id, 0, &info);
    assert(is_there);
    hash = hash_number(hash, (uint64_t)info.id);
    hash = hash_number(hash, (uint64_t)info.granted_ttl);
    hash = hash_number(hash, info.key_count);
    while (lease_next_key(leases, id, key, &key))
        hash = hash_bytes(hash, key);
    return hash;
}

/* In order of id: that of the grants is lost by a restart. */
static uint32_t hash_leases(const struct lease_set *leases)
{
    struct buf ids = {0};
    uint32_t hash = 0;

    lease_list(leases, &ids);
    int64_t *at = (int64_t *)(void *)ids.at;
    size_t count = ids.len / sizeof(*at);
    if (count > 0)
        qsort(at, count, sizeof(*at), compare_ids);
    for (size_t i = 0; i < count; i++)
        hash = hash_lease(hash, leases, at[i]);
    buf_free(&ids);
    return hash;
}

static uint32_t hash_alarms(const struct apply *apply)
{
    const struct apply_alarm *alarms;
    uint32_t hash = 0;

    size_t count = apply_alarms(apply, &alarms);
    for (size_t i = 0; i < count; i++)
        hash = hash_number(hash_number(hash, alarms[i].member), (uint64_t)alarms[i].alarm);
    return hash;
}

static uint32_t hash_cluster(const struct cluster *cluster)
{
    struct cluster_downgrade downgrade = cluster_downgrade(cluster);
    struct buf members = {0};
    size_t count;

    const struct pb_member *at = cluster_members(cluster, &count);
    member_json_write_list(at, count, &members);
    uint32_t hash = hash_bytes(0, buf_bytes(&members));
    buf_free(&members);
    const uint64_t *removed = cluster_removed(cluster, &count);
    for (size_t i = 0; i < count; i++)
        hash = hash_number(hash, removed[i]);
    hash = hash_bytes(hash, cluster_version(cluster));
    hash = hash_number(hash, downgrade.is_known + 2u * downgrade.enabled);
    return hash_bytes(hash, downgrade.target_version);
}

static uint32_t hash_bucket(uint32_t hash, struct backend_view *v, enum bucket bucket)
{
    struct backend_cursor c;
    struct bytes key, value;

    hash = hash_number(hash, bucket);
    backend_cursor_open(v, bucket, (struct bytes){0}, &c);
    while (backend_cursor_next(&c, &key, &value) == ERR_OK)
        hash = hash_bytes(hash_bytes(hash, key), value);
    backend_cursor_close(&c);
    return hash;
}

static uint32_t hash_records(struct backend *b)
{
    struct backend_view v;
    uint32_t hash = 0;

    backend_view_open(b, &v);
    for (int bucket = 0; bucket < BUCKET_COUNT; bucket++)
        if (bucket != BUCKET_KEY && bucket != BUCKET_META)
            hash = hash_bucket(hash, &v, (enum bucket)bucket);
    backend_view_close(&v);
    return hash;
}

bool digest_take(const struct state *state, struct digest *out)
{
    if (apply_is_busy(state->apply) || mvcc_is_settling(state->mvcc))
        return false;
    *out = (struct digest){
        .applied = backend_applied(state->backend).index,
        .revision = mvcc_revision(state->mvcc),
        .compact_revision = mvcc_compact_revision(state->mvcc),
        .parts = {[DIGEST_KEYS] = hash_keys(state->mvcc),
                  [DIGEST_LEASES] = hash_leases(state->leases),
                  [DIGEST_ALARMS] = hash_alarms(state->apply),
                  [DIGEST_CLUSTER] = hash_cluster(state->cluster),
                  [DIGEST_RECORDS] = hash_records(state->backend)},
    };
    return true;
}
