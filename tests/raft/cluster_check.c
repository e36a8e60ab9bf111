/*
 * The rules. Each is checked at the moment it could be broken first, against what the world knows
 * and no single member does: the tree of all logs, the disks, and the ledger of what was committed.
 */
#include "raft/cluster_int.h"

/* --- the ledger --- */

uint64_t cluster_ledger_last(const struct cluster *c)
{
    return c->root->index + c->ledger_count - 1;
}

const struct ledger_entry *cluster_ledger_at(const struct cluster *c, uint64_t index)
{
    assert(index >= c->root->index);
    assert(index <= cluster_ledger_last(c));

    return &c->ledger[index - c->root->index];
}

static const struct raft_conf_state no_conf;

const struct raft_conf_state *cluster_conf_at(const struct cluster *c, uint64_t index)
{
    if (index < c->root->index)
        return &no_conf;
    const struct ledger_entry *entry = cluster_ledger_at(c, index);
    assert(entry->conf >= 0);
    return &c->confs[entry->conf];
}

const struct raft_conf_state *cluster_newest_conf(const struct cluster *c)
{
    return &c->confs[c->ledger[c->ledger_applied - 1].conf];
}

static int conf_add(struct cluster *c, const struct raft_conf_state *conf)
{
    if (c->conf_count > 0 && cluster_conf_equal(&c->confs[c->conf_count - 1], conf))
        return (int)c->conf_count - 1;
    if (c->conf_count == c->conf_cap) {
        c->conf_cap = 2 * c->conf_cap + 16;
        c->confs = mem_resize(c->confs, c->conf_cap, sizeof(struct raft_conf_state));
    }
    c->confs[c->conf_count++] = *conf;
    return (int)c->conf_count - 1;
}

static struct ledger_entry *ledger_push(struct cluster *c, struct node *n, uint64_t commit_term)
{
    if (c->ledger_count == c->ledger_cap) {
        c->ledger_cap = 2 * c->ledger_cap + 512;
        c->ledger = mem_resize(c->ledger, c->ledger_cap, sizeof(struct ledger_entry));
    }
    uint64_t before = c->ledger_count ? c->ledger[c->ledger_count - 1].chain : 0;
    struct ledger_entry *entry = &c->ledger[c->ledger_count++];
    *entry = (struct ledger_entry){
        .node = n, .chain = cluster_mix(before, n->hash), .commit_term = commit_term, .conf = -1};
    return entry;
}

void cluster_ledger_found(struct cluster *c, struct node *n, const struct raft_conf_state *conf)
{
    struct ledger_entry *entry = ledger_push(c, n, n->term);

    entry->conf = conf_add(c, conf);
    c->founding_last = n->index;
    c->ledger_applied = c->ledger_count;
}

/* --- rule 1: one leader and one vote per term --- */

static struct term_record *term_record(const struct cluster *c, uint64_t term)
{
    if (term >= CLUSTER_TERMS_MAX)
        cluster_broken(c, "liveness", "term %lu was reached", term);
    return &c->terms[term];
}

void cluster_check_vote(const struct member *m, uint64_t term, uint64_t candidate)
{
    uint64_t *vote = &term_record(m->cluster, term)->votes[m->slot];

    if (candidate == RAFT_NONE)
        return;
    if (*vote != RAFT_NONE && *vote != candidate)
        cluster_broken(m->cluster, "election safety",
                       "member %lu votes for %lu and for %lu in term %lu", m->id, *vote, candidate,
                       term);
    *vote = candidate;
}

/* --- rule 3: a new leader has everything --- */

static void check_completeness(const struct member *m, uint64_t term)
{
    const struct cluster *c = m->cluster;
    size_t i = c->ledger_count;
    uint64_t found;

    while (i > 0 && c->ledger[i - 1].commit_term >= term)
        i--;
    if (i == 0)
        return;
    const struct node *n = c->ledger[i - 1].node;
    if (n->index < raft_status(m->raft).base_index)
        return;
    if (!raft_term_at(m->raft, n->index, &found) || found != n->term)
        cluster_broken(c, "leader completeness",
                       "member %lu leads term %lu without entry %lu, committed in term %lu", m->id,
                       term, n->index, c->ledger[i - 1].commit_term);
}

