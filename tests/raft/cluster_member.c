/*
 * A member's life: what it boots from, what a crash leaves of it, and how what raft wants done gets
 * done: writes and executions under way, each in order, each finished by an event.
 */
#include "raft/cluster_int.h"

static const struct bytes refused_context = BYTES("refused");

/* --- birth and boot --- */

static void log_line(void *context, enum raft_log_level level, const char *text)
{
    const struct member *m = context;

    cluster_say(m->cluster, "      %lu %s %s", m->id, level >= RAFT_LOG_WARN ? "!" : " ", text);
}

static void config_fill(struct member *m)
{
    const struct climate *climate = &m->cluster->climate;
    bool plain = rng_chance(&m->cluster->rng, climate->plain_percent, 100);

    m->config = (struct raft_config){
        .id = m->id,
        .election_ticks = climate->election_ticks,
        .heartbeat_ticks = climate->heartbeat_ticks,
        .max_message_bytes = climate->max_message_bytes,
        .max_applying_bytes = climate->max_applying_bytes,
        .max_uncommitted_bytes = climate->max_uncommitted_bytes,
        .max_inflight_messages = climate->max_inflight_messages,
        .max_inflight_bytes = climate->max_inflight_bytes,
        .max_resident_entries = climate->max_resident_entries,
        .max_resident_bytes = climate->max_resident_bytes,
        .async_storage_writes = !plain,
        .check_quorum = climate->check_quorum,
        .pre_vote = climate->pre_vote,
        .read_mode = climate->lease_reads ? RAFT_READ_LEASE : RAFT_READ_SAFE,
        .disable_proposal_forwarding = climate->no_forwarding,
        .step_down_on_removal = climate->step_down_on_removal,
        .log = m->cluster->verbose ? log_line : NULL,
        .log_context = m,
        .log_level = RAFT_LOG_DEBUG,
    };
    assert(raft_config_problem(&m->config) == NULL);
}

struct member *cluster_member_new(struct cluster *c)
{
    assert(c->member_count < CLUSTER_SLOTS_MAX);

    struct member *m = &c->members[c->member_count];
    m->cluster = c;
    m->slot = c->member_count++;
    m->id = c->climate.id_base + m->slot;
    m->disk_slowness = 100;
    m->tick_period = CLUSTER_TICK;
    list_init(&m->writes);
    list_init(&m->applies);
    cluster_path_reset(&m->log, c->zero);
    cluster_path_reset(&m->durable_log, c->zero);
    config_fill(m);
    return m;
}

/* The newest snapshot this member can offer: its application's durable state. */
static void offer_snapshot(struct member *m)
{
    struct cluster *c = m->cluster;
    uint64_t content[2] = {m->durable_app.applied, m->durable_app.chain};
    struct node *tip = cluster_path_at(&m->durable_log, m->durable_app.applied);

    if (m->durable_app.applied < c->root->index || m->durable_app.applied == 0)
        return;
    if (!tip)
        cluster_broken(c, "durability", "member %lu: applied entry %lu is not on disk", m->id,
                       m->durable_app.applied);
    struct blob *blob = blob_copy(bytes_of(content, sizeof(content)));
    raft_set_snapshot(m->raft,
                      &(struct raft_snapshot){.index = tip->index,
                                              .term = tip->term,
                                              .conf_state = *cluster_conf_at(c, tip->index),
                                              .data = blob_bytes(blob),
                                              .blob = blob});
    blob_unref(blob);
}

/* The terms of the entries below `first`, which stay on disk. */
static size_t boot_runs(const struct path *log, uint64_t first, struct raft_term_run *runs)
{
    size_t count = 0;

    for (uint64_t i = log->base->index + 1; i < first; i++) {
        uint64_t term = cluster_path_at(log, i)->term;
        if (count == 0 || runs[count - 1].term != term)
            runs[count++] = (struct raft_term_run){.index = i, .term = term};
    }
    return count;
}

