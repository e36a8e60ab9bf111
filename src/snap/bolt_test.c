#include "io/hash.h"
#include "snap/bolt_int.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- What is written is read ---- */

TEST(an_image_without_buckets_is_whole)
{
    struct buf image = {0};

    rig_write(NULL, 0, NULL, &image);

    CHECK_EQ(image.len, 4 * 4096);
    rig_check_content(buf_bytes(&image), BOLT_IMAGE, NULL, 0);
    buf_free(&image);
}

TEST(empty_and_tiny_buckets_come_back)
{
    struct rig_bucket buckets[] = {{.name = BYTES("empty")}, {.name = BYTES("one")}};
    struct buf image = {0};
    rig_add(&buckets[1], BYTES("k"), BYTES(""));

    rig_write(buckets, 2, NULL, &image);

    rig_check_content(buf_bytes(&image), BOLT_IMAGE, buckets, 2);
    rig_free(buckets, 2);
    buf_free(&image);
}

static int compare_entries(const void *a, const void *b)
{
    const struct rig_entry *left = a;
    const struct rig_entry *right = b;

    return bytes_compare(left->key, right->key);
}

static void drop_twins(struct rig_bucket *bucket)
{
    size_t kept = 0;

    for (size_t i = 0; i < bucket->count; i++)
        if (kept == 0 || !bytes_equal(bucket->entries[kept - 1].key, bucket->entries[i].key))
            bucket->entries[kept++] = bucket->entries[i];
    bucket->count = kept;
}

/* Mostly small, some around a page, a few far beyond. */
static size_t random_len(struct rng *rng, uint32_t page_bytes, size_t max)
{
    uint64_t kind = rng_below(rng, 100);
    size_t len = kind < 80   ? rng_below(rng, 60)
                 : kind < 95 ? rng_below(rng, page_bytes + 100)
                 : kind < 99 ? rng_below(rng, 5 * (uint64_t)page_bytes)
                             : rng_below(rng, 200000);

    return len < max ? len : max;
}

static void fill_randomly(struct rig_bucket *bucket, struct arena *arena, struct rng *rng,
                          uint32_t page_bytes, size_t count)
{
    bool big_keys = rng_chance(rng, 1, 4);

    for (size_t i = 0; i < count; i++) {
        size_t key_len = 1 + (big_keys ? random_len(rng, page_bytes, BOLT_KEY_BYTES_MAX - 1)
                                       : rng_below(rng, 20));
        struct bytes key = rig_random(arena, rng, key_len);
        size_t value_len = random_len(rng, page_bytes, SIZE_MAX);
        rig_add(bucket, key, rig_random(arena, rng, value_len));
    }
    if (bucket->count > 0)
        qsort(bucket->entries, bucket->count, sizeof(struct rig_entry), compare_entries);
    drop_twins(bucket);
}

TEST(random_content_comes_back_whatever_the_page_size_and_the_chunks)
{
    test_runs_in_one_thread();
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t round = 0; round < 15 * test_effort(); round++) {
        struct rig_bucket buckets[3] = {
            {.name = BYTES("a")}, {.name = BYTES("bb")}, {.name = BYTES("key")}};
        struct arena arena = {0};
        struct buf image = {0};
        uint32_t page_bytes = 1024u << rng_below(&rng, 7);
        size_t chunk = 1 + rng_below(&rng, 20000);
        uint64_t plan_chunk = 1 + rng_below(&rng, 1000);
        for (size_t i = 0; i < 3; i++) {
            size_t count = rng_below(&rng, rng_chance(&rng, 1, 2) ? 5 : 2000);
            fill_randomly(&buckets[i], &arena, &rng, page_bytes, count);
        }

        struct rig_write_options options = {
            .page_bytes = page_bytes, .chunk_bytes = chunk, .plan_chunk = plan_chunk};
        rig_write(buckets, 3, &options, &image);

        rig_check_content(buf_bytes(&image), BOLT_IMAGE, buckets, 3);
        rig_check_content(buf_bytes(&image), BOLT_LIVE, buckets, 3);
        rig_free(buckets, 3);
        arena_free(&arena);
        buf_free(&image);
    }
}

