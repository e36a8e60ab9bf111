#include "rpc/line.h"

#include "base/buf_pool.h"
#include "rpc/rpc_int.h"
#include "rpc/rpc_rig_test.h"

/* --- the line --- */

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

/* --- a line that was cut --- */

enum { ENDS = 3 };

struct cut {
    struct rpc_line *core, *rpcs[ENDS];
    uint64_t put[ENDS], taken[ENDS], answered[ENDS], heard[ENDS];
};

static void cut_open(struct cut *c)
{
    *c = (struct cut){0};
    c->core = rpc_line_open(&(struct rpc_line_options){.end = RPC_LINE_OF_CORE, .rpcs = ENDS});
    for (unsigned i = 0; i < ENDS; i++)
        c->rpcs[i] = rpc_line_open(&(struct rpc_line_options){.end = RPC_LINE_OF_RPC});
}

static void cut_close(struct cut *c)
{
    rpc_line_close(c->core);
    for (unsigned i = 0; i < ENDS; i++)
        rpc_line_close(c->rpcs[i]);
}

/* What the ends have for each other is carried. */
static void carry(struct cut *c, unsigned nth)
{
    struct rpc_batch *b = rpc_line_pack(c->rpcs[nth], 0);

    if (b)
        rpc_line_unpack(c->core, nth, b);
    b = rpc_line_pack(c->core, nth);
    if (b)
        rpc_line_unpack(c->rpcs[nth], 0, b);
}

/* The nth call of an rpc. */
static uint64_t number(uint64_t n, unsigned nth)
{
    return n << rpc_line_bits(ENDS) | nth;
}

static void take_at_core(struct cut *c, uint64_t *steps)
{
    struct rpc_event e;

    for (; *steps > 0 && rpc_line_take_event(c->core, RPC_LANE_CALLS, &e); --*steps) {
        unsigned nth = e.call & 3;
        CHECK_EQ(e.call, number(++c->taken[nth], nth));
        CHECK_BYTES(buf_bytes(&e.content), BYTES("event"));
        buf_free(&e.content);
        rpc_line_finish(c->core, e.call, RPC_OK, BYTES("reply"));
        c->answered[nth]++;
    }
}

static void take_at_rpc(struct cut *c, unsigned nth)
{
    struct rpc_reply r;

    while (rpc_line_take_reply(c->rpcs[nth], &r)) {
        CHECK_EQ(r.call, number(++c->heard[nth], nth));
        CHECK_BYTES(buf_bytes(&r.content), BYTES("reply"));
        buf_free(&r.content);
    }
}

TEST(a_cut_line_keeps_the_order_and_finds_the_rpc_of_each_reply)
{
    struct cut c;
    struct rng rng;
    uint64_t all = 20000, steps, heard = 0;

    rng_seed(&rng, test_seed());
    cut_open(&c);
    for (unsigned turn = 0; heard < ENDS * all; turn++) {
        CHECK(turn < 100 * all);
        unsigned nth = (unsigned)rng_below(&rng, ENDS);
        uint64_t count = rng_below(&rng, 100);
        for (; count > 0 && c.put[nth] < all && rpc_line_has_budget(c.rpcs[nth], RPC_LANE_CALLS);
             count--)
            put(c.rpcs[nth], RPC_LANE_CALLS, number(++c.put[nth], nth), "event");
        if (rng_below(&rng, 2) == 0)
            carry(&c, nth);
        steps = rng_below(&rng, 100);
        if (rpc_line_has_reply_budget(c.core))
            take_at_core(&c, &steps);
        nth = (unsigned)rng_below(&rng, ENDS);
        heard -= c.heard[nth];
        if (rng_below(&rng, 2) == 0)
            take_at_rpc(&c, nth);
        heard += c.heard[nth];
    }
    for (unsigned i = 0; i < ENDS; i++)
        CHECK_EQ(c.answered[i], all);
    cut_close(&c);
}

