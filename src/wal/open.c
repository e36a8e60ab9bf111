#include "wal/wal_int.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum {
    FILE_MODE = 0600,
    DIR_MODE = 0700,
};

/* --- names --- */

void wal_name_format(struct wal_name name, char out[static WAL_NAME_MAX])
{
    snprintf(out, WAL_NAME_MAX, "%016llx-%016llx.wal", (unsigned long long)name.seq,
             (unsigned long long)name.index);
}

bool wal_name_parse(const char *text, struct wal_name *out)
{
    return text_read_hex16(text, &out->seq) && text[16] == '-' &&
           text_read_hex16(text + 17, &out->index) && strcmp(text + 33, ".wal") == 0;
}

char *wal_path(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = mem_new_array(size, char);

    snprintf(path, size, "%s%s%s", dir, *name ? "/" : "", name);
    return path;
}

struct names {
    struct wal_name *at;
    size_t count;
};

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* The segments of a directory in the order of their names, from `listing`. */
static void pick_names(const struct buf *listing, const struct wal_options *opt, struct names *out)
{
    struct bytes left = buf_bytes(listing);
    size_t cap = 0;

    for (const char *text; (text = disk_next_name(&left));) {
        struct wal_name name;
        if (!wal_name_parse(text, &name)) {
            if (!ends_with(text, ".tmp"))
                log_warn(opt->logger, "ignored file in WAL directory", LOG_STR("path", text));
            continue;
        }
        if (out->count == cap) {
            cap = cap ? 2 * cap : 16;
            out->at = mem_resize(out->at, cap, sizeof(*out->at));
        }
        out->at[out->count++] = name;
    }
}

/* ERR_NOT_FOUND if there are none. */
static enum err list_names(struct disk *disk, const struct wal_options *opt, struct names *out)
{
    struct buf listing = {0};
    enum err e = disk_list(disk, opt->dir, WAL_NAMES_BYTES_MAX, &listing);

    *out = (struct names){0};
    if (e == ERR_OK)
        pick_names(&listing, opt, out);
    buf_free(&listing);
    if (e == ERR_OK && out->count == 0)
        e = ERR_NOT_FOUND;
    return e;
}

enum err wal_exists(struct disk *disk, const char *dir, bool *out)
{
    struct buf listing = {0};
    enum err e = disk_list(disk, dir, WAL_NAMES_BYTES_MAX, &listing);
    struct bytes left = buf_bytes(&listing);

    /* Also one whose name makes no sense: to begin a log beside it would hide somebody's data. */
    *out = false;
    for (const char *text; (text = disk_next_name(&left));)
        *out |= ends_with(text, ".wal");
    buf_free(&listing);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* --- replay --- */

/* One reading of the log, from the first segment that matters to the last. */
struct replay {
    struct disk *disk;
    const struct wal_options *opt;
    const struct wal_visitor *visitor; /* may be NULL */
    struct wal_found *found;
    struct wal *wal; /* keeps the segments; opened for writing, and locked, if `writes` */
    bool writes;
    void (*on_record)(void *context, const struct scan_event *event); /* may be NULL */
    void *context;

    struct scan scan;
    struct buf window; /* of the segment being read, from window_at on */
    uint64_t window_at;
};

static enum err fault(struct replay *r, const struct wal_segment *s, uint64_t offset,
                      const char *what)
{
    struct wal_fault *f = &r->found->fault;

    memcpy(f->file, s->text, sizeof(f->file));
    f->offset = offset;
    f->what = what;
    return ERR_CORRUPT;
}

/* Makes the window begin at offset and hold at least `needed` bytes, which the file has. */
static enum err fill(struct replay *r, struct wal_segment *s, uint64_t offset, size_t needed)
{
    buf_drop_front(&r->window, (size_t)(offset - r->window_at));
    r->window_at = offset;
    uint64_t at = offset + r->window.len, left = s->size - at;
    size_t want = needed > r->window.len ? needed - r->window.len : 0;
    want = want < WAL_WINDOW_BYTES ? WAL_WINDOW_BYTES : want;
    want = want < left ? want : (size_t)left;
    size_t done = 0;

