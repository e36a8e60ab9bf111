#include "cluster/siege.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/mem.h"
#include "cluster/caller_tls.h"
#include "cluster/fleet.h"
#include "cluster/probe.h"
#include "io/clock.h"
#include "pb/etcd_messages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CERTS_CN "member" /* in the certificate that all have (scripts/certs) */

#define CLIENT_LEASE 77

enum {
    MEMBERS = 3,
    CALL_MS = 20, /* from one to the next */
    CALL_TIMEOUT_MS = 10000,
    LEASE_TTL_S = 5,
    LEASE_MS = 1000, /* from one renewal to the next */
    PROBE_MS = 200,
    PROBE_TIMEOUT_MS = 1000,
    KILL_MS = 10000,
    READY_PROBE_MS = 20,
    READY_MS_MAX = 60000, /* then it is given up */
    MEMORY_MS = 100,
    COMPACT_MS = 5000,
    KEPT_REVISIONS = 1000,
    FILLERS = 50,
    VALUE_BYTES = 256,
};

static const char *const probed[] = {"/livez", "/health", "/metrics"};
enum { PROBES = ARRAY_LEN(probed) };

struct siege {
    struct siege_options o;
    struct siege_result *r;
    struct siege_phase *phase;
    struct arena arena;
    struct fleet fleet;
    struct caller caller;
    struct tls *tls;
    struct attackers attackers;
    unsigned leader; /* the member that is besieged */
    struct line *lines[MEMBERS];

    struct ask call, watch, lease, compaction;
    uint64_t call_ns, lease_ns; /* when the next one is due */
    unsigned calls;
    struct buf took[SIEGE_TIMES]; /* in the phase: uint64_t */
    uint64_t term, cluster_id;
    int64_t revision, compacted;
    bool has_lease;

    struct probe probes[PROBES], readyz;
    uint64_t probe_ns[PROBES], readyz_ns, kill_ns, started_ns, memory_ns, compact_ns;
    long log_at;       /* how much of its log was counted */
    unsigned killed;   /* the member that is killed and started */
    unsigned follower; /* the third one */
    bool is_joining;
};

static bool has_problem(const struct siege *s)
{
    return s->r->problem[0] != 0;
}

__attribute__((format(printf, 2, 3))) static void problem(struct siege *s, const char *format, ...)
{
    va_list args;

    if (has_problem(s))
        return;
    va_start(args, format);
    vsnprintf(s->r->problem, sizeof(s->r->problem), format, args);
    va_end(args);
}

static uint64_t now_ns(struct siege *s)
{
    return caller_now_ns(&s->caller);
}

static bool goes_on(struct siege *s)
{
    if (!fleet_look(&s->fleet))
        problem(s, "%s", s->fleet.problem);
    if (s->o.is_unwanted && *s->o.is_unwanted)
        problem(s, "ended by a signal");
    return !has_problem(s);
}

static bool is_due(struct siege *s, uint64_t *when_ns, unsigned each_ms)
{
    if (now_ns(s) < *when_ns)
        return false;
    *when_ns = now_ns(s) + each_ms * NS_PER_MS;
    return true;
}

/* --- the cluster --- */

/* Its answer; false if it gives none within seconds. */
static bool ask_status(struct siege *s, unsigned member, struct pb_status_response *out,
                       struct arena *arena)
{
    struct ask status = {.line = s->lines[member], .timeout_ns = 2 * NS_PER_S};

    ask_start(&status, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
              &(struct pb_empty){0});
    while (!ask_is_over(&status) && !status.line->is_gone && goes_on(s))
        caller_turn(&s->caller, 10);
    bool is_good = ask_is_over(&status) && status.code == RPC_OK &&
                   pb_decode(&pb_status_response_schema,
                             arena_copy(arena, buf_bytes(&status.answer)), arena, out) == ERR_OK;
    ask_free(&status);
    return is_good;
}

static void await_leader(struct siege *s)
{
    uint64_t until_ns = now_ns(s) + READY_MS_MAX * NS_PER_MS;
    struct arena arena = {0};

    for (unsigned i = 0; goes_on(s); i = (i + 1) % MEMBERS) {
        struct pb_status_response status;
        if (s->lines[i]->is_gone)
            line_reconnect(s->lines[i], &s->fleet.members[i].address);
        if (ask_status(s, i, &status, &arena) && status.leader != 0 &&
            status.leader == status.header->member_id) {
            s->leader = i;
            s->term = status.raft_term;
            s->cluster_id = status.header->cluster_id;
            break;
        }
        caller_for_ms(&s->caller, 50);
        if (now_ns(s) > until_ns)
            problem(s, "nobody leads");
    }
    arena_free(&arena);
}

