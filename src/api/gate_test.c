/*
 * What is decided before a method's own code, and methods that have none; the small services.
 */
#include "api/api_int.h"
#include "api/api_rig_test.h"
#include "rpc/rpc.h"

#include <stdio.h>

static const char *path_of(const struct rpc_method *m, char out[static 96])
{
    snprintf(out, 96, "/%s/%s", m->service, m->name);
    return out;
}

TEST(every_method_has_its_row_and_its_rule)
{
    CHECK_EQ(api_method_count, 52);
    for (size_t i = 0; i < api_method_count; i++) {
        CHECK_EQ(api_methods[i].id, i);
        CHECK(authorize_rule((enum api_method)i) < RULE_COUNT);
    }
}

static void set_enabled(struct api_rig *k)
{
    struct pb_auth_user_add_request root = {.name = BYTES("root")};
    struct pb_auth_user_grant_role_request grant = {.user = BYTES("root"), .role = BYTES("root")};

    api_rig_apply(k, &(struct pb_internal_raft_request){.auth_user_add = &root});
    api_rig_apply(k, &(struct pb_internal_raft_request){.auth_user_grant_role = &grant});
    api_rig_apply(k, &(struct pb_internal_raft_request){.auth_enable = &(struct pb_empty){0}});
}

/* Everything that is empty, as anybody could send it; but for what nobody is asked about, what
 * consists of other calls, and what is created or renewed by messages of a stream. */
TEST(with_auth_enabled_nobody_in_particular_gets_anything)
{
    struct api_rig k;
    unsigned refused = 0;
    api_rig_open(&k);
    set_enabled(&k);

    for (size_t i = 0; i < api_method_count; i++) {
        const struct pb_schema *schema = api_handler_of((enum api_method)i)->schema;
        enum auth_rule rule = authorize_rule((enum api_method)i);
        struct identity nobody = {0};
        uint64_t request[64] = {0};
        bool is_open = rule == RULE_ANYBODY || rule == RULE_BY_INNER_CALLS || rule == RULE_WATCH ||
                       i == API_LEASE_KEEP_ALIVE;

        CHECK(!schema || schema->size <= sizeof(request));
        if (is_open || authorize_later((enum api_method)i))
            continue;
        CHECK_EQ(authorize(&(struct authorize_question){.auth = k.apply_rig.auth,
                                                        .method = (enum api_method)i,
                                                        .who = &nobody,
                                                        .request = request}),
                 RESULT_AUTH_USER_EMPTY);
        refused++;
    }
    CHECK_EQ(refused, 18);

    api_rig_close(&k);
}

/* What apply decides, it decides; and a stream with each message. */
TEST(with_auth_enabled_every_way_to_a_key_is_closed)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct pb_range_request range = {.key = BYTES("a"), .serializable = true};
    struct pb_range_request fresh = {.key = BYTES("a")};
    struct pb_put_request put = {.key = BYTES("a")};
    struct pb_delete_range_request gone = {.key = BYTES("a")};
    struct pb_request_op op = {.which = PB_OP_RANGE, .range = &range};
    struct pb_txn_request txn = {.failure = {.at = &op, .count = 1}};
    struct pb_watch_create_request create = {.key = BYTES("a")};
    struct pb_watch_request watch = {.which = PB_WATCH_CREATE, .create = &create};
    struct pb_watch_response response;
    struct pb_lease_id lease = {.id = 5};
    const char *text = "etcdserver: user name is empty";
    api_rig_open(&k);
    api_rig_put(&k, "a", "secret");
    set_enabled(&k);

    api_rig_refused(&k, "/etcdserverpb.KV/Range", &pb_range_request_schema, &range,
                    RPC_INVALID_ARGUMENT, text);
    api_rig_refused(&k, "/etcdserverpb.KV/Range", &pb_range_request_schema, &fresh,
                    RPC_INVALID_ARGUMENT, text);
    api_rig_refused(&k, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, &fresh,
                    RPC_INVALID_ARGUMENT, text);
    api_rig_refused(&k, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put, RPC_INVALID_ARGUMENT,
                    text);
    api_rig_refused(&k, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema, &gone,
                    RPC_INVALID_ARGUMENT, text);
    api_rig_refused(&k, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn, RPC_INVALID_ARGUMENT,
                    text);
    api_rig_refused(&k, "/etcdserverpb.Lease/LeaseKeepAlive", &pb_lease_keep_alive_request_schema,
                    &lease, RPC_INVALID_ARGUMENT, text);
    api_rig_ask(&k, &v, "/etcdserverpb.Watch/Watch", &pb_watch_request_schema, &watch);
    api_rig_until_messages(&k, &v, 1);
    visit_decode(&v, 0, &pb_watch_response_schema, &arena, &response);
    CHECK(response.created && response.canceled);
    CHECK_EQ(response.watch_id, -1);
    CHECK_BYTES(response.cancel_reason,
                BYTES("rpc error: code = InvalidArgument desc = etcdserver: user name is empty"));
    CHECK(!v.is_over); /* others may be created */

    visit_free(&v);
    arena_free(&arena);
    api_rig_close(&k);
}

