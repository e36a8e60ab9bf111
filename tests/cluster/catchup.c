#include "cluster/catchup.h"

#include "base/mem.h"
#include "base/rng.h"
#include "interop/caller.h"
#include "io/clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    WRITERS_MAX = 500,
    TURN_MS = 2,
    LOOK_MS = 20,  /* between two looks at memory */
    STEP_MS = 100, /* between two at revisions */
    RECONNECT_MS = 50,
    CONNECT_MS_MAX = 1000,
    PUT_TIMEOUT_MS = 1000,  /* one that the leader has taken with it is tried again then */
    ASK_TIMEOUT_MS = 60000, /* a hash of everything takes a while */
    WELL_MS_MAX = 60000,
    CATCH_UP_MS_MAX = 600000,
    PAGE_KEYS = 10000, /* of a read */
    KEY_BYTES = 16,
};

struct catchup {
    const struct catchup_options *o;
    struct catchup_result *r;
    struct fleet fleet;
    struct caller caller;
    struct rng rng;
    struct line *lines[FLEET_MAX]; /* for questions to this very member */
    struct writer {
        struct catchup *c;
        struct ask ask;
        unsigned member, key;
        bool is_lost;  /* its connection is to be made anew */
        bool has_more; /* its key is not written yet */
        uint64_t next_ns, since_ns;
    } writers[WRITERS_MAX];
    uint8_t *value;
    int64_t *acknowledged;           /* by key: the newest revision that a writer was told */
    int64_t told;                    /* the newest of all */
    uint64_t term, killed_ns;        /* of the leader; when it was killed */
    unsigned begun_keys, fill_to;    /* new keys: so many were begun, and are to be */
    double pace_per_s;               /* 0: as fast as they can */
    uint64_t paced_ns, paced, begun; /* since when, and the puts begun since and ever */
    uint64_t done;
    bool is_on;
    uint64_t look_ns;
    uint64_t most[FLEET_MAX]; /* anonymous bytes, since it was last reset */
};

static uint64_t now_ns(struct catchup *c)
{
    return caller_now_ns(&c->caller);
}

__attribute__((format(printf, 2, 3))) static bool fail(struct catchup *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!c->r->problem[0])
        vsnprintf(c->r->problem, sizeof(c->r->problem), format, args);
    va_end(args);
    return false;
}

/* --- writers --- */

static uint64_t put_bytes(const struct catchup *c)
{
    char key[KEY_BYTES];

    return (uint64_t)snprintf(key, sizeof(key), "c/%08u", 0) + c->o->value_bytes;
}

static void put_over(struct ask *a)
{
    struct writer *w = a->context;
    struct catchup *c = w->c;
    struct pb_put_response response = {0};
    struct arena arena = {0};

    if (a->code != RPC_OK) {
        w->is_lost = true;
        w->next_ns = now_ns(c) + RECONNECT_MS * NS_PER_MS;
        return;
    }
    if (pb_decode_put_response(buf_bytes(&a->answer), &arena, &response) != ERR_OK ||
        !response.header) {
        fail(c, "the response to a put cannot be decoded");
    } else {
        int64_t revision = response.header->revision;
        w->has_more = false;
        c->done++;
        c->told = revision > c->told ? revision : c->told;
        if (revision > c->acknowledged[w->key])
            c->acknowledged[w->key] = revision;
        if (c->killed_ns != 0 && c->r->resumed_ms == 0 && response.header->raft_term > c->term)
            c->r->resumed_ms = (now_ns(c) - c->killed_ns) / NS_PER_MS;
    }
    arena_free(&arena);
}

/* The member that is away gets none: whoever asks it waits. */
static void writer_connect(struct writer *w)
{
    struct catchup *c = w->c;

    do
        w->member = (w->member + 1) % c->fleet.count;
    while (w->member == c->r->away || c->fleet.members[w->member].pid == 0);
    line_reconnect(w->ask.line, &c->fleet.members[w->member].address);
    w->since_ns = now_ns(c);
    w->next_ns = w->since_ns + RECONNECT_MS * NS_PER_MS;
    w->is_lost = false;
}

static bool writer_is_ready(struct writer *w)
{
    struct catchup *c = w->c;
    const struct line *line = w->ask.line;
    uint64_t now = now_ns(c);

    if (!ask_is_over(&w->ask) || now < w->next_ns)
        return false;
    bool gives_up = !line->is_open && now > w->since_ns + CONNECT_MS_MAX * NS_PER_MS;
    if (!line->is_gone && !w->is_lost && !gives_up && w->member != c->r->away)
        return line->is_open;
    writer_connect(w);
    return false;
}

