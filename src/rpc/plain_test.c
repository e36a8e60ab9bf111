#include "rpc/rpc_int.h"
#include "rpc/rpc_rig_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* HTTP/1.1 on the port of gRPC, by hand and by other people's tools. */

/* Sends, and turns until this many bytes of an answer are there or the server has closed. */
static const char *exchange(struct rpc_rig *r, struct raw *raw, const char *request)
{
    raw_connect(r, raw);
    raw_send(raw, bytes_of_str(request));
    rpc_rig_for_ms(r, 200);
    return buf_str(&raw->got);
}

static void check_exchange(const char *request, const char *answer, bool stays_open)
{
    struct rpc_rig r;
    struct raw raw = {0};
    rpc_rig_open(&r, NULL);

    CHECK_STR(exchange(&r, &raw, request), answer);
    CHECK_EQ(raw.ended, !stays_open);
    raw_close(&r, &raw);
    rpc_rig_close(&r);
}

#define DATE "Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
#define HOST "Host: localhost:2379\r\n"

TEST(a_plain_request_is_answered)
{
    check_exchange("GET /version?a=b&c HTTP/1.1\r\n" HOST "\r\n",
                   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" DATE
                   "Content-Length: 19\r\n\r\nGET /version a=b&c ",
                   true);
}

TEST(the_connection_is_kept_as_the_client_asks)
{
    check_exchange("GET /a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
                   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" DATE
                   "Content-Length: 8\r\nConnection: close\r\n\r\nGET /a  ",
                   false);
    check_exchange("GET /a HTTP/1.0\r\n\r\n",
                   "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n" DATE
                   "Content-Length: 8\r\n\r\nGET /a  ",
                   false);
    check_exchange("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                   "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n" DATE
                   "Content-Length: 8\r\nConnection: keep-alive\r\n\r\nGET /a  ",
                   true);
}

TEST(requests_may_follow_one_another_at_once)
{
    check_exchange("POST /1 HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
                   "POST /2 HTTP/1.1\r\n" HOST
                   "Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
                   "GET /3 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
                   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" DATE
                   "Content-Length: 12\r\n\r\nPOST /1  abc"
                   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" DATE
                   "Content-Length: 12\r\n\r\nPOST /2  def"
                   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" DATE
                   "Content-Length: 8\r\nConnection: close\r\n\r\nGET /3  ",
                   false);
}

TEST(a_head_has_no_body_and_errors_have_their_fields)
{
    check_exchange(
        "HEAD /a HTTP/1.1\r\n" HOST "\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" DATE "Content-Length: 9\r\n\r\n", true);
    check_exchange("POST /405 HTTP/1.1\r\n" HOST "\r\n",
                   "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain\r\nAllow: "
                   "GET\r\nX-Content-Type-Options: nosniff\r\n" DATE
                   "Content-Length: 11\r\n\r\nPOST /405  ",
                   true);
}

TEST(a_client_that_waits_for_leave_to_continue_gets_it)
{
    check_exchange("PUT /put HTTP/1.1\r\n" HOST
                   "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
                   "HTTP/1.1 100 Continue\r\n\r\n"
                   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Test: yes\r\n" DATE
                   "Content-Length: 12\r\n\r\nPUT /put  ok",
                   true);
}

TEST(a_long_path_that_would_be_cleaned_is_refused_without_a_word)
{
    struct buf request = {0};

    buf_append_str(&request, "GET //");
    memset(buf_extend(&request, HTTP_ODD_TARGET_BYTES_MAX), '"', HTTP_ODD_TARGET_BYTES_MAX);
    buf_append_str(&request, " HTTP/1.1\r\n" HOST "\r\n");
    check_exchange(buf_str(&request),
                   "HTTP/1.1 414 Request URI Too Long\r\n" DATE
                   "Content-Length: 0\r\nConnection: close\r\n\r\n",
                   false);
    buf_free(&request);
}

#define REFUSED(status, len)                                                                       \
    "HTTP/1.1 " status "\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: "   \
    "nosniff\r\n" DATE "Content-Length: " len "\r\nConnection: close\r\n\r\n" status

#define MALFORMED(status)                                                                          \
    "HTTP/1.1 " status                                                                             \
    "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" status

