/*
 * space: a member whose disk is full.
 *
 * Log and store notice by themselves that there is no space, keep what they have, and wait (wal.h,
 * backend.h). Here the member is told, so that it does no harm meanwhile:
 *
 *     clients    hear etcd's "database space exceeded" for whatever needs the log. Reads go on, and
 *                so do those that are asked of the leader, as long as this member has what has been
 *                committed
 *     others     get no answer to entries, so they are not counted on; heartbeats and votes go on.
 *                If this member leads, it hands that over to one that has kept up
 *     operators  find a line with the bytes that are left, when it begins and when it is over;
 *                /health is false, and the member's own list of alarms has NOSPACE
 *
 * Once a second it is tried again. The alarm is not replicated, as that of the quota is: that one
 * makes all members refuse writes, and it is enough that this one does; it would have to be written
 * to the very log that has no space; and who raised it could not be told when it is to be lifted.
 *
 *     not full --the log has no space for entries, or the store none for a commit
 *     or an image's name--> full
 *     full --both have--> not full
 *
 * Promises   1. One line for each of the two ways, however often it is tried.
 *            2. What was refused was not proposed.
 * Not here   A boot that finds no space (server.c), which waits in the same way.
 * Leans on   wal, backend, io/disk.h for the bytes.
 */
#pragma once

#include "io/disk.h"

struct logger;
struct server;

struct space_options {
    struct disk *disk;
    const struct logger *logger;
    const char *dir; /* on the disk in question; lent */
};

struct space {
    struct space_options o;
    bool is_full;
    bool log_is_full, store_is_full; /* for the line, */
    char store_text[256];            /* and the store's own words */
    uint64_t since_ms;
    uint64_t try_ms;    /* not before that */
    uint64_t resign_ms; /* nor is leadership handed over again */
    bool is_asking;     /* how many bytes are left, for the line */
    struct disk_op op;
};

void space_init(struct space *p, const struct space_options *options);

/* How it is now; true if that has changed. */
bool space_look(struct space *p, bool log_is_full, bool store_is_full, uint64_t now_ms);

/* Is it time to try again? Then it is not for another second. */
bool space_may_try(struct space *p, uint64_t now_ms);

bool space_is_idle(const struct space *p); /* nothing is in flight */

/* --- the server's --- */

/* In every turn. */
void space_some(struct server *s);
