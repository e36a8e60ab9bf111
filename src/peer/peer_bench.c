/* A leader's turn: appends of one entry of 256 bytes, to two and to six members; and one of 64 KiB,
 * which all of them share. A follower's: one entry, and 400 of them, as a busy leader sends them,
 * which come in several reads. */
#include "base/assert.h"
#include "harness/bench.h"
#include "peer/stream_codec.h"

enum { MEMBERS_MAX = 6, BUSY_ENTRIES = 400, READ_BYTES = 64 * 1024 };

struct turn {
    unsigned members;
    struct raft_entry entry;
    struct gather gathers[MEMBERS_MAX];
    struct app_state states[MEMBERS_MAX];
    struct entry_cache cache;
    struct arena arena;
};

/* One append to each, and the end of the turn. */
static void encode(void *context, uint64_t times)
{
    struct turn *t = context;

    for (uint64_t i = 0; i < times; i++) {
        t->entry.index++;
        for (unsigned k = 0; k < t->members; k++) {
            t->states[k] = (struct app_state){.term = 7, .index = t->entry.index - 1};
            stream_put_append(&t->gathers[k], &t->states[k], &t->cache,
                              &(struct raft_message){.type = RAFT_MSG_APP,
                                                     .term = 7,
                                                     .log_term = 7,
                                                     .index = t->entry.index - 1,
                                                     .entries = &t->entry,
                                                     .entry_count = 1});
            gather_clear(&t->gathers[k]);
        }
        entry_cache_clear(&t->cache);
    }
}

static void decode(void *context, uint64_t times)
{
    struct turn *t = context;
    uint64_t receiving = 0;
    struct stream_decoder d = {.kind = STREAM_APP,
                               .self = 2,
                               .peer = 1,
                               .frame_bytes_max = 1 << 20,
                               .receiving = &receiving,
                               .receiving_max = 1 << 20};
    struct app_state state = {0};

    stream_put_append(
        &t->gathers[0], &state, &t->cache,
        &(struct raft_message){.type = RAFT_MSG_APP, .entries = &t->entry, .entry_count = 1});
    assert(t->gathers[0].share_count == 0);
    for (uint64_t i = 0; i < times; i++) {
        struct bytes in = buf_bytes(&t->gathers[0].bytes);
        struct blob *frame;
        struct raft_message m;
        enum stream_found found = stream_decode(&d, &in, &t->arena, &frame, &m);

        assert(found == STREAM_FOUND);
        struct raft_message *kept = raft_message_clone(&m);
        blob_unref(frame);
        arena_reset(&t->arena);
        raft_message_free(kept);
    }
    stream_decoder_free(&d);
    gather_clear(&t->gathers[0]);
    entry_cache_clear(&t->cache);
}

/* The frame of an append of many entries. */
static void put_busy_append(struct turn *t, struct buf *out)
{
    struct raft_entry entries[BUSY_ENTRIES];
    struct app_state state = {0};
    struct bytes pieces[3];

    for (unsigned i = 0; i < BUSY_ENTRIES; i++) {
        entries[i] = t->entry;
        entries[i].index += i;
    }
    stream_put_append(&t->gathers[0], &state, &t->cache,
                      &(struct raft_message){
                          .type = RAFT_MSG_APP, .entries = entries, .entry_count = BUSY_ENTRIES});
    size_t count = gather_pieces(&t->gathers[0], pieces);
    for (size_t i = 0; i < count; i++)
        buf_append(out, pieces[i]);
    gather_clear(&t->gathers[0]);
    entry_cache_clear(&t->cache);
}

static void decode_reads(void *context, uint64_t times)
{
    struct turn *t = context;
    uint64_t receiving = 0;
    struct stream_decoder d = {.kind = STREAM_APP,
                               .self = 2,
                               .peer = 1,
                               .frame_bytes_max = 1 << 20,
                               .receiving = &receiving,
                               .receiving_max = 1 << 20};
    struct buf frame_bytes = {0};

    put_busy_append(t, &frame_bytes);
    for (uint64_t entries = 0; entries < times;) {
        struct bytes left = buf_bytes(&frame_bytes);
        while (left.len > 0) {
            struct bytes in = bytes_of(left.at, left.len < READ_BYTES ? left.len : READ_BYTES);
            struct blob *frame;
            struct raft_message m;
            left = bytes_of(left.at + in.len, left.len - in.len);
            if (stream_decode(&d, &in, &t->arena, &frame, &m) != STREAM_FOUND)
                continue;
            entries += m.entry_count;
            blob_unref(frame);
            arena_reset(&t->arena);
        }
    }
    stream_decoder_free(&d);
    buf_free(&frame_bytes);
}

static void run(const char *suffix, unsigned members, size_t bytes,
                void (*body)(void *context, uint64_t times))
{
    static struct turn t;
    uint8_t *fill;

    t.members = members;
    t.entry = (struct raft_entry){.term = 7, .index = 1000000, .blob = blob_new(bytes, &fill)};
    memset(fill, 'v', bytes);
    t.entry.data = blob_bytes(t.entry.blob);
    bench_run(&(struct bench_work){.suffix = suffix, .body = body, .context = &t});
    blob_unref(t.entry.blob);
    for (unsigned i = 0; i < MEMBERS_MAX; i++)
        gather_free(&t.gathers[i]);
    entry_cache_free(&t.cache);
    arena_free(&t.arena);
}

BENCH(peer_append)
{
    run("256_to_2", 2, 256, encode);
    run("256_to_6", 6, 256, encode);
    run("64k_to_2", 2, 64 * 1024, encode);
    run("64k_to_6", 6, 64 * 1024, encode);
    run("256_received", 1, 256, decode);
    run("256_of_400_received", 1, 256, decode_reads);
}
