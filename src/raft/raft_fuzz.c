/*
 * Raft against peers that say anything at all.
 *
 * The input is a program: its first bytes choose a configuration, the rest are operations on one
 * member: messages with fields near what the member believes or far from it, honest answers to what
 * it sent, ticks, proposals, storage work finished or forgotten in a crash, snapshots, membership,
 * eviction and fetches. After every operation raft_check must hold, and what is handed out must be
 * a log: without gaps, never rewriting what is committed, promises never taken back.
 */
#include "base/assert.h"
#include "base/list.h"
#include "raft/raft.h"
#include "raft/raft_fuzz_parts.h"

enum {
    OPERATIONS_MAX = 400,
    SENT_MAX = 16, /* messages remembered, to be answered */
    ENTRIES_MAX = 6,
    OWN_ID = 1,
};

/* --- the member and its world --- */

struct work {
    struct list link;
    struct raft_message *message;
};

struct app {
    uint64_t applied;
    struct raft_conf_state conf; /* as of applied */
};

struct world {
    struct feed in;
    struct raft_config config;
    struct raft *raft;
    struct raft_status status; /* as of the last look */

    struct log told, durable;
    struct raft_hard_state told_state, durable_state;
    struct app app;
    struct list appends, applies;
    uint64_t next_apply;

    struct raft_message *sent[SENT_MAX];
    size_t sent_count;
    struct raft_fetch fetch; /* the newest */
    uint64_t reads;
};

static void note_snapshot(struct world *w, const struct raft_snapshot *s)
{
    assert(s->index > w->told_state.commit);
    assert(s->index <= RAFT_NUMBER_MAX);
    log_reset(&w->told, s->index, s->term);
    w->next_apply = s->index + 1;
}

/* What must be true of entries to write: they join the log, and nothing committed is replaced. */
static void note_entries(struct world *w, const struct raft_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct raft_entry *old = log_at(&w->told, entries[i].index);
        assert(i == 0 || entries[i].term >= entries[i - 1].term);
        if (entries[i].index <= w->told_state.commit)
            assert(old && old->term == entries[i].term);
    }
    log_write(&w->told, entries, count);
    if (count > 0)
        assert(log_last(&w->told) >= w->told_state.commit);
}

static void note_hard_state(struct world *w, const struct raft_hard_state *s)
{
    assert(s->term >= w->told_state.term);
    assert(s->commit >= w->told_state.commit);
    assert(s->commit <= log_last(&w->told));
    if (s->term == w->told_state.term && w->told_state.vote != RAFT_NONE)
        assert(s->vote == w->told_state.vote);
    w->told_state = *s;
}

static void note_committed(struct world *w, const struct raft_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct raft_entry *own = log_at(&w->told, entries[i].index);
        assert(entries[i].index == w->next_apply);
        assert(own && own->term == entries[i].term);
        assert(own->type == entries[i].type);
        assert(bytes_equal(own->data, entries[i].data));
        w->next_apply++;
    }
}

static void execute(struct world *w, const struct raft_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct raft_conf_change_v2 cc;
        if (entries[i].index <= raft_status(w->raft).base_index)
            continue; /* a snapshot has overtaken it */
        if (raft_entry_conf_change(&entries[i], &cc)) {
            enum raft_result result = raft_apply_conf_change(w->raft, &cc, NULL);
            assert(result == RAFT_OK || result == RAFT_BAD_CONF_CHANGE);
        }
        w->app.applied = entries[i].index;
        raft_conf_state(w->raft, &w->app.conf);
    }
}

static void remember_sent(struct world *w, const struct raft_message *m)
{
    size_t place = w->sent_count++ % SENT_MAX;

    assert(m->from != RAFT_NONE && m->to != OWN_ID);
    raft_message_free(w->sent[place]);
    w->sent[place] = raft_message_clone(m);
}

static void persist(struct world *w, const struct raft_snapshot *s,
                    const struct raft_entry *entries, size_t count,
                    const struct raft_hard_state *state)
{
    if (s) {
        log_reset(&w->durable, s->index, s->term);
        w->app = (struct app){.applied = s->index, .conf = s->conf_state};
    }
    log_write(&w->durable, entries, count);
    if (state->term != 0 || state->vote != 0 || state->commit != 0)
        w->durable_state = *state;
}

