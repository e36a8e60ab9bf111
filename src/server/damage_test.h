/*
 * damage: a store that says something else than its member was told, and is sound otherwise.
 *
 * What flips a bit on a disk is found by checksums (backend). This is what they cannot find: the
 * value of a key is another one, written as the server itself would.
 */
#pragma once

#include "backend/backend.h"

/* The newest value of this key is changed, in a store that nobody has open. */
void damage_value(const struct backend_options *store, const char *key);
