/*
 * sim_int: a world, for the files that make it go round.
 *
 *     sim.c       opening, closing, a run from one to the other
 *     phases.c    storm, calm, the end
 *     steps.c     one step of it all, and what is looked at after each
 *     fate.c      who crashes when, and how members start
 *     hands.c     what weather and sickness do to members
 *     changes.c   members that come and go
 *     users.c     users and roles
 *     telling.c   hash, story and trace
 */
#pragma once

#include "sim/actor.h"
#include "sim/cluster_check.h"
#include "sim/host.h"
#include "sim/idle.h"
#include "sim/retention.h"
#include "sim/sickness.h"
#include "sim/sim.h"
#include "sim/story.h"
#include "sim/weather.h"

enum {
    ACTORS_MAX = 21,
    CLIENTS_MAX = ACTORS_MAX + 1 + CLIMATE_STEWARDS_MAX, /* with the idle ones */
    MEMBERS_MAX = CLIMATE_HOSTS_MAX,
};

struct sim;

/* A machine of the clients. */
struct sim_client {
    struct inbox inbox;
    struct fake_clock clock;
    struct io io;
    struct actor *actor; /* NULL: the idle ones, or a steward */
    struct steward *steward;
};

struct sim_member {
    struct sim *sim;
    unsigned number;
    struct sim_host *host;
    struct fake_task restart;
    struct logger logger;
    unsigned starts;
    uint64_t turns;
    uint64_t term, leader; /* as it last was */
    bool leads, stays_down;
    bool is_out;           /* what its disk has is lost: it is never started again */
    uint64_t applied;      /* as it last was */
    uint64_t installs;     /* in this life */
    uint64_t published_at; /* it had told the others where clients find it; 0: not yet */
    uint64_t digested;     /* the applied index of the last digest in this life */
    uint64_t torn_call;    /* of its disks: it crashes there while it is founded; or UINT64_MAX */

    /* where members come and go */
    struct buf joins; /* a member that is no founder: what it was told of the others */
    bool has_run;     /* it had a log */
    bool awaits_list; /* it was not let in with what it had been told */
};

struct sim {
    struct sim_options o;
    struct story told, *story; /* NULL: nobody wants to see it */
    struct fake_time time;
    struct fake_wire *wire;
    struct weather *weather;
    struct sickness *sickness;
    struct sim_member members[MEMBERS_MAX];
    unsigned member_count;
    struct net *hosts[MEMBERS_MAX + CLIENTS_MAX];
    unsigned host_count;

    struct sim_client clients[CLIENTS_MAX];
    unsigned client_count, steward_count; /* no steward: members stay */
    struct idle *idle;                    /* or NULL */
    struct history history;
    struct cluster_check *cluster;
    struct permits *permits; /* NULL: there are no users and roles */
    struct steward *stewards[CLIMATE_STEWARDS_MAX];
    struct steward_fleet fleet;
    struct steward_endpoints endpoints;
    struct roster roster;

    struct rng fate, order, installs; /* the last for when images are installed */
    struct rng disks;                 /* for what comes of those that are sick */
    struct rng digests;               /* for when they are taken */
    uint64_t digests_taken, digests_compared;
    uint64_t digest_due; /* by the first member that has applied so much */
    struct climate climate;
    unsigned crashes_left, crashes;
    unsigned crash_member; /* the next to crash, */
    uint64_t crash_call;   /* at this call of its disks, */
    uint64_t crash_turn;   /* or at this turn, */
    uint64_t crash_step;   /* or at this step of the world */
    bool crash_takes_all;  /* and the others with it */
    uint64_t hash, steps, turns_at_once, last_ns;
    uint64_t installed;     /* in lives that are over */
    struct rng compactions; /* for how long they take, and who crashes in their midst */
    int64_t compacted;      /* the newest that somebody has asked for */
    struct rng retentions;  /* for whether some are made by themselves */
    struct rng checks;      /* for whether members compare what they hold */
    struct retention retention;
    uint64_t own_compactions;
    struct rng operators;   /* for whether there are any, and what they do */
    struct rng crowds;      /* for how many operators change members, and what they do */
    struct rng changes;     /* for whether members come and go, and what becomes of that */
    struct rng users;       /* for whether there are some, and who is who */
    struct rng standstills; /* for whether leaders stand still for long */
    bool is_stopping;

