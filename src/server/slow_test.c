/* Requests that take long, and what the log says of them: in worlds where it is known why. */
#include "harness/test.h"
#include "server/cluster_rig_test.h"
#include "server/server_rig_test.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t MS = NS_PER_MS;

/* The last line that has this, NUL-terminated; NULL: none has. */
static const char *line_with(struct buf *logged, const char *text)
{
    static char line[LOG_LINE_BYTES_MAX + 1];
    const char *at = NULL;

    for (const char *next = buf_str(logged); (next = strstr(next, text)); next++)
        at = next;
    if (!at)
        return NULL;
    while (at > buf_str(logged) && at[-1] != '\n')
        at--;
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
    return line;
}

/* What stands behind this in the line, in milliseconds: "log:" and 301.5ms, or 1.2s. */
static double ms_behind(const char *line, const char *text)
{
    const char *at = strstr(line, text);
    char *unit;

    if (!at)
        test_fail(__FILE__, __LINE__, "no %s in %s", text, line);
    double number = strtod(at + strlen(text), &unit);
    return unit[0] == 's' ? number * 1000 : unit[0] == 'm' ? number : 0;
}

TEST(a_put_that_waits_for_the_disk_is_told_of_with_that)
{
    struct server_rig r;
    struct visit v = {0};
    struct pb_put_request put = {.key = BYTES("slow"), .value = BYTES("hidden")};
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    server_rig_put(&r, "quick", "v");
    CHECK(!server_rig_logged(&r, "trace["));

    fake_disk_set_delay(r.world->disk, (struct fake_delay){300 * MS, 300 * MS});
    server_rig_ask(r.client, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    server_rig_until_over(&r, &v);

    const char *line = line_with(&r.logged, "trace[");
    CHECK(line &&
          strstr(line, "] put\",\"detail\":\"{key:slow; req_size:14; response_revision:3; }"));
    CHECK(strstr(line, "'process raft request' {queue:") && strstr(line, "\"step_count\":1}"));
    CHECK(ms_behind(line, " log:") >= 299 && ms_behind(line, " log:") <= 310);
    CHECK(ms_behind(line, "{queue:") + ms_behind(line, "agreement:") +
              ms_behind(line, "apply queue:") <
          5);
    CHECK(!server_rig_logged(&r, "hidden"));
    visit_free(&v);
    server_rig_close(&r);
}

TEST(a_read_that_waits_for_the_others_is_told_of_with_that)
{
    struct cluster_rig r;
    struct visit v = {0};
    struct pb_range_request get = {.key = BYTES("slow")};
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);
    cluster_rig_put(&r, leader, "slow", "hidden");
    cluster_rig_until_equal(&r, leader);

    for (unsigned i = 1; i <= 3; i++)
        cluster_rig_pause(&r, i, i != leader);
    cluster_rig_ask(&r, leader, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema, &get);
    cluster_rig_for_ms(&r, 400);
    for (unsigned i = 1; i <= 3; i++)
        cluster_rig_pause(&r, i, false);
    cluster_rig_until_over(&r, &v);

    CHECK_EQ(v.code, RPC_OK);
    const char *line = line_with(&r.at[leader]->logged, "linearizableReadLoop");
    CHECK(line && strstr(line, "'read index received'  (duration: "));
    CHECK(ms_behind(line, "received'  (duration: ") >= 390);
    line = line_with(&r.at[leader]->logged, "] range\",");
    CHECK(line && strstr(line, "{range_begin:slow; range_end:; response_revision:2; }"));
    CHECK(ms_behind(line, "read index:") >= 390);
    line = line_with(&r.at[leader]->logged, "apply request took too long");
    CHECK(line && strstr(line, "\"prefix\":\"read-only range \",\"request\":\"key:\\\"slow\\\"\""));
    CHECK(!cluster_rig_logged(&r, leader, "hidden"));
    CHECK(!cluster_rig_logged(&r, leader, "ReadIndex"));
    visit_free(&v);
    cluster_rig_close(&r);
}

/* Of a leader that is paused, and then of none: both others are, and nobody can be elected. */
TEST(reads_whose_round_gets_no_reply_are_told_of)
{
    struct cluster_rig r;
    struct visit v = {0};
    struct pb_range_request get = {.key = BYTES("k")};
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned follower = cluster_rig_follower(&r);
    cluster_rig_put(&r, follower, "k", "v");

    for (unsigned i = 1; i <= 3; i++)
        cluster_rig_pause(&r, i, i != follower);
    cluster_rig_ask(&r, follower, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema, &get);
    cluster_rig_for_ms(&r, 700);
    CHECK(line_with(&r.at[follower]->logged,
                    "waiting for ReadIndex response took too long, retrying"));
    cluster_rig_until_over(&r, &v); /* its leader is lost */
    visit_free(&v);
    CHECK(!line_with(&r.at[follower]->logged, "timed out waiting for read index response"));
    cluster_rig_ask(&r, follower, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema, &get);
    cluster_rig_until_over(&r, &v);

    CHECK(v.code != RPC_OK);
    CHECK(line_with(&r.at[follower]->logged, "timed out waiting for read index response"));
    for (unsigned i = 1; i <= 3; i++)
        cluster_rig_pause(&r, i, false);
    visit_free(&v);
    cluster_rig_close(&r);
}

/* A lease that does not exist: found out when it is applied. */
TEST(a_request_that_cannot_be_applied_is_told_of)
{
    struct server_rig r;
    static struct visit asked[250];
    static struct log_samples samples;
    struct pb_put_request put = {.key = BYTES("k"), .value = BYTES("hidden"), .lease = 99};
    server_rig_open(&r, NULL);
    r.logger.samples = &samples;
    server_rig_start(&r);

    for (size_t i = 0; i < ARRAY_LEN(asked); i++)
        server_rig_ask(i % 2 ? r.client : r.other, &asked[i], "/etcdserverpb.KV/Put",
                       &pb_put_request_schema, &put);
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        server_rig_until_over(&r, &asked[i]);
        visit_free(&asked[i]);
    }

    const char *line = line_with(&r.logged, "failed to apply request");
    CHECK(line && strstr(line, "put:<key:\\\"k\\\" value_size:6 lease:99>"));
    CHECK(strstr(line, "\"error\":\"etcdserver: requested lease not found\""));
    CHECK(!server_rig_logged(&r, "hidden"));
    unsigned lines = 0;
    for (const char *at = buf_str(&r.logged); (at = strstr(at, "failed to apply")); at++)
        lines++;
    CHECK(lines >= 100 && lines < 250); /* the first of each second, and then few */
    server_rig_close(&r);
}

TEST(a_sync_that_takes_a_second_is_told_of)
{
    struct server_rig r;
    server_rig_open(&r, NULL);
    server_rig_start(&r);

    fake_disk_set_delay(r.world->disk, (struct fake_delay){900 * MS, 900 * MS});
    server_rig_put(&r, "a", "b");
    CHECK(!server_rig_logged(&r, "slow fdatasync"));
    fake_disk_set_delay(r.world->disk, (struct fake_delay){1200 * MS, 1200 * MS});
    server_rig_put(&r, "c", "d");

    const char *line = line_with(&r.logged, "slow fdatasync");
    CHECK(line && strstr(line, "\"took\":\"1.2s\",\"expected-duration\":\"1s\"}"));
    fake_disk_set_delay(r.world->disk, (struct fake_delay){0, 0});
    server_rig_close(&r);
}
