#include "pb/codec.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

/* Bytes in the order they are given. */
#define WIRE(...) bytes_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static enum err decode(const struct pb_schema *schema, struct bytes wire)
{
    struct arena arena = {0};
    void *out = arena_alloc(&arena, schema->size);
    enum err e = pb_decode(schema, wire, &arena, out);

    arena_free(&arena);
    return e;
}

/* ---- Use ---- */

TEST(a_put_is_decoded_as_views_into_the_wire)
{
    struct arena arena = {0};
    struct bytes wire = BYTES("\x0a\x03key\x12\x05value\x18\x07\x20\x01");
    struct pb_put_request req;

    CHECK_EQ(pb_decode_put_request(wire, &arena, &req), ERR_OK);

    CHECK_BYTES(req.key, BYTES("key"));
    CHECK_BYTES(req.value, BYTES("value"));
    CHECK(req.key.at == wire.at + 2);
    CHECK_EQ(req.lease, 7);
    CHECK(req.prev_kv && !req.ignore_value && !req.ignore_lease);
    CHECK_EQ(arena.total_bytes, 0);
    arena_free(&arena);
}

TEST(a_message_is_built_from_structs_on_the_stack)
{
    struct pb_request_op ops[] = {
        {.which = PB_OP_PUT, .put = &(struct pb_put_request){.key = BYTES("a")}},
        {.which = PB_OP_RANGE, .range = &(struct pb_range_request){.key = BYTES("b"), .limit = -1}},
    };
    struct pb_txn_request txn = {.success = {ops, 2}};
    struct buf out = {0};

    pb_encode_txn_request(&txn, &out);

    CHECK_BYTES(buf_bytes(&out), BYTES("\x12\x05\x12\x03\x0a\x01"
                                       "a\x12\x10\x0a\x0e\x0a\x01"
                                       "b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    buf_free(&out);
}

TEST(a_blob_holds_what_a_buf_would)
{
    struct pb_wal_metadata metadata = {.cluster_id = 300};
    struct buf out = {0};

    struct blob *b = pb_encode_blob(&pb_wal_metadata_schema, &metadata);
    pb_encode_wal_metadata(&metadata, &out);

    CHECK_BYTES(blob_bytes(b), WIRE(0x08, 0, 0x10, 0xac, 0x02));
    CHECK_BYTES(blob_bytes(b), buf_bytes(&out));
    blob_unref(b);
    buf_free(&out);
}

TEST(an_empty_message_is_no_bytes_and_no_bytes_are_an_empty_message)
{
    struct arena arena = {0};
    struct pb_put_request req = {.lease = 1};
    struct buf out = {0};

    CHECK_EQ(pb_decode_put_request(bytes_of(NULL, 0), &arena, &req), ERR_OK);
    pb_encode_put_request(&req, &out);

    CHECK_EQ(req.lease, 0);
    CHECK_EQ(out.len, 0);
    arena_free(&arena);
}

TEST(a_oneof_that_names_a_member_and_leaves_it_out_is_a_bug)
{
    struct pb_request_op op = {.which = PB_OP_TXN};
    struct buf out = {0};

    CHECK_DIES(pb_encode_request_op(&op, &out), "sub != NULL");
}

TEST(encoding_appends)
{
    struct pb_lease_id id = {.id = 5};
    struct buf out = {0};

    buf_append_str(&out, "x");
    pb_encode_lease_revoke_request(&id, &out);

    CHECK_BYTES(buf_bytes(&out), BYTES("x\x08\x05"));
    buf_free(&out);
}

TEST(after_an_error_the_struct_is_empty)
{
    struct arena arena = {0};
    struct pb_put_request req;

    CHECK_EQ(pb_decode_put_request(BYTES("\x0a\x01k\x12\x09v"), &arena, &req), ERR_MALFORMED);

    CHECK_EQ(req.key.len, 0);
    arena_free(&arena);
}

/* The start of a fresh log, byte for byte as etcd writes it. */
TEST(the_records_that_begin_a_log_are_those_of_etcd)
{
    struct pb_wal_metadata metadata = {0x8e9e05c52164694d, 0xcdf818194e3a8c32};
    struct buf out = {0}, data = {0};

    pb_encode_wal_record(&(struct pb_wal_record){.type = 4}, &out);
    CHECK_BYTES(buf_bytes(&out), WIRE(0x08, 0x04, 0x10, 0x00));
    buf_clear(&out);
    pb_encode_wal_metadata(&metadata, &data);
    pb_encode_wal_record(
        &(struct pb_wal_record){.type = 1, .crc = 0x5f91c0bb, .data = buf_bytes(&data)}, &out);
    CHECK_BYTES(buf_bytes(&out),
                WIRE(0x08, 0x01, 0x10, 0xbb, 0x81, 0xc7, 0xfc, 0x05, 0x1a, 0x16, 0x08, 0xcd, 0xd2,
                     0x91, 0x8b, 0xd2, 0xb8, 0x81, 0xcf, 0x8e, 0x01, 0x10, 0xb2, 0x98, 0xea, 0xf1,
                     0x94, 0x83, 0x86, 0xfc, 0xcd, 0x01));
    buf_free(&out);
    buf_free(&data);
}

TEST(strings_of_proto2_are_not_checked)
{
    CHECK_EQ(decode(&pb_v2_request_schema, BYTES("\x12\x01\xff")), ERR_OK);
    CHECK_EQ(decode(&pb_auth_user_get_request_schema, BYTES("\x0a\x01\xff")), ERR_BAD_UTF8);
    CHECK_EQ(decode(&pb_request_header_schema, BYTES("\x12\x01\xff")), ERR_BAD_UTF8);
}

TEST(the_end_of_a_group_that_never_began_is_refused)
{
    CHECK_EQ(decode(&pb_put_request_schema, WIRE(0x0c)), ERR_MALFORMED);
    CHECK_EQ(decode(&pb_txn_request_schema, WIRE(0x0c)), ERR_MALFORMED);
}

TEST(field_numbers_end_at_29_bits)
{
    CHECK_EQ(decode(&pb_put_request_schema, WIRE(0xf8, 0xff, 0xff, 0xff, 0x0f, 0)), ERR_OK);
    CHECK_EQ(decode(&pb_put_request_schema, WIRE(0x80, 0x80, 0x80, 0x80, 0x10, 0)), ERR_MALFORMED);
}

TEST(a_varint_has_at_most_64_bits)
{
    struct arena arena = {0};
    struct pb_member_id id;

    CHECK_EQ(
        pb_decode_member_remove_request(
            WIRE(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), &arena, &id),
        ERR_OK);
    CHECK(id.id == UINT64_MAX);
    CHECK_EQ(
        pb_decode_member_remove_request(
            WIRE(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02), &arena, &id),
        ERR_MALFORMED);
    arena_free(&arena);
}

TEST(varint_sizes_are_what_is_written)
{
    uint8_t space[16];

    for (unsigned bits = 0; bits < 64; bits++) {
        for (int below = 0; below < 2; below++) {
            uint64_t value = ((uint64_t)1 << bits) - (unsigned)below;
            uint8_t *start = pb_put_varint(space + sizeof(space), value);
            struct pb_reader r = {.at = start, .end = space + sizeof(space)};
            CHECK_EQ(pb_varint_size(value), space + sizeof(space) - start);
            CHECK(pb_take_varint(&r) == value);
            CHECK(r.at == r.end && r.err == ERR_OK);
        }
    }
}

/* One byte after the other, as the definition has it; false: there is no number. */
static bool slow_varint(struct bytes wire, uint64_t *value, size_t *len)
{
    *value = 0;
    for (size_t i = 0; i < wire.len && i < 10; i++) {
        if (i == 9 && wire.at[i] > 1)
            return false;
        *value |= (uint64_t)(wire.at[i] & 0x7f) << (7 * i);
        *len = i + 1;
        if (wire.at[i] < 0x80)
            return true;
    }
    return false;
}

/* How much lies behind a number decides how it is read; nothing must be read behind the end. */
TEST(a_varint_is_read_the_same_whatever_follows)
{
    struct rng rng;

    rng_seed(&rng, test_seed());
    for (unsigned times = 0; times < 20000; times++) {
        size_t len = rng_between(&rng, 1, 13), going_on = rng_below(&rng, 12), want_len = 0;
        uint8_t *wire = mem_resize(NULL, len, 1); /* of its own, for the sanitizer's sake */
        for (size_t i = 0; i < len; i++)
            wire[i] = (uint8_t)((rng_next(&rng) & 0x7f) | (i < going_on ? 0x80 : 0));
        if (len > 9 && rng_chance(&rng, 1, 2))
            wire[9] &= 0x81; /* 64 bits, perhaps */
        struct pb_reader r = {.at = wire, .end = wire + len};
        uint64_t want;

        bool ok = slow_varint(bytes_of(wire, len), &want, &want_len);
        uint64_t value = pb_take_varint(&r);

        CHECK_EQ(r.err, ok ? ERR_OK : ERR_MALFORMED);
        CHECK(value == (ok ? want : 0));
        CHECK(r.at == (ok ? wire + want_len : r.end));
        mem_free(wire);
    }
}

/* ---- Promise 1: any bytes at all are safe ---- */

/*
 * A Txn in a Txn in a Txn, `levels` messages deep, each holding nothing but the next. Written from
 * the inside out, since that is the only way to know the lengths.
 */
static struct bytes nested_txn(struct arena *arena, size_t levels)
{
    size_t cap = levels * 10 + 16;
    uint8_t *space = arena_alloc(arena, cap), *end = space + cap, *at = end;

    for (size_t i = 1; i < levels; i++) {
        at = pb_put_varint(at, (size_t)(end - at));
        at = pb_put_varint(at, (levels - i) % 2 ? PB_TAG_BYTES(2) : PB_TAG_BYTES(4));
    }
    return bytes_of(at, (size_t)(end - at));
}

TEST(nesting_is_bounded_exactly)
{
    struct arena arena = {0};
    struct pb_txn_request txn;

    CHECK_EQ(pb_decode_txn_request(nested_txn(&arena, PB_DEPTH_MAX), &arena, &txn), ERR_OK);
    CHECK_EQ(pb_decode_txn_request(nested_txn(&arena, PB_DEPTH_MAX + 1), &arena, &txn),
             ERR_TOO_DEEP);
    arena_free(&arena);
}

/* As many in one another as etcd lets one have operations, and a put in the innermost. */
TEST(transactions_are_nested_as_deep_as_etcd_allows)
{
    struct arena arena = {0};
    struct pb_txn_request txn;

    CHECK_EQ(pb_decode_txn_request(nested_txn(&arena, 2 * API_TXN_OPS_DEFAULT + 1), &arena, &txn),
             ERR_OK);
    arena_free(&arena);
}

TEST(a_transaction_nested_through_two_mebibytes_is_refused)
{
    struct arena arena = {0};
    struct bytes wire = nested_txn(&arena, 500 * 1000);
    struct pb_txn_request txn;
    struct pb_internal_raft_request request;

    CHECK(wire.len > 2 * MIB / 3 * 2);
    CHECK_EQ(pb_decode_txn_request(wire, &arena, &txn), ERR_TOO_DEEP);
    CHECK_EQ(pb_decode_internal_raft_request(wire, &arena, &request),
             ERR_OK); /* field 2: unknown */
    arena_free(&arena);
}

/* What a client may send must be executed when it comes back in the log, one level deeper. */
TEST(the_log_may_be_nested_deeper_than_a_call)
{
    struct arena arena = {0};
    struct pb_internal_raft_request request;
    struct buf wire = {0}, again = {0};
    static const size_t depths[] = {PB_DEPTH_MAX, PB_LOG_DEPTH_MAX - 1, PB_LOG_DEPTH_MAX};

    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        size_t depth = depths[i];
        struct bytes txn = nested_txn(&arena, depth);
        buf_clear(&wire);
        uint8_t head[16], *end = head + sizeof(head);
        uint8_t *at = pb_put_varint(pb_put_varint(end, txn.len), PB_TAG_BYTES(6));
        buf_append(&wire, bytes_of(at, (size_t)(end - at)));
        buf_append(&wire, txn);
        enum err e = pb_decode_internal_raft_request(buf_bytes(&wire), &arena, &request);
        CHECK_EQ(e, depth < PB_LOG_DEPTH_MAX ? ERR_OK : ERR_TOO_DEEP);
        buf_clear(&again);
        pb_encode_internal_raft_request(&request, &again);
        CHECK_BYTES(buf_bytes(&again), e == ERR_OK ? buf_bytes(&wire) : BYTES(""));
    }
    buf_free(&wire);
    buf_free(&again);
    arena_free(&arena);
}

TEST(groups_are_skipped_to_a_bounded_depth)
{
    struct buf wire = {0};

    for (unsigned depth = PB_DEPTH_MAX; depth <= PB_DEPTH_MAX + 1; depth++) {
        buf_clear(&wire);
        for (unsigned i = 0; i < depth; i++)
            buf_append_byte(&wire, 15 << 3 | PB_WIRE_GROUP);
        for (unsigned i = 0; i < depth; i++)
            buf_append_byte(&wire, 15 << 3 | PB_WIRE_GROUP_END);
        CHECK_EQ(decode(&pb_put_request_schema, buf_bytes(&wire)),
                 depth == PB_DEPTH_MAX ? ERR_OK : ERR_TOO_DEEP);
    }
    buf_free(&wire);
}

TEST(a_message_cut_anywhere_is_whole_or_refused)
{
    struct arena arena = {0};
    struct pb_request_op ops[] = {
        {.which = PB_OP_PUT, .put = &(struct pb_put_request){BYTES("key"), BYTES("v"), .lease = 1}},
    };
    struct pb_txn_request txn = {.success = {ops, 1}, .failure = {ops, 1}};
    struct buf wire = {0};
    size_t whole = 0;

    pb_encode_txn_request(&txn, &wire);
    for (size_t len = 0; len <= wire.len; len++) {
        enum err e = pb_decode_txn_request(bytes_of(wire.at, len), &arena, &txn);
        CHECK(e == ERR_OK || e == ERR_MALFORMED);
        whole += e == ERR_OK;
    }

    CHECK_EQ(whole, 3); /* nothing, one branch, both */
    buf_free(&wire);
    arena_free(&arena);
}

TEST(a_message_larger_than_any_is_refused_unread)
{
    struct arena arena = {0};
    struct pb_put_request req;

    CHECK_EQ(pb_decode_put_request(bytes_of("", PB_MESSAGE_BYTES_MAX + 1), &arena, &req),
             ERR_TOO_LARGE);
    arena_free(&arena);
}

/* ---- Lists and messages that are part of the struct itself ---- */

struct pair {
    uint64_t left, right;
};

struct box {
    struct pair pair;
    struct {
        size_t count;
        uint64_t at[3];
    } numbers;
    struct {
        size_t count;
        struct pair at[2];
    } pairs;
    uint64_t guard;
};

static const struct pb_field pair_rows[] = {
    {.name = "left", .number = 1, .kind = PB_UINT64, .offset = offsetof(struct pair, left)},
    {.name = "right",
     .number = 2,
     .kind = PB_UINT64,
     .place = PB_ALWAYS,
     .offset = offsetof(struct pair, right)},
};
static const struct pb_schema pair_schema = {.name = "test.Pair",
                                             .fields = pair_rows,
                                             .field_count = ARRAY_LEN(pair_rows),
                                             .size = sizeof(struct pair),
                                             .depth_max = 9,
                                             .proto2 = true};
static const struct pb_field box_rows[] = {
    {.name = "pair",
     .number = 1,
     .kind = PB_MESSAGE,
     .place = PB_INSIDE,
     .sub = &pair_schema,
     .offset = offsetof(struct box, pair)},
    {.name = "numbers",
     .number = 2,
     .kind = PB_UINT64,
     .place = PB_ARRAY,
     .max = 3,
     .offset = offsetof(struct box, numbers)},
    {.name = "pairs",
     .number = 3,
     .kind = PB_MESSAGE,
     .place = PB_ARRAY,
     .max = 2,
     .sub = &pair_schema,
     .offset = offsetof(struct box, pairs)},
};
static const struct pb_schema box_schema = {.name = "test.Box",
                                            .fields = box_rows,
                                            .field_count = ARRAY_LEN(box_rows),
                                            .size = sizeof(struct box),
                                            .depth_max = 9,
                                            .proto2 = true};

TEST(a_list_in_the_struct_takes_what_it_has_memory_for_and_no_more)
{
    struct arena arena = {0};
    struct box box;

    CHECK_EQ(pb_decode(&box_schema, WIRE(0x10, 7, 0x12, 2, 8, 9, 0x1a, 0, 0x1a, 2, 0x10, 5), &arena,
                       &box),
             ERR_OK);
    CHECK_EQ(box.numbers.count, 3);
    CHECK_EQ(box.numbers.at[0] * 100 + box.numbers.at[1] * 10 + box.numbers.at[2], 789);
    CHECK_EQ(box.pairs.count, 2);
    CHECK_EQ(box.pairs.at[1].right, 5);
    CHECK_EQ(box.guard, 0);

    CHECK_EQ(pb_decode(&box_schema, WIRE(0x10, 7, 0x12, 3, 8, 9, 10), &arena, &box), ERR_TOO_LARGE);
    CHECK_EQ(pb_decode(&box_schema, WIRE(0x10, 1, 0x10, 1, 0x10, 1, 0x10, 1), &arena, &box),
             ERR_TOO_LARGE);
    CHECK_EQ(pb_decode(&box_schema, WIRE(0x1a, 0, 0x1a, 0, 0x1a, 0), &arena, &box), ERR_TOO_LARGE);
    arena_free(&arena);
}

TEST(a_message_in_the_struct_is_merged_and_is_written_unless_all_of_it_is_zero)
{
    struct arena arena = {0};
    struct buf out = {0};
    struct box box;

    CHECK_EQ(pb_decode(&box_schema, WIRE(0x0a, 2, 8, 3, 0x0a, 2, 0x10, 4), &arena, &box), ERR_OK);
    CHECK_EQ(box.pair.left, 3);
    CHECK_EQ(box.pair.right, 4);
    pb_encode(&box_schema, &box, &out);
    CHECK_BYTES(buf_bytes(&out), WIRE(0x0a, 4, 8, 3, 0x10, 4));
    buf_clear(&out);
    pb_dump(&box_schema, &box, &out);
    CHECK_STR(buf_str(&out), "pair {\n  left: 3\n  right: 4\n}\n");
    buf_clear(&out);
    pb_encode(&box_schema, &(struct box){.numbers = {2, {0, 1}}, .pairs = {.count = 1}}, &out);
    CHECK_BYTES(buf_bytes(&out), WIRE(0x10, 0, 0x10, 1, 0x1a, 2, 0x10, 0));
    buf_free(&out);
    arena_free(&arena);
}

/* ---- Promise 2: memory is bounded ---- */

/* Decodes `unit` repeated to about two mebibytes. */
static enum err decode_many(const struct pb_schema *schema, struct bytes unit, size_t *taken)
{
    struct arena arena = {0};
    void *out = arena_alloc(&arena, schema->size);
    struct buf wire = {0};

    while (wire.len < 2 * MIB)
        buf_append(&wire, unit);
    size_t before = arena.total_bytes;
    enum err e = pb_decode(schema, buf_bytes(&wire), &arena, out);
    *taken = arena.total_bytes - before;
    CHECK(*taken <= PB_ARENA_FLOOR + PB_ARENA_FACTOR * wire.len + 3 * PB_ARENA_LEVEL);
    buf_free(&wire);
    arena_free(&arena);
    return e;
}

TEST(two_mebibytes_of_empty_elements_take_bounded_memory)
{
    size_t taken;

    CHECK_EQ(decode_many(&pb_txn_request_schema, WIRE(0x0a, 0), &taken), ERR_TOO_LARGE);
    CHECK_EQ(decode_many(&pb_txn_request_schema, WIRE(0x12, 0), &taken), ERR_OK);
    CHECK_EQ(decode_many(&pb_lease_time_to_live_response_schema, WIRE(0x2a, 0), &taken), ERR_OK);
}

TEST(pieces_of_lists_by_turns_take_bounded_memory_and_time)
{
    size_t taken;

    CHECK_EQ(decode_many(&pb_txn_request_schema, WIRE(0x12, 0, 0x1a, 0), &taken), ERR_TOO_LARGE);
    CHECK_EQ(decode_many(&pb_internal_raft_request_schema, WIRE(0x32, 2, 0x12, 0), &taken),
             ERR_TOO_LARGE);
}

TEST(a_sub_message_in_many_pieces_is_one_message)
{
    size_t taken;

    CHECK_EQ(decode_many(&pb_internal_raft_request_schema, WIRE(0x22, 0), &taken), ERR_OK);
    CHECK(taken < 256);
}

/* The most operations that etcd lets a client send, as small as they can be. */
TEST(honest_small_operations_fit)
{
    struct arena arena = {0};
    struct buf wire = {0};
    struct pb_txn_request txn;

    for (unsigned i = 0; i < 128; i++)
        buf_append(&wire, BYTES("\x0a\x03\x1a\x01k"));
    for (unsigned i = 0; i < 128; i++)
        buf_append(&wire, BYTES("\x12\x05\x0a\x03\x0a\x01k"));
    CHECK_EQ(pb_decode_txn_request(buf_bytes(&wire), &arena, &txn), ERR_OK);

    CHECK_EQ(txn.compare.count, 128);
    CHECK_EQ(txn.success.count, 128);
    CHECK_BYTES(txn.success.at[127].range->key, BYTES("k"));
    buf_free(&wire);
    arena_free(&arena);
}
