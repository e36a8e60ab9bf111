#include "auth/jwt.h"

#include "auth/tokens.h"
#include "base/base64.h"
#include "harness/jwt_keys_test.h"
#include "harness/test.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { NOW_S = 1700000000, TTL_S = 300 };

static struct jwt *open_with(enum jwt_method method, struct bytes public_key,
                             struct bytes private_key)
{
    struct buf why = {0};
    struct jwt *j = NULL;
    enum err e = jwt_open(
        &(struct jwt_options){
            .method = method, .public_key = public_key, .private_key = private_key, .ttl_s = TTL_S},
        &why, &j);

    CHECK_STR(buf_str(&why), "");
    CHECK_EQ(e, ERR_OK);
    buf_free(&why);
    return j;
}

static struct jwt *open_pair(enum jwt_method method, const struct jwt_keys *k)
{
    return open_with(method, buf_bytes(&k->public_key), buf_bytes(&k->private_key));
}

/* A secret of five letters, and whatever was signed with it. */
static struct jwt *open_hs256(void)
{
    return open_with(JWT_HS256, bytes_of(NULL, 0), BYTES("apple"));
}

static const char *refused_because(enum jwt_method method, struct bytes public_key,
                                   struct bytes private_key)
{
    static char text[256];
    struct buf why = {0};
    struct jwt *j = NULL;
    enum err e = jwt_open(
        &(struct jwt_options){
            .method = method, .public_key = public_key, .private_key = private_key, .ttl_s = TTL_S},
        &why, &j);

    CHECK_EQ(e, ERR_MALFORMED);
    CHECK(!j);
    snprintf(text, sizeof(text), "%s", buf_str(&why));
    buf_free(&why);
    return text;
}

static void sign(const struct jwt *j, const char *user, struct buf *out)
{
    buf_clear(out);
    CHECK_EQ(jwt_sign(j, bytes_of_str(user), 7, NOW_S, out), ERR_OK);
}

/* "" if it is good. */
static const char *result_of(const struct jwt *j, struct bytes token, int64_t now_s)
{
    struct jwt_claims claims = {0};
    const char *wrong = jwt_verify(j, token, now_s, &claims);

    if (wrong)
        CHECK_EQ(claims.user.len, 0);
    buf_free(&claims.user);
    return wrong ? wrong : "";
}

static void append_part(struct buf *out, const char *json)
{
    base64_encode(BASE64_URL, bytes_of_str(json), out);
}

/* A token by HMAC-SHA256, computed here and not by what is tested. */
static const char *forge(const char *secret, const char *header, const char *claims)
{
    static struct buf token;
    uint8_t mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    buf_clear(&token);
    append_part(&token, header);
    buf_append_byte(&token, '.');
    append_part(&token, claims);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), token.at, token.len, mac, &len);
    buf_append_byte(&token, '.');
    base64_encode(BASE64_URL, bytes_of(mac, len), &token);
    return buf_str(&token);
}

static const char *claims_result(const char *claims)
{
    struct jwt *j = open_hs256();
    const char *result =
        result_of(j, bytes_of_str(forge("apple", "{\"alg\":\"HS256\"}", claims)), NOW_S);

    jwt_close(j);
    return result;
}

static void check_method(enum jwt_method method, const struct jwt_keys *keys)
{
    struct jwt *j = open_pair(method, keys);
    struct buf token = {0};
    struct jwt_claims claims;

    CHECK(!jwt_is_verify_only(j));
    sign(j, "alice", &token);
    CHECK(jwt_verify(j, buf_bytes(&token), NOW_S + TTL_S - 1, &claims) == NULL);
    CHECK_BYTES(buf_bytes(&claims.user), BYTES("alice"));
    CHECK_EQ(claims.revision, 7);
    buf_free(&claims.user);
    CHECK_STR(result_of(j, buf_bytes(&token), NOW_S + TTL_S), "token is expired");
    if (keys->public_key.len > 0) {
        struct jwt *verifier = open_with(method, buf_bytes(&keys->public_key), bytes_of(NULL, 0));
        struct buf none = {0};
        CHECK(jwt_is_verify_only(verifier));
        CHECK_STR(result_of(verifier, buf_bytes(&token), NOW_S), "");
        CHECK_EQ(jwt_sign(verifier, BYTES("alice"), 7, NOW_S, &none), ERR_UNSUPPORTED);
        CHECK_EQ(none.len, 0);
        jwt_close(verifier);
    }
    /* Of each letter it matters what it is, but for bits that the last of a part has left over. */
    for (size_t i = 0; i < token.len; i++) {
        bool is_last = i + 1 == token.len || token.at[i + 1] == '.';
        uint8_t was = token.at[i];
        token.at[i] = was == 'A' ? 'Q' : 'A';
        if (!is_last && was != '.')
            CHECK(result_of(j, buf_bytes(&token), NOW_S)[0] != 0);
        token.at[i] = was;
    }
    for (size_t len = 0; len < token.len; len += 1 + len / 16)
        CHECK(result_of(j, bytes_of(token.at, len), NOW_S)[0] != 0);
    buf_free(&token);
    jwt_close(j);
}

