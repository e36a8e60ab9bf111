/*
 * Lock and Election where somebody has to wait: one story, told by real etcd and by our own server,
 * must be the same word for word. What takes nobody's time is compared by random requests, too
 * (differential_test.c).
 *
 * Left out are cluster and member ids and raft's term; and of what observers are told the header,
 * whose revision is that of the moment of sending.
 */
#include "base/mem.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum { PATIENCE_MS = 30000 };

struct told {
    struct peer peer;
    struct caller caller;
    struct line *line;
    struct arena arena;
    struct buf text; /* the story */
    struct ask observer;
    size_t seen;         /* by the observer */
    struct buf observed; /* of which nobody says when it comes */
};

static void tell_result(struct told *t, const char *what, struct ask *a,
                        const struct pb_schema *schema, size_t size)
{
    void *message = arena_alloc(&t->arena, size);
    struct pb_header_response *front = message; /* the header comes first in all of them */

    ask_wait(a);
    buf_printf(&t->text, "%s: ", what);
    if (a->code != RPC_OK) {
        buf_printf(&t->text, "error %d: %s\n", a->code, buf_str(&a->text));
        return;
    }
    CHECK_EQ(pb_decode(schema, buf_bytes(&a->answer), &t->arena, message), ERR_OK);
    front->header = &(struct pb_response_header){.revision = front->header->revision};
    pb_dump(schema, message, &t->text);
}

#define TELL(t, what, a, message) tell_result(t, what, a, &pb_##message##_schema, sizeof(union any))

union any {
    struct pb_lock_response lock;
    struct pb_campaign_response campaign;
    struct pb_leader_response leader;
    struct pb_header_response header;
};

static void do_apart(struct told *t, const char *path, const struct pb_schema *schema,
                     const void *message)
{
    struct ask a = {.line = t->line};

    ask_start(&a, path, schema, message);
    ask_wait(&a);
    CHECK_EQ(a.code, RPC_OK);
    ask_free(&a);
}

static void grant(struct told *t, int64_t id)
{
    do_apart(t, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
             &(struct pb_lease_grant_request){.id = id, .ttl = 1000});
}

static void revoke(struct told *t, int64_t id)
{
    do_apart(t, "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema,
             &(struct pb_lease_id){.id = id});
}

static bool has_key(struct told *t, const char *key)
{
    struct ask a = {.line = t->line};
    struct pb_range_response r;

    ask_start(&a, "/etcdserverpb.KV/Range", &pb_range_request_schema,
              &(struct pb_range_request){.key = bytes_of_str(key), .count_only = true});
    ask_wait(&a);
    ask_read(&a, &pb_range_response_schema, &t->arena, &r);
    ask_free(&a);
    return r.count > 0;
}

/* That a key has come or gone is how others see that somebody waits, or waits no more. */
static void until_key(struct told *t, const char *key, bool is_there)
{
    uint64_t until_ns = caller_now_ns(&t->caller) + PATIENCE_MS * NS_PER_MS;

    while (has_key(t, key) != is_there) {
        if (caller_now_ns(&t->caller) > until_ns)
            test_fail(__FILE__, __LINE__, "%s: key %s is%s there", t->peer.program, key,
                      is_there ? " not" : "");
        caller_turn(&t->caller, 5);
    }
}

static void start_lock(struct told *t, struct ask *a, const char *name, int64_t lease)
{
    a->line = t->line;
    ask_start(a, "/v3lockpb.Lock/Lock", &pb_lock_request_schema,
              &(struct pb_lock_request){.name = bytes_of_str(name), .lease = lease});
}

static void unlock(struct told *t, const char *key)
{
    struct ask a = {.line = t->line};

    ask_start(&a, "/v3lockpb.Lock/Unlock", &pb_unlock_request_schema,
              &(struct pb_unlock_request){.key = bytes_of_str(key)});
    TELL(t, "unlock", &a, unlock_response);
    ask_free(&a);
}

static void tell_of_locks(struct told *t)
{
    struct ask asks[6] = {0};

    for (int64_t id = 0xa1; id <= 0xa5; id++)
        grant(t, id);
    start_lock(t, &asks[0], "l", 0xa1);
    TELL(t, "first", &asks[0], lock_response);
    start_lock(t, &asks[1], "l", 0xa2);
    until_key(t, "l/a2", true);
    start_lock(t, &asks[2], "l", 0xa3);
    until_key(t, "l/a3", true);
    ask_cancel(&asks[1]);
    until_key(t, "l/a2", false);
    unlock(t, "l/a1");
    TELL(t, "third", &asks[2], lock_response);

    start_lock(t, &asks[3], "l", 0xa4);
    until_key(t, "l/a4", true);
    revoke(t, 0xa4);
    asks[4].timeout_ns = 300 * NS_PER_MS;
    start_lock(t, &asks[4], "l", 0xa5);
    until_key(t, "l/a5", true);
    ask_wait(&asks[4]);
    CHECK(asks[4].code !=
          RPC_OK); /* etcd says deadline exceeded, or canceled: whichever is first */
    until_key(t, "l/a5", false);
    unlock(t, "l/a3");
    TELL(t, "expired", &asks[3], lock_response);
    start_lock(t, &asks[5], "l", 0x99);
    TELL(t, "unknown lease", &asks[5], lock_response);
    for (size_t i = 0; i < ARRAY_LEN(asks); i++)
        ask_free(&asks[i]);
}

