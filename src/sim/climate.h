/*
 * climate: what kind of world a seed makes.
 *
 * How many members there are, which clients live there and how hasty they are, how fast machines
 * are, what goes wrong and how often, and with which flags members are started: all within what an
 * operator may choose. Each world has a random subset of the faults (swarm testing): one that has
 * all of them never gets far enough to meet what only some of them find.
 *
 * Some flags are of the whole run; those that a member must be able to bear another value of after
 * a restart are drawn anew at every start.
 */
#pragma once

#include "base/arena.h"
#include "base/rng.h"

enum {
    CLIMATE_FLAGS_MAX = 48,
    CLIMATE_MEMBERS_MAX = 7,
    CLIMATE_HOSTS_MAX = 10, /* of members, and of those that may become one */
    CLIMATE_STEWARDS_MAX = 3,
};

/* What may go wrong, as bits of a mask: 1 << FAULT_CRASH. */
enum sim_fault {
    FAULT_CRASH,     /* a member's process dies and is started again */
    FAULT_POWER,     /* when it does, the machine does, too: what is not synced is lost or torn */
    FAULT_CUT,       /* partitions of any shape */
    FAULT_ONE_WAY,   /* the same in one direction */
    FAULT_CLOG,      /* a path holds everything back for a while */
    FAULT_LOSS,      /* up to 30 % */
    FAULT_LATENCY,   /* slow paths, with a long tail */
    FAULT_BANDWIDTH, /* narrow ones */
    FAULT_RESET,     /* of connections */
    FAULT_HALF_OPEN, /* ends that nobody hears of */
    FAULT_REPEAT,    /* of messages to raft */
    FAULT_PAUSE,     /* of a whole member, its clock included or not */
    FAULT_DRIFT,     /* of clocks */
    FAULT_JUMP,      /* of wall clocks */
    FAULT_FILES,     /* few file descriptors, and clients who take them */
    /* of the disks (sickness.h): */
    FAULT_SLOW_DISK,
    FAULT_HANG, /* a disk does nothing for a while, or never again */
    FAULT_EIO,  /* a call of it fails */
    FAULT_FLIP, /* a bit of it is another */
    FAULT_WIPE, /* a member comes back with an empty one */
    FAULT_FULL, /* there is no space left on it */
    /* and no fault at all, but as much trouble: */
    FAULT_MEMBERS, /* members come and go (steward.h) */
    FAULT_AUTH,    /* users log in, and what they may do changes (permits.h) */
    FAULT_COLD,    /* members find at times that their page store is not in memory */
    SIM_FAULTS,
};

enum {
    SIM_DISK_FAULTS = 1 << FAULT_SLOW_DISK | 1 << FAULT_HANG | 1 << FAULT_EIO | 1 << FAULT_FLIP |
                      1 << FAULT_WIPE | 1 << FAULT_FULL
};

const char *sim_fault_name(enum sim_fault fault); /* "one-way" */
/* SIM_FAULTS if there is none of that name. */
enum sim_fault sim_fault_named(const char *name);

struct climate {
    unsigned members; /* that found the cluster */
    unsigned hosts;   /* and those that may join it later: at least as many */
    uint32_t faults;

    /* the clients */
    unsigned writers, herders, groups, readers, lessees, pollers, keepers, watchers;
    unsigned operators;
    unsigned stewards;     /* where members come and go: so many ask for that at once */
    unsigned pause_ms_max; /* between two calls: hasty, or so that leases have time to expire */
    bool has_herd;         /* of keys: many are written and deleted at once */
    bool late_renewals;    /* keepers renew when a lease ends, and a moment later */
    unsigned admin_pause_ms_max;
    uint64_t token_ttl_s;

    /* the members' machines */
    uint64_t look_ns;     /* how long a look at its clock takes, and so a turn */
    uint64_t sync_ms_max; /* of a write to disk; 0: as fast as usual */
    uint64_t segment_bytes;
    int64_t range_tombstone_keys_min; /* a few keys are many in this world */
    unsigned settle_steps;
    unsigned compact_steps;        /* of a compaction in a turn; 0: as many as usual */
    unsigned line_delay_turns_max; /* between the sockets' side and the rest */

