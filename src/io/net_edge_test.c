#include "base/limits.h"
#include "io/net_rig_test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* What happens between two lines of net.h, and what only one of the worlds has. */

/* Here the bytes have left the kernel and wait in the inbox when the pause comes. */
TEST(a_pause_holds_back_what_waits_in_the_inbox)
{
    struct rig rig;
    struct end client = {0}, other = {0};
    rig_open_real(&rig);
    struct listener *l = end_connect_pair(&rig, &client);
    struct end first = end_server;
    end_server.conn->context = &first;
    end_server = (struct end){0};
    end_connect(&rig, &l->address, &other);
    rig_until(&rig, &end_accepted, 2);
    rig_until(&rig, &other.opened, 1);

    end_send(&client, BYTES("one"));
    end_send(&other, BYTES("two"));
    while (first.data_calls + end_server.data_calls == 0)
        rig_step(&rig);
    struct end *waiting = first.data_calls ? &end_server : &first;
    conn_pause(waiting->conn);
    unsigned calls = waiting->data_calls;
    rig_for_ms(&rig, 20);
    CHECK_EQ(waiting->data_calls, calls);
    conn_resume(waiting->conn);
    end_until_bytes(&rig, waiting, 3);

    end_close(&rig, &first);
    end_close(&rig, &other);
    end_close_pair(&rig, l, &client);
    rig_close(&rig);
}

TEST(connections_are_made_from_the_address_that_was_chosen)
{
    static const char *const others[] = {"198.51.100.1", "::1"}; /* nobody's; of another family */
    struct rig rig;
    struct end client = {0};
    struct net_address local;
    rig_open_real(&rig);
    struct listener *l = end_listen(&rig, (struct listener_options){0});
    CHECK_EQ(net_address_of_host("127.0.0.2", 1, &local), ERR_OK);
    loop_connect_from(rig.loop, &local);
    end_connect(&rig, &l->address, &client);
    rig_until(&rig, &end_accepted, 1);
    rig_until(&rig, &client.opened, 1);
    CHECK(strncmp(conn_info(end_server.conn)->remote, "127.0.0.2:", 10) == 0);
    end_close(&rig, &client);
    end_close(&rig, &end_server);

    for (unsigned i = 0; i < 2; i++) {
        struct end failed = {0};
        CHECK_EQ(net_address_of_host(others[i], 0, &local), ERR_OK);
        loop_connect_from(rig.loop, &local);
        end_connect(&rig, &l->address, &failed);
        rig_until(&rig, &failed.closed, 1);
        CHECK_EQ(failed.opened, 0);
    }
    CHECK_EQ(end_accepted, 1);
    listener_close(l);
    rig_close(&rig);
}

struct late_write {
    struct event event;
    struct end *end;
};

static void write_late(struct event *e)
{
    end_send(container_of(e, struct late_write, event)->end, BYTES("too late"));
}

/* The handle has gone, on_closed is in the inbox, and only then comes a write: still in order. */
TEST(a_write_just_before_on_closed_is_canceled_before_it)
{
    struct rig rig;
    struct end client = {0};
    rig_open_real(&rig);
    struct listener *l = end_connect_pair(&rig, &client);
    struct late_write late = {.event.run = write_late, .end = &client};

    conn_close(client.conn, ERR_OK);
    inbox_put(rig.io->inbox, &late.event); /* runs after libuv's close and before our report */
    rig_until(&rig, &client.closed, 1);

    CHECK_EQ(client.canceled, 1);
    end_close_pair(&rig, l, &client);
    rig_close(&rig);
}

struct late_call {
    struct event event;
    void (*call)(struct conn *c);
    struct conn *conn;
};

static void call_late(struct event *e)
{
    struct late_call *late = container_of(e, struct late_call, event);

    late->call(late->conn);
}

