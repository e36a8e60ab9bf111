/* Snapshots that come: taken, refused, given up, and what a crash leaves of them. */
#include "backend/backend.h"
#include "base/mem.h"
#include "harness/peer_test.h"
#include "mvcc/mvcc.h"
#include "peer/peer.h"
#include "raft/raft.h"
#include "server/cluster_rig_test.h"
#include "server/digest.h"
#include "server/server_int.h"
#include "snap/bolt_rig_test.h"
#include "snap/db.h"

#include <stdio.h>

/* --- somebody who sends them, in another member's name --- */

struct sender {
    struct cluster_rig *r;
    struct fake_resolver resolver;
    struct io io;
    struct logger logger;
    struct peers *peers;
    uint64_t to;
    struct bytes image;
    size_t sent_bytes;
    unsigned begun, sent, failed;
};

static uint64_t id_of(struct cluster_rig *r, unsigned n)
{
    return server_status(r->at[n]->server).member_id;
}

static void sender_open(struct sender *s, struct cluster_rig *r, uint64_t self, unsigned to)
{
    char url[40];
    const char *urls[] = {url};

    *s = (struct sender){
        .r = r, .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    fake_resolver_init(&s->resolver, &r->time, &r->client_inbox);
    s->io = r->client_io;
    s->io.resolver = &s->resolver.base;
    s->to = id_of(r, to);
    s->peers = peers_open(
        &(struct peers_options){.io = &s->io,
                                .logger = &s->logger,
                                .self = self,
                                .cluster_id = server_status(r->at[to]->server).cluster_id,
                                .urls = "http://10.0.1.1:2380",
                                .version = SERVER_VERSION,
                                .seed = test_seed(),
                                .heartbeat_ms = 100,
                                .election_ms = 1000});
    snprintf(url, sizeof(url), "http://10.0.0.%u:2380", to);
    peers_add(s->peers, s->to, urls, 1);
}

static void sender_close(struct sender *s)
{
    peers_stop(s->peers);
    while (!peers_is_idle(s->peers))
        cluster_rig_step(s->r);
    peers_close(s->peers);
}

/* One step of the world, and of what is being sent. */
static void sender_step(struct sender *s)
{
    struct peer_event e;

    size_t credit = peers_snapshot_credit(s->peers, s->to), left = s->image.len - s->sent_bytes;
    if (credit > left)
        credit = left;
    if (credit > 0) {
        peers_snapshot_write(s->peers, s->to, bytes_of(s->image.at + s->sent_bytes, credit));
        s->sent_bytes += credit;
    }
    peers_flush(s->peers);
    cluster_rig_step(s->r);
    while (peers_take(s->peers, &e)) {
        s->sent += e.kind == PEER_SNAPSHOT_SENT;
        s->failed += e.kind == PEER_SNAPSHOT_FAILED;
        peer_event_free(&e);
    }
    while (peers_take_append(s->peers, &e))
        peer_event_free(&e);
}

/* --- images --- */

/* A member's state as etcd's file, and what a MsgSnap says of it. */
struct shot {
    struct arena arena;
    struct rig_bucket buckets[BUCKET_COUNT];
    struct raft_snapshot snapshot;
    struct buf image;
    uint64_t from, term;
};

static void shot_write(struct shot *p)
{
    buf_clear(&p->image);
    rig_write(p->buckets, BUCKET_COUNT, NULL, &p->image);
}

static void shot_take(struct shot *p, struct cluster_rig *r, unsigned n)
{
    struct server *s = r->at[n]->server;
    struct backend_view v;
    struct bytes key, value;

    *p = (struct shot){.from = id_of(r, n), .term = server_status(s).term};
    backend_view_open(s->state.backend, &v);
    for (int b = 0; b < BUCKET_COUNT; b++) {
        struct backend_cursor c;
        p->buckets[b].name = bytes_of_str(bucket_name((enum bucket)b));
        backend_cursor_open(&v, (enum bucket)b, (struct bytes){0}, &c);
        while (backend_cursor_next(&c, &key, &value) == ERR_OK)
            rig_add(&p->buckets[b], arena_copy(&p->arena, key), arena_copy(&p->arena, value));
        backend_cursor_close(&c);
    }
    backend_view_close(&v);
    p->snapshot = (struct raft_snapshot){.index = s->facts.applied_index,
                                         .term = s->facts.applied_term,
                                         .conf_state = s->conf_state};
    shot_write(p);
}

static void shot_free(struct shot *p)
{
    rig_free(p->buckets, BUCKET_COUNT);
    buf_free(&p->image);
    arena_free(&p->arena);
}

/* Until there is a response, or the connection has gone. */
static void until_over(struct sender *s)
{
    while (s->sent + s->failed < s->begun)
        sender_step(s);
}

static void send_some_of(struct sender *s, const struct shot *p, uint64_t announced, size_t bytes)
{
    struct raft_message m = {.type = RAFT_MSG_SNAP,
                             .from = p->from,
                             .to = s->to,
                             .term = p->term,
                             .snapshot = &p->snapshot};

    until_over(s); /* the last one, of which nobody waited to hear */
    s->image = bytes_of(p->image.at, bytes);
    s->sent_bytes = 0;
    s->begun++;
    peers_snapshot_begin(s->peers, &m, announced);
    peers_flush(s->peers);
}

static void send_shot(struct sender *s, const struct shot *p)
{
    send_some_of(s, p, p->image.len, p->image.len);
}

/* --- three members, of which one has missed too much --- */

enum { BEFORE = 3, MISSED = 60 };

static const char *const flags[] = {"--snapshot-count", "10", "--snapshot-catchup-entries", "5",
                                    NULL};

struct stage {
    struct cluster_rig r;
    unsigned leader, behind;
    struct sender sender;
    struct shot shot;
};

static void put_some(struct stage *t, unsigned count)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%03u", i);
        cluster_rig_put(&t->r, t->leader, key, "value");
    }
}

