/*
 * Maintenance: how this member is doing, alarms, defragmentation, and who is to lead.
 */
#include "api/api_int.h"

/* --- Alarm --- */

/* What a full disk has to say is this member's alone, and known to no log: server/space.h. */
static size_t list_alarms(struct api *a, struct arena *arena, const struct apply_alarm **out)
{
    struct apply_alarm own = {.member = a->facts->member_id, .alarm = PB_ALARM_NOSPACE};
    size_t count = apply_alarms(a->o.apply, out);

    if (!a->facts->disk_is_full)
        return count;
    for (size_t i = 0; i < count; i++)
        if ((*out)[i].member == own.member && (*out)[i].alarm == own.alarm)
            return count;
    struct apply_alarm *all = arena_new_array(arena, count + 1, struct apply_alarm);
    all[0] = own;
    if (count > 0)
        memcpy(all + 1, *out, count * sizeof(*all));
    *out = all;
    return count + 1;
}

static void respond_with_alarms(struct call *c, int32_t which)
{
    struct api *a = api_of(c);
    const struct apply_alarm *alarms;
    size_t count = list_alarms(a, &c->arena, &alarms);
    struct pb_alarm_member *members = arena_new_array(&c->arena, count, struct pb_alarm_member);
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));
    struct pb_alarm_response response = {.header = &header};

    response.alarms.at = members;
    for (size_t i = 0; i < count; i++)
        if (which == PB_ALARM_NONE || alarms[i].alarm == which)
            members[response.alarms.count++] =
                (struct pb_alarm_member){.member_id = alarms[i].member, .alarm = alarms[i].alarm};
    api_call_respond(c, &pb_alarm_response_schema, &response);
}

static void run_alarm(struct call *c, const void *request)
{
    const struct pb_alarm_request *r = request;

    /* Whoever asks why writes are refused is to hear it from the member that refuses them. */
    if (r->action == PB_ALARM_GET && api_of(c)->facts->disk_is_full) {
        respond_with_alarms(c, r->alarm);
        return;
    }
    api_call_proposal(c)->alarm = request;
    api_call_propose(c);
}

const struct handler api_maintenance_alarm = {
    .schema = &pb_alarm_request_schema,
    .run = run_alarm,
};

/* --- the store's version --- */

static bool meta_get(struct backend_view *v, const char *key, struct bytes *out)
{
    return backend_get(v, BUCKET_META, bytes_of_str(key), out) == ERR_OK && out->len > 0;
}

/*
 * As etcd detects it: written down since 3.6; before that 3.5 is known by what it began to keep.
 * Damage is not reported from here: whoever needs what is damaged will find it.
 */
struct bytes api_storage_version(struct api *a, struct arena *arena)
{
    struct backend_view view;
    struct backend_position position;
    struct bytes found, version = {0};

    backend_view_open(a->o.backend, &view);
    if (meta_get(&view, "storageVersion", &found))
        version = arena_copy(arena, found);
    else if (meta_get(&view, "confState", &found) &&
             backend_view_position(&view, &position) == ERR_OK && position.term > 0)
        version = BYTES("3.5.0");
    backend_view_close(&view);
    return version;
}

/* --- Status --- */

static const char *alarm_type_text(int32_t alarm, struct arena *arena)
{
    switch (alarm) {
    case PB_ALARM_NONE:
        return "";
    case PB_ALARM_NOSPACE:
        return "alarm:NOSPACE";
    case PB_ALARM_CORRUPT:
        return "alarm:CORRUPT";
    default:
        return arena_printf(arena, "alarm:%d", (int)alarm);
    }
}

/* In protobuf's text form, as etcd shows it: what is zero is left out. */
static struct bytes alarm_text(const struct apply_alarm *alarm, struct arena *arena)
{
    const char *type = alarm_type_text(alarm->alarm, arena);

    if (alarm->member == 0)
        return bytes_of_str(type);
    return bytes_of_str(arena_printf(arena, "memberID:%llu%s%s", (unsigned long long)alarm->member,
                                     *type ? " " : "", type));
}

static void list_errors(struct api *a, struct arena *arena, struct pb_status_response *out)
{
    const struct apply_alarm *alarms;
    size_t count = list_alarms(a, arena, &alarms);
    struct bytes *errors = arena_new_array(arena, count + 1, struct bytes);

    if (a->facts->leader == 0)
        errors[out->errors.count++] = bytes_of_str(result_text(RESULT_NO_LEADER));
    for (size_t i = 0; i < count; i++)
        errors[out->errors.count++] = alarm_text(&alarms[i], arena);
    out->errors.at = errors;
}

static void run_status(struct call *c, const void *request)
{
    struct api *a = api_of(c);
    const struct api_facts *facts = a->facts;
    struct arena *arena = &c->arena;
    struct backend_sizes sizes = backend_sizes(a->o.backend);
    struct cluster_downgrade downgrade = cluster_downgrade(a->o.cluster);
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));
    struct pb_downgrade_info info = {.enabled = downgrade.enabled,
                                     .target_version = downgrade.target_version};
    struct pb_status_response response = {
        .header = &header,
        .version = BYTES(SERVER_VERSION),
        .db_size = (int64_t)sizes.file_bytes,
        .leader = facts->leader,
        .raft_index = facts->committed_index,
        .raft_term = facts->applied_term,
        .raft_applied_index = facts->applied_index,
        .db_size_in_use = (int64_t)sizes.used_bytes,
        .is_learner = facts->is_learner,
        .storage_version = api_storage_version(a, arena),
        .db_size_quota = apply_quota_bytes(a->o.apply),
        .downgrade_info = &info,
    };

    (void)request;
    list_errors(a, arena, &response);
    api_call_respond(c, &pb_status_response_schema, &response);
}

