/*
 * retention: what is compacted by itself was old enough.
 *
 * The simulator says how new the newest revision of all is as time passes, and where members have
 * compacted. What no client has asked for, a member has done by itself: at a revision that was the
 * newest a whole retention ago, or at an older one. Whatever clocks do, and whoever leads.
 *
 *     revision    1 ... 7 ........ 30 .......... 55 ..... 60
 *                       |<----- the retention ----->|
 *                       the newest that may go      now
 */
#pragma once

#include "base/bytes.h"

struct retention_moment {
    uint64_t ns;
    int64_t revision;
};

/* All zeroes, but for the time, is an empty one. */
struct retention {
    uint64_t
        ns; /* that must have passed, by the world's clock; 0: nothing is compacted by itself */
    struct retention_moment *moments; /* when the newest revision became that, in order */
    size_t count, cap;
};

void retention_free(struct retention *r);

/* There is this revision now. */
void retention_saw(struct retention *r, uint64_t now_ns, int64_t revision);

/* The newest revision that may be compacted at now; 0: none. */
int64_t retention_newest_old(const struct retention *r, uint64_t now_ns);
