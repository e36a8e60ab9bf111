/* The state is replaced under a member's clients, by an image of its own. */
#include "server/server_rig_test.h"

#include "base/mem.h"

#include <stdio.h>

#define PUT   "/etcdserverpb.KV/Put", &pb_put_request_schema
#define RANGE "/etcdserverpb.KV/Range", &pb_range_request_schema

static void install(struct server_rig *r)
{
    uint64_t before = server_installed(r->server);

    CHECK(server_install_own_image(r->server, 0));
    CHECK(!server_install_own_image(r->server, 0)); /* one at a time */
    while (server_installed(r->server) == before)
        server_rig_step(r);
}

static void range_all(struct client *c, struct visit *v)
{
    server_rig_ask(c, v, RANGE,
                   &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
}

static void compact(struct server_rig *r, int64_t revision)
{
    struct visit v;

    server_rig_ask(r->client, &v, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                   &(struct pb_compaction_request){.revision = revision});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
}

static const char *key_of(unsigned n)
{
    static char key[16];

    snprintf(key, sizeof(key), "k%05u", n);
    return key;
}

/* --- reads --- */

enum { LARGE_KEYS = 40, LARGE_BYTES = 200000 };

static void put_large(struct server_rig *r, char letter)
{
    char *value = mem_alloc(LARGE_BYTES + 1);

    memset(value, letter, LARGE_BYTES);
    value[LARGE_BYTES] = 0;
    for (unsigned i = 0; i < LARGE_KEYS; i++)
        server_rig_put(r, key_of(i), value);
    mem_free(value);
}

/* The other client asks for everything, and does not read the answer. */
static void ask_and_doze(struct server_rig *r, struct visit *v)
{
    server_rig_put(r, "before", "");
    put_large(r, 'a');
    server_rig_for_ms(r, 100);
    conn_pause(client_conn(r->other));
    range_all(r->other, v);
    server_rig_for_ms(r, 1000);
    CHECK(!v->is_over);
}

TEST(a_reply_under_way_is_of_the_state_that_it_began_on)
{
    struct server_rig r;
    struct visit v;
    struct arena arena = {0};
    struct pb_range_response response;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    ask_and_doze(&r, &v);

    install(&r);
    put_large(&r, 'b');
    install(&r);
    server_rig_for_ms(&r, 30000);
    conn_resume(client_conn(r.other));
    server_rig_until_over(&r, &v);

    CHECK_EQ(v.code, RPC_OK);
    visit_decode(&v, 0, &pb_range_response_schema, &arena, &response);
    CHECK_EQ(response.kvs.count, LARGE_KEYS);
    for (size_t i = 0; i < response.kvs.count; i++) {
        CHECK_EQ(response.kvs.at[i].value.len, LARGE_BYTES);
        CHECK_EQ(response.kvs.at[i].value.at[LARGE_BYTES - 1], 'a');
    }

    visit_free(&v);
    arena_free(&arena);
    server_rig_close(&r); /* which waits until the old states are gone */
}

TEST(a_reply_that_is_not_read_holds_an_old_state_for_a_minute_at_most)
{
    struct server_rig r;
    struct visit v, again;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    ask_and_doze(&r, &v);

    server_rig_for_ms(&r, 100000); /* before, nobody minds */
    install(&r);
    server_rig_for_ms(&r, 62000);
    CHECK(server_rig_logged(&r, "gave up a reply whose reader holds up"));
    conn_resume(client_conn(r.other));
    server_rig_until_over(&r, &v);

    CHECK(v.code != RPC_OK);
    range_all(r.other, &again);
    server_rig_until_over(&r, &again);
    CHECK_EQ(again.code, RPC_OK);

    visit_free(&v);
    visit_free(&again);
    server_rig_close(&r);
}

/* --- watchers --- */

static void watch_from(struct client *c, struct visit *v, int64_t revision)
{
    struct pb_watch_create_request create = {
        .key = BYTES("k"), .range_end = BYTES("l"), .start_revision = revision};

    *v = (struct visit){0};
    v->call = client_start(
        c, &(struct client_request){.path = "/etcdserverpb.Watch/Watch", .context = v});
    api_rig_say(v, &pb_watch_request_schema,
                &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    client_flush(c);
}

/* Every event that came has the next revision. Returns the one behind the last. */
static int64_t check_events(const struct visit *v, int64_t next, int64_t *compact_revision)
{
    struct arena arena = {0};

    *compact_revision = 0;
    for (size_t i = 0; i < v->message_count; i++) {
        struct pb_watch_response m;
        visit_decode(v, i, &pb_watch_response_schema, &arena, &m);
        for (size_t j = 0; j < m.events.count; j++)
            CHECK_EQ(m.events.at[j].kv->mod_revision, next++);
        if (m.canceled)
            *compact_revision = m.compact_revision;
    }
    arena_free(&arena);
    return next;
}

TEST(a_watcher_goes_on_at_its_own_next_revision)
{
    struct server_rig r;
    struct visit live, ahead;
    int64_t compacted;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    server_rig_put(&r, "k", "2");
    watch_from(r.client, &live, 2);
    watch_from(r.other, &ahead, 22);

    for (unsigned i = 0; i < 40; i++) {
        server_rig_put(&r, "k", "");
        if (i % 4 == 0)
            install(&r);
    }
    server_rig_for_ms(&r, 1000);

    CHECK_EQ(check_events(&live, 2, &compacted), 43);
    CHECK_EQ(compacted, 0);
    CHECK_EQ(check_events(&ahead, 22, &compacted), 43);
    CHECK_EQ(compacted, 0);

    visit_free(&live);
    visit_free(&ahead);
    server_rig_close(&r);
}

/* It was live when the compaction was applied, and would have been given the rest. But history is
 * that of the image now, in which there may be none. */
TEST(a_watcher_below_the_compact_revision_of_an_image_is_cancelled)
{
    enum { PUTS = 60 };
    char value[20001];
    memset(value, 'v', 20000);
    value[20000] = 0;

    for (unsigned installs = 0; installs < 2; installs++) {
        struct server_rig r;
        struct visit v;
        int64_t compacted;
        server_rig_open(&r, NULL);
        server_rig_start(&r);
        watch_from(r.other, &v, 2);
        server_rig_for_ms(&r, 100);
        conn_pause(client_conn(r.other));
        for (unsigned i = 0; i < PUTS; i++)
            server_rig_put(&r, "k", value);
        compact(&r, PUTS + 1);

        if (installs)
            install(&r);
        conn_resume(client_conn(r.other));
        server_rig_for_ms(&r, 5000);

        int64_t next = check_events(&v, 2, &compacted);
        CHECK_EQ(compacted, installs ? PUTS + 1 : 0);
        CHECK(installs ? next < PUTS : next == PUTS + 2);

        visit_free(&v);
        server_rig_close(&r);
    }
}

/* --- those who wait --- */

TEST(a_proposal_that_is_overtaken_times_out_at_once_and_a_read_goes_on)
{
    enum { CALLS = 8, APPLIED = CALLS / 2 };
    struct server_rig r;
    struct visit puts[CALLS], later, read;
    struct arena arena = {0};
    struct pb_range_response response;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    server_rig_put(&r, "k", "v");
    server_rig_for_ms(&r, 200);

    uint64_t began_ms = server_rig_now_ms(&r);
    CHECK(server_install_own_image(r.server, CALLS));
    for (unsigned i = 0; i < CALLS; i++)
        server_rig_ask(r.client, &puts[i], PUT,
                       &(struct pb_put_request){.key = bytes_of_str(key_of(i))});
    while (server_status(r.server).committed < server_status(r.server).applied + CALLS)
        server_rig_step(&r);
    range_all(r.other, &read);
    server_rig_ask(r.other, &later, PUT, &(struct pb_put_request){.key = BYTES("later")});
    for (unsigned i = 0; i < CALLS; i++)
        server_rig_until_over(&r, &puts[i]);
    server_rig_until_over(&r, &read);
    server_rig_until_over(&r, &later);

    CHECK_EQ(server_installed(r.server), 1);
    CHECK(server_rig_now_ms(&r) < began_ms + 1000);
    for (unsigned i = 0; i < CALLS; i++) {
        CHECK_EQ(puts[i].code, i < APPLIED ? RPC_OK : RPC_UNAVAILABLE);
        CHECK_STR(buf_str(&puts[i].text), i < APPLIED ? "" : "etcdserver: request timed out");
        visit_free(&puts[i]);
    }
    CHECK_EQ(later.code, RPC_OK);
    visit_decode(&read, 0, &pb_range_response_schema, &arena, &response);
    CHECK_EQ(response.count, CALLS + 1); /* they have happened all the same */

    visit_free(&read);
    visit_free(&later);
    arena_free(&arena);
    server_rig_close(&r);
}

/* The image has applied that somebody logged in, and so does the member, until it is installed. */
TEST(who_logs_in_while_an_image_is_made_is_let_in_once)
{
    enum { LOGINS = 4 };
    struct server_rig r;
    struct visit visits[LOGINS], one;
    struct pb_authenticate_request login = {.name = BYTES("root"), .password = BYTES("root")};
    static const char *const flags[] = {"--bcrypt-cost=4", NULL};
    server_rig_open(&r, flags);
    server_rig_start(&r);
    server_rig_ask(
        r.client, &one, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema,
        &(struct pb_auth_user_add_request){.name = BYTES("root"), .password = BYTES("root")});
    server_rig_until_over(&r, &one);
    visit_free(&one);
    server_rig_ask(
        r.client, &one, "/etcdserverpb.Auth/UserGrantRole", &pb_auth_user_grant_role_request_schema,
        &(struct pb_auth_user_grant_role_request){.user = BYTES("root"), .role = BYTES("root")});
    server_rig_until_over(&r, &one);
    visit_free(&one);
    server_rig_ask(r.client, &one, "/etcdserverpb.Auth/AuthEnable", &pb_auth_enable_request_schema,
                   &(struct pb_empty){0});
    server_rig_until_over(&r, &one);
    visit_free(&one);
    server_rig_for_ms(&r, 200);

    CHECK(server_install_own_image(r.server, LOGINS));
    for (unsigned i = 0; i < LOGINS; i++)
        server_rig_ask(r.client, &visits[i], "/etcdserverpb.Auth/Authenticate",
                       &pb_authenticate_request_schema, &login);
    for (unsigned i = 0; i < LOGINS; i++)
        server_rig_until_over(&r, &visits[i]);
    while (server_installed(r.server) == 0)
        server_rig_step(&r);

    server_rig_ask(r.client, &one, "/etcdserverpb.Auth/Authenticate",
                   &pb_authenticate_request_schema, &login);
    server_rig_until_over(&r, &one);
    CHECK_EQ(one.code, RPC_OK); /* also by the state that has come in its place */
    visit_free(&one);
    for (unsigned i = 0; i < LOGINS; i++)
        visit_free(&visits[i]);
    server_rig_close(&r);
}

/* A transaction of so many operations takes slices, of which the member has done the first when the
 * image comes, which has it whole. */
TEST(an_entry_half_applied_is_there_once_and_whole)
{
    enum { KEYS = 400, OPS = 4 };
    struct server_rig r;
    struct visit txns[2], read;
    struct arena arena = {0};
    struct pb_range_response response;
    struct pb_range_request all = {
        .key = BYTES("k"), .range_end = BYTES("l"), .sort_target = PB_SORT_BY_VALUE};
    struct pb_put_request put = {.key = BYTES("z")};
    struct pb_request_op ops[OPS + 1];
    for (unsigned i = 0; i < OPS; i++)
        ops[i] = (struct pb_request_op){.which = PB_OP_RANGE, .range = &all};
    ops[OPS] = (struct pb_request_op){.which = PB_OP_PUT, .put = &put};
    struct pb_txn_request txn = {.success = {ops, OPS + 1}};
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    for (unsigned i = 0; i < KEYS; i++)
        server_rig_put(&r, key_of(i), "v");

    CHECK(server_install_own_image(r.server, 2));
    for (unsigned i = 0; i < 2; i++)
        server_rig_ask(r.client, &txns[i], "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
    for (unsigned i = 0; i < 2; i++)
        server_rig_until_over(&r, &txns[i]);

    CHECK_EQ(server_installed(r.server), 1);
    CHECK_EQ(txns[0].code, RPC_UNAVAILABLE); /* it was under way */
    CHECK_EQ(txns[1].code, RPC_UNAVAILABLE);
    server_rig_ask(r.client, &read, RANGE, &(struct pb_range_request){.key = BYTES("z")});
    server_rig_until_over(&r, &read);
    visit_decode(&read, 0, &pb_range_response_schema, &arena, &response);
    CHECK_EQ(response.kvs.at[0].version, 2);
    CHECK_EQ(response.header->revision, KEYS + 3);

    for (unsigned i = 0; i < 2; i++)
        visit_free(&txns[i]);
    visit_free(&read);
    arena_free(&arena);
    server_rig_close(&r);
}

/* --- leases, compaction, large deletes --- */

TEST(what_was_under_way_in_the_store_goes_on_in_the_image)
{
    struct server_rig r;
    struct visit grant, gone, read;
    struct arena arena = {0};
    struct pb_range_response response;
    server_rig_open(&r, (const char *const[]){"--backend-batch-interval", "20s", NULL});
    server_rig_start(&r);
    server_rig_ask(r.client, &grant, "/etcdserverpb.Lease/LeaseGrant",
                   &pb_lease_grant_request_schema,
                   &(struct pb_lease_grant_request){.id = 7, .ttl = 5});
    server_rig_until_over(&r, &grant);
    CHECK_EQ(grant.code, RPC_OK);
    for (unsigned i = 0; i < 3000; i++)
        server_rig_put(&r, key_of(i), "v");
    struct pb_put_request leased = {.key = BYTES("leased"), .lease = 7};
    server_rig_ask(r.client, &read, PUT, &leased);
    server_rig_until_over(&r, &read);
    visit_free(&read);

    server_rig_ask(r.client, &gone, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                   &(struct pb_delete_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    server_rig_until_over(&r, &gone); /* and is not settled */
    compact(&r, 3000);
    install(&r);
    compact(&r, 3002);
    install(&r);
    server_rig_for_ms(&r, 20000);

    range_all(r.client, &read);
    server_rig_until_over(&r, &read);
    visit_decode(&read, 0, &pb_range_response_schema, &arena, &response);
    CHECK_EQ(response.count, 0);
    visit_free(&read);
    server_rig_ask(r.client, &read, RANGE, &(struct pb_range_request){.key = BYTES("leased")});
    server_rig_until_over(&r, &read);
    visit_decode(&read, 0, &pb_range_response_schema, &arena, &response);
    CHECK_EQ(response.count, 0); /* its time was up, in the last state if not before */
    CHECK(server_rig_logged(&r, "finished scheduled compaction"));

    visit_free(&grant);
    visit_free(&gone);
    visit_free(&read);
    arena_free(&arena);
    server_rig_close(&r);
}

/* --- the end --- */

TEST(a_member_stops_while_an_image_is_asked_for_or_made)
{
    for (unsigned steps = 0; steps < 30; steps++) {
        struct server_rig r;
        server_rig_open(&r, NULL);
        CHECK_EQ(server_rig_try(&r), ERR_OK);
        CHECK(server_install_own_image(r.server, 60)); /* it has nothing to make one of yet */

        for (unsigned i = 0; i < steps; i++)
            server_rig_step(&r);
        server_rig_stop(&r);

        server_rig_start(&r);
        server_rig_put(&r, "k", "v");
        server_rig_close(&r);
    }
}

/* --- crashes --- */

/* The image is ahead of the old store: from the record on, the log's last snapshot is one that only
 * the image has. */
TEST(a_crash_at_any_step_of_an_install_leaves_one_of_the_two_states)
{
    enum { BEFORE = 20, AHEAD = 8 };
    bool installed = false;
    unsigned taken_up = 0; /* installs that the next boot has ended */

    for (unsigned steps = 0; !installed; steps++) {
        struct server_rig r;
        struct visit puts[AHEAD], read;
        struct arena arena = {0};
        struct pb_range_response response;
        server_rig_open(&r, (const char *const[]){"--backend-batch-interval", "20s",
                                                  "--snapshot-count", "10000", NULL});
        server_rig_start(&r);
        for (unsigned i = 0; i < BEFORE; i++)
            server_rig_put(&r, key_of(i), "v");
        CHECK(server_install_own_image(r.server, AHEAD));
        for (unsigned i = 0; i < AHEAD; i++)
            server_rig_ask(r.client, &puts[i], PUT,
                           &(struct pb_put_request){.key = bytes_of_str(key_of(BEFORE + i))});
        for (unsigned i = 0; i < steps && server_installed(r.server) == 0; i++)
            server_rig_step(&r);
        installed = server_installed(r.server) > 0;
        uint64_t durable = server_status(r.server).durable_store;
        for (unsigned i = 0; i < AHEAD; i++)
            visit_free(&puts[i]);

        server_rig_crash(&r, (enum fake_crash)(steps % 3));
        CHECK_EQ(server_rig_try(&r), ERR_OK);
        taken_up += server_status(r.server).durable_store > durable;
        server_rig_stop(&r);
        server_rig_start(&r);

        range_all(r.client, &read);
        server_rig_until_over(&r, &read);
        visit_decode(&read, 0, &pb_range_response_schema, &arena, &response);
        CHECK(response.count >= BEFORE);
        CHECK(response.count <= BEFORE + AHEAD);
        CHECK_EQ(response.header->revision, response.count + 1); /* each of them once */
        install(&r); /* what is left over is in nobody's way */
        visit_free(&read);
        arena_free(&arena);
        server_rig_close(&r);
    }
    CHECK(taken_up > 0);
}
