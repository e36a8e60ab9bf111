#include "sim/sim.h"

#include "sim/actor.h"
#include "sim/host.h"
#include "sim/idle.h"
#include "sim/member_view.h"
#include "sim/picture.h"
#include "sim/retention.h"
#include "sim/sickness.h"
#include "sim/weather.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ACTORS_MAX = 20,
    CLIENTS_MAX = ACTORS_MAX + 2, /* with the idle ones and the steward */
    MEMBERS_MAX = CLIMATE_HOSTS_MAX,
    TURNS_AT_ONCE_MAX = 100000, /* without time passing: it will never pass */
    START_MS_MAX = 200,         /* between the first member and the last */
    DOWN_MS_MAX = 500,
    LONG_DOWN_MS_MAX = 6000,
    JOIN_MS_MAX = 1500,      /* until a machine is started for a new member */
    JOINING_CALLS = 150,     /* of the disk, in which a member joins */
    ISOLATED_MS_MAX = 8000,  /* who is to be removed */
    STEPS_OF_CHANGE = 600,   /* of the members */
    CALLS_UNTIL_CRASH = 400, /* of the disk */
    TURNS_UNTIL_CRASH = 3000,
    TURNS_ALL_CHECKED = 200,
    TURNS_PER_CHECK = 16,        /* later, of each member, */
    REVISIONS_PER_CHECK = 1000,  /* and that often again for so many revisions */
    FOUNDING_CALLS = 40,         /* of the disk, in which a member is founded */
    ENTRIES_PER_DIGEST_MIN = 10, /* each time as many as the seed has it, */
    ENTRIES_PER_DIGEST_MAX = 50,
    REVISIONS_PER_DIGEST = 400, /* and that often again for so many revisions */
    AHEAD_MAX = 12,             /* entries that an image may be ahead */
    STEPS_OF_INSTALL = 100,
    STEPS_OF_COMPACTION = 400,
    STORM_MS = 30000,
    STORM_MS_MAX = 45000,
    OPERATIONS_MIN = 300,
    PROGRESS_MIN = 20,     /* operations, once all is calm */
    CALM_MS_MAX = 20000,   /* until then; and some election timeouts */
    KEEPALIVE_MS = 42000,  /* until a connection that is half-open ends, at most */
    SETTLE_MS_MAX = 40000, /* until it is settled who is a member; and as long as a calm takes */
    STUCK_MS_MAX = 600000, /* a run that takes longer is stuck */
};

struct sim;

/* A machine of the clients. */
struct sim_client {
    struct inbox inbox;
    struct fake_clock clock;
    struct io io;
    struct actor *actor; /* NULL: the idle ones, or the steward */
    struct steward *steward;
};

struct sim_member {
    struct sim *sim;
    unsigned number;
    struct sim_host *host;
    struct fake_task restart;
    struct logger logger;
    unsigned starts;
    uint64_t turns;
    uint64_t term, leader; /* as it last was */
    bool leads, stays_down;
    bool is_out;           /* what its disk has is lost: it is never started again */
    uint64_t applied;      /* as it last was */
    uint64_t installs;     /* in this life */
    uint64_t published_at; /* it had told the others where clients find it; 0: not yet */
    uint64_t digested;     /* the applied index of the last digest in this life */
    uint64_t torn_call;    /* of its disks: it crashes there while it is founded; or UINT64_MAX */

    /* where members come and go */
    struct buf joins; /* a member that is no founder: what it was told of the others */
    bool has_run;     /* it had a log */
    bool awaits_list; /* it was not let in with what it had been told */
};

struct sim {
    struct sim_options o;
    struct story told, *story; /* NULL: nobody wants to see it */
    struct fake_time time;
    struct fake_wire *wire;
    struct weather *weather;
    struct sickness *sickness;
    struct sim_member members[MEMBERS_MAX];
    unsigned member_count;
    struct net *hosts[MEMBERS_MAX + CLIENTS_MAX];
    unsigned host_count;

    struct sim_client clients[CLIENTS_MAX];
    unsigned client_count;
    struct idle *idle; /* or NULL */
    struct history history;
    struct cluster_check *cluster;
    struct steward *steward; /* or NULL */
    struct steward_endpoints endpoints;
    struct roster roster;

    struct rng fate, order, installs; /* the last for when images are installed */
    struct rng disks;                 /* for what comes of those that are sick */
    struct rng digests;               /* for when they are taken */
    uint64_t digests_taken, digests_compared;
    uint64_t digest_due; /* by the first member that has applied so much */
    struct climate climate;
    unsigned crashes_left, crashes;
    unsigned crash_member; /* the next to crash, */
    uint64_t crash_call;   /* at this call of its disks, */
    uint64_t crash_turn;   /* or at this turn, */
    uint64_t crash_step;   /* or at this step of the world */
    bool crash_takes_all;  /* and the others with it */
    uint64_t hash, steps, turns_at_once, last_ns;
    uint64_t installed;     /* in lives that are over */
    struct rng compactions; /* for how long they take, and who crashes in their midst */
    int64_t compacted;      /* the newest that somebody has asked for */
    struct rng retentions;  /* for whether some are made by themselves */
    struct retention retention;
    uint64_t own_compactions;
    struct rng operators; /* for whether there are any, and what they do */
    struct rng changes;   /* for whether members come and go, and what becomes of that */
    bool is_stopping;

    size_t ops_counted; /* of the history's first, all of them done */
    uint64_t acknowledged;
};

/* An expired lease may wait for the look for it, and one lost revoke; and besides for a new
 * leader's extension. */
#define LEASE_LATE_NS (8 * NS_PER_S)

static void note(struct sim *s, uint64_t what)
{
    s->hash = (s->hash ^ what) * 0x100000001b3ull;
    s->hash ^= s->hash >> 29;
}

/* --- telling --- */

static void trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void trace(struct sim *s, const char *format, ...)
{
    char line[LOG_LINE_BYTES_MAX];
    va_list args;

    if (!s->o.trace)
        return;
    int len = snprintf(line, sizeof(line), "%12.6f ", (double)s->time.now_ns / 1e9);
    va_start(args, format);
    int more = vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
    va_end(args);
    size_t all = (size_t)len + (size_t)more;
    s->o.trace(s->o.trace_context, bytes_of(line, all < sizeof(line) ? all : sizeof(line) - 1));
}

