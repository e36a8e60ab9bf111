#include "backend/backend_rig_test.h"

#include "base/arena.h"
#include "base/list.h"
#include "harness/test.h"
#include "io/io.h"

#include <stdio.h>
#include <stdlib.h>

static void submit(struct workers *w, struct job *j)
{
    struct backend_rig *r = container_of(w, struct backend_rig, workers);

    CHECK(!r->job);
    r->job = j;
    r->has_run = false;
}

void backend_rig_init(struct backend_rig *r, enum backend_rig_kind kind)
{
    *r = (struct backend_rig){.kind = kind, .workers = {.submit = submit}};
    if (kind == BACKEND_RIG_MEMORY) {
        r->memory = memory_disk_new(test_seed());
        return;
    }
    CHECK_EQ(loop_open(&(struct loop_options){0}, &r->loop), ERR_OK);
    snprintf(r->dir, sizeof(r->dir), "%s/store", test_tmp_dir());
}

void backend_rig_free(struct backend_rig *r)
{
    memory_disk_free(r->memory);
    loop_close(r->loop);
}

static void on_failure(void *context, enum err e, const char *text)
{
    struct backend_rig *r = context;

    CHECK(e != ERR_OK);
    r->failed = true;
    snprintf(r->failure, sizeof(r->failure), "%s", text);
}

struct backend_options backend_rig_options(struct backend_rig *r)
{
    return (struct backend_options){.disk = r->loop ? loop_io(r->loop)->disk : NULL,
                                    .dir = r->loop ? r->dir : NULL,
                                    .memory = r->memory,
                                    .workers = &r->workers,
                                    .pending_bytes_max = r->pending_bytes_max,
                                    .slice_bytes = r->slice_bytes,
                                    .dirty_bytes_max = r->dirty_bytes_max,
                                    .log_index = r->log_index,
                                    .on_failure = on_failure,
                                    .context = r};
}

enum err backend_rig_open(struct backend_rig *r)
{
    struct backend_options options = backend_rig_options(r);

    CHECK(!r->b);
    r->failed = false;
    return backend_open(&options, &r->b);
}

bool backend_rig_run(struct backend_rig *r)
{
    if (!r->job || r->has_run)
        return false;
    r->job->run(r->job);
    r->has_run = true;
    return true;
}

bool backend_rig_report(struct backend_rig *r)
{
    struct job *j = r->job;

    if (!j || !r->has_run)
        return false;
    r->job = NULL;
    j->on_done(j);
    return true;
}

void backend_rig_settle(struct backend_rig *r)
{
    while (r->job) {
        backend_rig_run(r);
        backend_rig_report(r);
    }
    CHECK(backend_is_idle(r->b));
}

void backend_rig_commit(struct backend_rig *r)
{
    backend_commit_start(r->b);
    backend_rig_settle(r);
}

void backend_rig_close(struct backend_rig *r)
{
    if (!r->b)
        return;
    backend_rig_settle(r);
    backend_close(r->b);
    r->b = NULL;
}

static void shell(const char *dir, const char *script)
{
    char command[320];

    snprintf(command, sizeof(command), "D='%s'; %s", dir, script);
    CHECK_EQ(system(command), 0);
}

/* The twin loses power. A killed process loses what it had not told LMDB yet; the job, were it run,
 * would tell it, so it is dropped together with the backend that waits for it. */
void backend_rig_crash(struct backend_rig *r)
{
    if (r->memory) {
        memory_disk_crash(r->memory);
        backend_rig_close(r);
        memory_disk_restart(r->memory);
    } else if (r->job && !r->has_run) {
        shell(r->dir, "rm -rf $D.left && cp -r $D $D.left");
        backend_rig_close(r); /* runs the job, in the folder that is thrown away */
        shell(r->dir, "rm -rf $D && mv $D.left $D");
    } else {
        backend_rig_close(r);
    }
    CHECK_EQ(backend_rig_open(r), ERR_OK);
}

/* --- the model ---------------------------------------------------------------------------- */

static const enum bucket buckets[MODEL_BUCKETS] = {BUCKET_ALARM, BUCKET_AUTH_USERS, BUCKET_KEY,
                                                   BUCKET_MEMBERS_REMOVED};

