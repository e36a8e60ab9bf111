/*
 * inner: calls that api makes of itself, for services that are made of other calls.
 *
 * Lock and Election have no state of their own: they are leases, transactions, ranges and watches.
 * Each of these is an ordinary call, with everything that a client's goes through; only that its
 * number has INNER_CALL in it, and that its replies go to a line whose other end is here.
 *
 *     outer call --api_inner_ask--> api_event --> gate, checks, authorize, needs, apply, watch
 *                <--on->inner------ api_inner_some <-- the inner line <-- replies
 *
 * An outer call has at most one of them at a time. Nothing comes back in the middle of anything:
 * replies are handed out by api_inner_some, in api_work, and those that nobody waits for any more
 * are ended there as well. A stream whose outer call cannot take more gets no credit back, like a
 * client that does not read.
 *
 * Promises   1. An outer call hears of what it asked for until it is over or it has ended it
 * itself, and of nothing else.
 *            2. A bounded number of outer calls (api_inner_may_begin), and about as many calls that
 *               outlive theirs: api_options.inner_calls_max in all.
 */
#pragma once

#include "api/methods.h"
#include "base/buf.h"
#include "rpc/line.h"

struct api;
struct call;
struct pb_schema;
struct pb_watch_create_request;

/* In the lower half of a number on the line. */
#define INNER_CALL (1u << 31)

/* What has come for an outer call. */
struct inner_result {
    bool is_over;         /* a stream goes on otherwise */
    enum rpc_code code;   /* when it is over */
    struct bytes text;    /* of an error */
    struct bytes message; /* lent; empty with an error, and at the end of a stream */
};

/* One call, from who asks. */
struct inner_end {
    uint64_t id;        /* 0: nobody's */
    struct call *outer; /* NULL: nobody listens */
    bool is_stream, is_finished, is_left;
    enum rpc_code code; /* when finished */
    uint64_t to_come;   /* bytes of a message in chunks */
    size_t spent;       /* of a stream's credit, and not given back */
    struct buf message, text;
    uint32_t next; /* among those that are free, or left: its place and one; 0: none */
};

struct inner {
    struct rpc_line *line;
    struct inner_end *ends; /* by the lower half of the number */
    size_t count, used;
    uint32_t free, left; /* the first: its place and one */
    uint32_t generation;
};

void api_inner_open(struct inner *inner);
void api_inner_close(struct inner *inner);

/* May another call be begun that will ask for others? */
bool api_inner_may_begin(const struct api *a);
/* Or one that is over soon, and that those who wait may be waiting for? */
bool api_inner_may_let_go(const struct api *a);

/* Asks; the number of the call. It has whatever the outer one has to show for who it is. */
uint64_t api_inner_ask(struct call *outer, enum api_method method, const struct pb_schema *schema,
                       const void *request);
/* The same for a Watch of one watcher. */
uint64_t api_inner_watch(struct call *outer, const struct pb_watch_create_request *create);
/* Nobody waits for this one, and it is nobody's: it has nothing to show for who it is. */
void api_inner_leave_behind(struct api *a, enum api_method method, const struct pb_schema *schema,
                            const void *request);

/* What has come of a stream is taken: it may go on. */
void api_inner_go_on(struct api *a, uint64_t id);
/* Nobody wants to hear of it any more. */
void api_inner_end(struct api *a, uint64_t id);

/* Hands out what has come. True if nothing is left. */
bool api_inner_some(struct api *a, unsigned *steps);

void api_inner_check(const struct api *a);
