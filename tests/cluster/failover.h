/*
 * failover: how long nobody's writes succeed when the leader goes.
 *
 * Puts are sent to the followers all the time, each as soon as its turn comes and whatever has
 * become of those before it: so the first that succeeds tells when writes are possible again, not
 * when some client has lost patience. A response names the leader's term.
 *
 *     kill        SIGKILL of the leader  ->  first response of a later term
 *     stop        last response of its term  ->  first response of a later term, around a SIGTERM
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAILOVERS_MAX = 1000 };

struct failover_options {
    const char *program;
    const char *dir; /* of the caller */
    const char *flags;
    unsigned members;           /* 0: 3 */
    unsigned election_ms;       /* 0: 1000 */
    unsigned kills, stops;      /* how many, FAILOVERS_MAX at most */
    volatile bool *is_unwanted; /* may be NULL */
};

struct failover_times {
    unsigned count;
    double ms[FAILOVERS_MAX]; /* sorted, when all is done */
};

struct failover_result {
    struct failover_times kills, stops;
    struct failover_times since_signal; /* of the stops: from SIGTERM on */
    char problem[1024];
};

/* False, and a problem, if something else than time was not as it should be. */
bool failover_run(const struct failover_options *options, struct failover_result *out);

/* So many in a hundred took this long or less. */
double failover_percentile(const struct failover_times *t, unsigned percent);
