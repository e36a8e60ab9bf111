#include "apply/apply_int.h"
#include "apply/apply_rig_test.h"

#include "base/mem.h"
#include "pb/wire.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* ---- Nesting ---- */

/* How many transactions fit inside each other: each costs a RequestOp and itself, and around the
 * outermost is the request. */
enum { TXNS_MAX = (PB_LOG_DEPTH_MAX - 1) / 2 };

static uint8_t *prepend_bytes(uint8_t *at, const uint8_t *end, uint8_t tag)
{
    at = pb_put_varint(at, (uint64_t)(end - at));
    *--at = tag;
    return at;
}

/*
 * txn{if k version = 0 then txn{if k version = 0 then ... put k x}}, written from its end: the
 * encoder recurses, over what a client may send.
 */
static struct bytes nested_txn(struct arena *arena, unsigned depth)
{
    static const uint8_t compare[] = {0x0a, 3, 0x1a, 1, 'k'};
    static const uint8_t put[] = {0x12, 8, 0x12, 6, 0x0a, 1, 'k', 0x12, 1, 'x'};
    size_t size = 64 * (size_t)depth + 256;
    uint8_t *space = arena_alloc(arena, size), *end = space + size;
    uint8_t *at = end - sizeof(put);

    memcpy(at, put, sizeof(put));
    for (unsigned i = 0; i < depth; i++) {
        at -= sizeof(compare);
        memcpy(at, compare, sizeof(compare));
        at = prepend_bytes(at, end, i + 1 < depth ? PB_TAG_BYTES(4) : PB_TAG_BYTES(6));
        if (i + 1 < depth)
            at = prepend_bytes(at, end, PB_TAG_BYTES(2));
    }
    uint8_t header[] = {0xa2, 0x06, 2, 0x08, 9}; /* field 100: id 9 */
    at -= sizeof(header);
    memcpy(at, header, sizeof(header));
    return bytes_of(at, (size_t)(end - at));
}

static void *apply_deepest(void *context)
{
    struct apply_rig *d = context;
    struct arena arena = {0};

    struct apply_effects *e = apply_rig_entry(d, RAFT_ENTRY_NORMAL, nested_txn(&arena, TXNS_MAX));
    CHECK(e);
    CHECK_EQ(e->result, RESULT_OK);
    CHECK_EQ(e->changes.count, 1);
    CHECK(reply_total(&e->reply) > TXNS_MAX * 8);
    apply_rig_done(d);
    arena_free(&arena);
    return NULL;
}

/* On a stack far too small for a frame for each level. */
TEST(a_transaction_nested_as_deep_as_the_log_allows_needs_no_stack)
{
    struct apply_rig d;
    pthread_t thread;
    pthread_attr_t attributes;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);

    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, 256 * KIB), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, apply_deepest, &d), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);

    CHECK_EQ(mvcc_revision(d.mvcc), 2);
    CHECK(d.slices > TXNS_MAX / d.steps);
    apply_rig_free(&d);
}

TEST(a_transaction_nested_deeper_than_that_is_refused)
{
    struct apply_rig d;
    struct arena arena = {0};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);

    CHECK(!apply_rig_entry(&d, RAFT_ENTRY_NORMAL, nested_txn(&arena, TXNS_MAX + 1)));

    CHECK_STR(buf_str(&d.refused),
              "entry 1 of term 1 cannot be applied: it cannot be decoded: nested too deep\n");
    arena_free(&arena);
    apply_rig_free(&d);
}

/* `count` times the same operation, with nothing to compare. */
static struct pb_request_op txn_of(struct arena *arena, const struct pb_request_op *op,
                                   size_t count)
{
    struct pb_txn_request *txn = arena_new(arena, struct pb_txn_request);

    struct pb_request_op *ops = arena_new_array(arena, count, struct pb_request_op);

    for (size_t i = 0; i < count; i++)
        ops[i] = *op;
    txn->success.at = ops;
    txn->success.count = count;
    return (struct pb_request_op){.which = PB_OP_TXN, .txn = txn};
}

/* Eight thousand gets of one key, in a transaction in a transaction ... in a transaction. The reply
 * has 33 MB, which nobody holds, and no end of a level takes longer than another. */
