#include "base/bytes.h"

#include "harness/test.h"

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

TEST(keys_compare_as_memcmp_and_the_shorter_comes_first)
{
    CHECK_EQ(sign(bytes_compare(BYTES("a"), BYTES("b"))), -1);
    CHECK_EQ(sign(bytes_compare(BYTES("a"), BYTES("a\0"))), -1);
    CHECK_EQ(sign(bytes_compare(BYTES("b"), BYTES("aa"))), 1);
    CHECK_EQ(sign(bytes_compare(BYTES("\xff"), BYTES("a"))), 1);
    CHECK_EQ(sign(bytes_compare((struct bytes){0}, BYTES(""))), 0);
    CHECK_EQ(sign(bytes_compare((struct bytes){0}, BYTES("x"))), -1);
}

TEST(a_prefix_is_no_longer_than_the_whole)
{
    CHECK(bytes_starts_with(BYTES("foobar"), BYTES("foo")));
    CHECK(bytes_starts_with(BYTES("foo"), BYTES("")));
    CHECK(!bytes_starts_with(BYTES("fo"), BYTES("foo")));
}

TEST(well_formed_utf8_is_told_from_the_rest)
{
    CHECK(bytes_are_utf8(BYTES("")));
    CHECK(bytes_are_utf8(BYTES("plain")));
    CHECK(bytes_are_utf8(BYTES("\xC2\xA2 \xE2\x82\xAC \xF0\x90\x8D\x88")));
    CHECK(bytes_are_utf8(BYTES("\xF4\x8F\xBF\xBF")));  /* U+10FFFF */
    CHECK(!bytes_are_utf8(BYTES("\xF4\x90\x80\x80"))); /* beyond it */
    CHECK(!bytes_are_utf8(BYTES("\xC0\x80")));         /* overlong zero */
    CHECK(!bytes_are_utf8(BYTES("\xE0\x9F\xBF")));     /* overlong */
    CHECK(!bytes_are_utf8(BYTES("\xED\xA0\x80")));     /* a surrogate */
    CHECK(!bytes_are_utf8(BYTES("\x80")));             /* a tail without a head */
    CHECK(!bytes_are_utf8(BYTES("\xE2\x82")));         /* a head without its tail */
    CHECK(!bytes_are_utf8(BYTES("a\xFF")));
}
