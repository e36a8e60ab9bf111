#include "api/api_rig_test.h"

#include <stdio.h>

#define RANGE_STREAM "/etcdserverpb.KV/RangeStream", &pb_range_request_schema

static void put_key(struct api_rig *k, unsigned number, size_t value_bytes)
{
    struct buf value = {0};
    char key[16];

    memset(buf_extend(&value, value_bytes), 'v', value_bytes);
    snprintf(key, sizeof(key), "k%06u", number);
    struct pb_put_request put = {.key = bytes_of_str(key), .value = buf_bytes(&value)};
    api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
    buf_free(&value);
}

static void put_keys(struct api_rig *k, unsigned count, size_t value_bytes)
{
    for (unsigned i = 0; i < count; i++)
        put_key(k, i, value_bytes);
}

/* All messages of a stream that has ended: keys in order without a gap, and only the last has the
 * rest. Appends the number of keys in each to `shape`. */
static struct pb_range_response check_stream(const struct visit *v, struct arena *arena,
                                             struct buf *shape)
{
    struct pb_range_stream_response m = {0};
    unsigned next = 0;

    for (size_t i = 0; i < v->message_count; i++) {
        visit_decode(v, i, &pb_range_stream_response_schema, arena, &m);
        const struct pb_range_response *r = m.range_response;
        bool is_last = i + 1 == v->message_count;
        CHECK(r);
        CHECK_EQ(r->header != NULL, is_last);
        CHECK(is_last || (r->count == 0 && !r->more));
        for (size_t j = 0; j < r->kvs.count; j++) {
            char key[16];
            snprintf(key, sizeof(key), "k%06u", next++);
            CHECK_BYTES(r->kvs.at[j].key, bytes_of_str(key));
        }
        buf_printf(shape, "%zu ", r->kvs.count);
    }
    CHECK(v->message_count > 0);
    return *m.range_response;
}

static struct pb_range_response stream(struct api_rig *k, const struct pb_range_request *request,
                                       struct arena *arena, const char *shape)
{
    struct visit v;
    struct buf seen = {0};

    api_rig_ask(k, &v, RANGE_STREAM, request);
    api_rig_expect(k, &v, RPC_OK, "");
    struct pb_range_response last = check_stream(&v, arena, &seen);
    CHECK_STR(buf_str(&seen), shape);
    CHECK_EQ(last.header->cluster_id, API_RIG_CLUSTER_ID);
    CHECK_EQ(last.header->raft_term, API_RIG_TERM);
    visit_free(&v);
    buf_free(&seen);
    return (struct pb_range_response){
        .header = last.header, .count = last.count, .more = last.more};
}

TEST(a_range_stream_begins_small_and_doubles)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_range_request all = {.key = BYTES("k"), .range_end = BYTES("l")};
    struct pb_range_response r;
    api_rig_open(&k);

    r = stream(&k, &all, &arena, "0 ");
    CHECK_EQ(r.count, 0);
    CHECK_EQ(r.header->revision, 1);
    put_keys(&k, 10, 5);
    r = stream(&k, &all, &arena, "10 ");
    CHECK_EQ(r.count, 10);
    put_keys(&k, 100, 5);
    r = stream(&k, &all, &arena, "10 20 40 30 ");
    CHECK_EQ(r.count, 100);
    CHECK(!r.more);
    CHECK_EQ(r.header->revision, 111);

    arena_free(&arena);
    api_rig_close(&k);
}

TEST(a_range_stream_takes_a_ranges_options)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_range_request r = {.key = BYTES("k"), .range_end = BYTES("l")};
    struct pb_range_response last;
    api_rig_open(&k);
    put_keys(&k, 50, 5);

    r.limit = 15;
    last = stream(&k, &r, &arena, "10 5 ");
    CHECK_EQ(last.count, 50);
    CHECK(last.more);
    r.limit = 50;
    last = stream(&k, &r, &arena, "10 20 20 ");
    CHECK(!last.more);
    r = (struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l"), .count_only = true};
    last = stream(&k, &r, &arena, "0 ");
    CHECK_EQ(last.count, 50);
    CHECK_EQ(k.confirmed, 3);
    r = (struct pb_range_request){
        .key = BYTES("k"), .range_end = BYTES("l"), .revision = 6, .serializable = true};
    last = stream(&k, &r, &arena, "5 ");
    CHECK_EQ(last.header->revision, 51);
    CHECK_EQ(k.confirmed, 3);
    r = (struct pb_range_request){.key = BYTES("k"),
                                  .range_end = BYTES("l"),
                                  .limit = 7,
                                  .sort_target = PB_SORT_BY_MOD,
                                  .keys_only = true};
    stream(&k, &r, &arena, "7 ");

    arena_free(&arena);
    api_rig_close(&k);
}

