#include "api/api_rig_test.h"

#include <stdio.h>

#define RANGE        "/etcdserverpb.KV/Range", &pb_range_request_schema
#define PUT          "/etcdserverpb.KV/Put", &pb_put_request_schema
#define DELETE_RANGE "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema
#define TXN          "/etcdserverpb.KV/Txn", &pb_txn_request_schema
#define COMPACT      "/etcdserverpb.KV/Compact", &pb_compaction_request_schema

static void check_header(const struct pb_response_header *header, int64_t revision)
{
    CHECK(header);
    CHECK_EQ(header->cluster_id, API_RIG_CLUSTER_ID);
    CHECK_EQ(header->member_id, APPLY_RIG_OWN_ID);
    CHECK_EQ(header->raft_term, API_RIG_TERM);
    CHECK_EQ(header->revision, revision);
}

/* ---- What works ---- */

TEST(a_client_puts_gets_and_deletes)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_put_response put;
    struct pb_range_response range;
    struct pb_delete_range_response gone;
    api_rig_open(&k);

    api_rig_get(&k, PUT,
                &(struct pb_put_request){.key = BYTES("a"), .value = BYTES("one"), .prev_kv = true},
                &pb_put_response_schema, &arena, &put);
    check_header(put.header, 2);
    CHECK(!put.prev_kv);
    api_rig_get(&k, PUT,
                &(struct pb_put_request){.key = BYTES("a"), .value = BYTES("two"), .prev_kv = true},
                &pb_put_response_schema, &arena, &put);
    check_header(put.header, 3);
    CHECK_BYTES(put.prev_kv->value, BYTES("one"));

    api_rig_get(&k, RANGE, &(struct pb_range_request){.key = BYTES("a"), .revision = 2},
                &pb_range_response_schema, &arena, &range);
    check_header(range.header, 3);
    CHECK_EQ(range.count, 1);
    CHECK_BYTES(range.kvs.at[0].value, BYTES("one"));
    CHECK_EQ(k.confirmed, 1);

    api_rig_get(&k, DELETE_RANGE,
                &(struct pb_delete_range_request){
                    .key = BYTES("a"), .range_end = BYTES("b"), .prev_kv = true},
                &pb_delete_range_response_schema, &arena, &gone);
    check_header(gone.header, 4);
    CHECK_EQ(gone.deleted, 1);
    CHECK_BYTES(gone.prev_kvs.at[0].value, BYTES("two"));
    api_rig_get(&k, DELETE_RANGE, &(struct pb_delete_range_request){.key = BYTES("a")},
                &pb_delete_range_response_schema, &arena, &gone);
    check_header(gone.header, 4); /* nothing happened */

    arena_free(&arena);
    api_rig_close(&k);
}

TEST(a_serializable_read_asks_nobody)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_range_response range;
    api_rig_open(&k);
    api_rig_put(&k, "a", "one");
    k.failure = RESULT_TIMEOUT;

    api_rig_get(&k, RANGE, &(struct pb_range_request){.key = BYTES("a"), .serializable = true},
                &pb_range_response_schema, &arena, &range);
    CHECK_EQ(range.kvs.count, 1);
    CHECK_EQ(k.confirmed, 0);

    api_rig_refused(&k, RANGE, &(struct pb_range_request){.key = BYTES("a")}, RPC_UNAVAILABLE,
                    "etcdserver: request timed out");
    CHECK_EQ(k.confirmed, 1);

    arena_free(&arena);
    api_rig_close(&k);
}

static struct pb_request_op op_range(const struct pb_range_request *r)
{
    return (struct pb_request_op){.which = PB_OP_RANGE, .range = r};
}

/* Which road it takes: through the log, after a confirmation, or straight. */
static void check_road(struct api_rig *k, const struct pb_txn_request *txn, unsigned proposed,
                       unsigned confirmed)
{
    struct arena arena = {0};
    struct pb_txn_response response;
    unsigned proposed_before = k->proposed, confirmed_before = k->confirmed;

    api_rig_get(k, TXN, txn, &pb_txn_response_schema, &arena, &response);
    CHECK(response.succeeded);
    CHECK_EQ(k->proposed - proposed_before, proposed);
    CHECK_EQ(k->confirmed - confirmed_before, confirmed);
    arena_free(&arena);
}

