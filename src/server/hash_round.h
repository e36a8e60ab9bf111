/*
 * hash_round: all other members are asked for the hash of their store at a revision.
 *
 *     hash_round_start --> GET /members/hashkv to each, PEER_RESULT --> hash_round_result
 *                      --> hash_round_is_over --> replies
 *
 * All at once, and each at one of its URLs after the other until one responds. etcd asks member by
 * member; then one that is silent keeps the next from being asked while its revision is still
 * there.
 *
 * Promises   1. It is over after limit_ms for each URL of the member that has most, at the latest.
 *            2. Every other member has a reply then, be it that there was none.
 * Not here   What to make of them (corruption.h).
 */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "cluster/member_json.h"

struct api_facts;
struct logger;
struct peer_event;
struct peers;

enum hash_reply_kind {
    HASH_REPLY_NONE, /* no response, or one that makes no sense */
    HASH_REPLY_OK,
    HASH_REPLY_COMPACTED,
    HASH_REPLY_FUTURE, /* it has no such revision yet */
    HASH_REPLY_OTHER_CLUSTER,
};

struct hash_reply {
    uint64_t member;
    const struct bytes *urls;
    size_t url_count;
    size_t asked; /* of these, the last of them perhaps now */
    enum hash_reply_kind kind;
    struct member_hash hash; /* of HASH_REPLY_OK */
};

struct hash_round_options {
    struct peers *peers;
    const struct api_facts *facts;
    const struct logger *logger;
    uint64_t limit_ms; /* for one URL */
};

struct hash_round {
    struct hash_round_options o;
    struct arena arena; /* of the URLs */
    uint64_t number;    /* part of the tokens */
    int64_t revision;
    struct hash_reply replies[CLUSTER_MEMBERS_MAX];
    size_t count, waiting;
};

void hash_round_init(struct hash_round *r, const struct hash_round_options *options);
/* Also one that is all zeroes; what was asked is not forgotten: peers go as well. */
void hash_round_free(struct hash_round *r);

/* Asks all of these but ourselves and those without a URL. None is under way (asserted). */
void hash_round_start(struct hash_round *r, const struct pb_member *members, size_t count,
                      int64_t revision);
/* A PEER_RESULT with such a token; of an earlier round: nothing. */
void hash_round_result(struct hash_round *r, const struct peer_event *e);
bool hash_round_is_over(const struct hash_round *r);
/* Nobody wants to know any more. */
void hash_round_cancel(struct hash_round *r);