/* As above; and the end of what the other one says has come, and was not shown yet. */
TEST(a_resume_just_before_on_closed_comes_too_late)
{
    struct rig rig;
    struct end client = {0};
    rig_open_real(&rig);
    struct listener *l = end_connect_pair(&rig, &client);
    struct late_call pause = {{.run = call_late}, conn_pause, end_server.conn};
    struct late_call resume = {{.run = call_late}, conn_resume, end_server.conn};
    conn_pause(client.conn); /* so that it puts nothing into the inbox */
    conn_pause(end_server.conn);
    conn_shutdown(client.conn);
    rig_for_ms(&rig, 20);
    conn_resume(end_server.conn);
    inbox_put(rig.io->inbox, &pause.event); /* runs when the end was read, and before it is shown */
    rig_for_ms(&rig, 20);

    conn_close(end_server.conn, ERR_OK);
    inbox_put(rig.io->inbox, &resume.event);
    rig_until(&rig, &end_server.closed, 1);

    CHECK(inbox_is_empty(rig.io->inbox)); /* on_closed is the last that is heard of it */
    CHECK_EQ(end_server.ended, 0);
    end_close_pair(&rig, l, &client);
    rig_close(&rig);
}

static struct end multitude[300];

static void admit_one_of_many(struct listener *l, struct conn *c)
{
    (void)l;
    multitude[end_accepted].conn = c;
    end_keep(c);
    conn_accept(c, &end_handlers, &multitude[end_accepted++]);
}

/* More at once than there are buffers to read into: some wait, none is forgotten. */
CONTRACT(more_connections_speak_at_once_than_there_are_buffers)
{
    enum { MANY = sizeof(multitude) / sizeof(multitude[0]) };
    static struct end clients[MANY];
    struct listener *l = end_listen(rig, (struct listener_options){.on_accept = admit_one_of_many});
    for (unsigned i = 0; i < MANY; i++)
        end_connect(rig, &l->address, &clients[i]);
    rig_until(rig, &end_accepted, MANY);

    for (unsigned i = 0; i < MANY; i++)
        end_send(&clients[i], BYTES("all together now"));
    for (unsigned i = 0; i < MANY; i++)
        end_until_bytes(rig, &multitude[i], 16);

    for (unsigned i = 0; i < MANY; i++) {
        end_close(rig, &clients[i]);
        end_close(rig, &multitude[i]);
    }
    listener_close(l);
}

static void hear_all(void *context)
{
    const struct rig *rig = context;

    inbox_drain(rig->io->inbox, SIZE_MAX);
}

/* A proxy has died: what its connections say at once is no reason for a long turn. */
TEST(a_multitude_that_leaves_at_once_is_heard_in_several_turns)
{
    enum { MANY = sizeof(multitude) / sizeof(multitude[0]) };
    int clients[MANY];
    struct rig rig;
    unsigned turns = 0, heard = 0;
    rig_open_real(&rig);
    struct listener *l =
        end_listen(&rig, (struct listener_options){.on_accept = admit_one_of_many});
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(l->address.port)};
    memcpy(&where.sin_addr, l->address.ip, 4);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK((clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
        CHECK_EQ(connect(clients[i], (struct sockaddr *)&where, sizeof(where)), 0);
    }
    rig_until(&rig, &end_accepted, MANY);

    for (unsigned i = 0; i < MANY; i++)
        close(clients[i]);
    for (; heard < MANY; turns++) {
        unsigned before = heard;
        loop_run_once(rig.loop, hear_all, &rig);
        heard = 0;
        for (unsigned i = 0; i < MANY; i++)
            heard += multitude[i].ended;
        CHECK(heard - before <= NET_READS_AT_ONCE_MAX);
    }

    CHECK(turns > 2);
    for (unsigned i = 0; i < MANY; i++)
        end_close(&rig, &multitude[i]);
    listener_close(l);
    rig_close(&rig);
}