TEST(a_reply_of_many_small_ranges_in_many_levels_holds_few_bytes)
{
    struct apply_rig d;
    struct arena arena = {0};
    char value[4000];
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = 0;
    CHECK_EQ(apply_rig_put(&d, "k", value, 0), RESULT_OK);

    struct pb_range_request range = {.key = BYTES("k")};
    struct pb_request_op op = {.which = PB_OP_RANGE, .range = &range};
    for (unsigned level = 0; level < 3; level++)
        op = txn_of(&arena, &op, 20);
    for (unsigned level = 0; level < 40; level++)
        op = txn_of(&arena, &op, 1);
    struct apply_effects *e =
        apply_rig_request(&d, &(struct pb_internal_raft_request){.txn = op.txn});

    CHECK_EQ(e->result, RESULT_OK);
    CHECK(reply_total(&e->reply) > 8000 * sizeof(value));
    CHECK(e->reply.text.len < REPLY_TEXT_BYTES_MAX + 8000 * 40);
    apply_rig_done(&d);
    arena_free(&arena);
    apply_rig_free(&d);
}

/* ---- Slices ---- */

static void put_many(struct apply_rig *d, unsigned count, int64_t lease)
{
    d->steps = 1000;
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%05u", i);
        CHECK_EQ(apply_rig_put(d, key, "value", lease), RESULT_OK);
    }
}

/* How many keys a reader finds, and at which revision. */
static int64_t count_keys(struct apply_rig *d, int64_t *revision)
{
    struct pb_range_request range = {.key = BYTES("\0"), .range_end = BYTES("\0")};
    struct apply_read r = {.range = &range, .keep_open = true};

    apply_read_begin(d->apply, &r);
    while (!apply_read_some(&r, 10))
        ;
    int64_t count = r.scan->kvs;
    CHECK_EQ(r.scan->count, count);
    *revision = r.revision;
    apply_read_end(&r);
    return count;
}

static void apply_slowly(struct apply_rig *d, struct pb_internal_raft_request *request,
                         unsigned keys, int64_t revision)
{
    struct pb_request_header header = {.id = 1};
    struct buf data = {0};
    int64_t seen;

    request->header = &header;
    pb_encode_internal_raft_request(request, &data);
    struct raft_entry entry = {
        .index = backend_applied(d->backend_rig.b).index + 1, .term = 1, .data = buf_bytes(&data)};
    apply_begin(d->apply, &entry, 0);
    apply_make_reply(d->apply);
    unsigned slices = 1;
    for (; !apply_some(d->apply, 20); slices++) {
        CHECK_EQ(count_keys(d, &seen), keys);
        CHECK_EQ(seen, revision);
        CHECK(!backend_can_commit(d->backend_rig.b)); /* never half an entry */
        apply_check(d->apply);
    }
    CHECK(slices > keys / 25);
    CHECK_EQ(apply_effects(d->apply)->changes.count, keys);
    apply_end(d->apply, (struct bytes){0});
    CHECK_EQ(count_keys(d, &seen), 0);
    CHECK_EQ(seen, revision + 1);
    buf_free(&data);
}

TEST(a_large_delete_goes_in_slices_and_is_seen_at_once)
{
    struct apply_rig d;
    struct pb_delete_range_request gone = {.key = BYTES("k"), .range_end = BYTES("\0")};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    put_many(&d, MVCC_RANGE_TOMBSTONE_KEYS_MIN - 1, 0);

    apply_slowly(&d, &(struct pb_internal_raft_request){.delete_range = &gone},
                 MVCC_RANGE_TOMBSTONE_KEYS_MIN - 1, MVCC_RANGE_TOMBSTONE_KEYS_MIN);

    apply_rig_free(&d);
}

/* The keys are gone at once; their leases find out as they are settled, but for one that is back.
 */
TEST(a_larger_delete_is_settled_later)
{
    struct apply_rig d;
    struct pb_lease_grant_request grant = {.id = 1, .ttl = 60}, again = {.id = 2, .ttl = 60};
    struct pb_delete_range_request gone = {.key = BYTES("k"), .range_end = BYTES("\0")};
    int64_t revision;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    d.steps = 1;
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.lease_grant = &grant}),
             RESULT_OK);
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.lease_grant = &again}),
             RESULT_OK);
    put_many(&d, MVCC_RANGE_TOMBSTONE_KEYS_MIN, 1);

    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.delete_range = &gone}),
             RESULT_OK);

    CHECK(d.slices < 5);
    CHECK(mvcc_is_settling(d.mvcc));
    CHECK_EQ(count_keys(&d, &revision), 0);
    CHECK_EQ(lease_of_key(d.leases, BYTES("k00007")), 1);
    CHECK_EQ(apply_rig_put(&d, "k00007", "again", 2), RESULT_OK);
    while (!mvcc_settle_some(d.mvcc, 10))
        ;
    CHECK_EQ(lease_of_key(d.leases, BYTES("k00007")), 2);
    CHECK_EQ(lease_of_key(d.leases, BYTES("k00008")), 0);
    CHECK_EQ(count_keys(&d, &revision), 1);
    mvcc_check_store(d.mvcc);
    apply_rig_free(&d);
}

