#include "backend/backend_int.h"

#include "backend/backend_memory.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"

#include <stdio.h>

/*
 * The pages are a batch of their own whose stamps count commits. A reader's limit is the commit it
 * began at, and what a commit writes carries the next stamp, so that nobody sees it, and a crash
 * does not keep it, until `committed` moves: the write of the new root.
 */
struct image {
    struct memory_disk *disk;
    struct batch *batch;
    uint64_t committed;
    unsigned refs;
    size_t writes;       /* since the batch was last made anew */
    uint64_t live_bytes; /* keys and values that are not deleted, those staged included */
    uint64_t file_bytes; /* the most that live_bytes has been: a file does not shrink */
};

enum {
    WRITES_KEPT_MIN = 4096, /* versions nobody can see any more are dropped past this many */
    PAGE_BYTES = 4096,      /* every key has one to itself, as it were */
};

struct memory_disk {
    struct image *image;
    struct image *beside; /* under the image's name; or NULL */
    struct rng rng;
    uint64_t calls, fail_at, crash_at; /* counted from the beginning */
    uint64_t space;                    /* by which files may grow; or MEMORY_DISK_NOT_FULL */
    struct spoiled {
        enum bucket bucket;
        struct buf key;   /* empty: no value is spoiled */
        struct buf value; /* as it is now: another one is in its place and well */
    } spoiled;
    bool dead;
    unsigned stores;
};

struct memory_store {
    struct store base;
    struct memory_disk *disk;
    struct image *image;
    bool writing;
};

struct memory_reader {
    struct store_reader base;
    const struct memory_disk *disk;
    struct batch *batch;
    uint64_t limit;
};

struct store_cursor {
    struct memory_reader *reader;
    enum bucket bucket;
    const struct batch_node *at;
};

/* --- the disk ----------------------------------------------------------------------------- */

static struct image *image_new(struct memory_disk *d)
{
    struct image *i = mem_new(struct image);

    i->disk = d;
    i->batch = batch_new();
    i->refs = 1;
    return i;
}

static void image_unref(struct image *i)
{
    if (--i->refs > 0)
        return;
    if (i->disk->space != MEMORY_DISK_NOT_FULL)
        i->disk->space += i->file_bytes;
    if (batch_unref(i->batch))
        batch_free(i->batch);
    mem_free(i);
}

/* Keeps what is committed and forgets the rest. Readers have their own hold on the old batch. */
static void image_renew(struct image *i)
{
    struct batch *old = i->batch;

    i->batch = batch_new();
    i->writes = 0;
    i->live_bytes = 0;
    for (int bucket = 0; bucket < BUCKET_COUNT; bucket++) {
        const struct batch_node *node = old->lists[bucket].first[0];
        for (; node; node = node->next[0]) {
            const struct batch_version *v = batch_version_at(node, i->committed);
            if (!v || v->deleted)
                continue;
            uint8_t *at = batch_put_space(i->batch, (enum bucket)bucket, batch_node_key(node),
                                          v->len, i->committed);
            memcpy(at, v->at, v->len);
            i->live_bytes += node->key_len + v->len;
        }
    }
    if (batch_unref(old))
        batch_free(old);
}

struct memory_disk *memory_disk_new(uint64_t seed)
{
    struct memory_disk *d = mem_new(struct memory_disk);

    d->image = image_new(d);
    d->space = MEMORY_DISK_NOT_FULL;
    rng_seed(&d->rng, seed);
    return d;
}

void memory_disk_free(struct memory_disk *d)
{
    if (!d)
        return;
    assert(d->stores == 0);
    image_unref(d->image);
    memory_image_remove(d);
    buf_free(&d->spoiled.key);
    buf_free(&d->spoiled.value);
    mem_free(d);
}

void memory_disk_fail_at(struct memory_disk *d, uint64_t nth)
{
    d->fail_at = nth ? d->calls + nth : 0;
}

void memory_disk_crash_at(struct memory_disk *d, uint64_t nth)
{
    d->crash_at = nth ? d->calls + nth : 0;
}

void memory_disk_crash(struct memory_disk *d)
{
    d->dead = true;
}

void memory_disk_restart(struct memory_disk *d)
{
    assert(d->stores == 0);

    d->dead = false;
    d->crash_at = 0;
    image_renew(d->image);
    if (d->beside)
        image_renew(d->beside);
}