static bool is_due(struct catchup *c)
{
    double seconds = (double)(now_ns(c) - c->paced_ns) / 1e9;

    return c->pace_per_s == 0 || (double)c->paced < c->pace_per_s * seconds;
}

/* False if there is nothing to write. */
static bool choose_key(struct writer *w)
{
    struct catchup *c = w->c;

    if (w->has_more)
        return true;
    if (c->begun_keys < c->fill_to)
        w->key = c->begun_keys++;
    else if (c->pace_per_s > 0)
        w->key = (unsigned)rng_below(&c->rng, c->begun_keys);
    else
        return false;
    w->has_more = true;
    return true;
}

static void writer_turn(struct writer *w)
{
    struct catchup *c = w->c;
    char key[KEY_BYTES];

    if (!c->is_on || !is_due(c) || !writer_is_ready(w) || !choose_key(w))
        return;
    snprintf(key, sizeof(key), "c/%08u", w->key);
    c->begun++;
    c->paced++;
    w->ask.timeout_ns = PUT_TIMEOUT_MS * NS_PER_MS;
    ask_start(&w->ask, "/etcdserverpb.KV/Put", &pb_put_request_schema,
              &(struct pb_put_request){.key = bytes_of_str(key),
                                       .value = bytes_of(c->value, c->o->value_bytes)});
}

static bool writers_are_idle(const struct catchup *c)
{
    for (unsigned i = 0; i < c->o->clients; i++)
        if (!ask_is_over(&c->writers[i].ask))
            return false;
    return true;
}

static bool has_more(const struct catchup *c)
{
    for (unsigned i = 0; i < c->o->clients; i++)
        if (c->writers[i].has_more)
            return true;
    return false;
}

/* --- turns --- */

static void look_at_memory(struct catchup *c)
{
    if (now_ns(c) < c->look_ns)
        return;
    c->look_ns = now_ns(c) + LOOK_MS * NS_PER_MS;
    for (unsigned i = 0; i < c->fleet.count; i++) {
        uint64_t bytes = fleet_anonymous_bytes(&c->fleet, i);
        c->most[i] = bytes > c->most[i] ? bytes : c->most[i];
    }
}

static bool turn(struct catchup *c)
{
    for (unsigned i = 0; i < c->o->clients; i++)
        writer_turn(&c->writers[i]);
    caller_turn(&c->caller, TURN_MS);
    look_at_memory(c);
    if (c->o->is_unwanted && *c->o->is_unwanted)
        return fail(c, "interrupted");
    return (fleet_look(&c->fleet) || fail(c, "%s", c->fleet.problem)) && !c->r->problem[0];
}

static bool run_ms(struct catchup *c, uint64_t ms)
{
    uint64_t until = now_ns(c) + ms * NS_PER_MS;

    while (now_ns(c) < until)
        if (!turn(c))
            return false;
    return true;
}

static void write_at(struct catchup *c, double per_s)
{
    c->is_on = true;
    c->pace_per_s = per_s;
    c->paced_ns = now_ns(c);
    c->paced = 0;
}

static bool stop_writing(struct catchup *c)
{
    c->is_on = false;
    while (!writers_are_idle(c))
        if (!turn(c))
            return false;
    return true;
}

/* --- questions --- */

/* True if it was answered; otherwise the connection is made anew. */
static bool question(struct catchup *c, unsigned member, const char *path,
                     const struct pb_schema *schema, const void *request, struct ask *out)
{
    struct line *line = c->lines[member];

    *out = (struct ask){.line = line, .timeout_ns = ASK_TIMEOUT_MS * NS_PER_MS};
    if (line->is_gone)
        line_reconnect(line, &c->fleet.members[member].address);
    if (!line->is_open)
        return turn(c) && false;
    ask_start(out, path, schema, request);
    while (!ask_is_over(out))
        if (!turn(c))
            return false;
    return out->code == RPC_OK;
}

struct standing {
    int64_t revision;
    uint64_t id, leader, term;
};

