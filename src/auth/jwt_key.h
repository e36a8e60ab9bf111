/*
 * jwt_key: keys, and what they sign; for jwt.c alone.
 *
 * A key is of one method, and made only if it fits: an RSA key of at least 1024 bits for RS and PS,
 * a key of the method's own curve for ES (where etcd finds that out when somebody logs in), an
 * Ed25519 one for EdDSA, any bytes for HS. Files are PEM, and of one the first block counts,
 * whatever it is called: private keys as PKCS #1, SEC 1 or PKCS #8; public ones as PKIX, PKCS #1 or
 * within a certificate.
 *
 * Leans on   OpenSSL, whose other door this is (io/tls.h has the first).
 */
#pragma once

#include "auth/jwt.h"

struct jwt_key; /* opaque */

MUST_CHECK enum err jwt_key_open(const struct jwt_options *o, struct buf *why,
                                 struct jwt_key **out);
void jwt_key_close(struct jwt_key *k); /* NULL is fine */

bool jwt_key_is_public(const struct jwt_key *k);

/* Appends the signature. ERR_UNSUPPORTED: it is a public key, or OpenSSL would not. */
MUST_CHECK enum err jwt_key_sign(const struct jwt_key *k, struct bytes text, struct buf *out);
bool jwt_key_verify(const struct jwt_key *k, struct bytes text, struct bytes signature);
