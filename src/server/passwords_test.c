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

/* As many as may wait of one address, each call on a connection of its own. */
static void fill_address(struct passwords_rig *r, unsigned first, const char *host)
{
    char remote[64];

    for (unsigned i = 0; i < PASSWORDS_WAITING_PER_ADDRESS_MAX; i++) {
        snprintf(remote, sizeof(remote), "%s:%u", host, 1000 + i);
        ask(r, first + i, remote, "guess", "");
    }
}

static void is_refused(struct passwords_rig *r, unsigned call)
{
    struct api_password_result result;
    struct api_call *c = passwords_take(&r->passwords, &result);

    CHECK(c);
    CHECK_EQ((unsigned)(c - r->calls), call);
    CHECK(result.is_refused);
}

static void nobody_is_told(struct passwords_rig *r)
{
    struct api_password_result result;

    CHECK(!passwords_take(&r->passwords, &result));
}

/* The place is that of the newest question of an address that holds most, and the turn comes after
 * one of each address. */
TEST(who_comes_when_all_places_are_taken_gets_one_of_an_address_that_holds_most)
{
    enum { ADDRESSES = PASSWORDS_WAITING_MAX / PASSWORDS_WAITING_PER_ADDRESS_MAX };
    static struct passwords_rig r;
    struct api_password_result result;
    char host[32];
    unsigned turns = 0;
    rig_open(&r);

    ask(&r, CALLS - 1, "10.0.0.200:1", "under way", "");
    for (unsigned i = 0; i < ADDRESSES; i++) {
        snprintf(host, sizeof(host), "10.0.0.%u", i);
        fill_address(&r, i * PASSWORDS_WAITING_PER_ADDRESS_MAX, host);
    }
    nobody_is_told(&r);
    ask(&r, CALLS - 2, "10.0.1.1:1", "pw", "");
    is_refused(&r, PASSWORDS_WAITING_MAX - 1);
    ask(&r, CALLS - 3, "10.0.0.7:1", "guess", ""); /* which has given one, and gets none back */
    is_refused(&r, CALLS - 3);

    while (take(&r, &result) != CALLS - 2)
        turns++;
    CHECK(!result.is_refused);
    CHECK_EQ(turns, ADDRESSES + 1);
    rig_close(&r); /* with all that wait, and one under way */
}

/* Nobody holds two more than who comes: else each newcomer would drive out the one before. */
TEST(when_all_places_are_taken_by_an_address_each_the_newcomer_is_refused)
{
    static struct passwords_rig r;
    char remote[32];
    rig_open(&r);

    for (unsigned i = 0; i <= PASSWORDS_WAITING_MAX; i++) {
        snprintf(remote, sizeof(remote), "10.%u.%u.2:1", i / 250, i % 250);
        ask(&r, i, remote, "pw", "");
    }
    nobody_is_told(&r);
    ask(&r, CALLS - 1, "10.9.9.9:1", "pw", "");
    is_refused(&r, CALLS - 1);

    rig_close(&r);
}

/* Behind an address translation, or on this machine, clients differ by their connections. */
TEST(connections_of_one_address_take_turns_and_give_way)
{
    static struct passwords_rig r;
    struct api_password_result result;
    rig_open(&r);

    for (unsigned i = 0; i <= PASSWORDS_WAITING_PER_ADDRESS_MAX; i++)
        ask(&r, i, "10.0.0.1:1", "guess", "");
    nobody_is_told(&r); /* one is under way, the others wait */
    ask(&r, CALLS - 1, "10.0.0.1:1", "guess", "");
    is_refused(&r, CALLS - 1);
    ask(&r, CALLS - 2, "10.0.0.1:2", "pw", "");
    is_refused(&r, PASSWORDS_WAITING_PER_ADDRESS_MAX);

    CHECK_EQ(take(&r, &result), 0);
    CHECK_EQ(take(&r, &result), 1);
    CHECK_EQ(take(&r, &result), CALLS - 2);
    CHECK_EQ(take(&r, &result), 2);
    rig_close(&r);
}

TEST(a_network_of_ipv6_counts_as_one_address)
{
    static struct passwords_rig r;
    struct api_password_result result;
    char remote[64];
    rig_open(&r);

    for (unsigned i = 0; i < 50; i++) {
        snprintf(remote, sizeof(remote), "[2001:db8:1:2:%x::1]:1000", i + 1);
        ask(&r, i, remote, "guess", "");
    }
    ask(&r, 50, "[2001:db8:1:3::1]:1000", "pw", "");

    CHECK_EQ(take(&r, &result), 0); /* it was under way */
    CHECK_EQ(take(&r, &result), 1);
    CHECK_EQ(take(&r, &result), 50);
    rig_close(&r);
}

/* ---- What a hash costs ---- */

/* Of no password, with this cost. */
static const char *hash_of_cost(unsigned cost)
{
    static char hash[PASSWORD_HASH_LEN + 1];

    password_nobodys(cost, hash);
    return hash;
}

TEST(who_waits_for_a_costly_hash_waits_in_a_lane_of_its_own)
{
    static struct passwords_rig r;
    struct api_password_result result;
    rig_open(&r);

    ask(&r, 0, "10.0.0.1:1", "pw", hash_of_cost(PASSWORDS_QUICK_COST_MAX + 1));
    ask(&r, 1, "10.0.0.1:1", "pw", hash_of_cost(PASSWORDS_QUICK_COST_MAX + 1));
    ask(&r, 2, "10.0.0.1:1", "pw", hash_of_cost(PASSWORD_COST_MIN));
    const struct password_question *slow = r.passwords.lanes[PASSWORD_LANE_SLOW].running;
    CHECK(slow);
    CHECK(r.passwords.lanes[PASSWORD_LANE_QUICK].running);
    CHECK(!passwords_is_idle(&r.passwords));

    unsigned first = take(&r, &result), second = take(&r, &result);
    CHECK_EQ(first + second, 2); /* the other slow one waits for the first */
    CHECK(!result.is_too_costly);
    CHECK(!result.is_refused);
    rig_close(&r);
}

/* To compare with it would take a day. Whether there is such a user does not show by the time. */
TEST(a_hash_that_costs_too_much_does_not_match_and_takes_as_long_as_nobodys)
{
    static struct passwords_rig r;
    struct api_password_result result;
    rig_open(&r);

    ask(&r, 0, "10.0.0.1:1", "pw", hash_of_cost(PASSWORD_COST_MAX));
    ask(&r, 1, "10.0.0.1:1", "pw", hash_of_cost(PASSWORDS_COMPARED_COST_MAX + 1));
    CHECK(!r.passwords.lanes[PASSWORD_LANE_SLOW].running);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(take(&r, &result), i);
        CHECK(!result.matches);
        CHECK(result.is_too_costly);
        CHECK(!result.is_refused);
    }
    CHECK(passwords_is_idle(&r.passwords));

    rig_close(&r);
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
