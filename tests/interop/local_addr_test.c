/* The feature gate SetMemberLocalAddr: which address of ours other members are dialled from. That
 * they are is tested with the loop (src/io/net_edge_test.c). */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* An address that others could know; the loopback one if there is none. */
static const char *some_address(struct arena *arena)
{
    struct ifaddrs *all;
    const char *found = "127.0.0.1";

    CHECK_EQ(getifaddrs(&all), 0);
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[INET_ADDRSTRLEN];
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)i->ifa_addr;
        if (ntohl(in->sin_addr.s_addr) >> 24 != 127 &&
            inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)))
            found = arena_printf(arena, "%s", text);
    }
    freeifaddrs(all);
    return found;
}

/* What it says about it, with its port as PORT. */
static const char *lines_said(struct peer *p, const char *host)
{
    p->advertised_url = p->peer_url =
        arena_printf(&p->arena, "http://%s%s", host, strrchr(p->peer_url, ':'));
    peer_start(p, "--feature-gates=SetMemberLocalAddr=true");
    peer_stop(p);
    return peer_run(&p->arena,
                    "sed -n '/ocal address/s/.*\"msg\"//p' %s.log | sed 's/:[0-9]*\"]/:PORT\"]/'",
                    p->dir);
}

static void compare(const char *host, const char *want, const char *name)
{
    struct peer ours, etcd;
    char dir[4096];

    snprintf(dir, sizeof(dir), "%s/ours-%s", test_tmp_dir(), name);
    peer_open_ours(&ours, dir);
    snprintf(dir, sizeof(dir), "%s/etcd-%s", test_tmp_dir(), name);
    peer_open(&etcd, dir);
    const char *said = lines_said(&ours, host);

    CHECK_STR(said, lines_said(&etcd, host));
    CHECK(strstr(said, want));
    peer_close(&ours);
    peer_close(&etcd);
}

TEST(the_address_to_dial_members_from_is_chosen_as_by_etcd)
{
    struct arena arena = {0};
    const char *host = some_address(&arena);

    peer_need();
    compare("127.0.0.1", "unable to set a member local address", "loopback");
    if (strcmp(host, "127.0.0.1") != 0)
        compare(host, arena_printf(&arena, "\"LocalAddr\":\"%s\"", host), "other");
    arena_free(&arena);
}
