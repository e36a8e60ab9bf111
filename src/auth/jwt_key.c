#include "auth/jwt_key.h"

#include "base/assert.h"
#include "base/mem.h"

#include <limits.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

enum { RSA_BITS_MIN = 1024 }; /* as Go has it */

struct method {
    const char *family; /* as messages call it */
    const EVP_MD *(*digest)(void);
    const char *curve;
    size_t curve_bytes;
    int type; /* of the key: EVP_PKEY_..., or EVP_PKEY_HMAC for a secret */
    bool is_pss;
};

#define RSA_METHOD(hash, pss) {.family = "RSA", .digest = hash, .type = EVP_PKEY_RSA, .is_pss = pss}
#define EC_METHOD(hash, name, bytes)                                                               \
    {.family = "ECDSA", .digest = hash, .type = EVP_PKEY_EC, .curve = name, .curve_bytes = bytes}
#define HMAC_METHOD(hash) {.family = "HMAC", .digest = hash, .type = EVP_PKEY_HMAC}

static const struct method methods[JWT_METHOD_COUNT] = {
    [JWT_RS256] = RSA_METHOD(EVP_sha256, false),
    [JWT_RS384] = RSA_METHOD(EVP_sha384, false),
    [JWT_RS512] = RSA_METHOD(EVP_sha512, false),
    [JWT_PS256] = RSA_METHOD(EVP_sha256, true),
    [JWT_PS384] = RSA_METHOD(EVP_sha384, true),
    [JWT_PS512] = RSA_METHOD(EVP_sha512, true),
    [JWT_ES256] = EC_METHOD(EVP_sha256, "prime256v1", 32),
    [JWT_ES384] = EC_METHOD(EVP_sha384, "secp384r1", 48),
    [JWT_ES512] = EC_METHOD(EVP_sha512, "secp521r1", 66),
    [JWT_HS256] = HMAC_METHOD(EVP_sha256),
    [JWT_HS384] = HMAC_METHOD(EVP_sha384),
    [JWT_HS512] = HMAC_METHOD(EVP_sha512),
    [JWT_EdDSA] = {.family = "Ed25519", .type = EVP_PKEY_ED25519},
};

struct jwt_key {
    const struct method *method;
    struct buf secret; /* of HMAC */
    EVP_PKEY *pair;    /* of the others */
    bool is_public;
};

/* --- reading them --- */

/* The first block of a PEM text, in DER; OPENSSL_free. NULL: there is none. */
static unsigned char *first_block(struct bytes pem, long *len)
{
    char *name = NULL, *header = NULL;
    unsigned char *der = NULL;
    BIO *bio = pem.len <= INT_MAX ? BIO_new_mem_buf(pem.at, (int)pem.len) : NULL;

    if (bio && PEM_read_bio(bio, &name, &header, &der, len) != 1)
        der = NULL;
    BIO_free(bio);
    OPENSSL_free(name);
    OPENSSL_free(header);
    return der;
}

static EVP_PKEY *private_of(const unsigned char *der, long len)
{
    return d2i_AutoPrivateKey(NULL, &der, len);
}

static EVP_PKEY *certified(const unsigned char *der, long len)
{
    X509 *cert = d2i_X509(NULL, &der, len);
    EVP_PKEY *key = cert ? X509_get_pubkey(cert) : NULL;

    X509_free(cert);
    return key;
}

static EVP_PKEY *public_of(const unsigned char *der, long len)
{
    const unsigned char *at = der;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, len);

    if (!key)
        key = certified(der, len);
    at = der;
    return key ? key : d2i_PublicKey(EVP_PKEY_RSA, NULL, &at, len);
}

static bool fits(const EVP_PKEY *key, const struct method *m)
{
    char curve[32] = "";

    if (m->type == EVP_PKEY_RSA)
        return EVP_PKEY_get_bits(key) >= RSA_BITS_MIN;
    return !m->curve || (EVP_PKEY_get_group_name(key, curve, sizeof(curve), NULL) == 1 &&
                         strcmp(curve, m->curve) == 0);
}