static void fill_one(struct siege *s, struct ask *a, unsigned i)
{
    static char key[SIEGE_KEY_BYTES];
    static const uint8_t value[VALUE_BYTES];

    if (i < SIEGE_LEASES) {
        ask_start(a, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                  &(struct pb_lease_grant_request){.id = SIEGE_LEASE + i, .ttl = 86400});
        return;
    }
    memset(key, 'k', sizeof(key));
    memcpy(key, SIEGE_PREFIX, sizeof(SIEGE_PREFIX) - 1);
    char digits[16];
    snprintf(digits, sizeof(digits), "%08u", i);
    memcpy(key + sizeof(SIEGE_PREFIX) - 1, digits, 8);
    ask_start(a, "/etcdserverpb.KV/Put", &pb_put_request_schema,
              &(struct pb_put_request){.key = bytes_of(key, sizeof(key)),
                                       .value = bytes_of(value, sizeof(value)),
                                       .lease = SIEGE_LEASE});
    (void)s;
}

/* What the attackers will ask for: leases, and keys of one of them. */
static void fill(struct siege *s)
{
    struct ask asks[FILLERS] = {0};
    unsigned next = 0, under_way = 0;

    for (unsigned i = 0; i < FILLERS; i++)
        asks[i].line = s->lines[s->leader];
    while ((next < SIEGE_LEASES + SIEGE_KEYS || under_way > 0) && goes_on(s)) {
        under_way = 0;
        for (unsigned i = 0; i < FILLERS; i++) {
            bool is_free = ask_is_over(&asks[i]);
            if (is_free && asks[i].code != RPC_OK)
                problem(s, "filling the store: error %d, %s", asks[i].code, buf_str(&asks[i].text));
            /* the lease is granted before its keys are put */
            bool may = next < SIEGE_LEASES + SIEGE_KEYS && (next > 0 || i == 0) &&
                       (next != 1 || (ask_is_over(&asks[0]) && asks[0].took_ns > 0));
            if (is_free && may)
                fill_one(s, &asks[i], next++);
            under_way += !ask_is_over(&asks[i]);
        }
        caller_turn(&s->caller, 10);
    }
    for (unsigned i = 0; i < FILLERS; i++)
        ask_free(&asks[i]);
}

static void ask_once(struct siege *s, const char *path, const struct pb_schema *schema,
                     const void *request)
{
    struct ask a = {.line = s->lines[s->leader], .timeout_ns = CALL_TIMEOUT_MS * NS_PER_MS};

    if (has_problem(s))
        return;
    ask_start(&a, path, schema, request);
    while (!ask_is_over(&a) && goes_on(s))
        caller_turn(&s->caller, 10);
    if (a.code != RPC_OK)
        problem(s, "%s: error %d, %s", path, a.code, buf_str(&a.text));
    ask_free(&a);
}

/* Its hash says that it takes sixty thousand times what the cheapest does. */
static void add_costly_user(struct siege *s)
{
    static const char hash[] = "$2a$18$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde";
    struct pb_auth_user_add_request add = {.name = BYTES(SIEGE_COSTLY_USER),
                                           .password = BYTES("secret")};
    struct pb_auth_user_change_password_request change = {.name = add.name};
    struct buf text = {0};

    base64_encode(BASE64_PADDED, bytes_of_str(hash), &text);
    change.hashed_password = buf_bytes(&text);
    ask_once(s, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema, &add);
    ask_once(s, "/etcdserverpb.Auth/UserChangePassword",
             &pb_auth_user_change_password_request_schema, &change);
    buf_free(&text);
}

/* Root has a password, for those who guess it. */
static void enable_auth(struct siege *s)
{
    static const char *const users[] = {"root", CERTS_CN};
    const struct pb_user_add_options no_password = {.no_password = true};

    for (unsigned i = 0; i < ARRAY_LEN(users); i++) {
        struct bytes name = bytes_of_str(users[i]);
        struct pb_auth_user_add_request add = {.name = name, .options = &no_password};
        if (i == 0)
            add = (struct pb_auth_user_add_request){.name = name, .password = BYTES("secret")};
        ask_once(s, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema, &add);
        ask_once(s, "/etcdserverpb.Auth/UserGrantRole", &pb_auth_user_grant_role_request_schema,
                 &(struct pb_auth_user_grant_role_request){.user = name, .role = BYTES("root")});
    }
    add_costly_user(s);
    ask_once(s, "/etcdserverpb.Auth/AuthEnable", &pb_auth_enable_request_schema,
             &(struct pb_empty){0});
}