TEST(a_bad_request_is_refused_and_ends_the_connection)
{
    check_exchange("GET / HTTP/1.1\r\n\r\n",
                   MALFORMED("400 Bad Request: missing required Host header"), false);
    check_exchange("GET / HTTP/3.0\r\n" HOST "\r\n",
                   MALFORMED("505 HTTP Version Not Supported: unsupported protocol version"),
                   false);
    check_exchange("PUT / HTTP/1.1\r\n" HOST "Content-Length: 4194305\r\n\r\n",
                   REFUSED("413 Request Entity Too Large", "28"), false);
    check_exchange("PRI * HTTP/2.0\r\n\r\nXX", MALFORMED("400 Bad Request"), false);
}

TEST(a_body_in_chunks_is_bounded_too)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf chunk = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    buf_append_str(&chunk, "10000\r\n");
    memset(buf_extend(&chunk, 65536), 'c', 65536);
    buf_append_str(&chunk, "\r\n");

    raw_send(&raw, BYTES("PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"));
    for (unsigned i = 0; i < 80; i++)
        raw_send(&raw, buf_bytes(&chunk));
    raw_until_ended(&r, &raw);

    CHECK(bytes_starts_with(buf_bytes(&raw.got), BYTES("HTTP/1.1 413 ")));
    CHECK_EQ(r.http, 0);
    raw_close(&r, &raw);
    buf_free(&chunk);
    rpc_rig_close(&r);
}

TEST(fields_of_a_plain_request_can_be_asked_for)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct rpc_event e;
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    raw_send(&raw, BYTES("GET /x HTTP/1.1\r\n" HOST "Authorization: tok\r\norigin: here\r\n\r\n"));
    while (!rpc_has_events(r.rpc))
        CHECK(fake_world_step(r.fake));
    CHECK(rpc_rig_take(&r, &e));

    CHECK_EQ(e.kind, RPC_HTTP);
    CHECK_BYTES(rpc_event_bytes(&e, e.authorization), BYTES("tok"));
    CHECK_BYTES(rpc_event_field(&e, "Origin"), BYTES("here"));
    CHECK_EQ(rpc_event_field(&e, "Nothing").len, 0);
    rpc_line_http_reply(r.line, e.call, 200, NULL, BYTES(""));
    buf_free(&e.content);
    rpc_flush(r.rpc);
    rpc_rig_for_ms(&r, 100);
    CHECK_STR(buf_str(&raw.got), "HTTP/1.1 200 OK\r\n" DATE "Content-Length: 0\r\n\r\n");
    raw_close(&r, &raw);
    rpc_rig_close(&r);
}

TEST(a_field_of_many_lines_is_read_line_by_line_and_a_reply_may_have_fields)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct rpc_event e;
    struct bytes lines, value;
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    raw_send(&raw, BYTES("GET /x HTTP/1.1\r\nAccept: a\r\n" HOST
                         "Accept-Encoding: b\r\nACCEPT: c\r\n\r\n"));
    while (!rpc_has_events(r.rpc))
        CHECK(fake_world_step(r.fake));
    CHECK(rpc_rig_take(&r, &e));

    lines = rpc_event_bytes(&e, e.fields);
    CHECK(rpc_next_field(&lines, "accept", &value));
    CHECK_BYTES(value, BYTES("a"));
    CHECK(rpc_next_field(&lines, "accept", &value));
    CHECK_BYTES(value, BYTES("c"));
    CHECK(!rpc_next_field(&lines, "accept", &value));
    CHECK_EQ(lines.len, 0);
    rpc_line_http_reply_with(r.line, e.call, 200, "text/x", BYTES("A:1\nB:2\n"), BYTES("body"));
    buf_free(&e.content);
    rpc_flush(r.rpc);
    rpc_rig_for_ms(&r, 100);
    CHECK_STR(buf_str(&raw.got), "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nA: 1\r\nB: 2\r\n" DATE
                                 "Content-Length: 4\r\n\r\nbody");
    raw_close(&r, &raw);
    rpc_rig_close(&r);
}

static struct rpc_conn *last_conn(struct rpc_rig *r)
{
    return container_of(r->rpc->conns.prev, struct rpc_conn, link);
}

/* Probes pass other calls on the line. So the core may hear of a probe while it has yet to hear
 * that a call is gone, and whoever keeps calls by their slots must not find both in one. */
