#include "io/fake_disk.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/fake_files.h"

#include <errno.h>
#include <string.h>

struct fake_queue {
    struct fake_disk *disk;
    struct event *first, **last;
    struct fake_task task; /* the first of them is done when it runs */
    uint64_t began_ns;     /* the first of them */
};

struct fake_disk {
    struct disk base;
    struct fake_time *time;
    struct inbox *inbox;
    struct fake_disk_options options;
    struct fake_fds own_fds; /* if none were lent */
    struct fake_fds *fds;
    struct fake_files *files;
    struct list open; /* struct fake_file */
    struct fake_queue queues[DISK_QUEUE_COUNT];
    struct fake_fault fault;
    uint64_t space_max; /* of all files; or FAKE_DISK_NOT_FULL */
    uint64_t hung_until_ns;
    uint64_t calls;
    uint64_t die_at; /* in calls; 0: not */
    bool dead;
};

enum held { HELD_NOT, HELD_SHARED, HELD_EXCLUSIVE };

/* What a struct disk_file is to us. */
struct fake_file {
    struct list link;
    struct fake_disk *disk;
    struct fake_node *node;
    bool read_only;
    enum held held[2];
};

static struct fake_disk *fake(struct disk *d)
{
    return container_of(d, struct fake_disk, base);
}

static struct fake_file *file_of(struct disk_op *op)
{
    return (struct fake_file *)op->file;
}

static struct fake_content *content_of(struct disk_op *op)
{
    return &file_of(op)->node->content;
}

/* Counts a call and says whether this is the one to fail. */
static bool fails(struct fake_disk *d, enum disk_op_kind kind, struct fake_fault *out)
{
    d->calls++;
    if (d->dead || d->calls == d->die_at) {
        size_t written = d->dead ? 0 : SIZE_MAX; /* what SIZE_MAX comes to, run_write decides */
        *out = (struct fake_fault){.kind = kind, .err = ERR_IO, .written = written};
        d->dead = true;
        return true;
    }
    if (d->fault.nth == 0 || (d->fault.kind != DISK_NONE && d->fault.kind != kind))
        return false;
    d->fault.nth--;
    if (d->fault.nth > 0)
        return false;
    *out = d->fault;
    d->fault = (struct fake_fault){0};
    return true;
}

static void unlock(struct fake_file *f, unsigned which)
{
    struct fake_lock *lock = &f->node->locks[which];

    if (f->held[which] == HELD_SHARED)
        lock->shared--;
    if (f->held[which] == HELD_EXCLUSIVE)
        lock->exclusive = NULL;
    f->held[which] = HELD_NOT;
}

static void file_free(struct fake_file *f)
{
    unlock(f, 0);
    unlock(f, 1);
    list_remove(&f->link);
    fake_fds_give_back(f->disk->fds);
    fake_node_unref(f->node);
    mem_free(f);
}

/* A new name needs space, too, though none is counted. */
static enum err make_node(struct fake_disk *d, const char *path, bool is_dir, unsigned mode,
                          struct fake_node **out)
{
    if (fake_disk_space(d) == 0 && fake_files_find(d->files, path, out) == ERR_NOT_FOUND)
        return ERR_NO_SPACE;
    return fake_files_make(d->files, path, is_dir, mode, out);
}

static enum err run_open(struct fake_disk *d, struct disk_op *op)
{
    bool wants_dir = op->flags & DISK_DIRECTORY;
    struct fake_node *n;
    enum err e = fake_files_find(d->files, op->path, &n);

    if (e == ERR_OK && (op->flags & DISK_CREATE) && (op->flags & DISK_EXCLUSIVE))
        return ERR_EXISTS;
    if (e == ERR_NOT_FOUND && (op->flags & DISK_CREATE))
        e = make_node(d, op->path, false, op->mode, &n);
    if (e == ERR_OK && n->is_dir != wants_dir)
        e = n->is_dir ? ERR_IO : ERR_NOT_FOUND;
    if (e != ERR_OK)
        return e;
    if (op->flags & DISK_CUT)
        fake_content_resize(&n->content, 0);
    struct fake_file *f = mem_new(struct fake_file);
    f->disk = d;
    bool taken = fake_fds_take(d->fds);
    assert(taken); /* run has looked whether there is one */
    f->node = fake_node_ref(n);
    f->read_only = op->flags & DISK_READ_ONLY;
    list_init(&f->link);
    list_push_back(&d->open, &f->link);
    op->file = (struct disk_file *)f;
    return ERR_OK;
}

