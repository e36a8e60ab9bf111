/*
 * A run: the seed decides the climate, a cluster is founded, events happen in order of virtual
 * time until enough is committed, everything is healed, and agreement must follow.
 */
#include "raft/cluster_int.h"

#include "harness/seeds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CHAOS_TICKS_MIN = 150,
    CHAOS_TICKS_MAX = 400,    /* it may last so long, drawn by the seed */
    CHAOS_TICKS_LIMIT = 2500, /* and so long if little gets committed */
    RESCUE_ELECTIONS = 15,    /* election timeouts without a leader before an operator steps in, */
    RESCUE_ELECTIONS_IN_CHAOS = 60, /* where there may be other reasons for having none */
    HEAL_ELECTIONS_MAX = 60,        /* election timeouts until all must agree */
};

void cluster_broken(const struct cluster *c, const char *rule, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "seed %lu, tick %lu.%02lu, event %lu: %s broken: ", c->seed,
            c->now / CLUSTER_TICK, c->now % CLUSTER_TICK, c->totals.steps, rule);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void cluster_say(const struct cluster *c, const char *format, ...)
{
    va_list args;

    if (!c->verbose)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

uint64_t cluster_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ (hash >> 29);
}

/* --- asking --- */

struct member *cluster_member_by_id(struct cluster *c, uint64_t id)
{
    uint64_t slot = id - c->climate.id_base;

    return slot < c->member_count ? &c->members[slot] : NULL;
}

struct member *cluster_leader(struct cluster *c)
{
    struct member *best = NULL;

    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[i];
        if (!m->up || raft_status(m->raft).soft_state.role != RAFT_LEADER)
            continue;
        if (!best || m->seen.term > best->seen.term)
            best = m;
    }
    return best;
}

static bool ids_have(const struct raft_ids *ids, uint64_t id)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->at[i] == id)
            return true;
    return false;
}

static bool ids_equal(const struct raft_ids *a, const struct raft_ids *b)
{
    return a->count == b->count && memcmp(a->at, b->at, a->count * sizeof(a->at[0])) == 0;
}

bool cluster_conf_has(const struct raft_conf_state *conf, uint64_t id)
{
    return ids_have(&conf->voters, id) || ids_have(&conf->learners, id) ||
           ids_have(&conf->voters_outgoing, id) || ids_have(&conf->learners_next, id);
}

bool cluster_conf_equal(const struct raft_conf_state *a, const struct raft_conf_state *b)
{
    return ids_equal(&a->voters, &b->voters) && ids_equal(&a->learners, &b->learners) &&
           ids_equal(&a->voters_outgoing, &b->voters_outgoing) &&
           ids_equal(&a->learners_next, &b->learners_next) && a->auto_leave == b->auto_leave;
}

static bool majority_applied(struct cluster *c, const struct raft_ids *voters, uint64_t index)
{
    size_t count = 0;

    for (size_t i = 0; i < voters->count; i++)
        count += cluster_member_by_id(c, voters->at[i])->durable_app.applied >= index;
    return voters->count == 0 || count > voters->count / 2;
}

/* Has the newest configuration reached those it gives a say? */
static bool newest_conf_is_known(struct cluster *c)
{
    const struct raft_conf_state *conf = cluster_newest_conf(c);
    size_t since = c->ledger_applied - 1;

    while (since > 0 && c->ledger[since - 1].conf == c->ledger[since].conf)
        since--;
    uint64_t index = c->root->index + since;
    return majority_applied(c, &conf->voters, index) &&
           majority_applied(c, &conf->voters_outgoing, index);
}

bool cluster_is_dispensable(struct cluster *c, const struct member *m)
{
    return c->ledger_applied == c->ledger_count &&
           !cluster_conf_has(cluster_newest_conf(c), m->id) && newest_conf_is_known(c);
}

/*
 * A configuration counts once it is applied, as in etcd, and that has a known price: if those who
 * leave were needed to commit the change and are the only ones to know that it is committed, the
 * others still need their votes, and do not get them when their logs are shorter. (The textbook
 * case is going from two members to one.) No message of raft's helps then; an operator has to edit
 * a disk. So do we, writing down as committed what is committed, and count it.
 */
