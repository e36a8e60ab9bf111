#include "entry/entry.h"

#include "gen/pb/raft.pb-c.h"
#include "gen/pb/wal.pb-c.h"
#include "harness/test.h"
#include "pb/codec.h"
#include "pb/opinion_rig_test.h"

/* --- the tables --- */

#define LISTED(name) &raft_##name##_schema,
static const struct pb_schema *const schemas[] = {RAFT_MESSAGES(LISTED)};
#undef LISTED

static const ProtobufCMessageDescriptor *const generated[] = {
    &raftpb__entry__descriptor,
    &raftpb__conf_state__descriptor,
    &raftpb__snapshot_metadata__descriptor,
    &raftpb__snapshot__descriptor,
    &raftpb__message__descriptor,
    &raftpb__hard_state__descriptor,
    &raftpb__conf_change__descriptor,
    &raftpb__conf_change_single__descriptor,
    &raftpb__conf_change_v2__descriptor,
    &walpb__snapshot__descriptor,
};

static const struct opinion opinion = {schemas, generated, ARRAY_LEN(schemas)};
static_assert(ARRAY_LEN(schemas) == ARRAY_LEN(generated), "each table has its message");

TEST(raft_tables_say_what_the_proto_files_say)
{
    opinion_check_tables(&opinion);
    opinion_check_places(&opinion);
}

TEST(random_raft_messages_are_the_same_to_all_three_codecs)
{
    opinion_check_random(&opinion);
}

TEST(damaged_raft_messages_are_the_same_by_hand_and_by_table)
{
    opinion_check_damaged(&opinion);
}

TEST(raft_messages_encoded_by_another_implementation_are_read_and_written_alike)
{
    CHECK(vectors_check(schemas, ARRAY_LEN(schemas), NULL) > 50);
}

/* --- conf changes --- */

TEST(conf_changes_survive_the_wire)
{
    struct raft_conf_change v1 = {.id = 77,
                                  .type = RAFT_REMOVE_NODE,
                                  .node_id = 1ull << 60,
                                  .context = BYTES("ctx")},
                            back;
    struct raft_conf_change_v2 v2 = {.transition = RAFT_TRANSITION_JOINT_EXPLICIT,
                                     .change_count = 2,
                                     .changes = {{RAFT_ADD_NODE, 1}, {RAFT_ADD_LEARNER_NODE, 2}},
                                     .context = BYTES("x")},
                               back2;
    struct buf wire = {0};

    raft_conf_change_encode(&v1, &wire);
    CHECK(raft_conf_change_decode(buf_bytes(&wire), &back));
    CHECK_EQ(back.id, 77);
    CHECK_EQ(back.type, RAFT_REMOVE_NODE);
    CHECK(back.node_id == 1ull << 60);
    CHECK_BYTES(back.context, BYTES("ctx"));

    buf_clear(&wire);
    raft_conf_change_v2_encode(&v2, &wire);
    CHECK(raft_conf_change_v2_decode(buf_bytes(&wire), &back2));
    CHECK_EQ(back2.transition, RAFT_TRANSITION_JOINT_EXPLICIT);
    CHECK_EQ(back2.change_count, 2);
    CHECK_EQ(back2.changes[1].type, RAFT_ADD_LEARNER_NODE);
    CHECK_EQ(back2.changes[1].node_id, 2);
    CHECK_BYTES(back2.context, BYTES("x"));
    buf_free(&wire);
}

TEST(a_founding_entry_has_the_bytes_etcd_gives_it)
{
    struct raft_conf_change add = {.node_id = 300, .context = BYTES("c")};
    struct buf wire = {0};

    raft_conf_change_encode(&add, &wire);
    CHECK_BYTES(buf_bytes(&wire), BYTES("\x10\x00\x18\xac\x02\x22\x01\x63"));
    buf_free(&wire);
}