TEST(what_was_signed_by_any_method_is_verified_and_nothing_else)
{
    struct jwt_keys rsa;

    jwt_keys_make(JWT_RS256, &rsa);
    for (enum jwt_method m = JWT_RS256; m <= JWT_PS512; m++)
        check_method(m, &rsa);
    jwt_keys_free(&rsa);
    for (enum jwt_method m = JWT_ES256; m < JWT_METHOD_COUNT; m++) {
        struct jwt_keys keys;
        jwt_keys_make(m, &keys);
        check_method(m, &keys);
        jwt_keys_free(&keys);
    }
}

TEST(a_token_of_another_key_or_method_is_nobodys)
{
    struct jwt_keys keys, others;
    struct buf token = {0};

    jwt_keys_make(JWT_ES256, &keys);
    jwt_keys_make(JWT_ES256, &others);
    struct jwt *j = open_pair(JWT_ES256, &keys), *other = open_pair(JWT_ES256, &others);
    sign(other, "root", &token);
    CHECK_STR(result_of(j, buf_bytes(&token), NOW_S), "token signature is invalid");
    CHECK_STR(result_of(other, buf_bytes(&token), NOW_S), "");

    /* The public key is known to everybody, and taken as a secret it would let anybody in. */
    struct jwt *fooled = open_with(JWT_HS256, bytes_of(NULL, 0), buf_bytes(&keys.public_key));
    buf_clear(&token);
    sign(fooled, "root", &token);
    CHECK_STR(result_of(j, buf_bytes(&token), NOW_S), "invalid signing method");

    jwt_close(fooled);
    jwt_close(other);
    jwt_close(j);
    buf_free(&token);
    jwt_keys_free(&others);
    jwt_keys_free(&keys);
}

TEST(the_method_is_the_one_that_was_configured)
{
    static const char claims[] = "{\"username\":\"root\",\"revision\":7}";
    static const struct {
        const char *header, *result;
    } cases[] = {
        {"{\"alg\":\"HS256\"}", ""},
        {"{\"\\u0061lg\":\"HS25\\u0036\", \"kid\":[1,{\"alg\":\"none\"}]}", ""},
        {"{\"alg\":\"none\",\"alg\":\"HS256\"}", ""}, /* the last counts, as in Go */
        {"{\"alg\":\"HS256\",\"alg\":\"none\"}", "invalid signing method"},
        {"{\"alg\":\"none\"}", "invalid signing method"},
        {"{\"alg\":\"None\"}", "invalid signing method"},
        {"{\"alg\":\"hs256\"}", "invalid signing method"},
        {"{\"alg\":\"HS384\"}", "invalid signing method"},
        {"{\"alg\":\"HS256\\u0000\"}", "invalid signing method"},
        {"{\"alg\":\"\"}", "invalid signing method"},
        {"{\"alg\":256}", "invalid signing method"},
        {"{\"alg\":null}", "invalid signing method"},
        {"{\"ALG\":\"HS256\"}", "invalid signing method"},
        {"{}", "invalid signing method"},
        {"null", "invalid signing method"},
        {"[\"alg\",\"HS256\"]", "invalid signing method"},
        {"{\"alg\":\"HS256\"", "invalid signing method"},
        {"{\"alg\":\"HS256\"}}", "invalid signing method"},
        {"", "invalid signing method"},
    };
    struct jwt *j = open_hs256();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_STR(result_of(j, bytes_of_str(forge("apple", cases[i].header, claims)), NOW_S),
                  cases[i].result);

    /* And without any signature, as "none" would have it. */
    struct buf token = {0};
    append_part(&token, "{\"alg\":\"none\"}");
    buf_append_byte(&token, '.');
    append_part(&token, claims);
    buf_append_byte(&token, '.');
    CHECK_STR(result_of(j, buf_bytes(&token), NOW_S), "invalid signing method");
    buf_clear(&token);
    append_part(&token, "{\"alg\":\"HS256\"}");
    buf_append_byte(&token, '.');
    append_part(&token, claims);
    CHECK_STR(result_of(j, buf_bytes(&token), NOW_S),
              "token contains an invalid number of segments");
    buf_append_byte(&token, '.');
    CHECK_STR(result_of(j, buf_bytes(&token), NOW_S), "token signature is invalid");
    buf_free(&token);
    jwt_close(j);
}

