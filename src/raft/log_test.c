#include "raft/log.h"

#include "harness/test.h"

static const struct raft_logger silence;

struct rig {
    struct raft_log log;
    struct blob_pile pile;
};

/* A log with entries of these terms, from index 1 on. */
static void rig_open(struct rig *rig, size_t count, const uint64_t *terms)
{
    struct raft_entry entries[64];

    *rig = (struct rig){0};
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct raft_entry){.index = i + 1, .term = terms[i], .data = BYTES("data")};
    struct raft_boot boot = {.entries = entries, .entry_count = count};
    raft_log_open(&rig->log, &boot, RAFT_NO_LIMIT, &silence, &rig->pile);
    raft_log_check(&rig->log);
}

#define RIG(rig, ...)                                                                              \
    rig_open((rig), sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),                          \
             (const uint64_t[]){__VA_ARGS__})

static void rig_close(struct rig *rig)
{
    raft_log_check(&rig->log);
    raft_log_close(&rig->log);
    blob_pile_free(&rig->pile);
}

static struct raft_entry entry(uint64_t index, uint64_t term)
{
    return (struct raft_entry){.index = index, .term = term, .data = BYTES("new")};
}

static void append(struct rig *rig, uint64_t index, uint64_t term)
{
    struct raft_entry e = entry(index, term);

    raft_log_append(&rig->log, &e, 1);
    raft_log_check(&rig->log);
}

/* Pretends that everything was written. */
static void write_all(struct rig *rig)
{
    raft_log_accept_unstable(&rig->log);
    raft_log_stable_to(&rig->log, raft_log_last(&rig->log), raft_log_last_term(&rig->log));
    raft_log_check(&rig->log);
}

/* --- terms --- */

TEST(the_term_is_known_from_base_to_last)
{
    struct rig rig;
    uint64_t term = 99;
    RIG(&rig, 1, 1, 3, 3, 5);

    CHECK(raft_log_term(&rig.log, 0, &term));
    CHECK_EQ(term, 0);
    CHECK(raft_log_term(&rig.log, 4, &term));
    CHECK_EQ(term, 3);
    CHECK(!raft_log_term(&rig.log, 6, &term));
    CHECK_EQ(raft_log_last_term(&rig.log), 5);

    raft_log_commit_to(&rig.log, 4);
    raft_log_applied_to(&rig.log, 4);
    raft_log_compact(&rig.log, 3);
    raft_log_check(&rig.log);
    CHECK(!raft_log_term(&rig.log, 2, &term));
    CHECK(raft_log_term(&rig.log, 3, &term));
    CHECK_EQ(term, 3);
    rig_close(&rig);
}

TEST(a_log_is_up_to_date_by_term_then_by_length)
{
    struct rig rig;
    RIG(&rig, 1, 2, 3);

    CHECK(raft_log_is_up_to_date(&rig.log, 1, 4));
    CHECK(raft_log_is_up_to_date(&rig.log, 3, 3));
    CHECK(raft_log_is_up_to_date(&rig.log, 4, 3));
    CHECK(!raft_log_is_up_to_date(&rig.log, 2, 3));
    CHECK(!raft_log_is_up_to_date(&rig.log, 9, 2));
    rig_close(&rig);
}

TEST(the_place_for_a_term_skips_what_cannot_match)
{
    struct rig rig;
    static const struct {
        uint64_t index, term, want_index, want_term;
    } cases[] = {
        {9, 2, 1, 1}, {9, 3, 4, 3}, {9, 5, 9, 5}, {9, 7, 9, 5},   {4, 5, 4, 3},
        {3, 1, 1, 1}, {9, 0, 0, 0}, {0, 9, 0, 0}, {10, 9, 10, 0}, {77, 1, 77, 0},
    };
    RIG(&rig, 1, 3, 3, 3, 5, 5, 5, 5, 5);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct raft_log_place place =
            raft_log_find_by_term(&rig.log, cases[i].index, cases[i].term);
        CHECK_EQ(place.index, cases[i].want_index);
        CHECK_EQ(place.term, cases[i].want_term);
    }
    rig_close(&rig);
}

