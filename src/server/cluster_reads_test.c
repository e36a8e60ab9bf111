/* What linearizable reads cost a cluster. */
#include "harness/test.h"
#include "server/cluster_rig_test.h"
#include "server/server_int.h"

/*
 * The leader is asked once for all that wait, however many they are; those that come meanwhile wait
 * for the next round. Not all need to come with the first read of the socket, so it may take two.
 */
TEST(gets_that_wait_at_a_follower_share_a_round)
{
    enum { GETS = 200 };
    struct cluster_rig r;
    static struct visit gets[GETS];
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned follower = cluster_rig_follower(&r);
    const struct server *s = r.at[follower]->server;
    cluster_rig_put(&r, follower, "k", "v");

    uint64_t before = s->pending.read_round;
    for (unsigned i = 0; i < GETS; i++)
        cluster_rig_ask(&r, follower, &gets[i], "/etcdserverpb.KV/Range", &pb_range_request_schema,
                        &(struct pb_range_request){.key = BYTES("k")});
    for (unsigned i = 0; i < GETS; i++) {
        cluster_rig_until_over(&r, &gets[i]);
        CHECK_STR(buf_str(&gets[i].text), "");
        visit_free(&gets[i]);
    }

    CHECK(s->pending.read_round - before <= 2);
    cluster_rig_close(&r);
}
