/*
 * uv_int: what the files behind loop.h share. Only they include libuv.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "io/clock.h"
#include "io/conn_queue.h"
#include "io/disk.h"
#include "io/entropy.h"
#include "io/inbox.h"
#include "io/loop.h"
#include "io/net.h"
#include "io/resolve.h"
#include "io/worker.h"

#include <uv.h>

/* From an errno or from libuv's negative form of one. */
enum err err_of_errno(int error);

/*
 * A crew: threads that take events from one queue, oldest first, and run them.
 */
struct crew {
    uv_mutex_t mutex;
    uv_cond_t wanted;
    struct event *first, **last;
    bool ending;
    const char *name; /* what the system calls its threads; 15 bytes at most */
    int nice;         /* by how much they let the others of the process go first */
    unsigned count;
    uv_thread_t *threads;
};

MUST_CHECK enum err crew_open(struct crew *c, const char *name, unsigned threads, int nice);
void crew_submit(struct crew *c, struct event *e);

/* Returns when everything submitted has run and the threads have ended. A crew that was never
 * opened is fine. */
void crew_close(struct crew *c);

struct real_clock {
    struct clock base;
    uv_timer_t alarm;
};

/* Major faults of the calling thread (clock.h). */
uint64_t thread_faults(void);

void real_clock_open(struct real_clock *c, uv_loop_t *uv, struct inbox *inbox);
void real_clock_close(struct real_clock *c);
void real_entropy_open(struct entropy *e);

struct real_disk {
    struct disk base;
    struct inbox *inbox;
    struct crew queues[DISK_QUEUE_COUNT];
    size_t in_flight; /* submitted and not yet reported */
};

MUST_CHECK enum err real_disk_open(struct real_disk *d, struct inbox *inbox);
void real_disk_close(struct real_disk *d);

struct real_workers {
    struct workers base;
    struct inbox *inbox;
    struct crew own;
    struct crew *crew; /* it, or another's */
    size_t in_flight;
};

MUST_CHECK enum err real_workers_open(struct real_workers *w, struct inbox *inbox, const char *name,
                                      unsigned threads, int nice);
/* The same threads report into another inbox, too. */
void real_workers_share(struct real_workers *w, struct inbox *inbox, struct real_workers *of);
void real_workers_close(struct real_workers *w);

struct real_resolver {
    struct resolver base;
    uv_loop_t *uv;
    struct inbox *inbox;
    size_t in_flight;
};

void real_resolver_open(struct real_resolver *r, uv_loop_t *uv, struct inbox *inbox);
void real_resolver_close(struct real_resolver *r);

/* False if it is of a family we do not speak. */
bool address_of_sockaddr(const struct sockaddr *from, struct net_address *out);

struct share;
struct spare_buffer;

struct real_net {
    struct net base;
    uv_loop_t *uv;
    struct inbox *inbox;
    struct list unsent;         /* connections with writes queued since the last flush */
    struct net_address local;   /* that connections are made from; NET_NONE: the system chooses */
    size_t conns, listeners;    /* alive, not yet closed */
    size_t refused;             /* of the conns: closing without ever having been accepted */
    size_t buffers;             /* in use for reading, bounded */
    unsigned reads;             /* since sockets were last looked at, bounded, too */
    struct list late;           /* connections not read, because of these two bounds */
    struct spare_buffer *spare; /* and a few kept for the next read */
    unsigned spares;

    struct list dealt;       /* listeners whose connections others get */
    struct real_net *dealer; /* who deals to us, on its own thread; NULL: nobody */
    unsigned dealt_conns;    /* the dealer's: those it has given us, and that have not gone */
};

void real_net_open(struct real_net *n, struct real_net *dealer, uv_loop_t *uv, struct inbox *inbox);
void real_net_flush(struct real_net *n);
/* Sockets are about to be looked at: now it is the turn of some that were not read last time. */
void real_net_look(struct real_net *n);
void real_net_close(struct real_net *n);

