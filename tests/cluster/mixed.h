/*
 * mixed: one cluster, members of ours and of real etcd, and everything that such a cluster goes
 * through while it becomes one of the other kind, under load.
 *
 *     TOGETHER     each member leads in turn, by etcdctl move-leader; while it does, one after the
 *                  other of the rest is killed and stays away until the log has left it behind, so
 *                  that a snapshot has to bring it back; then the leader is killed. Each of ours
 *                  goes to etcd and back on its directory. In the end each member is removed
 *                  and a new one of its kind added.
 *     MEMBERS      all members are etcd's; one after the other is removed, and a new one of ours
 *                  added in its place; then the same the other way round
 *     DIRECTORIES  the same, but each member stays who it is: it is stopped, and the other program
 *                  started on its directory, by way of cleatutl export when it goes to etcd
 *
 * To an etcd of an earlier version all of ours can go back only after `downgrade enable`, as from a
 * later etcd; and while that goes on nobody joins. So then the way back of MEMBERS, too, is on
 * directories.
 *
 * After every step writes by way of every member must succeed within a bound, all watchers must
 * have seen everything, the stores must have the same hash, with compactions on the way, and
 * everything that anybody was told must be true (record.h). A client may only see errors as a
 * change of leaders gives them (load.h), and in MEMBERS and DIRECTORIES, where nobody is killed,
 * nobody may go without a write for longer than that takes.
 *
 * With users and roles (is_guarded) auth is enabled, everybody is known by his certificate, and in
 * every step users, roles and permissions come and go, at random, and auth is switched off and on,
 * while the step does what it does to members. After it all members must have the same auth
 * revision, users and roles, and each of them must tell each user the same, by either of two
 * passwords, about what he may read and delete.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum mixed_plan { MIXED_TOGETHER, MIXED_MEMBERS, MIXED_DIRECTORIES };

struct mixed_options {
    enum mixed_plan plan;
    const char *cleat; /* cleatutl stands beside it */
    const char *etcd;  /* etcdctl stands beside it */
    const char *dir;   /* of the caller: for data and logs */
    unsigned ours;     /* TOGETHER: members of ours, of three */
    bool is_by_tls;    /* members and clients */
    bool is_guarded;   /* users and roles; then it is by TLS, too */
    uint64_t seed;
    volatile bool *is_unwanted; /* set by somebody: end soon; may be NULL */
};

struct mixed_result {
    unsigned steps, hashes; /* hashes: steps after which all members were found to have the same */
    unsigned snapshots[2][2]; /* brought back a member; [sender is ours][receiver is ours] */
    unsigned operations, failed;
    int64_t revision, compacted;
    uint64_t auth_revision; /* the last that all members had */
    uint64_t gap_ms_max;    /* for so long nobody could write */
    uint64_t settle_ms_max;
    bool is_skipped;    /* there is no etcd: nothing was done */
    char problem[1024]; /* empty: none */
};

/* False, and a problem, if something was not as it should be. A line for each step goes to standard
 * output. */
bool mixed_run(const struct mixed_options *options, struct mixed_result *out);
