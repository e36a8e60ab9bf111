/*
 * The same files under real etcd 3.7.1 (make peers): it writes and we read, we write and it reads,
 * and a torn log is repaired to the same place by both.
 */
#include "harness/peer_test.h"
#include "harness/test.h"
#include "io/loop.h"
#include "wal/wal_int.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- running etcd --- */

struct etcd {
    struct peer peer;
    const char *wal_dir;
};

static void etcd_prepare(struct etcd *e)
{
    char dir[256];

    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    peer_open(&e->peer, dir);
    e->wal_dir = arena_printf(&e->peer.arena, "%s/member/wal", dir);
}

static void etcd_start(struct etcd *e)
{
    peer_start(&e->peer, "--snapshot-count 10");
}

static void put(struct etcd *e, const char *key, const char *value)
{
    CHECK_STR(PEER_CTL(&e->peer, "put -- '%s' '%s'", key, value), "OK");
}

static void check_get(struct etcd *e, const char *key, const char *want)
{
    const char *got = PEER_CTL(&e->peer, "get --print-value-only -- '%s'", key);

    CHECK_STR(got, want ? want : "");
}

/* --- our side --- */

struct ours {
    struct loop *loop;
    struct disk *disk;
    struct logger logger;
    struct wal_options opt;
    struct wal *wal;
    struct wal_place start;
    struct wal_found found;
    struct raft_entry entries[256]; /* behind start, each with a blob of its own */
    size_t count;
};

static void see_entry(void *context, const struct raft_entry *e)
{
    struct ours *o = context;

    CHECK(o->count < ARRAY_LEN(o->entries));
    struct raft_entry kept = *e;
    kept.blob = blob_copy(e->data);
    kept.data = blob_bytes(kept.blob);
    o->entries[o->count++] = kept;
}

static void see_truncate(void *context, uint64_t from)
{
    struct ours *o = context;

    while (o->count > 0 && o->entries[o->count - 1].index >= from)
        blob_unref(o->entries[--o->count].blob);
}

static void turn(void *context)
{
    inbox_drain(loop_io(((struct ours *)context)->loop)->inbox, 100);
}

static void settle(struct ours *o)
{
    while (!wal_is_idle(o->wal))
        loop_run_once(o->loop, turn, o);
}

static void ours_begin(struct ours *o, const char *dir)
{
    *o = (struct ours){.logger = {.level = LOG_FATAL}};
    o->opt = (struct wal_options){.dir = dir, .logger = &o->logger};
    CHECK_EQ(loop_open(&(struct loop_options){0}, &o->loop), ERR_OK);
    o->disk = loop_io(o->loop)->disk;
}

static void ours_end(struct ours *o)
{
    for (size_t i = 0; i < o->count; i++)
        blob_unref(o->entries[i].blob);
    loop_close(o->loop);
}

static void ours_open(struct ours *o, bool at_snapshot)
{
    struct wal_visitor v = {.on_entry = see_entry, .on_truncate = see_truncate, .context = o};
    struct arena arena = {0};
    struct wal_snapshots all;

    CHECK_EQ(wal_snapshots(o->disk, &o->opt, &arena, &all), ERR_OK);
    CHECK(all.count > 0);
    if (at_snapshot)
        o->start = (struct wal_place){all.at[all.count - 1].index, all.at[all.count - 1].term};
    arena_free(&arena);
    CHECK_EQ(wal_open(o->disk, &o->opt, o->start, &v, &o->found, &o->wal), ERR_OK);
    CHECK(o->found.start_found);
    CHECK(o->found.last_index >= o->found.state.commit);
    settle(o);
}

/* A put as etcd's log has it. */
static struct blob *put_command(uint64_t id, const char *key, const char *value)
{
    struct pb_request_header header = {.id = id};
    struct pb_put_request request = {.key = bytes_of_str(key), .value = bytes_of_str(value)};
    struct buf b = {0};

    pb_encode_internal_raft_request(
        &(struct pb_internal_raft_request){.header = &header, .put = &request}, &b);
    struct blob *blob = blob_copy(buf_bytes(&b));
    buf_free(&b);
    return blob;
}

