#include "cluster/mixed.h"

#include "cluster/load.h"
#include "io/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUR_VERSION "3.7"

/* The machine may be busy with other things: what is waited for comes, or never. */
enum {
    MEMBERS = 3,
    ELECTION_MS = 1000,
    SETTLE_MS_MAX = 60000,
    END_MS_MAX = 60000,     /* for a member that was told to stop, or was removed */
    COMMAND_MS_MAX = 60000, /* for etcdctl to succeed: members are healthy after five seconds */
    RETRY_MS = 200,
    BEFORE_MS = 700,    /* of load, before a step and after it */
    GAP_MS_MAX = 10000, /* without a write, where nobody is killed */
    SNAPSHOT_COUNT = 200,
    CATCH_UP_ENTRIES = 100,
    AWAY_REVISIONS = 1000, /* that a member misses which is to be left behind */
    CLIENTS = 24,
    PAUSE_MS = 20,
    USERS = 4,
    ROLES = 3,
    CHANGES = 16, /* of users and roles, in a step */
};

struct mixed {
    const struct mixed_options *o;
    struct mixed_result *result;
    struct fleet fleet;
    struct load load;
    struct arena arena;
    bool is_ours[MEMBERS];
    bool is_learner[MEMBERS];
    struct rng rng; /* what happens to users and roles */
    bool has_users;
    pid_t changes;     /* the process that changes them; 0: it has ended */
    const char *said;  /* by the last command */
    int64_t told;      /* the last revision that anybody was told, */
    uint64_t told_ms;  /* and when */
    uint64_t step_gap; /* the longest that nobody was told a new one, in this step */
};

static uint64_t now_ms(struct mixed *x)
{
    return caller_now_ns(&x->load.caller) / NS_PER_MS;
}

static bool problem(struct mixed *x, const char *what, const char *detail)
{
    record_fail(&x->load.record, "%s: %s", what, detail);
    return false;
}

/* In each turn: how long has nobody been told of a new revision? */
static void watch_gap(void *context)
{
    struct mixed *x = context;
    uint64_t now = now_ms(x);

    if (x->load.record.told != x->told || !x->load.is_on)
        x->told_ms = now;
    x->told = x->load.record.told;
    if (now - x->told_ms > x->step_gap)
        x->step_gap = now - x->told_ms;
}

/* --- commands --- */

static pid_t launch(const char *line)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    return pid;
}

