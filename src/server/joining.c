#include "server/joining.h"

#include "config/config.h"
#include "io/io.h"
#include "peer/peer.h"

static void end(struct joining *j, enum err e)
{
    j->step = JOINING_OVER;
    j->err = e;
}

static void fail(struct joining *j, const char *text)
{
    buf_append_str(j->o.why, text);
    end(j, ERR_MALFORMED);
}

static const struct pb_member *own_member(const struct joining *j)
{
    return cluster_initial_find(j->o.initial, bytes_of_str(j->o.config->name));
}

/* --- asking one URL after the other --- */

static void ask(struct joining *j, const char *path, uint64_t timeout_ms)
{
    j->is_asking = true;
    peers_ask(j->o.peers,
              &(struct peer_ask){.token = j->asked++,
                                 .member = RAFT_NONE,
                                 .url = arena_copy_str(&j->arena, j->asks.at[j->next++]),
                                 .verb = "GET",
                                 .path = path,
                                 .is_repeatable = true,
                                 .timeout_ms = timeout_ms});
}

static uint64_t request_timeout_ms(const struct joining *j)
{
    return PENDING_LIMIT_MS + 2 * j->o.config->election_ms;
}

/* --- members --- */

static void begin_names(struct joining *j);
static void members_match(struct joining *j);

/* The first whose members are those of the flags decides. etcd takes whoever answers first; but one
 * that has not applied yet that we were added does not know us, and the next one does. */
static void ask_members(struct joining *j)
{
    if (j->next < j->asks.count)
        ask(j, "/members", JOINING_MEMBERS_MS);
    else if (j->existing.count > 0)
        begin_names(j);
    else
        fail(j, "cannot fetch cluster info from peer urls: could not retrieve cluster information "
                "from the given URLs");
}

/* Those of the others, in order. */
static struct url_list remote_urls(struct joining *j)
{
    const struct cluster_initial *initial = j->o.initial;
    const struct pb_member *own = own_member(j);
    size_t count = 0;

    for (size_t i = 0; i < initial->count; i++)
        count += initial->members[i].peer_urls.count;
    struct bytes *urls = arena_new_array(&j->arena, count, struct bytes);
    count = 0;
    for (size_t i = 0; i < initial->count; i++) {
        const struct pb_member *m = &initial->members[i];
        for (size_t u = 0; m != own && u < m->peer_urls.count; u++)
            urls[count++] = m->peer_urls.at[u];
    }
    return url_list_sorted((struct url_list){urls, count}, &j->arena);
}

/* Ids that can be lived with. */
static bool have_ids(const struct cluster_existing *x)
{
    for (size_t i = 0; i < x->count; i++) {
        if (x->members[i].id == RAFT_NONE)
            return false;
        for (size_t k = 0; k < i; k++)
            if (x->members[k].id == x->members[i].id)
                return false;
    }
    return true;
}

static void look_at_members(struct joining *j, const struct peer_event *e)
{
    struct cluster_existing told = {.cluster_id = e->result_cluster_id}, *x = &j->existing;

    if (e->status == 0 ||
        member_json_read_list(e->body, &j->arena, &told.members, &told.count) != ERR_OK ||
        told.cluster_id == 0 || told.count > CLUSTER_MEMBERS_MAX || !have_ids(&told)) {
        log_warn(j->o.logger, "failed to get cluster response",
                 LOG_BYTES("address", j->asks.at[j->next - 1]), LOG_U64("status", e->status));
        ask_members(j);
        return;
    }
    if (x->count == 0 || told.count == j->o.initial->count)
        *x = told;
    if (x->count == 0)
        fail(j, "cannot fetch cluster info from peer urls: failed to get raft cluster member(s) "
                "from the given URLs");
    else if (cluster_initial_join(j->o.initial, x, NULL, NULL))
        members_match(j);
    else
        ask_members(j);
}

/* --- names --- */

