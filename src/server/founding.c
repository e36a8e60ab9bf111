#include "server/founding.h"

#include "io/io.h"
#include "peer/peer.h"
#include "server/config.h"

struct founding_name {
    struct founding *founding;
    struct lookup lookup;
    struct url url;
    struct bytes text; /* resolved; empty: not yet */
};

static uint64_t now_ms(const struct founding *f)
{
    return clock_now_ns(f->o.io->clock) / NS_PER_MS;
}

static struct bytes own_name(const struct founding *f)
{
    return bytes_of_str(f->o.config->name);
}

bool founding_is_needed(const struct cluster_initial *initial, const struct config *config)
{
    return initial->count > 1 || cluster_initial_needs_names(initial, bytes_of_str(config->name),
                                                             config->advertise_peers);
}

static void end(struct founding *f, enum err e)
{
    f->is_over = true;
    f->err = e;
}

/* --- the others --- */

static void ask_next(struct founding *f)
{
    if (f->asked == f->asks.count) {
        end(f, ERR_OK);
        return;
    }
    f->is_asking = true;
    peers_ask(f->o.peers, &(struct peer_ask){.token = f->asked,
                                             .member = RAFT_NONE,
                                             .url = arena_copy_str(&f->arena, f->asks.at[f->asked]),
                                             .verb = "GET",
                                             .path = "/members",
                                             .timeout_ms = FOUNDING_ASK_MS});
    f->asked++;
}

static void begin_asking(struct founding *f)
{
    const struct cluster_initial *initial = f->o.initial;
    size_t count = 0;

    for (size_t i = 0; i < initial->count; i++)
        count += initial->members[i].peer_urls.count;
    struct bytes *urls = arena_new_array(&f->arena, count, struct bytes);
    count = 0;
    for (size_t i = 0; i < initial->count; i++) {
        const struct pb_member *m = &initial->members[i];
        if (bytes_equal(m->name, own_name(f)))
            continue;
        for (size_t u = 0; u < m->peer_urls.count; u++)
            urls[count++] = m->peer_urls.at[u];
    }
    f->asks = url_list_sorted((struct url_list){urls, count}, &f->arena);
    ask_next(f);
}

/* A member that has told where clients reach it has run. */
static bool has_run(const struct pb_member *members, size_t count, uint64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (members[i].id == id)
            return members[i].client_urls.count > 0;
    return false;
}

/* The first answer that makes sense decides; one without members has no cluster to tell of. */
void founding_result(struct founding *f, const struct peer_event *e)
{
    const struct pb_member *own = cluster_initial_find(f->o.initial, own_name(f));
    const struct pb_member *members;
    size_t count;

    if (!f->is_asking || e->id + 1 != f->asked)
        return;
    f->is_asking = false;
    if (e->status == 0 || e->result_cluster_id == 0 ||
        member_json_read_list(e->body, &f->arena, &members, &count) != ERR_OK) {
        ask_next(f);
        return;
    }
    if (has_run(members, count, own->id)) {
        buf_printf(f->o.why, "member %llx has already been bootstrapped",
                   (unsigned long long)own->id);
        end(f, ERR_EXISTS);
        return;
    }
    end(f, ERR_OK);
}

/* --- names --- */

static void verify(struct founding *f, const struct cluster_resolved *resolved)
{
    const struct config *c = f->o.config;

    if (cluster_initial_verify(f->o.initial, own_name(f), c->advertise_peers, resolved,
                               c->joins_existing, f->o.why))
        begin_asking(f);
    else
        end(f, ERR_MALFORMED);
}

static void look_at_name(struct lookup *l)
{
    struct founding_name *n = container_of(l, struct founding_name, lookup);
    struct founding *f = n->founding;
    char address[NET_TEXT_MAX];

    f->under_way--;
    if (l->err != ERR_OK) {
        log_warn(f->o.logger, "failed to resolve URL Host", LOG_BYTES("url", n->url.text),
                 LOG_STR("host", l->host), LOG_STR("error", err_text(l->err)));
        return;
    }
    n->text = bytes_of_str(arena_printf(&f->arena, "%s://%s", url_scheme_name(n->url.scheme),
                                        net_address_text(&l->found[0], address)));
    log_info(f->o.logger, "resolved URL Host", LOG_BYTES("url", n->url.text),
             LOG_STR("host", l->host), LOG_STR("resolved-addr", address));
}