TEST(what_is_no_conf_change_does_not_decode)
{
    static const struct bytes bad[] = {
        BYTES("\x10"),                                             /* ends in a field */
        BYTES("\x22\x05\x61"),                                     /* longer than it is */
        BYTES("\x00\x01"),                                         /* field 0 */
        BYTES("\x13\x10\x01"),                                     /* a group without end */
        BYTES("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* a number too long */
        BYTES("\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x61"), /* a length too large */
    };
    struct raft_conf_change cc;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!raft_conf_change_decode(bad[i], &cc));
    /* What Go skips is skipped: an unknown field, a group, a known field of another type. Nothing
     * at all is the zero change. */
    CHECK(raft_conf_change_decode(BYTES("\x4a\x01\x61\x18\x07\x55\x01\x02\x03\x04"), &cc));
    CHECK_EQ(cc.node_id, 7);
    CHECK(raft_conf_change_decode(BYTES("\x13\x14\x12\x01\x61\x18\x08"), &cc));
    CHECK_EQ(cc.type, RAFT_ADD_NODE);
    CHECK_EQ(cc.node_id, 8);
    CHECK(raft_conf_change_decode(BYTES(""), &cc));
}

TEST(too_many_changes_do_not_decode)
{
    struct buf wire = {0};
    struct raft_conf_change_v2 cc;

    for (int i = 0; i < RAFT_CHANGES_MAX; i++)
        buf_append(&wire, BYTES("\x12\x02\x10\x05"));
    CHECK(raft_conf_change_v2_decode(buf_bytes(&wire), &cc));
    CHECK_EQ(cc.change_count, RAFT_CHANGES_MAX);
    buf_append(&wire, BYTES("\x12\x02\x10\x05"));
    CHECK(!raft_conf_change_v2_decode(buf_bytes(&wire), &cc));
    buf_free(&wire);
}

/* --- files --- */

TEST(the_first_snapshot_record_of_a_log_is_that_of_etcd)
{
    struct buf out = {0};

    raft_snapshot_encode_record(&(struct raft_snapshot){0}, &out);
    CHECK_BYTES(buf_bytes(&out), BYTES("\x08\x00\x10\x00"));
    buf_clear(&out);
    raft_snapshot_encode_record(
        &(struct raft_snapshot){
            .index = 7, .term = 2, .conf_state = {.voters = {1, {5}}}, .data = BYTES("x")},
        &out);
    CHECK_BYTES(buf_bytes(&out), BYTES("\x08\x07\x10\x02\x1a\x04\x08\x05\x28\x00"));
    buf_free(&out);
}

TEST(an_entry_is_its_head_and_its_data)
{
    struct raft_entry e = {.type = RAFT_ENTRY_CONF_CHANGE,
                           .term = UINT64_MAX,
                           .index = UINT64_MAX,
                           .data = BYTES("data")};
    uint8_t head[RAFT_ENTRY_HEAD_BYTES], *end = head + sizeof(head);
    struct buf whole = {0}, parts = {0};

    uint8_t *at = raft_entry_put_head(&e, end);
    buf_append(&parts, bytes_of(at, (size_t)(end - at)));
    buf_append(&parts, e.data);
    pb_encode(&raft_entry_schema, &e, &whole);

    CHECK_BYTES(buf_bytes(&parts), buf_bytes(&whole));
    CHECK_EQ(raft_entry_size(&e), whole.len);
    memset(&e.type, 0xff, sizeof(e.type)); /* -1, the longest of all types */
    CHECK(raft_entry_put_head(&e, end) >= head);
    buf_free(&whole);
    buf_free(&parts);
}

/* --- messages --- */

