#include "base/logger.h"

#include "base/buf.h"
#include "base/mem.h"
#include "harness/test.h"

#include <stdio.h>

static void collect(void *context, struct bytes line)
{
    buf_append(context, line);
}

static int64_t fixed_time(void *context)
{
    (void)context;
    return INT64_C(1767323045678901234); /* 2026-01-02T03:04:05.678901234Z */
}

static struct logger log_into(struct buf *lines, enum log_format format)
{
    return (struct logger){.level = LOG_INFO,
                           .format = format,
                           .sink = collect,
                           .sink_context = lines,
                           .clock = fixed_time};
}

TEST(a_json_line_has_etcds_shape)
{
    struct buf lines = {0};
    struct logger logger = log_into(&lines, LOG_JSON);

    log_write(&logger, LOG_INFO, "embed/serve.c:141", "ready to serve client requests", NULL, 0);

    CHECK_STR(buf_str(&lines),
              "{\"level\":\"info\",\"ts\":\"2026-01-02T03:04:05.678901Z\","
              "\"caller\":\"embed/serve.c:141\",\"msg\":\"ready to serve client requests\"}\n");
    buf_free(&lines);
}

TEST(fields_follow_in_order_each_in_its_own_form)
{
    struct buf lines = {0};
    struct logger logger = log_into(&lines, LOG_JSON);
    const struct bytes names[] = {BYTES("a"), BYTES("b\"")};
    logger.name = "raft";

    log_warn(&logger, "m", LOG_STR("s", "a\"b\\\n\x01"), LOG_I64("i", -5), LOG_U64("u", UINT64_MAX),
             LOG_ID("id", 0x8e9e05c52164694d), LOG_BOOL("b", true), LOG_NS("took", 100000000),
             LOG_TEXTS("names", names, 2), LOG_TEXTS("none", NULL, 0));

    const char *fields = strstr(buf_str(&lines), "\"msg\"");
    CHECK(strstr(buf_str(&lines), "\"logger\":\"raft\",\"caller\":\"base/logger_test.c:"));
    CHECK_STR(fields, "\"msg\":\"m\",\"s\":\"a\\\"b\\\\\\n\\u0001\",\"i\":-5,"
                      "\"u\":18446744073709551615,\"id\":\"8e9e05c52164694d\",\"b\":true,"
                      "\"took\":\"100ms\",\"names\":[\"a\",\"b\\\"\"],\"none\":[]}\n");
    buf_free(&lines);
}

TEST(console_lines_are_separated_by_tabs)
{
    struct buf lines = {0};
    struct logger logger = log_into(&lines, LOG_CONSOLE);

    log_write(&logger, LOG_ERROR, "x.c:1", "plain", NULL, 0);
    log_write(&logger, LOG_INFO, "x.c:2", "with",
              (struct log_field[]){LOG_STR("k", "v"), LOG_I64("n", 1)}, 2);

    CHECK_STR(buf_str(&lines),
              "2026-01-02T03:04:05.678901Z\terror\tx.c:1\tplain\n"
              "2026-01-02T03:04:05.678901Z\tinfo\tx.c:2\twith\t{\"k\": \"v\", \"n\": 1}\n");
    buf_free(&lines);
}

TEST(lines_below_the_level_are_not_made)
{
    struct buf lines = {0};
    struct logger logger = log_into(&lines, LOG_JSON);

    log_debug(&logger, "not seen");

    CHECK_EQ(lines.len, 0);
    buf_free(&lines);
}

TEST(durations_read_as_go_prints_them)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ns"},
        {1500, "1.5µs"},
        {100000000, "100ms"},
        {1000000000, "1s"},
        {1234567890, "1.23456789s"},
        {60000000000, "1m0s"},
        {INT64_C(3723500000000), "1h2m3.5s"},
        {-1500000, "-1.5ms"},
    };
    struct buf lines = {0};
    struct logger logger = log_into(&lines, LOG_JSON);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char want[64];
        snprintf(want, sizeof(want), "\"d\":\"%s\"}\n", cases[i].text);
        buf_clear(&lines);
        log_info(&logger, "m", LOG_NS("d", cases[i].ns));
        CHECK_STR(strstr(buf_str(&lines), "\"d\""), want);
    }
    buf_free(&lines);
}

