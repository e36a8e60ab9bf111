#include "server/token_keys.h"

#include "io/disk.h"

static enum err read_key(struct disk *disk, const char *path, struct buf *out, struct buf *why)
{
    enum err e = path[0] != 0 ? disk_read_file(disk, path, AUTH_KEY_FILE_BYTES_MAX, out) : ERR_OK;

    if (e != ERR_OK)
        buf_printf(why, "auth: invalid auth options (open %s: %s)", path, err_text(e));
    return e;
}

/* Nothing of a key is left behind in memory that is used for something else. */
static void overwrite(struct buf *key)
{
    if (key->cap > 0)
        explicit_bzero(key->at, key->cap);
    buf_free(key);
}

static enum err open_jwt(const struct config_token *c, struct disk *disk, uint64_t seed,
                         struct buf *why, struct auth_tokens **out)
{
    struct buf public_key = {0}, private_key = {0};
    struct jwt *jwt;

    enum err e = read_key(disk, c->jwt_public_key_file, &public_key, why);
    if (e == ERR_OK)
        e = read_key(disk, c->jwt_private_key_file, &private_key, why);
    if (e == ERR_OK)
        e = jwt_open(&(struct jwt_options){.method = c->jwt_method,
                                           .public_key = buf_bytes(&public_key),
                                           .private_key = buf_bytes(&private_key),
                                           .ttl_s = c->jwt_ttl_s},
                     why, &jwt);
    if (e == ERR_OK)
        *out = auth_tokens_open_jwt(jwt, seed);
    buf_free(&public_key);
    overwrite(&private_key);
    return e;
}

enum err token_keys_open(const struct config *config, struct disk *disk, uint64_t seed,
                         struct buf *why, struct auth_tokens **out)
{
    *out = NULL;
    if (config->token.kind == TOKEN_JWT)
        return open_jwt(&config->token, disk, seed, why, out);
    if (config->token.kind == TOKEN_SIMPLE)
        *out = auth_tokens_open(config->token.simple_ttl_ms, seed);
    return ERR_OK;
}
