#include "api/api_rig_test.h"
#include "cluster/cluster.h"

#include <stdio.h>

static void set_version(struct api_rig *k, const char *version)
{
    struct pb_cluster_version_set_request set = {.ver = bytes_of_str(version)};

    api_rig_apply(k, &(struct pb_internal_raft_request){.cluster_version_set = &set});
}

/* What comes of it: the version of the response, or the error and its code. Good until the next. */
static const char *downgrade(struct api_rig *k, int32_t action, const char *version)
{
    static char text[160];
    struct visit v;
    struct arena arena = {0};
    struct pb_downgrade_response response;

    api_rig_ask(k, &v, "/etcdserverpb.Maintenance/Downgrade", &pb_downgrade_request_schema,
                &(struct pb_downgrade_request){.action = action, .version = bytes_of_str(version)});
    api_rig_until_over(k, &v);
    if (v.message_count == 1) {
        visit_decode(&v, 0, &pb_downgrade_response_schema, &arena, &response);
        CHECK_EQ(response.header->revision, mvcc_revision(k->apply_rig.mvcc));
        snprintf(text, sizeof(text), "%.*s", (int)response.version.len, response.version.at);
    } else {
        snprintf(text, sizeof(text), "%u %s", (unsigned)v.code, buf_str(&v.text));
    }
    visit_free(&v);
    arena_free(&arena);
    return text;
}

static bool is_enabled(const struct api_rig *k)
{
    return cluster_downgrade(k->apply_rig.cluster).enabled;
}

#define WRONG_FORMAT "3 etcdserver: wrong downgrade target version format"
#define INVALID      "3 etcdserver: invalid downgrade target version"
#define UNAVAILABLE  "9 etcdserver: cluster version not found during downgrade"

TEST(a_downgrade_is_to_the_minor_version_below_and_nowhere_else)
{
    struct api_rig k;
    api_rig_open(&k);
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_VALIDATE, "3.6"), UNAVAILABLE);
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "3.6"), UNAVAILABLE);
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_CANCEL, ""), UNAVAILABLE);
    set_version(&k, "3.7.0");

    static const struct {
        const char *target, *result;
    } rows[] = {
        {"3.6", "3.7"},         {"3.6.0", "3.7"},
        {"3.6.12", "3.7"},      {"3.6.0-rc.1", "3.7"},
        {"3.7", INVALID},       {"3.5", INVALID},
        {"3.8", INVALID},       {"4.6", INVALID},
        {"2.6", INVALID},       {"", WRONG_FORMAT},
        {"3", WRONG_FORMAT},    {"3.6.", WRONG_FORMAT},
        {"v3.6", WRONG_FORMAT}, {"3.6.0.0", WRONG_FORMAT},
        {"3.x", WRONG_FORMAT},  {"99999999999999999999.1", WRONG_FORMAT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_STR(downgrade(&k, PB_DOWNGRADE_VALIDATE, rows[i].target), rows[i].result);
        CHECK(!is_enabled(&k));
    }
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "3.5"), INVALID);
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "x"), WRONG_FORMAT);
    CHECK_STR(downgrade(&k, 3, "3.6"), "2 etcdserver: unknown method");
    CHECK_EQ(k.proposed, 0);

    api_rig_close(&k);
}

TEST(a_downgrade_is_enabled_once_and_cancelled_at_any_time)
{
    struct api_rig k;
    api_rig_open(&k);
    set_version(&k, "3.7.0");

    CHECK_STR(downgrade(&k, PB_DOWNGRADE_CANCEL, ""), "3.7"); /* there is none: no matter */
    CHECK_EQ(k.proposed, 0);
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "3.6.4"), "3.7");
    CHECK(is_enabled(&k));
    CHECK_BYTES(cluster_downgrade(k.apply_rig.cluster).target_version, BYTES("3.6.0"));
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_VALIDATE, "3.6"),
              "9 etcdserver: cluster has a downgrade job in progress");
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "3.6"),
              "9 etcdserver: cluster has a downgrade job in progress");
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "3.5"), INVALID);
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_CANCEL, "nonsense"), "3.7"); /* which nobody reads */
    CHECK(!is_enabled(&k));
    CHECK_EQ(k.proposed, 2);

    api_rig_close(&k);
}

/* What a member knows may be old: without a leader it cannot say, but to cancel cannot fail. */
TEST(a_downgrade_is_judged_by_what_the_leader_has_committed)
{
    struct api_rig k;
    api_rig_open(&k);
    set_version(&k, "3.7.0");
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "3.6"), "3.7");
    unsigned confirmed = k.confirmed;

    CHECK_STR(downgrade(&k, PB_DOWNGRADE_VALIDATE, "x"), WRONG_FORMAT);
    CHECK_EQ(k.confirmed, confirmed);
    k.failure = RESULT_LEADER_CHANGED;
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_VALIDATE, "3.6"), "14 etcdserver: leader changed");
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_ENABLE, "3.6"), "14 etcdserver: leader changed");
    CHECK_STR(downgrade(&k, PB_DOWNGRADE_CANCEL, ""), "3.7");
    CHECK(is_enabled(&k));

    api_rig_close(&k);
}
