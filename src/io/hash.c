#include "io/hash.h"

#include "base/assert.h"
#include "base/mem.h"

#include <openssl/evp.h>

struct hash {
    EVP_MD_CTX *context;
};

static void must(int ok, const char *what)
{
    if (ok != 1)
        fatal("libcrypto: %s failed", what);
}

struct hash *hash_new(enum hash_kind kind)
{
    struct hash *h = mem_new(struct hash);

    h->context = EVP_MD_CTX_new();
    must(h->context != NULL, "EVP_MD_CTX_new");
    must(EVP_DigestInit_ex(h->context, kind == HASH_SHA1 ? EVP_sha1() : EVP_sha256(), NULL),
         "EVP_DigestInit_ex");
    return h;
}

void hash_add(struct hash *h, struct bytes more)
{
    if (more.len > 0)
        must(EVP_DigestUpdate(h->context, more.at, more.len), "EVP_DigestUpdate");
}

void hash_end(struct hash *h, uint8_t *digest)
{
    must(EVP_DigestFinal_ex(h->context, digest, NULL), "EVP_DigestFinal_ex");
    hash_free(h);
}

void hash_free(struct hash *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->context);
    mem_free(h);
}

void hash_once(enum hash_kind kind, struct bytes whole, uint8_t *digest)
{
    struct hash *h = hash_new(kind);

    hash_add(h, whole);
    hash_end(h, digest);
}