TEST(a_method_that_is_not_built_yet_says_so)
{
    struct api_rig k;
    unsigned unsupported = 0;
    api_rig_open(&k);

    for (size_t i = 0; i < api_method_count; i++) {
        char path[96], text[96];
        if (api_handler_of((enum api_method)api_methods[i].id)->schema)
            continue;
        snprintf(text, sizeof(text), "etcdserver: %s is not supported yet", api_methods[i].name);
        api_rig_refused(&k, path_of(&api_methods[i], path), &pb_hash_request_schema,
                        &(struct pb_empty){0}, RPC_UNIMPLEMENTED, text);
        unsupported++;
    }
    CHECK_EQ(unsupported, 0);

    api_rig_close(&k);
}

TEST(a_method_that_nobody_knows_gets_grpcs_words)
{
    struct api_rig k;
    struct pb_empty nothing = {0};
    api_rig_open(&k);

    api_rig_refused(&k, "/etcdserverpb.KV/Get", &pb_hash_request_schema, &nothing,
                    RPC_UNIMPLEMENTED, "unknown method Get for service etcdserverpb.KV");
    api_rig_refused(&k, "/etcdserverpb.Kv/Range", &pb_hash_request_schema, &nothing,
                    RPC_UNIMPLEMENTED, "unknown service etcdserverpb.Kv");

    api_rig_close(&k);
}

/* ---- Bytes that are no message ---- */

static void check_garbage(struct api_rig *k, const char *path, struct bytes wire, const char *text)
{
    struct visit v = {0};
    struct client_request request = {.path = path, .context = &v};

    v.call = client_ask(k->client, &request, wire);
    api_rig_expect(k, &v, RPC_INTERNAL, text);
    visit_free(&v);
}

TEST(a_message_that_cannot_be_decoded_is_refused_as_go_does)
{
    struct api_rig k;
    api_rig_open(&k);

    check_garbage(
        &k, "/etcdserverpb.KV/Put", BYTES("\x0a\x05zz"),
        "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data");
    check_garbage(&k, "/grpc.health.v1.Health/Check", BYTES("\x0a\x01\xff"),
                  "grpc: error unmarshalling request: string field contains invalid UTF-8");
    check_garbage(&k, "/etcdserverpb.KV/RangeStream", BYTES("\x0a\x05zz"),
                  "grpc: failed to unmarshal the received message: proto: cannot parse invalid "
                  "wire-format data");
    check_garbage(&k, "/etcdserverpb.Watch/Watch", BYTES("\x0a\x05zz"),
                  "grpc: failed to unmarshal the received message: proto: cannot parse invalid "
                  "wire-format data");

    api_rig_close(&k);
}

/* ---- The gate: learner, version, leader, in this order ---- */

static void check_gate(struct api_rig *k, const char *path, const struct pb_schema *schema,
                       const void *message, const struct client_field *field, enum rpc_code code,
                       const char *text)
{
    struct visit v;

    api_rig_ask_with(
        k, &v,
        &(struct client_request){.path = path, .metadata = field, .metadata_count = field != NULL},
        schema, message);
    api_rig_expect(k, &v, code, text);
    visit_free(&v);
}

