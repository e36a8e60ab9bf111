#include "backend/lmdb_int.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static_assert(sizeof(size_t) == 8, "the map needs 64-bit addresses");

#define FORMAT_KEY BYTES("cleat")
#define FORMAT     BYTES("1")

enum err lmdb_err(int code)
{
    switch (code) {
    case MDB_SUCCESS:
        return ERR_OK;
    case MDB_NOTFOUND:
        return ERR_NOT_FOUND;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_CURSOR_FULL: /* a tree deeper than any can be */
    case MDB_INCOMPATIBLE:
        return ERR_CORRUPT;
    case MDB_VERSION_MISMATCH:
        return ERR_UNSUPPORTED;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    default:
        return ERR_IO;
    }
}

enum err lmdb_failed(struct lmdb_store *s, const char *what, int code)
{
    snprintf(s->base.failure, sizeof(s->base.failure), "%s: cannot %s: %s", s->path, what,
             mdb_strerror(code));
    return lmdb_err(code);
}

/* "dir/name", or "dir" alone; end it with mem_free. */
static char *join(const char *dir, const char *name)
{
    struct buf b = {0};

    buf_append_str(&b, dir);
    if (name)
        buf_printf(&b, "/%s", name);
    buf_append_byte(&b, '\0');
    return (char *)b.at;
}

/* --- one file ----------------------------------------------------------------------------- */

static void on_assert(MDB_env *env, const char *text)
{
    const struct lmdb_store *s = mdb_env_get_userctx(env);

    fatal("the page store %s is damaged: %s", s->path, text);
}

static int try_env(struct lmdb_store *s, size_t map_bytes)
{
    int code = mdb_env_create(&s->env);

    if (code != MDB_SUCCESS)
        return code;
    mdb_env_set_userctx(s->env, s);
    mdb_env_set_assert(s->env, on_assert);
    code = mdb_env_set_maxdbs(s->env, BUCKET_COUNT);
    if (code == MDB_SUCCESS)
        code = mdb_env_set_maxreaders(s->env, LMDB_READERS_MAX);
    if (code == MDB_SUCCESS)
        code = mdb_env_set_mapsize(s->env, map_bytes);
    if (code == MDB_SUCCESS)
        /* NOTLS: a reader belongs to its view, not to the thread; the core has several at once. */
        code = mdb_env_open(s->env, s->path, MDB_NOSUBDIR | MDB_NOTLS, 0600);
    if (code != MDB_SUCCESS) {
        mdb_env_close(s->env);
        s->env = NULL;
    }
    return code;
}

static bool is_refusal(int code)
{
    return code == ENOMEM || code == EINVAL;
}

static enum err watch_map(struct lmdb_store *s)
{
    struct stat st;
    MDB_envinfo info;
    MDB_stat pages;
    int fd;

    if (mdb_env_get_fd(s->env, &fd) != MDB_SUCCESS || fstat(fd, &st) != 0 ||
        mdb_env_info(s->env, &info) != MDB_SUCCESS || mdb_env_stat(s->env, &pages) != MDB_SUCCESS)
        return lmdb_failed(s, "look at the file", EIO);
    s->page_bytes = pages.ms_psize;
    void *start = lmdb_map_find(s->disk, st.st_ino, info.me_mapsize);
    if (!start)
        return ERR_OK;
    s->region = lmdb_map_watch(start, info.me_mapsize, s->path);
    s->resident.map = start;
    s->resident.map_bytes = info.me_mapsize;
    return ERR_OK;
}

static enum err open_env(struct lmdb_store *s)
{
    enum err e = lmdb_reserve_lock(s);
    int code = ENOMEM;

    if (e != ERR_OK)
        return e;
    /* The map cannot grow while transactions live, so it is taken so large that it never has to;
     * half as much wherever that is refused, which is ENOMEM, or EINVAL under valgrind. */
    for (size_t size = LMDB_MAP_BYTES; is_refusal(code) && size >= LMDB_MAP_BYTES_MIN; size /= 2)
        code = try_env(s, size);
    if (code != MDB_SUCCESS)
        return lmdb_failed(s, "open", code);
    e = lmdb_open_witness(s);
    return e == ERR_OK ? watch_map(s) : e;
}

