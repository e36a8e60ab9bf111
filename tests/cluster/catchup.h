/*
 * catchup: what it takes to bring a member back that was away while a lot was written.
 *
 *     some keys are written | the member is killed | many keys are written, at full speed |
 *     half of that speed from now on, to random keys | the member is started: it is behind the log,
 *     and gets a snapshot | it is in step | the writers stop | are all stores equal, and has the
 *     member everything that was acknowledged?
 *
 * Or the leader is killed in the midst of sending. Of three members only one is then up to date, so
 * nobody can write before the next leader has brought the other back; with five the others go on.
 *
 * Meanwhile the anonymous memory of all members is looked at, and their store files. In step means:
 * the member shows everything that any writer had been told STEP_MS before.
 */
#pragma once

#include "cluster/fleet.h"

#include <stdbool.h>
#include <stdint.h>

struct catchup_options {
    const char *program;
    const char *dir; /* of the caller */
    const char *flags;
    unsigned members;     /* 0: 3 */
    unsigned election_ms; /* 0: 1000 */
    unsigned old_keys;    /* that the member has when it is killed */
    unsigned keys;        /* that are written while it is away */
    unsigned value_bytes;
    unsigned clients;
    unsigned before_ms; /* at half speed, until the member is started */
    bool kills_leader;
    volatile bool *is_unwanted; /* may be NULL */
};

/* Of a member: how it was while others wrote at half speed and the one was away; and from its start
 * until it was in step. */
struct catchup_member {
    uint64_t anonymous_before, anonymous_most; /* the most that was seen, both */
    uint64_t store_before, store_after;        /* bytes of the file */
};

struct catchup_result {
    unsigned count, away, leader, killed; /* killed: count if nobody was */
    struct catchup_member members[FLEET_MAX];
    uint64_t old_index, new_index; /* anonymous bytes of the member right after a start, with the
                                    * old keys alone, and in the end */
    uint64_t fill_bytes,
        fill_growth;                 /* keys and values written at full speed; the leader's store */
    uint64_t written_bytes;          /* of keys and values, from its start until it was in step */
    double fill_per_s, half_per_s;   /* puts that succeeded */
    uint64_t image_bytes;            /* of the leader's store when it was started */
    uint64_t applied_ms, in_step_ms; /* from its start to a snapshot installed, and to in step */
    uint64_t resumed_ms;             /* from the leader's end to the first write of a later term */
    char problem[1024];
};

/* False, and a problem, if something else than memory, disk and time was not as it should be. */
bool catchup_run(const struct catchup_options *options, struct catchup_result *out);
