/*
 * RangeStream: a range in many messages, as the client takes them.
 *
 * It is measured like any other; then each message is a run of key values, and the last of them
 * also has header, count and more. How many keys go into one follows etcd: ten at first, twice as
 * many while messages stay below half of the size aimed at, half as many when they are over twice
 * of it. But no message here grows beyond what a slice may cost or a call may queue. A negative
 * limit is answered by a single message, as by etcd.
 */
#include "api/api_int.h"
#include "pb/wire.h"

enum {
    FIRST_CHUNK_KEYS = 10,
    CHUNK_KEYS_MAX = MVCC_SLICE_STEPS,
    CHUNK_BYTES_MAX = RPC_STREAM_CREDIT_BYTES, /* unless a single key value is larger */
    FRONT_BYTES = 1 + 5 + HEADER_BYTES_MAX, /* tag and length of what is inside, and the header */
};

static enum result check_range_stream(struct call *c, const void *request)
{
    const struct pb_range_request *r = request;
    enum result a = api_range_check(r);

    (void)c;
    if (a != RESULT_OK)
        return a;
    if (r->sort_order != PB_SORT_NONE &&
        !(r->sort_target == PB_SORT_BY_KEY && r->sort_order == PB_SORT_ASCEND))
        return RESULT_RANGE_STREAM_SORT;
    if (r->min_mod_revision != 0 || r->max_mod_revision != 0 || r->min_create_revision != 0 ||
        r->max_create_revision != 0)
        return RESULT_RANGE_STREAM_FILTER;
    return RESULT_OK;
}

/* RangeStreamResponse{RangeResponse{header, kvs, more, count}}, of which the kvs are in `out`
 * behind FRONT_BYTES of space. Returns where it begins. */
static size_t close_chunk(struct call *c, struct buf *out, bool is_last)
{
    const struct mvcc_scan *scan = c->chunks.scan;
    struct header_text text;

    if (is_last && scan->more)
        buf_append(out, BYTES("\x18\x01"));
    if (is_last && scan->count != 0) {
        uint8_t count[10];
        uint8_t *at = pb_put_varint(count + sizeof(count), (uint64_t)scan->count);
        buf_append_byte(out, PB_TAG_VARINT(4));
        buf_append(out, bytes_of(at, (size_t)(count + sizeof(count) - at)));
    }
    uint8_t *at = out->at + FRONT_BYTES;
    if (is_last) {
        struct bytes header = api_header_encode(api_of(c), c->read.revision, &text);
        at -= header.len;
        memcpy(at, header.at, header.len);
    }
    at = pb_put_varint(at, (uint64_t)(out->at + out->len - at));
    *--at = PB_TAG_BYTES(1);
    return (size_t)(at - out->at);
}

static void adjust_chunk_keys(struct call *c, size_t chunk_bytes)
{
    size_t aim = api_of(c)->o.request_bytes_max;
    unsigned *keys = &c->chunks.chunk_keys;

    if (chunk_bytes < aim / 2)
        *keys *= 2;
    else if (chunk_bytes > aim * 2)
        *keys /= 2;
    if (*keys > CHUNK_KEYS_MAX)
        *keys = CHUNK_KEYS_MAX;
    if (*keys == 0)
        *keys = 1;
}

/* How many key values are encoded here. */
static unsigned count_kvs(struct bytes kvs)
{
    struct pb_reader r = {.at = kvs.at, .end = kvs.at + kvs.len};
    unsigned count = 0;

    for (; r.at < r.end; count++) {
        pb_take_tag(&r);
        pb_take_bytes(&r);
    }
    assert(r.err == ERR_OK);
    return count;
}

/* Keys that are dead at the revision cost as much to pass over as living ones to read, and are not
 * counted; so a chunk also ends, short of keys, when it has looked at enough of them. */
static void read_chunk(struct range_stream *s, size_t max, struct buf *out)
{
    unsigned found = 0;

    for (unsigned looked = 0; found < s->chunk_keys && looked < CHUNK_KEYS_MAX;) {
        size_t before = out->len;
        unsigned steps = s->chunk_keys - found;
        if (s->sent == s->scan->bytes || before - FRONT_BYTES >= max)
            return;
        mvcc_scan_read(s->scan, max - (before - FRONT_BYTES), steps, out);
        s->sent += out->len - before;
        found += count_kvs(bytes_of(out->at + before, out->len - before));
        looked += steps;
        if (s->scan->is_paused)
            return;
    }
}

