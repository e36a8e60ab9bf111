#include "sim/store_disk.h"

#include "base/assert.h"
#include "base/list.h"
#include "io/loop.h"
#include "snap/transfer.h"

#include <string.h>

static bool is_real_path(const char *path)
{
    static const char store[] = "/member/" SNAP_STORE_NAME;

    return strstr(path, store) || strncmp(path, "/proc/", 6) == 0;
}

static size_t find_file(const struct store_disk *s, const struct disk_file *file)
{
    size_t i = 0;

    while (i < STORE_DISK_FILES_MAX && s->files[i] != file)
        i++;
    return i;
}

static bool is_real(const struct store_disk *s, const struct disk_op *op)
{
    if (op->path)
        return is_real_path(op->path);
    return op->file && find_file(s, op->file) < STORE_DISK_FILES_MAX;
}

static void run(struct disk *d, struct disk_op *op)
{
    struct store_disk *s = container_of(d, struct store_disk, base);
    const struct disk_file *file = op->file;

    if (!is_real(s, op)) {
        s->fake->ops->run(s->fake, op);
        return;
    }
    s->real->ops->run(s->real, op);
    if (op->err != ERR_OK || file == op->file)
        return;
    size_t at = find_file(s, op->file ? NULL : file);
    assert(at < STORE_DISK_FILES_MAX);
    s->files[at] = op->file;
}

static void submit(struct disk *d, enum disk_queue queue, struct disk_op *op)
{
    struct store_disk *s = container_of(d, struct store_disk, base);

    assert(!is_real(s, op)); /* whose end would come when the machine likes, and not by the seed */
    s->fake->ops->submit(s->fake, queue, op);
}

void store_disk_open(struct store_disk *s, struct disk *fake)
{
    static const struct disk_ops ops = {.submit = submit, .run = run};

    *s = (struct store_disk){.base.ops = &ops, .fake = fake};
    enum err e = loop_open(&(struct loop_options){0}, &s->loop);
    if (e != ERR_OK)
        fatal("there is no real disk to be had: %s", err_text(e));
    s->real = loop_io(s->loop)->disk;
}

void store_disk_close(struct store_disk *s)
{
    loop_close(s->loop);
}
