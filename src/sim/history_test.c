/* Histories made by hand: each check of history.h lets the honest one be and refuses the one that
 * breaks it. */
#include "base/arena.h"
#include "harness/test.h"
#include "io/clock.h"
#include "sim/actor_int.h"

#include <stdio.h>
#include <string.h>

enum { MEMBERS = 3 };

struct history_rig {
    struct history h;
    struct arena arena;
};

static void rig_open(struct history_rig *r)
{
    *r = (struct history_rig){.h = {.seen = 1, .members = MEMBERS, .lease_late_ns = NS_PER_S}};
}

static void rig_close(struct history_rig *r)
{
    history_free(&r->h);
    arena_free(&r->arena);
}

static void is_fine(struct history_rig *r)
{
    history_check(&r->h);
    CHECK_STR(r->h.problem, "");
    rig_close(r);
}

static void is_refused(struct history_rig *r, const char *text)
{
    history_check(&r->h);
    if (!strstr(r->h.problem, text))
        test_fail(__FILE__, __LINE__, "wanted \"%s\", got: %s", text, r->h.problem);
    rig_close(r);
}

/* --- what clients do --- */

static struct bytes key_of(struct history_rig *r, unsigned key)
{
    char text[HISTORY_KEY_BYTES];

    return arena_copy(&r->arena, bytes_of_str(history_key(key, text)));
}

static uint64_t begin(struct history_rig *r, enum history_kind kind, const struct pb_schema *schema,
                      const void *msg)
{
    struct buf wire = {0};

    pb_encode(schema, msg, &wire);
    uint64_t op = history_begin(&r->h, kind, buf_bytes(&wire));
    buf_free(&wire);
    return op;
}

static struct bytes number_of_next(struct history_rig *r)
{
    return bytes_of_str(arena_printf(&r->arena, "%zu x", r->h.op_count));
}

static uint64_t begin_put(struct history_rig *r, unsigned key, int64_t lease)
{
    struct pb_put_request q = {.key = key_of(r, key), .value = number_of_next(r), .lease = lease};
    uint64_t op = begin(r, OP_PUT, &pb_put_request_schema, &q);

    history_op(&r->h, op)->lease = lease;
    return op;
}

/* Of keys from..to, the second not included; one alone as etcd has it. */
static uint64_t begin_delete(struct history_rig *r, unsigned from, unsigned to)
{
    struct pb_delete_range_request q = {.key = key_of(r, from)};

    if (to != from + 1)
        q.range_end = key_of(r, to);
    return begin(r, OP_DELETE, &pb_delete_range_request_schema, &q);
}

static uint64_t begin_read(struct history_rig *r, unsigned key)
{
    struct pb_range_request q = {.key = key_of(r, key)};

    return begin(r, OP_RANGE, &pb_range_request_schema, &q);
}

static uint64_t begin_lease(struct history_rig *r, enum history_kind kind, int64_t lease)
{
    uint64_t op =
        begin(r, kind, &pb_lease_revoke_request_schema, &(struct pb_lease_id){.id = lease});

    history_op(&r->h, op)->lease = lease;
    return op;
}

static void answer(struct history_rig *r, uint64_t op, int64_t revision, bool stale,
                   const struct pb_schema *schema, const void *msg)
{
    struct buf wire = {0};

    pb_encode(schema, msg, &wire);
    history_done(&r->h, op, revision, buf_bytes(&wire), stale);
    buf_free(&wire);
}

static void answer_put(struct history_rig *r, uint64_t op, int64_t revision)
{
    answer(r, op, revision, false, &pb_put_response_schema, &(struct pb_put_response){0});
}

static void answer_delete(struct history_rig *r, uint64_t op, int64_t revision, int64_t deleted)
{
    answer(r, op, revision, false, &pb_delete_range_response_schema,
           &(struct pb_delete_range_response){.deleted = deleted});
}

/* The key's value is of this operation, of its one life. */
static struct pb_key_value *kv(struct history_rig *r, unsigned key, uint64_t op, int64_t create,
                               int64_t mod, int64_t version)
{
    struct pb_key_value *kv = arena_new(&r->arena, struct pb_key_value);

    *kv = (struct pb_key_value){.key = key_of(r, key),
                                .value = bytes_of_str(arena_printf(&r->arena, "%zu x", (size_t)op)),
                                .create_revision = create,
                                .mod_revision = mod,
                                .version = version};
    return kv;
}

