#include "io/fake_content.h"

#include "base/assert.h"
#include "base/mem.h"

enum {
    PAGE_BYTES = 4096,
    PAGE_SECTORS = PAGE_BYTES / FAKE_SECTOR_BYTES,
};

struct fake_page {
    struct list dirty_link;
    uint8_t dirty; /* a bit per sector */
    uint8_t now[PAGE_BYTES], kept[PAGE_BYTES];
};

static_assert(PAGE_SECTORS == 8, "a page's sectors fit in the bits of a byte");

void fake_content_init(struct fake_content *c)
{
    *c = (struct fake_content){0};
    list_init(&c->dirty);
}

void fake_content_free(struct fake_content *c)
{
    for (size_t i = 0; i < c->page_count; i++)
        mem_free(c->pages[i]);
    mem_free(c->pages);
    fake_content_init(c);
}

static struct fake_page *page_at(struct fake_content *c, size_t index)
{
    if (index >= c->page_count) {
        size_t count = index + 1 > c->page_count * 2 ? index + 1 : c->page_count * 2;
        c->pages = mem_resize(c->pages, count, sizeof(struct fake_page *));
        memset(c->pages + c->page_count, 0, (count - c->page_count) * sizeof(struct fake_page *));
        c->page_count = count;
    }
    if (!c->pages[index]) {
        c->pages[index] = mem_new(struct fake_page);
        list_init(&c->pages[index]->dirty_link);
    }
    return c->pages[index];
}

static void mark_dirty(struct fake_content *c, struct fake_page *p, size_t from, size_t len)
{
    for (size_t s = from / FAKE_SECTOR_BYTES; s <= (from + len - 1) / FAKE_SECTOR_BYTES; s++)
        p->dirty |= (uint8_t)(1u << s);
    if (list_empty(&p->dirty_link))
        list_push_back(&c->dirty, &p->dirty_link);
}

size_t fake_content_read(const struct fake_content *c, uint64_t offset, uint8_t *into, size_t size)
{
    if (offset >= c->size)
        return 0;
    size = size < c->size - offset ? size : (size_t)(c->size - offset);
    for (size_t done = 0, len; done < size; done += len) {
        size_t index = (offset + done) / PAGE_BYTES;
        size_t from = (offset + done) % PAGE_BYTES;

        len = PAGE_BYTES - from < size - done ? PAGE_BYTES - from : size - done;
        if (index < c->page_count && c->pages[index])
            memcpy(into + done, c->pages[index]->now + from, len);
        else
            memset(into + done, 0, len);
    }
    return size;
}

void fake_content_write(struct fake_content *c, uint64_t offset, struct bytes data)
{
    for (size_t done = 0, len; done < data.len; done += len) {
        struct fake_page *p = page_at(c, (offset + done) / PAGE_BYTES);
        size_t from = (offset + done) % PAGE_BYTES;

        len = PAGE_BYTES - from < data.len - done ? PAGE_BYTES - from : data.len - done;
        memcpy(p->now + from, data.at + done, len);
        mark_dirty(c, p, from, len);
    }
    if (data.len > 0 && offset + data.len > c->size)
        c->size = offset + data.len;
    if (data.len > 0)
        fake_content_allocate(c, offset + data.len);
}

void fake_content_allocate(struct fake_content *c, uint64_t end)
{
    if (end > c->allocated)
        c->allocated = end;
}

/* What lies beyond the end reads as zeroes if the file grows again, and takes no space. */
void fake_content_resize(struct fake_content *c, uint64_t size)
{
    for (size_t i = size / PAGE_BYTES; size < c->size && i < c->page_count; i++) {
        size_t from = i == size / PAGE_BYTES ? size % PAGE_BYTES : 0;

        if (!c->pages[i])
            continue;
        memset(c->pages[i]->now + from, 0, PAGE_BYTES - from);
        mark_dirty(c, c->pages[i], from, PAGE_BYTES - from);
    }
    c->size = size;
    if (c->allocated > size)
        c->allocated = size;
}

static void keep_sector(struct fake_page *p, unsigned sector)
{
    size_t at = (size_t)sector * FAKE_SECTOR_BYTES;

    memcpy(p->kept + at, p->now + at, FAKE_SECTOR_BYTES);
    p->dirty &= (uint8_t)~(1u << sector);
}

/* Keeps the page's dirty sectors, or those the coin chooses if there is one. */
static void keep_sectors(struct fake_page *p, struct rng *coin)
{
    for (unsigned s = 0; s < PAGE_SECTORS; s++)
        if (p->dirty & 1u << s && (!coin || rng_chance(coin, 1, 2)))
            keep_sector(p, s);
}

void fake_content_sync(struct fake_content *c)
{
    for (struct list *link; (link = list_pop_front(&c->dirty));)
        keep_sectors(container_of(link, struct fake_page, dirty_link), NULL);
    c->kept_size = c->size;
    c->kept_allocated = c->allocated;
}

/* The first byte from there on, around the end, that is not zero. */
static bool find_written(const struct fake_content *c, size_t page, size_t *at)
{
    if (!c->pages[page])
        return false;
    for (size_t i = 0; i < PAGE_BYTES; i++) {
        *at = *at + 1 < PAGE_BYTES ? *at + 1 : 0;
        if (c->pages[page]->now[*at] != 0)
            return true;
    }
    return false;
}

bool fake_content_flip(struct fake_content *c, struct rng *coin)
{
    if (c->page_count == 0)
        return false;
    size_t first = rng_below(coin, c->page_count), at = rng_below(coin, PAGE_BYTES);
    uint8_t bit = (uint8_t)(1u << rng_below(coin, 8));

    for (size_t i = 0; i < c->page_count; i++) {
        size_t page = (first + i) % c->page_count;
        if (!find_written(c, page, &at))
            continue;
        c->pages[page]->now[at] ^= bit;
        c->pages[page]->kept[at] ^= bit;
        return true;
    }
    return false;
}

void fake_content_sync_failed(struct fake_content *c)
{
    for (struct list *link; (link = list_pop_front(&c->dirty));)
        container_of(link, struct fake_page, dirty_link)->dirty = 0;
}

void fake_content_write_back(struct fake_content *c, struct rng *rng)
{
    LIST_FOREACH (link, &c->dirty) {
        struct fake_page *p = container_of(link, struct fake_page, dirty_link);

        keep_sectors(p, rng);
        if (!p->dirty)
            list_remove(&p->dirty_link);
    }
}

/* A file that was growing or shrinking is found at either size, or between. */
static uint64_t size_after_crash(const struct fake_content *c, struct rng *coin)
{
    uint64_t low = c->size < c->kept_size ? c->size : c->kept_size;
    uint64_t high = c->size < c->kept_size ? c->kept_size : c->size;

    if (!coin || low == high)
        return c->kept_size;
    if (rng_chance(coin, 2, 3))
        return rng_chance(coin, 1, 2) ? low : high;
    return rng_between(coin, low, high);
}

void fake_content_crash(struct fake_content *c, struct rng *coin)
{
    uint64_t size = size_after_crash(c, coin);

    if (coin)
        fake_content_write_back(c, coin);
    for (size_t i = 0; i < c->page_count; i++)
        if (c->pages[i])
            memcpy(c->pages[i]->now, c->pages[i]->kept, PAGE_BYTES);

    c->size = UINT64_MAX; /* so that whatever lies behind the end is cleared */
    fake_content_resize(c, size);
    c->allocated = c->kept_allocated > size ? c->kept_allocated : size;
    fake_content_sync(c);
    assert(c->size == size);
    assert(c->kept_size == size);
}
