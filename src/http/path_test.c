#include "http/path.h"

#include "base/limits.h"
#include "base/mem.h"
#include "harness/test.h"

#include <stdio.h>
#include <time.h>

static const char *const trees[] = {"/v3/", "/raft/stream/", NULL};
static const struct http_paths paths = {.trees = trees, .alias = "/v3beta/", .meant = "/v3/"};

static const char *read_path(const char *verb, const char *target)
{
    static const char *const kinds[] = {"", "> ", "! "};
    static char told[256];
    struct buf text = {0};
    struct bytes path;

    CHECK(http_path_is_sound(bytes_of_str(target)));
    enum http_path_kind kind =
        http_path_read(&paths, bytes_of_str(verb), bytes_of_str(target), &text, &path);
    snprintf(told, sizeof(told), "%s%.*s", kinds[kind], (int)path.len, (const char *)path.at);
    buf_free(&text);
    return told;
}

/* What real etcd says to each is in tests/interop/http_corners_test.c. */
TEST(paths_are_read_as_go_reads_them)
{
    static const char *const cases[][2] = {
        {"/health", "/health"},
        {"/", "/"},
        {"*", "! *"},
        {"", "> /"},
        {"//", "> /"},
        {"///", "> /"},
        {"/.", "> /"},
        {"/..", "> /"},
        {"/../..", "> /"},
        {"/...", "/..."},
        {"/.a/..b", "/.a/..b"},
        {"//health", "> /health"},
        {"/./health", "> /health"},
        {"/x/../health", "> /health"},
        {"/health/", "/health/"},
        {"/health//", "> /health/"},
        {"/health/.", "> /health"},
        {"/health/..", "> /"},
        {"/a/b/../..", "> /"},
        {"/%68ealth", "/health"},
        {"/%2e%2E/health", "/../health"},
        {"/%2Fhealth", "/%2Fhealth"},
        {"/livez%2fx", "/livez%2fx"},
        {"/a%252Fb", "/a%2Fb"},
        {"/v3", "> /v3/"},
        {"//v3", "> /v3/"},
        {"/%763", "> /v3/"},
        {"/v3/", "/v3/"},
        {"/v3//kv/range", "> /v3/kv/range"},
        {"/v3/kv/%72ange", "/v3/kv/range"},
        {"/v3/kv%2Frange", "/v3/kv/range"},
        {"/v3/%2F..%2Fx", "/v3//../x"},
        {"/v3%2Fkv/range", "/v3%2Fkv/range"},
        {"/raft/stream", "> /raft/stream/"},
        {"/raft/stream/%2Fx", "/raft/stream//x"},
        {"/raft%2Fstream/x", "/raft%2Fstream/x"},
        {"/raft", "/raft"},
        {"/v3beta", "/v3beta"},
        {"/v3beta/kv", "/v3/kv"},
        {"/v3beta//kv", "> /v3/kv"},
        {"/v3beta%2Fkv", "/v3/kv"},
        {"/v3bet%61/kv", "/v3/kv"},
        {"//v3beta/kv", "> /v3beta/kv"},
        {"/v3beta/%2fhealth", "> /v3/health"},
        {"/v3beta/..", "> /"},
        {"//a%20b", "> /a%2520b"},
        {"//a!b'(c)*[d]", "> /a%21b%27%28c%29%2A%5Bd%5D"},
        {"//a\"b'", "> /a%2522b%2527"},
        {"//\xc3\xa4", "> /%25C3%25A4"},
        {"/\xc3\xa4", "/\xc3\xa4"},
        {"//a:b@c", "> /a:b@c"},
        {"//a%0a", "> /a%250a"},
        {"/x%2Fy/../v3", "> /x/v3/"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *got = read_path("GET", cases[i][0]);
        if (strcmp(got, cases[i][1]) != 0)
            test_fail(__FILE__, __LINE__, "%s: %s", cases[i][0], got);
    }
}

/* Go's shouldEscape and validEncoded. */
static bool is_written_plainly(unsigned c)
{
    return c > 0 && strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "-_.~$&+,/:;=@",
                           (int)c);
}

static bool is_read_plainly(unsigned c)
{
    return is_written_plainly(c) || (c > 0 && strchr("!'()*[]", (int)c));
}

static void put_escaped(struct buf *out, unsigned c)
{
    if (is_written_plainly(c))
        buf_append_byte(out, (uint8_t)c);
    else
        buf_printf(out, "%%%02X", c);
}

