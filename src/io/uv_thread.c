#include "io/thread.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <pthread.h>

struct thread {
    struct io_thread base;
    struct loop *loop;
    uv_thread_t id;
    bool is_running;
    loop_turn *turn;
    void *context;
    struct event last;
};

static struct thread *thread_of(struct io_thread *base)
{
    return container_of(base, struct thread, base);
}

static void run(void *context)
{
    struct thread *t = context;

    (void)pthread_setname_np(pthread_self(), "io"); /* a courtesy to whoever looks */
    loop_run(t->loop, t->turn, t->context);
    mem_give_back();
}

static enum err start(struct io_thread *base, void (*turn)(void *context), void *context)
{
    struct thread *t = thread_of(base);

    assert(!t->is_running);
    t->turn = turn;
    t->context = context;
    enum err e = err_of_errno(uv_thread_create(&t->id, run, t));
    t->is_running = e == ERR_OK;
    return e;
}

static void stop_running(struct event *e)
{
    loop_stop(container_of(e, struct thread, last)->loop);
}

static void end(struct io_thread *base)
{
    struct thread *t = thread_of(base);

    if (!t->is_running)
        return;
    inbox_post(loop_io(t->loop)->inbox, &t->last);
    if (uv_thread_join(&t->id) != 0)
        fatal("cannot join a thread");
    t->is_running = false;
}

struct io_thread *thread_new(struct loop *core, enum err *e)
{
    struct thread *t = mem_new(struct thread);

    *e = loop_open_beside(core, &t->loop);
    if (*e != ERR_OK) {
        mem_free(t);
        return NULL;
    }
    t->base = (struct io_thread){.io = loop_io(t->loop), .start = start, .end = end};
    t->last.run = stop_running;
    return &t->base;
}

void thread_free(struct io_thread *base)
{
    struct thread *t = thread_of(base);

    assert(!t->is_running);
    loop_close(t->loop);
    mem_free(t);
}
