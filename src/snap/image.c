#include "snap/image.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/worker.h"
#include "snap/store_feed.h"

enum {
    CHUNKS = 2,
    PACE_STEP_MS = 1000,
    PLAN_ENTRIES = 64 /* between two looks at how much a slice has done */
};

struct chunk {
    uint8_t *at;
    size_t len, consumed;
};

enum image_step { STEP_COPY, STEP_PLAN, STEP_MAKE, STEP_MADE };

struct image {
    struct image_options o;
    struct raft_snapshot *snapshot;
    enum image_state state;
    struct buf why; /* after FAILED, and the same as text */
    const char *failure;

    /* the worker's while a job runs */
    struct job job;
    enum image_step step; /* what is to be done next */
    struct backend_view view;
    bool has_view; /* the cut's */
    struct buf copies[BUCKET_COUNT];
    struct store_feed feed;
    struct bolt_writer *writer;
    struct chunk *filling;
    enum err err;
    struct buf damage; /* why, if there is an err */

    bool is_working; /* a job is on its way, or its result was not looked at */
    bool has_worked; /* the latter */
    bool is_closing, tells;

    /* from READY on */
    uint64_t bytes, consumed;
    struct chunk chunks[CHUNKS];
    unsigned front, full; /* the chunk being read; and how many have bytes */
    uint64_t moved_ms;    /* when the reader has consumed something, or there was nothing for him */
    uint64_t now_ms;

    uint64_t readable_ms; /* of this minute: there was something for the reader */
    uint64_t paced;       /* what was consumed when it began */
    uint64_t pace;        /* consumed in the minute before */

    void (*on_more)(void *context);
    void *context;
};

/* --- on a worker --- */

static enum err note_damage(struct image *i, struct backend_view *v, enum err e)
{
    const char *damage = backend_view_damage(v);

    if (e != ERR_OK)
        buf_append_str(&i->damage, e == ERR_CORRUPT && *damage ? damage : err_text(e));
    return e;
}

static enum err copy_buckets(struct image *i)
{
    struct backend_position at = {0};
    struct bytes name;
    enum err e = store_feed_check_finished(&i->view, &name);

    for (int b = 0; b < BUCKET_COUNT && e == ERR_OK; b++)
        if (b != BUCKET_KEY)
            e = store_feed_copy(&i->view, (enum bucket)b, &i->copies[b]);
    if (e == ERR_OK)
        e = backend_view_position(&i->view, &at);
    assert(e != ERR_OK || at.index == i->snapshot->index);
    return note_damage(i, &i->view, e);
}

static void close_cut(struct image *i)
{
    if (i->has_view)
        backend_view_close(&i->view);
    i->has_view = false;
}

static void run_copy(struct image *i)
{
    i->err = copy_buckets(i);
    close_cut(i);
    i->step = STEP_PLAN;
}

/* Values of many megabytes make few entries a long slice, so bytes count, too. */
static enum err plan_some(struct image *i, bool *done)
{
    uint64_t entries = i->feed.entries + IMAGE_SLICE_ENTRIES;
    uint64_t bytes = i->feed.bytes + IMAGE_SLICE_BYTES;
    enum err e = ERR_OK;

    while (e == ERR_OK && !*done && i->feed.entries < entries && i->feed.bytes < bytes)
        e = bolt_writer_plan(i->writer, PLAN_ENTRIES, done);
    return e;
}

static void run_plan(struct image *i)
{
    bool done = false;

    i->err = plan_some(i, &done);
    if (i->err != ERR_OK || !done)
        return;
    i->bytes = bolt_writer_size(i->writer);
    i->step = STEP_MAKE;
}

static void run_make(struct image *i)
{
    struct chunk *c = i->filling;

    i->err = bolt_writer_read(i->writer, c->at, IMAGE_CHUNK_BYTES, &c->len);
    if (i->err == ERR_OK && c->len < IMAGE_CHUNK_BYTES)
        i->step = STEP_MADE;
}

