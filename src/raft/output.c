/*
 * What is handed out, and how long it lives.
 *
 *     since the last take        raft_take_output              next raft_take_output
 *     ------ box A fills ------------> A is lent --------------------> A is emptied and fills
 *            box B is lent             B is emptied and fills          B is lent
 */
#include "raft/raft_int.h"

static struct outbox *filling(struct raft *r)
{
    return &r->boxes[r->filling];
}

static struct outbox *lent(struct raft *r)
{
    return &r->boxes[1 - r->filling];
}

void *raft_grow(void *at, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return at;
    *cap = *cap ? *cap * 2 : 16;
    return mem_resize(at, *cap, size);
}

static void outbox_empty(struct outbox *box)
{
    arena_reset(&box->arena);
    blob_pile_release(&box->blobs);
    box->now_count = 0;
    box->later_count = 0;
    box->reads_count = 0;
    box->fetches_count = 0;
    box->slice = NULL;
    box->slice_count = 0;
}

void raft_outboxes_free(struct raft *r)
{
    for (size_t i = 0; i < ARRAY_LEN(r->boxes); i++) {
        struct outbox *box = &r->boxes[i];
        arena_free(&box->arena);
        blob_pile_free(&box->blobs);
        mem_free(box->now);
        mem_free(box->later);
        mem_free(box->reads);
        mem_free(box->fetches);
    }
}

/* --- putting things in --- */

static void push_now(struct outbox *box, const struct raft_message *m)
{
    box->now = raft_grow(box->now, box->now_count, &box->now_cap, sizeof(*box->now));
    box->now[box->now_count++] = *m;
}

static void push_later(struct outbox *box, const struct raft_message *m)
{
    box->later = raft_grow(box->later, box->later_count, &box->later_cap, sizeof(*box->later));
    box->later[box->later_count++] = *m;
}

static bool has_own_term(enum raft_message_type type)
{
    return type == RAFT_MSG_VOTE || type == RAFT_MSG_PRE_VOTE || type == RAFT_MSG_VOTE_RESP ||
           type == RAFT_MSG_PRE_VOTE_RESP;
}

/*
 * An answer about votes or appends is a promise, and a promise must survive a crash: it waits for
 * everything that is not durable yet, including refusals, which may rest on it too. So does a
 * candidate's word about its term and log: whoever votes for it believes it, and his vote may come
 * to its next life, which knows of neither and would take the same term for a new one. All else may
 * go at once, a leader's appends in particular.
 */
static bool is_promise(const struct raft *r, enum raft_message_type type)
{
    if (type == RAFT_MSG_VOTE)
        return r->config.async_storage_writes && !r->config.asks_at_once;
    return type == RAFT_MSG_APP_RESP || type == RAFT_MSG_VOTE_RESP ||
           type == RAFT_MSG_PRE_VOTE_RESP;
}

void raft_send(struct raft *r, struct raft_message m)
{
    if (m.from == RAFT_NONE)
        m.from = r->id;
    /* What is forwarded to a leader counts as local there, and votes name the term they are for. */
    if (!has_own_term(m.type) && m.type != RAFT_MSG_PROP && m.type != RAFT_MSG_READ_INDEX)
        m.term = r->term;
    if (is_promise(r, m.type)) {
        push_later(filling(r), &m);
    } else {
        assert(m.to != r->id);
        push_now(filling(r), &m);
    }
}

void raft_output_read_state(struct raft *r, uint64_t index, const struct raft_entry *context)
{
    struct outbox *box = filling(r);
    struct raft_entry own = raft_entry_share(context);

    blob_pile_add(&box->blobs, own.blob);
    box->reads = raft_grow(box->reads, box->reads_count, &box->reads_cap, sizeof(*box->reads));
    box->reads[box->reads_count++] = (struct raft_read_state){index, own.data};
}

void raft_output_fetch(struct raft *r, const struct raft_fetch *fetch)
{
    struct outbox *box = filling(r);

    box->fetches =
        raft_grow(box->fetches, box->fetches_count, &box->fetches_cap, sizeof(*box->fetches));
    box->fetches[box->fetches_count++] = *fetch;
}

static const struct raft_entry *copy_slice(struct raft *r, struct outbox *box,
                                           const struct raft_entry *entries, size_t count)
{
    /* The log may have been cut since, and have other entries at these indexes. */
    bool same = box->slice && box->slice_count == count &&
                box->slice[0].index == entries[0].index &&
                box->slice_truncations == r->log.truncations;

    if (same)
        return box->slice;
    struct raft_entry *copy = arena_space_array(&box->arena, count, sizeof(*copy));
    memcpy(copy, entries, count * sizeof(*copy));
    box->slice = copy;
    box->slice_count = count;
    box->slice_truncations = r->log.truncations;
    return copy;
}