/* True: *out is the key, or NULL as none was given. */
static bool read_key(struct bytes pem, const struct method *m, bool is_private, struct buf *why,
                     EVP_PKEY **out)
{
    const char *kind = is_private ? "private" : "public";
    long len = 0;

    *out = NULL;
    if (pem.len == 0)
        return true;
    unsigned char *der = first_block(pem, &len);
    EVP_PKEY *key = !der ? NULL : is_private ? private_of(der, len) : public_of(der, len);
    if (der)
        OPENSSL_clear_free(der, (size_t)len);
    if (!der)
        buf_printf(why, "invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key");
    else if (!key || EVP_PKEY_get_base_id(key) != m->type)
        buf_printf(why, "key is not a valid %s %s key", m->family, kind);
    else if (!fits(key, m))
        buf_printf(why, "key is invalid: a %s key of %d bits does not fit the sign-method",
                   m->family, EVP_PKEY_get_bits(key));
    else
        *out = key;
    if (!*out)
        EVP_PKEY_free(key);
    return *out;
}

static enum err open_pair(struct jwt_key *k, const struct jwt_options *o, struct buf *why)
{
    EVP_PKEY *private = NULL, *public = NULL;
    bool are_good = read_key(o->private_key, k->method, true, why, &private) &&
                    read_key(o->public_key, k->method, false, why, &public);

    if (are_good && !private && !public) {
        buf_append_str(why, "auth: missing key data");
        are_good = false;
    } else if (are_good && private && public && EVP_PKEY_eq(private, public) != 1) {
        buf_append_str(why, "auth: public and private keys don't match");
        are_good = false;
    }
    k->is_public = !private;
    k->pair = private ? private : public;
    if (private)
        EVP_PKEY_free(public);
    ERR_clear_error();
    return are_good ? ERR_OK : ERR_MALFORMED;
}

static enum err open_secret(struct jwt_key *k, const struct jwt_options *o, struct buf *why)
{
    if (o->private_key.len == 0 || o->private_key.len > INT_MAX) {
        buf_append_str(why, "auth: missing key data");
        return ERR_MALFORMED;
    }
    buf_append(&k->secret, o->private_key);
    return ERR_OK;
}

enum err jwt_key_open(const struct jwt_options *o, struct buf *why, struct jwt_key **out)
{
    struct jwt_key *k = mem_new(struct jwt_key);

    assert(o->method < JWT_METHOD_COUNT);
    k->method = &methods[o->method];
    enum err e = k->method->type == EVP_PKEY_HMAC ? open_secret(k, o, why) : open_pair(k, o, why);
    if (e != ERR_OK) {
        jwt_key_close(k);
        return e;
    }
    *out = k;
    return ERR_OK;
}

void jwt_key_close(struct jwt_key *k)
{
    if (!k)
        return;
    if (k->secret.cap > 0)
        explicit_bzero(k->secret.at, k->secret.cap);
    buf_free(&k->secret);
    EVP_PKEY_free(k->pair);
    mem_free(k);
}

bool jwt_key_is_public(const struct jwt_key *k)
{
    return k->is_public;
}

/* --- signatures --- */

static size_t mac_of(const struct jwt_key *k, struct bytes text, uint8_t out[EVP_MAX_MD_SIZE])
{
    unsigned len = 0;

    if (!HMAC(k->method->digest(), k->secret.at, (int)k->secret.len, text.at, text.len, out, &len))
        fatal("OpenSSL has no HMAC");
    return len;
}

static const EVP_MD *digest_of(const struct jwt_key *k)
{
    return k->method->digest ? k->method->digest() : NULL; /* Ed25519 hashes by itself */
}

static bool set_padding(const struct jwt_key *k, EVP_PKEY_CTX *ctx, int salt)
{
    return !k->method->is_pss || (EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                                  EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, salt) == 1);
}

