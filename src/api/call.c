#include "api/api_int.h"
#include "io/clock.h"

#include <stdio.h>

/* --- life --- */

static struct call *take_spare(struct api *a)
{
    struct list *link = list_pop_front(&a->spare);

    if (!link)
        return mem_new(struct call);
    a->spare_count--;
    struct call *c = container_of(link, struct call, link);
    struct arena arena = c->arena;
    mem_clear(c, sizeof(*c));
    c->arena = arena;
    return c;
}

static void take_slot(struct api *a, struct call *c)
{
    size_t at = api_slot_index(c->base.rpc);

    if (at >= a->slot_count) {
        size_t count = a->slot_count ? 2 * a->slot_count : 64;
        count = count > at ? count : at + 1;
        a->slots = mem_resize(a->slots, count, sizeof(*a->slots));
        memset(a->slots + a->slot_count, 0, (count - a->slot_count) * sizeof(*a->slots));
        a->slot_count = count;
    }
    assert(!a->slots[at].call && !a->slots[at].bodies); /* who had it before was heard to the end */
    a->slots[at] = (struct api_slot){.id = c->base.rpc, .call = c};
}

struct call *api_call_new(struct api *a, struct rpc_event *first)
{
    struct call *c = take_spare(a);

    c->first = *first;
    first->content = (struct buf){0};
    c->base.api = a;
    c->base.rpc = first->call;
    c->base.conn = first->conn;
    c->started_ns = a->facts->now_ns;
    c->base.deadline_ms = first->deadline_ns ? first->deadline_ns / NS_PER_MS : UINT64_MAX;
    list_init(&c->base.link);
    list_init(&c->link);
    list_init(&c->stream_link);
    list_init(&c->need_link);
    list_init(&c->work_link);
    list_push_back(&a->calls, &c->link);
    a->call_count++;
    take_slot(a, c);
    return c;
}

void api_call_destroy(struct call *c)
{
    buf_free(&c->first.content);
    buf_free(&c->message);
    buf_free(&c->kept_message);
    arena_free(&c->arena);
    mem_free(c);
}

void api_call_free(struct call *c)
{
    struct api *a = api_of(c);

    assert(!c->base.rpc);
    assert(c->link.next == &c->link);
    assert(a->raising_bytes >= c->raising_bytes);
    a->raising_bytes -= c->raising_bytes;
    if (a->spare_count >= API_SPARE_CALLS_MAX) {
        api_call_destroy(c);
        return;
    }
    buf_pool_give(&a->bufs, &c->first.content);
    buf_pool_give(&a->bufs, &c->message);
    buf_free(&c->kept_message);
    arena_reset(&c->arena);
    a->spare_count++;
    list_push_front(&a->spare, &c->link);
}

void api_call_end(struct call *c)
{
    struct api *a = api_of(c);

    if (c->is_counted) /* nobody was told anything */
        api_count_handled(
            c, c->base.deadline_ms <= a->facts->now_ms ? RPC_DEADLINE_EXCEEDED : RPC_CANCELED, 0);
    if (c->on->released)
        c->on->released(c);
    if (c->is_reading)
        apply_read_end(&c->read);
    c->is_reading = false;
    api_call_stop_working(c);
    list_remove(&c->link);
    list_remove(&c->stream_link);
    list_remove(&c->need_link); /* nobody has heard of it yet */
    a->call_count--;
    a->stream_count -= c->is_stream;
    api_slot_of(a, c->base.rpc)->call = NULL;
    c->base.rpc = 0;
    if (!c->base.is_waiting) {
        api_call_free(c);
        return;
    }
    c->need = API_FORGET;
    list_push_back(&a->needs, &c->need_link);
}

/* --- ending --- */

void api_call_finish_text(struct call *c, enum rpc_code code, const char *text)
{
    assert(code != RPC_OK || c->is_authorized);

    c->error = code == RPC_OK ? NULL : text;
    api_count_handled(c, code, 0);
    rpc_line_finish(api_line_of(api_of(c), c->base.rpc), c->base.rpc, code, bytes_of_str(text));
    api_call_end(c);
}

void api_call_finish(struct call *c, enum result a)
{
    api_call_finish_text(c, (enum rpc_code)result_code(a), result_text(a));
}

