/* Our store, written out as etcd's file. */
#include "base/assert.h"
#include "io/disk.h"
#include "snap/store_feed.h"
#include "snap/transfer_int.h"

#include <inttypes.h>

struct exporter {
    struct dir *dir;
    struct backend *from;
    struct store_feed feed;
    struct backend_view view;
    struct snap_copied copied;
};

/* ---- Writing ---- */

static enum err write_failed(struct exporter *x, enum err e)
{
    const char *damage = backend_view_damage(&x->view);

    if (e == ERR_CORRUPT && *damage)
        return dir_fail(x->dir, e, x->dir->store, "%s", damage);
    return dir_fail(x->dir, e, x->dir->db_tmp, "cannot write bucket %s: %s",
                    bucket_name(x->feed.bucket), err_text(e));
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
    bool done = false;

    store_feed_init(&x->feed, NULL, INT64_MAX);
    store_feed_begin(&x->feed, &x->view);
    struct bolt_writer *w = bolt_writer_open(
        &(struct bolt_writer_options){.buckets = x->feed.names, .bucket_count = BUCKET_COUNT},
        &x->feed.bolt);
    enum err e = ERR_OK;
    /* Two walks over the same view: the first only counts, since the metas, which come first, say
     * how many pages follow; the second writes. */
    while (e == ERR_OK && !done)
        e = bolt_writer_plan(w, UINT64_MAX, &done);
    x->copied.entries = x->feed.entries;
    x->copied.bytes = x->feed.bytes;
    if (e == ERR_OK)
        e = write_file(x, w);
    if (e != ERR_OK)
        e = write_failed(x, e);
    bolt_writer_close(w);
    store_feed_free(&x->feed);
    return e;
}

/* What we could not import again is not given out. */
static enum err check_written(struct exporter *x)
{
    struct db db;
    enum err e = dir_open_db(x->dir, x->dir->db_tmp, &db);

    if (e == ERR_OK)
        e = db_fail(&db, bolt_check(db.bolt));
    assert(e != ERR_OK || db.position.index == x->copied.index);
    db_close(&db);
    return e;
}

static enum err check_finished(struct exporter *x)
{
    struct bytes name = {0};
    enum err e = store_feed_check_finished(&x->view, &name);

    if (e == ERR_CORRUPT)
        return dir_fail(x->dir, e, x->dir->store, "%s", backend_view_damage(&x->view));
    if (e == ERR_BUSY)
        return dir_fail(x->dir, e, x->dir->store,
                        "%.*s is under way in it: start the member, and stop it a minute later",
                        (int)name.len, (const char *)name.at);
    return e;
}

static enum err copy_all(struct exporter *x)
{
    struct dir *d = x->dir;
    enum err e = dir_tried(d, disk_make_dir(d->disk, d->snap, 0700, DISK_PARENTS), "make", d->snap);

    if (e != ERR_OK)
        return e;
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

/* An image that a leader has sent takes the store's place from its record in the log on, and a
 * crash may have come before the rename. Whoever opens the store with the log ends that. */
static enum err check_image(struct exporter *x)
{
    struct dir *d = x->dir;
    struct backend_position image = {0};

    if (!d->lacks_log)
        return ERR_OK;
    enum err e =
        backend_image_position(&(struct backend_options){.disk = d->disk, .dir = d->store}, &image);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return dir_tried(d, e, "look at the image in", d->store);
    if (image.index <= x->copied.index)
        return ERR_OK;
    return dir_fail(d, ERR_NOT_FOUND, d->store,
                    "a snapshot up to entry %" PRIu64 " was being installed, and the store ends at "
                    "%" PRIu64 ": whether it counts is in the log, which is not in %s/wal; name "
                    "its directory with --wal-dir",
                    image.index, x->copied.index, d->member);
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
        e = check_image(x);
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
