#include "cluster/chores.h"

#include "base/mem.h"
#include "cluster/fleet.h"
#include "interop/caller.h"
#include "io/clock.h"
#include "pb/codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WRITERS = 64,
    LINES = 8,
    VALUE_BYTES = 256,
    KEPT_REVISIONS = 1000, /* behind the newest, when it is compacted */
    WELL_MS_MAX = 30000,
    TOLD_MS = 10000,
};

struct chores {
    struct chores_options o;
    struct chores_result *r;
    struct fleet fleet;
    struct caller caller;
    struct writer {
        struct chores *chores;
        struct ask ask;
    } writers[WRITERS];
    struct line *lines[LINES];
    uint64_t keys_put;      /* which one comes next */
    double budget;          /* puts that may be begun; negative: some were begun too early */
    uint64_t paced_from_ns; /* 0: there is no pace */
    uint64_t paced_to_ns;   /* up to here the budget was given */
    int64_t revision;
    struct ask compaction, defragmentation;
    uint64_t compact_ns, defragment_ns, scrape_ns, told_ns; /* when it is due */
    pid_t scraper;                                          /* 0: none runs */
    char scraped[512];                                      /* where its text goes */
};

static bool has_problem(const struct chores *c)
{
    return c->r->problem[0] != 0;
}

__attribute__((format(printf, 2, 3))) static void problem(struct chores *c, const char *format, ...)
{
    va_list args;

    if (has_problem(c))
        return;
    va_start(args, format);
    vsnprintf(c->r->problem, sizeof(c->r->problem), format, args);
    va_end(args);
}

static uint64_t now_ns(struct chores *c)
{
    return caller_now_ns(&c->caller);
}

static void check_ask(struct chores *c, struct ask *a, const char *what)
{
    if (a->code != RPC_OK)
        problem(c, "%s: error %d, %s", what, a->code, buf_str(&a->text));
}

/* --- writing --- */

static void start_put(struct writer *w)
{
    struct chores *c = w->chores;
    static const uint8_t value[VALUE_BYTES];
    char key[32];

    snprintf(key, sizeof(key), "chores/%08u", (unsigned)(c->keys_put++ % c->o.keys));
    c->budget--;
    ask_start(&w->ask, "/etcdserverpb.KV/Put", &pb_put_request_schema,
              &(struct pb_put_request){.key = bytes_of_str(key),
                                       .value = bytes_of(value, sizeof(value))});
}

static void put_is_over(struct ask *a)
{
    struct writer *w = a->context;
    struct chores *c = w->chores;
    struct arena arena = {0};
    struct pb_put_response response;

    check_ask(c, a, "a put");
    if (has_problem(c))
        return;
    if (pb_decode_put_response(buf_bytes(&a->answer), &arena, &response) == ERR_OK &&
        response.header && response.header->revision > c->revision)
        c->revision = response.header->revision;
    arena_free(&arena);
    c->r->puts++;
    if (c->paced_from_ns != 0 && (double)a->took_ns / 1e6 > c->r->slowest_ms)
        c->r->slowest_ms = (double)a->took_ns / 1e6;
}

/* What is due by now, by whoever is free. What nobody was free for is not made up for later: a
 * member that was slow for a second would be loaded with more than half ever after. */
static void put_some(struct chores *c)
{
    const double most = (int)WRITERS;
    uint64_t now = now_ns(c);

    if (c->paced_from_ns == 0) {
        c->budget = most;
    } else {
        c->budget += (double)(now - c->paced_to_ns) / 1e9 * c->r->half_per_s;
        c->budget = c->budget < most ? c->budget : most;
        c->paced_to_ns = now;
    }
    for (unsigned i = 0; i < WRITERS && c->budget >= 1 && !has_problem(c); i++)
        if (ask_is_over(&c->writers[i].ask))
            start_put(&c->writers[i]);
}

static bool is_writing(const struct chores *c)
{
    for (unsigned i = 0; i < WRITERS; i++)
        if (!ask_is_over(&c->writers[i].ask))
            return true;
    return false;
}

/* --- the chores --- */

static bool is_due(struct chores *c, uint64_t *when_ns, unsigned each_ms)
{
    if (now_ns(c) < *when_ns)
        return false;
    *when_ns += each_ms * NS_PER_MS;
    return true;
}

static void compact(struct chores *c)
{
    int64_t at = c->revision - KEPT_REVISIONS;

    if (!is_due(c, &c->compact_ns, c->o.compact_ms) || at <= 0)
        return;
    if (!ask_is_over(&c->compaction)) {
        if (!c->o.may_be_late)
            problem(c, "a compaction has not ended when the next one was due");
        return;
    }
    ask_start(&c->compaction, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
              &(struct pb_compaction_request){.revision = at, .physical = true});
}

static void compaction_is_over(struct ask *a)
{
    struct chores *c = a->context;

    check_ask(c, a, "a compaction");
    c->r->compactions++;
}

