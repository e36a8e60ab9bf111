/*
 * A bbolt image as a stream, in two walks over the same content.
 *
 * Both walks run the same code, tree_add and tree_finish, which decides where pages begin and end
 * from lengths and keys alone; only in the second one do pages have bytes. Pages are numbered in
 * the order they are complete:
 *
 *     head:      meta 0 | meta 1 | free list 2
 *     bucket 0:  leaf 3 | leaf 4 | leaf 5 | leaf 6 | branch 7 {3 4} | leaf 8 | branch 9 {5 6 8} |
 *                branch 10 {7 9}
 *     bucket 1:  leaf 11
 *     buckets:   leaf 12 {"bucket 0" at 10, "bucket 1" at 11}
 *
 * A leaf holds several entries only as long as they fit one page, which is put together in memory.
 * An entry too big for that has its leaf to itself, and its value passes through.
 *
 * etcd's own images store no free list. Ours store one, an empty one: with it a page that no tree
 * reaches is a fault, so a damaged page number cannot drop part of a tree unseen. etcd reads it and
 * stops storing it with its first commit.
 */
#include "base/crc32c.h"
#include "snap/bolt_int.h"

enum { PAGE_BYTES_DEFAULT = 4096, META_PAGES = 2, FREELIST_PAGE = 2, FIRST_PAGE = 3 };

static_assert(PAGE_HEADER_BYTES + ELEMENT_BYTES + BOLT_BUCKET_NAME_BYTES_MAX + BUCKET_BYTES <=
                  BOLT_PAGE_BYTES_MIN,
              "no entry of the root tree is too big to be gathered");

/* A page that is being filled: a leaf's entries, or a branch's children. */
struct open_page {
    struct buf heads; /* struct head, one for each element */
    struct buf data;  /* keys, and in the second walk values: what follows the elements */
    size_t count;
    uint64_t bytes; /* of the page, as it would be now */
    struct buf first_key;
};

struct head {
    uint32_t key_bytes, value_bytes;
    uint64_t child; /* in a branch */
};

/* What the first walk leaves for the second to be held against. */
struct plan {
    uint64_t next_page; /* after this bucket */
    uint32_t shape;     /* a checksum over number, kind, count and length of its pages */
};

enum stage { STAGE_HEAD, STAGE_BUCKET, STAGE_ENTRIES, STAGE_ROOT, STAGE_DONE };

struct bolt_writer {
    struct bolt_feed *feed;
    const struct bytes *buckets;
    size_t bucket_count;
    uint32_t page_bytes;
    uint64_t fill_bytes; /* a page is closed when it would have more */
    uint64_t txid;

    bool is_planned;     /* the first walk is over */
    struct plan *plans;  /* one for each bucket, and one for the root tree */
    uint64_t *roots;     /* the page each bucket starts at */
    uint64_t image_root; /* the page the root tree starts at */
    enum err err;        /* the first one, kept */

    enum stage stage;
    size_t bucket;
    uint64_t next_page;
    uint32_t shape;
    struct open_page leaf;
    struct open_page levels[BOLT_DEPTH_MAX]; /* branches, the lowest first */
    size_t depth;                            /* levels that have had a child */
    struct buf last_key;                     /* of the feed, for the order */

    struct buf out; /* finished bytes, from out_at on */
    size_t out_at;
    uint32_t value_at, value_bytes; /* after them, a value that is passed through */
    uint64_t zeroes;                /* and after that the rest of its last page */
};

struct bolt_writer *bolt_writer_open(const struct bolt_writer_options *options,
                                     struct bolt_feed *feed)
{
    struct bolt_writer *w = mem_new(struct bolt_writer);

