#include "api/api_rig_test.h"

#include "auth/password.h"

#include "base/mem.h"

struct api_options api_rig_options;
int64_t api_rig_quota_bytes;
struct jwt *api_rig_jwt;

struct held_need {
    enum api_need_kind need;
    struct api_call *call;
    const struct pb_internal_raft_request *request;
    struct identity identity;
    struct api_password password;
    uint64_t member;
    struct held_need *next;
};

/* ---- Opening and closing ---- */

static void update_facts(struct api_rig *k)
{
    struct clock *clock = fake_world_io(k->world)->clock;

    k->facts.now_ms = clock_now_ns(clock) / NS_PER_MS;
    k->apply_rig.now_ms = k->facts.now_ms;
    if (k->facts.applied_index < k->apply_rig.log_count)
        k->facts.applied_index = k->apply_rig.log_count;
    if (k->facts.committed_index < k->facts.applied_index)
        k->facts.committed_index = k->facts.applied_index;
}

static void open_rpc(struct api_rig *k)
{
    k->line = rpc_line_open(&(struct rpc_line_options){0});
    k->rpc = rpc_open(&(struct rpc_options){.line = k->line,
                                            .io = fake_world_io(k->world),
                                            .logger = &k->logger,
                                            .methods = api_methods,
                                            .method_count = api_method_count,
                                            .seed = 1});
    CHECK_EQ(net_address_parse("127.0.0.1:2379", &k->address), ERR_OK);
    CHECK_EQ(rpc_listen(k->rpc, &(struct rpc_place){.address = k->address}, &k->address), ERR_OK);
}

static void open_api(struct api_rig *k)
{
    struct api_options options = api_rig_options;

    options.line = k->line;
    options.apply = k->apply_rig.apply;
    options.auth = k->apply_rig.auth;
    options.tokens = k->apply_rig.tokens;
    options.entropy = fake_world_io(k->world)->entropy;
    options.mvcc = k->apply_rig.mvcc;
    options.watch = k->watch;
    options.leases = k->apply_rig.leases;
    options.cluster = k->apply_rig.cluster;
    options.backend = k->apply_rig.backend_rig.b;
    options.facts = &k->facts;
    options.logger = &k->logger;
    options.seed = test_seed();
    k->api = api_open(&options);
}

void api_rig_open(struct api_rig *k)
{
    *k = (struct api_rig){.api_steps = 2000};
    k->logger = (struct logger){.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none};
    k->world = fake_world_new(test_seed());
    apply_rig_init(&k->apply_rig, BACKEND_RIG_MEMORY);
    apply_rig_close_rooms(&k->apply_rig);
    k->apply_rig.tokens =
        api_rig_jwt ? auth_tokens_open_jwt(api_rig_jwt, 1) : auth_tokens_open(API_RIG_TOKEN_MS, 1);
    api_rig_jwt = NULL;
    CHECK(apply_rig_open_rooms(&k->apply_rig));
    if (api_rig_quota_bytes != 0) {
        apply_rig_close_rooms(&k->apply_rig);
        k->apply_rig.quota_bytes = api_rig_quota_bytes;
        CHECK(apply_rig_open_rooms(&k->apply_rig));
    }
    lease_promote(k->apply_rig.leases, 0, 0);
    k->watch = watch_open(&(struct watch_options){
        .mvcc = k->apply_rig.mvcc, .fragment_bytes = RPC_MESSAGE_BYTES_DEFAULT, .seed = 1});
    k->facts = (struct api_facts){.cluster_id = API_RIG_CLUSTER_ID,
                                  .member_id = APPLY_RIG_OWN_ID,
                                  .applied_term = API_RIG_TERM,
                                  .leader = APPLY_RIG_OWN_ID,
                                  .is_leader = true,
                                  .election_ms = 1000,
                                  .heartbeat_ms = 100};
    open_rpc(k);
    open_api(k);
    k->client =
        client_open(&(struct client_options){.io = fake_world_io(k->world), .address = k->address});
}

