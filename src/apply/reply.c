#include "apply/reply.h"

#include "base/assert.h"
#include "base/mem.h"
#include "pb/wire.h"

/* A stretch of the reply. */
struct reply_piece {
    struct mvcc_scan *scan; /* NULL: text */
    size_t at;              /* where it lies in `text`; NOT_YET: a head, its message is open */
    uint64_t len;           /* > 0 but of such a head; of a scan, what is left of it */
};

#define NOT_YET SIZE_MAX /* no text begins or ends there */

enum { HEAD_BYTES_MAX = 11 }; /* a tag and the longest varint */

/* Writes tag and length before `end`; where they begin. */
static uint8_t *put_head(uint8_t *end, uint8_t tag, uint64_t len)
{
    uint8_t *start = pb_put_varint(end, len);

    *--start = tag;
    return start;
}

/* ---- Owning ---- */

void reply_free(struct reply *r)
{
    if (!r->text.at && !r->pieces) /* most often: nothing was said */
        return;
    for (size_t i = 0; i < r->piece_count; i++)
        reply_scan_free(r->pieces[i].scan);
    mem_free(r->pieces);
    buf_free(&r->text);
    *r = (struct reply){0};
}

void reply_move(struct reply *from, struct reply *to)
{
    assert(!to->pieces);

    *to = *from;
    *from = (struct reply){0};
}

struct mvcc_scan *reply_scan_new(const struct mvcc_question *question)
{
    size_t key_len = question->key.len, end_len = question->end.len;
    struct mvcc_scan *s = mem_alloc(sizeof(*s) + key_len + end_len);
    uint8_t *copy = (uint8_t *)(s + 1);

    s->question = *question;
    s->question.key.at = copy;
    s->question.end.at = copy + key_len;
    if (key_len > 0)
        memcpy(copy, question->key.at, key_len);
    if (end_len > 0)
        memcpy(copy + key_len, question->end.at, end_len);
    return s;
}

void reply_scan_free(struct mvcc_scan *s)
{
    if (!s)
        return;
    mvcc_scan_close(s);
    mem_free(s);
}

/* ---- Building ---- */

/* Makes space for one more piece before number `at`. */
static struct reply_piece *insert_piece(struct reply *r, size_t at)
{
    if (r->piece_count == r->piece_cap) {
        r->piece_cap = r->piece_cap ? 2 * r->piece_cap : 4;
        r->pieces = mem_resize(r->pieces, r->piece_cap, sizeof(*r->pieces));
    }
    memmove(r->pieces + at + 1, r->pieces + at, (r->piece_count - at) * sizeof(*r->pieces));
    r->piece_count++;
    r->pieces[at] = (struct reply_piece){0};
    return &r->pieces[at];
}

static bool ends_at(const struct reply_piece *p, size_t place)
{
    return !p->scan && p->at + p->len == place;
}

struct buf *reply_text(struct reply *r)
{
    assert(r->taken == 0);
    return &r->text;
}

void reply_added(struct reply *r)
{
    size_t added = r->text.len - r->text_known;

    if (added == 0)
        return;
    if (r->piece_count == 0 || !ends_at(&r->pieces[r->piece_count - 1], r->text_known))
        insert_piece(r, r->piece_count)->at = r->text_known;
    r->pieces[r->piece_count - 1].len += added;
    r->text_known = r->text.len;
    r->total += added;
}

void reply_add(struct reply *r, struct bytes encoded)
{
    buf_append(reply_text(r), encoded);
    reply_added(r);
}

void reply_add_number(struct reply *r, uint8_t tag, uint64_t number)
{
    uint8_t space[HEAD_BYTES_MAX], *end = space + sizeof(space);

    if (number == 0)
        return;
    uint8_t *start = put_head(end, tag, number);
    reply_add(r, bytes_of(start, (size_t)(end - start)));
}

static_assert(REPLY_SMALL_BYTES_MAX <= sizeof(struct mvcc_scan), "cheaper as text");

