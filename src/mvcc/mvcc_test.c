/* What scenarios and the model do not reach: damage, large numbers, budgets. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "mvcc/mvcc_int.h"
#include "mvcc/mvcc_rig_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- damage ------------------------------------------------------------------------------- */

#define REVISION_2 BYTES("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0")

static struct mvcc_scan everything(const struct mvcc_rig *s)
{
    return (struct mvcc_scan){.question = {.key = BYTES("\0"),
                                           .end = BYTES("\0"),
                                           .at = revision_whole(mvcc_revision(s->m)),
                                           .tag = 0x12}};
}

/* Reads whatever a damaged store has to say; ends all the same. */
static size_t read_damaged(struct mvcc_rig *s, struct mvcc_scan *scan)
{
    struct buf out = {0};

    buf_clear(&s->damage);
    mvcc_scan_open(s->m, scan);
    while (!mvcc_scan_measure(scan, 10))
        ;
    while (!mvcc_scan_read(scan, 1000, 10, &out))
        ;
    mvcc_scan_close(scan);
    size_t len = out.len;
    buf_free(&out);
    return len;
}

TEST(a_revision_that_the_store_lacks_is_damage)
{
    struct mvcc_rig s;

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&s, "a", "1");
    mvcc_rig_put(&s, "b", "1");
    backend_delete(s.backend_rig.b, BUCKET_KEY, REVISION_2);

    const char *lacks = "bucket key lacks revision 2_0, which the index names\n";
    struct mvcc_scan scan = everything(&s);
    CHECK_EQ(read_damaged(&s, &scan), 0);
    CHECK_STR(buf_str(&s.damage), lacks);
    scan = everything(&s);
    scan.question.sort_target = PB_SORT_BY_VALUE;
    CHECK_EQ(read_damaged(&s, &scan), 0);
    CHECK_STR(buf_str(&s.damage), lacks);
    scan = everything(&s);
    scan.question.sort_target = PB_SORT_BY_MOD;
    scan.question.keys_only = true;
    CHECK_EQ(read_damaged(&s, &scan), 0);
    CHECK_STR(buf_str(&s.damage), lacks);
    struct buf kv = {0};
    buf_clear(&s.damage);
    mvcc_read_kv(s.m, (struct revision){2, 0}, &kv);
    CHECK_EQ(kv.len, 0);
    CHECK_STR(buf_str(&s.damage), lacks);
    mvcc_rig_free(&s);
}

TEST(a_value_of_another_length_is_damage)
{
    struct mvcc_rig s;

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&s, "a", "1");
    backend_put(s.backend_rig.b, BUCKET_KEY, REVISION_2, BYTES("\n\1a"));

    struct mvcc_scan scan = everything(&s);
    CHECK_EQ(read_damaged(&s, &scan), 0);
    CHECK_STR(buf_str(&s.damage), "bucket key, revision 2_0: 3 bytes, but 12 were written\n");
    struct buf kv = {0};
    mvcc_read_kv(s.m, (struct revision){2, 0}, &kv);
    CHECK_EQ(kv.len, 3);
    buf_free(&kv);
    mvcc_rig_free(&s);
}

static bool never(void *context, const struct mvcc_change *change)
{
    (void)context, (void)change;
    return true;
}

TEST(an_entry_that_is_no_key_value_is_damage)
{
    struct mvcc_rig s;
    struct revision next = {2, 0};
    struct mvcc_hash h = {0};

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&s, "a", "1");
    backend_put(s.backend_rig.b, BUCKET_KEY, REVISION_2, BYTES("\n\1a\x10\2\x18\2 \1*\x7f\61"));

    mvcc_history_some(s.m, &next, &(unsigned){10}, never, NULL);
    CHECK_STR(buf_str(&s.damage), "bucket key, revision 2_0: not a KeyValue\n");
    buf_clear(&s.damage);
    CHECK_EQ(mvcc_hash_open(s.m, &h), MVCC_OK);
    CHECK(mvcc_hash_some(s.m, &h, 10));
    mvcc_hash_close(s.m, &h);
    CHECK_STR(buf_str(&s.damage), "bucket key: an entry is not a KeyValue under a revision\n");
    mvcc_rig_free(&s);
}

TEST(damage_that_nobody_takes_over_ends_the_process)
{
    struct backend_rig backend_rig;
    struct mvcc *m;
    struct buf why = {0}, kv = {0};

    backend_rig_init(&backend_rig, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&backend_rig), ERR_OK);
    CHECK_EQ(mvcc_open(&(struct mvcc_options){.backend = backend_rig.b}, &why, &m), ERR_OK);
    CHECK_DIES(mvcc_read_kv(m, (struct revision){2, 0}, &kv), "the store is damaged: bucket key");
    mvcc_close(m);
    backend_rig_close(&backend_rig);
    backend_rig_free(&backend_rig);
}

/* --- opening what should not be there ----------------------------------------------------- */

