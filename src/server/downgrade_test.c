/*
 * A cluster is about to be downgraded, or is not after all: what its members do about it, whole.
 */
#include "server/membership_rig_test.h"

#include <stdio.h>

/* The cluster's version as the response has it, or the error. Good until the next. */
static const char *downgrade(struct cluster_rig *r, unsigned n, int32_t action, const char *target)
{
    static char text[160];
    struct visit v;
    struct arena arena = {0};
    struct pb_downgrade_response response;

    cluster_rig_ask(
        r, n, &v, "/etcdserverpb.Maintenance/Downgrade", &pb_downgrade_request_schema,
        &(struct pb_downgrade_request){.action = action, .version = bytes_of_str(target)});
    cluster_rig_until_over(r, &v);
    if (v.message_count == 1) {
        visit_decode(&v, 0, &pb_downgrade_response_schema, &arena, &response);
        snprintf(text, sizeof(text), "%.*s", (int)response.version.len, response.version.at);
    } else {
        snprintf(text, sizeof(text), "%s", buf_str(&v.text));
    }
    visit_free(&v);
    arena_free(&arena);
    return text;
}

/* The store's version, and the downgrade's target: "3.6.0 to 3.6.0", "3.7.0". */
static const char *status(struct cluster_rig *r, unsigned n)
{
    static char text[160];
    struct visit v;
    struct arena arena = {0};
    struct pb_status_response s;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
                    &(struct pb_empty){0});
    cluster_rig_until_over(r, &v);
    CHECK_EQ(v.message_count, 1);
    visit_decode(&v, 0, &pb_status_response_schema, &arena, &s);
    snprintf(text, sizeof(text), "%.*s%s%.*s", (int)s.storage_version.len, s.storage_version.at,
             s.downgrade_info->enabled ? " to " : "", (int)s.downgrade_info->target_version.len,
             s.downgrade_info->target_version.at);
    visit_free(&v);
    arena_free(&arena);
    return text;
}

static void until_status(struct cluster_rig *r, unsigned n, const char *want)
{
    uint64_t until_ms = cluster_rig_now_ms(r) + 10000;

    while (strcmp(status(r, n), want) != 0) {
        if (cluster_rig_now_ms(r) > until_ms)
            CHECK_STR(status(r, n), want);
        cluster_rig_for_ms(r, 50);
    }
}

static void until_all(struct cluster_rig *r, const char *want)
{
    for (unsigned n = 1; n <= r->count; n++)
        until_status(r, n, want);
}

TEST(a_downgrade_lowers_the_versions_of_all_and_is_cancelled)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    until_all(&r, "3.7.0");
    unsigned follower = cluster_rig_follower(&r);

    unsigned other = 6 - follower - cluster_rig_leader(&r);

    CHECK_STR(downgrade(&r, follower, PB_DOWNGRADE_VALIDATE, "3.6"), "3.7");
    cluster_rig_stop(&r, other); /* without it, nobody's version is lowered */
    CHECK_STR(downgrade(&r, follower, PB_DOWNGRADE_ENABLE, "3.6"), "3.7");
    CHECK_STR(downgrade(&r, cluster_rig_leader(&r), PB_DOWNGRADE_ENABLE, "3.6"),
              "etcdserver: cluster has a downgrade job in progress");
    cluster_rig_start(&r, other);
    until_all(&r, "3.6.0 to 3.6.0");
    for (unsigned n = 1; n <= 3; n++) {
        CHECK(cluster_rig_logged(&r, n, "\"snapshot-forced\":true"));
        CHECK(cluster_rig_logged(&r, n, "The server is ready to downgrade"));
    }
    cluster_rig_for_ms(&r, 12000); /* nobody runs it yet: it is not over */
    until_all(&r, "3.6.0 to 3.6.0");
    CHECK_STR(downgrade(&r, follower, PB_DOWNGRADE_VALIDATE, "3.6"),
              "etcdserver: invalid downgrade target version");
    CHECK_STR(downgrade(&r, follower, PB_DOWNGRADE_CANCEL, ""), "3.6");
    until_all(&r, "3.7.0");
    CHECK_STR(downgrade(&r, follower, PB_DOWNGRADE_CANCEL, ""), "3.7");

    cluster_rig_close(&r);
}

TEST(a_downgrade_outlives_those_who_have_heard_of_it)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    until_all(&r, "3.7.0");
    CHECK_STR(downgrade(&r, cluster_rig_leader(&r), PB_DOWNGRADE_ENABLE, "3.6"), "3.7");

    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_crash(&r, n);
    cluster_rig_start_all(&r);
    until_all(&r, "3.6.0 to 3.6.0");
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_crash(&r, n);
    cluster_rig_start_all(&r);
    for (unsigned n = 1; n <= 3; n++)
        CHECK(cluster_rig_logged(&r, n, "cluster is downgrading to target version"));
    until_all(&r, "3.6.0 to 3.6.0");

    cluster_rig_close(&r);
}

/* It was away all the while, and gets the rest from the log: an old version, then a lower one. */
TEST(a_member_that_was_away_follows_a_downgrade)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    until_all(&r, "3.7.0");
    unsigned leader = cluster_rig_leader(&r), away = cluster_rig_follower(&r);

    CHECK_STR(downgrade(&r, leader, PB_DOWNGRADE_ENABLE, "3.6"), "3.7");
    until_status(&r, leader, "3.6.0 to 3.6.0");
    cluster_rig_crash(&r, away);
    CHECK_STR(downgrade(&r, leader, PB_DOWNGRADE_CANCEL, ""), "3.6");
    cluster_rig_for_ms(&r, 10000);
    until_status(&r, leader, "3.6.0"); /* somebody does not say what he runs */
    cluster_rig_start(&r, away);
    cluster_rig_until_ready(&r, away);
    until_all(&r, "3.7.0");

    cluster_rig_close(&r);
}

/* Of whichever version it is: it would have to be one below the cluster's, which is lowered
 * already.
 */
TEST(nobody_joins_a_cluster_that_is_being_downgraded)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    CHECK_STR(downgrade(&r, 1, PB_DOWNGRADE_ENABLE, "3.6"), "3.7");
    until_all(&r, "3.6.0 to 3.6.0");
    unsigned n = cluster_rig_add_host(&r, NULL);
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", false, NULL), "1:m1 2:m2 3:m3 4:-");

    r.at[n]->may_fail = true;
    cluster_rig_start(&r, n);
    uint64_t until_ms = cluster_rig_now_ms(&r) + 20000;
    while (!r.at[n]->failed && cluster_rig_now_ms(&r) < until_ms)
        cluster_rig_step(&r);
    CHECK(r.at[n]->failed);
    CHECK_STR(buf_str(&r.at[n]->why), "incompatible with current running cluster");
    cluster_rig_crash(&r, n);

    cluster_rig_close(&r);
}