/* OpenSSL speaks DER; a JWT has the two numbers one behind the other, of fixed length. */
static bool append_plain(const struct jwt_key *k, struct bytes der, struct buf *out)
{
    size_t half = k->method->curve_bytes;
    const unsigned char *at = der.at;
    const BIGNUM *r, *s;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)der.len);

    if (!pair)
        return false;
    ECDSA_SIG_get0(pair, &r, &s);
    uint8_t *plain = buf_extend(out, 2 * half);
    bool is_good = BN_bn2binpad(r, plain, (int)half) == (int)half &&
                   BN_bn2binpad(s, plain + half, (int)half) == (int)half;
    ECDSA_SIG_free(pair);
    return is_good;
}

static bool append_der(const struct jwt_key *k, struct bytes plain, struct buf *out)
{
    size_t half = k->method->curve_bytes;

    if (plain.len != 2 * half)
        return false;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(plain.at, (int)half, NULL);
    BIGNUM *s = BN_bin2bn(plain.at + half, (int)half, NULL);
    if (!pair || !r || !s || ECDSA_SIG_set0(pair, r, s) != 1)
        fatal("out of memory");
    int len = i2d_ECDSA_SIG(pair, NULL);
    if (len > 0) {
        unsigned char *at = buf_extend(out, (size_t)len);
        i2d_ECDSA_SIG(pair, &at);
    }
    ECDSA_SIG_free(pair);
    return len > 0;
}

static bool sign_by_pair(const struct jwt_key *k, struct bytes text, struct buf *out)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *of_key = NULL;
    struct buf signature = {0};
    size_t len = (size_t)EVP_PKEY_get_size(k->pair);

    if (!ctx)
        fatal("out of memory");
    buf_extend(&signature, len);
    bool is_good = EVP_DigestSignInit(ctx, &of_key, digest_of(k), NULL, k->pair) == 1 &&
                   set_padding(k, of_key, RSA_PSS_SALTLEN_DIGEST) &&
                   EVP_DigestSign(ctx, signature.at, &len, text.at, text.len) == 1;
    if (is_good && k->method->type == EVP_PKEY_EC)
        is_good = append_plain(k, bytes_of(signature.at, len), out);
    else if (is_good)
        buf_append(out, bytes_of(signature.at, len));
    buf_free(&signature);
    EVP_MD_CTX_free(ctx);
    ERR_clear_error(); /* TLS on this thread would take what we leave for its own */
    return is_good;
}

enum err jwt_key_sign(const struct jwt_key *k, struct bytes text, struct buf *out)
{
    if (k->is_public)
        return ERR_UNSUPPORTED;
    if (k->method->type == EVP_PKEY_HMAC) {
        uint8_t mac[EVP_MAX_MD_SIZE];
        buf_append(out, bytes_of(mac, mac_of(k, text, mac)));
        return ERR_OK;
    }
    return sign_by_pair(k, text, out) ? ERR_OK : ERR_UNSUPPORTED;
}

/* PSS with a salt of any length is verified, as etcd does. */
static bool verify_by_pair(const struct jwt_key *k, struct bytes text, struct bytes signature)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *of_key = NULL;
    struct buf der = {0};
    bool is_good = true;

    if (!ctx)
        fatal("out of memory");
    if (k->method->type == EVP_PKEY_EC) {
        is_good = append_der(k, signature, &der);
        signature = buf_bytes(&der);
    }
    is_good = is_good && EVP_DigestVerifyInit(ctx, &of_key, digest_of(k), NULL, k->pair) == 1 &&
              set_padding(k, of_key, RSA_PSS_SALTLEN_AUTO) &&
              EVP_DigestVerify(ctx, signature.at, signature.len, text.at, text.len) == 1;
    buf_free(&der);
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return is_good;
}

bool jwt_key_verify(const struct jwt_key *k, struct bytes text, struct bytes signature)
{
    if (signature.len == 0)
        return false;
    if (k->method->type != EVP_PKEY_HMAC)
        return verify_by_pair(k, text, signature);
    uint8_t mac[EVP_MAX_MD_SIZE];
    size_t len = mac_of(k, text, mac);
    return signature.len == len && CRYPTO_memcmp(mac, signature.at, len) == 0;
}
