#include "server/replay.h"

#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

static void see(struct replay *l, uint64_t index, uint64_t term)
{
    struct wal_visitor v = replay_visitor(l);
    char text[32];

    int length = snprintf(text, sizeof(text), "%d of %d", (int)index, (int)term);
    v.on_entry(
        v.context,
        &(struct raft_entry){.index = index, .term = term, .data = bytes_of(text, (size_t)length)});
    if (index > l->found.last_index)
        l->found.last_index = index;
}

static void see_all(struct replay *l, uint64_t from, uint64_t to, uint64_t term)
{
    for (uint64_t i = from; i <= to; i++)
        see(l, i, term);
}

static void truncate_from(struct replay *l, uint64_t from)
{
    struct wal_visitor v = replay_visitor(l);

    v.on_truncate(v.context, from);
    l->found.last_index = from - 1;
}

static struct raft_boot remember(const struct replay *l)
{
    static const struct raft_conf_state conf_state = {.voters = {.count = 1, .at = {1}}};
    struct raft_boot boot;

    replay_check(l);
    replay_remember(l, &conf_state, &boot);
    return boot;
}

TEST(a_log_that_is_not_applied_is_held_in_memory)
{
    struct replay l = {.found = {.state = {.term = 2, .vote = 1, .commit = 2}}};
    see_all(&l, 1, 2, 1);
    see(&l, 3, 2);

    struct raft_boot boot = remember(&l);

    CHECK_EQ(boot.entry_count, 3);
    CHECK_EQ(boot.run_count, 0);
    CHECK_EQ(boot.entries[0].index, 1);
    CHECK_BYTES(boot.entries[2].data, BYTES("3 of 2"));
    CHECK_EQ(boot.hard_state.term, 2);
    CHECK_EQ(boot.hard_state.vote, 1);
    CHECK_EQ(boot.hard_state.commit, 2);
    CHECK_EQ(boot.conf_state.voters.at[0], 1);
    replay_free(&l);
}

TEST(of_what_is_applied_only_the_terms_are_noted_and_the_last_one_is_kept)
{
    struct replay l = {.start = {.index = 10, .term = 2}, .applied = 17};
    l.found.state = (struct raft_hard_state){.term = 4, .commit = 17};
    see_all(&l, 11, 13, 2);
    see_all(&l, 14, 15, 3);
    see_all(&l, 16, 19, 4);

    struct raft_boot boot = remember(&l);

    CHECK_EQ(boot.base_index, 10);
    CHECK_EQ(boot.base_term, 2);
    CHECK_EQ(boot.applied, 17);
    CHECK_EQ(boot.run_count, 3);
    CHECK_EQ(boot.runs[1].index, 14);
    CHECK_EQ(boot.runs[1].term, 3);
    CHECK_EQ(boot.runs[2].index, 16);
    CHECK_EQ(boot.entry_count, 3);
    CHECK_EQ(boot.entries[0].index, 17);
    replay_free(&l);
}

TEST(what_was_replaced_is_forgotten)
{
    struct replay l = {.applied = 3, .found = {.state = {.term = 4, .commit = 3}}};
    see_all(&l, 1, 6, 2);

    truncate_from(&l, 5);
    see_all(&l, 5, 7, 4);
    struct raft_boot boot = remember(&l);

    CHECK_EQ(boot.entry_count, 5);
    CHECK_EQ(boot.entries[1].term, 2);
    CHECK_EQ(boot.entries[2].index, 5);
    CHECK_EQ(boot.entries[2].term, 4);
    CHECK_BYTES(boot.entries[2].data, BYTES("5 of 4"));
    replay_free(&l);
}

/* --- what the hard state says, and what follows from the rest --- */

/* An entry is written before the term that came with it, and the power may go in between. */
TEST(whoever_has_an_entry_has_heard_of_its_term_and_not_voted_in_it)
{
    struct replay l = {.found = {.state = {.term = 2, .vote = 1, .commit = 1}}};
    see(&l, 1, 2);
    see(&l, 2, 5);

    struct raft_boot boot = remember(&l);

    CHECK_EQ(boot.hard_state.term, 5);
    CHECK_EQ(boot.hard_state.vote, 0);
    replay_free(&l);
}

TEST(what_is_applied_was_committed)
{
    struct replay l = {.applied = 2, .found = {.state = {.term = 1, .commit = 1}}};
    see_all(&l, 1, 3, 1);

    CHECK_EQ(remember(&l).hard_state.commit, 2);
    replay_free(&l);
}

/* Power has gone before the term of the last entries was noted; it was heard of all the same. */
TEST(entries_that_are_dropped_leave_their_term_behind)
{
    struct replay l = {.applied = 2, .found = {.state = {.term = 1, .vote = 7, .commit = 1}}};
    see_all(&l, 1, 3, 1);
    see_all(&l, 4, 5, 2);

    replay_drop_from(&l, 4);

    struct raft_boot boot = remember(&l);
    CHECK_EQ(l.found.last_index, 3);
    CHECK_EQ(boot.entries[boot.entry_count - 1].index, 3);
    CHECK_EQ(boot.hard_state.term, 2);
    CHECK_EQ(boot.hard_state.vote, 0);
    CHECK_EQ(boot.hard_state.commit, 2);
    CHECK_DIES(replay_drop_from(&l, 2), "replay_committed");
    replay_free(&l);
}

static void see_founder(struct replay *l, uint64_t index)
{
    struct wal_visitor v = replay_visitor(l);

    v.on_entry(v.context,
               &(struct raft_entry){.index = index, .term = 1, .type = RAFT_ENTRY_CONF_CHANGE});
    l->found.last_index = index;
}

