#include "raft/interaction.h"

#include "raft/confchange.h"

#include <inttypes.h>

/* --- the disk --- */

static uint64_t disk_last(const struct disk *d)
{
    return d->base_index + d->count;
}

/* Drops `count` entries from the nth on. */
static void disk_drop(struct disk *d, size_t nth, size_t count)
{
    for (size_t i = nth; i < nth + count; i++)
        blob_unref(d->entries[i].blob);
    if (count > 0)
        memmove(&d->entries[nth], &d->entries[nth + count],
                (d->count - nth - count) * sizeof(*d->entries));
    d->count -= count;
}

static void disk_push(struct disk *d, const struct raft_entry *e)
{
    if (d->count == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 16;
        d->entries = mem_resize(d->entries, d->cap, sizeof(*d->entries));
    }
    d->entries[d->count] = *e;
    blob_ref(e->blob);
    d->count++;
}

/* What was written from the first of these on is replaced; what is compacted stays so. */
static bool disk_append(struct scene *s, struct disk *d, const struct raft_entry *entries,
                        size_t count)
{
    for (; count > 0 && entries[0].index <= d->base_index; count--)
        entries++;
    if (count == 0)
        return true;
    if (entries[0].index > disk_last(d) + 1)
        return scene_fail(
            s, "cannot run: missing log entry [last: %" PRIu64 ", append at: %" PRIu64 "]",
            disk_last(d), entries[0].index);
    size_t keep = (size_t)(entries[0].index - d->base_index - 1);
    disk_drop(d, keep, d->count - keep);
    for (size_t i = 0; i < count; i++)
        disk_push(d, &entries[i]);
    return true;
}

static bool disk_install(struct scene *s, struct disk *d, const struct raft_snapshot *snapshot)
{
    if (d->snapshot_index != 0 && d->snapshot_index >= snapshot->index)
        return scene_fail(s, "requested index is older than the existing snapshot");
    disk_drop(d, 0, d->count);
    d->snapshot_index = snapshot->index;
    d->base_index = snapshot->index;
    return true;
}

bool scene_say_log(struct scene *s, const struct node *n)
{
    const struct disk *d = &n->disk;

    if (d->count == 0)
        scene_say(s, "log is empty: first index=%" PRIu64 ", last index=%" PRIu64,
                  d->base_index + 1, disk_last(d));
    scene_say_entries(s, d->entries, d->count);
    return true;
}

/* Raft hears of a compaction once it knows that the entries are written and applied. In etcd's
 * harness raft asks the disk instead, and sees it at once. */
void scene_node_settle(struct node *n)
{
    struct raft_status status = raft_status(n->raft);

    if (n->disk.base_index <= status.applied && n->disk.base_index <= status.stable_index)
        raft_compact(n->raft, n->disk.base_index);
}

bool scene_node_compact(struct scene *s, struct node *n, uint64_t index)
{
    struct disk *d = &n->disk;
    uint64_t known = raft_status(n->raft).applied;
    uint64_t applied = n->latest.index > known ? n->latest.index : known;

    if (index <= d->base_index)
        return scene_fail(s, "requested index is unavailable due to compaction");
    if (index > applied || index > disk_last(d))
        return scene_fail(s, "cannot run: index %" PRIu64 " is not applied and written", index);
    disk_drop(d, 0, (size_t)(index - d->base_index));
    d->base_index = index;
    scene_node_settle(n);
    return scene_say_log(s, n);
}

/* --- the state machine, and the snapshot that could be sent of it --- */

static void offer_snapshot(struct node *n)
{
    raft_set_snapshot(n->raft, n->latest.index > 0 ? &n->latest : NULL);
}

static void set_latest(struct node *n, uint64_t index, uint64_t term)
{
    blob_unref(n->latest.blob);
    n->latest.blob = n->state.len > 0 ? blob_copy(buf_bytes(&n->state)) : NULL;
    n->latest.data = blob_bytes(n->latest.blob);
    n->latest.index = index;
    n->latest.term = term;
}

/*
 * etcd's harness does not tell its state machine about a snapshot that was received, so what this
 * member would send is still what it had itself applied before. The expected output relies on it.
 */
