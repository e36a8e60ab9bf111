/* Connections that say nothing, or little, and handshakes that come to nothing. */
#include "cluster/attacks_int.h"

#include "base/assert.h"
#include "base/mem.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    SILENT_PEERS = 1100,
    SILENT_PROBES = 40,
    REOPENED_AT_ONCE = 50, /* of silent connections, in a turn of 50 ms */
    DRIBBLERS = 20,
    DRIBBLE_MS = 3500,
};

static bool is_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

/* So many, and as many again as are closed. Each step a byte is sent on all of them, if there are
 * any. */
static void hold_open(struct attacker *a, uint16_t port, unsigned count, const char *said,
                      unsigned each_ms)
{
    int *fds = mem_alloc_array(count, sizeof(*fds));
    unsigned waited_ms = 0;
    size_t at = 0;

    memset(fds, -1, count * sizeof(*fds));
    for (;; attacker_pause_ms(50), waited_ms += 50) {
        unsigned reopened = 0;
        for (unsigned i = 0; i < count && reopened < REOPENED_AT_ONCE; i++) {
            if (fds[i] >= 0 && !is_closed(fds[i]))
                continue;
            if (fds[i] >= 0)
                close(fds[i]);
            fds[i] = raw_h2_socket(port);
            reopened++;
            attacker_made(a);
        }
        if (!said || waited_ms < each_ms)
            continue;
        waited_ms = 0;
        for (unsigned i = 0; i < count; i++)
            if (fds[i] >= 0)
                (void)!send(fds[i], said + at % strlen(said), 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        at++;
    }
}

void attack_by_silent_peers(struct attacker *a)
{
    hold_open(a, a->ports.peer, SILENT_PEERS, NULL, 0);
}

void attack_by_silent_probes(struct attacker *a)
{
    hold_open(a, a->ports.metrics, SILENT_PROBES, NULL, 0);
}

/* A record of TLS that would be 512 bytes long, if it ever came. */
void attack_by_dribblers(struct attacker *a)
{
    hold_open(a, a->ports.peer, DRIBBLERS, "\x16\x03\x01\x02", DRIBBLE_MS);
}

/* --- handshakes --- */

void attack_by_broken_handshakes(struct attacker *a)
{
    const uint16_t ports[] = {a->ports.client, a->ports.peer};
    uint8_t garbage[600] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    SSL_CTX *nobody = SSL_CTX_new(TLS_client_method());

    for (unsigned i = 0;; i++, attacker_pause_ms(20)) {
        int fd = raw_h2_socket(ports[i % ARRAY_LEN(ports)]);
        if (fd < 0)
            continue;
        struct timeval patience = {.tv_sec = 1};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        if (i % 4 < 2) { /* no certificate */
            SSL *ssl = SSL_new(nobody);
            uint8_t byte;
            if (SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1)
                (void)SSL_read(ssl, &byte, 1);
            SSL_free(ssl);
        } else {
            garbage[20 + i % 500]++;
            (void)!send(fd, garbage, sizeof(garbage) - i % 300, MSG_NOSIGNAL);
        }
        close(fd);
        attacker_made(a);
    }
}
