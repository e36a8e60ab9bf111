/*
 * backend_memory: the twin's disk, which can lose power.
 *
 * It outlives the backend that is opened on it, as a disk outlives a process. Every call that would
 * touch a real disk (a write, a sync, the new root, a rename) is counted, and any of them can be
 * told to fail or to be the last before the power goes. A commit is there whole or not at all: what
 * has not reached the sync is lost; whether the write of the new root made it is the seed's choice.
 *
 * It can be full. Then a commit that makes the file grow by more than there is space for fails with
 * ERR_NO_SPACE, and leaves the store as it was; and so does every commit if there is less than a
 * page, since even a removal copies pages, and every rename. A store that is freed gives its space
 * back.
 *
 *     struct memory_disk *d = memory_disk_new(seed);
 *     backend_open(&(struct backend_options){.memory = d, .workers = w}, &b);
 *     memory_disk_crash(d);      // from here every call fails
 *     backend_close(b);
 *     memory_disk_restart(d);    // what is left can be opened again
 *
 * For one thread: jobs and turns take turns, as they do in the simulator.
 */
#pragma once

#include "base/bytes.h"
#include "base/rng.h"

struct memory_disk; /* opaque */

struct memory_disk *memory_disk_new(uint64_t seed);

/* No backend may be open on it (asserted). NULL is fine. */
void memory_disk_free(struct memory_disk *d);

/* The nth call from now fails with ERR_IO; 0 for none. */
void memory_disk_fail_at(struct memory_disk *d, uint64_t nth);

/* At the nth call from now the power goes; 0 for none. */
void memory_disk_crash_at(struct memory_disk *d, uint64_t nth);
void memory_disk_crash(struct memory_disk *d);

/* The power is back. */
void memory_disk_restart(struct memory_disk *d);

/* From now on files may grow by so many bytes. MEMORY_DISK_NOT_FULL: by any. */
#define MEMORY_DISK_NOT_FULL UINT64_MAX
void memory_disk_set_space(struct memory_disk *d, uint64_t bytes);
uint64_t memory_disk_space(const struct memory_disk *d); /* what is left of it */

/* One bit of some value of the store is another now. As in LMDB, where each value has a checksum,
 * it is noticed by whoever reads it: ERR_CORRUPT. Only the last one of these is remembered. False:
 * there is nothing to spoil. */
bool memory_disk_flip(struct memory_disk *d, struct rng *coin);

/* Another disk takes its place, an empty one. No backend may be open on it (asserted). */
void memory_disk_wipe(struct memory_disk *d);

/* Calls so far: what a sweep counts to. */
uint64_t memory_disk_calls(const struct memory_disk *d);