/* Entries that just fill a page, or two, and those a few bytes to either side. */
TEST(entries_as_long_as_pages_come_back)
{
    struct rig_bucket bucket = {.name = BYTES("key")};
    struct arena arena = {0};
    struct buf image = {0};
    struct rng rng;
    rng_seed(&rng, test_seed());
    for (size_t pages = 1; pages <= 3; pages++)
        for (size_t bytes = pages * 1024 - 2; bytes <= pages * 1024 + 2; bytes++) {
            struct bytes key = bytes_of_str(arena_printf(&arena, "%04zu", bytes));
            size_t around = PAGE_HEADER_BYTES + ELEMENT_BYTES + key.len;
            rig_add(&bucket, key, rig_random(&arena, &rng, bytes - around));
        }

    rig_write(&bucket, 1, &(struct rig_write_options){.page_bytes = 1024}, &image);

    rig_check_content(buf_bytes(&image), BOLT_IMAGE, &bucket, 1);
    rig_free(&bucket, 1);
    arena_free(&arena);
    buf_free(&image);
}

TEST(the_root_tree_has_branches_when_there_are_many_buckets)
{
    enum { COUNT = 5000 };
    struct rig_bucket *buckets = mem_new_array(COUNT, struct rig_bucket);
    struct arena arena = {0};
    struct buf image = {0};
    for (size_t i = 0; i < COUNT; i++) {
        buckets[i].name = bytes_of_str(arena_printf(&arena, "bucket-%08zu", i));
        rig_add(&buckets[i], BYTES("name"), buckets[i].name);
    }

    rig_write(buckets, COUNT, &(struct rig_write_options){.page_bytes = 1024}, &image);

    rig_check_content(buf_bytes(&image), BOLT_IMAGE, buckets, COUNT);
    rig_free(buckets, COUNT);
    mem_free(buckets);
    arena_free(&arena);
    buf_free(&image);
}

/* ---- Cursors ---- */

/* The slow way to find the first entry that is not below the key. */
static size_t model_seek(const struct rig_bucket *bucket, struct bytes key)
{
    size_t i = 0;

    while (i < bucket->count && bytes_compare(bucket->entries[i].key, key) < 0)
        i++;
    return i;
}

TEST(seek_finds_what_a_linear_search_finds)
{
    struct rig_bucket bucket = {.name = BYTES("key")};
    struct arena arena = {0};
    struct buf image = {0};
    struct rng rng;
    rng_seed(&rng, test_seed());
    fill_randomly(&bucket, &arena, &rng, 1024, 1500);
    rig_write(&bucket, 1, &(struct rig_write_options){.page_bytes = 1024}, &image);
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b;
    struct bolt_cursor *c;
    bolt_memory_init(&memory, buf_bytes(&image));
    CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &b), ERR_OK);
    CHECK_EQ(bolt_cursor_open(b, BYTES("key"), &c), ERR_OK);

    for (int i = 0; i < 1000; i++) {
        struct bytes key = rng_chance(&rng, 1, 2)
                               ? bucket.entries[rng_below(&rng, bucket.count)].key
                               : rig_random(&arena, &rng, rng_below(&rng, 4));
        size_t at = model_seek(&bucket, key);
        struct bolt_entry entry;
        enum err e = bolt_cursor_seek(c, key, &entry);
        for (size_t k = at; k < at + 3; k++) { /* and goes on from there */
            CHECK_EQ(e, k < bucket.count ? ERR_OK : ERR_END);
            if (e == ERR_OK)
                CHECK_BYTES(entry.key, bucket.entries[k].key);
            e = bolt_cursor_next(c, &entry);
        }
    }

    bolt_cursor_close(c);
    CHECK_EQ(bolt_cursor_open(b, BYTES("kez"), &c), ERR_NOT_FOUND);
    CHECK_EQ(bolt_cursor_open(b, BYTES("a"), &c), ERR_NOT_FOUND);
    bolt_close(b);
    rig_free(&bucket, 1);
    arena_free(&arena);
    buf_free(&image);
}

