/* Calls: which comes next, who waits for what, and what the answers say. */
#include "sim/actor_int.h"

enum {
    PATIENCE_MS_MAX = 15, /* of one that leaves before it is answered */
    CROWD_CALLS_MAX = 60, /* usually; now and then as many as there may be */
    FUTURE = 1000000,     /* revisions ahead: nobody gets there */
};

/* What it does, of a hundred times. */
struct habits {
    unsigned puts, deletes, txns, reads, compactions, leases, herds, herd_deletes, groups;
};

static const struct habits habits_of[] = {
    [ACTOR_WRITER] = {35, 10, 15, 28, 3, 9, 0, 0, 0},
    [ACTOR_HERDER] = {12, 4, 6, 8, 10, 10, 30, 20, 0},
    [ACTOR_CROWD] = {20, 5, 5, 20, 5, 0, 0, 0, 45},
    [ACTOR_READER] = {12, 5, 3, 74, 3, 3, 0, 0, 0},
    [ACTOR_LESSEE] = {20, 5, 5, 8, 2, 60, 0, 0, 0},
    [ACTOR_POLLER] = {0, 0, 0, 100, 0, 0, 0, 0, 0},
    [ACTOR_KEEPER] = {0, 0, 0, 0, 0, 100, 0, 0, 0},
    [ACTOR_OPERATOR] = {0}, /* operator.c */
    [ACTOR_ADMINISTRATOR] = {0},
};

bool actor_is_writer(const struct actor *a)
{
    return a->o.kind != ACTOR_WITNESS && a->o.kind != ACTOR_WATCHER;
}

/* --- asking --- */

/* One that is free; there is one. Most begin when none is under way, so the place to look first is
 * right. */
static struct asked *find_free(struct actor *a)
{
    size_t at = a->asked_count;

    assert(a->asked_count < a->asked_max);
    while (a->asked[at].call || a->asked[at].waits)
        at = (at + 1) % a->asked_max;
    return &a->asked[at];
}

/* The first that was sent; NULL: they all wait for a connection. */
static struct asked *find_sent(struct actor *a)
{
    for (size_t at = 0; at < a->asked_max; at++)
        if (a->asked[at].call)
            return &a->asked[at];
    return NULL;
}

/* Lessees and keepers keep their stream of renewals; they have one call under way at a time, so
 * each answer on it is that of the last request. Others have a stream for each. */
static struct client_call *send_renewal(struct actor *a, struct client_request *request,
                                        struct bytes wire)
{
    bool keeps = a->o.kind == ACTOR_LESSEE || a->o.kind == ACTOR_KEEPER;

    if (keeps && a->keepalive) {
        client_send(a->keepalive, wire);
        actor_limit(a);
        return a->keepalive;
    }
    if (keeps)
        request->timeout_ns = 0;
    struct client_call *call = client_start(a->client, request);
    client_send(call, wire);
    if (keeps) {
        a->keepalive = call;
        actor_limit(a);
    } else
        client_end(call);
    return call;
}

static uint64_t timeout_of(const struct actor *a, const struct asked *q)
{
    return q->is_backup ? BACKUP_S_MAX * NS_PER_S : a->call_timeout_ns;
}

static void send_asked(struct actor *a, struct asked *q)
{
    struct client_request request = actor_request(a, q->path);

    request.timeout_ns = timeout_of(a, q);
    request.context = q;
    q->waits = false;
    q->sends++;
    buf_clear(&a->backup);
    q->floor = a->conn_told;
    history_sent(a->h, q->op, (unsigned)a->server);
    login_sent(a, q, a->keepalive != NULL);
    if (history_op(a->h, q->op)->kind == OP_RENEW)
        q->call = send_renewal(a, &request, buf_bytes(&q->wire));
    else
        q->call = client_ask(a->client, &request, buf_bytes(&q->wire));
}

struct asked *writer_ask(struct actor *a, enum history_kind kind, const char *path,
                         const struct pb_schema *schema, const void *msg)
{
    struct asked *q = find_free(a);

    buf_free(&q->wire);
    *q = (struct asked){
        .path = path, .is_backup = path == operator_backup_path, .is_login = path == login_path};
    pb_encode(schema, msg, &q->wire);
    q->op = history_begin(a->h, kind, buf_bytes(&q->wire));
    a->asked_count++;
    send_asked(a, q);
    arena_reset(&a->arena);
    return q;
}

