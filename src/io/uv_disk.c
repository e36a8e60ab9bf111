#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

struct disk_file {
    int fd;
};

/* The last step of an op: 0, or the errno that ended it. */
static void finish(struct disk_op *op, int error)
{
    op->os_error = error;
    op->err = err_of_errno(error);
}

static int error_of(long long result)
{
    return result < 0 ? errno : 0;
}

static void run_open(struct disk_op *op)
{
    int how = op->flags & DISK_READ_ONLY ? O_RDONLY : O_RDWR;

    how |= op->flags & DISK_CREATE ? O_CREAT : 0;
    how |= op->flags & DISK_EXCLUSIVE ? O_EXCL : 0;
    how |= op->flags & DISK_CUT ? O_TRUNC : 0;
    how |= op->flags & DISK_DIRECTORY ? O_DIRECTORY : 0;
    int fd;
    do
        fd = open(op->path, how | O_CLOEXEC, op->mode);
    while (fd < 0 && errno == EINTR);
    finish(op, error_of(fd));
    if (fd >= 0) {
        op->file = mem_new(struct disk_file);
        op->file->fd = fd;
    }
}

static void run_close(struct disk_op *op)
{
    int result = close(op->file->fd);

    /* Linux has released the descriptor even when a signal cut the call short. */
    finish(op, result < 0 && errno != EINTR ? errno : 0);
    mem_free(op->file);
    op->file = NULL;
}