static const char *place_name(const struct sim *s, unsigned place, char out[static 8])
{
    bool is_member = place < s->member_count;

    snprintf(out, 8, "%c%u", is_member ? 'm' : 'c',
             1 + (is_member ? place : place - s->member_count));
    return out;
}

static void tell_event(struct sim *s, struct story_event e)
{
    char from[8], to[8];
    bool has_text = e.kind == STORY_PHASE || e.kind == STORY_BROKEN;

    e.until_ns = s->time.now_ns;
    if (e.at_ns == 0)
        e.at_ns = e.until_ns;
    story_note(s->story, &e);
    if (!s->o.trace || has_text)
        return;
    place_name(s, e.from, from);
    place_name(s, e.to, to);
    if (e.kind >= STORY_DISK_SICK && e.kind <= STORY_DISK_SPOILED)
        trace(s, "%s %s: %s\n", from, story_kind_name(e.kind),
              sim_fault_name((enum sim_fault)e.number));
    else if (e.kind >= STORY_CUT)
        trace(s, "%s -> %s %s %" PRIu64 " (after %.3f ms)\n", from, to, story_kind_name(e.kind),
              e.number, (double)(e.until_ns - e.at_ns) / 1e6);
    else
        trace(s, "%s %s %" PRId64 "\n", from, story_kind_name(e.kind), (int64_t)e.number);
}

static void tell(struct sim *s, enum story_kind kind, unsigned from, unsigned to, uint64_t number)
{
    tell_event(
        s, (struct story_event){
               .kind = (uint8_t)kind, .from = (uint8_t)from, .to = (uint8_t)to, .number = number});
}

static void tell_text(struct sim *s, enum story_kind kind, const char *text)
{
    story_note_text(s->story, s->time.now_ns, kind, text);
    trace(s, "%s: %s\n", story_kind_name(kind), text);
}

/* A line of a member's log, which has the member's own time in it. */
static void tell_line(void *context, struct bytes line)
{
    struct sim_member *m = context;

    trace(m->sim, "m%u %.*s", m->number + 1, (int)line.len, (const char *)line.at);
}

static void on_wire_event(void *context, enum fake_wire_event what, unsigned from, unsigned to,
                          uint64_t sent_ns, size_t bytes)
{
    static const enum story_kind kinds[] = {
        [FAKE_WIRE_SENT] = STORY_SENT,           [FAKE_WIRE_LOST] = STORY_LOST,
        [FAKE_WIRE_CONNECTED] = STORY_CONNECTED, [FAKE_WIRE_REFUSED] = STORY_REFUSED,
        [FAKE_WIRE_RESET] = STORY_RESET,         [FAKE_WIRE_REPEATED] = STORY_REPEATED,
    };

    tell_event(context, (struct story_event){.kind = (uint8_t)kinds[what],
                                             .at_ns = sent_ns,
                                             .from = (uint8_t)from,
                                             .to = (uint8_t)to,
                                             .number = bytes});
}

/* --- the weather's hands --- */

static void on_path(void *context, unsigned from, unsigned to, const struct fake_path *before,
                    const struct fake_path *after)
{
    if (before->cut != after->cut)
        tell(context, after->cut ? STORY_CUT : STORY_MENDED, from, to, 0);
    if (before->clogged_until_ns != after->clogged_until_ns)
        tell(context, after->clogged_until_ns > 0 ? STORY_CLOGGED : STORY_UNCLOGGED, from, to, 0);
    if (before->bytes_per_s != after->bytes_per_s)
        tell(context, STORY_SLOWED, from, to, after->bytes_per_s);
}

static void on_pause(void *context, unsigned member, bool clock_stands)
{
    struct sim *s = context;

    if (!s->members[member].host->server)
        return;
    note(s, 2000 + member);
    sim_host_pause(s->members[member].host, clock_stands);
    tell(s, STORY_PAUSED, member, member, clock_stands);
}

static void on_resume(void *context, unsigned member)
{
    struct sim *s = context;

    if (!s->members[member].host->is_paused)
        return;
    sim_host_resume(s->members[member].host);
    tell(s, STORY_RESUMED, member, member, 0);
}

static void on_jump(void *context, unsigned member, int64_t ms)
{
    struct sim *s = context;

    s->members[member].host->clock.wall_offset_ns += ms * (int64_t)NS_PER_MS;
    tell(s, STORY_CLOCK_JUMPED, member, member, (uint64_t)ms);
}

static unsigned some_leader(void *context)
{
    const struct sim *s = context;

    for (unsigned i = 0; i < s->member_count; i++)
        if (s->members[i].host->server && s->members[i].leads)
            return i;
    return 0;
}

static const struct weather_handlers weather_handlers = {.on_path = on_path,
                                                         .on_pause = on_pause,
                                                         .on_resume = on_resume,
                                                         .on_jump = on_jump,
                                                         .leader = some_leader};

/* --- states --- */

/* False: there is none now. */
static bool take_digest(struct sim *s, struct sim_member *m)
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

/* --- fate --- */

static void plan_no_crash(struct sim *s)
{
    s->crash_call = s->crash_turn = s->crash_step = UINT64_MAX;
}

static void plan_crash(struct sim *s)
{
    plan_no_crash(s);
    if (s->o.crash_at_call != 0) {
        s->crash_call = s->crashes == 0 ? s->o.crash_at_call : UINT64_MAX;
        return;
    }
    if (s->crashes_left == 0)
        return;
    s->crash_member = (unsigned)rng_below(&s->fate, s->member_count);
    s->crash_takes_all = rng_chance(&s->fate, 1, 6);
    bool at_turn = rng_chance(&s->fate, 1, 3);
    const struct sim_member *m = &s->members[s->crash_member];
    if (at_turn)
        s->crash_turn = m->turns + rng_between(&s->fate, 1, TURNS_UNTIL_CRASH);
    else
        s->crash_call = sim_host_disk_calls(m->host) + rng_between(&s->fate, 1, CALLS_UNTIL_CRASH);
}

static bool members_change(const struct sim *s)
{
    return climate_has(&s->climate, FAULT_MEMBERS);
}

/* Each member by itself: the others found theirs meanwhile, or are torn as well. */
static void plan_torn_founding(struct sim *s, struct sim_member *m)
{
    m->torn_call = UINT64_MAX;
    if (s->climate.torn_founding && rng_chance(&s->fate, 1, 2))
        m->torn_call = sim_host_disk_calls(m->host) + rng_between(&s->fate, 1, FOUNDING_CALLS);
}

