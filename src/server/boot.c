/*
 * From a data directory to an open server.
 *
 *     no log         a new cluster: --initial-cluster says who, ids follow from it; first others
 *                    are asked whether they know us already (founding.h). Or one that exists: then
 *                    they are asked for the ids (joining.h), and we begin with nothing.
 *     a log          its metadata says who we are; it is read from a snapshot recorded in it, some
 *                    way before the last, and the store says how much of it is applied already
 *     etcd's store   is imported first (snap/transfer.h), if there is a log to go with it
 *
 * A directory of etcd's is not touched before it is certain that we can serve it: whoever is turned
 * away by us must find it as it was, and start etcd on it. So everything that boot could refuse is
 * gone through in a trial first, by the very code that boots: on a copy of the store, with the log
 * opened as for writing, but only read, and with the entries that the store has not seen applied
 * and then forgotten. It costs a second reading of the store, once in its life. Checks of their
 * own, on etcd's file, would be quicker, and sooner or later miss what boot refuses. The trial is a
 * boot of its own, with a state and tokens of its own: no boot can change the server but by the
 * pointers it was given, and those of a trial point elsewhere.
 *
 * Everything here may block: nobody is served yet.
 */
#include "server/boot.h"

#include "apply/apply.h"
#include "backend/backend.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "io/disk.h"
#include "io/io.h"
#include "mvcc/mvcc.h"
#include "raft/raft.h"
#include "server/founding.h"
#include "server/quota.h"
#include "server/server_int.h"
#include "server/token_keys.h"
#include "snap/transfer.h"
#include "wal/wal.h"

#include <stdlib.h>

enum { DIR_MODE = 0700 };

/* --- whose boot it is --- */

void boot_init(struct boot *b, struct server *s, struct buf *why)
{
    *b = (struct boot){.s = s,
                       .why = why,
                       .rooms = {.state = &s->state,
                                 .wal = &s->wal,
                                 .tokens = s->tokens,
                                 .store = boot_store_options(s),
                                 .on_failed = server_on_failed,
                                 .on_log_failed = s->options.on_failed ? server_on_failed : NULL,
                                 .context = s}};
}

static bool is_trial(const struct boot *b)
{
    return !b->rooms.wal;
}

static void close_rooms(struct boot_rooms *r)
{
    state_close(r->state);
    backend_close(r->state->backend);
    *r->state = (struct state){0};
    if (!r->wal)
        return;
    wal_close(*r->wal);
    *r->wal = NULL;
}

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

static enum err refuse_dir(struct boot *b, enum err e, const char *path)
{
    if (e != ERR_OK)
        buf_printf(b->why, "cannot write to %s: %s", path, err_text(e));
    return e;
}

/* Can files be made in it? The next start removes what a crash leaves of this. */
static enum err touch(struct boot *b, const char *path)
{
    struct disk *disk = b->s->io->disk;
    const char *probe = arena_printf(&b->arena, "%s/.touch", path);
    enum err e = disk_write_file(disk, probe, 0600, (struct bytes){0});

    if (e == ERR_OK)
        e = disk_remove(disk, probe);
    if (e == ERR_NOT_FOUND) /* another one starts here as well; their locks will tell them apart */
        e = ERR_OK;
    return e == ERR_NO_SPACE ? ERR_OK : e; /* it may have all that it needs */
}

/* A directory that cannot be written to is found out now, not at the first write that counts. */
static enum err make_dir(struct boot *b, const char *path)
{
    enum err e = disk_make_dir(b->s->io->disk, path, DIR_MODE, DISK_PARENTS);

    if (e == ERR_OK)
        e = touch(b, path);
    if (e == ERR_OK)
        e = sync_names(b, path);
    return refuse_dir(b, e, path);
}

/* A log that is there needs only its own directory; one that is made is renamed to its name. */
static const char *log_place(struct boot *b)
{
    const char *dir = b->s->config->wal_dir;

    return b->has_log ? dir : parent_of(b, dir);
}

/* As Go prints a mode. */
static void write_mode(unsigned mode, char out[static 16])
{
    static const char letters[] = "rwxrwxrwx";
    size_t at = 0;

    out[at++] = 'd';
    for (unsigned i = 0; i < 3; i++)
        if (mode & (04000U >> i))
            out[at++] = "ugt"[i];
    for (unsigned i = 0; i < 9; i++)
        out[at++] = mode & (0400U >> i) ? letters[i] : '-';
    out[at] = 0;
}

