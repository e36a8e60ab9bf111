#include "server/storage_work.h"

struct storage_item {
    struct list link;
    struct raft_message *message;
    uint64_t seq; /* of the log, for appends */
    uint64_t since_ms;
    size_t applied; /* entries done, for applies; */
    size_t told;    /* and of them, those that raft has heard of */
};

void storage_work_init(struct storage_work *w, uint64_t applied)
{
    *w = (struct storage_work){.handed_index = applied, .applied_index = applied};
    list_init(&w->appends);
    list_init(&w->applies);
}

static void item_free(struct storage_item *i)
{
    list_remove(&i->link);
    raft_message_free(i->message);
    mem_free(i);
}

void storage_work_free(struct storage_work *w)
{
    if (!w->appends.next)
        return;
    LIST_FOREACH (link, &w->appends)
        item_free(container_of(link, struct storage_item, link));
    LIST_FOREACH (link, &w->applies)
        item_free(container_of(link, struct storage_item, link));
}

static struct storage_item *first_item(const struct list *queue)
{
    return list_empty(queue) ? NULL : container_of(queue->next, struct storage_item, link);
}

static struct storage_item *add_item(struct list *queue, const struct raft_message *m)
{
    struct storage_item *i = mem_new(struct storage_item);

    i->message = raft_message_clone(m);
    list_init(&i->link);
    list_push_back(queue, &i->link);
    return i;
}

/* --- appends --- */

void storage_work_append(struct storage_work *w, const struct raft_message *m, uint64_t seq,
                         uint64_t now_ms)
{
    assert(m->type == RAFT_MSG_STORAGE_APPEND);
    assert(seq >= w->appended_seq); /* equal: a commit index alone waits for no sync of its own */

    w->appended_seq = seq;
    struct storage_item *i = add_item(&w->appends, m);
    i->seq = seq;
    i->since_ms = now_ms;
}

static void note_written(struct storage_work *w, const struct raft_message *m)
{
    if (m->entry_count > 0) {
        w->durable_index = m->entries[m->entry_count - 1].index;
        w->durable_term = m->entries[m->entry_count - 1].term;
    } else if (m->snapshot && m->snapshot->index > 0) {
        w->durable_index = m->snapshot->index;
        w->durable_term = m->snapshot->term;
    }
}

/* Also one that is behind others: what is durable is durable up to a number. */
struct raft_message *storage_work_take_durable(struct storage_work *w, uint64_t durable_seq)
{
    struct storage_item *i = first_item(&w->appends);

    assert(durable_seq >= w->durable_seq);
    w->durable_seq = durable_seq;
    if (!i || i->seq > durable_seq)
        return NULL;
    struct raft_message *m = i->message;
    i->message = NULL;
    item_free(i);
    note_written(w, m);
    return m;
}

/* --- applies --- */

void storage_work_apply(struct storage_work *w, const struct raft_message *m)
{
    assert(m->type == RAFT_MSG_STORAGE_APPLY);
    assert(m->entry_count > 0);
    assert(m->entries[0].index == w->handed_index + 1);

    add_item(&w->applies, m);
    w->handed_index = m->entries[m->entry_count - 1].index;
}

const struct raft_entry *storage_work_next(const struct storage_work *w)
{
    const struct storage_item *i = first_item(&w->applies);

    return i && i->applied < i->message->entry_count ? &i->message->entries[i->applied] : NULL;
}

const struct raft_entry *storage_work_after_next(const struct storage_work *w, size_t n)
{
    LIST_FOREACH (link, &w->applies) {
        const struct storage_item *i = container_of(link, struct storage_item, link);
        size_t left = i->message->entry_count - i->applied;
        if (n < left)
            return &i->message->entries[i->applied + n];
        n -= left;
    }
    return NULL;
}

bool storage_work_entry_applied(struct storage_work *w)
{
    struct storage_item *i = first_item(&w->applies);

    assert(i);
    assert(i->applied < i->message->entry_count);
    assert(i->message->entries[i->applied].index == w->applied_index + 1);
    w->applied_index++;
    i->applied++;
    return i->applied == i->message->entry_count;
}

/* Entries that raft has not handed out yet it will not hand out any more. */
bool storage_work_overtaken(struct storage_work *w, uint64_t index)
{
    struct storage_item *i = first_item(&w->applies);
    bool any = false;

    if (!i && index > w->applied_index)
        w->handed_index = w->applied_index = index;
    for (; i && w->applied_index < index && i->applied < i->message->entry_count; any = true) {
        w->applied_index++;
        i->applied++;
    }
    return any;
}

const struct raft_message *storage_work_take_applied(struct storage_work *w, size_t *from,
                                                     size_t *to)
{
    const struct storage_item *i = first_item(&w->applies);

    if (!i || i->told == i->applied)
        return NULL;
    *from = i->told;
    *to = i->applied;
    return i->message;
}

void storage_work_applied_told(struct storage_work *w)
{
    struct storage_item *i = first_item(&w->applies);

    assert(i);
    i->told = i->applied;
    if (i->told == i->message->entry_count)
        item_free(i);
}

/* --- asking --- */

uint64_t storage_work_oldest_append_ms(const struct storage_work *w)
{
    const struct storage_item *i = first_item(&w->appends);

    return i ? i->since_ms : UINT64_MAX;
}

static void check_appends(const struct storage_work *w)
{
    uint64_t seq = 0;

    LIST_FOREACH (link, &w->appends) {
        const struct storage_item *i = container_of(link, struct storage_item, link);
        assert(i->message->type == RAFT_MSG_STORAGE_APPEND);
        assert(i->seq >= seq);
        seq = i->seq;
    }
    assert(seq <= w->appended_seq);
}

void storage_work_check(const struct storage_work *w)
{
    uint64_t index = w->applied_index;

    check_appends(w);
    LIST_FOREACH (link, &w->applies) {
        const struct storage_item *i = container_of(link, struct storage_item, link);
        const struct raft_message *m = i->message;
        assert(m->type == RAFT_MSG_STORAGE_APPLY);
        assert(i->told <= i->applied);
        assert(i->applied <= m->entry_count);
        assert(i->told < m->entry_count);
        assert(i->applied == 0 || link == w->applies.next); /* one after the other */
        for (size_t at = i->applied; at < m->entry_count; at++)
            assert(m->entries[at].index == index + 1 + (at - i->applied));
        index += m->entry_count - i->applied;
    }
    assert(index == w->handed_index);
}
