#include "io/tls_self.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

enum { SERIAL_BITS = 128, VERSION_3 = 2 };

static void must(bool is_good)
{
    if (!is_good)
        fatal("libcrypto: cannot make a certificate");
}

/* A number, or a name. */
static void add_name(GENERAL_NAMES *names, struct bytes host)
{
    char text[TLS_HOST_BYTES_MAX + 1];
    uint8_t ip[16];

    if (host.len == 0 || host.len > TLS_HOST_BYTES_MAX)
        return;
    memcpy(text, host.at, host.len);
    text[host.len] = 0;
    int ip_len = inet_pton(AF_INET, text, ip) == 1    ? 4
                 : inet_pton(AF_INET6, text, ip) == 1 ? 16
                                                      : 0;
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = ip_len > 0 ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
    must(name && value);
    must(ASN1_STRING_set(value, ip_len > 0 ? (const void *)ip : text,
                         ip_len > 0 ? ip_len : (int)host.len) == 1);
    GENERAL_NAME_set0_value(name, ip_len > 0 ? GEN_IPADD : GEN_DNS, value);
    must(sk_GENERAL_NAME_push(names, name) > 0);
}

static void add_names(X509 *cert, struct tls_names hosts)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();

    must(names);
    for (size_t i = 0; i < hosts.count; i++)
        add_name(names, hosts.at[i]);
    if (sk_GENERAL_NAME_num(names) > 0)
        must(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1);
    GENERAL_NAMES_free(names);
}

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509V3_CTX context;

    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_nconf_nid(NULL, &context, nid, value);
    must(extension && X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static void set_serial(X509 *cert)
{
    BIGNUM *number = BN_new();

    must(number && BN_rand(number, SERIAL_BITS - 1, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1);
    must(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL);
    BN_free(number);
}

static X509 *make_cert(const struct tls_self_options *o, EVP_PKEY *key)
{
    X509 *cert = X509_new();

    must(cert && X509_set_version(cert, VERSION_3) == 1);
    set_serial(cert);
    X509_NAME *name = X509_get_subject_name(cert);
    must(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const uint8_t *)"etcd", -1, -1, 0));
    must(X509_set_issuer_name(cert, name) == 1 && X509_set_pubkey(cert, key) == 1);
    must(ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)o->from_s) != NULL);
    must(ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)o->to_s) != NULL);
    add_extension(cert, NID_key_usage, "critical,digitalSignature,keyEncipherment,cRLSign");
    add_extension(cert, NID_ext_key_usage, "serverAuth");
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert, NID_subject_key_identifier, "hash");
    add_names(cert, o->hosts);
    must(X509_sign(cert, key, EVP_sha512()) > 0);
    return cert;
}

static void take_out(BIO *bio, struct buf *out)
{
    char *at;
    long len = BIO_get_mem_data(bio, &at);

    assert(len > 0);
    buf_append(out, bytes_of(at, (size_t)len));
    OPENSSL_cleanse(at, (size_t)len);
    BIO_free(bio);
}

void tls_self_make(const struct tls_self_options *options, struct buf *cert, struct buf *key)
{
    EVP_PKEY *pair = EVP_EC_gen("P-521");
    BIO *cert_pem = BIO_new(BIO_s_mem()), *key_pem = BIO_new(BIO_s_mem());

    must(pair && cert_pem && key_pem);
    X509 *made = make_cert(options, pair);
    must(PEM_write_bio_X509(cert_pem, made) == 1);
    must(PEM_write_bio_PrivateKey_traditional(key_pem, pair, NULL, NULL, 0, NULL, NULL) == 1);
    take_out(cert_pem, cert);
    take_out(key_pem, key);
    X509_free(made);
    EVP_PKEY_free(pair);
}
