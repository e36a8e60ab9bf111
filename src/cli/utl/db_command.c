/* `cleatutl db FILE`: what a bbolt file holds. */
#include "base/arena.h"
#include "cli/utl/utl.h"
#include "io/disk.h"
#include "snap/bolt.h"

#include <inttypes.h>
#include <stdio.h>

/* A confState of some ten thousand members; what is longer is not shown. */
enum { TEXT_BYTES_MAX = 1 * MIB };

struct look {
    struct disk *disk;
    const char *path;
    struct disk_file *file;
    struct bolt_file source;
    struct bolt_fault fault;
    struct bolt *bolt;
    struct emit *out;
    bool faulty; /* something was wrong; said so already */
};

/* Says it on standard error, once for each thing, and among the findings. */
static void complain(struct look *l, enum err e)
{
    bool placed = l->fault.what != NULL;

    l->faulty = true;
    if (placed)
        fprintf(stderr, "cleatutl: %s: offset %" PRIu64 ": %s\n", l->path, l->fault.offset,
                l->fault.what);
    else
        fprintf(stderr, "cleatutl: %s: %s\n", l->path, err_text(e));
    emit_begin(l->out, "damage", EMIT_OBJECT);
    if (placed)
        emit_number(l->out, "offset", l->fault.offset);
    emit_str(l->out, "what", placed ? l->fault.what : err_text(e));
    emit_end(l->out);
}

/* ---- One bucket after the other ---- */

struct tally {
    uint64_t keys, bytes;
    uint8_t first[8], last[8]; /* of the keys, where they are that long */
};

static void note_key(struct tally *t, struct bytes key)
{
    if (key.len < sizeof(t->first))
        return;
    if (t->keys == 0)
        memcpy(t->first, key.at, sizeof(t->first));
    memcpy(t->last, key.at, sizeof(t->last));
}

static enum err tally_bucket(struct look *l, struct bytes name, struct tally *out)
{
    struct bolt_cursor *c;
    struct bolt_entry entry;
    enum err e = bolt_cursor_open(l->bolt, name, &c);

    *out = (struct tally){0};
    if (e != ERR_OK)
        return e;
    while ((e = bolt_cursor_next(c, &entry)) == ERR_OK) {
        note_key(out, entry.key);
        out->keys++;
        out->bytes += entry.key.len + entry.value_bytes;
    }
    bolt_cursor_close(c);
    return e == ERR_END ? ERR_OK : e;
}

static uint64_t be64(const uint8_t *at)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | at[i];
    return value;
}

static enum err tell_buckets(struct look *l, struct tally *revisions)
{
    struct bolt_cursor *c = bolt_cursor_open_root(l->bolt);
    struct bolt_entry entry;
    struct tally t;
    enum err e;

    emit_begin(l->out, "buckets", EMIT_LIST);
    while ((e = bolt_cursor_next(c, &entry)) == ERR_OK) {
        e = tally_bucket(l, entry.key, &t);
        if (e != ERR_OK)
            break;
        emit_begin(l->out, NULL, EMIT_OBJECT);
        emit_bytes(l->out, "name", entry.key);
        emit_number(l->out, "keys", t.keys);
        emit_number(l->out, "bytes", t.bytes);
        emit_end(l->out);
        if (bytes_equal(entry.key, BYTES("key")))
            *revisions = t;
    }
    emit_end(l->out);
    bolt_cursor_close(c);
    return e == ERR_END ? ERR_OK : e;
}

/* ---- The meta bucket ---- */

enum meta_form { META_NUMBER, META_REVISION, META_TEXT };

static const struct {
    const char *key, *name;
    enum meta_form form;
} meta_keys[] = {
    {"consistent_index", "consistentIndex", META_NUMBER},
    {"term", "term", META_NUMBER},
    {"storageVersion", "storageVersion", META_TEXT},
    {"confState", "confState", META_TEXT},
    {"scheduledCompactRev", "scheduledCompactRevision", META_REVISION},
    {"finishedCompactRev", "finishedCompactRevision", META_REVISION},
};