static void queue(struct list *list, const struct raft_message *m)
{
    struct work *work = mem_new(struct work);

    list_init(&work->link);
    work->message = raft_message_clone(m);
    list_push_back(list, &work->link);
}

static struct raft_message *unqueue(struct list *list)
{
    struct list *link = list_pop_front(list);

    if (!link)
        return NULL;
    struct work *work = container_of(link, struct work, link);
    struct raft_message *message = work->message;
    mem_free(work);
    return message;
}

static void forget_queue(struct list *list)
{
    struct raft_message *m;

    while ((m = unqueue(list)))
        raft_message_free(m);
}

static void handle_plain(struct world *w, const struct raft_output *out)
{
    struct raft_hard_state unchanged = {0};

    persist(w, out->snapshot, out->entries, out->entry_count,
            out->has_hard_state ? &out->hard_state : &unchanged);
    execute(w, out->committed, out->committed_count);
    raft_advance(w->raft);
}

static void drain(struct world *w)
{
    struct raft_output out;

    while (raft_take_output(w->raft, &out)) {
        if (out.snapshot)
            note_snapshot(w, out.snapshot);
        note_entries(w, out.entries, out.entry_count);
        if (out.has_hard_state)
            note_hard_state(w, &out.hard_state);
        note_committed(w, out.committed, out.committed_count);
        for (size_t i = 0; i < out.send_count; i++)
            remember_sent(w, &out.messages[i]);
        if (out.fetch_count > 0)
            w->fetch = out.fetches[out.fetch_count - 1];
        if (out.append)
            queue(&w->appends, out.append);
        if (out.apply)
            queue(&w->applies, out.apply);
        if (!w->config.async_storage_writes)
            handle_plain(w, &out);
        raft_check(w->raft);
    }
}

/* --- life --- */

static void boot(struct world *w)
{
    struct raft_boot b = {.hard_state = w->durable_state,
                          .conf_state = w->app.conf,
                          .base_index = w->durable.base_index,
                          .base_term = w->durable.base_term,
                          .entries = w->durable.at,
                          .entry_count = w->durable.count,
                          .applied = w->app.applied};

    if (b.hard_state.commit < w->app.applied)
        b.hard_state.commit = w->app.applied;
    log_copy(&w->told, &w->durable);
    w->told_state = b.hard_state;
    w->next_apply = w->app.applied + 1;
    w->raft = raft_open(&w->config, &b);
}

static void configure(struct world *w)
{
    static const uint64_t bytes[] = {0, 20, 100, RAFT_NO_LIMIT};
    uint8_t flags = take(&w->in), limits = take(&w->in);

    w->config = (struct raft_config){
        .id = OWN_ID,
        .election_ticks = 4,
        .heartbeat_ticks = 1,
        .async_storage_writes = (flags & 1) == 0,
        .check_quorum = flags & 2,
        .pre_vote = flags & 4,
        .read_mode = (flags & 10) == 10 ? RAFT_READ_LEASE : RAFT_READ_SAFE,
        .disable_proposal_forwarding = flags & 16,
        .disable_conf_change_validation = (flags & 96) == 96,
        .step_down_on_removal = flags & 128,
        .max_message_bytes = bytes[limits & 3],
        .max_applying_bytes = bytes[(limits >> 1) & 3],
        .max_uncommitted_bytes = bytes[(limits >> 2) & 3],
        .max_inflight_messages = 1 + (limits >> 4) % 3,
        .max_resident_entries = (limits >> 5) & 1 ? 2 : 0,
        .max_resident_bytes = (limits >> 6) & 1 ? 10 : 0,
    };
    if (limits >> 7 && w->config.max_message_bytes != RAFT_NO_LIMIT)
        w->config.max_inflight_bytes = w->config.max_message_bytes + 30;
    rng_seed(&w->config.rng, limits);
}

/* Log lines are made, of whatever a peer said, and read by nobody. */
static void swallow(void *context, enum raft_log_level level, const char *text)
{
    (void)context;
    (void)level;
    assert(text[0] != '\0');
}

/* One to four voters and perhaps a learner, from a common starting point; or a newborn member,
 * which waits to be found by others or founds a cluster with them. */
