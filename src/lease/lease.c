#include "lease/lease_int.h"

#include "backend/backend.h"
#include "base/map.h"
#include "pb/codec.h"

#include <inttypes.h>

static uint32_t hash_of(const struct lease_set *s, int64_t id)
{
    return (uint32_t)map_hash(bytes_of(&id, sizeof(id)), s->options.hash_seed);
}

struct lease *lease_find(const struct lease_set *s, int64_t id)
{
    uint32_t hash = hash_of(s, id);

    for (struct table_link *link = table_chain(&s->table, hash); link; link = link->next) {
        struct lease *l = container_of(link, struct lease, link);
        if (l->id == id)
            return l;
    }
    return NULL;
}

static struct lease *add(struct lease_set *s, int64_t id, int64_t ttl)
{
    struct lease *l = mem_new(struct lease);

    l->id = id;
    l->number = ++s->number;
    l->ttl = ttl < s->options.min_ttl ? s->options.min_ttl : ttl;
    l->link.hash = hash_of(s, id);
    list_init(&l->order);
    table_add(&s->table, &l->link);
    list_push_back(&s->all, &l->order);
    s->count++;
    return l;
}

/* --- the record --- */

/* Eight bytes, so that they come in order of the id's bits. */
static uint64_t record_key(int64_t id)
{
    return __builtin_bswap64((uint64_t)id);
}

static void write_record(struct lease_set *s, const struct lease *l)
{
    struct pb_lease record = {.id = l->id, .ttl = l->ttl, .remaining_ttl = l->remaining_ttl};
    struct buf wire = {0};
    uint64_t key = record_key(l->id);

    pb_encode_lease(&record, &wire);
    backend_put(s->options.backend, BUCKET_LEASE, bytes_of(&key, sizeof(key)), buf_bytes(&wire));
    buf_free(&wire);
}

static void delete_record(struct lease_set *s, const struct lease *l)
{
    uint64_t key = record_key(l->id);

    backend_delete(s->options.backend, BUCKET_LEASE, bytes_of(&key, sizeof(key)));
}

static enum err complain(struct buf *why, struct bytes key, const char *what)
{
    buf_append_str(why, "lease: the record ");
    for (size_t i = 0; i < key.len && i < 16; i++)
        buf_printf(why, "%02x", key.at[i]);
    buf_printf(why, "%s %s", key.len > 16 ? "..." : "", what);
    return ERR_CORRUPT;
}

static enum err load_record(struct lease_set *s, struct arena *arena, struct bytes key,
                            struct bytes value, struct buf *why)
{
    struct pb_lease record;
    uint64_t name;

    if (key.len != sizeof(name))
        return complain(why, key, "has a key that is no lease id");
    memcpy(&name, key.at, sizeof(name));
    if (pb_decode_lease(value, arena, &record) != ERR_OK)
        return complain(why, key, "cannot be decoded");
    if (record.id == 0 || record_key(record.id) != name)
        return complain(why, key, "is about another lease");
    struct lease *l = add(s, record.id, record.ttl);
    l->remaining_ttl = record.remaining_ttl;
    return ERR_OK;
}

static enum err load(struct lease_set *s, struct buf *why)
{
    struct arena arena = {0};
    struct backend_view view;
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    /* No deadlines yet: nobody knows how much of their time has passed until somebody leads. */
    backend_view_open(s->options.backend, &view);
    backend_cursor_open(&view, BUCKET_LEASE, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK) {
        e = load_record(s, &arena, key, value, why);
        if (e != ERR_OK)
            break;
        arena_reset(&arena);
    }
    if (e != ERR_OK && e != ERR_END && why->len == 0)
        buf_append_str(why, backend_view_damage(&view));
    backend_cursor_close(&c);
    backend_view_close(&view);
    arena_free(&arena);
    return e == ERR_END ? ERR_OK : e;
}

/* --- life --- */

enum err lease_open(const struct lease_options *options, struct buf *why, struct lease_set **out)
{
    struct lease_set *s = mem_new(struct lease_set);

