/*
 * Clients, and everything that can go wrong.
 *
 * The weather holds for some time and says what the network and the disks are like; between its
 * changes single misfortunes and administrative acts happen, each drawn by weight.
 */
#include "raft/cluster_int.h"

static struct member *any_member_up(struct cluster *c)
{
    uint64_t start = rng_below(&c->rng, c->member_count);

    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[(start + i) % c->member_count];
        if (m->up)
            return m;
    }
    return NULL;
}

/* Someone who believes to be the leader, the newest or an old one; or failing that, anyone. */
static struct member *some_leader(struct cluster *c)
{
    uint64_t start = rng_below(&c->rng, c->member_count);

    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[(start + i) % c->member_count];
        if (m->up && raft_status(m->raft).soft_state.role == RAFT_LEADER)
            return m;
    }
    return any_member_up(c);
}

/* --- clients --- */

void cluster_client_propose(struct cluster *c, struct member *m)
{
    struct blob *batch[8];
    size_t count = rng_between(&c->rng, 1, ARRAY_LEN(batch));

    if (rng_chance(&c->rng, 1, 2))
        count = 1;
    for (size_t i = 0; i < count; i++) {
        uint8_t *fill;
        uint64_t number = ++c->proposals;
        size_t padding = rng_below(&c->rng, 40);
        batch[i] = blob_new(sizeof(number) + padding, &fill);
        memset(fill, (int)(number & 0xff), sizeof(number) + padding);
        memcpy(fill, &number, sizeof(number));
    }
    enum raft_result result = raft_propose_batch(m->raft, batch, count);
    if (result != RAFT_OK && result != RAFT_PROPOSAL_DROPPED)
        cluster_broken(c, "honest messages", "a proposal is answered: %s",
                       raft_result_text(result));
    for (size_t i = 0; i < count; i++)
        blob_unref(batch[i]);
    cluster_member_after(m);
}

static void client_read(struct cluster *c, struct member *m)
{
    uint64_t number = c->read_count;

    if (number >= CLUSTER_READS_MAX)
        return;
    c->reads[c->read_count++] =
        (struct read_record){.floor = cluster_ledger_last(c), .slot = m->slot};
    struct blob *context = blob_copy(bytes_of(&number, sizeof(number)));
    raft_read_index(m->raft, context);
    blob_unref(context);
    cluster_member_after(m);
}

/* Clients do not go on writing for ever while nothing is answered. */
static bool is_backlogged(const struct member *m)
{
    return cluster_path_last(&m->log) > m->seen.commit + 100;
}

void cluster_client(struct cluster *c)
{
    bool anyone = rng_chance(&c->rng, 1, 4);
    struct member *m = anyone ? any_member_up(c) : some_leader(c);

    if (!m)
        return;
    if (rng_chance(&c->rng, 1, 4) || is_backlogged(m))
        client_read(c, m);
    else
        cluster_client_propose(c, m);
}

/* --- membership --- */

static uint64_t pick_id(struct cluster *c, const struct raft_ids *ids)
{
    return ids->count ? ids->at[rng_below(&c->rng, ids->count)] : RAFT_NONE;
}

/* A member that is new, or was removed: ids are kept, so its disk is still its own. */
static uint64_t newcomer(struct cluster *c, const struct raft_conf_state *conf)
{
    bool again = rng_chance(&c->rng, 1, 4);
    uint64_t start = rng_below(&c->rng, c->member_count);

    for (unsigned i = 0; again && i < c->member_count; i++) {
        struct member *m = &c->members[(start + i) % c->member_count];
        if (!cluster_conf_has(conf, m->id)) {
            m->retired = false;
            if (!m->up)
                cluster_member_boot(m);
            return m->id;
        }
    }
    if (c->member_count >= CLUSTER_SLOTS_MAX)
        return RAFT_NONE;
    struct member *m = cluster_member_new(c);
    cluster_member_boot(m);
    return m->id;
}

/* One sensible step from this configuration, or a change of nobody. */
static struct raft_conf_change_single single_change(struct cluster *c,
                                                    const struct raft_conf_state *conf)
{
    struct raft_conf_change_single change = {0};

    switch (rng_below(&c->rng, 8)) {
    case 0:
    case 1:
        change.type = RAFT_ADD_NODE;
        if (conf->voters.count < CLUSTER_VOTERS_MAX)
            change.node_id = newcomer(c, conf);
        break;
    case 2:
        change.type = RAFT_ADD_LEARNER_NODE;
        if (conf->learners.count < 3)
            change.node_id = newcomer(c, conf);
        break;
    case 3:
        change.type = RAFT_ADD_NODE; /* promotion */
        change.node_id = pick_id(c, &conf->learners);
        break;
    case 4:
        change.type = RAFT_ADD_LEARNER_NODE; /* demotion */
        if (conf->voters.count > 2)
            change.node_id = pick_id(c, &conf->voters);
        break;
    case 5:
        change.type = RAFT_REMOVE_NODE;
        change.node_id = pick_id(c, &conf->learners);
        break;
    case 6:
        change.type = RAFT_REMOVE_NODE;
        if (conf->voters.count > 2 || rng_chance(&c->rng, 1, 4))
            change.node_id = pick_id(c, &conf->voters);
        break;
    case 7:
        change.type = RAFT_UPDATE_NODE;
        change.node_id = pick_id(c, &conf->voters);
        break;
    }
    return change;
}