/* --- the client --- */

static void note_time(struct siege *s, enum siege_time which, uint64_t ns)
{
    buf_append(&s->took[which], bytes_of(&ns, sizeof(ns)));
}

static void note_call(struct siege *s)
{
    struct arena arena = {0};
    struct pb_put_response put;
    struct ask *a = &s->call;

    note_time(s, s->calls % 2 == 1 ? SIEGE_PUT : SIEGE_GET, a->took_ns);
    if (a->code != RPC_OK) {
        s->phase->failed_calls++;
        if (s->o.verbose)
            printf("a call failed: %d, %s\n", a->code, buf_str(&a->text));
        return;
    }
    /* A get's response begins with the same two fields. */
    if (pb_decode(&pb_put_response_schema, buf_bytes(&a->answer), &arena, &put) == ERR_OK &&
        put.header) {
        s->phase->terms += put.header->raft_term != s->term;
        s->term = put.header->raft_term;
        s->revision = put.header->revision > s->revision ? put.header->revision : s->revision;
    }
    arena_free(&arena);
}

static void call_is_over(struct ask *a)
{
    note_call(a->context);
}

/* A value begins with when it was put. */
static void put_now(struct siege *s, const char *key)
{
    uint64_t now = now_ns(s);
    uint8_t value[VALUE_BYTES] = {0};

    memcpy(value, &now, sizeof(now));
    ask_start(
        &s->call, "/etcdserverpb.KV/Put", &pb_put_request_schema,
        &(struct pb_put_request){.key = bytes_of_str(key), .value = bytes_of(value, VALUE_BYTES)});
}

static void call_some(struct siege *s)
{
    char key[32];

    if (s->call.line->is_gone) {
        if (!ask_is_over(&s->call)) {
            ask_cancel(&s->call);
            s->call.code = RPC_UNAVAILABLE;
            s->call.took_ns = now_ns(s) - s->call.began_ns;
            note_call(s);
        }
        line_reconnect(s->call.line, &s->fleet.members[s->leader].address);
    }
    if (!ask_is_over(&s->call) || !is_due(s, &s->call_ns, CALL_MS))
        return;
    snprintf(key, sizeof(key), "client/%u", s->calls / 2 % 100);
    if (s->calls++ % 2 == 0)
        put_now(s, key);
    else
        ask_start(&s->call, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                  &(struct pb_range_request){.key = bytes_of_str(key)});
}

static void events_came(struct ask *a, struct bytes message)
{
    struct siege *s = a->context;
    struct arena arena = {0};
    struct pb_watch_response response;

    bool is_read = pb_decode(&pb_watch_response_schema, message, &arena, &response) == ERR_OK;
    for (size_t i = 0; is_read && i < response.events.count; i++) {
        const struct pb_key_value *kv = response.events.at[i].kv;
        uint64_t then;
        if (!kv || kv->value.len != VALUE_BYTES)
            continue;
        memcpy(&then, kv->value.at, sizeof(then));
        note_time(s, SIEGE_WATCH, now_ns(s) - then);
    }
    arena_free(&arena);
}

