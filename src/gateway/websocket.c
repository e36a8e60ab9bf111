#include "gateway/websocket.h"

#include "base/assert.h"
#include "base/base64.h"
#include "io/hash.h"

enum { FIN = 0x80, RESERVED = 0x70, MASKED = 0x80, LENGTH_16 = 126, LENGTH_64 = 127 };

static size_t head_bytes(uint8_t second)
{
    size_t length = (second & 0x7f) == LENGTH_64 ? 8 : (second & 0x7f) == LENGTH_16 ? 2 : 0;

    return 2 + length + 4;
}

static bool is_sign(enum websocket_opcode opcode)
{
    return opcode >= WEBSOCKET_CLOSE;
}

static uint64_t big_endian(const uint8_t *at, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value = value << 8 | at[i];
    return value;
}

static bool is_known(enum websocket_opcode opcode)
{
    return opcode <= WEBSOCKET_BINARY || (opcode >= WEBSOCKET_CLOSE && opcode <= WEBSOCKET_PONG);
}

/* A sign is short and whole; a message's first frame says what it is, the others do not. */
static bool may_stand_here(const struct websocket_reader *r)
{
    if (is_sign(r->opcode))
        return r->is_last && r->left <= WEBSOCKET_SIGN_BYTES_MAX;
    return (r->opcode == WEBSOCKET_GOES_ON) == r->is_open;
}

/* False: no frame begins like that. */
static bool begin_frame(struct websocket_reader *r)
{
    size_t len = head_bytes(r->head[1]);

    r->is_last = r->head[0] & FIN;
    r->opcode = (enum websocket_opcode)(r->head[0] & 0x0f);
    r->left = len == 6 ? r->head[1] & 0x7f : big_endian(r->head + 2, len - 6);
    r->passed = 0;
    memcpy(r->mask, r->head + len - 4, 4);
    if ((r->head[0] & RESERVED) || !(r->head[1] & MASKED) || !is_known(r->opcode) ||
        r->left > INT64_MAX || !may_stand_here(r))
        return false;
    r->is_within = true;
    if (is_sign(r->opcode))
        r->sign_len = 0;
    else
        r->is_open = !r->is_last;
    return true;
}

static void unmask(struct websocket_reader *r, struct bytes piece, uint8_t *to)
{
    for (size_t i = 0; i < piece.len; i++)
        to[i] = piece.at[i] ^ r->mask[(r->passed + i) % 4];
    r->passed += piece.len;
    r->left -= piece.len;
}

static void take_content(struct websocket_reader *r, struct bytes *in, struct buf *out)
{
    struct bytes piece = bytes_of(in->at, in->len < r->left ? in->len : (size_t)r->left);

    *in = bytes_of(in->at + piece.len, in->len - piece.len);
    if (!is_sign(r->opcode)) {
        unmask(r, piece, buf_extend(out, piece.len));
        return;
    }
    unmask(r, piece, r->sign + r->sign_len);
    r->sign_len = (uint8_t)(r->sign_len + piece.len);
}

/* A rule that is broken is not forgotten: the head stays where it is. */
static bool is_broken(const struct websocket_reader *r)
{
    return !r->is_within && r->head_len >= 2 && r->head_len == head_bytes(r->head[1]);
}

enum websocket_found websocket_read(struct websocket_reader *r, struct bytes *in, struct buf *out)
{
    if (is_broken(r))
        return WEBSOCKET_BAD;
    while (in->len > 0 || (r->is_within && r->left == 0)) {
        if (!r->is_within) {
            r->head[r->head_len++] = in->at[0];
            *in = bytes_of(in->at + 1, in->len - 1);
            if (r->head_len < 2 || r->head_len < head_bytes(r->head[1]))
                continue;
            if (!begin_frame(r))
                return WEBSOCKET_BAD;
        }
        take_content(r, in, out);
        if (r->left > 0)
            continue;
        r->is_within = false;
        r->head_len = 0;
        if (is_sign(r->opcode))
            return WEBSOCKET_SIGN;
        if (r->is_last)
            return WEBSOCKET_MESSAGE;
    }
    return WEBSOCKET_MORE;
}

void websocket_write_head(struct buf *out, enum websocket_opcode opcode, bool is_last, size_t len)
{
    unsigned length_bytes = len < LENGTH_16 ? 0 : len <= UINT16_MAX ? 2 : 8;

    buf_append_byte(out, (uint8_t)((is_last ? FIN : 0) | opcode));
    buf_append_byte(out, length_bytes == 0   ? (uint8_t)len
                         : length_bytes == 2 ? LENGTH_16
                                             : LENGTH_64);
    for (unsigned i = length_bytes; i > 0; i--)
        buf_append_byte(out, (uint8_t)((uint64_t)len >> 8 * (i - 1)));
}

void websocket_accept(struct bytes key, struct buf *out)
{
    struct buf both = {0};
    uint8_t digest[HASH_SHA1_BYTES];

    buf_append(&both, key);
    buf_append_str(&both, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"); /* RFC 6455, section 1.3 */
    hash_once(HASH_SHA1, buf_bytes(&both), digest);
    base64_encode(BASE64_PADDED, bytes_of(digest, sizeof(digest)), out);
    buf_free(&both);
}