void api_rig_close(struct api_rig *k)
{
    client_close(k->client);
    k->client = NULL;
    rpc_stop(k->rpc);
    rpc_cut(k->rpc);
    do
        api_rig_turn(k);
    while (fake_world_step(k->world));
    api_rig_turn(k); /* what is gone is heard of */
    CHECK(rpc_is_idle(k->rpc));
    CHECK_EQ(api_status(k->api).calls, 0);
    while (k->held_needs)
        api_rig_fulfil(k);
    api_close(k->api);
    rpc_close(k->rpc);
    rpc_line_close(k->line);
    watch_close(k->watch);
    auth_tokens_close(k->apply_rig.tokens);
    apply_rig_free(&k->apply_rig);
    fake_world_free(k->world);
}

void api_rig_crash(struct api_rig *k)
{
    client_close(k->client);
    fake_wire_crash(fake_world_io(k->world)->net);
    rpc_abandon(k->rpc);
    api_abandon(k->api);
    rpc_line_close(k->line);
    while (k->held_needs) {
        struct held_need *w = k->held_needs;
        k->held_needs = w->next;
        mem_free(w);
    }
    CHECK_EQ(watch_status(k->watch).streams, 0);
    CHECK_EQ(mvcc_status(k->apply_rig.mvcc).pins, 0);
    watch_close(k->watch);
    auth_tokens_close(k->apply_rig.tokens);
    apply_rig_free(&k->apply_rig);
}

/* ---- The server ---- */

static enum result apply_request(struct api_rig *k, const struct pb_internal_raft_request *what,
                                 struct api_call *call)
{
    struct pb_internal_raft_request request = *what;
    struct apply_effects *e = apply_rig_request(&k->apply_rig, &request);

    CHECK(e);
    enum result result = e->result;
    update_facts(k);
    if (e->changes.revision != 0)
        watch_changed(k->watch, &e->changes);
    if (e->compacted)
        watch_compacted(k->watch);
    if (call)
        api_applied(k->api, call, e);
    apply_rig_done(&k->apply_rig);
    return result;
}

void api_rig_apply(struct api_rig *k, const struct pb_internal_raft_request *request)
{
    k->apply_rig.who = auth_root_identity(k->apply_rig.auth);
    CHECK_EQ(apply_request(k, request, NULL), RESULT_OK);
}

/* As cheap as it can be. */
static void answer_password(struct api_rig *k, const struct held_need *w)
{
    struct api_password_result r = {0};
    char text[PASSWORD_HASH_LEN + 1];
    const uint8_t salt[PASSWORD_SALT_BYTES] = {1, 2, 3};

    if (w->password.compares) {
        r.matches = password_matches(w->password.hash, w->password.password);
    } else {
        password_hash(w->password.password, PASSWORD_COST_MIN, salt, text);
        memcpy(r.hash, text, PASSWORD_HASH_LEN);
        r.hash_len = PASSWORD_HASH_LEN;
    }
    k->passwords++;
    api_password_done(k->api, w->call, &r);
}

static void propose_as(struct api_rig *k, const struct held_need *w)
{
    k->apply_rig.who = w->identity;
    apply_request(k, w->request, w->call);
    k->apply_rig.who = auth_root_identity(k->apply_rig.auth); /* what the test does by itself */
}

static void fulfil(struct api_rig *k, const struct held_need *w)
{
    if (k->failure != RESULT_OK && w->call)
        api_failed(k->api, w->call, k->failure);
    else if (w->need == API_READ_INDEX)
        api_read_index_done(k->api, w->call);
    else if (w->need == API_FORWARD && k->leader_says)
        api_forwarded(k->api, w->call, k->leader_says);
    else if (w->need == API_FORWARD)
        api_failed(k->api, w->call, RESULT_NO_LEADER);
    else if (w->need == API_HASH)
        api_hashed(k->api, w->call, API_RIG_HASH);
    else if (w->need == API_IMAGE)
        api_failed(k->api, w->call, RESULT_TOO_MANY_REQUESTS);
    else if (w->need == API_PASSWORD)
        answer_password(k, w);
    else if (w->need == API_MOVE_LEADER)
        k->facts.leader = w->member;
    else
        propose_as(k, w);
}