static enum err run_close(struct disk_op *op)
{
    file_free(file_of(op));
    op->file = NULL;
    return ERR_OK;
}

static enum err sync_file(struct fake_disk *d, struct fake_content *c)
{
    struct fake_fault fault;

    if (fails(d, DISK_SYNC, &fault)) {
        fake_content_sync_failed(c);
        return fault.err;
    }
    fake_content_sync(c);
    return ERR_OK;
}

uint64_t fake_disk_space(const struct fake_disk *d)
{
    if (d->space_max == FAKE_DISK_NOT_FULL)
        return FAKE_DISK_NOT_FULL;
    uint64_t used = fake_files_allocated(d->files);

    return used < d->space_max ? d->space_max - used : 0;
}

void fake_disk_set_space(struct fake_disk *d, uint64_t bytes)
{
    uint64_t used = fake_files_allocated(d->files);

    d->space_max = bytes < FAKE_DISK_NOT_FULL - used ? used + bytes : FAKE_DISK_NOT_FULL;
}

/* May the file take the disk's space up to `end`? */
static bool has_space(const struct fake_disk *d, const struct fake_content *c, uint64_t end)
{
    return end <= c->allocated || end - c->allocated <= fake_disk_space(d);
}

static uint64_t write_begin(struct disk_op *op)
{
    return op->offset == DISK_END ? content_of(op)->size : op->offset;
}

static size_t write_size(const struct disk_op *op)
{
    size_t total = 0;

    for (size_t i = 0; i < op->piece_count; i++)
        total += op->pieces[i].len;
    return total;
}

static void write_pieces(struct disk_op *op, size_t bytes_max)
{
    struct fake_content *c = content_of(op);
    uint64_t offset = write_begin(op);

    for (size_t i = 0; i < op->piece_count && op->done < bytes_max; i++) {
        size_t left = bytes_max - op->done;
        size_t len = op->pieces[i].len < left ? op->pieces[i].len : left;

        fake_content_write(c, offset + op->done, bytes_of(op->pieces[i].at, len));
        op->done += len;
    }
}

/* Some first part of a write, in whole sectors of the file. */
static size_t some_of(struct fake_disk *d, struct disk_op *op)
{
    size_t total = write_size(op);
    uint64_t begin = write_begin(op);
    uint64_t end = begin + rng_between(&d->time->rng, 0, total);
    if (end < begin + total)
        end -= end % FAKE_SECTOR_BYTES;
    return end > begin ? (size_t)(end - begin) : 0;
}

/* Of a write that the disk has not enough space for. */
static size_t what_fits(const struct fake_disk *d, struct disk_op *op)
{
    uint64_t begin = write_begin(op);
    uint64_t end = content_of(op)->allocated + fake_disk_space(d);

    return end > begin ? (size_t)(end - begin) : 0;
}

static enum err run_write(struct fake_disk *d, struct disk_op *op)
{
    struct fake_fault fault;
    bool failing = fails(d, DISK_WRITE, &fault);

    if (file_of(op)->read_only)
        return ERR_IO;
    if (failing && fault.written == SIZE_MAX)
        fault.written = some_of(d, op);
    if (!failing && !has_space(d, content_of(op), write_begin(op) + write_size(op))) {
        fault = (struct fake_fault){.err = ERR_NO_SPACE, .written = what_fits(d, op)};
        failing = true;
    }
    write_pieces(op, failing ? fault.written : SIZE_MAX);
    if (rng_chance(&d->time->rng, d->options.write_back_percent, 100))
        fake_content_write_back(content_of(op), &d->time->rng);
    if (failing)
        return fault.err;
    return op->sync ? sync_file(d, content_of(op)) : ERR_OK;
}

static enum err run_allocate(struct fake_disk *d, struct disk_op *op)
{
    struct fake_content *c = content_of(op);

    if (!has_space(d, c, op->offset + op->size))
        return ERR_NO_SPACE;
    if (!(op->flags & DISK_KEEP_SIZE) && c->size < op->offset + op->size)
        fake_content_resize(c, op->offset + op->size);
    fake_content_allocate(c, op->offset + op->size);
    return ERR_OK;
}

