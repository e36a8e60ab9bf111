#include "base/buf.h"

#include "harness/test.h"

TEST(an_empty_buf_is_all_zeroes_and_can_be_freed)
{
    struct buf b = {0};

    CHECK_EQ(b.len, 0);
    buf_append(&b, (struct bytes){0});
    CHECK_EQ(b.len, 0);
    CHECK_STR(buf_str(&b), "");
    buf_free(&b);
    buf_free(&b);
}

TEST(appending_keeps_what_was_there)
{
    struct buf b = {0};

    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    buf_append_str(&b, "end");
    buf_append_byte(&b, '.');

    CHECK(bytes_starts_with(buf_bytes(&b), BYTES("0,1,2,3,")));
    CHECK_STR(buf_str(&b) + b.len - 8, "999,end.");
    buf_free(&b);
}

TEST(dropping_the_front_moves_the_rest_up)
{
    struct buf b = {0};
    buf_append_str(&b, "hello world");

    buf_drop_front(&b, 6);

    CHECK_STR(buf_str(&b), "world");
    buf_drop_front(&b, 5);
    CHECK_EQ(b.len, 0);
    buf_free(&b);
}

TEST(dropping_more_than_there_is_is_a_bug)
{
    struct buf b = {0};

    CHECK_DIES(buf_drop_front(&b, 1), "count <= b->len");
}