/* Auth asks for the keys of a lease at each put into it. However many hang on it that are dead,
 * they cost nothing: looking at each of them would take minutes here. */
TEST(keys_that_are_to_be_settled_are_passed_over_at_once)
{
    enum { KEYS = 2000, QUESTIONS = 100000 };
    struct apply_rig d;
    struct pb_lease_grant_request grant = {.id = 1, .ttl = 60};
    struct bytes key;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.lease_grant = &grant}),
             RESULT_OK);
    put_many(&d, KEYS, 1);
    struct auth_leases leases = users_leases(d.apply);

    CHECK_EQ(apply_rig_delete(&d, "k", "l"), RESULT_OK);
    CHECK(mvcc_is_settling(d.mvcc));
    clock_t began = clock();
    for (unsigned i = 0; i < QUESTIONS; i++)
        CHECK(!leases.next_key(leases.leases, 1, bytes_of(NULL, 0), &key));
    CHECK(clock() - began < 10 * CLOCKS_PER_SEC);

    CHECK_EQ(apply_rig_put(&d, "z", "behind", 1), RESULT_OK);
    CHECK(leases.next_key(leases.leases, 1, bytes_of(NULL, 0), &key));
    CHECK_BYTES(key, BYTES("z"));
    CHECK_EQ(apply_rig_put(&d, "k00700", "again", 1), RESULT_OK);
    CHECK(leases.next_key(leases.leases, 1, bytes_of(NULL, 0), &key));
    CHECK_BYTES(key, BYTES("k00700"));
    CHECK(leases.next_key(leases.leases, 1, BYTES("k007001"), &key));
    CHECK_BYTES(key, BYTES("z"));
    while (!mvcc_settle_some(d.mvcc, 100))
        ;
    CHECK(leases.next_key(leases.leases, 1, bytes_of(NULL, 0), &key));
    CHECK_BYTES(key, BYTES("k00700"));
    apply_rig_free(&d);
}

static void put_long_keys(struct apply_rig *d, unsigned count, int64_t lease)
{
    static char key[256 * 1024];

    memset(key, 'k', sizeof(key) - 1);
    for (unsigned i = 0; i < count; i++) {
        key[1] = (char)('a' + i);
        CHECK_EQ(apply_rig_put(d, key, "", lease), RESULT_OK);
    }
}

/* A transaction of so many operations of one kind. */
static enum result repeat_in_txn(struct apply_rig *d, const struct pb_request_op *op)
{
    struct pb_request_op ops[50];
    struct pb_txn_request txn = {.success = {.at = ops, .count = 50}};

    for (size_t i = 0; i < 50; i++)
        ops[i] = *op;
    return apply_rig_do(d, &(struct pb_internal_raft_request){.txn = &txn});
}

/* Dead keys are passed over, and that takes its time, although nothing is shown for it. */
TEST(operations_that_find_dead_keys_alone_go_in_slices_too)
{
    struct apply_rig d;
    struct pb_range_request range = {.key = BYTES("k"), .range_end = BYTES("l")};
    struct pb_delete_range_request gone = {.key = BYTES("k"), .range_end = BYTES("l")};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    put_many(&d, 100, 0);
    CHECK_EQ(apply_rig_delete(&d, "k", "l"), RESULT_OK);
    d.steps = MVCC_SLICE_STEPS;

    CHECK_EQ(repeat_in_txn(&d, &(struct pb_request_op){.which = PB_OP_RANGE, .range = &range}),
             RESULT_OK);
    CHECK(d.slices >= 50 * 100 / MVCC_SLICE_STEPS);
    CHECK_EQ(repeat_in_txn(
                 &d, &(struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = &gone}),
             RESULT_OK);
    CHECK(d.slices >= 50 * 100 / MVCC_SLICE_STEPS);
    apply_rig_free(&d);
}

/* A tombstone is as long as its key, whoever ends that: on the spot, with a lease, or later. */
TEST(long_keys_go_in_shorter_slices)
{
    struct apply_rig d;
    struct pb_lease_id lease = {1};
    struct pb_lease_grant_request grant = {.id = 1, .ttl = 60};
    apply_rig_init_settling(&d, BACKEND_RIG_MEMORY, 20);
    d.steps = MVCC_SLICE_STEPS;
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.lease_grant = &grant}),
             RESULT_OK);

    put_long_keys(&d, 19, 0);
    CHECK_EQ(apply_rig_delete(&d, "k", "l"), RESULT_OK);
    CHECK(!mvcc_is_settling(d.mvcc));
    CHECK(d.slices > 2);

    put_long_keys(&d, 19, 1);
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.lease_revoke = &lease}),
             RESULT_OK);
    CHECK(d.slices > 2);

    put_long_keys(&d, 20, 0);
    CHECK_EQ(apply_rig_delete(&d, "k", "l"), RESULT_OK);
    CHECK(mvcc_is_settling(d.mvcc));
    CHECK(!mvcc_settle_some(d.mvcc, MVCC_SLICE_STEPS));
    CHECK(!mvcc_settle_some(d.mvcc, MVCC_SLICE_STEPS));
    CHECK(mvcc_settle_some(d.mvcc, MVCC_SLICE_STEPS));
    mvcc_check_store(d.mvcc);
    apply_rig_free(&d);
}

