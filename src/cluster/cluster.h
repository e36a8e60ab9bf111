/*
 * cluster: who the members are, and what version they agree on.
 *
 * Every member keeps the same table of members, changed only by entries of the log, so all of them
 * come to the same answer about each change: accepted, or refused and why. The table is in the
 * backend under etcd's names and in memory for everybody who asks.
 *
 *     members          <id in hex>      the member as JSON
 *     members_removed  <id in hex>      "removed": this id never comes back
 *     cluster          clusterVersion   "3.7.0"
 *                      downgrade        {"target-version":"","enabled":false}
 *
 *     --initial-cluster --> cluster_initial --> the first entries of a new cluster's log
 *                                           --> one of the members of a cluster that exists
 *     member_json_write --> a proposal's context --> the log
 *     a committed conf change --> cluster_apply_conf_change --> what raft is told, or why not
 *
 * Life       cluster_open loads what the backend holds; then changes, in the order of the log;
 *            cluster_close. A backend that comes with a snapshot has a cluster of its own.
 * Promises   1. Equal entries lead to equal tables and equal bytes in the backend, on every member,
 *               those that run etcd included.
 *            2. A refused change has changed nothing.
 *            3. A removed id is never a member again.
 *            4. cluster_members is in order of id, without repeats: CLUSTER_MEMBERS_MAX at most.
 * Not here   Which members can be reached, and with it half of the strict reconfiguration check
 *            (server). What raft counts as voters (raft). Commits of the backend (server).
 * Leans on   backend for its tables, entry for conf changes and states, io/hash.h for ids.
 */
#pragma once

#include "cluster/member_json.h"
#include "cluster/urls.h"
#include "cluster/version.h"

#define CLUSTER_TOKEN_DEFAULT "etcd-cluster"

struct backend;
struct cluster; /* opaque */

/* --- ids ---------------------------------------------------------------------------------- */

/* Of a member of a new cluster: the same on every member that computes it, whatever the order. */
uint64_t cluster_member_id(struct url_list peer_urls, struct bytes token);

/* Of a member that is added later. */
uint64_t cluster_new_member_id(struct url_list peer_urls, int64_t unix_seconds);

/* Of a new cluster, from the ids of its first members in any order. */
uint64_t cluster_id_of(const uint64_t *member_ids, size_t count);

/* --- a new cluster ------------------------------------------------------------------------ */

/* What --initial-cluster says. Members have id, name and peer URLs, and are in order of id. */
struct cluster_initial {
    struct arena arena;
    struct pb_member *members;
    size_t count;
    uint64_t cluster_id;
};

/*
 * From "m1=http://10.0.0.1:2380,m2=http://10.0.0.2:2380,m2=http://10.1.0.2:2380". False: *why has
 * etcd's text. The caller ends *out with cluster_initial_free in either case.
 */
bool cluster_initial_parse(struct bytes text, struct bytes token, struct buf *why,
                           struct cluster_initial *out);
void cluster_initial_free(struct cluster_initial *initial);

/* What a member advertises and what the initial cluster says of it, with numbers in place of the
 * hosts' names, each sorted; or in etcd's words why they could not be had. */
struct cluster_resolved {
    struct url_list advertised, configured;
    struct bytes failure; /* empty: none */
};

/*
 * May a member of this name start from it? Its name must be there and no URL twice; in a new
 * cluster its URLs must be those it advertises. Names of hosts are not resolved here: where only
 * that can tell whether the two are the same, needs_names says so, and whoever has resolved them
 * hands them in. Without (NULL), texts are compared.
 */
bool cluster_initial_needs_names(const struct cluster_initial *initial, struct bytes name,
                                 struct url_list advertised);
bool cluster_initial_verify(const struct cluster_initial *initial, struct bytes name,
                            struct url_list advertised, const struct cluster_resolved *resolved,
                            bool joins_existing, struct buf *why);

/* A cluster that exists, as one of its members tells of it; lent. */
struct cluster_existing {
    const struct pb_member *members;
    size_t count;
    uint64_t cluster_id;
};

/* Where its members live and where --initial-cluster says so, with numbers in place of the hosts'
 * names: lists in the order of the members, each sorted. */
struct cluster_places {
    const struct url_list *existing, *configured;
    struct bytes failure; /* why some could not be had, in etcd's words; empty: all were */
};

/*
 * Is this the cluster that --initial-cluster speaks of? There must be as many members, and each
 * that exists must be at the URLs of one that is configured. Then those have the ids of the members
 * that exist, and the cluster has its id: a member that joins does not make them up. Without
 * resolved names (NULL) texts are compared, and *why may be NULL: only names can tell, perhaps.
 */
bool cluster_initial_join(struct cluster_initial *initial, const struct cluster_existing *existing,
                          const struct cluster_places *resolved, struct buf *why);

/* By its name; NULL if there is none. */
const struct pb_member *cluster_initial_find(const struct cluster_initial *initial,
                                             struct bytes name);

/* Appends the data of the log's entry nth + 1 (type RAFT_ENTRY_CONF_CHANGE, term 1), nth < count.
 */
void cluster_initial_entry(const struct cluster_initial *initial, size_t nth, struct buf *out);

/* --- opening ------------------------------------------------------------------------------ */

struct cluster_options {
    struct backend *backend; /* outlives the cluster */
    uint64_t cluster_id, own_id;
    unsigned max_learners; /* CLUSTER_LEARNERS_DEFAULT, unless the operator says otherwise */
};

