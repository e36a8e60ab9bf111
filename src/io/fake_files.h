/*
 * fake_files: a tree of files and directories that forgets like a real one.
 *
 * Every directory has its names twice: as programs see them, and as a power cut would leave them.
 * The difference is a journal of changes (made, removed, renamed) in the order they were made.
 * Syncing a directory settles its names. A power cut keeps some first part of the rest, in order
 * and each change whole, as journaling file systems do.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "io/fake_content.h"

struct fake_files; /* opaque */
struct fake_file;  /* one opening: fake_disk's */

struct fake_lock {
    const struct fake_file *exclusive; /* the opening that holds it, or NULL */
    unsigned shared;
};

struct fake_names {
    struct fake_name *at; /* sorted */
    size_t count;
};

struct fake_node {
    unsigned refs; /* names, changes and openings */
    bool is_dir;
    unsigned mode;
    struct fake_names names, kept_names;
    struct fake_content content;
    struct fake_lock locks[2]; /* open-file-description, flock */
};

struct fake_name {
    char *text;
    struct fake_node *node;
};

struct fake_files *fake_files_new(void);
void fake_files_free(struct fake_files *f);

MUST_CHECK enum err fake_files_find(struct fake_files *f, const char *path, struct fake_node **out);

/* ERR_EXISTS, or ERR_NOT_FOUND for a missing parent. */
MUST_CHECK enum err fake_files_make(struct fake_files *f, const char *path, bool is_dir,
                                    unsigned mode, struct fake_node **out);
MUST_CHECK enum err fake_files_rename(struct fake_files *f, const char *from, const char *to);
MUST_CHECK enum err fake_files_remove(struct fake_files *f, const char *path);
MUST_CHECK enum err fake_files_sync_dir(struct fake_files *f, const char *path);
void fake_files_sync_opened_dir(struct fake_files *f, struct fake_node *dir);

/* What all files that have a name take of the disk, in bytes. */
uint64_t fake_files_allocated(const struct fake_files *f);

/* The power fails. Without a coin, everything not synced is lost. */
void fake_files_crash(struct fake_files *f, struct rng *coin);

struct fake_node *fake_node_ref(struct fake_node *n);
void fake_node_unref(struct fake_node *n);
