/*
 * http: HTTP/1.1 on one connection, either end of it, with bodies streamed both ways.
 *
 * A connection carries exchanges, one after the other: a request and its response. Each end reads
 * one of the two and writes the other, so the two ends are one machine with its roles swapped. A
 * body is never held: what comes in is shown piece by piece, and reading stops when too much of it
 * has not been consumed (http_set_window says what is too much); what goes out is accepted as long
 * as there is credit. A gigabyte that is posted and a stream that never ends cost the same.
 *
 *     reading   http_data --> on_head, on_body ..., on_end          http_consumed gives credit back
 *     writing   http_request or http_respond, http_send ..., http_finish --> wire --> the socket
 *
 *     serving   on_head .. on_end   and meanwhile   http_respond .. http_finish --> on_over
 *     asking    http_request .. http_finish   and meanwhile   on_head .. on_end --> on_over
 *
 * The owner has the socket and its wire: he hands in what arrives, sends what the wire has gathered
 * once per turn, closes the socket when on_over says that it is not kept, or on_broken that it is
 * of no use, and keeps the time. (rpc tells protocols apart before it knows that a connection is
 * one of ours; a filter may stand below.)
 *
 * As Go's server does it: pipelined requests are served one after the other; a response may come
 * before its request was read, and then up to HTTP_DISCARD_BYTES of the rest are read and dropped,
 * beyond which the connection is not kept; "100 Continue" is said when nobody has answered in
 * on_head. As Go's client does it: a response that comes before the request was sent ends the
 * exchange, and the connection is not kept; a response to nothing breaks it; up to
 * HTTP_INTERIM_MAX interim responses are passed over.
 *
 * A server may switch to another protocol (http_switch): from then on on_body shows whatever comes
 * and http_send sends whatever is given, as it is, until http_finish or the connection's end.
 *
 * Promises   1. Memory: a head of HTTP1_HEAD_BYTES_MAX, HTTP_AHEAD_BYTES and one read of the socket
 *               that came too early, and what is sent beyond credit: one piece. What heads have
 *               beyond HTTP_HEAD_USUAL_BYTES is charged to a budget before it is kept: over all
 *               connections that share one it is HTTP_HEADS_BYTES_MAX, and whoever comes too late
 *               is refused (431) as one whose head is too large.
 *            2. on_head, on_body, on_end, on_over come in this order, each as often as drawn; none
 *               after on_broken or http_close. on_over is the last of an exchange, and the only
 *               one if the request expects what nobody knows (417).
 *            3. Whatever the other end sends, what we write is well-formed, and a response follows
 *               its own request and no other.
 * Not here   What requests mean; time limits; whom to connect to. Trailers are dropped. Content
 *            codings are not known, nor what is spoken after a switch.
 * Leans on   http1 (the bytes), path (what is asked for), wire (the outgoing queue), io's net and
 *            clock.
 */
#pragma once

#include "http/http1.h"
#include "http/path.h"
#include "http/wire.h"

struct clock;
struct http_conn;

/* The large heads of all connections of an owner; all zeroes at first. */
struct http_heads {
    size_t charged;
};

/* They come from inside http_data, http_ended, http_sent, http_consumed and http_finish. All of
 * them may call back into http; the struct must be there when they return. */
struct http_events {
    void (*on_head)(struct http_conn *c);                     /* c->reader has it, until on_over */
    void (*on_body)(struct http_conn *c, struct bytes piece); /* lent until it returns */
    void (*on_end)(struct http_conn *c);                      /* the message read is whole */
    void (*on_credit)(struct http_conn *c); /* there is some again, after there was none */

    /* Not kept: everything is said; the owner closes the connection when the other end has, or has
     * had its time to read our last words. */
    void (*on_over)(struct http_conn *c, bool kept);

    /* What came is not HTTP, or ended too early. A server has answered with c->reader.bad_status,
     * if that was still possible; the owner closes the connection as after on_over. */
    void (*on_broken)(struct http_conn *c, const char *why);
};

enum http_in {
    HTTP_IN_IDLE,    /* a client that has not asked; a server between two requests */
    HTTP_IN_MESSAGE, /* being read */
    HTTP_IN_WHOLE,
    HTTP_IN_DISCARD,  /* answered before it was read: the rest passes */
    HTTP_IN_SWITCHED, /* another protocol is spoken */
    HTTP_IN_NOTHING,  /* nothing that comes matters any more */
};

enum http_out {
    HTTP_OUT_IDLE,
    HTTP_OUT_AWAITS_CONTINUE, /* the body does, which was announced with Expect */
    HTTP_OUT_LENGTH,
    HTTP_OUT_CHUNKED,
    HTTP_OUT_UNTIL_CLOSE, /* an old client gets a body without a length */
    HTTP_OUT_NO_BODY,     /* whatever is sent is dropped: the answer to a HEAD, a 204 */
    HTTP_OUT_DONE,
};

#define HTTP_CHUNKED UINT64_MAX /* a body whose length is not known */