TEST(a_value_too_large_for_the_caller_is_had_in_pieces)
{
    struct rig_bucket bucket = {.name = BYTES("key")};
    struct buf image = {0}, value = {0};
    uint8_t *big = mem_alloc(3 * MIB);
    for (size_t i = 0; i < 3 * MIB; i++)
        big[i] = (uint8_t)(i * 7 >> 3);
    rig_add(&bucket, BYTES("big"), bytes_of(big, 3 * MIB));
    rig_write(&bucket, 1, NULL, &image);
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b;
    struct bolt_cursor *c;
    struct bolt_entry entry;
    bolt_memory_init(&memory, buf_bytes(&image));
    CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &b), ERR_OK);
    CHECK_EQ(bolt_cursor_open(b, BYTES("key"), &c), ERR_OK);

    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_OK);

    CHECK_EQ(entry.value_bytes, 3 * MIB);
    CHECK_EQ(bolt_cursor_value(c, 3 * MIB - 1, &value), ERR_TOO_LARGE);
    uint8_t piece[1000];
    CHECK_EQ(bolt_cursor_read(c, 2 * MIB + 5, piece, sizeof(piece)), ERR_OK);
    CHECK_BYTES(bytes_of(piece, sizeof(piece)), bytes_of(big + 2 * MIB + 5, sizeof(piece)));
    CHECK_DIES((void)!bolt_cursor_read(c, 3 * MIB - 1, piece, 2), "value.len - offset");
    bolt_cursor_close(c);
    bolt_close(b);
    rig_free(&bucket, 1);
    mem_free(big);
    buf_free(&image);
}

/* ---- The writer's refusals ---- */

static struct bytes long_key(struct arena *arena, size_t len)
{
    return bytes_of(arena_alloc(arena, len), len);
}

TEST(keys_that_bbolt_cannot_hold_are_refused_in_the_first_walk)
{
    struct arena arena = {0};
    struct buf image = {0};
    struct rig_feed feed;
    struct rig_bucket bad[] = {{.name = BYTES("empty key")},
                               {.name = BYTES("long key")},
                               {.name = BYTES("order")},
                               {.name = BYTES("twice")},
                               {.name = BYTES("longest")}};
    rig_add(&bad[0], BYTES(""), BYTES("v"));
    rig_add(&bad[1], long_key(&arena, BOLT_KEY_BYTES_MAX + 1), BYTES("v"));
    rig_add(&bad[2], BYTES("b"), BYTES("v"));
    rig_add(&bad[2], BYTES("a"), BYTES("v"));
    rig_add(&bad[3], BYTES("a"), BYTES("v"));
    rig_add(&bad[3], BYTES("a"), BYTES("v"));
    rig_add(&bad[4], long_key(&arena, BOLT_KEY_BYTES_MAX), BYTES("v"));
    enum err want[] = {ERR_TOO_LARGE, ERR_TOO_LARGE, ERR_CORRUPT, ERR_CORRUPT, ERR_OK};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        rig_feed_init(&feed, &bad[i]);
        CHECK_EQ(rig_try_write(&feed, 1, NULL, &image), want[i]);
        CHECK_EQ(image.len > 0, want[i] == ERR_OK);
    }

    rig_free(bad, ARRAY_LEN(bad));
    arena_free(&arena);
    buf_free(&image);
}

/* A feed that fails in its nth call fails the writer, for every n there is. */
TEST(every_failure_of_the_feed_is_passed_on)
{
    struct rig_bucket buckets[2] = {{.name = BYTES("a")}, {.name = BYTES("b")}};
    struct arena arena = {0};
    struct rng rng;
    rng_seed(&rng, test_seed());
    fill_randomly(&buckets[0], &arena, &rng, 1024, 50);
    fill_randomly(&buckets[1], &arena, &rng, 1024, 50);
    struct rig_feed feed;
    uint64_t failures = 0;

    for (enum err e = ERR_IO; e == ERR_IO;) {
        struct buf image = {0};
        rig_feed_init(&feed, buckets);
        feed.fail_at = ++failures;
        e = rig_try_write(&feed, 2, &(struct rig_write_options){.chunk_bytes = 777}, &image);
        CHECK(e == ERR_IO || e == ERR_OK);
        buf_free(&image);
    }

    CHECK(failures > 300);
    CHECK_EQ(failures, feed.calls + 1);
    rig_free(buckets, 2);
    arena_free(&arena);
}

