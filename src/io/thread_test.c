#include "io/thread.h"

#include "base/assert.h"
#include "base/mem.h"
#include "io/net_rig_test.h"

/* Threads that send one byte for each that comes: which of them they are. */

enum { SIDES = 2, STARTS = 1000 };

struct side {
    struct io_thread *thread;
    struct listener *listener;
    struct event stop;
    unsigned accepted, closed; /* its own: looked at when it does not run */
    char name;
    bool keeps; /* what it accepts is proved and busy */
};

struct dealt {
    struct rig rig;
    struct conn_limit limit;
    struct listener *listener;
    struct side sides[SIDES];
};

static void on_bytes(struct conn *c, struct bytes data)
{
    const struct side *s = c->context;

    for (size_t i = 0; i < data.len; i++)
        CHECK_EQ(conn_try_write(c, bytes_of(&s->name, 1)), 1);
}

static void on_last(struct conn *c)
{
    conn_close(c, ERR_OK);
}

static void on_gone(struct conn *c, enum err reason)
{
    (void)reason;
    ((struct side *)c->context)->closed++;
}

static void on_dealt(struct listener *l, struct conn *c)
{
    static const struct conn_handlers handlers = {
        .on_data = on_bytes, .on_end = on_last, .on_closed = on_gone};
    struct side *s = l->options.context;

    s->accepted++;
    if (s->keeps)
        end_keep(c);
    conn_accept(c, &handlers, s);
}

static void turn_of_side(void *context)
{
    inbox_drain(((struct side *)context)->thread->io->inbox, SIZE_MAX);
}

static void stop_side(struct event *e)
{
    listener_close(container_of(e, struct side, stop)->listener);
}

static void start_sides(struct dealt *d)
{
    for (unsigned i = 0; i < SIDES; i++)
        CHECK_EQ(io_thread_start(d->sides[i].thread, turn_of_side, &d->sides[i]), ERR_OK);
}

static void end_sides(struct dealt *d)
{
    for (unsigned i = 0; i < SIDES; i++)
        io_thread_end(d->sides[i].thread);
}

static void dealt_open(struct dealt *d, unsigned conns_max)
{
    struct net_address a;

    *d = (struct dealt){0};
    CHECK_EQ(loop_open(&(struct loop_options){.io_threads = SIDES}, &d->rig.loop), ERR_OK);
    d->rig.io = loop_io(d->rig.loop);
    CHECK_EQ(d->rig.io->thread_count, SIDES);
    conn_limit_init(&d->limit, conns_max);
    CHECK_EQ(net_address_parse("127.0.0.1:0", &a), ERR_OK);
    CHECK_EQ(net_listen(d->rig.io->net, &a,
                        &(struct listener_options){.limit = &d->limit, .is_dealt = true},
                        &d->listener),
             ERR_OK);
    for (unsigned i = 0; i < SIDES; i++) {
        struct side *s = &d->sides[i];
        *s = (struct side){.thread = d->rig.io->threads[i],
                           .stop.run = stop_side,
                           .name = (char)('a' + i),
                           .keeps = true};
        struct listener_options o = {.on_accept = on_dealt, .context = s};
        CHECK_EQ(net_listen(s->thread->io->net, &a, &o, &s->listener), ERR_NOT_FOUND);
        CHECK_EQ(net_listen(s->thread->io->net, &d->listener->address, &o, &s->listener), ERR_OK);
    }
}

/* All connections have been closed by their clients. */
static void dealt_close(struct dealt *d)
{
    listener_close(d->listener);
    for (unsigned i = 0; i < SIDES; i++)
        inbox_post(d->sides[i].thread->io->inbox, &d->sides[i].stop);
    end_sides(d);
    rig_close(&d->rig);
    conn_limit_free(&d->limit);
    for (unsigned i = 0; i < SIDES; i++)
        CHECK_EQ(d->sides[i].accepted, d->sides[i].closed);
}

/* Who answers? */
static char ask(struct dealt *d, struct end *client)
{
    size_t before = client->got_bytes;

    end_send(client, BYTES("?"));
    end_until_bytes(&d->rig, client, before + 1);
    return (char)client->got.at[before];
}

static char connect_and_ask(struct dealt *d, struct end *client)
{
    *client = (struct end){0};
    end_connect(&d->rig, &d->listener->address, client);
    return ask(d, client);
}

