/* etcd's store, copied into ours. */
#include "base/mem.h"
#include "io/disk.h"
#include "snap/transfer_int.h"

struct snap_import {
    struct dir own_dir, *dir; /* locked from the copy to the end, and so is the db */
    struct db db;
    struct snap_copied copied;
};

static enum err check_source(struct snap_import *m)
{
    enum err e = dir_open_db(m->dir, m->dir->source, &m->db);

    if (e == ERR_OK)
        e = db_check(&m->db);
    if (e == ERR_OK)
        e = dir_check_source(m->dir, m->db.position.index);
    return e;
}

static enum err copy_all(struct snap_import *m)
{
    struct backend *to;
    struct db_copied copied = {0};
    enum err e = dir_open_store(m->dir, m->dir->store_tmp, &to);

    if (e != ERR_OK)
        return e;
    e = db_copy(&m->db, to, m->dir->store_tmp, &copied);
    m->copied.entries = copied.entries;
    m->copied.bytes = copied.bytes;
    backend_close(to);
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

/* The db kept its name, so the copy gives its own back: the directory is etcd's as it was. If that
 * fails, too, the note stays and the next start goes on from there. */
static void take_back(struct dir *d)
{
    if (disk_rename(d->disk, d->store, d->store_tmp) == ERR_OK)
        dir_must_sync(d, d->member);
}

/* The copy gets its name; from here on the note speaks for it. */
static enum err publish(struct snap_import *m)
{
    struct dir *d = m->dir;
    /* Before it has its name: from then on both stores are there, until etcd's is put aside, and
     * after a crash only the note tells that this was meant. */
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
    e = import_put_aside(d);
    if (e == ERR_OK)
        return note_remove(d, d->store);
    take_back(d);
    return e;
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
