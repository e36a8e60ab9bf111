/*
 * What the hot messages cost: by hand, by table, and in protobuf-c, which copies every bytes field.
 */
#include "base/assert.h"
#include "gen/pb/raft_internal.pb-c.h"
#include "gen/pb/rpc.pb-c.h"
#include "harness/bench.h"
#include "pb/codec.h"
#include "pb/pb_int.h"

struct work {
    const struct pb_schema *schema;
    const ProtobufCMessageDescriptor *generated;
    ProtobufCMessage *theirs;
    const void *msg;
    struct bytes wire;
    struct arena arena;
    struct buf out;
};

static void decode_by_hand(void *context, uint64_t times)
{
    struct work *w = context;
    _Alignas(max_align_t) uint8_t out[512];

    for (uint64_t i = 0; i < times; i++) {
        enum err e = pb_decode(w->schema, w->wire, &w->arena, out);
        assert(e == ERR_OK);
        arena_reset(&w->arena);
    }
}

static void decode_by_table(void *context, uint64_t times)
{
    struct work *w = context;
    _Alignas(max_align_t) uint8_t out[512];

    for (uint64_t i = 0; i < times; i++) {
        enum err e = pb_decode_by_table(w->schema, w->wire, &w->arena, out);
        assert(e == ERR_OK);
        arena_reset(&w->arena);
    }
}

static void *give(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void take_nothing(void *arena, void *at)
{
    (void)arena;
    (void)at;
}

static void decode_by_protobuf_c(void *context, uint64_t times)
{
    struct work *w = context;
    ProtobufCAllocator allocator = {give, take_nothing, &w->arena};

    for (uint64_t i = 0; i < times; i++) {
        ProtobufCMessage *m =
            protobuf_c_message_unpack(w->generated, &allocator, w->wire.len, w->wire.at);
        assert(m);
        arena_reset(&w->arena);
    }
}

static void encode_by_hand(void *context, uint64_t times)
{
    struct work *w = context;

    for (uint64_t i = 0; i < times; i++) {
        buf_clear(&w->out);
        pb_encode(w->schema, w->msg, &w->out);
    }
}

static void encode_by_table(void *context, uint64_t times)
{
    struct work *w = context;

    for (uint64_t i = 0; i < times; i++) {
        buf_clear(&w->out);
        pb_encode_by_table(w->schema, w->msg, &w->out);
    }
}

static void encode_by_protobuf_c(void *context, uint64_t times)
{
    struct work *w = context;

    for (uint64_t i = 0; i < times; i++) {
        buf_clear(&w->out);
        size_t size = protobuf_c_message_get_packed_size(w->theirs);
        protobuf_c_message_pack(w->theirs, buf_extend(&w->out, size));
    }
}

static void run_all(struct work *w)
{
    static const struct {
        const char *suffix;
        void (*body)(void *context, uint64_t times);
    } ways[] = {
        {"decode_by_hand", decode_by_hand},
        {"decode_by_table", decode_by_table},
        {"decode_by_protobuf_c", decode_by_protobuf_c},
        {"encode_by_hand", encode_by_hand},
        {"encode_by_table", encode_by_table},
        {"encode_by_protobuf_c", encode_by_protobuf_c},
    };
    struct buf wire = {0};

    pb_encode(w->schema, w->msg, &wire);
    w->wire = buf_bytes(&wire);
    w->theirs = protobuf_c_message_unpack(w->generated, NULL, wire.len, wire.at);
    assert(w->theirs);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        bench_run(
            &(struct bench_work){.suffix = ways[i].suffix, .body = ways[i].body, .context = w});
    protobuf_c_message_free_unpacked(w->theirs, NULL);
    arena_free(&w->arena);
    buf_free(&w->out);
    buf_free(&wire);
}

static uint8_t value_256[256];

static const struct pb_put_request put = {
    .key = BYTES("/registry/pods/default/web-1"),
    .value = {value_256, sizeof(value_256)},
    .lease = 0x694d8e9e05c52164,
};

static const struct pb_range_request range = {
    .key = BYTES("/registry/pods/default/"),
    .range_end = BYTES("/registry/pods/default0"),
    .limit = 500,
    .serializable = true,
};

BENCH(pb_put)
{
    run_all(&(struct work){&pb_put_request_schema, &etcdserverpb__put_request__descriptor,
                           .msg = &put});
}

BENCH(pb_range)
{
    run_all(&(struct work){&pb_range_request_schema, &etcdserverpb__range_request__descriptor,
                           .msg = &range});
}

/* What a client that keeps objects with a version sends: compare, put, else get. */
BENCH(pb_txn)
{
    struct pb_compare compare = {.target = PB_TARGET_MOD,
                                 .key = put.key,
                                 .which = PB_OPERAND_MOD_REVISION,
                                 .version = 1234567};
    struct pb_request_op success = {.which = PB_OP_PUT, .put = &put};
    struct pb_request_op failure = {.which = PB_OP_RANGE, .range = &range};
    struct pb_txn_request txn = {{&compare, 1}, {&success, 1}, {&failure, 1}};

    run_all(&(struct work){&pb_txn_request_schema, &etcdserverpb__txn_request__descriptor,
                           .msg = &txn});
}

BENCH(pb_internal_put)
{
    struct pb_request_header header = {.id = 0x8e9e05c521646901};
    struct pb_internal_raft_request request = {.put = &put, .header = &header};

    run_all(&(struct work){&pb_internal_raft_request_schema,
                           &etcdserverpb__internal_raft_request__descriptor, .msg = &request});
}
