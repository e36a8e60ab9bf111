/* Opening a file, and cursors over its trees. */
#include "io/disk.h"
#include "snap/bolt_int.h"

/* ---- Sources ---- */

static enum err read_memory(struct bolt_source *s, uint64_t offset, uint8_t *into, size_t size)
{
    const struct bolt_memory *m = (const struct bolt_memory *)s;

    assert(offset + size <= m->image.len);
    if (size > 0)
        memcpy(into, m->image.at + offset, size);
    return ERR_OK;
}

void bolt_memory_init(struct bolt_memory *m, struct bytes image)
{
    *m = (struct bolt_memory){.source = {.read = read_memory, .size = image.len}, .image = image};
}

static enum err read_disk(struct bolt_source *s, uint64_t offset, uint8_t *into, size_t size)
{
    const struct bolt_file *f = (const struct bolt_file *)s;
    size_t done = 0;

    enum err e = disk_read(f->disk, f->file, offset, into, size, &done);
    if (e == ERR_OK && done < size) /* someone has cut the file since it was opened */
        e = ERR_IO;
    return e;
}

enum err bolt_file_init(struct bolt_file *f, struct disk *disk, struct disk_file *file)
{
    struct disk_stat stat;

    enum err e = disk_stat_file(disk, file, &stat);
    if (e != ERR_OK)
        return e;
    *f = (struct bolt_file){
        .source = {.read = read_disk, .size = stat.size}, .disk = disk, .file = file};
    return ERR_OK;
}

/* ---- Files ---- */

enum err bolt_open(struct bolt_source *source, enum bolt_kind kind, struct bolt_fault *fault,
                   struct bolt **out)
{
    struct bolt *b = mem_new(struct bolt);

    *fault = (struct bolt_fault){0};
    b->source = source;
    b->kind = kind;
    b->fault = fault;
    b->keys[0] = mem_alloc(BOLT_KEY_BYTES_MAX);
    b->keys[1] = mem_alloc(BOLT_KEY_BYTES_MAX);
    enum err e = bolt_load_meta(b);
    if (e != ERR_OK) {
        bolt_close(b);
        return e;
    }
    *out = b;
    return ERR_OK;
}

void bolt_close(struct bolt *b)
{
    if (!b)
        return;
    assert(b->cursors == 0);
    for (size_t i = 0; i < CACHE_BLOCKS; i++)
        mem_free(b->blocks[i].at);
    mem_free(b->keys[0]);
    mem_free(b->keys[1]);
    mem_free(b);
}

struct bolt_info bolt_info(const struct bolt *b)
{
    return (struct bolt_info){.pages = b->meta.pages,
                              .txid = b->meta.txid,
                              .page_bytes = b->meta.page_bytes,
                              .meta_damaged = b->meta_damaged};
}

/* ---- Cursors ---- */

/* A page on the way from the root to the current entry. */
struct frame {
    struct page page;
    struct span high; /* keys of the page are below this one, if there is any */
    uint32_t index;   /* the current element */
};

struct bolt_cursor {
    struct bolt *b;
    struct span bucket; /* the value in the root tree that names this one; none for the root tree */
    struct frame frames[BOLT_DEPTH_MAX];
    size_t depth; /* frames in use; 0: before the first entry */
    bool is_at_end;
    enum err err; /* the first one, kept */
    struct span value;
    uint8_t *key; /* BOLT_KEY_BYTES_MAX */
};

static struct bolt_cursor *open_cursor(struct bolt *b, struct span bucket)
{
    struct bolt_cursor *c = mem_new(struct bolt_cursor);

    c->b = b;
    c->bucket = bucket;
    c->key = mem_alloc(BOLT_KEY_BYTES_MAX);
    b->cursors++;
    return c;
}

struct bolt_cursor *bolt_cursor_open_at(struct bolt *b, struct span bucket)
{
    assert(bucket.at > 0);
    return open_cursor(b, bucket);
}

struct bolt_cursor *bolt_cursor_open_root(struct bolt *b)
{
    return open_cursor(b, (struct span){0});
}