static enum err run_truncate(struct disk_op *op)
{
    fake_content_resize(content_of(op), op->size);
    return ERR_OK;
}

static enum err run_lock(struct disk_op *op)
{
    struct fake_file *f = file_of(op);
    unsigned which = op->flags & DISK_FLOCK ? 1 : 0;
    struct fake_lock *lock = &f->node->locks[which];
    bool shared = op->flags & DISK_SHARED;
    unsigned others = lock->shared - (f->held[which] == HELD_SHARED);

    if ((lock->exclusive && lock->exclusive != f) || (!shared && others > 0))
        return ERR_BUSY;
    unlock(f, which);
    f->held[which] = shared ? HELD_SHARED : HELD_EXCLUSIVE;
    if (shared)
        lock->shared++;
    else
        lock->exclusive = f;
    return ERR_OK;
}

static enum err run_stat(struct fake_disk *d, struct disk_op *op)
{
    struct fake_node *n = op->file ? file_of(op)->node : NULL;
    enum err e = n ? ERR_OK : fake_files_find(d->files, op->path, &n);

    if (e == ERR_OK)
        op->stat =
            (struct disk_stat){.size = n->content.size, .mode = n->mode, .is_dir = n->is_dir};
    return e;
}

/* Of a path that is there, as on a real disk. */
static enum err run_space(struct fake_disk *d, struct disk_op *op)
{
    struct fake_node *n;
    enum err e = fake_files_find(d->files, op->path, &n);

    if (e == ERR_OK)
        op->size = fake_disk_space(d);
    return e;
}

static enum err run_read_file(struct fake_disk *d, struct disk_op *op)
{
    struct fake_node *n;
    enum err e = fake_files_find(d->files, op->path, &n);

    if (e == ERR_OK && n->is_dir)
        e = ERR_IO;
    if (e == ERR_OK && n->content.size > op->size)
        e = ERR_TOO_LARGE;
    if (e == ERR_OK && n->content.size > 0) {
        size_t size = (size_t)n->content.size;
        fake_content_read(&n->content, 0, buf_extend(op->out, size), size);
    }
    return e;
}

static enum err run_list(struct fake_disk *d, struct disk_op *op)
{
    struct fake_node *n;
    enum err e = fake_files_find(d->files, op->path, &n);
    size_t begin = op->out->len;

    if (e == ERR_OK && !n->is_dir)
        e = ERR_NOT_FOUND;
    for (size_t i = 0; e == ERR_OK && i < n->names.count; i++) {
        const char *name = n->names.at[i].text;

        buf_append(op->out, bytes_of(name, strlen(name) + 1));
        if (op->out->len - begin > op->size) {
            op->out->len = begin;
            e = ERR_TOO_LARGE;
        }
    }
    return e;
}

static enum err make_dir(struct fake_disk *d, const char *path, unsigned mode, bool exists_is_fine)
{
    struct fake_node *n;
    enum err e = make_node(d, path, true, mode, &n);

    if (e == ERR_EXISTS && exists_is_fine && fake_files_find(d->files, path, &n) == ERR_OK &&
        n->is_dir)
        e = ERR_OK;
    return e;
}

static enum err run_make_dir(struct fake_disk *d, struct disk_op *op)
{
    if (!(op->flags & DISK_PARENTS))
        return make_dir(d, op->path, op->mode, false);
    char *path = mem_new_array(strlen(op->path) + 1, char);
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && op->path[i]; i++) {
        if (i > 0 && op->path[i] == '/')
            e = make_dir(d, path, op->mode, true);
        path[i] = op->path[i];
    }
    if (e == ERR_OK)
        e = make_dir(d, path, op->mode, true);
    mem_free(path);
    return e;
}

static enum err run_sync_dir(struct fake_disk *d, struct disk_op *op)
{
    if (!op->file)
        return fake_files_sync_dir(d->files, op->path);
    fake_files_sync_opened_dir(d->files, file_of(op)->node);
    return ERR_OK;
}