/* The load goes on meanwhile. False if it has not succeeded, which may be a problem of the load. */
static bool run_line(struct mixed *x, const char *line)
{
    const char *path = arena_printf(&x->arena, "%s/said", x->fleet.dir);
    pid_t pid = launch(arena_printf(&x->arena, "{ %s; } >%s 2>&1", line, path));
    int status = -1;
    char text[600];
    bool goes_on = pid > 0;

    while (goes_on && waitpid(pid, &status, WNOHANG) == 0)
        goes_on = load_run_ms(&x->load, 5);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    x->said = arena_printf(&x->arena, "%.*s", (int)len, text);
    return goes_on && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *ctl_at(struct mixed *x, const char *endpoints)
{
    const char *certs =
        x->fleet.certs
            ? arena_printf(&x->arena, "--cacert %s/ca.pem --cert %s/cert.pem --key %s/key.pem",
                           x->fleet.certs, x->fleet.certs, x->fleet.certs)
            : "";

    return arena_printf(&x->arena,
                        "%sctl --command-timeout 10s --dial-timeout 5s --endpoints %s %s",
                        x->o->etcd, endpoints, certs);
}

/* etcdctl, with all members that run and vote as its endpoints. */
static const char *ctl_line(struct mixed *x, const char *arguments)
{
    const char *endpoints = "";

    for (unsigned i = 0; i < MEMBERS; i++) {
        const struct fleet_member *m = &x->fleet.members[i];
        if (m->pid > 0 && !m->is_stopping && !x->is_learner[i])
            endpoints = arena_printf(&x->arena, "%s%s127.0.0.1:%u", endpoints,
                                     endpoints[0] ? "," : "", m->client_port);
    }
    return arena_printf(&x->arena, "%s %s", ctl_at(x, endpoints), arguments);
}

/* Until it succeeds: a cluster that has just changed is not healthy enough to be changed again. */
static bool ctl(struct mixed *x, const char *arguments)
{
    uint64_t until = now_ms(x) + COMMAND_MS_MAX;

    while (!run_line(x, ctl_line(x, arguments))) {
        if (now_ms(x) > until)
            problem(x, arguments, x->said);
        if (!load_run_ms(&x->load, RETRY_MS))
            return false;
    }
    return true;
}

/* Of m1, m2, m3 as of now; NULL with a problem. */
static const char *id_of(struct mixed *x, unsigned member)
{
    const char *list = arena_printf(
        &x->arena, "member list 2>/dev/null | grep ', m%u, ' | cut -d, -f1 | grep .", member + 1);

    return ctl(x, list) ? x->said : NULL;
}

/* --- what happens to members --- */

static const char *kind_of(const struct mixed *x, unsigned member)
{
    return x->is_ours[member] ? "cleat" : "etcd";
}

static void set_kind(struct mixed *x, unsigned member, bool is_ours)
{
    x->is_ours[member] = is_ours;
    x->fleet.members[member].program = is_ours ? x->o->cleat : x->o->etcd;
}

/* How often it has been brought back by a snapshot: the words are etcd's, and ours. */
static unsigned snapshots_of(struct mixed *x, unsigned member)
{
    FILE *log = fopen(arena_printf(&x->arena, "%s/m%u.log", x->fleet.dir, member + 1), "re");
    char *line = NULL;
    size_t cap = 0;
    unsigned count = 0;

    while (log && getline(&line, &cap, log) >= 0)
        count += strstr(line, "received and saved database snapshot") != NULL;
    free(line);
    if (log)
        fclose(log);
    return count;
}

static void note_snapshot(struct mixed *x, unsigned leader, unsigned member, unsigned before)
{
    bool came = snapshots_of(x, member) > before;

    x->result->snapshots[x->is_ours[leader]][x->is_ours[member]] += came;
}

static bool await_end(struct mixed *x, unsigned member)
{
    uint64_t until = now_ms(x) + END_MS_MAX;

    while (x->fleet.members[member].pid > 0) {
        if (now_ms(x) > until)
            record_fail(&x->load.record, "m%u should have ended and has not, after %d ms",
                        member + 1, END_MS_MAX);
        if (!load_run_ms(&x->load, RETRY_MS / 10))
            return false;
    }
    return true;
}

static bool await_leader(struct mixed *x, int wanted, int *out)
{
    uint64_t until = now_ms(x) + SETTLE_MS_MAX;

    while ((*out = load_leader(&x->load)) < 0 || (wanted >= 0 && *out != wanted)) {
        if (now_ms(x) > until)
            return problem(x, "nobody leads", x->said ? x->said : "");
        if (!load_run_ms(&x->load, RETRY_MS / 10))
            return false;
    }
    return true;
}

static bool lead(struct mixed *x, unsigned member)
{
    int leader;

    if (!await_leader(x, -1, &leader))
        return false;
    if (leader == (int)member)
        return true;
    const char *id = id_of(x, member);
    return id && ctl(x, arena_printf(&x->arena, "move-leader %s", id)) &&
           await_leader(x, (int)member, &leader);
}

/* --- users and roles --- */

static bool set_up_users(struct mixed *x)
{
    static const char *const lines[] = {
        "user add root:pw", "user grant-role root root",
        "user add member --no-password", /* as the certificate says */
        "user grant-role member root", "auth enable"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (!ctl(x, lines[i]))
            return false;
    return run_line(x, arena_printf(&x->arena, "echo pw >%s/pw && echo other >%s/other",
                                    x->fleet.dir, x->fleet.dir));
}

/* Many of them fail, as there is no such user or role, or there is one. */
static const char *random_change(struct mixed *x)
{
    static const char *const ranges[] = {"r/", "r/ --prefix=true", "r/ r/3", "a",
                                         "a --from-key=true"};
    static const char *const types[] = {"read", "write", "readwrite"};
    unsigned user = (unsigned)rng_below(&x->rng, USERS);
    unsigned role = (unsigned)rng_below(&x->rng, ROLES);
    const char *range = ranges[rng_below(&x->rng, sizeof(ranges) / sizeof(ranges[0]))];
    const char *type = types[rng_below(&x->rng, sizeof(types) / sizeof(types[0]))];
    struct arena *arena = &x->arena;

    switch (rng_below(&x->rng, 14)) {
    case 0:
    case 1:
        return arena_printf(arena, "user add u%u:pw", user);
    case 2:
        return arena_printf(arena, "user delete u%u", user);
    case 3:
    case 12:
    case 13:
        return arena_printf(arena, "role add r%u", role);
    case 4:
        return arena_printf(arena, "role delete r%u", role);
    case 5:
    case 6:
        return arena_printf(arena, "user grant-role u%u r%u", user, role);
    case 7:
        return arena_printf(arena, "user revoke-role u%u r%u", user, role);
    case 8:
        return arena_printf(arena, "role revoke-permission r%u %s", role, range);
    case 9:
        return arena_printf(arena, "user passwd u%u --interactive=false <%s/%s", user, x->fleet.dir,
                            rng_chance(&x->rng, 1, 2) ? "pw" : "other");
    default:
        return arena_printf(arena, "role grant-permission r%u %s %s", role, type, range);
    }
}

/* Whoever is asked then may be gone: not all of them are made. */
static bool start_changes(struct mixed *x)
{
    struct buf lines = {0};
    unsigned off = (unsigned)rng_below(&x->rng, CHANGES);

    for (unsigned i = 0; i < CHANGES; i++) {
        if (i == off || i == off + 2)
            buf_printf(&lines, "%s;", ctl_line(x, i == off ? "auth disable" : "auth enable"));
        buf_printf(&lines, "%s;", ctl_line(x, random_change(x)));
    }
    x->changes = launch(arena_printf(&x->arena, "{ %s } >>%s/changes.log 2>&1; true",
                                     buf_str(&lines), x->fleet.dir));
    buf_free(&lines);
    return x->changes > 0 || problem(x, "no process could be had", "");
}

static bool end_changes(struct mixed *x)
{
    while (x->changes > 0 && waitpid(x->changes, NULL, WNOHANG) == 0)
        if (!load_run_ms(&x->load, RETRY_MS / 10))
            return false;
    x->changes = 0;
    return ctl(x, "auth enable");
}

/* What one member says of all of it, in lines without anything that is its own. */
static const char *questions_to(struct mixed *x, unsigned member)
{
    struct buf lines = {0};
    const char *to =
        ctl_at(x, arena_printf(&x->arena, "127.0.0.1:%u", x->fleet.members[member].client_port));

    buf_printf(&lines, "%s auth status; %s user list; %s role list;", to, to, to);
    for (unsigned i = 0; i < ROLES; i++)
        buf_printf(&lines, "%s role get r%u;", to, i);
    for (unsigned i = 0; i < USERS; i++) {
        buf_printf(&lines, "%s user get u%u;", to, i);
        buf_printf(&lines, "%s --user u%u:pw get r/1 --print-value-only;", to, i);
        buf_printf(&lines, "%s --user u%u:other get a b --keys-only;", to, i);
        buf_printf(&lines, "%s --user u%u:pw del r/none r/nonf --range;", to, i);
    }
    const char *line = arena_printf(&x->arena, "{ %s } 2>&1 | grep -v '\"level\"' >%s/auth.%u",
                                    buf_str(&lines), x->fleet.dir, member + 1);
    buf_free(&lines);
    return line;
}

static bool compare_users(struct mixed *x)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        if (!run_line(x, questions_to(x, i)))
            return problem(x, "nobody says who may do what", x->said);
    for (unsigned i = 1; i < MEMBERS; i++)
        if (!run_line(x, arena_printf(&x->arena, "diff %s/auth.1 %s/auth.%u", x->fleet.dir,
                                      x->fleet.dir, i + 1)))
            return problem(x, "members differ in who may do what", x->said);
    const char *revision =
        arena_printf(&x->arena, "sed -n 's/^AuthRevision: //p' %s/auth.1 | grep .", x->fleet.dir);
    if (!run_line(x, revision))
        return problem(x, "the auth revision is not told", x->said);
    x->result->auth_revision = strtoull(x->said, NULL, 10);
    return true;
}

/* --- steps --- */

static bool settle(struct mixed *x)
{
    uint64_t began = now_ms(x);
    bool ok = load_settle(&x->load, SETTLE_MS_MAX) && load_compare_stores(&x->load) &&
              record_judge(&x->load.record);
    uint64_t took = now_ms(x) - began;

    if (took > x->result->settle_ms_max)
        x->result->settle_ms_max = took;
    return ok;
}

static bool begin_step(struct mixed *x)
{
    x->load.is_on = true;
    x->told_ms = now_ms(x);
    x->step_gap = 0;
    if (x->has_users && !start_changes(x))
        return false;
    return load_run_ms(&x->load, BEFORE_MS);
}

/* All is well, and the line about it. */
static bool end_step(struct mixed *x, bool ok, const char *what)
{
    unsigned failed = x->load.failed, hashes = x->load.hashes;

    ok = ok && load_run_ms(&x->load, BEFORE_MS) && (!x->has_users || end_changes(x)) && settle(x) &&
         (!x->has_users || compare_users(x));
    if (x->step_gap > x->result->gap_ms_max)
        x->result->gap_ms_max = x->step_gap;
    if (ok && x->o->plan != MIXED_TOGETHER && x->step_gap > GAP_MS_MAX) {
        record_fail(&x->load.record, "nobody could write for %" PRIu64 " ms", x->step_gap);
        ok = false;
    }
    x->result->steps += ok;
    printf("%s: revision %" PRId64 ", compacted at %" PRId64 ", %u calls succeeded, %u failed, no "
           "write for %" PRIu64 " ms%s%s\n",
           what, x->load.record.told, x->load.compacted, x->load.succeeded, failed, x->step_gap,
           x->load.hashes > hashes ? ", same hash" : "", ok ? "" : ": PROBLEM");
    arena_reset(&x->arena);
    return ok && !(x->o->is_unwanted && *x->o->is_unwanted);
}

/* The kinds are those of now: a step may change them. */
static bool step_lead(struct mixed *x, unsigned member)
{
    bool ok = begin_step(x) && lead(x, member);

    return end_step(x, ok,
                    arena_printf(&x->arena, "m%u (%s) leads", member + 1, kind_of(x, member)));
}

static bool step_leave_behind(struct mixed *x, unsigned leader, unsigned member)
{
    unsigned before = snapshots_of(x, member);
    bool ok = begin_step(x) && lead(x, leader);
    int64_t until = x->load.record.told + AWAY_REVISIONS;

    fleet_kill(&x->fleet, member);
    while (ok && x->load.record.told < until)
        ok = load_run_ms(&x->load, RETRY_MS);
    ok = ok && fleet_start(&x->fleet, member) && load_run_ms(&x->load, BEFORE_MS);
    ok = end_step(x, ok,
                  arena_printf(&x->arena, "m%u (%s) was killed and left behind by m%u (%s)",
                               member + 1, kind_of(x, member), leader + 1, kind_of(x, leader)));
    note_snapshot(x, leader, member, before);
    return ok;
}

static bool step_kill(struct mixed *x, unsigned leader)
{
    bool ok = begin_step(x) && lead(x, leader);

    fleet_kill(&x->fleet, leader);
    ok = ok && load_run_ms(&x->load, 3 * ELECTION_MS) && fleet_start(&x->fleet, leader);
    return end_step(x, ok,
                    arena_printf(&x->arena, "m%u (%s) was killed as the leader", leader + 1,
                                 kind_of(x, leader)));
}

static bool remove_member(struct mixed *x, unsigned member)
{
    const char *id = id_of(x, member);

    if (!id)
        return false;
    fleet_let_end(&x->fleet, member);
    if (!ctl(x, arena_printf(&x->arena, "member remove %s", id)) || !await_end(x, member))
        return false;
    fleet_forget(&x->fleet, member);
    return true;
}

/* As a learner first, or as a voter from the beginning. */
static bool add_member(struct mixed *x, unsigned member, bool is_learner)
{
    struct fleet_member *m = &x->fleet.members[member];
    const char *add = arena_printf(&x->arena, "member add m%u --peer-urls %s://127.0.0.1:%u%s",
                                   member + 1, x->fleet.certs ? "https" : "http",
                                   m->advertised_port, is_learner ? " --learner" : "");

    m->joins = true;
    x->is_learner[member] = is_learner;
    if (!ctl(x, add) || !fleet_start(&x->fleet, member))
        return false;
    if (!is_learner)
        return true;
    const char *id = id_of(x, member); /* it has a name once it has started */
    bool ok = id && ctl(x, arena_printf(&x->arena, "member promote %s", id));
    x->is_learner[member] = false;
    return ok;
}

/* To whoever is next, if it leads. */
static bool hand_over(struct mixed *x, unsigned member, int *leader)
{
    if (!await_leader(x, -1, leader))
        return false;
    if (*leader != (int)member)
        return true;
    *leader = (int)((member + 1) % MEMBERS);
    return lead(x, (unsigned)*leader);
}

static bool step_replace(struct mixed *x, unsigned member, bool is_ours, bool is_learner)
{
    const char *old = kind_of(x, member);
    unsigned before = snapshots_of(x, member);
    int leader = 0;
    bool ok = begin_step(x) && hand_over(x, member, &leader) && remove_member(x, member);

    set_kind(x, member, is_ours);
    ok = ok && add_member(x, member, is_learner);
    ok = end_step(x, ok,
                  arena_printf(&x->arena, "m%u (%s) was removed, and one of %s's added%s",
                               member + 1, old, kind_of(x, member),
                               is_learner ? " and promoted" : ""));
    note_snapshot(x, (unsigned)leader, member, before);
    return ok;
}

static bool step_take_over(struct mixed *x, unsigned member, bool is_ours)
{
    bool ok = begin_step(x);

    fleet_stop(&x->fleet, member);
    ok = ok && await_end(x, member);
    if (ok && x->is_ours[member] && !is_ours)
        ok = run_line(x, arena_printf(&x->arena, "%sutl export %s/m%u", x->o->cleat, x->fleet.dir,
                                      member + 1)) ||
             problem(x, "cleatutl export", x->said);
    set_kind(x, member, is_ours);
    ok = ok && fleet_start(&x->fleet, member);
    return end_step(x, ok,
                    arena_printf(&x->arena, "m%u goes on as %s on its directory", member + 1,
                                 kind_of(x, member)));
}

/* --- plans --- */

/* The other kind first: etcd keeps its log for half a minute after it has sent a snapshot, and the
 * next to come back may need none. */
static bool leave_behind_all(struct mixed *x, unsigned leader)
{
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < MEMBERS; i++) {
            bool is_alike = x->is_ours[i] == x->is_ours[leader];
            if (i != leader && is_alike == (pass == 1) && !step_leave_behind(x, leader, i))
                return false;
        }
    return true;
}

