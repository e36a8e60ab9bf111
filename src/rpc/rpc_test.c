#include "rpc/rpc_rig_test.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>

/* Calls as they should be: what a caller of rpc.h and of client.h relies on. */

static void open_and_connect(struct rpc_rig *r)
{
    rpc_rig_open(r, NULL);
    rpc_rig_connect(r);
}

static void expect(struct answer *a, enum rpc_code code, const char *text)
{
    CHECK_EQ(a->ended, 1);
    CHECK_EQ(a->code, code);
    CHECK_STR(buf_str(&a->text), text);
    answer_free(a);
}

TEST(a_unary_call_is_answered)
{
    struct rpc_rig r;
    struct answer a;
    open_and_connect(&r);

    rpc_rig_ask(&r, &a, "Say", BYTES("hello"));

    CHECK_EQ(a.messages, 1);
    CHECK_BYTES(buf_bytes(&a.got), BYTES("hello"));
    CHECK_EQ(r.finished, 1);
    CHECK_EQ(r.client_opened, 1);
    expect(&a, RPC_OK, "");
    rpc_rig_close(&r);
}

TEST(an_empty_message_is_a_message)
{
    struct rpc_rig r;
    struct answer a;
    open_and_connect(&r);

    rpc_rig_ask(&r, &a, "Say", BYTES(""));

    CHECK_EQ(a.messages, 1);
    CHECK_EQ(a.got.len, 0);
    expect(&a, RPC_OK, "");
    rpc_rig_close(&r);
}

TEST(an_error_arrives_with_its_code_and_text)
{
    struct rpc_rig r;
    struct answer a;
    open_and_connect(&r);

    rpc_rig_ask(&r, &a, "Fail", BYTES("9 etcdserver: mvcc: 100% of \xc3\xa9, \n and more"));
    CHECK_EQ(a.messages, 0);
    expect(&a, RPC_FAILED_PRECONDITION, "etcdserver: mvcc: 100% of \xc3\xa9, \n and more");

    rpc_rig_ask(&r, &a, "Fail", BYTES("2 not \xff utf-8"));
    expect(&a, RPC_UNKNOWN, "not \xef\xbf\xbd utf-8");
    rpc_rig_close(&r);
}

TEST(a_message_may_be_as_large_as_the_limit_and_no_larger)
{
    struct rpc_rig r;
    struct answer a;
    struct buf big = {0};
    open_and_connect(&r);
    memset(buf_extend(&big, RPC_MESSAGE_BYTES_DEFAULT + 1), 'b', RPC_MESSAGE_BYTES_DEFAULT + 1);

    rpc_rig_ask(&r, &a, "Say", bytes_of(big.at, RPC_MESSAGE_BYTES_DEFAULT));
    CHECK_BYTES(buf_bytes(&a.got), bytes_of(big.at, RPC_MESSAGE_BYTES_DEFAULT));
    expect(&a, RPC_OK, "");

    rpc_rig_ask(&r, &a, "Say", buf_bytes(&big));
    expect(&a, RPC_RESOURCE_EXHAUSTED,
           "grpc: received message larger than max (2097153 vs. 2097152)");
    CHECK_EQ(r.messages, 1);
    buf_free(&big);
    rpc_rig_close(&r);
}

TEST(a_stream_echoes_every_message_in_order)
{
    struct rpc_rig r;
    struct answer a;
    struct rng rng;
    struct buf sent = {0};
    open_and_connect(&r);
    rng_seed(&rng, test_seed());

    rpc_rig_start(&r, &a, "Chat", NULL);
    for (unsigned i = 0; i < 300; i++) {
        uint8_t piece[2000];
        size_t len = (size_t)rng_below(&rng, rng_chance(&rng, 1, 4) ? sizeof(piece) : 40);
        memset(piece, (int)('a' + i % 26), len);
        client_send(a.call, bytes_of(piece, len));
        buf_append(&sent, bytes_of(piece, len));
        if (rng_chance(&rng, 1, 5))
            rpc_rig_step(&r);
    }
    client_end(a.call);
    rpc_rig_until(&r, &a.ended, 1);

    CHECK_EQ(a.messages, 300);
    CHECK_BYTES(buf_bytes(&a.got), buf_bytes(&sent));
    CHECK_EQ(r.opened, 1);
    CHECK_EQ(r.ends, 1);
    expect(&a, RPC_OK, "");
    buf_free(&sent);
    rpc_rig_close(&r);
}

