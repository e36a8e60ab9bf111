/*
 * api alone with the line: rpc is what this file says, one value after the other. Its numbers are
 * above those of the rig's own rpc, which hears of nothing.
 */
#include "api/api_rig_test.h"

#include "api/methods.h"

enum { CALL = 7 };

static const uint64_t first_call = 1ull << 32 | CALL;

static void push(struct api_rig *k, struct rpc_event *e, const struct pb_schema *schema,
                 const void *message)
{
    if (schema) {
        pb_encode(schema, message, &e->content);
        e->message.len = (uint32_t)e->content.len;
    }
    rpc_line_put_event(k->line, RPC_LANE_CALLS, e);
    CHECK(rpc_line_take_event(k->line, RPC_LANE_CALLS, e));
    api_event(k->api, e);
    CHECK(!e->content.at); /* taken over */
    api_check(k->api);
}

static void tell(struct api_rig *k, enum rpc_event_kind kind, uint64_t call, uint64_t bytes)
{
    push(k, &(struct rpc_event){.kind = kind, .call = call, .bytes = bytes}, NULL, NULL);
}

static void work(struct api_rig *k)
{
    for (unsigned i = 0; i < 20; i++) {
        watch_work(k->watch, 1000, 0);
        api_work(k->api, 1000);
    }
    api_check(k->api);
}

/* Counts and drops the replies of this kind; there must be no others. */
static unsigned replies(struct api_rig *k, enum rpc_reply_kind kind, uint64_t call)
{
    unsigned count = 0;

    for (struct rpc_reply r; rpc_line_take_reply(k->line, &r); count++) {
        CHECK_EQ(r.kind, kind);
        CHECK_EQ(r.call, call);
        buf_free(&r.content);
        blob_unref(r.rest);
    }
    return count;
}

static void push_range(struct api_rig *k, uint64_t call)
{
    push(k,
         &(struct rpc_event){
             .kind = RPC_MESSAGE, .is_first = true, .call = call, .method = API_KV_RANGE},
         &pb_range_request_schema,
         &(struct pb_range_request){.key = BYTES("k"), .serializable = true});
}

TEST(a_unary_call_is_one_value_in_and_one_out)
{
    struct api_rig k;
    struct rpc_reply r;
    api_rig_open(&k);

    push_range(&k, first_call);
    CHECK(rpc_line_take_reply(k.line, &r));
    CHECK_EQ(r.kind, RPC_REPLY_SEND);
    CHECK_EQ(r.call, first_call);
    CHECK(r.ends);
    buf_free(&r.content);
    tell(&k, RPC_GONE, first_call, 0); /* it was on its way when the call was finished */
    tell(&k, RPC_ENDED, first_call, 0);
    CHECK_EQ(api_status(k.api).calls, 0);

    push_range(&k, 2ull << 32 | CALL); /* the next call in that place */
    CHECK_EQ(replies(&k, RPC_REPLY_SEND, 2ull << 32 | CALL), 1);
    tell(&k, RPC_GONE, first_call, 0);
    api_rig_close(&k);
}