CONTRACT(listeners_share_a_limit_and_whoever_waits_comes_in_when_another_leaves)
{
    struct conn_limit limit;
    conn_limit_init(&limit, 2);
    struct listener_options options = {.on_accept = admit_one_of_many, .limit = &limit};
    struct listener *listeners[] = {end_listen(rig, options), end_listen(rig, options)};
    struct end clients[4] = {0};
    for (unsigned i = 0; i < 2; i++)
        end_connect(rig, &listeners[0]->address, &clients[i]);
    rig_until(rig, &end_accepted, 2);
    for (unsigned i = 2; i < 4; i++)
        end_connect(rig, &listeners[1]->address, &clients[i]);
    for (unsigned i = 2; i < 4; i++)
        rig_until(rig, &clients[i].opened, 1);
    rig_for_ms(rig, 30);
    CHECK_EQ(end_accepted, 2);
    CHECK_EQ(limit.open, 2);

    end_close(rig, &multitude[0]);
    rig_until(rig, &end_accepted, 3);
    end_close(rig, &multitude[1]);
    rig_until(rig, &end_accepted, 4);

    CHECK_EQ(limit.open, 2);
    listener_close(listeners[1]);
    CHECK_EQ(limit.open, 0); /* the two that are left are nobody's */
    listener_close(listeners[0]);
    for (unsigned i = 0; i < 4; i++)
        end_close(rig, &clients[i]);
    for (unsigned i = 2; i < 4; i++)
        end_close(rig, &multitude[i]);
    conn_limit_free(&limit);
}

CONTRACT(without_descriptors_connections_wait_and_are_taken_when_there_are_some)
{
    struct listener *l = end_listen(rig, (struct listener_options){.on_accept = admit_one_of_many});
    struct end clients[3] = {0}, one_more = {0};
    for (unsigned i = 0; i < 3; i++)
        end_connect(rig, &l->address, &clients[i]);

    rig_limit_files(rig, 0);
    for (unsigned i = 0; i < 3; i++)
        rig_until(rig, &clients[i].opened, 1);
    end_connect(rig, &l->address, &one_more);
    rig_until(rig, &one_more.closed, 1);
    CHECK_EQ(one_more.reason, ERR_NO_FILES);
    rig_until(rig, &end_accept_failures, 1);
    rig_for_ms(rig, 100);
    CHECK_EQ(end_accept_failures, 1); /* it has tried several times, and tells once */
    CHECK_EQ(end_accepted, 0);
    rig_unlimit_files(rig);
    rig_until(rig, &end_accepted, 3);

    for (unsigned i = 0; i < 3; i++)
        end_send(&clients[i], BYTES("here I am"));
    for (unsigned i = 0; i < 3; i++)
        end_until_bytes(rig, &multitude[i], 9);
    for (unsigned i = 0; i < 3; i++) {
        end_close(rig, &clients[i]);
        end_close(rig, &multitude[i]);
    }
    listener_close(l);
}

/* The file and the connection come out of the same purse. */
CONTRACT(files_and_connections_share_the_descriptors)
{
    struct disk_file *f = NULL;
    struct end first = {0}, client = {0};
    struct listener *l = end_connect_pair(rig, &first); /* libuv opens something with it */
    end_close(rig, &first);
    end_close(rig, &end_server);
    end_server = (struct end){0};

    rig_limit_files(rig, 1);
    CHECK_EQ(disk_open(rig->io->disk, rig_path(rig, "file"), DISK_CREATE, 0600, &f), ERR_OK);
    end_connect(rig, &l->address, &client);
    rig_until(rig, &client.closed, 1);
    CHECK_EQ(client.reason, ERR_NO_FILES);
    CHECK_EQ(disk_close(rig->io->disk, f), ERR_OK);
    client = (struct end){0};
    end_connect(rig, &l->address, &client);
    rig_until(rig, &client.opened, 1);
    CHECK_EQ(disk_open(rig->io->disk, rig_path(rig, "file"), 0, 0, &f), ERR_NO_FILES);
    rig_unlimit_files(rig);

    rig_until(rig, &end_accepted, 2);
    end_close_pair(rig, l, &client);
}

/* A loop that waits for descriptors must wait, and not ask all the time. */
TEST(a_listener_without_descriptors_leaves_the_processor_alone)
{
    struct rig rig;
    struct end client = {0};
    rig_open_real(&rig);
    struct listener *l = end_listen(&rig, (struct listener_options){0});
    end_connect(&rig, &l->address, &client);
    rig_limit_files(&rig, 0);
    rig_until(&rig, &end_accept_failures, 1);

    uint64_t busy = clock_busy_ns(rig.io->clock);
    rig_for_ms(&rig, 300);
    busy = clock_busy_ns(rig.io->clock) - busy;

    CHECK(busy < 100 * NS_PER_MS);
    rig_unlimit_files(&rig);
    rig_until(&rig, &end_accepted, 1);
    end_close_pair(&rig, l, &client);
    rig_close(&rig);
}

