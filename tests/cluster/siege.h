/*
 * siege: one member of three, attacked by many small efforts at once (attacks.h), and what those
 * notice who only want to be served.
 *
 *     start --> fill --> quiet: the same clients, nobody attacks --> siege --> end
 *
 * Members and clients use TLS with certificates, probes come by plain HTTP. The leader is besieged.
 * Meanwhile
 *
 *     a client    puts, gets and watches by way of it, fifty calls a second
 *     another     keeps a lease of 5 s alive by way of a follower
 *     a kubelet   asks it for /livez, /health and /metrics each 200 ms, and waits a second
 *     a member    is killed every ten seconds, started again, and asked for /readyz
 *
 * The member holds if no probe, no call and no watch failed, the lease lives, the leader is still
 * the leader of its term, each start took REJOIN_MS_MAX at most, GROWTH_BYTES_MAX more are resident
 * than when it was quiet at most, and the 99th percentiles of puts, of gets and of the time from a
 * put to the watcher's event are not more than SLOWER_MAX times those of the quiet.
 *
 * Resident is all of it, with those pages of the store's file that are mapped (a few MB: as much as
 * a reader has looked at), of which anonymous memory is what was allocated.
 */
#pragma once

#include "cluster/attacks.h"

#include <stdbool.h>
#include <stdint.h>

#define SIEGE_REJOIN_MS_MAX    2000
#define SIEGE_GROWTH_BYTES_MAX ((uint64_t)256 << 20)
#define SIEGE_SLOWER_MAX       10

struct siege_options {
    const char *program;
    const char *dir;   /* of the caller */
    const char *flags; /* NULL: none */
    const char *only;  /* these attacks, with commas; NULL: all of them */
    unsigned quiet_s, siege_s;
    unsigned kill_each_ms; /* 0: 10 s */
    bool has_auth; /* enabled, with JWT; who shows a certificate is a user by its name, with all
                      rights */
    bool verbose;
    volatile bool *is_unwanted; /* may be NULL */
};

struct siege_times {
    unsigned count;
    double p50_ms, p99_ms, slowest_ms;
};

enum siege_time { SIEGE_PUT, SIEGE_GET, SIEGE_WATCH, SIEGE_TIMES };

struct siege_phase {
    unsigned failed_calls, lost_watches, lost_leases, probes, failed_probes;
    unsigned terms; /* that have begun in it */
    unsigned rejoins;
    struct siege_times times[SIEGE_TIMES];
    double slowest_rejoin_ms, slowest_probe_ms;
    double s, cpu_s; /* how long it was, and what the member computed */
    unsigned log_lines;
    uint64_t anonymous_bytes, resident_bytes; /* at most */
};

struct siege_result {
    struct siege_phase quiet, siege;
    uint64_t efforts[ATTACKS_MAX];
    double cpu_s[ATTACKS_MAX]; /* of each attacker */
    char problem[1024];        /* it could not be carried out */
};

/* False, and a problem, if there was no siege to judge. */
bool siege_run(const struct siege_options *options, struct siege_result *out);

/* "put", "get", "watch". */
const char *siege_time_name(enum siege_time which);

/* What did not hold, as text; NULL if all did. Static. */
const char *siege_verdict(const struct siege_result *r);