static void stage_open(struct stage *t)
{
    *t = (struct stage){0};
    cluster_rig_open(&t->r, 3, flags);
    cluster_rig_start_all(&t->r);
    t->leader = cluster_rig_leader(&t->r);
    put_some(t, BEFORE);
    t->behind = cluster_rig_follower(&t->r);
    cluster_rig_until_equal(&t->r, t->leader);
    cluster_rig_cut(&t->r, t->behind, true);
    put_some(t, MISSED);
    cluster_rig_for_ms(&t->r, 1000); /* the log is released meanwhile */
    CHECK(server_status(t->r.at[t->leader]->server).log_base >
          server_status(t->r.at[t->behind]->server).log_last);
    shot_take(&t->shot, &t->r, t->leader);
    cluster_rig_cut(&t->r, t->behind, false);
    sender_open(&t->sender, &t->r, t->shot.from, t->behind);
}

static void stage_close(struct stage *t)
{
    sender_close(&t->sender);
    shot_free(&t->shot);
    cluster_rig_close(&t->r);
}

static struct server *behind(struct stage *t)
{
    return t->r.at[t->behind]->server;
}

/* What lies in its folder of snapshots, but for .snap files. */
static const char *files_of(struct cluster_rig *r, unsigned n)
{
    static char kept[512];
    struct buf names = {0}, text = {0};

    CHECK_EQ(disk_list(r->at[n]->io.disk, "/data/member/snap", 1 * MIB, &names), ERR_OK);
    struct bytes left = buf_bytes(&names);
    for (const char *name; (name = disk_next_name(&left));)
        if (strlen(name) != SNAPFILE_NAME_BYTES - 1)
            buf_printf(&text, "%s ", name);
    snprintf(kept, sizeof(kept), "%s", buf_str(&text));
    buf_free(&names);
    buf_free(&text);
    return kept;
}

static void check_same_digest(const struct digest *a, const struct digest *b)
{
    CHECK_EQ(a->applied, b->applied);
    CHECK_EQ(a->revision, b->revision);
    CHECK_EQ(a->compact_revision, b->compact_revision);
    for (size_t i = 0; i < DIGEST_PARTS; i++)
        CHECK_EQ(a->parts[i], b->parts[i]);
}