static void crash_member(struct sim *s, struct sim_member *m, struct rng *rng)
{
    uint64_t draw = rng_below(rng, 3);
    bool power_may_go = climate_has(&s->climate, FAULT_POWER) || s->o.crash_at_call != 0;
    enum fake_crash how = power_may_go ? (enum fake_crash)draw : FAKE_KILLED;
    bool is_long = rng_chance(rng, 1, 5);
    uint64_t down_ms = rng_between(rng, 1, is_long ? LONG_DOWN_MS_MAX : DOWN_MS_MAX);

    note(s, 1000 + (uint64_t)how);
    tell(s, STORY_CRASHED, m->number, m->number, how);
    s->crashes++;
    if (m->host->server) {
        s->installed += server_installed(m->host->server);
        take_digest(s, m); /* to be found again when it has replayed its log */
    }
    sim_host_crash(m->host, how);
    sickness_crashed(s->sickness, m->number);
    cluster_check_down(s->cluster, m->number);
    s->history.witness_is_live = false; /* it may not know it yet */
    m->leads = false;
    m->leader = 0;
    if (!m->stays_down && !m->is_out)
        fake_time_at(&s->time, &m->restart, s->time.now_ns + down_ms * NS_PER_MS);
}

/* The next one is planned before a member starts again, which is when it may crash already. */
static void crash(struct sim *s)
{
    bool all = s->crash_takes_all;
    unsigned first = s->crash_member;

    if (s->crashes_left > 0)
        s->crashes_left--;
    crash_member(s, &s->members[first], &s->fate);
    for (unsigned i = 0; i < s->member_count && all; i++)
        if (i != first && s->members[i].host->server)
            crash_member(s, &s->members[i], &s->fate);
    plan_crash(s);
}

/* At any moment of its first boot, and of what comes then. */
static void plan_torn_joining(struct sim *s, struct sim_member *m)
{
    bool is_torn = rng_chance(&s->changes, 1, 2);
    uint64_t calls = rng_between(&s->changes, 1, JOINING_CALLS);

    m->torn_call = UINT64_MAX;
    if (is_torn && climate_has(&s->climate, FAULT_CRASH))
        m->torn_call = sim_host_disk_calls(m->host) + calls;
}

/* What is founded again may be torn again. */
static void tear_founding(struct sim *s, struct sim_member *m)
{
    if (m->host->joins) {
        crash_member(s, m, &s->changes);
        plan_torn_joining(s, m);
        return;
    }
    crash_member(s, m, &s->fate);
    plan_torn_founding(s, m);
}