static void answer_read(struct history_rig *r, uint64_t op, int64_t revision, bool stale,
                        struct pb_key_value *kv)
{
    struct pb_range_response reply = {.kvs = {kv, kv != NULL}, .count = kv != NULL};

    answer(r, op, revision, stale, &pb_range_response_schema, &reply);
}

/* --- what watchers see --- */

static struct pb_event event_put(struct history_rig *r, unsigned key, uint64_t op, int64_t create,
                                 int64_t mod, int64_t version)
{
    struct pb_key_value *now = kv(r, key, op, create, mod, version);

    now->lease = op < r->h.op_count ? history_op(&r->h, op)->lease : 0;
    return (struct pb_event){.type = PB_EVENT_PUT, .kv = now};
}

static struct pb_event event_delete(struct history_rig *r, unsigned key, int64_t revision)
{
    struct pb_key_value *gone = arena_new(&r->arena, struct pb_key_value);

    *gone = (struct pb_key_value){.key = key_of(r, key), .mod_revision = revision};
    return (struct pb_event){.type = PB_EVENT_DELETE, .kv = gone};
}

static void witness_put(struct history_rig *r, unsigned key, uint64_t op, int64_t create,
                        int64_t mod, int64_t version)
{
    struct pb_event e = event_put(r, key, op, create, mod, version);

    history_witness(&r->h, &e);
}

static void witness_delete(struct history_rig *r, unsigned key, int64_t revision)
{
    struct pb_event e = event_delete(r, key, revision);

    history_witness(&r->h, &e);
}

/* A put that is answered and seen: a key's first life, at the next revision. */
static uint64_t put_whole(struct history_rig *r, unsigned key, int64_t lease)
{
    uint64_t op = begin_put(r, key, lease);
    int64_t revision = r->h.seen + 1;

    answer_put(r, op, revision);
    witness_put(r, key, op, revision, revision, 1);
    return op;
}

/* --- operations (checks 1 to 5) --- */

TEST(history_lets_an_honest_one_be)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t put = put_whole(&r, 3, 0);
    uint64_t read = begin_read(&r, 3);
    uint64_t stale = begin_read(&r, 3);
    answer_read(&r, read, 2, false, kv(&r, 3, put, 2, 2, 1));
    answer_read(&r, stale, 1, true, NULL); /* of a member that is behind */
    uint64_t deleted = begin_delete(&r, 0, 12);
    answer_delete(&r, deleted, 3, 1);
    witness_delete(&r, 3, 3);

    is_fine(&r);
}

TEST(history_refuses_a_linearizable_read_of_the_past)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    uint64_t read = begin_read(&r, 3);
    answer_read(&r, read, 1, false, NULL);

    is_refused(&r, "operation 1 was told revision 1, but 2 had been told before it began");
}

/* What only the witness was shown has been told, too: whoever reads after it sees it. */
TEST(history_takes_what_the_witness_sees_as_told)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t put = begin_put(&r, 3, 0);
    witness_put(&r, 3, put, 2, 2, 1);
    uint64_t read = begin_read(&r, 3);
    answer_read(&r, read, 1, false, NULL);

    is_refused(&r, "operation 1 was told revision 1, but 2 had been told before it began");
}

/* A serializable read may be old, but it is of one moment. */
TEST(history_refuses_a_serializable_read_of_no_state_there_was)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    uint64_t read = begin_read(&r, 3);
    answer_read(&r, read, 2, true, NULL);

    is_refused(&r, "operation 1 (range) was answered at revision 2 with something else");
}

TEST(history_refuses_an_acknowledged_write_that_is_lost)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t put = begin_put(&r, 3, 0);
    answer_put(&r, put, 2);

    is_refused(&r, "operation 0 was told revision 2 and is lost");
}

TEST(history_refuses_a_write_that_happens_twice)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t put = put_whole(&r, 3, 0);
    witness_put(&r, 3, put, 2, 3, 2);

    is_refused(&r, "operation 0 happened twice, again at 3");
}

TEST(history_refuses_a_write_that_happens_before_it_begins)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t early = begin_put(&r, 3, 0);
    answer_put(&r, early, 2);
    uint64_t late = begin_put(&r, 4, 0);
    witness_put(&r, 4, late, 2, 2, 1);

    is_refused(&r, "operation 1 happened at 2, before it began");
}

TEST(history_refuses_a_revision_that_is_left_out)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    uint64_t put = begin_put(&r, 4, 0);
    witness_put(&r, 4, put, 4, 4, 1);

    is_refused(&r, "the witness saw revision 4 after 2");
}