bool scene_node_append(struct scene *s, struct node *n, const struct raft_snapshot *snapshot,
                       const struct raft_entry *entries, size_t count)
{
    if (!snapshot)
        return disk_append(s, &n->disk, entries, count);
    if (count > 0)
        return scene_fail(s, "can't apply snapshot and entries at the same time");
    if (!disk_install(s, &n->disk, snapshot))
        return false;
    offer_snapshot(n);
    return true;
}

static bool apply_conf_change(struct scene *s, struct node *n, const struct raft_entry *e,
                              struct bytes *context)
{
    struct raft_conf_change_v2 change;

    if (!raft_entry_conf_change(e, &change))
        return scene_fail(s, "cannot run: entry %" PRIu64 " is no conf change", e->index);
    *context = change.context;
    if (raft_apply_conf_change(n->raft, &change, &n->latest.conf_state) != RAFT_OK)
        return scene_fail(s, "cannot run: the conf change at %" PRIu64 " cannot be applied",
                          e->index);
    return true;
}

bool scene_node_apply(struct scene *s, struct node *n, const struct raft_entry *entries,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct bytes update = entries[i].data;
        if (entries[i].type != RAFT_ENTRY_NORMAL && !apply_conf_change(s, n, &entries[i], &update))
            return false;
        buf_append(&n->state, update);
        set_latest(n, entries[i].index, entries[i].term);
        offer_snapshot(n);
    }
    return true;
}

/* --- making a member --- */

/* What add-nodes was told about all the members it makes. */
struct plan {
    struct raft_config config;
    uint64_t inflight;
    struct raft_snapshot founding; /* all empty: none */
};

static bool plan_id(struct scene *s, struct raft_ids *ids, const char *value)
{
    if (ids->count == RAFT_MEMBERS_MAX)
        return scene_fail(s, "cannot run: too many members");
    return scenarios_parse_u64(value, &ids->at[ids->count++], &s->problem);
}

static bool plan_read_mode(struct scene *s, const char *value, enum raft_read_mode *out)
{
    *out = strcmp(value, "safe") == 0 ? RAFT_READ_SAFE : RAFT_READ_LEASE;
    if (strcmp(value, "safe") == 0 || strcmp(value, "lease-based") == 0)
        return true;
    return scene_fail(s, "invalid read-only option \"%s\"", value);
}

/* The bool that an option of this name sets, or NULL. */
static bool *plan_switch(struct raft_config *c, const char *key)
{
    const struct {
        const char *key;
        bool *at;
    } switches[] = {
        {"async-storage-writes", &c->async_storage_writes},
        {"prevote", &c->pre_vote},
        {"checkquorum", &c->check_quorum},
        {"disable-conf-change-validation", &c->disable_conf_change_validation},
        {"disable-proposal-forwarding", &c->disable_proposal_forwarding},
        {"step-down-on-removal", &c->step_down_on_removal},
    };

    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        if (strcmp(key, switches[i].key) == 0)
            return switches[i].at;
    return NULL;
}

/* The number that an option of this name sets, or NULL. */
static uint64_t *plan_number(struct plan *p, const char *key)
{
    struct raft_config *c = &p->config;
    const struct {
        const char *key;
        uint64_t *at;
    } numbers[] = {
        {"index", &p->founding.index},
        {"inflight", &p->inflight},
        {"max-committed-size-per-ready", &c->max_applying_bytes},
        {"max-inflight-bytes", &c->max_inflight_bytes},
        {"max-size-per-msg", &c->max_message_bytes},
        {"max-uncommitted-size", &c->max_uncommitted_bytes},
    };

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (strcmp(key, numbers[i].key) == 0)
            return numbers[i].at;
    return NULL;
}

