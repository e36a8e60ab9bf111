#include "server/own_image.h"

#include "apply/apply.h"
#include "base/blob.h"
#include "base/list.h"
#include "server/boot.h"
#include "server/server_int.h"

bool own_image_ask(struct own_image *o, uint64_t ahead, uint64_t now_ms)
{
    if (o->step != OWN_IMAGE_IDLE)
        return false;
    o->ahead = ahead < OWN_IMAGE_AHEAD_MAX ? ahead : OWN_IMAGE_AHEAD_MAX;
    o->now_ms = now_ms;
    o->step = OWN_IMAGE_ASKED;
    return true;
}

static void forget_entries(struct own_image *o)
{
    for (size_t i = 0; i < o->entry_count; i++)
        blob_unref(o->entries[i].blob);
    o->entry_count = 0;
}

static void close_view(struct own_image *o)
{
    if (o->has_view)
        backend_view_close(&o->view);
    o->has_view = false;
}

void own_image_free(struct own_image *o)
{
    mvcc_stop_waiting(&o->waiter);
    close_view(o);
    forget_entries(o);
    state_close(&o->image);
    backend_close(o->image.backend);
    buf_free(&o->why);
}

/* --- on a worker --- */

static void note_why(void *context, const char *text)
{
    buf_append_str(context, text);
}

static enum err copy_store(struct own_image *o)
{
    enum err e = backend_image_create(&o->store, &o->image.backend);

    if (e == ERR_OK)
        e = backend_image_copy(o->image.backend, &o->view);
    if (e != ERR_OK && o->why.len == 0)
        buf_append_str(&o->why, o->image.backend ? backend_failure(o->image.backend)
                                                 : backend_view_damage(&o->view));
    close_view(o);
    return e;
}

static bool apply_entry(struct own_image *o, const struct raft_entry *entry)
{
    struct apply *a = o->image.apply;

    apply_begin(a, entry, o->now_ms);
    while (o->why.len == 0 && !apply_some(a, MVCC_SLICE_STEPS))
        continue;
    if (o->why.len == 0)
        apply_end(a, (struct bytes){0});
    return o->why.len == 0;
}

/* As any member applies them, none of whose clients wait for them. */
static void build(struct job *j)
{
    struct own_image *o = container_of(j, struct own_image, job);
    enum err e = copy_store(o);

    if (e == ERR_OK)
        e = state_open(&o->image, &o->rooms, &o->why);
    for (size_t i = 0; i < o->entry_count && e == ERR_OK; i++)
        e = apply_entry(o, &o->entries[i]) ? ERR_OK : ERR_UNSUPPORTED;
    if (e == ERR_OK)
        e = backend_commit_now(o->image.backend);
    o->lacks_space = e == ERR_NO_SPACE;
    if (e != ERR_OK && o->why.len == 0)
        buf_append_str(&o->why, err_text(e));
}

static void built(struct job *j)
{
    struct own_image *o = container_of(j, struct own_image, job);

    assert(o->step == OWN_IMAGE_BUILDING);
    o->step = OWN_IMAGE_BUILT;
}

/* --- the cut --- */

/*
 * Entries that come next, as far as they are handed out. A change of the configuration ends it:
 * raft has to hear of those one by one, when they are applied.
 */
static void take_entries(struct server *s)
{
    struct own_image *o = &s->own_image;

    for (size_t n = 0; n < o->ahead; n++) {
        const struct raft_entry *entry = storage_work_after_next(&s->work, n);
        if (!entry || entry->type != RAFT_ENTRY_NORMAL)
            return;
        o->entries[o->entry_count] = *entry;
        blob_ref(entry->blob);
        o->entry_count++;
    }
}

/*
 * All that is applied is frozen now or was committed before, and nothing else is: so the view that
 * workers have shows exactly this index. It is opened here, since a batch with later entries may be
 * frozen before the worker comes to it.
 */
