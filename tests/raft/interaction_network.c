#include "raft/interaction.h"

#include <inttypes.h>

void scene_post(struct list *to, const struct raft_message *m, bool own)
{
    struct letter *l = mem_new(struct letter);

    l->message = raft_message_clone(m);
    l->own = own;
    list_init(&l->link);
    list_push_back(to, &l->link);
}

void scene_letter_free(struct letter *l)
{
    raft_message_free(l->message);
    mem_free(l);
}

void scene_letters_free(struct list *letters)
{
    struct list *link;

    while ((link = list_pop_front(letters)))
        scene_letter_free(container_of(link, struct letter, link));
}

/* --- delivery --- */

/* What a storage thread answers to its own member does not travel and cannot be lost. */
static bool may_drop(const struct raft_message *m)
{
    return m->from != m->to && m->from != RAFT_APPEND_THREAD && m->from != RAFT_APPLY_THREAD;
}

static bool is_for(const struct letter *l, const struct recipient *to, int type)
{
    return l->message->to == to->id && (!to->drop || may_drop(l->message)) &&
           (type == ANY_TYPE || (int)l->message->type == type);
}

/* Those it is for, taken out of the network: what they cause is not for this round. */
static void take_letters(struct scene *s, const struct recipient *to, int type, struct list *out)
{
    list_init(out);
    LIST_FOREACH (link, &s->network) {
        if (!is_for(container_of(link, struct letter, link), to, type))
            continue;
        list_remove(link);
        list_push_back(out, link);
    }
}

static bool hand_over(struct scene *s, const struct letter *l)
{
    if (l->message->to > s->node_count)
        return scene_fail(s, "cannot run: there is no node %" PRIu64, l->message->to);
    struct raft *raft = s->nodes[l->message->to - 1]->raft;
    enum raft_result result =
        l->own ? raft_step_own(raft, l->message) : raft_step(raft, l->message);
    if (result != RAFT_OK)
        scene_say(s, "%s\n", raft_result_text(result));
    return true;
}

bool scene_deliver(struct scene *s, const struct recipient *to, int type, size_t *count)
{
    struct list taken;
    struct list *link;
    bool ok = true;

    take_letters(s, to, type, &taken);
    while (ok && (link = list_pop_front(&taken))) {
        struct letter *l = container_of(link, struct letter, link);
        ++*count;
        if (to->drop)
            scene_say(s, "dropped: ");
        scene_say_message(s, l->message);
        ok = to->drop || hand_over(s, l);
        scene_letter_free(l);
    }
    scene_letters_free(&taken);
    return ok;
}

/* --- until nothing moves --- */

enum { ROUNDS_MAX = 10000 }; /* two members that never agree must not run for ever */

static bool has_letters(const struct scene *s, uint64_t id)
{
    const struct recipient to = {.id = id};

    LIST_FOREACH (link, &s->network)
        if (is_for(container_of(link, struct letter, link), &to, ANY_TYPE))
            return true;
    return false;
}

static bool wants_ready(const struct scene *s, const struct node *n)
{
    (void)s;
    return raft_has_output(n->raft);
}

static bool wants_messages(const struct scene *s, const struct node *n)
{
    return has_letters(s, n->config.id);
}

static bool receive_messages(struct scene *s, struct node *n)
{
    const struct recipient to = {.id = n->config.id};
    size_t count = 0;

    return scene_deliver(s, &to, ANY_TYPE, &count);
}

static bool wants_append(const struct scene *s, const struct node *n)
{
    (void)s;
    return !list_empty(&n->append_work);
}

static bool wants_apply(const struct scene *s, const struct node *n)
{
    (void)s;
    return !list_empty(&n->apply_work);
}

static bool wants_fetches(const struct scene *s, const struct node *n)
{
    (void)s;
    return n->fetch_count > 0;
}

/* The stages of a round, each of which all nodes pass before the next. */
static const struct stage {
    const char *heading;
    bool (*wanted)(const struct scene *s, const struct node *n);
    bool (*work)(struct scene *s, struct node *n);
    bool to_the_end; /* again, under the same heading, while it is wanted */
} stages[] = {
    {"handling Ready", wants_ready, scene_process_ready, false},
    {"receiving messages", wants_messages, receive_messages, false},
    {"processing append thread", wants_append, scene_process_append, true},
    {"processing apply thread", wants_apply, scene_process_apply, true},
    {"processing fetches", wants_fetches, scene_process_fetches, true},
};

static bool run_stage(struct scene *s, const struct stage *stage, struct node *n)
{
    scene_say(s, "> %" PRIu64 " %s\n", n->config.id, stage->heading);
    do {
        size_t mark = s->out->len;
        bool ok = stage->work(s, n);
        scene_indent_since(s, mark);
        if (!ok)
            return false;
    } while (stage->to_the_end && stage->wanted(s, n));
    return true;
}

/* One round; *moved says whether anything was wanted. */
static bool run_round(struct scene *s, struct node *const nodes[], size_t count, bool *moved)
{
    *moved = false;
    for (size_t k = 0; k < ARRAY_LEN(stages); k++) {
        for (size_t i = 0; i < count; i++) {
            if (!stages[k].wanted(s, nodes[i]))
                continue;
            *moved = true;
            if (!run_stage(s, &stages[k], nodes[i]))
                return false;
        }
    }
    return true;
}

bool scene_stabilize(struct scene *s, struct node *const nodes[], size_t count)
{
    bool moved = true;

    for (int round = 0; moved; round++) {
        if (round == ROUNDS_MAX)
            return scene_fail(s, "cannot run: still moving after %d rounds", ROUNDS_MAX);
        if (!run_round(s, nodes, count, &moved))
            return false;
    }
    return true;
}