static void tell_meta_value(struct look *l, size_t i, struct bytes value)
{
    size_t want = meta_keys[i].form == META_NUMBER ? 8 : 17;

    if (meta_keys[i].form == META_TEXT || value.len != want)
        emit_bytes(l->out, meta_keys[i].name, value);
    else
        emit_number(l->out, meta_keys[i].name, be64(value.at));
}

static enum err tell_meta(struct look *l)
{
    struct bolt_cursor *c;
    struct bolt_entry entry;
    struct buf value = {0};
    enum err e = bolt_cursor_open(l->bolt, BYTES("meta"), &c);

    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    for (size_t i = 0; i < ARRAY_LEN(meta_keys) && e == ERR_OK; i++) {
        struct bytes key = bytes_of_str(meta_keys[i].key);
        e = bolt_cursor_seek(c, key, &entry);
        if (e == ERR_OK && bytes_equal(entry.key, key)) {
            buf_clear(&value);
            e = bolt_cursor_value(c, TEXT_BYTES_MAX, &value);
            if (e == ERR_OK)
                tell_meta_value(l, i, buf_bytes(&value));
        }
        e = e == ERR_END ? ERR_OK : e;
    }
    bolt_cursor_close(c);
    buf_free(&value);
    return e;
}

/* ---- The whole ---- */

static enum err tell_content(struct look *l)
{
    struct tally revisions = {0};
    struct bolt_sum sum;
    enum err e = tell_buckets(l, &revisions);

    if (e == ERR_OK)
        e = tell_meta(l);
    if (e == ERR_OK && revisions.keys > 0) {
        emit_number(l->out, "firstRevision", be64(revisions.first));
        emit_number(l->out, "lastRevision", be64(revisions.last));
    }
    if (e == ERR_OK)
        e = bolt_sum(l->bolt, &sum);
    if (e == ERR_OK)
        emit_id(l->out, "hash", sum.crc);
    return e;
}

static void tell_info(struct look *l)
{
    struct bolt_info info = bolt_info(l->bolt);

    emit_number(l->out, "pageBytes", info.page_bytes);
    emit_number(l->out, "pages", info.pages);
    emit_number(l->out, "txid", info.txid);
    emit_bool(l->out, "metaDamaged", info.meta_damaged);
}

/* A file that ends in a digest is an image; any other may be one that a server was writing. */
static enum bolt_kind tell_digest(struct look *l)
{
    enum err e = bolt_check_digest(&l->source.source, &l->fault);

    emit_str(l->out, "sha256",
             e == ERR_OK          ? "holds"
             : e == ERR_NOT_FOUND ? "none"
                                  : "does not hold");
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        complain(l, e);
    return e == ERR_OK ? BOLT_IMAGE : BOLT_LIVE;
}

static void tell_file(struct look *l)
{
    emit_number(l->out, "bytes", l->source.source.size);
    enum bolt_kind kind = tell_digest(l);
    if (l->faulty)
        return;
    enum err e = bolt_open(&l->source.source, kind, &l->fault, &l->bolt);
    if (e == ERR_OK) {
        tell_info(l);
        e = bolt_check(l->bolt);
    }
    if (e == ERR_OK)
        e = tell_content(l);
    if (e == ERR_OK)
        emit_str(l->out, "check", "ok");
    else
        complain(l, e);
}

static enum err open_file(struct look *l)
{
    enum err e = disk_open(l->disk, l->path, DISK_READ_ONLY, 0, &l->file);

    if (e == ERR_OK)
        e = disk_lock(l->disk, l->file, DISK_FLOCK | DISK_SHARED);
    if (e == ERR_OK)
        e = bolt_file_init(&l->source, l->disk, l->file);
    if (e != ERR_OK)
        fprintf(stderr, "cleatutl: %s: %s\n", l->path, err_text(e));
    return e;
}

int utl_db(struct disk *disk, const char *path, struct emit *out)
{
    struct look l = {.disk = disk, .path = path, .out = out};
    enum err e = open_file(&l);

    if (e == ERR_OK) {
        emit_begin(out, NULL, EMIT_OBJECT);
        emit_str(out, "file", path);
        tell_file(&l);
        emit_end(out);
    }
    bolt_close(l.bolt);
    if (l.file && disk_close(disk, l.file) != ERR_OK)
        e = ERR_IO;
    return e != ERR_OK || l.faulty;
}
