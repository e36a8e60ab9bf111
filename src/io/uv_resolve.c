#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <stdio.h>

/* libuv's half of a lookup. */
struct search {
    uv_getaddrinfo_t request;
    struct lookup *lookup;
};

static enum err err_of_lookup(int status)
{
    switch (status) {
    case 0:
        return ERR_OK;
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_ADDRFAMILY:
        return ERR_NOT_FOUND;
    case UV_EAI_AGAIN:
        return ERR_TIMEOUT;
    default:
        return ERR_IO;
    }
}

static void report(struct event *e)
{
    struct lookup *l = container_of(e, struct lookup, event);

    container_of(l->resolver, struct real_resolver, base)->in_flight--;
    l->on_done(l);
}

static void finish(struct lookup *l, enum err e)
{
    l->err = e == ERR_OK && l->count == 0 ? ERR_NOT_FOUND : e;
    l->event.run = report;
    inbox_put(container_of(l->resolver, struct real_resolver, base)->inbox, &l->event);
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *first)
{
    struct search *s = container_of(request, struct search, request);
    struct lookup *l = s->lookup;

    for (struct addrinfo *i = first; i && l->count < LOOKUP_ADDRESSES_MAX; i = i->ai_next) {
        if (!address_of_sockaddr(i->ai_addr, &l->found[l->count]))
            continue;
        l->found[l->count++].port = l->port;
    }
    uv_freeaddrinfo(first);
    mem_free(s);
    finish(l, err_of_lookup(status));
}

static void start(struct resolver *base, struct lookup *l)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct real_resolver *r = container_of(base, struct real_resolver, base);
    struct search *s = mem_new(struct search);

    assert(l->on_done);
    r->in_flight++;
    l->resolver = base;
    l->count = 0;
    s->lookup = l;
    int error = uv_getaddrinfo(r->uv, &s->request, on_found, l->host, NULL, &hints);
    if (error != 0) { /* not a name at all: too long, or not text */
        mem_free(s);
        finish(l, ERR_NOT_FOUND);
    }
}

void real_resolver_open(struct real_resolver *r, uv_loop_t *uv, struct inbox *inbox)
{
    *r = (struct real_resolver){.base.start = start, .uv = uv, .inbox = inbox};
}

void real_resolver_close(struct real_resolver *r)
{
    assert(r->in_flight == 0);
}
