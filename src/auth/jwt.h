/*
 * jwt: tokens that say themselves whose they are, and that somebody we trust has signed.
 *
 *     header . claims . signature       each in base64 for URLs, without padding
 *
 *     {"alg":"RS256","typ":"JWT"}
 *     {"exp":1700000000,"revision":7,"username":"alice"}
 *
 * Nothing is remembered of them: whoever has the key may verify them, after a restart, too, and
 * nobody can take one back before its time. What does end them is any change of users and roles:
 * `revision` is that of the tables when it was signed, and older ones are refused where it is
 * decided who may (auth.h).
 *
 * With the public key alone tokens are verified, and none is given out.
 *
 * Promises   1. `alg` is compared with the method that was configured before anything is computed,
 *               and the key is known to fit that method. So neither "none" nor a public key taken
 *               for a secret gets anybody in.
 *            2. What is between the dots is looked at as a claim only after its signature is found
 *               good. HMACs are compared in constant time.
 *            3. A token of more than AUTH_JWT_BYTES_MAX is nobody's.
 * Not here   Where keys are read from (server); what a revision is compared with (auth.h).
 * Leans on   OpenSSL, by jwt_key.h; base. Time comes in, as seconds of the wall clock.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

/* As golang-jwt names them. */
#define JWT_METHOD_LIST(X)                                                                         \
    X(RS256)                                                                                       \
    X(RS384)                                                                                       \
    X(RS512)                                                                                       \
    X(PS256)                                                                                       \
    X(PS384)                                                                                       \
    X(PS512)                                                                                       \
    X(ES256)                                                                                       \
    X(ES384)                                                                                       \
    X(ES512)                                                                                       \
    X(HS256)                                                                                       \
    X(HS384)                                                                                       \
    X(HS512)                                                                                       \
    X(EdDSA)

#define JWT_METHOD_ENUM(name) JWT_##name,
enum jwt_method { JWT_METHOD_LIST(JWT_METHOD_ENUM) JWT_METHOD_COUNT };
#undef JWT_METHOD_ENUM

const char *jwt_method_name(enum jwt_method method);
/* JWT_METHOD_COUNT: there is none of that name. */
enum jwt_method jwt_method_of(struct bytes name);

struct jwt; /* opaque */

struct jwt_options {
    enum jwt_method method;
    struct bytes public_key, private_key; /* what is in the files; empty: not given */
    int64_t ttl_s;                        /* negative: what is signed has ended before */
};

/* ERR_MALFORMED: and `why` says it, where etcd has words for it in those. The caller ends *out with
 * jwt_close. */
MUST_CHECK enum err jwt_open(const struct jwt_options *options, struct buf *why, struct jwt **out);
void jwt_close(struct jwt *j); /* NULL is fine */

bool jwt_is_verify_only(const struct jwt *j);

/* Appends a token. ERR_UNSUPPORTED: the key did not sign, as a verify-only one never does. */
MUST_CHECK enum err jwt_sign(const struct jwt *j, struct bytes user, uint64_t revision,
                             int64_t now_s, struct buf *out);

struct jwt_claims {
    struct buf user; /* the caller frees it */
    uint64_t revision;
    int64_t ends_s; /* good before that; INT64_MAX: for ever */
};

/* NULL: it is good, and *out says whose. Else what is wrong with it, for the log alone. */
const char *jwt_verify(const struct jwt *j, struct bytes token, int64_t now_s,
                       struct jwt_claims *out);