static void rescue_stranded(struct cluster *c)
{
    uint64_t elections = c->healing ? RESCUE_ELECTIONS : RESCUE_ELECTIONS_IN_CHAOS;
    uint64_t patience = elections * c->climate.election_ticks * CLUSTER_TICK;

    if (cluster_leader(c))
        c->leader_seen = c->now;
    if (c->now < c->leader_seen + patience || newest_conf_is_known(c))
        return;
    c->leader_seen = c->now;
    c->totals.rescues++;
    cluster_say(c, "      rescue");
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[i];
        uint64_t index = cluster_path_last(&m->durable_log);
        if (!m->up || index < c->root->index)
            continue;
        cluster_member_crash(m);
        index = cluster_path_last(&m->durable_log);
        index = index < cluster_ledger_last(c) ? index : cluster_ledger_last(c);
        while (!cluster_path_holds(&m->durable_log, cluster_ledger_at(c, index)->node))
            index--;
        m->durable.commit = index > m->durable.commit ? index : m->durable.commit;
        cluster_member_boot(m);
    }
}

/* --- events --- */

static bool event_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct event *x = container_of(a, struct event, heap);
    const struct event *y = container_of(b, struct event, heap);

    return x->due != y->due ? x->due < y->due : x->number < y->number;
}

struct event *cluster_schedule(struct cluster *c, uint64_t delay, enum event_kind kind,
                               const struct member *m)
{
    struct event *e = mem_new(struct event);

    e->due = c->now + delay;
    e->number = c->event_numbers++;
    e->kind = kind;
    if (m) {
        e->slot = m->slot;
        e->life = m->life;
    }
    heap_push(&c->events, &e->heap);
    return e;
}

static void event_free(struct event *e)
{
    raft_message_free(e->message);
    mem_free(e);
}

/* Clocks differ: each member's next tick is its own affair, and a stalled one makes up for none. */
static void on_tick(struct cluster *c, struct member *m)
{
    cluster_schedule(c, m->tick_period, EVENT_TICK, m);
    if (c->now < m->stalled_until)
        return;
    raft_tick(m->raft);
    cluster_member_after(m);
}

static void on_restart(struct cluster *c, struct member *m)
{
    if (m->up || m->retired)
        return;
    m->tick_period = (unsigned)rng_between(&c->rng, 70, 140);
    cluster_member_boot(m);
}

static void member_event(struct cluster *c, struct event *e)
{
    struct member *m = &c->members[e->slot];

    if (e->life != m->life)
        return; /* it died meanwhile */
    switch (e->kind) {
    case EVENT_TICK:
        on_tick(c, m);
        break;
    case EVENT_WRITTEN:
        cluster_member_written(m);
        break;
    case EVENT_APPLIED:
        cluster_member_applied(m);
        break;
    case EVENT_FETCHED:
        cluster_member_fetched(m, &e->fetch);
        break;
    case EVENT_DRAIN:
        cluster_member_drain(m);
        break;
    case EVENT_RESTART:
        on_restart(c, m);
        break;
    case EVENT_SNAPSHOT_REPORT:
        cluster_snapshot_report(c, e);
        break;
    default:
        unreachable();
    }
}

static void on_event(struct cluster *c, struct event *e)
{
    uint64_t next;

    switch (e->kind) {
    case EVENT_DELIVER:
        cluster_deliver(c, e);
        break;
    case EVENT_CLIENT:
        next = rng_between(&c->rng, 1, c->climate.client_period);
        cluster_schedule(c, next, EVENT_CLIENT, NULL);
        if (!c->healing)
            cluster_client(c);
        break;
    case EVENT_CHAOS:
        next = rng_between(&c->rng, 1, c->climate.chaos_period);
        cluster_schedule(c, next, EVENT_CHAOS, NULL);
        if (!c->healing) {
            rescue_stranded(c);
            cluster_chaos(c);
        }
        break;
    case EVENT_WEATHER:
        next = rng_between(&c->rng, 5 * CLUSTER_TICK, 50 * CLUSTER_TICK);
        cluster_schedule(c, next, EVENT_WEATHER, NULL);
        if (!c->healing)
            cluster_weather_change(c);
        break;
    default:
        member_event(c, e);
    }
}

static const char *event_name(enum event_kind kind)
{
    static const char *const names[] = {
        [EVENT_TICK] = "tick",       [EVENT_DELIVER] = "deliver",
        [EVENT_WRITTEN] = "written", [EVENT_APPLIED] = "applied",
        [EVENT_FETCHED] = "fetched", [EVENT_DRAIN] = "drain",
        [EVENT_RESTART] = "restart", [EVENT_SNAPSHOT_REPORT] = "snapshot report",
        [EVENT_CLIENT] = "client",   [EVENT_CHAOS] = "chaos",
        [EVENT_WEATHER] = "weather",
    };

    return names[kind];
}

