#include "base/assert.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG_DEFAULT = 1024,
    CONNS_MAX_DEFAULT = 65536,
};

static struct real_net *real(struct net *n)
{
    return container_of(n, struct real_net, base);
}

bool address_of_sockaddr(const struct sockaddr *from, struct net_address *out)
{
    *out = (struct net_address){0};
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;
        out->family = NET_IP4;
        out->port = ntohs(in->sin_port);
        memcpy(out->ip, &in->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)from;
        out->family = NET_IP6;
        out->port = ntohs(in->sin6_port);
        out->scope = in->sin6_scope_id;
        memcpy(out->ip, &in->sin6_addr, 16);
    } else {
        return false;
    }
    return true;
}

static void sockaddr_of_address(const struct net_address *a, struct sockaddr_storage *out)
{
    assert(a->family == NET_IP4 || a->family == NET_IP6);

    *out = (struct sockaddr_storage){0};
    if (a->family == NET_IP4) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(a->port);
        memcpy(&in->sin_addr, a->ip, 4);
    } else {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(a->port);
        in->sin6_scope_id = a->scope;
        memcpy(&in->sin6_addr, a->ip, 16);
    }
}

static void name_peer(struct real_conn *c)
{
    struct net_address a = {.family = NET_UNIX};
    struct sockaddr_storage peer;
    int len = sizeof(peer);

    /* It may be gone already: then it stays nameless, and reading will tell. */
    if (c->stream.handle.type == UV_TCP &&
        (uv_tcp_getpeername(&c->stream.tcp, (struct sockaddr *)&peer, &len) != 0 ||
         !address_of_sockaddr((struct sockaddr *)&peer, &a)))
        a.family = NET_NONE;
    net_address_text(&a, c->base.info.remote);
}

static void announce(struct event *e)
{
    struct real_conn *c = container_of(e, struct real_conn, opened);
    struct real_listener *l = c->listener;

    if (l->closing) {
        conn_fail(c, ERR_CANCELED);
        return;
    }
    l->base.options.on_accept(&l->base, &c->base);
    assert(c->base.on || c->closing);
}

static void listener_free_if_unused(struct real_listener *l)
{
    if (l->handle_gone && l->conns == 0 && !l->failed.queued)
        mem_free(l);
}

static void report_failure(struct event *e)
{
    struct real_listener *l = container_of(e, struct real_listener, failed);

    if (!l->closing && l->base.options.on_failed)
        l->base.options.on_failed(&l->base, l->failure);
    listener_free_if_unused(l);
}

static void listener_failed(struct real_listener *l, int error)
{
    l->failure = err_of_errno(error);
    if (!l->failed.queued)
        inbox_put(l->net->inbox, &l->failed);
}

/* Takes the connection libuv has for us; until we do, libuv takes no other from the kernel. */
static void take(struct real_listener *l)
{
    struct real_conn *c = conn_new(l->net, l->base.address.family);

    l->waiting = false;
    l->conns++;
    c->listener = l;
    c->opened.run = announce;
    int error = uv_accept(&l->stream.stream, &c->stream.stream);
    if (error != 0) {
        listener_failed(l, error);
        conn_fail(c, err_of_errno(error));
        return;
    }
    name_peer(c);
    conn_connected(c);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct real_listener *l = container_of((union stream *)stream, struct real_listener, stream);

    if (status != 0)
        listener_failed(l, status);
    else if (l->conns < l->base.options.conns_max)
        take(l);
    else
        l->waiting = true;
}

void listener_conn_gone(struct real_listener *l)
{
    l->conns--;
    if (l->waiting && !l->closing)
        take(l);
    listener_free_if_unused(l);
}

static void on_listener_gone(uv_handle_t *handle)
{
    struct real_listener *l = container_of((union stream *)handle, struct real_listener, stream);

    l->handle_gone = true;
    listener_free_if_unused(l);
}

static void close_listener(struct listener *base)
{
    struct real_listener *l = container_of(base, struct real_listener, base);

    assert(!l->closing);
    l->closing = true;
    l->net->listeners--;
    uv_close(&l->stream.handle, on_listener_gone);
}

