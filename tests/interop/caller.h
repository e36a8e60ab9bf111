/*
 * caller: our gRPC client on real sockets, for whoever has servers running as programs.
 *
 *     struct caller c;
 *     caller_init(&c);
 *     struct line *l = caller_connect_to(&c, &address);
 *     struct ask put = {.line = l};
 *     ask_start(&put, "/etcdserverpb.KV/Put", &pb_put_request_schema, &request);
 *     ask_wait(&put);                        or several of them, and caller_turn until all are over
 *
 * Everything happens in the caller's own thread, inside caller_turn. Tests that have one server
 * find shorter words for the same in caller_test.h.
 */
#pragma once

#include "base/buf.h"
#include "io/loop.h"
#include "pb/codec.h"
#include "rpc/client.h"

enum { LINES_MAX = 1024 };

/* A connection. */
struct line {
    struct caller *caller;
    struct client *client; /* NULL after line_close */
    bool is_open, is_gone;
};

struct caller {
    struct loop *loop;
    const struct io *io;
    struct net *net;            /* to connect by; NULL: io's own */
    struct net_address address; /* of the one server, where there is one */
    struct line *lines[LINES_MAX];
    size_t line_count;
};

/* A call. All zeroes with the line filled in is ready to start, and to be started again. */
struct ask {
    struct line *line;
    void (*on_message)(struct ask *a, struct bytes message); /* NULL: kept in answer */
    void (*on_over)(struct ask *a);                          /* may start it again; NULL: nothing */
    void *context;
    uint64_t timeout_ns; /* 0: none */
    const char *token;   /* of who asks; NULL: nobody in particular */

    struct client_call *call; /* NULL when it is over */
    struct buf answer;        /* the last message */
    enum rpc_code code;
    struct buf text;
    uint64_t began_ns, took_ns;
};

/* ERR_NO_FILES if not even a loop could be had. */
MUST_CHECK enum err caller_init(struct caller *c);
void caller_close(struct caller *c); /* with all its lines */

struct line *caller_connect_to(struct caller *c, const struct net_address *to);
void line_close(struct line *l);

/* Closes it and connects anew, perhaps to somebody else. Its calls are dead, and no event of them
 * will come: cancel them before. */
void line_reconnect(struct line *l, const struct net_address *to);

/* Waits until something has happened, at most so long, and hears it. */
void caller_turn(struct caller *c, uint64_t at_most_ms);
void caller_for_ms(struct caller *c, uint64_t ms);
uint64_t caller_now_ns(struct caller *c);

/* One message, and the end of what we send. */
void ask_start(struct ask *a, const char *path, const struct pb_schema *schema,
               const void *message);
/* A stream that goes on: ask_say as often as wanted. */
void ask_stream(struct ask *a, const char *path);
void ask_say(struct ask *a, const struct pb_schema *schema, const void *message);
void ask_cancel(struct ask *a);

bool ask_is_over(const struct ask *a);
void ask_wait(struct ask *a);
void ask_free(struct ask *a);