/* etcd's store takes a negative limit for none, and the first chunk is everything. */
TEST(a_range_stream_with_a_negative_limit_is_one_message)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_range_request r = {.key = BYTES("k"), .range_end = BYTES("l"), .limit = -1};
    struct pb_range_response last;
    api_rig_open(&k);

    stream(&k, &r, &arena, "0 ");
    put_keys(&k, 100, 5);
    last = stream(&k, &r, &arena, "100 ");
    CHECK_EQ(last.count, 100);
    CHECK(!last.more);
    CHECK_EQ(last.header->revision, 101);
    r.limit = INT64_MIN;
    r.revision = 61;
    last = stream(&k, &r, &arena, "60 ");
    CHECK_EQ(last.count, 60);
    CHECK_EQ(last.header->revision, 101);
    for (unsigned i = 0; i < 20; i++)
        put_key(&k, i, 100000); /* more than a stream may have queued, or a slice may read */
    r.revision = 0;
    last = stream(&k, &r, &arena, "100 ");
    CHECK_EQ(last.count, 100);
    r.count_only = true;
    last = stream(&k, &r, &arena, "0 ");
    CHECK_EQ(last.count, 100);

    arena_free(&arena);
    api_rig_close(&k);
}

/* ---- In another order ---- */

enum { SORTED_KEYS = 1500 };

/* Keys in order, values in the opposite one, and the first third is put a second time. */
static void put_keys_crosswise(struct api_rig *k)
{
    for (unsigned i = 0; i < SORTED_KEYS + SORTED_KEYS / 3; i++) {
        unsigned number = i % SORTED_KEYS;
        char key[16], value[16];
        snprintf(key, sizeof(key), "k%06u", number);
        snprintf(value, sizeof(value), "v%06u", SORTED_KEYS - number);
        struct pb_put_request put = {.key = bytes_of_str(key), .value = bytes_of_str(value)};
        api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
    }
}

static void check_same_kv(const struct pb_key_value *a, const struct pb_key_value *b)
{
    CHECK_BYTES(a->key, b->key);
    CHECK_BYTES(a->value, b->value);
    CHECK_EQ(a->mod_revision, b->mod_revision);
    CHECK_EQ(a->create_revision, b->create_revision);
    CHECK_EQ(a->version, b->version);
}

/* The stream's messages put together are what a unary range says. */
static void check_stream_is_range(struct api_rig *k, const struct pb_range_request *request)
{
    struct visit v;
    struct arena arena = {0};
    struct pb_range_response range;
    struct pb_range_stream_response m = {0};
    size_t next = 0;
    api_rig_get(k, "/etcdserverpb.KV/Range", &pb_range_request_schema, request,
                &pb_range_response_schema, &arena, &range);

    api_rig_ask(k, &v, RANGE_STREAM, request);
    api_rig_expect(k, &v, RPC_OK, "");

    for (size_t i = 0; i < v.message_count; i++) {
        visit_decode(&v, i, &pb_range_stream_response_schema, &arena, &m);
        for (size_t j = 0; j < m.range_response->kvs.count; j++) {
            CHECK(next < range.kvs.count);
            check_same_kv(&m.range_response->kvs.at[j], &range.kvs.at[next++]);
        }
    }
    CHECK(m.range_response != NULL);
    CHECK_EQ(next, range.kvs.count);
    CHECK_EQ(m.range_response->count, range.count);
    CHECK_EQ(m.range_response->more, range.more);
    visit_free(&v);
    arena_free(&arena);
}

/* etcd sorts each message by itself and goes on behind its last key, so that past ten keys some
 * come twice and others never. */
TEST(a_range_stream_with_a_sort_target_is_sorted_as_a_whole)
{
    struct api_rig k;
    api_rig_open(&k);
    put_keys_crosswise(&k);

    for (int32_t target = PB_SORT_BY_KEY; target <= PB_SORT_BY_VALUE; target++) {
        struct pb_range_request r = {
            .key = BYTES("k"), .range_end = BYTES("l"), .sort_target = target};
        check_stream_is_range(&k, &r);
        r.keys_only = true;
        check_stream_is_range(&k, &r);
        r.limit = 700;
        check_stream_is_range(&k, &r);
        r.revision = SORTED_KEYS / 2;
        check_stream_is_range(&k, &r);
    }

    struct visit v;
    struct arena arena = {0};
    struct pb_range_stream_response m;
    api_rig_ask(&k, &v, RANGE_STREAM,
                &(struct pb_range_request){
                    .key = BYTES("k"), .range_end = BYTES("l"), .sort_target = PB_SORT_BY_VALUE});
    api_rig_expect(&k, &v, RPC_OK, "");
    visit_decode(&v, 0, &pb_range_stream_response_schema, &arena, &m);
    CHECK_BYTES(m.range_response->kvs.at[0].key, BYTES("k001499"));
    visit_free(&v);
    arena_free(&arena);
    api_rig_close(&k);
}

