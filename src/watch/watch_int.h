/*
 * watch_int: what the files behind watch.h share.
 *
 *     watch.c      the hub: told of changes, compactions, a new store; asked how things stand
 *     stream.c     streams: their credit, their queue, taking from it, their end
 *     watcher.c    one watcher: created, canceled, and the four places where it can be
 *     watcher_group.c      watchers that stand at one revision, found by key and by range
 *     chunk.c       some changes in a row, turned into batches for whoever they concern
 *     event.c      one change as it is encoded
 *     long.c       the events of a revision that is too large to be held
 *     walk.c       catching up
 *     floor.c      who may read below the compact revision
 *     progress.c   saying how far a watcher has come although nothing has happened
 *     check.c      the invariants
 *
 * Everybody who stands at the same revision is in one group. One of them is the live group, which
 * stands behind the newest revision; the others lag, and are led through history one chunk at a
 * time. Whoever a chunk does not concern moves on with his group without being touched, which is
 * what makes a hundred thousand watchers cheap: a revision is a step of the group, not of each.
 *
 *     start at 0      --> live group
 *     in the past     --> parked on its stream --credit--> group at its next revision
 *     ahead           --> on a heap, until it is published --> prompt group at its next revision
 *
 *     live group      --a huge revision: all of it, in one step--> group at that revision
 *     any group       --a chunk of history--> the same group, at a later revision
 *                     --behind the newest: members, one by one--> live group
 *                     --no credit for its events: one member--> parked, and so on
 *
 * Two groups that meet at a revision become one, if they have the same grace: whether, and for how
 * long, its members may read below the compact revision. A group with a walk under way is met by
 * nobody.
 */
#pragma once

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/treap.h"
#include "watch/watch.h"

enum {
    RESPONSE_BYTES_MAX = 64, /* of a WatchResponse without events and without a reason */
};

struct watcher_group;
struct watcher;

/* --- the history floor: see floor.c --- */

enum {
    GRACE_NONE,   /* it lags */
    GRACE_PROMPT, /* of groups that wait for us alone: it never ends. Others are numbered from here
                   */
};

/* Those who lost their place at about the same time although they were up to date. */
struct grace {
    struct list link; /* the hub's graces, oldest first */
    uint32_t serial;
    uint64_t opened_ms, last_ms; /* when the first came, and the last */
    bool joined;                 /* somebody did, and no time was told since */
    size_t holders;              /* watchers that are parked, and groups */
    int64_t lowest;              /* where one of the holders stood; INT64_MAX: there are none */
    bool is_cut;                 /* they may read below the compact revision */
    bool lags;    /* or they were not cut in time: it is there for long messages only */
    size_t longs; /* messages */
    int64_t lowest_long;
};

void floor_init(struct watch *hub);

/* One more or one fewer who has it. Returns what he has: GRACE_NONE if it has ended. */
uint32_t grace_hold(struct watch *hub, uint32_t serial);
void grace_drop(struct watch *hub, uint32_t serial);

/* That of a watcher who loses his place at `next` only now; and that of a long message, of a
 * revision that is not compacted or that the floor keeps. Both are held. */
uint32_t grace_of_fallen(struct watch *hub, int64_t next);
uint32_t grace_of_long(struct watch *hub, int64_t revision);
void grace_drop_long(struct watch *hub, uint32_t serial);

/* Has it not ended? Then a long message that has it can be read. */
bool grace_is_there(const struct watch *hub, uint32_t serial);

/* The same, or GRACE_NONE once its watchers lag. */
uint32_t grace_now(const struct watch *hub, uint32_t serial);
void watcher_group_set_grace(struct watcher_group *c, uint32_t serial);

/* May those who have it read from `next` on although that is compacted? */
bool floor_allows(const struct watch *hub, uint32_t serial, int64_t next);

/* History is cut now: whoever counts as live may read on below it. */
void floor_cut(struct watch *hub);

/* Tells mvcc where the floor is needed, where that has changed. */
void floor_put(struct watch *hub);
int64_t floor_needed(const struct watch *hub);

void floor_clock(struct watch *hub, uint64_t now_ms);
uint64_t floor_next_ms(const struct watch *hub);

/* Another store is about to come: everybody lags. */
void floor_forget(struct watch *hub);

/* --- interests and groups --- */

enum interest_kind { INTEREST_KEY, INTEREST_RANGE, INTEREST_FROM /* no end */ };

enum { WANTS_PUT = 1, WANTS_DELETE = 2, WANTS_PREV = 4 };

/*
 * What some members of a group watch, in the same way: they see the same events, in the same bytes.
 * Its keys stand behind it. One that is in no group belongs to a single watcher.
 */
