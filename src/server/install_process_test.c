/*
 * The state is replaced over and over in the real world: libuv, threads, LMDB, sockets, a disk.
 *
 * The server runs in a process of its own, which is this program, not the daemon: no flag makes a
 * member install images of itself, so this one asks for them in its turn. Clients write, read and
 * watch, and hold what they see against what they were told.
 */
#include "base/limits.h"
#include "base/list.h"
#include "base/rng.h"
#include "config/config.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/clock.h"
#include "io/loop.h"
#include "server/server.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the member --- */

struct member {
    struct loop *loop;
    struct server *server;
    struct loop_signal terminate;
    struct rng rng;
    _Atomic uint64_t *installed; /* shared with the test */
};

static void on_terminate(struct loop_signal *s)
{
    server_stop(container_of(s, struct member, terminate)->server);
}

/* As soon as one is done, the next. Most of them are ahead of what is applied, if clients write
 * that much. */
static void member_turn(void *context)
{
    struct member *m = context;

    server_turn(m->server);
    atomic_store(m->installed, server_installed(m->server));
    if (server_has_stopped(m->server))
        loop_stop(m->loop);
    else
        server_install_own_image(m->server, rng_below(&m->rng, 4));
}

static void give_up(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "the member gave up: %s\n", text);
    abort();
}

static void run_member(const struct peer *p, uint64_t seed, _Atomic uint64_t *installed)
{
    static int to_stderr = STDERR_FILENO;
    static const struct logger logger = {.level = LOG_WARN,
                                         .sink = log_sink_fd,
                                         .sink_context = &to_stderr,
                                         .clock = log_clock_none};
    char cluster[256];
    const char *argv[] = {"server",      "--name",
                          "m",           "--data-dir",
                          p->dir,        "--listen-client-urls",
                          p->client_url, "--advertise-client-urls",
                          p->client_url, "--listen-peer-urls",
                          p->peer_url,   "--initial-advertise-peer-urls",
                          p->peer_url,   "--initial-cluster",
                          cluster,       "--snapshot-count",
                          "500",         "--backend-batch-interval",
                          "20ms"};
    const char *env[] = {NULL};
    struct config config = {0};
    struct buf why = {0};
    struct member m = {.terminate = {.number = SIGTERM, .on_signal = on_terminate},
                       .installed = installed};
    struct server_options options = {.config = &config, .logger = &logger, .on_failed = give_up};

    rng_seed(&m.rng, seed);
    snprintf(cluster, sizeof(cluster), "m=%s", p->peer_url);
    if (config_parse(ARRAY_LEN(argv), argv, env, &config, &why) != CONFIG_OK ||
        loop_open(&(struct loop_options){.worker_threads = 2}, &m.loop) != ERR_OK)
        give_up(NULL, buf_str(&why));
    options.io = loop_io(m.loop);
    if (server_open(&options, &why, &m.server) != ERR_OK ||
        loop_watch_signal(m.loop, &m.terminate) != ERR_OK)
        give_up(NULL, buf_str(&why));
    loop_run(m.loop, member_turn, &m);
    server_close(m.server);
    loop_close(m.loop);
    config_free(&config);
    buf_free(&why);
}

static void start_member(struct peer *p, uint64_t seed, _Atomic uint64_t *installed)
{
    fflush(NULL);
    p->pid = fork();
    CHECK(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_member(p, seed, installed);
        _exit(0);
    }
    peer_await(p);
}

/* --- the clients --- */

enum { WRITERS = 8, LARGE_KEYS = 10, LARGE_BYTES = 100000, MANY = 1500 };

/* Puts one number after the other under its own key; each until it is told so. */
struct writer {
    struct crew *crew;
    unsigned number;
    struct ask ask;
    uint64_t told;    /* the last one that it was told of */
    int64_t revision; /* of that */
    uint64_t seen;    /* by the watcher, the last one */
    uint64_t failed;
    bool has_asked;
};

