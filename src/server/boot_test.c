/* How a member begins, by what it finds in its data directory; and in which words it refuses. */
#include "io/disk.h"
#include "server/server_rig_test.h"

#include <stdio.h>

#define FLAGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct disk *disk_of(struct server_rig *r)
{
    return fake_world_io(r->world)->disk;
}

static void put_some(struct server_rig *r, unsigned count)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        server_rig_put(r, key, "v");
    }
}

/* The member goes, and its page store is another, empty one. */
static void lose_store(struct server_rig *r)
{
    server_rig_stop(r);
    memory_disk_free(r->memory);
    r->memory = memory_disk_new(test_seed());
}

/* The same for its log. */
static void lose_log(struct server_rig *r)
{
    server_rig_stop(r);
    server_rig_new_world(r);
}

/* --- what is there --- */

TEST(an_empty_directory_is_founded_and_found_again)
{
    struct server_rig r;
    server_rig_open(&r, NULL);

    server_rig_start(&r);
    struct server_status first = server_status(r.server);
    CHECK(first.member_id != 0);
    CHECK(first.cluster_id != 0);
    CHECK_EQ(first.leader, first.member_id);
    put_some(&r, 3);
    CHECK_EQ(server_status(r.server).revision, 4);
    server_rig_stop(&r);

    server_rig_set_flags(&r, FLAGS("--initial-cluster-token", "another")); /* counts no more */
    server_rig_start(&r);
    struct server_status second = server_status(r.server);
    CHECK_EQ(second.member_id, first.member_id);
    CHECK_EQ(second.cluster_id, first.cluster_id);
    CHECK_EQ(second.revision, 4);
    CHECK(second.term > first.term);

    server_rig_close(&r);
}

/* At whatever call the power goes while a cluster is founded, it is founded at the next start. */
TEST(a_founding_that_was_cut_short_is_made_good)
{
    struct server_rig r;
    uint64_t calls = 0;

    for (uint64_t nth = 1; calls == 0; nth++) {
        server_rig_open(&r, NULL);
        fake_disk_die_at(r.world->disk, nth);
        enum err e = server_rig_try(&r);
        if (e == ERR_OK && !fake_disk_is_dead(r.world->disk)) {
            calls = nth - 1;
            server_rig_crash(&r, FAKE_POWER_CUT);
        } else if (e == ERR_OK) {
            server_rig_crash(&r, FAKE_TORN);
        } else {
            CHECK(r.why.len > 0);
            fake_disk_crash(r.world->disk, FAKE_TORN);
        }
        fake_disk_die_at(r.world->disk, 0);

        server_rig_start(&r);
        put_some(&r, 1);
        server_rig_close(&r);
    }
    CHECK(calls > 10);
}

TEST(a_log_that_nobody_founded_is_not_given_to_somebody_else)
{
    struct server_rig r;
    server_rig_open(&r, NULL);
    CHECK_EQ(server_rig_try(&r), ERR_OK);
    server_rig_crash(&r, FAKE_POWER_CUT); /* before a single entry is written */

    server_rig_set_flags(&r, FLAGS("--initial-cluster-token", "another"));
    CHECK_EQ(server_rig_try(&r), ERR_MALFORMED);
    CHECK(server_rig_why(&r, "the log in /data/member/wal has not begun, and is of member "));
    CHECK(server_rig_why(&r, ", which --initial-cluster does not describe"));
    server_rig_set_flags(&r, NULL);
    server_rig_start(&r);

    server_rig_close(&r);
}

TEST(a_log_without_a_store_is_applied_from_its_beginning)
{
    struct server_rig r;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_some(&r, 5);
    lose_store(&r);

    server_rig_start(&r);
    CHECK_EQ(server_status(r.server).revision, 6);

    server_rig_close(&r);
}

TEST(a_log_that_was_released_needs_its_store)
{
    struct server_rig r;
    server_rig_open(&r, FLAGS("--snapshot-count", "5", "--snapshot-catchup-entries", "1"));
    server_rig_start(&r);
    put_some(&r, 30);
    while (!server_rig_logged(&r, "saved snapshot to disk"))
        server_rig_step(&r);
    lose_store(&r);

    CHECK_EQ(server_rig_try(&r), ERR_CORRUPT);
    unsigned after = 0;
    CHECK_EQ(sscanf(buf_str(&r.why), "the log in /data/member/wal begins after entry %u,", &after),
             1);
    CHECK(after > 5);
    CHECK(memmem(r.why.at, r.why.len, "the store has applied it only up to 0", 37) != NULL);

    server_rig_close(&r);
}

