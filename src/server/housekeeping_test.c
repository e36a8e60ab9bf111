#include "server/housekeeping.h"

#include "apply/apply_rig_test.h"
#include "base/logger.h"
#include "io/fake_world.h"
#include "server/storage_version.h"

#include <inttypes.h>
#include <stdio.h>

#define ELECTION_MS 1000
#define RETRY_MS    7000
#define CHECK_MS    5000

struct housekeeping_rig {
    struct fake_world *world;
    struct apply_rig apply_rig;
    struct api_facts facts;
    struct logger logger;
    struct housekeeping house;
    uint64_t proposals; /* so far: the next one's id is one more */
    struct log_snapshot snapshot;
    struct version_range servers;
    bool is_silent; /* one of them does not tell */
};

static void rig_open(struct housekeeping_rig *r)
{
    *r = (struct housekeeping_rig){
        .servers = {.lowest = version_of_server(), .highest = version_of_server()},
        .world = fake_world_new(test_seed()),
        .facts = {.member_id = APPLY_RIG_OWN_ID, .now_ms = 50000, .election_ms = ELECTION_MS},
        .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    apply_rig_init_settling(&r->apply_rig, BACKEND_RIG_MEMORY, 3);
    r->apply_rig.now_ms = r->facts.now_ms;
    housekeeping_init(&r->house,
                      &(struct housekeeping_options){.backend = r->apply_rig.backend_rig.b,
                                                     .auth = r->apply_rig.auth,
                                                     .mvcc = r->apply_rig.mvcc,
                                                     .leases = r->apply_rig.leases,
                                                     .cluster = r->apply_rig.cluster,
                                                     .apply = r->apply_rig.apply,
                                                     .clock = fake_world_io(r->world)->clock,
                                                     .logger = &r->logger,
                                                     .snapshot = &r->snapshot,
                                                     .facts = &r->facts,
                                                     .attributes = {.name = BYTES("m")},
                                                     .commit_interval_ms = 100,
                                                     .publish_retry_ms = RETRY_MS,
                                                     .downgrade_check_ms = CHECK_MS,
                                                     .settle_steps = 1},
                      "");
    r->house.last_commit_ms = r->facts.now_ms;
}

static void rig_close(struct housekeeping_rig *r)
{
    housekeeping_check(&r->house);
    housekeeping_stop(&r->house);
    apply_rig_free(&r->apply_rig);
    fake_world_free(r->world);
}

static bool work(struct housekeeping_rig *r)
{
    bool more = housekeeping_work(&r->house);

    housekeeping_check(&r->house);
    return more;
}

/* The next proposal as text, "" if there is none. It gets an id. */
static const char *take(struct housekeeping_rig *r)
{
    static struct buf text;
    struct pb_internal_raft_request request;

    buf_clear(&text);
    if (housekeeping_wants_versions(&r->house))
        housekeeping_versions(&r->house, r->is_silent ? NULL : &r->servers);
    if (housekeeping_take_proposal(&r->house, &request)) {
        if (request.alarm)
            buf_printf(&text, "alarm %d of %" PRIx64, (int)request.alarm->alarm,
                       request.alarm->member_id);
        if (request.lease_revoke)
            buf_printf(&text, "revoke %" PRId64, request.lease_revoke->id);
        if (request.cluster_version_set)
            buf_printf(&text, "version %.*s", (int)request.cluster_version_set->ver.len,
                       (const char *)request.cluster_version_set->ver.at);
        if (request.downgrade_info_set)
            buf_append_str(&text, request.downgrade_info_set->enabled ? "downgrade" : "done");
        if (request.cluster_member_attr_set)
            buf_printf(&text, "publish %.*s",
                       (int)request.cluster_member_attr_set->member_attributes->name.len,
                       (const char *)request.cluster_member_attr_set->member_attributes->name.at);
        housekeeping_proposed(&r->house, &request, ++r->proposals);
    }
    housekeeping_check(&r->house);
    return buf_str(&text);
}

static void add_self(struct housekeeping_rig *r)
{
    struct raft_conf_change cc = {.id = 99, .node_id = APPLY_RIG_OWN_ID, .type = RAFT_ADD_NODE};
    struct buf context = {0}, data = {0};

    buf_printf(&context, "{\"id\":%d,\"peerURLs\":[\"http://a:1\"]}", APPLY_RIG_OWN_ID);
    cc.context = buf_bytes(&context);
    raft_conf_change_encode(&cc, &data);
    CHECK(apply_rig_entry(&r->apply_rig, RAFT_ENTRY_CONF_CHANGE, buf_bytes(&data)));
    apply_rig_done(&r->apply_rig);
    buf_free(&context);
    buf_free(&data);
}

static void set_version(struct housekeeping_rig *r, const char *text)
{
    struct pb_cluster_version_set_request set = {.ver = bytes_of_str(text)};

    CHECK_EQ(apply_rig_do(&r->apply_rig,
                          &(struct pb_internal_raft_request){.cluster_version_set = &set}),
             RESULT_OK);
}

/* --- the page store --- */

static bool is_committing(const struct housekeeping_rig *r)
{
    return r->apply_rig.backend_rig.job != NULL;
}

TEST(the_store_is_committed_after_its_interval)
{
    struct housekeeping_rig r;
    rig_open(&r);
    CHECK_EQ(apply_rig_put(&r.apply_rig, "k", "v", 0), RESULT_OK);

    r.facts.now_ms += 99;
    work(&r);
    CHECK(!is_committing(&r));
    r.facts.now_ms++;
    work(&r);
    CHECK(is_committing(&r));
    backend_rig_settle(&r.apply_rig.backend_rig);
    CHECK_EQ(backend_durable(r.apply_rig.backend_rig.b).index, 1);

    rig_close(&r);
}

TEST(the_store_is_committed_early_when_much_is_pending)
{
    struct housekeeping_rig r;
    static char large[1 * MIB + 1];
    rig_open(&r);
    memset(large, 'x', sizeof(large) - 1);

    for (unsigned i = 0; i < HOUSEKEEPING_COMMIT_BYTES / MIB - 1; i++)
        CHECK_EQ(apply_rig_put(&r.apply_rig, "k", large, 0), RESULT_OK);
    work(&r);
    CHECK(!is_committing(&r));
    CHECK_EQ(apply_rig_put(&r.apply_rig, "k", large, 0), RESULT_OK);
    work(&r);
    CHECK(is_committing(&r));

    backend_rig_settle(&r.apply_rig.backend_rig);
    rig_close(&r);
}

/* Whoever waits for a physical compaction does not wait for the interval, too. */
TEST(a_compaction_that_waits_for_its_note_hurries_the_commit)
{
    struct housekeeping_rig r;
    struct pb_compaction_request request = {.revision = 3, .physical = true};
    rig_open(&r);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(apply_rig_put(&r.apply_rig, "k", "v", 0), RESULT_OK);

    CHECK_EQ(apply_rig_do(&r.apply_rig, &(struct pb_internal_raft_request){.compaction = &request}),
             RESULT_OK);
    CHECK(mvcc_compact_waiting(r.apply_rig.mvcc));
    work(&r);
    CHECK(is_committing(&r));
    backend_rig_settle(&r.apply_rig.backend_rig);
    for (unsigned i = 0; mvcc_compact_finished(r.apply_rig.mvcc) < 3; i++) {
        CHECK(i < 100);
        r.facts.now_ms += 100; /* that it is done is for the ordinary commits to keep */
        work(&r);
        backend_rig_settle(&r.apply_rig.backend_rig);
    }
    CHECK(!mvcc_compact_pending(r.apply_rig.mvcc));

    rig_close(&r);
}

/* An entry of any size is applied as far as one batch goes, and on after the commit. */
TEST(a_large_entry_whose_part_is_due_hurries_the_commit)
{
    struct housekeeping_rig r;
    static uint8_t value[64 * KIB];
    char key[] = "x00000";
    rig_open(&r);
    struct backend *b = r.apply_rig.backend_rig.b;

    backend_entry_begin(b);
    backend_entry_divide(b, BUCKET_KEY, BYTES("x"));
    work(&r);
    CHECK(!is_committing(&r));
    for (unsigned i = 0; !backend_part_is_due(b); i++) {
        snprintf(key, sizeof(key), "x%05u", i);
        backend_put(b, BUCKET_KEY, bytes_of_str(key), bytes_of(value, sizeof(value)));
    }
    CHECK(backend_pending_bytes(b) < HOUSEKEEPING_COMMIT_BYTES);
    work(&r);
    CHECK(is_committing(&r));
    backend_rig_settle(&r.apply_rig.backend_rig);
    backend_entry_end(b, (struct backend_position){.index = 1, .term = 1}, (struct bytes){0});

    rig_close(&r);
}

TEST(a_large_delete_is_settled_in_slices_with_a_pause_between_them)
{
    struct housekeeping_rig r;
    char key[8];
    rig_open(&r);
    for (unsigned i = 0; i < 20; i++) {
        snprintf(key, sizeof(key), "k%02u", i);
        CHECK_EQ(apply_rig_put(&r.apply_rig, key, "v", 0), RESULT_OK);
    }
    CHECK_EQ(apply_rig_delete(&r.apply_rig, "k", "l"), RESULT_OK);
    CHECK(mvcc_is_settling(r.apply_rig.mvcc));

    CHECK(!work(&r)); /* the timer will wake us: nobody turns in circles until then */
    CHECK(timer_is_set(&r.house.settle_timer));
    CHECK(mvcc_is_settling(r.apply_rig.mvcc));
    size_t before = backend_pending_bytes(r.apply_rig.backend_rig.b);
    CHECK(!work(&r));
    CHECK_EQ(backend_pending_bytes(r.apply_rig.backend_rig.b),
             before); /* not before the pause is over */

    bool more = false;
    for (unsigned i = 0; mvcc_is_settling(r.apply_rig.mvcc); i++) {
        CHECK(i < 1000);
        while (timer_is_set(&r.house.settle_timer))
            CHECK(fake_world_step(r.world));
        more = work(&r);
        backend_rig_settle(&r.apply_rig.backend_rig);
    }
    CHECK(more); /* watchers have waited for the end of it */

    rig_close(&r);
}

/* As --compaction-batch-limit and --compaction-sleep-interval say. */
TEST(a_compaction_pauses_after_each_batch)
{
    struct housekeeping_rig r;
    unsigned pauses = 0;
    rig_open(&r);
    for (unsigned i = 0; i < 20; i++)
        CHECK_EQ(apply_rig_put(&r.apply_rig, "k", "v", 0), RESULT_OK);
    r.house.o.compact_steps = 2;
    r.house.o.compact_batch = r.house.batch_left = 4;
    r.house.o.compact_pause_ns = 30000000;
    CHECK_EQ(mvcc_compact(r.apply_rig.mvcc, 21), MVCC_OK);

    uint64_t began_ns = clock_now_ns(r.house.o.clock);
    for (unsigned i = 0; mvcc_compact_pending(r.apply_rig.mvcc); i++) {
        CHECK(i < 1000);
        bool more = work(&r);
        backend_rig_settle(&r.apply_rig.backend_rig);
        if (!timer_is_set(&r.house.compact_timer))
            continue;
        CHECK(!more);
        pauses++;
        while (timer_is_set(&r.house.compact_timer))
            CHECK(fake_world_step(r.world));
    }
    CHECK(pauses >= 2);
    CHECK(clock_now_ns(r.house.o.clock) - began_ns >= pauses * r.house.o.compact_pause_ns);

    rig_close(&r);
}

/* --- the quota --- */

TEST(the_alarm_is_raised_once_per_election_timeout)
{
    struct housekeeping_rig r;
    rig_open(&r);
    CHECK_STR(take(&r), "");

    housekeeping_quota_exceeded(&r.house);
    housekeeping_quota_exceeded(&r.house);
    CHECK_STR(take(&r), "alarm 1 of 1001");
    CHECK_STR(take(&r), "");
    r.facts.now_ms += ELECTION_MS - 1;
    housekeeping_quota_exceeded(&r.house);
    CHECK_STR(take(&r), "");
    r.facts.now_ms++;
    housekeeping_quota_exceeded(&r.house);
    CHECK_STR(take(&r), "alarm 1 of 1001");

    rig_close(&r);
}

/* --- leases --- */

static void grant(struct housekeeping_rig *r, int64_t id, int64_t ttl)
{
    struct pb_lease_grant_request request = {.id = id, .ttl = ttl};

    CHECK_EQ(
        apply_rig_do(&r->apply_rig, &(struct pb_internal_raft_request){.lease_grant = &request}),
        RESULT_OK);
}

static void lead(struct housekeeping_rig *r)
{
    r->facts.leader = APPLY_RIG_OWN_ID;
    r->facts.is_leader = true;
    r->house.next_version_ms = UINT64_MAX; /* not what these tests are about */
    lease_promote(r->apply_rig.leases, r->facts.now_ms, 0);
    while (work(r))
        ;
}

TEST(expired_leases_are_revoked_by_the_leader)
{
    struct housekeeping_rig r;
    rig_open(&r);
    grant(&r, 7, 10);
    grant(&r, 8, 10);
    grant(&r, 9, 60);
    lead(&r);

    CHECK_STR(take(&r), "");
    r.facts.now_ms += 10000;
    r.facts.is_leader = false;
    CHECK_STR(take(&r), "");
    r.facts.is_leader = true;
    CHECK_STR(take(&r), "revoke 7");
    CHECK_STR(take(&r), "revoke 8");
    CHECK_STR(take(&r), "");

    rig_close(&r);
}

TEST(expired_leases_are_looked_for_twice_a_second_and_a_bounded_number_of_them)
{
    struct housekeeping_rig r;
    rig_open(&r);
    for (int64_t id = 1; id <= LEASE_REVOKES_MAX + 3; id++)
        grant(&r, id, 10);
    lead(&r);
    r.facts.now_ms += 10000;

    for (unsigned i = 0; i < LEASE_REVOKES_MAX; i++)
        CHECK(*take(&r));
    CHECK_STR(take(&r), "");
    r.facts.now_ms += HOUSEKEEPING_LEASE_MS - 1;
    CHECK_STR(take(&r), "");
    r.facts.now_ms++;
    CHECK(*take(&r));
    CHECK(*take(&r));
    CHECK(*take(&r));
    CHECK_STR(take(&r), "");

    rig_close(&r);
}

TEST(no_lease_is_revoked_while_earlier_revokes_are_under_way)
{
    struct housekeeping_rig r;
    rig_open(&r);
    grant(&r, 7, 10);
    grant(&r, 8, 12);
    lead(&r);
    r.facts.now_ms += 10000;
    CHECK_STR(take(&r), "revoke 7");
    CHECK_STR(take(&r), "");

    housekeeping_await_revokes(&r.house, true);
    r.facts.now_ms += 2 * LEASE_RETRY_MS;
    CHECK_STR(take(&r), "");
    housekeeping_await_revokes(&r.house, false);
    CHECK_STR(take(&r), "revoke 8");
    CHECK_STR(take(&r), "revoke 7"); /* it was lost */
    CHECK_STR(take(&r), "");

    rig_close(&r);
}

/* --- versions --- */

TEST(a_leader_sets_the_version_of_the_cluster)
{
    struct housekeeping_rig r;
    rig_open(&r);

    CHECK_STR(take(&r), "");
    r.facts.is_leader = true;
    CHECK_STR(take(&r), "version 3.7.0");
    CHECK_STR(take(&r), "");
    r.facts.now_ms += HOUSEKEEPING_VERSION_MS - 1;
    CHECK_STR(take(&r), "");
    r.facts.now_ms++;
    CHECK_STR(take(&r), "version 3.7.0"); /* it was lost on the way */
    set_version(&r, "3.7.0");
    r.facts.now_ms += HOUSEKEEPING_VERSION_MS;
    CHECK_STR(take(&r), "");

    rig_close(&r);
}

TEST(a_cluster_is_of_the_version_that_all_its_servers_have)
{
    struct housekeeping_rig r;
    rig_open(&r);
    r.facts.is_leader = true;

    r.is_silent = true;
    CHECK_STR(take(&r), "version 3.0.0"); /* somebody did not say */
    set_version(&r, "3.0.0");
    r.facts.now_ms += HOUSEKEEPING_VERSION_MS;
    CHECK_STR(take(&r), "");
    r.is_silent = false;
    r.servers.lowest = (struct version){3, 6, 4};
    r.facts.now_ms += HOUSEKEEPING_VERSION_MS;
    CHECK_STR(take(&r), "version 3.6.0");

    rig_close(&r);
}

TEST(whoever_leads_no_more_sets_no_version)
{
    struct housekeeping_rig r;
    rig_open(&r);
    r.facts.is_leader = true;
    CHECK(housekeeping_wants_versions(&r.house));

    r.facts.is_leader = false;
    housekeeping_versions(&r.house, &r.servers);
    CHECK_STR(take(&r), "");

    rig_close(&r);
}

static void check_note(struct housekeeping_rig *r, const char *want)
{
    char found[VERSION_TEXT_MAX];
    struct buf why = {0};

    CHECK_EQ(storage_version_read(r->apply_rig.backend_rig.b, found, &why), ERR_OK);
    CHECK_STR(found, want);
    CHECK_STR(r->house.storage_version, want);
    buf_free(&why);
}

TEST(the_version_of_the_store_follows_that_of_the_cluster)
{
    struct housekeeping_rig r;
    rig_open(&r);

    work(&r);
    check_note(&r, "");
    set_version(&r, "3.0.0"); /* is no version yet, only a beginning */
    work(&r);
    check_note(&r, "");
    set_version(&r, "3.7.0");
    work(&r);
    check_note(&r, "3.7.0");
    set_version(&r, "3.6.0");
    work(&r);
    check_note(&r, "3.6.0");
    set_version(&r, "3.5.0"); /* of which no store has a note */
    work(&r);
    check_note(&r, "");

    rig_close(&r);
}

TEST(the_version_of_the_store_is_not_written_in_the_middle_of_an_entry)
{
    struct housekeeping_rig r;
    struct pb_put_request put = {.key = BYTES("k")};
    rig_open(&r);
    set_version(&r, "3.7.0");

    CHECK(apply_rig_request(&r.apply_rig, &(struct pb_internal_raft_request){.put = &put}));
    work(&r);
    CHECK_STR(r.house.storage_version, "");
    apply_rig_done(&r.apply_rig);
    work(&r);
    check_note(&r, "3.7.0");

    rig_close(&r);
}

/* Behind it, the log has nothing that the lower version could fail to read. */
TEST(the_version_of_the_store_is_lowered_once_the_log_begins_there)
{
    struct housekeeping_rig r;
    rig_open(&r);
    set_version(&r, "3.7.0");
    work(&r);

    set_version(&r, "3.6.0");
    log_snapshot_want(&r.snapshot, 2);
    work(&r);
    check_note(&r, "3.7.0");
    log_snapshot_installed(&r.snapshot, 2);
    work(&r);
    check_note(&r, "3.6.0");

    rig_close(&r);
}

/* It ended before it had made the snapshot that was wanted: the next start wants it too. */
TEST(a_store_that_is_to_be_lowered_at_boot_wants_a_snapshot_first)
{
    struct housekeeping_rig r;
    rig_open(&r);
    set_version(&r, "3.7.0");
    work(&r);
    set_version(&r, "3.6.0");
    r.facts.applied_index = 2;
    struct housekeeping_options options = r.house.o;

    housekeeping_init(&r.house, &options, "3.7.0");
    CHECK(log_snapshot_is_wanted(&r.snapshot));
    work(&r);
    check_note(&r, "3.7.0");
    log_snapshot_installed(&r.snapshot, 2);
    housekeeping_init(&r.house, &options, "3.7.0");
    CHECK(!log_snapshot_is_wanted(&r.snapshot)); /* there is one */
    work(&r);
    check_note(&r, "3.6.0");

    rig_close(&r);
}

static void enable_downgrade(struct housekeeping_rig *r, const char *target)
{
    struct pb_downgrade_info_set_request set = {.enabled = true, .ver = bytes_of_str(target)};

    CHECK_EQ(
        apply_rig_do(&r->apply_rig, &(struct pb_internal_raft_request){.downgrade_info_set = &set}),
        RESULT_OK);
}

TEST(a_leader_lowers_the_version_of_the_cluster_when_a_downgrade_is_enabled)
{
    struct housekeeping_rig r;
    rig_open(&r);
    r.facts.is_leader = true;
    CHECK_STR(take(&r), "version 3.7.0");
    set_version(&r, "3.7.0");
    enable_downgrade(&r, "3.6.0");

    r.facts.now_ms += HOUSEKEEPING_VERSION_MS;
    r.is_silent = true;
    CHECK_STR(take(&r), ""); /* perhaps somebody is too new to get there */
    r.is_silent = false;
    r.facts.now_ms += HOUSEKEEPING_VERSION_MS;
    CHECK_STR(take(&r), "version 3.6.0");
    set_version(&r, "3.6.0");
    for (unsigned i = 0; i < 4; i++) { /* nothing else until all are replaced */
        r.facts.now_ms += HOUSEKEEPING_VERSION_MS;
        CHECK_STR(take(&r), "");
    }

    rig_close(&r);
}

/* To 3.7, from a version that is still to come. */
TEST(a_downgrade_is_over_when_all_servers_run_its_target)
{
    struct housekeeping_rig r;
    rig_open(&r);
    r.facts.is_leader = true;
    set_version(&r, "3.7.0");
    enable_downgrade(&r, "3.7.0");

    r.servers.highest = (struct version){3, 8, 0};
    CHECK_STR(take(&r), "");
    r.servers.highest = (struct version){3, 7, 9};
    r.facts.now_ms += CHECK_MS - 1;
    CHECK_STR(take(&r), ""); /* it was looked at a moment ago */
    r.facts.now_ms++;
    r.is_silent = true;
    CHECK_STR(take(&r), "");
    r.is_silent = false;
    CHECK(!housekeeping_wants_versions(&r.house)); /* whoever is silent is not pestered */
    r.facts.now_ms += CHECK_MS;
    CHECK_STR(take(&r), "done");
    r.house.o.downgrade_check_ms = 0;
    r.facts.now_ms += 2 * CHECK_MS;
    CHECK_STR(take(&r), ""); /* the operator does it himself */

    rig_close(&r);
}

/* --- being known --- */

TEST(this_member_is_published_until_its_own_word_comes_back)
{
    struct housekeeping_rig r;
    rig_open(&r);

    r.facts.leader = 5;
    CHECK_STR(take(&r), ""); /* nobody has added it yet */
    add_self(&r);
    r.facts.leader = 0;
    CHECK_STR(take(&r), "");
    r.facts.leader = 5;
    CHECK_STR(take(&r), "publish m");
    uint64_t first = r.proposals;
    CHECK_STR(take(&r), "");
    CHECK(!housekeeping_applied(&r.house, 0));
    CHECK(!housekeeping_applied(&r.house, first + 1));
    CHECK(!housekeeping_is_published(&r.house));

    r.facts.now_ms += RETRY_MS;
    CHECK_STR(take(&r), "publish m"); /* the first was lost, or is late */
    CHECK(!housekeeping_applied(&r.house, first));
    CHECK(housekeeping_applied(&r.house, r.proposals));
    CHECK(housekeeping_is_published(&r.house));
    CHECK(!housekeeping_applied(&r.house, r.proposals)); /* once */
    r.facts.now_ms += RETRY_MS;
    CHECK_STR(take(&r), "");

    rig_close(&r);
}

TEST(another_leader_is_told_who_we_are_at_once)
{
    struct housekeeping_rig r;
    rig_open(&r);
    add_self(&r);
    r.facts.leader = 5;
    CHECK_STR(take(&r), "publish m");

    r.facts.leader = 0;
    CHECK_STR(take(&r), "");
    r.facts.leader = 6;
    CHECK_STR(take(&r), "publish m");
    CHECK_STR(take(&r), "");
    CHECK(housekeeping_applied(&r.house, r.proposals));

    rig_close(&r);
}

TEST(a_member_is_published_again_when_its_state_was_replaced)
{
    struct housekeeping_rig r;
    rig_open(&r);
    add_self(&r);
    r.facts.leader = 5;
    CHECK_STR(take(&r), "publish m");
    CHECK_STR(take(&r), "");

    housekeeping_state_replaced(&r.house, &(struct state){.backend = r.apply_rig.backend_rig.b,
                                                          .mvcc = r.apply_rig.mvcc,
                                                          .leases = r.apply_rig.leases,
                                                          .cluster = r.apply_rig.cluster,
                                                          .apply = r.apply_rig.apply});

    CHECK_STR(take(&r), "publish m");
    CHECK(housekeeping_applied(&r.house, r.proposals));
    rig_close(&r);
}

TEST(the_check_of_housekeeping_notices)
{
    struct housekeeping_rig r;
    rig_open(&r);

    r.house.is_published = true;
    CHECK_DIES(housekeeping_check(&r.house), "publish_id");
    r.house.is_published = false;
    r.house.revoked = 1;
    CHECK_DIES(housekeeping_check(&r.house), "revoked");
    r.house.revoked = 0;
    r.house.storage_version[0] = 'x';
    CHECK_DIES(housekeeping_check(&r.house), "storage_version");
    r.house.storage_version[0] = 0;

    rig_close(&r);
}

/* --- the note itself --- */

static void check_refused(struct housekeeping_rig *r, struct bytes note, enum err e,
                          const char *text)
{
    char found[VERSION_TEXT_MAX];
    struct buf why = {0};

    storage_version_write(r->apply_rig.backend_rig.b, note);
    CHECK_EQ(storage_version_read(r->apply_rig.backend_rig.b, found, &why), e);
    CHECK_STR(buf_str(&why), text);
    buf_free(&why);
}

TEST(a_store_of_a_newer_version_or_of_none_is_refused)
{
    struct housekeeping_rig r;
    rig_open(&r);

    check_refused(&r, BYTES("3.7.9"), ERR_OK, "");
    check_refused(&r, BYTES("3.8.0"), ERR_UNSUPPORTED,
                  "Failed to validate schema: version \"3.8.0\" is not supported");
    check_refused(&r, BYTES("3.3.0"), ERR_UNSUPPORTED,
                  "Failed to validate schema: version \"3.4.0\" is not supported");
    check_refused(&r, BYTES("4.0.0"), ERR_UNSUPPORTED,
                  "Failed to validate schema: changing major storage version is not supported");
    check_refused(&r, BYTES("3.5.0"), ERR_OK, "");
    check_refused(&r, BYTES("new"), ERR_CORRUPT, "the store's version is not one: \"new\"");
    storage_version_write(r.apply_rig.backend_rig.b, BYTES(""));

    rig_close(&r);
}