/* A request of a few bytes may have a large value read or written again many times. */
TEST(large_values_are_compared_and_kept_in_shorter_slices)
{
    static uint8_t value[1 << 20];
    struct apply_rig d;
    struct pb_put_request put = {.key = BYTES("k"), .value = bytes_of(value, sizeof(value))};
    struct pb_put_request keep = {.key = BYTES("k"), .ignore_value = true};
    struct pb_compare compares[8];
    struct pb_request_op ops[ARRAY_LEN(compares)];
    for (size_t i = 0; i < ARRAY_LEN(compares); i++) {
        compares[i] = (struct pb_compare){.target = PB_TARGET_LEASE, .key = BYTES("k")};
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &keep};
    }
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    d.steps = MVCC_SLICE_STEPS;
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.put = &put}), RESULT_OK);
    CHECK_EQ(d.slices, 1);

    struct pb_txn_request compare = {.compare = {compares, ARRAY_LEN(compares)}};
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.txn = &compare}), RESULT_OK);
    CHECK(d.slices > 3);
    for (size_t i = 0; i < ARRAY_LEN(compares); i++)
        compares[i].range_end = BYTES("l");
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.txn = &compare}), RESULT_OK);
    CHECK(d.slices > 3);
    struct pb_txn_request kept = {.success = {ops, ARRAY_LEN(ops)}};
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.txn = &kept}), RESULT_OK);
    CHECK(d.slices > 7);
    apply_rig_free(&d);
}

TEST(a_lease_with_many_keys_goes_in_slices_and_is_seen_at_once)
{
    struct apply_rig d;
    struct pb_lease_id lease = {1};
    struct pb_lease_grant_request grant = {.id = 1, .ttl = 60};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.lease_grant = &grant}),
             RESULT_OK);
    put_many(&d, 1000, 1);

    apply_slowly(&d, &(struct pb_internal_raft_request){.lease_revoke = &lease}, 1000, 1001);

    CHECK_EQ(lease_count(d.leases), 0);
    apply_rig_free(&d);
}

/* One of more keys than changes are shown of is committed in parts. A crash in its middle leaves
 * none of them, and the log, replayed, leads to what it would have led to. */
static void check_crash_in_revoke(enum backend_rig_kind kind)
{
    enum { KEYS = 3000 };
    struct apply_rig d;
    struct pb_lease_id lease = {1};
    struct pb_lease_grant_request grant = {.id = 1, .ttl = 60};
    struct pb_request_header header = {.id = 1};
    struct pb_internal_raft_request revoke = {.header = &header, .lease_revoke = &lease};
    struct buf before = {0}, after = {0}, data = {0};
    int64_t seen;
    apply_rig_init(&d, kind);
    CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.lease_grant = &grant}),
             RESULT_OK);
    put_many(&d, KEYS, 1);
    backend_rig_commit(&d.backend_rig);
    apply_rig_dump(&d, &before);

    pb_encode_internal_raft_request(&revoke, &data);
    struct raft_entry entry = {
        .index = backend_applied(d.backend_rig.b).index + 1, .term = 1, .data = buf_bytes(&data)};
    unsigned parts = 0;
    apply_begin(d.apply, &entry, 0);
    while (!apply_some(d.apply, 500)) {
        CHECK_EQ(count_keys(&d, &seen), KEYS);
        if (!backend_can_commit(d.backend_rig.b))
            continue;
        backend_rig_commit(&d.backend_rig);
        mvcc_check_store(d.mvcc);
        if (++parts == 5)
            break;
    }
    CHECK_EQ(parts, 5);
    apply_rig_crash(&d);

    apply_rig_dump(&d, &after);
    CHECK_BYTES(buf_bytes(&after), buf_bytes(&before));
    mvcc_check_store(d.mvcc);
    CHECK_EQ(apply_rig_do(&d, &revoke), RESULT_OK);
    CHECK_EQ(count_keys(&d, &seen), 0);
    CHECK_EQ(lease_count(d.leases), 0);
    mvcc_check_store(d.mvcc);
    buf_free(&before);
    buf_free(&after);
    buf_free(&data);
    apply_rig_free(&d);
}