/* As Go's protobuf says it. */
static const char *decode_error_text(enum err e)
{
    switch (e) {
    case ERR_BAD_UTF8:
        return "string field contains invalid UTF-8";
    case ERR_TOO_DEEP:
        return "proto: exceeded maximum recursion depth";
    default:
        return "proto: cannot parse invalid wire-format data";
    }
}

/* Of a stream gRPC tells the client itself, and the stream is canceled for whoever reads from it:
 * that is what etcd counts. */
static void finish_undecodable(struct call *c, enum err e)
{
    char text[160];

    snprintf(text, sizeof(text), "%s: %s",
             c->is_stream ? "grpc: failed to unmarshal the received message"
                          : "grpc: error unmarshalling request",
             decode_error_text(e));
    if (c->is_stream) {
        api_count_received(c, 0);
        api_count_handled(c, RPC_CANCELED, 0);
    }
    api_call_finish_text(c, RPC_INTERNAL, text);
}

static void finish_unsupported(struct call *c)
{
    char text[128];

    snprintf(text, sizeof(text), "etcdserver: %s is not supported yet", c->base.method->name);
    api_call_finish_text(c, RPC_UNIMPLEMENTED, text);
}

/* --- what happens before a method's own code --- */

/* What etcd's interceptors look at, in their order. */
static enum result pass_gate(struct call *c, bool for_learners)
{
    const struct api_facts *facts = api_of(c)->facts;

    if (facts->is_stopping)
        return RESULT_STOPPED;
    if (facts->is_learner && !for_learners)
        return RESULT_NOT_SUPPORTED_FOR_LEARNER;
    if (!c->first.client_api_version_is_utf8 && c->first.client_api_version.len > 0)
        return RESULT_INVALID_CLIENT_API_VERSION;
    api_count_client(c);
    if (c->first.has_leader && facts->leader == 0)
        return RESULT_NO_LEADER;
    return RESULT_OK;
}

/* A learner may be behind, so it answers only those who have said that they do not mind. */
static bool is_for_learners(const struct call *c, const void *request)
{
    if (c->method == API_KV_RANGE)
        return ((const struct pb_range_request *)request)->serializable;
    return c->on->for_learners;
}

enum result api_call_decide(struct call *c, const void *request)
{
    enum result result = api_call_identify(c);

    if (result != RESULT_OK)
        return result;
    return authorize(&(struct authorize_question){.auth = api_of(c)->o.auth,
                                                  .method = c->method,
                                                  .who = &c->base.identity,
                                                  .request = request});
}

/* What a message of the streams asks for is decided by their own code, as late as it can be: of a
 * Watch it may be refused and the stream go on. */
static bool decides_itself(const struct call *c)
{
    return c->method == API_WATCH_WATCH || c->method == API_LEASE_KEEP_ALIVE;
}

/* A unary call is authorized once; a stream when it opens and with each message. */
static enum result pass_authorize(struct call *c, const void *request)
{
    enum result a = decides_itself(c) || !request ? RESULT_OK : api_call_decide(c, request);

    c->is_authorized = a == RESULT_OK;
    return a;
}

static void run_message(struct call *c, const void *request)
{
    enum result a = c->on->check ? c->on->check(c, request) : RESULT_OK;

    if (a == RESULT_NO_SPACE) {
        api_call_refuse_for_space(c);
        return;
    }
    if (a != RESULT_OK) {
        api_call_finish(c, a);
        return;
    }
    a = pass_authorize(c, request);
    c->is_run = true;
    if (a == RESULT_OK)
        c->on->run(c, request);
    else
        api_call_finish(c, a);
}

/* A stream's messages come and go, so they must not gather in the call's arena. */
static struct arena *message_arena(struct call *c)
{
    struct api *a = api_of(c);

    if (!c->base.method->client_streams)
        return &c->arena;
    arena_reset(&a->scratch);
    return &a->scratch;
}

