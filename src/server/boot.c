/*
 * From a data directory to an open server.
 *
 *     no log         a new cluster: --initial-cluster says who, ids follow from it
 *     a log          its metadata says who we are; it is read from the last snapshot recorded in
 *                    it, and the store says how much of it is applied already
 *     etcd's store   is imported first (snap/transfer.h), if there is a log to go with it
 *
 * A directory of etcd's is not touched before it is certain that we can serve it: whoever is turned
 * away by us must find it as it was, and start etcd on it. So everything that boot could refuse is
 * gone through in a trial first, by the very code that boots: on a copy of the store, with the log
 * only read, and with the entries that the store has not seen applied and then forgotten. It costs
 * a second reading of the store, once in its life. Checks of their own, on etcd's file, would be
 * quicker, and sooner or later miss what boot refuses.
 *
 * Everything here may block: nobody is served yet.
 */
#include "server/server_int.h"

#include "io/disk.h"
#include "io/entropy.h"
#include "server/replay.h"
#include "server/storage_version.h"
#include "snap/transfer.h"

struct boot {
    struct server *s;
    struct buf *why;
    struct arena arena;
    struct cluster_initial initial;
    bool has_log, founds; /* founds: the cluster begins here and now */
    bool told_no_sync;    /* the operator knows that directories cannot be synced */
    bool trial;           /* nothing is to be written but to the store, which is a copy */
    struct replay log;
    struct pb_wal_metadata identity;
    struct raft_conf_state conf_state; /* as of what the store has applied */
    char storage_version[VERSION_TEXT_MAX];
};

/* --- directories --- */

/* The directory that a path is in. */
static const char *parent_of(struct boot *b, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return ".";
    return slash == path ? "/" : arena_copy_str(&b->arena, bytes_of(path, (size_t)(slash - path)));
}

/* A file system that has no such thing must do, but not in silence. */
static enum err sync_name(struct boot *b, const char *dir)
{
    struct disk_op op = {.kind = DISK_SYNC_DIR, .path = dir};
    enum err e = disk_wait(b->s->io->disk, &op);

    if (e == ERR_OK && op.os_error != 0 && !b->told_no_sync) {
        b->told_no_sync = true;
        log_warn(b->s->logger,
                 "the file system cannot sync directories; it alone decides whether "
                 "files just created or renamed survive a power cut",
                 LOG_STR("path", dir));
    }
    return e;
}

/* A log is only as durable as the names of all the directories above it. */
static enum err sync_names(struct boot *b, const char *path)
{
    enum err e = ERR_OK;

    while (e == ERR_OK && strcmp(path, "/") != 0 && strcmp(path, ".") != 0) {
        path = parent_of(b, path);
        e = sync_name(b, path);
    }
    /* Above what is ours we may not be allowed to look; then it was there before us. */
    return e == ERR_DENIED ? ERR_OK : e;
}

/* A directory that cannot be written to is found out now, not at the first write that counts. */
static enum err make_dir(struct boot *b, const char *path)
{
    struct disk *disk = b->s->io->disk;
    const char *probe = arena_printf(&b->arena, "%s/.touch", path);
    enum err e = disk_make_dir(disk, path, 0700, DISK_PARENTS);

    if (e == ERR_OK)
        e = disk_write_file(disk, probe, 0600, (struct bytes){0});
    if (e == ERR_OK)
        e = disk_remove(disk, probe);
    if (e == ERR_NOT_FOUND) /* another one starts here as well; their locks will tell them apart */
        e = ERR_OK;
    if (e == ERR_OK)
        e = sync_names(b, path);
    if (e != ERR_OK)
        buf_printf(b->why, "cannot write to %s: %s", path, err_text(e));
    return e;
}

static enum err make_dirs(struct boot *b)
{
    struct server *s = b->s;
    enum err e = make_dir(b, s->config->data_dir);

