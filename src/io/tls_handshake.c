#include "base/assert.h"
#include "base/mem.h"
#include "io/io.h"
#include "io/tls_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

/* --- what SSL reads and writes ---
 *
 * OpenSSL's own memory BIO would copy what comes in, and keep a buffer as large as the most it ever
 * held: 64 KiB for each connection that was ever busy. Ours looks at what is there.
 */

static int bio_read(BIO *bio, char *out, size_t size, size_t *got)
{
    struct tls_conn *c = BIO_get_data(bio);
    size_t count = size < c->input.len ? size : c->input.len;

    BIO_clear_retry_flags(bio);
    *got = count;
    if (count == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(out, c->input.at, count);
    c->input = bytes_of(c->input.at + count, c->input.len - count);
    return 1;
}

static int bio_write(BIO *bio, const char *what, size_t size, size_t *written)
{
    struct tls_conn *c = BIO_get_data(bio);

    buf_append(c->output, bytes_of(what, size));
    *written = size;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *context)
{
    (void)bio;
    (void)number;
    (void)context;
    return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_bio_method_new(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "tls_conn");

    if (!m || BIO_meth_set_read_ex(m, bio_read) != 1 || BIO_meth_set_write_ex(m, bio_write) != 1 ||
        BIO_meth_set_ctrl(m, bio_control) != 1)
        fatal("libcrypto: BIO_meth_new failed");
    return m;
}

/* --- what went wrong --- */

enum { ALERT_REASONS = 1000 }; /* where OpenSSL's reasons for the other end's alerts begin */

static const char *alert_text(int alert)
{
    switch (alert) {
    case SSL_AD_HANDSHAKE_FAILURE:
        return "handshake failure";
    case SSL_AD_BAD_CERTIFICATE:
        return "bad certificate";
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
        return "unsupported certificate";
    case SSL_AD_CERTIFICATE_REVOKED:
        return "revoked certificate";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return "expired certificate";
    case SSL_AD_CERTIFICATE_UNKNOWN:
        return "unknown certificate";
    case SSL_AD_UNKNOWN_CA:
        return "unknown certificate authority";
    case SSL_AD_PROTOCOL_VERSION:
        return "protocol version not supported";
    case SSL_AD_INTERNAL_ERROR:
        return "internal error";
    case SSL_AD_UNRECOGNIZED_NAME:
        return "unrecognized name";
    case TLS13_AD_CERTIFICATE_REQUIRED:
        return "certificate required";
    case SSL_AD_NO_APPLICATION_PROTOCOL:
        return "no application protocol";
    default:
        return NULL;
    }
}

/* Of a host that is not among a certificate's names, Go says what these are. */
void tls_describe_mismatch(struct tls_conn *c, X509 *leaf)
{
    buf_append_str(&c->why, "tls: failed to verify certificate: ");
    tls_describe_names(c, leaf);
}

/* False: it is none, whatever the certificate says, and may be shorter than one. */
static bool ip_text(const ASN1_OCTET_STRING *ip, char out[static INET6_ADDRSTRLEN])
{
    int len = ASN1_STRING_length(ip);

    if (len != 4 && len != 16)
        return false;
    return inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(ip), out,
                     INET6_ADDRSTRLEN) != NULL;
}

/* False: it is of another kind. An address is written to `text`. */
static bool name_of_kind(const GENERAL_NAME *name, int kind, char text[static INET6_ADDRSTRLEN],
                         struct bytes *out)
{
    if (name->type != kind)
        return false;
    if (kind == GEN_DNS) {
        *out = bytes_of(ASN1_STRING_get0_data(name->d.dNSName),
                        (size_t)ASN1_STRING_length(name->d.dNSName));
        return true;
    }
    if (!ip_text(name->d.iPAddress, text))
        return false;
    *out = bytes_of_str(text);
    return true;
}

void tls_describe_names(struct tls_conn *c, X509 *leaf)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    struct buf *why = &c->why;
    struct net_address host;
    int kind = net_address_of_host(c->host, 0, &host) == ERR_OK ? GEN_IPADD : GEN_DNS;
    size_t before;

    buf_append_str(why, "x509: certificate is valid for ");
    before = why->len;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && why->len - before < TLS_SANS_BYTES_MAX; i++) {
        char text[INET6_ADDRSTRLEN];
        struct bytes name;

        if (!name_of_kind(sk_GENERAL_NAME_value(names, i), kind, text, &name))
            continue;
        if (why->len > before)
            buf_append_str(why, ", ");
        buf_append(why, name);
    }
    GENERAL_NAMES_free(names);
    buf_printf(why, ", not %s", c->host);
}

static void describe_verify(long result, struct buf *why)
{
    if (result != X509_V_ERR_CERT_REJECTED)
        buf_append_str(why, "tls: failed to verify certificate: ");
    switch (result) {
    case X509_V_ERR_CERT_REJECTED:
        buf_append_str(why, "client certificate authentication failed");
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        buf_append_str(why, "x509: certificate signed by unknown authority");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
        buf_append_str(why, "x509: certificate has expired or is not yet valid");
        break;
    case X509_V_ERR_INVALID_PURPOSE:
        buf_append_str(why, "x509: certificate specifies an incompatible key usage");
        break;
    default:
        buf_printf(why, "x509: %s", X509_verify_cert_error_string(result));
        break;
    }
}

