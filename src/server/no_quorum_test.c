/* One of three members is alive, and clients send it more writes than it can keep: whatever needs
 * no quorum is answered as if they were not there, and when there is a leader again everybody's
 * writes have their turn. */
#include "server/cluster_rig_test.h"
#include "server/server_int.h"

enum { FLOODS = 5, PUTS_EACH = 7, PUTS = FLOODS * PUTS_EACH, PUT_BYTES = MIB };

/* Clients that flood member 1 from a connection each. */
struct flood {
    struct cluster_rig rig;
    struct client *clients[FLOODS];
    struct visit puts[PUTS];
};

static void step(struct flood *f)
{
    cluster_rig_step(&f->rig);
    for (unsigned i = 0; i < FLOODS; i++)
        visit_hear(f->clients[i]);
}

static uint64_t until_over(struct flood *f, struct visit *v)
{
    uint64_t began_ms = cluster_rig_now_ms(&f->rig);

    while (!v->is_over)
        step(f);
    return cluster_rig_now_ms(&f->rig) - began_ms;
}

static void ask_put(struct client *c, struct visit *v, const char *key, struct bytes value)
{
    struct buf wire = {0};

    *v = (struct visit){0};
    pb_encode(&pb_put_request_schema,
              &(struct pb_put_request){.key = bytes_of_str(key), .value = value}, &wire);
    v->call = client_ask(c, &(struct client_request){.path = "/etcdserverpb.KV/Put", .context = v},
                         buf_bytes(&wire));
    client_flush(c);
    buf_free(&wire);
}

/* Until all that they send is there, and waits. */
static void open_flood(struct flood *f, struct bytes value)
{
    struct cluster_rig *r = &f->rig;

    *f = (struct flood){0};
    cluster_rig_open(r, 3, NULL);
    cluster_rig_start_all(r);
    cluster_rig_put(r, 1, "k", "v");
    cluster_rig_until_equal(r, 1);
    cluster_rig_crash(r, 2);
    cluster_rig_crash(r, 3);
    while (r->at[1]->server->facts.leader != 0)
        cluster_rig_step(r);
    for (unsigned i = 0; i < FLOODS; i++)
        f->clients[i] = cluster_rig_new_client(r, 1);
    for (unsigned i = 0; i < PUTS; i++)
        ask_put(f->clients[i % FLOODS], &f->puts[i], "flood", value);
    for (uint64_t until_ms = cluster_rig_now_ms(r) + 1000; cluster_rig_now_ms(r) < until_ms;)
        step(f);
    for (unsigned i = 0; i < PUTS; i++)
        CHECK(!f->puts[i].is_over);
}

static void close_flood(struct flood *f)
{
    for (unsigned i = 0; i < PUTS; i++)
        visit_free(&f->puts[i]);
    for (unsigned i = 0; i < FLOODS; i++)
        client_close(f->clients[i]);
    cluster_rig_close(&f->rig);
}

static void check_answered(struct flood *f, const char *path, const struct pb_schema *schema,
                           const void *message)
{
    struct visit v;

    cluster_rig_ask(&f->rig, 1, &v, path, schema, message);
    uint64_t took_ms = until_over(f, &v);

    CHECK_EQ(v.code, RPC_OK);
    CHECK(took_ms < 200); /* the wire itself takes a few; a put is given up after seconds */
    visit_free(&v);
}

TEST(what_needs_no_quorum_is_answered_however_many_writes_wait_for_one)
{
    struct flood *f = mem_new(struct flood);
    uint8_t *value = mem_alloc(PUT_BYTES);
    memset(value, 'x', PUT_BYTES);
    open_flood(f, bytes_of(value, PUT_BYTES));
    const struct pending *p = &f->rig.at[1]->server->pending;

    CHECK(p->queue_bytes >= PENDING_QUEUE_BYTES_MAX);
    CHECK(p->held.count > 0);
    check_answered(f, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                   &(struct pb_range_request){.key = BYTES("k"), .serializable = true});
    check_answered(f, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
                   &(struct pb_empty){0});
    check_answered(f, "/etcdserverpb.Lease/LeaseLeases", &pb_lease_leases_request_schema,
                   &(struct pb_empty){0});

    for (unsigned i = 0; i < PUTS; i++) {
        until_over(f, &f->puts[i]);
        CHECK_EQ(f->puts[i].code, RPC_DEADLINE_EXCEEDED);
        CHECK_STR(buf_str(&f->puts[i].text), "context deadline exceeded");
    }
    CHECK_EQ(p->queue_bytes, 0);
    CHECK_EQ(p->held.count, 0);

    close_flood(f);
    mem_free(f);
    mem_free(value);
}

/* Its write has come last. Those of the flood before it are in the queue already, and some of those
 * that are not wait for it. */
TEST(a_flood_of_writes_leaves_another_clients_its_turn_when_there_is_a_leader)
{
    struct flood *f = mem_new(struct flood);
    uint8_t *value = mem_alloc(PUT_BYTES);
    struct arena arena = {0};
    struct pb_put_response response;
    struct visit honest;
    unsigned before = 0;
    memset(value, 'x', PUT_BYTES);
    open_flood(f, bytes_of(value, PUT_BYTES));
    unsigned queued = (unsigned)f->rig.at[1]->server->pending.queue_count;
    ask_put(f->rig.at[1]->client, &honest, "honest", BYTES("v"));
    for (uint64_t until_ms = cluster_rig_now_ms(&f->rig) + 200;
         cluster_rig_now_ms(&f->rig) < until_ms;)
        step(f);

    cluster_rig_start(&f->rig, 2);
    until_over(f, &honest);
    for (unsigned i = 0; i < PUTS; i++)
        until_over(f, &f->puts[i]);

    CHECK_EQ(honest.code, RPC_OK);
    visit_decode(&honest, 0, &pb_put_response_schema, &arena, &response);
    int64_t honest_revision = response.header->revision;
    for (unsigned i = 0; i < PUTS; i++) {
        CHECK_EQ(f->puts[i].code, RPC_OK);
        visit_decode(&f->puts[i], 0, &pb_put_response_schema, &arena, &response);
        before += response.header->revision < honest_revision;
    }
    CHECK(before >= queued);
    CHECK(before <= queued + FLOODS);
    CHECK(before < PUTS - FLOODS);

    arena_free(&arena);
    visit_free(&honest);
    close_flood(f);
    mem_free(f);
    mem_free(value);
}