static void check_equal(struct stage *t)
{
    struct digest a, b;

    cluster_rig_until_equal(&t->r, t->leader);
    CHECK(server_digest(t->r.at[t->leader]->server, &a));
    CHECK(server_digest(behind(t), &b));
    check_same_digest(&a, &b);
}

TEST(a_member_that_is_behind_takes_a_snapshot_and_goes_on_from_it)
{
    struct stage t;
    stage_open(&t);

    send_shot(&t.sender, &t.shot);
    until_over(&t.sender);

    CHECK_EQ(t.sender.sent, 1);
    CHECK_EQ(server_received(behind(&t)), 1); /* and raft has it when that is told */
    while (server_installed(behind(&t)) == 0)
        sender_step(&t.sender);
    CHECK_EQ(server_status(behind(&t)).log_base, t.shot.snapshot.index);
    CHECK_STR(cluster_rig_get(&t.r, t.behind, "k059", true), "value");
    put_some(&t, 20);
    check_equal(&t);
    CHECK_STR(files_of(&t.r, t.behind), "");
    CHECK(cluster_rig_logged(&t.r, t.behind, "received and saved database snapshot"));
    CHECK(cluster_rig_logged(&t.r, t.behind, "applying snapshot"));
    CHECK(cluster_rig_logged(&t.r, t.behind, "applied snapshot"));
    struct buf metrics = {0};
    metrics_text(behind(&t), &metrics);
    CHECK(strstr(buf_str(&metrics), "\netcd_snap_db_save_total_duration_seconds_count 1\n"));
    CHECK(strstr(buf_str(&metrics), "\netcd_snap_db_fsync_duration_seconds_count 1\n"));
    buf_free(&metrics);

    cluster_rig_stop(&t.r, t.behind);
    cluster_rig_start(&t.r, t.behind);
    check_equal(&t);
    CHECK(!cluster_rig_logged(&t.r, t.behind, "failed to read WAL"));
    stage_close(&t);
}

/* --- a member that is alone, and a sender who knows what is to come --- */

enum { STRANGER = 0x77, PUTS = 5, AHEAD = 20 };

static void put_be64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (56 - 8 * i));
}

static struct bytes revision_key(struct shot *p, int64_t main)
{
    uint8_t *key = arena_alloc(&p->arena, 17);

    put_be64(key, (uint64_t)main);
    key[8] = '_';
    put_be64(key + 9, 0);
    return bytes_of(key, 17);
}

static struct rig_entry *find_entry(struct shot *p, enum bucket bucket, const char *key)
{
    struct rig_bucket *b = &p->buckets[bucket];

    for (size_t i = 0; i < b->count; i++)
        if (bytes_equal(b->entries[i].key, bytes_of_str(key)))
            return &b->entries[i];
    test_fail(__FILE__, __LINE__, "no %s", key);
}

/* Where it belongs. */
static void insert_entry(struct shot *p, enum bucket bucket, struct bytes key, struct bytes value)
{
    struct rig_bucket *b = &p->buckets[bucket];
    size_t at = b->count;

    rig_add(b, key, value);
    for (; at > 0 && bytes_compare(b->entries[at - 1].key, key) > 0; at--)
        b->entries[at] = b->entries[at - 1];
    b->entries[at] = (struct rig_entry){key, value};
}

static void remove_first(struct rig_bucket *b, size_t count)
{
    for (size_t i = count; i < b->count; i++)
        b->entries[i - count] = b->entries[i];
    b->count -= count;
}

static void set_number(struct shot *p, const char *key, uint64_t value)
{
    uint8_t *at = arena_alloc(&p->arena, 8);

    put_be64(at, value);
    find_entry(p, BUCKET_META, key)->value = bytes_of(at, 8);
}

static void set_position(struct shot *p, uint64_t index, uint64_t term)
{
    p->snapshot.index = index;
    p->snapshot.term = term;
    set_number(p, "consistent_index", index);
    set_number(p, "term", term);
}

