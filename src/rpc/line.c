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

struct rpc_tally {
    size_t events[RPC_LANE_COUNT], event_bytes, replies, reply_bytes;
};

struct rpc_batch {
    struct rpc_tally taken, sent; /* by the sender, and what is in here */
    uint8_t slots[] __attribute__((aligned(16)));
};

/* Where replies go: to the one rpc, or to one of those on other threads. */
struct far {
    struct ring replies; /* struct reply_slot */
    size_t reply_bytes;
    struct rpc_tally away;  /* sent there, and not known to be taken */
    struct rpc_tally taken; /* of what came from there, and not told */
};

struct rpc_line {
    struct rpc_line_options o;
    struct rng rng;
    uint64_t turn;
    struct ring lanes[RPC_LANE_COUNT]; /* struct event_slot */
    size_t event_bytes;
    struct far *fars; /* OF_RPC: the core, for what is away and taken */
    unsigned far_count;
    uint64_t far_mask; /* of a call's number */
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
    assert(options->delay_turns_max == 0 || options->end == RPC_LINE_WHOLE);
    l->far_count = options->end == RPC_LINE_OF_CORE ? options->rpcs : 1;
    l->far_mask = (1u << rpc_line_bits(l->far_count)) - 1;
    l->fars = mem_new_array(l->far_count, struct far);
    for (unsigned i = 0; i < l->far_count; i++)
        l->fars[i].replies.slot_bytes = sizeof(struct reply_slot);
    return l;
}

static void free_replies(struct far *f)
{
    while (f->replies.count > 0) {
        struct reply_slot *slot = ring_pop(&f->replies);
        buf_free(&slot->value.content);
        blob_unref(slot->value.rest);
    }
    f->reply_bytes = 0;
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
    for (unsigned i = 0; i < l->far_count; i++) {
        free_replies(&l->fars[i]);
        mem_free(l->fars[i].replies.at);
    }
    mem_free(l->fars);
    mem_free(l);
}

void rpc_line_turn(struct rpc_line *l)
{
    l->turn++;
}

bool rpc_line_is_empty(const struct rpc_line *l)
{
    return l->lanes[RPC_LANE_CALLS].count == 0 && l->lanes[RPC_LANE_FLOW].count == 0 &&
           l->lanes[RPC_LANE_PROBES].count == 0 && !rpc_line_has_replies(l);
}

/* --- events --- */

bool rpc_line_has_budget(const struct rpc_line *l, enum rpc_lane lane)
{
    const struct rpc_tally *away = &l->fars[0].away;

    /* What flows has no bytes, and probes have few: neither is to wait for calls that have. */
    return l->lanes[lane].count + away->events[lane] < RPC_LINE_EVENTS_MAX &&
           (lane != RPC_LANE_CALLS ||
            l->event_bytes + away->event_bytes < RPC_LINE_EVENT_BYTES_MAX);
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
    if (l->o.end == RPC_LINE_OF_CORE) {
        struct rpc_tally *taken = &l->fars[out->call & l->far_mask].taken;
        taken->events[lane]++;
        taken->event_bytes += out->content.len;
    }
    return true;
}

bool rpc_next_field(struct bytes *lines, const char *name, struct bytes *value)
{
    size_t name_len = strlen(name);

    while (lines->len > 0) {
        struct bytes line = *lines;
        const uint8_t *end = memchr(line.at, '\n', line.len);
        assert(end); /* rpc wrote them */
        size_t len = (size_t)(end - line.at);
        *lines = bytes_of(end + 1, line.len - len - 1);
        if (len > name_len && line.at[name_len] == ':' &&
            strncasecmp((const char *)line.at, name, name_len) == 0) {
            *value = bytes_of(line.at + name_len + 1, len - name_len - 1);
            return true;
        }
    }
    return false;
}

struct bytes rpc_event_field(const struct rpc_event *e, const char *name)
{
    struct bytes lines = rpc_event_bytes(e, e->fields), value = {0};

    (void)rpc_next_field(&lines, name, &value);
    return value;
}

/* --- replies --- */

bool rpc_line_has_replies(const struct rpc_line *l)
{
    for (unsigned i = 0; i < l->far_count; i++)
        if (l->fars[i].replies.count > 0)
            return true;
    return false;
}