static void hold(struct api_rig *k, const struct held_need *w)
{
    struct held_need *copy = mem_new(struct held_need);
    struct held_need **at = &k->held_needs;

    *copy = *w;
    while (*at)
        at = &(*at)->next;
    *at = copy;
}

static void forget(struct api_rig *k, const struct api_call *call)
{
    struct held_need **at = &k->held_needs;

    k->forgotten++;
    while (*at && (*at)->call != call)
        at = &(*at)->next;
    CHECK(*at); /* whoever is to be forgotten was known */
    struct held_need *gone = *at;
    *at = gone->next;
    mem_free(gone);
}

void api_rig_fulfil(struct api_rig *k)
{
    struct held_need *all = k->held_needs;

    k->held_needs = NULL;
    while (all) {
        struct held_need *w = all;
        all = w->next;
        fulfil(k, w);
        mem_free(w);
    }
}

static void take_needs(struct api_rig *k)
{
    struct api_need need;

    while (api_take_need(k->api, &need)) {
        struct held_need w = {.need = need.need,
                              .call = need.call,
                              .request = need.request,
                              .identity = need.identity,
                              .password = need.password,
                              .member = need.member};
        k->proposed += need.need == API_PROPOSE;
        k->confirmed += need.need == API_READ_INDEX;
        if (need.need == API_FORWARD)
            k->forward = need.forward;
        k->alarms += need.need == API_RAISE_ALARM;
        if (need.need == API_FORGET)
            forget(k, need.call);
        else if (k->is_slow && need.call)
            hold(k, &w);
        else
            fulfil(k, &w);
        api_check(k->api);
    }
}

static void take_events(struct api_rig *k)
{
    struct rpc_event e;

    rpc_deliver(k->rpc);
    while (rpc_line_take_event(k->line, RPC_LANE_FLOW, &e) ||
           rpc_line_take_event(k->line, RPC_LANE_CALLS, &e)) {
        api_event(k->api, &e);
        api_check(k->api);
    }
}

static void work(struct api_rig *k)
{
    for (unsigned i = 0; i < 50; i++) {
        bool watch_idle = watch_work(k->watch, k->api_steps, k->facts.now_ms);
        bool api_idle = api_work(k->api, k->api_steps);
        take_needs(k);
        rpc_flush(k->rpc);
        take_events(k);
        if (watch_idle && api_idle && rpc_line_is_empty(k->line) && !rpc_has_events(k->rpc))
            return;
    }
}

static void look_after_store(struct api_rig *k)
{
    if (!k->keeps_commits && backend_can_commit(k->apply_rig.backend_rig.b))
        backend_rig_commit(&k->apply_rig.backend_rig);
    while (!mvcc_compact_some(k->apply_rig.mvcc, 100))
        ;
}

static void server_turn(struct api_rig *k)
{
    update_facts(k);
    take_events(k);
    take_needs(k);
    work(k);
    look_after_store(k);
    api_check(k->api);
    watch_check(k->watch);
    rpc_check(k->rpc);
    backend_turn_ended(k->apply_rig.backend_rig.b);
}

/* ---- The client ---- */

static void note_message(struct visit *v, struct bytes message)
{
    if (v->message_count == v->message_cap) {
        v->message_cap = v->message_cap ? 2 * v->message_cap : 4;
        v->messages = mem_resize(v->messages, v->message_cap, sizeof(*v->messages));
    }
    struct buf *b = &v->messages[v->message_count++];
    *b = (struct buf){0};
    buf_append(b, message);
}

