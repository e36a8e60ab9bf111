/*
 * list: things that hold on to each other.
 *
 * The link is embedded in the thing, so putting it on a list cannot fail and costs no allocation.
 * A list head is a link too: the ring closes through it. A link that is on no list points to
 * itself after list_init or list_remove, so removing it twice is harmless.
 */
#pragma once

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define container_of(link, type, member) ((type *)(void *)((char *)(link) - offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_insert_after(struct list *place, struct list *link)
{
    assert(link->next == link);

    link->next = place->next;
    link->prev = place;
    place->next->prev = link;
    place->next = link;
}

static inline void list_push_back(struct list *head, struct list *link)
{
    list_insert_after(head->prev, link);
}

static inline void list_push_front(struct list *head, struct list *link)
{
    list_insert_after(head, link);
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* The first link taken off the list, or NULL when it is empty. */
static inline struct list *list_pop_front(struct list *head)
{
    if (list_empty(head))
        return NULL;
    struct list *link = head->next;
    list_remove(link);
    return link;
}

/* Moves everything on `from` to the end of `to`. */
static inline void list_append_all(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

/* The body may remove `link` itself, nothing else. */
#define LIST_FOREACH(link, head)                                                                   \
    for (struct list *link = (head)->next, *link##_next = link->next; link != (head);              \
         link = link##_next, link##_next = link->next)
