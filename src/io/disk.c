#include "io/disk.h"

#include "base/assert.h"

void disk_submit(struct disk *d, enum disk_queue queue, struct disk_op *op)
{
    assert(op->kind >= DISK_OPEN && op->kind <= DISK_SPACE);
    assert(op->on_done);
    assert(!op->event.queued);
    assert(queue < DISK_QUEUE_COUNT);

    op->disk = d;
    d->ops->submit(d, queue, op);
}

enum err disk_wait(struct disk *d, struct disk_op *op)
{
    assert(op->kind >= DISK_OPEN && op->kind <= DISK_SPACE);
    assert(!op->event.queued);

    op->disk = d;
    d->ops->run(d, op);
    return op->err;
}

enum err disk_open(struct disk *d, const char *path, unsigned flags, unsigned mode,
                   struct disk_file **out)
{
    struct disk_op op = {.kind = DISK_OPEN, .path = path, .flags = flags, .mode = mode};
    enum err e = disk_wait(d, &op);

    if (e == ERR_OK)
        *out = op.file;
    return e;
}

enum err disk_close(struct disk *d, struct disk_file *f)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_CLOSE, .file = f});
}

enum err disk_read(struct disk *d, struct disk_file *f, uint64_t offset, uint8_t *into, size_t size,
                   size_t *done)
{
    struct disk_op op = {
        .kind = DISK_READ, .file = f, .offset = offset, .into = into, .size = size};
    enum err e = disk_wait(d, &op);

    *done = op.done;
    return e;
}

enum err disk_write(struct disk *d, struct disk_file *f, uint64_t offset, struct bytes data)
{
    return disk_wait(
        d, &(struct disk_op){
               .kind = DISK_WRITE, .file = f, .offset = offset, .pieces = &data, .piece_count = 1});
}

enum err disk_sync(struct disk *d, struct disk_file *f)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_SYNC, .file = f});
}

enum err disk_allocate(struct disk *d, struct disk_file *f, uint64_t offset, uint64_t size,
                       unsigned flags)
{
    return disk_wait(
        d, &(struct disk_op){
               .kind = DISK_ALLOCATE, .file = f, .offset = offset, .size = size, .flags = flags});
}

enum err disk_truncate(struct disk *d, struct disk_file *f, uint64_t size)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_TRUNCATE, .file = f, .size = size});
}

enum err disk_lock(struct disk *d, struct disk_file *f, unsigned flags)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_LOCK, .file = f, .flags = flags});
}

enum err disk_stat_file(struct disk *d, struct disk_file *f, struct disk_stat *out)
{
    struct disk_op op = {.kind = DISK_STAT, .file = f};
    enum err e = disk_wait(d, &op);

    *out = op.stat;
    return e;
}

enum err disk_stat(struct disk *d, const char *path, struct disk_stat *out)
{
    struct disk_op op = {.kind = DISK_STAT, .path = path};
    enum err e = disk_wait(d, &op);

    *out = op.stat;
    return e;
}

enum err disk_read_file(struct disk *d, const char *path, size_t size_max, struct buf *out)
{
    return disk_wait(
        d, &(struct disk_op){.kind = DISK_READ_FILE, .path = path, .size = size_max, .out = out});
}

enum err disk_list(struct disk *d, const char *path, size_t size_max, struct buf *out)
{
    return disk_wait(
        d, &(struct disk_op){.kind = DISK_LIST, .path = path, .size = size_max, .out = out});
}

enum err disk_make_dir(struct disk *d, const char *path, unsigned mode, unsigned flags)
{
    return disk_wait(
        d, &(struct disk_op){.kind = DISK_MAKE_DIR, .path = path, .mode = mode, .flags = flags});
}

enum err disk_rename(struct disk *d, const char *path, const char *path_to)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_RENAME, .path = path, .path_to = path_to});
}

enum err disk_remove(struct disk *d, const char *path)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_REMOVE, .path = path});
}

enum err disk_sync_dir(struct disk *d, const char *path)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_SYNC_DIR, .path = path});
}

enum err disk_space(struct disk *d, const char *path, uint64_t *out)
{
    struct disk_op op = {.kind = DISK_SPACE, .path = path};
    enum err e = disk_wait(d, &op);

    *out = op.size;
    return e;
}

enum err disk_open_dir(struct disk *d, const char *path, struct disk_file **out)
{
    return disk_open(d, path, DISK_DIRECTORY | DISK_READ_ONLY, 0, out);
}

enum err disk_sync_opened_dir(struct disk *d, const char *path, struct disk_file *dir)
{
    return disk_wait(d, &(struct disk_op){.kind = DISK_SYNC_DIR, .path = path, .file = dir});
}

enum err disk_write_file(struct disk *d, const char *path, unsigned mode, struct bytes content)
{
    struct disk_file *f;
    enum err e = disk_open(d, path, DISK_CREATE | DISK_CUT, mode, &f);

    if (e != ERR_OK)
        return e;
    e = disk_write(d, f, 0, content);
    if (e == ERR_OK)
        e = disk_sync(d, f);
    enum err closed = disk_close(d, f);
    return e != ERR_OK ? e : closed;
}

const char *disk_next_name(struct bytes *left)
{
    const char *name = (const char *)left->at;

    if (left->len == 0)
        return NULL;
    size_t len = strnlen(name, left->len);
    assert(len < left->len);
    left->at += len + 1;
    left->len -= len + 1;
    return name;
}
