#include "base/assert.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { KEEPALIVE_S = 30 };

struct spare_buffer {
    struct spare_buffer *next;
};

static struct real_conn *real(struct conn *c)
{
    return container_of(c, struct real_conn, base);
}

static struct real_conn *conn_of_handle(void *handle)
{
    return container_of((union stream *)handle, struct real_conn, stream);
}

/* Buffers for reading belong to a connection only from the arrival of bytes to their on_data, so a
 * few serve many connections. */
static void take_buffer(struct real_conn *c)
{
    struct real_net *n = c->net;
    struct spare_buffer *spare = n->spare;

    assert(!c->in);
    if (n->buffers == NET_READ_BUFFERS_MAX)
        return;
    if (spare) {
        n->spare = spare->next;
        n->spares--;
    }
    n->buffers++;
    assert(n->buffers <= NET_READ_BUFFERS_MAX);
    c->in = spare ? (uint8_t *)spare : mem_resize(NULL, NET_READ_BYTES, 1);
    c->in_cap = NET_READ_BYTES;
    c->in_pooled = true;
}

static void return_buffer(struct real_net *n, uint8_t *at, bool pooled)
{
    struct spare_buffer *spare = (struct spare_buffer *)(void *)at;

    if (pooled) {
        assert(n->buffers > 0);
        n->buffers--;
    }
    if (!pooled || n->spares == NET_SPARE_BUFFERS_MAX) {
        mem_free(at);
        return;
    }
    spare->next = n->spare;
    n->spare = spare;
    n->spares++;
}

static void forget_buffer(struct real_conn *c)
{
    c->in = NULL;
    c->in_len = 0;
    c->in_cap = 0;
}

static void drop_buffer(struct real_conn *c)
{
    if (c->in)
        return_buffer(c->net, c->in, c->in_pooled);
    forget_buffer(c);
}

/* What a paused connection holds is cut to size and leaves the pool: the others need the buffer. */
static void keep_only_content(struct real_conn *c)
{
    if (!c->in || !c->in_pooled)
        return;
    uint8_t *content = mem_resize(NULL, c->in_len, 1);
    memcpy(content, c->in, c->in_len);
    return_buffer(c->net, c->in, true);
    c->in = content;
    c->in_cap = c->in_len;
    c->in_pooled = false;
}

static void post_readable(struct real_conn *c)
{
    if (!c->readable.queued)
        inbox_put(c->net->inbox, &c->readable);
}

static void show_input(struct real_conn *c)
{
    uint8_t *at = c->in;
    size_t len = c->in_len;
    bool pooled = c->in_pooled;

    forget_buffer(c); /* on_data may pause or close, which must not touch what it looks at */
    c->base.on->on_data(&c->base, bytes_of(at, len));
    if (!c->show_again || c->closing) {
        return_buffer(c->net, at, pooled);
        return;
    }
    c->show_again = false;
    c->in = at;
    c->in_len = len;
    c->in_cap = pooled ? NET_READ_BYTES : len;
    c->in_pooled = pooled;
    if (c->paused)
        keep_only_content(c);
    else
        post_readable(c);
}

static void deliver(struct event *e)
{
    struct real_conn *c = container_of(e, struct real_conn, readable);

    /* The end is told behind the last bytes (promise 2), even if those wait for somebody to resume.
     */
    if (c->in && !c->paused && !c->closing)
        show_input(c);
    if (c->ended && !c->end_shown && !c->in && !c->paused && !c->closing) {
        c->end_shown = true;
        if (c->base.on->on_end)
            c->base.on->on_end(&c->base);
    }
}

/* Offering no space makes libuv call on_read with UV_ENOBUFS. */
static void on_credit_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct real_conn *c = conn_of_handle(handle);

    (void)suggested;
    bool is_late = c->net->reads == NET_READS_AT_ONCE_MAX;
    if (!c->in && !c->paused && !is_late)
        take_buffer(c);
    c->net->reads += !c->paused && !is_late;
    *out = c->paused || is_late || c->in_len == c->in_cap
               ? uv_buf_init(NULL, 0)
               : uv_buf_init((char *)c->in + c->in_len, (unsigned)(c->in_cap - c->in_len));
}

/*
 * Stopping and starting to read costs two system calls each, so a pause stops it only when
 * something has come in. One that has only come late is stopped, too: libuv asks the kernel again
 * at once, up to 48 times, while a thousand have something to say, and all that the turn would
 * wait for.
 */
static void no_credit(struct real_conn *c)
{
    uv_read_stop(&c->stream.stream);
    c->reading = false;
    if (!c->paused)
        list_push_back(&c->net->late, &c->late);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *space)
{
    struct real_conn *c = conn_of_handle(stream);

    (void)space;
    if (count == UV_ENOBUFS) {
        no_credit(c);
        return;
    }
    if (count > 0)
        c->in_len += (size_t)count;
    else if (c->in_len == 0)
        drop_buffer(c);
    if (count == UV_EOF) {
        c->reading = false; /* libuv stops by itself at the end */
        c->ended = true;
    }
    if (count < 0 && count != UV_EOF)
        conn_fail(c, err_of_errno((int)count));
    else if (count != 0)
        post_readable(c);
}