struct crew {
    struct caller caller;
    struct peer *peer;
    struct writer writers[WRITERS];
    struct ask reader, watcher, large, other;
    uint64_t floor[WRITERS]; /* what the read under way must see at least */
    unsigned reads, others;
    int64_t watched;         /* the watcher has been given everything up to here */
    bool is_over, is_killed; /* nobody begins anything any more; nor minds how it ended */
};

static uint64_t number_in(struct bytes value)
{
    char text[24] = "";

    memcpy(text, value.at, value.len < 20 ? value.len : 20);
    return strtoull(text, NULL, 10);
}

static void put_answered(struct writer *w)
{
    struct arena arena = {0};
    struct pb_put_response response;

    if (w->ask.code != RPC_OK) {
        CHECK_STR(buf_str(&w->ask.text), "etcdserver: request timed out");
        w->failed++;
        return;
    }
    ask_read(&w->ask, &pb_put_response_schema, &arena, &response);
    CHECK(response.header->revision > w->revision);
    w->revision = response.header->revision;
    w->told++;
    arena_free(&arena);
}

static void put_next(struct ask *a)
{
    struct writer *w = a->context;
    char key[8], value[3000];

    if (w->crew->is_killed)
        return;
    if (w->has_asked)
        put_answered(w);
    if (w->crew->is_over)
        return;
    w->has_asked = true;
    memset(value, '.', sizeof(value));
    int digits = snprintf(value, sizeof(value), "%llu ", (unsigned long long)w->told + 1);
    snprintf(key, sizeof(key), "w%u", w->number);
    size_t bytes = (size_t)digits + (size_t)(w->told * 97 % 2000);
    ask_start(a, "/etcdserverpb.KV/Put", &pb_put_request_schema,
              &(struct pb_put_request){.key = bytes_of_str(key), .value = bytes_of(value, bytes)});
}

static void check_read(struct crew *c, const struct pb_range_response *r)
{
    for (size_t i = 0; i < r->kvs.count; i++) {
        unsigned n = r->kvs.at[i].key.at[1] - '0';
        uint64_t number = number_in(r->kvs.at[i].value);
        CHECK(n < WRITERS);
        CHECK(number >= c->floor[n]); /* acknowledged before it was asked */
        CHECK(number <= c->writers[n].told + 1);
    }
}

static void read_next(struct ask *a)
{
    struct crew *c = a->context;
    struct arena arena = {0};
    struct pb_range_response response;

    if (c->is_killed)
        return;
    if (c->reads > 0) {
        ask_read(a, &pb_range_response_schema, &arena, &response);
        check_read(c, &response);
    }
    arena_free(&arena);
    if (c->is_over)
        return;
    c->reads++;
    for (unsigned i = 0; i < WRITERS; i++)
        c->floor[i] = c->writers[i].told;
    ask_start(a, "/etcdserverpb.KV/Range", &pb_range_request_schema,
              &(struct pb_range_request){.key = BYTES("w"), .range_end = BYTES("x")});
}

/* A reply that takes a while to be sent: states are replaced meanwhile. */
static void read_large(struct ask *a)
{
    struct crew *c = a->context;
    struct arena arena = {0};
    struct pb_range_response response;

    if (c->is_killed)
        return;
    if (a->answer.len > 0) {
        ask_read(a, &pb_range_response_schema, &arena, &response);
        CHECK_EQ(response.kvs.count, LARGE_KEYS);
        for (size_t i = 0; i < response.kvs.count; i++)
            CHECK_EQ(response.kvs.at[i].value.len, LARGE_BYTES);
    }
    arena_free(&arena);
    if (!c->is_over)
        ask_start(a, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                  &(struct pb_range_request){.key = BYTES("l"), .range_end = BYTES("m")});
}