    if (e == ERR_OK)
        e = make_dir(b, s->snap_dir);
    if (e == ERR_OK)
        e = make_dir(b, parent_of(b, s->config->wal_dir));
    return e;
}

/* --- the log --- */

static struct wal_options wal_settings(struct server *s)
{
    return (struct wal_options){
        .dir = s->config->wal_dir,
        .logger = s->logger,
        .no_sync = s->config->unsafe_no_fsync,
        .segment_bytes = s->options.segment_bytes,
        .on_failed = s->options.on_failed ? server_on_log_failed : NULL,
        .context = s,
    };
}

static enum err look_for_log(struct boot *b)
{
    const char *dir = b->s->config->wal_dir;
    enum err e = wal_exists(b->s->io->disk, dir, &b->has_log);

    if (e != ERR_OK)
        buf_printf(b->why, "cannot look for a log in %s: %s", dir, err_text(e));
    return e;
}

/* The snapshot to begin from: the last one that the log itself calls committed. */
static enum err find_start(struct boot *b)
{
    struct wal_options opt = wal_settings(b->s);
    struct wal_snapshots snapshots;
    enum err e = wal_snapshots(b->s->io->disk, &opt, &b->arena, &snapshots);

    if (e != ERR_OK)
        buf_printf(b->why, "cannot read the log in %s: %s", opt.dir, err_text(e));
    if (e != ERR_OK || snapshots.count == 0)
        return e;
    const struct raft_snapshot *last = &snapshots.at[snapshots.count - 1];
    b->log.start = (struct wal_place){.index = last->index, .term = last->term};
    return ERR_OK;
}

/* Shows it to the replay. In a trial it stays as it is, a torn end included. */
static enum err open_log(struct boot *b)
{
    struct replay *l = &b->log;
    struct wal_options opt = wal_settings(b->s);
    struct wal_visitor visitor = replay_visitor(l);

    l->applied = backend_applied(b->s->backend).index;
    enum err e = b->trial
                     ? wal_replay(b->s->io->disk, &opt, l->start, &visitor, &l->found)
                     : wal_open(b->s->io->disk, &opt, l->start, &visitor, &l->found, &b->s->wal);
    if (e == ERR_BUSY)
        buf_printf(b->why, "the log in %s is in use by another process", opt.dir);
    else if (e != ERR_OK)
        buf_printf(b->why, "cannot open the log in %s: %s: %s at byte %llu of %s", opt.dir,
                   err_text(e), l->found.fault.what ? l->found.fault.what : "",
                   (unsigned long long)l->found.fault.offset, l->found.fault.file);
    else
        b->identity = l->found.metadata;
    return e;
}

static enum err find_log(struct boot *b)
{
    enum err e = look_for_log(b);

    return e == ERR_OK && b->has_log ? find_start(b) : e;
}

static enum err create_log(struct boot *b)
{
    struct wal_options opt = wal_settings(b->s);
    enum err e = wal_create(b->s->io->disk, &opt, &b->identity, &b->s->wal);

    if (e != ERR_OK)
        buf_printf(b->why, "cannot create a log in %s: %s", opt.dir, err_text(e));
    return e;
}

/* --- the store --- */

static void store_failed(void *context, enum err e, const char *text)
{
    server_fail(context, "the store failed: %s: %s", err_text(e), text);
}

static enum err open_store(struct boot *b, const char *dir)
{
    struct server *s = b->s;
    struct backend_options options = {
        .disk = s->io->disk,
        .dir = dir,
        .memory = s->options.memory,
        .workers = s->io->store_worker,
        .on_failure = s->options.on_failed ? store_failed : NULL,
        .context = s,
        .why = b->why,
    };

    return backend_open(&options, &s->backend);
}

static enum err open_own_store(struct boot *b)
{
    char *dir = b->s->options.memory ? NULL : snap_store_dir(b->s->config->data_dir);
    enum err e = open_store(b, dir);

    mem_free(dir);
    return e;
}

/* --- who we are --- */

