/*
 * story: what happened in a simulated world, in order, so that it can be drawn.
 *
 * The simulator notes here what its fate and its wire do, if somebody wants to see it (a story
 * costs memory, so most runs have none), and the picture is drawn from it when the run is over.
 * Members are places 0, 1, 2, ... in the order of their addresses, 10.0.0.1 first; the hosts of the
 * clients come behind them.
 *
 *     place 0   ----S-------L============X.........S-----   started, leads, crashed, started again
 *     place 1   ----S-----------------------L===========
 *                      \--> sent ... arrived
 *
 * What is told the same way for every run: an interval (a pause, a cut, a clog) is two events, its
 * begin and its end; a crash ends whatever its member was doing. Times are of the world, not of
 * any member's clock.
 *
 * Memory     STORY_EVENTS_MAX events. When that is not enough, the older half of the messages goes,
 *            never anything else, and `forgotten` counts them: the end of a run is what one needs
 *            to see.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { STORY_EVENTS_MAX = 400000, STORY_TEXT_MAX = 96, STORY_PLACES_MAX = 32 };

enum story_kind {
    /* of the member `from` */
    STORY_STARTED, /* its process; number: for the how manieth time, from 1 */
    STORY_CRASHED, /* number: enum fake_crash */
    STORY_STOPPED, /* as an operator stops it */
    STORY_PAUSED,  /* its process does not run; number: 1 if its clock stands still, too */
    STORY_RESUMED,
    STORY_LEADS,        /* number: the term */
    STORY_FOLLOWS,      /* it no longer leads, or has another leader: `to`; number: the term */
    STORY_CAMPAIGNS,    /* no leader is known to it; number: the term */
    STORY_CLOCK_JUMPED, /* its wall clock; number: by how many ms, as int64_t */
    STORY_CLOCK_DRIFTS, /* number: its rate in millionths of the world's */
    STORY_DISK_SICK,    /* until it is well, or a crash; number: enum sim_fault */
    STORY_DISK_WELL,    /* number: the same */
    STORY_DISK_SPOILED, /* at one moment: a call fails, a bit is flipped; number: the same */

    /* of the path from `from` to `to`, one way */
    STORY_CUT, /* nothing arrives any more */
    STORY_MENDED,
    STORY_CLOGGED, /* what is sent waits, and arrives all at once */
    STORY_UNCLOGGED,
    STORY_SLOWED, /* number: bytes per second; 0: as fast as ever */
    STORY_SENT,   /* number: bytes; they arrived at until_ns, all being well */
    STORY_LOST,   /* number: bytes, which are sent again after a while */
    STORY_CONNECTED,
    STORY_REFUSED,  /* nobody listens there */
    STORY_RESET,    /* `from` is told that its connection to `to` is no more */
    STORY_REPEATED, /* a request that `to` has, or will have, twice; number: bytes */

    /* of the whole world; text says what */
    STORY_PHASE,  /* "storm", "calm", "the end" */
    STORY_BROKEN, /* the promise that was broken: the last event there is */
};

struct story_event {
    uint64_t at_ns;
    uint64_t until_ns; /* STORY_SENT, STORY_LOST: when it arrived, or should have; else at_ns */
    uint64_t number;
    uint8_t kind; /* enum story_kind */
    uint8_t from, to;
    uint32_t text; /* where in texts; 0: none */
};

struct story {
    unsigned places, members;   /* those above `members` are clients */
    struct story_event *events; /* by until_ns */
    size_t count, cap;
    uint64_t forgotten;            /* messages */
    char (*texts)[STORY_TEXT_MAX]; /* the first of them is empty */
    uint32_t text_count;
};

/* All zeroes, with places and members filled in, is an empty story. */
void story_free(struct story *s);

/* NULL for the story is fine: nobody wants to know. until_ns never decreases. */
void story_note(struct story *s, const struct story_event *e);
void story_note_text(struct story *s, uint64_t at_ns, enum story_kind kind, const char *text);

const char *story_text(const struct story *s, const struct story_event *e);
const char *story_kind_name(enum story_kind kind); /* "crashed" */
