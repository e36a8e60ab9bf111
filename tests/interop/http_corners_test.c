/*
 * Requests that Go's HTTP server reads in ways of its own: byte for byte the same to our server and
 * to real etcd, and either must answer as this table says.
 */
#include "base/mem.h"
#include "harness/peer_test.h"
#include "harness/port.h"
#include "harness/test.h"
#include "interop/raw_http_test.h"

#include <stdio.h>
#include <string.h>

struct corner {
    const char
        *request; /* its first line ends in " HTTP/1.1" and CR LF, unless it has lines of its own */
    const char *answer; /* as raw_http shows it */
};

#define HOST    "Host: localhost\r\n"
#define NOSNIFF "X-Content-Type-Options: nosniff\n"
#define TEXT    "Content-Type: text/plain; charset=utf-8\n"

#define MALFORMED(status) "HTTP/1.1 " status "\nConnection: close\n" TEXT "\n" status
#define UNEXPECTED        "HTTP/1.1 417 Expectation Failed\nConnection: close\nContent-Length: 0\n\n"
#define HEALTHY_BODY      "{\"health\":\"true\",\"reason\":\"\"}"
#define HEALTHY           "HTTP/1.1 200 OK\nContent-Length: 29\n" TEXT "\n" HEALTHY_BODY
#define PROBED            "HTTP/1.1 200 OK\nContent-Length: 3\n" TEXT NOSNIFF "\nok\n"

/* A refusal in JSON, whose length is its own. */
#define REFUSED(length, text)                                                                      \
    "HTTP/1.1 400 Bad Request\nContent-Length: " length "\nContent-Type: application/json\n\n"     \
    "{\"code\":3,\"message\":\"" text "\"}"
#define NO_BASE64(length, field, byte)                                                             \
    REFUSED(length, "invalid binary header " field ": illegal base64 data at input byte " byte)
#define WITH(field) "POST /v3/kv/range HTTP/1.1\r\n" HOST field "\r\nContent-Length: 2\r\n\r\n{}"
#define NO_KEY      REFUSED("54", "etcdserver: key is not provided")

#define LATE                                                                                       \
    "HTTP/1.1 504 Gateway Timeout\nContent-Length: 48\nContent-Type: application/json\n\n"         \
    "{\"code\":4,\"message\":\"context deadline exceeded\"}"

/* --- HTTP/1 itself --- */

