/*
 * The server as a program, and clients that mean no good: it keeps within its memory, tells them
 * where it can, and everybody else is served meanwhile.
 *
 * rpc has the same in the small (rpc_hostile_test.c), on fakes and with exact expectations; here it
 * is real sockets, the kernel's buffers and numbers.
 */
#include "base/gzip.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "interop/raw_http_test.h"
#include "io/clock.h"
#include "rpc/rpc_rig_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct siege {
    struct peer peer;
    struct caller caller;
    struct line *good; /* the connection of a client that behaves */
    struct arena arena;
    struct rng rng;
    struct sockaddr_in address;
    size_t memory_before, memory_most;
    uint64_t slowest_ns; /* answer that the good client got */
    unsigned asked;
};

/* --- the good client --- */

static void look(struct siege *s)
{
    size_t now = peer_memory_bytes(&s->peer);

    if (now > s->memory_most)
        s->memory_most = now;
}

static void check_served(struct siege *s)
{
    uint64_t began = caller_now_ns(&s->caller);
    char value[32];

    snprintf(value, sizeof(value), "%u", s->asked++);
    caller_put(s->good, BYTES("good"), bytes_of_str(value));
    uint64_t took = caller_now_ns(&s->caller) - began;
    if (took > s->slowest_ns)
        s->slowest_ns = took;
    look(s);
}

static void siege_open_with(struct siege *s, const char *flags)
{
    *s = (struct siege){0};
    rng_seed(&s->rng, test_seed());
    peer_open_ours(&s->peer, arena_printf(&s->arena, "%s/ours", test_tmp_dir()));
    peer_start(&s->peer, flags);
    caller_open(&s->caller, &s->peer);
    s->good = caller_connect(&s->caller);
    s->address = (struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons(s->caller.address.port)};
    for (unsigned i = 0; i < 100; i++)
        check_served(s);
    s->memory_before = s->memory_most;
    s->slowest_ns = 0;
}

static void siege_open(struct siege *s)
{
    siege_open_with(s, "--log-level=warn");
}

/* Never more than so much above what it had before; and the good client never waited long. */
static void siege_end(struct siege *s, size_t more_bytes_max)
{
    check_served(s);
    size_t more = s->memory_most - s->memory_before;
    printf("memory %zu KiB and %zu KiB more, slowest answer to others %.1f ms\n",
           s->memory_before / 1024, more / 1024, (double)s->slowest_ns / 1e6);
    CHECK(more <= more_bytes_max || !peer_memory_counts());
    CHECK(s->slowest_ns < (SANITIZED ? 10 : 1) * NS_PER_S);
    caller_close(&s->caller);
    peer_stop(&s->peer);
}

static void siege_forget(struct siege *s)
{
    peer_close(&s->peer);
    arena_free(&s->arena);
}

static void siege_close(struct siege *s, size_t more_bytes_max)
{
    siege_end(s, more_bytes_max);
    siege_forget(s);
}

/* --- bad ones: plain sockets --- */

static int dial(struct siege *s)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&s->address, sizeof(s->address)), 0);
    return fd;
}

/* As much as the kernel takes; the server may have hung up already. */
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

/* With a reset, as when a process dies, or politely. */
static void hang_up(int fd, bool rudely)
{
    struct linger at_once = {.l_onoff = 1};

    if (rudely)
        CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(fd);
}

/* What comes next; false if the server has hung up. */
static bool receive_some(int fd, struct buf *out)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (poll(&p, 1, 10000) != 1)
        test_fail(__FILE__, __LINE__, "no word from the server in 10 s");
    ssize_t n = recv(fd, buf_reserve(out, 4096), 4096, 0);
    if (n > 0)
        out->len += (size_t)n;
    return n > 0;
}

static void put_request(struct buf *out)
{
    struct buf message = {0}, framed = {0};
    struct pb_put_request put = {.key = BYTES("bad"), .value = BYTES("value")};

    pb_encode_put_request(&put, &message);
    message_put(&framed, buf_bytes(&message));
    frame_preface(out);
    frame_request(out, 1, "/etcdserverpb.KV/Put", false, BYTES(""));
    frame_put(out, 0, 1, 1, buf_bytes(&framed));
    buf_free(&message);
    buf_free(&framed);
}

static void watch_request(struct buf *out)
{
    struct buf message = {0}, framed = {0};
    struct pb_watch_create_request create = {.key = BYTES("good"), .start_revision = 1};

    pb_encode_watch_request(&(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create},
                            &message);
    message_put(&framed, buf_bytes(&message));
    frame_preface(out);
    frame_request(out, 1, "/etcdserverpb.Watch/Watch", false, BYTES(""));
    frame_put(out, 0, 0, 1, buf_bytes(&framed));
    buf_free(&message);
    buf_free(&framed);
}