/* Appends a put to a log that is open, behind its last entry, and commits it. */
static void append_put(struct ours *o, const char *key, const char *value, bool commit)
{
    uint64_t index = wal_status(o->wal).last_index + 1;
    struct blob *command = put_command(0x7000000000000000 + index, key, value);
    struct raft_hard_state state = o->found.state;
    struct raft_entry e = {
        .term = state.term, .index = index, .data = blob_bytes(command), .blob = command};

    state.commit = index;
    wal_append(o->wal, &(struct wal_save){.entries = &e,
                                          .entry_count = 1,
                                          .state = commit ? state : (struct raft_hard_state){0}});
    settle(o);
    blob_unref(command);
}

static bool has_put(const struct ours *o, const char *value)
{
    for (size_t i = 0; i < o->count; i++)
        if (memmem(o->entries[i].data.at, o->entries[i].data.len, value, strlen(value)))
            return true;
    return false;
}

TEST(we_read_what_etcd_wrote_and_it_reads_what_we_append)
{
    static struct ours ours;
    struct etcd etcd;
    char key[16], value[32];

    etcd_prepare(&etcd);
    etcd_start(&etcd);
    for (int i = 0; i < 25; i++) { /* more than two snapshots' worth */
        snprintf(key, sizeof(key), "k%d", i);
        snprintf(value, sizeof(value), "value-%d.", i);
        put(&etcd, key, value);
    }
    peer_stop(&etcd.peer);

    ours_begin(&ours, etcd.wal_dir);
    ours_open(&ours, false);
    CHECK(ours.found.metadata.node_id != 0);
    CHECK(ours.found.metadata.cluster_id != 0);
    CHECK(ours.found.state.term >= 2);
    for (int i = 0; i < 25; i++) {
        snprintf(value, sizeof(value), "value-%d.", i);
        CHECK(has_put(&ours, value));
    }
    wal_close(ours.wal);
    ours_end(&ours);

    ours_begin(&ours, etcd.wal_dir);
    ours_open(&ours, true);
    CHECK(ours.start.index > 0);
    CHECK(has_put(&ours, "value-24."));
    CHECK(!has_put(&ours, "value-1."));
    append_put(&ours, "ours", "appended", true);
    append_put(&ours, "k3", "replaced", true);
    wal_close(ours.wal);
    ours_end(&ours);

    etcd_start(&etcd);
    check_get(&etcd, "ours", "appended");
    check_get(&etcd, "k3", "replaced");
    check_get(&etcd, "k24", "value-24.");
    put(&etcd, "after", "all");
    peer_stop(&etcd.peer);

    ours_begin(&ours, etcd.wal_dir);
    ours_open(&ours, false);
    CHECK(has_put(&ours, "appended"));
    CHECK(has_put(&ours, "all"));
    wal_close(ours.wal);
    ours_end(&ours);
    peer_close(&etcd.peer);
}

/* Writes the same log again, all by ourselves and in many small segments. */
static void rewrite(struct ours *from, const char *dir)
{
    static struct ours to;

    ours_begin(&to, dir);
    to.opt.segment_bytes = 300;
    CHECK_EQ(wal_create(to.disk, &to.opt, &from->found.metadata, &to.wal), ERR_OK);
    for (size_t i = 0; i < from->count; i++) {
        struct raft_hard_state state = from->found.state;
        state.term = from->entries[i].term;
        state.commit = from->entries[i].index;
        wal_append(to.wal, &(struct wal_save){
                               .entries = &from->entries[i], .entry_count = 1, .state = state});
        settle(&to);
    }
    wal_append(to.wal, &(struct wal_save){.state = from->found.state});
    to.found = from->found;
    append_put(&to, "ours", "rewritten", true);
    CHECK(wal_status(to.wal).segment >= 3);
    wal_close(to.wal);
    ours_end(&to);
}

