/*
 * names: URLs with the hosts' names resolved, so that it can be told whether two of them are the
 * same place. For boot: it takes as long as it takes.
 *
 * What cannot be resolved is tried again each second, for half a minute. As in etcd, localhost
 * stays as it is; so do numbers, after the spelling of all addresses, by a lookup that asks nobody.
 *
 *     names_init --> names_add ... --> names_start --> names_work, in each turn, until it is true
 *
 * Promises   1. It is over after half a minute.
 *            2. names_is_idle is true when it is over, and soon after names_stop.
 */
#pragma once

#include "cluster/urls.h"
#include "io/clock.h"

struct io;
struct logger;
struct name; /* a URL that is being resolved */

struct names {
    const struct io *io;
    const struct logger *logger;
    struct arena arena;
    struct name *at;
    size_t count, cap;
    size_t under_way; /* of them, with a lookup that will report */
    uint64_t began_ms;
    struct timer timer; /* until they are tried again */
    bool is_started;
};

/* For `cap` URLs at most. */
void names_init(struct names *n, const struct io *io, const struct logger *logger, size_t cap);
/* False: one of them is no URL, as *why says. They are numbered from *first on. */
bool names_add(struct names *n, struct url_list urls, struct buf *why, size_t *first);
void names_start(struct names *n);
/* At any time. Lookups under way still report: wait for names_is_idle. */
void names_stop(struct names *n);
bool names_is_idle(const struct names *n);
void names_free(struct names *n); /* also one that is all zeroes */

/* True: all are resolved, or time is up. */
bool names_work(struct names *n);

/* These, resolved, sorted; good as long as the names are. */
struct url_list names_resolved(struct names *n, size_t first, size_t count);
/* In etcd's words why one of these could not be; empty: all were. */
struct bytes names_failure(struct names *n, size_t first, size_t count);
