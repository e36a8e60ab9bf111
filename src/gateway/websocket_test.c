#include "gateway/websocket.h"

#include "base/mem.h"
#include "harness/test.h"

#include <stdio.h>

/* Tells what is found in frames, in pieces of `step` bytes. */
static void tell_frames(struct bytes in, size_t step, struct buf *out)
{
    struct websocket_reader r = {0};
    struct buf content = {0};

    buf_clear(out);
    for (size_t at = 0; at < in.len; at += step) {
        struct bytes piece = bytes_of(in.at + at, in.len - at < step ? in.len - at : step);
        enum websocket_found found;
        while ((found = websocket_read(&r, &piece, &content)) != WEBSOCKET_MORE) {
            if (found == WEBSOCKET_MESSAGE)
                buf_printf(out, "[%s]", buf_str(&content));
            else if (found == WEBSOCKET_SIGN)
                buf_printf(out, "(%d %.*s)", (int)r.opcode, r.sign_len, (const char *)r.sign);
            if (found == WEBSOCKET_BAD) {
                buf_append_str(out, "bad");
                buf_free(&content);
                return;
            }
            if (found == WEBSOCKET_MESSAGE)
                buf_clear(&content);
        }
        CHECK_EQ(piece.len, 0);
    }
    if (content.len > 0)
        buf_printf(out, "%s...", buf_str(&content));
    buf_free(&content);
}

/* Masked with "abcd", as a client's are. */
static void put_frame(struct buf *out, unsigned first, const char *content)
{
    size_t len = strlen(content);

    buf_append_byte(out, (uint8_t)first);
    if (len < 126) {
        buf_append_byte(out, (uint8_t)(0x80 | len));
    } else {
        buf_append_byte(out, 0x80 | 126);
        buf_append_byte(out, (uint8_t)(len >> 8));
        buf_append_byte(out, (uint8_t)len);
    }
    buf_append_str(out, "abcd");
    for (size_t i = 0; i < len; i++)
        buf_append_byte(out, (uint8_t)(content[i] ^ "abcd"[i % 4]));
}

static void check_frames(struct buf *frames, const char *want)
{
    struct buf got = {0};

    for (size_t step = 1; step <= frames->len; step++) {
        tell_frames(buf_bytes(frames), step, &got);
        CHECK_STR(buf_str(&got), want);
    }
    buf_free(&got);
    buf_clear(frames);
}

TEST(messages_of_a_websocket_are_read_however_they_are_cut)
{
    struct buf in = {0};

    put_frame(&in, 0x81, "{\"a\":1}");
    put_frame(&in, 0x82, "");
    put_frame(&in, 0x01, "in ");
    put_frame(&in, 0x89, "ping");
    put_frame(&in, 0x00, "three ");
    put_frame(&in, 0x80, "parts");
    put_frame(&in, 0x8a, "");
    put_frame(&in, 0x88, "\x03\xe8");
    check_frames(&in, "[{\"a\":1}][](9 ping)[in three parts](10 )(8 \x03\xe8)");

    char long_one[301];
    memset(long_one, 'x', 300);
    long_one[300] = '\0';
    char want[303];
    snprintf(want, sizeof(want), "[%s]", long_one);
    put_frame(&in, 0x81, long_one);
    check_frames(&in, want);
    buf_free(&in);
}

TEST(what_breaks_the_rules_of_a_websocket_is_refused)
{
    char long_ping[127];
    struct buf in = {0};

    memset(long_ping, 'x', 126);
    long_ping[126] = '\0';
    buf_append(&in, bytes_of("\x81\x05helloagain", 12)); /* not masked */
    check_frames(&in, "bad");
    const struct {
        unsigned first;
        const char *content;
    } bad[] = {{0x83, "x"}, {0x8b, "x"}, {0xc1, "x"}, {0x80, "x"}, {0x09, "x"}, {0x89, long_ping}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put_frame(&in, bad[i].first, bad[i].content);
        check_frames(&in, "bad");
    }
    put_frame(&in, 0x01, "x");
    put_frame(&in, 0x81, "a new one within another");
    check_frames(&in, "bad");
    buf_append(&in, bytes_of("\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                             "abcd",
                             14)); /* longer than anything */
    check_frames(&in, "bad");
    buf_free(&in);
}

TEST(a_websocket_greets_as_the_rfc_has_it)
{
    struct buf out = {0};

    websocket_accept(BYTES("dGhlIHNhbXBsZSBub25jZQ=="), &out);
    CHECK_STR(buf_str(&out), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    CHECK_EQ(out.len, WEBSOCKET_ACCEPT_CHARS);

    buf_clear(&out);
    websocket_write_head(&out, WEBSOCKET_TEXT, true, 125);
    websocket_write_head(&out, WEBSOCKET_GOES_ON, false, 126);
    websocket_write_head(&out, WEBSOCKET_PONG, true, 65536);
    CHECK_BYTES(buf_bytes(&out), BYTES("\x81\x7d\x00\x7e\x00\x7e\x8a\x7f\0\0\0\0\0\x01\0\0"));
    buf_free(&out);
}