/* Its machine is not needed any more. */
static void retire(struct sim *s, struct sim_member *m)
{
    m->is_out = true;
    fake_time_cancel(&s->time, &m->restart);
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
static bool gave_up_rightly(struct sim *s, struct sim_member *m, const char *why)
{
    bool is_removed = cluster_check_is_removed(s->cluster, m->number);

    if (is_removed && strstr(why, "the member has been permanently removed from the cluster"))
        retire(s, m);
    else if (is_not_let_in(m, why)) {
        /* Its list may be too old, or that of whom it has asked: one that has just been started
         * tells what it had applied when it ended. If it is needed for a quorum, only trying again
         * helps. */
        m->awaits_list = true;
        if (is_removed)
            retire(s, m);
    } else if (!has_asked_in_vain(m, why) && !has_no_space_to_join(s, m, why))
        return false;
    trace(s, "m%u gave up, as it should: %s\n", m->number + 1, why);
    crash_member(s, m, &s->changes);
    return true;
}

/* It ended by itself, or did not start, which is right if its disk is sick. Only one that has lost
 * what it had is of no use any more. */
static void gave_up(struct sim *s, struct sim_member *m, bool while_starting)
{
    const char *why = buf_str(&m->host->why);

    if (members_change(s) && gave_up_rightly(s, m, why))
        return;
    if (!sickness_excuses(s->sickness, m->number, why, while_starting)) {
        history_fail(&s->history, "member m%u %s: %s", m->number + 1,
                     while_starting ? "does not start" : "gave up", why);
        return;
    }
    trace(s, "m%u %s, as it should: %s\n", m->number + 1,
          while_starting ? "does not start" : "gave up", why);
    m->is_out = sickness_is_lost(s->sickness, m->number);
    crash_member(s, m, &s->disks);
}

/* Boot is one step, so fate can only reach into it by way of the disk itself. */
static void boot(struct sim *s, struct sim_member *m)
{
    uint64_t calls = sim_host_disk_calls(m->host);
    uint64_t planned = m->number == s->crash_member ? s->crash_call : UINT64_MAX;
    bool is_torn = m->torn_call < planned;
    uint64_t call = is_torn ? m->torn_call : planned;

    if (call != UINT64_MAX && call > calls)
        fake_disk_die_at(m->host->disk, call - calls);
    if (s->member_count == 1)
        s->history.leader_began_ns = s->time.now_ns;
    m->starts++;
    m->digested = 0;
    m->installs = 0;
    tell(s, STORY_STARTED, m->number, m->number, m->starts);
    bool ok = sim_host_start(m->host);
    if (fake_disk_is_dead(m->host->disk)) {
        if (is_torn)
            tear_founding(s, m);
        else
            crash(s);
        return;
    }
    fake_disk_die_at(m->host->disk, 0);
    if (!ok)
        gave_up(s, m, true);
}

static void start_member(struct fake_task *t)
{
    struct sim_member *m = container_of(t, struct sim_member, restart);

    boot(m->sim, m);
}

/* --- the disks --- */

static void on_sick(void *context, unsigned member, enum sim_fault fault, uint64_t ms)
{
    struct sim *s = context;

    note(s, 3000 + member);
    note(s, fault);
    note(s, ms);
    bool passes = fault == FAULT_SLOW_DISK || fault == FAULT_HANG || fault == FAULT_FULL;
    tell(s, passes ? STORY_DISK_SICK : STORY_DISK_SPOILED, member, member, fault);
}

static void on_well(void *context, unsigned member, enum sim_fault fault)
{
    tell(context, STORY_DISK_WELL, member, member, fault);
}

static void kill_member(void *context, unsigned member)
{
    struct sim *s = context;

    if (s->members[member].host->server)
        crash_member(s, &s->members[member], &s->disks);
}

static void take_away(void *context, unsigned member)
{
    struct sim *s = context;
    struct sim_member *m = &s->members[member];

    m->stays_down = true;
    fake_time_cancel(&s->time, &m->restart);
    if (m->host->server)
        crash_member(s, m, &s->disks);
}

static bool all_know_member(void *context, unsigned member)
{
    const struct sim *s = context;
    uint64_t at = s->members[member].published_at;

    for (unsigned i = 0; i < s->member_count; i++)
        if (at == 0 || s->members[i].applied < at)
            return false;
    return true;
}

static const struct sickness_handlers sickness_handlers = {.on_sick = on_sick,
                                                           .on_well = on_well,
                                                           .kill = kill_member,
                                                           .take_away = take_away,
                                                           .has_run = all_know_member,
                                                           .leader = some_leader};

/* --- members that come and go --- */

static void on_start(void *context, unsigned host, const char *initial_cluster)
{
    struct sim *s = context;
    struct sim_member *m = &s->members[host];

    buf_clear(&m->joins);
    buf_append_str(&m->joins, initial_cluster);
    m->host->joins = buf_str(&m->joins);
    m->is_out = m->awaits_list = false;
    plan_torn_joining(s, m);
    uint64_t after_ms = rng_below(&s->changes, JOIN_MS_MAX);
    fake_time_at(&s->time, &m->restart, s->time.now_ns + after_ms * NS_PER_MS);
    trace(s, "m%u is to be started with %s\n", host + 1, initial_cluster);
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
        crash_member(s, m, &s->changes);
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
    trace(context, "%s\n", text);
}

static const struct steward_handlers steward_handlers = {.start = on_start,
                                                         .needs_start = needs_start,
                                                         .before_removal = before_removal,
                                                         .asked = on_asked,
                                                         .trace = on_steward_trace};

/* --- opening --- */

static void add_member(struct sim *s)
{
    struct sim_member *m = &s->members[s->member_count];

    *m = (struct sim_member){.sim = s, .number = s->member_count, .restart.run = start_member};
    m->logger = (struct logger){.level = s->o.trace ? LOG_DEBUG : LOG_FATAL,
                                .format = LOG_CONSOLE,
                                .sink = s->o.trace ? tell_line : log_sink_none,
                                .sink_context = m};
    m->host = sim_host_new(&s->time, s->wire, m->number, &s->climate, &m->logger);
    s->hosts[s->host_count++] = m->host->io.net;
    s->member_count++;
    sickness_add(s->sickness, m->host);
    if (climate_has(&s->climate, FAULT_DRIFT))
        tell(s, STORY_CLOCK_DRIFTS, m->number, m->number, m->host->clock_rate);
}

static struct sim_client *add_client(struct sim *s)
{
    struct sim_client *c = &s->clients[s->client_count];
    char ip[32];

    assert(s->client_count < CLIENTS_MAX);
    s->client_count++;
    snprintf(ip, sizeof(ip), "10.0.1.%u", s->client_count);
    inbox_init(&c->inbox, NULL, NULL);
    fake_clock_init(&c->clock, &s->time, &c->inbox);
    c->io = (struct io){.inbox = &c->inbox,
                        .clock = &c->clock.base,
                        .net = fake_wire_add_host(s->wire, &c->inbox, ip)};
    s->hosts[s->host_count++] = c->io.net;
    return c;
}

static struct net_address client_address(unsigned member)
{
    struct net_address a;
    char text[32];

    snprintf(text, sizeof(text), "10.0.0.%u:2379", member + 1);
    enum err e = net_address_parse(text, &a);
    assert(e == ERR_OK);
    return a;
}

static void add_actors(struct sim *s, enum actor_kind kind, unsigned count)
{
    struct actor_options options = {
        .kind = kind,
        .history = &s->history,
        .server_count = s->member_count,
        .pause_ms_max = s->climate.pause_ms_max,
        .has_herd = s->climate.has_herd,
        .has_quota = s->climate.quota_bytes > 0 || climate_has(&s->climate, FAULT_FULL),
        .disk_may_fail = climate_has(&s->climate, FAULT_FULL) ||
                         climate_has(&s->climate, FAULT_EIO) ||
                         climate_has(&s->climate, FAULT_FLIP),
    };

    bool watches = kind == ACTOR_WITNESS || kind == ACTOR_WATCHER;
    if (members_change(s))
        options.endpoints = watches ? &s->endpoints.voters : &s->endpoints.all;
    for (unsigned i = 0; i < s->member_count; i++)
        options.servers[i] = client_address(i);
    for (unsigned i = 0; i < count; i++) {
        struct sim_client *c = add_client(s);
        options.io = &c->io;
        rng_seed(&options.rng, rng_next(kind == ACTOR_OPERATOR ? &s->operators : &s->fate));
        c->actor = actor_new(&options);
    }
}

/* Few file descriptors, and clients who take all that they can get of them. */
static void let_files_run_out(struct sim *s)
{
    unsigned spare = (unsigned)rng_below(&s->fate, 31);
    unsigned files = FILES_MIN + (s->member_count - 1) * FILES_FOR_PEER + spare;
    unsigned member = (unsigned)rng_below(&s->fate, s->member_count);
    uint64_t seed = rng_next(&s->fate);

    if (!climate_has(&s->climate, FAULT_FILES))
        return;
    struct sim_client *c = add_client(s);
    struct idle_options options = {.io = &c->io, .count = files, .server = client_address(member)};
    rng_seed(&options.rng, seed);
    sim_host_limit_files(s->members[member].host, files);
    s->idle = idle_new(&options);
}

static void add_steward(struct sim *s)
{
    if (!members_change(s))
        return;
    struct sim_client *c = add_client(s);
    struct steward_options options = {.io = &c->io,
                                      .founders = s->climate.members,
                                      .hosts = s->member_count,
                                      .roster = &s->roster,
                                      .endpoints = &s->endpoints,
                                      .on = &steward_handlers,
                                      .context = s};

    rng_seed(&options.rng, rng_next(&s->changes));
    s->steward = c->steward = steward_new(&options);
}

static bool connections_break(const struct climate *c)
{
    static const enum sim_fault faults[] = {FAULT_CUT,       FAULT_ONE_WAY, FAULT_CLOG,
                                            FAULT_LOSS,      FAULT_LATENCY, FAULT_BANDWIDTH,
                                            FAULT_HALF_OPEN, FAULT_RESET,   FAULT_PAUSE};
    bool any = false;

    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        any |= climate_has(c, faults[i]);
    return any;
}

/* A short story, and one that is about a single member, has the members that it begins with. */
static void draw_changes(struct sim *s)
{
    const struct sim_options *o = &s->o;
    bool is_about_one = o->crash_at_call != 0 || o->install_turns > 0 || o->data_dir;

    if (o->calls == 0 && !is_about_one && (o->without >> FAULT_MEMBERS & 1) == 0)
        climate_draw_members(&s->climate, &s->changes, o->with_changes);
}

/* What was asked for takes the place of what the seed says. */
static void draw_climate(struct sim *s)
{
    struct climate *c = &s->climate;

    climate_draw(c, &s->fate, s->o.members);
    climate_draw_disks(c, &s->disks);
    draw_changes(s);
    c->faults &= ~s->o.without;
    c->data_dir = s->o.data_dir;
    if (s->o.calls > 0) { /* a short story */
        c->has_herd = false;
        c->herders = c->groups = 0;
    }
    if (s->o.writers > 0)
        c->writers = s->o.writers;
    if (s->o.watchers > 0)
        c->watchers = s->o.watchers;
    if (s->o.without_quota)
        c->quota_bytes = 0;
    if (!climate_has(c, FAULT_CRASH) || s->o.data_dir)
        c->crashes = 0;
    if (s->o.data_dir || s->o.crash_at_call != 0 ||
        s->o.calls > 0) /* such a machine cannot crash; nor any other */
        c->faults &= ~(uint32_t)SIM_DISK_FAULTS;
    c->torn_founding &= c->crashes > 0 && s->o.crash_at_call == 0;
    s->history.lease_late_ns = LEASE_LATE_NS + 2 * c->election_ms * NS_PER_MS;
    if (climate_has(c, FAULT_DRIFT))
        s->history.clock_ppm_max = SIM_CLOCK_RATE_OFF_MAX;
    /* One that a member makes of itself takes the log's place, and others may need that. */
    climate_draw_installs(c, &s->installs);
    climate_draw_compactions(c, &s->compactions);
    climate_draw_operators(c, &s->operators);
    climate_draw_retention(c, &s->retentions);
    s->retention.ns =
        c->retention_ms * (1000000 - SIM_CLOCK_RATE_OFF_MAX); /* a clock may be fast */
    if (s->o.install_turns > 0)
        c->install_turns = s->o.install_turns == UINT32_MAX ? 0 : s->o.install_turns;
    if (c->hosts > 1) {
        c->install_turns = 0;
        climate_draw_logs(c, &s->installs);
    }
    s->crashes_left = c->crashes * (c->hosts > 1 || c->install_turns > 0 ? 2 : 1);
    s->history.has_installs = c->install_turns > 0 || c->short_logs;
    s->history.members = c->hosts;
    /* A member whose disk fails ends when it likes; so does one that was removed. */
    s->history.connections_break =
        connections_break(c) || (c->faults & SIM_DISK_FAULTS) != 0 || climate_has(c, FAULT_MEMBERS);
}

static void open_weather(struct sim *s)
{
    s->weather = weather_new(&(struct weather_options){.time = &s->time,
                                                       .climate = &s->climate,
                                                       .hosts = s->hosts,
                                                       .host_count = s->host_count,
                                                       .seed = rng_next(&s->fate),
                                                       .on = &weather_handlers,
                                                       .context = s});
}

static void open_sickness(struct sim *s)
{
    s->sickness = sickness_new(&(struct sickness_options){.time = &s->time,
                                                          .climate = &s->climate,
                                                          .seed = rng_next(&s->disks),
                                                          .on = &sickness_handlers,
                                                          .context = s});
}

static void begin(struct sim *s, const struct sim_options *o)
{
    *s = (struct sim){.o = *o, .hash = 0xcbf29ce484222325ull, .history.seen = 1};
    rng_seed(&s->fate, o->seed);
    fake_time_init(&s->time, rng_next(&s->fate));
    rng_seed(&s->order, rng_next(&s->fate));
    rng_seed(&s->installs, ~o->seed);
    rng_seed(&s->disks, o->seed << 32 | 2);
    rng_seed(&s->digests, o->seed << 32 | 1); /* so that taking them changes no story */
    rng_seed(&s->compactions, ~(o->seed << 32));
    rng_seed(&s->operators, o->seed << 32 | 2);
    rng_seed(&s->changes, o->seed << 32 | 3);
    rng_seed(&s->retentions, o->seed << 32 | 4);
    draw_climate(s);
}

unsigned sim_member_count(const struct sim_options *options)
{
    struct sim s;

    begin(&s, options);
    fake_time_free(&s.time);
    return s.climate.members;
}

static void sim_open(struct sim *s, const struct sim_options *o)
{
    begin(s, o);
    s->story = o->picture ? &s->told : NULL;
    struct fake_wire_options wire = {.delay = {.min_ns = 10000, .max_ns = s->climate.wire_ns_max},
                                     .context = s};
    if (s->story || o->trace)
        wire.on_event = on_wire_event;
    s->wire = fake_wire_new(&s->time, &wire);
    open_sickness(s);
    for (unsigned i = 0; i < s->climate.hosts; i++) {
        add_member(s);
        s->members[i].is_out = i >= s->climate.members;
    }
    s->cluster = cluster_check_new(s->member_count, s->climate.members);
    s->endpoints.all = s->endpoints.voters = (1u << s->climate.members) - 1;
    add_actors(s, ACTOR_WITNESS, 1);
    add_actors(s, ACTOR_WRITER, s->climate.writers);
    add_actors(s, ACTOR_HERDER, s->climate.herders);
    add_actors(s, ACTOR_CROWD, s->climate.groups);
    add_actors(s, ACTOR_READER, s->climate.readers);
    add_actors(s, ACTOR_LESSEE, s->climate.lessees);
    add_actors(s, ACTOR_POLLER, s->climate.pollers);
    add_actors(s, ACTOR_KEEPER, s->climate.keepers);
    add_actors(s, ACTOR_WATCHER, s->climate.watchers);
    let_files_run_out(s);
    add_actors(s, ACTOR_OPERATOR, s->climate.operators);
    add_steward(s);
    s->told.members = s->member_count;
    s->told.places = s->host_count;
    open_weather(s);
}

/* --- closing --- */

/* A client that was closed is freed by the last word of its connection, which takes the wire a
 * moment. Nobody is left to begin anything. */
static void let_connections_end(struct sim *s)
{
    do {
        for (unsigned i = 0; i < s->client_count; i++)
            inbox_drain(&s->clients[i].inbox, SIZE_MAX);
    } while (fake_time_step(&s->time));
    for (unsigned i = 0; i < s->client_count; i++)
        inbox_drain(&s->clients[i].inbox, SIZE_MAX);
}

static void clients_close(struct sim *s)
{
    for (unsigned i = 0; i < s->client_count; i++)
        fake_wire_crash(s->clients[i].io.net);
    for (unsigned i = 0; i < s->client_count; i++) {
        struct sim_client *c = &s->clients[i];
        inbox_init(&c->inbox, NULL, NULL);
        fake_clock_crash(&c->clock);
        fake_clock_free(&c->clock);
    }
}

static void sim_close(struct sim *s)
{
    weather_calm(s->weather);
    sickness_calm(s->sickness);
    for (unsigned i = 0; i < s->client_count; i++)
        if (s->clients[i].actor)
            actor_free(s->clients[i].actor);
    steward_free(s->steward);
    idle_wind_down(s->idle);
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        fake_time_cancel(&s->time, &m->restart);
        if (m->host->server)
            sim_host_crash(m->host, FAKE_KILLED);
        else
            fake_wire_power_on(m->host->io.net); /* else whoever speaks to it never ends */
    }
    let_connections_end(s);
    clients_close(s);
    idle_free(s->idle);
    for (unsigned i = 0; i < s->member_count; i++) {
        sim_host_free(s->members[i].host);
        buf_free(&s->members[i].joins);
    }
    weather_free(s->weather);
    sickness_free(s->sickness);
    fake_wire_free(s->wire);
    fake_time_free(&s->time);
    story_free(&s->told);
    history_free(&s->history);
    cluster_check_free(s->cluster);
    roster_free(&s->roster);
    retention_free(&s->retention);
}

