#include "server/cutting.h"

#include "apply/apply.h"
#include "backend/backend.h"
#include "server/server_int.h"

void cutting_init(struct cutting *c, const struct cutting_options *options)
{
    *c = (struct cutting){.o = *options};
    list_init(&c->requests);
    list_init(&c->held);
}

void cutting_free(struct cutting *c)
{
    mvcc_stop_waiting(&c->waiter);
    for (size_t i = 0; i < CUTTING_IMAGES_MAX; i++)
        if (c->images[i].image)
            image_abandon(c->images[i].image);
}

/* --- asking --- */

static void wait_for_nobody(struct cutting *c)
{
    mvcc_stop_waiting(&c->waiter);
    c->holds_back = false;
    c->since_ms = 0;
}

void cutting_ask(struct cutting *c, struct cutting_request *r)
{
    list_init(&r->link);
    list_push_back(&c->requests, &r->link);
    c->is_new = true;
}

void cutting_forget(struct cutting *c, struct cutting_request *r)
{
    if (r->link.next) /* on our list, or on that of those who are just being told */
        list_remove(&r->link);
    if (list_empty(&c->requests))
        wait_for_nobody(c);
}

bool cutting_holds_back(const struct cutting *c)
{
    return c->holds_back;
}

bool cutting_has_more(const struct cutting *c)
{
    return c->is_new;
}

static size_t open_images(const struct cutting *c, bool also_for_members)
{
    size_t count = 0;

    for (size_t i = 0; i < CUTTING_IMAGES_MAX; i++)
        count += c->images[i].image && (also_for_members || !c->images[i].is_for_member);
    return count;
}

bool cutting_is_idle(const struct cutting *c)
{
    return list_empty(&c->requests) && list_empty(&c->held) && open_images(c, true) == 0;
}

void cutting_check(const struct cutting *c)
{
    for (size_t i = 0; i < CUTTING_IMAGES_MAX; i++) {
        const struct cutting_image *image = &c->images[i];
        assert(!image->image || mvcc_status(image->mvcc).image_pins > 0);
        if (image->image)
            image_check(image->image);
    }
    assert(open_images(c, false) <= CUTTING_IMAGES_MAX - CUTTING_MEMBERS_MAX);
    assert(!c->waiter.waits || !list_empty(&c->requests));
    assert(!c->holds_back || !list_empty(&c->requests));
    LIST_FOREACH (link, (struct list *)&c->held)
        assert(!container_of(link, struct cutting_request, link)->is_for_member);
}

/* --- images --- */

static void image_closed(void *context)
{
    struct cutting_image *i = context;

    mvcc_image_unpin(i->mvcc);
    buf_free(&i->host);
    *i = (struct cutting_image){.cutting = i->cutting};
}

/* NULL: none is free. */
static struct cutting_image *find_place(struct cutting *c, bool is_for_member)
{
    if (!is_for_member && open_images(c, false) >= CUTTING_IMAGES_MAX - CUTTING_MEMBERS_MAX)
        return NULL;
    for (size_t i = 0; i < CUTTING_IMAGES_MAX; i++)
        if (!c->images[i].image)
            return &c->images[i];
    return NULL;
}

/* One that has failed is closed by its reader in a moment. */
static bool frees_place(const struct cutting *c)
{
    for (size_t i = 0; i < CUTTING_IMAGES_MAX; i++)
        if (c->images[i].image && !c->images[i].is_for_member &&
            image_state(c->images[i].image) == IMAGE_FAILED)
            return true;
    return false;
}

/* Readers of a state that was replaced have as long as those of any other kind. */
static void check_replaced(struct server *s, struct cutting_image *i)
{
    uint64_t now_ms = s->facts.now_ms;

    if (i->mvcc == s->state.mvcc)
        return;
    if (i->replaced_ms == 0)
        i->replaced_ms = now_ms;
    if (now_ms - i->replaced_ms >= INSTALL_OLD_MS)
        image_fail(i->image, "the state it is of was replaced");
}

