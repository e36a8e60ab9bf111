/* Single pages: their bytes through a small cache, their shape checked to the last zero. */
#include "snap/bolt_int.h"

enum err bolt_fail(struct bolt *b, uint64_t offset, const char *what)
{
    if (!b->fault->what)
        *b->fault = (struct bolt_fault){.offset = offset, .what = what};
    return ERR_CORRUPT;
}

/* ---- The cache ---- */

/* The block with this number, or the one to be given up for it. Most calls want the last one again.
 */
static struct block *find_block(struct bolt *b, uint64_t number)
{
    struct block *oldest = &b->blocks[0];

    if (b->recent && b->recent->used > 0 && b->recent->number == number)
        return b->recent;
    for (size_t i = 0; i < CACHE_BLOCKS; i++) {
        struct block *block = &b->blocks[i];
        if (block->used > 0 && block->number == number)
            return block;
        if (block->used < oldest->used)
            oldest = block;
    }
    oldest->used = 0;
    return oldest;
}

static enum err read_source(struct bolt *b, uint64_t offset, uint8_t *into, size_t size)
{
    enum err e = b->source->read(b->source, offset, into, size);

    if (e != ERR_OK)
        bolt_fail(b, offset, "cannot be read");
    return e;
}

static enum err load_block(struct bolt *b, uint64_t number, struct block **out)
{
    struct block *block = find_block(b, number);

    if (block->used == 0) {
        uint64_t left = b->source->size - number * CACHE_BLOCK_BYTES;
        if (!block->at)
            block->at = mem_alloc(CACHE_BLOCK_BYTES);
        block->number = number;
        block->len = left < CACHE_BLOCK_BYTES ? (size_t)left : CACHE_BLOCK_BYTES;
        enum err e = read_source(b, number * CACHE_BLOCK_BYTES, block->at, block->len);
        if (e != ERR_OK)
            return e;
    }
    block->used = ++b->use_count;
    b->recent = block;
    *out = block;
    return ERR_OK;
}

/* A look at what the cache has from `offset` on: at least one byte, at most `size`. */
static enum err peek(struct bolt *b, uint64_t offset, uint64_t size, struct bytes *out)
{
    struct block *block = NULL;
    size_t skip = offset % CACHE_BLOCK_BYTES;

    enum err e = load_block(b, offset / CACHE_BLOCK_BYTES, &block);
    if (e != ERR_OK)
        return e;
    assert(skip < block->len);
    size_t len = block->len - skip;
    *out = bytes_of(block->at + skip, len < size ? len : (size_t)size);
    return ERR_OK;
}

static bool is_inside(const struct bolt *b, uint64_t offset, uint64_t size)
{
    return offset <= b->source->size && size <= b->source->size - offset;
}

enum err bolt_get(struct bolt *b, uint64_t offset, uint8_t *into, size_t size)
{
    if (!is_inside(b, offset, size))
        return bolt_fail(b, offset, "beyond the end of the file");
    if (size >= CACHE_BLOCK_BYTES) /* a big value would only push the pages out */
        return read_source(b, offset, into, size);
    while (size > 0) {
        struct bytes some;
        enum err e = peek(b, offset, size, &some);
        if (e != ERR_OK)
            return e;
        memcpy(into, some.at, some.len);
        into += some.len;
        offset += some.len;
        size -= some.len;
    }
    return ERR_OK;
}

static size_t count_zeroes(struct bytes some)
{
    size_t i = 0;

    while (i < some.len && some.at[i] == 0)
        i++;
    return i;
}

enum err bolt_expect_zeroes(struct bolt *b, uint64_t offset, uint64_t end)
{
    assert(is_inside(b, offset, end - offset));

    while (offset < end) {
        struct bytes some;
        enum err e = peek(b, offset, end - offset, &some);
        if (e != ERR_OK)
            return e;
        size_t zeroes = count_zeroes(some);
        offset += zeroes;
        if (zeroes < some.len)
            return bolt_fail(b, offset, "not zero, where a page has nothing");
    }
    return ERR_OK;
}

/* ---- Headers ---- */

