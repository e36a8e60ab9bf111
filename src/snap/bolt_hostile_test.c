/* Files that are not what they should be: every one is refused, none does harm. */
#include "io/hash.h"
#include "snap/bolt_int.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 1024 };

/* ---- A small file with one of everything: two levels, a value of several pages, an empty bucket
 */

static void make_small_image(struct arena *arena, struct buf *image)
{
    struct rig_bucket buckets[] = {
        {.name = BYTES("big")}, {.name = BYTES("empty")}, {.name = BYTES("key")}};
    struct rng rng;

    rng_seed(&rng, 7);
    rig_add(&buckets[0], BYTES("large"), rig_random(arena, &rng, 1100));
    for (int i = 0; i < 32; i++)
        rig_add(&buckets[2], bytes_of_str(arena_printf(arena, "key-%03d", i)),
                rig_random(arena, &rng, (size_t)i % 40));
    rig_write(buckets, 3, &(struct rig_write_options){.page_bytes = PAGE}, image);
    rig_free(buckets, 3);
}

/* Where each entry is. Two files with the same layout differ in nothing but the bytes there. */
struct layout {
    struct span spans[256]; /* key and value together, bucket by bucket */
    size_t count;
};

static enum err note_bucket(struct bolt *b, struct span bucket, struct layout *out)
{
    struct bolt_cursor *c = bolt_cursor_open_at(b, bucket);
    struct bolt_entry entry;
    enum err e;

    while ((e = bolt_cursor_next(c, &entry)) == ERR_OK) {
        struct span value = bolt_cursor_span(c);
        uint32_t key_len = (uint32_t)entry.key.len;
        CHECK(out->count < ARRAY_LEN(out->spans));
        out->spans[out->count++] =
            (struct span){.at = value.at - key_len, .len = value.len + key_len};
    }
    bolt_cursor_close(c);
    return e == ERR_END ? ERR_OK : e;
}

/* Opens, checks and walks: the whole way a file takes in. */
static enum err note_layout(struct bytes image, struct bolt_fault *fault, struct layout *out)
{
    struct bolt_memory memory;
    struct bolt *b;
    struct bolt_entry entry;

    out->count = 0;
    bolt_memory_init(&memory, image);
    enum err e = bolt_open(&memory.source, BOLT_IMAGE, fault, &b);
    if (e != ERR_OK)
        return e;
    e = bolt_check(b);
    struct bolt_cursor *root = bolt_cursor_open_root(b);
    while (e == ERR_OK && (e = bolt_cursor_next(root, &entry)) == ERR_OK)
        e = note_bucket(b, bolt_cursor_span(root), out);
    bolt_cursor_close(root);
    bolt_close(b);
    return e == ERR_END ? ERR_OK : e;
}

static bool same_layout(const struct layout *a, const struct layout *b)
{
    bool same = a->count == b->count;

    for (size_t i = 0; same && i < a->count; i++)
        same = a->spans[i].at == b->spans[i].at && a->spans[i].len == b->spans[i].len;
    return same;
}

/* One that differs only by an entry that ends later: what the format cannot tell. */
static bool one_entry_grew(const struct layout *before, const struct layout *after)
{
    size_t grown = 0;

    if (before->count != after->count)
        return false;
    for (size_t i = 0; i < before->count; i++) {
        if (before->spans[i].at != after->spans[i].at || before->spans[i].len > after->spans[i].len)
            return false;
        grown += before->spans[i].len < after->spans[i].len;
    }
    return grown == 1;
}

/* The image between two pages nobody may touch, so that a read beyond its ends is a crash. */
static uint8_t *fenced(struct bytes content)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (content.len + page - 1) / page * page;
    uint8_t *at = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(at != MAP_FAILED);
    CHECK_EQ(mprotect(at + page, body, PROT_READ | PROT_WRITE), 0);
    uint8_t *start = at + page + body - content.len;
    memcpy(start, content.at, content.len);
    return start;
}

