/* One step of the world: somebody turns, or time passes; and what is looked at after each. */
#include "sim/sim_int.h"

#include "sim/member_view.h"

#include <inttypes.h>

enum {
    TURNS_AT_ONCE_MAX = 100000, /* without time passing: it will never pass */
    TURNS_ALL_CHECKED = 200,
    TURNS_PER_CHECK = 16,        /* later, of each member, */
    REVISIONS_PER_CHECK = 1000,  /* and that often again for so many revisions */
    ENTRIES_PER_DIGEST_MIN = 10, /* each time as many as the seed has it, */
    ENTRIES_PER_DIGEST_MAX = 50,
    REVISIONS_PER_DIGEST = 400, /* and that often again for so many revisions */
    AHEAD_MAX = 12,             /* entries that an image may be ahead */
    STEPS_OF_INSTALL = 100,
    STUCK_MS_MAX = 600000, /* a run that takes longer is stuck */
};

/* False: there is none now. */
bool sim_take_digest(struct sim *s, struct sim_member *m)
{
    struct digest d;

    if (sickness_is_in_store(s->sickness, m->number) || !server_digest(m->host->server, &d))
        return false;
    m->digested = d.applied;
    s->digests_taken++;
    s->digests_compared += cluster_check_has_digest(s->cluster, d.applied);
    cluster_check_digest(s->cluster, m->number, &d);
    const char *problem = cluster_check_problem(s->cluster);
    if (problem)
        history_fail(&s->history, "%s", problem);
    return true;
}

static void watch_over_time(struct sim *s)
{
    if (s->time.now_ns != s->last_ns) {
        s->last_ns = s->time.now_ns;
        s->turns_at_once = 0;
    } else if (++s->turns_at_once > TURNS_AT_ONCE_MAX)
        history_fail(&s->history, "time stands still: somebody always has something to do");
    if (s->time.now_ns > STUCK_MS_MAX * NS_PER_MS)
        history_fail(&s->history, "nothing comes to an end");
}

static void look_at_members(struct sim *s)
{
    sim_look_for_stopped(s);
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_host *h = s->members[i].host;
        if (!h->failed || fake_disk_is_dead(h->disk))
            continue;
        sim_gave_up(s, &s->members[i], false);
    }
    sim_look_for_crash(s);
}

static void check_cluster(struct sim *s, struct sim_member *m)
{
    struct member_view now;

    if (server_status(m->host->server).awaits_space)
        return; /* it is not being founded, though it has no log yet */
    member_view(m->host->server, &now);
    if (sickness_is_wiped(s->sickness, m->number)) {
        if (now.view.id != 0)
            history_fail(&s->history, "member m%u came back with an empty disk, and was let in",
                         m->number + 1);
        return;
    }
    m->has_run |= now.view.id != 0;
    if (sim_members_change(s) && now.table != 0 && now.view.applied >= s->climate.members)
        roster_shown(&s->roster, now.view.applied, now.table);
    cluster_check_turned(s->cluster, m->number, &now.view);
    cluster_check_time(s->cluster, s->time.now_ns);
    const char *problem = cluster_check_problem(s->cluster);
    if (!problem)
        problem = roster_problem(&s->roster);
    if (problem)
        history_fail(&s->history, "%s", problem);
}

/* What no client has asked for was done by the member itself. */
static void note_compaction(struct sim *s, const struct sim_member *m,
                            const struct server_status *now)
{
    int64_t old = retention_newest_old(&s->retention, s->time.now_ns);

    retention_saw(&s->retention, s->time.now_ns, now->revision);
    if (now->compact_revision <= s->history.compacted)
        return;
    if (now->compact_revision > old)
        history_fail(&s->history,
                     "member m%u has compacted at %" PRId64 " by itself, and only up to %" PRId64
                     " it was old",
                     m->number + 1, now->compact_revision, old);
    s->history.compacted = now->compact_revision;
    s->own_compactions++;
}

static unsigned member_of_id(const struct sim *s, uint64_t id, unsigned otherwise)
{
    for (unsigned i = 0; i < s->member_count; i++)
        if (s->members[i].host->server && server_status(s->members[i].host->server).member_id == id)
            return i;
    return otherwise;
}

static void tell_leadership(struct sim *s, struct sim_member *m, const struct server_status *now)
{
    if (now->term == m->term && now->leader == m->leader && now->is_leader == m->leads)
        return;
    s->history.leader_began_ns = s->time.now_ns;
    m->term = now->term;
    m->leader = now->leader;
    m->leads = now->is_leader;
    enum story_kind kind = now->is_leader ? STORY_LEADS : STORY_FOLLOWS;
    if (now->leader == 0)
        kind = STORY_CAMPAIGNS;
    sim_tell(s, kind, m->number, member_of_id(s, now->leader, m->number), now->term);
}

/* Some of them are ahead of what is applied, as one from another member would be. */
static void install_now_and_then(struct sim *s, struct sim_member *m)
{
    if (s->climate.install_turns == 0 || !rng_chance(&s->installs, 1, s->climate.install_turns))
        return;
    uint64_t ahead = rng_chance(&s->installs, 1, 2) ? rng_below(&s->installs, AHEAD_MAX) : 0;
    if (!server_install_own_image(m->host->server, ahead))
        return;
    /* To copy a store takes so many calls of the disks that hardly any crash would come after it,
     * where it counts: in the few steps from the log's record to the new name. A small store is
     * copied in ten. */
    uint64_t steps = STEPS_OF_INSTALL >> rng_below(&s->installs, 4);
    if (s->crashes_left > 0 && rng_chance(&s->installs, 1, 4))
        s->crash_step = s->steps + rng_below(&s->installs, steps);
}

