#include "backend/backend_int.h"

#include "base/assert.h"

static void add_layer(struct backend_view *v, struct batch *batch, uint64_t limit)
{
    v->layers[v->layer_count].batch = batch_ref(batch);
    v->layers[v->layer_count].limit = limit;
    v->layer_count++;
}

/* Under the lock: a reader of the pages, and the frozen batch that they may or may not hold yet. */
static void take_committed(struct backend *b, struct backend_view *v)
{
    v->backend = b;
    v->store = b->store;
    if (b->store->ops->reader_open(b->store, &v->reader) != ERR_OK)
        fatal("cannot read the page store: %s", b->store->failure);
    b->store->refs++;
    if (b->frozen)
        add_layer(v, b->frozen, UINT64_MAX);
}

void backend_view_open(struct backend *b, struct backend_view *v)
{
    assert(b->core_views < BACKEND_CORE_VIEWS_MAX);

    v->layer_count = 0;
    v->on_worker = false;
    backend_note_position(b);
    if (b->open->has_writes)
        add_layer(v, b->open, b->stamp);
    b->stamp++; /* later writes are not this view's */
    b->core_views++;
    pthread_mutex_lock(&b->lock);
    take_committed(b, v);
    pthread_mutex_unlock(&b->lock);
}

void backend_view_open_on_worker(struct backend *b, struct backend_view *v)
{
    v->layer_count = 0; /* without the open batch, which the core thread goes on writing to */
    v->on_worker = true;
    pthread_mutex_lock(&b->lock);
    assert(b->worker_views < BACKEND_WORKER_VIEWS_MAX);
    b->worker_views++;
    take_committed(b, v);
    pthread_mutex_unlock(&b->lock);
}

/* A store that has been replaced ends with its last reader. A worker closes it on the spot; the
 * core thread, which must not wait for the unmapping of a gigabyte, leaves it to the next job. */
static void end_store(struct backend_view *v)
{
    if (v->on_worker) {
        v->store->ops->close(v->store);
        return;
    }
    v->store->next_unused = v->backend->unused_stores;
    v->backend->unused_stores = v->store;
}

static void drop_layers(struct backend_view *v)
{
    for (unsigned i = 0; i < v->layer_count; i++) {
        struct batch *batch = v->layers[i].batch;
        if (!v->on_worker)
            backend_drop_batch(v->backend, batch);
        else if (batch_unref(batch))
            batch_free(batch);
    }
}

void backend_view_close(struct backend_view *v)
{
    struct backend *b = v->backend;

    drop_layers(v);
    pthread_mutex_lock(&b->lock);
    v->store->ops->reader_close(v->reader);
    bool last = --v->store->refs == 0;
    b->worker_views -= v->on_worker;
    pthread_mutex_unlock(&b->lock);
    if (last)
        end_store(v);
    if (!v->on_worker) {
        assert(b->core_views > 0);
        b->core_views--;
        if (b->unused_batches || b->unused_stores)
            backend_pump(b);
    }
    v->backend = NULL;
}

void backend_read_randomly(struct backend *b, bool randomly)
{
    pthread_mutex_lock(&b->lock);
    b->store->ops->read_randomly(b->store, randomly);
    pthread_mutex_unlock(&b->lock);
}

/* What the newest batch says that knows the key; NULL if none does. */
static const struct batch_version *find_in_batches(const struct backend_view *v, enum bucket bucket,
                                                   struct bytes key)
{
    const struct batch_version *found = NULL;

    assert(bucket < BUCKET_COUNT);
    assert(key.len > 0);
    for (unsigned i = 0; i < v->layer_count && !found; i++)
        found = batch_get(v->layers[i].batch, bucket, key, v->layers[i].limit);
    return found;
}

bool backend_is_in_batch(const struct backend *b, enum bucket bucket, struct bytes key)
{
    return batch_get(b->open, bucket, key, UINT64_MAX) ||
           (b->frozen && batch_get(b->frozen, bucket, key, UINT64_MAX));
}

