#include "server/storage_work.h"

#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

/* A message with entries [from, from + count), and one response that names it. */
struct handed {
    struct raft_entry entries[8];
    struct raft_message response, message;
};

static const struct raft_message *make(struct handed *h, enum raft_message_type type, uint64_t from,
                                       size_t count, uint64_t name)
{
    *h = (struct handed){.response = {.type = RAFT_MSG_STORAGE_APPEND_RESP, .index = name}};
    for (size_t i = 0; i < count; i++)
        h->entries[i] = (struct raft_entry){.term = 1, .index = from + i};
    h->message = (struct raft_message){.type = type,
                                       .entries = h->entries,
                                       .entry_count = count,
                                       .responses = &h->response,
                                       .response_count = 1};
    return &h->message;
}

static void append(struct storage_work *w, uint64_t name, uint64_t seq)
{
    struct handed h;

    storage_work_append(w, make(&h, RAFT_MSG_STORAGE_APPEND, 1, 2, name), seq, 10 * seq);
    storage_work_check(w);
}

static void apply(struct storage_work *w, uint64_t from, size_t count, uint64_t name)
{
    struct handed h;

    storage_work_apply(w, make(&h, RAFT_MSG_STORAGE_APPLY, from, count, name));
    storage_work_check(w);
}

/* The name of what was taken, 0: nothing. */
static uint64_t take_durable(struct storage_work *w, uint64_t seq)
{
    struct raft_message *m = storage_work_take_durable(w, seq);
    uint64_t name = m ? m->responses[0].index : 0;

    raft_message_free(m);
    return name;
}

TEST(appends_come_back_in_order_when_they_are_durable)
{
    struct storage_work w;
    storage_work_init(&w, 0);
    append(&w, 11, 1);
    append(&w, 12, 2);
    append(&w, 13, 2); /* a commit index alone: it has the number of the one before */
    append(&w, 14, 3);

    CHECK_EQ(take_durable(&w, 0), 0);
    CHECK_EQ(take_durable(&w, 2), 11);
    CHECK_EQ(take_durable(&w, 2), 12);
    CHECK_EQ(take_durable(&w, 2), 13);
    CHECK_EQ(take_durable(&w, 2), 0);
    CHECK_EQ(take_durable(&w, 3), 14);
    CHECK_DIES(take_durable(&w, 2), "durable_seq"); /* what is durable does not become less */

    storage_work_check(&w);
    storage_work_free(&w);
}

TEST(what_is_written_is_the_last_that_came_back)
{
    struct storage_work w;
    struct handed h;
    struct raft_snapshot snapshot = {.index = 9, .term = 4};
    storage_work_init(&w, 0);
    append(&w, 11, 1);
    struct raft_message m = *make(&h, RAFT_MSG_STORAGE_APPEND, 1, 0, 12);
    m.snapshot = &snapshot;
    storage_work_append(&w, &m, 2, 20);
    storage_work_append(&w, make(&h, RAFT_MSG_STORAGE_APPEND, 1, 0, 13), 2, 30);

    CHECK_EQ(w.durable_index, 0);
    CHECK_EQ(take_durable(&w, 1), 11);
    CHECK_EQ(w.durable_index, 2);
    CHECK_EQ(w.durable_term, 1);
    CHECK_EQ(take_durable(&w, 2), 12);
    CHECK_EQ(w.durable_index, 9);
    CHECK_EQ(w.durable_term, 4);
    CHECK_EQ(take_durable(&w, 2), 13); /* a commit index alone */
    CHECK_EQ(w.durable_index, 9);

    storage_work_free(&w);
}

/* Tells raft, as the server does: "name from..to", or "". */
static const char *tell(struct storage_work *w)
{
    static char text[64];
    size_t from, to;
    const struct raft_message *m = storage_work_take_applied(w, &from, &to);

    if (!m)
        return "";
    snprintf(text, sizeof(text), "%d %zu..%zu", (int)m->responses[0].index, from, to);
    storage_work_applied_told(w);
    storage_work_check(w);
    return text;
}

TEST(entries_that_an_image_contains_count_as_applied)
{
    struct storage_work w;
    storage_work_init(&w, 7);
    apply(&w, 8, 3, 21);
    apply(&w, 11, 2, 22);
    apply(&w, 13, 2, 23);
    storage_work_entry_applied(&w);
    CHECK_STR(tell(&w), "21 0..1");
    CHECK_EQ(storage_work_after_next(&w, 0)->index, 9);
    CHECK_EQ(storage_work_after_next(&w, 2)->index, 11);
    CHECK_EQ(storage_work_after_next(&w, 5)->index, 14);
    CHECK(!storage_work_after_next(&w, 6));

    CHECK(storage_work_overtaken(&w, 13));
    CHECK_STR(tell(&w), "21 1..3");
    CHECK(storage_work_overtaken(&w, 13));
    CHECK_STR(tell(&w), "22 0..2");
    CHECK(storage_work_overtaken(&w, 13));
    CHECK_STR(tell(&w), "23 0..1");
    CHECK(!storage_work_overtaken(&w, 13));
    CHECK_EQ(storage_work_next(&w)->index, 14);

    CHECK(storage_work_overtaken(&w, 20)); /* what was never handed out, too */
    CHECK_STR(tell(&w), "23 1..2");
    CHECK(!storage_work_overtaken(&w, 20));
    CHECK_EQ(w.applied_index, 20);
    storage_work_check(&w);
    apply(&w, 21, 1, 24);
    CHECK_EQ(storage_work_next(&w)->index, 21);
    storage_work_free(&w);
}

