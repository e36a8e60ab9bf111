/* `cleatutl defrag --data-dir DIR`: etcd's store in a file without holes. */
#include "cli/utl/etcdutl.h"
#include "cli/utl/rewrite.h"
#include "io/disk.h"
#include "snap/transfer.h"

#include <inttypes.h>

/* A store of ours has its holes removed while the member runs (etcdctl defrag), or at its start
 * (--bootstrap-defrag-threshold-megabytes). */
static int defrag_db(struct disk *disk, const char *path, const struct logger *logger)
{
    struct etcd_file f;
    struct disk_stat before = {0}, after;
    bool is_good = false;

    log_info(logger, "defragmenting", LOG_STR("path", path));
    if (etcd_file_open(&f, disk, path)) {
        enum err e = disk_lock(disk, f.file, DISK_FLOCK);
        if (e == ERR_OK)
            e = disk_stat_file(disk, f.file, &before);
        if (e == ERR_OK)
            e = bolt_check(f.bolt);
        is_good =
            e == ERR_OK ? rewrite_run(&(struct rewrite){.from = &f}, path) : etcd_file_fail(&f, e);
    }
    etcd_file_close(&f);
    if (is_good && disk_stat(disk, path, &after) == ERR_OK)
        log_info(logger, "finished defragmenting directory", LOG_STR("path", path),
                 LOG_I64("current-db-size-bytes-diff", (int64_t)(after.size - before.size)),
                 LOG_U64("current-db-size-bytes", after.size));
    return is_good ? UTL_OK : UTL_ERROR;
}

int utl_defrag(struct disk *disk, const char *data_dir, const struct logger *logger)
{
    struct arena arena = {0};
    enum snap_holds holds;
    const char *path = arena_printf(&arena, "%s/member/snap/db", data_dir);
    enum err e = snap_look(disk, data_dir, &holds);
    int status;

    if (e == ERR_OK && holds == SNAP_HOLDS_DB)
        status = defrag_db(disk, path, logger);
    else if (e == ERR_OK && holds != SNAP_HOLDS_NOTHING)
        status = utl_fail(UTL_ERROR,
                          "Failed to defragment etcd data[%s] (the store is cleat's own: start the "
                          "member with --bootstrap-defrag-threshold-megabytes)",
                          data_dir);
    else
        status = utl_fail(UTL_ERROR,
                          "Failed to defragment etcd data[%s] (stat %s: no such file or directory)",
                          data_dir, path);
    arena_free(&arena);
    return status;
}