static void found(struct world *w)
{
    static const struct raft_founder founders[] = {{.id = 1}, {.id = 2}, {.id = 3}};
    uint8_t shape = take(&w->in);
    size_t voters = shape % 5;

    if (shape & 32)
        w->config.log = swallow;

    list_init(&w->appends);
    list_init(&w->applies);
    for (size_t i = 0; i < voters; i++)
        w->app.conf.voters.at[w->app.conf.voters.count++] = OWN_ID + i;
    if (voters > 0 && (shape & 16))
        w->app.conf.learners.at[w->app.conf.learners.count++] = 6;
    if (voters > 0) {
        log_reset(&w->durable, 3, 1);
        w->durable_state = (struct raft_hard_state){.term = 1, .commit = 3};
        w->app.applied = 3;
    }
    boot(w);
    if (voters == 0 && (shape & 64))
        raft_bootstrap(w->raft, founders, ARRAY_LEN(founders));
}

/* --- hostile messages --- */

struct borrowed {
    struct raft_entry entries[ENTRIES_MAX];
    struct raft_snapshot snapshot;
    uint8_t bytes[64]; /* what data and contexts show */
    struct buf conf_change;
};

static uint64_t take_id(struct feed *f)
{
    uint8_t how = take(f);

    switch (how % 16) {
    case 0:
        return OWN_ID;
    case 1:
        return RAFT_NONE;
    case 2:
        return RAFT_APPEND_THREAD;
    case 3:
        return RAFT_APPLY_THREAD;
    case 4:
        return take_long(f);
    default:
        return 2 + how / 16 % 5;
    }
}

static struct raft_conf_change_v2 take_conf_change(struct feed *f)
{
    struct raft_conf_change_v2 cc = {.transition = (enum raft_transition)(take(f) % 3)};

    cc.change_count = take(f) % 4;
    for (size_t i = 0; i < cc.change_count; i++) {
        uint8_t how = take(f);
        cc.changes[i].type = (enum raft_conf_change_type)(how % 4);
        cc.changes[i].node_id = how / 4 % 8;
    }
    return cc;
}

static struct bytes take_data(struct feed *f, struct borrowed *b, enum raft_entry_type type)
{
    uint8_t how = take(f);

    if (type == RAFT_ENTRY_NORMAL || how % 8 == 0)
        return bytes_of(b->bytes, how % sizeof(b->bytes));
    buf_clear(&b->conf_change);
    struct raft_conf_change_v2 cc = take_conf_change(f);
    if (type == RAFT_ENTRY_CONF_CHANGE)
        raft_conf_change_encode(&(struct raft_conf_change){.type = cc.changes[0].type,
                                                           .node_id = cc.changes[0].node_id},
                                &b->conf_change);
    else
        raft_conf_change_v2_encode(&cc, &b->conf_change);
    return buf_bytes(&b->conf_change);
}

static void take_entries(struct world *w, struct borrowed *b, struct raft_message *m)
{
    struct feed *f = &w->in;
    uint64_t term = m->log_term > m->term ? m->term : m->log_term;

    m->entry_count = take(f) % ENTRIES_MAX;
    m->entries = b->entries;
    for (size_t i = 0; i < m->entry_count; i++) {
        uint8_t how = take(f);
        struct raft_entry *e = &b->entries[i];
        if (how & 1)
            term = m->term;
        *e = (struct raft_entry){.index = m->index + 1 + i, .term = term};
        if (how % 32 == 30)
            e->index = take_near(f, e->index);
        if (how % 32 == 28)
            e->term = take_near(f, e->term);
        if (how >= 224)
            e->type = (enum raft_entry_type)(how % 4);
        /* Only one entry can show the conf change's bytes, and they must not move afterwards. */
        bool plain = e->type == RAFT_ENTRY_NORMAL || i + 1 < m->entry_count;
        e->data = take_data(f, b, plain ? RAFT_ENTRY_NORMAL : e->type);
    }
}

static void take_ids(struct feed *f, struct raft_ids *ids)
{
    uint8_t members = take(f);

    for (uint64_t id = 0; id < 7; id++)
        if ((members >> id) & 1)
            ids->at[ids->count++] = id + (members >> 7);
}

