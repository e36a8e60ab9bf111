/* Members that do not hold the same: who notices, who is named, and what it does to clients. */
#include "server/corruption.h"

#include "peer/peer.h"
#include "server/cluster_rig_test.h"
#include "server/damage_test.h"
#include "server/server_int.h"

#include <stdio.h>

/* --- asking --- */

static uint64_t id_of(const struct cluster_rig *r, unsigned n)
{
    return server_status(r->at[n]->server).member_id;
}

static void compact(struct cluster_rig *r, unsigned n, int64_t revision)
{
    struct visit v;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                    &(struct pb_compaction_request){.revision = revision, .physical = true});
    cluster_rig_until_over(r, &v);
    CHECK_EQ(v.message_count, 1);
    visit_free(&v);
}

/* What member n says of alarms: " 7f..:2" for each, "" for none. Good until the next. */
static const char *alarms(struct cluster_rig *r, unsigned n, int action, uint64_t member)
{
    static char text[128];
    struct pb_alarm_request ask = {
        .action = action, .member_id = member, .alarm = action ? PB_ALARM_CORRUPT : PB_ALARM_NONE};
    struct pb_alarm_response got = {0};
    struct arena arena = {0};
    struct buf out = {0};
    struct visit v;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema, &ask);
    cluster_rig_until_over(r, &v);
    CHECK_EQ(v.message_count, 1);
    visit_decode(&v, 0, &pb_alarm_response_schema, &arena, &got);
    for (size_t i = 0; i < got.alarms.count; i++)
        buf_printf(&out, " %llx:%d", (unsigned long long)got.alarms.at[i].member_id,
                   (int)got.alarms.at[i].alarm);
    snprintf(text, sizeof(text), "%s", buf_str(&out));
    buf_free(&out);
    arena_free(&arena);
    visit_free(&v);
    return text;
}

static const char *alarm_of(const struct cluster_rig *r, unsigned n)
{
    static char text[64];

    snprintf(text, sizeof(text), " %llx:2", (unsigned long long)id_of(r, n));
    return text;
}

/* The value of k is another one at member n; it is down for as long. */
static void damage(struct cluster_rig *r, unsigned n)
{
    cluster_rig_stop(r, n);
    damage_value(&(struct backend_options){.memory = r->at[n]->memory}, "k");
}

enum { LAST = 11 }; /* revision of a fresh store with ten puts: the one that is damaged */

static void open_with(struct cluster_rig *r, unsigned count, const char *const *flags)
{
    cluster_rig_open(r, count, flags);
    cluster_rig_start_all(r);
    unsigned leader = cluster_rig_leader(r);
    for (unsigned i = 0; i < 10; i++)
        cluster_rig_put(r, leader, i % 2 ? "k" : "other", "value");
    cluster_rig_until_equal(r, leader);
}

static void until_logged(struct cluster_rig *r, unsigned n, const char *text)
{
    uint64_t until_ms = cluster_rig_now_ms(r) + 60000;

    while (!cluster_rig_logged(r, n, text)) {
        if (cluster_rig_now_ms(r) > until_ms)
            test_fail(__FILE__, __LINE__, "m%u never said: %s", n, text);
        cluster_rig_step(r);
    }
}

/* Until the next check that has not begun yet is over. */
static void until_checked(struct cluster_rig *r, unsigned n, const char *end)
{
    until_logged(r, n, end);
    buf_clear(&r->at[n]->logged);
    until_logged(r, n, end);
}

static void restart(struct cluster_rig *r, unsigned n)
{
    cluster_rig_start(r, n);
    cluster_rig_until_ready(r, n);
    cluster_rig_until_equal(r, cluster_rig_leader(r));
}

#define PERIODIC_END   "finished peer corruption check"
#define COMPACTION_END "finished compaction hash check"

/* --- periodic --- */

static const char *const periodic[] = {"--corrupt-check-time=3s", NULL};