enum err bolt_cursor_open(struct bolt *b, struct bytes bucket, struct bolt_cursor **out)
{
    struct bolt_cursor *root = bolt_cursor_open_root(b);
    struct bolt_entry entry;

    enum err e = bolt_cursor_seek(root, bucket, &entry);
    if (e == ERR_END || (e == ERR_OK && !bytes_equal(entry.key, bucket)))
        e = ERR_NOT_FOUND;
    if (e == ERR_OK)
        *out = bolt_cursor_open_at(b, root->value);
    bolt_cursor_close(root);
    return e;
}

void bolt_cursor_close(struct bolt_cursor *c)
{
    if (!c)
        return;
    assert(c->b->cursors > 0);
    c->b->cursors--;
    mem_free(c->key);
    mem_free(c);
}

struct span bolt_cursor_span(const struct bolt_cursor *c)
{
    return c->value;
}

/* Checks the page and makes it the innermost. Only the root of a tree may be empty. */
static enum err push(struct bolt_cursor *c, struct page page, struct span low, struct span high)
{
    page.is_root_tree = c->bucket.at == 0;
    if (page.count == 0 && (page.is_branch || c->depth > 0))
        return bolt_fail(c->b, page.at, "an empty page inside a tree");
    if (c->depth == BOLT_DEPTH_MAX)
        return bolt_fail(c->b, page.at, "the tree is too deep, or runs in a circle");
    enum err e = bolt_check_page(c->b, &page, low, high);
    if (e == ERR_OK)
        c->frames[c->depth++] = (struct frame){.page = page, .high = high};
    return e;
}

/* The page the tree starts at. */
static enum err push_root(struct bolt_cursor *c)
{
    struct bolt *b = c->b;
    struct page page;
    uint8_t header[BUCKET_BYTES];
    uint64_t id = b->meta.root;

    if (c->bucket.at > 0) {
        if (c->bucket.len < BUCKET_BYTES)
            return bolt_fail(b, c->bucket.at, "too short for a bucket");
        enum err e = bolt_get(b, c->bucket.at, header, sizeof(header));
        if (e != ERR_OK)
            return e;
        id = get_u64(header);
        if (get_u64(header + 8) != 0)
            return bolt_fail(b, c->bucket.at + 8, "a sequence number, which etcd does not use");
        if (id > 0 && c->bucket.len != BUCKET_BYTES)
            return bolt_fail(b, c->bucket.at, "too long for a bucket that is not inlined");
    }
    enum err e = id == 0 ? bolt_load_inlined(b, c->bucket, &page)
                         : bolt_load_page(b, id, c->bucket.at, &page);
    return e == ERR_OK ? push(c, page, (struct span){0}, (struct span){0}) : e;
}

/* The child that the innermost page, a branch, has at its index. */
static enum err push_child(struct bolt_cursor *c)
{
    struct frame *f = &c->frames[c->depth - 1];
    struct element here, next;
    struct page page;
    struct span high = f->high;

    enum err e = bolt_get_element(c->b, &f->page, f->index, &here);
    if (e == ERR_OK && f->index + 1 < f->page.count) {
        e = bolt_get_element(c->b, &f->page, f->index + 1, &next);
        high = next.key;
    }
    if (e == ERR_OK)
        e = bolt_load_page(c->b, here.child, here.at + 8, &page);
    return e == ERR_OK ? push(c, page, here.key, high) : e;
}

/* From the innermost page down along first children to a leaf. */
static enum err descend(struct bolt_cursor *c)
{
    enum err e = ERR_OK;

    while (e == ERR_OK && c->frames[c->depth - 1].page.is_branch)
        e = push_child(c);
    return e;
}

/* Leaves the innermost page for the first leaf behind it, or goes to the end. */
static enum err leave_page(struct bolt_cursor *c)
{
    while (--c->depth > 0) {
        struct frame *f = &c->frames[c->depth - 1];
        if (++f->index < f->page.count)
            return descend(c);
    }
    c->is_at_end = true;
    return ERR_END;
}

/* To the first leaf, or over to the next one when this one is used up. */
static enum err settle(struct bolt_cursor *c)
{
    enum err e = ERR_OK;