/*
 * Each by a new one of its kind. When the last of etcd's members goes, the cluster may become one
 * of our version at once, which an older etcd cannot join; so then a second one comes first, in the
 * place of one of ours, for as long as that takes.
 */
static bool replace_all(struct mixed *x)
{
    bool needs_second = x->o->ours == MEMBERS - 1;

    if (needs_second && !step_replace(x, 0, false, false))
        return false;
    for (unsigned i = 1; i < MEMBERS; i++)
        if (!step_replace(x, i, x->is_ours[i], i % 2 == 0))
            return false;
    return step_replace(x, 0, true, true);
}

/* Each of ours to etcd and back, on its directory. */
static bool change_directories(struct mixed *x)
{
    for (unsigned i = 0; i < x->o->ours; i++)
        if (!step_take_over(x, i, false) || !step_take_over(x, i, true))
            return false;
    return true;
}

static void run_together(struct mixed *x)
{
    for (unsigned leader = 0; leader < MEMBERS; leader++)
        if (!step_lead(x, leader) || !leave_behind_all(x, leader) || !step_kill(x, leader))
            return;
    if (!change_directories(x) || !replace_all(x))
        return;
    if (x->result->snapshots[0][1] == 0 || x->result->snapshots[1][0] == 0)
        problem(x, "snapshots did not go both ways", "nobody was left behind far enough");
}