static const struct corner heads[] = {
    {"GET /health HTTP/1.1\nHost: x\n\n", HEALTHY},
    {"GET /health HTTP/1.1\r\nHost: x\nA: b\r\n\n", HEALTHY},
    {"GET /health HTTP/1.1\r\n" HOST "A: b\r\r\n\r\n", MALFORMED("400 Bad Request")},
    {"GET /health HTTP/1.1\r\n" HOST "A : b\r\n\r\n",
     MALFORMED("400 Bad Request: invalid header name")},
    {"GET /health HTTP/1.1\r\n" HOST ": b\r\n\r\n", MALFORMED("400 Bad Request")},
    {"GET /health HTTP/1.1\r\n\r\n", MALFORMED("400 Bad Request: missing required Host header")},
    {"GET /health HTTP/1.1\r\nHost: a/b\r\n\r\n",
     MALFORMED("400 Bad Request: malformed Host header")},
    {"GET /health HTTP/1.1\r\nHost: {}\r\n\r\n",
     MALFORMED("400 Bad Request: malformed Host header")},
    {"GET /health HTTP/1.1\r\nHost: !$%&'()*+,-.:;=[]_~\r\n\r\n", HEALTHY},
    {"GET /health HTTP/1.1\r\n" HOST HOST "\r\n", MALFORMED("400 Bad Request")},
    {"GET /health HTTP/1.9\r\n" HOST "\r\n", HEALTHY},
    {"GET /health HTTP/1.0\r\n\r\n",
     "HTTP/1.0 200 OK\nContent-Length: 29\n" TEXT "\n" HEALTHY_BODY},
    {"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     "HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 29\n" TEXT "\n" HEALTHY_BODY},
    {"GET /health HTTP/1.1\r\n" HOST "Expect: wonders\r\n\r\n", UNEXPECTED},
    {"GET /health HTTP/1.1\r\n" HOST "Expect: wonders\r\nExpect: 100-continue\r\n\r\n", UNEXPECTED},
    {"GET /health HTTP/1.1\r\n" HOST "Expect: wonders, 100-continue\r\n\r\n", HEALTHY},
    {WITH("Expect: wonders"), UNEXPECTED},
    {"HEAD /health HTTP/1.1\r\n" HOST "Expect: wonders\r\n\r\n",
     "HTTP/1.1 417 Expectation Failed\nConnection: close\n\n"},
    {WITH("Content-Length: 2"), NO_KEY},
    {WITH("Content-Length: 02"), MALFORMED("400 Bad Request")},
    {WITH("Content-Length: 3"), MALFORMED("400 Bad Request")},
    {WITH("Transfer-Encoding: identity"),
     "HTTP/1.1 501 Not Implemented\nConnection: close\n" TEXT "\nUnsupported transfer encoding"},
    {"GET /livez HTTP/1.1\r\n" HOST "\r\n", PROBED},
    {"GET /readyz/serializable_read HTTP/1.1\r\n" HOST "\r\n", PROBED},
    {"OPTIONS /health HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
};

/* --- what becomes metadata of a call in JSON --- */

static const struct corner metadata[] = {
    {WITH("Grpc-Metadata-X-Bin: YWJj"), NO_KEY},
    {WITH("Grpc-Metadata-X-Bin: YWI"), NO_KEY},
    {WITH("Grpc-Metadata-X-Bin: YWJ="), NO_KEY},
    {WITH("Grpc-Metadata-X-Bin:"), NO_KEY},
    {WITH("X-Bin: *"), NO_KEY},
    {WITH("Grpc-Metadata-!-Bin: *"), NO_KEY},
    {WITH("Grpc-Metadata-X-Bin: ***"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "0")},
    {WITH("GRPC-METADATA-x-bin: *"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "0")},
    {WITH("Grpc-Metadata-Bin: *"), NO_BASE64("99", "Grpc-Metadata-Bin", "0")},
    {WITH("Grpc-Metadata-X-Bin: __--"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "0")},
    {WITH("Grpc-Metadata-X-Bin: ===="), NO_BASE64("101", "Grpc-Metadata-X-Bin", "0")},
    {WITH("Grpc-Metadata-X-Bin: a==="), NO_BASE64("101", "Grpc-Metadata-X-Bin", "1")},
    {WITH("Grpc-Metadata-X-Bin: ab=c"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "2")},
    {WITH("Grpc-Metadata-X-Bin: ab*d"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "2")},
    {WITH("Grpc-Metadata-X-Bin: abc=a"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "3")},
    {WITH("Grpc-Metadata-X-Bin: YWJjY"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "4")},
    {WITH("Grpc-Metadata-X-Bin: YW==YWJj"), NO_BASE64("101", "Grpc-Metadata-X-Bin", "4")},
    {WITH("Grpc-Timeout: 1S"), NO_KEY},
    {WITH("Grpc-Timeout: 999n"), LATE},
    {WITH("Grpc-Timeout: -1S"), LATE},
    {WITH("Grpc-Timeout: 1x"), REFUSED("47", "invalid grpc-timeout: 1x")},
    {WITH("Grpc-Timeout: x\r\nGrpc-Metadata-X-Bin: *"), REFUSED("46", "invalid grpc-timeout: x")},
};

/* --- paths --- */

#define ASK(verb, path) verb " " path " HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"
#define GET(path)       ASK("GET", path)
#define SENT_ON(to)     "HTTP/1.1 307 Temporary Redirect\nContent-Length: 0\nLocation: " to "\n\n"
#define LINK(length, to)                                                                           \
    "HTTP/1.1 307 Temporary Redirect\nContent-Length: " length                                     \
    "\nContent-Type: text/html; charset=utf-8\nLocation: " to "\n\n<a href=\"" to                  \
    "\">Temporary Redirect</a>.\n\n"
#define LINK_IN_HEAD(to)                                                                           \
    "HTTP/1.1 307 Temporary Redirect\nContent-Type: text/html; charset=utf-8\nLocation: " to "\n"  \
    "\n"
#define NOT_FOUND                                                                                  \
    "HTTP/1.1 404 Not Found\nContent-Length: 19\n" TEXT NOSNIFF "\n404 page not found\n"
#define NOT_ALLOWED                                                                                \
    "HTTP/1.1 405 Method Not Allowed\nAllow: GET\nContent-Length: 19\n" TEXT NOSNIFF               \
    "\nMethod Not Allowed\n"
#define NOT_FOUND_IN_JSON                                                                          \
    "HTTP/1.1 404 Not Found\nContent-Length: 32\nContent-Type: application/json\n\n"               \
    "{\"code\":5,\"message\":\"Not Found\"}"
#define STAR "HTTP/1.1 400 Bad Request\nConnection: close\nContent-Length: 0\n\n"

/* At the port for clients and at that for metrics. */
static const struct corner paths[] = {
    {GET("//health"), LINK("43", "/health")},
    {GET("/./health"), LINK("43", "/health")},
    {GET("/x/../health"), LINK("43", "/health")},
    {GET("/health/"), NOT_FOUND},
    {GET("/health//"), LINK("44", "/health/")},
    {GET("/%68ealth"), HEALTHY},
    {GET("/%2Fhealth"), NOT_FOUND},
    {GET("/livez/%73erializable_read"), PROBED},
    {GET("/livez%2Fserializable_read"), NOT_FOUND},
    {GET("/readyz/./linearizable_read"), LINK("61", "/readyz/linearizable_read")},
    {GET("/"), NOT_FOUND},
    {GET("//"), LINK("37", "/")},
    {GET("/.."), LINK("37", "/")},
    {GET("/..."), NOT_FOUND},
    {GET("/a/b/../.."), LINK("37", "/")},
    {GET("/%2e%2e/health"), NOT_FOUND},
    {GET("/%zz"), MALFORMED("400 Bad Request")},
    {GET("/%6"), MALFORMED("400 Bad Request")},
    {GET("/health?a=%zz"), HEALTHY},
    {GET("//health?"), LINK("43", "/health")},
    {GET("//health?x=1;y"), LINK("49", "/health?x=1;y")},
    {GET("//metrics"), LINK("44", "/metrics")},
    {GET("//a%20b%2520"), LINK("51", "/a%2520b%252520")},
    {GET("//a!b'(c)*[d]"), LINK("62", "/a%21b%27%28c%29%2A%5Bd%5D")},
    {GET("//a\"b'"), LINK("49", "/a%2522b%2527")},
    {GET("//\xc3\xa4"), LINK("47", "/%25C3%25A4")},
    {GET("/\xc3\xa4"), NOT_FOUND},
    {GET("http://x/health"), HEALTHY},
    {GET("http://x//health"), LINK("43", "/health")},
    {GET("http://x"), LINK("37", "/")},
    {GET("http://x?y"), LINK("39", "/?y")},
    {GET("ftp://u@x/health"), HEALTHY},
    {GET("http:/health"), HEALTHY},
    {GET("http://x:y/health"), MALFORMED("400 Bad Request")},
    {GET("health"), MALFORMED("400 Bad Request")},
    {GET("*"), STAR},
    {ASK("HEAD", "*"), "HTTP/1.1 400 Bad Request\nConnection: close\n\n"},
    {ASK("OPTIONS", "*"), "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
    {ASK("HEAD", "//health"), LINK_IN_HEAD("/health")},
    {ASK("POST", "//health"), SENT_ON("/health")},
    {ASK("POST", "/%68ealth"), NOT_ALLOWED},
    {ASK("CONNECT", "//health"), NOT_FOUND},
    {ASK("CONNECT", "/%68ealth"), NOT_ALLOWED},
    {ASK("CONNECT", "localhost:80"), NOT_FOUND},
    {ASK("CONNECT", "localhost:80/health"), NOT_ALLOWED},
};

static const struct corner paths_of_metrics[] = {
    {GET("/v3"), NOT_FOUND},
    {GET("//v3beta/x"), LINK("45", "/v3beta/x")},
    {ASK("OPTIONS", "//health"), SENT_ON("/health")},
    {ASK("OPTIONS", "/health"), NOT_ALLOWED},
    {ASK("OPTIONS", "/livez"), NOT_ALLOWED},
};

#define RANGE(path) "POST " path " HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}"

static const struct corner paths_of_calls[] = {
    {GET("/v3"), LINK("40", "/v3/")},
    {GET("//v3?x"), LINK("42", "/v3/?x")},
    {GET("/%763"), LINK("40", "/v3/")},
    {ASK("CONNECT", "/v3"), SENT_ON("/v3/")},
    {RANGE("//v3/kv/range"), SENT_ON("/v3/kv/range")},
    {RANGE("/v3//kv/range"), SENT_ON("/v3/kv/range")},
    {RANGE("/v3/kv/./range"), SENT_ON("/v3/kv/range")},
    {RANGE("/v3/kv/%72ange"), NO_KEY},
    {RANGE("/v3/kv%2Frange"), NO_KEY},
    {RANGE("/v3%2Fkv/range"), NOT_FOUND},
    {RANGE("/%763/kv/range"), NO_KEY},
    {RANGE("/v3/kv/range/"), NOT_FOUND_IN_JSON},
    {RANGE("/v3/%2e%2e/health"), NOT_FOUND_IN_JSON},
    {RANGE("/v3/\xc3\xa4"), NOT_FOUND_IN_JSON},
    {RANGE("/v3beta"), NOT_FOUND},
    {RANGE("/v3beta/kv/%72ange"), NO_KEY},
    {RANGE("/v3beta//kv/range"), SENT_ON("/v3/kv/range")},
    {RANGE("/v3beta%2Fkv/range"), NO_KEY},
    {RANGE("//v3beta/kv/%72ange"), SENT_ON("/v3beta/kv/%2572ange")},
    {RANGE("/v3beta/%2fhealth"), SENT_ON("/v3/health")},
    {RANGE("/v3beta/%zz"), MALFORMED("400 Bad Request")},
    {ASK("OPTIONS", "//health"), "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
};

static const struct corner paths_of_members[] = {
    {GET("//version"), LINK("44", "/version")},
    {GET("/raft/stream"), LINK("49", "/raft/stream/")},
    {GET("/raft/stream//msgapp/8e"), LINK("58", "/raft/stream/msgapp/8e")},
    {ASK("POST", "/raft/./stream/x"), SENT_ON("/raft/stream/x")},
    {ASK("POST", "/raft/stream/%2Fx"), NOT_ALLOWED},
    {GET("/raft%2Fprobing"), NOT_FOUND},
    {GET("/raft/probing/"), NOT_FOUND},
    {ASK("POST", "/%6dembers"), NOT_ALLOWED},
    {GET("/members/promote"), LINK("53", "/members/promote/")},
    {ASK("POST", "/members/promote//1"), SENT_ON("/members/promote/1")},
    {ASK("POST", "/members/promote%2F1"), NOT_FOUND},
    {ASK("HEAD", "//members"), LINK_IN_HEAD("/members")},
    {ASK("OPTIONS", "//members"), SENT_ON("/members")},
    {ASK("CONNECT", "//members"), NOT_FOUND},
    {GET("*"), STAR},
    {ASK("OPTIONS", "*"), "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
    {GET("/%zz"), MALFORMED("400 Bad Request")},
};

/* --- */

static void check_corners(struct peer *p, uint16_t port, const struct corner *corners, size_t count)
{
    struct buf wrong = {0};

    for (size_t i = 0; i < count; i++) {
        const char *answer = raw_http(&p->arena, port, bytes_of_str(corners[i].request));
        if (strcmp(answer, corners[i].answer) != 0)
            buf_printf(&wrong, "--- %s\n--- is answered\n%s\n--- not\n%s\n", corners[i].request,
                       answer, corners[i].answer);
    }
    if (wrong.len > 0)
        test_fail(__FILE__, __LINE__, "%s", buf_str(&wrong));
    buf_free(&wrong);
}

/* A token of a hundred kilobytes, and more fields than anybody has. */
static void check_large_head(struct peer *p, uint16_t port)
{
    struct buf request = {0};

    buf_append_str(&request, "GET /health HTTP/1.1\r\n" HOST "Authorization: ");
    memset(buf_extend(&request, 100000), 'a', 100000);
    for (unsigned i = 0; i < 1000; i++)
        buf_printf(&request, "\r\nX-%u: y", i);
    buf_append_str(&request, "\r\n\r\n");
    CHECK_STR(raw_http(&p->arena, port, buf_bytes(&request)), HEALTHY);
    buf_free(&request);
}

/* As a member that serves metrics, too, at the port that it is given. */
static uint16_t open_peer(struct peer *p, bool is_ours)
{
    char dir[4096];
    uint16_t port = port_take();

    snprintf(dir, sizeof(dir), "%s/%s", test_tmp_dir(), is_ours ? "ours" : "etcd");
    if (is_ours)
        peer_open_ours(p, dir);
    else
        peer_open(p, dir);
    peer_start(p, arena_printf(&p->arena, "--listen-metrics-urls http://127.0.0.1:%u", port));
    return port;
}

static void check_all(bool is_ours)
{
    struct peer p;
    uint16_t metrics = open_peer(&p, is_ours), clients = peer_port(&p);

    check_corners(&p, clients, heads, ARRAY_LEN(heads));
    check_corners(&p, clients, metadata, ARRAY_LEN(metadata));
    check_corners(&p, clients, paths, ARRAY_LEN(paths));
    check_corners(&p, clients, paths_of_calls, ARRAY_LEN(paths_of_calls));
    check_corners(&p, metrics, paths, ARRAY_LEN(paths));
    check_corners(&p, metrics, paths_of_metrics, ARRAY_LEN(paths_of_metrics));
    check_large_head(&p, clients);
    check_large_head(&p, metrics);
    check_corners(&p, raw_port_of(p.peer_url), paths_of_members, ARRAY_LEN(paths_of_members));
    peer_stop(&p);
    peer_close(&p);
}

TEST(unusual_requests_are_answered_as_by_go)
{
    check_all(true);
}

TEST(etcd_answers_unusual_requests_as_these_tables_say)
{
    check_all(false);
}
