#include "io/fake_world.h"

#include "base/assert.h"
#include "base/mem.h"

static const uint64_t WALL_AT_START_NS = 1700000000 * NS_PER_S;
static const struct fake_delay DELAY = {.min_ns = 10000, .max_ns = 5 * NS_PER_MS};

/* Where the process is: ahead of the world while it is busy. */
static uint64_t world_now_ns(const struct fake_clock *c)
{
    return c->busy_until_ns > c->time->now_ns ? c->busy_until_ns : c->time->now_ns;
}

static uint64_t shown_ns(const struct fake_clock *c)
{
    uint64_t passed_ns = world_now_ns(c) - c->world_ns;

    return c->own_ns + passed_ns / FAKE_CLOCK_RATE * c->rate +
           passed_ns % FAKE_CLOCK_RATE * c->rate / FAKE_CLOCK_RATE;
}

static uint64_t now_ns(struct clock *base)
{
    struct fake_clock *c = container_of(base, struct fake_clock, base);

    if (c->look_ns > 0)
        c->busy_until_ns = world_now_ns(c) + c->look_ns;
    return shown_ns(c);
}

/* How long it was at work is not told in this world. */
static uint64_t busy_ns(struct clock *base)
{
    (void)base;
    return 0;
}

/* Nor are there any disks behind memory. */
static uint64_t faults(struct clock *base)
{
    (void)base;
    return 0;
}

static uint64_t wall_ns(struct clock *base)
{
    struct fake_clock *c = container_of(base, struct fake_clock, base);

    return WALL_AT_START_NS + shown_ns(c) + (uint64_t)c->wall_offset_ns;
}

/* Not before it shows this, so rounded up. */
static uint64_t world_ns_at(const struct fake_clock *c, uint64_t own_ns)
{
    uint64_t left_ns = own_ns > c->own_ns ? own_ns - c->own_ns : 0;
    uint64_t whole = left_ns / c->rate, rest = left_ns % c->rate;

    if (whole > UINT64_MAX / FAKE_CLOCK_RATE / 2)
        return UINT64_MAX;
    return c->world_ns + whole * FAKE_CLOCK_RATE + (rest * FAKE_CLOCK_RATE + c->rate - 1) / c->rate;
}

static void set_alarm(struct clock *base, uint64_t at_ns)
{
    struct fake_clock *c = container_of(base, struct fake_clock, base);

    if (c->rate == 0)
        fake_time_cancel(c->time, &c->alarm); /* it is set when the clock goes on */
    else
        fake_time_at(c->time, &c->alarm, world_ns_at(c, at_ns));
}

static void on_alarm(struct fake_task *t)
{
    clock_alarmed(&container_of(t, struct fake_clock, alarm)->base);
}

void fake_clock_init(struct fake_clock *c, struct fake_time *time, struct inbox *inbox)
{
    static const struct clock_ops ops = {
        .now_ns = now_ns,
        .busy_ns = busy_ns,
        .wall_ns = wall_ns,
        .faults = faults,
        .set_alarm = set_alarm,
    };

    *c = (struct fake_clock){.time = time,
                             .alarm.run = on_alarm,
                             .rate = FAKE_CLOCK_RATE,
                             .world_ns = time->now_ns,
                             .own_ns = time->now_ns};
    clock_init(&c->base, &ops, inbox);
}

void fake_clock_free(struct fake_clock *c)
{
    fake_time_cancel(c->time, &c->alarm);
    clock_free(&c->base);
}

void fake_clock_set_rate(struct fake_clock *c, uint64_t rate)
{
    uint64_t own_ns = shown_ns(c);

    c->world_ns = world_now_ns(c);
    c->own_ns = own_ns;
    c->rate = rate;
    if (c->base.alarm_ns != UINT64_MAX)
        set_alarm(&c->base, c->base.alarm_ns);
}

void fake_clock_restart(struct fake_clock *c, uint64_t now_ns)
{
    assert(!heap_first(&c->base.timers));

    c->wall_offset_ns += (int64_t)(shown_ns(c) - now_ns); /* that one is kept by a battery */
    c->world_ns = world_now_ns(c);
    c->own_ns = now_ns;
}

bool fake_clock_is_busy(const struct fake_clock *c)
{
    return c->busy_until_ns > c->time->now_ns;
}

