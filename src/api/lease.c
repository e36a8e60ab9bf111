/*
 * Lease: grants and revokes go through the log; time is known to the leader alone.
 */
#include "api/api_int.h"
#include "pb/wire.h"

/* --- LeaseGrant --- */

/*
 * For a lease that names no id: the member's number, and one that counts up from a place that is
 * another at each boot. So two of them hardly ever meet, as with etcd's; those that are there are
 * passed over.
 */
static int64_t pick_id(struct api *a)
{
    const uint64_t low = (1ull << 48) - 1;
    struct lease_info taken;
    int64_t id;

    do
        id = (int64_t)((a->facts->member_id << 48 | (a->next_lease++ & low)) & INT64_MAX);
    while (id == 0 || lease_look(a->o.leases, id, a->facts->now_ms, &taken));
    return id;
}

static enum result check_grant(struct call *c, const void *request)
{
    struct pb_lease_grant_request *grant = arena_new(&c->arena, struct pb_lease_grant_request);

    *grant = *(const struct pb_lease_grant_request *)request;
    if (grant->id == 0)
        grant->id = pick_id(api_of(c));
    api_call_proposal(c)->lease_grant = grant;
    return api_call_check_quota(c);
}

static void run_grant(struct call *c, const void *request)
{
    (void)request;
    api_call_propose(c);
}

const struct handler api_lease_grant = {
    .schema = &pb_lease_grant_request_schema,
    .check = check_grant,
    .run = run_grant,
};

/* --- LeaseRevoke --- */

static void run_revoke(struct call *c, const void *request)
{
    api_call_proposal(c)->lease_revoke = request;
    api_call_propose(c);
}

const struct handler api_lease_revoke = {
    .schema = &pb_lease_revoke_request_schema,
    .run = run_revoke,
};

/* --- LeaseKeepAlive --- */

static void take_next(struct call *c)
{
    struct renewal *r = &c->renewal;

    r->is_busy = false;
    if (r->half_closed) {
        api_call_finish(c, RESULT_OK);
        return;
    }
    r->is_held = c->credit <= 0;
    if (!r->is_held)
        rpc_line_release(api_line_of(api_of(c), c->base.rpc), c->base.rpc);
}

static void answer_renewal(struct call *c, int64_t ttl)
{
    const struct renewal *r = &c->renewal;
    struct pb_response_header header = api_header_of(api_of(c), r->revision);

    api_call_send(
        c, &pb_lease_keep_alive_response_schema,
        &(struct pb_lease_keep_alive_response){.header = &header, .id = r->id, .ttl = ttl});
    take_next(c);
}

static enum result decide_renewal(struct call *c)
{
    return api_call_decide(c, &(struct pb_lease_id){.id = c->renewal.id});
}

/*
 * Whoever renews promises the whole time, and only who leads can keep that. A leader that was
 * replaced need not know: where the whole machine stood still, its clock did too, so nothing here
 * says that time has passed. So a quorum says that this member leads, asked after the renewal had
 * come: whoever leads next is elected later than that, and lets the lease's time begin anew then.
 * By the end of such a round the first entry of our term is applied, so leases run (but for a
 * leader whose state was just replaced); and so is everything that was committed before, so one
 * that is not found has ended.
 */
static void begin_renewal(struct call *c)
{
    enum result result;

    if (api_of(c)->facts->is_leader)
        api_call_read_index(c);
    else if ((result = decide_renewal(c)) != RESULT_OK)
        api_call_finish(c, result);
    else
        api_call_forward(c,
                         &(struct api_forward){.kind = API_FORWARD_RENEW, .lease = c->renewal.id});
}

/* Its time is up and the revoke is on its way: what the client is told must not be undone by it. */
static bool expired_lease_is_gone(struct call *c)
{
    struct api *a = api_of(c);
    struct lease_info info;

    if (a->facts->is_leader && lease_look(a->o.leases, c->renewal.id, a->facts->now_ms, &info) &&
        info.expired)
        return false;
    api_call_stop_working(c);
    begin_renewal(c); /* also where this member leads no more: nobody revokes it from here */
    return true;
}

