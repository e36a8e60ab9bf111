#include "cluster/member_json.h"

#include "base/json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <strings.h>

/* ---- Writing ---- */

static void write_member(struct json *j, const struct pb_member *m)
{
    json_begin_object(j, NULL);
    json_put_number(j, "id", m->id);
    if (m->peer_urls.at)
        json_put_texts(j, "peerURLs", m->peer_urls.at, m->peer_urls.count);
    else
        json_put_null(j, "peerURLs");
    if (m->is_learner)
        json_put_bool(j, "isLearner", true);
    if (m->name.len > 0)
        json_put_text(j, "name", m->name);
    if (m->client_urls.count > 0)
        json_put_texts(j, "clientURLs", m->client_urls.at, m->client_urls.count);
    json_end_object(j);
}

void member_json_write(const struct pb_member *m, struct buf *out)
{
    write_member(&(struct json){.out = out}, m);
}

void member_json_write_promotion(uint64_t id, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_object(&j, NULL);
    json_put_number(&j, "id", id);
    json_put_null(&j, "peerURLs");
    json_put_bool(&j, "isPromote", true);
    json_end_object(&j);
}

void member_json_write_list(const struct pb_member *members, size_t count, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_list(&j, NULL);
    for (size_t i = 0; i < count; i++)
        write_member(&j, &members[i]);
    json_end_list(&j);
}

void versions_json_write(const struct member_versions *v, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_object(&j, NULL);
    json_put_text(&j, "etcdserver", v->server);
    json_put_text(&j, "etcdcluster", v->cluster.len > 0 ? v->cluster : BYTES("not_decided"));
    json_put_text(&j, "storage", v->storage.len > 0 ? v->storage : BYTES("unknown"));
    json_end_object(&j);
}

void downgrade_json_write(bool enabled, struct bytes target_version, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_object(&j, NULL);
    json_put_text(&j, "target-version", target_version);
    json_put_bool(&j, "enabled", enabled);
    json_end_object(&j);
}

static void write_ids(struct json *j, const char *name, const struct raft_ids *ids)
{
    if (ids->count == 0)
        return;
    json_begin_list(j, name);
    for (size_t i = 0; i < ids->count; i++)
        json_put_number(j, NULL, ids->at[i]);
    json_end_list(j);
}

void cluster_conf_state_json(const struct raft_conf_state *state, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_object(&j, NULL);
    write_ids(&j, "voters", &state->voters);
    write_ids(&j, "learners", &state->learners);
    write_ids(&j, "voters_outgoing", &state->voters_outgoing);
    write_ids(&j, "learners_next", &state->learners_next);
    json_put_bool(&j, "auto_leave", state->auto_leave);
    json_end_object(&j);
}

/* ---- Reading: what the library would let pass ---- */

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/*
 * A string, from its opening quote at *at to behind its closing one. Control characters are not
 * allowed in there. A zero, escaped, is; but not in a field's name, which the library would cut
 * there and so take for another name.
 */
static bool skip_string(struct bytes json, size_t *at)
{
    bool has_zero = false;
    size_t i = *at + 1;

    for (; i < json.len && json.at[i] != '"'; i++) {
        if (json.at[i] < ' ')
            return false;
        if (json.at[i] != '\\')
            continue;
        if (bytes_starts_with(bytes_of(json.at + i, json.len - i), BYTES("\\u0000")))
            has_zero = true;
        i++;
    }
    *at = i + 1;
    i++;
    while (i < json.len && is_space(json.at[i]))
        i++;
    return !(has_zero && i < json.len && json.at[i] == ':');
}

/* A whole number above 2^64-1 would quietly become 2^64-1, which may be somebody's id. */
static bool skip_number(struct bytes json, size_t *at)
{
    uint64_t number = 0;
    size_t i = *at;

    if (json.at[i] == '0' && i + 1 < json.len && is_digit(json.at[i + 1]))
        return false;
    for (; i < json.len && is_digit(json.at[i]); i++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, json.at[i] - '0', &number))
            return false;
    }
    *at = i;
    return true;
}

