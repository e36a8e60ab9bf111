/*
 * Requests that Go's HTTP server reads in ways of its own: byte for byte the same to our server and
 * to real etcd, and either must answer as this table says.
 */
#include "base/mem.h"
#include "harness/peer_test.h"
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
    {WITH("Grpc-Timeout: 1x"), REFUSED("47", "invalid grpc-timeout: 1x")},
    {WITH("Grpc-Timeout: x\r\nGrpc-Metadata-X-Bin: *"), REFUSED("46", "invalid grpc-timeout: x")},
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

static void open_ours(struct peer *p)
{
    char dir[4096];

    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(p, dir);
    peer_start(p, "");
}

static void open_etcd(struct peer *p)
{
    char dir[4096];

    snprintf(dir, sizeof(dir), "%s/etcd", test_tmp_dir());
    peer_open(p, dir);
    peer_start(p, "");
}

static void check_client_port(void (*open)(struct peer *p))
{
    struct peer p;

    open(&p);
    check_corners(&p, peer_port(&p), heads, ARRAY_LEN(heads));
    check_corners(&p, peer_port(&p), metadata, ARRAY_LEN(metadata));
    peer_stop(&p);
    peer_close(&p);
}

TEST(unusual_requests_are_answered_as_by_go)
{
    check_client_port(open_ours);
}

TEST(etcd_answers_unusual_requests_as_these_tables_say)
{
    check_client_port(open_etcd);
}
