#include "rpc/line.h"

#include "base/assert.h"
#include "base/mem.h"

/* --- rings: values in the order they came, and when they may be taken --- */

struct event_slot {
    uint64_t due;
    struct rpc_event value;
};

struct reply_slot {
    uint64_t due;
    struct rpc_reply value;
};

struct ring {
    uint8_t *at;
    size_t slot_bytes, first, count, cap; /* cap: a power of two, or 0 */
    uint64_t last_due;
};

enum { RING_CAP_FIRST = 16 };

struct rpc_line {
    struct rpc_line_options o;
    struct rng rng;
    uint64_t turn;
    struct ring lanes[RPC_LANE_COUNT]; /* struct event_slot */
    struct ring replies;               /* struct reply_slot */
    size_t event_bytes, reply_bytes;
    size_t replies_most, reply_bytes_most;
};

static void *ring_at(const struct ring *r, size_t nth)
{
    return r->at + ((r->first + nth) & (r->cap - 1)) * r->slot_bytes;
}

static void ring_grow(struct ring *r)
{
    size_t cap = r->cap ? 2 * r->cap : RING_CAP_FIRST;
    uint8_t *at = mem_resize(NULL, cap, r->slot_bytes);

    for (size_t i = 0; i < r->count; i++)
        memcpy(at + i * r->slot_bytes, ring_at(r, i), r->slot_bytes);
    mem_free(r->at);
    r->at = at;
    r->cap = cap;
    r->first = 0;
}

static void *ring_push(struct ring *r)
{
    if (r->count == r->cap)
        ring_grow(r);
    return ring_at(r, r->count++);
}

static void *ring_pop(struct ring *r)
{
    void *slot = ring_at(r, 0);

    r->first = (r->first + 1) & (r->cap - 1);
    r->count--;
    return slot;
}

/* Later than what came before it, or the order would be lost. */
static uint64_t draw_due(struct rpc_line *l, struct ring *r)
{
    if (l->o.delay_turns_max == 0)
        return 0;
    uint64_t due = l->turn + rng_below(&l->rng, l->o.delay_turns_max + 1);
    if (due > r->last_due)
        r->last_due = due;
    return r->last_due;
}

/* --- life --- */

struct rpc_line *rpc_line_open(const struct rpc_line_options *options)
{
    struct rpc_line *l = mem_new(struct rpc_line);

    l->o = *options;
    rng_seed(&l->rng, options->seed);
    for (size_t i = 0; i < ARRAY_LEN(l->lanes); i++)
        l->lanes[i].slot_bytes = sizeof(struct event_slot);
    l->replies.slot_bytes = sizeof(struct reply_slot);
    return l;
}

void rpc_line_close(struct rpc_line *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < ARRAY_LEN(l->lanes); i++) {
        while (l->lanes[i].count > 0)
            buf_free(&((struct event_slot *)ring_pop(&l->lanes[i]))->value.content);
        mem_free(l->lanes[i].at);
    }
    while (l->replies.count > 0) {
        struct reply_slot *slot = ring_pop(&l->replies);
        buf_free(&slot->value.content);
        blob_unref(slot->value.rest);
    }
    mem_free(l->replies.at);
    mem_free(l);
}

void rpc_line_turn(struct rpc_line *l)
{
    l->turn++;
}

bool rpc_line_is_empty(const struct rpc_line *l)
{
    return l->lanes[RPC_LANE_CALLS].count == 0 && l->lanes[RPC_LANE_FLOW].count == 0 &&
           l->lanes[RPC_LANE_PROBES].count == 0 && l->replies.count == 0;
}

/* --- events --- */

bool rpc_line_has_budget(const struct rpc_line *l, enum rpc_lane lane)
{
    /* What flows has no bytes, and probes have few: neither is to wait for calls that have. */
    return l->lanes[lane].count < RPC_LINE_EVENTS_MAX &&
           (lane != RPC_LANE_CALLS || l->event_bytes < RPC_LINE_EVENT_BYTES_MAX);
}

void rpc_line_put_event(struct rpc_line *l, enum rpc_lane lane, const struct rpc_event *e)
{
    assert(rpc_line_has_budget(l, lane));
    struct event_slot *slot = ring_push(&l->lanes[lane]);

    slot->due = draw_due(l, &l->lanes[lane]);
    slot->value = *e;
    l->event_bytes += e->content.len;
}

bool rpc_line_has_events(const struct rpc_line *l, enum rpc_lane lane)
{
    return l->lanes[lane].count > 0;
}

bool rpc_line_take_event(struct rpc_line *l, enum rpc_lane lane, struct rpc_event *out)
{
    struct ring *r = &l->lanes[lane];

    if (r->count == 0 || ((const struct event_slot *)ring_at(r, 0))->due > l->turn)
        return false;
    *out = ((const struct event_slot *)ring_pop(r))->value;
    l->event_bytes -= out->content.len;
    return true;
}

struct bytes rpc_event_field(const struct rpc_event *e, const char *name)
{
    struct bytes lines = rpc_event_bytes(e, e->fields);
    size_t name_len = strlen(name);

