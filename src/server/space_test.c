/*
 * A member whose disk is full, alone and one of three, and what becomes of it when there is space.
 */
#include "server/cluster_rig_test.h"
#include "server/server_int.h"
#include "server/server_rig_test.h"

#include "base/mem.h"

#include <stdio.h>

enum { SEGMENT = 256 * KIB, VALUE = 8 * KIB };

#define NO_SPACE_TEXT "etcdserver: mvcc: database space exceeded"
#define FULL_LINE     "no space left on the disk; writes are refused"
#define AGAIN_LINE    "there is space on the disk again"

static unsigned count_of(const struct buf *in, const char *text)
{
    unsigned count = 0;

    for (const uint8_t *at = in->at; at && in->len > 0;) {
        at = memmem(at, (size_t)(in->at + in->len - at), text, strlen(text));
        count += at != NULL;
        at = at ? at + 1 : NULL;
    }
    return count;
}

static struct pb_put_request put_of(char key[static 16], unsigned n, const uint8_t value[VALUE])
{
    snprintf(key, 16, "k%u", n);
    return (struct pb_put_request){.key = bytes_of_str(key), .value = bytes_of(value, VALUE)};
}

/* --- alone --- */

/* Puts until one is refused; how many keys there are then. */
static unsigned fill(struct server_rig *r, unsigned n, const uint8_t value[VALUE])
{
    char key[16];
    struct visit v;
    bool is_full = false;

    for (; !is_full; n += !is_full) {
        struct pb_put_request put = put_of(key, n, value);
        CHECK(n < 10000);
        server_rig_ask(r->client, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
        server_rig_until_over(r, &v);
        is_full = v.code != RPC_OK;
        if (is_full) {
            CHECK_EQ(v.code, RPC_RESOURCE_EXHAUSTED);
            CHECK_STR(buf_str(&v.text), NO_SPACE_TEXT);
        }
        visit_free(&v);
        server_rig_for_ms(r, 20);
    }
    return n;
}

static int64_t count_keys(struct server_rig *r)
{
    struct visit v;
    struct pb_range_request all = {.key = BYTES("k"), .range_end = BYTES("l"), .count_only = true};
    struct arena arena = {0};
    struct pb_range_response got;

    server_rig_ask(r->client, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema, &all);
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    CHECK_EQ(pb_decode(&pb_range_response_schema, buf_bytes(&v.messages[0]), &arena, &got), ERR_OK);
    int64_t count = got.count;
    arena_free(&arena);
    visit_free(&v);
    return count;
}

static size_t count_alarms(struct server_rig *r)
{
    struct visit v;
    struct arena arena = {0};
    struct pb_alarm_response got;

    server_rig_ask(r->client, &v, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema,
                   &(struct pb_alarm_request){.action = PB_ALARM_GET});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    CHECK_EQ(pb_decode(&pb_alarm_response_schema, buf_bytes(&v.messages[0]), &arena, &got), ERR_OK);
    size_t count = got.alarms.count;
    arena_free(&arena);
    visit_free(&v);
    return count;
}

/* The first write that is taken again, and when. */
static uint64_t until_writable(struct server_rig *r)
{
    uint64_t began_ms = server_rig_now_ms(r);
    struct pb_put_request put = {.key = BYTES("again")};
    struct visit v;
    bool is_taken;

    do {
        server_rig_ask(r->client, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
        server_rig_until_over(r, &v);
        is_taken = v.code == RPC_OK;
        visit_free(&v);
        server_rig_for_ms(r, 10);
        CHECK(server_rig_now_ms(r) - began_ms < 10000);
    } while (!is_taken);
    return server_rig_now_ms(r) - began_ms;
}

static void check_full(struct server_rig *r, unsigned written)
{
    CHECK_EQ(count_keys(r), written); /* linearizable */
    CHECK_EQ(count_alarms(r), 1);
    server_rig_for_ms(r, 5000);
    CHECK_EQ(count_keys(r), written);
    CHECK_EQ(count_of(&r->logged, FULL_LINE), 1);
    CHECK_EQ(count_of(&r->logged, AGAIN_LINE), 0);
}

TEST(a_member_whose_log_has_no_space_refuses_writes_and_goes_on_later)
{
    static const uint8_t value[VALUE];
    struct server_rig r;
    server_rig_open(&r, NULL);
    r.segment_bytes = SEGMENT;
    server_rig_start(&r);

    for (unsigned round = 1, written = 0; round <= 3; round++) {
        buf_clear(&r.logged);
        fake_disk_set_space(r.world->disk, 3000);
        written = fill(&r, written, value);
        check_full(&r, written);
        CHECK(server_rig_logged(&r, "\"bytes-left\":"));
        CHECK(server_rig_logged(&r, "\"full\":\"log\""));
        fake_disk_set_space(r.world->disk, FAKE_DISK_NOT_FULL);
        CHECK(until_writable(&r) < 2000);
        CHECK_EQ(count_of(&r.logged, AGAIN_LINE), 1);
        CHECK_EQ(count_alarms(&r), 0);
    }
    server_rig_close(&r);
}

TEST(a_member_whose_store_has_no_space_refuses_writes_and_goes_on_later)
{
    static const uint8_t value[VALUE];
    struct server_rig r;
    server_rig_open(&r, NULL);
    server_rig_start(&r);

    for (unsigned round = 1, written = 0; round <= 3; round++) {
        buf_clear(&r.logged);
        memory_disk_set_space(r.memory, 0);
        written = fill(&r, written, value);
        check_full(&r, written);
        CHECK(server_rig_logged(&r, "\"full\":\"store\""));
        memory_disk_set_space(r.memory, MEMORY_DISK_NOT_FULL);
        CHECK(until_writable(&r) < 2000);
        CHECK_EQ(count_of(&r.logged, AGAIN_LINE), 1);
    }
    server_rig_close(&r);
}

/* What was acknowledged is there after all of it, however it ended. */
TEST(a_member_with_a_full_disk_can_be_stopped_or_crash)
{
    static const uint8_t value[VALUE];

    for (unsigned i = 0; i < 8; i++) {
        struct server_rig r;
        server_rig_open(&r, NULL);
        r.segment_bytes = SEGMENT;
        server_rig_start(&r);
        if (i & 1)
            memory_disk_set_space(r.memory, 0);
        if (i & 2)
            fake_disk_set_space(r.world->disk, 3000);
        unsigned written = i & 3 ? fill(&r, 0, value) : 0;

        if (i & 4)
            server_rig_stop(&r);
        else
            server_rig_crash(&r, FAKE_POWER_CUT);
        memory_disk_set_space(r.memory, MEMORY_DISK_NOT_FULL);
        fake_disk_set_space(r.world->disk, FAKE_DISK_NOT_FULL);
        server_rig_start(&r);

        CHECK_EQ(count_keys(&r), written);
        server_rig_close(&r);
    }
}

/* --- starting --- */

TEST(a_member_that_starts_on_a_full_disk_waits_for_space)
{
    struct server_rig r;
    server_rig_open(&r, NULL);
    fake_disk_set_space(r.world->disk, 1000);

    CHECK_EQ(server_rig_try(&r), ERR_OK);
    server_rig_for_ms(&r, 5000);
    CHECK(!r.ready);
    CHECK_EQ(count_of(&r.logged, "the member waits until there is some"), 1);
    CHECK(server_rig_logged(&r, "\"bytes-left\":1000"));
    fake_disk_set_space(r.world->disk, FAKE_DISK_NOT_FULL);
    uint64_t began_ms = server_rig_now_ms(&r);
    while (!r.ready)
        server_rig_step(&r);

    CHECK(server_rig_now_ms(&r) - began_ms < 2000);
    CHECK_EQ(count_of(&r.logged, AGAIN_LINE), 1);
    server_rig_close(&r);
}

TEST(a_member_that_waits_for_space_to_start_can_be_stopped)
{
    struct server_rig r;
    server_rig_open(&r, NULL);
    fake_disk_set_space(r.world->disk, 1000);

    CHECK_EQ(server_rig_try(&r), ERR_OK);
    server_rig_for_ms(&r, 500);
    server_rig_stop(&r);

    server_rig_close(&r);
}

/* It has what it had, and serves it. */
TEST(a_member_that_was_full_when_it_was_killed_serves_reads_again)
{
    static const uint8_t value[VALUE];
    struct server_rig r;
    server_rig_open(&r, NULL);
    r.segment_bytes = SEGMENT;
    server_rig_start(&r);
    fake_disk_set_space(r.world->disk, 3000);
    unsigned written = fill(&r, 0, value);

    server_rig_crash(&r, FAKE_KILLED);
    fake_disk_set_space(r.world->disk, 0);
    server_rig_start(&r);

    CHECK_EQ(count_keys(&r), written);
    fake_disk_set_space(r.world->disk, FAKE_DISK_NOT_FULL);
    CHECK(until_writable(&r) < 2000);
    server_rig_close(&r);
}

/* --- one of three --- */

static void set_full(struct cluster_rig *r, unsigned n, bool is_full)
{
    memory_disk_set_space(r->at[n]->memory, is_full ? 0 : MEMORY_DISK_NOT_FULL);
    fake_disk_set_space(r->at[n]->disk, is_full ? 3000 : FAKE_DISK_NOT_FULL);
}

static bool is_full(struct cluster_rig *r, unsigned n)
{
    return count_of(&r->at[n]->logged, FULL_LINE) > count_of(&r->at[n]->logged, AGAIN_LINE);
}

TEST(a_leader_with_a_full_disk_hands_over_and_catches_up_later)
{
    struct cluster_rig r;
    struct visit v;
    cluster_rig_open(&r, 3, NULL);
    r.segment_bytes = SEGMENT;
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r);

    set_full(&r, first, true);
    cluster_rig_put(&r, first, "k", "v");
    while (!is_full(&r, first))
        cluster_rig_step(&r);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    while (cluster_rig_leader(&r) == first)
        cluster_rig_step(&r);
    CHECK(cluster_rig_now_ms(&r) - began_ms < 1000);
    unsigned second = cluster_rig_leader(&r);
    for (unsigned i = 0; i < 20; i++)
        cluster_rig_put(&r, second, "k", "by another");
    cluster_rig_ask(&r, first, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("k")});
    cluster_rig_until_over(&r, &v);
    CHECK_EQ(v.code, RPC_RESOURCE_EXHAUSTED);
    visit_free(&v);
    cluster_rig_for_ms(&r, 3000);
    CHECK_EQ(cluster_rig_leader(&r), second); /* nobody was disturbed */
    set_full(&r, first, false);
    began_ms = cluster_rig_now_ms(&r);
    while (is_full(&r, first))
        cluster_rig_step(&r);
    cluster_rig_until_equal(&r, second);

    CHECK(cluster_rig_now_ms(&r) - began_ms < 2000);
    CHECK_STR(cluster_rig_get(&r, first, "k", false), "by another");
    cluster_rig_put(&r, first, "k", "and taken again");
    cluster_rig_close(&r);
}

