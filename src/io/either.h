/*
 * either: an address at which some are to be met by TLS and others without.
 *
 *     the address --> first byte --+-- 22, a handshake --> whoever listens at the secure door (tls)
 *                                  +-- any other       --> whoever listens at the plain one
 *
 * Two nets over another one. What is listened at by one of them alone is passed on as it comes;
 * where both listen at one address, the second does not bind it but shares it, and who connects is
 * announced at one of them when he has said his first byte.
 *
 * Promises   All of net.h's. Who says nothing is cut after EITHER_FIRST_BYTE_MS. A shared address
 *            has the limit of whoever listened there first. One door may close before the other:
 *            who comes to it then is cut.
 * Not here   Connections to others.
 */
#pragma once

#include "io/net.h"

struct io;
struct either; /* opaque */

struct either *either_open(const struct io *io);

/* To listen by. */
struct net *either_plain(struct either *e);
struct net *either_secure(struct either *e);

/* All of io, with the secure door for its net: what TLS leans on. Good until either_close. */
const struct io *either_secure_io(const struct either *e);

/* Nobody listens, and nobody's first byte is waited for. */
bool either_is_idle(const struct either *e);

/* It is idle (asserted). NULL is fine. */
void either_close(struct either *e);
