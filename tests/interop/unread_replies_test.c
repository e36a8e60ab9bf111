/*
 * Replies that nobody reads, and what the server holds of them meanwhile.
 *
 * Requests of a few bytes whose replies are large: on one connection with many streams, and on many
 * connections with a few each. Their clients open all windows, take nothing and stay. The server
 * keeps within its memory, serves a client that behaves, and one of the others that begins to read
 * gets all that it has asked for, right and whole.
 */
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/clock.h"
#include "rpc/message.h"
#include "rpc/rpc_rig_test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEYS = 4000, KEYS_AT_ONCE = 100, LEASES = 10000, LEASE = 7 };

struct unread {
    struct peer peer;
    struct caller caller;
    struct line *good; /* the connection of a client that behaves */
    struct arena arena;
    struct sockaddr_in address;
    size_t before, most; /* memory */
    uint64_t slowest_ns; /* answer to the good client */
};

/* --- what there is to be asked for --- */

static void grant(struct unread *u, int64_t id)
{
    struct ask a = {.line = u->good};

    ask_start(&a, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
              &(struct pb_lease_grant_request){.id = id, .ttl = 100000});
    ask_wait(&a);
    CHECK_EQ(a.code, RPC_OK);
    ask_free(&a);
}

/* Keys of a hundred bytes, all on one lease. */
static void put_keys(struct unread *u, unsigned from)
{
    struct pb_request_op ops[KEYS_AT_ONCE];
    struct pb_put_request puts[KEYS_AT_ONCE];
    char keys[KEYS_AT_ONCE][101];
    struct pb_txn_request txn = {.success = {ops, KEYS_AT_ONCE}};
    struct ask a = {.line = u->good};

    for (unsigned i = 0; i < KEYS_AT_ONCE; i++) {
        snprintf(keys[i], sizeof(keys[i]), "many/%095u", from + i);
        puts[i] = (struct pb_put_request){
            .key = bytes_of_str(keys[i]), .value = BYTES("value"), .lease = LEASE};
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &puts[i]};
    }
    ask_start(&a, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
    ask_wait(&a);
    CHECK_EQ(a.code, RPC_OK);
    ask_free(&a);
}

static void grant_many(struct unread *u)
{
    enum { AT_ONCE = 1000 };
    static struct ask asks[AT_ONCE];

    for (int64_t id = 1000; id < 1000 + LEASES; id += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            asks[i] = (struct ask){.line = u->good};
            ask_start(&asks[i], "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                      &(struct pb_lease_grant_request){.id = id + i + (1ll << 60), .ttl = 100000});
        }
        for (int i = 0; i < AT_ONCE; i++) {
            ask_wait(&asks[i]);
            CHECK_EQ(asks[i].code, RPC_OK);
            ask_free(&asks[i]);
        }
    }
}

static void look(struct unread *u)
{
    size_t now = peer_memory_bytes(&u->peer);

    u->most = now > u->most ? now : u->most;
}

static void open_unread(struct unread *u)
{
    *u = (struct unread){0};
    peer_allow_files(1000);
    peer_open_ours(&u->peer, arena_printf(&u->arena, "%s/ours", test_tmp_dir()));
    peer_start(&u->peer, "--log-level=warn");
    caller_open(&u->caller, &u->peer);
    u->good = caller_connect(&u->caller);
    u->address = (struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons(u->caller.address.port)};
    grant(u, LEASE);
    for (unsigned i = 0; i < KEYS; i += KEYS_AT_ONCE)
        put_keys(u, i);
}

/* --- the good client --- */

static void hear(struct ask *a, struct bytes message)
{
    unsigned *heard = a->context;

    (void)message;
    ++*heard;
}

/* A put, a get, and the event of that put to a watcher that was there before. */
static void check_served(struct unread *u, struct ask *watch, unsigned *heard)
{
    unsigned before = *heard;
    uint64_t began = caller_now_ns(&u->caller);
    struct ask get = {.line = u->good};

    caller_put(u->good, BYTES("good"), BYTES("value"));
    ask_start(&get, "/etcdserverpb.KV/Range", &pb_range_request_schema,
              &(struct pb_range_request){.key = BYTES("good")});
    ask_wait(&get);
    CHECK_EQ(get.code, RPC_OK);
    ask_free(&get);
    while (*heard == before)
        caller_turn(&u->caller, 100);
    uint64_t took = caller_now_ns(&u->caller) - began;
    u->slowest_ns = took > u->slowest_ns ? took : u->slowest_ns;
    CHECK(!ask_is_over(watch));
    look(u);
}

/* --- the others --- */

struct question {
    const char *path;
    const struct pb_schema *schema;
    const void *request;
};