TEST(a_range_stream_refuses_what_etcd_refuses)
{
    struct api_rig k;
    struct pb_range_request r = {.key = BYTES("k"), .sort_order = PB_SORT_DESCEND};
    const char *sort = "RangeStream does not support custom sort orders";
    const char *filter = "RangeStream does not support revision filters";
    api_rig_open(&k);

    api_rig_refused(&k, RANGE_STREAM, &(struct pb_range_request){.sort_order = 7},
                    RPC_INVALID_ARGUMENT, "etcdserver: key is not provided");
    api_rig_refused(&k, RANGE_STREAM, &r, RPC_UNIMPLEMENTED, sort);
    r = (struct pb_range_request){
        .key = BYTES("k"), .sort_order = PB_SORT_ASCEND, .sort_target = PB_SORT_BY_MOD};
    api_rig_refused(&k, RANGE_STREAM, &r, RPC_UNIMPLEMENTED, sort);
    r = (struct pb_range_request){.key = BYTES("k"), .min_mod_revision = 1};
    api_rig_refused(&k, RANGE_STREAM, &r, RPC_UNIMPLEMENTED, filter);
    r = (struct pb_range_request){.key = BYTES("k"), .max_create_revision = 1};
    api_rig_refused(&k, RANGE_STREAM, &r, RPC_UNIMPLEMENTED, filter);
    r = (struct pb_range_request){.key = BYTES("k"), .revision = 99};
    api_rig_refused(&k, RANGE_STREAM, &r, RPC_OUT_OF_RANGE,
                    "etcdserver: mvcc: required revision is a future revision");

    api_rig_close(&k);
}

/* The whole is one revision, though it is changed while it is read, and little of it is in memory.
 */
TEST(a_range_stream_waits_for_its_reader_and_stays_at_its_revision)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct buf shape = {0};
    api_rig_open(&k);
    put_keys(&k, 100, 100000);
    api_rig_client_reads(&k, false);

    api_rig_ask(&k, &v, RANGE_STREAM,
                &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    api_rig_for_ms(&k, 2000);
    CHECK_EQ(api_status(k.api).streams, 1);
    CHECK_EQ(api_status(k.api).reads, 0); /* it waits, and is not asked all the time */
    put_key(&k, 99, 3);
    put_key(&k, 100, 3);
    api_rig_client_reads(&k, true);
    api_rig_expect(&k, &v, RPC_OK, "");
    struct pb_range_response last = check_stream(&v, &arena, &shape);
    CHECK_EQ(last.count, 100);
    CHECK_EQ(last.header->revision, 101);
    CHECK_EQ(last.kvs.at[last.kvs.count - 1].value.len, 100000);

    visit_free(&v);
    buf_free(&shape);
    arena_free(&arena);
    api_rig_close(&k);
}

TEST(a_range_stream_that_holds_up_compaction_ends_as_compacted)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    put_keys(&k, 100, 100000);
    api_rig_client_reads(&k, false);
    api_rig_ask(&k, &v, RANGE_STREAM,
                &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    api_rig_for_ms(&k, 2000);
    put_key(&k, 99, 3);

    struct pb_compaction_request compact = {.revision = 102};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.compaction = &compact});
    api_rig_for_ms(&k, 30000);
    CHECK(mvcc_compact_finished(k.apply_rig.mvcc) < 102);
    api_rig_for_ms(&k, 40000);
    CHECK_EQ(mvcc_compact_finished(k.apply_rig.mvcc), 102);
    api_rig_client_reads(&k, true);
    api_rig_expect(&k, &v, RPC_OUT_OF_RANGE,
                   "etcdserver: mvcc: required revision has been compacted");

    visit_free(&v);
    api_rig_close(&k);
}

/* It reads at the compaction's own revision, which keeps what it needs. */
TEST(a_range_stream_is_not_ended_for_somebody_elses_pin)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct buf shape = {0};
    struct mvcc_scan pin = {.question = {.key = BYTES("k"), .at = revision_whole(50)}};
    api_rig_open(&k);
    put_keys(&k, 100, 100000);
    mvcc_scan_open(k.apply_rig.mvcc, &pin);
    api_rig_client_reads(&k, false);
    api_rig_ask(&k, &v, RANGE_STREAM,
                &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    api_rig_for_ms(&k, 2000);

    struct pb_compaction_request compact = {.revision = 101};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.compaction = &compact});
    api_rig_for_ms(&k, 100000);
    CHECK(mvcc_pin_in_the_way(k.apply_rig.mvcc) == &pin);
    CHECK_EQ(api_status(k.api).streams, 1);
    api_rig_client_reads(&k, true);
    api_rig_expect(&k, &v, RPC_OK, "");

    CHECK_EQ(check_stream(&v, &arena, &shape).count, 100);
    mvcc_scan_close(&pin);
    visit_free(&v);
    buf_free(&shape);
    arena_free(&arena);
    api_rig_close(&k);
}
