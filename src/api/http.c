/*
 * Plain HTTP on the client port: what there is, /version and /health.
 */
#include "api/api_int.h"

#include "base/json.h"
#include "base/text.h"

#define TEXT_PLAIN "text/plain; charset=utf-8"

static void reply(struct api *a, uint64_t rpc, unsigned status, struct bytes body)
{
    rpc_line_http_reply(a->o.line, rpc, status, TEXT_PLAIN, body);
}

/* --- the query: name=value pairs, with %41 and + --- */

/* False if it is malformed: then the pair does not count. */
static bool unescape(struct bytes text, struct arena *arena, struct bytes *out)
{
    uint8_t *at = arena_alloc(arena, text.len);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        if (c == ';')
            return false;
        if (c == '%') {
            if (text.len - i < 3 || text_hex_value(text.at[i + 1]) < 0 ||
                text_hex_value(text.at[i + 2]) < 0)
                return false;
            c = (uint8_t)(text_hex_value(text.at[i + 1]) << 4 | text_hex_value(text.at[i + 2]));
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        at[len++] = c;
    }
    *out = bytes_of(at, len);
    return true;
}

struct pair {
    struct bytes name, value;
};

/* The bytes up to the first such character, or all; `text` then begins behind it. */
static struct bytes cut(struct bytes *text, char at)
{
    const uint8_t *found = text->len ? memchr(text->at, at, text->len) : NULL;
    size_t len = found ? (size_t)(found - text->at) : text->len;
    struct bytes head = bytes_of(text->at, len);

    *text = bytes_of(text->at + len + (found != NULL), text->len - len - (found != NULL));
    return head;
}

/* The next pair that makes sense; false at the end. */
static bool next_pair(struct bytes *query, struct arena *arena, struct pair *out)
{
    while (query->len > 0) {
        struct bytes value = cut(query, '&');
        struct bytes name = cut(&value, '=');
        if (unescape(name, arena, &out->name) && unescape(value, arena, &out->value))
            return true;
    }
    return false;
}

bool api_query_has(struct bytes query, struct arena *arena, const char *name, const char *value)
{
    struct pair p;

    while (next_pair(&query, arena, &p)) {
        if (bytes_equal(p.name, bytes_of_str(name)) && bytes_equal(p.value, bytes_of_str(value)))
            return true;
    }
    return false;
}

bool api_query_names(struct bytes query, struct arena *arena, const char *name)
{
    struct pair p;

    while (next_pair(&query, arena, &p)) {
        if (bytes_equal(p.name, bytes_of_str(name)))
            return true;
    }
    return false;
}

/* The first value of that name decides. */
static bool query_says_true(struct bytes query, struct arena *arena, const char *name)
{
    struct pair p;

    while (next_pair(&query, arena, &p)) {
        if (bytes_equal(p.name, bytes_of_str(name)))
            return bytes_equal(p.value, BYTES("true"));
    }
    return false;
}

/* --- /version --- */

static void serve_version(struct api *a, struct rpc_event *e)
{
    struct bytes cluster = cluster_version(a->o.cluster);
    struct bytes storage = api_storage_version(a, &a->scratch);

    if (cluster.len == 0)
        cluster = BYTES("not_decided");
    if (storage.len == 0)
        storage = BYTES("unknown");
    buf_clear(&a->out);
    struct json j = {.out = &a->out};
    json_begin_object(&j, NULL);
    json_put_str(&j, "etcdserver", SERVER_VERSION);
    json_put_text(&j, "etcdcluster", cluster);
    json_put_text(&j, "storage", storage);
    json_end_object(&j);
    rpc_line_http_reply(a->o.line, e->call, 200, "application/json", buf_bytes(&a->out));
}

/* --- /health --- */

static struct bytes health(struct api *a, const char *health, const char *reason)
{
    struct json j = {.out = &a->out};

    buf_clear(&a->out);
    json_begin_object(&j, NULL);
    json_put_str(&j, "health", health);
    json_put_str(&j, "reason", reason);
    json_end_object(&j);
    return buf_bytes(&a->out);
}

static void serve_unhealthy(struct api *a, uint64_t rpc, const char *reason, const char *detail)
{
    a->stats.unhealthy++;
    log_warn(a->o.logger, "serving /health false", LOG_STR("reason", reason),
             LOG_STR("detail", detail));
    struct buf both = {0};
    buf_printf(&both, "%s%s", reason, detail);
    health(a, "false", buf_str(&both));
    buf_append_byte(&a->out, '\n');
    reply(a, rpc, 503, buf_bytes(&a->out));
    buf_free(&both);
}

