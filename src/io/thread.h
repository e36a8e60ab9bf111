/*
 * thread: loops beside the core's, each on a thread of its own, for the connections of clients.
 *
 * Each has seams of its own (io.h): an inbox, a clock, a net, a resolver, workers for handshakes;
 * no disk, no workers for anything else. What was opened by those belongs to its thread, as what
 * was opened by the core's belongs to the core. Between two threads there is nothing but an event
 * that one posts into the other's inbox, with what it carries.
 *
 *     core     net_listen, .is_dealt --> accepts --+  the thread with the fewest connections
 *                                                  v
 *     thread   net_listen there, too <-------- the socket --> on_accept, on_data, ...
 *     core     one less of its limit <-------- has gone
 *
 * So a limit (net.h) is the core's, whoever has the connections.
 *
 * Life       They are there from loop_open on, and do not run. Before a thread is started the core
 *            sets up in its place what it will run, and has it listen. Then io_thread_start; and
 *            io_thread_end, after which what is left is the core's again. Any number of times.
 * Stopping   The core closes its listeners before it tells the threads to close theirs: what was
 *            dealt out before is there when a thread hears of it (inbox.h, promise 1).
 */
#pragma once

#include "base/err.h"
#include "io/io.h"

struct io_thread {
    const struct io *io;
    enum err (*start)(struct io_thread *t, void (*turn)(void *context), void *context);
    void (*end)(struct io_thread *t);
};

/* Runs the turn when something has happened, as loop_run does. */
MUST_CHECK static inline enum err io_thread_start(struct io_thread *t, void (*turn)(void *context),
                                                  void *context)
{
    return t->start(t, turn, context);
}

/* Returns when its last turn has ended. One that was not started is fine. */
static inline void io_thread_end(struct io_thread *t)
{
    t->end(t);
}
