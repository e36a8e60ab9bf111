#include "server/pending.h"

#include "base/rng.h"
#include "harness/test.h"
#include "pb/codec.h"

#define LIMIT_MS 7000

struct pending_rig {
    struct pending pending;
    struct api_facts facts;
    struct arena arena;
};

static void rig_open(struct pending_rig *r)
{
    *r = (struct pending_rig){.facts = {.member_id = 0x1234, .leader = 0x1234, .now_ms = 100}};
    pending_init(&r->pending, &(struct pending_options){.facts = &r->facts,
                                                        .salt = 0xaaa5000000000500,
                                                        .map_seed = test_seed(),
                                                        .request_bytes_max = 1000,
                                                        .limit_ms = LIMIT_MS});
}

static void rig_close(struct pending_rig *r)
{
    pending_check(&r->pending);
    pending_free(&r->pending);
    arena_free(&r->arena);
}

static void propose_as(struct pending_rig *r, struct api_call *c, struct bytes value,
                       struct identity who)
{
    struct pb_put_request put = {.key = BYTES("k"), .value = value};
    struct pb_internal_raft_request request = {.put = &put};

    pending_need(
        &r->pending,
        &(struct api_need){.need = API_PROPOSE, .call = c, .identity = who, .request = &request});
    pending_check(&r->pending);
}

static void propose(struct pending_rig *r, struct api_call *c, const char *value)
{
    propose_as(r, c, bytes_of_str(value), (struct identity){0});
}

static void read_key(struct pending_rig *r, struct api_call *c)
{
    pending_need(&r->pending, &(struct api_need){.need = API_READ_INDEX, .call = c});
    pending_check(&r->pending);
}

static void configure(struct pending_rig *r, struct api_call *c, const struct api_change *change)
{
    pending_need(&r->pending,
                 &(struct api_need){.need = API_CONFIGURE, .call = c, .change = change});
    pending_check(&r->pending);
}

static void forget(struct pending_rig *r, struct api_call *c)
{
    pending_need(&r->pending, &(struct api_need){.need = API_FORGET, .call = c});
    pending_check(&r->pending);
}

static struct pb_internal_raft_request decode(struct pending_rig *r, struct blob *data)
{
    struct pb_internal_raft_request request = {0};

    CHECK_EQ(pb_decode_internal_raft_request(blob_bytes(data), &r->arena, &request), ERR_OK);
    return request;
}

/* Everything that raft would be given now; it takes it, or does not. */
static size_t give_raft_at(struct pending_rig *r, bool accepts, uint64_t index)
{
    struct blob *data[64];
    size_t count = pending_take_proposals(&r->pending, SIZE_MAX, data, ARRAY_LEN(data));

    if (count > 0)
        pending_proposed(&r->pending, accepts, index);
    pending_check(&r->pending);
    return count;
}

static size_t give_raft(struct pending_rig *r, bool accepts)
{
    return give_raft_at(r, accepts, 0);
}

/* A round, as raft would be asked for it; the test answers with what is returned. */
static struct bytes take_round(struct pending_rig *r)
{
    struct blob *round = pending_take_round(&r->pending);

    if (!round)
        return (struct bytes){0};
    struct bytes copy = arena_copy(&r->arena, blob_bytes(round));
    blob_unref(round);
    return copy;
}

static void check_failed(struct pending_rig *r, struct api_call *c, enum result why)
{
    enum result told = RESULT_OK;

    CHECK(pending_take_failed(&r->pending, &told) == c);
    CHECK_EQ(told, why);
    pending_check(&r->pending);
}

static void check_none_failed(struct pending_rig *r)
{
    enum result why;

    CHECK(!pending_take_failed(&r->pending, &why));
}

/* --- proposals --- */

TEST(a_proposal_carries_id_and_identity_and_is_found_again_by_the_id)
{
    struct pending_rig r;
    struct api_call call = {0};
    struct blob *data[4];
    rig_open(&r);

    propose_as(&r, &call, BYTES("v"),
               (struct identity){.user = BYTES("alice"), .auth_revision = 12});
    CHECK_EQ(pending_take_proposals(&r.pending, 1, data, ARRAY_LEN(data)), 1);
    struct pb_internal_raft_request request = decode(&r, data[0]);

    CHECK_EQ(request.header->id, call.id);
    CHECK_BYTES(request.header->username, BYTES("alice"));
    CHECK_EQ(request.header->auth_revision, 12);
    CHECK_BYTES(request.put->value, BYTES("v"));
    pending_proposed(&r.pending, true, 0);
    CHECK(pending_is_awaited(&r.pending, call.id));
    CHECK(!pending_is_awaited(&r.pending, call.id + 1));
    CHECK(!pending_is_awaited(&r.pending, 0));
    CHECK_EQ(pending_count(&r.pending), 1);
    CHECK(pending_take_applied(&r.pending, call.id) == &call);
    CHECK(!pending_take_applied(&r.pending, call.id));
    CHECK(!pending_take_applied(&r.pending, 0));

    rig_close(&r);
}