/* Does it take a file descriptor, be it for a moment? */
static bool needs_fd(const struct disk_op *op)
{
    return op->kind == DISK_OPEN || op->kind == DISK_READ_FILE || op->kind == DISK_LIST ||
           (op->kind == DISK_SYNC_DIR && !op->file);
}

static enum err run_kind(struct fake_disk *d, struct disk_op *op)
{
    switch (op->kind) {
    case DISK_NONE:
        break;
    case DISK_OPEN:
        return run_open(d, op);
    case DISK_CLOSE:
        return run_close(op);
    case DISK_READ:
        op->done = fake_content_read(content_of(op), op->offset, op->into, (size_t)op->size);
        return ERR_OK;
    case DISK_WRITE:
        return run_write(d, op);
    case DISK_SYNC:
        return sync_file(d, content_of(op));
    case DISK_ALLOCATE:
        return run_allocate(d, op);
    case DISK_TRUNCATE:
        return run_truncate(op);
    case DISK_LOCK:
        return run_lock(op);
    case DISK_STAT:
        return run_stat(d, op);
    case DISK_READ_FILE:
        return run_read_file(d, op);
    case DISK_LIST:
        return run_list(d, op);
    case DISK_MAKE_DIR:
        return run_make_dir(d, op);
    case DISK_RENAME:
        return fake_files_rename(d->files, op->path, op->path_to);
    case DISK_REMOVE:
        return fake_files_remove(d->files, op->path);
    case DISK_SYNC_DIR:
        return run_sync_dir(d, op);
    case DISK_SPACE:
        return run_space(d, op);
    }
    unreachable();
}

static void run(struct disk *base, struct disk_op *op)
{
    struct fake_disk *d = fake(base);
    struct fake_fault fault;

    op->done = 0;
    op->os_error = 0;
    op->took_ns = op->sync_ns = 0;
    /* Writes and syncs ask for themselves, since a write may contain a sync. A close that fails has
     * closed nevertheless, as on Linux. */
    bool asks_itself = op->kind == DISK_WRITE || op->kind == DISK_SYNC;
    bool failing = !asks_itself && fails(d, op->kind, &fault);
    if (failing && op->kind != DISK_CLOSE) {
        op->err = fault.err;
        return;
    }
    if (needs_fd(op) && !fake_fds_are_left(d->fds)) { /* also before the file is made */
        op->err = ERR_NO_FILES;
        return;
    }
    op->err = run_kind(d, op);
    if (op->err == ERR_NO_SPACE)
        op->os_error = ENOSPC;
    if (failing)
        op->err = fault.err;
}

static void report(struct event *e)
{
    struct disk_op *op = container_of(e, struct disk_op, event);

    op->on_done(op);
}

/* While the disk hangs for ever, what is first is not scheduled. */
static void hold_first(struct fake_queue *q)
{
    struct fake_disk *d = q->disk;

    if (d->hung_until_ns == FAKE_DISK_FOR_EVER)
        fake_time_cancel(d->time, &q->task);
    else if (q->task.due_ns < d->hung_until_ns)
        fake_time_at(d->time, &q->task, d->hung_until_ns);
}

static void start_first(struct fake_queue *q)
{
    if (!q->first)
        return;
    q->began_ns = q->disk->time->now_ns;
    fake_time_after(q->disk->time, &q->task, q->disk->options.delay);
    hold_first(q);
}

static void run_first(struct fake_task *task)
{
    struct fake_queue *q = container_of(task, struct fake_queue, task);
    struct event *e = q->first;

    q->first = e->next;
    if (!q->first)
        q->last = &q->first;
    e->queued = false;
    struct disk_op *op = container_of(e, struct disk_op, event);
    run(&q->disk->base, op);
    op->took_ns = q->disk->time->now_ns - q->began_ns;
    if (op->sync || op->kind == DISK_SYNC)
        op->sync_ns = op->took_ns; /* all of it: writing takes no time here */
    e->run = report;
    inbox_post(q->disk->inbox, e);
    start_first(q);
}

static void submit(struct disk *base, enum disk_queue queue, struct disk_op *op)
{
    struct fake_queue *q = &fake(base)->queues[queue];
    bool idle = !q->first;

    op->event.queued = true;
    op->event.next = NULL;
    *q->last = &op->event;
    q->last = &op->event.next;
    if (idle)
        start_first(q);
}

