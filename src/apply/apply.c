#include "apply/apply_int.h"

#include "base/mem.h"

/* ---- Opening ---- */

enum err apply_open(const struct apply_options *options, struct buf *why, struct apply **out)
{
    struct apply *a = mem_new(struct apply);

    a->o = *options;
    if (a->o.quota_bytes == 0)
        a->o.quota_bytes = APPLY_QUOTA_BYTES_DEFAULT;
    a->work.apply = a;
    enum err e = alarms_load(&a->alarms, a->o.backend, why);
    if (e != ERR_OK) {
        apply_close(a);
        return e;
    }
    struct auth_leases leases = users_leases(a);
    auth_use_leases(a->o.auth, &leases);
    admin_note_version(a);
    *out = a;
    return ERR_OK;
}

static void forget_entry(struct apply *a)
{
    reply_free(&a->effects.reply);
    blob_unref(a->blob);
    a->blob = NULL;
    arena_reset(&a->arena);
}

void apply_close(struct apply *a)
{
    if (!a)
        return;
    assert(a->reads == 0);
    work_abandon(&a->work);
    work_free(&a->work);
    mem_free(a->spare_read);
    forget_entry(a);
    arena_free(&a->arena);
    alarms_free(&a->alarms);
    mem_free(a);
}

struct apply_stats *apply_stats(struct apply *a)
{
    return &a->stats;
}

void apply_use_tokens(struct apply *a, struct auth_tokens *tokens)
{
    a->o.tokens = tokens;
}

uint64_t apply_auth_revision(const struct apply *a)
{
    return auth_revision(a->o.auth);
}

unsigned apply_kind(const struct pb_internal_raft_request *request)
{
    return request_kind(request);
}

/* "lease_grant" is "LeaseGrant". */
void apply_kind_name(unsigned kind, struct buf *out)
{
    assert(kind < APPLY_KINDS);
    bool starts = true;

    for (const char *at = request_name((enum request_kind)kind); *at; at++) {
        if (*at != '_')
            buf_append_byte(out, (uint8_t)(starts ? *at - 'a' + 'A' : *at));
        starts = *at == '_';
    }
}

void apply_describe(const struct apply *a, struct buf *out)
{
    assert(a->state != APPLY_IDLE);
    if (a->effects.kind < APPLY_KINDS)
        pb_describe(&pb_internal_raft_request_schema, &a->request, out);
}

size_t apply_alarms(const struct apply *a, const struct apply_alarm **out)
{
    *out = a->alarms.at;
    return a->alarms.count;
}

bool apply_has_alarm(const struct apply *a, struct apply_alarm alarm)
{
    return alarms_have(&a->alarms, alarm);
}

/* ---- What cannot be executed ---- */

static void stop(struct apply *a, const char *text)
{
    a->state = APPLY_REFUSED;
    if (!a->o.on_refused)
        fatal("%s", text);
    a->o.on_refused(a->o.context, text);
}

void apply_refuse(struct apply *a, const char *format, ...)
{
    struct buf text = {0};
    va_list args;

    buf_printf(&text,
               "entry %llu of term %llu cannot be applied: ", (unsigned long long)a->effects.index,
               (unsigned long long)a->effects.term);
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    stop(a, buf_str(&text));
    buf_free(&text);
}

bool apply_decode_kv(struct apply *a, struct bytes stored, struct pb_key_value *out)
{
    enum err e = pb_decode_key_value(stored, &a->arena, out); /* which needs no arena */

    if (e != ERR_OK)
        stop(a, "the store holds a KeyValue that cannot be decoded");
    return e == ERR_OK;
}

bool apply_read_kv(struct apply *a, struct revision at, struct buf *space, struct pb_key_value *out)
{
    buf_clear(space);
    mvcc_read_kv(a->o.mvcc, at, space);
    return apply_decode_kv(a, buf_bytes(space), out);
}

/* ---- Beginning ---- */