/* Go keeps values of a proto2 enum that it does not know; Python cannot be asked. */
TEST(unknown_types_of_messages_and_entries_are_kept)
{
    struct arena arena = {0};
    struct bytes wire = BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    struct raft_message m;
    struct raft_entry entry;
    struct buf out = {0};

    CHECK_EQ(pb_decode(&raft_message_schema, wire, &arena, &m), ERR_OK);
    CHECK_EQ(pb_decode(&raft_entry_schema, wire, &arena, &entry), ERR_OK);
    raft_message_encode(&m, &out);

    CHECK_EQ((int32_t)m.type, -1);
    CHECK_EQ((int32_t)entry.type, -1);
    CHECK_BYTES(buf_bytes(&out), wire);
    buf_free(&out);
    arena_free(&arena);
}

/* An append, a snapshot, a refusal and a heartbeat, encoded by Go from etcd's raftpb 3.7. Its
 * explicit zero for a normal entry's type is all that we leave out. */
TEST(messages_of_etcd_are_read_and_written_alike)
{
    static const struct {
        struct bytes wire, want;
    } all[] = {
        {BYTES("\x08\x03\x10\x02\x18\x01\x20\x07\x28\x06\x30\xe7\x07\x3a\x0c\x08\x00\x10\x07\x18"
               "\xe8\x07\x22\x03\x70\x75\x74\x3a\x0d\x08\x01\x10\x07\x18\xe9\x07\x22\x04\x10\x00"
               "\x18\x09\x40\xe6\x07"),
         BYTES("\x08\x03\x10\x02\x18\x01\x20\x07\x28\x06\x30\xe7\x07\x3a\x0a\x10\x07\x18\xe8\x07"
               "\x22\x03\x70\x75\x74\x3a\x0d\x08\x01\x10\x07\x18\xe9\x07\x22\x04\x10\x00\x18\x09"
               "\x40\xe6\x07")},
        {BYTES("\x08\x07\x10\x02\x18\x01\x20\x07\x4a\x19\x0a\x05\x73\x74\x61\x74\x65\x12\x10\x0a"
               "\x09\x08\x01\x08\xac\x02\x10\x05\x28\x00\x10\x90\x03\x18\x06"),
         BYTES("\x08\x07\x10\x02\x18\x01\x20\x07\x4a\x19\x0a\x05\x73\x74\x61\x74\x65\x12\x10\x0a"
               "\x09\x08\x01\x08\xac\x02\x10\x05\x28\x00\x10\x90\x03\x18\x06")},
        {BYTES("\x08\x04\x10\x01\x18\x02\x20\x07\x28\x03\x30\x0c\x50\x01\x58\x0b"),
         BYTES("\x08\x04\x10\x01\x18\x02\x20\x07\x28\x03\x30\x0c\x50\x01\x58\x0b")},
        {BYTES("\x08\x08\x10\x01\x18\x02\x20\x07\x40\x0c\x62\x03\x63\x74\x78"),
         BYTES("\x08\x08\x10\x01\x18\x02\x20\x07\x40\x0c\x62\x03\x63\x74\x78")},
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct arena arena = {0};
        struct blob *frame = blob_copy(all[i].wire);
        struct buf out = {0};
        struct raft_message m;

        CHECK_EQ(raft_message_decode(frame, blob_bytes(frame), &arena, &m), ERR_OK);
        raft_message_encode(&m, &out);
        CHECK_BYTES(buf_bytes(&out), all[i].want);
        buf_free(&out);
        blob_unref(frame);
        arena_free(&arena);
    }
}

/* A frame with something before and behind the message, as a stream has it. */
static struct blob *frame_of(const struct raft_message *m, struct bytes *wire)
{
    struct buf frame = {0};

    buf_append_str(&frame, "before");
    raft_message_encode(m, &frame);
    size_t end = frame.len;
    buf_append_str(&frame, "behind");
    struct blob *b = blob_copy(buf_bytes(&frame));
    *wire = bytes_of(blob_bytes(b).at + 6, end - 6);
    buf_free(&frame);
    return b;
}

