/*
 * A connection that we make: to the next of a member's URLs, its name looked up again each time,
 * the addresses behind it tried in turn; given up when nothing is heard for too long.
 */
#include "base/assert.h"
#include "base/text.h"
#include "cluster/urls.h"
#include "io/tls.h"
#include "peer/peer_int.h"

#include <stdio.h>

/* --- places --- */

char *peer_copy_text(struct bytes text)
{
    char *copy = mem_alloc(text.len + 1);

    if (text.len > 0)
        memcpy(copy, text.at, text.len);
    return copy;
}

static uint16_t port_of(const struct url *url)
{
    uint64_t port;

    if (text_read_number(url->port, UINT16_MAX, &port) == ERR_OK)
        return (uint16_t)port;
    return url_scheme_is_secure(url->scheme) ? 443 : 80;
}

/* What comes before a port: of "unixs://localhost:1" it is the socket that is called after both. */
static struct bytes name_of(const struct url *url)
{
    const uint8_t *colon = url_scheme_is_unix(url->scheme) && url->host.len > 0
                               ? memrchr(url->host.at, ':', url->host.len)
                               : NULL;

    return colon ? bytes_of(url->host.at, (size_t)(colon - url->host.at)) : url->host;
}

/* The parts are those that were checked, not the text as it came: one of them becomes a field of
 * our requests, and strangers tell us theirs. */
static struct place place_of_url(const char *text)
{
    struct arena arena = {0};
    struct buf why = {0}, authority = {0}, host = {0};
    struct place place = {.kind = PLACE_UNKNOWN, .text = peer_copy_text(bytes_of_str(text))};
    struct url url = {0};

    if (!url_parse(bytes_of_str(text), &arena, &why, &url)) {
        buf_append_str(&authority, "unknown"); /* nobody is ever asked there */
    } else if (url_scheme_is_unix(url.scheme)) {
        /* etcd's unix URLs are "unix://host:port" or "unix:///path": all behind the slashes names
         * the socket. */
        place.kind = PLACE_UNIX;
        buf_append(&host, url.host);
        buf_append(&host, url.path);
        buf_append_str(&authority, "unix");
    } else {
        bool is_ip6 = url.host.len > 0 && memchr(url.host.at, ':', url.host.len);
        place.kind = PLACE_TCP;
        place.port = port_of(&url);
        buf_append(&host, url.host);
        buf_printf(&authority, is_ip6 ? "[%.*s]:%u" : "%.*s:%u", (int)url.host.len,
                   (const char *)url.host.at, place.port);
    }
    if (place.kind != PLACE_UNKNOWN && url_scheme_is_secure(url.scheme))
        place.tls_name = peer_copy_text(name_of(&url));
    place.host = peer_copy_text(buf_bytes(&host));
    place.authority = peer_copy_text(buf_bytes(&authority));
    buf_free(&authority);
    buf_free(&host);
    buf_free(&why);
    arena_free(&arena);
    return place;
}

void places_free(struct places *p)
{
    for (size_t i = 0; i < p->count; i++) {
        mem_free(p->at[i].text);
        mem_free(p->at[i].authority);
        mem_free(p->at[i].host);
        mem_free(p->at[i].tls_name);
    }
    mem_free(p->at);
    *p = (struct places){0};
}

void places_set(struct places *p, const char *const *urls, size_t count)
{
    places_free(p);
    if (count > PEER_URLS_MAX)
        count = PEER_URLS_MAX;
    p->at = mem_new_array(count, struct place);
    p->count = count;
    for (size_t i = 0; i < count; i++)
        p->at[i] = place_of_url(urls[i]);
}

const struct place *places_pick(const struct places *p)
{
    return p->count > 0 ? &p->at[p->picked] : NULL;
}

/* Whoever fails at a URL that another has already given up changes nothing. */
void places_failed(struct places *p, const char *authority)
{
    if (p->count > 0 && strcmp(p->at[p->picked].authority, authority) == 0)
        p->picked = (p->picked + 1) % p->count;
}

/* --- the end --- */

static void dial_free(struct dial *d)
{
    list_remove(&d->link);
    d->peers->dial_count--;
    mem_free(d->host);
    mem_free(d->authority);
    mem_free(d->tls_name);
    mem_free(d);
}

