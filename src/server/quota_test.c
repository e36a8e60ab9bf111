/* A member whose store has reached its quota: what is refused, and how one gets out of it. */
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