    /* the flags that stay */
    uint64_t heartbeat_ms, election_ms, quota_bytes, notify_ms;
    bool pre_vote, checks_corruption;
    bool lax_changes;      /* of members, whoever is connected: in a storm most are refused else */
    uint64_t retention_ms; /* of history that is compacted by itself; 0: it is not */

    bool short_logs;         /* members that were away need a snapshot of another */
    uint64_t sending_log_ms; /* for which a log is kept when one was sent */

    unsigned install_turns; /* an image of its own state is installed once in so many; 0: never */
    unsigned crashes;
    bool torn_founding; /* besides, members crash while they are being founded */

    uint64_t
        standstill_ms; /* leaders stand still for several times this; 0: for no longer than others
                        */
    uint64_t wire_ns_max;    /* what a piece takes in good weather, at most */
    uint64_t weather_ms_max; /* between two changes of it */
    const char *data_dir;    /* of all members, each with its number behind it; NULL: "/data" */
};

/* `members`: 0: as the seed has it. */
void climate_draw(struct climate *c, struct rng *rng, unsigned members);

/* By itself, and with a chance of its own, so that the stories without it stay what they were. */
void climate_draw_installs(struct climate *c, struct rng *rng);

/* The same, for clusters: do they cut their logs? */
void climate_draw_logs(struct climate *c, struct rng *rng);

/* The same. Half of all worlds have sick disks, each with some of the faults. */
void climate_draw_disks(struct climate *c, struct rng *rng);

/* The same. */
void climate_draw_operators(struct climate *c, struct rng *rng);

/* The same. In a third of all worlds members come and go; or in this one, if they must. What loses
 * a disk for good is left out there: who is a minority changes all the time. */
void climate_draw_members(struct climate *c, struct rng *rng, bool must);

/*
 * The same: how many operators change members where they come and go; 0: as the seed has it. In
 * half of the worlds with several of them their changes meet in the log, and what else is in it
 * waits there: disks are slow, keepers renew leases that are about to end or have just ended, and
 * little else goes wrong.
 */
void climate_draw_stewards(struct climate *c, struct rng *rng, unsigned stewards);

/* The same. In a third of the worlds whose members stay there are users and roles; or in this one,
 * if there must be. */
void climate_draw_auth(struct climate *c, struct rng *rng, bool must);

/*
 * The same. In half of the worlds of several members that stay, and are paused, leaders stand still
 * for so long that another is elected and leads for a while; and there are keepers whose leases
 * outlast that. Little else goes wrong there: hardly any keeper would ever be at a leader, and each
 * election gives all leases their whole time again. What lasts long is measured by an election
 * timeout, or by what it takes to notice that a lease is over, where that is more.
 */
void climate_draw_standstills(struct climate *c, struct rng *rng);

/* The same for what the machines are like beyond that. */
void climate_draw_compactions(struct climate *c, struct rng *rng);

/* The same: is history compacted by itself? Not where the witness could be away for as long: where
 * ends are not heard of, or it has to log in. */
void climate_draw_retention(struct climate *c, struct rng *rng);

/* Stores are not in memory at times. After all has been drawn. */
void climate_chill(struct climate *c);

/* The same: do members compare what they hold, in each of the three ways? */
void climate_draw_checks(struct climate *c, struct rng *rng);

static inline bool climate_has(const struct climate *c, enum sim_fault fault)
{
    return (c->faults & (1u << fault)) != 0;
}

/* The flags of one start of a member, in the arena. Returns how many. `joins`: the members of the
 * cluster that it is to join, as --initial-cluster has them; NULL: it is a founder. */
size_t climate_flags(const struct climate *c, unsigned member, const char *joins, struct rng *rng,
                     struct arena *arena, const char *out[static CLIMATE_FLAGS_MAX]);
