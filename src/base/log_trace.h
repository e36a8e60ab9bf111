/*
 * log_trace: where the time of something slow went, as etcd's trace lines tell it.
 *
 *     {"level":"info",...,"msg":"trace[7] put","detail":"{key:a; req_size:5; }","duration":"231ms",
 *      "start":"...","end":"...","steps":["trace[7] 'process raft request' {log:220ms; }
 *      (duration: 229ms)"],"step_count":1}
 *
 * It is made when it is known that a line is due, from moments that were noted anyway: what is not
 * slow pays for none of it. Steps follow one another; what took little of the time is left out.
 *
 *     struct log_trace t = {.operation = "put", .began_ns = came_ns};
 *     log_trace_detail(&t, "key", key);
 *     log_trace_step(&t, "process raft request", applied_ns);
 *     log_trace_part(&t, "log", 220000000);
 *     log_trace_write(&t, logger, number, now_ns);
 */
#pragma once

#include "base/buf.h"
#include "base/logger.h"

struct log_trace {
    const char *operation;
    uint64_t began_ns;
    struct buf detail; /* from here on its own */
    struct log_trace_step {
        const char *name;
        struct buf parts;
        uint64_t took_ns;
    } steps[LOG_TRACE_STEPS_MAX];
    unsigned step_count;
    uint64_t until_ns; /* the end of the last step */
};

/* What it was about. A long text is cut. */
void log_trace_detail(struct log_trace *t, const char *name, struct bytes text);
void log_trace_detail_number(struct log_trace *t, const char *name, int64_t number);

/* What went on from the step before, or the beginning, until then. A moment before that is taken
 * for the same. */
void log_trace_step(struct log_trace *t, const char *name, uint64_t until_ns);
/* Of the last step, so much went into this. */
void log_trace_part(struct log_trace *t, const char *name, uint64_t took_ns);

/* Ends it, if log_takes has said so. The number tells traces apart. */
void log_trace_write(struct log_trace *t, const struct logger *logger, uint64_t number,
                     uint64_t now_ns);

/* A client's bytes, cut at LOG_KEY_BYTES_MAX. Appends. */
void log_trace_put_key(struct buf *out, struct bytes key);
