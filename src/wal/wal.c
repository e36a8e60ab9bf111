#include "wal/wal_int.h"

#include "base/assert.h"
#include "base/crc32c.h"

#include <stdio.h>
#include <string.h>

/* --- coming and going --- */

struct wal *wal_new(struct disk *disk, const struct wal_options *opt)
{
    assert(opt->dir && opt->dir[0]);
    assert(opt->logger);

    struct wal *w = mem_new(struct wal);
    w->disk = disk;
    w->opt = *opt;
    w->dir = wal_path(opt->dir, "");
    for (size_t len = strlen(w->dir); len > 1 && w->dir[len - 1] == '/'; len--)
        w->dir[len - 1] = 0;
    list_init(&w->batches);
    list_init(&w->reads);
    list_init(&w->given_up);
    return w;
}

void wal_push_segment(struct wal *w, struct wal_segment *s)
{
    w->segments = mem_resize(w->segments, w->segment_count + 1, sizeof(*w->segments));
    w->segments[w->segment_count++] = s;
    list_init(&s->link);
    s->wal = w;
}

static void batch_free(struct wal_batch *b)
{
    const struct wal_shared *shared = (const struct wal_shared *)(void *)b->shared.at;

    for (size_t i = 0; i < b->shared.len / sizeof(*shared); i++)
        blob_unref(shared[i].blob);
    buf_free(&b->shared);
    buf_free(&b->bytes);
    mem_free(b);
}

void wal_abandon(struct wal *w)
{
    wal_free_reads(w);
    LIST_FOREACH (link, &w->batches)
        batch_free(container_of(link, struct wal_batch, link));
    if (w->spare)
        batch_free(w->spare);
    for (size_t i = 0; i < w->segment_count; i++)
        mem_free(w->segments[i]);
    LIST_FOREACH (link, &w->given_up)
        mem_free(container_of(link, struct wal_segment, link));
    mem_free(w->segments);
    sparse_free(&w->sparse);
    buf_free(&w->metadata);
    buf_free(&w->pieces);
    buf_free(&w->purging.names);
    mem_free(w->purging.path);
    mem_free(w->next.path);
    mem_free(w->path_to);
    mem_free(w->dir);
    mem_free(w);
}

bool wal_is_idle(const struct wal *w)
{
    return (w->step == WAL_STEP_IDLE || wal_awaits_space(w)) && list_empty(&w->reads) &&
           list_empty(&w->given_up) && w->next.state != WAL_NEXT_UNDER_WAY && w->closing == 0 &&
           !w->purging.busy;
}

void wal_fail(struct wal *w, const char *doing, const char *path, const struct disk_op *op)
{
    char text[512];
    const char *why = op->os_error ? strerror(op->os_error) : err_text(op->err);

    snprintf(text, sizeof(text), "wal: %s %s/%s failed: %s", doing, w->dir, path, why);
    w->failed = true;
    if (!w->opt.on_failed)
        fatal("%s", text);
    w->opt.on_failed(w->opt.context, text);
}

/* --- encoding --- */

static struct wal_batch *new_batch(struct wal *w)
{
    struct wal_batch *b = w->spare ? w->spare : mem_new(struct wal_batch);

    w->spare = NULL;
    b->segment = wal_tail(w);
    b->offset = b->segment->end;
    b->seq = w->seq;
    list_init(&b->link);
    list_push_back(&w->batches, &b->link);
    return b;
}

/* The batch that records go into now. One that is being written takes no more. */
static struct wal_batch *gathering(struct wal *w)
{
    if (list_empty(&w->batches))
        return new_batch(w);
    struct wal_batch *b = container_of(w->batches.prev, struct wal_batch, link);
    assert(!b->sealed);
    return b == w->writing ? new_batch(w) : b;
}

static void add_shared(struct wal_batch *b, struct bytes data, struct blob *blob, size_t padding)
{
    struct wal_shared shared = {.at = b->bytes.len, .data = data, .blob = blob_ref(blob)};

    buf_append(&b->shared, bytes_of(&shared, sizeof(shared)));
    /* Behind the data, and in front of the next record: lay_out puts the data in between. */
    if (padding > 0)
        memset(buf_extend(&b->bytes, padding), 0, padding);
}