/* The place found by runs, against a walk entry by entry as the definition has it. */
TEST(the_place_for_a_term_agrees_with_a_plain_walk)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t round = 0; round < 3000 * test_effort(); round++) {
        uint64_t terms[20], term = 1, count = rng_between(&rng, 1, 20);
        for (size_t i = 0; i < count; i++) {
            term += rng_chance(&rng, 1, 4) ? rng_below(&rng, 3) : 0;
            terms[i] = term;
        }
        struct rig rig;
        rig_open(&rig, count, terms);
        raft_log_commit_to(&rig.log, count);
        raft_log_applied_to(&rig.log, count);
        raft_log_compact(&rig.log, rng_below(&rng, count + 1));

        uint64_t index = rng_below(&rng, count + 2), wanted = rng_below(&rng, term + 2);
        struct raft_log_place place = raft_log_find_by_term(&rig.log, index, wanted);
        uint64_t ours = 0;
        while (index > 0 && raft_log_term(&rig.log, index, &ours) && ours > wanted)
            index--;
        bool known = index > 0 && raft_log_term(&rig.log, index, &ours);
        CHECK_EQ(place.index, index);
        CHECK_EQ(place.term, known ? ours : 0);
        rig_close(&rig);
    }
}

/* --- appending --- */

TEST(entries_are_shared_not_copied)
{
    struct rig rig;
    struct blob *frame = blob_copy(BYTES("firstsecond"));
    const uint8_t *at = blob_bytes(frame).at;
    struct raft_entry both[] = {
        {.index = 1, .term = 1, .data = bytes_of(at, 5), .blob = frame},
        {.index = 2, .term = 1, .data = bytes_of(at + 5, 6), .blob = frame},
    };
    rig_open(&rig, 0, NULL);

    raft_log_append(&rig.log, both, 2);
    size_t count;
    const struct raft_entry *slice = raft_log_slice(&rig.log, 1, 3, RAFT_NO_LIMIT, &count);
    CHECK_EQ(count, 2);
    CHECK(slice[1].data.at == at + 5);
    CHECK_EQ(blob_ref_count(frame), 3);
    rig_close(&rig);
    CHECK_EQ(blob_ref_count(frame), 1);
    blob_unref(frame);
}

TEST(a_dropped_blob_lives_until_the_pile_is_released)
{
    struct rig rig;
    RIG(&rig, 1);
    struct blob *data = blob_copy(BYTES("x"));
    struct raft_entry e = {.index = 2, .term = 1, .data = blob_bytes(data), .blob = data};
    raft_log_append(&rig.log, &e, 1);

    append(&rig, 2, 3); /* replaces it */
    CHECK_EQ(blob_ref_count(data), 2);
    blob_pile_release(&rig.pile);
    CHECK_EQ(blob_ref_count(data), 1);
    blob_unref(data);
    rig_close(&rig);
}

TEST(appending_where_entries_are_replaces_them)
{
    struct rig rig;
    RIG(&rig, 1, 2, 2);
    append(&rig, 4, 2);
    CHECK_EQ(rig.log.unstable, 4);
    raft_log_accept_unstable(&rig.log);

    append(&rig, 3, 4); /* the disk has an entry there, and one is on its way behind it */
    CHECK_EQ(raft_log_last(&rig.log), 3);
    CHECK_EQ(rig.log.unstable, 3);
    CHECK_EQ(rig.log.in_progress, 3);
    CHECK_EQ(raft_log_last_term(&rig.log), 4);

    raft_log_accept_unstable(&rig.log);
    append(&rig, 4, 4);
    append(&rig, 4, 5); /* only what is not handed out is replaced */
    CHECK_EQ(rig.log.unstable, 3);
    CHECK_EQ(rig.log.in_progress, 4);
    rig_close(&rig);
}