TEST(ids_name_the_member_and_begin_where_they_are_told)
{
    struct pending_rig r;
    struct api_call first = {0}, second = {0};
    rig_open(&r);

    propose(&r, &first, "");
    propose(&r, &second, "");

    CHECK_EQ(first.id, 0x1234000000000501);
    CHECK_EQ(second.id, 0x1234000000000502);

    rig_close(&r);
}

TEST(proposals_come_out_in_order_and_no_more_than_there_is_a_budget_for)
{
    struct pending_rig r;
    struct api_call calls[5] = {0};
    struct blob *data[8];
    rig_open(&r);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        propose(&r, &calls[i], "twenty bytes of text");
    size_t each = r.pending.queue_bytes / ARRAY_LEN(calls);

    CHECK_EQ(pending_take_proposals(&r.pending, 0, data, ARRAY_LEN(data)), 1); /* or none ever */
    CHECK_EQ(decode(&r, data[0]).header->id, calls[0].id);
    pending_proposed(&r.pending, true, 0);
    CHECK_EQ(pending_take_proposals(&r.pending, each + 1, data, ARRAY_LEN(data)), 2);
    CHECK_EQ(decode(&r, data[1]).header->id, calls[2].id);
    pending_proposed(&r.pending, true, 0);
    CHECK_EQ(pending_take_proposals(&r.pending, SIZE_MAX, data, 1), 1);
    CHECK_EQ(decode(&r, data[0]).header->id, calls[3].id);
    pending_proposed(&r.pending, true, 0);
    CHECK_EQ(give_raft(&r, true), 1);
    CHECK_EQ(give_raft(&r, true), 0);
    CHECK(!pending_has_proposals(&r.pending));
    CHECK_EQ(r.pending.queue_bytes, 0);

    rig_close(&r);
}

TEST(what_raft_drops_is_told_to_those_who_wait)
{
    struct pending_rig r;
    struct api_call calls[2] = {0};
    rig_open(&r);
    struct pb_lease_id lease = {.id = 9};
    propose(&r, &calls[0], "");
    pending_propose_own(&r.pending, &(struct pb_internal_raft_request){.lease_revoke = &lease});
    propose(&r, &calls[1], "");

    CHECK_EQ(give_raft(&r, false), 3);

    check_failed(&r, &calls[0], RESULT_PROPOSAL_DROPPED);
    check_failed(&r, &calls[1], RESULT_PROPOSAL_DROPPED);
    check_none_failed(&r);
    CHECK_EQ(pending_count(&r.pending), 0);

    rig_close(&r);
}

TEST(a_proposal_that_is_too_large_or_one_too_many_is_refused)
{
    struct pending_rig r;
    struct api_call large = {0}, surplus = {0}, last = {0};
    char text[1001] = {0};
    rig_open(&r);
    memset(text, 'x', sizeof(text) - 1);

    propose(&r, &large, text);
    check_failed(&r, &large, RESULT_REQUEST_TOO_LARGE);

    r.facts.applied_index = 10;
    r.facts.committed_index = 10 + PENDING_GAP_MAX;
    propose(&r, &last, "");
    r.facts.committed_index++;
    propose(&r, &surplus, "");
    check_failed(&r, &surplus, RESULT_TOO_MANY_REQUESTS);
    check_none_failed(&r);
    CHECK_EQ(give_raft(&r, true), 1);

    rig_close(&r);
}

/* A client's call by this connection, whose put is of so many bytes. */
struct flood_call {
    struct api_call call;
    struct pb_put_request put;
    struct pb_internal_raft_request request;
};

static void flood(struct pending_rig *r, struct flood_call *calls, size_t count, uint64_t conn,
                  size_t bytes)
{
    static uint8_t value[MIB];

    CHECK(bytes <= sizeof(value));
    r->pending.o.request_bytes_max = 2 * MIB;
    for (size_t i = 0; i < count; i++) {
        struct flood_call *f = &calls[i];
        *f = (struct flood_call){.call.conn = conn,
                                 .put = {.key = BYTES("k"), .value = bytes_of(value, bytes)}};
        f->request.put = &f->put;
        pending_need(
            &r->pending,
            &(struct api_need){.need = API_PROPOSE, .call = &f->call, .request = &f->request});
    }
    pending_check(&r->pending);
}

