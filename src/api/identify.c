/*
 * identify: who calls, from what came with the call.
 *
 * A token, in `token` or else in `authorization`, be it an empty one, which is nobody's; without
 * one, where the server is told so, the common name of the certificate that the connection has
 * shown. Not through the gateway: that certificate is the server's own. While auth is disabled
 * tokens are not looked at.
 *
 * A simple token names an entry of the log. A member that has not applied it yet waits for it, for
 * a while: before that it cannot tell a good one from a bad one.
 */
#include "api/api_int.h"
#include "auth/tokens.h"

bool api_call_token(const struct call *c, struct bytes *out)
{
    const struct rpc_event *e = &c->first;

    *out = auth_token_in(rpc_event_bytes(e, e->has_token ? e->token : e->authorization));
    return e->has_token || e->has_authorization;
}

/* Whatever a client says he is called by who is asked nothing, it is not looked at; nor where other
 * calls are made of his, which are asked themselves. */
static bool asks_nobody(const struct call *c)
{
    switch (c->method) {
    case API_AUTH_AUTHENTICATE:
    case API_HEALTH_CHECK:
    case API_HEALTH_LIST:
    case API_HEALTH_WATCH:
        return true;
    default:
        return authorize_rule(c->method) == RULE_BY_INNER_CALLS;
    }
}

/* Streams come here with each message: the name is the same, mostly, and is kept once. */
static void set_identity(struct call *c, struct bytes user, uint64_t auth_revision)
{
    struct identity *who = &c->base.identity;

    if (!who->is_known || !bytes_equal(who->user, user))
        who->user = arena_copy(&c->arena, user);
    who->is_known = true;
    who->auth_revision = auth_revision;
}

/*
 * A call is asked who it is more than once: when it comes, when its read is confirmed, with every
 * message of a stream. To look a token up costs as much as to decide, so what was found is good for
 * a while, if no token was forgotten since. It is shorter than any token lives that was just used,
 * and a JWT's time ends with a second.
 */
static bool is_still_known(const struct call *c)
{
    const struct api *a = api_of(c);
    const struct token_look *look = &c->token_look;

    return look->was_good && c->base.identity.is_known && a->o.tokens &&
           look->forgotten == auth_tokens_forgotten(a->o.tokens) &&
           a->facts->now_ms - look->at_ms < API_TOKEN_LOOK_MS &&
           look->at_unix_s == a->facts->unix_seconds;
}

static void remember_look(struct call *c, bool was_good)
{
    const struct api *a = api_of(c);

    c->token_look =
        (struct token_look){.was_good = was_good,
                            .forgotten = was_good ? auth_tokens_forgotten(a->o.tokens) : 0,
                            .at_ms = a->facts->now_ms,
                            .at_unix_s = a->facts->unix_seconds};
}

static void know_again(struct call *c)
{
    const struct api *a = api_of(c);

    if (!auth_tokens_jwt(a->o.tokens)) /* that one says what it knew */
        c->base.identity.auth_revision = auth_revision(a->o.auth);
}

/* The token itself is nobody's business who reads the log. */
static bool identify_by_token(struct call *c, struct bytes token)
{
    struct api *a = api_of(c);
    struct auth_moment moment = {.now_ms = a->facts->now_ms,
                                 .unix_s = a->facts->unix_seconds,
                                 .auth_revision = auth_revision(a->o.auth)};
    struct identity who;
    const char *wrong = a->o.tokens ? auth_tokens_identify(a->o.tokens, token, &moment, &who)
                                    : "none are given out";

    remember_look(c, !wrong);
    if (wrong) {
        if (a->o.tokens && auth_tokens_jwt(a->o.tokens))
            log_warn(a->o.logger, "failed to parse a JWT token", LOG_STR("error", wrong));
        c->base.identity = (struct identity){0};
        return false;
    }
    set_identity(c, who.user, who.auth_revision);
    return true;
}

/* One that is no text is nobody's: it goes into the log, where a name has to be one. */
static struct bytes name_in_certificate(const struct call *c)
{
    struct bytes name = rpc_event_bytes(&c->first, c->first.cn);

    return bytes_are_utf8(name) ? name : bytes_of(NULL, 0);
}

static bool certificate_counts(const struct call *c)
{
    return api_of(c)->o.client_cert_auth && c->first.has_certificate && !c->first.through_gateway;
}

enum result api_call_identify(struct call *c)
{
    struct api *a = api_of(c);
    bool is_enabled = auth_is_enabled(a->o.auth);

    if (is_enabled && is_still_known(c)) {
        know_again(c);
        return RESULT_OK;
    }
    if (asks_nobody(c))
        return RESULT_OK;
    struct bytes token;
    if (is_enabled && api_call_token(c, &token)) {
        if (!identify_by_token(c, token))
            return RESULT_AUTH_INVALID_TOKEN;
    } else if (certificate_counts(c)) {
        c->token_look.was_good = false;
        set_identity(c, name_in_certificate(c), auth_revision(a->o.auth));
    } else {
        c->base.identity = (struct identity){0};
    }
    return RESULT_OK;
}

/* Is its token of an entry that is still to come? Most are known, and then the look is not in vain:
 * whoever asks next need not look again. What was good once does not come any more. */
bool api_call_awaits_token(struct call *c, uint64_t *index)
{
    const struct api *a = api_of(c);

    if (c->token_look.was_good || !auth_is_enabled(a->o.auth) || !a->o.tokens ||
        auth_tokens_jwt(a->o.tokens))
        return false;
    struct bytes token;
    return api_call_token(c, &token) && !asks_nobody(c) && !identify_by_token(c, token) &&
           auth_token_index(token, index) && *index > a->facts->applied_index;
}
