#include "auth/password.h"

#include "auth/tokens.h"
#include "base/arena.h"
#include "harness/test.h"

#include <stdio.h>

/* Made by Go's bcrypt, at cost 4. */
static const struct {
    struct bytes password;
    const char *hash;
} of_go[] = {
    {BYTES(""), "$2a$04$8gnWJaqTEL.PQIJ0AlYC9OUv8IMOFjG73A1Aowvw6D6a4gn/sQr9q"},
    {BYTES("\141"), "$2a$04$r4da2G.KHsOsMmdUOL.Sxuoe.QzwcKMG2DNC4EmAU1BSLIUTzp5Rq"},
    {BYTES("\143\157\162\162\145\143\164\040\150\157\162\163\145"),
     "$2a$04$eGj1LtBUcfFBMfW2MvnSQOVLRTCEfwM6wGmjELwHJOhFg/GugtFHq"},
    {BYTES("\160\303\244\163\163\167\303\266\162\164"),
     "$2a$04$ZiIw3pj3d2UBiHNyOAz0UOaz/WfiaFIUNc/kOA78KKwfZqMjfVx0y"},
    {BYTES("\377\377\243"), "$2a$04$V1a7Zng1t0bn8kZd2E8SHubnL50dKk36E2WJrQ7XD6JXGDMkhflHi"},
    {BYTES("\243\141\142"), "$2a$04$zcivzdxHN3VwIAx5UJ0LDeJVnDKOT39Ob1H9WAdHHVoOKXQXMPcS2"},
    {BYTES("\377\243\063\064\377\377\377\243\063\064\065"),
     "$2a$04$8LJJZEd2zl1GqvJ3nAOJO.vTlEH.06zayo27RwLxmgcECj9QonD9y"},
    {BYTES("\141\142\143\144\145\146\147\150\151\152\153\154\155\156\157\160\161\162\163\164\165"
           "\166\167\170\171\172\141\142\143\144\145\146\147\150\151\152\153\154\155\156\157\160"
           "\161\162\163\164\165\166\167\170\171\172\141\142\143\144\145\146\147\150\151\152\153"
           "\154\155\156\157\160\161\162\163\164"),
     "$2a$04$bFsRJrLgsXbPcCdcT7U.4uAfiEA6qgiiVbY23EqDJpxNXN2Xl7ABS"},
    {BYTES("\0"), "$2a$04$F5dal3NxpbRQivPhlCcIpOjUDZN.iXSAD25ExREKQFglZi3k/JqTO"},
    {BYTES("a\0"), "$2a$04$1KigZ.qBlNeEWulBs1iHxezPHxAF/uxpF49PKThXEJgz.NJMuMZTu"},
    {BYTES("\0a"), "$2a$04$CiQOEsMrVjIo6s9/hMbRRO9ibSrfx1MWm7DLVqJevb38DenTJGCpy"},
    {BYTES("pass\0word"), "$2a$04$H2ZP8milw6YNb7FFWmAwn.3LTO1gyz8lchy0O8euX4llat9kFomrC"},
    {BYTES("pass\0Word"), "$2a$04$6P5MIS87NVTAOFV3J9esOOdPrssasdGazPMwnTCMFHN2UTOt4RMSa"},
    {BYTES("a\0\303\244\0\0z"), "$2a$04$.tqE97.SR.wz.zX6RA2EzuhnS/BGTMc73Dbn9ZScZekS/aWBSYf/y"},
};

TEST(hashes_that_go_has_made_are_matched_by_their_passwords_alone)
{
    for (size_t i = 0; i < ARRAY_LEN(of_go); i++) {
        struct bytes hash = bytes_of_str(of_go[i].hash);
        CHECK(password_matches(hash, of_go[i].password));
        CHECK(!password_matches(hash, BYTES("something else")));
        CHECK_EQ(password_matches(hash, BYTES("pass")), false); /* what is before a zero */
        CHECK_EQ(password_matches(hash, BYTES("a")), i == 1);
        CHECK_EQ(password_matches(hash, BYTES("a\0a")), i == 1); /* Go's, too: it is repeated */
    }
}

TEST(what_is_hashed_here_matches_and_is_called_2a)
{
    const uint8_t salt[PASSWORD_SALT_BYTES] = {1, 2, 3, 255};
    char hash[PASSWORD_HASH_LEN + 1];

    password_hash(BYTES("p\xc3\xa4ss"), 4, salt, hash);
    CHECK_BYTES(bytes_of(hash, 7), BYTES("$2a$04$"));
    CHECK_EQ(strlen(hash), PASSWORD_HASH_LEN);
    CHECK(password_matches(bytes_of_str(hash), BYTES("p\xc3\xa4ss")));
    CHECK(!password_matches(bytes_of_str(hash), BYTES("pass")));
    CHECK(!password_matches(bytes_of_str(hash), BYTES("p\xc3\xa4ss\0x")));
    CHECK(!password_matches(bytes_of_str(hash), BYTES("")));
    password_hash(BYTES("pass\0word"), 4, salt, hash);
    CHECK(password_matches(bytes_of_str(hash), BYTES("pass\0word")));
    CHECK(!password_matches(bytes_of_str(hash), BYTES("pass")));
    CHECK(!password_matches(bytes_of_str(hash), BYTES("pass\0wor")));
}

