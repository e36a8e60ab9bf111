/*
 * crc32c: the checksum of the WAL, of snapshots and of HashKV (Castagnoli polynomial).
 *
 * It rolls: feed pieces one after the other, each call continuing from the last result, starting
 * with 0, and the value is that of their concatenation. The WAL's crc runs like this across all
 * records and segments. The processor's own instruction is used where there is one; the portable
 * way is always compiled in, and tests hold the two against each other.
 */
#pragma once

#include "base/bytes.h"

uint32_t crc32c(uint32_t crc, struct bytes more);

/* The table-driven way, on any machine. */
uint32_t crc32c_portable(uint32_t crc, struct bytes more);

/* Is crc32c() using the processor's instruction here? */
bool crc32c_is_hardware(void);
