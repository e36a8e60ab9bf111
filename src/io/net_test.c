#include "io/net_rig_test.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>

CONTRACT(bytes_go_both_ways_and_the_info_names_the_peer)
{
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);
    char text[NET_TEXT_MAX];

    end_send(&client, BYTES("question"));
    end_until_bytes(rig, &end_server, 8);
    end_send(&end_server, BYTES("answer"));
    end_until_bytes(rig, &client, 6);

    CHECK_BYTES(buf_bytes(&end_server.got), BYTES("question"));
    CHECK_BYTES(buf_bytes(&client.got), BYTES("answer"));
    rig_until(rig, &client.written, 1);
    CHECK_STR(conn_info(client.conn)->remote, net_address_text(&l->address, text));
    CHECK(strncmp(conn_info(end_server.conn)->remote, "127.0.0.1:", 10) == 0);
    CHECK(!conn_info(end_server.conn)->tls);
    end_close_pair(rig, l, &client);
}

CONTRACT(writing_may_begin_before_the_connection_is_made)
{
    struct end client = {0};
    struct listener *l = end_listen(rig, (struct listener_options){0});

    end_connect(rig, &l->address, &client);
    end_send(&client, BYTES("early"));
    CHECK_EQ(conn_queued_bytes(client.conn), 5);
    end_until_bytes(rig, &end_server, 5);

    CHECK_EQ(conn_queued_bytes(client.conn), 0);
    end_close_pair(rig, l, &client);
}

CONTRACT(what_is_taken_at_once_comes_before_what_is_queued_after_it)
{
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);

    CHECK_EQ(conn_try_write(client.conn, BYTES("")), 0);
    CHECK_EQ(conn_try_write(client.conn, BYTES("at once, ")), 9);
    CHECK(conn_write_credit(client.conn) > 0);
    end_send(&client, BYTES("then queued"));
    end_until_bytes(rig, &end_server, 20);

    CHECK_BYTES(buf_bytes(&end_server.got), BYTES("at once, then queued"));
    CHECK_EQ(client.written, 1); /* nobody is told of the other */
    end_close_pair(rig, l, &client);
}

CONTRACT(nothing_is_taken_at_once_without_a_connection)
{
    struct end client = {0};
    struct listener *l = end_listen(rig, (struct listener_options){0});

    end_connect(rig, &l->address, &client);
    CHECK_EQ(conn_try_write(client.conn, BYTES("too early")), 0);
    rig_until(rig, &client.opened, 1);
    rig_until(rig, &end_accepted, 1);
    conn_close(client.conn, ERR_OK);
    CHECK_EQ(conn_try_write(client.conn, BYTES("too late")), 0);
    CHECK_EQ(conn_write_credit(client.conn), 0);
    rig_until(rig, &client.closed, 1);
    rig_until(rig, &end_server.ended, 1);

    CHECK_EQ(end_server.got_bytes, 0);
    end_close_pair(rig, l, &client);
}

/* The kernel takes some, and in the end nothing: that is queued, and nothing passes it. */
CONTRACT(a_paused_reader_is_taken_only_a_bounded_amount_for)
{
    enum { CHUNK = 100 * 1000, TAKEN_MAX = 16 * 1000 * 1000 };
    uint8_t *data = mem_alloc(CHUNK);
    size_t taken, total = 0;
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);
    end_server.only_count = true;
    conn_pause(end_server.conn);

    do {
        taken = conn_try_write(client.conn, bytes_of(data, CHUNK));
        total += taken;
        CHECK(total < TAKEN_MAX);
        if (taken < CHUNK)
            rig_for_ms(rig, 20); /* for what is on its way to come to rest */
    } while (taken > 0);
    CHECK_EQ(conn_write_credit(client.conn), 0);
    end_send(&client, bytes_of(data, CHUNK));
    CHECK(conn_queued_bytes(client.conn) > 0);
    CHECK_EQ(conn_try_write(client.conn, BYTES("past it")), 0);
    conn_resume(end_server.conn);
    end_until_bytes(rig, &end_server, total + CHUNK);

    rig_until(rig, &client.written, 1);
    CHECK_EQ(conn_try_write(client.conn, BYTES("!")), 1);
    end_until_bytes(rig, &end_server, total + CHUNK + 1);
    mem_free(data);
    end_close_pair(rig, l, &client);
}

