#include "server/receiving_rig_test.h"

#include "raft/raft.h"

#include <stdio.h>

uint64_t receiving_rig_id(struct cluster_rig *r, unsigned n)
{
    return server_status(r->at[n]->server).member_id;
}

const char *receiving_rig_files(struct cluster_rig *r, unsigned n)
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

void receiving_rig_same_digest(const struct digest *a, const struct digest *b)
{
    CHECK_EQ(a->applied, b->applied);
    CHECK_EQ(a->revision, b->revision);
    CHECK_EQ(a->compact_revision, b->compact_revision);
    for (size_t i = 0; i < DIGEST_PARTS; i++)
        CHECK_EQ(a->parts[i], b->parts[i]);
}

/* --- images --- */

void shot_write(struct shot *p)
{
    buf_clear(&p->image);
    rig_write(p->buckets, BUCKET_COUNT, NULL, &p->image);
}

static void shot_take(struct shot *p, struct cluster_rig *r, unsigned n)
{
    struct server *s = r->at[n]->server;
    struct backend_view v;
    struct bytes key, value;

    *p = (struct shot){.from = receiving_rig_id(r, n), .term = server_status(s).term};
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

struct rig_entry *shot_find(struct shot *p, enum bucket bucket, const char *key)
{
    struct rig_bucket *b = &p->buckets[bucket];

    for (size_t i = 0; i < b->count; i++)
        if (bytes_equal(b->entries[i].key, bytes_of_str(key)))
            return &b->entries[i];
    test_fail(__FILE__, __LINE__, "no %s", key);
}

void shot_insert(struct shot *p, enum bucket bucket, struct bytes key, struct bytes value)
{
    struct rig_bucket *b = &p->buckets[bucket];
    size_t at = b->count;

    rig_add(b, key, value);
    for (; at > 0 && bytes_compare(b->entries[at - 1].key, key) > 0; at--)
        b->entries[at] = b->entries[at - 1];
    b->entries[at] = (struct rig_entry){key, value};
}

static void put_be64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (56 - 8 * i));
}

struct bytes shot_revision_key(struct shot *p, int64_t main)
{
    uint8_t *key = arena_alloc(&p->arena, 17);

    put_be64(key, (uint64_t)main);
    key[8] = '_';
    put_be64(key + 9, 0);
    return bytes_of(key, 17);
}

/* --- somebody who sends them, in another member's name --- */

void sender_open(struct sender *s, struct cluster_rig *r, uint64_t self, unsigned to)
{
    char url[40];
    const char *urls[] = {url};

    *s = (struct sender){
        .r = r, .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    fake_resolver_init(&s->resolver, &r->time, &r->client_inbox);
    s->io = r->client_io;
    s->io.resolver = &s->resolver.base;
    s->to = receiving_rig_id(r, to);
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

void sender_close(struct sender *s)
{
    peers_stop(s->peers);
    while (!peers_is_idle(s->peers))
        cluster_rig_step(s->r);
    peers_close(s->peers);
}

void sender_step(struct sender *s)
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

void sender_until_over(struct sender *s)
{
    while (s->sent + s->failed < s->begun)
        sender_step(s);
}

void sender_send_some(struct sender *s, const struct shot *p, uint64_t announced, size_t bytes)
{
    struct raft_message m = {.type = RAFT_MSG_SNAP,
                             .from = p->from,
                             .to = s->to,
                             .term = p->term,
                             .snapshot = &p->snapshot};

    sender_until_over(s); /* the last one, of which nobody waited to hear */
    s->image = bytes_of(p->image.at, bytes);
    s->sent_bytes = 0;
    s->begun++;
    peers_snapshot_begin(s->peers, &m, announced);
    peers_flush(s->peers);
}

void sender_send(struct sender *s, const struct shot *p)
{
    sender_send_some(s, p, p->image.len, p->image.len);
}

/* --- three members, of which one has missed too much --- */

enum { BEFORE = 3, MISSED = 60 };

static const char *const flags[] = {"--snapshot-count", "10", "--snapshot-catchup-entries", "5",
                                    NULL};

void stage_put(struct stage *t, unsigned count)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%03u", i);
        cluster_rig_put(&t->r, t->leader, key, "value");
    }
}

void stage_open(struct stage *t)
{
    *t = (struct stage){0};
    cluster_rig_open(&t->r, 3, flags);
    cluster_rig_start_all(&t->r);
    t->leader = cluster_rig_leader(&t->r);
    stage_put(t, BEFORE);
    t->behind = cluster_rig_follower(&t->r);
    cluster_rig_until_equal(&t->r, t->leader);
    cluster_rig_cut(&t->r, t->behind, true);
    stage_put(t, MISSED);
    cluster_rig_for_ms(&t->r, 1000); /* the log is released meanwhile */
    CHECK(server_status(t->r.at[t->leader]->server).log_base >
          server_status(t->r.at[t->behind]->server).log_last);
    shot_take(&t->shot, &t->r, t->leader);
    cluster_rig_cut(&t->r, t->behind, false);
    sender_open(&t->sender, &t->r, t->shot.from, t->behind);
}

