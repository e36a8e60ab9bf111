/* What an operator asks of one member, through a whole one or a cluster of them. */
#include "io/hash.h"
#include "server/cluster_rig_test.h"
#include "server/server_int.h"
#include "server/server_rig_test.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>

#define DEFRAGMENT  "/etcdserverpb.Maintenance/Defragment", &pb_defragment_request_schema
#define HASH        "/etcdserverpb.Maintenance/Hash", &pb_hash_request_schema
#define HASH_KV     "/etcdserverpb.Maintenance/HashKV", &pb_hash_kv_request_schema
#define SNAPSHOT    "/etcdserverpb.Maintenance/Snapshot", &pb_snapshot_request_schema
#define MOVE_LEADER "/etcdserverpb.Maintenance/MoveLeader", &pb_move_leader_request_schema
#define COMPACT     "/etcdserverpb.KV/Compact", &pb_compaction_request_schema

static void put_many(struct server_rig *r, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%04u", i);
        server_rig_put(r, key, "v");
    }
}

static void compact(struct server_rig *r, int64_t revision)
{
    struct visit v;

    server_rig_ask(r->client, &v, COMPACT,
                   &(struct pb_compaction_request){.revision = revision, .physical = true});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
}

/* ---- HashKV ---- */

static struct pb_hash_kv_response hash_kv(struct server_rig *r, int64_t revision)
{
    struct visit v;
    struct arena arena = {0};
    struct pb_hash_kv_response response;

    server_rig_ask(r->client, &v, HASH_KV, &(struct pb_hash_kv_request){.revision = revision});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_decode(&v, 0, &pb_hash_kv_response_schema, &arena, &response);
    CHECK(response.header);
    CHECK_EQ(response.header->revision, server_status(r->server).revision);
    CHECK_EQ(response.header->member_id, server_status(r->server).member_id);
    response.header = NULL;
    arena_free(&arena);
    visit_free(&v);
    return response;
}

static void expect(struct server_rig *r, struct visit *v, enum rpc_code code, const char *text)
{
    server_rig_until_over(r, v);
    CHECK_EQ(v->code, code);
    CHECK_STR(buf_str(&v->text), text);
    visit_free(v);
}

TEST(hashkv_is_told_to_clients_with_what_it_is_of)
{
    struct server_rig r;
    struct visit v;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 600); /* more than a slice */

    struct pb_hash_kv_response newest = hash_kv(&r, 0), middle = hash_kv(&r, 300);
    CHECK_EQ(newest.hash_revision, 601);
    CHECK_EQ(newest.compact_revision, -1);
    CHECK_EQ(middle.hash_revision, 300);
    CHECK(middle.hash != newest.hash);
    compact(&r, 300);
    struct pb_hash_kv_response there = hash_kv(&r, 300), above = hash_kv(&r, 601);
    CHECK_EQ(there.hash, middle.hash); /* what the compaction has found */
    CHECK_EQ(there.compact_revision, -1);
    CHECK_EQ(above.compact_revision, 300);

    server_rig_ask(r.client, &v, HASH_KV, &(struct pb_hash_kv_request){.revision = 299});
    expect(&r, &v, RPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted");
    server_rig_ask(r.client, &v, HASH_KV, &(struct pb_hash_kv_request){.revision = 602});
    expect(&r, &v, RPC_OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision");
    server_rig_close(&r);
}

/* The state is replaced while it is hashed: the client hears of the new one. */
TEST(hashkv_survives_the_exchange_of_the_state)
{
    struct server_rig r;
    struct visit v;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, MVCC_RANGE_TOMBSTONE_KEYS_MIN + 10);
    uint32_t expected = hash_kv(&r, 500).hash;
    CHECK(server_install_own_image(r.server, 0));
    while (!install_is_busy(&r.server->install))
        server_rig_step(&r);

    while (server_installed(r.server) == 0) {
        struct pb_hash_kv_request request = {.revision = 500};
        server_rig_ask(r.client, &v, HASH_KV, &request);
        server_rig_step(&r);
        server_rig_until_over(&r, &v);
        CHECK_EQ(v.code, RPC_OK);
        visit_free(&v);
    }
    CHECK_EQ(hash_kv(&r, 500).hash, expected);
    server_rig_close(&r);
}