struct interest {
    struct list watchers;
    struct watcher_group *group;
    union {
        struct interest *next;    /* INTEREST_KEY: in the bucket */
        struct range_node *range; /* the others: in the tree */
    };
    uint32_t from_len, to_len;
    uint32_t gather; /* 1 + its place among the gathers of the chunk under way; 0: none */
    uint8_t wants;
    uint8_t kind;
    uint8_t at[]; /* from, to */
};

struct range_node {
    struct treap_node link;
    struct interest *interest;
    struct interest *widest; /* of the subtree, the one that ends last */
    uint64_t weight;
};

static inline struct bytes interest_from(const struct interest *i)
{
    return bytes_of(i->at, i->from_len);
}

static inline struct bytes interest_to(const struct interest *i)
{
    return bytes_of(i->at + i->from_len, i->to_len);
}

/* Detached. */
struct interest *interest_new(struct watch *hub, enum interest_kind kind, uint8_t wants,
                              struct bytes from, struct bytes to);
void interest_free(struct watch *hub, struct interest *i); /* detached; NULL is fine */

/* Is the key in its range? And would it see this change? */
bool interest_covers(const struct interest *i, struct bytes key);
static inline bool wants_change(uint8_t wants, bool tombstone)
{
    return wants & (tombstone ? WANTS_DELETE : WANTS_PUT);
}

struct watcher_group_key {
    int64_t next;    /* the first revision that its members have not been given */
    uint64_t serial; /* of its making */
};

struct watcher_group {
    struct watch *hub;
    struct watcher_group_key key;
    size_t count; /* members */

    /* A table that grows and shrinks by one bucket at a time (linear hashing): no rehash of
     * everything ever falls on one unlucky create. */
    struct interest **buckets;
    size_t bucket_count, bucket_cap, key_count;
    size_t cursor; /* the bucket where watcher_group_any looks first */
    struct treap_node *ranges;

    uint32_t grace;     /* of its members; GRACE_NONE if this is the live one */
    struct list prompt; /* on the hub's prompt_groups, if that is its grace */

    struct list round;         /* on the hub's round or next_round; unless live, held or walking */
    struct treap_node by_next; /* on the hub's lagging, with the same exceptions */
};

struct watcher_group *watcher_group_new(struct watch *hub, int64_t next, uint32_t grace);
void watcher_group_free(struct watcher_group *c); /* nobody is in it (asserted) */

/* The watcher's interest is detached before the first and after the second. */
void watcher_group_join(struct watcher_group *c, struct watcher *w);
void watcher_group_leave(struct watcher_group *c, struct watcher *w);

/* Some member; there is one (asserted). */
struct watcher *watcher_group_any(struct watcher_group *c);

/* Appends to `out`, of struct interest *, those that cover the key. */
void watcher_group_match(const struct watcher_group *c, struct bytes key, struct buf *out);

void watcher_group_check(const struct watcher_group *c);

extern const struct treap_order watcher_group_order;
static inline struct watcher_group *watcher_group_of(struct treap_node *n)
{
    return n ? container_of(n, struct watcher_group, by_next) : NULL;
}

/* --- watchers --- */

enum watcher_place {
    WATCHER_NOWHERE,
    WATCHER_AHEAD,  /* its start is not published yet */
    WATCHER_MEMBER, /* of its interest's group */
    WATCHER_PARKED, /* on its stream */
    WATCHER_ENDED,  /* by compaction, and told so: only the id is left of it */
};

struct watcher {
    union {
        struct list link;       /* MEMBER: its interest's, PARKED: its stream's */
        struct heap_node ahead; /* AHEAD: the hub's */
    };
    struct treap_node by_id; /* its stream's */
    struct watch_stream *stream;
    struct interest *interest; /* NULL once ended */
    int64_t id;
    int64_t next;  /* AHEAD, PARKED: the next revision. MEMBER: none below it is for this watcher */
    uint8_t place; /* enum watcher_place */
    bool fragment, progress;
    bool was_sent;  /* events, since the last round of progress messages */
    uint32_t grace; /* PARKED */
};

extern const struct treap_order watcher_order; /* by id; the key is an int64_t */
static inline struct watcher *watcher_of(struct treap_node *n)
{
    return n ? container_of(n, struct watcher, by_id) : NULL;
}
bool watcher_is_first(const struct heap_node *a, const struct heap_node *b); /* of those ahead */

/* To another place, from wherever it is. */
void watcher_join(struct watcher *w, struct watcher_group *c);
void watcher_park(struct watcher *w, int64_t next);
void watcher_await(struct watcher *w, int64_t next);
void watcher_end(struct watcher *w);
void watcher_free(struct watcher *w);
bool watcher_is_live(const struct watcher *w);