TEST(members_that_hold_the_same_are_left_alone)
{
    struct cluster_rig r;
    static const char *const all[] = {
        "--corrupt-check-time=1s", "--compact-hash-check-time=1s",
        "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true", NULL};

    open_with(&r, 3, all);
    compact(&r, cluster_rig_leader(&r), 5);
    for (unsigned n = 1; n <= 3; n++) {
        cluster_rig_stop(&r, n);
        restart(&r, n);
        CHECK(cluster_rig_logged(&r, n, "initial corruption checking passed; no corruption"));
        cluster_rig_put(&r, n, "k", "again");
        compact(&r, n, 6 + (int64_t)n);
    }
    unsigned leader = cluster_rig_leader(&r);
    until_logged(&r, leader, "successfully checked hash on whole cluster");
    until_checked(&r, leader, PERIODIC_END);
    until_checked(&r, leader, COMPACTION_END);
    CHECK_STR(alarms(&r, leader, PB_ALARM_GET, 0), "");
    CHECK_STR(cluster_rig_get(&r, 1, "k", false), "again");
    cluster_rig_close(&r);
}

TEST(a_follower_that_differs_from_the_leader_is_named)
{
    struct cluster_rig r;

    open_with(&r, 3, periodic);
    unsigned bad = cluster_rig_follower(&r);
    damage(&r, bad);
    restart(&r, bad);
    unsigned leader = cluster_rig_leader(&r);
    CHECK(leader != bad);
    until_logged(&r, leader, "same compact revision then hashes must match");
    until_checked(&r, leader, PERIODIC_END);

    for (unsigned n = 1; n <= 3; n++) {
        cluster_rig_until_equal(&r, leader);
        CHECK_STR(alarms(&r, n, PB_ALARM_GET, 0), alarm_of(&r, bad));
    }
    cluster_rig_close(&r);
}

static void check_refused(struct cluster_rig *r, unsigned n)
{
    struct pb_put_request put = {.key = BYTES("k"), .value = BYTES("w")};
    struct visit v;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    cluster_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_DATA_LOSS);
    CHECK_STR(buf_str(&v.text), "etcdserver: corrupt cluster");
    visit_free(&v);
}

/* Writes are refused, reads are not; and when the alarm is disarmed all is as before. */
TEST(a_corrupt_cluster_takes_no_writes_until_the_alarm_is_disarmed)
{
    struct cluster_rig r;
    char named[64];

    open_with(&r, 3, periodic);
    unsigned bad = cluster_rig_follower(&r);
    uint64_t id = id_of(&r, bad);
    snprintf(named, sizeof(named), "%s", alarm_of(&r, bad));
    damage(&r, bad);
    restart(&r, bad);
    unsigned leader = cluster_rig_leader(&r);
    until_checked(&r, leader, PERIODIC_END);
    cluster_rig_until_equal(&r, leader);

    check_refused(&r, bad);
    check_refused(&r, leader);
    CHECK_STR(cluster_rig_get(&r, leader, "k", false), "value");
    CHECK_STR(cluster_rig_get(&r, bad, "k", true), "valud"); /* it has no way to know */

    cluster_rig_stop(&r, bad); /* or it would be named again */
    CHECK_STR(alarms(&r, leader, PB_ALARM_DEACTIVATE, id_of(&r, leader)), "");
    check_refused(&r, leader);
    CHECK_STR(alarms(&r, leader, PB_ALARM_DEACTIVATE, id), named);
    CHECK_STR(alarms(&r, leader, PB_ALARM_GET, 0), "");
    cluster_rig_put(&r, leader, "k", "w");
    cluster_rig_close(&r);
}

/* It is not named for being silent, nor for being behind. */
TEST(a_member_that_does_not_answer_is_not_named)
{
    struct cluster_rig r;

    open_with(&r, 3, periodic);
    unsigned leader = cluster_rig_leader(&r), away = cluster_rig_follower(&r);
    cluster_rig_cut(&r, away, true);
    until_checked(&r, leader, PERIODIC_END);
    CHECK(cluster_rig_logged(&r, leader, "failed hash kv request"));
    CHECK(cluster_rig_logged(&r, leader, "\"number-of-peers-checked\":1"));
    CHECK_STR(alarms(&r, leader, PB_ALARM_GET, 0), "");
    cluster_rig_close(&r);
}