TEST(a_hash_that_cannot_be_understood_matches_nothing)
{
    char nobodys[PASSWORD_HASH_LEN + 1];
    const char *const bad[] = {"", "x", "$2a$04$", "$1$aaaaaaaa$bbbbbbbbbbbbbbbbbbbbbbb",
                               "$2a$99$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuvwxyzabcde"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!password_matches(bytes_of_str(bad[i]), BYTES("")));
    password_nobodys(4, nobodys);
    CHECK_EQ(strlen(nobodys), PASSWORD_HASH_LEN);
    CHECK(!password_matches(bytes_of_str(nobodys), BYTES("")));
}

/* ---- Tokens ---- */

TEST(tokens_end_when_they_were_not_used_for_their_time)
{
    struct auth_tokens *t = auth_tokens_open(1000, test_seed());
    struct bytes user;

    auth_tokens_add(t, BYTES("abc"), 7, BYTES("alice"), 0);
    auth_tokens_add(t, BYTES("abc"), 8, BYTES("bob"), 500);
    auth_tokens_add(t, BYTES(""), 9, BYTES("root"), 500); /* which anybody could guess */
    CHECK_EQ(auth_tokens_count(t), 2);
    CHECK(!auth_tokens_use(t, BYTES(".9"), 500, &user));
    CHECK(auth_tokens_use(t, BYTES("abc.7"), 999, &user));
    CHECK_BYTES(user, BYTES("alice"));
    CHECK(!auth_tokens_use(t, BYTES("abc.8"), 1500, &user));
    CHECK(auth_tokens_use(t, BYTES("abc.7"), 1998, &user));
    auth_tokens_check(t);
    auth_tokens_add(t, BYTES("x"), 10, BYTES("bob"), 2000);
    auth_tokens_drop_user(t, BYTES("alice"));
    CHECK(!auth_tokens_use(t, BYTES("abc.7"), 2000, &user));
    CHECK(auth_tokens_use(t, BYTES("x.10"), 2000, &user));
    auth_tokens_drop_all(t);
    CHECK_EQ(auth_tokens_count(t), 0);

    auth_tokens_close(t);
}

TEST(beyond_their_number_the_token_goes_that_was_not_used_for_longest)
{
    struct auth_tokens *t = auth_tokens_open(1000, test_seed());
    struct bytes user;

    for (uint64_t i = 1; i <= AUTH_TOKENS_MAX; i++)
        auth_tokens_add(t, BYTES("p"), i, BYTES("u"), 0);
    CHECK(auth_tokens_use(t, BYTES("p.1"), 1, &user));
    auth_tokens_add(t, BYTES("p"), AUTH_TOKENS_MAX + 1, BYTES("u"), 1);
    CHECK_EQ(auth_tokens_count(t), AUTH_TOKENS_MAX);
    CHECK(auth_tokens_use(t, BYTES("p.1"), 1, &user));
    CHECK(!auth_tokens_use(t, BYTES("p.2"), 1, &user));
    auth_tokens_check(t);

    auth_tokens_close(t);
}

TEST(a_token_names_its_entry_or_is_none)
{
    char prefix[AUTH_TOKEN_PREFIX_LEN];
    uint8_t random[64];
    uint64_t index;

    CHECK(auth_token_index(BYTES("abc.57"), &index));
    CHECK_EQ(index, 57);
    CHECK(!auth_token_index(BYTES("abc"), &index));
    CHECK(!auth_token_index(BYTES(""), &index));
    CHECK(!auth_token_index(BYTES("a.b.5"), &index));
    CHECK(!auth_token_index(BYTES("a."), &index));
    CHECK(!auth_token_index(BYTES("a.-1"), &index));
    CHECK(!auth_token_index(BYTES("a.18446744073709551616"), &index));
    memset(random, 255, sizeof(random));
    CHECK(!auth_token_prefix(bytes_of(random, sizeof(random)), prefix));
    for (size_t i = 0; i < sizeof(random); i++)
        random[i] = (uint8_t)(i * 16);
    CHECK(auth_token_prefix(bytes_of(random, sizeof(random)), prefix));
    CHECK_BYTES(bytes_of(prefix, 4), BYTES("aqGW"));
}

TEST(a_hash_says_what_it_costs)
{
    char hash[PASSWORD_HASH_LEN + 1];

    for (unsigned cost = PASSWORD_COST_MIN; cost <= PASSWORD_COST_MAX; cost++) {
        password_nobodys(cost, hash);
        CHECK_EQ(password_cost(bytes_of_str(hash)), cost);
    }
    static const char costs[][2] = {{'0', '3'}, {'3', '2'}, {'1', 'x'}, {'/', '4'}};
    for (size_t i = 0; i < ARRAY_LEN(costs); i++) {
        memcpy(hash + 4, costs[i], 2);
        CHECK_EQ(password_cost(bytes_of_str(hash)), 0);
    }
    CHECK_EQ(password_cost(BYTES("")), 0);
    CHECK_EQ(password_cost(BYTES("hash")), 0);
}
