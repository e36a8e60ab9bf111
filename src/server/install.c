#include "server/install.h"

#include "api/api.h"
#include "base/list.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "raft/raft.h"
#include "server/server_int.h"
#include "snap/snapfile.h"
#include "wal/wal.h"
#include "watch/watch.h"

void install_init(struct install *i, const struct install_options *options)
{
    *i = (struct install){.o = *options, .apply_up_to = UINT64_MAX};
    list_init(&i->olds);
}

static void close_image(struct state *state)
{
    state_close(state);
    backend_close(state->backend);
    *state = (struct state){0};
}

void install_free(struct install *i)
{
    if (!i->olds.next)
        return;
    if (i->step != INSTALL_IDLE)
        close_image(&i->image);
    LIST_FOREACH (link, &i->olds) {
        struct install_old *old = container_of(link, struct install_old, link);
        if (!old->is_closed)
            close_image(&old->state);
        mem_free(old);
    }
    arena_free(&i->arena);
}

/* --- on disk --- */

static void save_file(struct job *j)
{
    struct install *i = container_of(j, struct install, job);

    i->err = snapfile_save(i->o.disk, i->o.snap_dir, &i->snapshot);
    if (i->err == ERR_OK)
        log_snapshot_purge(i->o.disk, i->o.snap_dir, i->o.keep);
}

static void file_saved(struct job *j)
{
    struct install *i = container_of(j, struct install, job);

    assert(i->step == INSTALL_FILE);
    i->step = INSTALL_FILE_SAVED;
}

void install_describe(const struct state *image, struct arena *arena, struct raft_snapshot *out)
{
    struct snapfile_membership m = state_membership(image);
    struct backend_position at = backend_applied(image->backend);
    struct buf text = {0};

    snapfile_dump(&m, &text);
    *out = (struct raft_snapshot){
        .index = at.index, .term = at.term, .data = arena_copy(arena, buf_bytes(&text))};
    cluster_conf_state(image->cluster, &out->conf_state);
    buf_free(&text);
}

static void take_image(struct install *i, const struct state *image)
{
    assert(install_may_begin(i));

    i->image = *image;
    arena_reset(&i->arena);
    install_describe(image, &i->arena, &i->snapshot);
}

void install_begin_received(struct install *i, const struct state *image, uint64_t seq)
{
    take_image(i, image);
    i->is_received = true;
    i->seq = seq;
    i->step = INSTALL_RECORDING;
}

void install_begin(struct install *i, const struct state *image)
{
    take_image(i, image);
    i->step = INSTALL_FILE;
    i->job = (struct job){.run = save_file, .on_done = file_saved};
    job_submit(i->o.workers, &i->job);
}

/* The file is of no use to anybody but etcd, should it come back to this directory; but without it
 * that could not start, and so the log must not rely on it. */
const struct raft_snapshot *install_take_record(struct install *i)
{
    if (i->step != INSTALL_FILE_SAVED || i->err == ERR_SYNC)
        return NULL;
    if (i->err == ERR_OK)
        return &i->snapshot;
    log_warn(i->o.logger, "failed to save the snapshot file of an image; trying again",
             LOG_STR("error", err_text(i->err)), LOG_U64("snapshot-index", i->snapshot.index));
    i->step = INSTALL_FILE;
    i->file_is_due = true;
    return NULL;
}

/* On a full disk it may take long. */
static void try_file_again(struct install *i, uint64_t now_ms)
{
    if (!i->file_is_due || now_ms < i->file_ms)
        return;
    i->file_is_due = false;
    i->file_ms = now_ms + SPACE_RETRY_MS;
    job_submit(i->o.workers, &i->job);
}

void install_recorded_as(struct install *i, uint64_t seq)
{
    assert(i->step == INSTALL_FILE_SAVED);
    assert(i->err == ERR_OK);
    assert(seq != 0);

    i->seq = seq;
    i->step = INSTALL_RECORDING;
}

static void swapped(struct backend_install *b)
{
    struct install *i = container_of(b, struct install, swap);

    assert(i->step == INSTALL_SWAPPING);
    i->step = INSTALL_SWAPPED;
}

void install_durable(struct install *i, uint64_t durable_seq, struct backend *old)
{
    if (i->step != INSTALL_RECORDING || i->seq > durable_seq)
        return;
    i->step = INSTALL_SWAPPING;
    i->swap = (struct backend_install){.on_done = swapped};
    backend_install_start(old, i->image.backend, &i->swap);
}