TEST(a_txn_that_only_reads_is_not_proposed)
{
    struct api_rig k;
    api_rig_open(&k);
    struct pb_range_request fresh = {.key = BYTES("a")};
    struct pb_range_request stale = {.key = BYTES("a"), .serializable = true};
    struct pb_put_request put = {.key = BYTES("a")};
    struct pb_txn_request nested = {0};
    struct pb_request_op ops[2] = {op_range(&fresh), op_range(&stale)};
    struct pb_txn_request txn = {.success = {.at = ops, .count = 2}};

    check_road(&k, &txn, 0, 1);
    ops[0] = ops[1];
    check_road(&k, &txn, 0, 0);
    check_road(&k, &nested, 0, 0);
    ops[0] = (struct pb_request_op){.which = PB_OP_TXN, .txn = &nested};
    check_road(&k, &txn, 1, 0);
    ops[0] = (struct pb_request_op){.which = PB_OP_PUT, .put = &put};
    check_road(&k, &txn, 1, 0);

    api_rig_close(&k);
}

/* ---- What is refused, in etcd's words ---- */

TEST(kv_refuses_bad_arguments_as_etcd_does)
{
    struct api_rig k;
    api_rig_open(&k);
    const char *empty = "etcdserver: key is not provided";
    const char *sort = "etcdserver: invalid sort option";

    api_rig_refused(&k, RANGE, &(struct pb_range_request){.sort_order = 9}, RPC_INVALID_ARGUMENT,
                    empty);
    api_rig_refused(&k, RANGE, &(struct pb_range_request){.key = BYTES("a"), .sort_order = 3},
                    RPC_INVALID_ARGUMENT, sort);
    api_rig_refused(&k, RANGE, &(struct pb_range_request){.key = BYTES("a"), .sort_target = 5},
                    RPC_INVALID_ARGUMENT, sort);
    api_rig_refused(&k, RANGE, &(struct pb_range_request){.key = BYTES("a"), .sort_target = -1},
                    RPC_INVALID_ARGUMENT, sort);
    api_rig_refused(&k, PUT, &(struct pb_put_request){.value = BYTES("v")}, RPC_INVALID_ARGUMENT,
                    empty);
    api_rig_refused(
        &k, PUT,
        &(struct pb_put_request){.key = BYTES("a"), .value = BYTES("v"), .ignore_value = true},
        RPC_INVALID_ARGUMENT, "etcdserver: value is provided");
    api_rig_refused(&k, PUT,
                    &(struct pb_put_request){.key = BYTES("a"), .lease = 1, .ignore_lease = true},
                    RPC_INVALID_ARGUMENT, "etcdserver: lease is provided");
    api_rig_refused(&k, DELETE_RANGE, &(struct pb_delete_range_request){.range_end = BYTES("b")},
                    RPC_INVALID_ARGUMENT, empty);
    CHECK_EQ(k.proposed + k.confirmed, 0);

    api_rig_close(&k);
}