static void put_questions(struct buf *out, const struct question *q, unsigned streams)
{
    struct buf message = {0}, framed = {0};

    pb_encode(q->schema, q->request, &message);
    message_put(&framed, buf_bytes(&message));
    frame_preface(out);
    for (unsigned i = 0; i < streams; i++) {
        frame_request(out, 1 + 2 * i, q->path, false, BYTES(""));
        frame_put(out, 0, 1, 1 + 2 * i, buf_bytes(&framed));
    }
    buf_free(&message);
    buf_free(&framed);
}

static int dial(const struct unread *u)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)&u->address, sizeof(u->address)), 0);
    return fd;
}

/* The server may have stopped reading: what it does not take is not asked. */
static size_t send_some(int fd, struct bytes data)
{
    size_t sent = 0;

    while (sent < data.len) {
        ssize_t n = send(fd, data.at + sent, data.len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    return sent;
}

/* --- one of them begins to read --- */

/* Of replies to the same question all is the same but the beginning, where the header's revision is
 * and the time that a lease has left, and these may be a few bytes longer or shorter. */
struct gist {
    size_t bytes;
    uint32_t crc; /* of the rest */
};

enum { REST_BYTES = 64 * KIB, FRONT_CHANGE_MAX = 8 };

static struct gist gist_of(struct bytes reply)
{
    CHECK(reply.len > REST_BYTES + KIB);
    return (struct gist){reply.len,
                         crc32c(0, bytes_of(reply.at + reply.len - REST_BYTES, REST_BYTES))};
}

static void check_gist(struct gist g, struct gist want)
{
    CHECK(g.bytes <= want.bytes + FRONT_CHANGE_MAX && want.bytes <= g.bytes + FRONT_CHANGE_MAX);
    CHECK_EQ(g.crc, want.crc);
}

struct reader {
    struct message_reader *streams; /* by number */
    unsigned stream_count, whole;
    struct gist *gists; /* of the message of each */
    struct buf in;
    uint64_t consumed;
};

static void open_windows(int fd, uint32_t stream)
{
    struct buf out = {0};

    frame_put(&out, 8, 0, stream, BYTES("\x3f\x00\x00\x00"));
    send_some(fd, buf_bytes(&out));
    buf_free(&out);
}

static void take_frame(struct reader *r, unsigned type, uint32_t stream, struct bytes payload)
{
    if (type != 0 || stream == 0)
        return;
    unsigned at = (stream - 1) / 2;
    enum message_step step;

    CHECK(at < r->stream_count);
    while ((step = message_read(&r->streams[at], &payload)) != MESSAGE_MORE) {
        if (step != MESSAGE_WHOLE)
            continue;
        r->whole++;
        r->gists[at] = gist_of(buf_bytes(&r->streams[at].content));
        message_reader_free(&r->streams[at]);
        return;
    }
}

static size_t take_frames(struct reader *r)
{
    size_t at = 0;

    while (r->in.len - at >= 9) {
        const uint8_t *head = r->in.at + at;
        size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        uint32_t stream = (uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
                          (uint32_t)head[7] << 8 | head[8];
        if (r->in.len - at - 9 < len)
            break;
        take_frame(r, head[3], stream, bytes_of(head + 9, len));
        at += 9 + len;
    }
    return at;
}

/* All that this client has asked for comes, and all of it is what it should be. */
static void read_all(int fd, unsigned streams, struct gist want)
{
    struct reader r = {.stream_count = streams};
    r.streams = mem_new_array(streams, struct message_reader);
    r.gists = mem_new_array(streams, struct gist);
    for (unsigned i = 0; i <= streams; i++)
        open_windows(fd, i == 0 ? 0 : 2 * i - 1);

    while (r.whole < streams) {
        ssize_t n = recv(fd, buf_reserve(&r.in, 256 * KIB), 256 * KIB, 0);
        CHECK(n > 0);
        r.in.len += (size_t)n;
        buf_drop_front(&r.in, take_frames(&r));
    }
    for (unsigned i = 0; i < streams; i++)
        check_gist(r.gists[i], want);
    for (unsigned i = 0; i < streams; i++)
        message_reader_free(&r.streams[i]);
    mem_free(r.streams);
    mem_free(r.gists);
    buf_free(&r.in);
}

/* --- the attack --- */

/* Until nothing has become more for so many times: then all that will be made is there. */
static void serve_until_steady(struct unread *u, struct ask *watch, unsigned *heard)
{
    enum { STEADY = 40 };

    for (unsigned steady = 0; steady < STEADY; steady++) {
        size_t most = u->most;
        check_served(u, watch, heard);
        if (u->most > most)
            steady = 0;
    }
}

/* What one connection may owe, or all of them; and the calls and connections themselves. */
static size_t bound_of(unsigned clients)
{
    return (clients == 1 ? RPC_CONN_BYTES_MAX : RPC_REPLIES_BYTES_MAX) + 20 * (size_t)MIB +
           clients * 100 * KIB;
}

static struct gist ask_one(struct unread *u, const struct question *q)
{
    struct ask a = {.line = u->good};

    ask_start(&a, q->path, q->schema, q->request);
    ask_wait(&a);
    CHECK_EQ(a.code, RPC_OK);
    struct gist gist = gist_of(buf_bytes(&a.answer));
    ask_free(&a);
    return gist;
}

static void check(struct unread *u, const char *what, const struct question *q, unsigned clients,
                  unsigned streams)
{
    int *fds = mem_new_array(clients, int);
    struct buf out = {0};
    unsigned heard = 0;
    struct ask watch = {.line = u->good, .on_message = hear, .context = &heard};
    struct pb_watch_create_request create = {.key = BYTES("good")};
    ask_stream(&watch, "/etcdserverpb.Watch/Watch");
    ask_say(&watch, &pb_watch_request_schema,
            &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    while (heard == 0)
        caller_turn(&u->caller, 100);
    put_questions(&out, q, streams);
    struct gist want = ask_one(u, q);
    size_t sent = 0;
    check_served(u, &watch, &heard);
    u->slowest_ns = 0;
    u->before = u->most = peer_memory_bytes(&u->peer);

    for (unsigned i = 0; i < clients; i++) {
        fds[i] = dial(u);
        sent += send_some(fds[i], buf_bytes(&out));
        if (i % 10 == 0)
            check_served(u, &watch, &heard);
    }
    serve_until_steady(u, &watch, &heard);

    size_t more = u->most - u->before;
    printf("%s: %u connections with %u streams sent %zu KiB for replies of %zu KiB each; memory "
           "%zu KiB and %zu KiB more; slowest answers to another %.1f ms\n",
           what, clients, streams, sent / 1024, want.bytes / 1024, u->before / 1024, more / 1024,
           (double)u->slowest_ns / 1e6);
    CHECK(more <= bound_of(clients) || !peer_memory_counts());
    read_all(fds[clients / 2], streams, want);
    for (unsigned i = 0; i < clients; i++)
        close(fds[i]);
    ask_cancel(&watch);
    ask_free(&watch);
    buf_free(&out);
    mem_free(fds);
    caller_close(&u->caller);
    peer_stop(&u->peer);
    peer_close(&u->peer);
    arena_free(&u->arena);
}

static const struct pb_lease_time_to_live_request keys_of_lease = {.id = LEASE, .keys = true};
static const struct question lease_keys = {"/etcdserverpb.Lease/LeaseTimeToLive",
                                           &pb_lease_time_to_live_request_schema, &keys_of_lease};

TEST(keys_of_a_lease_that_one_client_does_not_read_cost_little)
{
    struct unread u;
    open_unread(&u);

    check(&u, "keys of a lease", &lease_keys, 1, 300);
}

TEST(keys_of_a_lease_that_many_clients_do_not_read_cost_little)
{
    struct unread u;
    open_unread(&u);

    check(&u, "keys of a lease", &lease_keys, 200, 10);
}

static const struct pb_empty no_fields;
static const struct question all_leases = {"/etcdserverpb.Lease/LeaseLeases",
                                           &pb_lease_leases_request_schema, &no_fields};

TEST(leases_that_one_client_does_not_read_cost_little)
{
    struct unread u;
    open_unread(&u);
    grant_many(&u);

    check(&u, "leases", &all_leases, 1, 300);
}

TEST(leases_that_many_clients_do_not_read_cost_little)
{
    struct unread u;
    open_unread(&u);
    grant_many(&u);

    check(&u, "leases", &all_leases, 200, 10);
}

static const struct pb_range_request newest_first = {.key = BYTES("many/"),
                                                     .range_end = BYTES("many0"),
                                                     .sort_order = PB_SORT_DESCEND,
                                                     .sort_target = PB_SORT_BY_MOD};
static const struct question sorted = {"/etcdserverpb.KV/Range", &pb_range_request_schema,
                                       &newest_first};

TEST(sorted_ranges_that_one_client_does_not_read_cost_little)
{
    struct unread u;
    open_unread(&u);

    check(&u, "a sorted range", &sorted, 1, 300);
}

TEST(sorted_ranges_that_many_clients_do_not_read_cost_little)
{
    struct unread u;
    open_unread(&u);

    check(&u, "a sorted range", &sorted, 200, 10);
}