static void start_reading(struct real_conn *c)
{
    if (!c->connected || c->reading || c->ended || c->closing)
        return;
    list_remove(&c->late);
    int error = uv_read_start(&c->stream.stream, on_credit_wanted, on_read);
    if (error != 0)
        conn_fail(c, err_of_errno(error));
    else
        c->reading = true;
}

/* Without a free buffer there is something in the inbox, and the turn that hears it comes first. */
void real_net_look(struct real_net *n)
{
    n->reads = 0;
    for (size_t free = NET_READ_BUFFERS_MAX - n->buffers; free > 0 && !list_empty(&n->late); free--)
        start_reading(container_of(list_pop_front(&n->late), struct real_conn, late));
}

static void pause_reading(struct conn *base)
{
    struct real_conn *c = real(base);

    c->paused = true;
    list_remove(&c->late);
    keep_only_content(c);
}

static void resume_reading(struct conn *base)
{
    struct real_conn *c = real(base);

    c->paused = false;
    start_reading(c);
    if (!c->closing && (c->in || (c->ended && !c->end_shown)))
        post_readable(c);
}

static void show_again(struct conn *base)
{
    real(base)->show_again = true;
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct real_conn *c = container_of(request, struct real_conn, shutting);

    if (status != 0)
        conn_fail(c, err_of_errno(status));
}

static void shutdown_if_wanted(struct real_conn *c)
{
    if (!c->shutdown_wanted || c->shutdown_sent)
        return;
    c->shutdown_sent = true;
    int error = uv_shutdown(&c->shutting, &c->stream.stream, on_shutdown);
    if (error != 0)
        conn_fail(c, err_of_errno(error));
}

/* Looks at the front of the queue as libuv wants it. Returns how many buffers, and their bytes. */
static unsigned peek(const struct real_conn *c, uv_buf_t *out, size_t *bytes)
{
    struct bytes pieces[IO_PIECES_AT_ONCE_MAX];
    size_t count = conn_queue_peek(&c->queue, pieces, IO_PIECES_AT_ONCE_MAX);

    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        out[i] = (uv_buf_t){.base = (char *)pieces[i].at, .len = pieces[i].len};
        *bytes += pieces[i].len;
    }
    return (unsigned)count;
}

static void on_written(uv_write_t *request, int status)
{
    struct real_conn *c = container_of(request, struct real_conn, writing);
    size_t bytes = c->in_kernel;

    c->in_kernel = 0;
    if (c->closing)
        return;
    if (status != 0) {
        conn_fail(c, err_of_errno(status));
        return;
    }
    conn_queue_sent(&c->queue, bytes, c->net->inbox);
    conn_flush(c);
}

/* The kernel's buffer is full: libuv sends the next chunk when there is space. */
static void write_when_possible(struct real_conn *c)
{
    uv_buf_t pieces[IO_PIECES_AT_ONCE_MAX];
    unsigned count = peek(c, pieces, &c->in_kernel);
    int error = uv_write(&c->writing, &c->stream.stream, pieces, count, on_written);

    if (error != 0) {
        c->in_kernel = 0;
        conn_fail(c, err_of_errno(error));
    }
}

void conn_flush(struct real_conn *c)
{
    if (!c->connected || c->closing || c->in_kernel > 0)
        return;
    conn_queue_sent(&c->queue, 0, c->net->inbox); /* writes that have no bytes */
    while (c->queue.bytes > 0) {
        uv_buf_t pieces[IO_PIECES_AT_ONCE_MAX];
        size_t bytes;
        unsigned count = peek(c, pieces, &bytes);
        int sent = uv_try_write(&c->stream.stream, pieces, count);

        if (sent < 0 && sent != UV_EAGAIN) {
            conn_fail(c, err_of_errno(sent));
            return;
        }
        conn_queue_sent(&c->queue, sent > 0 ? (size_t)sent : 0, c->net->inbox);
        if (sent < 0 || (size_t)sent < bytes) {
            write_when_possible(c);
            return;
        }
    }
    shutdown_if_wanted(c);
}

/* With the turn's end, together with whatever else it will write: one system call for all of it. */
static void flush_soon(struct real_conn *c)
{
    if (list_empty(&c->unsent))
        list_push_back(&c->net->unsent, &c->unsent);
}

static void write_queued(struct conn *base, struct conn_write *w)
{
    struct real_conn *c = real(base);

    assert(!c->shutdown_wanted);
    assert(!c->finished);
    conn_queue_add(&c->queue, w);
    if (c->closing)
        conn_queue_cancel(&c->queue, c->net->inbox);
    else
        flush_soon(c);
}