TEST(kv_passes_on_what_apply_refuses)
{
    struct api_rig k;
    api_rig_open(&k);
    api_rig_put(&k, "a", "one");

    api_rig_refused(&k, PUT, &(struct pb_put_request){.key = BYTES("a"), .lease = 77},
                    RPC_NOT_FOUND, "etcdserver: requested lease not found");
    api_rig_refused(&k, PUT, &(struct pb_put_request){.key = BYTES("b"), .ignore_value = true},
                    RPC_INVALID_ARGUMENT, "etcdserver: key not found");
    api_rig_refused(&k, RANGE, &(struct pb_range_request){.key = BYTES("a"), .revision = 9},
                    RPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision");
    api_rig_refused(&k, COMPACT, &(struct pb_compaction_request){.revision = 9}, RPC_OUT_OF_RANGE,
                    "etcdserver: mvcc: required revision is a future revision");
    CHECK_EQ(k.proposed, 4);

    api_rig_close(&k);
}

TEST(kv_refuses_a_txn_with_too_many_operations)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_txn_response response;
    api_rig_options.txn_ops_max = 3;
    api_rig_open(&k);
    struct pb_compare compares[4] = {{.key = BYTES("a"), .result = PB_COMPARE_NOT_EQUAL},
                                     {.key = BYTES("a"), .result = PB_COMPARE_NOT_EQUAL},
                                     {.key = BYTES("a"), .result = PB_COMPARE_NOT_EQUAL},
                                     {.key = BYTES("a"), .result = PB_COMPARE_NOT_EQUAL}};
    struct pb_txn_request txn = {.compare = {.at = compares, .count = 4}};
    struct pb_put_request put = {.key = BYTES("a")};
    struct pb_request_op twice[2] = {{.which = PB_OP_PUT, .put = &put},
                                     {.which = PB_OP_PUT, .put = &put}};

    api_rig_refused(&k, TXN, &txn, RPC_INVALID_ARGUMENT,
                    "etcdserver: too many operations in txn request");
    txn.compare.count = 3;
    api_rig_get(&k, TXN, &txn, &pb_txn_response_schema, &arena, &response);
    CHECK(!response.succeeded);
    txn = (struct pb_txn_request){.failure = {.at = twice, .count = 2}};
    api_rig_refused(&k, TXN, &txn, RPC_INVALID_ARGUMENT,
                    "etcdserver: duplicate key given in txn request");
    twice[1] = (struct pb_request_op){0};
    api_rig_refused(&k, TXN, &txn, RPC_INVALID_ARGUMENT, "etcdserver: key not found");

    arena_free(&arena);
    api_rig_close(&k);
}

/* The store of these tests is never empty, so a quota of one byte is always exceeded. */
TEST(kv_checks_the_quota_before_anything_else_and_says_so)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_range_response range;
    const char *text = "etcdserver: mvcc: database space exceeded";
    api_rig_quota_bytes = 1;
    api_rig_open(&k);

    api_rig_refused(&k, PUT, &(struct pb_put_request){0}, RPC_RESOURCE_EXHAUSTED, text);
    CHECK_EQ(k.alarms, 1);
    const struct apply_alarm *alarms;
    CHECK_EQ(apply_alarms(k.apply_rig.apply, &alarms), 1);
    CHECK_EQ(alarms[0].member, APPLY_RIG_OWN_ID);
    CHECK_EQ(alarms[0].alarm, PB_ALARM_NOSPACE);

    api_rig_refused(&k, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                    &(struct pb_lease_grant_request){.ttl = 9}, RPC_RESOURCE_EXHAUSTED, text);
    CHECK_EQ(k.alarms, 1); /* it is up */
    api_rig_get(&k, RANGE, &(struct pb_range_request){.key = BYTES("a")}, &pb_range_response_schema,
                &arena, &range);
    struct pb_put_request put = {.key = BYTES("a")};
    struct pb_request_op op = {.which = PB_OP_PUT, .put = &put};
    api_rig_refused(&k, TXN, &(struct pb_txn_request){.success = {.at = &op, .count = 1}},
                    RPC_RESOURCE_EXHAUSTED, text);
    CHECK_EQ(k.alarms, 1);

    arena_free(&arena);
    api_rig_close(&k);
}

/* However the alarm fares, and whoever asks. */
TEST(a_write_over_the_quota_waits_for_its_alarm_alone)
{
    struct api_rig k;
    struct visit v = {0};
    api_rig_quota_bytes = 1;
    api_rig_open(&k);

    k.is_slow = true;
    api_rig_ask(&k, &v, PUT, &(struct pb_put_request){.key = BYTES("a")});
    api_rig_for_ms(&k, 100);
    CHECK_EQ(k.alarms, 1);
    CHECK_EQ(k.proposed, 0);
    CHECK(!v.is_over);
    k.failure = RESULT_TIMEOUT;
    api_rig_fulfil(&k);
    api_rig_for_ms(&k, 100);
    CHECK(v.is_over);
    CHECK_EQ(v.code, RPC_RESOURCE_EXHAUSTED);
    CHECK_EQ(api_status(k.api).calls, 0);

    visit_free(&v);
    api_rig_close(&k);
}

/* ---- Compact ---- */

