/*
 * log: one line per event, in etcd's words and shape.
 *
 *     {"level":"info","ts":"2026-01-02T03:04:05.678901Z","caller":"server/boot.c:41","msg":"..."}
 *
 * A line is built on the stack and handed to the sink whole, so logging allocates nothing and two
 * threads' lines never mix. A line that would not fit is cut at a field's edge and still valid. The
 * level is checked before the fields are looked at. The time comes from the log's own clock, so
 * that a simulated server logs simulated time.
 *
 * Lines are sampled, as etcd's are: anybody who can reach a port can cause some, as often as he
 * likes, and would fill the disk with them. Of a kind the first hundred of each second are written,
 * then each hundredth. A kind is a place in the code, where etcd's is a text: a text may quote what
 * a stranger has sent.
 *
 *     log_info(logger, "ready to serve client requests", LOG_STR("addr", addr), LOG_ID("id", id));
 */
#pragma once

#include "base/bytes.h"
#include "base/limits.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_FATAL };
enum log_format { LOG_JSON, LOG_CONSOLE };

enum log_field_kind {
    LOG_FIELD_BYTES,
    LOG_FIELD_I64,
    LOG_FIELD_U64,
    LOG_FIELD_HEX, /* ids: lower-case hex, in quotes */
    LOG_FIELD_BOOL,
    LOG_FIELD_NS,    /* durations, as Go prints them: "1.5s", "100ms" */
    LOG_FIELD_TIME,  /* as the ts field */
    LOG_FIELD_TEXTS, /* a list of strings */
};

struct log_field {
    const char *key;
    enum log_field_kind kind;
    union {
        struct bytes bytes;
        int64_t i64;
        uint64_t u64;
        bool boolean;
        struct {
            const struct bytes *at;
            size_t count;
        } texts;
    };
};

#define LOG_BYTES(k, v) ((struct log_field){.key = (k), .kind = LOG_FIELD_BYTES, .bytes = (v)})
#define LOG_STR(k, v)   LOG_BYTES((k), bytes_of_str(v))
#define LOG_I64(k, v)   ((struct log_field){.key = (k), .kind = LOG_FIELD_I64, .i64 = (v)})
#define LOG_U64(k, v)   ((struct log_field){.key = (k), .kind = LOG_FIELD_U64, .u64 = (v)})
#define LOG_ID(k, v)    ((struct log_field){.key = (k), .kind = LOG_FIELD_HEX, .u64 = (v)})
#define LOG_BOOL(k, v)  ((struct log_field){.key = (k), .kind = LOG_FIELD_BOOL, .boolean = (v)})
#define LOG_NS(k, v)    ((struct log_field){.key = (k), .kind = LOG_FIELD_NS, .i64 = (v)})
#define LOG_TIME(k, v)  ((struct log_field){.key = (k), .kind = LOG_FIELD_TIME, .i64 = (v)})
#define LOG_TEXTS(k, v, n)                                                                         \
    ((struct log_field){.key = (k), .kind = LOG_FIELD_TEXTS, .texts = {(v), (n)}})

/* Takes a whole line, newline included. May be called from any thread. */
typedef void log_sink(void *context, struct bytes line);

/* Nanoseconds since 1970, for the ts field. */
typedef int64_t log_clock(void *context);

/* What was written of each kind in this second. All zeroes before. Threads share it. */
struct log_samples {
    struct log_kind {
        _Atomic(const char *) caller; /* NULL: nobody's yet */
        _Atomic uint64_t window;      /* the second, and in its lower half a count */
    } kinds[LOG_SAMPLE_KINDS_MAX];
};

struct logger {
    enum log_level level; /* lines below it are not made */
    enum log_format format;
    const char *name; /* the "logger" field, such as "raft"; NULL for none */
    log_sink *sink;
    void *sink_context;
    log_clock *clock;
    void *clock_context;
    struct log_samples *samples; /* NULL: every line is written */
};

/* Is the next line of this caller to be written? Counts it. */
bool log_takes(const struct logger *logger, enum log_level level, const char *caller);

/* Without asking log_takes. A line longer than LOG_LINE_BYTES_MAX is cut. */
void log_write(const struct logger *logger, enum log_level level, const char *caller,
               const char *message, const struct log_field *fields, size_t count);

/* A duration as LOG_NS has it, for texts that quote one. */
enum { LOG_DURATION_TEXT_MAX = 32 };
const char *log_duration_text(int64_t ns, char out[LOG_DURATION_TEXT_MAX]);

/* A sink that writes to the file descriptor which the context points to: an int. */
void log_sink_fd(void *context, struct bytes line);

/* A sink that forgets every line and a clock that stands still, for whoever must not print. */
void log_sink_none(void *context, struct bytes line);
int64_t log_clock_none(void *context);

const char *log_level_name(enum log_level level);

/* False when the text is none of debug, info, warn, error, fatal. */
bool log_level_parse(const char *text, enum log_level *out);

#define LOG_STRINGIFY_(x) #x
#define LOG_STRINGIFY(x)  LOG_STRINGIFY_(x)
#define LOG_CALLER        __FILE__ ":" LOG_STRINGIFY(__LINE__)

/* A line whose making costs something: `if (log_takes(logger, LOG_WARN, LOG_CALLER))`, then this.
 */
#define LOG_LINE(logger, at_level, message, ...)                                                   \
    do {                                                                                           \
        const struct log_field log_fields[] = {__VA_ARGS__};                                       \
        log_write((logger), (at_level), LOG_CALLER, (message), log_fields,                         \
                  sizeof(log_fields) / sizeof(struct log_field));                                  \
    } while (0)

#define LOG_AT(logger, at_level, message, ...)                                                     \
    do {                                                                                           \
        if ((logger)->level <= (at_level) && log_takes((logger), (at_level), LOG_CALLER))          \
            LOG_LINE(logger, at_level, message, __VA_ARGS__);                                      \
    } while (0)

#define log_debug(logger, ...) LOG_AT(logger, LOG_DEBUG, __VA_ARGS__, )
#define log_info(logger, ...)  LOG_AT(logger, LOG_INFO, __VA_ARGS__, )
#define log_warn(logger, ...)  LOG_AT(logger, LOG_WARN, __VA_ARGS__, )
#define log_error(logger, ...) LOG_AT(logger, LOG_ERROR, __VA_ARGS__, )