static void open_watch(struct api_rig *k, uint64_t call)
{
    struct pb_watch_create_request create = {.key = BYTES("k")};

    push(k,
         &(struct rpc_event){.kind = RPC_OPENED,
                             .is_first = true,
                             .call = call,
                             .method = API_WATCH_WATCH,
                             .bytes = RPC_STREAM_CREDIT_BYTES},
         NULL, NULL);
    push(k, &(struct rpc_event){.kind = RPC_MESSAGE, .call = call}, &pb_watch_request_schema,
         &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
}

static void put_large(struct api_rig *k, unsigned times)
{
    static uint8_t value[9000];
    struct pb_put_request put = {.key = BYTES("k"), .value = bytes_of(value, sizeof(value))};

    for (unsigned i = 0; i < times; i++) {
        api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
        work(k);
    }
}

/* rpc says nothing of what has left, so in the end nothing is sent; then it does. */
TEST(a_watch_sends_what_its_credit_allows_and_goes_on_with_more)
{
    struct api_rig k;
    api_rig_open(&k);
    open_watch(&k, first_call);
    CHECK_EQ(replies(&k, RPC_REPLY_RELEASE, first_call), 1);
    work(&k);
    CHECK_EQ(replies(&k, RPC_REPLY_SEND, first_call), 1); /* it was created */

    put_large(&k, 40);
    unsigned first = replies(&k, RPC_REPLY_SEND, first_call);
    CHECK(first >= 3 && first < 10);
    put_large(&k, 1);
    CHECK_EQ(replies(&k, RPC_REPLY_SEND, first_call), 0);

    tell(&k, RPC_SENT, first_call, first * rpc_message_cost(9000));
    work(&k);
    CHECK(replies(&k, RPC_REPLY_SEND, first_call) > 0);
    tell(&k, RPC_GONE, first_call, 0);
    CHECK_EQ(watch_status(k.watch).streams, 0);
    api_rig_close(&k);
}

/* Takes all that wait; returns how many were messages. */
static unsigned take_messages(struct api_rig *k)
{
    unsigned count = 0;

    for (struct rpc_reply r; rpc_line_take_reply(k->line, &r);) {
        count += r.kind == RPC_REPLY_SEND;
        buf_free(&r.content);
        blob_unref(r.rest);
    }
    return count;
}

/* Every stream has credit for three; the line has none for all of them. */
TEST(watchers_wait_while_replies_do)
{
    enum { STREAMS = 200 };
    struct api_rig k;
    api_rig_open(&k);
    for (uint64_t i = 0; i < STREAMS; i++)
        open_watch(&k, first_call + i);
    work(&k);
    CHECK_EQ(take_messages(&k), STREAMS); /* created */

    put_large(&k, 3);
    struct rpc_line_status status = rpc_line_status(k.line);
    CHECK(status.reply_bytes >= RPC_LINE_REPLY_BYTES_MAX);
    CHECK(status.reply_bytes_most <= RPC_LINE_REPLY_BYTES_MAX + RPC_CHUNK_BYTES);
    unsigned messages = take_messages(&k);
    CHECK(messages < 3 * STREAMS);
    for (unsigned i = 0; i < 3; i++) {
        work(&k);
        messages += take_messages(&k);
    }
    CHECK_EQ(messages, 3 * STREAMS);

    for (uint64_t i = 0; i < STREAMS; i++)
        tell(&k, RPC_GONE, first_call + i, 0);
    api_rig_close(&k);
}

/* What messages have cost comes back to the byte, or in the end there would be nothing left. */
TEST(a_watch_gets_back_the_credit_that_its_messages_took)
{
    struct api_rig k;
    api_rig_open(&k);
    open_watch(&k, first_call);
    work(&k);

    for (unsigned i = 0; i < 100; i++) {
        size_t cost = 0;
        put_large(&k, 1);
        for (struct rpc_reply r; rpc_line_take_reply(k.line, &r);) {
            if (r.kind == RPC_REPLY_SEND)
                cost += rpc_message_cost(r.content.len + blob_bytes(r.rest).len);
            buf_free(&r.content);
            blob_unref(r.rest);
        }
        CHECK(cost >= 9000); /* it had credit */
        tell(&k, RPC_SENT, first_call, cost);
    }
    tell(&k, RPC_GONE, first_call, 0);
    api_rig_close(&k);
}

/* A body is given as it is wanted, though its call was finished long ago. */
TEST(a_long_reply_is_given_in_chunks_that_were_wanted)
{
    struct api_rig k;
    struct rpc_reply r;
    uint8_t *value = mem_alloc(1000000);
    struct pb_put_request put = {.key = BYTES("k"), .value = bytes_of(value, 1000000)};
    memset(value, 'v', 1000000);
    api_rig_open(&k);
    api_rig_apply(&k, &(struct pb_internal_raft_request){.put = &put});

    push_range(&k, first_call);
    work(&k);
    CHECK(rpc_line_take_reply(k.line, &r));
    CHECK_EQ(r.kind, RPC_REPLY_ANNOUNCE);
    uint64_t left = r.bytes;
    CHECK(left > 1000000);
    CHECK_EQ(replies(&k, RPC_REPLY_FINISH, first_call), 1);
    CHECK_EQ(api_status(k.api).calls, 0);
    while (left > 5000) {
        tell(&k, RPC_WANTED, first_call, 5000);
        CHECK(rpc_line_take_reply(k.line, &r));
        CHECK_EQ(r.kind, RPC_REPLY_CHUNK);
        CHECK(r.content.len <= 5000);
        left -= r.content.len;
        buf_free(&r.content);
    }
    tell(&k, RPC_GONE, first_call, 0);
    CHECK_EQ(mvcc_status(k.apply_rig.mvcc).pins, 0);
    tell(&k, RPC_WANTED, first_call, 5000); /* said before, and late */
    CHECK_EQ(replies(&k, RPC_REPLY_CHUNK, first_call), 0);
    mem_free(value);
    api_rig_close(&k);
}
