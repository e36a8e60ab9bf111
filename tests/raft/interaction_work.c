#include "raft/interaction.h"

#include "raft/describe.h"

#include <inttypes.h>

/* --- what raft wants --- */

static bool take_fetches(struct scene *s, struct node *n, const struct raft_output *o)
{
    if (o->fetch_count > 0 && s->out->len > 0 && s->out->at[s->out->len - 1] != '\n')
        scene_say(s, "\n"); /* there was nothing but fetches */
    for (size_t i = 0; i < o->fetch_count; i++) {
        if (n->fetch_count == ARRAY_LEN(n->fetch))
            return scene_fail(s, "cannot run: too many fetches");
        n->fetch[n->fetch_count++] = o->fetches[i];
        scene_say(s, "Fetch for %" PRIx64 ": entries [%" PRIu64 ", %" PRIu64 ")\n",
                  o->fetches[i].peer, o->fetches[i].low, o->fetches[i].high);
    }
    return true;
}

/* The plain way: all of it is done before the next. */
static bool do_all(struct scene *s, struct node *n, const struct raft_output *o)
{
    return scene_node_append(s, n, o->snapshot, o->entries, o->entry_count) &&
           scene_node_apply(s, n, o->committed, o->committed_count);
}

static bool act_on(struct scene *s, struct node *n, const struct raft_output *o)
{
    if (!n->config.async_storage_writes && !do_all(s, n, o))
        return false;
    for (size_t i = 0; i < o->send_count; i++)
        scene_post(&s->network, &o->messages[i], false);
    if (o->append)
        scene_post(&n->append_work, o->append, false);
    if (o->apply)
        scene_post(&n->apply_work, o->apply, false);
    return take_fetches(s, n, o);
}

bool scene_process_ready(struct scene *s, struct node *n)
{
    struct raft_output o = {0};

    scene_node_settle(n);
    bool any = raft_take_output(n->raft, &o);
    if (s->level != LEVEL_NONE)
        raft_describe_output(s->out, &o, NULL);
    if (!any)
        return true;
    bool ok = act_on(s, n, &o);
    if (!n->config.async_storage_writes)
        raft_advance(n->raft); /* also after a failure, so that the next command can be answered */
    return ok;
}

/* --- the storage threads --- */

static struct letter *take_work(struct scene *s, struct list *work, const char *what)
{
    struct list *link = list_pop_front(work);

    if (!link) {
        scene_say(s, "no %s work to perform", what);
        return NULL;
    }
    return container_of(link, struct letter, link);
}

static void say_work(struct scene *s, const struct raft_message *m)
{
    struct raft_message alone = *m;

    alone.responses = NULL;
    alone.response_count = 0;
    scene_say(s, "Processing:\n");
    scene_say_message(s, &alone);
}

static void answer_work(struct scene *s, struct node *n, const struct raft_message *m)
{
    scene_say(s, "Responses:\n");
    for (size_t i = 0; i < m->response_count; i++) {
        scene_say_message(s, &m->responses[i]);
        scene_post(&s->network, &m->responses[i], m->responses[i].to == n->config.id);
    }
}

bool scene_process_append(struct scene *s, struct node *n)
{
    struct letter *l = take_work(s, &n->append_work, "append");

    if (!l)
        return true;
    const struct raft_message *m = l->message;
    say_work(s, m);
    bool ok = scene_node_append(s, n, m->snapshot, m->entries, m->entry_count);
    if (ok)
        answer_work(s, n, m);
    scene_letter_free(l);
    return ok;
}

bool scene_process_apply(struct scene *s, struct node *n)
{
    struct letter *l = take_work(s, &n->apply_work, "apply");

    if (!l)
        return true;
    say_work(s, l->message);
    bool ok = scene_node_apply(s, n, l->message->entries, l->message->entry_count);
    if (ok)
        answer_work(s, n, l->message);
    scene_letter_free(l);
    return ok;
}

/* --- reading the log back --- */

/* What exists of [low, high), as much as max_bytes of data, but one at least. */
static size_t fetchable(const struct disk *d, const struct raft_fetch *f)
{
    uint64_t end = d->base_index + d->count + 1;
    size_t count = 0;
    uint64_t bytes = 0;

    if (f->low <= d->base_index)
        return 0; /* compacted in the meantime */
    for (uint64_t index = f->low; index < f->high && index < end; index++) {
        bytes += d->entries[index - d->base_index - 1].data.len;
        if (count > 0 && bytes > f->max_bytes)
            break;
        count++;
    }
    return count;
}

static void answer_fetch(struct scene *s, struct node *n, const struct raft_fetch *f, bool readable)
{
    size_t count = readable ? fetchable(&n->disk, f) : 0;
    const struct raft_entry *entries = NULL;

    if (count > 0)
        entries = &n->disk.entries[f->low - n->disk.base_index - 1];
    scene_say(s, "Fetched for %" PRIx64 ": %zu of entries [%" PRIu64 ", %" PRIu64 ")\n", f->peer,
              count, f->low, f->high);
    raft_fetched(n->raft, f->token, entries, count);
}

static bool answer_fetches(struct scene *s, struct node *n, bool readable)
{
    size_t count = n->fetch_count;

    if (count == 0)
        scene_say(s, "no fetches to perform");
    n->fetch_count = 0;
    for (size_t i = 0; i < count; i++)
        answer_fetch(s, n, &n->fetch[i], readable);
    return true;
}

bool scene_process_fetches(struct scene *s, struct node *n)
{
    return answer_fetches(s, n, true);
}

bool scene_fail_fetches(struct scene *s, struct node *n)
{
    return answer_fetches(s, n, false);
}
