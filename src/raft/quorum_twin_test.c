/*
 * The quorum against a twin that is slow and obvious: it tries every index there is and counts
 * heads, where quorum.c sorts and picks one place.
 */
#include "raft/quorum.h"

#include "base/rng.h"
#include "harness/test.h"

enum { IDS = 12, ROUNDS = 20000 };

/* What each of the ids 1 .. IDS has said, if anything. */
struct opinions {
    bool heard[IDS + 1];
    uint64_t index[IDS + 1];
    enum quorum_vote vote[IDS + 1];
};

static bool acked(const void *context, uint64_t id, uint64_t *index)
{
    const struct opinions *o = context;

    *index = o->index[id];
    return o->heard[id];
}

static enum quorum_vote voted(const void *context, uint64_t id)
{
    const struct opinions *o = context;

    return o->vote[id];
}

/* --- the twin --- */

static bool majority_at(const struct raft_ids *voters, const struct opinions *o, uint64_t index)
{
    size_t count = 0;

    for (size_t i = 0; i < voters->count; i++)
        if (index == 0 || (o->heard[voters->at[i]] && o->index[voters->at[i]] >= index))
            count++;
    return 2 * count > voters->count;
}

/* The highest index that both sets hold; only what someone acknowledged can be the answer. */
static uint64_t twin_committed(const struct raft_ids *a, const struct raft_ids *b,
                               const struct opinions *o)
{
    uint64_t best = 0;

    if (a->count == 0 && b->count == 0)
        return UINT64_MAX;
    for (size_t id = 1; id <= IDS; id++) {
        uint64_t index = o->index[id];
        bool in_a = a->count == 0 || majority_at(a, o, index);
        bool in_b = b->count == 0 || majority_at(b, o, index);
        if (in_a && in_b && index > best)
            best = index;
    }
    return best;
}

/* Every way in which the missing votes may still fall: won in all of them, in none, or open. */
static enum quorum_result twin_result(const struct raft_ids *voters, const struct opinions *o)
{
    size_t yes = 0, missing = 0;

    for (size_t i = 0; i < voters->count; i++) {
        yes += o->vote[voters->at[i]] == QUORUM_VOTE_YES;
        missing += o->vote[voters->at[i]] == QUORUM_VOTE_MISSING;
    }
    bool sometimes = voters->count == 0, always = true;
    for (size_t more = 0; more <= missing && voters->count > 0; more++) {
        bool won = 2 * (yes + more) > voters->count;
        sometimes = sometimes || won;
        always = always && won;
    }
    return always ? QUORUM_WON : sometimes ? QUORUM_PENDING : QUORUM_LOST;
}

static enum quorum_result twin_joint_result(const struct raft_ids *a, const struct raft_ids *b,
                                            const struct opinions *o)
{
    enum quorum_result x = twin_result(a, o), y = twin_result(b, o);

    if (x == QUORUM_LOST || y == QUORUM_LOST)
        return QUORUM_LOST;
    return x == QUORUM_WON && y == QUORUM_WON ? QUORUM_WON : QUORUM_PENDING;
}

/* --- chance --- */

static struct raft_ids random_ids(struct rng *rng)
{
    struct raft_ids ids = {0};
    uint64_t density = rng_below(rng, 5);

    for (uint64_t id = 1; id <= IDS; id++)
        if (rng_below(rng, 4) < density)
            ids.at[ids.count++] = id;
    return ids;
}

/* Few different indexes, so that equal ones are common, and now and then an extreme one. */
static struct opinions random_opinions(struct rng *rng)
{
    struct opinions o = {0};
    uint64_t spread = rng_between(rng, 1, 20);

    for (size_t id = 1; id <= IDS; id++) {
        o.heard[id] = rng_chance(rng, 4, 5);
        o.index[id] = rng_below(rng, spread);
        if (rng_chance(rng, 1, 50))
            o.index[id] = RAFT_NUMBER_MAX;
        if (!o.heard[id])
            o.index[id] = 0;
        o.vote[id] = (enum quorum_vote)rng_below(rng, 3);
    }
    return o;
}

TEST(committed_indexes_equal_the_naive_count_of_heads)
{
    struct rng rng;
    size_t joint = 0;

    rng_seed(&rng, test_seed());
    for (uint64_t i = 0; i < ROUNDS * test_effort(); i++) {
        struct raft_ids none = {0};
        struct raft_ids a = random_ids(&rng);
        struct raft_ids b = random_ids(&rng);
        struct opinions o = random_opinions(&rng);

        CHECK(quorum_committed(&a, acked, &o) == twin_committed(&a, &none, &o));
        CHECK(quorum_joint_committed(&a, &b, acked, &o) == twin_committed(&a, &b, &o));
        CHECK(quorum_joint_committed(&b, &a, acked, &o) == twin_committed(&a, &b, &o));
        joint += a.count > 0 && b.count > 0;
    }
    CHECK(joint > ROUNDS / 2);
}

TEST(election_results_equal_trying_every_way_the_missing_votes_may_fall)
{
    struct rng rng;
    size_t seen[QUORUM_WON + 1] = {0};

    rng_seed(&rng, test_seed());
    for (uint64_t i = 0; i < ROUNDS * test_effort(); i++) {
        struct raft_ids a = random_ids(&rng);
        struct raft_ids b = random_ids(&rng);
        struct opinions o = random_opinions(&rng);
        enum quorum_result got = quorum_joint_result(&a, &b, voted, &o);

        CHECK_EQ(quorum_result(&a, voted, &o), twin_result(&a, &o));
        CHECK_EQ(got, twin_joint_result(&a, &b, &o));
        CHECK_EQ(quorum_joint_result(&b, &a, voted, &o), got);
        seen[got]++;
    }
    CHECK(seen[QUORUM_PENDING] > 0 && seen[QUORUM_LOST] > 0 && seen[QUORUM_WON] > 0);
}
