#include "wal/wal_int.h"

#include "base/assert.h"

#include <stdio.h>

/* --- the next segment --- */

static void next_failed(struct wal *w, const struct disk_op *failed)
{
    struct disk_op op = *failed;

    w->next.state = WAL_NEXT_NONE;
    wal_unreserve(w);
    wal_next_failed(w, &op);
}

static void next_submit(struct wal *w, struct disk_op op)
{
    w->next.op = op;
    disk_submit(w->disk, DISK_OTHER, &w->next.op);
}

static void on_allocated(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, next.op);

    if (op->err != ERR_OK) {
        next_failed(w, op);
        return;
    }
    w->next.state = WAL_NEXT_READY;
    wal_next_ready(w);
}

static void on_locked(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, next.op);

    if (op->err != ERR_OK)
        next_failed(w, op);
    else
        next_submit(w, (struct disk_op){.kind = DISK_ALLOCATE,
                                        .file = w->next.file,
                                        .size = wal_segment_bytes(&w->opt),
                                        .on_done = on_allocated});
}

static void on_opened(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, next.op);

    if (op->err != ERR_OK) {
        next_failed(w, op);
        return;
    }
    w->next.file = op->file;
    next_submit(w, (struct disk_op){.kind = DISK_LOCK, .file = w->next.file, .on_done = on_locked});
}

/* One that a crash left behind may hold records of a segment that never got its name, hence CUT. */
void wal_reserve(struct wal *w)
{
    char name[16];

    if (w->next.state != WAL_NEXT_NONE)
        return;
    snprintf(name, sizeof(name), "%u.tmp", w->next.count % 2);
    mem_free(w->next.path);
    w->next.path = wal_path(w->dir, name);
    w->next.state = WAL_NEXT_UNDER_WAY;
    next_submit(w, (struct disk_op){.kind = DISK_OPEN,
                                    .path = w->next.path,
                                    .flags = DISK_CREATE | DISK_CUT,
                                    .mode = 0600,
                                    .on_done = on_opened});
}

/* What stays if this fails is emptied and used by the next start. */
void wal_unreserve(struct wal *w)
{
    if (!w->next.file)
        return;
    if (disk_remove(w->disk, w->next.path) != ERR_OK || disk_close(w->disk, w->next.file) != ERR_OK)
        log_warn(w->opt.log, "failed to remove the reserved WAL segment",
                 LOG_STR("path", w->next.path));
    w->next.file = NULL;
}

/* --- giving up old segments --- */

static void on_closed(struct disk_op *op)
{
    struct wal_segment *s = container_of(op, struct wal_segment, closing);

    if (op->err != ERR_OK)
        log_warn(s->wal->opt.log, "failed to close WAL segment", LOG_STR("path", s->text));
    list_remove(&s->link);
    mem_free(s);
}

static void close_if_unused(struct wal_segment *s)
{
    if (list_empty(&s->link) || s->readers > 0)
        return;
    s->closing = (struct disk_op){.kind = DISK_CLOSE, .file = s->file, .on_done = on_closed};
    disk_submit(s->wal->disk, DISK_OTHER, &s->closing);
}

void wal_segment_unpin(struct wal_segment *s)
{
    assert(s->readers > 0);

    s->readers--;
    close_if_unused(s);
}

/* How many of the oldest segments can go: those named below index, but for the newest of them. */
static size_t surplus_below(const struct wal *w, uint64_t index)
{
    size_t below = 0;

    while (below < w->segment_count && w->segments[below]->name.index < index)
        below++;
    return below > 0 ? below - 1 : 0;
}

void wal_release(struct wal *w, uint64_t index)
{
    size_t count = surplus_below(w, index), given_up = 0;

    /* One that is still being written is in nobody's way. */
    while (given_up < count && w->segments[given_up]->durable == w->segments[given_up]->end)
        given_up++;
    for (size_t i = 0; i < given_up; i++) {
        struct wal_segment *s = w->segments[i];
        sparse_drop(&w->sparse, s);
        list_push_back(&w->given_up, &s->link);
        close_if_unused(s);
    }
    w->segment_count -= given_up;
    for (size_t i = 0; given_up > 0 && i < w->segment_count; i++)
        w->segments[i] = w->segments[i + given_up];
    assert(w->segment_count > 0);
}

