#include "backend/lmdb_int.h"

#include "base/assert.h"
#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * The one table that is not handed in: signals belong to the process. A store that is being
 * replaced, its copy, and another one that a snapshot is unpacked into: a handful at a time.
 */
enum { TEXT_BYTES = 512, STEP_BYTES = MIB };

static struct region {
    _Atomic(char *) start; /* NULL: free */
    _Atomic(char *) end;
    char text[TEXT_BYTES]; /* the whole last line but for the signal's name */
} regions[LMDB_REGIONS_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before_bus, before_segv;
static bool installed;

static const struct region *region_of(const char *address)
{
    for (int i = 0; i < LMDB_REGIONS_MAX; i++) {
        const char *start = atomic_load(&regions[i].start);
        if (start && address >= start && address < atomic_load(&regions[i].end))
            return &regions[i];
    }
    return NULL;
}

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* nobody listens; there is nothing left to try */
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const struct region *hit = info->si_code > 0 ? region_of(info->si_addr) : NULL;

    (void)context;
    if (!hit) {
        /* Not ours. Back to whoever was there before; the instruction is tried again. */
        sigaction(number, number == SIGBUS ? &before_bus : &before_segv, NULL);
        if (info->si_code <= 0) /* sent by somebody: there is no instruction */
            raise(number);
        return;
    }
    say(hit->text);
    say(number == SIGBUS ? " (SIGBUS)\n" : " (SIGSEGV)\n");
    _exit(2);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (installed)
        return;
    installed = true;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &before_bus) != 0 ||
        sigaction(SIGSEGV, &action, &before_segv) != 0)
        fatal("cannot watch for faults in the page store");
}

void lmdb_map_name(int region, const char *path)
{
    if (region < 0)
        return;
    assert(region < LMDB_REGIONS_MAX);
    snprintf(regions[region].text, TEXT_BYTES,
             "cleat: fatal: the page store %s is damaged: a page is gone or cannot be read", path);
}

int lmdb_map_watch(void *start, size_t size, const char *path)
{
    pthread_mutex_lock(&lock);
    install();
    int i = 0;
    while (i < LMDB_REGIONS_MAX && atomic_load(&regions[i].start))
        i++;
    assert(i < LMDB_REGIONS_MAX);
    lmdb_map_name(i, path);
    atomic_store(&regions[i].end, (char *)start + size);
    atomic_store(&regions[i].start, (char *)start);
    pthread_mutex_unlock(&lock);
    return i;
}

/*
 * Unmapping a gigabyte at once holds the lock on the process's address space for tens of
 * milliseconds, and the core thread needs that lock whenever malloc asks for more memory. So the
 * pages are let go in steps first, after which there is little left to unmap.
 */
static void let_go(char *start, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += STEP_BYTES) {
        size_t left = bytes - at;
        if (madvise(start + at, left < STEP_BYTES ? left : STEP_BYTES, MADV_DONTNEED))
            return; /* then it is slower, no more */
    }
}

void lmdb_map_forget(int region, size_t file_bytes)
{
    if (region < 0)
        return;
    assert(region < LMDB_REGIONS_MAX);
    char *start = atomic_load(&regions[region].start);
    size_t size = (size_t)(atomic_load(&regions[region].end) - start);
    let_go(start, file_bytes < size ? file_bytes : size);
    atomic_store(&regions[region].start, NULL);
}

/* One line of the kernel's list: "start-end perms offset device inode path". */
static bool line_matches(const char *line, uint64_t inode, size_t size, uintptr_t *start)
{
    char *at;
    uintptr_t from = strtoull(line, &at, 16);

    if (*at != '-')
        return false;
    uintptr_t to = strtoull(at + 1, &at, 16);
    for (int skip = 0; skip < 3 && at; skip++) /* to the blank before the inode */
        at = strchr(at + 1, ' ');
    if (!at || strtoull(at, NULL, 10) != inode || to - from != size)
        return false;
    *start = from;
    return true;
}

void *lmdb_map_find(struct disk *disk, uint64_t inode, size_t size)
{
    struct buf maps = {0};
    uintptr_t start = 0;
    void *found;

    if (disk_read_file(disk, "/proc/self/maps", 64 * (size_t)MIB, &maps) == ERR_OK) {
        const char *line = buf_str(&maps);
        while (line && !line_matches(line, inode, size, &start)) {
            line = strchr(line, '\n');
            line = line && line[1] ? line + 1 : NULL;
        }
    }
    buf_free(&maps);
    memcpy(&found, &start, sizeof(found));
    return found;
}
