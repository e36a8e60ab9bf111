/*
 * Logging in, where there are users and roles: an actor is one of the users, begins without a
 * token, and logs in when it is told that it must. Tokens are kept until a member does not know
 * them, or what it is told may be old. Now and then it uses one that nobody has given out, or a
 * password that is wrong.
 */
#include "sim/actor_int.h"

enum {
    FORGED_OF = 60, /* one call of so many comes with a forged token */
    WRONG_OF = 12,  /* and one login with a wrong password */
};

const char login_path[] = "/etcdserverpb.Auth/Authenticate";

static const char forged_token[] = "aaaaaaaaaaaaaaaa.5";

static struct login *login_of(struct actor *a)
{
    return a->o.permits ? &a->login : NULL;
}

/* The others draw as if there was no auth. */
void login_init(struct actor *a)
{
    struct rng rng = a->o.rng;

    rng_seed(&a->login.rng, ~rng_next(&rng) << 1);
}

/* In gRPC's words, or alone. */
static bool is_denial(struct bytes text)
{
    struct bytes end = BYTES("permission denied");

    return text.len >= end.len && memcmp(text.at + text.len - end.len, end.at, end.len) == 0;
}

void login_free(struct actor *a)
{
    buf_free(&a->login.token);
    buf_free(&a->login.key);
    buf_free(&a->login.end);
}

/* --- tokens --- */

size_t login_fields(struct actor *a, struct client_field *out)
{
    struct login *l = login_of(a);

    if (!l)
        return 0;
    l->used = l->number;
    if (rng_chance(&l->rng, 1, FORGED_OF))
        l->used = PERMITS_FORGED;
    if (l->used == PERMITS_NO_TOKEN)
        return 0;
    struct bytes token =
        l->used == PERMITS_FORGED ? bytes_of_str(forged_token) : buf_bytes(&l->token);
    *out = (struct client_field){"token", token};
    return 1;
}

/* A stream has the token that it was opened with. */
void login_sent(struct actor *a, struct asked *q, bool is_old_stream)
{
    struct login *l = login_of(a);

    if (!l || q->is_login)
        return;
    if (history_op(a->h, q->op)->kind == OP_RENEW) {
        if (!is_old_stream)
            l->stream_token = l->used;
        permits_sent(a->o.permits, q->op, (unsigned)a->server, a->o.user, l->stream_token);
    } else
        permits_sent(a->o.permits, q->op, (unsigned)a->server, a->o.user, l->used);
}

/* --- logging in --- */

bool login_is_due(const struct actor *a)
{
    return a->o.permits && a->login.is_due;
}

void login_begin(struct actor *a)
{
    struct login *l = &a->login;
    struct bytes name = bytes_of_str(rights_user_name(a->o.user));

    bool is_wrong = rng_chance(&l->rng, 1, WRONG_OF);

    l->is_due = false;
    l->number = PERMITS_NO_TOKEN;
    struct permits_login login = permits_login(a->o.permits, a->o.user, !is_wrong);
    struct asked *q = writer_ask(a, OP_OTHER, login_path, &pb_authenticate_request_schema,
                                 &(struct pb_authenticate_request){
                                     .name = name, .password = is_wrong ? BYTES("guessed") : name});
    q->login = login;
    q->stale = a->o.server_count > 1; /* the header is the member's */
}

static void hand_on_problem(struct actor *a)
{
    const char *text = permits_problem(a->o.permits);

    if (text)
        history_fail(a->h, "%s", text);
}

void login_answered(struct actor *a, const struct asked *q, struct bytes message)
{
    struct login *l = &a->login;
    struct arena arena = {0};
    struct pb_authenticate_response r = {0};

    if (pb_decode(&pb_authenticate_response_schema, message, &arena, &r) != ERR_OK)
        history_fail(a->h, "a token cannot be decoded");
    buf_clear(&l->token);
    buf_append(&l->token, r.token);
    l->number = permits_logged_in(a->o.permits, &q->login, r.token);
    hand_on_problem(a);
    arena_free(&arena);
}

/* What an operation, or a login, was told. False: it is about something else. */
bool login_hears_refusal(struct actor *a, const struct asked *q, struct bytes text)
{
    struct login *l = login_of(a);
    bool is_heard;

    if (!l)
        return false;
    if (q->is_login) {
        is_heard = permits_login_refused(a->o.permits, &q->login, text);
        l->is_due |= is_heard && !q->login.is_right;
        if (is_heard && q->login.is_right) /* or nobody needs to */
            l->is_denied = !bytes_equal(text, BYTES("etcdserver: authentication is not enabled"));
    } else {
        is_heard = permits_refused(a->o.permits, q->op, history_op(a->h, q->op), text);
        l->is_due |= is_heard && !is_denial(text);
    }
    hand_on_problem(a);
    return is_heard;
}

void login_over(struct actor *a, const struct asked *q)
{
    if (a->o.permits)
        permits_over(a->o.permits, q->op);
}

/* --- watches --- */

void login_watch_begins(struct actor *a, struct bytes key, struct bytes end)
{
    struct login *l = login_of(a);

    if (!l)
        return;
    l->watch =
        (struct permits_watch){.member = (unsigned)a->server,
                               .user = a->o.user,
                               .token = l->used,
                               .since = permits_member(a->o.permits, (unsigned)a->server),
                               .applied = permits_applied(a->o.permits, (unsigned)a->server)};
    buf_clear(&l->key);
    buf_clear(&l->end);
    buf_append(&l->key, key);
    buf_append(&l->end, end);
}

bool login_watch_hears(struct actor *a, struct bytes text)
{
    struct login *l = login_of(a);

    if (!l)
        return false;
    l->watch.key = buf_bytes(&l->key);
    l->watch.end = buf_bytes(&l->end);
    l->watch.text = text;
    bool is_heard = permits_watched(a->o.permits, &l->watch);
    hand_on_problem(a);
    l->is_denied = text.len > 0 && is_denial(text);
    l->is_due |= text.len > 0 && !l->is_denied;
    return is_heard;
}
