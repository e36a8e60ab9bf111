#include "raft/quorum.h"

#include "harness/test.h"

static struct raft_ids ids(size_t count, const uint64_t *at)
{
    struct raft_ids set = {0};

    for (size_t i = 0; i < count; i++)
        raft_ids_insert(&set, at[i]);
    return set;
}

#define IDS(...)                                                                                   \
    ids(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[]){__VA_ARGS__})

/* What each voter acknowledged or voted, by id; 0 is nothing. */
static bool acked_by_table(const void *context, uint64_t id, uint64_t *index)
{
    *index = ((const uint64_t *)context)[id];
    return *index != 0;
}

static enum quorum_vote voted_by_table(const void *context, uint64_t id)
{
    return ((const enum quorum_vote *)context)[id];
}

TEST(ids_are_an_ordered_set)
{
    struct raft_ids set = IDS(3, 1, 2, 3, 1);

    CHECK_EQ(set.count, 3);
    CHECK_EQ(set.at[0], 1);
    CHECK_EQ(set.at[2], 3);
    CHECK(raft_ids_have(&set, 2));
    raft_ids_remove(&set, 2);
    raft_ids_remove(&set, 9);
    CHECK(!raft_ids_have(&set, 2));
    CHECK_EQ(set.count, 2);
}

TEST(a_full_set_takes_no_more_ids_but_knows_its_own)
{
    struct raft_ids set = {0};
    for (uint64_t id = 1; id <= RAFT_MEMBERS_MAX; id++)
        CHECK(raft_ids_insert(&set, id * 2));

    CHECK(!raft_ids_insert(&set, 1));
    CHECK(raft_ids_insert(&set, 2));
    CHECK_EQ(set.count, RAFT_MEMBERS_MAX);
}

TEST(voters_of_a_joint_configuration_are_listed_once_each)
{
    struct raft_ids in = IDS(1, 2, 5), out = IDS(2, 3);
    struct raft_voters all = raft_voters_of(&in, &out);

    CHECK_EQ(all.count, 4);
    for (size_t i = 1; i < all.count; i++)
        CHECK(all.at[i - 1] < all.at[i]);
}

TEST(what_a_majority_has_is_committed)
{
    struct raft_ids three = IDS(1, 2, 3), four = IDS(1, 2, 3, 4), none = {0};

    CHECK_EQ(quorum_committed(&three, acked_by_table, (uint64_t[]){0, 7, 5, 9}), 7);
    CHECK_EQ(quorum_committed(&three, acked_by_table, (uint64_t[]){0, 7, 0, 0}), 0);
    CHECK_EQ(quorum_committed(&four, acked_by_table, (uint64_t[]){0, 4, 3, 2, 1}), 2);
    CHECK(quorum_committed(&none, acked_by_table, NULL) == UINT64_MAX);
}

TEST(a_joint_quorum_commits_what_both_majorities_have)
{
    struct raft_ids in = IDS(1, 2, 3), out = IDS(3, 4, 5), none = {0};
    uint64_t acked[] = {0, 9, 9, 9, 2, 0};

    CHECK_EQ(quorum_joint_committed(&in, &out, acked_by_table, acked), 2);
    CHECK_EQ(quorum_joint_committed(&out, &in, acked_by_table, acked), 2);
    CHECK_EQ(quorum_joint_committed(&in, &none, acked_by_table, acked), 9);
}

TEST(an_election_is_won_lost_or_open)
{
    struct raft_ids three = IDS(1, 2, 3), none = {0};
    enum quorum_vote yes = QUORUM_VOTE_YES, no = QUORUM_VOTE_NO, open = QUORUM_VOTE_MISSING;

    CHECK_EQ(quorum_result(&three, voted_by_table, (enum quorum_vote[]){0, yes, yes, open}),
             QUORUM_WON);
    CHECK_EQ(quorum_result(&three, voted_by_table, (enum quorum_vote[]){0, yes, no, open}),
             QUORUM_PENDING);
    CHECK_EQ(quorum_result(&three, voted_by_table, (enum quorum_vote[]){0, yes, no, no}),
             QUORUM_LOST);
    CHECK_EQ(quorum_result(&none, voted_by_table, NULL), QUORUM_WON);
}

TEST(a_joint_election_needs_both_and_is_lost_by_either)
{
    struct raft_ids in = IDS(1), out = IDS(2);
    enum quorum_vote yes = QUORUM_VOTE_YES, no = QUORUM_VOTE_NO;

    CHECK_EQ(quorum_joint_result(&in, &out, voted_by_table, (enum quorum_vote[]){0, yes, 0}),
             QUORUM_PENDING);
    CHECK_EQ(quorum_joint_result(&in, &out, voted_by_table, (enum quorum_vote[]){0, 0, no}),
             QUORUM_LOST);
    CHECK_EQ(quorum_joint_result(&in, &out, voted_by_table, (enum quorum_vote[]){0, yes, no}),
             QUORUM_LOST);
    CHECK_EQ(quorum_joint_result(&in, &out, voted_by_table, (enum quorum_vote[]){0, yes, yes}),
             QUORUM_WON);
}

/* The definition, without any cleverness: try every index that someone has. */
static uint64_t committed_by_definition(const struct raft_ids *voters, const uint64_t *acked)
{
    uint64_t best = 0;

    for (size_t i = 0; i < voters->count; i++) {
        uint64_t candidate = acked[voters->at[i]];
        size_t having = 0;
        for (size_t j = 0; j < voters->count; j++)
            having += acked[voters->at[j]] >= candidate;
        if (having >= voters->count / 2 + 1 && candidate > best)
            best = candidate;
    }
    return best;
}

TEST(committed_agrees_with_its_definition)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t round = 0; round < 20000 * test_effort(); round++) {
        struct raft_ids voters = {0};
        uint64_t acked[16] = {0};
        uint64_t count = rng_between(&rng, 1, 9);
        for (uint64_t id = 1; id <= count; id++) {
            raft_ids_insert(&voters, id);
            acked[id] = rng_below(&rng, 6);
        }
        CHECK_EQ(quorum_committed(&voters, acked_by_table, acked),
                 committed_by_definition(&voters, acked));
    }
}

TEST(a_quorum_is_described_with_bars)
{
    struct raft_ids in = IDS(1, 2), out = IDS(2, 3);
    struct buf text = {0};

    quorum_describe(&text, &in, &out, acked_by_table, (uint64_t[]){0, 100, 0, 7});
    quorum_describe_index(&text, UINT64_MAX);
    CHECK_STR(buf_str(&text), "       idx\n"
                              "xx>    100    (id=1)\n"
                              "?        0    (id=2)\n"
                              "x>       7    (id=3)\n"
                              "∞");
    buf_free(&text);
}
