/*
 * LMDB's calls to the system, failed one by one, and cut off as by a loss of power.
 *
 * LMDB does its own IO, so no seam of ours can make it fail. Instead this file defines the calls
 * that liblmdb (and io, for the renames) makes; the dynamic linker finds these first. For files
 * outside the watched folder, and while nobody watches, they only pass the call on.
 *
 * For a power cut it keeps its own idea of what is on the platter. A file is what was synced; then
 * there are writes that were not, of which any subset may have arrived, any of them torn at a
 * sector. Names are what the last sync of the folder saw, and then a prefix of what was done since.
 */
#include "backend/lmdb_fault_test.h"

#include "backend/story_test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS = 1024, FILES = 8, WRITES = 4096, NAMES = 64, SECTOR = 512 };

struct unsynced {
    off_t offset;
    struct buf data;
};

struct shim_file {
    unsigned sync_errors; /* each told once to each opening, as by the kernel */
    struct buf platter;
    struct unsynced writes[WRITES];
    size_t write_count;
};

struct name_change {
    char name[32];
    struct shim_file *file; /* NULL: removed */
    bool with_last;         /* not to be had without the change before it */
};

static struct shim {
    char dir[160]; /* empty: nobody watches */
    struct {
        struct shim_file *file; /* NULL: not ours */
        bool dsync, is_dir;
        unsigned sync_errors; /* of the file's, those that this one was told */
        bool is_folder;       /* the watched one itself, not the one above */
    } fds[FDS];
    struct shim_file *files[FILES];
    size_t file_count;
    struct name_change names[NAMES]; /* since the beginning */
    size_t name_count, synced_names;

    uint64_t calls, fail_at; /* fail_at 0: never */
    int error;
    bool for_good;   /* every call after it fails too: the power is gone */
    bool only_syncs; /* are counted, and fail */
    bool killed;     /* or the process is, and the kernel has what was done before, and no more */
    bool dead;
    bool is_sync;   /* the call that is being made */
    bool hit_pages; /* the one that failed wrote pages, or wanted space for them */

    bool is_limited; /* then files may grow by so much: */
    uint64_t space;
} shim;

static pthread_mutex_t shim_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- deciding ----------------------------------------------------------------------------- */

static bool watching(const char *path)
{
    return shim.dir[0] && strncmp(path, shim.dir, strlen(shim.dir)) == 0;
}

static bool ours(int fd)
{
    return fd >= 0 && fd < FDS && (shim.fds[fd].file || shim.fds[fd].is_dir);
}

/* Counts a call; true, with errno set, if it is to fail. *cut: it is the one during which the power
 * goes, so that it may have had its effect, or some of it. */
static bool fails(bool *cut)
{
    *cut = false;
    if (shim.only_syncs && !shim.is_sync)
        return false;
    if (!shim.dead && ++shim.calls != shim.fail_at)
        return false;
    *cut = shim.for_good && !shim.killed && !shim.dead;
    shim.dead = shim.for_good;
    errno = shim.error;
    return true;
}

/* How much of a write there is space for: a write that finds some comes up short. */
static size_t what_fits(int fd, off_t offset, size_t len)
{
    struct stat st;

    CHECK_EQ(fstat(fd, &st), 0);
    uint64_t end = (uint64_t)offset + len, more = 0;
    if (end > (uint64_t)st.st_size)
        more = end - (uint64_t)(st.st_size > offset ? st.st_size : offset);
    if (!shim.is_limited || more <= shim.space) {
        shim.space -= shim.is_limited ? more : 0;
        return len;
    }
    size_t fits = len - more + shim.space;
    shim.space = 0;
    return fits;
}

/* --- the platter -------------------------------------------------------------------------- */

static void apply(struct buf *platter, off_t offset, struct bytes data)
{
    size_t end = (size_t)offset + data.len;

    if (platter->len < end) {
        size_t before = platter->len;
        memset(buf_extend(platter, end - before), 0, end - before);
    }
    memcpy(platter->at + offset, data.at, data.len);
}