/* --- garbage --- */

static void garbage(struct siege *s, struct buf *out)
{
    static const char *const starts[] = {"",         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                         "GET / ",   "POST /v3/kv/put HTTP/1.1\r\n",
                                         "\x16\x03", "GET /health HTTP/1.1\r\nHost: x\r\n"};
    size_t len = rng_below(&s->rng, 5000);

    buf_append_str(out, starts[rng_below(&s->rng, ARRAY_LEN(starts))]);
    for (size_t i = 0; i < len; i++)
        buf_append_byte(out, (uint8_t)rng_next(&s->rng));
}

TEST(garbage_on_the_port_disturbs_nobody)
{
    struct siege s;
    siege_open(&s);

    for (unsigned i = 0; i < 500 * test_effort(); i++) {
        struct buf out = {0};
        int fd = dial(&s);
        garbage(&s, &out);
        send_some(fd, buf_bytes(&out));
        if (i % 3 == 0)
            check_served(&s);
        hang_up(fd, i % 2);
        buf_free(&out);
    }

    siege_close(&s, 4 * MIB);
}

/* --- leaving in the middle --- */

static void leave_everywhere(struct siege *s, struct bytes request)
{
    for (size_t len = 0; len <= request.len; len++) {
        int fd = dial(s);
        CHECK_EQ(send_some(fd, bytes_of(request.at, len)), len);
        if (len % 8 == 0)
            check_served(s); /* by now it has seen what there is */
        hang_up(fd, len % 2);
    }
}

TEST(clients_may_leave_at_any_byte)
{
    struct siege s;
    struct buf put = {0}, watch = {0};
    siege_open(&s);
    put_request(&put);
    watch_request(&watch);

    leave_everywhere(&s, buf_bytes(&put));
    leave_everywhere(&s, buf_bytes(&watch));
    leave_everywhere(&s, BYTES("POST /v3/kv/range HTTP/1.1\r\nHost: a\r\nContent-Length: "
                               "20\r\n\r\n{\"key\": \"YQ==\"}     "));

    buf_free(&put);
    buf_free(&watch);
    siege_close(&s, 4 * MIB);
}

/* --- lies about lengths --- */

static void check_refused(struct siege *s, const char *path)
{
    struct buf out = {0}, got = {0}, fields = {0};
    int fd = dial(s);

    frame_preface(&out);
    frame_request(&out, 1, path, false, BYTES(""));
    frame_put(&out, 0, 0, 1, BYTES("\0\xff\xff\xff\xff"));
    send_some(fd, buf_bytes(&out));
    while (!strstr(buf_str(&fields), "grpc-message")) {
        CHECK(receive_some(fd, &got));
        buf_clear(&fields);
        fields_found(buf_bytes(&got), 1, &fields);
    }
    CHECK(strstr(buf_str(&fields), "grpc-status: 8\n"));
    CHECK(strstr(buf_str(&fields), "grpc-message: grpc: received message larger than max "
                                   "(4294967295 vs. 2097152)\n"));
    check_served(s);
    hang_up(fd, true);
    buf_free(&out);
    buf_free(&got);
    buf_free(&fields);
}

TEST(a_length_of_four_gigabytes_costs_nothing)
{
    struct siege s;
    siege_open(&s);

    for (unsigned i = 0; i < 50; i++) {
        check_refused(&s, "/etcdserverpb.KV/Put");
        check_refused(&s, "/etcdserverpb.Watch/Watch");
    }

    siege_close(&s, 1 * MIB);
}

/* --- nesting --- */

static void put_varint_backwards(struct buf *out, size_t n)
{
    uint8_t bytes[10];
    size_t count = 0;

    do {
        bytes[count] = (uint8_t)((n & 127) | (n > 127 ? 128 : 0));
        count++;
        n >>= 7;
    } while (n > 0);
    while (count > 0)
        buf_append_byte(out, bytes[--count]);
}

/* A transaction in a transaction in ...: built from the inside, so back to front. */
static void nest(struct buf *out, unsigned levels)
{
    struct buf reversed = {0};

    for (unsigned i = 0; i < levels; i++) {
        size_t inner = reversed.len;
        put_varint_backwards(&reversed, inner);
        buf_append_byte(&reversed, 4 << 3 | 2); /* RequestOp.request_txn */
        size_t op = reversed.len;
        put_varint_backwards(&reversed, op);
        buf_append_byte(&reversed, 2 << 3 | 2); /* TxnRequest.success */
    }
    for (size_t i = reversed.len; i > 0; i--)
        buf_append_byte(out, reversed.at[i - 1]);
    buf_free(&reversed);
}