    assert(needed <= s->size - offset);
    enum err e = disk_read(r->disk, s->file, at, buf_reserve(&r->window, want), want, &done);
    r->window.len += done;
    if (e != ERR_OK)
        (void)fault(r, s, at + done, err_text(e));
    if (e == ERR_OK && r->window.len < needed)
        e = fault(r, s, at + done, "the file became shorter while it was read");
    return e;
}

static void show(struct replay *r, struct wal_segment *s, uint64_t offset, uint32_t crc,
                 const struct frame *f, const struct scan_event *event)
{
    const struct wal_visitor *v = r->visitor;

    if (event->truncates) {
        sparse_truncate(&r->wal->sparse, event->truncate_from);
        if (v && v->on_truncate)
            v->on_truncate(v->context, event->truncate_from);
    }
    if (event->is_news) {
        sparse_add(&r->wal->sparse, event->entry.index, s, offset, offset + f->size, crc);
        if (v && v->on_entry)
            v->on_entry(v->context, &event->entry);
    }
    if (r->on_record)
        r->on_record(r->context, event);
}

/* A frame that is whole: means what? */
static enum err take(struct replay *r, struct wal_segment *s, const struct frame *f)
{
    uint32_t crc = r->scan.crc;
    struct scan_event event;
    const char *why = scan_record(&r->scan, f, &event);

    if (why)
        return fault(r, s, s->end, why);
    show(r, s, s->end, crc, f, &event);
    s->end += f->size;
    return ERR_OK;
}

/* The last record was torn. A segment gets its name with its first two records durable. */
static enum err take_torn(struct replay *r, struct wal_segment *s, const char *why)
{
    enum err corrupt = fault(r, s, s->end, why);

    if (r->scan.in_segment < 2)
        return corrupt;
    r->found->torn = true;
    return ERR_OK;
}

static enum err read_segment(struct replay *r, struct wal_segment *s, bool newest)
{
    buf_clear(&r->window);
    buf_reserve(&r->window, WAL_WINDOW_BYTES);
    r->window_at = 0;
    scan_next_segment(&r->scan);
    for (enum err e = ERR_OK;;) {
        size_t skip = (size_t)(s->end - r->window_at);
        struct frame_source from = {.window = bytes_of(r->window.at + skip, r->window.len - skip),
                                    .offset = s->end,
                                    .file_size = s->size,
                                    .newest = newest};
        struct frame_report report;
        struct frame f;

        switch (frame_read(&from, r->scan.crc, &f, &report)) {
        case FRAME_OK:
            e = take(r, s, &f);
            break;
        case FRAME_MORE:
            e = fill(r, s, s->end, report.needed);
            break;
        case FRAME_END:
            return r->scan.in_segment < 2 ? fault(r, s, s->end, "a segment without a beginning")
                                          : ERR_OK;
        case FRAME_TORN:
            return take_torn(r, s, report.why);
        case FRAME_BAD:
            return fault(r, s, s->end, report.why);
        }
        if (e != ERR_OK)
            return e;
    }
}

struct wal_segment *wal_segment_new(struct wal_name name)
{
    struct wal_segment *s = mem_new(struct wal_segment);

    s->name = name;
    wal_name_format(name, s->text);
    return s;
}

static enum err open_segment(struct replay *r, struct wal_segment *s)
{
    char *path = wal_path(r->opt->dir, s->text);
    struct disk_stat stat;