/* --- old states --- */

static void close_old(struct job *j)
{
    struct install_old *old = container_of(j, struct install_old, job);

    close_image(&old->state);
    old->is_closed = true;
}

static void old_closed(struct job *j)
{
    container_of(j, struct install_old, job)->job.run = NULL;
}

static void add_old(struct install *i, const struct state *state, uint64_t now_ms)
{
    struct install_old *old = mem_new(struct install_old);

    *old = (struct install_old){.state = *state, .since_ms = now_ms};
    list_init(&old->link);
    list_push_back(&i->olds, &old->link);
    i->old_count++;
}

/* On a worker: to free the index of a million keys takes longer than a turn may. */
static void end_old(struct install *i, struct install_old *old)
{
    old->is_ending = true;
    old->job = (struct job){.run = close_old, .on_done = old_closed};
    job_submit(i->o.workers, &old->job);
}

static void old_tick(struct install *i, struct install_old *old, uint64_t now_ms)
{
    if (old->is_ending && !old->job.run) {
        list_remove(&old->link);
        mem_free(old);
        i->old_count--;
        return;
    }
    if (old->is_ending)
        return;
    if (state_is_unused(&old->state))
        end_old(i, old);
    else if (now_ms - old->since_ms >= INSTALL_OLD_MS)
        mvcc_end_scans(old->state.mvcc);
}

void install_tick(struct install *i, uint64_t now_ms)
{
    try_file_again(i, now_ms);
    LIST_FOREACH (link, &i->olds)
        old_tick(i, container_of(link, struct install_old, link), now_ms);
}

/* --- asking --- */

bool install_may_begin(const struct install *i)
{
    return i->step == INSTALL_IDLE && i->old_count < INSTALL_OLD_MAX;
}

bool install_is_busy(const struct install *i)
{
    return i->step != INSTALL_IDLE;
}

uint64_t install_held_seq(const struct install *i)
{
    return i->is_received ? i->seq : UINT64_MAX;
}

bool install_is_idle(const struct install *i)
{
    return i->step == INSTALL_IDLE && list_empty(&i->olds);
}

void install_check(const struct install *i)
{
    size_t count = 0;

    LIST_FOREACH (link, &i->olds) {
        const struct install_old *old = container_of(link, struct install_old, link);
        assert(old->is_ending || old->state.backend);
        count++;
    }
    assert(count == i->old_count);
    assert(count <= INSTALL_OLD_MAX);
    assert(!i->is_received || i->step >= INSTALL_RECORDING);
    if (i->step == INSTALL_IDLE)
        return;
    assert(i->image.backend);
    assert(i->snapshot.index == backend_applied(i->image.backend).index);
    assert(backend_durable(i->image.backend).index == i->snapshot.index);
    mvcc_check(i->image.mvcc);
    lease_check(i->image.leases);
    cluster_check(i->image.cluster);
    apply_check(i->image.apply);
}

/* --- the exchange --- */

/* Entries that the image contains: nobody applies them, and raft hears that they are. */
static void pass_over_entries(struct server *s, uint64_t index)
{
    size_t from, to;

    while (storage_work_overtaken(&s->work, index)) {
        const struct raft_message *m = storage_work_take_applied(&s->work, &from, &to);
        raft_step_applied(s->raft, m, from, to);
        storage_work_applied_told(&s->work);
    }
}

/* Raft's log begins with the snapshot, and nothing of the files from before it is of use. */
static void begin_log_anew(struct server *s, uint64_t index)
{
    wal_release(s->wal, index);
    wal_purge(s->wal, (unsigned)s->config->max_wals);
}

/* A leader of this term whose first entry is in the image will not meet it any more. */
static bool leads(const struct server *s, uint64_t term)
{
    struct raft_status now = raft_status(s->raft);

    return now.soft_state.role == RAFT_LEADER && now.hard_state.term == term;
}

/* Its leases start afresh, as a new leader's do, and like those not before all is applied that was
 * proposed until now: the end of one whose time was up may be in the log already, and nobody may
 * renew it in between. */
static void lead_on(struct server *s)
{
    pending_not_leading(&s->pending);
    s->install.lead_at = raft_status(s->raft).last_index;
    if (s->install.lead_at == s->install.snapshot.index)
        leadership_start_leases(s);
}