/* In etcd's words. One that is not there yet will have the right mode, and what else can be wrong
 * with it is found out by who makes it. */
static void warn_of_mode(struct boot *b, const char *path)
{
    struct disk_stat stat;
    struct buf text = {0};
    char mode[16];

    if (disk_stat(b->s->io->disk, path, &stat) != ERR_OK || !stat.is_dir ||
        (stat.mode & 0777) == DIR_MODE)
        return;
    write_mode(stat.mode, mode);
    buf_append_str(&text, "directory ");
    text_append_quoted(&text, bytes_of_str(path));
    buf_printf(&text,
               " exist, but the permission is \"%s\". The recommended permission is \"-rwx------\" "
               "to prevent possible unprivileged access to the data",
               mode);
    log_warn(b->s->logger, "check file permission", LOG_STR("error", buf_str(&text)));
    buf_free(&text);
}

static void warn_of_modes(struct boot *b)
{
    if (!b->told_modes) {
        warn_of_mode(b, b->s->config->data_dir);
        warn_of_mode(b, parent_of(b, b->s->snap_dir));
        warn_of_mode(b, b->s->snap_dir);
    }
    b->told_modes = true;
}

static enum err make_dirs(struct boot *b)
{
    warn_of_modes(b);
    enum err e = make_dir(b, b->s->config->data_dir);

    if (e == ERR_OK)
        e = make_dir(b, b->s->snap_dir);
    if (e == ERR_OK)
        e = make_dir(b, log_place(b));
    return e;
}

/* The same for directories that are there, and may have to stay as they are. */
static enum err touch_dirs(struct boot *b)
{
    const char *const dirs[] = {b->s->config->data_dir, b->s->snap_dir, log_place(b)};
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < ARRAY_LEN(dirs); i++)
        e = refuse_dir(b, touch(b, dirs[i]), dirs[i]);
    return e;
}

/* --- the log --- */

static struct wal_options wal_settings(const struct boot *b)
{
    const struct server *s = b->s;

