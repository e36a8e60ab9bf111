#include "server/peer_requests.h"

#include "apply/result.h"
#include "auth/auth.h"
#include "auth/tokens.h"
#include "cluster/cluster.h"
#include "lease/lease.h"
#include "pb/codec.h"
#include "pb/wire.h"
#include "peer/peer.h"
#include "server/state.h"

#define TEXT_PLAIN "text/plain; charset=utf-8"

static const char applied_too_late[] =
    "waiting for node to catch up its applied index has timed out";

static const char not_found[] = "lease not found";
static const char not_primary[] = "not a primary lessor";

enum kind { RENEW, TIME_TO_LIVE, HASH, DOWNGRADE, PROMOTE };

/* One that could not be answered at once. */
struct peer_question {
    struct list link, need_link;
    struct peer_requests *requests;
    enum kind kind;
    uint64_t request;  /* peer's number */
    uint64_t index;    /* to be applied first */
    uint64_t until_ms; /* but no later than this */
    int64_t lease, ttl;
    bool with_keys;
    bool is_confirmed; /* of a lease: a quorum has said since it came that we lead */
    bool has_renewed;
    struct buf keys, last; /* of a lease: those listed so far, and the last of them */
    struct mvcc_hash hash;
    uint64_t member; /* to be promoted */
    bool is_changing;
    struct api_change change;
    struct buf context;   /* of the change */
    struct buf token;     /* of the client that wants it */
    struct api_call call; /* while pending has it */
    struct pb_internal_raft_request proposal;
    struct pb_lease_checkpoint_request checkpoints;
    struct pb_lease_checkpoint checkpoint;
};

void peer_requests_init(struct peer_requests *r, const struct peer_requests_options *options)
{
    *r = (struct peer_requests){.o = *options};
    list_init(&r->waiting);
    list_init(&r->needs);
}

static void question_free(struct peer_question *q)
{
    if (q->kind == HASH)
        mvcc_hash_close(q->requests->o.mvcc, &q->hash);
    buf_free(&q->keys);
    buf_free(&q->last);
    buf_free(&q->context);
    buf_free(&q->token);
    list_remove(&q->link);
    list_remove(&q->need_link);
    q->requests->count--;
    mem_free(q);
}

void peer_requests_free(struct peer_requests *r)
{
    if (!r->waiting.next)
        return;
    LIST_FOREACH (link, &r->waiting)
        question_free(container_of(link, struct peer_question, link));
}

/* --- answering --- */

/* As Go's http.Error does: a line of text. */
static void refuse(struct peer_requests *r, uint64_t request, unsigned status, const char *text,
                   bool with_cluster_id)
{
    struct buf body = {0};

    buf_printf(&body, "%s\n", text);
    peers_respond(r->o.peers, request,
                  &(struct peer_response){.status = status,
                                          .content_type = TEXT_PLAIN,
                                          .allow = NULL,
                                          .body = buf_bytes(&body),
                                          .with_cluster_id = with_cluster_id});
    buf_free(&body);
}

static void refuse_question(struct peer_question *q, unsigned status, const char *text)
{
    refuse(q->requests, q->request, status, text, q->kind == DOWNGRADE || q->kind == PROMOTE);
    question_free(q);
}

static void answer(struct peer_requests *r, uint64_t request, const char *type, struct bytes body,
                   bool with_cluster_id)
{
    peers_respond(
        r->o.peers, request,
        &(struct peer_response){
            .status = 200, .content_type = type, .body = body, .with_cluster_id = with_cluster_id});
}

static void answer_message(struct peer_question *q, const struct pb_schema *schema,
                           const void *message)
{
    struct buf body = {0};

    pb_encode(schema, message, &body);
    answer(q->requests, q->request, "application/protobuf", buf_bytes(&body), false);
    buf_free(&body);
    question_free(q);
}

/* --- at once --- */

static void answer_members(struct peer_requests *r, uint64_t request)
{
    size_t count;
    const struct pb_member *members = cluster_members(r->o.cluster, &count);
    struct buf body = {0};

    member_json_write_list(members, count, &body);
    buf_append_byte(&body, '\n');
    answer(r, request, "application/json", buf_bytes(&body), true);
    buf_free(&body);
}

