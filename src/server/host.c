#include "server/host.h"

#include "io/net.h"

void host_of_remote(struct bytes remote, struct buf *out)
{
    char text[NET_TEXT_MAX] = {0};
    struct net_address address;
    size_t len = remote.len;

    if (len > 0 && len < sizeof(text))
        memcpy(text, remote.at, len);
    if (net_address_parse(text, &address) == ERR_OK && address.family == NET_IP6) {
        buf_append(out, bytes_of(address.ip, sizeof(address.ip) / 2));
        return;
    }
    while (len > 0 && remote.at[len - 1] != ':')
        len--;
    buf_append(out, bytes_of(remote.at, len > 0 ? len - 1 : remote.len));
}