/* --- streams --- */

struct message {
    struct list link;
    struct watch_message m;
    char *reason; /* owned; what m.cancel_reason shows */
};

struct watch_stream {
    struct watch *hub;
    void *context;
    struct list link; /* on the hub's streams, or closed ones */
    bool closed;

    int64_t credit;      /* may fall below 0 by the last message */
    int64_t credit_full; /* with nothing queued or under way */
    uint64_t taken;      /* bytes under way */
    struct list queue;   /* of struct message */
    struct list ready;   /* on the hub's ready while the queue holds something */

    struct treap_node *ids;
    int64_t next_id;
    size_t count;
    size_t ahead_count, ended_count;
    struct list parked;
    struct list
        waking; /* on the hub's waking or admitting while some are parked and there is credit */

    /* Members of the live group; 0 if the hub has a later one than this. So is nobody touched when
     * the group as a whole falls behind. */
    uint64_t live_era;
    size_t live_count;

    /* Live watchers that wait for this revision, the next one as they came: see progress.c. */
    int64_t early_revision;
    size_t early_count;

    uint64_t opened_ms, interval_ms;
    size_t progress_count;
    size_t long_key_bytes; /* of its watchers' long keys */
    struct heap_node due;  /* on the hub's due while progress_count > 0 */
    uint64_t due_ms;
    struct list ticking; /* on the hub's ticking while its progress messages are being made */
    int64_t tick_id;     /* the next to look at */
};

size_t watch_stream_live_count(const struct watch_stream *s);
static inline bool watch_stream_has_credit(const struct watch_stream *s)
{
    return s->credit > 0;
}

/* Takes over m's blob or long, and `reason`, which may be NULL. */
void watch_stream_queue(struct watch_stream *s, const struct watch_message *m, char *reason);

/* To be called when its parked watchers or its credit have changed. */
void watch_stream_settle(struct watch_stream *s);

bool watch_stream_is_first_due(const struct heap_node *a, const struct heap_node *b);

/* Ends some watchers of a closed stream, and it with the last of them. */
void watch_stream_reap(struct watch_stream *s, unsigned *steps);

/* --- events --- */

/* How many bytes of a KeyValue before the change belong to its event. `kept`: by the floor, for
 * whoever this is; otherwise there is none that is compacted. */
size_t watch_event_prev_size(struct mvcc *m, uint8_t wants, const struct mvcc_change *change,
                             bool kept);

/* The whole `events` field, and appending it. */
size_t watch_event_size(const struct mvcc_change *change, size_t prev_size);
void watch_event_append(struct mvcc *m, const struct mvcc_change *change, size_t prev_size,
                        struct buf *out);
/* Appends a part of the event: so many bytes from there on. The KeyValue before is copied as a
 * whole meanwhile. */
void watch_event_append_part(struct mvcc *m, const struct mvcc_change *change, size_t prev_size,
                             size_t from, size_t len, struct buf *out);

/* --- chunks --- */

/* An event as it will be sent, somewhere in the chunk's bytes. */
struct chunk_event {
    size_t at, size;
    int64_t sub;
};

/* A piece of a long message. */
struct stretch {
    int64_t sub; /* of its first event */
    uint64_t bytes;
    uint64_t events;
};

/* What one interest is to get. */
struct gather {
    struct interest *interest; /* NULL: nobody is left */
    struct buf picks;          /* uint32_t: places in the chunk's events. Empty if it is long */
    struct buf stretches;      /* struct stretch, if it is long: one for each fragment */
    bool is_long;
    uint64_t bytes, events;
    unsigned revisions;
    int64_t first, last;
    struct { /* before revision `last` */
        uint64_t bytes, events;
        int64_t last;
    } before;
};

struct chunk {
    struct watch *hub;
    struct watcher_group *group;
    int64_t compacted; /* the compact revision, as it began */
    int64_t first;     /* revision of the first event that is held; 0: none yet */
    bool full;         /* must end with this revision */

    struct buf bytes;  /* of the events */
    struct buf events; /* struct chunk_event */
    size_t flavour_events[2];
    struct blob *whole[2]; /* all of a flavour: without and with the previous KeyValue */

    struct gather *gathers;
    size_t gather_count, gather_cap;
    size_t note_bytes; /* of gathers and picks */
    struct buf matched;
};

void chunk_begin(struct chunk *b, struct watch *hub, struct watcher_group *group);
void chunk_free(struct chunk *b);

/*
 * Takes a change in, and lowers *steps for those who are interested in it; reading it is charged by
 * whoever has read it. False: the chunk has to end before the change's revision, of which chunk_cut
 * then drops what was taken in already.
 */
