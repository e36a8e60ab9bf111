/* A member whose store has reached its quota: what is refused, and how one gets out of it. */
#include "server/cluster_rig_test.h"
#include "server/server_int.h"
#include "server/server_rig_test.h"

#include <stdio.h>

#define NO_SPACE "etcdserver: mvcc: database space exceeded"

static enum rpc_code ask(struct server_rig *r, const char *path, const struct pb_schema *schema,
                         const void *message, struct buf *text)
{
    struct visit v = {0};

    server_rig_ask(r->client, &v, path, schema, message);
    server_rig_until_over(r, &v);
    enum rpc_code code = v.code;
    if (text) {
        buf_clear(text);
        buf_append(text, buf_bytes(&v.text));
    }
    visit_free(&v);
    return code;
}

static enum rpc_code put(struct server_rig *r, unsigned number, size_t len, struct buf *text)
{
    char key[32];
    struct buf value = {0};

    snprintf(key, sizeof(key), "k%06u", number);
    memset(buf_reserve(&value, len), 'v', len);
    value.len = len;
    enum rpc_code code =
        ask(r, "/etcdserverpb.KV/Put", &pb_put_request_schema,
            &(struct pb_put_request){.key = bytes_of_str(key), .value = buf_bytes(&value)}, text);
    buf_free(&value);
    return code;
}

/* How many are there? */
static size_t alarms(struct server_rig *r, struct pb_alarm_member *first)
{
    struct visit v = {0};
    struct arena arena = {0};
    struct pb_alarm_response response;

    server_rig_ask(r->client, &v, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema,
                   &(struct pb_alarm_request){.action = PB_ALARM_GET});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_decode(&v, 0, &pb_alarm_response_schema, &arena, &response);
    size_t count = response.alarms.count;
    if (count > 0)
        *first = response.alarms.at[0];
    arena_free(&arena);
    visit_free(&v);
    return count;
}

TEST(over_quota_one_can_delete_compact_defragment_and_go_on)
{
    struct server_rig r;
    struct pb_alarm_member alarm = {0};
    struct buf text = {0};
    unsigned puts = 0;
    server_rig_open(&r, (const char *const[]){"--quota-backend-bytes=1000000", NULL});
    server_rig_start(&r);

    while (put(&r, puts, 20000, &text) == RPC_OK)
        puts++;
    CHECK(puts > 10);
    CHECK_STR(buf_str(&text), NO_SPACE);
    CHECK_EQ(alarms(&r, &alarm), 1);
    CHECK_EQ(alarm.alarm, PB_ALARM_NOSPACE);
    CHECK(server_rig_logged(&r, "message exceeded backend quota; raising alarm"));
    CHECK_EQ(put(&r, 0, 1, &text), RPC_RESOURCE_EXHAUSTED);
    CHECK_EQ(ask(&r, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                 &(struct pb_lease_grant_request){.ttl = 10}, &text),
             RPC_RESOURCE_EXHAUSTED);

    CHECK_EQ(ask(&r, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                 &(struct pb_delete_range_request){.key = BYTES("k"), .range_end = BYTES("l")},
                 NULL),
             RPC_OK);
    CHECK_EQ(ask(&r, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                 &(struct pb_compaction_request){.revision = server_status(r.server).revision,
                                                 .physical = true},
                 NULL),
             RPC_OK);
    CHECK_EQ(ask(&r, "/etcdserverpb.Maintenance/Defragment", &pb_defragment_request_schema,
                 &(struct pb_empty){0}, NULL),
             RPC_OK);
    CHECK_EQ(put(&r, 0, 1, &text), RPC_RESOURCE_EXHAUSTED); /* until somebody says it is over */
    CHECK_EQ(ask(&r, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema,
                 &(struct pb_alarm_request){.action = PB_ALARM_DEACTIVATE,
                                            .member_id = alarm.member_id,
                                            .alarm = alarm.alarm},
                 NULL),
             RPC_OK);
    CHECK_EQ(put(&r, 0, 20000, &text), RPC_OK);
    CHECK_EQ(alarms(&r, &alarm), 0);
    buf_free(&text);
    server_rig_stop(&r);
    server_rig_close(&r);
}

