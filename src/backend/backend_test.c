#include "backend/backend_rig_test.h"

#include "base/list.h"
#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

TEST(buckets_have_etcds_names)
{
    enum bucket bucket;

    CHECK_STR(bucket_name(BUCKET_MEMBERS_REMOVED), "members_removed");
    CHECK(bucket_find(BYTES("authUsers"), &bucket));
    CHECK_EQ(bucket, BUCKET_AUTH_USERS);
    CHECK(!bucket_find(BYTES("test"), &bucket));
    for (int i = 1; i < BUCKET_COUNT; i++)
        CHECK(strcmp(bucket_name((enum bucket)(i - 1)), bucket_name((enum bucket)i)) < 0);
}

static void open_twin(struct backend_rig *s)
{
    backend_rig_init(s, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(s), ERR_OK);
}

static void close_twin(struct backend_rig *s)
{
    backend_rig_close(s);
    backend_rig_free(s);
}

TEST(misuse_ends_the_process)
{
    struct backend_rig s;
    struct backend_view v;

    open_twin(&s);
    backend_entry_begin(s.b);
    backend_put(s.b, BUCKET_KEY, BYTES("a"), BYTES("1"));
    CHECK_DIES(backend_commit_start(s.b), "backend_can_commit(b)");
    backend_entry_end(s.b, (struct backend_position){5, 2}, (struct bytes){0});
    CHECK_DIES(backend_entry_end(s.b, (struct backend_position){6, 2}, BYTES("")), "in_entry");
    backend_entry_begin(s.b);
    CHECK_DIES(backend_entry_end(s.b, (struct backend_position){5, 2}, BYTES("")), "now.index >");
    CHECK_DIES(backend_entry_end(s.b, (struct backend_position){6, 1}, BYTES("")), "now.term >=");
    CHECK_DIES(backend_put(s.b, BUCKET_KEY, BYTES(""), BYTES("1")), "key.len > 0");
    backend_view_open(s.b, &v);
    CHECK_DIES(backend_turn_ended(s.b), "core_views == 0");
    CHECK_DIES(backend_close(s.b), "core_views == 0");
    backend_view_close(&v);
    close_twin(&s);
}

TEST(pending_bytes_tell_when_apply_must_pause)
{
    struct backend_rig s;
    uint8_t key[8] = {0};

    backend_rig_init(&s, BACKEND_RIG_MEMORY);
    s.pending_bytes_max = 100000;
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    while (!backend_is_full(s.b)) {
        backend_put_space(s.b, BUCKET_KEY, bytes_of(key, sizeof(key)), 900)[0] = 1;
        key[0]++;
        CHECK(key[0] < 200);
    }

    CHECK(key[0] > 90); /* what it says is what it holds, not twice that */
    backend_commit_start(s.b);
    CHECK(backend_is_full(s.b)); /* frozen is not yet gone */
    backend_rig_settle(&s);
    CHECK(!backend_is_full(s.b));
    CHECK_EQ(backend_pending_bytes(s.b), 0);
    close_twin(&s);
}

TEST(a_batch_number_says_when_a_write_is_durable)
{
    struct backend_rig s;

    open_twin(&s);
    backend_put(s.b, BUCKET_META, BYTES("scheduledCompactRev"), BYTES("r"));
    uint64_t number = backend_open_batch(s.b);
    backend_commit_start(s.b);
    CHECK(backend_open_batch(s.b) > number);
    CHECK(backend_durable_batch(s.b) < number);
    CHECK(backend_rig_run(&s));
    CHECK(backend_durable_batch(s.b) < number);
    CHECK(backend_rig_report(&s));

    CHECK_EQ(backend_durable_batch(s.b), number);
    close_twin(&s);
}

TEST(committing_now_needs_no_thread)
{
    struct memory_disk *d = memory_disk_new(1);
    struct backend_options options = {.memory = d};
    struct backend *b;
    struct backend_view v;
    struct bytes value;

    CHECK_EQ(backend_open(&options, &b), ERR_OK);
    CHECK_EQ(backend_commit_now(b), ERR_OK); /* nothing to do */
    CHECK_EQ(backend_durable_batch(b), 0);
    backend_put(b, BUCKET_META, BYTES("storageVersion"), BYTES("3.7.0"));
    CHECK_EQ(backend_commit_now(b), ERR_OK);
    CHECK_EQ(backend_durable_batch(b), 1);
    backend_close(b);

    CHECK_EQ(backend_open(&options, &b), ERR_OK);
    backend_view_open(b, &v);
    CHECK_EQ(backend_get(&v, BUCKET_META, BYTES("storageVersion"), &value), ERR_OK);
    CHECK_BYTES(value, BYTES("3.7.0"));
    backend_view_close(&v);
    memory_disk_fail_at(d, 1);
    backend_put(b, BUCKET_META, BYTES("storageVersion"), BYTES("3.8.0"));
    CHECK_EQ(backend_commit_now(b), ERR_IO);
    CHECK_STR(backend_failure(b), "memory disk: cannot write: told to fail");
    backend_close(b);
    memory_disk_free(d);
}

