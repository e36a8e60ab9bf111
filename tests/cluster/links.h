/*
 * links: the network between members, to be broken one direction at a time.
 *
 * In front of each member stands a port that its peers are told of; what connects there is carried
 * on to the member's own. Who has connected is asked of the kernel, so a connection belongs to a
 * pair of members, and its bytes to one direction of that pair, whoever opened it:
 *
 *     m1 --connects--> [port of m2] --> m2        requests are bytes of 1->2, responses of 2->1
 *
 *     LINK_OPEN    bytes pass
 *     LINK_STALLED they wait, with the senders, until the link is open again; as when packets are
 *                  lost and sent again
 *     LINK_DROPPED they vanish, and the sender is not told; a connection that has lost some is
 *                  reset when the link opens
 *     LINK_CUT     connections between the two are closed, and new ones as soon as they come: this
 *                  is seen by both sides, so it is the same in both directions
 *
 * A hole is in front of one member's port: the bytes of every connection to there vanish, in both
 * directions, and only its end passes, as through the proxy of etcd's own suites. The connections
 * that the member itself has opened to others are not touched.
 *
 * Everything happens in the turns of the loop whose io this was opened with.
 */
#pragma once

#include "base/list.h"
#include "cluster/fleet.h"
#include "io/io.h"

enum link_state { LINK_OPEN, LINK_STALLED, LINK_DROPPED, LINK_CUT };

struct links {
    const struct io *io;
    struct fleet *fleet;
    enum link_state state[FLEET_MAX][FLEET_MAX]; /* [from][to] */
    bool has_hole[FLEET_MAX];                    /* in front of its port */
    struct links_port {
        struct links *links;
        struct listener *listener;
    } ports[FLEET_MAX];
    struct list pipes;
    int diag_fd; /* to the kernel */
    unsigned carried, strangers;
    uint64_t bytes;
};

/* Listens for every member of the fleet and becomes what is advertised. */
MUST_CHECK enum err links_open(struct links *l, const struct io *io, struct fleet *fleet);
/* What it has open is gone some turns later. */
void links_close(struct links *l);
/* Is everything gone? */
bool links_are_closed(const struct links *l);

void links_set(struct links *l, unsigned from, unsigned to, enum link_state state);
void links_set_all(struct links *l, enum link_state state);
void links_set_hole(struct links *l, unsigned member, bool has_hole);