static void serve_healthy(struct api *a, uint64_t rpc)
{
    a->stats.healthy++;
    reply(a, rpc, 200, health(a, "true", ""));
}

static const char *const alarm_names[] = {"NOSPACE", "CORRUPT", "UNKNOWN"};

static size_t alarm_kind(int32_t alarm)
{
    return alarm == PB_ALARM_NOSPACE ? 0 : alarm == PB_ALARM_CORRUPT ? 1 : 2;
}

/* The first alarm that the query does not leave out, this member's own full disk before all others;
 * or NULL. */
static const char *find_alarm(struct api *a, struct rpc_event *e)
{
    const struct apply_alarm *alarms;
    size_t count = apply_alarms(a->o.apply, &alarms);
    bool is_left_out[ARRAY_LEN(alarm_names)];

    /* The query is read for each name, never for each alarm: a client makes it as long as a head
     * may be, and raises alarms for as many members as it likes. */
    for (size_t i = 0; i < ARRAY_LEN(alarm_names); i++)
        is_left_out[i] =
            api_query_has(rpc_event_bytes(e, e->query), &a->scratch, "exclude", alarm_names[i]);
    if (a->facts->disk_is_full && !is_left_out[alarm_kind(PB_ALARM_NOSPACE)])
        return "NOSPACE";
    for (size_t i = 0; i < count; i++) {
        size_t kind = alarm_kind(alarms[i].alarm);
        if (!is_left_out[kind])
            return alarm_names[kind];
    }
    return NULL;
}

static void serve_health(struct api *a, struct rpc_event *e)
{
    const char *alarm = find_alarm(a, e);
    bool serializable = query_says_true(rpc_event_bytes(e, e->query), &a->scratch, "serializable");

    if (alarm) {
        serve_unhealthy(a, e->call, "ALARM ", alarm);
    } else if (serializable) {
        api_count_nothing_read(a, a->facts->now_ns, true);
        serve_healthy(a, e->call);
    } else if (a->facts->leader == 0) {
        serve_unhealthy(a, e->call, "RAFT NO LEADER", "");
    } else {
        struct call *c = api_call_new(a, e);
        c->on = &api_http_health;
        api_call_read_index(c);
    }
}

/* A linearizable read would be answered now. */
static void health_confirmed(struct call *c)
{
    uint64_t rpc = c->base.rpc;
    struct api *a = api_of(c);

    api_count_nothing_read(a, c->started_ns, true);
    api_call_end(c);
    serve_healthy(a, rpc);
}

static void health_failed(struct call *c, enum result why)
{
    uint64_t rpc = c->base.rpc;
    struct api *a = api_of(c);

    api_count_nothing_read(a, c->started_ns, false);
    api_call_end(c);
    serve_unhealthy(a, rpc, "RANGE ERROR:", result_text(why));
}

const struct handler api_http_health = {
    .confirmed = health_confirmed,
    .failed = health_failed,
};

/* --- paths --- */

static const struct {
    const char *path;
    void (*serve)(struct api *a, struct rpc_event *e);
    bool takes_any_verb; /* Prometheus' own handler minds none */
} paths[] = {
    {"/version", serve_version, false},
    {"/health", serve_health, false},
    {"/metrics", api_http_metrics_asked, true},
    {"/debug/vars", api_http_vars_asked, false},
};

/* Where only probes are served, there is nothing else to be found. */
static bool is_for_probes(struct bytes path)
{
    return bytes_equal(path, BYTES("/metrics")) || bytes_equal(path, BYTES("/health")) ||
           bytes_starts_with(path, BYTES("/livez")) || bytes_starts_with(path, BYTES("/readyz"));
}

void api_http_request(struct api *a, struct rpc_event *e)
{
    struct bytes verb = rpc_event_bytes(e, e->verb), path = rpc_event_bytes(e, e->path);

    arena_reset(&a->scratch);
    if (e->is_probe && !is_for_probes(path)) {
        reply(a, e->call, 404, BYTES("404 page not found\n"));
        return;
    }
    /* A browser asks so what a page may do. Those who probe are none, and get what a handler says.
     */
    if (!e->is_probe && bytes_equal(verb, BYTES("OPTIONS"))) {
        rpc_line_http_reply(a->o.line, e->call, 200, NULL, BYTES(""));
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        if (!bytes_equal(path, bytes_of_str(paths[i].path)))
            continue;
        if (paths[i].takes_any_verb || bytes_equal(verb, BYTES("GET")))
            paths[i].serve(a, e);
        else
            reply(a, e->call, 405, BYTES("Method Not Allowed\n"));
        return;
    }
    if (!api_http_probe_asked(a, e))
        reply(a, e->call, 404, BYTES("404 page not found\n"));
}
