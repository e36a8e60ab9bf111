#include "peer/stream_codec.h"

#include "base/assert.h"
#include "pb/codec.h"

#include <endian.h>

enum {
    WORD_BYTES = 8,
    APP_HEARTBEAT = 0,
    APP_ENTRIES = 1,
    APP_MESSAGE = 2,
};

const char *stream_kind_name(enum stream_kind kind)
{
    return kind == STREAM_APP ? "stream MsgApp v2" : "stream Message";
}

static void put_word(uint8_t *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, WORD_BYTES);
}

static uint64_t get_word(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, WORD_BYTES);
    return be64toh(value);
}

/* --- gathers --- */

void gather_add(struct gather *g, struct bytes what)
{
    buf_append(&g->bytes, what);
    g->len += what.len;
}

static void gather_add_word(struct gather *g, uint64_t value)
{
    put_word(buf_extend(&g->bytes, WORD_BYTES), value);
    g->len += WORD_BYTES;
}

void gather_share(struct gather *g, struct blob *blob)
{
    if (g->share_count == g->share_cap) {
        g->share_cap = g->share_cap > 0 ? 2 * g->share_cap : 8;
        g->shares = mem_resize(g->shares, g->share_cap, sizeof(*g->shares));
    }
    g->shares[g->share_count++] = (struct gather_share){g->bytes.len, blob_ref(blob)};
    g->len += blob_bytes(blob).len;
}

size_t gather_pieces(const struct gather *g, struct bytes *out)
{
    size_t count = 0, at = 0;

    for (size_t i = 0; i < g->share_count; i++) {
        const struct gather_share *s = &g->shares[i];
        if (s->at > at)
            out[count++] = bytes_of(g->bytes.at + at, s->at - at);
        out[count++] = blob_bytes(s->blob);
        at = s->at;
    }
    if (g->bytes.len > at)
        out[count++] = bytes_of(g->bytes.at + at, g->bytes.len - at);
    return count;
}

void gather_clear(struct gather *g)
{
    for (size_t i = 0; i < g->share_count; i++)
        blob_unref(g->shares[i].blob);
    g->share_count = 0;
    g->len = 0;
    if (g->bytes.cap > PEER_GATHER_KEPT_BYTES)
        buf_free(&g->bytes);
    buf_clear(&g->bytes);
}

void gather_free(struct gather *g)
{
    gather_clear(g);
    buf_free(&g->bytes);
    mem_free(g->shares);
    *g = (struct gather){0};
}

/* --- entries, encoded once --- */

static void encode_entries(const struct raft_message *m, uint8_t *at)
{
    for (size_t i = 0; i < m->entry_count; i++) {
        const struct raft_entry *e = &m->entries[i];
        size_t size = raft_entry_size(e);
        uint8_t *data = at + WORD_BYTES + size - e->data.len;

        put_word(at, size);
        if (e->data.len > 0)
            memcpy(data, e->data.at, e->data.len);
        uint8_t *start = raft_entry_put_head(e, data);
        assert(start == at + WORD_BYTES);
        at += WORD_BYTES + size;
    }
}

static size_t encoded_size(const struct raft_message *m)
{
    size_t size = 0;

    for (size_t i = 0; i < m->entry_count; i++)
        size += WORD_BYTES + raft_entry_size(&m->entries[i]);
    return size;
}

/*
 * Index and term name an entry; where its bytes lie makes sure that it is the same log. Within a
 * turn nobody frees them: raft lends its messages at least that long.
 */
static bool slot_has(const struct entry_cache_slot *s, const struct raft_message *m)
{
    const struct raft_entry *first = &m->entries[0], *last = &m->entries[m->entry_count - 1];

    return s->count == m->entry_count && s->first_index == first->index &&
           s->last_term == last->term && s->first_data == first->data.at &&
           s->last_data == last->data.at;
}

static void slot_empty(struct entry_cache_slot *s)
{
    blob_unref(s->blob);
    *s = (struct entry_cache_slot){0};
}