static enum err read_initial_cluster(struct boot *b)
{
    const struct config *c = b->s->config;
    struct bytes name = bytes_of_str(c->name);

    if (!cluster_initial_parse(bytes_of_str(c->initial_cluster),
                               bytes_of_str(c->initial_cluster_token), b->why, &b->initial) ||
        !cluster_initial_verify(&b->initial, name, c->advertise_peers, c->joins_existing, b->why))
        return ERR_MALFORMED;
    if (c->joins_existing) {
        buf_append_str(b->why,
                       "joining a cluster that exists (--initial-cluster-state existing) is "
                       "not supported yet");
        return ERR_UNSUPPORTED;
    }
    if (b->initial.count != 1) {
        buf_append_str(b->why, "clusters of more than one member are not supported yet");
        return ERR_UNSUPPORTED;
    }
    b->identity = (struct pb_wal_metadata){.node_id = cluster_initial_find(&b->initial, name)->id,
                                           .cluster_id = b->initial.cluster_id};
    return ERR_OK;
}

/* A log without a single entry was made by a boot that was cut short: the cluster has not begun. */
static enum err found_again(struct boot *b)
{
    struct pb_wal_metadata logged = b->identity;
    enum err e = read_initial_cluster(b);

    if (e == ERR_OK &&
        (logged.node_id != b->identity.node_id || logged.cluster_id != b->identity.cluster_id)) {
        buf_append_str(b->why, "the log is of a member that --initial-cluster does not describe");
        e = ERR_MALFORMED;
    }
    return e;
}

static enum err identify(struct boot *b)
{
    uint64_t applied = backend_applied(b->s->backend).index;
    enum err e = b->has_log ? open_log(b) : read_initial_cluster(b);

    if (e != ERR_OK)
        return e;
    b->founds = !b->has_log || (b->log.found.last_index == 0 && b->log.found.state.term == 0);
    if (b->founds && applied > 0) {
        buf_printf(b->why,
                   "the store has applied entries up to %llu, but there is no log of them in %s",
                   (unsigned long long)applied, b->s->config->wal_dir);
        return ERR_CORRUPT;
    }
    if (!b->has_log)
        return create_log(b);
    return b->founds ? found_again(b) : ERR_OK;
}

/* --- the rooms --- */

static void leased_key(void *context, struct bytes key, int64_t lease)
{
    struct server *s = context;

    if (lease_attach(s->leases, lease, key) != LEASE_OK)
        log_warn(s->logger, "a key names a lease that does not exist", LOG_BYTES("key", key),
                 LOG_ID("lease", (uint64_t)lease));
}

static void settled_key(void *context, struct bytes key)
{
    struct server *s = context;

    lease_detach(s->leases, key);
}

static void damaged(void *context, const char *text)
{
    server_fail(context, "the store contradicts itself: %s", text);
}

static void refused(void *context, const char *text)
{
    server_fail(context, "cannot apply the log any further: %s", text);
}

static enum err open_state(struct boot *b)
{
    struct server *s = b->s;
    int64_t min_ttl = (int64_t)((3 * s->config->election_ms / 2 + 999) / 1000);
    struct lease_options leases = {
        .backend = s->backend, .min_ttl = min_ttl, .hash_seed = s->map_seed};
    struct mvcc_options mvcc = {.backend = s->backend,
                                .on_leased_key = leased_key,
                                .on_settled_key = settled_key,
                                .range_tombstone_keys_min = s->options.range_tombstone_keys_min,
                                .on_damage = s->options.on_failed ? damaged : NULL,
                                .context = s};
    struct cluster_options members = {.backend = s->backend,
                                      .cluster_id = b->identity.cluster_id,
                                      .own_id = b->identity.node_id,
                                      .max_learners = (unsigned)s->config->max_learners};

