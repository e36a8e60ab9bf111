/*
 * jwt_keys: keys for JWTs, made when a test needs them.
 *
 * PEM, PKIX and PKCS #8, as `openssl genpkey` writes them; of HS the secret is the private one, and
 * there is no public one. RSA keys take a while to make: a test has one, whatever it signs.
 */
#pragma once

#include "auth/jwt.h"

struct jwt_keys {
    struct buf public_key, private_key;
};

void jwt_keys_make(enum jwt_method method, struct jwt_keys *out);
/* As the files "public" and "private" of the test's directory. */
void jwt_keys_write(const struct jwt_keys *k);
void jwt_keys_free(struct jwt_keys *k);