static void boot_raft(struct member *m, uint64_t applied, uint64_t first)
{
    struct path *log = &m->durable_log;
    struct raft_term_run *runs = mem_new_array(log->count + 1, struct raft_term_run);
    struct raft_entry *entries = mem_new_array(log->count + 1, struct raft_entry);
    struct raft_boot *boot = mem_new(struct raft_boot);

    boot->hard_state = m->durable;
    boot->conf_state = *cluster_conf_at(m->cluster, applied);
    boot->base_index = log->base->index;
    boot->base_term = log->base->term;
    boot->applied = applied;
    boot->runs = runs;
    boot->run_count = boot_runs(log, first, runs);
    boot->entries = entries;
    for (uint64_t i = first; i <= cluster_path_last(log); i++)
        entries[boot->entry_count++] = cluster_entry_of(cluster_path_at(log, i));
    m->raft = raft_open(&m->config, boot);
    mem_free(boot);
    mem_free(entries);
    mem_free(runs);
}

/*
 * Raft may start applying anywhere between the log's start and what the application has durably:
 * the latter skips what it knows. And any part of that may stay on disk, not in memory.
 */
void cluster_member_boot(struct member *m)
{
    struct cluster *c = m->cluster;
    uint64_t base = m->durable_log.base->index;
    uint64_t last = cluster_path_last(&m->durable_log);

    assert(!m->up && !m->raft);
    assert(m->durable_app.applied <= last);
    uint64_t applied = rng_between(&c->rng, base, m->durable_app.applied);
    uint64_t first = rng_between(&c->rng, base + 1, applied + 1);
    if (first > last && last > base)
        first = last;
    if (m->durable.commit < m->durable_app.applied)
        m->durable.commit = m->durable_app.applied;
    m->lazy = m->told = m->seen = m->durable;
    cluster_path_copy(&m->log, &m->durable_log);
    m->app = m->durable_app;
    m->next_apply = applied + 1;
    m->snapshot_wait = 0;
    m->life++;
    m->up = true;
    uint64_t seed = rng_next(&c->rng);
    rng_seed(&m->config.rng, seed);
    boot_raft(m, applied, first);
    offer_snapshot(m);
    cluster_say(c, "      %lu boots: term %lu vote %lu commit %lu, log %lu..%lu, applied %lu",
                m->id, m->durable.term, m->durable.vote, m->durable.commit, base, last, applied);
    cluster_member_after(m);
    uint64_t first_tick = rng_between(&c->rng, 1, m->tick_period);
    cluster_schedule(c, first_tick, EVENT_TICK, m);
}

void cluster_member_found(struct member *m, const struct raft_founder *founders, size_t count)
{
    raft_bootstrap(m->raft, founders, count);
    cluster_member_drain(m); /* and the first misfortune comes long after it is written */
}

/* --- death --- */

static void write_free(struct write *w)
{
    raft_message_free(w->message);
    mem_free(w->nodes);
    mem_free(w);
}

static void apply_work_free(struct apply_work *work)
{
    raft_message_free(work->message);
    mem_free(work);
}

static void forget_work(struct member *m)
{
    struct list *link;

    while ((link = list_pop_front(&m->writes)))
        write_free(container_of(link, struct write, link));
    while ((link = list_pop_front(&m->applies)))
        apply_work_free(container_of(link, struct apply_work, link));
    m->busy = false;
    m->drain_scheduled = false;
    m->write_due = m->apply_due = 0;
}

static void log_written(struct member *m, struct node *const nodes[], size_t count)
{
    struct path *log = &m->durable_log;

    if (count == 0)
        return;
    if (nodes[0]->index > cluster_path_last(log) + 1 || nodes[0]->index <= log->base->index)
        cluster_broken(m->cluster, "durability", "member %lu writes entry %lu into a log %lu..%lu",
                       m->id, nodes[0]->index, log->base->index, cluster_path_last(log));
    cluster_path_cut(log, nodes[0]->index);
    for (size_t i = 0; i < count; i++)
        cluster_path_push(log, nodes[i]);
}

/* Everything in the write is on disk now, if it was synced, together with what was lazy before. */
static void write_reaches_disk(struct member *m, const struct write *w)
{
    if (w->snapshot) {
        cluster_path_reset(&m->durable_log, w->snapshot);
        m->durable_app = (struct app){.applied = w->snapshot->index, .chain = w->snapshot_chain};
    }
    log_written(m, w->nodes, w->node_count);
    if (w->has_hard_state)
        m->lazy = w->hard_state;
    if (w->must_sync)
        m->durable = m->lazy;
    cluster_check_vote(m, m->durable.term, m->durable.vote);
}