    enum err e = storage_version_read(s->backend, b->storage_version, b->why);
    if (e == ERR_OK)
        e = lease_open(&leases, b->why, &s->leases);
    if (e == ERR_OK)
        e = mvcc_open(&mvcc, b->why, &s->mvcc);
    if (e == ERR_OK)
        e = cluster_open(&members, b->why, &s->cluster);
    if (e != ERR_OK)
        return e;
    struct apply_options apply = {.backend = s->backend,
                                  .mvcc = s->mvcc,
                                  .leases = s->leases,
                                  .cluster = s->cluster,
                                  .own_id = b->identity.node_id,
                                  .quota_bytes = s->config->quota_backend_bytes,
                                  .on_refused = refused,
                                  .context = s};
    return apply_open(&apply, b->why, &s->apply);
}

/*
 * The voters and learners are the store's members, as in etcd, and not what it has under confState:
 * `etcdutl snapshot restore` gives a backup new members and leaves the old ones' ids there. Whoever
 * believed it would wait for the votes of members that are no more.
 */
static enum err read_members(struct boot *b)
{
    struct raft_conf_state *c = &b->conf_state;
    uint64_t self = b->identity.node_id;

    cluster_conf_state(b->s->cluster, c);
    size_t count = c->voters.count + c->learners.count;
    if (count > 1) {
        buf_append_str(b->why, "clusters of more than one member are not supported yet");
        return ERR_UNSUPPORTED;
    }
    if (backend_applied(b->s->backend).index > 0 &&
        (c->voters.count == 0 || c->voters.at[0] != self)) {
        buf_printf(b->why, "member %llx, whose log this is, is not a voter of its cluster%s",
                   (unsigned long long)self,
                   cluster_is_removed(b->s->cluster, self) ? ": it was removed" : "");
        return ERR_UNSUPPORTED;
    }
    return ERR_OK;
}

/* --- raft --- */

static void raft_says(void *context, enum raft_log_level level, const char *text)
{
    static const enum log_level levels[] = {[RAFT_LOG_DEBUG] = LOG_DEBUG,
                                            [RAFT_LOG_INFO] = LOG_INFO,
                                            [RAFT_LOG_WARN] = LOG_WARN,
                                            [RAFT_LOG_ERROR] = LOG_ERROR};
    struct server *s = context;

    if (s->raft_logger.level <= levels[level])
        log_write(&s->raft_logger, levels[level], "raft/raft.c", text, NULL, 0);
}

static struct raft_config raft_settings(struct boot *b)
{
    struct server *s = b->s;

    return (struct raft_config){
        .id = b->identity.node_id,
        .election_ticks = (unsigned)(s->config->election_ms / s->config->heartbeat_ms),
        .heartbeat_ticks = 1,
        .rng = s->rng,
        .max_message_bytes = RAFT_MESSAGE_BYTES_MAX,
        .max_inflight_messages = 512,
        .max_resident_entries = 10000,
        .max_resident_bytes = 32 * MIB,
        .async_storage_writes = true,
        .check_quorum = true,
        .pre_vote = s->config->pre_vote,
        .log = raft_says,
        .log_context = s,
        .log_level = s->logger->level == LOG_DEBUG ? RAFT_LOG_DEBUG : RAFT_LOG_INFO,
    };
}

static void found(struct boot *b)
{
    struct buf data = {0};
    struct raft_conf_change change;

    cluster_initial_entry(&b->initial, 0, &data);
    bool ok = raft_conf_change_decode(buf_bytes(&data), &change);
    assert(ok);
    raft_bootstrap(b->s->raft,
                   &(struct raft_founder){.id = change.node_id, .context = change.context}, 1);
    buf_free(&data);
}

static enum err check_raft(struct boot *b)
{
    struct raft_config config = raft_settings(b);
    const char *problem = raft_config_problem(&config);

    if (problem) {
        buf_append_str(b->why, problem);
        return ERR_MALFORMED;
    }
    return replay_check(&b->log, b->s->config->wal_dir, b->why);
}