enum { LONG_BYTES = 700 };

static bool is_long(unsigned bucket, unsigned key)
{
    return bucket == 1 && key >= 8 && key < 16;
}

/* Ascending with the number. The long ones make two groups with a common beginning. */
static struct bytes key_of(struct arena *a, unsigned bucket, unsigned key)
{
    if (!is_long(bucket, key))
        return bytes_of_str(arena_printf(a, "%02u", key));
    char *at = arena_printf(a, "%02u%*u", key / 4 * 4, LONG_BYTES, key);
    return bytes_of_str(at);
}

static struct bytes value_of(struct arena *a, uint32_t number)
{
    int padding = number % 11 == 0 ? 9000 : (int)(number * 37 % 300);

    return bytes_of_str(arena_printf(a, "%u:%*s", number, padding, ""));
}

void model_put(struct backend_rig *r, struct model *m, unsigned bucket, unsigned key,
               uint32_t number)
{
    struct arena a = {0};

    if (number == 0)
        backend_delete(r->b, buckets[bucket], key_of(&a, bucket, key));
    else
        backend_put(r->b, buckets[bucket], key_of(&a, bucket, key), value_of(&a, number));
    m->values[bucket][key] = number;
    arena_free(&a);
}

void model_end_entry(struct backend_rig *r, struct model *m, uint64_t term, uint32_t conf)
{
    char text[32];

    snprintf(text, sizeof(text), "{\"voters\":[%u]}", conf);
    m->index++;
    m->term = term;
    if (conf)
        m->conf = conf;
    backend_entry_end(r->b, (struct backend_position){m->index, m->term},
                      conf ? bytes_of_str(text) : (struct bytes){0});
}

static bool position_matches(const struct model *m, struct backend_view *v, struct arena *a)
{
    struct backend_position p;
    struct bytes conf = {0};

    CHECK_EQ(backend_view_position(v, &p), ERR_OK);
    enum err e = backend_get(v, BUCKET_META, BYTES("confState"), &conf);
    if (m->conf == 0
            ? e != ERR_NOT_FOUND
            : !bytes_equal(conf, bytes_of_str(arena_printf(a, "{\"voters\":[%u]}", m->conf))))
        return false;
    return p.index == m->index && p.term == m->term;
}

static bool get_matches(const struct model *m, struct backend_view *v, unsigned bucket,
                        unsigned key, struct arena *a)
{
    uint32_t number = m->values[bucket][key];
    struct bytes value;
    enum err e = backend_get(v, buckets[bucket], key_of(a, bucket, key), &value);

    if (number == 0)
        return e == ERR_NOT_FOUND;
    return e == ERR_OK && bytes_equal(value, value_of(a, number));
}

static bool walk_matches(const struct model *m, struct backend_view *v, unsigned bucket,
                         unsigned from, struct arena *a)
{
    struct backend_cursor c;
    struct bytes key, value;
    bool same = true;

    backend_cursor_open(v, buckets[bucket], from ? key_of(a, bucket, from) : (struct bytes){0}, &c);
    for (unsigned i = from; i < MODEL_KEYS && same; i++)
        if (m->values[bucket][i] != 0)
            same = backend_cursor_next(&c, &key, &value) == ERR_OK &&
                   bytes_equal(key, key_of(a, bucket, i)) &&
                   bytes_equal(value, value_of(a, m->values[bucket][i]));
    same = same && backend_cursor_next(&c, &key, &value) == ERR_END;
    backend_cursor_close(&c);
    return same;
}

bool model_matches(const struct model *m, struct backend_view *v)
{
    struct arena a = {0};
    bool same = position_matches(m, v, &a);

    for (unsigned bucket = 0; bucket < MODEL_BUCKETS && same; bucket++) {
        for (unsigned key = 0; key < MODEL_KEYS && same; key++)
            same = get_matches(m, v, bucket, key, &a);
        same = same && walk_matches(m, v, bucket, 0, &a);
        same = same && walk_matches(m, v, bucket, (unsigned)(m->index % MODEL_KEYS), &a);
        arena_reset(&a);
    }
    arena_free(&a);
    return same;
}
