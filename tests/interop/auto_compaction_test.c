/* History that is compacted by itself: real etcd and we say so in the same lines, and then the same
 * is gone. */
#include "base/mem.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/clock.h"

#include <stdio.h>

enum { PATIENCE_MS = 30000, PUTS = 10 };

/* What both have to say in the end, whatever was compacted before. */
static const char starting[] = "\"msg\":\"starting auto periodic compaction\",\"revision\":11,"
                               "\"compact-period\":\"1s\"";
static const char completed[] = "\"msg\":\"completed auto periodic compaction\",\"revision\":11,"
                                "\"compact-period\":\"1s\",\"took\":\"[0-9.]*[mµn]*s\"";

static bool has_logged(struct arena *arena, const struct peer *p, const char *line)
{
    const char *found = peer_run(arena, "grep -c -e '%s' %s.log; true", line, p->dir);

    return found[0] != '0';
}

static void check_compacted(struct arena *arena, struct caller *c, struct line *l,
                            const struct peer *p)
{
    uint64_t until_ns = caller_now_ns(c) + PATIENCE_MS * NS_PER_MS;
    struct ask old = {.line = l};

    while (!has_logged(arena, p, completed)) {
        if (caller_now_ns(c) > until_ns)
            test_fail(__FILE__, __LINE__, "%s has not compacted:\n%s", p->program,
                      peer_run(arena, "grep compaction %s.log; true", p->dir));
        caller_for_ms(c, 100);
    }
    CHECK(has_logged(arena, p, starting));
    ask_start(&old, "/etcdserverpb.KV/Range", &pb_range_request_schema,
              &(struct pb_range_request){.key = BYTES("k"), .revision = PUTS});
    ask_wait(&old);
    CHECK_EQ(old.code, RPC_OUT_OF_RANGE);
    CHECK_STR(buf_str(&old.text), "etcdserver: mvcc: required revision has been compacted");
    ask_free(&old);
}

static void run(bool ours)
{
    struct peer peer;
    struct caller caller;
    struct arena arena = {0};
    const char *dir = arena_printf(&arena, "%s/%s", test_tmp_dir(), ours ? "ours" : "etcd");

    if (ours)
        peer_open_ours(&peer, dir);
    else
        peer_open(&peer, dir);
    peer_start(&peer, "--unsafe-no-fsync --auto-compaction-retention=1s");
    caller_open(&caller, &peer);
    struct line *line = caller_connect(&caller);
    for (unsigned i = 0; i < PUTS; i++)
        caller_put(line, BYTES("k"), BYTES("v"));

    check_compacted(&arena, &caller, line, &peer);

    caller_close(&caller);
    peer_stop(&peer);
    peer_close(&peer);
    arena_free(&arena);
}

TEST(etcd_compacts_by_itself)
{
    run(false);
}

TEST(we_compact_by_ourselves_and_say_so_as_etcd_does)
{
    run(true);
}
