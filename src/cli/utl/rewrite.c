#include "cli/utl/rewrite.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "cli/utl/etcdutl.h"
#include "io/disk.h"

#include <stdlib.h>

enum { BUCKETS_MAX = 32, PLAN_ENTRIES = 10000 };

struct feed {
    struct bolt_feed base;
    const struct rewrite *r;
    struct bytes buckets[BUCKETS_MAX];
    size_t bucket_count;

    struct bolt_cursor *cursor; /* NULL: nothing is left of the source */
    struct bolt_entry source;   /* the next one, if there is a cursor */
    size_t laid, laid_end;      /* entries of this bucket that are left */
    bool took_source, took_laid;
};

/* ---- Buckets ---- */

static int by_name(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static bool has_bucket(const struct feed *f, struct bytes name)
{
    for (size_t i = 0; i < f->bucket_count; i++) {
        if (bytes_equal(f->buckets[i], name))
            return true;
    }
    return false;
}

static enum err add_bucket(struct feed *f, struct bytes name)
{
    if (has_bucket(f, name))
        return ERR_OK;
    if (f->bucket_count == BUCKETS_MAX || name.len > BOLT_BUCKET_NAME_BYTES_MAX)
        return ERR_TOO_LARGE;
    f->buckets[f->bucket_count++] = name;
    return ERR_OK;
}

static enum err find_buckets(struct feed *f, struct arena *arena)
{
    struct bolt_cursor *c = bolt_cursor_open_root(f->r->from->bolt);
    struct bolt_entry entry;
    enum err e;

    while ((e = bolt_cursor_next(c, &entry)) == ERR_OK) {
        e = add_bucket(f, arena_copy(arena, entry.key));
        if (e != ERR_OK)
            break;
    }
    bolt_cursor_close(c);
    for (size_t i = 0; e == ERR_END && i < f->r->count; i++) {
        enum err added = add_bucket(f, bytes_of_str(f->r->entries[i].bucket));
        e = added == ERR_OK ? ERR_END : added;
    }
    qsort(f->buckets, f->bucket_count, sizeof(f->buckets[0]), by_name);
    return e == ERR_END ? ERR_OK : e;
}

static bool is_emptied(const struct rewrite *r, struct bytes bucket)
{
    for (const char *const *name = r->emptied; name && *name; name++) {
        if (bytes_equal(bytes_of_str(*name), bucket))
            return true;
    }
    return false;
}

/* ---- The feed ---- */

static enum err next_source(struct feed *f)
{
    enum err e = bolt_cursor_next(f->cursor, &f->source);

    if (e == ERR_END) {
        bolt_cursor_close(f->cursor);
        f->cursor = NULL;
        return ERR_OK;
    }
    return e;
}

static enum err rewind_feed(struct bolt_feed *base, size_t bucket)
{
    struct feed *f = container_of(base, struct feed, base);
    struct bytes name = f->buckets[bucket];

    bolt_cursor_close(f->cursor);
    f->cursor = NULL;
    f->took_source = f->took_laid = false;
    f->laid = 0;
    while (f->laid < f->r->count && !bytes_equal(bytes_of_str(f->r->entries[f->laid].bucket), name))
        f->laid++;
    f->laid_end = f->laid;
    while (f->laid_end < f->r->count &&
           bytes_equal(bytes_of_str(f->r->entries[f->laid_end].bucket), name))
        f->laid_end++;
    if (is_emptied(f->r, name))
        return ERR_OK;
    enum err e = bolt_cursor_open(f->r->from->bolt, name, &f->cursor);
    if (e == ERR_NOT_FOUND) {
        f->cursor = NULL;
        return ERR_OK;
    }
    return e == ERR_OK ? next_source(f) : e;
}

/* Moves past what was handed out last: not before, since its value may still be read. */
static enum err move_on(struct feed *f)
{
    enum err e = f->took_source ? next_source(f) : ERR_OK;

    if (f->took_laid)
        f->laid++;
    f->took_source = f->took_laid = false;
    return e;
}

/* Decides which is next, of the two. ERR_END: neither. */
static enum err choose(struct feed *f)
{
    bool has_laid = f->laid < f->laid_end;
    if (!has_laid && !f->cursor)
        return ERR_END;
    int order = !has_laid    ? -1
                : !f->cursor ? 1
                             : bytes_compare(f->source.key, f->r->entries[f->laid].key);
    f->took_source = order <= 0;
    f->took_laid = order >= 0;
    return ERR_OK;
}

static enum err next_entry(struct bolt_feed *base, struct bolt_entry *out)
{
    struct feed *f = container_of(base, struct feed, base);
    enum err e;

    do {
        e = move_on(f);
        if (e == ERR_OK)
            e = choose(f);
    } while (e == ERR_OK && f->took_laid && f->r->entries[f->laid].is_removal);
    if (e != ERR_OK)
        return e;
    if (!f->took_laid)
        *out = f->source;
    else
        *out = (struct bolt_entry){.key = f->r->entries[f->laid].key,
                                   .value_bytes = (uint32_t)f->r->entries[f->laid].value.len};
    return ERR_OK;
}

static enum err read_value(struct bolt_feed *base, uint32_t offset, uint8_t *into, size_t size)
{
    struct feed *f = container_of(base, struct feed, base);

    if (!f->took_laid)
        return bolt_cursor_read(f->cursor, offset, into, size);
    struct bytes value = f->r->entries[f->laid].value;
    assert(offset <= value.len && size <= value.len - offset);
    if (size > 0)
        memcpy(into, value.at + offset, size);
    return ERR_OK;
}

/* ---- The file ---- */

static enum err write_bytes(struct bolt_writer *w, struct disk *disk, struct disk_file *file)
{
    struct utl_progress progress;
    uint8_t *chunk = mem_alloc(MIB);
    uint64_t offset = 0;
    size_t done = 1;
    enum err e = ERR_OK;

    utl_progress_begin(&progress, "writing", bolt_writer_size(w));
    while (e == ERR_OK && done > 0) {
        e = bolt_writer_read(w, chunk, MIB, &done);
        if (e == ERR_OK && done > 0)
            e = disk_write(disk, file, offset, bytes_of(chunk, done));
        offset += done;
        utl_progress_add(&progress, done);
    }
    utl_progress_end(&progress);
    mem_free(chunk);
    return e == ERR_OK ? disk_sync(disk, file) : e;
}

static enum err write_file(struct feed *f, const char *path)
{
    struct disk *disk = f->r->from->disk;
    struct disk_file *file = NULL;
    bool is_planned = false;
    struct bolt_writer *w = bolt_writer_open(
        &(struct bolt_writer_options){.buckets = f->buckets, .bucket_count = f->bucket_count},
        &f->base);
    enum err e = ERR_OK;

    while (e == ERR_OK && !is_planned)
        e = bolt_writer_plan(w, PLAN_ENTRIES, &is_planned);
    if (e == ERR_OK)
        e = disk_open(disk, path, DISK_CREATE | DISK_CUT, 0600, &file);
    if (e == ERR_OK)
        e = write_bytes(w, disk, file);
    if (file) {
        enum err closed = disk_close(disk, file);
        e = e == ERR_OK ? closed : e;
    }
    bolt_writer_close(w);
    return e;
}

static struct bytes folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? bytes_of(path, (size_t)(slash - path) + 1) : BYTES("./");
}

bool rewrite_run(const struct rewrite *r, const char *path)
{
    struct arena arena = {0};
    struct disk *disk = r->from->disk;
    struct feed f = {.base = {.rewind = rewind_feed, .next = next_entry, .read = read_value},
                     .r = r};
    const char *half = arena_printf(&arena, "%s.tmp", path);
    enum err e = find_buckets(&f, &arena);

    if (e == ERR_OK)
        e = write_file(&f, half);
    bolt_cursor_close(f.cursor);
    if (e == ERR_OK)
        e = disk_rename(disk, half, path);
    if (e == ERR_OK)
        e = disk_sync_dir(disk, arena_copy_str(&arena, folder_of(path)));
    if (e != ERR_OK) {
        (void)!disk_remove(disk, half); /* it may not be there */
        utl_fail(UTL_ERROR, "%s: %s", path, err_text(e));
        if (r->from->fault.what)
            etcd_file_fail(r->from, e);
    }
    arena_free(&arena);
    return e == ERR_OK;
}
