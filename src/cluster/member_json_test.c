#include "cluster/member_json.h"

#include "harness/test.h"

struct reading {
    struct bytes json;
    const char *want; /* as written again, " promote" behind it; NULL: refused */
};

/* What Go 1.26 makes of the same bytes, but for the lines at the end. */
static const struct reading readings[] = {
    {BYTES("{\"id\":18446744073709551615,\"peerURLs\":[\"a\"]}"),
     "{\"id\":18446744073709551615,\"peerURLs\":[\"a\"]}"},
    {BYTES("{\"id\":9223372036854775808,\"peerURLs\":[]}"),
     "{\"id\":9223372036854775808,\"peerURLs\":[]}"},
    {BYTES("{\"id\":18446744073709551616}"), NULL},
    {BYTES("{\"id\":99999999999999999999999999}"), NULL},
    {BYTES("{\"id\":-1}"), NULL},
    {BYTES("{\"id\":-0}"), NULL},
    {BYTES("{\"id\":1.0}"), NULL},
    {BYTES("{\"id\":1e3}"), NULL},
    {BYTES("{\"id\":\"1\"}"), NULL},
    {BYTES("{\"id\":[1]}"), NULL},
    {BYTES("{\"id\":00}"), NULL},
    {BYTES("{\"id\":01}"), NULL},
    {BYTES("{\"id\":null}"), "{\"id\":0,\"peerURLs\":null}"},
    {BYTES("{}"), "{\"id\":0,\"peerURLs\":null}"},
    {BYTES("{\"ID\":7,\"PEERurls\":[\"x\",\"y\"],\"ISLEARNER\":true,\"NAME\":\"n\","
           "\"clienturls\":[\"c\"],\"ispromote\":true}"),
     "{\"id\":7,\"peerURLs\":[\"x\",\"y\"],\"isLearner\":true,\"name\":\"n\","
     "\"clientURLs\":[\"c\"]} promote"},
    {BYTES("{\"id\":1,\"id\":2}"), "{\"id\":2,\"peerURLs\":null}"},
    {BYTES("{\"id\":1,\"peerURLs\":[\"a\"],\"peerURLs\":null}"), "{\"id\":1,\"peerURLs\":null}"},
    {BYTES("{\"id\":1,\"peerURLs\":[null,\"a\"]}"), "{\"id\":1,\"peerURLs\":[\"\",\"a\"]}"},
    {BYTES("{\"id\":1,\"peerURLs\":[1]}"), NULL},
    {BYTES("{\"id\":1,\"peerURLs\":\"a\"}"), NULL},
    {BYTES("{\"id\":1,\"peerURLs\":{}}"), NULL},
    {BYTES("{\"id\":1,\"isLearner\":1}"), NULL},
    {BYTES("{\"id\":1,\"isLearner\":null}"), "{\"id\":1,\"peerURLs\":null}"},
    {BYTES("{\"id\":1,\"isPromote\":\"true\"}"), NULL},
    {BYTES("{\"id\":1,\"name\":5}"), NULL},
    {BYTES("{\"id\":1,\"clientURLs\":[]}"), "{\"id\":1,\"peerURLs\":null}"},
    {BYTES("{\"id\":1,\"x\":{\"y\":[1,{\"z\":null}]}}"), "{\"id\":1,\"peerURLs\":null}"},
    {BYTES("{\"id\":1,\"x\":-5.5e-3}"), "{\"id\":1,\"peerURLs\":null}"},
    {BYTES("{\"id\":1} \n"), "{\"id\":1,\"peerURLs\":null}"},
    {BYTES(" {\"id\" : 1 }"), "{\"id\":1,\"peerURLs\":null}"},
    {BYTES("{\"id\":1}x"), NULL},
    {BYTES("{\"id\":1}{}"), NULL},
    {BYTES("{\"id\":1,}"), NULL},
    {BYTES("{'id':1}"), NULL},
    {BYTES("/* */{\"id\":1}"), NULL},
    {BYTES("{\"id\":1,\"x\":NaN}"), NULL},
    {BYTES("{\"id\":1,\"x\":Infinity}"), NULL},
    {BYTES("\xef\xbb\xbf{}"), NULL},
    {BYTES(""), NULL},
    {BYTES("[]"), NULL},
    {BYTES("5"), NULL},
    {BYTES("\"id\""), NULL},
    {BYTES("{"), NULL},
    {BYTES("{\"id\":1,\"name\":\"a"), NULL},
    {BYTES("{\"id\":1,\"name\":\"a\\"), NULL},
    {BYTES("{\"id\":1}\0"), NULL},
    {BYTES("{\"id\":1,\0\"name\":\"a\"}"), NULL},
    {BYTES("{\"id\":1,\"name\":\"a\x01\"}"), NULL},
    {BYTES("{\"id\":1,\"name\":\"\\u0000<\\u00e9\\ud83d\\ude00\"}"),
     "{\"id\":1,\"peerURLs\":null,\"name\":\"\\u0000\\u003c\xc3\xa9\xf0\x9f\x98\x80\"}"},
    {BYTES("{\"id\":1,\"name\":\"\\ud800\"}"),
     "{\"id\":1,\"peerURLs\":null,\"name\":\"\xef\xbf\xbd\"}"},
    {BYTES("{\"id\":1,\"na\\u006de\":\"n\"}"), "{\"id\":1,\"peerURLs\":null,\"name\":\"n\"}"},

    {BYTES("null"), NULL}, /* to Go a member of id 0, to nobody a member */
    {BYTES("{\"id\":1,\"name\":\"\xff\"}"), NULL},
    {BYTES("{\"id\":1,\"name\":\"\xe0\x80\xa8\"}"), NULL}, /* overlong; the library lets it pass */
    {BYTES("{\"id\\u0000\":1}"), NULL},
    {BYTES("{\"x\":18446744073709551616}"), NULL},
    {BYTES("{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"), NULL},
};