static int check_format(MDB_txn *txn, bool fresh, bool *known)
{
    MDB_dbi root;
    MDB_val k = lmdb_val(FORMAT_KEY), v = lmdb_val(FORMAT);
    int code = mdb_dbi_open(txn, NULL, 0, &root);

    *known = true;
    if (code == MDB_SUCCESS && fresh)
        return mdb_put(txn, root, &k, &v, 0);
    if (code == MDB_SUCCESS)
        code = mdb_get(txn, root, &k, &v);
    if (code == MDB_SUCCESS)
        *known = bytes_equal(lmdb_bytes(v), FORMAT);
    return code == MDB_NOTFOUND ? MDB_INVALID : code; /* LMDB's, but not ours */
}

static int open_buckets(struct lmdb_store *s, MDB_txn *txn, bool fresh, bool *known)
{
    int code = check_format(txn, fresh, known);

    for (int i = 0; i < BUCKET_COUNT && code == MDB_SUCCESS && *known; i++)
        code = mdb_dbi_open(txn, bucket_name((enum bucket)i), MDB_CREATE, &s->dbis[i]);
    return code;
}

static enum err open_content(struct lmdb_store *s, bool fresh)
{
    bool known;
    enum err e = lmdb_begin(&s->base);

    if (e != ERR_OK)
        return e;
    int code = open_buckets(s, s->writing, fresh, &known);
    if (code == MDB_SUCCESS && known)
        return lmdb_commit(&s->base);
    lmdb_abort(&s->base);
    return code != MDB_SUCCESS ? lmdb_failed(s, "open", code)
                               : lmdb_failed(s, "open", MDB_VERSION_MISMATCH);
}

/* --- the folder --------------------------------------------------------------------------- */

static enum err disk_failed(struct lmdb_store *s, const char *what, enum err e)
{
    if (e != ERR_OK)
        snprintf(s->base.failure, sizeof(s->base.failure), "%s: cannot %s: %s", s->dir, what,
                 err_text(e));
    return e;
}

static enum err on_name(enum err (*act)(struct disk *, const char *), struct lmdb_store *s,
                        const char *name)
{
    char *path = join(s->dir, name);
    enum err e = act(s->disk, path);

    mem_free(path);
    return e;
}

static enum err remove_files(struct lmdb_store *s, const char *file, const char *lock_file)
{
    enum err e = on_name(disk_remove, s, file);

    if (e == ERR_OK || e == ERR_NOT_FOUND)
        e = on_name(disk_remove, s, lock_file);
    return disk_failed(s, "remove an old copy", e == ERR_NOT_FOUND ? ERR_OK : e);
}

static enum err remove_copy(struct lmdb_store *s)
{
    return remove_files(s, "copy.mdb", "copy.mdb-lock");
}

static enum err remove_image(struct lmdb_store *s)
{
    return remove_files(s, "image.mdb", "image.mdb-lock");
}

static enum err sync_folder(struct lmdb_store *s)
{
    return disk_failed(s, "sync the folder", disk_sync_dir(s->disk, s->dir));
}

/* "copy" and ".mdb" become "store.mdb". */
static enum err rename_in(struct lmdb_store *s, const char *name, const char *ending)
{
    char from[32], to[32];

    snprintf(from, sizeof(from), "%s%s", name, ending);
    snprintf(to, sizeof(to), "store%s", ending);
    char *path = join(s->dir, from), *path_to = join(s->dir, to);
    enum err e = disk_failed(s, "rename the copy", disk_rename(s->disk, path, path_to));

    mem_free(path);
    mem_free(path_to);
    return e;
}

/*
 * The copy is durable; from the rename on, it is the store. LMDB's table of readers follows its
 * file, so that whoever opens the store by name shares the table with whoever has it open.
 */
static enum err take_name(struct lmdb_store *s, struct lmdb_store *copy, struct disk_file *dir,
                          bool *certain)
{
    enum err e = rename_in(s, copy->name, ".mdb");

    *certain = e != ERR_OK;
    if (e != ERR_OK)
        return e;
    copy->is_copy = false;
    e = rename_in(s, copy->name, ".mdb-lock");
    if (e == ERR_OK)
        e = disk_failed(s, "sync the folder", disk_sync_opened_dir(s->disk, s->dir, dir));
    *certain = e == ERR_OK;
    return e;
}

