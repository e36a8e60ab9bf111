/*
 * concurrency: what Lock and Election have in common, as in etcd's client package of that name.
 *
 * Whoever contends puts a key under the name, with his lease: "name/lease". The oldest key owns the
 * lock, or leads. All others wait, each for the one before it to go, so that only one of them
 * wakes:
 *
 *     name/a   created at 7    owns
 *     name/b   created at 9    watches name/a
 *     name/c   created at 12   watches name/b
 *
 * A call goes from step to step; at each it has asked for one inner call (inner.h), and `then`
 * hears of the result. What fails ends the call with the error's own text and no code of its own,
 * as in etcd, whose client has taken the code off; but a deadline that has passed keeps its code.
 *
 * Leans on   inner.h. Private to lock.c and election.c.
 */
#pragma once

#include "api/api_int.h"

typedef void contender_then(struct call *c, const struct inner_result *r);

/* In the call's arena. */
struct contender {
    uint64_t asked; /* the inner call under way; 0: none */
    contender_then *then;
    void (*ready)(struct call *c); /* the session is there, or all before have gone */
    void (*failed)(struct call *c, struct bytes text); /* clears up first; NULL: it ends so */
    void (*leaves)(struct call *c); /* the caller has gone: clears up; NULL: nothing to do */

    int64_t lease;
    struct bytes prefix, prefix_end;  /* "name/", "name0" */
    struct bytes key;                 /* "name/lease" */
    int64_t revision;                 /* at which the own key was created */
    struct pb_response_header header; /* to respond with */
    enum rpc_code code;               /* of an error, */
    struct buf text; /* and its text, while things are cleared up before it is told */
};

/* --- life --- */

/* What handlers of these services have in common. */
enum result contender_check(struct call *c, const void *request);
enum result contender_check_letting_go(struct call *c, const void *request);
void contender_heard(struct call *c, const struct inner_result *r); /* `inner` */
void contender_released(struct call *c);                            /* `released` */

/* For the request of this name. */
struct contender *contender_new(struct call *c, struct bytes name);

/* The name in that request. */
static inline struct bytes contender_name(const struct contender *k)
{
    return bytes_of(k->prefix.at, k->prefix.len - 1);
}

/* --- steps --- */

void contender_ask(struct call *c, enum api_method method, const struct pb_schema *schema,
                   const void *request, contender_then *then);
void contender_watch(struct call *c, const struct pb_watch_create_request *create,
                     contender_then *then);
void contender_end_watch(struct call *c);

/* The lease of a session: this one, or a new one if it is 0; then the key's name. */
void contender_begin_session(struct call *c, int64_t lease, void (*ready)(struct call *c));

/* Until all keys under the prefix are gone that were created before the own one. */
void contender_wait(struct call *c, void (*ready)(struct call *c));

/* --- requests, in the call's arena --- */

/* If the key was created at this revision: these, or else those. */
struct pb_txn_request *contender_txn(struct call *c, struct bytes key, int64_t created);
struct pb_request_op contender_put(struct call *c, struct bytes key, struct bytes value,
                                   int64_t lease);
struct pb_request_op contender_get(struct call *c, struct bytes key, bool keys_only);
struct pb_request_op contender_delete(struct call *c, struct bytes key);
/* The oldest key under the prefix. */
struct pb_range_request contender_first(const struct contender *k);

/* --- the end --- */

void contender_fail(struct call *c, struct bytes text);
/* Of a result that is no success: what is to be done then, and false. */
bool contender_is_good(struct call *c, const struct inner_result *r);
/* Decodes; the result was made by ourselves, and is right (asserted). */
void contender_decode(const struct inner_result *r, const struct pb_schema *schema,
                      struct arena *arena, void *out);