CONTRACT(a_vectored_write_arrives_whole_and_in_order)
{
    enum { PIECES = 500 };
    static char texts[PIECES][8];
    struct bytes pieces[PIECES];
    struct buf want = {0};
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);
    for (int i = 0; i < PIECES; i++) {
        int len = i % 5 == 0 ? 0 : snprintf(texts[i], sizeof(texts[i]), "%d.", i);
        pieces[i] = bytes_of(texts[i], (size_t)len);
        buf_append(&want, pieces[i]);
    }

    end_send_pieces(&client, pieces, PIECES);
    end_until_bytes(rig, &end_server, want.len);

    CHECK_BYTES(buf_bytes(&end_server.got), buf_bytes(&want));
    rig_until(rig, &client.written, 1);
    buf_free(&want);
    end_close_pair(rig, l, &client);
}

CONTRACT(a_write_without_bytes_is_done_in_its_place)
{
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);

    end_send(&client, BYTES(""));
    end_send(&client, BYTES("x"));
    end_send(&client, BYTES(""));
    rig_until(rig, &client.written, 3);

    end_until_bytes(rig, &end_server, 1);
    end_close_pair(rig, l, &client);
}

CONTRACT(megabytes_echo_unharmed)
{
    enum { CHUNK = 100 * 1000, CHUNKS = 30 };
    uint8_t *data = mem_alloc(CHUNK * CHUNKS);
    struct rng rng;
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);
    rng_seed(&rng, test_seed());
    for (size_t i = 0; i < CHUNK * CHUNKS; i++)
        data[i] = (uint8_t)rng_next(&rng);
    end_server.echo = true;
    end_server.only_count = true;

    for (size_t i = 0; i < CHUNKS; i++)
        end_send(&client, bytes_of(data + i * CHUNK, CHUNK));
    CHECK(conn_queued_bytes(client.conn) > 0);
    end_until_bytes(rig, &client, CHUNK * CHUNKS);

    CHECK_BYTES(buf_bytes(&client.got), bytes_of(data, CHUNK * CHUNKS));
    CHECK_EQ(client.written, CHUNKS);
    mem_free(data);
    end_close_pair(rig, l, &client);
}

CONTRACT(a_paused_reader_makes_the_sender_wait)
{
    enum { CHUNK = 1000 * 1000, CHUNKS = 20 };
    uint8_t *data = mem_alloc(CHUNK);
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);
    end_server.only_count = true;
    end_server.pause_on_data = true;

    for (size_t i = 0; i < CHUNKS; i++)
        end_send(&client, bytes_of(data, CHUNK));
    rig_until(rig, &end_server.data_calls, 1);
    rig_for_ms(rig, 50);
    CHECK_EQ(end_server.data_calls, 1);
    CHECK(conn_queued_bytes(client.conn) > 0);
    CHECK(client.written < CHUNKS);

    end_server.pause_on_data = false;
    conn_resume(end_server.conn);
    conn_resume(end_server.conn);
    end_until_bytes(rig, &end_server, (size_t)CHUNK * CHUNKS);
    CHECK_EQ(conn_queued_bytes(client.conn), 0);
    mem_free(data);
    end_close_pair(rig, l, &client);
}

/* The pause must hold back what had already come in, and the end behind it. */
CONTRACT(a_pause_holds_back_what_has_arrived_and_the_end)
{
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);

    conn_pause(end_server.conn);
    end_send(&client, BYTES("later"));
    conn_shutdown(client.conn);
    rig_for_ms(rig, 30);
    CHECK_EQ(end_server.data_calls, 0);
    CHECK_EQ(end_server.ended, 0);

    conn_resume(end_server.conn);
    rig_until(rig, &end_server.ended, 1);
    CHECK_BYTES(buf_bytes(&end_server.got), BYTES("later"));
    end_close_pair(rig, l, &client);
}

CONTRACT(a_half_closed_connection_still_hears)
{
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);

    end_send(&client, BYTES("last words"));
    conn_shutdown(client.conn);
    rig_until(rig, &end_server.ended, 1);
    CHECK_BYTES(buf_bytes(&end_server.got), BYTES("last words"));
    end_send(&end_server, BYTES("noted"));
    end_until_bytes(rig, &client, 5);
    conn_shutdown(end_server.conn);
    rig_until(rig, &client.ended, 1);

    CHECK_EQ(client.closed + end_server.closed, 0);
    end_close_pair(rig, l, &client);
}