    enum err e = disk_open(r->disk, path, r->writes ? 0 : DISK_READ_ONLY, 0, &s->file);
    if (e == ERR_OK && r->writes)
        e = disk_lock(r->disk, s->file, 0);
    if (e == ERR_OK)
        e = disk_stat_file(r->disk, s->file, &stat);
    if (e == ERR_OK) {
        s->size = stat.size;
    } else {
        memcpy(r->found->fault.file, s->text, sizeof(r->found->fault.file));
        log_error(r->opt->logger, "failed to open WAL segment", LOG_STR("path", path),
                  LOG_STR("error", err_text(e)));
    }
    mem_free(path);
    return e;
}

/* The first segment to read: the last whose name does not exceed the snapshot's index. */
static bool first_for(const struct names *names, uint64_t index, size_t *out)
{
    for (size_t i = names->count; i-- > 0;) {
        *out = i;
        if (names->at[i].index <= index)
            return true;
    }
    return false;
}

/* The wal has the segments from here on, whatever comes of it. */
static enum err take_names(struct replay *r, const struct names *names, size_t first)
{
    for (size_t i = first; i < names->count; i++) {
        if (i > first && names->at[i].seq != names->at[i - 1].seq + 1) {
            char text[WAL_NAME_MAX];
            wal_name_format(names->at[i], text);
            log_error(r->opt->logger, "a WAL segment is missing", LOG_STR("before", text));
            return ERR_CORRUPT;
        }
        wal_push_segment(r->wal, wal_segment_new(names->at[i]));
    }
    return ERR_OK;
}

/* Opens it, if it is not open, and closes it again, if it is not among the newest. */
static enum err open_and_read(struct replay *r, size_t nth)
{
    struct wal *w = r->wal;
    struct wal_segment *s = w->segments[nth];
    enum err e = s->file ? ERR_OK : open_segment(r, s);

    if (e == ERR_OK)
        e = read_segment(r, s, nth + 1 == w->segment_count);
    if (e == ERR_OK && nth + WAL_SEGMENTS_OPEN_MAX < w->segment_count) {
        e = disk_close(r->disk, s->file);
        s->file = NULL;
    }
    return e;
}

/* The newest is opened first: its lock tells whether somebody else is writing the log. */
static enum err read_segments(struct replay *r)
{
    enum err e = open_segment(r, wal_tail(r->wal));

    for (size_t i = 0; i < r->wal->segment_count && e == ERR_OK; i++)
        e = open_and_read(r, i);
    if (e != ERR_OK && r->found->fault.what)
        log_error(r->opt->logger, "failed to read WAL", LOG_STR("file", r->found->fault.file),
                  LOG_U64("offset", r->found->fault.offset),
                  LOG_STR("error", r->found->fault.what));
    return e;
}

static enum err decode_metadata(struct replay *r)
{
    struct arena arena = {0};
    enum err e = pb_decode_wal_metadata(buf_bytes(&r->scan.metadata), &arena, &r->found->metadata);

    arena_free(&arena);
    return e;
}

static void report_found(struct replay *r)
{
    r->found->state = r->scan.state;
    r->found->last_index = r->scan.last;
    r->found->start_found = r->scan.start_found;
    r->found->replaced = r->scan.replaced;
}

static enum err replay_names(struct replay *r, struct wal_place start, const struct names *names)
{
    size_t first = 0;
    bool everything = start.index == UINT64_MAX;

    if (!everything && !first_for(names, start.index, &first)) {
        log_error(r->opt->logger, "no WAL segment reaches back to the snapshot",
                  LOG_U64("snapshot-index", start.index));
        return ERR_NOT_FOUND;
    }
    scan_init(&r->scan, start, names->at[first].index);
    enum err e = take_names(r, names, first);
    if (e == ERR_OK)
        e = read_segments(r);
    if (e == ERR_OK)
        e = decode_metadata(r);
    report_found(r);
    return e;
}

/* The scan is the caller's to free. */
static enum err replay(struct replay *r, struct wal_place start)
{
    struct names names;