/* However far the other end is behind, no more is put than may wait; and what it takes is told. */
TEST(a_cut_line_has_the_bounds_of_a_whole_one_for_each_rpc)
{
    struct cut c;
    uint64_t steps = UINT64_MAX;
    unsigned count = 0;

    cut_open(&c);
    for (; rpc_line_has_budget(c.rpcs[1], RPC_LANE_CALLS); count++) {
        put(c.rpcs[1], RPC_LANE_CALLS, number(++c.put[1], 1), "event");
        if (count % 100 == 0)
            carry(&c, 1);
    }
    CHECK_EQ(count, RPC_LINE_EVENTS_MAX);
    CHECK(rpc_line_has_budget(c.rpcs[1], RPC_LANE_FLOW));
    CHECK(rpc_line_has_budget(c.rpcs[0], RPC_LANE_CALLS));
    carry(&c, 1);
    CHECK(!rpc_line_has_budget(c.rpcs[1], RPC_LANE_CALLS));

    take_at_core(&c, &steps);
    CHECK(!rpc_line_has_reply_budget(c.core)); /* an answer to each */
    carry(&c, 1);
    CHECK(rpc_line_has_budget(c.rpcs[1], RPC_LANE_CALLS));
    CHECK(!rpc_line_has_reply_budget(c.core));
    take_at_rpc(&c, 1);
    CHECK(!rpc_line_has_reply_budget(c.core));
    carry(&c, 1);
    CHECK(rpc_line_has_reply_budget(c.core));
    CHECK(rpc_line_is_empty(c.core));

    /* The same by bytes: less than a quarter of the bound is not worth a batch of its own. */
    struct buf large = {0};
    buf_extend(&large, RPC_LINE_REPLY_BYTES_MAX / 8);
    memset(large.at, 0, large.len);
    struct bytes eighth = buf_bytes(&large);
    for (count = 0; rpc_line_has_reply_budget(c.core); count++) {
        rpc_line_finish(c.core, number(1, 2), RPC_OK, eighth);
        carry(&c, 2);
    }
    CHECK_EQ(count, 8);
    struct rpc_reply r;
    CHECK(rpc_line_take_reply(c.rpcs[2], &r));
    buf_free(&r.content);
    CHECK(!rpc_line_pack(c.rpcs[2], 0));
    CHECK(rpc_line_take_reply(c.rpcs[2], &r));
    buf_free(&r.content);
    carry(&c, 2);
    CHECK(rpc_line_has_reply_budget(c.core));
    buf_free(&large);
    cut_close(&c); /* with what is left at an end */
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

    for (unsigned i = 0; i < BUF_POOL_COUNT_MAX; i++) {
        buf_extend(&b, 3000);
        buf_pool_give(&pool, &b);
    }
    CHECK(pool.bytes > BUF_POOL_ALL_BYTES_MAX / 2 && pool.bytes <= BUF_POOL_ALL_BYTES_MAX);
    buf_pool_free(&pool);
    CHECK_EQ(pool.bytes, 0);
}

/* --- rpc alone with it: the core is what the test says, one value after the other --- */

static void one_turn(struct rpc_rig *r)
{
    client_flush(r->client);
    CHECK(fake_world_step(r->fake));
    rpc_line_turn(r->line);
    rpc_flush(r->rpc);
    rpc_deliver(r->rpc);
    rpc_check(r->rpc);
}

/* The next value, which is of this kind. The content is dropped. */
static struct rpc_event next(struct rpc_rig *r, enum rpc_event_kind kind)
{
    struct rpc_event e;

    while (!rpc_line_take_event(r->line, RPC_LANE_CALLS, &e) &&
           !rpc_line_take_event(r->line, RPC_LANE_FLOW, &e))
        one_turn(r);
    CHECK_EQ(e.kind, kind);
    buf_free(&e.content);
    return e;
}

static void start(struct rpc_rig *r, struct answer *a, const char *method)
{
    rpc_rig_start(r, a, method, NULL);
    client_send(a->call, BYTES("request"));
    client_end(a->call);
}

static void say(struct rpc_rig *r, uint64_t call, const char *text)
{
    struct buf message = {0};

    buf_append_str(&message, text);
    rpc_line_send(r->line, call, &message);
}

/* Everything that a core could still have to say. */
static void say_all(struct rpc_rig *r, uint64_t call)
{
    struct blob *blob = blob_copy(BYTES("shared"));
    struct buf chunk = {0}, prefix = {0};

    buf_append_str(&chunk, "chunk");
    buf_append_str(&prefix, "prefix");
    say(r, call, "late");
    rpc_line_send_shared(r->line, call, &prefix, blob);
    rpc_line_announce(r->line, call, 100000);
    rpc_line_chunk(r->line, call, &chunk);
    rpc_line_release(r->line, call);
    rpc_line_break(r->line, call);
    rpc_line_finish(r->line, call, RPC_INTERNAL, BYTES("too late"));
    blob_unref(blob);
}