void memory_disk_set_space(struct memory_disk *d, uint64_t bytes)
{
    d->space = bytes;
}

uint64_t memory_disk_space(const struct memory_disk *d)
{
    return d->space;
}

void memory_disk_wipe(struct memory_disk *d)
{
    assert(d->stores == 0);

    memory_image_remove(d);
    image_unref(d->image);
    d->image = image_new(d);
    buf_clear(&d->spoiled.key);
}

/* The nth of those that have a value to be spoiled; NULL: there are not so many, and *n is less by
 * those there are. */
static const struct batch_node *nth_key(const struct image *i, size_t *n, enum bucket *bucket)
{
    for (int b = 0; b < BUCKET_COUNT; b++)
        for (const struct batch_node *at = i->batch->lists[b].first[0]; at; at = at->next[0]) {
            const struct batch_version *v = batch_version_at(at, i->committed);
            *bucket = (enum bucket)b;
            if (v && !v->deleted && v->len > 0 && (*n)-- == 0)
                return at;
        }
    return NULL;
}

bool memory_disk_flip(struct memory_disk *d, struct rng *coin)
{
    struct spoiled *s = &d->spoiled;
    struct image *i = d->image;
    size_t left = SIZE_MAX;

    nth_key(i, &left, &s->bucket);
    size_t count = SIZE_MAX - left;
    if (count == 0)
        return false;
    size_t n = rng_below(coin, count);
    const struct batch_node *node = nth_key(i, &n, &s->bucket);
    const struct batch_version *v = batch_version_at(node, i->committed);
    buf_clear(&s->key);
    buf_append(&s->key, batch_node_key(node));
    buf_clear(&s->value);
    buf_append(&s->value, batch_version_value(v));
    size_t at = rng_below(coin, s->value.len);
    s->value.at[at] ^= (uint8_t)(1u << rng_below(coin, 8));
    memcpy(batch_put_space(i->batch, s->bucket, buf_bytes(&s->key), s->value.len, i->committed),
           s->value.at, s->value.len);
    return true;
}

uint64_t memory_disk_calls(const struct memory_disk *d)
{
    return d->calls;
}

/*
 * One call to the disk. *reached tells whether it took effect although it failed, which only a
 * power cut can bring about.
 */
static enum err call(struct memory_store *s, const char *what, bool *reached)
{
    struct memory_disk *d = s->disk;
    bool was_dead = d->dead;

    d->calls++;
    if (d->calls == d->crash_at)
        d->dead = true;
    bool fails = d->dead || d->calls == d->fail_at;
    *reached = !fails || (d->dead && !was_dead && rng_chance(&d->rng, 1, 2));
    if (!fails)
        return ERR_OK;
    snprintf(s->base.failure, sizeof(s->base.failure), "memory disk: cannot %s: %s", what,
             d->dead ? "no power" : "told to fail");
    return ERR_IO;
}

/* --- reading ------------------------------------------------------------------------------ */

static struct memory_store *memory_store(struct store *s)
{
    return container_of(s, struct memory_store, base);
}

static struct memory_reader *memory_reader(struct store_reader *r)
{
    return container_of(r, struct memory_reader, base);
}

static enum err reader_open(struct store *base, struct store_reader **out)
{
    const struct memory_store *s = memory_store(base);
    struct memory_reader *r = mem_new(struct memory_reader);

    r->disk = s->disk;
    r->batch = batch_ref(s->image->batch);
    r->limit = s->image->committed;
    *out = &r->base;
    return ERR_OK;
}

static void reader_close(struct store_reader *base)
{
    struct memory_reader *r = memory_reader(base);

    if (batch_unref(r->batch))
        batch_free(r->batch);
    mem_free(r);
}

/* What a checksum would say. */
static enum err examine(struct memory_reader *r, enum bucket bucket, struct bytes key,
                        struct bytes value)
{
    const struct spoiled *s = &r->disk->spoiled;

    if (s->key.len == 0 || s->bucket != bucket || !bytes_equal(buf_bytes(&s->key), key) ||
        !bytes_equal(buf_bytes(&s->value), value))
        return ERR_OK;
    snprintf(r->base.damage, sizeof(r->base.damage),
             "memory disk: damaged value in bucket %d: checksum mismatch", (int)bucket);
    return ERR_CORRUPT;
}

