#include "cluster/probe.h"

#include "base/assert.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void over(struct probe *p, enum probe_state how)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->state = how;
}

bool probe_is_under_way(const struct probe *p)
{
    return p->state == PROBE_CONNECTING || p->state == PROBE_READING;
}

void probe_end(struct probe *p)
{
    if (probe_is_under_way(p))
        over(p, PROBE_IDLE);
}

void probe_begin(struct probe *p, uint16_t port, const char *path, uint64_t now_ns,
                 uint64_t timeout_ns)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};

    assert(!probe_is_under_way(p));
    *p = (struct probe){.state = PROBE_CONNECTING,
                        .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                        .path = path,
                        .began_ns = now_ns,
                        .until_ns = now_ns + timeout_ns};
    if (p->fd < 0 ||
        (connect(p->fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS))
        over(p, PROBE_BAD);
}

static void ask(struct probe *p)
{
    char request[128];
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", p->path);

    ssize_t sent = send(p->fd, request, (size_t)len, MSG_NOSIGNAL);
    if (sent == len)
        p->state = PROBE_READING;
    else if (sent >= 0 || (errno != EAGAIN && errno != ENOTCONN))
        over(p, PROBE_BAD);
}

static void read_some(struct probe *p)
{
    ssize_t got = recv(p->fd, p->answer + p->answered, sizeof(p->answer) - 1 - p->answered, 0);

    if (got > 0)
        p->answered += (unsigned)got;
    if (strstr(p->answer, "\r\n"))
        over(p, strncmp(p->answer, "HTTP/1.1 200 ", 13) == 0 ? PROBE_GOOD : PROBE_BAD);
    else if (got == 0 || (got < 0 && errno != EAGAIN))
        over(p, PROBE_BAD);
}

enum probe_state probe_look(struct probe *p, uint64_t now_ns)
{
    if (p->state == PROBE_CONNECTING)
        ask(p);
    if (p->state == PROBE_READING)
        read_some(p);
    if (probe_is_under_way(p) && now_ns >= p->until_ns)
        over(p, PROBE_BAD);
    return p->state;
}
