/*
 * chores: one member that is written to at half of what it can, while everything is done to it that
 * operators have done: compactions, defragmentations and scrapes, each of its own period.
 *
 *     full speed for a while, to know what half of it is | half of it, with the chores | stop, and
 *     what the member says of its longest turn
 *
 * Every call must succeed, writes, chores and scrapes alike. The store has to find its size: in the
 * second half it may never be larger than CHORES_GROWTH_MAX times the largest of the first one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CHORES_GROWTH_MAX 1.25

struct chores_options {
    const char *program;
    const char *dir; /* of the caller */
    const char *flags;
    unsigned seconds;
    unsigned full_speed_ms;                        /* 0: 10 s */
    unsigned keys;                                 /* 0: 10,000 */
    unsigned compact_ms, defragment_ms, scrape_ms; /* 0: 10 s, 60 s, 1 s */
    bool may_be_late; /* a chore that takes longer than its period lets the next one pass, each is
                       * waited for once, and the store's size is not judged */
    bool verbose;     /* a line each ten seconds */
    volatile bool *is_unwanted; /* may be NULL */
};

struct chores_result {
    double full_per_s, half_per_s; /* puts: as many as there can be, and from then on */
    uint64_t puts;
    unsigned compactions, defragmentations, scrapes;
    uint64_t size_first, size_second; /* of the store: the largest of either half */
    double slowest_ms;                /* put, while there were chores */
    double longest_turn_ms;           /* by the thread's processor time, as the member says */
    char problem[1024];
};

/* False, and a problem, if a call has failed, or the store goes on growing. */
bool chores_run(const struct chores_options *options, struct chores_result *out);
