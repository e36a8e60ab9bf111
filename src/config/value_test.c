#include "config/value.h"

#include "harness/test.h"

#include <inttypes.h>
#include <stdio.h>

/* All of it as Go 1.26 answers. */

TEST(truth_has_twelve_spellings)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    static const char *const neither[] = {"", "yes", "tRUE", "2", " true"};
    bool value;

    for (size_t i = 0; i < 6; i++) {
        CHECK(!value_parse_bool(bytes_of_str(yes[i]), &value) && value);
        CHECK(!value_parse_bool(bytes_of_str(no[i]), &value) && !value);
    }
    for (size_t i = 0; i < sizeof(neither) / sizeof(neither[0]); i++)
        CHECK_STR(value_parse_bool(bytes_of_str(neither[i]), &value), "parse error");
}

struct reading {
    const char *text, *want;
};

static void check_uint(const struct reading *r)
{
    uint64_t number;
    char got[64];
    const char *reason = value_parse_uint(bytes_of_str(r->text), UINT64_MAX, &number);

    snprintf(got, sizeof(got), "%" PRIu64, number);
    CHECK_STR(reason ? reason : got, r->want);
}

TEST(whole_numbers_have_bases_and_underscores)
{
    static const struct reading readings[] = {
        {"0", "0"},
        {"00", "0"},
        {"010", "8"},
        {"0_7", "7"},
        {"0o17", "15"},
        {"0O17", "15"},
        {"0x1F", "31"},
        {"0X1f", "31"},
        {"0x_1f", "31"},
        {"0b101", "5"},
        {"1_000", "1000"},
        {"18446744073709551615", "18446744073709551615"},
        {"18446744073709551616", "value out of range"},
        {"99999999999999999999x", "value out of range"},
        {"0x10000000000000000", "value out of range"},
        {"", "parse error"},
        {"x", "parse error"},
        {"-1", "parse error"},
        {"+1", "parse error"},
        {"08", "parse error"},
        {"0x", "parse error"},
        {"0b2", "parse error"},
        {"0xg", "parse error"},
        {"_1", "parse error"},
        {"1_", "parse error"},
        {"1__0", "parse error"},
        {"0_", "parse error"},
        {"0x__1", "parse error"},
        {"1.0", "parse error"},
        {"1 ", "parse error"},
        {"1e3", "parse error"},
    };

    for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++)
        check_uint(&readings[i]);
}

TEST(a_number_may_have_a_smaller_bound)
{
    uint64_t number;

    CHECK(!value_parse_uint(BYTES("4294967295"), UINT32_MAX, &number));
    CHECK_STR(value_parse_uint(BYTES("4294967296"), UINT32_MAX, &number), "value out of range");
}

TEST(whole_numbers_may_have_a_sign)
{
    static const struct reading readings[] = {
        {"-1", "-1"},
        {"+1", "1"},
        {"-0x10", "-16"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775808", "value out of range"},
        {"-9223372036854775809", "value out of range"},
        {"", "parse error"},
        {"-", "parse error"},
        {"--1", "parse error"},
        {"1x", "parse error"},
    };

    for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
        int64_t number;
        char got[64];
        const char *reason = value_parse_int(bytes_of_str(readings[i].text), &number);
        snprintf(got, sizeof(got), "%" PRId64, reason ? 0 : number);
        CHECK_STR(reason ? reason : got, readings[i].want);
    }
}

TEST(durations_have_units)
{
    static const struct reading readings[] = {
        {"0", "0"},
        {"-0", "0"},
        {"0s", "0"},
        {"5s", "5000000000"},
        {"+5s", "5000000000"},
        {"-1.5s", "-1500000000"},
        {"300ms", "300000000"},
        {"1h2m3s", "3723000000000"},
        {"1h1h", "7200000000000"},
        {".5s", "500000000"},
        {"1.s", "1000000000"},
        {"10us", "10000"},
        {"10\xc2\xb5s", "10000"},
        {"10\xce\xbcs", "10000"},
        {"1ns", "1"},
        {"0.3333333333333333333h", "1200000000000"},
        {"9007199254.740993ms", "9007199254740993"},
        {"9223372036854775807ns", "9223372036854775807"},
        {"-9223372036854775808ns", "-9223372036854775808"},
        {"0.9223372036854775807h", "3320413933267"},
        {"9223372036854775808ns", "parse error"},
        {"99999999999h", "parse error"},
        {"2562048h", "parse error"},
        {"", "parse error"},
        {"5", "parse error"},
        {"-", "parse error"},
        {"s", "parse error"},
        {".s", "parse error"},
        {"5x", "parse error"},
        {"5 s", "parse error"},
        {"1h-1m", "parse error"},
        {"1e3s", "parse error"},
    };

    for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
        int64_t ns;
        char got[64];
        const char *reason = value_parse_duration(bytes_of_str(readings[i].text), &ns);
        snprintf(got, sizeof(got), "%" PRId64, reason ? 0 : ns);
        CHECK_STR(reason ? reason : got, readings[i].want);
    }
}
