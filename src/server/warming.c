#include "server/warming.h"

#include "base/assert.h"

void warming_init(struct warming *w, struct clock *clock, struct workers *workers)
{
    *w = (struct warming){.clock = clock, .workers = workers};
}

static void give_up(struct warming_job *j)
{
    mvcc_warmup_drop(&j->warmup);
    j->is_busy = false;
}

void warming_free(struct warming *w)
{
    for (size_t i = 0; i < WARMING_THREADS; i++)
        if (w->jobs[i].is_busy)
            give_up(&w->jobs[i]);
}

void warming_stop(struct warming *w)
{
    timer_stop(w->clock, &w->timer);
}

/* --- when it is cold --- */

/* Not before the first turn in which slices can be served: a member that checks its store before it
 * serves waits for the disk, and nobody waits for it. */
void warming_chill(struct warming *w)
{
    if (w->turn_began_ns == 0)
        return;
    w->cold_until_ns = clock_now_ns(w->clock) + WARMING_COLD_MS * NS_PER_MS;
    w->times_cold += !w->is_cold;
    w->is_cold = true;
    mvcc_set_cold(w->mvcc, true);
}

/* True if there were some since it was asked last. */
static bool has_faulted(struct warming *w)
{
    uint64_t faults = clock_faults(w->clock);
    bool some = faults != w->faults;

    w->faults = faults;
    return some;
}

/* A slice that has met faults ends at once, and goes on behind a worker. */
bool warming_is_late(struct warming *w, unsigned us)
{
    uint64_t now_ns = clock_now_ns(w->clock);
    bool is_suspect = now_ns - w->looked_ns >= WARMING_SUSPECT_US * 1000ull;

    w->looked_ns = now_ns;
    if (is_suspect && has_faulted(w)) {
        warming_chill(w);
        return true;
    }
    return now_ns - w->turn_began_ns >= us * 1000ull;
}

static bool is_late(void *context)
{
    return warming_is_late(context, TURN_SLICES_US);
}

void warming_turn(struct warming *w, uint64_t now_ns)
{
    w->looked_ns = w->turn_began_ns = now_ns;
}

void warming_turn_ended(struct warming *w, uint64_t took_ns)
{
    if (took_ns >= WARMING_SUSPECT_US * 1000ull && has_faulted(w) && w->mvcc)
        warming_chill(w);
}

void warming_set_state(struct warming *w, struct mvcc *mvcc)
{
    if (w->mvcc) { /* nobody would serve those who still read it */
        mvcc_set_cold(w->mvcc, false);
        mvcc_set_pace(w->mvcc, NULL, NULL);
    }
    w->mvcc = mvcc;
    mvcc_set_pace(mvcc, is_late, w);
    mvcc_set_cold(mvcc, w->is_cold);
    w->faults = clock_faults(w->clock); /* those of opening it do not count */
}

/* --- workers --- */

static void read_ahead(struct job *job)
{
    struct warming_job *j = container_of(job, struct warming_job, job);
    uint64_t before = job_faults(job);

    mvcc_warmup_read(&j->warmup);
    j->faults = job_faults(job) - before;
}

static void was_read(struct job *job)
{
    struct warming_job *j = container_of(job, struct warming_job, job);
    struct warming *w = j->warming;

    assert(j->is_busy);
    j->is_busy = false;
    mvcc_warmed(&j->warmup);
    if (j->faults > 0 && w->is_cold)
        w->cold_until_ns = clock_now_ns(w->clock) + WARMING_COLD_MS * NS_PER_MS;
}

static void submit(struct warming *w, struct warming_job *j)
{
    j->warming = w;
    j->job = (struct job){.run = read_ahead, .on_done = was_read};
    j->is_busy = true;
    w->warmups++;
    job_submit(w->workers, &j->job);
}

void warming_some(struct warming *w)
{
    if (!w->is_cold)
        return;
    if (clock_now_ns(w->clock) >= w->cold_until_ns) {
        w->is_cold = false;
        mvcc_set_cold(w->mvcc, false);
        return;
    }
    for (size_t i = 0; i < WARMING_THREADS; i++) {
        struct warming_job *j = &w->jobs[i];
        if (!j->is_busy && mvcc_take_warmup(w->mvcc, i == 0, &j->warmup))
            submit(w, j);
    }
}

bool warming_is_busy(const struct warming *w)
{
    for (size_t i = 0; i < WARMING_THREADS; i++)
        if (w->jobs[i].is_busy)
            return true;
    return false;
}

static void go_on(struct timer *t)
{
    (void)t; /* it made the inbox wake us: that was all */
}

void warming_come_back(struct warming *w)
{
    w->timer.on_time = go_on;
    if (!timer_is_set(&w->timer))
        timer_start(w->clock, &w->timer, WARMING_PAUSE_US * 1000ull);
}
