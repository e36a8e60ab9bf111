#include "raft/quorum.h"

#include "base/assert.h"

#include <inttypes.h>

/* --- sets of ids --- */

/* Where id is, or where it would have to go. */
static size_t place_of(const struct raft_ids *ids, uint64_t id)
{
    size_t place = 0;

    while (place < ids->count && ids->at[place] < id)
        place++;
    return place;
}

bool raft_ids_have(const struct raft_ids *ids, uint64_t id)
{
    size_t place = place_of(ids, id);

    return place < ids->count && ids->at[place] == id;
}

bool raft_ids_insert(struct raft_ids *ids, uint64_t id)
{
    size_t place = place_of(ids, id);

    if (place < ids->count && ids->at[place] == id)
        return true;
    if (ids->count == RAFT_MEMBERS_MAX)
        return false;
    memmove(&ids->at[place + 1], &ids->at[place], (ids->count - place) * sizeof(uint64_t));
    ids->at[place] = id;
    ids->count++;
    return true;
}

void raft_ids_remove(struct raft_ids *ids, uint64_t id)
{
    size_t place = place_of(ids, id);

    if (place == ids->count || ids->at[place] != id)
        return;
    ids->count--;
    memmove(&ids->at[place], &ids->at[place + 1], (ids->count - place) * sizeof(uint64_t));
}

bool raft_ids_equal(const struct raft_ids *a, const struct raft_ids *b)
{
    return a->count == b->count && memcmp(a->at, b->at, a->count * sizeof(uint64_t)) == 0;
}

struct raft_ids raft_ids_sorted(const struct raft_ids *list)
{
    struct raft_ids set = {0};

    for (size_t i = 0; i < list->count; i++)
        raft_ids_insert(&set, list->at[i]);
    return set;
}

struct raft_voters raft_voters_of(const struct raft_ids *incoming, const struct raft_ids *outgoing)
{
    struct raft_voters all = {0};
    size_t in = 0, out = 0;

    while (in < incoming->count || out < outgoing->count) {
        uint64_t a = in < incoming->count ? incoming->at[in] : UINT64_MAX;
        uint64_t b = out < outgoing->count ? outgoing->at[out] : UINT64_MAX;
        all.at[all.count++] = a < b ? a : b;
        in += in < incoming->count && a <= b;
        out += out < outgoing->count && b <= a;
    }
    return all;
}

/* --- agreement --- */

uint64_t quorum_committed(const struct raft_ids *voters, quorum_acked *acked, const void *context)
{
    uint64_t ranked[RAFT_MEMBERS_MAX]; /* descending */

    if (voters->count == 0)
        return UINT64_MAX; /* nobody objects: so an empty outgoing half does not bind the other */
    for (size_t i = 0; i < voters->count; i++) {
        uint64_t index = 0; /* not heard of counts as nothing */
        acked(context, voters->at[i], &index);
        size_t place = i;
        while (place > 0 && ranked[place - 1] < index) {
            ranked[place] = ranked[place - 1];
            place--;
        }
        ranked[place] = index;
    }
    return ranked[voters->count / 2]; /* this one and all before it are a majority */
}

uint64_t quorum_joint_committed(const struct raft_ids *incoming, const struct raft_ids *outgoing,
                                quorum_acked *acked, const void *context)
{
    uint64_t in = quorum_committed(incoming, acked, context);
    uint64_t out = quorum_committed(outgoing, acked, context);

    return in < out ? in : out;
}

enum quorum_result quorum_result(const struct raft_ids *voters, quorum_voted *voted,
                                 const void *context)
{
    size_t yes = 0, missing = 0;
    size_t majority = voters->count / 2 + 1;

    if (voters->count == 0)
        return QUORUM_WON;
    for (size_t i = 0; i < voters->count; i++) {
        enum quorum_vote vote = voted(context, voters->at[i]);
        yes += vote == QUORUM_VOTE_YES;
        missing += vote == QUORUM_VOTE_MISSING;
    }
    if (yes >= majority)
        return QUORUM_WON;
    return yes + missing >= majority ? QUORUM_PENDING : QUORUM_LOST;
}

enum quorum_result quorum_joint_result(const struct raft_ids *incoming,
                                       const struct raft_ids *outgoing, quorum_voted *voted,
                                       const void *context)
{
    enum quorum_result in = quorum_result(incoming, voted, context);
    enum quorum_result out = quorum_result(outgoing, voted, context);

    if (in == QUORUM_LOST || out == QUORUM_LOST)
        return QUORUM_LOST;
    return in == QUORUM_WON && out == QUORUM_WON ? QUORUM_WON : QUORUM_PENDING;
}

/* --- text --- */

void quorum_describe_index(struct buf *out, uint64_t index)
{
    if (index == UINT64_MAX)
        buf_append_str(out, "∞");
    else
        buf_printf(out, "%" PRIu64, index);
}

const char *quorum_result_text(enum quorum_result result)
{
    switch (result) {
    case QUORUM_PENDING:
        return "VotePending";
    case QUORUM_LOST:
        return "VoteLost";
    case QUORUM_WON:
        return "VoteWon";
    }
    unreachable();
}

static void repeat(struct buf *out, char c, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buf_append_byte(out, (uint8_t)c);
}

/* How many voters are strictly behind this one, in the order of (index, id), with equal indexes
 * sharing the rank of the first. */
static size_t rank_of(const uint64_t *indexes, size_t count, uint64_t index)
{
    size_t behind = 0;

    for (size_t i = 0; i < count; i++)
        behind += indexes[i] < index;
    return behind;
}

void quorum_describe(struct buf *out, const struct raft_ids *incoming,
                     const struct raft_ids *outgoing, quorum_acked *acked, const void *context)
{
    struct raft_voters voters = raft_voters_of(incoming, outgoing);
    uint64_t indexes[2 * RAFT_MEMBERS_MAX] = {0};
    bool known[2 * RAFT_MEMBERS_MAX];

    if (voters.count == 0) {
        buf_append_str(out, "<empty majority quorum>");
        return;
    }
    for (size_t i = 0; i < voters.count; i++)
        known[i] = acked(context, voters.at[i], &indexes[i]);

    repeat(out, ' ', voters.count);
    buf_append_str(out, "    idx\n");
    for (size_t i = 0; i < voters.count; i++) {
        size_t bar = known[i] ? rank_of(indexes, voters.count, indexes[i]) : 0;
        repeat(out, 'x', bar);
        buf_append_byte(out, known[i] ? '>' : '?');
        repeat(out, ' ', voters.count - bar);
        buf_printf(out, " %5" PRIu64 "    (id=%" PRIx64 ")\n", indexes[i], voters.at[i]);
    }
}
