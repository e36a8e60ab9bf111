#include "harness/bench.h"

#include "snap/bolt.h"

#include <stdio.h>

/* A made-up `key` bucket: revisions as keys, values of one length, nothing held in memory. */
enum { ENTRIES = 200000, VALUE_BYTES = 256, CHUNK_BYTES = 64 * KIB };

struct made_up {
    struct bolt_feed feed;
    uint32_t at;
    uint8_t key[17];
};

static enum err made_up_rewind(struct bolt_feed *feed, size_t bucket)
{
    (void)bucket;
    ((struct made_up *)feed)->at = 0;
    return ERR_OK;
}

static enum err made_up_next(struct bolt_feed *feed, struct bolt_entry *out)
{
    struct made_up *m = (struct made_up *)feed;

    if (m->at == ENTRIES)
        return ERR_END;
    m->at++;
    for (int i = 0; i < 4; i++)
        m->key[4 + i] = (uint8_t)(m->at >> (24 - 8 * i));
    *out = (struct bolt_entry){.key = bytes_of(m->key, sizeof(m->key)), .value_bytes = VALUE_BYTES};
    return ERR_OK;
}

static enum err made_up_read(struct bolt_feed *feed, uint32_t offset, uint8_t *into, size_t size)
{
    (void)offset;
    memset(into, (int)((struct made_up *)feed)->at, size);
    return ERR_OK;
}

struct work {
    struct buf image;
    enum err err;
};

static void write_image(void *context, uint64_t times)
{
    struct work *work = context;
    struct made_up m = {
        .feed = {.rewind = made_up_rewind, .next = made_up_next, .read = made_up_read}};
    struct bytes name = BYTES("key");

    for (uint64_t i = 0; i < times; i++) {
        bool planned = false;
        size_t done = CHUNK_BYTES;
        buf_clear(&work->image);
        struct bolt_writer *w = bolt_writer_open(
            &(struct bolt_writer_options){.buckets = &name, .bucket_count = 1}, &m.feed);
        work->err = bolt_writer_plan(w, UINT64_MAX, &planned);
        while (work->err == ERR_OK && done == CHUNK_BYTES) {
            work->err =
                bolt_writer_read(w, buf_reserve(&work->image, CHUNK_BYTES), CHUNK_BYTES, &done);
            work->image.len += done;
        }
        bolt_writer_close(w);
    }
}

static void read_image(struct work *work, bool sum_too)
{
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt_sum sum;
    struct bolt *b;

    bolt_memory_init(&memory, buf_bytes(&work->image));
    work->err = bolt_open(&memory.source, BOLT_IMAGE, &fault, &b);
    if (work->err != ERR_OK)
        return;
    work->err = sum_too ? bolt_sum(b, &sum) : bolt_check(b);
    bolt_close(b);
}

static void check_image(void *context, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        read_image(context, false);
}

static void sum_image(void *context, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        read_image(context, true);
}

BENCH(bolt)
{
    struct work work = {0};

    write_image(&work, 1);
    uint64_t bytes = work.image.len;
    bench_run(&(struct bench_work){
        .suffix = "write", .body = write_image, .context = &work, .bytes_each = bytes});
    bench_run(&(struct bench_work){
        .suffix = "check", .body = check_image, .context = &work, .bytes_each = bytes});
    bench_run(&(struct bench_work){
        .suffix = "sum", .body = sum_image, .context = &work, .bytes_each = bytes});
    if (work.err != ERR_OK)
        fprintf(stderr, "bolt: %s\n", err_text(work.err));
    buf_free(&work.image);
}
