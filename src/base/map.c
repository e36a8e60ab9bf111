#include "base/map.h"

#include "base/assert.h"
#include "base/mem.h"

enum { SLOTS_MIN = 8 };

#define SLOT_EMPTY   0
#define SLOT_REMOVED UINT32_MAX

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate_left(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v2 = rotate_left(s->v2, 32);
}

static void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

uint64_t map_hash(struct bytes key, uint64_t seed)
{
    /* The second half of the key is derived: our seeds are 64 bits of entropy. */
    uint64_t k0 = seed;
    uint64_t k1 = seed * 0x9E3779B97F4A7C15 + 1;
    struct sip s = {k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261,
                    k1 ^ 0x7465646279746573};
    uint64_t word;
    size_t i = 0;

    for (; i + 8 <= key.len; i += 8) {
        memcpy(&word, key.at + i, 8);
        sip_word(&s, word);
    }
    word = (uint64_t)key.len << 56;
    for (unsigned shift = 0; i < key.len; i++, shift += 8)
        word |= (uint64_t)key.at[i] << shift;
    sip_word(&s, word);
    s.v2 ^= 0xFF;
    for (int round = 0; round < 3; round++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* Both halves of the product, so that every bit of either factor matters below. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* An id is one word: two multiplications by secrets do for it what SipHash does for strings, at a
 * tenth of the price. */
static uint64_t hash_id(uint64_t id, uint64_t seed)
{
    uint64_t first = seed ^ 0x9E3779B97F4A7C15;
    uint64_t second = first * 0xBF58476D1CE4E5B9 + 1;

    return fold(fold(id ^ first, second | 1) ^ second, first | 1);
}

static uint64_t hash_of(const struct map *m, const struct map_entry *probe)
{
    return m->keys == MAP_BYTES ? map_hash(probe->key, m->seed) : hash_id(probe->id, m->seed);
}

static bool same_key(const struct map *m, const struct map_entry *a, const struct map_entry *b)
{
    if (m->keys == MAP_BYTES)
        return a->hash == b->hash && bytes_equal(a->key, b->key);
    return a->id == b->id;
}

/* The slot holding the probe's key, or NULL; *vacant becomes the slot where it would go. */
static uint32_t *find_slot(const struct map *m, const struct map_entry *probe, uint32_t **vacant)
{
    uint32_t *first_removed = NULL;

    for (size_t i = probe->hash & (m->slot_count - 1);; i = (i + 1) & (m->slot_count - 1)) {
        uint32_t *slot = &m->slots[i];
        if (*slot == SLOT_EMPTY) {
            *vacant = first_removed ? first_removed : slot;
            return NULL;
        }
        if (*slot == SLOT_REMOVED)
            first_removed = first_removed ? first_removed : slot;
        else if (same_key(m, &m->entries[*slot - 1], probe))
            return slot;
    }
}

/* Sweeps removed entries out, keeping the order, and sizes everything for what is alive. */
static void rebuild(struct map *m)
{
    size_t slot_count = SLOTS_MIN;
    size_t kept = 0;

    while (slot_count < (m->count + 1) * 3)
        slot_count *= 2;
    assert(slot_count / 2 < SLOT_REMOVED);

    for (size_t i = 0; i < m->used; i++)
        if (m->entries[i].value)
            m->entries[kept++] = m->entries[i];
    assert(kept == m->count);
    m->used = kept;

    mem_free(m->slots);
    m->slots = mem_new_array(slot_count, uint32_t);
    m->slot_count = slot_count;
    m->entries = mem_resize(m->entries, slot_count / 2, sizeof(struct map_entry));
    for (size_t i = 0; i < m->used; i++) {
        uint32_t *vacant;
        find_slot(m, &m->entries[i], &vacant);
        *vacant = (uint32_t)(i + 1);
    }
}

static void *put(struct map *m, struct map_entry fresh)
{
    uint32_t *vacant;

    assert(fresh.value);
    if (m->used == m->slot_count / 2)
        rebuild(m);
    fresh.hash = hash_of(m, &fresh);
    uint32_t *slot = find_slot(m, &fresh, &vacant);
    if (slot) {
        struct map_entry *there = &m->entries[*slot - 1];
        void *before = there->value;
        *there = fresh;
        return before;
    }
    m->entries[m->used++] = fresh;
    m->count++;
    *vacant = (uint32_t)m->used;
    return NULL;
}

static uint32_t *find(const struct map *m, struct map_entry *probe)
{
    uint32_t *vacant;

    if (m->count == 0)
        return NULL;
    probe->hash = hash_of(m, probe);
    return find_slot(m, probe, &vacant);
}

static void *get(const struct map *m, struct map_entry probe)
{
    uint32_t *slot = find(m, &probe);

    return slot ? m->entries[*slot - 1].value : NULL;
}

static void *take(struct map *m, struct map_entry probe)
{
    uint32_t *slot = find(m, &probe);

    if (!slot)
        return NULL;
    struct map_entry *e = &m->entries[*slot - 1];
    void *value = e->value;
    e->value = NULL;
    *slot = SLOT_REMOVED;
    m->count--;
    return value;
}

void map_init(struct map *m, enum map_keys keys, uint64_t seed)
{
    *m = (struct map){.keys = keys, .seed = seed};
}

void map_free(struct map *m)
{
    mem_free(m->entries);
    mem_free(m->slots);
    map_init(m, m->keys, m->seed);
}

void *map_put(struct map *m, struct bytes key, void *value)
{
    assert(m->keys == MAP_BYTES);
    return put(m, (struct map_entry){.key = key, .value = value});
}

void *map_put_id(struct map *m, uint64_t id, void *value)
{
    assert(m->keys == MAP_IDS);
    return put(m, (struct map_entry){.id = id, .value = value});
}

void *map_get(const struct map *m, struct bytes key)
{
    assert(m->keys == MAP_BYTES);
    return get(m, (struct map_entry){.key = key});
}

void *map_get_id(const struct map *m, uint64_t id)
{
    assert(m->keys == MAP_IDS);
    return get(m, (struct map_entry){.id = id});
}

void *map_remove(struct map *m, struct bytes key)
{
    assert(m->keys == MAP_BYTES);
    return take(m, (struct map_entry){.key = key});
}

void *map_remove_id(struct map *m, uint64_t id)
{
    assert(m->keys == MAP_IDS);
    return take(m, (struct map_entry){.id = id});
}

struct map_entry *map_next(const struct map *m, size_t *at)
{
    while (*at < m->used) {
        struct map_entry *e = &m->entries[(*at)++];
        if (e->value)
            return e;
    }
    return NULL;
}
