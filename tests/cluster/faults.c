#include "cluster/faults.h"

#include "cluster/links.h"
#include "cluster/load.h"
#include "cluster/volume.h"
#include "io/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SETTLE_MS_MAX = 30000,
    START_MS_MAX = 30000,
    BEFORE_MS_MAX = 600, /* load before something breaks */
    AFTER_MS_MAX = 400,
    STOP_MS_MAX = 30000, /* for a member that was told to stop */
    FULL_MS_MAX = 30000, /* for it to notice that its disk is full */
    REFILL_MS = 3000,    /* what it has given back meanwhile is taken, too */
    SPACE_MS_MAX = 2000, /* for it to take writes again */
    VOLUME_MB = 1000,    /* for all that is kept of the log, and a store */
    LEFT_MB_MAX = 60,    /* less than a segment, and yet some space */
    BALLAST_BYTES = 256 * KIB,
    BEHIND_REVISIONS = 1000, /* made while somebody is away, for his log to be too old */
    BEHIND_MS_MAX = 60000,
};

struct faults {
    const struct faults_options *o;
    struct faults_result *result;
    struct fleet fleet;
    struct links links;
    struct load load;
    struct rng rng;
    char text[160];                /* what this round does */
    uint64_t began_ms, install_ms; /* the whole run; the last install that was seen */
    struct faults_log {
        long read_to;
        unsigned watches; /* begun on this member, before the round */
        pid_t pid;        /* who it was then */
    } logs[FLEET_MAX];
};

static uint64_t now_ms(struct faults *f)
{
    return caller_now_ns(&f->load.caller) / NS_PER_MS;
}

__attribute__((format(printf, 2, 3))) static void say(struct faults *f, const char *format, ...)
{
    size_t len = strlen(f->text);
    va_list args;

    va_start(args, format);
    vsnprintf(f->text + len, sizeof(f->text) - len, format, args);
    va_end(args);
}

static bool wait_ms(struct faults *f, uint64_t at_most)
{
    return load_run_ms(&f->load, rng_below(&f->rng, at_most + 1));
}

/* For how long it stays broken: often too short for an election, often long enough for one, and now
 * and then so long that peers give up streams that stall. */
static bool stay_broken(struct faults *f)
{
    static const unsigned elections[] = {1, 1, 1, 3, 3, 3, 3, 8};
    uint64_t at_most = f->fleet.election_ms * elections[rng_below(&f->rng, ARRAY_LEN(elections))];
    uint64_t ms = rng_below(&f->rng, at_most + 1);

    say(f, " for %" PRIu64 " ms", ms);
    return load_run_ms(&f->load, ms);
}

/* Half of the time the leader. */
static unsigned some_member(struct faults *f)
{
    int leader = load_leader(&f->load);
    bool wants_leader = rng_chance(&f->rng, 1, 2);
    unsigned any = (unsigned)rng_below(&f->rng, f->fleet.count);
    unsigned member = leader >= 0 && wants_leader ? (unsigned)leader : any;

    say(f, " m%u%s", member + 1, (int)member == leader ? " (leader)" : "");
    return member;
}

/* --- processes --- */

static bool start(struct faults *f, unsigned member)
{
    return f->fleet.members[member].pid > 0 || fleet_start(&f->fleet, member);
}

static void kill_one(struct faults *f, unsigned member)
{
    fleet_kill(&f->fleet, member);
    f->result->kills++;
}

static bool kill_round(struct faults *f)
{
    say(f, "kill");
    unsigned member = some_member(f);

    kill_one(f, member);
    if (!stay_broken(f) || !start(f, member))
        return false;
    if (!rng_chance(&f->rng, 1, 4))
        return true;
    if (!wait_ms(f, 100)) /* and once more, before it has got far */
        return false;
    say(f, ", again");
    kill_one(f, member);
    return wait_ms(f, 100) && start(f, member);
}

/* So many at once, the others first in their places. */
static bool kill_many_round(struct faults *f, unsigned count)
{
    unsigned first = (unsigned)rng_below(&f->rng, f->fleet.count);

    say(f, "kill %u", count);
    for (unsigned i = 0; i < count; i++)
        kill_one(f, (first + i) % f->fleet.count);
    if (!stay_broken(f))
        return false;
    if (f->o->plant == PLANT_FORGETTING)
        for (unsigned i = 0; i < count; i++)
            fleet_forget(&f->fleet, (first + i) % f->fleet.count);
    for (unsigned i = 0; i < count; i++)
        if (!start(f, (first + i) % f->fleet.count) || !wait_ms(f, 200))
            return false;
    return true;
}

