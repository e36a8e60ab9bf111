#include "base/list.h"

#include "harness/test.h"

struct item {
    int number;
    struct list link;
};

static struct item *item_of(struct list *link)
{
    return container_of(link, struct item, link);
}

TEST(a_list_keeps_the_order_of_insertion)
{
    struct list head;
    struct item items[4];
    int seen = 0;

    list_init(&head);
    for (int i = 0; i < 4; i++) {
        items[i].number = i;
        list_init(&items[i].link);
    }
    for (int i = 1; i < 4; i++)
        list_push_back(&head, &items[i].link);
    list_push_front(&head, &items[0].link);

    LIST_FOREACH (link, &head) {
        CHECK_EQ(item_of(link)->number, seen++);
        list_remove(link);
    }
    CHECK_EQ(seen, 4);
    CHECK(list_empty(&head));
}

TEST(a_link_cannot_be_on_two_lists)
{
    struct list a, b, link;

    list_init(&a);
    list_init(&b);
    list_init(&link);
    list_push_back(&a, &link);

    CHECK_DIES(list_push_back(&b, &link), "link->next == link");
    list_remove(&link);
    list_remove(&link);
    list_push_back(&b, &link);
    CHECK(list_pop_front(&b) == &link);
    CHECK(list_pop_front(&b) == NULL);
}

TEST(all_of_one_list_moves_behind_another)
{
    struct list a, b;
    struct item items[4];
    int seen = 0;

    list_init(&a);
    list_init(&b);
    for (int i = 0; i < 4; i++) {
        items[i].number = i;
        list_init(&items[i].link);
        list_push_back(i < 2 ? &a : &b, &items[i].link);
    }

    list_append_all(&a, &b);
    list_append_all(&a, &b);

    CHECK(list_empty(&b));
    LIST_FOREACH (link, &a)
        CHECK_EQ(item_of(link)->number, seen++);
    CHECK_EQ(seen, 4);
}