/*
 * The disk had got somewhere with the writes under way: some of them whole, without anyone having
 * been told, and perhaps the first entries of the next one, whose hard state was to follow.
 */
static void disk_after_crash(struct member *m)
{
    struct cluster *c = m->cluster;
    size_t pending = 0;

    LIST_FOREACH (link, &m->writes)
        pending++;
    size_t whole = rng_below(&c->rng, pending + 1);
    while (whole-- > 0) {
        struct write *w = container_of(list_pop_front(&m->writes), struct write, link);
        write_reaches_disk(m, w);
        write_free(w);
    }
    if (rng_chance(&c->rng, 1, 2))
        m->durable = m->lazy;
    bool torn = rng_chance(&c->rng, 1, 3);
    if (!torn || list_empty(&m->writes))
        return;
    const struct write *next = container_of(m->writes.next, struct write, link);
    size_t entries = rng_below(&c->rng, next->node_count + 1);
    if (next->snapshot || entries == 0)
        return;
    m->durable = m->lazy; /* the disk is written in order */
    log_written(m, next->nodes, entries);
}

void cluster_member_crash(struct member *m)
{
    assert(m->up);

    disk_after_crash(m);
    forget_work(m);
    raft_close(m->raft);
    m->raft = NULL;
    m->up = false;
    m->life++;
    m->cluster->totals.crashes++;
}

void cluster_member_free(struct member *m)
{
    forget_work(m);
    raft_close(m->raft);
    cluster_path_free(&m->log);
    cluster_path_free(&m->durable_log);
}

/* --- taking what raft wants done --- */

static struct write *write_new(struct member *m, const struct raft_output *out)
{
    struct write *w = mem_new(struct write);

    list_init(&w->link);
    w->message = out->append ? raft_message_clone(out->append) : NULL;
    w->must_sync = out->must_sync || out->snapshot;
    w->has_hard_state = out->has_hard_state;
    w->hard_state = out->hard_state;
    if (out->snapshot) {
        w->snapshot = m->log.base;
        memcpy(&w->snapshot_chain, out->snapshot->data.at + 8, 8);
    }
    w->node_count = out->entry_count;
    w->nodes = mem_new_array(out->entry_count, struct node *);
    for (size_t i = 0; i < out->entry_count; i++)
        w->nodes[i] = cluster_path_at(&m->log, out->entries[i].index);
    return w;
}

static void start_write(struct member *m, const struct raft_output *out)
{
    struct cluster *c = m->cluster;
    struct write *w = write_new(m, out);
    if (w->node_count > 0)
        cluster_say(c, "      %lu starts to write entries %lu..%lu", m->id, w->nodes[0]->index,
                    w->nodes[w->node_count - 1]->index);
    uint64_t takes = rng_between(&c->rng, 1, c->weather.disk_max);
    uint64_t due = c->now + takes * m->disk_slowness / 100;

    m->write_due = due > m->write_due ? due : m->write_due;
    list_push_back(&m->writes, &w->link);
    cluster_schedule(c, m->write_due - c->now, EVENT_WRITTEN, m);
}

static void start_apply(struct member *m, const struct raft_message *message)
{
    struct cluster *c = m->cluster;
    struct apply_work *work = mem_new(struct apply_work);
    uint64_t due = c->now + rng_between(&c->rng, 1, c->weather.apply_max);

    list_init(&work->link);
    work->message = raft_message_clone(message);
    m->apply_due = due > m->apply_due ? due : m->apply_due;
    list_push_back(&m->applies, &work->link);
    cluster_schedule(c, m->apply_due - c->now, EVENT_APPLIED, m);
}

static void start_fetch(struct member *m, const struct raft_fetch *fetch)
{
    struct cluster *c = m->cluster;
    uint64_t delay = rng_between(&c->rng, 1, 2 * c->weather.disk_max);

    cluster_check_fetch(m, fetch);
    cluster_schedule(c, delay, EVENT_FETCHED, m)->fetch = *fetch;
    if (rng_chance(&c->rng, 1, 20)) /* an answer nobody waits for any more */
        cluster_schedule(c, delay + CLUSTER_TICK, EVENT_FETCHED, m)->fetch = *fetch;
}

