/*
 * Is whoever connects where his certificate says that he lives? As etcd asks it of members: one of
 * its addresses is the one he comes from; or one of the names of that address is among its names
 * (with "*.a.example" for all that end in ".a.example"); or one of its names has that address. A
 * certificate with neither addresses nor names of hosts says nothing about it.
 *
 *     addresses, in the job --> names of the address --> addresses of each name, one by one
 *
 * Nameservers may take long, and a lookup cannot be called off: the check outlives its connection
 * if that ends first. The time for a handshake is the time for all of it.
 */
#include "base/mem.h"
#include "base/text.h"
#include "io/io.h"
#include "io/tls_int.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <string.h>

static struct bytes text_of(const ASN1_STRING *s)
{
    return bytes_of(ASN1_STRING_get0_data(s), (size_t)ASN1_STRING_length(s));
}

/* "10.0.0.1:2380" without the port, "[fd00::1]:2380" without the brackets too. */
static bool host_of(const char *remote, struct arena *arena, const char **out)
{
    const char *colon = strrchr(remote, ':');
    bool has_brackets = remote[0] == '[';
    struct net_address address;

    if (!colon || net_address_parse(remote, &address) != ERR_OK)
        return false;
    *out = arena_printf(arena, "%.*s", (int)(colon - remote) - 2 * has_brackets,
                        remote + has_brackets);
    return true;
}

static void note_dns_name(struct tls_san *san, struct bytes name, size_t *bytes)
{
    if (name.len == 0 || memchr(name.at, 0, name.len) || san->name_count == TLS_SANS_MAX ||
        *bytes + name.len > TLS_SANS_BYTES_MAX)
        return;
    *bytes += name.len;
    san->names[san->name_count++] =
        arena_printf(&san->arena, "%.*s", (int)name.len, (const char *)name.at);
}

static void san_free(struct tls_san *san)
{
    arena_free(&san->arena);
    mem_free(san);
}

/* True: there are addresses among them, too. */
static bool note_names(const GENERAL_NAMES *names, struct tls_san *san)
{
    size_t bytes = 0;
    bool has_ip = false;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        has_ip |= name->type == GEN_IPADD;
        if (name->type == GEN_DNS)
            note_dns_name(san, text_of(name->d.dNSName), &bytes);
    }
    return has_ip;
}

enum residence { LIVES_THERE, LIVES_ELSEWHERE, NAMES_ARE_ASKED };

static enum residence look_at_addresses(struct tls_conn *c, X509 *leaf, struct tls_san *san)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    bool has_ip = note_names(names, san);

    GENERAL_NAMES_free(names);
    if (!has_ip && san->name_count == 0)
        return LIVES_THERE;
    if (!host_of(c->base.info.remote, &san->arena, &san->host)) {
        buf_printf(&c->why, "address %s: missing port in address", c->base.info.remote);
        return LIVES_ELSEWHERE;
    }
    if (has_ip && X509_check_ip_asc(leaf, san->host, 0) == 1)
        return LIVES_THERE;
    if (san->name_count > 0)
        return NAMES_ARE_ASKED;
    c->host = arena_printf(&c->names, "%s", san->host);
    tls_describe_names(c, leaf);
    return LIVES_ELSEWHERE;
}

/* In the job. */
bool tls_san_begin(struct tls_conn *c, X509 *leaf)
{
    struct tls_san *san = mem_new(struct tls_san);
    enum residence residence = look_at_addresses(c, leaf, san);

    if (residence == NAMES_ARE_ASKED)
        c->san = san;
    else
        san_free(san);
    return residence != LIVES_ELSEWHERE;
}

/* --- lookups --- */

static bool is_wildcard(const char *name)
{
    return strncmp(name, "*.", 2) == 0;
}

static bool matches(const char *name, const char *wanted)
{
    size_t len = strlen(name), tail = strlen(wanted) - 1;

    if (!is_wildcard(wanted))
        return strcmp(name, wanted) == 0;
    return len >= tail && strcmp(name + len - tail, wanted + 1) == 0;
}

static bool has_name(const struct tls_san *san)
{
    for (size_t i = 0; i < san->lookup.count; i++)
        for (size_t k = 0; k < san->name_count; k++)
            if (matches(san->lookup.names[i], san->names[k]))
                return true;
    return false;
}

static bool has_address(const struct tls_san *san)
{
    struct net_address host;

    if (net_address_of_host(san->host, 0, &host) != ERR_OK)
        return false;
    for (size_t i = 0; i < san->lookup.count; i++)
        if (net_address_equal(&san->lookup.found[i], &host))
            return true;
    return false;
}

static void describe(const struct tls_san *san, struct buf *why)
{
    buf_append_str(why, "tls: ");
    text_append_quoted(why, bytes_of_str(san->host));
    buf_append_str(why, " does not match any of DNSNames [");
    for (size_t i = 0; i < san->name_count; i++) {
        buf_append_str(why, i > 0 ? " " : "");
        text_append_quoted(why, bytes_of_str(san->names[i]));
    }
    buf_append_str(why, "]");
    if (san->failed)
        buf_printf(why, " (lookup %s: %s)", san->failed,
                   san->failed_err == ERR_NOT_FOUND ? "no such host" : err_text(san->failed_err));
}

static void finish(struct tls_san *san, bool is_good)
{
    struct tls *t = san->tls;
    struct tls_conn *c = san->conn;

    t->sans--;
    if (c) {
        c->san = NULL;
        if (!is_good)
            describe(san, &c->why);
        tls_san_checked(c, is_good);
    }
    san_free(san);
}

static void on_looked_up(struct lookup *l)
{
    struct tls_san *san = container_of(l, struct tls_san, lookup);
    bool is_good = l->err == ERR_OK && (l->wants_names ? has_name(san) : has_address(san));

    if (l->err != ERR_OK) {
        san->failed = l->host;
        san->failed_err = l->err;
    }
    while (san->next < san->name_count && is_wildcard(san->names[san->next]))
        san->next++;
    if (is_good || !san->conn || san->next == san->name_count) {
        finish(san, is_good);
        return;
    }
    *l = (struct lookup){.host = san->names[san->next++], .on_done = on_looked_up};
    lookup_start(san->tls->io->resolver, l);
}

void tls_san_look_up(struct tls_conn *c)
{
    struct tls_san *san = c->san;

    san->conn = c;
    san->tls = c->tls;
    san->tls->sans++;
    san->lookup = (struct lookup){.host = san->host, .on_done = on_looked_up, .wants_names = true};
    lookup_start(san->tls->io->resolver, &san->lookup);
}

void tls_san_leave(struct tls_conn *c)
{
    struct tls_san *san = c->san;

    if (!san)
        return;
    c->san = NULL;
    san->conn = NULL;
    if (!san->tls)
        san_free(san); /* it has not begun */
}
