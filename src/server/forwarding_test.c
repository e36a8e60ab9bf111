#include "server/forwarding.h"

#include "harness/test.h"
#include "io/fake_world.h"
#include "peer/peer.h"

/* A follower whose leader is not known by address, so that only the test answers. */
struct forwarding_rig {
    struct fake_world *world;
    struct logger logger;
    struct api_facts facts;
    struct peers *peers;
    struct forwarding forwarding;
    struct api_call call;
};

static void forwarding_rig_open(struct forwarding_rig *r)
{
    *r = (struct forwarding_rig){
        .world = fake_world_new(test_seed()),
        .facts = {.leader = 2},
        .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    r->peers = peers_open(&(struct peers_options){.io = fake_world_io(r->world),
                                                  .logger = &r->logger,
                                                  .self = 1,
                                                  .cluster_id = 3,
                                                  .urls = "http://10.0.0.1:2380",
                                                  .version = "3.7.1",
                                                  .heartbeat_ms = 100,
                                                  .election_ms = 1000});
    forwarding_init(&r->forwarding, &(struct forwarding_options){
                                        .peers = r->peers, .facts = &r->facts, .limit_ms = 5000});
}

static void forwarding_rig_close(struct forwarding_rig *r)
{
    forwarding_free(&r->forwarding);
    peers_stop(r->peers);
    while (!peers_is_idle(r->peers))
        fake_world_step(r->world);
    peers_close(r->peers);
    fake_world_free(r->world);
}

/* It would be as large the next time, and the time after. */
TEST(an_answer_that_is_too_large_is_not_asked_for_again)
{
    struct forwarding_rig r;
    enum result why;
    struct api_forwarded answer;
    forwarding_rig_open(&r);
    forwarding_need(&r.forwarding, &(struct api_need){.need = API_FORWARD,
                                                      .call = &r.call,
                                                      .forward = {.kind = API_FORWARD_TIME_TO_LIVE,
                                                                  .lease = 7,
                                                                  .with_keys = true}});

    forwarding_result(
        &r.forwarding,
        &(struct peer_event){.kind = PEER_RESULT, .id = r.call.id, .is_too_large = true});

    CHECK(forwarding_take(&r.forwarding, &why, &answer) == &r.call);
    CHECK_EQ(why, RESULT_RESPONSE_TOO_LARGE);
    forwarding_check(&r.forwarding);
    forwarding_rig_close(&r);
}

/* A leader answers one after the other. What it is asked at the same time has a bound, and those
 * who wait ask when it has answered others. */
TEST(a_leader_is_asked_so_much_at_a_time)
{
    enum { CALLS = 3 * FORWARDING_ASKED_MAX };
    struct forwarding_rig r;
    struct api_call *calls = mem_new_array(CALLS, struct api_call);
    enum result why;
    struct api_forwarded answer;
    unsigned over = 0;
    forwarding_rig_open(&r);

    for (unsigned i = 0; i < CALLS; i++)
        forwarding_need(&r.forwarding,
                        &(struct api_need){.need = API_FORWARD,
                                           .call = &calls[i],
                                           .forward = {.kind = API_FORWARD_RENEW, .lease = 7}});
    for (unsigned round = 1; round <= 3; round++) {
        CHECK_EQ(r.forwarding.asked_count, FORWARDING_ASKED_MAX);
        for (unsigned i = 0; i < CALLS; i++) /* those that nobody was asked for stay as they are */
            forwarding_result(
                &r.forwarding,
                &(struct peer_event){.kind = PEER_RESULT, .id = calls[i].id, .status = 404});
        while (forwarding_take(&r.forwarding, &why, &answer))
            over++;
        CHECK_EQ(over, round * FORWARDING_ASKED_MAX);
        forwarding_work(&r.forwarding);
        forwarding_check(&r.forwarding);
    }
    forwarding_rig_close(&r);
    mem_free(calls);
}

static void renew(struct forwarding_rig *r, struct api_call *c, uint64_t conn)
{
    c->conn = conn;
    forwarding_need(&r->forwarding,
                    &(struct api_need){.need = API_FORWARD,
                                       .call = c,
                                       .forward = {.kind = API_FORWARD_RENEW, .lease = 7}});
}

/* From the leader, if it was asked; then the call that is over. */
static struct api_call *answer(struct forwarding_rig *r, const struct api_call *c, uint16_t status)
{
    enum result why;
    struct api_forwarded ignored;

    forwarding_result(&r->forwarding,
                      &(struct peer_event){.kind = PEER_RESULT, .id = c->id, .status = status});
    forwarding_work(&r->forwarding);
    return forwarding_take(&r->forwarding, &why, &ignored);
}

/* One client renews by as many streams as a connection may have. With one queue for all, the leader
 * would hear of the other's renewal when it has answered all of those, and its lease has expired.
 */
TEST(a_flood_of_renewals_does_not_delay_another_clients)
{
    enum { FLOOD = RPC_CONN_CALLS_MAX };
    struct forwarding_rig r;
    struct api_call *calls = mem_new_array(FLOOD, struct api_call), honest = {0};
    unsigned answered = 0;
    forwarding_rig_open(&r);
    for (unsigned i = 0; i < FLOOD; i++)
        renew(&r, &calls[i], 1);
    renew(&r, &honest, 2);
    forwarding_check(&r.forwarding);
    CHECK_EQ(r.forwarding.asked_count, FORWARDING_ASKED_MAX);

    /* The leader answers one after the other; a client that has its answer renews again. */
    for (unsigned i = 0; !answer(&r, &honest, 404); i = (i + 1) % FLOOD) {
        if (!answer(&r, &calls[i], 404))
            continue;
        answered++;
        renew(&r, &calls[i], 1);
    }

    if (answered > 2)
        test_fail(__FILE__, __LINE__, "%u others were asked first", answered);
    forwarding_check(&r.forwarding);
    forwarding_rig_close(&r);
    mem_free(calls);
}

TEST(a_call_to_the_leader_ends_in_time_wherever_it_waits)
{
    struct forwarding_rig r;
    struct api_call asked = {0}, retrying = {0}, waiting = {0}, gone = {0};
    enum result why;
    struct api_forwarded ignored;
    forwarding_rig_open(&r);
    renew(&r, &asked, 1);
    renew(&r, &retrying, 1);
    CHECK(!answer(&r, &retrying, 500));
    r.facts.leader = 0;
    renew(&r, &waiting, 2);
    renew(&r, &gone, 2);
    CHECK(forwarding_forget(&r.forwarding, &gone));
    forwarding_check(&r.forwarding);

    r.facts.now_ms = r.forwarding.o.limit_ms - 1;
    forwarding_work(&r.forwarding);
    CHECK(!forwarding_take(&r.forwarding, &why, &ignored));
    r.facts.now_ms++;
    forwarding_work(&r.forwarding);

    struct api_call *const all[] = {&asked, &retrying, &waiting};
    for (unsigned i = 0; i < ARRAY_LEN(all); i++) {
        CHECK(forwarding_take(&r.forwarding, &why, &ignored) == all[i]);
        CHECK_EQ(why, RESULT_NO_LEADER);
    }
    CHECK(!forwarding_take(&r.forwarding, &why, &ignored));
    forwarding_check(&r.forwarding);
    forwarding_rig_close(&r);
}

/* Its own clients' renewals are its own to answer then. */
TEST(a_member_that_leads_now_asks_nobody)
{
    struct forwarding_rig r;
    struct api_call calls[3] = {0};
    enum result why;
    struct api_forwarded told;
    forwarding_rig_open(&r);
    for (unsigned i = 0; i < ARRAY_LEN(calls); i++)
        renew(&r, &calls[i], 1);
    CHECK_EQ(r.forwarding.asked_count, 3);

    r.facts.leader = 1;
    r.facts.is_leader = true;
    forwarding_work(&r.forwarding);

    for (unsigned i = 0; i < ARRAY_LEN(calls); i++) {
        CHECK(forwarding_take(&r.forwarding, &why, &told) == &calls[i]);
        CHECK_EQ(why, RESULT_OK);
        CHECK(told.is_here);
    }
    forwarding_check(&r.forwarding);
    forwarding_rig_close(&r);
}