static void open_raft(struct boot *b)
{
    struct raft_config config = raft_settings(b);
    struct raft_boot memory = {0};
    struct log_snapshot_options snapshots = {
        .disk = b->s->io->disk,
        .workers = b->s->io->workers,
        .log = b->s->logger,
        .dir = b->s->snap_dir,
        .keep = (unsigned)b->s->config->max_snapshots,
        .count = b->s->config->snapshot_count,
        .catch_up = b->s->config->snapshot_catchup_entries,
        .member_id = b->identity.node_id,
    };

    if (!b->founds)
        replay_remember(&b->log, &b->conf_state, &memory);
    b->s->raft = raft_open(&config, &memory);
    if (b->founds)
        found(b);
    storage_work_init(&b->s->work, b->log.applied);
    b->s->conf_state = b->conf_state;
    log_snapshot_init(&b->s->snapshot, &snapshots, b->log.start.index, b->log.applied);
}

/* --- all that could be refused --- */

/* The store is open. What is left to do after this has nothing more to say about its content. */
static enum err examine(struct boot *b)
{
    enum err e = identify(b);

    if (e == ERR_OK)
        e = open_state(b);
    if (e == ERR_OK)
        e = read_members(b);
    if (e == ERR_OK)
        e = check_raft(b);
    return e;
}

/* --- etcd's directory --- */

static void trial_failed(void *context, const char *text)
{
    struct boot *b = context;

    buf_printf(b->why, "%s%s", b->why->len > 0 ? "; " : "", text);
}

static enum err try_entry(struct boot *b, const struct raft_entry *entry)
{
    struct server *s = b->s;

    apply_begin(s->apply, entry, server_now_ms(s));
    while (!s->failed && !apply_some(s->apply, MVCC_SLICE_STEPS))
        continue;
    if (s->failed)
        return ERR_UNSUPPORTED;
    bool changes_members = apply_effects(s->apply)->is_conf_change;
    apply_end(s->apply, (struct bytes){0});
    return changes_members ? read_members(b) : ERR_OK;
}

/*
 * What the store has not seen yet, down to the last entry: a lone voter commits all that its log
 * has. None of it reaches the disk, since nobody commits the batch; and the memory it takes is that
 * of the entries once more, which the replay holds anyway.
 */
static enum err try_entries(struct boot *b)
{
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < b->log.count; i++)
        if (b->log.entries[i].index > b->log.applied)
            e = try_entry(b, &b->log.entries[i]);
    return e;
}

static void close_state(struct server *s)
{
    apply_close(s->apply);
    cluster_close(s->cluster);
    mvcc_close(s->mvcc);
    lease_close(s->leases);
    backend_close(s->backend);
    s->apply = NULL;
    s->cluster = NULL;
    s->mvcc = NULL;
    s->leases = NULL;
    s->backend = NULL;
}

/* Everything is as before, but for what *why says. */
static enum err try_copy(struct boot *b, const char *dir)
{
    struct server *s = b->s;
    struct server_options options = s->options;
    struct wal_place start = b->log.start;

    b->trial = true;
    s->options.on_failed = trial_failed;
    s->options.context = b;
    enum err e = open_store(b, dir);
    if (e == ERR_OK)
        e = examine(b);
    if (e == ERR_OK)
        e = try_entries(b);
    close_state(s);
    s->options = options;
    s->failed = false;
    replay_free(&b->log);
    b->log = (struct replay){.start = start};
    cluster_initial_free(&b->initial);
    b->trial = false;
    return e;
}

static enum err take_over(struct boot *b, const struct snap_place *place)
{
    struct snap_import *import;
    struct snap_copied copied;
    enum err e = snap_import_copy(b->s->io->disk, place, &import, &copied);

