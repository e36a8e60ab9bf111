#include "snap/db.h"

#include "base/list.h"
#include "base/mem.h"
#include "io/disk.h"
#include "pb/codec.h"
#include "snap/bolt_int.h"

#include <inttypes.h>
#include <stdarg.h>

/* ---- Reasons ---- */

void db_say_v(struct buf *why, const char *path, const char *format, va_list args)
{
    buf_printf(why, "%s%s: ", why->len > 0 ? "; " : "", path);
    buf_vprintf(why, format, args);
}

void db_say(struct buf *why, const char *path, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    db_say_v(why, path, format, args);
    va_end(args);
}

static enum err damaged(struct db *db, uint64_t offset, const char *what)
{
    db_say(db->o.why, db->o.path, "offset %" PRIu64 ": %s", offset, what);
    return ERR_CORRUPT;
}

enum err db_fail(struct db *db, enum err e)
{
    if (e == ERR_OK)
        return ERR_OK;
    if (e == ERR_CORRUPT && db->fault.what)
        return damaged(db, db->fault.offset, db->fault.what);
    db_say(db->o.why, db->o.path, "cannot read: %s", err_text(e));
    return e;
}

/* ---- Opening ---- */

static enum err read_unless_canceled(struct bolt_source *source, uint64_t offset, uint8_t *into,
                                     size_t size)
{
    struct db *db = container_of(source, struct db, source);
    const atomic_bool *canceled = db->o.is_canceled;

    if (canceled && atomic_load_explicit(canceled, memory_order_relaxed))
        return ERR_CANCELED;
    return db->whole.source.read(&db->whole.source, offset, into, size);
}

/* One of the numbers in `meta`; 0 where it is missing. */
static enum err read_number(struct db *db, struct bolt_cursor *c, struct bytes key, uint64_t *out)
{
    struct bolt_entry entry;
    uint8_t raw[8];
    enum err e = bolt_cursor_seek(c, key, &entry);

    *out = 0;
    if (e == ERR_END || (e == ERR_OK && !bytes_equal(entry.key, key)))
        return ERR_OK;
    if (e == ERR_OK && entry.value_bytes != sizeof(raw))
        return damaged(db, bolt_cursor_span(c).at, "a number in bucket meta without 8 bytes");
    if (e == ERR_OK)
        e = bolt_cursor_read(c, 0, raw, sizeof(raw));
    if (e != ERR_OK)
        return db_fail(db, e);
    for (size_t i = 0; i < sizeof(raw); i++)
        *out = *out << 8 | raw[i];
    return ERR_OK;
}

static enum err read_position(struct db *db)
{
    struct bolt_cursor *c;
    enum err e = bolt_cursor_open(db->bolt, BYTES("meta"), &c);

    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK)
        return db_fail(db, e);
    e = read_number(db, c, BYTES("consistent_index"), &db->position.index);
    if (e == ERR_OK)
        e = read_number(db, c, BYTES("term"), &db->position.term);
    bolt_cursor_close(c);
    return e;
}

enum err db_open(struct db *db, const struct db_options *options)
{
    *db = (struct db){.o = *options};
    enum err e = disk_open(db->o.disk, db->o.path, DISK_READ_ONLY, 0, &db->file);

    if (e == ERR_OK && db->o.is_shared)
        e = disk_lock(db->o.disk, db->file, DISK_FLOCK);
    if (e == ERR_OK)
        e = bolt_file_init(&db->whole, db->o.disk, db->file);
    if (e != ERR_OK) {
        db_say(db->o.why, db->o.path, "cannot open: %s", err_text(e));
        return e;
    }
    db->source = (struct bolt_source){.read = read_unless_canceled, .size = db->whole.source.size};
    e = bolt_open(&db->source, db->o.kind, &db->fault, &db->bolt);
    return e == ERR_OK ? read_position(db) : db_fail(db, e);
}

void db_close(struct db *db)
{
    bolt_close(db->bolt);
    enum err e = db->file ? disk_close(db->o.disk, db->file) : ERR_OK;
    (void)e; /* it was only read */
}

/* ---- Checking ---- */

static enum err check_names(struct db *db)
{
    struct bolt_cursor *c = bolt_cursor_open_root(db->bolt);
    struct bolt_entry entry;
    enum bucket bucket;
    enum err e;

    while ((e = bolt_cursor_next(c, &entry)) == ERR_OK && bucket_find(entry.key, &bucket))
        continue;
    if (e == ERR_OK) {
        db_say(db->o.why, db->o.path,
               "offset %" PRIu64 ": a bucket \"%.*s\", which etcd does not have",
               bolt_cursor_span(c).at, (int)(entry.key.len < 64 ? entry.key.len : 64),
               (const char *)entry.key.at);
        e = ERR_UNSUPPORTED;
    } else {
        e = e == ERR_END ? ERR_OK : db_fail(db, e);
    }
    bolt_cursor_close(c);
    return e;
}

