/*
 * Members that come and go: those who join and are not let in, what operators ask for and what
 * comes of it, those who were removed, and how it comes to rest who is a member.
 */
#include "sim/sim_int.h"

#include <string.h>

enum {
    JOIN_MS_MAX = 1500,     /* until a machine is started for a new member */
    JOINING_CALLS = 150,    /* of the disk, in which a member joins */
    ISOLATED_MS_MAX = 8000, /* who is to be removed */
    STEPS_OF_CHANGE = 600,  /* of the members */
    SETTLE_MS_MAX = 40000,  /* until it is settled who is a member; and as long as a calm takes */
};

bool sim_members_change(const struct sim *s)
{
    return climate_has(&s->climate, FAULT_MEMBERS);
}

/* At any moment of its first boot, and of what comes then. */
void sim_plan_torn_joining(struct sim *s, struct sim_member *m)
{
    bool is_torn = rng_chance(&s->changes, 1, 2);
    uint64_t calls = rng_between(&s->changes, 1, JOINING_CALLS);

    m->torn_call = UINT64_MAX;
    if (is_torn && climate_has(&s->climate, FAULT_CRASH))
        m->torn_call = sim_host_disk_calls(m->host) + calls;
}

/* It was told of the members, and there are others by now. */
static bool is_not_let_in(const struct sim_member *m, const char *why)
{
    return m->host->joins && !m->has_run && strstr(why, "error validating peerURLs");
}

/* It is started again, as it was: nobody may be able to say who the members are until it is there,
 * since a member that finds no quorum when it starts does not serve clients. */
static bool has_asked_in_vain(const struct sim_member *m, const char *why)
{
    return m->host->joins && !m->has_run &&
           (strstr(why, "cannot fetch cluster info from peer urls") ||
            strstr(why, "incompatible with current running cluster")); /* nobody told his version */
}

/* Who joins does not wait for space: it would have to ask the others again. */
static bool has_no_space_to_join(const struct sim *s, const struct sim_member *m, const char *why)
{
    return m->host->joins && !m->has_run && climate_has(&s->climate, FAULT_FULL) &&
           strstr(why, err_text(ERR_NO_SPACE));
}

/* Members that come and go give up for reasons of their own. False: it was not one of them. */
bool sim_gave_up_rightly(struct sim *s, struct sim_member *m, const char *why)
{
    bool is_removed = cluster_check_is_removed(s->cluster, m->number);

    if (is_removed && strstr(why, "the member has been permanently removed from the cluster"))
        sim_retire(s, m);
    else if (is_not_let_in(m, why)) {
        /* Its list may be too old, or that of whom it has asked: one that has just been started
         * tells what it had applied when it ended. If it is needed for a quorum, only trying again
         * helps. */
        m->awaits_list = true;
        if (is_removed)
            sim_retire(s, m);
    } else if (!has_asked_in_vain(m, why) && !has_no_space_to_join(s, m, why))
        return false;
    sim_trace(s, "m%u gave up, as it should: %s\n", m->number + 1, why);
    sim_crash_member(s, m, &s->changes);
    if (m->awaits_list && !m->is_out)
        steward_refused(s->stewards[0], m->number, why);
    return true;
}

/* --- the operators' hands --- */

static void on_start(void *context, unsigned host, const char *initial_cluster)
{
    struct sim *s = context;
    struct sim_member *m = &s->members[host];

    buf_clear(&m->joins);
    buf_append_str(&m->joins, initial_cluster);
    m->host->joins = buf_str(&m->joins);
    m->is_out = m->awaits_list = false;
    sim_plan_torn_joining(s, m);
    uint64_t after_ms = rng_below(&s->changes, JOIN_MS_MAX);
    fake_time_at(&s->time, &m->restart, s->time.now_ns + after_ms * NS_PER_MS);
    sim_trace(s, "m%u is to be started with %s\n", host + 1, initial_cluster);
}

