/* What bad weather on the wire looks like to the programs at its ends. */
#include "base/mem.h"
#include "io/net_rig_test.h"

/* Two machines, each with a program; the far one listens. */
struct two {
    struct fake_time time;
    struct fake_wire *wire;
    struct inbox near_inbox, far_inbox;
    struct net *near, *far;
    struct listener *listener;
    struct net_address address;
    struct end client;
    unsigned events[FAKE_WIRE_REPEATED + 1];
};

static void count_event(void *context, enum fake_wire_event what, unsigned from, unsigned to,
                        uint64_t sent_ns, size_t bytes)
{
    struct two *t = context;

    (void)bytes;
    CHECK(from != to);
    CHECK(sent_ns <= t->time.now_ns);
    t->events[what]++;
}

static void far_listens(struct two *t)
{
    struct listener_options options = {.on_accept = end_accept};

    CHECK_EQ(net_listen(t->far, &t->address, &options, &t->listener), ERR_OK);
}

static void two_open(struct two *t)
{
    static const struct fake_delay delay = {.min_ns = 10000, .max_ns = 2 * NS_PER_MS};

    *t = (struct two){0};
    fake_time_init(&t->time, test_seed());
    t->wire = fake_wire_new(&t->time, &(struct fake_wire_options){
                                          .delay = delay, .on_event = count_event, .context = t});
    inbox_init(&t->near_inbox, NULL, NULL);
    inbox_init(&t->far_inbox, NULL, NULL);
    t->near = fake_wire_add_host(t->wire, &t->near_inbox, "10.0.0.1");
    t->far = fake_wire_add_host(t->wire, &t->far_inbox, "10.0.0.2");
    CHECK_EQ(net_address_parse("10.0.0.2:2380", &t->address), ERR_OK);
    far_listens(t);
}

/* Lets the world go on for so long, or for as long as it takes until *count is reached. */
static void run_until(struct two *t, uint64_t ms, const unsigned *count, unsigned want)
{
    uint64_t end_ns = t->time.now_ns + ms * NS_PER_MS;

    while (!count || *count < want) {
        if (inbox_drain(&t->near_inbox, 1) > 0 || inbox_drain(&t->far_inbox, 1) > 0)
            continue;
        const struct heap_node *first = heap_first(&t->time.tasks);
        if (!first || container_of(first, struct fake_task, node)->due_ns > end_ns)
            break;
        fake_time_step(&t->time);
    }
    if (!count)
        t->time.now_ns = end_ns;
}

static void run_ms(struct two *t, uint64_t ms)
{
    run_until(t, ms, NULL, 0);
}

static uint64_t ms_until_bytes(struct two *t, const struct end *e, size_t want)
{
    uint64_t began_ns = t->time.now_ns;

    while (e->got_bytes < want) {
        unsigned calls = e->data_calls;
        run_until(t, 600000, &e->data_calls, calls + 1);
        CHECK(e->data_calls > calls);
    }
    return (t->time.now_ns - began_ns) / NS_PER_MS;
}

static void two_connect(struct two *t)
{
    t->client.conn = net_connect(t->near, &t->address, &end_handlers, &t->client);
    run_until(t, 1000, &end_accepted, 1);
    run_until(t, 1000, &t->client.opened, 1);
    CHECK_EQ(t->client.opened, 1);
}

static void near_crashes(struct two *t)
{
    fake_wire_crash(t->near);
    inbox_init(&t->near_inbox, NULL, NULL);
}

static void far_crashes(struct two *t, bool with_power)
{
    if (with_power)
        fake_wire_power_off(t->far);
    else
        fake_wire_crash(t->far);
    inbox_init(&t->far_inbox, NULL, NULL);
    buf_free(&end_server.got);
    end_server = (struct end){0};
    end_accepted = 0;
}

static void two_close(struct two *t)
{
    near_crashes(t);
    far_crashes(t, false);
    buf_free(&t->client.got);
    fake_wire_free(t->wire);
    fake_time_free(&t->time);
}

TEST(what_is_lost_on_the_way_comes_late_and_in_order)
{
    struct two t;
    two_open(&t);
    two_connect(&t);
    struct buf all = {0};
    for (unsigned i = 0; i < 40; i++)
        buf_append(&all, bytes_of(&(uint8_t){(uint8_t)i}, 1));

    fake_wire_path(t.near, t.far)->loss_percent = 30;
    for (size_t i = 0; i < all.len; i++) {
        end_send(&t.client, bytes_of(all.at + i, 1));
        run_ms(&t, 10); /* so that each of them is a piece of its own, or waits behind one */
    }
    ms_until_bytes(&t, &end_server, all.len);

    CHECK_BYTES(buf_bytes(&end_server.got), buf_bytes(&all));
    CHECK(t.events[FAKE_WIRE_LOST] > 0);
    buf_free(&all);
    two_close(&t);
}

