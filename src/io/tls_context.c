#include "base/assert.h"
#include "base/mem.h"
#include "io/tls_int.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <unistd.h>

static bool is_said(const char *text)
{
    return text && text[0] != 0;
}

/* --- suites --- */

/* OpenSSL knows most by the same names; those without a second one are known and never offered. */
struct suite {
    const char *go, *openssl;
};

static const struct suite suites[] = {
    {"TLS_AES_128_GCM_SHA256", NULL},
    {"TLS_AES_256_GCM_SHA384", NULL},
    {"TLS_CHACHA20_POLY1305_SHA256", NULL},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", NULL},
    {"TLS_RSA_WITH_3DES_EDE_CBC_SHA", NULL},
    {"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", NULL},
    {"TLS_ECDHE_RSA_WITH_RC4_128_SHA", NULL},
    {"TLS_RSA_WITH_RC4_128_SHA", NULL},
};

enum { SUITES_BY_DEFAULT_FIRST = 3, SUITES_BY_DEFAULT_LAST = 14 };

static const struct suite *find_suite(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(suites); i++)
        if (bytes_equal(name, bytes_of_str(suites[i].go)))
            return &suites[i];
    return NULL;
}

bool tls_suite_is_known(struct bytes name)
{
    return find_suite(name) != NULL;
}

static void list_suite(struct buf *list, const struct suite *suite)
{
    if (!suite || !suite->openssl)
        return;
    if (list->len > 0)
        buf_append_str(list, ":");
    buf_append_str(list, suite->openssl);
}

/* If none of those asked for is left, nobody can come by TLS 1.2. */
static bool set_suites(const struct tls_options *o, SSL_CTX *context)
{
    struct buf list = {0};

    for (size_t i = 0; i < o->suites.count; i++)
        list_suite(&list, find_suite(o->suites.at[i]));
    for (size_t i = SUITES_BY_DEFAULT_FIRST; o->suites.count == 0 && i <= SUITES_BY_DEFAULT_LAST;
         i++)
        list_suite(&list, &suites[i]);
    bool is_set = list.len > 0 ? SSL_CTX_set_cipher_list(context, buf_str(&list)) == 1
                               : SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1;
    buf_free(&list);
    return is_set;
}

/* --- files --- */

/* By the system and not by the disk's seam: it is done on a worker, for each handshake, and the
 * simulator has none of it. */
