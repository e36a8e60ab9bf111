#include "cluster/cluster.h"

#include "harness/test.h"

/* The ids that etcd's own end-to-end test insists on. */
TEST(ids_are_those_that_etcd_computes)
{
    static const struct bytes url[] = {BYTES("https://localhost:20001")};
    uint64_t id = cluster_member_id((struct url_list){url, 1}, BYTES("new"));

    CHECK(id == 0x00a8f3458387986d);
    CHECK(cluster_id_of(&id, 1) == 0x34c21a2d427db393);
}

TEST(ids_do_not_depend_on_order)
{
    static const struct bytes there[] = {BYTES("http://a:1"), BYTES("http://b:1")};
    static const struct bytes back[] = {BYTES("http://b:1"), BYTES("http://a:1")};
    uint64_t up[] = {1, 2, UINT64_MAX}, down[] = {UINT64_MAX, 2, 1};

    CHECK(cluster_member_id((struct url_list){there, 2}, BYTES("t")) ==
          cluster_member_id((struct url_list){back, 2}, BYTES("t")));
    CHECK(cluster_id_of(up, 3) == cluster_id_of(down, 3));
    CHECK(cluster_id_of(up, 3) != cluster_id_of(up, 2));
}

/* A member that is added has the time where a first one has the token. */
TEST(an_added_member_has_an_id_of_its_time)
{
    static const struct bytes url[] = {BYTES("http://127.0.0.1:2380")};
    struct url_list urls = {url, 1};

    CHECK(cluster_new_member_id(urls, 1700000000) == cluster_member_id(urls, BYTES("1700000000")));
    CHECK(cluster_new_member_id(urls, 1700000000) != cluster_new_member_id(urls, 1700000001));
}

static void describe(const struct cluster_initial *initial, struct buf *out)
{
    for (size_t i = 0; i < initial->count; i++) {
        const struct pb_member *m = &initial->members[i];
        CHECK(i == 0 || m[-1].id <= m->id);
        CHECK(m->id == cluster_member_id((struct url_list){m->peer_urls.at, m->peer_urls.count},
                                         BYTES("etcd-cluster")));
    }
    for (const char *name = "abc"; *name; name++) {
        const struct pb_member *m = cluster_initial_find(initial, bytes_of(name, 1));
        if (!m)
            continue;
        buf_printf(out, "%c ", *name);
        url_list_join((struct url_list){m->peer_urls.at, m->peer_urls.count}, out);
        buf_append_byte(out, ';');
    }
}

TEST(an_initial_cluster_is_read)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a=http://h:1", "a http://h:1;"},
        {"b=http://h:2,a=http://h:9,a=http://h:1", "a http://h:1,http://h:9;b http://h:2;"},
        {",a=http://h:1,,", "a http://h:1;"},
        {"", ""},
        {"a", "error setting up initial cluster: "
              "URL scheme must be http, https, unix, or unixs: "},
        {"a=http://h:1,b=", "error setting up initial cluster: "
                            "URL scheme must be http, https, unix, or unixs: "},
        {"a=http://h", "error setting up initial cluster: "
                       "URL address does not have the form \"host:port\": http://h"},
        {"a=http://h=b:1", "a http://h=b:1;"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cluster_initial initial;
        struct buf got = {0};
        if (cluster_initial_parse(bytes_of_str(cases[i].text), BYTES("etcd-cluster"), &got,
                                  &initial))
            describe(&initial, &got);
        CHECK_STR(buf_str(&got), cases[i].want);
        cluster_initial_free(&initial);
        buf_free(&got);
    }
}

