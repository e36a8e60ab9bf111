/*
 * What is owed: memory that replies take until their clients have read them.
 *
 * A request of thirty bytes may ask for megabytes, and its client need not read them. So what a
 * reply may take is charged to its connection before the core hears of the call, by the number that
 * its method states (rpc_method.reply_bytes); or, if it may be more, before the core makes the
 * reply (RESERVE). While the budget has no space for it the call waits, and has nothing but its
 * request.
 *
 *     a connection owes      what is queued for it, and what its unanswered calls were promised
 *     and may owe at most    RPC_CONN_BYTES_MAX, and never more than half of what all connections
 *                            together have left over of RPC_REPLIES_BYTES_MAX; who owes next to
 *                            nothing may take all of that
 *
 * By the second bound n connections that take all they can get have half of what is left each, and
 * that is twice as much for the next one. A connection that owes little, with what it asks for, is
 * let in always: so everybody is served who reads.
 *
 * A connection at a place for probes owes no more than RPC_PROBE_BYTES_MAX, or a single reply;
 * there are few of them, and none waits for another: a probe is to be answered however clients are.
 *
 * A reply beyond RPC_RESERVED_BYTES_MAX is charged as that much. There is one of them at a time.
 *
 * A client that reads slowly is waited for. But while a connection waits for what others owe, those
 * whose clients have left much more than it owes unread, and taken next to nothing for
 * RPC_PATIENCE_MS, are cut, the one that owes most first, until a quarter of the whole is free; or
 * none of them, if all of them together would not help the one that waits. While such waits go on,
 * a client must take four times as much in each such time as in the last, or all that was there
 * for it: nobody keeps memory from others for long by reading a little of it now and then.
 *
 * Memory that was promised to calls which the core has not answered is not held against their
 * client, nor is a body of which the core owes a chunk: the client could not read either.
 */
#include "base/assert.h"
#include "rpc/rpc_int.h"

