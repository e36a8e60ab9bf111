#include "config/gates.h"

#include "base/mem.h"
#include "base/text.h"
#include "cluster/urls.h"
#include "config/value.h"

enum stage { ALPHA, BETA };

enum {
    GATE_STOP_GRPC_SERVICE_ON_DEFRAG,
    GATE_INITIAL_CORRUPT_CHECK,
    GATE_COMPACT_HASH_CHECK,
    GATE_LEASE_CHECKPOINT = 4,
    GATE_LEASE_CHECKPOINT_PERSIST,
    GATE_SET_MEMBER_LOCAL_ADDR,
    GATE_ALL_ALPHA = 9,
    GATE_ALL_BETA
};

static const struct gate {
    const char *name;
    enum stage stage;
    bool is_on;
    bool is_built; /* it can be turned; the two that stand for a stage do nothing by themselves */
} gate_table[] = {
    [GATE_STOP_GRPC_SERVICE_ON_DEFRAG] = {"StopGRPCServiceOnDefrag", ALPHA, false, true},
    [GATE_INITIAL_CORRUPT_CHECK] = {"InitialCorruptCheck", ALPHA, false, true},
    [GATE_COMPACT_HASH_CHECK] = {"CompactHashCheck", ALPHA, false, true},
    {"TxnModeWriteWithSharedBuffer", BETA, true,
     true}, /* it tunes a copy that bbolt's readers make */
    [GATE_LEASE_CHECKPOINT] = {"LeaseCheckpoint", ALPHA, false, true},
    [GATE_LEASE_CHECKPOINT_PERSIST] = {"LeaseCheckpointPersist", ALPHA, false, true},
    [GATE_SET_MEMBER_LOCAL_ADDR] = {"SetMemberLocalAddr", ALPHA, false, true},
    {"FastLeaseKeepAlive", BETA, true, true}, /* off is how renewals are here in any case */
    {"PriorityRequest", ALPHA, false, false},
    [GATE_ALL_ALPHA] = {"AllAlpha", ALPHA, false, true},
    [GATE_ALL_BETA] = {"AllBeta", BETA, false, true},
};

static struct bytes trimmed(struct bytes text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t'))
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static size_t find_gate(struct bytes name)
{
    size_t id = 0;

    while (id < ARRAY_LEN(gate_table) && !bytes_equal(name, bytes_of_str(gate_table[id].name)))
        id++;
    return id;
}

static void turn_gate(struct gates *g, size_t id, bool is_on)
{
    uint32_t bit = UINT32_C(1) << id;

    g->said |= bit;
    g->on = is_on ? g->on | bit : g->on & ~bit;
}

/* "Name=true". */
static bool turn_one(struct gates *g, struct bytes piece, struct buf *why)
{
    const uint8_t *equals = memchr(piece.at, '=', piece.len);
    struct bytes name =
        trimmed(bytes_of(piece.at, equals ? (size_t)(equals - piece.at) : piece.len));
    bool is_on;

    if (!equals) {
        buf_printf(why, "missing bool value for %.*s", (int)name.len, (const char *)name.at);
        return false;
    }
    struct bytes value = trimmed(bytes_of(equals + 1, piece.len - (size_t)(equals - piece.at) - 1));
    if (value_parse_bool(value, &is_on)) {
        buf_printf(why, "invalid value of %.*s=%.*s, err: strconv.ParseBool: parsing ",
                   (int)name.len, (const char *)name.at, (int)value.len, (const char *)value.at);
        text_append_quoted(why, value);
        buf_append_str(why, ": invalid syntax");
        return false;
    }
    size_t id = find_gate(name);
    if (id == ARRAY_LEN(gate_table)) {
        buf_printf(why, "unrecognized feature gate: %.*s", (int)name.len, (const char *)name.at);
        return false;
    }
    turn_gate(g, id, is_on);
    return true;
}

/* All of a stage, but for those that have been turned by name. Comes after the names, so that
 * their order in the text does not matter: so it is in etcd. */
static void turn_stage(struct gates *g, enum stage stage, bool is_on)
{
    for (size_t id = 0; id < ARRAY_LEN(gate_table); id++) {
        if (gate_table[id].stage == stage && !(g->said >> id & 1))
            turn_gate(g, id, is_on);
    }
}

bool gates_set(struct gates *g, struct bytes text, struct arena *arena, struct buf *why)
{
    struct url_list pieces = url_list_split(text, arena);
    struct gates now = {0};

    for (size_t i = 0; i < pieces.count; i++) {
        if (pieces.at[i].len > 0 && !turn_one(&now, pieces.at[i], why))
            return false;
    }
    g->on = (g->on & ~now.said) | now.on;
    g->said |= now.said;
    if (now.said >> GATE_ALL_ALPHA & 1)
        turn_stage(g, ALPHA, now.on >> GATE_ALL_ALPHA & 1);
    if (now.said >> GATE_ALL_BETA & 1)
        turn_stage(g, BETA, now.on >> GATE_ALL_BETA & 1);
    return true;
}

static bool gate_is_on(struct gates g, size_t id)
{
    return g.said >> id & 1 ? g.on >> id & 1 : gate_table[id].is_on;
}

static bool is_turned(struct gates g, size_t id)
{
    return gate_is_on(g, id) != gate_table[id].is_on;
}

/* The two that stand for a whole stage do nothing by themselves. */
bool gates_are_default(struct gates g)
{
    for (size_t id = 0; id < GATE_ALL_ALPHA; id++) {
        if (is_turned(g, id))
            return false;
    }
    return true;
}

const char *gates_not_built(struct gates g)
{
    for (size_t id = 0; id < ARRAY_LEN(gate_table); id++) {
        if (!gate_table[id].is_built && is_turned(g, id))
            return gate_table[id].name;
    }
    return NULL;
}

bool gates_at(struct gates g, size_t nth, struct gate_state *out)
{
    for (size_t id = 0; id < ARRAY_LEN(gate_table); id++) {
        size_t before = 0;
        for (size_t other = 0; other < ARRAY_LEN(gate_table); other++)
            before += strcmp(gate_table[other].name, gate_table[id].name) < 0;
        if (before != nth)
            continue;
        *out = (struct gate_state){.name = gate_table[id].name,
                                   .stage = gate_table[id].stage == ALPHA ? "ALPHA" : "BETA",
                                   .is_on = gate_is_on(g, id)};
        return true;
    }
    return false;
}

bool gates_lease_checkpoint(struct gates g)
{
    return gate_is_on(g, GATE_LEASE_CHECKPOINT);
}

bool gates_lease_checkpoint_persist(struct gates g)
{
    return gate_is_on(g, GATE_LEASE_CHECKPOINT_PERSIST);
}

bool gates_stop_grpc_service_on_defrag(struct gates g)
{
    return gate_is_on(g, GATE_STOP_GRPC_SERVICE_ON_DEFRAG);
}

bool gates_set_member_local_addr(struct gates g)
{
    return gate_is_on(g, GATE_SET_MEMBER_LOCAL_ADDR);
}

bool gates_initial_corrupt_check(struct gates g)
{
    return gate_is_on(g, GATE_INITIAL_CORRUPT_CHECK);
}

bool gates_compact_hash_check(struct gates g)
{
    return gate_is_on(g, GATE_COMPACT_HASH_CHECK);
}