/* So many puts of "k" further on, in the next term. */
static void look_ahead(struct shot *p, int64_t revision, unsigned count, size_t value_bytes)
{
    uint8_t *value = arena_alloc(&p->arena, value_bytes);

    for (unsigned i = 1; i <= count; i++) {
        struct buf kv = {0};
        struct pb_key_value put = {.key = BYTES("k"),
                                   .create_revision = 2,
                                   .mod_revision = revision + i,
                                   .version = revision - 1 + i,
                                   .value = bytes_of(value, value_bytes)};
        pb_encode_key_value(&put, &kv);
        rig_add(&p->buckets[BUCKET_KEY], revision_key(p, revision + i),
                arena_copy(&p->arena, buf_bytes(&kv)));
        buf_free(&kv);
    }
    p->from = STRANGER;
    p->term++;
    set_position(p, p->snapshot.index + count, p->term);
}

struct alone {
    struct cluster_rig r;
    struct sender sender;
    struct shot shot;
    int64_t revision; /* before */
};

static struct server *member(struct alone *t)
{
    return t->r.at[1]->server;
}

static void alone_look_ahead(struct alone *t, size_t value_bytes)
{
    shot_free(&t->shot);
    shot_take(&t->shot, &t->r, 1);
    t->revision = server_status(member(t)).revision;
    look_ahead(&t->shot, t->revision, AHEAD, value_bytes);
    shot_write(&t->shot);
}

static void alone_start(struct alone *t, const char *const *with_flags)
{
    *t = (struct alone){0};
    cluster_rig_open(&t->r, 1, with_flags);
    cluster_rig_start_all(&t->r);
    for (unsigned i = 0; i < PUTS; i++)
        cluster_rig_put(&t->r, 1, "k", "v");
    cluster_rig_for_ms(&t->r, 1000); /* it has nothing to do any more */
    alone_look_ahead(t, 100);
    sender_open(&t->sender, &t->r, STRANGER, 1);
}

static void alone_open(struct alone *t)
{
    alone_start(t, NULL);
}

static void alone_close(struct alone *t)
{
    sender_close(&t->sender);
    shot_free(&t->shot);
    cluster_rig_close(&t->r);
}

static void until_idle(struct alone *t)
{
    until_over(&t->sender);
    while (!receiving_is_idle(&member(t)->receiving) || install_is_busy(&member(t)->install))
        sender_step(&t->sender);
}

/* It is taken, and the member goes on from there. */
static void check_taken(struct alone *t)
{
    uint64_t before = server_installed(member(t));

    send_shot(&t->sender, &t->shot);
    until_over(&t->sender);
    until_idle(t);
    CHECK_EQ(server_installed(member(t)), before + 1);
    CHECK_EQ(server_status(member(t)).revision, t->revision + AHEAD);
    while (!server_status(member(t)).is_leader) /* of the cluster that it is alone in */
        sender_step(&t->sender);
    cluster_rig_put(&t->r, 1, "k", "later");
    CHECK_EQ(server_status(member(t)).revision, t->revision + AHEAD + 1);
    CHECK_STR(files_of(&t->r, 1), "");
}

/* Sends it, and it is refused for this reason; nothing has changed. */
static void check_refused(struct alone *t, const char *why)
{
    struct digest before, after;
    struct server_status status = server_status(member(t));
    unsigned failed = t->sender.failed;

    CHECK(server_digest(member(t), &before));
    buf_clear(&t->r.at[1]->logged);
    send_shot(&t->sender, &t->shot);
    until_over(&t->sender);
    until_idle(t);

    CHECK_EQ(t->sender.failed, failed + 1);
    CHECK_EQ(server_received(member(t)), 0);
    CHECK(cluster_rig_logged(&t->r, 1, "failed to save incoming database snapshot"));
    if (!cluster_rig_logged(&t->r, 1, why))
        test_fail(__FILE__, __LINE__, "not \"%s\" but: %s", why, buf_str(&t->r.at[1]->logged));
    CHECK(server_digest(member(t), &after));
    check_same_digest(&before, &after);
    CHECK_EQ(server_status(member(t)).log_last, status.log_last);
    CHECK_EQ(server_status(member(t)).term, status.term);
    CHECK_STR(files_of(&t->r, 1), "");
}

