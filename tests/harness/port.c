#include "harness/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    LOWEST = 10000,
    LOWEST_OF_CONNECTIONS = 32768, /* where the kernel does not say */
    WIDTH_MIN = 1000,
};

/* From here on the kernel takes ports for connections. */
static uint16_t end_of_range(void)
{
    char line[64] = "";
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

    if (f) {
        if (!fgets(line, sizeof(line), f))
            line[0] = 0;
        fclose(f);
    }
    unsigned long said = strtoul(line, NULL, 10);
    bool is_usable = said >= LOWEST + WIDTH_MIN && said <= UINT16_MAX;
    return is_usable ? (uint16_t)said : LOWEST_OF_CONNECTIONS;
}

/* A name that at most one process holds, and that goes with it however it ends. */
static bool hold(uint16_t port)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int len = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "cleat-test-port-%u", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    if (bind(fd, (struct sockaddr *)&a, size) == 0)
        return true;
    close(fd);
    return false;
}

/* As a server binds it: connections of before that linger do not count. */
static bool is_free(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
              bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0;
    close(fd);
    return ok;
}

uint16_t port_take(void)
{
    unsigned width = end_of_range() - LOWEST;
    unsigned first = (unsigned)getpid() * 16;

    /* Held first: two who look at once would both find it free. One that is held and not free stays
     * so: somebody else is there. */
    for (unsigned i = 0; i < width; i++) {
        uint16_t port = (uint16_t)(LOWEST + (first + i) % width);
        if (hold(port) && is_free(port))
            return port;
    }
    errno = EADDRINUSE;
    return 0;
}
