/*
 * restored: a backup, put into an empty store, and what a state that is opened on it holds.
 *
 *     bytes that a client was sent --> SHA-256, bolt_check --> every entry into a new store
 *         --> the rooms of a member, opened on it --> keys, their leases, HashKV
 *
 * What comes out is held against the history at its revision, when that is known
 * (history_restored).
 */
#pragma once

#include "base/mem.h"
#include "sim/history.h"

/* `backup` as `etcdctl snapshot save` would have it in its file. False: `why` says what is wrong.
 * Otherwise the caller ends out->kvs with mem_free, or hands it on. */
MUST_CHECK bool restored_read(struct bytes backup, struct history_image *out, struct buf *why);
