#include "raft/describe.h"

#include "harness/test.h"
#include "raft/raft_rig_test.h"

static void check_entry(struct raft_entry e, const char *want)
{
    struct buf text = {0};

    raft_describe_entry(&text, &e, NULL);
    CHECK_STR(buf_str(&text), want);
    buf_free(&text);
}

TEST(entries_are_described_by_type)
{
    struct raft_entry e = {.term = 1, .index = 2, .data = BYTES("x")};

    check_entry(e, "1/2 EntryNormal \"x\"");
    e.type = RAFT_ENTRY_CONF_CHANGE;
    e.data = BYTES("\x10\x03\x18\x07");
    check_entry(e, "1/2 EntryConfChange l7");
    e.type = RAFT_ENTRY_CONF_CHANGE_V2;
    e.data = BYTES("");
    check_entry(e, "1/2 EntryConfChangeV2");
    e.data = BYTES("\x12\x02\x10\x01\x12\x04\x08\x01\x10\x02");
    check_entry(e, "1/2 EntryConfChangeV2 v1 r2");
    e.type = (enum raft_entry_type)strange_number(9);
    check_entry(e, "1/2 9");
}

TEST(a_message_with_several_entries_takes_several_lines)
{
    struct raft_entry entries[] = {{.term = 1, .index = 4}, {.term = 1, .index = 5}};
    struct raft_message m = {.type = RAFT_MSG_APP,
                             .from = 0xab,
                             .to = 2,
                             .term = 1,
                             .log_term = 1,
                             .index = 3,
                             .commit = 3,
                             .entries = entries,
                             .entry_count = 2};
    struct buf text = {0};

    raft_describe_message(&text, &m, NULL);
    CHECK_STR(buf_str(&text), "ab->2 MsgApp Term:1 Log:1/3 Commit:3 Entries:[\n"
                              "  1/4 EntryNormal \"\"\n"
                              "  1/5 EntryNormal \"\"\n"
                              "]");
    buf_free(&text);
}

TEST(an_output_is_described_as_a_ready)
{
    struct raft_read_state read = {.index = 7, .context = BYTES("ab")};
    struct raft_snapshot snapshot = {
        .index = 5, .term = 2, .conf_state = {.voters = {.count = 2, .at = {1, 2}}}};
    struct raft_output out = {0};
    struct buf text = {0};

    raft_describe_output(&text, &out, NULL);
    CHECK_STR(buf_str(&text), "<empty Ready>");

    buf_clear(&text);
    out.has_soft_state = out.has_hard_state = true;
    out.soft_state = (struct raft_soft_state){.lead = 2, .role = RAFT_FOLLOWER};
    out.hard_state = (struct raft_hard_state){.term = 2, .commit = 5};
    out.read_states = &read;
    out.read_state_count = 1;
    out.snapshot = &snapshot;
    raft_describe_output(&text, &out, NULL);
    CHECK_STR(buf_str(&text),
              "Ready MustSync=false:\n"
              "Lead:2 State:StateFollower\n"
              "HardState Term:2 Commit:5\n"
              "ReadStates [{7 [97 98]}]\n"
              "Snapshot Index:5 Term:2 ConfState:Voters:[1 2] VotersOutgoing:[] Learners:[] "
              "LearnersNext:[] AutoLeave:false\n");
    buf_free(&text);
}