/* The version of etcd, if it is before ours: "3.6". */
static const char *earlier_version(struct mixed *x)
{
    const char *line = arena_printf(
        &x->arena, "%s --version | sed -n 's/^etcd Version: \\([0-9]*\\.[0-9]*\\).*/\\1/p'",
        x->o->etcd);

    if (!run_line(x, line) || !x->said[0]) {
        problem(x, "etcd does not say its version", x->said);
        return NULL;
    }
    return strcmp(x->said, OUR_VERSION) == 0 ? NULL : x->said;
}

/* All members have lowered their stores' version: the other program may start on any of them. */
static bool step_downgrade(struct mixed *x, const char *version)
{
    const char *enable = arena_printf(&x->arena, "downgrade enable %s", version);
    const char *lowered = arena_printf(&x->arena,
                                       "endpoint status -w json | grep -o "
                                       "'\"storageVersion\":\"%s.0\"' | wc -l | grep -qx %d",
                                       version, MEMBERS);
    bool ok = begin_step(x) && ctl(x, enable) && ctl(x, lowered);

    return end_step(x, ok, arena_printf(&x->arena, "a downgrade to %s is enabled", version));
}

static bool replace_each(struct mixed *x, bool is_ours, bool by_new_members)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        bool ok = by_new_members ? step_replace(x, i, is_ours, i % 2 == 0)
                                 : step_take_over(x, i, is_ours);
        if (!ok || !step_lead(x, i))
            return false;
    }
    return true;
}

