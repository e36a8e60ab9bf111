#include "auth/tokens.h"

#include "auth/jwt.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

struct token {
    struct list link; /* least recently used first: all have the same ttl, so also by their end */
    uint64_t index;   /* of a simple one */
    uint64_t ends_ms;
    struct jwt_time {
        int64_t from_s, ends_s; /* when it was verified: before that it may not have been good */
        uint64_t auth_revision;
    } jwt; /* of a JWT; then ends_ms is 0 */
    size_t text_len, user_len;
    uint8_t text[]; /* the token, then the user */
};

struct auth_tokens {
    uint64_t ttl_ms;
    struct jwt *jwt;  /* NULL: simple ones */
    struct map known; /* JWTs by their text, simple ones by their index */
    struct list all;
    uint64_t forgotten;
};

static struct bytes text_of(const struct token *k)
{
    return bytes_of(k->text, k->text_len);
}

static struct bytes user_of(const struct token *k)
{
    return bytes_of(k->text + k->text_len, k->user_len);
}

struct auth_tokens *auth_tokens_open(uint64_t ttl_ms, uint64_t seed)
{
    struct auth_tokens *t = mem_new(struct auth_tokens);
    assert(ttl_ms > 0);

    t->ttl_ms = ttl_ms;
    map_init(&t->known, MAP_IDS, seed);
    list_init(&t->all);
    return t;
}

struct auth_tokens *auth_tokens_open_jwt(struct jwt *jwt, uint64_t seed)
{
    struct auth_tokens *t = mem_new(struct auth_tokens);

    t->jwt = jwt;
    map_init(&t->known, MAP_BYTES, seed);
    list_init(&t->all);
    return t;
}

const struct jwt *auth_tokens_jwt(const struct auth_tokens *t)
{
    return t->jwt;
}

void auth_tokens_close(struct auth_tokens *t)
{
    if (!t)
        return;
    auth_tokens_drop_all(t);
    jwt_close(t->jwt);
    map_free(&t->known);
    mem_free(t);
}

static void drop(struct auth_tokens *t, struct token *k)
{
    if (t->jwt)
        map_remove(&t->known, text_of(k));
    else
        map_remove_id(&t->known, k->index);
    list_remove(&k->link);
    mem_free(k);
    t->forgotten++;
}

static struct token *oldest(const struct auth_tokens *t)
{
    return list_empty(&t->all) ? NULL : container_of(t->all.next, struct token, link);
}

static void drop_ended(struct auth_tokens *t, uint64_t now_ms)
{
    struct token *k;

    while ((k = oldest(t)) && k->ends_ms <= now_ms)
        drop(t, k);
}

static struct token *new_token(size_t text_len, size_t user_len)
{
    struct token *k = mem_alloc(sizeof(*k) + text_len + user_len);

    *k = (struct token){.text_len = text_len, .user_len = user_len};
    list_init(&k->link);
    return k;
}

void auth_tokens_add(struct auth_tokens *t, struct bytes prefix, uint64_t index, struct bytes user,
                     uint64_t now_ms)
{
    char end[24];
    size_t end_len = (size_t)snprintf(end, sizeof(end), ".%" PRIu64, index);

    if (prefix.len == 0 || t->jwt)
        return;
    drop_ended(t, now_ms);
    if (t->known.count == AUTH_TOKENS_MAX)
        drop(t, oldest(t));
    struct token *k = new_token(prefix.len + end_len, user.len);
    k->index = index;
    k->ends_ms = now_ms + t->ttl_ms;
    memcpy(k->text, prefix.at, prefix.len);
    memcpy(k->text + prefix.len, end, end_len);
    memcpy(k->text + k->text_len, user.at, user.len);
    list_push_back(&t->all, &k->link);
    void *before = map_put_id(&t->known, index, k);
    assert(!before); /* no entry is applied twice */
}

static uint64_t word_difference(const uint8_t *a, const uint8_t *b)
{
    uint64_t one, other;

    memcpy(&one, a, sizeof(one));
    memcpy(&other, b, sizeof(other));
    return one ^ other;
}

/* All of it is looked at, wherever the first difference is; the last eight bytes perhaps twice. */
static bool is_token(const struct token *k, struct bytes text)
{
    const size_t word = sizeof(uint64_t);
    uint64_t difference = 0;
    size_t i = 0;

    if (k->text_len != text.len)
        return false;
    for (; i + word <= text.len; i += word)
        difference |= word_difference(k->text + i, text.at + i);
    if (i < text.len && text.len >= word)
        return (difference |
                word_difference(k->text + text.len - word, text.at + text.len - word)) == 0;
    for (; i < text.len; i++)
        difference |= k->text[i] ^ text.at[i];
    return difference == 0;
}

/* Who was here last is at the end of the list, and mostly comes again: calls of one connection are
 * read together. */
static struct token *find_simple(const struct auth_tokens *t, struct bytes token)
{
    struct token *k = list_empty(&t->all) ? NULL : container_of(t->all.prev, struct token, link);
    uint64_t index;

    if (!k || is_token(k, token))
        return k;
    k = auth_token_index(token, &index) ? map_get_id(&t->known, index) : NULL;
    return k && is_token(k, token) ? k : NULL;
}

