#include "base/assert.h"
#include "base/mem.h"
#include "io/uv_int.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

static struct event *next_event(struct crew *c)
{
    uv_mutex_lock(&c->mutex);
    /* Also at the end everything that was submitted is done first: somebody waits to be told. */
    while (!c->first && !c->ending)
        uv_cond_wait(&c->wanted, &c->mutex);
    struct event *e = c->first;
    if (e) {
        c->first = e->next;
        if (!c->first)
            c->last = &c->first;
        e->next = NULL;
        e->queued = false;
    }
    uv_mutex_unlock(&c->mutex);
    return e;
}

/* On Linux 0 is this thread, and nobody is refused to stand back. */
static void nice_this_thread(int by)
{
    errno = 0;
    int before = getpriority(PRIO_PROCESS, 0);

    if (errno != 0 || setpriority(PRIO_PROCESS, 0, before + by) != 0)
        fatal("setpriority: %s", strerror(errno));
}

static void work(void *context)
{
    const struct crew *c = context;

    (void)pthread_setname_np(pthread_self(), c->name); /* a courtesy to whoever looks */
    if (c->nice != 0)
        nice_this_thread(c->nice);
    for (struct event *e; (e = next_event(context));)
        e->run(e);
    mem_give_back();
}

enum err crew_open(struct crew *c, const char *name, unsigned threads, int nice)
{
    assert(threads > 0);

    *c = (struct crew){.name = name, .nice = nice, .threads = mem_new_array(threads, uv_thread_t)};
    c->last = &c->first;
    if (uv_mutex_init(&c->mutex) != 0 || uv_cond_init(&c->wanted) != 0)
        fatal("cannot make a lock for %u threads", threads);
    for (; c->count < threads; c->count++) {
        int error = uv_thread_create(&c->threads[c->count], work, c);
        if (error != 0) {
            crew_close(c);
            return err_of_errno(error);
        }
    }
    return ERR_OK;
}

void crew_submit(struct crew *c, struct event *e)
{
    assert(!e->queued);

    uv_mutex_lock(&c->mutex);
    assert(!c->ending);
    e->queued = true;
    e->next = NULL;
    *c->last = e;
    c->last = &e->next;
    uv_cond_signal(&c->wanted);
    uv_mutex_unlock(&c->mutex);
}

void crew_close(struct crew *c)
{
    if (!c->threads)
        return;
    uv_mutex_lock(&c->mutex);
    c->ending = true;
    uv_cond_broadcast(&c->wanted);
    uv_mutex_unlock(&c->mutex);
    for (unsigned i = 0; i < c->count; i++)
        if (uv_thread_join(&c->threads[i]) != 0)
            fatal("cannot join a thread");
    uv_cond_destroy(&c->wanted);
    uv_mutex_destroy(&c->mutex);
    mem_free(c->threads);
    c->threads = NULL;
}
