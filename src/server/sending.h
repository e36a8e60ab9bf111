/*
 * sending: members that are behind the log are sent an image of the state.
 *
 * Raft asks for it, by a MsgSnap, when what a member needs is no longer in the log. What it names
 * is the last snapshot that it was told of (sending_offer); what goes out is a fresh image, of the
 * same index or a later one, with raft's message in front of it: etcd's "merged snapshot".
 *
 *     MsgSnap --sending_ask--> an image is cut (cutting.h) --> planned: its size is known
 *             --> posted, as there is credit (peers_snapshot_begin, _write)
 *             --> PEER_SNAPSHOT_SENT: raft is told, and goes on with entries behind it
 *             --> failed: raft is told SENDING_PAUSE_MS later, and asks again
 *
 * Meanwhile, and SENDING_LOG_MS after it was taken, the log is not compacted: the member needs all
 * entries behind its image, or it would only need the next one.
 *
 * etcd has no limit of the rate but the network's, and asks again as soon as it has failed. An
 * image costs us a walk over the store before its first byte; hence the pause. etcd also goes on
 * sending what nobody can use any more, when another leads; here that ends.
 *
 * Promises   1. One at a time to a member, CUTTING_MEMBERS_MAX in all.
 *            2. Every MsgSnap is followed by a report to raft, also one that is refused.
 *            3. Memory: the image's two chunks and what peer holds of it (peer.h, promise 4).
 * Not here   Bytes on the wire (peer), when to cut (cutting.h), what raft makes of it.
 */
#pragma once

#include "api/api.h"
#include "server/cutting.h"

struct peers;
struct raft;
struct raft_message;
struct sending;

struct sending_options {
    struct raft *raft;
    struct peers *peers;
    struct cutting *cutting;
    const struct logger *logger;
    const struct api_facts *facts; /* kept up to date by the server */
    uint64_t log_ms;               /* 0: SENDING_LOG_MS */
};

enum sending_step {
    SENDING_FREE,
    SENDING_CUTTING, /* an image was asked for */
    SENDING_IMAGE,   /* it is there: being planned, or the body of a post */
    SENDING_WAITING, /* all of it was handed in, or it was cancelled; the result is to come */
    SENDING_PAUSE,   /* it has failed; raft does not know yet */
};

/* One member that is sent something. */
struct sending_one {
    struct sending *sending;
    enum sending_step step;
    struct raft_message *message; /* raft's */
    struct cutting_request request;
    struct image *image; /* NULL but in SENDING_IMAGE */
    bool has_begun;      /* the post */
    uint64_t began_ms, bytes;
    uint64_t pause_until_ms;
};

struct sending {
    struct sending_options o;
    struct sending_one at[CUTTING_MEMBERS_MAX];
    uint64_t keep_log_until_ms;
};

void sending_init(struct sending *s, const struct sending_options *options);
/* Also one that is all zeroes. Images that are open are cutting's to end. */
void sending_free(struct sending *s);

/* --- tell --- */

/* Raft's MsgSnap, lent. */
void sending_ask(struct sending *s, const struct raft_message *m);

/* PEER_SNAPSHOT_SENT or PEER_SNAPSHOT_FAILED. */
void sending_result(struct sending *s, uint64_t member, bool is_sent);

/* A turn has come: bytes go out, as far as there is credit. */
void sending_some(struct sending *s);

/* Raft may offer an image to those that need one, from here on: the state is of this index or a
 * later one, and whenever it asks an image is cut. Before the log is compacted up to there. */
void sending_offer(struct raft *r, uint64_t index, uint64_t term,
                   const struct raft_conf_state *conf_state);

/* --- ask --- */

/* May the log not be compacted for now? */
bool sending_keeps_log(const struct sending *s);

/* All invariants, asserted. */
void sending_check(const struct sending *s);