/* What a byte of the image is, told from the image alone, without the reader under test. */
enum byte_kind { STRUCTURE, PAYLOAD, LAST_LENGTH };

static void classify_element(const uint8_t *image, const uint8_t *element, bool is_branch,
                             uint8_t *kinds)
{
    uint32_t pos = get_u32(element + (is_branch ? 0 : 4));
    uint32_t key = get_u32(element + (is_branch ? 4 : 8));
    bool has_value = !is_branch && get_u32(element) == 0; /* a bucket's value is structure */
    uint32_t value = has_value ? get_u32(element + 12) : 0;

    memset(kinds + (element - image) + pos, PAYLOAD, key + value);
}

/* Keys and values; and the two lengths of each leaf's last entry, which nothing else confirms. */
static void classify(struct bytes image, uint8_t *kinds)
{
    for (size_t at = 3 * PAGE; at < image.len;) {
        const uint8_t *page = image.at + at;
        bool is_branch = get_u16(page + 8) == PAGE_BRANCH;
        uint16_t count = get_u16(page + 10);
        for (uint16_t i = 0; i < count; i++)
            classify_element(image.at, page + PAGE_HEADER_BYTES + i * ELEMENT_BYTES, is_branch,
                             kinds);
        const size_t last = PAGE_HEADER_BYTES + (size_t)(count - 1) * ELEMENT_BYTES;
        if (!is_branch && count > 0 && get_u32(page + last) == 0)
            memset(kinds + at + last + 8, LAST_LENGTH, 8);
        at += (get_u32(page + 12) + 1) * (size_t)PAGE;
    }
}

/* A flip that was accepted must be one that the format cannot tell. */
static void check_accepted(enum byte_kind kind, const struct layout *before,
                           const struct layout *after)
{
    if (kind == PAYLOAD)
        CHECK(same_layout(before, after));
    else if (kind == LAST_LENGTH)
        CHECK(one_entry_grew(before, after));
    else
        test_fail(__FILE__, __LINE__, "damaged structure was accepted");
}

/*
 * Every bit of the file in turn. What is accepted is a changed byte of a key or a value (or of a
 * key in a branch, which only bounds the search), and nothing else about the content has changed;
 * or the last entry of a leaf has become longer. All else is refused, at an offset inside the file.
 */