static void describe(const struct reading *r, struct buf *out)
{
    struct arena arena = {0};
    struct member_change change;

    if (member_json_read(r->json, &arena, &change) == ERR_OK) {
        member_json_write(&change.member, out);
        buf_append_str(out, change.is_promote ? " promote" : "");
    } else
        buf_append_str(out, "refused");
    arena_free(&arena);
}

TEST(members_are_read_as_go_reads_them)
{
    for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
        struct buf got = {0};
        describe(&readings[i], &got);
        const char *want = readings[i].want ? readings[i].want : "refused";
        if (strcmp(buf_str(&got), want) != 0)
            test_fail(__FILE__, __LINE__, "%.*s: %s, not %s", (int)readings[i].json.len,
                      (const char *)readings[i].json.at, buf_str(&got), want);
        buf_free(&got);
    }
}

/* Lines out of the store and the log of etcd 3.7.1. */
TEST(members_are_written_as_etcd_writes_them)
{
    static const struct bytes urls[] = {BYTES("http://127.0.0.1:2380")};
    static const struct bytes clients[] = {BYTES("http://127.0.0.1:2379")};
    struct pb_member m = {.id = 10501334649042878790u, .peer_urls = {urls, 1}};
    struct buf out = {0};

    member_json_write(&m, &out);
    CHECK_STR(buf_str(&out), "{\"id\":10501334649042878790,"
                             "\"peerURLs\":[\"http://127.0.0.1:2380\"]}");

    buf_clear(&out);
    m = (struct pb_member){.id = 10501334649042878790u,
                           .peer_urls = {urls, 1},
                           .is_learner = true,
                           .name = BYTES("m1"),
                           .client_urls = {clients, 1}};
    member_json_write(&m, &out);
    CHECK_STR(buf_str(&out), "{\"id\":10501334649042878790,"
                             "\"peerURLs\":[\"http://127.0.0.1:2380\"],\"isLearner\":true,"
                             "\"name\":\"m1\",\"clientURLs\":[\"http://127.0.0.1:2379\"]}");

    buf_clear(&out);
    member_json_write_promotion(UINT64_MAX, &out);
    CHECK_STR(buf_str(&out), "{\"id\":18446744073709551615,\"peerURLs\":null,\"isPromote\":true}");
    buf_free(&out);
}