static void tell_members(struct peer_requests *r, const struct peer_event *e)
{
    answer_members(r, e->id);
}

static void tell_version(struct peer_requests *r, const struct peer_event *e)
{
    struct buf body = {0};

    versions_json_write(&(struct member_versions){.server = BYTES(SERVER_VERSION),
                                                  .cluster = cluster_version(r->o.cluster),
                                                  .storage = bytes_of_str(r->o.storage_version)},
                        &body);
    answer(r, e->id, "application/json", buf_bytes(&body), false);
    buf_free(&body);
}

/* --- later --- */

static struct peer_question *question_new(struct peer_requests *r, const struct peer_event *e,
                                          enum kind kind)
{
    if (r->count >= PEER_QUESTIONS_MAX) {
        refuse(r, e->id, 503, "too many requests of other members wait", false);
        return NULL;
    }
    struct peer_question *q = mem_new(struct peer_question);
    q->requests = r;
    q->kind = kind;
    q->request = e->id;
    q->index = r->o.facts->committed_index;
    q->until_ms = r->o.facts->now_ms + PEER_REQUESTS_APPLIED_MS;
    list_init(&q->link);
    list_init(&q->need_link);
    list_push_back(&r->waiting, &q->link);
    r->count++;
    return q;
}

/* --- leases --- */

static bool decode(struct peer_requests *r, const struct peer_event *e,
                   const struct pb_schema *schema, struct arena *arena, void *out)
{
    if (pb_decode(schema, e->body, arena, out) == ERR_OK)
        return true;
    refuse(r, e->id, 400, "error unmarshalling request", false);
    return false;
}

/*
 * As api does it: a quorum is asked whether we lead before anything is said of a lease, since a
 * leader that was replaced need not know. Who does not lead says so at once, and the asker finds
 * out who does.
 */
static struct peer_question *lease_question_new(struct peer_requests *r, const struct peer_event *e,
                                                enum kind kind)
{
    if (!r->o.facts->is_leader) {
        refuse(r, e->id, kind == RENEW ? 400 : 500, not_primary, false);
        return NULL;
    }
    struct peer_question *q = question_new(r, e, kind);
    if (q)
        list_push_back(&r->needs, &q->need_link);
    return q;
}

static void hear_renewal(struct peer_requests *r, const struct peer_event *e)
{
    struct pb_lease_id asked = {0};
    struct arena arena = {0};

    if (decode(r, e, &pb_lease_keep_alive_request_schema, &arena, &asked)) {
        struct peer_question *q = lease_question_new(r, e, RENEW);
        if (q)
            q->lease = asked.id;
    }
    arena_free(&arena);
}

static void hear_time_to_live(struct peer_requests *r, const struct peer_event *e)
{
    struct pb_lease_internal_request asked = {0};
    struct arena arena = {0};

    if (decode(r, e, &pb_lease_internal_request_schema, &arena, &asked)) {
        struct peer_question *q = lease_question_new(r, e, TIME_TO_LIVE);
        if (q && asked.request) {
            q->lease = asked.request->id;
            q->with_keys = asked.request->keys;
        }
    }
    arena_free(&arena);
}

static void answer_renewal(struct peer_question *q)
{
    answer_message(q, &pb_lease_keep_alive_response_schema,
                   &(struct pb_lease_keep_alive_response){.id = q->lease, .ttl = q->ttl});
}

/* A remaining time that all members know of is taken back before anybody relies on the full one. */
static void propose_full_time(struct peer_question *q)
{
    q->checkpoint = (struct pb_lease_checkpoint){.id = q->lease};
    q->checkpoints.checkpoints.at = &q->checkpoint;
    q->checkpoints.checkpoints.count = 1;
    q->proposal.lease_checkpoint = &q->checkpoints;
    q->has_renewed = true;
    list_push_back(&q->requests->needs, &q->need_link);
}

