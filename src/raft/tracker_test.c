#include "raft/tracker.h"

#include "base/assert.h"
#include "harness/test.h"
#include "raft/describe.h"

static struct raft_progress progress(enum progress_state state, uint64_t match, uint64_t next)
{
    return (struct raft_progress){
        .id = 1,
        .state = state,
        .match = match,
        .next = next,
        .recent_active = true,
        .inflights = {.count_max = 256},
    };
}

static void check_text(const struct raft_progress *p, const char *want)
{
    struct buf text = {0};

    raft_describe_progress(&text, p);
    CHECK_STR(buf_str(&text), want);
    buf_free(&text);
}

/* --- the inflight window --- */

TEST(a_window_is_full_by_count)
{
    struct inflights in = {.count_max = 3};

    for (uint64_t i = 1; i <= 3; i++) {
        CHECK(!inflights_full(&in));
        inflights_add(&in, i * 10, 1);
    }
    CHECK(inflights_full(&in));
    inflights_free_upto(&in, 9);
    CHECK_EQ(in.count, 3);
    inflights_free_upto(&in, 25);
    CHECK_EQ(in.count, 1);
    CHECK(!inflights_full(&in));
    mem_free(in.ring);
}

TEST(a_window_is_full_by_bytes_once_they_reach_the_bound)
{
    struct inflights in = {.count_max = 100, .bytes_max = 10};

    inflights_add(&in, 1, 9);
    CHECK(!inflights_full(&in));
    inflights_add(&in, 2, 500); /* the bound is soft */
    CHECK(inflights_full(&in));
    inflights_free_upto(&in, 1);
    CHECK(inflights_full(&in));
    inflights_free_upto(&in, 2);
    CHECK(!inflights_full(&in));
    CHECK_EQ(in.bytes, 0);
    mem_free(in.ring);
}

TEST(a_window_agrees_with_a_plain_list)
{
    struct rng rng;
    uint64_t model[64], model_count = 0, next = 1;
    struct inflights in = {.count_max = 50};
    rng_seed(&rng, test_seed());

    for (uint64_t round = 0; round < 50000 * test_effort(); round++) {
        if (rng_chance(&rng, 1, 2) && !inflights_full(&in)) {
            inflights_add(&in, next, next);
            model[model_count++] = next++;
        } else if (model_count > 0) {
            uint64_t upto = rng_between(&rng, model[0] - 1, next);
            size_t gone = 0;
            inflights_free_upto(&in, upto);
            while (gone < model_count && model[gone] <= upto)
                gone++;
            model_count -= gone;
            memmove(model, model + gone, model_count * sizeof(*model));
        }
        uint64_t bytes = 0;
        for (size_t i = 0; i < model_count; i++)
            bytes += model[i];
        CHECK_EQ(in.count, model_count);
        CHECK_EQ(in.bytes, bytes);
        CHECK_EQ(inflights_full(&in), model_count == 50);
    }
    mem_free(in.ring);
}

TEST(adding_to_a_full_window_is_a_bug)
{
    struct inflights in = {.count_max = 1};
    inflights_add(&in, 1, 1);

    CHECK_DIES(inflights_add(&in, 2, 1), "!inflights_full");
    mem_free(in.ring);
}

/* --- progress --- */

TEST(progress_is_described_as_etcd_does)
{
    struct raft_progress p = progress(PROGRESS_SNAPSHOT, 1, 7);
    p.pending_snapshot = 6;
    p.is_learner = true;
    p.recent_active = false;

    check_text(&p, "StateSnapshot match=1 next=7 learner paused pendingSnap=6 inactive");
    p = progress(PROGRESS_REPLICATE, 3, 5);
    p.inflights.count_max = 1;
    inflights_add(&p.inflights, 4, 1);
    check_text(&p, "StateReplicate match=3 next=5 inflight=1[full]");
    mem_free(p.inflights.ring);
}

TEST(a_probe_is_paused_after_one_append_with_entries)
{
    struct raft_progress p = progress(PROGRESS_PROBE, 0, 5);

    progress_sent_entries(&p, 0, 0);
    CHECK(!progress_is_paused(&p));
    progress_sent_entries(&p, 1, 10);
    CHECK(progress_is_paused(&p));
    CHECK_EQ(p.next, 5);
}

