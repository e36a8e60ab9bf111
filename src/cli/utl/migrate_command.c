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

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct minor { /* a version without its patch */
    int64_t major, minor;
};

/* As the decimal digits of both, and ".0". */
enum { VERSION_TEXT_BYTES = 48 };

static const struct minor oldest = {3, 5}, first_with_version = {3, 6}, newest = {3, 7};

static bool is_below(struct minor a, struct minor b)
{
    return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

/* Has the store of this version an entry that says so, and do we know how it differs from the one
 * before? */
static bool is_known(struct minor v)
{
    return !is_below(v, first_with_version) && !is_below(newest, v);
}

static void write_minor(struct minor v, char out[static VERSION_TEXT_BYTES])
{
    snprintf(out, VERSION_TEXT_BYTES, "%lld.%lld", (long long)v.major, (long long)v.minor);
}

static void write_full(struct minor v, char out[static VERSION_TEXT_BYTES])
{
    snprintf(out, VERSION_TEXT_BYTES, "%lld.%lld.0", (long long)v.major, (long long)v.minor);
}

/* ERR_OK, ERR_MALFORMED or ERR_TOO_LARGE. */
static enum err read_number(struct bytes digits, int64_t *out)
{
    char text[32] = {0};

    if (digits.len == 0)
        return ERR_MALFORMED;
    for (size_t i = 0; i < digits.len; i++)
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return ERR_MALFORMED;
    if (digits.len >= sizeof(text))
        return ERR_TOO_LARGE;
    memcpy(text, digits.at, digits.len);
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == ERANGE ? ERR_TOO_LARGE : ERR_OK;
}

/* "X.Y.0" */
static bool read_version(const char *text, struct minor *out)
{
    const char *dot = strchr(text, '.');
    const char *end = dot ? strchr(dot + 1, '.') : NULL;

    return end && strcmp(end, ".0") == 0 &&
           read_number(bytes_of(text, (size_t)(dot - text)), &out->major) == ERR_OK &&
           read_number(bytes_of(dot + 1, (size_t)(end - dot - 1)), &out->minor) == ERR_OK;
}

/* ---- What is there ---- */

static bool find_current(struct etcd_file *f, struct minor *out)
{
    struct buf text = {0};
    bool is_good = true;

    if (etcd_file_meta(f, "storageVersion", 32, &text))
        is_good = read_version(buf_str(&text), out);
    else if (etcd_file_meta(f, "term", 8, &text))
        *out = oldest;
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
    if (is_below(l->needed, first_with_version))
        l->needed = first_with_version;
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
    char text[VERSION_TEXT_BYTES];
    struct rewrite_entry entry = {.bucket = "meta", .key = BYTES("storageVersion")};

    write_full(target, text);
    entry.value = bytes_of_str(text);
    entry.is_removal = is_below(target, first_with_version);
    return rewrite_run(&(struct rewrite){.from = f, .entries = &entry, .count = 1}, path);
}

/*
 * A migration goes from minor version to minor version, and each step needs to know the higher of
 * the two. The first that is not known; false: there is none.
 */
static bool find_unknown(struct minor current, struct minor target, struct minor *out)
{
    *out = current;
    if (is_below(target, current))
        return !is_known(current);
    out->minor++;
    if (is_known(*out))
        out->minor = newest.minor + 1;
    return !is_below(target, *out);
}

/* "": nothing is in the way. */
static const char *obstacle(struct arena *arena, const struct look *l, struct minor current,
                            struct minor target, const struct logger *logger)
{
    char to[VERSION_TEXT_BYTES], other[VERSION_TEXT_BYTES];
    struct minor unknown;

    write_full(target, to);
    if (target.major != current.major) {
        write_full(current, other);
        log_error(logger, "Changing major storage version is not supported",
                  LOG_STR("storage-version", other), LOG_STR("target-storage-version", to));
        return "cannot create migration plan: changing major storage version is not supported";
    }
    if (find_unknown(current, target, &unknown)) {
        write_full(unknown, other);
        return arena_printf(arena, "cannot create migration plan: version \"%s\" is not supported",
                            other);
    }
    if (is_below(target, current) && is_below(target, l->needed)) {
        write_full(l->needed, other);
        return arena_printf(arena,
                            "cannot downgrade storage, WAL contains newer entries, as the target "
                            "version (%s) is lower than the version (%s) detected from WAL logs",
                            to, other);
    }
    return "";
}

static void say_steps(const struct logger *logger, struct minor current, struct minor target)
{
    char text[VERSION_TEXT_BYTES];

    while (current.minor != target.minor) {
        current.minor += current.minor < target.minor ? 1 : -1;
        write_full(current, text);
        log_info(logger, "updated storage version", LOG_STR("new-storage-version", text));
    }
}

static void say_forced(const struct logger *logger, struct minor target)
{
    char text[VERSION_TEXT_BYTES];

    write_minor(target, text);
    if (is_below(target, first_with_version))
        log_warn(logger, "forcefully cleared storage version");
    else
        log_warn(logger, "forcefully set storage version", LOG_STR("storage-version", text));
}

static int migrate(struct etcd_file *f, const char *data_dir, struct minor target, bool is_forced,
                   const struct logger *logger)
{
    struct look l = {.needed = {3, 0}};
    struct minor current;
    char text[VERSION_TEXT_BYTES];

    if (!find_current(f, &current))
        return UTL_ERROR;
    if (current.major == target.major && current.minor == target.minor) {
        write_minor(current, text);
        log_info(logger, "storage version up-to-date", LOG_STR("storage-version", text));
        return UTL_OK;
    }
    int status = UTL_ERROR;
    if (look_at_log(f->disk, data_dir, &l)) {
        const char *why = obstacle(&l.arena, &l, current, target, logger);
        if (why[0] && !is_forced) {
            status = utl_fail(UTL_ERROR, "%s", why);
        } else {
            if (why[0])
                log_info(logger, "normal migrate failed, trying with force", LOG_STR("error", why));
            status = write_version(f, f->path, target) ? UTL_OK : UTL_ERROR;
            if (status == UTL_OK && why[0])
                say_forced(logger, target);
            else if (status == UTL_OK)
                say_steps(logger, current, target);
        }
    }
    arena_free(&l.arena);
    return status;
}

/* In the words of the library that etcdutl reads versions with. */
static bool read_part(struct bytes part, int64_t *out)
{
    enum err e = read_number(part, out);

    if (e != ERR_OK)
        utl_fail(UTL_BAD_ARGUMENTS,
                 "failed to parse target version: strconv.ParseInt: parsing \"%.*s\": %s",
                 (int)part.len, (const char *)part.at,
                 e == ERR_TOO_LARGE ? "value out of range" : "invalid syntax");
    return e == ERR_OK;
}

/* "X.Y"; to etcdutl it is X.Y.0, of which "+" and "-" cut off the end. */
static bool read_target(const char *text, struct minor *out)
{
    const char *dot = strchr(text, '.');
    size_t plain = strcspn(text, "+");

    if (!dot || strchr(dot + 1, '.')) {
        utl_fail(UTL_BAD_ARGUMENTS, "wrong target version format, expected \"X.Y\", got \"%s\"",
                 text);
        return false;
    }
    plain = strcspn(text, "-") < plain ? strcspn(text, "-") : plain;
    if (text[plain] != 0) {
        utl_fail(UTL_BAD_ARGUMENTS,
                 "failed to parse target version: %.*s is not in dotted-tri format", (int)plain,
                 text);
        return false;
    }
    if (!read_part(bytes_of(text, (size_t)(dot - text)), &out->major) ||
        !read_part(bytes_of_str(dot + 1), &out->minor))
        return false;
    if (is_below(*out, oldest)) {
        char shown[VERSION_TEXT_BYTES];
        write_minor(*out, shown);
        utl_fail(UTL_BAD_ARGUMENTS, "target version \"%s\" not supported. Minimal \"3.5\"", shown);
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
