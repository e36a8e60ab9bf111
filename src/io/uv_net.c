#include "base/assert.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

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
        out->port = ntohs(in->sin6_port);
        /* Who comes by IPv4 to a port for both: it is his address that counts, as in Go, for the
         * log and for his certificate. */
        if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr)) {
            out->family = NET_IP4;
            memcpy(out->ip, in->sin6_addr.s6_addr + 12, 4);
            return true;
        }
        out->family = NET_IP6;
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

    if (c->closing)
        return; /* it was evicted on its way here */
    if (l->closing) {
        conn_fail(c, ERR_CANCELED);
        return;
    }
    l->base.options.on_accept(&l->base, &c->base);
    assert(c->base.on || c->closing);
}

static void listener_free_if_unused(struct real_listener *l)
{
    if (!l->closing || l->handles > 0 || l->conns > 0 || l->failed.queued)
        return;
    deal_end(l);
    mem_free(l);
}

/* --- accepting ---
 *
 * Not by libuv's own listening, which takes one connection more than we want, and which without
 * file descriptors cuts those who wait, or tries to accept for ever without coming back to us.
 */

static void report_failure(struct event *e)
{
    struct real_listener *l = container_of(e, struct real_listener, failed);

    if (!l->closing && l->base.options.on_failed)
        l->base.options.on_failed(&l->base, l->failure);
    listener_free_if_unused(l);
}

static void on_connections(uv_poll_t *poll, int status, int events);

static void look(struct real_listener *l)
{
    l->waits_for_place = false;
    int error = uv_poll_start(&l->poll, UV_READABLE, on_connections);

    assert(error == 0); /* it only changes what the loop waits for */
}

static void on_retry(uv_timer_t *timer)
{
    look(container_of(timer, struct real_listener, retry));
}

/* The kernel would say the same again at once, and for as long as it takes. */
static void wait_and_retry(struct real_listener *l, int error)
{
    uv_poll_stop(&l->poll);
    if (l->retry_ms == 0) {
        l->failure = err_of_errno(error);
        if (!l->failed.queued)
            inbox_put(l->net->inbox, &l->failed);
    }
    l->retry_ms = l->retry_ms == 0 ? NET_ACCEPT_RETRY_MS_MIN : 2 * l->retry_ms;
    if (l->retry_ms > NET_ACCEPT_RETRY_MS_MAX)
        l->retry_ms = NET_ACCEPT_RETRY_MS_MAX;
    uv_timer_start(&l->retry, on_retry, l->retry_ms, 0);
}

/* Somebody will leave, or has had his time by then. */
static void wait_for_place(struct real_listener *l, uint64_t now_ns, uint64_t again_ns)
{
    uv_poll_stop(&l->poll);
    l->waits_for_place = true;
    if (again_ns > 0)
        uv_timer_start(&l->retry, on_retry,
                       again_ns > now_ns ? (again_ns - now_ns) / NS_PER_MS + 1 : 0, 0);
}

/* Linux reports what has become of a connection that waited as if accepting had failed. */
static bool is_about_one_connection(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENOPROTOOPT:
    case EPERM: /* a firewall's rule */
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case EOPNOTSUPP:
        return true;
    default:
        return false;
    }
}

void listener_take(struct real_listener *l, struct real_admission *a)
{
    struct real_conn *c = conn_new(l->net, l->base.address.family);

    l->conns += a->share != NULL; /* its own thread has counted the others */
    a->conn = c;
    c->listener = l;
    c->admission = a;
    c->base.admission = &a->base;
    c->opened.run = announce;
    int error = l->base.address.family == NET_UNIX ? uv_pipe_open(&c->stream.pipe, a->fd)
                                                   : uv_tcp_open(&c->stream.tcp, a->fd);
    if (error != 0) {
        close(a->fd); /* nothing was sent */
        conn_fail(c, err_of_errno(error));
        return;
    }
    name_peer(c);
    conn_connected(c);
}

static void evict(struct admission *base)
{
    struct real_admission *a = container_of(base, struct real_admission, base);

    if (a->share)
        deal_evict(a);
    else
        conn_fail(a->conn, ERR_EVICTED);
}