static enum err get(struct store_reader *base, enum bucket bucket, struct bytes key,
                    struct bytes *value)
{
    struct memory_reader *r = memory_reader(base);
    const struct batch_version *v = batch_get(r->batch, bucket, key, r->limit);

    if (!v || v->deleted)
        return ERR_NOT_FOUND;
    *value = batch_version_value(v);
    return examine(r, bucket, key, *value);
}

static enum err get_part(struct store_reader *base, enum bucket bucket, struct bytes key,
                         size_t from, size_t len, struct bytes *part)
{
    struct bytes value;
    enum err e = get(base, bucket, key, &value);

    return e == ERR_OK ? store_part_of(value, from, len, part) : e;
}

static struct store_cursor *cursor_open(struct store_reader *base, enum bucket bucket,
                                        struct bytes from)
{
    struct store_cursor *c = mem_new(struct store_cursor);

    c->reader = memory_reader(base);
    c->bucket = bucket;
    c->at = batch_seek(c->reader->batch, bucket, from);
    return c;
}

static enum err cursor_next(struct store_cursor *c, struct bytes *key, struct bytes *value)
{
    for (; c->at; c->at = c->at->next[0]) {
        const struct batch_version *v = batch_version_at(c->at, c->reader->limit);
        if (!v || v->deleted)
            continue;
        *key = batch_node_key(c->at);
        *value = batch_version_value(v);
        enum err e = examine(c->reader, c->bucket, *key, *value);
        if (e == ERR_OK)
            c->at = c->at->next[0];
        return e;
    }
    return ERR_END;
}

static void cursor_close(struct store_cursor *c)
{
    mem_free(c);
}

/* --- writing ------------------------------------------------------------------------------ */

static enum err begin(struct store *base)
{
    struct memory_store *s = memory_store(base);

    assert(!s->writing);
    s->writing = true;
    base->dirty_bytes = 0;
    return ERR_OK;
}

static void forget_live(struct image *i, enum bucket bucket, struct bytes key)
{
    const struct batch_version *v = batch_get(i->batch, bucket, key, UINT64_MAX);

    if (v && !v->deleted)
        i->live_bytes -= key.len + v->len;
}

static enum err put(struct store *base, enum bucket bucket, struct bytes key, struct bytes value)
{
    struct memory_store *s = memory_store(base);
    struct image *i = s->image;
    bool reached;
    enum err e = call(s, "write", &reached);

    assert(s->writing);
    if (!reached)
        return e;
    forget_live(i, bucket, key);
    uint8_t *at = batch_put_space(i->batch, bucket, key, value.len, i->committed + 1);
    if (value.len > 0)
        memcpy(at, value.at, value.len);
    i->live_bytes += key.len + value.len;
    i->writes++;
    return e;
}

static enum err remove_key(struct store *base, enum bucket bucket, struct bytes key)
{
    struct memory_store *s = memory_store(base);
    struct image *i = s->image;
    bool reached;
    enum err e = call(s, "write", &reached);

    assert(s->writing);
    if (!reached)
        return e;
    forget_live(i, bucket, key);
    base->dirty_bytes += PAGE_BYTES;
    batch_delete(i->batch, bucket, key, i->committed + 1);
    i->writes++;
    return e;
}

static void abort_writing(struct store *base)
{
    struct memory_store *s = memory_store(base);

    if (!s->writing)
        return;
    s->writing = false;
    image_renew(s->image);
}

/* What the file needs to grow by. */
static uint64_t growth(const struct image *i)
{
    return i->live_bytes > i->file_bytes ? i->live_bytes - i->file_bytes : 0;
}

static enum err find_space(struct memory_store *s)
{
    uint64_t space = s->disk->space;

    if (space >= PAGE_BYTES && space >= growth(s->image))
        return ERR_OK;
    snprintf(s->base.failure, sizeof(s->base.failure), "memory disk: cannot write: no space left");
    return ERR_NO_SPACE;
}

static void take_space(struct image *i)
{
    uint64_t more = growth(i);

    i->file_bytes += more;
    if (i->disk->space != MEMORY_DISK_NOT_FULL)
        i->disk->space -= more;
}

static enum err commit(struct store *base)
{
    struct memory_store *s = memory_store(base);
    struct image *i = s->image;
    bool reached;
    enum err e = find_space(s);

