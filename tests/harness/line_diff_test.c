#include "harness/line_diff.h"

#include "harness/test.h"

static void check_diff(const char *want, const char *got, const char *diff)
{
    struct buf out = {0};

    line_diff(&out, bytes_of_str(want), bytes_of_str(got));
    CHECK_STR(buf_str(&out), diff);
    buf_free(&out);
}

TEST(equal_texts_have_no_difference)
{
    check_diff("", "", "");
    check_diff("a\nb\n", "a\nb\n", "");
}

TEST(a_difference_shows_the_lines_around_it)
{
    check_diff("a\nb\nc\n", "a\nx\nc\n", "@@ line 1\n  a\n- b\n+ x\n  c\n");
    check_diff("a\n", "", "@@ line 1\n- a\n");
    check_diff("", "a\n", "@@ line 1\n+ a\n");
    check_diff("a\nb\n", "b\n", "@@ line 1\n- a\n  b\n");
}

TEST(lines_far_from_a_difference_are_left_out)
{
    check_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n",
               "1\n2\n3\n4\nx\n6\n7\n8\n9\n10\n11\n12\ny\n",
               "@@ line 2\n  2\n  3\n  4\n- 5\n+ x\n  6\n  7\n  8\n@@ line 10\n  10\n  11\n  12\n"
               "+ y\n");
}

TEST(texts_too_long_to_align_are_shown_whole)
{
    struct buf want = {0}, got = {0}, out = {0};

    for (int i = 0; i < 2100; i++) {
        buf_append_str(&want, "w\n");
        buf_append_str(&got, "g\n");
    }
    line_diff(&out, buf_bytes(&want), buf_bytes(&got));
    CHECK_EQ(out.len, 2 * 2100 * 4);
    buf_free(&out);
    buf_free(&got);
    buf_free(&want);
}
