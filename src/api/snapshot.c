/*
 * Snapshot: the state as etcd's file, in many messages, as the client takes them.
 *
 * The image (snap/image.h) is cut by the server and read here, a message at a time, as there is
 * credit for it; it makes its next chunk meanwhile. The last message is the SHA-256 of all that
 * went before. So a call holds what its stream may have queued, and the image's two chunks.
 *
 * A client that does not read stops consuming; then the image fails in the end, since it keeps
 * compaction away, and so does the call.
 */
#include "api/api_int.h"
#include "io/clock.h"
#include "io/hash.h"
#include "snap/image.h"

struct backup {
    struct image *image; /* NULL: not cut yet */
    struct hash *hash;
    struct bytes version;
    uint64_t total, left; /* bytes of the image, once it is ready */
    bool has_begun;
    struct buf piece; /* of a message, where the image gave less than one */
    uint64_t began_ms;
};

/* --- sending --- */

static void send_blob(struct call *c, struct bytes blob, uint64_t remaining)
{
    api_call_send(c, &pb_snapshot_response_schema,
                  &(struct pb_snapshot_response){
                      .remaining_bytes = remaining, .blob = blob, .version = c->backup->version});
}

static void send_piece(struct call *c, struct bytes blob)
{
    struct backup *b = c->backup;

    hash_add(b->hash, blob);
    b->left -= blob.len;
    send_blob(c, blob, b->left);
}

/* As much as a message has, in one go or as the image gives it. False: there is nothing now. */
static bool take_piece(struct call *c)
{
    struct backup *b = c->backup;
    size_t want = b->left < API_SNAPSHOT_BLOB_BYTES ? (size_t)b->left : API_SNAPSHOT_BLOB_BYTES;
    struct bytes next;

    if (!image_peek(b->image, &next))
        return false;
    want -= b->piece.len;
    size_t count = next.len < want ? next.len : want;
    if (b->piece.len == 0 && count == want) {
        send_piece(c, bytes_of(next.at, count));
    } else {
        buf_append(&b->piece, bytes_of(next.at, count));
        if (count == want) {
            send_piece(c, buf_bytes(&b->piece));
            buf_clear(&b->piece);
        }
    }
    image_consume(b->image, count);
    return true;
}

static void send_hash(struct call *c)
{
    struct backup *b = c->backup;
    struct api *a = api_of(c);
    uint8_t digest[HASH_SHA256_BYTES];

    assert(image_is_over(b->image));
    hash_end(b->hash, digest);
    b->hash = NULL;
    log_info(a->o.logger, "sending database sha256 checksum to client",
             LOG_U64("total-bytes", b->total), LOG_U64("checksum-size", sizeof(digest)));
    send_blob(c, bytes_of(digest, sizeof(digest)), 0);
    log_info(a->o.logger, "successfully sent database snapshot to client",
             LOG_U64("total-bytes", b->total),
             LOG_NS("took", (int64_t)((a->facts->now_ms - b->began_ms) * NS_PER_MS)),
             LOG_BYTES("storage-version", b->version));
    histogram_observe(&a->stats.snapshots, HISTOGRAM_10MS_17, api_since_ns(a, c->started_ns));
    api_call_finish(c, RESULT_OK);
}

static void begin_sending(struct call *c)
{
    struct backup *b = c->backup;
    struct api *a = api_of(c);

    b->has_begun = true;
    b->total = b->left = image_bytes(b->image);
    b->hash = hash_new(HASH_SHA256);
    b->began_ms = a->facts->now_ms;
    log_info(a->o.logger, "sending database snapshot to client", LOG_U64("total-bytes", b->total),
             LOG_BYTES("storage-version", b->version));
}

static void finish_failed(struct call *c)
{
    const char *text = arena_printf(&c->arena, "etcdserver: snapshot ended early: %s",
                                    image_failure(c->backup->image));

    api_call_finish_text(c, RPC_UNKNOWN, text);
}

/* One message. False: there is nothing to be sent, or nothing may be, for now. */
static bool send_next(struct call *c)
{
    struct backup *b = c->backup;

    if (image_state(b->image) != IMAGE_READY || c->credit <= 0)
        return false;
    if (!b->has_begun)
        begin_sending(c);
    return b->left == 0 || take_piece(c);
}

/* The image says when there is more, the stream when there is credit. */
static bool send_step(struct call *c, unsigned steps)
{
    struct backup *b = c->backup;
    unsigned used = 0;

    while (used < steps && send_next(c)) {
        used += API_SNAPSHOT_BLOB_STEPS;
        if (b->left == 0 && c->credit > 0) {
            send_hash(c);
            return true;
        }
    }
    if (image_state(b->image) == IMAGE_FAILED) {
        finish_failed(c);
        return true;
    }
    if (used >= steps)
        return false;
    api_call_stop_working(c);
    return true;
}

static void go_on_later(void *context)
{
    struct call *c = context;

    api_call_step_later(c, send_step);
}

static void sent(struct call *c, size_t bytes)
{
    c->credit += (int64_t)bytes;
    if (c->backup && c->backup->image && c->credit > 0)
        go_on_later(c);
}

/* --- the call --- */

static void run_snapshot(struct call *c, const void *request)
{
    (void)request;
    c->backup = arena_new(&c->arena, struct backup);
    c->backup->version = api_storage_version(api_of(c), &c->arena);
    api_call_image(c);
}

static void cut(struct call *c, struct image *image)
{
    c->backup->image = image;
    image_set_on_more(image, go_on_later, c);
    go_on_later(c);
}

static void released(struct call *c)
{
    struct backup *b = c->backup;

    if (!b)
        return;
    image_close(b->image);
    hash_free(b->hash);
    buf_free(&b->piece);
}

const struct handler api_maintenance_snapshot = {
    .schema = &pb_snapshot_request_schema,
    .for_learners = true,
    .run = run_snapshot,
    .cut = cut,
    .sent = sent,
    .released = released,
};