/* A bound of ours, said where the operator can still do something about it. */
TEST(an_initial_cluster_has_at_most_so_many_members)
{
    struct cluster_initial initial;
    struct buf text = {0}, why = {0};

    for (int i = 0; i < CLUSTER_MEMBERS_MAX; i++)
        buf_printf(&text, "m%d=http://h:%d,", i, i + 1);
    CHECK(cluster_initial_parse(buf_bytes(&text), BYTES("t"), &why, &initial));
    CHECK_EQ(initial.count, CLUSTER_MEMBERS_MAX);
    cluster_initial_free(&initial);

    buf_append_str(&text, "more=http://h:100,others=http://h:101");
    CHECK(!cluster_initial_parse(buf_bytes(&text), BYTES("t"), &why, &initial));
    CHECK_STR(buf_str(&why), "error setting up initial cluster: more than 64 members");
    cluster_initial_free(&initial);
    buf_free(&text);
    buf_free(&why);
}

/* The words are those of etcd 3.7.1, given the same flags. */
static const struct {
    const char *initial, *name, *advertised;
    bool joins;
    const char *want;
} results[] = {
    {"m1=http://127.0.0.1:2380", "m1", "http://127.0.0.1:2380", false, "ok"},
    {"m1=http://h:1,m1=http://h:2,m2=http://h:3", "m1", "http://h:2,http://h:1", false, "ok"},
    {"m1=http://127.0.0.1:2380", "m1", "http://localhost:2380", false,
     "--initial-cluster has m1=http://127.0.0.1:2380 but missing from "
     "--initial-advertise-peer-urls=http://localhost:2380 "
     "(resolved urls: \"http://localhost:2380\" != \"http://127.0.0.1:2380\")"},
    {"m1=http://127.0.0.1:2380,m1=http://127.0.0.1:2381", "m1", "http://127.0.0.1:2380", false,
     "--initial-cluster has m1=http://127.0.0.1:2381 but missing from "
     "--initial-advertise-peer-urls=http://127.0.0.1:2380 "
     "(len([\"http://127.0.0.1:2380\"]) != "
     "len([\"http://127.0.0.1:2380\" \"http://127.0.0.1:2381\"]))"},
    {"m1=http://127.0.0.1:2380", "m1", "http://127.0.0.1:2380,http://127.0.0.1:2381", false,
     "--initial-advertise-peer-urls has http://127.0.0.1:2381 but missing from "
     "--initial-cluster=m1=http://127.0.0.1:2380,m1=http://127.0.0.1:2381"},
    {"m2=http://127.0.0.1:2380", "m1", "http://localhost:2380", false,
     "couldn't find local name \"m1\" in the initial cluster configuration"},
    {"", "", "http://localhost:2380", false,
     "couldn't find local name \"\" in the initial cluster configuration"},
    {"m2=http://127.0.0.1:2380,m1=http://127.0.0.1:2380", "m1", "http://127.0.0.1:2380", false,
     "initial cluster m1=http://127.0.0.1:2380,m2=http://127.0.0.1:2380 has duplicate url"},
    {"m1=http://127.0.0.1:2380,m1=http://127.0.0.1:2380", "m1", "http://127.0.0.1:2380", false,
     "initial cluster m1=http://127.0.0.1:2380,m1=http://127.0.0.1:2380 has duplicate url"},
    {"m1=http://127.0.0.1:2380", "m1", "http://localhost:2380", true, "ok"},
    {"m1=http://h:1,m2=http://h:1", "m1", "http://h:1", true,
     "initial cluster m1=http://h:1,m2=http://h:1 has duplicate url"},
    {"m1=http://h:1", "m2", "http://h:1", true,
     "couldn't find local name \"m2\" in the initial cluster configuration"},
};

TEST(an_initial_cluster_must_fit_the_member)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        struct cluster_initial initial;
        struct arena arena = {0};
        struct url_list advertised;
        struct buf why = {0};

        CHECK(url_list_parse(bytes_of_str(results[i].advertised), &arena, &why, &advertised));
        CHECK(cluster_initial_parse(bytes_of_str(results[i].initial), BYTES("t"), &why, &initial));
        if (cluster_initial_verify(&initial, bytes_of_str(results[i].name), advertised, NULL,
                                   results[i].joins, &why))
            buf_append_str(&why, "ok");
        CHECK_STR(buf_str(&why), results[i].want);
        cluster_initial_free(&initial);
        arena_free(&arena);
        buf_free(&why);
    }
}