#define ASK(a, kind, path, name, ...)                                                              \
    writer_ask((a), (kind), (path), &pb_##name##_schema, &(struct pb_##name){__VA_ARGS__})

static void put(struct actor *a, const struct pb_put_request *request)
{
    int64_t lease = request->lease;
    struct asked *q =
        writer_ask(a, OP_PUT, "/etcdserverpb.KV/Put", &pb_put_request_schema, request);

    history_op(a->h, q->op)->lease = lease;
}

static void begin_put(struct actor *a)
{
    struct pb_put_request request = request_put(a);

    put(a, &request);
}

static void begin_delete(struct actor *a)
{
    struct pb_delete_range_request request = request_delete(a);

    writer_ask(a, OP_DELETE, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
               &request);
}

static void begin_read(struct actor *a)
{
    struct pb_range_request r = request_read(a);
    struct asked *q =
        writer_ask(a, OP_RANGE, "/etcdserverpb.KV/Range", &pb_range_request_schema, &r);

    q->stale = r.serializable;
    q->old_revision = r.revision;
}

static void read_everything(struct actor *a)
{
    ASK(a, OP_RANGE, "/etcdserverpb.KV/Range", range_request, .key = BYTES("k"),
        .range_end = BYTES("{"));
}

static bool are_serializable(const struct pb_request_op *ops, size_t count)
{
    bool all = true;

    for (size_t i = 0; i < count; i++)
        all &= ops[i].which == PB_OP_RANGE && ops[i].range->serializable;
    return all;
}

/* Serializable reads alone, in both branches, be they none, are answered by the member itself. */
static bool is_serializable(const struct pb_txn_request *txn)
{
    return are_serializable(txn->success.at, txn->success.count) &&
           are_serializable(txn->failure.at, txn->failure.count);
}

static void begin_txn(struct actor *a)
{
    struct pb_txn_request txn = request_txn(a);
    bool is_stale = is_serializable(&txn);
    struct asked *q = writer_ask(a, OP_TXN, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);

    q->stale = is_stale;
    q->old_revision = a->oldest_in_txn;
    history_op(a->h, q->op)->lease = a->lease; /* it may have named it */
}

/* --- many at once --- */

static void begin_herd(struct actor *a)
{
    int64_t lease = rng_chance(&a->rng, 1, 3) ? a->lease : 0;
    struct pb_txn_request txn = request_herd(a, lease);
    struct asked *q = writer_ask(a, OP_TXN, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);

    history_op(a->h, q->op)->lease = lease;
}

/* The delete is answered long before all its tombstones are stored: behind it, at once, a put and
 * a compaction. */
static void begin_herd_delete(struct actor *a)
{
    struct pb_delete_range_request request = request_herd_delete(a);

    writer_ask(a, OP_DELETE, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
               &request);
    a->haste = rng_chance(&a->rng, 1, 2) ? 2 : 0;
}

static void begin_crowd(struct actor *a)
{
    uint64_t max = rng_chance(&a->rng, 1, 20) ? CROWD_MAX : CROWD_CALLS_MAX;
    uint64_t count = rng_between(&a->rng, 1, max);

    for (uint64_t i = 0; i < count; i++) {
        struct pb_put_request request = request_small_put(a);
        put(a, &request);
    }
}

/* --- the rest of what it asks for --- */

static bool is_newest_deleted(const struct history *h)
{
    return h->event_count > 0 && h->events[h->event_count - 1].deleted;
}

/* Anywhere up to the newest revision, if the witness will survive it; below what it has seen
 * otherwise, and always if there are several members: it may be just about to leave its own for one
 * that has cut its history already. Where the newest is a delete it is often that one: nothing in
 * the store is newer than what the compaction might remove. */
static void begin_compaction(struct actor *a)
{
    struct history *h = a->h;
    bool is_future = rng_chance(&a->rng, 1, 12);
    bool at_newest = rng_chance(&a->rng, 1, 2);
    bool is_physical = rng_chance(&a->rng, 1, 4);
    int64_t newest = h->seen > 1 ? h->seen : 1;
    int64_t oldest = 1;

    if (h->told > newest && a->o.server_count == 1 && history_may_cut(h)) {
        oldest = at_newest ? h->told : newest;
        newest = h->told;
    }
    int64_t revision = (int64_t)rng_between(&a->rng, (uint64_t)oldest, (uint64_t)newest);
    if (is_newest_deleted(h) && rng_chance(&a->past, 1, 2))
        revision = newest;
    if (is_future)
        revision += FUTURE;
    else if (revision > h->compacted)
        h->compacted = revision;
    struct asked *q = ASK(a, OP_OTHER, "/etcdserverpb.KV/Compact", compaction_request,
                          .revision = revision, .physical = is_physical);
    q->is_future = is_future;
}

/* A keeper's lasts for longer than it takes to elect another leader, and that one extends it; and
 * than its own leader may stand still meanwhile. */
static void begin_grant(struct actor *a)
{
    bool keeps = a->o.kind == ACTOR_KEEPER;
    uint64_t least = keeps ? 3 : 1, most = keeps ? 6 : 5;

    if (keeps && a->o.standstill_ms > 0) {
        least = (4 * a->o.standstill_ms + 999) / 1000;
        most = (8 * a->o.standstill_ms + 999) / 1000;
    }
    ASK(a, OP_GRANT, "/etcdserverpb.Lease/LeaseGrant", lease_grant_request,
        .ttl = (int64_t)rng_between(&a->rng, least, most));
}

static void begin_renewal(struct actor *a)
{
    struct asked *q =
        writer_ask(a, OP_RENEW, "/etcdserverpb.Lease/LeaseKeepAlive",
                   &pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = a->lease});

    q->stale = a->o.server_count > 1; /* the header is the member's, from before it asked */
    history_op(a->h, q->op)->lease = a->lease;
}