TEST(the_oldest_append_is_known_by_its_age)
{
    struct storage_work w;
    storage_work_init(&w, 0);

    CHECK_EQ(storage_work_oldest_append_ms(&w), UINT64_MAX);
    append(&w, 11, 1);
    append(&w, 12, 2);
    CHECK_EQ(storage_work_oldest_append_ms(&w), 10);
    raft_message_free(storage_work_take_durable(&w, 1));
    CHECK_EQ(storage_work_oldest_append_ms(&w), 20);
    raft_message_free(storage_work_take_durable(&w, 2));
    CHECK_EQ(storage_work_oldest_append_ms(&w), UINT64_MAX);

    storage_work_free(&w);
}

TEST(raft_is_told_of_what_is_applied_in_parts)
{
    struct storage_work w;
    storage_work_init(&w, 7);
    CHECK(!storage_work_next(&w));
    CHECK_STR(tell(&w), "");
    apply(&w, 8, 3, 21);
    apply(&w, 11, 1, 22);

    CHECK_EQ(storage_work_next(&w)->index, 8);
    CHECK_STR(tell(&w), "");
    storage_work_entry_applied(&w);
    storage_work_check(&w);
    CHECK_STR(tell(&w), "21 0..1");
    CHECK_STR(tell(&w), "");
    CHECK(!storage_work_entry_applied(&w));
    CHECK_EQ(storage_work_next(&w)->index, 10);
    CHECK(storage_work_entry_applied(&w));
    CHECK(!storage_work_next(&w)); /* the next message waits until this one is told of */
    storage_work_check(&w);
    CHECK_DIES(storage_work_entry_applied(&w), "entry_count");
    CHECK_STR(tell(&w), "21 1..3");
    CHECK_EQ(storage_work_next(&w)->index, 11);
    storage_work_entry_applied(&w);
    CHECK_EQ(w.applied_index, 11);
    CHECK_STR(tell(&w), "22 0..1");
    CHECK(!storage_work_next(&w));
    CHECK_STR(tell(&w), "");

    storage_work_free(&w);
}

TEST(work_that_leaves_a_gap_or_goes_back_is_a_bug)
{
    struct storage_work w;
    storage_work_init(&w, 7);
    append(&w, 1, 5);
    apply(&w, 8, 1, 2);

    CHECK_DIES(apply(&w, 10, 1, 3), "handed_index");
    CHECK_DIES(apply(&w, 8, 1, 3), "handed_index");
    CHECK_DIES(append(&w, 1, 4), "appended_seq");
    w.handed_index++;
    CHECK_DIES(storage_work_check(&w), "handed_index");

    storage_work_free(&w); /* with work under way, as in a crash */
}

TEST(the_two_kinds_of_work_do_not_wait_for_each_other)
{
    for (uint64_t seed = 0; seed < 10 * test_effort(); seed++) {
        struct storage_work w;
        struct rng rng;
        uint64_t next_append = 1, next_apply = 1, seq = 0, durable = 0;
        uint64_t taken_append = 0, applied = 0;
        storage_work_init(&w, 0);
        rng_seed(&rng, test_seed() + seed);

        for (unsigned i = 0; i < 1000; i++) {
            seq += rng_below(&rng, 2);
            durable += rng_below(&rng, seq - durable + 1);
            if (rng_chance(&rng, 1, 3))
                append(&w, next_append++, seq);
            if (rng_chance(&rng, 1, 3))
                apply(&w, w.handed_index + 1, rng_between(&rng, 1, 8), next_apply++);
            for (uint64_t n = rng_below(&rng, 4); n > 0 && storage_work_next(&w); n--) {
                CHECK_EQ(storage_work_next(&w)->index, ++applied);
                if (storage_work_entry_applied(&w) || rng_chance(&rng, 1, 2))
                    tell(&w);
            }
            for (uint64_t name; (name = take_durable(&w, durable));)
                CHECK_EQ(name, ++taken_append);
            storage_work_check(&w);
        }
        CHECK(taken_append > 100);
        CHECK(applied > 100);

        storage_work_free(&w);
    }
}
