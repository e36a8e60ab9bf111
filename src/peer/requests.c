/*
 * Requests to one place. A few go at once, each on a connection of its own; when its response is
 * whole the connection takes the next, or waits a little for one. The other end may have given up a
 * connection that waited, just when we use it: then, and only then, a request is sent again, if
 * twice does no harm. A message is not: the other end may have read it, and a proposal that is made
 * twice is applied twice.
 */
#include "base/assert.h"
#include "base/text.h"
#include "peer/peer_int.h"

struct request_conn {
    struct requests *owner;
    struct list link;
    struct dial *dial;
    struct request *request; /* NULL: idle */
    bool is_open, is_kept;   /* one response at least has come on it */
};

void requests_init(struct requests *q, struct peers *p, struct places *places, unsigned conns_max)
{
    *q = (struct requests){.peers = p, .places = places, .conns_max = conns_max};
    list_init(&q->waiting);
    list_init(&q->conns);
}

static void conn_forget(struct request_conn *c)
{
    c->owner->conn_count--;
    list_remove(&c->link);
    mem_free(c);
}

static void request_detach(struct request *r)
{
    struct requests *q = r->owner;

    peer_timer_stop(q->peers, &r->timer);
    q->peers->receiving -= r->result.len;
    if (r->conn) {
        assert(r->conn->request == r);
        r->conn->request = NULL;
        r->conn = NULL;
        q->busy_count--;
        q->busy_bytes -= r->body.len;
    } else {
        list_remove(&r->link);
        q->waiting_count--;
        q->waiting_bytes -= r->body.len;
    }
}

static void request_put(struct requests *q, struct request *r, bool first)
{
    if (first)
        list_push_front(&q->waiting, &r->link);
    else
        list_push_back(&q->waiting, &r->link);
    q->waiting_count++;
    q->waiting_bytes += r->body.len;
}

/* --- one connection --- */

static void pump(struct requests *q);

size_t requests_raft_fields(const struct peers *p, struct http1_field out[REQUESTS_RAFT_FIELDS])
{
    size_t count = 0;

    out[count++] = (struct http1_field){BYTES("X-Server-From"), bytes_of_str(p->self_hex)};
    out[count++] = (struct http1_field){BYTES("X-Server-Version"), bytes_of_str(p->version)};
    out[count++] = (struct http1_field){BYTES("X-Min-Cluster-Version"), BYTES("3.0.0")};
    out[count++] = (struct http1_field){BYTES("X-PeerURLs"), bytes_of_str(p->urls)};
    out[count++] = (struct http1_field){BYTES("X-Etcd-Cluster-ID"), bytes_of_str(p->cluster_hex)};
    assert(count == REQUESTS_RAFT_FIELDS);
    return count;
}

static void start_request(struct request_conn *c)
{
    const struct peers *p = c->owner->peers;
    const struct request *r = c->request;
    struct http1_field fields[8];
    size_t count = 0;

    if (r->content_type)
        fields[count++] =
            (struct http1_field){BYTES("Content-Type"), bytes_of_str(r->content_type)};
    if (r->authorization.len > 0)
        fields[count++] =
            (struct http1_field){BYTES("Authorization"), buf_bytes(&r->authorization)};
    if (r->as_raft)
        count += requests_raft_fields(p, fields + count);
    else if (r->with_cluster_id)
        fields[count++] =
            (struct http1_field){BYTES("X-Etcd-Cluster-ID"), bytes_of_str(p->cluster_hex)};
    struct bytes body = buf_bytes(&r->body);
    dial_limit(c->dial, 0); /* the request has a limit of its own */
    dial_request(c->dial, r->verb, r->path, fields, count,
                 r->content_type || body.len > 0 ? &body : NULL);
}

static struct request_conn *conn_of(struct dial *d)
{
    return d->context;
}

static void on_open(struct dial *d)
{
    struct request_conn *c = conn_of(d);

    c->is_open = true;
    if (c->request)
        start_request(c);
    else
        dial_limit(d, PEER_IDLE_MS);
}

static void on_head(struct dial *d)
{
    struct request_conn *c = conn_of(d);
    struct request *r = c->request;

    if (!r)
        return;
    r->status = d->http.reader.status;
    struct bytes cluster = field_of(&d->http.reader, "X-Etcd-Cluster-ID");
    if (!check_id(cluster, &r->result_cluster_id))
        r->result_cluster_id = 0;
}

static void on_body(struct dial *d, struct bytes piece)
{
    struct request_conn *c = conn_of(d);
    struct request *r = c->request;

    if (!r)
        return;
    struct requests *q = c->owner;
    size_t space = r->result_max - r->result.len;
    if (piece.len <= space && piece.len <= PEER_RECEIVING_BYTES_MAX - q->peers->receiving) {
        buf_append(&r->result, piece);
        q->peers->receiving += piece.len;
        return;
    }
    r->is_too_large = piece.len > space; /* else there is just too much of everything now */
    request_detach(r);
    r->on_done(r, 0, bytes_of(NULL, 0), "the response is too large");
    conn_forget(c);
    dial_drop(d);
    pump(q);
}

