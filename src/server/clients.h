/*
 * clients: where this member can be reached, and who answers there.
 *
 *     sockets --> rpc --> line --> api (with watch behind it) --> the turn
 *     as far as the line on the core's thread, or on others (wires.h)
 *
 * Places are by TLS or not, as their URLs say. All are taken before anything on disk is touched: a
 * server that is started twice by mistake says so and leaves nothing behind. Clients who come early
 * are accepted, but not heard before this member is known to its cluster (turn.c); to them it is a
 * slow answer. They are so many at most that log and store do not run out of descriptors; with a
 * limit that leaves none for clients, this member does not start.
 *
 * Life       clients_listen, then clients_open once there is a state to ask about; clients_stop
 *            when nobody new is wanted; clients_close, or as in a crash clients_abandon.
 * Not here   Hearing and answering (turn.c). Other members (peering.h).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "server/secure.h"

#include <stdatomic.h>

struct entropy;
struct api;
struct api_facts;
struct either;
struct io;
struct rpc;
struct rpc_line;
struct state;
struct watch;
struct wires;

struct clients {
    const struct io *io;
    const struct config *config;
    const struct logger *logger;

    struct rpc *rpc;       /* NULL: on threads of their own, */
    struct wires *wires;   /* which these are; otherwise NULL */
    struct rpc_line *line; /* between rpc and api; or the core's end of it */
    struct watch *watch;
    struct api *api;
    struct secure secure;         /* for places by TLS, if there are any; its tls is rpc's */
    struct either *either;        /* NULL: no address is there both by TLS and without */
    atomic_bool names_are_users;  /* as rpc is told; the server keeps it up to date */
    struct clients_place *places; /* listened at: for clients, for HTTP, for probes */
    size_t place_count;
};

/* On one that is all zeroes. Also when it fails, clients_close takes what there is. */
MUST_CHECK enum err clients_listen(struct clients *c, const struct io *io,
                                   const struct config *config, const struct logger *logger,
                                   uint64_t map_seed, unsigned line_delay_turns_max,
                                   struct buf *why);

/* The facts are kept up to date by the server. */
void clients_open(struct clients *c, const struct state *state, struct entropy *entropy,
                  const struct api_facts *facts, uint64_t map_seed, uint64_t watch_seed);

/* Says that it serves; probes have been served before. */
void clients_serve(const struct clients *c);

/* Of the nth place, in the order of the flags; 0: there are fewer. */
uint16_t clients_port(const struct clients *c, size_t nth);

/* At the begin of the turn, what they have said is put on the line; at its end replies leave. */
void clients_deliver(struct clients *c);
void clients_flush(struct clients *c);

/* Is there space for a reply? Whoever does what may be answered asks here: that is where the memory
 * of replies is bounded. They leave with the end of the turn. */
bool clients_can_be_answered(const struct clients *c);

/* Would clients_deliver do something? */
bool clients_have_events(const struct clients *c);

/* Nobody is connected, nor could be; the first but for who is shaking hands. */
bool clients_are_idle(const struct clients *c);
bool clients_are_gone(const struct clients *c);

/* Nobody new. Also when only some of it has been opened. Later: who is left is cut off. */
void clients_stop(struct clients *c);
void clients_cut(struct clients *c);

void clients_close(struct clients *c);
/* What is under way ends without a word. */
void clients_abandon(struct clients *c);

/* The rooms' invariants, asserted. */
void clients_check(const struct clients *c);