    return (struct wal_options){
        .dir = s->config->wal_dir,
        .logger = s->logger,
        .no_sync = s->config->unsafe_no_fsync,
        .segment_bytes = s->options.segment_bytes,
        .on_failed = b->rooms.on_log_failed,
        .context = b->rooms.context,
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

static struct wal_place place_of(const struct raft_snapshot *s)
{
    return (struct wal_place){.index = s->index, .term = s->term};
}

static void pass_entry(void *context, const struct raft_entry *e)
{
    (void)context;
    (void)e;
}

static void pass_truncation(void *context, uint64_t from)
{
    (void)context;
    (void)from;
}

/* Does the log go on from there without a gap? Its first segments may be gone, and where a snapshot
 * of another member was installed entries are missing, or others than those that count. */
static bool can_begin_at(struct boot *b, struct wal_place place)
{
    static const struct logger silent = {
        .level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none};
    struct wal_options opt = wal_settings(b);
    struct wal_visitor visitor = {.on_entry = pass_entry, .on_truncate = pass_truncation};
    struct wal_found found = {0};

    opt.logger = &silent; /* a gap is nothing for an operator: the log is read from further on */
    return wal_replay(b->s->io->disk, &opt, place, &visitor, &found) == ERR_OK &&
           found.start_found && !found.replaced;
}

/*
 * The last snapshot alone would do for this member. But if it leads it has to give those that are a
 * little behind what they miss, also when it has just been started: so it begins so many entries
 * earlier, if the log has them.
 */
static struct wal_place earlier_start(struct boot *b, const struct wal_snapshots *snapshots)
{
    uint64_t catch_up = b->s->config->snapshot_catchup_entries;
    size_t nth = snapshots->count - 1;

    while (nth > 0 && snapshots->at[nth].index + catch_up > b->snapshot.index)
        nth--;
    struct wal_place place = place_of(&snapshots->at[nth]);
    return place.index < b->snapshot.index && can_begin_at(b, place) ? place : b->snapshot;
}

/* The snapshot that counts is the last one that the log itself calls committed. */
static enum err find_start(struct boot *b)
{
    struct wal_options opt = wal_settings(b);
    struct wal_snapshots snapshots;
    enum err e = wal_snapshots(b->s->io->disk, &opt, &b->arena, &snapshots);

    if (e != ERR_OK)
        buf_printf(b->why, "cannot read the log in %s: %s", opt.dir, err_text(e));
    if (e != ERR_OK || snapshots.count == 0)
        return e;
    b->snapshot = place_of(&snapshots.at[snapshots.count - 1]);
    b->log.snapshot_index = b->snapshot.index;
    b->log.start = earlier_start(b, &snapshots);
    return ERR_OK;
}

static enum err refuse_log(struct boot *b, enum err e)
{
    const struct wal_fault *fault = &b->log.found.fault;
    const char *dir = b->s->config->wal_dir;

    if (e == ERR_BUSY) {
        buf_printf(b->why, "the log in %s is in use by another process", dir);
        return e;
    }
    buf_printf(b->why, "cannot open the log in %s: %s", dir, err_text(e));
    if (fault->what)
        buf_printf(b->why, ": %s at byte %llu of %s", fault->what,
                   (unsigned long long)fault->offset, fault->file);
    else if (fault->file[0] != 0)
        buf_printf(b->why, ": %s", fault->file);
    return e;
}

/* Shows it to the replay. In a trial it stays as it is, a torn end included. */
static enum err open_log(struct boot *b)
{
    struct replay *l = &b->log;
    struct wal_options opt = wal_settings(b);
    struct wal_visitor visitor = replay_visitor(l);

    l->applied = backend_applied(b->rooms.state->backend).index;
    enum err e = is_trial(b)
                     ? wal_rehearse(b->s->io->disk, &opt, l->start, &visitor, &l->found)
                     : wal_open(b->s->io->disk, &opt, l->start, &visitor, &l->found, b->rooms.wal);
    if (e != ERR_OK)
        return refuse_log(b, e);
    b->identity = l->found.metadata;
    return ERR_OK;
}

static enum err find_log(struct boot *b)
{
    enum err e = look_for_log(b);

    return e == ERR_OK && b->has_log ? find_start(b) : e;
}

static enum err create_log(struct boot *b)
{
    struct wal_options opt = wal_settings(b);
    assert(!is_trial(b)); /* which has a log */
    enum err e = wal_create(b->s->io->disk, &opt, &b->identity, b->rooms.wal);

    if (e != ERR_OK)
        buf_printf(b->why, "cannot create a log in %s: %s", opt.dir, err_text(e));
    return e;
}

/* --- the store --- */

static void store_failed(void *context, enum err e, const char *text)
{
    server_fail(context, "the store failed: %s: %s", err_text(e), text);
}

struct backend_options boot_store_options(struct server *s)
{
    return (struct backend_options){
        .disk = s->io->disk,
        .dir = s->store_dir,
        .memory = s->options.memory,
        .workers = s->io->store_worker,
        .on_failure = s->options.on_failed ? store_failed : NULL,
        .context = s,
    };
}

/* A copy that is on trial has nothing beside it. */
static enum err open_store(struct boot *b)
{
    struct backend_options options = b->rooms.store;

    options.why = b->why;
    options.log_index = is_trial(b) ? 0 : b->snapshot.index;
    enum err e = backend_open(&options, &b->rooms.state->backend);
    /* Of a log without a snapshot no image can be the store; it takes space that the next one will
     * need. */
    if (e == ERR_OK && !is_trial(b) && b->snapshot.index == 0)
        e = backend_image_remove(&options);
    return e;
}

/* --- who we are --- */

static enum err parse_initial_cluster(struct boot *b)
{
    const struct config *c = b->s->config;

    cluster_initial_free(&b->initial);
    return cluster_initial_parse(bytes_of_str(c->initial_cluster),
                                 bytes_of_str(c->initial_cluster_token), b->why, &b->initial)
               ? ERR_OK
               : ERR_MALFORMED;
}

/* With ids that follow from the flags, or were found out by their means. */
void boot_identify(struct boot *b)
{
    struct bytes name = bytes_of_str(b->s->config->name);

    b->identity = (struct pb_wal_metadata){.node_id = cluster_initial_find(&b->initial, name)->id,
                                           .cluster_id = b->initial.cluster_id};
}

/* What takes time to be verified is left to founding.h. */
static enum err read_initial_cluster(struct boot *b)
{
    const struct config *c = b->s->config;
    struct bytes name = bytes_of_str(c->name);
    enum err e = parse_initial_cluster(b);

    if (e != ERR_OK)
        return e;
    b->joins = c->joins_existing;
    bool is_later =
        cluster_initial_find(&b->initial, name) && founding_is_needed(&b->initial, c) && !b->joins;
    if (!is_later && !cluster_initial_verify(&b->initial, name, c->advertise_peers, NULL,
                                             c->joins_existing, b->why))
        return ERR_MALFORMED;
    if (!b->joins)
        boot_identify(b);
    return ERR_OK;
}

static bool describes(const struct cluster_initial *initial, const struct pb_wal_metadata *who)
{
    bool is_member = false;

    for (size_t i = 0; i < initial->count; i++)
        is_member = is_member || initial->members[i].id == who->node_id;
    return is_member && initial->cluster_id == who->cluster_id;
}

/*
 * The log was made by a boot that was cut short: the cluster has not begun here. Unless it is the
 * log of somebody who was to join one, and crashed before he had heard much of it. He must not
 * found another one, whatever the flags say by now: ids of later members are made of the time as
 * well, so his own is none that follows from --initial-cluster. The others know where he is, and
 * will tell him the rest; but a founder whose flags have changed would wait for them for ever.
 */
static enum err begin_again(struct boot *b)
{
    enum err e = parse_initial_cluster(b);

    if (e != ERR_OK || describes(&b->initial, &b->identity))
        return e;
    b->founds = false;
    if (b->s->config->joins_existing)
        return ERR_OK;
    buf_printf(b->why,
               "the log in %s has not begun, and is of member %llx of cluster %llx, which "
               "--initial-cluster does not describe",
               b->s->config->wal_dir, (unsigned long long)b->identity.node_id,
               (unsigned long long)b->identity.cluster_id);
    return ERR_MALFORMED;
}

static enum err identify(struct boot *b)
{
    uint64_t applied = backend_applied(b->rooms.state->backend).index;
    enum err e = b->has_log ? open_log(b) : ERR_OK; /* without one it was by the flags */

    if (e != ERR_OK)
        return e;
    b->founds = b->has_log ? replay_is_founding(&b->log) : !b->joins;
    if (!b->has_log && applied > 0) {
        buf_printf(b->why,
                   "the store has applied entries up to %llu, but there is no log of them in %s",
                   (unsigned long long)applied, b->s->config->wal_dir);
        return ERR_CORRUPT;
    }
    if (!b->has_log)
        return create_log(b);
    return b->founds ? begin_again(b) : ERR_OK;
}

/* --- the rooms --- */

static enum err open_state(struct boot *b)
{
    const struct server *s = b->s;

    struct state_options options = {.logger = s->logger,
                                    .tokens = b->rooms.tokens,
                                    .cluster_id = b->identity.cluster_id,
                                    .member_id = b->identity.node_id,
                                    .election_ms = s->config->election_ms,
                                    .map_seed = s->map_seed,
                                    .max_learners = (unsigned)s->config->max_learners,
                                    .quota_bytes = s->config->quota_backend_bytes,
                                    .range_tombstone_keys_min = s->options.range_tombstone_keys_min,
                                    .lease_checkpoint = gates_lease_checkpoint(s->config->gates),
                                    .lease_checkpoint_persist =
                                        gates_lease_checkpoint_persist(s->config->gates),
                                    .on_failed = b->rooms.on_failed,
                                    .context = b->rooms.context};

    if (!is_trial(b))
        quota_say(s->logger, s->config->quota_backend_bytes);
    return state_open(b->rooms.state, &options, b->why);
}

static enum err refuse_removed(struct boot *b)
{
    buf_printf(b->why,
               "the member has been permanently removed from the cluster (member %llx, whose "
               "log this is); the data-dir used by this member must be removed",
               (unsigned long long)b->identity.node_id);
    return ERR_UNSUPPORTED;
}

/*
 * The voters and learners are the store's members, as in etcd, and not what it has under confState:
 * `etcdutl snapshot restore` gives a backup new members and leaves the old ones' ids there. Whoever
 * believed it would wait for the votes of members that are no more. A store that was committed
 * between two founders' entries does not know all of them; the rest is in the log. So it is with
 * one who has joined, and has not come to the entry that adds him.
 */
static enum err read_members(struct boot *b)
{
    const struct cluster *members = b->rooms.state->cluster;

    cluster_conf_state(members, &b->conf_state);
    return cluster_is_removed(members, b->identity.node_id) ? refuse_removed(b) : ERR_OK;
}

/* --- a new cluster by force --- */

static void add_id(struct raft_ids *ids, uint64_t id)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->at[i] == id)
            return;
    if (id != RAFT_NONE && ids->count < ARRAY_LEN(ids->at))
        ids->at[ids->count++] = id;
}