    *r->found = (struct wal_found){0};
    enum err e = list_names(r->disk, r->opt, &names);
    if (e == ERR_OK)
        e = replay_names(r, start, &names);
    mem_free(names.at);
    buf_free(&r->window);
    return e;
}

static void drop(struct wal *w)
{
    wal_close_files(w);
    wal_abandon(w);
}

/* Shows it all, and closes it again. */
static enum err replay_only(struct replay *r, struct wal_place start)
{
    r->wal = wal_new(r->disk, r->opt);
    enum err e = replay(r, start);
    scan_free(&r->scan);
    drop(r->wal);
    return e;
}

enum err wal_rehearse(struct disk *disk, const struct wal_options *opt, struct wal_place start,
                      const struct wal_visitor *visitor, struct wal_found *found)
{
    struct replay r = {
        .disk = disk, .opt = opt, .visitor = visitor, .found = found, .writes = true};

    return replay_only(&r, start);
}

enum err wal_replay(struct disk *disk, const struct wal_options *opt, struct wal_place start,
                    const struct wal_visitor *visitor, struct wal_found *found)
{
    struct replay r = {.disk = disk, .opt = opt, .visitor = visitor, .found = found};

    return replay_only(&r, start);
}

/* --- the snapshots --- */

struct collecting {
    struct arena *arena;
    struct wal_snapshots *out;
    size_t cap;
    uint64_t highest; /* index of any of them */
    enum err err;
};

static void collect_snapshot(struct collecting *c, struct bytes data)
{
    struct wal_snapshots *all = c->out;

    if (all->count == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 16;
        struct raft_snapshot *more = arena_new_array(c->arena, c->cap, struct raft_snapshot);
        if (all->count > 0)
            memcpy(more, all->at, all->count * sizeof(*more));
        all->at = more;
    }
    struct raft_snapshot *new = &all->at[all->count];
    enum err e = raft_snapshot_decode_record(data, c->arena, new);
    if (e != ERR_OK) {
        c->err = e;
        return;
    }
    all->count++;
    c->highest = new->index > c->highest ? new->index : c->highest;
}

/*
 * Nobody writes an entry below a snapshot that counts. So the installation of those above it was
 * cut short, before its commit index, and the log has gone on where it was: with entries that some
 * member still had. The image is gone. Once they are committed the commit index covers the record
 * as well, and whoever began there would miss what the store has not applied yet.
 *
 * That is seldom: to go over all of them for each entry took seconds where snapshots are frequent.
 */
static void drop_from(struct collecting *c, uint64_t index)
{
    struct wal_snapshots *all = c->out;
    size_t kept = 0;

    if (index > c->highest)
        return;
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].index < index)
            all->at[kept++] = all->at[i];
    all->count = kept;
    c->highest = index - 1;
}

static void collect(void *context, const struct scan_event *event)
{
    struct collecting *c = context;

    if (event->type == WAL_SNAPSHOT)
        collect_snapshot(c, event->data);
    else if (event->type == WAL_ENTRY)
        drop_from(c, event->entry.index);
}

enum err wal_snapshots(struct disk *disk, const struct wal_options *opt, struct arena *arena,
                       struct wal_snapshots *out)
{
    struct collecting c = {.arena = arena, .out = out};
    struct wal_found found;
    struct replay r = {
        .disk = disk, .opt = opt, .found = &found, .on_record = collect, .context = &c};

    *out = (struct wal_snapshots){0};
    r.wal = wal_new(disk, opt);
    enum err e = replay(&r, (struct wal_place){.index = UINT64_MAX});
    scan_free(&r.scan);
    drop(r.wal);
    if (e == ERR_OK)
        e = c.err;
    /* The record of a snapshot is written before the commit index that covers it. One that is
     * beyond belongs to an installation that a crash has cut short. */
    size_t valid = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (out->at[i].index <= found.state.commit)
            out->at[valid++] = out->at[i];
    }
    out->count = e == ERR_OK ? valid : 0;
    return e;
}

/* --- opening for appending --- */

static enum err copy_file(struct disk *disk, struct wal_segment *s, struct disk_file *to)
{
    uint8_t *piece = mem_alloc(WAL_COPY_BYTES);
    enum err e = ERR_OK;
    size_t done = 1;

    for (uint64_t at = 0; e == ERR_OK && done > 0 && at < s->size; at += done) {
        e = disk_read(disk, s->file, at, piece, WAL_COPY_BYTES, &done);
        if (e == ERR_OK)
            e = disk_write(disk, to, at, bytes_of(piece, done));
    }
    if (e == ERR_OK)
        e = disk_sync(disk, to);
    mem_free(piece);
    return e;
}

/* Puts the file with the torn record aside, as <name>.broken, before it is changed. */
static enum err put_aside(struct wal *w, struct wal_segment *s)
{
    char name[WAL_NAME_MAX + 8];
    struct disk_file *copy;