TEST(etcd_starts_from_a_log_that_is_all_ours)
{
    static struct ours ours;
    struct etcd etcd;
    char new_dir[320], old_dir[320];

    etcd_prepare(&etcd);
    etcd_start(&etcd);
    for (int i = 0; i < 8; i++) /* fewer than a snapshot takes */
        put(&etcd, i % 2 ? "odd" : "even", "from etcd");
    peer_stop(&etcd.peer);

    ours_begin(&ours, etcd.wal_dir);
    ours_open(&ours, false);
    CHECK_EQ(ours.start.index, 0);
    snprintf(new_dir, sizeof(new_dir), "%s.new", etcd.wal_dir);
    snprintf(old_dir, sizeof(old_dir), "%s.old", etcd.wal_dir);
    rewrite(&ours, new_dir);
    wal_close(ours.wal);
    ours_end(&ours);
    CHECK_EQ(rename(etcd.wal_dir, old_dir), 0);
    CHECK_EQ(rename(new_dir, etcd.wal_dir), 0);

    etcd_start(&etcd);
    check_get(&etcd, "even", "from etcd");
    check_get(&etcd, "ours", "rewritten");
    put(&etcd, "more", "x");
    peer_stop(&etcd.peer);
    peer_close(&etcd.peer);
}

/* Zeroes the file from the first sector boundary behind this offset on, as a power cut may. */
static void tear(const char *path, uint64_t offset)
{
    uint64_t from = (offset + 511) / 512 * 512;

    CHECK_EQ(truncate(path, (off_t)from), 0);
    CHECK_EQ(truncate(path, WAL_SEGMENT_BYTES), 0);
}

TEST(a_torn_log_is_repaired_to_the_same_place_by_both)
{
    static struct ours ours;
    struct etcd etcd;
    char path[400], broken[420], big[1500];
    struct stat st;

    etcd_prepare(&etcd);
    etcd_start(&etcd);
    put(&etcd, "kept", "yes");
    peer_stop(&etcd.peer);

    ours_begin(&ours, etcd.wal_dir);
    ours_open(&ours, false);
    append_put(&ours, "whole", "here", true);
    uint64_t last = wal_status(ours.wal).last_index, offset = wal_tail(ours.wal)->end;
    snprintf(path, sizeof(path), "%s/%s", etcd.wal_dir, wal_tail(ours.wal)->text);
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    append_put(&ours, "torn", big, true);
    wal_close(ours.wal);
    ours_end(&ours);
    tear(path, offset + 8);

    ours_begin(&ours, etcd.wal_dir);
    CHECK_EQ(wal_replay(ours.disk, &ours.opt, (struct wal_place){0}, NULL, &ours.found), ERR_OK);
    CHECK(ours.found.torn);
    CHECK_EQ(ours.found.fault.offset, offset);
    CHECK_EQ(ours.found.last_index, last);
    ours_end(&ours);

    etcd_start(&etcd);
    check_get(&etcd, "kept", "yes");
    check_get(&etcd, "whole", "here");
    check_get(&etcd, "torn", NULL);
    peer_stop(&etcd.peer);
    snprintf(broken, sizeof(broken), "%s.broken", path);
    CHECK_EQ(stat(broken, &st), 0);

    /* And ours: tear etcd's last entry, repair, let etcd go on. */
    ours_begin(&ours, etcd.wal_dir);
    ours_open(&ours, false);
    offset = wal_tail(ours.wal)->end;
    last = wal_status(ours.wal).last_index;
    append_put(&ours, "torn", big, true);
    wal_close(ours.wal);
    ours_end(&ours);
    tear(path, offset + 8);
    CHECK_EQ(unlink(broken), 0);
    ours_begin(&ours, etcd.wal_dir);
    ours_open(&ours, false);
    CHECK(ours.found.torn);
    CHECK_EQ(ours.found.last_index, last);
    CHECK_EQ(stat(broken, &st), 0);
    append_put(&ours, "repaired", "by us", true);
    wal_close(ours.wal);
    ours_end(&ours);
    etcd_start(&etcd);
    check_get(&etcd, "torn", NULL);
    check_get(&etcd, "repaired", "by us");
    peer_stop(&etcd.peer);
    peer_close(&etcd.peer);
}
