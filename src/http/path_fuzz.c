/*
 * Any bytes as the path of a request. The first byte chooses the verb.
 *
 * Beyond not crashing: where a client is sent it is, and the way there can be written in a field.
 */
#include "base/assert.h"
#include "base/limits.h"
#include "http/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const trees[] = {"/v3/", "/raft/stream/", NULL};
static const struct http_paths paths = {.trees = trees, .alias = "/v3beta/", .meant = "/v3/"};

static void check_location(struct bytes path, struct bytes query)
{
    struct buf location = {0}, page = {0}, text = {0};
    struct bytes there;

    http_path_location(path, query, &location);
    http_path_page(path, query, &page);
    assert(location.len > 0 && location.at[0] == '/');
    for (size_t i = 0; i < path.len; i++)
        assert(path.at[i] > ' ' && path.at[i] < 0x7f);
    assert(http_path_is_sound(path));
    assert(location.len + page.len <= HTTP_DIRECTIONS_BYTES_MAX);
    enum http_path_kind kind = http_path_read(&paths, BYTES("GET"), path, &text, &there);
    assert(kind == HTTP_PATH_HERE || kind == HTTP_PATH_TOO_LONG);
    buf_free(&location);
    buf_free(&page);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct bytes target = bytes_of(data + 1, size - 1), query, path;
    struct buf text = {0};

    (void)http_path_of_target(target, &query);
    bool is_path = target.len == 0 || target.at[0] == '/';
    if (is_path && http_path_is_sound(target)) {
        enum http_path_kind kind = http_path_read(
            &paths, data[0] % 4 ? BYTES("GET") : BYTES("CONNECT"), target, &text, &path);
        if (kind == HTTP_PATH_ELSEWHERE)
            check_location(path, query);
    }
    buf_free(&text);
    return 0;
}