/* Brings what we know of this member's log up to the output, and holds it against the rules. */
static void note_output(struct member *m, const struct raft_output *out)
{
    for (size_t i = 0; i < out->read_state_count; i++)
        cluster_check_read(m, &out->read_states[i]);
    if (out->snapshot) {
        cluster_check_snapshot(m, out->snapshot);
        cluster_path_reset(&m->log, cluster_ledger_at(m->cluster, out->snapshot->index)->node);
        m->snapshot_wait = out->snapshot->index;
        m->next_apply = out->snapshot->index + 1;
    }
    cluster_check_append(m, out->entries, out->entry_count);
    if (out->has_hard_state)
        m->told = out->hard_state;
    cluster_check_committed(m, out->committed, out->committed_count);
    for (size_t i = 0; i < out->fetch_count; i++)
        start_fetch(m, &out->fetches[i]);
}

static void handle_async(struct member *m, const struct raft_output *out)
{
    cluster_check_async(m, out);
    for (size_t i = 0; i < out->send_count; i++)
        cluster_send(m, &out->messages[i]);
    if (out->append)
        start_write(m, out);
    if (out->apply)
        start_apply(m, out->apply);
}

/* A leader's appends may leave before its own write, all else waits for it. */
static bool may_leave_early(const struct raft_message *message)
{
    return message->type == RAFT_MSG_APP;
}

static void handle_plain(struct member *m, const struct raft_output *out)
{
    m->output = *out;
    m->busy = true;
    for (size_t i = 0; i < out->send_count; i++)
        if (may_leave_early(&out->messages[i]))
            cluster_send(m, &out->messages[i]);
    start_write(m, out);
}

void cluster_member_drain(struct member *m)
{
    struct raft_output out;

    m->drain_scheduled = false;
    while (!m->busy && raft_take_output(m->raft, &out)) {
        note_output(m, &out);
        if (m->config.async_storage_writes)
            handle_async(m, &out);
        else
            handle_plain(m, &out);
        cluster_check_member(m);
    }
}

void cluster_member_after(struct member *m)
{
    struct cluster *c = m->cluster;

    cluster_check_member(m);
    if (m->drain_scheduled || m->busy)
        return;
    if (rng_chance(&c->rng, c->climate.lazy_drain_percent, 100)) {
        uint64_t delay = rng_between(&c->rng, 1, CLUSTER_TICK / 4);
        cluster_schedule(c, delay, EVENT_DRAIN, m);
        m->drain_scheduled = true;
        return;
    }
    cluster_member_drain(m);
}

/* --- the work is done --- */

/* Answers of this member to itself come first to last, to others through the network. */
static void deliver_responses(struct member *m, const struct raft_message *work)
{
    for (size_t i = 0; i < work->response_count; i++) {
        const struct raft_message *response = &work->responses[i];
        if (response->to == m->id) {
            cluster_check_send(m, response);
            raft_step_own(m->raft, response);
            cluster_check_member(m);
        } else {
            cluster_send(m, response);
        }
    }
    cluster_member_after(m);
}

static void apply_conf_change(struct member *m, const struct raft_entry *e)
{
    struct raft_conf_change_v2 cc;
    struct raft_conf_state conf, in_force;

    if (!raft_entry_conf_change(e, &cc))
        cluster_broken(m->cluster, "configuration", "entry %lu does not decode", e->index);
    if (bytes_equal(cc.context, refused_context))
        cc = (struct raft_conf_change_v2){.change_count = 1}; /* of nobody */
    enum raft_result result = raft_apply_conf_change(m->raft, &cc, &conf);
    if (result == RAFT_BAD_CONF_CHANGE)
        raft_conf_state(m->raft, &conf); /* unchanged, here as everywhere */
    raft_conf_state(m->raft, &in_force);
    if (!cluster_conf_equal(&conf, &in_force))
        cluster_broken(m->cluster, "configuration", "what is returned at %lu is not in force",
                       e->index);
    cluster_check_conf(m, e->index, &conf);
    cluster_check_member(m);
}