static void forget_writes(struct shim_file *f)
{
    for (size_t i = 0; i < f->write_count; i++)
        buf_free(&f->writes[i].data);
    f->write_count = 0;
}

static void note_write(int fd, off_t offset, const void *at, size_t len, bool done)
{
    struct shim_file *f = shim.fds[fd].file;

    if (done &&
        shim.fds[fd].dsync) { /* its own data is there; what others wrote before may not be */
        apply(&f->platter, offset, bytes_of(at, len));
        return;
    }
    CHECK(f->write_count < WRITES);
    struct unsynced *w = &f->writes[f->write_count++];
    *w = (struct unsynced){.offset = offset};
    buf_append(&w->data, bytes_of(at, len));
}

static void note_sync(int fd)
{
    struct shim_file *f = shim.fds[fd].file;

    if (shim.fds[fd].is_dir) {
        if (shim.fds[fd].is_folder)
            shim.synced_names = shim.name_count;
        return;
    }
    for (size_t i = 0; i < f->write_count; i++)
        apply(&f->platter, f->writes[i].offset, buf_bytes(&f->writes[i].data));
    forget_writes(f);
}

static void note_name(const char *path, struct shim_file *f)
{
    const char *name = strrchr(path, '/') + 1;

    CHECK(shim.name_count < NAMES);
    struct name_change *n = &shim.names[shim.name_count++];
    *n = (struct name_change){.file = f};
    snprintf(n->name, sizeof(n->name), "%s", name);
}

static struct shim_file *name_at(const char *name, size_t upto)
{
    while (upto-- > 0)
        if (strcmp(shim.names[upto].name, name) == 0)
            return shim.names[upto].file;
    return NULL;
}

static void note_open(int fd, const char *path, int flags)
{
    struct stat st;

    CHECK(fd < FDS);
    CHECK_EQ(fstat(fd, &st), 0);
    shim.fds[fd].file = NULL;
    shim.fds[fd].dsync = (flags & O_DSYNC) != 0;
    shim.fds[fd].sync_errors = 0;
    shim.fds[fd].is_dir = S_ISDIR(st.st_mode);
    shim.fds[fd].is_folder = strcmp(path, shim.dir) == 0;
    if (S_ISDIR(st.st_mode))
        return;
    struct shim_file *f = name_at(strrchr(path, '/') + 1, shim.name_count);
    if (!f) {
        CHECK(shim.file_count < FILES);
        f = mem_new(struct shim_file);
        shim.files[shim.file_count++] = f;
        note_name(path, f);
    }
    shim.fds[fd].file = f;
    shim.fds[fd].sync_errors = f->sync_errors;
}

static void note_failed_write(int fd)
{
    shim.hit_pages = shim.hit_pages || !shim.fds[fd].dsync;
}

/* --- the calls ---------------------------------------------------------------------------- */

int open(const char *path, int flags, ...)
{
    va_list args;

    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (!watching(path))
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    bool cut;
    pthread_mutex_lock(&shim_lock);
    /* As with sync_call, the real platter need not be waited for. */
    int fd = fails(&cut) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags & ~O_DSYNC, mode);
    if (fd >= 0)
        note_open(fd, path, flags);
    pthread_mutex_unlock(&shim_lock);
    return fd;
}

int close(int fd)
{
    if (ours(fd)) {
        pthread_mutex_lock(&shim_lock);
        shim.fds[fd].file = NULL;
        shim.fds[fd].is_dir = false;
        pthread_mutex_unlock(&shim_lock);
    }
    return (int)syscall(SYS_close, fd);
}

ssize_t pwrite(int fd, const void *at, size_t len, off_t offset)
{
    bool cut;

    if (!ours(fd))
        return syscall(SYS_pwrite64, fd, at, len, offset);
    pthread_mutex_lock(&shim_lock);
    bool failed = fails(&cut);
    size_t fits = what_fits(fd, offset, len);
    ssize_t put = failed ? -1 : syscall(SYS_pwrite64, fd, at, fits, offset);
    if (put == 0 && len > 0) {
        put = -1;
        errno = ENOSPC;
    }
    if (failed)
        note_failed_write(fd);
    if (put > 0 || cut)
        note_write(fd, offset, at, cut ? len : (size_t)put, !cut);
    pthread_mutex_unlock(&shim_lock);
    return put;
}

