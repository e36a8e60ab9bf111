/* Clients in other languages: a scripted session against real etcd and against us, and the same
 * transcript. */
#include "harness/line_diff.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>

#define PYTHON "/usr/bin/python3"

/* The library's own threads may complain when it closes: that goes into the log. */
static const char *transcript(struct peer *p)
{
    return peer_run(&p->arena, PYTHON " tests/interop/session.py 127.0.0.1 %s 2>>%s.log",
                    strrchr(p->client_url, ':') + 1, p->dir);
}

TEST(a_python_session_sees_no_difference)
{
    struct peer etcd, ours;
    struct arena arena = {0};
    struct buf diff = {0};
    if (system(PYTHON " -c 'import etcd3' 2>/dev/null") != 0) /* NOLINT(cert-env33-c) */
        SKIP("NOT compared: " PYTHON " has no etcd3 (python3-etcd3)");
    peer_open(&etcd, arena_printf(&arena, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&ours, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    peer_start(&etcd, "");
    peer_start(&ours, "");

    const char *want = transcript(&etcd);
    const char *got = transcript(&ours);

    line_diff(&diff, bytes_of_str(want), bytes_of_str(got));
    if (diff.len > 0)
        test_fail(__FILE__, __LINE__, "the transcripts differ:\n%s", buf_str(&diff));
    CHECK(strstr(got, "\ndone"));
    buf_free(&diff);
    peer_stop(&etcd);
    peer_stop(&ours);
    peer_close(&etcd);
    peer_close(&ours);
    arena_free(&arena);
}
