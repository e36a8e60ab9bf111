#include "mvcc/shelf_test.h"

#include <inttypes.h>
#include <stdio.h>

static void on_damage(void *context, const char *text)
{
    struct shelf *r = context;

    buf_printf(&r->damage, "%s\n", text);
}

static void on_leased_key(void *context, struct bytes key, int64_t lease)
{
    struct shelf *r = context;

    buf_append(&r->leased, key);
    buf_printf(&r->leased, "=%" PRId64 " ", lease);
}

static void open_mvcc(struct shelf *r)
{
    struct buf why = {0};

    buf_clear(&r->leased);
    enum err e =
        mvcc_open(&(struct mvcc_options){.backend = r->stand.b,
                                         .on_leased_key = on_leased_key,
                                         .range_tombstone_keys_min = r->range_tombstone_keys_min,
                                         .on_damage = on_damage,
                                         .context = r},
                  &why, &r->m);
    if (e != ERR_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", err_text(e), buf_str(&why));
    r->index = backend_applied(r->stand.b).index;
    buf_free(&why);
}

void shelf_init(struct shelf *r, enum stand_kind kind)
{
    shelf_init_settling(r, kind, 0);
}

void shelf_init_settling(struct shelf *r, enum stand_kind kind, int64_t range_tombstone_keys_min)
{
    static unsigned number; /* several in one test have a folder each */

    *r = (struct shelf){.range_tombstone_keys_min = range_tombstone_keys_min};
    stand_init(&r->stand, kind);
    if (kind == STAND_LMDB)
        snprintf(r->stand.dir, sizeof(r->stand.dir), "%s/store%u", test_tmp_dir(), number++);
    CHECK_EQ(stand_open(&r->stand), ERR_OK);
    open_mvcc(r);
}

void shelf_free(struct shelf *r)
{
    mvcc_close(r->m);
    stand_close(&r->stand);
    stand_free(&r->stand);
    buf_free(&r->damage);
    buf_free(&r->leased);
}

void shelf_reopen(struct shelf *r)
{
    shelf_commit(r);
    mvcc_close(r->m);
    stand_close(&r->stand);
    CHECK_EQ(stand_open(&r->stand), ERR_OK);
    open_mvcc(r);
}

struct mvcc *shelf_replace(struct shelf *r)
{
    struct mvcc *before = r->m;

    shelf_commit(r);
    open_mvcc(r);
    return before;
}

void shelf_crash(struct shelf *r)
{
    mvcc_close(r->m);
    stand_crash(&r->stand);
    open_mvcc(r);
}

void shelf_begin(struct shelf *r)
{
    backend_entry_begin(r->stand.b);
    mvcc_write_begin(r->m);
}

static void end_entry(struct shelf *r)
{
    backend_entry_end(r->stand.b, (struct backend_position){++r->index, 1}, (struct bytes){0});
}

struct mvcc_changes shelf_end(struct shelf *r)
{
    struct mvcc_changes changes;

    mvcc_write_end(r->m, &changes);
    end_entry(r);
    return changes;
}

size_t shelf_put_leased(struct shelf *r, const char *key, const char *value, int64_t lease)
{
    shelf_begin(r);
    mvcc_put(r->m, bytes_of_str(key), bytes_of_str(value), lease);
    return shelf_end(r).count;
}

size_t shelf_put(struct shelf *r, const char *key, const char *value)
{
    return shelf_put_leased(r, key, value, 0);
}

size_t shelf_delete(struct shelf *r, const char *key)
{
    shelf_begin(r);
    mvcc_delete(r->m, bytes_of_str(key));
    return shelf_end(r).count;
}

enum mvcc_result shelf_compact(struct shelf *r, int64_t revision)
{
    backend_entry_begin(r->stand.b);
    enum mvcc_result a = mvcc_compact(r->m, revision);
    end_entry(r);
    return a;
}

void shelf_commit(struct shelf *r)
{
    stand_settle(&r->stand);
    if (backend_can_commit(r->stand.b))
        stand_commit(&r->stand);
}

void shelf_settle(struct shelf *r)
{
    shelf_commit(r);
    while (mvcc_compact_pending(r->m)) {
        CHECK(!mvcc_compact_waiting(r->m));
        mvcc_compact_some(r->m, 7);
        shelf_commit(r);
    }
    CHECK_EQ(mvcc_compact_finished(r->m), mvcc_compact_revision(r->m));
}

uint32_t shelf_hash(struct shelf *r, int64_t revision)
{
    struct mvcc_hash h = {.revision = revision};

    CHECK_EQ(mvcc_hash_open(r->m, &h), MVCC_OK);
    while (!mvcc_hash_some(r->m, &h, 3))
        ;
    mvcc_hash_close(r->m, &h);
    return h.hash;
}

void shelf_scan(struct shelf *r, struct mvcc_scan *s, size_t chunk, unsigned steps, struct buf *out)
{
    size_t before = out->len;

    mvcc_scan_open(r->m, s);
    while (!mvcc_scan_measure(s, steps))
        ;
    while (!mvcc_scan_read(s, chunk, steps, out))
        ;
    mvcc_scan_close(s);
    CHECK_EQ(out->len - before, s->bytes);
}
