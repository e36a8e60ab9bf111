/*
 * Strangers that fill every place: they connect, say nothing, and come again when they are cut. The
 * members among each other, probes and clients that behave are served nevertheless.
 *
 * The rule is io/conn_limit.h's, and tried there in the small; here it is real sockets, TLS and
 * threads.
 */
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Silent connections to one port, by a thread of its own. */
struct flood {
    struct sockaddr_in at;
    unsigned count;
    struct pollfd *all;
    pthread_t thread;
    atomic_bool is_over;
    atomic_uint again; /* connections that were cut and made again */
};

static struct sockaddr_in address_of(const char *url)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1))};
}

static int dial_silently(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0);
    int failed = connect(fd, (const struct sockaddr *)to, sizeof(*to));
    CHECK(failed == 0 || errno == EINPROGRESS || errno == ECONNREFUSED); /* poll tells the rest */
    return fd;
}

/* Also where nobody listens just now. */
static void *keep_coming(void *context)
{
    struct flood *f = context;
    while (!atomic_load(&f->is_over)) {
        CHECK(poll(f->all, f->count, 20) >= 0 || errno == EINTR);
        for (unsigned i = 0; i < f->count; i++) {
            if (f->all[i].revents == 0)
                continue;
            close(f->all[i].fd);
            f->all[i].fd = dial_silently(&f->at);
            atomic_fetch_add(&f->again, 1);
        }
        usleep(1000);
    }
    return NULL;
}

static void flood_begin(struct flood *f, const char *url, unsigned count)
{
    *f = (struct flood){.at = address_of(url), .count = count};
    f->all = mem_new_array(count, struct pollfd);
    for (unsigned i = 0; i < count; i++)
        f->all[i] = (struct pollfd){.fd = dial_silently(&f->at), .events = POLLIN};
    CHECK_EQ(pthread_create(&f->thread, NULL, keep_coming, f), 0);
}

static void flood_end(struct flood *f)
{
    atomic_store(&f->is_over, true);
    CHECK_EQ(pthread_join(f->thread, NULL), 0);
    for (unsigned i = 0; i < f->count; i++)
        close(f->all[i].fd);
    mem_free(f->all);
}

/* So many of its connections were cut, and came again. */
static void flood_await(struct flood *f, unsigned again)
{
    while (atomic_load(&f->again) < again)
        usleep(1000);
}

static const char *in_tmp(struct arena *arena, const char *name)
{
    return arena_printf(arena, "%s/%s", test_tmp_dir(), name);
}

/* --- members --- */

enum { MEMBERS = 2, STRANGERS = 1100 };

static void launch(struct peer members[MEMBERS], unsigned i)
{
    struct peer *p = &members[i];

    peer_launch(p, arena_printf(&p->arena,
                                "--name m%u --initial-cluster m0=%s,m1=%s --peer-cert-file %s "
                                "--peer-key-file %s --peer-trusted-ca-file %s "
                                "--peer-client-cert-auth",
                                i, members[0].peer_url, members[1].peer_url, certs_file("m"),
                                certs_key("m"), certs_file("ca")));
}

/* Until there is a leader calls fail; and on a machine that is slow enough the client is cut before
 * it has sent its request, as any stranger. It tries again. */