TEST(a_failed_commit_is_fatal_unless_somebody_cares)
{
    struct backend_rig s;
    struct backend_view v;
    struct bytes value;

    open_twin(&s);
    backend_put(s.b, BUCKET_KEY, BYTES("a"), BYTES("1"));
    memory_disk_fail_at(s.memory, 2);
    backend_commit_start(s.b);
    backend_rig_settle(&s);

    CHECK(s.failed);
    CHECK_STR(s.failure, "memory disk: cannot sync: told to fail");
    CHECK(!backend_can_commit(s.b));
    backend_check(s.b);
    backend_view_open(s.b, &v); /* what was written is still seen */
    CHECK_EQ(backend_get(&v, BUCKET_KEY, BYTES("a"), &value), ERR_OK);
    backend_view_close(&v);
    CHECK_DIES(backend_put(s.b, BUCKET_KEY, BYTES("b"), BYTES("1")), "!b->failed");
    close_twin(&s);
}

static struct workers inline_workers;

static void run_inline(struct workers *w, struct job *j)
{
    (void)w;
    j->run(j);
    j->on_done(j);
}

static void fail_to_commit(void)
{
    struct memory_disk *d = memory_disk_new(1);
    struct backend *b;

    inline_workers.submit = run_inline;
    CHECK_EQ(backend_open(&(struct backend_options){.memory = d, .workers = &inline_workers}, &b),
             ERR_OK);
    backend_put(b, BUCKET_KEY, BYTES("a"), BYTES("1"));
    memory_disk_fail_at(d, 2);
    backend_commit_start(b);
}

TEST(a_server_dies_when_a_commit_fails)
{
    CHECK_DIES(fail_to_commit(), "cannot commit to the page store: input/output error "
                                 "(memory disk: cannot sync: told to fail)");
}

static void check_parts(struct backend_rig *s, struct bytes key, struct bytes value)
{
    struct backend_view v;
    struct bytes part;

    backend_view_open(s->b, &v);
    CHECK_EQ(backend_get_part(&v, BUCKET_KEY, key, 0, value.len, &part), ERR_OK);
    CHECK_BYTES(part, value);
    CHECK_EQ(backend_get_part(&v, BUCKET_KEY, key, 70000, 30, &part), ERR_OK);
    CHECK_BYTES(part, bytes_of(value.at + 70000, 30));
    CHECK_EQ(backend_get_part(&v, BUCKET_KEY, key, value.len, 0, &part), ERR_OK);
    CHECK_EQ(part.len, 0);
    CHECK_EQ(backend_get_part(&v, BUCKET_KEY, key, 70000, value.len, &part), ERR_CORRUPT);
    CHECK_EQ(backend_get_part(&v, BUCKET_KEY, key, value.len + 1, 0, &part), ERR_CORRUPT);
    CHECK_EQ(backend_get_part(&v, BUCKET_KEY, BYTES("nobody"), 0, 0, &part), ERR_NOT_FOUND);
    backend_view_close(&v);
}

/* Of a value in the open batch, in the store, and of one whose key is too long for LMDB. */
TEST(a_value_can_be_had_in_parts)
{
    static uint8_t value[100000], long_key[600];

    for (size_t i = 0; i < sizeof(value); i++)
        value[i] = (uint8_t)(i * i >> 3);
    memset(long_key, 'k', sizeof(long_key));
    for (int kind = BACKEND_RIG_MEMORY; kind <= BACKEND_RIG_LMDB; kind++) {
        const struct bytes keys[] = {BYTES("key"), bytes_of(long_key, sizeof(long_key))};
        struct backend_rig s;
        backend_rig_init(&s, (enum backend_rig_kind)kind);
        CHECK_EQ(backend_rig_open(&s), ERR_OK);
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            backend_put(s.b, BUCKET_KEY, keys[i], bytes_of(value, sizeof(value)));
            check_parts(&s, keys[i], bytes_of(value, sizeof(value)));
            backend_rig_commit(&s);
            check_parts(&s, keys[i], bytes_of(value, sizeof(value)));
        }
        backend_rig_close(&s);
        backend_rig_free(&s);
    }
}

TEST(a_malformed_index_is_corruption)
{
    struct backend_rig s;

    open_twin(&s);
    backend_put(s.b, BUCKET_META, BYTES("consistent_index"), BYTES("short"));
    backend_rig_commit(&s);
    backend_rig_close(&s);

    CHECK_EQ(backend_rig_open(&s), ERR_CORRUPT);
    backend_rig_free(&s);
}

/* --- everything at once, against the model ------------------------------------------------ */

struct random_run {
    struct backend_rig s;
    struct rng rng;
    struct model now, frozen, durable; /* committed since: the frozen one is durable */
    struct {
        bool open;
        struct model want;
        struct backend_view view;
    } views[4];
    struct backend_defrag defrag;
    unsigned defrags, cancels, crashes, commits;
    bool canceled; /* the one under way, if there is one */
    bool crashing;
};