static void describe_ssl(const struct tls_conn *c, unsigned long error, struct buf *why)
{
    int reason = ERR_GET_REASON(error);
    const char *alert = reason > ALERT_REASONS ? alert_text(reason - ALERT_REASONS) : NULL;
    const char *text = ERR_reason_error_string(error);

    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        describe_verify(SSL_get_verify_result(c->ssl), why);
        break;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        buf_append_str(why, "tls: client didn't provide a certificate");
        break;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        buf_append_str(why, "tls: first record does not look like a TLS handshake");
        break;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
        buf_append_str(why, "tls: client offered only unsupported versions");
        break;
    case SSL_R_NO_SHARED_CIPHER:
        buf_append_str(why, "tls: no cipher suite supported by both client and server");
        break;
    case SSL_R_NO_APPLICATION_PROTOCOL:
        buf_append_str(why, "tls: client requested unsupported application protocols");
        break;
    default:
        if (alert)
            buf_printf(why, "remote error: tls: %s", alert);
        else if (reason > ALERT_REASONS)
            buf_printf(why, "remote error: tls: alert(%d)", reason - ALERT_REASONS);
        else
            buf_printf(why, "tls: %s", text ? text : "the connection failed");
        break;
    }
}

void tls_describe_error(struct tls_conn *c, int error)
{
    if (c->why.len > 0)
        return; /* while it was verified it was known better */
    if (error == SSL_ERROR_ZERO_RETURN)
        buf_append_str(&c->why, "EOF");
    else
        describe_ssl(c, ERR_peek_error(), &c->why);
}

/* --- whom it is with --- */

void tls_refuse(struct tls_conn *c, X509 *leaf)
{
    assert(!c->refused);
    X509_up_ref(leaf);
    c->refused = leaf;
}

static bool is_text(const ASN1_STRING *s)
{
    return ASN1_STRING_length(s) > 0 &&
           !memchr(ASN1_STRING_get0_data(s), 0, (size_t)ASN1_STRING_length(s));
}

static const char *copy_text(struct tls_conn *c, const ASN1_STRING *s)
{
    return arena_printf(&c->names, "%.*s", ASN1_STRING_length(s), ASN1_STRING_get0_data(s));
}

/* Who has none is somebody all the same, whose certificate was verified. */
static void note_cn(struct tls_conn *c, X509 *leaf)
{
    struct buf name = {0};

    tls_common_name(leaf, &name);
    c->base.info.cn = arena_copy_str(&c->names, buf_bytes(&name));
    buf_free(&name);
}

static const char *san_text(struct tls_conn *c, const GENERAL_NAME *name)
{
    char text[INET6_ADDRSTRLEN];

    switch (name->type) {
    case GEN_DNS:
    case GEN_EMAIL:
    case GEN_URI: /* all of them are in the same place */
        return is_text(name->d.ia5) ? copy_text(c, name->d.ia5) : NULL;
    case GEN_IPADD:
        return ip_text(name->d.iPAddress, text) ? arena_printf(&c->names, "%s", text) : NULL;
    default:
        return NULL;
    }
}

/* A certificate may have thousands, and each of its connections keeps them: only the first count.
 */
static void note_sans(struct tls_conn *c, X509 *leaf)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    size_t count = names ? (size_t)sk_GENERAL_NAME_num(names) : 0;
    size_t bytes = 0;

    if (count > TLS_SANS_MAX)
        count = TLS_SANS_MAX;
    const char **sans = arena_new_array(&c->names, count, const char *);
    c->base.info.sans = sans;
    for (size_t i = 0; i < count && bytes < TLS_SANS_BYTES_MAX; i++) {
        const char *san = san_text(c, sk_GENERAL_NAME_value(names, (int)i));
        if (!san)
            continue;
        bytes += strlen(san);
        sans[c->base.info.san_count++] = san;
    }
    GENERAL_NAMES_free(names);
}

void tls_sans_of(struct tls_conn *c, X509 *leaf, struct tls_sans *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    size_t bytes = 0;

    out->ip_count = out->host_count = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && bytes < TLS_SANS_BYTES_MAX; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        bool is_ip = name->type == GEN_IPADD;
        size_t *count = is_ip ? &out->ip_count : &out->host_count;
        const char *text = is_ip || name->type == GEN_DNS ? san_text(c, name) : NULL;

        if (!text || *count == TLS_SANS_MAX)
            continue;
        bytes += strlen(text);
        (is_ip ? out->ips : out->hosts)[(*count)++] = bytes_of_str(text);
    }
    GENERAL_NAMES_free(names);
}

