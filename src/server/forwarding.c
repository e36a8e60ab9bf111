#include "server/forwarding.h"

#include "cluster/cluster.h"
#include "pb/codec.h"
#include "peer/peer.h"
#include "server/peering.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct forward {
    struct list link;     /* waiting, retrying, asked or done */
    struct list age_link; /* until it is done */
    struct api_call *call;
    uint64_t conn; /* the call's; whoever answers may have freed that already */
    uint64_t token;
    struct api_forward asked;
    uint64_t until_ms, retry_ms; /* gives up then; while it is retrying: waits again then */
    struct buf authorization;    /* the token of who asks */
    uint64_t asked_of;           /* the leader that has not answered yet; 0: none */
    bool is_waiting;             /* for its connection's turn */

    /* when it is done */
    enum result why;
    struct api_forwarded answer;
    struct pb_lease_time_to_live_response response;
    struct arena arena; /* of its keys, or members */
};

void forwarding_init(struct forwarding *f, const struct forwarding_options *options)
{
    *f = (struct forwarding){.o = *options};
    map_init(&f->asks, MAP_IDS, options->map_seed);
    list_init(&f->ages);
    fair_init(&f->waiting, options->map_seed);
    list_init(&f->retrying);
    list_init(&f->asked);
    list_init(&f->done);
}

/* From whichever list it is on: it waits for nothing any more. */
static void take_off(struct forwarding *f, struct forward *w)
{
    f->asked_count -= w->asked_of != 0;
    w->asked_of = 0;
    if (w->is_waiting)
        fair_remove(&f->waiting, w->conn, &w->link);
    w->is_waiting = false;
    list_remove(&w->link);
}

static void wait_for_turn(struct forwarding *f, struct forward *w)
{
    take_off(f, w);
    fair_add(&f->waiting, w->conn, &w->link);
    w->is_waiting = true;
}

static void forward_free(struct forwarding *f, struct forward *w)
{
    take_off(f, w);
    map_remove_id(&f->asks, w->token);
    list_remove(&w->age_link);
    arena_free(&w->arena);
    buf_free(&w->authorization);
    mem_free(w);
}

static void free_taken(struct forwarding *f)
{
    if (f->taken)
        forward_free(f, f->taken);
    f->taken = NULL;
}

void forwarding_free(struct forwarding *f)
{
    if (!f->ages.next)
        return;
    free_taken(f);
    LIST_FOREACH (link, &f->ages)
        forward_free(f, container_of(link, struct forward, age_link));
    LIST_FOREACH (link, &f->done)
        forward_free(f, container_of(link, struct forward, link));
    fair_free(&f->waiting);
    map_free(&f->asks);
}

static void end(struct forwarding *f, struct forward *w, enum result why)
{
    take_off(f, w);
    list_remove(&w->age_link);
    w->why = why;
    list_push_back(&f->done, &w->link);
}

/* --- asking --- */

static void append_body(const struct forward *w, struct buf *out)
{
    struct pb_lease_time_to_live_request question = {.id = w->asked.lease,
                                                     .keys = w->asked.with_keys};

    switch (w->asked.kind) {
    case API_FORWARD_RENEW:
        pb_encode(&pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = w->asked.lease},
                  out);
        return;
    case API_FORWARD_TIME_TO_LIVE:
        pb_encode(&pb_lease_internal_request_schema,
                  &(struct pb_lease_internal_request){.request = &question}, out);
        return;
    case API_FORWARD_PROMOTE:
        return; /* its path says it all */
    }
    unreachable();
}

static void ask_leader(struct forwarding *f, struct forward *w)
{
    static const char *const paths[] = {
        [API_FORWARD_RENEW] = "/leases", [API_FORWARD_TIME_TO_LIVE] = "/leases/internal"};
    char promotion[48];
    struct buf body = {0};

    append_body(w, &body);
    snprintf(promotion, sizeof(promotion), "/members/promote/%" PRIu64, w->asked.member);
    bool is_promotion = w->asked.kind == API_FORWARD_PROMOTE;
    w->asked_of = f->o.facts->leader;
    f->asked_count++;
    list_push_back(&f->asked, &w->link);
    peers_ask(f->o.peers,
              &(struct peer_ask){.token = w->token,
                                 .member = w->asked_of,
                                 .verb = "POST",
                                 .path = is_promotion ? promotion : paths[w->asked.kind],
                                 .content_type = is_promotion ? NULL : "application/protobuf",
                                 .body = buf_bytes(&body),
                                 .authorization = buf_bytes(&w->authorization),
                                 .result_max = w->asked.with_keys ? FORWARDING_BYTES_MAX : 0,
                                 .timeout_ms = w->until_ms - f->o.facts->now_ms});
    buf_free(&body);
}

