#include "base/buf.h"
#include "io/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 16384 };

/* False: it is not there, or longer than anybody expects. */
static bool read_small(const char *path, char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got = 1;

    if (fd < 0)
        return false;
    while (got > 0 && len < TEXT_BYTES_MAX - 1) {
        got = read(fd, text + len, TEXT_BYTES_MAX - 1 - len);
        len += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    text[len] = 0;
    return got == 0;
}

static uint64_t count_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t count = 0;

    if (!dir)
        return 0;
    for (const struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count - 1; /* the directory itself */
}

/* When the machine was started, in seconds since 1970. */
static double boot_time(char *text)
{
    const char *line = read_small("/proc/stat", text) ? strstr(text, "\nbtime ") : NULL;

    return line ? strtod(line + strlen("\nbtime "), NULL) : 0;
}

/* Of proc(5)'s stat: 14 and 15 are times, 20 the threads, 22 the start, 23 and 24 memory. */
static void read_stat(struct process_sample *out, char *text)
{
    unsigned long long user, kernel, threads, start, memory;
    long resident;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    const char *rest = read_small("/proc/self/stat", text) ? strrchr(text, ')') : NULL;

    if (!rest || sscanf(rest + 1,
                        " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d "
                        "%llu %*d %llu %llu %ld",
                        &user, &kernel, &threads, &start, &memory, &resident) != 6)
        return;
    out->cpu_ns = (uint64_t)((double)(user + kernel) / ticks * 1e9);
    out->threads = threads;
    out->virtual_bytes = memory;
    out->resident_bytes = (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
    out->started_unix = boot_time(text) + (double)start / ticks;
}

/* All interfaces, as Prometheus' own collector has it. */
static void read_net(struct process_sample *out, char *text)
{
    unsigned long long received, sent;

    if (!read_small("/proc/self/net/dev", text))
        return;
    for (const char *line = text; (line = strchr(line, ':')); line++) {
        if (sscanf(line + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &received, &sent) != 2)
            continue;
        out->net_received_bytes += received;
        out->net_sent_bytes += sent;
    }
}

/* Of what getrlimit has found, unless it failed. */
static uint64_t limit_in(int failed, const struct rlimit *limit)
{
    if (failed)
        return 0;
    return limit->rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit->rlim_cur;
}

void process_look(struct process_sample *out)
{
    char *text = malloc(TEXT_BYTES_MAX);
    struct mallinfo2 heap = mallinfo2();
    struct rlimit memory, files;
    int no_memory = getrlimit(RLIMIT_AS, &memory), no_files = getrlimit(RLIMIT_NOFILE, &files);

    *out = (struct process_sample){
        .virtual_bytes_max = limit_in(no_memory, &memory),
        .open_files = count_files(),
        .files_max = limit_in(no_files, &files),
        .processors = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
        .heap_bytes = heap.arena + heap.hblkhd,
        .heap_used_bytes = heap.uordblks + heap.hblkhd,
    };
    if (!text)
        return;
    read_stat(out, text);
    read_net(out, text);
    free(text);
}

void process_command_line(struct buf *out)
{
    char *text = malloc(TEXT_BYTES_MAX);
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = text && fd >= 0 ? read(fd, text, TEXT_BYTES_MAX) : 0;

    if (got > 0)
        buf_append(out, bytes_of(text, (size_t)got));
    if (fd >= 0)
        close(fd);
    free(text);
}
