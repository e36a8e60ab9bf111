/*
 * fields: is a request on HTTP/2 well-formed, as section 8 of RFC 9113 has it?
 *
 * One struct per request is told of the fields of its header, of the length of its body, and of the
 * fields of its trailers, in the order in which they come. What makes a request malformed:
 *
 *     names      empty, with letters in upper case or characters that no name has
 *     values     with control characters
 *     pseudo     behind a field of the usual kind, twice, unknown, in trailers; :method, :scheme or
 *                :path missing, :path empty (CONNECT has :authority and nothing else)
 *     of HTTP/1  connection, keep-alive, proxy-connection, transfer-encoding, upgrade; te with
 *                anything but "trailers"
 *     length     a content-length that is no number, stated twice, in trailers, or not that of the
 *                body (what comes after CONNECT is none)
 *
 * Not here   What is in :authority. Clients of etcd put there what they were configured with, from
 *            "http://10.0.0.1:2379" (etcdctl 3.4) to "#initially=[...]" (clients of 3.5), and etcd
 *            takes it. That is why nghttp2's own checks are off, which would refuse those. Nor what
 *            Go's servers allow: white space around values, any beginning of a path.
 * Leans on   base, nghttp2's tables of characters.
 */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct fields {
    uint64_t length; /* of the body as content-length states it */
    uint64_t taken;  /* of the body so far */
    uint8_t pseudo;  /* those that were there */
    bool has_length;
    bool has_usual; /* a field that is not a pseudo-field was there: none of those may follow */
    bool is_connect;
    bool is_malformed; /* once it is, it stays so */
};

/* The next field of the header; and, when that is over, of the trailers. */
void fields_add(struct fields *f, struct bytes name, struct bytes value);
void fields_add_trailer(struct fields *f, struct bytes name, struct bytes value);

/* The header is over. */
void fields_end(struct fields *f);

/* So much more of the body, without padding; and there is no more. */
void fields_add_body(struct fields *f, size_t count);
void fields_end_body(struct fields *f);