static void slot_fill(struct entry_cache *c, struct entry_cache_slot *s,
                      const struct raft_message *m)
{
    const struct raft_entry *first = &m->entries[0], *last = &m->entries[m->entry_count - 1];
    uint8_t *fill;

    slot_empty(s);
    *s = (struct entry_cache_slot){
        .first_index = first->index,
        .last_term = last->term,
        .count = m->entry_count,
        .first_data = first->data.at,
        .last_data = last->data.at,
        .len = encoded_size(m),
    };
    if (s->len >= PEER_GATHER_SHARE_BYTES) {
        s->blob = blob_new(s->len, &fill);
    } else {
        s->at = c->small.len;
        fill = buf_extend(&c->small, s->len);
    }
    encode_entries(m, fill);
    c->encoded++;
    c->is_used = true;
}

static void put_entries(struct gather *g, struct entry_cache *c, const struct raft_message *m)
{
    struct entry_cache_slot *s = &c->slots[m->entries[0].index % ENTRY_CACHE_SLOTS];

    if (slot_has(s, m))
        c->reused++;
    else
        slot_fill(c, s, m);
    if (s->blob)
        gather_share(g, s->blob);
    else
        gather_add(g, bytes_of(c->small.at + s->at, s->len));
}

void entry_cache_clear(struct entry_cache *c)
{
    if (!c->is_used)
        return; /* most turns of most members send no entries */
    c->is_used = false;
    for (size_t i = 0; i < ENTRY_CACHE_SLOTS; i++)
        slot_empty(&c->slots[i]);
    if (c->small.cap > PEER_GATHER_KEPT_BYTES)
        buf_free(&c->small);
    buf_clear(&c->small);
}

void entry_cache_free(struct entry_cache *c)
{
    entry_cache_clear(c);
    buf_free(&c->small);
}

/* --- writing --- */

void stream_put_message(struct gather *g, const struct raft_message *m)
{
    size_t start = g->bytes.len;

    buf_extend(&g->bytes, WORD_BYTES);
    raft_message_encode(m, &g->bytes);
    put_word(g->bytes.at + start, g->bytes.len - start - WORD_BYTES);
    g->len += g->bytes.len - start;
}

static uint64_t last_index(const struct raft_message *m)
{
    return m->entry_count > 0 ? m->entries[m->entry_count - 1].index : m->index;
}

void stream_put_append(struct gather *g, struct app_state *s, struct entry_cache *cache,
                       const struct raft_message *m)
{
    assert(m->type == RAFT_MSG_APP);

    bool continues = m->index == s->index && m->log_term == s->term && m->log_term == m->term;
    if (!continues) {
        gather_add(g, bytes_of(&(uint8_t){APP_MESSAGE}, 1));
        stream_put_message(g, m);
        *s = (struct app_state){.term = m->term, .index = last_index(m)};
        return;
    }
    gather_add(g, bytes_of(&(uint8_t){APP_ENTRIES}, 1));
    gather_add_word(g, m->entry_count);
    if (m->entry_count > 0)
        put_entries(g, cache, m);
    gather_add_word(g, m->commit);
    s->index += m->entry_count;
}

void stream_put_heartbeat(struct gather *g, enum stream_kind kind)
{
    static const struct raft_message heartbeat = {.type = RAFT_MSG_HEARTBEAT};

    if (kind == STREAM_APP)
        gather_add(g, bytes_of(&(uint8_t){APP_HEARTBEAT}, 1));
    else
        stream_put_message(g, &heartbeat);
}

/* --- reading --- */

static void forget_frame(struct stream_decoder *d)
{
    *d->receiving -= d->frame.len;
    if (d->frame.cap > PEER_DECODER_AT_ONCE_BYTES)
        buf_free(&d->frame);
    buf_clear(&d->frame);
    d->scanned = 0;
    d->need = 0;
    d->entries_left = 0;
}

void stream_decoder_free(struct stream_decoder *d)
{
    if (d->receiving)
        forget_frame(d);
    buf_free(&d->frame);
}

static enum stream_found bad(struct stream_decoder *d, const char *why)
{
    d->why = why;
    return STREAM_BAD;
}