/* ---- Hash ---- */

static uint32_t hash_store(struct server_rig *r)
{
    struct visit v;
    struct arena arena = {0};
    struct pb_hash_response response;

    server_rig_ask(r->client, &v, HASH, &(struct pb_empty){0});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_decode(&v, 0, &pb_hash_response_schema, &arena, &response);
    CHECK_EQ(response.header->revision, server_status(r->server).revision);
    uint32_t hash = response.hash;
    arena_free(&arena);
    visit_free(&v);
    return hash;
}

TEST(hash_is_of_the_whole_store_as_it_is_after_some_entry)
{
    struct server_rig r;
    struct backend_view view;
    uint32_t expected;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 20);

    uint32_t hash = hash_store(&r);
    backend_view_open(r.server->state.backend, &view);
    CHECK_EQ(mvcc_hash_store(&view, &expected), ERR_OK);
    backend_view_close(&view);
    CHECK_EQ(hash, expected);
    server_rig_put(&r, "k0001", "v");
    CHECK(hash_store(&r) != hash);

    server_rig_close(&r);
}

/* They share one, while others write; and who has gone is not told. */
TEST(hash_may_be_asked_for_by_many_and_left_by_some)
{
    struct server_rig r;
    struct visit first, second, gone;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 20);

    server_rig_ask(r.client, &first, HASH, &(struct pb_empty){0});
    server_rig_ask(r.client, &second, HASH, &(struct pb_empty){0});
    server_rig_ask(r.other, &gone, HASH, &(struct pb_empty){0});
    while (api_status(r.server->clients.api).calls < 3)
        server_rig_step(&r);
    visit_free(&gone);
    server_rig_until_over(&r, &first);
    server_rig_until_over(&r, &second);
    CHECK_EQ(first.code, RPC_OK);
    CHECK_BYTES(buf_bytes(&first.messages[0]), buf_bytes(&second.messages[0]));

    visit_free(&first);
    visit_free(&second);
    server_rig_close(&r);
}

/* ---- Defragment ---- */

TEST(defragment_answers_when_it_is_done_and_writes_go_on)
{
    struct server_rig r;
    struct visit first, second;
    struct arena arena = {0};
    struct pb_header_response response;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 50);

    server_rig_ask(r.other, &first, DEFRAGMENT, &(struct pb_empty){0});
    server_rig_ask(r.other, &second, DEFRAGMENT, &(struct pb_empty){0});
    put_many(&r, 10);
    server_rig_until_over(&r, &first);
    server_rig_until_over(&r, &second);

    CHECK_EQ(first.code, RPC_OK);
    CHECK_EQ(second.code, RPC_OK);
    visit_decode(&first, 0, &pb_defragment_response_schema, &arena, &response);
    CHECK(!response.header);
    CHECK(server_rig_logged(&r, "finished defragment"));
    arena_free(&arena);
    visit_free(&first);
    visit_free(&second);
    server_rig_close(&r);
}

/* By a gate clients are sent elsewhere meanwhile: those who ask whether it serves. */
TEST(defragment_may_be_told_to_those_who_watch_the_health)
{
    static const int32_t told[] = {PB_HEALTH_SERVING, PB_HEALTH_NOT_SERVING, PB_HEALTH_SERVING};
    struct server_rig r;
    struct visit watch, v;
    struct arena arena = {0};
    struct pb_health_check_response response;
    server_rig_open(&r,
                    (const char *const[]){"--feature-gates=StopGRPCServiceOnDefrag=true", NULL});
    server_rig_start(&r);
    put_many(&r, 50);

    server_rig_ask(r.client, &watch, "/grpc.health.v1.Health/Watch",
                   &pb_health_check_request_schema, &(struct pb_health_check_request){0});
    while (watch.message_count < 1)
        server_rig_step(&r);
    server_rig_ask(r.other, &v, DEFRAGMENT, &(struct pb_empty){0});
    server_rig_until_over(&r, &v);
    while (watch.message_count < ARRAY_LEN(told))
        server_rig_step(&r);

    for (size_t i = 0; i < ARRAY_LEN(told); i++) {
        visit_decode(&watch, i, &pb_health_check_response_schema, &arena, &response);
        CHECK_EQ(response.status, told[i]);
    }
    CHECK(server_rig_logged(&r, "NOT_SERVING"));
    CHECK(!watch.is_over);
    visit_free(&v);
    visit_free(&watch);
    arena_free(&arena);
    server_rig_close(&r);
}

