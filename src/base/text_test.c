#include "base/text.h"

#include "base/mem.h"
#include "harness/test.h"

struct pair {
    struct bytes text;
    const char *want;
};

/* The wanted bytes were printed by Go 1.26's fmt. */
TEST(quoted_text_is_spelled_as_go_spells_it)
{
    static const struct pair pairs[] = {
        {BYTES(""), "\"\""},
        {BYTES("a\"b\x01\xc3\xa9\xff"), "\"a\\\"b\\x01\xc3\xa9\\xff\""},
        {BYTES("\a\b\f\n\r\t\v\\"), "\"\\a\\b\\f\\n\\r\\t\\v\\\\\""},
        {BYTES("\x7f<'>"), "\"\\x7f<'>\""},
        {BYTES("\xc2\x85\xc2\xa9"), "\"\\u0085\xc2\xa9\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct buf got = {0};
        text_append_quoted(&got, pairs[i].text);
        CHECK_STR(buf_str(&got), pairs[i].want);
        buf_free(&got);
    }
}

TEST(hex_digits_have_values)
{
    static const char digits[] = "0123456789abcdef", capitals[] = "0123456789ABCDEF";
    unsigned known = 0;

    for (int i = 0; i < 16; i++) {
        CHECK_EQ(text_hex_value((uint8_t)digits[i]), i);
        CHECK_EQ(text_hex_value((uint8_t)capitals[i]), i);
    }
    for (unsigned c = 0; c < 256; c++)
        known += text_hex_value((uint8_t)c) >= 0;
    CHECK_EQ(known, 22);
}

TEST(sixteen_hex_digits_are_a_number)
{
    uint64_t n;

    CHECK(text_read_hex16("0123456789abcdef", &n));
    CHECK_EQ(n, 0x0123456789abcdef);
    CHECK(text_read_hex16("ffffffffffffffff.wal", &n));
    CHECK_EQ(n, UINT64_MAX);
    CHECK(!text_read_hex16("0123456789abcde", &n));
    CHECK(!text_read_hex16("", &n));
    CHECK(!text_read_hex16("0123456789abcdeF", &n));
    CHECK(!text_read_hex16("0123456789abcde-0", &n));
}

TEST(numbers_are_digits_alone)
{
    uint64_t n;

    CHECK_EQ(text_read_number(BYTES("18446744073709551615"), UINT64_MAX, &n), ERR_OK);
    CHECK(n == UINT64_MAX);
    CHECK_EQ(text_read_number(BYTES("18446744073709551616"), UINT64_MAX, &n), ERR_TOO_LARGE);
    CHECK_EQ(text_read_number(BYTES("17"), 16, &n), ERR_TOO_LARGE);
    CHECK_EQ(text_read_number(BYTES(""), 16, &n), ERR_MALFORMED);
    CHECK_EQ(text_read_number(BYTES("1 "), 16, &n), ERR_MALFORMED);
}

/* The wanted texts were printed by go-humanize 1.0.1, whose Bytes rounds twice. */
TEST(sizes_read_as_in_etcds_log)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {9, "9 B"},
        {999, "999 B"},
        {1000, "1.0 kB"},
        {1049, "1.0 kB"},
        {1050, "1.1 kB"},
        {9949, "9.9 kB"},
        {9950, "10 kB"},
        {10500, "10 kB"},
        {11500, "12 kB"},
        {20480, "20 kB"},
        {82854982, "83 MB"},
        {999999, "1000 kB"},
        {8589934592, "8.6 GB"},
        {UINT64_MAX, "18 EB"},
    };
    struct buf out = {0};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        buf_clear(&out);
        text_append_size(&out, cases[i].bytes);
        CHECK_STR(buf_str(&out), cases[i].text);
    }
    buf_free(&out);
}