static void run(struct job *j)
{
    struct image *i = container_of(j, struct image, job);
    struct backend_view v;

    if (i->step == STEP_COPY) {
        run_copy(i);
        return;
    }
    backend_view_open_on_worker(i->o.backend, &v);
    store_feed_begin(&i->feed, &v);
    if (i->step == STEP_PLAN)
        run_plan(i);
    else
        run_make(i);
    store_feed_end(&i->feed);
    note_damage(i, &v, i->err);
    backend_view_close(&v);
}

/* --- the next slice --- */

static void worked(struct job *j)
{
    container_of(j, struct image, job)->has_worked = true;
}

static bool has_work(const struct image *i)
{
    switch (i->step) {
    case STEP_COPY:
        return true;
    case STEP_PLAN:
        return backend_durable_batch(i->o.backend) >= i->o.batch;
    case STEP_MAKE:
        return i->full < CHUNKS;
    case STEP_MADE:
        return false;
    }
    unreachable();
}

static void work_on(struct image *i)
{
    if (i->is_working || i->is_closing || i->state == IMAGE_FAILED || !has_work(i))
        return;
    i->is_working = true;
    if (i->step == STEP_MAKE) {
        i->filling = &i->chunks[(i->front + i->full) % CHUNKS];
        if (!i->filling->at)
            i->filling->at = mem_alloc(IMAGE_CHUNK_BYTES);
    }
    i->job = (struct job){.run = run, .on_done = worked};
    job_submit(i->o.workers, &i->job);
}

/* In the turn: what the slice has come to. */
static void look_at_work(struct image *i)
{
    if (!i->has_worked)
        return;
    i->is_working = i->has_worked = false;
    if (i->state == IMAGE_FAILED)
        return;
    if (i->err != ERR_OK) {
        image_fail(i, buf_str(&i->damage));
        return;
    }
    bool has_chunk = i->filling && i->filling->len > 0;
    if (has_chunk && i->full == 0)
        i->moved_ms = i->now_ms; /* until now he had to wait */
    if (i->step >= STEP_MAKE && i->state == IMAGE_PLANNING) {
        i->state = IMAGE_READY;
        i->tells = true;
    }
    if (has_chunk) {
        i->tells = i->tells || i->full == 0;
        i->full++;
    }
    i->filling = NULL;
}

/* --- beginning and end --- */

struct image *image_cut(const struct image_options *options)
{
    struct image *i = mem_new(struct image);

    i->o = *options;
    i->snapshot = raft_snapshot_own(options->snapshot);
    i->now_ms = options->now_ms;
    i->pace = UINT64_MAX;
    backend_view_open_on_worker(i->o.backend, &i->view);
    i->has_view = true;
    store_feed_init(&i->feed, i->copies, options->revision);
    i->writer = bolt_writer_open(
        &(struct bolt_writer_options){.buckets = i->feed.names, .bucket_count = BUCKET_COUNT},
        &i->feed.bolt);
    work_on(i);
    return i;
}

static void end(struct image *i)
{
    void (*on_closed)(void *context) = i->o.on_closed;
    void *context = i->o.context;

    close_cut(i);
    bolt_writer_close(i->writer);
    store_feed_free(&i->feed);
    for (int b = 0; b < BUCKET_COUNT; b++)
        buf_free(&i->copies[b]);
    for (int c = 0; c < CHUNKS; c++)
        mem_free(i->chunks[c].at);
    blob_unref(i->snapshot->blob);
    mem_free(i->snapshot);
    buf_free(&i->why);
    buf_free(&i->damage);
    mem_free(i);
    on_closed(context);
}

void image_close(struct image *i)
{
    if (!i)
        return;
    assert(!i->is_closing);
    i->is_closing = true;
    if (!i->is_working)
        end(i);
}

void image_abandon(struct image *i)
{
    i->is_closing = true;
    end(i);
}