TEST(replication_runs_ahead_until_the_window_is_full)
{
    struct raft_progress p = progress(PROGRESS_REPLICATE, 4, 5);
    p.inflights.count_max = 2;

    progress_sent_entries(&p, 3, 30);
    CHECK_EQ(p.next, 8);
    CHECK(!progress_is_paused(&p));
    progress_sent_entries(&p, 1, 10);
    CHECK_EQ(p.next, 9);
    CHECK(progress_is_paused(&p));
    mem_free(p.inflights.ring);
}

TEST(becoming_a_probe_goes_back_to_what_is_known)
{
    struct raft_progress p = progress(PROGRESS_REPLICATE, 1, 5);

    progress_become_probe(&p);
    CHECK_EQ(p.next, 2);

    /* A snapshot that was delivered reaches further; one that failed does not. */
    progress_become_snapshot(&p, 10);
    CHECK_EQ(p.next, 11);
    progress_become_probe(&p);
    CHECK_EQ(p.next, 11);
    progress_become_snapshot(&p, 10);
    p.pending_snapshot = 0;
    progress_become_probe(&p);
    CHECK_EQ(p.next, 2);
}

TEST(only_news_updates_the_match)
{
    struct raft_progress p = progress(PROGRESS_PROBE, 3, 5);
    p.flow_paused = true;

    CHECK(!progress_maybe_update(&p, 2));
    CHECK(!progress_maybe_update(&p, 3));
    CHECK(p.flow_paused);
    CHECK(progress_maybe_update(&p, 4));
    CHECK_EQ(p.match, 4);
    CHECK_EQ(p.next, 5);
    CHECK(!p.flow_paused);
    CHECK(progress_maybe_update(&p, 9));
    CHECK_EQ(p.next, 10);
}

TEST(a_rejection_moves_next_down_if_it_is_about_the_current_probe)
{
    static const struct {
        uint64_t match, next, rejected, hint, next_after;
        enum progress_state state;
        bool changed;
    } cases[] = {
        /* replicating: whatever is above match may be news; then back to the match */
        {5, 10, 5, 5, 10, PROGRESS_REPLICATE, false},
        {5, 10, 4, 4, 10, PROGRESS_REPLICATE, false},
        {5, 10, 9, 9, 6, PROGRESS_REPLICATE, true},
        /* probing: only an answer to the probe at next - 1 */
        {0, 0 + 1, 5, 5, 1, PROGRESS_PROBE, false},
        {0, 10, 5, 5, 10, PROGRESS_PROBE, false},
        {0, 10, 9, 9, 9, PROGRESS_PROBE, true},
        {0, 10, 9, 2, 3, PROGRESS_PROBE, true},
        {0, 2, 1, 1, 1, PROGRESS_PROBE, true},
        {0, 10, 9, 0, 1, PROGRESS_PROBE, true},
        {4, 10, 9, 1, 5, PROGRESS_PROBE, true},
        {0, 10, 9, UINT64_MAX, 1, PROGRESS_PROBE, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct raft_progress p = progress(cases[i].state, cases[i].match, cases[i].next);
        bool changed = progress_maybe_decrease(&p, cases[i].rejected, cases[i].hint);
        CHECK_EQ(changed, cases[i].changed);
        CHECK_EQ(p.next, cases[i].next_after);
        CHECK_EQ(p.match, cases[i].match);
    }
}

TEST(a_commit_index_is_news_only_below_what_was_sent)
{
    struct raft_progress p = progress(PROGRESS_REPLICATE, 4, 8);
    p.sent_commit = 5;

    CHECK(progress_can_bump_commit(&p, 6));
    CHECK(!progress_can_bump_commit(&p, 5));
    p.sent_commit = 7; /* as far as its log can go */
    CHECK(!progress_can_bump_commit(&p, 9));
}

TEST(a_fetch_is_forgotten_when_other_entries_are_needed)
{
    struct raft_progress p = progress(PROGRESS_PROBE, 0, 5);

    p.fetch_token = 1;
    CHECK(progress_is_paused(&p));
    CHECK(progress_maybe_update(&p, 3));
    CHECK_EQ(p.fetch_token, 1); /* entry 5 is still the next */
    CHECK(progress_maybe_decrease(&p, 4, 3));
    CHECK_EQ(p.fetch_token, 0);
    p.fetch_token = 2;
    CHECK(progress_maybe_update(&p, 8));
    CHECK_EQ(p.fetch_token, 0);
    p.fetch_token = 3;
    progress_become_replicate(&p);
    CHECK_EQ(p.fetch_token, 0);
}
