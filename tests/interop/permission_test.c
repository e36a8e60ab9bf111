/*
 * Who may do what: every RPC, with every option, asked by everybody, of real etcd and of us.
 *
 * The requests are made from the message tables: one with what it needs, and from that one for each
 * of its fields, with the field set to something else. A field that is not in the list below fails
 * the test: whoever adds one says what it has to do with permission.
 *
 * Compared are the code and the text that come back, or why a watcher was refused. Both servers go
 * through the same changes, so root, who may do everything, comes last.
 *
 * Who somebody is he says in three ways: by a simple token, by a JWT, which may be older than the
 * last change of users and roles, and by the name in his certificate.
 */
#include "api/api_int.h"
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/jwt_keys_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
    {.field = "password",
     .text = BYTES(SECRET),
     .texts = {BYTES("wrong"), BYTES(SECRET "\0"), BYTES(SECRET "\0" SECRET)}}, /* as bcrypt does */
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
    {.field = "request_range", .is_not_asked = true},
    {.field = "request_put", .is_not_asked = true},
    {.field = "request_delete_range", .is_not_asked = true},
    {.field = "request_txn", .is_not_asked = true},
    {.field = "leader", .is_not_asked = true},
    {.field = "rev", .is_not_asked = true},
    /* of a compare: whatever it is compared with, the key is read */
    {.field = "result", .is_not_asked = true},
    {.field = "target", .is_not_asked = true},
    {.field = "create_revision", .is_not_asked = true},
    {.field = "mod_revision", .is_not_asked = true},
    /* of a permission, and of how a user may be had: only root gives them */
    {.field = "permType", .is_not_asked = true},
    {.field = "no_password", .is_not_asked = true},
};

static const struct meaning *meaning_of(const struct pb_schema *schema, const struct pb_field *f)
{
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (strcmp(meanings[i].field, f->name) == 0)
            return &meanings[i];
    test_fail(__FILE__, __LINE__, "%s.%s: nobody has said what it has to do with permission",
              schema->name, f->name);
}

/* Those of the messages made by hand, too, and of the messages in them. */
static void check_fields_have_meanings(const struct pb_schema *schema)
{
    static const struct pb_schema *seen[80];

    for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
        if (seen[i] == schema)
            return;
        if (seen[i])
            continue;
        seen[i] = schema;
        for (size_t f = 0; f < schema->field_count; f++) {
            meaning_of(schema, &schema->fields[f]);
            if (schema->fields[f].kind == PB_MESSAGE)
                check_fields_have_meanings(schema->fields[f].sub);
        }
        return;
    }
    test_fail(__FILE__, __LINE__, "there are more messages than are remembered here");
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
        if (schema)
            check_fields_have_meanings(schema);
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
    struct tls *tls; /* NULL: plain */
    struct line *line;
    const char *token;
    struct buf said;
};

static void side_open(struct side *s, bool is_ours, const char *flags)
{
    char dir[4096];

    *s = (struct side){0};
    snprintf(dir, sizeof(dir), "%s/%s", test_tmp_dir(), is_ours ? "ours" : "etcd");
    if (is_ours)
        peer_open_ours(&s->peer, dir);
    else
        peer_open(&s->peer, dir);
    peer_start(&s->peer,
               arena_printf(&s->peer.arena, "--bcrypt-cost 4 --log-level debug %s", flags));
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
}

/* By TLS, if there is a certificate to show. */
static void side_connect(struct side *s, const char *cert)
{
    struct buf why = {0};

    caller_open(&s->caller, &s->peer);
    if (cert) {
        CHECK(tls_open(&(struct tls_options){.io = s->caller.io,
                                             .asks_for_h2 = true,
                                             .cert_file = certs_file(cert),
                                             .key_file = certs_key(cert),
                                             .trusted_ca_file = certs_file("ca")},
                       &why, &s->tls));
        s->caller.net = tls_net(s->tls);
    }
    s->line = caller_connect(&s->caller);
    s->token = NULL;
}

static void side_disconnect(struct side *s)
{
    line_close(s->line);
    while (s->tls && !tls_is_idle(s->tls))
        caller_turn(&s->caller, 10);
    tls_close(s->tls);
    s->tls = NULL;
    caller_close(&s->caller);
}

