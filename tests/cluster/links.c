#include "cluster/links.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <limits.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUEUED_BYTES_MAX = 256 * 1024 /* written to one end and not taken by it */ };

/* One connection, carried. End 0 is who connected, end 1 the member it connected to. */
struct pipe {
    struct links *links;
    struct list link;
    struct pipe_end {
        struct pipe *pipe;
        struct conn *conn; /* NULL when it is gone */
        bool has_ended;    /* it sends no more, and the other has been told */
    } ends[2];
    unsigned from, to;
    bool has_lost; /* bytes */
};

/* Bytes on their way to one end. */
struct parcel {
    struct conn_write write;
    struct bytes piece;
    struct pipe *pipe;
    uint8_t data[];
};

/* --- who is it? --- */

/* The inode of the socket at the other end of a connection to our port; 0 if there is none. */
static unsigned inode_of(struct links *l, uint16_t its_port, uint16_t our_port)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 ask;
    } request = {
        .header = {sizeof(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0},
        .ask = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = UINT32_MAX},
    };
    struct {
        struct nlmsghdr header;
        struct inet_diag_msg said;
        char more[4096];
    } reply;

    request.ask.id.idiag_sport = htons(its_port);
    request.ask.id.idiag_dport = htons(our_port);
    request.ask.id.idiag_src[0] = request.ask.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
    request.ask.id.idiag_cookie[0] = request.ask.id.idiag_cookie[1] = (uint32_t)INET_DIAG_NOCOOKIE;
    if (send(l->diag_fd, &request, sizeof(request), 0) != (ssize_t)sizeof(request))
        return 0;
    ssize_t len = recv(l->diag_fd, &reply, sizeof(reply), 0);
    if (len < (ssize_t)(sizeof(reply.header) + sizeof(reply.said)) ||
        reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return 0; /* it has gone already */
    return reply.said.idiag_inode;
}