    s->options = *options;
    if (s->options.checkpoint_interval_ms == 0)
        s->options.checkpoint_interval_ms = LEASE_CHECKPOINT_INTERVAL_MS;
    list_init(&s->all);
    lease_leading_init(s);
    enum err e = load(s, why);
    if (e != ERR_OK) {
        lease_close(s);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void lease_close(struct lease_set *s)
{
    if (!s)
        return;
    keys_free(&s->keys);
    LIST_FOREACH (link, &s->all)
        mem_free(lease_of_order(link));
    table_free(&s->table);
    lease_leading_free(s);
    buf_free(&s->ended_from);
    buf_free(&s->ended_to);
    mem_free(s);
}

void lease_persist_checkpoints(struct lease_set *s, bool persist)
{
    s->options.checkpoint_persist = persist;
}

/* --- through the log --- */

enum lease_result lease_grant(struct lease_set *s, int64_t id, int64_t ttl, uint64_t now_ms,
                              int64_t *granted_ttl)
{
    if (id == 0)
        return LEASE_NOT_FOUND;
    if (ttl > LEASE_TTL_MAX)
        return LEASE_TTL_TOO_LARGE;
    if (lease_find(s, id))
        return LEASE_EXISTS;

    struct lease *l = add(s, id, ttl);
    lease_start(s, l, now_ms);
    write_record(s, l);
    *granted_ttl = l->ttl;
    s->stats.granted++;
    histogram_observe(&s->stats.ttl, HISTOGRAM_1S_24, (uint64_t)l->ttl);
    return LEASE_OK;
}

enum lease_result lease_revoke_begin(struct lease_set *s, int64_t id)
{
    struct lease *l = lease_find(s, id);

    if (!l)
        return LEASE_NOT_FOUND;
    assert(!l->revoking);
    /* From here on it is neither renewed nor taken as expired again, though its keys go in slices
     * and other things happen in between. */
    lease_stop(s, l);
    l->revoking = true;
    return LEASE_OK;
}

void lease_revoke_end(struct lease_set *s, int64_t id)
{
    struct lease *l = lease_find(s, id);

    assert(l);
    assert(l->revoking);
    assert(l->keys.count == 0);
    delete_record(s, l);
    if (s->settling == &l->order)
        s->settling = l->order.next; /* the promotion stood just here */
    table_remove(&s->table, &l->link);
    list_remove(&l->order);
    s->count--;
    s->stats.revoked++;
    mem_free(l);
}

struct lease_stats *lease_stats(struct lease_set *s)
{
    return &s->stats;
}

enum lease_result lease_attach(struct lease_set *s, int64_t id, struct bytes key)
{
    if (id == 0) {
        lease_detach(s, key);
        return LEASE_OK;
    }
    struct lease *l = lease_find(s, id);
    if (!l)
        return LEASE_NOT_FOUND;
    assert(!l->revoking);

    struct leased_key *k = keys_find(&s->keys, s->options.hash_seed, key);
    if (!k)
        keys_add(&s->keys, s->options.hash_seed, l, &l->keys, key, s->ended.number);
    else if (k->lease != l || k->attached != s->ended.number)
        keys_move(k, &k->lease->keys, l, &l->keys, s->ended.number);
    return LEASE_OK;
}

void lease_detach(struct lease_set *s, struct bytes key)
{
    struct leased_key *k = keys_find(&s->keys, s->options.hash_seed, key);

    if (k)
        keys_remove(&s->keys, k, &k->lease->keys);
}

void lease_end_range(struct lease_set *s, struct bytes from, struct bytes to)
{
    assert(s->ended.number < UINT32_MAX);

    buf_clear(&s->ended_from);
    buf_append(&s->ended_from, from);
    buf_clear(&s->ended_to);
    buf_append(&s->ended_to, to);
    s->ended = (struct keys_ended){s->ended.number + 1, .from = buf_bytes(&s->ended_from)};
    if (to.at)
        s->ended.to = buf_bytes(&s->ended_to);
}

void lease_checkpoint(struct lease_set *s, int64_t id, int64_t remaining_ttl)
{
    struct lease *l = lease_find(s, id);

    if (!l)
        return;
    /* In memory in any case: the next leader may be this member, and it counts from here. */
    l->remaining_ttl = remaining_ttl;
    l->told = false;
    if (s->options.checkpoint_persist)
        write_record(s, l);
}

/* --- asking --- */

bool lease_first_key(const struct lease_set *s, int64_t id, struct bytes *key)
{
    return lease_next_key(s, id, (struct bytes){0}, key);
}

bool lease_next_key(const struct lease_set *s, int64_t id, struct bytes after, struct bytes *key)
{
    const struct lease *l = lease_find(s, id);

    if (!l)
        return false;
    const struct leased_key *k = after.at ? keys_after(&l->keys, after) : keys_first(&l->keys);
    if (k)
        *key = leased_key_bytes(k);
    return k != NULL;
}

bool lease_living_key(const struct lease_set *s, int64_t id, struct bytes from, struct bytes *key)
{
    const struct lease *l = lease_find(s, id);
    const struct leased_key *k = l ? keys_living_from(&l->keys, from, &s->ended) : NULL;

    if (k)
        *key = leased_key_bytes(k);
    return k != NULL;
}

bool lease_look(const struct lease_set *s, int64_t id, uint64_t now_ms, struct lease_info *out)
{
    const struct lease *l = lease_find(s, id);

    if (!l)
        return false;
    *out = (struct lease_info){.id = l->id,
                               .granted_ttl = l->ttl,
                               .remaining = l->ttl,
                               .key_count = l->keys.count,
                               .key_bytes = l->keys.bytes,
                               .expired = l->revoking};
    if (s->primary) {
        int64_t left_ms = (int64_t)(lease_expires_ms(s, l) - now_ms);
        out->remaining = left_ms / 1000;
        out->expired |= left_ms <= 0;
    }
    return true;
}

int64_t lease_of_key(const struct lease_set *s, struct bytes key)
{
    const struct leased_key *k = keys_find(&s->keys, s->options.hash_seed, key);

    return k ? k->lease->id : 0;
}

size_t lease_count(const struct lease_set *s)
{
    return s->count;
}