/* One whose time is up waits until its revoke has been applied: then it is not found. */
static void renew(struct peer_question *q)
{
    struct peer_requests *r = q->requests;
    bool needs_checkpoint = false;

    switch (lease_renew(r->o.leases, q->lease, r->o.facts->now_ms, &q->ttl, &needs_checkpoint)) {
    case LEASE_OK:
        if (needs_checkpoint)
            propose_full_time(q);
        else
            answer_renewal(q);
        return;
    case LEASE_NOT_FOUND:
        refuse_question(q, 404, not_found);
        return;
    case LEASE_EXPIRED:
        return;
    case LEASE_NOT_PRIMARY:
        refuse_question(q, 400, not_primary);
        return;
    case LEASE_EXISTS:
    case LEASE_TTL_TOO_LARGE:
        break;
    }
    unreachable();
}

/* As field `number` of a message. */
static void append_field(struct buf *out, unsigned number, struct bytes content)
{
    uint8_t front[1 + 10];
    uint8_t *end = front + sizeof(front);
    uint8_t *at = pb_put_varint(end, content.len);

    *--at = (uint8_t)PB_TAG_BYTES(number);
    buf_append(out, bytes_of(at, (size_t)(end - at)));
    buf_append(out, content);
}

/* As in our own answers, a key whose delete is decided and not yet settled is gone. False: there
 * are more. */
static bool list_keys(struct peer_question *q, unsigned steps)
{
    struct peer_requests *r = q->requests;
    struct mvcc *m = r->o.mvcc;
    struct keyindex_found found;
    struct bytes key;

    for (unsigned i = 0; i < steps; i++) {
        if (!lease_next_key(r->o.leases, q->lease, buf_bytes(&q->last), &key))
            return true;
        if (!mvcc_is_settling(m) || mvcc_find(m, key, revision_whole(mvcc_revision(m)), &found))
            append_field(&q->keys, 5, key);
        buf_clear(&q->last);
        buf_append(&q->last, key);
    }
    return false;
}

/* The keys are the last field, and were written before. */
static void answer_time_to_live(struct peer_question *q, const struct lease_info *info)
{
    struct pb_response_header header = {0};
    struct buf told = {0}, body = {0};

    pb_encode(&pb_lease_time_to_live_response_schema,
              &(struct pb_lease_time_to_live_response){.header = &header,
                                                       .id = q->lease,
                                                       .ttl = info->remaining,
                                                       .granted_ttl = info->granted_ttl},
              &told);
    buf_append(&told, buf_bytes(&q->keys));
    append_field(&body, 1, buf_bytes(&told));
    answer(q->requests, q->request, "application/protobuf", buf_bytes(&body), false);
    buf_free(&told);
    buf_free(&body);
    question_free(q);
}

/* False: there are more keys to be listed at once. */
static bool look_at_lease(struct peer_question *q, unsigned steps)
{
    struct peer_requests *r = q->requests;
    struct lease_info info;

    if (q->with_keys && apply_is_busy(r->o.apply))
        return true; /* keys of half an entry hang on it; when it is done they all do */
    if (!lease_look(r->o.leases, q->lease, r->o.facts->now_ms, &info)) {
        refuse_question(q, 404, not_found);
        return true;
    }
    if (!lease_is_primary(r->o.leases)) {
        refuse_question(q, 500, not_primary);
        return true;
    }
    if (q->with_keys && !list_keys(q, steps))
        return false;
    answer_time_to_live(q, &info);
    return true;
}

/* --- downgrade --- */

static void hear_downgrade(struct peer_requests *r, const struct peer_event *e)
{
    struct peer_question *q = question_new(r, e, DOWNGRADE);

    if (q)
        list_push_back(&r->needs, &q->need_link);
}

/* --- promotions --- */

static bool read_number(struct bytes digits, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9' ||
            *out > (UINT64_MAX - (uint64_t)(digits.at[i] - '0')) / 10)
            return false;
        *out = 10 * *out + (uint64_t)(digits.at[i] - '0');
    }
    return digits.len > 0;
}

static void hear_promotion_of(struct peer_requests *r, const struct peer_event *e, struct bytes id)
{
    struct buf text = {0};
    uint64_t member;

    if (!read_number(id, &member)) {
        buf_printf(&text, "member %.*s not found in cluster", (int)id.len, (const char *)id.at);
        refuse(r, e->id, 404, buf_str(&text), true);
        buf_free(&text);
        return;
    }
    struct peer_question *q = question_new(r, e, PROMOTE);
    if (!q)
        return;
    q->member = member;
    buf_append(&q->token, auth_token_in(e->authorization));
}