TEST(a_store_without_its_log_is_refused)
{
    struct server_rig r;
    char why[160];
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_some(&r, 5);
    uint64_t applied = server_status(r.server).applied;
    lose_log(&r);

    snprintf(why, sizeof(why),
             "the store has applied entries up to %u, but there is no log of them in "
             "/data/member/wal",
             (unsigned)applied);
    server_rig_refused(&r, ERR_CORRUPT, why);

    server_rig_close(&r);
}

/* --unsafe-no-fsync and a power cut: what the store has synced, the log has not. */
TEST(a_store_that_is_ahead_of_its_log_is_refused)
{
    struct server_rig r;
    char why[160];
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_some(&r, 3);
    server_rig_stop(&r);
    server_rig_set_flags(&r, FLAGS("--unsafe-no-fsync", "--backend-batch-interval", "1ms"));
    server_rig_start(&r);
    uint64_t before = server_status(r.server).applied;
    put_some(&r, 20);
    while (server_status(r.server).durable_store < before + 20)
        server_rig_step(&r);
    uint64_t durable = server_status(r.server).durable_store;
    server_rig_crash(&r, FAKE_POWER_CUT);

    CHECK_EQ(server_rig_try(&r), ERR_CORRUPT);
    snprintf(why, sizeof(why),
             "entries up to %u are committed, but the log in /data/member/wal ends at ",
             (unsigned)durable);
    CHECK(r.why.len > strlen(why));
    CHECK_EQ(memcmp(r.why.at, why, strlen(why)), 0);
    CHECK(memmem(r.why.at, r.why.len, ": part of it is lost", 20) != NULL);

    server_rig_close(&r);
}

static void damage_log(struct server_rig *r)
{
    static const char *const path = "/data/member/wal/0000000000000000-0000000000000000.wal";
    struct buf content = {0};

    CHECK_EQ(disk_read_file(disk_of(r), path, 128 * MIB, &content), ERR_OK);
    uint8_t *value = memmem(content.at, content.len, "a value to be found", 19);
    CHECK(value);
    value[3] ^= 1;
    CHECK_EQ(disk_write_file(disk_of(r), path, 0600, buf_bytes(&content)), ERR_OK);
    buf_free(&content);
}

TEST(a_damaged_log_is_refused_by_file_and_byte)
{
    struct server_rig r;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    server_rig_put(&r, "k", "a value to be found");
    put_some(&r, 3);
    server_rig_stop(&r);

    damage_log(&r);
    CHECK_EQ(server_rig_try(&r), ERR_CORRUPT);
    CHECK(memmem(r.why.at, r.why.len, "/data/member/wal", 16) != NULL);

    server_rig_close(&r);
}

TEST(directories_that_others_may_read_are_warned_of_in_etcds_words)
{
    static const struct {
        const char *path, *shown;
        unsigned mode;
    } dirs[] = {{"/data", "drwxrwxrwx", 0777},
                {"/data/member", "dgrwxr-x---", 02750},
                {"/data/member/snap", "dutrwx--x--x", 05711}};
    struct server_rig r;
    char want[256];
    server_rig_open(&r, NULL);
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        CHECK_EQ(disk_make_dir(disk_of(&r), dirs[i].path, dirs[i].mode, 0), ERR_OK);

    server_rig_start(&r);
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(want, sizeof(want),
                 "directory \\\"%s\\\" exist, but the permission is \\\"%s\\\". The recommended "
                 "permission is \\\"-rwx------\\\" to prevent possible unprivileged access to the "
                 "data",
                 dirs[i].path, dirs[i].shown);
        CHECK(server_rig_logged(&r, want));
    }

    server_rig_close(&r);
}

