#include "auth/auth_int.h"
#include "base/mem.h"

#include <stdlib.h>

static bool is_open(struct bytes range_end)
{
    return range_end.len == 1 && range_end.at[0] == 0;
}

/* Does this end come before that one? No end is behind all others. */
static bool ends_before(struct bytes end, struct bytes other)
{
    if (end.len == 0)
        return false;
    return other.len == 0 || bytes_compare(end, other) < 0;
}

struct auth_range auth_range_of(struct bytes key, struct bytes range_end, struct arena *arena)
{
    if (is_open(range_end))
        return (struct auth_range){.key = key};
    if (range_end.len > 0)
        return (struct auth_range){.key = key, .end = range_end};
    uint8_t *end = arena_space(arena, key.len + 1);
    if (key.len > 0)
        memcpy(end, key.at, key.len);
    end[key.len] = 0;
    return (struct auth_range){.key = key, .end = bytes_of(end, key.len + 1)};
}

/* A store written by hand, or by an older etcd, may hold permissions that no member grants
 * any more: from an empty key on, which no key is, or up to an end that is not behind the key. They
 * permit nothing. */
void auth_ranges_add(struct auth_ranges *r, struct auth_range range)
{
    if (range.key.len == 0 || (range.end.len > 0 && bytes_compare(range.key, range.end) >= 0))
        return;
    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 4;
        r->at = mem_resize(r->at, r->cap, sizeof(*r->at));
    }
    r->at[r->count++] = range;
}

static int by_key(const void *a, const void *b)
{
    return bytes_compare(((const struct auth_range *)a)->key, ((const struct auth_range *)b)->key);
}

void auth_ranges_merge(struct auth_ranges *r)
{
    size_t kept = 0;

    if (r->count == 0)
        return;
    qsort(r->at, r->count, sizeof(*r->at), by_key);
    for (size_t i = 1; i < r->count; i++) {
        struct auth_range *last = &r->at[kept];
        if (ends_before(last->end, r->at[i].key))
            r->at[++kept] = r->at[i];
        else if (ends_before(last->end, r->at[i].end))
            last->end = r->at[i].end;
    }
    r->count = kept + 1;
}

void auth_ranges_free(struct auth_ranges *r)
{
    mem_free(r->at);
    *r = (struct auth_ranges){0};
}

const struct auth_range *auth_ranges_find(const struct auth_ranges *r, struct bytes key)
{
    size_t low = 0, high = r->count;

    while (low < high) { /* the first that begins behind the key */
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(r->at[middle].key, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const struct auth_range *range = &r->at[low - 1];
    return range->end.len == 0 || bytes_compare(key, range->end) < 0 ? range : NULL;
}

bool auth_ranges_cover(const struct auth_ranges *r, struct bytes key, struct bytes range_end)
{
    const struct auth_range *range = auth_ranges_find(r, key);

    if (!range)
        return false;
    if (range_end.len == 0)
        return true;
    return !ends_before(range->end, is_open(range_end) ? bytes_of(NULL, 0) : range_end);
}

bool auth_range_is_inverted(struct bytes key, struct bytes range_end)
{
    return range_end.len > 0 && !is_open(range_end) && bytes_compare(key, range_end) >= 0;
}

void auth_ranges_check(const struct auth_ranges *r)
{
    for (size_t i = 0; i < r->count; i++) {
        assert(r->at[i].end.len == 0 || bytes_compare(r->at[i].key, r->at[i].end) < 0);
        if (i > 0)
            assert(ends_before(r->at[i - 1].end, r->at[i].key));
    }
}
