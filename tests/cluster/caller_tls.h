/*
 * caller_tls: a caller whose connections are made by TLS, with the certificate that members have.
 */
#pragma once

#include "base/arena.h"
#include "interop/caller.h"
#include "io/tls.h"

/* The directory is scripts/certs'; the names of its files are kept in the arena. After caller_init;
 * ERR_DENIED says why. */
MUST_CHECK enum err caller_tls_open(struct caller *c, const char *certs, struct arena *arena,
                                    struct buf *why, struct tls **out);
/* Closes all lines. Before caller_close; NULL is fine. */
void caller_tls_close(struct caller *c, struct tls *tls);
