#include "server/names.h"

#include "base/logger.h"
#include "io/io.h"
#include "io/resolve.h"

struct name {
    struct names *names;
    struct lookup lookup;
    struct url url;
    struct bytes text; /* resolved; empty: not yet */
};

static uint64_t now_ms(const struct names *n)
{
    return clock_now_ns(n->io->clock) / NS_PER_MS;
}

void names_init(struct names *n, const struct io *io, const struct logger *logger, size_t cap)
{
    *n = (struct names){.io = io, .logger = logger, .cap = cap};
    n->at = mem_new_array(cap, struct name);
}

bool names_add(struct names *n, struct url_list urls, struct buf *why, size_t *first)
{
    assert(n->count + urls.count <= n->cap);
    *first = n->count;
    for (size_t i = 0; i < urls.count; i++) {
        struct name *name = &n->at[n->count++];
        name->names = n;
        if (!url_parse(urls.at[i], &n->arena, why, &name->url))
            return false;
        if (url_scheme_is_unix(name->url.scheme) || bytes_equal(name->url.host, BYTES("localhost")))
            name->text = name->url.text;
    }
    return true;
}

static void look_at_name(struct lookup *l)
{
    struct name *name = container_of(l, struct name, lookup);
    struct names *n = name->names;
    char address[NET_TEXT_MAX];

    n->under_way--;
    if (l->err != ERR_OK) {
        log_warn(n->logger, "failed to resolve URL Host", LOG_BYTES("url", name->url.text),
                 LOG_STR("host", l->host), LOG_STR("error", err_text(l->err)));
        return;
    }
    name->text = bytes_of_str(arena_printf(&n->arena, "%s://%s", url_scheme_name(name->url.scheme),
                                           net_address_text(&l->found[0], address)));
    log_info(n->logger, "resolved URL Host", LOG_BYTES("url", name->url.text),
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

static void resolve(struct names *n)
{
    for (size_t i = 0; i < n->count; i++) {
        struct name *name = &n->at[i];
        if (name->text.len > 0)
            continue;
        name->lookup = (struct lookup){.host = arena_copy_str(&n->arena, name->url.host),
                                       .port = port_of(name->url.port),
                                       .on_done = look_at_name};
        n->under_way++;
        lookup_start(n->io->resolver, &name->lookup);
    }
}

void names_start(struct names *n)
{
    n->is_started = true;
    n->began_ms = now_ms(n);
    resolve(n);
}

static void try_again(struct timer *t)
{
    resolve(container_of(t, struct names, timer));
}

/* The first that has not been resolved; NULL if all are. */
static const struct name *missing_name(const struct names *n, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (n->at[i].text.len == 0)
            return &n->at[i];
    return NULL;
}

bool names_work(struct names *n)
{
    assert(n->is_started);
    if (n->under_way > 0 || timer_is_set(&n->timer))
        return false;
    if (!missing_name(n, 0, n->count) || now_ms(n) - n->began_ms >= FOUNDING_NAMES_MS)
        return true;
    n->timer.on_time = try_again;
    timer_start(n->io->clock, &n->timer, FOUNDING_RETRY_MS * NS_PER_MS);
    return false;
}

void names_stop(struct names *n)
{
    if (n->io)
        timer_stop(n->io->clock, &n->timer);
}

bool names_is_idle(const struct names *n)
{
    return n->under_way == 0 && !timer_is_set(&n->timer);
}

void names_free(struct names *n)
{
    mem_free(n->at);
    arena_free(&n->arena);
}

struct url_list names_resolved(struct names *n, size_t first, size_t count)
{
    struct bytes *texts = arena_new_array(&n->arena, count, struct bytes);

    for (size_t i = 0; i < count; i++)
        texts[i] = n->at[first + i].text;
    return url_list_sorted((struct url_list){texts, count}, &n->arena);
}

struct bytes names_failure(struct names *n, size_t first, size_t count)
{
    const struct name *missing = missing_name(n, first, count);

    if (!missing)
        return (struct bytes){0};
    return bytes_of_str(arena_printf(
        &n->arena, "failed to resolve \"%.*s\" (lookup %s: no such host)",
        (int)missing->url.text.len, (const char *)missing->url.text.at, missing->lookup.host));
}
