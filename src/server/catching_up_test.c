/* Snapshots from one member to another, whole: cut, sent, received, installed. */
#include "base/limits.h"
#include "base/mem.h"
#include "server/cluster_rig_test.h"
#include "server/digest.h"

#include <stdio.h>

static const char *const flags[] = {"--snapshot-count", "5", "--snapshot-catchup-entries", "1",
                                    NULL};

static void put_large(struct cluster_rig *r, unsigned n)
{
    enum { VALUE_BYTES = 20000 };
    char key[16], *value = mem_alloc(VALUE_BYTES + 1);

    memset(value, 'a' + (int)(n % 26), VALUE_BYTES);
    value[VALUE_BYTES] = 0;
    snprintf(key, sizeof(key), "k%u", n % 100);
    cluster_rig_put(r, cluster_rig_leader(r), key, value);
    mem_free(value);
}

static void check_equal(struct cluster_rig *r)
{
    struct digest first, other;

    cluster_rig_until_equal(r, cluster_rig_leader(r));
    while (!server_digest(r->at[1]->server, &first))
        cluster_rig_step(r);
    for (unsigned n = 2; n <= r->count; n++) {
        CHECK(server_digest(r->at[n]->server, &other));
        CHECK_EQ(other.applied, first.applied);
        CHECK_EQ(other.revision, first.revision);
        for (unsigned part = 0; part < DIGEST_PARTS; part++)
            CHECK_EQ(other.parts[part], first.parts[part]);
    }
}

TEST(a_member_that_was_away_is_back_in_step_while_writers_go_on)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, flags);
    cluster_rig_start_all(&r);
    for (unsigned round = 0; round < 4; round++) {
        unsigned away = cluster_rig_follower(&r);
        cluster_rig_crash(&r, away);
        for (unsigned i = 0; i < 200; i++)
            put_large(&r, round * 31 + i);

        cluster_rig_start(&r, away);
        unsigned i = 0;
        for (; server_installed(r.at[away]->server) == 0; i++)
            put_large(&r, i);
        CHECK(i < 2000);
        cluster_rig_until_ready(&r, away);
        put_large(&r, round);
        cluster_rig_for_ms(&r, 2000);
        check_equal(&r);
        cluster_rig_for_ms(&r, SENDING_LOG_MS); /* until then the log is kept for it */
    }
    cluster_rig_close(&r);
}

/* Whoever leads may fall in the midst of it. */
TEST(a_member_catches_up_though_its_leader_is_lost)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 5, flags);
    cluster_rig_start_all(&r);
    unsigned away = cluster_rig_follower(&r);
    cluster_rig_crash(&r, away);
    for (unsigned i = 0; i < 200; i++)
        put_large(&r, i);
    cluster_rig_start(&r, away);
    unsigned leader = cluster_rig_leader(&r);
    while (!cluster_rig_logged(&r, leader, "sending merged snapshot"))
        cluster_rig_step(&r);
    cluster_rig_crash(&r, leader);

    while (server_installed(r.at[away]->server) == 0)
        put_large(&r, 7);
    cluster_rig_until_ready(&r, away);
    cluster_rig_start(&r, leader);
    cluster_rig_until_ready(&r, leader);
    cluster_rig_for_ms(&r, 5000);
    check_equal(&r);
    cluster_rig_close(&r);
}

/* Its log takes whatever is sent, and its store is slow: what lies between the two is in memory. */
TEST(a_member_whose_store_hangs_does_not_take_in_what_it_cannot_apply)
{
    enum { VALUE_BYTES = 1000000, PUTS = 200 };
    struct cluster_rig r;
    char *value = mem_alloc(VALUE_BYTES + 1);
    uint64_t most = 0;
    memset(value, 'v', VALUE_BYTES);
    value[VALUE_BYTES] = 0;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned slow = cluster_rig_follower(&r), leader = cluster_rig_leader(&r);

    fake_workers_hang(&r.at[slow]->store_worker, FAKE_DISK_FOR_EVER);
    for (unsigned i = 0; i < PUTS; i++) {
        cluster_rig_put(&r, leader, "k", value);
        struct server_status s = server_status(r.at[slow]->server);
        most = s.committed - s.applied > most ? s.committed - s.applied : most;
    }
    CHECK(most > 1); /* or this test shows nothing */
    CHECK(most * VALUE_BYTES <= RAFT_UNAPPLIED_BYTES_MAX + PEER_IN_BYTES_MAX);

    fake_workers_hang(&r.at[slow]->store_worker, 0);
    cluster_rig_until_equal(&r, leader);
    mem_free(value);
    cluster_rig_close(&r);
}

static size_t in_memory(const struct cluster_rig *r, unsigned n)
{
    struct server_status s = server_status(r->at[n]->server);

    return s.log_pending_bytes + s.store_pending_bytes + (size_t)s.unapplied_bytes;
}

/*
 * Of a member that was away all the others have more than it can hold. Nobody waits for it before
 * it is in step, so it takes what it is sent in small batches, however slow its store is; whereas
 * one that is in step takes in what it can, or its clients would wait for its disk.
 */
TEST(a_member_that_was_away_holds_little_of_what_it_is_sent)
{
    enum { VALUE_BYTES = 1000000, PUTS = 60 };
    struct cluster_rig r;
    char *value = mem_alloc(VALUE_BYTES + 1);
    size_t most = 0;
    memset(value, 'v', VALUE_BYTES);
    value[VALUE_BYTES] = 0;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned away = cluster_rig_follower(&r), leader = cluster_rig_leader(&r);
    cluster_rig_cut(&r, away, true);
    for (unsigned i = 0; i < PUTS; i++)
        cluster_rig_put(&r, leader, "k", value);

    fake_workers_hang(&r.at[away]->store_worker, 20 * NS_PER_S);
    cluster_rig_cut(&r, away, false);
    while (server_status(r.at[away]->server).applied <
           server_status(r.at[leader]->server).applied) {
        cluster_rig_step(&r);
        most = in_memory(&r, away) > most ? in_memory(&r, away) : most;
    }
    CHECK(most > 4 * VALUE_BYTES); /* or this test shows nothing */
    CHECK(most <=
          CATCH_UP_STORE_BYTES_MAX + 2 * (CATCH_UP_LOG_BYTES_MAX + 2 * RAFT_MESSAGE_BYTES_MAX));

    cluster_rig_until_equal(&r, leader);
    mem_free(value);
    cluster_rig_close(&r);
}