/* Paused with bytes in hand, they would hold every buffer, and nobody else could be read. */
TEST(paused_connections_do_not_keep_others_from_being_read)
{
    enum { MANY = sizeof(multitude) / sizeof(multitude[0]) };
    static struct end clients[MANY];
    struct rig rig;
    rig_open_real(&rig);
    struct listener *l =
        end_listen(&rig, (struct listener_options){.on_accept = admit_one_of_many});
    for (unsigned i = 0; i < MANY; i++)
        end_connect(&rig, &l->address, &clients[i]);
    rig_until(&rig, &end_accepted, MANY);
    for (unsigned i = 0; i < MANY; i++)
        rig_until(&rig, &clients[i].opened, 1);

    for (unsigned i = 0; i < MANY; i++)
        end_send(&clients[i], BYTES("held back"));
    rig_step(&rig); /* all is sent, and read while there are buffers; nothing has been shown */
    struct end *last = &multitude[MANY - 1];
    for (unsigned i = 0; i < MANY - 1; i++)
        conn_pause(multitude[i].conn);
    end_until_bytes(&rig, last, 9);
    for (unsigned i = 0; i < MANY - 1; i++)
        CHECK_EQ(multitude[i].data_calls, 0);

    for (unsigned i = 0; i < MANY; i++)
        conn_resume(multitude[i].conn);
    for (unsigned i = 0; i < MANY; i++)
        end_until_bytes(&rig, &multitude[i], 9);

    for (unsigned i = 0; i < MANY; i++) {
        end_close(&rig, &clients[i]);
        end_close(&rig, &multitude[i]);
    }
    listener_close(l);
    rig_close(&rig);
}

/* A client that is not one of ours. */
static int plain_client(const struct listener *l)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(l->address.port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    return fd;
}

TEST(a_loop_may_be_closed_right_after_a_connection_was_refused)
{
    struct rig rig;
    rig_open_real(&rig);
    struct listener *l = end_listen(&rig, (struct listener_options){.on_accept = end_refuse});
    int fd = plain_client(l);
    rig_until(&rig, &end_accepted, 1);

    listener_close(l);
    rig_close(&rig);

    uint8_t got;
    CHECK_EQ(read(fd, &got, 1), 0);
    CHECK_EQ(close(fd), 0);
}

struct closer {
    struct event event;
    struct listener *listener;
};

static void close_the_listener(struct event *e)
{
    listener_close(container_of(e, struct closer, event)->listener);
}

/* libuv has accepted it, on_accept is in the inbox, and only then the listener closes. */
TEST(a_connection_not_yet_announced_ends_with_the_listener)
{
    struct rig rig;
    struct end client = {0};
    rig_open_real(&rig);
    struct closer closer = {.event.run = close_the_listener};
    closer.listener = end_listen(&rig, (struct listener_options){0});

    end_connect(&rig, &closer.listener->address, &client);
    inbox_put(rig.io->inbox, &closer.event);
    while (client.ended + client.closed == 0)
        rig_step(&rig);

    CHECK_EQ(end_accepted, 0);
    if (!client.closed)
        end_close(&rig, &client);
    rig_close(&rig);
}

TEST(a_reset_by_the_peer_is_told)
{
    struct rig rig;
    rig_open_real(&rig);
    struct listener *l = end_listen(&rig, (struct listener_options){0});
    int fd = plain_client(l);
    rig_until(&rig, &end_accepted, 1);

    struct linger now = {.l_onoff = 1};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    CHECK_EQ(close(fd), 0);
    rig_until(&rig, &end_server.closed, 1);

    CHECK_EQ(end_server.reason, ERR_RESET);
    listener_close(l);
    rig_close(&rig);
}

