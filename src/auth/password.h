/*
 * password: bcrypt, as Go's has it.
 *
 *     "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
 *       kind, cost, 22 letters of salt, 31 of hash
 *
 * What Go calls 2a is what everybody else calls 2b: the 2a of others differs for some passwords
 * with bytes above 127. So hashes are made and compared as 2b, and are called 2a.
 *
 * A password is cut after 72 bytes where it is compared, and refused where it is to be set. Zero
 * bytes in it count as any others do. That is why this is Nettle's bcrypt, which is told how long a
 * password is, and not crypt's, which ends at the first of them.
 *
 * Threads    Both take tens of milliseconds and more: workers call them. They share nothing.
 * Leans on   Nettle, which only password.c sees.
 */
#pragma once

#include "auth/auth.h"

enum {
    PASSWORD_BYTES_MAX = 72,
    PASSWORD_SALT_BYTES = 16,
    PASSWORD_HASH_LEN = 60,
    PASSWORD_COST_MIN = 4,
    PASSWORD_COST_MAX = 31,
};

/* The password is short enough (asserted). */
void password_hash(struct bytes password, unsigned cost,
                   const uint8_t salt[static PASSWORD_SALT_BYTES],
                   char out[static PASSWORD_HASH_LEN + 1]);

/* What a hash costs to be compared with, as it says itself: PASSWORD_COST_MIN to PASSWORD_COST_MAX;
 * 0: it cannot be understood. */
unsigned password_cost(struct bytes hash);

/* False, too, of a hash that cannot be understood: then it takes no time. */
bool password_matches(struct bytes hash, struct bytes password);

/* A hash of no password: to compare with it takes as long as with one of this cost. */
void password_nobodys(unsigned cost, char out[static PASSWORD_HASH_LEN + 1]);