static void say_event(const struct cluster *c, const struct event *e)
{
    const struct raft_message *m = e->message;

    if (!c->verbose)
        return;
    printf("%lu.%02lu #%lu %s %lu", c->now / CLUSTER_TICK, c->now % CLUSTER_TICK, c->totals.steps,
           event_name(e->kind), c->climate.id_base + e->slot);
    if (m)
        printf(": type %d from %lu term %lu index %lu/%lu commit %lu%s, %zu entries", (int)m->type,
               m->from, m->term, m->index, m->log_term, m->commit, m->reject ? " reject" : "",
               m->entry_count);
    putchar('\n');
}

static void step(struct cluster *c)
{
    struct event *e = container_of(heap_pop(&c->events), struct event, heap);

    c->now = e->due;
    c->totals.steps++;
    c->trace = cluster_mix(c->trace, c->now * 16 + (uint64_t)e->kind);
    say_event(c, e);
    on_event(c, e);
    event_free(e);
}

/* --- founding --- */

static uint64_t one_of(struct rng *rng, const uint64_t *choices, size_t count)
{
    return choices[rng_below(rng, count)];
}
#define ONE_OF(rng, ...)                                                                           \
    one_of((rng), (const uint64_t[]){__VA_ARGS__},                                                 \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void decide_limits(struct climate *climate, struct rng *rng)
{
    climate->max_message_bytes = ONE_OF(rng, 0, 100, 1000, 1 << 20, RAFT_NO_LIMIT);
    climate->max_applying_bytes = ONE_OF(rng, 0, 200, 1 << 20);
    climate->max_uncommitted_bytes = ONE_OF(rng, 0, 0, 400, 5000);
    climate->max_inflight_messages = ONE_OF(rng, 1, 2, 8, 256);
    climate->max_resident_entries = ONE_OF(rng, 0, 0, 1, 10, 50);
    climate->max_resident_bytes = ONE_OF(rng, 0, 0, 500, 5000);
    if (climate->max_message_bytes < 100000 && rng_chance(rng, 1, 3))
        climate->max_inflight_bytes = climate->max_message_bytes + 1;
}

static void decide_climate(struct climate *climate, struct rng *rng)
{
    climate->voters = (unsigned)ONE_OF(rng, 1, 3, 3, 5, 5, 7);
    climate->learners = (unsigned)ONE_OF(rng, 0, 0, 1, 2);
    climate->check_quorum = rng_chance(rng, 1, 2);
    climate->pre_vote = rng_chance(rng, 1, 2);
    climate->lease_reads = climate->check_quorum && rng_chance(rng, 1, 10);
    climate->step_down_on_removal = rng_chance(rng, 1, 2);
    climate->no_forwarding = rng_chance(rng, 1, 8);
    climate->bootstrap = rng_chance(rng, 1, 2);
    climate->plain_percent = (unsigned)ONE_OF(rng, 0, 0, 0, 30, 100);
    climate->lazy_drain_percent = (unsigned)ONE_OF(rng, 0, 10, 40);
    climate->heartbeat_ticks = (unsigned)ONE_OF(rng, 1, 1, 2);
    climate->election_ticks = (unsigned)ONE_OF(rng, 5, 10);
    climate->chaos_period = (unsigned)ONE_OF(rng, 2 * CLUSTER_TICK, 5 * CLUSTER_TICK);
    climate->client_period = (unsigned)ONE_OF(rng, 40, 100, 200);
    climate->id_base = ONE_OF(rng, 1, 1, 100, 0x8e9e05c52164694d);
    climate->crash_weight = (unsigned)ONE_OF(rng, 0, 15, 30);
    climate->conf_weight = (unsigned)ONE_OF(rng, 0, 20, 40);
    climate->compact_weight = (unsigned)ONE_OF(rng, 0, 10, 20);
    decide_limits(climate, rng);
}

static void add_id(struct raft_ids *ids, uint64_t id)
{
    ids->at[ids->count++] = id;
}

/* Everyone starts from one entry, as if restored from the same snapshot. */
static void found_from_snapshot(struct cluster *c)
{
    struct raft_conf_state conf = {0};

    for (unsigned i = 0; i < c->climate.voters + c->climate.learners; i++)
        add_id(i < c->climate.voters ? &conf.voters : &conf.learners, c->climate.id_base + i);
    cluster_ledger_found(c, c->root, &conf);
    for (unsigned i = 0; i < c->climate.voters + c->climate.learners; i++) {
        struct member *m = cluster_member_new(c);
        cluster_path_reset(&m->durable_log, c->root);
        m->durable_app = (struct app){.applied = c->root->index, .chain = c->ledger[0].chain};
        m->durable = (struct raft_hard_state){.term = c->root->term, .commit = c->root->index};
        cluster_member_boot(m);
    }
}

/* The founding entries, made here as every founder makes them. */
static void found_ledger(struct cluster *c, const struct raft_founder *founders, size_t count)
{
    struct raft_conf_state conf = {0};
    struct node *tip = c->root;

    cluster_ledger_found(c, c->root, &conf);
    for (size_t i = 0; i < count; i++) {
        struct buf data = {0};
        raft_conf_change_encode(&(struct raft_conf_change){.type = RAFT_ADD_NODE,
                                                           .node_id = founders[i].id,
                                                           .context = founders[i].context},
                                &data);
        tip = cluster_node(c, tip,
                           &(struct raft_entry){.term = 1,
                                                .index = i + 1,
                                                .type = RAFT_ENTRY_CONF_CHANGE,
                                                .data = buf_bytes(&data)});
        buf_free(&data);
        add_id(&conf.voters, founders[i].id);
        cluster_ledger_found(c, tip, &conf);
    }
}

static void found_by_bootstrap(struct cluster *c)
{
    struct raft_founder founders[CLUSTER_SLOTS_MAX];
    size_t count = c->climate.voters;

    for (size_t i = 0; i < count; i++)
        founders[i] =
            (struct raft_founder){.id = c->climate.id_base + i, .context = BYTES("a founder")};
    found_ledger(c, founders, count);
    for (size_t i = 0; i < count; i++) {
        struct member *m = cluster_member_new(c);
        cluster_member_boot(m);
        cluster_member_found(m, founders, count);
    }
}

static void found(struct cluster *c)
{
    uint64_t start = rng_between(&c->rng, 1, 20);

    decide_climate(&c->climate, &c->rng);
    cluster_weather_clear(c);
    heap_init(&c->events, event_before);
    c->terms = mem_new_array(CLUSTER_TERMS_MAX, struct term_record);
    if (c->climate.bootstrap)
        cluster_tree_open(c, 0, 0);
    else
        cluster_tree_open(c, start, 1);
    if (c->climate.bootstrap)
        found_by_bootstrap(c);
    else
        found_from_snapshot(c);
    cluster_schedule(c, 1, EVENT_CLIENT, NULL);
    cluster_schedule(c, 20 * CLUSTER_TICK, EVENT_CHAOS, NULL);
    cluster_schedule(c, 20 * CLUSTER_TICK, EVENT_WEATHER, NULL);
}

/* --- chaos, then peace --- */

static void live_through_chaos(struct cluster *c)
{
    uint64_t end = rng_between(&c->rng, CHAOS_TICKS_MIN, CHAOS_TICKS_MAX) * CLUSTER_TICK;
    uint64_t limit = (uint64_t)CHAOS_TICKS_LIMIT * CLUSTER_TICK;

    while (c->now < end || (c->totals.committed < CLUSTER_COMMITTED && c->now < limit))
        step(c);
}

/* All links whole, all clocks and disks good, everyone who belongs to the cluster awake. */
static void heal(struct cluster *c)
{
    c->healing = true;
    cluster_weather_clear(c);
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[i];
        m->stalled_until = 0;
        m->disk_slowness = 100;
        m->tick_period = CLUSTER_TICK + i;
        if (!m->up && !m->retired)
            cluster_member_boot(m);
    }
    cluster_say(c, "      healed");
}

