#include "pb/opinion_rig_test.h"

#include "base/rng.h"
#include "harness/test.h"
#include "pb/codec.h"
#include "pb/pb_int.h"

static const ProtobufCMessageDescriptor *find_generated(const struct opinion *o,
                                                        const struct pb_schema *schema)
{
    for (size_t i = 0; i < o->count; i++) {
        if (strcmp(o->theirs[i]->name, schema->name) == 0)
            return o->theirs[i];
    }
    test_fail(__FILE__, __LINE__, "%s is in no .proto file", schema->name);
}

/* ---- The tables ---- */

static void check_enum(const struct pb_enum *ours, const ProtobufCEnumDescriptor *theirs)
{
    CHECK_STR(ours->name, theirs->name);
    CHECK_EQ(ours->count, theirs->n_values);
    for (size_t i = 0; i < ours->count; i++) {
        CHECK_EQ(ours->values[i].number, theirs->values[i].value);
        CHECK_STR(ours->values[i].name, theirs->values[i].name);
    }
}

static ProtobufCType type_of(const struct pb_field *field)
{
    static const ProtobufCType types[] = {
        [PB_BOOL] = PROTOBUF_C_TYPE_BOOL,     [PB_INT64] = PROTOBUF_C_TYPE_INT64,
        [PB_UINT64] = PROTOBUF_C_TYPE_UINT64, [PB_UINT32] = PROTOBUF_C_TYPE_UINT32,
        [PB_ENUM] = PROTOBUF_C_TYPE_ENUM,     [PB_BYTES] = PROTOBUF_C_TYPE_BYTES,
        [PB_STRING] = PROTOBUF_C_TYPE_STRING, [PB_MESSAGE] = PROTOBUF_C_TYPE_MESSAGE,
    };

    return types[field->kind];
}

static ProtobufCLabel label_of(const struct pb_schema *schema, const struct pb_field *field)
{
    if (field->place >= PB_LIST)
        return PROTOBUF_C_LABEL_REPEATED;
    return schema->proto2 ? PROTOBUF_C_LABEL_OPTIONAL : PROTOBUF_C_LABEL_NONE;
}

static uint32_t flags_of(const struct pb_schema *schema, const struct pb_field *field)
{
    if (field->place == PB_ONEOF)
        return PROTOBUF_C_FIELD_FLAG_ONEOF;
    bool packed = field->place >= PB_LIST && field->kind < PB_BYTES && !schema->proto2;
    return packed ? PROTOBUF_C_FIELD_FLAG_PACKED : 0;
}

static void check_field(const struct pb_schema *schema, const struct pb_field *ours,
                        const ProtobufCFieldDescriptor *theirs)
{
    CHECK_STR(ours->name, theirs->name);
    CHECK_EQ(ours->number, theirs->id);
    CHECK_EQ(type_of(ours), theirs->type);
    CHECK_EQ(label_of(schema, ours), theirs->label);
    CHECK_EQ(flags_of(schema, ours), theirs->flags);
    if (ours->kind == PB_MESSAGE)
        CHECK_STR(ours->sub->name, ((const ProtobufCMessageDescriptor *)theirs->descriptor)->name);
    if (ours->kind == PB_ENUM)
        check_enum(ours->choices, theirs->descriptor);
}

void opinion_check_tables(const struct opinion *o)
{
    for (size_t i = 0; i < o->count; i++) {
        const struct pb_schema *ours = o->ours[i];
        const ProtobufCMessageDescriptor *theirs = find_generated(o, ours);

        CHECK_EQ(ours->field_count, theirs->n_fields);
        for (size_t j = 0; j < ours->field_count; j++)
            check_field(ours, &ours->fields[j], &theirs->fields[j]);
    }
}

void opinion_check_places(const struct opinion *o)
{
    for (size_t i = 0; i < o->count; i++) {
        const struct pb_schema *s = o->ours[i];
        for (size_t j = 1; j < s->field_count; j++) {
            for (size_t k = 0; k < j; k++) {
                bool union_of_both =
                    s->fields[j].place == PB_ONEOF && s->fields[k].place == PB_ONEOF;
                CHECK_EQ(s->fields[j].offset == s->fields[k].offset, union_of_both);
            }
            CHECK(s->fields[j - 1].number < s->fields[j].number);
        }
    }
}

