#include "snap/snapfile.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "io/disk.h"

#include <inttypes.h>
#include <stdio.h>

#define SUFFIX ".snap"

enum { FILE_MODE = 0666 }; /* as etcd makes them, before the umask */

/* ---- Names ---- */

void snapfile_name(uint64_t term, uint64_t index, char out[SNAPFILE_NAME_BYTES])
{
    snprintf(out, SNAPFILE_NAME_BYTES, "%016" PRIx64 "-%016" PRIx64 SUFFIX, term, index);
}

bool snapfile_parse_name(const char *name, uint64_t *term, uint64_t *index)
{
    if (strlen(name) != SNAPFILE_NAME_BYTES - 1 || name[16] != '-')
        return false;
    return text_read_hex16(name, term) && text_read_hex16(name + 17, index) &&
           strcmp(name + 33, SUFFIX) == 0;
}

/* ---- Content ---- */

/*
 * A reader takes a crc of 0 for a missing one. For the one content in four thousand million that
 * has it, a field that nobody knows is added, which every decoder skips: number 15, a varint, 0.
 */
static uint32_t nonzero_crc(struct buf *data)
{
    uint32_t crc = crc32c(0, buf_bytes(data));

    if (crc == 0) {
        buf_append(data, BYTES("\x78\x00"));
        crc = crc32c(0, buf_bytes(data));
    }
    assert(crc != 0);
    return crc;
}

void snapfile_encode(const struct raft_snapshot *snapshot, struct buf *out)
{
    struct buf data = {0};

    assert(snapshot->index > 0);
    raft_snapshot_encode(snapshot, &data);
    uint32_t crc = nonzero_crc(&data);
    pb_encode_snap_file(&(struct pb_snap_file){.crc = crc, .data = buf_bytes(&data)}, out);
    buf_free(&data);
}

enum err snapfile_decode(struct bytes file, struct arena *arena, struct raft_snapshot *out,
                         const char **why)
{
    struct pb_snap_file outer;

    *why = NULL;
    if (file.len == 0)
        *why = "the file is empty";
    else if (pb_decode_snap_file(file, arena, &outer) != ERR_OK)
        *why = "not a snappb.snapshot";
    else if (outer.crc == 0 || outer.data.len == 0)
        *why = "no checksum or no data";
    else if (crc32c(0, outer.data) != outer.crc)
        *why = "the checksum does not match";
    else if (raft_snapshot_decode(outer.data, arena, out) != ERR_OK)
        *why = "not a raftpb.Snapshot";
    else if (out->index == 0)
        *why = "no metadata";
    return *why ? ERR_CORRUPT : ERR_OK;
}

/* ---- Files ---- */

static char *path_of(struct arena *arena, const char *dir, const char *name)
{
    return arena_printf(arena, "%s/%s", dir, name);
}

/* Creates or replaces the file, under its name at once, as etcd does: one that a crash has cut
 * short is found out by its checksum and set aside. A write that fails leaves nothing behind. */
static enum err write_file(struct disk *disk, const char *path, struct bytes content)
{
    struct disk_file *f;

    enum err e = disk_open(disk, path, DISK_CREATE | DISK_CUT, FILE_MODE, &f);
    if (e != ERR_OK)
        return e;
    e = disk_write(disk, f, 0, content);
    if (e == ERR_OK && disk_sync(disk, f) != ERR_OK)
        e = ERR_SYNC;
    enum err closed = disk_close(disk, f);
    if (e == ERR_OK)
        e = closed;
    if (e != ERR_OK && e != ERR_SYNC && disk_remove(disk, path) != ERR_OK)
        return ERR_IO; /* a broken file may stay: loading will find it out */
    return e;
}

enum err snapfile_save(struct disk *disk, const char *dir, const struct raft_snapshot *snapshot)
{
    char name[SNAPFILE_NAME_BYTES];
    struct arena arena = {0};
    struct buf content = {0};