TEST(a_socket_file_left_behind_is_replaced_but_no_other_file)
{
    struct rig rig;
    rig_open_real(&rig);
    struct listener_options options = {.on_accept = end_accept};
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    struct net_address a;
    struct listener *l;
    struct stat st;
    snprintf(where.sun_path, sizeof(where.sun_path), "%s", rig_path(&rig, "sock"));
    CHECK_EQ(net_address_of_path(where.sun_path, &a), ERR_OK);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    CHECK_EQ(close(fd), 0);

    CHECK_EQ(net_listen(rig.io->net, &a, &options, &l), ERR_OK);
    listener_close(l);
    CHECK(stat(where.sun_path, &st) != 0);
    CHECK_EQ(disk_write_file(rig.io->disk, where.sun_path, 0600, BYTES("precious")), ERR_OK);
    CHECK_EQ(net_listen(rig.io->net, &a, &options, &l), ERR_BUSY);

    CHECK_EQ(stat(where.sun_path, &st), 0);
    CHECK_EQ(st.st_size, 8);
    rig_close(&rig);
}

TEST(version_six_of_the_protocol_works_alike)
{
    struct rig rig;
    rig_open_real(&rig);
    struct listener_options options = {.on_accept = end_accept};
    struct net_address a;
    struct listener *l;
    struct end client = {0};
    CHECK_EQ(net_address_parse("[::1]:0", &a), ERR_OK);
    if (net_listen(rig.io->net, &a, &options, &l) != ERR_OK)
        SKIP("no IPv6 here");

    end_connect(&rig, &l->address, &client);
    end_send(&client, BYTES("six"));
    end_until_bytes(&rig, &end_server, 3);

    CHECK(strncmp(conn_info(end_server.conn)->remote, "[::1]:", 6) == 0);
    end_close_pair(&rig, l, &client);
    rig_close(&rig);
}

TEST(a_port_may_be_shared_if_both_ask_for_it)
{
    struct rig rig;
    rig_open_real(&rig);
    struct listener_options options = {.on_accept = end_accept, .reuse_port = true};
    struct listener *l = end_listen(&rig, options), *other;

    CHECK_EQ(net_listen(rig.io->net, &l->address, &options, &other), ERR_OK);

    listener_close(other);
    listener_close(l);
    rig_close(&rig);
}

TEST(a_host_off_the_wire_hears_nothing_until_it_is_back)
{
    struct rig rig;
    rig_open_fake(&rig);
    struct net *far = fake_wire_add_host(rig.fake->wire, &rig.fake->inbox, "10.0.0.2");
    struct listener_options options = {.on_accept = end_accept};
    struct net_address a;
    struct listener *l;
    struct end client = {0}, nobody = {0};
    CHECK_EQ(net_address_parse("10.0.0.2:2380", &a), ERR_OK);
    CHECK_EQ(net_listen(far, &a, &options, &l), ERR_OK);
    end_connect(&rig, &a, &client);
    rig_until(&rig, &end_accepted, 1);
    CHECK(strncmp(conn_info(end_server.conn)->remote, "10.0.0.1:", 9) == 0);

    fake_wire_cut(far, true);
    end_send(&client, BYTES("hello?"));
    end_connect(&rig, &a, &nobody);
    rig_for_ms(&rig, 1000);
    CHECK_EQ(end_server.data_calls, 0);
    CHECK_EQ(nobody.opened, 0);
    end_close(&rig, &nobody);
    fake_wire_cut(far, false);
    end_until_bytes(&rig, &end_server, 6);
    fake_wire_reset(client.conn);
    rig_until(&rig, &client.closed, 1);
    rig_until(&rig, &end_server.closed, 1);

    CHECK_EQ(client.reason, ERR_RESET);
    CHECK_EQ(end_server.reason, ERR_RESET);
    listener_close(l);
    rig_close(&rig);
}

/* It does not read, so it does not see the end; but its writes, which nobody takes, must fail. */
CONTRACT(a_writer_hears_that_its_reader_has_gone_though_it_does_not_read_itself)
{
    struct end client = {0};
    struct listener *l = end_connect_pair(rig, &client);
    struct buf much = {0};
    memset(buf_extend(&much, 32 * MIB), 'x', 32 * MIB);
    conn_pause(client.conn);
    conn_pause(end_server.conn);

    end_send(&client, buf_bytes(&much));
    rig_for_ms(rig, 50); /* both windows are full by now */
    CHECK_EQ(client.closed, 0);
    conn_close(end_server.conn, ERR_OK);
    rig_until(rig, &client.closed, 1);
    CHECK_EQ(client.canceled, 1);

    end_close_pair(rig, l, &client);
    buf_free(&much);
}
