#include "auth/password.h"

#include "base/assert.h"

#include <nettle/blowfish.h>
#include <stdio.h>
#include <string.h>

enum { SETTING_LEN = 29, DIGEST_LEN = 31 };

static_assert(SETTING_LEN + DIGEST_LEN == PASSWORD_HASH_LEN, "which is all of it");
static_assert(BLOWFISH_BCRYPT_HASH_SIZE == PASSWORD_HASH_LEN + 1, "and a zero behind it");
static_assert(BLOWFISH_BCRYPT_BINSALT_SIZE == PASSWORD_SALT_BYTES, "as bcrypt has it");

/* As 2b, with the cost and the salt that are given, or else those of the setting. What is hashed is
 * the password and a zero behind it, over and over: nettle reads that zero, too. */
static bool run_bcrypt(struct bytes password, struct bytes setting, int cost, const uint8_t *salt,
                       char out[static PASSWORD_HASH_LEN + 1])
{
    uint8_t text[PASSWORD_BYTES_MAX + 1] = {0};
    size_t len = password.len < PASSWORD_BYTES_MAX ? password.len : PASSWORD_BYTES_MAX;

    if (len > 0)
        memcpy(text, password.at, len);
    bool is_good =
        blowfish_bcrypt_hash((uint8_t *)out, len, text, setting.len, setting.at, cost, salt) != 0;
    explicit_bzero(text, sizeof(text));
    return is_good;
}

void password_hash(struct bytes password, unsigned cost,
                   const uint8_t salt[static PASSWORD_SALT_BYTES],
                   char out[static PASSWORD_HASH_LEN + 1])
{
    assert(password.len <= PASSWORD_BYTES_MAX);
    assert(cost >= PASSWORD_COST_MIN && cost <= PASSWORD_COST_MAX);

    if (!run_bcrypt(password, BYTES("2b"), (int)cost, salt, out))
        fatal("a password cannot be hashed");
    assert(strlen(out) == PASSWORD_HASH_LEN);
    out[2] = 'a';
}

/* "$2a$10$" and salt and digest, as 2b, which is what Go means by any letter. */
static bool read_setting(struct bytes hash, char out[static SETTING_LEN])
{
    if (hash.len != PASSWORD_HASH_LEN || hash.at[0] != '$' || hash.at[1] != '2' ||
        hash.at[3] != '$' || hash.at[6] != '$')
        return false;
    memcpy(out, hash.at, SETTING_LEN);
    out[2] = 'b';
    return true;
}

unsigned password_cost(struct bytes hash)
{
    char setting[SETTING_LEN];

    if (!read_setting(hash, setting))
        return 0;
    unsigned tens = (uint8_t)setting[4] - (unsigned)'0', ones = (uint8_t)setting[5] - (unsigned)'0';
    unsigned cost = tens <= 9 && ones <= 9 ? 10 * tens + ones : 0;
    return cost >= PASSWORD_COST_MIN && cost <= PASSWORD_COST_MAX ? cost : 0;
}

bool password_matches(struct bytes hash, struct bytes password)
{
    char setting[SETTING_LEN], found[PASSWORD_HASH_LEN + 1];
    uint8_t difference = 0;

    if (!read_setting(hash, setting) ||
        !run_bcrypt(password, bytes_of(setting, SETTING_LEN), -1, NULL, found))
        return false;
    for (size_t i = SETTING_LEN; i < PASSWORD_HASH_LEN; i++) /* in the same time, right or wrong */
        difference |= (uint8_t)(hash.at[i] ^ (uint8_t)found[i]);
    explicit_bzero(found, sizeof(found));
    return difference == 0;
}

/* The digest has a letter at its end that no digest ends with. */
void password_nobodys(unsigned cost, char out[static PASSWORD_HASH_LEN + 1])
{
    assert(cost >= PASSWORD_COST_MIN && cost <= PASSWORD_COST_MAX);

    snprintf(out, PASSWORD_HASH_LEN + 1,
             "$2a$%02u$......................zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", cost % 100);
}