TEST(a_crash_in_a_large_revoke_leaves_nothing_of_it_in_memory)
{
    check_crash_in_revoke(BACKEND_RIG_MEMORY);
}

TEST(a_crash_in_a_large_revoke_leaves_nothing_of_it_on_disk)
{
    check_crash_in_revoke(BACKEND_RIG_LMDB);
}

/* Whatever happens between its slices, even a compaction above what it still wants to read. */
TEST(a_reading_transaction_sees_the_state_of_its_beginning)
{
    struct apply_rig d;
    struct pb_range_request all = {.key = BYTES("k"), .range_end = BYTES("\0")};
    struct pb_range_request old = {.key = BYTES("k"), .range_end = BYTES("\0"), .revision = 51};
    struct pb_request_op ops[] = {{.which = PB_OP_RANGE, .range = &all},
                                  {.which = PB_OP_RANGE, .range = &old}};
    struct pb_compare compare = {.key = BYTES("k"),
                                 .range_end = BYTES("\0"),
                                 .result = PB_COMPARE_GREATER,
                                 .target = PB_TARGET_VERSION};
    struct pb_txn_request txn = {.compare = {&compare, 1}, .success = {ops, 2}};
    struct buf wire = {0};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    put_many(&d, 100, 0);

    struct apply_read r = {.txn = &txn};
    apply_read_begin(d.apply, &r);
    for (unsigned slice = 0; !apply_read_some(&r, 5); slice++) {
        /* When the compares are done the old range is pinned; before, it could be compacted. */
        CHECK_EQ(apply_rig_put(&d, "k00001", "other", 0), RESULT_OK);
        CHECK_EQ(apply_rig_delete(&d, "k00002", ""), RESULT_OK);
        CHECK_EQ(mvcc_status(d.mvcc).pins > 0, true);
        struct pb_compaction_request compact = {.revision =
                                                    slice > 45 ? mvcc_revision(d.mvcc) : 3 + slice};
        CHECK_EQ(apply_rig_do(&d, &(struct pb_internal_raft_request){.compaction = &compact}),
                 RESULT_OK);
        backend_rig_commit(&d.backend_rig);
        while (mvcc_compact_pending(d.mvcc) && !mvcc_compact_waiting(d.mvcc))
            (void)mvcc_compact_some(d.mvcc, 10);
    }

    CHECK_EQ(r.result, RESULT_OK);
    CHECK_EQ(r.revision, 101);
    apply_rig_read_reply(&r.reply, 100, &wire);
    struct arena arena = {0};
    struct pb_txn_response got;
    CHECK_EQ(pb_decode_txn_response(buf_bytes(&wire), &arena, &got), ERR_OK);
    CHECK(got.succeeded);
    CHECK_EQ(got.responses.at[0].range->count, 100);
    CHECK_BYTES(got.responses.at[0].range->kvs.at[1].value, BYTES("value"));
    CHECK_EQ(got.responses.at[1].range->count, 50);
    CHECK_EQ(got.responses.at[1].range->kvs.count, 50);
    apply_read_end(&r);
    CHECK_EQ(mvcc_status(d.mvcc).pins, 0);
    arena_free(&arena);
    buf_free(&wire);
    apply_rig_free(&d);
}

/* The state is replaced while a transaction reads it and an entry changes it. */
TEST(an_entry_given_up_half_done_is_seen_by_nobody)
{
    struct apply_rig d;
    struct pb_range_request all = {.key = BYTES("k"), .range_end = BYTES("\0")};
    struct pb_request_op op = {.which = PB_OP_RANGE, .range = &all};
    struct pb_txn_request txn = {.success = {&op, 1}};
    struct pb_delete_range_request gone = {
        .key = BYTES("k"), .range_end = BYTES("\0"), .prev_kv = true};
    struct pb_request_header header = {.id = 1};
    struct pb_internal_raft_request request = {.header = &header, .delete_range = &gone};
    struct blob *data;
    struct buf wire = {0};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    put_many(&d, 100, 0);
    struct apply_read r = {.txn = &txn};
    apply_read_begin(d.apply, &r);
    CHECK(!apply_read_some(&r, 5));
    data = pb_encode_blob(&pb_internal_raft_request_schema, &request);
    struct raft_entry entry = {.index = d.log_count + 1, .term = 1, .blob = data};
    entry.data = blob_bytes(data);
    CHECK_EQ(apply_begin(d.apply, &entry, 0), 1);
    apply_make_reply(d.apply);
    while (!mvcc_is_writing(d.mvcc))
        CHECK(!apply_some(d.apply, 30));
    CHECK(!apply_some(d.apply, 30));

    apply_give_up(d.apply);
    apply_check(d.apply);
    blob_unref(data);
    CHECK(apply_is_reading(d.apply));
    while (!apply_read_some(&r, 5))
        continue;

    CHECK_EQ(r.result, RESULT_OK);
    CHECK_EQ(r.revision, 101);
    apply_rig_read_reply(&r.reply, 100, &wire);
    CHECK(wire.len > 100 * 10);
    apply_read_end(&r);
    CHECK(!apply_is_reading(d.apply));
    CHECK_EQ(mvcc_status(d.mvcc).pins, 0); /* the entry's are gone as well */
    buf_free(&wire);
    apply_rig_free(&d);
}

