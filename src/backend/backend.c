#include "backend/backend_int.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

#include <stdio.h>

static const char *const names[BUCKET_COUNT] = {
    [BUCKET_ALARM] = "alarm",
    [BUCKET_AUTH] = "auth",
    [BUCKET_AUTH_ROLES] = "authRoles",
    [BUCKET_AUTH_USERS] = "authUsers",
    [BUCKET_CLUSTER] = "cluster",
    [BUCKET_KEY] = "key",
    [BUCKET_LEASE] = "lease",
    [BUCKET_MEMBERS] = "members",
    [BUCKET_MEMBERS_REMOVED] = "members_removed",
    [BUCKET_META] = "meta",
};

/* etcd's keys in the meta bucket, and its form of the numbers below them. */
#define KEY_INDEX      BYTES("consistent_index")
#define KEY_TERM       BYTES("term")
#define KEY_CONF_STATE BYTES("confState")

/* Ours: | bucket u8 | where the entry begins that has parts here and no end |. */
#define KEY_PART BYTES(BACKEND_UNFINISHED_PREFIX "Part")

const char *bucket_name(enum bucket bucket)
{
    assert(bucket < BUCKET_COUNT);
    return names[bucket];
}

bool bucket_find(struct bytes name, enum bucket *out)
{
    for (int i = 0; i < BUCKET_COUNT; i++)
        if (bytes_equal(name, bytes_of_str(names[i]))) {
            *out = (enum bucket)i;
            return true;
        }
    return false;
}

/* --- opening and closing ------------------------------------------------------------------ */

static enum err read_number(struct backend_view *v, struct bytes key, uint64_t *out)
{
    struct bytes value;
    enum err e = backend_get(v, BUCKET_META, key, &value);

    *out = 0;
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK)
        return e;
    if (value.len != sizeof(*out)) {
        snprintf(v->reader->damage, sizeof(v->reader->damage),
                 "bucket meta, key %.*s: not a number", (int)key.len, (const char *)key.at);
        return ERR_CORRUPT;
    }
    memcpy(out, value.at, sizeof(*out));
    *out = __builtin_bswap64(*out);
    return ERR_OK;
}

enum err backend_view_position(struct backend_view *v, struct backend_position *out)
{
    struct backend_position found;
    enum err e = read_number(v, KEY_INDEX, &found.index);

    if (e == ERR_OK)
        e = read_number(v, KEY_TERM, &found.term);
    if (e == ERR_OK)
        *out = found;
    return e;
}

enum err backend_read_position(struct backend *b, char *why)
{
    struct backend_view v;

    backend_view_open(b, &v);
    enum err e = backend_view_position(&v, &b->applied);
    b->durable = b->noted = b->applied;
    if (e != ERR_OK)
        snprintf(why, FAILURE_TEXT_BYTES, "%s", backend_view_damage(&v));
    backend_view_close(&v);
    return e;
}

/* --- an entry that has no end --- */

/* The note's, or of no length: there is none. Into the buffer, since views come and go. */
static enum err find_part(struct backend *b, struct buf *note, char *why)
{
    struct backend_view v;
    struct bytes value;

    backend_view_open(b, &v);
    enum err e = backend_get(&v, BUCKET_META, KEY_PART, &value);
    if (e == ERR_OK && (value.len < 2 || value.at[0] >= BUCKET_COUNT)) {
        snprintf(why, FAILURE_TEXT_BYTES, "bucket meta, key %s: malformed", "cleatPart");
        e = ERR_CORRUPT;
    } else if (e == ERR_OK) {
        buf_append(note, value);
    } else if (e == ERR_CORRUPT) {
        snprintf(why, FAILURE_TEXT_BYTES, "%s", backend_view_damage(&v));
    }
    backend_view_close(&v);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* As many as fit upkeep's budget. ERR_END if that was all. */
static enum err remove_from(struct backend *b, enum bucket bucket, struct bytes from, char *why)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;
    enum err e = ERR_OK;

    backend_view_open(b, &v);
    backend_cursor_open(&v, bucket, from, &c);
    while (batch_bytes(b->open) < BACKEND_UPKEEP_BYTES &&
           (e = backend_cursor_next(&c, &key, &value)) == ERR_OK)
        backend_delete_ahead(b, bucket, key);
    if (e == ERR_CORRUPT)
        snprintf(why, FAILURE_TEXT_BYTES, "%s", backend_view_damage(&v));
    backend_cursor_close(&c);
    backend_view_close(&v);
    return e;
}