static void check_refused(struct bytes key, struct bytes value, const char *reason)
{
    struct backend_rig backend_rig;
    struct mvcc *m;
    struct buf why = {0};

    backend_rig_init(&backend_rig, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&backend_rig), ERR_OK);
    backend_put(backend_rig.b, BUCKET_KEY, REVISION_2, BYTES("\n\1a\x10\2\x18\2 \1*\1\61"));
    backend_put(backend_rig.b, key.len > 18 ? BUCKET_META : BUCKET_KEY, key, value);
    backend_rig_commit(&backend_rig);
    CHECK_EQ(mvcc_open(&(struct mvcc_options){.backend = backend_rig.b}, &why, &m), ERR_CORRUPT);
    CHECK_STR(buf_str(&why), reason);
    buf_free(&why);
    backend_rig_close(&backend_rig);
    backend_rig_free(&backend_rig);
}

#define AT_3 "\0\0\0\0\0\0\0\3_\0\0\0\0\0\0\0\0"

TEST(a_store_with_malformed_entries_is_refused)
{
    const char *entry = "bucket key, entry 00000000000000035f0000000000000000: ";
    struct buf text = {0};

    buf_printf(&text, "%snot a KeyValue", entry);
    check_refused(BYTES(AT_3), BYTES("\n\5a"), buf_str(&text));
    check_refused(BYTES(AT_3), BYTES(""), buf_str(&text));
    check_refused(BYTES(AT_3), BYTES("\x10\3\x18\3 \1"), buf_str(&text));
    buf_clear(&text);
    buf_printf(&text, "%scontradicts what is known of its key", entry);
    check_refused(BYTES(AT_3), BYTES("\n\1b\x10\3\x18\4 \1"), buf_str(&text));
    check_refused(BYTES(AT_3), BYTES("\n\1b\x10\4\x18\3 \1"), buf_str(&text));
    check_refused(BYTES(AT_3), BYTES("\n\1b\x10\3\x18\3"), buf_str(&text));
    check_refused(BYTES(AT_3), BYTES("\n\1a\x10\2\x18\3 \5"), buf_str(&text));
    check_refused(BYTES("\0\0\0\0\0\0\0\3-\0\0\0\0\0\0\0\0"), BYTES("\n\1a"),
                  "bucket key, entry 00000000000000032d0000000000000000: not a revision");
    check_refused(BYTES(AT_3 "u"), BYTES("\n\1a"),
                  "bucket key, entry 00000000000000035f000000000000000075: not a revision");
    check_refused(BYTES("short"), BYTES("\n\1a"), "bucket key, entry 73686f7274: not a revision");
    check_refused(BYTES("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0t"), BYTES("\n\1a"),
                  "bucket key, entry 00000000000000025f000000000000000074: a revision that is "
                  "there twice");
    check_refused(BYTES("scheduledCompactRev"), BYTES("5"),
                  "bucket meta, key scheduledCompactRev: not a revision");
    buf_free(&text);
}

/* --- bumps -------------------------------------------------------------------------------- */

static struct bytes at_revision(int64_t main, struct revision_key *space)
{
    return revision_encode((struct revision){main, 0}, false, space);
}

/* What `etcdutl snapshot restore --bump-revision --mark-compacted` does. */
static void bump(struct mvcc_rig *s, int64_t to)
{
    struct revision_key space;

    mvcc_rig_commit(s);
    mvcc_close(s->m);
    backend_put(s->backend_rig.b, BUCKET_KEY, at_revision(to, &space), BYTES(""));
    backend_put(s->backend_rig.b, BUCKET_META, BYTES(MVCC_SCHEDULED_KEY), at_revision(to, &space));
    backend_rig_commit(&s->backend_rig);
    struct buf why = {0};
    CHECK_EQ(mvcc_open(&(struct mvcc_options){.backend = s->backend_rig.b}, &why, &s->m), ERR_OK);
    CHECK_EQ(why.len, 0);
    mvcc_check_store(s->m);
}