/* --- running --- */

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

static void look_for_torn_founding(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        if (m->host->server && sim_host_disk_calls(m->host) >= m->torn_call)
            tear_founding(s, m);
    }
}

/* A compaction is over soon, and one that is planned by calls of the disks would hardly ever come
 * in its midst. */
static void plan_crash_in_compaction(struct sim *s)
{
    bool is_new = s->history.compacted > s->compacted;

    s->compacted = s->history.compacted;
    if (is_new && s->crashes_left > 0 && s->o.crash_at_call == 0 &&
        rng_chance(&s->compactions, 1, 6))
        s->crash_step = s->steps + rng_below(&s->compactions, STEPS_OF_COMPACTION);
}

static void look_for_crash(struct sim *s)
{
    const struct sim_member *m = &s->members[s->crash_member];
    /* A witness that is to connect again must find what it has not seen. */
    bool is_safe = s->history.seen >= s->history.compacted;

    plan_crash_in_compaction(s);
    if (!is_safe)
        return;
    look_for_torn_founding(s);
    if (m->is_out || sickness_is_wiped(s->sickness, m->number))
        plan_crash(s); /* it cannot be this one any more */
    if (!m->host->server)
        return;
    if (sim_host_disk_calls(m->host) >= s->crash_call || m->turns >= s->crash_turn ||
        s->steps >= s->crash_step)
        crash(s);
}