TEST(a_learner_serves_only_status_and_stale_reads)
{
    struct api_rig k;
    struct pb_range_request fresh = {.key = BYTES("a")};
    struct pb_range_request stale = {.key = BYTES("a"), .serializable = true};
    struct pb_empty nothing = {0};
    const char *text = "etcdserver: rpc not supported for learner";
    api_rig_open(&k);
    k.facts.is_learner = true;

    check_gate(&k, "/etcdserverpb.KV/Range", &pb_range_request_schema, &fresh, NULL,
               RPC_FAILED_PRECONDITION, text);
    check_gate(&k, "/etcdserverpb.KV/Range", &pb_range_request_schema, &stale, NULL, RPC_OK, "");
    check_gate(&k, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, &stale, NULL,
               RPC_FAILED_PRECONDITION, text);
    check_gate(&k, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema, &nothing, NULL,
               RPC_OK, "");
    check_gate(&k, "/etcdserverpb.Maintenance/Snapshot", &pb_snapshot_request_schema, &nothing,
               NULL, RPC_UNKNOWN, "etcdserver: too many requests"); /* it has passed the gate */
    check_gate(&k, "/etcdserverpb.Cluster/MemberList", &pb_member_list_request_schema,
               &(struct pb_member_list_request){0}, NULL, RPC_FAILED_PRECONDITION, text);
    check_gate(&k, "/grpc.health.v1.Health/List", &pb_health_list_request_schema, &nothing, NULL,
               RPC_FAILED_PRECONDITION, text);
    check_gate(&k, "/etcdserverpb.Auth/UserAdd", &pb_hash_request_schema, &nothing, NULL,
               RPC_FAILED_PRECONDITION, text);

    api_rig_close(&k);
}

TEST(a_call_that_wants_a_leader_fails_without_one)
{
    struct api_rig k;
    struct pb_range_request stale = {.key = BYTES("a"), .serializable = true};
    struct client_field wants = {.name = "hasleader", .value = BYTES("true")};
    struct client_field version = {.name = "client-api-version", .value = BYTES("3.\xff")};
    api_rig_open(&k);
    k.facts.leader = 0;
    k.facts.is_leader = false;

    check_gate(&k, "/etcdserverpb.KV/Range", &pb_range_request_schema, &stale, &wants,
               RPC_UNAVAILABLE, "etcdserver: no leader");
    check_gate(&k, "/etcdserverpb.Watch/Watch", &pb_hash_request_schema, &(struct pb_empty){0},
               &wants, RPC_UNAVAILABLE, "etcdserver: no leader");
    check_gate(&k, "/etcdserverpb.KV/Range", &pb_range_request_schema, &stale, NULL, RPC_OK, "");
    check_gate(&k, "/etcdserverpb.KV/Range", &pb_range_request_schema, &stale, &version,
               RPC_INVALID_ARGUMENT, "etcdserver: invalid client api version");

    api_rig_close(&k);
}

TEST(a_stream_that_wants_a_leader_is_cut_after_three_election_timeouts)
{
    struct api_rig k;
    struct visit wants = {0}, other = {0};
    struct client_field field = {.name = "hasleader", .value = BYTES("true")};
    api_rig_open(&k);
    wants.call =
        client_start(k.client, &(struct client_request){.path = "/etcdserverpb.Watch/Watch",
                                                        .metadata = &field,
                                                        .metadata_count = 1,
                                                        .context = &wants});
    api_rig_stream(&k, &other, "/etcdserverpb.Watch/Watch");
    api_rig_for_ms(&k, 5000);
    CHECK_EQ(api_status(k.api).streams, 2);

    k.facts.leader = 0;
    api_rig_for_ms(&k, 2500);
    k.facts.leader = APPLY_RIG_OWN_ID;
    api_rig_for_ms(&k, 1000);
    k.facts.leader = 0;
    api_rig_for_ms(&k, 2500);
    CHECK(!wants.is_over);
    api_rig_for_ms(&k, 1000);
    CHECK(!other.is_over);
    api_rig_expect(&k, &wants, RPC_UNAVAILABLE, "etcdserver: no leader");

    visit_free(&wants);
    visit_free(&other);
    api_rig_close(&k);
}

/* ---- Stopping ---- */

TEST(api_stop_ends_everything_with_one_answer)
{
    struct api_rig k;
    struct visit put, watch;
    api_rig_open(&k);
    k.is_slow = true;
    api_rig_ask(&k, &put, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                &(struct pb_put_request){.key = BYTES("a")});
    api_rig_stream(&k, &watch, "/etcdserverpb.Watch/Watch");
    api_rig_for_ms(&k, 100);

    k.facts.is_stopping = true;
    api_stop(k.api, RESULT_STOPPED);
    CHECK_EQ(api_status(k.api).calls, 0);
    api_rig_expect(&k, &put, RPC_UNAVAILABLE, "etcdserver: server stopped");
    api_rig_expect(&k, &watch, RPC_UNAVAILABLE, "etcdserver: server stopped");
    CHECK_EQ(k.forgotten, 1);
    api_rig_refused(&k, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("a")}, RPC_UNAVAILABLE,
                    "etcdserver: server stopped");

    visit_free(&put);
    visit_free(&watch);
    api_rig_close(&k);
}