/*
 * The note goes last, so that a crash in the middle of this only means to begin again. Nothing of
 * it is needed: the log has the entry, and what it will write is the same.
 */
static enum err remove_parts(struct backend *b, char *why)
{
    struct buf note = {0};
    enum err e = find_part(b, &note, why);

    if (e == ERR_OK && note.len > 0) {
        do {
            e = remove_from(b, (enum bucket)note.at[0], bytes_of(note.at + 1, note.len - 1), why);
            if (e == ERR_END)
                backend_delete(b, BUCKET_META, KEY_PART);
            enum err committed = e == ERR_CORRUPT ? e : backend_commit_now(b);
            if (committed != ERR_OK && committed != ERR_CORRUPT)
                snprintf(why, FAILURE_TEXT_BYTES, "%s", backend_failure(b));
            e = committed != ERR_OK ? committed : e;
        } while (e == ERR_OK);
    }
    buf_free(&note);
    return e == ERR_END ? ERR_OK : e;
}

struct backend *backend_new(const struct backend_options *options, struct store *store)
{
    struct backend *b = mem_new(struct backend);

    b->workers = options->workers;
    b->on_failure = options->on_failure;
    b->context = options->context;
    b->pending_bytes_max =
        options->pending_bytes_max ? options->pending_bytes_max : BACKEND_PENDING_BYTES_DEFAULT;
    b->slice_bytes = options->slice_bytes ? options->slice_bytes : BACKEND_SLICE_BYTES_DEFAULT;
    if (pthread_mutex_init(&b->lock, NULL) != 0)
        fatal("cannot make a lock for the page store");
    b->store = store;
    b->store->refs = 1;
    b->store->dirty_bytes_max =
        options->dirty_bytes_max ? options->dirty_bytes_max : BACKEND_DIRTY_BYTES_DEFAULT;
    b->open = batch_new();
    b->open_number = 1;
    b->sizes = store->sizes;
    return b;
}

static enum err open_store(const struct backend_options *options, char *why, struct backend **out)
{
    struct store *store;
    enum err e = options->memory ? memory_store_open(options->memory, &store)
                                 : lmdb_store_open(options->disk, options->dir, why, &store);

    if (e != ERR_OK)
        return e;
    struct backend *b = backend_new(options, store);
    e = backend_read_position(b, why);
    if (e == ERR_OK && options->log_index > 0)
        e = image_settle(b, options, why);
    if (e == ERR_OK)
        e = remove_parts(b, why);
    if (e != ERR_OK) {
        backend_close(b);
        return e;
    }
    *out = b;
    return ERR_OK;
}

enum err backend_open(const struct backend_options *options, struct backend **out)
{
    assert(!options->memory != !options->dir);
    assert(!options->dir || options->disk);

    char why[FAILURE_TEXT_BYTES] = "";
    enum err e = open_store(options, why, out);
    if (e != ERR_OK && options->why)
        buf_append_str(options->why, why);
    return e;
}

/* On either thread, by whoever owns the lists. */
static void free_unused(struct batch **batches, struct store **stores)
{
    while (*batches) {
        struct batch *batch = *batches;
        *batches = batch->next_unused;
        batch_free(batch);
    }
    while (*stores) {
        struct store *store = *stores;
        *stores = store->next_unused;
        store->ops->close(store);
    }
}

void backend_close(struct backend *b)
{
    if (!b)
        return;
    assert(backend_is_idle(b));
    assert(b->core_views == 0);
    assert(b->worker_views == 0);

    defrag_drop(b);
    free_unused(&b->unused_batches, &b->unused_stores);
    assert(b->store->refs == 1);
    b->store->ops->close(b->store);
    buf_free(&b->part_note);
    batch_free(b->open);
    batch_free(b->frozen);
    pthread_mutex_destroy(&b->lock);
    mem_free(b);
}

/* --- writing ------------------------------------------------------------------------------ */

/* Upkeep may come between the writes of an entry. */
static void note_bucket(struct backend *b, enum bucket bucket)
{
    if (b->in_entry && !b->in_upkeep)
        b->entry_buckets |= 1u << bucket;
}

