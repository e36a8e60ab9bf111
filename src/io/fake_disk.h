/*
 * fake_disk: a disk in memory that can lose power and fail on request.
 *
 * It keeps what disk.h promises and nothing more: data survives a crash if it was synced, a name if
 * its directory was. Operations on a queue take a while of virtual time and are done one by one.
 *
 * It can be full. Then what needs more space fails with ERR_NO_SPACE, again and again until there
 * is some: a write behind what is allocated, of which as much is made as fits; an allocation, of
 * which nothing is; and without a byte left also a new name. What overwrites, cuts, removes or
 * syncs goes on, and what is cut or removed makes space. A directory and a name take none, nor does
 * a file whose name is gone.
 */
#pragma once

#include "io/disk.h"
#include "io/fake_fds.h"
#include "io/fake_time.h"

struct fake_disk; /* opaque */

struct fake_disk_options {
    struct fake_delay delay;     /* of each operation on a queue */
    unsigned write_back_percent; /* how often a write is followed by some of it reaching the disk */
    struct fake_fds *fds;        /* lent; NULL: there are enough */
};

struct fake_disk *fake_disk_new(struct fake_time *time, struct inbox *inbox,
                                const struct fake_disk_options *options);
struct disk *fake_disk_seam(struct fake_disk *d);

/* From now on operations on a queue take this long; the one that is under way keeps its time. */
void fake_disk_set_delay(struct fake_disk *d, struct fake_delay delay);

/* Every operation must have ended, unless the last thing was a crash. Files left open are fine. */
void fake_disk_free(struct fake_disk *d);

/* The nth call of this kind from now on fails, once. The sync inside a write counts as a DISK_SYNC
 * after the DISK_WRITE. */
struct fake_fault {
    enum disk_op_kind kind; /* DISK_NONE: of any kind */
    uint64_t nth;           /* from 1; 0: none, which takes the fault back */
    enum err err;
    size_t written; /* of a write that fails: how much of it was written all the same */
};

void fake_disk_fail(struct fake_disk *d, struct fake_fault fault);
bool fake_disk_will_fail(const struct fake_disk *d); /* is that call still to come? */

/* At the nth call from now on, of any kind, the power goes: a write is made in part, everything
 * after it fails, until fake_disk_crash. 0: not at all. For what boot does in one go; otherwise
 * call fake_disk_crash between two steps. */
void fake_disk_die_at(struct fake_disk *d, uint64_t nth);
bool fake_disk_is_dead(const struct fake_disk *d);

/* Calls so far, for loops that fail the first, the second, and so on until none is left. */
uint64_t fake_disk_calls(const struct fake_disk *d);

/* From now on so many more bytes may be allocated than are now. FAKE_DISK_NOT_FULL: any. A crash
 * changes nothing in that, but may bring back files that were removed. */
#define FAKE_DISK_NOT_FULL UINT64_MAX
void fake_disk_set_space(struct fake_disk *d, uint64_t bytes);
uint64_t fake_disk_space(const struct fake_disk *d); /* what is left of it */

/* The disk hangs: nothing that is on a queue, or comes to one, is done before then, in the world's
 * time. FAKE_DISK_FOR_EVER: until the next call of this, 0 for now, or a crash. */
#define FAKE_DISK_FOR_EVER UINT64_MAX
void fake_disk_hang(struct fake_disk *d, uint64_t until_ns);

/* One bit of some file of this directory is another now. False: there is nothing to spoil. */
bool fake_disk_flip(struct fake_disk *d, const char *dir, struct rng *coin);

/* Another disk takes its place, an empty one. No file may be open (asserted). */
void fake_disk_wipe(struct fake_disk *d);

enum fake_crash {
    FAKE_KILLED,    /* the process dies, the machine lives: everything written is still there */
    FAKE_POWER_CUT, /* everything not synced is lost */
    FAKE_TORN, /* the same, but some of it has reached the disk, in sectors: the rng says what */
};

/* Ends the process that used the disk: its openings, its locks and its unfinished operations, which
 * are never heard of again; a write that was under way may be there in part. Only then may the
 * operations be freed. Events it had in the inbox are for the caller to forget (inbox_init). */
void fake_disk_crash(struct fake_disk *d, enum fake_crash how);
