#include "harness/certs_test.h"

#include "harness/test.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>

enum { PATHS = 512, PATH_BYTES = 512, DAY_S = 24 * 60 * 60 };

static const char *path_of(const char *name, const char *suffix)
{
    static char paths[PATHS][PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % PATHS];

    CHECK(snprintf(path, PATH_BYTES, "%s/%s%s", test_tmp_dir(), name, suffix) < PATH_BYTES);
    return path;
}

const char *certs_file(const char *name)
{
    return path_of(name, ".pem");
}

const char *certs_key(const char *name)
{
    return path_of(name, "-key.pem");
}

const char *certs_crl(const char *name)
{
    return path_of(name, ".crl");
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);

    CHECK(f != NULL);
    return f;
}

static void add_extension(X509 *x, int kind, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, kind, value);

    CHECK(e != NULL);
    CHECK_EQ(X509_add_ext(x, e, -1), 1);
    X509_EXTENSION_free(e);
}

static X509 *read_cert(const char *name)
{
    FILE *f = open_file(certs_file(name), "r");
    X509 *x = PEM_read_X509(f, NULL, NULL, NULL);

    fclose(f);
    CHECK(x != NULL);
    return x;
}

static EVP_PKEY *read_key(const char *name)
{
    FILE *f = open_file(certs_key(name), "r");
    EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);

    fclose(f);
    CHECK(key != NULL);
    return key;
}

static void set_names(X509 *x, const struct cert *cert)
{
    X509_NAME *subject = X509_get_subject_name(x);

    X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, (const uint8_t *)"cleat's tests", -1,
                               -1, 0);
    if (cert->cn)
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const uint8_t *)cert->cn, -1, -1,
                                   0);
    if (cert->sans)
        add_extension(x, NID_subject_alt_name, cert->sans);
    if (cert->is_ca)
        add_extension(x, NID_basic_constraints, "critical,CA:TRUE");
}

void certs_make(const char *name, const struct cert *cert)
{
    EVP_PKEY *key = cert->key_of   ? read_key(cert->key_of)
                    : cert->is_rsa ? EVP_RSA_gen(2048)
                                   : EVP_EC_gen("P-256");
    EVP_PKEY *signer = cert->signer ? read_key(cert->signer) : key;
    X509 *x = X509_new();
    X509 *issuer = cert->signer ? read_cert(cert->signer) : x;

    CHECK(key && x);
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), cert->serial ? cert->serial : 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -2 * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(x), cert->is_expired ? -DAY_S : DAY_S);
    X509_set_pubkey(x, key);
    set_names(x, cert);
    X509_set_issuer_name(x, X509_get_subject_name(issuer));
    CHECK(X509_sign(x, signer, EVP_sha256()) > 0);

    FILE *f = open_file(certs_file(name), "w");
    CHECK_EQ(PEM_write_X509(f, x), 1);
    fclose(f);
    f = open_file(certs_key(name), "w");
    CHECK_EQ(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
    if (cert->signer) {
        X509_free(issuer);
        EVP_PKEY_free(signer);
    }
    X509_free(x);
    EVP_PKEY_free(key);
}

static void revoke(X509_CRL *crl, long serial, ASN1_TIME *when)
{
    X509_REVOKED *revoked = X509_REVOKED_new();
    ASN1_INTEGER *number = ASN1_INTEGER_new();

    ASN1_INTEGER_set(number, serial);
    X509_REVOKED_set_serialNumber(revoked, number);
    X509_REVOKED_set_revocationDate(revoked, when);
    CHECK_EQ(X509_CRL_add0_revoked(crl, revoked), 1);
    ASN1_INTEGER_free(number);
}

void certs_make_crl(const char *name, const char *signer, long serial)
{
    X509_CRL *crl = X509_CRL_new();
    X509 *issuer = read_cert(signer);
    EVP_PKEY *key = read_key(signer);
    ASN1_TIME *now = X509_gmtime_adj(NULL, 0);

    X509_CRL_set_version(crl, 1);
    X509_CRL_set_issuer_name(crl, X509_get_subject_name(issuer));
    X509_CRL_set1_lastUpdate(crl, now);
    X509_CRL_set1_nextUpdate(crl, now);
    if (serial > 0)
        revoke(crl, serial, now);
    CHECK(X509_CRL_sign(crl, key, EVP_sha256()) > 0);

    FILE *f = open_file(certs_crl(name), "wb");
    CHECK_EQ(i2d_X509_CRL_fp(f, crl), 1);
    fclose(f);
    ASN1_TIME_free(now);
    EVP_PKEY_free(key);
    X509_free(issuer);
    X509_CRL_free(crl);
}