    for (size_t i = 0; i < options->bucket_count; i++) {
        assert(options->buckets[i].len > 0);
        assert(options->buckets[i].len <= BOLT_BUCKET_NAME_BYTES_MAX);
        assert(i == 0 || bytes_compare(options->buckets[i - 1], options->buckets[i]) < 0);
    }
    w->feed = feed;
    w->buckets = options->buckets;
    w->bucket_count = options->bucket_count;
    w->page_bytes = options->page_bytes ? options->page_bytes : PAGE_BYTES_DEFAULT;
    w->txid = options->txid ? options->txid : 2;
    assert((w->page_bytes & (w->page_bytes - 1)) == 0);
    assert(w->page_bytes >= BOLT_PAGE_BYTES_MIN && w->page_bytes <= BOLT_PAGE_BYTES_MAX);
    assert(w->txid % 2 == 0); /* bbolt writes transaction t to meta t % 2 */

    /* etcd's own fill for a bucket that is appended to, a tenth left for what comes. */
    w->fill_bytes = (uint64_t)w->page_bytes * 9 / 10;
    w->plans = mem_new_array(w->bucket_count + 1, struct plan);
    w->roots = mem_new_array(w->bucket_count + 1, uint64_t);
    w->stage = STAGE_BUCKET;
    w->next_page = FIRST_PAGE;
    return w;
}

static void free_open_page(struct open_page *p)
{
    buf_free(&p->heads);
    buf_free(&p->data);
    buf_free(&p->first_key);
}

void bolt_writer_close(struct bolt_writer *w)
{
    if (!w)
        return;
    free_open_page(&w->leaf);
    for (size_t i = 0; i < BOLT_DEPTH_MAX; i++)
        free_open_page(&w->levels[i]);
    buf_free(&w->last_key);
    buf_free(&w->out);
    mem_free(w->plans);
    mem_free(w->roots);
    mem_free(w);
}

/* ---- Pages ---- */

static uint64_t pages_for(const struct bolt_writer *w, uint64_t bytes)
{
    return (bytes + w->page_bytes - 1) / w->page_bytes;
}

/* Numbers a page that is complete, and writes its header when it is to have bytes. */
static uint64_t begin_page(struct bolt_writer *w, enum page_kind kind, size_t count, uint64_t bytes)
{
    uint8_t header[PAGE_HEADER_BYTES];
    uint64_t id = w->next_page;
    uint64_t pages = pages_for(w, bytes);

    assert(count < FREELIST_LONG);
    assert(pages > 0 && pages - 1 <= UINT32_MAX);
    put_u64(header, id);
    put_u16(header + 8, (uint16_t)kind);
    put_u16(header + 10, (uint16_t)count);
    put_u32(header + 12, (uint32_t)(pages - 1));
    w->shape = crc32c(w->shape, bytes_of(header, sizeof(header)));
    w->next_page += pages;
    if (w->is_planned)
        buf_append(&w->out, bytes_of(header, sizeof(header)));
    return id;
}

static void put_element(struct bolt_writer *w, enum page_kind kind, uint32_t flags, uint32_t pos,
                        const struct head *h)
{
    uint8_t *at = buf_extend(&w->out, ELEMENT_BYTES);

    if (kind == PAGE_BRANCH) {
        put_u32(at, pos);
        put_u32(at + 4, h->key_bytes);
        put_u64(at + 8, h->child);
    } else {
        put_u32(at, flags);
        put_u32(at + 4, pos);
        put_u32(at + 8, h->key_bytes);
        put_u32(at + 12, h->value_bytes);
    }
}

/* In the root tree every entry is a bucket. */
static uint32_t leaf_flags(const struct bolt_writer *w)
{
    return w->stage == STAGE_ROOT ? 1 : 0;
}

/* The first `count` elements of an open page become a page of the file. */
static uint64_t close_page(struct bolt_writer *w, struct open_page *p, enum page_kind kind,
                           size_t count)
{
    const struct head *heads = (const struct head *)p->heads.at;
    uint64_t data_bytes = 0, bytes = PAGE_HEADER_BYTES + (uint64_t)count * ELEMENT_BYTES;

    for (size_t i = 0; i < count; i++)
        data_bytes += heads[i].key_bytes + heads[i].value_bytes;
    uint64_t id = begin_page(w, kind, count, bytes + data_bytes);
    if (!w->is_planned)
        return id;

    size_t start = w->out.len - PAGE_HEADER_BYTES;
    uint64_t pos = (uint64_t)count * ELEMENT_BYTES;
    for (size_t i = 0; i < count; i++) {
        put_element(w, kind, leaf_flags(w), (uint32_t)pos, &heads[i]);
        pos += heads[i].key_bytes + heads[i].value_bytes - (uint64_t)ELEMENT_BYTES;
    }
    buf_append(&w->out, bytes_of(p->data.at, (size_t)data_bytes));
    size_t rest = (size_t)(pages_for(w, bytes + data_bytes) * w->page_bytes - bytes - data_bytes);
    memset(buf_extend(&w->out, rest), 0, rest);
    assert((w->out.len - start) % w->page_bytes == 0);
    return id;
}