/* Is there nothing in it that json-c takes and Go does not? */
static bool is_plain(struct bytes json)
{
    size_t at = 0;

    while (at < json.len) {
        uint8_t c = json.at[at];
        bool is_good =
            c != '\'' && c != 'N' && c != 'I'; /* strings in single quotes, NaN, Infinity */
        if (c == '"')
            is_good = skip_string(json, &at);
        else if (is_digit(c))
            is_good = skip_number(json, &at);
        else {
            at++;
            if (c == '-') /* -0 would pass for an id of 0 */
                is_good = at < json.len && json.at[at] != '0';
        }
        if (!is_good)
            return false;
    }
    return true;
}

/* ---- Reading ---- */

/* A value of this type, to be given back with json_object_put. */
static enum err parse(struct bytes json, enum json_type type, struct json_object **out)
{
    if (json.len > MEMBER_JSON_BYTES_MAX)
        return ERR_TOO_LARGE;
    while (json.len > 0 && is_space(json.at[json.len - 1]))
        json.len--;
    if (json.len == 0 || !bytes_are_utf8(json) || !is_plain(json))
        return ERR_MALFORMED;

    struct json_tokener *tokener = json_tokener_new_ex(MEMBER_JSON_DEPTH_MAX);
    if (!tokener)
        fatal("out of memory");
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    struct json_object *value =
        json_tokener_parse_ex(tokener, (const char *)json.at, (int)json.len);
    bool is_whole = json_tokener_get_error(tokener) == json_tokener_success &&
                    json_tokener_get_parse_end(tokener) == json.len;
    json_tokener_free(tokener);

    if (!is_whole || !json_object_is_type(value, type)) {
        json_object_put(value);
        return ERR_MALFORMED;
    }
    *out = value;
    return ERR_OK;
}

/* Each of these takes null for "not said" and leaves *out alone; false for another type. */

static bool read_id(struct json_object *value, uint64_t *out)
{
    if (!value)
        return true;
    if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return false;
    *out = json_object_get_uint64(value);
    return true;
}

static bool read_bool(struct json_object *value, bool *out)
{
    if (!value)
        return true;
    if (!json_object_is_type(value, json_type_boolean))
        return false;
    *out = json_object_get_boolean(value);
    return true;
}

static bool read_text(struct json_object *value, struct arena *arena, struct bytes *out)
{
    if (!value)
        return true;
    if (!json_object_is_type(value, json_type_string))
        return false;
    size_t len = (size_t)json_object_get_string_len(value);
    *out = arena_copy(arena, bytes_of(json_object_get_string(value), len));
    return true;
}

/* Here null is a list of its own kind, which is written as null again. */
static bool read_texts(struct json_object *value, struct arena *arena, const struct bytes **out,
                       size_t *count)
{
    *out = NULL;
    *count = 0;
    if (!value)
        return true;
    if (!json_object_is_type(value, json_type_array))
        return false;

    size_t length = json_object_array_length(value);
    struct bytes *texts = arena_new_array(arena, length, struct bytes);
    for (size_t i = 0; i < length; i++) {
        if (!read_text(json_object_array_get_idx(value, i), arena, &texts[i]))
            return false;
    }
    *out = texts;
    *count = length;
    return true;
}

static bool is_named(const char *key, const char *name)
{
    return strcasecmp(key, name) == 0;
}

static bool read_member_field(const char *key, struct json_object *value, struct arena *arena,
                              struct member_change *out)
{
    struct pb_member *m = &out->member;

    if (is_named(key, "id"))
        return read_id(value, &m->id);
    if (is_named(key, "peerURLs"))
        return read_texts(value, arena, &m->peer_urls.at, &m->peer_urls.count);
    if (is_named(key, "isLearner"))
        return read_bool(value, &m->is_learner);
    if (is_named(key, "name"))
        return read_text(value, arena, &m->name);
    if (is_named(key, "clientURLs"))
        return read_texts(value, arena, &m->client_urls.at, &m->client_urls.count);
    if (is_named(key, "isPromote"))
        return read_bool(value, &out->is_promote);
    return true;
}