static bool is_stored(struct mvcc_rig *s, int64_t main)
{
    struct revision_key space;
    struct backend_view v;
    struct bytes value;

    backend_view_open(s->backend_rig.b, &v);
    enum err e = backend_get(&v, BUCKET_KEY, at_revision(main, &space), &value);
    backend_view_close(&v);
    CHECK(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK;
}

static bool count_change(void *context, const struct mvcc_change *change)
{
    CHECK(change->key.len > 0);
    ++*(unsigned *)context;
    return true;
}

/* HashKV of the entries at these revisions, all of which are kept, by the bytes. */
static uint32_t hash_of(struct mvcc_rig *s, const int64_t *mains, size_t count)
{
    struct revision_key space;
    struct backend_view v;
    struct bytes value;
    uint32_t hash = crc32c(0, BYTES("key"));

    backend_view_open(s->backend_rig.b, &v);
    for (size_t i = 0; i < count; i++) {
        struct bytes key = at_revision(mains[i], &space);
        CHECK_EQ(backend_get(&v, BUCKET_KEY, key, &value), ERR_OK);
        hash = crc32c(crc32c(hash, key), value);
    }
    backend_view_close(&v);
    return hash;
}

TEST(revisions_go_on_behind_a_bump_that_only_compaction_and_hash_see)
{
    struct mvcc_rig s;
    struct revision next = {1000, 0};
    unsigned changes = 0;
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&s, "a", "1"); /* 2 */
    mvcc_rig_put(&s, "a", "2"); /* 3 */

    bump(&s, 1000);
    CHECK_EQ(mvcc_revision(s.m), 1000);
    CHECK_EQ(mvcc_compact_revision(s.m), 1000);
    CHECK(mvcc_history_some(s.m, &next, &(unsigned){10}, count_change, &changes));
    CHECK_EQ(changes, 0);
    CHECK_EQ(mvcc_rig_hash(&s, 1000), hash_of(&s, (int64_t[]){3, 1000}, 2));
    mvcc_rig_settle(&s);
    CHECK(!is_stored(&s, 2));
    CHECK(is_stored(&s, 1000));

    mvcc_rig_put(&s, "a", "3"); /* 1001 */
    next = (struct revision){1000, 0};
    CHECK(mvcc_history_some(s.m, &next, &(unsigned){10}, count_change, &changes));
    CHECK_EQ(changes, 1);
    mvcc_rig_delete(&s, "a"); /* 1002: no key that anybody can name is alive now */
    CHECK_EQ(mvcc_rig_compact(&s, 1002), MVCC_OK);
    mvcc_rig_settle(&s);
    CHECK_EQ(mvcc_compact_revision(s.m), 1002);
    CHECK(is_stored(&s, 1000)); /* etcd keeps it, as it keeps the last put of any key */
    mvcc_rig_reopen(&s);
    CHECK_EQ(mvcc_revision(s.m), 1002);
    mvcc_check_store(s.m);

    bump(&s, 2000); /* a second one takes the first one's place */
    mvcc_rig_settle(&s);
    CHECK(!is_stored(&s, 1000));
    CHECK(is_stored(&s, 2000));
    CHECK_EQ(mvcc_rig_hash(&s, 2000), hash_of(&s, (int64_t[]){2000}, 1));
    CHECK_EQ(mvcc_rig_put(&s, "a", "4"), 1);
    CHECK_EQ(mvcc_revision(s.m), 2001);
    mvcc_check_store(s.m);
    mvcc_rig_free(&s);
}

/* --- budgets ------------------------------------------------------------------------------ */

static void fill(struct mvcc_rig *s, unsigned count)
{
    struct arena a = {0};

    mvcc_rig_begin(s);
    for (unsigned i = 0; i < count; i++)
        mvcc_put(s->m, bytes_of_str(arena_printf(&a, "key%06u", i * 7919 % count)),
                 bytes_of_str(arena_printf(&a, "%05u-value", i * 31 % 1000)), 0);
    mvcc_rig_end(s);
    arena_free(&a);
}

/* Promise 4: counting is no walk, and a page of ten costs eleven steps, however many follow. */
TEST(a_page_costs_what_it_shows)
{
    struct mvcc_rig s;
    struct buf out = {0};

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 5000);
    struct mvcc_scan count = everything(&s), page = everything(&s);
    count.question.count_only = true;
    mvcc_scan_open(s.m, &count);
    CHECK(mvcc_scan_measure(&count, 0));
    CHECK_EQ(count.count, 5000);
    mvcc_scan_close(&count);
    page.question.limit = 10;
    mvcc_scan_open(s.m, &page);
    CHECK(mvcc_scan_measure(&page, 12));
    CHECK_EQ(page.count, 5000);
    CHECK_EQ(page.kvs, 10);
    CHECK(page.more);
    CHECK(mvcc_scan_read(&page, SIZE_MAX, 11, &out));
    CHECK_EQ(out.len, page.bytes);
    mvcc_scan_close(&page);
    buf_free(&out);
    mvcc_rig_free(&s);
}

enum { LARGE_KEYS = 40, LARGE_STEPS = 16 };

/* Equal values, each of which costs so many steps more to read than a small one. */
static void fill_with_large_values(struct mvcc_rig *s)
{
    struct buf value = {0};
    char key[16];

    memset(buf_extend(&value, LARGE_STEPS * MVCC_HASH_STEP_BYTES), 'v',
           LARGE_STEPS * MVCC_HASH_STEP_BYTES);
    mvcc_rig_begin(s);
    for (unsigned i = 0; i < LARGE_KEYS; i++) {
        snprintf(key, sizeof(key), "key%02u", i);
        mvcc_put(s->m, bytes_of_str(key), buf_bytes(&value), 0);
    }
    mvcc_rig_end(s);
    buf_free(&value);
}

/* What is read from the store is checked, and that takes as long as it is large. But one value is
 * read with any budget, or a slice could be too small to come to an end. */