/* ---- Cluster, Maintenance, Health ---- */

/* The conf change that a new cluster's log begins with. */
static uint64_t add_member(struct api_rig *k)
{
    struct cluster_initial initial;
    struct buf why = {0}, data = {0};

    CHECK(cluster_initial_parse(BYTES("m1=http://10.0.0.1:2380"), BYTES("token"), &why, &initial));
    uint64_t id = initial.members[0].id;
    cluster_initial_entry(&initial, 0, &data);
    CHECK(apply_rig_entry(&k->apply_rig, RAFT_ENTRY_CONF_CHANGE, buf_bytes(&data)));
    apply_rig_done(&k->apply_rig);
    cluster_initial_free(&initial);
    buf_free(&data);
    buf_free(&why);
    return id;
}

#define MEMBER_LIST "/etcdserverpb.Cluster/MemberList", &pb_member_list_request_schema

TEST(member_list_is_local_unless_asked_otherwise)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_members_response response;
    api_rig_open(&k);
    uint64_t id = add_member(&k);

    api_rig_get(&k, MEMBER_LIST, &(struct pb_member_list_request){0},
                &pb_member_list_response_schema, &arena, &response);
    CHECK_EQ(response.header->revision, 0);
    CHECK_EQ(response.header->cluster_id, API_RIG_CLUSTER_ID);
    CHECK_EQ(response.header->raft_term, API_RIG_TERM);
    CHECK_EQ(response.members.count, 1);
    CHECK_EQ(response.members.at[0].id, id);
    CHECK_BYTES(response.members.at[0].peer_urls.at[0], BYTES("http://10.0.0.1:2380"));
    CHECK_EQ(k.confirmed, 0);
    api_rig_get(&k, MEMBER_LIST, &(struct pb_member_list_request){.linearizable = true},
                &pb_member_list_response_schema, &arena, &response);
    CHECK_EQ(k.confirmed, 1);
    k.failure = RESULT_LEADER_CHANGED;
    api_rig_refused(&k, MEMBER_LIST, &(struct pb_member_list_request){.linearizable = true},
                    RPC_UNAVAILABLE, "etcdserver: leader changed");

    arena_free(&arena);
    api_rig_close(&k);
}

static void get_status(struct api_rig *k, struct arena *arena, struct pb_status_response *out)
{
    api_rig_get(k, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
                &(struct pb_empty){0}, &pb_status_response_schema, arena, out);
}

static void alarm(struct api_rig *k, int32_t action, uint64_t member, int32_t type)
{
    struct arena arena = {0};
    struct pb_alarm_response response;

    api_rig_get(k, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema,
                &(struct pb_alarm_request){.action = action, .member_id = member, .alarm = type},
                &pb_alarm_response_schema, &arena, &response);
    CHECK_EQ(response.alarms.count, 1);
    CHECK_EQ(response.alarms.at[0].alarm, type);
    arena_free(&arena);
}

TEST(status_tells_how_this_member_is_doing)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_status_response s;
    api_rig_open(&k);
    api_rig_put(&k, "a", "one");

    get_status(&k, &arena, &s);
    CHECK_BYTES(s.version, BYTES("3.7.1"));
    CHECK_EQ(s.header->revision, 2);
    CHECK_EQ(s.leader, APPLY_RIG_OWN_ID);
    CHECK_EQ(s.raft_term, API_RIG_TERM);
    CHECK_EQ(s.raft_index, 1);
    CHECK_EQ(s.raft_applied_index, 1);
    CHECK_EQ(s.db_size_quota, 2147483648);
    CHECK(s.db_size > 0);
    CHECK(s.downgrade_info);
    CHECK(!s.downgrade_info->enabled);
    CHECK_EQ(s.errors.count, 0);
    CHECK_EQ(s.storage_version.len, 0);

    alarm(&k, PB_ALARM_ACTIVATE, 1234, PB_ALARM_NOSPACE);
    alarm(&k, PB_ALARM_ACTIVATE, 5, PB_ALARM_CORRUPT);
    k.facts.leader = 0;
    get_status(&k, &arena, &s);
    CHECK_EQ(s.errors.count, 3);
    CHECK_BYTES(s.errors.at[0], BYTES("etcdserver: no leader"));
    CHECK_BYTES(s.errors.at[1], BYTES("memberID:5 alarm:CORRUPT"));
    CHECK_BYTES(s.errors.at[2], BYTES("memberID:1234 alarm:NOSPACE"));

    arena_free(&arena);
    api_rig_close(&k);
}