    if (e != ERR_OK)
        return e;
    e = try_copy(b, snap_import_dir(import));
    if (e != ERR_OK) {
        snap_import_drop(import);
        log_warn(b->s->logger, "etcd's data directory was left as it is",
                 LOG_STR("data-dir", place->data_dir));
        return e;
    }
    e = snap_import_take_over(import);
    if (e == ERR_OK)
        log_info(b->s->logger, "imported etcd's store", LOG_U64("consistent-index", copied.index),
                 LOG_U64("entries", copied.entries), LOG_U64("bytes", copied.bytes),
                 LOG_STR("way-back", "cleatutl export makes it etcd's again"));
    return e;
}

static enum err settle_store(struct boot *b)
{
    struct snap_place place = {
        .data_dir = b->s->config->data_dir, .wal_index = b->log.start.index, .why = b->why};
    struct snap_truth truth;
    enum err e = snap_truth(b->s->io->disk, &place, &truth);

    if (e != ERR_OK || truth.holds != SNAP_HOLDS_DB)
        return e;
    if (b->has_log)
        return take_over(b, &place);
    buf_printf(b->why, "%s has a store of etcd's, but there is no log in %s that goes with it",
               b->s->config->data_dir, b->s->config->wal_dir);
    return ERR_CORRUPT;
}

/* --- clients --- */

static enum err open_rpc(struct boot *b)
{
    struct server *s = b->s;
    const struct config *c = s->config;

    s->rpc = rpc_open(&(struct rpc_options){
        .io = s->io,
        .logger = s->logger,
        .methods = api_methods,
        .method_count = api_method_count,
        .message_bytes_max = c->max_request_bytes + GRPC_OVERHEAD_BYTES,
        .concurrent_streams_max = c->max_concurrent_streams,
        .keepalive_min_ms = (uint64_t)c->grpc_keepalive_min_time_ns / NS_PER_MS,
        .keepalive_interval_ms = (uint64_t)c->grpc_keepalive_interval_ns / NS_PER_MS,
        .keepalive_timeout_ms = (uint64_t)c->grpc_keepalive_timeout_ns / NS_PER_MS,
        .conns_max = listen_conns_max(s->io->files_max),
        .seed = s->map_seed,
    });
    return listen_open(s, b->why);
}

static void open_api(struct boot *b)
{
    struct server *s = b->s;
    const struct config *c = s->config;
    struct watch_options watch = {
        .mvcc = s->mvcc,
        .fragment_bytes = c->max_request_bytes + GRPC_OVERHEAD_BYTES,
        .progress_interval_ms = (uint64_t)c->watch_progress_notify_ns / NS_PER_MS,
        .seed = rng_next(&s->rng),
    };

    s->watch = watch_open(&watch);
    s->api = api_open(&(struct api_options){
        .rpc = s->rpc,
        .apply = s->apply,
        .mvcc = s->mvcc,
        .watch = s->watch,
        .leases = s->leases,
        .cluster = s->cluster,
        .backend = s->backend,
        .facts = &s->facts,
        .logger = s->logger,
        .seed = s->map_seed,
        .request_bytes_max = c->max_request_bytes,
        .txn_ops_max = (unsigned)c->max_txn_ops,
    });
}

static void tick_is_due(struct timer *t)
{
    container_of(t, struct server, tick_timer)->tick_due = true;
}