/* Its state is another's now: watchers lag, and a lone leader's leases begin anew. */
static void note_installs(struct sim *s, struct sim_member *m)
{
    uint64_t count = server_installed(m->host->server);

    if (count == m->installs)
        return;
    if (s->member_count == 1)
        s->history.leader_began_ns = s->time.now_ns;
    sim_tokens_are_lost(s, m);
    s->history.installs += count - m->installs;
    m->installs = count;
    sim_trace(s, "m%u has installed a snapshot, applied %" PRIu64 "\n", m->number + 1,
              server_status(m->host->server).applied);
}

/* A check of all rooms looks at all there is, and takes longer than a turn by far. What is broken
 * stays so. */
static uint64_t turns_per_check(const struct sim *s, const struct server_status *now)
{
    return TURNS_PER_CHECK * s->member_count * (1 + (uint64_t)now->revision / REVISIONS_PER_CHECK);
}

/*
 * The first member to get there shows its state now and then. The others, and itself in another
 * life, show theirs when a turn of theirs ends at the same entry. To hash a state takes longer the
 * more history there is.
 */
static void take_digest_if_due(struct sim *s, struct sim_member *m, uint64_t applied)
{
    bool is_due = applied >= s->digest_due;

    if (applied == m->digested || (!is_due && !cluster_check_has_digest(s->cluster, applied)))
        return;
    if (!sim_take_digest(s, m) || !is_due)
        return;
    uint64_t wait = rng_between(&s->digests, ENTRIES_PER_DIGEST_MIN, ENTRIES_PER_DIGEST_MAX);
    uint64_t revision = (uint64_t)server_status(m->host->server).revision;
    s->digest_due = applied + wait * (1 + revision / REVISIONS_PER_DIGEST);
}

static void member_turned(struct sim *s, struct sim_member *m)
{
    m->turns++;
    if (m->host->failed)
        return;
    struct server_status now = server_status(m->host->server);
    if (m->turns < TURNS_ALL_CHECKED || m->turns % turns_per_check(s, &now) == 0)
        server_check(m->host->server);
    check_cluster(s, m);
    take_digest_if_due(s, m, now.applied);
    tell_leadership(s, m, &now);
    note_compaction(s, m, &now);
    sim_note(s, m->number);
    sim_note(s, now.term);
    sim_note(s, now.committed);
    sim_note(s, now.applied);
    sim_note(s, (uint64_t)now.revision);
    sim_note(s, now.durable_store);
    s->history.server_revision[m->number] = now.revision;
    m->applied = now.applied;
    if (now.ready && m->published_at == 0)
        m->published_at = now.applied;
    note_installs(s, m);
    sim_look_at_users(s, m, &now);
    if (s->member_count == 1)
        install_now_and_then(s, m);
}

static bool client_turn(struct sim *s, struct sim_client *c)
{
    if (inbox_is_empty(&c->inbox))
        return false;
    inbox_drain(&c->inbox, SIZE_MAX);
    if (c->actor)
        actor_turn(c->actor);
    if (c->steward)
        sim_steward_turned(s, c->steward);
    sim_note(s, (uint64_t)s->history.told);
    sim_note(s, s->history.event_count);
    return true;
}

/* One of those who have something to do; false if nobody has. Members and clients are machines of
 * their own: which of them is first must not depend on their numbers. */
static bool somebody_turns(struct sim *s)
{
    unsigned all = s->member_count + s->client_count;
    unsigned first = (unsigned)rng_below(&s->order, all);

    for (unsigned i = 0; i < all; i++) {
        unsigned place = (first + i) % all;
        if (place >= s->member_count) {
            if (client_turn(s, &s->clients[place - s->member_count]))
                return true;
        } else if (sim_host_turn(s->members[place].host)) {
            member_turned(s, &s->members[place]);
            return true;
        }
    }
    return false;
}

void sim_step(struct sim *s)
{
    s->steps++;
    sim_note(s, s->time.now_ns);
    s->history.now_ns = s->time.now_ns;
    if (!somebody_turns(s) && !fake_time_step(&s->time))
        history_fail(&s->history, "nothing will ever happen again");
    look_at_members(s);
    watch_over_time(s);
}

uint64_t sim_calls_made(const struct sim *s)
{
    uint64_t calls = 0;

    for (unsigned i = 0; i < s->client_count; i++)
        if (s->clients[i].actor)
            calls += actor_calls(s->clients[i].actor);
    return calls;
}

/* Operations that were acknowledged; those before ops_counted are over and done with. */
uint64_t sim_operations(struct sim *s)
{
    uint64_t open = 0;

    while (s->ops_counted < s->history.op_count && s->history.ops[s->ops_counted].done) {
        s->acknowledged += !s->history.ops[s->ops_counted].failed;
        s->ops_counted++;
    }
    for (size_t i = s->ops_counted; i < s->history.op_count; i++)
        open += s->history.ops[i].done && !s->history.ops[i].failed;
    return s->acknowledged + open;
}