struct fake_disk *fake_disk_new(struct fake_time *time, struct inbox *inbox,
                                const struct fake_disk_options *options)
{
    static const struct disk_ops ops = {.submit = submit, .run = run};
    struct fake_disk *d = mem_new(struct fake_disk);

    d->base.ops = &ops;
    d->time = time;
    d->inbox = inbox;
    d->options = *options;
    d->fds = options->fds ? options->fds : &d->own_fds;
    d->files = fake_files_new();
    d->space_max = FAKE_DISK_NOT_FULL;
    list_init(&d->open);
    for (unsigned i = 0; i < DISK_QUEUE_COUNT; i++) {
        struct fake_queue *q = &d->queues[i];
        *q = (struct fake_queue){.disk = d, .last = &q->first, .task.run = run_first};
    }
    return d;
}

void fake_disk_set_delay(struct fake_disk *d, struct fake_delay delay)
{
    d->options.delay = delay;
}

void fake_disk_hang(struct fake_disk *d, uint64_t until_ns)
{
    bool hung_for_ever = d->hung_until_ns == FAKE_DISK_FOR_EVER;

    d->hung_until_ns = until_ns;
    for (unsigned i = 0; i < DISK_QUEUE_COUNT; i++) {
        struct fake_queue *q = &d->queues[i];
        if (hung_for_ever)
            start_first(q);
        else if (q->first)
            hold_first(q);
    }
}

static struct fake_node *nth_file(const struct fake_node *dir, size_t n)
{
    for (size_t i = 0; i < dir->names.count; i++)
        if (!dir->names.at[i].node->is_dir && n-- == 0)
            return dir->names.at[i].node;
    return NULL;
}

bool fake_disk_flip(struct fake_disk *d, const char *dir, struct rng *coin)
{
    struct fake_node *n;
    size_t count = 0;

    if (fake_files_find(d->files, dir, &n) != ERR_OK)
        return false;
    while (nth_file(n, count))
        count++;
    return count > 0 && fake_content_flip(&nth_file(n, rng_below(coin, count))->content, coin);
}

void fake_disk_wipe(struct fake_disk *d)
{
    assert(list_empty(&d->open));

    fake_files_free(d->files);
    d->files = fake_files_new();
}

struct disk *fake_disk_seam(struct fake_disk *d)
{
    return &d->base;
}

static void close_all(struct fake_disk *d)
{
    LIST_FOREACH (link, &d->open)
        file_free(container_of(link, struct fake_file, link));
}

void fake_disk_free(struct fake_disk *d)
{
    for (unsigned i = 0; i < DISK_QUEUE_COUNT; i++)
        assert(!d->queues[i].first);
    close_all(d);
    fake_files_free(d->files);
    mem_free(d);
}

void fake_disk_fail(struct fake_disk *d, struct fake_fault fault)
{
    d->fault = fault;
}

bool fake_disk_will_fail(const struct fake_disk *d)
{
    return d->fault.nth > 0;
}

void fake_disk_die_at(struct fake_disk *d, uint64_t nth)
{
    d->die_at = nth ? d->calls + nth : 0;
}

bool fake_disk_is_dead(const struct fake_disk *d)
{
    return d->dead;
}

uint64_t fake_disk_calls(const struct fake_disk *d)
{
    return d->calls;
}

/* The end came in the middle of a write: some first part of it was made, and no sync. */
static void interrupt(struct fake_disk *d, struct disk_op *op)
{
    if (op->kind != DISK_WRITE)
        return;
    op->done = 0;
    write_pieces(op, some_of(d, op));
}

void fake_disk_crash(struct fake_disk *d, enum fake_crash how)
{
    for (unsigned i = 0; i < DISK_QUEUE_COUNT; i++) {
        struct fake_queue *q = &d->queues[i];
        if (q->first)
            interrupt(d, container_of(q->first, struct disk_op, event));
        fake_time_cancel(d->time, &q->task);
        q->first = NULL;
        q->last = &q->first;
    }
    close_all(d);
    d->fault = (struct fake_fault){0};
    d->hung_until_ns = 0;
    d->die_at = 0;
    d->dead = false;
    if (how != FAKE_KILLED)
        fake_files_crash(d->files, how == FAKE_TORN ? &d->time->rng : NULL);
}
