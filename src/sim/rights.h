/*
 * rights: users, roles and what they may do, as a slow and obvious model has them.
 *
 * The simulated world has four users and four roles, "root" and three others of each, and seven
 * ranges of keys that a role may be permitted to read, to write, or both. So all of it is a small
 * value that can be copied, changed and compared. What a user may do is found by walking over the
 * range that is asked for, from one permission to the next, whatever order they are in.
 *
 *     asked    [k02 ............................ k09)
 *     role 1   [k02 .......... k06)
 *     role 3                   [k06 ........ k09)         adjacent ranges are one
 *
 * Not here   When which of them was in force, and who was told what (permits.h).
 */
#pragma once

#include "sim/history.h"

enum { RIGHTS_USERS = 4, RIGHTS_ROLES = 4, RIGHTS_RANGES = 7, RIGHTS_ROOT = 0 };

/* Of a role, for a range. */
enum rights_type { RIGHTS_NOTHING, RIGHTS_READ, RIGHTS_WRITE, RIGHTS_BOTH };

struct rights {
    bool enabled;
    uint64_t revision;
    struct {
        bool is_there;
        uint8_t roles;    /* a bit for each */
        uint32_t logouts; /* so often all its tokens were dropped; no member says so */
        uint32_t secret;  /* a mark of its password as it is stored; 0: a new one, */
        uint32_t was;     /* which is not this */
    } users[RIGHTS_USERS];
    struct {
        bool is_there;
        uint8_t types[RIGHTS_RANGES]; /* enum rights_type */
    } roles[RIGHTS_ROLES];
};

enum rights_kind {
    RIGHTS_ENABLE,
    RIGHTS_DISABLE,
    RIGHTS_USER_ADD,
    RIGHTS_USER_DELETE,
    RIGHTS_PASSWORD, /* is set to what it was, so that whoever was logged in is not any more */
    RIGHTS_ROLE_GRANT,
    RIGHTS_ROLE_REVOKE,
    RIGHTS_ROLE_ADD,
    RIGHTS_ROLE_DELETE,
    RIGHTS_PERMIT,
    RIGHTS_FORBID,
    RIGHTS_KINDS,
};

struct rights_change {
    enum rights_kind kind;
    unsigned user, role, range;
    enum rights_type type; /* RIGHTS_PERMIT */
};

const char *rights_user_name(unsigned user); /* "root", "u1" */
const char *rights_role_name(unsigned role); /* "root", "r1" */
struct bytes rights_range_key(unsigned range);
struct bytes rights_range_end(unsigned range);

/* Nobody, and nothing is checked. */
struct rights rights_at_first(void);

/* NULL, and it is made; or what whoever asks for it is told. */
const char *rights_apply(struct rights *r, const struct rights_change *c);

/* But for logouts. What is not known of a password may be anything that it may be. */
bool rights_are_equal(const struct rights *a, const struct rights *b);
bool rights_changes_are_equal(const struct rights_change *a, const struct rights_change *b);

/* While auth is enabled: may this user do this? What is not about keys is root's. */
bool rights_may(const struct rights *r, unsigned user, enum history_kind kind,
                struct bytes request);
bool rights_may_read(const struct rights *r, unsigned user, struct bytes key, struct bytes end);
bool rights_is_root(const struct rights *r, unsigned user);