TEST(a_probe_has_no_slot_whose_call_the_core_still_has)
{
    struct rpc_rig r;
    struct raw client = {0}, kubelet = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &client);
    struct rpc_conn *clients = last_conn(&r);
    raw_connect(&r, &kubelet);
    struct rpc_conn *kubelets = last_conn(&r);
    kubelets->serves = RPC_SERVES_PROBES;
    raw_send(&client, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n"));
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.live, 1);
    uint32_t slot = container_of(clients->calls.next, struct call, link)->slot;

    rpc_conn_cut(clients, ERR_CANCELED);
    rpc_deliver(r.rpc); /* that it is gone is on the line, and nobody has taken it */
    struct call *probe = rpc_call_new(kubelets, true, 0);
    CHECK(probe->slot != slot);

    probe->life = LIFE_OVER;
    rpc_call_detach(probe);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.live, 0);
    raw_close(&r, &client);
    raw_close(&r, &kubelet);
    rpc_rig_close(&r);
}

TEST(a_stop_ends_plain_connections)
{
    struct rpc_rig r;
    struct raw idle = {0}, busy = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &idle);
    raw_send(&idle, BYTES("GET /x HTTP/1.1\r\n" HOST "\r\n"));
    raw_connect(&r, &busy);
    raw_send(&busy, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n"));
    rpc_rig_until(&r, &r.http, 2);

    rpc_stop(r.rpc);
    raw_until_ended(&r, &idle);

    CHECK_EQ(busy.ended, 0);
    raw_close(&r, &idle);
    raw_close(&r, &busy);
    rpc_rig_close(&r);
}

/* --- other people's tools --- */

/* Runs a command beside our server's turns, with $PORT in its environment; what it prints. */
static const char *run_tool(struct rpc_rig *r, struct buf *said, const char *command)
{
    char port[8];
    int fds[2];
    char piece[1024];
    int status = 0;
    pid_t pid;

    snprintf(port, sizeof(port), "%u", r->address.port);
    CHECK_EQ(pipe(fds), 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setenv("PORT", port, 1);
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    close(fds[1]);
    while (waitpid(pid, &status, WNOHANG) == 0)
        rpc_rig_for_ms(r, 5);
    for (ssize_t got; (got = read(fds[0], piece, sizeof(piece))) > 0;)
        buf_append(said, bytes_of(piece, (size_t)got));
    close(fds[0]);
    return buf_str(said);
}

static void need_tool(const char *name)
{
    char command[64];

    snprintf(command, sizeof(command), "command -v %s >/dev/null", name);
    if (system(command) != 0)
        SKIP("%s is not installed", name);
}

TEST(curl_is_served)
{
    struct rpc_rig r;
    struct buf said = {0};
    need_tool("curl");
    rpc_rig_open_real(&r);

    CHECK_STR(run_tool(&r, &said, "curl -s -m 10 \"http://127.0.0.1:$PORT/version?q\""),
              "GET /version q ");
    buf_clear(&said);
    CHECK_STR(run_tool(&r, &said, "curl -s -m 10 --http2 -d hello \"http://127.0.0.1:$PORT/put\""),
              "POST /put  hello");
    buf_clear(&said);
    CHECK_STR(run_tool(&r, &said,
                       "head -c 3000000 /dev/zero | tr '\\0' x | curl -s -m 10 -X POST "
                       "--data-binary @- \"http://127.0.0.1:$PORT/big\" | wc -c"),
              "3000011\n");
    buf_clear(&said);
    CHECK_STR(run_tool(&r, &said,
                       "curl -s -m 10 --http2-prior-knowledge -o /dev/null -w '%{http_code}' "
                       "-X POST \"http://127.0.0.1:$PORT/version\""),
              "415");
    buf_free(&said);
    rpc_rig_close(&r);
}

/* A thousand unary calls by nghttp2's own load generator. */
TEST(h2load_is_served)
{
    struct rpc_rig r;
    struct buf said = {0};
    need_tool("h2load");
    rpc_rig_open_real(&r);

    const char *report = run_tool(
        &r, &said,
        "d=$(mktemp) && printf '\\0\\0\\0\\0\\005hello' >$d && h2load -n 1000 -c 10 -m 10 -d $d "
        "-H 'content-type: application/grpc' -H 'te: trailers' "
        "http://127.0.0.1:$PORT/test.Echo/Say; rm -f $d");

    CHECK(strstr(report, "1000 succeeded, 0 failed, 0 errored"));
    CHECK(strstr(report, "1000 2xx"));
    CHECK_EQ(r.finished, 1000);
    buf_free(&said);
    rpc_rig_close(&r);
}
