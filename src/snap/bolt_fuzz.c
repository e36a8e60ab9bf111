/*
 * Any bytes as a bbolt file: first as they are, then with the checksums of the metas put right,
 * since no fuzzer guesses those.
 *
 * Beyond not crashing: a walk ends, with no more entries than fit the file; and a file that
 * bolt_check accepts is read to its end without an error, each key found again by seek.
 */
#include "snap/bolt_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct walk {
    struct bolt *b;
    uint64_t file_bytes;
    bool is_checked;
    struct bytes needle; /* some bytes of the input to seek */
    uint64_t entries;
};

/* An entry takes its element and a byte of key at least, and no page is walked twice in a tree. */
static void count_entry(struct walk *w, uint64_t *in_tree)
{
    w->entries++;
    *in_tree += 1;
    assert(*in_tree <= w->file_bytes / (ELEMENT_BYTES + 1));
}

static void read_value(struct bolt_cursor *c, uint32_t size)
{
    uint8_t piece[512];
    uint32_t len = size < sizeof(piece) ? size : (uint32_t)sizeof(piece);

    enum err e = bolt_cursor_read(c, size - len, piece, len);
    assert(e == ERR_OK); /* lengths were checked when the entry was made */
}

/* Finds the key again with a cursor of its own. */
static void find_again(struct walk *w, struct span bucket, struct bytes key)
{
    struct bolt_cursor *c = bolt_cursor_open_at(w->b, bucket);
    struct bolt_entry entry;

    enum err e = bolt_cursor_seek(c, key, &entry);
    assert(e == ERR_OK);
    assert(bytes_equal(entry.key, key));
    bolt_cursor_close(c);
}

static enum err walk_bucket(struct walk *w, struct span bucket)
{
    struct bolt_cursor *c = bolt_cursor_open_at(w->b, bucket);
    struct bolt_entry entry;
    uint64_t in_tree = 0;
    enum err e;

    while ((e = bolt_cursor_next(c, &entry)) == ERR_OK) {
        count_entry(w, &in_tree);
        read_value(c, entry.value_bytes);
        if (w->is_checked && in_tree % 16 == 1)
            find_again(w, bucket, entry.key);
    }
    assert(bolt_cursor_next(c, &entry) == e);
    enum err sought = bolt_cursor_seek(c, w->needle, &entry);
    assert(!w->is_checked || sought == ERR_OK || sought == ERR_END);
    bolt_cursor_close(c);
    return e;
}

static void walk_file(struct walk *w)
{
    struct bolt_cursor *root = bolt_cursor_open_root(w->b);
    struct bolt_entry entry;
    uint64_t in_tree = 0;
    enum err e;

    while ((e = bolt_cursor_next(root, &entry)) == ERR_OK) {
        count_entry(w, &in_tree);
        e = walk_bucket(w, bolt_cursor_span(root));
        assert(e == ERR_END || !w->is_checked);
        if (w->entries > 100000) /* many buckets may share one tree while nothing is checked */
            break;
    }
    assert(e != ERR_OK || !w->is_checked || w->entries > 100000);
    bolt_cursor_close(root);
}

static void try_file(struct bytes file, enum bolt_kind kind)
{
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b;

    bolt_memory_init(&memory, file);
    enum err e = bolt_open(&memory.source, kind, &fault, &b);
    if (e != ERR_OK) {
        assert(e == ERR_CORRUPT);
        assert(fault.what != NULL);
        return;
    }
    e = bolt_check(b);
    assert((e == ERR_OK) == (fault.what == NULL));
    struct walk w = {.b = b,
                     .file_bytes = file.len,
                     .is_checked = e == ERR_OK,
                     .needle = bytes_of(file.at, file.len < 5 ? file.len : 5)};
    walk_file(&w);
    if (w.is_checked) {
        struct bolt_sum sum;
        e = bolt_sum(b, &sum);
        assert(e == ERR_OK);
        assert(sum.keys <= w.entries);
    }
    bolt_close(b);
}

/* The same fields with a checksum that fits. */
static void repair_meta(uint8_t *page)
{
    uint8_t *at = page + PAGE_HEADER_BYTES;

    meta_encode(&(struct meta){.page_bytes = get_u32(at + 8),
                               .root = get_u64(at + 16),
                               .sequence = get_u64(at + 24),
                               .freelist = get_u64(at + 32),
                               .pages = get_u64(at + 40),
                               .txid = get_u64(at + 48)},
                at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = mem_alloc(size); /* of just this size, so that one byte more is seen */
    struct bytes file = bytes_of(copy, size);

    if (size > 0)
        memcpy(copy, data, size);
    try_file(file, BOLT_LIVE);
    if (size >= 2 * BOLT_PAGE_BYTES_MIN) {
        uint64_t page = get_u32(copy + PAGE_HEADER_BYTES + 8);
        repair_meta(copy);
        if (page >= BOLT_PAGE_BYTES_MIN && page + BOLT_PAGE_BYTES_MIN <= size)
            repair_meta(copy + page);
        try_file(file, BOLT_LIVE);
        try_file(file, BOLT_IMAGE);
    }
    mem_free(copy);
    return 0;
}