TEST(a_flipped_bit_is_refused_unless_the_format_has_no_way_to_tell)
{
    test_runs_in_one_thread();
    struct arena arena = {0};
    struct buf image = {0};
    make_small_image(&arena, &image);
    uint8_t *kinds = arena_alloc(&arena, image.len);
    classify(buf_bytes(&image), kinds);
    uint8_t *at = fenced(buf_bytes(&image));
    struct bytes file = bytes_of(at, image.len);
    struct bolt_fault fault;
    struct layout before, after;
    CHECK_EQ(note_layout(file, &fault, &before), ERR_OK);
    unsigned accepted[3] = {0}, refused = 0;

    for (size_t bit = 0; bit < image.len * 8; bit++) {
        enum byte_kind kind = (enum byte_kind)kinds[bit / 8];
        at[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum err e = note_layout(file, &fault, &after);
        at[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (e == ERR_OK) {
            check_accepted(kind, &before, &after);
            accepted[kind]++;
        } else {
            CHECK_EQ(e, ERR_CORRUPT);
            CHECK(fault.what != NULL);
            CHECK(fault.offset <= image.len);
            refused++;
        }
    }

    printf("%zu bytes: %u flips refused, %u accepted in keys or values, %u in last lengths\n",
           image.len, refused, accepted[PAYLOAD], accepted[LAST_LENGTH]);
    CHECK(accepted[PAYLOAD] > 0);
    CHECK(refused > accepted[PAYLOAD]);
    arena_free(&arena);
    buf_free(&image);
}

TEST(no_changed_byte_gets_past_the_digest)
{
    struct arena arena = {0};
    struct buf image = {0};
    uint8_t digest[HASH_SHA256_BYTES];
    struct bolt_memory memory;
    struct bolt_fault fault;
    make_small_image(&arena, &image);
    hash_once(HASH_SHA256, buf_bytes(&image), digest);
    buf_append(&image, bytes_of(digest, sizeof(digest)));

    for (size_t i = 0; i < image.len; i++) {
        image.at[i] ^= (uint8_t)(1u << i % 8);
        bolt_memory_init(&memory, buf_bytes(&image));
        CHECK_EQ(bolt_check_digest(&memory.source, &fault), ERR_CORRUPT);
        CHECK_EQ(fault.offset, image.len - HASH_SHA256_BYTES);
        image.at[i] ^= (uint8_t)(1u << i % 8);
    }
    bolt_memory_init(&memory, buf_bytes(&image));
    CHECK_EQ(bolt_check_digest(&memory.source, &fault), ERR_OK);

    arena_free(&arena);
    buf_free(&image);
}

TEST(a_file_cut_anywhere_is_refused)
{
    struct arena arena = {0};
    struct buf image = {0};
    make_small_image(&arena, &image);
    struct bolt_fault fault;
    struct bolt_sum sum;

    for (size_t len = 0; len < image.len; len++) {
        struct bytes cut = bytes_of(image.at, len);
        CHECK_EQ(rig_read_all(cut, BOLT_IMAGE, &fault, &sum), ERR_CORRUPT);
        CHECK_EQ(rig_read_all(cut, BOLT_LIVE, &fault, &sum), ERR_CORRUPT);
        CHECK(fault.offset <= image.len);
    }

    arena_free(&arena);
    buf_free(&image);
}

/* ---- Files made with care ---- */

/* A file of branch and leaf pages laid out by hand, with good metas. */
struct craft {
    uint8_t image[8 * PAGE];
    struct meta meta;
};

static void craft_begin(struct craft *k)
{
    memset(k, 0, sizeof(*k));
    k->meta = (struct meta){.page_bytes = PAGE,
                            .root = 2,
                            .freelist = BOLT_NO_FREELIST,
                            .pages = sizeof(k->image) / PAGE,
                            .txid = 2};
}

static uint8_t *craft_page(struct craft *k, uint64_t id, uint16_t kind, uint16_t count)
{
    uint8_t *at = k->image + id * PAGE;

    memset(at, 0, PAGE);
    put_u64(at, id);
    put_u16(at + 8, kind);
    put_u16(at + 10, count);
    return at;
}

/* A leaf with this one entry; in the root tree it is a bucket. */
static void craft_leaf(struct craft *k, uint64_t id, uint32_t flags, const char *name,
                       struct bytes value)
{
    uint8_t *at = craft_page(k, id, PAGE_LEAF, 1);
    struct bytes key = bytes_of_str(name);

    put_u32(at + 16, flags);
    put_u32(at + 20, ELEMENT_BYTES);
    put_u32(at + 24, (uint32_t)key.len);
    put_u32(at + 28, (uint32_t)value.len);
    memcpy(at + 32, key.at, key.len);
    memcpy(at + 32 + key.len, value.at, value.len);
}

static void craft_root(struct craft *k, const char *name, uint64_t bucket_page)
{
    uint8_t bucket[BUCKET_BYTES] = {0};

    put_u64(bucket, bucket_page);
    craft_leaf(k, 2, 1, name, bytes_of(bucket, sizeof(bucket)));
}

/* A branch with one-letter keys, one child each. */
static void craft_branch(struct craft *k, uint64_t id, const char *letters,
                         const uint64_t *children)
{
    struct bytes keys = bytes_of_str(letters);
    size_t count = keys.len;
    uint8_t *at = craft_page(k, id, PAGE_BRANCH, (uint16_t)count);
    uint8_t *elements = at + PAGE_HEADER_BYTES;

    for (size_t i = 0; i < count; i++) {
        uint8_t *element = elements + i * ELEMENT_BYTES;
        put_u32(element, (uint32_t)((count - i) * ELEMENT_BYTES + i));
        put_u32(element + 4, 1);
        put_u64(element + 8, children[i]);
    }
    memcpy(elements + count * ELEMENT_BYTES, keys.at, keys.len);
}

static enum err craft_read(struct craft *k, struct bolt_fault *fault)
{
    struct bolt_sum sum;
    struct meta meta = k->meta;

    for (uint64_t id = 0; id < 2; id++, meta.txid--) {
        uint8_t *at = craft_page(k, id, PAGE_META, 0);
        meta_encode(&meta, at + PAGE_HEADER_BYTES);
    }
    return rig_read_all(bytes_of(k->image, sizeof(k->image)), BOLT_IMAGE, fault, &sum);
}

static void expect_refusal(struct craft *k, uint64_t offset, const char *what)
{
    struct bolt_fault fault;

    CHECK_EQ(craft_read(k, &fault), ERR_CORRUPT);
    CHECK_STR(fault.what, what);
    CHECK_EQ(fault.offset, offset);
}

/* Root, a branch with two leaves, and a page to spare: what the tests below begin with. */
static void craft_tree(struct craft *k)
{
    craft_begin(k);
    craft_root(k, "b", 3);
    craft_branch(k, 3, "am", (uint64_t[]){4, 5});
    craft_leaf(k, 4, 0, "a", BYTES("one"));
    craft_leaf(k, 5, 0, "n", BYTES("two"));
}

TEST(a_file_laid_out_by_hand_is_read)
{
    struct craft k;
    struct bolt_fault fault;
    craft_tree(&k);

    CHECK_EQ(craft_read(&k, &fault), ERR_OK);
}

TEST(metas_that_promise_the_impossible_are_refused)
{
    struct craft k;
    const uint64_t first = PAGE_HEADER_BYTES;

    craft_tree(&k);
    k.meta.root = 1;
    expect_refusal(&k, first, "the root page is not in the file");
    craft_tree(&k);
    k.meta.root = 8;
    expect_refusal(&k, first, "the root page is not in the file");
    craft_tree(&k);
    k.meta.pages = 9;
    expect_refusal(&k, first, "the file is shorter than its meta says");
    craft_tree(&k);
    k.meta.pages = UINT64_MAX;
    expect_refusal(&k, first, "the file is shorter than its meta says");
    craft_tree(&k);
    k.meta.pages = 7;
    expect_refusal(&k, 7 * PAGE, "more bytes than the image has");
    craft_tree(&k);
    k.meta.freelist = 8;
    expect_refusal(&k, first, "the free list is not in the file");
    craft_tree(&k);
    k.meta.sequence = 1;
    expect_refusal(&k, first, "a sequence number, which etcd does not use");
    craft_tree(&k);
    k.meta.page_bytes = PAGE + 1;
    expect_refusal(&k, first, "impossible page size");
    craft_tree(&k);
    k.meta.page_bytes = 2 * PAGE;
    expect_refusal(&k, 2 * PAGE + first, "wrong magic");
}

TEST(pages_that_run_in_circles_are_refused)
{
    struct craft k;

    craft_tree(&k); /* a branch that is its own child */
    craft_branch(&k, 3, "am", (uint64_t[]){3, 5});
    expect_refusal(&k, 3 * PAGE + 16 + 8, "names a page that has another use already");
    craft_tree(&k); /* two of them, one below the other */
    craft_branch(&k, 3, "a", (uint64_t[]){6});
    craft_branch(&k, 6, "a", (uint64_t[]){3});
    expect_refusal(&k, 6 * PAGE + 16 + 8, "names a page that has another use already");
    craft_tree(&k); /* a leaf with two parents */
    craft_branch(&k, 3, "am", (uint64_t[]){4, 4});
    expect_refusal(&k, 3 * PAGE + 32 + 8, "names a page that has another use already");
    craft_tree(&k); /* a bucket that is the tree of buckets */
    craft_root(&k, "b", 2);
    expect_refusal(&k, 2 * PAGE + 32 + 1, "names a page that has another use already");
}

/* The walk that bolt_check makes is marked; a cursor alone has to find out by the keys. */
TEST(a_cursor_alone_gets_out_of_a_circle)
{
    struct craft k;
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b;
    struct bolt_cursor *c;
    struct bolt_entry entry;
    craft_tree(&k);
    craft_branch(&k, 3, "a", (uint64_t[]){6});
    craft_branch(&k, 6, "a", (uint64_t[]){3});
    CHECK_EQ(craft_read(&k, &fault), ERR_CORRUPT);
    bolt_memory_init(&memory, bytes_of(k.image, sizeof(k.image)));
    CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &b), ERR_OK);
    CHECK_EQ(bolt_cursor_open(b, BYTES("b"), &c), ERR_OK);

    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_CORRUPT);
    CHECK_STR(fault.what, "the tree is too deep, or runs in a circle");
    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_CORRUPT);
    CHECK_EQ(bolt_cursor_seek(c, BYTES("a"), &entry), ERR_CORRUPT);

    bolt_cursor_close(c);
    bolt_close(b);
}

