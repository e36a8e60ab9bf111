#include "base/mem.h"
#include "mvcc/mvcc_int.h"

#include <inttypes.h>

struct restore {
    struct mvcc *m;
    const struct mvcc_options *options;
    struct buf *why;
    int64_t compacted;    /* as the notes say; -1: never */
    struct revision last; /* newest loaded */
    bool last_tombstone;
    struct {
        bool noted, loaded;
        struct buf note;
        struct key_range range;
        struct revision at;
    } settle;
    struct revision *leased; /* puts with a lease, in order */
    size_t leased_count, leased_cap;
};

/* --- one entry ---------------------------------------------------------------------------- */

static enum err corrupt(struct restore *r, struct bytes key, const char *what)
{
    buf_append_str(r->why, "bucket key, entry ");
    for (size_t i = 0; i < key.len && i < TOMBSTONE_KEY_BYTES; i++)
        buf_printf(r->why, "%02x", key.at[i]);
    buf_printf(r->why, ": %s", what);
    return ERR_CORRUPT;
}

static void note_leased(struct restore *r, struct revision at)
{
    if (r->leased_count == r->leased_cap) {
        r->leased_cap = r->leased_cap ? 2 * r->leased_cap : 64;
        r->leased = mem_resize(r->leased, r->leased_cap, sizeof(*r->leased));
    }
    r->leased[r->leased_count++] = at;
}

static bool load_put(struct restore *r, struct revision at, const struct pb_key_value *kv,
                     size_t length)
{
    if (kv->mod_revision != at.main || kv->version < 1 || kv->create_revision < 1 ||
        kv->create_revision > at.main)
        return false;
    if (kv->lease != 0 && r->options->on_leased_key)
        note_leased(r, at);
    return keyindex_load_put(r->m->index, kv->key, at, kv->create_revision, kv->version,
                             (uint32_t)length);
}

/* A bump is compacted from its first moment, and alone at its revision: another is damage. */
static bool is_bump(const struct restore *r, struct revision at, bool tombstone, struct bytes value)
{
    return kv_is_bump(value, tombstone) && at.sub == 0 && at.main <= r->compacted;
}

/* Its version is not stored: counted from the oldest bump left, it is what the index asks for. */
static bool load_bump(struct restore *r, struct revision at)
{
    struct keyindex_found before = {.created = at.main};
    bool again = keyindex_find_newest(r->m->index, BYTES(""), &before);

    assert(again == (before.version > 0));
    return keyindex_load_put(r->m->index, BYTES(""), at, before.created, before.version + 1, 0);
}

/* Whatever comes next was written after the delete that is still to be settled. */
static enum err load_range_tombstone(struct restore *r)
{
    r->settle.loaded = true;
    if (keyindex_load_range_tombstone(r->m->index, &r->settle.range, r->settle.at))
        return ERR_OK;
    buf_append_str(r->why,
                   "bucket meta, key " MVCC_RANGE_TOMBSTONE_KEY ": a delete that cannot have been");
    return ERR_CORRUPT;
}

static bool is_behind_unsettled(const struct restore *r, struct revision at)
{
    return r->settle.noted && !r->settle.loaded && revision_compare(at, r->settle.at) >= 0;
}

static enum err load_entry(struct restore *r, struct bytes key, struct bytes value)
{
    struct revision at;
    bool tombstone;
    struct pb_key_value kv = {0};

    if (!revision_decode(key, &at, &tombstone) || at.main < 1)
        return corrupt(r, key, "not a revision");
    if (revision_compare(at, r->last) <= 0) /* only a put and a tombstone of one revision can */
        return corrupt(r, key, "a revision that is there twice");
    bool bump = is_bump(r, at, tombstone, value);
    if (value.len > UINT32_MAX || (!bump && !kv_decode(value, &kv)))
        return corrupt(r, key, "not a KeyValue");
    if (is_behind_unsettled(r, at) && load_range_tombstone(r) != ERR_OK)
        return ERR_CORRUPT;
    bool fits = bump        ? load_bump(r, at)
                : tombstone ? keyindex_load_tombstone(r->m->index, kv.key, at, (uint32_t)value.len)
                            : load_put(r, at, &kv, value.len);
    if (!fits)
        return corrupt(r, key, "contradicts what is known of its key");
    r->last = at;
    r->last_tombstone = tombstone;
    return ERR_OK;
}

/* --- all entries -------------------------------------------------------------------------- */

/* Through one view: a few milliseconds, after which its pages may be reused. Somebody else may be
 * writing to the store meanwhile, and what a view sees is not given back before it is closed. */
static enum err load_some(struct restore *r, struct backend_view *v)
{
    struct revision_key space;
    struct backend_cursor c;
    struct bytes key, value, last = {0};
    enum err e = ERR_OK;

    if (r->last.main > 0)
        last = revision_encode(r->last, r->last_tombstone, &space);
    backend_cursor_open(v, BUCKET_KEY, last, &c);
    for (int i = 0; i < MVCC_VIEW_ENTRIES && e == ERR_OK; i++) {
        e = backend_cursor_next(&c, &key, &value);
        if (e == ERR_OK && !bytes_equal(key, last))
            e = load_entry(r, key, value);
        else if (e != ERR_OK && e != ERR_END)
            buf_append_str(r->why, backend_view_damage(v));
    }
    backend_cursor_close(&c);
    return e;
}