/* A member that stops in the middle leaves nothing behind. */
TEST(closing_in_the_middle_of_an_entry_is_fine)
{
    struct apply_rig d;
    struct pb_delete_range_request gone = {
        .key = BYTES("k"), .range_end = BYTES("\0"), .prev_kv = true};
    struct pb_request_header header = {.id = 1};
    struct pb_internal_raft_request request = {.header = &header, .delete_range = &gone};
    struct buf data = {0};
    pb_encode_internal_raft_request(&request, &data);

    for (unsigned slices = 0; slices < 30; slices++) {
        apply_rig_init(&d, BACKEND_RIG_MEMORY);
        put_many(&d, 50, 0);
        struct raft_entry entry = {.index = 51, .term = 1, .data = buf_bytes(&data)};
        apply_begin(d.apply, &entry, 0);
        apply_make_reply(d.apply);
        for (unsigned i = 0; i < slices && !apply_some(d.apply, 5); i++)
            ;
        apply_rig_free(&d);
    }
    buf_free(&data);
}

/* The one who begins an entry says whether anybody waits for it: apply asks nobody. */
TEST(a_reply_is_made_only_for_those_who_wait)
{
    struct apply_rig d;
    struct pb_range_request range = {.key = BYTES("k")};
    struct pb_request_header header = {.id = 9};
    struct pb_internal_raft_request request = {.header = &header, .range = &range};
    struct buf data = {0};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    CHECK_EQ(apply_rig_put(&d, "k", "v", 0), RESULT_OK);
    pb_encode_internal_raft_request(&request, &data);

    struct raft_entry entry = {.index = 2, .term = 1, .data = buf_bytes(&data)};
    CHECK_EQ(apply_begin(d.apply, &entry, 0), 9);
    CHECK(apply_some(d.apply, 100));
    CHECK_EQ(reply_total(&apply_effects(d.apply)->reply), 0);
    CHECK_DIES(apply_make_reply(d.apply), "APPLY_BEGUN");
    apply_end(d.apply, (struct bytes){0});

    entry.index = 3;
    CHECK_EQ(apply_begin(d.apply, &entry, 0), 9);
    apply_make_reply(d.apply);
    CHECK(apply_some(d.apply, 100));
    CHECK(reply_total(&apply_effects(d.apply)->reply) > 0);
    apply_end(d.apply, (struct bytes){0});

    CHECK_EQ(apply_begin(d.apply, &entry, 0), 0); /* applied already: nobody waits for it here */
    CHECK(apply_some(d.apply, 100));
    apply_end(d.apply, (struct bytes){0});

    buf_free(&data);
    apply_rig_free(&d);
}

/* ---- Quota ---- */

TEST(the_quota_is_exceeded_when_size_and_cost_reach_it)
{
    struct apply_rig d;
    struct pb_put_request put = {.key = BYTES("key"), .value = BYTES("value")};
    struct pb_internal_raft_request request = {.put = &put};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    int64_t size = (int64_t)backend_sizes(d.backend_rig.b).file_bytes;
    int64_t cost = 256 + 3 + 5;

    apply_rig_close_rooms(&d);
    d.quota_bytes = size + cost + 1;
    CHECK(apply_rig_open_rooms(&d));
    CHECK(!apply_over_quota(d.apply, &request));

    apply_rig_close_rooms(&d);
    d.quota_bytes = size + cost;
    CHECK(apply_rig_open_rooms(&d));
    CHECK(apply_over_quota(d.apply, &request));
    apply_rig_free(&d);
}

/* The same few keys, committed over and over: the file has more free pages than others. */
TEST(a_few_free_pages_are_not_held_against_the_quota)
{
    struct apply_rig d;
    struct pb_put_request put = {.key = BYTES("key"), .value = BYTES("value")};
    struct pb_internal_raft_request request = {.put = &put};
    apply_rig_init(&d, BACKEND_RIG_LMDB);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(apply_rig_put(&d, "key", "value", 0), RESULT_OK);
        backend_rig_commit(&d.backend_rig);
    }
    struct backend_sizes sizes = backend_sizes(d.backend_rig.b);
    CHECK(sizes.used_bytes < sizes.file_bytes);
    CHECK(sizes.file_bytes - sizes.used_bytes < APPLY_QUOTA_FREE_BYTES);

    for (int64_t above = 0; above < 2; above++) {
        apply_rig_close_rooms(&d);
        d.quota_bytes = (int64_t)sizes.used_bytes + 256 + 3 + 5 + above;
        CHECK(apply_rig_open_rooms(&d));
        CHECK_EQ(apply_over_quota(d.apply, &request), above == 0);
    }
    apply_rig_free(&d);
}

