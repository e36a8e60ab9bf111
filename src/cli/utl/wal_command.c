/* `cleatutl wal DIR`: every record of a log, counted. DIR is a data directory, or the log's own. */
#include "base/arena.h"
#include "cli/utl/utl.h"
#include "io/disk.h"
#include "wal/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES_BYTES_MAX = 4 * MIB, SEGMENT_NAME_BYTES = 37 };

/* A segment is as long as it was reserved, and one record more. */
#define SEGMENT_BYTES_MAX (WAL_RECORD_BYTES_MAX + 512 * MIB)

struct segment {
    const char *name;
    uint64_t number, index; /* as the name says */
    uint64_t bytes, end;    /* of the file, and of its records */
    uint64_t records, entries;
};

struct survey {
    struct disk *disk;
    const char *dir;
    struct arena arena;
    struct buf names;
    struct segment *segments;
    size_t segment_count;
    struct scan scan;

    uint64_t entries, replaced; /* records of entries; those that a later one has made void */
    uint64_t first, last, first_term, last_term;
    struct buf snapshots; /* struct raft_snapshot */

    bool torn;
    struct wal_fault fault;
    bool opens; /* a server could start from it, at: */
    struct wal_place at;
};

/* ---- Names ---- */

static bool parse_name(const char *name, struct segment *out)
{
    char *end;

    if (strlen(name) != SEGMENT_NAME_BYTES || strspn(name, "0123456789abcdef") != 16 ||
        name[16] != '-' || strspn(name + 17, "0123456789abcdef") != 16)
        return false;
    *out = (struct segment){.name = name, .number = strtoull(name, &end, 16)};
    out->index = strtoull(name + 17, &end, 16);
    return strcmp(end, ".wal") == 0;
}

/* ERR_NOT_FOUND: there are none, or there is no such directory. */
static enum err list_segments(struct survey *s, const char *dir)
{
    struct segment found;
    size_t count = 0;

    buf_clear(&s->names);
    enum err e = disk_list(s->disk, dir, NAMES_BYTES_MAX, &s->names);
    struct bytes left = buf_bytes(&s->names);
    for (const char *name; e == ERR_OK && (name = disk_next_name(&left));)
        count += parse_name(name, &found);
    s->segments = arena_new_array(&s->arena, count, struct segment);
    left = buf_bytes(&s->names);
    for (const char *name; count > 0 && (name = disk_next_name(&left));)
        if (parse_name(name, &found))
            s->segments[s->segment_count++] = found;
    return e == ERR_OK && count == 0 ? ERR_NOT_FOUND : e;
}

/* A directory with segments is the log's; else it is a data directory, with its log below. */
static enum err find_segments(struct survey *s)
{
    const char *below = arena_printf(&s->arena, "%s/member/wal", s->dir);
    enum err e = list_segments(s, s->dir);

    if (e == ERR_NOT_FOUND) {
        e = list_segments(s, below);
        if (e != ERR_NOT_FOUND)
            s->dir = below;
    }
    if (e == ERR_NOT_FOUND)
        fprintf(stderr, "cleatutl: %s: no log segments here, nor in %s\n", s->dir, below);
    else if (e != ERR_OK)
        fprintf(stderr, "cleatutl: %s: %s\n", s->dir, err_text(e));
    return e;
}

/* ---- Records ---- */

static enum err fault(struct survey *s, const struct segment *g, const char *what)
{
    snprintf(s->fault.file, sizeof(s->fault.file), "%s", g->name);
    s->fault.offset = g->end;
    s->fault.what = what;
    return ERR_CORRUPT;
}

static void count_entry(struct survey *s, const struct raft_entry *e)
{
    if (s->entries == 0 || e->index <= s->first) {
        s->first = e->index;
        s->first_term = e->term;
    }
    if (s->entries > 0 && e->index <= s->last)
        s->replaced += s->last - e->index + 1;
    s->entries++;
    s->last = e->index;
    s->last_term = e->term;
}

static enum err keep_snapshot(struct survey *s, struct bytes data)
{
    struct raft_snapshot snapshot;
    enum err e = raft_snapshot_decode_record(data, &s->arena, &snapshot);