static void add_element(struct open_page *p, struct bytes key, struct head head)
{
    if (p->count == 0) {
        p->bytes = PAGE_HEADER_BYTES;
        buf_clear(&p->first_key);
        buf_append(&p->first_key, key);
    }
    buf_append(&p->heads, bytes_of(&head, sizeof(head)));
    buf_append(&p->data, key);
    p->count++;
    p->bytes += ELEMENT_BYTES + key.len + head.value_bytes;
}

static void empty_page(struct open_page *p)
{
    buf_clear(&p->heads);
    buf_clear(&p->data);
    p->count = 0;
    p->bytes = 0;
}

/* ---- Trees ---- */

static void add_child(struct bolt_writer *w, size_t level, struct bytes key, uint64_t id);

/*
 * All children of a full branch but the last, which begins the next one, become a page. So a branch
 * never ends up with a single child, however unlucky the last one is.
 */
static void close_full_branch(struct bolt_writer *w, size_t level)
{
    struct open_page *p = &w->levels[level];
    size_t keep = p->count - 1;
    struct head last = ((const struct head *)p->heads.at)[keep];
    size_t last_at = p->data.len - last.key_bytes;

    uint64_t id = close_page(w, p, PAGE_BRANCH, keep);
    add_child(w, level + 1, buf_bytes(&p->first_key), id);

    buf_drop_front(&p->data, last_at);
    buf_clear(&p->heads);
    buf_append(&p->heads, bytes_of(&last, sizeof(last)));
    buf_clear(&p->first_key);
    buf_append(&p->first_key, buf_bytes(&p->data));
    p->count = 1;
    p->bytes = PAGE_HEADER_BYTES + ELEMENT_BYTES + last.key_bytes;
}

/* Closes the branch that a child with such a key does not fit into. */
static void reserve_one(struct bolt_writer *w, size_t level, size_t key_bytes)
{
    assert(level < BOLT_DEPTH_MAX);
    const struct open_page *p = &w->levels[level];

    if (p->count >= 3 && p->bytes + ELEMENT_BYTES + key_bytes > w->fill_bytes)
        close_full_branch(w, level);
}

static void add_child(struct bolt_writer *w, size_t level, struct bytes key, uint64_t id)
{
    reserve_one(w, level, key.len);
    if (level == w->depth)
        w->depth++;
    add_element(&w->levels[level], key, (struct head){.key_bytes = (uint32_t)key.len, .child = id});
}

static void close_leaf(struct bolt_writer *w)
{
    uint64_t id = close_page(w, &w->leaf, PAGE_LEAF, w->leaf.count);

    add_child(w, 0, buf_bytes(&w->leaf.first_key), id);
    empty_page(&w->leaf);
}

/*
 * A leaf of one entry whose value is not gathered but passed through. Its page must be the last of
 * what is ready to go out, so a branch that is full because of it has to be closed before.
 */
static void add_big_entry(struct bolt_writer *w, struct bytes key, uint32_t value_bytes)
{
    struct head head = {.key_bytes = (uint32_t)key.len, .value_bytes = value_bytes};
    uint64_t bytes = PAGE_HEADER_BYTES + ELEMENT_BYTES + key.len + (uint64_t)value_bytes;

    reserve_one(w, 0, key.len);
    uint64_t id = begin_page(w, PAGE_LEAF, 1, bytes);
    if (w->is_planned) {
        put_element(w, PAGE_LEAF, leaf_flags(w), ELEMENT_BYTES, &head);
        buf_append(&w->out, key);
        w->value_at = 0;
        w->value_bytes = value_bytes;
        w->zeroes = pages_for(w, bytes) * w->page_bytes - bytes;
    }
    add_child(w, 0, key, id);
}