CONTRACT(closing_cancels_what_is_queued_before_it_is_told)
{
    enum { CHUNK = 1000 * 1000 };
    uint8_t *data = mem_alloc(CHUNK);
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);
    conn_pause(end_server.conn);

    for (size_t i = 0; i < 20; i++)
        end_send(&client, bytes_of(data, CHUNK));
    rig_for_ms(rig, 20);
    conn_close(client.conn, ERR_TIMEOUT);
    conn_close(client.conn, ERR_OK);      /* the first reason stands */
    end_send(&client, BYTES("too late")); /* allowed, and canceled */
    CHECK_EQ(client.closed, 0);
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(client.reason, ERR_TIMEOUT);
    CHECK(client.canceled > 1);
    CHECK_EQ(client.written + client.canceled, 21);
    mem_free(data);
    end_close_pair(rig, l, &client);
}

CONTRACT(a_peer_that_closes_is_an_end_and_writing_to_it_a_reset)
{
    enum { CHUNK = 1000 * 1000 };
    uint8_t *data = mem_alloc(CHUNK);
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);

    end_close(rig, &end_server);
    rig_until(rig, &client.ended, 1);
    for (size_t i = 0; i < 10; i++)
        end_send(&client, bytes_of(data, CHUNK));
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(client.reason, ERR_RESET);
    CHECK_EQ(client.written + client.canceled, 10);
    mem_free(data);
    end_close_pair(rig, l, &client);
}

CONTRACT(closing_inside_on_data_is_safe)
{
    struct end client = {.close_on_data = true};
    struct listener *l = end_connect_pair(rig, &client);

    end_send(&end_server, BYTES("bye"));
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(client.data_calls, 1);
    while (end_server.ended + end_server.closed == 0) /* a reset, if not all of it had arrived */
        rig_step(rig);
    end_close_pair(rig, l, &client);
}

CONTRACT(closing_before_the_connection_is_made_is_safe)
{
    struct end client = {0};
    struct listener *l = end_listen(rig, (struct listener_options){0});

    end_connect(rig, &l->address, &client);
    end_send(&client, BYTES("never"));
    conn_close(client.conn, ERR_TIMEOUT);
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(client.reason, ERR_TIMEOUT);
    CHECK_EQ(client.opened, 0);
    CHECK_EQ(client.canceled, 1);
    rig_for_ms(rig, 20);
    if (end_accepted > 0)
        end_close(rig, &end_server);
    listener_close(l);
}

CONTRACT(nobody_listening_is_refused)
{
    struct end client = {0};
    struct listener *l = end_listen(rig, (struct listener_options){0});
    struct net_address a = l->address;
    listener_close(l);
    rig_for_ms(rig, 1);

    end_connect(rig, &a, &client);
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(client.reason, ERR_REFUSED);
    CHECK_EQ(client.opened, 0);
}

CONTRACT(a_connection_may_be_closed_when_it_is_announced)
{
    struct end client = {0};
    struct listener *l = end_listen(rig, (struct listener_options){.on_accept = end_refuse});

    end_connect(rig, &l->address, &client);
    rig_until(rig, &client.ended, 1);

    end_close(rig, &client);
    listener_close(l);
}

enum { CROWD = 20, ADMITTED_MAX = 3 };

static struct end crowd[CROWD];
static unsigned alive, most_alive;

static void crowd_closed(struct conn *c, enum err reason)
{
    alive--;
    end_on_closed(c, reason);
}

static void crowd_ended(struct conn *c)
{
    end_on_end(c);
    conn_close(c, ERR_OK);
}

static void admit(struct listener *l, struct conn *c)
{
    static const struct conn_handlers of_crowd = {NULL, end_on_data, crowd_ended, crowd_closed};

    (void)l;
    most_alive = ++alive > most_alive ? alive : most_alive;
    crowd[end_accepted].only_count = true;
    end_keep(c);
    conn_accept(c, &of_crowd, &crowd[end_accepted++]);
}