/* Options nobody knows are passed over, as in etcd's harness. */
static bool plan_option(struct scene *s, struct plan *p, const char *key, const char *value)
{
    bool *flag = plan_switch(&p->config, key);
    uint64_t *number = plan_number(p, key);

    if (flag)
        return scenarios_parse_bool(value, flag, &s->problem);
    if (number)
        return scenarios_parse_u64(value, number, &s->problem);
    if (strcmp(key, "voters") == 0)
        return plan_id(s, &p->founding.conf_state.voters, value);
    if (strcmp(key, "learners") == 0)
        return plan_id(s, &p->founding.conf_state.learners, value);
    if (strcmp(key, "read-only") == 0)
        return plan_read_mode(s, value, &p->config.read_mode);
    if (strcmp(key, "content") == 0)
        p->founding.data = bytes_of_str(value);
    return true;
}

static bool read_plan(struct scene *s, const struct scenario_command *c, struct plan *p)
{
    for (size_t i = 1; i < c->arg_count; i++)
        for (size_t j = 0; j < c->args[i].count; j++)
            if (!plan_option(s, p, c->args[i].key, c->args[i].values[j]))
                return false;
    const struct raft_snapshot *f = &p->founding;
    p->config.max_inflight_messages = (size_t)p->inflight;
    if (f->index == 0 && f->data.len == 0 && f->conf_state.voters.count == 0 &&
        f->conf_state.learners.count == 0)
        return true;
    if (f->index <= 1)
        return scene_fail(s, "index must be specified as > 1 due to bootstrap");
    p->founding.term = 1;
    return true;
}

/* Why no member can be made of this, or NULL. etcd's harness panics. */
static const char *plan_problem(const struct plan *p)
{
    const char *problem = raft_config_problem(&p->config);
    struct tracker limits = {0}, founded;

    if (p->founding.index > RAFT_NUMBER_MAX)
        return "the index is absurd";
    return problem
               ? problem
               : confchange_restore(&limits, p->founding.index, &p->founding.conf_state, &founded);
}

static void on_log(void *context, enum raft_log_level level, const char *text)
{
    struct scene *s = context;
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

    if (s->level <= (unsigned)level)
        scene_say(s, "%s %s\n", names[level], text);
}

static bool node_add(struct scene *s, struct plan *p)
{
    p->config.id = s->node_count + 1;
    rng_seed(&p->config.rng, p->config.id);
    const char *problem = plan_problem(p);
    if (problem)
        return scene_fail(s, "cannot run: %s", problem);
    if (s->node_count == INTERACTION_NODES_MAX)
        return scene_fail(s, "cannot run: too many nodes");

    struct node *n = mem_new(struct node);
    n->config = p->config;
    list_init(&n->append_work);
    list_init(&n->apply_work);
    buf_append(&n->state, p->founding.data);
    n->latest.conf_state = p->founding.conf_state;
    set_latest(n, p->founding.index, p->founding.term);
    n->disk.snapshot_index = p->founding.index;
    n->disk.base_index = p->founding.index;
    n->raft = raft_open(&n->config, &(struct raft_boot){
                                        .conf_state = p->founding.conf_state,
                                        .base_index = p->founding.index,
                                        .base_term = p->founding.term,
                                        .applied = p->founding.index,
                                    });
    s->nodes[s->node_count++] = n;
    offer_snapshot(n);
    return true;
}

/* No limits, and timeouts short enough to tick through. */
static const struct raft_config stub = {
    .election_ticks = 3,
    .heartbeat_ticks = 1,
    .max_message_bytes = RAFT_NO_LIMIT,
    .asks_at_once = true,
    .log_level = RAFT_LOG_DEBUG,
};

bool scene_add_nodes(struct scene *s, const struct scenario_command *c)
{
    struct plan p = {.config = stub, .inflight = INT32_MAX};
    uint64_t count;

    p.config.log = on_log;
    p.config.log_context = s;
    if (c->arg_count == 0)
        return scene_fail(s, "cannot run: how many nodes?");
    if (!scenarios_parse_u64(c->args[0].key, &count, &s->problem) || !read_plan(s, c, &p))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!node_add(s, &p))
            return false;
    return true;
}

void scene_node_free(struct node *n)
{
    raft_close(n->raft);
    disk_drop(&n->disk, 0, n->disk.count);
    mem_free(n->disk.entries);
    buf_free(&n->state);
    blob_unref(n->latest.blob);
    scene_letters_free(&n->append_work);
    scene_letters_free(&n->apply_work);
    mem_free(n);
}