/* Appends a record of head and body to the batch. The body's blob, if there is one and it is worth
 * it, is shared. */
static void add_record(struct wal *w, struct wal_batch *b, enum wal_record_type type,
                       struct bytes head, struct bytes body, struct blob *blob)
{
    bool share = blob && body.len >= WAL_SHARE_BYTES_MIN;
    size_t before = b->bytes.len;

    w->crc = crc32c(w->crc, head);
    if (body.len > 0)
        w->crc = crc32c(w->crc, body);
    size_t size = frame_append(&b->bytes, type, w->crc, head, body, share);
    if (share)
        add_shared(b, body, blob, size - body.len - (b->bytes.len - before));
    b->size += size;
    b->segment->end += size;
    w->pending_bytes += size;
    assert(b->segment->end == b->offset + b->size);
}

static void add_entry(struct wal *w, struct wal_batch *b, const struct raft_entry *e)
{
    uint8_t head[RAFT_ENTRY_HEAD_BYTES], *end = head + sizeof(head);
    uint8_t *at = raft_entry_put_head(e, end);
    uint64_t offset = b->segment->end;
    uint32_t crc = w->crc;

    add_record(w, b, WAL_ENTRY, bytes_of(at, (size_t)(end - at)), e->data, e->blob);
    sparse_add(&w->sparse, e->index, b->segment, offset, b->segment->end, crc);
    w->last = e->index;
    w->written = e->index;
}

static void add_state(struct wal *w, struct wal_batch *b, struct raft_hard_state state)
{
    uint8_t record[RAFT_HARD_STATE_BYTES], *end = record + sizeof(record);
    uint8_t *at = raft_hard_state_put(&state, end);

    add_record(w, b, WAL_STATE, bytes_of(at, (size_t)(end - at)), bytes_of(NULL, 0), NULL);
    w->state = state;
}

static void add_snapshot(struct wal *w, struct wal_batch *b, const struct raft_snapshot *s)
{
    struct buf record = {0};

    raft_snapshot_encode_record(s, &record);
    add_record(w, b, WAL_SNAPSHOT, buf_bytes(&record), bytes_of(NULL, 0), NULL);
    buf_free(&record);
    if (w->written < s->index)
        w->written = s->index;
}

/* The segment is full: this batch is its last, and the next begins another one. */
static void cut(struct wal *w, struct wal_batch *b)
{
    struct wal_name name = {.seq = wal_tail(w)->name.seq + 1, .index = w->written + 1};

    b->sealed = true;
    b->wanted = true;
    wal_push_segment(w, wal_segment_new(name));
    struct wal_batch *next = new_batch(w);
    next->opens = true;
    next->wanted = true;
    frame_append(&next->bytes, WAL_CRC, w->crc, bytes_of(NULL, 0), bytes_of(NULL, 0), false);
    next->size = next->bytes.len;
    next->segment->end = next->size;
    w->pending_bytes += next->size;
    add_record(w, next, WAL_METADATA, buf_bytes(&w->metadata), bytes_of(NULL, 0), NULL);
    /* Said again, though nothing has changed: older segments may be purged, and whoever begins to
     * read here must not forget a vote. */
    if (w->state.term > 0)
        add_state(w, next, w->state);
}

/* --- writing --- */

static void kick(struct wal *w);

static void submit(struct wal *w, enum wal_step step, struct disk_op op)
{
    w->step = step;
    w->op = op;
    disk_submit(w->disk, DISK_LOG, &w->op);
}

static void recycle(struct wal *w, struct wal_batch *b)
{
    if (w->spare || b->bytes.cap > WAL_SPARE_BYTES_MAX || b->shared.len > 0) {
        batch_free(b);
        return;
    }
    struct buf bytes = b->bytes, shared = b->shared;
    buf_clear(&bytes);
    *b = (struct wal_batch){.bytes = bytes, .shared = shared};
    w->spare = b;
}