/* What `told` and `configured` came to after resolving; or the failure. */
static void check_resolved(const char *told, const char *configured, const char *failure,
                           const char *want)
{
    struct cluster_initial initial;
    struct arena arena = {0};
    struct url_list advertised;
    struct cluster_resolved resolved = {.failure = bytes_of_str(failure)};
    struct buf why = {0};

    CHECK(url_list_parse(BYTES("http://10.0.0.1:2380"), &arena, &why, &advertised));
    CHECK(cluster_initial_parse(BYTES("m1=http://one:2380,m2=http://two:2380"), BYTES("t"), &why,
                                &initial));
    CHECK(cluster_initial_needs_names(&initial, BYTES("m1"), advertised));
    CHECK(url_list_parse(bytes_of_str(told), &arena, &why, &resolved.advertised));
    CHECK(url_list_parse(bytes_of_str(configured), &arena, &why, &resolved.configured));
    if (cluster_initial_verify(&initial, BYTES("m1"), advertised, &resolved, false, &why))
        buf_append_str(&why, "ok");
    CHECK_STR(buf_str(&why), want);
    cluster_initial_free(&initial);
    arena_free(&arena);
    buf_free(&why);
}

TEST(a_name_and_a_number_may_be_the_same_place)
{
    static const char *const number = "http://10.0.0.1:2380";

    check_resolved(number, number, "", "ok");
    check_resolved(number, "http://10.0.0.9:2380", "",
                   "--initial-cluster has m1=http://one:2380 but missing from "
                   "--initial-advertise-peer-urls=http://10.0.0.1:2380 "
                   "(resolved urls: \"http://10.0.0.1:2380\" != \"http://10.0.0.9:2380\")");
    check_resolved(number, number, "failed to resolve \"http://one:2380\" (no such host)",
                   "--initial-cluster has m1=http://one:2380 but missing from "
                   "--initial-advertise-peer-urls=http://10.0.0.1:2380 "
                   "(failed to resolve \"http://one:2380\" (no such host))");
}

TEST(names_are_needed_only_where_texts_differ)
{
    struct cluster_initial initial;
    struct arena arena = {0};
    struct url_list same, more;
    struct buf why = {0};

    CHECK(cluster_initial_parse(BYTES("m1=http://h:1"), BYTES("t"), &why, &initial));
    CHECK(url_list_parse(BYTES("http://h:1"), &arena, &why, &same));
    CHECK(url_list_parse(BYTES("http://h:1,http://h:2"), &arena, &why, &more));

    CHECK(!cluster_initial_needs_names(&initial, BYTES("m1"), same));
    CHECK(!cluster_initial_needs_names(&initial, BYTES("m1"), more)); /* no name changes that */
    CHECK(!cluster_initial_needs_names(&initial, BYTES("another"), same));
    cluster_initial_free(&initial);
    arena_free(&arena);
}

/* The first entry of a log that etcd 3.7.1 has written, from the same flags. */
TEST(the_first_entries_are_those_that_etcd_writes)
{
    static const char want[] =
        "\x10\x00\x18\xe7\x9d\xaf\xbc\xae\xa1\xaa\xbb\x5c\x22\x58"
        "{\"id\":6662698563040693991,\"peerURLs\":[\"http://127.0.0.1:33380\"],"
        "\"name\":\"m\\u003c1\\u003e\"}";
    struct cluster_initial initial;
    struct buf why = {0}, entry = {0};

    CHECK(cluster_initial_parse(BYTES("m<1>=http://127.0.0.1:33380"), BYTES(CLUSTER_TOKEN_DEFAULT),
                                &why, &initial));
    cluster_initial_entry(&initial, 0, &entry);

    CHECK(initial.cluster_id == 0x536f0188ef2075ac);
    CHECK(initial.members[0].id == 0x5c76a90ae78bcee7);
    CHECK_BYTES(buf_bytes(&entry), bytes_of(want, sizeof(want) - 1));
    cluster_initial_free(&initial);
    buf_free(&entry);
}
