/*
 * Who may do what: every RPC, with every option, asked by everybody, of real etcd and of us.
 *
 * The requests are made from the message tables: one with what it needs, and from that one for each
 * of its fields, with the field set to something else. A field that is not in the list below fails
 * the test: whoever adds one says what it has to do with permission.
 *
 * Compared are the code and the text that come back, or why a watcher was refused. Both servers go
 * through the same changes, so root, who may do everything, comes last.
 */
#include "api/api_int.h"
#include "base/mem.h"
#include "harness/test.h"
#include "interop/caller_test.h"

#include <stdio.h>

#define SECRET "correct-horse" /* everybody's password */

enum { LEASE = 5, FREE_LEASE = 6, OTHERS_MAX = 4 };

/* What a field is set to: in the request that the others are made from, and in those others. */
static const struct meaning {
    const char *field;
    struct bytes text;
    struct bytes texts[OTHERS_MAX];
    int64_t number;
    int64_t numbers[OTHERS_MAX];
    bool is_not_asked; /* it says nothing about whose or which */
} meanings[] = {
    {.field = "key", .text = BYTES("a"), .texts = {BYTES("b"), BYTES("m")}},
    {.field = "range_end", .texts = {BYTES("a\0"), BYTES("c"), BYTES("\0"), BYTES("0")}},
    {.field = "lease", .numbers = {LEASE, FREE_LEASE, 77}},
    {.field = "prev_kv", .numbers = {1}},
    {.field = "ignore_value", .numbers = {1}},
    {.field = "ignore_lease", .numbers = {1}},
    {.field = "serializable", .numbers = {1}},
    {.field = "keys_only", .numbers = {1}},
    {.field = "count_only", .numbers = {1}},
    {.field = "revision", .numbers = {2}},
    {.field = "ID", .number = LEASE, .numbers = {FREE_LEASE, 77}},
    {.field = "TTL", .number = 100},
    {.field = "keys", .numbers = {1}},
    {.field = "linearizable", .numbers = {1}},
    {.field = "action", .numbers = {1, 2}},
    {.field = "alarm", .numbers = {2}},
    {.field = "memberID", .number = 77},
    {.field = "targetID", .number = 77},
    {.field = "name", .text = BYTES("reader"), .texts = {BYTES("root"), BYTES("nosuch")}},
    {.field = "user", .text = BYTES("reader"), .texts = {BYTES("root"), BYTES("nosuch")}},
    {.field = "role", .text = BYTES("reader"), .texts = {BYTES("root"), BYTES("nosuch")}},
    {.field = "password", .text = BYTES(SECRET), .texts = {BYTES("wrong")}},
    {.field = "hashedPassword", .texts = {BYTES("aGFzaA==")}},
    {.field = "service", .texts = {BYTES("x")}},
    {.field = "value", .is_not_asked = true},
    {.field = "limit", .is_not_asked = true},
    {.field = "sort_order", .is_not_asked = true},
    {.field = "sort_target", .is_not_asked = true},
    {.field = "min_mod_revision", .is_not_asked = true},
    {.field = "max_mod_revision", .is_not_asked = true},
    {.field = "min_create_revision", .is_not_asked = true},
    {.field = "max_create_revision", .is_not_asked = true},
    {.field = "physical", .is_not_asked = true},
    {.field = "peerURLs", .is_not_asked = true},
    {.field = "isLearner", .is_not_asked = true},
    {.field = "version", .is_not_asked = true},
    {.field = "options", .is_not_asked = true},
    {.field = "perm", .is_not_asked = true},
    {.field = "start_revision", .is_not_asked = true},
    {.field = "progress_notify", .is_not_asked = true},
    {.field = "filters", .is_not_asked = true},
    {.field = "watch_id", .is_not_asked = true},
    {.field = "fragment", .is_not_asked = true},
    /* these are made by hand below */
    {.field = "compare", .is_not_asked = true},
    {.field = "success", .is_not_asked = true},
    {.field = "failure", .is_not_asked = true},
    {.field = "create_request", .is_not_asked = true},
    {.field = "cancel_request", .is_not_asked = true},
    {.field = "progress_request", .is_not_asked = true},
};