static bool needs_start(void *context, unsigned host)
{
    const struct sim *s = context;
    const struct sim_member *m = &s->members[host];

    return host >= s->climate.members && (!m->host->joins || m->awaits_list) && !m->host->server;
}

/* Whoever is removed does not hear of it, or only later, or is down. */
static void before_removal(void *context, unsigned host)
{
    struct sim *s = context;
    struct sim_member *m = &s->members[host];
    uint64_t dice = rng_below(&s->changes, 8);
    uint64_t ms = rng_between(&s->changes, 100, ISOLATED_MS_MAX);

    if (dice < 2)
        weather_isolate(s->weather, host, ms);
    else if (dice < 3 && m->host->server && climate_has(&s->climate, FAULT_CRASH) &&
             s->history.seen >= s->history.compacted)
        sim_crash_member(s, m, &s->changes);
}

static void on_asked(void *context)
{
    struct sim *s = context;
    bool is_near = rng_chance(&s->changes, 1, 5);
    uint64_t steps = rng_below(&s->changes, STEPS_OF_CHANGE);

    if (is_near && s->crashes_left > 0)
        s->crash_step = s->steps + steps;
}

static void on_steward_trace(void *context, const char *text)
{
    sim_trace(context, "%s\n", text);
}

static const struct steward_handlers steward_handlers = {.start = on_start,
                                                         .needs_start = needs_start,
                                                         .before_removal = before_removal,
                                                         .asked = on_asked,
                                                         .trace = on_steward_trace};

static void add_steward(struct sim *s, struct rng *rng)
{
    struct sim_client *c = sim_add_client(s);
    struct steward_options options = {.io = &c->io,
                                      .founders = s->climate.members,
                                      .hosts = s->member_count,
                                      .roster = &s->roster,
                                      .fleet = &s->fleet,
                                      .endpoints = &s->endpoints,
                                      .on = &steward_handlers,
                                      .context = s};

    rng_seed(&options.rng, rng_next(rng));
    s->stewards[s->steward_count++] = c->steward = steward_new(&options);
}

/* The first one draws as if it were alone, so that stories with one stay what they were. */
void sim_add_stewards(struct sim *s)
{
    for (unsigned i = 0; i < s->climate.stewards; i++)
        add_steward(s, i == 0 ? &s->changes : &s->crowds);
}

struct steward_counts sim_steward_counts(const struct sim *s)
{
    struct steward_counts all = {0};

    for (unsigned i = 0; i < s->steward_count; i++) {
        struct steward_counts one = steward_counts(s->stewards[i]);
        all.asked += one.asked;
        all.added += one.added;
        all.learners += one.learners;
        all.promoted += one.promoted;
        all.removed += one.removed;
        all.updated += one.updated;
        all.refused += one.refused;
        all.unknown += one.unknown;
    }
    return all;
}

void sim_steward_turned(struct sim *s, struct steward *steward)
{
    steward_turn(steward);
    const char *problem = roster_problem(&s->roster);
    if (!problem)
        problem = steward_problem(steward);
    if (problem)
        history_fail(&s->history, "%s", problem);
    sim_note(s, s->roster.heard);
    sim_note(s, s->roster.told);
}

/* --- whoever was removed --- */

/* Only who was removed does that. */
static void stopped_by_itself(struct sim *s, struct sim_member *m)
{
    if (!cluster_check_is_removed(s->cluster, m->number))
        history_fail(&s->history, "member m%u has stopped, and was not removed", m->number + 1);
    sim_note(s, 4000 + m->number);
    sim_tell(s, STORY_STOPPED, m->number, m->number, 0);
    s->installed += server_installed(m->host->server);
    sim_host_close(m->host);
    sickness_crashed(s->sickness, m->number);
    cluster_check_down(s->cluster, m->number);
    s->history.witness_is_live = false;
    m->leads = false;
    m->leader = 0;
    sim_retire(s, m);
}

