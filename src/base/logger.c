#include "base/logger.h"

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/*
 * A line under construction. Room for the closing brace and newline is held back, so a line can
 * always be ended; an append that does not fit sets `full`, and whoever began the field takes it
 * back.
 */
enum { LINE_CLOSING_BYTES = 2 };

struct line {
    char at[LOG_LINE_BYTES_MAX];
    size_t len;
    bool full;
};

static void put(struct line *l, struct bytes what)
{
    if (l->full || what.len > sizeof(l->at) - LINE_CLOSING_BYTES - l->len) {
        l->full = true;
        return;
    }
    if (what.len > 0)
        memcpy(l->at + l->len, what.at, what.len);
    l->len += what.len;
}

static void put_str(struct line *l, const char *str)
{
    put(l, bytes_of_str(str));
}

__attribute__((format(printf, 2, 3))) static void put_number(struct line *l, const char *format,
                                                             ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert(len >= 0 && (size_t)len < sizeof(text));
    put(l, bytes_of(text, (size_t)len));
}

static void put_quoted(struct line *l, struct bytes text)
{
    char scratch[8];

    put_str(l, "\"");
    while (text.len > 0 && !l->full)
        put(l, json_next_piece(&text, JSON_ZAP, scratch));
    put_str(l, "\"");
}

/* 2006-01-02T15:04:05.000000Z */
static void put_time(struct line *l, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    put_number(l, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900, tm.tm_mon + 1,
               tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ns % 1000000000 / 1000));
}

/* A whole part and a fraction without trailing zeroes, then the unit: "1.5ms". */
static void put_fraction(struct line *l, uint64_t value, uint64_t one, const char *unit)
{
    put_number(l, "%llu", (unsigned long long)(value / one));
    uint64_t rest = value % one;
    if (rest != 0)
        put_str(l, ".");
    for (uint64_t digit = one / 10; rest != 0; digit /= 10) {
        put_number(l, "%llu", (unsigned long long)(rest / digit));
        rest %= digit;
    }
    put_str(l, unit);
}

/* As Go prints a duration: the largest unit that fits, and h, m, s together from a minute on. */
static void put_duration(struct line *l, int64_t ns)
{
    uint64_t left = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

    if (ns < 0)
        put_str(l, "-");
    if (left == 0) {
        put_str(l, "0s");
    } else if (left < 1000) {
        put_number(l, "%lluns", (unsigned long long)left);
    } else if (left < 1000000) {
        put_fraction(l, left, 1000, "µs");
    } else if (left < 1000000000) {
        put_fraction(l, left, 1000000, "ms");
    } else {
        uint64_t minutes = left / 60000000000;
        if (minutes >= 60)
            put_number(l, "%lluh", (unsigned long long)(minutes / 60));
        if (minutes > 0)
            put_number(l, "%llum", (unsigned long long)(minutes % 60));
        put_fraction(l, left % 60000000000, 1000000000, "s");
    }
}

static void put_texts(struct line *l, const struct log_field *f)
{
    put_str(l, "[");
    for (size_t i = 0; i < f->texts.count; i++) {
        if (i > 0)
            put_str(l, ",");
        put_quoted(l, f->texts.at[i]);
    }
    put_str(l, "]");
}

static void put_value(struct line *l, const struct log_field *f)
{
    switch (f->kind) {
    case LOG_FIELD_BYTES:
        put_quoted(l, f->bytes);
        break;
    case LOG_FIELD_I64:
        put_number(l, "%lld", (long long)f->i64);
        break;
    case LOG_FIELD_U64:
        put_number(l, "%llu", (unsigned long long)f->u64);
        break;
    case LOG_FIELD_HEX:
        put_number(l, "\"%llx\"", (unsigned long long)f->u64);
        break;
    case LOG_FIELD_BOOL:
        put_str(l, f->boolean ? "true" : "false");
        break;
    case LOG_FIELD_NS:
        put_str(l, "\"");
        put_duration(l, f->i64);
        put_str(l, "\"");
        break;
    case LOG_FIELD_TIME:
        put_str(l, "\"");
        put_time(l, f->i64);
        put_str(l, "\"");
        break;
    case LOG_FIELD_TEXTS:
        put_texts(l, f);
        break;
    }
}

/* Appends `,"key":value`, or nothing at all when it does not fit. */
static void put_field(struct line *l, const char *separator, const char *colon,
                      const struct log_field *f)
{
    size_t before = l->len;

    put_str(l, separator);
    put_quoted(l, bytes_of_str(f->key));
    put_str(l, colon);
    put_value(l, f);
    if (l->full)
        l->len = before;
}

/*
 * The message comes from our own code, but may quote something long: what does not fit is dropped
 * as a whole character, and its quote still closes.
 */
static void put_message(struct line *l, const char *message)
{
    size_t len = strlen(message);

    put_field(l, ",", ":", &LOG_STR("msg", message));
    while (l->full && len > 0) {
        len /= 2;
        l->full = false;
        put_field(l, ",", ":", &LOG_BYTES("msg", bytes_of(message, len)));
    }
}