static const struct store_ops ops;

static struct lmdb_store *store_new(struct disk *disk, const char *dir, const char *name)
{
    struct lmdb_store *s = mem_new(struct lmdb_store);
    char file[32];

    snprintf(file, sizeof(file), "%s.mdb", name);

    s->base.ops = &ops;
    s->disk = disk;
    s->dir = join(dir, NULL);
    s->path = join(dir, file);
    s->name = name;
    s->region = -1;
    lmdb_resident_open(&s->resident);
    return s;
}

static enum err copy_open(struct store *base, struct store **out)
{
    struct lmdb_store *s = lmdb_store(base);
    enum err e = remove_copy(s);

    if (e != ERR_OK)
        return e;
    struct lmdb_store *copy = store_new(s->disk, s->dir, "copy");
    copy->is_copy = true;
    e = open_env(copy);
    if (e == ERR_OK)
        e = open_content(copy, true);
    if (e != ERR_OK) {
        memcpy(s->base.failure, copy->base.failure, sizeof(s->base.failure));
        ops.close(&copy->base);
        return e;
    }
    *out = &copy->base;
    return ERR_OK;
}

static enum err copy_adopt(struct store *base, struct store *copy_base, bool *certain)
{
    struct lmdb_store *s = lmdb_store(base), *copy = lmdb_store(copy_base);
    struct disk_file *dir;

    *certain = true;
    /* Now, while nothing has happened yet: without a file descriptor it could not be synced. */
    enum err e = disk_failed(s, "open the folder", disk_open_dir(s->disk, s->dir, &dir));
    if (e != ERR_OK)
        return e;
    e = take_name(s, copy, dir, certain);
    enum err closed = disk_close(s->disk, dir);
    (void)closed; /* it was only opened to be synced */
    if (e != ERR_OK)
        return e;
    mem_free(copy->path);
    copy->path = join(copy->dir, "store.mdb");
    copy->name = "store";
    lmdb_map_name(copy->region, copy->path);
    copy->lock = s->lock;
    s->lock = NULL;
    return ERR_OK;
}

/* --- the image ---------------------------------------------------------------------------- */

/* Its name lasts from the beginning: when the log comes to rely on the image, only the commits
 * count, and they sync the file. */
static enum err image_make(struct lmdb_store *s)
{
    enum err e = remove_image(s);

    if (e == ERR_OK)
        e = open_env(s);
    if (e == ERR_OK)
        e = open_content(s, true);
    return e == ERR_OK ? sync_folder(s) : e;
}

static enum err image_find(struct lmdb_store *s)
{
    struct disk_stat st;
    enum err e = disk_stat(s->disk, s->path, &st);

    if (e == ERR_NOT_FOUND)
        return e;
    if (e != ERR_OK)
        return disk_failed(s, "look at the image", e);
    e = open_env(s);
    return e == ERR_OK ? open_content(s, false) : e;
}

enum err lmdb_image_open(struct disk *disk, const char *dir, bool fresh, char *why,
                         struct store **out)
{
    struct lmdb_store *s = store_new(disk, dir, "image");
    enum err e = fresh ? image_make(s) : image_find(s);

    if (e != ERR_OK) {
        memcpy(why, s->base.failure, FAILURE_TEXT_BYTES);
        ops.close(&s->base);
        return e;
    }
    *out = &s->base;
    return ERR_OK;
}

enum err lmdb_image_remove(struct disk *disk, const char *dir, char *why)
{
    struct lmdb_store *s = store_new(disk, dir, "image");
    enum err e = remove_image(s);

    if (e != ERR_OK)
        memcpy(why, s->base.failure, FAILURE_TEXT_BYTES);
    ops.close(&s->base);
    return e;
}

/* --- opening and closing ------------------------------------------------------------------ */

/* LMDB itself would let another process write, in turn with us. What is in the batches of one would
 * then be laid over pages of the other. */
static enum err lock_folder(struct lmdb_store *s)
{
    enum err e = disk_make_dir(s->disk, s->dir, 0700, DISK_PARENTS);

