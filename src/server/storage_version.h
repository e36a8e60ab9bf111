/*
 * storage_version: for which version the store's content is made.
 *
 * A note in the store itself, under meta/storageVersion, that follows the cluster's version. etcd
 * before 3.6 wrote no such note, and is not to find one.
 */
#pragma once

#include "backend/backend.h"
#include "base/buf.h"
#include "cluster/cluster.h"

/* Empty if there is none. ERR_UNSUPPORTED if this server cannot get from there to its own version,
 * ERR_CORRUPT if it is no version: `why` gets a sentence, etcd's where it refuses the same. */
MUST_CHECK enum err storage_version_read(struct backend *b, char out[VERSION_TEXT_MAX],
                                         struct buf *why);

/* Between two entries. Empty: the note is taken away. */
void storage_version_write(struct backend *b, struct bytes version);

/* What the note says while the cluster is of this version: the same, or nothing. */
struct bytes storage_version_of_cluster(struct bytes cluster_version);