static void batch_is_durable(struct wal *w)
{
    struct wal_batch *b = w->writing;
    uint64_t before = w->durable;

    b->segment->durable = b->offset + b->size;
    assert(b->seq >= w->durable);
    w->durable = b->seq;
    w->pending_bytes -= b->size;
    w->lacks_space = false;
    if (b->opens) {
        log_info(w->opt.logger, "created a new WAL segment", LOG_STR("path", b->segment->text));
        wal_close_old(w);
    }
    wal_reserve(w); /* not earlier, so that a log that was only opened has nothing in flight */
    list_remove(&b->link);
    w->writing = NULL;
    w->step = WAL_STEP_IDLE;
    recycle(w, b);
    /* First the next write, then the news: the disk works while others act on it. And what they
     * append then gathers behind that write, instead of becoming a small one of its own. */
    kick(w);
    if (w->durable > before && w->opt.on_durable)
        w->opt.on_durable(w->opt.context, w->durable);
}

/*
 * A full disk is not a failed sync: that this was not done is certain, and what was done before it
 * is known. So it waits as it is, with all that comes behind it, until there is space.
 */
static void await_space(struct wal *w, enum wal_step step, struct disk_op op)
{
    assert(op.kind != DISK_SYNC);
    assert(op.kind != DISK_SYNC_DIR);

    w->step = step;
    w->op = op;
    w->awaits_space = true;
    if (!w->lacks_space)
        log_warn(w->opt.logger, "no space left for the WAL; it will be tried again",
                 LOG_STR("path", w->writing->segment->text));
    w->lacks_space = true;
}

static void on_trim_synced(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, op);

    if (op->err != ERR_OK)
        wal_fail(w, "sync of", w->writing->segment->text, op);
    else
        batch_is_durable(w);
}

static void on_trimmed(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, op);

    if (op->err == ERR_NO_SPACE) /* there are file systems that copy to cut */
        await_space(w, WAL_STEP_TRIMMING, *op);
    else if (op->err != ERR_OK)
        wal_fail(w, "truncation of", w->writing->segment->text, op);
    else
        submit(w, WAL_STEP_TRIM_SYNCING,
               (struct disk_op){.kind = DISK_SYNC,
                                .file = w->writing->segment->file,
                                .on_done = on_trim_synced});
}

/*
 * The batch is durable, and its segment found after a power cut. Full segments end with their last
 * record, as etcd leaves them: the zeros were reserved for records, and none comes any more. That
 * goes for one that was begun and filled by the same write, too.
 */
static void end_batch(struct wal *w)
{
    struct wal_batch *b = w->writing;
    struct wal_segment *s = b->segment;

    if (!b->sealed || s->size <= s->end) {
        batch_is_durable(w);
        return;
    }
    s->size = s->end;
    submit(w, WAL_STEP_TRIMMING,
           (struct disk_op){
               .kind = DISK_TRUNCATE, .file = s->file, .size = s->end, .on_done = on_trimmed});
}

static void on_dir_synced(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, op);

    if (op->err != ERR_OK)
        wal_fail(w, "sync of directory", "", op);
    else
        end_batch(w);
}

static void on_renamed(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, op);

    if (op->err == ERR_NO_SPACE)
        await_space(w, WAL_STEP_RENAMING, *op);
    else if (op->err != ERR_OK)
        wal_fail(w, "rename to", w->writing->segment->text, op);
    else
        submit(w, WAL_STEP_DIR_SYNCING,
               (struct disk_op){.kind = DISK_SYNC_DIR,
                                .path = w->dir,
                                .file = w->dir_file,
                                .on_done = on_dir_synced});
}

static struct disk_op write_op(struct wal *w, const struct wal_batch *b);

/* Says what went wrong with the write, not with the undoing, which was only an attempt. */
static void undo_failed(struct wal *w, struct disk_op *op)
{
    op->err = w->write_error;
    op->os_error = w->write_os_error;
    wal_fail(w, "write to", w->writing->segment->text, op);
}