TEST(one_request_may_have_many_answers)
{
    struct rpc_rig r;
    struct answer a;
    open_and_connect(&r);

    rpc_rig_ask(&r, &a, "Pull", BYTES("2000 3000"));

    CHECK_EQ(a.messages, 2000);
    CHECK_EQ(a.got.len, 2000 * 3001);
    CHECK(r.sent > 0); /* six megabytes do not fit in the credit at once */
    expect(&a, RPC_OK, "");
    rpc_rig_close(&r);
}

TEST(a_streaming_call_with_one_request_wants_exactly_one)
{
    struct rpc_rig r;
    struct answer a;
    open_and_connect(&r);

    rpc_rig_start(&r, &a, "Pull", NULL);
    client_end(a.call);
    rpc_rig_until(&r, &a.ended, 1);
    expect(&a, RPC_INTERNAL,
           "cardinality violation: received no request message from non-client-streaming RPC");

    rpc_rig_start(&r, &a, "Pull", NULL);
    client_send(a.call, BYTES("1 1"));
    client_send(a.call, BYTES("1 1"));
    client_end(a.call);
    rpc_rig_until(&r, &a.ended, 1);
    expect(&a, RPC_INTERNAL,
           "cardinality violation: received multiple request messages for non-client-streaming "
           "RPC");
    rpc_rig_close(&r);
}

static void check_body(const struct answer *a, size_t size)
{
    CHECK_EQ(a->messages, 1);
    CHECK_EQ(a->got.len, size);
    for (size_t i = 0; i < size; i++)
        if (a->got.at[i] != i % 251)
            test_fail(__FILE__, __LINE__, "byte %zu of the body is wrong", i);
}

TEST(a_body_is_read_in_chunks)
{
    static const char *const sizes[] = {"0", "1", "65535", "65536", "65537", "5000000"};
    struct rpc_rig r;
    open_and_connect(&r);

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct answer a;
        rpc_rig_ask(&r, &a, "Body", bytes_of_str(sizes[i]));
        check_body(&a, strtoull(sizes[i], NULL, 10));
        CHECK_EQ(r.bodies_open, 0);
        expect(&a, RPC_OK, "");
    }
    rpc_rig_close(&r);
}

TEST(a_body_with_nothing_to_give_is_asked_again)
{
    struct rpc_rig r;
    struct answer a;
    open_and_connect(&r);
    r.hungry_body = true;

    rpc_rig_ask(&r, &a, "Body", BYTES("1000000"));

    check_body(&a, 1000000);
    expect(&a, RPC_OK, "");
    rpc_rig_close(&r);
}

TEST(a_body_that_fails_resets_its_stream_alone)
{
    struct rpc_rig r;
    struct answer a, b;
    open_and_connect(&r);

    r.broken_body = true;
    rpc_rig_ask(&r, &a, "Body", BYTES("1000000"));
    CHECK_EQ(a.messages, 0);
    expect(&a, RPC_INTERNAL, "stream terminated by RST_STREAM");

    rpc_rig_ask(&r, &b, "Say", BYTES("still here"));
    expect(&b, RPC_OK, "");
    rpc_rig_close(&r);
}