void visit_hear(struct client *client)
{
    struct client_event e;

    while (client_take(client, &e)) {
        CHECK(e.kind != CLIENT_GONE);
        if (e.kind == CLIENT_OPEN)
            continue;
        struct visit *v = e.call->context;
        if (e.kind == CLIENT_MESSAGE) {
            note_message(v, e.message);
            continue;
        }
        v->is_over = true;
        v->call = NULL;
        v->code = e.code;
        buf_append(&v->text, e.text);
    }
    client_flush(client);
}

void api_rig_client_reads(struct api_rig *k, bool reads)
{
    api_rig_for_ms(k, 100); /* it has connected */
    if (reads)
        conn_resume(client_conn(k->client));
    else
        conn_pause(client_conn(k->client));
}

void api_rig_turn(struct api_rig *k)
{
    server_turn(k);
    if (k->client)
        visit_hear(k->client);
}

/* Time only passes when there is nothing left to do. */
static void step(struct api_rig *k, unsigned *budget)
{
    CHECK(--*budget > 0); /* it hangs */
    fake_world_step(k->world);
    api_rig_turn(k);
}

void api_rig_until_over(struct api_rig *k, struct visit *v)
{
    unsigned budget = 200000;

    api_rig_turn(k);
    while (!v->is_over)
        step(k, &budget);
}

void api_rig_until_messages(struct api_rig *k, struct visit *v, size_t count)
{
    unsigned budget = 200000;

    api_rig_turn(k);
    while (v->message_count < count) {
        CHECK(!v->is_over);
        step(k, &budget);
    }
}

static void on_time(struct timer *t)
{
    (void)t;
}

static void wait_ms(struct api_rig *k, uint64_t ms)
{
    struct clock *clock = fake_world_io(k->world)->clock;
    struct timer timer = {.on_time = on_time};

    timer_start(clock, &timer, ms * NS_PER_MS);
    while (timer_is_set(&timer)) {
        fake_world_step(k->world);
        api_rig_turn(k);
    }
}

/* With a turn for every tick, as the server has. */
void api_rig_for_ms(struct api_rig *k, uint64_t ms)
{
    api_rig_turn(k);
    for (; ms > k->facts.heartbeat_ms; ms -= k->facts.heartbeat_ms)
        wait_ms(k, k->facts.heartbeat_ms);
    wait_ms(k, ms);
}

static struct bytes encode(const struct pb_schema *schema, const void *message, struct buf *out)
{
    pb_encode(schema, message, out);
    return buf_bytes(out);
}

void api_rig_ask_with(struct api_rig *k, struct visit *v, const struct client_request *request,
                      const struct pb_schema *schema, const void *message)
{
    struct client_request r = *request;
    struct buf wire = {0};

    *v = (struct visit){0};
    r.context = v;
    v->call = client_ask(k->client, &r, encode(schema, message, &wire));
    buf_free(&wire);
}

void api_rig_ask(struct api_rig *k, struct visit *v, const char *path,
                 const struct pb_schema *schema, const void *message)
{
    api_rig_ask_with(k, v, &(struct client_request){.path = path}, schema, message);
}

void api_rig_stream(struct api_rig *k, struct visit *v, const char *path)
{
    *v = (struct visit){0};
    v->call = client_start(k->client, &(struct client_request){.path = path, .context = v});
}

void api_rig_say(struct visit *v, const struct pb_schema *schema, const void *message)
{
    struct buf wire = {0};

    client_send(v->call, encode(schema, message, &wire));
    buf_free(&wire);
}

void visit_free(struct visit *v)
{
    if (v->call)
        client_cancel(v->call);
    for (size_t i = 0; i < v->message_count; i++)
        buf_free(&v->messages[i]);
    mem_free(v->messages);
    buf_free(&v->text);
    *v = (struct visit){0};
}