static const struct meaning *meaning_of(const struct pb_schema *schema, const struct pb_field *f)
{
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (strcmp(meanings[i].field, f->name) == 0)
            return &meanings[i];
    test_fail(__FILE__, __LINE__, "%s.%s: nobody has said what it has to do with permission",
              schema->name, f->name);
}

static bool is_text(const struct pb_field *f)
{
    return f->kind == PB_BYTES || f->kind == PB_STRING;
}

static void set(void *message, const struct pb_field *f, struct bytes text, int64_t number)
{
    uint8_t *at = (uint8_t *)message + f->offset;

    if (is_text(f))
        memcpy(at, &text, sizeof(text));
    else if (f->kind == PB_BOOL)
        *(bool *)at = number != 0;
    else if (f->kind == PB_ENUM || f->kind == PB_UINT32)
        *(int32_t *)(void *)at = (int32_t)number;
    else
        *(int64_t *)(void *)at = number;
}

/* ---- Requests ---- */

struct requests {
    struct arena arena;
    struct {
        const struct rpc_method *method;
        const struct pb_schema *schema;
        const void *message;
    } at[400];
    size_t count;
};

static void add(struct requests *r, const struct rpc_method *method, const struct pb_schema *schema,
                const void *message)
{
    void *kept = arena_alloc(&r->arena, schema->size);

    CHECK(r->count < ARRAY_LEN(r->at));
    memcpy(kept, message, schema->size);
    r->at[r->count].method = method;
    r->at[r->count].schema = schema;
    r->at[r->count++].message = kept;
}

/* One message for each value of each field; handed to `take`. */
static void vary(struct requests *r, const struct pb_schema *schema, void *context,
                 void (*take)(struct requests *r, void *context, const void *message))
{
    uint64_t base[64] = {0}, other[64];
    CHECK(schema->size <= sizeof(base));

    for (size_t i = 0; i < schema->field_count; i++) {
        const struct meaning *m = meaning_of(schema, &schema->fields[i]);
        if (!m->is_not_asked)
            set(base, &schema->fields[i], m->text, m->number);
    }
    take(r, context, base);
    for (size_t i = 0; i < schema->field_count; i++) {
        const struct pb_field *f = &schema->fields[i];
        const struct meaning *m = meaning_of(schema, f);
        for (size_t n = 0; n < OTHERS_MAX && !m->is_not_asked; n++) {
            if (is_text(f) ? m->texts[n].len == 0 : m->numbers[n] == 0)
                continue;
            memcpy(other, base, sizeof(base));
            set(other, f, m->texts[n], m->numbers[n]);
            take(r, context, other);
        }
    }
}

static void take_plain(struct requests *r, void *context, const void *message)
{
    const struct rpc_method *m = context;

    add(r, m, api_handler_of((enum api_method)m->id)->schema, message);
}

static void add_txn(struct requests *r, const struct pb_compare *compare, size_t compares,
                    const struct pb_request_op *success, const struct pb_request_op *failure)
{
    struct pb_txn_request txn = {.compare = {.at = compare, .count = compares},
                                 .success = {.at = success, .count = success != NULL},
                                 .failure = {.at = failure, .count = failure != NULL}};

    add(r, &api_methods[API_KV_TXN], &pb_txn_request_schema, &txn);
}

/* In either branch, and in either branch of one inside it. */
static void add_op(struct requests *r, const struct pb_request_op *op)
{
    struct pb_request_op *kept = arena_new(&r->arena, struct pb_request_op);
    struct pb_request_op *nest = arena_new(&r->arena, struct pb_request_op);
    struct pb_txn_request *inner = arena_new(&r->arena, struct pb_txn_request);

    *kept = *op;
    add_txn(r, NULL, 0, kept, NULL);
    add_txn(r, NULL, 0, NULL, kept);
    inner->failure.at = kept;
    inner->failure.count = 1;
    *nest = (struct pb_request_op){.which = PB_OP_TXN, .txn = inner};
    add_txn(r, NULL, 0, nest, NULL);
}