/* It goes on without its client, is given up at the end, and a crash finds the store whole. */
TEST(defragment_outlives_its_client_and_not_the_member)
{
    struct server_rig r;
    struct visit v;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 50);

    server_rig_ask(r.other, &v, DEFRAGMENT, &(struct pb_empty){0});
    while (!server_rig_logged(&r, "starting defragment"))
        server_rig_step(&r);
    visit_free(&v);
    server_rig_stop(&r);
    server_rig_start(&r);
    server_rig_ask(r.other, &v, DEFRAGMENT, &(struct pb_empty){0});
    while (api_status(r.server->clients.api).calls == 0)
        server_rig_step(&r);
    server_rig_crash(&r, FAKE_POWER_CUT);
    v.call = NULL; /* it has gone with its connection */
    visit_free(&v);
    server_rig_start(&r);
    CHECK_EQ(server_status(r.server).revision, 51);

    server_rig_close(&r);
}

/* ---- Snapshot ---- */

static void ask_snapshot(struct client *c, struct visit *v)
{
    server_rig_ask(c, v, SNAPSHOT, &(struct pb_empty){0});
}

/* The file that the messages make, which are all as etcd's are. */
static void gather(const struct visit *v, struct buf *file)
{
    struct arena arena = {0};
    struct pb_snapshot_response last, now;

    CHECK(v->message_count >= 2);
    visit_decode(v, v->message_count - 1, &pb_snapshot_response_schema, &arena, &last);
    CHECK_EQ(last.remaining_bytes, 0);
    CHECK_EQ(last.blob.len, HASH_SHA256_BYTES);
    uint64_t total = 0;
    for (size_t i = 0; i + 1 < v->message_count; i++) {
        visit_decode(v, i, &pb_snapshot_response_schema, &arena, &now);
        total += now.blob.len;
    }
    for (size_t i = 0; i + 1 < v->message_count; i++) {
        visit_decode(v, i, &pb_snapshot_response_schema, &arena, &now);
        buf_append(file, now.blob);
        CHECK(!now.header);
        CHECK_EQ(now.remaining_bytes, total - file->len);
        CHECK_EQ(now.blob.len, i + 2 < v->message_count
                                   ? API_SNAPSHOT_BLOB_BYTES
                                   : (total - 1) % API_SNAPSHOT_BLOB_BYTES + 1);
        CHECK_BYTES(now.version, last.version);
    }
    buf_append(file, last.blob);
    arena_free(&arena);
}

static void check_backup(struct bytes file)
{
    struct bolt_fault fault = {0};
    struct bolt_memory source;
    struct bolt *bolt;

    CHECK_EQ(file.len % 512, HASH_SHA256_BYTES);
    bolt_memory_init(&source, file);
    CHECK_EQ(bolt_check_digest(&source.source, &fault), ERR_OK);
    CHECK_EQ(bolt_open(&source.source, BOLT_IMAGE, &fault, &bolt), ERR_OK);
    CHECK_EQ(bolt_check(bolt), ERR_OK);
    bolt_close(bolt);
}

