/*
 * receiving_rig: members of a cluster_rig that are sent snapshots by the test itself.
 *
 *     shot      a member's state as etcd's file, and what a MsgSnap says of it; it may be changed,
 *               entry by entry, before it is written
 *     sender    posts shots to one member, in another one's name
 *     stage     three members, of which one has missed too much
 *     alone     a member that is alone, and a sender who knows what is to come
 *
 *     struct alone t;
 *     alone_open(&t);
 *     sender_send(&t.sender, &t.shot);
 *     sender_until_over(&t.sender);
 *     alone_close(&t);
 */
#pragma once

#include "backend/backend.h"
#include "peer/peer.h"
#include "server/cluster_rig_test.h"
#include "server/digest.h"
#include "server/server_int.h"
#include "snap/bolt_rig_test.h"

uint64_t receiving_rig_id(struct cluster_rig *r, unsigned n);

/* What lies in its folder of snapshots, but for .snap files. Good until the next. */
const char *receiving_rig_files(struct cluster_rig *r, unsigned n);

void receiving_rig_same_digest(const struct digest *a, const struct digest *b);

/* --- images --- */

struct shot {
    struct arena arena;
    struct rig_bucket buckets[BUCKET_COUNT];
    struct raft_snapshot snapshot;
    struct buf image;
    uint64_t from, term;
};

/* The file, of what is in the buckets now. */
void shot_write(struct shot *p);

struct rig_entry *shot_find(struct shot *p, enum bucket bucket, const char *key);
/* Where it belongs; both are lent. */
void shot_insert(struct shot *p, enum bucket bucket, struct bytes key, struct bytes value);
struct bytes shot_revision_key(struct shot *p, int64_t main);

/* --- somebody who sends them, in another member's name --- */

struct sender {
    struct cluster_rig *r;
    struct fake_resolver resolver;
    struct io io;
    struct logger logger;
    struct peers *peers;
    uint64_t to;
    struct bytes image;
    size_t sent_bytes;
    unsigned begun, sent, failed;
};

void sender_open(struct sender *s, struct cluster_rig *r, uint64_t self, unsigned to);
void sender_close(struct sender *s);

/* Begins; the shot is lent until it is over. Or only the first bytes of it are sent, of as many as
 * are announced. */
void sender_send(struct sender *s, const struct shot *p);
void sender_send_some(struct sender *s, const struct shot *p, uint64_t announced, size_t bytes);

/* One step of the world, and of what is being sent. */
void sender_step(struct sender *s);
/* Until there is a response, or the connection has gone. */
void sender_until_over(struct sender *s);

/* --- three members, of which one has missed too much --- */

struct stage {
    struct cluster_rig r;
    unsigned leader, behind;
    struct sender sender;
    struct shot shot; /* the leader's */
};

void stage_open(struct stage *t);
void stage_close(struct stage *t);
struct server *stage_behind(struct stage *t);
void stage_put(struct stage *t, unsigned count); /* "k000" and so on */
void stage_check_equal(struct stage *t);         /* when the one who was behind has caught up */

/* --- a member that is alone, and a sender who knows what is to come --- */

enum { ALONE_AHEAD = 20 };

struct alone {
    struct cluster_rig r;
    struct sender sender;
    struct shot shot;
    int64_t revision; /* before */
};

void alone_open(struct alone *t);
void alone_close(struct alone *t);
struct server *alone_member(struct alone *t);

/* The shot is of what the member has now, and ALONE_AHEAD puts of "k" more, in the next term. */
void alone_look_ahead(struct alone *t, size_t value_bytes);
void alone_until_idle(struct alone *t);

/* It is taken, and the member goes on from there. */
void alone_check_taken(struct alone *t);
/* Sends it, and it is refused for this reason; nothing has changed. */
void alone_check_refused(struct alone *t, const char *why);
