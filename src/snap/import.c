/* etcd's store, copied into ours. */
#include "base/mem.h"
#include "io/disk.h"
#include "pb/codec.h"
#include "snap/bolt_int.h"
#include "snap/transfer_int.h"

#include <inttypes.h>

struct snap_import {
    struct dir own_dir, *dir; /* locked from the copy to the end, and so is the db */
    struct db db;
    struct backend *to;
    struct arena arena; /* for one value */
    struct snap_copied copied;
};

/* ---- Before anything is made ---- */

static enum err check_names(struct snap_import *m)
{
    struct bolt_cursor *c = bolt_cursor_open_root(m->db.bolt);
    struct bolt_entry entry;
    enum bucket bucket;
    enum err e;

    while ((e = bolt_cursor_next(c, &entry)) == ERR_OK && bucket_find(entry.key, &bucket))
        continue;
    if (e == ERR_OK)
        e = dir_fail(m->dir, ERR_UNSUPPORTED, m->db.path,
                     "offset %" PRIu64 ": a bucket \"%.*s\", which etcd does not have",
                     bolt_cursor_span(c).at, (int)(entry.key.len < 64 ? entry.key.len : 64),
                     (const char *)entry.key.at);
    else
        e = e == ERR_END ? ERR_OK : db_fail(&m->db, e);
    bolt_cursor_close(c);
    return e;
}

static enum err check_source(struct snap_import *m)
{
    enum err e = db_open(&m->db, m->dir, m->dir->source);

    if (e == ERR_OK)
        e = db_fail(&m->db, bolt_check(m->db.bolt));
    if (e == ERR_OK)
        e = check_names(m);
    if (e == ERR_OK)
        e = dir_check_source(m->dir, m->db.position.index);
    return e;
}

/* ---- Copying ---- */

/* A revision, main and sub, and a mark if it is one of a deletion. */
static bool is_revision(struct bytes key)
{
    return (key.len == 17 || (key.len == 18 && key.at[17] == 't')) && key.at[8] == '_';
}

/*
 * bbolt has no checksums, and a damaged length that takes in zeroes behind an entry passes its
 * check. Here it does not: no message goes on with zeroes. (`etcdutl snapshot restore
 * --bump-revision` leaves an entry without a value, which is an empty message.)
 */
static const char *check_revision(struct snap_import *m, struct bytes key, struct bytes value)
{
    struct pb_key_value kv;

    arena_reset(&m->arena);
    if (!is_revision(key))
        return "not a revision in bucket key";
    return pb_decode_key_value(value, &m->arena, &kv) == ERR_OK ? NULL : "not a mvccpb.KeyValue";
}

static enum err copy_entry(struct snap_import *m, enum bucket bucket, struct bolt_cursor *c,
                           const struct bolt_entry *entry)
{
    uint64_t offset = bolt_cursor_span(c).at;

    if (entry->key.len == 0)
        return db_damaged(&m->db, offset, "an empty key");
    if (entry->value_bytes > BACKEND_VALUE_BYTES_MAX)
        return db_damaged(&m->db, offset, "a value larger than any can be");
    /* Straight into the batch: a value may have a gigabyte, and is in memory once. */
    uint8_t *value = backend_put_space(m->to, bucket, entry->key, entry->value_bytes);
    enum err e = bolt_cursor_read(c, 0, value, entry->value_bytes);
    if (e != ERR_OK)
        return db_fail(&m->db, e);
    const char *what = bucket == BUCKET_KEY
                           ? check_revision(m, entry->key, bytes_of(value, entry->value_bytes))
                           : NULL;
    if (what)
        return db_damaged(&m->db, offset, what);
    m->copied.entries++;
    m->copied.bytes += entry->key.len + entry->value_bytes;
    return ERR_OK;
}

static enum err commit(struct snap_import *m)
{
    enum err e = backend_commit_now(m->to);

    if (e == ERR_OK)
        return ERR_OK;
    return dir_fail(m->dir, e, m->dir->store_tmp, "cannot commit: %s", backend_failure(m->to));
}

static enum err copy_bucket(struct snap_import *m, enum bucket bucket)
{
    struct bolt_cursor *c;
    struct bolt_entry entry;
    enum err e = bolt_cursor_open(m->db.bolt, bytes_of_str(bucket_name(bucket)), &c);

    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK)
        return db_fail(&m->db, e);
    while (e == ERR_OK) {
        e = bolt_cursor_next(c, &entry);
        if (e == ERR_END)
            break;
        e = e == ERR_OK ? copy_entry(m, bucket, c, &entry) : db_fail(&m->db, e);
        if (e == ERR_OK && backend_is_full(m->to))
            e = commit(m);
    }
    bolt_cursor_close(c);
    return e == ERR_END ? ERR_OK : e;
}

