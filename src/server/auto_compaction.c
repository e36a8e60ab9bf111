#include "server/auto_compaction.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/logger.h"
#include "base/mem.h"

#define HOUR_NS     (3600 * NS_PER_S)
#define REVISION_NS (300 * NS_PER_S) /* between two, where revisions are counted */
#define PIECES      10               /* samples in a retention, at least */

static uint64_t at_most_an_hour(uint64_t ns)
{
    return ns < HOUR_NS ? ns : HOUR_NS;
}

static void timer_gone_off(struct timer *t)
{
    struct auto_compaction *a = container_of(t, struct auto_compaction, timer);

    assert(a->step == AUTO_COMPACTION_WAITING);
    a->step = AUTO_COMPACTION_DUE;
}

/* --- samples --- */

static int64_t oldest_sample(const struct auto_compaction *a)
{
    assert(a->sample_count > 0);

    return a->samples[a->oldest];
}

/* Only before the first one is dropped: until then they begin at the front. */
static void grow_samples(struct auto_compaction *a)
{
    assert(a->oldest == 0);

    size_t cap = a->sample_cap ? 2 * a->sample_cap : PIECES + 1;
    a->sample_cap = cap < a->sample_max ? cap : a->sample_max;
    a->samples = mem_resize(a->samples, a->sample_cap, sizeof(*a->samples));
}

static void add_sample(struct auto_compaction *a, int64_t revision)
{
    assert(a->sample_max > 0);

    if (a->sample_count == a->sample_max) {
        a->oldest = (a->oldest + 1) % a->sample_max;
        a->sample_count--;
    }
    if (a->sample_count == a->sample_cap)
        grow_samples(a);
    a->samples[(a->oldest + a->sample_count++) % a->sample_cap] = revision;
}

/* --- time --- */

/* Whatever was missed while nobody came is lost: samples of one moment would pass for old ones. */
static void wait_for_next(struct auto_compaction *a, int64_t revision)
{
    if (!a->o.counts_revisions)
        add_sample(a, revision);
    a->step = AUTO_COMPACTION_WAITING;
    timer_start(a->o.clock, &a->timer, a->interval_ns);
}

void auto_compaction_init(struct auto_compaction *a, const struct auto_compaction_options *options,
                          int64_t revision)
{
    uint64_t retention = (uint64_t)options->retention;

    *a = (struct auto_compaction){.o = *options, .timer.on_time = timer_gone_off};
    if (options->retention == 0)
        return;
    assert(options->retention > 0);
    if (options->counts_revisions) {
        a->interval_ns = REVISION_NS;
    } else {
        a->interval_ns = at_most_an_hour(retention) / PIECES;
        if (a->interval_ns < AUTO_COMPACTION_INTERVAL_MIN_NS)
            a->interval_ns = AUTO_COMPACTION_INTERVAL_MIN_NS;
        a->sample_max = retention / a->interval_ns + 1;
        a->pause_ns = retention;
    }
    a->succeeded_ns = clock_now_ns(options->clock);
    wait_for_next(a, revision);
}

void auto_compaction_stop(struct auto_compaction *a)
{
    if (a->o.clock)
        timer_stop(a->o.clock, &a->timer);
}

void auto_compaction_free(struct auto_compaction *a)
{
    mem_free(a->samples);
    a->samples = NULL;
}

/* --- one compaction --- */

/* Where to compact now; 0: nowhere. */
static int64_t due_revision(const struct auto_compaction *a, int64_t revision)
{
    int64_t at;

    if (a->o.counts_revisions)
        at = revision - a->o.retention;
    else if (clock_now_ns(a->o.clock) - a->succeeded_ns >= a->pause_ns)
        at = oldest_sample(a);
    else
        return 0;
    return at > 0 && at != a->compacted ? at : 0;
}

static void begin(struct auto_compaction *a, int64_t revision)
{
    a->request = (struct pb_compaction_request){.revision = revision};
    a->step = AUTO_COMPACTION_WANTED;
    a->id = 0;
    a->began_ns = clock_now_ns(a->o.clock);
    if (a->o.counts_revisions) {
        log_info(a->o.logger, "starting auto revision compaction", LOG_I64("revision", revision),
                 LOG_I64("revision-compaction-retention", a->o.retention));
        return;
    }
    a->pause_ns = at_most_an_hour((uint64_t)a->o.retention); /* the first time it was all of it */
    log_info(a->o.logger, "starting auto periodic compaction", LOG_I64("revision", revision),
             LOG_NS("compact-period", a->o.retention));
}

