/* Deletes made ahead, and the budget of upkeep: what compaction leans on. */
#include "backend/backend_rig_test.h"
#include "backend/lmdb_int.h"

#include "base/list.h"
#include "base/mem.h"
#include "harness/test.h"

#include <stdio.h>

enum { ITEMS = 2000, VALUE_BYTES = 1000, STEP = 7 };

static struct bytes key_of(unsigned n)
{
    static char key[16];

    snprintf(key, sizeof(key), "key%06u", n);
    return bytes_of_str(key);
}

static void fill(struct backend_rig *s)
{
    for (unsigned i = 0; i < ITEMS; i++)
        memset(backend_put_space(s->b, BUCKET_KEY, key_of(i), VALUE_BYTES), 'v', VALUE_BYTES);
    backend_rig_commit(s);
}

/* All but every STEPth, and those in no order that a page would like. */
static bool is_doomed(unsigned n)
{
    return n % STEP != 0;
}

static void delete_doomed(struct backend_rig *s)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        unsigned n = i * 1237 % ITEMS;
        if (is_doomed(n))
            backend_delete_ahead(s->b, BUCKET_KEY, key_of(n));
    }
}

static bool has(struct backend_rig *s, enum bucket bucket, struct bytes key)
{
    struct backend_view v;
    struct bytes value;

    backend_view_open(s->b, &v);
    enum err e = backend_get(&v, bucket, key, &value);
    CHECK(e == ERR_OK || e == ERR_NOT_FOUND);
    backend_view_close(&v);
    return e == ERR_OK;
}

static void open_backend_rig(struct backend_rig *s, enum backend_rig_kind kind,
                             size_t dirty_bytes_max)
{
    backend_rig_init(s, kind);
    s->dirty_bytes_max = dirty_bytes_max;
    CHECK_EQ(backend_rig_open(s), ERR_OK);
}

static void close_stand(struct backend_rig *s)
{
    backend_rig_close(s);
    backend_rig_free(s);
}

/* --- deletes made ahead --- */

static void check_ahead(enum backend_rig_kind kind)
{
    struct backend_rig s;
    open_backend_rig(&s, kind, 64 * KIB);
    fill(&s);

    delete_doomed(&s);
    backend_put(s.b, BUCKET_META, BYTES("finished"), BYTES("yes"));
    backend_put(s.b, BUCKET_KEY, key_of(1), BYTES("again")); /* it comes after the delete */
    backend_rig_commit(&s);

    for (unsigned i = 0; i < ITEMS; i++)
        CHECK_EQ(has(&s, BUCKET_KEY, key_of(i)), !is_doomed(i) || i == 1);
    CHECK(has(&s, BUCKET_META, BYTES("finished")));
    close_stand(&s);
}

TEST(what_is_deleted_ahead_is_gone_with_the_commit_in_memory)
{
    check_ahead(BACKEND_RIG_MEMORY);
}

TEST(what_is_deleted_ahead_is_gone_with_the_commit_on_disk)
{
    check_ahead(BACKEND_RIG_LMDB);
}

TEST(what_the_batch_has_written_is_deleted_in_the_ordinary_way)
{
    struct backend_rig s;
    open_backend_rig(&s, BACKEND_RIG_MEMORY, 0);
    backend_put(s.b, BUCKET_KEY, key_of(1), BYTES("v"));

    backend_delete_ahead(s.b, BUCKET_KEY, key_of(1));
    CHECK(!has(&s, BUCKET_KEY, key_of(1)));
    backend_rig_commit(&s);

    CHECK(!has(&s, BUCKET_KEY, key_of(1)));
    close_stand(&s);
}

/* A page for each key: 16 deletes fill 64 KiB. */
TEST(deletes_ahead_take_as_many_transactions_as_they_fill)
{
    struct backend_rig s;
    open_backend_rig(&s, BACKEND_RIG_MEMORY, 64 * KIB);
    fill(&s);
    uint64_t doomed = ITEMS - (ITEMS + STEP - 1) / STEP, before = memory_disk_calls(s.memory);

    delete_doomed(&s);
    backend_rig_commit(&s);

    uint64_t transactions = doomed / 16 + 1;
    CHECK_EQ(memory_disk_calls(s.memory) - before, doomed + 2 * transactions);
    CHECK(s.b->store->dirty_bytes <= 64 * KIB);
    close_stand(&s);
}

static uint64_t transactions_of(struct backend_rig *s)
{
    MDB_envinfo info;

    CHECK_EQ(mdb_env_info(lmdb_store(s->b->store)->env, &info), MDB_SUCCESS);
    return info.me_last_txnid;
}

/* Four values lie on a page, so there are some 500 pages: in the order of keys each is copied once,
 * and there are as many transactions as that takes, not as many as there are deletes. */
TEST(neighbours_deleted_ahead_share_their_pages)
{
    struct backend_rig s;
    open_backend_rig(&s, BACKEND_RIG_LMDB, 64 * KIB);
    fill(&s);
    uint64_t before = transactions_of(&s);

    delete_doomed(&s);
    backend_rig_commit(&s);

    uint64_t took = transactions_of(&s) - before;
    CHECK(took >= ITEMS / 4 / 16 / 2);
    CHECK(took <= ITEMS / 4 / 16 * 2);
    close_stand(&s);
}