enum err bolt_mark(struct bolt *b, uint64_t id, uint64_t count, uint64_t from)
{
    assert(id + count <= b->meta.pages);

    if (!b->seen)
        return ERR_OK;
    for (uint64_t i = id; i < id + count; i++) {
        uint8_t bit = (uint8_t)(1u << (i % 8));
        if (b->seen[i / 8] & bit)
            return bolt_fail(b, from, "names a page that has another use already");
        b->seen[i / 8] |= bit;
    }
    return ERR_OK;
}

enum err bolt_load_page(struct bolt *b, uint64_t id, uint64_t from, struct page *out)
{
    uint8_t header[PAGE_HEADER_BYTES];
    uint64_t page = b->meta.page_bytes;

    if (id < 2 || id >= b->meta.pages)
        return bolt_fail(b, from, "names a page that is not in the file");
    enum err e = bolt_get(b, id * page, header, sizeof(header));
    if (e != ERR_OK)
        return e;
    uint16_t kind = get_u16(header + 8);
    uint64_t length = (uint64_t)get_u32(header + 12) + 1;
    if (get_u64(header) != id)
        return bolt_fail(b, id * page, "the page has the number of another one");
    if (kind != PAGE_BRANCH && kind != PAGE_LEAF)
        return bolt_fail(b, id * page + 8, "neither a branch nor a leaf");
    if (length > b->meta.pages - id)
        return bolt_fail(b, id * page + 12, "the page runs on beyond the file");
    *out = (struct page){.at = id * page,
                         .end = (id + length) * page,
                         .count = get_u16(header + 10),
                         .is_branch = kind == PAGE_BRANCH};
    return bolt_mark(b, id, length, from);
}

enum err bolt_load_inlined(struct bolt *b, struct span value, struct page *out)
{
    uint8_t header[PAGE_HEADER_BYTES];
    uint64_t at = value.at + BUCKET_BYTES;

    if (value.len < BUCKET_BYTES + PAGE_HEADER_BYTES)
        return bolt_fail(b, value.at, "too short for an inlined bucket");
    enum err e = bolt_get(b, at, header, sizeof(header));
    if (e != ERR_OK)
        return e;
    if (get_u64(header) != 0 || get_u16(header + 8) != PAGE_LEAF || get_u32(header + 12) != 0)
        return bolt_fail(b, at, "not the header of an inlined leaf");
    *out = (struct page){
        .at = at, .end = value.at + value.len, .count = get_u16(header + 10), .is_inlined = true};
    return ERR_OK;
}

/* ---- Elements ---- */

static uint64_t elements_end(const struct page *p)
{
    return p->at + PAGE_HEADER_BYTES + (uint64_t)p->count * ELEMENT_BYTES;
}

static enum err check_lengths(struct bolt *b, const struct page *p, const struct element *el)
{
    uint64_t value_bytes = p->is_branch ? 0 : el->value.len;

    if (el->key.len == 0 || el->key.len > BOLT_KEY_BYTES_MAX)
        return bolt_fail(b, el->at, "impossible key length");
    if (value_bytes > BOLT_VALUE_BYTES_MAX)
        return bolt_fail(b, el->at, "impossible value length");
    if (el->key.at > p->end || el->key.len + value_bytes > p->end - el->key.at)
        return bolt_fail(b, el->at, "the element's bytes are not in its page");
    return ERR_OK;
}

enum err bolt_get_element(struct bolt *b, const struct page *p, uint32_t i, struct element *out)
{
    uint8_t raw[ELEMENT_BYTES];
    uint64_t at = p->at + PAGE_HEADER_BYTES + (uint64_t)i * ELEMENT_BYTES;

    assert(i < p->count);
    enum err e = bolt_get(b, at, raw, sizeof(raw));
    if (e != ERR_OK)
        return e;
    *out = (struct element){.at = at};
    if (p->is_branch) {
        out->key = (struct span){.at = at + get_u32(raw), .len = get_u32(raw + 4)};
        out->child = get_u64(raw + 8);
    } else {
        uint32_t flags = get_u32(raw);
        out->key = (struct span){.at = at + get_u32(raw + 4), .len = get_u32(raw + 8)};
        out->value = (struct span){.at = out->key.at + out->key.len, .len = get_u32(raw + 12)};
        out->is_bucket = p->is_root_tree;
        if (flags != (p->is_root_tree ? 1u : 0u))
            return bolt_fail(b, at, "a bucket where a value belongs, or the reverse");
    }
    return check_lengths(b, p, out);
}