/* What one follower tells, beside the leader's own: added to its newest revision and its hash, and
 * the compact revision, which is 5 at the leader. */
struct scripted {
    int64_t newer;
    int64_t compact_revision;
    uint32_t other;
};

/* In place of the nth follower, before it can. */
static void tell_scripted(struct corruption *c, size_t nth, const struct scripted *script)
{
    struct member_hash told = {.newest = c->own.revision + script->newer,
                               .revision = c->own.revision,
                               .compact_revision = script->compact_revision,
                               .hash = c->own.hash + script->other};
    struct buf body = {0};

    member_hash_json_write(&told, &body);
    corruption_result(
        c, &(struct peer_event){.kind = PEER_RESULT,
                                .id = (uint64_t)PEERING_TOKEN_HASH << PEERING_TOKEN_SHIFT |
                                      c->round.number << 8 | nth,
                                .status = 200,
                                .body = buf_bytes(&body)});
    buf_free(&body);
}

/* Who of the two is named: a bit for each. */
static unsigned named_by_script(const struct scripted *first, const struct scripted *second)
{
    struct cluster_rig r;
    unsigned named = 0;

    open_with(&r, 3, periodic);
    unsigned leader = cluster_rig_leader(&r);
    compact(&r, leader, 5);
    struct corruption *c = &r.at[leader]->server->corruption;
    while (c->step != CORRUPTION_ASKING || c->own.compact_revision != 5)
        cluster_rig_step(&r);
    tell_scripted(c, 0, first);
    tell_scripted(c, 1, second);
    CHECK(hash_round_is_over(&c->round));
    buf_clear(&r.at[leader]->logged);
    until_logged(&r, leader, PERIODIC_END);
    const char *told = alarms(&r, leader, PB_ALARM_GET, 0);
    for (unsigned i = 0; i < 2; i++) {
        char id[32];
        snprintf(id, sizeof(id), " %llx:2", (unsigned long long)c->round.replies[i].member);
        named |= strstr(told, id) ? 1u << i : 0;
    }
    cluster_rig_close(&r);
    return named;
}

TEST(a_follower_is_named_for_what_cannot_be_and_no_more)
{
    static const struct scripted same = {0, 5, 0}, differs = {0, 5, 1}, behind = {0, 3, 1},
                                 compacted = {0, 6, 1}, ahead = {1, 5, 0};

    CHECK_EQ(named_by_script(&same, &same), 0);
    CHECK_EQ(named_by_script(&same, &differs), 2);
    CHECK_EQ(named_by_script(&behind, &same), 0); /* a hash of something else */
    CHECK_EQ(named_by_script(&compacted, &same), 1);
    CHECK_EQ(named_by_script(&same, &ahead), 2);
    CHECK_EQ(named_by_script(&differs, &differs), 1); /* the first */
}

/* The process stood still, and both checks are overdue; that of compactions finds none, and is over
 * at once. */
TEST(a_check_that_is_overdue_follows_another)
{
    static const char *const both[] = {"--corrupt-check-time=7s", "--compact-hash-check-time=5s",
                                       "--feature-gates=CompactHashCheck=true", NULL};
    struct cluster_rig r;
    open_with(&r, 1, both);
    cluster_rig_pause(&r, 1, true);
    cluster_rig_for_ms(&r, 20000);
    cluster_rig_pause(&r, 1, false);

    until_logged(&r, 1, COMPACTION_END);
    const struct timer *t = &r.at[1]->server->corruption.timer;
    CHECK(!timer_is_set(t) || t->deadline_ns <= clock_now_ns(&r.at[1]->clock.base));

    until_logged(&r, 1, PERIODIC_END);
    cluster_rig_close(&r);
}

/* --- compactions --- */

static const char *const compactions[] = {"--compact-hash-check-time=3s",
                                          "--feature-gates=CompactHashCheck=true", NULL};

