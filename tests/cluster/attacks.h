/*
 * attacks: small efforts that must not bring a member down, all of them against one member.
 *
 * Each attacker is a process of its own, so that none takes time from those who measure, and runs
 * at a lower priority, since real ones sit on machines of their own. Each goes on with the same
 * effort over and over, at a pace that one client has to spare (some megabits a second at most),
 * and begins again when it is thrown out.
 *
 *     struct attackers a;
 *     attackers_open(&a, &target);      processes, which do nothing yet; before any thread is made
 *     attackers_begin(&a, target);      against this member
 *     attackers_close(&a);              kills them
 */
#pragma once

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Keys, leases and a user that siege.c puts into the store for the attackers. The user is there if
 * auth is enabled: to compare its password takes a quarter of a minute of computing. */
#define SIEGE_PREFIX      "siege/"
#define SIEGE_COSTLY_USER "costly"
enum { SIEGE_LEASE = 7777, SIEGE_KEYS = 2000, SIEGE_LEASES = 5000, SIEGE_KEY_BYTES = 300 };

struct attack_target {
    uint16_t client, peer, metrics; /* of the member that is besieged */
    uint16_t follower;              /* where clients reach another one */
    uint64_t cluster_id;
};

/* How many attacks there are; the name of each, and what it does. */
unsigned attack_count(void);
const char *attack_name(unsigned i);
const char *attack_story(unsigned i);

enum { ATTACKS_MAX = 32 };

struct attackers {
    struct attack_board {
        struct attack_target target;
        atomic_bool is_on;
        atomic_uint_fast64_t
            efforts[ATTACKS_MAX]; /* connections, bombs, requests: that were made */
    } *board;                     /* shared with the processes */
    const char *certs;
    pid_t pids[ATTACKS_MAX];
    double cpu_s[ATTACKS_MAX]; /* that each has taken; after attackers_close */
};

/* only: the attacks to be made, with commas; NULL: all. False, with errno, if processes cannot be
 * had, or there is no such attack. */
MUST_CHECK bool attackers_open(struct attackers *a, const char *certs, const char *only);
void attackers_begin(struct attackers *a, struct attack_target target);
void attackers_close(struct attackers *a);
uint64_t attackers_efforts(const struct attackers *a, unsigned i);
