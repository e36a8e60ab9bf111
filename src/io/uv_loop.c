#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/process.h"
#include "io/uv_int.h"

#include <errno.h>
#include <limits.h>
#include <sys/resource.h>

/* What libuv opens for itself it must be able to open: it aborts without some of it. */
enum {
    LOOP_FILES_MIN = 16,
    LOOP_HANDSHAKE_THREADS = 2, /* some two thousand handshakes a second, and cores for the rest */
    LOOP_HANDSHAKE_NICE = 10, /* a tenth of what the turn and the log are given, if they want it */
    LOOP_WORKER_NICE = 5,     /* a third: for passwords, hashes, images, scrapes */
};

struct watched_signal {
    uv_signal_t handle;
    struct loop_signal *signal;
};

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t before_waiting;
    struct inbox inbox;
    struct real_clock clock;
    struct entropy entropy;
    struct real_disk disk;
    struct real_net net;
    struct real_resolver resolver;
    struct real_workers workers, store_worker, store_readers, handshakes;
    struct watched_signal signals[LOOP_SIGNALS_MAX];
    unsigned signal_count;
    struct io_thread *threads[IO_THREADS_MAX];
    struct io io;
    bool stopping;
};

enum err err_of_errno(int error)
{
    switch (error < 0 ? -error : error) {
    case 0:
        return ERR_OK;
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EMFILE:
    case ENFILE:
        return ERR_NO_FILES;
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case EBUSY:
    case EAGAIN:
    case EADDRINUSE:
        return ERR_BUSY;
    case EFBIG:
    case ENAMETOOLONG:
        return ERR_TOO_LARGE;
    case ECONNREFUSED:
        return ERR_REFUSED;
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
        return ERR_RESET;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return ERR_TIMEOUT;
    case ECANCELED:
        return ERR_CANCELED;
    case EOPNOTSUPP:
    case ENOSYS:
        return ERR_UNSUPPORTED;
    default:
        return ERR_IO;
    }
}

static void wake(void *context)
{
    struct loop *l = context;
    int error = uv_async_send(&l->wake);

    assert(error == 0);
}

/* Being woken is all: the inbox has what there is to do. */
static void on_wake(uv_async_t *async)
{
    (void)async;
}

/* A timer that was due when uv_run began has fired by now, and must not wait for a socket. */
static void on_before_waiting(uv_prepare_t *handle)
{
    struct loop *l = container_of(handle, struct loop, before_waiting);

    if (!inbox_is_empty(&l->inbox))
        uv_stop(&l->uv);
}

/* Programs that use select() are why the soft limit is low by default. We do not. */
static unsigned raise_files_max(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 0;
    rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (files.rlim_cur != before && setrlimit(RLIMIT_NOFILE, &files) != 0)
        files.rlim_cur = before; /* some systems have lower ceilings that they do not tell */
    return files.rlim_cur < INT_MAX ? (unsigned)files.rlim_cur : INT_MAX;
}

/* What any thread's has. */
static enum err open_any(struct loop *core, struct loop **out)
{
    struct loop *l = mem_new(struct loop);
    int error = uv_loop_init(&l->uv);

    if (error != 0) {
        mem_free(l);
        return err_of_errno(error);
    }
    error = uv_async_init(&l->uv, &l->wake, on_wake);
    assert(error == 0);
    uv_prepare_init(&l->uv, &l->before_waiting);
    uv_prepare_start(&l->before_waiting, on_before_waiting);
    inbox_init(&l->inbox, wake, l);
    real_clock_open(&l->clock, &l->uv, &l->inbox);
    real_entropy_open(&l->entropy);
    real_net_open(&l->net, core ? &core->net : NULL, &l->uv, &l->inbox);
    real_resolver_open(&l->resolver, &l->uv, &l->inbox);
    l->io = (struct io){
        .inbox = &l->inbox,
        .clock = &l->clock.base,
        .entropy = &l->entropy,
        .net = &l->net.base,
        .resolver = &l->resolver.base,
        .handshakes = &l->handshakes.base,
    };
    *out = l;
    return ERR_OK;
}

enum err loop_open_beside(struct loop *core, struct loop **out)
{
    enum err e = open_any(core, out);

    if (e == ERR_OK)
        real_workers_share(&(*out)->handshakes, &(*out)->inbox, &core->handshakes);
    return e;
}

static enum err open_threads(struct loop *l, unsigned count)
{
    enum err e = ERR_OK;

    assert(count <= ARRAY_LEN(l->threads));
    l->io.threads = l->threads;
    for (; l->io.thread_count < count && e == ERR_OK; l->io.thread_count += e == ERR_OK)
        l->threads[l->io.thread_count] = thread_new(l, &e);
    return e;
}

