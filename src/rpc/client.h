/*
 * client: the other end of rpc.h, for tests, the simulator and command line tools.
 *
 * One connection, any number of calls on it. What has happened is taken as events; what is sent is
 * queued and leaves with client_flush, as far as the server's windows allow.
 *
 *     client_open --> [OPEN] ... GONE --> client_close
 *     client_start, client_send*, client_end --> MESSAGE* STATUS
 *
 * Promises   1. Every call gets exactly one STATUS, its last event, unless it was cancelled; its
 *               pointer is dead after the next client_take. A connection that is lost gives
 *               each of its calls 14 (unavailable), then GONE.
 *            2. A message is lent until the next client_take; a client that takes no events makes
 *               the server wait, not its own memory grow.
 * Not here   Balancing, retries, names: one address, one connection. TLS: a net to connect by.
 */
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "io/net.h"
#include "rpc/rpc.h"

struct client; /* opaque */

struct client_options {
    const struct io *io;
    struct net *net; /* to connect by; NULL: io's own */
    struct net_address address;
    const char *authority;    /* NULL: the address */
    size_t message_bytes_max; /* received; 0: 2 GiB - 1, as etcd's clients */
};

struct client_field {
    const char *name; /* lower case */
    struct bytes value;
};

struct client_request {
    const char *path; /* "/etcdserverpb.KV/Put" */
    const struct client_field *metadata;
    size_t metadata_count;
    uint64_t timeout_ns; /* 0: none */
    bool gzip;           /* what is sent is packed */
    void *context;
};

/* A call under way. */
struct client_call {
    struct client *client;
    void *context; /* the caller's */
};

/* Begins to connect; the outcome is OPEN or GONE. */
struct client *client_open(const struct client_options *options);

/* At any time. Its calls are dead too, and there are no more events. */
void client_close(struct client *c);

/* --- calls --- */

struct client_call *client_start(struct client *c, const struct client_request *request);

/* One message. Not after client_end (asserted). */
void client_send(struct client_call *call, struct bytes message);

/* Nothing more will be sent. */
void client_end(struct client_call *call);

/* A call with one message, which is sent with it. */
struct client_call *client_ask(struct client *c, const struct client_request *request,
                               struct bytes message);

/* Bytes queued and not yet sent, for whoever wants to keep them few. */
size_t client_queued(const struct client_call *call);

/* The call is dead at once, and no event of it will come. */
void client_cancel(struct client_call *call);

/* --- events --- */

enum client_event_kind { CLIENT_OPEN, CLIENT_MESSAGE, CLIENT_STATUS, CLIENT_GONE };

struct client_event {
    enum client_event_kind kind;
    struct client_call *call; /* MESSAGE, STATUS */
    struct bytes message;     /* MESSAGE */
    enum rpc_code code;       /* STATUS */
    struct bytes text;
    enum err reason; /* GONE */
};

bool client_take(struct client *c, struct client_event *out);

/* Hands everything queued to the socket. Once per turn. */
void client_flush(struct client *c);

/* The connection, for tests that cut it. NULL when it is gone. */
struct conn *client_conn(struct client *c);
