#include "harness/test.h"
#include "sim/steward.h"

#include <stdio.h>

enum { TRIES = 40 };

struct machines {
    unsigned starts, host;
    char told[256];
};

static void on_start(void *context, unsigned host, const char *initial_cluster)
{
    struct machines *m = context;

    m->starts++;
    m->host = host;
    snprintf(m->told, sizeof(m->told), "%s", initial_cluster);
}

static struct machines refuse(unsigned host, const char *why)
{
    static const struct steward_handlers on = {.start = on_start};
    struct machines m = {0};
    struct roster roster = {0};
    struct steward_fleet fleet = {0};
    struct steward_endpoints endpoints;
    struct fake_world *w = fake_world_new(test_seed());
    struct steward_options o = {.io = fake_world_io(w),
                                .founders = 1,
                                .hosts = 6,
                                .roster = &roster,
                                .fleet = &fleet,
                                .endpoints = &endpoints,
                                .on = &on,
                                .context = &m};

    rng_seed(&o.rng, test_seed());
    struct steward *s = steward_new(&o);
    for (unsigned i = 0; i < TRIES; i++)
        steward_refused(s, host, why);
    CHECK(!steward_problem(s));
    steward_free(s);
    fake_world_free(w);
    return m;
}

/* That may be the only place where they are named. Not every time: it may be started as it was. */
TEST(who_is_not_let_in_is_started_with_the_members_that_the_refusal_names)
{
    struct machines m = refuse(
        4, "error validating peerURLs {ClusterID:8ba3 Members:[&{ID:98e2 "
           "RaftAttributes:{PeerURLs:[http://10.0.0.5:2380] IsLearner:false} "
           "Attributes:{Name: ClientURLs:[]}} &{ID:edaa "
           "RaftAttributes:{PeerURLs:[http://10.0.0.3:2381 http://10.0.0.3:2380] IsLearner:false} "
           "Attributes:{Name:m3 ClientURLs:[http://10.0.0.3:2379]}}] RemovedMemberIDs:[]}: "
           "PeerURLs: no match found for existing member");

    CHECK(m.starts > 0);
    CHECK(m.starts < TRIES);
    CHECK_EQ(m.host, 4);
    CHECK_STR(m.told, "m3=http://10.0.0.3:2381,m3=http://10.0.0.3:2380,m5=http://10.0.0.5:2380");
}

/* Whom it has asked is behind, or it was never added; or nobody was there to name anybody. */
TEST(who_is_not_among_them_is_not_started_with_them)
{
    CHECK_EQ(refuse(4, "error validating peerURLs {ClusterID:8ba3 Members:[&{ID:edaa "
                       "RaftAttributes:{PeerURLs:[http://10.0.0.3:2380] IsLearner:false} "
                       "Attributes:{Name:m3 ClientURLs:[http://10.0.0.3:2379]}}] "
                       "RemovedMemberIDs:[]}: member count is unequal")
                 .starts,
             0);
    CHECK_EQ(refuse(4, "cannot fetch cluster info from peer urls").starts, 0);
}