const struct handler api_maintenance_status = {
    .schema = &pb_status_request_schema,
    .for_learners = true,
    .run = run_status,
};

/* --- Defragment --- */

/*
 * An image that took the store's place has ended the defragmentation of what was there before. It
 * was built beside it and has no holes: so what was asked for is done.
 */
static enum err defragment_result(enum err e)
{
    return e == ERR_CANCELED ? ERR_OK : e;
}

static void tell_defragmented(const struct api *a, enum err e)
{
    const struct backend_sizes *before = &a->defrag.before, *after = &a->defrag.after;

    if (e != ERR_OK) {
        log_warn(a->o.logger, "failed to defragment", LOG_STR("error", err_text(e)));
        return;
    }
    log_info(a->o.logger, "finished defragmenting directory",
             LOG_I64("current-db-size-bytes-diff",
                     (int64_t)after->file_bytes - (int64_t)before->file_bytes),
             LOG_U64("current-db-size-bytes", after->file_bytes),
             LOG_I64("current-db-size-in-use-bytes-diff",
                     (int64_t)after->used_bytes - (int64_t)before->used_bytes),
             LOG_U64("current-db-size-in-use-bytes", after->used_bytes),
             LOG_NS("took", (int64_t)api_since_ns(a, a->defrag_ns)));
    log_info(a->o.logger, "finished defragment");
}

static void defragmented(struct backend_defrag *d, enum err e)
{
    struct api *a = container_of(d, struct api, defrag);
    struct call *c = a->defrag_call;

    assert(a->is_defragmenting);
    a->is_defragmenting = false;
    a->defrag_call = NULL;
    histogram_observe(&a->stats.defragmentations, HISTOGRAM_100MS_13,
                      api_since_ns(a, a->defrag_ns));
    e = defragment_result(e);
    tell_defragmented(a, e);
    api_health_tell(a);
    if (!c)
        return;
    if (e == ERR_OK)
        api_call_respond(c, &pb_defragment_response_schema, &(struct pb_header_response){0});
    else
        api_call_finish_text(c, RPC_UNKNOWN, err_text(e));
}

void api_defragment(struct api *a)
{
    assert(!a->is_defragmenting);
    a->defrag = (struct backend_defrag){.on_done = defragmented};
    bool started = backend_defrag_start(a->o.backend, &a->defrag);
    assert(started); /* nobody else asks for any */
    struct backend_sizes now = backend_sizes(a->o.backend);
    log_info(a->o.logger, "starting defragment");
    log_info(a->o.logger, "defragmenting", LOG_U64("current-db-size-bytes", now.file_bytes),
             LOG_U64("current-db-size-in-use-bytes", now.used_bytes));
    a->is_defragmenting = true;
    a->defrag_ns = a->facts->now_ns;
    if (a->o.stops_on_defrag)
        api_health_tell(a);
}

/* One at a time; who comes while another's is under way gets one of its own after it, as in etcd:
 * part of the store was copied before he asked. */
static bool defragment_begins(struct call *c)
{
    struct api *a = api_of(c);

    if (a->is_defragmenting)
        return false;
    api_call_stop_working(c);
    api_defragment(a);
    a->defrag_call = c;
    return true;
}

static void run_defragment(struct call *c, const void *request)
{
    (void)request;
    api_call_wait(c, defragment_begins);
}

/* It goes on without him. */
static void leave_defragment(struct call *c)
{
    struct api *a = api_of(c);

    if (a->defrag_call == c)
        a->defrag_call = NULL;
}

const struct handler api_maintenance_defragment = {
    .schema = &pb_defragment_request_schema,
    .run = run_defragment,
    .released = leave_defragment,
};

/* --- MoveLeader --- */

/* Permission comes before the arguments, so this is no `check`. */
static enum result look_at_transferee(const struct api *a, const struct pb_move_leader_request *r)
{
    if (a->facts->leader != a->facts->member_id)
        return RESULT_NOT_LEADER;
    const struct pb_member *target = cluster_find(a->o.cluster, r->target_id);
    return target && !target->is_learner ? RESULT_OK : RESULT_BAD_LEADER_TRANSFEREE;
}

static bool leader_has_moved(struct call *c)
{
    struct api *a = api_of(c);
    const struct leader_move *move = &c->move;

    if (a->facts->leader == move->to) {
        log_info(a->o.logger, "leadership transfer finished",
                 LOG_ID("local-member-id", a->facts->member_id),
                 LOG_ID("old-leader-member-id", move->from),
                 LOG_ID("new-leader-member-id", move->to));
        api_call_respond(c, &pb_move_leader_response_schema, &(struct pb_header_response){0});
        return true;
    }
    if (a->facts->now_ms < move->until_ms)
        return false;
    api_call_finish(c, RESULT_TIMEOUT_LEADER_TRANSFER);
    return true;
}

/* etcd waits for as long as its client does. Raft has given it up after an election timeout, and
 * what is not done by the time limit of a request will not be. */
static void run_move_leader(struct call *c, const void *request)
{
    struct api *a = api_of(c);
    uint64_t to = ((const struct pb_move_leader_request *)request)->target_id;

    enum result result = look_at_transferee(a, request);
    if (result != RESULT_OK) {
        api_call_finish(c, result);
        return;
    }
    c->move = (struct leader_move){.from = a->facts->leader,
                                   .to = to,
                                   .until_ms = a->facts->now_ms + API_MOVE_LEADER_MS +
                                               2 * a->facts->election_ms};
    if (to != a->facts->leader)
        a->move_leader_to = to;
    api_call_wait(c, leader_has_moved);
}

const struct handler api_maintenance_move_leader = {
    .schema = &pb_move_leader_request_schema,
    .run = run_move_leader,
};
