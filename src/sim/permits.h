/*
 * permits: who was allowed what, when, and whether everybody was told so.
 *
 * After every turn of a member the simulator shows the users and roles it has. Those that are new
 * must be what some change that an administrator has asked for makes of the ones before (rights.h),
 * so there is one row of them, and each change in it has a cause:
 *
 *     number     0        1        2        3        4
 *     change     at first user u1  role r1  granted  enabled
 *     entry      .......|12......|13......|17......|19...       by the first to have applied it
 *     revision   1      |7       |7       |8       |11...       of the keys
 *
 * An operation falls under one of them, of which is known that it is not older than what anybody
 * had when it began (or, for what a member decides by itself, than what that member had when it
 * was sent there), not newer than what anybody had when it was over, and of a revision of the keys
 * which it was told, or at which it is seen in the history: that was at some entry, and so were
 * they.
 *
 * Checks     1. All members have the same users and roles after the same entry, with the same
 *               revision; each of them is a change that was asked for, once, and not refused.
 *            2. An administrator's change that was answered is made, between the question and the
 *               answer; one that is refused is refused by those that there were then, in those
 *               words.
 *            3. What has happened, though auth was enabled, was asked for with a token of somebody
 *               who was permitted to; and that token was given out, and not dropped since.
 *            4. Whoever is refused was not permitted to, or his token was worth nothing, or users
 *               or roles have changed meanwhile: as he was told.
 *            5. A watch is created only for who may read all of its range.
 * Left out   Which keys a lease has: what is refused for their sake may be so rightly, if there is
 *            a key that may not be written.
 *
 * A world has one administrator at a time, but what it asked for and was not answered may be made
 * at any time later.
 */
#pragma once

#include "sim/rights.h"

struct permits; /* opaque */

struct permits *permits_new(unsigned members, bool tokens_expire);
void permits_free(struct permits *p); /* NULL is fine */

/* --- members --- */

/* A member has these, after this entry and at this revision of the keys. */
void permits_shown(struct permits *p, unsigned member, const struct rights *now, uint64_t applied,
                   int64_t revision);
/* Its life has ended, or its state was replaced: it has forgotten all tokens. */
void permits_forgot(struct permits *p, unsigned member);
/* Of the newest. */
const struct rights *permits_newest(const struct permits *p);
size_t permits_count(const struct permits *p); /* changes that were seen */

/* --- changes --- */

size_t permits_asked(struct permits *p, const struct rights_change *c);
/* It is made, or was refused in these words. */
void permits_answered(struct permits *p, size_t change, struct bytes text, bool ok);
/* What AuthStatus has said. `since`: permits_count when it was asked for. */
void permits_status(struct permits *p, size_t since, bool enabled, uint64_t revision);

/* --- tokens --- */

enum { PERMITS_NO_TOKEN, PERMITS_FORGED, PERMITS_TOKENS };

/* Somebody logs in, with a password that is his or is not. */
struct permits_login {
    unsigned user;
    bool is_right;
    size_t since;     /* permits_count, when he began */
    uint64_t forgets; /* so often some member had forgotten all tokens by then */
};
struct permits_login permits_login(const struct permits *p, unsigned user, bool is_right);
/* And was given this. Returns its number. */
unsigned permits_logged_in(struct permits *p, const struct permits_login *l, struct bytes token);
/* Or was refused. False: that is no reason not to be let in. */
bool permits_login_refused(struct permits *p, const struct permits_login *l, struct bytes text);

/* --- operations --- */

/* It is sent to this member with this token, perhaps again. */
void permits_sent(struct permits *p, uint64_t op, unsigned member, unsigned user, unsigned token);
/* Nobody needs a permission for it. */
void permits_is_anybodys(struct permits *p, uint64_t op);
void permits_over(struct permits *p, uint64_t op);

/* It was refused in these words; false: they are none of auth's. */
bool permits_refused(struct permits *p, uint64_t op, const struct history_op *o, struct bytes text);

/* What somebody was told when a watch was created; text: empty: it was. */
struct permits_watch {
    unsigned member, user, token;
    size_t since;     /* permits_member when it was asked for */
    uint64_t applied; /* permits_applied, likewise */
    struct bytes key, end, text;
};
/* False: the text is none of auth's. */
bool permits_watched(struct permits *p, const struct permits_watch *w);

size_t permits_member(const struct permits *p, unsigned member);
uint64_t permits_applied(const struct permits *p, unsigned member);

/* At the end: all that has happened. */
void permits_check(struct permits *p, const struct history *h);

/* The first thing that did not hold, or NULL. */
const char *permits_problem(const struct permits *p);