static bool leases_run(struct call *c)
{
    struct api *a = api_of(c);

    if (a->facts->is_leader && !lease_is_primary(a->o.leases))
        return false;
    api_call_stop_working(c);
    begin_renewal(c);
    return true;
}

/* A remaining time that was spread to the others must be taken back before the client relies on
 * the full one. */
static void propose_full_time(struct call *c)
{
    struct arena *arena = &c->arena;
    struct pb_internal_raft_request *p = api_call_proposal(c);

    if (!p->lease_checkpoint) {
        struct pb_lease_checkpoint_request *request =
            arena_new(arena, struct pb_lease_checkpoint_request);
        request->checkpoints.at = arena_new(arena, struct pb_lease_checkpoint);
        request->checkpoints.count = 1;
        p->lease_checkpoint = request;
    }
    *(struct pb_lease_checkpoint *)p->lease_checkpoint->checkpoints.at =
        (struct pb_lease_checkpoint){.id = c->renewal.id};
    api_call_propose(c);
}

static void keep_alive_confirmed(struct call *c)
{
    struct api *a = api_of(c);
    struct renewal *r = &c->renewal;
    bool needs_checkpoint = false;

    enum result result = decide_renewal(c);
    if (result != RESULT_OK) {
        api_call_finish(c, result);
        return;
    }
    switch (lease_renew(a->o.leases, r->id, a->facts->now_ms, &r->ttl, &needs_checkpoint)) {
    case LEASE_OK:
        if (needs_checkpoint)
            propose_full_time(c);
        else
            answer_renewal(c, r->ttl);
        return;
    case LEASE_NOT_FOUND:
        answer_renewal(c, 0);
        return;
    case LEASE_EXPIRED:
        api_call_wait(c, expired_lease_is_gone);
        return;
    case LEASE_NOT_PRIMARY: /* it led when the quorum said so, and does not now, or does again */
        if (a->facts->is_leader)
            api_call_wait(c, leases_run);
        else
            begin_renewal(c);
        return;
    case LEASE_EXISTS:
    case LEASE_TTL_TOO_LARGE:
        break;
    }
    unreachable();
}

static void run_keep_alive(struct call *c, const void *request)
{
    struct api *a = api_of(c);
    struct renewal *r = &c->renewal;

    assert(!r->is_busy);
    r->is_busy = true;
    r->id = ((const struct pb_lease_id *)request)->id;
    r->revision = mvcc_revision(a->o.mvcc);
    begin_renewal(c);
}

static void keep_alive_applied(struct call *c, struct apply_effects *e)
{
    if (e->result != RESULT_OK)
        api_call_finish(c, e->result);
    else
        answer_renewal(c, c->renewal.ttl);
}

static void keep_alive_forwarded(struct call *c, const struct api_forwarded *f)
{
    if (f->is_here)
        begin_renewal(c);
    else
        answer_renewal(c, f->response ? f->response->ttl : 0);
}

/* Whose leader has changed asks the new one. To those who have asked a quorum in vain etcd says
 * what it says here. */
static void keep_alive_failed(struct call *c, enum result why)
{
    if (c->need == API_READ_INDEX && why == RESULT_LEADER_CHANGED)
        begin_renewal(c);
    else
        api_call_finish(c, c->need == API_READ_INDEX ? RESULT_NOT_PRIMARY_LESSOR : why);
}

static void keep_alive_ended(struct call *c)
{
    c->renewal.half_closed = true;
    if (!c->renewal.is_busy)
        api_call_finish(c, RESULT_OK);
}