static bool read_member(struct json_object *object, struct arena *arena, struct member_change *out)
{
    *out = (struct member_change){0};
    json_object_object_foreach(object, key, value)
    {
        if (!read_member_field(key, value, arena, out))
            return false;
    }
    return true;
}

enum err member_json_read(struct bytes json, struct arena *arena, struct member_change *out)
{
    struct json_object *object;
    enum err e = parse(json, json_type_object, &object);

    *out = (struct member_change){0};
    if (e != ERR_OK)
        return e;
    if (!read_member(object, arena, out)) {
        *out = (struct member_change){0};
        e = ERR_MALFORMED;
    }
    json_object_put(object);
    return e;
}

static bool read_list(struct json_object *array, struct arena *arena, struct pb_member *members)
{
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        struct json_object *item = json_object_array_get_idx(array, i);
        struct member_change change;
        if (!json_object_is_type(item, json_type_object) || !read_member(item, arena, &change))
            return false;
        members[i] = change.member;
    }
    return true;
}

enum err member_json_read_list(struct bytes json, struct arena *arena, const struct pb_member **out,
                               size_t *count)
{
    struct json_object *array;
    enum err e = parse(json, json_type_array, &array);

    if (e != ERR_OK)
        return e;
    size_t length = json_object_array_length(array);
    if (length > RAFT_MEMBERS_MAX)
        e = ERR_TOO_LARGE;
    else {
        struct pb_member *members = arena_new_array(arena, length, struct pb_member);
        e = read_list(array, arena, members) ? ERR_OK : ERR_MALFORMED;
        *out = members;
        *count = length;
    }
    json_object_put(array);
    return e;
}

static bool read_downgrade(struct json_object *object, struct arena *arena, bool *enabled,
                           struct bytes *target_version)
{
    json_object_object_foreach(object, key, value)
    {
        if (is_named(key, "target-version") && !read_text(value, arena, target_version))
            return false;
        if (is_named(key, "enabled") && !read_bool(value, enabled))
            return false;
    }
    return true;
}

enum err downgrade_json_read(struct bytes json, struct arena *arena, bool *enabled,
                             struct bytes *target_version)
{
    struct json_object *object;
    enum err e = parse(json, json_type_object, &object);

    *enabled = false;
    *target_version = (struct bytes){0};
    if (e != ERR_OK)
        return e;
    if (!read_downgrade(object, arena, enabled, target_version))
        e = ERR_MALFORMED;
    json_object_put(object);
    return e;
}

static enum err read_ids(struct json_object *value, struct raft_ids *out)
{
    out->count = 0;
    if (!value)
        return ERR_OK;
    if (!json_object_is_type(value, json_type_array))
        return ERR_MALFORMED;
    if (json_object_array_length(value) > RAFT_MEMBERS_MAX)
        return ERR_TOO_LARGE;
    for (size_t i = 0; i < json_object_array_length(value); i++) {
        out->at[i] = 0;
        if (!read_id(json_object_array_get_idx(value, i), &out->at[i]))
            return ERR_MALFORMED;
        out->count++;
    }
    return ERR_OK;
}

static enum err read_conf_state_field(const char *key, struct json_object *value,
                                      struct raft_conf_state *out)
{
    if (is_named(key, "voters"))
        return read_ids(value, &out->voters);
    if (is_named(key, "learners"))
        return read_ids(value, &out->learners);
    if (is_named(key, "voters_outgoing"))
        return read_ids(value, &out->voters_outgoing);
    if (is_named(key, "learners_next"))
        return read_ids(value, &out->learners_next);
    if (is_named(key, "auto_leave"))
        return read_bool(value, &out->auto_leave) ? ERR_OK : ERR_MALFORMED;
    return ERR_OK;
}

enum err cluster_conf_state_read(struct bytes json, struct raft_conf_state *out)
{
    struct json_object *object;
    enum err e = parse(json, json_type_object, &object);

