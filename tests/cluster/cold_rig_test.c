#include "cluster/cold_rig_test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"
#include "io/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVICT_EVERY_MS = 20, STATUS_MS_MAX = 1000 };

void cold_note_failure(struct cold *c, const char *what, struct ask *a)
{
    printf("%s: error %d, %s\n", what, a->code, buf_str(&a->text));
    c->failures++;
}

/* --- keys and values --- */

struct cold_key cold_key_of(uint32_t number)
{
    struct cold_key k;

    snprintf(k.text, sizeof(k.text), "cold/%08u", number);
    return k;
}

uint32_t cold_number_of(struct bytes key)
{
    uint32_t number = 0;

    CHECK_EQ(key.len, 13);
    for (size_t i = 5; i < key.len; i++)
        number = number * 10 + (uint32_t)(key.at[i] - '0');
    CHECK(number < COLD_KEYS);
    return number;
}

struct bytes cold_value_of(uint32_t number, uint32_t version, struct cold_value *out)
{
    uint64_t x = (uint64_t)number << 32 | version;

    for (size_t i = 0; i < ARRAY_LEN(out->words); i++) {
        out->words[i] = x;
        x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
    }
    return bytes_of((const uint8_t *)out->words, sizeof(out->words));
}

void cold_check_kv(const struct pb_key_value *kv, uint32_t number, int64_t version)
{
    struct cold_value v;

    CHECK_EQ(cold_number_of(kv->key), number);
    CHECK_EQ(kv->version, version);
    if (!bytes_equal(kv->value, cold_value_of(number, (uint32_t)version, &v)))
        test_fail(__FILE__, __LINE__, "the value of key %u is not that of its version %lld", number,
                  (long long)version);
}

/* --- members --- */

bool cold_ask_standing(struct cold *c, unsigned member, struct cold_standing *out)
{
    struct ask a = {.line = c->probe, .timeout_ns = STATUS_MS_MAX * NS_PER_MS};
    struct pb_status_response status;
    struct arena arena = {0};

    line_reconnect(c->probe, &c->fleet.members[member].address);
    ask_start(&a, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
              &(struct pb_empty){0});
    while (!ask_is_over(&a) && !c->probe->is_gone)
        caller_turn(&c->caller, 10);
    bool ok = ask_is_over(&a) && a.code == RPC_OK;
    if (ok) {
        ask_read(&a, &pb_status_response_schema, &arena, &status);
        *out = (struct cold_standing){status.header->member_id, status.leader, status.raft_term,
                                      status.header->revision};
    }
    ask_free(&a);
    line_close(c->probe);
    arena_free(&arena);
    return ok;
}

double cold_metric(struct cold *c, unsigned member, const char *name)
{
    const char *text = peer_run(&c->arena, "curl -sf http://127.0.0.1:%u/metrics | grep '^%s '",
                                (unsigned)c->fleet.members[member].client_port, name);

    return strtod(text + strlen(name), NULL);
}

uint64_t cold_disk_bytes(const struct cold *c)
{
    char path[64], line[256];
    uint64_t bytes = 0;

    snprintf(path, sizeof(path), "/proc/%d/io", (int)c->fleet.members[c->leader].pid);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, "read_bytes:", 11) == 0)
            bytes = strtoull(line + 11, NULL, 10);
    fclose(f);
    return bytes;
}

void cold_look(struct cold *c)
{
    if (!fleet_look(&c->fleet))
        test_fail(__FILE__, __LINE__, "%s", c->fleet.problem);
}

static bool find_leader(struct cold *c)
{
    struct cold_standing s;
    bool is_found = false;

    for (unsigned i = 0; i < COLD_MEMBERS; i++) {
        if (!cold_ask_standing(c, i, &s) || s.leader == 0)
            return false;
        if (s.id == s.leader) {
            c->leader = i;
            is_found = true;
        }
    }
    return is_found;
}

void cold_stop(struct cold *c, unsigned member)
{
    uint64_t until_ns = caller_now_ns(&c->caller) + COLD_WELL_MS_MAX * NS_PER_MS;

    fleet_stop(&c->fleet, member);
    while (c->fleet.members[member].pid > 0) {
        CHECK(caller_now_ns(&c->caller) < until_ns);
        cold_look(c);
        caller_for_ms(&c->caller, 10);
    }
}