static void propose_simple(struct cluster *c, struct member *m, const struct raft_conf_state *conf)
{
    struct raft_conf_change_single single = single_change(c, conf);
    bool refused = rng_chance(&c->rng, 1, 10);

    raft_propose_conf_change(
        m->raft, &(struct raft_conf_change){.id = ++c->proposals,
                                            .type = single.type,
                                            .node_id = single.node_id,
                                            .context = refused ? BYTES("refused") : BYTES("")});
}

static void propose_several(struct cluster *c, struct member *m, const struct raft_conf_state *conf)
{
    struct raft_conf_change_v2 cc = {0};

    cc.transition = (enum raft_transition)rng_below(&c->rng, 3);
    cc.change_count = rng_between(&c->rng, 1, 4);
    for (size_t i = 0; i < cc.change_count; i++)
        cc.changes[i] = single_change(c, conf);
    if (rng_chance(&c->rng, 1, 20))
        cc.context = BYTES("refused");
    raft_propose_conf_change_v2(m->raft, &cc);
}

static void change_membership(struct cluster *c)
{
    struct member *m = some_leader(c);
    struct raft_conf_state conf;

    if (!m || is_backlogged(m))
        return;
    raft_conf_state(m->raft, &conf);
    bool leave = conf.voters_outgoing.count > 0 && rng_chance(&c->rng, 2, 3);
    if (leave)
        raft_propose_conf_change_v2(m->raft, NULL);
    else if (rng_chance(&c->rng, 1, 2))
        propose_simple(c, m, &conf);
    else
        propose_several(c, m, &conf);
    cluster_member_after(m);
}

/* A member that was removed is switched off some day; until then it may disturb the others. */
static void retire_someone(struct cluster *c)
{
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[i];
        if (m->up && m->durable_app.applied > 0 && cluster_is_dispensable(c, m)) {
            cluster_say(c, "      %lu is switched off for good", m->id);
            cluster_member_crash(m);
            m->retired = true;
            return;
        }
    }
}

/* A change that was under way when a member was switched off may have brought it back. */
static void call_back_retired(struct cluster *c)
{
    for (unsigned i = 0; i < c->member_count; i++) {
        struct member *m = &c->members[i];
        if (!m->retired || !cluster_conf_has(cluster_newest_conf(c), m->id))
            continue;
        m->retired = false;
        cluster_member_boot(m);
    }
}

/* --- misfortune --- */

static void crash_someone(struct cluster *c, struct member *m)
{
    if (!m)
        return;
    cluster_say(c, "      %lu crashes", m->id);
    cluster_member_crash(m);
    uint64_t down = rng_between(&c->rng, 1, 15 * CLUSTER_TICK);
    if (rng_chance(&c->rng, 1, 2))
        down = rng_between(&c->rng, 1, CLUSTER_TICK);
    cluster_schedule(c, down, EVENT_RESTART, m);
}

static void power_cut(struct cluster *c)
{
    for (unsigned i = 0; i < c->member_count; i++)
        if (c->members[i].up)
            crash_someone(c, &c->members[i]);
}

static void stall_clock(struct cluster *c, struct member *m)
{
    m->stalled_until = c->now + rng_between(&c->rng, 1, 30 * CLUSTER_TICK);
}

static void evict_some(struct cluster *c, struct member *m)
{
    uint64_t last = cluster_path_last(&m->log);
    uint64_t keep = rng_below(&c->rng, 20);

    raft_evict(m->raft, last > keep ? last - keep : 0);
    cluster_member_after(m);
}

/* To anyone at all, members who are not there included. */
static void transfer(struct cluster *c, struct member *m)
{
    uint64_t to = c->climate.id_base + rng_below(&c->rng, c->member_count + 1);

    raft_transfer_leader(m->raft, to);
    cluster_member_after(m);
}

static void report_at_random(struct cluster *c, struct member *m)
{
    uint64_t peer = c->climate.id_base + rng_below(&c->rng, c->member_count + 1);
    uint64_t kind = rng_below(&c->rng, 3);

    if (peer == m->id)
        return;
    if (kind == 0)
        raft_report_unreachable(m->raft, peer);
    else
        raft_report_snapshot(m->raft, peer, kind == 1);
    cluster_member_after(m);
}

static void forget_leader(struct member *m)
{
    raft_forget_leader(m->raft);
    cluster_member_after(m);
}

