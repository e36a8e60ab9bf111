/*
 * Any bytes as HTTP/1.1. The first byte chooses request or response, the second how the rest is cut
 * into pieces.
 *
 * Beyond not crashing: pieces of any size give the same parts, the head that was accepted is
 * written again and read as the same, and nothing is found behind what is broken.
 */
#include "base/assert.h"
#include "http/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_writable(struct bytes target)
{
    for (size_t i = 0; i < target.len; i++)
        if (target.at[i] >= 0x80)
            return false;
    return target.len > 0 && target.at[0] != '?';
}

/* What was read, in a form that can be compared. */
static void append_head(const struct http1_reader *r, struct buf *out)
{
    buf_append(out, r->verb);
    buf_append_byte(out, ' ');
    buf_append(out, r->target);
    buf_printf(out, " %u %d %d\n", r->status, r->keep_alive, r->is_1_0);
    for (size_t i = 0; i < r->field_count; i++) {
        buf_append(out, r->fields[i].name);
        buf_append_byte(out, ':');
        buf_append(out, r->fields[i].value);
        buf_append_byte(out, '\n');
    }
}

static void write_again(const struct http1_reader *r)
{
    struct http1_reader again;
    struct buf out = {0}, was = {0}, is = {0};
    struct bytes piece;
    char word[HTTP1_HEAD_BYTES_MAX + 1];

    if (r->is_1_0 || (r->kind == HTTP1_REQUEST && !is_writable(r->target)))
        return; /* we write 1.1, and paths of our own */
    if (r->kind == HTTP1_REQUEST) {
        memcpy(word, r->verb.at, r->verb.len);
        word[r->verb.len] = '\0';
        http1_write_request_line(&out, word, r->target);
    } else {
        http1_write_status_line(&out, false, r->status);
    }
    for (size_t i = 0; i < r->field_count; i++) {
        memcpy(word, r->fields[i].name.at, r->fields[i].name.len);
        word[r->fields[i].name.len] = '\0';
        http1_write_field(&out, word, r->fields[i].value);
    }
    http1_write_head_end(&out);
    if (out.len <= HTTP1_HEAD_BYTES_MAX) {
        struct bytes in = buf_bytes(&out);
        http1_init(&again, r->kind);
        enum http1_found found = http1_read(&again, &in, &piece);
        assert(found == HTTP1_HEAD);
        append_head(r, &was);
        append_head(&again, &is);
        assert(bytes_equal(buf_bytes(&was), buf_bytes(&is)));
        http1_free(&again);
    }
    buf_free(&out);
    buf_free(&was);
    buf_free(&is);
}

static void read_all(enum http1_kind kind, struct bytes in, size_t step, struct buf *out)
{
    struct http1_reader r;
    enum http1_found found = HTTP1_MORE;

    http1_init(&r, kind);
    for (size_t at = 0; at < in.len && found != HTTP1_BAD; at += step) {
        size_t len = step < in.len - at ? step : in.len - at;
        struct bytes data = bytes_of(in.at + at, len), piece;

        while ((found = http1_read(&r, &data, &piece)) != HTTP1_MORE && found != HTTP1_BAD) {
            if (found == HTTP1_HEAD) {
                append_head(&r, out);
                write_again(&r);
            } else if (found == HTTP1_BODY) {
                assert(piece.len > 0);
                buf_append(out, piece);
            } else {
                buf_append_str(out, "\nend\n");
                http1_next(&r);
            }
        }
    }
    if (found == HTTP1_BAD) {
        struct bytes more = BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), piece;
        assert(http1_read(&r, &more, &piece) == HTTP1_BAD);
        assert(r.why);
        assert(r.bad_status >= 400);
        buf_printf(out, "bad %u", r.bad_status);
    } else {
        buf_printf(out, "closed %d", (int)http1_close(&r));
    }
    http1_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0}, cut = {0};

    if (size < 2)
        return 0;
    enum http1_kind kind = data[0] % 2 ? HTTP1_REQUEST : HTTP1_RESPONSE;
    struct bytes in = bytes_of(data + 2, size - 2);
    read_all(kind, in, in.len + 1, &whole);
    read_all(kind, in, (size_t)data[1] + 1, &cut);
    assert(bytes_equal(buf_bytes(&whole), buf_bytes(&cut)));
    buf_free(&whole);
    buf_free(&cut);
    return 0;
}