TEST(a_transaction_of_absurd_depth_is_refused)
{
    struct siege s;
    siege_open(&s);

    for (unsigned levels = 40; levels < 200000; levels = levels * 3 / 2) {
        struct buf wire = {0};
        struct ask a = {.line = s.good};
        nest(&wire, levels);
        ask_stream(&a, "/etcdserverpb.KV/Txn");
        client_send(a.call, buf_bytes(&wire));
        client_end(a.call);
        ask_wait(&a);
        CHECK((a.code == RPC_OK) == (levels <= API_TXN_OPS_DEFAULT));
        check_served(&s);
        ask_free(&a);
        buf_free(&wire);
    }

    siege_close(&s, 16 * MIB);
}

/* --- never reading --- */

static void ask_for_much(struct buf *out, unsigned streams)
{
    struct buf message = {0}, framed = {0};

    pb_encode_range_request(&(struct pb_range_request){.key = BYTES("large")}, &message);
    message_put(&framed, buf_bytes(&message));
    frame_preface(out);
    for (unsigned i = 0; i < streams; i++) {
        frame_request(out, 1 + 2 * i, "/etcdserverpb.KV/Range", false, BYTES(""));
        frame_put(out, 0, 1, 1 + 2 * i, buf_bytes(&framed));
    }
    buf_free(&message);
    buf_free(&framed);
}

static void put_large(struct siege *s)
{
    size_t len = 1 * MIB;
    uint8_t *value = mem_alloc(len);

    caller_put(s->good, BYTES("large"), bytes_of(value, len));
    mem_free(value);
}

/* 50 connections ask for a hundred megabytes each, all windows open, and take nothing. What is left
 * is the calls themselves, five thousand of them. */
TEST(clients_that_never_read_cost_little)
{
    enum { CLIENTS = 50, STREAMS = 100 };
    struct siege s;
    int fds[CLIENTS];
    struct buf out = {0};
    siege_open(&s);
    put_large(&s);
    s.memory_before = peer_memory_bytes(&s.peer);
    ask_for_much(&out, STREAMS);
    frame_put(&out, 8, 0, 0, BYTES("\x7f\x00\x00\x00"));
    for (unsigned i = 0; i < STREAMS; i++)
        frame_put(&out, 8, 0, 1 + 2 * i, BYTES("\x7f\x00\x00\x00"));

    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = dial(&s);
        send_some(fds[i], buf_bytes(&out));
        check_served(&s);
    }
    for (unsigned i = 0; i < 100; i++)
        check_served(&s);

    for (unsigned i = 0; i < CLIENTS; i++)
        hang_up(fds[i], i % 2);
    buf_free(&out);
    siege_close(&s, 96 * MIB);
}

/* They read a little of a long answer and are gone. */
TEST(clients_may_leave_in_the_middle_of_an_answer)
{
    struct siege s;
    struct buf out = {0};
    siege_open(&s);
    put_large(&s);
    s.memory_before = peer_memory_bytes(&s.peer);
    ask_for_much(&out, 5);
    frame_put(&out, 8, 0, 0, BYTES("\x7f\x00\x00\x00"));
    for (unsigned i = 0; i < 5; i++)
        frame_put(&out, 8, 0, 1 + 2 * i, BYTES("\x7f\x00\x00\x00"));

    for (unsigned i = 0; i < 200; i++) {
        int fd = dial(&s);
        uint8_t some[4096];
        size_t wanted = rng_below(&s.rng, 2 * MIB);
        CHECK_EQ(send_some(fd, buf_bytes(&out)), out.len);
        for (size_t got = 0; got < wanted;) {
            ssize_t n = recv(fd, some, sizeof(some), 0);
            CHECK(n > 0);
            got += (size_t)n;
        }
        hang_up(fd, i % 2);
        if (i % 10 == 0)
            check_served(&s);
    }

    buf_free(&out);
    siege_close(&s, 32 * MIB);
}

/* --- large heads --- */

/* Heads that do not end, of 400 clients: some of them are taken in as far as they come, the others
 * only to what everybody may have. A client with a usual head is served meanwhile, on a new
 * connection, too. */