/* Costs of a transaction: of the larger branch, at every level. */
TEST(a_transaction_costs_its_larger_branch)
{
    struct apply_rig d;
    struct pb_put_request small = {.key = BYTES("k")};
    struct pb_put_request large = {.key = BYTES("k"), .value = BYTES("0123456789")};
    struct pb_range_request range = {.key = BYTES("k")};
    struct pb_request_op inner_then[] = {{.which = PB_OP_PUT, .put = &small}};
    struct pb_request_op inner_else[] = {{.which = PB_OP_PUT, .put = &large},
                                         {.which = PB_OP_RANGE, .range = &range}};
    struct pb_txn_request inner = {.success = {inner_then, 1}, .failure = {inner_else, 2}};
    struct pb_request_op then[] = {{.which = PB_OP_PUT, .put = &large}};
    struct pb_request_op other[] = {{.which = PB_OP_TXN, .txn = &inner},
                                    {.which = PB_OP_PUT, .put = &small},
                                    {.which = PB_OP_TXN, .txn = &inner}};
    struct pb_txn_request txn = {.success = {then, 1}, .failure = {other, 3}};
    struct pb_internal_raft_request request = {.txn = &txn};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    int64_t cost = 267 + 257 + 267, size = (int64_t)backend_sizes(d.backend_rig.b).file_bytes;

    for (int64_t above = 0; above < 2; above++) {
        apply_rig_close_rooms(&d);
        d.quota_bytes = size + cost + above;
        CHECK(apply_rig_open_rooms(&d));
        CHECK_EQ(apply_over_quota(d.apply, &request), above == 0);
    }
    apply_rig_free(&d);
}

TEST(a_transaction_of_ranges_alone_is_read_only)
{
    struct pb_range_request stale = {.key = BYTES("k"), .serializable = true};
    struct pb_range_request fresh = {.key = BYTES("k")};
    struct pb_put_request put = {.key = BYTES("k")};
    struct pb_txn_request empty = {0};
    struct pb_request_op ops[] = {{.which = PB_OP_RANGE, .range = &stale},
                                  {.which = PB_OP_RANGE, .range = &fresh},
                                  {.which = PB_OP_PUT, .put = &put},
                                  {.which = PB_OP_TXN, .txn = &empty}};
    struct pb_txn_request one_stale = {.success = {ops, 1}};
    struct pb_txn_request two = {.failure = {ops, 2}};
    struct pb_txn_request writes = {.failure = {ops, 3}};
    struct pb_txn_request nests = {.success = {ops + 3, 1}};

    CHECK(apply_txn_is_read_only(&empty) && apply_txn_is_serializable(&empty));
    CHECK(apply_txn_is_read_only(&one_stale) && apply_txn_is_serializable(&one_stale));
    CHECK(apply_txn_is_read_only(&two) && !apply_txn_is_serializable(&two));
    CHECK(!apply_txn_is_read_only(&writes) && !apply_txn_is_serializable(&writes));
    CHECK(!apply_txn_is_read_only(&nests) && !apply_txn_is_serializable(&nests));
}

/* ---- Stores that cannot be worked with ---- */

TEST(a_store_with_auth_enabled_serves_nobody_in_particular)
{
    struct apply_rig d;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    apply_rig_close_rooms(&d);
    backend_put(d.backend_rig.b, BUCKET_AUTH, BYTES("authEnabled"), BYTES("\001"));
    CHECK(apply_rig_open_rooms(&d));

    CHECK_EQ(apply_rig_put(&d, "a", "one", 0), RESULT_AUTH_USER_EMPTY);
    CHECK_EQ(apply_rig_delete(&d, "a", ""), RESULT_AUTH_USER_EMPTY);

    CHECK_EQ(mvcc_revision(d.mvcc), 1);
    apply_rig_free(&d);
}