/*
 * While entries were being executed a snapshot may have arrived that contains them. Raft has
 * switched to its configuration already, and an older change must not reach it any more.
 */
static void execute(struct member *m, const struct raft_entry *e)
{
    if (e->index <= raft_status(m->raft).base_index)
        return;
    if (e->index > m->app.applied)
        cluster_check_apply(m, e);
    if (e->type != RAFT_ENTRY_NORMAL)
        apply_conf_change(m, e);
    if (rng_chance(&m->cluster->rng, 1, 8))
        cluster_member_save_app(m);
}

static void finish_plain(struct member *m)
{
    const struct raft_output *out = &m->output;

    for (size_t i = 0; i < out->send_count; i++)
        if (!may_leave_early(&out->messages[i]))
            cluster_send(m, &out->messages[i]);
    for (size_t i = 0; i < out->committed_count; i++)
        execute(m, &out->committed[i]);
    raft_advance(m->raft);
    m->busy = false;
    cluster_member_after(m);
}

void cluster_member_written(struct member *m)
{
    struct write *w = container_of(list_pop_front(&m->writes), struct write, link);

    write_reaches_disk(m, w);
    if (w->snapshot) {
        m->app = m->durable_app;
        m->cluster->totals.snapshots++;
        if (m->snapshot_wait == w->snapshot->index)
            m->snapshot_wait = 0;
    }
    if (w->message)
        deliver_responses(m, w->message);
    else
        finish_plain(m);
    if (w->snapshot && m->up)
        offer_snapshot(m);
    write_free(w);
}

void cluster_member_applied(struct member *m)
{
    struct apply_work *work = container_of(list_pop_front(&m->applies), struct apply_work, link);

    bool in_parts = work->message->entries[0].index % 2 != 0;
    for (size_t i = 0; i < work->message->entry_count; i++) {
        execute(m, &work->message->entries[i]);
        if (!in_parts)
            continue;
        raft_step_applied(m->raft, work->message, i, i + 1);
        cluster_check_member(m);
    }
    if (in_parts)
        cluster_member_after(m);
    else
        deliver_responses(m, work->message);
    apply_work_free(work);
}

void cluster_member_fetched(struct member *m, const struct raft_fetch *fetch)
{
    struct cluster *c = m->cluster;
    struct raft_entry entries[64];
    size_t count = 0;
    uint64_t bytes = 0;
    bool fails = rng_chance(&c->rng, c->healing ? 0 : 1, 8);

    for (uint64_t i = fetch->low; i < fetch->high && count < ARRAY_LEN(entries); i++) {
        entries[count] = cluster_entry_of(cluster_ledger_at(c, i)->node);
        bytes += entries[count].data.len;
        count++;
        if (bytes > fetch->max_bytes)
            break;
    }
    if (!fails)
        c->totals.fetches++;
    raft_fetched(m->raft, fetch->token, entries, fails ? 0 : count);
    cluster_member_after(m);
}

void cluster_member_save_app(struct member *m)
{
    if (!m->snapshot_wait)
        m->durable_app = m->app;
}

void cluster_member_compact(struct member *m)
{
    struct cluster *c = m->cluster;
    struct raft_status status = raft_status(m->raft);
    uint64_t keep = rng_below(&c->rng, 30);

    if (m->snapshot_wait || m->drain_scheduled)
        return;
    cluster_member_save_app(m);
    offer_snapshot(m);
    uint64_t index = m->durable_app.applied;
    index = status.applied < index ? status.applied : index;
    index = status.stable_index < index ? status.stable_index : index;
    if (index < keep || index - keep <= m->log.base->index)
        return;
    index -= keep;
    raft_compact(m->raft, index);
    if (cluster_path_at(&m->log, index) != cluster_path_at(&m->durable_log, index))
        cluster_broken(c, "durability", "member %lu: entry %lu is stable and not on disk", m->id,
                       index);
    cluster_path_compact(&m->log, index);
    cluster_path_compact(&m->durable_log, index);
    cluster_say(c, "      %lu compacts to %lu, snapshot at %lu", m->id, index,
                m->durable_app.applied);
    cluster_member_after(m);
}