TEST(pages_that_are_not_what_they_are_called_are_refused)
{
    struct craft k;

    craft_tree(&k);
    put_u64(k.image + 4 * PAGE, 5);
    expect_refusal(&k, 4 * PAGE, "the page has the number of another one");
    craft_tree(&k);
    put_u16(k.image + 4 * PAGE + 8, PAGE_META);
    expect_refusal(&k, 4 * PAGE + 8, "neither a branch nor a leaf");
    craft_tree(&k);
    put_u16(k.image + 4 * PAGE + 8, PAGE_LEAF | PAGE_BRANCH);
    expect_refusal(&k, 4 * PAGE + 8, "neither a branch nor a leaf");
    craft_tree(&k);
    craft_branch(&k, 3, "am", (uint64_t[]){4, 8});
    expect_refusal(&k, 3 * PAGE + 32 + 8, "names a page that is not in the file");
    craft_tree(&k);
    craft_branch(&k, 3, "am", (uint64_t[]){1, 5});
    expect_refusal(&k, 3 * PAGE + 16 + 8, "names a page that is not in the file");
    craft_tree(&k);
    put_u32(k.image + 4 * PAGE + 12, UINT32_MAX);
    expect_refusal(&k, 4 * PAGE + 12, "the page runs on beyond the file");
    craft_tree(&k);
    put_u32(k.image + 5 * PAGE + 12, 1);
    expect_refusal(&k, 5 * PAGE + 12, "the page takes more pages than it needs");
    craft_tree(&k);
    craft_page(&k, 4, PAGE_LEAF, 0);
    expect_refusal(&k, 4 * PAGE, "an empty page inside a tree");
    craft_tree(&k);
    craft_page(&k, 3, PAGE_BRANCH, 0);
    expect_refusal(&k, 3 * PAGE, "an empty page inside a tree");
    craft_tree(&k);
    put_u16(k.image + 4 * PAGE + 10, UINT16_MAX);
    expect_refusal(&k, 4 * PAGE + 10, "more elements than fit");
}