TEST(a_leaders_entries_are_taken_from_the_first_that_is_new)
{
    struct rig rig;
    struct raft_entry news[] = {entry(3, 2), entry(4, 3), entry(5, 3)};
    RIG(&rig, 1, 2, 2, 2);

    CHECK(!raft_log_maybe_append(&rig.log, 3, 1, NULL, 0)); /* another term there */
    CHECK(!raft_log_maybe_append(&rig.log, 5, 2, NULL, 0)); /* nothing there */
    CHECK_EQ(raft_log_last(&rig.log), 4);
    CHECK(raft_log_maybe_append(&rig.log, 2, 2, news, 3));
    raft_log_check(&rig.log);
    CHECK_EQ(raft_log_last(&rig.log), 5);
    CHECK_EQ(raft_log_term_or_zero(&rig.log, 3), 2);
    CHECK_EQ(raft_log_term_or_zero(&rig.log, 4), 3);
    CHECK_EQ(rig.log.unstable, 4);

    /* The same again, or a shorter piece, is no reason to cut anything off. */
    CHECK(raft_log_maybe_append(&rig.log, 2, 2, news, 2));
    CHECK_EQ(raft_log_last(&rig.log), 5);
    rig_close(&rig);
}

TEST(cutting_off_what_is_committed_is_a_bug)
{
    struct rig rig;
    RIG(&rig, 1, 1);
    raft_log_commit_to(&rig.log, 2);

    CHECK_DIES(append(&rig, 2, 3), "committed");
    CHECK_DIES(raft_log_commit_to(&rig.log, 3), "raft_log_last");
    rig_close(&rig);
}

/* --- committing --- */

TEST(only_the_leaders_own_term_commits)
{
    struct rig rig;
    RIG(&rig, 1, 2, 2);

    CHECK(!raft_log_maybe_commit(&rig.log, 1, 2));
    CHECK(!raft_log_maybe_commit(&rig.log, 4, 2));
    CHECK(raft_log_maybe_commit(&rig.log, 2, 2));
    CHECK_EQ(rig.log.committed, 2);
    CHECK(!raft_log_maybe_commit(&rig.log, 2, 2));
    rig_close(&rig);
}

/* --- writing --- */

TEST(entries_become_stable_only_if_they_are_the_ones_written)
{
    struct rig rig;
    RIG(&rig, 1);
    append(&rig, 2, 1);
    append(&rig, 3, 1);
    raft_log_accept_unstable(&rig.log);

    raft_log_stable_to(&rig.log, 2, 9); /* another entry was written there */
    CHECK_EQ(rig.log.unstable, 2);
    raft_log_stable_to(&rig.log, 7, 1); /* no such entry */
    CHECK_EQ(rig.log.unstable, 2);
    raft_log_stable_to(&rig.log, 2, 1);
    CHECK_EQ(rig.log.unstable, 3);
    raft_log_stable_to(&rig.log, 2, 1); /* said before */
    CHECK_EQ(rig.log.unstable, 3);
    rig_close(&rig);
}

TEST(a_snapshot_replaces_the_log_and_blocks_applying)
{
    struct rig rig;
    RIG(&rig, 1, 1);
    raft_log_commit_to(&rig.log, 1);
    struct raft_snapshot s = {.index = 9, .term = 4, .data = BYTES("state")};

    raft_log_restore(&rig.log, &s);
    raft_log_check(&rig.log);
    CHECK_EQ(raft_log_last(&rig.log), 9);
    CHECK_EQ(raft_log_first(&rig.log), 10);
    CHECK_EQ(raft_log_last_term(&rig.log), 4);
    append(&rig, 10, 4);
    raft_log_commit_to(&rig.log, 10);
    CHECK(!raft_log_has_committed(&rig.log, true));

    raft_log_stable_to(&rig.log, 9, 4); /* says nothing about entries */
    CHECK_EQ(rig.log.unstable, 10);
    raft_log_snapshot_stable(&rig.log, 8);
    CHECK(rig.log.snapshot != NULL);
    raft_log_snapshot_stable(&rig.log, 9);
    CHECK(rig.log.snapshot == NULL);
    raft_log_applied_to(&rig.log, 9);
    CHECK(raft_log_has_committed(&rig.log, true));
    CHECK(!raft_log_has_committed(&rig.log, false)); /* entry 10 is not durable */
    rig_close(&rig);
}

/* --- applying --- */

