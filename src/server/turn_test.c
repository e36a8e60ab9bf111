#include "server/server_rig_test.h"

#include "base/mem.h"
#include "wal/wal.h"

static bool log_is_behind(const struct server_rig *r)
{
    return server_status(r->server).log_pending_bytes >= WAL_PENDING_BYTES_MAX;
}

/*
 * What goes into raft is bounded; what comes out is always taken. A log that is far behind its disk
 * must not keep anybody waiting for what needs no disk: another member's heartbeat, once there are
 * others, and today a read.
 */
TEST(a_full_log_holds_back_proposals_and_nothing_else)
{
    struct server_rig r;
    struct visit large, small, read;
    const size_t bytes = 40 * MIB;
    void *value = mem_alloc(bytes);
    server_rig_open(&r, (const char *const[]){"--max-request-bytes", "67108864", NULL});
    server_rig_start(&r);
    server_rig_put(&r, "k", "v");

    fake_disk_set_delay(r.world->disk, (struct fake_delay){2 * NS_PER_S, 2 * NS_PER_S});
    struct pb_put_request put = {.key = BYTES("large"), .value = bytes_of(value, bytes)};
    server_rig_ask(r.client, &large, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    while (!log_is_behind(&r))
        server_rig_step(&r);
    uint64_t began_ms = server_rig_now_ms(&r);
    size_t pending_bytes = server_status(r.server).log_pending_bytes;
    server_rig_ask(r.other, &small, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                   &(struct pb_put_request){.key = BYTES("small")});
    server_rig_ask(r.other, &read, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                   &(struct pb_range_request){.key = BYTES("k")});

    server_rig_until_over(&r, &read);
    CHECK_EQ(read.code, RPC_OK);
    CHECK(server_rig_now_ms(&r) < began_ms + 1000);
    CHECK(!large.is_over);
    CHECK(!small.is_over);
    CHECK_EQ(server_status(r.server).waiting, 2);
    CHECK_EQ(server_status(r.server).log_pending_bytes, pending_bytes); /* the small one waits */
    server_rig_until_over(&r, &small);
    CHECK_EQ(small.code, RPC_OK);
    CHECK(large.is_over);

    visit_free(&large);
    visit_free(&small);
    visit_free(&read);
    mem_free(value);
    server_rig_close(&r);
}

enum { ASKED = 2400, VALUE_BYTES = 3900 }; /* replies that are sent whole, of nine megabytes */
static_assert(ASKED * VALUE_BYTES > 4 * RPC_LINE_REPLY_BYTES_MAX, "more than may wait");

static void ask_all(struct server_rig *r, const char *path, const struct pb_schema *schema,
                    const void *message)
{
    struct visit *visits = mem_new_array(ASKED, struct visit);

    for (unsigned i = 0; i < ASKED; i++)
        server_rig_ask(i % 2 ? r->client : r->other, &visits[i], path, schema, message);
    for (unsigned i = 0; i < ASKED; i++) {
        server_rig_until_over(r, &visits[i]);
        CHECK_EQ(visits[i].code, RPC_OK);
        visit_free(&visits[i]);
    }
    mem_free(visits);
    size_t most = server_status(r->server).reply_bytes_most;
    CHECK(most >= RPC_LINE_REPLY_BYTES_MAX); /* or this test shows nothing */
    CHECK(most <= RPC_LINE_REPLY_BYTES_MAX + RPC_CHUNK_BYTES);
}

static void open_with_value(struct server_rig *r)
{
    char value[VALUE_BYTES + 1];

    memset(value, 'v', VALUE_BYTES);
    value[VALUE_BYTES] = 0;
    server_rig_open(r, NULL);
    server_rig_start(r);
    server_rig_put(r, "k", value);
}

/* Reads at once, and reads that were confirmed together. */
TEST(replies_that_wait_hold_back_reads)
{
    struct server_rig r;
    struct pb_range_request get = {.key = BYTES("k"), .serializable = true};
    open_with_value(&r);

    ask_all(&r, "/etcdserverpb.KV/Range", &pb_range_request_schema, &get);
    server_rig_stop(&r);
    server_rig_start(&r);
    get.serializable = false;
    ask_all(&r, "/etcdserverpb.KV/Range", &pb_range_request_schema, &get);

    server_rig_close(&r);
}

/* The disk is so slow that all are committed together. */
TEST(replies_that_wait_hold_back_what_is_applied)
{
    struct server_rig r;
    struct pb_put_request put = {.key = BYTES("x")};
    struct pb_range_request get = {.key = BYTES("k")};
    struct pb_request_op ops[] = {{.which = PB_OP_PUT, .put = &put},
                                  {.which = PB_OP_RANGE, .range = &get}};
    struct pb_txn_request txn = {.success = {ops, ARRAY_LEN(ops)}};
    open_with_value(&r);

    fake_disk_set_delay(r.world->disk, (struct fake_delay){NS_PER_S, NS_PER_S});
    ask_all(&r, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);

    server_rig_close(&r);
}