static bool pause_round(struct faults *f)
{
    say(f, "pause");
    unsigned member = some_member(f);

    fleet_pause(&f->fleet, member);
    f->result->pauses++;
    bool ok = stay_broken(f);
    fleet_resume(&f->fleet, member);
    return ok;
}

static bool stop_round(struct faults *f)
{
    say(f, "stop");
    unsigned member = some_member(f);
    uint64_t until = now_ms(f) + STOP_MS_MAX;

    f->result->stops++;
    fleet_stop(&f->fleet, member);
    while (f->fleet.members[member].pid > 0) {
        if (now_ms(f) > until)
            record_fail(&f->load.record, "m%u was told to stop and has not, after %d ms",
                        member + 1, STOP_MS_MAX);
        if (!load_run_ms(&f->load, 1))
            return false;
    }
    return stay_broken(f) && start(f, member);
}

static bool process_round(struct faults *f)
{
    uint64_t dice = f->o->plant == PLANT_FORGETTING ? 9 : rng_below(&f->rng, 10);

    if (dice < 4)
        return kill_round(f);
    if (dice < 7)
        return pause_round(f);
    if (dice < 8)
        return stop_round(f);
    return kill_many_round(f, dice < 9 ? 2 : f->fleet.count);
}

/* --- partitions --- */

enum shape { ISOLATED, DEAF, MUTE, PAIR, ONE_WAY, RING, RANDOM, SHAPES };

static const char *const shape_text[] = {
    [ISOLATED] = "isolated",
    [DEAF] = "deaf",
    [MUTE] = "mute",
    [PAIR] = "apart from the next",
    [ONE_WAY] = "unheard by next",
    [RING] = "and all others: hears the next alone",
    [RANDOM] = "and others at random",
};

static void break_link(struct faults *f, unsigned from, unsigned to, enum link_state state)
{
    links_set(&f->links, from, to, state);
}

/* Those that go one way cannot be cut: both sides see that (links.h). */
static enum link_state some_state(struct faults *f, enum shape shape)
{
    bool is_two_way = shape == ISOLATED || shape == PAIR;

    return (enum link_state)(LINK_STALLED + rng_below(&f->rng, is_two_way ? 3 : 2));
}

static void break_links(struct faults *f, unsigned member, enum shape shape, enum link_state state)
{
    unsigned count = f->fleet.count, next = (member + 1) % count;

    for (unsigned i = 0; i < count; i++) {
        if (shape == RING)
            break_link(f, i, (i + 1) % count, state);
        if (i == member)
            continue;
        if (shape == ISOLATED || shape == MUTE)
            break_link(f, member, i, state);
        if (shape == ISOLATED || shape == DEAF)
            break_link(f, i, member, state);
        if (shape == RANDOM && rng_chance(&f->rng, 1, 2))
            break_link(f, member, i, state);
        if (shape == RANDOM && rng_chance(&f->rng, 1, 2))
            break_link(f, i, member, state);
    }
    if (shape == PAIR || shape == ONE_WAY)
        break_link(f, member, next, state);
    if (shape == PAIR)
        break_link(f, next, member, state);
}

static bool partition_round(struct faults *f)
{
    static const char *const state_text[] = {"", "stalled", "dropped", "cut"};
    /* Half of the time one alone: if it leads, there may be two leaders for a while. */
    bool is_alone = rng_chance(&f->rng, 1, 2);
    enum shape shape = is_alone ? ISOLATED : (enum shape)rng_below(&f->rng, SHAPES);
    enum link_state state = some_state(f, shape);

    say(f, "links %s:", state_text[state]);
    unsigned member = some_member(f);
    say(f, " %s", shape_text[shape]);
    f->result->cuts++;
    break_links(f, member, shape, state);
    bool ok = stay_broken(f);
    if (ok && rng_chance(&f->rng, 1, 4)) { /* what it has said and nobody has heard dies with it */
        say(f, ", and killed");
        kill_one(f, member);
        ok = wait_ms(f, 200) && start(f, member);
    }
    links_set_all(&f->links, LINK_OPEN);
    return ok;
}