TEST(a_snapshot_of_a_later_leader_is_taken_by_a_member_that_was_alone)
{
    struct alone t;
    alone_open(&t);

    check_taken(&t);
    cluster_rig_stop(&t.r, 1);
    cluster_rig_start(&t.r, 1);
    cluster_rig_until_ready(&t.r, 1);

    CHECK_STR(cluster_rig_get(&t.r, 1, "k", false), "later");
    alone_look_ahead(&t, 100); /* and once more, in the next life */
    check_taken(&t);
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
    check_refused(&t, ".snap.db: offset 16: the file ends before its meta");
    image->len = 5000;
    check_refused(&t, ".snap.db: offset ");
    image->len = sound.len - 4096;
    check_refused(&t, ".snap.db: offset ");
    image->len = sound.len;
    image->at[16 + 8] ^= 1; /* in the first meta, which has a hash */
    check_refused(&t, ".snap.db: offset ");
    image->at[16 + 8] ^= 1;
    buf_append(image, BYTES("one byte more, or some"));
    check_refused(&t, ".snap.db: offset ");
    image->len = sound.len;

    uint8_t *branch = find_page(image, PAGE_BRANCH, 0);
    memcpy(&own, branch, sizeof(own));
    memcpy(branch + 16 + 8, &own, sizeof(own)); /* its first child is itself */
    check_refused(&t, ".snap.db: offset ");
    memcpy(image->at, sound.at, sound.len);
    branch = find_page(image, PAGE_BRANCH, 0);
    memcpy(branch + 32 + 8, branch + 16 + 8, 8); /* its second child is its first */
    check_refused(&t, ".snap.db: offset ");
    memcpy(image->at, sound.at, sound.len);
    uint8_t *leaf = find_page(image, PAGE_LEAF, 1);
    memset(leaf + 16, 0xff, 16);
    check_refused(&t, ".snap.db: offset ");

    memcpy(image->at, sound.at, sound.len);
    check_taken(&t);
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
    check_refused(&t, "its consistent index");
    p->snapshot.index = index;
    p->snapshot.term = term - 1;
    check_refused(&t, "its consistent index");
    p->snapshot.term = term;
    p->snapshot.conf_state.voters.at[p->snapshot.conf_state.voters.count++] = 0x1234;
    check_refused(&t, "its members are not those");
    p->snapshot.conf_state.voters.count--;
    p->snapshot.conf_state.learners = (struct raft_ids){.count = 1, .at = {0x1234}};
    check_refused(&t, "its members are not those");
    p->snapshot.conf_state.learners.count = 0;
    p->snapshot.conf_state.voters_outgoing = p->snapshot.conf_state.voters;
    check_refused(&t, "its members are not those");
    p->snapshot.conf_state.voters_outgoing.count = 0;

    check_taken(&t);
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
            check_refused(&t, cases[i].why);
        else
            check_taken(&t); /* a key that we do not know does no harm */

        alone_close(&t);
    }
}

TEST(a_note_of_our_own_is_refused_in_an_image)
{
    struct alone t;
    alone_open(&t);
    insert_entry(&t.shot, BUCKET_META, BYTES("cleatPart"), BYTES("\5k"));
    shot_write(&t.shot);

    check_refused(&t, "a note of work that a running member is to do");

    alone_close(&t);
}

/* Or the leader would send it for ever, and nobody would look why this member does not come back.
 */
TEST(a_state_that_we_cannot_execute_ends_the_member)
{
    struct alone t;
    alone_open(&t);
    t.r.at[1]->may_fail = true;
    find_entry(&t.shot, BUCKET_META, "storageVersion")->value = BYTES("3.9.0");
    shot_write(&t.shot);

    send_shot(&t.sender, &t.shot);
    while (!t.r.at[1]->failed && t.sender.failed + t.sender.sent == 0)
        sender_step(&t.sender);

    CHECK(t.r.at[1]->failed);
    CHECK_STR(
        buf_str(&t.r.at[1]->why),
        "cannot go on from the leader's snapshot: Failed to validate schema: version \"3.9.0\" is "
        "not supported");
    CHECK_STR(files_of(&t.r, 1), "");
    cluster_rig_crash(&t.r, 1);
    alone_close(&t);
}

