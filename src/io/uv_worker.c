#include "base/assert.h"
#include "base/list.h"
#include "io/uv_int.h"

static void report(struct event *e)
{
    struct job *j = container_of(e, struct job, event);

    container_of(j->workers, struct real_workers, base)->in_flight--;
    j->on_done(j);
}

static void run_on_thread(struct event *e)
{
    struct job *j = container_of(e, struct job, event);
    struct real_workers *w = container_of(j->workers, struct real_workers, base);

    j->run(j);
    e->run = report;
    inbox_post(w->inbox, e);
}

static void submit(struct workers *base, struct job *j)
{
    struct real_workers *w = container_of(base, struct real_workers, base);

    assert(j->run);
    assert(j->on_done);
    w->in_flight++;
    j->workers = base;
    j->event.run = run_on_thread;
    crew_submit(w->crew, &j->event);
}

static uint64_t now_ns(struct workers *base)
{
    (void)base;
    return uv_hrtime();
}

static uint64_t faults(struct workers *base)
{
    (void)base;
    return thread_faults();
}

enum err real_workers_open(struct real_workers *w, struct inbox *inbox, const char *name,
                           unsigned threads, int nice)
{
    *w = (struct real_workers){.base = {.submit = submit, .now_ns = now_ns, .faults = faults},
                               .inbox = inbox};
    w->crew = &w->own;
    return crew_open(&w->own, name, threads, nice);
}

void real_workers_share(struct real_workers *w, struct inbox *inbox, struct real_workers *of)
{
    *w = (struct real_workers){
        .base = {.submit = submit, .now_ns = now_ns, .faults = faults},
        .inbox = inbox,
        .crew = of->crew,
    };
}

void real_workers_close(struct real_workers *w)
{
    assert(w->in_flight == 0);

    crew_close(&w->own);
}
