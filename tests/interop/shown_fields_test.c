/* What clients send, shown to an operator who asks for it as he does with etcd. */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_shown_fields(struct peer *p)
{
    const char *address = strstr(p->client_url, "//") + 2;
    const char *said = arena_printf(
        &p->arena, "http2: decoded hpack field header field \":authority\" = \"%s\"", address);

    setenv("GODEBUG", "x=1,http2debug=2", 1);
    peer_launch(p, "");
    unsetenv("GODEBUG");
    peer_await_said(p, "ready to serve client requests", 1);
    CHECK_EQ(peer_said(p, said), 0);
    CHECK_STR(PEER_CTL(p, "put k v"), "OK");
    peer_await_said(p, said, 1);
    if (p->is_ours) {
        peer_run(&p->arena, "curl -s --http2-prior-knowledge -H 'Authorization: secret' %s/version",
                 p->client_url);
        peer_await_said(p, "\"authorization\" = \"***\"", 1);
        CHECK_EQ(peer_said(p, "secret"), 0);
    }
    peer_stop(p);
}

TEST(fields_are_shown_to_whoever_asks)
{
    struct peer etcd, ours;
    char dir[4096];
    peer_need();
    snprintf(dir, sizeof(dir), "%s/etcd", test_tmp_dir());
    peer_open(&etcd, dir);
    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(&ours, dir);

    check_shown_fields(&etcd);
    check_shown_fields(&ours);

    peer_close(&etcd);
    peer_close(&ours);
}
