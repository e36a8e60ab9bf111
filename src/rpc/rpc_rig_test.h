/*
 * rpc_rig: a small server on rpc.h and a client of it, in one world, for the tests.
 *
 * The server's methods do what their names say. What it was told is counted, so that a test can ask
 * whether every call came to its one end.
 *
 *     test.Echo/Say      unary: the request comes back
 *     test.Echo/Fail     unary: "13 some text" is the status to fail with
 *     test.Echo/Body     unary: "1000000" is the size of a reply that is read in chunks
 *     test.Echo/Hold     unary: is never answered
 *     test.Echo/Owe      unary: "3000" is the size of a reply that is sent at once; its call is
 *                        charged RIG_OWED_BYTES
 *     test.Echo/Large    unary: "400000 3000" asks for so many bytes, and then sends a reply of so
 *                        many; "400000 0" none
 *     test.Echo/LargeBody   the same, "400000": as many as it asks for, read in chunks
 *     etcdserverpb.KV/DeleteRange   unary: a reply with one value of value_bytes, in chunks
 *     test.Echo/Chat     streams both ways: every message comes back, released at once
 *     test.Echo/Deaf     streams both ways: messages are taken and not released
 *     GET /large?3000    asks for so many bytes, and then sends a reply of so many
 *     test.Echo/Pull     one request, "100 5000": so many messages of so many bytes, as credit lets
 */
#pragma once

#include "base/buf.h"
#include "harness/test.h"
#include "io/clock.h"
#include "io/fake_world.h"
#include "io/loop.h"
#include "rpc/client.h"
#include "rpc/rpc.h"

enum {
    METHOD_SAY,
    METHOD_FAIL,
    METHOD_BODY,
    METHOD_HOLD,
    METHOD_VALUE,
    METHOD_OWE,
    METHOD_LARGE,
    METHOD_LARGE_BODY,
    METHOD_CHAT,
    METHOD_STUCK,
    METHOD_PULL
};

enum { RIG_OWED_BYTES = 4096 };

/* What a client's call has got so far. */
struct answer {
    struct client_call *call;
    struct buf got; /* the messages, one after the other */
    unsigned messages;
    unsigned ended; /* 1: the status is here */
    enum rpc_code code;
    struct buf text;
};

struct rpc_rig {
    struct fake_world *fake; /* or */
    struct loop *loop;
    const struct io *io;
    struct rpc *rpc;
    struct rpc_line *line;
    unsigned call_methods[65536]; /* by slot of the call */
    struct net_address address;
    struct client *client; /* NULL until rig_connect */
    unsigned client_opened, client_gone;

    struct logger logger;
    struct buf logged;

    /* What the server was told, and what it did. */
    unsigned opened, messages, ends, gone, sent, http, finished, reserved;
    struct list chores;
    unsigned bodies_open;
    unsigned live; /* calls announced and not ended */
    uint64_t queued_most;
    bool broken_body; /* the next body fails in its middle */
    bool hungry_body; /* every other chunk is empty */
    bool unchecked;   /* no rpc_check after every turn */
    size_t value_bytes;
};

void rpc_rig_open(struct rpc_rig *r, const struct rpc_options *options); /* NULL: the usual ones */
void rpc_rig_open_real(struct rpc_rig *r);
void rpc_rig_close(struct rpc_rig *r);

void rpc_rig_connect(struct rpc_rig *r);

/* One turn of both ends. False if nothing will ever happen again. */
bool rpc_rig_step(struct rpc_rig *r);

/* What has happened next, of whatever sort. The content is the caller's. */
bool rpc_rig_take(struct rpc_rig *r, struct rpc_event *out);

/* What one turn of the server does, for tests with loops of their own. */
void rpc_rig_serve(struct rpc_rig *r);

/* Turns until *count reaches `want`; fails the test if it does not. */
void rpc_rig_until(struct rpc_rig *r, const unsigned *count, unsigned want);
void rpc_rig_for_ms(struct rpc_rig *r, uint64_t ms);

/* Starts a call whose events go to `a`, and which sends nothing yet. */
void rpc_rig_start(struct rpc_rig *r, struct answer *a, const char *method,
                   const struct client_request *more);

/* One message, and the end; waits for the status. */
void rpc_rig_ask(struct rpc_rig *r, struct answer *a, const char *method, struct bytes message);
void answer_free(struct answer *a);

/* A client that is only bytes: connects, sends, and keeps what comes back. */
struct raw {
    struct conn *conn;
    struct buf got;
    size_t got_bytes;
    unsigned opened, ended, closed;
    bool ignores_input; /* reads nothing */
};

void raw_connect(struct rpc_rig *r, struct raw *raw);
void raw_connect_soon(struct rpc_rig *r, struct raw *raw); /* does not wait for it */
void raw_send(struct raw *raw, struct bytes data);
void raw_close(struct rpc_rig *r, struct raw *raw);
/* Says this, is gone soon after, and nothing is left of it. */
void raw_say_and_leave(struct rpc_rig *r, struct raw *raw, struct bytes data);

/* Turns until the server has closed its side of the connection. */
void raw_until_ended(struct rpc_rig *r, struct raw *raw);

/* Frames by hand. */
void frame_put(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream, struct bytes payload);
void frame_preface(struct buf *out);

/* A header block: a HEADERS frame, and CONTINUATIONs as it needs them. */
void frame_put_block(struct buf *out, uint8_t flags, uint32_t stream, struct bytes block);

/* A request for a method of ours, without a table: literal fields. `more` is fields already so
 * encoded, or nothing. */
void frame_request(struct buf *out, uint32_t stream, const char *path, bool ends,
                   struct bytes more);
void field_put(struct buf *out, const char *name, const char *value);

/* A field with so long a value, of which the table keeps it; and how often it follows, each time in
 * one byte. */
void field_put_repeated(struct buf *out, size_t value_bytes, size_t count);

/* A message with its prefix, as the payload of a DATA frame. */
void message_put(struct buf *out, struct bytes message);

/* The payload of the nth frame of this type in what came back; false if there are fewer. */
bool frame_find(struct bytes in, uint8_t type, unsigned nth, uint32_t *stream,
                struct bytes *payload);

/* The fields of every HEADERS frame of this stream in what came back, as "name: value" lines. */
void fields_found(struct bytes in, uint32_t stream, struct buf *out);