TEST(the_version_of_the_store_is_told_as_etcd_tells_it)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_status_response s;
    api_rig_open(&k);
    struct backend *b = k.apply_rig.backend_rig.b;

    backend_put(b, BUCKET_META, BYTES("confState"), BYTES("{}"));
    get_status(&k, &arena, &s);
    CHECK_BYTES(s.storage_version, BYTES("")); /* nothing was applied yet */
    api_rig_put(&k, "a", "one");
    get_status(&k, &arena, &s);
    CHECK_BYTES(s.storage_version, BYTES("3.5.0"));
    backend_put(b, BUCKET_META, BYTES("storageVersion"), BYTES("3.7.0"));
    get_status(&k, &arena, &s);
    CHECK_BYTES(s.storage_version, BYTES("3.7.0"));

    arena_free(&arena);
    api_rig_close(&k);
}

TEST(health_knows_one_service_without_a_name)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct pb_health_check_response check;
    struct pb_health_list_response list;
    api_rig_open(&k);

    api_rig_get(&k, "/grpc.health.v1.Health/Check", &pb_health_check_request_schema,
                &(struct pb_health_check_request){0}, &pb_health_check_response_schema, &arena,
                &check);
    CHECK_EQ(check.status, PB_HEALTH_SERVING);
    api_rig_refused(&k, "/grpc.health.v1.Health/Check", &pb_health_check_request_schema,
                    &(struct pb_health_check_request){.service = BYTES("etcdserverpb.KV")},
                    RPC_NOT_FOUND, "unknown service");
    api_rig_get(&k, "/grpc.health.v1.Health/List", &pb_health_list_request_schema,
                &(struct pb_empty){0}, &pb_health_list_response_schema, &arena, &list);
    CHECK_EQ(list.statuses.count, 1);
    CHECK_EQ(list.statuses.at[0].response->status, PB_HEALTH_SERVING);

    api_rig_ask(&k, &v, "/grpc.health.v1.Health/Watch", &pb_health_check_request_schema,
                &(struct pb_health_check_request){.service = BYTES("x")});
    api_rig_until_messages(&k, &v, 1);
    visit_decode(&v, 0, &pb_health_check_response_schema, &arena, &check);
    CHECK_EQ(check.status, PB_HEALTH_SERVICE_UNKNOWN);
    api_rig_for_ms(&k, 1000);
    CHECK(!v.is_over);

    visit_free(&v);
    arena_free(&arena);
    api_rig_close(&k);
}

/* ---- Plain HTTP ---- */

static void check_http(struct api_rig *k, const char *line, const char *status, const char *body)
{
    struct buf out = {0}, request = {0};

    buf_printf(&request, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", line);
    api_rig_http(k, buf_str(&request), &out);
    const char *text = buf_str(&out);
    const char *content = strstr(text, "\r\n\r\n");
    CHECK(content);
    CHECK(strncmp(text, "HTTP/1.1 ", 9) == 0);
    CHECK_EQ(strncmp(text + 9, status, strlen(status)), 0);
    CHECK_STR(content + 4, body);
    buf_free(&out);
    buf_free(&request);
}

TEST(http_serves_version_and_health)
{
    struct api_rig k;
    api_rig_open(&k);

    check_http(
        &k, "GET /version", "200",
        "{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"not_decided\",\"storage\":\"unknown\"}");
    struct pb_cluster_version_set_request version = {.ver = BYTES("3.7.0")};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.cluster_version_set = &version});
    backend_put(k.apply_rig.backend_rig.b, BUCKET_META, BYTES("storageVersion"), BYTES("3.7.0"));
    check_http(&k, "GET /version", "200",
               "{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"3.7.0\",\"storage\":\"3.7.0\"}");

    check_http(&k, "GET /health", "200", "{\"health\":\"true\",\"reason\":\"\"}");
    check_http(&k, "POST /health", "405", "Method Not Allowed\n");
    check_http(&k, "GET /healthy", "404", "404 page not found\n");
    check_http(&k, "OPTIONS /whatever", "200", "");
    k.failure = RESULT_TIMEOUT;
    check_http(&k, "GET /health", "503",
               "{\"health\":\"false\",\"reason\":\"RANGE ERROR:etcdserver: request timed out\"}\n");
    k.facts.leader = 0;
    check_http(&k, "GET /health", "503", "{\"health\":\"false\",\"reason\":\"RAFT NO LEADER\"}\n");
    check_http(&k, "GET /health?serializable=true", "200", "{\"health\":\"true\",\"reason\":\"\"}");
    check_http(&k, "GET /health?serializable=false&serializable=true", "503",
               "{\"health\":\"false\",\"reason\":\"RAFT NO LEADER\"}\n");

    api_rig_close(&k);
}