TEST(entries_are_handed_out_for_applying_within_a_budget)
{
    struct rig rig;
    size_t count;
    RIG(&rig, 1, 1, 1, 1);
    uint64_t two = raft_entry_size(rig.log.array) + raft_entry_size(rig.log.array + 1);
    rig.log.max_applying_bytes = two + 1;
    raft_log_commit_to(&rig.log, 4);

    const struct raft_entry *next = raft_log_next_committed(&rig.log, true, &count);
    CHECK_EQ(count, 2);
    CHECK_EQ(next[0].index, 1);
    raft_log_accept_applying(&rig.log, 2, true);
    CHECK(!raft_log_has_committed(&rig.log, true)); /* the third did not fit */
    raft_log_applied_to(&rig.log, 1);
    CHECK(raft_log_has_committed(&rig.log, true));
    next = raft_log_next_committed(&rig.log, true, &count);
    CHECK_EQ(count, 1);
    CHECK_EQ(next[0].index, 3);
    rig_close(&rig);
}

TEST(a_slice_gives_at_least_one_entry)
{
    struct rig rig;
    size_t count;
    RIG(&rig, 1, 1, 1);
    uint64_t size = raft_entry_size(rig.log.array);

    raft_log_slice(&rig.log, 1, 4, 0, &count);
    CHECK_EQ(count, 1);
    raft_log_slice(&rig.log, 1, 4, 2 * size, &count);
    CHECK_EQ(count, 2);
    raft_log_slice(&rig.log, 1, 4, 2 * size - 1, &count);
    CHECK_EQ(count, 1);
    raft_log_slice(&rig.log, 1, 4, RAFT_NO_LIMIT, &count);
    CHECK_EQ(count, 3);
    rig_close(&rig);
}

TEST(an_entry_is_as_big_as_its_protobuf)
{
    struct raft_entry small = {.term = 1, .index = 127};
    struct raft_entry large = {
        .term = 128, .index = 1 << 14, .type = RAFT_ENTRY_CONF_CHANGE, .data = BYTES("abc")};

    CHECK_EQ(raft_entry_size(&small), 4);
    CHECK_EQ(raft_entry_size(&large), 2 + 3 + 4 + 5);
}

/* --- forgetting --- */

TEST(evicted_entries_keep_their_terms)
{
    struct rig rig;
    RIG(&rig, 1, 2, 2, 3);
    raft_log_commit_to(&rig.log, 3);
    raft_log_applied_to(&rig.log, 2);

    raft_log_evict(&rig.log, 4); /* what is not applied stays */
    raft_log_check(&rig.log);
    CHECK_EQ(rig.log.resident, 3);
    CHECK_EQ(raft_log_first(&rig.log), 1);
    CHECK_EQ(raft_log_term_or_zero(&rig.log, 1), 1);
    CHECK_EQ(raft_log_term_or_zero(&rig.log, 2), 2);
    CHECK_EQ(rig.log.resident_bytes, 8);
    CHECK_DIES(raft_log_slice(&rig.log, 2, 3, 0, &(size_t){0}), "resident");
    rig_close(&rig);
}

TEST(everything_can_be_evicted_and_the_log_goes_on)
{
    struct rig rig;
    RIG(&rig, 1, 1);
    raft_log_commit_to(&rig.log, 2);
    raft_log_applied_to(&rig.log, 2);

    raft_log_evict(&rig.log, 2);
    CHECK_EQ(rig.log.count, 0);
    CHECK_EQ(raft_log_last(&rig.log), 2);
    append(&rig, 3, 2);
    CHECK_EQ(raft_log_last(&rig.log), 3);
    write_all(&rig);
    raft_log_compact(&rig.log, 1);
    raft_log_check(&rig.log);
    raft_log_compact(&rig.log, 2);
    raft_log_check(&rig.log);
    CHECK_EQ(raft_log_first(&rig.log), 3);
    rig_close(&rig);
}