TEST(claims_are_of_their_types_and_in_time)
{
    static const struct {
        const char *claims, *result;
    } cases[] = {
        {"{\"username\":\"a\",\"revision\":7,\"exp\":1700000001}", ""},
        {"{\"username\":\"a\",\"revision\":7,\"exp\":1700000000}", "token is expired"},
        {"{\"username\":\"a\",\"revision\":7,\"exp\":1700000000.9}", "token is expired"},
        {"{\"username\":\"a\",\"revision\":7,\"exp\":1.700000001e9}", ""},
        {"{\"username\":\"a\",\"revision\":7,\"exp\":-1}", "token is expired"},
        {"{\"username\":\"a\",\"revision\":7}", ""}, /* others sign tokens without an end */
        {"{\"username\":\"a\",\"revision\":7,\"exp\":0}", ""},
        {"{\"username\":\"a\",\"revision\":7,\"exp\":\"1700000001\"}", "exp is invalid"},
        {"{\"username\":\"a\",\"revision\":7,\"exp\":null}", "exp is invalid"},
        {"{\"username\":\"a\",\"revision\":7,\"exp\":1e999}", "malformed claims"},
        {"{\"username\":\"a\",\"revision\":7,\"nbf\":1700000000}", ""},
        {"{\"username\":\"a\",\"revision\":7,\"nbf\":1700000001}", "token is not valid yet"},
        {"{\"username\":\"a\",\"revision\":7,\"nbf\":[]}", "nbf is invalid"},
        {"{\"username\":\"\",\"revision\":0}", ""}, /* which decides nothing for him: auth.h */
        {"{\"username\":7,\"revision\":7}", "no username"},
        {"{\"revision\":7}", "no username"},
        {"{\"username\":\"a\"}", "no revision"},
        {"{\"username\":\"a\",\"revision\":\"7\"}", "no revision"},
        {"{\"username\":\"a\",\"revision\":true}", "no revision"},
        {"{\"username\":\"a\",\"revision\":-1}", "no revision"},
        {"{\"username\":\"a\",\"revision\":18446744073709551616}", "no revision"},
        {"{\"username\":\"\\ud800\",\"revision\":7}", "malformed claims"},
        {"{\"username\":\"\\ud800\\u0041\",\"revision\":7}", "malformed claims"},
        {"{\"username\":\"\\udc00\",\"revision\":7}", "malformed claims"},
        {"{\"username\":\"\xff\",\"revision\":7}", "malformed claims"},
        {"null", "malformed claims"},
        {"\"username\"", "malformed claims"},
        {"7", "malformed claims"},
        {"", "malformed claims"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_STR(claims_result(cases[i].claims), cases[i].result);
}

TEST(a_name_in_claims_is_what_it_means_not_how_it_is_spelled)
{
    struct jwt *j = open_hs256();
    struct jwt_claims claims;
    const char *token = forge("apple", "{\"alg\":\"HS256\"}",
                              " {\"other\" : {\"username\":\"root\",\"a\":[\"]\\\"\"]} ,"
                              "\"username\":\"\\u003c\\n\\/\\u00e4\\u20ac\\ud83d\\ude00\","
                              "\"revision\" :12.0 } \n");

    CHECK(jwt_verify(j, bytes_of_str(token), NOW_S, &claims) == NULL);
    CHECK_BYTES(buf_bytes(&claims.user), BYTES("<\n/\u00e4\u20ac\U0001f600"));
    CHECK_EQ(claims.revision, 12);
    buf_free(&claims.user);
    jwt_close(j);
}

TEST(base64_of_tokens_is_without_padding_and_of_its_own_alphabet)
{
    struct jwt *j = open_hs256();
    struct buf token = {0}, odd = {0};
    static const char *const ends[] = {"=", "==", "+", "/", " ", "\n", ".", ".e30"};

    sign(j, "alice", &token);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        buf_clear(&odd);
        buf_append(&odd, buf_bytes(&token));
        buf_append_str(&odd, ends[i]);
        CHECK(result_of(j, buf_bytes(&odd), NOW_S)[0] != 0);
    }
    CHECK(result_of(j, BYTES(""), NOW_S)[0] != 0);
    CHECK(result_of(j, BYTES("."), NOW_S)[0] != 0);
    CHECK(result_of(j, BYTES(".."), NOW_S)[0] != 0);
    CHECK(result_of(j, BYTES("..."), NOW_S)[0] != 0);
    CHECK(result_of(j, BYTES("abcdefghijklmnop.57"), NOW_S)[0] != 0); /* a simple one */

    /* HMACs of another length, the first bytes of which are right. */
    buf_append_str(&token, "AAAA");
    CHECK_STR(result_of(j, buf_bytes(&token), NOW_S), "token signature is invalid");
    buf_clear(&odd);
    for (size_t i = 0; i <= AUTH_JWT_BYTES_MAX; i++)
        buf_append_byte(&odd, 'A');
    CHECK_STR(result_of(j, buf_bytes(&odd), NOW_S), "token is too long");
    buf_free(&odd);
    buf_free(&token);
    jwt_close(j);
}

/* RFC 7515, A.1. It is of nobody here, but its signature is found good. */
TEST(the_example_of_the_standard_is_signed_well)
{
    static const char key[] =
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    static const char token[] =
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9."
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        "cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    struct buf secret = {0};

    CHECK(base64_decode(BASE64_URL, bytes_of_str(key), &secret));
    struct jwt *j = open_with(JWT_HS256, bytes_of(NULL, 0), buf_bytes(&secret));
    CHECK_STR(result_of(j, bytes_of_str(token), 1300819379), "no username");
    CHECK_STR(result_of(j, bytes_of_str(token), 1300819380), "token is expired");
    jwt_close(j);
    buf_free(&secret);
}

TEST(keys_must_fit_the_method_and_each_other)
{
    static const char not_pem[] = "invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key";
    struct bytes none = bytes_of(NULL, 0);
    struct jwt_keys a, b, p384;

    jwt_keys_make(JWT_ES256, &a);
    jwt_keys_make(JWT_ES256, &b);
    jwt_keys_make(JWT_ES384, &p384);
    struct bytes public_a = buf_bytes(&a.public_key), private_a = buf_bytes(&a.private_key);

    CHECK_STR(refused_because(JWT_ES256, none, none), "auth: missing key data");
    CHECK_STR(refused_because(JWT_HS256, none, none), "auth: missing key data");
    CHECK_STR(refused_because(JWT_HS256, public_a, none), "auth: missing key data");
    CHECK_STR(refused_because(JWT_ES256, buf_bytes(&b.public_key), private_a),
              "auth: public and private keys don't match");
    CHECK_STR(refused_because(JWT_RS256, none, private_a), "key is not a valid RSA private key");
    CHECK_STR(refused_because(JWT_PS512, public_a, none), "key is not a valid RSA public key");
    CHECK_STR(refused_because(JWT_EdDSA, none, private_a),
              "key is not a valid Ed25519 private key");
    CHECK_STR(refused_because(JWT_ES256, private_a, none), "key is not a valid ECDSA public key");
    CHECK_STR(refused_because(JWT_ES256, none, public_a), "key is not a valid ECDSA private key");
    CHECK_STR(refused_because(JWT_ES256, none, buf_bytes(&p384.private_key)),
              "key is invalid: a ECDSA key of 384 bits does not fit the sign-method");
    CHECK_STR(refused_because(JWT_ES256, none, BYTES("no key")), not_pem);
    CHECK_STR(refused_because(JWT_ES256, BYTES("no key"), private_a), not_pem);
    CHECK_STR(refused_because(JWT_RS256, none,
                              BYTES("-----BEGIN PRIVATE KEY-----\nAAAA\n"
                                    "-----END PRIVATE KEY-----\n")),
              "key is not a valid RSA private key");
    for (size_t len = 1; len < private_a.len - 30; len += 7) /* cut off anywhere */
        CHECK(refused_because(JWT_ES256, none, bytes_of(private_a.at, len))[0] != 0);
    jwt_keys_free(&p384);
    jwt_keys_free(&b);
    jwt_keys_free(&a);
}

static const char *who_at(struct auth_tokens *t, const char *token, int64_t now_s)
{
    static char name[64];
    struct identity who;
    const char *wrong =
        auth_tokens_identify(t, bytes_of_str(token), &(struct auth_moment){.unix_s = now_s}, &who);

    auth_tokens_check(t);
    if (wrong)
        return wrong;
    CHECK(who.is_known);
    CHECK_EQ(who.auth_revision, 7);
    snprintf(name, sizeof(name), "%.*s", (int)who.user.len, (const char *)who.user.at);
    return name;
}

/* That it was good once is no reason to take it before or after its time. */
TEST(jwts_that_are_remembered_are_good_only_in_their_time)
{
    struct auth_tokens *t = auth_tokens_open_jwt(open_hs256(), test_seed());
    const char *token = forge("apple", "{\"alg\":\"HS256\"}",
                              "{\"username\":\"al\",\"revision\":7,\"nbf\":100,\"exp\":200}");

    CHECK_STR(who_at(t, token, 99), "token is not valid yet");
    CHECK_EQ(auth_tokens_count(t), 0);
    for (int64_t now_s = 100; now_s < 200; now_s += 33) {
        CHECK_STR(who_at(t, token, now_s), "al");
        CHECK_EQ(auth_tokens_count(t), 1);
    }
    CHECK_STR(who_at(t, token, 150), "al"); /* the clock was set back */
    CHECK_STR(who_at(t, token, 99), "token is not valid yet");
    CHECK_STR(who_at(t, token, 199), "al");
    CHECK_STR(who_at(t, token, 200), "token is expired");
    CHECK_EQ(auth_tokens_count(t), 0);
    auth_tokens_add(t, BYTES("simple"), 9, BYTES("al"), 0); /* as a member with such ones logs in */
    CHECK_EQ(auth_tokens_count(t), 0);
    CHECK(who_at(t, "simple.9", 150)[0] == 't');
    CHECK_STR(who_at(t, forge("apple", "{\"alg\":\"HS256\"}", "{\"username\":\"\",\"revision\":7}"),
                     INT64_MAX),
              "");
    auth_tokens_close(t);
}

TEST(only_so_many_jwts_are_remembered)
{
    struct auth_tokens *t = auth_tokens_open_jwt(open_hs256(), test_seed());

    for (unsigned i = 0; i <= AUTH_JWTS_MAX; i++) {
        struct identity who;
        char claims[64];
        snprintf(claims, sizeof(claims), "{\"username\":\"u%u\",\"revision\":7}", i);
        const char *token = forge("apple", "{\"alg\":\"HS256\"}", claims);
        CHECK(!auth_tokens_identify(t, bytes_of_str(token), &(struct auth_moment){.unix_s = 1},
                                    &who));
    }
    CHECK_EQ(auth_tokens_count(t), AUTH_JWTS_MAX);
    auth_tokens_check(t);
    auth_tokens_close(t);
}

TEST(methods_have_the_names_that_go_gives_them)
{
    CHECK_EQ(jwt_method_of(BYTES("RS256")), JWT_RS256);
    CHECK_EQ(jwt_method_of(BYTES("EdDSA")), JWT_EdDSA);
    CHECK_EQ(jwt_method_of(BYTES("none")), JWT_METHOD_COUNT);
    CHECK_EQ(jwt_method_of(BYTES("rs256")), JWT_METHOD_COUNT);
    CHECK_EQ(jwt_method_of(BYTES("")), JWT_METHOD_COUNT);
    for (enum jwt_method m = 0; m < JWT_METHOD_COUNT; m++)
        CHECK_EQ(jwt_method_of(bytes_of_str(jwt_method_name(m))), m);
}
