#include "base/blob.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>

struct blob {
    _Atomic unsigned refs;
    size_t len;
    uint8_t at[];
};

struct blob *blob_new(size_t len, uint8_t **fill)
{
    assert(len <= SIZE_MAX - sizeof(struct blob));

    struct blob *b = mem_resize(NULL, sizeof(*b) + len, 1);
    atomic_init(&b->refs, 1);
    b->len = len;
    *fill = b->at;
    return b;
}

struct blob *blob_copy(struct bytes content)
{
    uint8_t *fill;
    struct blob *b = blob_new(content.len, &fill);

    if (content.len > 0)
        memcpy(fill, content.at, content.len);
    return b;
}

size_t blob_begin(struct buf *b)
{
    assert(b->len == 0);
    (void)buf_extend(b, sizeof(struct blob));
    return sizeof(struct blob);
}

/* What growing has set aside in vain is given back: the blob may live for long. */
struct blob *blob_end(struct buf *b)
{
    assert(b->len >= sizeof(struct blob));

    struct blob *taken = mem_resize(b->at, b->len, 1);
    atomic_init(&taken->refs, 1);
    taken->len = b->len - sizeof(struct blob);
    *b = (struct buf){0};
    return taken;
}

struct blob *blob_ref(struct blob *b)
{
    if (b) {
        unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
        assert(before > 0);
    }
    return b;
}

void blob_unref(struct blob *b)
{
    if (!b)
        return;
    unsigned before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1)
        mem_free(b);
}

struct bytes blob_bytes(const struct blob *b)
{
    return b ? bytes_of(b->at, b->len) : (struct bytes){0};
}

unsigned blob_ref_count(const struct blob *b)
{
    return atomic_load_explicit(&b->refs, memory_order_relaxed);
}