void visit_decode(const struct visit *v, size_t nth, const struct pb_schema *schema,
                  struct arena *arena, void *out)
{
    CHECK(nth < v->message_count);
    CHECK_EQ(pb_decode(schema, buf_bytes(&v->messages[nth]), arena, out), ERR_OK);
}

void api_rig_expect(struct api_rig *k, struct visit *v, enum rpc_code code, const char *text)
{
    api_rig_until_over(k, v);
    CHECK_STR(buf_str(&v->text), text);
    CHECK_EQ(v->code, code);
}

void api_rig_get(struct api_rig *k, const char *path, const struct pb_schema *schema,
                 const void *message, const struct pb_schema *result, struct arena *arena,
                 void *out)
{
    struct visit v;

    api_rig_ask(k, &v, path, schema, message);
    api_rig_expect(k, &v, RPC_OK, "");
    CHECK_EQ(v.message_count, 1);
    struct bytes copy = arena_copy(arena, buf_bytes(&v.messages[0]));
    CHECK_EQ(pb_decode(result, copy, arena, out), ERR_OK);
    visit_free(&v);
}

void api_rig_refused(struct api_rig *k, const char *path, const struct pb_schema *schema,
                     const void *message, enum rpc_code code, const char *text)
{
    struct visit v;

    api_rig_ask(k, &v, path, schema, message);
    api_rig_expect(k, &v, code, text);
    CHECK_EQ(v.message_count, 0);
    visit_free(&v);
}

int64_t api_rig_put(struct api_rig *k, const char *key, const char *value)
{
    struct pb_put_request put = {.key = bytes_of_str(key), .value = bytes_of_str(value)};
    struct pb_put_response response;
    struct arena arena = {0};

    api_rig_get(k, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put, &pb_put_response_schema,
                &arena, &response);
    int64_t revision = response.header->revision;
    arena_free(&arena);
    return revision;
}

/* ---- Plain HTTP ---- */

struct plain {
    struct buf *out;
    bool is_over;
};

static void plain_open(struct conn *c)
{
    (void)c;
}

static void plain_data(struct conn *c, struct bytes data)
{
    struct plain *p = c->context;

    buf_append(p->out, data);
}

static void plain_end(struct conn *c)
{
    conn_close(c, ERR_END);
}

static void plain_closed(struct conn *c, enum err reason)
{
    struct plain *p = c->context;

    (void)reason;
    p->is_over = true;
}

static void plain_written(struct conn_write *w, enum err e)
{
    (void)w;
    CHECK_EQ(e, ERR_OK);
}

static const struct conn_handlers plain_handlers = {
    .on_open = plain_open,
    .on_data = plain_data,
    .on_end = plain_end,
    .on_closed = plain_closed,
};

void api_rig_http(struct api_rig *k, const char *request, struct buf *out)
{
    struct plain p = {.out = out};
    struct bytes text = bytes_of_str(request);
    struct conn_write write = {.pieces = &text, .piece_count = 1, .on_done = plain_written};
    struct conn *c = net_connect(fake_world_io(k->world)->net, &k->address, &plain_handlers, &p);
    unsigned budget = 100000;

    conn_write(c, &write);
    while (!p.is_over)
        step(k, &budget);
}

void api_rig_http_cut(struct api_rig *k, const char *request)
{
    struct buf out = {0};
    struct plain p = {.out = &out};
    struct bytes text = bytes_of_str(request);
    struct conn_write write = {.pieces = &text, .piece_count = 1, .on_done = plain_written};
    struct conn *c = net_connect(fake_world_io(k->world)->net, &k->address, &plain_handlers, &p);

    conn_write(c, &write);
    api_rig_for_ms(k, 500);
    fake_wire_reset(c);
    api_rig_for_ms(k, 500);
    CHECK(p.is_over);
    CHECK_EQ(out.len, 0);
}