/*
 * The next entry of the tree. For one that is gathered the space for its value is returned in
 * *space, which is NULL while there are no bytes to be had or they will pass through.
 */
static void tree_add(struct bolt_writer *w, struct bytes key, uint32_t value_bytes, uint8_t **space)
{
    uint64_t more = ELEMENT_BYTES + key.len + (uint64_t)value_bytes;

    *space = NULL;
    if (w->leaf.count > 0 && w->leaf.bytes + more > w->fill_bytes)
        close_leaf(w);
    if (PAGE_HEADER_BYTES + more > w->page_bytes) {
        assert(w->leaf.count == 0);
        add_big_entry(w, key, value_bytes);
        return;
    }
    add_element(&w->leaf, key,
                (struct head){.key_bytes = (uint32_t)key.len, .value_bytes = value_bytes});
    if (w->is_planned)
        *space = buf_extend(&w->leaf.data, value_bytes);
}

/* Closes what is open, from the leaf up, until one page is left: the root, which is returned. */
static uint64_t tree_finish(struct bolt_writer *w)
{
    if (w->leaf.count > 0 || w->depth == 0)
        close_leaf(w);
    size_t level = 0;
    for (; level + 1 < w->depth || w->levels[level].count > 1; level++) {
        struct open_page *p = &w->levels[level];
        uint64_t id = close_page(w, p, PAGE_BRANCH, p->count);
        add_child(w, level + 1, buf_bytes(&p->first_key), id);
        empty_page(p);
    }
    assert(w->levels[level].count == 1);
    uint64_t root = ((const struct head *)w->levels[level].heads.at)->child;
    empty_page(&w->levels[level]);
    w->depth = 0;
    return root;
}

/* ---- The walk ---- */

/* Notes or compares what a finished tree looks like. */
static enum err check_plan(struct bolt_writer *w, size_t tree)
{
    struct plan now = {.next_page = w->next_page, .shape = w->shape};
    struct plan *plan = &w->plans[tree];

    if (!w->is_planned)
        *plan = now;
    else if (plan->next_page != now.next_page || plan->shape != now.shape)
        return ERR_CORRUPT;
    return ERR_OK;
}

static enum err check_entry(struct bolt_writer *w, const struct bolt_entry *entry)
{
    if (entry->key.len == 0 || entry->key.len > BOLT_KEY_BYTES_MAX)
        return ERR_TOO_LARGE;
    if (entry->value_bytes > BOLT_VALUE_BYTES_MAX)
        return ERR_TOO_LARGE;
    if (bytes_compare(buf_bytes(&w->last_key), entry->key) >= 0)
        return ERR_CORRUPT;
    buf_clear(&w->last_key);
    buf_append(&w->last_key, entry->key);
    return ERR_OK;
}

static enum err add_entry(struct bolt_writer *w)
{
    struct bolt_entry entry = {0};
    uint8_t *space = NULL;

    enum err e = w->feed->next(w->feed, &entry);
    if (e == ERR_END) {
        w->roots[w->bucket] = tree_finish(w);
        w->stage = STAGE_BUCKET;
        return check_plan(w, w->bucket++);
    }
    if (e == ERR_OK)
        e = check_entry(w, &entry);
    if (e != ERR_OK)
        return e;
    tree_add(w, entry.key, entry.value_bytes, &space);
    if (w->is_planned && w->next_page > w->plans[w->bucket].next_page)
        return ERR_CORRUPT; /* the feed has more than it had the first time */
    if (space && entry.value_bytes > 0)
        e = w->feed->read(w->feed, 0, space, entry.value_bytes);
    return e;
}