static void side_close(struct side *s)
{
    side_disconnect(s);
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
static bool is_too_much_for_root(unsigned method)
{
    enum auth_rule rule = authorize_rule((enum api_method)method);

    return (rule == RULE_ROOT || rule == RULE_ALARM || method == API_AUTH_DISABLE) &&
           method != API_AUTH_USER_LIST && method != API_AUTH_ROLE_LIST &&
           method != API_MAINTENANCE_HASH_KV && method != API_AUTH_USER_GRANT_ROLE &&
           method != API_AUTH_ROLE_ADD;
}

/* ---- Comparing ---- */

static const char allowed[] = "0 ", denied[] = "7 etcdserver: permission denied",
                  empty[] = "3 etcdserver: user name is empty",
                  invalid[] = "16 etcdserver: invalid auth token",
                  outdated[] = "3 etcdserver: revision of auth store is old";

struct pair {
    struct requests requests;
    struct side etcd, ours;
    struct buf differences;
    unsigned compared, refused;
};

static void pair_open(struct pair *p, const char *flags)
{
    p->compared = p->refused = 0;
    p->requests.count = 0;
    requests_make(&p->requests);
    side_open(&p->etcd, false, flags);
    side_open(&p->ours, true, flags);
    side_connect(&p->etcd, NULL);
    side_connect(&p->ours, NULL);
    prepare(&p->etcd);
    prepare(&p->ours);
}

static void pair_close(struct pair *p)
{
    if (p->differences.len > 0)
        test_fail(__FILE__, __LINE__, "%s", buf_str(&p->differences));
    side_close(&p->etcd);
    side_close(&p->ours);
    buf_free(&p->differences);
    arena_free(&p->requests.arena);
}

/* Everything, by the lines and with the tokens that the sides have just now. `first` is what etcd
 * says to the first request, to read "a": so it is who it is meant to be. */
static void compare(struct pair *p, const char *who, bool is_root, const char *first)
{
    for (size_t i = 0; i < p->requests.count; i++) {
        const struct rpc_method *m = p->requests.at[i].method;
        const struct pb_schema *schema = p->requests.at[i].schema;
        if (is_root && is_too_much_for_root(m->id))
            continue;
        ask_side(&p->etcd, m, schema, p->requests.at[i].message);
        ask_side(&p->ours, m, schema, p->requests.at[i].message);
        if (i == 0)
            CHECK_STR(buf_str(&p->etcd.said), first);
        p->compared++;
        p->refused += buf_str(&p->etcd.said)[0] != '0';
        if (strcmp(buf_str(&p->etcd.said), buf_str(&p->ours.said)) != 0)
            buf_printf(&p->differences, "%s, request %zu, %s as %s:\n  etcd %s\n  ours %s\n",
                       schema->name, i, m->name, who, buf_str(&p->etcd.said),
                       buf_str(&p->ours.said));
        if (p->differences.len > 4000)
            test_fail(__FILE__, __LINE__, "%s", buf_str(&p->differences)); /* enough */
    }
}

/* CVE-2021-28235: passwords of those who logged in were to be seen on a page. Of all that was
 * asked, by whomever, none is to be found on ours, nor in the log. */
static void check_secrets_are_kept(struct side *s)
{
    const char *found =
        peer_run(&s->peer.arena,
                 "(cat %s.log; for p in metrics debug/vars debug/requests debug/events health "
                 "version; do curl -s %s/$p; done) | "
                 "grep -c -e '" SECRET "' -e '%s' -e '[a-zA-Z]\\{16\\}\\.[0-9]' || true",
                 s->peer.dir, s->peer.client_url, s->token);

    CHECK_STR(found, "0");
    CHECK(peer_said(&s->peer, "invalid authentication was requested") > 0); /* the right file */
    CHECK(strstr(peer_run(&s->peer.arena, "curl -s %s/debug/vars", s->peer.client_url), "{"));
}

TEST(everybody_is_told_the_same_about_everything_as_by_etcd)
{
    static struct pair p;
    static const char *const users[] = {"norole", "reader", "writer", "ranger", "root"};
    static const bool is_reader[] = {false, true, false, true, true};
    pair_open(&p, "");

    compare(&p, "nobody", false, empty);
    p.etcd.token = p.ours.token = "abcdefghijklmnop.1";
    compare(&p, "one whose token was given to nobody", false, invalid);
    p.etcd.token = p.ours.token = "";
    compare(&p, "one whose token is empty", false, invalid);
    for (size_t u = 0; u < ARRAY_LEN(users); u++) {
        p.etcd.token = log_in(&p.etcd, users[u]);
        p.ours.token = log_in(&p.ours, users[u]);
        compare(&p, users[u], strcmp(users[u], "root") == 0, is_reader[u] ? allowed : denied);
    }

    CHECK(p.compared > 1000);
    CHECK(p.refused > p.compared / 3 && p.refused < p.compared);
    check_secrets_are_kept(&p.ours);
    pair_close(&p);
}

/* ---- What refused writes cost ---- */

static uint64_t log_index(struct side *s)
{
    const char *said = PEER_CTL(&s->peer, "--user root:" SECRET " endpoint status -w json"),
               *index = strstr(said, "\"raftIndex\":");

    CHECK(index);
    return strtoull(strchr(index, ':') + 1, NULL, 10);
}

/* Logging in for `endpoint status` adds a few entries; that of the cluster's version may be among
 * them. */
static void check_entries_of_nobodys_puts(struct side *s)
{
    enum { PUTS = 100, OTHERS = 10 };
    struct pb_put_request put = {.key = BYTES("a")};
    uint64_t before = log_index(s);

    for (unsigned i = 0; i < PUTS; i++) {
        ask_side(s, &api_methods[API_KV_PUT], &pb_put_request_schema, &put);
        CHECK_STR(buf_str(&s->said), empty);
    }
    uint64_t entries = log_index(s) - before;
    CHECK(entries >= PUTS && entries < PUTS + OTHERS);
}

TEST(writes_of_a_client_without_a_token_are_refused_behind_the_log_as_by_etcd)
{
    static struct pair p;
    pair_open(&p, "");

    check_entries_of_nobodys_puts(&p.etcd);
    check_entries_of_nobodys_puts(&p.ours);
    pair_close(&p);
}

/* ---- Odd ranges ---- */

static void both_log_in(struct pair *p, const char *user)
{
    p->ours.token = log_in(&p->ours, user);
    p->etcd.token = log_in(&p->etcd, user);
}

static void add_odd_requests(struct requests *r)
{
    static const struct bytes texts[] = {BYTES(""),  BYTES("\0"),  BYTES("\0\0"), BYTES("a"),
                                         BYTES("b"), BYTES("b\0"), BYTES("c"),    BYTES("n"),
                                         BYTES("z"), BYTES("\xff")};
    enum { COUNT = ARRAY_LEN(texts) };

    r->count = 0;
    for (size_t i = 0; i < COUNT * COUNT; i++) {
        struct bytes key = texts[i / COUNT], end = texts[i % COUNT];
        struct pb_compare *compare = arena_new(&r->arena, struct pb_compare);
        *compare = (struct pb_compare){.key = key, .range_end = end};
        add(r, &api_methods[API_KV_RANGE], &pb_range_request_schema,
            &(struct pb_range_request){.key = key, .range_end = end});
        add_txn(r, compare, 1, NULL, NULL);
        take_watch(r, NULL, &(struct pb_watch_create_request){.key = key, .range_end = end});
        if (key.len == 0 || bytes_compare(key, end) >= 0) /* one that takes nothing away */
            add(r, &api_methods[API_KV_DELETE_RANGE], &pb_delete_range_request_schema,
                &(struct pb_delete_range_request){.key = key, .range_end = end});
    }
}

/* Each user has a role of his name with these permissions, which make trees of several shapes. */
static void add_odd_users(struct side *s)
{
    static const char *const permissions[][2] = {{"all", "--from-key \"\""},
                                                 {"two", "a c"},
                                                 {"two", "m p"},
                                                 {"many", "b c"},
                                                 {"many", "a b"},
                                                 {"many", "\"\" --from-key"},
                                                 {"many", "n"},
                                                 {"many", "m z"},
                                                 {"upper", "b --from-key"},
                                                 {"lower", "a b"},
                                                 {"lower", "b c"},
                                                 {"lower", "n z"}};

    for (size_t i = 0; i < ARRAY_LEN(permissions); i++) {
        const char *name = permissions[i][0];
        if (i == 0 || strcmp(name, permissions[i - 1][0]) != 0) {
            PEER_CTL(&s->peer, "--user root:" SECRET " user add %s:" SECRET, name);
            PEER_CTL(&s->peer, "--user root:" SECRET " role add %s", name);
            PEER_CTL(&s->peer, "--user root:" SECRET " user grant-role %s %s", name, name);
        }
        PEER_CTL(&s->peer, "--user root:" SECRET " role grant-permission %s readwrite %s", name,
                 permissions[i][1]);
    }
}

TEST(ranges_that_end_before_they_begin_are_permitted_as_by_etcd)
{
    static struct pair p;
    static const char *const users[] = {"all", "two", "many", "upper", "lower", "reader"};
    pair_open(&p, "");
    add_odd_users(&p.etcd);
    add_odd_users(&p.ours);
    add_odd_requests(&p.requests);

    for (size_t u = 0; u < ARRAY_LEN(users); u++) {
        both_log_in(&p, users[u]);
        compare(&p, users[u], false, "3 etcdserver: key is not provided");
    }

    CHECK(p.compared > 1000);
    pair_close(&p);
}

/* ---- Certificates and JWTs ---- */

static void make_certs(void)
{
    static const char *const names[] = {"norole", "reader", "ranger", "root", "nosuch"};

    certs_make("ca", &(struct cert){.cn = "a CA", .is_ca = true});
    certs_make("server", &(struct cert){.signer = "ca", .sans = "IP:127.0.0.1"});
    certs_make("nameless", &(struct cert){.signer = "ca", .sans = "DNS:a.example"});
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        certs_make(names[i], &(struct cert){.signer = "ca", .cn = names[i]});
}

/* The same data, from now on by TLS and with JWTs. */
static void restart_with_tls(struct side *s)
{
    static const char ready[] = "ready to serve client requests";
    struct peer *p = &s->peer;
    unsigned before = peer_said(p, ready);

    side_disconnect(s);
    peer_stop(p);
    p->client_url = arena_printf(&p->arena, "https%s", strchr(p->client_url, ':'));
    peer_launch(p, arena_printf(&p->arena,
                                "--bcrypt-cost 4 --cert-file %s --key-file %s --trusted-ca-file %s "
                                "--client-cert-auth --auth-token=jwt,sign-method=ES256,"
                                "pub-key=%s/public,priv-key=%s/private,ttl=1h",
                                certs_file("server"), certs_key("server"), certs_file("ca"),
                                test_tmp_dir(), test_tmp_dir()));
    peer_await_said(p, ready, before + 1);
    side_connect(s, "nameless");
}

static void both_connect(struct pair *p, const char *cert)
{
    side_disconnect(&p->etcd);
    side_disconnect(&p->ours);
    side_connect(&p->etcd, cert);
    side_connect(&p->ours, cert);
}

static void both_add_role(struct pair *p, struct bytes name)
{
    struct side *sides[] = {&p->etcd, &p->ours};

    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        ask_side(sides[i], &api_methods[API_AUTH_ROLE_ADD], &pb_auth_role_add_request_schema,
                 &(struct pb_auth_name){.name = name});
        CHECK_STR(buf_str(&sides[i]->said), "0 ");
    }
}