static void run_replacement(struct mixed *x)
{
    bool by_new_members = x->o->plan == MIXED_MEMBERS;

    if (!replace_each(x, true, by_new_members))
        return;
    const char *version = earlier_version(x);
    if (load_problem(&x->load)[0] || (version && !step_downgrade(x, version)))
        return;
    (void)replace_each(x, false, by_new_members && !version);
}

static void run_all(struct mixed *x)
{
    unsigned ours = x->o->plan == MIXED_TOGETHER ? x->o->ours : 0;
    bool ok = true;

    x->load.on_turn = watch_gap;
    x->load.context = x;
    for (unsigned i = 0; ok && i < MEMBERS; i++) {
        set_kind(x, i, i < ours);
        ok = fleet_start(&x->fleet, i);
    }
    ok = ok && end_step(x, begin_step(x), "the cluster has formed");
    if (ok && x->o->is_guarded) {
        x->has_users = true;
        ok = set_up_users(x) && end_step(x, begin_step(x), "it has users");
    }
    if (ok && x->o->plan == MIXED_TOGETHER)
        run_together(x);
    else if (ok)
        run_replacement(x);
}

static void note_result(struct mixed *x)
{
    struct mixed_result *r = x->result;

    r->hashes = x->load.hashes;
    r->operations = x->load.succeeded;
    r->failed = x->load.failed;
    r->revision = x->load.record.told;
    r->compacted = x->load.compacted;
    snprintf(r->problem, sizeof(r->problem), "%s", load_problem(&x->load));
}

