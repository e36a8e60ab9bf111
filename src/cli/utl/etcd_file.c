#include "cli/utl/etcd_file.h"

#include "base/rng.h"
#include "cli/utl/etcdutl.h"
#include "io/disk.h"
#include "pb/codec.h"

#include <inttypes.h>

bool etcd_file_fail(const struct etcd_file *f, enum err e)
{
    if (f->fault.what)
        utl_fail(UTL_ERROR, "%s: offset %" PRIu64 ": %s", f->path, f->fault.offset, f->fault.what);
    else
        utl_fail(UTL_ERROR, "%s: %s", f->path, err_text(e));
    return false;
}

bool etcd_file_open(struct etcd_file *f, struct disk *disk, const char *path)
{
    *f = (struct etcd_file){.disk = disk, .path = path};
    enum err e = disk_open(disk, path, DISK_READ_ONLY, 0, &f->file);
    if (e == ERR_NOT_FOUND) {
        utl_fail(UTL_ERROR, "stat %s: no such file or directory", path);
        return false;
    }
    if (e == ERR_OK)
        e = disk_lock(disk, f->file, DISK_FLOCK | DISK_SHARED);
    if (e == ERR_OK)
        e = bolt_file_init(&f->source, disk, f->file);
    if (e == ERR_OK && f->source.source.size % 512 == 32)
        f->source.source.size -= 32; /* a digest, which is for whoever restores */
    if (e == ERR_OK) {
        e = bolt_open(&f->source.source, BOLT_LIVE, &f->fault, &f->bolt);
        if (e == ERR_CORRUPT) {
            utl_fail(UTL_ERROR, "invalid database");
            return false;
        }
    }
    return e == ERR_OK || etcd_file_fail(f, e);
}

void etcd_file_close(struct etcd_file *f)
{
    bolt_close(f->bolt);
    if (f->file)
        (void)!disk_close(f->disk, f->file); /* it was only read */
}

bool etcd_file_meta(struct etcd_file *f, const char *key, size_t size_max, struct buf *out)
{
    struct bolt_cursor *c = NULL;
    struct bolt_entry entry;
    bool found = bolt_cursor_open(f->bolt, BYTES("meta"), &c) == ERR_OK &&
                 bolt_cursor_seek(c, bytes_of_str(key), &entry) == ERR_OK &&
                 bytes_equal(entry.key, bytes_of_str(key)) &&
                 bolt_cursor_value(c, size_max, out) == ERR_OK;

    bolt_cursor_close(c);
    return found;
}

/* ---- Revisions ---- */

static int64_t be64(const uint8_t *at)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | at[i];
    return (int64_t)value;
}

static bool read_revision(struct bytes key, struct etcd_revision *out)
{
    bool is_tombstone = key.len == 18 && key.at[17] == 't';

    if ((key.len != 17 && !is_tombstone) || key.at[8] != '_')
        return false;
    *out = (struct etcd_revision){.main = be64(key.at),
                                  .sub = be64(key.at + 9),
                                  .is_tombstone = is_tombstone,
                                  .stored_key = key};
    return true;
}

bool etcd_file_walk(struct etcd_file *f, etcd_file_visit *visit, void *context)
{
    struct bolt_cursor *c;
    struct bolt_entry entry;
    struct buf value = {0};
    struct utl_progress progress;
    enum err e = bolt_cursor_open(f->bolt, BYTES("key"), &c);

    if (e == ERR_NOT_FOUND)
        return true;
    if (e != ERR_OK)
        return etcd_file_fail(f, e);
    utl_progress_begin(&progress, "reading", f->source.source.size);
    while (e == ERR_OK && (e = bolt_cursor_next(c, &entry)) == ERR_OK) {
        struct etcd_revision r;
        buf_clear(&value);
        if (!read_revision(entry.key, &r))
            e = ERR_CORRUPT;
        else
            e = bolt_cursor_value(c, BOLT_VALUE_BYTES_MAX, &value);
        if (e == ERR_OK) {
            r.stored_value = buf_bytes(&value);
            visit(context, &r);
            utl_progress_add(&progress, entry.key.len + value.len);
        }
    }
    utl_progress_end(&progress);
    buf_free(&value);
    bolt_cursor_close(c);
    return e == ERR_END || etcd_file_fail(f, e);
}

/* ---- Keys ---- */

void etcd_keys_init(struct etcd_keys *k)
{
    *k = (struct etcd_keys){0};
    map_init(&k->map, MAP_BYTES, 1); /* no client is here to choose keys that collide for long */
}

void etcd_keys_free(struct etcd_keys *k)
{
    map_free(&k->map);
    arena_free(&k->arena);
}

const struct etcd_key *etcd_keys_find(const struct etcd_keys *k, const struct etcd_revision *r,
                                      struct arena *scratch)
{
    struct pb_key_value kv;

    if (pb_decode_key_value(r->stored_value, scratch, &kv) != ERR_OK)
        return NULL;
    return map_get(&k->map, kv.key);
}

void etcd_keys_add(struct etcd_keys *k, const struct etcd_revision *r)
{
    struct arena scratch = {0};
    struct pb_key_value kv;

    if (pb_decode_key_value(r->stored_value, &scratch, &kv) != ERR_OK) {
        k->is_damaged = true;
    } else {
        struct etcd_key *key = map_get(&k->map, kv.key);
        if (!key) {
            key = arena_new(&k->arena, struct etcd_key);
            key->name = arena_copy(&k->arena, kv.key);
            map_put(&k->map, key->name, key);
        }
        key->main = r->main;
        key->sub = r->sub;
        key->is_tombstone = r->is_tombstone;
    }
    arena_free(&scratch);
}