static void on_undo_synced(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, op);

    if (w->write_error != ERR_NO_SPACE)
        undo_failed(w, op);
    else if (op->err != ERR_OK)
        wal_fail(w, "sync of", w->writing->segment->text, op);
    else
        await_space(w, WAL_STEP_WRITING, write_op(w, w->writing));
}

static void on_undone(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, op);
    struct wal_segment *s = w->writing->segment;

    if (op->err == ERR_NO_SPACE && w->write_error == ERR_NO_SPACE) {
        await_space(w, WAL_STEP_UNDOING, *op);
        return;
    }
    if (op->err != ERR_OK && w->write_error == ERR_NO_SPACE) {
        /* Part of a record may be there for the next start to find. */
        wal_fail(w, "truncation of", s->text, op);
        return;
    }
    s->size = w->writing->offset;
    submit(w, WAL_STEP_UNDO_SYNCING,
           (struct disk_op){.kind = DISK_SYNC, .file = s->file, .on_done = on_undo_synced});
}

/*
 * A write that failed may have left part of a record, cut at any byte and not at a sector, which
 * the next start could not tell from damage. Nothing of it was promised, so it is cut off before we
 * go, or, if it is for want of space, before we wait: where the disk is full somebody may well end
 * this process. That gives up the rest of the segment's own space, too. To keep it, zeros would
 * have to be written over the part; but a file system that has no space for what was reserved has
 * none for zeros. After a failed sync we touch nothing. A segment that has no name yet is not worth
 * it.
 */
static void write_failed(struct wal *w, struct disk_op *op)
{
    struct wal_batch *b = w->writing;

    if (op->done < b->size && b->opens && op->err == ERR_NO_SPACE) {
        await_space(w, WAL_STEP_WRITING, *op);
        return;
    }
    if (op->done >= b->size || b->opens) {
        wal_fail(w, op->done >= b->size ? "sync of" : "write to", b->segment->text, op);
        return;
    }
    w->write_error = op->err;
    w->write_os_error = op->os_error;
    submit(w, WAL_STEP_UNDOING,
           (struct disk_op){.kind = DISK_TRUNCATE,
                            .file = b->segment->file,
                            .size = b->offset,
                            .on_done = on_undone});
}

/* By the operation's own clock: neither the wait for its turn nor ours is the disk's. */
static void note_times(struct wal *w, const struct disk_op *op)
{
    histogram_observe(&w->stats.write, HISTOGRAM_1MS_14, op->took_ns - op->sync_ns);
    if (!op->sync)
        return;
    histogram_observe(&w->stats.sync, HISTOGRAM_1MS_14, op->sync_ns);
    if (op->sync_ns > WAL_SLOW_SYNC_NS)
        log_warn(w->opt.logger, "slow fdatasync", LOG_NS("took", (int64_t)op->sync_ns),
                 LOG_NS("expected-duration", (int64_t)WAL_SLOW_SYNC_NS));
}

static void on_written(struct disk_op *op)
{
    struct wal *w = container_of(op, struct wal, op);
    struct wal_batch *b = w->writing;
    struct wal_segment *s = b->segment;

    if (op->err != ERR_OK) {
        write_failed(w, op);
        return;
    }
    w->bytes_written += b->size;
    w->syncs += op->sync;
    note_times(w, op);
    if (s->size < b->offset + b->size)
        s->size = b->offset + b->size;
    /* A new segment: written and synced without its name, then named, then the name is made to
     * last. So whoever finds the name finds a beginning, and nothing in it is promised before a
     * power cut would leave it findable. */
    if (b->opens) {
        mem_free(w->path_to);
        w->path_to = wal_path(w->dir, s->text);
        submit(w, WAL_STEP_RENAMING,
               (struct disk_op){.kind = DISK_RENAME,
                                .path = w->next.path,
                                .path_to = w->path_to,
                                .on_done = on_renamed});
    } else {
        end_batch(w);
    }
}

