#include "backend/lmdb_int.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/mem.h"

#include <stdio.h>

/* --- checksums ---------------------------------------------------------------------------- */

uint32_t lmdb_checksum(enum bucket bucket, struct bytes key, struct bytes value)
{
    /* With the lengths told apart, a byte cannot wander from key to value unnoticed. */
    uint64_t head = (uint64_t)bucket << 32 | key.len;
    uint32_t crc = crc32c(0, bytes_of(&head, sizeof(head)));

    return crc32c(crc32c(crc, key), value);
}

bool lmdb_verify(enum bucket bucket, struct bytes key, struct bytes stored, struct bytes *value)
{
    uint32_t crc;

    if (stored.len < CHECKSUM_BYTES)
        return false;
    memcpy(&crc, stored.at, sizeof(crc));
    *value = bytes_of(stored.at + CHECKSUM_BYTES, stored.len - CHECKSUM_BYTES);
    return crc == lmdb_checksum(bucket, key, *value);
}

enum err lmdb_damaged(const struct lmdb_store *s, enum bucket bucket, struct bytes key,
                      const char *what, char *text, size_t size)
{
    char hex[2 * 40 + 1] = "";

    for (size_t i = 0; i < key.len && i < 40; i++)
        snprintf(hex + 2 * i, 3, "%02x", key.at[i]);
    snprintf(text, size, "%s: bucket %s, key %s%s: %s", s->path, bucket_name(bucket), hex,
             key.len > 40 ? "..." : "", what);
    return ERR_CORRUPT;
}

/* Nothing but damage makes a read fail. */
static enum err damaged(struct lmdb_reader *r, enum bucket bucket, struct bytes key,
                        const char *what)
{
    return lmdb_damaged(r->store, bucket, key, what, r->base.damage, sizeof(r->base.damage));
}

/* --- readers ------------------------------------------------------------------------------ */

static struct lmdb_reader *lmdb_reader(struct store_reader *r)
{
    return container_of(r, struct lmdb_reader, base);
}

enum err lmdb_reader_open(struct store *base, struct store_reader **out)
{
    struct lmdb_store *s = lmdb_store(base);
    struct lmdb_reader *r = s->spare;
    int code;

    if (r) {
        s->spare = r->next_spare;
        code = mdb_txn_renew(r->txn);
    } else {
        r = mem_new(struct lmdb_reader);
        r->store = s;
        code = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &r->txn);
    }
    if (code != MDB_SUCCESS) {
        if (r->txn)
            mdb_txn_abort(r->txn);
        mem_free(r);
        return lmdb_failed(s, "begin reading", code);
    }
    r->base.damage[0] = '\0';
    *out = &r->base;
    return ERR_OK;
}

void lmdb_reader_close(struct store_reader *base)
{
    struct lmdb_reader *r = lmdb_reader(base);

    /* Reset, and not ended: it holds no pages then, but its place among LMDB's readers, which a
     * new one would have to look for under a lock. */
    mdb_txn_reset(r->txn);
    r->next_spare = r->store->spare;
    r->store->spare = r;
}

/* A value as it lies there, its checksum in front. */
static enum err find_stored(struct lmdb_reader *r, enum bucket bucket, struct bytes key,
                            struct bytes *stored)
{
    MDB_val k = lmdb_val(key), v;
    int code = mdb_get(r->txn, r->store->dbis[bucket], &k, &v);

    if (code == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (code != MDB_SUCCESS)
        return damaged(r, bucket, key, mdb_strerror(code));
    *stored = lmdb_bytes(v);
    return ERR_OK;
}

static enum err get_stored(struct lmdb_reader *r, enum bucket bucket, struct bytes key,
                           struct bytes *value)
{
    struct bytes stored = {0};
    enum err e = find_stored(r, bucket, key, &stored);

    if (e != ERR_OK)
        return e;
    lmdb_resident_touch(&r->store->resident, &r->touched, stored);
    if (!lmdb_verify(bucket, key, stored, value))
        return damaged(r, bucket, key, "checksum mismatch");
    return ERR_OK;
}

enum err lmdb_get(struct store_reader *base, enum bucket bucket, struct bytes key,
                  struct bytes *value)
{
    struct lmdb_reader *r = lmdb_reader(base);

