#include "server/passwords.h"

#include "harness/test.h"
#include "io/fake_world.h"
#include "io/inbox.h"
#include "io/io.h"

#include <stdio.h>

enum { CALLS = PASSWORDS_WAITING_MAX + 8 };

struct passwords_rig {
    struct fake_world *world;
    struct passwords passwords;
    struct api_call calls[CALLS];
};

static void rig_open(struct passwords_rig *r)
{
    *r = (struct passwords_rig){.world = fake_world_new(test_seed())};
    passwords_init(&r->passwords, fake_world_io(r->world)->workers,
                   fake_world_io(r->world)->entropy, PASSWORD_COST_MIN);
}

/* Whoever waits leaves; the one whose password a worker has is waited for. */
static void rig_close(struct passwords_rig *r)
{
    for (unsigned i = 0; i < CALLS; i++)
        passwords_forget(&r->passwords, &r->calls[i]);
    while (!passwords_is_idle(&r->passwords)) {
        CHECK(fake_world_step(r->world));
        inbox_drain(fake_world_io(r->world)->inbox, SIZE_MAX);
    }
    passwords_free(&r->passwords);
    fake_world_free(r->world);
}

static void ask(struct passwords_rig *r, unsigned call, const char *remote, const char *password,
                const char *hash)
{
    passwords_need(&r->passwords,
                   &(struct api_need){.need = API_PASSWORD,
                                      .call = &r->calls[call],
                                      .password = {.compares = hash != NULL,
                                                   .password = bytes_of_str(password),
                                                   .hash = bytes_of_str(hash ? hash : ""),
                                                   .remote = bytes_of_str(remote)}});
}

/* The next who is told, and his number. */
static unsigned take(struct passwords_rig *r, struct api_password_result *out)
{
    struct api_call *c;

    while (!(c = passwords_take(&r->passwords, out))) {
        CHECK(fake_world_step(r->world));
        inbox_drain(fake_world_io(r->world)->inbox, SIZE_MAX);
    }
    return (unsigned)(c - r->calls);
}

TEST(a_password_is_hashed_and_then_known)
{
    static struct passwords_rig r;
    struct api_password_result result;
    char hash[65] = {0};
    rig_open(&r);

    ask(&r, 0, "10.0.0.1:5", "pw", NULL);
    CHECK_EQ(take(&r, &result), 0);
    CHECK_EQ(result.hash_len, PASSWORD_HASH_LEN);
    memcpy(hash, result.hash, result.hash_len);
    ask(&r, 1, "10.0.0.1:5", "pw", hash);
    CHECK_EQ(take(&r, &result), 1);
    CHECK(result.matches);
    ask(&r, 2, "10.0.0.1:5", "px", hash);
    CHECK_EQ(take(&r, &result), 2);
    CHECK(!result.matches);
    ask(&r, 3, "10.0.0.1:5", "pw", ""); /* of nobody */
    CHECK_EQ(take(&r, &result), 3);
    CHECK(!result.matches && !result.is_refused);
    CHECK(passwords_is_idle(&r.passwords));

    rig_close(&r);
}

/* Who guesses from one address does not keep out who comes from another. */
TEST(every_address_has_its_turn)
{
    static struct passwords_rig r;
    struct api_password_result result;
    char remote[32];
    rig_open(&r);

    for (unsigned i = 0; i < 50; i++) {
        snprintf(remote, sizeof(remote), "10.0.0.1:%u", 1000 + i); /* a connection each */
        ask(&r, i, remote, "guess", "");
    }
    ask(&r, 50, "10.0.0.2:1", "pw", "");
    ask(&r, 51, "[::1]:1", "pw", "");

    CHECK_EQ(take(&r, &result), 0); /* it was under way */
    CHECK_EQ(take(&r, &result), 1);
    CHECK_EQ(take(&r, &result), 50);
    CHECK_EQ(take(&r, &result), 51);
    CHECK_EQ(take(&r, &result), 2);

    rig_close(&r);
}

TEST(too_many_who_wait_are_refused_by_address_and_in_all)
{
    static struct passwords_rig r;
    struct api_password_result result;
    char remote[32];
    rig_open(&r);

    for (unsigned i = 0; i <= PASSWORDS_WAITING_PER_ADDRESS_MAX; i++)
        ask(&r, i, "10.0.0.1:1", "guess", "");
    CHECK(!passwords_take(&r.passwords, &result)); /* one is under way, the others wait */
    ask(&r, CALLS - 1, "10.0.0.1:1", "guess", "");
    CHECK_EQ(take(&r, &result), CALLS - 1);
    CHECK(result.is_refused);
    for (unsigned i = PASSWORDS_WAITING_PER_ADDRESS_MAX + 1; i <= PASSWORDS_WAITING_MAX; i++) {
        snprintf(remote, sizeof(remote), "10.0.%u.2:1", i);
        ask(&r, i, remote, "pw", "");
    }
    ask(&r, CALLS - 2, "10.9.9.9:1", "pw", "");
    CHECK_EQ(take(&r, &result), CALLS - 2);
    CHECK(result.is_refused);

    rig_close(&r); /* with all that wait, and one under way */
}

TEST(who_is_forgotten_is_told_nothing)
{
    static struct passwords_rig r;
    struct api_password_result result;
    rig_open(&r);

    for (unsigned i = 0; i < 4; i++)
        ask(&r, i, "10.0.0.1:1", "pw", "");
    CHECK(passwords_forget(&r.passwords, &r.calls[0])); /* under way */
    CHECK(passwords_forget(&r.passwords, &r.calls[2])); /* waits */
    CHECK(!passwords_forget(&r.passwords, &r.calls[9]));
    CHECK_EQ(take(&r, &result), 1);
    CHECK_EQ(take(&r, &result), 3);
    CHECK(passwords_is_idle(&r.passwords));

    rig_close(&r);
}