static void remove_id(struct raft_ids *ids, uint64_t id)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->at[i] == id)
            ids->at[i--] = ids->at[--ids->count];
}

static void follow_change(struct raft_ids *ids, const struct raft_entry *e)
{
    struct raft_conf_change_v2 change;

    if (!raft_entry_conf_change(e, &change))
        return;
    for (size_t i = 0; i < change.change_count; i++) {
        enum raft_conf_change_type type = change.changes[i].type;
        if (type == RAFT_REMOVE_NODE)
            remove_id(ids, change.changes[i].node_id);
        else if (type != RAFT_UPDATE_NODE)
            add_id(ids, change.changes[i].node_id);
    }
}

static bool removes(const struct raft_entry *e, uint64_t id)
{
    struct raft_conf_change_v2 change;
    bool does = false;

    if (!raft_entry_conf_change(e, &change))
        return false;
    for (size_t i = 0; i < change.change_count; i++)
        does =
            does || (change.changes[i].type == RAFT_REMOVE_NODE && change.changes[i].node_id == id);
    return does;
}

/* The first of what the store has not seen that removes this member; 0: nothing does. */
static uint64_t own_removal(const struct boot *b)
{
    const struct replay *l = &b->log;

    for (size_t i = 0; i < l->count; i++)
        if (l->entries[i].index > l->applied && removes(&l->entries[i], b->identity.node_id))
            return l->entries[i].index;
    return 0;
}