/* The message is taken up again as if it came now. */
static bool token_is_known(struct call *c)
{
    const struct api_facts *facts = api_of(c)->facts;

    if (facts->applied_index < c->token_index && facts->now_ms < c->token_until_ms)
        return false;
    struct buf wire = c->kept_message;
    bool ended_early = c->ended_early;
    uint64_t id = c->base.rpc;
    struct api *a = api_of(c);

    api_call_stop_working(c);
    c->kept_message = (struct buf){0};
    c->awaits_token = c->ended_early = false;
    api_call_message(c, c->base.method->client_streams ? buf_bytes(&wire)
                        : c->is_stream                 ? buf_bytes(&c->message)
                                       : rpc_event_bytes(&c->first, c->first.message));
    struct api_slot *slot = api_slot_of(a, id);
    if (ended_early && slot && slot->call && slot->call->on->ended)
        slot->call->on->ended(slot->call);
    buf_free(&wire);
    return true;
}

/* Only the first message of a stream can have to wait: what it waits for does not go away. */
static bool wait_for_token(struct call *c, struct bytes wire)
{
    uint64_t index;

    if (c->has_waited || !api_call_awaits_token(c, &index))
        return false;
    c->has_waited = c->awaits_token = true;
    c->token_index = index;
    c->token_until_ms = api_of(c)->facts->now_ms + API_TOKEN_WAIT_MS;
    if (c->base.method->client_streams)
        buf_append(&c->kept_message, wire);
    api_call_wait(c, token_is_known);
    return true;
}

void api_call_message(struct call *c, struct bytes wire)
{
    if (wait_for_token(c, wire))
        return;
    struct arena *arena = message_arena(c);
    void *request = arena_alloc(arena, c->on->schema->size);
    enum err e = pb_decode(c->on->schema, wire, arena, request);

    api_of(c)->stats.received_bytes += wire.len;
    if (e != ERR_OK) {
        finish_undecodable(c, e);
        return;
    }
    if (!c->is_stream)
        api_count_started(c);
    api_count_received(c, 0);
    if (!c->is_stream) {
        enum result a = pass_gate(c, is_for_learners(c, request));
        if (a != RESULT_OK) {
            api_call_finish(c, a);
            return;
        }
    }
    if (!c->base.method->client_streams)
        c->request = request;
    run_message(c, request);
}

static void move_front(struct rpc_span *s, uint32_t dropped)
{
    if (s->len == 0)
        return;
    assert(s->at >= dropped);
    s->at -= dropped;
}

/* An event of a unary call has the message first in its buffer, and behind it the fields that say
 * which client asks. */
static void drop_message(struct rpc_event *e)
{
    uint32_t dropped = e->message.len;
    struct buf rest = {0};

    assert(e->message.at == 0);
    if (dropped == 0)
        return;
    buf_append(&rest, bytes_of(e->content.at + dropped, e->content.len - dropped));
    buf_free(&e->content);
    e->content = rest;
    e->message = (struct rpc_span){0};
    move_front(&e->remote, dropped);
    move_front(&e->cn, dropped);
    move_front(&e->authorization, dropped);
    move_front(&e->token, dropped);
    move_front(&e->client_api_version, dropped);
}

void api_call_release_request(struct call *c, size_t kept)
{
    assert(!c->base.method->client_streams);

    c->request = NULL;
    if (c->is_stream)
        buf_free(&c->message);
    else
        drop_message(&c->first);
    rpc_line_release_but(api_line_of(api_of(c), c->base.rpc), c->base.rpc, kept);
}

/* Refused before anything is read, since nothing that it could say would change the answer. */
void api_call_unsupported(struct call *c)
{
    if (!c->is_counted)
        api_count_started(c);
    api_count_received(c, 0);
    enum result a = pass_gate(c, c->on->for_learners);

    if (a == RESULT_OK)
        a = pass_authorize(c, NULL);
    if (a == RESULT_OK)
        finish_unsupported(c);
    else
        api_call_finish(c, a);
}

void api_call_open_stream(struct call *c)
{
    struct api *a = api_of(c);

    c->is_stream = true;
    a->stream_count++;
    list_push_back(&a->streams, &c->stream_link);
    api_count_started(c);
    if (!c->on->schema) {
        api_call_unsupported(c);
        return;
    }
    enum result result = pass_gate(c, c->on->for_learners);
    if (result == RESULT_OK)
        result = pass_authorize(c, NULL);
    if (result != RESULT_OK)
        api_call_finish(c, result);
    else if (c->on->opened)
        c->on->opened(c);
}

/* --- needs --- */