TEST(the_auth_revision_comes_from_the_store)
{
    struct apply_rig d;
    struct pb_empty nothing;
    struct pb_internal_raft_request request = {.auth_status = &nothing};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    apply_rig_close_rooms(&d);
    backend_put(d.backend_rig.b, BUCKET_AUTH, BYTES("authEnabled"), BYTES("\0"));
    backend_put(d.backend_rig.b, BUCKET_AUTH, BYTES("authRevision"), BYTES("\0\0\0\0\0\0\0\007"));
    CHECK(apply_rig_open_rooms(&d));

    struct apply_effects *e = apply_rig_request(&d, &request);

    CHECK_BYTES(reply_bytes(&e->reply), BYTES("\030\007"));
    apply_rig_done(&d);

    apply_rig_close_rooms(&d);
    backend_put(d.backend_rig.b, BUCKET_AUTH, BYTES("authRevision"), BYTES("x"));
    CHECK(!apply_rig_open_rooms(&d));
    apply_rig_free(&d);
}

TEST(an_alarm_that_cannot_be_understood_is_corruption)
{
    struct apply_rig d;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    apply_rig_close_rooms(&d);
    backend_put(d.backend_rig.b, BUCKET_ALARM, BYTES("\xff"), (struct bytes){0});

    CHECK(!apply_rig_open_rooms(&d));

    CHECK_STR(buf_str(&d.refused),
              "bucket alarm: a key cannot be understood: malformed message (corrupt data)\n");
    apply_rig_free(&d);
}

/* Of the right length and checksum, but not a KeyValue: somebody wrote it so. */
TEST(a_stored_key_that_cannot_be_decoded_stops_the_member)
{
    struct apply_rig d;
    static const uint8_t key[] = {0, 0, 0, 0, 0, 0, 0, 2, '_', 0, 0, 0, 0, 0, 0, 0, 0};
    struct pb_compare compare = {.key = BYTES("k"), .target = PB_TARGET_VALUE};
    struct pb_txn_request txn = {.compare = {&compare, 1}};
    struct apply_read r = {.txn = &txn};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    CHECK_EQ(apply_rig_put(&d, "k", "v", 0), RESULT_OK);
    backend_put(d.backend_rig.b, BUCKET_KEY, bytes_of(key, sizeof(key)),
                BYTES("\377\377\377\377\377\377"
                      "\377\377\377\377\377\377"));

    apply_read_begin(d.apply, &r);
    CHECK(apply_read_some(&r, 100));

    CHECK_EQ(r.result, RESULT_CORRUPT);
    CHECK_STR(buf_str(&d.refused), "the store holds a KeyValue that cannot be decoded\n");
    apply_read_end(&r);
    apply_rig_free(&d);
}

/* ---- The rest ---- */

TEST(the_old_place_of_an_id_wins)
{
    struct apply_rig d;
    struct pb_put_request put = {.key = BYTES("k")};
    struct pb_internal_raft_request request = {.id = 5, .put = &put};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);

    struct apply_effects *e = apply_rig_request(&d, &request);

    CHECK_EQ(e->id, 5);
    apply_rig_done(&d);
    apply_rig_free(&d);
}

TEST(entries_come_in_order)
{
    struct apply_rig d;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);

    CHECK_DIES(apply_begin(d.apply, &(struct raft_entry){.index = 2, .term = 1}, 0),
               "entry->index <= applied + 1");

    apply_rig_free(&d);
}

TEST(answers_have_etcds_codes_and_texts)
{
    CHECK_EQ(result_code(RESULT_OK), 0);
    CHECK_EQ(result_code(RESULT_NO_SPACE), 8);
    CHECK_STR(result_text(RESULT_NO_SPACE), "etcdserver: mvcc: database space exceeded");
    CHECK_EQ(result_code(RESULT_RANGE_STREAM_FILTER), 12);
    for (int a = 0; a < RESULT_COUNT; a++) {
        CHECK(result_code((enum result)a) <= 16);
        CHECK_EQ(result_text((enum result)a)[0] == 0, a == RESULT_OK);
    }
}

/* A leader's lease deadlines are its own business; the store is everybody's. */
TEST(time_leaves_no_trace_in_the_store)
{
    struct apply_rig early, late;
    struct pb_lease_grant_request grant = {.id = 1, .ttl = 60};
    struct pb_internal_raft_request request = {.lease_grant = &grant};
    struct buf a = {0}, b = {0};
    apply_rig_init(&early, BACKEND_RIG_MEMORY);
    apply_rig_init(&late, BACKEND_RIG_MEMORY);
    late.now_ms = 123456789;
    lease_promote(late.leases, late.now_ms, 0);

    CHECK_EQ(apply_rig_do(&early, &request), RESULT_OK);
    CHECK_EQ(apply_rig_do(&late, &request), RESULT_OK);

    apply_rig_dump(&early, &a);
    apply_rig_dump(&late, &b);
    CHECK_STR(buf_str(&a), buf_str(&b));
    buf_free(&a);
    buf_free(&b);
    apply_rig_free(&early);
    apply_rig_free(&late);
}