    struct disk_file *opened;
    enum err e = disk_open_dir(disk, dir, &opened); /* now, while it may still fail */
    if (e != ERR_OK)
        return e;
    snapfile_encode(snapshot, &content);
    snapfile_name(snapshot->term, snapshot->index, name);
    e = write_file(disk, path_of(&arena, dir, name), buf_bytes(&content));
    if (e == ERR_OK && disk_sync_opened_dir(disk, dir, opened) != ERR_OK)
        e = ERR_SYNC;
    enum err closed = disk_close(disk, opened);
    (void)closed; /* it was only opened to be synced */
    buf_free(&content);
    arena_free(&arena);
    return e;
}

/* Is this file the one it is called? */
static enum err decode_named(const char *name, struct bytes file, struct arena *arena,
                             struct raft_snapshot *out, const char **why)
{
    uint64_t term, index;

    enum err e = snapfile_decode(file, arena, out, why);
    if (e == ERR_OK &&
        (!snapfile_parse_name(name, &term, &index) || term != out->term || index != out->index)) {
        *why = "its name is not the term and index inside";
        e = ERR_CORRUPT;
    }
    return e;
}

static enum err set_aside(struct disk *disk, const struct logger *logger, const char *path,
                          const char *why, struct arena *arena)
{
    const char *broken = arena_printf(arena, "%s.broken", path);
    enum err e = disk_rename(disk, path, broken);

    if (e == ERR_OK)
        log_warn(logger, "renamed to a broken snap file", LOG_STR("path", path),
                 LOG_STR("broken-path", broken), LOG_STR("error", why));
    else
        log_warn(logger, "failed to rename a broken snap file", LOG_STR("path", path),
                 LOG_STR("broken-path", broken), LOG_STR("error", err_text(e)));
    return e;
}

/* One candidate: ERR_NOT_FOUND when it is broken or not wanted, and the search goes on. */
static enum err try_file(struct disk *disk, const struct snapfile_search *search, const char *name,
                         struct arena *arena, struct buf *file, struct raft_snapshot *out)
{
    const char *path = path_of(arena, search->dir, name);
    const char *why = NULL;

    buf_clear(file);
    enum err e = disk_read_file(disk, path, SNAPFILE_BYTES_MAX, file);
    if (e == ERR_OK)
        e = decode_named(name, buf_bytes(file), arena, out, &why);
    else if (e == ERR_TOO_LARGE)
        why = "larger than any snap file";
    if (why) {
        e = set_aside(disk, search->logger, path, why, arena);
        return e == ERR_OK ? ERR_NOT_FOUND : e;
    }
    if (e != ERR_OK)
        return e;
    bool wanted = !search->wanted || search->wanted(search->context, out->term, out->index);
    return wanted ? ERR_OK : ERR_NOT_FOUND;
}

static bool is_snapfile(const char *name)
{
    size_t len = strlen(name);

    return len >= strlen(SUFFIX) && strcmp(name + len - strlen(SUFFIX), SUFFIX) == 0;
}

/* The names in reverse, so newest first; they stay in `listing`. */
static const char **newest_first(struct bytes listing, struct arena *arena, size_t *count)
{
    struct bytes left = listing;
    size_t all = 0;

    for (const char *name; (name = disk_next_name(&left));)
        all += is_snapfile(name);
    const char **names = arena_new_array(arena, all, const char *);
    *count = all;
    left = listing;
    for (const char *name; (name = disk_next_name(&left));)
        if (is_snapfile(name))
            names[--all] = name;
    return names;
}

enum err snapfile_load_newest(struct disk *disk, const struct snapfile_search *search,
                              struct arena *arena, struct buf *file, struct raft_snapshot *out)
{
    struct buf listing = {0};
    size_t count = 0;

    enum err e = disk_list(disk, search->dir, SNAPFILE_NAMES_BYTES_MAX, &listing);
    if (e != ERR_OK)
        return e;
    const char **names = newest_first(buf_bytes(&listing), arena, &count);
    e = ERR_NOT_FOUND;
    for (size_t i = 0; i < count && e == ERR_NOT_FOUND; i++)
        e = try_file(disk, search, names[i], arena, file, out);
    buf_free(&listing);
    return e;
}