static void write_entry(struct random_run *t)
{
    unsigned writes = (unsigned)rng_below(&t->rng, 6);

    backend_entry_begin(t->s.b);
    for (unsigned i = 0; i < writes; i++) {
        unsigned bucket = (unsigned)rng_below(&t->rng, MODEL_BUCKETS);
        unsigned key = (unsigned)rng_below(&t->rng, MODEL_KEYS);
        bool deletes = rng_chance(&t->rng, 1, 3);
        uint32_t number = (uint32_t)rng_between(&t->rng, 1, 100000);
        model_put(&t->s, &t->now, bucket, key, deletes ? 0 : number);
    }
    bool raise = rng_chance(&t->rng, 1, 20);
    bool conf = rng_chance(&t->rng, 1, 10);
    model_end_entry(&t->s, &t->now, t->now.term + raise, conf ? (uint32_t)t->now.index + 1 : 0);
}

static void toggle_view(struct random_run *t)
{
    size_t i = rng_below(&t->rng, 4);

    if (t->views[i].open) {
        CHECK(model_matches(&t->views[i].want, &t->views[i].view));
        backend_view_close(&t->views[i].view);
        t->views[i].open = false;
        return;
    }
    bool on_worker = rng_chance(&t->rng, 1, 2);
    t->views[i].open = true;
    if (on_worker) {
        backend_view_open_on_worker(t->s.b, &t->views[i].view);
        t->views[i].want = backend_is_committing(t->s.b) ? t->frozen : t->durable;
    } else {
        backend_view_open(t->s.b, &t->views[i].view);
        t->views[i].want = t->now;
    }
}

static void close_views(struct random_run *t)
{
    for (size_t i = 0; i < 4; i++)
        if (t->views[i].open) {
            CHECK(model_matches(&t->views[i].want, &t->views[i].view));
            backend_view_close(&t->views[i].view);
            t->views[i].open = false;
        }
}

static void start_commit(struct random_run *t)
{
    if (!backend_can_commit(t->s.b))
        return;
    t->frozen = t->now;
    t->commits++;
    backend_commit_start(t->s.b);
}

static void report(struct random_run *t)
{
    bool committing = backend_is_committing(t->s.b);

    if (backend_rig_report(&t->s) && committing && !backend_is_committing(t->s.b))
        t->durable = t->frozen;
}

/* Nothing but whole batches: the durable one, or the next, if its commit had begun. */
static void crash(struct random_run *t)
{
    struct backend_view v;
    bool committing = backend_is_committing(t->s.b);

    close_views(t);
    t->crashing = true;
    backend_rig_crash(&t->s);
    t->crashing = false;
    t->crashes++;
    backend_view_open(t->s.b, &v);
    bool next = committing && model_matches(&t->frozen, &v);
    if (!next)
        CHECK(model_matches(&t->durable, &v));
    backend_view_close(&v);
    if (next)
        t->durable = t->frozen;
    t->now = t->durable;
    CHECK_EQ(backend_applied(t->s.b).index, t->now.index);
}

static void defrag_done(struct backend_defrag *d, enum err e)
{
    struct random_run *t = container_of(d, struct random_run, defrag);

    CHECK(e == ERR_OK || t->crashing || (e == ERR_CANCELED && t->canceled));
    t->canceled = false;
    t->defrags += e == ERR_OK;
    t->cancels += e == ERR_CANCELED;
}

static void cancel_defrag(struct random_run *t)
{
    backend_defrag_cancel(t->s.b);
    t->canceled = true;
}

static void random_step(struct random_run *t)
{
    uint64_t what = rng_below(&t->rng, 1000);

    if (what < 400)
        write_entry(t);
    else if (what < 500)
        toggle_view(t);
    else if (what < 600)
        start_commit(t);
    else if (what < 780)
        backend_rig_run(&t->s);
    else if (what < 960)
        report(t);
    else if (what < 988)
        t->canceled = !backend_defrag_start(t->s.b, &t->defrag) && t->canceled;
    else if (what < 990)
        cancel_defrag(t);
    else
        crash(t);
}

static void run_randomly(enum backend_rig_kind kind, uint64_t steps)
{
    static struct random_run t;

    t.defrag.on_done = defrag_done;
    backend_rig_init(&t.s, kind);
    t.s.slice_bytes = 3000; /* many slices, with commits in between */
    rng_seed(&t.rng, test_seed());
    CHECK_EQ(backend_rig_open(&t.s), ERR_OK);
    for (uint64_t i = 0; i < steps * test_effort(); i++) {
        random_step(&t);
        backend_check(t.s.b);
        CHECK(!t.s.failed);
    }
    close_views(&t);
    CHECK(t.commits > steps / 50);
    CHECK(t.defrags > 0);
    CHECK(t.cancels > 0);
    CHECK(t.crashes > 0);
    backend_rig_close(&t.s);
    backend_rig_free(&t.s);
}

TEST(the_twin_does_what_a_table_does)
{
    test_runs_in_one_thread();
    run_randomly(BACKEND_RIG_MEMORY, 60000);
}

TEST(the_store_on_disk_does_what_a_table_does)
{
    run_randomly(BACKEND_RIG_LMDB, 2500);
}