/* Gives raft so many proposals, one at a time. */
static void give_raft_some(struct pending_rig *r, size_t count)
{
    struct blob *data[1];

    for (; count > 0; count--) {
        CHECK_EQ(pending_take_proposals(&r->pending, 1, data, 1), 1);
        pending_proposed(&r->pending, true, 0);
    }
    pending_check(&r->pending);
}

TEST(the_queue_takes_so_many_bytes_and_proposals_and_other_calls_keep_theirs)
{
    enum { MANY = PENDING_QUEUE_MAX + 100, LARGE = PENDING_QUEUE_BYTES_MAX / MIB + 8 };
    struct pending_rig r;
    struct flood_call *calls = mem_new_array(MANY, struct flood_call);
    rig_open(&r);

    flood(&r, calls, MANY, 7, 1);
    CHECK_EQ(r.pending.queue_count, PENDING_QUEUE_MAX);
    CHECK_EQ(r.pending.held.count, 100);
    give_raft_some(&r, MANY);
    CHECK_EQ(r.pending.held.count, 0);
    for (size_t i = 0; i < MANY; i++)
        CHECK(pending_take_applied(&r.pending, calls[i].call.id) == &calls[i].call);

    flood(&r, calls, LARGE, 7, MIB);
    CHECK(r.pending.queue_bytes < PENDING_QUEUE_BYTES_MAX + 2 * MIB);
    CHECK(r.pending.held.count > 0);
    give_raft_some(&r, LARGE);
    CHECK_EQ(r.pending.held.count, 0);
    for (size_t i = 1; i < LARGE; i++)
        CHECK(calls[i].call.id > calls[i - 1].call.id); /* in the order in which they came */

    rig_close(&r);
    mem_free(calls);
}

/* Behind what the queue has already, and one of each other connection. */
TEST(a_write_passes_those_that_another_connection_has_in_excess)
{
    enum { FLOOD = 4 * PENDING_QUEUE_BYTES_MAX / MIB };
    struct pending_rig r;
    struct flood_call *calls = mem_new_array(FLOOD, struct flood_call), honest;
    rig_open(&r);
    r.facts.leader = 0;
    flood(&r, calls, FLOOD, 7, MIB);
    size_t queued = r.pending.queue_count;
    flood(&r, &honest, 1, 9, 1);
    CHECK(honest.call.is_held);

    r.facts.leader = 0x1234;
    give_raft_some(&r, queued);
    CHECK(honest.call.is_held);
    give_raft_some(&r, 2);

    CHECK(pending_take_applied(&r.pending, honest.call.id) == &honest.call);
    CHECK(r.pending.held.count > FLOOD / 2);

    rig_close(&r);
    mem_free(calls);
}

TEST(a_call_that_the_queue_has_no_space_for_can_be_late_refused_or_forgotten)
{
    enum { FLOOD = PENDING_QUEUE_BYTES_MAX / MIB + 4 };
    struct pending_rig r;
    struct flood_call *calls = mem_new_array(FLOOD, struct flood_call), held[3], large;
    enum result why;
    rig_open(&r);
    r.facts.leader = 0;
    flood(&r, calls, FLOOD, 7, MIB);

    flood(&r, held, 3, 9, 1);
    flood(&r, &large, 1, 9, MIB);
    CHECK_EQ(large.call.is_held, true);
    forget(&r, &large.call);
    r.pending.o.request_bytes_max = 1000;
    struct pb_put_request put = {.key = BYTES("k"), .value = large.put.value};
    pending_need(&r.pending,
                 &(struct api_need){.need = API_PROPOSE,
                                    .call = &large.call,
                                    .request = &(struct pb_internal_raft_request){.put = &put}});
    check_failed(&r, &large.call, RESULT_REQUEST_TOO_LARGE);

    uint64_t failed = r.pending.stats.proposals_failed;
    forget(&r, &held[0].call);
    CHECK_EQ(r.pending.stats.proposals_failed, failed + 1);
    r.facts.now_ms += LIMIT_MS;
    pending_tick(&r.pending);
    for (unsigned i = 0; i < FLOOD; i++)
        check_failed(&r, &calls[i].call, RESULT_CONTEXT_DEADLINE);
    check_failed(&r, &held[1].call, RESULT_CONTEXT_DEADLINE);
    check_failed(&r, &held[2].call, RESULT_CONTEXT_DEADLINE);
    check_none_failed(&r);

    flood(&r, calls, FLOOD, 7, MIB);
    CHECK(calls[FLOOD - 1].call.is_held);
    pending_refuse(&r.pending, RESULT_NO_SPACE);
    for (unsigned i = 0; i < FLOOD; i++)
        CHECK(pending_take_failed(&r.pending, &why) && why == RESULT_NO_SPACE);
    check_none_failed(&r);
    CHECK_EQ(r.pending.queue_bytes, 0);

    rig_close(&r);
    mem_free(calls);
}

