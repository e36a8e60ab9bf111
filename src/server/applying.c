/*
 * What is committed is applied, in order, some of it in each turn; and everybody concerned hears of
 * it: raft, watchers, leases, other members, and whoever waits for the answer.
 */
#include "api/api.h"
#include "apply/apply.h"
#include "backend/backend.h"
#include "cluster/cluster.h"
#include "mvcc/mvcc.h"
#include "raft/raft.h"
#include "server/server_int.h"
#include "watch/watch.h"

/* For good: its id never comes back. */
static void leave_cluster(struct server *s)
{
    if (s->is_stopping)
        return;
    log_warn(s->logger, "server error",
             LOG_STR("error", "the member has been permanently removed from the cluster"));
    log_warn(s->logger, "data-dir used by this member must be removed");
    server_stop(s);
}

/*
 * A moment after the removal is applied, or was told of by another member. Until then the member
 * serves as before: whoever has asked it for the removal is answered, and if it leads, the others
 * hear that it is committed. Without that they would wait for an election, and apply it only then.
 */
void server_leave_later(struct server *s)
{
    if (s->leave_ms == 0)
        s->leave_ms = s->facts.now_ms + LEAVE_DELAY_MS;
}

void server_leave_if_due(struct server *s)
{
    if (s->leave_ms != 0 && s->facts.now_ms >= s->leave_ms)
        leave_cluster(s);
}

static void configure(struct server *s, struct apply_effects *e, struct buf *json)
{
    struct raft_conf_change_v2 change = raft_conf_change_as_v2(&e->conf_change);

    if (e->skip_raft || e->index <= raft_status(s->raft).base_index)
        return;
    if (raft_apply_conf_change(s->raft, &change, &s->conf_state) != RAFT_OK) {
        server_fail(s, "entry %llu changes the configuration in a way that makes no sense here",
                    (unsigned long long)e->index);
        return;
    }
    cluster_conf_state_json(&s->conf_state, json);
}

static void follow_members(struct server *s, const struct apply_effects *e)
{
    peering_member_changed(&s->peering, &e->conf_change, s->state.cluster, s->facts.leader);
    s->facts.is_learner = cluster_is_own_learner(s->state.cluster);
    if (e->conf_change.type == RAFT_REMOVE_NODE)
        leadership_member_removed(s, e->conf_change.node_id);
    if (e->removed_self)
        server_leave_later(s);
}

/* It may have been promoted, or removed, by an entry that is in the image. */
void server_members_replaced(struct server *s)
{
    s->facts.is_learner = cluster_is_own_learner(s->state.cluster);
    if (cluster_is_removed(s->state.cluster, s->facts.member_id))
        server_leave_later(s);
}

/* The next one begins when this one ends, so the clock is read once for each. */
static void measure_entry(struct server *s, const struct apply_effects *e)
{
    uint64_t now_ns = clock_now_ns(s->io->clock), began_ns = s->apply_began_ns;

    s->apply_began_ns = now_ns;
    s->facts.now_ns = now_ns;
    metrics_applied(s->metrics, e, now_ns - began_ns);
    slow_applied(s, e, began_ns, now_ns - began_ns);
}

static void open_for_business(struct server *s)
{
    clients_serve(&s->clients);
    if (s->options.on_ready)
        s->options.on_ready(s->options.context);
}

static void answer_applied(struct server *s, struct apply_effects *e)
{
    struct api_call *c = pending_take_applied(&s->pending, e->id);

    metrics_answered(s, c, e);
    if (c && c->api) {
        slow_answered(s, c, e);
        api_applied(s->clients.api, c, e);
    } else {
        reply_free(&e->reply);
        if (c)
            peer_requests_applied(&s->peer_requests, c, e->result);
    }
    auto_compaction_applied(&s->auto_compaction, e->id, e->result);
    if (housekeeping_applied(&s->housekeeping, e->id))
        open_for_business(s);
}

void server_mark_snapshot(struct server *s)
{
    if (!log_snapshot_is_due(&s->snapshot, s->facts.applied_index, s->facts.now_ms))
        return;
    struct snapfile_membership m = state_membership(&s->state);
    log_snapshot_mark(&s->snapshot, &(struct log_snapshot_content){.index = s->facts.applied_index,
                                                                   .term = s->facts.applied_term,
                                                                   .conf_state = &s->conf_state,
                                                                   .membership = &m});
}

