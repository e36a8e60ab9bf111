/* `cleatutl snapshot restore FILE`: a data directory of a new cluster that begins with a backup. */
#include "base/assert.h"
#include "base/mem.h"
#include "cli/utl/etcdutl.h"
#include "cli/utl/rewrite.h"
#include "cluster/cluster.h"
#include "cluster/member_json.h"
#include "io/disk.h"
#include "io/io.h"
#include "io/loop.h"
#include "snap/snapfile.h"
#include "wal/wal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { REVISION_BYTES = 17 };

struct restore {
    const struct utl_restore *o;
    struct loop *loop;
    struct disk *disk;
    const struct logger *logger;
    struct arena arena;
    struct cluster_initial initial;
    const struct pb_member *self;
    struct etcd_file from;
    int64_t revision; /* the newest */
    struct rewrite_entry entries[CLUSTER_MEMBERS_MAX + 8];
    size_t entry_count;
};

/* ---- Before anything is touched ---- */

static size_t preamble_len(const char *why)
{
    static const char said[] = "error setting up initial cluster: ";

    return strncmp(why, said, sizeof(said) - 1) == 0 ? sizeof(said) - 1 : 0;
}

static bool check_cluster(struct restore *r)
{
    struct buf why = {0};
    struct url_list urls;
    bool is_good =
        url_list_parse(bytes_of_str(r->o->peer_urls), &r->arena, &why, &urls) &&
        cluster_initial_parse(bytes_of_str(r->o->initial_cluster), bytes_of_str(r->o->token), &why,
                              &r->initial) &&
        cluster_initial_verify(&r->initial, bytes_of_str(r->o->name), urls, NULL, false, &why);

    if (is_good && r->initial.count > CLUSTER_MEMBERS_MAX) {
        buf_printf(&why, "more than %d members", CLUSTER_MEMBERS_MAX);
        is_good = false;
    }
    if (is_good)
        r->self = cluster_initial_find(&r->initial, bytes_of_str(r->o->name));
    else /* a server says what it was doing, etcdutl does not */
        utl_fail(UTL_ERROR, "%s", buf_str(&why) + preamble_len(buf_str(&why)));
    buf_free(&why);
    return is_good;
}

/* The data directory may be there, if it is empty; the log's may not. */
static bool check_places(struct restore *r)
{
    struct buf names = {0};
    struct disk_stat stat;
    enum err e = disk_list(r->disk, r->o->data_dir, MIB, &names);
    bool is_free = e == ERR_NOT_FOUND || (e == ERR_OK && names.len == 0);

    buf_free(&names);
    if (!is_free) {
        utl_fail(UTL_ERROR, "data-dir \"%s\" not empty or could not be read", r->o->data_dir);
        return false;
    }
    if (disk_stat(r->disk, r->o->wal_dir, &stat) != ERR_NOT_FOUND) {
        utl_fail(UTL_ERROR, "wal-dir \"%s\" exists", r->o->wal_dir);
        return false;
    }
    return true;
}

/* A backup ends with a digest of itself. */
static bool check_digest(struct restore *r)
{
    struct bolt_file whole;
    struct bolt_fault fault = {0};
    enum err e = bolt_file_init(&whole, r->disk, r->from.file);

    if (e == ERR_OK && !r->o->skip_hash_check) {
        e = bolt_check_digest(&whole.source, &fault);
        if (e == ERR_NOT_FOUND) {
            utl_fail(UTL_ERROR, "snapshot missing hash but --skip-hash-check=false");
            return false;
        }
    }
    if (e == ERR_OK)
        return true;
    r->from.fault = fault;
    return etcd_file_fail(&r->from, e);
}

static void find_newest(void *context, const struct etcd_revision *revision)
{
    ((struct restore *)context)->revision = revision->main;
}

static bool check_backup(struct restore *r)
{
    if (!etcd_file_open(&r->from, r->disk, r->o->path) || !check_digest(r))
        return false;
    enum err e = bolt_check(r->from.bolt);
    return e == ERR_OK ? etcd_file_walk(&r->from, find_newest, r) : etcd_file_fail(&r->from, e);
}

/* Half of all numbers are left to count on with: a member does not start behind them. */
static bool check_bump(struct restore *r)
{
    int64_t last = INT64_MAX / 2;

    if (r->o->bump_revision == 0)
        return true;
    if (r->revision >= 0 && r->revision <= last &&
        r->o->bump_revision <= (uint64_t)(last - r->revision))
        return true;
    utl_fail(UTL_BAD_ARGUMENTS, "--bump-revision goes beyond the last revision there can be");
    return false;
}