/* No references are taken: the log lays what it drops on the pile of the box being filled. */
const struct raft_entry *raft_output_slice(struct raft *r, const struct raft_entry *entries,
                                           size_t count)
{
    return count > 0 ? copy_slice(r, filling(r), entries, count) : NULL;
}

const struct raft_entry *raft_output_entries(struct raft *r, const struct raft_entry *entries,
                                             size_t count)
{
    struct outbox *box = filling(r);

    if (count == 0)
        return NULL;
    struct raft_entry *copy = arena_space_array(&box->arena, count, sizeof(*copy));
    for (size_t i = 0; i < count; i++) {
        copy[i] = raft_entry_share(&entries[i]);
        blob_pile_add(&box->blobs, copy[i].blob);
    }
    return copy;
}

static const struct raft_snapshot *copy_snapshot(struct outbox *box, const struct raft_snapshot *s)
{
    struct raft_snapshot *copy = arena_new(&box->arena, struct raft_snapshot);

    *copy = *s;
    return copy;
}

/* Of our own, whose blob goes on a pile as well when it is replaced. */
const struct raft_snapshot *raft_output_snapshot(struct raft *r, const struct raft_snapshot *s)
{
    return copy_snapshot(filling(r), s);
}

struct bytes raft_output_bytes(struct raft *r, struct bytes what)
{
    return what.len > 0 ? arena_copy(&filling(r)->arena, what) : bytes_of(NULL, 0);
}

/* --- taking them out --- */

static bool soft_state_changed(const struct raft *r)
{
    return r->lead != r->last_soft.lead || r->role != r->last_soft.role;
}

static bool hard_state_changed(const struct raft *r)
{
    return r->term != r->last_hard.term || r->vote != r->last_hard.vote ||
           r->log.committed != r->last_hard.commit;
}

/* In plain mode the same output persists and applies, so it may apply what it persists. */
static bool applies_unstable(const struct raft *r)
{
    return !r->config.async_storage_writes;
}

bool raft_has_output(const struct raft *r)
{
    const struct outbox *box = &r->boxes[r->filling];

    return box->now_count > 0 || box->later_count > 0 || box->reads_count > 0 ||
           box->fetches_count > 0 || soft_state_changed(r) || hard_state_changed(r) ||
           r->log.in_progress <= raft_log_last(&r->log) ||
           (r->log.snapshot && !r->log.snapshot_in_progress) ||
           raft_log_has_committed(&r->log, applies_unstable(r));
}

static void take_states(struct raft *r, struct raft_output *out)
{
    struct raft_hard_state hard = raft_hard_state(r);

    /* A commit index that is lost is learned again from the leader; term, vote and entries were
     * promised to others. */
    out->must_sync =
        out->entry_count > 0 || hard.vote != r->last_hard.vote || hard.term != r->last_hard.term;
    if (soft_state_changed(r)) {
        out->has_soft_state = true;
        out->soft_state = (struct raft_soft_state){r->lead, r->role};
        r->last_soft = out->soft_state;
    }
    if (hard_state_changed(r)) {
        out->has_hard_state = true;
        out->hard_state = hard;
        r->last_hard = hard;
    }
}

static void take_log(struct raft *r, struct outbox *box, struct raft_output *out)
{
    uint64_t end = raft_log_last(&r->log) + 1;
    size_t count;

    if (r->log.in_progress < end) {
        const struct raft_entry *entries =
            raft_log_slice(&r->log, r->log.in_progress, end, RAFT_NO_LIMIT, &count);
        out->entries = copy_slice(r, box, entries, count);
        out->entry_count = count;
    }
    if (r->log.snapshot && !r->log.snapshot_in_progress)
        out->snapshot = copy_snapshot(box, r->log.snapshot);
    const struct raft_entry *committed =
        raft_log_next_committed(&r->log, applies_unstable(r), &count);
    if (count > 0)
        out->committed = copy_slice(r, box, committed, count);
    out->committed_count = count;
}

/*
 * The answer that will tell us what has become durable. It names the end of the whole log and the
 * current term, not just this output's entries: an answer from an older term is ignored, since an
 * entry it speaks of may have been overwritten by another and then by an equal one, of which the
 * last write is still under way (A, B, A). But then something must take the place of the ignored
 * answer, and the new term's first write does, because every one of them speaks for everything
 * before it.
 */