    snprintf(name, sizeof(name), "%s.broken", s->text);
    char *path = wal_path(w->dir, name);
    enum err e = disk_open(w->disk, path, DISK_CREATE | DISK_CUT, FILE_MODE, &copy);
    if (e == ERR_OK) {
        e = copy_file(w->disk, s, copy);
        enum err closed = disk_close(w->disk, copy);
        e = e != ERR_OK ? e : closed;
    }
    mem_free(path);
    return e;
}

/*
 * A sync may have failed in the life before. The kernel then keeps what it could not write, shows
 * it to whoever reads, and calls it clean: no later sync writes it, and it is gone with the power.
 * We have just read it, and are about to append behind it and promise that; so the same bytes are
 * written once more, which makes them dirty, and the sync that follows speaks for them. Where they
 * are on the disk already nothing changes, whenever the power goes: every sector becomes what it
 * is. Only the newest segment can have such bytes, since it got its name when all that came before
 * it was synced. It is written whole, 64 MB at most: nobody knows how far the last good sync went.
 */
static enum err write_again(struct wal *w, struct wal_segment *s)
{
    uint8_t *piece = mem_alloc(WAL_COPY_BYTES);
    enum err e = ERR_OK;
    size_t done = 0;

    for (uint64_t at = 0; e == ERR_OK && at < s->end; at += done) {
        size_t len = s->end - at < WAL_COPY_BYTES ? (size_t)(s->end - at) : WAL_COPY_BYTES;
        e = disk_read(w->disk, s->file, at, piece, len, &done);
        if (e == ERR_OK && done < len)
            e = ERR_IO; /* it was longer when it was replayed */
        if (e == ERR_OK)
            e = disk_write(w->disk, s->file, at, bytes_of(piece, len));
    }
    mem_free(piece);
    return e;
}

static bool is_zero(struct bytes b)
{
    return b.len == 0 || (b.at[0] == 0 && memcmp(b.at, b.at + 1, b.len - 1) == 0);
}

static enum err look_at_tail(struct wal *w, struct wal_segment *s, bool *is_clear)
{
    uint8_t *piece = mem_alloc(WAL_COPY_BYTES);
    enum err e = ERR_OK;
    size_t done = 1;

    *is_clear = true;
    for (uint64_t at = s->end; e == ERR_OK && done > 0 && *is_clear && at < s->size; at += done) {
        e = disk_read(w->disk, s->file, at, piece, WAL_COPY_BYTES, &done);
        *is_clear = e == ERR_OK && is_zero(bytes_of(piece, done));
    }
    mem_free(piece);
    return e;
}

/* A file that was cut works without its space reserved, only slower; and where there is none for it
 * now, there may be some when it is needed. */
static enum err reserve_tail(struct wal *w, struct wal_segment *s)
{
    uint64_t size = wal_segment_bytes(&w->opt);

    if (size < s->size)
        size = s->size; /* it is there, but a copy of a file may have holes */
    enum err e = disk_allocate(w->disk, s->file, 0, size, 0);
    if (e == ERR_OK)
        s->size = size;
    else
        log_warn(w->opt.logger, "failed to reserve a WAL segment", LOG_STR("path", s->text),
                 LOG_STR("error", err_text(e)));
    /* What it has taken of the space before it failed may be behind the end, where the next start
     * would expect the end to be. */
    return e == ERR_OK ? e : disk_truncate(w->disk, s->file, s->size);
}

/*
 * Zeros behind the last record. There may be others, of a write whose first sector was lost: if
 * they stayed, a new record in front of them could be torn and look whole. They must be gone before
 * anything is appended, hence the sync. Where all are zeros the file is left as it is: to cut it
 * would give up its space, and the disk may be full.
 */
static enum err clear_tail(struct wal *w, struct wal_segment *s)
{
    bool is_clear;
    enum err e = look_at_tail(w, s, &is_clear);

    if (e == ERR_OK && !is_clear) {
        e = disk_truncate(w->disk, s->file, s->end);
        s->size = s->end;
    }
    if (e == ERR_OK)
        e = reserve_tail(w, s);
    if (e == ERR_OK)
        e = disk_sync(w->disk, s->file);
    return e;
}

