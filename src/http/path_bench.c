/*
 * Paths that have to be cleaned, decoded or escaped: the cost of reading one, and of writing the
 * redirect. A client chooses the path, and pays a byte for it once it is in HTTP/2's table.
 */
#include "http/path.h"

#include "harness/bench.h"

enum { PATH_BYTES = 4000 };

static void redirect(void *context, uint64_t times)
{
    const struct buf *target = context;

    for (uint64_t i = 0; i < times; i++) {
        struct buf text = {0}, out = {0};
        struct bytes path, query = bytes_of(NULL, 0);
        (void)http_path_read(NULL, BYTES("GET"), buf_bytes(target), &text, &path);
        http_path_location(path, query, &out);
        http_path_page(path, query, &out);
        buf_free(&text);
        buf_free(&out);
    }
}

static void run(const char *suffix, const char *unit)
{
    struct buf target = {0};

    buf_append_byte(&target, '/');
    while (target.len < PATH_BYTES)
        buf_append_str(&target, unit);
    bench_run(&(struct bench_work){
        .suffix = suffix, .body = redirect, .context = &target, .bytes_each = target.len});
    buf_free(&target);
}

BENCH(http_path_4k)
{
    run("encoded_twice", "/\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"");
    run("cleaned", "/a/..");
    run("as_it_is", "/abcdefghijklmno");
}
