/*
 * token_keys: what identifies those who log in, made ready as the configuration says.
 *
 * Key files are read once, when the server is opened: new ones need a restart, as in etcd.
 */
#pragma once

#include "auth/tokens.h"
#include "base/err.h"
#include "config/config.h"

struct disk;

/* *out is NULL where no tokens are given out, and the caller's. Else the reason is in *why, in
 * etcd's words where it has some. */
MUST_CHECK enum err token_keys_open(const struct config *config, struct disk *disk, uint64_t seed,
                                    struct buf *why, struct auth_tokens **out);
