/*
 * hash: digests that others prescribe.
 *
 * A backup file ends with the SHA-256 of what comes before it; member and cluster ids are the start
 * of a SHA-1. Content is fed in pieces of any size, so a file of many gigabytes needs no memory.
 *
 *     struct hash *h = hash_new(HASH_SHA256);
 *     hash_add(h, piece); ...
 *     uint8_t digest[HASH_SHA256_BYTES];
 *     hash_end(h, digest);
 *
 * Leans on   OpenSSL's libcrypto, which only hash.c sees. A failure inside it means that memory is
 *            gone or the library is broken, and is fatal.
 */
#pragma once

#include "base/bytes.h"

enum hash_kind { HASH_SHA1, HASH_SHA256 };

enum { HASH_SHA1_BYTES = 20, HASH_SHA256_BYTES = 32 };

struct hash; /* opaque */

/* End it with hash_end or hash_free. */
struct hash *hash_new(enum hash_kind kind);

void hash_add(struct hash *h, struct bytes more);

/* Writes the digest, as many bytes as its kind has, and ends h. */
void hash_end(struct hash *h, uint8_t *digest);

/* Ends h without a result. NULL is fine. */
void hash_free(struct hash *h);

/* The digest of one piece. */
void hash_once(enum hash_kind kind, struct bytes whole, uint8_t *digest);
