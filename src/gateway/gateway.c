#include "gateway/gateway.h"

#include "base/assert.h"
#include "gateway/json_read.h"

/* --- in --- */

void gateway_in_free(struct gateway_in *in)
{
    json_scan_free(&in->scan);
    json_reader_free(in->reader);
    buf_free(&in->body);
    *in = (struct gateway_in){0};
}

void gateway_in_add(struct gateway_in *in, struct bytes piece)
{
    buf_append(&in->body, piece);
}

void gateway_in_end(struct gateway_in *in)
{
    in->has_ended = true;
}

static bool is_for_later(size_t bytes, const size_t *work)
{
    return work ? *work == 0 : bytes > GATEWAY_AT_ONCE_BYTES;
}

/* The text in front is whole: from behind the white space before it to where the scanner is. */
static enum gateway_in_result take_text(struct gateway_in *in, const struct pb_schema *schema,
                                        size_t *work, struct buf *out, struct buf *why)
{
    struct bytes text =
        bytes_of(in->body.at + in->used + in->scan.skipped, in->scan.taken - in->scan.skipped);
    size_t all = SIZE_MAX;

    if (is_for_later(text.len, work))
        return GATEWAY_LONG;
    if (!in->reader)
        in->reader = json_reader_new(schema);
    enum json_read_result found = json_reader_go_on(in->reader, text, work ? work : &all, out, why);
    if (found == JSON_READ_MORE)
        return GATEWAY_LONG;
    json_reader_free(in->reader);
    in->reader = NULL;
    if (found == JSON_READ_BAD)
        return GATEWAY_BAD;
    in->used += in->scan.taken;
    if (in->used > in->body.len / 2) { /* not each time: many small ones would be moved by each */
        buf_drop_front(&in->body, in->used);
        in->used = 0;
    }
    in->scanned = in->used;
    json_scan_reset(&in->scan);
    return GATEWAY_MESSAGE;
}

/* Goes on looking for the end of the text in front. */
static enum json_scan_result scan_some(struct gateway_in *in, size_t *work)
{
    size_t len = in->body.len - in->scanned;
    size_t some = *work < len ? *work : len;
    struct bytes left = bytes_of(len > 0 ? in->body.at + in->scanned : NULL, some);
    enum json_scan_result found = json_scan(&in->scan, &left);

    in->scanned += some - left.len;
    *work -= some - left.len;
    if (found == JSON_SCAN_MORE && in->has_ended && in->scanned == in->body.len)
        found = json_scan_end(&in->scan);
    return found;
}

enum gateway_in_result gateway_in_next_some(struct gateway_in *in, const struct pb_schema *schema,
                                            size_t *work, struct buf *out, struct buf *why)
{
    size_t at_once = GATEWAY_AT_ONCE_BYTES;

    if (in->reader)
        return take_text(in, schema, work, out, why);
    if (work && *work == 0)
        return GATEWAY_LONG;
    switch (scan_some(in, work ? work : &at_once)) {
    case JSON_SCAN_MORE:
        return in->scanned < in->body.len ? GATEWAY_LONG : GATEWAY_MORE;
    case JSON_SCAN_DONE:
        if (in->scan.taken == in->scan.skipped)
            return GATEWAY_END;
        return take_text(in, schema, work, out, why);
    case JSON_SCAN_BAD:
        buf_append(why, buf_bytes(&in->scan.why));
        return GATEWAY_BAD;
    }
    unreachable();
}

enum gateway_in_result gateway_in_next(struct gateway_in *in, const struct pb_schema *schema,
                                       struct buf *out, struct buf *why)
{
    size_t all = SIZE_MAX;

    return gateway_in_next_some(in, schema, &all, out, why);
}

/* --- out --- */

void gateway_out_free(struct gateway_out *o)
{
    json_write_free(&o->json);
    *o = (struct gateway_out){0};
}

static uint32_t frame_length(const struct gateway_out *o)
{
    return (uint32_t)o->head[1] << 24 | (uint32_t)o->head[2] << 16 | (uint32_t)o->head[3] << 8 |
           o->head[4];
}

static void begin_message(struct gateway_out *o, const struct gateway_route *route, struct buf *out)
{
    assert(o->head[0] == 0); /* not compressed */
    o->is_within = true;
    if (route->kind != GATEWAY_UNARY)
        buf_append_str(out, "{\"result\":");
    json_write_begin(&o->json, route->response, frame_length(o), out);
}

static void end_message(struct gateway_out *o, const struct gateway_route *route, struct buf *out)
{
    if (route->kind != GATEWAY_UNARY)
        buf_append_str(out, "}\n");
    assert(json_write_is_over(&o->json));
    o->is_within = false;
    o->head_len = 0;
    o->left = 0;
}

void gateway_out_put(struct gateway_out *o, const struct gateway_route *route, struct bytes framed,
                     struct buf *out)
{
    while (framed.len > 0) {
        if (!o->is_within) {
            o->head[o->head_len++] = framed.at[0];
            framed = bytes_of(framed.at + 1, framed.len - 1);
            if (o->head_len < GATEWAY_FRAME_HEAD_BYTES)
                continue;
            begin_message(o, route, out);
            o->left = frame_length(o);
        } else {
            size_t len = framed.len < o->left ? framed.len : o->left;
            json_write(&o->json, bytes_of(framed.at, len), out);
            framed = bytes_of(framed.at + len, framed.len - len);
            o->left -= (uint32_t)len;
        }
        if (o->left == 0)
            end_message(o, route, out);
    }
}

/* --- errors --- */

unsigned gateway_http_status(unsigned code)
{
    static const uint16_t statuses[] = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                                        400, 409, 400, 501, 500, 503, 500, 401};

    return code < ARRAY_LEN(statuses) ? statuses[code] : 500;
}

void gateway_write_error(unsigned code, struct bytes message, bool in_stream, struct buf *out)
{
    struct json j = {.out = out};

    json_begin_object(&j, NULL);
    if (in_stream)
        json_begin_object(&j, "error");
    json_put_number(&j, "code", code);
    if (message.len > 0)
        json_put_text(&j, "message", message);
    if (in_stream)
        json_end_object(&j);
    json_end_object(&j);
    if (in_stream)
        buf_append_byte(out, '\n');
}
