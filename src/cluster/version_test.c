#include "cluster/version.h"

#include "harness/test.h"

TEST(versions_are_three_numbers)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"3.7.1", "3.7.1"},
        {"03.007.0", "3.7.0"},
        {"3.7.0-rc.1", "3.7.0"},
        {"3.7.0+build.5", "3.7.0"},
        {"3.7.0-alpha+b-1", "3.7.0"},
        {"0.0.0", "0.0.0"},
        {"", NULL},
        {"3.7", NULL},
        {"3.7.", NULL},
        {"3.7.1.2", NULL},
        {"3.7.1-", NULL},
        {"3.7.1 ", NULL},
        {" 3.7.1", NULL},
        {"v3.7.1", NULL},
        {"3.-7.1", NULL},
        {"3.7.x", NULL},
        {"3.7.1-\xc3\xa9", NULL},
        {"99999999999999999999.0.0", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct version v;
        char text[VERSION_TEXT_MAX] = "none";
        if (version_parse(bytes_of_str(cases[i].text), &v))
            version_text(v, text);
        CHECK_STR(text, cases[i].want ? cases[i].want : "none");
    }
}

TEST(versions_compare_as_numbers)
{
    struct version a = {3, 9, 9}, b = {3, 10, 0}, c = {4, 0, 0};

    CHECK(version_compare(a, b) < 0);
    CHECK(version_compare(b, a) > 0);
    CHECK(version_compare(b, c) < 0);
    CHECK_EQ(version_compare(c, c), 0);
    CHECK(version_compare(a, (struct version){3, 9, 10}) < 0);
}

TEST(the_longest_version_fits)
{
    struct version v = {UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2};
    char text[VERSION_TEXT_MAX];

    CHECK_STR(version_text(v, text), "9223372036854775807.9223372036854775807.9223372036854775807");
}