/* The majority is right, even against the leader. */
static void check_compaction_names(bool leader_is_bad)
{
    struct cluster_rig r;

    open_with(&r, 3, compactions);
    unsigned bad = cluster_rig_follower(&r);
    damage(&r, bad);
    restart(&r, bad);
    for (unsigned n = 1; leader_is_bad && cluster_rig_leader(&r) != bad; n++) {
        CHECK(n < 100);
        unsigned leader = cluster_rig_leader(&r);
        struct visit v;
        cluster_rig_ask(&r, leader, &v, "/etcdserverpb.Maintenance/MoveLeader",
                        &pb_move_leader_request_schema,
                        &(struct pb_move_leader_request){.target_id = id_of(&r, bad)});
        cluster_rig_until_over(&r, &v);
        visit_free(&v);
    }
    unsigned leader = cluster_rig_leader(&r);
    compact(&r, leader, LAST);
    cluster_rig_until_equal(&r, leader);
    until_logged(&r, leader, "Detected compaction hash mismatch");
    until_checked(&r, leader, COMPACTION_END);

    CHECK_EQ(leader == bad, leader_is_bad);
    CHECK_STR(alarms(&r, leader, PB_ALARM_GET, 0), alarm_of(&r, bad));
    cluster_rig_close(&r);
}

TEST(a_compaction_that_differs_from_the_majority_names_its_member)
{
    check_compaction_names(false);
    check_compaction_names(true);
}

static void delete_all(struct cluster_rig *r, unsigned n)
{
    struct visit v;

    cluster_rig_ask(
        r, n, &v, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
        &(struct pb_delete_range_request){.key = BYTES("\0"), .range_end = BYTES("\0")});
    cluster_rig_until_over(r, &v);
    CHECK_EQ(v.message_count, 1);
    visit_free(&v);
}

/* No key is left at the revision of a compaction: whoever has not made it yet, and whoever has, say
 * different things of the same store. */
static void check_emptied(const char *const *flags, bool is_compacted, const char *end)
{
    struct cluster_rig r;

    open_with(&r, 3, flags);
    unsigned leader = cluster_rig_leader(&r);
    compact(&r, leader, LAST);
    until_checked(&r, leader, end);
    delete_all(&r, leader);
    if (is_compacted)
        compact(&r, leader, LAST + 1);
    struct corruption *c = &r.at[leader]->server->corruption;
    while (c->step != CORRUPTION_ASKING || c->own.revision != LAST + 1)
        cluster_rig_step(&r);
    CHECK_EQ(c->own.compact_revision, LAST);
    CHECK(c->own.other != c->own.hash);
    tell_scripted(c, 0, &(struct scripted){0, LAST, c->own.other - c->own.hash});
    tell_scripted(c, 1, &(struct scripted){0, LAST, 0});
    buf_clear(&r.at[leader]->logged);
    until_logged(&r, leader, end);
    CHECK_STR(alarms(&r, leader, PB_ALARM_GET, 0), "");
    cluster_rig_close(&r);
}

TEST(nobody_is_named_for_a_compaction_that_it_has_not_made_yet)
{
    check_emptied(compactions, true, COMPACTION_END);
    check_emptied(periodic, false, PERIODIC_END);
}

TEST(without_a_majority_nobody_can_be_named)
{
    struct cluster_rig r;

    open_with(&r, 2, compactions);
    unsigned bad = cluster_rig_follower(&r);
    damage(&r, bad);
    restart(&r, bad);
    unsigned leader = cluster_rig_leader(&r);
    compact(&r, leader, LAST);
    until_logged(&r, leader, "cannot identify the corrupted members");
    until_checked(&r, leader, COMPACTION_END);

    CHECK_STR(alarms(&r, leader, PB_ALARM_GET, 0), " 0:2");
    cluster_rig_close(&r);
}

/* One of three is away: two that agree say nothing of it, and older compactions are looked at until
 * one was compared with all. */