bool rpc_line_has_reply_budget(const struct rpc_line *l)
{
    for (unsigned i = 0; i < l->far_count; i++) {
        const struct far *f = &l->fars[i];
        if (f->replies.count + f->away.replies >= RPC_LINE_REPLIES_MAX ||
            f->reply_bytes + f->away.reply_bytes >= RPC_LINE_REPLY_BYTES_MAX)
            return false;
    }
    return true;
}

/* What others share counts, too: while it waits here it is not freed. */
static size_t bytes_of_reply(const struct rpc_reply *r)
{
    return r->content.len + (r->rest ? blob_bytes(r->rest).len : 0);
}

void rpc_line_put_reply(struct rpc_line *l, const struct rpc_reply *r)
{
    struct far *f = &l->fars[r->call & l->far_mask];
    struct reply_slot *slot = ring_push(&f->replies);

    slot->due = draw_due(l, &f->replies);
    slot->value = *r;
    f->reply_bytes += bytes_of_reply(r);
    if (f->replies.count + f->away.replies > l->replies_most)
        l->replies_most = f->replies.count + f->away.replies;
    if (f->reply_bytes + f->away.reply_bytes > l->reply_bytes_most)
        l->reply_bytes_most = f->reply_bytes + f->away.reply_bytes;
}

bool rpc_line_take_reply(struct rpc_line *l, struct rpc_reply *out)
{
    struct far *f = &l->fars[0];
    struct ring *r = &f->replies;

    if (r->count == 0 || ((const struct reply_slot *)ring_at(r, 0))->due > l->turn)
        return false;
    *out = ((const struct reply_slot *)ring_pop(r))->value;
    size_t bytes = bytes_of_reply(out);
    f->reply_bytes -= bytes;
    if (l->o.end == RPC_LINE_OF_RPC) {
        f->taken.replies++;
        f->taken.reply_bytes += bytes;
    }
    return true;
}

struct rpc_line_status rpc_line_status(const struct rpc_line *l)
{
    struct rpc_line_status status = {
        .events = {l->lanes[0].count, l->lanes[1].count, l->lanes[2].count},
        .event_bytes = l->event_bytes,
        .replies_most = l->replies_most,
        .reply_bytes_most = l->reply_bytes_most};

    for (unsigned i = 0; i < l->far_count; i++) {
        status.replies += l->fars[i].replies.count;
        status.reply_bytes += l->fars[i].reply_bytes;
    }
    return status;
}

/* --- its ends --- */

/* While less than a quarter of a bound is not told, who puts has three quarters left. */
static bool is_worth_telling(const struct rpc_tally *taken)
{
    for (unsigned i = 0; i < RPC_LANE_COUNT; i++)
        if (taken->events[i] >= RPC_LINE_EVENTS_MAX / 4)
            return true;
    return taken->event_bytes >= RPC_LINE_EVENT_BYTES_MAX / 4 ||
           taken->replies >= RPC_LINE_REPLIES_MAX / 4 ||
           taken->reply_bytes >= RPC_LINE_REPLY_BYTES_MAX / 4;
}

static void tally_add(struct rpc_tally *t, const struct rpc_tally *more)
{
    for (unsigned i = 0; i < RPC_LANE_COUNT; i++)
        t->events[i] += more->events[i];
    t->event_bytes += more->event_bytes;
    t->replies += more->replies;
    t->reply_bytes += more->reply_bytes;
}

static void tally_take(struct rpc_tally *t, const struct rpc_tally *less)
{
    for (unsigned i = 0; i < RPC_LANE_COUNT; i++) {
        assert(t->events[i] >= less->events[i]);
        t->events[i] -= less->events[i];
    }
    assert(t->event_bytes >= less->event_bytes);
    assert(t->replies >= less->replies);
    assert(t->reply_bytes >= less->reply_bytes);
    t->event_bytes -= less->event_bytes;
    t->replies -= less->replies;
    t->reply_bytes -= less->reply_bytes;
}

