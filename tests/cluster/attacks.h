/*
 * attacks: small efforts that must not bring a member down, all of them against one member.
 *
 * Each attacker is a process of its own, so that none takes time from those who measure, and runs
 * at a lower priority, since real ones sit on machines of their own. Each goes on with the same
 * effort over and over, at a pace that one client has to spare, and begins again when it is thrown
 * out.
 *
 *     struct attackers a;
 *     attackers_open(&a, &target);      processes, which do nothing yet; before any thread is made
 *     attackers_begin(&a, ports);       against this member
 *     attackers_close(&a);              kills them
 */
#pragma once

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the attackers find in the store, put there by siege.c. */
#define SIEGE_PREFIX "siege/"
enum { SIEGE_LEASE = 7777, SIEGE_KEYS = 2000, SIEGE_LEASES = 5000, SIEGE_KEY_BYTES = 300 };

struct attack_ports {
    uint16_t client, peer, metrics;
};

/* How many attacks there are, and the name of each. */
unsigned attack_count(void);
const char *attack_name(unsigned i);

enum { ATTACKS_MAX = 32 };

struct attackers {
    struct attack_board {
        struct attack_ports ports;
        atomic_bool is_on;
        atomic_uint_fast64_t
            efforts[ATTACKS_MAX]; /* connections, bombs, requests: that were made */
    } *board;                     /* shared with the processes */
    const char *certs;
    pid_t pids[ATTACKS_MAX];
};

/* only: the one attack to be made; NULL: all. False, with errno, if processes cannot be had. */
MUST_CHECK bool attackers_open(struct attackers *a, const char *certs, const char *only);
void attackers_begin(struct attackers *a, struct attack_ports ports);
void attackers_close(struct attackers *a);
uint64_t attackers_efforts(const struct attackers *a, unsigned i);
