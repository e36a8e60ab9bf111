/* Whatever an entry changes is seen in the digest, in its part; what no entry has changed is not.
 */
#include "server/digest.h"

#include "apply/apply_rig_test.h"
#include "mvcc/mvcc.h"
#include "server/state.h"

static bool try_digest(const struct apply_rig *d, struct digest *out)
{
    struct state state = {.backend = d->backend_rig.b,
                          .leases = d->leases,
                          .mvcc = d->mvcc,
                          .cluster = d->cluster,
                          .apply = d->apply};

    return digest_take(&state, out);
}

static struct digest digest_of(const struct apply_rig *d)
{
    struct digest now;

    CHECK(try_digest(d, &now));
    CHECK_EQ(now.applied, d->log_count);
    return now;
}

/* Since the last look, these parts and no others are different. */
static void check_differs(const struct apply_rig *d, struct digest *last, unsigned parts)
{
    struct digest now = digest_of(d);

    for (int i = 0; i < DIGEST_PARTS; i++)
        if ((now.parts[i] != last->parts[i]) != ((parts >> i & 1) != 0))
            test_fail(__FILE__, __LINE__, "entry %zu: %s", d->log_count,
                      digest_part_name((enum digest_part)i));
    *last = now;
}

enum {
    KEYS = 1u << DIGEST_KEYS,
    LEASES = 1u << DIGEST_LEASES,
    ALARMS = 1u << DIGEST_ALARMS,
    CLUSTER = 1u << DIGEST_CLUSTER,
    RECORDS = 1u << DIGEST_RECORDS,
};

static void request(struct apply_rig *d, struct pb_internal_raft_request q)
{
    CHECK_EQ(apply_rig_do(d, &q), RESULT_OK);
}

static void grant(struct apply_rig *d, int64_t id, int64_t ttl)
{
    struct pb_lease_grant_request grant = {.id = id, .ttl = ttl};

    request(d, (struct pb_internal_raft_request){.lease_grant = &grant});
}

static void revoke(struct apply_rig *d, int64_t id)
{
    struct pb_lease_id revoke = {.id = id};

    request(d, (struct pb_internal_raft_request){.lease_revoke = &revoke});
}

static void compact(struct apply_rig *d, int64_t revision)
{
    struct pb_compaction_request compaction = {.revision = revision};

    request(d, (struct pb_internal_raft_request){.compaction = &compaction});
}

static void set_alarm(struct apply_rig *d, int32_t action)
{
    struct pb_alarm_request alarm = {
        .action = action, .member_id = APPLY_RIG_OWN_ID, .alarm = PB_ALARM_CORRUPT};

    request(d, (struct pb_internal_raft_request){.alarm = &alarm});
}

static void set_version(struct apply_rig *d, const char *version)
{
    struct pb_cluster_version_set_request set = {.ver = bytes_of_str(version)};

    request(d, (struct pb_internal_raft_request){.cluster_version_set = &set});
}

TEST(each_part_of_a_digest_shows_what_belongs_to_it)
{
    struct apply_rig d;

    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    struct digest last = digest_of(&d);
    CHECK_EQ(apply_rig_put(&d, "a", "1", 0), RESULT_OK);
    check_differs(&d, &last, KEYS);
    grant(&d, 7, 60);
    check_differs(&d, &last, LEASES | RECORDS);
    grant(&d, 5, 60);
    check_differs(&d, &last, LEASES | RECORDS);
    CHECK_EQ(apply_rig_put(&d, "a", "1", 7), RESULT_OK);
    check_differs(&d, &last, KEYS | LEASES);
    CHECK_EQ(apply_rig_put(&d, "b", "1", 0), RESULT_OK);
    check_differs(&d, &last, KEYS);
    CHECK_EQ(last.revision, 4);
    CHECK_EQ(last.compact_revision, -1);
    compact(&d, 4);
    check_differs(&d, &last, KEYS); /* the first put is not kept */
    CHECK_EQ(last.compact_revision, 4);
    set_version(&d, "3.6.0");
    check_differs(&d, &last, CLUSTER | RECORDS);
    set_alarm(&d, PB_ALARM_ACTIVATE);
    check_differs(&d, &last, ALARMS | RECORDS);
    set_alarm(&d, PB_ALARM_DEACTIVATE);
    check_differs(&d, &last, ALARMS | RECORDS);
    revoke(&d, 5);
    check_differs(&d, &last, LEASES | RECORDS);
    revoke(&d, 7);
    check_differs(&d, &last, KEYS | LEASES | RECORDS);
    apply_rig_free(&d);
}

/* As many keys as before, and others. */
TEST(a_digest_knows_which_keys_a_lease_has)
{
    struct apply_rig d;

    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    grant(&d, 7, 60);
    CHECK_EQ(apply_rig_put(&d, "a", "1", 7), RESULT_OK);
    struct digest last = digest_of(&d);
    CHECK_EQ(apply_rig_put(&d, "a", "1", 0), RESULT_OK);
    CHECK_EQ(apply_rig_put(&d, "b", "1", 7), RESULT_OK);
    check_differs(&d, &last, KEYS | LEASES);
    apply_rig_free(&d);
}

/* Memory is made anew, in another order; a compaction is through here and there not. */
TEST(a_digest_is_the_same_after_a_restart_and_after_a_crash)
{
    struct apply_rig d;

    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    grant(&d, 7, 60);
    grant(&d, 5, 30);
    CHECK_EQ(apply_rig_put(&d, "b", "1", 7), RESULT_OK);
    CHECK_EQ(apply_rig_put(&d, "a", "1", 7), RESULT_OK);
    CHECK_EQ(apply_rig_put(&d, "a", "2", 5), RESULT_OK);
    set_version(&d, "3.7.0");
    compact(&d, 3);
    set_alarm(&d, PB_ALARM_ACTIVATE);
    struct digest last = digest_of(&d);
    CHECK(mvcc_compact_pending(d.mvcc));

    backend_rig_commit(&d.backend_rig);
    while (!mvcc_compact_some(d.mvcc, 1))
        check_differs(&d, &last, 0);
    check_differs(&d, &last, 0);
    lease_promote(d.leases, 1000, 0); /* time is nobody else's business */
    check_differs(&d, &last, 0);
    apply_rig_restart(&d);
    check_differs(&d, &last, 0);
    apply_rig_crash(&d);
    check_differs(&d, &last, 0);
    apply_rig_free(&d);
}

/* Keys leave their lease one by one, which is no entry's doing. */
TEST(there_is_no_digest_before_a_large_delete_is_settled)
{
    struct apply_rig d;
    struct digest before;

    apply_rig_init_settling(&d, BACKEND_RIG_MEMORY, 2);
    grant(&d, 7, 60);
    CHECK_EQ(apply_rig_put(&d, "a", "1", 7), RESULT_OK);
    CHECK_EQ(apply_rig_put(&d, "b", "1", 7), RESULT_OK);
    struct digest last = digest_of(&d);
    CHECK_EQ(apply_rig_delete(&d, "a", "z"), RESULT_OK);
    CHECK(!try_digest(&d, &before));
    while (!mvcc_settle_some(d.mvcc, 1))
        CHECK(!try_digest(&d, &before));
    check_differs(&d, &last, KEYS | LEASES);
    apply_rig_free(&d);
}
