#include "http/http1.h"

#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

/* Reads the input in pieces of `step` bytes and tells what was found, one word each. */
static void tell(enum http1_kind kind, struct bytes in, size_t step, struct buf *out)
{
    struct http1_reader r;
    size_t at = 0;
    bool in_body = false;

    http1_init(&r, kind);
    while (at < in.len) {
        size_t len = step < in.len - at ? step : in.len - at;
        struct bytes piece, data = bytes_of(in.at + at, len);
        enum http1_found found;

        at += len;
        while ((found = http1_read(&r, &data, &piece)) != HTTP1_MORE) {
            if (found != HTTP1_BODY && in_body)
                buf_append_str(out, "]");
            if (found == HTTP1_BODY && !in_body)
                buf_append_str(out, " [");
            in_body = found == HTTP1_BODY;
            switch (found) {
            case HTTP1_HEAD:
                if (kind == HTTP1_REQUEST)
                    buf_printf(out, "%.*s %.*s", (int)r.verb.len, (const char *)r.verb.at,
                               (int)r.target.len, (const char *)r.target.at);
                else
                    buf_printf(out, "%u", r.status);
                buf_printf(out, " fields=%zu%s%s", r.field_count, r.keep_alive ? "" : " close",
                           r.expects_continue ? " continue"
                           : r.expects_other  ? " expects"
                                              : "");
                break;
            case HTTP1_BODY:
                buf_append(out, piece);
                break;
            case HTTP1_END:
                buf_append_str(out, " end\n");
                http1_next(&r);
                break;
            case HTTP1_BAD:
                CHECK(!r.detail || strcmp(r.detail, r.why) == 0);
                buf_printf(out, "bad %u: %s%s\n", r.bad_status, r.why, r.detail ? " (told)" : "");
                http1_free(&r);
                return;
            case HTTP1_MORE:
                break;
            }
        }
        CHECK_EQ(data.len, 0);
    }
    if (in_body)
        buf_append_str(out, "]");
    buf_append_str(out, http1_close(&r) == HTTP1_BAD ? " cut short\n" : "");
    http1_free(&r);
}

/* However the input is cut, the same is found. */
static void check_read(enum http1_kind kind, const char *in, const char *want)
{
    for (size_t step = 1; step < strlen(in) + 2; step += step < 8 ? 1 : step) {
        struct buf got = {0};
        tell(kind, bytes_of_str(in), step, &got);
        CHECK_STR(buf_str(&got), want);
        buf_free(&got);
    }
}