static void keep_alive_sent(struct call *c, size_t bytes)
{
    c->credit += (int64_t)bytes;
    if (!c->renewal.is_held || c->credit <= 0)
        return;
    c->renewal.is_held = false;
    rpc_line_release(api_line_of(api_of(c), c->base.rpc), c->base.rpc);
}

const struct handler api_lease_keep_alive = {
    .schema = &pb_lease_keep_alive_request_schema,
    .run = run_keep_alive,
    .confirmed = keep_alive_confirmed,
    .forwarded = keep_alive_forwarded,
    .applied = keep_alive_applied,
    .failed = keep_alive_failed,
    .ended = keep_alive_ended,
    .sent = keep_alive_sent,
};

/* --- LeaseTimeToLive --- */

enum {
    KEY_FRONT_BYTES_MAX = 1 + 5, /* its tag and its length */
    LEASE_FIELDS_BYTES_MAX = 48, /* id and times */
};

/* Has somebody changed the users or roles since it was decided? */
static bool is_outdated(const struct call *c)
{
    const struct pb_lease_time_to_live_request *request = c->request;
    const struct auth *auth = api_of(c)->o.auth;

    return request->keys && auth_is_enabled(auth) &&
           c->question.auth_revision != auth_revision(auth);
}

/* Its keys may be others than they were when it was decided who may see them. */
static void finish_question(struct call *c)
{
    enum result result = is_outdated(c) ? RESULT_AUTH_OLD_REVISION : api_call_decide(c, c->request);

    if (result != RESULT_OK) {
        api_call_finish(c, result);
        return;
    }
    api_call_send_buf(c, &c->question.text);
    api_call_finish(c, RESULT_OK);
}

static void append_key(struct buf *out, struct bytes key)
{
    uint8_t front[1 + 10];
    uint8_t *end = front + sizeof(front);
    uint8_t *at = pb_put_varint(end, key.len);

    *--at = PB_TAG_BYTES(5);
    buf_append(out, bytes_of(at, (size_t)(end - at)));
    buf_append(out, key);
}

/* A key that a large delete has ended hangs on its lease until that is settled. */
static bool is_alive(struct call *c, struct bytes key)
{
    struct mvcc *m = api_of(c)->o.mvcc;
    struct keyindex_found found;

    return !mvcc_is_settling(m) || mvcc_find(m, key, revision_whole(mvcc_revision(m)), &found);
}

static bool list_keys_step(struct call *c, unsigned steps)
{
    struct lease_question *q = &c->question;
    const struct pb_lease_time_to_live_request *request = c->request;
    struct bytes key;

    for (unsigned i = 0; i < steps; i++) {
        if (!lease_next_key(api_of(c)->o.leases, request->id, buf_bytes(&q->last), &key)) {
            finish_question(c);
            return true;
        }
        if (is_alive(c, key))
            append_key(&q->text, key);
        if (q->text.len > API_REPLY_BYTES_MAX) {
            api_call_finish_too_large(c, q->text.len);
            return true;
        }
        buf_clear(&q->last);
        buf_append(&q->last, key);
    }
    return false;
}

static void answer_question(struct call *c)
{
    struct api *a = api_of(c);
    const struct pb_lease_time_to_live_request *request = c->request;
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));
    struct pb_lease_time_to_live_response response = {
        .header = &header, .id = request->id, .ttl = -1};
    struct lease_info info;

    bool found = lease_look(a->o.leases, request->id, a->facts->now_ms, &info);
    if (found) {
        response.ttl = info.remaining;
        response.granted_ttl = info.granted_ttl;
    }
    pb_encode_lease_time_to_live_response(&response, &c->question.text);
    if (!found || !request->keys || info.key_count == 0)
        finish_question(c);
    else if (!list_keys_step(c, API_FIRST_STEPS)) /* nearly all are of the header's revision */
        api_call_step_later(c, list_keys_step);
}

/* Keys hang on their lease as soon as an entry's slice has put them, and the entry is not done. */
static bool is_amid_entry(const struct call *c)
{
    const struct pb_lease_time_to_live_request *request = c->request;

    return request->keys && apply_is_busy(api_of(c)->o.apply);
}