TEST(a_piece_that_is_lost_again_and_again_is_tried_less_and_less_often)
{
    struct two t;
    two_open(&t);
    two_connect(&t);

    fake_wire_path(t.near, t.far)->cut = true;
    end_send(&t.client, BYTES("hello?"));
    run_ms(&t, 1000);
    unsigned first_second = t.events[FAKE_WIRE_LOST];
    run_ms(&t, 9000);
    unsigned later = t.events[FAKE_WIRE_LOST] - first_second;
    fake_wire_path(t.near, t.far)->cut = false;

    CHECK(first_second >= 2);
    CHECK(later <= 2 * first_second);
    CHECK(ms_until_bytes(&t, &end_server, 6) > 100); /* not at once: at the next try */
    two_close(&t);
}

TEST(on_a_path_that_is_cut_one_way_a_sender_is_heard_until_its_window_is_full)
{
    struct two t;
    two_open(&t);
    two_connect(&t);
    struct buf much = {0};
    memset(buf_extend(&much, 200000), 'x', 200000);

    fake_wire_path(t.far, t.near)->cut = true;
    end_send(&t.client, buf_bytes(&much));
    end_send(&end_server, BYTES("you are heard"));
    run_ms(&t, 5000);
    CHECK_EQ(end_server.got_bytes, 64 * 1024);
    CHECK_EQ(t.client.written, 0);
    CHECK_EQ(t.client.got_bytes, 0);
    fake_wire_path(t.far, t.near)->cut = false;
    ms_until_bytes(&t, &end_server, much.len);
    ms_until_bytes(&t, &t.client, 13);

    CHECK_EQ(t.client.written, 1);
    CHECK_EQ(t.client.closed + end_server.closed, 0);
    buf_free(&much);
    two_close(&t);
}

TEST(connecting_takes_both_ways_and_a_machine_that_is_off_refuses_nobody)
{
    struct two t;
    two_open(&t);

    fake_wire_path(t.far, t.near)->cut = true;
    t.client.conn = net_connect(t.near, &t.address, &end_handlers, &t.client);
    run_ms(&t, 5000);
    CHECK_EQ(t.client.opened + t.client.closed + end_accepted, 0);
    fake_wire_path(t.far, t.near)->cut = false;
    run_until(&t, 10000, &t.client.opened, 1);
    CHECK_EQ(t.client.opened, 1);
    far_crashes(&t, true);
    struct end other = {0};
    other.conn = net_connect(t.near, &t.address, &end_handlers, &other);
    run_ms(&t, 5000);
    CHECK_EQ(other.opened + other.closed, 0);
    fake_wire_power_on(t.far); /* its kernel; nobody listens yet */
    run_until(&t, 10000, &other.closed, 1);

    CHECK_EQ(other.reason, ERR_REFUSED);
    CHECK_EQ(t.events[FAKE_WIRE_REFUSED], 1);
    two_close(&t);
}

TEST(what_a_clogged_path_holds_back_arrives_at_its_end)
{
    struct two t;
    two_open(&t);
    two_connect(&t);
    uint64_t end_ns = t.time.now_ns + 3 * NS_PER_S;

    fake_wire_path(t.near, t.far)->clogged_until_ns = end_ns;
    for (unsigned i = 0; i < 10; i++) {
        end_send(&t.client, BYTES("tick"));
        run_ms(&t, 200);
    }
    CHECK_EQ(end_server.got_bytes, 0);
    ms_until_bytes(&t, &end_server, 40);

    CHECK(t.time.now_ns >= end_ns);
    CHECK(t.time.now_ns < end_ns + 200 * NS_PER_MS); /* nobody tried in vain, so nobody backs off */
    CHECK_EQ(t.events[FAKE_WIRE_LOST], 0);
    two_close(&t);
}

TEST(a_slow_path_takes_as_long_as_its_bandwidth_says)
{
    struct two t;
    two_open(&t);
    two_connect(&t);
    struct buf much = {0};
    memset(buf_extend(&much, 100000), 'x', 100000);

    fake_wire_path(t.near, t.far)->bytes_per_s = 20000;
    end_send(&t.client, buf_bytes(&much));
    uint64_t took_ms = ms_until_bytes(&t, &end_server, much.len);

    CHECK(took_ms > 4000);
    CHECK(took_ms < 10000);
    buf_free(&much);
    two_close(&t);
}

