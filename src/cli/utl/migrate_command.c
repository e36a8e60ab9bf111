/*
 * `cleatutl migrate --data-dir DIR --target-version X.Y`: a stopped member's directory for another
 * version of etcd.
 *
 * Between 3.5 and 3.7 a store differs in one entry, the version that it says it has: 3.5 has none.
 * What could stand in the way of an older version is the log: an entry that it does not know.
 */
#include "cli/utl/etcdutl.h"
#include "cli/utl/rewrite.h"
#include "io/disk.h"
#include "pb/codec.h"
#include "snap/transfer.h"
#include "wal/wal.h"

#include <stdio.h>

struct minor { /* of a version 3.x */
    unsigned major, minor;
};

enum { MINOR_OLDEST = 5, MINOR_WITH_VERSION = 6, MINOR_NEWEST = 7 };

static bool is_below(struct minor a, struct minor b)
{
    return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

static bool read_version(const char *text, struct minor *out)
{
    int used = 0;

    return sscanf(text, "%2u.%3u.0%n", &out->major, &out->minor, &used) == 2 && used > 0 &&
           text[used] == 0;
}

/* ---- What is there ---- */

static bool find_current(struct etcd_file *f, struct minor *out)
{
    struct buf text = {0};
    bool is_good = true;

    if (etcd_file_meta(f, "storageVersion", 32, &text))
        is_good = read_version(buf_str(&text), out);
    else if (etcd_file_meta(f, "term", 8, &text))
        *out = (struct minor){3, MINOR_OLDEST};
    else
        is_good = false;
    buf_free(&text);
    if (!is_good)
        utl_fail(UTL_ERROR, "missing term information");
    return is_good;
}

struct look {
    struct minor needed; /* the oldest version that knows all entries */
    struct arena arena;
};

/* Of all that a log may hold only this came after 3.5: the test of a downgrade, which names the
 * version that it is about. */
static void look_at_entry(void *context, const struct raft_entry *entry)
{
    struct look *l = context;
    struct pb_internal_raft_request request;
    struct minor named;

    arena_reset(&l->arena);
    if (entry->type != RAFT_ENTRY_NORMAL ||
        pb_decode_internal_raft_request(entry->data, &l->arena, &request) != ERR_OK ||
        !request.downgrade_version_test)
        return;
    if (is_below(l->needed, (struct minor){3, MINOR_WITH_VERSION}))
        l->needed = (struct minor){3, MINOR_WITH_VERSION};
    const char *text = arena_copy_str(&l->arena, request.downgrade_version_test->ver);
    if (read_version(text, &named) && is_below(l->needed, named))
        l->needed = named;
}

/* From the newest snapshot on: what is before it nobody reads again. */
static bool look_at_log(struct disk *disk, const char *data_dir, struct look *l)
{
    static const struct logger silent = {.level = LOG_FATAL};
    struct arena arena = {0};
    struct wal_snapshots all = {0};
    struct wal_found found;
    struct wal_options options = {.dir = arena_printf(&arena, "%s/member/wal", data_dir),
                                  .logger = &silent};
    struct wal_visitor visitor = {.on_entry = look_at_entry, .context = l};
    struct wal_place start = {0};
    enum err e = wal_snapshots(disk, &options, &arena, &all);

    if (e == ERR_OK && all.count > 0)
        start = (struct wal_place){all.at[all.count - 1].index, all.at[all.count - 1].term};
    if (e == ERR_OK)
        e = wal_replay(disk, &options, start, &visitor, &found);
    if (e != ERR_OK)
        utl_fail(UTL_ERROR, "failed to open wal: %s", err_text(e));
    arena_free(&arena);
    return e == ERR_OK;
}

/* ---- What is to be ---- */

static bool write_version(struct etcd_file *f, const char *path, struct minor target)
{
    char text[16];
    struct rewrite_entry entry = {.bucket = "meta", .key = BYTES("storageVersion")};

    snprintf(text, sizeof(text), "%u.%u.0", target.major, target.minor);
    entry.value = bytes_of_str(text);
    entry.is_removal = target.minor < MINOR_WITH_VERSION;
    return rewrite_run(&(struct rewrite){.from = f, .entries = &entry, .count = 1}, path);
}

/* "": nothing is in the way. */
static const char *obstacle(struct arena *arena, const struct look *l, struct minor current,
                            struct minor target)
{
    if (target.major != 3 || current.major != 3)
        return "cannot create migration plan: changing major storage version is not supported";
    if (target.minor > MINOR_NEWEST || current.minor > MINOR_NEWEST)
        return arena_printf(arena,
                            "cannot create migration plan: version \"3.%d.0\" is not "
                            "supported",
                            MINOR_NEWEST + 1);
    if (is_below(target, current) && is_below(target, l->needed))
        return arena_printf(arena,
                            "cannot downgrade storage, WAL contains newer entries, as the target "
                            "version (%u.%u.0) is lower than the version (%u.%u.0) detected from "
                            "WAL logs",
                            target.major, target.minor, l->needed.major, l->needed.minor);
    return "";
}

static void say_done(const struct logger *logger, struct minor target, bool is_forced)
{
    char text[16];

    snprintf(text, sizeof(text), "%u.%u", target.major, target.minor);
    if (is_forced && target.minor < MINOR_WITH_VERSION)
        log_warn(logger, "forcefully cleared storage version");
    else if (is_forced)
        log_warn(logger, "forcefully set storage version", LOG_STR("storage-version", text));
    else {
        snprintf(text, sizeof(text), "%u.%u.0", target.major, target.minor);
        log_info(logger, "updated storage version", LOG_STR("new-storage-version", text));
    }
}

static int migrate(struct etcd_file *f, const char *data_dir, struct minor target, bool is_forced,
                   const struct logger *logger)
{
    struct look l = {.needed = {3, 0}};
    struct minor current;
    char text[16];

    if (!find_current(f, &current))
        return UTL_ERROR;
    if (current.major == target.major && current.minor == target.minor) {
        snprintf(text, sizeof(text), "%u.%u", current.major, current.minor);
        log_info(logger, "storage version up-to-date", LOG_STR("storage-version", text));
        return UTL_OK;
    }
    int status = UTL_ERROR;
    if (look_at_log(f->disk, data_dir, &l)) {
        const char *why = obstacle(&l.arena, &l, current, target);
        if (why[0] && !is_forced) {
            status = utl_fail(UTL_ERROR, "%s", why);
        } else {
            if (why[0])
                log_info(logger, "normal migrate failed, trying with force", LOG_STR("error", why));
            status = write_version(f, f->path, target) ? UTL_OK : UTL_ERROR;
            if (status == UTL_OK)
                say_done(logger, target, why[0] != 0);
        }
    }
    arena_free(&l.arena);
    return status;
}

/* "X.Y" */
static bool read_target(const char *text, struct minor *out)
{
    const char *dot = strchr(text, '.');
    int used = 0;

    if (!dot || strchr(dot + 1, '.')) {
        utl_fail(UTL_BAD_ARGUMENTS, "wrong target version format, expected \"X.Y\", got \"%s\"",
                 text);
        return false;
    }
    if (sscanf(text, "%2u.%3u%n", &out->major, &out->minor, &used) != 2 || text[used] != 0) {
        utl_fail(UTL_BAD_ARGUMENTS, "failed to parse target version: \"%s\"", text);
        return false;
    }
    if (is_below(*out, (struct minor){3, MINOR_OLDEST})) {
        utl_fail(UTL_BAD_ARGUMENTS, "target version \"%u.%u\" not supported. Minimal \"3.5\"",
                 out->major, out->minor);
        return false;
    }
    return true;
}

int utl_migrate(struct disk *disk, const char *data_dir, const char *target_version, bool is_forced,
                const struct logger *logger)
{
    struct arena arena = {0};
    struct minor target;
    struct etcd_file f = {0};
    int status = UTL_BAD_ARGUMENTS;

    if (read_target(target_version, &target)) {
        status = UTL_ERROR;
        if (etcd_file_open(&f, disk, arena_printf(&arena, "%s/member/snap/db", data_dir))) {
            enum err e = disk_lock(disk, f.file, DISK_FLOCK);
            if (e == ERR_OK)
                e = bolt_check(f.bolt);
            if (e == ERR_OK)
                status = migrate(&f, data_dir, target, is_forced, logger);
            else
                etcd_file_fail(&f, e);
        }
        etcd_file_close(&f);
    }
    arena_free(&arena);
    return status;
}
