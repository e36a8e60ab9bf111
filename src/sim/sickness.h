/*
 * sickness: what goes wrong with the disks of a simulated world.
 *
 * Every now and then a disk falls ill. Most illnesses pass: it is slow for a while; it hangs, for
 * longer than anybody's timeouts or until the member is killed; a read, a write or a sync fails,
 * which ends the member, and it is started again. Some do not: a bit is flipped in what was
 * written, or the disk is replaced by an empty one. Whatever becomes of such a member, its word is
 * worth nothing any more: it is lost, and never more than a minority is, so that what was
 * acknowledged is still on a quorum's disks.
 *
 *     slow      every operation takes up to half a second
 *     hung      none is done; a leader hands over, and the others go on without it
 *     failing   some next read, write, sync, or commit of the store fails; the member says so and
 *               ends, often in the middle of its start
 *     flipped   a bit of the log, of a snapshot, or of the store. The member refuses to start, or
 *               ends when it reads it, or never reads it; it must not go on with it
 *     full      what needs more space fails, in the log's place, the store's, or both; the member
 *               goes on without, and goes on by itself when there is some
 *     wiped     the member is down until the calm, and then started as if it were new: the others
 *               know it, and it is refused
 *
 * As with the weather (weather.h), one that is not allowed is left out, and the rest of the story
 * is the same.
 */
#pragma once

#include "sim/climate.h"
#include "sim/host.h"

struct sickness; /* opaque */

struct sickness_handlers {
    void (*on_sick)(void *context, unsigned member, enum sim_fault fault, uint64_t ms);
    void (*on_well)(void *context, unsigned member, enum sim_fault fault);
    void (*kill)(void *context, unsigned member); /* its process, if there is one */
    /* It dies, if it lives, and stays down until the calm. */
    void (*take_away)(void *context, unsigned member);
    bool (*has_run)(void *context, unsigned member); /* so that all others know of it */
    unsigned (*leader)(void *context);               /* a number, if there is one, or any */
};

struct sickness_options {
    struct fake_time *time;
    const struct climate *climate;
    uint64_t seed;
    const struct sickness_handlers *on;
    void *context;
};

/* How often it happened. */
struct sickness_counts {
    unsigned slow, hung, failing, flipped, wiped, full;
    unsigned gave_up; /* members, as they should: a failure, or damage that was noticed */
    unsigned refused; /* to start: the same */
    unsigned refused_wiped;
};

struct sickness *sickness_new(const struct sickness_options *options);
void sickness_free(struct sickness *s); /* NULL is fine */

/* Members are added in the order of their numbers. The host is lent. */
void sickness_add(struct sickness *s, struct sim_host *host);

/* Every disk is well again, but what is lost stays so. Nothing new happens. */
void sickness_calm(struct sickness *s);

/* Until sickness_calm, or its end. */
void sickness_hang(struct sickness *s, unsigned member);

/* The member's process has ended. */
void sickness_crashed(struct sickness *s, unsigned member);

/* It ended by itself, or did not start, and said why: is that what it should have done? */
bool sickness_excuses(struct sickness *s, unsigned member, const char *why, bool while_starting);

/* What the member has on its disk, or had, is not what it wrote. */
bool sickness_is_lost(const struct sickness *s, unsigned member);
/* And that is in its store: whoever reads all of it finds out, be it only to look on. */
bool sickness_is_in_store(const struct sickness *s, unsigned member);
bool sickness_is_wiped(const struct sickness *s, unsigned member);
unsigned sickness_lost_count(const struct sickness *s);
struct sickness_counts sickness_counts(const struct sickness *s);