static ssize_t write_what_fits(int fd, off_t offset, const struct iovec *pieces, int count)
{
    size_t total = 0;

    for (int i = 0; i < count; i++)
        total += pieces[i].iov_len;
    size_t left = what_fits(fd, offset, total), put = 0;
    if (left == total)
        return syscall(SYS_writev, fd, pieces, count);
    for (int i = 0; i < count && left > 0; i++) {
        size_t len = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        CHECK_EQ(syscall(SYS_write, fd, pieces[i].iov_base, len), (long)len);
        left -= len;
        put += len;
    }
    errno = ENOSPC;
    return put > 0 ? (ssize_t)put : -1;
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    bool cut;

    if (!ours(fd))
        return syscall(SYS_writev, fd, pieces, count);
    pthread_mutex_lock(&shim_lock);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    bool failed = fails(&cut);
    ssize_t put = failed ? -1 : write_what_fits(fd, offset, pieces, count);
    if (failed)
        note_failed_write(fd);
    size_t left = cut ? SIZE_MAX : put > 0 ? (size_t)put : 0;
    for (int i = 0; i < count && left > 0; i++) {
        size_t len = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        note_write(fd, offset, pieces[i].iov_base, len, !cut);
        offset += (off_t)len;
        left -= len;
    }
    pthread_mutex_unlock(&shim_lock);
    return put;
}

ssize_t write(int fd, const void *at, size_t len)
{
    if (!ours(fd))
        return syscall(SYS_write, fd, at, len);
    return writev(fd, &(struct iovec){(void *)at, len}, 1);
}

static int sync_call(long number, int fd)
{
    bool cut;

    if (!ours(fd))
        return (int)syscall(number, fd);
    pthread_mutex_lock(&shim_lock);
    shim.is_sync = true;
    int result =
        fails(&cut) ? -1 : 0; /* the platter is our own: no need to wait for the real one */
    shim.is_sync = false;
    struct shim_file *f = shim.fds[fd].file;
    if (f && result != 0)
        f->sync_errors++;
    if (f && result == 0 && shim.fds[fd].sync_errors != f->sync_errors) {
        errno = EIO;
        result = -1;
    }
    if (f)
        shim.fds[fd].sync_errors = f->sync_errors;
    if (result == 0)
        note_sync(fd);
    pthread_mutex_unlock(&shim_lock);
    return result;
}

int fdatasync(int fd)
{
    return sync_call(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return sync_call(SYS_fsync, fd);
}

int ftruncate(int fd, off_t size)
{
    bool cut;

    if (!ours(fd))
        return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&shim_lock);
    int result = fails(&cut) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_unlock(&shim_lock);
    return result;
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    bool cut;

    if (!ours(fd))
        return (int)syscall(SYS_fallocate, fd, mode, offset, len);
    pthread_mutex_lock(&shim_lock);
    int result = fails(&cut) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, len);
    if (result != 0)
        note_failed_write(fd);
    if (result == 0 && shim.is_limited && shim.space < (uint64_t)len) {
        errno = ENOSPC;
        result = -1;
    }
    pthread_mutex_unlock(&shim_lock);
    return result;
}

static void *map_call(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    long result = syscall(SYS_mmap, at, len, protection, flags, fd, offset);
    void *map;

    memcpy(&map, &result, sizeof(map));
    return map;
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    bool cut;

    if (!ours(fd))
        return map_call(at, len, protection, flags, fd, offset);
    pthread_mutex_lock(&shim_lock);
    void *map = fails(&cut) ? MAP_FAILED : map_call(at, len, protection, flags, fd, offset);
    pthread_mutex_unlock(&shim_lock);
    return map;
}

