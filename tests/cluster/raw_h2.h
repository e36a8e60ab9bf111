/*
 * raw_h2: a connection of HTTP/2 by TLS of which every byte is ours to choose.
 *
 * For those who attack a member: no client that behaves sends what they send, or leaves unread what
 * they leave. Everything blocks, for seconds at most, so each attacker is a process of its own.
 *
 *     struct raw_h2 r;
 *     raw_h2_open(&r, context, port, window)     TLS with a certificate, preface, SETTINGS
 *     raw_h2_request(&r, path, ..., message)     a stream with HEADERS and DATA
 *     raw_h2_drain(&r)                           reads what is there, and looks at none of it
 *     raw_h2_close(&r)
 *
 * False from any of them: the connection is of no use any more.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <openssl/ssl.h>

enum {
    RAW_H2_FRAME_BYTES = 16384,
    RAW_H2_WINDOW_USUAL = 65535,
    RAW_H2_WINDOW_MAX = 0x7fffffff,
};

/* A socket to 127.0.0.1, or -1; from 127.0.0.<from>, if that is not 0. */
int raw_h2_socket(uint16_t port, uint8_t from);

/* The certificate is read once. NULL if it cannot be. */
SSL_CTX *raw_h2_context(const char *certs);

struct raw_h2 {
    SSL *ssl;
    int fd;
    uint8_t from;    /* as above; kept by raw_h2_open and raw_h2_close */
    uint32_t stream; /* the last one */
};

/* Begins with zeroes, or with where it comes from, or as another was closed. How much may be sent
 * to us before we have asked for more, on each stream and all in all. */
MUST_CHECK bool raw_h2_open(struct raw_h2 *r, SSL_CTX *context, uint16_t port, uint32_t window);
void raw_h2_close(struct raw_h2 *r);

/* The same connection without HTTP/2: what follows is written by raw_h2_send. */
MUST_CHECK bool raw_h2_open_tls(struct raw_h2 *r, SSL_CTX *context, uint16_t port);
MUST_CHECK bool raw_h2_send(struct raw_h2 *r, struct bytes what);
/* The other end has closed it, or it is not open. */
bool raw_h2_is_gone(const struct raw_h2 *r);

/* The beginning of a header block: a POST to this path, as gRPC's are. */
void raw_h2_put_request(struct buf *block, const char *path);
/* A GET of it; the table keeps a path of up to 4,000 bytes as its newest entry. */
void raw_h2_put_get(struct buf *block, struct bytes path);
void raw_h2_put_field(struct buf *block, const char *name, struct bytes value);

/* A new stream's, in as many frames as it takes. */
MUST_CHECK bool raw_h2_headers(struct raw_h2 *r, struct bytes block, bool is_last);
/* A message of gRPC on the last stream. */
MUST_CHECK bool raw_h2_message(struct raw_h2 *r, struct bytes message, bool is_packed,
                               bool is_last);
/* More of the streams' windows at once, or less. */
MUST_CHECK bool raw_h2_set_window(struct raw_h2 *r, uint32_t window);
/* Both. The extra field: NULL for none. */
MUST_CHECK bool raw_h2_request(struct raw_h2 *r, const char *path, const char *field,
                               const char *value, struct bytes message);
/* So many bytes more may be sent to us. */
MUST_CHECK bool raw_h2_allow(struct raw_h2 *r, uint32_t bytes);

MUST_CHECK bool raw_h2_drain(struct raw_h2 *r);
/* Up to so many bytes, waiting for a second at most. */
MUST_CHECK bool raw_h2_read(struct raw_h2 *r, size_t bytes, size_t *got);