    if (e == ERR_OK)
        buf_append(&s->snapshots, bytes_of(&snapshot, sizeof(snapshot)));
    return e;
}

static enum err take(struct survey *s, struct segment *g, const struct frame *f)
{
    struct scan_event event;
    const char *why = scan_record(&s->scan, f, &event);

    if (!why && event.type == WAL_SNAPSHOT && keep_snapshot(s, event.data) != ERR_OK)
        why = "not a snapshot";
    if (why)
        return fault(s, g, why);
    g->records++;
    if (event.type == WAL_ENTRY) {
        g->entries++;
        count_entry(s, &event.entry);
    }
    g->end += f->size;
    return ERR_OK;
}

/* FRAME_MORE cannot be: the window is the whole file. */
static enum err read_records(struct survey *s, struct segment *g, struct bytes file, bool newest)
{
    for (;;) {
        struct frame_source from = {.window = bytes_of(file.at + g->end, file.len - g->end),
                                    .offset = g->end,
                                    .file_size = file.len,
                                    .newest = newest};
        struct frame_report report = {0};
        struct frame f;
        enum frame_result result = frame_read(&from, s->scan.crc, &f, &report);

        if (result == FRAME_END && s->scan.in_segment >= 2)
            return ERR_OK;
        if (result != FRAME_OK) {
            enum err e = fault(s, g, report.why ? report.why : "a segment without a beginning");
            s->torn = result == FRAME_TORN && s->scan.in_segment >= 2;
            return s->torn ? ERR_OK : e;
        }
        enum err e = take(s, g, &f);
        if (e != ERR_OK)
            return e;
    }
}

static enum err read_segment(struct survey *s, size_t i)
{
    struct segment *g = &s->segments[i];
    struct buf file = {0};

    if (i > 0 && g->number != s->segments[i - 1].number + 1)
        return fault(s, g, "the segment before this one is missing");
    enum err e = disk_read_file(s->disk, arena_printf(&s->arena, "%s/%s", s->dir, g->name),
                                SEGMENT_BYTES_MAX, &file);
    g->bytes = file.len;
    scan_next_segment(&s->scan);
    if (e == ERR_OK)
        e = read_records(s, g, buf_bytes(&file), i + 1 == s->segment_count);
    else
        fault(s, g, err_text(e));
    buf_free(&file);
    return e;
}

static enum err read_segments(struct survey *s)
{
    enum err e = ERR_OK;

    scan_init(&s->scan, (struct wal_place){.index = UINT64_MAX}, s->segments[0].index);
    for (size_t i = 0; i < s->segment_count && e == ERR_OK; i++)
        e = read_segment(s, i);
    return e;
}

/* ---- As a server would see it ---- */

static size_t snapshot_count(const struct survey *s)
{
    return s->snapshots.len / sizeof(struct raft_snapshot);
}

static const struct raft_snapshot *snapshot(const struct survey *s, size_t i)
{
    return (const struct raft_snapshot *)(const void *)s->snapshots.at + i;
}

/* Replay from the newest snapshot that is committed, which also notices a gap between entries. */
static enum err try_replay(struct survey *s)
{
    struct logger quiet = {.level = LOG_FATAL};
    struct wal_options opt = {.dir = s->dir, .logger = &quiet};
    struct wal_found found = {0};

    for (size_t i = 0; i < snapshot_count(s); i++)
        if (snapshot(s, i)->index <= s->scan.state.commit)
            s->at = (struct wal_place){snapshot(s, i)->index, snapshot(s, i)->term};
    enum err e = wal_replay(s->disk, &opt, s->at, NULL, &found);
    s->opens = e == ERR_OK && found.start_found;
    if (e != ERR_OK && found.fault.what)
        s->fault = found.fault;
    return e;
}

/* ---- Telling ---- */

static void tell_segments(const struct survey *s, struct emit *out)
{
    emit_begin(out, "segments", EMIT_LIST);
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct segment *g = &s->segments[i];
        emit_begin(out, NULL, EMIT_OBJECT);
        emit_str(out, "name", g->name);
        emit_number(out, "bytes", g->bytes);
        emit_number(out, "usedBytes", g->end);
        emit_number(out, "records", g->records);
        emit_number(out, "entries", g->entries);
        emit_end(out);
    }
    emit_end(out);
}