static bool append_response(const struct raft *r, const struct raft_output *out,
                            struct raft_message *response)
{
    *response = (struct raft_message){.type = RAFT_MSG_STORAGE_APPEND_RESP,
                                      .to = r->id,
                                      .from = RAFT_APPEND_THREAD,
                                      .term = r->term,
                                      .snapshot = out->snapshot};
    if (raft_log_has_unstable(&r->log)) {
        response->index = raft_log_last(&r->log);
        response->log_term = raft_log_last_term(&r->log);
    }
    return response->index != 0 || response->snapshot;
}

static struct raft_message apply_response(const struct raft *r, const struct raft_output *out)
{
    return (struct raft_message){.type = RAFT_MSG_STORAGE_APPLY_RESP,
                                 .to = r->id,
                                 .from = RAFT_APPLY_THREAD,
                                 .entries = out->committed,
                                 .entry_count = out->committed_count};
}

static void push_storage_append(struct raft *r, struct outbox *box, const struct raft_output *out)
{
    struct raft_message response;

    /* The response joins the others first: pushing may move the array that is shown here. */
    if (append_response(r, out, &response))
        push_later(box, &response);
    push_now(box, &(struct raft_message){.type = RAFT_MSG_STORAGE_APPEND,
                                         .to = RAFT_APPEND_THREAD,
                                         .from = r->id,
                                         .entries = out->entries,
                                         .entry_count = out->entry_count,
                                         .term = out->hard_state.term,
                                         .vote = out->hard_state.vote,
                                         .commit = out->hard_state.commit,
                                         .snapshot = out->snapshot,
                                         .responses = box->later,
                                         .response_count = box->later_count});
}

static void push_storage_apply(struct raft *r, struct outbox *box, const struct raft_output *out)
{
    struct raft_message *response = arena_new(&box->arena, struct raft_message);

    *response = apply_response(r, out);
    push_now(box, &(struct raft_message){.type = RAFT_MSG_STORAGE_APPLY,
                                         .to = RAFT_APPLY_THREAD,
                                         .from = r->id,
                                         .entries = out->committed,
                                         .entry_count = out->committed_count,
                                         .responses = response,
                                         .response_count = 1});
}

static void take_messages_async(struct raft *r, struct outbox *box, struct raft_output *out)
{
    bool append =
        out->entry_count > 0 || out->has_hard_state || out->snapshot || box->later_count > 0;
    bool apply = out->committed_count > 0;

    out->send_count = box->now_count;
    if (append)
        push_storage_append(r, box, out);
    if (apply)
        push_storage_apply(r, box, out);
    /* Only now, since each push may have moved the array. */
    if (append)
        out->append = &box->now[out->send_count];
    if (apply)
        out->apply = &box->now[box->now_count - 1];
}

/* Messages to others wait for the same disk write as everything in this output, so they can be
 * listed with the rest. Those to ourselves wait for raft_advance. */
static void take_messages_plain(struct raft *r, struct outbox *box, struct raft_output *out)
{
    struct raft_message response;

    for (size_t i = 0; i < box->later_count; i++)
        if (box->later[i].to != r->id)
            push_now(box, &box->later[i]);
    out->send_count = box->now_count;
    if (append_response(r, out, &response))
        push_later(box, &response);
    r->applied_response = apply_response(r, out);
    r->awaiting_advance = true;
}

bool raft_take_output(struct raft *r, struct raft_output *out)
{
    *out = (struct raft_output){0};
    if (!raft_has_output(r))
        return false;
    assert(!r->awaiting_advance);

    struct outbox *box = filling(r);
    /* What the log drops from now on may be shown by the box that goes out: it is laid on the pile
     * of the other one, which is released an output later. */
    outbox_empty(lent(r));
    r->filling = 1 - r->filling;
    r->log.dropped = &filling(r)->blobs;

    take_log(r, box, out);
    take_states(r, out);
    out->read_states = box->reads;
    out->read_state_count = box->reads_count;
    out->fetches = box->fetches;
    out->fetch_count = box->fetches_count;
    if (r->config.async_storage_writes)
        take_messages_async(r, box, out);
    else
        take_messages_plain(r, box, out);
    out->messages = box->now;
    out->message_count = box->now_count;

    raft_log_accept_unstable(&r->log);
    if (out->committed_count > 0)
        raft_log_accept_applying(&r->log, out->committed[out->committed_count - 1].index,
                                 applies_unstable(r));
    return true;
}

void raft_advance(struct raft *r)
{
    assert(!r->config.async_storage_writes);
    if (!r->awaiting_advance)
        return;
    r->awaiting_advance = false;
    const struct outbox *box = lent(r);

    for (size_t i = 0; i < box->later_count; i++)
        if (box->later[i].to == r->id)
            raft_step_any(r, &box->later[i]);
    if (r->applied_response.entry_count > 0)
        raft_step_any(r, &r->applied_response);
}
