/*
 * One of three members is alive, as real processes: what it answers to whom.
 *
 *     the same calls to real etcd and to us, in JSON   are answered alike
 *     more writes than we keep                         leave alone whatever needs no quorum
 */
#include "cluster/fleet.h"

#include "base/mem.h"
#include "harness/line_diff.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/caller.h"
#include "io/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CURL "/usr/bin/curl"

enum { MEMBERS = 3, WAIT_MS_MAX = 60000, PAUSE_MS = 20 };

/* The first member is the one that is left. */
struct leaderless {
    struct fleet fleet;
    const char *url;
    const char *lease; /* of 600 seconds */
};

static uint64_t leader_of(struct caller *c, struct line *l)
{
    struct ask a = {.line = l, .timeout_ns = 2 * NS_PER_S};
    struct arena arena = {0};
    struct pb_status_response response = {0};

    ask_start(&a, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
              &(struct pb_empty){0});
    ask_wait(&a);
    bool is_known = a.code == RPC_OK && pb_decode(&pb_status_response_schema, buf_bytes(&a.answer),
                                                  &arena, &response) == ERR_OK;
    uint64_t leader = is_known ? response.leader : UINT64_MAX;
    if (!is_known) {
        line_reconnect(l, &c->address);
        caller_for_ms(c, PAUSE_MS);
    }
    ask_free(&a);
    arena_free(&arena);
    return leader;
}

/* Until there is a leader, or none. */
static void await_leader(struct caller *c, struct line *l, bool wanted)
{
    uint64_t until_ns = caller_now_ns(c) + WAIT_MS_MAX * NS_PER_MS;

    for (uint64_t leader = UINT64_MAX; leader == UINT64_MAX || (leader != 0) != wanted;) {
        CHECK(caller_now_ns(c) < until_ns);
        leader = leader_of(c, l);
        caller_for_ms(c, PAUSE_MS);
    }
}

static void open_fleet(struct leaderless *w, const char *program, const char *dir)
{
    struct arena *arena = &w->fleet.arena;

    *w = (struct leaderless){0};
    CHECK(fleet_open(&w->fleet,
                     &(struct fleet_options){
                         .program = program, .dir = dir, .count = MEMBERS, .election_ms = 1000}));
    for (unsigned i = 0; i < MEMBERS; i++)
        CHECK(fleet_start(&w->fleet, i));
    w->url = arena_printf(arena, "http://127.0.0.1:%u", w->fleet.members[0].client_port);
}

static void lose_the_others(struct leaderless *w)
{
    struct caller c;
    CHECK_EQ(caller_init(&c), ERR_OK);
    c.address = w->fleet.members[0].address;
    struct line *l = caller_connect_to(&c, &c.address);

    await_leader(&c, l, true);
    w->lease = peer_run(&w->fleet.arena,
                        "until curl -sf %s/v3/lease/grant -d '{\"TTL\":600}' >%s/lease; do sleep "
                        "0.1; done; sed 's/.*\"ID\": *\"\\([0-9]*\\)\".*/\\1/' %s/lease",
                        w->url, w->fleet.dir, w->fleet.dir);
    for (unsigned i = 1; i < MEMBERS; i++)
        fleet_kill(&w->fleet, i);
    await_leader(&c, l, false);

    caller_close(&c);
}

/* --- beside etcd --- */

