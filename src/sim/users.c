/* Users and roles in a world: who is who, what members have of them, and what is looked at. */
#include "sim/sim_int.h"

#include "sim/member_view.h"

/* Who sees everything, and the first who writes, are root: the rest of the world rests on what they
 * are shown. Half of all others are somebody else. */
unsigned sim_some_user(struct sim *s, enum actor_kind kind, unsigned nth)
{
    bool is_root = rng_chance(&s->users, 1, 2);
    unsigned user = (unsigned)rng_between(&s->users, 1, RIGHTS_USERS - 1);
    bool is_needed =
        kind == ACTOR_WITNESS || (kind == ACTOR_WRITER && nth == 0) || kind == ACTOR_ADMINISTRATOR;

    return is_root || is_needed ? RIGHTS_ROOT : user;
}

static void hand_on_problem(struct sim *s)
{
    const char *problem = permits_problem(s->permits);

    if (problem)
        history_fail(&s->history, "%s", problem);
}

void sim_look_at_users(struct sim *s, const struct sim_member *m, const struct server_status *now)
{
    struct rights rights;

    if (!s->permits || !server_auth(m->host->server) || sickness_is_wiped(s->sickness, m->number))
        return;
    if (!member_rights(m->host->server, &rights))
        history_fail(&s->history, "member m%u has users or roles that nobody has asked for",
                     m->number + 1);
    else
        permits_shown(s->permits, m->number, &rights, now->applied, now->revision);
    hand_on_problem(s);
}

void sim_tokens_are_lost(struct sim *s, const struct sim_member *m)
{
    if (s->permits)
        permits_forgot(s->permits, m->number);
}

/* They have all applied the same, so they have the same users and roles: all of them were shown. */
void sim_check_users(struct sim *s)
{
    if (!s->permits)
        return;
    for (unsigned i = 0; i < s->member_count; i++)
        if (!s->members[i].is_out && permits_member(s->permits, i) != permits_count(s->permits))
            history_fail(&s->history, "all is calm, and m%u has not the newest users and roles",
                         i + 1);
    permits_check(s->permits, &s->history);
    hand_on_problem(s);
}
