#include "wal/sparse.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

#include <string.h>

void sparse_free(struct sparse *s)
{
    mem_free(s->at);
    *s = (struct sparse){0};
}

static struct mark *last_mark(const struct sparse *s)
{
    return s->count > 0 ? &s->at[s->first + s->count - 1] : NULL;
}

static struct mark *new_mark(struct sparse *s)
{
    if (s->first + s->count == s->cap && s->first > s->cap / 2) {
        memmove(s->at, s->at + s->first, s->count * sizeof(*s->at));
        s->first = 0;
    }
    if (s->first + s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->at = mem_resize(s->at, s->cap, sizeof(*s->at));
    }
    s->count++;
    return last_mark(s);
}

void sparse_add(struct sparse *s, uint64_t index, struct wal_segment *segment, uint64_t offset,
                uint64_t end, uint32_t crc)
{
    assert(offset < end);

    if (s->count > 0 && index <= s->last)
        sparse_truncate(s, index);
    struct mark *m = last_mark(s);
    assert(!m || m->index < index);
    /* Not across a truncation: the bytes in between hold entries that are void, and their indexes
     * would be read again. */
    bool extend = m && !s->broken && m->segment == segment && index == s->last + 1 &&
                  m->entries < WAL_MARK_ENTRIES && offset - m->offset < WAL_MARK_BYTES;
    if (!extend) {
        m = new_mark(s);
        *m = (struct mark){.index = index, .segment = segment, .offset = offset, .crc = crc};
    }
    assert(m->end <= offset);
    m->end = end;
    m->entries++;
    s->last = index;
    s->broken = false;
}

void sparse_truncate(struct sparse *s, uint64_t from)
{
    while (s->count > 0 && last_mark(s)->index >= from)
        s->count--;
    if (s->last >= from)
        s->last = from > 0 ? from - 1 : 0;
    s->broken = true;
}

const struct mark *sparse_find(const struct sparse *s, uint64_t index, uint64_t *limit)
{
    size_t low = s->first, high = s->first + s->count;

    if (s->count == 0 || index > s->last || index < s->at[s->first].index)
        return NULL;
    while (high - low > 1) { /* at[low].index <= index < at[high].index */
        size_t middle = low + (high - low) / 2;
        if (s->at[middle].index <= index)
            low = middle;
        else
            high = middle;
    }
    *limit = low + 1 < s->first + s->count ? s->at[low + 1].index : s->last + 1;
    return &s->at[low];
}

void sparse_drop(struct sparse *s, const struct wal_segment *segment)
{
    while (s->count > 0 && s->at[s->first].segment == segment) {
        s->first++;
        s->count--;
    }
}