union stream {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

/*
 * A connection that a listener has accepted: the accepting thread's, but for conn. A connection
 * that is dealt is on its way to another thread, or lives there, or is evicted there:
 *
 *     accepting thread    handed ->    evict ->    -> stays    -> gone, the last
 */
struct real_admission {
    struct admission base;
    struct real_listener *listener; /* that accepted it */
    struct real_conn *conn;         /* of its own thread; NULL: not yet, or gone */
    struct share *share;            /* NULL: it is not dealt */
    struct inbox *dealer;           /* which then hears of it */
    int fd;
    struct event handed, evict, gone;
    bool is_evicting, has_stayed, is_gone;
};

/* Between uv_net.c, which makes connections, and uv_conn.c, which lives with them. */
struct real_listener {
    struct listener base;
    struct real_net *net;
    int fd;
    uv_poll_t poll;    /* active while it looks for connections */
    uv_timer_t retry;  /* and while it cannot take any */
    unsigned retry_ms; /* the last wait; 0: the last attempt was a good one */
    bool waits_for_place;
    unsigned handles; /* of the two, not yet gone */
    unsigned conns;   /* alive, of those accepted here */
    bool closing;
    enum err failure;
    struct event failed;

    /* Who deals has shares, who is dealt to is one of them. */
    struct list dealt_link; /* on its net's list */
    struct share *shares[IO_THREADS_MAX];
    unsigned share_count, share_next;
    struct share *share;
};

struct real_conn {
    struct conn base;
    struct real_net *net;
    struct real_listener *listener; /* NULL if we connected */
    struct real_admission *admission;
    union stream stream;
    uv_connect_t connecting;
    uv_write_t writing;
    uv_shutdown_t shutting;
    struct conn_queue queue;
    struct list unsent, late; /* on the net's lists of these names */
    size_t in_kernel;         /* bytes given to the uv_write in flight; 0 if none is */

    uint8_t *in; /* read, not shown yet; NULL if there is nothing */
    size_t in_len, in_cap;
    bool in_pooled; /* it is one of the net's buffers */
    bool reading, paused, ended, end_shown;
    bool show_again; /* what is being shown */

    bool connected, shutdown_wanted, shutdown_sent, closing, finished;
    enum err reason;
    struct event opened, readable, gone;
};

/* A connection of the family, with its libuv handle open and nothing begun. */
struct real_conn *conn_new(struct real_net *n, enum net_family family);
void conn_connected(struct real_conn *c);
void conn_fail(struct real_conn *c, enum err reason);
void conn_flush(struct real_conn *c);

/* The connection has been closed and freed: there may be a place for one that waits. */
void listener_conn_gone(struct real_listener *l, struct real_admission *a);

/* --- uv_deal.c: between the listener that accepts and those of other threads --- */

/* Before its thread runs: it is to get some of what the dealer's listener at its address accepts.
 * False: there is none. */
bool deal_join(struct real_net *n, struct real_listener *l);
/* Which of those who have joined gets the next connection; and it gets it. */
struct share *deal_choose(struct real_listener *l);
void deal_out(struct real_admission *a);
/* The accepting thread wants it closed. */
void deal_evict(struct real_admission *a);
/* On the thread that has got it: it has gone. */
void deal_conn_gone(struct real_admission *a);
/* The listener accepts no more, and all have gone. */
void deal_end(struct real_listener *l);

/* In uv_net.c. A connection is here that was accepted, perhaps by another thread; the one that has
 * accepted it hears that it went. */
void listener_take(struct real_listener *l, struct real_admission *a);
void listener_left(struct real_admission *a);

/* --- uv_loop.c, for uv_thread.c --- */

/* A loop for another thread, without a disk, and with the core's threads for handshakes. */
MUST_CHECK enum err loop_open_beside(struct loop *core, struct loop **out);

/* --- uv_thread.c --- */

struct io_thread *thread_new(struct loop *core, enum err *e);
void thread_free(struct io_thread *t); /* it does not run */