static void set_going(struct boot *b)
{
    struct server *s = b->s;
    uint64_t limit_ms = 5000 + 2 * s->config->election_ms; /* etcd's, for proposals and reads */

    s->facts.member_id = b->identity.node_id;
    s->facts.cluster_id = b->identity.cluster_id;
    s->facts.applied_index = b->log.applied;
    s->facts.applied_term = backend_applied(s->backend).term;
    s->facts.election_ms = s->config->election_ms;
    s->facts.heartbeat_ms = s->config->heartbeat_ms;
    s->facts.now_ms = s->last_tick_ms = server_now_ms(s);
    pending_init(&s->pending, &(struct pending_options){
                                  .facts = &s->facts,
                                  .wall_ms = clock_wall_ns(s->io->clock) / NS_PER_MS,
                                  .map_seed = s->map_seed,
                                  .request_bytes_max = s->config->max_request_bytes,
                                  .limit_ms = limit_ms,
                              });
    housekeeping_init(
        &s->housekeeping,
        &(struct housekeeping_options){
            .backend = s->backend,
            .mvcc = s->mvcc,
            .leases = s->leases,
            .cluster = s->cluster,
            .apply = s->apply,
            .clock = s->io->clock,
            .logger = s->logger,
            .facts = &s->facts,
            .attributes = {.name = bytes_of_str(s->config->name),
                           .client_urls = {s->config->advertise_clients.at,
                                           s->config->advertise_clients.count}},
            .commit_interval_ms = (uint64_t)s->config->backend_batch_interval_ns / NS_PER_MS,
            .publish_retry_ms = limit_ms,
            .settle_steps = s->options.settle_steps,
        },
        b->storage_version);
    s->tick_timer.on_time = tick_is_due;
    s->tick_due = true; /* which also sets the timer */
    server_come_back(s);
    log_info(s->logger, "starting etcd server", LOG_ID("local-member-id", s->facts.member_id),
             LOG_STR("local-server-version", SERVER_VERSION),
             LOG_ID("cluster-id", s->facts.cluster_id),
             LOG_U64("applied-index", s->facts.applied_index));
}

/* --- the end --- */

/* In the opposite order of opening; any of them may not be there. */
static void server_free(struct server *s, bool crashed)
{
    if (!crashed)
        listen_stop(s); /* a boot that was refused has only these */
    api_close(s->api);
    rpc_close(s->rpc);
    watch_close(s->watch);
    apply_close(s->apply);
    pending_free(&s->pending);
    storage_work_free(&s->work);
    raft_close(s->raft);
    cluster_close(s->cluster);
    mvcc_close(s->mvcc);
    lease_close(s->leases);
    if (crashed)
        wal_abandon(s->wal);
    else
        wal_close(s->wal);
    backend_close(s->backend);
    log_snapshot_free(&s->snapshot);
    listen_free(s);
    mem_free(s->snap_dir);
    mem_free(s);
}

/* --- all of it --- */

static struct server *new_server(const struct server_options *options)
{
    struct server *s = mem_new(struct server);
    uint64_t seed;

    s->options = *options;
    s->config = options->config;
    s->logger = options->logger;
    s->raft_logger = *options->logger;
    s->raft_logger.name = "raft";
    s->io = options->io;
    entropy_fill(s->io->entropy, &seed, sizeof(seed));
    rng_seed(&s->rng, seed);
    s->map_seed = rng_next(&s->rng);
    struct buf dir = {0};
    buf_printf(&dir, "%s/member/snap", s->config->data_dir);
    s->snap_dir = (char *)mem_alloc(dir.len + 1);
    memcpy(s->snap_dir, dir.at, dir.len);
    buf_free(&dir);
    return s;
}

/* What tools and operators look for first. */
static void say_how_we_start(const struct server *s)
{
    const struct config *c = s->config;

    log_info(s->logger, "starting an etcd server", LOG_STR("etcd-version", SERVER_VERSION),
             LOG_STR("name", c->name), LOG_STR("data-dir", c->data_dir),
             LOG_STR("wal-dir", c->wal_dir), LOG_BOOL("pre-vote", c->pre_vote),
             LOG_NS("heartbeat-interval", (int64_t)(c->heartbeat_ms * NS_PER_MS)),
             LOG_NS("election-timeout", (int64_t)(c->election_ms * NS_PER_MS)),
             LOG_U64("snapshot-count", c->snapshot_count), LOG_U64("max-wals", c->max_wals),
             LOG_U64("max-snapshots", c->max_snapshots),
             LOG_U64("snapshot-catchup-entries", c->snapshot_catchup_entries),
             LOG_STR("initial-cluster", c->initial_cluster),
             LOG_STR("initial-cluster-state", c->joins_existing ? "existing" : "new"),
             LOG_STR("initial-cluster-token", c->initial_cluster_token),
             LOG_I64("quota-backend-bytes", c->quota_backend_bytes),
             LOG_U64("max-request-bytes", c->max_request_bytes),
             LOG_STR("v2-deprecation", "write-only"));
}

