/*
 * slow: what took too long, told with where the time went.
 *
 *     apply request took too long    an entry: longer than --warning-apply-duration
 *     failed to apply request        one that came to nothing
 *     waiting for ReadIndex response took too long, retrying      and: timed out ...
 *     trace[N] linearizableReadLoop  a round of reads that took more than LOG_TRACE_MS
 *
 * What is told of a call as a whole api does (api/trace.c); it is handed the moments at which its
 * proposal, or its round, had got how far.
 */
#pragma once

#include "base/logger.h"
#include "server/stages.h"

struct api_call;
struct apply_effects;
struct server;

/* All zeroes before. */
struct slow {
    struct stages stages;
    uint64_t apply_began_ns; /* of the entry that was applied last */
    uint64_t told_asked_ns;  /* the last round of reads that was told of */
    uint64_t traces;         /* so far */
    uint64_t applies;        /* that took too long */
};

/* An entry was applied; its effects are there. */
void slow_applied(struct server *s, const struct apply_effects *e, uint64_t began_ns,
                  uint64_t took_ns);

/* Whoever waited for it is about to hear of it: notes its stages in the call, if it was slow. */
void slow_answered(struct server *s, struct api_call *c, const struct apply_effects *e);

/* A round of reads is asked for again, or came to nothing in all its time. */
void slow_round_retried(struct server *s);
void slow_round_failed(struct server *s);

/* A read is about to be served. */
void slow_confirmed(struct server *s, const struct api_call *c);