/* Only who was removed does that. */
static void stopped_by_itself(struct sim *s, struct sim_member *m)
{
    if (!cluster_check_is_removed(s->cluster, m->number))
        history_fail(&s->history, "member m%u has stopped, and was not removed", m->number + 1);
    note(s, 4000 + m->number);
    tell(s, STORY_STOPPED, m->number, m->number, 0);
    s->installed += server_installed(m->host->server);
    sim_host_close(m->host);
    sickness_crashed(s->sickness, m->number);
    cluster_check_down(s->cluster, m->number);
    s->history.witness_is_live = false;
    m->leads = false;
    m->leader = 0;
    retire(s, m);
}

static void look_for_stopped(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count && !s->is_stopping; i++) {
        const struct sim_host *h = s->members[i].host;
        if (h->server && !h->failed && server_has_stopped(h->server))
            stopped_by_itself(s, &s->members[i]);
    }
}

static void look_at_members(struct sim *s)
{
    look_for_stopped(s);
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_host *h = s->members[i].host;
        if (!h->failed || fake_disk_is_dead(h->disk))
            continue;
        gave_up(s, &s->members[i], false);
    }
    look_for_crash(s);
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
    if (members_change(s) && now.table != 0 && now.view.applied >= s->climate.members)
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
    tell(s, kind, m->number, member_of_id(s, now->leader, m->number), now->term);
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
    s->history.installs += count - m->installs;
    m->installs = count;
    trace(s, "m%u has installed a snapshot, applied %" PRIu64 "\n", m->number + 1,
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
    if (!take_digest(s, m) || !is_due)
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
    note(s, m->number);
    note(s, now.term);
    note(s, now.committed);
    note(s, now.applied);
    note(s, (uint64_t)now.revision);
    note(s, now.durable_store);
    s->history.server_revision[m->number] = now.revision;
    m->applied = now.applied;
    if (now.ready && m->published_at == 0)
        m->published_at = now.applied;
    note_installs(s, m);
    if (s->member_count == 1)
        install_now_and_then(s, m);
}

static void steward_turned(struct sim *s, struct steward *steward)
{
    steward_turn(steward);
    const char *problem = roster_problem(&s->roster);
    if (!problem)
        problem = steward_problem(steward);
    if (problem)
        history_fail(&s->history, "%s", problem);
    note(s, s->roster.heard);
    note(s, s->roster.told);
}

