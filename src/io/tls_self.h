/*
 * tls_self: a certificate that nobody but itself vouches for, for who has none (--auto-tls).
 *
 * It is what etcd makes: a key of P-521, the organisation "etcd", and the hosts as its names.
 */
#pragma once

#include "base/buf.h"
#include "io/tls.h"

struct tls_self_options {
    struct tls_names hosts; /* numbers or names; empty ones do not count */
    int64_t from_s, to_s;   /* when it is good, in seconds since 1970 */
};

/* Appends both in PEM. The key is the caller's to wipe. */
void tls_self_make(const struct tls_self_options *options, struct buf *cert, struct buf *key);
