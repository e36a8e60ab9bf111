/* Our store, written out as etcd's file. */
#include "base/assert.h"
#include "base/list.h"
#include "io/disk.h"
#include "snap/transfer_int.h"

#include <inttypes.h>

struct exporter {
    struct dir *dir;
    struct backend *from;
    struct bolt_feed feed;
    struct backend_view view;
    struct backend_cursor cursor;
    bool cursor_open;
    enum bucket bucket;
    struct bytes value; /* of the current entry; lent by the view */
    struct snap_copied copied;
};

/* ---- The view as the writer's feed ---- */

static void close_cursor(struct exporter *x)
{
    if (x->cursor_open)
        backend_cursor_close(&x->cursor);
    x->cursor_open = false;
}

/* The writer's buckets are ours, in our order, which is that of their names. */
static enum err feed_rewind(struct bolt_feed *f, size_t bucket)
{
    struct exporter *x = container_of(f, struct exporter, feed);

    assert(bucket < BUCKET_COUNT);
    close_cursor(x);
    x->bucket = (enum bucket)bucket;
    backend_cursor_open(&x->view, x->bucket, (struct bytes){0}, &x->cursor);
    x->cursor_open = true;
    return ERR_OK;
}

static enum err feed_next(struct bolt_feed *f, struct bolt_entry *out)
{
    struct exporter *x = container_of(f, struct exporter, feed);
    struct bytes key;
    enum err e = backend_cursor_next(&x->cursor, &key, &x->value);

    if (e != ERR_OK)
        return e;
    *out = (struct bolt_entry){.key = key, .value_bytes = (uint32_t)x->value.len};
    x->copied.entries++;
    x->copied.bytes += key.len + x->value.len;
    return ERR_OK;
}

static enum err feed_read(struct bolt_feed *f, uint32_t offset, uint8_t *into, size_t size)
{
    struct exporter *x = container_of(f, struct exporter, feed);

    assert(offset <= x->value.len);
    assert(size <= x->value.len - offset);
    if (size > 0)
        memcpy(into, x->value.at + offset, size);
    return ERR_OK;
}

/* ---- Writing ---- */

static enum err write_failed(struct exporter *x, enum err e)
{
    const char *damage = backend_view_damage(&x->view);

    if (e == ERR_CORRUPT && *damage)
        return dir_fail(x->dir, e, x->dir->store, "%s", damage);
    return dir_fail(x->dir, e, x->dir->db_tmp, "cannot write bucket %s: %s", bucket_name(x->bucket),
                    err_text(e));
}

static enum err write_pieces(struct exporter *x, struct bolt_writer *w, struct disk_file *file)
{
    uint8_t *piece = mem_alloc(SNAP_EXPORT_PIECE_BYTES);
    size_t done = SNAP_EXPORT_PIECE_BYTES;
    uint64_t at = 0;
    enum err e = ERR_OK;

    while (e == ERR_OK && done == SNAP_EXPORT_PIECE_BYTES) {
        e = bolt_writer_read(w, piece, SNAP_EXPORT_PIECE_BYTES, &done);
        if (e == ERR_OK && done > 0)
            e = disk_write(x->dir->disk, file, at, bytes_of(piece, done));
        at += done;
    }
    mem_free(piece);
    assert(e != ERR_OK || at == bolt_writer_size(w));
    return e;
}

static enum err write_file(struct exporter *x, struct bolt_writer *w)
{
    struct disk *disk = x->dir->disk;
    struct disk_file *file;
    enum err e = disk_open(disk, x->dir->db_tmp, DISK_CREATE | DISK_CUT, 0600, &file);

    if (e != ERR_OK)
        return e;
    e = write_pieces(x, w, file);
    if (e == ERR_OK)
        e = disk_sync(disk, file);
    enum err closed = disk_close(disk, file);
    return e != ERR_OK ? e : closed;
}

static enum err write_db(struct exporter *x)
{
    struct bytes names[BUCKET_COUNT];
    bool done = false;

    for (int i = 0; i < BUCKET_COUNT; i++)
        names[i] = bytes_of_str(bucket_name((enum bucket)i));
    struct bolt_writer *w = bolt_writer_open(
        &(struct bolt_writer_options){.buckets = names, .bucket_count = BUCKET_COUNT}, &x->feed);
    enum err e = ERR_OK;
    /* Two walks over the same view: the first only counts, since the metas, which come first, say
     * how many pages follow; the second writes. */
    while (e == ERR_OK && !done)
        e = bolt_writer_plan(w, UINT64_MAX, &done);
    x->copied.entries = 0; /* counted again in the second walk */
    x->copied.bytes = 0;
    if (e == ERR_OK)
        e = write_file(x, w);
    if (e != ERR_OK)
        e = write_failed(x, e);
    close_cursor(x);
    bolt_writer_close(w);
    return e;
}

