#include "backend/lmdb_int.h"

#include "base/assert.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* --- before it is needed --- */

/* A slot has 64 bytes, and the head before the slots fewer than eight of them. */
enum { LOCK_BYTES = 8 * KIB };
static_assert((LMDB_READERS_MAX + 8) * 64 <= LOCK_BYTES, "all slots have their space");

/*
 * The table of readers is written through a map, where want of space is no error but a SIGBUS: on a
 * full disk the first reader of a page of slots would end the process. So it has its space before
 * LMDB maps it, which takes a longer table for one with more slots. Here and not later: closing any
 * descriptor of the file gives up the locks that LMDB has on it.
 */
enum err lmdb_reserve_lock(struct lmdb_store *s)
{
    struct buf path = {0};
    struct disk_file *f;

    buf_printf(&path, "%s-lock", s->path);
    enum err e = disk_open(s->disk, buf_str(&path), DISK_CREATE, 0600, &f);
    buf_free(&path);
    if (e == ERR_OK) {
        e = disk_allocate(s->disk, f, 0, LOCK_BYTES, 0);
        enum err closed = disk_close(s->disk, f);
        e = e != ERR_OK ? e : closed;
    }
    if (e != ERR_OK)
        snprintf(s->base.failure, sizeof(s->base.failure),
                 "%s: cannot reserve the table of readers: %s", s->path, err_text(e));
    return e;
}

/*
 * The kernel tells of pages that it could not write once to each opening of a file. LMDB hears of
 * it by its own, and passes a number on that others have as well. So there is another opening,
 * older than any commit, which nobody else asks: if a sync has failed, the next one there fails,
 * too.
 */
enum err lmdb_open_witness(struct lmdb_store *s)
{
    enum err e = disk_open(s->disk, s->path, DISK_READ_ONLY, 0, &s->witness);

    if (e != ERR_OK)
        snprintf(s->base.failure, sizeof(s->base.failure), "%s: cannot open it once more: %s",
                 s->path, err_text(e));
    return e;
}

/* --- when there is none --- */

/* A little of it, behind the end of the file, where it stays: LMDB will write there. */
bool lmdb_has_space(struct lmdb_store *s)
{
    struct stat st;
    int fd;

    if (mdb_env_get_fd(s->env, &fd) != MDB_SUCCESS || fstat(fd, &st) != 0)
        return true; /* let whoever writes find out */
    int result = fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, LMDB_SPACE_BYTES);
    return result == 0 || (errno != ENOSPC && errno != EDQUOT);
}

/* Also after the root was written, or half of it: then LMDB itself gives up, for good. */
static bool is_usable(struct lmdb_store *s)
{
    MDB_txn *txn;

    if (mdb_txn_begin(s->env, NULL, 0, &txn) != MDB_SUCCESS)
        return false;
    mdb_txn_abort(txn);
    return true;
}

/*
 * Everything else that could have failed was a write of pages that nobody needs. "Input/output
 * error" for a write is believed the second time: if there is space now, there may have been none a
 * moment ago.
 */
enum err lmdb_commit_failed(struct lmdb_store *s, int code)
{
    enum err e = lmdb_failed(s, "commit", code);

    if (e != ERR_NO_SPACE && code != EIO)
        return e;
    if (disk_sync(s->disk, s->witness) != ERR_OK)
        return lmdb_failed(s, "sync", EIO);
    if (!is_usable(s))
        return lmdb_failed(s, "write the root", EIO);
    if (code == EIO && lmdb_has_space(s)) {
        if (s->had_space)
            return e;
        s->had_space = true;
    }
    s->lacks_space = true;
    if (code == EIO)
        lmdb_failed(s, "commit", ENOSPC);
    return ERR_NO_SPACE;
}
