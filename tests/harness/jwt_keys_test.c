#include "harness/jwt_keys_test.h"

#include "harness/test.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

static EVP_PKEY *make_pair(enum jwt_method method)
{
    switch (method) {
    case JWT_ES256:
        return EVP_EC_gen("P-256");
    case JWT_ES384:
        return EVP_EC_gen("P-384");
    case JWT_ES512:
        return EVP_EC_gen("P-521");
    case JWT_EdDSA:
        return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    default:
        return EVP_RSA_gen(2048);
    }
}

static void take(BIO *bio, struct buf *out)
{
    char *text;
    long len = BIO_get_mem_data(bio, &text);

    CHECK(len > 0);
    buf_append(out, bytes_of(text, (size_t)len));
    BIO_free(bio);
}

void jwt_keys_make(enum jwt_method method, struct jwt_keys *out)
{
    *out = (struct jwt_keys){0};
    if (method == JWT_HS256 || method == JWT_HS384 || method == JWT_HS512) {
        buf_printf(&out->private_key, "a secret %llx\n", (unsigned long long)test_seed());
        return;
    }
    EVP_PKEY *pair = make_pair(method);
    BIO *public = BIO_new(BIO_s_mem()), *private = BIO_new(BIO_s_mem());
    CHECK(pair && public && private);
    CHECK_EQ(PEM_write_bio_PUBKEY(public, pair), 1);
    CHECK_EQ(PEM_write_bio_PKCS8PrivateKey(private, pair, NULL, NULL, 0, NULL, NULL), 1);
    take(public, &out->public_key);
    take(private, &out->private_key);
    EVP_PKEY_free(pair);
}

static void write_key(const char *name, const struct buf *text)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", test_tmp_dir(), name);
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(text->at, 1, text->len, f), text->len);
    CHECK_EQ(fclose(f), 0);
}

void jwt_keys_write(const struct jwt_keys *k)
{
    write_key("public", &k->public_key);
    write_key("private", &k->private_key);
}

void jwt_keys_free(struct jwt_keys *k)
{
    buf_free(&k->public_key);
    buf_free(&k->private_key);
}
