#include "server/listen_refusal.h"

#include "config/config.h"

#include <string.h>

static const char *reason_of(enum err e)
{
    switch (e) {
    case ERR_BUSY:
        return "bind: address already in use";
    case ERR_DENIED:
        return "bind: permission denied";
    default:
        return err_text(e);
    }
}

void listen_refusal(const struct config_listen *place, enum err e, struct buf *why)
{
    char text[NET_TEXT_MAX];

    net_address_text(&place->address, text);
    buf_printf(why, "listen %s %s: %s", place->address.family == NET_UNIX ? "unix" : "tcp", text,
               reason_of(e));
    if (e != ERR_BUSY)
        return;
    buf_printf(why,
               "\n%s is in use by another process: stop it, or choose another address with --%s",
               text, place->flag);
    /* etcd refuses the first of the two without the second. */
    if (strcmp(place->flag, "listen-client-urls") == 0)
        buf_append_str(why, " and --advertise-client-urls");
}