static void on_over(struct dial *d, bool kept)
{
    struct request_conn *c = conn_of(d);
    struct requests *q = c->owner;
    struct request *r = c->request;

    c->is_kept = true;
    if (r)
        request_detach(r);
    if (kept)
        dial_limit(d, PEER_IDLE_MS);
    else
        conn_forget(c);
    if (r)
        r->on_done(r, r->status, buf_bytes(&r->result), NULL);
    pump(q);
}

static void on_failed(struct dial *d, const char *why)
{
    struct request_conn *c = conn_of(d);
    struct requests *q = c->owner;
    struct request *r = c->request;
    bool again = r && r->is_repeatable && c->is_kept && r->status == 0 && !r->is_again;

    if (again) {
        c->request = NULL;
        r->conn = NULL;
        q->busy_count--;
        q->busy_bytes -= r->body.len;
        r->is_again = true;
        request_put(q, r, true);
    } else if (r) {
        places_failed(q->places, d->authority);
        request_detach(r);
    }
    conn_forget(c);
    if (r && !again)
        r->on_done(r, 0, bytes_of(NULL, 0), why);
    pump(q);
}

static const struct dial_events dial_events = {.on_open = on_open,
                                               .on_head = on_head,
                                               .on_body = on_body,
                                               .on_over = on_over,
                                               .on_failed = on_failed};

/* --- all of them --- */

static struct request_conn *idle_conn(const struct requests *q)
{
    LIST_FOREACH (link, &q->conns) {
        struct request_conn *c = container_of(link, struct request_conn, link);
        if (!c->request)
            return c;
    }
    return NULL;
}

static struct request_conn *new_conn(struct requests *q)
{
    const struct place *place = places_pick(q->places);

    if (q->conn_count == q->conns_max || !place)
        return NULL;
    struct request_conn *c = mem_new(struct request_conn);
    *c = (struct request_conn){.owner = q};
    list_init(&c->link);
    list_push_back(&q->conns, &c->link);
    q->conn_count++;
    c->dial = dial_open(q->peers, place, &dial_events, c);
    return c;
}

static void pump(struct requests *q)
{
    while (!list_empty(&q->waiting) && !q->peers->is_stopping) {
        struct request_conn *c = idle_conn(q);
        if (!c)
            c = new_conn(q);
        if (!c)
            return;
        struct request *r = container_of(list_pop_front(&q->waiting), struct request, link);
        q->waiting_count--;
        q->waiting_bytes -= r->body.len;
        c->request = r;
        r->conn = c;
        q->busy_count++;
        q->busy_bytes += r->body.len;
        if (c->is_open)
            start_request(c);
    }
}

static void on_time(struct timer *t)
{
    struct request *r = container_of(t, struct request, timer);
    struct requests *q = r->owner;
    struct request_conn *c = r->conn;

    if (c) {
        places_failed(q->places, c->dial->authority);
        dial_drop(c->dial);
        c->dial = NULL;
    }
    request_detach(r);
    if (c)
        conn_forget(c);
    r->on_done(r, 0, bytes_of(NULL, 0), "context deadline exceeded");
    pump(q);
}

void requests_submit(struct requests *q, struct request *r)
{
    assert(r->on_done);
    assert(r->timeout_ms > 0);

    r->owner = q;
    r->conn = NULL;
    if (r->result_max == 0)
        r->result_max = PEER_RESULT_BYTES_MAX;
    r->timer = (struct timer){.on_time = on_time};
    list_init(&r->link);
    request_put(q, r, false);
    peer_timer_start(q->peers, &r->timer, r->timeout_ms);
    pump(q);
}

void request_cancel(struct request *r)
{
    struct request_conn *c = r->conn;

    request_detach(r);
    if (c) {
        dial_drop(c->dial);
        conn_forget(c);
    }
}

void request_free(struct request *r)
{
    buf_free(&r->body);
    buf_free(&r->authorization);
    buf_free(&r->result);
    mem_free(r->path);
    mem_free(r);
}

void requests_end(struct requests *q, void (*drop)(struct request *r))
{
    while (!list_empty(&q->conns)) {
        struct request_conn *c = container_of(q->conns.next, struct request_conn, link);
        struct request *r = c->request;

        if (r)
            request_detach(r);
        dial_drop(c->dial);
        conn_forget(c);
        if (r)
            drop(r);
    }
    while (!list_empty(&q->waiting)) {
        struct request *r = container_of(q->waiting.next, struct request, link);
        request_detach(r);
        drop(r);
    }
}

uint64_t requests_receiving(const struct requests *q)
{
    uint64_t bytes = 0;

    LIST_FOREACH (link, (struct list *)&q->conns) {
        const struct request_conn *c = container_of(link, struct request_conn, link);
        bytes += c->request ? c->request->result.len : 0;
    }
    return bytes;
}
