/* The API in JSON over HTTP: the same to real etcd and to us, and the same answers. */
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/line_diff.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "interop/json_caller_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"
#define CURL   "/usr/bin/curl"

struct pair {
    struct peer etcd, ours;
    struct arena arena;
};

static void pair_open(struct pair *p)
{
    *p = (struct pair){0};
    peer_open(&p->etcd, arena_printf(&p->arena, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&p->ours, arena_printf(&p->arena, "%s/ours", test_tmp_dir()));
    peer_start(&p->etcd, "");
    peer_start(&p->ours, "");
}

static void pair_close(struct pair *p)
{
    peer_stop(&p->etcd);
    peer_stop(&p->ours);
    peer_close(&p->etcd);
    peer_close(&p->ours);
    arena_free(&p->arena);
}

static void check_same(const char *want, const char *got)
{
    struct buf diff = {0};

    line_diff(&diff, bytes_of_str(want), bytes_of_str(got));
    if (diff.len > 0)
        test_fail(__FILE__, __LINE__, "the transcripts differ:\n%s", buf_str(&diff));
    buf_free(&diff);
}

static const char *transcript(struct peer *p)
{
    return peer_run(&p->arena, PYTHON " tests/interop/gateway.py 127.0.0.1 %s 2>>%s.log",
                    strrchr(p->client_url, ':') + 1, p->dir);
}

/* A long text is read in parts, when an io thread has already sent what it had to send. */
TEST(a_text_that_is_too_long_is_refused_by_a_thread_that_is_else_idle)
{
    struct arena arena = {0};
    struct peer p;
    struct json_caller j;
    struct buf value = {0};
    memset(buf_extend(&value, 2 * MIB), 'x', 2 * MIB);
    peer_open_ours(&p, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    CHECK_EQ(setenv("ETCD_IO_THREADS", "1", 1), 0); /* the flag would contradict make test's */
    peer_start(&p, "");

    json_caller_open(&j, &p);
    json_caller_start(&j, "/v3/kv/put", &pb_put_request_schema,
                      &(struct pb_put_request){.key = BYTES("k"), .value = buf_bytes(&value)});
    json_caller_wait(&j);

    CHECK_EQ(j.status, 429);
    json_caller_close(&j);
    peer_stop(&p);
    peer_close(&p);
    buf_free(&value);
    arena_free(&arena);
}

TEST(a_session_in_json_sees_no_difference)
{
    struct pair p;
    if (access(PYTHON, X_OK) != 0)
        SKIP("NOT compared: there is no " PYTHON);
    pair_open(&p);

    const char *want = transcript(&p.etcd);
    const char *got = transcript(&p.ours);

    check_same(want, got);
    CHECK(strstr(got, "\ndone"));
    pair_close(&p);
}

/* --- curl, as Patroni has it --- */

/* What a manager of databases asks for: who leads, take the lead for as long as a lease lasts, say
 * how one is, and hear of it when that changes. */
static const char *const requests[][2] = {
    {"maintenance/status", "{}"},
    {"cluster/member/list", "{}"},
    {"lease/grant", "{\"TTL\":30,\"ID\":4711}"},
    {"kv/range",
     "{\"key\":\"L3NlcnZpY2UvYmF0bWFuLw==\",\"range_end\":\"L3NlcnZpY2UvYmF0bWFuMA==\"}"},
    {"kv/txn", "{\"compare\":[{\"key\":\"L3NlcnZpY2UvYmF0bWFuL2xlYWRlcg==\",\"target\":\"CREATE\","
               "\"create_revision\":\"0\"}],\"success\":[{\"request_put\":{\"key\":"
               "\"L3NlcnZpY2UvYmF0bWFuL2xlYWRlcg==\",\"value\":\"cGcx\",\"lease\":\"4711\"}}]}"},
    {"kv/txn", "{\"compare\":[{\"key\":\"L3NlcnZpY2UvYmF0bWFuL2xlYWRlcg==\",\"target\":\"VALUE\","
               "\"value\":\"cGcy\"}],\"success\":[{\"request_delete_range\":{\"key\":"
               "\"L3NlcnZpY2UvYmF0bWFuL2xlYWRlcg==\"}}]}"},
    {"kv/put", "{\"key\":\"L3NlcnZpY2UvYmF0bWFuL21lbWJlcnMvcGcx\",\"value\":\"e30=\","
               "\"lease\":\"4711\"}"},
    {"lease/keepalive", "{\"ID\":\"4711\"}"},
    {"kv/range", "{\"key\":\"L3NlcnZpY2UvYmF0bWFuLw==\",\"range_end\":\"L3NlcnZpY2UvYmF0bWFuMA==\","
                 "\"serializable\":true}"},
    {"lease/keepalive", "{\"ID\":4712}"},
    {"kv/put", "{\"key\":\"L3NlcnZpY2U=\",\"lease\":4712}"},
    {"lease/revoke", "{\"ID\":\"4711\"}"},
};

/* And the version of the storage, which follows that of the cluster sooner or later. */
#define HIDE_IDS                                                                                   \
    "sed -E 's/\"(cluster_id|member_id|raft_term|ID|leader|dbSize|dbSizeInUse|raftIndex|raftTerm|" \
    "raftAppliedIndex|storageVersion)\": ?\"[0-9.]+\"/\"\\1\":*/g; "                               \
    "s/(https?:..127.0.0.1):[0-9]+/\\1/g; s/: "                                                    \
    "\"/:\"/g; "                                                                                   \
    "s/, \"/,\"/g'"

static const char *session_by_curl(struct peer *p, const char *flags)
{
    struct buf all = {0};

    for (size_t i = 0; i < ARRAY_LEN(requests); i++)
        buf_printf(&all, "%s: %s\n", requests[i][0],
                   peer_run(&p->arena,
                            CURL " %s -s -w ' %%{http_code}' %s/v3/%s -d '%s' | " HIDE_IDS, flags,
                            p->client_url, requests[i][0], requests[i][1]));
    buf_printf(&all, "%s\n",
               peer_run(&p->arena,
                        "mkfifo %s.watch; " CURL " %s -sN %s/v3/watch -d '{\"create_request\":"
                        "{\"key\":\"L3NlcnZpY2UvYmF0bWFuL2xlYWRlcg==\",\"start_revision\":\"2\"}}' "
                        ">%s.watch & head -n 2 %s.watch | " HIDE_IDS "; kill $!",
                        p->dir, flags, p->client_url, p->dir, p->dir));
    const char *copy = arena_printf(&p->arena, "%s", buf_str(&all));
    buf_free(&all);
    return copy;
}

TEST(a_session_by_curl_sees_no_difference)
{
    struct pair p;
    if (access(CURL, X_OK) != 0)
        SKIP("NOT compared: there is no " CURL);
    pair_open(&p);

    const char *want = session_by_curl(&p.etcd, "");
    const char *got = session_by_curl(&p.ours, "");

    check_same(want, got);
    CHECK(strstr(got, "\"succeeded\":true"));
    CHECK(strstr(got, "\"DELETE\""));
    pair_close(&p);
}

static void start_by_tls(struct peer *p)
{
    p->client_url = arena_printf(&p->arena, "https%s", strchr(p->client_url, ':'));
    peer_launch(p, arena_printf(&p->arena, "--cert-file %s --key-file %s", certs_file("server"),
                                certs_key("server")));
    peer_await_said(p, "ready to serve client requests", 1);
}

/* By TLS curl speaks HTTP/2. */
TEST(a_session_by_curl_on_http2_sees_no_difference)
{
    struct pair p = {0};
    if (access(CURL, X_OK) != 0)
        SKIP("NOT compared: there is no " CURL);
    certs_make("server", &(struct cert){.sans = "IP:127.0.0.1"});
    const char *flags = arena_printf(&p.arena, "--http2 --cacert %s -w ' by HTTP/%%{http_version}'",
                                     certs_file("server"));
    peer_open(&p.etcd, arena_printf(&p.arena, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&p.ours, arena_printf(&p.arena, "%s/ours", test_tmp_dir()));
    start_by_tls(&p.etcd);
    start_by_tls(&p.ours);

    const char *want = session_by_curl(&p.etcd, flags);
    const char *got = session_by_curl(&p.ours, flags);

    check_same(want, got);
    CHECK(strstr(got, "\"succeeded\":true"));
    CHECK(strstr(got, "\"DELETE\""));
    CHECK_STR(peer_run(&p.arena, CURL " %s -s -o /dev/null %s/v3/kv/range -d '{}'", flags,
                       p.ours.client_url),
              " by HTTP/2");
    pair_close(&p);
}

/* --- what is not there when it is turned off --- */

TEST(without_the_gateway_there_is_no_v3)
{
    struct peer ours;
    struct arena arena = {0};
    if (access(CURL, X_OK) != 0)
        SKIP("NOT tried: there is no " CURL);
    peer_open_ours(&ours, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    peer_start(&ours, "--enable-grpc-gateway=false");

    CHECK_STR(
        peer_run(&arena, CURL " -s -w ' %%{http_code}' %s/v3/kv/range -d '{}'", ours.client_url),
        "404 page not found\n 404");

    peer_stop(&ours);
    peer_close(&ours);
    arena_free(&arena);
}

/* --- streams --- */

/* Together they are larger than any one may be, and come faster than they are dealt with: the
 * socket feels it, and none is refused. */
TEST(many_requests_of_a_stream_in_json_are_no_large_one)
{
    enum { REQUESTS = 20000 };
    struct peer ours;
    struct arena arena = {0};
    if (access(CURL, X_OK) != 0)
        SKIP("NOT tried: there is no " CURL);
    peer_open_ours(&ours, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    peer_start(&ours, "--unsafe-no-fsync");

    const char *lines = peer_run(&arena,
                                 "for i in $(seq %d); do printf '{\"ID\":5}%%292s' ''; done | " CURL
                                 " -s %s/v3/lease/keepalive --data-binary @- | grep -c result",
                                 REQUESTS, ours.client_url);

    CHECK_STR(lines, arena_printf(&arena, "%d", REQUESTS));
    peer_stop(&ours);
    peer_close(&ours);
    arena_free(&arena);
}

/* --- memory --- */

/* Reads to the end of the connection. The most memory that the server had meanwhile. */
static size_t read_slowly(int fd, const struct peer *p, uint64_t *total)
{
    static char piece[256 * 1024];
    size_t most = 0;
    ssize_t got;

    *total = 0;
    while ((got = read(fd, piece, sizeof(piece))) > 0) {
        *total += (uint64_t)got;
        size_t now = peer_memory_bytes(p);
        most = now > most ? now : most;
    }
    CHECK_EQ(got, 0);
    return most;
}

/* Forty megabytes, and the same again by somebody who does not read: neither is held. */
TEST(a_long_range_in_json_costs_a_chunk)
{
    enum { KEYS = 40, VALUE_BYTES = 1024 * 1024 };
    static const char request[] =
        "POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 33\r\n\r\n"
        "{\"key\":\"YQ==\",\"range_end\":\"Yg==\"}";
    struct peer ours;
    struct arena arena = {0};
    struct caller caller;
    uint64_t total;
    if (!peer_memory_counts())
        SKIP("NOT measured: a sanitizer has memory of its own");
    peer_open_ours(&ours, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    peer_start(&ours, "--unsafe-no-fsync");
    caller_open(&caller, &ours);
    struct line *line = caller_connect(&caller);
    void *value = mem_alloc(VALUE_BYTES);
    memset(value, 'x', VALUE_BYTES);
    for (unsigned i = 0; i < KEYS; i++)
        caller_put(line, bytes_of_str(arena_printf(&arena, "a%02u", i)),
                   bytes_of(value, VALUE_BYTES));
    mem_free(value);

    size_t before = peer_memory_bytes(&ours);
    int idle = peer_connect(&ours), fd = peer_connect(&ours);
    CHECK_EQ(write(idle, request, sizeof(request) - 1), (ssize_t)sizeof(request) - 1);
    CHECK_EQ(write(fd, request, sizeof(request) - 1), (ssize_t)sizeof(request) - 1);
    size_t most = read_slowly(fd, &ours, &total);

    CHECK(total > (uint64_t)KEYS * VALUE_BYTES / 3 * 4);
    CHECK(most < before + 8 * 1024 * 1024);
    close(idle);
    close(fd);
    caller_close(&caller);
    peer_stop(&ours);
    peer_close(&ours);
    arena_free(&arena);
}