static enum err load_all(struct restore *r)
{
    enum err e;

    do {
        struct backend_view v;
        backend_view_open_on_worker(r->m->backend, &v);
        e = load_some(r, &v);
        backend_view_close(&v);
    } while (e == ERR_OK);
    /* Nothing has been written after it: it comes at the end of all entries. */
    if (e == ERR_END && is_behind_unsettled(r, r->settle.at))
        return load_range_tombstone(r);
    return e == ERR_END ? ERR_OK : e;
}

/* --- leases ------------------------------------------------------------------------------- */

/* Is this put still what its key is? Then the key hangs on the lease. That is known only when all
 * is loaded, since a later put or tombstone may take it off again. */
static void show_leased(struct restore *r, struct revision at, const struct pb_key_value *kv)
{
    struct keyindex_found found;

    if (keyindex_find_newest(r->m->index, kv->key, &found) && revision_compare(found.mod, at) == 0)
        r->options->on_leased_key(r->options->context, kv->key, kv->lease);
}

static enum err show_leased_some(struct restore *r, size_t from, struct backend_view *v)
{
    for (size_t i = from; i < r->leased_count && i < from + MVCC_VIEW_ENTRIES; i++) {
        struct revision_key space;
        struct bytes key = revision_encode(r->leased[i], false, &space), value;
        struct pb_key_value kv;
        enum err e = backend_get(v, BUCKET_KEY, key, &value);
        if (e == ERR_CORRUPT)
            buf_append_str(r->why, backend_view_damage(v));
        if (e != ERR_OK || !kv_decode(value, &kv))
            return e == ERR_CORRUPT ? e : corrupt(r, key, "has changed since it was loaded");
        show_leased(r, r->leased[i], &kv);
    }
    return ERR_OK;
}

static enum err show_all_leased(struct restore *r)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < r->leased_count && e == ERR_OK; i += MVCC_VIEW_ENTRIES) {
        struct backend_view v;
        backend_view_open_on_worker(r->m->backend, &v);
        e = show_leased_some(r, i, &v);
        backend_view_close(&v);
    }
    return e;
}

/* --- notes -------------------------------------------------------------------------------- */

static enum err read_range_tombstone_note(struct restore *r, struct backend_view *v)
{
    struct bytes value;
    enum err e = backend_get(v, BUCKET_META, BYTES(MVCC_RANGE_TOMBSTONE_KEY), &value);

    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK) {
        buf_append_str(r->why, backend_view_damage(v));
        return e;
    }
    buf_append(&r->settle.note, value);
    r->settle.noted = true;
    if (range_tombstone_decode(buf_bytes(&r->settle.note), &r->settle.range, &r->settle.at))
        return ERR_OK;
    buf_append_str(r->why, "bucket meta, key " MVCC_RANGE_TOMBSTONE_KEY ": not a note of a delete");
    return ERR_CORRUPT;
}

static enum err read_note(struct restore *r, struct backend_view *v, struct bytes name,
                          int64_t *out)
{
    struct bytes value;
    struct revision at;
    bool tombstone;
    enum err e = backend_get(v, BUCKET_META, name, &value);

    *out = -1;
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK) {
        buf_append_str(r->why, backend_view_damage(v));
        return e;
    }
    if (!revision_decode(value, &at, &tombstone) || tombstone || at.main < 0) {
        buf_printf(r->why, "bucket meta, key %.*s: not a revision", (int)name.len,
                   (const char *)name.at);
        return ERR_CORRUPT;
    }
    *out = at.main;
    return ERR_OK;
}

static enum err read_notes(struct restore *r, int64_t *scheduled, int64_t *finished)
{
    struct backend_view v;

    backend_view_open_on_worker(r->m->backend, &v);
    enum err e = read_note(r, &v, BYTES(MVCC_SCHEDULED_KEY), scheduled);
    if (e == ERR_OK)
        e = read_note(r, &v, BYTES(MVCC_FINISHED_KEY), finished);
    if (e == ERR_OK)
        e = read_range_tombstone_note(r, &v);
    backend_view_close(&v);
    return e;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/*
 * A compaction may have removed the newest entry of all, if that was a tombstone, before it was
 * noted as finished; so the notes, too, say how far revisions have come.
 */
static void take_up(struct mvcc *m, int64_t newest, int64_t scheduled, int64_t finished)
{
    m->finished = finished;
    m->finished_durable = finished;
    m->removed = -1;
    m->compact_revision = larger(scheduled, finished);
    m->revision = larger(larger(newest, 1), m->compact_revision);
    m->now = (struct compaction){.revision = scheduled > finished ? scheduled : -1};
    m->then = (struct compaction){.revision = -1};
}

enum err mvcc_restore(struct mvcc *m, const struct mvcc_options *options, struct buf *why)
{
    struct restore r = {.m = m, .options = options, .why = why, .last = {0, -1}};
    int64_t scheduled, finished;

    enum err e = read_notes(&r, &scheduled, &finished);
    if (e == ERR_OK) {
        r.compacted = larger(scheduled, finished);
        e = load_all(&r);
    }
    if (e == ERR_OK) {
        keyindex_publish(m->index);
        take_up(m, larger(r.last.main, r.settle.at.main), scheduled, finished);
        e = show_all_leased(&r);
    }
    mem_free(r.leased);
    buf_free(&r.settle.note);
    return e;
}
