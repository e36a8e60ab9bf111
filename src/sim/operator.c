/* What an operator asks of members, one after the other. */
#include "sim/actor_int.h"
#include "sim/restored.h"

const char operator_backup_path[] = "/etcdserverpb.Maintenance/Snapshot";

enum { DOZE_MS_MAX = 400 /* between two pieces of a backup, of one that reads slowly */ };

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

static void begin_backup(struct actor *a)
{
    a->reads_slowly = rng_chance(&a->rng, 1, 3);
    writer_ask(a, OP_MAINTENANCE, operator_backup_path, &pb_snapshot_request_schema,
               &(struct pb_empty){0});
}

void operator_begin(struct actor *a)
{
    uint64_t dice = rng_below(&a->rng, 12);

    if (dice >= 10)
        begin_backup(a);
    else if (dice < 2)
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

/* --- backups --- */

/* Each piece says how much is still to come. */
void operator_hears_piece(struct actor *a, struct bytes message)
{
    struct arena arena = {0};
    struct pb_snapshot_response r;

    if (pb_decode_snapshot_response(message, &arena, &r) != ERR_OK || r.header) {
        history_fail(a->h, "a piece of a backup cannot be decoded");
        arena_free(&arena);
        return;
    }
    if (a->backup.len == 0)
        a->backup_bytes = r.blob.len + r.remaining_bytes;
    buf_append(&a->backup, r.blob);
    if (a->backup.len + r.remaining_bytes < a->backup_bytes)
        history_fail(a->h, "a backup of %" PRIu64 " bytes has only %zu, and %" PRIu64 " to come",
                     a->backup_bytes, a->backup.len, r.remaining_bytes);
    arena_free(&arena);
    if (a->reads_slowly && !a->winding_down) {
        a->dozing = true;
        actor_wait_ms(a, DOZE_MS_MAX);
    }
}

void operator_has_backup(struct actor *a, const struct asked *q)
{
    struct history_image image;
    struct buf why = {0};

    history_done(a->h, q->op, history_op(a->h, q->op)->floor, (struct bytes){0}, true);
    if (restored_read(buf_bytes(&a->backup), &image, &why))
        history_restored(a->h, (unsigned)a->server, q->floor, &image);
    else
        history_fail(a->h, "%s", buf_str(&why));
    buf_free(&why);
    buf_clear(&a->backup);
}