static void tell_entries(const struct survey *s, struct emit *out)
{
    emit_begin(out, "entries", EMIT_OBJECT);
    emit_number(out, "count", s->entries - s->replaced);
    emit_number(out, "replaced", s->replaced);
    if (s->entries > 0) {
        emit_number(out, "firstIndex", s->first);
        emit_number(out, "lastIndex", s->last);
        emit_number(out, "firstTerm", s->first_term);
        emit_number(out, "lastTerm", s->last_term);
    }
    emit_end(out);
}

static void tell_state(const struct survey *s, struct emit *out)
{
    if (s->scan.state.term == 0)
        return;
    emit_begin(out, "hardState", EMIT_OBJECT);
    emit_number(out, "term", s->scan.state.term);
    emit_id(out, "vote", s->scan.state.vote);
    emit_number(out, "commit", s->scan.state.commit);
    emit_end(out);
}

static void tell_snapshots(const struct survey *s, struct emit *out)
{
    emit_begin(out, "snapshots", EMIT_LIST);
    for (size_t i = 0; i < snapshot_count(s); i++) {
        emit_begin(out, NULL, EMIT_OBJECT);
        emit_number(out, "index", snapshot(s, i)->index);
        emit_number(out, "term", snapshot(s, i)->term);
        emit_bool(out, "committed", snapshot(s, i)->index <= s->scan.state.commit);
        emit_end(out);
    }
    emit_end(out);
}

static void tell_metadata(const struct survey *s, struct emit *out)
{
    struct pb_wal_metadata metadata;
    struct arena arena = {0};

    if (s->scan.has_metadata &&
        pb_decode_wal_metadata(buf_bytes(&s->scan.metadata), &arena, &metadata) == ERR_OK) {
        emit_begin(out, "metadata", EMIT_OBJECT);
        emit_id(out, "nodeId", metadata.node_id);
        emit_id(out, "clusterId", metadata.cluster_id);
        emit_end(out);
    }
    arena_free(&arena);
}

static void tell_fault(const struct survey *s, struct emit *out)
{
    if (!s->fault.what)
        return;
    emit_begin(out, s->torn ? "torn" : "damage", EMIT_OBJECT);
    emit_str(out, "file", s->fault.file);
    emit_number(out, "offset", s->fault.offset);
    emit_str(out, "what", s->fault.what);
    emit_end(out);
}

static void tell(const struct survey *s, struct emit *out)
{
    emit_begin(out, NULL, EMIT_OBJECT);
    emit_str(out, "dir", s->dir);
    tell_metadata(s, out);
    tell_segments(s, out);
    tell_entries(s, out);
    tell_state(s, out);
    tell_snapshots(s, out);
    if (s->opens) {
        emit_begin(out, "opensAt", EMIT_OBJECT);
        emit_number(out, "index", s->at.index);
        emit_number(out, "term", s->at.term);
        emit_end(out);
    }
    tell_fault(s, out);
    emit_end(out);
}

static int conclude(const struct survey *s, enum err e)
{
    if (e == ERR_OK && s->opens)
        return 0;
    if (e != ERR_OK && s->fault.what)
        fprintf(stderr, "cleatutl: %s/%s: offset %" PRIu64 ": %s\n", s->dir, s->fault.file,
                s->fault.offset, s->fault.what);
    else
        fprintf(stderr, "cleatutl: %s: cannot be opened at snapshot %" PRIu64 ": %s\n", s->dir,
                s->at.index, e != ERR_OK ? err_text(e) : "the log does not have it");
    return 1;
}

int utl_wal(struct disk *disk, const char *dir, struct emit *out)
{
    struct survey s = {.disk = disk, .dir = dir};
    int status = 1;

    if (find_segments(&s) == ERR_OK) {
        enum err e = read_segments(&s);
        if (e == ERR_OK)
            e = try_replay(&s);
        tell(&s, out);
        status = conclude(&s, e);
        scan_free(&s.scan);
    }
    buf_free(&s.snapshots);
    buf_free(&s.names);
    arena_free(&s.arena);
    return status;
}
