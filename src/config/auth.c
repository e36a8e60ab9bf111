#include "config/auth.h"

#include "config/value.h"

#include <string.h>

static const int64_t DEFAULT_JWT_TTL_S = 5 * 60;

struct option {
    struct bytes name, value;
};

enum { SIGN_METHOD, PUB_KEY, PRIV_KEY, TTL, KNOWN_COUNT };
static const char *const known[KNOWN_COUNT] = {
    [SIGN_METHOD] = "sign-method", [PUB_KEY] = "pub-key", [PRIV_KEY] = "priv-key", [TTL] = "ttl"};

struct reader {
    struct bytes rest; /* of the text */
    struct arena *arena;
    struct option *options;
    size_t count;
};

static struct bytes take_until(struct bytes *rest, char mark)
{
    const uint8_t *at = rest->len > 0 ? memchr(rest->at, mark, rest->len) : NULL;
    struct bytes taken = at ? bytes_of(rest->at, (size_t)(at - rest->at)) : *rest;
    size_t gone = at ? taken.len + 1 : taken.len;

    *rest = bytes_of(rest->at + gone, rest->len - gone);
    return taken;
}

static bool is_said(const struct reader *r, struct bytes name)
{
    for (size_t i = 0; i < r->count; i++)
        if (bytes_equal(r->options[i].name, name))
            return true;
    return false;
}

static size_t count_commas(struct bytes text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == ',';
    return count;
}

/* Of every kind, whether it has a use for them or not: one '=' each, and none of them twice. */
static bool read_options(struct reader *r, bool has_some)
{
    r->options = arena_new_array(r->arena, count_commas(r->rest) + 1, struct option);
    while (has_some) {
        has_some = memchr(r->rest.at, ',', r->rest.len);
        struct bytes value = take_until(&r->rest, ',');
        if (value.len == 0 || !memchr(value.at, '=', value.len))
            return false;
        struct bytes name = take_until(&value, '=');
        if ((value.len > 0 && memchr(value.at, '=', value.len)) || is_said(r, name))
            return false;
        r->options[r->count++] = (struct option){name, value};
    }
    return true;
}

static struct bytes option(const struct reader *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (bytes_equal(r->options[i].name, bytes_of_str(name)))
            return r->options[i].value;
    return bytes_of(NULL, 0);
}

static bool is_known(struct bytes name)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        if (bytes_equal(name, bytes_of_str(known[i])))
            return true;
    return false;
}

static const char *unknown_of(const struct reader *r)
{
    struct buf text = {0};

    for (size_t i = 0; i < r->count; i++) {
        if (is_known(r->options[i].name))
            continue;
        buf_append_str(&text, text.len > 0 ? "," : "");
        buf_append(&text, r->options[i].name);
    }
    const char *kept = arena_copy_str(r->arena, buf_bytes(&text));
    buf_free(&text);
    return kept;
}

/* What is in brackets etcd has in another line of its log. */
static bool refuse_options(struct buf *why, const char *where, const char *reason)
{
    buf_printf(why, "auth: invalid auth options (%s%s)", where, reason);
    return false;
}

static int64_t whole_seconds(int64_t ns)
{
    const int64_t second = 1000 * 1000 * 1000;

    return ns / second - (ns % second < 0);
}

static bool read_jwt(const struct reader *r, struct config_token *out, struct buf *why)
{
    struct bytes ttl = option(r, known[TTL]);
    int64_t ttl_ns = 0;
    const char *bad = ttl.len > 0 ? value_parse_duration(ttl, &ttl_ns) : NULL;

    if (bad)
        return refuse_options(why, "ttl: ", bad);
    out->jwt_ttl_s = ttl.len > 0 ? whole_seconds(ttl_ns) : DEFAULT_JWT_TTL_S;
    out->jwt_method = jwt_method_of(option(r, known[SIGN_METHOD]));
    if (out->jwt_method == JWT_METHOD_COUNT)
        return refuse_options(why, "", "auth: invalid auth signature method");
    out->jwt_public_key_file = arena_copy_str(r->arena, option(r, known[PUB_KEY]));
    out->jwt_private_key_file = arena_copy_str(r->arena, option(r, known[PRIV_KEY]));
    return true;
}

bool config_auth_read(const char *text, struct arena *arena, struct config_token *out,
                      const char **unknown, struct buf *why)
{
    struct reader r = {.rest = bytes_of_str(text), .arena = arena};
    bool has_options = strchr(text, ',');
    struct bytes kind = take_until(&r.rest, ',');

    *out = (struct config_token){
        .kind = TOKEN_NONE, .jwt_public_key_file = "", .jwt_private_key_file = ""};
    *unknown = "";
    if (!read_options(&r, has_options)) {
        buf_append_str(why, "auth: invalid auth options");
        return false;
    }
    if (bytes_equal(kind, BYTES("jwt"))) {
        out->kind = TOKEN_JWT;
        *unknown = unknown_of(&r);
        return read_jwt(&r, out, why);
    }
    if (bytes_equal(kind, BYTES("simple")))
        out->kind = TOKEN_SIMPLE;
    else if (kind.len > 0)
        buf_append_str(why, "auth: invalid auth options");
    return out->kind == TOKEN_SIMPLE || kind.len == 0;
}
