#include "base/gzip.h"

#include "base/assert.h"

#include <zlib.h>

enum {
    WINDOW_BITS = 15 + 16, /* 16: a gzip header and trailer around the deflated bytes */
    MEMORY_LEVEL = 8,
    STEP_BYTES = 16 * 1024,
    STEP_IN_BYTES = 1024,
    WORK_OF_BYTE_IN = 16, /* measured: 42 ns for one of a block's codes, 2.6 to 4.3 for one out */
    HEADER_BYTES = 10,    /* of gzip, at least */
};

struct gzip {
    z_stream in, out;
    struct bytes left; /* of the message that is being unpacked */
    size_t max, made;
};

static voidpf allocate(voidpf context, uInt count, uInt size)
{
    (void)context;
    return mem_alloc_array(count, size);
}

static void release(voidpf context, voidpf at)
{
    (void)context;
    mem_free(at);
}

struct gzip *gzip_new(void)
{
    struct gzip *g = mem_new(struct gzip);

    g->in = (z_stream){.zalloc = allocate, .zfree = release};
    g->out = (z_stream){.zalloc = allocate, .zfree = release};
    int in = inflateInit2(&g->in, WINDOW_BITS);
    int out = deflateInit2(&g->out, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
                           Z_DEFAULT_STRATEGY);
    assert(in == Z_OK);
    assert(out == Z_OK);
    return g;
}

void gzip_free(struct gzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->in);
    deflateEnd(&g->out);
    mem_free(g);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Gives zlib the next stretch of either side, never reaching more than a byte past the bound. */
static int unpack_some(struct gzip *g, size_t *work, struct buf *out)
{
    size_t step = least(g->max + 1 - g->made, STEP_BYTES);
    size_t step_in = least(g->left.len, STEP_IN_BYTES);

    g->in.next_in = (Bytef *)g->left.at;
    g->in.avail_in = (uInt)step_in;
    g->in.next_out = buf_reserve(out, step);
    g->in.avail_out = (uInt)step;
    int result = inflate(&g->in, Z_NO_FLUSH);
    size_t used = step_in - g->in.avail_in, made = step - g->in.avail_out;
    if (used > 0)
        g->left = bytes_of(g->left.at + used, g->left.len - used);
    g->made += made;
    out->len += made;
    *work -= least(*work, used * WORK_OF_BYTE_IN + made);
    return result;
}

static enum err err_of_result(const struct gzip *g, int result)
{
    if (result == Z_BUF_ERROR || result == Z_OK)
        return ERR_END; /* zlib wants input and there is none */
    return g->in.total_out == 0 && g->in.total_in <= HEADER_BYTES ? ERR_MALFORMED : ERR_CORRUPT;
}

void gzip_begin(struct gzip *g, struct bytes packed, size_t max)
{
    inflateReset(&g->in);
    g->left = packed;
    g->max = max;
    g->made = 0;
}

bool gzip_go_on(struct gzip *g, size_t *work, struct buf *out, enum err *result)
{
    while (*work > 0) {
        int z = unpack_some(g, work, out);
        bool wants_more = z == Z_OK && g->in.avail_out > 0;

        if (g->made > g->max) {
            *result = ERR_TOO_LARGE;
            return true;
        }
        if (z == Z_STREAM_END && g->left.len == 0) {
            *result = ERR_OK;
            return true;
        }
        if (z == Z_STREAM_END) {
            inflateReset(&g->in); /* members follow one another */
        } else if (z != Z_OK || (wants_more && g->left.len == 0)) {
            *result = err_of_result(g, z);
            return true;
        }
    }
    return false;
}

enum err gzip_unpack(struct gzip *g, struct bytes packed, size_t max, struct buf *out)
{
    size_t work = SIZE_MAX;
    enum err result;

    gzip_begin(g, packed, max);
    bool is_done = gzip_go_on(g, &work, out, &result);
    assert(is_done);
    return result;
}

void gzip_pack(struct gzip *g, struct bytes plain, struct buf *out)
{
    assert(plain.len <= UINT_MAX);

    deflateReset(&g->out);
    size_t bound = deflateBound(&g->out, plain.len);
    g->out.next_in = (Bytef *)plain.at;
    g->out.avail_in = (uInt)plain.len;
    g->out.next_out = buf_reserve(out, bound);
    g->out.avail_out = (uInt)bound;
    int result = deflate(&g->out, Z_FINISH);
    assert(result == Z_STREAM_END);
    out->len += bound - g->out.avail_out;
}