TEST(a_physical_compaction_is_answered_when_it_is_durable)
{
    struct api_rig k;
    struct visit v, again;
    struct arena arena = {0};
    struct pb_header_response response;
    api_rig_open(&k);
    for (unsigned i = 0; i < 9; i++)
        api_rig_put(&k, "a", "x");
    k.keeps_commits = true;

    api_rig_get(&k, COMPACT, &(struct pb_compaction_request){.revision = 4},
                &pb_compaction_response_schema, &arena, &response);
    check_header(response.header, 10);
    api_rig_ask(&k, &v, COMPACT, &(struct pb_compaction_request){.revision = 6, .physical = true});
    api_rig_ask(&k, &again, COMPACT,
                &(struct pb_compaction_request){.revision = 5, .physical = true});
    api_rig_for_ms(&k, 500);
    CHECK(!v.is_over);
    CHECK(!again.is_over);

    k.keeps_commits = false;
    api_rig_expect(&k, &v, RPC_OK, "");
    api_rig_expect(&k, &again, RPC_OUT_OF_RANGE,
                   "etcdserver: mvcc: required revision has been compacted");
    CHECK(mvcc_compact_finished(k.apply_rig.mvcc) >= 6);
    api_rig_refused(&k, COMPACT, &(struct pb_compaction_request){.revision = 6}, RPC_OUT_OF_RANGE,
                    "etcdserver: mvcc: required revision has been compacted");
    api_rig_refused(&k, RANGE, &(struct pb_range_request){.key = BYTES("a"), .revision = 5},
                    RPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted");

    visit_free(&v);
    visit_free(&again);
    arena_free(&arena);
    api_rig_close(&k);
}

static void raise_corrupt(struct api_rig *k)
{
    struct pb_alarm_request alarm = {
        .action = PB_ALARM_ACTIVATE, .member_id = 5, .alarm = PB_ALARM_CORRUPT};

    api_rig_apply(k, &(struct pb_internal_raft_request){.alarm = &alarm});
}

TEST(a_physical_compaction_that_is_refused_does_not_wait_for_another)
{
    struct api_rig k;
    struct visit v, future, corrupt;
    api_rig_open(&k);
    for (unsigned i = 0; i < 9; i++)
        api_rig_put(&k, "a", "x");
    k.keeps_commits = true;
    api_rig_ask(&k, &v, COMPACT, &(struct pb_compaction_request){.revision = 6, .physical = true});

    api_rig_ask(&k, &future, COMPACT,
                &(struct pb_compaction_request){.revision = 11, .physical = true});
    api_rig_for_ms(&k, 500);
    CHECK(future.is_over);
    api_rig_expect(&k, &future, RPC_OUT_OF_RANGE,
                   "etcdserver: mvcc: required revision is a future revision");
    raise_corrupt(&k);
    api_rig_ask(&k, &corrupt, COMPACT,
                &(struct pb_compaction_request){.revision = 7, .physical = true});
    api_rig_for_ms(&k, 500);
    CHECK(corrupt.is_over);
    api_rig_expect(&k, &corrupt, RPC_DATA_LOSS, "etcdserver: corrupt cluster");
    CHECK(!v.is_over);
    k.keeps_commits = false;
    api_rig_expect(&k, &v, RPC_OK, "");

    visit_free(&v);
    visit_free(&future);
    visit_free(&corrupt);
    api_rig_close(&k);
}

/* ---- Long answers ---- */

static void put_behind(struct api_rig *k, const char *key, struct bytes value)
{
    struct pb_put_request put = {.key = bytes_of_str(key), .value = value};

    api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
}

static void put_many(struct api_rig *k, unsigned count, size_t value_bytes)
{
    struct buf value = {0};
    char key[16];

    memset(buf_extend(&value, value_bytes), 'v', value_bytes);
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%06u", i);
        put_behind(k, key, buf_bytes(&value));
    }
    buf_free(&value);
}