static bool decode_conf_change(struct apply *a, const struct raft_entry *entry)
{
    struct apply_effects *e = &a->effects;

    if (entry->type != RAFT_ENTRY_CONF_CHANGE ||
        !raft_conf_change_decode(entry->data, &e->conf_change)) {
        apply_refuse(a, "it is a conf change that cannot be understood");
        return false;
    }
    e->is_conf_change = true;
    e->id = e->conf_change.id;
    return true;
}

static void refuse_unknown(struct apply *a, struct bytes data)
{
    if (request_is_v2(data))
        apply_refuse(a, "it is a request of the v2 API, which etcd 3.7 does not execute either");
    else
        apply_refuse(a, "it holds no request that is known here");
}

static bool decode_request(struct apply *a, struct bytes data)
{
    enum err e = pb_decode_internal_raft_request(data, &a->arena, &a->request);

    if (e != ERR_OK && !request_is_v2(data)) {
        apply_refuse(a, "it cannot be decoded: %s", err_text(e));
        return false;
    }
    a->kind = e == ERR_OK ? request_kind(&a->request) : REQUEST_COUNT;
    if (a->kind == REQUEST_COUNT) {
        refuse_unknown(a, data);
        return false;
    }
    a->effects.kind = a->kind;
    if (!a->request.id && !a->request.header) {
        apply_refuse(a, "it has no header");
        return false;
    }
    a->effects.id = a->request.id ? a->request.id : a->request.header->id;
    return true;
}

static bool decode(struct apply *a, const struct raft_entry *entry)
{
    if (entry->type != RAFT_ENTRY_NORMAL)
        return decode_conf_change(a, entry);
    a->effects.no_op = entry->data.len == 0;
    return a->effects.no_op || decode_request(a, entry->data);
}

/* Applied before a restart, and in the log still. Its conf change is told for the peers' sake. */
static void skip(struct apply *a, const struct raft_entry *entry)
{
    struct apply_effects *e = &a->effects;

    a->state = APPLY_DONE;
    e->skip_raft = true;
    e->no_op = entry->type == RAFT_ENTRY_NORMAL && entry->data.len == 0;
    if (entry->type == RAFT_ENTRY_NORMAL || !decode_conf_change(a, entry))
        return;
    e->removed_self =
        e->conf_change.type == RAFT_REMOVE_NODE && e->conf_change.node_id == a->o.own_id;
}

uint64_t apply_begin(struct apply *a, const struct raft_entry *entry, uint64_t now_ms)
{
    uint64_t applied = backend_applied(a->o.backend).index;
    assert(a->state == APPLY_IDLE);
    assert(entry->index <= applied + 1);

    a->effects =
        (struct apply_effects){.index = entry->index, .term = entry->term, .kind = APPLY_KIND_NONE};
    a->blob = blob_ref(entry->blob);
    a->now_ms = now_ms;
    a->awaited = a->over_quota = false;
    a->state = APPLY_BEGUN;
    if (entry->index <= applied) {
        skip(a, entry);
        return 0; /* whoever waited for it did so in another life */
    }
    if (!decode(a, entry))
        return 0;
    /* Only now: while an entry is open nothing can be committed, and one that is refused above must
     * not keep what came before it from the disk. */
    backend_entry_begin(a->o.backend);
    a->in_entry = true;
    return a->effects.id;
}

void apply_make_reply(struct apply *a)
{
    assert(a->state == APPLY_BEGUN); /* what is executed already has made none */
    assert(a->effects.id != 0);

    a->awaited = true;
}

bool apply_is_busy(const struct apply *a)
{
    return a->state != APPLY_IDLE;
}

/* ---- The stages ---- */

static enum result corrupt_alarm(const struct apply *a)
{
    if (a->alarms.corrupt == 0)
        return RESULT_OK;
    switch (a->kind) {
    case REQUEST_RANGE:
    case REQUEST_PUT:
    case REQUEST_DELETE_RANGE:
    case REQUEST_TXN:
    case REQUEST_COMPACTION:
    case REQUEST_LEASE_GRANT:
    case REQUEST_LEASE_REVOKE:
        return RESULT_CORRUPT;
    default: /* what repairs things, and what does not touch them */
        return RESULT_OK;
    }
}