static void entry_applied(struct server *s)
{
    struct apply_effects *e = apply_effects(s->state.apply);
    struct buf conf_state = {0};

    measure_entry(s, e);
    if (e->is_conf_change) {
        configure(s, e, &conf_state);
        follow_members(s, e);
    }
    s->facts.applied_index = e->index;
    s->facts.applied_term = e->term;
    leadership_applied(s, e);
    if (e->changes.revision != 0) {
        watch_changed(s->clients.watch, &e->changes);
        s->changes_told += e->changes.count;
    }
    if (e->compacted)
        watch_compacted(s->clients.watch);
    if (e->quota_exceeded)
        housekeeping_quota_exceeded(&s->housekeeping);
    if (e->version_lowered)
        log_snapshot_want(&s->snapshot, e->index);
    answer_applied(s, e);
    apply_end(s->state.apply, buf_bytes(&conf_state));
    buf_free(&conf_state);
    server_mark_snapshot(s);
}

static_assert(2 * (int)HOUSEKEEPING_COMMIT_BYTES <= CATCH_UP_STORE_BYTES_MAX,
              "what wakes whoever waits for the store, a commit, is under way");

/* Are there as many batches as there may be? Fewer for a member that is catching up: the pages of a
 * commit come on top, and LMDB keeps them. */
static bool store_is_full(const struct server *s)
{
    return backend_is_full(s->state.backend) ||
           (s->is_catching_up &&
            backend_pending_bytes(s->state.backend) >= CATCH_UP_STORE_BYTES_MAX);
}

/* The entry that could be worked on now, or NULL. While the store is full there is none, and a
 * large one waits for its parts; a commit is under way then, or about to be, and its end wakes
 * us. Nor is there a new one while an image is about to be cut. */
static const struct raft_entry *next_entry(const struct server *s)
{
    bool must_wait = apply_is_busy(s->state.apply)
                         ? backend_part_is_due(s->state.backend)
                         : store_is_full(s) || !clients_can_be_answered(&s->clients) ||
                               cutting_holds_back(&s->cutting);

    const struct raft_entry *entry = s->failed || must_wait ? NULL : storage_work_next(&s->work);

    return entry && entry->index <= s->install.apply_up_to ? entry : NULL;
}

/*
 * Raft hears of what is applied before the turn goes on, not when a whole message is. A message may
 * hold thousands of entries, and take many turns: the store commits in the middle of it, a snapshot
 * of the log promises what the store has then, and the log is released up to there, which raft
 * allows only for what it knows as applied. Telling it late and releasing less would do, too, but a
 * member that is catching up would keep its proposals' share of memory, and get nothing new to
 * apply, until the last entry of a long message is done. Once per turn and message is enough, since
 * no commit begins while entries are applied; once per entry would cost a put 200 instructions.
 */
static void tell_applied(struct server *s)
{
    size_t from, to;
    const struct raft_message *m = storage_work_take_applied(&s->work, &from, &to);

    if (!m)
        return;
    raft_step_applied(s->raft, m, from, to);
    storage_work_applied_told(&s->work);
    if (s->is_catching_up)
        raft_evict(s->raft, raft_status(s->raft).applied); /* nobody will ask it for them */
}

/* Goes on with an entry, or with the next one; true when it is done. */
static bool apply_entry(struct server *s, const struct raft_entry *entry, uint64_t until_ns)
{
    if (!apply_is_busy(s->state.apply)) {
        if (s->apply_began_ns > until_ns)
            return false;
        uint64_t id = apply_begin(s->state.apply, entry, s->facts.now_ms);
        if (pending_is_awaited(&s->pending, id))
            apply_make_reply(s->state.apply);
    }
    return apply_some(s->state.apply, MVCC_SLICE_STEPS);
}

void applying_some(struct server *s)
{
    uint64_t now_ns = clock_now_ns(s->io->clock), until_ns = now_ns + TURN_APPLY_US * 1000ull;

    if (!apply_is_busy(s->state.apply))
        s->apply_began_ns = now_ns; /* one that goes on has begun in an earlier turn */
    for (const struct raft_entry *entry; (entry = next_entry(s));) {
        if (!apply_entry(s, entry, until_ns))
            break;
        entry_applied(s);
        if (storage_work_entry_applied(&s->work))
            tell_applied(s);
    }
    tell_applied(s);
}

bool applying_has_more(const struct server *s)
{
    return next_entry(s) != NULL;
}
