/*
 * grpc_text: the small texts that gRPC puts into headers.
 *
 *     grpc-timeout    "100m": at most eight digits and a unit
 *     grpc-message    percent-encoded UTF-8
 *     grpc-status     a number
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum { GRPC_TIMEOUT_TEXT_MAX = 12 }; /* any timeout as text, with its final zero */

/* ERR_MALFORMED, ERR_TOO_LARGE for more than eight digits. What overflows is about 292 years. */
MUST_CHECK enum err grpc_parse_timeout(struct bytes text, uint64_t *out_ns);

/* Appends what gRPC's own servers say about a timeout that did not parse. */
void grpc_explain_timeout(struct bytes text, struct buf *out);

/* In the finest unit that holds it in eight digits, rounded up. Returns out. */
const char *grpc_timeout_text(uint64_t ns, char out[static GRPC_TIMEOUT_TEXT_MAX]);

/* Appends the text as grpc-message wants it. Malformed UTF-8 becomes U+FFFD. */
void grpc_percent_encode(struct bytes text, struct buf *out);

/* The way back. A percent sign that no two hex digits follow stands for itself. */
void grpc_percent_decode(struct bytes text, struct buf *out);