/*
 * Nobody can be added again who was removed, so a member whose own removal is taken for committed
 * would be lost for good. As long as it is not known as committed the operator overrules it, and
 * what is behind it goes as well: a log has no gaps.
 */
static enum err overrule_own_removal(struct boot *b)
{
    uint64_t index = own_removal(b), committed = replay_committed(&b->log);

    if (index == 0)
        return ERR_OK;
    if (index <= committed)
        return refuse_removed(b);
    log_info(b->s->logger, "discarding uncommitted WAL entries", LOG_U64("entry-index", index),
             LOG_U64("commit-index-from-wal", committed),
             LOG_U64("number-of-discarded-entries", b->log.found.last_index - index + 1));
    replay_drop_from(&b->log, index);
    return ERR_OK;
}

static bool is_promotion(struct bytes context)
{
    struct arena arena = {0};
    struct member_change read;
    bool is = member_json_read(context, &arena, &read) == ERR_OK && read.is_promote;

    arena_free(&arena);
    return is;
}

/* As it will be applied: whoever is a member is not added again, but may be promoted. */
static void follow_own_vote(uint64_t self, const struct raft_entry *e, bool *is_member,
                            bool *is_learner)
{
    struct raft_conf_change_v2 change;

    if (!raft_entry_conf_change(e, &change))
        return;
    for (size_t i = 0; i < change.change_count; i++) {
        enum raft_conf_change_type type = change.changes[i].type;
        bool adds = type == RAFT_ADD_NODE || type == RAFT_ADD_LEARNER_NODE;
        if (!adds || change.changes[i].node_id != self)
            continue;
        if (!*is_member)
            *is_learner = type == RAFT_ADD_LEARNER_NODE;
        else if (is_promotion(change.context))
            *is_learner = false;
        *is_member = true;
    }
}

