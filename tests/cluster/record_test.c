/* Stories that cannot be true, each of them one step from one that can. */
#include "cluster/record.h"

#include "harness/test.h"

#include <stdio.h>

static struct pb_key_value kv_of(struct arena *arena, unsigned key, size_t op, int64_t mod,
                                 int64_t create, int64_t version)
{
    char name[RECORD_KEY_BYTES];

    return (struct pb_key_value){
        .key = arena_copy(arena, bytes_of_str(record_key(key, name))),
        .value = bytes_of_str(arena_printf(arena, "%zu xxx", op)),
        .mod_revision = mod,
        .create_revision = create,
        .version = version,
    };
}

/* A new key's first put. */
static void saw_put(struct record *r, unsigned member, unsigned key, size_t op, int64_t mod)
{
    struct arena arena = {0};
    struct pb_key_value kv = kv_of(&arena, key, op, mod, mod, 1);

    record_saw(r, member, &(struct pb_event){.kv = &kv});
    arena_free(&arena);
}

static void saw_delete(struct record *r, unsigned member, unsigned key, int64_t mod)
{
    struct arena arena = {0};
    struct pb_key_value kv = kv_of(&arena, key, 0, mod, 0, 0);

    kv.value = (struct bytes){0};
    record_saw(r, member, &(struct pb_event){.type = PB_EVENT_DELETE, .kv = &kv});
    arena_free(&arena);
}

static void shown_put(struct record *r, size_t read, unsigned key, size_t op, int64_t mod)
{
    struct arena arena = {0};
    struct pb_key_value kv = kv_of(&arena, key, op, mod, mod, 1);

    record_shown(r, read, &kv);
    arena_free(&arena);
}

static size_t begin(struct record *r, enum record_kind kind, unsigned key)
{
    return record_begin(r, &(struct record_op){.kind = kind, .key = key});
}

static size_t put(struct record *r, unsigned key, int64_t revision)
{
    size_t op = begin(r, RECORD_PUT, key);

    record_write_done(r, op, revision, true);
    return op;
}

static void check_is_true(struct record *r)
{
    if (!record_judge(r))
        test_fail(__FILE__, __LINE__, "it is called untrue: %s", r->problem);
    record_free(r);
}

static void check_is_untrue(struct record *r, const char *problem)
{
    CHECK(!record_judge(r));
    if (!strstr(r->problem, problem))
        test_fail(__FILE__, __LINE__, "the problem is \"%s\", not \"%s\"", r->problem, problem);
    record_free(r);
}

TEST(a_story_with_writes_reads_and_two_watchers_is_true)
{
    struct record r = {0};
    size_t first = put(&r, 1, 2);
    size_t second = put(&r, 2, 3);

    size_t all = record_begin(&r, &(struct record_op){.kind = RECORD_READ, .reads_all = true});
    shown_put(&r, all, 1, first, 2);
    shown_put(&r, all, 2, second, 3);
    record_read_done(&r, all, 3);
    size_t deleted = begin(&r, RECORD_DELETE, 1);
    record_write_done(&r, deleted, 4, true);
    size_t none = begin(&r, RECORD_READ, 1);
    record_read_done(&r, none, 4);
    for (unsigned member = 0; member < 2; member++) {
        saw_put(&r, member, 1, first, 2);
        saw_put(&r, member, 2, second, 3);
        saw_delete(&r, member, 1, 4);
    }

    CHECK_EQ(record_watched(&r, 1), 4);
    check_is_true(&r);
}

TEST(an_acknowledged_write_that_nobody_sees_is_lost)
{
    struct record r = {0};
    size_t other = begin(&r, RECORD_PUT, 1); /* no response, but this is what is there */
    put(&r, 1, 2);

    saw_put(&r, 0, 1, other, 2);

    check_is_untrue(&r, "an acknowledged write is lost");
}

TEST(a_write_without_a_response_may_happen_or_not_but_once)
{
    struct record r = {0};
    size_t never = begin(&r, RECORD_PUT, 1);
    size_t later = begin(&r, RECORD_PUT, 2);
    CHECK(never < later);
    saw_put(&r, 0, 2, later, 2);
    CHECK(record_judge(&r));

    saw_delete(&r, 0, 2, 3);
    saw_put(&r, 0, 2, later, 4);

    check_is_untrue(&r, "has happened twice");
}

TEST(a_linearizable_read_below_what_was_told_before_it_is_stale)
{
    struct record r = {0};
    size_t first = put(&r, 1, 2);
    size_t local = begin(&r, RECORD_READ_LOCAL, 1); /* may be as old as it likes */
    record_read_done(&r, local, 1);
    CHECK_STR(r.problem, "");

    size_t read = begin(&r, RECORD_READ, 1);
    record_read_done(&r, read, 1);

    saw_put(&r, 0, 1, first, 2);
    check_is_untrue(&r, "linearizable read 2 was told revision 1, but 2 had been told");
}