    if (e == ERR_OK)
        e = call(s, "sync", &reached);
    if (e == ERR_OK) {
        e = call(s, "write the root", &reached);
        i->committed += reached;
    }
    if (e != ERR_OK) {
        abort_writing(base);
        return e;
    }
    s->writing = false;
    take_space(i);
    base->sizes = (struct backend_sizes){.file_bytes = i->file_bytes, .used_bytes = i->live_bytes};
    size_t keys = 0;
    for (int bucket = 0; bucket < BUCKET_COUNT; bucket++)
        keys += i->batch->lists[bucket].count;
    if (i->writes > WRITES_KEPT_MIN + keys)
        image_renew(i);
    return ERR_OK;
}

/* --- opening, copying, closing ------------------------------------------------------------ */

static const struct store_ops ops;

static struct store *store_new(struct memory_disk *d, struct image *i)
{
    struct memory_store *s = mem_new(struct memory_store);

    s->base.ops = &ops;
    s->base.sizes =
        (struct backend_sizes){.file_bytes = i->file_bytes, .used_bytes = i->live_bytes};
    s->disk = d;
    s->image = i;
    d->stores++;
    return &s->base;
}

enum err memory_store_open(struct memory_disk *d, struct store **out)
{
    assert(!d->dead);

    d->image->refs++;
    *out = store_new(d, d->image);
    return ERR_OK;
}

static enum err copy_open(struct store *base, struct store **out)
{
    struct memory_store *s = memory_store(base);
    bool reached;
    enum err e = call(s, "make a copy", &reached);

    if (e == ERR_OK)
        *out = store_new(s->disk, image_new(s->disk));
    return e;
}

/* --- the image beside it --- */

void memory_image_remove(struct memory_disk *d)
{
    if (d->beside)
        image_unref(d->beside);
    d->beside = NULL;
}

enum err memory_image_open(struct memory_disk *d, bool fresh, char *why, struct store **out)
{
    struct memory_store probe = {.disk = d};
    bool reached;

    if (!fresh && !d->beside)
        return ERR_NOT_FOUND;
    enum err e = fresh ? call(&probe, "make an image", &reached) : ERR_OK;
    if (e != ERR_OK) {
        memcpy(why, probe.base.failure, FAILURE_TEXT_BYTES);
        return e;
    }
    if (fresh) {
        memory_image_remove(d);
        d->beside = image_new(d);
    }
    d->beside->refs++;
    *out = store_new(d, d->beside);
    return ERR_OK;
}

static void give_name(struct image **name, struct image *i)
{
    if (i)
        i->refs++;
    if (*name)
        image_unref(*name);
    *name = i;
}

/* An image has no other name any more when it has the store's. */
static void take_name(struct memory_disk *d, struct image *i, struct image *beside)
{
    give_name(&d->image, i);
    give_name(&d->beside, beside);
}

static enum err copy_adopt(struct store *base, struct store *copy, bool *certain)
{
    struct memory_store *s = memory_store(base);
    struct image *old = s->image, *made = memory_store(copy)->image, *beside = s->disk->beside;
    bool reached = false;
    enum err e = find_space(s);

    *certain = true;
    if (e == ERR_OK)
        e = call(s, "rename", &reached);
    if (reached)
        take_name(s->disk, made, beside == made ? NULL : beside);
    if (e != ERR_OK)
        return e;
    e = call(s, "sync the folder", &reached);
    *certain = e == ERR_OK;
    if (!reached)
        take_name(s->disk, old, beside);
    return e;
}

static void close_store(struct store *base)
{
    struct memory_store *s = memory_store(base);

    assert(!s->writing);
    assert(s->disk->stores > 0);
    s->disk->stores--;
    image_unref(s->image);
    mem_free(s);
}

static void read_randomly(struct store *s, bool randomly)
{
    (void)s;
    (void)randomly; /* there is nothing to be read from */
}

static const struct store_ops ops = {
    .reader_open = reader_open,
    .reader_close = reader_close,
    .get = get,
    .get_part = get_part,
    .cursor_open = cursor_open,
    .cursor_next = cursor_next,
    .cursor_close = cursor_close,
    .begin = begin,
    .put = put,
    .remove = remove_key,
    .commit = commit,
    .abort = abort_writing,
    .copy_open = copy_open,
    .copy_adopt = copy_adopt,
    .read_randomly = read_randomly,
    .close = close_store,
};
