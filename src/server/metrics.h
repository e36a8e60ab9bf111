/*
 * metrics: what is counted, for whoever watches over the server.
 *
 * Rooms count what they do in plain fields of their own, and can be asked (x_stats). What only the
 * turn sees, since it has the clock, is counted here. A scrape asks every room for its numbers, in
 * one go: nothing is walked that grows with keys, watchers or leases, and nothing is locked, since
 * all of it belongs to the core thread. How the process is doing in the system's eyes is found out
 * by a worker first, and a worker writes the numbers down, which takes ten times as long as to ask
 * for them, and compressing the text even longer.
 *
 *     GET /metrics --> api: API_METRICS --> metrics_need --> a worker: process.h
 *                  --> metrics_serve: metrics_gather --> a worker: exposition.h, gzip.h
 *                  --> metrics_serve: api_measured
 *
 * Names, types, labels, buckets and help texts are etcd's. Why they are as they are:
 * docs/decisions/metrics.md.
 *
 * Promises   1. Every need is answered, or was forgotten.
 *            2. Requests that come while a look at the process is under way share the next one, and
 *               what is written then: once for each form that one of them asks for.
 * Leans on   every room's statistics; exposition.h for how they are written.
 */
#pragma once

#include "api/api.h"
#include "io/process.h"
#include "io/worker.h"
#include "server/exposition.h"
#include "server/slow.h"

struct server;

/* What is being done for those who wait. */
enum metrics_step {
    METRICS_IDLE,
    METRICS_LOOKING, /* a worker looks at the process */
    METRICS_LOOKED,
    METRICS_WRITING, /* a worker writes down what was gathered */
    METRICS_WRITTEN,
};

/* A scrape in one of the formats, and whether it is compressed. */
struct metrics_form {
    bool is_wanted;
    struct buf text;
};

struct metrics {
    /* by kind of request, and by whether it went well */
    struct histogram applied[APPLY_KINDS][2];  /* HISTOGRAM_100US_20 */
    struct histogram requests[APPLY_KINDS][2]; /* with all the waiting: HISTOGRAM_1MS_14 */
    struct slow slow;
    uint64_t leader_changes;
    uint64_t late_heartbeats;
    uint64_t ticked_ns; /* the last time, as a leader; 0: did not lead */

    uint64_t promotions;
    uint64_t promotions_refused[RESULT_COUNT];

    struct list asked, waiting; /* calls: for the next look at the process, for this one */
    enum metrics_step step;
    struct job job;
    const struct io *io;
    struct process_sample process;
    uint64_t heap_grown_bytes; /* from look to look, without what it shrank by: a true counter */
    struct buf command_line;
    struct exposition scrape;
    struct metrics_form forms[API_FORMATS][2]; /* plain and compressed */

    uint64_t next_look_ms; /* at the open files, whoever asks or not */
    bool is_monitoring;    /* this look is that one */
};

struct metrics *metrics_open(void);
void metrics_close(struct metrics *m); /* idle, or crashed; NULL is fine */
bool metrics_is_idle(const struct metrics *m);

/* --- tell --- */

/* METRICS or VARS. */
void metrics_need(struct server *s, const struct api_need *need);
/* False: it is none of ours. */
bool metrics_forget(struct metrics *m, const struct api_call *c);

/* An entry was applied, and took so long. */
void metrics_applied(struct metrics *m, const struct apply_effects *e, uint64_t took_ns);
/* Whoever waited for it (NULL: perhaps the server itself) hears of it. */
void metrics_answered(struct server *s, const struct api_call *c, const struct apply_effects *e);
/* A proposal came to nothing. */
void metrics_failed(struct metrics *m, const struct api_call *c, uint64_t now_ns);
/* Raft is about to be told that time has passed. */
void metrics_tick(struct server *s);
/* A promotion was asked of this member, which leads. */
void metrics_promotion(struct metrics *m, enum result result);

/* Goes on with what a worker has done, and answers those who wait for it. */
void metrics_serve(struct server *s);

/* --- metrics_text.c --- */

/* All of it. Appends. */
void metrics_gather(struct server *s, struct exposition *x);
/* /debug/vars: as JSON. */
void metrics_vars(struct server *s, struct buf *out);
