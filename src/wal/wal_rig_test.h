/*
 * wal_rig: a log on a disk in memory, and a model of what must be in it.
 *
 * The model is the plain list of records that were appended. What a log shows after a crash must be
 * the result of some first part of that list, no shorter than what was acknowledged.
 */
#pragma once

#include "harness/test.h"
#include "io/fake_world.h"
#include "wal/wal_int.h"

struct model_entry {
    struct wal_place at;
    enum raft_entry_type type;
    uint32_t crc; /* of the data */
};

struct model_record {
    enum wal_record_type type;
    struct model_entry entry;
    struct raft_hard_state state;
    struct wal_place snapshot;
    bool installed;
};

/* What a log comes to: where it starts, its entries behind that, its hard state. */
struct replayed {
    struct wal_place start;
    struct raft_hard_state state;
    struct model_entry *entries;
    size_t count;
};

struct wal_rig {
    struct fake_world *world;
    struct disk *disk;
    struct logger logger;
    struct wal_options opt;
    struct wal *wal;
    uint64_t seq, durable;
    char failed[512];

    struct model_record *records;
    size_t record_count;
    size_t acknowledged; /* records known to be durable */
    struct {
        uint64_t seq;
        size_t records;
    } waiting[4096]; /* how many records each number stands for */
    size_t waiting_count;

    uint64_t term, vote, commit, last;
    uint64_t terms[8192]; /* of the entries in the log */
    /* A leader's snapshot of which only the first record survived. What it holds is committed: here
     * the leader sends it again, and nobody else writes there. (Others may, with the same entries.)
     */
    struct wal_place orphan;
    struct rng rng;
};

struct wal_rig *wal_rig_new(uint64_t seed, uint64_t segment_bytes);
void wal_rig_free(struct wal_rig *rig);

MUST_CHECK enum err wal_rig_create(struct wal_rig *rig);
void wal_rig_start(struct wal_rig *rig); /* creates it, with a term and a vote */
void wal_rig_end(struct wal_rig *rig);   /* closes and frees it */

/* Opens at the last valid snapshot and checks the result against the model. `exact`: nothing may
 * be there beyond the acknowledged. The model then continues from what was found. */
MUST_CHECK enum err wal_rig_open(struct wal_rig *rig, bool exact);
void wal_rig_settle(struct wal_rig *rig); /* until the wal is idle or has failed */
void wal_rig_close(struct wal_rig *rig);
void wal_rig_crash(struct wal_rig *rig, enum fake_crash how);

/* Appends, and notes it in the model. */
void wal_rig_entries(struct wal_rig *rig, uint64_t first, size_t count, size_t data_len);
/* Until the log has this many segments more, made or to be made. */
void wal_rig_write_over(struct wal_rig *rig, unsigned segments);
void wal_rig_state(struct wal_rig *rig, uint64_t term, uint64_t vote, uint64_t commit);
void wal_rig_snapshot(struct wal_rig *rig, uint64_t index);
void wal_rig_install(struct wal_rig *rig, uint64_t index, uint64_t term, size_t entries);

/* Something at random. */
void wal_rig_do_something(struct wal_rig *rig);

/* The log as replay shows it, from the last valid snapshot. End with replayed_free. */
MUST_CHECK enum err replayed_of_disk(struct wal_rig *rig, struct replayed *out,
                                     struct wal_found *found);
void replayed_of_records(const struct wal_rig *rig, size_t count, struct replayed *out);
bool replayed_equal(const struct replayed *a, const struct replayed *b);
void replayed_free(struct replayed *o);

/* The data that the rig gives the entry. */
struct blob *wal_rig_data(uint64_t index, uint64_t term, size_t len);