static void take_snapshot(struct world *w, struct borrowed *b, struct raft_message *m)
{
    struct raft_snapshot *s = &b->snapshot;
    uint8_t how = take(&w->in);

    *s = (struct raft_snapshot){.index = take_near(&w->in, w->status.last_index + 1)};
    s->term = take_near(&w->in, m->term);
    take_ids(&w->in, &s->conf_state.voters);
    if (how & 1)
        take_ids(&w->in, &s->conf_state.learners);
    if (how & 2)
        take_ids(&w->in, &s->conf_state.voters_outgoing);
    if (how & 4)
        take_ids(&w->in, &s->conf_state.learners_next);
    if (how % 32 == 31)
        s->conf_state.voters.count = (size_t)take_long(&w->in);
    if ((how & 8) && s->conf_state.voters.count > 0 &&
        s->conf_state.voters.count < RAFT_MEMBERS_MAX) { /* twice the same, out of order */
        s->conf_state.voters.at[s->conf_state.voters.count] = s->conf_state.voters.at[0];
        s->conf_state.voters.count++;
    }
    s->conf_state.auto_leave = how & 16;
    s->data = bytes_of(b->bytes, how % 16);
    m->snapshot = s;
}

static struct bytes take_context(struct world *w, struct borrowed *b)
{
    uint8_t how = take(&w->in);

    if (how % 4 == 0)
        return BYTES("CampaignTransfer");
    if (how % 4 == 1) {
        memset(b->bytes, 0, 8);
        b->bytes[0] = how / 4;
        return bytes_of(b->bytes, 8);
    }
    return bytes_of(b->bytes, how % 4 == 2 ? how / 4 % 16 : 0);
}

static uint64_t take_index(struct world *w)
{
    const struct raft_status *s = &w->status;
    const uint64_t anchors[] = {s->last_index,   s->last_index, s->hard_state.commit, s->base_index,
                                s->stable_index, s->applied,    s->resident_index,    0};

    return take_near(&w->in, anchors[take(&w->in) % ARRAY_LEN(anchors)]);
}

static void step_hostile(struct world *w, enum raft_message_type type)
{
    struct borrowed b = {0};
    struct raft_message m = {.type = type, .to = OWN_ID};
    uint8_t how = take(&w->in);

    for (size_t i = 0; i < sizeof(b.bytes); i++)
        b.bytes[i] = (uint8_t)(how + i);
    m.from = take_id(&w->in);
    m.term = take_near(&w->in, w->status.hard_state.term);
    m.index = take_index(w);
    if (!raft_term_at(w->raft, m.index, &m.log_term) || (how & 1))
        m.log_term = take_near(&w->in, m.term);
    m.commit = take_index(w);
    m.reject = how & 2;
    m.reject_hint = take_index(w);
    m.vote = how & 4 ? take_id(&w->in) : 0;
    if (how & 8)
        take_entries(w, &b, &m);
    if (type == RAFT_MSG_SNAP && how != 255)
        take_snapshot(w, &b, &m);
    if (how & 16)
        m.context = take_context(w, &b);
    enum raft_result result = raft_step(w->raft, &m);
    if (raft_message_is_local(type))
        assert(result == RAFT_LOCAL_MESSAGE);
    buf_free(&b.conf_change);
}

/* --- honest answers --- */

static enum raft_message_type response_type(enum raft_message_type type)
{
    switch (type) {
    case RAFT_MSG_VOTE:
        return RAFT_MSG_VOTE_RESP;
    case RAFT_MSG_PRE_VOTE:
        return RAFT_MSG_PRE_VOTE_RESP;
    case RAFT_MSG_HEARTBEAT:
        return RAFT_MSG_HEARTBEAT_RESP;
    case RAFT_MSG_APP:
    case RAFT_MSG_SNAP:
        return RAFT_MSG_APP_RESP;
    case RAFT_MSG_READ_INDEX:
        return RAFT_MSG_READ_INDEX_RESP;
    default:
        return RAFT_MSG_HUP;
    }
}

static void respond_to_sent(struct world *w)
{
    const struct raft_message *s = w->sent[take(&w->in) % SENT_MAX];
    uint8_t how = take(&w->in);

    if (!s || response_type(s->type) == RAFT_MSG_HUP)
        return;
    struct raft_message m = {.type = response_type(s->type),
                             .from = s->to,
                             .to = OWN_ID,
                             .term = s->term ? s->term : w->status.hard_state.term,
                             .context = s->context,
                             .reject = how % 8 == 0};
    if (s->type == RAFT_MSG_APP)
        m.index = s->index + (m.reject ? 0 : s->entry_count);
    if (s->type == RAFT_MSG_APP && m.reject) {
        m.reject_hint = how / 8 < s->index ? s->index - how / 8 : 0;
        m.log_term = how & 128 ? s->log_term : 0;
    }
    if (s->type == RAFT_MSG_SNAP)
        m.index = s->snapshot->index;
    if (s->type == RAFT_MSG_READ_INDEX) {
        m.index = w->status.hard_state.commit;
        m.entries = s->entries;
        m.entry_count = s->entry_count;
    }
    raft_step(w->raft, &m);
}