/* Between the walks one value grows: pages move, and the metas are out already. */
TEST(content_that_changes_between_the_walks_is_noticed)
{
    struct rig_bucket buckets[2] = {{.name = BYTES("a")}, {.name = BYTES("b")}};
    struct arena arena = {0};
    struct rng rng;
    rng_seed(&rng, test_seed());
    fill_randomly(&buckets[0], &arena, &rng, 1024, 300);
    rig_add(&buckets[1], BYTES("k"), BYTES("v"));
    struct bytes names[] = {BYTES("a"), BYTES("b")};
    struct rig_feed feed;
    bool done;
    rig_feed_init(&feed, buckets);
    struct bolt_writer *w = bolt_writer_open(
        &(struct bolt_writer_options){.buckets = names, .bucket_count = 2}, &feed.feed);
    CHECK_EQ(bolt_writer_plan(w, UINT64_MAX, &done), ERR_OK);

    buckets[0].count--;
    enum err e = ERR_OK;
    uint8_t chunk[4096];
    for (size_t got = sizeof(chunk); e == ERR_OK && got == sizeof(chunk);)
        e = bolt_writer_read(w, chunk, sizeof(chunk), &got);

    CHECK_EQ(e, ERR_CORRUPT);
    bolt_writer_close(w);
    rig_free(buckets, 2);
    arena_free(&arena);
}

/* ---- Digests ---- */

static void append_digest(struct buf *image)
{
    uint8_t digest[HASH_SHA256_BYTES];

    hash_once(HASH_SHA256, buf_bytes(image), digest);
    buf_append(image, bytes_of(digest, sizeof(digest)));
}

TEST(digests_are_those_of_the_standard)
{
    uint8_t sha1[HASH_SHA1_BYTES], sha256[HASH_SHA256_BYTES];

    struct hash *h = hash_new(HASH_SHA256);
    hash_add(h, BYTES("a"));
    hash_add(h, BYTES(""));
    hash_add(h, BYTES("bc"));
    hash_end(h, sha256);
    hash_once(HASH_SHA1, BYTES("abc"), sha1);

    CHECK_BYTES(bytes_of(sha256, 8), BYTES("\xba\x78\x16\xbf\x8f\x01\xcf\xea"));
    CHECK_BYTES(bytes_of(sha1, 8), BYTES("\xa9\x99\x3e\x36\x47\x06\x81\x6a"));
    hash_free(NULL);
    hash_free(hash_new(HASH_SHA1));
}

TEST(a_backup_is_an_image_and_its_digest)
{
    struct rig_bucket bucket = {.name = BYTES("key")};
    struct buf image = {0};
    struct bolt_memory memory;
    struct bolt_fault fault;
    rig_add(&bucket, BYTES("k"), BYTES("v"));
    rig_write(&bucket, 1, NULL, &image);

    bolt_memory_init(&memory, buf_bytes(&image));
    CHECK_EQ(bolt_check_digest(&memory.source, &fault), ERR_NOT_FOUND);
    CHECK_EQ(fault.offset, image.len);
    append_digest(&image);
    bolt_memory_init(&memory, buf_bytes(&image));
    CHECK_EQ(bolt_check_digest(&memory.source, &fault), ERR_OK);

    CHECK_EQ(memory.source.size, image.len - HASH_SHA256_BYTES);
    struct bolt *b;
    CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &b), ERR_OK);
    CHECK_EQ(bolt_check(b), ERR_OK);
    bolt_close(b);
    rig_free(&bucket, 1);
    buf_free(&image);
}