/* One message. True if it was the last. */
static bool send_chunk(struct call *c)
{
    struct range_stream *s = &c->chunks;
    struct buf chunk = buf_pool_take(&api_of(c)->bufs), *out = &chunk;

    buf_extend(out, FRONT_BYTES);
    read_chunk(s, c->credit < CHUNK_BYTES_MAX ? (size_t)c->credit : CHUNK_BYTES_MAX, out);
    size_t kvs_bytes = out->len - FRONT_BYTES;
    bool is_last = s->sent == s->scan->bytes;
    if (kvs_bytes == 0 && !is_last) {
        buf_pool_give(&api_of(c)->bufs, out);
        return false; /* all of the keys that it looked at were dead then */
    }
    adjust_chunk_keys(c, kvs_bytes);
    size_t start = close_chunk(c, out, is_last);
    buf_drop_front(out, start);
    api_call_send_buf(c, out);
    return is_last;
}

/* Somebody who does not read must not keep history from being compacted for ever. Only the one
 * that is in the way ends: who reads at the compaction's revision or above holds up nobody. */
static bool holds_pin_too_long(const struct call *c)
{
    return api_of(c)->facts->now_ms - c->chunks.started_ms >= API_PIN_MS_MAX &&
           mvcc_scan_in_the_way(c->chunks.scan);
}

static bool give_up_pin(struct call *c)
{
    if (!holds_pin_too_long(c))
        return false;
    api_call_finish(c, RESULT_COMPACTED);
    return true;
}

static bool send_step(struct call *c, unsigned steps)
{
    if (give_up_pin(c))
        return true;
    for (unsigned used = 0; used < steps; used += c->chunks.chunk_keys) {
        if (c->credit <= 0) {
            api_call_wait(c, give_up_pin); /* or until something was sent */
            return true;
        }
        if (send_chunk(c)) {
            bool is_outdated = auth_is_outdated(api_of(c)->o.auth, &c->read.identity);
            api_call_finish(c, is_outdated ? RESULT_AUTH_OLD_REVISION : RESULT_OK);
            return true;
        }
        if (c->chunks.scan->is_paused)
            return false;
    }
    return false;
}

static void sent(struct call *c, size_t bytes)
{
    c->credit += (int64_t)bytes;
    if (c->chunks.scan && c->credit > 0)
        api_call_step_later(c, send_step);
}

/* RangeStreamResponse{RangeResponse{header, kvs, more, count}}, as long as it is. */
static void send_whole(struct call *c)
{
    struct reply reply = {0};
    struct header_text text;
    uint8_t front[1 + 10], *end = front + sizeof(front);

    reply_move(&c->read.reply, &reply);
    reply_add_front(&reply, api_header_encode(api_of(c), c->read.revision, &text));
    uint8_t *at = pb_put_varint(end, reply_total(&reply));
    *--at = PB_TAG_BYTES(1);
    reply_add_front(&reply, bytes_of(at, (size_t)(end - at)));
    uint64_t total = reply_total(&reply);
    if (total > API_REPLY_BYTES_MAX) {
        reply_free(&reply);
        api_call_finish_too_large(c, total);
        return;
    }
    api_body_send_reply(c, &reply);
    api_call_finish(c, RESULT_OK);
}

/* etcd asks its store for chunks of the smaller of ten keys and the limit; to the store a negative
 * limit is none, so the first chunk is everything. */
static bool is_whole(const struct call *c)
{
    return c->chunks.request.limit < 0;
}

static bool measure_step(struct call *c, unsigned steps)
{
    if (!apply_read_some(&c->read, steps))
        return false;
    if (c->read.result != RESULT_OK) {
        api_call_finish(c, c->read.result);
        return true;
    }
    if (is_whole(c)) {
        send_whole(c);
        return true;
    }
    c->chunks.scan = c->read.scan;
    c->chunks.chunk_keys = FIRST_CHUNK_KEYS;
    c->chunks.started_ms = api_of(c)->facts->now_ms;
    c->read.scan = NULL; /* taken */
    api_call_step_later(c, send_step);
    return true;
}

static void begin(struct call *c)
{
    enum result result = api_call_identify(c);

    if (result != RESULT_OK) {
        api_call_finish(c, result);
        return;
    }
    c->read.range = &c->chunks.request;
    c->read.keep_open = !is_whole(c);
    api_call_begin_read(c);
    api_call_step_later(c, measure_step);
}

static void start(struct call *c)
{
    if (c->chunks.request.serializable)
        begin(c);
    else
        api_call_read_index(c);
}

/*
 * A sort target without an order is allowed and means ascending, as in a unary range. The whole is
 * sorted before the first message goes. etcd sorts each message by itself and takes up the next
 * behind its last key, so that past the first ten keys some come twice and others never.
 */
static void run_range_stream(struct call *c, const void *request)
{
    c->chunks.request = *(const struct pb_range_request *)request;
    api_call_reserve(c, api_range_bytes_max(api_of(c), request), start);
}

static void released(struct call *c)
{
    if (c->chunks.scan)
        reply_scan_free(c->chunks.scan);
}

const struct handler api_kv_range_stream = {
    .schema = &pb_range_request_schema,
    .check = check_range_stream,
    .run = run_range_stream,
    .confirmed = begin,
    .sent = sent,
    .released = released,
};