TEST(http1_requests_are_read)
{
    check_read(HTTP1_REQUEST, "GET /version HTTP/1.1\r\nHost: a\r\n\r\n",
               "GET /version fields=1 end\n");
    check_read(HTTP1_REQUEST,
               "POST /v3/kv/put?x=1 HTTP/1.1\r\nhOST:a\r\nContent-Length: 5\r\n\r\nhelloGET / "
               "HTTP/1.1\r\nHost: b \r\nConnection: x, Close\r\n\r\n",
               "POST /v3/kv/put?x=1 fields=2 [hello] end\nGET / fields=2 close end\n");
    check_read(HTTP1_REQUEST, "GET / HTTP/1.0\r\n\r\n", "GET / fields=0 close end\n");
    check_read(HTTP1_REQUEST, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
               "GET / fields=1 end\n");
    check_read(HTTP1_REQUEST, "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "OPTIONS * fields=1 end\n");
    check_read(HTTP1_REQUEST,
               "PUT /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
               "PUT /a fields=3 continue [x] end\n");
}

TEST(http1_chunks_are_read)
{
    check_read(HTTP1_REQUEST,
               "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n00A;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
               "POST / fields=2 [abc0123456789] end\n");
    check_read(HTTP1_RESPONSE,
               "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\nHTTP/1.1 404 Not "
               "Found\r\nContent-Length: 2\r\n\r\nno",
               "200 fields=1 end\n404 fields=1 [no] end\n");
}

TEST(http1_responses_are_read)
{
    check_read(HTTP1_RESPONSE, "HTTP/1.1 204 No Content\r\n\r\n", "204 fields=0 end\n");
    check_read(HTTP1_RESPONSE, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \r\n\r\nall of it",
               "100 fields=0 end\n200 fields=0 close [all of it]");
    check_read(HTTP1_RESPONSE, "HTTP/1.0 304 Not Modified\r\nContent-Length: 10\r\n\r\n",
               "304 fields=1 close end\n");
    check_read(HTTP1_RESPONSE, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
               "200 fields=1 [half] cut short\n");
}

/* The host that a target names counts, not the one of the field: those who may ask are told apart
 * by it. */
TEST(http1_reads_a_target_with_a_host)
{
    struct bytes data = BYTES("GET HTTPS://b:1/c?d=/ HTTP/1.1\r\nHost: a\r\n\r\n"), piece;
    struct http1_reader r;
    bool found;

    http1_init(&r, HTTP1_REQUEST);
    CHECK_EQ(http1_read(&r, &data, &piece), HTTP1_HEAD);
    CHECK_BYTES(r.target, BYTES("/c?d=/"));
    CHECK_BYTES(http1_field(&r, "Host", &found), BYTES("b:1"));
    CHECK(found);
    http1_free(&r);
}

/* As Go reads them, and RFC 9112 permits: by hand, or from a script, a head is seldom otherwise. */
TEST(http1_lines_of_a_head_may_end_in_lf)
{
    check_read(HTTP1_REQUEST, "GET /1 HTTP/1.1\nHost: a\n\nGET /2 HTTP/1.1\r\nHost: a\n\r\n",
               "GET /1 fields=1 end\nGET /2 fields=1 end\n");
    check_read(HTTP1_REQUEST, "PUT /1 HTTP/1.1\nHost: a\r\nContent-Length: 2\r\n\n\n\nGET",
               "PUT /1 fields=2 [\n\n] end\n cut short\n");
    check_read(HTTP1_REQUEST, "GET /1 HTTP/1.1\nHost: a\n\r\r\n\n",
               "bad 400: a field without a colon\n");
}

TEST(http1_reads_what_go_reads)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"GET / HTTP/1.7\r\nHost: a\r\n\r\n", "GET / fields=1 end\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: a\r\nExpect: 100-continue\r\n\r\n",
         "GET / fields=3 expects end\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: a, 100-Continue\r\n\r\n",
         "GET / fields=2 continue end\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect:\r\n\r\n", "GET / fields=2 end\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-length:1 \r\n\r\nx",
         "GET / fields=3 [x] end\n"},
        {"CONNECT a:1 HTTP/1.1\r\n\r\n", "CONNECT  fields=0 end\n"},
        {"GET /\xc3\xa4%20?%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\xc3\xa4%20?%zz fields=1 end\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_read(HTTP1_REQUEST, cases[i].in, cases[i].want);
}