void image_fail(struct image *i, const char *why)
{
    if (i->state == IMAGE_FAILED)
        return;
    buf_append_str(&i->why, why);
    i->failure = buf_str(&i->why);
    i->state = IMAGE_FAILED;
    i->tells = true;
}

/* A reader for whom there is something, and who takes nothing of it, holds up compaction. */
static void check_reader(struct image *i)
{
    if (i->state == IMAGE_READY && i->full > 0 && i->now_ms - i->moved_ms >= IMAGE_STALLED_MS)
        image_fail(i, "it is not being read");
}

/* Only the time counts in which the reader could have read; and not that of a member which stood
 * still itself. */
static void measure_pace(struct image *i, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms - i->now_ms;

    if (i->state != IMAGE_READY || i->full == 0)
        return;
    i->readable_ms += passed_ms < PACE_STEP_MS ? passed_ms : PACE_STEP_MS;
    if (i->readable_ms < IMAGE_PACE_MS)
        return;
    i->pace = i->consumed - i->paced;
    i->paced = i->consumed;
    i->readable_ms = 0;
}

uint64_t image_pace(const struct image *i)
{
    return i->pace;
}

void image_some(struct image *i, uint64_t now_ms)
{
    measure_pace(i, now_ms);
    i->now_ms = now_ms;
    look_at_work(i);
    if (i->is_closing) {
        if (!i->is_working)
            end(i);
        return;
    }
    check_reader(i);
    work_on(i);
    bool tells = i->tells && i->on_more;
    i->tells = i->tells && !tells;
    if (tells)
        i->on_more(i->context); /* after which it may be gone */
}

/* --- reading --- */

enum image_state image_state(const struct image *i)
{
    return i->state;
}

uint64_t image_bytes(const struct image *i)
{
    assert(i->state == IMAGE_READY);

    return i->bytes;
}

const struct raft_snapshot *image_snapshot(const struct image *i)
{
    return i->snapshot;
}

const char *image_failure(const struct image *i)
{
    assert(i->state == IMAGE_FAILED);

    return i->failure;
}

void image_set_on_more(struct image *i, void (*on_more)(void *context), void *context)
{
    assert(!i->is_closing);

    i->on_more = on_more;
    i->context = context;
}

bool image_peek(struct image *i, struct bytes *out)
{
    const struct chunk *c = &i->chunks[i->front];
    assert(!i->is_closing);

    if (i->state != IMAGE_READY || i->full == 0)
        return false;
    *out = bytes_of(c->at + c->consumed, c->len - c->consumed);
    assert(out->len > 0);
    return true;
}

void image_consume(struct image *i, size_t count)
{
    struct chunk *c = &i->chunks[i->front];
    assert(i->state == IMAGE_READY);
    assert(i->full > 0);
    assert(count <= c->len - c->consumed);

    if (count > 0)
        i->moved_ms = i->now_ms;
    c->consumed += count;
    i->consumed += count;
    if (c->consumed < c->len)
        return;
    c->len = c->consumed = 0;
    i->front = (i->front + 1) % CHUNKS;
    i->full--;
    work_on(i);
}

bool image_is_over(const struct image *i)
{
    return i->state == IMAGE_READY && i->consumed == i->bytes;
}

void image_check(const struct image *i)
{
    assert(i->full <= CHUNKS);
    assert(!i->has_worked || i->is_working);
    assert(i->state != IMAGE_READY || i->consumed <= i->bytes);
    assert(i->full == 0 || i->state != IMAGE_PLANNING);
    assert(i->is_working || i->state != IMAGE_READY || i->step >= STEP_MAKE);
    for (unsigned n = 0; n < i->full; n++) {
        const struct chunk *c = &i->chunks[(i->front + n) % CHUNKS];
        assert(c->consumed < c->len);
        assert(c->len <= IMAGE_CHUNK_BYTES);
    }
}