CONTRACT(no_more_connections_live_at_once_than_allowed)
{
    struct end clients[CROWD] = {0};
    struct conn_limit limit;
    conn_limit_init(&limit, ADMITTED_MAX);
    struct listener *l =
        end_listen(rig, (struct listener_options){.on_accept = admit, .limit = &limit});

    for (unsigned i = 0; i < CROWD; i++)
        end_connect(rig, &l->address, &clients[i]);
    rig_until(rig, &end_accepted, ADMITTED_MAX);
    rig_for_ms(rig, 30);
    CHECK_EQ(end_accepted, ADMITTED_MAX);
    for (unsigned i = 0; i < CROWD; i++)
        conn_shutdown(clients[i].conn);
    rig_until(rig, &end_accepted, CROWD);
    for (unsigned i = 0; i < CROWD; i++) {
        rig_until(rig, &crowd[i].closed, 1);
        end_close(rig, &clients[i]);
    }

    CHECK_EQ(most_alive, ADMITTED_MAX);
    CHECK_EQ(end_accept_failures, 0);
    listener_close(l);
    conn_limit_free(&limit);
}

CONTRACT(a_closed_listener_announces_nobody_and_its_connections_live_on)
{
    struct end client = {0}, late = {0};
    struct listener *l = end_connect_pair(rig, &client);
    end_connect(rig, &l->address, &late);
    listener_close(l);

    end_send(&client, BYTES("still here"));
    end_until_bytes(rig, &end_server, 10);
    rig_for_ms(rig, 20);

    CHECK_EQ(end_accepted, 1);
    end_close(rig, &client);
    end_close(rig, &end_server);
    if (!late.closed)
        end_close(rig, &late);
}

CONTRACT(connections_that_wait_for_room_end_with_the_listener)
{
    struct end clients[5] = {0};
    struct conn_limit limit;
    conn_limit_init(&limit, 1);
    struct listener *l = end_listen(rig, (struct listener_options){.limit = &limit});
    for (unsigned i = 0; i < 5; i++) {
        end_connect(rig, &l->address, &clients[i]);
        rig_until(rig, &clients[i].opened, 1);
    }
    rig_until(rig, &end_accepted, 1);

    listener_close(l);
    for (unsigned i = 1; i < 5; i++)
        while (clients[i].ended + clients[i].closed == 0)
            rig_step(rig);

    CHECK_EQ(end_accepted, 1);
    CHECK_EQ(clients[0].ended + clients[0].closed, 0);
    for (unsigned i = 0; i < 5; i++)
        if (!clients[i].closed)
            end_close(rig, &clients[i]);
    end_close(rig, &end_server);
    conn_limit_free(&limit);
}

CONTRACT(a_listener_at_every_address_is_reached_by_one_of_them)
{
    struct listener_options options = {.on_accept = end_accept};
    struct net_address a;
    struct listener *l;
    struct end client = {0};
    CHECK_EQ(net_address_parse("0.0.0.0:0", &a), ERR_OK);
    CHECK_EQ(net_listen(rig->io->net, &a, &options, &l), ERR_OK);

    CHECK_EQ(net_address_of_host("127.0.0.1", l->address.port, &a), ERR_OK);
    end_connect(rig, &a, &client);
    rig_until(rig, &client.opened, 1);
    rig_until(rig, &end_accepted, 1);

    end_close_pair(rig, l, &client);
}

CONTRACT(two_listeners_cannot_have_one_address)
{
    struct listener *l = end_listen(rig, (struct listener_options){0}), *other;
    struct listener_options options = {.on_accept = end_accept};

    CHECK_EQ(net_listen(rig->io->net, &l->address, &options, &other), ERR_BUSY);

    listener_close(l);
}

CONTRACT(unix_sockets_work_alike)
{
    struct listener_options options = {.on_accept = end_accept};
    struct net_address a;
    struct listener *l;
    struct end client = {0};
    CHECK_EQ(net_address_of_path(rig_path(rig, "localhost:2379"), &a), ERR_OK);

    CHECK_EQ(net_listen(rig->io->net, &a, &options, &l), ERR_OK);
    end_connect(rig, &a, &client);
    end_send(&client, BYTES("over a file"));
    end_until_bytes(rig, &end_server, 11);
    end_server.shut_on_end = true;
    conn_shutdown(client.conn);
    rig_until(rig, &client.ended, 1);

    CHECK_STR(conn_info(end_server.conn)->remote, "@");
    CHECK_STR(conn_info(client.conn)->remote, a.path);
    end_close_pair(rig, l, &client);
}