/* The long reply is asked for first, and all that is asked later overtakes it. */
TEST(short_answers_pass_a_long_one)
{
    struct rpc_rig r;
    struct answer body, small[20], chat;
    open_and_connect(&r);

    rpc_rig_start(&r, &body, "Body", NULL);
    client_send(body.call, BYTES("50000000"));
    client_end(body.call);
    rpc_rig_start(&r, &chat, "Chat", NULL);
    while (r.bodies_open == 0)
        rpc_rig_step(&r);
    for (unsigned i = 0; i < ARRAY_LEN(small); i++) {
        rpc_rig_ask(&r, &small[i], "Say", BYTES("quick"));
        expect(&small[i], RPC_OK, "");
        client_send(chat.call, BYTES("event"));
        rpc_rig_until(&r, &chat.messages, i + 1);
    }
    CHECK_EQ(body.ended, 0);
    client_end(chat.call);
    rpc_rig_until(&r, &body.ended, 1);
    rpc_rig_until(&r, &chat.ended, 1);

    check_body(&body, 50000000);
    expect(&body, RPC_OK, "");
    expect(&chat, RPC_OK, "");
    rpc_rig_close(&r);
}

TEST(a_deadline_ends_the_call_on_both_sides)
{
    struct rpc_rig r;
    struct answer a, b;
    open_and_connect(&r);

    rpc_rig_start(&r, &a, "Hold", &(struct client_request){.timeout_ns = 300 * NS_PER_MS});
    client_send(a.call, BYTES("x"));
    client_end(a.call);
    rpc_rig_start(&r, &b, "Chat", &(struct client_request){.timeout_ns = 300 * NS_PER_MS});
    rpc_rig_until(&r, &a.ended, 1);
    rpc_rig_until(&r, &b.ended, 1);
    rpc_rig_until(&r, &r.gone, 2);

    CHECK_EQ(r.live, 0);
    expect(&a, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
    expect(&b, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
    rpc_rig_close(&r);
}

TEST(a_cancelled_call_is_gone)
{
    struct rpc_rig r;
    struct answer a, b;
    open_and_connect(&r);

    rpc_rig_start(&r, &a, "Chat", NULL);
    client_send(a.call, BYTES("one"));
    rpc_rig_until(&r, &a.messages, 1);
    client_cancel(a.call);
    rpc_rig_until(&r, &r.gone, 1);

    rpc_rig_ask(&r, &b, "Say", BYTES("next"));
    expect(&b, RPC_OK, "");
    CHECK_EQ(a.ended, 0);
    answer_free(&a);
    rpc_rig_close(&r);
}

static void reply_with(struct rpc_rig *r, uint64_t call, const char *text)
{
    struct buf message = {0};

    buf_append_str(&message, text);
    rpc_line_send(r->line, call, &message);
    rpc_line_finish(r->line, call, RPC_OK, BYTES(""));
}

/* The server answers in the turn in which the reset arrives: nobody minds. */
TEST(answering_a_call_that_is_gone_is_fine)
{
    struct rpc_rig r;
    struct rpc_event e;
    struct answer a;
    open_and_connect(&r);

    rpc_rig_start(&r, &a, "Say", NULL);
    client_send(a.call, BYTES("one"));
    client_flush(r.client);
    struct rpc *rpc = r.rpc;
    while (!rpc_has_events(rpc)) {
        CHECK(fake_world_step(r.fake));
        client_flush(r.client);
        rpc_flush(rpc);
    }
    CHECK(rpc_rig_take(&r, &e));
    CHECK_EQ(e.kind, RPC_MESSAGE);
    client_cancel(a.call);
    client_flush(r.client);
    while (!rpc_has_events(rpc))
        CHECK(fake_world_step(r.fake));

    buf_free(&e.content);
    reply_with(&r, e.call, "too late");
    rpc_flush(rpc);
    CHECK(!rpc_rig_take(&r, &e));
    CHECK_EQ(rpc_status(rpc).calls, 0);
    answer_free(&a);
    rpc_rig_close(&r);
}

TEST(gzip_goes_both_ways)
{
    struct rpc_rig r;
    struct answer a;
    struct buf big = {0};
    open_and_connect(&r);
    memset(buf_extend(&big, 60000), 'z', 60000);

    rpc_rig_start(&r, &a, "Say", &(struct client_request){.gzip = true});
    client_send(a.call, buf_bytes(&big));
    client_end(a.call);
    rpc_rig_until(&r, &a.ended, 1);

    CHECK_BYTES(buf_bytes(&a.got), buf_bytes(&big));
    expect(&a, RPC_OK, "");
    CHECK(rpc_status(r.rpc).received_bytes < 2000);
    CHECK(rpc_status(r.rpc).sent_bytes < 2000);
    buf_free(&big);
    rpc_rig_close(&r);
}

/* A few kilobytes that unpack to more than a message may have. */
TEST(a_bomb_does_not_go_off)
{
    struct rpc_rig r;
    struct answer a;
    struct buf big = {0};
    open_and_connect(&r);
    memset(buf_extend(&big, 50 * MIB), 'z', 50 * MIB);

    rpc_rig_start(&r, &a, "Say", &(struct client_request){.gzip = true});
    client_send(a.call, buf_bytes(&big));
    client_end(a.call);
    rpc_rig_until(&r, &a.ended, 1);

    expect(&a, RPC_RESOURCE_EXHAUSTED,
           "grpc: received message after decompression larger than max 2097152");
    buf_free(&big);
    rpc_rig_close(&r);
}

TEST(metadata_arrives)
{
    const struct client_field fields[] = {
        {"token", BYTES("the-token")},        {"authorization", BYTES("Bearer x")},
        {"token", BYTES("second")},           {"hasleader", BYTES("true")},
        {"client-api-version", BYTES("3.7")}, {"grpcgateway-accept", BYTES("*/*")}};
    struct rpc_rig r;
    struct rpc_event e;
    struct answer a;
    open_and_connect(&r);

    rpc_rig_start(&r, &a, "Say",
                  &(struct client_request){.metadata = fields,
                                           .metadata_count = ARRAY_LEN(fields),
                                           .timeout_ns = 5 * NS_PER_S});
    client_send(a.call, BYTES("x"));
    client_end(a.call);
    while (!rpc_has_events(r.rpc)) {
        client_flush(r.client);
        CHECK(fake_world_step(r.fake));
        rpc_flush(r.rpc);
    }
    CHECK(rpc_rig_take(&r, &e));

    CHECK_BYTES(rpc_event_bytes(&e, e.token), BYTES("the-token"));
    CHECK_BYTES(rpc_event_bytes(&e, e.authorization), BYTES("Bearer x"));
    CHECK_BYTES(rpc_event_bytes(&e, e.client_api_version), BYTES("3.7"));
    CHECK(e.client_api_version_is_utf8);
    CHECK(e.has_leader);
    CHECK(e.through_gateway);
    CHECK(e.deadline_ns > clock_now_ns(r.io->clock));
    CHECK(e.deadline_ns <= clock_now_ns(r.io->clock) + 5 * NS_PER_S);
    CHECK(bytes_starts_with(rpc_event_bytes(&e, e.remote), BYTES("127.0.0.1:")));
    reply_with(&r, e.call, "y");
    buf_free(&e.content);
    rpc_rig_until(&r, &a.ended, 1);
    expect(&a, RPC_OK, "");
    rpc_rig_close(&r);
}

TEST(what_is_not_served_is_named_in_grpcs_words)
{
    static const struct {
        const char *path, *text;
    } cases[] = {
        {"/nobody.Knows/It", "unknown service nobody.Knows"},
        {"/test.Echo/Sing", "unknown method Sing for service test.Echo"},
        {"/a/b/c", "unknown service a/b"},
        {"/justone", "malformed method name: \"/justone\""},
        {"/", "malformed method name: \"/\""},
        {"/test.Echo/", "unknown method  for service test.Echo"},
    };
    struct rpc_rig r;
    open_and_connect(&r);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a = {0};
        client_ask(r.client, &(struct client_request){.path = cases[i].path, .context = &a},
                   BYTES("x"));
        rpc_rig_until(&r, &a.ended, 1);
        expect(&a, RPC_UNIMPLEMENTED, cases[i].text);
    }
    CHECK_EQ(r.messages, 0);
    rpc_rig_close(&r);
}

/* rpc promise 3: one stream that nobody reads fills its budget, and the others do not notice. */
TEST(a_call_that_is_not_read_fills_its_budget_and_no_more)
{
    struct rpc_rig r;
    struct answer slow, quick;
    struct client_event e;
    open_and_connect(&r);
    rpc_rig_start(&r, &slow, "Pull", NULL);
    client_send(slow.call, BYTES("10000 1000"));
    client_end(slow.call);
    struct client *reader = r.client;
    r.client = NULL; /* takes no events for now */

    for (unsigned i = 0; i < 2000; i++) {
        client_flush(reader);
        if (!fake_world_step(r.fake))
            break;
        rpc_rig_serve(&r);
    }
    CHECK_EQ(r.live, 1);
    CHECK(!rpc_has_events(r.rpc));
    rpc_rig_connect(&r);
    rpc_rig_ask(&r, &quick, "Say", BYTES("hello"));
    expect(&quick, RPC_OK, "");
    client_close(r.client);
    r.client = reader;
    rpc_rig_until(&r, &slow.ended, 1);

    CHECK_EQ(slow.messages, 10000);
    expect(&slow, RPC_OK, "");
    CHECK(!client_take(reader, &e));
    rpc_rig_close(&r);
}

TEST(messages_that_are_not_released_wait_at_the_client)
{
    struct rpc_rig r;
    struct answer a;
    uint8_t piece[1000] = {0};
    open_and_connect(&r);

    rpc_rig_start(&r, &a, "Deaf", NULL);
    for (unsigned i = 0; i < 3000; i++)
        client_send(a.call, bytes_of(piece, sizeof(piece)));
    rpc_rig_for_ms(&r, 3000);

    CHECK_EQ(r.messages, 1);
    CHECK(client_queued(a.call) > 2500 * 1000); /* all but the window's worth */
    client_cancel(a.call);
    rpc_rig_until(&r, &r.gone, 1);
    answer_free(&a);
    rpc_rig_close(&r);
}

/* Eight megabytes are answered or nothing: what is beyond the budget waits, and comes through. */
TEST(many_large_requests_share_the_budget_of_a_connection)
{
    struct rpc_rig r;
    struct answer a[24];
    struct buf big = {0};
    open_and_connect(&r);
    memset(buf_extend(&big, 2000000), 'b', 2000000);

    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        rpc_rig_start(&r, &a[i], "Say", NULL);
        client_send(a[i].call, buf_bytes(&big));
        client_end(a[i].call);
    }
    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        rpc_rig_until(&r, &a[i].ended, 1);
        CHECK_EQ(a[i].got.len, big.len);
        expect(&a[i], RPC_OK, "");
    }
    buf_free(&big);
    rpc_rig_close(&r);
}