bool reply_takes_inline(const struct reply *r, uint64_t bytes)
{
    return bytes <= REPLY_SMALL_BYTES_MAX ||
           (bytes <= REPLY_INLINE_BYTES_MAX && r->text.len + bytes <= REPLY_TEXT_BYTES_MAX);
}

void reply_add_scan(struct reply *r, struct mvcc_scan *s)
{
    uint64_t left = s->bytes;
    assert(r->taken == 0);

    s->in_parts = true; /* or every slow reader of a large value would cost its size */
    if (left > 0 && reply_takes_inline(r, left)) {
        size_t before = r->text.len;
        (void)mvcc_scan_read(s, REPLY_INLINE_BYTES_MAX, MVCC_SLICE_STEPS, &r->text);
        left -= r->text.len - before;
        reply_added(r);
    }
    if (left == 0) {
        reply_scan_free(s);
        return;
    }
    *insert_piece(r, r->piece_count) = (struct reply_piece){.scan = s, .len = left};
    r->total += left;
}

/* A place between two bytes of the reply: before byte `text` of the text, in or before a piece. */
struct place {
    size_t piece, text;
};

/* Counted from the end, because marks are closed soon after they were made: a transaction of many
 * operations would otherwise walk over all its pieces for each. Behind a mark texts lie in the
 * order of their pieces: only heads do not, and they are not put in there. */
static struct place place_before(const struct reply *r, uint64_t bytes_behind)
{
    struct place p = {r->piece_count, r->text.len};

    while (bytes_behind > 0) {
        const struct reply_piece *piece = &r->pieces[--p.piece];
        uint64_t behind = piece->len < bytes_behind ? piece->len : bytes_behind;
        assert(behind == piece->len || !piece->scan);
        if (!piece->scan) {
            p.text -= (size_t)behind;
            assert(piece->at + piece->len == p.text + behind);
        }
        bytes_behind -= behind;
    }
    return p;
}

/* The text piece that bytes at this place belong to; at the seam of two, either will do. */
static size_t text_piece_at(struct reply *r, struct place p)
{
    if (p.piece < r->piece_count && !r->pieces[p.piece].scan)
        return p.piece;
    if (p.piece > 0 && ends_at(&r->pieces[p.piece - 1], p.text))
        return p.piece - 1;
    insert_piece(r, p.piece)->at = p.text;
    return p.piece;
}

static void insert_text(struct reply *r, struct place p, struct bytes what)
{
    assert(r->taken == 0);

    size_t moved = r->text.len - p.text, piece = text_piece_at(r, p);
    buf_extend(&r->text, what.len);
    memmove(r->text.at + p.text + what.len, r->text.at + p.text, moved);
    memcpy(r->text.at + p.text, what.at, what.len);
    r->pieces[piece].len += what.len;
    while (++piece < r->piece_count)
        r->pieces[piece].at += r->pieces[piece].scan ? 0 : what.len;
    r->text_known = r->text.len;
    r->total += what.len;
}

size_t reply_mark(const struct reply *r)
{
    assert(r->text_known == r->text.len);
    return r->total;
}

void reply_close(struct reply *r, size_t mark, uint8_t tag)
{
    assert(mark <= r->total);

    uint8_t space[HEAD_BYTES_MAX], *end = space + sizeof(space);
    uint64_t len = r->total - mark;
    uint8_t *start = put_head(end, tag, len);
    insert_text(r, place_before(r, len), bytes_of(start, (size_t)(end - start)));
}

/* ---- Building what may be large ---- */

struct reply_nest reply_open(struct reply *r)
{
    struct reply_nest n = {.piece = r->piece_count, .from = reply_mark(r)};

    insert_piece(r, r->piece_count)->at = NOT_YET;
    return n;
}

/* The text of a piece that stands somewhere, and lies behind all others. */
static void set_text(struct reply *r, struct reply_piece *p, struct bytes what)
{
    assert(r->taken == 0);
    assert(r->text_known == r->text.len);

    *p = (struct reply_piece){.at = r->text.len, .len = what.len};
    buf_append(&r->text, what);
    r->text_known = r->text.len;
    r->total += what.len;
}