void cold_restart(struct cold *c)
{
    uint64_t until_ns = caller_now_ns(&c->caller) + COLD_WELL_MS_MAX * NS_PER_MS;

    for (unsigned i = 0; i < COLD_MEMBERS; i++)
        if (c->fleet.members[i].pid > 0)
            cold_stop(c, i);
    for (unsigned i = 0; i < COLD_MEMBERS; i++)
        CHECK(fleet_start(&c->fleet, i));
    while (!find_leader(c)) {
        CHECK(caller_now_ns(&c->caller) < until_ns);
        cold_look(c);
        caller_for_ms(&c->caller, 50);
    }
}

/* Reads of the store are what is timed. Syncs of the log would add whatever other programs write to
 * this disk meanwhile. */
#define COLD_FLAGS "--unsafe-no-fsync"

/*
 * Other programs run on this machine, too, and time that they take is not the leader's. Where the
 * system schedules sessions as groups the priority is the group's. A user who may not have a better
 * one goes on without.
 */
static void raise_priority(void)
{
    FILE *group = fopen("/proc/self/autogroup", "we");

    setpriority(PRIO_PROCESS, 0, -10);
    if (group) {
        fprintf(group, "-10");
        fclose(group);
    }
}

void cold_open(struct cold *c, const char *program)
{
    struct fleet_options o = {.program = program,
                              .dir = test_tmp_dir(),
                              .flags = COLD_FLAGS,
                              .count = COLD_MEMBERS,
                              .election_ms = 1000};

    raise_priority(); /* the members inherit it */
    CHECK(fleet_open(&c->fleet, &o));
    CHECK_EQ(caller_init(&c->caller), ERR_OK);
    c->probe = caller_connect_to(&c->caller, &c->fleet.members[0].address);
    cold_restart(c);
}

void cold_close(struct cold *c)
{
    caller_close(&c->caller);
    fleet_close(&c->fleet);
    arena_free(&c->arena);
}

/* --- filling --- */

enum { FILLERS = 32, FILL_LINES = 8, TXN_PUTS = 128 };

struct fill {
    uint32_t *order; /* all keys' numbers, shuffled */
    uint32_t sent;
};

static void fill_some(struct ask *a)
{
    struct fill *f = a->context;
    struct pb_request_op ops[TXN_PUTS];
    struct pb_put_request puts[TXN_PUTS];
    struct cold_key keys[TXN_PUTS];
    struct cold_value values[TXN_PUTS];
    unsigned count = COLD_KEYS - f->sent < TXN_PUTS ? COLD_KEYS - f->sent : TXN_PUTS;
    struct pb_txn_request txn = {.success = {ops, count}};

    for (unsigned i = 0; i < count; i++) {
        uint32_t number = f->order[f->sent++];
        keys[i] = cold_key_of(number);
        puts[i] = (struct pb_put_request){.key = bytes_of_str(keys[i].text),
                                          .value = cold_value_of(number, 1, &values[i])};
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &puts[i]};
    }
    if (count > 0)
        ask_start(a, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
}

static void filled_some(struct ask *a)
{
    CHECK_STR(buf_str(&a->text), "");
    CHECK_EQ(a->code, RPC_OK);
    fill_some(a);
}

static void shuffle(uint32_t *numbers)
{
    struct rng rng;

    rng_seed(&rng, test_seed());
    for (uint32_t i = 0; i < COLD_KEYS; i++) {
        uint32_t to = (uint32_t)rng_below(&rng, i + 1);
        numbers[i] = numbers[to];
        numbers[to] = i;
    }
}

void cold_fill(struct cold *c)
{
    struct fill f = {.order = mem_alloc(COLD_KEYS * sizeof(uint32_t))};
    struct ask asks[FILLERS];
    struct line *lines[FILL_LINES];
    struct cold_standing s;

    shuffle(f.order);
    for (unsigned i = 0; i < FILL_LINES; i++)
        lines[i] = caller_connect_to(&c->caller, &c->fleet.members[c->leader].address);
    for (unsigned i = 0; i < FILLERS; i++) {
        asks[i] =
            (struct ask){.line = lines[i % FILL_LINES], .on_over = filled_some, .context = &f};
        fill_some(&asks[i]);
    }
    for (unsigned i = 0; i < FILLERS; i++) {
        ask_wait(&asks[i]);
        ask_free(&asks[i]);
    }
    for (unsigned i = 0; i < FILL_LINES; i++)
        line_close(lines[i]);
    CHECK(cold_ask_standing(c, c->leader, &s));
    c->filled = c->answered = s.revision;
    for (uint32_t i = 0; i < COLD_KEYS; i++)
        c->versions[i] = 1;
    mem_free(f.order);
}

