/*
 * snapfile: the small files that say where a snapshot was taken.
 *
 * When the log has grown long, a member notes an index up to which its store holds everything, in a
 * file of its own beside the store, and then in the log. The state itself stays in the store; the
 * file carries term, index and the raft configuration at that point, and the membership once more
 * as a dump of the old v2 store: etcd 3.5 starts from that dump, 3.6 insists that it can be parsed,
 * 3.7 only writes it.
 *
 *     member/snap/%016x-%016x.snap    term first, then index, so that names sort by age
 *     file       snappb.snapshot {crc, data}        crc: CRC-32C of data, never 0
 *     data       raftpb.Snapshot {dump, metadata {conf_state, index, term}}
 *
 * Promises   1. After snapfile_save has returned ERR_OK, file and name survive a power cut.
 *            2. snapfile_decode accepts only a file whose checksum, inner message and metadata are
 *               whole; one beyond SNAPFILE_BYTES_MAX is not. The checksum covers all but itself
 *               and a few bytes of framing; a change in those is ERR_CORRUPT too, or has no
 *               effect.
 *            3. snapfile_load_newest hands out the newest good file that is wanted, and renames bad
 *               ones to *.broken, so that they are out of the way and still there to be looked at.
 * Not here   When to take a snapshot and which one to start from (server). Reading the dump.
 * Leans on   entry, pb, io/disk.h. Calls block: boot, tools, or a worker.
 */
#pragma once

#include "base/limits.h"
#include "base/logger.h"
#include "entry/entry.h"
#include "pb/codec.h"

struct disk;

/* A name with its final zero. */
#define SNAPFILE_NAME_BYTES 39

void snapfile_name(uint64_t term, uint64_t index, char out[SNAPFILE_NAME_BYTES]);

/* False when this is not what snapfile_name makes. */
bool snapfile_parse_name(const char *name, uint64_t *term, uint64_t *index);

/* Appends the file's content. The snapshot has metadata (asserted). */
void snapfile_encode(const struct raft_snapshot *snapshot, struct buf *out);

/* *out looks into `file` and `arena`. On error ERR_CORRUPT, and *why says what is wrong. */
MUST_CHECK enum err snapfile_decode(struct bytes file, struct arena *arena,
                                    struct raft_snapshot *out, const char **why);

/* Writes the file into `dir` and makes it durable. What could not be written whole is removed.
 * ERR_SYNC: the caller ends the process. */
MUST_CHECK enum err snapfile_save(struct disk *disk, const char *dir,
                                  const struct raft_snapshot *snapshot);

/* Is this the snapshot looked for? The log knows which ones count. */
typedef bool snapfile_wanted(void *context, uint64_t term, uint64_t index);

struct snapfile_search {
    const char *dir;
    const struct logger *logger; /* told of every broken file */
    snapfile_wanted *wanted;     /* NULL: any */
    void *context;
};

/* The newest good one. *out looks into *file, which is the caller's, and the arena. ERR_NOT_FOUND
 * when there is none; ERR_IO and the like when a file could not be read, which is not its fault. */
MUST_CHECK enum err snapfile_load_newest(struct disk *disk, const struct snapfile_search *search,
                                         struct arena *arena, struct buf *file,
                                         struct raft_snapshot *out);

/* What the dump tells of. */
struct snapfile_membership {
    const struct pb_member *members; /* attributes are left out for one without name and urls */
    size_t member_count;
    const uint64_t *removed;
    size_t removed_count;
    struct bytes cluster_version; /* "3.7.0", or empty while it is not decided */
};

/* Appends the v2 store's JSON, in any order of members the same. */
void snapfile_dump(const struct snapfile_membership *membership, struct buf *out);
