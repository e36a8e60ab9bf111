/*
 * Cluster: who the members are, and changes of that.
 *
 * A change goes through the log as a conf change, and is answered when it is applied, with the
 * members that there are then. Whether the cluster is well enough for it the server knows, from its
 * connections and from raft's progress; of a promotion only the leader's does.
 */
#include "api/api_int.h"

/* Of the headers of this service the revision is never set. */
static void answer_members(struct call *c, const struct pb_schema *schema,
                           const struct pb_member *members, size_t count)
{
    struct pb_response_header header = api_header_of(api_of(c), 0);
    struct pb_members_response response = {.header = &header};

    response.members.at = members;
    response.members.count = count;
    api_call_respond(c, schema, &response);
}

static void answer_own_members(struct call *c, const struct pb_schema *schema)
{
    size_t count;
    const struct pb_member *members = cluster_members(api_of(c)->o.cluster, &count);

    answer_members(c, schema, members, count);
}

/* --- MemberList --- */

static void answer_member_list(struct call *c)
{
    answer_own_members(c, &pb_member_list_response_schema);
}

static void run_member_list(struct call *c, const void *request)
{
    if (((const struct pb_member_list_request *)request)->linearizable)
        api_call_read_index(c);
    else
        answer_member_list(c);
}

const struct handler api_cluster_member_list = {
    .schema = &pb_member_list_request_schema,
    .run = run_member_list,
    .confirmed = answer_member_list,
};

/* --- changes --- */

/* The context is copied. */
static void set_change(struct call *c, enum raft_conf_change_type type, uint64_t member,
                       struct bytes context)
{
    c->reconfiguration.change.conf = (struct raft_conf_change){
        .type = type, .node_id = member, .context = arena_copy(&c->arena, context)};
}

static void change_member(struct call *c, enum raft_conf_change_type type,
                          const struct pb_member *m)
{
    struct buf json = {0};

    member_json_write(m, &json);
    set_change(c, type, m->id, buf_bytes(&json));
    buf_free(&json);
    api_call_configure(c);
}

/* --- MemberAdd --- */

static enum result check_member_add(struct call *c, const void *request)
{
    const struct pb_member_add_request *add = request;
    struct url_list texts = {add->peer_urls.at, add->peer_urls.count}, urls;
    struct pb_member *m = &c->reconfiguration.added;
    struct buf why = {0};

    bool is_good = url_list_check(texts, &c->arena, &why, &urls);
    buf_free(&why);
    if (!is_good)
        return RESULT_MEMBER_BAD_URLS;
    *m = (struct pb_member){.id = cluster_new_member_id(urls, api_of(c)->facts->unix_seconds),
                            .is_learner = add->is_learner};
    m->peer_urls.at = urls.at;
    m->peer_urls.count = urls.count;
    return RESULT_OK;
}

static void run_member_add(struct call *c, const void *request)
{
    const struct pb_member_add_request *add = request;

    change_member(c, add->is_learner ? RAFT_ADD_LEARNER_NODE : RAFT_ADD_NODE,
                  &c->reconfiguration.added);
}

static void member_added(struct call *c, struct apply_effects *e)
{
    struct pb_response_header header = api_header_of(api_of(c), 0);
    struct pb_member_add_response response = {.header = &header,
                                              .member = &c->reconfiguration.added};

    if (e->result != RESULT_OK) {
        api_call_finish(c, e->result);
        return;
    }
    response.members.at = cluster_members(api_of(c)->o.cluster, &response.members.count);
    api_call_respond(c, &pb_member_add_response_schema, &response);
}

const struct handler api_cluster_member_add = {
    .schema = &pb_member_add_request_schema,
    .check = check_member_add,
    .run = run_member_add,
    .applied = member_added,
};

/* --- MemberRemove --- */

static void run_member_remove(struct call *c, const void *request)
{
    set_change(c, RAFT_REMOVE_NODE, ((const struct pb_member_id *)request)->id, (struct bytes){0});
    api_call_configure(c);
}