static bool read_file(const char *path, struct buf *out, struct buf *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;

    buf_clear(out);
    while (got > 0) {
        buf_reserve(out, DISK_READ_STEP_BYTES);
        got =
            out->len > TLS_FILE_BYTES_MAX ? -1 : read(fd, out->at + out->len, DISK_READ_STEP_BYTES);
        if (out->len > TLS_FILE_BYTES_MAX)
            errno = EFBIG;
        out->len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        buf_printf(why, "%s %s: %s", fd < 0 ? "open" : "read", path,
                   errno == ENOENT ? "no such file or directory" : strerror(errno));
    if (fd >= 0)
        close(fd);
    return got == 0;
}

/* Without it OpenSSL would ask the terminal. */
static int no_password(char *out, int size, int is_writing, void *context)
{
    (void)out;
    (void)size;
    (void)is_writing;
    (void)context;
    return -1;
}

static BIO *reader_of(const struct buf *content)
{
    BIO *bio = BIO_new_mem_buf(content->at, (int)content->len);

    if (!bio)
        fatal("libcrypto: BIO_new_mem_buf failed");
    return bio;
}

/* The leaf comes first, then whoever signed it. */
static bool use_cert(SSL_CTX *context, const struct buf *pem, struct buf *why)
{
    BIO *bio = reader_of(pem);
    X509 *cert = PEM_read_bio_X509_AUX(bio, NULL, no_password, NULL);
    bool is_good = cert && SSL_CTX_use_certificate(context, cert) == 1;

    if (!cert)
        buf_append_str(why, "tls: failed to find any PEM data in certificate input");
    else if (!is_good)
        buf_printf(why, "tls: %s", ERR_reason_error_string(ERR_peek_last_error()));
    X509_free(cert);
    while (is_good && (cert = PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
        is_good = SSL_CTX_add0_chain_cert(context, cert) == 1;
        if (!is_good) {
            X509_free(cert);
            buf_printf(why, "tls: %s", ERR_reason_error_string(ERR_peek_last_error()));
        }
    }
    BIO_free(bio);
    ERR_clear_error(); /* of the search for one more */
    return is_good;
}

static bool use_key(SSL_CTX *context, const struct buf *pem, struct buf *why)
{
    BIO *bio = reader_of(pem);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    bool fits =
        key && SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;

    BIO_free(bio);
    EVP_PKEY_free(key);
    ERR_clear_error();
    if (!key)
        buf_append_str(why, "tls: failed to find any PEM data in key input");
    else if (!fits)
        buf_append_str(why, "tls: private key does not match public key");
    return fits;
}

/* --- whom we trust --- */

static bool trust_file(struct tls *t, struct buf *why)
{
    struct buf pem = {0};
    size_t count = 0;
    X509 *cert;

    if (!read_file(t->options.trusted_ca_file, &pem, why)) {
        buf_free(&pem);
        return false;
    }
    BIO *bio = reader_of(&pem);
    t->ca_names = sk_X509_NAME_new_null();
    while ((cert = PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
        X509_NAME *name = X509_NAME_dup(X509_get_subject_name(cert));
        if (!name || sk_X509_NAME_push(t->ca_names, name) == 0 ||
            X509_STORE_add_cert(t->trusted, cert) != 1)
            fatal("libcrypto: cannot keep a certificate");
        X509_free(cert);
        count++;
    }
    BIO_free(bio);
    buf_free(&pem);
    ERR_clear_error();
    if (count == 0)
        buf_printf(why, "could not load CA certificates from %s", t->options.trusted_ca_file);
    return count > 0;
}

static bool load_trusted(struct tls *t, struct buf *why)
{
    t->trusted = X509_STORE_new();
    if (!t->trusted)
        fatal("libcrypto: X509_STORE_new failed");
    if (is_said(t->options.trusted_ca_file))
        return trust_file(t, why);
    if (X509_STORE_set_default_paths(t->trusted) != 1)
        ERR_clear_error(); /* none of them is trusted then */
    return true;
}

static bool has_hostname(X509 *leaf, struct bytes name)
{
    char host[TLS_HOST_BYTES_MAX + 1];

    if (name.len > TLS_HOST_BYTES_MAX)
        return false;
    memcpy(host, name.at, name.len);
    host[name.len] = 0;
    return X509_check_ip_asc(leaf, host, 0) == 1 ||
           X509_check_host(leaf, host, name.len,
                           X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                               X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS,
                           NULL) == 1;
}

/* The last one, as in Go. One with a zero byte in it is none: a name is what all of it says. */
void tls_common_name(X509 *leaf, struct buf *out)
{
    const X509_NAME *subject = X509_get_subject_name(leaf);
    unsigned char *text = NULL;
    int last = -1;

    for (int i; (i = X509_NAME_get_index_by_NID(subject, NID_commonName, last)) >= 0;)
        last = i;
    if (last < 0)
        return;
    int len =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last)));
    struct bytes name = bytes_of(text, len > 0 ? (size_t)len : 0);
    if (name.len > 0 && !memchr(name.at, 0, name.len) && bytes_are_utf8(name))
        buf_append(out, name);
    OPENSSL_free(text);
    ERR_clear_error();
}

static bool has_cn(X509 *leaf, struct bytes cn)
{
    struct buf name = {0};

    tls_common_name(leaf, &name);
    bool is_it = bytes_equal(cn, buf_bytes(&name));
    buf_free(&name);
    return is_it;
}