static uint64_t owner_of(const struct sockaddr_storage *from)
{
    struct net_address a = {.family = NET_UNIX};

    if (from->ss_family != AF_UNIX && !address_of_sockaddr((const struct sockaddr *)from, &a))
        a.family = NET_NONE;
    return conn_owner_of_address(&a);
}

static void take(struct real_listener *l, int fd, const struct sockaddr_storage *from,
                 uint64_t now_ns)
{
    struct real_admission *a = mem_new(struct real_admission);

    *a = (struct real_admission){.base.evict = evict, .listener = l, .fd = fd};
    listener_took(&l->base, &a->base, owner_of(from), now_ns);
    l->conns++;
    if (!l->base.options.is_dealt) {
        listener_take(l, a);
        return;
    }
    a->share = deal_choose(l);
    deal_out(a);
}

static void on_connections(uv_poll_t *poll, int status, int events)
{
    struct real_listener *l = container_of(poll, struct real_listener, poll);

    (void)status; /* accept will say the same */
    (void)events;
    for (unsigned i = 0; i < NET_ACCEPTS_AT_ONCE_MAX; i++) {
        struct sockaddr_storage from = {0};
        socklen_t len = sizeof(from);
        uint64_t now_ns = uv_hrtime(), again_ns;

        /* Asked before, and not after: a connection that is accepted and then closed has been told
         * that we are there. In the kernel's queue it may wait. */
        if (!listener_may_take(&l->base, now_ns, &again_ns)) {
            wait_for_place(l, now_ns, again_ns);
            return;
        }
        int fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        int error = errno;
        if (fd >= 0) {
            l->retry_ms = 0;
            take(l, fd, &from, now_ns);
            continue;
        }
        if (error == EAGAIN)
            return;
        if (!is_about_one_connection(error)) {
            wait_and_retry(l, error);
            return;
        }
    }
}

static void look_again(struct listener *base)
{
    struct real_listener *l = container_of(base, struct real_listener, base);
    bool must_wait = uv_is_active((uv_handle_t *)&l->retry) && !l->waits_for_place;

    if (l->closing || must_wait)
        return;
    uv_timer_stop(&l->retry);
    look(l);
}

void listener_left(struct real_admission *a)
{
    struct real_listener *l = a->listener;

    admission_end(&a->base);
    assert(l->conns > 0);
    l->conns--;
    listener_free_if_unused(l);
}

/* The limit is the dealer's, if somebody deals. */
void listener_conn_gone(struct real_listener *l, struct real_admission *a)
{
    a->conn = NULL;
    if (!a->share) {
        listener_left(a);
        mem_free(a);
        return;
    }
    deal_conn_gone(a);
    l->conns--;
    listener_free_if_unused(l);
}

static void on_handle_gone(uv_handle_t *handle)
{
    struct real_listener *l = handle->data;

    l->handles--;
    listener_free_if_unused(l);
}

/* The limit may go before the connections do. */
static void close_listener(struct listener *base)
{
    struct real_listener *l = container_of(base, struct real_listener, base);

    assert(!l->closing);
    l->closing = true;
    l->net->listeners--;
    if (l->share) {
        listener_free_if_unused(l);
        return;
    }
    list_remove(&l->dealt_link);
    listener_forget_conns(base);
    uv_close((uv_handle_t *)&l->poll, on_handle_gone);
    uv_close((uv_handle_t *)&l->retry, on_handle_gone);
    close(l->fd);
    if (base->address.family == NET_UNIX)
        unlink(base->address.path); /* if it stays, the next one replaces it */
}

/* --- listening --- */

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? 0 : errno;
}

static int bind_tcp(int fd, const struct net_address *a, bool reuse_port)
{
    struct sockaddr_storage where;
    int error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);

    if (error == 0 && reuse_port)
        error = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (error == 0 && a->family == NET_IP6)
        error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_of_address(a, &where);
    socklen_t len = a->family == NET_IP6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (error == 0 && bind(fd, (struct sockaddr *)&where, len) != 0)
        error = errno;
    return error;
}

/* The file of a socket outlives a process that was killed, and then nobody could listen. */
static void remove_stale_socket(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path); /* if this fails, binding will say why */
}