enum err backend_get(struct backend_view *v, enum bucket bucket, struct bytes key,
                     struct bytes *value)
{
    const struct batch_version *found = find_in_batches(v, bucket, key);

    if (!found)
        return v->store->ops->get(v->reader, bucket, key, value);
    if (found->deleted)
        return ERR_NOT_FOUND;
    *value = batch_version_value(found);
    return ERR_OK;
}

enum err backend_get_part(struct backend_view *v, enum bucket bucket, struct bytes key, size_t from,
                          size_t len, struct bytes *part)
{
    const struct batch_version *found = find_in_batches(v, bucket, key);

    if (!found)
        return v->store->ops->get_part(v->reader, bucket, key, from, len, part);
    if (found->deleted)
        return ERR_NOT_FOUND;
    return store_part_of(batch_version_value(found), from, len, part);
}

const char *backend_view_damage(const struct backend_view *v)
{
    return v->reader->damage;
}

/* --- cursors ------------------------------------------------------------------------------ */

/* From here, the first node of the layer that its limit shows. */
static const struct batch_node *visible(const struct backend_cursor *c, unsigned layer,
                                        const struct batch_node *node)
{
    while (node && !batch_version_at(node, c->view->layers[layer].limit))
        node = node->next[0];
    return node;
}

static void advance_stored(struct backend_cursor *c)
{
    c->stored_state = c->view->store->ops->cursor_next(c->stored, &c->stored_key, &c->stored_value);
}

void backend_cursor_open(struct backend_view *v, enum bucket bucket, struct bytes from,
                         struct backend_cursor *c)
{
    assert(bucket < BUCKET_COUNT);

    c->view = v;
    c->bucket = bucket;
    for (unsigned i = 0; i < v->layer_count; i++)
        c->at[i] = visible(c, i, batch_seek(v->layers[i].batch, bucket, from));
    c->stored = v->store->ops->cursor_open(v->reader, bucket, from);
    advance_stored(c);
}

void backend_cursor_close(struct backend_cursor *c)
{
    c->view->store->ops->cursor_close(c->stored);
    c->stored = NULL;
}

/* The layer whose next key is the smallest, the newest of equals, or NULL behind the last. */
static const struct batch_node *smallest(const struct backend_cursor *c, unsigned *layer)
{
    const struct batch_node *best = NULL;

    for (unsigned i = 0; i < c->view->layer_count; i++)
        if (c->at[i] &&
            (!best || bytes_compare(batch_node_key(c->at[i]), batch_node_key(best)) < 0)) {
            best = c->at[i];
            *layer = i;
        }
    return best;
}

/* Moves whatever stands at this key behind it. */
static void pass(struct backend_cursor *c, struct bytes key)
{
    for (unsigned i = 0; i < c->view->layer_count; i++)
        if (c->at[i] && bytes_equal(batch_node_key(c->at[i]), key))
            c->at[i] = visible(c, i, c->at[i]->next[0]);
    if (c->stored_state == ERR_OK && bytes_equal(c->stored_key, key))
        advance_stored(c);
}

enum err backend_cursor_next(struct backend_cursor *c, struct bytes *key, struct bytes *value)
{
    for (;;) {
        if (c->stored_state != ERR_OK && c->stored_state != ERR_END)
            return c->stored_state;
        unsigned layer = 0;
        const struct batch_node *node = smallest(c, &layer);
        if (!node && c->stored_state == ERR_END)
            return ERR_END;
        if (!node ||
            (c->stored_state == ERR_OK && bytes_compare(c->stored_key, batch_node_key(node)) < 0)) {
            *key = c->stored_key;
            *value = c->stored_value;
            advance_stored(c);
            return ERR_OK;
        }
        const struct batch_version *v = batch_version_at(node, c->view->layers[layer].limit);
        *key = batch_node_key(node);
        *value = batch_version_value(v);
        pass(c, *key); /* also what older layers and the pages have there: it is hidden */
        if (!v->deleted)
            return ERR_OK;
    }
}