struct pb_internal_raft_request *api_call_proposal(struct call *c)
{
    if (!c->proposal)
        c->proposal = arena_new(&c->arena, struct pb_internal_raft_request);
    return c->proposal;
}

static void need(struct call *c, enum api_need_kind need)
{
    assert(!c->base.is_waiting);
    assert(c->base.rpc);

    c->need = need;
    list_push_back(&api_of(c)->needs, &c->need_link);
}

void api_call_propose(struct call *c)
{
    assert(c->proposal);
    assert(c->is_authorized);

    need(c, API_PROPOSE);
}

void api_call_configure(struct call *c)
{
    assert(c->is_authorized);

    need(c, API_CONFIGURE);
}

void api_call_read_index(struct call *c)
{
    need(c, API_READ_INDEX);
}

void api_call_forward(struct call *c, const struct api_forward *what)
{
    assert(c->is_authorized);

    c->forward = *what;
    need(c, API_FORWARD);
}

void api_call_hash(struct call *c)
{
    assert(c->is_authorized);

    need(c, API_HASH);
}

void api_call_image(struct call *c)
{
    assert(c->is_authorized);

    need(c, API_IMAGE);
}

void api_call_measure(struct call *c, enum api_need_kind what)
{
    assert(what == API_METRICS || what == API_VARS);

    need(c, what);
}

void api_call_password(struct call *c, const struct api_password *what)
{
    assert(c->is_authorized);

    c->password = *what;
    need(c, API_PASSWORD);
}

enum result api_call_check_quota(const struct call *c)
{
    assert(c->proposal);

    return apply_over_quota(c->base.api->o.apply, c->proposal) ? RESULT_NO_SPACE : RESULT_OK;
}

/*
 * As in etcd the alarm is up before the client hears of the refusal: a client that looks at /health
 * next finds it there. Each refused call proposes the alarm and has a proposal's time limit, so it
 * is answered without a leader, too. With the alarm up already there is nothing to wait for. An
 * alarm is a few bytes in the queue of proposals, which the write that waits for it is not: writes
 * beyond a bound are refused at once, while others raise the alarm.
 */
void api_call_refuse_for_space(struct call *c)
{
    struct api *a = api_of(c);
    struct apply_alarm own = {.member = a->facts->member_id, .alarm = PB_ALARM_NOSPACE};
    size_t bytes = sizeof(*c) + c->first.content.len;

    assert(c->raising_bytes == 0);
    if (apply_has_alarm(a->o.apply, own) || a->raising_bytes + bytes > API_RAISING_BYTES_MAX) {
        api_call_finish(c, RESULT_NO_SPACE);
        return;
    }
    struct pb_alarm_request *alarm = arena_new(&c->arena, struct pb_alarm_request);
    *alarm = (struct pb_alarm_request){
        .action = PB_ALARM_ACTIVATE, .member_id = own.member, .alarm = own.alarm};
    *api_call_proposal(c) = (struct pb_internal_raft_request){.alarm = alarm};
    c->raising_bytes = bytes;
    a->raising_bytes += bytes;
    need(c, API_RAISE_ALARM);
}

/* --- going on later --- */

void api_call_stop_working(struct call *c)
{
    struct api *a = api_of(c);

    a->busy_count -= c->step != NULL;
    a->wait_count -= c->ready != NULL;
    c->step = NULL;
    c->ready = NULL;
    list_remove(&c->work_link);
}

void api_call_step_later(struct call *c, call_step *step)
{
    struct api *a = api_of(c);

    api_call_stop_working(c);
    c->step = step;
    a->busy_count++;
    list_push_back(&a->busy, &c->work_link);
}

void api_call_wait(struct call *c, call_ready *ready)
{
    struct api *a = api_of(c);

    api_call_stop_working(c);
    if (ready(c))
        return;
    c->ready = ready;
    a->wait_count++;
    list_push_back(&a->waits, &c->work_link);
}

struct index_wait api_index_wait(const struct api *a)
{
    return (struct index_wait){.index = a->facts->committed_index,
                               .until_ms = a->facts->now_ms + API_APPLIED_WAIT_MS};
}

enum wait_state api_index_wait_state(const struct api *a, const struct index_wait *w)
{
    if (a->facts->applied_index >= w->index)
        return WAIT_OVER;
    return a->facts->now_ms < w->until_ms ? WAIT_ON : WAIT_TOO_LONG;
}