TEST(what_names_a_dead_call_is_dropped_and_the_next_in_its_place_not_touched)
{
    struct rpc_rig r;
    struct answer dead, alive;
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    start(&r, &dead, "Hold");
    uint64_t dead_id = next(&r, RPC_MESSAGE).call;
    client_cancel(dead.call);
    CHECK_EQ(next(&r, RPC_GONE).call, dead_id);
    start(&r, &alive, "Hold");
    uint64_t id = next(&r, RPC_MESSAGE).call;
    CHECK_EQ((uint32_t)id, (uint32_t)dead_id); /* the same place */
    CHECK(id != dead_id);

    say_all(&r, dead_id);
    say_all(&r, 1ull << 32 | 999); /* nobody has ever been there */
    say_all(&r, 0);
    say(&r, id, "its own");
    rpc_line_finish(r.line, id, RPC_OK, BYTES(""));
    say_all(&r, id); /* dead by now */
    rpc_rig_until(&r, &alive.ended, 1);

    CHECK_EQ(alive.code, RPC_OK);
    CHECK_EQ(alive.messages, 1);
    CHECK_BYTES(buf_bytes(&alive.got), BYTES("its own"));
    CHECK(rpc_line_is_empty(r.line));
    answer_free(&dead);
    answer_free(&alive);
    rpc_rig_close(&r);
}

TEST(generations_begin_again_and_no_call_has_the_number_of_nobody)
{
    struct rpc_rig r;
    struct answer a;
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    start(&r, &a, "Hold");
    uint64_t first = next(&r, RPC_MESSAGE).call;
    rpc_line_finish(r.line, first, RPC_OK, BYTES(""));
    rpc_rig_until(&r, &a.ended, 1);
    answer_free(&a);

    r.rpc->slots[(uint32_t)first].generation = UINT32_MAX;
    start(&r, &a, "Hold");
    uint64_t id = next(&r, RPC_MESSAGE).call;

    CHECK_EQ(id, 1ull << 32 | (uint32_t)first);
    rpc_line_finish(r.line, id, RPC_OK, BYTES(""));
    rpc_rig_until(&r, &a.ended, 1);
    answer_free(&a);
    rpc_rig_close(&r);
}

/* Each says the last word, and neither has heard the other's. */
TEST(an_answer_and_the_news_that_its_client_has_gone_may_cross)
{
    struct rpc_rig r;
    struct answer a;
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    start(&r, &a, "Hold");
    uint64_t id = next(&r, RPC_MESSAGE).call;
    client_cancel(a.call);
    while (rpc_status(r.rpc).calls > 0) /* until GONE is on the line */
        one_turn(&r);
    CHECK(rpc_line_has_events(r.line, RPC_LANE_CALLS));

    say(&r, id, "answer");
    rpc_line_finish(r.line, id, RPC_OK, BYTES(""));
    rpc_flush(r.rpc);

    CHECK_EQ(next(&r, RPC_GONE).call, id);
    CHECK(rpc_line_is_empty(r.line));
    answer_free(&a);
    rpc_rig_close(&r);
}

/* A core that takes nothing: what clients send stays with them, and nothing is lost. */
TEST(a_core_that_is_behind_is_felt_by_the_clients)
{
    enum { CALLS = RPC_LINE_EVENTS_MAX + 500 };
    struct rpc_rig r;
    struct answer *answers = mem_new_array(CALLS, struct answer);
    unsigned heard = 0;
    rpc_rig_open(&r, NULL);
    r.unchecked = true; /* looks at every call */
    rpc_rig_connect(&r);
    for (unsigned i = 0; i < CALLS; i++)
        start(&r, &answers[i], "Hold");
    while (rpc_status(r.rpc).calls < CALLS ||
           rpc_line_status(r.line).events[RPC_LANE_CALLS] < RPC_LINE_EVENTS_MAX) {
        client_flush(r.client);
        CHECK(fake_world_step(r.fake));
        rpc_flush(r.rpc);
        rpc_deliver(r.rpc);
    }
    CHECK_EQ(rpc_line_status(r.line).events[RPC_LANE_CALLS], RPC_LINE_EVENTS_MAX);
    CHECK(!rpc_has_events(r.rpc)); /* there are, but not for this line */

    for (struct rpc_event e; heard < CALLS; rpc_deliver(r.rpc)) {
        while (rpc_line_take_event(r.line, RPC_LANE_CALLS, &e)) {
            CHECK_EQ(e.kind, RPC_MESSAGE);
            buf_free(&e.content);
            rpc_line_finish(r.line, e.call, RPC_OK, BYTES(""));
            heard++;
        }
        rpc_flush(r.rpc);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        rpc_rig_until(&r, &answers[i].ended, 1);
        answer_free(&answers[i]);
    }
    mem_free(answers);
    rpc_rig_close(&r);
}