static bool has_socket(pid_t pid, unsigned inode)
{
    char path[64], name[64], fd[64 + NAME_MAX + 2], target[64];
    bool found = false;
    const struct dirent *entry;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    snprintf(name, sizeof(name), "socket:[%u]", inode);
    DIR *dir = opendir(path);
    while (dir && !found && (entry = readdir(dir))) {
        snprintf(fd, sizeof(fd), "%s/%s", path, entry->d_name);
        ssize_t len = readlink(fd, target, sizeof(target) - 1);
        if (len <= 0)
            continue;
        target[len] = 0;
        found = strcmp(target, name) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Which member has connected; false if it is gone, or none. */
static bool find_member(struct links *l, const struct conn *c, uint16_t our_port, unsigned *out)
{
    struct net_address remote;

    if (net_address_parse(conn_info(c)->remote, &remote) != ERR_OK)
        return false;
    unsigned inode = inode_of(l, remote.port, our_port);
    for (*out = 0; inode != 0 && *out < l->fleet->count; (*out)++)
        if (l->fleet->members[*out].pid > 0 && has_socket(l->fleet->members[*out].pid, inode))
            return true;
    return false;
}

/* --- carrying --- */

static struct pipe_end *other_end(struct pipe_end *e)
{
    return e == &e->pipe->ends[0] ? &e->pipe->ends[1] : &e->pipe->ends[0];
}

/* Of what this end sends. */
static enum link_state state_of(const struct pipe_end *e)
{
    const struct pipe *p = e->pipe;

    return e == &p->ends[0] ? p->links->state[p->from][p->to] : p->links->state[p->to][p->from];
}

/* Do bytes vanish that this end sends? */
static bool drops(const struct pipe_end *e)
{
    return state_of(e) == LINK_DROPPED || e->pipe->links->has_hole[e->pipe->to];
}

static void pipe_close(struct pipe *p)
{
    for (unsigned i = 0; i < 2; i++)
        if (p->ends[i].conn)
            conn_close(p->ends[i].conn, ERR_CANCELED);
}

/* Is it read, as things are? */
static void end_adjust(struct pipe_end *e)
{
    const struct pipe_end *to = other_end(e);

    if (!e->conn || !to->conn)
        return;
    bool waits =
        state_of(e) == LINK_STALLED || conn_queued_bytes(to->conn) > (size_t)QUEUED_BYTES_MAX;
    if (waits)
        conn_pause(e->conn);
    else
        conn_resume(e->conn);
}

static void on_parcel_done(struct conn_write *w, enum err err)
{
    struct parcel *parcel = container_of(w, struct parcel, write);
    struct pipe *p = parcel->pipe;

    mem_free(parcel);
    if (err != ERR_OK)
        return; /* that end is closing */
    end_adjust(&p->ends[0]);
    end_adjust(&p->ends[1]);
}

static void on_data(struct conn *c, struct bytes data)
{
    struct pipe_end *e = c->context, *to = other_end(e);

    if (drops(e)) {
        e->pipe->has_lost = true;
        return;
    }
    if (!to->conn)
        return; /* this end is closing, too */
    struct parcel *parcel = mem_alloc(sizeof(*parcel) + data.len);
    memcpy(parcel->data, data.at, data.len);
    parcel->piece = bytes_of(parcel->data, data.len);
    parcel->pipe = e->pipe;
    parcel->write =
        (struct conn_write){.pieces = &parcel->piece, .piece_count = 1, .on_done = on_parcel_done};
    e->pipe->links->bytes += data.len;
    conn_write(to->conn, &parcel->write);
    end_adjust(e);
}

static void on_end(struct conn *c)
{
    struct pipe_end *e = c->context, *to = other_end(e);

    e->has_ended = true;
    if (to->has_ended)
        pipe_close(e->pipe);
    else if (state_of(e) != LINK_DROPPED && to->conn)
        conn_shutdown(to->conn);
}

static void on_closed(struct conn *c, enum err reason)
{
    struct pipe_end *e = c->context;
    struct pipe *p = e->pipe;

    (void)reason;
    e->conn = NULL;
    pipe_close(p);
    if (p->ends[0].conn || p->ends[1].conn)
        return;
    list_remove(&p->link);
    mem_free(p);
}

static const struct conn_handlers handlers = {
    .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void on_accept(struct listener *listener, struct conn *c)
{
    struct links_port *port = listener->options.context;
    struct links *l = port->links;
    unsigned to = (unsigned)(port - l->ports), from = 0;
    bool is_known = find_member(l, c, listener->address.port, &from);

    l->strangers += !is_known;
    if (!is_known || l->state[from][to] == LINK_CUT) {
        conn_close(c, ERR_CANCELED);
        return;
    }
    struct pipe *p = mem_new(struct pipe);
    *p = (struct pipe){.links = l, .from = from, .to = to};
    p->ends[0] = (struct pipe_end){.pipe = p, .conn = c};
    p->ends[1] = (struct pipe_end){.pipe = p};
    list_init(&p->link);
    list_push_back(&l->pipes, &p->link);
    l->carried++;
    p->ends[1].conn =
        net_connect(l->io->net, &l->fleet->members[to].peer_address, &handlers, &p->ends[1]);
    conn_accept(c, &handlers, &p->ends[0]);
    end_adjust(&p->ends[0]);
    end_adjust(&p->ends[1]);
}

/* --- all of them --- */

enum err links_open(struct links *l, const struct io *io, struct fleet *fleet)
{
    *l = (struct links){.io = io, .fleet = fleet};
    list_init(&l->pipes);
    l->diag_fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (l->diag_fd < 0)
        return ERR_UNSUPPORTED;
    for (unsigned i = 0; i < fleet->count; i++) {
        struct net_address any = fleet->members[i].peer_address;
        struct listener_options options = {.on_accept = on_accept, .context = &l->ports[i]};
        any.port = 0;
        l->ports[i].links = l;
        enum err e = net_listen(io->net, &any, &options, &l->ports[i].listener);
        if (e != ERR_OK) {
            links_close(l);
            return e;
        }
        fleet->members[i].advertised_port = l->ports[i].listener->address.port;
    }
    return ERR_OK;
}

void links_close(struct links *l)
{
    for (unsigned i = 0; i < l->fleet->count; i++)
        if (l->ports[i].listener)
            listener_close(l->ports[i].listener);
    LIST_FOREACH (link, &l->pipes)
        pipe_close(container_of(link, struct pipe, link));
    close(l->diag_fd);
}

bool links_are_closed(const struct links *l)
{
    return list_empty(&l->pipes);
}

/* Is there anything about this pipe that cannot go on with the link as it is now? */
static bool must_close(const struct pipe *p)
{
    bool is_cut = state_of(&p->ends[0]) == LINK_CUT || state_of(&p->ends[1]) == LINK_CUT;

    return is_cut || (p->has_lost && !drops(&p->ends[0]) && !drops(&p->ends[1]));
}

static void adjust_pipes(struct links *l)
{
    LIST_FOREACH (link, &l->pipes) {
        struct pipe *p = container_of(link, struct pipe, link);
        if (must_close(p))
            pipe_close(p);
        end_adjust(&p->ends[0]);
        end_adjust(&p->ends[1]);
    }
}

void links_set(struct links *l, unsigned from, unsigned to, enum link_state state)
{
    l->state[from][to] = state;
    if (state == LINK_CUT || l->state[to][from] == LINK_CUT)
        l->state[to][from] = state;
    adjust_pipes(l);
}

void links_set_hole(struct links *l, unsigned member, bool has_hole)
{
    l->has_hole[member] = has_hole;
    adjust_pipes(l);
}

void links_set_all(struct links *l, enum link_state state)
{
    for (unsigned from = 0; from < l->fleet->count; from++)
        for (unsigned to = 0; to < l->fleet->count; to++)
            if (from != to)
                links_set(l, from, to, state);
}
