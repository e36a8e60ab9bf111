#include "auth/jwt.h"

#include "auth/claims.h"
#include "auth/jwt_key.h"
#include "base/assert.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/mem.h"

struct jwt {
    struct jwt_key *key;
    enum jwt_method method;
    int64_t ttl_s;
};

#define JWT_METHOD_NAME(name) [JWT_##name] = #name,
static const char *const names[JWT_METHOD_COUNT] = {JWT_METHOD_LIST(JWT_METHOD_NAME)};
#undef JWT_METHOD_NAME

const char *jwt_method_name(enum jwt_method method)
{
    assert(method < JWT_METHOD_COUNT);
    return names[method];
}

enum jwt_method jwt_method_of(struct bytes name)
{
    enum jwt_method m = 0;

    while (m < JWT_METHOD_COUNT && !bytes_equal(bytes_of_str(names[m]), name))
        m++;
    return m;
}

enum err jwt_open(const struct jwt_options *options, struct buf *why, struct jwt **out)
{
    struct jwt_key *key;
    enum err e = jwt_key_open(options, why, &key);

    if (e != ERR_OK)
        return e;
    *out = mem_new(struct jwt);
    **out = (struct jwt){.key = key, .method = options->method, .ttl_s = options->ttl_s};
    return ERR_OK;
}

void jwt_close(struct jwt *j)
{
    if (!j)
        return;
    jwt_key_close(j->key);
    mem_free(j);
}

bool jwt_is_verify_only(const struct jwt *j)
{
    return jwt_key_is_public(j->key);
}

/* --- signing --- */

/* Names in order, as Go writes a map. */
static void append_header(const struct jwt *j, struct buf *out)
{
    struct buf text = {0};
    struct json json = {.out = &text};

    json_begin_object(&json, NULL);
    json_put_str(&json, "alg", jwt_method_name(j->method));
    json_put_str(&json, "typ", "JWT");
    json_end_object(&json);
    base64_encode(BASE64_URL, buf_bytes(&text), out);
    buf_free(&text);
}

static void append_claims(struct bytes user, uint64_t revision, int64_t ends_s, struct buf *out)
{
    struct buf text = {0};
    struct json json = {.out = &text};

    json_begin_object(&json, NULL);
    json_put_signed(&json, "exp", ends_s);
    json_put_number(&json, "revision", revision);
    json_put_text(&json, "username", user);
    json_end_object(&json);
    base64_encode(BASE64_URL, buf_bytes(&text), out);
    buf_free(&text);
}

static int64_t end_of(int64_t now_s, int64_t ttl_s)
{
    int64_t ends_s;

    if (__builtin_add_overflow(now_s, ttl_s, &ends_s))
        return ttl_s > 0 ? INT64_MAX : INT64_MIN;
    return ends_s;
}

enum err jwt_sign(const struct jwt *j, struct bytes user, uint64_t revision, int64_t now_s,
                  struct buf *out)
{
    struct buf text = {0}, signature = {0};

    append_header(j, &text);
    buf_append_byte(&text, '.');
    append_claims(user, revision, end_of(now_s, j->ttl_s), &text);
    enum err e = jwt_key_sign(j->key, buf_bytes(&text), &signature);
    if (e == ERR_OK) {
        buf_append(out, buf_bytes(&text));
        buf_append_byte(out, '.');
        base64_encode(BASE64_URL, buf_bytes(&signature), out);
    }
    buf_free(&text);
    buf_free(&signature);
    return e;
}

/* --- verifying --- */

struct parts {
    struct bytes header, claims, signature;
    struct bytes is_signed; /* the first two, and the dot between them */
};

/* Up to the next dot, which goes too; false: there is none. */
static bool take_part(struct bytes *rest, struct bytes *out)
{
    const uint8_t *dot = rest->len > 0 ? memchr(rest->at, '.', rest->len) : NULL;

    if (!dot)
        return false;
    *out = bytes_of(rest->at, (size_t)(dot - rest->at));
    *rest = bytes_of(dot + 1, rest->len - out->len - 1);
    return true;
}