/* A key shows when the lease ends. */
static void keep_lease(struct actor *a)
{
    if (rng_chance(&a->rng, 1, 20))
        a->lease = 0; /* may it expire */
    if (a->lease == 0) {
        a->is_kept = false;
        begin_grant(a);
    } else if (!a->is_kept) {
        a->is_kept = true;
        begin_put(a);
    } else
        begin_renewal(a);
}

static void begin_lease(struct actor *a)
{
    struct history_lease *l = history_lease(a->h, a->lease);
    uint64_t dice = rng_below(&a->rng, 6);
    struct asked *q;

    if (a->o.kind == ACTOR_KEEPER)
        keep_lease(a);
    else if (a->lease == 0 || dice == 0)
        begin_grant(a);
    else if (dice == 1) {
        if (l)
            l->may_be_revoked = true;
        q = writer_ask(a, OP_REVOKE, "/etcdserverpb.Lease/LeaseRevoke",
                       &pb_lease_revoke_request_schema, &(struct pb_lease_id){.id = a->lease});
        history_op(a->h, q->op)->lease = a->lease;
        a->lease = 0;
    } else if (dice == 2) {
        q = ASK(a, OP_KEYS, "/etcdserverpb.Lease/LeaseTimeToLive", lease_time_to_live_request,
                .id = a->lease, .keys = true);
        q->stale =
            a->o.server_count > 1; /* the header is the member's, the keys are the leader's */
    } else
        begin_renewal(a);
}

/* The member was full. That it is not any more need not be true: then it says so again. */
static void disarm(struct actor *a)
{
    a->disarms = false;
    ASK(a, OP_OTHER, "/etcdserverpb.Maintenance/Alarm", alarm_request,
        .action = PB_ALARM_DEACTIVATE, .alarm = PB_ALARM_NOSPACE);
}

static void begin_by_habit(struct actor *a)
{
    const struct habits *habits = &habits_of[a->o.kind];
    uint64_t dice = rng_below(&a->rng, 100);
    const struct {
        unsigned percent;
        void (*begin)(struct actor *a);
    } all[] = {
        {habits->puts, begin_put},
        {habits->deletes, begin_delete},
        {habits->txns, begin_txn},
        {habits->reads, begin_read},
        {habits->compactions, begin_compaction},
        {habits->leases, begin_lease},
        {habits->herds, begin_herd},
        {habits->herd_deletes, begin_herd_delete},
        {habits->groups, begin_crowd},
    };

    size_t i = 0;

    while (dice >= all[i].percent) {
        dice -= all[i++].percent;
        assert(i < ARRAY_LEN(all)); /* they are a hundred together */
    }
    all[i].begin(a);
}

