#include "wal/wal_int.h"

#include "base/assert.h"

#include <stdio.h>

/* --- the next segment --- */

static void next_failed(struct wal *w, const struct disk_op *failed)
{
    struct disk_op op = *failed; /* it is next.op itself, which the next attempt uses */

    w->next.state = WAL_NEXT_FAILED;
    w->next.lacks_space = op.err == ERR_NO_SPACE;
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
    w->next.told = false;
    w->next.lacks_space = false;
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
static void next_open(struct wal *w)
{
    next_submit(w, (struct disk_op){.kind = DISK_OPEN,
                                    .path = w->next.path,
                                    .flags = DISK_CREATE | DISK_CUT,
                                    .mode = 0600,
                                    .on_done = on_opened});
}

static void on_asked(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, next.op);

    if (op->err == ERR_OK && op->size < wal_segment_bytes(&w->opt))
        w->next.state = WAL_NEXT_FAILED;
    else
        next_open(w);
}

/*
 * Where there was no space a moment ago it is asked for first: an allocation that fails may have
 * taken all there was, and for as long as it takes to give that back the store finds none either.
 */
void wal_reserve(struct wal *w)
{
    char name[16];

    if (w->next.state != WAL_NEXT_NONE)
        return;
    snprintf(name, sizeof(name), "%u.tmp", w->next.count % 2);
    mem_free(w->next.path);
    w->next.path = wal_path(w->dir, name);
    w->next.state = WAL_NEXT_UNDER_WAY;
    if (w->next.lacks_space)
        next_submit(w, (struct disk_op){.kind = DISK_SPACE, .path = w->dir, .on_done = on_asked});
    else
        next_open(w);
}

/* A file that stays is emptied and used by the next attempt, or by the next start. It is closed in
 * any case: whoever locks it then finds our lock otherwise, be it ourselves. */
void wal_unreserve(struct wal *w)
{
    if (!w->next.file)
        return;
    enum err removed = disk_remove(w->disk, w->next.path);
    enum err closed = disk_close(w->disk, w->next.file);
    if (removed != ERR_OK || closed != ERR_OK)
        log_warn(w->opt.logger, "failed to remove the reserved WAL segment",
                 LOG_STR("path", w->next.path));
    w->next.file = NULL;
}

/* --- giving up old segments --- */

static void end_if_unused(struct wal_segment *s);

static void on_closed(struct disk_op *op)
{
    struct wal_segment *s = container_of(op, struct wal_segment, closing);

    if (op->err != ERR_OK)
        log_warn(s->wal->opt.logger, "failed to close WAL segment", LOG_STR("path", s->text));
    s->is_closing = false;
    s->wal->closing--;
    end_if_unused(s);
}

static void close_file(struct wal_segment *s)
{
    s->closing = (struct disk_op){.kind = DISK_CLOSE, .file = s->file, .on_done = on_closed};
    s->file = NULL;
    s->is_closing = true;
    s->wal->closing++;
    disk_submit(s->wal->disk, DISK_OTHER, &s->closing);
}

/* One that was given up. */
static void end_if_unused(struct wal_segment *s)
{
    if (list_empty(&s->link) || s->readers > 0 || s->is_closing)
        return;
    if (s->file) {
        close_file(s);
        return;
    }
    list_remove(&s->link);
    mem_free(s);
}

/*
 * A lock on the newest segment keeps other processes away from all of them. So the older ones need
 * be open only for those who read them, who are few: followers far behind. One that is being read
 * now has its turn at the next cut.
 */
void wal_close_old(struct wal *w)
{
    for (size_t i = 0; i + WAL_SEGMENTS_OPEN_MAX < w->segment_count; i++) {
        struct wal_segment *s = w->segments[i];
        if (s->file && s->readers == 0 && s->durable == s->end)
            close_file(s);
    }
}

void wal_segment_unpin(struct wal_segment *s)
{
    assert(s->readers > 0);

    s->readers--;
    end_if_unused(s);
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
        end_if_unused(s);
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
        log_warn(w->opt.logger, "failed to purge WAL", LOG_STR("path", w->purging.path),
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
        log_info(w->opt.logger, "purged", LOG_STR("path", w->purging.path));
    else
        log_error(w->opt.logger, "failed to remove file", LOG_STR("path", w->purging.path),
                  LOG_STR("error", err_text(op->err)));
    purge_submit(w, (struct disk_op){.kind = DISK_CLOSE,
                                     .file = w->purging.file,
                                     .on_done = gone ? on_purge_closed : on_purge_stopped});
}

/* If somebody holds a lock on it, another process reads it. The next purge comes back to it; until
 * then newer ones stay as well, since a log with a hole in it is damaged. */
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

/* Ours, be it only for somebody who still reads it. Most of these have no lock to tell. */
static bool is_in_use(const struct wal *w, const char *text)
{
    struct wal_name name;

    if (!wal_name_parse(text, &name) || name.seq >= w->segments[0]->name.seq)
        return true;
    LIST_FOREACH (link, &w->given_up)
        if (container_of(link, struct wal_segment, link)->name.seq == name.seq)
            return true;
    return false;
}

static void purge_next(struct wal *w)
{
    struct wal_purging *p = &w->purging;
    const char *oldest = p->surplus > 0 ? next_segment(&p->left) : NULL;

    if (!oldest || is_in_use(w, oldest)) {
        purge_end(w, "", ERR_OK);
        return;
    }
    p->surplus--;
    mem_free(p->path);
    p->path = wal_path(w->dir, oldest);
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
