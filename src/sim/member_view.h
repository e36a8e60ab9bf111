/* member_view: a member of the simulated cluster, as cluster_check looks at it. */
#pragma once

#include "sim/cluster_check.h"
#include "sim/rights.h"

struct server;

enum { MEMBER_BOUNDS = 1 };

struct member_view {
    struct cluster_view view; /* lends what is below, and the server */
    struct cluster_bound bounds[MEMBER_BOUNDS];
    struct raft_conf_state conf;
    uint64_t table; /* the members, as roster.h knows them; 0: there is none yet */
};

/* Until the server's next turn. */
void member_view(const struct server *s, struct member_view *out);

/* Its users and roles; there are some, if only none (server_auth). False: they are not of this
 * world. */
bool member_rights(const struct server *s, struct rights *out);