TEST(a_message_that_arrived_shares_the_frame_it_came_in)
{
    struct raft_entry entries[] = {{.term = 1, .index = 5, .data = BYTES("five")},
                                   {.term = 1, .index = 6}};
    struct raft_snapshot snapshot = {
        .index = 4, .term = 1, .conf_state = {.voters = {2, {1, 2}}}, .data = BYTES("state")};
    struct raft_message sent = {.type = RAFT_MSG_APP,
                                .entries = entries,
                                .entry_count = 2,
                                .snapshot = &snapshot,
                                .context = BYTES("c")},
                        got;
    struct arena arena = {0};
    struct bytes wire;
    struct blob *frame = frame_of(&sent, &wire);

    CHECK_EQ(raft_message_decode(frame, wire, &arena, &got), ERR_OK);

    CHECK_EQ(got.entry_count, 2);
    CHECK(got.entries[0].blob == frame);
    CHECK(got.entries[0].data.at > wire.at && got.entries[0].data.at < wire.at + wire.len);
    CHECK(got.entries[1].blob == NULL);
    CHECK(got.snapshot->blob == frame);
    CHECK_EQ(got.snapshot->conf_state.voters.at[1], 2);
    CHECK_EQ(blob_ref_count(frame), 1);

    struct raft_message *kept = raft_message_clone(&got);
    arena_free(&arena);
    CHECK_EQ(blob_ref_count(frame), 3);
    blob_unref(frame);
    CHECK_BYTES(kept->entries[0].data, BYTES("five"));
    CHECK_BYTES(kept->snapshot->data, BYTES("state"));
    CHECK_BYTES(kept->context, BYTES("c"));
    raft_message_free(kept);
}

/* Decodes `unit` repeated to about two mebibytes. */
static enum err decode_many(struct bytes unit)
{
    struct arena arena = {0};
    struct raft_message m;
    struct buf wire = {0};

    while (wire.len < 2 * MIB)
        buf_append(&wire, unit);
    enum err e = pb_decode(&raft_message_schema, buf_bytes(&wire), &arena, &m);
    CHECK(arena.total_bytes <= PB_ARENA_FLOOR + PB_ARENA_FACTOR * wire.len + 8 * PB_ARENA_LEVEL);
    buf_free(&wire);
    arena_free(&arena);
    return e;
}

TEST(a_message_made_to_swell_is_refused)
{
    CHECK_EQ(decode_many(BYTES("\x3a\x00")), ERR_TOO_LARGE);         /* entries of nothing */
    CHECK_EQ(decode_many(BYTES("\x72\x00")), ERR_TOO_LARGE);         /* responses of nothing */
    CHECK_EQ(decode_many(BYTES("\x72\x02\x4a\x00")), ERR_TOO_LARGE); /* with a snapshot each */
    CHECK_EQ(decode_many(BYTES("\x3a\x00\x10\x01")), ERR_TOO_LARGE); /* in many pieces */
    CHECK_EQ(decode_many(BYTES("\x4a\x00")), ERR_OK);                /* one snapshot, merged */
    CHECK_EQ(decode_many(BYTES("\x4a\x06\x12\x04\x0a\x02\x08\x01")), ERR_TOO_LARGE); /* voters */
}

TEST(responses_nest_only_so_deep)
{
    struct arena arena = {0};
    struct raft_message m;
    uint8_t wire[4 * PB_DEPTH_MAX], *at = wire + sizeof(wire);

    for (unsigned depth = 1; depth <= PB_DEPTH_MAX + 1; depth++) {
        size_t len = (size_t)(wire + sizeof(wire) - at);
        enum err e = pb_decode(&raft_message_schema, bytes_of(at, len), &arena, &m);
        CHECK_EQ(e, depth <= PB_DEPTH_MAX ? ERR_OK : ERR_TOO_DEEP);
        if (len >= 0x80)
            *--at = (uint8_t)(len >> 7);
        *--at = (uint8_t)(len >= 0x80 ? (len & 0x7f) | 0x80 : len);
        *--at = 0x72;
    }
    arena_free(&arena);
}