static void dial_end(struct dial *d)
{
    d->on = NULL;
    peer_timer_stop(d->peers, &d->timer);
    http_close(&d->http);
    if (d->peers->is_abandoned) {
        wire_drop(&d->wire);
        dial_free(d);
    } else if (d->conn) {
        d->state = DIAL_CLOSING;
        wire_drop(&d->wire);
        conn_close(d->conn, ERR_CANCELED);
    } else if (d->state != DIAL_RESOLVING) {
        dial_free(d);
    }
}

void dial_drop(struct dial *d)
{
    if (d && d->on)
        dial_end(d);
}

static void dial_fail(struct dial *d, const char *why)
{
    const struct dial_events *on = d->on;

    if (!on)
        return;
    d->on = NULL; /* so that dropping it from inside does nothing */
    on->on_failed(d, why);
    dial_end(d);
}

void dial_abandon(struct dial *d)
{
    d->on = NULL;
    http_close(&d->http);
    wire_drop(&d->wire);
    dial_free(d);
}

/* --- time --- */

static void on_time(struct timer *t)
{
    struct dial *d = container_of(t, struct dial, timer);
    uint64_t now_ns = clock_now_ns(d->peers->clock);

    if (d->state == DIAL_RESOLVING) /* a lookup cannot be called off, only be waited for */
        timer_start(d->peers->clock, t, d->limit_ns);
    else if (now_ns < d->heard_ns + d->limit_ns)
        timer_start_at(d->peers->clock, t, d->heard_ns + d->limit_ns);
    else
        dial_fail(d, "i/o timeout");
}

/* The timer is moved when it fires, not whenever something is heard. */
void dial_limit(struct dial *d, uint64_t ms)
{
    d->heard_ns = clock_now_ns(d->peers->clock);
    d->limit_ns = ms * NS_PER_MS;
    if (ms == 0)
        peer_timer_stop(d->peers, &d->timer);
    else
        peer_timer_start(d->peers, &d->timer, ms);
}

/* --- http --- */

static struct dial *dial_of(struct http_conn *h)
{
    return h->context;
}

static void on_head(struct http_conn *h)
{
    struct dial *d = dial_of(h);

    if (d->on)
        d->on->on_head(d);
}

static void on_body(struct http_conn *h, struct bytes piece)
{
    struct dial *d = dial_of(h);

    if (d->on)
        d->on->on_body(d, piece);
    http_consumed(h, piece.len);
}

static void on_end(struct http_conn *h)
{
    (void)h;
}

static void on_credit(struct http_conn *h)
{
    (void)h;
}

static void on_over(struct http_conn *h, bool kept)
{
    struct dial *d = dial_of(h);
    const struct dial_events *on = d->on;

    if (!on)
        return;
    if (!kept)
        d->on = NULL;
    on->on_over(d, kept);
    if (!kept)
        dial_end(d);
}

static void on_broken(struct http_conn *h, const char *why)
{
    dial_fail(dial_of(h), why);
}

static const struct http_events http_events = {.on_head = on_head,
                                               .on_body = on_body,
                                               .on_end = on_end,
                                               .on_credit = on_credit,
                                               .on_over = on_over,
                                               .on_broken = on_broken};

static void begin_request(struct dial *d, const char *verb, const char *target,
                          const struct http1_field *fields, size_t field_count, uint64_t length,
                          bool no_length)
{
    enum { FIELDS_MAX = 12 };
    struct http1_field all[FIELDS_MAX] = {{BYTES("Host"), bytes_of_str(d->authority)}};

    assert(d->state == DIAL_OPEN);
    assert(field_count < FIELDS_MAX);
    if (field_count > 0)
        memcpy(all + 1, fields, field_count * sizeof(*fields));
    http_request(&d->http, verb, bytes_of_str(target),
                 &(struct http_message_options){.fields = all,
                                                .field_count = field_count + 1,
                                                .length = length,
                                                .no_length = no_length});
}

void dial_begin(struct dial *d, const char *verb, const char *target,
                const struct http1_field *fields, size_t field_count, uint64_t length)
{
    begin_request(d, verb, target, fields, field_count, length, false);
}

void dial_request(struct dial *d, const char *verb, const char *target,
                  const struct http1_field *fields, size_t field_count, const struct bytes *body)
{
    begin_request(d, verb, target, fields, field_count, body ? body->len : 0, !body);
    if (body && body->len > 0)
        http_send(&d->http, *body);
    http_finish(&d->http);
    wire_send(&d->wire);
}

/* --- the socket --- */

static bool connect_next(struct dial *d);

