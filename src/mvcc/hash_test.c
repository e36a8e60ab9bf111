/* HashKV against the numbers that etcd's own tests expect, and Hash by its definition. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "mvcc/mvcc_rig_test.h"

#include <stdio.h>

static const char *pick(int i)
{
    static const char *const names[] = {"alice", "bob",       "celine", "dominik",
                                        "eve",   "frederica", "gorge"};

    if (i % 142 == 30)
        return "zenek";
    return i % 71 == 30 ? "xavery" : names[i % 7];
}

/* Both ends included. */
static void put_numbers(struct mvcc_rig *r, int from, int to)
{
    for (int i = from; i <= to; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", i);
        mvcc_rig_put(r, pick(i), value);
    }
}

/* Puts, a hash in the middle of them, a compaction there, and again. */
static void check_vectors(enum backend_rig_kind kind, bool removed)
{
    static const uint32_t expected[] = {4082599214, 2279933401, 3284231217, 126286495,
                                        900108730,  2475485232, 1226296507, 2503661030};
    struct mvcc_rig r;

    mvcc_rig_init(&r, kind);
    for (int i = 0; i < (int)ARRAY_LEN(expected); i++) {
        put_numbers(&r, i * 71, i * 71 + 71);
        CHECK_EQ(mvcc_rig_hash(&r, i * 71 + 35), expected[i]);
        CHECK_EQ(mvcc_rig_compact(&r, i * 71 + 35), MVCC_OK);
        if (removed)
            mvcc_rig_settle(&r);
    }
    mvcc_rig_free(&r);
}

/* The same with each hash at the newest revision. */
static void check_newest(void)
{
    static const uint32_t expected[] = {1913897190, 224860069, 1565167519, 1566261620, 2037173024};
    struct mvcc_rig r;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    for (int i = 0; i < (int)ARRAY_LEN(expected); i++) {
        put_numbers(&r, i * 71, i * 71 + 71);
        CHECK_EQ(mvcc_rig_hash(&r, 0), expected[i]);
        CHECK_EQ(mvcc_rig_compact(&r, mvcc_revision(r.m)), MVCC_OK);
        mvcc_rig_settle(&r);
    }
    mvcc_rig_free(&r);
}

TEST(hashkv_is_what_etcd_says)
{
    check_vectors(BACKEND_RIG_MEMORY, true);
    check_vectors(BACKEND_RIG_LMDB, true);
    check_newest();
}

/* However far the removal has come, the hash is that of the end. */
TEST(hashkv_does_not_depend_on_the_progress_of_a_compaction)
{
    check_vectors(BACKEND_RIG_MEMORY, false);
}

/* When no key is alive, what the compaction has kept counts after all, as in etcd. */
TEST(hashkv_of_a_store_without_living_keys)
{
    struct mvcc_rig r;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&r, "a", "1");
    mvcc_rig_put(&r, "a", "2");
    CHECK_EQ(mvcc_rig_compact(&r, 3), MVCC_OK);
    uint32_t before = mvcc_rig_hash(&r, 3);
    mvcc_rig_delete(&r, "a");
    uint32_t pending = mvcc_rig_hash(&r, 4);
    mvcc_rig_settle(&r);
    mvcc_rig_reopen(&r); /* so that nothing is remembered of the compaction */

    CHECK_EQ(mvcc_rig_hash(&r, 3), before);
    CHECK_EQ(mvcc_rig_hash(&r, 4), pending);
    struct bytes put = BYTES("\0\0\0\0\0\0\0\3_\0\0\0\0\0\0\0\0"
                             "\n\1a\x10\2\x18\3 \2*\1\62");
    struct bytes tombstone = BYTES("\0\0\0\0\0\0\0\4_\0\0\0\0\0\0\0\0t\n\1a");
    uint32_t hash = crc32c(crc32c(0, BYTES("key")), put);
    CHECK_EQ(before, hash);
    CHECK_EQ(pending, crc32c(hash, tombstone));
    mvcc_rig_free(&r);
}

/* --- at the revision of a compaction --- */

static uint32_t hash_between(struct mvcc_rig *r, int64_t compact_revision, int64_t revision)
{
    struct mvcc_hash h = {.revision = revision};

    CHECK_EQ(mvcc_hash_open(r->m, &h), MVCC_OK);
    while (!mvcc_hash_some(r->m, &h, 3))
        ;
    CHECK_EQ(h.compact_revision, compact_revision);
    CHECK_EQ(h.revision, revision);
    mvcc_hash_close(r->m, &h);
    return h.hash;
}

