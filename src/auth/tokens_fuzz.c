/*
 * The store of simple tokens, by commands out of any bytes, against a list that is walked.
 *
 *     command   | what u8 | who u8 | index u8 |    of a token that is shown: then its length, and
 * it
 *
 * Beyond not crashing: a token is good exactly if the list has it, and is its user's; and bytes
 * that nobody was given are nobody's, and have an index only if they look like it.
 */
#include "auth/tokens.h"
#include "base/assert.h"
#include "base/buf.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TTL_MS = 100, TOKENS = 512, TEXT_MAX = 32 };

struct model {
    struct {
        char text[TEXT_MAX];
        uint8_t user;
        uint64_t ends_ms;
    } at[TOKENS];
    size_t count;
    uint64_t now_ms;
};

static struct bytes user_name(const uint8_t *user)
{
    return bytes_of(user, 1);
}

static void model_drop(struct model *m, int user, bool all)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->count; i++)
        if (!all && m->at[i].user != user && m->at[i].ends_ms > m->now_ms)
            m->at[kept++] = m->at[i];
    m->count = kept;
}

static void add(struct auth_tokens *t, struct model *m, uint8_t user, uint64_t index)
{
    char prefix[] = {(char)('a' + user % 26), 0};

    if (m->count == TOKENS)
        return;
    auth_tokens_add(t, bytes_of_str(prefix), index, user_name(&user), m->now_ms);
    snprintf(m->at[m->count].text, TEXT_MAX, "%s.%llu", prefix, (unsigned long long)index);
    m->at[m->count].user = user;
    m->at[m->count++].ends_ms = m->now_ms + TTL_MS;
}

static void show(struct auth_tokens *t, struct model *m, struct bytes token)
{
    struct auth_moment moment = {.now_ms = m->now_ms, .auth_revision = 3};
    struct identity who;
    uint64_t index;
    const char *wrong = auth_tokens_identify(t, token, &moment, &who);
    bool found = false;

    for (size_t i = 0; i < m->count; i++) {
        if (!bytes_equal(bytes_of_str(m->at[i].text), token))
            continue;
        found = true;
        m->at[i].ends_ms = m->now_ms + TTL_MS;
        assert(!wrong && who.is_known && who.auth_revision == 3);
        assert(bytes_equal(who.user, user_name(&m->at[i].user)));
        assert(auth_token_index(token, &index));
    }
    assert(found == !wrong);
    if (auth_token_index(token, &index))
        assert(memchr(token.at, '.', token.len));
}

static struct bytes take(struct bytes *from, size_t len)
{
    struct bytes taken = bytes_of(from->at, len < from->len ? len : from->len);

    *from = bytes_of(from->at + taken.len, from->len - taken.len);
    return taken;
}

static void step(struct auth_tokens *t, struct model *m, const uint8_t *command, uint64_t index,
                 struct bytes *rest)
{
    switch (command[0] % 6) {
    case 0:
        add(t, m, command[1], index); /* each index once, as entries have it */
        break;
    case 1:
        show(t, m, auth_token_in(take(rest, command[1])));
        break;
    case 2:
        if (m->count > 0)
            show(t, m, bytes_of_str(m->at[command[1] % m->count].text));
        break;
    case 3:
        auth_tokens_drop_user(t, user_name(&command[1]));
        model_drop(m, command[1], false);
        break;
    case 4:
        m->now_ms += command[2];
        break;
    default:
        auth_tokens_drop_all(t);
        model_drop(m, -1, true);
        break;
    }
    model_drop(m, -1, false); /* whose time is up */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model m;
    struct bytes rest = bytes_of(data, size);
    struct auth_tokens *t = auth_tokens_open(TTL_MS, 7);
    uint64_t index = 0;

    m.count = 0;
    m.now_ms = 1000;
    while (rest.len >= 3) {
        struct bytes command = take(&rest, 3);
        step(t, &m, command.at, ++index, &rest);
        auth_tokens_check(t);
        assert(auth_tokens_count(t) >= m.count); /* those whose time is up go when one is used */
    }
    auth_tokens_close(t);
    return 0;
}