static void put_escaped_again(struct buf *out, struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        put_escaped(out, text->at[i]);
}

static void check_read(struct buf *target, enum http_path_kind want, struct buf *wanted)
{
    struct buf text = {0};
    struct bytes path;

    CHECK_EQ(http_path_read(&paths, BYTES("GET"), buf_bytes(target), &text, &path), want);
    CHECK(bytes_equal(path, buf_bytes(wanted)));
    buf_free(&text);
    buf_clear(target);
    buf_clear(wanted);
}

TEST(every_byte_is_encoded_and_decoded_as_by_go)
{
    struct buf target = {0}, once = {0}, want = {0};

    for (unsigned c = 0; c < 256; c++) {
        if (c == '?' || c == '%')
            continue;
        buf_append_str(&target, "//a");
        buf_append_byte(&target, (uint8_t)c);
        buf_append_byte(&target, 'b');
        buf_clear(&once);
        buf_append_str(&once, "/a");
        if (is_read_plainly(c))
            buf_append_byte(&once, (uint8_t)c);
        else
            put_escaped(&once, c);
        buf_append_byte(&once, 'b');
        put_escaped_again(&want, &once);
        check_read(&target, HTTP_PATH_ELSEWHERE, &want);
    }
    for (unsigned c = 0; c < 256; c++) {
        buf_printf(&target, "/a%%%02x%%%02Xb", c, c);
        if (c == '/')
            buf_append_str(&want, "/a%2f%2Fb");
        else
            buf_append(&want,
                       bytes_of((const uint8_t[]){'/', 'a', (uint8_t)c, (uint8_t)c, 'b'}, 5));
        check_read(&target, HTTP_PATH_HERE, &want);
    }
    buf_free(&target);
    buf_free(&once);
    buf_free(&want);
}

TEST(every_byte_of_a_query_is_encoded_as_by_go)
{
    static const char *const entities[256] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"};
    struct buf out = {0}, want = {0};

    for (unsigned c = 0; c < 256; c++) {
        uint8_t byte = (uint8_t)c;
        buf_clear(&out);
        buf_clear(&want);
        http_path_location(BYTES("/a"), bytes_of(&byte, 1), &out);
        buf_append_str(&want, "/a?");
        if (c < 0x80)
            buf_append_byte(&want, byte);
        else
            buf_printf(&want, "%%%x", c);
        http_path_page(BYTES("/a"), bytes_of(&byte, 1), &out);
        buf_append_str(&want, "<a href=\"/a?");
        if (entities[c])
            buf_append_str(&want, entities[c]);
        else
            buf_append_byte(&want, byte);
        buf_append_str(&want, "\">Temporary Redirect</a>.\n\n");
        CHECK(bytes_equal(buf_bytes(&out), buf_bytes(&want)));
    }
    buf_free(&out);
    buf_free(&want);
}

/* --- long ones --- */

static void fill(struct buf *target, const char *front, const char *unit, size_t len)
{
    buf_clear(target);
    buf_append_str(target, front);
    while (target->len < len)
        buf_append_str(target, unit);
    target->len = len;
}

static enum http_path_kind kind_of(struct bytes target)
{
    struct buf text = {0};
    struct bytes path;
    enum http_path_kind kind = http_path_read(&paths, BYTES("GET"), target, &text, &path);

    buf_free(&text);
    return kind;
}

TEST(a_long_target_is_refused_if_its_path_is_cleaned_or_decoded)
{
    enum { MOST = HTTP_ODD_TARGET_BYTES_MAX };
    struct buf t = {0};

    fill(&t, "//", "a", MOST);
    CHECK_EQ(kind_of(buf_bytes(&t)), HTTP_PATH_ELSEWHERE);
    fill(&t, "//", "a", MOST + 1);
    CHECK_EQ(kind_of(buf_bytes(&t)), HTTP_PATH_TOO_LONG);
    fill(&t, "//health?", "a", MOST + 1);
    CHECK_EQ(kind_of(buf_bytes(&t)), HTTP_PATH_TOO_LONG);
    fill(&t, "/%41", "a", MOST + 1);
    CHECK_EQ(kind_of(buf_bytes(&t)), HTTP_PATH_TOO_LONG);
    fill(&t, "/", "a", 100 * MOST);
    CHECK_EQ(kind_of(buf_bytes(&t)), HTTP_PATH_HERE);
    fill(&t, "/health?", "%", 100 * MOST);
    CHECK_EQ(kind_of(buf_bytes(&t)), HTTP_PATH_HERE);
    buf_free(&t);
}

