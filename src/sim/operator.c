/* What an operator asks of members, one after the other. */
#include "sim/actor_int.h"

/*
 * Now; at the newest compaction, which the member may have finished, begun or not heard of; or
 * somewhere behind it, so that members are asked for the same one.
 */
static int64_t some_hash_revision(struct actor *a)
{
    const struct history *h = a->h;
    uint64_t dice = rng_below(&a->rng, 8);
    int64_t from = h->compacted > 1 ? h->compacted : 1;

    if (dice < 2 || h->told <= 1)
        return 0;
    if (dice < 5 && h->compacted > 1)
        return h->compacted;
    if (dice < 6)
        return h->hash_count > 0 ? h->hashes[h->hash_count - 1].revision : h->told;
    if (dice == 6)
        from = from > 4 ? from - 4 : 1; /* perhaps compacted */
    return (int64_t)rng_between(&a->rng, (uint64_t)from, (uint64_t)h->told);
}

static void begin_hash_kv(struct actor *a)
{
    int64_t revision = some_hash_revision(a);
    struct asked *q =
        writer_ask(a, OP_HASH_KV, "/etcdserverpb.Maintenance/HashKV", &pb_hash_kv_request_schema,
                   &(struct pb_hash_kv_request){.revision = revision});

    q->old_revision = revision;
    q->stale = a->o.server_count > 1; /* the member's own */
}

static void begin_hash(struct actor *a)
{
    struct asked *q = writer_ask(a, OP_MAINTENANCE, "/etcdserverpb.Maintenance/Hash",
                                 &pb_hash_request_schema, &(struct pb_empty){0});

    q->stale = a->o.server_count > 1;
}

static void begin_defragmentation(struct actor *a)
{
    struct asked *q = writer_ask(a, OP_OTHER, "/etcdserverpb.Maintenance/Defragment",
                                 &pb_defragment_request_schema, &(struct pb_empty){0});

    q->is_headless = true;
}

/* To somebody it has heard of, be it the one who leads. False: there is none. */
static bool begin_move(struct actor *a)
{
    size_t first = rng_below(&a->rng, a->o.server_count);

    for (size_t i = 0; i < a->o.server_count; i++) {
        uint64_t id = a->ids[(first + i) % a->o.server_count];
        if (id == 0)
            continue;
        struct asked *q = writer_ask(a, OP_MAINTENANCE, "/etcdserverpb.Maintenance/MoveLeader",
                                     &pb_move_leader_request_schema,
                                     &(struct pb_move_leader_request){.target_id = id});
        q->is_headless = true;
        return true;
    }
    return false;
}

void operator_begin(struct actor *a)
{
    uint64_t dice = rng_below(&a->rng, 10);

    if (dice < 2)
        begin_defragmentation(a);
    else if (dice < 3)
        begin_hash(a);
    else if (dice >= 5 || !begin_move(a))
        begin_hash_kv(a);
}

void operator_hashed(struct actor *a, const struct asked *q, struct bytes message)
{
    struct arena arena = {0};
    struct pb_hash_kv_response r;

    if (pb_decode_hash_kv_response(message, &arena, &r) == ERR_OK && r.header)
        history_hashed(a->h, (unsigned)a->server, q->old_revision, q->floor, &r);
    else
        history_fail(a->h, "a hash cannot be decoded");
    arena_free(&arena);
}