TEST(history_refuses_two_operations_at_one_revision)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t put = put_whole(&r, 3, 0);
    (void)put;
    uint64_t once = begin_delete(&r, 3, 4);
    uint64_t again = begin_delete(&r, 0, 12);
    answer_delete(&r, once, 3, 1);
    answer_delete(&r, again, 3, 1);
    witness_delete(&r, 3, 3);

    is_refused(&r, "operations 1 and 2 both have revision 3");
}

TEST(history_leaves_open_whether_a_write_without_an_answer_has_happened)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t one = begin_put(&r, 3, 0);
    uint64_t other = begin_put(&r, 4, 0);
    history_gave_up(&r.h, one);
    history_gave_up(&r.h, other);
    witness_put(&r, 4, other, 2, 2, 1);

    is_fine(&r);
}

TEST(history_refuses_what_was_refused_and_has_happened)
{
    struct history_rig r;

    rig_open(&r);
    uint64_t put = begin_put(&r, 3, 0);
    history_refused(&r.h, put);
    witness_put(&r, 3, put, 2, 2, 1);

    is_refused(&r, "operation 0 was refused, and has happened at 2");
}

/* A transaction whose answer never came, and of which one half is missing. */
TEST(history_refuses_half_a_transaction)
{
    struct history_rig r;

    rig_open(&r);
    struct bytes value = number_of_next(&r);
    struct pb_put_request puts[] = {{.key = key_of(&r, 3), .value = value},
                                    {.key = key_of(&r, 4), .value = value}};
    struct pb_request_op ops[] = {{.which = PB_OP_PUT, .put = &puts[0]},
                                  {.which = PB_OP_PUT, .put = &puts[1]}};
    struct pb_txn_request txn = {.success = {ops, 2}};
    uint64_t op = begin(&r, OP_TXN, &pb_txn_request_schema, &txn);
    history_gave_up(&r.h, op);
    witness_put(&r, 3, op, 2, 2, 1);

    is_refused(&r, "operation 0 has happened at 2 in part");
}

TEST(history_refuses_a_delete_that_nobody_has_asked_for)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    witness_delete(&r, 3, 3);

    is_refused(&r, "nobody has deleted what is deleted at 3");
}

/* The first without an answer fits both, the second only the first: whoever takes the first one
 * that fits finds nobody for the other. */
TEST(history_pairs_deletes_without_an_answer_so_that_all_have_one)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    uint64_t wide = begin_delete(&r, 0, 12), narrow = begin_delete(&r, 3, 4);
    history_gave_up(&r.h, wide);
    history_gave_up(&r.h, narrow);
    witness_delete(&r, 3, 3);
    put_whole(&r, 3, 0);
    put_whole(&r, 5, 0);
    witness_delete(&r, 3, 6);
    witness_delete(&r, 5, 6);

    is_fine(&r);
}

TEST(history_lets_one_delete_without_an_answer_happen_only_once)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    uint64_t deleted = begin_delete(&r, 0, 12);
    history_gave_up(&r.h, deleted);
    witness_delete(&r, 3, 3);
    put_whole(&r, 3, 0);
    witness_delete(&r, 3, 5);

    is_refused(&r, "nobody has deleted what is deleted at 5");
}

/* --- leases (check 6) --- */

enum { LEASE = 77 };

static uint64_t grant(struct history_rig *r, int64_t ttl)
{
    uint64_t op = begin_lease(r, OP_GRANT, 0);

    history_granted(&r->h, op, LEASE, ttl);
    history_done(&r->h, op, r->h.told, (struct bytes){0}, false);
    return op;
}

static void renew_at(struct history_rig *r, int64_t revision, int64_t ttl)
{
    uint64_t op = begin_lease(r, OP_RENEW, LEASE);

    history_renewed(&r->h, op, LEASE, ttl);
    history_done(&r->h, op, revision, (struct bytes){0}, true);
}

TEST(history_lets_a_lease_end_when_its_time_is_up)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.now_ns = 3 * NS_PER_S;
    renew_at(&r, 2, 5);
    r.h.now_ns = 8 * NS_PER_S;
    witness_delete(&r, 3, 3);

    is_fine(&r);
}