/* Is this member a learner when all that the log has is applied? */
static bool stays_learner(const struct boot *b)
{
    const struct replay *l = &b->log;
    uint64_t self = b->identity.node_id;
    const struct cluster *members = b->rooms.state->cluster;
    bool is_member = cluster_own(members) != NULL;
    bool is_learner = cluster_is_own_learner(members);

    for (size_t i = 0; i < l->count; i++)
        if (l->entries[i].index > l->applied)
            follow_own_vote(self, &l->entries[i], &is_member, &is_learner);
    return is_learner;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/*
 * Who is a member when all that the log has is applied: by the store, and the entries that it has
 * not seen. What is not known as committed is taken for it, up to the removal of this very member.
 * etcd drops it; but the commit index on disk is behind what was acknowledged, and whoever was not
 * told of a write may find it done.
 */
static enum err plan_new_cluster(struct boot *b)
{
    struct raft_ids *ids = &b->others;
    const struct raft_conf_state *c = &b->conf_state;

    if (!b->s->config->force_new_cluster || !b->has_log || b->founds)
        return ERR_OK;
    enum err e = overrule_own_removal(b);
    if (e != ERR_OK)
        return e;
    if (stays_learner(b)) {
        buf_append_str(b->why, "this member is a learner, and cannot be a cluster by itself "
                               "(--force-new-cluster)");
        return ERR_UNSUPPORTED;
    }
    b->log.found.state.commit = b->log.found.last_index;
    for (size_t i = 0; i < c->voters.count; i++)
        add_id(ids, c->voters.at[i]);
    for (size_t i = 0; i < c->learners.count; i++)
        add_id(ids, c->learners.at[i]);
    for (size_t i = 0; i < b->log.count; i++)
        if (b->log.entries[i].index > b->log.applied)
            follow_change(ids, &b->log.entries[i]);
    size_t count = ids->count;
    remove_id(ids, b->identity.node_id);
    b->must_add_self = ids->count == count;
    qsort(ids->at, ids->count, sizeof(ids->at[0]), compare_ids);
    log_info(b->s->logger, "forcing restart member", LOG_ID("cluster-id", b->identity.cluster_id),
             LOG_ID("local-member-id", b->identity.node_id),
             LOG_U64("commit-index", b->log.found.state.commit));
    return ERR_OK;
}

/* Itself first: a configuration without voters is none. */
static void force_new_cluster(struct boot *b)
{
    struct raft_conf_change changes[RAFT_MEMBERS_MAX + 1];
    struct bytes url[] = {BYTES("http://localhost:2380")};
    struct pb_member self = {.id = b->identity.node_id};
    struct buf context = {0};
    size_t count = 0;

    self.peer_urls.at = url;
    self.peer_urls.count = 1;
    member_json_write(&self, &context);
    if (b->must_add_self)
        changes[count++] = (struct raft_conf_change){
            .type = RAFT_ADD_NODE, .node_id = self.id, .context = buf_bytes(&context)};
    for (size_t i = 0; i < b->others.count; i++)
        changes[count++] =
            (struct raft_conf_change){.type = RAFT_REMOVE_NODE, .node_id = b->others.at[i]};
    raft_force_conf_changes(b->s->raft, changes, count);
    buf_free(&context);
}

/* --- raft --- */

/* That an entry was told of as written before: many times a second where the log writes while the
 * next are appended, and of use to nobody who runs this. */
static bool is_of_writing(const char *text)
{
    return bytes_starts_with(bytes_of_str(text), BYTES("entry at index "));
}

static void raft_says(void *context, enum raft_log_level level, const char *text)
{
    static const enum log_level levels[] = {[RAFT_LOG_DEBUG] = LOG_DEBUG,
                                            [RAFT_LOG_INFO] = LOG_INFO,
                                            [RAFT_LOG_WARN] = LOG_WARN,
                                            [RAFT_LOG_ERROR] = LOG_ERROR};
    struct server *s = context;
    enum log_level shown = is_of_writing(text) ? LOG_DEBUG : levels[level];
    bool is_due = shown == LOG_DEBUG ? s->raft_logger.level == LOG_DEBUG /* asked for, so all */
                                     : log_takes(&s->raft_logger, shown, "raft/raft.c");

    if (is_due)
        log_write(&s->raft_logger, shown, "raft/raft.c", text, NULL, 0);
}

/* Without the log of raft's own, which is the server's. */
static struct raft_config raft_settings(const struct boot *b)
{
    const struct server *s = b->s;

    return (struct raft_config){
        .id = b->identity.node_id,
        .election_ticks = (unsigned)(s->config->election_ms / s->config->heartbeat_ms),
        .heartbeat_ticks = 1,
        .rng = s->rng,
        .max_message_bytes = RAFT_MESSAGE_BYTES_MAX,
        .max_inflight_messages = RAFT_INFLIGHT_MESSAGES_MAX,
        .max_inflight_bytes = RAFT_INFLIGHT_BYTES_MAX,
        .max_resident_entries = RAFT_RESIDENT_ENTRIES_MAX,
        .max_resident_bytes = RAFT_RESIDENT_BYTES_MAX,
        .async_storage_writes = true,
        .check_quorum = true,
        .pre_vote = s->config->pre_vote,
        .log_level = s->logger->level == LOG_DEBUG ? RAFT_LOG_DEBUG : RAFT_LOG_INFO,
    };
}

/* All founders do this, each for itself, and come to the same entries. */
static void found(struct boot *b)
{
    struct raft_founder founders[CLUSTER_MEMBERS_MAX];
    struct raft_conf_change change;
    struct buf data[CLUSTER_MEMBERS_MAX] = {0};

    for (size_t i = 0; i < b->initial.count; i++) {
        cluster_initial_entry(&b->initial, i, &data[i]);
        bool ok = raft_conf_change_decode(buf_bytes(&data[i]), &change);
        assert(ok);
        founders[i] = (struct raft_founder){.id = change.node_id, .context = change.context};
    }
    raft_bootstrap(b->s->raft, founders, b->initial.count);
    for (size_t i = 0; i < b->initial.count; i++)
        buf_free(&data[i]);
}

static enum err check_raft(struct boot *b)
{
    struct raft_config config = raft_settings(b);
    const char *problem = raft_config_problem(&config);

    if (problem) {
        buf_append_str(b->why, problem);
        return ERR_MALFORMED;
    }
    return replay_verify(&b->log, b->s->config->wal_dir, b->why);
}

/*
 * Raft may begin with more than the log says: with the commit index that the store stands for, with
 * the term of the last entry. It takes that for written, so it has to be: a snapshot of the log is
 * recorded behind it, and counts only if a commit index in the log covers it (wal_snapshots).
 */
static void write_hard_state(struct boot *b)
{
    struct raft_hard_state now = raft_status(b->s->raft).hard_state, found = b->log.found.state;

    if (now.term != found.term || now.commit != found.commit)
        wal_append(b->s->wal, &(struct wal_save){.state = now});
}

void boot_raft(struct boot *b, struct server *s)
{
    struct raft_config config = raft_settings(b);
    struct raft_boot memory = {0};

    assert(b->s == s);
    config.log = raft_says;
    config.log_context = s;
    if (!b->founds)
        replay_remember(&b->log, &b->conf_state, &memory);
    s->raft = raft_open(&config, &memory);
    if (!b->founds)
        write_hard_state(b);
    if (b->founds)
        found(b);
    else if (b->others.count > 0 || b->must_add_self)
        force_new_cluster(b);
}

/* --- all that could be refused --- */

/* As by etcd: the operator may have lowered it, or have forgotten to say it again. */
static enum err check_learners(struct boot *b)
{
    if (b->conf_state.learners.count <= b->s->config->max_learners)
        return ERR_OK;
    buf_append_str(b->why, cluster_result_text(CLUSTER_TOO_MANY_LEARNERS));
    return ERR_UNSUPPORTED;
}

/* The store is open. What is left to do after this has nothing more to say about its content. */
static enum err examine(struct boot *b)
{
    enum err e = identify(b);

    if (e == ERR_OK)
        e = open_state(b);
    if (e == ERR_OK)
        e = read_members(b);
    if (e == ERR_OK)
        e = check_learners(b);
    if (e == ERR_OK)
        e = check_raft(b);
    if (e == ERR_OK)
        e = plan_new_cluster(b);
    return e;
}

/* --- etcd's directory --- */

/* A boot beside the server's, and all that it opens. */
struct trial {
    struct boot boot;
    struct state state;
    struct auth_tokens *tokens;
    bool failed;
};

/* The first reason is the one to tell: later ones follow from it. */
static void trial_failed(void *context, const char *text)
{
    struct trial *t = context;
    struct buf *why = t->boot.why;

    if (!t->failed)
        buf_printf(why, "%s%s", why->len > 0 ? "; " : "", text);
    t->failed = true;
}

static enum err try_entry(struct trial *t, const struct raft_entry *entry)
{
    struct apply *apply = t->state.apply;

    apply_begin(apply, entry, server_now_ms(t->boot.s));
    while (!t->failed && !apply_some(apply, MVCC_SLICE_STEPS))
        continue;
    if (t->failed)
        return ERR_UNSUPPORTED;
    bool changes_members = apply_effects(apply)->is_conf_change;
    apply_end(apply, (struct bytes){0});
    return changes_members ? read_members(&t->boot) : ERR_OK;
}

static uint64_t last_to_try(const struct boot *b)
{
    const struct raft_conf_state *c = &b->conf_state;

    return c->voters.count <= 1 ? UINT64_MAX : b->log.found.state.commit;
}

/*
 * What the store has not seen yet, as far as it is committed; a lone voter commits all that its log
 * has. None of it reaches the disk: the store has no worker that could commit a batch. The memory
 * it takes is that of the entries once more, which the replay holds anyway.
 */
static enum err try_entries(struct trial *t)
{
    const struct replay *l = &t->boot.log;
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < l->count; i++)
        if (l->entries[i].index > l->applied && l->entries[i].index <= last_to_try(&t->boot))
            e = try_entry(t, &l->entries[i]);
    return e;
}

