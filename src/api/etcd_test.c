/*
 * The same requests to real etcd and to us, and the same answers: code, text and content.
 *
 * Ours is the counter, so what is compared is api with everything under it. Left out of the
 * comparison are ids of cluster and member, terms, and what etcd itself leaves open (the order of
 * equals, remaining seconds).
 */
#include "api/api_rig_test.h"
#include "harness/peer_test.h"
#include "io/loop.h"

#include <stdio.h>

struct pair {
    struct api_rig ours;
    struct peer etcd;
    struct loop *loop;
    struct client *client; /* of etcd */
    struct rng rng;
    struct arena arena; /* of one request */
    bool no_ignore;     /* what random requests leave out just now */
    bool no_from_key;
    unsigned asked, refused;
};

static void pair_open(struct pair *p)
{
    *p = (struct pair){0};
    peer_open(&p->etcd, arena_printf(&p->arena, "%s/etcd", test_tmp_dir()));
    peer_start(&p->etcd, "");
    CHECK_EQ(loop_open(&(struct loop_options){0}, &p->loop), ERR_OK);
    struct client_options options = {.io = loop_io(p->loop)};
    CHECK_EQ(net_address_parse(p->etcd.client_url + strlen("http://"), &options.address), ERR_OK);
    p->client = client_open(&options);
    api_rig_open(&p->ours);
    rng_seed(&p->rng, test_seed());
}

static void only_drain(void *context)
{
    struct pair *p = context;

    inbox_drain(loop_io(p->loop)->inbox, 1000);
}

static void pair_close(struct pair *p)
{
    api_rig_close(&p->ours);
    peer_stop(&p->etcd);
    while (client_conn(p->client)) /* it sees the end of etcd's side */
        loop_run_once(p->loop, only_drain, p);
    client_close(p->client);
    loop_close(p->loop);
    peer_close(&p->etcd);
    arena_free(&p->arena);
}

static void turn(void *context)
{
    struct pair *p = context;

    inbox_drain(loop_io(p->loop)->inbox, 1000);
    visit_hear(p->client);
}

static void ask_etcd(struct pair *p, struct visit *v, const char *path, struct bytes wire)
{
    *v = (struct visit){0};
    v->call = client_ask(p->client, &(struct client_request){.path = path, .context = v}, wire);
    client_flush(p->client);
    while (!v->is_over)
        loop_run_once(p->loop, turn, p);
}

static void ask_us(struct pair *p, struct visit *v, const char *path, struct bytes wire)
{
    *v = (struct visit){0};
    v->call =
        client_ask(p->ours.client, &(struct client_request){.path = path, .context = v}, wire);
    api_rig_until_over(&p->ours, v);
}

/* --- an answer as text --- */

static bool is_incomparable(struct bytes line)
{
    static const char *const names[] = {"  cluster_id: ", "  member_id: ", "  raft_term: "};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct bytes name = bytes_of_str(names[i]);
        for (size_t at = 0; at + name.len <= line.len; at++) {
            if (bytes_equal(bytes_of(line.at + at, name.len), name))
                return true;
        }
    }
    return false;
}

static void append_comparable(struct bytes text, struct buf *out)
{
    while (text.len > 0) {
        const uint8_t *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) + 1 : text.len;
        if (!is_incomparable(bytes_of(text.at, len)))
            buf_append(out, bytes_of(text.at, len));
        text = bytes_of(text.at + len, text.len - len);
    }
}

/* Go's protobuf writes a space that does not break, to keep people from comparing texts. */
static void append_status(const struct visit *v, struct buf *out)
{
    buf_printf(out, "%d ", (int)v->code);
    for (size_t i = 0; i < v->text.len; i++) {
        bool wide = v->text.at[i] == 0xc2 && i + 1 < v->text.len && v->text.at[i + 1] == 0xa0;
        buf_append_byte(out, wide ? ' ' : v->text.at[i]);
        i += wide;
    }
    buf_append_byte(out, '\n');
}

static void describe(struct pair *p, const struct visit *v, const struct pb_schema *schema,
                     struct buf *out)
{
    struct buf text = {0};