static void member_changed(struct call *c, struct apply_effects *e)
{
    if (e->result == RESULT_OK)
        answer_own_members(c, &pb_member_remove_response_schema); /* all of them are the same */
    else
        api_call_finish(c, e->result);
}

const struct handler api_cluster_member_remove = {
    .schema = &pb_member_remove_request_schema,
    .run = run_member_remove,
    .applied = member_changed,
};

/* --- MemberUpdate --- */

/* etcd takes any text here, and its other members end when they are to dial it. So it is no
 * `check`: permission comes first. */
static bool has_good_urls(struct call *c, const struct pb_member_update_request *update)
{
    struct url_list texts = {update->peer_urls.at, update->peer_urls.count}, urls;
    struct buf why = {0};

    bool is_good = url_list_check(texts, &c->arena, &why, &urls);
    buf_free(&why);
    return is_good;
}

/* The URLs as they were given: what they are for is not to make an id. */
static void run_member_update(struct call *c, const void *request)
{
    const struct pb_member_update_request *update = request;
    struct pb_member m = {.id = update->id};

    if (!has_good_urls(c, update)) {
        api_call_finish(c, RESULT_MEMBER_BAD_URLS);
        return;
    }
    m.peer_urls.at = update->peer_urls.at;
    m.peer_urls.count = update->peer_urls.count;
    change_member(c, RAFT_UPDATE_NODE, &m);
}

const struct handler api_cluster_member_update = {
    .schema = &pb_member_update_request_schema,
    .run = run_member_update,
    .applied = member_changed,
};

/* --- MemberPromote --- */

static uint64_t promoted(const struct call *c)
{
    return ((const struct pb_member_id *)c->request)->id;
}

static void promote_here(struct call *c)
{
    struct buf json = {0};

    member_json_write_promotion(promoted(c), &json);
    set_change(c, RAFT_ADD_NODE, promoted(c), buf_bytes(&json));
    c->reconfiguration.change.is_promotion = true;
    buf_free(&json);
    api_call_configure(c);
}

static void promote_by_leader(struct call *c)
{
    struct api_forward forward = {.kind = API_FORWARD_PROMOTE, .member = promoted(c)};

    api_call_token(c, &forward.token);
    api_call_forward(c, &forward);
}

static bool promotion_is_decided(struct call *c)
{
    struct api *a = api_of(c);
    enum wait_state state = api_index_wait_state(a, &c->reconfiguration.wait);

    if (state == WAIT_ON)
        return false;
    api_call_stop_working(c);
    if (state == WAIT_TOO_LONG)
        api_call_finish(c, RESULT_TIMEOUT_APPLIED_INDEX);
    else if (a->facts->is_leader)
        promote_here(c);
    else
        promote_by_leader(c);
    return true;
}

/* The learner may have been added a moment ago, by an entry that is not applied yet. */
static void wait_to_promote(struct call *c)
{
    c->reconfiguration.wait = api_index_wait(api_of(c));
    api_call_wait(c, promotion_is_decided);
}

static void run_member_promote(struct call *c, const void *request)
{
    (void)request;
    wait_to_promote(c);
}

/* The members are the leader's: this one may not have applied it yet. */
static void promotion_forwarded(struct call *c, const struct api_forwarded *f)
{
    if (f->is_here)
        wait_to_promote(c);
    else
        answer_members(c, &pb_member_promote_response_schema, f->members, f->member_count);
}

/* Facts are of the last turn: raft may have heard of another leader in this one, before the call
 * was heard. Then that one is asked. Should forwarding still take this member for the leader, it
 * says so once raft's news are facts, and it is decided again. */
static void promotion_failed(struct call *c, enum result why)
{
    if (why == RESULT_NOT_LEADER)
        promote_by_leader(c);
    else
        api_call_finish(c, why);
}

const struct handler api_cluster_member_promote = {
    .schema = &pb_member_promote_request_schema,
    .run = run_member_promote,
    .applied = member_changed,
    .forwarded = promotion_forwarded,
    .failed = promotion_failed,
};