/* Transactions of a few bytes for each operation. */
TEST(requests_that_decoding_makes_large_wait_up_to_a_bound)
{
    enum { FILL = PENDING_QUEUE_BYTES_MAX / MIB + 1, KEPT = PENDING_KEPT_BYTES_MAX / MIB };
    struct pending_rig r;
    struct flood_call *calls = mem_new_array(FILL, struct flood_call);
    struct api_call large[KEPT + 1] = {0}, reads[2] = {0};
    rig_open(&r);
    r.facts.leader = 0;
    flood(&r, calls, FILL, 7, MIB);
    struct api_need need = {
        .need = API_PROPOSE, .request = &calls[0].request, .decoded_bytes = MIB};
    r.pending.o.request_bytes_max = 2 * MIB;

    for (unsigned i = 0; i <= KEPT; i++) {
        need.call = &large[i];
        pending_need(&r.pending, &need);
    }
    check_failed(&r, &large[KEPT], RESULT_TOO_MANY_REQUESTS);
    check_none_failed(&r);
    need = (struct api_need){.need = API_READ_INDEX, .call = &reads[0], .decoded_bytes = MIB};
    pending_need(&r.pending, &need);
    check_failed(&r, &reads[0], RESULT_TOO_MANY_REQUESTS);
    need.call = &reads[1];
    need.decoded_bytes = PENDING_KEPT_SMALL_BYTES;
    pending_need(&r.pending, &need);
    check_none_failed(&r);

    forget(&r, &large[0]);
    need.call = &reads[0];
    need.decoded_bytes = MIB;
    pending_need(&r.pending, &need);
    check_none_failed(&r);
    r.facts.leader = 0x1234;
    give_raft_some(&r, r.pending.queue_count + r.pending.held.count);
    for (unsigned i = 1; i < KEPT; i++)
        CHECK(pending_take_applied(&r.pending, large[i].id) == &large[i]);
    pending_read_state(&r.pending, take_round(&r), 0);
    CHECK(pending_take_confirmed(&r.pending) == &reads[1]);
    CHECK(pending_take_confirmed(&r.pending) == &reads[0]);
    CHECK_EQ(r.pending.kept_bytes, 0);

    rig_close(&r);
    mem_free(calls);
}

TEST(without_a_leader_proposals_wait_until_their_time_is_up)
{
    struct pending_rig r;
    struct api_call early = {0}, late = {0};
    rig_open(&r);
    r.facts.leader = 0;
    propose(&r, &early, "");
    r.facts.now_ms += LIMIT_MS;
    propose(&r, &late, "");

    CHECK_EQ(give_raft(&r, true), 0);
    CHECK(!pending_has_proposals(&r.pending));
    pending_tick(&r.pending);
    check_failed(&r, &early, RESULT_CONTEXT_DEADLINE);
    check_none_failed(&r);
    r.facts.leader = 7;
    CHECK_EQ(give_raft(&r, true), 1); /* no call waits for the other: it is not proposed any more */
    CHECK(pending_take_applied(&r.pending, late.id) == &late);

    rig_close(&r);
}

/* What raft has may still be applied, and what a leader has no time for is not its client's fault:
 * neither has met a deadline of its own. */
TEST(only_a_proposal_that_found_no_leader_ends_with_its_deadline)
{
    struct pending_rig r;
    struct api_call taken = {0}, queued = {0}, leaderless = {0};
    rig_open(&r);
    propose(&r, &taken, "");
    CHECK_EQ(give_raft(&r, true), 1);
    propose(&r, &queued, "");

    r.facts.now_ms += LIMIT_MS;
    pending_tick(&r.pending);
    check_failed(&r, &taken, RESULT_TIMEOUT);
    check_failed(&r, &queued, RESULT_TIMEOUT);
    r.facts.leader = 0;
    propose(&r, &leaderless, "");
    r.facts.now_ms += LIMIT_MS;
    pending_tick(&r.pending);
    check_failed(&r, &leaderless, RESULT_CONTEXT_DEADLINE);

    rig_close(&r);
}

TEST(a_proposal_whose_client_has_gone_before_raft_has_it_is_not_proposed)
{
    struct pending_rig r;
    struct api_call gone = {0}, stays = {0};
    rig_open(&r);
    r.facts.leader = 0;
    propose(&r, &gone, "");
    propose(&r, &stays, "");

    forget(&r, &gone);
    r.facts.leader = 7;

    CHECK_EQ(give_raft(&r, true), 1);
    CHECK(pending_take_applied(&r.pending, stays.id) == &stays);

    rig_close(&r);
}

