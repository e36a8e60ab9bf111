/*
 * net: streams of bytes to and from other programs, over TCP and unix sockets.
 *
 * A listener announces connections, net_connect makes one; after that the two are alike. What comes
 * in is shown to on_data; what goes out is a struct conn_write embedded in whoever waits for it.
 * Writes gather and leave together, in as few system calls as the kernel allows, when the turn
 * ends. Whoever has gathered enough himself may try to write at once, and keeps nothing of what the
 * kernel took.
 *
 *     net_connect --> on_open --+--> on_data ... --> on_end --+--> on_closed
 *     on_accept --> conn_accept +     conn_write ... on_done  +    (exactly once, the last call)
 *
 * Promises   1. Every callback comes from the inbox, none from inside a call of ours.
 *            2. Bytes arrive in order; on_end says that the peer will send no more, after the last.
 *            3. Each write gets exactly one on_done, in order: ERR_OK when the kernel has it all,
 *               ERR_CANCELED if the connection ended first. All of them come before on_closed.
 *            4. conn_close is allowed at any moment until on_closed has been called. The connection
 *               is gone when on_closed returns.
 *            5. Memory is bounded: a paused connection is not read, and one connection more than
 * the limit of their listeners says live at once; the rest wait in the kernel, and are taken as
 * others leave or are evicted (conn_limit.h; ERR_EVICTED). What is queued for writing is for the
 * caller to bound, by conn_queued_bytes. What was read and not looked at is NET_READ_BUFFERS_MAX
 * times NET_READ_BYTES, over all connections; beyond that none is read.
 *            6. When there are no file descriptors left, or no memory for a socket, connections
 *               wait in the kernel, too: a listener tries again after a while.
 * Not here   TLS, a net on top of another one, with the rest of conn_info (tls.h). Names: they
 *            are resolved first (resolve.h). Timeouts: a timer and conn_close.
 */
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "io/conn_limit.h"
#include "io/inbox.h"

enum {
    NET_PATH_MAX = 108, /* a unix socket's path, with its final zero */
    NET_TEXT_MAX = 112, /* any address as text, with its final zero */
};

enum net_family { NET_NONE, NET_IP4, NET_IP6, NET_UNIX };

struct net_address {
    enum net_family family;
    uint16_t port;
    uint8_t ip[16]; /* the first four for NET_IP4 */
    uint32_t scope; /* the interface of a link-local NET_IP6 address */
    char path[NET_PATH_MAX];
};

/* From "10.0.0.1:2379" or "[::1]:2379"; numbers only. ERR_MALFORMED otherwise. */
MUST_CHECK enum err net_address_parse(const char *text, struct net_address *out);

/* The host part alone, "10.0.0.1" or "::1". */
MUST_CHECK enum err net_address_of_host(const char *host, uint16_t port, struct net_address *out);

/* ERR_TOO_LARGE, ERR_MALFORMED when empty. */
MUST_CHECK enum err net_address_of_path(const char *path, struct net_address *out);

/* As parse reads it; a unix address as its path, or "@" if it has none. Returns out. */
const char *net_address_text(const struct net_address *a, char out[static NET_TEXT_MAX]);

bool net_address_equal(const struct net_address *a, const struct net_address *b);

struct net;
struct listener;
struct conn;
struct conn_queue;

struct conn_info {
    char remote[NET_TEXT_MAX];
    bool tls;
    const char *cn; /* in the peer's certificate, verified, perhaps ""; NULL: it has shown none */
    const char *const *sans; /* its subject alternative names */
    size_t san_count;
    const char *failure; /* in words, when on_closed is called, if there are some; NULL otherwise */
};

struct conn_handlers {
    void (*on_open)(struct conn *c);                    /* our net_connect succeeded */
    void (*on_data)(struct conn *c, struct bytes data); /* lent until it returns */
    void (*on_end)(struct conn *c);
    void (*on_closed)(struct conn *c, enum err reason); /* ours of conn_close, or what went wrong */
};

/* All zeroes, with the first three filled in, is ready to write. */
struct conn_write {
    const struct bytes *pieces; /* they and their bytes are lent until on_done */
    size_t piece_count;
    void (*on_done)(struct conn_write *w, enum err e);

    struct conn_queue *queue; /* from here on the connection's */
    size_t piece, sent;       /* the first unsent byte */
    enum err err;
    struct list link;
    struct event event;
};

struct conn_ops {
    void (*write)(struct conn *c, struct conn_write *w);
    size_t (*try_write)(struct conn *c, struct bytes what);
    size_t (*write_credit)(const struct conn *c);
    size_t (*queued_bytes)(const struct conn *c);
    void (*pause)(struct conn *c);
    void (*resume)(struct conn *c);
    void (*show_again)(struct conn *c); /* of those that come from outside alone */
    void (*shutdown)(struct conn *c);
    void (*close)(struct conn *c, enum err reason);
};

struct conn {
    const struct conn_ops *ops;
    const struct conn_handlers *on; /* NULL until conn_accept */
    void *context;                  /* the caller's */
    struct conn_info info;
    struct admission *admission; /* NULL: we connected, or it is closing */
};

struct listener_options {
    unsigned backlog;         /* 0: 1024 */
    struct conn_limit *limit; /* may be shared, and outlives the listener; NULL: none */
    bool reuse_port;
    bool is_dealt; /* connections go to those who listen there on other threads (thread.h) */
    /* In the turn. Either conn_accept or conn_close must be called before it returns. If it is
     * dealt, NULL. */
    void (*on_accept)(struct listener *l, struct conn *c);
    /* Nobody can be accepted for now: out of file descriptors, say. Told once until somebody can be
     * again. May be NULL. */
    void (*on_failed)(struct listener *l, enum err e);
    void *context;
};

