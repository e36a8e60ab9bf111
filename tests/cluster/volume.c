#include "cluster/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

bool volume_mount(const char *path, uint64_t bytes)
{
    char options[64];

    snprintf(options, sizeof(options), "size=%llu,mode=0700", (unsigned long long)bytes);
    return (mkdir(path, 0700) == 0 || errno == EEXIST) &&
           mount("tmpfs", path, "tmpfs", 0, options) == 0;
}

/* Somebody may still look at it: then it goes with him. */
void volume_unmount(const char *path)
{
    if (umount2(path, MNT_DETACH) != 0)
        perror(path);
}

static const char *filler(const char *path, char out[static PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%s/.filler", path);
    return out;
}

/* What is left, to the last page. */
static bool write_all(int fd)
{
    static const char zeros[65536];
    ssize_t put;

    while ((put = write(fd, zeros, sizeof(zeros))) > 0)
        ;
    return put < 0 && errno == ENOSPC;
}

bool volume_fill(const char *path, uint64_t left)
{
    char name[PATH_BYTES];
    struct statvfs fs;
    struct stat st;
    int fd = open(filler(path, name), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0)
        return false;
    bool ok = fstatvfs(fd, &fs) == 0 && fstat(fd, &st) == 0;
    uint64_t free_bytes = ok ? (uint64_t)fs.f_bavail * fs.f_frsize : 0;
    if (ok && free_bytes > left)
        ok = fallocate(fd, 0, st.st_size, (off_t)(free_bytes - left)) == 0 || errno == ENOSPC;
    if (ok && left == 0)
        ok = write_all(fd);
    close(fd);
    return ok;
}

bool volume_give_space(const char *path)
{
    char name[PATH_BYTES];

    return unlink(filler(path, name)) == 0;
}
