#include "backend/backend_int.h"

#include "base/assert.h"

#include <stdio.h>

/* What an item costs apart from its bytes, so that a slice of tiny ones is bounded too. */
enum { ITEM_BYTES = 64 };

bool backend_defrag_start(struct backend *b, struct backend_defrag *d)
{
    assert(b->workers);
    assert(!b->failed);

    if (b->defrag.request)
        return false;
    assert(!b->defrag.copy);
    assert(d->on_done);
    b->defrag.request = d;
    b->defrag.bucket = 0;
    b->defrag.adopted = false;
    b->cancels_defrag = false;
    b->defrag.err = ERR_OK;
    buf_clear(&b->defrag.key);
    d->before = d->after = b->sizes;
    backend_pump(b);
    return true;
}

void backend_defrag_cancel(struct backend *b)
{
    b->cancels_defrag = true;
}

void defrag_drop(struct backend *b)
{
    struct defrag *d = &b->defrag;

    if (d->copy)
        d->copy->ops->close(d->copy);
    d->copy = NULL;
    buf_free(&d->key);
}

void defrag_give_up(struct backend *b, enum err e)
{
    assert(e != ERR_OK);

    defrag_drop(b);
    b->defrag.err = e;
}

/* --- the copy, slice by slice ------------------------------------------------------------- */

/* Copies from the cursor until the bucket ends (ERR_END) or the slice is full (ERR_OK). */
static enum err copy_items(struct defrag *d, struct store *live, struct store_cursor *c,
                           size_t *bytes_left)
{
    while (*bytes_left > 0) {
        struct bytes key, value;
        enum err e = live->ops->cursor_next(c, &key, &value);
        if (e == ERR_OK && bytes_equal(key, buf_bytes(&d->key)))
            continue; /* where the last slice ended */
        if (e == ERR_OK)
            e = d->copy->ops->put(d->copy, d->bucket, key, value);
        if (e != ERR_OK)
            return e;
        buf_clear(&d->key);
        buf_append(&d->key, key);
        size_t cost = ITEM_BYTES + key.len + value.len;
        *bytes_left -= cost < *bytes_left ? cost : *bytes_left;
    }
    return ERR_OK;
}

/* Into the transaction that is open on the copy. ERR_END when the last bucket is done. */
static enum err copy_slice(struct defrag *d, struct store *live, struct store_reader *reader,
                           size_t bytes_left)
{
    for (;;) {
        struct store_cursor *c = live->ops->cursor_open(reader, d->bucket, buf_bytes(&d->key));
        enum err e = copy_items(d, live, c, &bytes_left);
        live->ops->cursor_close(c);
        if (e != ERR_END)
            return e;
        if (d->bucket == BUCKET_COUNT - 1)
            return ERR_END;
        d->bucket++;
        buf_clear(&d->key);
    }
}

/* The reader lives for one slice only, so the live store keeps reusing its pages. */
static enum err read_slice(struct backend *b)
{
    struct store *live = b->store;
    struct store_reader *reader;

    pthread_mutex_lock(&b->lock);
    enum err e = live->ops->reader_open(live, &reader);
    pthread_mutex_unlock(&b->lock);
    if (e != ERR_OK)
        return e;
    e = copy_slice(&b->defrag, live, reader, b->slice_bytes);
    if (e == ERR_CORRUPT)
        snprintf(live->failure, sizeof(live->failure), "%s", reader->damage);
    pthread_mutex_lock(&b->lock);
    live->ops->reader_close(reader);
    pthread_mutex_unlock(&b->lock);
    return e;
}

/* ERR_END: everything is in the copy, and durable. */
static enum err next_slice(struct backend *b)
{
    struct defrag *d = &b->defrag;

    enum err e = d->copy ? ERR_OK : b->store->ops->copy_open(b->store, &d->copy);
    if (e != ERR_OK)
        return e;
    d->copy->dirty_bytes_max = b->store->dirty_bytes_max;
    e = d->copy->ops->begin(d->copy);
    if (e != ERR_OK)
        return e;
    e = read_slice(b);
    if (e != ERR_OK && e != ERR_END) {
        d->copy->ops->abort(d->copy);
        return e;
    }
    enum err committed = d->copy->ops->commit(d->copy);
    return committed == ERR_OK ? e : committed;
}

/* --- the swap ----------------------------------------------------------------------------- */

/* New views look into the copy from here on; the old store goes with the last that does not. */
static void install(struct backend *b)
{
    struct store *old = b->store;

    b->defrag.copy->refs = 1;
    pthread_mutex_lock(&b->lock);
    b->store = b->defrag.copy;
    bool unused = --old->refs == 0;
    pthread_mutex_unlock(&b->lock);
    b->defrag.copy = NULL;
    b->defrag.adopted = true;
    buf_free(&b->defrag.key);
    if (unused)
        old->ops->close(old);
}

enum err defrag_slice(struct backend *b)
{
    bool certain = true;
    enum err e = b->defrag.is_given_up ? ERR_CANCELED : next_slice(b);

    if (e == ERR_OK)
        return ERR_OK;
    if (e == ERR_END) {
        e = b->store->ops->copy_adopt(b->store, b->defrag.copy, &certain);
        if (e == ERR_OK) {
            install(b);
            return ERR_OK;
        }
    }
    defrag_give_up(b, e);
    /* Damage that was found in the live store, or two files of which either may survive: the
     * process cannot go on as if nothing had happened. */
    return e == ERR_CORRUPT || !certain ? e : ERR_OK;
}

/* --- commits meanwhile -------------------------------------------------------------------- */

bool defrag_has(const struct defrag *d, enum bucket bucket, struct bytes key)
{
    if (bucket != d->bucket)
        return bucket < d->bucket;
    return bytes_compare(key, buf_bytes(&d->key)) <= 0;
}

void defrag_follow(struct backend *b, const struct batch *batch)
{
    if (!b->defrag.copy)
        return;
    enum err e = batch_commit_to(batch, b->defrag.copy, &b->defrag);
    if (e != ERR_OK)
        defrag_give_up(b, e); /* the live store has the batch: only the copy is lost */
}

void defrag_settle(struct backend *b)
{
    struct defrag *d = &b->defrag;
    struct backend_defrag *request = d->request;

    if (!request || (!d->adopted && d->err == ERR_OK))
        return;
    d->request = NULL;
    request->after = b->sizes;
    request->on_done(request, d->err);
}