static int share_port(uv_tcp_t *tcp)
{
    uv_os_fd_t fd;
    int on = 1;
    int error = uv_fileno((uv_handle_t *)tcp, &fd);

    if (error == 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
        error = -errno;
    return error;
}

static int bind_tcp(struct real_listener *l, const struct net_address *a)
{
    struct sockaddr_storage where;
    int len = sizeof(where);

    sockaddr_of_address(a, &where);
    int error = l->base.options.reuse_port ? share_port(&l->stream.tcp) : 0;
    if (error == 0)
        error = uv_tcp_bind(&l->stream.tcp, (struct sockaddr *)&where, 0);
    /* libuv keeps a port in use to itself until it listens, so this asks for the name after that.
     */
    if (error == 0)
        error = uv_listen(&l->stream.stream, (int)l->base.options.backlog, on_connection);
    if (error == 0)
        error = uv_tcp_getsockname(&l->stream.tcp, (struct sockaddr *)&where, &len);
    if (error == 0 && !address_of_sockaddr((struct sockaddr *)&where, &l->base.address))
        error = UV_EINVAL;
    return error;
}

/* The file of a socket outlives a process that was killed, and then nobody could listen. */
static void remove_stale_socket(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path); /* if this fails, binding will say why */
}

static int bind_pipe(struct real_listener *l, const struct net_address *a)
{
    remove_stale_socket(a->path);
    int error = uv_pipe_bind(&l->stream.pipe, a->path);
    if (error == 0)
        error = uv_listen(&l->stream.stream, (int)l->base.options.backlog, on_connection);
    return error;
}

static enum err listen_at(struct net *base, const struct net_address *a,
                          const struct listener_options *options, struct listener **out)
{
    struct real_net *n = real(base);
    struct real_listener *l = mem_new(struct real_listener);
    unsigned family = a->family == NET_IP6 ? AF_INET6 : AF_INET;

    assert(options->on_accept);
    l->net = n;
    l->failed.run = report_failure;
    l->base = (struct listener){.net = base, .options = *options, .address = *a};
    if (l->base.options.backlog == 0)
        l->base.options.backlog = BACKLOG_DEFAULT;
    if (l->base.options.conns_max == 0)
        l->base.options.conns_max = CONNS_MAX_DEFAULT;

    int error = a->family == NET_UNIX ? uv_pipe_init(n->uv, &l->stream.pipe, 0)
                                      : uv_tcp_init_ex(n->uv, &l->stream.tcp, family);
    if (error != 0) {
        mem_free(l);
        return err_of_errno(error);
    }
    n->listeners++;
    error = a->family == NET_UNIX ? bind_pipe(l, a) : bind_tcp(l, a);
    if (error != 0) {
        close_listener(&l->base);
        return err_of_errno(error);
    }
    *out = &l->base;
    return ERR_OK;
}

static void tell_open(struct event *e)
{
    struct real_conn *c = container_of(e, struct real_conn, opened);

    if (!c->closing && c->base.on->on_open)
        c->base.on->on_open(&c->base);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct real_conn *c = container_of(request, struct real_conn, connecting);

    if (c->closing)
        return;
    if (status != 0) {
        conn_fail(c, err_of_errno(status));
        return;
    }
    conn_connected(c);
}

static struct conn *connect_to(struct net *base, const struct net_address *a,
                               const struct conn_handlers *on, void *context)
{
    struct real_conn *c = conn_new(real(base), a->family);
    struct sockaddr_storage where;
    int error = 0;

    c->base.on = on;
    c->base.context = context;
    c->opened.run = tell_open;
    net_address_text(a, c->base.info.remote);
    if (a->family == NET_UNIX) {
        uv_pipe_connect(&c->connecting, &c->stream.pipe, a->path, on_connected);
    } else {
        sockaddr_of_address(a, &where);
        error =
            uv_tcp_connect(&c->connecting, &c->stream.tcp, (struct sockaddr *)&where, on_connected);
    }
    if (error != 0)
        conn_fail(c, err_of_errno(error));
    return &c->base;
}

void real_net_open(struct real_net *n, uv_loop_t *uv, struct inbox *inbox)
{
    static const struct net_ops ops = {
        .listen = listen_at, .listener_close = close_listener, .connect = connect_to};

    *n = (struct real_net){.base.ops = &ops, .uv = uv, .inbox = inbox};
    list_init(&n->unsent);
    /* libuv writes to sockets without asking not to be killed when the peer has left. */
    signal(SIGPIPE, SIG_IGN);
}

void real_net_flush(struct real_net *n)
{
    for (struct list *link; (link = list_pop_front(&n->unsent));)
        conn_flush(container_of(link, struct real_conn, unsent));
}