TEST(a_follower_with_a_full_disk_takes_no_memory_and_catches_up_later)
{
    char value[VALUE + 1];
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    r.segment_bytes = SEGMENT;
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r), full = cluster_rig_follower(&r);
    memset(value, 'v', VALUE);
    value[VALUE] = 0;

    set_full(&r, full, true);
    while (!is_full(&r, full))
        cluster_rig_put(&r, leader, "k", value);
    for (unsigned i = 0; i < 200; i++)
        cluster_rig_put(&r, leader, "k", value);
    struct server_status status = server_status(r.at[full]->server);
    CHECK(status.log_pending_bytes < 4 * SEGMENT);
    CHECK(status.applied + 100 < server_status(r.at[leader]->server).applied);
    CHECK_EQ(cluster_rig_leader(&r), leader);
    set_full(&r, full, false);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    cluster_rig_until_equal(&r, leader);

    CHECK(cluster_rig_now_ms(&r) - began_ms < 2000);
    cluster_rig_close(&r);
}

static void never_cut(struct cutting_request *request, struct image *image, const char *why)
{
    (void)request;
    (void)image;
    (void)why;
    test_fail(__FILE__, __LINE__, "an image was cut where nothing can be committed");
}

/* A commit may be waited for before an image is cut, but not one that waits for space. */
TEST(a_follower_with_a_full_store_applies_what_comes_while_an_image_is_asked_for)
{
    struct cluster_rig r;
    struct cutting_request request = {.on_cut = never_cut};
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r), full = cluster_rig_follower(&r);

    memory_disk_set_space(r.at[full]->memory, 0);
    while (!is_full(&r, full))
        cluster_rig_put(&r, leader, "k", "before");
    cutting_ask(&r.at[full]->server->cutting, &request);
    cluster_rig_for_ms(&r, 2 * CUTTING_PATIENCE_MS);
    cluster_rig_put(&r, leader, "k", "after");

    CHECK_STR(cluster_rig_get(&r, full, "k", false), "after");
    cutting_forget(&r.at[full]->server->cutting, &request);
    memory_disk_set_space(r.at[full]->memory, MEMORY_DISK_NOT_FULL);
    cluster_rig_close(&r);
}

/* Leadership goes round, slowly, and nothing is lost. */
TEST(three_members_with_full_disks_wait_and_go_on)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);
    uint64_t since_ms = cluster_rig_now_ms(&r);
    for (unsigned n = 1; n <= 3; n++)
        set_full(&r, n, true);

    cluster_rig_put(&r, leader, "k", "v");
    while (!is_full(&r, 1) || !is_full(&r, 2) || !is_full(&r, 3))
        cluster_rig_step(&r);
    cluster_rig_for_ms(&r, 20000);
    CHECK_STR(cluster_rig_get(&r, 1, "k", false), "v");
    for (unsigned n = 1; n <= 3; n++)
        set_full(&r, n, false);
    cluster_rig_for_ms(&r, 2000);

    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_put(&r, n, "k", "again");
    uint64_t times_max = 1 + (cluster_rig_now_ms(&r) - since_ms) / SPACE_RESIGN_MS;
    for (unsigned n = 1; n <= 3; n++)
        CHECK(count_of(&r.at[n]->logged, "leadership transfer starting") <= times_max);
    cluster_rig_close(&r);
}
