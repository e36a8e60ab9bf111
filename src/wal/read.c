#include "wal/wal_int.h"

#include "base/assert.h"

#include <string.h>

static void drop_results(struct wal_read *r)
{
    struct blob **blobs = (struct blob **)(void *)r->blobs.at;

    for (size_t i = 0; i < r->blobs.len / sizeof(struct blob *); i++)
        blob_unref(blobs[i]);
    buf_free(&r->blobs);
    buf_free(&r->found);
    blob_unref(r->blob);
    r->blob = NULL;
    r->entries = NULL;
    r->count = 0;
}

static void finish(struct wal_read *r, enum err e)
{
    size_t count = r->found.len / sizeof(struct raft_entry);
    uint64_t living = r->high > r->low ? r->high - r->low : 0; /* high may have come down */

    list_remove(&r->link);
    r->entries = (const struct raft_entry *)(void *)r->found.at;
    r->count = count < living ? count : (size_t)living;
    r->err = e;
    if (e == ERR_OK && r->count == 0)
        r->err = ERR_NOT_FOUND;
    if (r->err != ERR_OK)
        r->count = 0;

    /* The read is the caller's again when on_done is called, and may be gone after it. */
    struct wal_read kept = {.blobs = r->blobs, .found = r->found, .blob = r->blob};
    r->blobs = (struct buf){0};
    r->found = (struct buf){0};
    r->blob = NULL;
    r->on_done(r);
    drop_results(&kept);
}

/* The bytes at hand passed the crc when they were written. */
static void damaged(struct wal_read *r, uint64_t offset, const char *why)
{
    log_error(r->wal->opt.logger, "failed to read WAL", LOG_STR("file", r->segment->text),
              LOG_U64("offset", offset), LOG_STR("error", why));
}

static bool wants_more(const struct wal_read *r)
{
    return r->next < r->high && (r->found.len == 0 || r->bytes < r->max_bytes);
}

/* Keeps the entry if it is the next one wanted. Those before it and void ones behind are not. */
static void consider(struct wal_read *r, const struct raft_entry *found, uint64_t limit)
{
    if (found->index != r->next || found->index >= limit || !wants_more(r))
        return;
    struct raft_entry e = *found;
    e.blob = e.data.len > 0 ? r->blob : NULL;
    buf_append(&r->found, bytes_of(&e, sizeof(e)));
    r->bytes += e.data.len;
    r->next++;
}

/* Checks and decodes what was read: whole frames from op.offset to the end. */
static enum err decode(struct wal_read *r, uint64_t limit)
{
    struct bytes left = blob_bytes(r->blob);
    uint64_t end = r->op.offset + left.len;

    while (left.len > 0) {
        struct frame_source from = {
            .window = left, .offset = end - left.len, .file_size = end, .newest = false};
        struct frame_report report = {0};
        struct raft_entry e;
        struct frame f;
        enum frame_result result = frame_read(&from, r->crc, &f, &report);

        if (result != FRAME_OK || (f.type == WAL_ENTRY && !scan_entry(f.data, &e))) {
            damaged(r, from.offset, result == FRAME_BAD ? report.why : "no record");
            return ERR_CORRUPT;
        }
        if (f.type == WAL_ENTRY)
            consider(r, &e, limit);
        r->crc = f.crc;
        left.at += f.size;
        left.len -= f.size;
    }
    return ERR_OK;
}

static bool read_next(struct wal_read *r);

/* With what the mark covered. */
static void go_on(struct wal_read *r)
{
    wal_segment_unpin(r->segment);
    if (r->err != ERR_OK || !r->goes_on || !wants_more(r) || !read_next(r))
        finish(r, r->err);
}

static void on_own_file_closed(struct disk_op *op)
{
    go_on(container_of(op, struct wal_read, op)); /* it was only read: nothing is lost */
}