/* What we could not import again is not given out. */
static enum err check_written(struct exporter *x)
{
    struct db db;
    enum err e = db_open(&db, x->dir, x->dir->db_tmp);

    if (e == ERR_OK)
        e = db_fail(&db, bolt_check(db.bolt));
    assert(e != ERR_OK || db.position.index == x->copied.index);
    db_close(&db);
    return e;
}

/* A delete that is decided but not carried out, say, which etcd could not go on with. */
static enum err check_finished(struct exporter *x)
{
    struct bytes prefix = BYTES(BACKEND_UNFINISHED_PREFIX), key, value;
    struct backend_cursor c;

    backend_cursor_open(&x->view, BUCKET_META, prefix, &c);
    enum err e = backend_cursor_next(&c, &key, &value);
    backend_cursor_close(&c);
    if (e == ERR_END || (e == ERR_OK && !bytes_starts_with(key, prefix)))
        return ERR_OK;
    if (e != ERR_OK)
        return write_failed(x, e);
    return dir_fail(x->dir, ERR_BUSY, x->dir->store,
                    "%.*s is under way in it: start the member, and stop it a minute later",
                    (int)key.len, (const char *)key.at);
}

static enum err copy_all(struct exporter *x)
{
    struct dir *d = x->dir;
    enum err e = dir_tried(d, disk_make_dir(d->disk, d->snap, 0700, DISK_PARENTS), "make", d->snap);

    if (e != ERR_OK)
        return e;
    x->feed = (struct bolt_feed){.rewind = feed_rewind, .next = feed_next, .read = feed_read};
    backend_view_open(x->from, &x->view);
    e = check_finished(x);
    if (e == ERR_OK)
        e = write_db(x);
    backend_view_close(&x->view);
    return e == ERR_OK ? check_written(x) : e;
}

/* ---- The steps ---- */

/* The file gets its name. */
static enum err publish(struct exporter *x)
{
    struct dir *d = x->dir;
    /* As with an import: when the file has its name, both are there, and the note says which one is
     * to go. */
    enum err e =
        note_write(d, d->store, &(struct note){.kind = NOTE_EXPORT, .index = x->copied.index});

    if (e != ERR_OK)
        return e;
    e = dir_tried(d, disk_rename(d->disk, d->db_tmp, d->db), "rename", d->db_tmp);
    if (e != ERR_OK)
        return e;
    dir_must_sync(d, d->snap);
    dir_must_sync(d, d->member); /* snap/ may be new */
    return ERR_OK;
}

static enum err run_export(struct exporter *x)
{
    struct dir *d = x->dir;
    enum err e = dir_open_store(d, d->store, &x->from);

    if (e != ERR_OK)
        return e;
    x->copied.index = backend_applied(x->from).index;
    x->copied.term = backend_applied(x->from).term;
    e = dir_check_index(d, d->store, x->copied.index);
    if (e == ERR_OK)
        e = copy_all(x);
    if (e == ERR_OK)
        e = publish(x);
    backend_close(x->from);
    if (e == ERR_OK)
        return dir_remove_store(d);
    enum err removed = disk_remove(d->disk, d->db_tmp);
    (void)removed; /* the next one removes it, and the reason is the first error's */
    return e;
}

static enum err check_holds(struct dir *d)
{
    enum snap_holds holds;
    enum err e = dir_settle(d, &holds);

    if (e == ERR_OK && holds == SNAP_HOLDS_NOTHING)
        return dir_fail(d, ERR_NOT_FOUND, d->store, "no such folder: nothing to export");
    if (e == ERR_OK && holds == SNAP_HOLDS_DB)
        return dir_fail(d, ERR_EXISTS, d->db, "already here: nothing to export");
    return e;
}

enum err snap_export(struct disk *disk, const struct snap_place *place, struct snap_copied *out)
{
    struct dir d;
    struct exporter x = {.dir = &d};
    enum err e = dir_open(&d, disk, place);

    if (e == ERR_OK)
        e = check_holds(&d);
    if (e == ERR_OK)
        e = run_export(&x);
    dir_close(&d);
    *out = x.copied;
    return e;
}
