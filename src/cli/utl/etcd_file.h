/*
 * etcd_file: a bbolt file of etcd's that a tool looks through, with or without a digest behind it.
 *
 * Nothing in it is believed (snap/bolt.h), nothing is written to it. Errors are told on standard
 * error, in etcdutl's words where it has some.
 */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "snap/bolt.h"

struct disk;

struct etcd_file {
    struct disk *disk;
    const char *path;
    struct disk_file *file;
    struct bolt_file source;
    struct bolt_fault fault;
    struct bolt *bolt;
};

/* False, and it has been told. etcd_file_close is due in either case. */
bool etcd_file_open(struct etcd_file *f, struct disk *disk, const char *path);
void etcd_file_close(struct etcd_file *f);

/* Tells why reading has failed; returns false. */
bool etcd_file_fail(const struct etcd_file *f, enum err e);

/* A value of bucket meta; false if there is none of up to `size_max` bytes. */
bool etcd_file_meta(struct etcd_file *f, const char *key, size_t size_max, struct buf *out);

/* An entry of bucket `key`, as it is stored. */
struct etcd_revision {
    int64_t main, sub;
    bool is_tombstone;
    struct bytes stored_key, stored_value; /* lent for the call */
};

/* Shows all of them in order. False, and it has been told. */
typedef void etcd_file_visit(void *context, const struct etcd_revision *r);
bool etcd_file_walk(struct etcd_file *f, etcd_file_visit *visit, void *context);

/* For each key of the store its last revision so far: tombstones too. */
struct etcd_keys {
    struct arena arena;
    struct map map; /* of struct etcd_key */
    bool is_damaged;
};

struct etcd_key {
    int64_t main, sub;
    bool is_tombstone;
    struct bytes name;
};

void etcd_keys_init(struct etcd_keys *k);
void etcd_keys_free(struct etcd_keys *k);
void etcd_keys_add(struct etcd_keys *k, const struct etcd_revision *r);
/* NULL: none, or damaged. `scratch` is for the call. */
const struct etcd_key *etcd_keys_find(const struct etcd_keys *k, const struct etcd_revision *r,
                                      struct arena *scratch);