int rename(const char *from, const char *to)
{
    bool cut;

    if (!watching(from))
        return (int)syscall(SYS_rename, from, to);
    pthread_mutex_lock(&shim_lock);
    int result = fails(&cut) ? -1 : (int)syscall(SYS_rename, from, to);
    if (result == 0 || cut) {
        note_name(to, name_at(strrchr(from, '/') + 1, shim.name_count));
        note_name(from, NULL);
        shim.names[shim.name_count - 1].with_last = true;
    }
    pthread_mutex_unlock(&shim_lock);
    return result;
}

int unlink(const char *path)
{
    bool cut;

    if (!watching(path))
        return (int)syscall(SYS_unlink, path);
    pthread_mutex_lock(&shim_lock);
    int result = fails(&cut) ? -1 : (int)syscall(SYS_unlink, path);
    if (result == 0 || cut)
        note_name(path, NULL);
    pthread_mutex_unlock(&shim_lock);
    return result;
}

/* --- watching, and what is left ----------------------------------------------------------- */

static void watch(const char *dir, uint64_t fail_at, int error, bool for_good)
{
    CHECK_EQ(shim.file_count, 0);
    snprintf(shim.dir, sizeof(shim.dir), "%s", dir);
    shim.fail_at = fail_at;
    shim.error = error;
    shim.for_good = for_good;
    shim.calls = 0;
}

static void unwatch(void)
{
    for (size_t i = 0; i < shim.file_count; i++) {
        forget_writes(shim.files[i]);
        buf_free(&shim.files[i]->platter);
        mem_free(shim.files[i]);
    }
    memset(&shim, 0, sizeof(shim));
}

void lmdb_fault_at(const char *dir, uint64_t nth, int error)
{
    watch(dir, nth, error, false);
}

bool lmdb_fault_end(void)
{
    bool reached = shim.calls >= shim.fail_at;

    unwatch();
    return reached;
}

/* Some of the writes that were not synced have arrived, some of those not to their end. */
static void settle_file(struct shim_file *f, struct rng *rng)
{
    for (size_t i = 0; i < f->write_count; i++) {
        struct bytes data = buf_bytes(&f->writes[i].data);
        off_t offset = f->writes[i].offset;
        uint64_t fate = rng_below(rng, 3);
        uint64_t tear = rng_below(rng, data.len + 1);
        if (fate == 0)
            continue;
        if (fate == 1) /* torn, between two sectors */
            tear = (((uint64_t)offset + tear) & ~(uint64_t)(SECTOR - 1)) - (uint64_t)offset;
        else
            tear = data.len;
        if (tear <= data.len)
            apply(&f->platter, offset, bytes_of(data.at, tear));
    }
    forget_writes(f);
}

static void write_out(const char *dir, const char *name, struct bytes content)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, content.at, content.len), (long long)content.len);
    close(fd);
}

/* Makes `dir` what the disk looks like when the power is back. */
static void restore(const char *dir, struct rng *rng)
{
    size_t names = rng_between(rng, shim.synced_names, shim.name_count);

    while (names < shim.name_count && shim.names[names].with_last)
        names++;
    shim.dir[0] = '\0'; /* the power is back */
    CHECK_EQ(mkdir(dir, 0700), 0);
    for (size_t i = 0; i < shim.file_count; i++)
        settle_file(shim.files[i], rng);
    for (size_t i = 0; i < names; i++) {
        const char *name = shim.names[i].name;
        if (shim.names[i].file && name_at(name, names) == shim.names[i].file)
            write_out(dir, name, buf_bytes(&shim.names[i].file->platter));
    }
}

/* --- the sweeps --------------------------------------------------------------------------- */

struct result {
    unsigned opens, commits, defrags, unharmed; /* that failed, or had nothing to fail */
    unsigned waited;                            /* for space, or what looked like want of it */
};

static void new_folder(struct story *t, uint64_t nth, const char *what)
{
    snprintf(t->s.dir, sizeof(t->s.dir), "%s/%s%llu", test_tmp_dir(), what,
             (unsigned long long)nth);
}

