/*
 * hashing: the whole store in one number, as it is after some entry.
 *
 * Unlike a revision, the store as a whole does not stand still for anybody. So it is cut: with no
 * entry half applied, no delete unsettled and no commit under way, all that is applied is frozen,
 * and a worker hashes the view of it while everything else goes on.
 *
 *     API_HASH --> asked --the cut--> a worker --> done --> hashing_take
 *
 * Those who have asked before the cut share the hash; those who come later wait for the next. The
 * view stays open until the worker is done, and pages that are let go meanwhile cannot be used
 * again: the file may grow by what is written in that time. That is why there is only one; it
 * depends on nobody who could be slow.
 *
 * Promises   1. A call that came in goes out exactly once, by hashing_take, unless it is forgotten
 *               before.
 *            2. The hash is of a state that the store has had, after the call had come.
 * Not here   What is hashed (mvcc_hash_store). HashKV (api).
 * Leans on   backend, mvcc, io for workers.
 */
#pragma once

#include "api/api.h"
#include "backend/backend.h"
#include "io/worker.h"
#include "mvcc/mvcc.h"

struct server;

struct hashing {
    struct list asked, joined, done; /* api_call.link: for the next cut, in the one under way, told
                                        with the next take */
    struct mvcc_waiter waiter;
    uint32_t hash; /* of those in `done` */

    /* from the cut on */
    bool is_busy;
    struct mvcc_scan pin; /* keeps the state from being closed if it is replaced */
    struct backend_view view;
    bool has_view;

    /* the worker's */
    struct job job;
    enum err err;
    uint32_t found;
    struct buf damage;
};

void hashing_init(struct hashing *h);
/* Also one that is all zeroes. The store is still there, and no worker has anything in hand. */
void hashing_free(struct hashing *h);

/* An API_HASH; and it is to be forgotten: false, it was not here. */
void hashing_need(struct hashing *h, const struct api_need *need);
bool hashing_forget(struct hashing *h, const struct api_call *c);

/* The state is another one (install.h). What is being hashed stays until it is done. */
void hashing_state_replaced(struct hashing *h);

/* One who can be told: NULL, there is none. */
struct api_call *hashing_take(struct hashing *h, uint32_t *hash);

bool hashing_is_idle(const struct hashing *h);

/* The cut, if somebody waits for it; called in every turn, where nobody is in the middle of
 * anything. */
void hashing_some(struct server *s);
