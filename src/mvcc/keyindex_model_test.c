#include "mvcc/keyindex_model_test.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

/* --- keys --------------------------------------------------------------------------------- */

static void append_random(struct buf *out, struct rng *rng, const char *alphabet, size_t letters,
                          uint64_t len_max)
{
    uint64_t len = rng_below(rng, len_max + 1);

    for (uint64_t i = 0; i < len; i++)
        buf_append_byte(out, (uint8_t)alphabet[rng_below(rng, letters)]);
}

/* Few letters, so that keys are beginnings of each other; zeroes, which pad heads; long runs in
 * common; keys that are longer than a slab takes. */
static void make_key(struct buf *out, struct rng *rng)
{
    static const char letters[] = "\0\xff"
                                  "ab";
    unsigned long long number = rng_next(rng) % 100000;

    switch (rng_below(rng, 8)) {
    case 0:
    case 1:
        append_random(out, rng, letters, 4, 8);
        break;
    case 2:
        buf_append_str(out, "/registry/pods/default/");
        append_random(out, rng, letters, 4, 6);
        break;
    case 3:
        for (unsigned i = 0; i < 300; i++)
            buf_append_byte(out, 'x');
        append_random(out, rng, letters, 4, 5);
        break;
    case 4:
        buf_printf(out, "long%0*d", rng_chance(rng, 1, 10) ? 2500 : 250, (int)number);
        break;
    default:
        buf_printf(out, "/registry/%s/%05llu", number % 3 ? "events" : "leases", number);
    }
}

static int compare_keys(const void *a, const void *b)
{
    return bytes_compare(keymodel_key_bytes(a), keymodel_key_bytes(b));
}

void keymodel_init(struct keymodel *m, struct rng *rng, size_t count)
{
    m->keys = mem_new_array(count, struct keymodel_key);
    m->count = 0;
    for (size_t i = 0; i < count; i++)
        make_key(&m->keys[i].key, rng);
    qsort(m->keys, count, sizeof(struct keymodel_key), compare_keys);
    for (size_t i = 0; i < count; i++) {
        if (m->count > 0 && compare_keys(&m->keys[m->count - 1], &m->keys[i]) == 0)
            buf_free(&m->keys[i].key);
        else
            m->keys[m->count++] = m->keys[i];
    }
}

void keymodel_free(struct keymodel *m)
{
    for (size_t i = 0; i < m->count; i++) {
        buf_free(&m->keys[i].key);
        mem_free(m->keys[i].changes);
    }
    mem_free(m->keys);
}

/* --- changes ------------------------------------------------------------------------------ */

static struct keymodel_change *add(struct keymodel_key *k, struct keymodel_change c)
{
    if (k->count == k->cap) {
        k->cap = k->cap ? k->cap * 2 : 4;
        k->changes = mem_resize(k->changes, k->cap, sizeof(c));
    }
    assert(k->changes);
    k->changes[k->count] = c;
    return &k->changes[k->count++];
}

const struct keymodel_change *keymodel_put(struct keymodel_key *k, struct revision at,
                                           uint32_t length)
{
    const struct keymodel_change *last = k->count ? &k->changes[k->count - 1] : NULL;
    bool alive = last && !last->tombstone;

    return add(k, (struct keymodel_change){.at = at,
                                           .length = length,
                                           .created = alive ? last->created : at.main,
                                           .version = alive ? last->version + 1 : 1});
}

bool keymodel_tombstone(struct keymodel_key *k, struct revision at, uint32_t length)
{
    if (k->count == 0 || k->changes[k->count - 1].tombstone)
        return false;
    add(k, (struct keymodel_change){.at = at, .tombstone = true, .length = length});
    return true;
}

const struct keymodel_change *keymodel_find(const struct keymodel_key *k, struct revision at)
{
    const struct keymodel_change *found = NULL;

    for (size_t i = 0; i < k->count; i++)
        if (revision_compare(k->changes[i].at, at) <= 0)
            found = &k->changes[i];
    return found && !found->tombstone ? found : NULL;
}

static bool in_range(const struct key_range *r, struct bytes key)
{
    if (r->one)
        return bytes_compare(key, r->from) == 0;
    return bytes_compare(key, r->from) >= 0 && (!r->to.at || bytes_compare(key, r->to) < 0);
}

int64_t keymodel_count(const struct keymodel *m, const struct key_range *r, struct revision at)
{
    int64_t count = 0;

    for (size_t i = 0; i < m->count; i++)
        count += in_range(r, keymodel_key_bytes(&m->keys[i])) && keymodel_find(&m->keys[i], at);
    return count;
}

size_t keymodel_size(const struct keymodel *m)
{
    size_t size = 0;

    for (size_t i = 0; i < m->count; i++)
        size += m->keys[i].count > 0;
    return size;
}

/* --- compaction --------------------------------------------------------------------------- */

/* The end of the generation that begins at `from`: behind its tombstone, or behind the last. */
static size_t generation_end(const struct keymodel_key *k, size_t from)
{
    while (from < k->count && !k->changes[from].tombstone)
        from++;
    return from < k->count ? from + 1 : from;
}

/* The first generation that is the last one (open, perhaps empty) or ends at `main` or later. */
static size_t generation_at(const struct keymodel_key *k, int64_t main)
{
    size_t from = 0;

    for (;;) {
        size_t end = generation_end(k, from);
        bool closed = end > from && k->changes[end - 1].tombstone;
        if (!closed || k->changes[end - 1].at.main >= main)
            return from;
        from = end;
    }
}

size_t keymodel_dropped_by(const struct keymodel_key *k, int64_t main)
{
    size_t from = generation_at(k, main);
    size_t end = generation_end(k, from);
    size_t kept = from;

    for (size_t i = from; i < end; i++)
        if (k->changes[i].at.main <= main)
            kept = i;
    return kept;
}

bool keymodel_keeps(const struct keymodel_key *k, struct revision at, int64_t main)
{
    size_t kept = keymodel_dropped_by(k, main);

    if (at.main > main)
        return true;
    return kept < k->count && !k->changes[kept].tombstone &&
           revision_compare(k->changes[kept].at, at) == 0;
}

void keymodel_drop(struct keymodel_key *k, size_t count)
{
    if (count > 0)
        memmove(k->changes, k->changes + count, (k->count - count) * sizeof(k->changes[0]));
    k->count -= count;
}

void keymodel_describe(const struct keymodel_key *k, struct buf *out)
{
    bool inside = false;

    buf_append_str(out, k->count ? "generations=" : "generations=none");
    for (size_t i = 0; i < k->count; i++) {
        const struct keymodel_change *c = &k->changes[i];
        buf_append_str(out, inside ? "," : i > 0 ? " {" : "{");
        buf_printf(out, "%lld", (long long)c->at.main);
        if (c->at.sub)
            buf_printf(out, ".%lld", (long long)c->at.sub);
        buf_append_str(out, c->tombstone ? "t}" : "");
        inside = !c->tombstone;
    }
    if (inside)
        buf_append_byte(out, '}');
}
