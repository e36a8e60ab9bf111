/* Snapshots that come: taken, refused, given up, and what a crash leaves of them. */
#include "server/receiving_rig_test.h"

#include "backend/backend_int.h"
#include "harness/peer_test.h"
#include "mvcc/mvcc.h"
#include "raft/raft.h"
#include "snap/db.h"

#include <stdio.h>

TEST(a_member_that_is_behind_takes_a_snapshot_and_goes_on_from_it)
{
    struct stage t;
    stage_open(&t);

    sender_send(&t.sender, &t.shot);
    sender_until_over(&t.sender);

    CHECK_EQ(t.sender.sent, 1);
    CHECK_EQ(server_received(stage_behind(&t)), 1); /* and raft has it when that is told */
    while (server_installed(stage_behind(&t)) == 0)
        sender_step(&t.sender);
    CHECK_EQ(server_status(stage_behind(&t)).log_base, t.shot.snapshot.index);
    CHECK_STR(cluster_rig_get(&t.r, t.behind, "k059", true), "value");
    stage_put(&t, 20);
    stage_check_equal(&t);
    CHECK_STR(receiving_rig_files(&t.r, t.behind), "");
    CHECK(cluster_rig_logged(&t.r, t.behind, "received and saved database snapshot"));
    CHECK(cluster_rig_logged(&t.r, t.behind, "applying snapshot"));
    CHECK(cluster_rig_logged(&t.r, t.behind, "applied snapshot"));
    struct exposition scrape = {0};
    struct buf metrics = {0};
    metrics_gather(stage_behind(&t), &scrape);
    exposition_sort(&scrape);
    exposition_write(&scrape, API_FORMAT_TEXT, &metrics);
    exposition_free(&scrape);
    CHECK(strstr(buf_str(&metrics), "\netcd_snap_db_save_total_duration_seconds_count 1\n"));
    CHECK(strstr(buf_str(&metrics), "\netcd_snap_db_fsync_duration_seconds_count 1\n"));
    buf_free(&metrics);

    cluster_rig_stop(&t.r, t.behind);
    cluster_rig_start(&t.r, t.behind);
    stage_check_equal(&t);
    CHECK(!cluster_rig_logged(&t.r, t.behind, "failed to read WAL"));
    stage_close(&t);
}

TEST(a_snapshot_of_a_later_leader_is_taken_by_a_member_that_was_alone)
{
    struct alone t;
    alone_open(&t);

    alone_check_taken(&t);
    cluster_rig_stop(&t.r, 1);
    cluster_rig_start(&t.r, 1);
    cluster_rig_until_ready(&t.r, 1);

    CHECK_STR(cluster_rig_get(&t.r, 1, "k", false), "later");
    alone_look_ahead(&t, 100); /* and once more, in the next life */
    alone_check_taken(&t);
    alone_close(&t);
}

/* --- what is refused --- */

/* The nth page of this kind; bbolt's layout. */
static uint8_t *find_page(struct buf *image, uint16_t kind, unsigned nth)
{
    for (size_t at = 0; at < image->len; at += 4096) {
        uint16_t flags_of_page;
        memcpy(&flags_of_page, image->at + at + 8, sizeof(flags_of_page));
        if (flags_of_page == kind && nth-- == 0)
            return image->at + at;
    }
    test_fail(__FILE__, __LINE__, "no such page");
}

enum { PAGE_BRANCH = 1, PAGE_LEAF = 2 };

TEST(a_file_that_is_no_sound_image_is_refused_whole)
{
    struct alone t;
    struct buf sound = {0};
    uint64_t own;
    alone_open(&t);
    alone_look_ahead(&t, 3000); /* large enough for a tree of two levels */
    buf_append(&sound, buf_bytes(&t.shot.image));
    struct buf *image = &t.shot.image;

    image->len = 0;
    alone_check_refused(&t, ".snap.db: offset 16: the file ends before its meta");
    image->len = 5000;
    alone_check_refused(&t, ".snap.db: offset ");
    image->len = sound.len - 4096;
    alone_check_refused(&t, ".snap.db: offset ");
    image->len = sound.len;
    image->at[16 + 8] ^= 1; /* in the first meta, which has a hash */
    alone_check_refused(&t, ".snap.db: offset ");
    image->at[16 + 8] ^= 1;
    buf_append(image, BYTES("one byte more, or some"));
    alone_check_refused(&t, ".snap.db: offset ");
    image->len = sound.len;

    uint8_t *branch = find_page(image, PAGE_BRANCH, 0);
    memcpy(&own, branch, sizeof(own));
    memcpy(branch + 16 + 8, &own, sizeof(own)); /* its first child is itself */
    alone_check_refused(&t, ".snap.db: offset ");
    memcpy(image->at, sound.at, sound.len);
    branch = find_page(image, PAGE_BRANCH, 0);
    memcpy(branch + 32 + 8, branch + 16 + 8, 8); /* its second child is its first */
    alone_check_refused(&t, ".snap.db: offset ");
    memcpy(image->at, sound.at, sound.len);
    uint8_t *leaf = find_page(image, PAGE_LEAF, 1);
    memset(leaf + 16, 0xff, 16);
    alone_check_refused(&t, ".snap.db: offset ");

    memcpy(image->at, sound.at, sound.len);
    alone_check_taken(&t);
    buf_free(&sound);
    alone_close(&t);
}