static size_t count_urls(const struct pb_member *members, size_t count)
{
    size_t urls = 0;

    for (size_t i = 0; i < count; i++)
        urls += members[i].peer_urls.count;
    return urls;
}

static bool add_names(struct joining *j, const struct pb_member *members, size_t count)
{
    size_t first;

    for (size_t i = 0; i < count; i++) {
        struct url_list urls = {members[i].peer_urls.at, members[i].peer_urls.count};
        if (!names_add(&j->names, urls, j->o.why, &first))
            return false;
    }
    return true;
}

static void begin_names(struct joining *j)
{
    const struct cluster_existing *x = &j->existing;
    const struct cluster_initial *initial = j->o.initial;

    j->step = JOINING_NAMES; /* also where they cannot help: then it is soon over */
    names_init(&j->names, j->o.io, j->o.logger,
               count_urls(x->members, x->count) + count_urls(initial->members, initial->count));
    if (add_names(j, x->members, x->count) && add_names(j, initial->members, initial->count))
        names_start(&j->names);
    else
        end(j, ERR_MALFORMED);
}

static const struct url_list *places(struct joining *j, const struct pb_member *members,
                                     size_t count, size_t *at)
{
    struct url_list *lists = arena_new_array(&j->arena, count, struct url_list);

    for (size_t i = 0; i < count; i++) {
        lists[i] = names_resolved(&j->names, *at, members[i].peer_urls.count);
        *at += members[i].peer_urls.count;
    }
    return lists;
}

/* As far as they could be resolved. */
static void look_at_names(struct joining *j)
{
    const struct cluster_existing *x = &j->existing;
    const struct cluster_initial *initial = j->o.initial;
    struct cluster_places resolved = {.failure = names_failure(&j->names, 0, j->names.count)};
    size_t at = 0;

    resolved.existing = places(j, x->members, x->count, &at);
    resolved.configured = places(j, initial->members, initial->count, &at);
    if (cluster_initial_join(j->o.initial, x, &resolved, j->o.why))
        members_match(j);
    else
        end(j, ERR_MALFORMED);
}

/* --- versions --- */

static bool is_compatible(const struct joining *j, struct version v)
{
    struct version lowest = {.major = 3}, highest = version_of_server();
    char text[VERSION_TEXT_MAX];

    highest.patch = 0;
    if (j->is_downgrading) {
        highest.minor++;
        lowest = highest;
    }
    bool is_low = version_compare(v, lowest) < 0, is_high = version_compare(v, highest) > 0;
    if (is_low || is_high)
        log_warn(j->o.logger,
                 is_low ? "cluster version of remote member is not compatible; too low"
                        : "cluster version of remote member is not compatible; too high",
                 LOG_STR("remote-member-cluster-version", version_text(v, text)));
    return !is_low && !is_high;
}

static size_t count_learners(const struct cluster_existing *x)
{
    size_t count = 0;

    for (size_t i = 0; i < x->count; i++)
        count += x->members[i].is_learner;
    return count;
}

/* What remains to be said when everybody was asked. */
static void decide(struct joining *j)
{
    bool is_good = j->version_count > 0;

    for (size_t i = 0; i < j->version_count; i++)
        is_good = is_good && is_compatible(j, j->versions[i]);
    if (!is_good)
        fail(j, "incompatible with current running cluster");
    else if (count_learners(&j->existing) > j->o.config->max_learners)
        fail(j, cluster_result_text(CLUSTER_TOO_MANY_LEARNERS));
    else
        end(j, ERR_OK);
}

/* The next URL of the member at hand, or of the next one; in the end, of nobody. */
static bool next_url(struct joining *j)
{
    const struct cluster_existing *x = &j->existing;
    uint64_t self = own_member(j)->id;

    while (j->next == j->asks.count) {
        if (++j->member >= x->count)
            return false;
        const struct pb_member *m = &x->members[j->member];
        j->next = 0;
        j->asks = (struct url_list){m->peer_urls.at, m->id == self ? 0 : m->peer_urls.count};
    }
    return true;
}