static void remove_folder(const struct story *t)
{
    char command[256];

    snprintf(command, sizeof(command), "rm -rf '%s'", t->s.dir);
    CHECK_EQ(system(command), 0);
}

/* Tells the story as far as it goes; true if the call in question was reached. */
static bool tell_watched(struct story *t, uint64_t nth, int error, bool for_good,
                         struct result *out)
{
    watch(t->s.dir, nth, error, for_good);
    if (backend_rig_open(&t->s) == ERR_OK)
        story_tell(t);
    else
        out->opens++;
    out->commits += t->s.failed;
    out->waited += t->waited;
    out->defrags += t->defrag_done && t->defrag_err != ERR_OK;
    out->unharmed += t->s.b && !t->s.failed && t->defrag_done && t->defrag_err == ERR_OK;
    bool reached = shim.calls >= nth;
    backend_rig_close(&t->s);
    return reached;
}

static bool fail_once(uint64_t nth, int error, struct result *out)
{
    struct story t;
    unsigned unharmed = out->unharmed;

    story_init(&t, BACKEND_RIG_LMDB);
    new_folder(&t, nth, "fail");
    unsigned waited = out->waited;
    bool reached = tell_watched(&t, nth, error, false, out);
    bool hit_pages = shim.hit_pages;
    unwatch();

    if (reached) {
        /* Nobody overhears a failure, except that where addresses are refused a smaller map does;
         * and that pages which nobody needs yet may be written again. */
        CHECK(error == ENOMEM || hit_pages || out->unharmed == unharmed);
        CHECK(hit_pages || out->waited == waited);
        story_check_prefix(&t);
    }
    backend_rig_close(&t.s);
    remove_folder(&t);
    backend_rig_free(&t.s);
    return reached;
}

TEST(every_call_of_lmdb_may_fail_once)
{
    struct result out = {0};
    uint64_t nth = 1;

    while (fail_once(nth, nth % 3 == 0 ? ENOSPC : nth % 3 == 1 ? EIO : ENOMEM, &out))
        nth++;

    printf("%u refused, %u died, %u waited\n", out.opens, out.commits, out.waited);
    CHECK(nth > 70);
    CHECK(out.opens > 10);
    CHECK(out.commits > 10);
    CHECK(out.defrags > 20);
    CHECK(out.waited > 5);
}

/* --- a full disk -------------------------------------------------------------------------- */

/* There is space when it has been waited for twice. */
static void give_space(struct story *t)
{
    if (t->waited % 2 == 0)
        shim.space = 64 * MIB;
}

/* The story, on a disk that has this much space left when it begins. */
static void tell_full(uint64_t space, struct result *out)
{
    struct story t;

    story_init(&t, BACKEND_RIG_LMDB);
    new_folder(&t, space, "full");
    t.on_full = give_space;
    watch(t.s.dir, 0, 0, false);
    CHECK_EQ(backend_rig_open(&t.s), ERR_OK);
    shim.is_limited = true;
    shim.space = space;
    story_tell(&t);
    CHECK(!t.s.failed);
    CHECK_EQ(t.reported, STORY_BATCHES);
    out->waited += t.waited;
    out->defrags += t.defrag_err == ERR_NO_SPACE;
    backend_rig_close(&t.s);
    unwatch();

    CHECK_EQ(story_check_prefix(&t), STORY_BATCHES);
    backend_rig_close(&t.s);
    remove_folder(&t);
    backend_rig_free(&t.s);
}

/* Some of the writes come up short, at any byte, which LMDB takes for an input/output error. */
TEST(a_store_on_a_full_disk_is_as_it_was_and_goes_on_when_there_is_space)
{
    struct result out = {0};

    for (uint64_t space = 0; space < 512 * KIB; space += 1 + space / 8)
        tell_full(space, &out);
    printf("%u waited, %u defragmentations ended\n", out.waited, out.defrags);

    CHECK(out.waited > 20);
    CHECK(out.defrags > 5);
}