/* The batch as pieces: its bytes, with the shared data in between. */
static void lay_out(struct wal *w, const struct wal_batch *b)
{
    const struct wal_shared *shared = (const struct wal_shared *)(void *)b->shared.at;
    size_t at = 0;

    buf_clear(&w->pieces);
    for (size_t i = 0; i < b->shared.len / sizeof(*shared); i++) {
        struct bytes two[] = {bytes_of(b->bytes.at + at, shared[i].at - at), shared[i].data};
        buf_append(&w->pieces, bytes_of(two, sizeof(two)));
        at = shared[i].at;
    }
    struct bytes rest = bytes_of(b->bytes.at + at, b->bytes.len - at);
    buf_append(&w->pieces, bytes_of(&rest, sizeof(rest)));
}

static struct disk_op write_op(struct wal *w, const struct wal_batch *b)
{
    lay_out(w, b);
    return (struct disk_op){
        .kind = DISK_WRITE,
        .file = b->segment->file,
        .offset = b->offset,
        .pieces = (const struct bytes *)(void *)w->pieces.at,
        .piece_count = w->pieces.len / sizeof(struct bytes),
        .sync = !w->opt.no_sync,
        .on_done = on_written,
    };
}

static void write_batch(struct wal *w)
{
    struct wal_batch *b = w->writing;

    assert(b->segment->file);
    assert(b->offset == b->segment->durable);
    submit(w, WAL_STEP_WRITING, write_op(w, b));
}

/* The reserved file becomes the batch's segment; its name changes once its records are durable. */
static void use_next(struct wal *w)
{
    struct wal_segment *s = w->writing->segment;

    assert(!s->file);
    s->file = w->next.file;
    s->size = wal_segment_bytes(&w->opt);
    w->next.file = NULL;
    w->next.state = WAL_NEXT_NONE;
    w->next.count++;
    write_batch(w);
}

void wal_next_ready(struct wal *w)
{
    if (w->step == WAL_STEP_AWAITING_NEXT)
        use_next(w);
}

/*
 * What is written so far is whole, so nothing is wrong with a log that waits; and whoever has all
 * the descriptors or all the space, in this process or in others, may give some back.
 */
void wal_next_failed(struct wal *w, const struct disk_op *op)
{
    bool awaited = w->step == WAL_STEP_AWAITING_NEXT;

    if (awaited && op->err != ERR_NO_FILES && op->err != ERR_NO_SPACE) {
        wal_fail(w, "reservation of", w->writing->segment->text, op);
        return;
    }
    if (!w->next.told)
        log_warn(w->opt.logger, "failed to reserve the next WAL segment; it will be tried again",
                 LOG_STR("path", w->next.path), LOG_STR("error", err_text(op->err)));
    w->next.told = true;
}

void wal_retry(struct wal *w)
{
    if (w->failed)
        return;
    if (w->awaits_space) {
        w->awaits_space = false;
        disk_submit(w->disk, DISK_LOG, &w->op);
    }
    if (w->next.state == WAL_NEXT_FAILED) {
        w->next.state = WAL_NEXT_NONE;
        wal_reserve(w);
    }
}

/* --- space --- */

bool wal_lacks_space(const struct wal *w)
{
    return w->lacks_space || w->next.lacks_space;
}

bool wal_awaits_space(const struct wal *w)
{
    return w->awaits_space || (w->step == WAL_STEP_AWAITING_NEXT && w->next.lacks_space &&
                               w->next.state == WAL_NEXT_FAILED);
}

uint64_t wal_space_left(const struct wal *w)
{
    uint64_t size = wal_segment_bytes(&w->opt);
    uint64_t kept = size / 4 < WAL_RESERVE_BYTES ? size / 4 : WAL_RESERVE_BYTES;
    uint64_t end = wal_tail(w)->end;

    if (!wal_lacks_space(w))
        return UINT64_MAX;
    /* A segment that waits for its own space has none, however short it is as yet. */
    if (w->lacks_space || w->step == WAL_STEP_AWAITING_NEXT || end >= size - kept)
        return 0;
    return size - kept - end;
}

