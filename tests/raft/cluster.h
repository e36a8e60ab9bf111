/*
 * cluster: many raft members in one process, a bad day from a seed, and rules that must hold.
 *
 * A run founds a cluster of 1, 3, 5 or 7 voters and some learners, and lives through what the seed
 * decides: messages lost, doubled, overtaken and late; links cut one way or both; members that
 * crash and forget what was not durable; disks that stall; clocks that differ; proposals, reads,
 * transfers, changes of membership (simple and joint), snapshots, compaction, entries that leave
 * memory and must be fetched again. When enough is committed everything is healed, and the members
 * must soon agree on a leader and on one more entry.
 *
 *      clients, chaos --> members (raft + an application) <--> network
 *                              |        ^
 *                              v        |  events, by virtual time
 *                         disks: told | durable
 *
 * Rules      After every single call into a member:
 *            1. Election safety: one leader per term, whose own vote is on disk; one vote per
 *               member and term.
 *            2. Log matching: equal index and term, equal entry and equal past.
 *            3. Leader completeness: a new leader holds all that was committed before its term.
 *            4. State machine safety: what is applied is committed, and the same everywhere.
 *            5. Commitment: only a leader commits first, an entry of its own term, when a quorum
 *               of its configuration (both, if joint) has it on disk.
 *            6. Durability: no answer leaves before what it says is on disk; no committed entry
 *               is ever cut; term, vote and commit never go back.
 *            7. Reads: a read state's index covers everything committed before the request.
 *            8. Configurations are equal at equal index; raft_check holds; honest messages are
 *               not called impossible.
 *            After healing:
 *            9. Liveness: a leader, and a new entry applied by all, within a bound.
 *
 * A broken rule ends the process with status 1, naming seed and rule; a failed assertion aborts it
 * as ever, and the seed is printed after it. The same seed gives the same run: that is the bug
 * report.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cluster_options {
    uint64_t seed;
    bool verbose; /* every event and every line raft logs, on standard output */
};

struct cluster_totals {
    uint64_t seeds;
    uint64_t steps;        /* events */
    uint64_t committed;    /* client entries */
    uint64_t elections;    /* terms that had a leader */
    uint64_t truncations;  /* writes that replaced something */
    uint64_t snapshots;    /* installed and durable */
    uint64_t conf_changes; /* configurations that differ from the one before */
    uint64_t joint;        /* of these, joint ones */
    uint64_t crashes;
    uint64_t reads;   /* read states checked */
    uint64_t fetches; /* answered with entries */
    uint64_t rescues; /* an operator had to help where raft, as etcd has it, cannot */
    uint64_t heal_ticks_max;
};

struct cluster_result {
    struct cluster_totals totals;
    uint64_t trace; /* a hash of everything that happened */
};

/* Runs one seed to its end. */
void cluster_run(const struct cluster_options *options, struct cluster_result *out);

void cluster_totals_add(struct cluster_totals *sum, const struct cluster_totals *more);