enum err loop_open(const struct loop_options *options, struct loop **out)
{
    unsigned files_max = raise_files_max();
    struct loop *l;

    if (files_max > 0 && files_max < LOOP_FILES_MIN)
        return ERR_NO_FILES;
    enum err e = open_any(NULL, &l);
    if (e != ERR_OK)
        return e;
    l->io.disk = &l->disk.base;
    l->io.workers = &l->workers.base;
    l->io.store_worker = &l->store_worker.base;
    l->io.store_readers = &l->store_readers.base;
    l->io.look_at_process = process_look;
    l->io.files_max = files_max;

    e = real_disk_open(&l->disk, &l->inbox);
    if (e == ERR_OK)
        e = real_workers_open(&l->workers, &l->inbox, "worker",
                              options->worker_threads ? options->worker_threads : 1,
                              LOOP_WORKER_NICE);
    if (e == ERR_OK)
        e = real_workers_open(&l->store_worker, &l->inbox, "store", 1, 0);
    if (e == ERR_OK)
        e = real_workers_open(&l->store_readers, &l->inbox, "store-reader", WARMING_THREADS, 0);
    if (e == ERR_OK)
        e = real_workers_open(&l->handshakes, &l->inbox, "handshake", LOOP_HANDSHAKE_THREADS,
                              LOOP_HANDSHAKE_NICE);
    if (e == ERR_OK)
        e = open_threads(l, options->io_threads);
    if (e != ERR_OK) {
        loop_close(l);
        return e;
    }
    *out = l;
    return ERR_OK;
}

unsigned loop_cores(void)
{
    return uv_available_parallelism();
}

void loop_connect_from(struct loop *l, const struct net_address *local)
{
    l->net.local = *local;
    l->net.local.port = 0;
}

const struct io *loop_io(struct loop *l)
{
    return &l->io;
}

void loop_run_once(struct loop *l, loop_turn *turn, void *context)
{
    real_net_flush(&l->net); /* what was queued before the first turn */
    /* With something in the inbox already, sockets are looked at but not waited for. */
    do {
        real_net_look(&l->net);
        uv_run(&l->uv, UV_RUN_ONCE);
    } while (inbox_is_empty(&l->inbox));

    turn(context);
    real_net_flush(&l->net);
}

void loop_run(struct loop *l, loop_turn *turn, void *context)
{
    l->stopping = false;
    while (!l->stopping)
        loop_run_once(l, turn, context);
}

void loop_stop(struct loop *l)
{
    l->stopping = true;
}

static void deliver_signal(struct event *e)
{
    struct loop_signal *s = container_of(e, struct loop_signal, event);

    s->on_signal(s);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct watched_signal *w = container_of(handle, struct watched_signal, handle);
    struct loop *l = container_of(handle->loop, struct loop, uv);

    (void)number;
    if (!w->signal->event.queued)
        inbox_put(&l->inbox, &w->signal->event);
}

enum err loop_watch_signal(struct loop *l, struct loop_signal *s)
{
    assert(l->signal_count < LOOP_SIGNALS_MAX);

    struct watched_signal *w = &l->signals[l->signal_count];
    int error = uv_signal_init(&l->uv, &w->handle);
    if (error != 0)
        return err_of_errno(error);
    l->signal_count++;
    w->signal = s;
    s->event.run = deliver_signal;
    return err_of_errno(uv_signal_start(&w->handle, on_signal, s->number));
}

void loop_close(struct loop *l)
{
    if (!l)
        return;
    inbox_drain(&l->inbox, SIZE_MAX);
    /* Connections that were taken and never shown to anybody. */
    while (l->net.refused > 0) { /* nobody is told when these are gone, so nobody could wait */
        uv_run(&l->uv, UV_RUN_ONCE);
        inbox_drain(&l->inbox, SIZE_MAX);
    }
    assert(!heap_first(&l->clock.base.timers)); /* looked at before anybody is waited for */
    /* Who steps through handshakes may be about to wake a thread that has heard of it already. */
    real_workers_close(&l->handshakes);
    while (l->io.thread_count > 0)
        thread_free(l->threads[--l->io.thread_count]);
    inbox_drain(&l->inbox, SIZE_MAX); /* what the threads have said last */
    real_clock_close(&l->clock);
    real_resolver_close(&l->resolver);
    real_net_close(&l->net);
    real_disk_close(&l->disk);
    real_workers_close(&l->workers);
    real_workers_close(&l->store_worker);
    real_workers_close(&l->store_readers);
    for (unsigned i = 0; i < l->signal_count; i++)
        uv_close((uv_handle_t *)&l->signals[i].handle, NULL);
    uv_close((uv_handle_t *)&l->before_waiting, NULL);
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT); /* until the last handle has gone */
    int error = uv_loop_close(&l->uv);
    assert(error == 0);
    mem_free(l);
}