TEST(trimming_stops_at_the_caps_and_at_what_is_not_durable)
{
    struct rig rig;
    RIG(&rig, 1, 1, 1, 1, 1);
    append(&rig, 6, 1);
    raft_log_commit_to(&rig.log, 6);
    raft_log_applied_to(&rig.log, 6);

    raft_log_trim(&rig.log, 4, 0);
    CHECK_EQ(rig.log.resident, 3);
    raft_log_trim(&rig.log, 0, 10);
    CHECK_EQ(rig.log.resident, 5); /* "data" and "new" */
    raft_log_trim(&rig.log, 0, 1);
    CHECK_EQ(rig.log.resident, 6);
    raft_log_check(&rig.log);
    rig_close(&rig);
}

TEST(a_log_can_be_opened_with_only_its_tail_in_memory)
{
    struct blob_pile pile = {0};
    struct raft_log log;
    struct raft_term_run runs[] = {{11, 2}, {15, 3}};
    struct raft_entry tail[] = {entry(20, 3), entry(21, 4)};
    struct raft_boot boot = {.base_index = 10,
                             .base_term = 1,
                             .runs = runs,
                             .run_count = 2,
                             .entries = tail,
                             .entry_count = 2};

    raft_log_open(&log, &boot, RAFT_NO_LIMIT, &silence, &pile);
    CHECK_EQ(log.resident, 20);
    CHECK_EQ(raft_log_last(&log), 21);
    CHECK_EQ(raft_log_term_or_zero(&log, 10), 1);
    CHECK_EQ(raft_log_term_or_zero(&log, 14), 2);
    CHECK_EQ(raft_log_term_or_zero(&log, 19), 3);
    CHECK_EQ(raft_log_term_or_zero(&log, 21), 4);
    raft_log_close(&log);
    blob_pile_free(&pile);
}

/* --- against a slow, obvious model --- */

struct model {
    uint64_t term[400]; /* by index */
    uint64_t base, last, committed, applied, unstable;
};

static void compare(const struct raft_log *l, const struct model *m)
{
    CHECK_EQ(l->base_index, m->base);
    CHECK_EQ(raft_log_last(l), m->last);
    CHECK_EQ(l->committed, m->committed);
    CHECK_EQ(l->applied, m->applied);
    CHECK_EQ(l->unstable, m->unstable);
    for (uint64_t i = m->base; i <= m->last; i++)
        CHECK_EQ(raft_log_term_or_zero(l, i), m->term[i]);
}

static void random_append(struct raft_log *l, struct model *m, struct rng *rng)
{
    struct raft_entry news[4];
    uint64_t from = rng_between(rng, m->committed + 1, m->last + 1);
    uint64_t count = rng_between(rng, 1, 4);
    uint64_t term = m->term[from - 1];

    if (from + count >= ARRAY_LEN(m->term))
        return;
    for (uint64_t i = 0; i < count; i++) {
        term += rng_below(rng, 2);
        news[i] = entry(from + i, term);
        m->term[from + i] = term;
    }
    raft_log_append(l, news, count);
    m->last = from + count - 1;
    if (from < m->unstable)
        m->unstable = from;
}

TEST(a_log_agrees_with_a_plain_list)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t life = 0; life < 30 * test_effort(); life++) {
        struct rig rig;
        struct model m = {.unstable = 1};
        rig_open(&rig, 0, NULL);
        for (int step = 0; step < 400; step++) {
            switch (rng_below(&rng, 7)) {
            case 0:
            case 1:
                random_append(&rig.log, &m, &rng);
                break;
            case 2:
                m.committed = rng_between(&rng, m.committed, m.last);
                raft_log_commit_to(&rig.log, m.committed);
                break;
            case 3:
                m.applied = rng_between(&rng, m.applied, m.committed);
                raft_log_applied_to(&rig.log, m.applied);
                break;
            case 4:
                if (m.unstable <= m.last)
                    write_all(&rig);
                m.unstable = m.last + 1;
                break;
            case 5:
                raft_log_evict(&rig.log, rng_below(&rng, m.last + 2));
                break;
            case 6: {
                uint64_t top = m.applied < m.unstable ? m.applied : m.unstable - 1;
                if (top < m.base)
                    break;
                m.base = rng_between(&rng, m.base, top);
                raft_log_compact(&rig.log, m.base);
                break;
            }
            }
            raft_log_check(&rig.log);
            compare(&rig.log, &m);
        }
        rig_close(&rig);
    }
}