static size_t try_write(struct conn *base, struct bytes what)
{
    struct real_conn *c = real(base);
    uv_buf_t piece = {.base = (char *)what.at, .len = what.len};

    assert(!c->shutdown_wanted);
    assert(!c->finished);
    if (!c->connected || c->closing || c->queue.bytes > 0 || what.len == 0)
        return 0; /* what is queued goes first */
    int sent = uv_try_write(&c->stream.stream, &piece, 1);
    if (sent < 0 && sent != UV_EAGAIN)
        conn_fail(c, err_of_errno(sent));
    return sent > 0 ? (size_t)sent : 0;
}

/* TCP alone tells what it has not sent, and how much of that it takes is what we have asked for. */
static size_t write_credit(const struct conn *base)
{
    const struct real_conn *c = container_of(base, struct real_conn, base);
    int unsent;
    uv_os_fd_t fd;

    if (c->closing || c->stream.handle.type != UV_TCP || uv_fileno(&c->stream.handle, &fd) != 0 ||
        ioctl(fd, SIOCOUTQNSD, &unsent) != 0)
        return 0;
    return unsent < NET_UNSENT_BYTES ? (size_t)(NET_UNSENT_BYTES - unsent) : 0;
}

static size_t queued_bytes(const struct conn *base)
{
    return container_of(base, struct real_conn, base)->queue.bytes;
}

static void shutdown_after_writes(struct conn *base)
{
    struct real_conn *c = real(base);

    c->shutdown_wanted = true;
    if (!c->closing)
        flush_soon(c);
}

static void close_now(struct conn *base, enum err reason)
{
    conn_fail(real(base), reason);
}

static void finish(struct event *e)
{
    struct real_conn *c = container_of(e, struct real_conn, gone);
    struct real_listener *l = c->listener;
    struct real_admission *a = c->admission;

    /* A write queued since the handle went is behind us in the inbox, and must be told first. */
    if (c->queue.unreported > 0) {
        inbox_put(c->net->inbox, e);
        return;
    }
    c->finished = true;
    if (c->base.on)
        c->base.on->on_closed(&c->base, c->reason);
    else
        c->net->refused--;
    assert(c->queue.unreported == 0);
    assert(!c->in);
    assert(!c->readable.queued);
    c->net->conns--;
    mem_free(c);
    if (l)
        listener_conn_gone(l, a);
}

static void on_handle_gone(uv_handle_t *handle)
{
    struct real_conn *c = conn_of_handle(handle);

    inbox_put(c->net->inbox, &c->gone);
}

void conn_fail(struct real_conn *c, enum err reason)
{
    if (c->closing)
        return;
    c->closing = true;
    c->reason = reason;
    c->net->refused += c->base.on == NULL;
    /* Buffers and writes at once, the rest when libuv has let go of the handle: on_closed comes
     * then, behind the reports of all writes (promise 3). */
    drop_buffer(c);
    list_remove(&c->unsent);
    list_remove(&c->late);
    conn_queue_cancel(&c->queue, c->net->inbox); /* libuv touches no buffer after uv_close */
    uv_close(&c->stream.handle, on_handle_gone);
}

/*
 * Left alone, the kernel takes 4 MB for a peer that does not read: a thousand of those, and it has
 * no memory for anybody's connections. And what is urgent would queue behind all of it.
 */
static void bound_unsent(struct real_conn *c)
{
    int bytes = NET_UNSENT_BYTES;
    uv_os_fd_t fd;

    if (uv_fileno(&c->stream.handle, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

void conn_connected(struct real_conn *c)
{
    c->connected = true;
    if (c->stream.handle.type == UV_TCP) {
        /* These fail only on a connection that has ended meanwhile, which reading will tell. */
        uv_tcp_nodelay(&c->stream.tcp, 1);
        uv_tcp_keepalive(&c->stream.tcp, 1, KEEPALIVE_S);
        bound_unsent(c);
    }
    inbox_put(c->net->inbox, &c->opened);
    if (!c->listener && !c->paused)
        start_reading(c);
    flush_soon(c);
}

struct real_conn *conn_new(struct real_net *n, enum net_family family)
{
    static const struct conn_ops ops = {
        .write = write_queued,
        .try_write = try_write,
        .write_credit = write_credit,
        .queued_bytes = queued_bytes,
        .pause = pause_reading,
        .resume = resume_reading,
        .show_again = show_again,
        .shutdown = shutdown_after_writes,
        .close = close_now,
    };
    struct real_conn *c = mem_new(struct real_conn);

    assert(family != NET_NONE);
    c->base.ops = &ops;
    c->net = n;
    c->readable.run = deliver;
    c->gone.run = finish;
    conn_queue_init(&c->queue);
    list_init(&c->unsent);
    list_init(&c->late);
    int error = family == NET_UNIX ? uv_pipe_init(n->uv, &c->stream.pipe, 0)
                                   : uv_tcp_init(n->uv, &c->stream.tcp);
    assert(error == 0); /* makes no socket yet */
    n->conns++;
    return c;
}

void real_net_close(struct real_net *n)
{
    assert(n->conns == 0);
    assert(n->listeners == 0);
    assert(n->buffers == 0);

    for (struct spare_buffer *spare; (spare = n->spare);) {
        n->spare = spare->next;
        mem_free(spare);
    }
}
