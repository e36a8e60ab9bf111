#include "rpc/rpc_rig_test.h"

#include "rpc/rpc_int.h"

#include <string.h>

/* Plain requests on HTTP/2, by hand. Only connections by TLS have them. */

enum { DATA = 0, RST_STREAM = 3 };

#define DATE "date: Tue, 14 Nov 2023 22:13:20 GMT\n"

/* The fake net has no TLS: the connection is told that it is by it. */
static void connect_by_tls(struct rpc_rig *r, struct raw *raw)
{
    raw_connect(r, raw);
    container_of(r->rpc->conns.prev, struct rpc_conn, link)->info.tls = true;
}

static void put_request(struct buf *out, uint32_t stream, const char *verb, const char *path,
                        bool ends)
{
    struct buf fields = {0};

    field_put(&fields, ":method", verb);
    field_put(&fields, ":scheme", "https");
    field_put(&fields, ":authority", "a.example");
    field_put(&fields, ":path", path);
    field_put(&fields, "accept", "*/*");
    frame_put(out, 1, (uint8_t)(4 | ends), stream, buf_bytes(&fields));
    buf_free(&fields);
}

static void check_reply(const struct raw *raw, uint32_t stream, const char *want, const char *body)
{
    struct buf fields = {0};
    uint32_t of;
    struct bytes got = {0};

    fields_found(buf_bytes(&raw->got), stream, &fields);
    CHECK_STR(buf_str(&fields), want);
    bool found = false;
    for (unsigned i = 0; !found && frame_find(buf_bytes(&raw->got), DATA, i, &of, &got); i++)
        found = of == stream;
    CHECK_EQ(found, body != NULL);
    if (body)
        CHECK(bytes_equal(got, bytes_of_str(body)));
    buf_free(&fields);
}

TEST(a_stream_by_tls_that_is_not_grpc_is_a_plain_request)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0};
    rpc_rig_open(&r, NULL);
    connect_by_tls(&r, &raw);

    frame_preface(&sent);
    put_request(&sent, 1, "GET", "/version?a=b", true);
    put_request(&sent, 3, "HEAD", "/version", true);
    put_request(&sent, 5, "POST", "/put", false);
    frame_put(&sent, DATA, 0, 5, BYTES("some "));
    frame_put(&sent, DATA, 1, 5, BYTES("words"));
    raw_send(&raw, buf_bytes(&sent));
    rpc_rig_for_ms(&r, 100);

    check_reply(&raw, 1, ":status: 200\ncontent-length: 17\ncontent-type: text/plain\n" DATE,
                "GET /version a=b ");
    check_reply(&raw, 3, ":status: 200\ncontent-length: 15\ncontent-type: text/plain\n" DATE, NULL);
    check_reply(&raw, 5,
                ":status: 200\ncontent-length: 21\ncontent-type: text/plain\nx-test: yes\n" DATE,
                "POST /put  some words");
    CHECK_EQ(r.http, 3);
    raw_close(&r, &raw);
    buf_free(&sent);
    rpc_rig_close(&r);
}

/* As in HTTP/1.1 (http/path.h). */
TEST(a_path_on_a_stream_by_tls_is_cleaned_and_decoded)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0};
    rpc_rig_open(&r, NULL);
    connect_by_tls(&r, &raw);

    frame_preface(&sent);
    put_request(&sent, 1, "GET", "/%76ersion?%20", true);
    put_request(&sent, 3, "GET", "//version?a&b", true);
    put_request(&sent, 5, "HEAD", "//version", true);
    put_request(&sent, 7, "POST", "//version", false);
    frame_put(&sent, DATA, 1, 7, BYTES("words"));
    put_request(&sent, 9, "GET", "*", true);
    put_request(&sent, 11, "GET", "/%zz", true);
    raw_send(&raw, buf_bytes(&sent));
    rpc_rig_for_ms(&r, 100);

    check_reply(&raw, 1, ":status: 200\ncontent-length: 17\ncontent-type: text/plain\n" DATE,
                "GET /version %20 ");
    check_reply(&raw, 3,
                ":status: 307\ncontent-length: 52\ncontent-type: text/html; charset=utf-8\n"
                "location: /version?a&b\n" DATE,
                "<a href=\"/version?a&amp;b\">Temporary Redirect</a>.\n\n");
    check_reply(&raw, 5,
                ":status: 307\ncontent-type: text/html; charset=utf-8\nlocation: /version\n" DATE,
                NULL);
    check_reply(&raw, 7, ":status: 307\ncontent-length: 0\nlocation: /version\n" DATE, NULL);
    check_reply(&raw, 9, ":status: 400\ncontent-length: 0\n" DATE, NULL);
    uint32_t of;
    struct bytes reset;
    CHECK(frame_find(buf_bytes(&raw.got), RST_STREAM, 0, &of, &reset));
    CHECK_EQ(of, 11);
    CHECK_EQ(r.http, 1);
    raw_close(&r, &raw);
    buf_free(&sent);
    rpc_rig_close(&r);
}

