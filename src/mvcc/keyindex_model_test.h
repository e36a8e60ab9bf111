/*
 * keymodel: the key index as one would write it with a list of everything and no hurry.
 *
 * A fixed set of keys in order, each with all its changes; what a change's created and version are
 * is noted with it. Lives are counted out anew for every question.
 */
#pragma once

#include "base/rng.h"
#include "mvcc/keyindex.h"

struct keymodel_change {
    struct revision at;
    bool tombstone;
    uint32_t length;
    int64_t created, version; /* of a put */
};

struct keymodel_key {
    struct buf key;
    struct keymodel_change *changes;
    size_t count, cap;
};

struct keymodel {
    struct keymodel_key *keys; /* in order */
    size_t count;
};

/* Up to `count` keys of all kinds, some much like others. */
void keymodel_init(struct keymodel *m, struct rng *rng, size_t count);
void keymodel_free(struct keymodel *m);

static inline struct bytes keymodel_key_bytes(const struct keymodel_key *k)
{
    return buf_bytes(&k->key);
}

/* Notes a put; the change it became. */
const struct keymodel_change *keymodel_put(struct keymodel_key *k, struct revision at,
                                           uint32_t length);
bool keymodel_tombstone(struct keymodel_key *k, struct revision at, uint32_t length);

/* The change that a key was in, as of a revision; NULL if it was not alive. */
const struct keymodel_change *keymodel_find(const struct keymodel_key *k, struct revision at);

int64_t keymodel_count(const struct keymodel *m, const struct key_range *r, struct revision at);
size_t keymodel_size(const struct keymodel *m);

/* How many of a key's changes a compaction drops: etcd's rule, told by generations. */
size_t keymodel_dropped_by(const struct keymodel_key *k, int64_t main);
bool keymodel_keeps(const struct keymodel_key *k, struct revision at, int64_t main);
void keymodel_drop(struct keymodel_key *k, size_t count);

void keymodel_describe(const struct keymodel_key *k, struct buf *out);