/* --- deleting them --- */

static void purge_next(struct wal *w);

static void purge_end(struct wal *w, const char *doing, enum err e)
{
    if (e != ERR_OK)
        log_warn(w->opt.log, "failed to purge WAL", LOG_STR("path", w->purging.path),
                 LOG_STR("while", doing), LOG_STR("error", err_text(e)));
    mem_free(w->purging.path);
    w->purging.path = NULL;
    w->purging.busy = false;
}

static void purge_submit(struct wal *w, struct disk_op op)
{
    w->purging.op = op;
    disk_submit(w->disk, DISK_OTHER, &w->purging.op);
}

static void on_purge_stopped(struct disk_op *op)
{
    purge_end(container_of(op, struct wal, purging.op), "closing", op->err);
}

static void on_purge_closed(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, purging.op);

    if (op->err != ERR_OK)
        purge_end(w, "closing", op->err);
    else
        purge_next(w);
}

static void on_purge_removed(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, purging.op);
    bool gone = op->err == ERR_OK;

    if (gone)
        log_info(w->opt.log, "purged", LOG_STR("path", w->purging.path));
    else
        log_error(w->opt.log, "failed to remove file", LOG_STR("path", w->purging.path),
                  LOG_STR("error", err_text(op->err)));
    purge_submit(w, (struct disk_op){.kind = DISK_CLOSE,
                                     .file = w->purging.file,
                                     .on_done = gone ? on_purge_closed : on_purge_stopped});
}

static void on_purge_locked(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, purging.op);

    if (op->err == ERR_OK)
        purge_submit(w, (struct disk_op){.kind = DISK_REMOVE,
                                         .path = w->purging.path,
                                         .on_done = on_purge_removed});
    else
        purge_submit(w, (struct disk_op){.kind = DISK_CLOSE,
                                         .file = w->purging.file,
                                         .on_done = on_purge_stopped});
}

static void on_purge_opened(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, purging.op);

    if (op->err != ERR_OK) {
        purge_end(w, "opening", op->err);
        return;
    }
    w->purging.file = op->file;
    purge_submit(w, (struct disk_op){
                        .kind = DISK_LOCK, .file = w->purging.file, .on_done = on_purge_locked});
}

/* The next segment in the listing, or NULL. */
static const char *next_segment(struct bytes *left)
{
    struct wal_name name;
    const char *text;

    do
        text = disk_next_name(left);
    while (text && !wal_name_parse(text, &name));
    return text;
}

static void purge_next(struct wal *w)
{
    struct wal_purging *p = &w->purging;

    if (p->surplus == 0) {
        purge_end(w, "", ERR_OK);
        return;
    }
    p->surplus--;
    mem_free(p->path);
    p->path = wal_path(w->dir, next_segment(&p->left));
    purge_submit(w,
                 (struct disk_op){.kind = DISK_OPEN, .path = p->path, .on_done = on_purge_opened});
}

static void on_listed(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, purging.op);
    struct wal_purging *p = &w->purging;
    size_t count = 0;

    if (op->err != ERR_OK) {
        purge_end(w, "listing", op->err);
        return;
    }
    for (struct bytes left = buf_bytes(&p->names); next_segment(&left);)
        count++;
    p->surplus = count > p->max ? count - p->max : 0;
    p->left = buf_bytes(&p->names);
    purge_next(w);
}

void wal_purge(struct wal *w, unsigned max)
{
    struct wal_purging *p = &w->purging;

    if (p->busy || max == 0)
        return;
    p->busy = true;
    p->max = max;
    p->path = wal_path(w->dir, "");
    buf_clear(&p->names);
    purge_submit(w, (struct disk_op){.kind = DISK_LIST,
                                     .path = w->dir,
                                     .size = WAL_NAMES_BYTES_MAX,
                                     .out = &p->names,
                                     .on_done = on_listed});
}