    append_status(v, out);
    for (size_t i = 0; i < v->message_count; i++) {
        void *message = arena_alloc(&p->arena, schema->size);
        visit_decode(v, i, schema, &p->arena, message);
        buf_clear(&text);
        pb_dump(schema, message, &text);
        append_comparable(buf_bytes(&text), out);
        buf_append_str(out, "----\n");
    }
    buf_free(&text);
}

static void compare_wire(struct pair *p, const char *path, struct bytes wire,
                         const struct pb_schema *result)
{
    struct visit theirs, ours;
    struct buf want = {0}, got = {0};

    ask_etcd(p, &theirs, path, wire);
    ask_us(p, &ours, path, wire);
    describe(p, &theirs, result, &want);
    describe(p, &ours, result, &got);
    CHECK_STR(buf_str(&got), buf_str(&want));
    p->asked++;
    p->refused += theirs.code != RPC_OK;
    visit_free(&theirs);
    visit_free(&ours);
    buf_free(&want);
    buf_free(&got);
    arena_reset(&p->arena);
}

static void compare(struct pair *p, const char *path, const struct pb_schema *schema,
                    const void *request, const struct pb_schema *result)
{
    struct buf wire = {0};

    pb_encode(schema, request, &wire);
    compare_wire(p, path, buf_bytes(&wire), result);
    buf_free(&wire);
}

/* --- requests at random, good and bad --- */

static bool chance(struct pair *p, unsigned percent)
{
    return rng_chance(&p->rng, percent, 100);
}

static struct bytes random_key(struct pair *p)
{
    if (chance(p, 2))
        return BYTES("");
    unsigned first = (unsigned)rng_below(&p->rng, 3);
    unsigned second = (unsigned)rng_below(&p->rng, 4);
    return bytes_of_str(arena_printf(&p->arena, "%c%u", 'a' + first, second));
}

static struct bytes random_end(struct pair *p)
{
    switch (rng_below(&p->rng, 6)) {
    case 0:
        return p->no_from_key ? BYTES("") : BYTES("\0");
    case 1:
    case 2:
        return random_key(p);
    default:
        return BYTES("");
    }
}

static int64_t random_revision(struct pair *p)
{
    int64_t now = mvcc_revision(p->ours.apply_rig.mvcc);

    switch (rng_below(&p->rng, 8)) {
    case 0:
        return now + 1;
    case 1:
        return -(int64_t)rng_below(&p->rng, 3);
    case 2:
    case 3:
        return 1 + (int64_t)rng_below(&p->rng, (uint64_t)now);
    default:
        return 0;
    }
}

/* Where there can be no equals: several keys of one revision are left out by asking for one. */
static struct pb_range_request *random_range(struct pair *p)
{
    struct pb_range_request *r = arena_new(&p->arena, struct pb_range_request);

    r->key = random_key(p);
    r->range_end = random_end(p);
    r->limit = chance(p, 30) ? (int64_t)rng_below(&p->rng, 6) - 1 : 0;
    r->revision = random_revision(p);
    r->sort_order = chance(p, 20) ? (int32_t)rng_below(&p->rng, 4) : 0;
    r->sort_target = chance(p, 3) ? 5 : 0;
    r->serializable = chance(p, 20);
    r->keys_only = chance(p, 20);
    r->count_only = chance(p, 10);
    r->min_mod_revision = chance(p, 10) ? random_revision(p) : 0;
    r->max_create_revision = chance(p, 10) ? random_revision(p) : 0;
    return r;
}

static int64_t random_lease(struct pair *p)
{
    return chance(p, 80) ? 0 : (int64_t)rng_between(&p->rng, 1, 4);
}

static struct pb_put_request *random_put(struct pair *p)
{
    struct pb_put_request *r = arena_new(&p->arena, struct pb_put_request);

    r->key = random_key(p);
    r->value = bytes_of_str(arena_printf(&p->arena, "v%u", (unsigned)rng_below(&p->rng, 100)));
    r->lease = random_lease(p);
    r->prev_kv = chance(p, 30);
    r->ignore_value = !p->no_ignore && chance(p, 10);
    r->ignore_lease = !p->no_ignore && chance(p, 10);
    if (r->ignore_value && chance(p, 80))
        r->value = BYTES("");
    if (r->ignore_lease && chance(p, 80))
        r->lease = 0;
    return r;
}

static struct pb_delete_range_request *random_delete(struct pair *p)
{
    struct pb_delete_range_request *r = arena_new(&p->arena, struct pb_delete_range_request);