uint8_t *backend_put_space(struct backend *b, enum bucket bucket, struct bytes key,
                           size_t value_len)
{
    assert(!b->failed);
    note_bucket(b, bucket);
    return batch_put_space(b->open, bucket, key, value_len, b->stamp);
}

void backend_put(struct backend *b, enum bucket bucket, struct bytes key, struct bytes value)
{
    uint8_t *at = backend_put_space(b, bucket, key, value.len);

    if (value.len > 0)
        memcpy(at, value.at, value.len);
}

void backend_delete(struct backend *b, enum bucket bucket, struct bytes key)
{
    assert(!b->failed);
    note_bucket(b, bucket);
    batch_delete(b->open, bucket, key, b->stamp);
}

void backend_delete_ahead(struct backend *b, enum bucket bucket, struct bytes key)
{
    assert(!b->failed);
    batch_delete_ahead(b->open, bucket, key, b->stamp);
}

static void put_number(struct backend *b, struct bytes key, uint64_t number)
{
    number = __builtin_bswap64(number);
    memcpy(batch_put_space(b->open, BUCKET_META, key, sizeof(number), b->stamp), &number,
           sizeof(number));
}

/*
 * Where the log stands is written into the batch when somebody could look: before a view is opened
 * on it and before it is frozen. Writing it with every entry would cost more than a put's value.
 */
void backend_note_position(struct backend *b)
{
    if (b->noted.index == b->applied.index)
        return;
    put_number(b, KEY_INDEX, b->applied.index);
    if (b->applied.term > 0) /* etcd tells schema versions apart by its absence */
        put_number(b, KEY_TERM, b->applied.term);
    b->noted = b->applied;
}

static bool has_writes(const struct backend *b)
{
    return b->open->has_writes || b->noted.index != b->applied.index;
}

void backend_entry_begin(struct backend *b)
{
    assert(!b->in_entry);
    assert(!b->has_parts);
    b->in_entry = true;
    b->entry_buckets = 0;
}

void backend_entry_divide(struct backend *b, enum bucket bucket, struct bytes from)
{
    assert(b->in_entry);
    assert(b->part_note.len == 0);
    assert(from.len > 0);

    buf_append_byte(&b->part_note, (uint8_t)bucket);
    buf_append(&b->part_note, from);
}

/* To undo parts is to remove everything from one key on. What has been written to another bucket
 * would stay, so such an entry is committed whole. */
static bool is_divisible(const struct backend *b)
{
    return b->in_entry && b->part_note.len > 0 &&
           (b->entry_buckets & ~(1u << b->part_note.at[0])) == 0;
}

bool backend_part_is_due(const struct backend *b)
{
    return is_divisible(b) && batch_bytes(b->open) >= BACKEND_PART_BYTES;
}

/* Before a batch is frozen. */
static void note_part(struct backend *b)
{
    if (!b->in_entry)
        return;
    struct bytes note = buf_bytes(&b->part_note);
    memcpy(batch_put_space(b->open, BUCKET_META, KEY_PART, note.len, b->stamp), note.at, note.len);
    b->has_parts = true;
}

void backend_entry_end(struct backend *b, struct backend_position now, struct bytes conf_state)
{
    assert(b->in_entry);
    assert(!b->failed);
    assert(now.index > b->applied.index); /* no entry twice */
    assert(now.term >= b->applied.term);

    if (conf_state.at)
        backend_put(b, BUCKET_META, KEY_CONF_STATE, conf_state);
    if (b->has_parts)
        backend_delete(b, BUCKET_META, KEY_PART);
    b->has_parts = false;
    buf_clear(&b->part_note);
    b->applied = now;
    b->in_entry = false;
}

struct backend_position backend_applied(const struct backend *b)
{
    return b->applied;
}

struct backend_position backend_durable(const struct backend *b)
{
    return b->durable;
}

uint64_t backend_open_batch(const struct backend *b)
{
    return b->open_number;
}

uint64_t backend_durable_batch(const struct backend *b)
{
    return b->durable_number;
}

bool backend_is_committing(const struct backend *b)
{
    return b->frozen;
}

bool backend_is_idle(const struct backend *b)
{
    return b->running == JOB_NONE;
}