static void take_op(struct requests *r, void *context, const void *message)
{
    enum pb_op which = *(enum pb_op *)context;
    const struct pb_schema *schema = which == PB_OP_RANGE ? &pb_range_request_schema
                                     : which == PB_OP_PUT ? &pb_put_request_schema
                                                          : &pb_delete_range_request_schema;
    void *kept = arena_alloc(&r->arena, schema->size);
    struct pb_request_op op = {.which = which};

    memcpy(kept, message, schema->size);
    if (which == PB_OP_RANGE)
        op.range = kept;
    else if (which == PB_OP_PUT)
        op.put = kept;
    else
        op.delete_range = kept;
    add_op(r, &op);
}

static void add_compares(struct requests *r)
{
    const struct bytes keys[] = {BYTES("a"), BYTES("b"), BYTES("m")};
    const struct bytes ends[] = {BYTES(""), BYTES("c"), BYTES("\0")};

    for (size_t i = 0; i < ARRAY_LEN(keys) * ARRAY_LEN(ends); i++) {
        struct pb_compare *c = arena_new(&r->arena, struct pb_compare);
        c->key = keys[i / ARRAY_LEN(ends)];
        c->range_end = ends[i % ARRAY_LEN(ends)];
        add_txn(r, c, 1, NULL, NULL);
    }
}

static void take_watch(struct requests *r, void *context, const void *message)
{
    struct pb_watch_create_request *create = arena_new(&r->arena, struct pb_watch_create_request);

    (void)context;
    memcpy(create, message, sizeof(*create));
    add(r, &api_methods[API_WATCH_WATCH], &pb_watch_request_schema,
        &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = create});
}

/* What they are made of is authorized call by call: one of each tells that it is. */
static void add_locks(struct requests *r)
{
    static const struct pb_leader_key held = {.name = BYTES("m"), .key = BYTES("m/7"), .rev = 2};

    add(r, &api_methods[API_LOCK_LOCK], &pb_lock_request_schema,
        &(struct pb_lock_request){.name = BYTES("m"), .lease = FREE_LEASE});
    add(r, &api_methods[API_LOCK_UNLOCK], &pb_unlock_request_schema,
        &(struct pb_unlock_request){.key = BYTES("m/7")});
    add(r, &api_methods[API_ELECTION_CAMPAIGN], &pb_campaign_request_schema,
        &(struct pb_campaign_request){.name = BYTES("m"), .lease = FREE_LEASE});
    add(r, &api_methods[API_ELECTION_PROCLAIM], &pb_proclaim_request_schema,
        &(struct pb_proclaim_request){.leader = &held});
    add(r, &api_methods[API_ELECTION_LEADER], &pb_leader_request_schema,
        &(struct pb_leader_request){.name = BYTES("m")});
    add(r, &api_methods[API_ELECTION_RESIGN], &pb_resign_request_schema,
        &(struct pb_resign_request){.leader = &held});
}

static void requests_make(struct requests *r)
{
    enum pb_op ops[] = {PB_OP_RANGE, PB_OP_PUT, PB_OP_DELETE_RANGE};
    const struct pb_schema *schemas[] = {&pb_range_request_schema, &pb_put_request_schema,
                                         &pb_delete_range_request_schema};

    for (size_t i = 0; i < api_method_count; i++) {
        const struct pb_schema *schema = api_handler_of((enum api_method)i)->schema;
        bool is_made_of_others = authorize_rule((enum api_method)i) == RULE_BY_INNER_CALLS;
        if (schema && i != API_WATCH_WATCH && i != API_HEALTH_WATCH && !is_made_of_others)
            vary(r, schema, (void *)&api_methods[i], take_plain);
    }
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        vary(r, schemas[i], &ops[i], take_op);
    add_compares(r);
    add_locks(r);
    vary(r, &pb_watch_create_request_schema, NULL, take_watch);
}