    r->key = random_key(p);
    r->range_end = random_end(p);
    r->prev_kv = chance(p, 40);
    return r;
}

static struct pb_txn_request *random_txn(struct pair *p, unsigned depth);

static struct pb_request_op random_op(struct pair *p, unsigned depth)
{
    switch (rng_below(&p->rng, depth > 0 ? 8 : 7)) {
    case 0:
    case 1:
        return (struct pb_request_op){.which = PB_OP_RANGE, .range = random_range(p)};
    case 2:
        return (struct pb_request_op){.which = PB_OP_DELETE_RANGE,
                                      .delete_range = random_delete(p)};
    case 7:
        return (struct pb_request_op){.which = PB_OP_TXN, .txn = random_txn(p, depth - 1)};
    default:
        return (struct pb_request_op){.which = PB_OP_PUT, .put = random_put(p)};
    }
}

static size_t random_ops(struct pair *p, unsigned depth, const struct pb_request_op **out)
{
    size_t count = rng_below(&p->rng, 4);
    struct pb_request_op *ops = arena_new_array(&p->arena, count, struct pb_request_op);

    for (size_t i = 0; i < count; i++)
        ops[i] = random_op(p, depth);
    *out = ops;
    return count;
}

static struct pb_compare random_compare(struct pair *p)
{
    struct pb_compare c = {.key = random_key(p), .range_end = random_end(p)};

    c.result = (int32_t)rng_below(&p->rng, 4);
    c.target = (int32_t)rng_below(&p->rng, 5);
    c.which = (enum pb_compare_operand)(
        c.target == PB_TARGET_VALUE ? PB_OPERAND_VALUE : PB_OPERAND_VERSION + c.target);
    if (c.target == PB_TARGET_LEASE)
        c.which = PB_OPERAND_LEASE;
    if (c.which == PB_OPERAND_VALUE)
        c.value = BYTES("v5");
    else
        c.version = (int64_t)rng_below(&p->rng, 4);
    return c;
}

static struct pb_txn_request *random_txn(struct pair *p, unsigned depth)
{
    struct pb_txn_request *txn = arena_new(&p->arena, struct pb_txn_request);
    size_t count = rng_below(&p->rng, 3);
    struct pb_compare *compares = arena_new_array(&p->arena, count, struct pb_compare);

    for (size_t i = 0; i < count; i++)
        compares[i] = random_compare(p);
    txn->compare.at = compares;
    txn->compare.count = count;
    txn->success.count = random_ops(p, depth, &txn->success.at);
    txn->failure.count = random_ops(p, depth, &txn->failure.at);
    return txn;
}

/*
 * A delete of everything from a key on is not held against the puts of its transaction. If one of
 * them then wants to keep the value of a key that is no longer there, etcd panics while it applies
 * the entry. So it gets the one or the other.
 */
static void compare_random_txn(struct pair *p)
{
    p->no_ignore = chance(p, 50);
    p->no_from_key = !p->no_ignore;
    compare(p, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, random_txn(p, 2),
            &pb_txn_response_schema);
    p->no_ignore = p->no_from_key = false;
}

static void compare_random(struct pair *p)
{
    struct pb_lease_grant_request grant = {.id = (int64_t)rng_between(&p->rng, 1, 4), .ttl = 1000};
    struct pb_lease_id lease = {.id = grant.id};
    struct pb_compaction_request compact = {.revision = random_revision(p)};

    switch (rng_below(&p->rng, 20)) {
    case 0:
        compare(p, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema, &grant,
                &pb_lease_grant_response_schema);
        return;
    case 1:
        compare(p, "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema, &lease,
                &pb_lease_revoke_response_schema);
        return;
    case 2:
        if (compact.revision > 0 && chance(p, 70))
            compact.revision -= 8;
        compare(p, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema, &compact,
                &pb_compaction_response_schema);
        return;
    case 3:
    case 4:
        compare(p, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                random_delete(p), &pb_delete_range_response_schema);
        return;
    case 5:
    case 6:
    case 7:
    case 8:
        compare(p, "/etcdserverpb.KV/Range", &pb_range_request_schema, random_range(p),
                &pb_range_response_schema);
        return;
    case 9:
        compare(p, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, random_range(p),
                &pb_range_stream_response_schema);
        return;
    case 10:
    case 11:
    case 12:
    case 13:
        compare_random_txn(p);
        return;
    default:
        compare(p, "/etcdserverpb.KV/Put", &pb_put_request_schema, random_put(p),
                &pb_put_response_schema);
        return;
    }
}