TEST(lengths_beyond_reason_are_refused)
{
    const uint64_t element = 4 * PAGE + 16;
    struct craft k;

    craft_tree(&k);
    put_u32(k.image + element + 4, UINT32_MAX);
    expect_refusal(&k, element, "the element's bytes are not in its page");
    craft_tree(&k);
    put_u32(k.image + element + 8, UINT32_MAX);
    expect_refusal(&k, element, "impossible key length");
    craft_tree(&k);
    put_u32(k.image + element + 8, 0);
    expect_refusal(&k, element, "impossible key length");
    craft_tree(&k);
    put_u32(k.image + element + 12, UINT32_MAX);
    expect_refusal(&k, element, "impossible value length");
    craft_tree(&k);
    put_u32(k.image + element + 12, PAGE);
    expect_refusal(&k, element, "the element's bytes are not in its page");
    craft_tree(&k);
    put_u32(k.image + element + 4, 17);
    expect_refusal(&k, element, "a gap or an overlap before the element's key");
    craft_tree(&k);
    put_u32(k.image + element + 12, 2);
    expect_refusal(&k, 4 * PAGE + 32 + 3, "not zero, where a page has nothing");
}

TEST(keys_in_the_wrong_place_are_refused)
{
    struct craft k;

    craft_tree(&k);
    craft_branch(&k, 3, "ma", (uint64_t[]){4, 5});
    expect_refusal(&k, 3 * PAGE + 48 + 1, "keys out of order");
    craft_tree(&k);
    craft_branch(&k, 3, "mm", (uint64_t[]){4, 5});
    expect_refusal(&k, 3 * PAGE + 48 + 1, "keys out of order");
    craft_tree(&k);
    craft_leaf(&k, 4, 0, "m", BYTES("one"));
    expect_refusal(&k, 4 * PAGE + 32, "a key that belongs to a later page");
    craft_tree(&k);
    craft_leaf(&k, 5, 0, "l", BYTES("two"));
    expect_refusal(&k, 5 * PAGE + 32, "a key below the one its parent has for the page");
}

