/*
 * http1: HTTP/1.1 as bytes, and nothing else. Requests and responses, read and written.
 *
 * The reader is strict, because two readers that disagree about where a message ends are how
 * requests are smuggled: a field name touches its colon, no line is folded, a length is digits
 * alone and, if given twice, the same, chunks' lines end in CR LF (those of a head may end in LF
 * alone, as Go reads them), and a message with both a length and chunks is refused. It keeps the
 * head (at most HTTP1_HEAD_BYTES_MAX, the list of its fields included) and nothing of the body,
 * whose pieces it shows as they pass.
 *
 *     start --> head --+--> length: n bytes ------------------+--> end
 *                      +--> chunks: size, data ... trailers --+
 *                      +--> a response until the connection ends
 *
 *     while ((found = http1_read(r, &in, &piece)) != HTTP1_MORE)
 *         HTTP1_HEAD: verb or status, fields ...; HTTP1_BODY: piece; HTTP1_END: http1_next
 *
 * Not here   What a request means, connections, time. Content codings. Trailers are skipped.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

enum { HTTP1_VERB_MAX = 16 };

struct http1_field {
    struct bytes name, value;
};

enum http1_kind { HTTP1_REQUEST, HTTP1_RESPONSE };

enum http1_part { /* what comes next */
                  HTTP1_IN_HEAD,
                  HTTP1_IN_LENGTH,
                  HTTP1_IN_CHUNK_SIZE,
                  HTTP1_IN_CHUNK,
                  HTTP1_IN_CHUNK_END,
                  HTTP1_IN_TRAILERS,
                  HTTP1_UNTIL_CLOSE,
                  HTTP1_AT_END,
                  HTTP1_BROKEN,
};

struct http1_reader {
    enum http1_kind kind;

    /* The head, from HTTP1_HEAD until http1_next. */
    struct bytes verb, target; /* of a request */
    struct bytes host;         /* that the target named, if any: it has replaced the field's, */
                               /* and the target begins behind it, or is empty */
    unsigned status;           /* of a response */
    struct bytes reason;
    struct http1_field *fields;
    size_t field_count;
    bool is_1_0;
    bool keep_alive;       /* the other end expects the connection to live on */
    bool expects_continue; /* it waits for "100 Continue" before it sends the body */
    bool expects_other;    /* it waits for something that nobody knows */
    bool no_body;          /* set by the owner before reading the answer to a HEAD */
    bool has_length;
    uint64_t length;

    /* HTTP1_BAD: what to answer, a few words for the log, and those that belong into the answer
     * (NULL: none). */
    unsigned bad_status;
    const char *why, *detail;

    /* Set by the owner before any reading: less than HTTP1_HEAD_BYTES_MAX, if it must be. */
    size_t head_bytes_max;

    /* The reader's own. */
    enum http1_part part;
    uint64_t left;        /* of the body or the chunk */
    size_t trailer_bytes; /* passed so far */
    struct buf head;
    struct buf line;
};

enum http1_found { HTTP1_MORE, HTTP1_HEAD, HTTP1_BODY, HTTP1_END, HTTP1_BAD };

void http1_init(struct http1_reader *r, enum http1_kind kind);
void http1_free(struct http1_reader *r);

/* Takes from *in up to the next thing worth telling. HTTP1_MORE: all of it was taken. HTTP1_BODY:
 * *piece is part of the input; otherwise it is empty. After HTTP1_BAD there is nothing more to be
 * had. */
enum http1_found http1_read(struct http1_reader *r, struct bytes *in, struct bytes *piece);

/* The message at its end was dealt with: ready for the next one. */
void http1_next(struct http1_reader *r);

/* The connection has ended. HTTP1_END if that ends the message properly, HTTP1_MORE if there was
 * none, else HTTP1_BAD. */
enum http1_found http1_close(struct http1_reader *r);

/* What the head takes, as far as it is here. */
size_t http1_head_bytes(const struct http1_reader *r);

/* The value of the first field of this name, in whatever case; *found tells empty from absent. */
struct bytes http1_field(const struct http1_reader *r, const char *name, bool *found);

/* Is the word in a comma-separated list, in whatever case? */
bool http1_lists(struct bytes list, const char *word);

/* --- writing; what is written must be well-formed (asserted) --- */

/* "Not Found" for 404; "Status" and nothing else for what has no name. */
const char *http1_reason(unsigned status);

void http1_write_request_line(struct buf *out, const char *verb, struct bytes target);
void http1_write_status_line(struct buf *out, bool is_1_0, unsigned status);
void http1_write_field(struct buf *out, const char *name, struct bytes value);
void http1_write_length(struct buf *out, uint64_t length);
void http1_write_date(struct buf *out, uint64_t wall_ns);
void http1_write_head_end(struct buf *out);

/* Of a body with "Transfer-Encoding: chunked". An empty chunk is left out: it would be the end. */
void http1_write_chunk(struct buf *out, struct bytes data);
void http1_write_last_chunk(struct buf *out);