bool chunk_take(struct chunk *b, const struct mvcc_change *change, unsigned *steps);

/* Can the change be taken in without a wait for the disk? That depends on the value before it, if
 * somebody is to see that (mvcc.h, a cold store). And: this change comes later, so that the value
 * before it will be wanted, too; false: that is enough of them. */
enum mvcc_warmth chunk_warmth(struct chunk *b, const struct mvcc_change *change);
bool chunk_look_ahead(struct chunk *b, const struct mvcc_change *change, struct mvcc_ahead *a);
void chunk_cut(struct chunk *b, int64_t revision);

/* Hands the nth gather to its watchers; how many there were. `revision` is for the header. */
size_t chunk_deliver(struct chunk *b, size_t n, int64_t revision);
void chunk_end(struct chunk *b);

/* The last of an interest's watchers has gone. */
void chunk_forget(struct chunk *b, struct interest *i);

static inline bool chunk_is_under_way(const struct chunk *b)
{
    return b->group != NULL;
}

/* --- long messages --- */

struct watch_long *watch_long_new(const struct chunk *b, const struct gather *g,
                                  const struct stretch *stretch);

/* --- the hub --- */

struct walk {
    struct chunk chunk; /* under way while there is a walk */
    struct revision at;
    int64_t revision;        /* being looked at; 0: none yet */
    unsigned changes;        /* looked at */
    unsigned *steps;         /* of the slice */
    enum mvcc_warmth warmth; /* of the value before the change that the slice looked at last */
    struct mvcc_ahead ahead; /* those that come next */
    int64_t end;             /* the group's next revision, once that is known; 0: not yet */
    size_t delivered;        /* gathers, after that */
};

struct watch {
    struct mvcc *mvcc;
    int64_t revision; /* the newest we were told of */
    size_t fragment_bytes;
    uint64_t interval_ms;
    uint64_t seed;
    struct rng rng;
    size_t bytes;
    size_t long_key_bytes; /* of all streams */
    size_t longs;
    size_t stream_count;                  /* open ones */
    size_t watcher_count, ended_count;    /* closed streams' too, until they are reaped */
    uint64_t events_taken, events_queued; /* queued: and not taken */

    struct watcher_group *live;
    uint64_t era; /* of this live group */
    struct chunk chunk;

    struct watcher_group *held;    /* until the settling of their next revision is over; or NULL */
    struct treap_node *lagging;    /* groups, by next */
    struct list round, next_round; /* groups: whose turn comes in this round, and in the next */
    struct list waking, admitting; /* streams, the same */
    struct walk walk;
    struct mvcc_waiter waiter; /* for those held */
    uint64_t watcher_group_serial;
    struct heap ahead; /* watchers */

    struct list prompt_groups;
    struct list graces; /* a few dozen at most: one a second, for a minute */
    uint32_t grace_serial;
    struct grace *gathering; /* the newest, while it takes in; or NULL */
    int64_t floor;           /* as mvcc knows it */
    int64_t intact; /* the compact revision when we got this store: nothing at or below is kept */
    uint64_t now_ms;

    struct list streams, closed;
    struct list ready;
    char *lent_reason;

    struct heap due; /* streams */
    struct list ticking;
};

/* Memory that is counted. */
void *hub_alloc(struct watch *hub, size_t size);
void hub_free(struct watch *hub, void *at, size_t size);

/* The live group falls behind as it stands; from now on there is another, empty one. */
void hub_live_falls_behind(struct watch *hub, uint32_t grace);

static inline void spend(unsigned *steps, size_t cost)
{
    *steps = cost < *steps ? *steps - (unsigned)cost : 0;
}

/* A stream has got its first watcher that wants progress messages, or lost its last one. */
void watch_progress_wanted(struct watch_stream *s, uint64_t now_ms);
void watch_progress_unwanted(struct watch_stream *s);

/* Each does some of its work, while there are steps left. */
void walk_work(struct watch *hub, unsigned *steps);
void watch_progress_work(struct watch *hub, unsigned *steps, uint64_t now_ms);
bool walk_is_idle(const struct watch *hub);

/* The group that stands there with this grace, made if there is none. */
struct watcher_group *walk_group_to_join(struct watch *hub, int64_t next, uint32_t grace);

/* Lets a group lag, or take its next turn. */
void walk_add_group(struct watcher_group *c);

/* Those held back take their turns again. */
void walk_release(struct watch *hub);

/* What was read so far may have changed under it: begin again. */
void walk_restart(struct watch *hub);

/* The same if its group stands below this revision and the floor does not let it read on there. */
void walk_restart_below(struct watch *hub, int64_t revision);