TEST(a_line_too_long_is_cut_at_a_field_and_stays_valid)
{
    static char large[2 * LOG_LINE_BYTES_MAX];
    struct buf lines = {0};
    struct logger logger = log_into(&lines, LOG_JSON);
    memset(large, '\n', sizeof(large) - 1);

    log_info(&logger, "m", LOG_STR("first", "kept"), LOG_STR("second", large));
    CHECK_STR(strstr(buf_str(&lines), "\"first\""), "\"first\":\"kept\"}\n");

    buf_clear(&lines);
    log_info(&logger, large, LOG_STR("first", "kept"));
    CHECK(lines.len <= LOG_LINE_BYTES_MAX);
    CHECK_STR(buf_str(&lines) + lines.len - 3, "\"}\n");
    buf_free(&lines);
}

TEST(bytes_that_are_not_utf8_become_the_replacement_character)
{
    struct buf lines = {0};
    struct logger logger = log_into(&lines, LOG_JSON);

    log_info(&logger, "m", LOG_BYTES("k", BYTES("a\xFF\xC3\xA9")));

    CHECK_STR(strstr(buf_str(&lines), "\"k\""), "\"k\":\"a\\ufffd\xC3\xA9\"}\n");
    buf_free(&lines);
}

TEST(level_names_are_read_and_written)
{
    enum log_level level;

    CHECK(log_level_parse("warn", &level));
    CHECK_EQ(level, LOG_WARN);
    CHECK_STR(log_level_name(LOG_DEBUG), "debug");
    CHECK(!log_level_parse("loud", &level));
}

/* ---- Samples ---- */

static void count_line(void *context, struct bytes line)
{
    (void)line;
    ++*(unsigned *)context;
}

static int64_t now_of(void *context)
{
    return *(const int64_t *)context;
}

/* As etcd's; but a kind is a place in the code, whatever a stranger makes the text say. */
TEST(of_ten_thousand_lines_in_a_second_the_first_and_then_each_hundredth_are_written)
{
    static struct log_samples samples;
    unsigned lines = 0;
    int64_t now = 1700000000000000000;
    struct logger logger = {.level = LOG_WARN,
                            .sink = count_line,
                            .sink_context = &lines,
                            .clock = now_of,
                            .clock_context = &now,
                            .samples = &samples};
    char text[32];

    for (unsigned i = 0; i < 10000; i++) {
        snprintf(text, sizeof(text), "stranger %u", i);
        log_warn(&logger, text, LOG_STR("name", text));
        log_info(&logger, text); /* below the level: it is not counted either */
    }
    CHECK_EQ(lines, 100 + 99);
    log_warn(&logger, "stranger 0"); /* another kind */
    CHECK_EQ(lines, 100 + 99 + 1);

    lines = 0;
    for (unsigned i = 0; i < 300; i++) {
        now += 10000000; /* three seconds */
        log_warn(&logger, text);
    }
    CHECK_EQ(lines, 300);
    logger.samples = NULL;
    for (unsigned i = 0; i < 1000; i++)
        log_warn(&logger, text);
    CHECK_EQ(lines, 1300);
}

/* There are fewer in the tree; and one too many shares its count with another. */
TEST(kinds_of_lines_are_told_apart_until_there_are_too_many)
{
    static struct log_samples samples;
    static char callers[LOG_SAMPLE_KINDS_MAX + 1][24];
    unsigned lines = 0;
    int64_t now = 0;
    struct logger logger = {.sink = count_line,
                            .sink_context = &lines,
                            .clock = now_of,
                            .clock_context = &now,
                            .samples = &samples};

    for (unsigned i = 0; i < ARRAY_LEN(callers); i++) {
        snprintf(callers[i], sizeof(callers[i]), "a/b.c:%u", i);
        CHECK(log_takes(&logger, LOG_INFO, callers[i]));
    }
    for (unsigned i = 2; i <= LOG_SAMPLE_EACH - 1; i++)
        CHECK(log_takes(&logger, LOG_INFO, callers[7]));
}
