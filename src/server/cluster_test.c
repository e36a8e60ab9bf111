/* What several members are together: a cluster that is founded, replicates, and outlives some of
 * them. */
#include "server/cluster_rig_test.h"

TEST(three_members_found_a_cluster_elect_a_leader_and_replicate)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);

    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);
    cluster_rig_put(&r, leader, "k", "v");
    cluster_rig_until_equal(&r, leader);

    for (unsigned n = 1; n <= 3; n++) {
        struct server_status status = server_status(r.at[n]->server);
        CHECK_EQ(status.revision, 2);
        CHECK_EQ(status.cluster_id, server_status(r.at[leader]->server).cluster_id);
        CHECK_STR(cluster_rig_get(&r, n, "k", true), "v");
        CHECK_STR(cluster_rig_get(&r, n, "k", false), "v");
    }
    cluster_rig_close(&r);
}