/* ---- Random messages, made from the tables ---- */

struct maker {
    struct rng rng;
    struct arena arena;
};

static uint64_t random_number(struct maker *m)
{
    unsigned bits = (unsigned)rng_between(&m->rng, 0, 64);
    uint64_t value = rng_next(&m->rng);

    return bits == 0 ? 0 : value >> (64 - bits);
}

/* protobuf-c keeps strings as C does, so there is no zero in them. */
static struct bytes random_bytes(struct maker *m, const struct pb_field *field)
{
    size_t len = rng_chance(&m->rng, 1, 20) ? rng_below(&m->rng, 300) : rng_below(&m->rng, 8);
    uint8_t *at = arena_alloc(&m->arena, len + 1);

    if (field->place == PB_ALWAYS && len == 0)
        len = 1; /* the key of a map, which protobuf-c would leave out when empty */
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)(field->kind == PB_STRING ? rng_between(&m->rng, 1, 0x7f)
                                                   : rng_below(&m->rng, 256));
    return bytes_of(at, len);
}

static void make_message(struct maker *m, const struct pb_schema *schema, uint8_t *out,
                         unsigned depth);

static void make_value(struct maker *m, const struct pb_field *field, uint8_t *at, unsigned depth)
{
    uint64_t number = random_number(m);

    switch (field->kind) {
    case PB_MESSAGE:
        make_message(m, field->sub, at, depth - 1);
        break;
    case PB_BYTES:
    case PB_STRING:
        *(struct bytes *)(void *)at = random_bytes(m, field);
        break;
    case PB_BOOL:
        *(bool *)at = number & 1;
        break;
    case PB_INT64:
    case PB_UINT64:
        *(uint64_t *)(void *)at = number;
        break;
    default:
        *(uint32_t *)(void *)at = (uint32_t)number;
    }
}

static void make_list(struct maker *m, const struct pb_field *field, struct pb_any_list *list,
                      unsigned depth)
{
    list->count = rng_below(&m->rng, 4);
    list->at = arena_alloc_array(&m->arena, list->count, pb_element_size(field));
    for (size_t i = 0; i < list->count; i++)
        make_value(m, field, list->at + i * pb_element_size(field), depth);
}

/* Now and then as many as there is memory for. */
static void make_array(struct maker *m, const struct pb_field *field, struct pb_any_array *array,
                       unsigned depth)
{
    array->count = rng_chance(&m->rng, 1, 20) ? field->max : rng_below(&m->rng, 4);
    for (size_t i = 0; i < array->count; i++)
        make_value(m, field, array->at + i * pb_element_size(field), depth);
}

static void make_field(struct maker *m, const struct pb_field *field, uint8_t *out, unsigned depth)
{
    uint8_t *at = out + field->offset;

    if (field->kind == PB_MESSAGE && depth == 0)
        return;
    if (field->place == PB_LIST) {
        make_list(m, field, (void *)at, depth);
        return;
    }
    if (field->place == PB_ARRAY) {
        make_array(m, field, (void *)at, depth);
        return;
    }
    if (field->place == PB_ONEOF)
        *(unsigned *)(void *)(out + field->which_offset) = field->number;
    if (field->kind == PB_MESSAGE && field->place != PB_INSIDE) {
        uint8_t *sub = arena_alloc(&m->arena, field->sub->size);
        *(pb_any_pointer *)(void *)at = sub;
        at = sub;
    }
    make_value(m, field, at, depth);
}

static void make_message(struct maker *m, const struct pb_schema *schema, uint8_t *out,
                         unsigned depth)
{
    for (size_t i = 0; i < schema->field_count; i++) {
        const struct pb_field *field = &schema->fields[i];
        if (field->place == PB_ALWAYS || rng_chance(&m->rng, 1, 2))
            make_field(m, field, out, depth);
    }
}

/* ---- What the codecs make of them ---- */

static void check_protobuf_c_agrees(const struct opinion *o, const struct pb_schema *schema,
                                    struct bytes wire)
{
    const ProtobufCMessageDescriptor *descriptor = find_generated(o, schema);
    ProtobufCMessage *theirs = protobuf_c_message_unpack(descriptor, NULL, wire.len, wire.at);