/* Who is in the newest configuration must run; who is not, and could only disturb, must not. */
static void keep_house(struct cluster *c)
{
    const struct raft_conf_state *conf = cluster_newest_conf(c);

    for (unsigned i = 0; i < c->member_count; i++)
        if (c->members[i].up)
            cluster_member_save_app(&c->members[i]);
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[i];
        if (!m->up && cluster_conf_has(conf, m->id)) {
            m->retired = false;
            cluster_member_boot(m);
        } else if (m->up && m->seen.commit > 0 && cluster_is_dispensable(c, m)) {
            cluster_member_crash(m);
            m->retired = true;
        }
    }
}

/*
 * Without check_quorum and pre_vote nobody tells a leader that its term is old but candidates, as
 * in etcd. A learner that has seen a higher one never becomes a candidate and ignores the leader
 * for ever, until an election brings the term up to its own.
 */
static void restart_leader_outrun_by_learner(struct cluster *c, struct member *leader)
{
    if (c->climate.check_quorum || c->climate.pre_vote)
        return;
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[i];
        bool ahead = m->up && m->seen.term > leader->seen.term;
        if (!ahead || raft_is_voter(m->raft, m->id) ||
            !cluster_conf_has(cluster_newest_conf(c), m->id))
            continue;
        c->totals.rescues++;
        cluster_member_crash(leader);
        cluster_member_boot(leader);
        return;
    }
}

