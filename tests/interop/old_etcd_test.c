/*
 * Directories of etcd 3.4 and 3.5, which we take over as those of 3.6 and 3.7.
 *
 *     testdata/etcd-<version>/stopped   its store has all that its log has: served
 *     testdata/etcd-<version>/killed    behind its store the log holds what these releases say of
 *                                       themselves by the v2 API, as etcd 3.7 no longer knows it:
 *                                       refused, and left byte for byte
 *
 * Those releases have made them (testdata/old-etcd.sh), so nothing has to be built.
 */
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/json_caller_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const char *const versions[] = {"3.4.23", "3.5.35"};

static void open_old(struct peer *p, const char *version, const char *kind)
{
    char dir[200];

    snprintf(dir, sizeof(dir), "%s/%s-%s", test_tmp_dir(), version, kind);
    peer_open_ours(p, dir);
    peer_run(&p->arena, "cp -r tests/interop/testdata/etcd-%s/%s %s && chmod -R go= %s", version,
             kind, dir, dir);
}

static const char *call(struct peer *p, const char *path, const struct pb_schema *schema,
                        const void *message)
{
    struct json_caller j;

    json_caller_open(&j, p);
    json_caller_start(&j, path, schema, message);
    json_caller_wait(&j);
    CHECK_EQ(j.status, 200);
    const char *body = json_plain(&p->arena, buf_bytes(&j.body));
    json_caller_close(&j);
    return body;
}

static const char *all_keys(struct peer *p, int64_t revision)
{
    return call(p, "/v3/kv/range", &pb_range_request_schema,
                &(struct pb_range_request){
                    .key = BYTES("\0"), .range_end = BYTES("\0"), .revision = revision});
}

#define HEADER                                                                                     \
    "{\"header\":{\"cluster_id\":\"\",\"member_id\":\"\",\"revision\":\"11\",\"raft_term\":\"\"},"

/* What old-etcd.sh has written: the keys at revision 7, the lease, the user and its role. */
static void check_content(struct peer *p)
{
    const char *now = all_keys(p, 0);

    CHECK_STR(all_keys(p, 7),
              HEADER "\"kvs\":[{\"key\":\"aw==\",\"create_revision\":\"3\",\"mod_revision\":\"7\","
                     "\"version\":\"5\",\"value\":\"djU=\"},{\"key\":\"c3RhcnRlZA==\","
                     "\"create_revision\":\"2\",\"mod_revision\":\"2\",\"version\":\"1\","
                     "\"value\":\"eWVz\"}],\"count\":\"2\"}");
    CHECK(strstr(now, "{\"key\":\"aw==\",\"create_revision\":\"3\",\"mod_revision\":\"8\","
                      "\"version\":\"6\",\"value\":\"djY=\"},{\"key\":\"bGFzdA==\""));
    CHECK(strstr(now, "\"count\":\"3\"}"));
    const char *lease = strstr(now, "\"lease\":\"");
    CHECK(lease);
    const char *leases =
        call(p, "/v3/lease/leases", &pb_lease_leases_request_schema, &(struct pb_empty){0});
    CHECK(strstr(leases, arena_printf(&p->arena, "\"ID\":%.21s", lease + strlen("\"lease\":"))));
    CHECK_STR(call(p, "/v3/auth/user/get", &pb_auth_user_get_request_schema,
                   &(struct pb_auth_name){.name = BYTES("u")}),
              HEADER "\"roles\":[\"r\"]}");
}

TEST(a_directory_of_an_old_etcd_that_was_stopped_is_served)
{
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        struct peer p;
        open_old(&p, versions[i], "stopped");

        for (int starts = 0; starts < 2; starts++) {
            peer_start(&p, "");
            check_content(&p);
            peer_stop(&p);
        }
        CHECK_EQ(peer_said(&p, "imported etcd's store"), 1);
        peer_close(&p);
    }
}

static const char *fingerprint(struct peer *p)
{
    return peer_run(&p->arena,
                    "cd %s && find . | sort && find . -type f -exec sha256sum {} + | sort", p->dir);
}

TEST(a_directory_of_an_old_etcd_that_was_killed_may_be_refused_and_is_left_alone)
{
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        struct peer p;
        int status;
        open_old(&p, versions[i], "killed");
        const char *before = fingerprint(&p);

        peer_launch(&p, "");
        CHECK_EQ(waitpid(p.pid, &status, 0), p.pid);
        p.pid = 0;
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 1);
        CHECK_EQ(peer_said(&p, "it is a request of the v2 API"), 1);
        CHECK_EQ(peer_said(&p, "etcd's data directory was left as it is"), 1);
        CHECK_STR(fingerprint(&p), before);
        peer_close(&p);
    }
}
