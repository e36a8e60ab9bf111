/*
 * member_json: members, downgrades, raft configurations, and what members ask each other for, as
 * JSON, in the bytes etcd writes.
 *
 *     member       {"id":9372538179322589801,"peerURLs":["http://10.0.0.1:2380"],
 *                   "isLearner":true,"name":"m1","clientURLs":["http://10.0.0.1:2379"]}
 *     promotion    {"id":9372538179322589801,"peerURLs":null,"isPromote":true}
 *     downgrade    {"target-version":"3.6.0","enabled":true}
 *     conf state   {"voters":[9372538179322589801],"auto_leave":false}
 *     versions     {"etcdserver":"3.7.1","etcdcluster":"3.7.0","storage":"3.7.0"}
 *     hash         {"revision":5}, to be asked for; as it is told
 *                  {"header":{"revision":7},"hash":1,"compact_revision":3,"hash_revision":5}
 *
 * They are in the backend, in the log's conf changes and in answers between members. isLearner,
 * name and clientURLs are left out when they say nothing, as are a conf state's empty lists.
 *
 * Promises   1. Any bytes at all are safe to read. What is read needs at most a small multiple of
 *               their length in memory.
 *            2. Reading follows Go: names of fields match in any case, unknown fields are skipped,
 *               null is no value, ids are whole numbers up to 2^64-1 and nothing else.
 *            3. Equal values give equal bytes.
 *            Stricter than Go in what no encoder writes: bytes that are not UTF-8, where Go puts a
 *            replacement, nesting beyond MEMBER_JSON_DEPTH_MAX, a number above 2^64-1 or below 0
 *            that begins with a zero anywhere, a field's name with a zero in it.
 * Leans on   json-c for reading, which only member_json.c sees. Writing is base/json.h's: the
 *            library's spelling differs from Go's, and these bytes are compared and hashed.
 */
#pragma once

#include "base/limits.h"
#include "entry/entry.h"
#include "pb/codec.h"

/* Appends the member as it is stored, and as the context of the conf change that adds it (with id,
 * peer URLs and perhaps is_learner) or updates its peer URLs. */
void member_json_write(const struct pb_member *m, struct buf *out);

/* Appends the context of a conf change that promotes this learner. */
void member_json_write_promotion(uint64_t id, struct buf *out);

/* What a conf change carries: a member, or the wish to promote one. */
struct member_change {
    struct pb_member member;
    bool is_promote;
};

/* Fills *out, with texts in `arena`. ERR_MALFORMED; ERR_TOO_LARGE. */
MUST_CHECK enum err member_json_read(struct bytes json, struct arena *arena,
                                     struct member_change *out);

/* An array of members, as members ask each other for. */
void member_json_write_list(const struct pb_member *members, size_t count, struct buf *out);
MUST_CHECK enum err member_json_read_list(struct bytes json, struct arena *arena,
                                          const struct pb_member **out, size_t *count);

void downgrade_json_write(bool enabled, struct bytes target_version, struct buf *out);
MUST_CHECK enum err downgrade_json_read(struct bytes json, struct arena *arena, bool *enabled,
                                        struct bytes *target_version);

/* A raft configuration, for the backend's meta/confState, and back. ERR_TOO_LARGE for a list of
 * more than RAFT_MEMBERS_MAX ids. */
void cluster_conf_state_json(const struct raft_conf_state *state, struct buf *out);
MUST_CHECK enum err cluster_conf_state_read(struct bytes json, struct raft_conf_state *out);

/* What a member runs: itself, in a cluster of a version, empty while that is not decided, on a
 * store of a version, empty if that is not known. */
struct member_versions {
    struct bytes server, cluster, storage;
};
void versions_json_write(const struct member_versions *v, struct buf *out);
MUST_CHECK enum err versions_json_read(struct bytes json, struct arena *arena,
                                       struct member_versions *out);

/* Which revision's hash a member asks for; 0: the newest. */
void hash_json_write(int64_t revision, struct buf *out);
MUST_CHECK enum err hash_json_read(struct bytes json, int64_t *revision);

/* What it is told: the hash at a revision, made with a compact revision, by a member whose newest
 * revision was `newest`. */
struct member_hash {
    int64_t newest, revision, compact_revision;
    uint32_t hash;
};
void member_hash_json_write(const struct member_hash *h, struct buf *out);
MUST_CHECK enum err member_hash_json_read(struct bytes json, struct member_hash *out);
