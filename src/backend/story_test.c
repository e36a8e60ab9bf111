#include "backend/story_test.h"

#include "base/list.h"
#include "harness/test.h"

static void on_defragmented(struct backend_defrag *d, enum err e)
{
    struct story *t = container_of(d, struct story, defrag);

    t->defrag_done = true;
    t->defrag_err = e;
}

void story_init(struct story *t, enum backend_rig_kind kind)
{
    *t = (struct story){.defrag.on_done = on_defragmented};
    backend_rig_init(&t->s, kind);
    t->s.slice_bytes = 500; /* so that commits fall between the slices */
}

/* Batch n: a few entries, of which the last counts. */
static void write_batch(struct story *t, unsigned n)
{
    struct model m = t->states[n - 1];

    for (unsigned entry = 0; entry < 3; entry++) {
        backend_entry_begin(t->s.b);
        for (unsigned i = 0; i < 3; i++) {
            unsigned key = (n * 7 + entry * 5 + i * 11) % MODEL_KEYS;
            model_put(&t->s, &m, i, key, (n + i) % 4 == 0 ? 0 : n * 100 + entry * 10 + i + 1);
        }
        model_end_entry(&t->s, &m, n, entry == 1 ? n : 0);
    }
    t->states[n] = m;
}

static void await_space(struct story *t)
{
    CHECK(backend_failure(t->s.b)[0] != 0);
    backend_check(t->s.b);
    t->waited++;
    if (t->on_full)
        t->on_full(t);
    backend_retry(t->s.b);
}

void story_tell(struct story *t)
{
    for (unsigned n = 1; n <= STORY_BATCHES && !t->s.failed; n++) {
        if (n == 3)
            CHECK(backend_defrag_start(t->s.b, &t->defrag));
        if (n == 5)
            backend_rig_settle(&t->s); /* the rest goes to the new file alone */
        if (t->s.failed)
            break;
        write_batch(t, n);
        t->handed_over = n;
        backend_commit_start(t->s.b);
        while (backend_is_committing(t->s.b) && !t->s.failed) {
            if (backend_lacks_space(t->s.b) && backend_is_idle(t->s.b))
                await_space(t);
            CHECK(backend_rig_run(&t->s));
            CHECK(backend_rig_report(&t->s));
        }
        if (!t->s.failed)
            t->reported = n;
        backend_check(t->s.b);
    }
    backend_rig_settle(&t->s);
}

unsigned story_check_prefix(struct story *t)
{
    struct backend_view v;
    unsigned found = t->reported;

    CHECK_EQ(backend_rig_open(&t->s), ERR_OK);
    backend_view_open(t->s.b, &v);
    while (found <= t->handed_over && !model_matches(&t->states[found], &v))
        found++;
    CHECK(found <= t->handed_over);
    backend_view_close(&v);
    CHECK_EQ(backend_durable(t->s.b).index, t->states[found].index);
    CHECK_EQ(backend_durable(t->s.b).term, t->states[found].term);
    return found;
}
