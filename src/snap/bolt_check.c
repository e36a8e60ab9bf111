/* The whole of a file: its page graph, its content's checksum, its digest. */
#include "base/crc32c.h"
#include "io/hash.h"
#include "snap/bolt_int.h"

/* ---- The free list ---- */

struct freelist {
    uint64_t at; /* of the first item */
    uint64_t count;
    uint64_t end; /* of its pages */
};

static enum err load_freelist(struct bolt *b, struct freelist *out)
{
    uint8_t header[PAGE_HEADER_BYTES + 8];
    uint64_t page = b->meta.page_bytes;
    uint64_t at = b->meta.freelist * page;

    enum err e = bolt_get(b, at, header, sizeof(header));
    if (e != ERR_OK)
        return e;
    uint64_t length = (uint64_t)get_u32(header + 12) + 1;
    bool is_long = get_u16(header + 10) == FREELIST_LONG;
    if (get_u64(header) != b->meta.freelist || get_u16(header + 8) != PAGE_FREELIST)
        return bolt_fail(b, at, "not the header of a free list");
    if (length > b->meta.pages - b->meta.freelist)
        return bolt_fail(b, at + 12, "the free list runs on beyond the file");
    out->at = at + PAGE_HEADER_BYTES + (is_long ? 8 : 0);
    out->count = is_long ? get_u64(header + PAGE_HEADER_BYTES) : get_u16(header + 10);
    out->end = at + length * page;
    if (out->count > (out->end - out->at) / 8)
        return bolt_fail(b, at + 10, "more free pages than the list has space for");
    return bolt_mark(b, b->meta.freelist, length, at);
}

/* Its items, ascending, all of them pages that nothing else uses. */
static enum err check_freelist(struct bolt *b)
{
    struct freelist list = {0};
    uint64_t previous = 1;

    enum err e = load_freelist(b, &list);
    for (uint64_t i = 0; e == ERR_OK && i < list.count; i++) {
        uint8_t raw[8];
        uint64_t at = list.at + i * 8;
        e = bolt_get(b, at, raw, sizeof(raw));
        if (e != ERR_OK)
            break;
        uint64_t id = get_u64(raw);
        if (id <= previous || id >= b->meta.pages)
            return bolt_fail(b, at, "impossible page in the free list");
        previous = id;
        e = bolt_mark(b, id, 1, at);
    }
    return e == ERR_OK ? bolt_expect_zeroes(b, list.at + list.count * 8, list.end) : e;
}

/* With a stored free list there is no page that nobody knows of. */
static enum err check_none_lost(struct bolt *b)
{
    for (uint64_t id = 0; id < b->meta.pages; id++)
        if (!(b->seen[id / 8] >> (id % 8) & 1))
            return bolt_fail(b, id * b->meta.page_bytes, "a page neither in use nor free");
    return ERR_OK;
}

/* ---- The page graph ---- */

static enum err check_bucket(struct bolt *b, struct span bucket)
{
    struct bolt_cursor *c = bolt_cursor_open_at(b, bucket);
    enum err e = ERR_OK;

    while (e == ERR_OK)
        e = bolt_cursor_next_leaf(c);
    bolt_cursor_close(c);
    return e == ERR_END ? ERR_OK : e;
}

static enum err check_buckets(struct bolt *b)
{
    struct bolt_cursor *root = bolt_cursor_open_root(b);
    struct bolt_entry entry;
    enum err e = ERR_OK;

    while (e == ERR_OK) {
        e = bolt_cursor_next(root, &entry);
        if (e == ERR_OK)
            e = check_bucket(b, bolt_cursor_span(root));
    }
    bolt_cursor_close(root);
    return e == ERR_END ? ERR_OK : e;
}

enum err bolt_check(struct bolt *b)
{
    bool has_freelist = b->meta.freelist != BOLT_NO_FREELIST;