TEST(directories_of_our_own_are_not_warned_of)
{
    struct server_rig r;
    server_rig_open(&r, NULL);

    server_rig_start(&r);
    server_rig_stop(&r);
    server_rig_start(&r);
    CHECK(!server_rig_logged(&r, "check file permission"));

    server_rig_close(&r);
}

/* --- what was asked for --- */

TEST(an_initial_cluster_that_does_not_describe_this_member_is_refused)
{
    struct server_rig r;
    server_rig_open(&r, NULL);

    server_rig_set_flags(&r, FLAGS("--initial-cluster", "n=http://10.0.0.1:2380"));
    CHECK_EQ(server_rig_try(&r), ERR_MALFORMED);
    CHECK(r.why.len > 0);
    server_rig_set_flags(&r, NULL);
    server_rig_start(&r); /* nothing of all that is left behind */

    server_rig_close(&r);
}

TEST(a_place_that_is_taken_is_told_before_the_disk_is_touched)
{
    struct server_rig r;
    struct listener *taken;
    struct net_address address;
    server_rig_open(&r, NULL);
    CHECK_EQ(net_address_parse("10.0.0.1:2379", &address), ERR_OK);
    CHECK_EQ(
        net_listen(fake_world_io(r.world)->net, &address, &(struct listener_options){0}, &taken),
        ERR_OK);

    server_rig_refused(&r, ERR_BUSY,
                       "listen tcp 10.0.0.1:2379: bind: address already in use\n"
                       "10.0.0.1:2379 is in use by another process: stop it, or choose another "
                       "address with --listen-client-urls and --advertise-client-urls");
    CHECK_EQ(fake_disk_calls(r.world->disk), 0);

    listener_close(taken);
    server_rig_close(&r);
}

TEST(too_few_descriptors_are_told_before_the_disk_is_touched)
{
    struct server_rig r;
    server_rig_open(&r, NULL);

    r.world->io.files_max = 79;
    server_rig_refused(&r, ERR_NO_FILES,
                       "file descriptor limit of etcd process is too low; please set higher: it is "
                       "79, and at least 80 are needed");
    CHECK_EQ(fake_disk_calls(r.world->disk), 0);
    r.world->io.files_max = 80;
    server_rig_set_flags(&r, FLAGS("--name", "a", "--initial-cluster",
                                   "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380"));
    server_rig_refused(&r, ERR_NO_FILES,
                       "file descriptor limit of etcd process is too low; please set higher: it is "
                       "80, and at least 112 are needed");
    server_rig_set_flags(&r, NULL);
    server_rig_start(&r);

    server_rig_close(&r);
}

/* --- what the disk does --- */

TEST(a_directory_that_cannot_be_written_to_is_found_out_at_once)
{
    struct server_rig r;
    server_rig_open(&r, NULL);
    fake_disk_fail(r.world->disk,
                   (struct fake_fault){.kind = DISK_WRITE, .nth = 1, .err = ERR_DENIED});

    server_rig_refused(&r, ERR_DENIED, "cannot write to /data: permission denied");

    server_rig_close(&r);
}

/* The nth call of the disk fails, for every n: the member starts nevertheless, or it says why. */
static void fail_each_call(bool founds)
{
    struct server_rig r;

    for (uint64_t nth = 1;; nth++) {
        server_rig_open(&r, NULL);
        if (!founds) {
            server_rig_start(&r);
            put_some(&r, 3);
            server_rig_stop(&r);
        }
        fake_disk_fail(r.world->disk, (struct fake_fault){.nth = nth, .err = ERR_NO_SPACE});
        enum err e = server_rig_try(&r);
        bool all = fake_disk_will_fail(r.world->disk);
        if (e != ERR_OK && r.why.len == 0)
            test_fail(__FILE__, __LINE__, "call %d fails, and nobody says a word", (int)nth);
        fake_disk_fail(r.world->disk, (struct fake_fault){0});
        if (e == ERR_OK)
            server_rig_crash(&r, FAKE_KILLED);
        server_rig_start(&r); /* and nothing is worse for it */
        server_rig_close(&r);
        if (all)
            return;
    }
}

TEST(a_founding_that_fails_says_why)
{
    fail_each_call(true);
}

TEST(a_start_that_fails_says_why)
{
    fail_each_call(false);
}