TEST(a_long_path_on_a_stream_by_tls_is_not_cleaned)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0}, path = {0};
    rpc_rig_open(&r, NULL);
    connect_by_tls(&r, &raw);

    frame_preface(&sent);
    buf_append_str(&path, "//");
    memset(buf_extend(&path, HTTP_ODD_TARGET_BYTES_MAX), 'a', HTTP_ODD_TARGET_BYTES_MAX);
    put_request(&sent, 1, "GET", buf_str(&path), true);
    raw_send(&raw, buf_bytes(&sent));
    rpc_rig_for_ms(&r, 100);

    check_reply(&raw, 1, ":status: 414\ncontent-length: 0\n" DATE, NULL);
    CHECK_EQ(r.http, 0);
    raw_close(&r, &raw);
    buf_free(&sent);
    buf_free(&path);
    rpc_rig_close(&r);
}

/* Without TLS HTTP/2 is for gRPC alone; and with it a call of gRPC stays one. */
TEST(grpc_and_plain_requests_are_told_apart)
{
    struct rpc_rig r;
    struct raw plain = {0}, secure = {0};
    struct buf sent = {0}, fields = {0}, none = {0};
    rpc_rig_open(&r, NULL);
    frame_preface(&sent);
    put_request(&sent, 1, "GET", "/version", true);
    frame_request(&sent, 3, "/nobody/Knows", true, buf_bytes(&none));
    raw_connect(&r, &plain);
    raw_send(&plain, buf_bytes(&sent));
    connect_by_tls(&r, &secure);
    raw_send(&secure, buf_bytes(&sent));
    rpc_rig_for_ms(&r, 100);

    fields_found(buf_bytes(&plain.got), 1, &fields);
    CHECK(strstr(buf_str(&fields), ":status: 415\ncontent-type: application/grpc\n"));
    buf_clear(&fields);
    fields_found(buf_bytes(&secure.got), 1, &fields);
    CHECK(strstr(buf_str(&fields), ":status: 200\ncontent-length: "));
    buf_clear(&fields);
    fields_found(buf_bytes(&secure.got), 3, &fields);
    CHECK(strstr(buf_str(&fields), "grpc-message: unknown service nobody"));
    CHECK_EQ(r.http, 1);
    raw_close(&r, &plain);
    raw_close(&r, &secure);
    buf_free(&sent);
    buf_free(&fields);
    rpc_rig_close(&r);
}

static void check_status(struct rpc_rig *r, struct bytes sent, const char *status)
{
    struct raw raw = {0};
    struct buf fields = {0};

    connect_by_tls(r, &raw);
    raw_send(&raw, sent);
    rpc_rig_for_ms(r, 100);
    fields_found(buf_bytes(&raw.got), 1, &fields);
    if (strncmp(buf_str(&fields), status, strlen(status)) != 0)
        test_fail(__FILE__, __LINE__, "not %s but %s", status, buf_str(&fields));
    raw_close(r, &raw);
    buf_free(&fields);
}

/* The core sees fields as lines: what could make two of one is reset before. */
TEST(plain_requests_on_http2_with_malformed_fields_are_reset)
{
    static const struct {
        const char *name, *value;
    } bad[] = {{"x", "two\nlines"}, {"x\ny", "z"}, {"Upper", "z"}, {"", "z"}, {"a:b", "z"}};
    struct rpc_rig r;
    rpc_rig_open(&r, NULL);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct buf sent = {0}, fields = {0};
        struct raw raw = {0};
        uint32_t stream;
        struct bytes error;
        frame_preface(&sent);
        field_put(&fields, ":method", "GET");
        field_put(&fields, ":scheme", "https");
        field_put(&fields, ":path", "/a");
        field_put(&fields, bad[i].name, bad[i].value);
        frame_put(&sent, 1, 5, 1, buf_bytes(&fields));
        connect_by_tls(&r, &raw);
        raw_send(&raw, buf_bytes(&sent));
        rpc_rig_for_ms(&r, 100);
        CHECK(frame_find(buf_bytes(&raw.got), RST_STREAM, 0, &stream, &error));
        CHECK(bytes_equal(error, BYTES("\0\0\0\1")));
        raw_close(&r, &raw);
        buf_free(&sent);
        buf_free(&fields);
    }
    CHECK_EQ(r.http, 0);
    rpc_rig_close(&r);
}

/* More than is allowed: refused while it is still being sent. */
TEST(the_body_of_a_plain_request_on_http2_is_bounded)
{
    struct rpc_rig r;
    struct buf sent = {0};
    uint8_t piece[16000] = {0};
    rpc_rig_open(&r, &(struct rpc_options){.message_bytes_max = 10000});
    frame_preface(&sent);
    put_request(&sent, 1, "POST", "/put", false);
    frame_put(&sent, DATA, 0, 1, bytes_of(piece, sizeof(piece)));
    frame_put(&sent, DATA, 0, 1, bytes_of(piece, 4001));

    check_status(&r, buf_bytes(&sent), ":status: 413\n");

    CHECK_EQ(r.http, 0);
    buf_free(&sent);
    rpc_rig_close(&r);
}

