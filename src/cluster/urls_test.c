#include "cluster/urls.h"

#include "harness/test.h"

/* What etcd 3.7.1 makes of the same text, as the value of a flag. */
static const struct {
    const char *text;
    const char *want; /* the list again, or why not */
} cases[] = {
    {"http://127.0.0.1:2379", "http://127.0.0.1:2379"},
    {" http://127.0.0.1:2379\t", "http://127.0.0.1:2379"},
    {"HTTP://h:1", "http://h:1"},
    {"https://b:1,http://c:1,http://a:1", "http://a:1,http://c:1,https://b:1"},
    {"http://a:1,http://a:1", "http://a:1,http://a:1"},
    {"http://[::1]:2379", "http://[::1]:2379"},
    {"http://[fe80::1%25eth0]:1", "http://[fe80::1%25eth0]:1"},
    {"http://127.0.0.1:", "http://127.0.0.1:"},
    {"http://:1", "http://:1"},
    {"http://h:99999", "http://h:99999"},
    {"http://h\"q<x>:1", "http://h\"q<x>:1"},
    {"http://\xc3\xbc:1", "http://%C3%BC:1"},
    {"http://%c3%bc:1", "http://%C3%BC:1"},
    {"unix://name:1", "unix://name:1"},
    {"unix://a:b:1", "unix://a:b:1"},
    {"unix:///run/etcd.sock", "unix:///run/etcd.sock"},
    {"unix:/run/etcd.sock", "unix:/run/etcd.sock"},
    {"unixs://localhost:m1", "parse \"unixs://localhost:m1\": invalid port \":m1\" after host"},
    {"unix:/a b%20c", "unix:/a%20b%20c"},
    {"unix:/a%2Fb", "unix:/a%2Fb"},

    {"", "URL scheme must be http, https, unix, or unixs: "},
    {"foo", "URL scheme must be http, https, unix, or unixs: foo"},
    {"localhost:2379", "URL scheme must be http, https, unix, or unixs: localhost:2379"},
    {"//h:1", "URL scheme must be http, https, unix, or unixs: //h:1"},
    {"/a:b", "URL scheme must be http, https, unix, or unixs: /a:b"},
    {"ftp://h:1", "URL scheme must be http, https, unix, or unixs: ftp://h:1"},
    {"http://1.2.3.4:1,", "URL scheme must be http, https, unix, or unixs: "},
    {"http://1.2.3.4", "URL address does not have the form \"host:port\": http://1.2.3.4"},
    {"http:1.2.3.4:1", "URL address does not have the form \"host:port\": http:1.2.3.4:1"},
    {"http://[::1]", "URL address does not have the form \"host:port\": http://[::1]"},
    {"http://a]:1", "URL address does not have the form \"host:port\": http://a]:1"},
    {"http:///", "URL address does not have the form \"host:port\": http:///"},
    {"http://1.2.3.4:1/a", "URL must not contain a path: http://1.2.3.4:1/a"},
    {"http://1.2.3.4:1/", "URL must not contain a path: http://1.2.3.4:1/"},
    {"127.0.0.1:2379", "parse \"127.0.0.1:2379\": first path segment in URL cannot contain colon"},
    {"1http://h:1", "parse \"1http://h:1\": first path segment in URL cannot contain colon"},
    {":foo", "parse \":foo\": missing protocol scheme"},
    {"http://h\x01:1", "parse \"http://h\\x01:1\": net/url: invalid control character in URL"},
    {"http://a b:1", "parse \"http://a b:1\": invalid character \" \" in host name"},
    {"unix://a b:1", "parse \"unix://a b:1\": invalid character \" \" in host name"},
    {"http://a^b:1", "parse \"http://a^b:1\": invalid character \"^\" in host name"},
    {"http://h:x", "parse \"http://h:x\": invalid port \":x\" after host"},
    {"http://h:-1", "parse \"http://h:-1\": invalid port \":-1\" after host"},
    {"http://a:b:c", "parse \"http://a:b:c\": invalid port \":b:c\" after host"},
    {"http://::1:2379", "parse \"http://::1:2379\": invalid port \"::1:2379\" after host"},
    {"http://[::1]x:1", "parse \"http://[::1]x:1\": invalid port \"x:1\" after host"},
    {"http://[::1:2379", "parse \"http://[::1:2379\": missing ']' in host"},
    {"http://a[b]:1", "parse \"http://a[b]:1\": invalid IP-literal"},
    {"http://[zz]:1",
     "parse \"http://[zz]:1\": invalid host: ParseAddr(\"zz\"): unable to parse IP"},
    {"http://[fe80::1%eth0]:1", "parse \"http://[fe80::1%eth0]:1\": invalid URL escape \"%et\""},
    {"http://a%zz:1", "parse \"http://a%zz:1\": invalid URL escape \"%zz\""},
    {"http://a%41:1", "parse \"http://a%41:1\": invalid URL escape \"%41\""},
    {"http://a%4", "parse \"http://a%4\": invalid URL escape \"%4\""},
    {"unix:/a%zz", "parse \"unix:/a%zz\": invalid URL escape \"%zz\""},

    /* These etcd takes. */
    {"http://u:p@h:1", "URL must not contain a user, query or fragment: http://u:p@h:1"},
    {"http://h:1?x", "URL must not contain a user, query or fragment: http://h:1?x"},
    {"http://h:1#f", "URL must not contain a user, query or fragment: http://h:1#f"},
};

