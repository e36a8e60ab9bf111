#include "io/fake_time.h"

#include "base/assert.h"
#include "base/list.h"

static struct fake_task *task_of(const struct heap_node *node)
{
    return container_of(node, struct fake_task, node);
}

static bool earlier(const struct heap_node *a, const struct heap_node *b)
{
    const struct fake_task *ta = task_of(a);
    const struct fake_task *tb = task_of(b);

    if (ta->due_ns != tb->due_ns)
        return ta->due_ns < tb->due_ns;
    return ta->number < tb->number;
}

void fake_time_init(struct fake_time *t, uint64_t seed)
{
    *t = (struct fake_time){.now_ns = 1};
    heap_init(&t->tasks, earlier);
    rng_seed(&t->rng, seed);
}

void fake_time_free(struct fake_time *t)
{
    heap_free(&t->tasks);
}

void fake_time_at(struct fake_time *t, struct fake_task *task, uint64_t due_ns)
{
    fake_time_cancel(t, task);
    task->due_ns = due_ns > t->now_ns ? due_ns : t->now_ns;
    task->number = t->scheduled++;
    heap_push(&t->tasks, &task->node);
}

void fake_time_after(struct fake_time *t, struct fake_task *task, struct fake_delay delay)
{
    fake_time_at(t, task, t->now_ns + rng_between(&t->rng, delay.min_ns, delay.max_ns));
}

void fake_time_cancel(struct fake_time *t, struct fake_task *task)
{
    if (heap_has(&task->node))
        heap_remove(&t->tasks, &task->node);
}

bool fake_time_step(struct fake_time *t)
{
    struct heap_node *first = heap_pop(&t->tasks);

    if (!first)
        return false;
    assert(task_of(first)->due_ns >= t->now_ns);
    t->now_ns = task_of(first)->due_ns;
    task_of(first)->run(task_of(first));
    return true;
}