    if (e == ERR_OK) {
        char *path = join(s->dir, "lock");
        e = disk_open(s->disk, path, DISK_CREATE, 0600, &s->lock);
        mem_free(path);
    }
    if (e == ERR_OK)
        e = disk_lock(s->disk, s->lock, 0);
    return disk_failed(s, "lock the folder", e);
}

/* The folder itself must be findable too, before the log relies on the store. */
static enum err sync_parent(struct lmdb_store *s)
{
    return disk_failed(s, "sync the folder above", on_name(disk_sync_dir, s, ".."));
}

/*
 * A new store is made as a copy of nothing and then takes the name, so that there is never a
 * half-made one under it. Replaces *s by it.
 */
static enum err create(struct lmdb_store **s)
{
    struct store *made;
    bool certain;
    enum err e = copy_open(&(*s)->base, &made);

    if (e == ERR_OK && (e = copy_adopt(&(*s)->base, made, &certain)) != ERR_OK)
        ops.close(made);
    if (e != ERR_OK)
        return e;
    ops.close(&(*s)->base);
    *s = lmdb_store(made);
    return sync_parent(*s);
}

/*
 * The process before may have died behind a rename and before the sync that makes it last. The
 * kernel shows the new file under the name all the same, but the disk has the old one there: what
 * is committed to the new one would be gone with the power, and the log may have been cut by then.
 */
static enum err open_existing(struct lmdb_store *s)
{
    enum err e = sync_folder(s);

    if (e == ERR_OK)
        e = sync_parent(s);
    if (e == ERR_OK)
        e = open_env(s);
    return e == ERR_OK ? open_content(s, false) : e;
}

static enum err open_or_create(struct lmdb_store **s)
{
    struct disk_stat st;
    enum err e = lock_folder(*s);

    if (e == ERR_OK)
        e = remove_copy(*s);
    if (e != ERR_OK)
        return e;
    e = disk_stat((*s)->disk, (*s)->path, &st);
    if (e == ERR_NOT_FOUND)
        return create(s);
    if (e != ERR_OK)
        return disk_failed(*s, "look at the store", e);
    return open_existing(*s);
}

enum err lmdb_store_open(struct disk *disk, const char *dir, char *why, struct store **out)
{
    struct lmdb_store *s = store_new(disk, dir, "store");
    enum err e = open_or_create(&s);

    if (e != ERR_OK) {
        memcpy(why, s->base.failure, FAILURE_TEXT_BYTES);
        ops.close(&s->base);
        return e;
    }
    *out = &s->base;
    return ERR_OK;
}

/* Happy with a half-opened store. */
static void close_store(struct store *base)
{
    struct lmdb_store *s = lmdb_store(base);

    assert(!s->writing);
    while (s->spare) {
        struct lmdb_reader *r = s->spare;
        s->spare = r->next_spare;
        mdb_txn_abort(r->txn);
        mem_free(r);
    }
    lmdb_map_forget(s->region, s->base.sizes.file_bytes);
    if (s->env)
        mdb_env_close(s->env);
    enum err closed = s->witness ? disk_close(s->disk, s->witness) : ERR_OK;
    (void)closed; /* opened for reading: nothing can be lost */
    enum err e = s->is_copy ? remove_copy(s) : s->lock ? disk_close(s->disk, s->lock) : ERR_OK;
    (void)e; /* a copy left over is removed at the next opening, and a lock goes with the process */
    lmdb_resident_close(&s->resident);
    buf_free(&s->group);
    mem_free(s->dir);
    mem_free(s->path);
    mem_free(s);
}

static const struct store_ops ops = {
    .reader_open = lmdb_reader_open,
    .reader_close = lmdb_reader_close,
    .get = lmdb_get,
    .get_part = lmdb_get_part,
    .cursor_open = lmdb_cursor_open,
    .cursor_next = lmdb_cursor_next,
    .cursor_close = lmdb_cursor_close,
    .begin = lmdb_begin,
    .put = lmdb_put,
    .remove = lmdb_remove,
    .commit = lmdb_commit,
    .abort = lmdb_abort,
    .copy_open = copy_open,
    .copy_adopt = copy_adopt,
    .read_randomly = lmdb_read_randomly,
    .close = close_store,
};