bool backend_can_commit(const struct backend *b)
{
    return has_writes(b) && !b->frozen && (!b->in_entry || is_divisible(b)) && !b->in_upkeep &&
           !b->failed;
}

size_t backend_pending_bytes(const struct backend *b)
{
    return batch_bytes(b->open) + (b->frozen ? batch_bytes(b->frozen) : 0);
}

bool backend_is_full(const struct backend *b)
{
    return backend_pending_bytes(b) > b->pending_bytes_max;
}

void backend_upkeep_begin(struct backend *b)
{
    assert(!b->in_upkeep);
    b->in_upkeep = true;
    b->bytes_before_upkeep = batch_bytes(b->open);
}

void backend_upkeep_end(struct backend *b)
{
    assert(b->in_upkeep);
    assert(batch_bytes(b->open) >= b->bytes_before_upkeep); /* it is still the same batch */
    b->in_upkeep = false;
    b->open->upkeep_bytes += batch_bytes(b->open) - b->bytes_before_upkeep;
}

/* Half of what may be pending is the entries' alone: a compaction must not make apply wait. */
bool backend_has_budget(const struct backend *b)
{
    return b->open->upkeep_bytes < BACKEND_UPKEEP_BYTES &&
           backend_pending_bytes(b) < b->pending_bytes_max / 2;
}

struct backend_sizes backend_sizes(const struct backend *b)
{
    return b->sizes;
}

/* --- committing: on the backend thread ---------------------------------------------------- */

/* What this transaction has is committed, and the next begins. */
static enum err next_transaction(struct store *s)
{
    enum err e = s->ops->commit(s);

    return e == ERR_OK ? s->ops->begin(s) : e;
}

static enum err write_ahead(const struct batch *batch, struct store *s, const struct defrag *copied)
{
    const uint8_t **list = batch_ahead_sorted(batch);
    enum bucket bucket;
    enum err e = ERR_OK;

    for (size_t i = 0; i < batch->ahead_count && e == ERR_OK; i++) {
        struct bytes key = batch_ahead_read(list[i], &bucket);
        if (copied && !defrag_has(copied, bucket, key))
            break;
        e = s->ops->remove(s, bucket, key);
        if (e == ERR_OK && s->dirty_bytes >= s->dirty_bytes_max)
            e = next_transaction(s);
    }
    mem_free(list);
    return e;
}