TEST(real_etcd_answers_random_requests_as_we_do)
{
    struct pair p;
    pair_open(&p);

    for (unsigned i = 0; i < 300 * test_effort(); i++)
        compare_random(&p);
    CHECK(p.refused > 20);
    CHECK(p.refused < p.asked / 2);

    pair_close(&p);
}

/* --- and some by hand --- */

TEST(real_etcd_refuses_nonsense_as_we_do)
{
    struct pair p;
    const struct pb_schema *none = &pb_hash_request_schema;
    struct pb_empty nothing = {0};
    pair_open(&p);

    compare_wire(&p, "/etcdserverpb.KV/Put", BYTES("\x0a\x05zz"), none);
    compare_wire(&p, "/etcdserverpb.KV/RangeStream", BYTES("\x0a\x05zz"), none);
    compare_wire(&p, "/grpc.health.v1.Health/Check", BYTES("\x0a\x01\xff"), none);
    compare_wire(&p, "/grpc.health.v1.Health/Check", BYTES("\x0a\x01x"), none);
    compare(&p, "/etcdserverpb.KV/Get", none, &nothing, none);
    compare(&p, "/etcdserverpb.Kv/Range", none, &nothing, none);
    compare(&p, "/grpc.health.v1.Health/Check", none, &nothing, &pb_health_check_response_schema);
    compare(&p, "/grpc.health.v1.Health/List", none, &nothing, &pb_health_list_response_schema);
    compare(&p, "/etcdserverpb.Lease/LeaseTimeToLive", &pb_lease_time_to_live_request_schema,
            &(struct pb_lease_time_to_live_request){.id = 5},
            &pb_lease_time_to_live_response_schema);
    compare(&p, "/etcdserverpb.Lease/LeaseLeases", none, &nothing,
            &pb_lease_leases_response_schema);
    compare(&p, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
            &(struct pb_lease_grant_request){.id = 9, .ttl = 9000000001},
            &pb_lease_grant_response_schema);
    compare(&p, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
            &(struct pb_lease_grant_request){.id = -9, .ttl = -1}, &pb_lease_grant_response_schema);
    compare(&p, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema,
            &(struct pb_alarm_request){.action = PB_ALARM_GET}, &pb_alarm_response_schema);
    compare(&p, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema,
            &(struct pb_alarm_request){
                .action = PB_ALARM_ACTIVATE, .member_id = 5, .alarm = PB_ALARM_NOSPACE},
            &pb_alarm_response_schema);
    compare(&p, "/etcdserverpb.KV/Put", &pb_put_request_schema,
            &(struct pb_put_request){.key = BYTES("a")}, &pb_put_response_schema);

    pair_close(&p);
}

