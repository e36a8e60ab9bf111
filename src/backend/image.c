#include "backend/backend_int.h"

#include "base/assert.h"

#include <stdio.h>

static enum err open_image(const struct backend_options *o, bool fresh, char *why,
                           struct store **out)
{
    return o->memory ? memory_image_open(o->memory, fresh, why, out)
                     : lmdb_image_open(o->disk, o->dir, fresh, why, out);
}

/* Nobody's thread yet: whoever builds it may be a worker, from which no job can be submitted. */
static struct backend *image_backend(const struct backend_options *o, struct store *store)
{
    struct backend *b = backend_new(o, store);

    b->workers = NULL;
    return b;
}

enum err backend_image_create(const struct backend_options *options, struct backend **out)
{
    char why[FAILURE_TEXT_BYTES] = "";
    struct store *store;
    enum err e = open_image(options, true, why, &store);

    if (e == ERR_OK)
        *out = image_backend(options, store);
    else if (options->why)
        buf_append_str(options->why, why);
    return e;
}

/* --- its content --- */

/* The position is in bucket meta, which is the last and must not be begun in a batch before the
 * last: as long as an image has none, a crash leaves it to nobody. */
static_assert(BUCKET_META == BUCKET_COUNT - 1, "meta comes last");

static enum err copy_bucket(struct backend *image, struct backend_view *from, enum bucket bucket)
{
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    backend_cursor_open(from, bucket, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK) {
        backend_put(image, bucket, key, value);
        if (bucket != BUCKET_META && batch_bytes(image->open) >= image->slice_bytes &&
            (e = backend_commit_now(image)) != ERR_OK)
            break;
    }
    backend_cursor_close(&c);
    return e == ERR_END ? ERR_OK : e;
}

enum err backend_image_copy(struct backend *image, struct backend_view *from)
{
    assert(image->applied.index == 0);
    assert(!image->workers);

    enum err e = ERR_OK;
    for (int bucket = 0; bucket < BUCKET_COUNT && e == ERR_OK; bucket++)
        e = copy_bucket(image, from, (enum bucket)bucket);
    if (e == ERR_OK)
        e = backend_commit_now(image);
    return e == ERR_OK ? backend_image_filled(image) : e;
}

enum err backend_image_filled(struct backend *image)
{
    assert(image->applied.index == 0);
    assert(!image->workers);
    assert(!image->open->has_writes);

    return backend_read_position(image, image->store->failure);
}

/* --- taking the name --- */

void backend_install_start(struct backend *b, struct backend *image, struct backend_install *i)
{
    assert(b->workers);
    assert(!b->failed);
    assert(!b->install);
    assert(!image->workers);
    assert(image->applied.index > 0);                     /* it is whole, */
    assert(image->durable.index == image->applied.index); /* and all of it on disk */
    assert(!image->open->has_writes);

    i->image = image;
    b->install = i;
    backend_pump(b);
}

/* An error after which either of the two may have the name is no want of space, whatever it was: it
 * must not be tried again as if nothing had happened. */
static enum err rename_image(struct backend *b, struct store *image)
{
    bool certain;
    enum err e = b->store->ops->copy_adopt(b->store, image, &certain);

    return e == ERR_OK || certain ? e : ERR_SYNC;
}

/*
 * As a job of the old store, so that none of its commits or slices is under way: a copy that
 * defragmentation has made of the old store would otherwise take the name after us, and be the
 * store again.
 */
enum err image_adopt(struct backend *b)
{
    defrag_drop(b); /* whether one was asked for is the core thread's: settle_job */
    return rename_image(b, b->install->image->store);
}

void image_adopted(struct backend *b)
{
    struct backend_install *i = b->install;

    b->install = NULL;
    b->failed = b->replaced = true;
    b->lacks_space = false;
    i->image->workers = b->workers;
    i->on_done(i);
}

/* --- after a crash --- */

/* The image becomes b's store, if it is whole and ends where the log says. */
static enum err take_image(struct backend *b, const struct backend_options *o, struct store *store,
                           char *why)
{
    struct backend *image = image_backend(o, store);
    enum err e = backend_read_position(image, why);

    if (e == ERR_OK && image->applied.index == o->log_index) {
        e = rename_image(b, image->store);
        if (e != ERR_OK)
            snprintf(why, FAILURE_TEXT_BYTES, "%s", b->store->failure);
    }
    if (e == ERR_OK && image->applied.index == o->log_index) {
        struct store *old = b->store;
        b->store = image->store;
        b->sizes = image->sizes;
        image->store = old;
        e = backend_read_position(b, why);
    }
    backend_close(image);
    return e;
}

enum err backend_image_position(const struct backend_options *options, struct backend_position *out)
{
    struct store *store;
    char why[FAILURE_TEXT_BYTES] = "";
    enum err e = open_image(options, false, why, &store);

    *out = (struct backend_position){0};
    if (e == ERR_OK) {
        struct backend *image = image_backend(options, store);
        e = backend_read_position(image, why);
        *out = image->applied;
        backend_close(image);
    }
    if (e != ERR_OK && options->why)
        buf_append_str(options->why, why);
    return e;
}

static enum err remove_image(const struct backend_options *o, char *why)
{
    if (!o->memory)
        return lmdb_image_remove(o->disk, o->dir, why);
    memory_image_remove(o->memory);
    return ERR_OK;
}

enum err backend_image_remove(const struct backend_options *options)
{
    char why[FAILURE_TEXT_BYTES] = "";
    enum err e = remove_image(options, why);

    if (e != ERR_OK && options->why)
        buf_append_str(options->why, why);
    return e;
}

enum err image_settle(struct backend *b, const struct backend_options *options, char *why)
{
    struct store *store;

    if (b->applied.index >= options->log_index)
        return remove_image(options, why);
    enum err e = open_image(options, false, why, &store);
    if (e == ERR_NOT_FOUND)
        return ERR_OK; /* whoever knows the log has to say something about that */
    return e == ERR_OK ? take_image(b, options, store, why) : e;
}