struct listener {
    struct net *net;
    struct listener_options options;
    struct net_address address; /* as bound: a port of 0 has become a real one */
    struct list waiting;        /* on the limit's list; its options.limit is NULL once it closes */
};

struct net_ops {
    enum err (*listen)(struct net *n, const struct net_address *a,
                       const struct listener_options *options, struct listener **out);
    void (*listener_close)(struct listener *l);
    void (*listener_look)(struct listener *l); /* somebody has left: others may come in */
    struct conn *(*connect)(struct net *n, const struct net_address *a,
                            const struct conn_handlers *on, void *context);
};

struct net {
    const struct net_ops *ops;
};

/* Binds and listens at once. A socket file left behind by a dead process is replaced. */
MUST_CHECK static inline enum err net_listen(struct net *n, const struct net_address *a,
                                             const struct listener_options *options,
                                             struct listener **out)
{
    return n->ops->listen(n, a, options, out);
}

/* No on_accept after this. Its connections live on. */
static inline void listener_close(struct listener *l)
{
    l->net->ops->listener_close(l);
}

/* What comes of it is on_open, or on_closed alone. Writing may begin at once. */
static inline struct conn *net_connect(struct net *n, const struct net_address *a,
                                       const struct conn_handlers *on, void *context)
{
    return n->ops->connect(n, a, on, context);
}

/* Takes a connection that was announced, and starts reading it. */
static inline void conn_accept(struct conn *c, const struct conn_handlers *on, void *context)
{
    assert(!c->on);
    assert(on);

    c->on = on;
    c->context = context;
    c->ops->resume(c);
}

/*
 * In on_data, before anything was written: it is for somebody else. Whoever takes the connection by
 * conn_accept, before on_data returns, is shown the same bytes when it does; or conn_close is
 * called.
 */
static inline void conn_hand_over(struct conn *c)
{
    assert(c->on);

    c->on = NULL;
    c->context = NULL;
    c->ops->show_again(c);
}

/* Never fails, never blocks. Not after conn_shutdown (asserted). */
static inline void conn_write(struct conn *c, struct conn_write *w)
{
    assert(w->on_done);
    assert(!w->event.queued);

    c->ops->write(c, w);
}

/*
 * Hands over as much as the kernel takes at once, and says how much that was: nothing while writes
 * are queued, or before the connection is made, or when it fails, which on_closed will tell. What
 * is left is for conn_write.
 */
static inline size_t conn_try_write(struct conn *c, struct bytes what)
{
    size_t taken = c->ops->try_write(c, what);

    assert(taken <= what.len);
    return taken;
}

/* About how much the kernel would take at once; 0 also if it does not say. */
static inline size_t conn_write_credit(const struct conn *c)
{
    return c->ops->write_credit(c);
}

/* What the kernel has not taken yet. */
static inline size_t conn_queued_bytes(const struct conn *c)
{
    return c->ops->queued_bytes(c);
}

/* No on_data and no on_end until conn_resume. Either twice is fine. */
static inline void conn_pause(struct conn *c)
{
    c->ops->pause(c);
}

static inline void conn_resume(struct conn *c)
{
    c->ops->resume(c);
}

/* Tells the peer, after what is queued, that we send no more. We may still hear from it. */
static inline void conn_shutdown(struct conn *c)
{
    c->ops->shutdown(c);
}

/* Ends the connection, dropping what is queued. Again while it is closing is fine. */
static inline void conn_close(struct conn *c, enum err reason)
{
    c->ops->close(c, reason);
}

/* Its client has shown who it is, or asked for something that it may. By a certificate for these
 * names it belongs to whoever they name; 0: to its address. */
static inline void conn_prove(struct conn *c, uint64_t owner)
{
    struct admission *a = c->admission;
    unsigned char state = a ? atomic_load_explicit(&a->state, memory_order_relaxed) : 0;

    if (!a || (state & ADMISSION_PROVED))
        return;
    if (owner > 0)
        atomic_store_explicit(&a->id, owner, memory_order_relaxed);
    atomic_store_explicit(&a->state, state | ADMISSION_PROVED, memory_order_release);
}

static inline void conn_set_state(struct conn *c, unsigned char bit, bool is_set)
{
    struct admission *a = c->admission;

    if (!a)
        return;
    unsigned char state = atomic_load_explicit(&a->state, memory_order_relaxed);
    state = (unsigned char)(is_set ? state | bit : state & ~bit);
    atomic_store_explicit(&a->state, state, memory_order_release);
}

/* Something begins on it, for which nobody waits yet. */
static inline void conn_use(struct conn *c, uint64_t now_ns)
{
    if (c->admission)
        atomic_store_explicit(&c->admission->used_ns, now_ns, memory_order_relaxed);
}

/* Somebody waits for something on it. */
static inline void conn_set_busy(struct conn *c)
{
    conn_set_state(c, ADMISSION_BUSY, true);
}

/* Nobody does, any more. */
static inline void conn_set_idle(struct conn *c, uint64_t now_ns)
{
    conn_use(c, now_ns);
    conn_set_state(c, ADMISSION_BUSY, false);
}

/* It has done what it can to prove itself, and the next step is ours; or its own again. */
static inline void conn_set_waits(struct conn *c, bool waits)
{
    conn_set_state(c, ADMISSION_WAITS, waits);
}

static inline const struct conn_info *conn_info(const struct conn *c)
{
    return &c->info;
}