/* etcd tells everything else as an error of its own, and the asker asks again. */
static void refuse_promotion(struct peer_question *q, enum result why)
{
    struct peer_requests *r = q->requests;

    log_warn(r->o.logger, "failed to promote a member", LOG_ID("member-id", q->member),
             LOG_STR("error", result_text(why)));
    if (why == RESULT_MEMBER_NOT_FOUND) {
        refuse_question(q, 404, cluster_result_text(CLUSTER_ID_NOT_FOUND));
    } else if (why == RESULT_MEMBER_NOT_LEARNER) {
        refuse_question(q, 412, cluster_result_text(CLUSTER_NOT_LEARNER));
    } else if (why == RESULT_LEARNER_NOT_READY) {
        refuse_question(q, 412, result_text(why));
    } else {
        peers_respond(
            r->o.peers, q->request,
            &(struct peer_response){.status = 500,
                                    .content_type = "application/json",
                                    .body = BYTES("{\"message\":\"Internal Server Error\"}"),
                                    .with_cluster_id = true});
        question_free(q);
    }
}

/* The member that asks sends its client's token, by which it is decided here once more: whoever can
 * reach this port is no member for that. */
static enum result may_promote(const struct peer_question *q)
{
    const struct peer_requests_options *o = &q->requests->o;
    struct identity who = {0};

    if (auth_is_enabled(o->auth) && q->token.len > 0) {
        struct auth_moment moment = {.now_ms = o->facts->now_ms,
                                     .unix_s = o->facts->unix_seconds,
                                     .auth_revision = auth_revision(o->auth)};
        if (!o->tokens || auth_tokens_identify(o->tokens, buf_bytes(&q->token), &moment, &who))
            return RESULT_AUTH_INVALID_TOKEN;
    }
    return result_of_auth(auth_decide(o->auth, &who, RULE_ROOT, NULL));
}

/*
 * Who does not lead cannot know. etcd passes it on to whoever does; here the asker is told to try
 * again, and hears soon enough who leads: it is only then that anybody is asked who does not.
 */
static void promote(struct peer_question *q)
{
    enum result result = may_promote(q);

    if (result == RESULT_OK && !q->requests->o.facts->is_leader)
        result = RESULT_NOT_LEADER;
    if (result != RESULT_OK) {
        refuse_promotion(q, result);
        return;
    }
    member_json_write_promotion(q->member, &q->context);
    q->change = (struct api_change){
        .conf = {.type = RAFT_ADD_NODE, .node_id = q->member, .context = buf_bytes(&q->context)},
        .is_promotion = true};
    q->is_changing = true;
    list_push_back(&q->requests->needs, &q->need_link);
}

static void promotion_applied(struct peer_question *q, enum result result)
{
    if (result != RESULT_OK) {
        refuse_promotion(q, result);
        return;
    }
    answer_members(q->requests, q->request);
    question_free(q);
}

/* --- hashes --- */

static const char *hash_error(enum mvcc_result result)
{
    return result == MVCC_COMPACTED ? "mvcc: required revision has been compacted"
                                    : "mvcc: required revision is a future revision";
}

static bool is_other_cluster(const struct peer_requests *r, struct bytes told)
{
    struct buf own = {0};

    buf_printf(&own, "%llx", (unsigned long long)r->o.facts->cluster_id);
    bool differs = told.len > 0 && !bytes_equal(told, buf_bytes(&own));
    buf_free(&own);
    return differs;
}

static void hear_hash(struct peer_requests *r, const struct peer_event *e)
{
    struct mvcc_hash hash = {0};

    if (is_other_cluster(r, e->cluster_id)) {
        refuse(r, e->id, 412, "cluster ID mismatch", false);
        return;
    }
    if (hash_json_read(e->body, &hash.revision) != ERR_OK) {
        refuse(r, e->id, 400, "error unmarshalling request", false);
        return;
    }
    struct peer_question *q = question_new(r, e, HASH);
    if (!q)
        return;
    q->hash = hash;
    enum mvcc_result result = mvcc_hash_open(r->o.mvcc, &q->hash);
    if (result != MVCC_OK)
        refuse_question(q, 400, hash_error(result));
}

/* A revision that the other state has not, or no longer, is told as it would be to a new question.
 */
