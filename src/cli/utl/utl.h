/*
 * utl: the commands of cleatutl, which look at files, or change their form, while no server runs.
 *
 * Each finds out everything first and writes it into an emit; main prints that, as text or JSON.
 * What is wrong goes to standard error, with file and offset, and makes the exit status 1; what
 * could be read is printed all the same.
 *
 * Leans on   wal (its frames too: every record counts here, also those that replay passes over),
 *            snap, io/disk.h.
 */
#pragma once

#include "base/err.h"
#include "cli/utl/emit.h"

struct disk;

/* A data directory, or a directory with log segments. Returns the exit status. */
int utl_wal(struct disk *disk, const char *dir, struct emit *out);

/* A bbolt file: a data directory's, or a backup with its digest. */
int utl_db(struct disk *disk, const char *path, struct emit *out);

/* The data directory of a member of ours, which etcd can start on after it. wal_dir: where its log
 * is; NULL: in member/wal, as it is without --wal-dir. */
int utl_export(struct disk *disk, const char *data_dir, const char *wal_dir, struct emit *out);
