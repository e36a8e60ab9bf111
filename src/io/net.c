#include "io/net.h"

#include <arpa/inet.h>
#include <stdio.h>

static enum err parse_port(const char *text, uint16_t *out)
{
    unsigned port = 0;

    if (*text == '\0')
        return ERR_MALFORMED;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return ERR_MALFORMED;
        port = port * 10 + (unsigned)(*text - '0');
        if (port > UINT16_MAX)
            return ERR_MALFORMED;
    }
    *out = (uint16_t)port;
    return ERR_OK;
}

enum err net_address_of_host(const char *host, uint16_t port, struct net_address *out)
{
    struct net_address a = {.port = port};

    if (inet_pton(AF_INET, host, a.ip) == 1)
        a.family = NET_IP4;
    else if (inet_pton(AF_INET6, host, a.ip) == 1)
        a.family = NET_IP6;
    else
        return ERR_MALFORMED;
    *out = a;
    return ERR_OK;
}

enum err net_address_parse(const char *text, struct net_address *out)
{
    const char *colon = strrchr(text, ':');
    bool bracketed = text[0] == '[';
    char host[INET6_ADDRSTRLEN];
    uint16_t port;

    if (!colon || (bracketed && (colon == text || colon[-1] != ']')))
        return ERR_MALFORMED;
    const char *from = text + bracketed;
    size_t len = (size_t)(colon - bracketed - from);
    if (colon - bracketed < from || len >= sizeof(host))
        return ERR_MALFORMED;
    memcpy(host, from, len);
    host[len] = '\0';
    if (parse_port(colon + 1, &port) != ERR_OK || bracketed != (strchr(host, ':') != NULL))
        return ERR_MALFORMED;
    return net_address_of_host(host, port, out);
}

enum err net_address_of_path(const char *path, struct net_address *out)
{
    size_t len = strlen(path);

    if (len == 0)
        return ERR_MALFORMED;
    if (len >= NET_PATH_MAX)
        return ERR_TOO_LARGE;
    *out = (struct net_address){.family = NET_UNIX};
    memcpy(out->path, path, len + 1);
    return ERR_OK;
}

const char *net_address_text(const struct net_address *a, char out[static NET_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";

    switch (a->family) {
    case NET_NONE:
        snprintf(out, NET_TEXT_MAX, "-");
        break;
    case NET_IP4:
        inet_ntop(AF_INET, a->ip, host, sizeof(host));
        snprintf(out, NET_TEXT_MAX, "%s:%u", host, a->port);
        break;
    case NET_IP6:
        inet_ntop(AF_INET6, a->ip, host, sizeof(host));
        snprintf(out, NET_TEXT_MAX, "[%s]:%u", host, a->port);
        break;
    case NET_UNIX:
        snprintf(out, NET_TEXT_MAX, "%s", a->path[0] ? a->path : "@");
        break;
    }
    return out;
}

bool net_address_equal(const struct net_address *a, const struct net_address *b)
{
    return a->family == b->family && a->port == b->port && a->scope == b->scope &&
           memcmp(a->ip, b->ip, sizeof(a->ip)) == 0 && strcmp(a->path, b->path) == 0;
}