TEST(a_snapshot_is_a_file_with_its_digest_though_writes_go_on)
{
    struct server_rig r;
    struct visit v;
    struct buf file = {0};
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 2000);

    ask_snapshot(r.other, &v);
    put_many(&r, 100);
    server_rig_until_over(&r, &v);
    CHECK_EQ(v.code, RPC_OK);
    gather(&v, &file);
    check_backup(buf_bytes(&file));
    CHECK(file.len > 2 * API_SNAPSHOT_BLOB_BYTES);
    CHECK_EQ(mvcc_status(r.server->state.mvcc).image_pins, 0);
    CHECK(server_rig_logged(&r, "successfully sent database snapshot to client"));

    buf_free(&file);
    visit_free(&v);
    server_rig_close(&r);
}

static bool is_compacted(const struct server_rig *r)
{
    return !mvcc_compact_pending(r->server->state.mvcc);
}

/* It keeps compaction away, so it is ended; with what was sent, the client cannot take it for
 * whole.
 */
TEST(a_snapshot_whose_client_does_not_read_ends)
{
    struct server_rig r;
    struct visit v, compaction;
    static char value[32 * KIB];
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = 0;
    for (unsigned i = 0; i < 100; i++) { /* beyond what the connection takes in */
        char key[16];
        snprintf(key, sizeof(key), "k%04u", i);
        server_rig_put(&r, key, value);
    }

    ask_snapshot(r.other, &v);
    while (!server_rig_logged(&r, "sending database snapshot to client"))
        server_rig_step(&r);
    conn_pause(client_conn(r.other));
    server_rig_ask(r.client, &compaction, COMPACT, &(struct pb_compaction_request){.revision = 9});
    server_rig_until_over(&r, &compaction);
    server_rig_for_ms(&r, IMAGE_STALLED_MS / 2);
    CHECK(!is_compacted(&r));
    server_rig_for_ms(&r, IMAGE_STALLED_MS);
    CHECK(is_compacted(&r));
    conn_resume(client_conn(r.other));
    server_rig_until_over(&r, &v);
    CHECK_EQ(v.code, RPC_UNKNOWN);
    CHECK(strncmp(buf_str(&v.text), "etcdserver: snapshot ended early: ", 34) == 0);

    visit_free(&v);
    visit_free(&compaction);
    server_rig_close(&r);
}

static void put_megabytes(struct server_rig *r)
{
    static char value[32 * KIB];
    char key[16];

    memset(value, 'v', sizeof(value) - 1);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%04u", i);
        server_rig_put(r, key, value);
    }
}

/* Its client takes a little now and then, so it does not stall; and takes all places for ever, if
 * nobody could have one of them. */
TEST(a_snapshot_read_too_slowly_ends_when_another_client_wants_one)
{
    enum { PLACES = CUTTING_IMAGES_MAX - CUTTING_MEMBERS_MAX };
    struct server_rig r;
    struct visit slow[PLACES], v;
    unsigned ended = 0;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_megabytes(&r);

    for (unsigned i = 0; i < PLACES; i++)
        ask_snapshot(r.other, &slow[i]);
    while (mvcc_status(r.server->state.mvcc).image_pins < PLACES)
        server_rig_step(&r);
    for (uint64_t ms = 0; ms < 2 * IMAGE_PACE_MS; ms += IMAGE_STALLED_MS / 2) {
        conn_pause(client_conn(r.other));
        server_rig_for_ms(&r, IMAGE_STALLED_MS / 2);
        conn_resume(client_conn(r.other));
        for (unsigned n = 0; n < 60; n++) /* so each of them moves */
            server_rig_step(&r);
    }
    conn_pause(client_conn(r.other));
    CHECK_EQ(mvcc_status(r.server->state.mvcc).image_pins, PLACES);
    ask_snapshot(r.client, &v);
    server_rig_until_over(&r, &v);
    CHECK_EQ(v.code, RPC_OK);

    conn_resume(client_conn(r.other));
    for (unsigned i = 0; i < PLACES; i++) {
        server_rig_until_over(&r, &slow[i]);
        if (slow[i].code != RPC_OK) {
            CHECK_STR(buf_str(&slow[i].text), "etcdserver: snapshot ended early: it is read too "
                                              "slowly, and others wait for its place");
            ended++;
        }
        visit_free(&slow[i]);
    }
    CHECK_EQ(ended, 1);
    visit_free(&v);
    server_rig_close(&r);
}