static struct rpc_tally tally_of_put(const struct rpc_line *l, const struct far *f)
{
    if (l->o.end == RPC_LINE_OF_CORE)
        return (struct rpc_tally){.replies = f->replies.count, .reply_bytes = f->reply_bytes};
    return (struct rpc_tally){.events = {l->lanes[0].count, l->lanes[1].count, l->lanes[2].count},
                              .event_bytes = l->event_bytes};
}

static uint8_t *move_out(struct ring *r, uint8_t *to)
{
    for (; r->count > 0; to += r->slot_bytes)
        memcpy(to, ring_pop(r), r->slot_bytes);
    return to;
}

static const uint8_t *move_in(struct ring *r, size_t count, const uint8_t *from)
{
    for (; count > 0; count--, from += r->slot_bytes)
        memcpy(ring_push(r), from, r->slot_bytes);
    return from;
}

struct rpc_batch *rpc_line_pack(struct rpc_line *l, unsigned nth)
{
    struct far *f = &l->fars[nth];
    struct rpc_tally sent = tally_of_put(l, f);
    size_t events = sent.events[0] + sent.events[1] + sent.events[2];

    assert(l->o.end != RPC_LINE_WHOLE && nth < l->far_count);
    if (events == 0 && sent.replies == 0 && !is_worth_telling(&f->taken))
        return NULL;
    struct rpc_batch *b = mem_resize(NULL,
                                     sizeof(*b) + events * sizeof(struct event_slot) +
                                         sent.replies * sizeof(struct reply_slot),
                                     1);
    *b = (struct rpc_batch){.taken = f->taken, .sent = sent};
    if (l->o.end == RPC_LINE_OF_CORE) {
        move_out(&f->replies, b->slots);
        f->reply_bytes = 0;
    } else {
        uint8_t *to = b->slots;
        for (unsigned i = 0; i < RPC_LANE_COUNT; i++)
            to = move_out(&l->lanes[i], to);
        l->event_bytes = 0;
    }
    f->taken = (struct rpc_tally){0};
    tally_add(&f->away, &sent);
    return b;
}

void rpc_line_unpack(struct rpc_line *l, unsigned nth, struct rpc_batch *b)
{
    struct far *f = &l->fars[nth];

    assert(l->o.end != RPC_LINE_WHOLE && nth < l->far_count);
    tally_take(&f->away, &b->taken);
    if (l->o.end == RPC_LINE_OF_CORE) {
        const uint8_t *from = b->slots;
        for (unsigned i = 0; i < RPC_LANE_COUNT; i++)
            from = move_in(&l->lanes[i], b->sent.events[i], from);
        l->event_bytes += b->sent.event_bytes;
    } else {
        move_in(&f->replies, b->sent.replies, b->slots);
        f->reply_bytes += b->sent.reply_bytes;
    }
    mem_free(b);
}

void rpc_line_drop(struct rpc_line *l, unsigned nth)
{
    struct far *f = &l->fars[nth];

    assert(l->o.end == RPC_LINE_OF_CORE && nth < l->far_count);
    free_replies(f);
    f->away = f->taken = (struct rpc_tally){0};
}

/* --- shorter words --- */

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
    rpc_line_release_but(l, call, 0);
}

void rpc_line_release_but(struct rpc_line *l, uint64_t call, uint64_t kept_bytes)
{
    rpc_line_put_reply(
        l, &(struct rpc_reply){.kind = RPC_REPLY_RELEASE, .call = call, .bytes = kept_bytes});
}

void rpc_line_reserve(struct rpc_line *l, uint64_t call, uint64_t bytes)
{
    rpc_line_put_reply(
        l, &(struct rpc_reply){.kind = RPC_REPLY_RESERVE, .call = call, .bytes = bytes});
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
    rpc_line_http_reply_with(l, call, status, type, bytes_of(NULL, 0), body);
}

void rpc_line_http_reply_with(struct rpc_line *l, uint64_t call, unsigned status, const char *type,
                              struct bytes fields, struct bytes body)
{
    struct rpc_reply r = {.kind = RPC_REPLY_HTTP,
                          .call = call,
                          .code = (uint16_t)status,
                          .type = type,
                          .bytes = fields.len};

    buf_append(&r.content, fields);
    buf_append(&r.content, body);
    rpc_line_put_reply(l, &r);
}
