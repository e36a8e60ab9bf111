/*
 * message: gRPC's framing, both ways. Used by the server's calls and by the client's.
 *
 *     | compressed u8 | length u32, big-endian | length bytes |     and the next, and the next
 *
 * In     message_read takes bytes as they come and stops at two moments: when a length has become
 *        known, so that the owner may refuse it before a byte of it is kept, and when a message is
 *        whole. The buffer grows with what has arrived, not with what was claimed.
 * Out    a queue of messages; what the window allows moves to the connection's buffer. Of a body
 *        only the size is known at first; its bytes are given a chunk at a time.
 */
#pragma once

#include "base/blob.h"
#include "base/buf_pool.h"
#include "base/list.h"
#include "rpc/line.h"

enum { MESSAGE_PREFIX_BYTES = 5 };

struct message_reader {
    uint8_t prefix[MESSAGE_PREFIX_BYTES];
    uint8_t prefix_len;
    bool announced; /* the prefix was complete and the owner knows the length */
    struct buf content;
};

enum message_step {
    MESSAGE_MORE,      /* all input is taken */
    MESSAGE_ANNOUNCED, /* message_length and message_flag are known; call again to go on */
    MESSAGE_WHOLE,     /* in content; message_next before reading on */
};

enum message_step message_read(struct message_reader *r, struct bytes *in);

/* The message was dealt with: ready for the next one. Keeps a modest buffer. */
void message_next(struct message_reader *r);
void message_reader_free(struct message_reader *r);

static inline uint32_t message_length(const struct message_reader *r)
{
    return (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 |
           (uint32_t)r->prefix[3] << 8 | r->prefix[4];
}

static inline uint8_t message_flag(const struct message_reader *r)
{
    return r->prefix[0];
}

/* Has a length come in, and not all that it announced? Part of a prefix does not count: to gRPC a
 * stream that ends there has just ended. */
static inline bool message_is_partial(const struct message_reader *r)
{
    return r->announced;
}

/* What queues of one owner have left over, for their next messages. All zeroes is an empty one. */
struct message_pool {
    struct buf_pool bufs;
    struct item *items;
    size_t item_count;
};

void message_pool_free(struct message_pool *p);

struct message_queue {
    struct list items;   /* oldest first */
    uint64_t left;       /* bytes to send in all, prefixes and bodies included */
    size_t held;         /* bytes of memory behind them */
    size_t left_cost;    /* rpc_message_cost of those that have left, until the owner zeroes it */
    bool within_message; /* the first message has been sent in part */
    struct message_pool *pool;
};

void message_queue_init(struct message_queue *q, struct message_pool *pool);

/* Drops everything. */
void message_queue_clear(struct message_queue *q);

/* One message: `first`, which it takes over, and behind it what `rest` has, of which it takes over
 * the reference. */
void message_queue_add(struct message_queue *q, struct buf *first, struct blob *rest);

/* One that was compressed, and was so long before. */
void message_queue_add_packed(struct message_queue *q, struct buf *packed, size_t plain_len);

/* One message of so many bytes, which are given later. */
void message_queue_add_body(struct message_queue *q, uint64_t total_bytes);

/* The next bytes of the oldest body of which not all were given (asserted: there is one, and it has
 * so many left). Takes the buffer over. */
void message_queue_give(struct message_queue *q, struct buf *chunk);

/* What is still to be given, of the oldest body that is not complete; 0: all are. */
uint64_t message_queue_ungiven(const struct message_queue *q);

/* How many bytes can be moved now, up to `max`: all, up to the first that were not given yet. */
size_t message_queue_ready(const struct message_queue *q, size_t max);

/* Moves so many of them to the end of `out`. */
void message_queue_move(struct message_queue *q, size_t count, struct buf *out);

void message_queue_check(const struct message_queue *q);