static void campaign(struct member *m)
{
    raft_campaign(m->raft);
    cluster_member_after(m);
}

static void tick_quiesced(struct member *m)
{
    raft_tick_quiesced(m->raft);
    cluster_member_after(m);
}

/* Until the next compaction offers one, if there will be any. */
static void withdraw_snapshot(struct member *m)
{
    if (m->cluster->climate.compact_weight == 0)
        return;
    raft_set_snapshot(m->raft, NULL);
    cluster_member_after(m);
}

static void small_misfortune(struct cluster *c, struct member *m)
{
    switch (rng_below(&c->rng, 9)) {
    case 0:
        forget_leader(m);
        break;
    case 1:
        campaign(m);
        break;
    case 2:
        tick_quiesced(m);
        break;
    case 3:
        report_at_random(c, m);
        break;
    case 4:
        withdraw_snapshot(m);
        break;
    case 5:
        stall_clock(c, m);
        break;
    case 6:
        transfer(c, some_leader(c));
        break;
    case 7:
        evict_some(c, m);
        break;
    case 8:
        m->disk_slowness = (unsigned)rng_between(&c->rng, 0, 1000);
        break;
    }
}

void cluster_chaos(struct cluster *c)
{
    const struct climate *climate = &c->climate;
    struct member *m = any_member_up(c);
    uint64_t pick = rng_below(&c->rng, 100);

    call_back_retired(c);
    if (!m)
        return;
    if (pick < climate->crash_weight) {
        if (rng_chance(&c->rng, 1, 10))
            power_cut(c);
        else if (rng_chance(&c->rng, 1, 4))
            crash_someone(c, some_leader(c));
        else
            crash_someone(c, m);
        return;
    }
    pick -= climate->crash_weight;
    if (pick < climate->conf_weight) {
        change_membership(c);
        return;
    }
    pick -= climate->conf_weight;
    if (pick < climate->compact_weight)
        cluster_member_compact(m);
    else if (rng_chance(&c->rng, 1, 8))
        retire_someone(c);
    else
        small_misfortune(c, m);
}

/* --- weather --- */

static void cut_between(struct cluster *c, unsigned a, unsigned b)
{
    uint64_t ways = rng_below(&c->rng, 4); /* mostly both */

    if (ways != 0)
        c->weather.cut[a][b] = true;
    if (ways != 1)
        c->weather.cut[b][a] = true;
}

/* Two groups that do not hear each other, or not well. */
static void split(struct cluster *c)
{
    uint64_t sides = rng_next(&c->rng);

    for (unsigned a = 0; a < CLUSTER_SLOTS_MAX; a++)
        for (unsigned b = a + 1; b < CLUSTER_SLOTS_MAX; b++)
            if (((sides >> a) & 1) != ((sides >> b) & 1))
                cut_between(c, a, b);
}

/* One member alone: often the leader, who should then not be believed for long. */
static void isolate(struct cluster *c)
{
    struct member *m = some_leader(c);

    for (unsigned i = 0; m && i < CLUSTER_SLOTS_MAX; i++) {
        c->weather.cut[m->slot][i] = true;
        c->weather.cut[i][m->slot] = true;
    }
}

static void cut_single_links(struct cluster *c)
{
    for (unsigned a = 0; a < CLUSTER_SLOTS_MAX; a++)
        for (unsigned b = 0; b < CLUSTER_SLOTS_MAX; b++)
            c->weather.cut[a][b] = rng_chance(&c->rng, 1, 4);
}

void cluster_weather_clear(struct cluster *c)
{
    c->weather = (struct weather){.delay_max = 20, .disk_max = 10, .apply_max = 10};
}

void cluster_weather_change(struct cluster *c)
{
    static const unsigned losses[] = {0, 0, 0, 1, 5, 25};
    static const unsigned doublings[] = {0, 0, 2, 20};
    static const unsigned delays[] = {10, 30, 30, 100, 400, 1500};
    static const unsigned disks[] = {2, 20, 20, 100, 600};
    struct weather *w = &c->weather;

    cluster_weather_clear(c);
    w->loss = losses[rng_below(&c->rng, ARRAY_LEN(losses))];
    w->doubling = doublings[rng_below(&c->rng, ARRAY_LEN(doublings))];
    w->delay_max = delays[rng_below(&c->rng, ARRAY_LEN(delays))];
    w->disk_max = disks[rng_below(&c->rng, ARRAY_LEN(disks))];
    w->apply_max = disks[rng_below(&c->rng, ARRAY_LEN(disks))];
    switch (rng_below(&c->rng, 8)) {
    case 0:
        split(c);
        break;
    case 1:
    case 2:
        isolate(c);
        break;
    case 3:
        cut_single_links(c);
        break;
    default:
        break;
    }
    cluster_say(c, "      weather: loss %u%% doubling %u%% delay %u disk %u", w->loss, w->doubling,
                w->delay_max, w->disk_max);
}