/* A part of this length comes next. */
static enum stream_found add_part(struct stream_decoder *d, uint64_t len)
{
    if (d->scanned > d->frame_bytes_max || len > d->frame_bytes_max - d->scanned)
        return bad(d, "a frame that is too large");
    d->scanned += (size_t)len;
    d->need = d->scanned;
    return STREAM_FOUND;
}

/* What was kept of a frame and what has come since, as if one lay behind the other. */
struct have {
    struct bytes kept, in;
    size_t len;
};

static uint64_t word_at(const struct have *h, size_t at)
{
    uint8_t word[WORD_BYTES];

    assert(at + WORD_BYTES <= h->len);
    if (at >= h->kept.len)
        return get_word(h->in.at + at - h->kept.len);
    if (at + WORD_BYTES <= h->kept.len)
        return get_word(h->kept.at + at);
    size_t before = h->kept.len - at;
    memcpy(word, h->kept.at + at, before);
    memcpy(word + before, h->in.at, WORD_BYTES - before);
    return get_word(word);
}

/*
 * How the frame goes on, as far as the bytes at hand tell: STREAM_MORE while there are fewer than
 * d->need, STREAM_FOUND when it is whole, and then has d->scanned bytes. What was looked at once is
 * not looked at again, so a frame of a million entries in a million pieces takes no longer.
 */
static enum stream_found scan_length(struct stream_decoder *d, const struct have *have, size_t head)
{
    if (d->scanned == 0) {
        d->need = head + WORD_BYTES;
        if (have->len < d->need)
            return STREAM_MORE;
        d->scanned = d->need;
        enum stream_found found = add_part(d, word_at(have, head));
        if (found != STREAM_FOUND)
            return found;
    }
    return have->len < d->need ? STREAM_MORE : STREAM_FOUND;
}

static enum stream_found scan_entries(struct stream_decoder *d, const struct have *have)
{
    if (d->scanned == 0) {
        d->need = 1 + WORD_BYTES;
        if (have->len < d->need)
            return STREAM_MORE;
        d->entries_left = word_at(have, 1);
        if (d->entries_left > PEER_FRAME_ENTRIES_MAX)
            return bad(d, "too many entries in a frame");
        d->entries_left++; /* the commit index stands where the length of one more would */
        d->scanned = d->need;
        d->need += WORD_BYTES;
    }
    while (d->entries_left > 1) {
        if (have->len < d->scanned + WORD_BYTES) {
            d->need = d->scanned + WORD_BYTES;
            return STREAM_MORE;
        }
        uint64_t len = word_at(have, d->scanned);
        d->scanned += WORD_BYTES;
        enum stream_found found = add_part(d, len);
        if (found != STREAM_FOUND)
            return found;
        d->entries_left--;
    }
    if (d->entries_left == 1) {
        d->entries_left = 0;
        d->scanned += WORD_BYTES;
        d->need = d->scanned;
    }
    return have->len < d->need ? STREAM_MORE : STREAM_FOUND;
}

static enum stream_found scan(struct stream_decoder *d, const struct have *have)
{
    if (d->kind == STREAM_MESSAGE)
        return scan_length(d, have, 0);
    switch (have->kept.len > 0 ? have->kept.at[0] : have->in.at[0]) {
    case APP_HEARTBEAT:
        d->scanned = 1;
        return STREAM_FOUND;
    case APP_ENTRIES:
        return scan_entries(d, have);
    case APP_MESSAGE:
        return scan_length(d, have, 1);
    default:
        return bad(d, "a frame of a type that is not known");
    }
}

/* Keeps what has come of a frame that is not whole. */
static enum stream_found keep(struct stream_decoder *d, struct bytes what)
{
    if (what.len > d->receiving_max - *d->receiving)
        return bad(d, "too much is being received");
    if (d->need <= PEER_DECODER_AT_ONCE_BYTES && d->need > d->frame.len)
        buf_reserve(&d->frame, d->need - d->frame.len);
    buf_append(&d->frame, what);
    *d->receiving += what.len;
    return STREAM_MORE;
}

static enum stream_found decode_entries(struct stream_decoder *d, struct blob *frame,
                                        struct arena *arena, struct raft_message *out)
{
    const uint8_t *at = blob_bytes(frame).at + 1;
    uint64_t count = get_word(at);
    struct raft_entry *entries =
        count > 0 ? arena_new_array(arena, count, struct raft_entry) : NULL;