static bool ask_standing(struct catchup *c, unsigned member, struct standing *out)
{
    struct pb_status_response status = {0};
    struct arena arena = {0};
    struct ask a;
    bool ok =
        question(c, member, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
                 &(struct pb_empty){0}, &a) &&
        pb_decode(&pb_status_response_schema, buf_bytes(&a.answer), &arena, &status) == ERR_OK &&
        status.header;

    *out = (struct standing){0};
    if (ok)
        *out = (struct standing){.revision = status.header->revision,
                                 .id = status.header->member_id,
                                 .leader = status.leader,
                                 .term = status.raft_term};
    ask_free(&a);
    arena_free(&arena);
    return ok;
}

/* All that run know the same leader. */
static bool all_agree(struct catchup *c)
{
    struct standing s[FLEET_MAX] = {0};
    uint64_t leader = 0;
    bool is_found = false;

    for (unsigned i = 0; i < c->fleet.count; i++) {
        if (c->fleet.members[i].pid == 0)
            continue;
        if (!ask_standing(c, i, &s[i]) || s[i].leader == 0 || (leader && leader != s[i].leader))
            return false;
        leader = s[i].leader;
    }
    for (unsigned i = 0; i < c->fleet.count; i++)
        if (s[i].id == leader) {
            c->r->leader = i;
            c->term = s[i].term;
            is_found = true;
        }
    return is_found;
}

static bool await_leader(struct catchup *c)
{
    uint64_t until = now_ns(c) + WELL_MS_MAX * NS_PER_MS;

    while (!all_agree(c)) {
        if (now_ns(c) > until)
            return fail(c, "%d ms, and no leader that all agree on", WELL_MS_MAX);
        if (!run_ms(c, 10))
            return false;
    }
    return true;
}

/* Until it shows what had been told to any writer STEP_MS before. */
static bool await_in_step(struct catchup *c, unsigned member, uint64_t at_most_ms)
{
    uint64_t until = now_ns(c) + at_most_ms * NS_PER_MS;
    struct standing s = {0};

    for (;;) {
        int64_t told = c->told;
        if (!run_ms(c, STEP_MS))
            return false;
        if (ask_standing(c, member, &s) && s.revision >= told)
            return true;
        if (c->r->problem[0])
            return false;
        if (now_ns(c) > until)
            return fail(c, "m%u is at %" PRId64 " of %" PRId64 " after %" PRIu64 " ms", member + 1,
                        s.revision, c->told, at_most_ms);
    }
}

/* --- files --- */

