/*
 * auth_int: what the files of this room share.
 *
 *     auth.c       the tables: loading, changing, asking
 *     decide.c     who may do what
 *     ranges.c     a user's permissions, merged
 *     tree.c       and as etcd has them, for inverted ranges
 *     base64.c     as passwords' hashes and JWTs are written
 *     jwt.c        JWTs, with jwt_key.c for keys and claims.c for what they say
 */
#pragma once

#include "auth/auth.h"
#include "base/arena.h"
#include "base/assert.h"

/* --- ranges.c --- */

/* Begins at a key, ends before another; an empty end is no end. */
struct auth_range {
    struct bytes key, end;
};

/* In order, no two of them touch. */
struct auth_ranges {
    struct auth_range *at;
    size_t count, cap;
};

/* A permission as it is stored: a single key, a range, or ("\0") everything from a key on. The
 * arena is for the end of a single key. */
struct auth_range auth_range_of(struct bytes key, struct bytes range_end, struct arena *arena);

/* Ranges are in any order until they are merged. */
void auth_ranges_add(struct auth_ranges *r, struct auth_range range);
void auth_ranges_merge(struct auth_ranges *r);
void auth_ranges_free(struct auth_ranges *r);
void auth_ranges_check(const struct auth_ranges *r);

/* Does [key, range_end), as requests write it, end before it begins, or there? */
bool auth_range_is_inverted(struct bytes key, struct bytes range_end);

/* All of [key, range_end), as requests write it? Of one that is inverted: its key. */
bool auth_ranges_cover(const struct auth_ranges *r, struct bytes key, struct bytes range_end);

/* The range that this key is in, or NULL. */
const struct auth_range *auth_ranges_find(const struct auth_ranges *r, struct bytes key);

/* --- tree.c --- */

/* All zeroes before the first auth_tree_clear; a finished one takes no more ranges. */
struct auth_tree {
    struct auth_interval *at; /* the first stands for none */
    size_t count, cap;
    uint32_t root;
};

void auth_tree_clear(struct auth_tree *t);
void auth_tree_add(struct auth_tree *t, struct auth_range range);
void auth_tree_finish(struct auth_tree *t);
void auth_tree_free(struct auth_tree *t);

/* What etcd says to an inverted range. */
bool auth_tree_permits(const struct auth_tree *t, struct bytes key, struct bytes range_end);

/* --- auth.c --- */

/* A user or a role, with the memory that its texts are in. */
struct auth_record {
    struct arena home;
    union {
        struct pb_user user;
        struct pb_role role;
    };

    /* Of a user, as of the auth's change number `merged_at`; 0: never. They look into the roles. */
    uint64_t merged_at;
    bool is_root; /* then it has no need of ranges */
    struct arena ends;
    struct auth_ranges reads, writes;

    /* The same permissions; made when an inverted range is asked about, which few ever do. */
    bool has_trees;
    struct auth_tree read_tree, write_tree;
};

/* In order of their names. */
struct auth_table {
    struct auth_record **at;
    size_t count, cap;
};

struct auth {
    struct backend *backend;
    struct auth_leases leases;
    bool enabled;
    uint64_t revision;
    uint64_t changes; /* of the tables since they were loaded, and one more */
    struct auth_table users, roles;
    size_t last_asker; /* a place in users, if nothing has moved since */
};

struct auth_record *auth_find_user(const struct auth *a, struct bytes name);

/* The same, for who asks: calls of one connection come together, and so do their entries. */
struct auth_record *auth_find_asker(struct auth *a, struct bytes name);
bool auth_has_role(const struct pb_user *u, struct bytes role);

/* With its ranges merged. */
void auth_merge(const struct auth *a, struct auth_record *user);

/* With its trees, too. It is merged. */
void auth_plant(const struct auth *a, struct auth_record *user);

extern const struct bytes auth_root; /* the name of the user and of the role */