TEST(a_compaction_that_not_all_have_is_compared_again)
{
    struct cluster_rig r;

    open_with(&r, 3, compactions);
    unsigned leader = cluster_rig_leader(&r), away = cluster_rig_follower(&r);
    compact(&r, leader, 5);
    cluster_rig_until_equal(&r, leader);
    cluster_rig_cut(&r, away, true);
    compact(&r, leader, 8);
    until_checked(&r, leader, COMPACTION_END);
    CHECK(cluster_rig_logged(&r, leader, "was not able to check all peers"));

    cluster_rig_cut(&r, away, false);
    cluster_rig_until_equal(&r, leader);
    until_checked(&r, leader, COMPACTION_END);
    until_logged(&r, leader, "successfully checked hash on whole cluster");
    until_checked(&r, leader, COMPACTION_END);
    CHECK(cluster_rig_logged(&r, leader, "\"number-of-hashes-checked\":0"));
    CHECK_STR(alarms(&r, leader, PB_ALARM_GET, 0), "");
    cluster_rig_close(&r);
}

/* --- initial --- */

static const char *const initial[] = {"--feature-gates=InitialCorruptCheck=true", NULL};

TEST(a_member_that_differs_does_not_start)
{
    struct cluster_rig r;
    char why[64];

    open_with(&r, 3, initial);
    unsigned bad = cluster_rig_follower(&r);
    snprintf(why, sizeof(why), "%llx found data inconsistency with peers",
             (unsigned long long)id_of(&r, bad));
    CHECK(!cluster_rig_logged(&r, bad, "starting initial corruption check")); /* it was new */
    damage(&r, bad);
    r.at[bad]->may_fail = true;
    cluster_rig_start(&r, bad);
    until_logged(&r, bad, "checkInitialHashKV failed");

    CHECK(r.at[bad]->failed);
    CHECK_STR(buf_str(&r.at[bad]->why), why);
    CHECK(!r.at[bad]->ready);
    CHECK(cluster_rig_logged(&r, bad, "found different hash values from remote peer"));
    cluster_rig_crash(&r, bad);
    CHECK_STR(alarms(&r, cluster_rig_leader(&r), PB_ALARM_GET, 0), "");
    cluster_rig_close(&r);
}

/* Nobody has told it that it is wrong, so it is right. */
TEST(a_member_that_nobody_answers_starts)
{
    struct cluster_rig r;

    open_with(&r, 3, initial);
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_stop(&r, n);
    cluster_rig_start(&r, 2);
    until_logged(&r, 2, "initial corruption checking passed; no corruption");
    CHECK(cluster_rig_logged(&r, 2, "failed hash kv request"));
    cluster_rig_start(&r, 1);
    cluster_rig_start(&r, 3);
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_until_ready(&r, n);
    CHECK_STR(cluster_rig_get(&r, 3, "k", false), "value");
    cluster_rig_close(&r);
}

/* All of them at once: each tells the others, though none serves yet. */
TEST(members_that_start_together_are_compared)
{
    struct cluster_rig r;

    open_with(&r, 3, initial);
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_stop(&r, n);
    damage_value(&(struct backend_options){.memory = r.at[2]->memory}, "k");
    for (unsigned n = 1; n <= 3; n++) {
        r.at[n]->may_fail = true;
        cluster_rig_start(&r, n);
    }
    until_logged(&r, 2, "checkInitialHashKV failed");
    for (unsigned n = 1; n <= 3; n++)
        if (r.at[n]->failed)
            cluster_rig_crash(&r, n);
    cluster_rig_close(&r);
}

TEST(a_member_can_be_stopped_while_it_is_compared)
{
    struct cluster_rig r;

    open_with(&r, 3, initial);
    unsigned n = cluster_rig_follower(&r);
    cluster_rig_stop(&r, n);
    cluster_rig_cut(&r, n, true);
    buf_clear(&r.at[n]->logged);
    cluster_rig_start(&r, n);
    until_logged(&r, n, "starting initial corruption check");
    cluster_rig_for_ms(&r, 500);
    CHECK(!cluster_rig_logged(&r, n, "initial corruption checking passed"));
    cluster_rig_stop(&r, n);
    cluster_rig_cut(&r, n, false);
    restart(&r, n);
    cluster_rig_close(&r);
}
