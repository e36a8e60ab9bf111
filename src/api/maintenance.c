/*
 * Maintenance: how this member is doing, and alarms.
 */
#include "api/api_int.h"
#include "backend/backend.h"

/* --- Alarm --- */

static void run_alarm(struct call *c, const void *request)
{
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
    size_t count = apply_alarms(a->o.apply, &alarms);
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