static void check_leadership(struct member *m, const struct raft_status *s)
{
    struct term_record *record = term_record(m->cluster, s->hard_state.term);
    bool leads = s->soft_state.role == RAFT_LEADER;

    if (leads && record->leader_slot == 0) {
        record->leader_slot = m->slot + 1;
        record->leader_life = m->life;
        m->cluster->totals.elections++;
        check_completeness(m, s->hard_state.term);
        if (m->durable.term != s->hard_state.term || m->durable.vote != m->id)
            cluster_broken(m->cluster, "election safety",
                           "member %lu leads term %lu and would not know it after a crash", m->id,
                           s->hard_state.term);
    }
    if (leads && (record->leader_slot != m->slot + 1 || record->leader_life != m->life))
        cluster_broken(m->cluster, "election safety", "members %lu and %lu both lead term %lu",
                       m->cluster->members[record->leader_slot - 1].id, m->id, s->hard_state.term);
}

/* --- rule 5: how something becomes committed --- */

static bool majority_holds(const struct cluster *c, const struct raft_ids *voters,
                           const struct node *n)
{
    size_t holders = 0;

    for (size_t i = 0; i < voters->count; i++) {
        const struct member *m = cluster_member_by_id((struct cluster *)c, voters->at[i]);
        if (m && cluster_path_holds(&m->durable_log, n))
            holders++;
    }
    return holders > voters->count / 2;
}

static void check_commitment(const struct member *m, const struct raft_status *s,
                             const struct node *n)
{
    const struct cluster *c = m->cluster;
    struct raft_conf_state conf;

    if (s->soft_state.role != RAFT_LEADER)
        cluster_broken(c, "commitment", "member %lu commits entry %lu and is no leader", m->id,
                       s->hard_state.commit);
    if (!n)
        cluster_broken(c, "commitment", "member %lu commits entry %lu, which nobody wrote", m->id,
                       s->hard_state.commit);
    if (n->term != s->hard_state.term)
        cluster_broken(c, "commitment", "leader %lu of term %lu commits entry %lu of term %lu",
                       m->id, s->hard_state.term, n->index, n->term);
    raft_conf_state(m->raft, &conf);
    bool agreed = majority_holds(c, &conf.voters, n);
    if (conf.voters_outgoing.count > 0)
        agreed = agreed && majority_holds(c, &conf.voters_outgoing, n);
    if (!agreed)
        cluster_broken(c, "commitment", "leader %lu commits entry %lu without a quorum of disks",
                       m->id, n->index);
    if (c->ledger[c->ledger_count - 1].commit_term > s->hard_state.term)
        cluster_broken(c, "commitment", "leader %lu of the old term %lu still commits", m->id,
                       s->hard_state.term);
}

static void ledger_extend(struct member *m, const struct raft_status *s, struct node *tip)
{
    struct cluster *c = m->cluster;
    size_t more = tip->index - cluster_ledger_last(c);
    struct node **nodes = mem_new_array(more, struct node *);
    struct node *n = tip;

    for (size_t i = more; i > 0; i--) {
        nodes[i - 1] = n;
        n = n->previous;
    }
    if (n != cluster_ledger_at(c, cluster_ledger_last(c))->node)
        cluster_broken(c, "state machine safety",
                       "member %lu commits entry %lu on top of something else than was committed",
                       m->id, tip->index);
    for (size_t i = 0; i < more; i++) {
        ledger_push(c, nodes[i], s->hard_state.term);
        uint64_t proposal = cluster_client_proposal(nodes[i]);
        c->totals.committed += proposal != 0;
        if (c->marker_proposal && !c->marker_index && proposal >= c->marker_proposal)
            c->marker_index = nodes[i]->index;
    }
    mem_free(nodes);
}

static void check_commit(struct member *m, const struct raft_status *s)
{
    struct cluster *c = m->cluster;
    uint64_t commit = s->hard_state.commit, term;

    if (commit == m->seen.commit || commit < c->root->index)
        return;
    if (!raft_term_at(m->raft, commit, &term))
        cluster_broken(c, "commitment", "member %lu commits entry %lu, which it lacks", m->id,
                       commit);
    if (commit <= cluster_ledger_last(c)) {
        if (term != cluster_ledger_at(c, commit)->node->term)
            cluster_broken(c, "state machine safety",
                           "member %lu commits entry %lu of term %lu; it was of term %lu", m->id,
                           commit, term, cluster_ledger_at(c, commit)->node->term);
        return;
    }
    struct node *tip = cluster_node_find(c, commit, term);
    check_commitment(m, s, tip);
    ledger_extend(m, s, tip);
}

