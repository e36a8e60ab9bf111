/* Two and three members on a fake wire. */
#include "peer/peer_rig_test.h"

TEST(members_connect_and_messages_arrive_in_order)
{
    struct peer_rig *r = peer_rig_open(2);

    peer_rig_until_streams(r, 1, 2, 4);
    peer_rig_until_streams(r, 2, 1, 4);
    for (uint64_t term = 1; term <= 3; term++)
        peer_rig_send(r, &(struct raft_message){.type = RAFT_MSG_VOTE,
                                                .from = peer_rig_id(1),
                                                .to = peer_rig_id(2),
                                                .term = term});
    peer_rig_append(r, 1, 2, 5, 0, 2, 4);
    peer_rig_append(r, 1, 2, 5, 2, 1, 4);
    peer_rig_append(r, 1, 2, 5, 3, 0, 0);
    peer_rig_until(r, &r->at[2].heard_count, 3);
    peer_rig_until(r, &r->at[2].append_count, 3);

    CHECK_STR(buf_str(&r->at[2].heard), "vote 11>22 term=1\nvote 11>22 term=2\n"
                                        "vote 11>22 term=3\n");
    CHECK_STR(buf_str(&r->at[2].appends), "app 11>22 term=5 at=0/0 commit=0 5/1:e1.. 5/2:e2..\n"
                                          "app 11>22 term=5 at=5/2 commit=2 5/3:e3..\n"
                                          "app 11>22 term=5 at=5/3 commit=3\n");
    CHECK_EQ(r->at[1].unreachable, 0);
    peer_rig_close(r);
}

TEST(a_message_goes_by_post_before_there_are_streams)
{
    struct peer_rig *r = peer_rig_open(2);

    peer_rig_send(
        r, &(struct raft_message){
               .type = RAFT_MSG_VOTE, .from = peer_rig_id(1), .to = peer_rig_id(2), .term = 7});
    peer_rig_until(r, &r->at[2].heard_count, 1);

    CHECK_STR(buf_str(&r->at[2].heard), "vote 11>22 term=7\n");
    CHECK_EQ(r->at[1].unreachable, 0);
    peer_rig_close(r);
}