/* Who leads no more may have gone, and would be waited for until it is too late for the lease. All
 * of it may be asked twice; a promotion is then told, at worst, that there is nothing to promote.
 */
static void forget_former_leader(struct forwarding *f)
{
    uint64_t leader = f->o.facts->leader;

    if (leader == 0)
        return;
    LIST_FOREACH (link, &f->asked) {
        struct forward *w = container_of(link, struct forward, link);
        if (w->asked_of == leader)
            continue;
        peers_forget(f->o.peers, w->token);
        wait_for_turn(f, w);
    }
}

bool forwarding_has_more(const struct forwarding *f)
{
    const struct api_facts *facts = f->o.facts;

    return f->waiting.count > 0 && facts->leader != 0 &&
           (facts->is_leader || f->asked_count < FORWARDING_ASKED_MAX);
}

/* A leader that is asked much is not asked more: it answers one after the other, and its answers
 * stand before its heartbeats. */
static void ask_some(struct forwarding *f)
{
    for (unsigned i = 0; i < FORWARDING_LOOKS_MAX && forwarding_has_more(f); i++) {
        struct forward *w = container_of(fair_take(&f->waiting), struct forward, link);
        w->is_waiting = false;
        w->answer.is_here = f->o.facts->is_leader;
        if (w->answer.is_here)
            end(f, w, RESULT_OK);
        else
            ask_leader(f, w);
    }
}

void forwarding_need(struct forwarding *f, const struct api_need *need)
{
    const struct api_facts *facts = f->o.facts;
    struct forward *w = mem_new(struct forward);

    assert(need->need == API_FORWARD);
    *w = (struct forward){.call = need->call,
                          .conn = need->call->conn,
                          .asked = need->forward,
                          .token = (uint64_t)PEERING_TOKEN_FORWARD << PEERING_TOKEN_SHIFT |
                                   (++f->last_token & UINT32_MAX),
                          .until_ms = facts->now_ms + f->o.limit_ms};
    need->call->id = w->token;
    buf_append(&w->authorization, need->forward.token);
    list_init(&w->link);
    list_init(&w->age_link);
    list_push_back(&f->ages, &w->age_link);
    map_put_id(&f->asks, w->token, w);
    wait_for_turn(f, w);
    if (f->waiting.count == 1) /* else forwarding_work looks first for whom it is too late */
        ask_some(f);
}

bool forwarding_forget(struct forwarding *f, const struct api_call *c)
{
    struct forward *w = map_get_id(&f->asks, c->id);

    if (!w || w->call != c)
        return false;
    if (w->asked_of != 0)
        peers_forget(f->o.peers, w->token);
    forward_free(f, w);
    return true;
}

static void time_out(struct forwarding *f)
{
    const struct api_facts *facts = f->o.facts;

    LIST_FOREACH (link, &f->ages) {
        struct forward *w = container_of(link, struct forward, age_link);
        if (w->until_ms > facts->now_ms)
            return;
        if (w->asked_of != 0)
            peers_forget(f->o.peers, w->token);
        end(f, w, facts->leader == 0 ? RESULT_NO_LEADER : RESULT_TIMEOUT);
    }
}

static void retry(struct forwarding *f)
{
    LIST_FOREACH (link, &f->retrying) {
        struct forward *w = container_of(link, struct forward, link);
        if (w->retry_ms > f->o.facts->now_ms)
            return;
        wait_for_turn(f, w);
    }
}

void forwarding_work(struct forwarding *f)
{
    const struct api_facts *facts = f->o.facts;

    if (facts->leader != f->leader)
        forget_former_leader(f);
    f->leader = facts->leader;
    time_out(f);
    retry(f);
    ask_some(f);
}

/* --- answers --- */

static bool read_renewal(struct forward *w, struct bytes body)
{
    struct pb_lease_keep_alive_response told = {0};

    if (pb_decode(&pb_lease_keep_alive_response_schema, body, &w->arena, &told) != ERR_OK)
        return false;
    w->response = (struct pb_lease_time_to_live_response){.id = told.id, .ttl = told.ttl};
    return true;
}

