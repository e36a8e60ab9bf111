#include "entry/entry_int.h"

#include "base/assert.h"
#include "pb/codec.h"
#include "pb/wire.h"

/*
 * --- entries and hard states, by hand ---
 *
 * They are what every put goes through, several times. Written backwards, as pb does: when a length
 * is due, what it counts is already there, and nothing has to be measured first. An entry's head
 * can be had alone, so that the log writes it in front of data that it shares.
 */

static void entry_take(struct pb_reader *r, void *out)
{
    struct raft_entry *e = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_VARINT(1):
            e->type = (enum raft_entry_type)(uint32_t)pb_take_varint(r);
            break;
        case PB_TAG_VARINT(2):
            e->term = pb_take_varint(r);
            break;
        case PB_TAG_VARINT(3):
            e->index = pb_take_varint(r);
            break;
        case PB_TAG_BYTES(4):
            e->data = pb_take_bytes(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

/* A type that a newer member has invented may be negative, and then takes ten bytes. */
static uint64_t type_number(const struct raft_entry *e)
{
    return (uint64_t)(int32_t)e->type;
}

size_t raft_entry_size(const struct raft_entry *e)
{
    return pb_number_size(type_number(e)) + pb_number_size(e->term) + pb_number_size(e->index) +
           pb_field_size(e->data);
}

uint8_t *raft_entry_put_head(const struct raft_entry *e, uint8_t *end)
{
    if (e->data.len > 0) {
        end = pb_put_varint(end, e->data.len);
        *--end = (uint8_t)PB_TAG_BYTES(4);
    }
    end = pb_put_number(end, 3, e->index);
    end = pb_put_number(end, 2, e->term);
    return pb_put_number(end, 1, type_number(e));
}

static size_t entry_size(const void *msg)
{
    return raft_entry_size(msg);
}

static uint8_t *entry_put(const void *msg, uint8_t *end)
{
    const struct raft_entry *e = msg;

    end -= e->data.len;
    if (e->data.len > 0)
        memcpy(end, e->data.at, e->data.len);
    return raft_entry_put_head(e, end);
}

const struct pb_by_hand raft_entry_by_hand = {entry_take, entry_size, entry_put};

static void hard_state_take(struct pb_reader *r, void *out)
{
    struct raft_hard_state *s = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_VARINT(1):
            s->term = pb_take_varint(r);
            break;
        case PB_TAG_VARINT(2):
            s->vote = pb_take_varint(r);
            break;
        case PB_TAG_VARINT(3):
            s->commit = pb_take_varint(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t hard_state_size(const void *msg)
{
    const struct raft_hard_state *s = msg;

    return 3 + pb_varint_size(s->term) + pb_varint_size(s->vote) + pb_varint_size(s->commit);
}

/* All three go out, zero or not: a log is compared byte for byte. */
uint8_t *raft_hard_state_put(const struct raft_hard_state *s, uint8_t *end)
{
    end = pb_put_varint(end, s->commit);
    *--end = (uint8_t)PB_TAG_VARINT(3);
    end = pb_put_varint(end, s->vote);
    *--end = (uint8_t)PB_TAG_VARINT(2);
    end = pb_put_varint(end, s->term);
    *--end = (uint8_t)PB_TAG_VARINT(1);
    return end;
}

static uint8_t *hard_state_put(const void *msg, uint8_t *end)
{
    return raft_hard_state_put(msg, end);
}

const struct pb_by_hand raft_hard_state_by_hand = {hard_state_take, hard_state_size,
                                                   hard_state_put};

/* --- conf changes --- */

/* They hold all their lists themselves, so the arena is only for the decoder's own use. */
static bool decode_alone(const struct pb_schema *schema, struct bytes from, void *out)
{
    struct arena arena = {0};
    enum err e = pb_decode(schema, from, &arena, out);

    arena_free(&arena);
    return e == ERR_OK;
}

void raft_conf_change_encode(const struct raft_conf_change *cc, struct buf *out)
{
    pb_encode(&raft_conf_change_schema, cc, out);
}

void raft_conf_change_v2_encode(const struct raft_conf_change_v2 *cc, struct buf *out)
{
    pb_encode(&raft_conf_change_v2_schema, cc, out);
}

bool raft_conf_change_decode(struct bytes from, struct raft_conf_change *out)
{
    return decode_alone(&raft_conf_change_schema, from, out);
}

bool raft_conf_change_v2_decode(struct bytes from, struct raft_conf_change_v2 *out)
{
    return decode_alone(&raft_conf_change_v2_schema, from, out);
}

struct raft_conf_change_v2 raft_conf_change_as_v2(const struct raft_conf_change *cc)
{
    return (struct raft_conf_change_v2){
        .change_count = 1,
        .changes = {{cc->type, cc->node_id}},
        .context = cc->context,
    };
}

bool raft_entry_conf_change(const struct raft_entry *e, struct raft_conf_change_v2 *out)
{
    struct raft_conf_change v1;

    if (e->type == RAFT_ENTRY_CONF_CHANGE_V2)
        return raft_conf_change_v2_decode(e->data, out);
    if (e->type != RAFT_ENTRY_CONF_CHANGE || !raft_conf_change_decode(e->data, &v1))
        return false;
    *out = raft_conf_change_as_v2(&v1);
    return true;
}

/* --- snapshots --- */

void raft_snapshot_encode(const struct raft_snapshot *s, struct buf *out)
{
    pb_encode(&raft_snapshot_schema, s, out);
}

enum err raft_snapshot_decode(struct bytes wire, struct arena *arena, struct raft_snapshot *out)
{
    return pb_decode(&raft_snapshot_schema, wire, arena, out);
}

void raft_snapshot_encode_record(const struct raft_snapshot *s, struct buf *out)
{
    pb_encode(&raft_snapshot_record_schema, s, out);
}

enum err raft_snapshot_decode_record(struct bytes wire, struct arena *arena,
                                     struct raft_snapshot *out)
{
    return pb_decode(&raft_snapshot_record_schema, wire, arena, out);
}

/* --- messages --- */

void raft_message_encode(const struct raft_message *m, struct buf *out)
{
    pb_encode(&raft_message_schema, m, out);
}

/*
 * The decoder knows nothing of blobs. What it made is ours alone until we hand it out, so writing
 * through its const pointers is no sin. Responses are as deep as the decoder lets them be.
 */
static void lend_blob(struct raft_message *m, struct blob *frame)
{
    struct raft_entry *entries = (struct raft_entry *)m->entries;
    struct raft_snapshot *snapshot = (struct raft_snapshot *)m->snapshot;

    for (size_t i = 0; i < m->entry_count; i++)
        entries[i].blob = entries[i].data.len > 0 ? frame : NULL;
    if (snapshot && snapshot->data.len > 0)
        snapshot->blob = frame;
    for (size_t i = 0; i < m->response_count; i++)
        lend_blob((struct raft_message *)&m->responses[i], frame);
}

enum err raft_message_decode(struct blob *frame, struct bytes wire, struct arena *arena,
                             struct raft_message *out)
{
    struct bytes whole = blob_bytes(frame);

    assert(wire.len == 0 || wire.at >= whole.at);
    assert(wire.len == 0 || wire.at + wire.len <= whole.at + whole.len);

    enum err e = pb_decode(&raft_message_schema, wire, arena, out);
    if (e == ERR_OK)
        lend_blob(out, frame);
    return e;
}