/* What each target is about, and which host it names; NULL: it is malformed. */
TEST(http1_tells_the_host_of_a_target_from_its_path)
{
    static const struct {
        const char *target, *host, *path;
    } cases[] = {
        {"/a?b", "", "/a?b"},
        {"//a/b", "", "//a/b"},
        {"*", "", "*"},
        {"http://h", "h", ""},
        {"http://h?a/b", "h", "?a/b"},
        {"http://h:1/", "h:1", "/"},
        {"http://h:/", "h:", "/"},
        {"hTTp://u:p@h/a", "h", "/a"},
        {"x-y+z.1://h/a", "h", "/a"},
        {"x://h:a:1/a", "h:a:1", "/a"},
        {"http:/a", "", "/a"},
        {"http:///a", "", "/a"},
        {"http://[::1]:80/a", "[::1]:80", "/a"},
        {"http://\xc3\xa4/a", "\xc3\xa4", "/a"},
        {"", NULL, NULL},
        {"a", NULL, NULL},
        {"?a", NULL, NULL},
        {":/a", NULL, NULL},
        {"1x://h/a", NULL, NULL},
        {"http:", NULL, NULL},
        {"http:a", NULL, NULL}, /* Go takes it for an empty path */
        {"http://h:a/", NULL, NULL},
        {"http://h:1:2/", NULL, NULL},
        {"http://h#/", NULL, NULL},
        {"http://h%41/", NULL, NULL},
        {"http://{h}/", NULL, NULL},
        {"http://[::1/", NULL, NULL},
        {"http://[a]/", NULL, NULL},
        {"http://[::1]x/", NULL, NULL},
        {"http://a[::1]/", NULL, NULL},
        {"/%", NULL, NULL},
        {"/%4", NULL, NULL},
        {"/%4?1", NULL, NULL},
        {"/%4g", NULL, NULL},
        {"/\x7f", NULL, NULL},
        {"/?\x7f", NULL, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http1_reader r;
        struct buf text = {0};
        struct bytes piece;
        http1_init(&r, HTTP1_REQUEST);
        buf_printf(&text, "GET %s HTTP/1.1\r\nHost: field\r\n\r\n", cases[i].target);
        struct bytes data = buf_bytes(&text);
        enum http1_found found = http1_read(&r, &data, &piece);
        if ((found == HTTP1_HEAD) != (cases[i].path != NULL))
            test_fail(__FILE__, __LINE__, "%s: %s", cases[i].target, r.why ? r.why : "taken");
        if (found == HTTP1_HEAD) {
            CHECK_BYTES(r.host, bytes_of_str(cases[i].host));
            CHECK_BYTES(r.target, bytes_of_str(cases[i].path));
        }
        http1_free(&r);
        buf_free(&text);
    }
}

TEST(http1_is_strict)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"\x16\x03\x01\x02", "bad 400: not HTTP\n"},
        {"GET\r\n", "bad 400: not HTTP\n"},
        {" GET / HTTP/1.1\r\n", "bad 400: not HTTP\n"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\n\r\n", "bad 400: not HTTP\n"},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "bad 505: unsupported protocol version (told)\n"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "bad 400: HTTP/2 is not spoken here\n"},
        {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "bad 400: malformed request line\n"},
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "bad 400: malformed request line\n"},
        {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "bad 400: malformed target\n"},
        {"GET / HTTP/1.1\r\n\r\n", "bad 400: missing required Host header (told)\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "bad 400: too many Host headers\n"},
        {"GET / HTTP/1.0\r\nHost: a b\r\n\r\n", "bad 400: malformed Host header (told)\n"},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "bad 400: invalid header name (told)\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "bad 400: a field without a name\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", "bad 400: malformed field value\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "bad 400: a field without a colon\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\n\tb: folded\r\n\r\n",
         "bad 400: invalid header name (told)\n"},
        {"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", "bad 400: malformed field value\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 01\r\n\r\n",
         "bad 400: more than one length\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         "bad 400: more than one length\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "bad 400: malformed length\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
         "bad 400: malformed length\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
         "bad 400: malformed length\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
         "bad 501: unsupported transfer coding\n"},
        {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked\r\n\r\n",
         "bad 501: unsupported transfer coding\n"},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
         "bad 501: unsupported transfer coding\n"},
        {"A / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1x\r\n",
         "A / fields=2bad 400: malformed chunk size\n"},
        {"A / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
         "A / fields=2bad 400: malformed chunk size\n"},
        {"A / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
         "A / fields=2bad 400: malformed chunk size\n"},
        {"A / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
         "A / fields=2 [a]bad 400: a chunk longer than its size\n"},
        {"A / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n",
         "A / fields=2bad 400: a line that does not end in CR LF\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_read(HTTP1_REQUEST, cases[i].in, cases[i].want);
    check_read(HTTP1_RESPONSE, "HTTQ/1.1 200 OK\r\n", "bad 502: not HTTP\n");
    check_read(HTTP1_RESPONSE, "HTTP/1.1 20 OK\r\n\r\n", "bad 502: malformed status\n");
    check_read(HTTP1_RESPONSE, "HTTP/1.A 200 OK\r\n\r\n", "bad 502: malformed version\n");
}

static void check_too_much(const char *piece, const char *want)
{
    struct buf in = {0}, got = {0};

    buf_append_str(&in, "GET / HTTP/1.1\r\nHost: a\r\n");
    while (in.len < HTTP1_HEAD_BYTES_MAX)
        buf_append_str(&in, piece);
    buf_append_str(&in, "\r\n");
    tell(HTTP1_REQUEST, buf_bytes(&in), 1000, &got);
    CHECK_STR(buf_str(&got), want);
    buf_free(&in);
    buf_free(&got);
}

TEST(http1_heads_are_bounded)
{
    check_too_much("a", "bad 431: the head is too large\n");
    check_too_much("a: b\r\n", "bad 431: the head is too large\n");
}