/* What an operator would do: leave a joint configuration, offer a snapshot, write something. */
static void tend(struct cluster *c)
{
    struct raft_conf_state conf;

    keep_house(c);
    rescue_stranded(c);
    struct member *leader = cluster_leader(c);
    if (!leader)
        return;
    restart_leader_outrun_by_learner(c, leader);
    cluster_member_compact(leader);
    raft_conf_state(leader->raft, &conf);
    if (conf.voters_outgoing.count > 0 && !conf.auto_leave) {
        raft_propose_conf_change_v2(leader->raft, NULL);
        cluster_member_after(leader);
    }
    if (!c->marker_proposal)
        c->marker_proposal = c->proposals + 1;
    if (!c->marker_index || c->totals.committed < CLUSTER_COMMITTED)
        cluster_client_propose(c, leader);
}

static bool agreed(struct cluster *c)
{
    const struct member *leader = cluster_leader(c);
    const struct raft_conf_state *conf = cluster_newest_conf(c);

    if (!leader || !c->marker_index || c->ledger_applied != c->ledger_count ||
        conf->voters_outgoing.count > 0 || c->totals.committed < CLUSTER_COMMITTED)
        return false;
    for (unsigned i = 0; i < c->member_count; i++) {
        const struct member *m = &c->members[i];
        if (cluster_conf_has(conf, m->id) && (!m->up || m->app.applied < c->marker_index))
            return false;
    }
    return true;
}

static void live_in_peace(struct cluster *c)
{
    uint64_t start = c->now;
    uint64_t limit =
        start + (uint64_t)HEAL_ELECTIONS_MAX * c->climate.election_ticks * CLUSTER_TICK;
    uint64_t next = start;

    while (!agreed(c)) {
        if (c->now > limit && !cluster_leader(c))
            cluster_broken(c, "liveness", "no leader since everything was healed");
        if (c->now > limit)
            cluster_broken(c, "liveness", "entry %lu is not applied by all", c->marker_index);
        if (c->now >= next) {
            tend(c);
            next = c->now + CLUSTER_TICK;
        }
        step(c);
    }
    c->totals.heal_ticks_max = (c->now - start) / CLUSTER_TICK;
}

static void cluster_free(struct cluster *c)
{
    struct heap_node *node;

    while ((node = heap_pop(&c->events)))
        event_free(container_of(node, struct event, heap));
    heap_free(&c->events);
    for (unsigned i = 0; i < c->member_count; i++)
        cluster_member_free(&c->members[i]);
    cluster_tree_close(c);
    mem_free(c->ledger);
    mem_free(c->confs);
    mem_free(c->terms);
    mem_free(c);
}

void cluster_run(const struct cluster_options *options, struct cluster_result *out)
{
    struct cluster *c = mem_new(struct cluster);

    seeds_now_trying(options->seed);
    c->seed = options->seed;
    c->verbose = options->verbose;
    rng_seed(&c->rng, options->seed);
    c->totals.seeds = 1;
    found(c);
    live_through_chaos(c);
    heal(c);
    live_in_peace(c);
    *out = (struct cluster_result){.totals = c->totals, .trace = c->trace};
    cluster_free(c);
    seeds_tried();
}

void cluster_totals_add(struct cluster_totals *sum, const struct cluster_totals *more)
{
    sum->seeds += more->seeds;
    sum->steps += more->steps;
    sum->committed += more->committed;
    sum->elections += more->elections;
    sum->truncations += more->truncations;
    sum->snapshots += more->snapshots;
    sum->conf_changes += more->conf_changes;
    sum->joint += more->joint;
    sum->crashes += more->crashes;
    sum->reads += more->reads;
    sum->fetches += more->fetches;
    sum->rescues += more->rescues;
    if (more->heal_ticks_max > sum->heal_ticks_max)
        sum->heal_ticks_max = more->heal_ticks_max;
}
