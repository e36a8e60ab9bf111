#include "api/inner.h"

#include "api/api_int.h"

enum { CHUNK_BYTES = 64 * 1024 }; /* of a long reply, wanted at once */

void api_inner_open(struct inner *inner)
{
    *inner = (struct inner){.line = rpc_line_open(&(struct rpc_line_options){0})};
}

void api_inner_close(struct inner *inner)
{
    for (size_t i = 0; i < inner->count; i++) {
        buf_free(&inner->ends[i].message);
        buf_free(&inner->ends[i].text);
    }
    mem_free(inner->ends);
    rpc_line_close(inner->line);
}

bool api_inner_may_begin(const struct api *a)
{
    return a->inner.used < a->o.inner_calls_max / 2;
}

bool api_inner_may_let_go(const struct api *a)
{
    return a->inner.used < a->o.inner_calls_max / 4 * 3;
}

/* --- asking --- */

/* NULL: it is over, or there was none. */
static struct inner_end *end_of(struct inner *inner, uint64_t id)
{
    size_t at = (uint32_t)id & ~INNER_CALL;

    return id != 0 && at < inner->count && inner->ends[at].id == id ? &inner->ends[at] : NULL;
}

/* New ones are free, in order. */
static void grow(struct inner *inner)
{
    size_t count = inner->count ? 2 * inner->count : 16;

    inner->ends = mem_resize(inner->ends, count, sizeof(*inner->ends));
    for (size_t i = inner->count; i < count; i++)
        inner->ends[i] = (struct inner_end){.next = i + 1 < count ? (uint32_t)i + 2 : 0};
    inner->free = (uint32_t)inner->count + 1;
    inner->count = count;
}

static struct inner_end *new_end(struct api *a, struct call *outer)
{
    struct inner *inner = &a->inner;

    if (inner->free == 0)
        grow(inner);
    uint32_t at = inner->free - 1;
    struct inner_end *end = &inner->ends[at];
    inner->free = end->next;
    inner->generation++;
    inner->used++;
    *end = (struct inner_end){.id = (uint64_t)inner->generation << 32 | INNER_CALL | at,
                              .outer = outer};
    return end;
}

static void free_end(struct inner *inner, struct inner_end *end)
{
    uint32_t at = (uint32_t)(end - inner->ends);

    buf_free(&end->message);
    buf_free(&end->text);
    *end = (struct inner_end){.next = inner->free};
    inner->free = at + 1;
    inner->used--;
}

static struct rpc_span add_span(struct rpc_event *e, struct bytes bytes)
{
    struct rpc_span span = {.at = (uint32_t)e->content.len, .len = (uint32_t)bytes.len};

    buf_append(&e->content, bytes);
    return span;
}

/* Who asks is who has asked from outside. */
static void add_identity(struct rpc_event *e, const struct rpc_event *outer)
{
    e->conn = outer->conn;
    e->remote = add_span(e, rpc_event_bytes(outer, outer->remote));
    e->authorization = add_span(e, rpc_event_bytes(outer, outer->authorization));
    e->token = add_span(e, rpc_event_bytes(outer, outer->token));
    e->cn = add_span(e, rpc_event_bytes(outer, outer->cn));
    e->has_token = outer->has_token;
    e->has_authorization = outer->has_authorization;
    e->has_certificate = outer->has_certificate;
    e->through_gateway = outer->through_gateway;
}

static void add_message(struct rpc_event *e, const struct pb_schema *schema, const void *request)
{
    pb_encode(schema, request, &e->content);
    e->message.len = (uint32_t)e->content.len;
}

static uint64_t ask(struct api *a, struct call *outer, enum api_method method,
                    const struct pb_schema *schema, const void *request)
{
    uint64_t id = new_end(a, outer)->id;
    struct rpc_event e = {.kind = RPC_MESSAGE, .is_first = true, .call = id, .method = method};

    add_message(&e, schema, request);
    if (outer)
        add_identity(&e, &outer->first);
    api_event(a, &e);
    return id;
}

