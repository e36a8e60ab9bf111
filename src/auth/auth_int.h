/*
 * auth_int: what the files of this room share.
 *
 *     auth.c       the tables: loading, changing, asking
 *     decide.c     who may do what
 *     ranges.c     a user's permissions, merged
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
 * arena is for the ends of single keys. Ranges are in any order until they are merged. */
void auth_ranges_add(struct auth_ranges *r, struct bytes key, struct bytes range_end,
                     struct arena *arena);
void auth_ranges_merge(struct auth_ranges *r);
void auth_ranges_free(struct auth_ranges *r);
void auth_ranges_check(const struct auth_ranges *r);

/* All of [key, range_end), as requests write it? */
bool auth_ranges_cover(const struct auth_ranges *r, struct bytes key, struct bytes range_end);

/* The range that this key is in, or NULL. */
const struct auth_range *auth_ranges_find(const struct auth_ranges *r, struct bytes key);

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

extern const struct bytes auth_root; /* the name of the user and of the role */