static void begin_something(struct actor *a)
{
    if (login_is_due(a))
        login_begin(a);
    else if (a->disarms)
        disarm(a);
    else if (a->o.kind == ACTOR_OPERATOR)
        operator_begin(a);
    else if (a->o.kind == ACTOR_ADMINISTRATOR)
        administrator_begin(a);
    else if (a->haste == 2)
        begin_put(a);
    else if (a->haste == 1)
        begin_compaction(a);
    else if (a->o.kind == ACTOR_WRITER && a->o.has_herd && rng_chance(&a->rng, 1, 12))
        begin_herd(a);
    else
        begin_by_habit(a);
    if (a->haste > 0 && !a->disarms)
        a->haste--;
    a->calls++;
    a->impatient = rng_chance(&a->rng, 1, 30);
    if (a->impatient)
        actor_wait_ms(a, PATIENCE_MS_MAX);
    else if (a->o.kind == ACTOR_POLLER)
        actor_wait_ms(a, a->o.pause_ms_max);
}

/* --- answers --- */

/* What leases are told beyond their header. */
static void hear_of_lease(struct actor *a, uint64_t op, struct bytes message, struct arena *arena)
{
    const struct history_op *o = history_op(a->h, op);
    struct pb_lease_grant_response granted = {0};
    struct pb_lease_keep_alive_response renewed = {0};

    if (o->kind == OP_GRANT) {
        if (pb_decode_lease_grant_response(message, arena, &granted) != ERR_OK)
            history_fail(a->h, "a grant cannot be decoded");
        history_granted(a->h, op, granted.id, granted.ttl);
        a->lease = granted.id;
    } else if (o->kind == OP_RENEW) {
        if (pb_decode_lease_keep_alive_response(message, arena, &renewed) != ERR_OK)
            history_fail(a->h, "a renewal cannot be decoded");
        history_renewed(a->h, op, o->lease, renewed.ttl);
        if (renewed.ttl <= 0)
            a->lease = 0;
    }
}

/*
 * A keeper that renewed all the time would never notice that one renewal was worth nothing. Nor
 * would it be told anything worthless: time is promised from when it is asked for, and whoever asks
 * a leader that has just stopped asks before another leads.
 */
static void wait_for_next(struct actor *a)
{
    const struct history_lease *l = a->is_kept ? history_lease(a->h, a->lease) : NULL;

    if (a->haste > 0)
        actor_wait_ms(a, 0);
    else if (a->o.kind == ACTOR_OPERATOR)
        actor_wait_ms(a, OPERATOR_PAUSE_MS_MAX);
    else if (l && a->o.renews_late)
        actor_wait_between_ms(a, (uint64_t)l->ttl * 1000 - 200, (uint64_t)l->ttl * 1000 + 800);
    else if (l)
        actor_wait_between_ms(a, (uint64_t)l->ttl * 750, (uint64_t)l->ttl * 1000);
    else
        actor_wait_ms(a, a->o.pause_ms_max);
}

static void call_over(struct actor *a, struct asked *q)
{
    assert(q->call || q->waits);
    login_over(a, q);
    q->call = NULL;
    q->waits = false;
    a->asked_count--;
    if (a->asked_count == 0)
        wait_for_next(a);
}

static void check_header(struct actor *a, const struct asked *q, int64_t revision)
{
    if (revision < q->floor)
        history_fail(a->h,
                     "member %zu said it was at revision %" PRId64
                     ", and then, on the same connection, at %" PRId64,
                     a->server, q->floor, revision);
    if (revision > a->conn_told)
        a->conn_told = revision;
}