static void cut(struct server *s)
{
    struct own_image *o = &s->own_image;
    struct backend *b = s->state.backend;

    if (backend_can_commit(b))
        backend_commit_start(b);
    backend_view_open_on_worker(b, &o->view);
    o->has_view = true;
    take_entries(s);
    s->install.apply_up_to = s->facts.applied_index + o->entry_count / 2;
    o->now_ms = s->facts.now_ms;
    o->store = boot_store_options(s);
    o->rooms = s->state.o;
    o->rooms.tokens = NULL; /* who logs in there does so again here, and this is another thread */
    o->rooms.on_failed = note_why;
    o->rooms.context = &o->why;
    o->store.why = &o->why;
    o->job = (struct job){.run = build, .on_done = built};
    o->step = OWN_IMAGE_BUILDING;
    job_submit(s->io->workers, &o->job);
}

/* Are there entries enough for the image to be ahead, or has there been time for them to come? */
static bool is_behind(const struct server *s)
{
    const struct own_image *o = &s->own_image;

    return o->ahead == 0 || storage_work_after_next(&s->work, o->ahead - 1) ||
           s->facts.now_ms - o->now_ms >= OWN_IMAGE_WAIT_MS;
}

/* An entry under way is let finish. Of a store without any there is no snapshot. */
static void cut_when_possible(struct server *s)
{
    bool is_busy = apply_is_busy(s->state.apply);

    if (backend_applied(s->state.backend).index == 0)
        return;
    s->install.apply_up_to = s->facts.applied_index + is_busy;
    if (!is_busy && mvcc_when_settled(s->state.mvcc, &s->own_image.waiter, INT64_MAX) &&
        is_behind(s) && !backend_is_committing(s->state.backend))
        cut(s);
}

/* A member that is behind goes on with some of what it has, and then the image comes: in the midst
 * of an entry, if there is one that takes more than a slice. */
static void lag(struct server *s)
{
    if (apply_is_busy(s->state.apply))
        s->install.apply_up_to = s->facts.applied_index;
}

/* A member that ends may be held back by nothing. */
static void take_back(struct server *s)
{
    mvcc_stop_waiting(&s->own_image.waiter);
    s->install.apply_up_to = UINT64_MAX;
    s->own_image.step = OWN_IMAGE_IDLE;
}

static void give_up(struct server *s)
{
    struct own_image *o = &s->own_image;

    log_warn(s->logger, "no space for an image of the own state",
             LOG_STR("error", buf_str(&o->why)));
    forget_entries(o);
    state_close(&o->image);
    backend_close(o->image.backend);
    o->image = (struct state){0};
    buf_clear(&o->why);
    if (backend_image_remove(&o->store) != ERR_OK)
        server_fail(s, "cannot remove an image of the own state: %s", buf_str(&o->why));
    o->store.why = NULL;
    take_back(s);
}

static void hand_over(struct server *s)
{
    struct own_image *o = &s->own_image;

    if (o->lacks_space) {
        give_up(s);
        return;
    }
    if (o->why.len > 0) {
        server_fail(s, "cannot make an image of the own state: %s", buf_str(&o->why));
        return;
    }
    if (log_snapshot_is_busy(&s->snapshot))
        return;
    forget_entries(o);
    install_begin(&s->install, &o->image);
    o->image = (struct state){0};
    o->store.why = NULL;
    o->step = OWN_IMAGE_IDLE;
}

void own_image_some(struct server *s)
{
    if (s->own_image.step == OWN_IMAGE_ASKED && s->is_stopping)
        take_back(s);
    else if (s->own_image.step == OWN_IMAGE_ASKED && install_may_begin(&s->install) &&
             !receiving_has_image(&s->receiving))
        cut_when_possible(s);
    else if (s->own_image.step == OWN_IMAGE_BUILDING && s->own_image.entry_count > 0)
        lag(s);
    else if (s->own_image.step == OWN_IMAGE_BUILT)
        hand_over(s);
}