void sim_look_for_stopped(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count && !s->is_stopping; i++) {
        const struct sim_host *h = s->members[i].host;
        if (h->server && !h->failed && server_has_stopped(h->server))
            stopped_by_itself(s, &s->members[i]);
    }
}

/* --- settling --- */

static bool stewards_are_idle(const struct sim *s)
{
    bool idle = true;

    for (unsigned i = 0; i < s->steward_count; i++)
        idle &= steward_is_idle(s->stewards[i]);
    return idle;
}

static bool somebody_knows(const struct sim *s, unsigned host)
{
    bool knows = false;

    for (unsigned i = 0; i < s->steward_count; i++)
        knows |= steward_knows(s->stewards[i], host);
    return knows;
}

/* The fewest that one of the operators was told. */
static uint64_t lists_told(const struct sim *s, const uint64_t before[])
{
    uint64_t fewest = UINT64_MAX;

    for (unsigned i = 0; i < s->steward_count; i++) {
        uint64_t lists = steward_lists(s->stewards[i]) - before[i];
        fewest = lists < fewest ? lists : fewest;
    }
    return fewest;
}

/* Who is a member is up, and knows all that are; nobody else runs. */
static bool members_are_settled(struct sim *s)
{
    size_t count = 0;

    for (unsigned i = 0; i < s->member_count; i++) {
        const struct sim_member *m = &s->members[i];
        bool is_member = cluster_check_is_up_to_date(s->cluster, i);
        count += is_member && m->host->server && server_status(m->host->server).ready;
        if (!m->is_out && !is_member)
            return false;
    }
    return count == cluster_check_size(s->cluster) && stewards_are_idle(s);
}

/* All that they know were removed, too: there is nobody to tell them. An operator does. */
static void take_the_deaf_away(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        bool is_removed =
            cluster_check_is_removed(s->cluster, i) && !cluster_check_knows_others(s->cluster, i);
        bool never_came = m->host->joins && !m->has_run && !somebody_knows(s, i);
        if (m->is_out || (!is_removed && !never_came))
            continue;
        sim_retire(s, m);
        if (m->host->server)
            sim_crash_member(s, m, &s->changes);
    }
}

/* What was asked for may still happen; and clients must know who is there. */
void sim_settle(struct sim *s)
{
    uint64_t lists[CLIMATE_STEWARDS_MAX] = {0};
    bool was_settled = false;

    if (!sim_members_change(s))
        return;
    sim_tell_text(s, STORY_PHASE, "settling");
    sim_heal(s);
    for (unsigned i = 0; i < s->steward_count; i++)
        steward_wind_down(s->stewards[i]);
    uint64_t until_ns = s->time.now_ns + SETTLE_MS_MAX * NS_PER_MS + sim_calm_bound_ns(s);
    while (!s->history.failed) {
        sim_step(s);
        bool is_settled = members_are_settled(s);
        for (unsigned i = 0; i < s->steward_count && !(is_settled && was_settled); i++)
            lists[i] = steward_lists(s->stewards[i]);
        was_settled = is_settled;
        if (is_settled && lists_told(s, lists) >= 2)
            break;
        if (s->time.now_ns > until_ns - sim_calm_bound_ns(s))
            take_the_deaf_away(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "all is calm, and it does not come to rest who is a member");
    }
    for (unsigned i = 0; i < s->steward_count; i++)
        steward_stop(s->stewards[i]);
}

/* Where members come and go they are those of the newest configuration. */
bool sim_is_voter(const struct sim *s, unsigned member)
{
    return !sim_members_change(s) || cluster_check_is_voter(s->cluster, member);
}

unsigned sim_minority_count(const struct sim *s)
{
    size_t voters = sim_members_change(s) ? cluster_check_voter_count(s->cluster) : s->member_count;

    return (unsigned)(voters - 1) / 2;
}
