#include "base/log_trace.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>

void log_trace_put_key(struct buf *out, struct bytes key)
{
    buf_append(out, bytes_of(key.at, key.len < LOG_KEY_BYTES_MAX ? key.len : LOG_KEY_BYTES_MAX));
    if (key.len > LOG_KEY_BYTES_MAX)
        buf_append_str(out, "...");
}

static void begin_field(struct buf *b, const char *name)
{
    if (b->len == 0)
        buf_append_byte(b, '{');
    buf_append_str(b, name);
    buf_append_byte(b, ':');
}

void log_trace_detail(struct log_trace *t, const char *name, struct bytes text)
{
    begin_field(&t->detail, name);
    log_trace_put_key(&t->detail, text);
    buf_append_str(&t->detail, "; ");
}

void log_trace_detail_number(struct log_trace *t, const char *name, int64_t number)
{
    begin_field(&t->detail, name);
    buf_printf(&t->detail, "%" PRId64 "; ", number);
}

void log_trace_step(struct log_trace *t, const char *name, uint64_t until_ns)
{
    assert(t->step_count < LOG_TRACE_STEPS_MAX);
    uint64_t from_ns = t->step_count > 0 ? t->until_ns : t->began_ns;

    t->until_ns = until_ns > from_ns ? until_ns : from_ns;
    t->steps[t->step_count++] =
        (struct log_trace_step){.name = name, .took_ns = t->until_ns - from_ns};
}

void log_trace_part(struct log_trace *t, const char *name, uint64_t took_ns)
{
    char text[LOG_DURATION_TEXT_MAX];
    assert(t->step_count > 0);
    struct buf *parts = &t->steps[t->step_count - 1].parts;

    begin_field(parts, name);
    buf_append_str(parts, log_duration_text((int64_t)took_ns, text));
    buf_append_str(parts, "; ");
}

static void end_fields(struct buf *b)
{
    if (b->len > 0)
        buf_append_byte(b, '}');
}

void log_trace_write(struct log_trace *t, const struct logger *logger, uint64_t number,
                     uint64_t now_ns)
{
    struct buf lines[LOG_TRACE_STEPS_MAX] = {0};
    struct bytes texts[LOG_TRACE_STEPS_MAX];
    size_t count = 0;
    char message[64], took[LOG_DURATION_TEXT_MAX];
    uint64_t least_ns = LOG_TRACE_MS * UINT64_C(1000000) / (t->step_count + 1);
    int64_t duration = now_ns > t->began_ns ? (int64_t)(now_ns - t->began_ns) : 0;
    int64_t end = logger->clock(logger->clock_context);

    snprintf(message, sizeof(message), "trace[%" PRIu64 "] %s", number, t->operation);
    end_fields(&t->detail);
    for (unsigned i = 0; i < t->step_count; i++) {
        struct log_trace_step *s = &t->steps[i];
        end_fields(&s->parts);
        if (s->took_ns > least_ns) {
            buf_printf(&lines[count], "trace[%" PRIu64 "] '%s' %s (duration: %s)", number, s->name,
                       buf_str(&s->parts), log_duration_text((int64_t)s->took_ns, took));
            texts[count] = buf_bytes(&lines[count]);
            count++;
        }
        buf_free(&s->parts);
    }
    LOG_LINE(logger, LOG_INFO, message, LOG_BYTES("detail", buf_bytes(&t->detail)),
             LOG_NS("duration", duration), LOG_TIME("start", end - duration), LOG_TIME("end", end),
             LOG_TEXTS("steps", texts, count), LOG_U64("step_count", count));
    for (size_t i = 0; i < count; i++)
        buf_free(&lines[i]);
    buf_free(&t->detail);
}
