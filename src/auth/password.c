#include "auth/password.h"

#include "base/assert.h"
#include "base/mem.h"

#include <crypt.h>
#include <stdio.h>

enum { SETTING_LEN = 29, DIGEST_LEN = 31 };

static_assert(SETTING_LEN + DIGEST_LEN == PASSWORD_HASH_LEN, "which is all of it");

bool password_has_zero(struct bytes password)
{
    return password.len > 0 && memchr(password.at, 0, password.len) != NULL;
}

/* Of the setting only what it says counts, not which 2 it is called. */
static bool run_crypt(struct bytes password, const char setting[static SETTING_LEN + 1],
                      char out[static PASSWORD_HASH_LEN + 1])
{
    char text[PASSWORD_BYTES_MAX + 1] = {0};
    struct crypt_data *data = mem_new(struct crypt_data); /* 32 KiB: too much for a stack */

    if (password.len > 0)
        memcpy(text, password.at,
               password.len < PASSWORD_BYTES_MAX ? password.len : PASSWORD_BYTES_MAX);
    const char *hash = crypt_rn(text, setting, data, sizeof(*data));
    bool is_good = hash && strlen(hash) == PASSWORD_HASH_LEN;
    if (is_good)
        memcpy(out, hash, PASSWORD_HASH_LEN + 1);
    explicit_bzero(text, sizeof(text));
    explicit_bzero(data, sizeof(*data));
    mem_free(data);
    return is_good;
}

void password_hash(struct bytes password, unsigned cost,
                   const uint8_t salt[static PASSWORD_SALT_BYTES],
                   char out[static PASSWORD_HASH_LEN + 1])
{
    char setting[CRYPT_GENSALT_OUTPUT_SIZE];
    assert(password.len <= PASSWORD_BYTES_MAX);
    assert(!password_has_zero(password));
    assert(cost >= PASSWORD_COST_MIN && cost <= PASSWORD_COST_MAX);

    const char *made = crypt_gensalt_rn("$2b$", cost, (const char *)salt, PASSWORD_SALT_BYTES,
                                        setting, sizeof(setting));
    bool is_good = made && run_crypt(password, setting, out);
    if (!is_good)
        fatal("crypt cannot hash a password");
    out[2] = 'a';
}

/* "$2a$10$" and salt and digest, as 2b, which is what Go means by any letter. */
static bool read_setting(struct bytes hash, char out[static SETTING_LEN + 1])
{
    if (hash.len != PASSWORD_HASH_LEN || hash.at[0] != '$' || hash.at[1] != '2' ||
        hash.at[3] != '$' || hash.at[6] != '$')
        return false;
    memcpy(out, hash.at, SETTING_LEN);
    out[SETTING_LEN] = 0;
    out[2] = 'b';
    return true;
}

bool password_matches(struct bytes hash, struct bytes password)
{
    char setting[SETTING_LEN + 1], found[PASSWORD_HASH_LEN + 1];
    uint8_t difference = 0;

    if (!read_setting(hash, setting) || !run_crypt(password, setting, found))
        return false;
    for (size_t i = SETTING_LEN; i < PASSWORD_HASH_LEN; i++) /* in the same time, right or wrong */
        difference |= (uint8_t)(hash.at[i] ^ (uint8_t)found[i]);
    explicit_bzero(found, sizeof(found));
    return difference == 0 && !password_has_zero(password);
}

/* The digest has a letter at its end that no digest ends with. */
void password_nobodys(unsigned cost, char out[static PASSWORD_HASH_LEN + 1])
{
    assert(cost >= PASSWORD_COST_MIN && cost <= PASSWORD_COST_MAX);

    snprintf(out, PASSWORD_HASH_LEN + 1,
             "$2a$%02u$......................zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", cost % 100);
}