TEST(a_call_that_was_told_to_be_late_is_not_told_again_when_it_is_applied)
{
    struct pending_rig r;
    struct api_call call = {0};
    rig_open(&r);
    propose(&r, &call, "");
    CHECK_EQ(give_raft(&r, true), 1);

    r.facts.now_ms += LIMIT_MS - 1;
    pending_tick(&r.pending);
    check_none_failed(&r);
    r.facts.now_ms++;
    pending_tick(&r.pending);

    check_failed(&r, &call, RESULT_TIMEOUT);
    CHECK(!pending_take_applied(&r.pending, call.id));

    rig_close(&r);
}

/* --- a state that comes from elsewhere --- */

TEST(a_proposal_that_an_image_overtakes_fails_and_a_later_one_waits_on)
{
    struct pending_rig r;
    struct api_call calls[6] = {0}, read = {0};
    rig_open(&r);
    r.facts.applied_index = 10;

    propose(&r, &calls[0], "a");
    propose(&r, &calls[1], "b");
    CHECK_EQ(give_raft_at(&r, true, 11), 2); /* 11 and 12 */
    read_key(&r, &read);
    take_round(&r); /* which takes an id, too */
    propose(&r, &calls[2], "c");
    propose(&r, &calls[3], "d");
    CHECK_EQ(give_raft_at(&r, true, 14), 2); /* 14 and 15; 13 was somebody else's */
    propose(&r, &calls[4], "e");
    CHECK_EQ(give_raft(&r, true), 1); /* forwarded: nobody knows where it is */
    propose(&r, &calls[5], "f");      /* and this one is with nobody yet */
    r.facts.applied_index = 11;
    CHECK(pending_take_applied(&r.pending, calls[0].id) == &calls[0]);

    pending_overtaken(&r.pending, 14);

    check_failed(&r, &calls[1], RESULT_TIMEOUT);
    check_failed(&r, &calls[2], RESULT_TIMEOUT);
    check_none_failed(&r);
    CHECK(!pending_take_applied(&r.pending, calls[1].id));
    CHECK(pending_take_applied(&r.pending, calls[3].id) == &calls[3]);
    CHECK(pending_take_applied(&r.pending, calls[4].id) == &calls[4]);
    CHECK_EQ(give_raft(&r, true), 1);
    CHECK(pending_take_applied(&r.pending, calls[5].id) == &calls[5]);
    forget(&r, &read);

    rig_close(&r);
}

TEST(places_in_the_log_are_forgotten_when_they_are_applied)
{
    struct pending_rig r;
    struct api_call call = {0};
    rig_open(&r);

    for (uint64_t index = 1; index <= 10000; index++) {
        propose(&r, &call, "");
        CHECK_EQ(give_raft_at(&r, true, 2 * index), 1); /* never one behind the other */
        r.facts.applied_index = 2 * index - (index % 7);
        CHECK(pending_take_applied(&r.pending, call.id) == &call);
    }
    CHECK(r.pending.run_cap <= 64);
    for (uint64_t index = 1; index <= 2 * PENDING_RUNS_MAX; index++) {
        pending_propose_own(&r.pending, &(struct pb_internal_raft_request){0});
        CHECK_EQ(give_raft_at(&r, true, 30000 + 2 * index), 1); /* and nothing is applied */
    }
    CHECK(r.pending.run_count - r.pending.run_at <= PENDING_RUNS_MAX);
    CHECK(r.pending.run_cap <= 4 * PENDING_RUNS_MAX);

    rig_close(&r);
}

TEST(a_proposal_is_under_way_until_its_index_is_applied)
{
    struct pending_rig r;
    rig_open(&r);

    uint64_t first = pending_propose_own(&r.pending, &(struct pb_internal_raft_request){0});
    uint64_t second = pending_propose_own(&r.pending, &(struct pb_internal_raft_request){0});
    uint64_t lost = pending_propose_own(&r.pending, &(struct pb_internal_raft_request){0});
    CHECK(!pending_is_under_way(&r.pending, 0));
    CHECK(pending_is_under_way(&r.pending, first)); /* in the queue */
    CHECK_EQ(give_raft_at(&r, true, 11), 3);
    r.facts.applied_index = 11;
    CHECK(!pending_is_under_way(&r.pending, first));
    CHECK(pending_is_under_way(&r.pending, second));
    CHECK(pending_is_under_way(&r.pending, lost));
    r.facts.applied_index = 12;
    CHECK(!pending_is_under_way(&r.pending, second));
    r.facts.applied_index = 13; /* another entry: a new leader's */
    CHECK(!pending_is_under_way(&r.pending, lost));

    uint64_t dropped = pending_propose_own(&r.pending, &(struct pb_internal_raft_request){0});
    CHECK_EQ(give_raft(&r, false), 1);
    CHECK(!pending_is_under_way(&r.pending, dropped));

    rig_close(&r);
}