static void on_open(struct conn *c)
{
    struct dial *d = c->context;

    if (!d->on)
        return;
    d->state = DIAL_OPEN;
    d->heard_ns = clock_now_ns(d->peers->clock);
    d->on->on_open(d);
}

static void on_data(struct conn *c, struct bytes data)
{
    struct dial *d = c->context;

    if (!d->on)
        return;
    d->heard_ns = clock_now_ns(d->peers->clock);
    http_data(&d->http, data);
}

static void on_socket_end(struct conn *c)
{
    struct dial *d = c->context;

    if (d->on)
        http_ended(&d->http);
}

static void on_closed(struct conn *c, enum err reason)
{
    struct dial *d = c->context;

    d->conn = NULL;
    if (d->on && d->state == DIAL_CONNECTING && connect_next(d))
        return;
    if (d->on)
        dial_fail(d, conn_info(c)->failure ? conn_info(c)->failure : err_text(reason));
    else
        dial_free(d);
}

static void on_sent(struct wire *w, size_t bytes)
{
    struct dial *d = container_of(w, struct dial, wire);

    (void)bytes;
    http_sent(&d->http);
    if (d->on && d->on->on_sent)
        d->on->on_sent(d);
}

static const struct conn_handlers handlers = {
    .on_open = on_open, .on_data = on_data, .on_end = on_socket_end, .on_closed = on_closed};

/* One name may have several addresses, and nobody at some of them. */
static bool connect_next(struct dial *d)
{
    if (d->next_address == d->lookup.count)
        return false;
    const struct net_address *a = &d->lookup.found[d->next_address++];
    d->state = DIAL_CONNECTING;
    http_close(&d->http);
    d->conn = d->tls_name ? tls_connect(d->peers->options.tls, a, d->tls_name, &handlers, d)
                          : net_connect(d->peers->io->net, a, &handlers, d);
    d->wire = (struct wire){.pool = &d->peers->pool, .conn = d->conn, .on_sent = on_sent};
    http_open(&d->http, &(struct http_conn_options){.reads = HTTP1_RESPONSE,
                                                    .conn = d->conn,
                                                    .wire = &d->wire,
                                                    .clock = d->peers->clock,
                                                    .on = &http_events,
                                                    .context = d});
    return true;
}

static void on_resolved(struct lookup *l)
{
    struct dial *d = container_of(l, struct dial, lookup);
    char why[160];

    d->state = DIAL_CONNECTING;
    if (!d->on) {
        dial_free(d);
        return;
    }
    if (l->err == ERR_OK && connect_next(d))
        return;
    int len = snprintf(why, sizeof(why), "lookup %s: %s", d->host, err_text(l->err));
    (void)len;
    dial_fail(d, why);
}

/* A look at the name each time: a member that moved is found again. A number needs none, and then
 * the report comes from an event of our own, since nobody expects it from inside dial_open. */
static void report_number(struct event *e)
{
    struct lookup *l = container_of(e, struct lookup, event);

    l->on_done(l);
}

struct dial *dial_open(struct peers *p, const struct place *place, const struct dial_events *on,
                       void *context)
{
    struct dial *d = mem_new(struct dial);
    struct lookup *l = &d->lookup;

    *d = (struct dial){.peers = p,
                       .on = on,
                       .context = context,
                       .host = peer_copy_text(bytes_of_str(place->host)),
                       .authority = peer_copy_text(bytes_of_str(place->authority)),
                       .tls_name =
                           place->tls_name ? peer_copy_text(bytes_of_str(place->tls_name)) : NULL,
                       .timer.on_time = on_time};
    list_init(&d->link);
    list_push_back(&p->dials, &d->link);
    p->dial_count++;
    *l = (struct lookup){.host = d->host, .port = place->port, .on_done = on_resolved};
    enum err e = place->kind == PLACE_UNIX ? net_address_of_path(place->host, &l->found[0])
                 : place->kind == PLACE_TCP
                     ? net_address_of_host(place->host, place->port, &l->found[0])
                     : ERR_UNSUPPORTED;
    if (place->tls_name && !p->options.tls)
        e = ERR_UNSUPPORTED;
    if (p->dial_count > PEER_DIALS_MAX) /* names that nobody resolves would pile up */
        e = ERR_BUSY;
    if (place->kind == PLACE_TCP && e == ERR_MALFORMED) {
        lookup_start(p->io->resolver, l);
        return d;
    }
    l->count = e == ERR_OK;
    l->err = e;
    l->event.run = report_number;
    inbox_put(p->io->inbox, &l->event);
    return d;
}
