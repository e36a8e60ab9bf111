#include "entry/entry.h"

#include "harness/test.h"

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
