/*
 * websocket: frames of a WebSocket (RFC 6455) as bytes, the server's end of it.
 *
 * What the client says comes in frames that are masked and may be cut into several; the reader
 * shows their content, unmasked, as it comes, and the few signs beside it. What we say is not
 * masked.
 *
 *     while ((found = websocket_read(r, &in, &out)) != WEBSOCKET_MORE) ...
 *
 * Promises   1. However the bytes are cut, the same is found. Nothing is kept but a head and the
 *               content of a sign, which is 125 bytes at most.
 * Not here   Extensions: none is agreed to. Whether a message is UTF-8 is for whoever reads it.
 * Leans on   base; io's hash for the greeting.
 */
#pragma once

#include "base/buf.h"

enum {
    WEBSOCKET_HEAD_BYTES_MAX = 14,
    WEBSOCKET_SIGN_BYTES_MAX = 125,
    WEBSOCKET_ACCEPT_CHARS = 28, /* of Sec-WebSocket-Accept */
};

enum websocket_opcode {
    WEBSOCKET_GOES_ON = 0,
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_CLOSE = 8,
    WEBSOCKET_PING = 9,
    WEBSOCKET_PONG = 10,
};

enum websocket_found {
    WEBSOCKET_MORE,    /* all was taken; content was appended to `out` */
    WEBSOCKET_MESSAGE, /* one has ended */
    WEBSOCKET_SIGN,    /* r->opcode is CLOSE, PING or PONG; its content is in r->sign */
    WEBSOCKET_BAD,     /* against the rules: there is nothing more to be had */
};

/* All zeroes is ready. */
struct websocket_reader {
    uint8_t head[WEBSOCKET_HEAD_BYTES_MAX];
    uint8_t head_len;
    bool is_within;               /* a frame; its head is known */
    bool is_open;                 /* a message of which more frames follow */
    bool is_last;                 /* the frame, of its message */
    enum websocket_opcode opcode; /* of the frame */
    uint8_t mask[4];
    uint64_t left, passed; /* of its content */
    uint8_t sign[WEBSOCKET_SIGN_BYTES_MAX];
    uint8_t sign_len;
};

enum websocket_found websocket_read(struct websocket_reader *r, struct bytes *in, struct buf *out);

/* The head of a frame of so many bytes, which follow it. */
void websocket_write_head(struct buf *out, enum websocket_opcode opcode, bool is_last, size_t len);

/* What proves that we know what a WebSocket is: to be sent for the client's Sec-WebSocket-Key. */
void websocket_accept(struct bytes key, struct buf *out);
