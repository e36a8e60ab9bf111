/*
 * Any bytes as one of the two streams. The first byte chooses which, the second how they are cut
 * into pieces. However they are cut the same messages are found, and the same end; memory stays
 * within what has arrived; and what was found, sent again by our encoder, is found again.
 */
#include "base/assert.h"
#include "peer/stream_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FRAME_MAX = 1 << 20, FOUND_MAX = 64 };

struct findings {
    struct buf text; /* every message, encoded */
    size_t count;
    const char *why;
};

static void note(struct findings *f, const struct raft_message *m)
{
    raft_message_encode(m, &f->text);
    f->count++;
}

static void decode(enum stream_kind kind, struct bytes in, size_t step, struct findings *f)
{
    static struct arena arena;
    uint64_t receiving = 0;
    struct stream_decoder d = {.kind = kind,
                               .self = 2,
                               .peer = 1,
                               .frame_bytes_max = FRAME_MAX,
                               .receiving = &receiving,
                               .receiving_max = 2 * FRAME_MAX};

    while (in.len > 0 && !f->why) {
        struct bytes piece = bytes_of(in.at, step < in.len ? step : in.len);
        enum stream_found found;

        in = bytes_of(in.at + piece.len, in.len - piece.len);
        do {
            struct blob *frame = NULL;
            struct raft_message m;

            found = stream_decode(&d, &piece, &arena, &frame, &m);
            if (found == STREAM_FOUND)
                note(f, &m);
            if (found == STREAM_BAD)
                f->why = d.why;
            assert((frame != NULL) == (found == STREAM_FOUND));
            assert(receiving == d.frame.len);
            assert(d.frame.cap <= PEER_DECODER_AT_ONCE_BYTES + 2 * d.frame.len);
            blob_unref(frame);
            arena_reset(&arena);
        } while (found == STREAM_FOUND || found == STREAM_HEARTBEAT);
        assert(found == STREAM_BAD || piece.len == 0);
    }
    stream_decoder_free(&d);
    assert(receiving == 0);
}

/* What was found goes out again as a leader would send it. */
static void send_again(enum stream_kind kind, struct bytes in)
{
    static struct arena arena;
    static struct entry_cache cache;
    struct gather g = {0};
    struct app_state app = {0};
    uint64_t receiving = 0;
    struct stream_decoder d = {.kind = kind,
                               .self = 2,
                               .peer = 1,
                               .frame_bytes_max = FRAME_MAX,
                               .receiving = &receiving,
                               .receiving_max = 2 * FRAME_MAX};
    struct findings before = {0}, after = {0};

    for (;;) {
        struct blob *frame = NULL;
        struct raft_message m;
        enum stream_found found = stream_decode(&d, &in, &arena, &frame, &m);

        if (found == STREAM_MORE || found == STREAM_BAD)
            break;
        bool is_append = found == STREAM_FOUND && m.type == RAFT_MSG_APP;
        if (is_append)
            m.from = 1, m.to = 2; /* which the short form leaves out */
        if (is_append && m.log_term == m.term && m.index == app.index && m.log_term == app.term) {
            m.vote = m.reject_hint = 0; /* as is everything else that an append does not have */
            m.reject = false;
            m.snapshot = NULL;
            m.context = bytes_of(NULL, 0);
            m.responses = NULL;
            m.response_count = 0;
        }
        if (found == STREAM_FOUND && (is_append || kind == STREAM_MESSAGE)) {
            note(&before, &m);
            if (kind == STREAM_APP)
                stream_put_append(&g, &app, &cache, &m);
            else
                stream_put_message(&g, &m);
        }
        entry_cache_clear(&cache);
        blob_unref(frame);
        arena_reset(&arena);
    }
    stream_decoder_free(&d);
    arena_reset(&arena);

    struct bytes *pieces = mem_new_array(2 * g.share_count + 1, struct bytes);
    size_t count = gather_pieces(&g, pieces);
    struct buf all = {0};
    for (size_t i = 0; i < count; i++)
        buf_append(&all, pieces[i]);
    assert(all.len == g.len);
    decode(kind, buf_bytes(&all), all.len, &after);
    assert(!after.why);
    assert(after.count == before.count);
    assert(bytes_equal(buf_bytes(&before.text), buf_bytes(&after.text)));
    mem_free(pieces);
    buf_free(&all);
    buf_free(&before.text);
    buf_free(&after.text);
    gather_free(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    enum stream_kind kind = data[0] % STREAM_KINDS;
    struct bytes in = bytes_of(data + 2, size - 2);
    struct findings whole = {0}, pieces = {0};

    decode(kind, in, in.len, &whole);
    decode(kind, in, 1 + data[1] % 32, &pieces);
    assert(whole.count == pieces.count);
    assert(whole.why == pieces.why);
    assert(bytes_equal(buf_bytes(&whole.text), buf_bytes(&pieces.text)));
    buf_free(&whole.text);
    buf_free(&pieces.text);
    send_again(kind, in);
    return 0;
}