static void defragment(struct chores *c)
{
    if (!is_due(c, &c->defragment_ns, c->o.defragment_ms))
        return;
    if (!ask_is_over(&c->defragmentation)) {
        if (!c->o.may_be_late)
            problem(c, "a defragmentation has not ended when the next one was due");
        return;
    }
    ask_start(&c->defragmentation, "/etcdserverpb.Maintenance/Defragment",
              &pb_defragment_request_schema, &(struct pb_empty){0});
}

static void defragmentation_is_over(struct ask *a)
{
    struct chores *c = a->context;

    check_ask(c, a, "a defragmentation");
    c->r->defragmentations++;
}

/* By curl, beside us: it has a connection of its own, and takes none of our time. */
static void scrape(struct chores *c)
{
    char url[64];

    if (c->scraper != 0 || !is_due(c, &c->scrape_ns, c->o.scrape_ms))
        return;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/metrics",
             (unsigned)c->fleet.members[0].client_port);
    c->scraper = fork();
    if (c->scraper == 0) {
        execlp("curl", "curl", "-sf", "-m", "10", "-o", c->scraped, url, NULL);
        _exit(127);
    }
    if (c->scraper < 0)
        problem(c, "cannot fork: %s", strerror(errno));
}

static uint64_t scraped_size(struct chores *c)
{
    static const char name[] = "etcd_mvcc_db_total_size_in_bytes ";
    FILE *f = fopen(c->scraped, "re");
    char line[1024];
    double size = 0;

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, name, sizeof(name) - 1) == 0)
            size = strtod(line + sizeof(name) - 1, NULL);
    if (f)
        fclose(f);
    return (uint64_t)size;
}

static void note_size(struct chores *c, uint64_t size)
{
    uint64_t half_ns = c->o.seconds * NS_PER_S / 2;
    bool is_second = now_ns(c) - c->paced_from_ns > half_ns;
    uint64_t *largest = is_second ? &c->r->size_second : &c->r->size_first;

    *largest = size > *largest ? size : *largest;
    c->r->scrapes++;
}

static void look_at_scraper(struct chores *c)
{
    int status;

    if (c->scraper <= 0 || waitpid(c->scraper, &status, WNOHANG) != c->scraper)
        return;
    c->scraper = 0;
    uint64_t size = scraped_size(c);
    if (status != 0 || size == 0)
        problem(c, "a scrape has failed (status %d)", status);
    note_size(c, size);
}

static void tell(struct chores *c)
{
    const struct chores_result *r = c->r;

    if (!c->o.verbose || !is_due(c, &c->told_ns, TOLD_MS))
        return;
    printf("%" PRIu64 " puts, %u compactions, %u defragmentations, %u scrapes; store %.1f MB\n",
           r->puts, r->compactions, r->defragmentations, r->scrapes,
           (double)(r->size_second ? r->size_second : r->size_first) / 1e6);
    fflush(stdout);
}

/* --- running --- */

static bool goes_on(struct chores *c)
{
    if (!fleet_look(&c->fleet))
        problem(c, "%s", c->fleet.problem);
    return !has_problem(c) && !(c->o.is_unwanted && *c->o.is_unwanted);
}

static void run_full_speed(struct chores *c)
{
    uint64_t began_ns = now_ns(c), until_ns = began_ns + c->o.full_speed_ms * NS_PER_MS;

    while (now_ns(c) < until_ns && goes_on(c)) {
        put_some(c);
        caller_turn(&c->caller, 10);
    }
    c->r->full_per_s = (double)c->r->puts * 1e9 / (double)(now_ns(c) - began_ns);
    c->r->half_per_s = c->r->full_per_s / 2;
    c->r->puts = 0;
}

/* Where chores may be late, each is waited for. */
static bool is_owed_a_chore(const struct chores *c)
{
    return c->o.may_be_late &&
           (c->r->compactions == 0 || c->r->defragmentations == 0 || c->r->scrapes == 0);
}

static void run_with_chores(struct chores *c)
{
    c->paced_from_ns = c->paced_to_ns = now_ns(c);
    c->compact_ns = c->paced_from_ns + c->o.compact_ms * NS_PER_MS;
    c->defragment_ns = c->paced_from_ns + c->o.defragment_ms * NS_PER_MS;
    c->scrape_ns = c->told_ns = c->paced_from_ns;
    uint64_t until_ns = c->paced_from_ns + c->o.seconds * NS_PER_S;
    while ((now_ns(c) < until_ns || is_owed_a_chore(c)) && goes_on(c)) {
        put_some(c);
        compact(c);
        defragment(c);
        scrape(c);
        look_at_scraper(c);
        tell(c);
        caller_turn(&c->caller, 1);
    }
}

static void end_calls(struct chores *c)
{
    uint64_t until_ns = now_ns(c) + WELL_MS_MAX * NS_PER_MS;

    while ((is_writing(c) || !ask_is_over(&c->compaction) || !ask_is_over(&c->defragmentation)) &&
           !has_problem(c)) {
        caller_turn(&c->caller, 10);
        if (now_ns(c) > until_ns)
            problem(c, "calls under way do not end");
    }
    if (c->scraper > 0)
        waitpid(c->scraper, NULL, 0);
}