void writer_answered(struct actor *a, struct asked *q, struct bytes message)
{
    struct pb_header_response any = {0}; /* the header is field 1 of all of them */
    struct arena arena = {0};

    if (q->is_backup) {
        operator_hears_piece(a, message);
        return;
    }
    enum err e = pb_decode(&pb_lease_revoke_response_schema, message, &arena, &any);

    if (e == ERR_OK && any.header && !q->is_headless) {
        a->ids[a->server] = any.header->member_id;
        check_header(a, q, any.header->revision);
        hear_of_lease(a, q->op, message, &arena);
        if (history_op(a->h, q->op)->kind == OP_HASH_KV)
            operator_hashed(a, q, message);
        history_done(a->h, q->op, any.header->revision, message, q->stale);
    } else if (e == ERR_OK && !any.header && q->is_headless)
        history_done(a->h, q->op, history_op(a->h, q->op)->floor, message, true);
    else
        history_fail(a->h, "an result of %s cannot be decoded", q->path);
    if (q->is_future)
        history_fail(a->h, "a compaction was taken at a revision that is to come");
    if (q->is_login)
        login_answered(a, q, message);
    else if (a->o.kind == ACTOR_ADMINISTRATOR)
        administrator_answered(a, q, message);
    a->final_done |= a->reads_final && !q->is_login;
    arena_free(&arena);
    if (q->call == a->keepalive)
        call_over(a, q); /* the stream stays */
}

/* --- errors --- */

/* By a member that has much to apply: it came back, or its store has hung for a while. */
static bool is_too_many(struct bytes text)
{
    return bytes_equal(text, BYTES("etcdserver: too many requests"));
}

/* Does it go through raft? Others wait for nothing that would have to be applied first. */
static bool is_proposed(const struct history_op *o)
{
    return o->kind == OP_PUT || o->kind == OP_DELETE || o->kind == OP_TXN || o->kind == OP_GRANT ||
           o->kind == OP_REVOKE || o->kind == OP_OTHER;
}

/* By the member's own raft, while leadership is handed over: it is not even in its log. */
static bool is_dropped(struct bytes text)
{
    return bytes_equal(text, BYTES("raft proposal dropped"));
}

/* Leadership cannot be handed over by somebody who does not have it, or is not handed over. */
static bool is_not_leader(struct bytes text)
{
    return bytes_equal(text, BYTES("etcdserver: not leader"));
}

/* Only where members come and go is there one. */
static bool is_learners(const struct actor *a, struct bytes text)
{
    return a->o.endpoints && bytes_equal(text, BYTES("etcdserver: rpc not supported for learner"));
}

/* Whoever is to lead may have been removed, or is a learner. */
static bool is_bad_transferee(const struct actor *a, struct bytes text)
{
    return a->o.endpoints && bytes_equal(text, BYTES("etcdserver: bad leader transferee"));
}

static bool is_slow_transfer(struct bytes text)
{
    return bytes_equal(text, BYTES("etcdserver: request timed out, leader transfer took too long"));
}

/* A defragmentation that could not make its copy has ended, and nothing else. */
static bool is_disks_error(struct bytes text)
{
    return bytes_equal(text, BYTES("no space left on device")) ||
           bytes_equal(text, BYTES("input/output error"));
}

/* What is damaged is not shown to anybody. */
static bool is_ended_backup(struct bytes text)
{
    struct bytes begin = BYTES("etcdserver: snapshot ended early: ");

    return text.len > begin.len && memcmp(text.at, begin.at, begin.len) == 0;
}

/* It believed to lead, and could not make sure. */
static bool is_not_primary(struct bytes text)
{
    return bytes_equal(text, BYTES("not a primary lessor"));
}

/* Is its time up by a server's clock that goes as fast as one may? Then a response that has not
 * left yet is broken off. On the wire a timeout has whole milliseconds. */
static bool may_be_late(const struct actor *a, const struct asked *q, const struct history_op *o)
{
    uint64_t timeout_ns = timeout_of(a, q);
    uint64_t early_ns = timeout_ns / 1000000 * a->h->clock_ppm_max + NS_PER_MS;

    return a->h->now_ns - o->began_ns + early_ns >= timeout_ns;
}