/* Slow is whoever takes IMAGE_PACE_BYTES in no minute. Other members are not: what they wait for is
 * this, and who is no member cannot ask as one. */
static bool is_slow(const struct cutting_image *i)
{
    return i->image && !i->is_for_member && image_state(i->image) == IMAGE_READY &&
           image_pace(i->image) < IMAGE_PACE_BYTES;
}

/* Images that are read hold back removals from the store: by a slow reader, for as long as it
 * likes. */
static void check_pace(struct cutting_image *i)
{
    if (is_slow(i) && mvcc_compact_pending(i->mvcc))
        image_fail(i->image, "it is read too slowly, and a compaction waits for its end");
}

static void say_failed(struct cutting *c, const struct image *i)
{
    log_warn(c->o.logger, "an image of the state cannot be read to its end",
             LOG_U64("snapshot-index", image_snapshot(i)->index),
             LOG_STR("error", image_failure(i)));
}

static struct cutting_image *find_slowest(struct cutting *c)
{
    struct cutting_image *slowest = NULL;

    for (size_t n = 0; n < CUTTING_IMAGES_MAX; n++) {
        struct cutting_image *i = &c->images[n];
        if (is_slow(i) && (!slowest || image_pace(i->image) < image_pace(slowest->image)))
            slowest = i;
    }
    return slowest;
}

static size_t count_of_host(const struct cutting *c, struct bytes host)
{
    size_t count = 0;

    for (size_t n = 0; n < CUTTING_IMAGES_MAX; n++) {
        const struct cutting_image *i = &c->images[n];
        count += i->image && !i->is_for_member && bytes_equal(buf_bytes(&i->host), host);
    }
    return count;
}

/* The newest of the host that has most. */
static struct cutting_image *find_one_of_most(struct cutting *c, size_t *most)
{
    struct cutting_image *found = NULL;

    *most = 0;
    for (size_t n = 0; n < CUTTING_IMAGES_MAX; n++) {
        struct cutting_image *i = &c->images[n];
        if (!i->image || i->is_for_member)
            continue;
        size_t count = count_of_host(c, buf_bytes(&i->host));
        if (!found || count > *most || (count == *most && i->number > found->number))
            found = i;
        *most = count > *most ? count : *most;
    }
    return found;
}

/* Which image gives way to this request, and why; NULL: none. */
static struct cutting_image *find_loser(struct cutting *c, const struct cutting_request *r,
                                        const char **why)
{
    struct cutting_image *loser = find_slowest(c);
    size_t most;

    *why = "it is read too slowly, and others wait for its place";
    if (loser)
        return loser;
    *why = "its client has others, and somebody else waits for its place";
    loser = find_one_of_most(c, &most);
    return most >= count_of_host(c, r->host) + 2 ? loser : NULL;
}

/* Does it have to wait for a place that will be free soon? If all are taken, one is made free, if
 * another image has to give way. */
static bool waits_for_place(struct cutting *c, const struct cutting_request *r)
{
    if (r->is_for_member || c->is_stopping || find_place(c, false))
        return false;
    if (frees_place(c))
        return true;
    const char *why;
    struct cutting_image *loser = find_loser(c, r, &why);
    if (loser)
        image_fail(loser->image, why);
    return loser != NULL;
}

static bool all_wait_for_places(struct cutting *c)
{
    LIST_FOREACH (link, &c->requests)
        if (!waits_for_place(c, container_of(link, struct cutting_request, link)))
            return false;
    return true;
}

/* --- compactions that have waited for long --- */

static bool is_open(const struct cutting_image *i, const struct mvcc *m)
{
    return i->image && i->mvcc == m && image_state(i->image) != IMAGE_FAILED;
}

static bool has_image_of(const struct cutting *c, const struct mvcc *m)
{
    for (size_t n = 0; n < CUTTING_IMAGES_MAX; n++)
        if (is_open(&c->images[n], m))
            return true;
    return false;
}