    size_t ops_counted; /* of the history's first, all of them done */
    uint64_t acknowledged;
};

/* telling.c */

void sim_note(struct sim *s, uint64_t what);
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_tell(struct sim *s, enum story_kind kind, unsigned from, unsigned to, uint64_t number);
void sim_tell_text(struct sim *s, enum story_kind kind, const char *text);
void sim_tell_line(void *context, struct bytes line);
void sim_on_wire_event(void *context, enum fake_wire_event what, unsigned from, unsigned to,
                       uint64_t sent_ns, size_t bytes);

/* fate.c */

/* When nothing is planned, no member crashes by itself. */
void sim_plan_no_crash(struct sim *s);
void sim_plan_crash(struct sim *s);
/* In its first boot. */
void sim_plan_torn_founding(struct sim *s, struct sim_member *m);
/* Crashes it now; the rng says how, and when it is started again. */
void sim_crash_member(struct sim *s, struct sim_member *m, struct rng *rng);
/* Its machine is not needed any more. */
void sim_retire(struct sim *s, struct sim_member *m);
/* It ended by itself, or did not start, which is right if its disk is sick or it was removed. */
void sim_gave_up(struct sim *s, struct sim_member *m, bool while_starting);
void sim_start_member(struct fake_task *t);
void sim_look_for_crash(struct sim *s);

/* hands.c */

extern const struct weather_handlers sim_weather_handlers;
extern const struct sickness_handlers sim_sickness_handlers;
/* 0 if nobody leads. */
unsigned sim_some_leader(void *context);

/* changes.c */

/* Do they, in this world? */
bool sim_members_change(const struct sim *s);
void sim_plan_torn_joining(struct sim *s, struct sim_member *m);
/* A reason of theirs. False: it was none. */
bool sim_gave_up_rightly(struct sim *s, struct sim_member *m, const char *why);
void sim_add_stewards(struct sim *s);
/* Of all of them. */
struct steward_counts sim_steward_counts(const struct sim *s);
void sim_steward_turned(struct sim *s, struct steward *steward);
/* Whoever has stopped by himself. */
void sim_look_for_stopped(struct sim *s);
void sim_settle(struct sim *s);
/* By the newest configuration. */
bool sim_is_voter(const struct sim *s, unsigned member);
unsigned sim_minority_count(const struct sim *s);

/* users.c: nothing happens where there are none. */

unsigned sim_some_user(struct sim *s, enum actor_kind kind, unsigned nth);
void sim_look_at_users(struct sim *s, const struct sim_member *m, const struct server_status *now);
/* By a member whose life, or state, has come to its end. */
void sim_tokens_are_lost(struct sim *s, const struct sim_member *m);
/* At the end, when all have the same state. */
void sim_check_users(struct sim *s);

/* steps.c */

/* False: there is none now. */
bool sim_take_digest(struct sim *s, struct sim_member *m);
void sim_step(struct sim *s);
uint64_t sim_calls_made(const struct sim *s);
/* That were acknowledged. */
uint64_t sim_operations(struct sim *s);

/* phases.c */

void sim_storm(struct sim *s);
/* So long a calm may take. */
uint64_t sim_calm_bound_ns(const struct sim *s);
/* Nothing happens to anybody any more. */
void sim_heal(struct sim *s);
void sim_calm(struct sim *s);
void sim_the_end(struct sim *s);
void sim_stop(struct sim *s);

/* sim.c */

/* A machine for a client. */
struct sim_client *sim_add_client(struct sim *s);