static void ask_others(struct joining *j)
{
    while (!next_url(j)) {
        if (j->step == JOINING_DOWNGRADE) {
            decide(j);
            return;
        }
        j->step = JOINING_DOWNGRADE;
        j->asks = (struct url_list){0};
        j->next = 0;
        j->member = SIZE_MAX; /* and on to the first */
    }
    ask(j, j->step == JOINING_VERSIONS ? "/version" : "/downgrade/enabled", request_timeout_ms(j));
}

static bool has_run(const struct joining *j)
{
    uint64_t self = own_member(j)->id;

    for (size_t i = 0; i < j->existing.count; i++)
        if (j->existing.members[i].id == self)
            return j->existing.members[i].client_urls.count > 0;
    return false;
}

static void members_match(struct joining *j)
{
    if (has_run(j)) {
        buf_printf(j->o.why, "member %llx has already been bootstrapped",
                   (unsigned long long)own_member(j)->id);
        end(j, ERR_EXISTS);
        return;
    }
    j->step = JOINING_VERSIONS;
    j->asks = (struct url_list){0};
    j->next = 0;
    j->member = SIZE_MAX;
    ask_others(j);
}

/* A version that is not decided yet says nothing. */
static void look_at_version(struct joining *j, const struct peer_event *e)
{
    struct member_versions told;

    if (e->status == 0 || versions_json_read(e->body, &j->arena, &told) != ERR_OK) {
        log_warn(j->o.logger, "failed to get version",
                 LOG_ID("remote-member-id", j->existing.members[j->member].id),
                 LOG_U64("status", e->status));
    } else {
        j->next = j->asks.count; /* its other URLs need not be asked */
        if (version_parse(told.cluster, &j->versions[j->version_count]))
            j->version_count++;
        else
            log_warn(j->o.logger, "failed to parse cluster version of remote member",
                     LOG_ID("remote-member-id", j->existing.members[j->member].id),
                     LOG_BYTES("remote-member-cluster-version", told.cluster));
    }
    ask_others(j);
}

static void look_at_downgrade(struct joining *j, const struct peer_event *e)
{
    bool is_true = bytes_equal(e->body, BYTES("true"));

    if (e->status != 0 && (is_true || bytes_equal(e->body, BYTES("false")))) {
        j->is_downgrading = is_true;
        decide(j);
        return;
    }
    log_warn(j->o.logger, "failed to get downgrade enabled status",
             LOG_ID("remote-member-id", j->existing.members[j->member].id),
             LOG_U64("status", e->status));
    ask_others(j);
}

/* --- all of it --- */

void joining_result(struct joining *j, const struct peer_event *e)
{
    if (!j->is_asking || e->id + 1 != j->asked)
        return;
    j->is_asking = false;
    switch (j->step) {
    case JOINING_MEMBERS:
        look_at_members(j, e);
        return;
    case JOINING_VERSIONS:
        look_at_version(j, e);
        return;
    case JOINING_DOWNGRADE:
        look_at_downgrade(j, e);
        return;
    case JOINING_NAMES:
    case JOINING_OVER:
        break;
    }
    unreachable();
}

void joining_start(struct joining *j, const struct joining_options *options)
{
    *j = (struct joining){.o = *options};
    j->asks = remote_urls(j);
    ask_members(j);
}

bool joining_work(struct joining *j)
{
    if (j->step == JOINING_NAMES && names_work(&j->names))
        look_at_names(j);
    return j->step == JOINING_OVER;
}

void joining_stop(struct joining *j)
{
    if (!j->o.io)
        return;
    names_stop(&j->names);
    if (j->is_asking)
        peers_forget(j->o.peers, j->asked - 1);
    j->is_asking = false;
    if (j->step != JOINING_OVER)
        end(j, ERR_CANCELED);
}

bool joining_is_idle(const struct joining *j)
{
    return names_is_idle(&j->names) && !j->is_asking;
}

void joining_free(struct joining *j)
{
    names_free(&j->names);
    arena_free(&j->arena);
}