/* --- answering --- */

void api_call_send_buf(struct call *c, struct buf *message)
{
    c->credit -= (int64_t)rpc_message_cost(message->len);
    api_count_sent(c, message->len);
    rpc_line_send(api_line_of(api_of(c), c->base.rpc), c->base.rpc, message);
}

void api_call_send(struct call *c, const struct pb_schema *schema, const void *message)
{
    struct buf out = buf_pool_take(&api_of(c)->bufs);

    assert(c->is_authorized);
    pb_encode(schema, message, &out);
    api_call_send_buf(c, &out);
}

void api_call_respond_buf(struct call *c, struct buf *message)
{
    assert(c->is_authorized);
    api_of(c)->stats.sent_bytes += message->len;
    api_count_handled(c, RPC_OK, message->len);
    rpc_line_send_last(api_line_of(api_of(c), c->base.rpc), c->base.rpc, message);
    api_call_end(c);
}

void api_call_respond(struct call *c, const struct pb_schema *schema, const void *message)
{
    struct buf out = buf_pool_take(&api_of(c)->bufs);

    pb_encode(schema, message, &out);
    api_call_respond_buf(c, &out);
}

void api_call_finish_too_large(struct call *c, uint64_t bytes)
{
    char text[128];

    snprintf(text, sizeof(text), "grpc: trying to send message larger than max (%llu vs. %u)",
             (unsigned long long)bytes, API_REPLY_BYTES_MAX);
    api_call_finish_text(c, RPC_RESOURCE_EXHAUSTED, text);
}

/* The request's own buffer goes back with the reply, which does not refer to it: what is asked was
 * copied into the log, or read from the store. A large one would be held for a few bytes. */
static struct buf take_request_buf(struct call *c)
{
    struct buf b = c->first.content;

    if (b.cap == 0 || b.cap > BUF_POOL_BYTES_MAX)
        return buf_pool_take(&api_of(c)->bufs);
    c->first.content = (struct buf){0};
    c->request = NULL;
    buf_clear(&b);
    return b;
}

static void send_inline(struct call *c, const struct reply *r, struct bytes header)
{
    api_count_handled(c, RPC_OK, header.len + reply_bytes(r).len);
    struct buf out = take_request_buf(c);

    buf_append(&out, header);
    buf_append(&out, reply_bytes(r));
    api_call_respond_buf(c, &out);
}

void api_call_respond_reply(struct call *c, struct reply *r, int64_t revision)
{
    struct header_text text;
    struct bytes header = api_header_encode(api_of(c), revision, &text);
    uint64_t total = r->total + header.len;

    assert(c->is_authorized);
    if (total > API_REPLY_BYTES_MAX) {
        reply_free(r);
        api_call_finish_too_large(c, total);
        return;
    }
    if (reply_is_inline(r)) {
        send_inline(c, r, header);
        reply_free(r);
        return;
    }
    reply_add_front(r, header);
    api_count_handled(c, RPC_OK, total);
    api_body_send_reply(c, r);
    api_call_finish(c, RESULT_OK);
}

/* --- reading --- */

static bool read_step(struct call *c, unsigned steps)
{
    if (!apply_read_some(&c->read, steps))
        return false;
    if (c->read.range)
        api_count_range(c, c->read.result == RESULT_OK);
    if (c->read.result != RESULT_OK) {
        api_call_finish(c, c->read.result);
        return true;
    }
    struct reply reply = {0};
    reply_move(&c->read.reply, &reply);
    api_call_respond_reply(c, &reply, c->read.revision);
    return true;
}

void api_call_begin_read(struct call *c)
{
    assert(!c->is_reading);

    c->is_reading = true;
    c->read_ns = api_of(c)->facts->now_ns;
    c->read.identity = c->base.identity;
    apply_read_begin(api_of(c)->o.apply, &c->read);
}

void api_call_read(struct call *c)
{
    enum result result = api_call_identify(c);

    if (result != RESULT_OK) {
        api_call_finish(c, result);
        return;
    }
    api_call_begin_read(c);
    if (!read_step(c, API_FIRST_STEPS))
        api_call_step_later(c, read_step);
}