/* The directory that holds the wal's. */
static char *parent_of(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    size_t len = slash ? (size_t)(slash - dir) : 0;
    char *parent = mem_new_array(len + 2, char);

    if (!slash)
        parent[0] = '.';
    else
        memcpy(parent, dir, len ? len : 1);
    return parent;
}

/*
 * A process that was killed may have left names that only the kernel's memory knows: a segment just
 * renamed, the whole directory just created. They must last before anything below them is promised.
 */
static enum err sync_names(struct wal *w)
{
    char *parent = parent_of(w->dir);
    enum err e = disk_open_dir(w->disk, w->dir, &w->dir_file);

    if (e == ERR_OK)
        e = disk_sync_opened_dir(w->disk, w->dir, w->dir_file);
    if (e == ERR_OK)
        e = disk_sync_dir(w->disk, parent);
    mem_free(parent);
    return e;
}

static enum err prepare_tail(struct replay *r)
{
    struct wal *w = r->wal;
    struct wal_segment *s = wal_tail(w);
    enum err e = ERR_OK;

    if (r->found->torn) {
        log_info(w->opt.logger, "repairing", LOG_STR("path", s->text),
                 LOG_U64("offset", r->found->fault.offset), LOG_STR("error", r->found->fault.what));
        e = put_aside(w, s); /* while the torn bytes are still there to be looked at */
    }
    if (e == ERR_OK)
        e = write_again(w, s);
    if (e == ERR_OK)
        e = clear_tail(w, s); /* which syncs */
    if (e == ERR_OK)
        e = sync_names(w);
    if (e != ERR_OK)
        log_error(w->opt.logger, "failed to prepare WAL for appending", LOG_STR("path", s->text),
                  LOG_STR("error", err_text(e)));
    else if (r->found->torn)
        log_info(w->opt.logger, "repaired", LOG_STR("path", s->text));
    return e;
}

/* From here on the wal can be appended to. */
static void take_over(struct wal *w, struct scan *scan)
{
    w->metadata = scan->metadata;
    scan->metadata = (struct buf){0};
    w->crc = scan->crc;
    w->state = scan->state;
    w->last = scan->last;
    w->written = scan->written;
    for (size_t i = 0; i < w->segment_count; i++)
        w->segments[i]->durable = w->segments[i]->end;
}

enum err wal_open(struct disk *disk, const struct wal_options *opt, struct wal_place start,
                  const struct wal_visitor *visitor, struct wal_found *found, struct wal **out)
{
    assert(start.index < UINT64_MAX);

    struct replay r = {
        .disk = disk, .opt = opt, .visitor = visitor, .found = found, .writes = true};
    r.wal = wal_new(disk, opt);
    enum err e = replay(&r, start);
    if (e == ERR_OK)
        e = prepare_tail(&r);
    if (e != ERR_OK) {
        scan_free(&r.scan);
        drop(r.wal);
        return e;
    }
    take_over(r.wal, &r.scan);
    scan_free(&r.scan);
    wal_check(r.wal);
    *out = r.wal;
    return ERR_OK;
}

/* --- creation --- */

/* Removes a directory and the files in it; one that does not exist is fine. */
static enum err remove_dir(struct disk *disk, const char *dir)
{
    struct buf listing = {0};
    enum err e = disk_list(disk, dir, WAL_NAMES_BYTES_MAX, &listing);
    struct bytes left = buf_bytes(&listing);
    bool missing = e == ERR_NOT_FOUND;

    for (const char *name; e == ERR_OK && (name = disk_next_name(&left));) {
        char *path = wal_path(dir, name);
        e = disk_remove(disk, path);
        mem_free(path);
    }
    buf_free(&listing);
    if (e == ERR_OK)
        e = disk_remove(disk, dir);
    return missing ? ERR_OK : e;
}

