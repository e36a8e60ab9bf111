#include "rpc/message.h"

#include "base/assert.h"
#include "base/mem.h"

/* --- in --- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct bytes take(struct bytes *in, size_t count)
{
    struct bytes taken = bytes_of(in->at, count);

    if (count > 0)
        *in = bytes_of(in->at + count, in->len - count);
    return taken;
}

enum message_step message_read(struct message_reader *r, struct bytes *in)
{
    if (r->prefix_len < MESSAGE_PREFIX_BYTES) {
        size_t count = least(in->len, (size_t)(MESSAGE_PREFIX_BYTES - r->prefix_len));
        if (count == 0)
            return MESSAGE_MORE;
        memcpy(r->prefix + r->prefix_len, take(in, count).at, count);
        r->prefix_len = (uint8_t)(r->prefix_len + count);
        if (r->prefix_len < MESSAGE_PREFIX_BYTES)
            return MESSAGE_MORE;
    }
    if (!r->announced) {
        r->announced = true;
        return MESSAGE_ANNOUNCED;
    }
    size_t length = message_length(r);
    assert(r->content.len <= length);
    if (r->content.len == 0)
        buf_reserve(&r->content, least(length, RPC_RESERVE_BYTES_MAX));
    buf_append(&r->content, take(in, least(in->len, length - r->content.len)));
    return r->content.len == length ? MESSAGE_WHOLE : MESSAGE_MORE;
}

void message_next(struct message_reader *r)
{
    r->prefix_len = 0;
    r->announced = false;
    if (r->content.cap > RPC_SPARE_BUFFER_BYTES_MAX)
        buf_free(&r->content);
    buf_clear(&r->content);
}

void message_reader_free(struct message_reader *r)
{
    buf_free(&r->content);
    *r = (struct message_reader){0};
}

/* --- out --- */

/* The parts of a message in the order they leave: prefix, first, then rest or body. */
struct item {
    struct list link;
    struct item *next_spare;
    struct buf first;
    struct blob *rest; /* or NULL */
    size_t fixed;      /* bytes of prefix, first and rest */
    uint64_t ungiven;  /* of the body */
    struct buf chunk;  /* what was given of it last */
    size_t sent;       /* of what is fixed, or, when that is gone, of the chunk */
    size_t cost;       /* that whoever queued it has counted */
    uint8_t prefix[MESSAGE_PREFIX_BYTES];
};

static void put_prefix(uint8_t *at, bool compressed, uint64_t length)
{
    assert(length <= UINT32_MAX);

    at[0] = compressed;
    at[1] = (uint8_t)(length >> 24);
    at[2] = (uint8_t)(length >> 16);
    at[3] = (uint8_t)(length >> 8);
    at[4] = (uint8_t)length;
}

static struct item *take_spare(struct message_pool *p)
{
    struct item *i = p->items;

    p->items = i->next_spare;
    p->item_count--;
    *i = (struct item){0};
    return i;
}

static struct item *item_new(struct message_queue *q, struct buf *first, uint64_t length,
                             bool compressed)
{
    struct item *i = q->pool->items ? take_spare(q->pool) : mem_new(struct item);

    if (first) {
        i->first = *first;
        *first = (struct buf){0};
    }
    put_prefix(i->prefix, compressed, length);
    list_init(&i->link);
    return i;
}

/* Bodies are not counted: they are elsewhere until they are given. */
static size_t item_held(const struct item *i)
{
    return RPC_MESSAGE_OVERHEAD_BYTES + i->fixed;
}

static void item_free(struct message_queue *q, struct item *i)
{
    q->held -= item_held(i);
    q->held -= i->chunk.len;
    list_remove(&i->link);
    blob_unref(i->rest);
    buf_pool_give(&q->pool->bufs, &i->first);
    if (i->chunk.at)
        buf_free(&i->chunk);
    if (q->pool->item_count == RPC_SPARE_ITEMS_MAX) {
        mem_free(i);
        return;
    }
    i->next_spare = q->pool->items;
    q->pool->items = i;
    q->pool->item_count++;
}

static struct item *item_of(struct list *link)
{
    return container_of(link, struct item, link);
}

static void queue_item(struct message_queue *q, struct item *i, uint64_t length)
{
    list_push_back(&q->items, &i->link);
    q->left += MESSAGE_PREFIX_BYTES + length;
    q->held += item_held(i);
}

void message_pool_free(struct message_pool *p)
{
    buf_pool_free(&p->bufs);
    while (p->items)
        mem_free(take_spare(p));
}

void message_queue_init(struct message_queue *q, struct message_pool *pool)
{
    *q = (struct message_queue){.pool = pool};
    list_init(&q->items);
}

void message_queue_clear(struct message_queue *q)
{
    while (!list_empty(&q->items))
        item_free(q, item_of(q->items.next));
    q->left = 0;
    q->within_message = false;
    assert(q->held == 0);
}