bool tls_is_allowed(const struct tls *t, X509 *leaf)
{
    const struct tls_options *o = &t->options;

    for (size_t i = 0; i < o->allowed_hostnames.count; i++)
        if (has_hostname(leaf, o->allowed_hostnames.at[i]))
            return true;
    for (size_t i = 0; i < o->allowed_cns.count; i++)
        if (has_cn(leaf, o->allowed_cns.at[i]))
            return true;
    return o->allowed_hostnames.count + o->allowed_cns.count == 0;
}

static int verify(X509_STORE_CTX *chain, void *context)
{
    const struct tls *t = context;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());

    if (X509_verify_cert(chain) != 1) {
        int error = X509_STORE_CTX_get_error(chain);
        if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH)
            tls_describe_mismatch(SSL_get_app_data(ssl), X509_STORE_CTX_get0_cert(chain));
        return 0;
    }
    if (tls_is_allowed(t, X509_STORE_CTX_get0_cert(chain)))
        return 1; /* also of whom we connect to: so does etcd, and its peers count on it */
    tls_refuse(SSL_get_app_data(ssl), X509_STORE_CTX_get0_cert(chain));
    X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REJECTED);
    return 0;
}

/* --- contexts --- */

/* A client who offers none of ours is told so, as by Go's servers. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *context)
{
    static const uint8_t protocols[] = "\x02h2\x08http/1.1";
    const struct tls *t = context;
    size_t skip = t->options.offers_h2 ? 0 : 3;
    unsigned char *chosen;

    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_len, protocols + skip,
                              (unsigned)(sizeof(protocols) - 1 - skip), offered,
                              offered_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int version_number(enum tls_version version)
{
    return version == TLS_VERSION_1_3   ? TLS1_3_VERSION
           : version == TLS_VERSION_1_2 ? TLS1_2_VERSION
                                        : 0;
}

static void set_versions(const struct tls_options *o, SSL_CTX *context)
{
    int min = o->min == TLS_VERSION_ANY ? TLS1_2_VERSION : version_number(o->min);

    if (SSL_CTX_set_min_proto_version(context, min) != 1 ||
        SSL_CTX_set_max_proto_version(context, version_number(o->max)) != 1)
        fatal("libssl: cannot speak TLS 1.2 and 1.3");
}

static void set_up_server(struct tls *t, SSL_CTX *context)
{
    static const uint8_t session_context[] = "cleat";

    SSL_CTX_set_alpn_select_cb(context, choose_protocol, t);
    SSL_CTX_set_session_cache_mode(context,
                                   SSL_SESS_CACHE_OFF); /* tickets need no memory of ours */
    if (SSL_CTX_set_session_id_context(context, session_context, sizeof(session_context)) != 1 ||
        SSL_CTX_set_num_tickets(context, 1) != 1)
        fatal("libssl: cannot resume sessions");
    /* A ticket holds the certificate, and not who signed it: that one may be revoked, too. */
    if (is_said(t->options.crl_file)) {
        SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(context, 0);
    }
    if (t->options.requires_cert)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (t->options.requires_cert && t->ca_names)
        SSL_CTX_set_client_CA_list(context, SSL_dup_CA_list(t->ca_names));
}

static void set_up_client(const struct tls *t, SSL_CTX *context)
{
    static const uint8_t h2[] = "\x02h2";

    SSL_CTX_set_verify(context, t->options.trusts_anybody ? SSL_VERIFY_NONE : SSL_VERIFY_PEER,
                       NULL);
    if (t->options.asks_for_h2 && SSL_CTX_set_alpn_protos(context, h2, sizeof(h2) - 1) != 0)
        fatal("libssl: cannot ask for a protocol");
}