/* However full the disk is: nobody knows what a failed sync has kept. */
TEST(a_sync_that_fails_on_a_full_disk_ends_the_store)
{
    struct result out = {0};
    unsigned died = 0;

    for (uint64_t nth = 1;; nth++) {
        struct story t;
        story_init(&t, BACKEND_RIG_LMDB);
        new_folder(&t, nth, "sync");
        shim.only_syncs = true;
        bool reached = tell_watched(&t, nth, ENOSPC, false, &out);
        CHECK_EQ(t.waited, 0);
        CHECK(!reached || t.s.failed || !t.s.b || t.defrag_err != ERR_OK);
        died += t.s.failed;
        unwatch();
        backend_rig_close(&t.s);
        remove_folder(&t);
        backend_rig_free(&t.s);
        if (!reached)
            break;
    }
    CHECK(died >= 6); /* a batch each, and more */
}

static bool cut_power(uint64_t nth, struct rng *rng, struct result *out, unsigned *lost)
{
    struct story t;

    story_init(&t, BACKEND_RIG_LMDB);
    new_folder(&t, nth, "cut");
    bool reached = tell_watched(&t, nth, EIO, true, out);
    if (reached) {
        remove_folder(&t);
        restore(t.s.dir, rng);
    }
    unwatch();

    if (reached)
        *lost += story_check_prefix(&t) < t.handed_over;
    backend_rig_close(&t.s);
    remove_folder(&t);
    backend_rig_free(&t.s);
    return reached;
}

TEST(the_power_may_go_at_every_call_of_lmdb)
{
    for (uint64_t round = 0; round < test_effort(); round++) {
        struct result out = {0};
        struct rng rng;
        unsigned lost = 0;
        uint64_t nth = 1;
        rng_seed(&rng, test_seed() + round);

        while (cut_power(nth, &rng, &out, &lost))
            nth++;

        CHECK(nth > 70);
        CHECK(lost > 10);
    }
}

/* --- killed first, and then the power ------------------------------------------------------ */

/* The next process: it finds what the kernel shows, and has one more batch made durable. */
static void live_again(struct story *t, struct model *out)
{
    shim.dead = shim.for_good = false;
    shim.fail_at = 0;
    t->s.failed = false;
    *out = t->states[story_check_prefix(t)];
    backend_entry_begin(t->s.b);
    model_put(&t->s, out, 1, 1, 4711);
    model_end_entry(&t->s, out, STORY_BATCHES + 1, 0);
    backend_rig_commit(&t->s);
    CHECK(!t->s.failed);
    CHECK_EQ(backend_durable(t->s.b).index, out->index);
    backend_rig_close(&t->s);
}

static bool kill_and_cut(uint64_t nth, struct rng *rng)
{
    struct story t;
    struct model after;
    struct result out = {0};
    struct backend_view v;

    story_init(&t, BACKEND_RIG_LMDB);
    new_folder(&t, nth, "kill");
    shim.killed = true;
    bool reached = tell_watched(&t, nth, EIO, true, &out);
    if (reached) {
        live_again(&t, &after);
        remove_folder(&t);
        restore(t.s.dir, rng);
    }
    unwatch();

    if (reached) {
        CHECK_EQ(backend_rig_open(&t.s), ERR_OK);
        backend_view_open(t.s.b, &v);
        CHECK(model_matches(&after, &v));
        backend_view_close(&v);
        backend_rig_close(&t.s);
    }
    remove_folder(&t);
    backend_rig_free(&t.s);
    return reached;
}

/*
 * The kernel shows names that are not on the disk yet. If a process dies between the renames of a
 * defragmentation and the sync behind them, the next one opens the new file by a name that the disk
 * does not have, and all that it commits goes with the power.
 */
TEST(what_is_committed_after_a_kill_at_any_call_survives_the_power)
{
    for (uint64_t round = 0; round < 4 * test_effort(); round++) {
        struct rng rng;
        uint64_t nth = 1;
        rng_seed(&rng, test_seed() + round);

        while (kill_and_cut(nth, &rng))
            nth++;

        CHECK(nth > 70);
    }
}