static bool read_time_to_live(struct forward *w, struct bytes body)
{
    struct pb_lease_internal_response told = {0};
    struct bytes kept = arena_copy(&w->arena, body); /* keys look into it */

    if (pb_decode(&pb_lease_internal_response_schema, kept, &w->arena, &told) != ERR_OK ||
        !told.response)
        return false;
    w->response = *told.response;
    return true;
}

static bool read_members(struct forward *w, struct bytes body)
{
    return member_json_read_list(body, &w->arena, &w->answer.members, &w->answer.member_count) ==
           ERR_OK;
}

static bool read_response(struct forward *w, struct bytes body)
{
    switch (w->asked.kind) {
    case API_FORWARD_RENEW:
    case API_FORWARD_TIME_TO_LIVE: {
        bool is_good =
            w->asked.kind == API_FORWARD_RENEW ? read_renewal(w, body) : read_time_to_live(w, body);
        if (is_good && w->response.id == w->asked.lease)
            w->answer.response = &w->response;
        return w->answer.response != NULL;
    }
    case API_FORWARD_PROMOTE:
        return read_members(w, body);
    }
    unreachable();
}

static bool says(const struct peer_event *e, const char *text)
{
    return e->body.len > 0 && memmem(e->body.at, e->body.len, text, strlen(text));
}

/* What will not change if it is asked again. RESULT_OK: nothing of the kind. */
static enum result refusal(const struct forward *w, const struct peer_event *e)
{
    if (e->is_too_large)
        return RESULT_RESPONSE_TOO_LARGE;
    if (w->asked.kind != API_FORWARD_PROMOTE)
        return RESULT_OK;
    if (e->status == 404)
        return RESULT_MEMBER_NOT_FOUND;
    if (e->status == 412 && says(e, result_text(RESULT_LEARNER_NOT_READY)))
        return RESULT_LEARNER_NOT_READY;
    if (e->status == 412 && says(e, cluster_result_text(CLUSTER_NOT_LEARNER)))
        return RESULT_MEMBER_NOT_LEARNER;
    return RESULT_OK;
}

void forwarding_result(struct forwarding *f, const struct peer_event *e)
{
    struct forward *w = map_get_id(&f->asks, e->id);

    if (!w || w->asked_of == 0)
        return;
    enum result why = refusal(w, e);
    if (why != RESULT_OK || e->status == 404) {
        end(f, w, why); /* OK without a response: there is no such lease */
        return;
    }
    if (e->status == 200 && read_response(w, e->body)) {
        end(f, w, RESULT_OK);
        return;
    }
    w->answer = (struct api_forwarded){0};
    arena_reset(&w->arena);
    take_off(f, w);
    w->retry_ms = f->o.facts->now_ms + FORWARDING_RETRY_MS;
    list_push_back(&f->retrying, &w->link);
}

struct api_call *forwarding_take(struct forwarding *f, enum result *why, struct api_forwarded *out)
{
    struct list *link;

    free_taken(f);
    link = list_pop_front(&f->done);
    if (!link)
        return NULL;
    f->taken = container_of(link, struct forward, link);
    *why = f->taken->why;
    *out = f->taken->answer;
    struct api_call *c = f->taken->call;
    f->taken->call = NULL; /* it is not ours any more, and cannot be forgotten */
    return c;
}

void forwarding_check(const struct forwarding *f)
{
    size_t count = f->taken != NULL, asked = 0, waiting = 0, retrying = 0;
    uint64_t until_ms = 0;

    LIST_FOREACH (link, &f->ages) {
        const struct forward *w = container_of(link, struct forward, age_link);
        assert(map_get_id(&f->asks, w->token) == w);
        assert(w->call->id == w->token);
        assert(!w->answer.response);
        assert(w->until_ms >= until_ms);
        until_ms = w->until_ms;
        asked += w->asked_of != 0;
        waiting += w->is_waiting;
        retrying += w->asked_of == 0 && !w->is_waiting;
        count++;
    }
    fair_check(&f->waiting);
    assert(waiting == f->waiting.count);
    assert(asked == f->asked_count);
    assert(f->asked_count <= FORWARDING_ASKED_MAX);
    LIST_FOREACH (link, &f->retrying)
        retrying--;
    assert(retrying == 0);
    LIST_FOREACH (link, &f->done)
        count++;
    assert(count == f->asks.count);
}
