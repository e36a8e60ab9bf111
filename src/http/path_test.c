#include "http/path.h"

#include "base/mem.h"
#include "harness/test.h"

#include <stdio.h>

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