void message_queue_add(struct message_queue *q, struct buf *first, struct blob *rest)
{
    size_t length = first->len + (rest ? blob_bytes(rest).len : 0);
    struct item *i = item_new(q, first, length, false);

    i->rest = rest;
    i->fixed = MESSAGE_PREFIX_BYTES + length;
    i->cost = rpc_message_cost(length);
    queue_item(q, i, length);
}

void message_queue_add_packed(struct message_queue *q, struct buf *packed, size_t plain_len)
{
    size_t length = packed->len;
    struct item *i = item_new(q, packed, length, true);

    i->fixed = MESSAGE_PREFIX_BYTES + length;
    i->cost = rpc_message_cost(plain_len);
    queue_item(q, i, length);
}

void message_queue_add_body(struct message_queue *q, uint64_t total_bytes)
{
    struct item *i = item_new(q, NULL, total_bytes, false);

    i->fixed = MESSAGE_PREFIX_BYTES;
    i->ungiven = total_bytes;
    i->cost = rpc_message_cost(0);
    queue_item(q, i, total_bytes);
}

static struct item *incomplete(const struct message_queue *q)
{
    LIST_FOREACH (link, &q->items) {
        if (item_of(link)->ungiven > 0)
            return item_of(link);
    }
    return NULL;
}

uint64_t message_queue_ungiven(const struct message_queue *q)
{
    const struct item *i = incomplete(q);

    return i ? i->ungiven : 0;
}

void message_queue_give(struct message_queue *q, struct buf *chunk)
{
    struct item *i = incomplete(q);

    assert(i && chunk->len <= i->ungiven);
    i->ungiven -= chunk->len;
    q->held += chunk->len;
    if (i->chunk.len == 0) {
        buf_free(&i->chunk);
        i->chunk = *chunk;
        *chunk = (struct buf){0};
    } else {
        buf_append(&i->chunk, buf_bytes(chunk));
        buf_free(chunk);
    }
}

size_t message_queue_ready(const struct message_queue *q, size_t max)
{
    size_t ready = 0;

    LIST_FOREACH (link, &q->items) {
        const struct item *i = item_of(link);

        ready += i->fixed + i->chunk.len - i->sent;
        if (ready >= max || i->ungiven > 0)
            break;
    }
    return least(ready, max);
}

/* Moves up to `count` bytes of one part; `at` is where the part begins in the item. */
static size_t move_part(struct item *i, size_t at, struct bytes part, size_t count, struct buf *out)
{
    if (i->sent < at || i->sent >= at + part.len)
        return 0;
    size_t from = i->sent - at;
    size_t moved = least(count, part.len - from);
    buf_append(out, bytes_of(part.at + from, moved));
    i->sent += moved;
    return moved;
}

static size_t move_item(struct message_queue *q, struct item *i, size_t count, struct buf *out)
{
    size_t moved = move_part(i, 0, bytes_of(i->prefix, MESSAGE_PREFIX_BYTES), count, out);

    moved += move_part(i, MESSAGE_PREFIX_BYTES, buf_bytes(&i->first), count - moved, out);
    if (i->rest)
        moved += move_part(i, MESSAGE_PREFIX_BYTES + i->first.len, blob_bytes(i->rest),
                           count - moved, out);
    if (i->chunk.len == 0)
        return moved;
    moved += move_part(i, i->fixed, buf_bytes(&i->chunk), count - moved, out);
    if (i->sent == i->fixed + i->chunk.len) {
        q->held -= i->chunk.len;
        i->sent = i->fixed;
        buf_free(&i->chunk);
    }
    return moved;
}

void message_queue_move(struct message_queue *q, size_t count, struct buf *out)
{
    assert(count <= q->left);

    q->left -= count;
    while (count > 0) {
        struct item *i = item_of(q->items.next);

        assert(!list_empty(&q->items));
        size_t moved = move_item(q, i, count, out);
        assert(moved > 0);
        count -= moved;
        q->within_message = true;
        if (i->sent == i->fixed && i->ungiven == 0 && i->chunk.len == 0) {
            q->left_cost += i->cost;
            item_free(q, i);
            q->within_message = false;
        }
    }
    assert((q->left == 0) == list_empty(&q->items));
}

void message_queue_check(const struct message_queue *q)
{
    size_t held = 0;
    uint64_t left = 0;

    LIST_FOREACH (link, &q->items) {
        const struct item *i = item_of(link);

        assert(i->fixed == MESSAGE_PREFIX_BYTES + i->first.len + blob_bytes(i->rest).len);
        held += item_held(i) + i->chunk.len;
        left += i->fixed + i->chunk.len + i->ungiven - i->sent;
    }
    assert(held == q->held);
    assert(left == q->left);
    assert(!q->within_message || !list_empty(&q->items));
}