/* Without a deadline of the client's, but for the last ones. */
static const char *const calls[] = {
    "kv/put {\"key\":\"YQ==\",\"value\":\"YQ==\"}",
    "kv/deleterange {\"key\":\"YQ==\"}",
    "kv/txn {\"success\":[{\"requestPut\":{\"key\":\"YQ==\",\"value\":\"YQ==\"}}]}",
    "kv/range {\"key\":\"YQ==\"}",
    "kv/range {\"key\":\"YQ==\",\"serializable\":true,\"count_only\":true}",
    "kv/compaction {\"revision\":\"1\"}",
    "lease/grant {\"TTL\":600}",
    "lease/revoke {\"ID\":\"7\"}",
    "lease/keepalive {\"ID\":\"LEASE\"}",
    "lease/timetolive {\"ID\":\"LEASE\"}",
    "auth/user/add {\"name\":\"u\",\"password\":\"p\"}",
    "auth/user/get {\"name\":\"u\"}",
    "auth/role/add {\"name\":\"u\"}",
    "auth/status {}",
    "auth/enable {}",
    "auth/authenticate {\"name\":\"u\",\"password\":\"p\"}",
    "maintenance/alarm {}",
    "maintenance/alarm {\"action\":\"ACTIVATE\",\"alarm\":\"NOSPACE\",\"memberID\":\"5\"}",
    "maintenance/transfer-leadership {\"targetID\":\"77\"}",
    "maintenance/downgrade {\"action\":\"ENABLE\",\"version\":\"3.6\"}",
    "cluster/member/list {\"linearizable\":true}",
    "cluster/member/add {\"peerURLs\":[\"http://127.0.0.1:1\"],\"isLearner\":true}",
    "lock/lock {\"name\":\"bG9j\"}",
    "lock/lock {\"name\":\"bG9j\",\"lease\":\"LEASE\"}",
    "lock/unlock {\"key\":\"bG9j\"}",
    "election/campaign {\"name\":\"bG9j\",\"value\":\"YQ==\"}",
    "election/campaign {\"name\":\"bG9j\",\"value\":\"YQ==\",\"lease\":\"LEASE\"}",
    "election/proclaim {\"leader\":{\"name\":\"bG9j\",\"key\":\"bG9j\"},\"value\":\"YQ==\"}",
    "election/resign {\"leader\":{\"name\":\"bG9j\",\"key\":\"bG9j\"}}",
    "election/leader {\"name\":\"bG9j\"}",
    "kv/put {\"key\":\"YQ==\",\"value\":\"YQ==\"} -H Grpc-Timeout:1S",
    "kv/range {\"key\":\"YQ==\"} -H Grpc-Timeout:1S",
    "kv/put {\"key\":\"YQ==\",\"value\":\"YQ==\"} -H Grpc-Timeout:20S",
};

/* A script that asks all of them at once: most are answered when the server's time is up. */
static void write_script(struct leaderless *w)
{
    struct buf script = {0};

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        const char *body = strchr(calls[i], ' ') + 1;
        const char *field = strstr(body, " -H ");
        int path_len = (int)(body - 1 - calls[i]);
        int body_len = (int)(field ? (size_t)(field - body) : strlen(body));
        buf_printf(&script,
                   "{ echo '%s'; " CURL " -s -m 40 -w ' %%{http_code}' %s/v3/%.*s%s -d '%.*s'; "
                   "} >%s/said.%02zu &\n",
                   calls[i], w->url, path_len, calls[i], field ? field : "", body_len, body,
                   w->fleet.dir, i);
    }
    peer_run(&w->fleet.arena, "sed 's/LEASE/%s/g' >%s/ask.sh <<'END'\n%swait\nEND", w->lease,
             w->fleet.dir, buf_str(&script));
    buf_free(&script);
}

/* Without ids, and the spaces that protojson puts in or not. At a client's own deadline etcd's
 * gateway races its server: at times it is told of the reset stream, with the same code, before it
 * notices that the time is up. */
static const char *said(struct leaderless *w)
{
    return peer_run(&w->fleet.arena,
                    "for f in %s/said.*; do tr -d ' ' <$f | sed -E 's/%s/LEASE/g; "
                    "s/\"(cluster_id|member_id|raft_term)\":\"[0-9]+\"/\"\\1\":*/g; "
                    "s/(\"code\":4,\"message\":\")streamterminatedbyRST_STREAMwitherrorcode:CANCEL/"
                    "\\1contextdeadlineexceeded/'; echo; done",
                    w->fleet.dir, w->lease);
}

TEST(a_member_without_a_leader_answers_as_etcds_does)
{
    struct leaderless etcd, ours;
    struct peer peer;
    struct buf diff = {0};
    struct arena arena = {0};
    gate_need(GATE_PEERS);
    if (access(CURL, X_OK) != 0)
        SKIP("NOT compared: there is no " CURL);
    peer_open_ours(&peer, test_tmp_dir());
    const char *dirs[] = {arena_printf(&arena, "%s/etcd", test_tmp_dir()),
                          arena_printf(&arena, "%s/ours", test_tmp_dir())};
    peer_run(&arena, "mkdir %s %s", dirs[0], dirs[1]);
    open_fleet(&etcd, gate_program(GATE_PEERS, "etcd"), dirs[0]);
    open_fleet(&ours, peer.program, dirs[1]);
    lose_the_others(&etcd);
    lose_the_others(&ours);

    write_script(&etcd);
    write_script(&ours);
    peer_run(&arena, "sh %s/ask.sh & sh %s/ask.sh & wait", dirs[0], dirs[1]);

    const char *want = said(&etcd), *got = said(&ours);
    CHECK(strstr(got, "contextdeadlineexceeded"));
    line_diff(&diff, bytes_of_str(want), bytes_of_str(got));
    if (diff.len > 0)
        test_fail(__FILE__, __LINE__, "the answers differ:\n%s", buf_str(&diff));
    buf_free(&diff);
    fleet_close(&etcd.fleet);
    fleet_close(&ours.fleet);
    peer_close(&peer);
    arena_free(&arena);
}