/* --- reads --- */

/*
 * A member asks, and crashes; its clock is set back, so that it starts again at the very time of
 * the life before. What the leader answers then, late, was decided before a write that the new
 * reader has to see.
 */
TEST(an_answer_to_the_life_before_confirms_nothing)
{
    struct pending_rig before, after;
    struct api_call then = {0}, now = {0};
    rig_open(&before);
    rig_open(&after);
    pending_free(&after.pending);
    pending_init(&after.pending, &(struct pending_options){.facts = &after.facts,
                                                           .salt = 0x17,
                                                           .map_seed = test_seed(),
                                                           .request_bytes_max = 1000,
                                                           .limit_ms = LIMIT_MS});
    read_key(&before, &then);
    read_key(&after, &now);

    struct bytes late = take_round(&before), own = take_round(&after);
    pending_read_state(&after.pending, late, 1);
    CHECK(!pending_take_confirmed(&after.pending));
    pending_read_state(&after.pending, own, 0);
    CHECK(pending_take_confirmed(&after.pending) == &now);

    rig_close(&before);
    rig_close(&after);
}

TEST(reads_that_come_together_share_a_round_and_later_ones_wait_for_the_next)
{
    struct pending_rig r;
    struct api_call calls[3] = {0};
    rig_open(&r);
    read_key(&r, &calls[0]);
    read_key(&r, &calls[1]);

    struct bytes first = take_round(&r);
    CHECK_EQ(first.len, 8);
    read_key(&r, &calls[2]);
    CHECK_EQ(take_round(&r).len, 0);
    pending_read_state(&r.pending, first, 5);

    r.facts.applied_index = 4;
    CHECK(!pending_take_confirmed(&r.pending));
    r.facts.applied_index = 5;
    CHECK(pending_take_confirmed(&r.pending) == &calls[0]);
    CHECK(pending_take_confirmed(&r.pending) == &calls[1]);
    CHECK(!pending_take_confirmed(&r.pending));

    struct bytes second = take_round(&r);
    CHECK(!bytes_equal(first, second));
    pending_read_state(&r.pending, first, 5); /* again: the third came after it was asked for */
    CHECK(!pending_take_confirmed(&r.pending));
    pending_read_state(&r.pending, second, 5);
    CHECK(pending_take_confirmed(&r.pending) == &calls[2]);

    rig_close(&r);
}

TEST(a_round_without_an_answer_is_asked_again)
{
    struct pending_rig r;
    struct api_call call = {0}, later = {0};
    rig_open(&r);
    read_key(&r, &call);

    struct bytes first = take_round(&r);
    r.facts.now_ms += PENDING_READ_RETRY_MS - 1;
    CHECK_EQ(take_round(&r).len, 0);
    r.facts.now_ms++;
    CHECK_BYTES(take_round(&r), first);
    pending_read_state(&r.pending, first, 0); /* to the first question, at last */
    CHECK(pending_take_confirmed(&r.pending) == &call);
    read_key(&r, &later);
    CHECK(!bytes_equal(take_round(&r), first));
    pending_read_state(&r.pending, first, 0); /* to the second */
    CHECK(!pending_take_confirmed(&r.pending));

    rig_close(&r);
}

TEST(a_read_without_a_leader_asks_nobody)
{
    struct pending_rig r;
    struct api_call call = {0};
    rig_open(&r);
    r.facts.leader = 0;
    read_key(&r, &call);

    CHECK_EQ(take_round(&r).len, 0);
    r.facts.now_ms += LIMIT_MS;
    pending_tick(&r.pending);
    check_failed(&r, &call, RESULT_TIMEOUT);

    rig_close(&r);
}

TEST(only_reads_that_were_asked_of_a_leader_fail_with_it)
{
    struct pending_rig r;
    struct api_call confirmed = {0}, asked = {0}, new = {0};
    rig_open(&r);
    read_key(&r, &confirmed);
    pending_read_state(&r.pending, take_round(&r), 0);
    read_key(&r, &asked);
    struct bytes round = take_round(&r);
    read_key(&r, &new);

    pending_leader_lost(&r.pending);
    pending_read_state(&r.pending, round, 0); /* from the one who leads no more */

    check_failed(&r, &asked, RESULT_LEADER_CHANGED);
    check_none_failed(&r);
    CHECK(pending_take_confirmed(&r.pending) == &confirmed);
    CHECK(!pending_take_confirmed(&r.pending));
    pending_read_state(&r.pending, take_round(&r), 0);
    CHECK(pending_take_confirmed(&r.pending) == &new);

    rig_close(&r);
}

/* --- conf changes --- */

