/*
 * etcdutl: those commands of cleatutl that etcdutl has too, with its flags, output and errors.
 *
 *     cleatutl snapshot status FILE          what a backup holds
 *     cleatutl snapshot restore FILE ...     a data directory of a new cluster, from a backup
 *     cleatutl hashkv FILE                   the hash that HashKV would give
 *     cleatutl defrag --data-dir DIR         the same store in a file without holes
 *     cleatutl migrate --data-dir DIR ...    the same store for another version of etcd
 *
 * Unlike etcdutl, none of them writes to the file that it reads. Exit status as etcdutl's: 1 for
 * what goes wrong, 4 for an output format that there is not, 128 for wrong arguments.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/logger.h"

struct disk;
struct loop;

/* Is this the first word of such a command? */
bool etcdutl_has(const char *word);

/* argv as main has it, with that word at 1. Returns the exit status. */
int etcdutl_run(int argc, char **argv, struct loop *loop);

/* --- between its files --- */

enum { UTL_OK = 0, UTL_ERROR = 1, UTL_BAD_FEATURE = 4, UTL_BAD_ARGUMENTS = 128 };

enum utl_flag_kind { UTL_TEXT, UTL_BOOL, UTL_UINT, UTL_INT };

struct utl_flag {
    const char *name;
    enum utl_flag_kind kind;
    void *to; /* const char **, bool *, uint64_t *, int64_t *: holds the default before */
};

/* "Error: ..." on standard error; returns the status. */
__attribute__((format(printf, 2, 3))) int utl_fail(int status, const char *format, ...);

/* How a command shows its one row. */
struct utl_cell {
    const char *header, *field, *key; /* of a table; of `fields`; of JSON */
    const char *shown;                /* simple and table */
    const char *raw;                  /* fields and JSON; in JSON as it is, quotes included */
};
int utl_show(const char *format, const struct utl_cell *cells, size_t count);

/* Long work, shown on a terminal once it has taken half a second: a bar and a percentage. */
struct utl_progress {
    const char *what;
    uint64_t total, done;
    int64_t began_ns, shown_ns;
};
void utl_progress_begin(struct utl_progress *p, const char *what, uint64_t total);
void utl_progress_add(struct utl_progress *p, uint64_t done);
void utl_progress_end(struct utl_progress *p);

int utl_snapshot_status(struct disk *disk, const char *path, const char *format);
int utl_hashkv(struct disk *disk, const char *path, int64_t revision, const char *format);
int utl_migrate(struct disk *disk, const char *data_dir, const char *target_version, bool is_forced,
                const struct logger *logger);
int utl_defrag(struct disk *disk, const char *data_dir, const struct logger *logger);

struct utl_restore {
    const char *path, *name, *data_dir, *wal_dir, *initial_cluster, *token, *peer_urls;
    bool skip_hash_check, mark_compacted;
    uint64_t bump_revision;
};
int utl_snapshot_restore(struct loop *loop, const struct utl_restore *r,
                         const struct logger *logger);