static void trial_init(struct trial *t, const struct boot *b, const char *dir)
{
    *t = (struct trial){0};
    t->boot = (struct boot){.s = b->s, .why = b->why, .has_log = b->has_log};
    t->boot.snapshot = b->snapshot;
    t->boot.log = (struct replay){.start = b->log.start, .snapshot_index = b->log.snapshot_index};
    t->boot.rooms = (struct boot_rooms){.state = &t->state,
                                        .store = {.disk = b->s->io->disk, .dir = dir},
                                        .on_failed = trial_failed,
                                        .context = t};
}

static void trial_free(struct trial *t)
{
    close_rooms(&t->boot.rooms);
    auth_tokens_close(t->tokens);
    boot_free(&t->boot);
}

/* The same as boot_disk, but on the copy; nothing is left of it but *why. */
static enum err try_copy(const struct boot *b, const char *dir)
{
    const struct server *s = b->s;
    struct trial t;

    trial_init(&t, b, dir);
    enum err e = token_keys_open(s->config, s->io->disk, s->map_seed, b->why, &t.tokens);
    t.boot.rooms.tokens = t.tokens;
    if (e == ERR_OK)
        e = open_store(&t.boot);
    if (e == ERR_OK)
        e = examine(&t.boot);
    if (e == ERR_OK)
        e = try_entries(&t);
    trial_free(&t);
    return e;
}

