#include "server/hashing.h"

#include "apply/apply.h"
#include "base/list.h"
#include "server/server_int.h"

void hashing_init(struct hashing *h)
{
    *h = (struct hashing){0};
    list_init(&h->asked);
    list_init(&h->joined);
    list_init(&h->done);
}

static void close_view(struct hashing *h)
{
    if (h->has_view)
        backend_view_close(&h->view);
    h->has_view = false;
}

void hashing_free(struct hashing *h)
{
    mvcc_stop_waiting(&h->waiter);
    mvcc_scan_close(&h->pin);
    close_view(h);
    buf_free(&h->damage);
}

void hashing_need(struct hashing *h, const struct api_need *need)
{
    assert(need->need == API_HASH);

    list_push_back(&h->asked, &need->call->link);
}

static bool is_on(const struct list *calls, const struct api_call *c)
{
    LIST_FOREACH (link, calls)
        if (link == &c->link)
            return true;
    return false;
}

bool hashing_forget(struct hashing *h, const struct api_call *c)
{
    if (!is_on(&h->asked, c) && !is_on(&h->joined, c) && !is_on(&h->done, c))
        return false;
    list_remove(&((struct api_call *)c)->link);
    return true;
}

struct api_call *hashing_take(struct hashing *h, uint32_t *hash)
{
    struct list *link = list_pop_front(&h->done);

    *hash = h->hash;
    return link ? container_of(link, struct api_call, link) : NULL;
}

bool hashing_is_idle(const struct hashing *h)
{
    return !h->is_busy && list_empty(&h->asked) && list_empty(&h->done);
}

void hashing_state_replaced(struct hashing *h)
{
    mvcc_stop_waiting(&h->waiter);
}

/* --- on a worker --- */

static void hash_view(struct job *j)
{
    struct hashing *h = container_of(j, struct hashing, job);

    h->err = mvcc_hash_store(&h->view, &h->found);
    if (h->err != ERR_OK)
        buf_append_str(&h->damage, backend_view_damage(&h->view));
    close_view(h);
}

/* --- in the turn --- */

static void hash_done(struct job *j)
{
    struct hashing *h = container_of(j, struct hashing, job);

    assert(h->is_busy);
    h->is_busy = false;
    mvcc_scan_close(&h->pin);
    h->hash = h->found;
    list_append_all(&h->done, &h->joined);
}

/*
 * All that is applied is frozen now or was committed before, and nothing else is: so the view that
 * workers have is of exactly this entry. It is opened here, since a batch with later ones may be
 * frozen before the worker comes to it.
 */
static void cut(struct server *s)
{
    struct hashing *h = &s->hashing;
    struct backend *b = s->state.backend;

    if (backend_can_commit(b))
        backend_commit_start(b);
    backend_view_open_on_worker(b, &h->view);
    h->has_view = true;
    h->pin = (struct mvcc_scan){
        .question = {.key = BYTES("\0"), .at = revision_whole(mvcc_revision(s->state.mvcc))}};
    mvcc_scan_open(s->state.mvcc, &h->pin);
    list_append_all(&h->joined, &h->asked);
    h->job = (struct job){.run = hash_view, .on_done = hash_done};
    h->is_busy = true;
    job_submit(s->io->workers, &h->job);
}

void hashing_some(struct server *s)
{
    struct hashing *h = &s->hashing;

    if (h->is_busy)
        return; /* and what it found is still the worker's */
    if (h->err != ERR_OK) {
        server_fail(s, "cannot hash the store: %s", buf_str(&h->damage));
        return;
    }
    if (!list_empty(&h->done))
        return; /* they are told of one hash, and there is one */
    if (list_empty(&h->asked)) {
        mvcc_stop_waiting(&h->waiter);
        return;
    }
    if (!apply_is_busy(s->state.apply) && !backend_is_committing(s->state.backend) &&
        mvcc_when_settled(s->state.mvcc, &h->waiter, INT64_MAX))
        cut(s);
}