static void check_compaction_hashes(enum backend_rig_kind kind)
{
    static const uint32_t expected[] = {4082599214, 2279933401, 3284231217, 126286495,
                                        900108730,  2475485232, 1226296507, 2503661030};
    struct mvcc_rig r;

    mvcc_rig_init(&r, kind);
    for (int i = 0; i < (int)ARRAY_LEN(expected); i++) {
        put_numbers(&r, i * 71, i * 71 + 71);
        CHECK_EQ(mvcc_rig_compact(&r, i * 71 + 35), MVCC_OK);
        CHECK(hash_between(&r, i * 71 + 35, i * 71 + 35) != expected[i]);
        mvcc_rig_settle(&r);
        for (int past = 0; past <= i; past++)
            CHECK_EQ(hash_between(&r, past == 0 ? -1 : past * 71 - 36, past * 71 + 35),
                     expected[past]);
    }
    mvcc_rig_free(&r);
}

/* One member may have compacted and another not yet, and both are asked for the same revision. */
TEST(hashkv_at_a_compaction_is_what_it_was_before_it)
{
    check_compaction_hashes(BACKEND_RIG_MEMORY);
    check_compaction_hashes(BACKEND_RIG_LMDB);
}

TEST(hashkv_remembers_ten_compactions_and_no_more)
{
    struct mvcc_rig r;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    put_numbers(&r, 0, 20);
    for (int i = 2; i <= 12; i++) {
        CHECK_EQ(mvcc_rig_compact(&r, i), MVCC_OK);
        mvcc_rig_settle(&r);
    }

    struct mvcc_hash oldest = {.revision = 2}, listed;
    CHECK_EQ(mvcc_hash_open(r.m, &oldest), MVCC_COMPACTED);
    for (unsigned i = 0; i < 10; i++) {
        CHECK(mvcc_compaction_hash(r.m, i, &listed));
        CHECK_EQ(listed.revision, 12 - i);
        CHECK_EQ(listed.compact_revision, 11 - i);
    }
    CHECK_EQ(listed.hash, hash_between(&r, 2, 3));
    CHECK(!mvcc_compaction_hash(r.m, 10, &listed));
    (void)hash_between(&r, 2, 3);
    (void)hash_between(&r, 11, 12);
    mvcc_rig_reopen(&r);
    CHECK(!mvcc_compaction_hash(r.m, 0, &listed));
    (void)hash_between(&r, 12, 12);
    mvcc_rig_free(&r);
}

/* It has not found all that the one before it has kept: another member may have. */
TEST(hashkv_has_none_of_a_compaction_that_began_too_early_or_was_interrupted)
{
    struct mvcc_rig r;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    put_numbers(&r, 0, 40);
    CHECK_EQ(mvcc_rig_compact(&r, 10), MVCC_OK);
    CHECK_EQ(mvcc_rig_compact(&r, 20), MVCC_OK); /* before the first is through */
    mvcc_rig_settle(&r);
    (void)hash_between(&r, -1, 10);
    (void)hash_between(&r, 20, 20);

    CHECK_EQ(mvcc_rig_compact(&r, 30), MVCC_OK);
    mvcc_rig_commit(&r);
    CHECK(!mvcc_compact_some(r.m, 1));
    mvcc_rig_crash(&r);
    CHECK(mvcc_compact_pending(r.m));
    mvcc_rig_settle(&r);
    (void)hash_between(&r, 30, 30);
    mvcc_rig_free(&r);
}

/* A tombstone at the compaction's revision is something that it keeps. Then what the one before it
 * has kept, and is dead, does not count; with nothing kept, it would. */
TEST(hashkv_at_a_compaction_that_keeps_nothing_but_a_tombstone)
{
    struct bytes put = BYTES("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0"
                             "\n\1a\x10\2\x18\2 \1*\1\61");
    struct bytes tombstone = BYTES("\0\0\0\0\0\0\0\3_\0\0\0\0\0\0\0\0t\n\1a");
    uint32_t none = crc32c(0, BYTES("key"));
    struct mvcc_rig r;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&r, "a", "1");
    CHECK_EQ(mvcc_rig_compact(&r, 2), MVCC_OK);
    mvcc_rig_settle(&r);
    mvcc_rig_delete(&r, "a");
    CHECK_EQ(mvcc_rig_hash(&r, 3), crc32c(crc32c(none, put), tombstone));
    CHECK_EQ(mvcc_rig_compact(&r, 3), MVCC_OK);
    mvcc_rig_settle(&r);

    CHECK_EQ(hash_between(&r, 2, 3), crc32c(none, tombstone));
    mvcc_rig_free(&r);
}

static struct mvcc_hash whole_hash(struct mvcc_rig *r, int64_t revision)
{
    struct mvcc_hash h = {.revision = revision};

