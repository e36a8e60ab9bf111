/* A scanner at the port for clients: every version and every suite that OpenSSL can be brought to
 * offer, one at a time, at our server and at etcd. What is accepted must be the same. */
#include "base/buf.h"
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct scan {
    uint16_t port;
    unsigned tried;
    struct buf accepted; /* "TLSv1.2 ECDHE-RSA-AES128-SHA", a line each */
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    return fd;
}

/* Everything there is, also what OpenSSL itself finds too weak. */
static SSL_CTX *weak_context(int version)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    CHECK(context != NULL);
    SSL_CTX_set_security_level(context, 0);
    CHECK_EQ(SSL_CTX_set_min_proto_version(context, version), 1);
    CHECK_EQ(SSL_CTX_set_max_proto_version(context, version), 1);
    CHECK_EQ(SSL_CTX_set_cipher_list(context, "ALL:COMPLEMENTOFALL"), 1);
    CHECK_EQ(SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:"
                                               "TLS_CHACHA20_POLY1305_SHA256:"
                                               "TLS_AES_128_CCM_SHA256:TLS_AES_128_CCM_8_SHA256"),
             1);
    return context;
}

static void try_suite(struct scan *s, SSL_CTX *context, bool is_1_3, const char *name)
{
    int fd = connect_to(s->port);
    SSL *ssl = SSL_new(context);

    CHECK(ssl && SSL_set_fd(ssl, fd) == 1);
    CHECK_EQ(is_1_3 ? SSL_set_ciphersuites(ssl, name) : SSL_set_cipher_list(ssl, name), 1);
    s->tried++;
    if (SSL_connect(ssl) == 1)
        buf_printf(&s->accepted, "%s %s\n", SSL_get_version(ssl), SSL_get_cipher_name(ssl));
    SSL_free(ssl);
    close(fd);
    ERR_clear_error();
}

static void try_version(struct scan *s, int version)
{
    SSL_CTX *context = weak_context(version);
    STACK_OF(SSL_CIPHER) *suites = SSL_CTX_get_ciphers(context);

    for (int i = 0; i < sk_SSL_CIPHER_num(suites); i++) {
        const SSL_CIPHER *suite = sk_SSL_CIPHER_value(suites, i);
        bool is_1_3 = strcmp(SSL_CIPHER_get_version(suite), "TLSv1.3") == 0;
        if (is_1_3 == (version == TLS1_3_VERSION))
            try_suite(s, context, is_1_3, SSL_CIPHER_get_name(suite));
    }
    SSL_CTX_free(context);
}

static void scan(struct peer *p, const char *cert, const char *flags, struct scan *out)
{
    static const int versions[] = {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION};
    unsigned before =
        access(p->dir, F_OK) == 0 ? peer_said(p, "ready to serve client requests") : 0;

    peer_launch(p, arena_printf(&p->arena, "--cert-file %s --key-file %s %s", certs_file(cert),
                                certs_key(cert), flags));
    peer_await_said(p, "ready to serve client requests", before + 1);
    *out = (struct scan){.port = peer_port(p)};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        try_version(out, versions[i]);
    peer_stop(p);
}

struct setup {
    const char *cert, *flags;
    const char *has, *lacks; /* among what is accepted */
};

static void open_https(struct peer *p, const char *name, bool is_ours)
{
    char dir[4096];

    snprintf(dir, sizeof(dir), "%s/%s", test_tmp_dir(), name);
    if (is_ours)
        peer_open_ours(p, dir);
    else
        peer_open(p, dir);
    p->client_url = arena_printf(&p->arena, "https%s", strchr(p->client_url, ':'));
}

TEST(a_scanner_finds_the_versions_and_suites_that_etcd_has)
{
    static const struct setup setups[] = {
        {"rsa", "", "TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256", "TLSv1.1"},
        {"ecdsa", "", "TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305", "-RSA-"},
        {"rsa",
         "--cipher-suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
         "TLSv1.2 AES128-SHA", "CHACHA20-POLY1305\n"},
        {"rsa", "--tls-min-version TLS1.3", "TLSv1.3 TLS_AES_128_GCM_SHA256", "TLSv1.2"},
        {"rsa", "--tls-max-version TLS1.2", "TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384", "TLSv1.3"},
    };
    struct peer ours, etcd;

    peer_need();
    certs_make("rsa", &(struct cert){.sans = "IP:127.0.0.1", .is_rsa = true});
    certs_make("ecdsa", &(struct cert){.sans = "IP:127.0.0.1"});
    open_https(&ours, "ours", true);
    open_https(&etcd, "etcd", false);
    for (size_t i = 0; i < ARRAY_LEN(setups); i++) {
        struct scan a, b;
        scan(&ours, setups[i].cert, setups[i].flags, &a);
        scan(&etcd, setups[i].cert, setups[i].flags, &b);

        CHECK(a.tried > 100);
        CHECK_STR(buf_str(&a.accepted), buf_str(&b.accepted));
        CHECK(strstr(buf_str(&a.accepted), setups[i].has));
        CHECK(!strstr(buf_str(&a.accepted), setups[i].lacks));
        buf_free(&a.accepted);
        buf_free(&b.accepted);
    }
    peer_close(&ours);
    peer_close(&etcd);
}