/* Many keys come, and go at once; and history is cut below what the watcher has seen. */
static void do_other(struct ask *a)
{
    struct crew *c = a->context;
    static struct pb_put_request puts[100];
    static struct pb_request_op ops[100];
    static char keys[100][8];
    unsigned round = c->others++ % (MANY / 100 + 2);

    if (c->is_over || c->is_killed)
        return;
    if (round == MANY / 100) {
        ask_start(a, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                  &(struct pb_delete_range_request){.key = BYTES("d"), .range_end = BYTES("e")});
        return;
    }
    if (round > MANY / 100) {
        ask_start(a, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                  &(struct pb_compaction_request){.revision = c->watched});
        return;
    }
    for (unsigned i = 0; i < 100; i++) {
        snprintf(keys[i], sizeof(keys[i]), "d%05u", round * 100 + i);
        puts[i] = (struct pb_put_request){.key = bytes_of_str(keys[i])};
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &puts[i]};
    }
    ask_start(a, "/etcdserverpb.KV/Txn", &pb_txn_request_schema,
              &(struct pb_txn_request){.success = {ops, 100}});
}

static void see(struct crew *c, const struct pb_event *e)
{
    CHECK(e->kv->mod_revision >= c->watched);
    c->watched = e->kv->mod_revision;
    if (e->kv->key.at[0] != 'w')
        return;
    struct writer *w = &c->writers[e->kv->key.at[1] - '0'];
    uint64_t number = number_in(e->kv->value);
    CHECK(number == w->seen || number == w->seen + 1); /* once more, or the next: none is lost */
    w->seen = number;
}

static void watcher_heard(struct ask *a, struct bytes message)
{
    struct arena arena = {0};
    struct pb_watch_response r;

    CHECK_EQ(pb_decode_watch_response(message, &arena, &r), ERR_OK);
    CHECK(!r.canceled);
    for (size_t i = 0; i < r.events.count; i++)
        see(a->context, &r.events.at[i]);
    arena_free(&arena);
}

static void crew_open(struct crew *c, struct peer *p)
{
    *c = (struct crew){.peer = p, .watched = 1};
    caller_open(&c->caller, p);
    for (unsigned i = 0; i < WRITERS; i++)
        c->writers[i] = (struct writer){.crew = c, .number = i};
}

