#include "base/assert.h"
#include "config/maker.h"
#include "config/tls.h"

#include <stdlib.h>

/* ---- Addresses ---- */

static struct url take_apart(struct maker *m, struct bytes text)
{
    struct url url;
    bool is_good = url_parse(text, &m->out->arena, m->why, &url);

    assert(is_good); /* the flag has been parsed before */
    return url;
}

static bool check_listen_hosts(struct maker *m, enum flag_id id)
{
    struct url_list list = maker_value(m, id)->set;

    for (size_t i = 0; i < list.count; i++) {
        struct url url = take_apart(m, list.at[i]);
        struct net_address address;
        if (url_scheme_is_unix(url.scheme) || bytes_equal(url.host, BYTES("localhost")))
            continue;
        const char *host = arena_copy_str(&m->out->arena, url.host);
        if (net_address_of_host(host, 0, &address) != ERR_OK)
            return maker_refuse(m, "expected IP in URL for binding (%.*s)", (int)list.at[i].len,
                                (const char *)list.at[i].at);
    }
    return true;
}

/* The URL without a host, or nothing. */
static struct bytes hostless(struct maker *m, struct url_list list)
{
    for (size_t i = 0; i < list.count; i++) {
        struct url url = take_apart(m, list.at[i]);
        if (!url_scheme_is_unix(url.scheme) && url.host.len == 0)
            return list.at[i];
    }
    return (struct bytes){0};
}

static bool check_advertised_hosts(struct maker *m, enum flag_id id, const char *format)
{
    struct url_list list = maker_value(m, id)->set;
    struct bytes bad = hostless(m, list);
    struct buf joined = {0};

    if (bad.len == 0)
        return true;
    url_list_join(list, &joined);
    maker_refuse(m, "--%s %s must be %s (unexpected empty host (%.*s))", flag_table[id].name,
                 maker_quote(m, buf_bytes(&joined)), format, (int)bad.len, (const char *)bad.at);
    buf_free(&joined);
    return false;
}

bool maker_check_urls(struct maker *m)
{
    return check_listen_hosts(m, FLAG_LISTEN_PEER_URLS) &&
           check_listen_hosts(m, FLAG_LISTEN_CLIENT_URLS) &&
           check_listen_hosts(m, FLAG_LISTEN_CLIENT_HTTP_URLS) &&
           check_listen_hosts(m, FLAG_LISTEN_METRICS_URLS) &&
           check_advertised_hosts(m, FLAG_INITIAL_ADVERTISE_PEER_URLS, "\"host:port\"") &&
           check_advertised_hosts(m, FLAG_ADVERTISE_CLIENT_URLS,
                                  "in the format \"host:port\", \"unix:/path/to/socket\" or "
                                  "\"unixs:/path/to/socket\"");
}

/* A client's socket is host and path together, others' the host alone: so it is in etcd. */
static bool unix_address(struct maker *m, const struct url *url, bool has_host_only,
                         struct net_address *out)
{
    const char *path =
        arena_printf(&m->out->arena, "%.*s%.*s", (int)url->host.len, (const char *)url->host.at,
                     has_host_only ? 0 : (int)url->path.len, (const char *)url->path.at);

    if (net_address_of_path(path, out) == ERR_OK)
        return true;
    return maker_refuse(m, "listen unix %s: not the path of a socket", path);
}

static bool ip_address(struct maker *m, const struct url *url, struct net_address *out)
{
    bool is_local = bytes_equal(url->host, BYTES("localhost"));
    const char *host = is_local ? "127.0.0.1" : arena_copy_str(&m->out->arena, url->host);
    const char *digits = arena_copy_str(&m->out->arena, url->port);
    char *end;
    unsigned long port = strtoul(digits, &end, 10);

    assert(*end == 0);
    if (port > UINT16_MAX)
        return maker_refuse(m, "listen tcp: address %s: invalid port", digits);
    enum err e = net_address_of_host(host, (uint16_t)port, out);
    assert(e == ERR_OK);
    return true;
}

/* ---- TLS ---- */

static void note_own_cert(struct maker *m, enum flag_id id, const struct tls_flags *f,
                          const char *message)
{
    if (maker_value(m, id)->boolean && !f->makes_cert)
        maker_note(m, LOG_WARN, message, NULL, NULL);
}

/* One message says that TLS is there and not used, the other that nobody is asked for a
 * certificate. */
static void note_plain(struct maker *m, const struct tls_flags *f, const struct url *url,
                       const char *key, const char *no_cert, const char *no_auth)
{
    const char *text = arena_copy_str(&m->out->arena, url->text);

    if (tls_flags_are_given(f))
        maker_note(m, LOG_WARN, no_cert, key, text);
    if (f->client_cert_auth)
        maker_note(m, LOG_WARN, no_auth, key, text);
}