/* --- members that are away for so long that the log does not reach back to them --- */

/* Half of the time its process lives, and the watch on it, too. */
static bool behind_round(struct faults *f)
{
    bool is_killed = rng_chance(&f->rng, 1, 2);

    say(f, is_killed ? "left behind: kill" : "left behind: cut off");
    unsigned member = some_member(f);
    int64_t until = f->load.record.told + BEHIND_REVISIONS;
    uint64_t began = now_ms(f);

    if (is_killed)
        kill_one(f, member);
    else {
        f->result->cuts++;
        break_links(f, member, ISOLATED, LINK_CUT);
    }
    while (f->load.record.told < until) {
        if (now_ms(f) - began > BEHIND_MS_MAX)
            record_fail(&f->load.record, "%d revisions have not been made in %d ms without m%u",
                        BEHIND_REVISIONS, BEHIND_MS_MAX, member + 1);
        if (!load_run_ms(&f->load, 10))
            return false;
    }
    links_set_all(&f->links, LINK_OPEN);
    return start(f, member);
}

/* --- full disks --- */

static const char *volume_of(struct faults *f, unsigned member)
{
    return arena_printf(&f->fleet.arena, "%s/m%u", f->o->dir, member + 1);
}

static unsigned said_ever(struct faults *f, unsigned member, const char *text)
{
    long from = 0;

    return fleet_said(&f->fleet, member, text, &from);
}

static bool await_full(struct faults *f, unsigned member, unsigned before)
{
    uint64_t until = now_ms(f) + FULL_MS_MAX, refill = now_ms(f) + REFILL_MS;

    while (said_ever(f, member, "no space left on the disk") == before) {
        if (now_ms(f) > until)
            record_fail(&f->load.record, "m%u has not noticed that its disk is full", member + 1);
        /* A log that is purged makes space for itself. */
        if (now_ms(f) > refill && !volume_fill(volume_of(f, member), 0))
            record_fail(&f->load.record, "the volume of m%u cannot be filled again", member + 1);
        load_ballast(&f->load, member, BALLAST_BYTES);
        if (!load_run_ms(&f->load, 5))
            return false;
    }
    return true;
}

/* A client of its own, who wants to put by way of this very member. */
static bool await_writes(struct faults *f, unsigned member)
{
    uint64_t began = now_ms(f);

    load_probe_begin(&f->load, member);
    while (!load_probe(&f->load, member)) {
        if (now_ms(f) - began > SPACE_MS_MAX)
            record_fail(&f->load.record, "m%u has space, and takes no writes after %d ms",
                        member + 1, SPACE_MS_MAX);
        if (!load_run_ms(&f->load, 10))
            return false;
    }
    uint64_t took = now_ms(f) - began;
    if (took > f->result->space_ms_max)
        f->result->space_ms_max = took;
    say(f, ", writes after %" PRIu64 " ms", took);
    return true;
}

/* Now and then it is started on the full disk. */
static bool full_disk_round(struct faults *f)
{
    bool is_restarted = rng_chance(&f->rng, 1, 4), fills_all = rng_chance(&f->rng, 1, 2);
    uint64_t left = fills_all ? 0 : rng_below(&f->rng, LEFT_MB_MAX * 1000000ull);

    say(f, "fill");
    unsigned member = some_member(f), before = said_ever(f, member, "no space left on the disk");

    f->result->fills++;
    say(f, " but for %" PRIu64 " MB", left / 1000000);
    if (!volume_fill(volume_of(f, member), left)) {
        record_fail(&f->load.record, "the volume of m%u cannot be filled", member + 1);
        return false;
    }
    if (!await_full(f, member, before))
        return false;
    if (is_restarted) {
        say(f, ", killed");
        kill_one(f, member);
        if (!wait_ms(f, 200) || !start(f, member))
            return false;
    }
    if (!stay_broken(f))
        return false;
    if (!volume_give_space(volume_of(f, member))) {
        record_fail(&f->load.record, "the volume of m%u cannot be given space", member + 1);
        return false;
    }
    return await_writes(f, member);
}