    CHECK(theirs != NULL);
    CHECK_EQ(protobuf_c_message_get_packed_size(theirs), wire.len);
    struct buf again = {0};
    protobuf_c_message_pack(theirs, buf_extend(&again, wire.len + 1));
    again.len = wire.len;
    CHECK_BYTES(buf_bytes(&again), wire);
    buf_free(&again);
    protobuf_c_message_free_unpacked(theirs, NULL);
}

static void check_same(const struct pb_schema *schema, const void *msg, struct bytes wire,
                       const struct buf *text)
{
    struct buf out = {0};

    pb_encode(schema, msg, &out);
    CHECK_BYTES(buf_bytes(&out), wire);
    buf_clear(&out);
    pb_dump(schema, msg, &out);
    CHECK_BYTES(buf_bytes(&out), buf_bytes(text));
    buf_free(&out);
}

/* Encoded by hand and by table, read by hand, by table and by protobuf-c: all the same. */
static void check_round_trip(const struct opinion *o, struct maker *m,
                             const struct pb_schema *schema)
{
    uint8_t *msg = arena_alloc(&m->arena, schema->size);
    uint8_t *again = arena_alloc(&m->arena, schema->size);
    struct buf wire = {0}, by_table = {0}, text = {0};

    make_message(m, schema, msg, (unsigned)rng_below(&m->rng, 5));
    pb_encode(schema, msg, &wire);
    pb_encode_by_table(schema, msg, &by_table);
    pb_dump(schema, msg, &text);

    CHECK_BYTES(buf_bytes(&by_table), buf_bytes(&wire));
    CHECK_EQ(pb_decode(schema, buf_bytes(&wire), &m->arena, again), ERR_OK);
    check_same(schema, again, buf_bytes(&wire), &text);
    CHECK_EQ(pb_decode_by_table(schema, buf_bytes(&wire), &m->arena, again), ERR_OK);
    check_same(schema, again, buf_bytes(&wire), &text);
    check_protobuf_c_agrees(o, schema, buf_bytes(&wire));
    buf_free(&wire);
    buf_free(&by_table);
    buf_free(&text);
}

void opinion_check_random(const struct opinion *o)
{
    struct maker m = {0};

    rng_seed(&m.rng, test_seed());
    for (uint64_t round = 0; round < 50 * test_effort(); round++) {
        for (size_t i = 0; i < o->count; i++) {
            check_round_trip(o, &m, o->ours[i]);
            arena_reset(&m.arena);
        }
    }
    arena_free(&m.arena);
}

void opinion_check_damaged(const struct opinion *o)
{
    struct maker m = {0};
    struct buf wire = {0}, ours = {0}, by_table = {0};
    size_t refused = 0, accepted = 0;

    rng_seed(&m.rng, test_seed());
    for (uint64_t round = 0; round < 40000 * test_effort(); round++) {
        const struct pb_schema *schema = o->ours[rng_below(&m.rng, o->count)];
        uint8_t *msg = arena_alloc(&m.arena, schema->size);
        uint8_t *other = arena_alloc(&m.arena, schema->size);
        make_message(&m, schema, msg, 3);
        buf_clear(&wire);
        pb_encode(schema, msg, &wire);
        if (wire.len > 0 && rng_chance(&m.rng, 1, 4))
            wire.len = rng_below(&m.rng, wire.len);
        else if (wire.len > 0)
            wire.at[rng_below(&m.rng, wire.len)] = (uint8_t)rng_next(&m.rng);

        enum err e = pb_decode(schema, buf_bytes(&wire), &m.arena, msg);
        CHECK_EQ(pb_decode_by_table(schema, buf_bytes(&wire), &m.arena, other), e);
        buf_clear(&ours);
        buf_clear(&by_table);
        pb_encode(schema, msg, &ours);
        pb_encode(schema, other, &by_table);
        CHECK_BYTES(buf_bytes(&by_table), buf_bytes(&ours));
        *(e == ERR_OK ? &accepted : &refused) += 1;
        arena_reset(&m.arena);
    }
    CHECK(accepted > 1000);
    CHECK(refused > 1000);
    buf_free(&wire);
    buf_free(&ours);
    buf_free(&by_table);
    arena_free(&m.arena);
}