/* A member's unix socket is plain whatever its scheme says: so it is in etcd. */
static bool check_peer_listen(struct maker *m, const struct config_listen *listen)
{
    const struct tls_flags *f = &m->out->peer_tls;
    char text[NET_TEXT_MAX];

    if (listen->url.scheme == URL_HTTP)
        note_plain(m, f, &listen->url, "peer-url",
                   "scheme is HTTP while key and cert files are present; ignoring key and cert "
                   "files",
                   "scheme is HTTP while --peer-client-cert-auth is enabled; ignoring client cert "
                   "auth for this URL");
    if (listen->url.scheme != URL_HTTPS)
        return true;
    if (!tls_flags_are_given(f))
        return maker_refuse(m,
                            "cannot listen on TLS for %s: KeyFile and CertFile are not presented",
                            net_address_text(&listen->address, text));
    return config_tls_check(f, m->why);
}

static bool check_client_listen(struct maker *m, const struct config_listen *listen)
{
    const struct tls_flags *f = &m->out->client_tls;
    struct bytes text = listen->url.text;

    if (!url_scheme_is_secure(listen->url.scheme)) {
        note_plain(m, f, &listen->url, "client-url",
                   "scheme is http or unix while key and cert files are present; ignoring key and "
                   "cert files",
                   "scheme is http or unix while --client-cert-auth is enabled; ignoring client "
                   "cert auth for this URL");
        return true;
    }
    if (!tls_flags_are_given(f))
        return maker_refuse(
            m,
            "TLS key/cert (--cert-file, --key-file) must be provided for client url "
            "%.*s with HTTPS scheme",
            (int)text.len, (const char *)text.at);
    return config_tls_check(f, m->why);
}

/* Of an address for both HTTP and gRPC there could be no telling what it is for. */
static bool check_http_listen(struct maker *m, const struct config_listen *listen)
{
    const struct config_listens *clients = &m->out->listen_clients;

    for (size_t i = 0; i < clients->count; i++) {
        if (listen->address.port != 0 &&
            net_address_equal(&clients->at[i].address, &listen->address))
            return maker_refuse(
                m,
                "cannot bind both --listen-client-urls and --listen-client-http-urls on "
                "the same url %.*s",
                (int)listen->url.text.len, (const char *)listen->url.text.at);
    }
    return check_client_listen(m, listen);
}

/* A unix socket is plain whatever its scheme says, as a member's. */
static bool check_metrics_listen(struct maker *m, const struct config_listen *listen)
{
    const struct tls_flags *f = &m->out->client_tls;

    if (!url_scheme_is_secure(listen->url.scheme))
        return true;
    if (!tls_flags_are_given(f))
        return maker_refuse(m, "client TLS key/cert (--cert-file, --key-file) must be provided for "
                               "metrics secure url");
    return config_tls_check(f, m->why);
}

static bool check_each(struct maker *m, const struct config_listens *listens,
                       bool (*check)(struct maker *m, const struct config_listen *listen))
{
    for (size_t i = 0; i < listens->count; i++) {
        if (!check(m, &listens->at[i]))
            return false;
    }
    return true;
}

/* Whoever sends a certificate to other members needs all of it, wherever he listens. */
static bool check_dialing(struct maker *m)
{
    const struct tls_flags *f = &m->out->peer_tls;

    return !tls_flags_are_given(f) || config_tls_check(f, m->why);
}

static bool check_listens(struct maker *m)
{
    const struct config *c = m->out;

    if (!check_dialing(m))
        return false;
    note_own_cert(m, FLAG_PEER_AUTO_TLS, &c->peer_tls, "ignoring peer auto TLS since certs given");
    if (!check_each(m, &c->listen_peers, check_peer_listen))
        return false;
    note_own_cert(m, FLAG_AUTO_TLS, &c->client_tls, "ignoring client auto TLS since certs given");
    return check_each(m, &c->listen_clients, check_client_listen) &&
           check_each(m, &c->listen_http, check_http_listen) &&
           check_each(m, &c->listen_metrics, check_metrics_listen);
}

/* ---- Where to listen ---- */

static bool read_listens(struct maker *m, enum flag_id id, struct config_listens *out)
{
    struct url_list list = maker_value(m, id)->set;
    bool has_host_only = id == FLAG_LISTEN_PEER_URLS || id == FLAG_LISTEN_METRICS_URLS;
    struct config_listen *listens =
        arena_new_array(&m->out->arena, list.count, struct config_listen);

    for (size_t i = 0; i < list.count; i++) {
        struct config_listen *listen = &listens[i];
        listen->url = take_apart(m, list.at[i]);
        listen->flag = flag_table[id].name;
        bool is_good = url_scheme_is_unix(listen->url.scheme)
                           ? unix_address(m, &listen->url, has_host_only, &listen->address)
                           : ip_address(m, &listen->url, &listen->address);
        if (!is_good)
            return false;
    }
    *out = (struct config_listens){listens, list.count};
    return true;
}

bool maker_read_listens(struct maker *m)
{
    struct config *c = m->out;

    return read_listens(m, FLAG_LISTEN_PEER_URLS, &c->listen_peers) &&
           read_listens(m, FLAG_LISTEN_CLIENT_URLS, &c->listen_clients) &&
           read_listens(m, FLAG_LISTEN_CLIENT_HTTP_URLS, &c->listen_http) &&
           read_listens(m, FLAG_LISTEN_METRICS_URLS, &c->listen_metrics) && check_listens(m);
}
