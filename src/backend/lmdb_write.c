#include "backend/lmdb_int.h"

#include "base/assert.h"

#include <errno.h>

enum err lmdb_begin(struct store *base)
{
    struct lmdb_store *s = lmdb_store(base);

    assert(!s->writing);
    base->dirty_bytes = 0;
    if (s->lacks_space && !lmdb_has_space(s))
        return lmdb_failed(s, "begin a transaction", ENOSPC);
    int code = mdb_txn_begin(s->env, NULL, 0, &s->writing);
    if (code == MDB_SUCCESS)
        return ERR_OK;
    s->writing = NULL;
    return lmdb_failed(s, "begin a transaction", code);
}

/* What a transaction has opened dies with it. */
static void end_writing(struct lmdb_store *s)
{
    s->writing = NULL;
    for (int i = 0; i < BUCKET_COUNT; i++)
        s->writers[i].cursor = NULL;
}

static void note_last(struct lmdb_writer *w, struct bytes key)
{
    memcpy(w->last, key.at, key.len);
    w->last_len = key.len;
}

static enum err writer_open(struct lmdb_store *s, enum bucket bucket)
{
    struct lmdb_writer *w = &s->writers[bucket];
    MDB_val k, v;

    assert(s->writing);
    if (w->cursor)
        return ERR_OK;
    int code = mdb_cursor_open(s->writing, s->dbis[bucket], &w->cursor);
    if (code != MDB_SUCCESS)
        return lmdb_failed(s, "open a cursor", code);
    /* LMDB refuses to append what is not behind the last key, so that is kept at hand. If it is
     * deleted meanwhile it is only too high: then a put takes the usual way. */
    w->last_len = 0;
    code = mdb_cursor_get(w->cursor, &k, &v, MDB_LAST);
    if (code == MDB_NOTFOUND)
        return ERR_OK;
    if (code != MDB_SUCCESS)
        return lmdb_failed(s, "find the last key", code);
    if (k.mv_size > GROUP_KEY_BYTES)
        return lmdb_failed(s, "find the last key", MDB_CORRUPTED);
    note_last(w, lmdb_bytes(k));
    return ERR_OK;
}

static enum err put_stored(struct lmdb_store *s, enum bucket bucket, struct bytes key,
                           struct bytes value)
{
    struct lmdb_writer *w = &s->writers[bucket];
    /* Appending leaves full pages behind, where splitting would leave half-full ones. */
    bool appends = bytes_compare(key, bytes_of(w->last, w->last_len)) > 0;
    MDB_val k = lmdb_val(key);
    MDB_val v = {.mv_size = CHECKSUM_BYTES + value.len};
    int code = mdb_cursor_put(w->cursor, &k, &v, MDB_RESERVE | (appends ? MDB_APPEND : 0));

    if (code != MDB_SUCCESS)
        return lmdb_failed(s, "put", code);
    uint32_t crc = lmdb_checksum(bucket, key, value);
    memcpy(v.mv_data, &crc, sizeof(crc));
    if (value.len > 0)
        memcpy((uint8_t *)v.mv_data + CHECKSUM_BYTES, value.at, value.len);
    if (appends)
        note_last(w, key);
    else
        s->jumps++;
    return ERR_OK;
}

/*
 * A page is copied when it is first changed, so one that is still in the map will be. The branches
 * above it are not counted, which hundreds of leaves share where keys come in their order, nor is
 * the neighbour that a leaf is merged with when little is left in it: so what is copied is between
 * one and two times what is counted, and a page that is emptied is used again within the
 * transaction.
 */
static bool is_clean(const struct lmdb_store *s, const void *at)
{
    size_t offset = (size_t)((const char *)at - s->resident.map);

    return !s->resident.map || offset < s->resident.map_bytes;
}

static enum err remove_stored(struct lmdb_store *s, enum bucket bucket, struct bytes key)
{
    MDB_cursor *cursor = s->writers[bucket].cursor;
    MDB_val k = lmdb_val(key), v;
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_KEY);

    if (code == MDB_NOTFOUND)
        return ERR_OK; /* put and deleted within one batch */
    if (code == MDB_SUCCESS) {
        if (is_clean(s, k.mv_data))
            s->base.dirty_bytes += s->page_bytes;
        lmdb_resident_touch(&s->resident, &s->touched, lmdb_bytes(v));
        code = mdb_cursor_del(cursor, 0);
    }
    return code == MDB_SUCCESS ? ERR_OK : lmdb_failed(s, "delete", code);
}

