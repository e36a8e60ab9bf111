/*
 * resolve: from a host's name to its addresses, and from an address to its names.
 *
 * A lookup is embedded in whoever waits for it. Names that are already numbers are answered too,
 * so a caller need not tell them apart.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "io/inbox.h"
#include "io/net.h"

struct resolver;

/* All zeroes, with the first three or four filled in, is ready to start. */
struct lookup {
    const char *host; /* lent until on_done */
    uint16_t port;    /* copied into the addresses */
    void (*on_done)(struct lookup *l);
    bool wants_names; /* of the number that host is; of anything else there are none */

    enum err err; /* ERR_NOT_FOUND: no such name; ERR_TIMEOUT: nobody answered, ask again */
    union {       /* more are left out */
        struct net_address found[LOOKUP_ADDRESSES_MAX]; /* best first */
        char names[LOOKUP_NAMES_MAX][LOOKUP_NAME_BYTES_MAX + 1];
    };
    size_t count;

    struct resolver *resolver;
    struct event event;
};

struct resolver {
    void (*start)(struct resolver *r, struct lookup *l);
};

/* Never fails, never blocks; on_done comes in the turn, exactly once. */
static inline void lookup_start(struct resolver *r, struct lookup *l)
{
    r->start(r, l);
}