TEST(large_heads_of_many_cost_little)
{
    enum { CLIENTS = 400, HEAD_BYTES = 250 * KIB };
    struct siege s;
    int fds[CLIENTS];
    struct buf out = {0};
    peer_allow_files(CLIENTS + 100);
    siege_open(&s);
    buf_append_str(&out, "GET /version HTTP/1.1\r\nHost: x\r\nA: ");
    memset(buf_extend(&out, HEAD_BYTES), 'a', HEAD_BYTES);

    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = dial(&s);
        (void)!send(fds[i], out.at, out.len,
                    MSG_NOSIGNAL); /* waits until all is read, or refused */
        check_served(&s);
    }
    const char *answer =
        raw_http(&s.arena, s.caller.address.port, BYTES("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
    CHECK(strncmp(answer, "HTTP/1.1 200 OK\n", 16) == 0);
    look(&s);

    for (unsigned i = 0; i < CLIENTS; i++)
        hang_up(fds[i], i % 2);
    buf_free(&out);
    siege_close(&s, 56 * MIB);
}

/* --- few bytes that ask for much work --- */

/* How long the core was at work since then. */
static uint64_t worked_ns(struct siege *s, uint64_t since_ns)
{
    return peer_core_ns(&s->peer) - since_ns;
}

/* What it takes to serve the good client so often: the measure of what others may cost, on any
 * machine. */
static uint64_t cost_of_puts(struct siege *s, unsigned count)
{
    uint64_t before = peer_core_ns(&s->peer);

    for (unsigned i = 0; i < count; i++)
        check_served(s);
    return worked_ns(s, before);
}

static void until_hung_up(int fd)
{
    struct buf got = {0};

    while (receive_some(fd, &got))
        buf_clear(&got);
    close(fd);
    buf_free(&got);
}

static void send_all(int fd, struct bytes data)
{
    while (data.len > 0) {
        ssize_t n = send(fd, data.at, data.len, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the server has hung up */
        data = bytes_of(data.at + n, data.len - (size_t)n);
    }
}

/* The server says at its end which of its turns was at work for the longest. */
static uint64_t longest_turn_ns(struct siege *s)
{
    static const char name[] = "\"longest-turn-cpu\":\"";
    const char *line = peer_run(&s->arena, "grep 'closed etcd server' %s.log", s->peer.dir);
    const char *field = strstr(line, name);
    char unit[3];
    double number;

    CHECK(field);
    CHECK_EQ(sscanf(field + sizeof(name) - 1, "%lf%2[^\"]", &number, unit), 2);
    return (uint64_t)(number * (strcmp(unit, "s") == 0    ? 1e9
                                : strcmp(unit, "ms") == 0 ? 1e6
                                                          : 1e3));
}

static void put_call_fields(struct buf *block, const char *path)
{
    field_put(block, ":method", "POST");
    field_put(block, ":scheme", "http");
    field_put(block, ":path", path);
    field_put(block, ":authority", "test");
    field_put(block, "content-type", "application/grpc");
}

TEST(a_field_that_is_named_without_end_costs_little)
{
    enum { CLIENTS = 20 };
    struct siege s;
    struct buf block = {0}, out = {0};
    siege_open(&s);
    put_call_fields(&block, "/etcdserverpb.KV/Put");
    field_put_repeated(&block, 3900, 63000);
    frame_preface(&out);
    frame_put_block(&out, 0, 1, buf_bytes(&block));
    uint64_t allowed = cost_of_puts(&s, 50 * CLIENTS);

    uint64_t before = peer_core_ns(&s.peer);
    for (unsigned i = 0; i < CLIENTS; i++) {
        int fd = dial(&s);
        send_all(fd, buf_bytes(&out));
        until_hung_up(fd);
    }
    uint64_t worked = worked_ns(&s, before);

    printf("%.2f ms each, 50 puts %.2f ms\n", (double)worked / (double)CLIENTS / 1e6,
           (double)allowed / (double)CLIENTS / 1e6);
    CHECK(worked < allowed);
    buf_free(&block);
    buf_free(&out);
    siege_close(&s, 4 * MIB);
}

/* Each of these calls is as it may be: it is the turns that are to stay short. */
TEST(calls_with_long_lists_in_few_bytes_share_the_turns)
{
    enum { CALLS = 1500, FIELDS = 60 };
    struct siege s;
    struct buf out = {0};
    const char *threads = getenv("ETCD_IO_THREADS");
    if (threads && strcmp(threads, "0") != 0)
        SKIP("an io thread looks at fields: turns of the core are not what they cost");
    siege_open_with(&s, "--log-level=info");
    frame_preface(&out);
    for (unsigned i = 0; i < CALLS; i++) {
        struct buf block = {0};
        put_call_fields(&block, "/etcdserverpb.KV/Put");
        if (i == 0)
            field_put_repeated(&block, 3900, FIELDS);
        else
            memset(buf_extend(&block, FIELDS), 0x80 | 62, FIELDS);
        frame_put_block(&out, 1, 1 + 2 * i, buf_bytes(&block));
        buf_free(&block);
    }
    frame_put(&out, 7, 0, 0, BYTES("\0\0\0\0\0\0\0\0")); /* GOAWAY: no more will come */

    uint64_t before = peer_core_ns(&s.peer);
    int fd = dial(&s);
    send_all(fd, buf_bytes(&out));
    until_hung_up(fd);
    uint64_t worked = worked_ns(&s, before);
    buf_free(&out);
    siege_end(&s, 8 * MIB);

    printf("%.1f ms in all, %.1f ms in a turn\n", (double)worked / 1e6,
           (double)longest_turn_ns(&s) / 1e6);
    CHECK(longest_turn_ns(&s) * 10 < worked);
    siege_forget(&s);
}

/* A put of so many bytes that are all the same, as gRPC has it when it is packed. */
static void put_bomb(struct buf *out, size_t value_bytes)
{
    struct gzip *g = gzip_new();
    struct buf value = {0}, plain = {0}, packed = {0};

    memset(buf_extend(&value, value_bytes), 'v', value_bytes);
    pb_encode_put_request(&(struct pb_put_request){.key = BYTES("bad"), .value = buf_bytes(&value)},
                          &plain);
    gzip_pack(g, buf_bytes(&plain), &packed);
    message_put(out, buf_bytes(&packed));
    out->at[0] = 1;
    gzip_free(g);
    buf_free(&value);
    buf_free(&plain);
    buf_free(&packed);
}

/* The most that it has ever had in memory. */
static size_t peak_bytes(struct siege *s)
{
    const char *line = peer_run(&s->arena, "grep VmHWM /proc/%d/status", s->peer.pid);
    size_t kib;

    CHECK_EQ(sscanf(line, "VmHWM: %zu", &kib), 1);
    return kib * KIB;
}

static bool has_hung_up(int fd)
{
    uint8_t some[4096];
    ssize_t n;

    do
        n = recv(fd, some, sizeof(some), MSG_DONTWAIT);
    while (n > 0);
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* 150 messages of two megabytes in 336 KB. */
TEST(bombs_cost_neither_memory_nor_long_turns)
{
    enum { CALLS = 150, PLAIN_BYTES = 2000000 };
    struct siege s;
    struct buf message = {0}, block = {0}, out = {0};
    siege_open_with(&s, "--log-level=info");
    put_bomb(&message, PLAIN_BYTES);
    put_call_fields(&block, "/etcdserverpb.KV/Put");
    field_put(&block, "grpc-encoding", "gzip");
    frame_preface(&out);
    for (unsigned i = 0; i < CALLS; i++) {
        frame_put_block(&out, 0, 1 + 2 * i, buf_bytes(&block));
        frame_put(&out, 0, 1, 1 + 2 * i, buf_bytes(&message));
    }
    frame_put(&out, 7, 0, 0, BYTES("\0\0\0\0\0\0\0\0"));

    size_t peak_before = peak_bytes(&s);
    uint64_t before = peer_core_ns(&s.peer);
    int fd = dial(&s);
    send_all(fd, buf_bytes(&out));
    while (!has_hung_up(fd))
        check_served(&s);
    uint64_t worked = worked_ns(&s, before);
    size_t peak = peak_bytes(&s) - peak_before;
    close(fd);
    buf_free(&message);
    buf_free(&block);
    buf_free(&out);
    siege_end(&s, 24 * MIB);

    printf("at most %zu KiB more, %.1f ms in all, %.1f ms in a turn\n", peak / KIB,
           (double)worked / 1e6, (double)longest_turn_ns(&s) / 1e6);
    CHECK(peak <= 32 * MIB || !peer_memory_counts());
    CHECK(longest_turn_ns(&s) * 20 < worked);
    siege_forget(&s);
}

/* --- crowds --- */

TEST(ten_thousand_idle_connections_cost_little)
{
    enum { CLIENTS = 10000 };
    struct siege s;
    peer_allow_files(CLIENTS + 500);
    siege_open(&s);
    int *fds = mem_new_array(CLIENTS, int);
    struct buf hello = {0};
    frame_preface(&hello);

    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = dial(&s);
        if (i % 2)
            send_some(fds[i], buf_bytes(&hello));
        if (i % 500 == 0)
            check_served(&s);
    }
    for (unsigned i = 0; i < 100; i++)
        check_served(&s);

    for (unsigned i = 0; i < CLIENTS; i++)
        hang_up(fds[i], false);
    mem_free(fds);
    buf_free(&hello);
    siege_close(&s, 256 * MIB);
}
