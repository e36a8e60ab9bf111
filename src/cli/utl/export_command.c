/* `cleatutl export DIR [--wal-dir DIR]`: a member's directory becomes one that etcd starts on. */
#include "base/arena.h"
#include "base/logger.h"
#include "cli/utl/utl.h"
#include "io/disk.h"
#include "snap/transfer.h"
#include "wal/wal.h"

#include <stdio.h>

/* The last snapshot that the log records: the store must reach as far. A log that nobody has named
 * and that is not in its usual place may be elsewhere. */
static enum err find_snapshot(struct disk *disk, const char *wal_dir, struct snap_place *place)
{
    static const struct logger silent = {.level = LOG_FATAL};
    struct arena arena = {0};
    struct wal_snapshots all = {0};
    const char *dir = wal_dir ? wal_dir : arena_printf(&arena, "%s/member/wal", place->data_dir);
    enum err e =
        wal_snapshots(disk, &(struct wal_options){.dir = dir, .logger = &silent}, &arena, &all);

    place->wal_index = e == ERR_OK && all.count > 0 ? all.at[all.count - 1].index : 0;
    place->lacks_log = e == ERR_NOT_FOUND && !wal_dir;
    if (place->lacks_log)
        e = ERR_OK;
    if (e != ERR_OK)
        fprintf(stderr, "cleatutl: %s: %s\n", dir,
                e == ERR_NOT_FOUND ? "no log segments here" : err_text(e));
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

int utl_export(struct disk *disk, const char *data_dir, const char *wal_dir, struct emit *out)
{
    struct buf why = {0};
    struct snap_place place = {.data_dir = data_dir, .why = &why};
    struct snap_copied copied;
    enum err e = find_snapshot(disk, wal_dir, &place);

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
