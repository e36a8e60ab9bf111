/* The two metas: the only part of a bbolt file that has a checksum. */
#include "snap/bolt_int.h"

enum { META_SUMMED_BYTES = META_BYTES - 8 };

static uint64_t fnv1a(const uint8_t *at, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

void meta_encode(const struct meta *m, uint8_t *at)
{
    put_u32(at, BOLT_MAGIC);
    put_u32(at + 4, BOLT_VERSION);
    put_u32(at + 8, m->page_bytes);
    put_u32(at + 12, 0);
    put_u64(at + 16, m->root);
    put_u64(at + 24, m->sequence);
    put_u64(at + 32, m->freelist);
    put_u64(at + 40, m->pages);
    put_u64(at + 48, m->txid);
    put_u64(at + META_SUMMED_BYTES, fnv1a(at, META_SUMMED_BYTES));
}

static bool is_page_size(uint32_t size)
{
    return size >= BOLT_PAGE_BYTES_MIN && size <= BOLT_PAGE_BYTES_MAX && (size & (size - 1)) == 0;
}

const char *meta_decode(const uint8_t *at, struct meta *out)
{
    if (get_u32(at) != BOLT_MAGIC)
        return "wrong magic";
    if (get_u32(at + 4) != BOLT_VERSION)
        return "unknown version";
    if (get_u64(at + META_SUMMED_BYTES) != fnv1a(at, META_SUMMED_BYTES))
        return "the checksum of the meta does not match";
    *out = (struct meta){.page_bytes = get_u32(at + 8),
                         .root = get_u64(at + 16),
                         .sequence = get_u64(at + 24),
                         .freelist = get_u64(at + 32),
                         .pages = get_u64(at + 40),
                         .txid = get_u64(at + 48)};
    if (!is_page_size(out->page_bytes))
        return "impossible page size";
    return NULL;
}

/* What a meta with a good checksum says must still be possible in a file of this size. */
static const char *meta_implausible(const struct bolt *b, const struct meta *m)
{
    if (m->pages > b->source->size / m->page_bytes)
        return "the file is shorter than its meta says";
    if (m->root < 2 || m->root >= m->pages)
        return "the root page is not in the file";
    if (m->freelist != BOLT_NO_FREELIST && (m->freelist < 2 || m->freelist >= m->pages))
        return "the free list is not in the file";
    if (m->sequence != 0)
        return "a sequence number, which etcd does not use";
    return NULL;
}

/* One of the two, and what speaks against it. A torn write is told by `what` alone. */
struct meta_try {
    struct meta meta;
    uint64_t at;
    const char *what;   /* NULL: valid */
    bool header_is_bad; /* though the rest is valid: no torn write does that */
};

/* Looks at the meta page that would be at this offset. An error if the file cannot be read. */
static enum err try_meta(struct bolt *b, uint64_t id, uint64_t at, struct meta_try *out)
{
    uint8_t bytes[PAGE_HEADER_BYTES + META_BYTES];

    *out = (struct meta_try){.at = at, .what = "the file ends before its meta"};
    if (at + BOLT_PAGE_BYTES_MIN > b->source->size)
        return ERR_OK;
    enum err e = bolt_get(b, at, bytes, sizeof(bytes));
    if (e != ERR_OK)
        return e;
    out->what = meta_decode(bytes + PAGE_HEADER_BYTES, &out->meta);
    if (!out->what && id == 1 && out->meta.page_bytes != at)
        out->what = "the second meta is not where its page size puts it";
    out->header_is_bad = get_u64(bytes) != id || get_u64(bytes + 8) != PAGE_META;
    return ERR_OK;
}

/* The second meta is one page on, and only a meta tells how long a page is. */
static enum err find_second_meta(struct bolt *b, struct meta_try *out)
{
    struct meta_try usual = {0};

    for (uint64_t at = BOLT_PAGE_BYTES_MIN; at <= BOLT_PAGE_BYTES_MAX; at *= 2) {
        enum err e = try_meta(b, 1, at, out);
        if (e != ERR_OK || !out->what)
            return e;
        if (at == 4 * KIB)
            usual = *out;
    }
    *out = usual;
    return ERR_OK;
}

static const char *metas_disagree(const struct meta *newer, const struct meta *older)
{
    if (newer->txid != older->txid + 1)
        return "the metas of an image are not one transaction apart";
    if (newer->root != older->root || newer->pages != older->pages ||
        newer->freelist != older->freelist)
        return "the metas of an image differ";
    return NULL;
}

/* What only an image has to hold: nothing was written to it since it was cut. */
static enum err check_image_metas(struct bolt *b, const struct meta_try tries[2])
{
    uint64_t page = b->meta.page_bytes;
    const char *what = metas_disagree(&tries[0].meta, &tries[1].meta);

    if (what)
        return bolt_fail(b, page + PAGE_HEADER_BYTES, what);
    if (b->source->size != b->meta.pages * page)
        return bolt_fail(b, b->meta.pages * page, "more bytes than the image has");
    enum err e = bolt_expect_zeroes(b, PAGE_HEADER_BYTES + META_BYTES, page);
    if (e == ERR_OK)
        e = bolt_expect_zeroes(b, page + PAGE_HEADER_BYTES + META_BYTES, 2 * page);
    return e;
}

/*
 * A live file may have one torn meta, when the power went while it was written: the other one is
 * the state before, and the log has what followed. Anything else that is wrong is damage, and going
 * back a transaction on its account would pass old data off as current.
 */
static enum err judge_metas(struct bolt *b, const struct meta_try tries[2])
{
    for (int i = 0; i < 2; i++) {
        if (tries[i].what && (b->kind == BOLT_IMAGE || tries[!i].what))
            return bolt_fail(b, tries[i].at + PAGE_HEADER_BYTES, tries[i].what);
        if (!tries[i].what && tries[i].header_is_bad)
            return bolt_fail(b, tries[i].at, "not the header of a meta page");
    }
    return ERR_OK;
}

enum err bolt_load_meta(struct bolt *b)
{
    struct meta_try tries[2] = {0};

    enum err e = try_meta(b, 0, 0, &tries[0]);
    if (e == ERR_OK && !tries[0].what)
        e = try_meta(b, 1, tries[0].meta.page_bytes, &tries[1]);
    else if (e == ERR_OK)
        e = find_second_meta(b, &tries[1]);
    if (e == ERR_OK)
        e = judge_metas(b, tries);
    if (e != ERR_OK)
        return e;

    bool second = !tries[1].what && (tries[0].what || tries[1].meta.txid > tries[0].meta.txid);
    const struct meta_try *best = &tries[second];
    b->meta_damaged = tries[0].what || tries[1].what;
    b->meta = best->meta;
    const char *what = meta_implausible(b, &b->meta);
    if (what)
        return bolt_fail(b, best->at + PAGE_HEADER_BYTES, what);
    return b->kind == BOLT_IMAGE ? check_image_metas(b, tries) : ERR_OK;
}