TEST(http_health_tells_of_alarms_that_are_not_left_out)
{
    struct api_rig k;
    const char *good = "{\"health\":\"true\",\"reason\":\"\"}";
    const char *space = "{\"health\":\"false\",\"reason\":\"ALARM NOSPACE\"}\n";
    const char *corrupt = "{\"health\":\"false\",\"reason\":\"ALARM CORRUPT\"}\n";
    api_rig_open(&k);
    alarm(&k, PB_ALARM_ACTIVATE, 1, PB_ALARM_NOSPACE);

    check_http(&k, "GET /health", "503", space);
    check_http(&k, "GET /health?exclude=NOSPACE", "200", good);
    check_http(&k, "GET /health?exclude=CORRUPT", "503", space);
    check_http(&k, "GET /health?exclude=%4eOSPACE", "200", good);
    check_http(&k, "GET /health?exclude=NOSPAC%4", "503", space);
    alarm(&k, PB_ALARM_ACTIVATE, 2, PB_ALARM_CORRUPT);
    check_http(&k, "GET /health?exclude=NOSPACE", "503", corrupt);
    check_http(&k, "GET /health?x&&exclude=CORRUPT&exclude=NOSPACE", "200", good);

    api_rig_close(&k);
}

/* Ten thousand alarms and a query of 50 KB were seconds of work, and gigabytes. */
TEST(what_http_health_costs_does_not_grow_with_alarms)
{
    struct api_rig k;
    struct buf line = {0};
    api_rig_open(&k);
    for (uint64_t member = 1; member <= 200; member++)
        alarm(&k, PB_ALARM_ACTIVATE, member, PB_ALARM_NOSPACE);
    buf_append_str(&line, "GET /health?");
    for (int i = 0; i < 1000; i++)
        buf_append_str(&line, "x=y&");
    buf_append_str(&line, "exclude=NOSPACE");

    check_http(&k, buf_str(&line), "200", "{\"health\":\"true\",\"reason\":\"\"}");

    CHECK(k.api->scratch.total_bytes > 0); /* of this request */
    CHECK(k.api->scratch.total_bytes < 512 * KIB);
    buf_free(&line);
    api_rig_close(&k);
}

/* Known to no log: whoever asks another member hears nothing of it. */
TEST(a_full_disk_is_this_members_own_alarm)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_status_response s;
    api_rig_open(&k);
    k.facts.disk_is_full = true;

    check_http(&k, "GET /health", "503", "{\"health\":\"false\",\"reason\":\"ALARM NOSPACE\"}\n");
    check_http(&k, "GET /health?exclude=NOSPACE", "200", "{\"health\":\"true\",\"reason\":\"\"}");
    get_status(&k, &arena, &s);
    CHECK_EQ(s.errors.count, 1);
    CHECK(memmem(s.errors.at[0].at, s.errors.at[0].len, " alarm:NOSPACE", 14) != NULL);
    alarm(&k, PB_ALARM_ACTIVATE, k.facts.member_id, PB_ALARM_NOSPACE);
    get_status(&k, &arena, &s);
    CHECK_EQ(s.errors.count, 1); /* it is the same */
    k.facts.disk_is_full = false;
    get_status(&k, &arena, &s);
    CHECK_EQ(s.errors.count, 1); /* and somebody else's to lift */

    arena_free(&arena);
    api_rig_close(&k);
}

TEST(http_health_is_forgotten_when_its_client_goes)
{
    struct api_rig k;
    api_rig_open(&k);
    k.is_slow = true;

    api_rig_http_cut(&k, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK_EQ(k.confirmed, 1);
    CHECK_EQ(k.forgotten, 1);
    CHECK_EQ(api_status(k.api).calls, 0);

    api_rig_close(&k);
}
