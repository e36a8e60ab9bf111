#include "mvcc/mvcc_rig_test.h"

#include <inttypes.h>
#include <stdio.h>

static void on_damage(void *context, const char *text)
{
    struct mvcc_rig *r = context;

    buf_printf(&r->damage, "%s\n", text);
}

static void on_leased_key(void *context, struct bytes key, int64_t lease)
{
    struct mvcc_rig *r = context;

    buf_append(&r->leased, key);
    buf_printf(&r->leased, "=%" PRId64 " ", lease);
}

static void open_mvcc(struct mvcc_rig *r)
{
    struct buf why = {0};

    buf_clear(&r->leased);
    enum err e =
        mvcc_open(&(struct mvcc_options){.backend = r->backend_rig.b,
                                         .on_leased_key = on_leased_key,
                                         .range_tombstone_keys_min = r->range_tombstone_keys_min,
                                         .on_damage = on_damage,
                                         .context = r},
                  &why, &r->m);
    if (e != ERR_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", err_text(e), buf_str(&why));
    r->index = backend_applied(r->backend_rig.b).index;
    buf_free(&why);
}

void mvcc_rig_init(struct mvcc_rig *r, enum backend_rig_kind kind)
{
    mvcc_rig_init_settling(r, kind, 0);
}

void mvcc_rig_init_settling(struct mvcc_rig *r, enum backend_rig_kind kind,
                            int64_t range_tombstone_keys_min)
{
    static unsigned number; /* several in one test have a folder each */

    *r = (struct mvcc_rig){.range_tombstone_keys_min = range_tombstone_keys_min};
    backend_rig_init(&r->backend_rig, kind);
    if (kind == BACKEND_RIG_LMDB)
        snprintf(r->backend_rig.dir, sizeof(r->backend_rig.dir), "%s/store%u", test_tmp_dir(),
                 number++);
    CHECK_EQ(backend_rig_open(&r->backend_rig), ERR_OK);
    open_mvcc(r);
}

void mvcc_rig_free(struct mvcc_rig *r)
{
    mvcc_close(r->m);
    backend_rig_close(&r->backend_rig);
    backend_rig_free(&r->backend_rig);
    buf_free(&r->damage);
    buf_free(&r->leased);
}

void mvcc_rig_reopen(struct mvcc_rig *r)
{
    mvcc_rig_commit(r);
    mvcc_close(r->m);
    backend_rig_close(&r->backend_rig);
    CHECK_EQ(backend_rig_open(&r->backend_rig), ERR_OK);
    open_mvcc(r);
}

struct mvcc *mvcc_rig_replace(struct mvcc_rig *r)
{
    struct mvcc *before = r->m;

    mvcc_rig_commit(r);
    open_mvcc(r);
    return before;
}

void mvcc_rig_crash(struct mvcc_rig *r)
{
    mvcc_close(r->m);
    backend_rig_crash(&r->backend_rig);
    open_mvcc(r);
}

void mvcc_rig_begin(struct mvcc_rig *r)
{
    backend_entry_begin(r->backend_rig.b);
    mvcc_write_begin(r->m);
}

static void end_entry(struct mvcc_rig *r)
{
    backend_entry_end(r->backend_rig.b, (struct backend_position){++r->index, 1},
                      (struct bytes){0});
}

struct mvcc_changes mvcc_rig_end(struct mvcc_rig *r)
{
    struct mvcc_changes changes;

    mvcc_write_end(r->m, &changes);
    end_entry(r);
    return changes;
}

size_t mvcc_rig_put_leased(struct mvcc_rig *r, const char *key, const char *value, int64_t lease)
{
    mvcc_rig_begin(r);
    mvcc_put(r->m, bytes_of_str(key), bytes_of_str(value), lease);
    return mvcc_rig_end(r).count;
}

size_t mvcc_rig_put(struct mvcc_rig *r, const char *key, const char *value)
{
    return mvcc_rig_put_leased(r, key, value, 0);
}

size_t mvcc_rig_delete(struct mvcc_rig *r, const char *key)
{
    mvcc_rig_begin(r);
    mvcc_delete(r->m, bytes_of_str(key));
    return mvcc_rig_end(r).count;
}

enum mvcc_result mvcc_rig_compact(struct mvcc_rig *r, int64_t revision)
{
    backend_entry_begin(r->backend_rig.b);
    enum mvcc_result a = mvcc_compact(r->m, revision);
    end_entry(r);
    return a;
}

void mvcc_rig_commit(struct mvcc_rig *r)
{
    backend_rig_settle(&r->backend_rig);
    if (backend_can_commit(r->backend_rig.b))
        backend_rig_commit(&r->backend_rig);
}

void mvcc_rig_settle(struct mvcc_rig *r)
{
    mvcc_rig_commit(r);
    while (mvcc_compact_pending(r->m)) {
        CHECK(!mvcc_compact_waiting(r->m));
        mvcc_compact_some(r->m, 7);
        mvcc_rig_commit(r);
    }
    CHECK_EQ(mvcc_compact_finished(r->m), mvcc_compact_revision(r->m));
}

bool mvcc_rig_warm(struct mvcc_rig *r)
{
    struct mvcc_warmup warmup;

    if (!mvcc_take_warmup(r->m, false, &warmup))
        return false;
    mvcc_warmup_read(&warmup);
    mvcc_warmed(&warmup);
    return true;
}

uint32_t mvcc_rig_hash(struct mvcc_rig *r, int64_t revision)
{
    struct mvcc_hash h = {.revision = revision};

    CHECK_EQ(mvcc_hash_open(r->m, &h), MVCC_OK);
    while (!mvcc_hash_some(r->m, &h, 3))
        (void)mvcc_rig_warm(r);
    mvcc_hash_close(r->m, &h);
    return h.hash;
}

void mvcc_rig_scan(struct mvcc_rig *r, struct mvcc_scan *s, size_t chunk, unsigned steps,
                   struct buf *out)
{
    size_t before = out->len;

    mvcc_scan_open(r->m, s);
    while (!mvcc_scan_measure(s, steps))
        (void)mvcc_rig_warm(r);
    while (!mvcc_scan_read(s, chunk, steps, out))
        (void)mvcc_rig_warm(r);
    mvcc_scan_close(s);
    CHECK_EQ(out->len - before, s->bytes);
}