TEST(a_range_of_megabytes_waits_for_a_client_that_sleeps)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct pb_range_response range;
    api_rig_open(&k);
    put_many(&k, 200, 100000);

    api_rig_client_reads(&k, false);
    api_rig_ask(&k, &v, RANGE,
                &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    api_rig_for_ms(&k, 1000);
    CHECK_EQ(api_status(k.api).calls, 0); /* api is done with it; rpc reads on as it sends */
    CHECK(mvcc_status(k.apply_rig.mvcc).pins > 0);
    put_behind(&k, "k000001", BYTES("changed"));
    api_rig_client_reads(&k, true);
    api_rig_expect(&k, &v, RPC_OK, "");

    visit_decode(&v, 0, &pb_range_response_schema, &arena, &range);
    check_header(range.header, 201);
    CHECK_EQ(range.count, 200);
    CHECK_EQ(range.kvs.count, 200);
    CHECK_EQ(range.kvs.at[1].value.len, 100000);
    CHECK_EQ(mvcc_status(k.apply_rig.mvcc).pins, 0);

    visit_free(&v);
    arena_free(&arena);
    api_rig_close(&k);
}

/* A reader who never reads must not stop compaction for ever. */
TEST(a_reply_that_holds_up_compaction_is_given_up_after_a_minute)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    put_many(&k, 200, 100000);
    api_rig_client_reads(&k, false);
    api_rig_ask(&k, &v, RANGE,
                &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    api_rig_for_ms(&k, 1000);
    put_behind(&k, "k000001", BYTES("changed"));

    struct pb_compaction_request compact = {.revision = 202};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.compaction = &compact});
    api_rig_for_ms(&k, 30000);
    CHECK(mvcc_compact_finished(k.apply_rig.mvcc) < 202);
    api_rig_for_ms(&k, 40000);
    CHECK_EQ(mvcc_compact_finished(k.apply_rig.mvcc), 202);
    api_rig_client_reads(&k, true);
    api_rig_until_over(&k, &v);
    CHECK(v.code != RPC_OK);

    visit_free(&v);
    api_rig_close(&k);
}

/* It reads at the compaction's own revision, which keeps what it needs. */
TEST(a_reply_is_not_given_up_for_somebody_elses_pin)
{
    struct api_rig k;
    struct visit v;
    struct mvcc_scan pin = {.question = {.key = BYTES("k"), .at = revision_whole(50)}};
    api_rig_open(&k);
    put_many(&k, 200, 100000);
    mvcc_scan_open(k.apply_rig.mvcc, &pin);
    api_rig_client_reads(&k, false);
    api_rig_ask(&k, &v, RANGE,
                &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    api_rig_for_ms(&k, 1000);

    struct pb_compaction_request compact = {.revision = 201};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.compaction = &compact});
    api_rig_for_ms(&k, 100000);
    CHECK(mvcc_pin_in_the_way(k.apply_rig.mvcc) == &pin);
    api_rig_client_reads(&k, true);

    api_rig_expect(&k, &v, RPC_OK, "");
    mvcc_scan_close(&pin);
    visit_free(&v);
    api_rig_close(&k);
}

/* Reads at old revisions walk everything; several of them take turns. */
TEST(long_reads_go_on_in_slices)
{
    struct api_rig k;
    struct visit v[3];
    struct arena arena = {0};
    struct pb_range_response range;
    api_rig_open(&k);
    put_many(&k, 600, 10);
    put_behind(&k, "a", BYTES("x"));
    k.api_steps = 50;

    for (unsigned i = 0; i < 3; i++)
        api_rig_ask(&k, &v[i], RANGE,
                    &(struct pb_range_request){
                        .key = BYTES("\0"), .range_end = BYTES("\0"), .revision = 500 + i});
    for (unsigned i = 0; i < 3; i++) {
        api_rig_expect(&k, &v[i], RPC_OK, "");
        visit_decode(&v[i], 0, &pb_range_response_schema, &arena, &range);
        CHECK_EQ(range.kvs.count, 499 + i);
        visit_free(&v[i]);
    }

    arena_free(&arena);
    api_rig_close(&k);
}

/* ---- Clients that go ---- */

TEST(a_call_whose_client_goes_is_forgotten)
{
    struct api_rig k;
    struct visit put, range;
    api_rig_open(&k);
    api_rig_put(&k, "a", "one");
    k.is_slow = true;
    api_rig_ask(&k, &put, PUT, &(struct pb_put_request){.key = BYTES("a")});
    api_rig_ask(&k, &range, RANGE, &(struct pb_range_request){.key = BYTES("a")});
    api_rig_for_ms(&k, 100);
    CHECK_EQ(api_status(k.api).calls, 2);

    visit_free(&put); /* cancels */
    visit_free(&range);
    api_rig_for_ms(&k, 100);

    CHECK_EQ(k.forgotten, 2);
    CHECK_EQ(api_status(k.api).calls, 0);
    api_rig_close(&k);
}

