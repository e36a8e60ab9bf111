/* Copies that workers make while the store is cold: of what, in which order, and what makes those
 * of history wrong. */
#include "mvcc/mvcc_int.h"
#include "mvcc/mvcc_rig_test.h"

#include <stdio.h>

static void open_with_history(struct mvcc_rig *r)
{
    mvcc_rig_init(r, BACKEND_RIG_MEMORY);
    for (unsigned i = 0; i < 10; i++)
        mvcc_rig_put(r, "a", "value"); /* revisions 2 to 11 */
    mvcc_rig_commit(r);
}

/* Is there a copy of history from this revision on? If not, it is wanted from now on. */
static bool is_copied(struct mvcc *m, int64_t main)
{
    struct mvcc_history h;

    if (!mvcc_history_open(m, (struct revision){.main = main}, false, &h))
        return false;
    bool copied = h.is_copied;
    mvcc_history_close(&h);
    return copied;
}

/* A worker has read it, and the turn has not heard of that. */
static void read_ahead(struct mvcc *m, int64_t from, struct mvcc_warmup *out)
{
    CHECK(!is_copied(m, from));
    CHECK(mvcc_take_warmup(m, false, out));
    CHECK(out->is_range);
    mvcc_warmup_read(out);
}

/* Workers read for it, too: it computes a hash of what is there before it removes anything. */
static void compact_some(struct mvcc_rig *r, int64_t revision)
{
    uint64_t before = r->m->stats.revisions_removed;

    CHECK_EQ(mvcc_rig_compact(r, revision), MVCC_OK);
    mvcc_rig_commit(r);
    for (unsigned i = 0; r->m->stats.revisions_removed == before; i++) {
        CHECK(i < 100);
        mvcc_compact_some(r->m, 500);
        (void)mvcc_rig_warm(r);
    }
}

TEST(a_copy_of_history_behind_a_compaction_is_used)
{
    struct mvcc_rig r;
    struct mvcc_warmup warmup;
    open_with_history(&r);
    mvcc_set_cold(r.m, true);
    read_ahead(r.m, 8, &warmup);

    compact_some(&r, 6);
    mvcc_warmed(&warmup);
    CHECK(is_copied(r.m, 8));
    compact_some(&r, 7);

    CHECK(is_copied(r.m, 8));
    compact_some(&r, 9);
    CHECK(!is_copied(r.m, 8));
    mvcc_rig_free(&r);
}

TEST(a_copy_of_history_that_a_compaction_has_changed_is_not_used)
{
    struct mvcc_rig r;
    struct mvcc_warmup warmup;
    open_with_history(&r);
    mvcc_set_cold(r.m, true);
    read_ahead(r.m, 3, &warmup);

    compact_some(&r, 6);
    mvcc_warmed(&warmup);

    CHECK(!is_copied(r.m, 3));
    mvcc_rig_free(&r);
}

/* A worker may take longer than the store is cold. */
TEST(a_copy_of_history_that_has_changed_while_the_store_was_warm_is_not_used)
{
    struct mvcc_rig r;
    struct mvcc_warmup warmup;
    open_with_history(&r);
    mvcc_set_cold(r.m, true);
    read_ahead(r.m, 3, &warmup);
    mvcc_set_cold(r.m, false);

    compact_some(&r, 6);
    mvcc_set_cold(r.m, true);
    mvcc_warmed(&warmup);

    CHECK(!is_copied(r.m, 3));
    mvcc_rig_free(&r);
}

static bool is_at_hand(struct mvcc_rig *r, const char *key)
{
    struct keyindex_found found;

    CHECK(mvcc_find(r->m, bytes_of_str(key), revision_whole(mvcc_revision(r->m)), &found));
    return mvcc_is_at_hand(r->m, found.mod);
}

TEST(an_entry_that_no_commit_has_brought_into_the_store_is_at_hand)
{
    struct mvcc_rig r;
    struct mvcc_warmup warmup;
    open_with_history(&r);
    mvcc_rig_put(&r, "frozen", "value");
    backend_commit_start(r.backend_rig.b);
    mvcc_rig_put(&r, "open", "value");
    mvcc_set_cold(r.m, true);

    CHECK(is_at_hand(&r, "frozen"));
    CHECK(is_at_hand(&r, "open"));
    CHECK(!mvcc_take_warmup(r.m, false, &warmup));
    CHECK(!is_at_hand(&r, "a"));
    backend_rig_settle(&r.backend_rig);
    CHECK(!is_at_hand(&r, "frozen"));
    CHECK(is_at_hand(&r, "open"));
    mvcc_rig_free(&r);
}

/* --- who is served ------------------------------------------------------------------------ */

/* The next that a worker takes, of any kind, which it has in hand now. */
static const struct mvcc_warmup *take(struct mvcc_rig *r, struct mvcc_warmup *out)
{
    CHECK(mvcc_take_warmup(r->m, false, out));
    return out;
}

static void hear(struct mvcc_warmup *w)
{
    mvcc_warmup_read(w);
    mvcc_warmed(w);
}