TEST(history_with_large_values_takes_more_slices)
{
    struct mvcc_rig s;
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill_with_large_values(&s);

    struct revision next = {2, 0};
    unsigned changes = 0, steps = 3 * (1 + LARGE_STEPS);
    CHECK(!mvcc_history_some(s.m, &next, &steps, count_change, &changes));
    CHECK_EQ(changes, 3);
    CHECK_EQ(steps, 0);
    CHECK(!mvcc_history_some(s.m, &next, &(unsigned){1}, count_change, &changes));
    CHECK_EQ(changes, 4);
    steps = 1000;
    CHECK(mvcc_history_some(s.m, &next, &steps, count_change, &changes));
    CHECK_EQ(changes, LARGE_KEYS);
    CHECK_EQ(steps, 1000 - (LARGE_KEYS - 4) * (1 + LARGE_STEPS) - 1);
    mvcc_rig_free(&s);
}

TEST(a_sort_by_large_values_takes_more_slices)
{
    struct mvcc_rig s;
    struct buf out = {0};
    unsigned slices = 1;
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill_with_large_values(&s);
    struct mvcc_scan scan = everything(&s);
    scan.question.sort_target = PB_SORT_BY_VALUE;
    scan.question.keys_only = true;

    mvcc_scan_open(s.m, &scan);
    for (; !mvcc_scan_measure(&scan, 1 + LARGE_STEPS); slices++)
        ;
    /* Each is looked at once to begin with, and then each is compared with some other. */
    CHECK(slices >= 2 * LARGE_KEYS);
    CHECK(scan.cost > (slices - 1) * (1 + LARGE_STEPS));
    for (slices = 1; !mvcc_scan_read(&scan, SIZE_MAX, 2 * (1 + LARGE_STEPS), &out); slices++)
        ;
    CHECK_EQ(slices, LARGE_KEYS / 2);
    CHECK_EQ(out.len, scan.bytes);
    mvcc_scan_close(&scan);
    buf_free(&out);
    mvcc_rig_free(&s);
}

TEST(keys_that_are_dead_cost_steps_too)
{
    struct mvcc_rig s;
    struct mvcc_delete_range d = {.range = key_range(BYTES("\0"), BYTES("\0"))};
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&s, "a", "1");
    mvcc_rig_put(&s, "b", "1");
    mvcc_rig_delete(&s, "a");

    struct mvcc_scan scan = everything(&s);
    mvcc_scan_open(s.m, &scan);
    CHECK(mvcc_scan_measure(&scan, 10));
    CHECK_EQ(scan.kvs, 1);
    CHECK_EQ(scan.cost, 2);
    mvcc_scan_close(&scan);
    mvcc_rig_begin(&s);
    mvcc_delete_range_begin(s.m, &d);
    CHECK(mvcc_delete_range_some(s.m, &d, 10));
    CHECK_EQ(d.deleted, 1);
    CHECK_EQ(d.cost, 2);
    mvcc_rig_end(&s);
    mvcc_rig_free(&s);
}

static int compare_values(const struct pb_key_value *a, const struct pb_key_value *b)
{
    return bytes_compare(a->value, b->value);
}

static int compare_versions(const struct pb_key_value *a, const struct pb_key_value *b)
{
    return (a->version > b->version) - (a->version < b->version);
}

/* In descending order, and equals in the order of their keys. */
static void check_order(struct bytes encoded, size_t count, int32_t target)
{
    struct arena a = {0};
    struct pb_range_response r;

    CHECK_EQ(pb_decode_range_response(encoded, &a, &r), ERR_OK);
    CHECK_EQ(r.kvs.count, count);
    for (size_t i = 1; i < r.kvs.count; i++) {
        const struct pb_key_value *kv = &r.kvs.at[i];
        int order =
            target == PB_SORT_BY_VALUE ? compare_values(kv - 1, kv) : compare_versions(kv - 1, kv);
        CHECK(order >= 0);
        CHECK(order > 0 || bytes_compare(kv[-1].key, kv->key) < 0);
    }
    arena_free(&a);
}

static void check_sorted(struct mvcc_rig *s, int32_t target, int64_t limit, int64_t shown)
{
    struct buf out = {0};
    struct mvcc_scan scan = everything(s);

    scan.question.sort_target = target;
    scan.question.sort_order = PB_SORT_DESCEND;
    scan.question.limit = limit;
    mvcc_rig_scan(s, &scan, 5000, 100, &out);
    CHECK_EQ(scan.count, 9000);
    CHECK_EQ(scan.kvs, shown);
    CHECK_EQ(scan.more, shown < 9000);
    check_order(buf_bytes(&out), (size_t)shown, target);
    buf_free(&out);
}