static uint64_t store_bytes(struct catchup *c, unsigned member)
{
    char path[4096];
    struct stat st;

    snprintf(path, sizeof(path), "%s/m%u/member/store/store.mdb", c->o->dir, member + 1);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Of a snapshot that comes in; 0 if none does. */
static uint64_t incoming_bytes(struct catchup *c, unsigned member)
{
    char dir_path[4096], path[8192];
    const struct dirent *entry;
    struct stat st;
    uint64_t bytes = 0;

    snprintf(dir_path, sizeof(dir_path), "%s/m%u/member/snap", c->o->dir, member + 1);
    DIR *dir = opendir(dir_path);
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", dir_path, entry->d_name);
        if (strncmp(entry->d_name, "tmp", 3) == 0 && stat(path, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    if (dir)
        closedir(dir);
    return bytes;
}

/* --- the story --- */

static bool start_all(struct catchup *c)
{
    for (unsigned i = 0; i < c->fleet.count; i++)
        if (!fleet_start(&c->fleet, i))
            return fail(c, "%s", c->fleet.problem);
    return await_leader(c);
}

/* New keys, at full speed, until each of them is acknowledged. */
static bool fill(struct catchup *c, unsigned keys)
{
    c->fill_to += keys;
    write_at(c, 0);
    do
        if (!turn(c))
            return false;
    while (c->begun_keys < c->fill_to || !writers_are_idle(c) || has_more(c));
    c->is_on = false;
    return true;
}

/* What it needs right after a start, when it has applied everything and nobody writes. */
static bool weigh(struct catchup *c, unsigned member, uint64_t *out)
{
    fleet_kill(&c->fleet, member);
    if (!fleet_start(&c->fleet, member) || !await_in_step(c, member, CATCH_UP_MS_MAX))
        return fail(c, "%s", c->fleet.problem);
    *out = fleet_anonymous_bytes(&c->fleet, member);
    return true;
}

static bool leave_one_behind(struct catchup *c)
{
    struct catchup_result *r = c->r;
    unsigned member = (r->leader + 1) % c->fleet.count;

    if (!fill(c, c->o->old_keys) || !await_in_step(c, member, WELL_MS_MAX))
        return false;
    r->away = member;
    if (!weigh(c, member, &r->old_index))
        return false;
    fleet_kill(&c->fleet, member);

    uint64_t began_ns = now_ns(c), begun = c->begun, store = store_bytes(c, r->leader);
    if (!fill(c, c->o->keys))
        return false;
    r->fill_per_s = (double)c->o->keys / ((double)(now_ns(c) - began_ns) / 1e9);
    r->fill_bytes = (c->begun - begun) * put_bytes(c);
    r->fill_growth = store_bytes(c, r->leader) - store;
    return true;
}

static void forget_most(struct catchup *c)
{
    memset(c->most, 0, sizeof(c->most));
}

/* How the others are without the member. */
static bool look_before(struct catchup *c)
{
    forget_most(c);
    write_at(c, c->r->fill_per_s / 2);
    if (!run_ms(c, c->o->before_ms))
        return false;
    for (unsigned i = 0; i < c->fleet.count; i++) {
        c->r->members[i].anonymous_before = c->most[i];
        c->r->members[i].store_before = store_bytes(c, i);
    }
    c->r->image_bytes = store_bytes(c, c->r->leader);
    return true;
}

static bool has_installed(struct catchup *c)
{
    long from = 0;

    return fleet_said(&c->fleet, c->r->away, "\"applied snapshot\"", &from) > 0;
}

/* When a quarter of the image is there. */
static bool kill_the_leader(struct catchup *c)
{
    struct catchup_result *r = c->r;
    uint64_t until = now_ns(c) + CATCH_UP_MS_MAX * NS_PER_MS;

    while (incoming_bytes(c, r->away) < r->image_bytes / 4) {
        if (has_installed(c) || now_ns(c) > until)
            return fail(c, "nobody was seen sending a snapshot");
        if (!turn(c))
            return false;
    }
    r->killed = r->leader;
    c->killed_ns = now_ns(c);
    fleet_kill(&c->fleet, r->leader);
    while (r->resumed_ms == 0) {
        if (now_ns(c) > until)
            return fail(c, "nobody can write after the leader was killed");
        if (!turn(c))
            return false;
    }
    return await_leader(c);
}

static bool catch_up(struct catchup *c)
{
    struct catchup_result *r = c->r;
    uint64_t began_ns = now_ns(c), begun = c->begun, done = c->done;

    forget_most(c);
    if (!fleet_start(&c->fleet, r->away))
        return fail(c, "%s", c->fleet.problem);
    if (c->o->kills_leader && !kill_the_leader(c))
        return false;
    while (!has_installed(c)) {
        if (now_ns(c) - began_ns > CATCH_UP_MS_MAX * NS_PER_MS)
            return fail(c, "m%u has installed no snapshot", r->away + 1);
        if (!run_ms(c, LOOK_MS))
            return false;
    }
    r->applied_ms = (now_ns(c) - began_ns) / NS_PER_MS;
    if (!await_in_step(c, r->away, CATCH_UP_MS_MAX))
        return false;
    r->in_step_ms = (now_ns(c) - began_ns) / NS_PER_MS;
    r->written_bytes = (c->begun - begun) * put_bytes(c);
    r->half_per_s = (double)(c->done - done) / ((double)r->in_step_ms / 1e3);
    for (unsigned i = 0; i < c->fleet.count; i++) {
        r->members[i].anonymous_most = c->most[i];
        r->members[i].store_after = store_bytes(c, i);
    }
    return true;
}

/* --- is everything there? --- */

static bool compare_hashes(struct catchup *c)
{
    struct pb_hash_kv_request request = {.revision = c->told};
    uint32_t first = 0;

    for (unsigned i = 0; i < c->fleet.count; i++) {
        struct pb_hash_kv_response hash = {0};
        struct arena arena = {0};
        struct ask a;
        bool ok =
            question(c, i, "/etcdserverpb.Maintenance/HashKV", &pb_hash_kv_request_schema, &request,
                     &a) &&
            pb_decode(&pb_hash_kv_response_schema, buf_bytes(&a.answer), &arena, &hash) == ERR_OK;
        if (!ok)
            fail(c, "m%u does not say its hash: %s", i + 1, buf_str(&a.text));
        ask_free(&a);
        arena_free(&arena);
        if (i == 0)
            first = hash.hash;
        else if (ok && hash.hash != first)
            return fail(c, "m1 has hash %u at revision %" PRId64 ", m%u has %u", first, c->told,
                        i + 1, hash.hash);
    }
    return !c->r->problem[0];
}

/* The keys from this one on, so many, are as new as their writers were told. */
static bool check_page(struct catchup *c, unsigned member, unsigned from)
{
    char key[KEY_BYTES], end[KEY_BYTES];
    unsigned to = from + PAGE_KEYS < c->begun_keys ? from + PAGE_KEYS : c->begun_keys;
    struct pb_range_response response = {0};
    struct arena arena = {0};
    struct ask a;

    snprintf(key, sizeof(key), "c/%08u", from);
    snprintf(end, sizeof(end), "c/%08u", to);
    if (!question(c, member, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                  &(struct pb_range_request){.key = bytes_of_str(key),
                                             .range_end = bytes_of_str(end),
                                             .serializable = true,
                                             .keys_only = true},
                  &a) ||
        pb_decode_range_response(buf_bytes(&a.answer), &arena, &response) != ERR_OK)
        fail(c, "m%u does not show its keys: %s", member + 1, buf_str(&a.text));
    else if (response.kvs.count != to - from)
        fail(c, "m%u shows %zu keys of %u from %s on", member + 1, response.kvs.count, to - from,
             key);
    for (size_t i = 0; i < response.kvs.count && !c->r->problem[0]; i++)
        if (response.kvs.at[i].mod_revision < c->acknowledged[from + i])
            fail(c, "m%u has key %zu as of revision %" PRId64 ", and %" PRId64 " was acknowledged",
                 member + 1, from + i, response.kvs.at[i].mod_revision, c->acknowledged[from + i]);
    ask_free(&a);
    arena_free(&arena);
    return !c->r->problem[0];
}

static bool check_all(struct catchup *c)
{
    struct catchup_result *r = c->r;

    if (!stop_writing(c))
        return false;
    if (r->killed < c->fleet.count && !fleet_start(&c->fleet, r->killed))
        return fail(c, "%s", c->fleet.problem);
    for (unsigned i = 0; i < c->fleet.count; i++)
        if (!await_in_step(c, i, CATCH_UP_MS_MAX))
            return false;
    for (unsigned from = 0; from < c->begun_keys; from += PAGE_KEYS)
        if (!check_page(c, r->away, from))
            return false;
    return compare_hashes(c) && weigh(c, r->away, &r->new_index);
}

/* --- the whole --- */

static void open_clients(struct catchup *c)
{
    assert(c->fleet.count > 0);
    for (unsigned i = 0; i < c->fleet.count; i++)
        c->lines[i] = caller_connect_to(&c->caller, &c->fleet.members[i].address);
    for (unsigned i = 0; i < c->o->clients; i++) {
        struct writer *w = &c->writers[i];
        w->c = c;
        w->member = i % c->fleet.count;
        w->since_ns = now_ns(c);
        w->ask = (struct ask){.on_over = put_over, .context = w};
        w->ask.line = caller_connect_to(&c->caller, &c->fleet.members[w->member].address);
    }
}

static void run_with_clients(struct catchup *c)
{
    unsigned keys = c->o->old_keys + c->o->keys;

    c->value = mem_alloc(c->o->value_bytes);
    memset(c->value, 'x', c->o->value_bytes);
    c->acknowledged = mem_new_array(keys, int64_t);
    open_clients(c);
    if (start_all(c) && leave_one_behind(c) && look_before(c) && catch_up(c))
        (void)check_all(c);
    for (unsigned i = 0; i < c->o->clients; i++)
        ask_free(&c->writers[i].ask);
    mem_free(c->value);
    mem_free(c->acknowledged);
}

bool catchup_run(const struct catchup_options *options, struct catchup_result *out)
{
    struct catchup *c = mem_new(struct catchup);
    struct fleet_options fleet = {.program = options->program,
                                  .dir = options->dir,
                                  .flags = options->flags,
                                  .count = options->members ? options->members : 3,
                                  .election_ms =
                                      options->election_ms ? options->election_ms : 1000};

    assert(options->clients > 0 && options->clients <= WRITERS_MAX);
    *out =
        (struct catchup_result){.count = fleet.count, .away = fleet.count, .killed = fleet.count};
    c->o = options;
    c->r = out;
    rng_seed(&c->rng, 1);
    if (!fleet_open(&c->fleet, &fleet))
        fail(c, "%s", c->fleet.problem);
    else if (caller_init(&c->caller) != ERR_OK)
        fail(c, "no loop could be had");
    else {
        run_with_clients(c);
        caller_close(&c->caller);
    }
    fleet_close(&c->fleet);
    mem_free(c);
    return !out->problem[0];
}