bool auth_tokens_use(struct auth_tokens *t, struct bytes token, uint64_t now_ms, struct bytes *user)
{
    drop_ended(t, now_ms);
    struct token *k = find_simple(t, token);
    if (!k)
        return false;
    k->ends_ms = now_ms + t->ttl_ms;
    if (t->all.prev != &k->link) {
        list_remove(&k->link);
        list_push_back(&t->all, &k->link);
    }
    *user = user_of(k);
    return true;
}

static struct token *remember_jwt(struct auth_tokens *t, struct bytes token,
                                  const struct jwt_claims *claims, int64_t unix_s)
{
    struct token *k = new_token(token.len, claims->user.len);

    if (t->known.count == AUTH_JWTS_MAX)
        drop(t, oldest(t));
    k->jwt = (struct jwt_time){
        .from_s = unix_s, .ends_s = claims->ends_s, .auth_revision = claims->revision};
    memcpy(k->text, token.at, token.len);
    if (claims->user.len > 0)
        memcpy(k->text + token.len, claims->user.at, claims->user.len);
    list_push_back(&t->all, &k->link);
    void *before = map_put(&t->known, text_of(k), k);
    assert(!before);
    return k;
}

/* NULL: none that is good now. The wall clock may have been set back. */
static struct token *remembered_jwt(struct auth_tokens *t, struct bytes token, int64_t unix_s)
{
    struct token *k = map_get(&t->known, token);

    if (!k)
        return NULL;
    if (unix_s < k->jwt.from_s || unix_s >= k->jwt.ends_s) {
        drop(t, k);
        return NULL;
    }
    list_remove(&k->link);
    list_push_back(&t->all, &k->link);
    return k;
}

static const char *identify_by_jwt(struct auth_tokens *t, struct bytes token, int64_t unix_s,
                                   struct identity *out)
{
    struct token *k = remembered_jwt(t, token, unix_s);

    if (!k) {
        struct jwt_claims claims;
        const char *wrong = jwt_verify(t->jwt, token, unix_s, &claims);
        if (wrong)
            return wrong;
        k = remember_jwt(t, token, &claims, unix_s);
        buf_free(&claims.user);
    }
    *out = (struct identity){
        .is_known = true, .user = user_of(k), .auth_revision = k->jwt.auth_revision};
    return NULL;
}

const char *auth_tokens_identify(struct auth_tokens *t, struct bytes token,
                                 const struct auth_moment *moment, struct identity *out)
{
    struct bytes user;

    if (t->jwt)
        return identify_by_jwt(t, token, moment->unix_s, out);
    if (!auth_tokens_use(t, token, moment->now_ms, &user))
        return "token is unknown";
    *out =
        (struct identity){.is_known = true, .user = user, .auth_revision = moment->auth_revision};
    return NULL;
}

static void drop_those_of(struct auth_tokens *t, const struct bytes *user)
{
    struct list *link = t->all.next;

    while (link != &t->all) {
        struct token *k = container_of(link, struct token, link);
        link = link->next;
        if (!user || bytes_equal(user_of(k), *user))
            drop(t, k);
    }
}

void auth_tokens_drop_user(struct auth_tokens *t, struct bytes user)
{
    drop_those_of(t, &user);
}

void auth_tokens_drop_all(struct auth_tokens *t)
{
    drop_those_of(t, NULL);
}

size_t auth_tokens_count(const struct auth_tokens *t)
{
    return t->known.count;
}

uint64_t auth_tokens_forgotten(const struct auth_tokens *t)
{
    return t->forgotten;
}

struct bytes auth_token_in(struct bytes field)
{
    const struct bytes bearer = BYTES("Bearer ");

    if (!bytes_starts_with(field, bearer))
        return field;
    return bytes_of(field.at + bearer.len, field.len - bearer.len);
}

bool auth_token_index(struct bytes token, uint64_t *index)
{
    const uint8_t *dot = token.len > 0 ? memchr(token.at, '.', token.len) : NULL;

    if (!dot)
        return false;
    size_t behind = (size_t)(dot - token.at) + 1;
    return text_read_number(bytes_of(token.at + behind, token.len - behind), UINT64_MAX, index) ==
           ERR_OK;
}

bool auth_token_prefix(struct bytes random, char out[static AUTH_TOKEN_PREFIX_LEN])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const uint8_t fair = 256 / (sizeof(letters) - 1) * (sizeof(letters) - 1);
    size_t len = 0;

    for (size_t i = 0; i < random.len && len < AUTH_TOKEN_PREFIX_LEN; i++)
        if (random.at[i] < fair)
            out[len++] = letters[random.at[i] % (sizeof(letters) - 1)];
    return len == AUTH_TOKEN_PREFIX_LEN;
}

void auth_tokens_check(const struct auth_tokens *t)
{
    size_t count = 0;
    uint64_t ends_ms = 0;

    for (const struct list *link = t->all.next; link != &t->all; link = link->next) {
        const struct token *k = container_of(link, struct token, link);
        assert(k->ends_ms >= ends_ms);
        assert((t->jwt ? map_get(&t->known, text_of(k)) : map_get_id(&t->known, k->index)) == k);
        ends_ms = k->ends_ms;
        count++;
    }
    assert(count == t->known.count);
    assert(count <= (t->jwt ? AUTH_JWTS_MAX : AUTH_TOKENS_MAX));
}