/* ERR_CORRUPT when a table cannot be understood, ERR_UNSUPPORTED when the cluster's version is
 * above SERVER_VERSION; *why then has the reason. The caller ends *out with cluster_close. */
MUST_CHECK enum err cluster_open(const struct cluster_options *options, struct buf *why,
                                 struct cluster **out);
void cluster_close(struct cluster *c); /* NULL is fine */

/* Everything again from the backend. On error c is as it was. */
MUST_CHECK enum err cluster_reload(struct cluster *c, struct buf *why);

/* --- changes, in the order of the log ----------------------------------------------------- */

#define CLUSTER_RESULT_LIST(X)                                                                     \
    X(CLUSTER_OK, "ok")                                                                            \
    X(CLUSTER_ID_REMOVED, "membership: ID removed")                                                \
    X(CLUSTER_ID_EXISTS, "membership: ID exists")                                                  \
    X(CLUSTER_ID_NOT_FOUND, "membership: ID not found")                                            \
    X(CLUSTER_PEER_URL_EXISTS, "membership: peerURL exists")                                       \
    X(CLUSTER_NOT_LEARNER, "membership: can only promote a learner member")                        \
    X(CLUSTER_TOO_MANY_LEARNERS, "membership: too many learner members in cluster")                \
    X(CLUSTER_BAD_CONTEXT, "the conf change cannot be understood")                                 \
    X(CLUSTER_TOO_MANY_MEMBERS, "the cluster has more members than this server can hold")

#define CLUSTER_RESULT_ENUM(name, text) name,
enum cluster_result { CLUSTER_RESULT_LIST(CLUSTER_RESULT_ENUM) };
#undef CLUSTER_RESULT_ENUM

/* etcd's text where it has one. */
const char *cluster_result_text(enum cluster_result result);

/* The last two are no answers: etcd panics at the one and has no such bound as the other. The
 * others would go on where we cannot, so the member must stop. */
static inline bool cluster_result_is_fatal(enum cluster_result result)
{
    return result == CLUSTER_BAD_CONTEXT || result == CLUSTER_TOO_MANY_MEMBERS;
}

/*
 * One committed conf change. Unless the outcome is CLUSTER_OK nothing has changed, and raft is told
 * of a change with node_id 0. *removed_self (may be NULL): it has removed this very member.
 */
enum cluster_result cluster_apply_conf_change(struct cluster *c, const struct raft_conf_change *cc,
                                              bool *removed_self);

/* What cluster_apply_conf_change would say now. */
enum cluster_result cluster_check_conf_change(const struct cluster *c,
                                              const struct raft_conf_change *cc);

/* A member tells its name and where clients reach it. CLUSTER_ID_REMOVED: nothing to be done, as in
 * etcd. CLUSTER_ID_NOT_FOUND: an id that never was a member; etcd panics. */
enum cluster_result cluster_set_attributes(struct cluster *c, uint64_t id, struct bytes name,
                                           struct url_list client_urls);

/* False, and *why says so: not a version, or one above SERVER_VERSION's minor. Either ends etcd. */
bool cluster_set_version(struct cluster *c, struct bytes text, struct buf *why);

/* The target counts only while enabled. False: it is not a version. */
bool cluster_set_downgrade(struct cluster *c, bool enabled, struct bytes target_version,
                           struct buf *why);

/* --- questions ---------------------------------------------------------------------------- */

uint64_t cluster_id(const struct cluster *c);
uint64_t cluster_own_id(const struct cluster *c);

/* In order of id, good until the next change. The server passes them on to snapshots as they are.
 */
const struct pb_member *cluster_members(const struct cluster *c, size_t *count);

/* In order, good until the next change. */
const uint64_t *cluster_removed(const struct cluster *c, size_t *count);

/* NULL if there is none. */
const struct pb_member *cluster_find(const struct cluster *c, uint64_t id);
const struct pb_member *cluster_own(const struct cluster *c);
bool cluster_is_removed(const struct cluster *c, uint64_t id);
bool cluster_is_own_learner(const struct cluster *c);

/* "3.7.0", or empty while it is not decided. */
struct bytes cluster_version(const struct cluster *c);

struct cluster_downgrade {
    bool is_known; /* somebody has asked for one, ever */
    bool enabled;
    struct bytes target_version; /* empty unless enabled */
};
struct cluster_downgrade cluster_downgrade(const struct cluster *c);

/* Is this the one version that the cluster can be downgraded to? While its own is not decided there
 * is none. */
bool cluster_may_downgrade_to(const struct cluster *c, struct version target);

/*
 * What a leader should propose as the cluster's version, from the lowest version among all servers
 * (NULL: somebody did not answer). False: leave it as it is.
 */
bool cluster_next_version(const struct cluster *c, const struct version *lowest,
                          char out[static VERSION_TEXT_MAX]);

/* Is a downgrade enabled whose target all servers run? Then it is over. */
bool cluster_is_downgraded(const struct cluster *c, const struct version_range *servers);

/* Strict reconfiguration: would a majority of the voters have started afterwards? A member has once
 * it has told its name. */
bool cluster_may_add_voter(const struct cluster *c);
bool cluster_may_remove_voter(const struct cluster *c, uint64_t id);
bool cluster_may_promote(const struct cluster *c);

/* The raft configuration that these members make up: for a boot from the backend. */
void cluster_conf_state(const struct cluster *c, struct raft_conf_state *out);

/* All invariants, asserted. */
void cluster_check(const struct cluster *c);
