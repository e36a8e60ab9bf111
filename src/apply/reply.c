#include "apply/reply.h"

#include "base/assert.h"
#include "base/mem.h"
#include "pb/wire.h"

/* A stretch of the reply. Texts lie in `text` in the order of their pieces and know only their
 * length, so that bytes can be put in anywhere without touching what follows. */
struct reply_piece {
    struct mvcc_scan *scan; /* NULL: text */
    uint64_t len;           /* > 0; of a scan, what is left of it */
};

enum { HEAD_BYTES_MAX = 11 }; /* a tag and the longest varint */

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
    if (r->piece_count == 0 || r->pieces[r->piece_count - 1].scan)
        insert_piece(r, r->piece_count);
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
    uint8_t *start = pb_put_varint(end, number);
    *--start = tag;
    reply_add(r, bytes_of(start, (size_t)(end - start)));
}

void reply_add_scan(struct reply *r, struct mvcc_scan *s)
{
    uint64_t left = s->bytes;
    assert(r->taken == 0);

    s->in_parts = true; /* or every slow reader of a large value would cost its size */
    if (left > 0 && left <= REPLY_INLINE_BYTES_MAX) {
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
 * operations would otherwise walk over all its pieces for each. */
static struct place place_before(const struct reply *r, uint64_t bytes_behind)
{
    struct place p = {r->piece_count, r->text.len};

    while (bytes_behind > 0) {
        const struct reply_piece *piece = &r->pieces[--p.piece];
        uint64_t behind = piece->len < bytes_behind ? piece->len : bytes_behind;
        assert(behind == piece->len || !piece->scan);
        if (!piece->scan)
            p.text -= (size_t)behind;
        bytes_behind -= behind;
    }
    return p;
}

/* The text piece that bytes at this place belong to; at the seam of two, either will do. */
static struct reply_piece *text_piece_at(struct reply *r, size_t piece)
{
    if (piece < r->piece_count && !r->pieces[piece].scan)
        return &r->pieces[piece];
    if (piece > 0 && !r->pieces[piece - 1].scan)
        return &r->pieces[piece - 1];
    return insert_piece(r, piece);
}

static void insert_text(struct reply *r, struct place p, struct bytes what)
{
    assert(r->taken == 0);
    if (what.len == 0)
        return;

    size_t moved = r->text.len - p.text;
    buf_extend(&r->text, what.len);
    memmove(r->text.at + p.text + what.len, r->text.at + p.text, moved);
    memcpy(r->text.at + p.text, what.at, what.len);
    text_piece_at(r, p.piece)->len += what.len;
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
    uint8_t *start = pb_put_varint(end, len);
    *--start = tag;
    insert_text(r, place_before(r, len), bytes_of(start, (size_t)(end - start)));
}

void reply_add_front(struct reply *r, struct bytes encoded)
{
    insert_text(r, (struct place){0, 0}, encoded);
}

/* ---- Reading ---- */

static void read_text(struct reply *r, const struct reply_piece *p, size_t max, struct buf *out)
{
    uint64_t left = p->len - r->at_byte;
    size_t given = left < max ? (size_t)left : max;

    buf_append(out, bytes_of(r->text.at + r->at_text, given));
    r->at_text += given;
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
    return r->taken == 0 && r->text.len == r->total;
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
        assert(p->len > 0);
        total += p->len;
        if (!p->scan && i >= r->at_piece)
            text += p->len;
        if (p->scan)
            assert(p->len <= p->scan->bytes);
    }
    assert(total == r->total);
    assert(text + r->at_text -
               (r->at_piece < r->piece_count && !r->pieces[r->at_piece].scan ? r->at_byte : 0) ==
           r->text.len);
    assert(r->text_known == r->text.len);
    assert(r->taken <= r->total);
}