/* A hundred large puts at once, as a busy client sends them, are all taken. */
TEST(a_hundred_large_requests_at_once_are_taken)
{
    enum { CALLS = 100 };
    struct rpc_rig r;
    struct answer *a = mem_new_array(CALLS, struct answer);
    struct buf big = {0};
    open_and_connect(&r);
    r.unchecked = true;
    memset(buf_extend(&big, 1000000), 'b', 1000000);

    for (unsigned i = 0; i < CALLS; i++) {
        rpc_rig_start(&r, &a[i], "Fail", NULL);
        memcpy(big.at, "5 ", 2);
        client_send(a[i].call, buf_bytes(&big));
        client_end(a[i].call);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        rpc_rig_until(&r, &a[i].ended, 1);
        CHECK_EQ(a[i].code, RPC_NOT_FOUND);
        CHECK_EQ(a[i].text.len, 5000); /* a status has its bound, too */
        answer_free(&a[i]);
    }
    rpc_check(r.rpc);
    buf_free(&big);
    mem_free(a);
    rpc_rig_close(&r);
}

/* Long replies on several connections share the turns, whoever came first. */
TEST(long_replies_on_many_connections_take_turns)
{
    enum { CONNS = 12 };
    struct rpc_rig r;
    struct client *clients[CONNS];
    struct answer a[CONNS];
    rpc_rig_open(&r, NULL);

    for (unsigned i = 0; i < CONNS; i++) {
        rpc_rig_connect(&r);
        clients[i] = r.client;
        rpc_rig_start(&r, &a[i], "Body", NULL);
        client_send(a[i].call, BYTES("3000000"));
        client_end(a[i].call);
    }
    unsigned ended = 0;
    for (unsigned round = 0; ended < CONNS; round++) {
        CHECK(round < 1000000);
        ended = 0;
        for (unsigned i = 0; i < CONNS; i++) {
            r.client = clients[i];
            rpc_rig_step(&r);
            ended += a[i].ended;
        }
    }
    for (unsigned i = 0; i < CONNS; i++) {
        check_body(&a[i], 3000000);
        expect(&a[i], RPC_OK, "");
        if (i > 0)
            client_close(clients[i]);
    }
    r.client = clients[0];
    rpc_rig_close(&r);
}