TEST(many_keys_are_sorted_in_slices)
{
    struct mvcc_rig s;

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 9000);
    for (unsigned i = 0; i < 30; i++) /* so that some have more versions than others */
        fill(&s, 300 * i);
    const int32_t targets[] = {PB_SORT_BY_VALUE, PB_SORT_BY_VERSION};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        check_sorted(&s, targets[i], 0, 9000);
        check_sorted(&s, targets[i], 10, 10); /* only a multiple of it is ever remembered */
        check_sorted(&s, targets[i], 256, 256);
        check_sorted(&s, targets[i], 2000, 2000);
        check_sorted(&s, targets[i], 10000, 9000);
    }
    mvcc_rig_free(&s);
}

/* Restoring looks through one view after the other; a large transaction lies in several. */
TEST(a_large_revision_is_restored)
{
    struct mvcc_rig s;

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 9000);
    mvcc_rig_reopen(&s);
    CHECK_EQ(mvcc_revision(s.m), 2);
    CHECK_EQ(mvcc_status(s.m).keys, 9000);
    mvcc_check_store(s.m);
    mvcc_rig_free(&s);
}

/* etcd before 3.5.16 removed the tombstone at its compaction, even if it was the newest entry. */
TEST(revisions_go_on_behind_a_compaction)
{
    struct backend_rig backend_rig;
    struct mvcc *m;
    struct buf why = {0};

    backend_rig_init(&backend_rig, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&backend_rig), ERR_OK);
    backend_put(backend_rig.b, BUCKET_KEY, REVISION_2, BYTES("\n\1a\x10\2\x18\2 \1*\1\61"));
    backend_put(backend_rig.b, BUCKET_META, BYTES("scheduledCompactRev"), BYTES(AT_3));
    backend_rig_commit(&backend_rig);
    CHECK_EQ(mvcc_open(&(struct mvcc_options){.backend = backend_rig.b}, &why, &m), ERR_OK);

    CHECK_EQ(mvcc_revision(m), 3);
    CHECK_EQ(mvcc_compact_revision(m), 3);
    CHECK(mvcc_compact_pending(m));
    CHECK_EQ(mvcc_compact_finished(m), -1);
    mvcc_check_store(m);
    mvcc_close(m);
    backend_rig_close(&backend_rig);
    backend_rig_free(&backend_rig);
}

TEST(a_large_revision_is_not_listed)
{
    struct mvcc_rig s;

    mvcc_rig_init_settling(&s, BACKEND_RIG_MEMORY, 5000);
    fill(&s, 3000);
    struct mvcc_delete_range d = {.range = key_range(BYTES("\0"), BYTES("\0"))};
    mvcc_rig_begin(&s);
    mvcc_delete_range_begin(s.m, &d);
    unsigned slices = 1;
    while (!mvcc_delete_range_some(s.m, &d, 100))
        slices++;
    CHECK(slices >= 30);
    CHECK_EQ(d.deleted, 3000);
    struct mvcc_changes c = mvcc_rig_end(&s);

    CHECK_EQ(c.revision, 3);
    CHECK_EQ(c.count, 3000);
    CHECK(c.at == NULL);
    CHECK_EQ(s.damage.len, 0);
    mvcc_check_store(s.m);
    mvcc_rig_free(&s);
}

static int64_t count_all(struct mvcc_rig *s, int64_t revision)
{
    struct mvcc_scan scan = {
        .question = {.key = BYTES("\0"), .end = BYTES("\0"), .count_only = true}};

    CHECK_EQ(mvcc_resolve(s->m, revision, &scan.question.at), MVCC_OK);
    mvcc_scan_open(s->m, &scan);
    while (!mvcc_scan_measure(&scan, 100))
        ;
    mvcc_scan_close(&scan);
    return scan.count;
}

TEST(a_large_delete_is_over_at_once_and_settled_later)
{
    struct mvcc_rig s;
    struct mvcc_delete_range d = {.range = key_range(BYTES("\0"), BYTES("\0"))};
    unsigned slices = 1;

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 3000);
    mvcc_rig_begin(&s);
    mvcc_delete_range_begin(s.m, &d);
    CHECK(mvcc_delete_range_some(s.m, &d, 1));
    CHECK_EQ(d.deleted, 3000);
    struct mvcc_changes c = mvcc_rig_end(&s);
    CHECK_EQ(c.revision, 3);
    CHECK_EQ(c.count, 3000);
    CHECK(c.at == NULL);
    CHECK_EQ(count_all(&s, 3), 0);
    CHECK_EQ(count_all(&s, 2), 3000);
    CHECK_EQ(mvcc_unsettled_revision(s.m), 3);
    CHECK_EQ(mvcc_history_end(s.m, 3), 2);

    mvcc_rig_crash(&s); /* nothing was committed: gone without a trace */
    CHECK(!mvcc_is_settling(s.m));
    mvcc_rig_free(&s);

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 3000);
    mvcc_rig_begin(&s);
    d = (struct mvcc_delete_range){.range = key_range(BYTES("\0"), BYTES("\0"))};
    mvcc_delete_range_begin(s.m, &d);
    CHECK(mvcc_delete_range_some(s.m, &d, 1));
    mvcc_rig_end(&s);
    for (int i = 0; i < 10; i++)
        CHECK(!mvcc_settle_some(s.m, 100));
    mvcc_rig_put(&s, "new", "1");
    mvcc_rig_reopen(&s);
    CHECK_EQ(mvcc_revision(s.m), 4);
    CHECK_EQ(mvcc_unsettled_revision(s.m), 3);
    CHECK_EQ(count_all(&s, 3), 0);
    CHECK_EQ(count_all(&s, 4), 1);
    CHECK_EQ(mvcc_history_end(s.m, 4), 4);
    CHECK_EQ(mvcc_rig_compact(&s, 4), MVCC_OK);
    mvcc_rig_commit(&s);
    CHECK(mvcc_compact_waiting(s.m));
    while (!mvcc_settle_some(s.m, 100))
        slices++;
    CHECK(slices >= 30); /* those that were stored before are passed over */
    CHECK(!mvcc_is_settling(s.m));
    mvcc_check_store(s.m);
    mvcc_rig_settle(&s);
    CHECK_EQ(mvcc_status(s.m).keys, 1);
    mvcc_check_store(s.m);
    mvcc_rig_free(&s);
}

