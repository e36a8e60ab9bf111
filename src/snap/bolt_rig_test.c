#include "snap/bolt_rig_test.h"

#include "base/assert.h"
#include "harness/stream.h"

#include <stdio.h>

void rig_add(struct rig_bucket *bucket, struct bytes key, struct bytes value)
{
    if (bucket->count == bucket->cap) {
        bucket->cap = bucket->cap ? bucket->cap * 2 : 16;
        bucket->entries = mem_resize(bucket->entries, bucket->cap, sizeof(struct rig_entry));
    }
    bucket->entries[bucket->count++] = (struct rig_entry){.key = key, .value = value};
}

void rig_free(struct rig_bucket *buckets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(buckets[i].entries);
}

/* ---- Writing ---- */

static bool fails_now(struct rig_feed *f)
{
    return ++f->calls == f->fail_at;
}

static enum err feed_rewind(struct bolt_feed *feed, size_t bucket)
{
    struct rig_feed *f = (struct rig_feed *)feed;

    f->bucket = bucket;
    f->at = 0;
    return fails_now(f) ? ERR_IO : ERR_OK;
}

static enum err feed_next(struct bolt_feed *feed, struct bolt_entry *out)
{
    struct rig_feed *f = (struct rig_feed *)feed;
    const struct rig_bucket *bucket = &f->buckets[f->bucket];

    if (fails_now(f))
        return ERR_IO;
    if (f->at == bucket->count)
        return ERR_END;
    const struct rig_entry *entry = &bucket->entries[f->at++];
    *out = (struct bolt_entry){.key = entry->key, .value_bytes = (uint32_t)entry->value.len};
    return ERR_OK;
}

static enum err feed_read(struct bolt_feed *feed, uint32_t offset, uint8_t *into, size_t size)
{
    struct rig_feed *f = (struct rig_feed *)feed;
    struct bytes value = f->buckets[f->bucket].entries[f->at - 1].value;

    if (fails_now(f))
        return ERR_IO;
    assert(offset + size <= value.len);
    memcpy(into, value.at + offset, size);
    return ERR_OK;
}

void rig_feed_init(struct rig_feed *f, const struct rig_bucket *buckets)
{
    *f = (struct rig_feed){.feed = {.rewind = feed_rewind, .next = feed_next, .read = feed_read},
                           .buckets = buckets};
}

static enum err pull_all(struct bolt_writer *w, size_t chunk, struct buf *out)
{
    size_t start = out->len, done = chunk;
    enum err e = ERR_OK;

    while (e == ERR_OK && done == chunk) {
        e = bolt_writer_read(w, buf_reserve(out, chunk), chunk, &done);
        out->len += done;
    }
    if (e == ERR_OK)
        CHECK_EQ(out->len - start, bolt_writer_size(w));
    return e;
}

enum err rig_try_write(struct rig_feed *feed, size_t count, const struct rig_write_options *options,
                       struct buf *out)
{
    struct rig_write_options o = options ? *options : (struct rig_write_options){0};
    struct bytes *names = mem_new_array(count, struct bytes);
    bool done = false;
    enum err e = ERR_OK;

    for (size_t i = 0; i < count; i++)
        names[i] = feed->buckets[i].name;
    struct bolt_writer *w = bolt_writer_open(
        &(struct bolt_writer_options){
            .buckets = names, .bucket_count = count, .page_bytes = o.page_bytes},
        &feed->feed);
    while (e == ERR_OK && !done)
        e = bolt_writer_plan(w, o.plan_chunk ? o.plan_chunk : UINT64_MAX, &done);
    if (e == ERR_OK)
        e = pull_all(w, o.chunk_bytes ? o.chunk_bytes : 64 * KIB, out);
    bolt_writer_close(w);
    mem_free(names);
    return e;
}

void rig_write(const struct rig_bucket *buckets, size_t count,
               const struct rig_write_options *options, struct buf *out)
{
    struct rig_feed feed;

    rig_feed_init(&feed, buckets);
    CHECK_EQ(rig_try_write(&feed, count, options, out), ERR_OK);
}

/* ---- Reading ---- */

static void check_bucket(struct bolt *b, const struct rig_bucket *bucket)
{
    struct bolt_cursor *c = NULL;
    struct bolt_entry entry;
    struct buf value = {0};

    CHECK_EQ(bolt_cursor_open(b, bucket->name, &c), ERR_OK);
    for (size_t i = 0; i < bucket->count; i++) {
        CHECK_EQ(bolt_cursor_next(c, &entry), ERR_OK);
        CHECK_BYTES(entry.key, bucket->entries[i].key);
        buf_clear(&value);
        CHECK_EQ(bolt_cursor_value(c, entry.value_bytes, &value), ERR_OK);
        CHECK_BYTES(buf_bytes(&value), bucket->entries[i].value);
    }
    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_END);
    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_END);
    bolt_cursor_close(c);
    buf_free(&value);
}

static void check_names(struct bolt *b, const struct rig_bucket *buckets, size_t count)
{
    struct bolt_cursor *c = bolt_cursor_open_root(b);
    struct bolt_entry entry;

    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(bolt_cursor_next(c, &entry), ERR_OK);
        CHECK_BYTES(entry.key, buckets[i].name);
    }
    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_END);
    bolt_cursor_close(c);
}

void rig_check_content(struct bytes image, enum bolt_kind kind, const struct rig_bucket *buckets,
                       size_t count)
{
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b = NULL;

    bolt_memory_init(&memory, image);
    enum err e = bolt_open(&memory.source, kind, &fault, &b);
    if (e == ERR_OK)
        e = bolt_check(b);
    if (e != ERR_OK)
        printf("offset %llu: %s\n", (unsigned long long)fault.offset, fault.what);
    CHECK_EQ(e, ERR_OK);
    check_names(b, buckets, count);
    for (size_t i = 0; i < count; i++)
        check_bucket(b, &buckets[i]);
    bolt_close(b);
}

enum err rig_read_all(struct bytes image, enum bolt_kind kind, struct bolt_fault *fault,
                      struct bolt_sum *sum)
{
    struct bolt_memory memory;
    struct bolt *b = NULL;

    bolt_memory_init(&memory, image);
    enum err e = bolt_open(&memory.source, kind, fault, &b);
    if (e != ERR_OK)
        return e;
    e = bolt_check(b);
    if (e == ERR_OK)
        e = bolt_sum(b, sum);
    bolt_close(b);
    return e;
}

/* ---- Odds and ends ---- */

struct bytes rig_random(struct arena *arena, struct rng *rng, size_t len)
{
    uint8_t *at = arena_alloc(arena, len);

    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)rng_next(rng);
    return bytes_of(at, len);
}

void rig_read_file(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");

    if (!f)
        test_fail(__FILE__, __LINE__, "cannot open %s", path);
    CHECK(stream_read_all(f, out));
    fclose(f);
}

void rig_write_file(const char *path, struct bytes content)
{
    FILE *f = fopen(path, "wb");

    CHECK(f != NULL);
    CHECK_EQ(fwrite(content.at, 1, content.len, f), content.len);
    CHECK_EQ(fclose(f), 0);
}
