/*
 * idle: clients that connect and say nothing, and so take file descriptors from the member.
 *
 * They come in groups, more than the member may take, so that others wait behind them; after a
 * while some of them leave, or all.
 */
#pragma once

#include "base/rng.h"
#include "io/io.h"
#include "io/net.h"

struct idle; /* opaque */

enum { IDLE_MAX = 320 };

struct idle_options {
    const struct io *io; /* of the clients' host */
    struct net_address server;
    unsigned count; /* at once; IDLE_MAX at most */
    struct rng rng;
};

struct idle *idle_new(const struct idle_options *options);

/* They leave, and nobody comes again. NULL is fine. */
void idle_wind_down(struct idle *i);

/* The wire has forgotten their host, or all have left. NULL is fine. */
void idle_free(struct idle *i);