/* Renewed by somebody who no longer led, it ends when it would have ended without. */
TEST(history_refuses_a_lease_that_ends_early)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.now_ns = 3 * NS_PER_S;
    renew_at(&r, 2, 5);
    r.h.now_ns = 8 * NS_PER_S - 1;
    witness_delete(&r, 3, 3);

    is_refused(&r, "lease 4d ends at 3, before its time");
}

/* By a leader's clock that is ten percent fast. */
TEST(history_allows_for_clocks_that_are_wrong)
{
    struct history_rig r;

    rig_open(&r);
    r.h.clock_ppm_max = 100000;
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.now_ns = 45 * NS_PER_S / 10;
    witness_delete(&r, 3, 3);
    is_fine(&r);

    rig_open(&r);
    r.h.clock_ppm_max = 100000;
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.now_ns = 45 * NS_PER_S / 10 - 1;
    witness_delete(&r, 3, 3);
    is_refused(&r, "lease 4d ends at 3, before its time");
}

TEST(history_refuses_a_lease_that_is_gone_early)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    r.h.now_ns = 4 * NS_PER_S;
    history_lease_is_gone(&r.h, LEASE);

    is_refused(&r, "lease 4d is gone before its time");
}

TEST(history_refuses_a_lease_that_does_not_end)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.now_ns = 6 * NS_PER_S + 1;

    is_refused(&r, "lease 4d should have ended, and key 3 is still there");
}

/* A new leader gave it all its time again; or a renewal got there, and its answer did not come
 * back. */
TEST(history_knows_why_a_lease_may_end_late)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.leader_began_ns = 2 * NS_PER_S;
    r.h.now_ns = 8 * NS_PER_S;
    is_fine(&r);

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.healed_ns = 2 * NS_PER_S;
    r.h.now_ns = 8 * NS_PER_S;
    is_fine(&r);

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.now_ns = 3 * NS_PER_S;
    uint64_t renewal = begin_lease(&r, OP_RENEW, LEASE);
    history_gave_up(&r.h, renewal);
    r.h.now_ns = 10 * NS_PER_S;
    is_fine(&r);
}

/* The client has seen it end; another member, that believes to lead, says that it lives. */
TEST(history_refuses_a_renewal_of_a_lease_that_has_ended)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    r.h.now_ns = 5 * NS_PER_S;
    witness_delete(&r, 3, 3);
    renew_at(&r, 2, 5);

    is_refused(&r, "lease 4d ends at 3, before its time");
}

TEST(history_refuses_a_renewal_after_a_revoke_that_was_answered)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    uint64_t revoke = begin_lease(&r, OP_REVOKE, LEASE);
    history_lease(&r.h, LEASE)->may_be_revoked = true;
    witness_delete(&r, 3, 3);
    history_done(&r.h, revoke, 3, (struct bytes){0}, false);
    renew_at(&r, 3, 5);

    is_refused(&r, "lease 4d ended at 3, and operation 3, begun at 3, has renewed it at 3");
}

static void keys_are(struct history_rig *r, int64_t revision, unsigned key)
{
    struct bytes name = key_of(r, key);
    struct pb_lease_time_to_live_request q = {.id = LEASE, .keys = true};
    struct pb_lease_time_to_live_response reply = {.id = LEASE, .keys = {&name, 1}};
    uint64_t op = begin(r, OP_KEYS, &pb_lease_time_to_live_request_schema, &q);

    answer(r, op, revision, true, &pb_lease_time_to_live_response_schema, &reply);
}

/* The leader was ahead of the member that asked it, or was one no longer. */
TEST(history_takes_the_keys_of_a_lease_from_any_moment_there_was)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    put_whole(&r, 4, LEASE);
    keys_are(&r, 3, 3);

    is_fine(&r);
}

TEST(history_refuses_keys_of_a_lease_that_it_never_had)
{
    struct history_rig r;

    rig_open(&r);
    grant(&r, 5);
    put_whole(&r, 3, LEASE);
    put_whole(&r, 4, LEASE);
    keys_are(&r, 3, 4); /* at no moment without the other */

    is_refused(&r, "(keys of a lease) was answered at revision 3");
}

/* --- watchers (check 7) --- */

/* Two keys, put one after the other, three times: revisions 2 to 7. */
static void make_events(struct history_rig *r)
{
    for (int64_t n = 0; n < 3; n++)
        for (unsigned key = 0; key < 2; key++) {
            uint64_t op = begin_put(r, key, 0);
            answer_put(r, op, r->h.seen + 1);
            witness_put(r, key, op, 2 + key, r->h.seen + 1, n + 1);
        }
}