static void crew_start(struct crew *c)
{
    struct pb_watch_create_request create = {
        .key = BYTES("a"), .range_end = BYTES("z"), .start_revision = c->watched + 1};

    c->is_over = c->is_killed = false;
    c->reads = 0;
    c->watcher =
        (struct ask){.line = caller_connect(&c->caller), .on_message = watcher_heard, .context = c};
    ask_stream(&c->watcher, "/etcdserverpb.Watch/Watch");
    ask_say(&c->watcher, &pb_watch_request_schema,
            &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    for (unsigned i = 0; i < WRITERS; i++) {
        c->writers[i].has_asked = false;
        c->writers[i].ask = (struct ask){
            .line = caller_connect(&c->caller), .on_over = put_next, .context = &c->writers[i]};
        put_next(&c->writers[i].ask);
    }
    c->reader =
        (struct ask){.line = caller_connect(&c->caller), .on_over = read_next, .context = c};
    c->large =
        (struct ask){.line = caller_connect(&c->caller), .on_over = read_large, .context = c};
    c->other = (struct ask){.line = caller_connect(&c->caller), .on_over = do_other, .context = c};
    read_next(&c->reader);
    read_large(&c->large);
    do_other(&c->other);
}

static bool crew_is_idle(const struct crew *c)
{
    for (unsigned i = 0; i < WRITERS; i++)
        if (!ask_is_over(&c->writers[i].ask))
            return false;
    return ask_is_over(&c->reader) && ask_is_over(&c->large) && ask_is_over(&c->other);
}

/* Everybody has his answer, and the watcher what there is. */
static void crew_stop(struct crew *c)
{
    c->is_over = true;
    while (!crew_is_idle(c))
        caller_turn(&c->caller, 100);
    for (unsigned i = 0; i < WRITERS; i++)
        while (c->writers[i].seen < c->writers[i].told)
            caller_turn(&c->caller, 100);
    ask_cancel(&c->watcher);
}

static void crew_close(struct crew *c)
{
    for (unsigned i = 0; i < WRITERS; i++)
        ask_free(&c->writers[i].ask);
    ask_free(&c->reader);
    ask_free(&c->watcher);
    ask_free(&c->large);
    ask_free(&c->other);
    caller_close(&c->caller);
}

/* Until it is told of. */
static void put_surely(struct line *l, struct bytes key, struct bytes value)
{
    struct ask a = {.line = l};

    do {
        ask_start(&a, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                  &(struct pb_put_request){.key = key, .value = value});
        ask_wait(&a);
    } while (a.code == RPC_UNAVAILABLE && strstr(buf_str(&a.text), "timed out"));
    CHECK_STR(buf_str(&a.text), "");
    ask_free(&a);
}

static void put_large(struct crew *c)
{
    struct line *l = caller_connect(&c->caller);
    char *value = mem_alloc(LARGE_BYTES);

    memset(value, 'l', LARGE_BYTES);
    for (unsigned i = 0; i < LARGE_KEYS; i++) {
        char key[8];
        snprintf(key, sizeof(key), "l%u", i);
        put_surely(l, bytes_of_str(key), bytes_of(value, LARGE_BYTES));
    }
    mem_free(value);
}

/* The member is killed under them. They come back with crew_start. */
static void crew_lose(struct crew *c)
{
    c->is_killed = true;
    peer_kill(c->peer);
    crew_close(c);
}

static _Atomic uint64_t *shared_counter(void)
{
    void *at =
        mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(at != MAP_FAILED);
    return at;
}

/* A thousand with TEST_EFFORT=10. */
TEST(images_are_installed_over_and_over_under_load)
{
    const uint64_t wanted = 100 * test_effort();
    struct peer p;
    struct crew c;
    struct arena arena = {0};
    struct pb_range_response response;
    char dir[4096];
    _Atomic uint64_t *installed = shared_counter();
    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    peer_open_ours(&p, dir);
    start_member(&p, test_seed(), installed);
    crew_open(&c, &p);
    put_large(&c);

    crew_start(&c);
    while (atomic_load(installed) < wanted)
        caller_turn(&c.caller, 100);
    crew_stop(&c);

    uint64_t told = 0, failed = 0;
    for (unsigned i = 0; i < WRITERS; i++) {
        told += c.writers[i].told;
        failed += c.writers[i].failed;
    }
    CHECK(told > wanted); /* it was at work, */
    CHECK(failed > 0);    /* and some were overtaken */
    crew_close(&c);
    peer_stop(&p);

    peer_start(&p, ""); /* the daemon finds what they have left */
    caller_open(&c.caller, &p);
    struct ask read = {.line = caller_connect(&c.caller)};
    ask_start(&read, "/etcdserverpb.KV/Range", &pb_range_request_schema,
              &(struct pb_range_request){.key = BYTES("w"), .range_end = BYTES("x")});
    ask_wait(&read);
    ask_read(&read, &pb_range_response_schema, &arena, &response);
    CHECK_EQ(response.kvs.count, WRITERS);
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK(number_in(response.kvs.at[i].value) >= c.writers[i].told);
    ask_free(&read);
    caller_close(&c.caller);
    arena_free(&arena);
    peer_stop(&p);
    peer_close(&p);
}

/* Whatever it was in the midst of: a copy, a record, a rename. */
TEST(a_member_that_is_killed_while_it_installs_images_keeps_its_word)
{
    struct peer p;
    struct crew c;
    struct rng rng;
    char dir[4096];
    uint64_t installs = 0;
    _Atomic uint64_t *installed = shared_counter();
    rng_seed(&rng, test_seed());
    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    peer_open_ours(&p, dir);
    start_member(&p, test_seed(), installed);
    crew_open(&c, &p);
    put_large(&c);

    for (unsigned round = 0; round < 6 * test_effort(); round++) {
        crew_start(&c);
        uint64_t wanted = atomic_load(installed) + rng_between(&rng, 1, 8);
        while (atomic_load(installed) < wanted)
            caller_turn(&c.caller, 20);
        caller_for_ms(&c.caller, rng_below(&rng, 40));
        crew_lose(&c);
        installs += atomic_load(installed);
        start_member(&p, rng_next(&rng), installed);
        caller_open(&c.caller, &p);
    }
    crew_start(&c);
    caller_for_ms(&c.caller, 300);
    crew_stop(&c);

    CHECK(installs > 6);
    crew_close(&c);
    peer_stop(&p);
    peer_close(&p);
}