static void check_serves(const struct peer *p)
{
    struct pb_put_request put = {.key = BYTES("k"), .value = BYTES("v")};
    enum rpc_code code;

    do {
        struct caller c;
        caller_open(&c, p);
        struct ask a = {.line = caller_connect(&c)};
        ask_start(&a, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
        ask_wait(&a);
        code = a.code;
        ask_free(&a);
        caller_close(&c);
    } while (code != RPC_OK);
}

static unsigned open_files(struct peer *p)
{
    return (unsigned)atoi(peer_run(&p->arena, "ls /proc/%d/fd | wc -l", (int)p->pid));
}

/* All places of a member's peer port are taken by strangers without a certificate when the other
 * one starts again. That has its streams from there nevertheless, each a connection of its own. */
TEST(a_member_joins_again_while_strangers_fill_the_port)
{
    struct peer members[MEMBERS];
    struct flood f;
    struct arena names = {0};
    static const char established[] = "established TCP streaming connection with remote peer";
    peer_allow_files(2 * STRANGERS);
    certs_make("ca", &(struct cert){.cn = "ca", .is_ca = true});
    certs_make("m", &(struct cert){.signer = "ca", .cn = "member", .sans = "IP:127.0.0.1"});
    for (unsigned i = 0; i < MEMBERS; i++) {
        peer_open_ours(&members[i], in_tmp(&names, arena_printf(&names, "m%u", i)));
        members[i].peer_url = members[i].advertised_url =
            arena_printf(&members[i].arena, "https%s", strchr(members[i].peer_url, ':'));
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        launch(members, i);
    peer_await_said(&members[1], established, 4);

    peer_kill(&members[1]);
    flood_begin(&f, members[0].peer_url, STRANGERS);
    while (open_files(&members[0]) < PEER_CONNS_MAX - PEER_CONNS_RESERVED)
        usleep(10000);
    launch(members, 1);
    peer_await_said(&members[1], established, 2 * 4);
    CHECK_EQ(peer_said(&members[0], "i/o timeout"), 0); /* as of a handshake that takes 10 s */
    flood_await(&f, 2 * STRANGERS);
    peer_await(&members[1]);
    check_serves(&members[1]);
    CHECK_EQ(peer_said(&members[1], established), 2 * 4); /* and none was lost */

    flood_end(&f);
    for (unsigned i = 0; i < MEMBERS; i++) {
        peer_stop(&members[i]);
        peer_close(&members[i]);
    }
    arena_free(&names);
}

/* By the environment: the flag would contradict what make test has put there. */
static void serve_with_threads(unsigned threads)
{
    CHECK_EQ(setenv("ETCD_IO_THREADS", threads ? "1" : "0", 1), 0);
}

/* --- probes --- */

/* Asks for it again and again, each time on a new connection, until so many strangers were cut. */
static void check_probed(struct peer *p, const char *url, struct flood *f, unsigned again)
{
    unsigned asked = 0;

    while (asked < 10 || atomic_load(&f->again) < again) {
        CHECK_STR(peer_run(&p->arena, "curl -s -m 15 --retry 5 --retry-all-errors %s/livez", url),
                  "ok");
        asked++;
    }
}

TEST(probes_are_answered_while_strangers_fill_their_places)
{
    for (unsigned threads = 0; threads < 2; threads++) {
        struct peer p, other; /* which only lends its port */
        struct flood f;
        struct arena names = {0};
        peer_open_ours(&p, in_tmp(&names, threads ? "one" : "none"));
        peer_open_ours(&other, in_tmp(&names, "other"));
        serve_with_threads(threads);
        peer_start(&p, arena_printf(&p.arena, "--listen-metrics-urls %s", other.client_url));
        flood_begin(&f, other.client_url, RPC_PROBE_CONNS_MAX + 8);

        check_probed(&p, other.client_url, &f, 20);

        flood_end(&f);
        peer_stop(&p);
        peer_close(&p);
        peer_close(&other);
        arena_free(&names);
    }
}

/* A connection that was of use once, and is kept. */
static int dial_and_probe(const struct sockaddr_in *to)
{
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char reply[9];

    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)to, sizeof(*to)), 0);
    CHECK_EQ(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL), (ssize_t)sizeof(request) - 1);
    CHECK_EQ(recv(fd, reply, sizeof(reply), MSG_WAITALL), (ssize_t)sizeof(reply));
    CHECK_EQ(memcmp(reply, "HTTP/1.1 ", sizeof(reply)), 0);
    return fd;
}

/* As many as there are places, and then some, from where the kubelet comes from. */
TEST(probes_are_answered_while_idle_connections_fill_their_places)
{
    enum { IDLE = RPC_PROBE_CONNS_MAX + 8 };
    struct peer p, other; /* which only lends its port */
    struct arena names = {0};
    int all[IDLE];
    peer_open_ours(&p, in_tmp(&names, "one"));
    peer_open_ours(&other, in_tmp(&names, "other"));
    peer_start(&p, arena_printf(&p.arena, "--listen-metrics-urls %s", other.client_url));
    struct sockaddr_in to = address_of(other.client_url);

    for (unsigned i = 0; i < IDLE; i++)
        all[i] = dial_and_probe(&to);
    for (unsigned i = 0; i < 10; i++)
        CHECK_STR(peer_run(&p.arena, "curl -s -m 5 %s/livez", other.client_url), "ok");

    for (unsigned i = 0; i < IDLE; i++)
        close(all[i]);
    peer_stop(&p);
    peer_close(&p);
    peer_close(&other);
    arena_free(&names);
}

