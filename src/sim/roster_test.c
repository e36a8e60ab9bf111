#include "harness/test.h"
#include "sim/roster.h"

#include <string.h>

enum { A = 11, B = 12, C = 13 }; /* tables */

/* a up to entry 9, b from 12 to 30, then c. */
static struct roster three_tables(void)
{
    struct roster r = {0};

    roster_shown(&r, 5, A);
    roster_shown(&r, 9, A);
    roster_shown(&r, 10, B);
    roster_shown(&r, 30, B);
    roster_shown(&r, 31, C);
    return r;
}

static void ends_with(struct roster *r, const char *problem)
{
    const char *got = roster_problem(r);

    if (problem)
        CHECK(got && strstr(got, problem));
    else
        CHECK_STR(got ? got : "", "");
    roster_free(r);
}

TEST(roster_lets_members_come_to_a_table_at_their_own_pace)
{
    struct roster r = three_tables();

    roster_shown(&r, 7, A);
    roster_shown(&r, 20, B);
    roster_shown(&r, 40, C);
    CHECK_EQ(r.count, 3);
    ends_with(&r, NULL);
}

TEST(roster_wants_one_table_after_one_entry)
{
    struct roster r = three_tables();

    roster_shown(&r, 20, C);
    ends_with(&r, "after entry 20 two members do not know the same members");
}

TEST(roster_lets_a_list_be_of_any_table_since_the_question)
{
    struct roster r = three_tables();

    roster_told(&r, 0, A);
    CHECK_EQ(r.told, 5);
    roster_told(&r, 5, C);
    CHECK_EQ(r.told, 31);
    roster_told(&r, 5, B); /* asked before that */
    roster_told_of_old(&r, A);
    CHECK_EQ(r.told, 31);
    CHECK_EQ(r.heard, 4);
    ends_with(&r, NULL);
}

TEST(roster_refuses_a_list_that_is_older_than_what_was_told)
{
    struct roster r = three_tables();

    roster_told(&r, 0, B);
    roster_told(&r, r.told, A);
    ends_with(&r, "until entry 9");
}

TEST(roster_refuses_a_list_that_never_was)
{
    struct roster r = three_tables();

    roster_told_of_old(&r, 99);
    ends_with(&r, "never were so");
}

TEST(roster_does_not_know_what_lies_between_two_changes_of_one_turn)
{
    struct roster r = three_tables();

    roster_shown(&r, 35, A);
    roster_told(&r, 31, 99); /* after entry 32, 33 or 34 */
    CHECK_STR(roster_problem(&r) ? roster_problem(&r) : "", "");
    roster_told(&r, 35, 99);
    ends_with(&r, "never were so");
}

TEST(roster_tells_tables_apart_by_id_url_and_learner)
{
    struct bytes one = BYTES("http://10.0.0.1:2380"), other = BYTES("http://10.0.0.1:2381");
    struct pb_member m = {.id = 1, .peer_urls = {&one, 1}};
    uint64_t first = roster_table(&m, 1);

    m.name = BYTES("m1");
    CHECK_EQ(roster_table(&m, 1), first);
    m.is_learner = true;
    CHECK(roster_table(&m, 1) != first);
    m.is_learner = false;
    m.peer_urls.at = &other;
    CHECK(roster_table(&m, 1) != first);
    m.peer_urls.at = &one;
    m.id = 2;
    CHECK(roster_table(&m, 1) != first);
}
