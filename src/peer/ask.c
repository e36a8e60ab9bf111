/*
 * What the server wants to know of other ports. Each question is a request; its result is told
 * later, whatever happens, unless the server does not want to know any more. Places that are no
 * member's, asked before we know who lives there, are guests: kept with their connections until
 * others need the space.
 */
#include "base/assert.h"
#include "peer/peer_int.h"

struct guest {
    struct list link; /* on peers->guests, the one asked last at the end */
    struct places places;
    struct requests requests;
};

static void tell_result(struct peers *p, const struct request *r, unsigned status,
                        struct bytes body)
{
    struct told *t = told_new(PEER_RESULT, RAFT_NONE);

    buf_append(&t->text, body);
    t->event.id = r->tag;
    t->event.status = status;
    t->event.is_too_large = r->is_too_large;
    t->event.result_cluster_id = status > 0 ? r->result_cluster_id : 0;
    t->event.body = buf_bytes(&t->text);
    peers_tell(p, t);
}

static void ask_over(struct request *r, unsigned status, struct bytes body)
{
    struct peers *p = r->context;

    tell_result(p, r, status, body);
    (void)map_remove_id(&p->asks, r->tag);
    request_free(r);
}

static void on_done(struct request *r, unsigned status, struct bytes body, const char *why)
{
    ask_over(r, status, status > 0 ? body : bytes_of_str(why));
}

void ask_dropped(struct request *r)
{
    ask_over(r, 0, BYTES("member not found"));
}

/* --- guests --- */

static void guest_free(struct guest *g)
{
    requests_end(&g->requests, ask_dropped);
    g->requests.peers->guest_count--;
    list_remove(&g->link);
    places_free(&g->places);
    mem_free(g);
}

void ask_drop_guests(struct peers *p)
{
    while (!list_empty(&p->guests))
        guest_free(container_of(p->guests.next, struct guest, link));
}

uint64_t ask_guests_receiving(const struct peers *p)
{
    uint64_t bytes = 0;

    LIST_FOREACH (link, (struct list *)&p->guests)
        bytes += requests_receiving(&container_of(link, struct guest, link)->requests);
    return bytes;
}

static bool is_busy(const struct guest *g)
{
    return g->requests.busy_count + g->requests.waiting_count > 0;
}

static struct guest *guest_of(struct peers *p, const char *url)
{
    LIST_FOREACH (link, &p->guests) {
        struct guest *g = container_of(link, struct guest, link);
        if (strcmp(g->places.at[0].text, url) == 0)
            return g;
        if (p->guest_count >= PEER_GUESTS_MAX && !is_busy(g))
            guest_free(g);
    }
    if (p->guest_count >= PEER_GUESTS_MAX)
        return NULL;
    struct guest *g = mem_new(struct guest);
    list_init(&g->link);
    list_push_back(&p->guests, &g->link);
    p->guest_count++;
    places_set(&g->places, &url, 1);
    requests_init(&g->requests, p, &g->places, PEER_ASK_CONNS_MAX);
    return g;
}

static struct requests *requests_for(struct peers *p, const struct peer_ask *ask)
{
    if (ask->member != RAFT_NONE) {
        struct peer *peer = peers_find(p, ask->member);
        return peer ? &peer->asks : NULL;
    }
    struct guest *g = guest_of(p, ask->url);
    return g ? &g->requests : NULL;
}

/* --- asking --- */

void peers_ask(struct peers *p, const struct peer_ask *ask)
{
    struct request *r = mem_new(struct request);

    assert(!map_get_id(&p->asks, ask->token));
    *r = (struct request){
        .verb = ask->verb,
        .path = peer_copy_text(bytes_of_str(ask->path)),
        .content_type = ask->content_type,
        .with_cluster_id = ask->with_cluster_id,
        .is_repeatable = ask->is_repeatable || strcmp(ask->verb, "GET") == 0,
        .timeout_ms = ask->timeout_ms,
        .result_max = ask->result_max,
        .context = p,
        .tag = ask->token,
        .on_done = on_done,
    };
    buf_append(&r->body, ask->body);
    buf_append(&r->authorization, ask->authorization);
    (void)map_put_id(&p->asks, ask->token, r);
    struct requests *q = p->is_stopping ? NULL : requests_for(p, ask);
    if (!q)
        ask_dropped(r);
    else if (p->asks.count > PEER_ASKS_MAX)
        ask_over(r, 0, BYTES("too many requests"));
    else
        requests_submit(q, r);
}

void peers_forget(struct peers *p, uint64_t token)
{
    struct request *r = map_remove_id(&p->asks, token);

    if (r) {
        request_cancel(r);
        request_free(r);
        return;
    }
    LIST_FOREACH (link, &p->told) { /* it has come, and was not taken */
        struct told *t = container_of(link, struct told, link);
        if (t->event.kind != PEER_RESULT || t->event.id != token)
            continue;
        list_remove(link);
        told_free(t);
    }
}