static enum err write_list(const struct batch *batch, enum bucket bucket, struct store *s,
                           const struct defrag *copied)
{
    const struct batch_node *node = batch->lists[bucket].first[0];

    for (; node && (!copied || defrag_has(copied, bucket, batch_node_key(node)));
         node = node->next[0]) {
        struct bytes key = batch_node_key(node);
        const struct batch_version *v = node->newest;
        enum err e = v->deleted ? s->ops->remove(s, bucket, key)
                                : s->ops->put(s, bucket, key, batch_version_value(v));
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

/*
 * What is deleted ahead may be durable before its batch is, and without it. It is history below the
 * compact revision, and whoever opens the store after a crash goes on compacting there. All the
 * rest is one transaction, together with where the log stands.
 */
static enum err batch_change(const struct batch *batch, struct store *s,
                             const struct defrag *copied)
{
    enum err e = s->ops->begin(s);

    if (e == ERR_OK && batch->ahead)
        e = write_ahead(batch, s, copied);
    for (int bucket = 0; bucket < BUCKET_COUNT && e == ERR_OK; bucket++)
        e = write_list(batch, (enum bucket)bucket, s, copied);
    if (e != ERR_OK)
        s->ops->abort(s);
    return e;
}

enum err batch_commit_to(const struct batch *batch, struct store *s, const struct defrag *copied)
{
    enum err e = batch_change(batch, s, copied);

    return e == ERR_OK ? s->ops->commit(s) : e;
}

static enum err batch_commit_timed(struct backend *b)
{
    enum err e = batch_change(b->frozen, b->store, NULL);
    uint64_t began_ns = job_now_ns(&b->job);

    if (e == ERR_OK)
        e = b->store->ops->commit(b->store);
    b->commit_write_ns = job_now_ns(&b->job) - began_ns;
    return e;
}

static enum err run_commit(struct backend *b)
{
    uint64_t began_ns = job_now_ns(&b->job);
    enum err e = batch_commit_timed(b);

    if (e == ERR_NO_SPACE && b->defrag.copy) { /* it has space that is needed more here */
        defrag_give_up(b, e);
        e = batch_commit_timed(b);
    }
    b->commit_ns = job_now_ns(&b->job) - began_ns;
    /* The live store first: it is what durable means. The copy may be given up at any time. */
    if (e == ERR_OK)
        defrag_follow(b, b->frozen);
    return e;
}

static void run_job(struct job *j)
{
    struct backend *b = container_of(j, struct backend, job);

    b->job_err = ERR_OK;
    if (b->running == JOB_COMMIT)
        b->job_err = run_commit(b);
    if (b->running == JOB_SLICE)
        b->job_err = defrag_slice(b);
    if (b->running == JOB_INSTALL)
        b->job_err = image_adopt(b);
    if (b->job_err != ERR_OK)
        snprintf(b->job_text, sizeof(b->job_text), "%s", b->store->failure);
    free_unused(&b->freeing_batches, &b->freeing_stores);
}

/* --- committing: in the turn -------------------------------------------------------------- */

static void freeze(struct backend *b)
{
    struct batch *fresh = batch_new();

    backend_note_position(b);
    note_part(b);
    b->open->position = b->applied;
    pthread_mutex_lock(&b->lock);
    b->frozen = b->open;
    b->open = fresh;
    pthread_mutex_unlock(&b->lock);
    b->open_number++;
}

/* The last reference may be the core thread's, for which freeing 64 MiB takes too long: a job does
 * it. */
void backend_drop_batch(struct backend *b, struct batch *batch)
{
    if (!batch_unref(batch))
        return;
    batch->next_unused = b->unused_batches;
    b->unused_batches = batch;
}

/* The frozen batch is in the pages: whoever opens a view from here on needs it no more. */
static void committed(struct backend *b)
{
    struct batch *done = b->frozen;

    pthread_mutex_lock(&b->lock);
    b->frozen = NULL;
    pthread_mutex_unlock(&b->lock);
    b->lacks_space = false;
    b->durable = done->position;
    b->durable_number = b->open_number - 1;
    histogram_observe(&b->stats.commit, HISTOGRAM_1MS_14, b->commit_ns);
    histogram_observe(&b->stats.commit_changes, HISTOGRAM_1MS_14,
                      b->commit_ns - b->commit_write_ns);
    histogram_observe(&b->stats.commit_write, HISTOGRAM_1MS_14, b->commit_write_ns);
    backend_drop_batch(b, done);
}

struct backend_stats *backend_stats(struct backend *b)
{
    return &b->stats;
}

static void fail(struct backend *b)
{
    b->failed = true;
    if (!b->on_failure)
        fatal("cannot commit to the page store: %s (%s)", err_text(b->job_err), b->job_text);
    b->on_failure(b->context, b->job_err, b->job_text);
}

/*
 * Is all as it was before the job, for want of what may be there later? A rename takes a descriptor
 * as well, for the sync behind it. A member that ended for either could not start again before the
 * operator has seen to it; one that waits goes on by itself.
 */
static bool can_wait(const struct backend *b, enum backend_job kind)
{
    return (b->job_err == ERR_NO_SPACE && (kind == JOB_COMMIT || kind == JOB_INSTALL)) ||
           (b->job_err == ERR_NO_FILES && kind == JOB_INSTALL);
}

/* Whatever has been written of it is where nobody looks, so there is nothing to be undone. */
static void await_space(struct backend *b)
{
    b->lacks_space = b->awaits_space = true;
    memcpy(b->space_text, b->job_text, sizeof(b->space_text));
}

static void settle_job(struct backend *b, enum backend_job kind)
{
    /* Nothing runs now, so the other thread's figures may be looked at. */
    b->sizes = b->store->sizes;
    b->slice_next = kind == JOB_COMMIT;
    if (can_wait(b, kind))
        await_space(b);
    else if (b->job_err != ERR_OK)
        fail(b);
    else if (kind == JOB_COMMIT)
        committed(b);
    if (kind == JOB_INSTALL && b->defrag.request)
        b->defrag.err = ERR_CANCELED; /* also one that was asked for during the rename */
    defrag_settle(b);
    if (b->job_err == ERR_OK && kind == JOB_INSTALL)
        image_adopted(b);
}

static void job_done(struct job *j)
{
    struct backend *b = container_of(j, struct backend, job);
    enum backend_job kind = b->running;

    b->running = JOB_NONE;
    settle_job(b, kind);
    backend_pump(b);
}

static enum backend_job next_job(const struct backend *b)
{
    if (b->failed)
        return JOB_NONE;
    if (b->install && !b->awaits_space)
        return JOB_INSTALL;
    /* Commits and slices of a copy take turns, so that neither waits for all of the other. */
    bool commit_is_next = b->frozen && !b->awaits_space;
    if (b->defrag.request && (b->slice_next || !commit_is_next))
        return JOB_SLICE;
    if (commit_is_next)
        return JOB_COMMIT;
    return b->unused_batches || b->unused_stores ? JOB_FREE : JOB_NONE;
}

void backend_pump(struct backend *b)
{
    if (b->running != JOB_NONE || !b->workers)
        return;
    enum backend_job kind = next_job(b);
    if (kind == JOB_NONE)
        return;
    b->running = kind;
    b->freeing_batches = b->unused_batches;
    b->freeing_stores = b->unused_stores;
    b->unused_batches = NULL;
    b->unused_stores = NULL;
    b->defrag.is_given_up = b->cancels_defrag;
    b->job = (struct job){.run = run_job, .on_done = job_done};
    job_submit(b->workers, &b->job);
}

void backend_commit_start(struct backend *b)
{
    assert(backend_can_commit(b));
    assert(b->workers);

    freeze(b);
    backend_pump(b);
}

bool backend_lacks_space(const struct backend *b)
{
    return b->lacks_space;
}

void backend_retry(struct backend *b)
{
    b->awaits_space = false;
    backend_pump(b);
}

enum err backend_commit_now(struct backend *b)
{
    assert(b->running == JOB_NONE);
    assert(!b->in_entry);
    assert(!b->in_upkeep);
    assert(!b->frozen);
    assert(!b->failed);

    if (!has_writes(b))
        return ERR_OK;
    freeze(b);
    enum err e = run_commit(b);
    b->sizes = b->store->sizes;
    if (e == ERR_OK)
        committed(b);
    else
        b->failed = true;
    free_unused(&b->unused_batches, &b->unused_stores);
    return e;
}

/* The store's own words are the other thread's while a commit is under way. */
const char *backend_failure(const struct backend *b)
{
    return b->lacks_space ? b->space_text : b->store->failure;
}

/* --- invariants --------------------------------------------------------------------------- */

void backend_turn_ended(const struct backend *b)
{
    assert(b->core_views == 0); /* a view kept over the turn would pin pages */
    assert(!b->in_upkeep);
}

void backend_check(const struct backend *b)
{
    batch_check(b->open);
    assert(b->in_entry || b->part_note.len == 0);
    assert(!b->has_parts || b->part_note.len > 0);
    assert(b->open->upkeep_bytes <= batch_bytes(b->open));
    assert(b->open_number > b->durable_number);
    assert(b->durable.index <= b->applied.index);
    assert(b->durable.index <= b->noted.index);
    assert(b->noted.index <= b->applied.index);
    assert(b->durable.term <= b->applied.term);
    if (b->frozen) {
        batch_check(b->frozen);
        assert(b->frozen->has_writes);
        assert(b->frozen->position.index >= b->durable.index);
        assert(b->frozen->position.index <= b->applied.index);
        assert(b->open_number == b->durable_number + 2);
        assert(b->failed || b->running != JOB_NONE || b->awaits_space);
    } else {
        assert(!b->lacks_space || b->install);
        assert(b->open_number == b->durable_number + 1);
        assert(b->running != JOB_COMMIT);
    }
    assert(!b->awaits_space || b->lacks_space);
    assert(b->core_views <= BACKEND_CORE_VIEWS_MAX);
    assert(b->failed || !b->defrag.request || b->running != JOB_NONE);
    assert(b->failed || !b->install || b->running != JOB_NONE || b->awaits_space);
    assert(b->failed || !b->replaced);
    assert(b->running != JOB_NONE || !b->freeing_batches);
    assert(b->running != JOB_NONE || !b->freeing_stores);
}
