/*
 * bolt_int: the bytes of a bbolt file, shared by its reader, its checker and its writer.
 *
 * All numbers are little-endian here: bbolt writes its host's order, and etcd is at home on hosts
 * that are. On one that is not, its files would fail our magic.
 */
#pragma once

#include "base/assert.h"
#include "snap/bolt.h"

enum {
    PAGE_HEADER_BYTES = 16, /* id u64, kind u16, count u16, overflow u32 */
    ELEMENT_BYTES = 16,     /* of a branch and of a leaf alike */
    BUCKET_BYTES = 16,      /* root page u64, sequence u64 */
    META_BYTES = 64,        /* behind the page header */
};

enum page_kind {
    PAGE_BRANCH = 0x01,
    PAGE_LEAF = 0x02,
    PAGE_META = 0x04,
    PAGE_FREELIST = 0x10,
};

#define BOLT_MAGIC       0xED0CDAEDu
#define BOLT_VERSION     2u
#define BOLT_NO_FREELIST UINT64_MAX
#define FREELIST_LONG    0xFFFFu /* as a count: the real one is in the first item */

static inline uint16_t get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)get_u16(at) | (uint32_t)get_u16(at + 2) << 16;
}

static inline uint64_t get_u64(const uint8_t *at)
{
    return (uint64_t)get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

static inline void put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void put_u32(uint8_t *at, uint32_t value)
{
    put_u16(at, (uint16_t)value);
    put_u16(at + 2, (uint16_t)(value >> 16));
}

static inline void put_u64(uint8_t *at, uint64_t value)
{
    put_u32(at, (uint32_t)value);
    put_u32(at + 4, (uint32_t)(value >> 32));
}

/* ---- Metas (bolt_meta.c) ---- */

struct meta {
    uint32_t page_bytes;
    uint64_t root;     /* page of the root tree */
    uint64_t sequence; /* of the root bucket; 0 in etcd */
    uint64_t freelist; /* its page, or BOLT_NO_FREELIST */
    uint64_t pages;    /* in use, or free, counted from the start of the file */
    uint64_t txid;
};

/* The META_BYTES behind the header of a meta page. */
void meta_encode(const struct meta *m, uint8_t *at);

/* Fills *out and returns NULL, or says what is wrong. */
const char *meta_decode(const uint8_t *at, struct meta *out);

/* Chooses b->meta: bbolt's rule, and for an image also that both metas are whole and agree. */
MUST_CHECK enum err bolt_load_meta(struct bolt *b);

/* ---- The reader (bolt_page.c) ---- */

enum { CACHE_BLOCK_BYTES = 32 * KIB, CACHE_BLOCKS = BOLT_CACHE_BYTES / CACHE_BLOCK_BYTES };

struct block {
    uint64_t number;
    uint64_t used; /* when: the lowest one is the next to go; 0: empty */
    size_t len;
    uint8_t *at;
};

struct bolt {
    struct bolt_source *source;
    struct bolt_fault *fault;
    enum bolt_kind kind;
    struct meta meta;
    bool meta_damaged;
    uint8_t *seen; /* while bolt_check runs: a bit for each page that was reached; else NULL */
    struct block blocks[CACHE_BLOCKS];
    struct block *recent; /* the one used last */
    uint64_t use_count;
    uint8_t *keys[2]; /* BOLT_KEY_BYTES_MAX each, for comparing */
    unsigned cursors; /* open ones */
};

/* Some bytes of the file; a len of 0, which no key has, says that there are none. */
struct span {
    uint64_t at;
    uint32_t len;
};

/* A branch or leaf page, or the inlined leaf of a small bucket. */
struct page {
    uint64_t at, end; /* offsets in the file, overflow included */
    uint16_t count;
    bool is_branch, is_inlined;
    bool is_root_tree; /* its leaf elements are buckets */
};

struct element {
    uint64_t at; /* of the element itself */
    struct span key;
    union {
        uint64_t child;    /* in a branch */
        struct span value; /* in a leaf */
    };
    bool is_bucket;
};

/* Notes the fault, unless there is one already, and returns ERR_CORRUPT. */
enum err bolt_fail(struct bolt *b, uint64_t offset, const char *what);

/* Bytes of the file, through the cache when they are few. Beyond its end is a fault. */
MUST_CHECK enum err bolt_get(struct bolt *b, uint64_t offset, uint8_t *into, size_t size);

/* All zeroes up to `end`? */
MUST_CHECK enum err bolt_expect_zeroes(struct bolt *b, uint64_t offset, uint64_t end);

/* Marks pages as reached, while bolt_check runs. Named twice is a fault, reported at `from`. */
MUST_CHECK enum err bolt_mark(struct bolt *b, uint64_t id, uint64_t count, uint64_t from);

/* The header of page `id`, which was named at offset `from`: kind, place and length are checked. */
MUST_CHECK enum err bolt_load_page(struct bolt *b, uint64_t id, uint64_t from, struct page *out);

/* The leaf inside a bucket's value; behind the bucket header. */
MUST_CHECK enum err bolt_load_inlined(struct bolt *b, struct span value, struct page *out);

/*
 * Everything that can be said about one page: elements back to back in key order, no key below
 * `low` or at or above `high`, zeroes behind them.
 */
MUST_CHECK enum err bolt_check_page(struct bolt *b, const struct page *p, struct span low,
                                    struct span high);

/* Element number i, its lengths within the page. */
MUST_CHECK enum err bolt_get_element(struct bolt *b, const struct page *p, uint32_t i,
                                     struct element *out);

/* ---- Cursors (bolt_read.c) ---- */

/* One on the tree that the value of a root tree's element describes. */
struct bolt_cursor *bolt_cursor_open_at(struct bolt *b, struct span bucket);

/* Where the current entry's value is. */
struct span bolt_cursor_span(const struct bolt_cursor *c);

/* Goes behind the last entry of the next leaf, which makes all checks on the way. */
MUST_CHECK enum err bolt_cursor_next_leaf(struct bolt_cursor *c);