/* --- the member --- */

static void await_member(struct chores *c)
{
    uint64_t until_ns = now_ns(c) + WELL_MS_MAX * NS_PER_MS;
    long from = 0;

    while (fleet_said(&c->fleet, 0, "ready to serve client requests", &from) == 0 && goes_on(c)) {
        caller_for_ms(&c->caller, 10);
        if (now_ns(c) > until_ns)
            problem(c, "the member does not serve");
    }
}

static void open_writers(struct chores *c)
{
    for (unsigned i = 0; i < LINES; i++)
        c->lines[i] = caller_connect_to(&c->caller, &c->fleet.members[0].address);
    for (unsigned i = 0; i < WRITERS; i++) {
        struct writer *w = &c->writers[i];
        w->chores = c;
        w->ask = (struct ask){.line = c->lines[i % LINES], .on_over = put_is_over, .context = w};
    }
    c->compaction = (struct ask){.line = c->lines[0], .on_over = compaction_is_over, .context = c};
    c->defragmentation =
        (struct ask){.line = c->lines[0], .on_over = defragmentation_is_over, .context = c};
}

static void close_writers(struct chores *c)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        ask_cancel(&c->writers[i].ask);
        ask_free(&c->writers[i].ask);
    }
    ask_cancel(&c->compaction);
    ask_free(&c->compaction);
    ask_cancel(&c->defragmentation);
    ask_free(&c->defragmentation);
}

/* It says it at its end: of all turns, those at full speed too. */
static void read_longest_turn(struct chores *c)
{
    static const char name[] = "\"longest-turn-cpu\":\"";
    char path[512], line[4096], unit[4] = "";
    double number = -1;

    snprintf(path, sizeof(path), "%s/m1.log", c->o.dir);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, name);
        if (at)
            sscanf(at + sizeof(name) - 1, "%lf%3[^\"]", &number, unit);
    }
    if (f)
        fclose(f);
    c->r->longest_turn_ms = number * (strcmp(unit, "s") == 0    ? 1000
                                      : strcmp(unit, "ms") == 0 ? 1
                                                                : 0.001);
    if (number < 0)
        problem(c, "%s does not tell of its longest turn", path);
}

static void stop_member(struct chores *c)
{
    uint64_t until_ns = now_ns(c) + WELL_MS_MAX * NS_PER_MS;

    fleet_stop(&c->fleet, 0);
    while (c->fleet.members[0].pid > 0 && goes_on(c)) {
        caller_for_ms(&c->caller, 10);
        if (now_ns(c) > until_ns)
            problem(c, "the member does not end");
    }
    if (!has_problem(c))
        read_longest_turn(c);
}

/* A compaction that comes late leaves the store to grow, which is then nobody's fault. */
static void judge_size(struct chores *c)
{
    if (!c->o.may_be_late &&
        (double)c->r->size_second > CHORES_GROWTH_MAX * (double)c->r->size_first)
        problem(c, "the store goes on growing: %.1f MB at most, then %.1f MB",
                (double)c->r->size_first / 1e6, (double)c->r->size_second / 1e6);
}

static struct chores_options with_defaults(struct chores_options o)
{
    o.full_speed_ms = o.full_speed_ms ? o.full_speed_ms : 10000;
    o.keys = o.keys ? o.keys : 10000;
    o.compact_ms = o.compact_ms ? o.compact_ms : 10000;
    o.defragment_ms = o.defragment_ms ? o.defragment_ms : 60000;
    o.scrape_ms = o.scrape_ms ? o.scrape_ms : 1000;
    return o;
}

static void run(struct chores *c)
{
    if (!fleet_start(&c->fleet, 0)) {
        problem(c, "%s", c->fleet.problem);
        return;
    }
    await_member(c);
    open_writers(c);
    run_full_speed(c);
    run_with_chores(c);
    end_calls(c);
    close_writers(c);
    stop_member(c);
    judge_size(c);
}

bool chores_run(const struct chores_options *options, struct chores_result *out)
{
    struct chores *c = mem_new(struct chores);

    *out = (struct chores_result){0};
    c->o = with_defaults(*options);
    c->r = out;
    snprintf(c->scraped, sizeof(c->scraped), "%s/scraped", c->o.dir);
    bool is_open = fleet_open(&c->fleet, &(struct fleet_options){.program = c->o.program,
                                                                 .dir = c->o.dir,
                                                                 .flags = c->o.flags,
                                                                 .count = 1,
                                                                 .election_ms = 1000});
    if (!is_open) {
        problem(c, "%s", c->fleet.problem);
    } else if (caller_init(&c->caller) != ERR_OK) {
        problem(c, "no files are left for us");
    } else {
        run(c);
        caller_close(&c->caller);
    }
    fleet_close(&c->fleet);
    mem_free(c);
    return !has_problem(&(struct chores){.r = out});
}