TEST(history_that_a_worker_is_reading_is_not_wanted_again)
{
    struct mvcc_rig r;
    struct mvcc_warmup first, again;
    open_with_history(&r);
    mvcc_set_cold(r.m, true);
    read_ahead(r.m, 3, &first);

    CHECK(!is_copied(r.m, 3));
    CHECK(!mvcc_take_warmup(r.m, false, &again));
    mvcc_forget_copied_history(r.m, 5);
    CHECK(!is_copied(r.m, 3)); /* what the worker reads is of no use any more */
    CHECK(take(&r, &again)->is_range);

    hear(&first);
    CHECK(!is_copied(r.m, 3));
    hear(&again);
    CHECK(is_copied(r.m, 3));
    mvcc_rig_free(&r);
}

/* A watcher catches up through long history, and is quick to want what comes next. */
TEST(one_reader_of_history_does_not_keep_workers_from_another)
{
    struct mvcc_rig r;
    struct mvcc_warmup first, second;
    open_with_history(&r);
    mvcc_set_cold(r.m, true);

    CHECK(!is_copied(r.m, 3));
    CHECK(!is_copied(r.m, 9));
    take(&r, &first);
    CHECK(!is_copied(r.m, 4));
    take(&r, &second);

    CHECK_EQ(first.at[0].main, 3);
    CHECK_EQ(second.at[0].main, 9);
    hear(&first);
    hear(&second);
    mvcc_rig_free(&r);
}

TEST(workers_take_turns_between_history_and_bulk_reads_and_single_entries)
{
    enum { EACH = 4, KEYS = EACH * MVCC_WARMUP_KEYS };
    struct mvcc_rig r;
    struct mvcc_warmup w;
    unsigned single = 0, ranges = 0, bulk = 0;
    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    for (unsigned i = 0; i < 2 * KEYS; i++)
        mvcc_rig_put(&r, "a", "value");
    mvcc_rig_commit(&r);
    mvcc_set_cold(r.m, true);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)mvcc_warmth(r.m, (struct revision){.main = 2 + i}, false);
        (void)mvcc_warmth(r.m, (struct revision){.main = 2 + KEYS + i}, true);
    }
    for (unsigned i = 0; i < EACH; i++)
        CHECK(!is_copied(r.m, 2 + i));

    for (unsigned i = 0; i < EACH; i++) {
        for (unsigned kind = 0; kind < 3; kind++) {
            const struct mvcc_warmup *taken = take(&r, &w);
            ranges += taken->is_range;
            single += !taken->is_range && taken->at[0].main < 2 + KEYS;
            bulk += !taken->is_range && taken->at[0].main >= 2 + KEYS;
            hear(&w);
        }
        CHECK_EQ(single, i + 1);
        CHECK_EQ(ranges, i + 1);
        CHECK_EQ(bulk, i + 1);
    }
    CHECK(!mvcc_take_warmup(r.m, false, &w));
    mvcc_rig_free(&r);
}

/* --- looking ahead ------------------------------------------------------------------------ */

static bool is_late(void *context)
{
    (void)context;
    return true;
}

/* How many keys are wanted when a list of a cold store meets the first one. */
static size_t wanted_by_list(struct mvcc_rig *r)
{
    struct mvcc_warmup w;
    struct buf out = {0};
    struct mvcc_scan s = {.question = {.key = BYTES("k"),
                                       .end = BYTES("l"),
                                       .at = revision_whole(mvcc_revision(r->m)),
                                       .tag = 1}};

    mvcc_scan_open(r->m, &s);
    while (!mvcc_scan_measure(&s, MVCC_SLICE_STEPS))
        ;
    mvcc_set_cold(r->m, true);
    CHECK(!mvcc_scan_read(&s, MIB, MVCC_SLICE_STEPS, &out));
    CHECK(s.is_paused);
    size_t count = take(r, &w)->count;
    hear(&w);
    mvcc_scan_close(&s);
    mvcc_set_cold(r->m, false);
    CHECK_EQ(out.len, 0);
    return count;
}

TEST(looking_ahead_ends_when_the_turn_is_late)
{
    struct mvcc_rig r;
    char key[16];
    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    for (unsigned i = 0; i < 2 * MVCC_WARMUP_KEYS; i++) {
        snprintf(key, sizeof(key), "k%05u", i);
        mvcc_rig_put(&r, key, "value");
    }
    mvcc_rig_commit(&r);

    struct mvcc_effort before = mvcc_effort(r.m);
    CHECK_EQ(wanted_by_list(&r), MVCC_WARMUP_KEYS);
    CHECK_EQ(mvcc_effort(r.m).ahead - before.ahead, MVCC_WARMUP_KEYS - 1);
    CHECK_EQ(mvcc_effort(r.m).misses - before.misses, 1);
    mvcc_set_pace(r.m, is_late, NULL);
    CHECK(wanted_by_list(&r) <= MVCC_LOOKS);
    mvcc_rig_free(&r);
}