static void fill(struct entropy *base, void *out, size_t len)
{
    struct fake_entropy *e = container_of(base, struct fake_entropy, base);
    uint8_t *bytes = out;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)rng_next(&e->rng);
}

void fake_entropy_init(struct fake_entropy *e, uint64_t seed)
{
    e->base.fill = fill;
    rng_seed(&e->rng, seed);
}

void fake_clock_crash(struct fake_clock *c)
{
    fake_time_cancel(c->time, &c->alarm);
    heap_free(&c->base.timers);
    clock_init(&c->base, c->base.ops, c->base.inbox);
}

struct fake_job {
    struct fake_task task;
    struct list link;
    struct job *job;
};

static void report_job(struct event *e)
{
    struct job *j = container_of(e, struct job, event);

    j->on_done(j);
}

static void run_job(struct fake_task *t)
{
    struct fake_job *f = container_of(t, struct fake_job, task);
    struct job *j = f->job;

    list_remove(&f->link);
    mem_free(f);
    j->run(j);
    j->event.run = report_job;
    inbox_post(container_of(j->workers, struct fake_workers, base)->inbox, &j->event);
}

static void hold_job(struct fake_workers *w, struct fake_job *f)
{
    if (w->hung_until_ns == FAKE_DISK_FOR_EVER)
        fake_time_cancel(w->time, &f->task);
    else if (f->task.due_ns < w->hung_until_ns)
        fake_time_at(w->time, &f->task, w->hung_until_ns);
}

static void submit_job(struct workers *base, struct job *j)
{
    struct fake_workers *w = container_of(base, struct fake_workers, base);
    struct fake_job *f = mem_new(struct fake_job);

    assert(j->run);
    assert(j->on_done);
    assert(!j->event.queued);
    j->workers = base;
    f->job = j;
    f->task.run = run_job;
    list_init(&f->link);
    list_push_back(&w->jobs, &f->link);
    fake_time_after(w->time, &f->task, w->delay);
    hold_job(w, f);
}

void fake_workers_hang(struct fake_workers *w, uint64_t until_ns)
{
    w->hung_until_ns = until_ns;
    LIST_FOREACH (link, &w->jobs) {
        struct fake_job *f = container_of(link, struct fake_job, link);
        if (!heap_has(&f->task.node))
            fake_time_after(w->time, &f->task, w->delay);
        hold_job(w, f);
    }
}

static uint64_t workers_now_ns(struct workers *base)
{
    return container_of(base, struct fake_workers, base)->time->now_ns;
}

void fake_workers_init(struct fake_workers *w, struct fake_time *time, struct inbox *inbox)
{
    *w = (struct fake_workers){.base = {.submit = submit_job, .now_ns = workers_now_ns},
                               .time = time,
                               .inbox = inbox,
                               .delay = DELAY};
    list_init(&w->jobs);
}

void fake_workers_crash(struct fake_workers *w)
{
    w->hung_until_ns = 0;
    for (struct list *link; (link = list_pop_front(&w->jobs));) {
        struct fake_job *f = container_of(link, struct fake_job, link);
        fake_time_cancel(w->time, &f->task);
        mem_free(f);
    }
}

void fake_workers_finish(struct fake_workers *w)
{
    while (!list_empty(&w->jobs)) {
        struct fake_job *f = container_of(w->jobs.next, struct fake_job, link);
        fake_time_cancel(w->time, &f->task);
        run_job(&f->task);
    }
}

struct fake_lookup {
    struct fake_task task;
    struct list link;
    struct lookup *lookup;
};

static void report_lookup(struct event *e)
{
    struct lookup *l = container_of(e, struct lookup, event);

    l->on_done(l);
}

static void find_names(const struct fake_resolver *r, struct lookup *l)
{
    struct net_address address;

    l->count = 0;
    if (net_address_of_host(l->host, 0, &address) != ERR_OK)
        return;
    for (size_t i = 0; i < r->known_count && l->count < LOOKUP_NAMES_MAX; i++) {
        size_t len = strlen(r->known[i].name);
        if (!net_address_equal(&r->known[i].address, &address) || len > LOOKUP_NAME_BYTES_MAX)
            continue;
        memcpy(l->names[l->count++], r->known[i].name, len + 1);
    }
}