static void build_json(struct line *l, const struct logger *logger, enum log_level level,
                       const char *caller, const char *message, const struct log_field *fields,
                       size_t count)
{
    put_str(l, "{\"level\":\"");
    put_str(l, log_level_name(level));
    put_str(l, "\",\"ts\":\"");
    put_time(l, logger->clock(logger->clock_context));
    put_str(l, "\"");
    if (logger->name)
        put_field(l, ",", ":", &LOG_STR("logger", logger->name));
    put_field(l, ",", ":", &LOG_STR("caller", caller));
    put_message(l, message);
    for (size_t i = 0; i < count; i++)
        put_field(l, ",", ":", &fields[i]);
    l->at[l->len++] = '}';
}

static void build_console(struct line *l, const struct logger *logger, enum log_level level,
                          const char *caller, const char *message, const struct log_field *fields,
                          size_t count)
{
    put_time(l, logger->clock(logger->clock_context));
    put_str(l, "\t");
    put_str(l, log_level_name(level));
    if (logger->name) {
        put_str(l, "\t");
        put_str(l, logger->name);
    }
    put_str(l, "\t");
    put_str(l, caller);
    put_str(l, "\t");
    put(l, bytes_of(message, strnlen(message, LOG_LINE_BYTES_MAX / 2)));
    for (size_t i = 0; i < count; i++)
        put_field(l, i == 0 ? "\t{" : ", ", ": ", &fields[i]);
    if (count > 0)
        l->at[l->len++] = '}';
}

void log_write(const struct logger *logger, enum log_level level, const char *caller,
               const char *message, const struct log_field *fields, size_t count)
{
    struct line l;

    l.len = 0;
    l.full = false;
    if (logger->format == LOG_JSON)
        build_json(&l, logger, level, caller, message, fields, count);
    else
        build_console(&l, logger, level, caller, message, fields, count);
    l.at[l.len++] = '\n';
    assert(l.len <= sizeof(l.at));
    logger->sink(logger->sink_context, bytes_of(l.at, l.len));
}

const char *log_duration_text(int64_t ns, char out[LOG_DURATION_TEXT_MAX])
{
    struct line l;

    l.len = 0;
    l.full = false;
    put_duration(&l, ns);
    assert(l.len < LOG_DURATION_TEXT_MAX); /* "-2562047h47m16.854775808s" is the longest */
    memcpy(out, l.at, l.len);
    out[l.len] = 0;
    return out;
}

/* ---- Samples ---- */

static size_t hash_of(const char *caller)
{
    uint32_t hash = 2166136261; /* FNV-1a */

    for (; *caller; caller++)
        hash = (hash ^ (uint8_t)*caller) * 16777619;
    return hash % LOG_SAMPLE_KINDS_MAX;
}

/* Where it is, or can be: other threads look for places at the same time. If all are taken, two
 * kinds share one. */
static struct log_kind *find_kind(struct log_samples *s, const char *caller)
{
    size_t first = hash_of(caller);

    for (size_t i = 0; i < LOG_SAMPLE_KINDS_MAX; i++) {
        struct log_kind *k = &s->kinds[(first + i) % LOG_SAMPLE_KINDS_MAX];
        const char *there = NULL;
        if (atomic_compare_exchange_strong(&k->caller, &there, caller) ||
            strcmp(there, caller) == 0)
            return k;
    }
    return &s->kinds[first];
}

bool log_takes(const struct logger *logger, enum log_level level, const char *caller)
{
    if (logger->level > level)
        return false;
    if (!logger->samples)
        return true;
    struct log_kind *k = find_kind(logger->samples, caller);
    uint64_t second = (uint64_t)logger->clock(logger->clock_context) / 1000000000 & UINT32_MAX;
    uint64_t before = atomic_load(&k->window), after;

    do
        after = before >> 32 == second ? before + 1 : second << 32 | 1;
    while (!atomic_compare_exchange_weak(&k->window, &before, after));
    uint32_t count = (uint32_t)after;
    return count <= LOG_SAMPLE_EACH || count % LOG_SAMPLE_EACH == 0;
}

/* ---- Sinks and levels ---- */

void log_sink_fd(void *context, struct bytes line)
{
    int fd = *(const int *)context;

    while (line.len > 0) {
        ssize_t written = write(fd, line.at, line.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* Nobody is left to tell: a log that cannot be written must not stop us. */
        line = bytes_of(line.at + written, line.len - (size_t)written);
    }
}

static const char *const level_names[] = {"debug", "info", "warn", "error", "fatal"};

const char *log_level_name(enum log_level level)
{
    assert((unsigned)level < ARRAY_LEN(level_names));
    return level_names[level];
}

bool log_level_parse(const char *text, enum log_level *out)
{
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

void log_sink_none(void *context, struct bytes line)
{
    (void)context;
    (void)line;
}

int64_t log_clock_none(void *context)
{
    (void)context;
    return 0;
}