/* What a watcher has been shown has happened: nobody who asks after that may miss it. */
TEST(a_linearizable_read_below_what_a_watcher_was_shown_is_stale)
{
    struct record r = {0};
    size_t unknown = begin(&r, RECORD_PUT, 1);
    saw_put(&r, 0, 1, unknown, 2);

    size_t read = begin(&r, RECORD_READ, 1);
    record_read_done(&r, read, 1);

    check_is_untrue(&r, "linearizable read 1 was told revision 1, but 2 had been told");
}

TEST(a_serializable_read_goes_not_back_on_its_connection)
{
    struct record r = {0};
    size_t read = record_begin(&r, &(struct record_op){.kind = RECORD_READ_LOCAL, .floor = 7});

    record_read_done(&r, read, 6);

    check_is_untrue(&r, "serializable read 0 was told revision 6, but 7 had been");
}

TEST(a_read_that_shows_another_state_than_that_of_its_revision_is_untrue)
{
    struct record r = {0};
    size_t first = put(&r, 1, 2);
    size_t second = put(&r, 2, 3);

    size_t all = record_begin(&r, &(struct record_op){.kind = RECORD_READ, .reads_all = true});
    shown_put(&r, all, 2, second, 3); /* and not the one before */
    record_read_done(&r, all, 3);

    saw_put(&r, 0, 1, first, 2);
    saw_put(&r, 0, 2, second, 3);
    check_is_untrue(&r, "linearizable read 2 of key 0 was told revision 3, and that is not so");
}

TEST(a_watcher_that_misses_a_revision_is_caught)
{
    struct record r = {0};
    size_t first = put(&r, 1, 2);
    size_t second = put(&r, 2, 3);
    saw_put(&r, 0, 1, first, 2);
    saw_put(&r, 0, 2, second, 3);

    saw_put(&r, 1, 2, second, 3);

    check_is_untrue(&r,
                    "the watcher of member 2 was shown key 2 at 3 where others were shown key 1");
}

TEST(revisions_without_one_in_between_are_caught)
{
    struct record r = {0};
    size_t first = put(&r, 1, 2);
    size_t second = put(&r, 2, 4);

    saw_put(&r, 0, 1, first, 2);
    saw_put(&r, 0, 2, second, 4);

    check_is_untrue(&r, "was shown 4 after 2");
}

TEST(a_write_that_is_told_a_revision_from_before_it_began_is_untrue)
{
    struct record r = {0};
    put(&r, 1, 5);

    put(&r, 2, 5);

    check_is_untrue(&r, "write 1 was told revision 5, but 5 had been told before it began");
}

TEST(half_a_transaction_is_caught)
{
    struct record r = {0};
    size_t swap = record_begin(&r, &(struct record_op){.kind = RECORD_SWAP, .key = 1, .other = 2});

    saw_put(&r, 0, 1, swap, 2);

    check_is_untrue(&r, "revision 2 is not what write 0 does");
}

TEST(a_transaction_that_compared_with_another_state_is_caught)
{
    struct record r = {0};
    size_t swap = record_begin(
        &r, &(struct record_op){.kind = RECORD_SWAP, .key = 1, .other = 2, .compared = 7});

    saw_put(&r, 0, 1, swap, 2);
    saw_put(&r, 0, 2, swap, 2);

    check_is_untrue(&r, "revision 2 is not what write 0 does");
}

TEST(a_comparison_that_held_and_is_said_to_have_failed_is_caught)
{
    struct record r = {0};
    size_t swap = record_begin(&r, &(struct record_op){.kind = RECORD_SWAP, .key = 1, .other = 2});

    record_write_done(&r, swap, 1, false);

    check_is_untrue(&r, "swap 0 of key 1 was told revision 1 and that it has not");
}

TEST(a_delete_that_nobody_asked_for_is_caught)
{
    struct record r = {0};
    size_t first = put(&r, 1, 2);
    begin(&r, RECORD_DELETE, 2); /* another key */
    saw_put(&r, 0, 1, first, 2);

    saw_delete(&r, 0, 1, 3);

    check_is_untrue(&r, "revision 3 deletes key 1, and nobody has asked for it");
}

TEST(a_delete_without_a_response_explains_one_deletion_and_no_more)
{
    struct record r = {0};
    size_t first = put(&r, 1, 2);
    begin(&r, RECORD_DELETE, 1);
    saw_put(&r, 0, 1, first, 2);
    saw_delete(&r, 0, 1, 3);
    size_t second = put(&r, 1, 4);
    saw_put(&r, 0, 1, second, 4);
    CHECK(record_judge(&r));

    saw_delete(&r, 0, 1, 5);

    check_is_untrue(&r, "revision 5 deletes key 1, and nobody has asked for it");
}