/* Since when does this compaction wait for images? For the next one it begins anew. */
static void look_at_compaction(struct server *s)
{
    struct cutting_compaction *w = &s->cutting.compaction;
    struct mvcc *m = s->state.mvcc;
    uint64_t over = mvcc_stats(m)->compactions;

    if (!mvcc_compact_pending(m) || w->mvcc != m || w->before != over)
        *w = (struct cutting_compaction){.mvcc = m, .before = over};
    if (w->since_ms == 0 && mvcc_compact_pending(m) && has_image_of(&s->cutting, m))
        w->since_ms = s->facts.now_ms;
}

/* Would it have to wait without any client that comes now? */
static bool waits_anyway(const struct cutting *c)
{
    const struct cutting_compaction *w = &c->compaction;

    for (size_t n = 0; n < CUTTING_IMAGES_MAX; n++) {
        const struct cutting_image *i = &c->images[n];
        if (is_open(i, w->mvcc) &&
            (i->is_for_member || i->cut_ms < w->since_ms + CUTTING_COMPACTION_MS))
            return true;
    }
    return false;
}

static bool holds_clients(const struct server *s)
{
    const struct cutting_compaction *w = &s->cutting.compaction;

    return !s->cutting.is_stopping && w->since_ms != 0 &&
           s->facts.now_ms - w->since_ms >= CUTTING_COMPACTION_MS && !waits_anyway(&s->cutting) &&
           !backend_lacks_space(s->state.backend);
}

/* Each of them is looked at once, however many are held. */
static void hold_clients(struct cutting *c)
{
    LIST_FOREACH (link, &c->requests) {
        if (container_of(link, struct cutting_request, link)->is_for_member)
            continue;
        list_remove(link);
        list_push_back(&c->held, link);
    }
    if (list_empty(&c->requests))
        wait_for_nobody(c);
}

static void hold_or_let_go(struct server *s)
{
    look_at_compaction(s);
    if (holds_clients(s))
        hold_clients(&s->cutting);
    else
        list_append_all(&s->cutting.requests, &s->cutting.held);
}

static void work_on_images(struct server *s)
{
    struct cutting *c = &s->cutting;

    for (size_t n = 0; n < CUTTING_IMAGES_MAX; n++) {
        struct cutting_image *i = &c->images[n];
        if (!i->image)
            continue;
        check_replaced(s, i);
        check_pace(i);
        image_some(i->image, s->facts.now_ms);
        if (i->image && !i->has_said && image_state(i->image) == IMAGE_FAILED) {
            i->has_said = true;
            say_failed(c, i->image);
        }
    }
}

void cutting_stop(struct cutting *c)
{
    c->is_stopping = true;
    for (size_t n = 0; n < CUTTING_IMAGES_MAX; n++)
        if (c->images[n].image)
            image_fail(c->images[n].image, "the member stops");
}

void cutting_state_replaced(struct cutting *c)
{
    mvcc_stop_waiting(&c->waiter);
}

/* --- the cut --- */

/* Those who ask again meanwhile get the next one. */
static void refuse_all(struct cutting *c, const char *why)
{
    struct list all;
    struct list *link;

    list_init(&all);
    list_append_all(&all, &c->requests);
    while ((link = list_pop_front(&all))) {
        struct cutting_request *r = container_of(link, struct cutting_request, link);
        r->on_cut(r, NULL, why);
    }
}

static void hand_out(struct cutting *c, struct cutting_request *r, const struct state *state,
                     const struct image_options *options)
{
    struct cutting_image *place = find_place(c, r->is_for_member);
    struct image_options o = *options;

    if (!place) {
        r->on_cut(r, NULL, "too many images are open");
        return;
    }
    *place = (struct cutting_image){.cutting = c,
                                    .mvcc = state->mvcc,
                                    .is_for_member = r->is_for_member,
                                    .number = c->count,
                                    .cut_ms = options->now_ms};
    buf_append(&place->host, r->host);
    mvcc_image_pin(state->mvcc);
    o.on_closed = image_closed;
    o.context = place;
    place->image = image_cut(&o);
    c->count++;
    r->on_cut(r, place->image, NULL);
}