static void without_turns_for_ms(struct rpc_rig *r, uint64_t ms)
{
    uint64_t until_ns = clock_now_ns(r->io->clock) + ms * NS_PER_MS;

    while (clock_now_ns(r->io->clock) < until_ns)
        CHECK(fake_world_step(r->fake));
}

/* Short replies on very many connections cost a write each: a turn makes so many, and no more. */
TEST(a_turn_flushes_so_many_connections_and_the_next_one_others)
{
    enum { CONNS = RPC_FLUSH_CONNS_MAX + 50 };
    static struct raw raws[CONNS];
    struct rpc_rig r;
    struct buf hello = {0};
    unsigned greeted;
    rpc_rig_open(&r, NULL);
    frame_preface(&hello);
    for (unsigned i = 0; i < CONNS; i++) {
        raw_connect_soon(&r, &raws[i]);
        raw_send(&raws[i], buf_bytes(&hello));
    }
    without_turns_for_ms(&r, 100);

    for (unsigned turn = 0; turn < 2; turn++) {
        rpc_flush(r.rpc);
        without_turns_for_ms(&r, 100);
        greeted = 0;
        for (unsigned i = 0; i < CONNS; i++)
            greeted += raws[i].got_bytes > 0;
        CHECK_EQ(greeted, turn == 0 ? RPC_FLUSH_CONNS_MAX : CONNS);
    }

    buf_free(&hello);
    for (unsigned i = 0; i < CONNS; i++)
        raw_close(&r, &raws[i]);
    rpc_rig_close(&r);
}