static struct mvcc_changes delete_all(struct mvcc_rig *s)
{
    struct mvcc_delete_range d = {.range = key_range(BYTES("\0"), BYTES("\0"))};

    mvcc_rig_begin(s);
    mvcc_delete_range_begin(s->m, &d);
    while (!mvcc_delete_range_some(s->m, &d, 100))
        ;
    return mvcc_rig_end(s);
}

static void delete_between(struct mvcc_rig *s, const char *from, const char *to)
{
    struct mvcc_delete_range d = {.range = key_range(bytes_of_str(from), bytes_of_str(to))};

    mvcc_delete_range_begin(s->m, &d);
    while (!mvcc_delete_range_some(s->m, &d, 100))
        ;
}

/* A transaction with two large deletes, in mid-course: of the first the tombstones are to be
 * settled, or are by then; so the second took slices. */
static void begin_two_deletes(struct mvcc_rig *s, unsigned settled)
{
    mvcc_rig_begin(s);
    delete_between(s, "key000000", "key001100");
    CHECK(mvcc_is_settling(s->m));
    CHECK(!backend_can_commit(s->backend_rig.b)); /* as long as there are only a few bytes of it */
    delete_between(s, "key001100", "key002000");
    for (; settled > 0; settled -= 100)
        mvcc_settle_some(s->m, 100);
}

static void check_two_deletes(enum backend_rig_kind kind, unsigned settled)
{
    struct mvcc_rig s;
    mvcc_rig_init(&s, kind);
    fill(&s, 3000);
    mvcc_rig_commit(&s);

    begin_two_deletes(&s, settled);
    CHECK(backend_can_commit(s.backend_rig.b));
    mvcc_rig_commit(&s);
    delete_between(&s, "key002000", "key002500");
    mvcc_rig_commit(&s);
    mvcc_rig_crash(&s); /* it has not come to its end: nothing has happened */
    CHECK_EQ(mvcc_revision(s.m), 2);
    CHECK(!mvcc_is_settling(s.m));
    CHECK_EQ(count_all(&s, 2), 3000);
    mvcc_check_store(s.m);

    begin_two_deletes(&s, settled);
    mvcc_rig_commit(&s);
    delete_between(&s, "key002000", "key002500");
    CHECK_EQ(mvcc_rig_end(&s).count, 2500);
    mvcc_rig_commit(&s);
    mvcc_rig_crash(&s);
    CHECK_EQ(mvcc_revision(s.m), 3);
    CHECK_EQ(mvcc_is_settling(s.m), settled < 1100);
    CHECK_EQ(count_all(&s, 3), 500);
    while (!mvcc_settle_some(s.m, 100))
        ;
    CHECK_EQ(count_all(&s, 2), 3000);
    mvcc_check_store(s.m);
    mvcc_rig_reopen(&s);
    CHECK(!mvcc_is_settling(s.m));
    CHECK_EQ(count_all(&s, 3), 500);
    mvcc_check_store(s.m);
    mvcc_rig_free(&s);
}

TEST(a_transaction_with_two_large_deletes_is_committed_in_parts)
{
    check_two_deletes(BACKEND_RIG_MEMORY, 0);
    check_two_deletes(BACKEND_RIG_MEMORY, 500);
    check_two_deletes(BACKEND_RIG_MEMORY, 1200);
}

TEST(a_transaction_with_two_large_deletes_is_committed_in_parts_on_disk)
{
    check_two_deletes(BACKEND_RIG_LMDB, 500);
}