TEST(conf_changes_are_proposed_one_after_the_other)
{
    static const struct api_change changes[] = {{.conf = {.node_id = 1}}, {.conf = {.node_id = 2}}};
    struct pending_rig r;
    struct api_call first = {0}, second = {0};
    struct raft_conf_change out;
    rig_open(&r);
    configure(&r, &first, &changes[0]);
    configure(&r, &second, &changes[1]);

    CHECK(pending_take_change(&r.pending, &out));
    CHECK_EQ(out.node_id, 1);
    uint64_t id = out.id;
    CHECK(id != 0);
    pending_change_proposed(&r.pending, true, 5);
    CHECK(!pending_has_change(&r.pending));
    CHECK(!pending_take_change(&r.pending, &out));
    CHECK(pending_take_applied(&r.pending, id) == &first);
    CHECK(pending_take_change(&r.pending, &out));
    CHECK_EQ(out.node_id, 2);
    CHECK(out.id != id);
    pending_change_proposed(&r.pending, true, 6);
    r.facts.applied_index = 4;
    pending_overtaken(&r.pending, 6); /* an image has it, and nobody knows what came of it */
    check_failed(&r, &second, RESULT_TIMEOUT);

    rig_close(&r);
}

TEST(a_conf_change_waits_for_a_leader_and_no_longer_than_anything_else)
{
    static const struct api_change change = {.conf = {.node_id = 1}};
    struct pending_rig r;
    struct api_call dropped = {0}, late = {0}, gone = {0}, under_way = {0};
    struct raft_conf_change out;
    rig_open(&r);
    r.facts.leader = 0;
    configure(&r, &dropped, &change);
    CHECK(!pending_take_change(&r.pending, &out));

    r.facts.leader = 1;
    CHECK(pending_take_change(&r.pending, &out));
    pending_change_proposed(&r.pending, false, 0);
    check_failed(&r, &dropped, RESULT_PROPOSAL_DROPPED);
    configure(&r, &under_way, &change);
    configure(&r, &late, &change);
    configure(&r, &gone, &change);
    CHECK(pending_take_change(&r.pending, &out));
    pending_change_proposed(&r.pending, true, 0);
    forget(&r, &gone);
    r.facts.now_ms += LIMIT_MS;
    pending_tick(&r.pending);
    check_failed(&r, &late, RESULT_TIMEOUT);
    check_failed(&r, &under_way, RESULT_TIMEOUT);
    CHECK(!pending_take_change(&r.pending, &out));
    CHECK(!pending_take_applied(&r.pending, under_way.id));

    rig_close(&r);
}

/* --- being forgotten --- */

TEST(a_call_can_be_forgotten_wherever_it_waits)
{
    struct pending_rig r;
    struct api_call queued = {0}, under_way = {0}, failed = {0}, new = {0}, asked = {0};
    struct api_call confirmed = {0};
    rig_open(&r);
    propose(&r, &under_way, "");
    CHECK_EQ(give_raft(&r, true), 1);
    propose(&r, &failed, "");
    CHECK_EQ(give_raft(&r, false), 1);
    propose(&r, &queued, "");
    read_key(&r, &confirmed);
    pending_read_state(&r.pending, take_round(&r), 0);
    read_key(&r, &asked);
    struct bytes round = take_round(&r);
    read_key(&r, &new);

    struct api_call *all[] = {&queued, &under_way, &failed, &new, &asked, &confirmed};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        forget(&r, all[i]);

    pending_read_state(&r.pending, round, 0);
    r.facts.now_ms += LIMIT_MS;
    CHECK_EQ(give_raft(&r, true), 0);
    pending_tick(&r.pending);
    check_none_failed(&r);
    CHECK(!pending_take_confirmed(&r.pending));
    CHECK(!pending_take_applied(&r.pending, queued.id));
    CHECK(!pending_take_applied(&r.pending, under_way.id));
    CHECK_EQ(pending_count(&r.pending), 0);

    rig_close(&r);
}

/* --- all of it, at random --- */

enum { CALLS = 40 };

struct story {
    struct pending_rig rig;
    struct api_call calls[CALLS];
    bool waits[CALLS]; /* the one thing that must agree: who is still to be told */
    uint64_t in_raft[256];
    size_t in_raft_count;
    struct bytes rounds[4];
    struct rng rng;
};

static void goes_out(struct story *s, struct api_call *c)
{
    if (!c)
        return;
    CHECK(s->waits[c - s->calls]); /* once, and never after it was forgotten */
    s->waits[c - s->calls] = false;
}