/* Directories are tried first: to copy a large store takes minutes. */
static enum err take_over(struct boot *b, const struct snap_place *place)
{
    struct snap_import *import;
    struct snap_copied copied;
    enum err e = touch_dirs(b);

    if (e == ERR_OK)
        e = snap_import_copy(b->s->io->disk, place, &import, &copied);
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
        .data_dir = b->s->config->data_dir, .wal_index = b->snapshot.index, .why = b->why};
    struct snap_truth truth;
    enum err e = snap_truth(b->s->io->disk, &place, &truth);

    if (e != ERR_OK || truth.holds != SNAP_HOLDS_DB)
        return e;
    if (b->has_log) {
        e = take_over(b, &place);
        b->may_wait = e == ERR_OK; /* it is a matter of minutes, and of a decision */
        return e;
    }
    buf_printf(b->why, "%s has a store of etcd's, but there is no log in %s that goes with it",
               b->s->config->data_dir, b->s->config->wal_dir);
    return ERR_CORRUPT;
}

/* --- all of it --- */

enum err boot_look(struct boot *b)
{
    enum err e = find_log(b);

    return e == ERR_OK && !b->has_log ? read_initial_cluster(b) : e;
}

enum err boot_disk(struct boot *b)
{
    b->may_wait = !b->joins; /* who joins would have to ask the others again */

    /* It may write already: a store that was left in the midst of an entry is put right when it is
     * opened, if only to be looked at. */
    enum err e = b->s->options.memory ? ERR_OK : settle_store(b);
    if (e == ERR_OK) /* not before: until here the directory may be etcd's */
        e = make_dirs(b);
    if (e == ERR_OK)
        e = open_store(b);
    if (e == ERR_OK)
        e = examine(b);
    return e;
}

void boot_undo(struct boot *b)
{
    struct boot fresh = {.s = b->s, .rooms = b->rooms, .why = b->why};

    fresh.told_no_sync = b->told_no_sync;
    fresh.told_modes = b->told_modes;

    close_rooms(&b->rooms);
    boot_free(b);
    *b = fresh;
}

void boot_free(struct boot *b)
{
    cluster_initial_free(&b->initial);
    replay_free(&b->log);
    arena_free(&b->arena);
}

void boot_check(const struct boot *b)
{
    assert(b->identity.node_id != 0);
    assert(b->identity.cluster_id != 0);
    replay_check(&b->log);
    /* A cluster is founded where none has begun: nothing but its first entries is in the log, and
     * nothing in the store. */
    assert(!b->founds || b->initial.count > 0);
    assert(!b->founds || !b->has_log || replay_is_founding(&b->log));
    assert(!b->founds || b->log.applied == 0);
    assert(b->has_log || b->founds || b->joins);
    /* What the store has applied is what raft begins with. */
    assert(raft_status(b->s->raft).applied == b->log.applied);
}
