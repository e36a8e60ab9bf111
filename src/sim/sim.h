/*
 * sim: a whole small world from one seed.
 *
 * One to seven members, the real server, each on a machine of fakes; clients of several kinds on
 * machines of their own (actor.h); a wire between them all, with weather (weather.h); and a fate
 * that lets machines lose power now and then, at a write of their disks, be it the very first, or
 * at any other event, or gives members few file descriptors and clients who take them (idle.h),
 * or has a lone one replace its state by an image of it, over and over; and disks that fall ill
 * (sickness.h).
 * In some worlds members come and go (steward.h): machines join the cluster, learn, are promoted,
 * and are removed, knowing it or not, until they stop by themselves.
 * In others there are users and roles (permits.h): clients log in, and what they may do is changed
 * by an administrator, who switches auth on and off, too.
 * What kind of world it is, what may go wrong in it, and with which flags members are started, is
 * drawn, too (climate.h). Time is virtual and everything runs in this thread, so a seed is a story
 * that can be told again, step by step, with the same trace hash at its end.
 *
 *     step   the turn of a member or a client for whom something has happened, one of them if there
 *            are several, or else time passes to the next thing that is due
 *
 *     storm        30 s and more, until clients have heard of 300 operations
 *     settling     where members come and go: everything is mended, nothing new is asked for; those
 *                  who are members know it, and those who are none any more have stopped
 *     calm         everything is mended, or all but a minority, which stays down: now there must be
 *                  progress within a bound
 *     the end      clients begin nothing new; all members are up, but those whose disks have lost
 *                  something, and have the same state; everything is checked
 *
 * After every turn of a member what must hold between members is checked (cluster_check.h), which
 * now and then includes their whole state. All invariants of all rooms (server_check) are checked
 * after each of its first turns, and later the more seldom the more history there is, since that
 * walks over all of it; and at the end what everybody was told is held against the history
 * (history.h).
 */
#pragma once

#include "base/buf.h"
#include "base/logger.h"
#include "sim/sickness.h"
#include "sim/steward.h"

#include <stdint.h>

struct sim_options {
    uint64_t seed;
    unsigned members;  /* 0: as the seed has it */
    unsigned writers;  /* 0: as the seed has it */
    unsigned watchers; /* 0: as the seed has it */
    unsigned calls;    /* of all clients together: a short story of one storm; 0: a whole one */
    uint64_t storm_ms; /* how long the storm is at least; 0: 30 s */
    uint32_t without;  /* faults (climate.h) that do not happen, whatever the seed says */
    bool with_changes; /* members come and go, whatever the seed says */
    unsigned stewards; /* that change members where they come and go; 0: as the seed has it */
    bool with_auth;    /* they stay, and there are users and roles, likewise */
    bool with_cold;    /* stores are not in memory at times; the seed's story is another one then */

    /* Exactly one crash, of the first member, at this call of its disks, boot included; 0: as the
     * seed has it. */
    uint64_t crash_at_call;

    /* An image of a lone member's own state takes its place once in so many turns. 0: as the seed
     * has it. UINT_MAX: never. */
    unsigned install_turns;

    /* LMDB for the page stores, in directories of this name with the members' numbers behind it;
     * then nobody crashes. NULL: in memory. The two need the same space for the same
     * keys only where there is no quota. */
    const char *data_dir;
    bool without_quota;

    const char *picture; /* a page that shows it (picture.h) is written here; NULL: none */
    log_sink *trace; /* lines of all members' logs and of what happens between them; NULL: none */
    void *trace_context;
};

struct sim_result {
    bool ok;
    uint64_t hash;       /* of everything that happened */
    uint64_t disk_calls; /* of all members */
    uint64_t steps, virtual_ms, calls;
    uint64_t operations; /* that were acknowledged */
    unsigned members, crashes;
    uint64_t installs;
    uint64_t warmups; /* of cold stores */
    struct sickness_counts sick;
    struct steward_counts changes;    /* of the members */
    uint64_t lists;                   /* of members that somebody was told */
    uint64_t rights;                  /* changes of users and roles */
    uint64_t digests, compared;       /* of states; and how many of them with one taken before */
    uint64_t own_compactions;         /* that no client has asked for */
    uint64_t hashes, hashes_compared; /* that operators were told of, the same way */
    uint64_t backups;                 /* that were restored, and held against the history */
    int64_t revision;
    char problem[512]; /* if it is not ok */
};

struct sim_result sim_run(const struct sim_options *options);

/* How many members it will have. */
unsigned sim_member_count(const struct sim_options *options);