/* The client hears that we have left: by then the thread has closed it, and has told the dealer. */
static void leave(struct dealt *d, struct end *client)
{
    unsigned open = d->limit.open;

    conn_shutdown(client->conn);
    rig_until(&d->rig, &client->ended, 1);
    end_close(&d->rig, client);
    while (d->limit.open == open)
        rig_step(&d->rig);
}

TEST(connections_go_to_the_thread_with_the_fewest)
{
    enum { CLIENTS = 8 };
    struct dealt d;
    struct end clients[CLIENTS];
    char who[CLIENTS];
    unsigned of_first = 0;

    dealt_open(&d, 0);
    start_sides(&d);
    for (unsigned i = 0; i < CLIENTS; i++) {
        who[i] = connect_and_ask(&d, &clients[i]);
        of_first += who[i] == 'a';
    }
    CHECK_EQ(of_first, CLIENTS / 2);
    CHECK_EQ(d.limit.open, CLIENTS);

    for (unsigned i = 0; i < CLIENTS; i++) {
        if (who[i] == 'a')
            leave(&d, &clients[i]);
    }
    CHECK_EQ(d.limit.open, CLIENTS / 2);
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (who[i] == 'a')
            CHECK_EQ(connect_and_ask(&d, &clients[i]), 'a');
    }

    for (unsigned i = 0; i < CLIENTS; i++)
        leave(&d, &clients[i]);
    dealt_close(&d);
}

TEST(the_limit_of_connections_is_that_of_all_threads)
{
    struct dealt d;
    struct end first, second, third = {0};

    dealt_open(&d, 2);
    start_sides(&d);
    connect_and_ask(&d, &first);
    connect_and_ask(&d, &second);
    end_connect(&d.rig, &d.listener->address, &third);
    end_send(&third, BYTES("?"));
    rig_until(&d.rig, &third.written, 1); /* the kernel has taken it, as a queue does */
    CHECK_EQ(ask(&d, &first), ask(&d, &first));
    CHECK_EQ(third.got_bytes, 0);
    CHECK_EQ(d.limit.open, 2);

    conn_shutdown(second.conn);
    end_until_bytes(&d.rig, &third, 1); /* somebody has left */

    CHECK_EQ(d.limit.open, 2);
    rig_until(&d.rig, &second.ended, 1);
    end_close(&d.rig, &second);
    leave(&d, &first);
    leave(&d, &third);
    dealt_close(&d);
}

/* The thread that has a connection says that it proved nothing, and the one that accepts evicts it:
 * while one side is told so, its connection may be closing by itself. */
TEST(connections_of_other_threads_make_room_too)
{
    enum { CLIENTS = 40 };
    struct dealt d;
    struct end clients[CLIENTS];

    dealt_open(&d, 4);
    d.sides[0].keeps = d.sides[1].keeps = false;
    start_sides(&d);
    for (unsigned i = 0; i < CLIENTS; i++) {
        connect_and_ask(&d, &clients[i]); /* answered, so it was let in */
        if (i % 3 == 0)
            conn_shutdown(clients[i].conn);
    }
    CHECK(d.limit.evicted > 0);
    CHECK(d.limit.open <= 5);

    for (unsigned i = 0; i < CLIENTS; i++)
        if (!clients[i].closed)
            end_close(&d.rig, &clients[i]);
    while (d.limit.open > 0)
        rig_step(&d.rig);
    conn_limit_check(&d.limit);
    dealt_close(&d);
}

/* What came while a thread did not run is there when it does again. */
TEST(threads_are_stopped_and_started_a_thousand_times)
{
    struct dealt d;
    struct end stays, comes = {0};

    dealt_open(&d, 0);
    start_sides(&d);
    connect_and_ask(&d, &stays);
    for (unsigned i = 0; i < STARTS; i++) {
        size_t before = stays.got_bytes;

        end_sides(&d);
        end_send(&stays, BYTES("?"));
        rig_until(&d.rig, &stays.written, 2 + i);
        CHECK_EQ(stays.got_bytes, before);
        start_sides(&d);
        end_until_bytes(&d.rig, &stays, before + 1);
        if (i % 4 == 0)
            connect_and_ask(&d, &comes);
        else if (i % 4 == 3)
            leave(&d, &comes);
    }
    leave(&d, &stays);
    dealt_close(&d);
}