TEST(a_list_of_members_comes_back)
{
    static const struct bytes urls[] = {BYTES("http://10.0.0.1:2380"),
                                        BYTES("http://10.0.0.2:2380")};
    struct pb_member two[] = {{.id = 1, .peer_urls = {urls, 2}, .name = BYTES("a")},
                              {.id = UINT64_MAX, .peer_urls = {urls, 1}, .is_learner = true}};
    const struct pb_member *got;
    struct arena arena = {0};
    struct buf first = {0}, second = {0};
    size_t count;

    member_json_write_list(two, 2, &first);
    CHECK_EQ(member_json_read_list(buf_bytes(&first), &arena, &got, &count), ERR_OK);
    CHECK_EQ(count, 2);
    member_json_write_list(got, count, &second);

    CHECK_BYTES(buf_bytes(&second), buf_bytes(&first));
    CHECK_EQ(member_json_read_list(BYTES("[]"), &arena, &got, &count), ERR_OK);
    CHECK_EQ(count, 0);
    CHECK_EQ(member_json_read_list(BYTES("[null]"), &arena, &got, &count), ERR_MALFORMED);
    CHECK_EQ(member_json_read_list(BYTES("{}"), &arena, &got, &count), ERR_MALFORMED);

    buf_clear(&first);
    buf_append_byte(&first, '[');
    for (int i = 0; i <= RAFT_MEMBERS_MAX; i++)
        buf_append_str(&first, i == 0 ? "{}" : ",{}");
    buf_append_byte(&first, ']');
    CHECK_EQ(member_json_read_list(buf_bytes(&first), &arena, &got, &count), ERR_TOO_LARGE);
    buf_free(&first);
    buf_free(&second);
    arena_free(&arena);
}

TEST(a_downgrade_comes_back)
{
    struct buf out = {0};
    struct arena arena = {0};
    struct bytes target;
    bool enabled;

    downgrade_json_write(true, BYTES("3.6.0"), &out);
    CHECK_STR(buf_str(&out), "{\"target-version\":\"3.6.0\",\"enabled\":true}");
    CHECK_EQ(downgrade_json_read(buf_bytes(&out), &arena, &enabled, &target), ERR_OK);
    CHECK(enabled);
    CHECK_BYTES(target, BYTES("3.6.0"));

    buf_clear(&out);
    downgrade_json_write(false, (struct bytes){0}, &out);
    CHECK_STR(buf_str(&out), "{\"target-version\":\"\",\"enabled\":false}");
    CHECK_EQ(downgrade_json_read(buf_bytes(&out), &arena, &enabled, &target), ERR_OK);
    CHECK(!enabled);
    CHECK_EQ(target.len, 0);

    CHECK_EQ(downgrade_json_read(BYTES("{\"enabled\":1}"), &arena, &enabled, &target),
             ERR_MALFORMED);
    CHECK_EQ(downgrade_json_read(BYTES("{\"target-version\":3}"), &arena, &enabled, &target),
             ERR_MALFORMED);
    buf_free(&out);
    arena_free(&arena);
}

static void check_conf_state(struct bytes json, const char *want)
{
    struct raft_conf_state state;
    struct buf out = {0};

    CHECK_EQ(cluster_conf_state_read(json, &state), ERR_OK);
    cluster_conf_state_json(&state, &out);
    CHECK_STR(buf_str(&out), want);
    buf_free(&out);
}

TEST(a_conf_state_comes_back)
{
    check_conf_state(BYTES("{\"voters\":[10501334649042878790],\"auto_leave\":false}"),
                     "{\"voters\":[10501334649042878790],\"auto_leave\":false}");
    check_conf_state(BYTES("{\"voters\":[1,18446744073709551615],\"learners\":[3],"
                           "\"voters_outgoing\":[4],\"learners_next\":[5],\"auto_leave\":true}"),
                     "{\"voters\":[1,18446744073709551615],\"learners\":[3],"
                     "\"voters_outgoing\":[4],\"learners_next\":[5],\"auto_leave\":true}");
    check_conf_state(BYTES("{\"voters\":null,\"learners\":[]}"), "{\"auto_leave\":false}");
    check_conf_state(BYTES("{}"), "{\"auto_leave\":false}");
}

TEST(a_bad_conf_state_is_refused)
{
    static const struct bytes bad[] = {
        BYTES(""),
        BYTES("[]"),
        BYTES("null"),
        BYTES("{\"voters\":1}"),
        BYTES("{\"voters\":[\"1\"]}"),
        BYTES("{\"voters\":[-1]}"),
        BYTES("{\"voters\":[18446744073709551616]}"),
        BYTES("{\"auto_leave\":0}"),
    };
    struct raft_conf_state state;
    struct buf many = {0};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ(cluster_conf_state_read(bad[i], &state), ERR_MALFORMED);

    buf_append_str(&many, "{\"learners\":[0");
    for (int i = 0; i < RAFT_MEMBERS_MAX; i++)
        buf_append_str(&many, ",1");
    buf_append_str(&many, "]}");
    CHECK_EQ(cluster_conf_state_read(buf_bytes(&many), &state), ERR_TOO_LARGE);
    buf_free(&many);
}