/* Errors that a correct server may give here. */
static bool is_expected(struct actor *a, const struct asked *q, const struct client_event *e)
{
    const struct history_op *o = history_op(a->h, q->op);

    switch (e->code) {
    case RPC_UNAVAILABLE:
    case RPC_DEADLINE_EXCEEDED:
        return true;
    case RPC_OUT_OF_RANGE: /* compacted, or not there yet: for a member that is behind */
        return o->kind == OP_OTHER || (q->old_revision > 0 && q->old_revision < a->h->compacted) ||
               (q->old_revision > 0 && q->stale && a->o.server_count > 1);
    case RPC_NOT_FOUND: /* the lease has expired */
        return o->lease != 0;
    case RPC_RESOURCE_EXHAUSTED: /* no space */
        return a->o.has_quota;
    case RPC_CANCELED:
        return may_be_late(a, q, o);
    case RPC_UNKNOWN: /* these have no code of their own in etcd */
        return is_dropped(e->text) || (is_proposed(o) && is_too_many(e->text)) ||
               (o->kind == OP_RENEW && is_not_primary(e->text)) ||
               (q->is_headless && a->o.disk_may_fail && is_disks_error(e->text)) ||
               (q->is_backup && a->o.disk_may_fail && is_ended_backup(e->text)) ||
               (o->kind == OP_MAINTENANCE && is_slow_transfer(e->text));
    case RPC_FAILED_PRECONDITION:
        return is_learners(a, e->text) ||
               (o->kind == OP_MAINTENANCE &&
                (is_not_leader(e->text) || is_bad_transferee(a, e->text)));
    default:
        return false;
    }
}

/*
 * Errors that say for certain that it has not happened: it was refused before it was proposed, or
 * when it was applied. All that may also be said while it is on its way to somewhere leave it
 * unknown: no leader, leader changed, timed out, stopped, and whatever a connection may end with.
 * One that the store had no space for is told so even if it was the one that filled it. And what
 * was sent more than once may have happened before it was refused, or be refused because it has
 * happened: a lease that is not there to be revoked.
 */
bool writer_is_refusal(enum rpc_code code, struct bytes text, bool repeated)
{
    switch (code) {
    case RPC_OUT_OF_RANGE:
        return true;
    case RPC_NOT_FOUND:
        return !repeated;
    case RPC_UNKNOWN:
        return !repeated && (is_dropped(text) || is_too_many(text));
    default:
        return false;
    }
}

/* What etcd's clients send again when it may have been sent before. */
static bool may_send_again(const struct actor *a, const struct asked *q)
{
    enum history_kind kind = history_op(a->h, q->op)->kind;

    return q->sends < SENDS_MAX && !history_op(a->h, q->op)->done &&
           (kind == OP_RANGE || kind == OP_KEYS || kind == OP_GRANT || kind == OP_REVOKE ||
            kind == OP_RENEW || kind == OP_HASH_KV || kind == OP_MAINTENANCE);
}

/* Its answer will not come from there. */
static void send_again_or_give_up(struct actor *a, struct asked *q)
{
    assert(q->call);
    if (may_send_again(a, q)) {
        q->call = NULL;
        q->waits = true;
        actor_wait_ms(a, PAUSE_MS_MAX);
        return;
    }
    if (!history_op(a->h, q->op)->done)
        history_gave_up(a->h, q->op);
    call_over(a, q);
}

/* Somebody else may be able to answer. */
static bool is_elsewhere(const struct actor *a, const struct client_event *e)
{
    return e->code == RPC_UNAVAILABLE || (e->code == RPC_UNKNOWN && is_not_primary(e->text)) ||
           (e->code == RPC_FAILED_PRECONDITION &&
            (is_not_leader(e->text) || is_learners(a, e->text)));
}

static void call_failed(struct actor *a, struct asked *q, const struct client_event *e)
{
    struct history_op *o = history_op(a->h, q->op);
    bool is_auths = login_hears_refusal(a, q, e->text);

    is_auths |= administrator_hears_refusal(a, q, e);
    if (is_auths) {
        /* What was sent before may have happened all the same. */
        if (o->repeated)
            history_gave_up(a->h, q->op);
        else
            history_refused(a->h, q->op);
        call_over(a, q);
        return;
    }
    if (!is_expected(a, q, e))
        history_fail(a->h, "%s failed with %d: %.*s", q->path, e->code, (int)e->text.len,
                     e->text.at);
    if (is_elsewhere(a, e)) {
        send_again_or_give_up(a, q);
        return;
    }
    a->disarms |= e->code == RPC_RESOURCE_EXHAUSTED;
    if (e->code == RPC_NOT_FOUND) {
        history_lease_is_gone(a->h, o->lease);
        a->lease = 0;
    }
    if (writer_is_refusal(e->code, e->text, o->repeated))
        history_refused(a->h, q->op);
    else
        history_gave_up(a->h, q->op);
    call_over(a, q);
}

