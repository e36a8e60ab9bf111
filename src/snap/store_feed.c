#include "snap/store_feed.h"

#include "base/assert.h"
#include "base/list.h"

enum { REVISION_BYTES_MIN = 17 }; /* main u64be, '_', sub u64be; a tombstone has one more */

/* ---- Copies ---- */

/* A copy is entries, back to back, each behind its two lengths. */
struct copy_head {
    uint32_t key_bytes, value_bytes;
};

enum err store_feed_copy(struct backend_view *view, enum bucket bucket, struct buf *out)
{
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    backend_cursor_open(view, bucket, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK) {
        struct copy_head head = {(uint32_t)key.len, (uint32_t)value.len};
        buf_append(out, bytes_of(&head, sizeof(head)));
        buf_append(out, key);
        buf_append(out, value);
    }
    backend_cursor_close(&c);
    return e == ERR_END ? ERR_OK : e;
}

static enum err next_of_copy(struct store_feed *f, struct bytes *key, struct bytes *value)
{
    struct copy_head head;

    if (f->left.len == 0)
        return ERR_END;
    memcpy(&head, f->left.at, sizeof(head));
    const uint8_t *at = f->left.at + sizeof(head);
    *key = bytes_of(at, head.key_bytes);
    *value = bytes_of(at + head.key_bytes, head.value_bytes);
    at += head.key_bytes + (size_t)head.value_bytes;
    f->left = bytes_of(at, f->left.len - (size_t)(at - f->left.at));
    return ERR_OK;
}

enum err store_feed_check_finished(struct backend_view *view, struct bytes *name)
{
    struct bytes prefix = BYTES(BACKEND_UNFINISHED_PREFIX), value;
    struct backend_cursor c;

    backend_cursor_open(view, BUCKET_META, prefix, &c);
    enum err e = backend_cursor_next(&c, name, &value);
    backend_cursor_close(&c);
    if (e == ERR_OK)
        return bytes_starts_with(*name, prefix) ? ERR_BUSY : ERR_OK;
    return e == ERR_END ? ERR_OK : e;
}

/* ---- Slices ---- */

static bool is_copied(const struct store_feed *f)
{
    return f->copies && f->bucket != BUCKET_KEY;
}

static void close_cursor(struct store_feed *f)
{
    if (f->cursor_open)
        backend_cursor_close(&f->cursor);
    f->cursor_open = false;
}

void store_feed_begin(struct store_feed *f, struct backend_view *view)
{
    assert(!f->view);

    f->view = view;
}

void store_feed_end(struct store_feed *f)
{
    close_cursor(f);
    if (!is_copied(f))
        f->value = (struct bytes){0}; /* the view has lent it */
    f->view = NULL;
}

/* ---- What the writer asks ---- */

/* The writer's buckets are ours, in our order, which is that of their names. */
static enum err feed_rewind(struct bolt_feed *b, size_t bucket)
{
    struct store_feed *f = container_of(b, struct store_feed, bolt);

    assert(bucket < BUCKET_COUNT);
    close_cursor(f);
    f->bucket = (enum bucket)bucket;
    if (is_copied(f))
        f->left = buf_bytes(&f->copies[bucket]);
    buf_clear(&f->key);
    return ERR_OK;
}

/* Goes on behind the entry that was shown last, perhaps by an earlier slice. */
static enum err open_cursor(struct store_feed *f)
{
    struct bytes last = buf_bytes(&f->key), key, value;

    assert(f->view);
    backend_cursor_open(f->view, f->bucket, last, &f->cursor);
    f->cursor_open = true;
    if (last.len == 0)
        return ERR_OK;
    enum err e = backend_cursor_next(&f->cursor, &key, &value);
    if (e == ERR_END || (e == ERR_OK && !bytes_equal(key, last)))
        return ERR_CORRUPT; /* nothing that was there may be gone */
    return e;
}

static enum err next_of_view(struct store_feed *f, struct bytes *key, struct bytes *value)
{
    enum err e = f->cursor_open ? ERR_OK : open_cursor(f);

    return e == ERR_OK ? backend_cursor_next(&f->cursor, key, value) : e;
}

/* Is this an entry of `key` from after the cut? */
static enum err check_revision(const struct store_feed *f, struct bytes key)
{
    uint64_t main;

    if (f->bucket != BUCKET_KEY)
        return ERR_OK;
    if (key.len < REVISION_BYTES_MIN)
        return ERR_CORRUPT;
    memcpy(&main, key.at, sizeof(main));
    return __builtin_bswap64(main) > f->revision_max ? ERR_END : ERR_OK;
}

static enum err feed_next(struct bolt_feed *b, struct bolt_entry *out)
{
    struct store_feed *f = container_of(b, struct store_feed, bolt);
    struct bytes key = {0};
    enum err e = is_copied(f) ? next_of_copy(f, &key, &f->value) : next_of_view(f, &key, &f->value);

    if (e == ERR_OK)
        e = check_revision(f, key);
    if (e != ERR_OK)
        return e;
    buf_clear(&f->key);
    buf_append(&f->key, key);
    *out = (struct bolt_entry){.key = buf_bytes(&f->key), .value_bytes = (uint32_t)f->value.len};
    f->entries++;
    f->bytes += key.len + f->value.len;
    return ERR_OK;
}

/* Of one that an earlier slice was shown a part is fetched again; whole it was checked then. */
static enum err feed_read(struct bolt_feed *b, uint32_t offset, uint8_t *into, size_t size)
{
    struct store_feed *f = container_of(b, struct store_feed, bolt);
    struct bytes part;

    assert(size > 0);
    if (f->value.at) {
        assert(offset <= f->value.len);
        assert(size <= f->value.len - offset);
        memcpy(into, f->value.at + offset, size);
        return ERR_OK;
    }
    assert(f->view);
    enum err e = backend_get_part(f->view, f->bucket, buf_bytes(&f->key), offset, size, &part);
    if (e == ERR_OK)
        memcpy(into, part.at, size);
    return e == ERR_NOT_FOUND ? ERR_CORRUPT : e;
}

void store_feed_init(struct store_feed *f, const struct buf *copies, int64_t revision_max)
{
    *f = (struct store_feed){
        .bolt = {.rewind = feed_rewind, .next = feed_next, .read = feed_read},
        .copies = copies,
        .revision_max = (uint64_t)revision_max,
    };
    for (int i = 0; i < BUCKET_COUNT; i++)
        f->names[i] = bytes_of_str(bucket_name((enum bucket)i));
}

void store_feed_free(struct store_feed *f)
{
    store_feed_end(f);
    buf_free(&f->key);
}