static bool mount_volumes(struct faults *f)
{
    for (unsigned i = 0; f->o->full_disks > 0 && i < f->fleet.count; i++) {
        if (volume_mount(volume_of(f, i), VOLUME_MB * 1000000ull))
            continue;
        snprintf(f->result->problem, sizeof(f->result->problem), "no volume can be mounted: %s",
                 strerror(errno));
        f->result->is_skipped = errno == EPERM || errno == EACCES;
        while (i-- > 0)
            volume_unmount(volume_of(f, i));
        return false;
    }
    return true;
}

static void unmount_volumes(struct faults *f)
{
    for (unsigned i = 0; f->o->full_disks > 0 && i < f->fleet.count; i++)
        volume_unmount(volume_of(f, i));
}

/* --- rounds --- */

static bool settle(struct faults *f, uint64_t at_most_ms)
{
    uint64_t began = now_ms(f);
    bool ok = load_settle(&f->load, at_most_ms) && load_compare_stores(&f->load) &&
              record_judge(&f->load.record);
    uint64_t took = now_ms(f) - began;

    if (took > f->result->settle_ms_max)
        f->result->settle_ms_max = took;
    say(f, "; well after %" PRIu64 " ms", took);
    return ok;
}

/* Those of the last round. A watch lives through one as if nothing had been: what it shows next
 * must be what comes next (record.h), although the member itself has never applied it. */
static unsigned installs_of(struct faults *f, unsigned member)
{
    struct faults_log *log = &f->logs[member];
    unsigned fresh = fleet_said(&f->fleet, member, "\"applied snapshot\"", &log->read_to);
    bool is_same_watch = f->load.watchers[member].begun == log->watches;
    bool is_same_process = f->fleet.members[member].pid == log->pid;

    if (fresh > 0 && is_same_process && !is_same_watch)
        record_fail(&f->load.record, "the watch on m%u has ended by an install", member + 1);
    if (is_same_watch)
        f->result->watched_installs += fresh;
    log->watches = f->load.watchers[member].begun;
    log->pid = f->fleet.members[member].pid;
    return fresh;
}

static void note_installs(struct faults *f)
{
    uint64_t now = now_ms(f), without = now - f->install_ms;
    unsigned all = 0;

    for (unsigned i = 0; i < f->fleet.count; i++)
        all += installs_of(f, i);
    f->result->installs += all;
    if (without > f->result->install_ms_max)
        f->result->install_ms_max = without;
    if (f->o->install_s > 0 && without > f->o->install_s * 1000ull)
        record_fail(&f->load.record, "nobody has installed a snapshot for %" PRIu64 " ms", without);
    if (all == 0)
        return;
    say(f, "; %u installed", all);
    f->install_ms = now;
}

static bool run_round(struct faults *f, bool (*break_something)(struct faults *f))
{
    f->load.is_on = true;
    if (!fleet_renew_certs(&f->fleet) || !wait_ms(f, BEFORE_MS_MAX) || !break_something(f) ||
        !wait_ms(f, AFTER_MS_MAX) || !settle(f, SETTLE_MS_MAX))
        return false;
    note_installs(f);
    return !f->load.record.problem[0];
}

static bool is_over(struct faults *f)
{
    bool is_unwanted = f->o->is_unwanted && *f->o->is_unwanted;

    return is_unwanted ||
           (f->o->minutes > 0 && now_ms(f) - f->began_ms >= f->o->minutes * 60000ull);
}

static bool run_and_tell(struct faults *f, bool (*break_something)(struct faults *f))
{
    f->text[0] = 0;
    bool ok = run_round(f, break_something);
    f->result->rounds++;
    if (f->o->verbose)
        printf("round %u: %s; revision %" PRId64 ", %u calls succeeded, %u failed%s\n",
               f->result->rounds, f->text, f->load.record.told, f->load.succeeded, f->load.failed,
               ok ? "" : ": PROBLEM");
    return ok;
}

