/*
 * A follower behind a black hole in front of its peer port, as real processes.
 *
 *     leader --appends, on the stream that the follower has opened--> follower
 *     leader <--X-- responses, on the stream that the leader has opened, through the hole
 *     leader <--- responses, in posts to the leader's port, once those streams are given up
 *
 * So what the leader sends arrives all the time. Without a response the leader sends as many
 * appends as its window has (RAFT_INFLIGHT_MESSAGES_MAX), and the streams through the hole are
 * given up after five seconds of silence: then the follower's responses take the posts, and it
 * keeps up for as long as the hole is there. etcd 3.7.1 never gives those streams up
 * (docs/compat.md).
 */
#include "cluster/links.h"

#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/caller.h"
#include "io/clock.h"

enum { MEMBERS = 3, WAIT_MS_MAX = 60000, PAUSE_MS = 20, STREAMS = 4 };

struct hole_rig {
    struct peer ours; /* for its program */
    struct caller caller;
    struct fleet fleet;
    struct links links;
    struct line *lines[MEMBERS];
    unsigned leader, follower;
};

struct status {
    uint64_t leader, self, term;
    int64_t revision;
};

/* False if it does not answer yet. */
static bool look_at(struct hole_rig *r, unsigned member, struct status *out)
{
    struct ask a = {.line = r->lines[member], .timeout_ns = 2 * NS_PER_S};
    struct arena arena = {0};
    struct pb_status_response response;

    ask_start(&a, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
              &(struct pb_empty){0});
    ask_wait(&a);
    bool is_ok = a.code == RPC_OK && pb_decode(&pb_status_response_schema, buf_bytes(&a.answer),
                                               &arena, &response) == ERR_OK;
    if (is_ok)
        *out = (struct status){.leader = response.leader,
                               .self = response.header->member_id,
                               .term = response.raft_term,
                               .revision = response.header->revision};
    ask_free(&a);
    arena_free(&arena);
    if (!is_ok)
        line_reconnect(r->lines[member], &r->fleet.members[member].address);
    return is_ok;
}

static void pause_between(struct hole_rig *r, unsigned *waited_ms)
{
    CHECK(*waited_ms < WAIT_MS_MAX);
    if (!fleet_look(&r->fleet))
        test_fail(__FILE__, __LINE__, "%s", r->fleet.problem);
    caller_for_ms(&r->caller, PAUSE_MS);
    *waited_ms += PAUSE_MS;
}

/* All members follow the same one. */
static void await_leader(struct hole_rig *r)
{
    struct status s[MEMBERS] = {0};
    unsigned waited_ms = 0, agreed = 0;

    for (; agreed < MEMBERS; pause_between(r, &waited_ms)) {
        agreed = 0;
        for (unsigned i = 0; i < MEMBERS; i++) {
            bool is_known = look_at(r, i, &s[i]) && s[i].leader != 0 && s[i].leader == s[0].leader;
            agreed += is_known;
            if (is_known && s[i].leader == s[i].self)
                r->leader = i;
        }
    }
    r->follower = (r->leader + 1) % MEMBERS;
}

static void open_rig(struct hole_rig *r)
{
    *r = (struct hole_rig){0};
    peer_open_ours(&r->ours, test_tmp_dir());
    CHECK(fleet_open(&r->fleet, &(struct fleet_options){.program = r->ours.program,
                                                        .dir = test_tmp_dir(),
                                                        .count = MEMBERS,
                                                        .election_ms = 1000}));
    CHECK_EQ(caller_init(&r->caller), ERR_OK);
    CHECK_EQ(links_open(&r->links, r->caller.io, &r->fleet), ERR_OK);
    for (unsigned i = 0; i < MEMBERS; i++) {
        CHECK(fleet_start(&r->fleet, i));
        r->lines[i] = caller_connect_to(&r->caller, &r->fleet.members[i].address);
    }
    await_leader(r);
}

static void close_rig(struct hole_rig *r)
{
    links_close(&r->links);
    while (!links_are_closed(&r->links))
        caller_turn(&r->caller, PAUSE_MS);
    caller_close(&r->caller);
    fleet_close(&r->fleet);
    peer_close(&r->ours);
}

static void put_some(struct hole_rig *r, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct ask a = {.line = r->lines[r->leader]};
        ask_start(&a, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                  &(struct pb_put_request){.key = BYTES("k"), .value = BYTES("v")});
        ask_wait(&a);
        CHECK_EQ(a.code, RPC_OK);
        ask_free(&a);
    }
}

/* The follower has everything that was written. */
static void await_follower(struct hole_rig *r)
{
    struct status leader, follower;
    unsigned waited_ms = 0;

    CHECK(look_at(r, r->leader, &leader));
    while (!look_at(r, r->follower, &follower) || follower.revision < leader.revision)
        pause_between(r, &waited_ms);
}

TEST(a_follower_behind_a_black_hole_keeps_up_by_posts)
{
    const char *line = "lost TCP streaming connection with remote peer\",\"stream-writer-type";
    struct hole_rig r;
    struct status before, after;
    unsigned waited_ms = 0, lost = 0;
    long from = 0;
    open_rig(&r);
    CHECK(look_at(&r, r.leader, &before));
    (void)fleet_said(&r.fleet, r.follower, line, &from);

    links_set_hole(&r.links, r.follower, true);
    put_some(&r, RAFT_INFLIGHT_MESSAGES_MAX / 4);
    await_follower(&r); /* without a single response */
    while ((lost += fleet_said(&r.fleet, r.follower, line, &from)) < STREAMS)
        pause_between(&r, &waited_ms);
    put_some(&r, 3 * RAFT_INFLIGHT_MESSAGES_MAX);
    await_follower(&r);

    CHECK(look_at(&r, r.leader, &after));
    CHECK_EQ(after.term, before.term);
    CHECK_EQ(after.leader, after.self);
    close_rig(&r);
}