static int bind_path(int fd, const struct net_address *a)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};

    static_assert(sizeof(where.sun_path) == sizeof(a->path), "any path of ours fits");
    memcpy(where.sun_path, a->path, sizeof(where.sun_path));
    remove_stale_socket(a->path);
    return bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0 ? 0 : errno;
}

static int bound_address(int fd, struct net_address *out)
{
    struct sockaddr_storage where = {0};
    socklen_t len = sizeof(where);

    if (out->family == NET_UNIX)
        return 0;
    if (getsockname(fd, (struct sockaddr *)&where, &len) != 0)
        return errno;
    return address_of_sockaddr((struct sockaddr *)&where, out) ? 0 : EINVAL;
}

/* A socket that listens, or the errno. `address` gets the port that was chosen for 0. */
static int listening_socket(struct listener *l, int *out)
{
    struct net_address *a = &l->address;
    int family = a->family == NET_UNIX ? AF_UNIX : a->family == NET_IP6 ? AF_INET6 : AF_INET;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    int error = a->family == NET_UNIX ? bind_path(fd, a) : bind_tcp(fd, a, l->options.reuse_port);
    if (error == 0 && listen(fd, (int)l->options.backlog) != 0)
        error = errno;
    if (error == 0)
        error = bound_address(fd, a);
    if (error != 0)
        close(fd);
    else
        *out = fd;
    return error;
}

static enum err listen_at(struct net *base, const struct net_address *a,
                          const struct listener_options *options, struct listener **out)
{
    struct real_net *n = real(base);
    struct real_listener *l = mem_new(struct real_listener);

    assert(!options->on_accept == options->is_dealt);
    l->net = n;
    l->failed.run = report_failure;
    l->base = (struct listener){.net = base, .options = *options, .address = *a};
    list_init(&l->base.waiting);
    list_init(&l->dealt_link);
    if (n->dealer) {
        if (!deal_join(n, l)) {
            mem_free(l);
            return ERR_NOT_FOUND;
        }
        n->listeners++;
        *out = &l->base;
        return ERR_OK;
    }
    if (l->base.options.backlog == 0)
        l->base.options.backlog = NET_BACKLOG_DEFAULT;

    int error = listening_socket(&l->base, &l->fd);
    if (error == 0 && (error = uv_poll_init(n->uv, &l->poll, l->fd)) != 0)
        close(l->fd);
    if (error != 0) {
        mem_free(l);
        return err_of_errno(error);
    }
    uv_timer_init(n->uv, &l->retry);
    l->poll.data = l->retry.data = l;
    l->handles = 2;
    n->listeners++;
    if (options->is_dealt)
        list_push_back(&n->dealt, &l->dealt_link);
    look(l);
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

static int bind_local(struct real_conn *c, enum net_family family)
{
    const struct net_address *local = &c->net->local;
    struct sockaddr_storage where;

    if (local->family == NET_NONE)
        return 0;
    if (local->family != family)
        return UV_EAFNOSUPPORT;
    sockaddr_of_address(local, &where);
    return uv_tcp_bind(&c->stream.tcp, (struct sockaddr *)&where, 0);
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
        error = bind_local(c, a->family);
        if (error == 0)
            error = uv_tcp_connect(&c->connecting, &c->stream.tcp, (struct sockaddr *)&where,
                                   on_connected);
    }
    if (error != 0)
        conn_fail(c, err_of_errno(error));
    return &c->base;
}

void real_net_open(struct real_net *n, struct real_net *dealer, uv_loop_t *uv, struct inbox *inbox)
{
    static const struct net_ops ops = {
        .listen = listen_at,
        .listener_close = close_listener,
        .listener_look = look_again,
        .connect = connect_to,
    };

    *n = (struct real_net){.base.ops = &ops, .uv = uv, .inbox = inbox, .dealer = dealer};
    list_init(&n->unsent);
    list_init(&n->late);
    list_init(&n->dealt);
    /* libuv writes to sockets without asking not to be killed when the peer has left. */
    signal(SIGPIPE, SIG_IGN);
}

void real_net_flush(struct real_net *n)
{
    for (struct list *link; (link = list_pop_front(&n->unsent));)
        conn_flush(container_of(link, struct real_conn, unsent));
}
