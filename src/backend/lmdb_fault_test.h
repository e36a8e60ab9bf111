/*
 * lmdb_fault: a call that LMDB makes to the system fails, for tests of whoever uses a store.
 *
 *     lmdb_fault_at(dir, nth, ENOSPC);
 *     .. a store in that folder is opened, used and closed ..
 *     bool reached = lmdb_fault_end();
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The nth call from now on that has to do with files of this folder fails, once. */
void lmdb_fault_at(const char *dir, uint64_t nth, int error);

/* Nothing fails any more. Was the call made? */
bool lmdb_fault_end(void);