static bool split(struct bytes token, struct parts *out)
{
    struct bytes rest = token, more;

    if (!take_part(&rest, &out->header) || !take_part(&rest, &out->claims))
        return false;
    out->is_signed = bytes_of(token.at, out->header.len + 1 + out->claims.len);
    out->signature = rest;
    return !take_part(&rest, &more);
}

static bool is_of_method(const struct jwt *j, struct bytes header)
{
    struct claim alg = {.name = "alg"};
    struct buf json = {0};
    bool is_good = base64_decode(BASE64_URL, header, &json) &&
                   claims_read(buf_bytes(&json), &alg, 1) && alg.kind == CLAIM_TEXT &&
                   bytes_equal(buf_bytes(&alg.text), bytes_of_str(jwt_method_name(j->method)));

    claims_free(&alg, 1);
    buf_free(&json);
    return is_good;
}

static bool is_signed_well(const struct jwt *j, const struct parts *p)
{
    struct buf signature = {0};
    bool is_good = base64_decode(BASE64_URL, p->signature, &signature) &&
                   jwt_key_verify(j->key, p->is_signed, buf_bytes(&signature));

    buf_free(&signature);
    return is_good;
}

/*
 * As golang-jwt has it: a time that is absent or 0 bounds nothing, since others than we may sign
 * tokens, too; parts of a second do not count.
 */
static const char *check_times(const struct claim *ends, const struct claim *begins, int64_t now_s)
{
    double next_s = (double)now_s + 1;

    if (ends->kind != CLAIM_ABSENT && ends->kind != CLAIM_NUMBER)
        return "exp is invalid";
    if (begins->kind != CLAIM_ABSENT && begins->kind != CLAIM_NUMBER)
        return "nbf is invalid";
    if (ends->kind == CLAIM_NUMBER && ends->number != 0 && ends->number < next_s)
        return "token is expired";
    if (begins->kind == CLAIM_NUMBER && begins->number >= next_s)
        return "token is not valid yet";
    return NULL;
}

/* Of one that was found good, so it is not before now. */
static int64_t whole_seconds(const struct claim *ends)
{
    bool is_bound = ends->kind == CLAIM_NUMBER && ends->number != 0 && ends->number < 0x1p63;

    return is_bound ? (int64_t)ends->number : INT64_MAX;
}

enum { USERNAME, REVISION, EXP, NBF, CLAIM_COUNT };

static const char *check_claims(struct claim *c, int64_t now_s, struct jwt_claims *out)
{
    const char *wrong = check_times(&c[EXP], &c[NBF], now_s);

    if (wrong)
        return wrong;
    if (c[USERNAME].kind != CLAIM_TEXT)
        return "no username";
    if (c[REVISION].kind != CLAIM_NUMBER || c[REVISION].number < 0 || c[REVISION].number >= 0x1p64)
        return "no revision";
    *out = (struct jwt_claims){.user = c[USERNAME].text,
                               .revision = (uint64_t)c[REVISION].number,
                               .ends_s = whole_seconds(&c[EXP])};
    c[USERNAME].text = (struct buf){0}; /* the caller's by now */
    return NULL;
}

static const char *read_claims(struct bytes claims, int64_t now_s, struct jwt_claims *out)
{
    struct claim wanted[CLAIM_COUNT] = {[USERNAME] = {.name = "username"},
                                        [REVISION] = {.name = "revision"},
                                        [EXP] = {.name = "exp"},
                                        [NBF] = {.name = "nbf"}};
    struct buf json = {0};
    const char *wrong = "malformed claims";

    if (base64_decode(BASE64_URL, claims, &json) &&
        claims_read(buf_bytes(&json), wanted, CLAIM_COUNT))
        wrong = check_claims(wanted, now_s, out);
    claims_free(wanted, CLAIM_COUNT);
    buf_free(&json);
    return wrong;
}

const char *jwt_verify(const struct jwt *j, struct bytes token, int64_t now_s,
                       struct jwt_claims *out)
{
    struct parts parts;

    if (token.len > AUTH_JWT_BYTES_MAX)
        return "token is too long";
    if (!split(token, &parts))
        return "token contains an invalid number of segments";
    if (!is_of_method(j, parts.header))
        return "invalid signing method";
    if (!is_signed_well(j, &parts))
        return "token signature is invalid";
    return read_claims(parts.claims, now_s, out);
}
