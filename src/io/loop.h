/*
 * loop: the real world, by libuv.
 *
 * Opens everything in io.h for real and runs the turn when something has happened. Around the core
 * thread, which calls loop_run, there are one thread per disk queue, the worker threads, the page
 * store's, two for TLS handshakes, which let all of these go first, and libuv's own for name
 * lookups; all of them only post to the inbox. So do threads that have loops of their own, if there
 * are to be any (thread.h).
 *
 *     loop_run:   wait until the inbox holds something
 *                 turn(context): drains the inbox, decides, queues writes
 *                 send what the turn has queued on connections
 *                 and again, until loop_stop
 *
 * Life       loop_open, then loop_run with a turn, which may call loop_stop; then loop_close, by
 *            when every file op, job, lookup, connection, listener and timer has ended (asserted).
 * Besides    SIGPIPE is ignored from loop_open on: a peer that has left is an error, not our end.
 *            And the process may open as many files as the system lets it (RLIMIT_NOFILE, the soft
 *            limit raised to the hard one); io.files_max says how many those are.
 */
#pragma once

#include "base/err.h"
#include "io/inbox.h"
#include "io/io.h"

struct loop; /* opaque */
struct net_address;

enum { LOOP_SIGNALS_MAX = 8 };

struct loop_options {
    unsigned worker_threads; /* 0: one */
    unsigned io_threads;     /* thread.h; IO_THREADS_MAX at most */
};

/* Called once in each round; work left over for the next one is an event put into the inbox. */
typedef void loop_turn(void *context);

/* The caller owns *out and ends it with loop_close. ERR_NO_FILES if not even a loop could be had.
 */
MUST_CHECK enum err loop_open(const struct loop_options *options, struct loop **out);

/* How many threads of this process can run at once; at least 1. */
unsigned loop_cores(void);

/* From now on connections to other hosts are made from this address, of whatever port. They fail
 * if it is no address of this machine, or of another family than theirs. */
void loop_connect_from(struct loop *l, const struct net_address *local);

/* The seams, good until loop_close. */
const struct io *loop_io(struct loop *l);

/* Runs turns until loop_stop. */
void loop_run(struct loop *l, loop_turn *turn, void *context);

/* Waits until something has happened and runs one turn. */
void loop_run_once(struct loop *l, loop_turn *turn, void *context);

/* From inside the turn: it is the last one. */
void loop_stop(struct loop *l);

struct loop_signal {
    int number; /* SIGTERM, say */
    void (*on_signal)(struct loop_signal *s);
    struct event event;
};

/* Calls on_signal in the turn, once for signals that arrive in quick succession, until loop_close.
 * At most LOOP_SIGNALS_MAX of them. */
MUST_CHECK enum err loop_watch_signal(struct loop *l, struct loop_signal *s);

/* Runs what is still in the inbox, then ends everything. NULL is fine. */
void loop_close(struct loop *l);