/* A leader that knows our log: what gets a follower to do its work. */
static void append_honestly(struct world *w)
{
    uint8_t how = take(&w->in);
    struct raft_entry entries[4];
    struct raft_message m = {.type = RAFT_MSG_APP,
                             .from = 2 + how % 2,
                             .to = OWN_ID,
                             .term = w->status.hard_state.term + (how & 4 ? 1 : 0),
                             .index = w->status.last_index - (how & 8 ? take(&w->in) % 4 : 0),
                             .entries = entries,
                             .entry_count = (how >> 4) % 4};

    if (m.term == 0 || !raft_term_at(w->raft, m.index, &m.log_term))
        return;
    for (size_t i = 0; i < m.entry_count; i++)
        entries[i] = (struct raft_entry){
            .index = m.index + 1 + i, .term = m.term, .data = bytes_of(&how, 1)};
    m.commit = m.index + (how & 64 ? m.entry_count : 0);
    raft_step(w->raft, &m);
}

/* --- the other operations --- */

static void propose(struct world *w)
{
    uint8_t how = take(&w->in);
    struct blob *data[4] = {0};
    size_t count = 1 + how % 4;

    for (size_t i = 0; i < count; i++)
        data[i] = how & 64 ? NULL : blob_copy(bytes_of("0123456789abcdef", how / 4 % 16));
    raft_propose_batch(w->raft, data, count);
    for (size_t i = 0; i < count; i++)
        blob_unref(data[i]);
}

static void propose_conf_change(struct world *w)
{
    uint8_t how = take(&w->in);
    struct raft_conf_change_v2 cc = take_conf_change(&w->in);

    if (how % 4 == 0)
        raft_propose_conf_change_v2(w->raft, NULL);
    else if (how % 4 == 1)
        raft_propose_conf_change(
            w->raft, &(struct raft_conf_change){
                         .id = how, .type = cc.changes[0].type, .node_id = cc.changes[0].node_id});
    else
        raft_propose_conf_change_v2(w->raft, &cc);
}

static void read_index(struct world *w)
{
    uint64_t number = w->reads++;
    struct blob *context = blob_copy(bytes_of(&number, sizeof(number)));

    raft_read_index(w->raft, context);
    blob_unref(context);
}

static void deliver_responses(struct world *w, const struct raft_message *work)
{
    for (size_t i = 0; i < work->response_count; i++) {
        if (work->responses[i].to != OWN_ID)
            continue;
        raft_step_own(w->raft, &work->responses[i]);
        raft_check(w->raft);
    }
}

static void finish_append(struct world *w)
{
    struct raft_message *m = unqueue(&w->appends);

    if (!m)
        return;
    persist(w, m->snapshot, m->entries, m->entry_count,
            &(struct raft_hard_state){.term = m->term, .vote = m->vote, .commit = m->commit});
    deliver_responses(w, m);
    raft_message_free(m);
}

static void finish_apply(struct world *w)
{
    struct raft_message *m = unqueue(&w->applies);

    if (!m)
        return;
    execute(w, m->entries, m->entry_count);
    deliver_responses(w, m);
    raft_message_free(m);
}

static void offer_snapshot(struct world *w)
{
    uint64_t term;
    struct raft_snapshot s = {
        .index = w->app.applied, .conf_state = w->app.conf, .data = BYTES("state")};

    if (take(&w->in) % 4 == 0)
        raft_set_snapshot(w->raft, NULL);
    else if (raft_term_at(w->raft, s.index, &term) && s.index > 0) {
        s.term = term;
        raft_set_snapshot(w->raft, &s);
    }
}