TEST(whoever_talks_to_a_machine_that_lost_power_hears_of_it_when_it_is_back)
{
    struct two t;
    two_open(&t);
    two_connect(&t);

    far_crashes(&t, true);
    run_ms(&t, 20000);
    CHECK_EQ(t.client.closed + t.client.ended, 0); /* half-open */
    end_send(&t.client, BYTES("are you there?"));
    run_ms(&t, 3000);
    CHECK_EQ(t.client.closed, 0);
    fake_wire_power_on(t.far);
    far_listens(&t); /* another process, who does not know the connection */
    run_until(&t, 10000, &t.client.closed, 1);

    CHECK_EQ(t.client.closed, 1);
    CHECK_EQ(t.client.reason, ERR_RESET);
    CHECK_EQ(end_server.data_calls, 0);
    two_close(&t);
}

TEST(the_end_of_a_process_is_told_unless_the_path_is_cut)
{
    for (unsigned cut = 0; cut < 2; cut++) {
        struct two t;
        two_open(&t);
        two_connect(&t);

        fake_wire_path(t.far, t.near)->cut = cut;
        far_crashes(&t, false);
        run_ms(&t, 10000);

        CHECK_EQ(t.client.closed, !cut);
        two_close(&t);
    }
}

TEST(an_end_that_is_never_heard_of_leaves_the_other_half_open_until_it_speaks)
{
    struct two t;
    two_open(&t);
    two_connect(&t);

    fake_wire_path(t.far, t.near)->silent_percent = 100;
    conn_close(end_server.conn, ERR_OK);
    run_ms(&t, 20000);
    CHECK_EQ(end_server.closed, 1);
    CHECK_EQ(t.client.ended + t.client.closed, 0);
    end_send(&t.client, BYTES("anybody?"));
    run_until(&t, 1000, &t.client.closed, 1);

    CHECK_EQ(t.client.reason, ERR_RESET);
    two_close(&t);
}

TEST(whoever_waits_on_a_half_open_connection_is_told_by_its_kernel)
{
    for (unsigned off = 0; off < 2; off++) {
        struct two t;
        two_open(&t);
        two_connect(&t);

        far_crashes(&t, true);
        if (!off)
            fake_wire_power_on(t.far);
        run_ms(&t, 29000);
        CHECK_EQ(t.client.closed, 0);
        run_ms(&t, 13000);

        CHECK_EQ(t.client.closed, 1);
        CHECK_EQ(t.client.reason, off ? ERR_TIMEOUT : ERR_RESET);
        two_close(&t);
    }
}

TEST(a_message_to_raft_may_come_twice_but_no_proposal_and_nothing_else)
{
    static const char post[] = "POST /raft HTTP/1.1\r\nContent-Length: 3\r\n\r\n\x08\x03\x10";
    static const char *const requests[] = {
        "POST /raft HTTP/1.1\r\nContent-Length: 3\r\n\r\n\x08\x03\x10POST /raft/another",
        "POST /raft HTTP/1.1\r\nContent-Length: 3\r\n\r\n\x08\x02\x10",
        "POST /raft HTTP/1.1\r\nContent-Length: 3\r\n\r\n\x08",
        "PRI * HTTP/2.0\r\n\r\n",
    };

    for (unsigned i = 0; i < ARRAY_LEN(requests); i++) {
        struct two t;
        two_open(&t);

        fake_wire_path(t.near, t.far)->repeat_percent = 100;
        two_connect(&t);
        end_send(&t.client, bytes_of_str(requests[i]));
        ms_until_bytes(&t, &end_server, strlen(requests[i]));
        buf_free(&end_server.got); /* of the first connection; both have the same struct */
        end_server = (struct end){0};
        run_ms(&t, 1000);

        CHECK_EQ(end_accepted, i == 0 ? 2 : 1);
        CHECK_EQ(t.events[FAKE_WIRE_REPEATED], i == 0);
        if (i == 0)
            CHECK_BYTES(buf_bytes(&end_server.got), bytes_of_str(post));
        two_close(&t);
    }
}

TEST(all_connections_between_two_machines_can_be_reset)
{
    struct two t;
    two_open(&t);
    two_connect(&t);

    fake_wire_reset_between(t.near, t.far);
    run_ms(&t, 100);

    CHECK_EQ(t.client.reason, ERR_RESET);
    CHECK_EQ(end_server.reason, ERR_RESET);
    CHECK_EQ(t.events[FAKE_WIRE_RESET], 2);
    two_close(&t);
}

TEST(a_long_tail_makes_few_pieces_very_late)
{
    struct two t;
    unsigned late = 0;
    two_open(&t);
    two_connect(&t);

    fake_wire_path(t.near, t.far)->tail_percent = 30;
    for (unsigned i = 1; i <= 300; i++) {
        end_send(&t.client, BYTES("x"));
        late += ms_until_bytes(&t, &end_server, i) > 4;
    }

    CHECK(late > 3);
    CHECK(late < 100);
    two_close(&t);
}