TEST(a_stop_lets_calls_under_way_finish)
{
    struct rpc_rig r;
    struct answer chat, late = {0};
    open_and_connect(&r);
    rpc_rig_start(&r, &chat, "Chat", NULL);
    client_send(chat.call, BYTES("one"));
    rpc_rig_until(&r, &chat.messages, 1);

    rpc_stop(r.rpc);
    rpc_rig_for_ms(&r, 200);
    client_send(chat.call, BYTES("two"));
    rpc_rig_until(&r, &chat.messages, 2);
    rpc_rig_start(&r, &late, "Say", NULL);
    rpc_rig_until(&r, &late.ended, 1);
    CHECK(!rpc_is_idle(r.rpc));
    client_end(chat.call);
    rpc_rig_until(&r, &chat.ended, 1);
    rpc_rig_until(&r, &r.client_gone, 1);
    for (unsigned i = 0; i < 100000 && !rpc_is_idle(r.rpc); i++)
        rpc_rig_step(&r);

    CHECK(rpc_is_idle(r.rpc));
    CHECK_BYTES(buf_bytes(&chat.got), BYTES("onetwo"));
    CHECK_EQ(late.code, RPC_UNAVAILABLE);
    answer_free(&late);
    expect(&chat, RPC_OK, "");
    rpc_rig_close(&r);
}

