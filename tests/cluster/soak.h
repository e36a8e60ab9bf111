/*
 * soak: members under a steady load for a long time, one of them killed every minute.
 *
 *     full speed for a while, to know what half of it is | minutes at half of it; in each, one
 *     member is killed and started again, one after the other | settle, judge, compare stores
 *
 * What members have resident and how many files they have open is looked at every second, once they
 * have been up for SOAK_SETTLED_S. A minute's value is the mean of all looks; the kills come in
 * turns, so that each minute has members of all ages. The slope is that of the straight line with
 * the least squares through the minutes after the first SOAK_WARM_UP_MINUTES.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SOAK_MINUTES_MAX = 1500, SOAK_WARM_UP_MINUTES = 10, SOAK_SETTLED_S = 30 };

struct soak_options {
    const char *program;
    const char *dir; /* of the caller */
    const char *flags;
    unsigned members;     /* 0: 3 */
    unsigned election_ms; /* 0: 1000 */
    unsigned clients;     /* 0: 48 */
    unsigned minutes;     /* SOAK_MINUTES_MAX at most */
    unsigned minute_s;    /* for those in a hurry; 0: 60 */
    uint64_t seed;
    bool verbose;               /* a line for each minute */
    volatile bool *is_unwanted; /* may be NULL */
};

struct soak_minute {
    double resident, files; /* of one member, on average; 0: nobody was up for long enough */
    unsigned calls;         /* that succeeded */
};

struct soak_result {
    struct soak_minute minutes[SOAK_MINUTES_MAX];
    unsigned count;
    double full_per_s, half_per_s;      /* calls: without pauses, and from then on */
    double resident_slope, files_slope; /* in an hour, as a part of the mean */
    unsigned kills, operations, failed;
    char problem[1024];
};

/* False, and a problem, if something else than memory and files was not as it should be. */
bool soak_run(const struct soak_options *options, struct soak_result *out);

/* Of the line through minutes [from, count), in an hour, as a part of their mean. */
double soak_slope(const double *values, unsigned from, unsigned count);