TEST(buckets_that_are_none_are_refused)
{
    uint8_t bucket[64] = {0};
    struct craft k;

    craft_tree(&k);
    craft_leaf(&k, 2, 1, "b", bytes_of(bucket, 15));
    expect_refusal(&k, 2 * PAGE + 33, "too short for a bucket");
    craft_tree(&k);
    craft_leaf(&k, 2, 1, "b", bytes_of(bucket, 31));
    expect_refusal(&k, 2 * PAGE + 33, "too short for an inlined bucket");
    craft_tree(&k);
    craft_leaf(&k, 2, 1, "b", bytes_of(bucket, 32));
    expect_refusal(&k, 2 * PAGE + 33 + 16, "not the header of an inlined leaf");
    craft_tree(&k);
    put_u16(bucket + 16 + 8, PAGE_LEAF);
    craft_leaf(&k, 2, 1, "b", bytes_of(bucket, 33));
    expect_refusal(&k, 2 * PAGE + 33 + 32, "the inlined leaf is too long");
    craft_tree(&k);
    craft_leaf(&k, 4, 1, "a", BYTES("0123456789abcdef"));
    expect_refusal(&k, 4 * PAGE + 16, "a bucket where a value belongs, or the reverse");
    craft_tree(&k);
    put_u32(k.image + 2 * PAGE + 16, 0);
    expect_refusal(&k, 2 * PAGE + 16, "a bucket where a value belongs, or the reverse");
    craft_tree(&k);
    put_u64(bucket, 3);
    craft_leaf(&k, 2, 1, "b", bytes_of(bucket, 17));
    expect_refusal(&k, 2 * PAGE + 33, "too long for a bucket that is not inlined");
    craft_tree(&k);
    k.image[2 * PAGE + 33 + 8] = 1;
    expect_refusal(&k, 2 * PAGE + 33 + 8, "a sequence number, which etcd does not use");
}

/* ---- Metas of a live file ---- */

TEST(a_torn_meta_leaves_the_state_before_it)
{
    struct arena arena = {0};
    struct buf image = {0};
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b;
    make_small_image(&arena, &image);
    buf_append(&image, BYTES("bytes beyond the last page are no part of a live file"));
    bolt_memory_init(&memory, buf_bytes(&image));

    for (uint64_t torn = 0; torn < 2; torn++) {
        image.at[torn * PAGE + 30] ^= 1;
        CHECK_EQ(bolt_open(&memory.source, BOLT_LIVE, &fault, &b), ERR_OK);
        CHECK(bolt_info(b).meta_damaged);
        CHECK_EQ(bolt_info(b).txid, torn == 0 ? 1 : 2);
        CHECK_EQ(bolt_info(b).page_bytes, PAGE);
        CHECK_EQ(bolt_check(b), ERR_OK);
        bolt_close(b);
        CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &b), ERR_CORRUPT);
        CHECK_EQ(fault.offset, torn * PAGE + PAGE_HEADER_BYTES);
        image.at[torn * PAGE + 30] ^= 1;
    }
    image.at[30] ^= 1;
    image.at[PAGE + 30] ^= 1;
    CHECK_EQ(bolt_open(&memory.source, BOLT_LIVE, &fault, &b), ERR_CORRUPT);
    CHECK_STR(fault.what, "the checksum of the meta does not match");

    arena_free(&arena);
    buf_free(&image);
}