/* A port is digits, and may be none at all. */
static uint16_t port_of(struct bytes digits)
{
    unsigned port = 0;

    for (size_t i = 0; i < digits.len && port <= UINT16_MAX; i++)
        port = 10 * port + (unsigned)(digits.at[i] - '0');
    return (uint16_t)port;
}

static void resolve(struct founding *f)
{
    for (size_t i = 0; i < f->name_count; i++) {
        struct founding_name *n = &f->names[i];
        if (n->text.len > 0)
            continue;
        n->lookup = (struct lookup){.host = arena_copy_str(&f->arena, n->url.host),
                                    .port = port_of(n->url.port),
                                    .on_done = look_at_name};
        f->under_way++;
        lookup_start(f->o.io->resolver, &n->lookup);
    }
}

/* As in etcd, localhost is compared as it is. So are numbers, after the spelling of all addresses,
 * by a lookup that asks nobody. */
static void add_names(struct founding *f, struct url_list urls)
{
    struct buf why = {0};

    for (size_t i = 0; i < urls.count; i++) {
        struct founding_name *n = &f->names[f->name_count++];
        n->founding = f;
        bool ok = url_parse(urls.at[i], &f->arena, &why, &n->url);
        assert(ok); /* it was when the flags were read */
        if (url_scheme_is_unix(n->url.scheme) || bytes_equal(n->url.host, BYTES("localhost")))
            n->text = n->url.text;
    }
}

static void begin_resolving(struct founding *f)
{
    const struct pb_member *own = cluster_initial_find(f->o.initial, own_name(f));
    struct url_list advertised = f->o.config->advertise_peers;
    struct url_list configured = {own->peer_urls.at, own->peer_urls.count};

    f->names = mem_new_array(advertised.count + configured.count, struct founding_name);
    add_names(f, advertised);
    f->advertised_count = f->name_count;
    add_names(f, configured);
    resolve(f);
}

static struct url_list texts_of(struct founding *f, size_t from, size_t to)
{
    struct bytes *texts = arena_new_array(&f->arena, to - from, struct bytes);

    for (size_t i = from; i < to; i++)
        texts[i - from] = f->names[i].text;
    return url_list_sorted((struct url_list){texts, to - from}, &f->arena);
}

/* The first that has not been resolved; NULL if all are. */
static const struct founding_name *missing_name(const struct founding *f)
{
    for (size_t i = 0; i < f->name_count; i++)
        if (f->names[i].text.len == 0)
            return &f->names[i];
    return NULL;
}

static void try_again(struct timer *t)
{
    resolve(container_of(t, struct founding, timer));
}

/* All lookups have reported. */
static void look_at_names(struct founding *f)
{
    const struct founding_name *missing = missing_name(f);
    struct cluster_resolved resolved = {0};

    if (missing && now_ms(f) - f->began_ms < FOUNDING_NAMES_MS) {
        f->timer.on_time = try_again;
        timer_start(f->o.io->clock, &f->timer, FOUNDING_RETRY_MS * NS_PER_MS);
        return;
    }
    if (missing) {
        resolved.failure = bytes_of_str(arena_printf(
            &f->arena, "failed to resolve \"%.*s\" (lookup %s: no such host)",
            (int)missing->url.text.len, (const char *)missing->url.text.at, missing->lookup.host));
    } else {
        resolved.advertised = texts_of(f, 0, f->advertised_count);
        resolved.configured = texts_of(f, f->advertised_count, f->name_count);
    }
    verify(f, &resolved);
}

/* --- all of it --- */

void founding_start(struct founding *f, const struct founding_options *options)
{
    *f = (struct founding){.o = *options};
    f->began_ms = now_ms(f);
    if (cluster_initial_needs_names(f->o.initial, own_name(f), f->o.config->advertise_peers))
        begin_resolving(f);
    else
        verify(f, NULL);
}

bool founding_work(struct founding *f)
{
    bool is_resolving = f->name_count > 0 && f->asked == 0;

    if (!f->is_over && is_resolving && f->under_way == 0 && !timer_is_set(&f->timer))
        look_at_names(f);
    return f->is_over;
}

void founding_stop(struct founding *f)
{
    if (!f->o.io)
        return;
    timer_stop(f->o.io->clock, &f->timer);
    if (f->is_asking)
        peers_forget(f->o.peers, f->asked - 1);
    f->is_asking = false;
    if (!f->is_over)
        end(f, ERR_CANCELED);
}

bool founding_is_idle(const struct founding *f)
{
    return f->under_way == 0 && !f->is_asking && !timer_is_set(&f->timer);
}

void founding_free(struct founding *f)
{
    mem_free(f->names);
    arena_free(&f->arena);
}