static size_t owed_by(const struct rpc_conn *c)
{
    return c->queued + c->promised;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t left_of(size_t owed)
{
    return owed < RPC_REPLIES_BYTES_MAX ? RPC_REPLIES_BYTES_MAX - owed : 0;
}

size_t rpc_budget_left(const struct rpc *r)
{
    return left_of(r->owed);
}

static size_t may_owe(const struct rpc_conn *c, size_t owed)
{
    size_t left = left_of(owed);

    return least(RPC_CONN_BYTES_MAX, owed_by(c) <= RPC_ALWAYS_BYTES_MAX ? left : left / 2);
}

bool rpc_budget_allows(const struct rpc_conn *c, size_t has)
{
    return has == 0 || has < may_owe(c, c->rpc->owed);
}

static_assert(RPC_CONN_BYTES_MAX <= RPC_REPLIES_BYTES_MAX / 4, "while half is left that is all");

/* If all together owed so much. */
static bool would_fit(const struct rpc_conn *c, size_t bytes, size_t owed)
{
    if (c->serves == RPC_SERVES_PROBES)
        return owed_by(c) == 0 || owed_by(c) + bytes <= RPC_PROBE_BYTES_MAX;
    if (owed <= RPC_REPLIES_BYTES_MAX / 2)
        return owed_by(c) + bytes <= RPC_CONN_BYTES_MAX;
    if (owed_by(c) + bytes <= RPC_ALWAYS_BYTES_MAX)
        return true;
    return owed_by(c) + bytes <= may_owe(c, owed);
}

static bool fits(const struct rpc_conn *c, size_t bytes)
{
    return would_fit(c, bytes, c->rpc->owed);
}

static void promise(struct call *c, size_t bytes)
{
    c->promised += bytes;
    c->conn->promised += bytes;
    c->conn->rpc->owed += bytes;
}

/* --- giving back --- */

static void has_become_less(struct rpc *r)
{
    r->unlooked = r->waiting_count;
    r->is_less_owed = true;
}

void rpc_budget_count_queued(struct rpc_conn *c, size_t before, size_t after)
{
    assert(c->queued + after >= before);
    c->queued += after - before;
    c->rpc->owed += after - before;
    if (after >= before)
        return;
    c->taken += before - after;
    has_become_less(c->rpc);
}

void rpc_budget_count_dropped(struct rpc_conn *c, size_t bytes)
{
    size_t taken = c->taken;

    rpc_budget_count_queued(c, bytes, 0);
    c->taken = taken;
}

void rpc_budget_offer(struct call *c)
{
    if (c->is_offered)
        return;
    c->is_offered = true;
    c->conn->offered += c->promised;
}

void rpc_budget_withdraw(struct call *c)
{
    if (!c->is_offered)
        return;
    c->is_offered = false;
    c->conn->offered -= c->promised;
}

void rpc_budget_return(struct call *c)
{
    struct rpc_conn *conn = c->conn;
    struct rpc *r = conn->rpc;

    rpc_budget_withdraw(c);
    if (c->promised == 0)
        return;
    assert(conn->promised >= c->promised);
    assert(r->owed >= c->promised);
    conn->promised -= c->promised;
    r->owed -= c->promised;
    conn->beyond -= c->is_beyond;
    r->beyond -= c->is_beyond;
    c->promised = 0;
    c->is_beyond = false;
    has_become_less(r);
}

/* --- waiting --- */

/* Bytes that the connection's client could have taken, and has not. */
static size_t unread_by(const struct rpc_conn *c)
{
    return c->queued + (c->due == 0 ? c->offered : 0);
}

static void start_patience(struct rpc *r)
{
    LIST_FOREACH (link, &r->conns)
        container_of(link, struct rpc_conn, link)->taken = 0;
    r->is_last_notice = false;
    timer_start(r->clock, &r->patience, (RPC_PATIENCE_MS - RPC_NOTICE_MS) * NS_PER_MS);
}

/* Replies that come from now on are not held against any client. */
static void give_last_notice(struct rpc *r)
{
    LIST_FOREACH (link, &r->conns) {
        struct rpc_conn *c = container_of(link, struct rpc_conn, link);
        c->noticed = c->taken + unread_by(c);
    }
    r->is_last_notice = true;
    timer_start(r->clock, &r->patience, RPC_NOTICE_MS * NS_PER_MS);
}

static void wait_in(struct list *calls, struct call *c)
{
    struct rpc_conn *conn = c->conn;
    struct rpc *r = conn->rpc;

    assert(list_empty(&c->waiting_link));
    list_push_back(calls, &c->waiting_link);
    if (!list_empty(&conn->waiting_link))
        return;
    list_push_back(&r->waiting, &conn->waiting_link);
    r->waiting_count++;
    has_become_less(r); /* it has not been looked at */
    if (!timer_is_set(&r->patience))
        start_patience(r);
}

void rpc_budget_leave(struct call *c)
{
    struct rpc_conn *conn = c->conn;
    struct rpc *r = conn->rpc;

    list_remove(&c->waiting_link);
    c->asked = 0;
    if (!list_empty(&conn->waiting) || !list_empty(&conn->asking))
        return;
    list_remove(&conn->waiting_link);
    r->waiting_count--;
    r->unlooked = least(r->unlooked, r->waiting_count);
}

/* --- calls that the core has not heard of --- */

/* HTTP/1.1 has one request at a time. */
static size_t first_promise(const struct call *c)
{
    if (c->method)
        return c->method->reply_bytes;
    return c->web ? RPC_HTTP_REPLY_BYTES : 0;
}

bool rpc_budget_lets_in(struct call *c)
{
    struct rpc_conn *conn = c->conn;
    size_t bytes = first_promise(c);

    assert(c->life == LIFE_UNTOLD);
    if (c->promised > 0 || bytes == 0)
        return true;
    if (!list_empty(&c->waiting_link))
        return false;
    if (list_empty(&conn->waiting) && fits(conn, bytes)) {
        promise(c, bytes);
        return true;
    }
    wait_in(&conn->waiting, c);
    return false;
}

static size_t bytes_needed(const struct call *c)
{
    return c->asked > 0 ? least(c->asked, RPC_RESERVED_BYTES_MAX) : first_promise(c);
}

static bool let_in_first(struct rpc_conn *conn)
{
    if (list_empty(&conn->waiting))
        return false;
    struct call *c = container_of(conn->waiting.next, struct call, waiting_link);
    if (!fits(conn, first_promise(c)))
        return false;
    rpc_budget_stop_waiting(c);
    promise(c, first_promise(c));
    rpc_event_add(c, 0); /* what it has to tell is there */
    return true;
}

/* --- calls whose reply is large --- */

static bool fits_beyond(const struct call *c)
{
    return c->asked <= RPC_RESERVED_BYTES_MAX || c->conn->rpc->beyond == 0;
}

static bool reserve_first(struct rpc_conn *conn)
{
    if (list_empty(&conn->asking))
        return false;
    struct call *c = container_of(conn->asking.next, struct call, waiting_link);
    size_t bytes = bytes_needed(c);
    if (!fits_beyond(c) || !fits(conn, bytes))
        return false;
    c->is_beyond = c->asked > RPC_RESERVED_BYTES_MAX;
    conn->beyond += c->is_beyond;
    conn->rpc->beyond += c->is_beyond;
    rpc_budget_stop_waiting(c);
    promise(c, bytes);
    rpc_event_add(c, PENDING_RESERVED);
    return true;
}

/* What it was promised is a part of that: if those who wait here kept it, enough of them would wait
 * for one another. */
void rpc_budget_reserve(struct call *c, uint64_t bytes)
{
    assert(bytes > 0);
    assert(c->asked == 0);

    rpc_budget_return(c);
    c->asked = bytes;
    wait_in(&c->conn->asking, c);
    reserve_first(c->conn);
}

/* --- looking again --- */

/* A small call is not to wait for a large one, which may have to wait for others. */
static void look_at(struct rpc_conn *conn)
{
    while (reserve_first(conn))
        ;
    while (let_in_first(conn))
        ;
}

void rpc_budget_starve(struct rpc_conn *c)
{
    if (list_empty(&c->starved_link))
        list_push_back(&c->rpc->starved, &c->starved_link);
}

/* Connections that still cannot go on come back to the list when they are flushed. */
static void feed_some(struct rpc *r)
{
    if (!r->is_less_owed || list_empty(&r->starved) || rpc_budget_left(r) == 0)
        return;
    r->is_less_owed = false;
    for (unsigned i = 0; i < RPC_FLUSH_CONNS_MAX && !list_empty(&r->starved); i++)
        rpc_conn_touch(container_of(list_pop_front(&r->starved), struct rpc_conn, starved_link));
    r->is_less_owed = !list_empty(&r->starved);
    rpc_next_turn(r);
}

bool rpc_budget_look_again(struct rpc *r)
{
    feed_some(r);
    for (unsigned i = 0; i < RPC_FLUSH_CONNS_MAX && r->unlooked > 0; i++) {
        struct list *link = list_pop_front(&r->waiting);
        struct rpc_conn *conn = container_of(link, struct rpc_conn, waiting_link);
        list_push_back(&r->waiting, link);
        r->unlooked--;
        look_at(conn);
    }
    return r->unlooked == 0;
}

/* --- the end of patience --- */

/* Is there a place for so much in what the connection itself may owe? If not, it waits for its own
 * client. */
static bool may_ever_fit(const struct rpc_conn *c, size_t bytes)
{
    return c->serves != RPC_SERVES_PROBES && owed_by(c) + bytes <= RPC_CONN_BYTES_MAX;
}

/* The first of these calls may come to fit, and does not while all connections owe so much. */
static bool first_lacks_memory(const struct rpc_conn *c, const struct list *calls, size_t owed)
{
    if (list_empty(calls))
        return false;
    size_t needed = bytes_needed(container_of(calls->next, struct call, waiting_link));
    return may_ever_fit(c, needed) && !would_fit(c, needed, owed);
}

static bool lacks_memory(const struct rpc_conn *c, size_t owed)
{
    return first_lacks_memory(c, &c->asking, owed) || first_lacks_memory(c, &c->waiting, owed);
}

static bool waits_for_memory(const struct rpc_conn *c)
{
    return lacks_memory(c, c->rpc->owed);
}

static bool waits_for_beyond(const struct rpc_conn *c)
{
    if (list_empty(&c->asking))
        return false;
    const struct call *first = container_of(c->asking.next, struct call, waiting_link);
    return may_ever_fit(c, bytes_needed(first)) && !fits_beyond(first);
}

/* The connection that owes least of all that wait so; or NULL. */
static struct rpc_conn *poorest(const struct rpc *r, bool (*waits)(const struct rpc_conn *c))
{
    struct rpc_conn *found = NULL;

    LIST_FOREACH (link, &r->waiting) {
        struct rpc_conn *c = container_of(link, struct rpc_conn, waiting_link);
        if (waits(c) && (!found || owed_by(c) < owed_by(found)))
            found = c;
    }
    return found;
}

/* Bytes that are there for the connection's client, and have been since the last notice. */
static size_t left_unread(const struct rpc_conn *c)
{
    return c->taken < c->noticed ? least(c->noticed - c->taken, unread_by(c)) : 0;
}

static bool reads(const struct rpc_conn *c)
{
    return c->taken >= (size_t)RPC_PATIENCE_BYTES << 2 * c->rpc->impatience;
}

/* A little is always let in, so nobody waits for it. */
static bool may_be_cut_for(const struct rpc_conn *waiting, const struct rpc_conn *c)
{
    return c->state < CONN_LINGERING && !reads(c) && left_unread(c) > RPC_ALWAYS_BYTES_MAX &&
           left_unread(c) / 2 > owed_by(waiting);
}

/* Connections that are to be cut; the first is the one that owes most. */
struct victims {
    struct rpc_conn *at[RPC_CUTS_MAX];
    size_t count;
    size_t owed; /* by all connections that are left, whatever the core has yet to hear of others */
    size_t gain; /* owed by all that may be cut, of whom these are the first */
};

static void add_victim(struct victims *v, struct rpc_conn *c)
{
    size_t i;

    v->gain += owed_by(c);
    if (v->count < ARRAY_LEN(v->at))
        v->count++;
    else if (owed_by(c) <= owed_by(v->at[v->count - 1]))
        return;
    for (i = v->count - 1; i > 0 && owed_by(v->at[i - 1]) < owed_by(c); i--)
        v->at[i] = v->at[i - 1];
    v->at[i] = c;
}

/* Each connection is looked at once, however many are cut. */
static void find_victims(const struct rpc_conn *waiting, bool of_beyond, struct victims *out)
{
    *out = (struct victims){0};
    LIST_FOREACH (link, &waiting->rpc->conns) {
        struct rpc_conn *c = container_of(link, struct rpc_conn, link);
        out->owed += owed_by(c);
        if (may_be_cut_for(waiting, c) && (!of_beyond || c->beyond > 0))
            add_victim(out, c);
    }
}

static void cut(struct rpc_conn *c)
{
    log_warn(c->rpc->logger,
             "closing a connection whose client does not read its replies: others wait for "
             "their memory",
             LOG_STR("remote", c->info.remote), LOG_U64("bytes", owed_by(c)));
    rpc_conn_cut(c, ERR_TIMEOUT);
}

/*
 * So many of them that a good part of the whole is free: that is not for this one alone, and with
 * just what it needs it would wait as long for the next reply. All together may owe more than there
 * is, so what they owe is what counts. What the core has is freed when it has heard that its calls
 * are gone; whoever waits is looked at then. True: there are more to be cut.
 */
static bool cut_for_memory(const struct rpc_conn *waiting)
{
    struct victims v;

    find_victims(waiting, false, &v);
    if (lacks_memory(waiting, v.owed - v.gain))
        return false;
    for (size_t i = 0; i < v.count && v.owed > RPC_REPLIES_BYTES_MAX / 4 * 3; i++) {
        v.owed -= owed_by(v.at[i]);
        v.gain -= owed_by(v.at[i]);
        cut(v.at[i]);
    }
    return v.gain > 0 && v.owed > RPC_REPLIES_BYTES_MAX / 4 * 3;
}

static void cut_for_beyond(const struct rpc_conn *waiting)
{
    struct victims v;

    find_victims(waiting, true, &v);
    if (v.count > 0)
        cut(v.at[0]);
}

static void end_round(struct rpc *r, bool somebody_waits)
{
    r->impatience = !somebody_waits                      ? 0
                    : r->impatience < RPC_IMPATIENCE_MAX ? r->impatience + 1
                                                         : RPC_IMPATIENCE_MAX;
    if (r->waiting_count > 0)
        start_patience(r);
}

/* Each wait is looked at by itself: a connection that waits for one thing says nothing about those
 * that wait for the other. */
void rpc_budget_on_patience(struct timer *t)
{
    struct rpc *r = container_of(t, struct rpc, patience);

    if (!r->is_last_notice) {
        give_last_notice(r);
        return;
    }
    const struct rpc_conn *for_memory = poorest(r, waits_for_memory);
    if (for_memory && cut_for_memory(for_memory)) {
        timer_start(r->clock, &r->patience, RPC_CUTS_PAUSE_MS * NS_PER_MS);
        return;
    }
    const struct rpc_conn *for_beyond = poorest(r, waits_for_beyond);
    if (for_beyond)
        cut_for_beyond(for_beyond);
    end_round(r, for_memory || for_beyond);
}

void rpc_budget_check(const struct rpc *r)
{
    size_t owed = 0, waiting = 0;

    LIST_FOREACH (link, &r->conns) {
        const struct rpc_conn *c = container_of(link, struct rpc_conn, link);
        bool waits = !list_empty(&c->waiting) || !list_empty(&c->asking);
        owed += owed_by(c);
        assert(waits == !list_empty(&c->waiting_link));
        waiting += waits;
    }
    assert(owed <= r->owed); /* calls of connections that are gone may owe some, too */
    assert(waiting == r->waiting_count);
    assert(r->unlooked <= r->waiting_count);
    assert(r->waiting_count == 0 || timer_is_set(&r->patience));
    assert(r->impatience <= RPC_IMPATIENCE_MAX);
}