static struct log_field retention_field(const struct auto_compaction *a)
{
    return a->o.counts_revisions ? LOG_I64("revision-compaction-retention", a->o.retention)
                                 : LOG_NS("compact-period", a->o.retention);
}

static void say_success(const struct auto_compaction *a, uint64_t now_ns)
{
    log_info(a->o.logger,
             a->o.counts_revisions ? "completed auto revision compaction"
                                   : "completed auto periodic compaction",
             LOG_I64("revision", a->request.revision), retention_field(a),
             LOG_NS("took", (int64_t)(now_ns - a->began_ns)));
}

static void say_failure(const struct auto_compaction *a, enum result why)
{
    log_warn(a->o.logger,
             a->o.counts_revisions ? "failed auto revision compaction"
                                   : "failed auto periodic compaction",
             LOG_I64("revision", a->request.revision), retention_field(a),
             LOG_NS("retry-interval", (int64_t)a->interval_ns), LOG_STR("error", result_text(why)));
}

/* Somebody else may have compacted beyond it: then there is nothing left to do. */
static void end(struct auto_compaction *a, enum result result)
{
    uint64_t now_ns = clock_now_ns(a->o.clock);

    if (result != RESULT_OK && result != RESULT_COMPACTED) {
        say_failure(a, result);
        return;
    }
    a->compacted = a->request.revision;
    a->succeeded_ns = now_ns;
    say_success(a, now_ns);
}

static bool is_too_late(const struct auto_compaction *a)
{
    return clock_now_ns(a->o.clock) - a->began_ns >= a->o.limit_ms * NS_PER_MS;
}

void auto_compaction_work(struct auto_compaction *a, int64_t revision)
{
    int64_t at;

    switch (a->step) {
    case AUTO_COMPACTION_OFF:
    case AUTO_COMPACTION_WAITING:
        return;
    case AUTO_COMPACTION_DUE:
        at = a->o.facts->is_leader ? due_revision(a, revision) : 0;
        if (at > 0)
            begin(a, at);
        else
            wait_for_next(a, revision);
        return;
    case AUTO_COMPACTION_WANTED:
    case AUTO_COMPACTION_ASKED:
        if (!is_too_late(a))
            return;
        end(a, RESULT_TIMEOUT);
        wait_for_next(a, revision);
        return;
    case AUTO_COMPACTION_OVER:
        end(a, a->result);
        wait_for_next(a, revision);
        return;
    }
    unreachable();
}

bool auto_compaction_take_proposal(struct auto_compaction *a, struct pb_internal_raft_request *out)
{
    if (a->step != AUTO_COMPACTION_WANTED)
        return false;
    a->step = AUTO_COMPACTION_ASKED;
    *out = (struct pb_internal_raft_request){.compaction = &a->request};
    return true;
}

void auto_compaction_proposed(struct auto_compaction *a, uint64_t id)
{
    assert(a->step == AUTO_COMPACTION_ASKED);
    assert(a->id == 0);
    a->id = id;
}

void auto_compaction_applied(struct auto_compaction *a, uint64_t id, enum result result)
{
    if (a->step != AUTO_COMPACTION_ASKED || id != a->id)
        return;
    a->result = result;
    a->step = AUTO_COMPACTION_OVER;
}

void auto_compaction_check(const struct auto_compaction *a)
{
    assert((a->step == AUTO_COMPACTION_OFF) == (a->o.retention == 0));
    assert((a->step == AUTO_COMPACTION_WAITING) == timer_is_set(&a->timer));
    assert(a->sample_count <= a->sample_max);
    assert(a->sample_count <= a->sample_cap);
    assert((a->step == AUTO_COMPACTION_OFF || a->o.counts_revisions) == (a->sample_count == 0));
    for (size_t i = 1; i < a->sample_count; i++)
        assert(a->samples[(a->oldest + i) % a->sample_cap] >=
               a->samples[(a->oldest + i - 1) % a->sample_cap]);
}