/* ---- What is different ---- */

/* They come in order of bucket and key. */
static void lay(struct restore *r, const char *bucket, struct bytes key, struct bytes value)
{
    assert(r->entry_count < ARRAY_LEN(r->entries));
    r->entries[r->entry_count++] = (struct rewrite_entry){
        .bucket = bucket, .key = arena_copy(&r->arena, key), .value = arena_copy(&r->arena, value)};
}

static struct bytes be64(uint8_t out[8], uint64_t number)
{
    for (int i = 7; i >= 0; i--, number >>= 8)
        out[i] = (uint8_t)number;
    return bytes_of(out, 8);
}

static struct bytes revision_key(uint8_t out[REVISION_BYTES], int64_t revision)
{
    memset(out, 0, REVISION_BYTES);
    be64(out, (uint64_t)revision);
    out[8] = '_';
    return bytes_of(out, REVISION_BYTES);
}

static int by_key(const void *a, const void *b)
{
    return bytes_compare(((const struct rewrite_entry *)a)->key,
                         ((const struct rewrite_entry *)b)->key);
}

static void lay_members(struct restore *r)
{
    size_t first = r->entry_count;

    for (size_t i = 0; i < r->initial.count; i++) {
        struct buf json = {0};
        char key[20];
        snprintf(key, sizeof(key), "%" PRIx64, r->initial.members[i].id);
        member_json_write(&r->initial.members[i], &json);
        lay(r, "members", bytes_of_str(key), buf_bytes(&json));
        buf_free(&json);
    }
    /* Numbers of fewer digits are in another order than their ids. */
    qsort(&r->entries[first], r->initial.count, sizeof(r->entries[0]), by_key);
}

/* Clients that were further than the backup is must not see revisions twice: the next one comes
 * after all of them, and everything before counts as compacted. */
static void lay_bump(struct restore *r)
{
    uint8_t key[REVISION_BYTES];

    if (r->o->bump_revision == 0)
        return;
    int64_t bumped = r->revision + (int64_t)r->o->bump_revision;
    log_info(r->logger, "bumping latest revision", LOG_I64("latest-revision", r->revision),
             LOG_U64("bump-amount", r->o->bump_revision), LOG_I64("new-latest-revision", bumped));
    lay(r, "key", revision_key(key, bumped), (struct bytes){0});
    r->revision = bumped;
}

static void lay_meta(struct restore *r)
{
    uint8_t number[8], key[REVISION_BYTES];

    lay(r, "meta", BYTES("consistent_index"), be64(number, r->initial.count));
    if (r->o->mark_compacted) {
        log_info(r->logger, "marking revision compacted", LOG_I64("revision", r->revision));
        lay(r, "meta", BYTES("scheduledCompactRev"), revision_key(key, r->revision));
    }
    lay(r, "meta", BYTES("term"), be64(number, 1));
}

/* ---- Writing ---- */

static bool make_dirs(struct restore *r, const char *snap_dir)
{
    enum err e = disk_make_dir(r->disk, snap_dir, 0700, DISK_PARENTS);

    if (e != ERR_OK)
        utl_fail(UTL_ERROR, "mkdir %s: %s", snap_dir, err_text(e));
    return e == ERR_OK;
}

static bool write_db(struct restore *r, const char *snap_dir)
{
    static const char *const emptied[] = {"members", "members_removed", NULL};

    lay_bump(r);
    lay_members(r);
    lay_meta(r);
    struct rewrite rewrite = {
        .from = &r->from, .entries = r->entries, .count = r->entry_count, .emptied = emptied};
    return rewrite_run(&rewrite, arena_printf(&r->arena, "%s/db", snap_dir));
}

static void turn(void *context)
{
    inbox_drain(loop_io(((struct restore *)context)->loop)->inbox, 100);
}

static void settle(struct restore *r, struct wal *w)
{
    while (!wal_is_idle(w))
        loop_run_once(r->loop, turn, r);
}

/* Where the log begins: all members are there, and nothing else has happened. */
static struct raft_snapshot first_snapshot(struct restore *r, struct buf *dump)
{
    struct raft_snapshot s = {.index = r->initial.count, .term = 1};

    snapfile_dump(&(struct snapfile_membership){.members = r->initial.members,
                                                .member_count = r->initial.count},
                  dump);
    s.conf_state.voters.count = r->initial.count;
    for (size_t i = 0; i < r->initial.count; i++)
        s.conf_state.voters.at[i] = r->initial.members[i].id;
    s.data = buf_bytes(dump);
    return s;
}