TEST(an_idle_connection_ends_soon_after_a_stop)
{
    struct rpc_rig r;
    struct answer a;
    open_and_connect(&r);
    rpc_rig_ask(&r, &a, "Say", BYTES("x"));
    expect(&a, RPC_OK, "");

    rpc_stop(r.rpc);
    rpc_rig_until(&r, &r.client_gone, 1);
    rpc_rig_for_ms(&r, 1500);

    CHECK(rpc_is_idle(r.rpc));
    rpc_rig_close(&r);
}

TEST(a_cut_ends_every_call)
{
    struct rpc_rig r;
    struct answer chat, hold;
    open_and_connect(&r);
    rpc_rig_start(&r, &chat, "Chat", NULL);
    rpc_rig_start(&r, &hold, "Hold", NULL);
    client_send(hold.call, BYTES("x"));
    rpc_rig_until(&r, &r.messages, 1);

    rpc_cut(r.rpc);
    rpc_rig_until(&r, &r.gone, 2);
    rpc_rig_until(&r, &r.client_gone, 1);

    CHECK_EQ(chat.code, RPC_UNAVAILABLE);
    CHECK_EQ(hold.code, RPC_UNAVAILABLE);
    answer_free(&chat);
    answer_free(&hold);
    rpc_rig_close(&r);
}

/* What a simulated crash does: the world forgets our connections, and we our memory. */
TEST(an_abandoned_server_leaves_nothing_behind)
{
    struct rpc_rig r;
    struct answer chat, hold, body, done;
    struct raw plain = {0};
    open_and_connect(&r);
    rpc_rig_ask(&r, &done, "Say", BYTES("x"));
    rpc_rig_start(&r, &chat, "Chat", &(struct client_request){.timeout_ns = NS_PER_S});
    rpc_rig_start(&r, &hold, "Hold", NULL);
    client_send(hold.call, BYTES("x"));
    raw_connect(&r, &plain);
    raw_send(&plain, BYTES("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    rpc_rig_until(&r, &r.http, 1);
    rpc_rig_start(&r, &body, "Body", NULL);
    client_send(body.call, BYTES("10000000"));
    client_end(body.call);
    rpc_rig_until(&r, &r.bodies_open, 1);

    fake_wire_crash(r.io->net);
    rpc_abandon(r.rpc);

    rpc_abandon(NULL);
    _Exit(0); /* the world's inbox still points at what was freed, as it would not after a crash */
}

TEST(the_server_pings_when_it_hears_nothing)
{
    struct rpc_rig r;
    struct answer a;
    rpc_rig_open(
        &r, &(struct rpc_options){.keepalive_interval_ms = 10000, .keepalive_timeout_ms = 1000});
    rpc_rig_connect(&r);
    rpc_rig_ask(&r, &a, "Say", BYTES("x"));
    expect(&a, RPC_OK, "");

    rpc_rig_for_ms(&r, 60000); /* the client answers every ping */
    CHECK_EQ(r.client_gone, 0);
    CHECK_EQ(rpc_status(r.rpc).conns, 1);
    conn_pause(client_conn(r.client)); /* now it does not */
    rpc_rig_for_ms(&r, 12000);
    CHECK_EQ(rpc_status(r.rpc).conns, 0);
    conn_resume(client_conn(r.client));
    rpc_rig_until(&r, &r.client_gone, 1);
    rpc_rig_close(&r);
}

TEST(more_streams_than_announced_wait_at_the_client)
{
    struct rpc_rig r;
    struct answer a[10];
    rpc_rig_open(&r, &(struct rpc_options){.concurrent_streams_max = 2});
    rpc_rig_connect(&r);
    struct answer first;
    rpc_rig_ask(&r, &first, "Say", BYTES("x")); /* the settings are known */
    expect(&first, RPC_OK, "");

    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        rpc_rig_start(&r, &a[i], "Chat", NULL);
        client_send(a[i].call, BYTES("x"));
    }
    rpc_rig_for_ms(&r, 500);
    CHECK_EQ(r.opened, 2);
    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        client_end(a[i].call);
        rpc_rig_until(&r, &a[i].ended, 1);
        expect(&a[i], RPC_OK, "");
    }
    rpc_rig_close(&r);
}