TEST(urls_are_judged_as_etcd_judges_them)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct arena arena = {0};
        struct buf got = {0};
        struct url_list list;

        if (url_list_parse(bytes_of_str(cases[i].text), &arena, &got, &list))
            url_list_join(list, &got);
        CHECK_STR(buf_str(&got), cases[i].want);
        buf_free(&got);
        arena_free(&arena);
    }
}

TEST(a_url_comes_apart)
{
    struct arena arena = {0};
    struct buf why = {0};
    struct url u;

    CHECK(url_parse(BYTES("https://[::1]:2380"), &arena, &why, &u));
    CHECK_EQ(u.scheme, URL_HTTPS);
    CHECK_BYTES(u.host, BYTES("::1"));
    CHECK_BYTES(u.port, BYTES("2380"));
    CHECK_EQ(u.path.len, 0);

    CHECK(url_parse(BYTES("unix://dir:1/a%20b"), &arena, &why, &u));
    CHECK_EQ(u.scheme, URL_UNIX);
    CHECK_BYTES(u.host, BYTES("dir:1"));
    CHECK_EQ(u.port.len, 0);
    CHECK_BYTES(u.path, BYTES("/a b"));
    CHECK_EQ(why.len, 0);
    arena_free(&arena);
}

TEST(an_empty_list_has_no_urls)
{
    struct arena arena = {0};
    struct buf why = {0};
    struct url_list list;

    CHECK(!url_list_check((struct url_list){0}, &arena, &why, &list));

    CHECK_STR(buf_str(&why), "no valid URLs given");
    buf_free(&why);
    arena_free(&arena);
}

TEST(lists_sort_compare_and_lose_repeats)
{
    static const struct bytes texts[] = {BYTES("b"), BYTES("a"), BYTES("b"), BYTES("ab")};
    struct arena arena = {0};
    struct buf joined = {0};

    struct url_list sorted = url_list_sorted((struct url_list){texts, 4}, &arena);
    struct url_list unique = url_list_unique(sorted, &arena);
    url_list_join(sorted, &joined);
    buf_append_byte(&joined, ' ');
    url_list_join(unique, &joined);

    CHECK_STR(buf_str(&joined), "a,ab,b,b a,ab,b");
    CHECK(url_list_has(unique, BYTES("ab")));
    CHECK(!url_list_has(unique, BYTES("c")));
    CHECK(url_list_equal(sorted, sorted));
    CHECK(!url_list_equal(sorted, unique));
    buf_free(&joined);
    arena_free(&arena);
}