static enum result no_space_alarm(const struct apply *a)
{
    if (a->alarms.no_space == 0)
        return RESULT_OK;
    bool takes_space = a->kind == REQUEST_PUT || a->kind == REQUEST_LEASE_GRANT ||
                       (a->kind == REQUEST_TXN && txn_cost(a->request.txn) > 0);
    return takes_space ? RESULT_NO_SPACE : RESULT_OK;
}

static enum result admit(struct apply *a)
{
    enum result result = corrupt_alarm(a);

    if (result == RESULT_OK)
        result = no_space_alarm(a);
    if (result == RESULT_OK)
        result = request_authorize(a->o.auth, a->kind, &a->request);
    /* Against the store as it is before, as in etcd: the estimate stands for all that comes on top.
     */
    if (result == RESULT_OK)
        a->over_quota = apply_over_quota(a, &a->request);
    return result;
}

/* ---- Executing ---- */

static void begin_work(struct apply *a)
{
    const struct pb_internal_raft_request *r = &a->request;
    struct work *w = &a->work;

    w->txn = a->kind == REQUEST_TXN ? r->txn : NULL;
    w->writes = a->kind != REQUEST_RANGE && !(w->txn && apply_txn_is_read_only(w->txn));
    w->reply = a->awaited ? &a->effects.reply : NULL;
    if (a->kind == REQUEST_RANGE)
        w->single = (struct pb_request_op){.which = PB_OP_RANGE, .range = r->range};
    else if (a->kind == REQUEST_PUT)
        w->single = (struct pb_request_op){.which = PB_OP_PUT, .put = r->put};
    else if (a->kind == REQUEST_DELETE_RANGE)
        w->single =
            (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = r->delete_range};
    work_begin(w);
}

static bool execute_work(struct apply *a, unsigned *steps)
{
    if (!work_some(&a->work, steps))
        return false;
    a->effects.result = a->work.result;
    work_end(&a->work, &a->effects.changes);
    return true;
}

static bool execute(struct apply *a, unsigned *steps)
{
    switch (a->kind) {
    case REQUEST_RANGE:
    case REQUEST_PUT:
    case REQUEST_DELETE_RANGE:
    case REQUEST_TXN:
        return execute_work(a, steps);
    case REQUEST_LEASE_REVOKE:
        return admin_lease_revoke(a, steps);
    case REQUEST_LEASE_CHECKPOINT:
        return admin_lease_checkpoint(a, steps);
    case REQUEST_COMPACTION:
        admin_compaction(a);
        return true;
    case REQUEST_LEASE_GRANT:
        admin_lease_grant(a);
        return true;
    case REQUEST_ALARM:
        admin_alarm(a);
        return true;
    case REQUEST_CLUSTER_VERSION_SET:
        admin_cluster_version_set(a);
        return true;
    case REQUEST_CLUSTER_MEMBER_ATTR_SET:
        admin_cluster_member_attr_set(a);
        return true;
    case REQUEST_DOWNGRADE_INFO_SET:
        admin_downgrade_info_set(a);
        return true;
    case REQUEST_AUTHENTICATE:
    case REQUEST_AUTH_ENABLE:
    case REQUEST_AUTH_DISABLE:
    case REQUEST_AUTH_STATUS:
    case REQUEST_AUTH_USER_ADD:
    case REQUEST_AUTH_USER_DELETE:
    case REQUEST_AUTH_USER_CHANGE_PASSWORD:
    case REQUEST_AUTH_USER_GRANT_ROLE:
    case REQUEST_AUTH_USER_REVOKE_ROLE:
    case REQUEST_AUTH_USER_GET:
    case REQUEST_AUTH_USER_LIST:
    case REQUEST_AUTH_ROLE_ADD:
    case REQUEST_AUTH_ROLE_GRANT_PERMISSION:
    case REQUEST_AUTH_ROLE_REVOKE_PERMISSION:
    case REQUEST_AUTH_ROLE_DELETE:
    case REQUEST_AUTH_ROLE_GET:
    case REQUEST_AUTH_ROLE_LIST:
        users_execute(a);
        return true;
    case REQUEST_DOWNGRADE_VERSION_TEST: /* does nothing, but must not stop anybody */
        return true;
    case REQUEST_COUNT:
        break;
    }
    unreachable();
}