/* A good checksum under a bad header is no torn write, so the older meta must not step in. */
TEST(a_damaged_header_of_a_meta_does_not_bring_old_data_back)
{
    struct arena arena = {0};
    struct buf image = {0};
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt *b;
    make_small_image(&arena, &image);
    bolt_memory_init(&memory, buf_bytes(&image));

    image.at[9] ^= 1;

    CHECK_EQ(bolt_open(&memory.source, BOLT_LIVE, &fault, &b), ERR_CORRUPT);
    CHECK_STR(fault.what, "not the header of a meta page");
    arena_free(&arena);
    buf_free(&image);
}

/* ---- bbolt's own files ---- */

static void load_fixture(const char *name, struct buf *out)
{
    char path[128];

    snprintf(path, sizeof(path), "src/snap/testdata/%s", name);
    rig_read_file(path, out);
}

TEST(inlined_buckets_and_a_stored_free_list_are_read)
{
    const char *const names[] = {"bbolt-freelist.db", "bbolt-image.db"};
    const enum bolt_kind kinds[] = {BOLT_LIVE, BOLT_IMAGE};
    struct bolt_fault fault;
    struct bolt_sum sum;

    for (size_t i = 0; i < 2; i++) {
        struct buf file = {0};
        load_fixture(names[i], &file);
        CHECK_EQ(rig_read_all(buf_bytes(&file), kinds[i], &fault, &sum), ERR_OK);
        CHECK_EQ(sum.keys, 29);
        CHECK_EQ(sum.crc, 3416305809);
        buf_free(&file);
    }
}

TEST(an_inlined_bucket_is_a_bucket_like_any_other)
{
    struct buf file = {0}, value = {0};
    struct bolt_memory memory;
    struct bolt_fault fault;
    struct bolt_cursor *c;
    struct bolt_entry entry;
    struct bolt *b;
    load_fixture("bbolt-image.db", &file);
    bolt_memory_init(&memory, buf_bytes(&file));
    CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &b), ERR_OK);

    CHECK_EQ(bolt_cursor_open(b, BYTES("inlined"), &c), ERR_OK);
    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_OK);
    CHECK_BYTES(entry.key, BYTES("k"));
    CHECK_EQ(bolt_cursor_value(c, 1, &value), ERR_OK);
    CHECK_BYTES(buf_bytes(&value), BYTES("v"));
    CHECK_EQ(bolt_cursor_seek(c, BYTES("ka"), &entry), ERR_OK);
    CHECK_BYTES(entry.key, BYTES("kk"));
    CHECK_EQ(entry.value_bytes, 0);
    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_END);
    bolt_cursor_close(c);
    CHECK_EQ(bolt_cursor_open(b, BYTES("empty"), &c), ERR_OK);
    CHECK_EQ(bolt_cursor_next(c, &entry), ERR_END);
    CHECK_EQ(bolt_cursor_seek(c, BYTES(""), &entry), ERR_END);

    bolt_cursor_close(c);
    bolt_close(b);
    buf_free(&file);
    buf_free(&value);
}

