#include "cli/log_file.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/logger.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIME_LEN  23 /* 2026-01-02T03-04-05.678 */
#define DAY_NS    ((int64_t)86400 * 1000000000)
#define NS_PER_S  1000000000
#define NS_PER_MS 1000000

static int open_for_append(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

bool log_file_open(struct log_file *f, const char *path, const struct config_rotation *rotation)
{
    struct stat st;

    *f = (struct log_file){.path = path, .rotation = *rotation, .fd = open_for_append(path)};
    if (f->fd < 0)
        return false;
    if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode))
        f->bytes = (uint64_t)st.st_size;
    else
        f->rotation.is_on = false; /* a device or a pipe has no end to reach */
    pthread_mutex_init(&f->lock, NULL);
    return true;
}

void log_file_close(struct log_file *f)
{
    if (f->fd < 0)
        return;
    close(f->fd);
    pthread_mutex_destroy(&f->lock);
    f->fd = -1;
}

/* ---- Names ---- */

/* Where the last dot of the name is, if it has one: the time goes before it. */
static size_t stem_len(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    return dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);
}

static void time_text(int64_t now_ns, bool local, char out[64])
{
    time_t seconds = (time_t)(now_ns / NS_PER_S);
    struct tm parts;

    if (local)
        localtime_r(&seconds, &parts);
    else
        gmtime_r(&seconds, &parts);
    size_t len = strftime(out, 64, "%Y-%m-%dT%H-%M-%S", &parts);
    snprintf(out + len, 64 - len, ".%03d", (int)(now_ns % NS_PER_S / NS_PER_MS));
}

static const char *old_name(struct arena *arena, const struct log_file *f, int64_t now_ns)
{
    size_t stem = stem_len(f->path);
    char text[64];

    time_text(now_ns, f->rotation.local_time, text);
    return arena_printf(arena, "%.*s-%s%s", (int)stem, f->path, text, f->path + stem);
}

/* Is `text` a time as above? */
static bool is_time(const char *text)
{
    static const char shape[] = "dddd-dd-ddTdd-dd-dd.ddd";

    static_assert(sizeof(shape) == TIME_LEN + 1, "as long as a time");
    for (size_t i = 0; i < TIME_LEN; i++) {
        bool fits = shape[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == shape[i];
        if (!fits)
            return false;
    }
    return true;
}

/* Is it one of this log's old files? */
static bool is_old_name(const struct log_file *f, const char *name)
{
    const char *slash = strrchr(f->path, '/');
    const char *own = slash ? slash + 1 : f->path;
    size_t stem = stem_len(own);
    const char *ending = own + stem;

    return strlen(name) == stem + 1 + TIME_LEN + strlen(ending) && strncmp(name, own, stem) == 0 &&
           name[stem] == '-' && is_time(name + stem + 1) &&
           strcmp(name + stem + 1 + TIME_LEN, ending) == 0;
}

/* ---- Old files ---- */

/* Newest first: their names have the time in them. */
static int newest_first(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*b)->d_name, (*a)->d_name);
}

/* A file of before this name is too old. The name has the time at which the file was full. */
static void oldest_time(const struct log_file *f, int64_t now_ns, char out[64])
{
    uint64_t days = f->rotation.age_days_max;
    int64_t whole = days < 36500 ? (int64_t)days : 36500; /* before there were clocks */

    time_text(now_ns - whole * DAY_NS > 0 ? now_ns - whole * DAY_NS : 0, f->rotation.local_time,
              out);
}

static void remove_old(const struct log_file *f, int64_t now_ns)
{
    struct arena arena = {0};
    const char *slash = strrchr(f->path, '/');
    const char *dir =
        slash ? arena_copy_str(&arena, bytes_of(f->path, (size_t)(slash - f->path) + 1)) : "./";
    size_t stem = stem_len(slash ? slash + 1 : f->path);
    struct dirent **entries;
    char oldest[64];
    uint64_t kept = 0;
    int count = scandir(dir, &entries, NULL, newest_first);

    oldest_time(f, now_ns, oldest);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (is_old_name(f, name)) {
            bool too_many = f->rotation.backups_max > 0 && kept >= f->rotation.backups_max;
            bool too_old =
                f->rotation.age_days_max > 0 && strncmp(name + stem + 1, oldest, TIME_LEN) < 0;
            if (too_many || too_old)
                unlink(arena_printf(&arena, "%s%s", dir, name)); /* or it is tried next time */
            else
                kept++;
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    arena_free(&arena);
}

static void rotate(struct log_file *f, int64_t now_ns)
{
    struct arena arena = {0};
    const char *old = old_name(&arena, f, now_ns);
    bool is_renamed = rename(f->path, old) == 0;

    /* A file that has lost its name, by somebody's hand or because the last rotation could open no
     * new one, is read by nobody, and its bytes are on the disk as long as we write to it. */
    if (is_renamed || errno == ENOENT) {
        int fd = open_for_append(f->path);
        if (fd >= 0) {
            close(f->fd);
            f->fd = fd;
            remove_old(f, now_ns);
        }
    }
    /* Also where it has failed: then it is tried again when as much has been written again. */
    f->bytes = 0;
    arena_free(&arena);
}

void log_file_write(struct log_file *f, struct bytes line, int64_t now_ns)
{
    pthread_mutex_lock(&f->lock);
    if (f->rotation.is_on && f->bytes > 0 && f->bytes + line.len > f->rotation.size_bytes)
        rotate(f, now_ns);
    log_sink_fd(&f->fd, line);
    f->bytes += line.len;
    pthread_mutex_unlock(&f->lock);
}