/* --- elections --- */

static void observed(struct ask *a, struct bytes message)
{
    struct told *t = a->context;
    struct pb_leader_response r;

    CHECK_EQ(pb_decode_leader_response(message, &t->arena, &r), ERR_OK);
    r.header = NULL;
    buf_append_str(&t->observed, "observed: ");
    pb_dump(&pb_leader_response_schema, &r, &t->observed);
    t->seen++;
}

static void until_seen(struct told *t, size_t count)
{
    uint64_t until_ns = caller_now_ns(&t->caller) + PATIENCE_MS * NS_PER_MS;

    while (t->seen < count) {
        if (caller_now_ns(&t->caller) > until_ns)
            test_fail(__FILE__, __LINE__, "%s: the observer has seen %zu", t->peer.program,
                      t->seen);
        caller_turn(&t->caller, 5);
    }
}

static void start_campaign(struct told *t, struct ask *a, int64_t lease, const char *value)
{
    a->line = t->line;
    ask_start(a, "/v3electionpb.Election/Campaign", &pb_campaign_request_schema,
              &(struct pb_campaign_request){
                  .name = BYTES("e"), .lease = lease, .value = bytes_of_str(value)});
}

static void resign(struct told *t, const struct pb_leader_key *leader)
{
    struct ask a = {.line = t->line};

    ask_start(&a, "/v3electionpb.Election/Resign", &pb_resign_request_schema,
              &(struct pb_resign_request){.leader = leader});
    TELL(t, "resign", &a, resign_response);
    ask_free(&a);
}

static void proclaim(struct told *t, const struct pb_leader_key *leader, const char *value)
{
    struct ask a = {.line = t->line};

    ask_start(&a, "/v3electionpb.Election/Proclaim", &pb_proclaim_request_schema,
              &(struct pb_proclaim_request){.leader = leader, .value = bytes_of_str(value)});
    TELL(t, "proclaim", &a, proclaim_response);
    ask_free(&a);
}

static struct pb_leader_key leader_of(struct told *t, struct ask *a)
{
    struct pb_campaign_response r;

    ask_read(a, &pb_campaign_response_schema, &t->arena, &r);
    return *r.leader;
}

static void tell_of_elections(struct told *t)
{
    struct ask one = {0}, two = {0}, three = {0}, again = {0};

    for (int64_t id = 0xb1; id <= 0xb3; id++)
        grant(t, id);
    t->observer = (struct ask){.line = t->line, .on_message = observed, .context = t};
    ask_start(&t->observer, "/v3electionpb.Election/Observe", &pb_leader_request_schema,
              &(struct pb_leader_request){.name = BYTES("e")});
    start_campaign(t, &one, 0xb1, "one");
    ask_wait(&one);
    until_seen(t, 1);
    TELL(t, "one", &one, campaign_response);
    start_campaign(t, &two, 0xb2, "two");
    until_key(t, "e/b2", true);
    start_campaign(t, &three, 0xb3, "three");
    until_key(t, "e/b3", true);
    struct pb_leader_key first = leader_of(t, &one);
    proclaim(t, &first, "more");
    until_seen(t, 2);
    ask_cancel(&two);
    until_key(t, "e/b2", false);
    resign(t, &first);
    until_seen(t, 3);
    TELL(t, "three", &three, campaign_response);
    proclaim(t, &first, "too late");
    resign(t, &first);
    start_campaign(t, &again, 0xb3, "something else");
    until_seen(t, 4);
    TELL(t, "again", &again, campaign_response);
    ask_cancel(&t->observer);
    ask_free(&t->observer);
    ask_free(&one);
    ask_free(&two);
    ask_free(&three);
    ask_free(&again);
}

static const char *story(struct told *t, bool ours)
{
    const char *dir = arena_printf(&t->arena, "%s/%s", test_tmp_dir(), ours ? "ours" : "etcd");

    if (ours)
        peer_open_ours(&t->peer, dir);
    else
        peer_open(&t->peer, dir);
    peer_start(&t->peer, "--unsafe-no-fsync");
    caller_open(&t->caller, &t->peer);
    t->line = caller_connect(&t->caller);
    tell_of_locks(t);
    tell_of_elections(t);
    buf_append(&t->text, buf_bytes(&t->observed));
    caller_close(&t->caller);
    peer_stop(&t->peer);
    peer_close(&t->peer);
    return buf_str(&t->text);
}

static void told_free(struct told *t)
{
    buf_free(&t->text);
    buf_free(&t->observed);
    arena_free(&t->arena);
}

TEST(locks_and_elections_are_etcds)
{
    struct told etcd = {0}, ours = {0};

    const char *theirs = story(&etcd, false);

    CHECK_STR(story(&ours, true), theirs);
    CHECK(strstr(theirs, "mutex: session is expired") && strstr(theirs, "election: not leader"));
    told_free(&etcd);
    told_free(&ours);
}