TEST(a_wrong_free_list_is_refused)
{
    struct buf file = {0};
    struct bolt_fault fault;
    struct bolt_sum sum;
    struct meta metas[2];
    load_fixture("bbolt-freelist.db", &file);
    CHECK(!meta_decode(file.at + 16, &metas[0]));
    CHECK(!meta_decode(file.at + PAGE + 16, &metas[1]));
    const struct meta *m = &metas[metas[1].txid > metas[0].txid];
    uint8_t *list = file.at + m->freelist * PAGE;
    uint16_t count = get_u16(list + 10);
    CHECK(count >= 2);
    const struct {
        size_t at;
        uint8_t flip;
        const char *what;
    } damages[] = {
        {8, 1, "not the header of a free list"},
        {0, 1, "not the header of a free list"},
        {10, 1, NULL}, /* one more or one less: which depends on the count */
        {11, 0xff, "more free pages than the list has space for"},
        {15, 1, "the free list runs on beyond the file"},
        {16, 0xff, NULL},
        {23, 1, "impossible page in the free list"},
        {16 + 8 * (size_t)count, 1, "not zero, where a page has nothing"},
    };

    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        list[damages[i].at] ^= damages[i].flip;
        CHECK_EQ(rig_read_all(buf_bytes(&file), BOLT_LIVE, &fault, &sum), ERR_CORRUPT);
        if (damages[i].what)
            CHECK_STR(fault.what, damages[i].what);
        list[damages[i].at] ^= damages[i].flip;
    }
    put_u16(list + 10, (uint16_t)(count - 1));
    memset(list + 16 + 8 * (size_t)(count - 1), 0, 8);
    CHECK_EQ(rig_read_all(buf_bytes(&file), BOLT_LIVE, &fault, &sum), ERR_CORRUPT);
    CHECK_STR(fault.what, "a page neither in use nor free");
    buf_free(&file);
}

/* ---- A disk that fails ---- */

struct failing {
    struct bolt_memory memory;
    enum err (*inner)(struct bolt_source *s, uint64_t offset, uint8_t *into, size_t size);
    unsigned calls, fail_at;
};

static enum err read_or_fail(struct bolt_source *s, uint64_t offset, uint8_t *into, size_t size)
{
    struct failing *f = (struct failing *)s;

    return ++f->calls == f->fail_at ? ERR_IO : f->inner(s, offset, into, size);
}

static enum err read_failing(struct failing *f, struct bolt_fault *fault)
{
    struct bolt_sum sum;
    struct bolt *b;

    enum err e = bolt_check_digest(&f->memory.source, fault);
    if (e == ERR_OK)
        e = bolt_open(&f->memory.source, BOLT_IMAGE, fault, &b);
    if (e != ERR_OK)
        return e;
    e = bolt_check(b);
    if (e == ERR_OK)
        e = bolt_sum(b, &sum);
    bolt_close(b);
    return e;
}

TEST(every_failed_read_is_passed_on)
{
    struct rig_bucket bucket = {.name = BYTES("key")};
    struct arena arena = {0};
    struct buf file = {0};
    struct rng rng;
    uint8_t digest[HASH_SHA256_BYTES];
    struct bolt_fault fault;
    rng_seed(&rng, test_seed());
    for (int i = 0; i < 3000; i++)
        rig_add(&bucket, bytes_of_str(arena_printf(&arena, "%06d", i)),
                rig_random(&arena, &rng, rng_below(&rng, i % 300 == 0 ? 100000 : 1000)));
    rig_write(&bucket, 1, NULL, &file);
    hash_once(HASH_SHA256, buf_bytes(&file), digest);
    buf_append(&file, bytes_of(digest, sizeof(digest)));

    unsigned fail_at = 0;
    for (enum err e = ERR_IO; e == ERR_IO;) {
        struct failing f = {.fail_at = ++fail_at};
        bolt_memory_init(&f.memory, buf_bytes(&file));
        f.inner = f.memory.source.read;
        f.memory.source.read = read_or_fail;
        e = read_failing(&f, &fault);
        CHECK(e == ERR_OK || e == ERR_IO);
        if (e == ERR_IO)
            CHECK_STR(fault.what, "cannot be read");
    }

    CHECK(fail_at > 100);
    rig_free(&bucket, 1);
    arena_free(&arena);
    buf_free(&file);
}
