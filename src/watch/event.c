#include "watch/watch_int.h"

#include "base/assert.h"
#include "pb/wire.h"

/*
 * One change, as a field of WatchResponse:
 *
 *     events 11 | length | type 1: DELETE | kv 2: length, KeyValue | prev_kv 3: length, KeyValue
 *
 * A PUT leaves the type out and has the KeyValue as it is stored. What is stored of a tombstone is
 * the key alone; watchers see the revision of the deletion with it.
 */
enum {
    TAG_EVENTS = PB_TAG_BYTES(11),
    TAG_TYPE = PB_TAG_VARINT(1),
    TAG_KV = PB_TAG_BYTES(2),
    TAG_PREV_KV = PB_TAG_BYTES(3),
    TAG_KEY = PB_TAG_BYTES(1),
    TAG_MOD_REVISION = PB_TAG_VARINT(3),
};
static_assert(TAG_EVENTS < 0x80, "every tag here is one byte");

size_t watch_event_prev_size(struct mvcc *m, uint8_t wants, const struct mvcc_change *change,
                             bool kept)
{
    if (!(wants & WANTS_PREV) || (change->creates && !change->tombstone))
        return 0;
    if (!kept && change->at.main - 1 < mvcc_compact_revision(m))
        return 0; /* the floor may be there for others, and go before a long one is read */
    return mvcc_length_before(m, change->key, change->at.main);
}

static size_t kv_size(const struct mvcc_change *change)
{
    if (!change->tombstone)
        return change->kv.len;
    return 1 + pb_bytes_size(change->key.len) + 1 + pb_varint_size((uint64_t)change->at.main);
}

static size_t body_size(const struct mvcc_change *change, size_t prev_size)
{
    size_t size = change->tombstone ? 2 : 0;

    size += 1 + pb_bytes_size(kv_size(change));
    if (prev_size > 0)
        size += 1 + pb_bytes_size(prev_size);
    return size;
}

size_t watch_event_size(const struct mvcc_change *change, size_t prev_size)
{
    return 1 + pb_bytes_size(body_size(change, prev_size));
}

static void append_varint(struct buf *out, uint64_t value)
{
    size_t size = pb_varint_size(value);

    pb_put_varint(buf_extend(out, size) + size, value);
}

static void append_bytes(struct buf *out, struct bytes what)
{
    append_varint(out, what.len);
    buf_append(out, what);
}

static void append_prev(struct mvcc *m, const struct mvcc_change *change, size_t size,
                        struct buf *out)
{
    buf_append_byte(out, TAG_PREV_KV);
    append_varint(out, size);
    size_t end = out->len + size;
    bool found = mvcc_read_before(m, change->key, change->at.main, out);
    assert(found);
    assert(out->len <= end);
    /* In a damaged store, of which mvcc has told its owner, something is missing. The member ends
     * with this turn; until then at least the lengths are right. */
    size_t missing = end - out->len;
    if (missing > 0)
        memset(buf_extend(out, missing), 0, missing);
}

/* All that stands in front of the KeyValue as it is stored; a tombstone's is made here. */
static void append_front(const struct mvcc_change *change, size_t prev_size, struct buf *out)
{
    buf_append_byte(out, TAG_EVENTS);
    append_varint(out, body_size(change, prev_size));
    if (change->tombstone) {
        buf_append_byte(out, TAG_TYPE);
        buf_append_byte(out, PB_EVENT_DELETE);
    }
    buf_append_byte(out, TAG_KV);
    append_varint(out, kv_size(change));
    if (change->tombstone) {
        buf_append_byte(out, TAG_KEY);
        append_bytes(out, change->key);
        buf_append_byte(out, TAG_MOD_REVISION);
        append_varint(out, (uint64_t)change->at.main);
    }
}

void watch_event_append(struct mvcc *m, const struct mvcc_change *change, size_t prev_size,
                        struct buf *out)
{
    size_t start = out->len;

    append_front(change, prev_size, out);
    if (!change->tombstone)
        buf_append(out, change->kv);
    if (prev_size > 0)
        append_prev(m, change, prev_size, out);

    assert(out->len - start == watch_event_size(change, prev_size));
}

struct part {
    size_t skip, left;
    struct buf *out;
};

static void part_add(struct part *p, struct bytes what)
{
    size_t skip = p->skip < what.len ? p->skip : what.len;
    size_t len = what.len - skip < p->left ? what.len - skip : p->left;

    buf_append(p->out, bytes_of(what.at + skip, len));
    p->skip -= skip;
    p->left -= len;
}

void watch_event_append_part(struct mvcc *m, const struct mvcc_change *change, size_t prev_size,
                             size_t from, size_t len, struct buf *out)
{
    struct part p = {.skip = from, .left = len, .out = out};
    struct buf text = {0};

    append_front(change, prev_size, &text);
    part_add(&p, buf_bytes(&text));
    if (!change->tombstone)
        part_add(&p, change->kv);
    if (prev_size > 0 && p.left > 0) {
        buf_clear(&text);
        append_prev(m, change, prev_size, &text);
        part_add(&p, buf_bytes(&text));
    }
    buf_free(&text);
    assert(p.left == 0);
}