/* --- more writes than are kept --- */

enum { FLOODS = 5, PUTS = 24, PUT_BYTES = 1000000 };

struct flood {
    struct caller caller;
    struct ask puts[PUTS];
};

static unsigned count_over(struct flood *f)
{
    unsigned over = 0;

    for (unsigned i = 0; i < PUTS; i++)
        over += ask_is_over(&f->puts[i]);
    return over;
}

static void start_flood(struct flood *f, const struct net_address *to)
{
    struct line *lines[FLOODS];
    uint8_t *value = mem_alloc(PUT_BYTES);

    *f = (struct flood){0};
    CHECK_EQ(caller_init(&f->caller), ERR_OK);
    f->caller.address = *to;
    memset(value, 'x', PUT_BYTES);
    for (unsigned i = 0; i < FLOODS; i++)
        lines[i] = caller_connect_to(&f->caller, to);
    for (unsigned i = 0; i < PUTS; i++) {
        f->puts[i].line = lines[i % FLOODS];
        ask_start(&f->puts[i], "/etcdserverpb.KV/Put", &pb_put_request_schema,
                  &(struct pb_put_request){.key = BYTES("k"), .value = bytes_of(value, PUT_BYTES)});
    }
    mem_free(value);
}

/* Its queue of writes is full. Whoever asks for that needs no quorum, either. */
static void await_full_queue(struct flood *f, struct leaderless *w)
{
    int64_t pending = 0;

    while (pending * PUT_BYTES < PENDING_QUEUE_BYTES_MAX) {
        caller_turn(&f->caller, PAUSE_MS);
        CHECK_EQ(count_over(f), 0);
        const char *line = peer_run(
            &w->fleet.arena, CURL " -s %s/metrics | grep ^etcd_server_proposals_pending", w->url);
        pending = strtoll(strchr(line, ' '), NULL, 10);
    }
}

TEST(writes_that_wait_for_a_quorum_keep_nobody_else_waiting)
{
    struct leaderless w;
    struct peer ours;
    struct flood *f = mem_new(struct flood);
    struct arena *arena = &w.fleet.arena;
    if (access(CURL, X_OK) != 0)
        SKIP("NOT run: there is no " CURL);
    peer_open_ours(&ours, test_tmp_dir());
    open_fleet(&w, ours.program, test_tmp_dir());
    lose_the_others(&w);

    start_flood(f, &w.fleet.members[0].address);
    await_full_queue(f, &w);

    CHECK_STR(peer_run(arena, CURL " -s %s/livez", w.url), "ok");
    CHECK(strstr(peer_run(arena,
                          CURL " -s %s/v3/kv/range -d '{\"key\":\"YQ==\",\"serializable\":true}'",
                          w.url),
                 "\"revision\""));
    CHECK(strstr(peer_run(arena, CURL " -s %s/v3/maintenance/status -d '{}'", w.url),
                 "\"raftIndex\""));
    struct ask read = {.line = caller_connect_to(&f->caller, &f->caller.address)};
    ask_start(&read, "/etcdserverpb.KV/Range", &pb_range_request_schema,
              &(struct pb_range_request){.key = BYTES("k"), .serializable = true});
    ask_wait(&read);
    CHECK_EQ(read.code, RPC_OK);
    CHECK_EQ(count_over(f), 0); /* all of this while the writes wait */

    for (unsigned i = 0; i < PUTS; i++) {
        ask_wait(&f->puts[i]);
        CHECK_EQ(f->puts[i].code, RPC_DEADLINE_EXCEEDED);
        ask_free(&f->puts[i]);
    }
    ask_free(&read);
    caller_close(&f->caller);
    fleet_close(&w.fleet);
    peer_close(&ours);
    mem_free(f);
}