static void run_read(struct disk_op *op)
{
    op->done = 0;
    while (op->done < op->size) {
        ssize_t got = pread(op->file->fd, op->into + op->done, op->size - op->done,
                            (off_t)(op->offset + op->done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            finish(op, error_of(got));
            return;
        }
        op->done += (size_t)got;
    }
    finish(op, 0);
}

/* As many of the pieces behind the first `done` bytes as one call takes. */
static int gather(const struct disk_op *op, struct iovec *out)
{
    size_t skip = op->done;
    int count = 0;

    for (size_t i = 0; i < op->piece_count && count < IO_PIECES_AT_ONCE_MAX; i++) {
        if (op->pieces[i].len <= skip) {
            skip -= op->pieces[i].len;
            continue;
        }
        out[count].iov_base = (void *)(op->pieces[i].at + skip);
        out[count++].iov_len = op->pieces[i].len - skip;
        skip = 0;
    }
    return count;
}

static int write_pieces(struct disk_op *op, uint64_t offset)
{
    struct iovec pieces[IO_PIECES_AT_ONCE_MAX];

    op->done = 0;
    for (int count; (count = gather(op, pieces)) > 0;) {
        ssize_t put = pwritev(op->file->fd, pieces, count, (off_t)(offset + op->done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        if (put == 0)
            return EIO; /* no reason given; trying again would be a loop */
        op->done += (size_t)put;
    }
    return 0;
}

/* Of what is not data it writes the size, without which the data could not be read back, and not
 * the times, which would cost another write to another place. */
static int sync_data(int fd)
{
    int result;

    do
        result = fdatasync(fd);
    while (result < 0 && errno == EINTR);
    return error_of(result);
}

static int sync_timed(struct disk_op *op)
{
    uint64_t began_ns = uv_hrtime();
    int error = sync_data(op->file->fd);

    op->sync_ns = uv_hrtime() - began_ns;
    return error;
}

static void run_write(struct disk_op *op)
{
    uint64_t offset = op->offset;
    int error = 0;

    op->done = 0;
    if (offset == DISK_END) {
        struct stat st;
        error = error_of(fstat(op->file->fd, &st));
        offset = error == 0 ? (uint64_t)st.st_size : 0;
    }
    if (error == 0)
        error = write_pieces(op, offset);
    if (error == 0 && op->sync)
        error = sync_timed(op);
    finish(op, error);
}

static int grow_to(int fd, uint64_t size)
{
    struct stat st;
    int error = error_of(fstat(fd, &st));

    if (error == 0 && (uint64_t)st.st_size < size)
        error = error_of(ftruncate(fd, (off_t)size));
    return error;
}

static void run_allocate(struct disk_op *op)
{
    bool keep_size = op->flags & DISK_KEEP_SIZE;
    int result;

    do
        result = fallocate(op->file->fd, keep_size ? FALLOC_FL_KEEP_SIZE : 0, (off_t)op->offset,
                           (off_t)op->size);
    while (result < 0 && errno == EINTR);

    /* A file system that cannot reserve leaves only the size to be kept as promised. */
    if (result < 0 && errno == EOPNOTSUPP)
        finish(op, keep_size ? 0 : grow_to(op->file->fd, op->offset + op->size));
    else
        finish(op, error_of(result));
}

static void run_truncate(struct disk_op *op)
{
    int result;

    do
        result = ftruncate(op->file->fd, (off_t)op->size);
    while (result < 0 && errno == EINTR);
    finish(op, error_of(result));
}

static void run_lock(struct disk_op *op)
{
    bool shared = op->flags & DISK_SHARED;
    struct flock whole = {.l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
    int result = -1;

    /* Kernels before 3.15 know no open-file-description locks and say EINVAL; etcd then takes a
     * flock, and so must we, to be seen by it. */
    bool by_flock = op->flags & DISK_FLOCK;
    if (!by_flock) {
        result = fcntl(op->file->fd, F_OFD_SETLK, &whole);
        by_flock = result < 0 && errno == EINVAL;
    }
    if (by_flock)
        result = flock(op->file->fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB);

    /* POSIX lets a lock that is held be refused with either of two numbers. */
    int error = error_of(result);
    finish(op, error == EACCES ? EAGAIN : error);
}

static void run_stat(struct disk_op *op)
{
    struct stat st = {0};
    int result = op->file ? fstat(op->file->fd, &st) : stat(op->path, &st);

    op->stat = (struct disk_stat){
        .size = (uint64_t)st.st_size,
        .mode = st.st_mode & 07777,
        .is_dir = S_ISDIR(st.st_mode),
    };
    finish(op, error_of(result));
}

/* What is kept back for root is not for us, even if we are root: it is what an administrator needs
 * to put things right. */
static void run_space(struct disk_op *op)
{
    struct statvfs fs = {0};
    int result = statvfs(op->path, &fs);

    op->size = (uint64_t)fs.f_bavail * fs.f_frsize;
    finish(op, error_of(result));
}

/* Reads to the end rather than to the size, which may be growing or, under /proc, a lie. */
static int read_to_end(int fd, uint64_t size_max, struct buf *out)
{
    size_t begin = out->len;

    for (;;) {
        ssize_t got = read(fd, buf_reserve(out, DISK_READ_STEP_BYTES), DISK_READ_STEP_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_of(got);
        out->len += (size_t)got;
        if (out->len - begin > size_max) {
            out->len = begin;
            return EFBIG;
        }
    }
}

static void run_read_file(struct disk_op *op)
{
    struct stat st;
    int fd = open(op->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        finish(op, errno);
        return;
    }
    int error = error_of(fstat(fd, &st));
    if (error == 0 && (uint64_t)st.st_size > op->size)
        error = EFBIG;
    if (error == 0) {
        buf_reserve(op->out, (size_t)st.st_size + DISK_READ_STEP_BYTES);
        error = read_to_end(fd, op->size, op->out);
    }
    close(fd); /* opened for reading: nothing can be lost */
    finish(op, error);
}

static int read_names(DIR *dir, uint64_t size_max, struct buf *out, size_t *count)
{
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            return errno;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        buf_append(out, bytes_of(entry->d_name, strlen(entry->d_name) + 1));
        ++*count;
        if (out->len > size_max)
            return EFBIG;
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void append_sorted(const struct buf *names, size_t count, struct buf *out)
{
    const char **sorted = mem_new_array(count, const char *);
    struct bytes left = buf_bytes(names);

    for (size_t i = 0; i < count; i++)
        sorted[i] = disk_next_name(&left);
    qsort(sorted, count, sizeof(*sorted), compare_names);
    for (size_t i = 0; i < count; i++)
        buf_append(out, bytes_of(sorted[i], strlen(sorted[i]) + 1));
    mem_free(sorted);
}

/* By open: opendir's descriptor is one that a race detector has not seen opened, only closed. */
static int open_listing(const char *path, DIR **out)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return errno;
    *out = fdopendir(fd);
    if (*out)
        return 0;
    int error = errno;
    close(fd);
    return error;
}

static void run_list(struct disk_op *op)
{
    DIR *dir = NULL;
    struct buf names = {0};
    size_t count = 0;
    int error = open_listing(op->path, &dir);

    if (error != 0) {
        finish(op, error);
        return;
    }
    error = read_names(dir, op->size, &names, &count);
    closedir(dir);
    if (error == 0)
        append_sorted(&names, count, op->out);
    buf_free(&names);
    finish(op, error);
}

static int make_dir(const char *path, unsigned mode, bool exists_is_fine)
{
    struct stat st;
    int error = error_of(mkdir(path, mode));

    if (error == EEXIST && exists_is_fine && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return error;
}

static void run_make_dir(struct disk_op *op)
{
    if (!(op->flags & DISK_PARENTS)) {
        finish(op, make_dir(op->path, op->mode, false));
        return;
    }
    char *path = mem_new_array(strlen(op->path) + 1, char);
    int error = 0;

    for (size_t i = 0; error == 0 && op->path[i]; i++) {
        if (i > 0 && op->path[i] == '/')
            error = make_dir(path, op->mode, true);
        path[i] = op->path[i];
    }
    if (error == 0)
        error = make_dir(path, op->mode, true);
    mem_free(path);
    finish(op, error);
}

static void run_remove(struct disk_op *op)
{
    int result = unlink(op->path);

    if (result < 0 &&
        (errno == EISDIR || errno == EPERM)) /* POSIX says the second, Linux the first */
        result = rmdir(op->path);
    finish(op, error_of(result));
}

static void sync_names(struct disk_op *op, int fd)
{
    int result;

    do
        result = fsync(fd);
    while (result < 0 && errno == EINTR);
    finish(op, error_of(result));
    if (op->os_error == EINVAL) /* it is a directory, so nothing else can be meant */
        op->err = ERR_OK;
}

static void run_sync_dir(struct disk_op *op)
{
    if (op->file) {
        sync_names(op, op->file->fd);
        return;
    }
    int fd = open(op->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        finish(op, errno);
        return;
    }
    sync_names(op, fd);
    close(fd); /* opened for reading: nothing can be lost */
}

static void run_kind(struct disk_op *op)
{
    switch (op->kind) {
    case DISK_NONE:
        break;
    case DISK_OPEN:
        return run_open(op);
    case DISK_CLOSE:
        return run_close(op);
    case DISK_READ:
        return run_read(op);
    case DISK_WRITE:
        return run_write(op);
    case DISK_SYNC:
        return finish(op, sync_timed(op));
    case DISK_ALLOCATE:
        return run_allocate(op);
    case DISK_TRUNCATE:
        return run_truncate(op);
    case DISK_LOCK:
        return run_lock(op);
    case DISK_STAT:
        return run_stat(op);
    case DISK_READ_FILE:
        return run_read_file(op);
    case DISK_LIST:
        return run_list(op);
    case DISK_MAKE_DIR:
        return run_make_dir(op);
    case DISK_RENAME:
        return finish(op, error_of(rename(op->path, op->path_to)));
    case DISK_REMOVE:
        return run_remove(op);
    case DISK_SYNC_DIR:
        return run_sync_dir(op);
    case DISK_SPACE:
        return run_space(op);
    }
    unreachable();
}

static void run(struct disk *d, struct disk_op *op)
{
    uint64_t began_ns = uv_hrtime();

    (void)d;
    op->sync_ns = 0;
    run_kind(op);
    op->took_ns = uv_hrtime() - began_ns;
}

static void report(struct event *e)
{
    struct disk_op *op = container_of(e, struct disk_op, event);

    container_of(op->disk, struct real_disk, base)->in_flight--;
    op->on_done(op);
}

static void run_on_thread(struct event *e)
{
    struct disk_op *op = container_of(e, struct disk_op, event);
    struct real_disk *d = container_of(op->disk, struct real_disk, base);

    run(&d->base, op);
    /* The one event takes the op there and back: submitting it can never fail for want of memory.
     */
    e->run = report;
    inbox_post(d->inbox, e);
}

static void submit(struct disk *base, enum disk_queue queue, struct disk_op *op)
{
    struct real_disk *d = container_of(base, struct real_disk, base);

    d->in_flight++;
    op->event.run = run_on_thread;
    crew_submit(&d->queues[queue], &op->event);
}

enum err real_disk_open(struct real_disk *d, struct inbox *inbox)
{
    static const struct disk_ops ops = {.submit = submit, .run = run};
    static const char *const names[DISK_QUEUE_COUNT] = {[DISK_LOG] = "log", [DISK_OTHER] = "disk"};

    *d = (struct real_disk){.base.ops = &ops, .inbox = inbox};
    enum err e = ERR_OK;
    for (unsigned i = 0; i < DISK_QUEUE_COUNT && e == ERR_OK; i++)
        e = crew_open(&d->queues[i], names[i], 1, 0);
    return e;
}

void real_disk_close(struct real_disk *d)
{
    assert(d->in_flight == 0);

    for (unsigned i = 0; i < DISK_QUEUE_COUNT; i++)
        crew_close(&d->queues[i]);
}
