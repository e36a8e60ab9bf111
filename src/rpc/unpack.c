/*
 * Messages that came packed. What such a message becomes is not known before it is there, and may
 * be a thousand times as much; so its most is counted before its first byte is unpacked, and what
 * it was not is given back at the end.
 *
 *     conn->packed: calls IN_PACKED --> rpc->unpacking, one at a time --> IN_WHOLE, or refused
 *
 * Memory     A connection's messages count within RPC_CONN_BYTES_MAX, those of all within
 *            RPC_UNPACKED_BYTES_MAX, until they are released or answered. What does not fit waits,
 *            and is never refused for that. A message that is alone always fits.
 *            What a call has for as long as it likes is not to stop everybody's messages: while one
 *            waits for the bytes of all, those that were unpacked RPC_PATIENCE_MS ago count against
 *            their own connections alone, as they would if they had not been packed.
 * Time       A turn unpacks RPC_TURN_UNPACKED_BYTES. What is left of a message is for the next.
 *            Connections take turns, with a message each.
 */
#include "base/assert.h"
#include "rpc/rpc_int.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most_of(const struct call *c)
{
    return least(gzip_unpacked_most(c->reader.content.len),
                 c->conn->rpc->options.message_bytes_max);
}

static void count(struct call *c, size_t bytes)
{
    c->unpacked += bytes;
    c->conn->unpacked += bytes;
    c->shared += bytes;
    c->conn->rpc->unpacked += bytes;
    c->reserved += bytes;
    c->conn->held += bytes;
}

static void stop_sharing(struct call *c)
{
    struct rpc *r = c->conn->rpc;

    assert(r->unpacked >= c->shared);
    r->unpacked -= c->shared;
    c->shared = 0;
    list_remove(&c->sharing_link);
    if (list_empty(&r->sharing) && timer_is_set(&r->unpack_patience))
        timer_stop(r->clock, &r->unpack_patience);
}

static void discount(struct call *c, size_t bytes)
{
    size_t shared = least(bytes, c->shared);

    assert(c->unpacked >= bytes);
    assert(c->reserved >= bytes);
    c->unpacked -= bytes;
    c->conn->unpacked -= bytes;
    c->shared -= shared;
    c->conn->rpc->unpacked -= shared;
    c->reserved -= bytes;
    c->conn->held -= bytes;
}

static bool fits_in_all(const struct rpc *r, size_t bytes)
{
    unsigned rpcs = r->options.rpcs > 0 ? r->options.rpcs : 1;

    return r->unpacked == 0 || r->unpacked + bytes <= RPC_UNPACKED_BYTES_MAX / rpcs;
}

/* Those that are packed may fill the budget of their connection, and would wait for one another if
 * the first of them had to fit in it. */
static bool fits_in_conn(const struct rpc_conn *c, size_t bytes)
{
    return c->unpacked == 0 || c->held + bytes <= RPC_CONN_BYTES_MAX;
}

static struct call *first_of(const struct rpc_conn *c)
{
    return container_of(c->packed.next, struct call, packed_link);
}

/* --- patience --- */

static struct call *oldest_sharing(const struct rpc *r)
{
    return container_of(r->sharing.next, struct call, sharing_link);
}

static uint64_t end_of_patience(const struct call *c)
{
    return c->unpacked_ns + RPC_PATIENCE_MS * NS_PER_MS;
}

static void wait_for_others(struct rpc *r)
{
    if (!list_empty(&r->sharing) && !timer_is_set(&r->unpack_patience))
        timer_start_at(r->clock, &r->unpack_patience, end_of_patience(oldest_sharing(r)));
}

void rpc_unpack_on_patience(struct timer *t)
{
    struct rpc *r = container_of(t, struct rpc, unpack_patience);
    uint64_t now_ns = clock_now_ns(r->clock);

    while (!list_empty(&r->sharing) && end_of_patience(oldest_sharing(r)) <= now_ns)
        stop_sharing(oldest_sharing(r));
    rpc_next_turn(r); /* those that wait are looked at, and wait anew if need be */
}

/* --- one after the other --- */

/* The first message whose most fits. */
static struct call *next_to_unpack(struct rpc *r)
{
    LIST_FOREACH (link, &r->packed) {
        const struct rpc_conn *conn = container_of(link, struct rpc_conn, packed_link);
        struct call *c = first_of(conn);

        if (!fits_in_all(r, most_of(c))) {
            wait_for_others(r);
            return NULL; /* nor does anybody pass it */
        }
        if (fits_in_conn(conn, most_of(c)))
            return c;
    }
    return NULL;
}

static void begin(struct call *c)
{
    struct rpc *r = c->conn->rpc;

    assert(!r->unpacking);
    assert(r->unpacked_part.len == 0);
    count(c, most_of(c));
    r->unpacking = c;
    gzip_begin(rpc_gzip(r), buf_bytes(&c->reader.content), r->options.message_bytes_max);
}

static void leave_list(struct call *c)
{
    struct rpc_conn *conn = c->conn;

    list_remove(&c->packed_link);
    list_remove(&conn->packed_link);
    if (!list_empty(&conn->packed))
        list_push_back(&conn->rpc->packed, &conn->packed_link); /* behind the others */
}

/* True: it is done. */
static bool go_on(struct rpc *r)
{
    struct call *c = r->unpacking;
    enum err e;

    assert(c);
    r->unpacked_bytes -= r->unpacked_part.len;
    bool is_done = gzip_go_on(rpc_gzip(r), &r->unpacking_left, &r->unpacked_part, &e);
    r->unpacked_bytes += r->unpacked_part.len;
    if (!is_done)
        return false;
    struct buf plain = r->unpacked_part;
    r->unpacked_part = (struct buf){0};
    r->unpacking = NULL;
    leave_list(c);
    assert(e != ERR_OK || plain.len <= c->unpacked);
    discount(c, c->unpacked - (e == ERR_OK ? plain.len : 0));
    c->unpacked_ns = clock_now_ns(r->clock);
    if (c->shared > 0)
        list_push_back(&r->sharing, &c->sharing_link);
    rpc_call_unpacked(c, e, &plain);
    return true;
}

void rpc_unpack_some(struct rpc *r)
{
    while (r->unpacking_left > 0) {
        if (!r->unpacking) {
            struct call *next = next_to_unpack(r);
            if (!next)
                return; /* until some is given back */
            begin(next);
        }
        if (!go_on(r))
            break;
    }
    if (!list_empty(&r->packed))
        rpc_next_turn(r);
}

void rpc_unpack(struct call *c)
{
    struct rpc_conn *conn = c->conn;

    c->in = IN_PACKED;
    rpc_call_set_busy(c); /* from here on it waits for us */
    list_push_back(&conn->packed, &c->packed_link);
    if (list_empty(&conn->packed_link))
        list_push_back(&conn->rpc->packed, &conn->packed_link);
    rpc_next_turn(conn->rpc);
}

void rpc_unpack_forget_all_but(struct call *c, size_t kept)
{
    struct rpc *r = c->conn->rpc;

    if (r->unpacking == c) {
        r->unpacking = NULL;
        buf_free(&r->unpacked_part);
    }
    if (!list_empty(&c->packed_link))
        leave_list(c);
    if (c->unpacked == 0)
        return;
    stop_sharing(c);
    discount(c, c->unpacked - least(c->unpacked, kept));
    if (!list_empty(&r->packed))
        rpc_next_turn(r); /* some of them may fit now */
}

void rpc_unpack_forget(struct call *c)
{
    rpc_unpack_forget_all_but(c, 0);
}