void stage_close(struct stage *t)
{
    sender_close(&t->sender);
    shot_free(&t->shot);
    cluster_rig_close(&t->r);
}

struct server *stage_behind(struct stage *t)
{
    return t->r.at[t->behind]->server;
}

void stage_check_equal(struct stage *t)
{
    struct digest a, b;

    cluster_rig_until_equal(&t->r, t->leader);
    CHECK(server_digest(t->r.at[t->leader]->server, &a));
    CHECK(server_digest(stage_behind(t), &b));
    receiving_rig_same_digest(&a, &b);
}

/* --- a member that is alone, and a sender who knows what is to come --- */

enum { STRANGER = 0x77, PUTS = 5 };

static void set_number(struct shot *p, const char *key, uint64_t value)
{
    uint8_t *at = arena_alloc(&p->arena, 8);

    put_be64(at, value);
    shot_find(p, BUCKET_META, key)->value = bytes_of(at, 8);
}

static void set_position(struct shot *p, uint64_t index, uint64_t term)
{
    p->snapshot.index = index;
    p->snapshot.term = term;
    set_number(p, "consistent_index", index);
    set_number(p, "term", term);
}

/* So many puts of "k" further on, in the next term. */
static void shot_look_ahead(struct shot *p, int64_t revision, unsigned count, size_t value_bytes)
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
        rig_add(&p->buckets[BUCKET_KEY], shot_revision_key(p, revision + i),
                arena_copy(&p->arena, buf_bytes(&kv)));
        buf_free(&kv);
    }
    p->from = STRANGER;
    p->term++;
    set_position(p, p->snapshot.index + count, p->term);
}

struct server *alone_member(struct alone *t)
{
    return t->r.at[1]->server;
}

void alone_look_ahead(struct alone *t, size_t value_bytes)
{
    shot_free(&t->shot);
    shot_take(&t->shot, &t->r, 1);
    t->revision = server_status(alone_member(t)).revision;
    shot_look_ahead(&t->shot, t->revision, ALONE_AHEAD, value_bytes);
    shot_write(&t->shot);
}

void alone_open(struct alone *t)
{
    *t = (struct alone){0};
    cluster_rig_open(&t->r, 1, NULL);
    cluster_rig_start_all(&t->r);
    for (unsigned i = 0; i < PUTS; i++)
        cluster_rig_put(&t->r, 1, "k", "v");
    cluster_rig_for_ms(&t->r, 1000); /* it has nothing to do any more */
    alone_look_ahead(t, 100);
    sender_open(&t->sender, &t->r, STRANGER, 1);
}

void alone_close(struct alone *t)
{
    sender_close(&t->sender);
    shot_free(&t->shot);
    cluster_rig_close(&t->r);
}

void alone_until_idle(struct alone *t)
{
    sender_until_over(&t->sender);
    while (!receiving_is_idle(&alone_member(t)->receiving) ||
           install_is_busy(&alone_member(t)->install))
        sender_step(&t->sender);
}

void alone_check_taken(struct alone *t)
{
    uint64_t before = server_installed(alone_member(t));

    sender_send(&t->sender, &t->shot);
    sender_until_over(&t->sender);
    alone_until_idle(t);
    CHECK_EQ(server_installed(alone_member(t)), before + 1);
    CHECK_EQ(server_status(alone_member(t)).revision, t->revision + ALONE_AHEAD);
    while (!server_status(alone_member(t)).is_leader) /* of the cluster that it is alone in */
        sender_step(&t->sender);
    cluster_rig_put(&t->r, 1, "k", "later");
    CHECK_EQ(server_status(alone_member(t)).revision, t->revision + ALONE_AHEAD + 1);
    CHECK_STR(receiving_rig_files(&t->r, 1), "");
}

void alone_check_refused(struct alone *t, const char *why)
{
    struct digest before, after;
    struct server_status status = server_status(alone_member(t));
    unsigned failed = t->sender.failed;

    CHECK(server_digest(alone_member(t), &before));
    buf_clear(&t->r.at[1]->logged);
    sender_send(&t->sender, &t->shot);
    sender_until_over(&t->sender);
    alone_until_idle(t);

    CHECK_EQ(t->sender.failed, failed + 1);
    CHECK_EQ(server_received(alone_member(t)), 0);
    CHECK(cluster_rig_logged(&t->r, 1, "failed to save incoming database snapshot"));
    if (!cluster_rig_logged(&t->r, 1, why))
        test_fail(__FILE__, __LINE__, "not \"%s\" but: %s", why, buf_str(&t->r.at[1]->logged));
    CHECK(server_digest(alone_member(t), &after));
    receiving_rig_same_digest(&before, &after);
    CHECK_EQ(server_status(alone_member(t)).log_last, status.log_last);
    CHECK_EQ(server_status(alone_member(t)).term, status.term);
    CHECK_STR(receiving_rig_files(&t->r, 1), "");
}