static void compact(struct world *w)
{
    const struct raft_status *s = &w->status;
    uint64_t index = s->applied < s->stable_index ? s->applied : s->stable_index;
    uint8_t keep = take(&w->in) % 4;

    if (w->app.applied < index)
        index = w->app.applied;
    if (index < keep || index - keep <= w->durable.base_index ||
        w->told.base_index != w->durable.base_index)
        return;
    raft_compact(w->raft, index - keep);
    log_compact(&w->told, index - keep);
    log_compact(&w->durable, index - keep);
}

static void respond_to_fetch(struct world *w)
{
    const struct raft_fetch *f = &w->fetch;
    uint8_t how = take(&w->in);
    struct raft_entry entries[4];
    size_t count = 0;

    while (count < 1 + how / 64u && f->low + count < f->high) {
        const struct raft_entry *e = log_at(&w->durable, f->low + count);
        if (!e)
            break;
        entries[count++] = *e;
    }
    /* One that was never given stands for those nobody waits for: a small number could be the token
     * of another fetch, and its entries are others. */
    uint64_t token = how % 8 == 1 ? UINT64_MAX - how : f->token;
    raft_fetched(w->raft, token, entries, how % 8 == 0 ? 0 : count);
}

static void report(struct world *w)
{
    uint8_t how = take(&w->in);
    uint64_t peer = take_id(&w->in);

    if (how % 3 == 0)
        raft_report_unreachable(w->raft, peer);
    else
        raft_report_snapshot(w->raft, peer, how % 3 == 1);
}

/* Some of the writes under way had reached the disk, in order. */
static void restart(struct world *w)
{
    uint8_t survive = take(&w->in) % 4;
    struct raft_message *m;

    while (survive-- > 0 && (m = unqueue(&w->appends))) {
        persist(w, m->snapshot, m->entries, m->entry_count,
                &(struct raft_hard_state){.term = m->term, .vote = m->vote, .commit = m->commit});
        raft_message_free(m);
    }
    forget_queue(&w->appends);
    forget_queue(&w->applies);
    raft_close(w->raft);
    boot(w);
}

static void ticks(struct world *w)
{
    uint8_t how = take(&w->in);

    for (unsigned i = 0; i < 1u + how % 8; i++)
        raft_tick(w->raft);
}

static void rarely(struct world *w)
{
    uint8_t how = take(&w->in);

    switch (how % 6) {
    case 0:
        raft_transfer_leader(w->raft, take_id(&w->in));
        break;
    case 1:
        raft_forget_leader(w->raft);
        break;
    case 2:
        raft_tick_quiesced(w->raft);
        break;
    case 3:
        raft_evict(w->raft, take_index(w));
        break;
    case 4:
        raft_campaign(w->raft);
        break;
    case 5:
        raft_set_randomized_election_timeout(w->raft, 1 + how / 6);
        break;
    }
}

static void operate(struct world *w)
{
    uint8_t what = take(&w->in);

    if (what < 24) {
        step_hostile(w, (enum raft_message_type)what);
        return;
    }
    switch (what % 20) {
    case 0:
        step_hostile(w, (enum raft_message_type)take(&w->in));
        break;
    case 1:
        propose(w);
        break;
    case 2:
        propose_conf_change(w);
        break;
    case 3:
        read_index(w);
        break;
    case 4:
    case 5:
    case 6:
        finish_append(w);
        break;
    case 7:
    case 8:
        finish_apply(w);
        break;
    case 9:
        offer_snapshot(w);
        break;
    case 10:
        compact(w);
        break;
    case 11:
        respond_to_fetch(w);
        break;
    case 12:
        report(w);
        break;
    case 13:
        restart(w);
        break;
    case 14:
        rarely(w);
        break;
    case 15:
        append_honestly(w);
        break;
    case 16:
    case 17:
        respond_to_sent(w);
        break;
    default:
        ticks(w);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = mem_new(struct world);

    w->in = (struct feed){data, size};
    configure(w);
    found(w);
    for (int i = 0; i < OPERATIONS_MAX && w->in.len > 0; i++) {
        w->status = raft_status(w->raft);
        operate(w);
        raft_check(w->raft);
        drain(w);
        raft_check(w->raft);
    }
    raft_close(w->raft);
    forget_queue(&w->appends);
    forget_queue(&w->applies);
    for (size_t i = 0; i < SENT_MAX; i++)
        raft_message_free(w->sent[i]);
    log_free(&w->told);
    log_free(&w->durable);
    mem_free(w);
    return 0;
}