/* Many connections at random, each closing when it likes: nothing may be lost or told twice. */
CONTRACT(many_connections_come_and_go)
{
    enum { ROUNDS = 40 };
    struct end clients[CROWD];
    struct rng rng;
    struct listener *l = end_listen(rig, (struct listener_options){.on_accept = admit});
    rng_seed(&rng, test_seed());

    for (unsigned round = 0; round < ROUNDS; round++) {
        memset(clients, 0, sizeof(clients));
        memset(crowd, 0, sizeof(crowd));
        unsigned count = (unsigned)rng_between(&rng, 1, CROWD);
        end_accepted = 0;
        for (unsigned i = 0; i < count; i++) {
            end_connect(rig, &l->address, &clients[i]);
            for (uint64_t n = rng_below(&rng, 5); n > 0; n--)
                end_send(&clients[i], BYTES("some bytes"));
            if (rng_chance(&rng, 1, 4))
                conn_shutdown(clients[i].conn);
        }
        rig_until(rig, &end_accepted, count);
        for (unsigned i = 0; i < count; i++)
            end_close(rig, &clients[i]);
        while (alive > 0)
            rig_for_ms(rig, 1);
    }
    CHECK_EQ(end_accept_failures, 0);
    listener_close(l);
}

static void check_parse(const char *text, const char *want)
{
    struct net_address a = {0};
    char again[NET_TEXT_MAX];

    CHECK_EQ(net_address_parse(text, &a), want ? ERR_OK : ERR_MALFORMED);
    if (want)
        CHECK_STR(net_address_text(&a, again), want);
}

TEST(addresses_are_read_and_written)
{
    check_parse("127.0.0.1:2379", "127.0.0.1:2379");
    check_parse("0.0.0.0:0", "0.0.0.0:0");
    check_parse("[::1]:65535", "[::1]:65535");
    check_parse("[2001:DB8::0:1]:1", "[2001:db8::1]:1");
    const char *malformed[] = {
        "",
        ":",
        ":80",
        "1.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:65536",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[1.2.3.4]:80",
        "localhost:1",
        "1.2.3.4:8x",
        "[",
        "[:",
        "]:80",
        "[]:80",
        "1.2.3.4:-1",
        "1.2.3.4:99999999999",
        "[::1]:80 ",
        " [::1]:80",
        "[fe80::1%1]:80",
    };
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
        check_parse(malformed[i], NULL);
}

TEST(unix_paths_have_a_bound)
{
    struct net_address a;
    char path[200];
    memset(path, 'p', sizeof(path));

    path[NET_PATH_MAX - 1] = '\0';
    CHECK_EQ(net_address_of_path(path, &a), ERR_OK);
    CHECK_STR(a.path, path);
    path[NET_PATH_MAX - 1] = 'p';
    path[NET_PATH_MAX] = '\0';
    CHECK_EQ(net_address_of_path(path, &a), ERR_TOO_LARGE);
    CHECK_EQ(net_address_of_path("", &a), ERR_MALFORMED);
}

TEST(who_comes_by_ip4_to_a_port_for_both_has_an_ip4_address)
{
    struct end client = {0};
    struct net_address both, ip4;
    struct listener *l;
    struct rig rig;

    rig_open_real(&rig);
    CHECK_EQ(net_address_parse("[::]:0", &both), ERR_OK);
    if (net_listen(rig.io->net, &both, &(struct listener_options){.on_accept = end_accept}, &l) !=
        ERR_OK) {
        rig_close(&rig);
        SKIP("there is no IPv6");
    }
    CHECK_EQ(net_address_of_host("127.0.0.1", l->address.port, &ip4), ERR_OK);
    end_connect(&rig, &ip4, &client);
    rig_until(&rig, &end_accepted, 1);

    CHECK(strncmp(conn_info(end_server.conn)->remote, "127.0.0.1:", 10) == 0);
    end_close_pair(&rig, l, &client);
    rig_close(&rig);
}