static void begin_watch(struct siege *s)
{
    struct pb_watch_create_request create = {.key = BYTES("client/"),
                                             .range_end = BYTES("client0")};

    ask_stream(&s->watch, "/etcdserverpb.Watch/Watch");
    ask_say(&s->watch, &pb_watch_request_schema,
            &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
}

/* Its connection is cut, or it was ended. */
static bool is_lost(struct ask *a)
{
    return a->line->is_gone || ask_is_over(a);
}

static void reconnect(struct siege *s, struct ask *a, unsigned member)
{
    if (!ask_is_over(a))
        ask_cancel(a);
    line_reconnect(a->line, &s->fleet.members[member].address);
}

static void look_at_watch(struct siege *s)
{
    if (!is_lost(&s->watch))
        return;
    s->phase->lost_watches++;
    reconnect(s, &s->watch, s->leader);
    begin_watch(s);
}

static void lease_lives(struct ask *a, struct bytes message)
{
    struct siege *s = a->context;
    struct arena arena = {0};
    struct pb_lease_keep_alive_response response;

    bool is_read =
        pb_decode(&pb_lease_keep_alive_response_schema, message, &arena, &response) == ERR_OK;
    if (is_read && response.ttl == 0 && s->has_lease) {
        s->phase->lost_leases++;
        s->has_lease = false;
    }
    arena_free(&arena);
}

static void renew(struct siege *s)
{
    if (!is_due(s, &s->lease_ns, LEASE_MS))
        return;
    if (is_lost(&s->lease)) {
        reconnect(s, &s->lease, s->follower);
        ask_stream(&s->lease, "/etcdserverpb.Lease/LeaseKeepAlive");
    }
    ask_say(&s->lease, &pb_lease_keep_alive_request_schema,
            &(struct pb_lease_id){.id = CLIENT_LEASE});
}

static void open_client(struct siege *s)
{
    const struct net_address *address = &s->fleet.members[s->leader].address;

    s->call = (struct ask){.line = caller_connect_to(&s->caller, address),
                           .on_over = call_is_over,
                           .context = s,
                           .timeout_ns = CALL_TIMEOUT_MS * NS_PER_MS};
    s->compaction = (struct ask){.line = s->lines[s->leader]};
    s->watch = (struct ask){
        .line = caller_connect_to(&s->caller, address), .on_message = events_came, .context = s};
    begin_watch(s);
    ask_once(s, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
             &(struct pb_lease_grant_request){.id = CLIENT_LEASE, .ttl = LEASE_TTL_S});
    s->has_lease = true;
    s->lease =
        (struct ask){.line = caller_connect_to(&s->caller, &s->fleet.members[s->follower].address),
                     .on_message = lease_lives,
                     .context = s};
    ask_stream(&s->lease, "/etcdserverpb.Lease/LeaseKeepAlive");
}

static void close_client(struct siege *s)
{
    ask_free(&s->call);
    ask_free(&s->watch);
    ask_free(&s->lease);
    ask_free(&s->compaction);
}

/* So that what is put stays as large as it is. */
static void compact(struct siege *s)
{
    int64_t at = s->revision - KEPT_REVISIONS;

    if (!is_due(s, &s->compact_ns, COMPACT_MS) || at <= s->compacted ||
        !ask_is_over(&s->compaction) || s->compaction.line->is_gone)
        return;
    s->compacted = at;
    ask_start(&s->compaction, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
              &(struct pb_compaction_request){.revision = at});
}

/* --- the kubelet --- */

static void look_at_probe(struct siege *s, unsigned which)
{
    struct probe *p = &s->probes[which];
    bool was_under_way = probe_is_under_way(p);
    enum probe_state state = probe_look(p, now_ns(s));

    if (was_under_way && !probe_is_under_way(p)) {
        double ms = (double)(now_ns(s) - p->began_ns) / 1e6;
        s->phase->probes++;
        s->phase->failed_probes += state == PROBE_BAD;
        s->phase->slowest_probe_ms =
            ms > s->phase->slowest_probe_ms ? ms : s->phase->slowest_probe_ms;
        if (state == PROBE_BAD && s->o.verbose)
            printf("%s failed after %.0f ms: %.60s\n", p->path, ms, p->answer);
    }
    if (!probe_is_under_way(p) && is_due(s, &s->probe_ns[which], PROBE_MS))
        probe_begin(p, s->fleet.members[s->leader].metrics_port, probed[which], now_ns(s),
                    PROBE_TIMEOUT_MS * NS_PER_MS);
}

/* --- the member that comes and goes --- */

static void restart(struct siege *s)
{
    fleet_kill(&s->fleet, s->killed);
    s->started_ns = now_ns(s);
    s->is_joining = fleet_start(&s->fleet, s->killed);
    if (!s->is_joining)
        problem(s, "%s", s->fleet.problem);
}

static void note_rejoin(struct siege *s)
{
    double ms = (double)(now_ns(s) - s->started_ns) / 1e6;

    s->is_joining = false;
    s->phase->rejoins++;
    s->phase->slowest_rejoin_ms =
        ms > s->phase->slowest_rejoin_ms ? ms : s->phase->slowest_rejoin_ms;
    s->kill_ns = now_ns(s) + s->o.kill_each_ms * NS_PER_MS;
}

static void look_at_member(struct siege *s)
{
    if (!s->is_joining && is_due(s, &s->kill_ns, s->o.kill_each_ms))
        restart(s);
    if (!s->is_joining)
        return;
    if (probe_look(&s->readyz, now_ns(s)) == PROBE_GOOD) {
        s->readyz.state = PROBE_IDLE;
        note_rejoin(s);
    } else if (now_ns(s) - s->started_ns > READY_MS_MAX * NS_PER_MS) {
        probe_end(&s->readyz);
        note_rejoin(s); /* and the time tells */
    } else if (!probe_is_under_way(&s->readyz) && is_due(s, &s->readyz_ns, READY_PROBE_MS)) {
        probe_begin(&s->readyz, s->fleet.members[s->killed].metrics_port, "/readyz", now_ns(s),
                    5 * NS_PER_S);
    }
}

/* --- phases --- */

static void look_at_memory(struct siege *s)
{
    if (!is_due(s, &s->memory_ns, MEMORY_MS))
        return;
    uint64_t anonymous = fleet_anonymous_bytes(&s->fleet, s->leader);
    uint64_t resident = fleet_resident_bytes(&s->fleet, s->leader);
    if (anonymous > s->phase->anonymous_bytes)
        s->phase->anonymous_bytes = anonymous;
    if (resident > s->phase->resident_bytes)
        s->phase->resident_bytes = resident;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void judge_times(struct buf *took, struct siege_times *out)
{
    uint64_t *times = (uint64_t *)(void *)took->at;
    size_t count = took->len / sizeof(*times);

    if (count == 0)
        return;
    qsort(times, count, sizeof(*times), compare_times);
    size_t middle = count / 2, nearly_last = (count * 99 + 99) / 100 - 1;
    *out = (struct siege_times){.count = (unsigned)count,
                                .p50_ms = (double)times[middle] / 1e6,
                                .p99_ms = (double)times[nearly_last] / 1e6,
                                .slowest_ms = (double)times[count - 1] / 1e6};
    buf_clear(took);
}

static void run_phase(struct siege *s, struct siege_phase *phase, unsigned seconds)
{
    uint64_t began_ns = now_ns(s), until_ns = began_ns + seconds * NS_PER_S;
    double cpu_s = fleet_cpu_s(&s->fleet, s->leader);

    s->phase = phase;
    (void)fleet_said(&s->fleet, s->leader, "", &s->log_at);
    /* What has begun in a phase is counted there, so its last calls and start are waited for. */
    while ((now_ns(s) < until_ns || s->is_joining || !ask_is_over(&s->call)) && goes_on(s)) {
        if (now_ns(s) < until_ns || !ask_is_over(&s->call))
            call_some(s);
        look_at_watch(s);
        renew(s);
        for (unsigned i = 0; i < PROBES; i++)
            look_at_probe(s, i);
        if (now_ns(s) < until_ns || s->is_joining)
            look_at_member(s);
        look_at_memory(s);
        compact(s);
        caller_turn(&s->caller, 2);
    }
    for (unsigned i = 0; i < SIEGE_TIMES; i++)
        judge_times(&s->took[i], &phase->times[i]);
    phase->s = (double)(now_ns(s) - began_ns) / 1e9;
    phase->cpu_s = fleet_cpu_s(&s->fleet, s->leader) - cpu_s;
    phase->log_lines = fleet_said(&s->fleet, s->leader, "", &s->log_at);
}

static void run(struct siege *s)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        if (!fleet_start(&s->fleet, i))
            problem(s, "%s", s->fleet.problem);
    for (unsigned i = 0; i < MEMBERS; i++)
        s->lines[i] = caller_connect_to(&s->caller, &s->fleet.members[i].address);
    await_leader(s);
    if (has_problem(s))
        return;
    fill(s);
    if (s->o.has_auth)
        enable_auth(s);
    const struct fleet_member *besieged = &s->fleet.members[s->leader];
    s->killed = (s->leader + 1) % MEMBERS;
    s->follower = (s->leader + 2) % MEMBERS;
    s->kill_ns = now_ns(s) + s->o.kill_each_ms * NS_PER_MS / 4;
    open_client(s);
    run_phase(s, &s->r->quiet, s->o.quiet_s);
    if (s->o.verbose && !has_problem(s))
        printf("quiet for %u seconds; m%u leads, and is besieged from now on\n", s->o.quiet_s,
               s->leader + 1);
    attackers_begin(&s->attackers,
                    (struct attack_target){.client = besieged->client_port,
                                           .peer = besieged->peer_port,
                                           .metrics = besieged->metrics_port,
                                           .follower = s->fleet.members[s->follower].client_port,
                                           .cluster_id = s->cluster_id});
    s->kill_ns = now_ns(s) + s->o.kill_each_ms * NS_PER_MS / 4;
    run_phase(s, &s->r->siege, s->o.siege_s);
    for (unsigned i = 0; i < attack_count(); i++)
        s->r->efforts[i] = attackers_efforts(&s->attackers, i);
    close_client(s);
}

static bool open_caller(struct siege *s)
{
    struct buf why = {0};

    if (caller_init(&s->caller) != ERR_OK) {
        problem(s, "no files are left for us");
        return false;
    }
    if (caller_tls_open(&s->caller, s->fleet.certs, &s->fleet.arena, &why, &s->tls) != ERR_OK)
        problem(s, "%s", buf_str(&why));
    buf_free(&why);
    return true;
}

bool siege_run(const struct siege_options *options, struct siege_result *out)
{
    struct siege *s = mem_new(struct siege);

    *out = (struct siege_result){0};
    *s = (struct siege){.o = *options, .r = out, .phase = &out->quiet};
    s->o.kill_each_ms = s->o.kill_each_ms ? s->o.kill_each_ms : KILL_MS;
    for (unsigned i = 0; i < PROBES; i++)
        s->probes[i].fd = -1;
    s->readyz.fd = -1;
    s->o.flags = s->o.flags ? s->o.flags : "";
    if (s->o.has_auth)
        s->o.flags = arena_printf(&s->arena,
                                  "%s --auth-token jwt,sign-method=ES256,priv-key=%s/certs/key.pem",
                                  s->o.flags, s->o.dir);
    if (!fleet_open(&s->fleet, &(struct fleet_options){.program = s->o.program,
                                                       .dir = s->o.dir,
                                                       .flags = s->o.flags,
                                                       .count = MEMBERS,
                                                       .election_ms = 1000,
                                                       .is_by_tls = true,
                                                       .has_probes = true}))
        problem(s, "%s", s->fleet.problem);
    else if (!attackers_open(&s->attackers, s->fleet.certs, s->o.only))
        problem(s, "no attackers: %s", strerror(errno));
    else if (open_caller(s)) {
        if (!has_problem(s))
            run(s);
        caller_tls_close(&s->caller, s->tls);
        caller_close(&s->caller);
    }
    attackers_close(&s->attackers);
    memcpy(out->cpu_s, s->attackers.cpu_s, sizeof(out->cpu_s));
    for (unsigned i = 0; i < PROBES; i++)
        probe_end(&s->probes[i]);
    probe_end(&s->readyz);
    fleet_close(&s->fleet);
    for (unsigned i = 0; i < SIEGE_TIMES; i++)
        buf_free(&s->took[i]);
    arena_free(&s->arena);
    mem_free(s);
    return !out->problem[0];
}

const char *siege_time_name(enum siege_time which)
{
    static const char *const names[] = {"put", "get", "watch"};

    assert(which < SIEGE_TIMES);
    return names[which];
}

const char *siege_verdict(const struct siege_result *r)
{
    static char text[512];
    size_t len = 0;

    text[0] = 0;
#define FOUND(is_found, format, ...)                                                               \
    if ((is_found) && len < sizeof(text))                                                          \
    len += (size_t)snprintf(text + len, sizeof(text) - len, "%s" format, len ? "; " : "",          \
                            ##__VA_ARGS__)
    FOUND(r->siege.failed_probes > 0, "%u probes failed", r->siege.failed_probes);
    FOUND(r->siege.failed_calls > 0, "%u calls failed", r->siege.failed_calls);
    FOUND(r->siege.lost_watches > 0, "%u watches ended", r->siege.lost_watches);
    FOUND(r->siege.lost_leases > 0, "a lease that was renewed has expired");
    FOUND(r->siege.terms > 0, "%u terms have begun", r->siege.terms);
    FOUND(r->siege.slowest_rejoin_ms > SIEGE_REJOIN_MS_MAX, "a member came back after %.0f ms",
          r->siege.slowest_rejoin_ms);
    FOUND(r->siege.resident_bytes > r->quiet.resident_bytes + SIEGE_GROWTH_BYTES_MAX,
          "%" PRIu64 " MB were resident, %" PRIu64 " before", r->siege.resident_bytes >> 20,
          r->quiet.resident_bytes >> 20);
    for (unsigned i = 0; i < SIEGE_TIMES; i++)
        FOUND(r->siege.times[i].p99_ms > SIEGE_SLOWER_MAX * r->quiet.times[i].p99_ms,
              "the 99th percentile of %s is %.1f ms, %.1f before", siege_time_name(i),
              r->siege.times[i].p99_ms, r->quiet.times[i].p99_ms);
#undef FOUND
    return text[0] ? text : NULL;
}