/* --- clients --- */

static void count_message(struct ask *a, struct bytes message)
{
    (void)message;
    ++*(unsigned *)a->context;
}

static void watch_last(struct ask *watch)
{
    struct pb_watch_create_request create = {.key = BYTES("last")};

    watch->on_message = count_message;
    ask_stream(watch, "/etcdserverpb.Watch/Watch");
    ask_say(watch, &pb_watch_request_schema,
            &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
}

/* A watch that is silent all the time is there at the end, and new clients come in. */
static void check_clients_are_served(unsigned threads)
{
    enum { FILES = 400, CUT = 500, GUESTS = 20 };
    struct peer p;
    struct flood f;
    struct caller c;
    struct arena names = {0};
    unsigned replies = 0;
    struct ask watch = {.context = &replies};
    peer_open_ours(&p, in_tmp(&names, threads ? "one" : "none"));
    p.files_max = FILES;
    serve_with_threads(threads);
    peer_start(&p, "--log-level=warn");
    caller_open(&c, &p);
    watch.line = caller_connect(&c);
    watch_last(&watch);
    while (replies < 1)
        caller_turn(&c, 1000);
    flood_begin(&f, p.client_url, FILES);

    for (unsigned i = 0; i < GUESTS; i++) {
        flood_await(&f, i * CUT / GUESTS);
        check_serves(&p);
    }
    CHECK_EQ(replies, 1);
    caller_put(watch.line, BYTES("last"), BYTES("v"));
    while (replies < 2)
        caller_turn(&c, 1000);

    flood_end(&f);
    ask_cancel(&watch);
    ask_free(&watch);
    caller_close(&c);
    peer_stop(&p);
    peer_close(&p);
    arena_free(&names);
}

TEST(clients_are_served_while_strangers_fill_their_places)
{
    peer_allow_files(1000);
    for (unsigned threads = 0; threads < 2; threads++)
        check_clients_are_served(threads);
}

/* --- memory --- */

static size_t most_memory_bytes(struct peer *p)
{
    const char *kib = peer_run(&p->arena, "awk '/VmHWM/ {print $2}' /proc/%d/status", (int)p->pid);

    return (size_t)strtoull(kib, NULL, 10) * KIB;
}

/* What is posted as a message is received into the memory that it then stays in. */
TEST(a_large_post_to_the_peer_port_is_held_once)
{
    enum { POST_BYTES = 128 * MIB };
    struct peer p;
    struct arena names = {0};
    struct buf post = {0};
    char status[13] = "";
    peer_open_ours(&p, in_tmp(&names, "ours"));
    peer_start(&p, "");
    peer_await_said(&p, "published local member to cluster through raft", 1);
    const char *id =
        peer_run(&p.arena,
                 "sed -n 's/.*\"cluster-id\":\"\\([0-9a-f]*\\)\".*/\\1/p' %s.log | head -1", p.dir);
    buf_printf(
        &post,
        "POST /raft HTTP/1.1\r\nHost: x\r\nX-Server-From: 22\r\nX-Server-Version: 3.7.1\r\n"
        "X-Min-Cluster-Version: 3.0.0\r\nX-Etcd-Cluster-ID: %s\r\nContent-Length: %d\r\n\r\n",
        id, POST_BYTES);
    memset(buf_extend(&post, POST_BYTES), 0xff, POST_BYTES);
    struct sockaddr_in to = address_of(p.peer_url);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);

    for (size_t sent = 0; sent < post.len;) {
        ssize_t n = send(fd, post.at + sent, post.len - sent, MSG_NOSIGNAL);
        CHECK(n > 0);
        sent += (size_t)n;
    }
    CHECK_EQ(recv(fd, status, sizeof(status) - 1, MSG_WAITALL), (ssize_t)sizeof(status) - 1);

    CHECK_STR(status, "HTTP/1.1 400"); /* whole, and no message */
    CHECK(most_memory_bytes(&p) < POST_BYTES / 4 * 5 || !peer_memory_counts());
    close(fd);
    buf_free(&post);
    peer_stop(&p);
    peer_close(&p);
    arena_free(&names);
}
