#include "watch/watch_int.h"
#include "watch/watch_rig_test.h"

#include <stdio.h>

static void watch_many_keys(struct watch_rig *r, struct watch_stream *s, unsigned count)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "key%06u", i);
        watch_create(s, &(struct pb_watch_create_request){.key = bytes_of_str(key)}, NULL,
                     r->now_ms);
    }
}

/* How many buckets it has looked at to find one. */
static size_t find_any(struct watcher_group *c, struct watcher **out)
{
    size_t before = c->cursor < c->bucket_count ? c->cursor : c->bucket_count - 1;

    *out = watcher_group_any(c);
    return 1 + before - c->cursor + (c->cursor > before ? c->bucket_count : 0);
}

/* Also when some come back all the time, to any place in the table. */
TEST(a_group_is_emptied_by_a_few_looks_for_each_member)
{
    enum { WATCHERS = 100000, LOOKS_EACH_MAX = 8 };
    struct watch_rig r;
    struct watcher *w;
    size_t looks = 0, moved = 0;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1000 * MIB);
    watch_many_keys(&r, s, WATCHERS);
    struct watcher_group *from = r.w->live;
    struct watcher_group *to = watcher_group_new(r.w, 1, GRACE_NONE);
    CHECK_EQ(from->key_count, WATCHERS);

    for (; from->count > 0; moved++) {
        looks += find_any(from, &w);
        watcher_join(w, to);
        if (moved % 4 == 0)
            watcher_join(w, from);
    }
    CHECK(looks <= LOOKS_EACH_MAX * moved);
    CHECK_EQ(to->count, WATCHERS);

    watch_stream_close(s);
    while (!watch_work(r.w, 1000, r.now_ms))
        ;
    watcher_group_free(to);
    watch_rig_free(&r);
}