    assert(!b->seen);
    b->seen = mem_alloc((size_t)(b->meta.pages / 8 + 1));
    enum err e = bolt_mark(b, 0, 2, 0);
    if (e == ERR_OK)
        e = check_buckets(b);
    if (e == ERR_OK && has_freelist)
        e = check_freelist(b);
    if (e == ERR_OK && has_freelist)
        e = check_none_lost(b);
    mem_free(b->seen);
    b->seen = NULL;
    return e;
}

/* ---- The content ---- */

static enum err sum_value(struct bolt_cursor *c, uint32_t size, uint8_t *piece, uint32_t *crc)
{
    for (uint32_t at = 0; at < size;) {
        uint32_t len = size - at < BOLT_CHECK_PIECE_BYTES ? size - at : BOLT_CHECK_PIECE_BYTES;
        enum err e = bolt_cursor_read(c, at, piece, len);
        if (e != ERR_OK)
            return e;
        *crc = crc32c(*crc, bytes_of(piece, len));
        at += len;
    }
    return ERR_OK;
}

static enum err sum_bucket(struct bolt *b, struct span bucket, uint8_t *piece, struct bolt_sum *sum)
{
    struct bolt_cursor *c = bolt_cursor_open_at(b, bucket);
    struct bolt_entry entry;
    enum err e = ERR_OK;

    while (e == ERR_OK) {
        e = bolt_cursor_next(c, &entry);
        if (e != ERR_OK)
            break;
        sum->keys++;
        sum->crc = crc32c(sum->crc, entry.key);
        e = sum_value(c, entry.value_bytes, piece, &sum->crc);
    }
    bolt_cursor_close(c);
    return e == ERR_END ? ERR_OK : e;
}

enum err bolt_sum(struct bolt *b, struct bolt_sum *out)
{
    struct bolt_cursor *root = bolt_cursor_open_root(b);
    struct bolt_entry entry;
    uint8_t *piece = mem_alloc(BOLT_CHECK_PIECE_BYTES);
    enum err e = ERR_OK;

    *out = (struct bolt_sum){0};
    while (e == ERR_OK) {
        e = bolt_cursor_next(root, &entry);
        if (e != ERR_OK)
            break;
        out->crc = crc32c(out->crc, entry.key);
        e = sum_bucket(b, bolt_cursor_span(root), piece, out);
    }
    bolt_cursor_close(root);
    mem_free(piece);
    return e == ERR_END ? ERR_OK : e;
}

/* ---- The digest at the end of a backup ---- */

static enum err digest_of(struct bolt_source *s, uint64_t size, uint8_t *digest)
{
    struct hash *h = hash_new(HASH_SHA256);
    uint8_t *piece = mem_alloc(BOLT_CHECK_PIECE_BYTES);
    enum err e = ERR_OK;

    for (uint64_t at = 0; e == ERR_OK && at < size;) {
        size_t len =
            size - at < BOLT_CHECK_PIECE_BYTES ? (size_t)(size - at) : BOLT_CHECK_PIECE_BYTES;
        e = s->read(s, at, piece, len);
        if (e == ERR_OK)
            hash_add(h, bytes_of(piece, len));
        at += len;
    }
    hash_end(h, digest);
    mem_free(piece);
    return e;
}

enum err bolt_check_digest(struct bolt_source *s, struct bolt_fault *fault)
{
    uint8_t stored[HASH_SHA256_BYTES], digest[HASH_SHA256_BYTES];

    *fault = (struct bolt_fault){0};
    if (s->size % 512 != sizeof(stored)) {
        *fault = (struct bolt_fault){.offset = s->size, .what = "no SHA-256 at the end"};
        return ERR_NOT_FOUND;
    }
    uint64_t size = s->size - sizeof(stored);
    enum err e = s->read(s, size, stored, sizeof(stored));
    if (e == ERR_OK)
        e = digest_of(s, size, digest);
    if (e == ERR_OK && memcmp(stored, digest, sizeof(stored)) != 0)
        e = ERR_CORRUPT;
    if (e == ERR_OK)
        s->size = size;
    else
        *fault = (struct bolt_fault){
            .offset = size,
            .what = e == ERR_CORRUPT ? "not the SHA-256 of what is before it" : "cannot be read"};
    return e;
}
