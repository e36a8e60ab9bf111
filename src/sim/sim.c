#include "sim/sim_int.h"

#include "sim/picture.h"

#include <inttypes.h>
#include <stdio.h>

/* An expired lease may wait for the look for it, and one lost revoke; and besides for a new
 * leader's extension. */
enum { TOKEN_TTL_S = 300 /* that is longer than any story */ };

#define LEASE_LATE_NS (8 * NS_PER_S)

/* --- opening --- */

static void add_member(struct sim *s)
{
    struct sim_member *m = &s->members[s->member_count];

    *m = (struct sim_member){.sim = s, .number = s->member_count, .restart.run = sim_start_member};
    m->logger = (struct logger){.level = s->o.trace ? LOG_DEBUG : LOG_FATAL,
                                .format = LOG_CONSOLE,
                                .sink = s->o.trace ? sim_tell_line : log_sink_none,
                                .sink_context = m};
    m->host = sim_host_new(&s->time, s->wire, m->number, &s->climate, &m->logger);
    s->hosts[s->host_count++] = m->host->io.net;
    s->member_count++;
    sickness_add(s->sickness, m->host);
    if (climate_has(&s->climate, FAULT_DRIFT))
        sim_tell(s, STORY_CLOCK_DRIFTS, m->number, m->number, m->host->clock_rate);
}

struct sim_client *sim_add_client(struct sim *s)
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
        .standstill_ms = s->climate.standstill_ms,
        .renews_late = s->climate.late_renewals,
        .has_herd = s->climate.has_herd,
        .has_quota = s->climate.quota_bytes > 0 || climate_has(&s->climate, FAULT_FULL),
        .disk_may_fail = climate_has(&s->climate, FAULT_FULL) ||
                         climate_has(&s->climate, FAULT_EIO) ||
                         climate_has(&s->climate, FAULT_FLIP),
    };

    if (kind == ACTOR_ADMINISTRATOR)
        options.pause_ms_max = s->climate.admin_pause_ms_max;
    bool watches = kind == ACTOR_WITNESS || kind == ACTOR_WATCHER;
    if (sim_members_change(s))
        options.endpoints = watches ? &s->endpoints.voters : &s->endpoints.all;
    for (unsigned i = 0; i < s->member_count; i++)
        options.servers[i] = client_address(i);
    for (unsigned i = 0; i < count; i++) {
        struct sim_client *c = sim_add_client(s);
        options.io = &c->io;
        options.permits = s->permits;
        options.user = s->permits ? sim_some_user(s, kind, i) : 0;
        rng_seed(&options.rng, rng_next(kind == ACTOR_OPERATOR        ? &s->operators
                                        : kind == ACTOR_ADMINISTRATOR ? &s->users
                                                                      : &s->fate));
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
    struct sim_client *c = sim_add_client(s);
    struct idle_options options = {.io = &c->io, .count = files, .server = client_address(member)};
    rng_seed(&options.rng, seed);
    sim_host_limit_files(s->members[member].host, files);
    s->idle = idle_new(&options);
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
    bool is_about_one = o->crash_at_call != 0 || o->install_turns > 0;

    if (o->calls > 0 || is_about_one)
        return;
    if ((o->without >> FAULT_MEMBERS & 1) == 0 && !o->with_auth && !o->data_dir)
        climate_draw_members(&s->climate, &s->changes, o->with_changes);
    if ((o->without >> FAULT_AUTH & 1) == 0)
        climate_draw_auth(&s->climate, &s->users, o->with_auth);
}

/* What was asked for takes the place of what the seed says. */
static void draw_climate(struct sim *s)
{
    struct climate *c = &s->climate;

    climate_draw(c, &s->fate, s->o.members);
    climate_draw_disks(c, &s->disks);
    draw_changes(s);
    c->faults &= ~s->o.without;
    climate_draw_stewards(c, &s->crowds, s->o.stewards);
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
    climate_draw_standstills(c, &s->standstills);
    climate_draw_retention(c, &s->retentions);
    climate_draw_checks(c, &s->checks);
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
    if (s->o.with_cold && (s->o.without >> FAULT_COLD & 1) == 0)
        climate_chill(c);
}

static void open_weather(struct sim *s)
{
    s->weather = weather_new(&(struct weather_options){.time = &s->time,
                                                       .climate = &s->climate,
                                                       .hosts = s->hosts,
                                                       .host_count = s->host_count,
                                                       .seed = rng_next(&s->fate),
                                                       .standstill_seed = rng_next(&s->standstills),
                                                       .on = &sim_weather_handlers,
                                                       .context = s});
}

static void open_sickness(struct sim *s)
{
    s->sickness = sickness_new(&(struct sickness_options){.time = &s->time,
                                                          .climate = &s->climate,
                                                          .seed = rng_next(&s->disks),
                                                          .on = &sim_sickness_handlers,
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
    rng_seed(&s->users, o->seed << 32 | 5);
    rng_seed(&s->standstills, o->seed << 32 | 6);
    rng_seed(&s->checks, o->seed << 32 | 7);
    rng_seed(&s->crowds, o->seed << 32 | 8);
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
        wire.on_event = sim_on_wire_event;
    s->wire = fake_wire_new(&s->time, &wire);
    open_sickness(s);
    for (unsigned i = 0; i < s->climate.hosts; i++) {
        add_member(s);
        s->members[i].is_out = i >= s->climate.members;
    }
    s->cluster = cluster_check_new(s->member_count, s->climate.members);
    s->endpoints.all = s->endpoints.voters = (1u << s->climate.members) - 1;
    if (climate_has(&s->climate, FAULT_AUTH))
        s->permits = permits_new(s->member_count, s->climate.token_ttl_s < TOKEN_TTL_S);
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
    sim_add_stewards(s);
    add_actors(s, ACTOR_ADMINISTRATOR, s->permits != NULL);
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
    for (unsigned i = 0; i < s->steward_count; i++)
        steward_free(s->stewards[i]);
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
    permits_free(s->permits);
    roster_free(&s->roster);
    retention_free(&s->retention);
}

/* --- a run --- */

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

static uint64_t count_warmups(const struct sim *s)
{
    uint64_t warmups = 0;

    for (unsigned i = 0; i < s->member_count; i++)
        warmups += s->members[i].host->warmups;
    return warmups;
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
    sim_storm(&s);
    if (!s.history.failed)
        sim_settle(&s);
    if (!s.history.failed)
        sim_calm(&s);
    if (!s.history.failed)
        sim_the_end(&s);
    sim_stop(&s);
    if (s.history.failed)
        sim_tell_text(&s, STORY_BROKEN, s.history.problem);
    draw_picture(&s);
    struct sim_result r = {
        .ok = !s.history.failed,
        .hash = s.hash,
        .disk_calls = all_disk_calls(&s),
        .steps = s.steps,
        .virtual_ms = s.time.now_ns / NS_PER_MS,
        .calls = sim_calls_made(&s),
        .operations = sim_operations(&s),
        .members = s.member_count,
        .crashes = s.crashes,
        .installs = s.installed,
        .warmups = count_warmups(&s),
        .changes = sim_steward_counts(&s),
        .lists = s.roster.heard,
        .rights = s.permits ? permits_count(s.permits) : 0,
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
