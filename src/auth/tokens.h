/*
 * tokens: simple tokens, who has been given which, and for how long.
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
 *            3. How long a look takes does not tell how much of a token was right: it is looked up
 *               by a keyed hash.
 * Leans on   base. Time comes in as now_ms, monotonic.
 */
#pragma once

#include "base/bytes.h"
#include "base/limits.h"

struct auth_tokens; /* opaque */

/* ttl_ms > 0. The seed is a secret in production. */
struct auth_tokens *auth_tokens_open(uint64_t ttl_ms, uint64_t seed);
void auth_tokens_close(struct auth_tokens *t); /* NULL is fine */

/* The user has logged in by entry `index`, and this prefix was drawn for him. An empty one makes no
 * token: it was drawn by a member that gives out other kinds, and could be guessed. */
void auth_tokens_add(struct auth_tokens *t, struct bytes prefix, uint64_t index, struct bytes user,
                     uint64_t now_ms);

/* Whose it is, and its time begins anew. False: nobody's. The name is lent until the next call. */
bool auth_tokens_use(struct auth_tokens *t, struct bytes token, uint64_t now_ms,
                     struct bytes *user);

void auth_tokens_drop_user(struct auth_tokens *t, struct bytes user);
void auth_tokens_drop_all(struct auth_tokens *t);
size_t auth_tokens_count(const struct auth_tokens *t);

/* The token in a field of a request: what is behind "Bearer ", if that is there, or all of it. */
struct bytes auth_token_in(struct bytes field);

/* The index in a token; false: it has not the shape of one. */
bool auth_token_index(struct bytes token, uint64_t *index);

enum { AUTH_TOKEN_PREFIX_LEN = 16 };

/* The letters, from as many random bytes as were given: those that would make some letters more
 * frequent are passed over. False: more are needed. */
bool auth_token_prefix(struct bytes random, char out[static AUTH_TOKEN_PREFIX_LEN]);

/* All invariants, asserted. */
void auth_tokens_check(const struct auth_tokens *t);
