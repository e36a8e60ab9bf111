/*
 * The inside of lease: what lease.c (the log's part), leading.c (the leader's), listing.c and
 * check.c share.
 */
#pragma once

#include "base/buf.h"
#include "base/heap.h"
#include "base/list.h"
#include "lease/keys.h"
#include "lease/lease.h"
#include "lease/table.h"

struct lease {
    struct table_link link; /* by id */
    struct list order;      /* by grant */
    int64_t id, ttl;
    uint64_t number;       /* of its grant, or of its record at boot: the later, the higher */
    int64_t remaining_ttl; /* told by a checkpoint; 0 or less: nothing was */
    struct key_tree keys;
    bool revoking; /* on no heap */

    bool told;      /* a checkpoint was handed out and has not come back through the log */
    bool spread;    /* of `turn`: on the heap due, not on unspread */
    uint64_t reign; /* these two and all below are of that reign, and mean nothing in another */
    uint64_t expires_ms;
    uint64_t due_ms; /* expires_ms, or later when its revoke must be tried again */
    struct heap_node turn;
    uint64_t checkpoint_ms;
    struct heap_node checkpoint;
};

/*
 * Each promotion and each demotion begins a reign, by increasing a number. Leases of older reigns
 * count as being on no heap, whatever their nodes say, so neither needs to visit them all.
 *
 *     promote --> [settling: older reign] --> unspread, by expires_ms --> due, by due_ms
 *                          renew, grant -----------------------------------^
 */
struct lease_set {
    struct lease_options options;
    struct table table;
    struct list all;
    size_t count;
    uint64_t number; /* of the newest */
    struct table keys;
    struct keys_ended ended;
    struct buf ended_from, ended_to; /* its range */
    struct lease_stats stats;

    bool primary;
    uint64_t reign;
    uint64_t promoted_ms, extend_ms;
    struct list *settling; /* the next lease to be put on unspread; &all: none left */
    struct heap unspread;
    struct heap due;
    struct heap checkpoints;

    struct {
        bool wanted;
        uint64_t from_ms; /* where the present pile begins */
        uint64_t count;   /* and how many are on it */
    } pile;
};

static inline struct lease *lease_of_order(struct list *link)
{
    return container_of(link, struct lease, order);
}

static inline struct lease *lease_of_turn(struct heap_node *node)
{
    return container_of(node, struct lease, turn);
}

static inline struct lease *lease_of_checkpoint(struct heap_node *node)
{
    return container_of(node, struct lease, checkpoint);
}

/* NULL if there is none. */
struct lease *lease_find(const struct lease_set *s, int64_t id);

/* Has this one its place in the present reign? */
static inline bool lease_is_settled(const struct lease_set *s, const struct lease *l)
{
    return l->reign == s->reign;
}

void lease_leading_init(struct lease_set *s);
void lease_leading_free(struct lease_set *s);

/* When it expires, if we lead. */
uint64_t lease_expires_ms(const struct lease_set *s, const struct lease *l);

/* Its full time from now, if we lead: a grant. */
void lease_start(struct lease_set *s, struct lease *l, uint64_t now_ms);

/* It is to be revoked: off all heaps. */
void lease_stop(struct lease_set *s, struct lease *l);
