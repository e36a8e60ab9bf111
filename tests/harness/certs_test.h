/*
 * certs: certificates for a test, made when they are needed.
 *
 *     certs_make("ca", &(struct cert){.cn = "a CA", .is_ca = true});
 *     certs_make("server", &(struct cert){.signer = "ca", .sans = "IP:127.0.0.1,DNS:localhost"});
 *     certs_file("server")  .../server.pem
 *     certs_key("server")   .../server-key.pem
 *
 * They lie in the test's own directory. Keys are of P-256, which are quick to make, or of RSA.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cert {
    const char *cn, *sans; /* NULL: none */
    const char *signer;    /* made before; NULL: itself */
    bool is_ca;
    bool is_expired;    /* since yesterday */
    bool is_rsa;        /* of 2048 bits */
    long serial;        /* 0: 1 */
    const char *key_of; /* made before, whose key it has; NULL: one of its own */
};

void certs_make(const char *name, const struct cert *cert);

/* A list in DER, at <name>.crl, by this signer: of one serial number, or of none (0). */
void certs_make_crl(const char *name, const char *signer, long serial);

/* Good until the test ends. */
const char *certs_file(const char *name);
const char *certs_key(const char *name);
const char *certs_crl(const char *name);
