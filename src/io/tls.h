/*
 * tls: connections whose bytes nobody else can read, or change.
 *
 * A net (net.h) on top of another one. Those above listen and connect by it as by any other, and
 * what they get is a conn like any other: one that comes in is announced when its handshake is
 * over, with the names of the certificate it was verified by in conn_info.
 *
 *     rpc, http    conn_write, conn_try_write            on_data, on_end
 *                          |                                  ^
 *     tls          records of up to 16 KiB  ------------  records, looked at in place
 *                          v                                  |
 *     net          conn_try_write; what is left, conn_write   on_data
 *
 * A handshake costs a millisecond of computing, too much for the turn: each step of one is a job of
 * io->handshakes, which owns the connection's SSL until it reports. The first step of whoever
 * connects is made when he has sent a whole record. Few of them are submitted at a time, the
 * others wait in order. Of connections that shake hands TLS_HANDSHAKES_MAX are under way; beyond
 * that one that has kept us waiting is cut, or if none has, newcomers are not read until there is
 * space. So a thousand of them that never finish delay the others, and end nobody's turn.
 *
 * Promises   1. All of net.h's. A write is done when the kernel has the record with its last byte.
 *            2. conn_try_write encrypts no more than the kernel takes, and the rest of one record.
 *               An idle connection costs at most 40 KB, and no buffer.
 *            3. TLS 1.2 and 1.3 alone; renegotiation is refused. A connection that ends without
 *               saying so (close_notify) ends by ERR_RESET, not by on_end: bytes may be missing.
 *            4. Certificate and key are read again for each handshake, as etcd does, so that they
 *               can be replaced under load; unreadable ones fail that handshake alone. The
 *               certificates of those we trust are read once. A list of revoked ones is read for
 *               each connection.
 *            5. Who comes again may resume his session (by a ticket: nothing is kept here), but
 *               what his certificate must not be (expired, another's) is checked anew. Where there
 *               is a list of revoked ones nobody does: a ticket does not say who has signed it.
 * Not here   Which addresses are listened on, who may do what (the server, api).
 * Leans on   OpenSSL 3, whose one door io/tls*.c is. The simulator has no TLS.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "io/net.h"

struct io;
struct logger;
struct tls; /* opaque */

enum tls_version { TLS_VERSION_ANY, TLS_VERSION_1_2, TLS_VERSION_1_3 };

struct tls_names {
    const struct bytes *at;
    size_t count;
};

/* Texts are lent until tls_close; NULL or empty: none. */
struct tls_options {
    const struct io *io;
    const struct logger *logger;
    const char *rejected; /* what the log says of a connection that failed to get in */

    const char *cert_file, *key_file;                /* PEM: ours, the whole chain */
    const char *dial_cert_file, *dial_key_file;      /* for connections we make, if another */
    const char *trusted_ca_file;                     /* PEM; none: the system's */
    bool requires_cert;                              /* of whoever connects */
    bool trusts_anybody;                             /* we connect to */
    struct tls_names allowed_hostnames, allowed_cns; /* whoever it is with has one of these */
    bool checks_address; /* of whoever connects with a certificate: it has to be in there, or one of
                            its names; nameservers are asked, within the time of a handshake */
    const char *crl_file;    /* DER */
    struct tls_names suites; /* of TLS 1.2, by Go's names; none: Go's */
    enum tls_version min, max;
    bool offers_h2;   /* and http/1.1; otherwise http/1.1 alone */
    bool asks_for_h2; /* of whom we connect to, and nothing else; otherwise for no protocol */
};

/* Does etcd know a suite by this name? */
bool tls_suite_is_known(struct bytes name);

/* False: one of the files is not as it should be, as *why says in Go's words. */
MUST_CHECK bool tls_open(const struct tls_options *options, struct buf *why, struct tls **out);

/* To listen on and connect by; what answers there has a certificate for its address. */
struct net *tls_net(struct tls *t);

/* The same with a certificate for this name, or address. */
struct conn *tls_connect(struct tls *t, const struct net_address *a, const char *host,
                         const struct conn_handlers *on, void *context);

/* No listener, no connection, and no nameserver is asked: they have all gone. */
bool tls_is_idle(const struct tls *t);

/* It is idle (asserted). NULL is fine. */
void tls_close(struct tls *t);

void tls_check(const struct tls *t);
