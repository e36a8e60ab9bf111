/*
 * faults: rounds of what can happen to real members and to the network between them, under load.
 *
 *     a round   load -> something breaks -> load -> it is healed -> load -> settle -> judge
 *
 * Members are killed, paused, stopped and started again: the leader, a random one, two, or all of
 * them at once; or links between them are cut, stalled and dropped, in both directions or in one
 * (links.h); or the disk of one of them is full for a while, and has space again (volume.h); or one
 * is away for so long that it needs a snapshot, if the members keep few entries (flags). Once it is
 * healed, writes by way of every member must succeed within a bound, all watchers must have
 * seen everything, the stores must have the same hash, and everything that anybody was told must be
 * true (record.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Wrong on purpose, to see that it is found: all members lose their data while they are down; or
 * reads that are recorded as linearizable are not asked to be. */
enum faults_plant { PLANT_NOTHING, PLANT_FORGETTING, PLANT_STALE_READS };

struct faults_options {
    const char *program;  /* cleat or etcd */
    const char *other;    /* of every second member; NULL: the same */
    const char *dir;      /* of the caller: for data and logs */
    const char *flags;    /* further ones of the members; NULL: none */
    unsigned members;     /* 0: 3 */
    unsigned election_ms; /* 0: 1000 */
    unsigned clients;     /* 0: 24 */
    unsigned pause_ms;    /* that each of them waits at most between its calls */
    unsigned rounds;      /* of killing, pausing, stopping */
    unsigned partitions;  /* rounds of those */
    unsigned full_disks;  /* and of those: each member gets a small volume, if we may mount one */
    unsigned behind;      /* and of those in which one is left behind */
    unsigned minutes;     /* all of that again and again until these are up; 0: once */
    bool is_by_tls;       /* members and clients; certificates are renewed before each round */
    unsigned install_s;   /* it is a problem when nobody has installed a snapshot for so long */
    uint64_t seed;
    enum faults_plant plant;
    bool verbose;               /* a line for each round, on standard output */
    volatile bool *is_unwanted; /* set by somebody: end soon; may be NULL */
};

struct faults_result {
    unsigned rounds;
    unsigned kills, pauses, stops, cuts, fills;
    unsigned installs;         /* of snapshots, which members have told in their logs */
    unsigned watched_installs; /* of those: in the midst of a watch */
    bool is_skipped;           /* there are no volumes to be had: nothing was done */
    unsigned operations, failed, reads, watches;
    int64_t revision;
    uint64_t peak_bytes;     /* resident, of the members that run in the end, at most */
    uint64_t settle_ms_max;  /* from healing to everybody well */
    uint64_t space_ms_max;   /* from space to the first write by way of the member that had none */
    uint64_t install_ms_max; /* between two installs, seen at the ends of rounds */
    char problem[1024];      /* empty: none */
};

/* False, and a problem, if something was not as it should be. The record of what happened is then
 * in <dir>/record. */
bool faults_run(const struct faults_options *options, struct faults_result *out);
