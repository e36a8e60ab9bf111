#include "server/log_snapshot.h"

#include "base/list.h"
#include "io/disk.h"

void log_snapshot_init(struct log_snapshot *n, const struct log_snapshot_options *options,
                       uint64_t recorded_index)
{
    *n = (struct log_snapshot){
        .o = *options, .recorded_index = recorded_index, .has_new_files = true};
}

void log_snapshot_free(struct log_snapshot *n)
{
    arena_free(&n->arena);
    arena_free(&n->mark_arena);
}

/* --- when --- */

void log_snapshot_want(struct log_snapshot *n, uint64_t index)
{
    n->wanted_index = index;
}

bool log_snapshot_is_wanted(const struct log_snapshot *n)
{
    return n->wanted_index > n->recorded_index;
}

bool log_snapshot_is_busy(const struct log_snapshot *n)
{
    return n->state != LOG_SNAPSHOT_IDLE || n->is_purging;
}

/* --- the file, on a worker --- */

/* Names sort by age. */
void log_snapshot_purge(struct disk *disk, const char *dir, unsigned keep)
{
    struct buf names = {0}, path = {0};
    uint64_t term, index;
    size_t count = 0;

    if (keep == 0 || disk_list(disk, dir, 1 * MIB, &names) != ERR_OK)
        keep = 0;
    struct bytes left = buf_bytes(&names);
    for (const char *name; keep && (name = disk_next_name(&left));)
        count += snapfile_parse_name(name, &term, &index);
    left = buf_bytes(&names);
    for (const char *name; keep && count > keep && (name = disk_next_name(&left));) {
        if (!snapfile_parse_name(name, &term, &index))
            continue;
        buf_clear(&path);
        buf_printf(&path, "%s/%s", dir, name);
        if (disk_remove(disk, buf_str(&path)) != ERR_OK)
            break; /* the next snapshot tries again */
        count--;
    }
    buf_free(&names);
    buf_free(&path);
}

static void write_file(struct job *j)
{
    struct log_snapshot *n = container_of(j, struct log_snapshot, job);

    uint64_t began_ns = job_now_ns(j);
    n->err = snapfile_save(n->o.disk, n->o.dir, &n->snapshot);
    n->took_ns = job_now_ns(j) - began_ns;
}

/* In the turn. What follows is the server's to do, when it looks. */
static void file_written(struct job *j)
{
    struct log_snapshot *n = container_of(j, struct log_snapshot, job);

    assert(n->state == LOG_SNAPSHOT_WRITING);
    n->state = LOG_SNAPSHOT_WRITTEN;
    histogram_observe(&n->saves, HISTOGRAM_1MS_14, n->took_ns);
}

/* --- old files --- */

static void purge(struct job *j)
{
    struct log_snapshot *n = container_of(j, struct log_snapshot, purge_job);

    log_snapshot_purge(n->o.disk, n->o.dir, n->o.keep);
}

static void purged(struct job *j)
{
    container_of(j, struct log_snapshot, purge_job)->is_purging = false;
}

void log_snapshot_purge_if_due(struct log_snapshot *n, uint64_t now_ms)
{
    if (!n->has_new_files || n->is_purging || now_ms < n->purge_after_ms)
        return;
    n->has_new_files = false;
    n->is_purging = true;
    n->purge_job = (struct job){.run = purge, .on_done = purged};
    job_submit(n->o.workers, &n->purge_job);
}

/* --- making one --- */

static struct bytes dump(struct arena *a, const struct snapfile_membership *membership)
{
    struct buf text = {0};

    snapfile_dump(membership, &text);
    struct bytes copy = arena_copy(a, buf_bytes(&text));
    buf_free(&text);
    return copy;
}

/*
 * The content is copied at once: a change of the configuration that comes before the store is
 * durable would otherwise get into a snapshot of an index below it, and a member that starts from
 * there would count the change twice.
 */