static void on_read(struct disk_op *op)
{
    struct wal_read *r = container_of(op, struct wal_read, op);
    uint64_t limit = 0;
    enum err e = op->err;

    if (e == ERR_OK && op->done < op->size) {
        damaged(r, op->offset + op->done, "the file ends here");
        e = ERR_CORRUPT;
    }
    /* What the mark covers may have shrunk meanwhile: entries that were replaced are void. */
    const struct mark *m = sparse_find(&r->wal->sparse, r->next, &limit);
    if (e == ERR_OK && m && m->segment == r->segment && m->offset == op->offset)
        e = decode(r, limit);
    else
        m = NULL;
    if (r->found.len > 0)
        buf_append(&r->blobs, bytes_of(&r->blob, sizeof(struct blob *)));
    else
        blob_unref(r->blob);
    r->blob = NULL;
    r->err = e;
    r->goes_on = m != NULL;
    if (!r->file) {
        go_on(r);
        return;
    }
    r->op = (struct disk_op){.kind = DISK_CLOSE, .file = r->file, .on_done = on_own_file_closed};
    r->file = NULL;
    disk_submit(r->wal->disk, DISK_OTHER, &r->op);
}

static void read_from(struct wal_read *r, struct disk_file *file)
{
    r->op.kind = DISK_READ;
    r->op.file = file;
    r->op.on_done = on_read;
    r->blob = blob_new((size_t)r->op.size, &r->op.into);
    disk_submit(r->wal->disk, DISK_OTHER, &r->op);
}

static void on_own_file_opened(struct disk_op *op)
{
    struct wal_read *r = container_of(op, struct wal_read, op);

    mem_free(r->path);
    r->path = NULL;
    if (op->err != ERR_OK) {
        r->err = op->err;
        go_on(r);
        return;
    }
    r->file = op->file;
    read_from(r, r->file);
}

/* Reads what the mark before the next entry covers. False if there is nothing durable of it. */
static bool read_next(struct wal_read *r)
{
    uint64_t limit;
    const struct mark *m = sparse_find(&r->wal->sparse, r->next, &limit);

    /* Behind what is durable there may be a write under way, or nothing yet. */
    if (!m || m->offset >= m->segment->durable)
        return false;
    uint64_t end = m->end < m->segment->durable ? m->end : m->segment->durable;
    r->segment = m->segment;
    r->segment->readers++; /* it may be given up while we read, and stays open until we are done */
    r->crc = m->crc;
    r->op = (struct disk_op){.offset = m->offset, .size = end - m->offset};
    if (r->segment->file) {
        read_from(r, r->segment->file);
        return true;
    }
    r->path = wal_path(r->wal->dir, r->segment->text);
    r->op.kind = DISK_OPEN;
    r->op.path = r->path;
    r->op.flags = DISK_READ_ONLY;
    r->op.on_done = on_own_file_opened;
    disk_submit(r->wal->disk, DISK_OTHER, &r->op);
    return true;
}

enum err wal_read(struct wal *w, struct wal_read *r)
{
    assert(r->low < r->high);
    assert(r->on_done);
    assert(!w->failed);

    r->wal = w;
    r->next = r->low;
    r->bytes = 0;
    r->found = (struct buf){0};
    r->blobs = (struct buf){0};
    list_init(&r->link);
    if (!read_next(r))
        return ERR_NOT_FOUND;
    list_push_back(&w->reads, &r->link);
    return ERR_OK;
}

void wal_cut_reads(struct wal *w, uint64_t from)
{
    LIST_FOREACH (link, &w->reads) {
        struct wal_read *r = container_of(link, struct wal_read, link);
        if (r->high > from)
            r->high = from;
    }
}

void wal_free_reads(struct wal *w)
{
    LIST_FOREACH (link, &w->reads) {
        struct wal_read *r = container_of(link, struct wal_read, link);
        list_remove(&r->link);
        mem_free(r->path);
        drop_results(r);
    }
}