TEST(an_image_that_is_not_what_its_message_says_is_refused)
{
    struct alone t;
    alone_open(&t);
    struct shot *p = &t.shot;
    uint64_t index = p->snapshot.index, term = p->snapshot.term;

    p->snapshot.index = index + 1;
    alone_check_refused(&t, "its consistent index");
    p->snapshot.index = index;
    p->snapshot.term = term - 1;
    alone_check_refused(&t, "its consistent index");
    p->snapshot.term = term;
    p->snapshot.conf_state.voters.at[p->snapshot.conf_state.voters.count++] = 0x1234;
    alone_check_refused(&t, "its members are not those");
    p->snapshot.conf_state.voters.count--;
    p->snapshot.conf_state.learners = (struct raft_ids){.count = 1, .at = {0x1234}};
    alone_check_refused(&t, "its members are not those");
    p->snapshot.conf_state.learners.count = 0;
    p->snapshot.conf_state.voters_outgoing = p->snapshot.conf_state.voters;
    alone_check_refused(&t, "its members are not those");
    p->snapshot.conf_state.voters_outgoing.count = 0;

    alone_check_taken(&t);
    alone_close(&t);
}

TEST(entries_that_nobody_can_have_written_are_refused)
{
    static const struct {
        enum bucket bucket;
        struct bytes key, value;
        const char *why;
    } cases[] = {
        {BUCKET_KEY, BYTES("\xff\0\0\0\0\0\0\2_\0\0\0\0\0\0\0"), BYTES(""), "not a revision"},
        {BUCKET_KEY, BYTES("\x7f\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0"), BYTES("\n\1k\0"),
         "not a mvccpb.KeyValue"},
        {BUCKET_META, BYTES("zleatPart"), BYTES("\5k"), NULL},
        {BUCKET_LEASE, BYTES("\0\0\0\0\0\0\0\7"), BYTES("\xff\xff"), "lease"},
        {BUCKET_MEMBERS, BYTES("zz"), BYTES("not json"), "member"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct alone t;
        alone_open(&t);
        rig_add(&t.shot.buckets[cases[i].bucket], cases[i].key, cases[i].value);
        shot_write(&t.shot);

        if (cases[i].why)
            alone_check_refused(&t, cases[i].why);
        else
            alone_check_taken(&t); /* a key that we do not know does no harm */

        alone_close(&t);
    }
}

TEST(a_note_of_our_own_is_refused_in_an_image)
{
    struct alone t;
    alone_open(&t);
    shot_insert(&t.shot, BUCKET_META, BYTES("cleatPart"), BYTES("\5k"));
    shot_write(&t.shot);

    alone_check_refused(&t, "a note of work that a running member is to do");

    alone_close(&t);
}

/* Or the leader would send it for ever, and nobody would look why this member does not come back.
 */
TEST(a_state_that_we_cannot_execute_ends_the_member)
{
    struct alone t;
    alone_open(&t);
    t.r.at[1]->may_fail = true;
    shot_find(&t.shot, BUCKET_META, "storageVersion")->value = BYTES("3.9.0");
    shot_write(&t.shot);

    sender_send(&t.sender, &t.shot);
    while (!t.r.at[1]->failed && t.sender.failed + t.sender.sent == 0)
        sender_step(&t.sender);

    CHECK(t.r.at[1]->failed);
    CHECK_STR(
        buf_str(&t.r.at[1]->why),
        "cannot go on from the leader's snapshot: Failed to validate schema: version \"3.9.0\" is "
        "not supported");
    CHECK_STR(receiving_rig_files(&t.r, 1), "");
    cluster_rig_crash(&t.r, 1);
    alone_close(&t);
}

/* Raft answers the leader how far this member is, and nothing of the image is read. */
TEST(a_snapshot_that_is_not_above_what_is_committed_is_told_to_raft_and_not_read)
{
    struct alone t;
    struct digest before, after;
    alone_open(&t);
    CHECK(server_digest(alone_member(&t), &before));
    t.shot.snapshot.index = server_status(alone_member(&t)).committed;

    sender_send(&t.sender, &t.shot);
    sender_until_over(&t.sender);

    CHECK_EQ(t.sender.sent, 1);
    CHECK_EQ(t.sender.sent_bytes < t.shot.image.len || t.shot.image.len < 300000, true);
    CHECK_EQ(server_received(alone_member(&t)), 0);
    CHECK(receiving_is_idle(&alone_member(&t)->receiving));
    CHECK(server_digest(alone_member(&t), &after));
    receiving_rig_same_digest(&before, &after);

    t.shot.snapshot.index += ALONE_AHEAD;
    t.shot.snapshot.conf_state.voters = (struct raft_ids){.count = 1, .at = {0x1234}};
    sender_send(&t.sender, &t.shot);
    sender_until_over(&t.sender);

    CHECK_EQ(t.sender.sent, 2);
    CHECK_EQ(server_received(alone_member(&t)), 0);
    alone_close(&t);
}

TEST(a_hundred_gigabytes_that_do_not_come_leave_nothing)
{
    struct alone t;
    alone_open(&t);
    alone_look_ahead(&t, 60000);

    sender_send_some(&t.sender, &t.shot, 100ull << 30, 1000000);
    sender_until_over(&t.sender);
    alone_until_idle(&t);

    CHECK_EQ(t.sender.failed, 1);
    CHECK(cluster_rig_logged(&t.r, 1, "the sender has gone"));
    CHECK_STR(receiving_rig_files(&t.r, 1), "");
    alone_check_taken(&t);
    alone_close(&t);
}

/* --- one instead of another --- */

static void until_step(struct alone *t, enum receiving_step step)
{
    while (alone_member(t)->receiving.step != step)
        sender_step(&t->sender);
}

TEST(a_snapshot_of_a_later_term_takes_the_place_of_one_that_comes_or_is_looked_at)
{
    static const enum receiving_step when[] = {RECEIVING_OPENING, RECEIVING_BYTES,
                                               RECEIVING_BUILDING};

    for (size_t i = 0; i < ARRAY_LEN(when); i++) {
        struct alone t;
        struct sender other;
        alone_open(&t);
        alone_look_ahead(&t, 60000);
        t.r.at[1]->workers.delay =
            (struct fake_delay){.min_ns = 2000 * NS_PER_MS, .max_ns = 2000 * NS_PER_MS};
        sender_open(&other, &t.r, 0x78, 1);

        sender_send(&t.sender, &t.shot);
        until_step(&t, when[i]);
        t.shot.from = 0x78;
        sender_send(&other, &t.shot); /* of the same term: no */
        sender_until_over(&other);
        CHECK_EQ(other.failed, 1);
        CHECK(cluster_rig_logged(&t.r, 1, "another one is being received"));
        if (alone_member(&t)->receiving.step == when[i]) {
            t.shot.term++;
            sender_send(&other, &t.shot);
            sender_until_over(&other);
            CHECK_EQ(other.sent, 1);
            CHECK(cluster_rig_logged(&t.r, 1, "another one has begun"));
            CHECK_EQ(t.sender.sent, 0);
        }
        alone_until_idle(&t);

        CHECK_EQ(server_installed(alone_member(&t)), 1);
        CHECK_STR(receiving_rig_files(&t.r, 1), "");
        sender_close(&other);
        alone_close(&t);
    }
}

/* Its log has no snapshot yet: nothing at the next start looks for what is beside the store. */
TEST(what_is_left_of_an_image_goes_at_the_next_start)
{
    struct alone t;
    struct store *left;
    char why[FAILURE_TEXT_BYTES] = "";
    alone_open(&t);
    alone_look_ahead(&t, 60000);
    sender_send(&t.sender, &t.shot);
    until_step(&t, RECEIVING_BUILDING);
    fake_workers_finish(&t.r.at[1]->workers); /* it is made, and nobody has heard of it */
    CHECK_EQ(alone_member(&t)->snapshot.recorded_index, 0);

    cluster_rig_crash(&t.r, 1);
    cluster_rig_start(&t.r, 1);

    CHECK_EQ(memory_image_open(t.r.at[1]->memory, false, why, &left), ERR_NOT_FOUND);
    alone_close(&t);
}

/* In the turn in which raft has it, and before what raft has to say of it is taken. */
TEST(a_snapshot_of_a_later_term_is_turned_away_when_raft_has_just_taken_one)
{
    struct alone t;
    alone_open(&t);
    struct server *s = alone_member(&t);
    struct raft_snapshot later = t.shot.snapshot;
    struct raft_message m = {.type = RAFT_MSG_SNAP,
                             .from = t.shot.from,
                             .to = t.sender.to,
                             .term = t.shot.term + 1,
                             .snapshot = &later};

    later.index++;
    t.r.at[1]->workers.delay =
        (struct fake_delay){.min_ns = 2000 * NS_PER_MS, .max_ns = 2000 * NS_PER_MS};
    sender_send(&t.sender, &t.shot);
    until_step(&t, RECEIVING_BUILDING);
    fake_workers_finish(&t.r.at[1]->workers);
    while (!s->receiving.is_done)
        CHECK(inbox_drain(s->io->inbox, 1) > 0);
    receiving_some(s);
    CHECK_EQ(s->receiving.step, RECEIVING_OFFERED);
    receiving_hear(
        s, &(struct peer_event){.kind = PEER_SNAPSHOT_BEGIN, .id = UINT64_MAX, .message = &m});
    alone_until_idle(&t);

    CHECK(cluster_rig_logged(&t.r, 1, "another one is being received"));
    CHECK_EQ(server_installed(s), 1);
    CHECK(!s->receiving.next.message);
    alone_close(&t);
}

/* The leader's own removal was committed while its snapshot was on the way. */
TEST(a_snapshot_of_a_member_that_was_removed_meanwhile_is_not_shown_to_raft)
{
    static const enum receiving_step when[] = {RECEIVING_BYTES, RECEIVING_BUILDING};

    for (size_t i = 0; i < ARRAY_LEN(when); i++) {
        struct alone t;
        alone_open(&t);
        struct server *s = alone_member(&t);
        uint64_t term = raft_status(s->raft).hard_state.term;

        sender_send(&t.sender, &t.shot);
        until_step(&t, when[i]);
        peers_remove(s->peering.peers, t.shot.from);
        sender_until_over(&t.sender);
        alone_until_idle(&t);

        CHECK_EQ(t.sender.failed, 1);
        CHECK(cluster_rig_logged(&t.r, 1, "rejected Raft message from removed member"));
        CHECK_EQ(raft_status(s->raft).hard_state.term, term);
        CHECK(raft_status(s->raft).soft_state.lead != t.shot.from);
        CHECK_EQ(server_received(s), 0);
        CHECK_STR(receiving_rig_files(&t.r, 1), "");
        alone_close(&t);
    }
}

/* --- disks --- */

/* Nothing else is written meanwhile. The first failure that hits the log instead is the last: the
 * record of a snapshot that raft has taken. */
TEST(a_disk_without_space_refuses_a_snapshot_and_the_member_lives)
{
    unsigned refused = 0;

    for (uint64_t nth = 1;; nth++) {
        struct alone t;
        alone_open(&t);
        alone_look_ahead(&t, 60000);
        t.r.at[1]->may_fail = true;

        fake_disk_fail(t.r.at[1]->disk,
                       (struct fake_fault){
                           .kind = DISK_WRITE, .nth = nth, .err = ERR_NO_SPACE, .written = 10});
        sender_send(&t.sender, &t.shot);
        while (t.sender.failed + t.sender.sent == 0 && !t.r.at[1]->failed)
            sender_step(&t.sender);

        if (t.sender.failed == 0 || t.r.at[1]->failed) {
            cluster_rig_crash(&t.r, 1);
            alone_close(&t);
            break;
        }
        refused++;
        CHECK(cluster_rig_logged(&t.r, 1, "no space left on device"));
        alone_until_idle(&t);
        CHECK_STR(receiving_rig_files(&t.r, 1), "");
        alone_check_taken(&t); /* when there is space again */
        alone_close(&t);
    }
    CHECK(refused >= 3);
}

static uint64_t space_of(struct alone *t)
{
    return fake_disk_space(t->r.at[1]->disk);
}

/* As check_refused, and meanwhile there is as much space as there was, less one step: the log never
 * has to do without. */
static void check_spares_the_disk(struct alone *t)
{
    uint64_t before = space_of(t), least = before;

    sender_send(&t->sender, &t->shot);
    while (t->sender.failed + t->sender.sent == 0) {
        sender_step(&t->sender);
        least = space_of(t) < least ? space_of(t) : least;
    }
    CHECK_EQ(t->sender.failed, 1);
    alone_until_idle(t);
    CHECK(cluster_rig_logged(&t->r, 1, "bytes of space are needed"));
    CHECK(least + 2 * RECEIVING_WINDOW_BYTES >= before);
    CHECK_EQ(space_of(t), before);
    CHECK_STR(receiving_rig_files(&t->r, 1), "");
    CHECK(!cluster_rig_logged(&t->r, 1, "no space left on"));
}

/* Tried again and again, it would otherwise fill the disk each time, and the member would refuse
 * writes until its own file is gone again. */
TEST(a_snapshot_too_large_for_the_disk_is_refused_before_it_fills_it)
{
    struct alone t;
    alone_open(&t);
    alone_look_ahead(&t, 1000000);

    /* the file would fit, and the store that is made of it would not */
    fake_disk_set_space(t.r.at[1]->disk, 2 * t.shot.image.len);
    check_spares_the_disk(&t);
    fake_disk_set_space(t.r.at[1]->disk, 3 * t.shot.image.len);
    alone_check_taken(&t);
    alone_close(&t);
}

/* Others write to the disk meanwhile, too; and etcd does not say how long an image is. */
TEST(a_snapshot_is_refused_when_the_disk_gets_too_small_while_it_comes)
{
    struct alone t;
    alone_open(&t);
    alone_look_ahead(&t, 1000000);

    sender_send(&t.sender, &t.shot);
    while (alone_member(&t)->receiving.bytes < t.shot.image.len / 2)
        sender_step(&t.sender);
    fake_disk_set_space(t.r.at[1]->disk, 3 * t.shot.image.len / 2);
    uint64_t least = UINT64_MAX;
    while (t.sender.failed + t.sender.sent == 0) {
        sender_step(&t.sender);
        least = space_of(&t) < least ? space_of(&t) : least;
    }
    CHECK_EQ(t.sender.failed, 1);
    CHECK(least >= t.shot.image.len);
    CHECK(cluster_rig_logged(&t.r, 1, "bytes of space are needed"));
    alone_until_idle(&t);
    CHECK_STR(receiving_rig_files(&t.r, 1), "");
    fake_disk_set_space(t.r.at[1]->disk, FAKE_DISK_NOT_FULL);
    alone_check_taken(&t);
    alone_close(&t);
}

/* The image's store, on the other hand, is on the page store's disk. */
TEST(an_image_that_cannot_be_written_is_refused_and_the_member_lives)
{
    unsigned refused = 0;

    for (uint64_t nth = 1;; nth++) {
        struct alone t;
        alone_open(&t);
        t.r.at[1]->may_fail = true;

        memory_disk_fail_at(t.r.at[1]->memory, nth);
        sender_send(&t.sender, &t.shot);
        while (t.sender.failed + t.sender.sent == 0 && !t.r.at[1]->failed)
            sender_step(&t.sender);

        if (t.sender.sent > 0 || t.r.at[1]->failed) {
            memory_disk_fail_at(t.r.at[1]->memory, 0);
            if (t.r.at[1]->failed)
                cluster_rig_crash(&t.r, 1);
            alone_close(&t);
            break;
        }
        refused++;
        alone_until_idle(&t);
        CHECK_STR(receiving_rig_files(&t.r, 1), "");
        alone_check_taken(&t);
        alone_close(&t);
    }
    CHECK(refused >= 2);
}

/* Raft has taken it, and the log has its record: all that is left is a rename. */
TEST(a_snapshot_whose_store_has_no_space_for_its_name_waits_and_the_member_follows)
{
    struct stage t;
    stage_open(&t);
    struct memory_disk *memory = t.r.at[t.behind]->memory;

    sender_send(&t.sender, &t.shot);
    while (server_received(stage_behind(&t)) == 0)
        sender_step(&t.sender);
    CHECK_EQ(server_installed(stage_behind(&t)), 0);
    memory_disk_set_space(memory, 0);
    uint64_t term = server_status(stage_behind(&t)).term;
    cluster_rig_for_ms(&t.r, 5000);
    CHECK_EQ(server_installed(stage_behind(&t)), 0);
    CHECK(cluster_rig_logged(&t.r, t.behind, "no space left on the disk; writes are refused"));
    CHECK_EQ(server_status(stage_behind(&t)).term, term); /* it has heard its leader all the time */
    CHECK_EQ(cluster_rig_leader(&t.r), t.leader);
    stage_put(&t, 20);
    memory_disk_set_space(memory, MEMORY_DISK_NOT_FULL);
    stage_check_equal(&t);

    CHECK(server_installed(stage_behind(&t)) > 0);
    CHECK(cluster_rig_logged(&t.r, t.behind, "there is space on the disk again"));
    sender_until_over(&t.sender);
    stage_close(&t);
}

TEST(a_member_whose_snapshot_waits_for_its_name_can_be_stopped)
{
    struct alone t;
    alone_open(&t);

    sender_send(&t.sender, &t.shot);
    while (server_received(alone_member(&t)) == 0)
        sender_step(&t.sender);
    memory_disk_set_space(t.r.at[1]->memory, 0);
    sender_until_over(&t.sender);
    cluster_rig_for_ms(&t.r, 3000);
    CHECK_EQ(server_installed(alone_member(&t)), 0);
    cluster_rig_stop(&t.r, 1);
    memory_disk_set_space(t.r.at[1]->memory, MEMORY_DISK_NOT_FULL);
    cluster_rig_start(&t.r, 1);
    cluster_rig_until_ready(&t.r, 1);

    CHECK_EQ(server_status(alone_member(&t)).revision, t.revision + ALONE_AHEAD);
    alone_close(&t);
}

/* Of the .snap file or of its folder. Nothing else is synced before raft has heard of it. */
TEST(a_sync_that_fails_while_a_snapshot_is_saved_ends_the_member)
{
    static const enum disk_op_kind kinds[] = {DISK_SYNC, DISK_SYNC_DIR};

    for (unsigned i = 0; i < 2 * ARRAY_LEN(kinds); i++) {
        struct alone t;
        bool is_given_up = i >= ARRAY_LEN(kinds);
        alone_open(&t);
        t.r.at[1]->may_fail = true;

        sender_send(&t.sender, &t.shot);
        until_step(&t, RECEIVING_BUILDING);
        fake_disk_fail(
            t.r.at[1]->disk,
            (struct fake_fault){.kind = kinds[i % ARRAY_LEN(kinds)], .nth = 1, .err = ERR_IO});
        fake_workers_finish(&t.r.at[1]->workers);
        CHECK(!fake_disk_will_fail(t.r.at[1]->disk));
        if (is_given_up)
            receiving_stop(&alone_member(&t)->receiving);
        while (!t.r.at[1]->failed && t.sender.failed + t.sender.sent == 0)
            sender_step(&t.sender);

        CHECK(t.r.at[1]->failed);
        CHECK_STR(buf_str(&t.r.at[1]->why),
                  "cannot keep the leader's snapshot: /data/member/snap: cannot save the snapshot "
                  "file: a sync failed: what the disk has kept is unknown");
        CHECK_EQ(t.sender.sent, 0);
        cluster_rig_crash(&t.r, 1);
        cluster_rig_start(&t.r, 1); /* with what it had, and takes it in the next life */
        cluster_rig_until_ready(&t.r, 1);
        CHECK_EQ(server_status(alone_member(&t)).revision, t.revision);
        sender_until_over(&t.sender);
        alone_look_ahead(&t, 100);
        alone_check_taken(&t);
        alone_close(&t);
    }
}

/* --- the end, and crashes --- */

TEST(a_member_stops_while_a_snapshot_comes_or_is_looked_at)
{
    for (unsigned steps = 0; steps < 60; steps += 3) {
        struct alone t;
        alone_open(&t);

        sender_send(&t.sender, &t.shot);
        for (unsigned i = 0; i < steps; i++)
            sender_step(&t.sender);
        cluster_rig_stop(&t.r, 1);
        sender_until_over(&t.sender);

        CHECK_STR(receiving_rig_files(&t.r, 1), "");
        cluster_rig_start(&t.r, 1);
        cluster_rig_until_ready(&t.r, 1);
        alone_look_ahead(&t, 100);
        alone_check_taken(&t);
        alone_close(&t);
    }
}

TEST(a_crash_at_any_step_of_a_snapshot_leaves_the_old_state_or_the_new_one)
{
    bool is_over = false;
    unsigned olds = 0, news = 0, cleaned = 0;

    for (unsigned steps = 0; !is_over; steps++) {
        struct alone t;
        alone_open(&t);
        sender_send(&t.sender, &t.shot);
        for (unsigned i = 0; i < steps && server_installed(alone_member(&t)) == 0; i++)
            sender_step(&t.sender);
        is_over = server_installed(alone_member(&t)) > 0;
        bool had_file = *receiving_rig_files(&t.r, 1) != 0;

        cluster_rig_crash(&t.r, 1);
        sender_until_over(&t.sender); /* or it would be heard by the next life */
        cluster_rig_start(&t.r, 1);
        cluster_rig_until_ready(&t.r, 1);

        int64_t revision = server_status(alone_member(&t)).revision;
        CHECK(revision == t.revision || revision == t.revision + ALONE_AHEAD);
        CHECK(!is_over || revision == t.revision + ALONE_AHEAD);
        news += revision > t.revision && !is_over;
        olds += revision == t.revision;
        cleaned += had_file;
        CHECK_STR(receiving_rig_files(&t.r, 1), "");
        alone_look_ahead(&t, 100);
        alone_check_taken(&t); /* what is left over is in nobody's way */
        alone_close(&t);
    }
    CHECK(olds > 0);
    CHECK(news > 0); /* which a boot has installed */
    CHECK(cleaned > 0);
}

/* --- watchers --- */

static void watch_from(struct alone *t, struct visit *v, int64_t revision)
{
    struct pb_watch_create_request create = {.key = BYTES("k"), .start_revision = revision};
    struct client *c = t->r.at[1]->client;

    *v = (struct visit){0};
    v->call = client_start(
        c, &(struct client_request){.path = "/etcdserverpb.Watch/Watch", .context = v});
    api_rig_say(v, &pb_watch_request_schema,
                &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    client_flush(c);
}

static void ask_progress(struct alone *t, struct visit *v)
{
    static const struct pb_empty progress;

    api_rig_say(v, &pb_watch_request_schema,
                &(struct pb_watch_request){.which = PB_WATCH_PROGRESS, .progress = &progress});
    client_flush(t->r.at[1]->client);
}

struct seen {
    int64_t next, compact_revision;
    unsigned progress;
};

/* Each revision once and in order; a progress message never before what it tells of; no header that
 * steps back. */
static struct seen check_events(const struct visit *v, int64_t next)
{
    struct arena arena = {0};
    struct seen seen = {.next = next};
    int64_t revision = 0;

    for (size_t i = 0; i < v->message_count; i++) {
        struct pb_watch_response m;
        visit_decode(v, i, &pb_watch_response_schema, &arena, &m);
        for (size_t j = 0; j < m.events.count; j++)
            CHECK_EQ(m.events.at[j].kv->mod_revision, seen.next++);
        if (m.canceled) {
            seen.compact_revision = m.compact_revision;
            continue;
        }
        CHECK(m.header->revision >= revision);
        revision = m.header->revision;
        if (m.events.count > 0 || m.created)
            continue;
        CHECK_EQ(seen.next, revision + 1);
        seen.progress++;
    }
    arena_free(&arena);
    return seen;
}

TEST(a_watcher_of_a_member_that_was_behind_misses_nothing_and_hears_nothing_twice)
{
    struct alone t;
    struct visit live, soon, next, later;
    alone_open(&t);
    watch_from(&t, &live, 2);
    watch_from(&t, &soon, t.revision + 7); /* the image has it */
    watch_from(&t, &next, t.revision + ALONE_AHEAD + 1);
    watch_from(&t, &later, t.revision + ALONE_AHEAD + 3);
    cluster_rig_for_ms(&t.r, 100);

    sender_send(&t.sender, &t.shot);
    while (server_installed(alone_member(&t)) == 0) {
        if (server_received(alone_member(&t)) > 0) { /* all the time while it is exchanged */
            ask_progress(&t, &live);
            ask_progress(&t, &soon);
        }
        sender_step(&t.sender);
    }
    ask_progress(&t, &live);
    ask_progress(&t, &soon);
    while (!server_status(alone_member(&t)).is_leader)
        sender_step(&t.sender);
    ask_progress(&t, &live);
    ask_progress(&t, &soon);
    for (unsigned i = 0; i < 4; i++)
        cluster_rig_put(&t.r, 1, "k", "later");
    cluster_rig_for_ms(&t.r, 1000);

    int64_t end = t.revision + ALONE_AHEAD + 5;
    struct seen seen = check_events(&live, 2);
    CHECK_EQ(seen.next, end);
    CHECK(seen.progress > 0);
    seen = check_events(&soon, t.revision + 7);
    CHECK_EQ(seen.next, end);
    CHECK(seen.progress > 0);
    CHECK_EQ(check_events(&next, t.revision + ALONE_AHEAD + 1).next, end);
    CHECK_EQ(check_events(&later, t.revision + ALONE_AHEAD + 3).next, end);

    visit_free(&live);
    visit_free(&soon);
    visit_free(&next);
    visit_free(&later);
    alone_close(&t);
}

static void remove_first(struct rig_bucket *b, size_t count)
{
    for (size_t i = count; i < b->count; i++)
        b->entries[i - count] = b->entries[i];
    b->count -= count;
}

TEST(a_watcher_below_the_compact_revision_of_a_snapshot_is_cancelled_and_others_go_on)
{
    struct alone t;
    struct visit live, below, at;
    alone_open(&t);
    int64_t compact = t.revision + 10;
    struct rig_bucket *keys = &t.shot.buckets[BUCKET_KEY];
    size_t gone = 0;
    while (bytes_compare(keys->entries[gone].key, shot_revision_key(&t.shot, compact)) < 0)
        gone++;
    remove_first(keys, gone);
    shot_insert(&t.shot, BUCKET_META, BYTES("finishedCompactRev"),
                shot_revision_key(&t.shot, compact));
    shot_insert(&t.shot, BUCKET_META, BYTES("scheduledCompactRev"),
                shot_revision_key(&t.shot, compact));
    shot_write(&t.shot);
    watch_from(&t, &live, 2);
    watch_from(&t, &below, compact - 1);
    watch_from(&t, &at, compact + 1);
    cluster_rig_for_ms(&t.r, 100);

    alone_check_taken(&t);
    cluster_rig_for_ms(&t.r, 1000);

    struct seen seen = check_events(&live, 2);
    CHECK_EQ(seen.next, t.revision + 1);
    CHECK_EQ(seen.compact_revision, compact);
    seen = check_events(&below, compact - 1);
    CHECK_EQ(seen.next, compact - 1);
    CHECK_EQ(seen.compact_revision, compact);
    seen = check_events(&at, compact + 1);
    CHECK_EQ(seen.next, t.revision + ALONE_AHEAD + 2);
    CHECK_EQ(seen.compact_revision, 0);

    visit_free(&live);
    visit_free(&below);
    visit_free(&at);
    alone_close(&t);
}

/* --- members --- */

/* Leaves a member out of the image, which knows that it was removed, or does not know of it. */
static void leave_out(struct shot *p, uint64_t id, bool was_removed)
{
    struct raft_ids *voters = &p->snapshot.conf_state.voters;
    struct rig_bucket *members = &p->buckets[BUCKET_MEMBERS];
    char name[17];

    snprintf(name, sizeof(name), "%016llx", (unsigned long long)id);
    for (size_t i = 0; i < voters->count; i++)
        if (voters->at[i] == id)
            voters->at[i] = voters->at[--voters->count];
    for (size_t i = 0; i < members->count; i++) {
        struct bytes key = members->entries[i].key;
        if (!bytes_equal(key, bytes_of_str(name)) &&
            !bytes_equal(key, bytes_of_str(name + strspn(name, "0"))))
            continue;
        if (was_removed)
            shot_insert(p, BUCKET_MEMBERS_REMOVED, key, BYTES("removed"));
        members->entries[i] = members->entries[--members->count];
        break;
    }
    CHECK_EQ(members->count, 2);
    if (bytes_compare(members->entries[0].key, members->entries[1].key) > 0) {
        struct rig_entry swap = members->entries[0];
        members->entries[0] = members->entries[1];
        members->entries[1] = swap;
    }
    shot_write(p);
}

/* The one who is behind takes an image that has not the third of them, whose number is returned. */
static unsigned take_without_third(struct stage *t, bool was_removed)
{
    struct peer_status status;
    unsigned third = 6 - t->leader - t->behind;
    uint64_t gone = receiving_rig_id(&t->r, third);
    struct server *s = stage_behind(t);

    leave_out(&t->shot, gone, was_removed);
    CHECK(peers_status(s->peering.peers, gone, &status));
    sender_send(&t->sender, &t->shot);
    while (server_installed(s) == 0)
        sender_step(&t->sender);
    sender_until_over(&t->sender);
    CHECK_EQ(t->sender.sent, 1);
    CHECK(!peers_status(s->peering.peers, gone, &status));
    CHECK(peers_status(s->peering.peers, receiving_rig_id(&t->r, t->leader), &status));
    CHECK_EQ(s->conf_state.voters.count, 2);
    return third;
}

/* The third was removed while this one was away. */
TEST(a_member_that_was_removed_before_the_snapshot_is_gone_for_good)
{
    struct stage t;
    stage_open(&t);
    unsigned third = take_without_third(&t, true);

    client_close(t.r.at[third]->client);
    t.r.at[third]->client = NULL;
    /* It is told, and ends. */
    while (!cluster_rig_logged(&t.r, third, "permanently removed from the cluster"))
        sender_step(&t.sender);
    stage_close(&t);
}

/* Who joins knows the members by somebody's word, and the image may be of a moment before that. */
TEST(a_member_that_the_snapshot_does_not_know_yet_is_not_told_that_it_was_removed)
{
    struct stage t;
    stage_open(&t);
    unsigned third = take_without_third(&t, false);

    for (uint64_t until_ms = cluster_rig_now_ms(&t.r) + 3000; cluster_rig_now_ms(&t.r) < until_ms;)
        sender_step(&t.sender);

    CHECK(!cluster_rig_logged(&t.r, third, "permanently removed from the cluster"));
    stage_close(&t);
}

/* --- etcd's own --- */

/* An etcd that is the same member of the same cluster, by its URL, and has come further. */
static void run_etcd(struct peer *etcd, struct arena *arena)
{
    peer_open(etcd, arena_printf(arena, "%s/etcd", test_tmp_dir()));
    etcd->advertised_url = "http://10.0.0.1:2380";
    peer_start(etcd, "--snapshot-count 10");
    for (unsigned i = 0; i < 30; i++)
        PEER_CTL(etcd, "put k%u value%u", i % 7, i);
    PEER_CTL(etcd, "lease grant 3600 >/dev/null; $PEERS/etcdctl --endpoints %s del k3",
             etcd->client_url);
    PEER_CTL(etcd, "compact 20 --physical");
    PEER_CTL(etcd, "put k9 last");
}

/* What a leader would post: the file that it has saved, without the digest at its end. */
static void take_from_etcd(struct shot *p, struct peer *etcd, struct alone *t)
{
    const char *path = arena_printf(&etcd->arena, "%s/saved", test_tmp_dir());
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct db db = {0};
    struct buf why = {0};

    PEER_CTL(etcd, "snapshot save %s", path);
    buf_clear(&p->image);
    rig_read_file(path, &p->image);
    bolt_memory_init(&memory, buf_bytes(&p->image));
    CHECK_EQ(bolt_check_digest(&memory.source, &fault), ERR_OK);
    p->image.len = memory.source.size;

    struct disk *disk = t->r.at[1]->io.disk;
    CHECK_EQ(disk_write_file(disk, "/saved", 0600, buf_bytes(&p->image)), ERR_OK);
    CHECK_EQ(db_open(&db,
                     &(struct db_options){
                         .disk = disk, .path = "/saved", .kind = BOLT_IMAGE, .why = &why}),
             ERR_OK);
    p->snapshot.index = db.position.index;
    p->snapshot.term = db.position.term;
    db_close(&db);
    buf_free(&why);
}

TEST(a_snapshot_that_real_etcd_has_made_is_taken)
{
    struct peer etcd;
    struct alone t;
    struct mvcc_hash h = {0};
    peer_need();
    alone_open(&t);
    run_etcd(&etcd, &t.shot.arena);
    take_from_etcd(&t.shot, &etcd, &t);
    CHECK(t.shot.snapshot.index > server_status(alone_member(&t)).committed);

    sender_send(&t.sender, &t.shot);
    sender_until_over(&t.sender);
    alone_until_idle(&t);

    CHECK_EQ(t.sender.sent, 1);
    CHECK_EQ(server_installed(alone_member(&t)), 1);
    struct mvcc *mvcc = alone_member(&t)->state.mvcc;
    const char *json = PEER_CTL(&etcd, "endpoint hashkv -w json 2>/dev/null");
    h.revision = mvcc_revision(mvcc);
    CHECK_EQ(mvcc_hash_open(mvcc, &h), MVCC_OK);
    while (!mvcc_hash_some(mvcc, &h, 100))
        ;
    CHECK_EQ(h.hash, peer_json_number(json, "hash"));
    CHECK_EQ(h.compact_revision, peer_json_number(json, "compact_revision"));
    CHECK_EQ(h.revision, peer_json_number(json, "revision"));
    mvcc_hash_close(mvcc, &h);
    CHECK_STR(cluster_rig_get(&t.r, 1, "k9", true), "last");
    CHECK_STR(receiving_rig_files(&t.r, 1), "");

    cluster_rig_crash(&t.r, 1);
    cluster_rig_start(&t.r, 1);
    cluster_rig_until_ready(&t.r, 1);
    CHECK_STR(cluster_rig_get(&t.r, 1, "k9", false), "last");
    peer_stop(&etcd);
    peer_close(&etcd);
    alone_close(&t);
}