void log_snapshot_mark(struct log_snapshot *n, const struct log_snapshot_content *content)
{
    assert(log_snapshot_is_due(n, content->index, UINT64_MAX));

    uint64_t last = log_snapshot_last_index(n);
    if (!n->is_again)
        log_info(n->o.logger, "triggering snapshot", LOG_ID("local-member-id", n->o.member_id),
                 LOG_U64("local-member-applied-index", content->index),
                 LOG_U64("local-member-snapshot-index", last),
                 LOG_U64("local-member-snapshot-count", n->o.count),
                 LOG_BOOL("snapshot-forced", n->wanted_index > last));
    arena_reset(&n->mark_arena);
    n->mark = (struct raft_snapshot){.index = content->index,
                                     .term = content->term,
                                     .conf_state = *content->conf_state,
                                     .data = dump(&n->mark_arena, content->membership)};
}

void log_snapshot_begin(struct log_snapshot *n, uint64_t durable_index)
{
    assert(log_snapshot_can_begin(n, durable_index));

    struct arena spare = n->arena;
    n->arena = n->mark_arena;
    n->mark_arena = spare;
    n->snapshot = n->mark;
    n->mark = (struct raft_snapshot){0};
    n->job = (struct job){.run = write_file, .on_done = file_written};
    n->state = LOG_SNAPSHOT_WRITING;
    job_submit(n->o.workers, &n->job);
}

/* --- the record --- */

const struct raft_snapshot *log_snapshot_take_record(struct log_snapshot *n, uint64_t now_ms)
{
    if (n->state != LOG_SNAPSHOT_WRITTEN || n->err == ERR_SYNC)
        return NULL;
    if (n->err != ERR_OK) {
        if (!n->is_again)
            log_warn(
                n->o.logger, "failed to save a snapshot of the log; it is tried again every second",
                LOG_STR("error", err_text(n->err)), LOG_U64("snapshot-index", n->snapshot.index));
        n->is_again = true;
        n->not_before_ms = now_ms + LOG_SNAPSHOT_RETRY_MS;
        n->mark = (struct raft_snapshot){0}; /* one as of then releases more of the log */
        n->state = LOG_SNAPSHOT_IDLE;
        return NULL;
    }
    if (!n->has_new_files)
        n->purge_after_ms = now_ms + LOG_SNAPSHOT_PURGE_MS;
    n->has_new_files = true;
    return &n->snapshot;
}

bool log_snapshot_is_unsynced(const struct log_snapshot *n)
{
    return n->state == LOG_SNAPSHOT_WRITTEN && n->err == ERR_SYNC;
}

void log_snapshot_recorded_as(struct log_snapshot *n, uint64_t seq)
{
    assert(n->state == LOG_SNAPSHOT_WRITTEN);
    assert(n->err == ERR_OK);
    assert(seq != 0);

    n->seq = seq;
    n->is_again = false;
    n->state = LOG_SNAPSHOT_RECORDING;
}

bool log_snapshot_take_release(struct log_snapshot *n, uint64_t durable_seq, uint64_t applied,
                               uint64_t *index)
{
    if (n->state != LOG_SNAPSHOT_RECORDING || n->seq > durable_seq)
        return false;
    assert(n->snapshot.index <= applied); /* the store has it, so raft was told */

    log_info(n->o.logger, "saved snapshot to disk", LOG_U64("snapshot-index", n->snapshot.index));
    n->recorded_index = n->snapshot.index;
    n->seq = 0;
    n->state = LOG_SNAPSHOT_IDLE;
    *index = n->recorded_index > n->o.catch_up ? n->recorded_index - n->o.catch_up : 0;
    return true;
}

void log_snapshot_installed(struct log_snapshot *n, uint64_t index)
{
    assert(n->state == LOG_SNAPSHOT_IDLE);
    assert(index >= n->recorded_index);
    assert(index >= n->mark.index);

    n->recorded_index = index;
    n->mark = (struct raft_snapshot){0};
}

/* --- asking --- */

void log_snapshot_check(const struct log_snapshot *n)
{
    assert((n->seq != 0) == (n->state == LOG_SNAPSHOT_RECORDING));
    assert(n->mark.index == 0 || n->mark.index > log_snapshot_last_index(n));
    if (n->state == LOG_SNAPSHOT_IDLE)
        return;
    assert(n->snapshot.index > n->recorded_index);
    assert(n->snapshot.term > 0);
}