/* One delete after the other, each of them settled only when the next has come. */
TEST(large_deletes_take_slices_while_somebody_waits_for_settled_history)
{
    struct mvcc_rig s;
    struct mvcc_hash h = {0};
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 1500);
    delete_all(&s); /* 3 */
    CHECK(!mvcc_is_settled(s.m, 3));
    CHECK(mvcc_is_settled(s.m, 2));

    CHECK_EQ(mvcc_hash_open(s.m, &h), MVCC_OK);
    CHECK(!mvcc_hash_some(s.m, &h, 100));
    while (!mvcc_settle_some(s.m, 500))
        ;
    fill(&s, 1500);
    delete_all(&s);
    CHECK(!mvcc_is_settling(s.m)); /* it was executed in slices */
    while (!mvcc_hash_some(s.m, &h, 1000))
        ;
    mvcc_hash_close(s.m, &h);
    fill(&s, 1500);
    delete_all(&s);

    CHECK(mvcc_is_settling(s.m)); /* nobody waits any more */
    while (!mvcc_settle_some(s.m, 500))
        ;
    mvcc_rig_free(&s);
}

TEST(large_deletes_do_not_starve_a_compaction)
{
    struct mvcc_rig s;
    unsigned rounds = 0;
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 1500);
    delete_all(&s);
    CHECK_EQ(mvcc_rig_compact(&s, 3), MVCC_OK);

    for (; mvcc_compact_pending(s.m); rounds++) {
        CHECK(rounds < 10);
        fill(&s, 1500);
        delete_all(&s);
        while (!mvcc_settle_some(s.m, 500))
            ;
        mvcc_rig_commit(&s);
        for (unsigned n = 0; n < 2; n++)
            mvcc_compact_some(s.m, 500);
        mvcc_check(s.m);
    }

    mvcc_rig_free(&s);
}

/* A reader may keep a compaction waiting for a minute: deletes do not wait with it. */
TEST(a_compaction_that_waits_for_a_reader_does_not_slow_deletes)
{
    struct mvcc_rig s;
    struct mvcc_scan scan = {.question = {.key = BYTES("\0"), .end = BYTES("\0")}};
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    fill(&s, 1500);
    CHECK_EQ(mvcc_resolve(s.m, 0, &scan.question.at), MVCC_OK);
    mvcc_scan_open(s.m, &scan);
    delete_all(&s);
    CHECK_EQ(mvcc_rig_compact(&s, 3), MVCC_OK);
    while (!mvcc_settle_some(s.m, 500))
        ;
    fill(&s, 1500);

    delete_all(&s);

    CHECK(mvcc_is_settling(s.m));
    CHECK(!mvcc_compact_needs_commit(s.m));
    mvcc_scan_close(&scan);
    while (!mvcc_settle_some(s.m, 500))
        ;
    mvcc_rig_settle(&s);
    mvcc_rig_free(&s);
}

TEST(the_history_floor_keeps_what_compaction_would_remove)
{
    struct mvcc_rig s;
    unsigned count = 0;
    struct buf before = {0};
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&s, "a", "1"); /* 2 */
    mvcc_rig_put(&s, "a", "2");
    mvcc_rig_put(&s, "a", "3");
    mvcc_rig_put(&s, "b", "4");
    mvcc_rig_delete(&s, "a"); /* 6 */

    CHECK_EQ(mvcc_rig_compact(&s, 6), MVCC_OK);
    CHECK_EQ(mvcc_length_before(s.m, BYTES("a"), 4), 0);
    mvcc_keep_history(s.m, 3);
    mvcc_rig_commit(&s);
    CHECK(mvcc_compact_waiting(s.m));
    CHECK(!mvcc_compact_needs_commit(s.m));
    CHECK(mvcc_compact_some(s.m, 1000));
    CHECK(mvcc_compact_pending(s.m));
    CHECK(!mvcc_pin_in_the_way(s.m)); /* no scan is to blame */
    struct revision next = {3, 0};
    CHECK(mvcc_history_some(s.m, &next, &(unsigned){100}, count_change, &count));
    CHECK_EQ(count, 4);
    CHECK(mvcc_read_before(s.m, BYTES("a"), 3, &before));
    CHECK_EQ(mvcc_length_before(s.m, BYTES("a"), 2), 0);
    struct revision at;
    CHECK_EQ(mvcc_resolve(s.m, 5, &at), MVCC_COMPACTED); /* scans are refused as ever */

    mvcc_keep_history(s.m, INT64_MAX);
    next = (struct revision){3, 0};
    CHECK_DIES(mvcc_history_some(s.m, &next, &(unsigned){100}, count_change, &count),
               "history_floor");
    mvcc_rig_settle(&s);
    mvcc_check_store(s.m);
    CHECK_DIES(mvcc_keep_history(s.m, 6), "from > m->finished");
    buf_free(&before);
    mvcc_rig_free(&s);
}

struct heard {
    struct buf keys;
    const struct mvcc *m;
};

static void on_key(void *context, struct bytes key)
{
    struct heard *h = context;
    struct keyindex_found found;

    CHECK(mvcc_find(h->m, key, mvcc_working(h->m), &found)); /* it has not gone yet */
    buf_append(&h->keys, key);
    buf_append_byte(&h->keys, ' ');
}