static void hash_anew(struct peer_question *q, struct mvcc *mvcc)
{
    int64_t revision = q->hash.revision;

    mvcc_hash_close(q->requests->o.mvcc, &q->hash);
    q->hash = (struct mvcc_hash){.revision = revision};
    enum mvcc_result result = mvcc_hash_open(mvcc, &q->hash);
    if (result != MVCC_OK)
        refuse_question(q, 400, hash_error(result));
}

void peer_requests_state_replaced(struct peer_requests *r, const struct state *state)
{
    LIST_FOREACH (link, &r->waiting) {
        struct peer_question *q = container_of(link, struct peer_question, link);
        if (q->kind == HASH)
            hash_anew(q, state->mvcc);
    }
    r->o.cluster = state->cluster;
    r->o.leases = state->leases;
    r->o.mvcc = state->mvcc;
    r->o.apply = state->apply;
    r->o.auth = state->auth;
}

static void answer_hash(struct peer_question *q)
{
    struct member_hash told = {.newest = mvcc_revision(q->requests->o.mvcc),
                               .revision = q->hash.revision,
                               .compact_revision = q->hash.compact_revision,
                               .hash = q->hash.hash};
    struct buf body = {0};

    member_hash_json_write(&told, &body);
    answer(q->requests, q->request, "application/json", buf_bytes(&body), true);
    buf_free(&body);
    question_free(q);
}

/* --- by path --- */

static void refuse_verb(struct peer_requests *r, const struct peer_event *e, const char *allow)
{
    peers_respond(r->o.peers, e->id,
                  &(struct peer_response){.status = 405,
                                          .content_type = TEXT_PLAIN,
                                          .allow = allow,
                                          .body = BYTES("Method Not Allowed\n")});
}

static const struct route {
    const char *path, *verb;
    bool names_verb; /* in the answer to another one */
    void (*hear)(struct peer_requests *r, const struct peer_event *e);
} routes[] = {
    {"/members", "GET", true, tell_members},
    {"/version", "GET", true, tell_version},
    {"/downgrade/enabled", "GET", true, hear_downgrade},
    {"/leases", "POST", false, hear_renewal},
    {"/leases/internal", "POST", false, hear_time_to_live},
    {"/members/hashkv", "GET", true, hear_hash},
};

static void hear_promotion(struct peer_requests *r, const struct peer_event *e, size_t prefix)
{
    if (bytes_equal(e->verb, BYTES("POST")))
        hear_promotion_of(r, e, bytes_of(e->path.at + prefix, e->path.len - prefix));
    else
        refuse_verb(r, e, "POST");
}

void peer_requests_hear(struct peer_requests *r, const struct peer_event *e)
{
    static const char promote[] = "/members/promote/";

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        const struct route *route = &routes[i];
        if (!bytes_equal(e->path, bytes_of_str(route->path)))
            continue;
        if (bytes_equal(e->verb, bytes_of_str(route->verb)))
            route->hear(r, e);
        else
            refuse_verb(r, e, route->names_verb ? route->verb : NULL);
        return;
    }
    if (bytes_starts_with(e->path, bytes_of_str(promote)))
        hear_promotion(r, e, sizeof(promote) - 1);
    else
        refuse(r, e->id, 404, "404 page not found", false);
}

/* --- working --- */

static bool is_of_lease(const struct peer_question *q)
{
    return q->kind == RENEW || q->kind == TIME_TO_LIVE;
}

static bool is_pending(const struct peer_question *q)
{
    return q->kind == DOWNGRADE || (is_of_lease(q) && !q->is_confirmed) || q->has_renewed ||
           q->is_changing;
}

/* True: what was committed when it came is applied. Otherwise q may be gone. */
static bool has_caught_up(struct peer_question *q)
{
    const struct api_facts *facts = q->requests->o.facts;

    if (facts->applied_index >= q->index)
        return true;
    if (facts->now_ms >= q->until_ms)
        refuse_question(q, 408, applied_too_late);
    return false;
}

/* Then it is the next one's turn. */
static void hash_some(struct peer_question *q, unsigned steps)
{
    struct peer_requests *r = q->requests;

    if (mvcc_hash_some(r->o.mvcc, &q->hash, steps)) {
        answer_hash(q);
        return;
    }
    list_remove(&q->link);
    list_push_back(&r->waiting, &q->link);
}