/* A reply with so many keys, each with tag and length. */
static uint64_t question_bytes(const struct call *c)
{
    const struct pb_lease_time_to_live_request *request = c->request;
    struct lease_info info;

    if (!request->keys ||
        !lease_look(api_of(c)->o.leases, request->id, api_of(c)->facts->now_ms, &info))
        return 0;
    return HEADER_BYTES_MAX + LEASE_FIELDS_BYTES_MAX + info.key_bytes +
           info.key_count * KEY_FRONT_BYTES_MAX;
}

static void decide_question(struct call *c);

/* Time runs only where this member leads. And the keys may have become more since it was asked how
 * much they take. */
static bool question_is_decided(struct call *c)
{
    bool runs = lease_is_primary(api_of(c)->o.leases);

    if (runs && is_amid_entry(c))
        return false;
    api_call_stop_working(c);
    if (!runs)
        api_call_finish(c, RESULT_LEADER_CHANGED);
    else if (question_bytes(c) > c->reserved_bytes &&
             question_bytes(c) > c->base.method->reply_bytes)
        api_call_reserve(c, question_bytes(c) + question_bytes(c) / 4, decide_question);
    else
        answer_question(c);
    return true;
}

static void decide_question(struct call *c)
{
    api_call_wait(c, question_is_decided);
}

static void question_confirmed(struct call *c)
{
    api_call_wait(c, question_is_decided);
}

/* A quorum is asked as for renewals: a leader that was replaced counts a time that is not the
 * lease's any more. */
static void ask_question(struct call *c)
{
    const struct pb_lease_time_to_live_request *question = c->request;

    if (api_of(c)->facts->is_leader)
        api_call_read_index(c);
    else
        api_call_forward(c, &(struct api_forward){.kind = API_FORWARD_TIME_TO_LIVE,
                                                  .lease = question->id,
                                                  .with_keys = question->keys});
}

static void run_time_to_live(struct call *c, const void *request)
{
    (void)request;
    c->question.auth_revision = auth_revision(api_of(c)->o.auth);
    api_call_reserve(c, question_bytes(c), ask_question);
}

/* The leader may tell of keys that are not known here yet. */
static enum result decide_told(struct call *c, const struct pb_lease_time_to_live_response *told)
{
    struct auth *auth = api_of(c)->o.auth;
    enum result result = is_outdated(c) ? RESULT_AUTH_OLD_REVISION : api_call_decide(c, c->request);

    if (auth_decide(auth, &c->base.identity, RULE_ROOT, NULL) == AUTH_OK)
        return result;
    for (size_t i = 0; i < told->keys.count && result == RESULT_OK; i++)
        result = result_of_auth(auth_decide(auth, &c->base.identity, RULE_READ_RANGE,
                                            &(struct pb_range_request){.key = told->keys.at[i]}));
    return result;
}

/* The header is this member's. */
static void time_to_live_forwarded(struct call *c, const struct api_forwarded *f)
{
    struct api *a = api_of(c);
    const struct pb_lease_time_to_live_request *question = c->request;
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));
    struct pb_lease_time_to_live_response response = {.id = question->id, .ttl = -1};

    if (f->is_here) {
        api_call_read_index(c);
        return;
    }
    if (f->response)
        response = *f->response;
    enum result result = decide_told(c, &response);
    if (result != RESULT_OK) {
        api_call_finish(c, result);
        return;
    }
    response.header = &header;
    api_call_respond(c, &pb_lease_time_to_live_response_schema, &response);
}

static void free_question(struct call *c)
{
    buf_free(&c->question.text);
    buf_free(&c->question.last);
}

const struct handler api_lease_time_to_live = {
    .schema = &pb_lease_time_to_live_request_schema,
    .run = run_time_to_live,
    .confirmed = question_confirmed,
    .forwarded = time_to_live_forwarded,
    .released = free_question,
};