/* Of this moment: the configuration, the members, and where the log stands. */
static void hand_out_all(struct server *s, uint64_t batch)
{
    struct cutting *c = &s->cutting;
    struct backend_position at = backend_applied(s->state.backend);
    struct snapfile_membership members = state_membership(&s->state);
    struct buf json = {0};
    struct list all;
    struct list *link;

    assert(at.index == s->facts.applied_index);
    snapfile_dump(&members, &json);
    struct raft_snapshot snapshot = {
        .index = at.index, .term = at.term, .conf_state = s->conf_state, .data = buf_bytes(&json)};
    struct image_options options = {.backend = s->state.backend,
                                    .workers = c->o.workers,
                                    .snapshot = &snapshot,
                                    .revision = mvcc_revision(s->state.mvcc),
                                    .batch = batch,
                                    .now_ms = s->facts.now_ms};
    list_init(&all);
    list_append_all(&all, &c->requests);
    while ((link = list_pop_front(&all))) {
        struct cutting_request *r = container_of(link, struct cutting_request, link);
        if (waits_for_place(c, r))
            list_push_back(&c->requests, &r->link);
        else
            hand_out(c, r, &s->state, &options);
    }
    buf_free(&json);
}

/* All that is applied is frozen now or was committed before, and nothing else is: so the view that
 * workers have shows exactly this index. */
static void cut(struct server *s)
{
    struct backend *b = s->state.backend;
    uint64_t batch = 0;

    if (backend_can_commit(b)) {
        batch = backend_open_batch(b);
        backend_commit_start(b);
    }
    hand_out_all(s, batch);
}

/* Can the store be frozen as it is? Not while a commit is under way; nor one that is being
 * exchanged; nor one that takes no commit now. */
static bool can_freeze(const struct server *s)
{
    const struct backend *b = s->state.backend;

    return !backend_is_committing(b) && !install_is_busy(&s->install) &&
           (backend_can_commit(b) || backend_durable(b).index == backend_applied(b).index);
}

static bool is_settled(struct server *s)
{
    return mvcc_when_settled(s->state.mvcc, &s->cutting.waiter, INT64_MAX);
}

static void cut_when_possible(struct server *s)
{
    struct cutting *c = &s->cutting;
    bool is_busy = apply_is_busy(s->state.apply);

    c->holds_back = false;
    if (backend_applied(s->state.backend).index == 0)
        return; /* of nothing there is no snapshot */
    /* Who has waited stays at the barrier until the cut itself, or the next large delete would come
     * before it. */
    if (!mvcc_is_settled(s->state.mvcc, INT64_MAX) && !is_settled(s))
        return;
    if (!is_busy && can_freeze(s) && is_settled(s)) {
        wait_for_nobody(c);
        cut(s);
        return;
    }
    /* A commit that waits for space may wait for long, and nobody is to miss entries for that. */
    bool is_patient = s->facts.now_ms - c->since_ms < CUTTING_PATIENCE_MS ||
                      backend_lacks_space(s->state.backend);
    c->holds_back = is_busy || (backend_is_committing(s->state.backend) && !is_patient);
}

void cutting_some(struct server *s)
{
    struct cutting *c = &s->cutting;

    c->is_new = false;
    work_on_images(s);
    hold_or_let_go(s);
    if (c->is_stopping)
        refuse_all(c, "the member stops");
    if (all_wait_for_places(c)) {
        wait_for_nobody(c);
        return;
    }
    if (c->since_ms == 0)
        c->since_ms = s->facts.now_ms;
    cut_when_possible(s);
}