TEST(the_same_on_real_sockets)
{
    struct rpc_rig r;
    struct answer a, body, chat;
    rpc_rig_open_real(&r);
    rpc_rig_connect(&r);

    rpc_rig_ask(&r, &a, "Say", BYTES("hello"));
    CHECK_BYTES(buf_bytes(&a.got), BYTES("hello"));
    rpc_rig_ask(&r, &body, "Body", BYTES("20000000"));
    check_body(&body, 20000000);
    rpc_rig_start(&r, &chat, "Chat", NULL);
    for (unsigned i = 0; i < 1000; i++)
        client_send(chat.call, BYTES("0123456789"));
    client_end(chat.call);
    rpc_rig_until(&r, &chat.ended, 1);

    CHECK_EQ(chat.messages, 1000);
    expect(&a, RPC_OK, "");
    expect(&body, RPC_OK, "");
    expect(&chat, RPC_OK, "");
    rpc_stop(r.rpc);
    rpc_rig_until(&r, &r.client_gone, 1);
    rpc_rig_close(&r);
}

/* Everything at once, by the dice: calls of every kind, some cancelled, some cut off. */
TEST(every_call_comes_to_one_end)
{
    test_runs_in_one_thread();
    static const char *const kinds[] = {"Say",  "Say",  "Say",  "Fail",
                                        "Body", "Hold", "Chat", "Pull"};
    enum { CALLS = 40 };
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t round = 0; round < 20 * test_effort(); round++) {
        struct rpc_rig r;
        struct answer a[CALLS];
        open_and_connect(&r);
        for (unsigned i = 0; i < CALLS; i++) {
            unsigned kind = (unsigned)rng_below(&rng, ARRAY_LEN(kinds));
            uint64_t timeout_ms = rng_chance(&rng, 1, 3) ? rng_below(&rng, 100) : 0;
            rpc_rig_start(&r, &a[i], kinds[kind],
                          &(struct client_request){.timeout_ns = timeout_ms * NS_PER_MS,
                                                   .gzip = rng_chance(&rng, 1, 4)});
            client_send(a[i].call, rng_chance(&rng, 1, 2) ? BYTES("5 60000") : BYTES("200000 5"));
            if (rng_chance(&rng, 5, 6))
                client_end(a[i].call);
            if (rng_chance(&rng, 1, 5))
                client_cancel(a[i].call), a[i].call = NULL;
            for (uint64_t steps = rng_below(&rng, 30); steps > 0; steps--)
                rpc_rig_step(&r);
        }
        if (rng_chance(&rng, 1, 3))
            rpc_stop(r.rpc);
        else if (rng_chance(&rng, 1, 3) && client_conn(r.client))
            fake_wire_reset(client_conn(r.client));
        for (uint64_t steps = rng_below(&rng, 2000); steps > 0; steps--)
            rpc_rig_step(&r);
        rpc_rig_close(&r);
        for (unsigned i = 0; i < CALLS; i++)
            answer_free(&a[i]);
    }
}