static bool is_work(enum request_kind kind)
{
    return kind == REQUEST_RANGE || kind == REQUEST_PUT || kind == REQUEST_DELETE_RANGE ||
           kind == REQUEST_TXN;
}

/* Through the stages up to the last; false: that was all. */
static bool begin_executing(struct apply *a)
{
    a->checkpoint_at = 0;
    a->effects.result = admit(a);
    if (a->effects.result != RESULT_OK)
        return false;
    if (is_work(a->kind))
        begin_work(a);
    return true;
}

static bool execute_some(struct apply *a, unsigned *steps)
{
    if (a->effects.no_op)
        return true;
    if (a->effects.is_conf_change) {
        admin_conf_change(a, &a->effects.conf_change);
        return true;
    }
    if (a->state == APPLY_BEGUN && !begin_executing(a))
        return true;
    a->state = APPLY_EXECUTING;
    return execute(a, steps);
}

/* ---- Ending ---- */

static void finish(struct apply *a)
{
    struct apply_effects *e = &a->effects;

    a->state = APPLY_DONE;
    e->revision = mvcc_revision(a->o.mvcc);
    if (e->result == RESULT_OK && a->over_quota) {
        e->result = RESULT_NO_SPACE; /* although it is done: see apply.h */
        e->quota_exceeded = true;
    }
    if (e->result != RESULT_OK)
        reply_free(&e->reply);
}

bool apply_some(struct apply *a, unsigned steps)
{
    assert(a->state != APPLY_IDLE);
    assert(steps > 0);

    if (a->state == APPLY_DONE)
        return true;
    if (a->state == APPLY_REFUSED || !execute_some(a, &steps) || a->state == APPLY_REFUSED)
        return false;
    finish(a);
    return true;
}

struct apply_effects *apply_effects(struct apply *a)
{
    assert(a->state == APPLY_DONE);
    return &a->effects;
}

void apply_end(struct apply *a, struct bytes conf_state)
{
    assert(a->state == APPLY_DONE);

    if (a->in_entry)
        backend_entry_end(a->o.backend,
                          (struct backend_position){a->effects.index, a->effects.term}, conf_state);
    a->in_entry = false;
    a->state = APPLY_IDLE;
    forget_entry(a); /* last: the reply and the changes that were shown lie in it */
}

/* The scans of a half-made reply go with it: they would keep the old state from ending. */
void apply_give_up(struct apply *a)
{
    assert(a->state != APPLY_DONE); /* its effects were never told, and watchers would miss them */

    work_abandon(&a->work);
    forget_entry(a);
    a->revoking = false;
    a->state = APPLY_REPLACED;
}

bool apply_is_reading(const struct apply *a)
{
    return a->reads > 0;
}

void apply_check(const struct apply *a)
{
    alarms_check(&a->alarms);
    work_check(&a->work);
    assert(a->o.quota_bytes != 0);
    switch (a->state) {
    case APPLY_IDLE:
        assert(!a->in_entry);
        break;
    case APPLY_BEGUN:
    case APPLY_EXECUTING:
        assert(a->in_entry);
        break;
    case APPLY_DONE:
        assert(a->in_entry == !a->effects.skip_raft);
        break;
    case APPLY_REFUSED: /* before or after the entry was begun */
    case APPLY_REPLACED:
        break;
    }
    assert(!a->revoking || a->state == APPLY_EXECUTING);
}