bool mixed_run(const struct mixed_options *options, struct mixed_result *out)
{
    struct mixed x = {.o = options, .result = out};
    struct fleet_options fleet = {.program = options->cleat,
                                  .other = options->etcd,
                                  .dir = options->dir,
                                  .count = MEMBERS,
                                  .election_ms = ELECTION_MS,
                                  .is_by_tls = options->is_by_tls || options->is_guarded};

    *out = (struct mixed_result){0};
    out->is_skipped = access(options->etcd, X_OK) != 0;
    if (out->is_skipped)
        return true;
    rng_seed(&x.rng, options->seed);
    fleet.flags =
        arena_printf(&x.arena, "--snapshot-count %d --snapshot-catchup-entries %d --bcrypt-cost 4",
                     SNAPSHOT_COUNT, CATCH_UP_ENTRIES);
    struct load_options load = {
        .fleet = &x.fleet, .seed = options->seed, .clients = CLIENTS, .pause_ms_max = PAUSE_MS};
    if (!fleet_open(&x.fleet, &fleet))
        snprintf(out->problem, sizeof(out->problem), "%s", x.fleet.problem);
    else if (load_open(&x.load, &load) != ERR_OK)
        snprintf(out->problem, sizeof(out->problem), "no loop could be had");
    else {
        run_all(&x);
        note_result(&x);
        load_close(&x.load);
    }
    fleet_close(&x.fleet);
    arena_free(&x.arena);
    return !out->problem[0];
}