/* Raft answers the leader how far this member is, and nothing of the image is read. */
TEST(a_snapshot_that_is_not_above_what_is_committed_is_told_to_raft_and_not_read)
{
    struct alone t;
    struct digest before, after;
    alone_open(&t);
    CHECK(server_digest(member(&t), &before));
    t.shot.snapshot.index = server_status(member(&t)).committed;

    send_shot(&t.sender, &t.shot);
    until_over(&t.sender);

    CHECK_EQ(t.sender.sent, 1);
    CHECK_EQ(t.sender.sent_bytes < t.shot.image.len || t.shot.image.len < 300000, true);
    CHECK_EQ(server_received(member(&t)), 0);
    CHECK(receiving_is_idle(&member(&t)->receiving));
    CHECK(server_digest(member(&t), &after));
    check_same_digest(&before, &after);

    t.shot.snapshot.index += AHEAD;
    t.shot.snapshot.conf_state.voters = (struct raft_ids){.count = 1, .at = {0x1234}};
    send_shot(&t.sender, &t.shot);
    until_over(&t.sender);

    CHECK_EQ(t.sender.sent, 2);
    CHECK_EQ(server_received(member(&t)), 0);
    alone_close(&t);
}

TEST(a_hundred_gigabytes_that_do_not_come_leave_nothing)
{
    struct alone t;
    alone_open(&t);
    alone_look_ahead(&t, 60000);

    send_some_of(&t.sender, &t.shot, 100ull << 30, 1000000);
    until_over(&t.sender);
    until_idle(&t);

    CHECK_EQ(t.sender.failed, 1);
    CHECK(cluster_rig_logged(&t.r, 1, "the sender has gone"));
    CHECK_STR(files_of(&t.r, 1), "");
    check_taken(&t);
    alone_close(&t);
}

/* --- one instead of another --- */

static void until_step(struct alone *t, enum receiving_step step)
{
    while (member(t)->receiving.step != step)
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

        send_shot(&t.sender, &t.shot);
        until_step(&t, when[i]);
        t.shot.from = 0x78;
        send_shot(&other, &t.shot); /* of the same term: no */
        until_over(&other);
        CHECK_EQ(other.failed, 1);
        CHECK(cluster_rig_logged(&t.r, 1, "another one is being received"));
        if (member(&t)->receiving.step == when[i]) {
            t.shot.term++;
            send_shot(&other, &t.shot);
            until_over(&other);
            CHECK_EQ(other.sent, 1);
            CHECK(cluster_rig_logged(&t.r, 1, "another one has begun"));
            CHECK_EQ(t.sender.sent, 0);
        }
        until_idle(&t);

        CHECK_EQ(server_installed(member(&t)), 1);
        CHECK_STR(files_of(&t.r, 1), "");
        sender_close(&other);
        alone_close(&t);
    }
}

/* In the turn in which raft has it, and before what raft has to say of it is taken. */
TEST(a_snapshot_of_a_later_term_is_turned_away_when_raft_has_just_taken_one)
{
    struct alone t;
    alone_open(&t);
    struct server *s = member(&t);
    struct raft_snapshot later = t.shot.snapshot;
    struct raft_message m = {.type = RAFT_MSG_SNAP,
                             .from = t.shot.from,
                             .to = t.sender.to,
                             .term = t.shot.term + 1,
                             .snapshot = &later};

    later.index++;
    t.r.at[1]->workers.delay =
        (struct fake_delay){.min_ns = 2000 * NS_PER_MS, .max_ns = 2000 * NS_PER_MS};
    send_shot(&t.sender, &t.shot);
    until_step(&t, RECEIVING_BUILDING);
    fake_workers_finish(&t.r.at[1]->workers);
    while (!s->receiving.is_done)
        CHECK(inbox_drain(s->io->inbox, 1) > 0);
    receiving_some(s);
    CHECK_EQ(s->receiving.step, RECEIVING_OFFERED);
    receiving_hear(
        s, &(struct peer_event){.kind = PEER_SNAPSHOT_BEGIN, .id = UINT64_MAX, .message = &m});
    until_idle(&t);

    CHECK(cluster_rig_logged(&t.r, 1, "another one is being received"));
    CHECK_EQ(server_installed(s), 1);
    CHECK(!s->receiving.next.message);
    alone_close(&t);
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
        send_shot(&t.sender, &t.shot);
        while (t.sender.failed + t.sender.sent == 0 && !t.r.at[1]->failed)
            sender_step(&t.sender);

        if (t.sender.failed == 0 || t.r.at[1]->failed) {
            cluster_rig_crash(&t.r, 1);
            alone_close(&t);
            break;
        }
        refused++;
        CHECK(cluster_rig_logged(&t.r, 1, "no space left on device"));
        until_idle(&t);
        CHECK_STR(files_of(&t.r, 1), "");
        check_taken(&t); /* when there is space again */
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

    send_shot(&t->sender, &t->shot);
    while (t->sender.failed + t->sender.sent == 0) {
        sender_step(&t->sender);
        least = space_of(t) < least ? space_of(t) : least;
    }
    CHECK_EQ(t->sender.failed, 1);
    until_idle(t);
    CHECK(cluster_rig_logged(&t->r, 1, "bytes of space are needed"));
    CHECK(least + 2 * RECEIVING_WINDOW_BYTES >= before);
    CHECK_EQ(space_of(t), before);
    CHECK_STR(files_of(&t->r, 1), "");
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
    check_taken(&t);
    alone_close(&t);
}