static SSL_CTX *context_new(struct tls *t, struct tls_identity *identity, struct buf *why)
{
    bool is_server = identity == &t->serving;
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());

    if (!context)
        fatal("libssl: SSL_CTX_new failed");
    set_versions(&t->options, context);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_NO_COMPRESSION | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set1_cert_store(context, t->trusted);
    SSL_CTX_set_cert_verify_callback(context, verify, t);
    if (is_server)
        set_up_server(t, context);
    else
        set_up_client(t, context);
    bool is_good = set_suites(&t->options, context);
    if (!is_good)
        buf_append_str(why, "tls: no cipher suite is left");
    if (is_good && identity->cert_file)
        is_good = use_cert(context, &identity->cert, why) && use_key(context, &identity->key, why);
    if (is_good)
        return context;
    SSL_CTX_free(context);
    return NULL;
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return bytes_equal(buf_bytes(a), buf_bytes(b));
}

/* With the same content the context stays, and with it the key of tickets. What is replaced is
 * left in *now. */
static SSL_CTX *refresh(struct tls *t, struct tls_identity *identity, struct tls_identity *now,
                        struct buf *why)
{
    struct tls_identity before = *identity;

    if (before.context && is_same(&now->cert, &before.cert) && is_same(&now->key, &before.key)) {
        SSL_CTX_up_ref(before.context);
        return before.context;
    }
    identity->cert = now->cert;
    identity->key = now->key;
    SSL_CTX *made = context_new(t, identity, why);
    if (!made) {
        *identity = before;
        return NULL;
    }
    identity->context = made;
    *now = before;
    SSL_CTX_up_ref(made);
    return made;
}

static void identity_free(struct tls_identity *identity)
{
    SSL_CTX_free(identity->context);
    if (identity->key.at)
        OPENSSL_cleanse(identity->key.at, identity->key.len);
    buf_free(&identity->cert);
    buf_free(&identity->key);
}

/* Read before the lock is taken: one slow read would hold up all. Of two that read at once the one
 * with the older content may come last, which lasts until the next handshake. */
SSL_CTX *tls_context(struct tls *t, struct tls_identity *identity, struct buf *why)
{
    struct tls_identity now = {.cert_file = identity->cert_file, .key_file = identity->key_file};
    SSL_CTX *context = NULL;

    if (!now.cert_file ||
        (read_file(now.cert_file, &now.cert, why) && read_file(now.key_file, &now.key, why))) {
        pthread_mutex_lock(&t->lock);
        context = refresh(t, identity, &now, why);
        pthread_mutex_unlock(&t->lock);
    }
    identity_free(&now);
    return context;
}

static bool try_identity(struct tls *t, struct tls_identity *identity, struct buf *why)
{
    SSL_CTX *context = tls_context(t, identity, why);

    SSL_CTX_free(context);
    return context != NULL;
}

bool tls_contexts_open(struct tls *t, struct buf *why)
{
    const struct tls_options *o = &t->options;
    bool has_cert = is_said(o->cert_file), has_dial_cert = is_said(o->dial_cert_file);

    pthread_mutex_init(&t->lock, NULL);
    t->bio = tls_bio_method_new();
    if (has_cert)
        t->serving = (struct tls_identity){.cert_file = o->cert_file, .key_file = o->key_file};
    t->dialling = t->serving;
    if (has_dial_cert)
        t->dialling =
            (struct tls_identity){.cert_file = o->dial_cert_file, .key_file = o->dial_key_file};
    return (!has_cert || is_said(o->key_file)) && load_trusted(t, why) &&
           (!has_cert || try_identity(t, &t->serving, why)) && try_identity(t, &t->dialling, why);
}

void tls_contexts_close(struct tls *t)
{
    identity_free(&t->serving);
    identity_free(&t->dialling);
    X509_STORE_free(t->trusted);
    sk_X509_NAME_pop_free(t->ca_names, X509_NAME_free);
    BIO_meth_free(t->bio);
    pthread_mutex_destroy(&t->lock);
}