    if (c->depth == 0) {
        e = push_root(c);
        if (e == ERR_OK)
            e = descend(c);
    }
    if (e != ERR_OK)
        return e;
    const struct frame *f = &c->frames[c->depth - 1];
    return f->index < f->page.count ? ERR_OK : leave_page(c);
}

static enum err load_entry(struct bolt_cursor *c, struct bolt_entry *out)
{
    struct frame *f = &c->frames[c->depth - 1];
    struct element el;

    assert(!f->page.is_branch);
    enum err e = bolt_get_element(c->b, &f->page, f->index, &el);
    if (e == ERR_OK)
        e = bolt_get(c->b, el.key.at, c->key, el.key.len);
    if (e != ERR_OK)
        return e;
    f->index++;
    c->value = el.value;
    *out = (struct bolt_entry){.key = bytes_of(c->key, el.key.len), .value_bytes = el.value.len};
    return ERR_OK;
}

/* Keeps an error that is not just the end. */
static enum err finish(struct bolt_cursor *c, enum err e)
{
    if (e != ERR_OK && e != ERR_END)
        c->err = e;
    return e;
}

enum err bolt_cursor_next(struct bolt_cursor *c, struct bolt_entry *out)
{
    if (c->err != ERR_OK || c->is_at_end)
        return c->err != ERR_OK ? c->err : ERR_END;
    enum err e = settle(c);
    if (e == ERR_OK)
        e = load_entry(c, out);
    return finish(c, e);
}

enum err bolt_cursor_next_leaf(struct bolt_cursor *c)
{
    if (c->err != ERR_OK || c->is_at_end)
        return c->err != ERR_OK ? c->err : ERR_END;
    enum err e = settle(c);
    if (e == ERR_OK) {
        struct frame *f = &c->frames[c->depth - 1];
        f->index = f->page.count;
    }
    return finish(c, e);
}

/* The number of elements of the innermost page whose keys are below `key`, or equal to it. */
static enum err count_below(struct bolt_cursor *c, struct bytes key, bool or_equal, uint32_t *out)
{
    const struct page *p = &c->frames[c->depth - 1].page;
    uint32_t low = 0, high = p->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct element el;
        enum err e = bolt_get_element(c->b, p, middle, &el);
        if (e == ERR_OK)
            e = bolt_get(c->b, el.key.at, c->key, el.key.len);
        if (e != ERR_OK)
            return e;
        int order = bytes_compare(bytes_of(c->key, el.key.len), key);
        if (order < 0 || (or_equal && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return ERR_OK;
}

/* Down to the leaf that would hold the key, index on the first element not below it. */
static enum err descend_to(struct bolt_cursor *c, struct bytes key)
{
    enum err e = push_root(c);

    while (e == ERR_OK) {
        struct frame *f = &c->frames[c->depth - 1];
        uint32_t count = 0;
        e = count_below(c, key, f->page.is_branch, &count);
        if (e != ERR_OK)
            break;
        if (!f->page.is_branch) {
            f->index = count;
            break;
        }
        f->index = count > 0 ? count - 1 : 0;
        e = push_child(c);
    }
    return e;
}

enum err bolt_cursor_seek(struct bolt_cursor *c, struct bytes key, struct bolt_entry *out)
{
    if (c->err != ERR_OK)
        return c->err;
    c->depth = 0;
    c->is_at_end = false;
    enum err e = descend_to(c, key);
    if (e == ERR_OK)
        e = settle(c);
    if (e == ERR_OK)
        e = load_entry(c, out);
    return finish(c, e);
}

enum err bolt_cursor_read(struct bolt_cursor *c, uint32_t offset, uint8_t *into, size_t size)
{
    assert(offset <= c->value.len);
    assert(size <= c->value.len - offset);
    return bolt_get(c->b, c->value.at + offset, into, size);
}

enum err bolt_cursor_value(struct bolt_cursor *c, size_t size_max, struct buf *out)
{
    if (c->value.len > size_max)
        return ERR_TOO_LARGE;
    enum err e = bolt_get(c->b, c->value.at, buf_reserve(out, c->value.len), c->value.len);
    if (e == ERR_OK)
        out->len += c->value.len;
    return e;
}