static void append_members(struct restore *r, struct wal *w)
{
    struct raft_entry *entries = arena_new_array(&r->arena, r->initial.count, struct raft_entry);

    for (size_t i = 0; i < r->initial.count; i++) {
        struct buf data = {0};
        cluster_initial_entry(&r->initial, i, &data);
        entries[i] = (struct raft_entry){.index = i + 1,
                                         .term = 1,
                                         .type = RAFT_ENTRY_CONF_CHANGE,
                                         .data = arena_copy(&r->arena, buf_bytes(&data))};
        buf_free(&data);
    }
    wal_append(
        w, &(struct wal_save){
               .entries = entries,
               .entry_count = r->initial.count,
               .state = {.term = 1, .vote = r->initial.members[0].id, .commit = r->initial.count}});
    settle(r, w);
}

/* All names that were made, from the innermost out. */
static enum err sync_dirs(struct restore *r, const char *snap_dir)
{
    enum err e = disk_sync_dir(r->disk, snap_dir);

    if (e == ERR_OK)
        e = disk_sync_dir(r->disk, arena_printf(&r->arena, "%s/member", r->o->data_dir));
    return e == ERR_OK ? disk_sync_dir(r->disk, r->o->data_dir) : e;
}

/* The snapshot's file is there before the log speaks of it. */
static bool write_log(struct restore *r, const char *snap_dir)
{
    struct wal_options options = {.dir = r->o->wal_dir, .logger = r->logger};
    struct pb_wal_metadata identity = {.node_id = r->self->id, .cluster_id = r->initial.cluster_id};
    struct buf dump = {0};
    struct raft_snapshot snapshot = first_snapshot(r, &dump);
    struct wal *w = NULL;
    enum err e = wal_create(r->disk, &options, &identity, &w);

    if (e == ERR_OK) {
        settle(r, w);
        append_members(r, w);
        e = snapfile_save(r->disk, snap_dir, &snapshot);
    }
    if (e == ERR_OK) {
        wal_append_snapshot(w, &snapshot);
        wal_sync(w);
        settle(r, w);
        e = sync_dirs(r, snap_dir);
    }
    if (w) {
        settle(r, w);
        wal_close(w);
    }
    buf_free(&dump);
    if (e != ERR_OK)
        utl_fail(UTL_ERROR, "%s: %s", r->o->wal_dir, err_text(e));
    return e == ERR_OK;
}

static void say_members(struct restore *r)
{
    for (size_t i = 0; i < r->initial.count; i++) {
        struct buf urls = {0};
        const struct pb_member *m = &r->initial.members[i];
        url_list_join((struct url_list){m->peer_urls.at, m->peer_urls.count}, &urls);
        log_info(r->logger, "added member", LOG_ID("cluster-id", r->initial.cluster_id),
                 LOG_ID("local-member-id", 0), LOG_ID("added-peer-id", m->id),
                 LOG_BYTES("added-peer-peer-urls", buf_bytes(&urls)),
                 LOG_BOOL("added-peer-is-learner", false));
        buf_free(&urls);
    }
}

static void say(struct restore *r, const char *message, const char *snap_dir)
{
    log_info(r->logger, message, LOG_STR("path", r->o->path), LOG_STR("wal-dir", r->o->wal_dir),
             LOG_STR("data-dir", r->o->data_dir), LOG_STR("snap-dir", snap_dir));
}

static bool restore(struct restore *r)
{
    const char *snap_dir = arena_printf(&r->arena, "%s/member/snap", r->o->data_dir);

    if (!check_cluster(r) || !check_places(r))
        return false;
    say(r, "restoring snapshot", snap_dir);
    if (!check_backup(r) || !check_bump(r) || !make_dirs(r, snap_dir) || !write_db(r, snap_dir))
        return false;
    say_members(r);
    if (!write_log(r, snap_dir))
        return false;
    say(r, "restored snapshot", snap_dir);
    return true;
}

int utl_snapshot_restore(struct loop *loop, const struct utl_restore *options,
                         const struct logger *logger)
{
    struct restore r = {.o = options, .loop = loop, .disk = loop_io(loop)->disk, .logger = logger};
    bool is_good = restore(&r);

    etcd_file_close(&r.from);
    cluster_initial_free(&r.initial);
    arena_free(&r.arena);
    return is_good ? UTL_OK : UTL_ERROR;
}