/* ---- Servers ---- */

struct side {
    struct peer peer;
    struct caller caller;
    struct line *line;
    const char *token;
    struct buf said;
};

static void side_open(struct side *s, bool is_ours, const char *dir)
{
    *s = (struct side){0};
    if (is_ours)
        peer_open_ours(&s->peer, dir);
    else
        peer_open(&s->peer, dir);
    peer_start(&s->peer, is_ours ? "--bcrypt-cost 4 --log-level debug" : "--bcrypt-cost 4");
    PEER_CTL(&s->peer, "put a one");
    PEER_CTL(&s->peer, "put b two");
    PEER_CTL(&s->peer, "put m three");
    static const char *const users[][3] = {{"norole", "", ""},
                                           {"reader", "read", "a"},
                                           {"writer", "write", "a"},
                                           {"ranger", "readwrite", "a n"}};
    PEER_CTL(&s->peer, "user add root:" SECRET);
    for (size_t i = 0; i < ARRAY_LEN(users); i++) {
        PEER_CTL(&s->peer, "user add %s:" SECRET, users[i][0]);
        if (!users[i][1][0])
            continue;
        PEER_CTL(&s->peer, "role add %s", users[i][0]);
        PEER_CTL(&s->peer, "role grant-permission %s %s %s", users[i][0], users[i][1], users[i][2]);
        PEER_CTL(&s->peer, "user grant-role %s %s", users[i][0], users[i][0]);
    }
    caller_open(&s->caller, &s->peer);
    s->line = caller_connect(&s->caller);
}

static void side_close(struct side *s)
{
    caller_close(&s->caller);
    buf_free(&s->said);
    peer_stop(&s->peer);
    peer_close(&s->peer);
}

/* What has come back: of a stream the first message, or its end. */
static void ask_side(struct side *s, const struct rpc_method *method,
                     const struct pb_schema *schema, const void *message)
{
    struct ask ask = {.line = s->line, .token = s->token};
    struct pb_watch_response watched = {0};
    struct arena arena = {0};
    char path[96];

    buf_clear(&s->said);
    snprintf(path, sizeof(path), "/%s/%s", method->service, method->name);
    ask_start(&ask, path, schema, message);
    while (!ask_is_over(&ask) && !(method->client_streams && ask.answer.len > 0))
        caller_turn(&s->caller, 100);
    if (method->id == API_WATCH_WATCH && ask.answer.len > 0) {
        CHECK_EQ(pb_decode_watch_response(buf_bytes(&ask.answer), &arena, &watched), ERR_OK);
        buf_printf(&s->said, "canceled %d %.*s", watched.canceled, (int)watched.cancel_reason.len,
                   (const char *)watched.cancel_reason.at);
    } else if (method->client_streams && ask.answer.len > 0) {
        buf_append_str(&s->said, "a message"); /* its end may have come with it, or not */
    } else {
        buf_printf(&s->said, "%d %s", (int)ask.code, buf_str(&ask.text));
    }
    if (!ask_is_over(&ask))
        ask_cancel(&ask);
    ask_free(&ask);
    arena_free(&arena);
}

static const char *log_in(struct side *s, const char *user)
{
    struct ask ask = {.line = s->line};
    struct pb_authenticate_response response;

    ask_start(
        &ask, "/etcdserverpb.Auth/Authenticate", &pb_authenticate_request_schema,
        &(struct pb_authenticate_request){.name = bytes_of_str(user), .password = BYTES(SECRET)});
    ask_wait(&ask);
    ask_read(&ask, &pb_authenticate_response_schema, &s->peer.arena, &response);
    const char *token = arena_copy_str(&s->peer.arena, response.token);
    ask_free(&ask);
    return token;
}

