/*
 * stream_codec: the two streams between members, as bytes. Pure.
 *
 * Messages are appended to a gather, which is what the next write to the socket will be: small
 * things are copied into it, large ones are shared, so that entries which go to six members are
 * encoded once and lie in memory once.
 *
 *     message   u64be length | raftpb.Message                                       ... repeated
 *     App       00                                                          link heartbeat
 *               01 | u64be n | n x (u64be length | raftpb.Entry) | u64be commit
 *               02 | u64be length | raftpb.Message
 *
 *     gather    bytes  | head | small entries | head |      | commit |
 *               shares                               ^ [ 600 KiB of entries ]
 *
 * The App stream has its name from the messages that it carries; etcd's word is msgappv2. Both ends
 * remember term and index of the last append, so that the next one, which continues it, need not
 * say them (01).
 *
 * Promises   1. Any bytes at all are safe to decode. What is announced costs nothing: memory grows
 *               with what has arrived, beyond PEER_DECODER_AT_ONCE_BYTES.
 *            2. What the encoder of one end writes, the decoder of the other reads, however the
 *               bytes are cut into pieces.
 * Leans on   entry and base.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "entry/entry.h"

enum stream_kind { STREAM_APP, STREAM_MESSAGE, STREAM_KINDS };

/* "stream MsgApp v2": as etcd's log calls it. */
const char *stream_kind_name(enum stream_kind kind);

/* --- writing --- */

struct gather_share {
    size_t at; /* it comes before this byte */
    struct blob *blob;
};

struct gather {
    struct buf bytes;
    struct gather_share *shares;
    size_t share_count, share_cap;
    size_t len; /* of all of it */
};

void gather_add(struct gather *g, struct bytes what);
void gather_share(struct gather *g, struct blob *blob);

/* All of it in order, as at most 2 * share_count + 1 pieces; returns how many. */
size_t gather_pieces(const struct gather *g, struct bytes *out);

/* Keeps its memory, if it is not much. */
void gather_clear(struct gather *g);
void gather_free(struct gather *g);

/*
 * The encoded entries of the appends of one turn. Members that are equally far get the same ones:
 * one encodes them, all share them.
 */
enum { ENTRY_CACHE_SLOTS = 64 };

struct entry_cache_slot {
    uint64_t first_index, last_term;
    size_t count;
    const uint8_t *first_data, *last_data;
    size_t at, len;    /* in small, if there is no blob */
    struct blob *blob; /* or here */
};

struct entry_cache {
    struct buf small;
    struct entry_cache_slot slots[ENTRY_CACHE_SLOTS];
    bool is_used;             /* since it was cleared */
    uint64_t encoded, reused; /* so far: how often it was worth it */
};

void entry_cache_clear(struct entry_cache *c); /* at the end of the turn: blobs may move after it */
void entry_cache_free(struct entry_cache *c);

/* What the other end of an App stream knows. */
struct app_state {
    uint64_t term, index;
};

void stream_put_append(struct gather *g, struct app_state *s, struct entry_cache *cache,
                       const struct raft_message *m);
void stream_put_message(struct gather *g, const struct raft_message *m);
void stream_put_heartbeat(struct gather *g, enum stream_kind kind);

/* --- reading --- */

struct stream_decoder {
    enum stream_kind kind;
    uint64_t self, peer;
    struct app_state app;
    size_t frame_bytes_max;
    uint64_t *receiving; /* shared by all decoders: the bytes of unfinished frames */
    uint64_t receiving_max;

    /* The frame being received. */
    struct buf frame;
    size_t scanned, need; /* known so far: its parts end here; to know more this much is needed */
    uint64_t entries_left;
    const char *why; /* STREAM_BAD */
};

/* All zeroes, with the first five fields that are not `app`, is ready. */
void stream_decoder_free(struct stream_decoder *d);

enum stream_found {
    STREAM_MORE, /* all of the input was taken */
    STREAM_FOUND,
    STREAM_HEARTBEAT, /* of the link */
    STREAM_BAD,       /* see why: nothing more is to be had */
};

/*
 * Takes from *in up to the end of the next frame. STREAM_FOUND: *out is lent as
 * raft_message_decode says, with the arena and *frame, a blob that is the caller's.
 */
enum stream_found stream_decode(struct stream_decoder *d, struct bytes *in, struct arena *arena,
                                struct blob **frame, struct raft_message *out);