TEST(a_delete_names_each_key_before_it_goes)
{
    struct mvcc_rig s;
    struct heard h = {0};

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    h.m = s.m;
    mvcc_rig_put(&s, "b", "1");
    mvcc_rig_put(&s, "a", "1");
    mvcc_rig_put(&s, "c", "1");
    struct mvcc_delete_range d = {
        .range = key_range(BYTES("a"), BYTES("c")), .on_key = on_key, .context = &h};
    mvcc_rig_begin(&s);
    mvcc_delete_range_begin(s.m, &d);
    while (!mvcc_delete_range_some(s.m, &d, 1))
        ;
    CHECK_EQ(mvcc_rig_end(&s).count, 2);
    CHECK_STR(buf_str(&h.keys), "a b ");
    buf_free(&h.keys);
    mvcc_rig_free(&s);
}

/* --- compaction and a slow disk ----------------------------------------------------------- */

TEST(compaction_pauses_while_the_backend_is_full)
{
    struct mvcc_rig s = {0};
    char value[2000];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    for (int i = 0; i < 50; i++)
        mvcc_rig_put(&s, "a", "1");
    CHECK_EQ(mvcc_rig_compact(&s, 40), MVCC_OK);
    mvcc_rig_commit(&s);
    CHECK(!mvcc_compact_waiting(s.m));
    while (!backend_is_full(s.backend_rig.b)) {
        mvcc_rig_begin(&s);
        for (int i = 0; i < 1000; i++)
            mvcc_put(s.m, BYTES("b"), bytes_of_str(value), 0);
        mvcc_rig_end(&s);
    }

    CHECK(mvcc_compact_waiting(s.m));
    CHECK(mvcc_compact_some(s.m, 1000));
    CHECK(mvcc_compact_pending(s.m));
    mvcc_rig_settle(&s);
    CHECK_EQ(mvcc_compact_finished(s.m), 40);
    mvcc_rig_free(&s);
}

/* physical=true may be answered only when the note of the end would survive a crash. */
TEST(a_compaction_is_finished_when_that_is_durable)
{
    struct mvcc_rig s;

    mvcc_rig_init(&s, BACKEND_RIG_MEMORY);
    mvcc_rig_put(&s, "a", "1");
    mvcc_rig_put(&s, "a", "2");
    CHECK_EQ(mvcc_rig_compact(&s, 3), MVCC_OK);
    CHECK_EQ(mvcc_compact_finished(s.m), -1);
    mvcc_rig_commit(&s);
    CHECK(mvcc_compact_some(s.m, 1000));
    CHECK(!mvcc_compact_pending(s.m));
    CHECK_EQ(mvcc_compact_finished(s.m), -1);
    mvcc_rig_commit(&s);
    CHECK_EQ(mvcc_compact_finished(s.m), 3);
    CHECK_EQ(mvcc_status(s.m).keys, 1);
    mvcc_rig_free(&s);
}

/* --- images --- */

static size_t stored(struct mvcc_rig *r, int64_t up_to)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;
    size_t count = 0;

    backend_view_open(r->backend_rig.b, &v);
    backend_cursor_open(&v, BUCKET_KEY, (struct bytes){0}, &c);
    while (backend_cursor_next(&c, &key, &value) == ERR_OK)
        count += key.at[7] <= up_to; /* few revisions: one byte tells them */
    backend_cursor_close(&c);
    backend_view_close(&v);
    return count;
}

/* Whoever copies the store finds all that was there, also if the removal had begun. */
TEST(nothing_is_removed_while_an_image_is_read)
{
    enum { REVISION = 100 };
    struct mvcc_rig r;
    mvcc_rig_init(&r, BACKEND_RIG_MEMORY);
    for (unsigned i = 0; mvcc_revision(r.m) < REVISION; i++)
        mvcc_rig_put(&r, i % 2 ? "a" : "b", "v");
    mvcc_rig_compact(&r, REVISION);
    mvcc_rig_commit(&r);
    while (stored(&r, REVISION) == REVISION - 1) { /* it hashes before it removes anything */
        CHECK(!mvcc_compact_some(r.m, 10));
        mvcc_rig_commit(&r);
    }

    mvcc_image_pin(r.m);
    size_t before = stored(&r, REVISION);
    CHECK(before > 2);
    CHECK(before < REVISION - 1);
    for (unsigned i = 0; i < 10; i++) {
        CHECK(mvcc_compact_waiting(r.m));
        CHECK(!mvcc_compact_needs_commit(r.m));
        CHECK(mvcc_compact_some(r.m, 1000));
        mvcc_rig_put(&r, "a", "w");
        mvcc_rig_compact(&r, mvcc_revision(r.m));
        mvcc_rig_commit(&r);
        mvcc_check_store(r.m);
    }
    CHECK_EQ(stored(&r, REVISION), before);

    CHECK_EQ(mvcc_status(r.m).image_pins, 1);
    mvcc_image_unpin(r.m);
    mvcc_rig_settle(&r);
    CHECK_EQ(stored(&r, INT64_MAX), 2);
    mvcc_rig_free(&r);
}