/* Whenever the client goes: the core hears of it if it knew, and nothing is left behind. */
TEST(a_client_of_plain_requests_on_http2_may_leave_after_any_byte)
{
    struct rpc_rig r;
    struct buf sent = {0};
    rpc_rig_open(&r, NULL);
    frame_preface(&sent);
    put_request(&sent, 1, "POST", "/put", false);
    frame_put(&sent, DATA, 1, 1, BYTES("words"));
    put_request(&sent, 3, "GET", "/hold", true);
    frame_put(&sent, RST_STREAM, 0, 3, BYTES("\0\0\0\x08"));

    for (size_t len = 0; len <= sent.len; len++) {
        struct raw raw = {0};
        connect_by_tls(&r, &raw);
        raw_say_and_leave(&r, &raw, bytes_of(sent.at, len));
    }
    CHECK_EQ(r.live, 0);
    buf_free(&sent);
    rpc_rig_close(&r);
}

/* --- large replies --- */

enum { SCRAPE_BYTES = 250000 };

/* So many requests for a text that is as long as one of metrics, on streams from `from` on. */
static void scrape_many(struct raw *raw, unsigned from, unsigned count)
{
    struct buf out = {0};

    if (from == 0)
        frame_preface(&out);
    for (unsigned i = from; i < from + count; i++)
        put_request(&out, 2 * i + 1, "GET", "/large?250000", true);
    raw_send(raw, buf_bytes(&out));
    buf_free(&out);
}

static void connect_prober(struct rpc_rig *r, struct raw *raw)
{
    connect_by_tls(r, raw);
    container_of(r->rpc->conns.prev, struct rpc_conn, link)->serves = RPC_SERVES_PROBES;
}

static void leave(struct rpc_rig *r, struct raw *raw)
{
    raw_close(r, raw);
    buf_free(&raw->got);
}

static bool was_cut(const struct raw *raw)
{
    return raw->ended + raw->closed > 0;
}

TEST(scrapes_that_are_not_read_are_made_as_far_as_there_is_memory_for_them)
{
    enum { CONNS = 12, EACH = 256 };
    static struct raw raws[CONNS];
    struct raw honest = {0};
    struct rpc_rig r;
    rpc_rig_open(&r, NULL);
    r.unchecked = true;
    for (unsigned i = 0; i < CONNS; i++) {
        raws[i] = (struct raw){.ignores_input = true};
        connect_by_tls(&r, &raws[i]);
        scrape_many(&raws[i], 0, EACH);
    }
    rpc_rig_for_ms(&r, 500);
    CHECK(r.reserved <= CONNS * (RPC_CONN_BYTES_MAX / SCRAPE_BYTES + 1));
    CHECK(rpc_status(r.rpc).owed_bytes <= RPC_REPLIES_BYTES_MAX);

    uint64_t before = clock_now_ns(r.io->clock);
    connect_by_tls(&r, &honest);
    scrape_many(&honest, 0, 1);
    while (honest.got_bytes < 60000) /* its first window */
        rpc_rig_step(&r);

    CHECK(clock_now_ns(r.io->clock) - before <= 2 * RPC_PATIENCE_MS * NS_PER_MS);
    leave(&r, &honest);
    for (unsigned i = 0; i < CONNS; i++)
        leave(&r, &raws[i]);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.live, 0);
    CHECK_EQ(rpc_status(r.rpc).owed_bytes, 0);
    rpc_check(r.rpc);
    rpc_rig_close(&r);
}

/* Where others hold all there is for clients, too; and who asks there for a lot waits for
 * himself. */
TEST(a_probe_is_answered_at_once_and_scrapers_that_do_not_read_hold_little)
{
    enum { EACH = 1000 };
    struct raw scraper = {.ignores_input = true}, honest = {0};
    struct rpc_rig r;
    rpc_rig_open(&r, NULL);
    connect_prober(&r, &scraper);
    scrape_many(&scraper, 0, EACH);
    rpc_rig_for_ms(&r, 500);
    CHECK(r.reserved <= RPC_PROBE_BYTES_MAX / SCRAPE_BYTES);
    CHECK(rpc_status(r.rpc).owed_bytes <= RPC_PROBE_BYTES_MAX);

    r.rpc->owed += RPC_REPLIES_BYTES_MAX; /* as if clients held it */
    connect_prober(&r, &honest);
    scrape_many(&honest, 0, 1);
    rpc_rig_for_ms(&r, 100);
    CHECK(honest.got_bytes > 60000); /* its first window */
    r.rpc->owed -= RPC_REPLIES_BYTES_MAX;
    rpc_rig_for_ms(&r, 3 * RPC_PATIENCE_MS);

    CHECK(!was_cut(&honest) && !was_cut(&scraper));
    leave(&r, &honest);
    leave(&r, &scraper);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.live, 0);
    rpc_rig_close(&r);
}