/* Others write to the disk meanwhile, too; and etcd does not say how long an image is. */
TEST(a_snapshot_is_refused_when_the_disk_gets_too_small_while_it_comes)
{
    struct alone t;
    alone_open(&t);
    alone_look_ahead(&t, 1000000);

    send_shot(&t.sender, &t.shot);
    while (member(&t)->receiving.bytes < t.shot.image.len / 2)
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
    until_idle(&t);
    CHECK_STR(files_of(&t.r, 1), "");
    fake_disk_set_space(t.r.at[1]->disk, FAKE_DISK_NOT_FULL);
    check_taken(&t);
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
        send_shot(&t.sender, &t.shot);
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
        until_idle(&t);
        CHECK_STR(files_of(&t.r, 1), "");
        check_taken(&t);
        alone_close(&t);
    }
    CHECK(refused >= 2);
}

/* --- the end, and crashes --- */

TEST(a_member_stops_while_a_snapshot_comes_or_is_looked_at)
{
    for (unsigned steps = 0; steps < 60; steps += 3) {
        struct alone t;
        alone_open(&t);

        send_shot(&t.sender, &t.shot);
        for (unsigned i = 0; i < steps; i++)
            sender_step(&t.sender);
        cluster_rig_stop(&t.r, 1);
        until_over(&t.sender);

        CHECK_STR(files_of(&t.r, 1), "");
        cluster_rig_start(&t.r, 1);
        cluster_rig_until_ready(&t.r, 1);
        alone_look_ahead(&t, 100);
        check_taken(&t);
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
        send_shot(&t.sender, &t.shot);
        for (unsigned i = 0; i < steps && server_installed(member(&t)) == 0; i++)
            sender_step(&t.sender);
        is_over = server_installed(member(&t)) > 0;
        bool had_file = *files_of(&t.r, 1) != 0;

        cluster_rig_crash(&t.r, 1);
        until_over(&t.sender); /* or it would be heard by the next life */
        cluster_rig_start(&t.r, 1);
        cluster_rig_until_ready(&t.r, 1);

        int64_t revision = server_status(member(&t)).revision;
        CHECK(revision == t.revision || revision == t.revision + AHEAD);
        CHECK(!is_over || revision == t.revision + AHEAD);
        news += revision > t.revision && !is_over;
        olds += revision == t.revision;
        cleaned += had_file;
        CHECK_STR(files_of(&t.r, 1), "");
        alone_look_ahead(&t, 100);
        check_taken(&t); /* what is left over is in nobody's way */
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
    watch_from(&t, &next, t.revision + AHEAD + 1);
    watch_from(&t, &later, t.revision + AHEAD + 3);
    cluster_rig_for_ms(&t.r, 100);

    send_shot(&t.sender, &t.shot);
    while (server_installed(member(&t)) == 0) {
        if (server_received(member(&t)) > 0) { /* all the time while it is exchanged */
            ask_progress(&t, &live);
            ask_progress(&t, &soon);
        }
        sender_step(&t.sender);
    }
    ask_progress(&t, &live);
    ask_progress(&t, &soon);
    while (!server_status(member(&t)).is_leader)
        sender_step(&t.sender);
    ask_progress(&t, &live);
    ask_progress(&t, &soon);
    for (unsigned i = 0; i < 4; i++)
        cluster_rig_put(&t.r, 1, "k", "later");
    cluster_rig_for_ms(&t.r, 1000);

    int64_t end = t.revision + AHEAD + 5;
    struct seen seen = check_events(&live, 2);
    CHECK_EQ(seen.next, end);
    CHECK(seen.progress > 0);
    seen = check_events(&soon, t.revision + 7);
    CHECK_EQ(seen.next, end);
    CHECK(seen.progress > 0);
    CHECK_EQ(check_events(&next, t.revision + AHEAD + 1).next, end);
    CHECK_EQ(check_events(&later, t.revision + AHEAD + 3).next, end);

    visit_free(&live);
    visit_free(&soon);
    visit_free(&next);
    visit_free(&later);
    alone_close(&t);
}

TEST(a_watcher_below_the_compact_revision_of_a_snapshot_is_cancelled_and_others_go_on)
{
    struct alone t;
    struct visit live, below, at;
    alone_open(&t);
    int64_t compact = t.revision + 10;
    struct rig_bucket *keys = &t.shot.buckets[BUCKET_KEY];
    size_t gone = 0;
    while (bytes_compare(keys->entries[gone].key, revision_key(&t.shot, compact)) < 0)
        gone++;
    remove_first(keys, gone);
    insert_entry(&t.shot, BUCKET_META, BYTES("finishedCompactRev"), revision_key(&t.shot, compact));
    insert_entry(&t.shot, BUCKET_META, BYTES("scheduledCompactRev"),
                 revision_key(&t.shot, compact));
    shot_write(&t.shot);
    watch_from(&t, &live, 2);
    watch_from(&t, &below, compact - 1);
    watch_from(&t, &at, compact + 1);
    cluster_rig_for_ms(&t.r, 100);

    check_taken(&t);
    cluster_rig_for_ms(&t.r, 1000);

    struct seen seen = check_events(&live, 2);
    CHECK_EQ(seen.next, t.revision + 1);
    CHECK_EQ(seen.compact_revision, compact);
    seen = check_events(&below, compact - 1);
    CHECK_EQ(seen.next, compact - 1);
    CHECK_EQ(seen.compact_revision, compact);
    seen = check_events(&at, compact + 1);
    CHECK_EQ(seen.next, t.revision + AHEAD + 2);
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
            insert_entry(p, BUCKET_MEMBERS_REMOVED, key, BYTES("removed"));
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
    uint64_t gone = id_of(&t->r, third);
    struct server *s = behind(t);

    leave_out(&t->shot, gone, was_removed);
    CHECK(peers_status(s->peering.peers, gone, &status));
    send_shot(&t->sender, &t->shot);
    while (server_installed(s) == 0)
        sender_step(&t->sender);
    until_over(&t->sender);
    CHECK_EQ(t->sender.sent, 1);
    CHECK(!peers_status(s->peering.peers, gone, &status));
    CHECK(peers_status(s->peering.peers, id_of(&t->r, t->leader), &status));
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
    PEER_CTL(etcd, "lease grant 3600 >/dev/null; " PEERS "etcdctl --endpoints %s del k3",
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
    CHECK(t.shot.snapshot.index > server_status(member(&t)).committed);

    send_shot(&t.sender, &t.shot);
    until_over(&t.sender);
    until_idle(&t);

    CHECK_EQ(t.sender.sent, 1);
    CHECK_EQ(server_installed(member(&t)), 1);
    struct mvcc *mvcc = member(&t)->state.mvcc;
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
    CHECK_STR(files_of(&t.r, 1), "");

    cluster_rig_crash(&t.r, 1);
    cluster_rig_start(&t.r, 1);
    cluster_rig_until_ready(&t.r, 1);
    CHECK_STR(cluster_rig_get(&t.r, 1, "k9", false), "last");
    peer_stop(&etcd);
    peer_close(&etcd);
    alone_close(&t);
}
