#include "server/slow.h"

#include "base/log_trace.h"
#include "config/config.h"
#include "io/clock.h"
#include "server/server_int.h"

static void tell_of_slow_apply(struct server *s, const struct apply_effects *e, int64_t took_ns)
{
    struct buf request = {0}, response = {0};

    apply_describe(s->state.apply, &request);
    if (e->reply.total > 0)
        buf_printf(&response, "size:%llu", (unsigned long long)e->reply.total);
    LOG_LINE(s->logger, LOG_WARN, "apply request took too long", LOG_NS("took", took_ns),
             LOG_NS("expected-duration", s->config->warning_apply_ns), LOG_STR("prefix", ""),
             LOG_BYTES("request", buf_bytes(&request)), LOG_BYTES("response", buf_bytes(&response)),
             LOG_U64("index", e->index), LOG_U64("changes", e->changes.count));
    buf_free(&request);
    buf_free(&response);
}

static void tell_of_failure(struct server *s, const struct apply_effects *e, int64_t took_ns)
{
    struct buf request = {0};

    apply_describe(s->state.apply, &request);
    LOG_LINE(s->logger, LOG_WARN, "failed to apply request", LOG_NS("took", took_ns),
             LOG_BYTES("request", buf_bytes(&request)), LOG_STR("response", ""),
             LOG_STR("error", result_text(e->result)));
    buf_free(&request);
}

/* What was compacted before is no failure, in etcd's eyes. */
void slow_applied(struct server *s, const struct apply_effects *e, uint64_t began_ns,
                  uint64_t took_ns)
{
    struct slow *slow = &s->metrics->slow;
    bool is_well = e->result == RESULT_OK || e->result == RESULT_COMPACTED;

    slow->apply_began_ns = began_ns;
    if ((int64_t)took_ns > s->config->warning_apply_ns) {
        slow->applies++;
        if (log_takes(s->logger, LOG_WARN, LOG_CALLER))
            tell_of_slow_apply(s, e, (int64_t)took_ns);
    }
    if (!is_well && e->kind != APPLY_KIND_NONE && log_takes(s->logger, LOG_WARN, LOG_CALLER))
        tell_of_failure(s, e, (int64_t)took_ns);
}

void slow_answered(struct server *s, struct api_call *c, const struct apply_effects *e)
{
    const struct stages *stages = &s->metrics->slow.stages;

    if (s->facts.now_ns - c->started_ns <= LOG_TRACE_MS * NS_PER_MS)
        return;
    c->stages = (struct api_stages){
        .proposed_ns = stages_when_ns(stages, STAGE_PROPOSED, e->id),
        .logged_ns = stages_when_ns(stages, STAGE_LOGGED, e->index),
        .committed_ns = stages_when_ns(stages, STAGE_COMMITTED, e->index),
        .apply_ns = s->metrics->slow.apply_began_ns,
        .applied_ns = s->facts.now_ns,
        .revision = e->revision,
    };
}

void slow_round_retried(struct server *s)
{
    log_warn(s->logger, "waiting for ReadIndex response took too long, retrying",
             LOG_U64("sent-request-id", s->pending.read_round),
             LOG_NS("retry-timeout", (int64_t)(PENDING_READ_RETRY_MS * NS_PER_MS)));
}

void slow_round_failed(struct server *s)
{
    log_warn(s->logger,
             "timed out waiting for read index response (local node might have slow network)",
             LOG_NS("timeout", (int64_t)(s->pending.o.limit_ms * NS_PER_MS)));
}

/* Many reads share a round, and it is told of once: of the first of them. */
void slow_confirmed(struct server *s, const struct api_call *c)
{
    struct slow *slow = &s->metrics->slow;
    uint64_t now_ns = s->facts.now_ns;

    if (now_ns - c->round.asked_ns <= LOG_TRACE_MS * NS_PER_MS ||
        c->round.asked_ns == slow->told_asked_ns || !log_takes(s->logger, LOG_INFO, LOG_CALLER))
        return;
    struct log_trace t = {.operation = "linearizableReadLoop", .began_ns = c->round.asked_ns};

    slow->told_asked_ns = c->round.asked_ns;
    log_trace_detail_number(&t, "readStateIndex", (int64_t)c->started_index);
    log_trace_detail_number(&t, "appliedIndex", (int64_t)c->round.applied_index);
    log_trace_step(&t, "read index received", c->round.confirmed_ns);
    log_trace_step(&t, "applied index is now lower than readState.Index", now_ns);
    log_trace_write(&t, s->logger, ++slow->traces, now_ns);
}