/* Writes the oldest batch if somebody waits for it and nothing is being written. */
static void kick(struct wal *w)
{
    if (w->step != WAL_STEP_IDLE || list_empty(&w->batches))
        return;
    struct wal_batch *b = container_of(w->batches.next, struct wal_batch, link);
    if (!b->wanted)
        return;
    w->writing = b;
    if (!b->opens) {
        write_batch(w);
    } else if (w->next.state == WAL_NEXT_READY) {
        use_next(w);
    } else {
        w->step = WAL_STEP_AWAITING_NEXT;
        wal_reserve(w);
        wal_retry(w);
    }
}

/* --- appending --- */

static bool state_is_empty(const struct raft_hard_state *s)
{
    return s->term == 0 && s->vote == 0 && s->commit == 0;
}

/* A commit index alone is not waited for: raft learns it again. It lingers in the batch until there
 * is something that somebody waits for, or many of them (WAL_LINGER_BYTES_MAX). */
static bool must_sync(const struct wal *w, const struct wal_save *save)
{
    const struct raft_hard_state *s = &save->state;

    if (save->installed || save->entry_count > 0)
        return true;
    return !state_is_empty(s) && (s->term != w->state.term || s->vote != w->state.vote);
}

/* Everything before the snapshot is void. Its commit index is written before the entries: a power
 * cut in between must not leave entries that follow on nothing. */
static void add_installed(struct wal *w, struct wal_batch *b, const struct wal_save *save)
{
    struct raft_hard_state state = state_is_empty(&save->state) ? w->state : save->state;

    assert(save->installed->index > 0);
    add_snapshot(w, b, save->installed);
    sparse_truncate(&w->sparse, 0);
    wal_cut_reads(w, 0);
    w->last = save->installed->index;
    if (save->entry_count > 0 && state.term > 0) {
        state.commit = save->installed->index;
        add_state(w, b, state);
    }
}

static void add_entries(struct wal *w, struct wal_batch *b, const struct wal_save *save)
{
    const struct raft_entry *e = save->entries;

    if (save->entry_count == 0)
        return;
    assert(e[0].index > 0);
    assert(e[0].index <= w->last + 1);
    if (e[0].index <= w->last)
        wal_cut_reads(w, e[0].index); /* promise 4, also for those that are under way */
    for (size_t i = 0; i < save->entry_count; i++) {
        assert(e[i].term > 0);
        assert(e[i].index == e[0].index + i);
        add_entry(w, b, &e[i]);
    }
}

static uint64_t cut_at(const struct wal *w)
{
    uint64_t size = wal_segment_bytes(&w->opt);

    return size - (size / 16 < WAL_SLACK_BYTES ? size / 16 : WAL_SLACK_BYTES);
}

/* What was added to the batch is complete. */
static uint64_t finish_append(struct wal *w, struct wal_batch *b, bool sync)
{
    if (sync)
        w->seq++;
    b->seq = w->seq;
    b->wanted |= sync || b->bytes.len >= WAL_LINGER_BYTES_MAX;
    /* After an append and never within it: what raft hands out at once is in one segment, which may
     * thereby become longer than the others. */
    if (b->segment->end >= cut_at(w))
        cut(w, b);
    kick(w);
    return w->seq;
}

uint64_t wal_append(struct wal *w, const struct wal_save *save)
{
    assert(!w->failed);

    bool has_state = !state_is_empty(&save->state);
    if (!save->installed && save->entry_count == 0 && !has_state)
        return w->seq;
    bool sync = must_sync(w, save);
    struct wal_batch *b = gathering(w);
    if (save->installed)
        add_installed(w, b, save);
    add_entries(w, b, save);
    if (has_state) {
        assert(save->state.term > 0);
        assert(save->state.commit <= w->last);
        add_state(w, b, save->state);
    }
    return finish_append(w, b, sync);
}

uint64_t wal_append_snapshot(struct wal *w, const struct raft_snapshot *snapshot)
{
    assert(!w->failed);
    assert(snapshot->conf_state.voters.count > 0 || snapshot->index == 0);
    assert(snapshot->index <= w->last);

    struct wal_batch *b = gathering(w);
    add_snapshot(w, b, snapshot);
    return finish_append(w, b, true);
}