TEST(a_call_that_takes_too_long_is_gone_for_the_server_too)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    k.is_slow = true;

    api_rig_ask_with(
        &k, &v,
        &(struct client_request){.path = "/etcdserverpb.KV/Put", .timeout_ns = 300 * NS_PER_MS},
        &pb_put_request_schema, &(struct pb_put_request){.key = BYTES("a")});
    api_rig_expect(&k, &v, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
    api_rig_for_ms(&k, 100);
    CHECK_EQ(k.forgotten, 1);

    visit_free(&v);
    api_rig_close(&k);
}

/* --- a cold store ------------------------------------------------------------------------- */

enum { COLD_READS = 300, COLD_VALUE_BYTES = 60 * KIB };

/* Is the value another one than this? Only the store can tell. */
static void ask_compare(struct api_rig *k, struct visit *v, unsigned nth)
{
    char key[16];

    snprintf(key, sizeof(key), "k%05u", nth);
    struct pb_range_request get = {
        .key = bytes_of_str(key), .serializable = true, .count_only = true};
    struct pb_request_op op = {.which = PB_OP_RANGE, .range = &get};
    struct pb_compare compare = {.key = bytes_of_str(key),
                                 .target = PB_TARGET_VALUE,
                                 .result = PB_COMPARE_NOT_EQUAL,
                                 .which = PB_OPERAND_VALUE,
                                 .value = BYTES("another")};
    struct pb_txn_request txn = {.compare = {.at = &compare, .count = 1},
                                 .success = {.at = &op, .count = 1}};
    api_rig_ask(k, v, TXN, &txn);
}

/* As at the end of a turn, and at the beginning of the next. */
static void work_as_server(struct api_rig *k)
{
    struct mvcc_warmup jobs[WARMING_THREADS];
    unsigned count = 0;

    api_work(k->api, MVCC_SLICE_STEPS);
    rpc_flush(k->rpc);
    api_check(k->api);
    for (unsigned i = 0; i < WARMING_THREADS; i++)
        count += mvcc_take_warmup(k->apply_rig.mvcc, i == 0, &jobs[count]);
    for (unsigned i = 0; i < count; i++) {
        mvcc_warmup_read(&jobs[i]);
        mvcc_warmed(&jobs[i]);
    }
}

/* Transactions that need more copies than are kept, and are more than one turn looks at. Each must
 * find its copy before the copies of others push it out. */
TEST(many_reads_of_a_cold_store_come_to_an_end)
{
    struct api_rig k;
    struct visit *reads = mem_new_array(COLD_READS, struct visit);
    struct buf value = {0};
    unsigned turns = 0;
    api_rig_open(&k);
    memset(buf_extend(&value, COLD_VALUE_BYTES), 'v', COLD_VALUE_BYTES);
    for (unsigned i = 0; i < COLD_READS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%05u", i);
        (void)api_rig_put(&k, key, buf_str(&value));
    }
    mvcc_set_cold(k.apply_rig.mvcc, true);
    for (unsigned i = 0; i < COLD_READS; i++)
        ask_compare(&k, &reads[i], i);
    for (unsigned i = 0; api_status(k.api).reads < COLD_READS; i++) {
        CHECK(i < 1000);
        fake_world_step(k.world);
        api_rig_turn(&k);
    }

    while (api_status(k.api).reads > 0) {
        CHECK(turns++ < COLD_READS / 5);
        work_as_server(&k);
    }

    mvcc_set_cold(k.apply_rig.mvcc, false);
    for (unsigned i = 0; i < COLD_READS; i++) {
        struct arena arena = {0};
        struct pb_txn_response response;
        api_rig_until_over(&k, &reads[i]);
        CHECK_EQ(reads[i].code, RPC_OK);
        visit_decode(&reads[i], 0, &pb_txn_response_schema, &arena, &response);
        CHECK(response.succeeded);
        arena_free(&arena);
        visit_free(&reads[i]);
    }
    buf_free(&value);
    mem_free(reads);
    api_rig_close(&k);
}
