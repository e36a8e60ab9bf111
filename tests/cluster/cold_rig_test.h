/*
 * cold_rig: three members with many keys, and a leader whose store does not stay in memory.
 *
 *     struct cold *c = mem_new(struct cold);
 *     cold_open(c, program);
 *     cold_fill(c);                 all keys, in random order: neighbours lie on different pages
 *     cold_restart(c);              counters begin anew, and everything is in the store's file
 *     cold_evict(c, &e, "member/store/store.mdb", false);   from now on every 20 ms
 *     ...
 *     cold_evict_end(&e);
 *
 * A key's number and version give its value, so every response can be checked.
 */
#pragma once

#include "base/sanitized.h"
#include "cluster/fleet.h"
#include "interop/caller_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

enum { COLD_MEMBERS = 3, COLD_KEYS = SANITIZED ? 96000 : 300000, COLD_WELL_MS_MAX = 60000 };

struct cold {
    struct arena arena;
    struct fleet fleet;
    struct caller caller;
    struct line *probe; /* for status calls */
    unsigned leader;
    int64_t filled;               /* the revision of the last key's first version */
    int64_t compacted;            /* the newest revision that a client has compacted; 0: none */
    _Atomic int64_t answered;     /* the newest revision in a response to a writer */
    uint32_t versions[COLD_KEYS]; /* as answered to their writer */
    atomic_uint failures;         /* of calls; each ends its client */
};

void cold_open(struct cold *c, const char *program);
void cold_close(struct cold *c);

/* Prints the error of a failed call. */
void cold_note_failure(struct cold *c, const char *what, struct ask *a);

void cold_fill(struct cold *c);

/* Stops all members that run and starts all three. Returns when each knows the leader. */
void cold_restart(struct cold *c);
void cold_stop(struct cold *c, unsigned member);
void cold_look(struct cold *c); /* has a member ended by itself? */

/* --- keys and values --- */

#define COLD_FIRST BYTES("cold/")
#define COLD_END   BYTES("cold0")

struct cold_key {
    char text[16];
};

struct cold_value {
    uint64_t words[13];
};

struct cold_key cold_key_of(uint32_t number);
uint32_t cold_number_of(struct bytes key);
struct bytes cold_value_of(uint32_t number, uint32_t version, struct cold_value *out);

/* Is this the key with this number, at this version, with its value? */
void cold_check_kv(const struct pb_key_value *kv, uint32_t number, int64_t version);

/* --- what members say of themselves --- */

struct cold_standing {
    uint64_t id, leader, term;
    int64_t revision;
};

MUST_CHECK bool cold_ask_standing(struct cold *c, unsigned member, struct cold_standing *out);
double cold_metric(struct cold *c, unsigned member, const char *name);

/* What the leader has read from its disk since it was started. */
uint64_t cold_disk_bytes(const struct cold *c);

/* --- eviction --- */

struct cold_evictor {
    pthread_t thread;
    atomic_bool is_over;
    int fd;
    uint8_t *map; /* never read: it serves to ask which of the file's pages are in memory */
    size_t bytes, pages;
    unsigned char *resident;
    uint64_t evictions, left_pages;
    /* Of a member that keeps its pages mapped: a handle of its process, and its map of the file. */
    int process; /* -1: there is none */
    struct iovec mapped;
};

/* Skips the test where pages of files cannot be evicted, as in a file system that is in memory. */
void cold_need_eviction(struct arena *arena);

/* Evicts this file of the leader's data directory from memory all the time. Dirty pages stay, and
 * so do pages that are mapped. Our server lets go of those by itself; from a member that
 * `keeps_pages` they are taken as the kernel does when memory is short, which only root may ask
 * for. */
void cold_evict(struct cold *c, struct cold_evictor *e, const char *store, bool keeps_pages);
void cold_evict_end(struct cold_evictor *e);