/* A value that is one of the batch's own must not be there before the batch, nor half of it. */
static void check_after_crash(struct backend_rig *s)
{
    struct backend_position durable = backend_durable(s->b);
    unsigned left = 0;

    for (unsigned i = 0; i < ITEMS; i++) {
        bool is_there = has(s, BUCKET_KEY, key_of(i));
        CHECK(is_there || is_doomed(i));
        left += is_there && is_doomed(i);
    }
    CHECK(durable.index == 1 || durable.index == 2);
    CHECK_EQ(has(s, BUCKET_META, BYTES("finished")), durable.index == 2);
    CHECK(durable.index == 1 || left == 0);
}

static void end_entry(struct backend_rig *s, uint64_t index)
{
    backend_entry_begin(s->b);
    backend_entry_end(s->b, (struct backend_position){index, 1}, (struct bytes){0});
}

TEST(a_crash_leaves_deletes_made_ahead_and_nothing_else_of_their_batch)
{
    uint64_t calls = 0;

    for (uint64_t at = 1; at <= calls || calls == 0; at += calls == 0 ? 0 : 37) {
        struct backend_rig s;
        open_backend_rig(&s, BACKEND_RIG_MEMORY, 64 * KIB);
        end_entry(&s, 1);
        fill(&s);
        delete_doomed(&s);
        end_entry(&s, 2);
        backend_put(s.b, BUCKET_META, BYTES("finished"), BYTES("yes"));

        uint64_t before = memory_disk_calls(s.memory);
        memory_disk_crash_at(s.memory, calls ? at : 0);
        backend_commit_start(s.b);
        backend_rig_settle(&s);
        CHECK_EQ(s.failed, calls != 0);
        if (calls == 0) {
            calls = memory_disk_calls(s.memory) - before;
            CHECK(calls > ITEMS / 2);
        } else {
            backend_rig_crash(&s);
        }

        check_after_crash(&s);
        close_stand(&s);
    }
}

/* A commit goes to both files, as far as the copy has come. */
static void on_defragmented(struct backend_defrag *d, enum err e)
{
    (void)d;
    CHECK_EQ(e, ERR_OK);
}

static void check_defrag(enum backend_rig_kind kind)
{
    struct backend_rig s;
    struct backend_defrag defrag = {.on_done = on_defragmented};
    backend_rig_init(&s, kind);
    s.dirty_bytes_max = 64 * KIB;
    s.slice_bytes = 500 * KIB;
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    fill(&s);

    CHECK(backend_defrag_start(s.b, &defrag));
    CHECK(backend_rig_run(&s));
    CHECK(backend_rig_report(&s));
    delete_doomed(&s);
    backend_commit_start(s.b);
    backend_rig_settle(&s);

    CHECK(defrag.after.file_bytes < defrag.before.file_bytes);
    for (unsigned i = 0; i < ITEMS; i++)
        CHECK_EQ(has(&s, BUCKET_KEY, key_of(i)), !is_doomed(i));
    close_stand(&s);
}

TEST(deletes_ahead_follow_into_a_copy_in_memory)
{
    check_defrag(BACKEND_RIG_MEMORY);
}

TEST(deletes_ahead_follow_into_a_copy_on_disk)
{
    check_defrag(BACKEND_RIG_LMDB);
}

/* --- the budget of upkeep --- */

static void check_budget(enum backend_rig_kind kind)
{
    struct backend_rig s;
    unsigned deletes = 0;
    open_backend_rig(&s, kind, 0);

    /* Entries are not on it, however much they write. */
    for (unsigned i = 0; i < 2 * BACKEND_UPKEEP_BYTES / VALUE_BYTES; i++)
        memset(backend_put_space(s.b, BUCKET_LEASE, key_of(i), VALUE_BYTES), 'v', VALUE_BYTES);
    CHECK(backend_has_budget(s.b));

    while (backend_has_budget(s.b)) {
        backend_upkeep_begin(s.b);
        for (unsigned i = 0; i < 500; i++)
            backend_delete_ahead(s.b, BUCKET_KEY, key_of(deletes++));
        backend_upkeep_end(s.b);
        backend_check(s.b);
    }

    CHECK(deletes > BACKEND_UPKEEP_BYTES / 32);
    CHECK(deletes < BACKEND_UPKEEP_BYTES / 8);
    backend_commit_start(s.b);
    CHECK(backend_has_budget(s.b)); /* in the next batch, while this one is being committed */
    backend_rig_settle(&s);
    CHECK(backend_has_budget(s.b));
    close_stand(&s);
}

TEST(upkeep_has_a_budget_in_each_batch_in_memory)
{
    check_budget(BACKEND_RIG_MEMORY);
}

TEST(upkeep_has_a_budget_in_each_batch_on_disk)
{
    check_budget(BACKEND_RIG_LMDB);
}

TEST(no_commit_starts_within_upkeep)
{
    struct backend_rig s;
    open_backend_rig(&s, BACKEND_RIG_MEMORY, 0);

    backend_upkeep_begin(s.b);
    backend_put(s.b, BUCKET_META, BYTES("k"), BYTES("v"));
    CHECK(!backend_can_commit(s.b));
    CHECK_DIES(backend_turn_ended(s.b), "in_upkeep");
    backend_upkeep_end(s.b);

    CHECK(backend_can_commit(s.b));
    close_stand(&s);
}