static enum err write_root(struct bolt_writer *w)
{
    for (size_t i = 0; i < w->bucket_count; i++) {
        uint8_t *space;
        tree_add(w, w->buckets[i], BUCKET_BYTES, &space);
        if (space) {
            put_u64(space, w->roots[i]);
            put_u64(space + 8, 0);
        }
    }
    w->image_root = tree_finish(w);
    w->stage = STAGE_DONE;
    return check_plan(w, w->bucket_count);
}

static uint8_t *head_page(struct bolt_writer *w, uint64_t id, enum page_kind kind)
{
    uint8_t *at = buf_extend(&w->out, w->page_bytes);

    memset(at, 0, w->page_bytes);
    put_u64(at, id);
    put_u16(at + 8, (uint16_t)kind);
    return at;
}

static void write_head(struct bolt_writer *w)
{
    struct meta m = {.page_bytes = w->page_bytes,
                     .root = w->image_root,
                     .freelist = FREELIST_PAGE,
                     .pages = w->plans[w->bucket_count].next_page,
                     .txid = w->txid};

    for (uint64_t id = 0; id < META_PAGES; id++, m.txid--)
        meta_encode(&m, head_page(w, id, PAGE_META) + PAGE_HEADER_BYTES);
    head_page(w, FREELIST_PAGE, PAGE_FREELIST);
    w->stage = STAGE_BUCKET;
}

/* A small step of either walk. */
static enum err advance(struct bolt_writer *w)
{
    switch (w->stage) {
    case STAGE_HEAD:
        write_head(w);
        return ERR_OK;
    case STAGE_BUCKET:
        buf_clear(&w->last_key);
        if (w->bucket == w->bucket_count) {
            w->stage = STAGE_ROOT;
            return ERR_OK;
        }
        w->stage = STAGE_ENTRIES;
        return w->feed->rewind(w->feed, w->bucket);
    case STAGE_ENTRIES:
        return add_entry(w);
    case STAGE_ROOT:
        return write_root(w);
    case STAGE_DONE:
        break;
    }
    unreachable();
}

enum err bolt_writer_plan(struct bolt_writer *w, uint64_t entries_max, bool *done)
{
    assert(!w->is_planned);

    for (uint64_t i = 0; w->err == ERR_OK && w->stage != STAGE_DONE && i < entries_max; i++)
        w->err = advance(w);
    *done = w->err == ERR_OK && w->stage == STAGE_DONE;
    if (*done) {
        w->is_planned = true;
        w->stage = STAGE_HEAD;
        w->bucket = 0;
        w->next_page = FIRST_PAGE;
        w->shape = 0;
    }
    return w->err;
}

uint64_t bolt_writer_size(const struct bolt_writer *w)
{
    assert(w->is_planned);
    return w->plans[w->bucket_count].next_page * w->page_bytes;
}

/* Some of what is ready, at least a byte, or nothing when the walk has to go on. */
static enum err take_ready(struct bolt_writer *w, uint8_t *into, size_t size, size_t *done)
{
    if (w->out_at < w->out.len) {
        size_t len = w->out.len - w->out_at;
        *done = len < size ? len : size;
        memcpy(into, w->out.at + w->out_at, *done);
        w->out_at += *done;
    } else if (w->value_at < w->value_bytes) {
        uint32_t len = w->value_bytes - w->value_at;
        *done = len < size ? len : size;
        enum err e = w->feed->read(w->feed, w->value_at, into, *done);
        if (e != ERR_OK)
            return e;
        w->value_at += (uint32_t)*done;
    } else {
        *done = w->zeroes < size ? (size_t)w->zeroes : size;
        memset(into, 0, *done);
        w->zeroes -= *done;
    }
    return ERR_OK;
}

enum err bolt_writer_read(struct bolt_writer *w, uint8_t *into, size_t size, size_t *done)
{
    assert(w->is_planned);

    *done = 0;
    while (w->err == ERR_OK && *done < size) {
        size_t some = 0;
        w->err = take_ready(w, into + *done, size - *done, &some);
        *done += some;
        if (w->err != ERR_OK || some > 0)
            continue;
        if (w->stage == STAGE_DONE)
            break;
        buf_clear(&w->out);
        w->out_at = 0;
        w->err = advance(w);
    }
    return w->err;
}