uint64_t wal_sync(struct wal *w)
{
    assert(!w->failed);

    if (!list_empty(&w->batches)) {
        struct wal_batch *b = container_of(w->batches.prev, struct wal_batch, link);
        if (!b->wanted) {
            b->wanted = true;
            b->seq = ++w->seq;
            kick(w);
        }
    }
    return w->seq;
}

uint64_t wal_durable(const struct wal *w)
{
    return w->durable;
}

size_t wal_pending_bytes(const struct wal *w)
{
    return w->pending_bytes;
}

/* --- closing --- */

/* Commit indexes that nobody waited for: if there is no space for them, then what a part of them
 * has left is cut off. */
static void write_rest(struct wal *w)
{
    if (list_empty(&w->batches) || wal_awaits_space(w))
        return;
    struct wal_batch *b = container_of(w->batches.next, struct wal_batch, link);
    assert(!b->opens);
    struct disk_op op = write_op(w, b);
    enum err e = disk_wait(w->disk, &op);
    if (e == ERR_NO_SPACE && op.done < b->size)
        e = disk_truncate(w->disk, b->segment->file, b->offset);
    if (e != ERR_OK)
        wal_fail(w, "write to", b->segment->text, &op);
}

/* All of it is synced, or nothing was written: a close that fails loses nothing. */
void wal_close_files(struct wal *w)
{
    for (size_t i = 0; i < w->segment_count; i++) {
        struct wal_segment *s = w->segments[i];
        if (s->file && disk_close(w->disk, s->file) != ERR_OK)
            log_warn(w->opt.logger, "failed to close WAL segment", LOG_STR("path", s->text));
        s->file = NULL;
    }
    if (w->dir_file && disk_close(w->disk, w->dir_file) != ERR_OK)
        log_warn(w->opt.logger, "failed to close WAL directory", LOG_STR("path", w->dir));
    w->dir_file = NULL;
}

void wal_close(struct wal *w)
{
    if (!w)
        return;
    assert(wal_is_idle(w));
    assert(!w->failed);

    write_rest(w);
    wal_unreserve(w);
    wal_close_files(w);
    wal_abandon(w);
}

/* --- looking --- */

const struct wal_stats *wal_stats(const struct wal *w)
{
    return &w->stats;
}

struct wal_status wal_status(const struct wal *w)
{
    return (struct wal_status){
        .last_index = w->last,
        .segment = wal_tail(w)->name.seq,
        .segment_count = w->segment_count,
        .bytes_written = w->bytes_written,
        .syncs = w->syncs,
        .index_marks = w->sparse.count,
    };
}

static void check_batches(const struct wal *w)
{
    size_t bytes = 0;
    bool first = true;

    LIST_FOREACH (link, &w->batches) {
        const struct wal_batch *b = container_of(link, struct wal_batch, link);
        assert(first || !b->opens || b->offset == 0);
        assert(b->seq <= w->seq);
        assert(b->seq >= w->durable);
        assert(b->offset % 8 == 0);
        assert(b->size % 8 == 0);
        assert(!b->sealed || b->wanted);
        bytes += b->size;
        first = false;
    }
    assert(bytes == w->pending_bytes);
}

static void check_segments(const struct wal *w)
{
    assert(w->segment_count > 0);
    for (size_t i = 0; i < w->segment_count; i++) {
        const struct wal_segment *s = w->segments[i];
        assert(s->durable <= s->end);
        assert(s->file || s->durable == 0 || i + WAL_SEGMENTS_OPEN_MAX < w->segment_count);
        assert(!s->file || !s->is_closing);
        assert(i == 0 || s->name.seq == w->segments[i - 1]->name.seq + 1);
        assert(list_empty(&s->link));
    }
}

void wal_check(const struct wal *w)
{
    check_segments(w);
    check_batches(w);
    assert(w->durable <= w->seq);
    assert(w->sparse.count == 0 || w->sparse.last == w->last);
    assert((w->step == WAL_STEP_IDLE) == (w->writing == NULL));
    assert(!w->awaits_space || w->lacks_space);
    assert(!w->lacks_space || w->writing);
    assert(!w->awaits_space || !w->op.event.queued);
    assert(w->state.commit <= w->last);
    assert(w->dir_file);
}