static bool client_turn(struct sim *s, struct sim_client *c)
{
    if (inbox_is_empty(&c->inbox))
        return false;
    inbox_drain(&c->inbox, SIZE_MAX);
    if (c->actor)
        actor_turn(c->actor);
    if (c->steward)
        steward_turned(s, c->steward);
    note(s, (uint64_t)s->history.told);
    note(s, s->history.event_count);
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

static void step(struct sim *s)
{
    s->steps++;
    note(s, s->time.now_ns);
    s->history.now_ns = s->time.now_ns;
    if (!somebody_turns(s) && !fake_time_step(&s->time))
        history_fail(&s->history, "nothing will ever happen again");
    look_at_members(s);
    watch_over_time(s);
}

static uint64_t calls_made(const struct sim *s)
{
    uint64_t calls = 0;

    for (unsigned i = 0; i < s->client_count; i++)
        if (s->clients[i].actor)
            calls += actor_calls(s->clients[i].actor);
    return calls;
}

/* Operations that were acknowledged; those before ops_counted are over and done with. */
static uint64_t operations(struct sim *s)
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

static bool everybody_is_idle(const struct sim *s)
{
    for (unsigned i = 0; i < s->client_count; i++)
        if (s->clients[i].actor && !actor_is_idle(s->clients[i].actor, s->history.told))
            return false;
    return true;
}

static void run_until_idle(struct sim *s)
{
    while (!s->history.failed && !everybody_is_idle(s))
        step(s);
}

static bool storm_is_over(struct sim *s)
{
    uint64_t now_ms = s->time.now_ns / NS_PER_MS;

    if (s->o.calls > 0)
        return calls_made(s) >= s->o.calls;
    uint64_t storm_ms = s->o.storm_ms ? s->o.storm_ms : STORM_MS;
    return now_ms >= storm_ms && (now_ms >= STORM_MS_MAX || operations(s) >= OPERATIONS_MIN);
}

static void storm(struct sim *s)
{
    tell_text(s, STORY_PHASE, "storm");
    for (unsigned i = 0; i < s->climate.members; i++) {
        uint64_t after_ms = i == 0 ? 0 : rng_below(&s->fate, START_MS_MAX);
        fake_time_at(&s->time, &s->members[i].restart, s->time.now_ns + after_ms * NS_PER_MS);
        plan_torn_founding(s, &s->members[i]);
    }
    plan_crash(s);
    while (!s->history.failed && !storm_is_over(s))
        step(s);
}

/* Connections that are half-open take descriptors, and keep those who wait on them. */
static uint64_t calm_bound_ns(const struct sim *s)
{
    uint64_t ms = CALM_MS_MAX + 10 * s->climate.election_ms;

    if (climate_has(&s->climate, FAULT_HALF_OPEN) || climate_has(&s->climate, FAULT_POWER))
        ms += KEEPALIVE_MS;
    return ms * NS_PER_MS;
}

/* --- settling --- */

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
    return count == cluster_check_size(s->cluster) && steward_is_idle(s->steward);
}

/* All that they know were removed, too: there is nobody to tell them. An operator does. */
static void take_the_deaf_away(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        bool is_removed =
            cluster_check_is_removed(s->cluster, i) && !cluster_check_knows_others(s->cluster, i);
        bool never_came = m->host->joins && !m->has_run && !steward_knows(s->steward, i);
        if (m->is_out || (!is_removed && !never_came))
            continue;
        retire(s, m);
        if (m->host->server)
            crash_member(s, m, &s->changes);
    }
}

static void heal(struct sim *s)
{
    s->crashes_left = 0;
    plan_no_crash(s);
    for (unsigned i = 0; i < s->member_count; i++)
        s->members[i].torn_call = UINT64_MAX;
    weather_calm(s->weather);
    sickness_calm(s->sickness);
}

/* What was asked for may still happen; and clients must know who is there. */
static void settle(struct sim *s)
{
    uint64_t lists = 0;
    bool was_settled = false;

    if (!members_change(s))
        return;
    tell_text(s, STORY_PHASE, "settling");
    heal(s);
    steward_wind_down(s->steward);
    uint64_t until_ns = s->time.now_ns + SETTLE_MS_MAX * NS_PER_MS + calm_bound_ns(s);
    while (!s->history.failed) {
        step(s);
        bool is_settled = members_are_settled(s);
        if (!is_settled || !was_settled)
            lists = steward_lists(s->steward);
        was_settled = is_settled;
        if (is_settled && steward_lists(s->steward) >= lists + 2)
            break;
        if (s->time.now_ns > until_ns - calm_bound_ns(s))
            take_the_deaf_away(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "all is calm, and it does not come to rest who is a member");
    }
    steward_stop(s->steward);
}

/* Where members come and go they are those of the newest configuration. */
static bool is_voter(const struct sim *s, unsigned member)
{
    return !members_change(s) || cluster_check_is_voter(s->cluster, member);
}

static unsigned minority_count(const struct sim *s)
{
    size_t voters = members_change(s) ? cluster_check_voter_count(s->cluster) : s->member_count;

    return (unsigned)(voters - 1) / 2;
}

/* --- calm --- */

/* So many members cannot be counted on in the calm: they are down, or their disks are not well. */
static unsigned absent_count(const struct sim *s)
{
    unsigned count = 0;

    for (unsigned i = 0; i < s->member_count; i++)
        count += s->members[i].stays_down || sickness_is_lost(s->sickness, i);
    return count;
}

/* A minority goes down, or is down, and stays so for now. */
static void keep_minority_down(struct sim *s)
{
    unsigned minority = minority_count(s);
    unsigned count = (unsigned)rng_below(&s->fate, minority + 1);
    unsigned first = (unsigned)rng_below(&s->fate, s->member_count);

    if (s->o.calls > 0 || s->o.data_dir || !climate_has(&s->climate, FAULT_CRASH))
        return;
    for (unsigned i = 0; i < count && absent_count(s) < minority; i++) {
        struct sim_member *m = &s->members[(first + i) % s->member_count];
        if (sickness_is_lost(s->sickness, m->number) || m->is_out || !is_voter(s, m->number))
            continue;
        m->stays_down = true;
        fake_time_cancel(&s->time, &m->restart);
        if (m->host->server)
            crash_member(s, m, &s->fate);
    }
}

/* A leader whose disk does nothing any more hands over. The others could write without it, but
 * whoever speaks to the leader could not. */
static struct sim_member *hang_leader(struct sim *s)
{
    unsigned leader = some_leader(s);
    struct sim_member *m = &s->members[leader];

    if (!climate_has(&s->climate, FAULT_HANG) || absent_count(s) >= minority_count(s) ||
        !m->host->server || sickness_is_lost(s->sickness, leader))
        return NULL;
    sickness_hang(s->sickness, leader);
    return m;
}

/* Now that a majority is up and can speak, whoever has lost everything is known to them. */
static void start_wiped(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        if (!sickness_is_wiped(s->sickness, i))
            continue;
        s->members[i].stays_down = false;
        fake_time_at(&s->time, &s->members[i].restart,
                     s->time.now_ns + 2 * s->climate.election_ms * NS_PER_MS);
    }
}