/* --- rule 6: promises and disks --- */

static void check_promises(const struct member *m, const struct raft_status *s)
{
    const struct raft_hard_state *now = &s->hard_state, *before = &m->seen;

    if (now->term < before->term || now->commit < before->commit)
        cluster_broken(m->cluster, "durability", "member %lu goes back from %lu/%lu to %lu/%lu",
                       m->id, before->term, before->commit, now->term, now->commit);
    if (now->term == before->term && before->vote != RAFT_NONE && now->vote != before->vote)
        cluster_broken(m->cluster, "election safety", "member %lu changes its vote in term %lu",
                       m->id, now->term);
}

/* Is the log as the world thinks it is, and as durable as raft thinks it is? */
static void check_mirror(const struct member *m, const struct raft_status *s)
{
    const struct cluster *c = m->cluster;
    uint64_t term;

    if (m->busy || raft_has_output(m->raft))
        return;
    if (s->last_index != cluster_path_last(&m->log))
        cluster_broken(c, "durability", "member %lu has %lu entries and handed out %lu", m->id,
                       s->last_index, cluster_path_last(&m->log));
    uint64_t probe = m->log.base->index + c->event_numbers % (m->log.count + 1);
    if (!raft_term_at(m->raft, probe, &term) || term != cluster_path_at(&m->log, probe)->term)
        cluster_broken(c, "durability", "member %lu: entry %lu is not what was handed out", m->id,
                       probe);
    const struct node *stable = cluster_path_at(&m->log, s->stable_index);
    if (!m->snapshot_wait && stable && !cluster_path_holds(&m->durable_log, stable))
        cluster_broken(c, "durability", "member %lu: entry %lu is stable and not on disk", m->id,
                       s->stable_index);
}

/*
 * An answer given in an older term was true then, and everything since is durable too: the new
 * leader may have cut what it speaks of, as nobody can have counted on it.
 */
static void check_accept(const struct member *m, const struct raft_message *message)
{
    const struct cluster *c = m->cluster;
    const struct term_record *record = term_record(c, message->term);

    if (m->durable.term > message->term)
        return;
    if (message->index > cluster_path_last(&m->durable_log))
        cluster_broken(c, "durability", "member %lu acknowledges %lu with %lu on disk", m->id,
                       message->index, cluster_path_last(&m->durable_log));
    if (record->leader_slot == 0)
        return;
    const struct member *leader = &c->members[record->leader_slot - 1];
    if (!leader->up || leader->life != record->leader_life || leader->told.term != message->term)
        return;
    const struct node *here = cluster_path_at(&m->durable_log, message->index);
    const struct node *there = cluster_path_at(&leader->log, message->index);
    if (here && there && here != there)
        cluster_broken(c, "durability", "member %lu acknowledges %lu and holds another entry there",
                       m->id, message->index);
}

void cluster_check_send(const struct member *m, const struct raft_message *message)
{
    bool pre = message->type == RAFT_MSG_PRE_VOTE || message->type == RAFT_MSG_PRE_VOTE_RESP;

    if (raft_message_is_local(message->type) && message->to != m->id)
        cluster_broken(m->cluster, "honest messages", "member %lu sends local type %d", m->id,
                       (int)message->type);
    if (!pre && message->term > m->told.term)
        cluster_broken(m->cluster, "durability", "member %lu speaks of term %lu before %lu is out",
                       m->id, message->term, m->told.term);
    if (message->type == RAFT_MSG_VOTE_RESP && !message->reject) {
        bool kept = m->durable.term > message->term ||
                    (m->durable.term == message->term && m->durable.vote == message->to);
        if (!kept)
            cluster_broken(m->cluster, "durability", "member %lu votes in term %lu off the record",
                           m->id, message->term);
        cluster_check_vote(m, message->term, message->to);
    }
    if (message->type == RAFT_MSG_APP_RESP && !message->reject)
        check_accept(m, message);
}