/* RangeStream's messages are cut where etcd cuts them, as long as they are small. */
TEST(real_etcd_cuts_a_range_stream_where_we_do)
{
    struct pair p;
    pair_open(&p);
    for (unsigned i = 0; i < 200; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%03u", i);
        compare(&p, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                &(struct pb_put_request){.key = bytes_of_str(key), .value = BYTES("v")},
                &pb_put_response_schema);
    }

    struct pb_range_request r = {.key = BYTES("k"), .range_end = BYTES("l")};
    for (r.limit = -2; r.limit < 75; r.limit++)
        compare(&p, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, &r,
                &pb_range_stream_response_schema);
    r = (struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l"), .count_only = true};
    compare(&p, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, &r,
            &pb_range_stream_response_schema);
    r = (struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l"), .keys_only = true};
    compare(&p, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, &r,
            &pb_range_stream_response_schema);

    pair_close(&p);
}

/* --- watchers --- */

struct two_streams {
    struct visit theirs, ours;
};

static void say_both(struct pair *p, struct two_streams *w,
                     const struct pb_watch_create_request *create)
{
    struct pb_watch_request request = {.which = PB_WATCH_CREATE, .create = create};
    size_t created = w->theirs.message_count;

    api_rig_say(&w->theirs, &pb_watch_request_schema, &request);
    client_flush(p->client);
    while (w->theirs.message_count == created)
        loop_run_once(p->loop, turn, p);
    created = w->ours.message_count;
    api_rig_say(&w->ours, &pb_watch_request_schema, &request);
    api_rig_until_messages(&p->ours, &w->ours, created + 1);
}

/* What this watcher was sent, as text; with or without how it was cut into messages. True if the
 * last of it is there, which is a value that says so. */
static bool describe_watcher(struct pair *p, const struct visit *v, int64_t id, bool whole,
                             struct buf *out)
{
    struct buf text = {0};
    bool ended = false;

    buf_clear(out);
    for (size_t i = 0; i < v->message_count; i++) {
        struct pb_watch_response r;
        visit_decode(v, i, &pb_watch_response_schema, &p->arena, &r);
        if (r.watch_id != id)
            continue;
        if (!whole) {
            r.header = NULL;
            r.watch_id = 0;
            r.created = false;
        }
        buf_clear(&text);
        pb_dump(&pb_watch_response_schema, &r, &text);
        append_comparable(buf_bytes(&text), out);
        if (whole)
            buf_append_str(out, "----\n");
        for (size_t j = 0; j < r.events.count; j++)
            ended |= bytes_equal(r.events.at[j].kv->value, BYTES("the end"));
    }
    buf_free(&text);
    return ended;
}

static void compare_watcher(struct pair *p, struct two_streams *w, int64_t id, bool whole)
{
    struct buf want = {0}, got = {0};

    while (!describe_watcher(p, &w->theirs, id, whole, &want))
        loop_run_once(p->loop, turn, p);
    for (unsigned i = 0; !describe_watcher(p, &w->ours, id, whole, &got); i++) {
        CHECK(i < 100);
        api_rig_for_ms(&p->ours, 100);
    }
    CHECK_STR(buf_str(&got), buf_str(&want));
    buf_free(&want);
    buf_free(&got);
    arena_reset(&p->arena);
}

static void random_writes(struct pair *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (chance(p, 50))
            compare(p, "/etcdserverpb.KV/Put", &pb_put_request_schema, random_put(p),
                    &pb_put_response_schema);
        else if (chance(p, 30))
            compare(p, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                    random_delete(p), &pb_delete_range_response_schema);
        else
            compare_random_txn(p);
    }
}

/* Live ones get the same messages; for those that begin in the past only the events count, since
 * how many of them go into one message depends on when etcd's loop comes by. */
TEST(real_etcd_tells_watchers_what_we_tell_them)
{
    struct pair p;
    struct two_streams w = {0};
    int32_t no_delete = PB_WATCH_NO_DELETE;
    struct client_request request = {.path = "/etcdserverpb.Watch/Watch"};
    pair_open(&p);
    request.context = &w.theirs;
    w.theirs.call = client_start(p.client, &request);
    request.context = &w.ours;
    w.ours.call = client_start(p.ours.client, &request);

    random_writes(&p, 40);
    say_both(&p, &w, &(struct pb_watch_create_request){.key = BYTES("a1")});
    say_both(&p, &w,
             &(struct pb_watch_create_request){
                 .key = BYTES("a"), .range_end = BYTES("c"), .prev_kv = true});
    say_both(&p, &w,
             &(struct pb_watch_create_request){.key = BYTES(""),
                                               .range_end = BYTES("\0"),
                                               .filters = {.at = &no_delete, .count = 1}});
    say_both(&p, &w,
             &(struct pb_watch_create_request){
                 .key = BYTES("a"), .range_end = BYTES("z"), .start_revision = 2, .prev_kv = true});
    random_writes(&p, 150 * (unsigned)test_effort());
    compare(&p, "/etcdserverpb.KV/Put", &pb_put_request_schema,
            &(struct pb_put_request){.key = BYTES("a1"), .value = BYTES("the end")},
            &pb_put_response_schema);

    compare_watcher(&p, &w, 0, true);
    compare_watcher(&p, &w, 1, true);
    compare_watcher(&p, &w, 2, true);
    compare_watcher(&p, &w, 3, false);

    visit_free(&w.theirs);
    visit_free(&w.ours);
    pair_close(&p);
}