    *out = (struct raft_conf_state){0};
    if (e != ERR_OK)
        return e;
    json_object_object_foreach(object, key, value)
    {
        if (e == ERR_OK)
            e = read_conf_state_field(key, value, out);
    }
    json_object_put(object);
    return e;
}

static bool read_versions(struct json_object *object, struct arena *arena,
                          struct member_versions *out)
{
    json_object_object_foreach(object, key, value)
    {
        if (is_named(key, "etcdserver") && !read_text(value, arena, &out->server))
            return false;
        if (is_named(key, "etcdcluster") && !read_text(value, arena, &out->cluster))
            return false;
        if (is_named(key, "storage") && !read_text(value, arena, &out->storage))
            return false;
    }
    return true;
}

enum err versions_json_read(struct bytes json, struct arena *arena, struct member_versions *out)
{
    struct json_object *object;
    enum err e = parse(json, json_type_object, &object);

    *out = (struct member_versions){0};
    if (e != ERR_OK)
        return e;
    if (!read_versions(object, arena, out)) {
        *out = (struct member_versions){0};
        e = ERR_MALFORMED;
    }
    json_object_put(object);
    return e;
}

/* A whole number; null is none. */
static bool read_revision(struct json_object *value, int64_t *out)
{
    if (!value)
        return true;
    if (!json_object_is_type(value, json_type_int))
        return false;
    *out = json_object_get_int64(value);
    return true;
}

enum err hash_json_read(struct bytes json, int64_t *revision)
{
    struct json_object *object;
    enum err e = parse(json, json_type_object, &object);

    *revision = 0;
    if (e != ERR_OK)
        return e;
    json_object_object_foreach(object, key, value)
    {
        if (is_named(key, "revision") && !read_revision(value, revision))
            e = ERR_MALFORMED;
    }
    json_object_put(object);
    return e;
}

/* Zeroes are left out, as Go's encoder does with them. */
static void put_if_set(struct json *j, const char *name, int64_t value)
{
    if (value != 0)
        json_put_signed(j, name, value);
}

void hash_json_write(int64_t revision, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_object(&j, NULL);
    put_if_set(&j, "revision", revision);
    json_end_object(&j);
}

void member_hash_json_write(const struct member_hash *h, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_object(&j, NULL);
    json_begin_object(&j, "header");
    put_if_set(&j, "revision", h->newest);
    json_end_object(&j);
    put_if_set(&j, "hash", h->hash);
    put_if_set(&j, "compact_revision", h->compact_revision);
    put_if_set(&j, "hash_revision", h->revision);
    json_end_object(&j);
}

static bool read_hash_header(struct json_object *header, struct member_hash *out)
{
    if (!header)
        return true;
    if (!json_object_is_type(header, json_type_object))
        return false;
    json_object_object_foreach(header, key, value)
    {
        if (is_named(key, "revision") && !read_revision(value, &out->newest))
            return false;
    }
    return true;
}

static bool read_member_hash(struct json_object *object, struct member_hash *out)
{
    int64_t hash = 0;

    json_object_object_foreach(object, key, value)
    {
        if (is_named(key, "header") && !read_hash_header(value, out))
            return false;
        if (is_named(key, "hash") && !read_revision(value, &hash))
            return false;
        if (is_named(key, "compact_revision") && !read_revision(value, &out->compact_revision))
            return false;
        if (is_named(key, "hash_revision") && !read_revision(value, &out->revision))
            return false;
    }
    out->hash = (uint32_t)hash;
    return hash >= 0 && hash <= UINT32_MAX;
}

enum err member_hash_json_read(struct bytes json, struct member_hash *out)
{
    struct json_object *object;
    enum err e = parse(json, json_type_object, &object);

    *out = (struct member_hash){0};
    if (e != ERR_OK)
        return e;
    if (!read_member_hash(object, out)) {
        *out = (struct member_hash){0};
        e = ERR_MALFORMED;
    }
    json_object_put(object);
    return e;
}