    CHECK_EQ(mvcc_hash_open(r->m, &h), MVCC_OK);
    while (!mvcc_hash_some(r->m, &h, 1))
        ;
    mvcc_hash_close(r->m, &h);
    return h;
}

/* So whoever has not compacted yet, and whoever has, know of each other. */
TEST(hashkv_knows_the_other_hash_of_a_revision_that_leaves_no_key)
{
    struct mvcc_hash before, after, listed;
    struct mvcc_rig r;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&r, "a", "1");
    CHECK_EQ(whole_hash(&r, 2).other, whole_hash(&r, 2).hash);
    CHECK_EQ(mvcc_rig_compact(&r, 2), MVCC_OK);
    mvcc_rig_settle(&r);
    mvcc_rig_delete(&r, "a");
    before = whole_hash(&r, 3);
    CHECK_EQ(mvcc_rig_compact(&r, 3), MVCC_OK);
    mvcc_rig_settle(&r);
    after = whole_hash(&r, 3);

    CHECK(before.hash != after.hash);
    CHECK_EQ(before.other, after.hash);
    CHECK_EQ(after.other, before.hash);
    CHECK(mvcc_compaction_hash(r.m, 0, &listed));
    CHECK_EQ(listed.other, before.hash);
    mvcc_rig_free(&r);
}

TEST(hashkv_knows_its_bounds)
{
    struct mvcc_rig r;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    put_numbers(&r, 0, 9);
    CHECK_EQ(mvcc_rig_compact(&r, 5), MVCC_OK);

    struct mvcc_hash low = {.revision = 4}, high = {.revision = 12}, now = {0};
    CHECK_EQ(mvcc_hash_open(r.m, &low), MVCC_COMPACTED);
    CHECK_EQ(mvcc_hash_open(r.m, &high), MVCC_FUTURE);
    CHECK_EQ(mvcc_hash_open(r.m, &now), MVCC_OK);
    CHECK_EQ(now.revision, 11);
    CHECK_EQ(now.compact_revision, 5);
    mvcc_hash_close(r.m, &now);
    mvcc_hash_close(r.m, &now);
    CHECK_EQ(mvcc_rig_hash(&r, -1), crc32c(0, BYTES("key")));
    mvcc_rig_free(&r);
}

/* A compaction that comes while it runs would take away what it has not hashed yet. */
TEST(hashkv_holds_back_later_compactions)
{
    struct mvcc_rig r;
    struct mvcc_hash h = {0};

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    put_numbers(&r, 0, 30);
    uint32_t expected = mvcc_rig_hash(&r, 0);
    CHECK_EQ(mvcc_hash_open(r.m, &h), MVCC_OK);
    CHECK(!mvcc_hash_some(r.m, &h, 3));
    CHECK_EQ(mvcc_rig_compact(&r, 20), MVCC_OK);
    mvcc_rig_commit(&r);

    CHECK(mvcc_compact_waiting(r.m));
    CHECK(mvcc_pin_in_the_way(r.m) == &h.pin);
    CHECK(mvcc_compact_some(r.m, 1000));
    while (!mvcc_hash_some(r.m, &h, 3))
        ;
    CHECK_EQ(h.hash, expected);
    mvcc_hash_close(r.m, &h);
    CHECK(!mvcc_compact_waiting(r.m));
    mvcc_rig_settle(&r);
    mvcc_rig_free(&r);
}

TEST(hash_covers_all_buckets_but_for_what_members_differ_in)
{
    struct mvcc_rig r;
    struct backend_view v;
    uint32_t hash;

    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&r, "a", "1");
    backend_put(r.backend_rig.b, BUCKET_META, BYTES("storageVersion"), BYTES("3.7.0"));
    backend_put(r.backend_rig.b, BUCKET_META, BYTES("confState"), BYTES("{}"));
    backend_put(r.backend_rig.b, BUCKET_AUTH, BYTES("authRevision"), BYTES("x"));
    backend_view_open(r.backend_rig.b, &v);
    CHECK_EQ(mvcc_hash_store(&v, &hash), ERR_OK);
    backend_view_close(&v);

    CHECK_EQ(hash, crc32c(0, BYTES("alarm"
                                   "auth"
                                   "authRevision"
                                   "x"
                                   "authRoles"
                                   "authUsers"
                                   "cluster"
                                   "key"
                                   "\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0"
                                   "\n\1a\x10\2\x18\2 \1*\1\61"
                                   "lease"
                                   "members"
                                   "members_removed"
                                   "meta"
                                   "confState"
                                   "{}")));
    mvcc_rig_free(&r);
}