    at += WORD_BYTES;
    for (uint64_t i = 0; i < count; i++) {
        size_t len = (size_t)get_word(at);
        at += WORD_BYTES;
        if (pb_decode(&raft_entry_schema, bytes_of(at, len), arena, &entries[i]) != ERR_OK)
            return bad(d, "a malformed entry");
        entries[i].blob = entries[i].data.len > 0 ? frame : NULL;
        at += len;
    }
    *out = (struct raft_message){
        .type = RAFT_MSG_APP,
        .from = d->peer,
        .to = d->self,
        .term = d->app.term,
        .log_term = d->app.term,
        .index = d->app.index,
        .entries = entries,
        .entry_count = (size_t)count,
        .commit = get_word(at),
    };
    d->app.index += count;
    return STREAM_FOUND;
}

static enum stream_found decode_whole(struct stream_decoder *d, size_t head, struct blob *frame,
                                      struct arena *arena, struct raft_message *out)
{
    struct bytes all = blob_bytes(frame);
    struct bytes wire = bytes_of(all.at + head + WORD_BYTES, all.len - head - WORD_BYTES);

    if (raft_message_decode(frame, wire, arena, out) != ERR_OK)
        return bad(d, "a malformed message");
    if (d->kind == STREAM_APP)
        d->app = (struct app_state){.term = out->term, .index = last_index(out)};
    return STREAM_FOUND;
}

static bool is_link_heartbeat(const struct raft_message *m)
{
    return m->type == RAFT_MSG_HEARTBEAT && m->from == RAFT_NONE && m->to == RAFT_NONE;
}

static enum stream_found decode_frame(struct stream_decoder *d, struct blob *frame,
                                      struct arena *arena, struct raft_message *out)
{
    uint8_t type = blob_bytes(frame).at[0];
    enum stream_found found = d->kind == STREAM_APP && type == APP_ENTRIES
                                  ? decode_entries(d, frame, arena, out)
                                  : decode_whole(d, d->kind == STREAM_APP, frame, arena, out);

    return found == STREAM_FOUND && is_link_heartbeat(out) ? STREAM_HEARTBEAT : found;
}

/* *last: the end of the frame, or all of it if nothing was kept. What has come of one that is not
 * whole is kept. */
static enum stream_found take_frame(struct stream_decoder *d, struct bytes *in, struct bytes *last)
{
    struct have have = {buf_bytes(&d->frame), *in, d->frame.len + in->len};

    if (in->len == 0)
        return STREAM_MORE;
    enum stream_found found = scan(d, &have);
    if (found == STREAM_BAD)
        return found;
    assert(found == STREAM_MORE || d->scanned > d->frame.len);
    *last = bytes_of(in->at, found == STREAM_FOUND ? d->scanned - d->frame.len : in->len);
    *in = bytes_of(in->at + last->len, in->len - last->len);
    return found == STREAM_FOUND ? found : keep(d, *last);
}

static struct blob *join(struct bytes kept, struct bytes last)
{
    uint8_t *fill;
    struct blob *b = blob_new(kept.len + last.len, &fill);

    if (kept.len > 0)
        memcpy(fill, kept.at, kept.len);
    memcpy(fill + kept.len, last.at, last.len);
    return b;
}

enum stream_found stream_decode(struct stream_decoder *d, struct bytes *in, struct arena *arena,
                                struct blob **frame, struct raft_message *out)
{
    struct bytes last;
    enum stream_found found = take_frame(d, in, &last);

    if (found != STREAM_FOUND)
        return found;
    if (d->kind == STREAM_APP && d->frame.len == 0 && last.at[0] == APP_HEARTBEAT) {
        forget_frame(d);
        return STREAM_HEARTBEAT;
    }
    *frame = join(buf_bytes(&d->frame), last);
    forget_frame(d);
    found = decode_frame(d, *frame, arena, out);
    if (found != STREAM_FOUND) {
        blob_unref(*frame);
        *frame = NULL;
    }
    return found;
}
