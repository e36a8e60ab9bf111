#include "server/fair.h"

#include "base/mem.h"

struct fair_turn {
    struct list link; /* in the ring */
    uint64_t conn;
    struct list things;
};

void fair_init(struct fair *f, uint64_t map_seed)
{
    *f = (struct fair){0};
    map_init(&f->turns, MAP_IDS, map_seed);
    list_init(&f->ring);
}

static void turn_free(struct fair *f, struct fair_turn *t)
{
    map_remove_id(&f->turns, t->conn);
    list_remove(&t->link);
    mem_free(t);
}

void fair_free(struct fair *f)
{
    if (!f->ring.next)
        return;
    LIST_FOREACH (link, &f->ring)
        turn_free(f, container_of(link, struct fair_turn, link));
    map_free(&f->turns);
}

static struct fair_turn *turn_new(struct fair *f, uint64_t conn)
{
    struct fair_turn *t = mem_new(struct fair_turn);

    t->conn = conn;
    list_init(&t->things);
    list_init(&t->link);
    list_push_back(&f->ring, &t->link);
    map_put_id(&f->turns, conn, t);
    return t;
}

void fair_add(struct fair *f, uint64_t conn, struct list *link)
{
    struct fair_turn *t = map_get_id(&f->turns, conn);

    list_push_back(&(t ? t : turn_new(f, conn))->things, link);
    f->count++;
}

void fair_remove(struct fair *f, uint64_t conn, struct list *link)
{
    struct fair_turn *t = map_get_id(&f->turns, conn);

    assert(t);
    assert(link->next != link);
    list_remove(link);
    f->count--;
    if (list_empty(&t->things))
        turn_free(f, t);
}

struct list *fair_take(struct fair *f)
{
    struct list *first = list_pop_front(&f->ring);

    if (!first)
        return NULL;
    struct fair_turn *t = container_of(first, struct fair_turn, link);
    struct list *thing = list_pop_front(&t->things);
    f->count--;
    if (list_empty(&t->things))
        turn_free(f, t);
    else
        list_push_back(&f->ring, &t->link);
    return thing;
}

void fair_check(const struct fair *f)
{
    size_t count = 0, turns = 0;

    LIST_FOREACH (link, &f->ring) {
        const struct fair_turn *t = container_of(link, struct fair_turn, link);
        assert(map_get_id(&f->turns, t->conn) == t);
        assert(!list_empty(&t->things));
        LIST_FOREACH (thing, &t->things)
            count++;
        turns++;
    }
    assert(turns == f->turns.count);
    assert(count == f->count);
}