/* The first whose asker is still there; those before it are dropped, since a hash of everything is
 * not computed for nobody. NULL: there is none. */
static struct peer_question *first_hash(struct peer_requests *r)
{
    LIST_FOREACH (link, &r->waiting) {
        struct peer_question *q = container_of(link, struct peer_question, link);
        if (q->kind != HASH)
            continue;
        if (peers_is_awaited(r->o.peers, q->request))
            return q;
        question_free(q);
    }
    return NULL;
}

/* False: there are more slices to be computed at once. */
static bool work_on_hashes(struct peer_requests *r, unsigned steps)
{
    struct peer_question *q = first_hash(r);

    if (q)
        hash_some(q, steps);
    return !first_hash(r) || mvcc_is_settling(r->o.mvcc); /* that goes on by itself */
}

/* False: it wants to go on at once. */
static bool go_on(struct peer_question *q, unsigned steps)
{
    switch (q->kind) {
    case RENEW:
        renew(q);
        return true;
    case TIME_TO_LIVE:
        return look_at_lease(q, steps);
    case PROMOTE:
        if (has_caught_up(q))
            promote(q);
        return true;
    case HASH:
    case DOWNGRADE:
        break;
    }
    unreachable();
}

bool peer_requests_work(struct peer_requests *r, unsigned steps)
{
    bool all_done = work_on_hashes(r, steps);

    LIST_FOREACH (link, &r->waiting) {
        struct peer_question *q = container_of(link, struct peer_question, link);
        if (q->kind != HASH && !is_pending(q) && !go_on(q, steps))
            all_done = false;
    }
    return all_done;
}

/* --- pending --- */

static struct peer_question *question_of(struct api_call *c)
{
    assert(!c->api);
    return container_of(c, struct peer_question, call);
}

bool peer_requests_take_need(struct peer_requests *r, struct api_need *out)
{
    struct list *link = list_pop_front(&r->needs);

    if (!link)
        return false;
    struct peer_question *q = container_of(link, struct peer_question, need_link);
    list_init(&q->call.link);
    *out = (struct api_need){.call = &q->call,
                             .need = q->is_changing   ? API_CONFIGURE
                                     : q->has_renewed ? API_PROPOSE
                                                      : API_READ_INDEX,
                             .request = q->has_renewed ? &q->proposal : NULL,
                             .change = q->is_changing ? &q->change : NULL};
    return true;
}

void peer_requests_confirmed(struct peer_requests *r, struct api_call *c)
{
    struct peer_question *q = question_of(c);
    bool enabled = cluster_downgrade(r->o.cluster).enabled;

    if (q->kind != DOWNGRADE) {
        q->is_confirmed = true; /* peer_requests_work goes on with it */
        return;
    }
    answer(r, q->request, "text/plain", enabled ? BYTES("true") : BYTES("false"), true);
    question_free(q);
}

void peer_requests_applied(struct peer_requests *r, struct api_call *c, enum result result)
{
    struct peer_question *q = question_of(c);

    (void)r;
    if (q->kind == PROMOTE)
        promotion_applied(q, result);
    else
        answer_renewal(q);
}

void peer_requests_failed(struct peer_requests *r, struct api_call *c, enum result why)
{
    struct peer_question *q = question_of(c);
    struct buf text = {0};

    (void)r;
    if (q->kind == PROMOTE) {
        refuse_promotion(q, why);
        return;
    }
    if (q->kind == DOWNGRADE)
        buf_append_str(&text, "failed linearized read: ");
    buf_append_str(&text, result_text(why));
    refuse_question(q, q->kind == DOWNGRADE ? 500 : 400, buf_str(&text));
    buf_free(&text);
}

void peer_requests_check(const struct peer_requests *r)
{
    size_t count = 0;

    LIST_FOREACH (link, &r->waiting) {
        const struct peer_question *q = container_of(link, struct peer_question, link);
        assert(q->requests == r);
        assert(!q->has_renewed || q->kind == RENEW);
        count++;
    }
    assert(count == r->count);
    assert(count <= PEER_QUESTIONS_MAX);
}