    while (lines.len > 0) {
        const uint8_t *end = memchr(lines.at, '\n', lines.len);
        assert(end); /* rpc wrote them */
        size_t len = (size_t)(end - lines.at);
        if (len > name_len && lines.at[name_len] == ':' &&
            strncasecmp((const char *)lines.at, name, name_len) == 0)
            return bytes_of(lines.at + name_len + 1, len - name_len - 1);
        lines = bytes_of(end + 1, lines.len - len - 1);
    }
    return bytes_of(NULL, 0);
}

/* --- replies --- */

bool rpc_line_has_replies(const struct rpc_line *l)
{
    return l->replies.count > 0;
}

bool rpc_line_has_reply_budget(const struct rpc_line *l)
{
    return l->replies.count < RPC_LINE_REPLIES_MAX && l->reply_bytes < RPC_LINE_REPLY_BYTES_MAX;
}

/* What others share counts, too: while it waits here it is not freed. */
static size_t bytes_of_reply(const struct rpc_reply *r)
{
    return r->content.len + (r->rest ? blob_bytes(r->rest).len : 0);
}

void rpc_line_put_reply(struct rpc_line *l, const struct rpc_reply *r)
{
    struct reply_slot *slot = ring_push(&l->replies);

    slot->due = draw_due(l, &l->replies);
    slot->value = *r;
    l->reply_bytes += bytes_of_reply(r);
    if (l->replies.count > l->replies_most)
        l->replies_most = l->replies.count;
    if (l->reply_bytes > l->reply_bytes_most)
        l->reply_bytes_most = l->reply_bytes;
}

bool rpc_line_take_reply(struct rpc_line *l, struct rpc_reply *out)
{
    struct ring *r = &l->replies;

    if (r->count == 0 || ((const struct reply_slot *)ring_at(r, 0))->due > l->turn)
        return false;
    *out = ((const struct reply_slot *)ring_pop(r))->value;
    l->reply_bytes -= bytes_of_reply(out);
    return true;
}

struct rpc_line_status rpc_line_status(const struct rpc_line *l)
{
    return (struct rpc_line_status){
        .events = {l->lanes[0].count, l->lanes[1].count, l->lanes[2].count},
        .event_bytes = l->event_bytes,
        .replies = l->replies.count,
        .reply_bytes = l->reply_bytes,
        .replies_most = l->replies_most,
        .reply_bytes_most = l->reply_bytes_most};
}

static struct buf take_over(struct buf *b)
{
    struct buf taken = *b;

    *b = (struct buf){0};
    return taken;
}

void rpc_line_send(struct rpc_line *l, uint64_t call, struct buf *message)
{
    rpc_line_put_reply(l, &(struct rpc_reply){
                              .kind = RPC_REPLY_SEND, .call = call, .content = take_over(message)});
}

void rpc_line_send_last(struct rpc_line *l, uint64_t call, struct buf *message)
{
    rpc_line_put_reply(
        l, &(struct rpc_reply){
               .kind = RPC_REPLY_SEND, .ends = true, .call = call, .content = take_over(message)});
}

void rpc_line_send_shared(struct rpc_line *l, uint64_t call, struct buf *prefix, struct blob *rest)
{
    rpc_line_put_reply(l, &(struct rpc_reply){.kind = RPC_REPLY_SEND,
                                              .call = call,
                                              .content = take_over(prefix),
                                              .rest = blob_ref(rest)});
}

void rpc_line_announce(struct rpc_line *l, uint64_t call, uint64_t total_bytes)
{
    rpc_line_put_reply(
        l, &(struct rpc_reply){.kind = RPC_REPLY_ANNOUNCE, .call = call, .bytes = total_bytes});
}

void rpc_line_chunk(struct rpc_line *l, uint64_t call, struct buf *chunk)
{
    rpc_line_put_reply(
        l, &(struct rpc_reply){.kind = RPC_REPLY_CHUNK, .call = call, .content = take_over(chunk)});
}

void rpc_line_break(struct rpc_line *l, uint64_t call)
{
    rpc_line_put_reply(l, &(struct rpc_reply){.kind = RPC_REPLY_BREAK, .call = call});
}

void rpc_line_release(struct rpc_line *l, uint64_t call)
{
    rpc_line_put_reply(l, &(struct rpc_reply){.kind = RPC_REPLY_RELEASE, .call = call});
}

void rpc_line_finish(struct rpc_line *l, uint64_t call, enum rpc_code code, struct bytes text)
{
    struct rpc_reply r = {.kind = RPC_REPLY_FINISH, .call = call, .code = (uint16_t)code};

    buf_append(&r.content, text);
    rpc_line_put_reply(l, &r);
}

void rpc_line_http_reply(struct rpc_line *l, uint64_t call, unsigned status, const char *type,
                         struct bytes body)
{
    struct rpc_reply r = {
        .kind = RPC_REPLY_HTTP, .call = call, .code = (uint16_t)status, .type = type};

    buf_append(&r.content, body);
    rpc_line_put_reply(l, &r);
}