static void random_need(struct story *s)
{
    size_t i = rng_below(&s->rng, CALLS);

    if (s->waits[i] && rng_chance(&s->rng, 1, 4)) {
        forget(&s->rig, &s->calls[i]);
        s->waits[i] = false;
    } else if (!s->waits[i]) {
        static const struct api_change change = {.conf = {.node_id = 1}};
        s->waits[i] = true;
        if (rng_chance(&s->rng, 1, 2))
            propose(&s->rig, &s->calls[i], "v");
        else if (rng_chance(&s->rng, 1, 4))
            configure(&s->rig, &s->calls[i], &change);
        else
            read_key(&s->rig, &s->calls[i]);
    }
}

static void random_raft(struct story *s)
{
    struct pending *p = &s->rig.pending;
    struct blob *data[8];
    size_t count = pending_take_proposals(p, rng_below(&s->rng, 200), data, ARRAY_LEN(data));
    bool accepts = rng_chance(&s->rng, 4, 5);

    for (size_t i = 0; i < count && accepts && s->in_raft_count < ARRAY_LEN(s->in_raft); i++)
        s->in_raft[s->in_raft_count++] = decode(&s->rig, data[i]).header->id;
    if (count > 0)
        pending_proposed(p, accepts, 0);
    struct raft_conf_change change;
    if (pending_take_change(p, &change)) {
        pending_change_proposed(p, accepts, 0);
        if (accepts && s->in_raft_count < ARRAY_LEN(s->in_raft))
            s->in_raft[s->in_raft_count++] = change.id;
    }
    size_t applied = rng_below(&s->rng, s->in_raft_count + 1);
    for (size_t i = 0; i < applied; i++)
        goes_out(s, pending_take_applied(p, s->in_raft[i]));
    memmove(s->in_raft, s->in_raft + applied, (s->in_raft_count - applied) * sizeof(uint64_t));
    s->in_raft_count -= applied;
    s->rig.facts.applied_index += applied;
}

static void random_reads(struct story *s)
{
    struct pending *p = &s->rig.pending;
    struct bytes round = take_round(&s->rig);

    if (round.len > 0)
        s->rounds[rng_below(&s->rng, ARRAY_LEN(s->rounds))] = round;
    if (rng_chance(&s->rng, 1, 2))
        pending_read_state(p, s->rounds[rng_below(&s->rng, ARRAY_LEN(s->rounds))],
                           s->rig.facts.applied_index + rng_below(&s->rng, 3));
    goes_out(s, pending_take_confirmed(p));
}

static void random_world(struct story *s)
{
    struct api_facts *f = &s->rig.facts;
    enum result why;

    f->now_ms += rng_below(&s->rng, LIMIT_MS / 4);
    if (rng_chance(&s->rng, 1, 10)) {
        if (f->leader != 0)
            pending_leader_lost(&s->rig.pending);
        f->leader = rng_below(&s->rng, 3);
    }
    pending_tick(&s->rig.pending);
    for (struct api_call *c; rng_chance(&s->rng, 3, 4);) {
        c = pending_take_failed(&s->rig.pending, &why);
        goes_out(s, c);
    }
}

TEST(whatever_happens_a_call_goes_out_exactly_once_and_in_time)
{
    for (uint64_t seed = 0; seed < 20 * test_effort(); seed++) {
        struct story *s = mem_new(struct story);
        enum result why;
        rig_open(&s->rig);
        rng_seed(&s->rng, test_seed() + seed);

        for (unsigned i = 0; i < 2000; i++) {
            switch (rng_below(&s->rng, 8)) {
            case 0:
                random_raft(s);
                break;
            case 1:
                random_reads(s);
                break;
            case 2:
                random_world(s);
                break;
            default:
                random_need(s);
            }
            pending_check(&s->rig.pending);
        }
        s->rig.facts.now_ms += LIMIT_MS;
        pending_tick(&s->rig.pending);
        for (struct api_call *c; (c = pending_take_failed(&s->rig.pending, &why));)
            goes_out(s, c);
        for (size_t i = 0; i < CALLS; i++)
            CHECK(!s->waits[i]);

        rig_close(&s->rig);
        mem_free(s);
    }
}

TEST(the_check_of_pending_notices)
{
    struct pending_rig r;
    struct api_call call = {0}, other = {0};
    rig_open(&r);
    propose(&r, &call, "");
    propose(&r, &other, "");

    r.pending.queue_bytes++;
    CHECK_DIES(pending_check(&r.pending), "queue_bytes");
    r.pending.queue_bytes--;
    call.started_ms = r.facts.now_ms + 1;
    CHECK_DIES(pending_check(&r.pending), "started_ms");
    call.started_ms = r.facts.now_ms;
    list_remove(&call.link);
    CHECK_DIES(pending_check(&r.pending), "awaited");
    list_push_front(&r.pending.waiting, &call.link);

    rig_close(&r);
}