void cluster_check_append(struct member *m, const struct raft_entry *entries, size_t count)
{
    struct cluster *c = m->cluster;
    bool replaced = false;

    if (count == 0)
        return;
    uint64_t first = entries[0].index, last = cluster_path_last(&m->log);
    if (first <= m->log.base->index || first > last + 1)
        cluster_broken(c, "durability", "member %lu writes entry %lu into a log %lu..%lu", m->id,
                       first, m->log.base->index, last);
    if (first + count <= last && m->told.commit >= first + count)
        cluster_broken(c, "durability", "member %lu cuts committed entries", m->id);
    struct node *previous = cluster_path_at(&m->log, first - 1);
    for (size_t i = 0; i < count; i++) {
        struct node *n = cluster_node(c, previous, &entries[i]);
        struct node *old = cluster_path_at(&m->log, n->index);
        if (old && old != n && old->index <= m->told.commit)
            cluster_broken(c, "durability", "member %lu replaces committed entry %lu", m->id,
                           old->index);
        if (old && old != n)
            replaced = true;
        if (old != n) {
            cluster_path_cut(&m->log, n->index);
            cluster_path_push(&m->log, n);
        }
        previous = n;
    }
    cluster_path_cut(&m->log, first + count);
    c->totals.truncations += replaced;
}

void cluster_check_fetch(const struct member *m, const struct raft_fetch *fetch)
{
    if (fetch->low >= fetch->high || fetch->high > m->seen.commit + 1 ||
        fetch->low < m->cluster->root->index)
        cluster_broken(m->cluster, "durability", "member %lu fetches entries [%lu, %lu)", m->id,
                       fetch->low, fetch->high);
}

/* The two views of an output must agree, since acting on either is enough. */
void cluster_check_async(const struct member *m, const struct raft_output *out)
{
    const struct raft_message *append = out->append;
    bool work = out->entry_count > 0 || out->has_hard_state || out->snapshot;

    if (work && !append)
        cluster_broken(m->cluster, "durability", "member %lu: nothing to write it with", m->id);
    if (append && (append->entry_count != out->entry_count || append->snapshot != out->snapshot))
        cluster_broken(m->cluster, "durability", "member %lu: two views of a write", m->id);
    if (append && out->has_hard_state &&
        (append->term != out->hard_state.term || append->vote != out->hard_state.vote ||
         append->commit != out->hard_state.commit))
        cluster_broken(m->cluster, "durability", "member %lu: two hard states", m->id);
    size_t applying = out->apply ? out->apply->entry_count : 0;
    if (applying != out->committed_count)
        cluster_broken(m->cluster, "durability", "member %lu: two views of an apply", m->id);
}

/* --- rule 4: what is applied --- */

void cluster_check_committed(struct member *m, const struct raft_entry *entries, size_t count)
{
    const struct cluster *c = m->cluster;

    for (size_t i = 0; i < count; i++) {
        const struct raft_entry *e = &entries[i];
        if (e->index != m->next_apply)
            cluster_broken(c, "state machine safety", "member %lu is given entry %lu after %lu",
                           m->id, e->index, m->next_apply - 1);
        if (e->index > cluster_ledger_last(c))
            cluster_broken(c, "state machine safety", "member %lu is given uncommitted entry %lu",
                           m->id, e->index);
        const struct node *n = cluster_ledger_at(c, e->index)->node;
        if (n->term != e->term || n->type != e->type || !bytes_equal(n->data, e->data))
            cluster_broken(c, "state machine safety", "member %lu is given another entry %lu",
                           m->id, e->index);
        if (m->config.async_storage_writes && !cluster_path_holds(&m->durable_log, n))
            cluster_broken(c, "durability", "member %lu is given entry %lu before it is on disk",
                           m->id, e->index);
        m->next_apply++;
    }
}

