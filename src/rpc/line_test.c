#include "rpc/line.h"

#include "base/buf_pool.h"
#include "harness/test.h"

static void put(struct rpc_line *l, enum rpc_lane lane, uint64_t call, const char *text)
{
    struct rpc_event e = {.kind = RPC_MESSAGE, .call = call};

    buf_append_str(&e.content, text);
    rpc_line_put_event(l, lane, &e);
}

TEST(a_line_keeps_the_order_however_values_are_delayed)
{
    enum { VALUES = 500 };
    struct rpc_line *l =
        rpc_line_open(&(struct rpc_line_options){.delay_turns_max = 5, .seed = test_seed()});
    uint64_t events = 0, replies = 0, held_back = 0;
    struct rpc_event e;
    struct rpc_reply r;

    for (uint64_t turn = 0; events < VALUES || replies < VALUES; turn++) {
        CHECK(turn < 10 * VALUES);
        if (turn < VALUES) {
            put(l, RPC_LANE_CALLS, turn + 1, "x");
            rpc_line_finish(l, turn + 1, RPC_OK, BYTES("text"));
        }
        rpc_line_turn(l);
        while (rpc_line_take_event(l, RPC_LANE_CALLS, &e)) {
            CHECK_EQ(e.call, ++events);
            buf_free(&e.content);
        }
        while (rpc_line_take_reply(l, &r)) {
            CHECK_EQ(r.call, ++replies);
            CHECK_BYTES(buf_bytes(&r.content), BYTES("text"));
            buf_free(&r.content);
        }
        held_back += !rpc_line_is_empty(l);
    }
    CHECK(held_back > VALUES / 4);
    CHECK(rpc_line_is_empty(l));
    rpc_line_close(l);
}

TEST(what_flows_passes_calls_that_wait)
{
    struct rpc_line *l = rpc_line_open(&(struct rpc_line_options){0});
    struct rpc_event e;

    put(l, RPC_LANE_CALLS, 1, "");
    put(l, RPC_LANE_FLOW, 2, "");
    CHECK(rpc_line_take_event(l, RPC_LANE_FLOW, &e));
    CHECK_EQ(e.call, 2);
    CHECK(!rpc_line_take_event(l, RPC_LANE_FLOW, &e));
    CHECK(rpc_line_has_events(l, RPC_LANE_CALLS));
    CHECK(rpc_line_take_event(l, RPC_LANE_CALLS, &e));
    CHECK_EQ(e.call, 1);
    rpc_line_close(l);
}

TEST(a_line_has_its_bounds_and_frees_what_is_left_on_it)
{
    struct rpc_line *l = rpc_line_open(&(struct rpc_line_options){0});
    struct blob *blob = blob_copy(BYTES("shared"));
    struct rpc_event e;
    struct buf large = {0};
    unsigned count = 0;

    for (; rpc_line_has_budget(l, RPC_LANE_CALLS); count++)
        put(l, RPC_LANE_CALLS, 1, "value");
    CHECK_EQ(count, RPC_LINE_EVENTS_MAX);
    CHECK(rpc_line_has_budget(l, RPC_LANE_FLOW)); /* each lane has its own */
    while (rpc_line_take_event(l, RPC_LANE_CALLS, &e))
        buf_free(&e.content);

    buf_extend(&large, RPC_LINE_EVENT_BYTES_MAX);
    rpc_line_put_event(l, RPC_LANE_CALLS, &(struct rpc_event){.content = large});
    CHECK(!rpc_line_has_budget(l, RPC_LANE_CALLS));
    CHECK(rpc_line_has_budget(l, RPC_LANE_FLOW)); /* bytes of calls are not its business */
    rpc_line_send_shared(l, 1, &(struct buf){0}, blob);
    rpc_line_close(l); /* leaks are found by the sanitizer */
    blob_unref(blob);
}

TEST(replies_have_a_budget_in_number_and_in_bytes)
{
    struct rpc_line *l = rpc_line_open(&(struct rpc_line_options){0});
    uint8_t *fill;
    struct blob *blob = blob_new(RPC_LINE_REPLY_BYTES_MAX, &fill);
    struct rpc_reply r;
    unsigned count = 0;

    memset(fill, 0, RPC_LINE_REPLY_BYTES_MAX);
    for (; rpc_line_has_reply_budget(l); count++)
        rpc_line_release(l, count);
    CHECK_EQ(count, RPC_LINE_REPLIES_MAX);
    CHECK(rpc_line_take_reply(l, &r));
    CHECK(rpc_line_has_reply_budget(l));
    while (rpc_line_take_reply(l, &r))
        ;

    rpc_line_send_shared(l, 1, &(struct buf){0}, blob); /* what is shared counts */
    CHECK(!rpc_line_has_reply_budget(l));
    CHECK_EQ(rpc_line_status(l).reply_bytes, RPC_LINE_REPLY_BYTES_MAX);
    CHECK(rpc_line_take_reply(l, &r));
    blob_unref(r.rest);
    CHECK(rpc_line_has_reply_budget(l));
    CHECK_EQ(rpc_line_status(l).reply_bytes_most, RPC_LINE_REPLY_BYTES_MAX);
    CHECK_EQ(rpc_line_status(l).replies_most, RPC_LINE_REPLIES_MAX);
    rpc_line_close(l);
    blob_unref(blob);
}

TEST(a_pool_keeps_small_buffers_and_only_so_many)
{
    struct buf_pool pool = {0};
    struct buf b = {0};

    CHECK(!buf_pool_take(&pool).at);
    buf_append_str(&b, "text");
    const uint8_t *at = b.at;
    buf_pool_give(&pool, &b);
    CHECK(!b.at);
    b = buf_pool_take(&pool);
    CHECK(b.at == at);
    CHECK_EQ(b.len, 0);
    buf_extend(&b, BUF_POOL_BYTES_MAX + 1);
    buf_pool_give(&pool, &b);
    CHECK_EQ(pool.count, 0);
    for (unsigned i = 0; i < BUF_POOL_COUNT_MAX + 10; i++) {
        buf_append_byte(&b, 'x');
        buf_pool_give(&pool, &b);
    }
    CHECK_EQ(pool.count, BUF_POOL_COUNT_MAX);
    buf_pool_free(&pool);
}