/* So many of each kind, in random order. */
static bool run_rounds(struct faults *f)
{
    unsigned partitions = f->o->partitions, fills = f->o->full_disks, behind = f->o->behind;
    unsigned total = f->o->rounds + partitions + fills + behind;

    for (unsigned i = 0; i < total && !is_over(f); i++) {
        uint64_t dice = rng_below(&f->rng, total - i);
        bool is_partition = dice < partitions, is_fill = !is_partition && dice < partitions + fills;
        bool is_behind = !is_partition && !is_fill && dice < partitions + fills + behind;
        partitions -= is_partition;
        fills -= is_fill;
        behind -= is_behind;
        if (!run_and_tell(f, is_partition ? partition_round
                             : is_fill    ? full_disk_round
                             : is_behind  ? behind_round
                                          : process_round))
            return false;
    }
    return true;
}

/* All of that once, or again and again until the time is up. */
static bool run_for_long(struct faults *f)
{
    do
        if (!run_rounds(f))
            return false;
    while (f->o->minutes > 0 && !is_over(f));
    return true;
}

static bool start_all(struct faults *f)
{
    for (unsigned i = 0; i < f->fleet.count; i++)
        if (!fleet_start(&f->fleet, i))
            return false;
    if (!settle(f, START_MS_MAX))
        return false;
    f->began_ms = f->install_ms = now_ms(f);
    note_installs(f); /* none yet; but who is watched, and where the logs end */
    return true;
}

/* --- the whole --- */

static void keep_record(struct faults *f)
{
    char path[4096];
    struct buf text = {0};

    snprintf(path, sizeof(path), "%s/record", f->o->dir);
    FILE *file = fopen(path, "we");
    if (!file)
        return;
    record_print(&f->load.record, &text);
    fwrite(text.at, 1, text.len, file);
    fclose(file);
    buf_free(&text);
}

static void note_result(struct faults *f)
{
    struct faults_result *r = f->result;

    r->operations = f->load.succeeded;
    r->failed = f->load.failed;
    r->reads = f->load.reads;
    r->watches = f->load.watches;
    r->revision = f->load.record.told;
    for (unsigned i = 0; i < f->fleet.count; i++) {
        uint64_t peak = fleet_peak_bytes(&f->fleet, i);
        r->peak_bytes = peak > r->peak_bytes ? peak : r->peak_bytes;
    }
    snprintf(r->problem, sizeof(r->problem), "%s", load_problem(&f->load));
}

static void run_all(struct faults *f)
{
    enum err e = links_open(&f->links, f->load.caller.io, &f->fleet);

    if (e != ERR_OK) {
        record_fail(&f->load.record, "the links cannot be made: %s", err_text(e));
        note_result(f);
        return;
    }
    if (!mount_volumes(f)) {
        links_close(&f->links);
        while (!links_are_closed(&f->links))
            caller_turn(&f->load.caller, 10);
        return;
    }
    f->load.reads_stale = f->o->plant == PLANT_STALE_READS;
    bool ok = start_all(f) && run_for_long(f);
    note_result(f);
    if (!ok)
        keep_record(f);
    for (unsigned i = 0; i < f->fleet.count; i++)
        fleet_kill(&f->fleet, i);
    unmount_volumes(f);
    links_close(&f->links);
    while (!links_are_closed(&f->links))
        caller_turn(&f->load.caller, 10);
}

bool faults_run(const struct faults_options *options, struct faults_result *out)
{
    struct faults f = {.o = options, .result = out};
    struct fleet_options fleet = {.program = options->program,
                                  .other = options->other,
                                  .dir = options->dir,
                                  .flags = options->flags,
                                  .is_by_tls = options->is_by_tls,
                                  .count = options->members ? options->members : 3,
                                  .election_ms =
                                      options->election_ms ? options->election_ms : 1000};

    *out = (struct faults_result){0};
    rng_seed(&f.rng, options->seed);
    if (!fleet_open(&f.fleet, &fleet))
        snprintf(out->problem, sizeof(out->problem), "%s", f.fleet.problem);
    else if (load_open(&f.load,
                       &(struct load_options){.fleet = &f.fleet,
                                              .seed = rng_next(&f.rng),
                                              .clients = options->clients ? options->clients : 24,
                                              .pause_ms_max = options->pause_ms}) != ERR_OK)
        snprintf(out->problem, sizeof(out->problem), "no loop could be had");
    else {
        run_all(&f);
        load_close(&f.load);
    }
    fleet_close(&f.fleet);
    return !out->problem[0];
}