/* ---- The alarm comes before the refusal ---- */

enum { MS = 1000000, LARGE_BYTES = 200000, SLOW_PUTS = 60 };

static void ask_put(struct client *c, struct visit *v, unsigned number, size_t len)
{
    char key[32];
    struct buf value = {0};

    snprintf(key, sizeof(key), "k%06u", number);
    memset(buf_reserve(&value, len), 'v', len);
    value.len = len;
    server_rig_ask(c, v, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                   &(struct pb_put_request){.key = bytes_of_str(key), .value = buf_bytes(&value)});
    buf_free(&value);
}

static bool alarm_is_up(const struct server *s)
{
    return apply_has_alarm(s->state.apply, (struct apply_alarm){.member = s->facts.member_id,
                                                                .alarm = PB_ALARM_NOSPACE});
}

/* The log takes its time, and a client that hears of the refusal finds the alarm all the same. */
TEST(a_write_over_the_quota_is_refused_once_the_alarm_is_up)
{
    struct server_rig r;
    struct visit first = {0}, second = {0};
    server_rig_open(&r, (const char *const[]){"--quota-backend-bytes=100000", NULL});
    server_rig_start(&r);
    fake_disk_set_delay(r.world->disk, (struct fake_delay){300 * MS, 300 * MS});

    uint64_t began_ms = server_rig_now_ms(&r);
    ask_put(r.client, &first, 1, LARGE_BYTES);
    server_rig_until_over(&r, &first);
    CHECK_EQ(first.code, RPC_RESOURCE_EXHAUSTED);
    CHECK_STR(buf_str(&first.text), NO_SPACE);
    CHECK(alarm_is_up(r.server));
    CHECK(server_rig_now_ms(&r) - began_ms >= 300);

    began_ms = server_rig_now_ms(&r); /* with the alarm up, nothing goes through the log */
    ask_put(r.client, &second, 1, LARGE_BYTES);
    server_rig_until_over(&r, &second);
    CHECK_EQ(second.code, RPC_RESOURCE_EXHAUSTED);
    CHECK(server_rig_now_ms(&r) - began_ms < 300);

    visit_free(&first);
    visit_free(&second);
    server_rig_stop(&r);
    server_rig_close(&r);
}

