/*
 * Any bytes as a token, as claims, as a key file, and as a user's name.
 *
 * Beyond not crashing: nobody guesses a secret, so no token is good but those that were signed
 * here; and a name comes back out of a token as it went in, if it is one that JSON can say.
 */
#include "auth/claims.h"
#include "auth/jwt.h"
#include "base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct jwt *open_key(enum jwt_method method, struct bytes public_key,
                            struct bytes private_key)
{
    struct buf why = {0};
    struct jwt *j = NULL;
    enum err e = jwt_open(
        &(struct jwt_options){
            .method = method, .public_key = public_key, .private_key = private_key, .ttl_s = 5},
        &why, &j);

    assert((e == ERR_OK) == (j != NULL) && (e == ERR_OK) == (why.len == 0));
    buf_free(&why);
    return j;
}

static void check_claims(struct bytes json)
{
    struct claim wanted[] = {{.name = "username"}, {.name = "exp"}};

    if (claims_read(json, wanted, 2) && wanted[0].kind == CLAIM_TEXT)
        assert(bytes_are_utf8(buf_bytes(&wanted[0].text)));
    claims_free(wanted, 2);
}

static void check_name(const struct jwt *j, struct bytes name)
{
    struct buf token = {0};
    struct jwt_claims claims = {0};
    enum err e = jwt_sign(j, name, 7, 1000, &token);
    const char *wrong = jwt_verify(j, buf_bytes(&token), 1004, &claims);

    assert(e == ERR_OK);
    assert(!wrong == (token.len <= AUTH_JWT_BYTES_MAX));
    if (!wrong && bytes_are_utf8(name))
        assert(bytes_equal(buf_bytes(&claims.user), name));
    buf_free(&claims.user);
    buf_free(&token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size), none = bytes_of(NULL, 0);
    struct jwt *j = open_key(JWT_HS256, none, BYTES("nobody guesses this"));
    struct jwt_claims claims;

    const char *wrong = jwt_verify(j, input, 1000, &claims);
    assert(wrong);
    check_claims(input);
    check_name(j, input);
    jwt_close(j);
    jwt_close(open_key(JWT_ES256, none, input));
    jwt_close(open_key(JWT_RS256, input, none));
    jwt_close(open_key(JWT_EdDSA, input, none));
    return 0;
}
