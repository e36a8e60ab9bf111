/*
 * weather: what goes wrong between the hosts of a simulated world, and with their clocks.
 *
 * Every now and then a spell begins: a partition, a clog, loss, slow or narrow paths, connections
 * that are reset, a member that is paused, a clock that jumps. Spells overlap, and each ends by
 * itself after a while. The state of a path follows from what the world is like in good weather and
 * the spells that are on, so the end of one never mends what another has cut.
 *
 * A cut has a shape. Members are split in two, or one is alone, preferably the leader; or two
 * groups see each other only through one member; or each sees only its neighbours in a ring; or all
 * are alone; or only clients are cut off. Each client goes with some member, or sees them all. A
 * one-way cut has the same shapes, but one of the directions stays.
 *
 * In some worlds (climate.h) leaders besides stand still for several election timeouts, while the
 * other members do not see them, nor for a while after that; but clients do, and what they ask for
 * meanwhile is what such a leader finds first when it goes on: it believes to lead, and another
 * does.
 *
 * Which spell comes when does not depend on which of them are allowed: one that is not is left out,
 * and the rest of the story is the same. That is what makes it possible to find out which matter.
 */
#pragma once

#include "io/fake_net.h"
#include "sim/climate.h"

struct weather; /* opaque */

/* Told of everything that changes. Members and clients are numbered as the wire does. */
struct weather_handlers {
    void (*on_path)(void *context, unsigned from, unsigned to, const struct fake_path *before,
                    const struct fake_path *after);
    void (*on_pause)(void *context, unsigned member, bool clock_stands);
    void (*on_resume)(void *context, unsigned member);
    void (*on_jump)(void *context, unsigned member, int64_t ms);
    unsigned (*leader)(void *context); /* a number, if there is one, or any */
};

struct weather_options {
    struct fake_time *time;
    const struct climate *climate;
    struct net *const *hosts; /* members first; lent */
    unsigned host_count;
    uint64_t seed, standstill_seed;
    const struct weather_handlers *on;
    void *context;
};

struct weather *weather_new(const struct weather_options *options);
void weather_free(struct weather *w); /* NULL is fine */

/* Nobody sees this member for so long, if there may be another spell. It need not be drawn: whoever
 * is just being removed should now and then not hear of it. */
void weather_isolate(struct weather *w, unsigned member, uint64_t ms);

/* All spells end, and there will be no other. */
void weather_calm(struct weather *w);