static void saw(struct history_rig *r, struct history_watch *w, int64_t revision, bool joined)
{
    const struct history_event *e = &r->h.events[revision - 2];
    struct pb_event pe = event_put(r, e->key, e->op, e->create_revision, e->revision, e->version);

    CHECK(history_watch_saw(&r->h, w, &pe, joined));
}

static void watch_is(struct history_rig *r, struct history_watch *w, const char *problem)
{
    history_check_watch(&r->h, w);
    if (*problem == '\0')
        CHECK_STR(r->h.problem, "");
    else if (!strstr(r->h.problem, problem))
        test_fail(__FILE__, __LINE__, "wanted \"%s\", got: %s", problem, r->h.problem);
    buf_free(&w->seen);
    buf_free(&w->told);
    rig_close(r);
}

TEST(history_lets_watchers_be_that_see_what_they_asked_for)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 1, .from = 3};

    rig_open(&r);
    make_events(&r);
    saw(&r, &w, 4, false);
    history_watch_progress(&w, 5);
    saw(&r, &w, 6, false);
    w.to_the_end = true;

    watch_is(&r, &w, "");
}

TEST(history_refuses_a_gap_in_a_watch)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 3};

    rig_open(&r);
    make_events(&r);
    saw(&r, &w, 3, false);
    saw(&r, &w, 5, false);

    watch_is(&r, &w, "saw revision 5 where the history has 4");
}

TEST(history_refuses_an_event_twice_or_out_of_order)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 3};

    rig_open(&r);
    make_events(&r);
    saw(&r, &w, 3, false);
    saw(&r, &w, 3, false);
    saw(&r, &w, 4, false);

    watch_is(&r, &w, "saw revision 3 where the history has 4");
}

TEST(history_refuses_a_watch_that_misses_the_end)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 6, .to_the_end = true};

    rig_open(&r);
    make_events(&r);
    saw(&r, &w, 6, false);

    watch_is(&r, &w, "never saw revision 7");
}

TEST(history_refuses_a_revision_in_two_pieces)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 2};

    rig_open(&r);
    for (unsigned key = 0; key < 2; key++)
        put_whole(&r, key, 0);
    witness_delete(&r, 0, 4);
    witness_delete(&r, 1, 4);
    for (int64_t revision = 2; revision <= 3; revision++)
        saw(&r, &w, revision, false);
    for (unsigned key = 0; key < 2; key++) {
        struct pb_event e = event_delete(&r, key, 4);
        history_watch_saw(&r.h, &w, &e, false);
    }

    watch_is(&r, &w, "saw revision 4 in two pieces");
}

TEST(history_refuses_progress_ahead_of_events)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 3};

    rig_open(&r);
    make_events(&r);
    saw(&r, &w, 3, false);
    history_watch_progress(&w, 4);
    saw(&r, &w, 4, false);

    watch_is(&r, &w, "told of progress up to 4, and then of 4");
}

/* And then it left, and went on elsewhere after 5: nobody ever shows it 4 and 5. */
TEST(history_refuses_progress_beyond_what_came_at_all)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 3};

    rig_open(&r);
    make_events(&r);
    saw(&r, &w, 3, false);
    history_watch_progress(&w, 5);

    watch_is(&r, &w, "never saw revision 4");
}

TEST(history_refuses_a_compaction_that_ends_a_live_watch)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 3, .live_at = 3, .cut_at = 6};

    rig_open(&r);
    make_events(&r);
    saw(&r, &w, 3, false);

    watch_is(&r, &w, "was live at 3, and was canceled by a compaction at 6");
}

TEST(history_refuses_a_value_before_that_was_another)
{
    struct history_rig r;
    struct history_watch w = {.to_key = 12, .from = 4, .prev_kv = true};

    rig_open(&r);
    make_events(&r);
    struct pb_event e = event_put(&r, 0, r.h.events[2].op, 2, 4, 2);
    e.prev_kv = kv(&r, 0, r.h.events[1].op, 2, 3, 1); /* the other key's */
    history_watch_saw(&r.h, &w, &e, false);

    watch_is(&r, &w, "was shown revision 3 as what key 0 was before 4");
}

/* --- errors --- */