static int64_t count_keys(struct server_rig *r)
{
    struct visit v = {0};
    struct arena arena = {0};
    struct pb_range_response response;

    server_rig_ask(
        r->client, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema,
        &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l"), .count_only = true});
    server_rig_until_over(r, &v);
    visit_decode(&v, 0, &pb_range_response_schema, &arena, &response);
    int64_t count = response.count;
    arena_free(&arena);
    visit_free(&v);
    return count;
}

/* Writes that find the store below its quota when they come, and above it when they are applied:
 * they are done, as in etcd, and refused. */
TEST(a_write_that_exceeds_the_quota_when_applied_is_refused_once_the_alarm_is_up)
{
    struct server_rig r;
    struct visit v[SLOW_PUTS] = {0};
    bool is_seen[SLOW_PUTS] = {false};
    unsigned written = 0, refused = 0;
    server_rig_open(&r, (const char *const[]){"--quota-backend-bytes=500000", NULL});
    server_rig_start(&r);
    fake_disk_set_delay(r.world->disk, (struct fake_delay){300 * MS, 300 * MS});

    for (unsigned asked = 0; written + refused < SLOW_PUTS;) {
        if (asked < SLOW_PUTS)
            ask_put(r.client, &v[asked], asked, 20000);
        asked += asked < SLOW_PUTS;
        uint64_t until_ms = server_rig_now_ms(&r) + 30;
        while (server_rig_now_ms(&r) < until_ms) {
            server_rig_step(&r);
            for (unsigned i = 0; i < asked; i++) {
                if (is_seen[i] || !v[i].is_over)
                    continue;
                is_seen[i] = true;
                written += v[i].code == RPC_OK;
                refused += v[i].code == RPC_RESOURCE_EXHAUSTED;
                CHECK(v[i].code == RPC_OK || alarm_is_up(r.server));
            }
        }
    }

    CHECK(refused > 0);
    CHECK(count_keys(&r) > written);
    for (unsigned i = 0; i < SLOW_PUTS; i++)
        visit_free(&v[i]);
    server_rig_stop(&r);
    server_rig_close(&r);
}

enum { CLIENTS = 5 };

static void hear_for_ms(struct cluster_rig *r, struct client *const *clients, uint64_t ms)
{
    uint64_t until_ms = cluster_rig_now_ms(r) + ms;

    while (cluster_rig_now_ms(r) < until_ms) {
        cluster_rig_step(r);
        for (unsigned i = 0; i < CLIENTS; i++)
            visit_hear(clients[i]);
    }
}

/* No leader, no alarm: the write is refused when the time of a proposal is up. Meanwhile a bounded
 * number of them waits, of all connections together, and the others are refused at once. */
TEST(without_a_leader_a_write_over_the_quota_is_refused_in_time)
{
    enum { WRITES = 5 * CLIENTS, BYTES_EACH = 1000000 };
    struct cluster_rig r;
    struct visit v[WRITES] = {0};
    struct client *clients[CLIENTS];
    unsigned at_once = 0;
    cluster_rig_open(&r, 3, (const char *const[]){"--quota-backend-bytes=100000", NULL});
    cluster_rig_start_all(&r);
    cluster_rig_crash(&r, 2);
    cluster_rig_crash(&r, 3);
    cluster_rig_for_ms(&r, 3000);
    struct server *alone = r.at[1]->server;
    CHECK_EQ(alone->facts.leader, 0);

    for (unsigned i = 0; i < CLIENTS; i++)
        clients[i] = cluster_rig_new_client(&r, 1);
    for (unsigned i = 0; i < WRITES; i++)
        ask_put(clients[i % CLIENTS], &v[i], i, BYTES_EACH);
    hear_for_ms(&r, clients, 2000);
    for (unsigned i = 0; i < WRITES; i++)
        at_once += v[i].is_over;
    CHECK_EQ(at_once, WRITES - API_RAISING_BYTES_MAX / BYTES_EACH);
    hear_for_ms(&r, clients, PENDING_LIMIT_MS + 2 * 1000 + 1000);

    for (unsigned i = 0; i < WRITES; i++) {
        CHECK(v[i].is_over);
        CHECK_EQ(v[i].code, RPC_RESOURCE_EXHAUSTED);
        CHECK_STR(buf_str(&v[i].text), NO_SPACE);
        visit_free(&v[i]);
    }
    CHECK(!alarm_is_up(alone));
    for (unsigned i = 0; i < CLIENTS; i++)
        client_close(clients[i]);
    cluster_rig_close(&r);
}

static void check_line(const char *flag, const char *line)
{
    struct server_rig r;
    server_rig_open(&r, (const char *const[]){flag, NULL});

    server_rig_start(&r);

    if (!server_rig_logged(&r, line))
        test_fail(__FILE__, __LINE__, "%s: no %s in the log", flag, line);
    server_rig_stop(&r);
    server_rig_close(&r);
}

TEST(the_log_tells_of_the_quota_as_etcds_does)
{
    check_line("--quota-backend-bytes=0",
               "\"msg\":\"enabled backend quota with default value\",\"quota-name\":\"v3-applier\","
               "\"quota-size-bytes\":2147483648,\"quota-size\":\"2.1 GB\"");
    check_line("--quota-backend-bytes=-1",
               "\"msg\":\"disabled backend quota\",\"quota-name\":\"v3-applier\","
               "\"quota-size-bytes\":-1");
    check_line("--quota-backend-bytes=1000000",
               "\"msg\":\"enabled backend quota\",\"quota-name\":\"v3-applier\","
               "\"quota-size-bytes\":1000000,\"quota-size\":\"1.0 MB\"");
    check_line("--quota-backend-bytes=9000000000",
               "\"msg\":\"quota exceeds the maximum value\",\"quota-name\":\"v3-applier\","
               "\"quota-size-bytes\":9000000000,\"quota-size\":\"9.0 GB\","
               "\"quota-maximum-size-bytes\":8589934592,\"quota-maximum-size\":\"8.6 GB\"");
}