/* The copy says of itself what the original said. */
static enum err check_copy(struct snap_import *m)
{
    struct backend_position got = {0};
    struct backend_view v;

    backend_view_open(m->to, &v);
    enum err e = backend_view_position(&v, &got);
    if (e != ERR_OK)
        e = dir_fail(m->dir, e, m->dir->store_tmp, "%s", backend_view_damage(&v));
    backend_view_close(&v);
    if (e != ERR_OK)
        return e;
    if (got.index != m->db.position.index || got.term != m->db.position.term)
        return dir_fail(m->dir, ERR_CORRUPT, m->dir->store_tmp,
                        "the copy has consistent index %" PRIu64 ", not %" PRIu64, got.index,
                        m->db.position.index);
    return ERR_OK;
}

/* In the order of buckets, of which meta, with the position, is the last. */
static enum err copy_all(struct snap_import *m)
{
    enum err e = dir_open_store(m->dir, m->dir->store_tmp, &m->to);

    if (e != ERR_OK)
        return e;
    for (int i = 0; i < BUCKET_COUNT && e == ERR_OK; i++)
        e = copy_bucket(m, (enum bucket)i);
    if (e == ERR_OK)
        e = commit(m);
    if (e == ERR_OK)
        e = check_copy(m);
    backend_close(m->to);
    return e;
}

/* ---- The steps ---- */

static enum err check_holds(struct dir *d)
{
    enum snap_holds holds;
    enum err e = dir_settle(d, &holds);

    if (e == ERR_OK && holds == SNAP_HOLDS_NOTHING)
        return dir_fail(d, ERR_NOT_FOUND, d->db, "no such file: nothing to import");
    if (e == ERR_OK && holds == SNAP_HOLDS_STORE)
        return dir_fail(d, ERR_EXISTS, d->store, "already here: nothing to import");
    return e;
}

static void import_free(struct snap_import *m)
{
    db_close(&m->db);
    arena_free(&m->arena);
    dir_close(m->dir);
    mem_free(m);
}

void snap_import_drop(struct snap_import *m)
{
    if (!m)
        return;
    enum err removed = dir_remove_folder(m->dir, m->dir->store_tmp);
    (void)removed; /* the next one removes it; why this one was dropped is the reason to tell */
    import_free(m);
}

enum err snap_import_copy(struct disk *disk, const struct snap_place *place,
                          struct snap_import **out, struct snap_copied *copied)
{
    struct snap_import *m = mem_new(struct snap_import);

    m->dir = &m->own_dir;
    enum err e = dir_open(m->dir, disk, place);
    bool ours = e == ERR_OK; /* what lies beside the db: whoever has the lock may remove it */
    if (e == ERR_OK)
        e = check_holds(m->dir);
    if (e == ERR_OK)
        e = check_source(m);
    if (e == ERR_OK)
        e = copy_all(m);
    m->copied.index = m->db.position.index;
    m->copied.term = m->db.position.term;
    *copied = m->copied;
    *out = e == ERR_OK ? m : NULL;
    if (e != ERR_OK && ours)
        snap_import_drop(m);
    else if (e != ERR_OK)
        import_free(m);
    return e;
}

const char *snap_import_dir(const struct snap_import *m)
{
    return m->dir->store_tmp;
}

/* The copy gets its name; from here on the note speaks for it. */
static enum err publish(struct snap_import *m)
{
    struct dir *d = m->dir;
    /* Before it has its name: from then on both stores are there, until import_finish has put
     * etcd's aside, and after a crash only the note tells that this was meant. */
    enum err e = note_write(d, d->store_tmp,
                            &(struct note){.kind = NOTE_IMPORT,
                                           .txid = bolt_info(m->db.bolt).txid,
                                           .index = m->db.position.index});

    if (e == ERR_OK)
        e = dir_adopt_source(d);
    if (e == ERR_OK)
        e = dir_tried(d, disk_rename(d->disk, d->store_tmp, d->store), "rename", d->store_tmp);
    if (e != ERR_OK)
        return e;
    dir_must_sync(d, d->member);
    return import_finish(d);
}

enum err snap_import_take_over(struct snap_import *m)
{
    enum err e = publish(m);

    if (e == ERR_OK)
        import_free(m);
    else
        snap_import_drop(m); /* of a store that has its name already, nothing is removed */
    return e;
}
