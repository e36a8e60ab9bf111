/*
 * cluster_check: what must hold between the members of a cluster, looked at from outside.
 *
 * After every turn of a member the simulator shows what that member's raft says of itself. All that
 * was ever shown is remembered: who led which term, what each log holds and how far it is durable,
 * what was committed and what state it led to. So a lie is found when it is told, not when its
 * consequences reach a client.
 *
 *     index       1   2   3   4   5   6   7
 *     committed   1   1   2   2   .   .   .     terms, for ever
 *     member 0    1   1   2   2   3   3         its log as it is; durable up to ...
 *     member 1    1   1   2   2   3
 *     revision    1   1   2   3                 of the state after it, on whichever member
 *     digest              x   x                 of that state, where somebody has taken it
 *
 * Members may come and go. Each applies that at its own pace, so a quorum is one of the
 * configuration that the member in question was in before its turn, or after it.
 *
 * Checks     1. A term has one leader, for all time, in everybody's eyes, by the votes of a quorum
 *               of voters, and is one of them; and a vote that it needed is not forgotten, nor is
 *               that term.
 *            2. What is committed on one member keeps its term for ever, on all of them.
 *            3. Logs match: an entry of the same index and term has the same one before it. What a
 *               log stands on, be it a snapshot from another member, was committed with that term.
 *            4. What is committed is durable on a quorum of voters; what is applied is so here,
 * too. A leader counts only entries of its own term, and commits older ones with them.
 *            5. A leader has everything that was committed in the terms before its own.
 *            6. After the same entry all have the same state: revisions are equal, and digests
 *               (server/digest.h) where two were taken, on two members or by one in two lives.
 *            7. What was durable is still there after a crash, and nobody is founded anew who had
 *               more than the founding. Within one life, a term, a commit index and an applied
 *               index never decrease.
 *            8. Queues have bounds.
 *            9. After the same entry all have the same voters and learners. Nobody votes for, or
 * begins to follow, whom it knows to be removed; and who is removed stays so.
 *           10. Once healed, the cluster commits something within a bound, and again after that.
 * Not here   What clients were told (history.h, roster.h). Which rooms contradict themselves
 *            (server_check).
 */
#pragma once

#include "entry/entry.h"
#include "server/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLUSTER_CHECK_MEMBERS_MAX = 10 };

struct cluster_bound {
    const char *name;
    uint64_t now, max;
};

/* What a member's raft says of itself. */
struct cluster_view {
    uint64_t id; /* 0: it is being founded, and has no log yet */
    uint64_t term;
    uint64_t lead, vote; /* ids; 0: nobody */
    bool is_leader;
    /* The log begins after base; it is durable, committed, applied up to these. */
    uint64_t base, last, stable, commit, applied;
    int64_t revision; /* when `applied` was */
    /* Voters and learners, when `applied` was, or `base` if a snapshot is just being installed;
     * NULL: all that there are vote, for ever. */
    const struct raft_conf_state *conf;
    const uint64_t *removed; /* ids that never come back */
    size_t removed_count;
    /* The term of an entry from base on, which itself is not there any more, up to last. */
    bool (*term_at)(const void *context, uint64_t index, uint64_t *out);
    const void *context;
    const struct cluster_bound *bounds;
    size_t bound_count;
};

struct cluster_check; /* opaque */

/* `founding`: so many entries are committed from the beginning, without anybody's vote. */
struct cluster_check *cluster_check_new(size_t members, uint64_t founding);
void cluster_check_free(struct cluster_check *c); /* NULL is fine */

/* The nth member has had a turn, the first of its life included. */
void cluster_check_turned(struct cluster_check *c, size_t member, const struct cluster_view *v);
/* And this is its state. */
void cluster_check_digest(struct cluster_check *c, size_t member, const struct digest *d);
/* Has somebody shown the state after this entry? Then another digest of it is worth its time. */
bool cluster_check_has_digest(const struct cluster_check *c, uint64_t applied);
/* Its life has ended; the next turn is one of another. */
void cluster_check_down(struct cluster_check *c, size_t member);

/*
 * From now on a majority is up and connected: something must be committed within so much time, and
 * from then on again and again (a cluster at rest commits nothing: whoever asks for this sees to
 * it that there is something to commit). It ends with the next storm: 0.
 */
void cluster_check_healed(struct cluster_check *c, uint64_t now_ns, uint64_t bound_ns);
void cluster_check_time(struct cluster_check *c, uint64_t now_ns);

/* By the newest configuration that anybody has shown. */
bool cluster_check_is_voter(const struct cluster_check *c, size_t member);
size_t cluster_check_voter_count(const struct cluster_check *c);
size_t cluster_check_size(const struct cluster_check *c); /* with learners */
/* Has somebody applied its removal? */
bool cluster_check_is_removed(const struct cluster_check *c, size_t member);
/* Is it in the newest configuration, and does it know that one? */
bool cluster_check_is_up_to_date(const struct cluster_check *c, size_t member);
/* Does it know any of those that are? If not, nobody can tell it that it was removed. */
bool cluster_check_knows_others(const struct cluster_check *c, size_t member);

/* The member that leads the highest term anybody has led, and that term; SIZE_MAX: there was none
 * yet. */
size_t cluster_check_leader(const struct cluster_check *c, uint64_t *term);

/* The first thing that did not hold, or NULL. */
const char *cluster_check_problem(const struct cluster_check *c);
