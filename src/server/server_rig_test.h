/*
 * server_rig: a whole member in a fake world, for tests of how it begins, works and ends.
 *
 * Disk, page store, network and time are in memory; the data directory is /data. Two clients live
 * on another machine. The world outlives the member, which can be stopped or crash, and be started
 * again.
 *
 *     struct server_rig r;
 *     server_rig_open(&r, (const char *const[]){"--snapshot-count", "10", NULL});
 *     server_rig_start(&r);
 *     server_rig_put(&r, "k", "v");
 *     server_rig_stop(&r);
 *     server_rig_close(&r);
 */
#pragma once

#include "api/api_rig_test.h"
#include "backend/backend_memory.h"
#include "config/config.h"
#include "io/fake_world.h"
#include "server/server.h"

struct server_rig {
    struct fake_world *world;
    struct memory_disk *memory;
    struct inbox client_inbox; /* of the other machine, as the next two */
    struct fake_clock client_clock;
    struct io client_io;
    struct config config;
    struct logger logger;
    struct buf logged;      /* every line */
    uint64_t segment_bytes; /* of the log; 0: as wal has it */

    struct server *server;         /* NULL while it is down */
    struct client *client, *other; /* NULL while it is down */
    struct buf why;                /* what it said when it did not start, or gave up */
    bool failed, ready;
};

/* Flags beyond those that name member and places, or in their stead; a NULL at their end, or NULL
 * for none. Other ones can be set while the member is down. */
void server_rig_open(struct server_rig *r, const char *const *flags);
void server_rig_set_flags(struct server_rig *r, const char *const *flags);
/* Another world, with an empty disk; the page store stays. It is down. */
void server_rig_new_world(struct server_rig *r);
void server_rig_close(struct server_rig *r); /* stops it, if it is up */

/* Only tries: ERR_OK, or r->why says why not. */
enum err server_rig_try(struct server_rig *r);
/* Must work, and goes on until clients are heard. */
void server_rig_start(struct server_rig *r);
/* Must be refused with this, and this text. */
void server_rig_refused(struct server_rig *r, enum err e, const char *why);

void server_rig_stop(struct server_rig *r);
void server_rig_crash(struct server_rig *r, enum fake_crash how);

/* One turn, or time passes. */
void server_rig_step(struct server_rig *r);
void server_rig_for_ms(struct server_rig *r, uint64_t ms);
uint64_t server_rig_now_ms(struct server_rig *r);

/* Asks, and waits or not. */
void server_rig_ask(struct client *c, struct visit *v, const char *path,
                    const struct pb_schema *schema, const void *message);
void server_rig_until_over(struct server_rig *r, struct visit *v);
void server_rig_put(struct server_rig *r, const char *key, const char *value);

bool server_rig_logged(const struct server_rig *r, const char *text);
bool server_rig_why(const struct server_rig *r, const char *text); /* is it part of r->why? */