uint64_t api_inner_ask(struct call *outer, enum api_method method, const struct pb_schema *schema,
                       const void *request)
{
    return ask(api_of(outer), outer, method, schema, request);
}

void api_inner_leave_behind(struct api *a, enum api_method method, const struct pb_schema *schema,
                            const void *request)
{
    if (a->inner.used < a->o.inner_calls_max)
        ask(a, NULL, method, schema, request);
    else
        log_warn(a->o.logger, "a key of a lock or an election stays until its lease ends",
                 LOG_STR("error", "too many calls are under way"));
}

uint64_t api_inner_watch(struct call *outer, const struct pb_watch_create_request *create)
{
    struct api *a = api_of(outer);
    struct inner_end *end = new_end(a, outer);
    uint64_t id = end->id;
    struct rpc_event opened = {.kind = RPC_OPENED,
                               .is_first = true,
                               .call = id,
                               .method = API_WATCH_WATCH,
                               .bytes = WATCH_CREDIT_BYTES};
    struct rpc_event message = {.kind = RPC_MESSAGE, .call = id};
    struct pb_watch_request request = {.which = PB_WATCH_CREATE, .create = create};

    end->is_stream = true;
    add_identity(&opened, &outer->first);
    api_event(a, &opened);
    add_message(&message, &pb_watch_request_schema, &request);
    api_event(a, &message);
    return id;
}

/* --- flow --- */

static void tell(struct api *a, uint64_t id, enum rpc_event_kind kind, uint64_t bytes)
{
    api_event(a, &(struct rpc_event){.kind = kind, .call = id, .bytes = bytes});
}

void api_inner_go_on(struct api *a, uint64_t id)
{
    struct inner_end *end = end_of(&a->inner, id);

    if (!end || end->spent == 0)
        return;
    size_t spent = end->spent;
    end->spent = 0;
    tell(a, id, RPC_SENT, spent);
}

/* Later, in api_inner_some: this may be called by whoever walks through all calls, and the inner
 * one is one of them. */
void api_inner_end(struct api *a, uint64_t id)
{
    struct inner_end *end = end_of(&a->inner, id);

    if (!end || end->is_left)
        return;
    end->outer = NULL;
    end->is_left = true;
    end->next = a->inner.left;
    a->inner.left = (uint32_t)(end - a->inner.ends) + 1;
}

static void end_left(struct api *a)
{
    struct inner *inner = &a->inner;

    while (inner->left != 0) {
        struct inner_end *end = &inner->ends[inner->left - 1];
        uint64_t id = end->id;
        inner->left = end->next;
        free_end(inner, end);
        tell(a, id, RPC_GONE, 0);
    }
}

/* --- what has come --- */

static void hand_out(struct inner_end *end, const struct inner_result *r)
{
    if (end->outer)
        end->outer->on->inner(end->outer, r);
}

/* It is free before who has asked hears of it, since he may ask for the next one. */
static void hand_out_last(struct api *a, struct inner_end *end)
{
    struct inner_end last = *end;
    struct inner_result r = {.is_over = true,
                             .code = last.code,
                             .text = buf_bytes(&last.text),
                             .message = buf_bytes(&last.message)};

    end->message = end->text = (struct buf){0};
    free_end(&a->inner, end);
    hand_out(&last, &r);
    buf_free(&last.message);
    buf_free(&last.text);
}

/* All of a message is there. Of a unary call it waits for the end. */
static void message_is_whole(struct inner_end *end)
{
    if (!end->is_stream)
        return;
    struct buf message = end->message;
    end->message = (struct buf){0};
    hand_out(end, &(struct inner_result){.message = buf_bytes(&message)});
    buf_free(&message);
}