/* Embedded in its owner, who opens it, and reads `reader` and `context` only. */
struct http_conn {
    const struct http_events *on;
    void *context;
    struct http1_reader reader;

    const struct http_paths *paths; /* from here on http's own */
    struct http_heads *heads;
    size_t charged; /* to them */
    enum http_path_kind path_kind;
    struct bytes path;
    struct buf path_text;
    struct conn *conn;
    struct clock *clock;
    struct wire *wire;
    enum http_in in;
    enum http_out out;
    enum http_out after_continue;
    uint64_t out_left;  /* HTTP_OUT_LENGTH */
    size_t unconsumed;  /* shown by on_body */
    size_t window;      /* then reading stops */
    uint64_t discarded; /* in HTTP_IN_DISCARD */
    struct buf ahead;   /* came too early */
    size_t in_hand;     /* of the read under way, what is behind the part being told */
    unsigned interim;
    bool said_continue;
    bool last;         /* the connection is not kept after this exchange */
    bool asked_credit; /* and there was none */
    bool reading;      /* http_data is on the stack */
    bool paused;
};

/* `reads` is HTTP1_REQUEST for the serving end. The wire is the owner's, on the same socket. */
struct http_conn_options {
    enum http1_kind reads;
    struct conn *conn;
    struct wire *wire;
    struct clock *clock;
    const struct http_events *on;
    void *context;
    const struct http_paths *paths; /* of the serving end; lent until http_close; or NULL */
    struct http_heads *heads;       /* the same; NULL: nobody else has large heads */
};

void http_open(struct http_conn *c, const struct http_conn_options *options);

/* The socket is closed, or about to be: nothing is called any more, nothing is sent. Again is fine,
 * on all zeroes too. */
void http_close(struct http_conn *c);

/* --- telling: what the socket says --- */

void http_data(struct http_conn *c, struct bytes data);
void http_ended(struct http_conn *c); /* the other end sends no more */
void http_sent(struct http_conn *c);  /* the wire has told so */

/* Reading of this message's body stops when so much of it (not 0) was shown and not consumed, one
 * piece more being possible; HTTP_BODY_WINDOW_BYTES unless told. 1: nothing more is shown until all
 * that was shown is consumed. */
void http_set_window(struct http_conn *c, size_t bytes);

/* So much of what on_body has shown was dealt with. What is left when the exchange is over counts
 * as if it were. */
void http_consumed(struct http_conn *c, size_t bytes);

/* --- writing --- */

struct http_message_options {
    const struct http1_field *fields; /* but for those of framing: length, coding, Connection */
    size_t field_count;
    uint64_t length;  /* of the body, or HTTP_CHUNKED */
    bool close;       /* the connection is not to be kept after it */
    bool no_length;   /* a request without a body, such as a GET, says nothing of one; nor does a
                       * response of Go's to a HEAD, if it has none */
    bool is_expected; /* a request: its body waits for "100 Continue", or for http_continue */
};

/* The asking end, when no exchange is under way. A "Host" must be among the fields. */
void http_request(struct http_conn *c, const char *verb, struct bytes target,
                  const struct http_message_options *options);

/* The other end seems not to know of "100 Continue": the body goes out. Again is fine. */
void http_continue(struct http_conn *c);

/* The serving end, from on_head on, once. The date is added. */
void http_respond(struct http_conn *c, unsigned status, const struct http_message_options *options);

/* Instead of it, if http_is_misdirected: it sends the client to where http_path says, with these
 * fields among others, or tells it what is to be said of "*" or of a path that is too long; and
 * finishes. */
void http_redirect(struct http_conn *c, const struct http1_field *fields, size_t field_count);

/* Instead of it, from on_end: 101. The connection ends with what follows. */
void http_switch(struct http_conn *c, const char *protocol, const struct http1_field *fields,
                 size_t field_count);

/* How much of the body may be handed over now; 0: wait for on_credit. One piece may be larger. */
size_t http_credit(struct http_conn *c);

/* Of the body, never more than its length (asserted). Copied. */
void http_send(struct http_conn *c, struct bytes piece);

/* The body is whole (asserted, if it has a length). */
void http_finish(struct http_conn *c);

/* --- asking --- */

/* What the request in the reader asks for, decoded (path.h), until on_over; and what its target has
 * behind the first '?', as it is. */
struct bytes http_path(const struct http_conn *c);
struct bytes http_query(const struct http_conn *c);

/* Does it ask for something that is elsewhere, or nowhere? */
static inline bool http_is_misdirected(const struct http_conn *c)
{
    return c->path_kind != HTTP_PATH_HERE;
}

/* Has the exchange begun, and has our part of it? */
static inline bool http_is_idle(const struct http_conn *c)
{
    return c->in == HTTP_IN_IDLE && c->out == HTTP_OUT_IDLE;
}

static inline bool http_has_responded(const struct http_conn *c)
{
    return c->out != HTTP_OUT_IDLE;
}

void http_check(const struct http_conn *c);