static enum err boot(struct boot *b)
{
    struct server *s = b->s;

    say_how_we_start(s);
    enum err e = open_rpc(b);
    if (e == ERR_OK)
        e = find_log(b);
    if (e == ERR_OK && !s->options.memory)
        e = settle_store(b);
    if (e == ERR_OK) /* not before: until here the directory may be etcd's */
        e = make_dirs(b);
    if (e == ERR_OK)
        e = open_own_store(b);
    if (e == ERR_OK)
        e = examine(b);
    if (e != ERR_OK)
        return e;
    open_raft(b);
    open_api(b);
    set_going(b);
    return ERR_OK;
}

enum err server_open(const struct server_options *options, struct buf *why, struct server **out)
{
    struct boot b = {.s = new_server(options), .why = why};
    enum err e = boot(&b);

    cluster_initial_free(&b.initial);
    replay_free(&b.log);
    arena_free(&b.arena);
    if (e != ERR_OK) {
        server_free(b.s, false);
        return e;
    }
    *out = b.s;
    return ERR_OK;
}

void server_close(struct server *s)
{
    if (!s)
        return;
    assert(server_has_stopped(s));
    timer_stop(s->io->clock, &s->tick_timer);
    housekeeping_stop(&s->housekeeping);
    log_info(s->logger, "closed etcd server", LOG_NS("longest-turn", (int64_t)s->longest_turn_ns),
             LOG_NS("longest-turn-cpu", (int64_t)s->longest_busy_ns));
    server_free(s, false);
}

void server_abandon(struct server *s)
{
    if (!s)
        return;
    rpc_abandon(s->rpc); /* first: bodies being sent are the api's */
    api_abandon(s->api);
    s->api = NULL;
    s->rpc = NULL;
    server_free(s, true);
}

/* --- looking --- */

struct server_status server_status(const struct server *s)
{
    struct raft_status raft = raft_status(s->raft);

    return (struct server_status){
        .member_id = s->facts.member_id,
        .cluster_id = s->facts.cluster_id,
        .leader = s->facts.leader,
        .term = raft.hard_state.term,
        .committed = raft.hard_state.commit,
        .applied = s->facts.applied_index,
        .durable_store = backend_durable(s->backend).index,
        .revision = mvcc_revision(s->mvcc),
        .turns = s->turns,
        .longest_turn_ns = s->longest_turn_ns,
        .longest_busy_ns = s->longest_busy_ns,
        .waiting = pending_count(&s->pending),
        .log_pending_bytes = wal_pending_bytes(s->wal),
        .ready = housekeeping_is_published(&s->housekeeping),
    };
}

uint16_t server_client_port(const struct server *s, size_t nth)
{
    return nth < s->listening_count ? s->listening[nth].port : 0;
}

void server_check(const struct server *s)
{
    raft_check(s->raft);
    wal_check(s->wal);
    backend_check(s->backend);
    mvcc_check(s->mvcc);
    lease_check(s->leases);
    cluster_check(s->cluster);
    apply_check(s->apply);
    watch_check(s->watch);
    rpc_check(s->rpc);
    api_check(s->api);
    pending_check(&s->pending);
    storage_work_check(&s->work);
    assert(s->work.applied_index == s->facts.applied_index);
    struct raft_status raft = raft_status(s->raft);
    log_snapshot_check(&s->snapshot);
    housekeeping_check(&s->housekeeping);
    assert(s->snapshot.recorded_index <= backend_durable(s->backend).index);
    assert(backend_durable(s->backend).index <= s->facts.applied_index);
    assert(s->facts.applied_index == raft.applied);
    assert(raft.applied <= raft.hard_state.commit);
}