static void check_fields(size_t count, const char *want)
{
    struct buf in = {0}, got = {0};

    buf_append_str(&in, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (size_t i = 1; i < count; i++)
        buf_append_str(&in, "a:\n");
    buf_append_str(&in, "\r\n");
    tell(HTTP1_REQUEST, buf_bytes(&in), 1000, &got);
    CHECK_STR(buf_str(&got), want);
    buf_free(&in);
    buf_free(&got);
}

/* A list of them is much larger than fields that are nearly empty. */
TEST(http1_fields_count_with_the_head)
{
    size_t each = sizeof(struct http1_field) + strlen("a:\n");
    size_t most = HTTP1_HEAD_BYTES_MAX / each - 1;
    char want[64];

    snprintf(want, sizeof(want), "GET / fields=%zu end\n", most);
    check_fields(most, want);
    check_fields(most + 2, "bad 431: the head is too large\n");
}

TEST(http1_trailers_are_bounded)
{
    struct buf in = {0}, got = {0};

    buf_append_str(&in, "A / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
    while (in.len < 2 * HTTP1_TRAILER_BYTES_MAX)
        buf_append_str(&in, "a: b\r\n");
    tell(HTTP1_REQUEST, buf_bytes(&in), 1000, &got);

    CHECK_STR(buf_str(&got), "A / fields=2bad 431: too many trailers\n");
    buf_free(&in);
    buf_free(&got);
}

TEST(http1_reads_what_it_writes)
{
    struct buf out = {0}, got = {0};

    http1_write_request_line(&out, "POST", BYTES("/raft"));
    http1_write_field(&out, "Host", BYTES("10.0.0.1:2380"));
    http1_write_field(&out, "X-Server-From", BYTES("8e9e05c52164694d"));
    http1_write_length(&out, 3);
    http1_write_head_end(&out);
    buf_append_str(&out, "abc");
    http1_write_request_line(&out, "GET", BYTES("/"));
    http1_write_field(&out, "Host", BYTES(""));
    http1_write_field(&out, "Transfer-Encoding", BYTES("chunked"));
    http1_write_head_end(&out);
    http1_write_chunk(&out, BYTES("one"));
    http1_write_chunk(&out, BYTES(""));
    http1_write_chunk(&out, BYTES("twenty-seven bytes of chunk"));
    http1_write_last_chunk(&out);
    tell(HTTP1_REQUEST, buf_bytes(&out), 7, &got);
    CHECK_STR(buf_str(&got), "POST /raft fields=3 [abc] end\n"
                             "GET / fields=2 [onetwenty-seven bytes of chunk] end\n");

    buf_clear(&out);
    buf_clear(&got);
    http1_write_status_line(&out, false, 404);
    http1_write_date(&out, 1700000000ull * 1000000000);
    http1_write_length(&out, 0);
    http1_write_head_end(&out);
    CHECK_STR(buf_str(&out), "HTTP/1.1 404 Not Found\r\nDate: Tue, 14 Nov 2023 22:13:20 "
                             "GMT\r\nContent-Length: 0\r\n\r\n");
    tell(HTTP1_RESPONSE, buf_bytes(&out), 7, &got);
    CHECK_STR(buf_str(&got), "404 fields=2 end\n");
    buf_free(&out);
    buf_free(&got);
}

TEST(http1_lists_know_their_words)
{
    CHECK(http1_lists(BYTES("close"), "close"));
    CHECK(http1_lists(BYTES(" keep-alive ,\tCLOSE "), "close"));
    CHECK(!http1_lists(BYTES("closed, not close"), "close"));
    CHECK(!http1_lists(BYTES(""), "close"));
    CHECK(http1_lists(BYTES("gzip;q=1.0, identity"), "identity"));
}

/* A field cannot smuggle a second one into what we write. */
TEST(http1_refuses_to_write_what_is_malformed)
{
    struct buf out = {0};

    CHECK_DIES(http1_write_field(&out, "A", BYTES("b\r\nC: d")), "all_are(value, is_value)");
    CHECK_DIES(http1_write_field(&out, "A b", BYTES("c")), "is_token");
    CHECK_DIES(http1_write_request_line(&out, "GET", BYTES("/a b")), "is_");
    buf_free(&out);
}