TEST(json_of_absurd_length_is_refused)
{
    struct buf json = {0};
    struct arena arena = {0};
    struct member_change change;

    memset(buf_extend(&json, MEMBER_JSON_BYTES_MAX + 1), ' ', MEMBER_JSON_BYTES_MAX + 1);

    CHECK_EQ(member_json_read(buf_bytes(&json), &arena, &change), ERR_TOO_LARGE);
    buf_free(&json);
    arena_free(&arena);
}

TEST(versions_are_told_as_etcd_tells_them)
{
    struct member_versions v = {.server = BYTES("3.7.1")}, got;
    struct arena arena = {0};
    struct buf out = {0};

    versions_json_write(&v, &out);
    CHECK_STR(buf_str(&out),
              "{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"not_decided\",\"storage\":\"unknown\"}");
    CHECK_EQ(versions_json_read(BYTES("{\"etcdserver\":\"3.5.0\",\"EtcdCluster\":\"3.4.0\"}"),
                                &arena, &got),
             ERR_OK);
    CHECK_BYTES(got.server, BYTES("3.5.0"));
    CHECK_BYTES(got.cluster, BYTES("3.4.0"));
    CHECK_EQ(got.storage.len, 0);
    CHECK_EQ(versions_json_read(BYTES("{\"etcdserver\":3}"), &arena, &got), ERR_MALFORMED);
    CHECK_EQ(versions_json_read(BYTES("404 page not found\n"), &arena, &got), ERR_MALFORMED);
    arena_free(&arena);
    buf_free(&out);
}

TEST(a_hash_is_asked_for_by_its_revision)
{
    int64_t revision;

    CHECK_EQ(hash_json_read(BYTES("{\"revision\":12}"), &revision), ERR_OK);
    CHECK_EQ(revision, 12);
    CHECK_EQ(hash_json_read(BYTES("{}"), &revision), ERR_OK);
    CHECK_EQ(revision, 0);
    CHECK_EQ(hash_json_read(BYTES("{\"revision\":-1}"), &revision), ERR_OK);
    CHECK_EQ(revision, -1);
    CHECK_EQ(hash_json_read(BYTES("{\"revision\":\"1\"}"), &revision), ERR_MALFORMED);
    CHECK_EQ(hash_json_read(BYTES(""), &revision), ERR_MALFORMED);
}

TEST(a_hash_is_told_with_its_compact_revision)
{
    struct member_hash told = {
        .newest = 9, .revision = 7, .compact_revision = -1, .hash = 4082599214};
    struct member_hash got;
    struct buf out = {0};

    hash_json_write(7, &out);
    hash_json_write(0, &out);
    CHECK_STR(buf_str(&out), "{\"revision\":7}{}");
    buf_clear(&out);
    member_hash_json_write(&told, &out);
    CHECK_STR(buf_str(&out), "{\"header\":{\"revision\":9},\"hash\":4082599214,"
                             "\"compact_revision\":-1,\"hash_revision\":7}");
    CHECK_EQ(member_hash_json_read(buf_bytes(&out), &got), ERR_OK);
    CHECK_EQ(got.newest, 9);
    CHECK_EQ(got.revision, 7);
    CHECK_EQ(got.compact_revision, -1);
    CHECK_EQ(got.hash, 4082599214);

    CHECK_EQ(member_hash_json_read(BYTES("{\"header\":null}"), &got), ERR_OK);
    CHECK_EQ(got.hash, 0);
    CHECK_EQ(member_hash_json_read(BYTES("{\"hash\":4294967296}"), &got), ERR_MALFORMED);
    CHECK_EQ(member_hash_json_read(BYTES("{\"hash\":-1}"), &got), ERR_MALFORMED);
    CHECK_EQ(member_hash_json_read(BYTES("{\"header\":7}"), &got), ERR_MALFORMED);
    CHECK_EQ(member_hash_json_read(BYTES("{\"hash_revision\":{}}"), &got), ERR_MALFORMED);
    CHECK_EQ(member_hash_json_read(BYTES("not started yet"), &got), ERR_MALFORMED);
    buf_free(&out);
}
