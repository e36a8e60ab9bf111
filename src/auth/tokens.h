/*
 * tokens: who somebody is, by the token he was given; simple tokens, or JWTs.
 *
 * Which of the two is said when it is opened. JWTs say themselves whose they are (jwt.h): who logs
 * in is told of to apply all the same, and no token is made. To verify one takes 20 to 500
 * microseconds of the turn, for each request that comes with it. So those that were found good are
 * remembered, up to AUTH_JWTS_MAX of them, and of those it is looked at only whether it is their
 * time. The rest of this is about simple ones.
 *
 *     "aXbYcZdEfGhIjKlM.57"    sixteen letters that nobody can guess, drawn by the member that was
 *                              asked, and the index of the entry by which the user logged in
 *
 * All members learn of a token when they apply that entry, so it is good on each of them, and each
 * counts its time alone: a token dies when it was not used for its ttl. A member that has not come
 * as far as the token's index cannot tell a good one from a bad one, and waits.
 *
 * Tokens are in memory alone. A restart forgets them, and a state that comes as a snapshot does
 * too, since a password may have been changed in what was passed over; clients log in again.
 *
 * Promises   1. A token of a user whose password was changed, or who was deleted, is good no more;
 *               nor is any when auth is switched off.
 *            2. There are never more than AUTH_TOKENS_MAX: beyond, the one that was not used for
 *               the longest time goes.
 *            3. How long a look takes does not tell how much of a token was right: it is found by
 *               its index, which is no secret, and all of its letters are compared. A JWT is found
 *               by a keyed hash.
 * Leans on   jwt.h, base. Time comes in: monotonic, and for JWTs that of the wall clock.
 */
#pragma once

#include "base/bytes.h"
#include "base/identity.h"
#include "base/limits.h"

struct auth_tokens; /* opaque */
struct jwt;

/* ttl_ms > 0. The seed is a secret in production. */
struct auth_tokens *auth_tokens_open(uint64_t ttl_ms, uint64_t seed);
/* For JWTs, by this one, which is closed with it. */
struct auth_tokens *auth_tokens_open_jwt(struct jwt *jwt, uint64_t seed);
void auth_tokens_close(struct auth_tokens *t); /* NULL is fine */

/* NULL: they are simple ones. */
const struct jwt *auth_tokens_jwt(const struct auth_tokens *t);

struct auth_moment {
    uint64_t now_ms;        /* monotonic */
    int64_t unix_s;         /* by the wall clock */
    uint64_t auth_revision; /* of the tables, as they are now */
};

/*
 * Who has such a token, and what of the tables he knew: of a simple one all, since those are
 * dropped here when they are changed; a JWT says it. NULL: it is somebody's, whose name is lent
 * until the next call. Else what is wrong with it, for the log alone.
 */
const char *auth_tokens_identify(struct auth_tokens *t, struct bytes token,
                                 const struct auth_moment *moment, struct identity *out);

/* The user has logged in by entry `index`, and this prefix was drawn for him. An empty one makes no
 * token: it was drawn by a member that gives out other kinds, and could be guessed. */
void auth_tokens_add(struct auth_tokens *t, struct bytes prefix, uint64_t index, struct bytes user,
                     uint64_t now_ms);

/* Whose simple token it is, and its time begins anew. False: nobody's. The name is lent until the
 * next call. */
bool auth_tokens_use(struct auth_tokens *t, struct bytes token, uint64_t now_ms,
                     struct bytes *user);

void auth_tokens_drop_user(struct auth_tokens *t, struct bytes user);
void auth_tokens_drop_all(struct auth_tokens *t);
size_t auth_tokens_count(const struct auth_tokens *t); /* that are remembered */

/* How many have been forgotten, for whatever reason: as long as it is the same, one that was good
 * is good until its time is up. */
uint64_t auth_tokens_forgotten(const struct auth_tokens *t);

/* The token in a field of a request: what is behind "Bearer ", if that is there, or all of it. */
struct bytes auth_token_in(struct bytes field);

/* The index in a simple token; false: it has not the shape of one. */
bool auth_token_index(struct bytes token, uint64_t *index);

enum { AUTH_TOKEN_PREFIX_LEN = 16 };

/* The letters, from as many random bytes as were given: those that would make some letters more
 * frequent are passed over. False: more are needed. */
bool auth_token_prefix(struct bytes random, char out[static AUTH_TOKEN_PREFIX_LEN]);

/* All invariants, asserted. */
void auth_tokens_check(const struct auth_tokens *t);
