#include "base/gzip.h"

#include "base/assert.h"

#include <zlib.h>

enum {
    WINDOW_BITS = 15 + 16, /* 16: a gzip header and trailer around the deflated bytes */
    MEMORY_LEVEL = 8,
    STEP_BYTES = 16 * 1024,
    HEADER_BYTES = 10, /* of gzip, at least */
};

struct gzip {
    z_stream in, out;
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

/* Gives zlib the next stretch of `out`, never reaching more than a byte past the bound. */
static int unpack_some(struct gzip *g, size_t fits, struct buf *out)
{
    size_t step = fits < STEP_BYTES ? fits : STEP_BYTES;

    g->in.next_out = buf_reserve(out, step);
    g->in.avail_out = (uInt)step;
    int result = inflate(&g->in, Z_NO_FLUSH);
    out->len += step - g->in.avail_out;
    return result;
}

static enum err err_of_result(const struct gzip *g, int result)
{
    if (result == Z_BUF_ERROR || result == Z_OK)
        return ERR_END; /* zlib wants input and there is none */
    return g->in.total_out == 0 && g->in.total_in <= HEADER_BYTES ? ERR_MALFORMED : ERR_CORRUPT;
}

enum err gzip_unpack(struct gzip *g, struct bytes packed, size_t max, struct buf *out)
{
    size_t start = out->len;

    if (packed.len > UINT_MAX)
        return ERR_TOO_LARGE;
    inflateReset(&g->in);
    g->in.next_in = (Bytef *)packed.at;
    g->in.avail_in = (uInt)packed.len;
    for (;;) {
        int result = unpack_some(g, max + 1 - (out->len - start), out);

        if (out->len - start > max)
            return ERR_TOO_LARGE;
        if (result == Z_STREAM_END && g->in.avail_in == 0)
            return ERR_OK;
        if (result == Z_STREAM_END)
            inflateReset(&g->in); /* members follow one another */
        else if (result != Z_OK || (g->in.avail_in == 0 && g->in.avail_out > 0))
            return err_of_result(g, result);
    }
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
