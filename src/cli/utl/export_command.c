/* `cleatutl export DIR`: a member's directory becomes one that etcd starts on. */
#include "base/arena.h"
#include "base/logger.h"
#include "cli/utl/utl.h"
#include "io/disk.h"
#include "snap/transfer.h"
#include "wal/wal.h"

#include <stdio.h>

/* Of the last snapshot that the log records; the store must reach as far. A log that is kept
 * elsewhere (--wal-dir) cannot be asked. */
static enum err find_snapshot(struct disk *disk, const char *data_dir, uint64_t *index)
{
    static const struct logger silent = {.level = LOG_FATAL};
    struct arena arena = {0};
    struct wal_snapshots all = {0};
    const char *dir = arena_printf(&arena, "%s/member/wal", data_dir);
    enum err e =
        wal_snapshots(disk, &(struct wal_options){.dir = dir, .logger = &silent}, &arena, &all);

    *index = e == ERR_OK && all.count > 0 ? all.at[all.count - 1].index : 0;
    if (e == ERR_NOT_FOUND)
        e = ERR_OK;
    if (e != ERR_OK)
        fprintf(stderr, "cleatutl: %s: %s\n", dir, err_text(e));
    arena_free(&arena);
    return e;
}

static void tell(const char *data_dir, const struct snap_copied *copied, struct emit *out)
{
    struct buf path = {0};

    buf_printf(&path, "%s/member/snap/db", data_dir);
    emit_str(out, "exported", buf_str(&path));
    emit_number(out, "consistentIndex", copied->index);
    emit_number(out, "term", copied->term);
    emit_number(out, "entries", copied->entries);
    emit_number(out, "bytes", copied->bytes);
    buf_free(&path);
}

int utl_export(struct disk *disk, const char *data_dir, struct emit *out)
{
    struct buf why = {0};
    struct snap_place place = {.data_dir = data_dir, .why = &why};
    struct snap_copied copied;
    enum err e = find_snapshot(disk, data_dir, &place.wal_index);

    if (e != ERR_OK)
        return 1;
    e = snap_export(disk, &place, &copied);
    if (e == ERR_OK)
        tell(data_dir, &copied, out);
    else
        fprintf(stderr, "cleatutl: %s\n", why.len > 0 ? buf_str(&why) : err_text(e));
    buf_free(&why);
    return e == ERR_OK ? 0 : 1;
}
