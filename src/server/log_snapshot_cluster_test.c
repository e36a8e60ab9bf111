/* Snapshots of the log: at which entries, and of a member that crashes before and after one is
 * recorded. */
#include "server/cluster_rig_test.h"
#include "server/server_int.h"
#include "server/server_rig_test.h"

#include <string.h>

static uint64_t recorded(const struct cluster_rig *r, unsigned n)
{
    return r->at[n]->server->snapshot.recorded_index;
}

/* Segments so small that each snapshot leaves the one before it behind. */
static void open_with(struct cluster_rig *r, const char *const *flags)
{
    cluster_rig_open(r, 3, flags);
    r->segment_bytes = 16384;
    cluster_rig_start_all(r);
}

static void put_until(struct cluster_rig *r, unsigned leader, uint64_t applied)
{
    char value[1000];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = 0;
    while (server_status(r->at[leader]->server).applied < applied)
        cluster_rig_put(r, leader, "k", value);
}

/* It records one, and the power goes again: the record counts only if a commit index in the log
 * covers it, and those before it have gone with their segments. */
static void check_that_it_starts_after_the_next(struct cluster_rig *r, unsigned n)
{
    cluster_rig_until_ready(r, n);
    cluster_rig_for_ms(r, 1000);
    CHECK(recorded(r, n) > 20);

    cluster_rig_crash(r, n);
    CHECK_EQ(cluster_rig_try_start(r, n), ERR_OK);
}

/* The commit index that the log had was behind the store when the power went: whether it is hangs
 * on when which of them was written. */
static void crash_with_the_store_ahead(uint64_t entries)
{
    static const char *const first[] = {"--snapshot-count=1000", "--snapshot-catchup-entries=5",
                                        "--max-wals=2", NULL};
    static const char *const later[] = {"--snapshot-count=20", "--snapshot-catchup-entries=5",
                                        "--max-wals=2", NULL};
    struct cluster_rig r;
    open_with(&r, first);
    unsigned leader = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    put_until(&r, leader, entries);
    cluster_rig_until_equal(&r, leader);
    cluster_rig_for_ms(&r, 500); /* the store commits */

    cluster_rig_crash(&r, follower);
    cluster_rig_set_flags(&r, follower, later);
    cluster_rig_start(&r, follower);

    check_that_it_starts_after_the_next(&r, follower);
    cluster_rig_close(&r);
}

TEST(a_snapshot_of_the_log_is_covered_by_a_commit_index_in_the_log)
{
    for (uint64_t entries = 100; entries < 110; entries++)
        crash_with_the_store_ahead(entries);
}

/* The same with the same flags: the power goes while the snapshot's file is written. */
TEST(a_snapshot_of_the_log_is_made_again_after_a_crash_in_its_midst)
{
    static const char *const flags[] = {"--snapshot-count=100", "--snapshot-catchup-entries=5",
                                        "--max-wals=2", NULL};
    struct cluster_rig r;
    open_with(&r, flags);
    unsigned leader = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    put_until(&r, leader, 101);
    while (r.at[follower]->server->snapshot.state != LOG_SNAPSHOT_WRITING)
        cluster_rig_step(&r);

    cluster_rig_crash(&r, follower);
    cluster_rig_start(&r, follower);

    check_that_it_starts_after_the_next(&r, follower);
    cluster_rig_close(&r);
}

/* The indexes in the names of the files, oldest first. */
static void list_snapshots(struct server_rig *r, struct buf *out)
{
    struct buf names = {0};
    uint64_t term, index;

    CHECK_EQ(disk_list(fake_world_io(r->world)->disk, "/data/member/snap", 4096, &names), ERR_OK);
    struct bytes left = buf_bytes(&names);
    for (const char *name; (name = disk_next_name(&left));)
        if (snapfile_parse_name(name, &term, &index))
            buf_printf(out, "%llu ", (unsigned long long)index);
    buf_free(&names);
}

/* The puts are much faster than the store commits by itself. */
static void check_snapshots_of_puts(uint64_t pause_ms)
{
    struct server_rig r;
    struct buf indexes = {0};
    server_rig_open(&r, (const char *const[]){"--snapshot-count=10", NULL});
    server_rig_start(&r);

    while (server_status(r.server).applied < 70) {
        server_rig_put(&r, "k", "v");
        server_rig_for_ms(&r, pause_ms);
    }
    server_rig_for_ms(&r, 200);

    list_snapshots(&r, &indexes);
    CHECK_STR(buf_str(&indexes), "11 22 33 44 55 66 ");
    buf_free(&indexes);
    server_rig_stop(&r);
    server_rig_close(&r);
}

TEST(snapshots_of_the_log_are_of_the_same_entries_as_etcds)
{
    for (uint64_t pause_ms = 1; pause_ms <= 64; pause_ms *= 4)
        check_snapshots_of_puts(pause_ms);
}

static void add_learner(struct server_rig *r)
{
    struct bytes url = BYTES("http://10.9.9.9:1");
    struct visit v = {0};

    server_rig_ask(r->client, &v, "/etcdserverpb.Cluster/MemberAdd", &pb_member_add_request_schema,
                   &(struct pb_member_add_request){.peer_urls = {&url, 1}, .is_learner = true});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
}

/* The change is applied before the store has the entry of the snapshot. */
TEST(a_snapshot_of_the_log_has_no_member_of_a_later_entry)
{
    struct server_rig r;
    struct arena arena = {0};
    struct buf file = {0};
    struct raft_snapshot found;
    server_rig_open(&r, (const char *const[]){"--snapshot-count=10", NULL});
    server_rig_start(&r);
    fake_workers_hang(&r.world->store_worker, FAKE_DISK_FOR_EVER);
    while (server_status(r.server).applied < 11)
        server_rig_put(&r, "k", "v");

    add_learner(&r);
    CHECK_EQ(r.server->snapshot.mark.index, 11);
    fake_workers_hang(&r.world->store_worker, 0);
    server_rig_for_ms(&r, 200);

    CHECK_EQ(snapfile_load_newest(
                 fake_world_io(r.world)->disk,
                 &(struct snapfile_search){.dir = "/data/member/snap", .logger = &r.logger}, &arena,
                 &file, &found),
             ERR_OK);
    CHECK_EQ(found.index, 11);
    CHECK_EQ(found.conf_state.learners.count, 0);
    CHECK(memmem(found.data.at, found.data.len, "10.9.9.9", 8) == NULL);
    arena_free(&arena);
    buf_free(&file);
    server_rig_stop(&r);
    server_rig_close(&r);
}