/* How many founders there were is for the flags to say: some of their entries may be lost. */
TEST(a_founding_without_its_hard_state_is_to_be_done_again)
{
    struct replay l = {0};

    CHECK(replay_is_founding(&l));
    see_founder(&l, 1);
    see_founder(&l, 2);
    CHECK(replay_is_founding(&l));
    CHECK_EQ(remember(&l).hard_state.commit, 0);

    l.found.state = (struct raft_hard_state){.term = 1, .commit = 2};
    CHECK(!replay_is_founding(&l));
    CHECK_EQ(remember(&l).hard_state.commit, 2);
    replay_free(&l);
}

TEST(a_log_with_an_entry_of_a_leader_was_founded)
{
    struct replay l = {0};
    see_founder(&l, 1);
    see(&l, 2, 2);

    CHECK(!replay_is_founding(&l));
    replay_free(&l);
}

TEST(whoever_has_heard_of_a_term_does_not_found)
{
    struct replay l = {.found = {.state = {.term = 3}}};

    CHECK(!replay_is_founding(&l));
    l = (struct replay){.start = {.index = 5, .term = 1}};
    CHECK(!replay_is_founding(&l));
    l = (struct replay){.applied = 5};
    CHECK(!replay_is_founding(&l));
}

/* --- what does not fit together --- */

static void check_refused(const struct replay *l, const char *text)
{
    struct buf why = {0};

    CHECK_EQ(replay_verify(l, "/wal", &why), ERR_CORRUPT);
    CHECK_STR(buf_str(&why), text);
    buf_free(&why);
}

TEST(a_log_and_a_store_that_do_not_fit_together_are_refused)
{
    struct replay l = {.start = {.index = 10, .term = 2}, .applied = 9};
    struct buf why = {0};

    l.found.last_index = 15;
    check_refused(&l, "the log in /wal begins after entry 10, but the store has applied it only up "
                      "to 9");
    l.applied = 16;
    check_refused(&l, "entries up to 16 are committed, but the log in /wal ends at 15: part of it "
                      "is lost");
    l.applied = 12;
    l.found.state.commit = 17;
    check_refused(&l, "entries up to 17 are committed, but the log in /wal ends at 15: part of it "
                      "is lost");
    l.found.state.commit = 15;
    CHECK_EQ(replay_verify(&l, "/wal", &why), ERR_OK);
    l.applied = 10; /* exactly the snapshot */
    CHECK_EQ(replay_verify(&l, "/wal", &why), ERR_OK);
    CHECK_EQ(why.len, 0);
}

/* --- any log, against an array --- */

/* The term of an entry as raft would find it: by the runs, or in the entries. */
static uint64_t term_in(const struct raft_boot *b, uint64_t index)
{
    uint64_t term = 0;

    if (b->entry_count > 0 && index >= b->entries[0].index)
        return b->entries[index - b->entries[0].index].term;
    for (size_t i = 0; i < b->run_count && b->runs[i].index <= index; i++)
        term = b->runs[i].term;
    return term;
}

TEST(raft_remembers_any_log_as_it_was_written)
{
    struct raft_config config = {.id = 1,
                                 .election_ticks = 10,
                                 .heartbeat_ticks = 1,
                                 .max_inflight_messages = 1,
                                 .async_storage_writes = true};

    for (uint64_t seed = 0; seed < 300 * test_effort(); seed++) {
        struct rng rng;
        uint64_t terms[128] = {0}, term = 1;
        rng_seed(&rng, test_seed() + seed);
        uint64_t start = rng_below(&rng, 3) * 7, last = start;
        uint64_t committed = start + rng_below(&rng, 20);
        struct replay l = {.start = {.index = start, .term = start ? 1 : 0}, .applied = committed};
        l.found.last_index = start;

        while (last < committed || rng_chance(&rng, 9, 10)) {
            term += rng_chance(&rng, 1, 6);
            if (last > committed && rng_chance(&rng, 1, 5)) { /* a new leader knows better */
                last = rng_between(&rng, committed, last - 1);
                truncate_from(&l, last + 1);
                term++;
            }
            if (last + 1 == ARRAY_LEN(terms))
                break;
            terms[++last] = term;
            see(&l, last, term);
        }
        l.found.state = (struct raft_hard_state){.term = term, .commit = committed};
        struct buf why = {0};
        CHECK_EQ(replay_verify(&l, "/wal", &why), ERR_OK);
        struct raft_boot boot = remember(&l);

        for (uint64_t i = start + 1; i <= last; i++)
            CHECK_EQ(term_in(&boot, i), terms[i]);
        rng_seed(&config.rng, seed);
        struct raft *raft = raft_open(&config, &boot);
        raft_check(raft);
        CHECK_EQ(raft_status(raft).last_index, last);
        CHECK_EQ(raft_status(raft).applied, committed);
        for (uint64_t i = start + 1, found; i <= last; i++) {
            CHECK(raft_term_at(raft, i, &found));
            CHECK_EQ(found, terms[i]);
        }
        raft_close(raft);
        replay_free(&l);
    }
}

TEST(the_check_of_a_replay_notices)
{
    struct replay l = {.applied = 3, .found = {.state = {.term = 1, .commit = 3}}};
    see_all(&l, 1, 5, 1);
    replay_check(&l);

    l.entries[1].index++;
    CHECK_DIES(replay_check(&l), "entries");
    l.entries[1].index--;
    l.runs[0].index = 0;
    CHECK_DIES(replay_check(&l), "start.index");
    l.runs[0].index = 1;
    replay_free(&l);
}