/* Reads the group, changes it in memory, and puts it back, or away when it is empty. */
static enum err change_group(struct lmdb_store *s, enum bucket bucket, struct bytes key,
                             const struct bytes *value)
{
    struct bytes at = group_key(key), group = {0};
    MDB_val k = lmdb_val(at), v;
    int code = mdb_cursor_get(s->writers[bucket].cursor, &k, &v, MDB_SET_KEY);

    if (code != MDB_SUCCESS && code != MDB_NOTFOUND)
        return lmdb_failed(s, "read a group of long keys", code);
    if (code == MDB_SUCCESS && !lmdb_verify(bucket, at, lmdb_bytes(v), &group))
        return lmdb_damaged(s, bucket, at, "checksum mismatch", s->base.failure,
                            sizeof(s->base.failure));
    buf_clear(&s->group);
    if (lmdb_group_change(group, key, value, &s->group) != ERR_OK)
        return lmdb_damaged(s, bucket, at, "malformed group of long keys", s->base.failure,
                            sizeof(s->base.failure));
    if (s->group.len > BACKEND_VALUE_BYTES_MAX)
        return lmdb_failed(s, "grow a group of long keys", MDB_BAD_VALSIZE);
    if (s->group.len == 0)
        return remove_stored(s, bucket, at);
    return put_stored(s, bucket, at, buf_bytes(&s->group));
}

enum err lmdb_put(struct store *base, enum bucket bucket, struct bytes key, struct bytes value)
{
    struct lmdb_store *s = lmdb_store(base);
    enum err e = writer_open(s, bucket);

    if (e != ERR_OK)
        return e;
    return group_holds(key) ? change_group(s, bucket, key, &value)
                            : put_stored(s, bucket, key, value);
}

enum err lmdb_remove(struct store *base, enum bucket bucket, struct bytes key)
{
    struct lmdb_store *s = lmdb_store(base);
    enum err e = writer_open(s, bucket);

    if (e != ERR_OK)
        return e;
    return group_holds(key) ? change_group(s, bucket, key, NULL) : remove_stored(s, bucket, key);
}

/* --- the end of a transaction ------------------------------------------------------------- */

static uint64_t pages_of(const MDB_stat *st)
{
    return st->ms_branch_pages + st->ms_leaf_pages + st->ms_overflow_pages;
}

/* Every tree knows how many pages it has; two more are the roots. */
enum err lmdb_measure(struct lmdb_store *s, MDB_txn *txn)
{
    enum { FREE_PAGES_DBI = 0, MAIN_DBI = 1 };
    uint64_t used = 2;
    MDB_stat st = {0};

    for (int i = 0; i < BUCKET_COUNT + 2; i++) {
        MDB_dbi dbi = i < BUCKET_COUNT ? s->dbis[i] : i == BUCKET_COUNT ? FREE_PAGES_DBI : MAIN_DBI;
        int code = mdb_stat(txn, dbi, &st);
        if (code != MDB_SUCCESS)
            return lmdb_failed(s, "measure", code);
        used += pages_of(&st);
    }
    s->base.sizes.used_bytes = used * st.ms_psize;
    return ERR_OK;
}

static void measure_file(struct lmdb_store *s)
{
    MDB_envinfo info;
    MDB_stat st;

    /* These only fail on NULL. */
    int code = mdb_env_info(s->env, &info);
    assert(code == MDB_SUCCESS);
    code = mdb_env_stat(s->env, &st);
    assert(code == MDB_SUCCESS);
    s->base.sizes.file_bytes = (info.me_last_pgno + 1) * st.ms_psize;
}

enum err lmdb_commit(struct store *base)
{
    struct lmdb_store *s = lmdb_store(base);
    enum err e = lmdb_measure(s, s->writing);

    if (e != ERR_OK) {
        lmdb_abort(base);
        return e;
    }
    int code = mdb_txn_commit(s->writing);
    end_writing(s);
    if (code != MDB_SUCCESS)
        return lmdb_commit_failed(s, code);
    s->lacks_space = s->had_space = false;
    measure_file(s);
    lmdb_resident_committed(&s->resident, &s->touched, s->jumps, s->base.sizes.file_bytes);
    s->jumps = 0;
    return ERR_OK;
}

void lmdb_abort(struct store *base)
{
    struct lmdb_store *s = lmdb_store(base);

    if (!s->writing)
        return;
    mdb_txn_abort(s->writing);
    end_writing(s);
}