/* --- eviction --- */

static void evictor_open(struct cold_evictor *e, const char *path)
{
    struct stat status;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    *e = (struct cold_evictor){.fd = open(path, O_RDONLY | O_CLOEXEC), .process = -1};
    if (e->fd < 0 || fstat(e->fd, &status) != 0)
        test_fail(__FILE__, __LINE__, "cannot open %s", path);
    e->bytes = (size_t)status.st_size;
    e->pages = (e->bytes + page - 1) / page;
    e->map = mmap(NULL, e->bytes, PROT_READ, MAP_SHARED, e->fd, 0);
    CHECK(e->map != MAP_FAILED);
    e->resident = mem_alloc(e->pages);
}

static void evictor_close(struct cold_evictor *e)
{
    munmap(e->map, e->bytes);
    close(e->fd);
    if (e->process >= 0)
        close(e->process);
    mem_free(e->resident);
}

static void evict(struct cold_evictor *e)
{
    if (e->process >= 0)
        CHECK(syscall(SYS_process_madvise, e->process, &e->mapped, 1ul, MADV_PAGEOUT, 0u) > 0);
    CHECK_EQ(fdatasync(e->fd), 0); /* dirty pages cannot be evicted */
    CHECK_EQ(posix_fadvise(e->fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    CHECK_EQ(mincore(e->map, e->bytes, e->resident), 0);
    for (size_t i = 0; i < e->pages; i++)
        e->left_pages += e->resident[i] & 1;
    e->evictions++;
}

void cold_need_eviction(struct arena *arena)
{
    struct cold_evictor e;
    const char *path = arena_printf(arena, "%s/evicted", test_tmp_dir());

    peer_run(arena, "dd if=/dev/urandom of=%s bs=64k count=16 conv=fsync status=none", path);
    evictor_open(&e, path);
    evict(&e);
    evictor_close(&e);
    unlink(path);
    if (e.left_pages > 0)
        SKIP("pages of files in %s cannot be evicted from memory", test_tmp_dir());
}

static void *evict_all_the_time(void *context)
{
    struct cold_evictor *e = context;
    const struct timespec a_moment = {.tv_nsec = EVICT_EVERY_MS * (long)NS_PER_MS};

    while (!e->is_over) {
        evict(e);
        nanosleep(&a_moment, NULL);
    }
    return NULL;
}

static void open_map_of(struct cold_evictor *e, struct arena *arena, pid_t pid, const char *path)
{
    uintptr_t low, high;

    const char *map = peer_run(arena, "grep '%s$' /proc/%d/maps", path, (int)pid);
    CHECK_EQ(sscanf(map, "%" SCNxPTR "-%" SCNxPTR, &low, &high), 2);
    e->mapped = (struct iovec){(void *)low, high - low}; /* NOLINT(performance-no-int-to-ptr) */
    e->process = (int)syscall(SYS_pidfd_open, pid, 0u);
    CHECK(e->process >= 0);
    if (syscall(SYS_process_madvise, e->process, &e->mapped, 1ul, MADV_PAGEOUT, 0u) < 0)
        SKIP("pages of another process cannot be evicted: %s", strerror(errno));
}

void cold_evict(struct cold *c, struct cold_evictor *e, const char *store, bool keeps_pages)
{
    const char *path = arena_printf(&c->arena, "%s/m%u/%s", c->fleet.dir, c->leader + 1, store);

    evictor_open(e, path);
    if (keeps_pages)
        open_map_of(e, &c->arena, c->fleet.members[c->leader].pid, path);
    CHECK_EQ(pthread_create(&e->thread, NULL, evict_all_the_time, e), 0);
}

void cold_evict_end(struct cold_evictor *e)
{
    e->is_over = true;
    CHECK_EQ(pthread_join(e->thread, NULL), 0);
    evictor_close(e);
}