TEST(only_errors_that_exclude_an_effect_are_refusals)
{
    CHECK(writer_is_refusal(RPC_OUT_OF_RANGE,
                            BYTES("etcdserver: mvcc: required revision has been "
                                  "compacted"),
                            false));
    CHECK(writer_is_refusal(RPC_NOT_FOUND, BYTES("etcdserver: requested lease not found"), false));
    CHECK(writer_is_refusal(RPC_UNKNOWN, BYTES("etcdserver: too many requests"), false));
    CHECK(writer_is_refusal(RPC_UNKNOWN, BYTES("raft proposal dropped"), false));

    /* The same call, sent before, may have happened all the same. */
    CHECK(!writer_is_refusal(RPC_UNKNOWN, BYTES("etcdserver: too many requests"), true));
    CHECK(!writer_is_refusal(RPC_UNKNOWN, BYTES("raft proposal dropped"), true));
    /* The lease is not there because the same revoke, sent before, has ended it. */
    CHECK(!writer_is_refusal(RPC_NOT_FOUND, BYTES("etcdserver: requested lease not found"), true));
    CHECK(!writer_is_refusal(RPC_RESOURCE_EXHAUSTED,
                             BYTES("etcdserver: mvcc: database space exceeded"), false));
    CHECK(!writer_is_refusal(RPC_UNAVAILABLE, BYTES("etcdserver: no leader"), false));
    CHECK(!writer_is_refusal(RPC_UNAVAILABLE, BYTES("etcdserver: leader changed"), false));
    CHECK(!writer_is_refusal(RPC_UNAVAILABLE, BYTES("etcdserver: request timed out"), false));
    CHECK(!writer_is_refusal(RPC_UNAVAILABLE, BYTES("etcdserver: server stopped"), false));
    CHECK(!writer_is_refusal(RPC_UNKNOWN, BYTES("not a primary lessor"), false));
    CHECK(!writer_is_refusal(RPC_DEADLINE_EXCEEDED, BYTES("context deadline exceeded"), false));
}

/* --- hashes --- */

static void hashed(struct history_rig *r, unsigned member, int64_t asked, int64_t compacted,
                   int64_t revision, uint32_t hash)
{
    struct pb_response_header header = {.revision = 30};
    struct pb_hash_kv_response response = {
        .header = &header, .hash = hash, .compact_revision = compacted, .hash_revision = revision};

    history_hashed(&r->h, member, asked, 10, &response);
}

TEST(hashes_of_the_same_history_are_equal)
{
    struct history_rig r;

    rig_open(&r);
    hashed(&r, 0, 20, 5, 20, 0x1234);
    hashed(&r, 1, 20, 5, 20, 0x1234);
    hashed(&r, 1, 0, 5, 21, 0x9999);
    hashed(&r, 2, 20, 7, 20, 0x4567); /* something else was left */
    hashed(&r, 0, 20, 7, 20, 0x4567);
    history_check(&r.h);
    CHECK_EQ(r.h.hashes_compared, 2);
    is_fine(&r);
}

TEST(two_members_with_different_hashes_are_noticed)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    hashed(&r, 0, 20, 5, 20, 0x1234);
    hashed(&r, 0, 0, 5, 21, 0x5555);
    hashed(&r, 1, 20, 5, 20, 0x1235);
    is_refused(&r, "compacted at 5, is 00001235 by member 1, and was 00001234 by member 0");
}

TEST(a_hash_of_another_revision_than_asked_for_is_noticed)
{
    struct history_rig r;

    rig_open(&r);
    hashed(&r, 0, 20, 5, 19, 0x1234);
    is_refused(&r, "asked for the hash at 20, a member gave that at 19");
    rig_open(&r);
    hashed(&r, 0, 0, 5, 9, 0x1234); /* it had said before that it was at 10 */
    is_refused(&r, "asked for the hash at 10, a member gave that at 9");
    rig_open(&r);
    hashed(&r, 0, 31, 5, 31, 0x1234);
    is_refused(&r, "a member at 30 gave a hash of 5 to 31");
    rig_open(&r);
    hashed(&r, 0, 20, 21, 20, 0x1234);
    is_refused(&r, "a member at 30 gave a hash of 21 to 20");
}

/* etcd has two, then. */
TEST(where_no_key_is_alive_hashes_may_differ)
{
    struct history_rig r;

    rig_open(&r);
    put_whole(&r, 3, 0);
    uint64_t op = begin_delete(&r, 3, 4);
    answer_delete(&r, op, 3, 1);
    witness_delete(&r, 3, 3);
    hashed(&r, 0, 20, 5, 20, 0x1234);
    hashed(&r, 1, 20, 5, 20, 0x1235);
    is_fine(&r);
}