static void tell_peers(struct server *s)
{
    size_t count;
    const uint64_t *removed = cluster_removed(s->state.cluster, &count);

    peering_set_removed(&s->peering, removed, count);
    const struct pb_member *members = cluster_members(s->state.cluster, &count);
    peering_set_members(&s->peering, members, count);
}

static void tell_rooms(struct server *s)
{
    const struct state *now = &s->state;

    warming_set_state(&s->warming, now->mvcc);
    if (s->tokens)
        auth_tokens_drop_all(s->tokens); /* of passwords that may have been changed meanwhile */
    watch_store_replaced(s->clients.watch, now->mvcc);
    api_state_replaced(s->clients.api, &(struct api_state){.apply = now->apply,
                                                           .auth = now->auth,
                                                           .mvcc = now->mvcc,
                                                           .leases = now->leases,
                                                           .cluster = now->cluster,
                                                           .backend = now->backend});
    housekeeping_state_replaced(&s->housekeeping, now);
    peer_requests_state_replaced(&s->peer_requests, now);
    hashing_state_replaced(&s->hashing);
    corruption_state_replaced(&s->corruption, now);
    cutting_state_replaced(&s->cutting);
    mvcc_stop_waiting(&s->own_image.waiter);
    tell_peers(s);
    server_members_replaced(s);
}

/*
 * In etcd's order: leases, keys, alarms, members. With all of them open already it matters little
 * here, but for one thing: those who wait are dealt with while the facts still tell of the old
 * state, and everybody is told of the new one before anybody can ask.
 */
void install_image(struct server *s)
{
    struct install *i = &s->install;
    struct state old = s->state;
    const struct raft_snapshot *snapshot = &i->snapshot;

    assert(i->step == INSTALL_SWAPPED);
    assert(snapshot->index >= s->facts.applied_index + apply_is_busy(old.apply));
    pending_overtaken(&s->pending, snapshot->index);
    apply_give_up(old.apply);
    s->state = i->image;
    state_continue_stats(&s->state, &old);
    state_fails_to(&s->state, server_on_failed, s);
    state_gives_out(&s->state, s->tokens);
    if (leads(s, snapshot->term))
        lead_on(s);
    tell_rooms(s);
    assert(mvcc_status(old.mvcc).waiters == 0); /* a worker may close it from now on */
    s->conf_state = snapshot->conf_state;
    s->facts.is_learner = cluster_is_own_learner(s->state.cluster);
    s->facts.applied_index = snapshot->index;
    s->facts.applied_term = snapshot->term;
    pass_over_entries(s, snapshot->index);
    log_snapshot_installed(&s->snapshot, snapshot->index);
    sending_offer(s->raft, snapshot->index, snapshot->term, &snapshot->conf_state);
    if (i->is_received)
        begin_log_anew(s, snapshot->index);
    add_old(i, &old, s->facts.now_ms);
    i->image = (struct state){0};
    i->seq = 0;
    i->is_received = false;
    i->step = INSTALL_IDLE;
    i->apply_up_to = UINT64_MAX;
    i->count++;
    log_info(s->logger, "applied snapshot",
             LOG_U64("current-snapshot-index", s->snapshot.recorded_index),
             LOG_U64("current-applied-index", s->facts.applied_index),
             LOG_U64("incoming-leader-snapshot-index", snapshot->index),
             LOG_U64("incoming-leader-snapshot-term", snapshot->term),
             LOG_I64("current-revision", mvcc_revision(s->state.mvcc)));
}

void install_some(struct server *s)
{
    struct install *i = &s->install;
    const struct raft_snapshot *record;

    own_image_some(s);
    if (install_is_idle(i))
        return;
    if (i->step == INSTALL_FILE_SAVED && i->err == ERR_SYNC)
        server_fail(s, "cannot save the snapshot file of an image: %s", err_text(i->err));
    if (!log_snapshot_is_busy(&s->snapshot) && (record = install_take_record(i)))
        install_recorded_as(i, wal_append_snapshot(s->wal, record));
    install_durable(i, wal_durable(s->wal), s->state.backend);
    if (i->step == INSTALL_SWAPPED)
        install_image(s);
    install_tick(i, s->facts.now_ms);
}
