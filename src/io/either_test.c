#include "io/either.h"

#include "base/limits.h"
#include "io/net_rig_test.h"

/* Whoever accepts at a door has this as the context of its listener. */
struct taker {
    struct end end;
    unsigned accepted;
    bool pauses; /* as somebody does who has too much to do */
};

static void take(struct listener *l, struct conn *c)
{
    struct taker *t = l->options.context;

    t->accepted++;
    t->end.conn = c;
    conn_accept(c, &end_handlers, &t->end);
    if (t->pauses)
        conn_pause(c);
}

struct either_rig {
    struct either *either;
    struct taker plain, secure;
    struct listener *plain_door, *secure_door;
    struct net_address address;
};

static void either_rig_open(struct either_rig *g, struct rig *rig)
{
    struct listener_options options = {.on_accept = take, .context = &g->plain};

    *g = (struct either_rig){.either = either_open(rig->io)};
    CHECK_EQ(net_address_parse("127.0.0.1:0", &g->address), ERR_OK);
    CHECK_EQ(net_listen(either_plain(g->either), &g->address, &options, &g->plain_door), ERR_OK);
    g->address = g->plain_door->address;
    options.context = &g->secure;
    CHECK_EQ(net_listen(either_secure_io(g->either)->net, &g->address, &options, &g->secure_door),
             ERR_OK);
    CHECK(net_address_equal(&g->secure_door->address, &g->address));
}

static void either_rig_close(struct either_rig *g, struct rig *rig)
{
    if (g->plain_door)
        listener_close(g->plain_door);
    if (g->secure_door)
        listener_close(g->secure_door);
    while (!either_is_idle(g->either))
        rig_step(rig);
    either_close(g->either);
}

CONTRACT(the_first_byte_says_which_door_it_is)
{
    struct either_rig g;
    struct end plain = {0}, secure = {0};
    either_rig_open(&g, rig);

    end_connect(rig, &g.address, &plain);
    end_send(&plain, BYTES("PRI * HTTP/2.0"));
    end_until_bytes(rig, &g.plain.end, 14);
    end_connect(rig, &g.address, &secure);
    end_send(&secure, BYTES("\x16\x03\x01"));
    end_until_bytes(rig, &g.secure.end, 3);

    CHECK_BYTES(buf_bytes(&g.plain.end.got), BYTES("PRI * HTTP/2.0"));
    CHECK_BYTES(buf_bytes(&g.secure.end.got), BYTES("\x16\x03\x01"));
    CHECK_EQ(g.plain.accepted, 1);
    CHECK_EQ(g.secure.accepted, 1);
    end_send(&g.plain.end, BYTES("hello"));
    end_until_bytes(rig, &plain, 5);
    end_send(&plain, BYTES(" more"));
    end_until_bytes(rig, &g.plain.end, 19);
    end_close(rig, &plain);
    end_close(rig, &secure);
    end_close(rig, &g.plain.end);
    end_close(rig, &g.secure.end);
    either_rig_close(&g, rig);
}

/* Handed over, its bytes wait for whoever has them now; and so does the end. */
CONTRACT(who_pauses_is_shown_the_first_bytes_later)
{
    struct either_rig g;
    struct end client = {0};
    either_rig_open(&g, rig);
    g.plain.pauses = true;

    end_connect(rig, &g.address, &client);
    end_send(&client, BYTES("GET"));
    conn_shutdown(client.conn);
    rig_until(rig, &g.plain.accepted, 1);
    rig_for_ms(rig, 20);
    CHECK_EQ(g.plain.end.data_calls + g.plain.end.ended, 0);
    conn_resume(g.plain.end.conn);
    rig_until(rig, &g.plain.end.ended, 1);

    CHECK_BYTES(buf_bytes(&g.plain.end.got), BYTES("GET"));
    end_close(rig, &client);
    end_close(rig, &g.plain.end);
    either_rig_close(&g, rig);
}

/* Nobody is told of those who leave without a word, or are still silent when it is over. */
CONTRACT(who_says_nothing_is_nobodys)
{
    struct either_rig g;
    struct end leaves = {0}, stays = {0};
    either_rig_open(&g, rig);

    end_connect(rig, &g.address, &leaves);
    rig_until(rig, &leaves.opened, 1);
    end_close(rig, &leaves);
    end_connect(rig, &g.address, &stays);
    rig_until(rig, &stays.opened, 1);
    rig_for_ms(rig, 20);
    listener_close(g.plain_door);
    g.plain_door = NULL;
    rig_for_ms(rig, 20);
    CHECK_EQ(stays.ended + stays.closed, 0);
    listener_close(g.secure_door);
    g.secure_door = NULL;
    while (stays.ended + stays.closed == 0)
        rig_step(rig);

    CHECK_EQ(g.plain.accepted + g.secure.accepted, 0);
    end_close(rig, &stays);
    either_rig_close(&g, rig);
}

CONTRACT(who_comes_to_a_closed_door_is_cut)
{
    struct either_rig g;
    struct end client = {0};
    either_rig_open(&g, rig);
    listener_close(g.secure_door);
    g.secure_door = NULL;

    end_connect(rig, &g.address, &client);
    end_send(&client, BYTES("\x16"));
    while (client.ended + client.closed == 0)
        rig_step(rig);

    CHECK_EQ(g.plain.accepted + g.secure.accepted, 0);
    end_close(rig, &client);
    either_rig_close(&g, rig);
}

/* An address of one door alone: he need not say anything. A second time, it is in use. */
CONTRACT(one_door_alone_is_an_address_like_any_other)
{
    struct taker taker = {0};
    struct end client = {0};
    struct listener *l, *other;
    struct net_address a;
    struct either *e = either_open(rig->io);
    struct listener_options options = {.on_accept = take, .context = &taker};
    CHECK_EQ(net_address_parse("127.0.0.1:0", &a), ERR_OK);
    CHECK_EQ(net_listen(either_secure(e), &a, &options, &l), ERR_OK);

    end_connect(rig, &l->address, &client);
    rig_until(rig, &taker.accepted, 1);

    CHECK(net_listen(either_secure(e), &l->address, &options, &other) != ERR_OK);
    end_close(rig, &client);
    end_close(rig, &taker.end);
    listener_close(l);
    CHECK(either_is_idle(e));
    either_close(e);
}

TEST(who_is_silent_for_long_is_cut)
{
    struct rig rig;
    struct either_rig g;
    struct end client = {0};
    rig_open_fake(&rig);
    either_rig_open(&g, &rig);

    end_connect(&rig, &g.address, &client);
    rig_until(&rig, &client.opened, 1);
    rig_for_ms(&rig, EITHER_FIRST_BYTE_MS - 1000);
    CHECK_EQ(client.ended + client.closed, 0);
    rig_for_ms(&rig, 2000);
    CHECK_EQ(client.ended + client.closed, 1);

    end_close(&rig, &client);
    either_rig_close(&g, &rig);
    rig_close(&rig);
}