enum err db_check(struct db *db)
{
    enum err e = db_fail(db, bolt_check(db->bolt));

    return e == ERR_OK ? check_names(db) : e;
}

/* ---- Copying ---- */

struct copy {
    struct db *db;
    struct backend *to;
    const char *to_name;
    struct arena arena; /* for one value */
    struct db_copied copied;
};

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
static const char *check_revision(struct copy *m, struct bytes key, struct bytes value)
{
    struct pb_key_value kv;

    arena_reset(&m->arena);
    if (!is_revision(key))
        return "not a revision in bucket key";
    return pb_decode_key_value(value, &m->arena, &kv) == ERR_OK ? NULL : "not a mvccpb.KeyValue";
}

/* A note of our own says what a member was in the middle of, and whoever opens the store ends it,
 * by removing entries for instance. Nobody sends such a thing: images are cut where nothing is half
 * done. */
static bool is_unfinished(enum bucket bucket, struct bytes key)
{
    struct bytes prefix = BYTES(BACKEND_UNFINISHED_PREFIX);

    return bucket == BUCKET_META && key.len >= prefix.len &&
           memcmp(key.at, prefix.at, prefix.len) == 0;
}

static const char *check_key(enum bucket bucket, const struct bolt_entry *entry)
{
    if (entry->key.len == 0)
        return "an empty key";
    if (entry->value_bytes > BACKEND_VALUE_BYTES_MAX)
        return "a value larger than any can be";
    if (is_unfinished(bucket, entry->key))
        return "a note of work that a running member is to do";
    return NULL;
}

static enum err copy_entry(struct copy *m, enum bucket bucket, struct bolt_cursor *c,
                           const struct bolt_entry *entry)
{
    uint64_t offset = bolt_cursor_span(c).at;
    const char *what = check_key(bucket, entry);

    if (what)
        return damaged(m->db, offset, what);
    /* Straight into the batch: a value may have a gigabyte, and is in memory once. */
    uint8_t *value = backend_put_space(m->to, bucket, entry->key, entry->value_bytes);
    enum err e = bolt_cursor_read(c, 0, value, entry->value_bytes);
    if (e != ERR_OK)
        return db_fail(m->db, e);
    if (bucket == BUCKET_KEY)
        what = check_revision(m, entry->key, bytes_of(value, entry->value_bytes));
    if (what)
        return damaged(m->db, offset, what);
    m->copied.entries++;
    m->copied.bytes += entry->key.len + entry->value_bytes;
    return ERR_OK;
}

static enum err commit(struct copy *m)
{
    enum err e = backend_commit_now(m->to);

    if (e != ERR_OK)
        db_say(m->db->o.why, m->to_name, "cannot commit: %s", backend_failure(m->to));
    return e;
}

static enum err copy_bucket(struct copy *m, enum bucket bucket)
{
    struct bolt_cursor *c;
    struct bolt_entry entry;
    enum err e = bolt_cursor_open(m->db->bolt, bytes_of_str(bucket_name(bucket)), &c);

    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK)
        return db_fail(m->db, e);
    while (e == ERR_OK) {
        e = bolt_cursor_next(c, &entry);
        if (e == ERR_END)
            break;
        e = e == ERR_OK ? copy_entry(m, bucket, c, &entry) : db_fail(m->db, e);
        if (e == ERR_OK && backend_pending_bytes(m->to) >= SNAP_IMPORT_BATCH_BYTES)
            e = commit(m);
    }
    bolt_cursor_close(c);
    return e == ERR_END ? ERR_OK : e;
}

/* The copy says of itself what the original said. */
static enum err check_copy(struct copy *m)
{
    struct backend_position got = {0}, wanted = m->db->position;
    struct backend_view v;

    backend_view_open(m->to, &v);
    enum err e = backend_view_position(&v, &got);
    if (e != ERR_OK)
        db_say(m->db->o.why, m->to_name, "%s", backend_view_damage(&v));
    backend_view_close(&v);
    if (e != ERR_OK || (got.index == wanted.index && got.term == wanted.term))
        return e;
    db_say(m->db->o.why, m->to_name, "the copy has consistent index %" PRIu64 ", not %" PRIu64,
           got.index, wanted.index);
    return ERR_CORRUPT;
}

/* In the order of buckets, of which meta, with the position, is the last. */
enum err db_copy(struct db *db, struct backend *to, const char *to_name, struct db_copied *out)
{
    struct copy m = {.db = db, .to = to, .to_name = to_name};
    enum err e = ERR_OK;

    for (int i = 0; i < BUCKET_COUNT && e == ERR_OK; i++)
        e = copy_bucket(&m, (enum bucket)i);
    if (e == ERR_OK)
        e = commit(&m);
    if (e == ERR_OK)
        e = check_copy(&m);
    arena_free(&m.arena);
    *out = m.copied;
    return e;
}
