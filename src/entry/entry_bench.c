/* A leader's append of 64 entries of 256 bytes, as a peer sends and receives it. */
#include "base/assert.h"
#include "entry/entry.h"
#include "harness/bench.h"

struct work {
    struct raft_message message;
    struct blob *frame;
    struct arena arena;
    struct buf out;
};

static void encode(void *context, uint64_t times)
{
    struct work *w = context;

    for (uint64_t i = 0; i < times; i++) {
        buf_clear(&w->out);
        raft_message_encode(&w->message, &w->out);
    }
}

static void decode(void *context, uint64_t times)
{
    struct work *w = context;

    for (uint64_t i = 0; i < times; i++) {
        struct raft_message m;
        enum err e = raft_message_decode(w->frame, blob_bytes(w->frame), &w->arena, &m);
        assert(e == ERR_OK);
        arena_reset(&w->arena);
    }
}

BENCH(entry_append_64)
{
    static const uint8_t value[256];
    struct raft_entry entries[64];
    struct work w = {.message = {.type = RAFT_MSG_APP,
                                 .to = 0x8e9e05c52164694d,
                                 .from = 0xcdf818194e3a8c32,
                                 .term = 7,
                                 .log_term = 7,
                                 .index = 1000000,
                                 .entries = entries,
                                 .entry_count = ARRAY_LEN(entries),
                                 .commit = 999999}};

    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        entries[i] = (struct raft_entry){
            .term = 7, .index = 1000001 + i, .data = bytes_of(value, sizeof(value))};
    raft_message_encode(&w.message, &w.out);
    w.frame = blob_copy(buf_bytes(&w.out));
    bench_run(&(struct bench_work){.suffix = "encode", .body = encode, .context = &w});
    bench_run(&(struct bench_work){.suffix = "decode", .body = decode, .context = &w});
    blob_unref(w.frame);
    arena_free(&w.arena);
    buf_free(&w.out);
}