/* Elsewhere it may be better. Others that are under way here would be lost with the connection. */
static void leave(struct actor *a)
{
    if (a->client && a->o.server_count > 1 && !find_sent(a) && rng_chance(&a->rng, 1, 2))
        actor_lost(a);
}

void writer_call_ended(struct actor *a, struct asked *q, const struct client_event *e)
{
    bool is_bad = is_elsewhere(a, e) || e->code == RPC_DEADLINE_EXCEEDED;

    if (e->call == a->keepalive)
        a->keepalive = NULL;
    if (q->call != e->call)
        return; /* a stream of renewals, and nobody waits on it */
    if (e->code != RPC_OK)
        call_failed(a, q, e);
    else {
        if (q->is_backup)
            operator_has_backup(a, q);
        call_over(a, q);
    }
    if (is_bad)
        leave(a);
}

void writer_limit_reached(struct actor *a)
{
    struct asked *q = find_sent(a);

    if (!a->keepalive || !q || q->call != a->keepalive)
        return;
    client_cancel(a->keepalive);
    a->keepalive = NULL;
    send_again_or_give_up(a, q);
    leave(a);
}

void writer_lost(struct actor *a)
{
    a->keepalive = NULL;
    for (size_t i = 0; i < a->asked_max && a->asked_count > 0; i++)
        if (a->asked[i].call)
            send_again_or_give_up(a, &a->asked[i]);
    a->haste = 0;
}

/* --- the turn --- */

/* Leaves in the middle of a call: the call alone, or with the whole connection, or it is torn. */
static void lose_patience(struct actor *a)
{
    struct asked *q = find_sent(a);

    a->impatient = false;
    if (!q || history_op(a->h, q->op)->done)
        return; /* it was not even sent, or only its end is missing */
    switch (rng_below(&a->rng, 3)) {
    case 0:
        if (q->call == a->keepalive)
            a->keepalive = NULL;
        client_cancel(q->call);
        history_gave_up(a->h, q->op);
        call_over(a, q);
        break;
    case 1:
        actor_lost(a);
        break;
    default:
        if (client_conn(a->client))
            fake_wire_reset(client_conn(a->client));
        break;
    }
}

/* Those who write much wait while a compaction is under way above what the witness has seen: it
 * has to be live when history is cut. */
static bool has_to_wait(const struct actor *a)
{
    bool writes_much = a->o.has_herd || a->o.kind == ACTOR_CROWD;

    return writes_much && a->haste == 0 && a->h->compacted > a->h->seen;
}

/* After a while, as clients do that do not want to make matters worse. */
static void send_waiting(struct actor *a)
{
    for (size_t i = 0; i < a->asked_max; i++)
        if (a->asked[i].waits)
            send_asked(a, &a->asked[i]);
}

static bool has_waiting(const struct actor *a)
{
    for (size_t i = 0; i < a->asked_max && a->asked_count > 0; i++)
        if (a->asked[i].waits)
            return true;
    return false;
}

/* A poller does not wait for one result before it asks again. */
static bool may_begin(const struct actor *a)
{
    return a->asked_count == 0 ||
           (a->o.kind == ACTOR_POLLER && a->asked_count < a->asked_max && !a->winding_down);
}

void writer_turn(struct actor *a)
{
    if (a->timer_due && has_waiting(a)) {
        send_waiting(a);
        return;
    }
    if (a->asked_count > 0 && a->impatient && a->timer_due && !a->winding_down)
        lose_patience(a);
    if (!a->is_open || !may_begin(a) || !a->timer_due)
        return;
    if (!a->winding_down && has_to_wait(a))
        actor_wait_ms(a, a->o.pause_ms_max);
    else if (!a->winding_down)
        begin_something(a);
    else if (a->reads_final && !a->final_done && login_is_due(a))
        login_begin(a);
    else if (a->reads_final && !a->final_done)
        read_everything(a);
}