static void want_more(struct api *a, const struct inner_end *end)
{
    if (end->to_come > 0)
        tell(a, end->id, RPC_WANTED, end->to_come < CHUNK_BYTES ? end->to_come : CHUNK_BYTES);
}

static void take_sent(struct inner_end *end, const struct rpc_reply *r)
{
    buf_append(&end->message, buf_bytes(&r->content));
    if (r->rest)
        buf_append(&end->message, blob_bytes(r->rest));
    if (end->is_stream)
        end->spent += rpc_message_cost(end->message.len);
    end->is_finished = r->ends;
    message_is_whole(end);
}

static void take_chunk(struct api *a, struct inner_end *end, const struct rpc_reply *r)
{
    assert(r->content.len <= end->to_come);
    buf_append(&end->message, buf_bytes(&r->content));
    end->to_come -= r->content.len;
    if (end->to_come > 0)
        want_more(a, end);
    else
        message_is_whole(end);
}

static void finish(struct inner_end *end, enum rpc_code code, struct bytes text)
{
    end->is_finished = true;
    end->code = code;
    buf_clear(&end->text);
    buf_append(&end->text, text);
    if (code != RPC_OK)
        buf_clear(&end->message);
}

/* What was promised cannot be read: it was in the way of a compaction for too long. */
static void take_break(struct inner_end *end)
{
    end->to_come = 0;
    finish(end, RPC_UNAVAILABLE, BYTES("the reply could not be read"));
}

static void take_reply(struct api *a, struct inner_end *end, const struct rpc_reply *r)
{
    uint64_t id = end->id;

    switch (r->kind) {
    case RPC_REPLY_SEND:
        take_sent(end, r);
        break;
    case RPC_REPLY_ANNOUNCE:
        end->to_come = r->bytes;
        if (end->is_stream)
            end->spent += rpc_message_cost(0);
        want_more(a, end);
        break;
    case RPC_REPLY_CHUNK:
        take_chunk(a, end, r);
        break;
    case RPC_REPLY_BREAK:
        take_break(end);
        break;
    case RPC_REPLY_FINISH:
        finish(end, (enum rpc_code)r->code, buf_bytes(&r->content));
        break;
    case RPC_REPLY_RESERVE: /* few may be under way, and they are read */
        tell(a, id, RPC_RESERVED, 0);
        break;
    case RPC_REPLY_RELEASE:
    case RPC_REPLY_HTTP:
        break; /* a watch says all it has to say with its first message */
    }
    end = end_of(&a->inner, id); /* the table may have grown */
    if (end && end->is_finished && end->to_come == 0)
        hand_out_last(a, end);
}

bool api_inner_some(struct api *a, unsigned *steps)
{
    struct inner *inner = &a->inner;
    struct rpc_reply r;

    while (*steps > 0 && rpc_line_has_reply_budget(a->o.line) &&
           rpc_line_take_reply(inner->line, &r)) {
        struct inner_end *end = end_of(inner, r.call);
        --*steps;
        if (end && !end->is_left)
            take_reply(a, end, &r);
        buf_free(&r.content);
        blob_unref(r.rest);
    }
    end_left(a);
    return !rpc_line_has_replies(inner->line) && inner->left == 0;
}

void api_inner_check(const struct api *a)
{
    const struct inner *inner = &a->inner;
    size_t used = 0, left = 0;

    for (uint32_t at = inner->left; at != 0; at = inner->ends[at - 1].next, left++)
        assert(inner->ends[at - 1].is_left);
    for (size_t i = 0; i < inner->count; i++) {
        const struct inner_end *end = &inner->ends[i];
        used += end->id != 0;
        left -= end->is_left;
        assert(end->id != 0 || !end->outer);
        assert(!end->is_left || !end->outer);
        assert(!end->outer || end->outer->on->inner);
        assert(end->id == 0 || ((uint32_t)end->id & ~INNER_CALL) == i);
    }
    assert(used == inner->used);
    assert(left == 0);
}