/* Whoever goes lets go of the image; so does a member that stops or crashes. */
TEST(a_snapshot_may_be_left_at_any_moment)
{
    struct server_rig r;
    struct visit v;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 2000);

    for (unsigned steps = 1; steps < 60; steps++) {
        ask_snapshot(r.other, &v);
        for (unsigned i = 0; i < steps; i++)
            server_rig_step(&r);
        visit_free(&v);
        server_rig_for_ms(&r, 1000);
        CHECK_EQ(mvcc_status(r.server->state.mvcc).image_pins, 0);
        server_check(r.server);
    }
    for (unsigned steps = 1; steps < 40; steps++) {
        ask_snapshot(r.other, &v);
        for (unsigned i = 0; i < steps; i++)
            server_rig_step(&r);
        if (steps % 2) {
            server_rig_stop(&r);
        } else {
            server_rig_crash(&r, FAKE_KILLED);
        }
        v.call = NULL; /* it has gone with its connection */
        visit_free(&v);
        server_rig_start(&r);
    }
    server_rig_close(&r);
}

TEST(too_many_snapshots_are_refused)
{
    enum { MANY = CUTTING_IMAGES_MAX - CUTTING_MEMBERS_MAX + 2 };
    struct server_rig r;
    struct visit v[MANY];
    unsigned refused = 0;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 2000);

    for (unsigned i = 0; i < MANY; i++)
        ask_snapshot(r.other, &v[i]);
    for (unsigned i = 0; i < MANY; i++) {
        server_rig_until_over(&r, &v[i]);
        if (v[i].code == RPC_OK)
            continue;
        CHECK_STR(buf_str(&v[i].text), "etcdserver: too many requests");
        refused++;
    }
    CHECK_EQ(refused, 2);

    for (unsigned i = 0; i < MANY; i++)
        visit_free(&v[i]);
    server_rig_close(&r);
}

/* ---- MoveLeader ---- */

static uint64_t id_of(struct cluster_rig *r, unsigned n)
{
    return server_status(r->at[n]->server).member_id;
}

static void expect_move(struct cluster_rig *r, unsigned asked, uint64_t to, enum rpc_code code,
                        const char *text)
{
    struct visit v;

    cluster_rig_ask(r, asked, &v, MOVE_LEADER, &(struct pb_move_leader_request){.target_id = to});
    cluster_rig_until_over(r, &v);
    CHECK_EQ(v.code, code);
    CHECK_STR(buf_str(&v.text), text);
    visit_free(&v);
}

TEST(the_leader_moves_to_whom_it_is_told)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r), next = cluster_rig_follower(&r);

    expect_move(&r, next, id_of(&r, next), RPC_FAILED_PRECONDITION, "etcdserver: not leader");
    expect_move(&r, leader, 77, RPC_FAILED_PRECONDITION, "etcdserver: bad leader transferee");
    expect_move(&r, leader, id_of(&r, leader), RPC_OK, ""); /* it does already */
    CHECK_EQ(cluster_rig_leader(&r), leader);
    expect_move(&r, leader, id_of(&r, next), RPC_OK, "");
    CHECK_EQ(cluster_rig_leader(&r), next);
    CHECK(cluster_rig_logged(&r, leader, "leadership transfer finished"));

    cluster_rig_close(&r);
}

TEST(a_leader_that_cannot_move_says_so_in_the_end)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r), next = cluster_rig_follower(&r);
    uint64_t to = id_of(&r, next);

    cluster_rig_cut(&r, next, true);
    expect_move(&r, leader, to, RPC_UNKNOWN,
                "etcdserver: request timed out, leader transfer took too long");
    CHECK_EQ(cluster_rig_leader(&r), leader);
    cluster_rig_put(&r, leader, "k", "v");
    cluster_rig_cut(&r, next, false);

    cluster_rig_close(&r);
}