void reply_seal(struct reply *r, struct reply_nest n, uint8_t inner, uint8_t outer)
{
    assert(r->pieces[n.piece].at == NOT_YET);
    assert(n.from <= r->total);

    uint8_t space[2 * HEAD_BYTES_MAX], *end = space + sizeof(space);
    uint64_t len = r->total - n.from;
    uint8_t *start = put_head(end, inner, len);
    start = put_head(start, outer, len + (uint64_t)(end - start));
    set_text(r, &r->pieces[n.piece], bytes_of(start, (size_t)(end - start)));
}

void reply_add_front(struct reply *r, struct bytes encoded)
{
    if (encoded.len > 0)
        set_text(r, insert_piece(r, 0), encoded);
}

void reply_join(struct reply *r)
{
    struct buf joined = {0};

    if (r->piece_count < 2 || r->text.len != r->total || r->total > REPLY_TEXT_BYTES_MAX)
        return;
    for (size_t i = 0; i < r->piece_count; i++)
        buf_append(&joined, bytes_of(r->text.at + r->pieces[i].at, r->pieces[i].len));
    buf_free(&r->text);
    r->text = joined;
    r->pieces[0] = (struct reply_piece){.len = r->total};
    r->piece_count = 1;
}

/* ---- Reading ---- */

static void read_text(const struct reply *r, const struct reply_piece *p, size_t max,
                      struct buf *out)
{
    uint64_t left = p->len - r->at_byte;
    size_t given = left < max ? (size_t)left : max;

    buf_append(out, bytes_of(r->text.at + p->at + r->at_byte, given));
}

/* From the piece at hand; true if that was the end of it. */
static bool read_piece(struct reply *r, size_t max, struct buf *out)
{
    struct reply_piece *p = &r->pieces[r->at_piece];
    size_t before = out->len;

    if (p->scan)
        (void)mvcc_scan_read(p->scan, max, MVCC_SLICE_STEPS, out); /* the end is counted here too */
    else
        read_text(r, p, max, out);
    r->at_byte += out->len - before;
    r->taken += out->len - before;
    assert(r->at_byte <= p->len); /* mvcc promise 2 */
    if (r->at_byte < p->len)
        return false;
    reply_scan_free(p->scan); /* at once: it holds back compaction */
    p->scan = NULL;
    r->at_piece++;
    r->at_byte = 0;
    return true;
}

bool reply_read(struct reply *r, size_t max, struct buf *out)
{
    size_t enough = out->len + max;
    assert(max > 0);

    while (r->at_piece < r->piece_count && out->len < enough)
        if (!read_piece(r, enough - out->len, out))
            break;
    assert((r->taken == r->total) == (r->at_piece == r->piece_count));
    return r->taken == r->total;
}

bool reply_in_the_way(const struct reply *r)
{
    for (size_t i = 0; i < r->piece_count; i++) {
        const struct mvcc_scan *scan = r->pieces[i].scan;
        if (scan && mvcc_scan_in_the_way(scan))
            return true;
    }
    return false;
}

bool reply_is_inline(const struct reply *r)
{
    return r->taken == 0 && r->piece_count < 2 && r->text.len == r->total;
}

struct bytes reply_bytes(const struct reply *r)
{
    assert(reply_is_inline(r));
    return buf_bytes(&r->text);
}

void reply_check(const struct reply *r)
{
    uint64_t total = 0, text = 0;

    for (size_t i = 0; i < r->piece_count; i++) {
        const struct reply_piece *p = &r->pieces[i];
        total += p->len;
        if (p->scan) {
            assert(p->len <= p->scan->bytes);
        } else if (i >= r->at_piece) {
            assert((p->len == 0) == (p->at == NOT_YET));
            assert(p->len == 0 || p->at + p->len <= r->text.len);
            text += p->len;
        }
    }
    assert(total == r->total);
    assert(text == r->text.len || (r->taken > 0 && text < r->text.len));
    assert(r->text_known == r->text.len);
    assert(r->taken <= r->total);
}