static void find_addresses(const struct fake_resolver *r, struct lookup *l)
{
    l->count = net_address_of_host(l->host, l->port, &l->found[0]) == ERR_OK;
    for (size_t i = 0; i < r->known_count && l->count < LOOKUP_ADDRESSES_MAX; i++) {
        if (strcmp(r->known[i].name, l->host) != 0)
            continue;
        l->found[l->count] = r->known[i].address;
        l->found[l->count++].port = l->port;
    }
}

static void finish_lookup(struct fake_task *t)
{
    struct fake_lookup *f = container_of(t, struct fake_lookup, task);
    struct lookup *l = f->lookup;
    struct fake_resolver *r = container_of(l->resolver, struct fake_resolver, base);

    list_remove(&f->link);
    mem_free(f);
    if (l->wants_names)
        find_names(r, l);
    else
        find_addresses(r, l);
    l->err = l->count > 0 ? ERR_OK : ERR_NOT_FOUND;
    l->event.run = report_lookup;
    inbox_post(r->inbox, &l->event);
}

static void start_lookup(struct resolver *base, struct lookup *l)
{
    struct fake_resolver *r = container_of(base, struct fake_resolver, base);
    struct fake_lookup *f = mem_new(struct fake_lookup);

    assert(l->on_done);
    l->resolver = base;
    f->lookup = l;
    f->task.run = finish_lookup;
    list_init(&f->link);
    list_push_back(&r->lookups, &f->link);
    fake_time_after(r->time, &f->task, r->delay);
}

void fake_resolver_init(struct fake_resolver *r, struct fake_time *time, struct inbox *inbox)
{
    *r = (struct fake_resolver){
        .base.start = start_lookup, .time = time, .inbox = inbox, .delay = DELAY};
    list_init(&r->lookups);
    fake_resolver_add(r, "localhost", "127.0.0.1");
}

void fake_resolver_crash(struct fake_resolver *r)
{
    for (struct list *link; (link = list_pop_front(&r->lookups));) {
        struct fake_lookup *f = container_of(link, struct fake_lookup, link);
        fake_time_cancel(r->time, &f->task);
        mem_free(f);
    }
}

void fake_resolver_add(struct fake_resolver *r, const char *name, const char *ip)
{
    assert(r->known_count < FAKE_HOSTS_MAX);

    struct fake_known_host *h = &r->known[r->known_count++];
    h->name = name;
    enum err e = net_address_of_host(ip, 0, &h->address);
    assert(e == ERR_OK);
}

struct fake_world *fake_world_new(uint64_t seed)
{
    struct fake_world *w = mem_new(struct fake_world);

    fake_time_init(&w->time, seed);
    inbox_init(&w->inbox, NULL, NULL);
    fake_clock_init(&w->clock, &w->time, &w->inbox);
    fake_entropy_init(&w->entropy, rng_next(&w->time.rng));
    fake_workers_init(&w->workers, &w->time, &w->inbox);
    fake_workers_init(&w->store_worker, &w->time, &w->inbox);
    fake_resolver_init(&w->resolver, &w->time, &w->inbox);
    w->disk = fake_disk_new(
        &w->time, &w->inbox,
        &(struct fake_disk_options){.delay = DELAY, .write_back_percent = 10, .fds = &w->fds});
    w->wire = fake_wire_new(&w->time, &(struct fake_wire_options){.delay = DELAY});
    w->io = (struct io){
        .inbox = &w->inbox,
        .clock = &w->clock.base,
        .entropy = &w->entropy.base,
        .disk = fake_disk_seam(w->disk),
        .net = fake_wire_add_host(w->wire, &w->inbox, "10.0.0.1"),
        .resolver = &w->resolver.base,
        .workers = &w->workers.base,
        .store_worker = &w->store_worker.base,
        .store_readers = &w->workers.base,
        .handshakes = &w->workers.base,
    };
    fake_wire_limit(w->io.net, &w->fds);
    return w;
}

void fake_world_free(struct fake_world *w)
{
    fake_clock_free(&w->clock);
    fake_disk_free(w->disk);
    fake_wire_free(w->wire);
    fake_time_free(&w->time);
    mem_free(w);
}

const struct io *fake_world_io(struct fake_world *w)
{
    return &w->io;
}

bool fake_world_step(struct fake_world *w)
{
    return inbox_drain(&w->inbox, 1) > 0 || fake_time_step(&w->time);
}
