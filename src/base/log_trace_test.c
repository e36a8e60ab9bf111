#include "base/log_trace.h"

#include "harness/test.h"

static const uint64_t MS = 1000000;

static void collect(void *context, struct bytes line)
{
    buf_append(context, line);
}

static int64_t fixed_time(void *context)
{
    (void)context;
    return INT64_C(1767323045678901000); /* 2026-01-02T03:04:05.678901Z */
}

static struct logger log_into(struct buf *lines)
{
    return (struct logger){.sink = collect, .sink_context = lines, .clock = fixed_time};
}

/* Shape, order and names as etcd has them: the steps that took least are left out. */
TEST(a_trace_tells_its_steps_with_what_each_took)
{
    struct buf lines = {0};
    struct logger logger = log_into(&lines);
    struct log_trace t = {.operation = "put", .began_ns = 1000 * MS};

    log_trace_detail(&t, "key", BYTES("a\"b"));
    log_trace_detail_number(&t, "req_size", 5);
    log_trace_step(&t, "process raft request", 1200 * MS);
    log_trace_part(&t, "queue", 1 * MS);
    log_trace_part(&t, "log", 190 * MS);
    log_trace_step(&t, "quick", 1201 * MS);
    log_trace_step(&t, "apply", 1301 * MS);
    log_trace_write(&t, &logger, 7, 1302 * MS);

    CHECK_STR(strstr(buf_str(&lines), "\"msg\""),
              "\"msg\":\"trace[7] put\",\"detail\":\"{key:a\\\"b; req_size:5; }\","
              "\"duration\":\"302ms\",\"start\":\"2026-01-02T03:04:05.376901Z\","
              "\"end\":\"2026-01-02T03:04:05.678901Z\",\"steps\":["
              "\"trace[7] 'process raft request' {queue:1ms; log:190ms; } (duration: 200ms)\","
              "\"trace[7] 'apply'  (duration: 100ms)\"],\"step_count\":2}\n");
    buf_free(&lines);
}

/* A moment that was not noted, or noted before another, takes no time and none away. */
TEST(a_step_that_ends_before_it_begins_took_no_time)
{
    struct buf lines = {0};
    struct logger logger = log_into(&lines);
    struct log_trace t = {.operation = "range", .began_ns = 1000 * MS};

    log_trace_step(&t, "late", 1300 * MS);
    log_trace_step(&t, "early", 0);
    log_trace_step(&t, "last", 1400 * MS);
    log_trace_write(&t, &logger, 1, 1400 * MS);

    CHECK(strstr(buf_str(&lines), "\"steps\":[\"trace[1] 'late'  (duration: 300ms)\","
                                  "\"trace[1] 'last'  (duration: 100ms)\"],\"step_count\":2"));
    buf_free(&lines);
}

TEST(a_long_key_does_not_push_the_times_out_of_the_line)
{
    struct buf lines = {0}, key = {0};
    struct logger logger = log_into(&lines);
    struct log_trace t = {.operation = "put"};
    for (unsigned i = 0; i < 100000; i++)
        buf_append_byte(&key, 'k');

    log_trace_detail(&t, "key", buf_bytes(&key));
    log_trace_step(&t, "process raft request", 200 * MS);
    log_trace_write(&t, &logger, 1, 200 * MS);

    CHECK(strstr(buf_str(&lines), "kkk...; }\""));
    CHECK(strstr(buf_str(&lines), "\"step_count\":1}"));
    buf_free(&key);
    buf_free(&lines);
}