static bool is_listed(X509_CRL *crl, X509 *cert, struct buf *why)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(cert);
    STACK_OF(X509_REVOKED) *revoked = X509_CRL_get_REVOKED(crl);

    for (int i = 0; i < sk_X509_REVOKED_num(revoked); i++) {
        const X509_REVOKED *entry = sk_X509_REVOKED_value(revoked, i);
        if (ASN1_INTEGER_cmp(serial, X509_REVOKED_get0_serialNumber(entry)) != 0)
            continue;
        buf_append_str(why, "transport: certificate serial ");
        for (int k = 0; k < ASN1_STRING_length(serial); k++)
            buf_printf(why, "%02x", ASN1_STRING_get0_data(serial)[k]);
        buf_append_str(why, " revoked");
        return true;
    }
    return false;
}

/* By serial number alone, whoever issued it, as etcd does. */
static bool is_revoked(struct tls_conn *c, X509 *leaf)
{
    BIO *file = BIO_new_file(c->tls->options.crl_file, "rb");
    X509_CRL *crl = file ? d2i_X509_CRL_bio(file, NULL) : NULL;
    STACK_OF(X509) *chain = SSL_get_peer_cert_chain(c->ssl);
    bool is_bad = !crl || is_listed(crl, leaf, &c->why);

    if (!file)
        buf_printf(&c->why, "open %s: %s", c->tls->options.crl_file, strerror(errno));
    else if (!crl)
        buf_append_str(&c->why, "x509: malformed crl");
    for (int i = 0; !is_bad && i < sk_X509_num(chain); i++)
        is_bad = is_listed(crl, sk_X509_value(chain, i), &c->why);
    X509_CRL_free(crl);
    BIO_free(file);
    ERR_clear_error();
    return is_bad;
}

/* A session that is resumed brings its certificate, and nobody has looked at it since. */
static bool is_still_good(struct tls_conn *c, X509 *leaf)
{
    if (X509_cmp_current_time(X509_get0_notAfter(leaf)) < 0) {
        describe_verify(X509_V_ERR_CERT_HAS_EXPIRED, &c->why);
        return false;
    }
    if (tls_is_allowed(c->tls, leaf))
        return true;
    describe_verify(X509_V_ERR_CERT_REJECTED, &c->why);
    return false;
}

static bool accept_leaf(struct tls_conn *c, X509 *leaf)
{
    const char *crl_file = c->tls->options.crl_file;

    if (SSL_session_reused(c->ssl) && c->tls->options.requires_cert && !is_still_good(c, leaf))
        return false;
    if (crl_file && crl_file[0] && is_revoked(c, leaf))
        return false;
    if (!c->tls->options.requires_cert)
        return true; /* it was not verified, so it says nothing */
    note_cn(c, leaf);
    note_sans(c, leaf);
    return !c->tls->options.checks_address || tls_san_begin(c, leaf);
}

static bool accept_identity(struct tls_conn *c)
{
    X509 *leaf = SSL_get0_peer_certificate(c->ssl);

    if (!leaf || !c->listener)
        return true;
    if (accept_leaf(c, leaf))
        return true;
    tls_refuse(c, leaf);
    return false;
}

/* --- steps --- */

static bool expect_host(const struct tls_conn *c)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(c->ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(param, c->host) == 1)
        return true;
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                               X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, c->host, 0) == 1 &&
           SSL_set_tlsext_host_name(c->ssl, c->host) == 1;
}

static bool begin(struct tls_conn *c)
{
    struct tls *t = c->tls;
    SSL_CTX *context = tls_context(t, c->listener ? &t->serving : &t->dialling, &c->why);

    if (!context)
        return false;
    c->ssl = SSL_new(context);
    BIO *bio = BIO_new(t->bio);
    if (!c->ssl || !bio)
        fatal("libssl: SSL_new failed");
    SSL_CTX_free(context); /* it lives as long as those made of it */
    BIO_set_data(bio, c);
    BIO_set_init(bio, 1);
    SSL_set_bio(c->ssl, bio, bio);
    SSL_set_app_data(c->ssl, c);
    if (c->listener)
        SSL_set_accept_state(c->ssl);
    else
        SSL_set_connect_state(c->ssl);
    if (c->listener || t->options.trusts_anybody || expect_host(c))
        return true;
    buf_printf(&c->why, "tls: %s is no name of a host", c->host);
    return false;
}

void tls_step(struct job *j)
{
    struct tls_conn *c = container_of(j, struct tls_conn, job);

    assert(c->phase == TLS_STEPPING);
    ERR_clear_error();
    c->step = TLS_STEP_FAILED;
    if (!c->ssl && !begin(c)) {
        ERR_clear_error();
        return;
    }
    int result = SSL_do_handshake(c->ssl);
    int error = SSL_get_error(c->ssl, result);
    if (result == 1)
        c->step = accept_identity(c) ? TLS_STEP_DONE : TLS_STEP_FAILED;
    else if (error == SSL_ERROR_WANT_READ)
        c->step = TLS_STEP_MORE;
    else
        tls_describe_error(c, error);
    ERR_clear_error();
}