static void prepare(struct side *s)
{
    struct pb_lease_grant_request grants[] = {{.id = LEASE, .ttl = 10000},
                                              {.id = FREE_LEASE, .ttl = 10000}};
    struct pb_put_request put = {.key = BYTES("b"), .lease = LEASE};

    for (size_t i = 0; i < ARRAY_LEN(grants); i++)
        ask_side(s, &api_methods[API_LEASE_GRANT], &pb_lease_grant_request_schema, &grants[i]);
    ask_side(s, &api_methods[API_KV_PUT], &pb_put_request_schema, &put);
    CHECK_STR(buf_str(&s->said), "0 ");
    PEER_CTL(&s->peer, "user grant-role root root");
    PEER_CTL(&s->peer, "auth enable");
}

/* What root could do would end the comparison, or takes as long as it takes. */
static bool is_too_much(const char *user, unsigned method)
{
    enum auth_rule rule = authorize_rule((enum api_method)method);

    return strcmp(user, "root") == 0 &&
           (rule == RULE_ROOT || rule == RULE_ALARM || method == API_AUTH_DISABLE) &&
           method != API_AUTH_USER_LIST && method != API_AUTH_ROLE_LIST &&
           method != API_MAINTENANCE_HASH_KV && method != API_AUTH_USER_GRANT_ROLE &&
           method != API_AUTH_ROLE_ADD;
}

/* Of all that was asked, by whomever. */
static void check_log_keeps_secrets(struct side *s)
{
    const char *found =
        peer_run(&s->peer.arena,
                 "grep -c -e '" SECRET "' -e '%s' -e '[a-zA-Z]\\{16\\}\\.[0-9]' %s.log || true",
                 s->token, s->peer.dir);

    CHECK_STR(found, "0");
    CHECK_STR(peer_run(&s->peer.arena,
                       "grep -c 'invalid authentication was requested' %s.log | "
                       "grep -c -v '^0$' || true",
                       s->peer.dir),
              "1"); /* it is the right file */
}

TEST(everybody_is_told_the_same_about_everything_as_by_etcd)
{
    static struct requests r;
    struct side etcd, ours;
    struct arena arena = {0};
    struct buf differences = {0};
    unsigned compared = 0, refused = 0;
    /* An empty name shows no token, "?" one that nobody was given. */
    static const char *const users[] = {"", "?", "norole", "reader", "writer", "ranger", "root"};
    requests_make(&r);
    side_open(&etcd, false, arena_printf(&arena, "%s/etcd", test_tmp_dir()));
    side_open(&ours, true, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    prepare(&etcd);
    prepare(&ours);

    for (size_t u = 0; u < ARRAY_LEN(users); u++) {
        bool has_name = users[u][0] && users[u][0] != '?';
        etcd.token = ours.token = users[u][0] == '?' ? "abcdefghijklmnop.1" : NULL;
        if (has_name) {
            etcd.token = log_in(&etcd, users[u]);
            ours.token = log_in(&ours, users[u]);
        }
        for (size_t i = 0; i < r.count; i++) {
            const struct rpc_method *m = r.at[i].method;
            if (is_too_much(users[u], m->id))
                continue;
            ask_side(&etcd, m, r.at[i].schema, r.at[i].message);
            ask_side(&ours, m, r.at[i].schema, r.at[i].message);
            compared++;
            refused += buf_str(&etcd.said)[0] != '0';
            if (strcmp(buf_str(&etcd.said), buf_str(&ours.said)) != 0)
                buf_printf(&differences, "%s, request %zu, %s as \"%s\":\n  etcd %s\n  ours %s\n",
                           r.at[i].schema->name, i, m->name, users[u], buf_str(&etcd.said),
                           buf_str(&ours.said));
        }
    }

    if (differences.len > 0)
        test_fail(__FILE__, __LINE__, "%s", buf_str(&differences));
    CHECK(compared > 1000);
    CHECK(refused > compared / 3 && refused < compared);
    check_log_keeps_secrets(&ours);
    side_close(&etcd);
    side_close(&ours);
    buf_free(&differences);
    arena_free(&r.arena);
    arena_free(&arena);
}