    if (!group_holds(key))
        return get_stored(r, bucket, key, value);
    struct bytes group = {0};
    enum err e = get_stored(r, bucket, group_key(key), &group);
    if (e == ERR_OK)
        e = lmdb_group_get(group, key, value);
    return e == ERR_CORRUPT ? damaged(r, bucket, key, "malformed group of long keys") : e;
}

/* A value in a group of long keys is not worth it: that is checked as a whole. */
enum err lmdb_get_part(struct store_reader *base, enum bucket bucket, struct bytes key, size_t from,
                       size_t len, struct bytes *part)
{
    struct lmdb_reader *r = lmdb_reader(base);
    struct bytes whole = {0};
    bool is_alone = !group_holds(key);
    enum err e =
        is_alone ? find_stored(r, bucket, key, &whole) : lmdb_get(base, bucket, key, &whole);

    if (e != ERR_OK)
        return e;
    if (is_alone)
        from += CHECKSUM_BYTES;
    if (store_part_of(whole, from, len, part) != ERR_OK)
        return damaged(r, bucket, key, "shorter than it was");
    if (is_alone)
        lmdb_resident_touch(&r->store->resident, &r->touched, *part);
    return ERR_OK;
}

/* --- cursors ------------------------------------------------------------------------------ */

struct store_cursor {
    struct lmdb_reader *reader;
    enum bucket bucket;
    MDB_cursor *cursor;
    struct buf from;
    bool begun;
    struct bytes group_name; /* the stored key of the group being walked, and what is left of it */
    struct bytes group;
};

struct store_cursor *lmdb_cursor_open(struct store_reader *base, enum bucket bucket,
                                      struct bytes from)
{
    struct lmdb_reader *r = lmdb_reader(base);
    struct store_cursor *c = mem_new(struct store_cursor);

    c->reader = r;
    c->bucket = bucket;
    buf_append(&c->from, from);
    int code = mdb_cursor_open(r->txn, r->store->dbis[bucket], &c->cursor);
    if (code != MDB_SUCCESS) /* only memory can be missing */
        fatal("cannot read the page store: %s", mdb_strerror(code));
    return c;
}

void lmdb_cursor_close(struct store_cursor *c)
{
    mdb_cursor_close(c->cursor);
    buf_free(&c->from);
    mem_free(c);
}

/* The next stored item, at first the one that holds the first key >= from. */
static int step(struct store_cursor *c, MDB_val *k, MDB_val *v)
{
    MDB_cursor_op how = c->begun ? MDB_NEXT : c->from.len > 0 ? MDB_SET_RANGE : MDB_FIRST;
    struct bytes from = buf_bytes(&c->from);

    c->begun = true;
    *k = lmdb_val(group_holds(from) ? group_key(from) : from);
    return mdb_cursor_get(c->cursor, k, v, how);
}

static enum err next_in_group(struct store_cursor *c, struct bytes *key, struct bytes *value)
{
    if (!lmdb_group_take(&c->group, key, value))
        return damaged(c->reader, c->bucket, c->group_name, "malformed group of long keys");
    return ERR_OK;
}

static enum err next_stored(struct store_cursor *c, struct bytes *key, struct bytes *value)
{
    MDB_val k, v;
    int code = step(c, &k, &v);

    if (code == MDB_NOTFOUND)
        return ERR_END;
    if (code != MDB_SUCCESS)
        return damaged(c->reader, c->bucket, buf_bytes(&c->from), mdb_strerror(code));
    *key = lmdb_bytes(k);
    lmdb_resident_touch(&c->reader->store->resident, &c->reader->touched, lmdb_bytes(v));
    if (!lmdb_verify(c->bucket, *key, lmdb_bytes(v), value))
        return damaged(c->reader, c->bucket, *key, "checksum mismatch");
    if (!group_holds(*key))
        return ERR_OK;
    c->group_name = *key;
    c->group = *value;
    return next_in_group(c, key, value);
}

enum err lmdb_cursor_next(struct store_cursor *c, struct bytes *key, struct bytes *value)
{
    for (;;) {
        enum err e = c->group.len > 0 ? next_in_group(c, key, value) : next_stored(c, key, value);
        /* Only in the first group can there be names before the one asked for. */
        if (e == ERR_OK && group_holds(*key) && bytes_compare(*key, buf_bytes(&c->from)) < 0)
            continue;
        return e;
    }
}