/* The field and the page for where the target is. */
static void append_directions(struct bytes target, struct buf *out)
{
    struct buf text = {0};
    struct bytes query, path;

    (void)http_path_of_target(target, &query);
    if (http_path_read(&paths, BYTES("GET"), target, &text, &path) == HTTP_PATH_ELSEWHERE) {
        http_path_location(path, query, out);
        http_path_page(path, query, out);
    }
    buf_free(&text);
}

TEST(directions_are_no_longer_than_is_said)
{
    static const char *const odd[][2] = {{"//", "\""}, {"//", "&"}, {"//?", "\""}, {"//?", "\xff"}};
    struct buf t = {0}, out = {0};

    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        fill(&t, odd[i][0], odd[i][1], HTTP_ODD_TARGET_BYTES_MAX);
        buf_clear(&out);
        append_directions(buf_bytes(&t), &out);
        CHECK(out.len > 3 * HTTP_ODD_TARGET_BYTES_MAX);
        CHECK(out.len <= HTTP_DIRECTIONS_BYTES_MAX);
    }
    buf_free(&t);
    buf_free(&out);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void append_slowly(struct bytes what, struct buf *out)
{
    for (size_t i = 0; i < what.len; i++)
        buf_append_byte(out, what.at[i]);
}

/* The least of some rounds, so that it is no matter of what else the machine does. */
static uint64_t least_ns(void (*work)(struct bytes what, struct buf *out), struct bytes what)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < 20; i++) {
        struct buf out = {0};
        uint64_t began = cpu_ns();
        work(what, &out);
        uint64_t took = cpu_ns() - began;
        least = took < least ? took : least;
        buf_free(&out);
    }
    return least;
}

/* With a printf for each byte it was ten times as much. */
TEST(directions_cost_no_more_than_to_append_them_byte_by_byte_twice)
{
    static const char *const odd[][2] = {{"//", "\""}, {"//", "&"}, {"//?", "\""}, {"//?", "\xff"}};
    struct buf t = {0}, out = {0};

    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        fill(&t, odd[i][0], odd[i][1], HTTP_ODD_TARGET_BYTES_MAX);
        buf_clear(&out);
        append_directions(buf_bytes(&t), &out);
        CHECK(least_ns(append_directions, buf_bytes(&t)) <
              2 * least_ns(append_slowly, buf_bytes(&out)));
    }
    fill(&t, "//", "\"", 250000);
    CHECK(least_ns(append_directions, buf_bytes(&t)) < least_ns(append_slowly, buf_bytes(&t)));
    buf_free(&t);
    buf_free(&out);
}

/* --- corners --- */

TEST(a_path_of_a_tunnel_is_not_cleaned)
{
    CHECK_STR(read_path("CONNECT", "//health"), "//health");
    CHECK_STR(read_path("CONNECT", "/v3/../%68ealth"), "/v3/../health");
    CHECK_STR(read_path("CONNECT", ""), "");
    CHECK_STR(read_path("CONNECT", "/v3"), "> /v3/");
}

TEST(a_percent_sign_needs_two_digits_in_a_path)
{
    CHECK(http_path_is_sound(BYTES("/%00?%zz")));
    CHECK(http_path_is_sound(BYTES("/?%")));
    CHECK(!http_path_is_sound(BYTES("/%")));
    CHECK(!http_path_is_sound(BYTES("/%1")));
    CHECK(!http_path_is_sound(BYTES("/%1?0")));
    CHECK(!http_path_is_sound(BYTES("/%g0")));
    CHECK(!http_path_is_sound(BYTES("/%0g")));
}

TEST(the_way_there_keeps_the_query)
{
    struct buf out = {0};

    http_path_location(BYTES("/a"), BYTES("b=<&\xc3\xa4"), &out);
    CHECK_STR(buf_str(&out), "/a?b=<&%c3%a4");
    buf_clear(&out);
    http_path_page(BYTES("/a"), BYTES("b=<&'\""), &out);
    CHECK_STR(buf_str(&out), "<a href=\"/a?b=&lt;&amp;&#39;&#34;\">Temporary Redirect</a>.\n\n");
    buf_clear(&out);
    http_path_page(BYTES("/a"), BYTES(""), &out);
    CHECK_STR(buf_str(&out), "<a href=\"/a\">Temporary Redirect</a>.\n\n");
    buf_free(&out);
}