/* --- LeaseLeases --- */

enum { LEASE_BYTES_MAX = 1 + 1 + 1 + 10 }; /* a message of an id, which may be as long as ids get */

/* The reply, and what it is made from. */
static uint64_t lease_list_bytes(const struct call *c)
{
    const struct lease_set *leases = api_of(c)->o.leases;

    return HEADER_BYTES_MAX + lease_count(leases) * LEASE_BYTES_MAX + lease_listing_bytes(leases);
}

static void free_lease_list(struct call *c)
{
    lease_listing_end(c->lease_list.listing);
    buf_free(&c->lease_list.text);
    c->lease_list = (struct lease_list){0};
}

/* LeaseStatus{ID}, as field 2. */
static void append_lease(struct buf *out, int64_t id)
{
    uint8_t text[LEASE_BYTES_MAX];
    uint8_t *end = text + sizeof(text);
    uint8_t *at = pb_put_varint(end, (uint64_t)id);

    *--at = PB_TAG_VARINT(1);
    size_t len = (size_t)(end - at);
    *--at = (uint8_t)len;
    *--at = PB_TAG_BYTES(2);
    buf_append(out, bytes_of(at, len + 2));
}

/* May whoever asks see the keys of this lease? */
static enum result decide_lease(struct call *c, int64_t id)
{
    const struct pb_lease_time_to_live_request question = {.id = id, .keys = true};

    return result_of_auth(
        auth_decide(api_of(c)->o.auth, &c->base.identity, RULE_READ_LEASE, &question));
}

static void begin_lease_list(struct call *c);

static bool lease_list_step(struct call *c, unsigned steps)
{
    struct api *a = api_of(c);
    struct lease_list *list = &c->lease_list;
    int64_t id;

    if (list->state != a->state) { /* what was gathered is of leases that are no more */
        free_lease_list(c);
        api_call_stop_working(c);
        begin_lease_list(c);
        return true;
    }
    enum result result = api_call_decide(c, c->request);
    bool is_root = auth_decide(a->o.auth, &c->base.identity, RULE_ROOT, NULL) == AUTH_OK;
    if (result == RESULT_OK && !lease_listing_gather(list->listing, &steps))
        return false;
    for (; steps > 0 && result == RESULT_OK; steps--) {
        if (!lease_listing_next(list->listing, &id)) {
            api_call_respond_buf(c, &list->text);
            return true;
        }
        result = is_root ? RESULT_OK : decide_lease(c, id);
        append_lease(&list->text, id);
    }
    if (result != RESULT_OK)
        api_call_finish(c, result);
    return result != RESULT_OK;
}

/* Leases may have become more since the memory for their list was reserved. */
static void begin_lease_list(struct call *c)
{
    struct api *a = api_of(c);
    uint64_t bytes = lease_list_bytes(c);
    struct header_text text;

    if (bytes > c->reserved_bytes && bytes > c->base.method->reply_bytes) {
        api_call_reserve(c, bytes + bytes / 4, begin_lease_list);
        return;
    }
    c->lease_list.state = a->state;
    c->lease_list.listing = lease_listing_begin(a->o.leases);
    buf_reserve(&c->lease_list.text, HEADER_BYTES_MAX + lease_count(a->o.leases) * LEASE_BYTES_MAX);
    buf_append(&c->lease_list.text, api_header_encode(a, mvcc_revision(a->o.mvcc), &text));
    if (!lease_list_step(c, API_FIRST_STEPS))
        api_call_step_later(c, lease_list_step);
}

static void run_leases(struct call *c, const void *request)
{
    (void)request;
    api_call_reserve(c, lease_list_bytes(c), begin_lease_list);
}

const struct handler api_lease_leases = {
    .schema = &pb_lease_leases_request_schema,
    .run = run_leases,
    .released = free_lease_list,
};
