/*
 * The quorum grammar.
 *
 *     committed cfg=(1,2,3) idx=(101,_,103)          up to where is the log committed?
 *     vote cfg=(1,2) cfgj=(2,3) votes=(y,n,_)        how does the election stand?
 *
 * cfg is one majority, cfgj (perhaps "zero") the other of a joint configuration. The values are for
 * the voters in the order in which they are first named; _ is one that has not been heard of.
 * Every answer is also computed in other ways that must not matter; where one does, the output says
 * so.
 */
#include "raft/scenarios.h"

#include "base/assert.h"
#include "raft/quorum.h"

#include <inttypes.h>

enum { ACKS_MAX = 2 * RAFT_MEMBERS_MAX };

/* An index per voter, or a vote: 1 is no, 2 is yes. 0: not heard of. */
struct acks {
    size_t count;
    uint64_t ids[ACKS_MAX], values[ACKS_MAX];
};

struct quorum_case {
    bool joint;
    struct raft_ids cfg, cfgj;     /* as they were given */
    struct raft_ids voters, other; /* the same as sets */
    size_t idx_count, vote_count;
    uint64_t idx[ACKS_MAX], votes[ACKS_MAX];
};

/* --- reading the case --- */

static bool take_id(struct raft_ids *list, const char *text, struct buf *problem)
{
    if (list->count == RAFT_MEMBERS_MAX) {
        buf_append_str(problem, "too many voters");
        return false;
    }
    return scenarios_parse_u64(text, &list->at[list->count++], problem);
}

static bool take_index(struct quorum_case *c, const char *text, struct buf *problem)
{
    uint64_t index = 0;
    bool missing = strcmp(text, "_") == 0;

    if (!missing && !scenarios_parse_u64(text, &index, problem))
        return false;
    if (c->idx_count == ACKS_MAX || (!missing && index == 0)) {
        buf_append_str(problem, missing ? "too many values" : "cannot use 0 as idx");
        return false;
    }
    c->idx[c->idx_count++] = index;
    return true;
}

static bool take_vote(struct quorum_case *c, const char *text, struct buf *problem)
{
    static const char letters[] = "_ny";
    const char *letter = strlen(text) == 1 ? strchr(letters, text[0]) : NULL;

    if (!letter || c->vote_count == ACKS_MAX) {
        buf_printf(problem, "unknown vote: %s", text);
        return false;
    }
    c->votes[c->vote_count++] = (uint64_t)(letter - letters);
    return true;
}

static bool take_value(struct quorum_case *c, const char *key, const char *text,
                       struct buf *problem)
{
    if (strcmp(key, "cfg") == 0)
        return take_id(&c->cfg, text, problem);
    if (strcmp(key, "cfgj") == 0) {
        c->joint = true;
        return strcmp(text, "zero") == 0 || take_id(&c->cfgj, text, problem);
    }
    if (strcmp(key, "idx") == 0)
        return take_index(c, text, problem);
    if (strcmp(key, "votes") == 0)
        return take_vote(c, text, problem);
    buf_printf(problem, "unknown arg %s", key);
    return false;
}

static bool read_case(const struct scenario_command *command, struct quorum_case *c,
                      struct buf *problem)
{
    for (size_t i = 0; i < command->arg_count; i++)
        for (size_t j = 0; j < command->args[i].count; j++)
            if (!take_value(c, command->args[i].key, command->args[i].values[j], problem))
                return false;
    c->voters = raft_ids_sorted(&c->cfg);
    c->other = raft_ids_sorted(&c->cfgj);
    return true;
}

/* --- who acknowledged what --- */

static uint64_t *acks_find(struct acks *acks, uint64_t id)
{
    for (size_t i = 0; i < acks->count; i++)
        if (acks->ids[i] == id)
            return &acks->values[i];
    return NULL;
}

static void acks_add(struct acks *acks, const struct raft_ids *ids, const uint64_t *values,
                     size_t count)
{
    for (size_t i = 0; i < ids->count && acks->count < count; i++) {
        if (acks_find(acks, ids->at[i]))
            continue;
        acks->ids[acks->count] = ids->at[i];
        acks->values[acks->count] = values[acks->count];
        acks->count++;
    }
}

static struct acks acks_of(const struct quorum_case *c, const uint64_t *values, size_t count)
{
    struct acks acks = {0};

    acks_add(&acks, &c->cfg, values, count);
    acks_add(&acks, &c->cfgj, values, count);
    return acks;
}

static bool acked(const void *context, uint64_t id, uint64_t *index)
{
    uint64_t *value = acks_find((struct acks *)context, id);

    if (!value || *value == 0)
        return false;
    *index = *value;
    return true;
}

static enum quorum_vote voted(const void *context, uint64_t id)
{
    uint64_t vote = 0;

    if (!acked(context, id, &vote))
        return QUORUM_VOTE_MISSING;
    return vote == 1 ? QUORUM_VOTE_NO : QUORUM_VOTE_YES;
}

/* --- answering --- */

/* A second way to the same number: the highest index for which enough voters are there or further.
 */