void cluster_check_apply(struct member *m, const struct raft_entry *e)
{
    struct cluster *c = m->cluster;
    struct ledger_entry *entry = &c->ledger[e->index - c->root->index];

    if (e->index != m->app.applied + 1)
        cluster_broken(c, "state machine safety", "member %lu applies %lu after %lu", m->id,
                       e->index, m->app.applied);
    if (!cluster_path_holds(&m->durable_log, entry->node))
        cluster_broken(c, "durability", "member %lu applies entry %lu, which is not on disk", m->id,
                       e->index);
    m->app.applied = e->index;
    m->app.chain = cluster_mix(m->app.chain, entry->node->hash);
    if (m->app.chain != entry->chain)
        cluster_broken(c, "state machine safety", "member %lu has another state at %lu", m->id,
                       e->index);
    size_t place = e->index - c->root->index;
    if (entry->conf < 0 && e->type == RAFT_ENTRY_NORMAL) {
        entry->conf = c->ledger[place - 1].conf;
        c->ledger_applied = place + 1;
    }
}

void cluster_check_snapshot(struct member *m, const struct raft_snapshot *snapshot)
{
    const struct cluster *c = m->cluster;
    uint64_t content[2];

    if (snapshot->index < c->root->index || snapshot->index > cluster_ledger_last(c))
        cluster_broken(c, "state machine safety", "member %lu installs snapshot %lu", m->id,
                       snapshot->index);
    const struct ledger_entry *entry = cluster_ledger_at(c, snapshot->index);
    if (snapshot->data.len != sizeof(content) || snapshot->term != entry->node->term)
        cluster_broken(c, "state machine safety", "snapshot %lu is damaged", snapshot->index);
    memcpy(content, snapshot->data.at, sizeof(content));
    if (content[0] != snapshot->index || content[1] != entry->chain)
        cluster_broken(c, "state machine safety", "snapshot %lu has another state",
                       snapshot->index);
    if (!cluster_conf_equal(&snapshot->conf_state, cluster_conf_at(c, snapshot->index)))
        cluster_broken(c, "configuration", "snapshot %lu has another configuration",
                       snapshot->index);
    if (snapshot->index <= m->told.commit)
        cluster_broken(c, "state machine safety", "member %lu at %lu goes back to snapshot %lu",
                       m->id, m->told.commit, snapshot->index);
}

/* --- rule 7: reads --- */

void cluster_check_read(struct member *m, const struct raft_read_state *read)
{
    struct cluster *c = m->cluster;
    uint64_t number;

    if (read->context.len != sizeof(number))
        cluster_broken(c, "reads", "member %lu: a context that was never given", m->id);
    memcpy(&number, read->context.at, sizeof(number));
    if (number >= c->read_count || c->reads[number].slot != m->slot)
        cluster_broken(c, "reads", "member %lu: a read that was never asked for", m->id);
    if (read->index < c->reads[number].floor && !c->climate.lease_reads)
        cluster_broken(c, "reads", "member %lu may read at %lu what was written at %lu", m->id,
                       read->index, c->reads[number].floor);
    if (read->index > cluster_ledger_last(c))
        cluster_broken(c, "reads", "member %lu may read at %lu, which is not committed", m->id,
                       read->index);
    c->totals.reads++;
}

/* --- rule 8: configurations --- */

/* Founders know each other before the founding entries are applied, so those between prove
 * nothing; from the last of them on all must agree. */
void cluster_check_conf(struct member *m, uint64_t index, const struct raft_conf_state *conf)
{
    struct cluster *c = m->cluster;
    struct ledger_entry *entry = &c->ledger[index - c->root->index];

    if (index < c->founding_last)
        return;
    if (entry->conf >= 0) {
        if (!cluster_conf_equal(&c->confs[entry->conf], conf))
            cluster_broken(c, "configuration", "member %lu has another one at %lu", m->id, index);
        return;
    }
    size_t before = c->conf_count;
    entry->conf = conf_add(c, conf);
    c->ledger_applied = index - c->root->index + 1;
    c->totals.conf_changes += c->conf_count - before;
    if (c->conf_count > before && conf->voters_outgoing.count > 0)
        c->totals.joint++;
}

/* --- all of it, after a call --- */

void cluster_check_member(struct member *m)
{
    struct cluster *c = m->cluster;
    struct raft_status s = raft_status(m->raft);

    raft_check(m->raft);
    check_promises(m, &s);
    check_leadership(m, &s);
    check_commit(m, &s);
    m->seen = s.hard_state;
    check_mirror(m, &s);
    c->trace = cluster_mix(c->trace, s.hard_state.term * 4 + (uint64_t)s.soft_state.role);
    c->trace = cluster_mix(c->trace, s.last_index * 65536 + s.hard_state.commit);
}