/* Signed by the key that both of them trust, and over since a while. */
static const char *sign_expired(struct pair *p, const struct jwt_keys *keys, const char *user)
{
    struct buf token = {0}, why = {0};
    struct jwt *jwt;

    CHECK_EQ(jwt_open(&(struct jwt_options){.method = JWT_ES256,
                                            .public_key = buf_bytes(&keys->public_key),
                                            .private_key = buf_bytes(&keys->private_key),
                                            .ttl_s = -10},
                      &why, &jwt),
             ERR_OK);
    CHECK_EQ(jwt_sign(jwt, bytes_of_str(user), 1000, (int64_t)time(NULL), &token), ERR_OK);
    const char *kept = arena_copy_str(&p->requests.arena, buf_bytes(&token));
    jwt_close(jwt);
    buf_free(&token);
    return kept;
}

TEST(who_is_outdated_expired_or_certified_is_told_the_same_as_by_etcd)
{
    static const char *const certs[] = {"nameless", "nosuch", "norole", "reader", "ranger"};
    static const bool is_reader[] = {false, false, false, true, true};
    static struct pair p;
    struct jwt_keys keys;
    peer_need();
    make_certs();
    jwt_keys_make(JWT_ES256, &keys);
    jwt_keys_write(&keys);
    pair_open(&p, "--auth-token-ttl 1");

    both_log_in(&p, "root"); /* with us first: so when etcd says it is over, it is with us */
    peer_await_said(&p.etcd.peer, "deleted a simple token", 1);
    compare(&p, "root whose simple token has expired", false, invalid);
    restart_with_tls(&p.etcd);
    restart_with_tls(&p.ours);
    for (size_t i = 0; i < ARRAY_LEN(certs); i++) {
        both_connect(&p, certs[i]);
        compare(&p, arena_printf(&p.requests.arena, "%s by certificate", certs[i]), false,
                is_reader[i] ? allowed : denied);
    }
    both_connect(&p, "root");
    p.etcd.token = p.ours.token = sign_expired(&p, &keys, "root");
    compare(&p, "root whose JWT has expired", false,
            invalid); /* his certificate is not asked then */
    both_log_in(&p, "reader");
    compare(&p, "reader by JWT", false, allowed);
    const char *readers[] = {p.etcd.token, p.ours.token};
    p.etcd.token = p.ours.token = "";
    compare(&p, "root by certificate, with an empty token", false, invalid);
    p.etcd.token = readers[0], p.ours.token = readers[1];
    const char *etcds_token = p.etcd.token, *our_token = p.ours.token;
    both_log_in(&p, "root");
    both_add_role(&p, BYTES("later"));
    const char *etcds_root = p.etcd.token, *our_root = p.ours.token;
    p.etcd.token = etcds_token;
    p.ours.token = our_token;
    compare(&p, "reader by an outdated JWT", false, outdated);
    p.etcd.token = etcds_root;
    p.ours.token = our_root;
    compare(&p, "root by an outdated JWT", true, outdated);
    p.etcd.token = p.ours.token = NULL;
    compare(&p, "root by certificate", true, allowed);

    CHECK(p.compared > 2000);
    CHECK(p.refused > p.compared / 2 && p.refused < p.compared);
    jwt_keys_free(&keys);
    pair_close(&p);
}
