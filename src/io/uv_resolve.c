#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

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

/* --- names of an address --- */

/* libuv's own, uv_getnameinfo, tells of one name where there may be several. */
struct name_search {
    uv_work_t request;
    struct lookup *lookup;
    struct net_address address;
};

static void note_name(struct lookup *l, const char *name)
{
    size_t len = name ? strlen(name) : 0;

    if (len > 0 && name[len - 1] == '.')
        len--; /* DNS's way to say that it is whole */
    if (len == 0 || len > LOOKUP_NAME_BYTES_MAX || l->count == LOOKUP_NAMES_MAX)
        return;
    memcpy(l->names[l->count], name, len);
    l->names[l->count++][len] = 0;
}

/* On one of libuv's threads. */
static void search_names(uv_work_t *request)
{
    struct name_search *s = container_of(request, struct name_search, request);
    bool is_ip4 = s->address.family == NET_IP4;
    struct hostent host, *found = NULL;
    struct buf space = {0};
    int error = 0, result;

    do {
        buf_reserve(&space, space.cap > 0 ? 2 * space.cap : KIB);
        result = gethostbyaddr_r(s->address.ip, is_ip4 ? 4 : 16, is_ip4 ? AF_INET : AF_INET6, &host,
                                 (char *)space.at, space.cap, &found, &error);
    } while (result == ERANGE && space.cap < 64 * KIB);
    if (result == 0 && found) {
        note_name(s->lookup, found->h_name);
        for (char *const *alias = found->h_aliases; alias && *alias; alias++)
            note_name(s->lookup, *alias);
    }
    s->lookup->err = found                  ? ERR_OK
                     : error == TRY_AGAIN   ? ERR_TIMEOUT
                     : error == NO_RECOVERY ? ERR_IO
                                            : ERR_NOT_FOUND;
    buf_free(&space);
}

static void on_names(uv_work_t *request, int status)
{
    struct name_search *s = container_of(request, struct name_search, request);
    struct lookup *l = s->lookup;

    mem_free(s);
    finish(l, status == 0 ? l->err : ERR_CANCELED);
}

static void start_names(struct real_resolver *r, struct lookup *l)
{
    struct name_search *s = mem_new(struct name_search);

    s->lookup = l;
    if (net_address_of_host(l->host, 0, &s->address) == ERR_OK &&
        uv_queue_work(r->uv, &s->request, search_names, on_names) == 0)
        return;
    mem_free(s);
    finish(l, ERR_NOT_FOUND);
}

/* --- addresses of a name --- */

static void start(struct resolver *base, struct lookup *l)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct real_resolver *r = container_of(base, struct real_resolver, base);

    assert(l->on_done);
    r->in_flight++;
    l->resolver = base;
    l->count = 0;
    if (l->wants_names) {
        start_names(r, l);
        return;
    }
    struct search *s = mem_new(struct search);
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