/* ---- A whole page ---- */

/* How two keys of the file compare; left stays in keys[0]. */
static enum err compare_spans(struct bolt *b, struct span left, struct span right, int *out)
{
    enum err e = bolt_get(b, left.at, b->keys[0], left.len);

    if (e == ERR_OK)
        e = bolt_get(b, right.at, b->keys[1], right.len);
    if (e == ERR_OK)
        *out = bytes_compare(bytes_of(b->keys[0], left.len), bytes_of(b->keys[1], right.len));
    return e;
}

static enum err check_bounds(struct bolt *b, struct span first, struct span last, struct span low,
                             struct span high)
{
    int order = 0;

    if (low.len > 0) {
        enum err e = compare_spans(b, low, first, &order);
        if (e != ERR_OK)
            return e;
        if (order > 0)
            return bolt_fail(b, first.at, "a key below the one its parent has for the page");
    }
    if (high.len > 0) {
        enum err e = compare_spans(b, last, high, &order);
        if (e != ERR_OK)
            return e;
        if (order >= 0)
            return bolt_fail(b, last.at, "a key that belongs to a later page");
    }
    return ERR_OK;
}

/*
 * bbolt takes as many pages as a node needs; early versions took one more if it filled them to the
 * last byte. An inlined page has no spare byte at all.
 */
static enum err check_length(struct bolt *b, const struct page *p, uint64_t end)
{
    uint64_t page = b->meta.page_bytes;
    uint64_t used = end - p->at;
    uint64_t have = (p->end - p->at) / page;

    if (p->is_inlined)
        return end == p->end ? ERR_OK : bolt_fail(b, end, "the inlined leaf is too long");
    if (have != (used + page - 1) / page && have != used / page + 1)
        return bolt_fail(b, p->at + 12, "the page takes more pages than it needs");
    return bolt_expect_zeroes(b, end, p->end);
}

/* Where an element's bytes end and the next one's begin. */
static uint64_t element_end(const struct page *p, const struct element *el)
{
    return el->key.at + el->key.len + (p->is_branch ? 0 : el->value.len);
}

/* The previous key is kept in keys[0] while the elements pass by. */
static enum err check_order(struct bolt *b, const struct element *el, struct bytes *previous)
{
    enum err e = bolt_get(b, el->key.at, b->keys[1], el->key.len);

    if (e != ERR_OK)
        return e;
    struct bytes key = bytes_of(b->keys[1], el->key.len);
    if (bytes_compare(*previous, key) >= 0)
        return bolt_fail(b, el->key.at, "keys out of order");
    uint8_t *free_now = b->keys[0];
    b->keys[0] = b->keys[1];
    b->keys[1] = free_now;
    *previous = key;
    return ERR_OK;
}

enum err bolt_check_page(struct bolt *b, const struct page *p, struct span low, struct span high)
{
    struct bytes previous = {0};
    struct span first = {0}, last = {0};
    uint64_t end = elements_end(p);

    if (end > p->end)
        return bolt_fail(b, p->at + 10, "more elements than fit");
    for (uint32_t i = 0; i < p->count; i++) {
        struct element el;
        enum err e = bolt_get_element(b, p, i, &el);
        if (e != ERR_OK)
            return e;
        if (el.key.at != end)
            return bolt_fail(b, el.at, "a gap or an overlap before the element's key");
        e = check_order(b, &el, &previous);
        if (e != ERR_OK)
            return e;
        end = element_end(p, &el);
        last = el.key;
        if (i == 0)
            first = el.key;
    }
    enum err e = p->count > 0 ? check_bounds(b, first, last, low, high) : ERR_OK;
    return e == ERR_OK ? check_length(b, p, end) : e;
}