/* The first segment's records. */
static void encode_start(struct wal *w, const struct pb_wal_metadata *metadata, struct buf *out)
{
    struct buf snapshot = {0};

    pb_encode_wal_metadata(metadata, &w->metadata);
    raft_snapshot_encode_record(&(struct raft_snapshot){0}, &snapshot);
    frame_append(out, WAL_CRC, 0, bytes_of(NULL, 0), bytes_of(NULL, 0), false);
    w->crc = crc32c(0, buf_bytes(&w->metadata));
    frame_append(out, WAL_METADATA, w->crc, buf_bytes(&w->metadata), bytes_of(NULL, 0), false);
    w->crc = crc32c(w->crc, buf_bytes(&snapshot));
    frame_append(out, WAL_SNAPSHOT, w->crc, buf_bytes(&snapshot), bytes_of(NULL, 0), false);
    buf_free(&snapshot);
}

static enum err write_first_segment(struct wal *w, const char *tmp,
                                    const struct pb_wal_metadata *metadata)
{
    struct wal_segment *s = wal_segment_new((struct wal_name){0});
    char *path = wal_path(tmp, s->text);
    struct buf records = {0};

    wal_push_segment(w, s);
    encode_start(w, metadata, &records);
    s->end = records.len;
    s->durable = s->end;
    s->size = wal_segment_bytes(&w->opt);
    enum err e = disk_open(w->disk, path, DISK_CREATE | DISK_EXCLUSIVE, FILE_MODE, &s->file);
    if (e == ERR_OK)
        e = disk_lock(w->disk, s->file, 0);
    if (e == ERR_OK)
        e = disk_allocate(w->disk, s->file, 0, s->size, 0);
    if (e == ERR_OK)
        e = disk_write(w->disk, s->file, 0, buf_bytes(&records));
    if (e == ERR_OK)
        e = disk_sync(w->disk, s->file);
    mem_free(path);
    buf_free(&records);
    return e;
}

/* The directory gets its name. If that cannot be made to last it loses it again: a log that is
 * there after one crash and not after the next is worse than none. */
static enum err publish(struct wal *w, const char *tmp)
{
    char *parent = parent_of(w->dir);
    enum err e = disk_open_dir(w->disk, tmp, &w->dir_file);

    if (e == ERR_OK)
        e = disk_sync_opened_dir(w->disk, tmp, w->dir_file);
    /* There may be an empty one, or one with leftovers; it has no segment, wal_create has looked.
     */
    if (e == ERR_OK)
        e = remove_dir(w->disk, w->dir);
    if (e == ERR_OK)
        e = disk_rename(w->disk, tmp, w->dir);
    if (e == ERR_OK) {
        e = disk_sync_dir(w->disk, parent);
        if (e != ERR_OK && disk_rename(w->disk, w->dir, tmp) != ERR_OK)
            log_error(w->opt.logger, "failed to take back a new WAL", LOG_STR("path", w->dir));
    }
    mem_free(parent);
    return e;
}

static enum err create(struct wal *w, const struct pb_wal_metadata *metadata)
{
    size_t size = strlen(w->dir) + 5;
    char *tmp = mem_new_array(size, char);

    snprintf(tmp, size, "%s.tmp", w->dir);
    enum err e = remove_dir(w->disk, tmp);
    if (e == ERR_OK)
        e = disk_make_dir(w->disk, tmp, DIR_MODE, DISK_PARENTS);
    if (e == ERR_OK)
        e = write_first_segment(w, tmp, metadata);
    if (e == ERR_OK)
        e = publish(w, tmp);
    if (e != ERR_OK)
        log_error(w->opt.logger, "failed to create WAL", LOG_STR("path", w->dir),
                  LOG_STR("error", err_text(e)));
    mem_free(tmp);
    return e;
}

enum err wal_create(struct disk *disk, const struct wal_options *opt,
                    const struct pb_wal_metadata *metadata, struct wal **out)
{
    bool exists;
    enum err e = wal_exists(disk, opt->dir, &exists);

    if (e == ERR_OK && exists)
        e = ERR_EXISTS;
    if (e != ERR_OK)
        return e;
    struct wal *w = wal_new(disk, opt);
    e = create(w, metadata);
    if (e != ERR_OK) {
        drop(w);
        return e;
    }
    wal_check(w);
    *out = w;
    return ERR_OK;
}