/* A majority is up and can speak: clients must get somewhere. */
static void calm(struct sim *s)
{
    tell_text(s, STORY_PHASE, "calm");
    heal(s);
    keep_minority_down(s);
    const struct sim_member *hung = hang_leader(s);
    start_wiped(s);
    uint64_t bound_ns = calm_bound_ns(s), until_ns = s->time.now_ns + bound_ns;
    uint64_t wanted = s->o.calls > 0 ? 0 : operations(s) + PROGRESS_MIN;

    s->history.healed_ns = s->time.now_ns;
    cluster_check_healed(s->cluster, s->time.now_ns, bound_ns);
    while (!s->history.failed && (operations(s) < wanted || (hung && hung->leads))) {
        step(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "all is calm, and %s",
                         operations(s) < wanted ? "clients get nowhere"
                                                : "a member leads whose disk hangs");
    }
    while (!s->history.failed && s->o.calls == 0 && operations(s) < OPERATIONS_MIN)
        step(s);
    cluster_check_healed(s->cluster, s->time.now_ns, 0);
}

/* They have applied the same entries, and their states were held against each other. */
static bool all_members_agree(struct sim *s)
{
    uint64_t applied = 0;

    for (unsigned i = 0; i < s->member_count; i++) {
        if (s->members[i].is_out)
            continue;
        if (!s->members[i].host->server)
            return false;
        struct server_status now = server_status(s->members[i].host->server);
        if (now.applied != now.committed || (applied > 0 && now.applied != applied))
            return false;
        applied = now.applied;
    }
    for (unsigned i = 0; i < s->member_count; i++)
        if (!s->members[i].is_out && s->members[i].digested != applied &&
            !take_digest(s, &s->members[i]))
            return false; /* a large delete is not settled yet */
    return true;
}

static bool all_wiped_are_refused(const struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++)
        if (sickness_is_wiped(s->sickness, i) && !s->members[i].is_out)
            return false;
    return true;
}

static void wait_for_refusals(struct sim *s)
{
    uint64_t until_ns = s->time.now_ns + calm_bound_ns(s);

    while (!s->history.failed && !all_wiped_are_refused(s)) {
        step(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "a member came back with an empty disk, and nobody said no");
    }
}

/* Whoever has a flipped bit and has not read it is no witness. */
static void leave_lost_out(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        if (!sickness_is_lost(s->sickness, i) || m->is_out)
            continue;
        m->is_out = true;
        fake_time_cancel(&s->time, &m->restart);
        if (m->host->server)
            crash_member(s, m, &s->disks);
    }
}

/* Nobody begins anything new, whoever was down is started, and all members have the same. */
static void come_to_rest(struct sim *s)
{
    wait_for_refusals(s);
    leave_lost_out(s);
    uint64_t until_ns = s->time.now_ns + calm_bound_ns(s);
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        if (m->stays_down && !m->is_out)
            fake_time_at(&s->time, &m->restart, s->time.now_ns);
        m->stays_down = false;
    }
    while (!s->history.failed && !all_members_agree(s)) {
        step(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "all is calm, and a member does not catch up");
    }
}

static void the_end(struct sim *s)
{
    tell_text(s, STORY_PHASE, "the end");
    sickness_calm(s->sickness);
    for (unsigned i = 0; i < s->client_count; i++)
        if (s->clients[i].actor)
            actor_wind_down(s->clients[i].actor);
    idle_wind_down(s->idle);
    run_until_idle(s);
    come_to_rest(s);
    for (unsigned i = 0; i < s->member_count && !s->history.failed; i++) {
        if (s->members[i].is_out || !is_voter(s, i))
            continue;
        actor_read_all(s->clients[1].actor, i); /* a writer: its result names the last revision */
        run_until_idle(s);
    }
    if (!s->history.failed)
        history_check(&s->history);
    for (unsigned i = 0; i < s->client_count && !s->history.failed; i++)
        if (s->clients[i].actor)
            actor_check(s->clients[i].actor);
}

static bool all_have_stopped(const struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++)
        if (s->members[i].host->server && !server_has_stopped(s->members[i].host->server))
            return false;
    return true;
}

/* Stops the members as an operator would. */
static void stop(struct sim *s)
{
    s->is_stopping = true;
    for (unsigned i = 0; i < s->member_count && !s->history.failed; i++) {
        if (s->members[i].is_out)
            continue;
        tell(s, STORY_STOPPED, i, i, 0);
        server_stop(s->members[i].host->server);
    }
    while (!s->history.failed && !all_have_stopped(s))
        step(s);
    for (unsigned i = 0; i < s->member_count && !s->history.failed; i++) {
        if (s->members[i].is_out)
            continue;
        s->installed += server_installed(s->members[i].host->server);
        sim_host_close(s->members[i].host);
    }
}

static void draw_picture(struct sim *s)
{
    char title[64];

    if (!s->o.picture)
        return;
    snprintf(title, sizeof(title), "seed %" PRIu64 ", %u members", s->o.seed, s->member_count);
    struct picture p = {
        .story = &s->told, .history = &s->history, .title = title, .problem = s->history.problem};
    if (!picture_write(&p, s->o.picture))
        fatal("the picture %s cannot be written", s->o.picture);
}

static uint64_t all_disk_calls(const struct sim *s)
{
    uint64_t calls = 0;

    for (unsigned i = 0; i < s->member_count; i++)
        calls += sim_host_disk_calls(s->members[i].host);
    return calls;
}

struct sim_result sim_run(const struct sim_options *options)
{
    struct sim s;

    sim_open(&s, options);
    storm(&s);
    if (!s.history.failed)
        settle(&s);
    if (!s.history.failed)
        calm(&s);
    if (!s.history.failed)
        the_end(&s);
    stop(&s);
    if (s.history.failed)
        tell_text(&s, STORY_BROKEN, s.history.problem);
    draw_picture(&s);
    struct sim_result r = {
        .ok = !s.history.failed,
        .hash = s.hash,
        .disk_calls = all_disk_calls(&s),
        .steps = s.steps,
        .virtual_ms = s.time.now_ns / NS_PER_MS,
        .calls = calls_made(&s),
        .operations = operations(&s),
        .members = s.member_count,
        .crashes = s.crashes,
        .installs = s.installed,
        .changes = s.steward ? steward_counts(s.steward) : (struct steward_counts){0},
        .lists = s.roster.heard,
        .sick = sickness_counts(s.sickness),
        .digests = s.digests_taken,
        .compared = s.digests_compared,
        .own_compactions = s.own_compactions,
        .hashes = s.history.hash_count,
        .backups = s.history.image_count,
        .hashes_compared = s.history.hashes_compared,
        .revision = s.history.told,
    };
    snprintf(r.problem, sizeof(r.problem), "%s", s.history.problem);
    sim_close(&s);
    return r;
}