static uint64_t committed_by_counting(const struct raft_ids *voters, struct acks *acks)
{
    uint64_t best = 0;

    for (size_t i = 0; i < voters->count; i++) {
        uint64_t index = 0;
        size_t reached = 0;
        if (!acked(acks, voters->at[i], &index))
            continue;
        for (size_t j = 0; j < voters->count; j++) {
            uint64_t other = 0;
            reached += acked(acks, voters->at[j], &other) && other >= index;
        }
        if (reached > voters->count / 2 && index > best)
            best = index;
    }
    return voters->count == 0 ? UINT64_MAX : best;
}

static void expect_same(struct buf *out, uint64_t index, uint64_t other, const char *way)
{
    if (index == other)
        return;
    quorum_describe_index(out, other);
    buf_printf(out, " <-- %s\n", way);
}

/* A voter that is behind what is committed may be further behind and nothing changes. */
static void expect_stragglers_do_not_matter(struct buf *out, const struct quorum_case *c,
                                            const struct acks *acks, uint64_t committed)
{
    for (size_t i = 0; i < c->voters.count; i++) {
        struct acks lower = *acks;
        uint64_t *value = acks_find(&lower, c->voters.at[i]);
        if (!value || *value == 0 || *value >= committed)
            continue;
        *value -= 1;
        expect_same(out, committed, quorum_committed(&c->voters, acked, &lower),
                    "with a straggler further behind");
        *value = 0;
        expect_same(out, committed, quorum_committed(&c->voters, acked, &lower),
                    "with a straggler gone");
    }
}

static uint64_t joint_committed(const struct raft_ids *incoming, const struct raft_ids *outgoing,
                                const struct acks *acks)
{
    return quorum_joint_committed(incoming, outgoing, acked, acks);
}

static void answer_committed(const struct quorum_case *c, struct buf *out)
{
    struct acks acks = acks_of(c, c->idx, c->idx_count);
    const struct raft_ids none = {0};
    uint64_t index;

    quorum_describe(out, &c->voters, &c->other, acked, &acks);
    if (c->joint) {
        index = joint_committed(&c->voters, &c->other, &acks);
        expect_same(out, index, joint_committed(&c->other, &c->voters, &acks), "via symmetry");
    } else {
        index = quorum_committed(&c->voters, acked, &acks);
        expect_same(out, index, committed_by_counting(&c->voters, &acks),
                    "via alternative computation");
        expect_same(out, index, joint_committed(&c->voters, &none, &acks), "via zero-joint quorum");
        expect_same(out, index, joint_committed(&c->voters, &c->voters, &acks),
                    "via self-joint quorum");
        expect_stragglers_do_not_matter(out, c, &acks, index);
    }
    quorum_describe_index(out, index);
    buf_append_byte(out, '\n');
}

static void answer_vote(const struct quorum_case *c, struct buf *out)
{
    struct acks votes = acks_of(c, c->votes, c->vote_count);
    enum quorum_result result = quorum_result(&c->voters, voted, &votes);

    if (c->joint) {
        result = quorum_joint_result(&c->voters, &c->other, voted, &votes);
        enum quorum_result mirrored = quorum_joint_result(&c->other, &c->voters, voted, &votes);
        if (mirrored != result)
            buf_printf(out, "%s <-- via symmetry\n", quorum_result_text(mirrored));
    }
    buf_printf(out, "%s\n", quorum_result_text(result));
}

/* Voters are printed as Go prints a set, the values as it prints a slice. */
static void answer_mismatch(struct buf *out, const struct raft_voters *voters,
                            const uint64_t *values, size_t count)
{
    buf_append_str(out, "error: mismatched input (explicit or _) for voters map[");
    for (size_t i = 0; i < voters->count; i++)
        buf_printf(out, "%s%" PRIu64 ":{}", i > 0 ? " " : "", voters->at[i]);
    buf_append_str(out, "]: [");
    for (size_t i = 0; i < count; i++) {
        buf_append_str(out, i > 0 ? " " : "");
        quorum_describe_index(out, values[i]);
    }
    buf_append_byte(out, ']');
}

void quorum_scenario_answer(void *context, const struct scenario_command *command, struct buf *out)
{
    struct quorum_case c = {0};
    struct buf problem = {0};
    bool vote = strcmp(command->name, "vote") == 0;

    assert(context == NULL);
    if (!read_case(command, &c, &problem)) {
        buf_printf(out, "cannot run: %s", buf_str(&problem));
        buf_free(&problem);
        return;
    }
    const uint64_t *values = vote ? c.votes : c.idx;
    size_t count = vote ? c.vote_count : c.idx_count;
    struct raft_voters voters = raft_voters_of(&c.voters, &c.other);
    if (voters.count != count)
        answer_mismatch(out, &voters, values, count);
    else if (vote)
        answer_vote(&c, out);
    else if (strcmp(command->name, "committed") == 0)
        answer_committed(&c, out);
    else
        buf_printf(out, "cannot run: unknown command: %s", command->name);
}
