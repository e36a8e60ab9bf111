#include "sim/retention.h"

#include "base/mem.h"

void retention_free(struct retention *r)
{
    mem_free(r->moments);
    *r = (struct retention){0};
}

void retention_saw(struct retention *r, uint64_t now_ns, int64_t revision)
{
    if (r->ns == 0 || (r->count > 0 && r->moments[r->count - 1].revision >= revision))
        return;
    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 64;
        r->moments = mem_resize(r->moments, r->cap, sizeof(*r->moments));
    }
    r->moments[r->count++] = (struct retention_moment){.ns = now_ns, .revision = revision};
}

int64_t retention_newest_old(const struct retention *r, uint64_t now_ns)
{
    size_t low = 0, high = r->count;

    if (r->ns == 0)
        return 0;
    while (low < high) { /* the moments below `low` are old, those from `high` on are not */
        size_t mid = low + (high - low) / 2;
        if (r->moments[mid].ns + r->ns <= now_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 ? r->moments[low - 1].revision : 0;
}
