#include "http/path.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/text.h"

#include <string.h>

enum { ENCODED_BYTES = 3, ENTITY_BYTES_MAX = 5 }; /* "%2F" and "&amp;" */

/* --- percent signs --- */

/* How Go treats a byte of a path: it writes some bytes as they are, and takes some more for encoded
 * well enough to stay as they came. */
enum { WRITTEN = 1, READ = 2, PLAIN = WRITTEN | READ };

static const uint8_t treatment[256] = {
    ['0' ... '9'] = PLAIN, ['a' ... 'z'] = PLAIN, ['A' ... 'Z'] = PLAIN, ['-'] = PLAIN,
    ['_'] = PLAIN,         ['.'] = PLAIN,         ['~'] = PLAIN,         ['$'] = PLAIN,
    ['&'] = PLAIN,         ['+'] = PLAIN,         [','] = PLAIN,         ['/'] = PLAIN,
    [':'] = PLAIN,         [';'] = PLAIN,         ['='] = PLAIN,         ['@'] = PLAIN,
    ['!'] = READ,          ['\''] = READ,         ['('] = READ,          [')'] = READ,
    ['*'] = READ,          ['['] = READ,          [']'] = READ,          ['%'] = READ,
};

/* A client chooses these bytes: each costs a few instructions, here and wherever they are
 * written. */
static uint8_t *write_encoded(uint8_t *at, uint8_t c, const char *digits)
{
    at[0] = '%';
    at[1] = (uint8_t)digits[c >> 4];
    at[2] = (uint8_t)digits[c & 15];
    return at + ENCODED_BYTES;
}

static void append_escaped(struct buf *out, struct bytes path)
{
    uint8_t *at = buf_reserve(out, ENCODED_BYTES * path.len);

    for (size_t i = 0; i < path.len; i++) {
        if (treatment[path.at[i]] & WRITTEN)
            *at++ = path.at[i];
        else
            at = write_encoded(at, path.at[i], "0123456789ABCDEF");
    }
    out->len = (size_t)(at - out->at);
}

/* A slash that was encoded stays encoded unless it is one. */
static void append_decoded(struct buf *out, struct bytes path, bool with_slashes)
{
    uint8_t *at = buf_reserve(out, path.len);

    for (size_t i = 0; i < path.len; i++) {
        uint8_t c = path.at[i];
        if (c == '%') {
            c = (uint8_t)(text_hex_value(path.at[i + 1]) << 4 | text_hex_value(path.at[i + 2]));
            if (c == '/' && !with_slashes)
                c = '%'; /* and its digits follow as they are */
            else
                i += 2;
        }
        *at++ = c;
    }
    out->len = (size_t)(at - out->at);
}

bool http_path_is_sound(struct bytes target)
{
    for (size_t i = 0; i < target.len && target.at[i] != '?'; i++)
        if (target.at[i] == '%' && (target.len - i < 3 || text_hex_value(target.at[i + 1]) < 0 ||
                                    text_hex_value(target.at[i + 2]) < 0))
            return false;
    return true;
}

static bool is_read_as_it_came(struct bytes path)
{
    for (size_t i = 0; i < path.len; i++)
        if ((treatment[path.at[i]] & READ) == 0)
            return false;
    return true;
}

/* --- cleaning --- */

static void drop_last_name(struct buf *path, size_t front)
{
    while (path->len > front && path->at[path->len - 1] != '/')
        path->len--;
    if (path->len > front)
        path->len--;
}

/* Without empty names, "." and "..", of which none leads above the root. */
static void append_clean(struct buf *out, struct bytes path)
{
    size_t front = out->len;
    bool ends_in_slash = path.len > 0 && path.at[path.len - 1] == '/';

    while (path.len > 0) {
        const uint8_t *slash = memchr(path.at, '/', path.len);
        struct bytes name = bytes_of(path.at, slash ? (size_t)(slash - path.at) : path.len);
        size_t gone = name.len + (slash != NULL);
        path = bytes_of(path.at + gone, path.len - gone);
        if (name.len == 0 || bytes_equal(name, BYTES(".")))
            continue;
        if (bytes_equal(name, BYTES(".."))) {
            drop_last_name(out, front);
            continue;
        }
        buf_append_byte(out, '/');
        buf_append(out, name);
    }
    if (out->len == front || ends_in_slash)
        buf_append_byte(out, '/');
}

/* Nothing to decode, and nothing to clean: so are nearly all. */
static bool is_simple(struct bytes path)
{
    for (size_t i = 0; i < path.len; i++) {
        bool at_name = i > 0 && path.at[i - 1] == '/';
        if (path.at[i] == '%' || (at_name && (path.at[i] == '/' || path.at[i] == '.')))
            return false;
    }
    return path.len > 0 && path.at[0] == '/';
}

/* --- trees --- */

static const char *const no_trees[] = {NULL};

static const char *const *trees_of(const struct http_paths *paths)
{
    return paths && paths->trees ? paths->trees : no_trees;
}

/* As many bytes of the path as name the tree, its last slash among them; 0: it is another. */
static size_t find_tree(struct bytes path, const char *tree)
{
    size_t slashes = 0, len = 0;
    struct buf name = {0};

    for (const char *c = tree; *c; c++)
        slashes += *c == '/';
    for (; len < path.len && slashes > 0; len++)
        slashes -= path.at[len] == '/';
    if (slashes > 0)
        return 0;
    append_decoded(&name, bytes_of(path.at, len), false);
    bool is_same = bytes_equal(buf_bytes(&name), bytes_of_str(tree));
    buf_free(&name);
    return is_same ? len : 0;
}

/* Is it, decoded, the name of a tree but for its last slash? */
static bool lacks_slash(const struct http_paths *paths, struct bytes name)
{
    for (const char *const *tree = trees_of(paths); *tree; tree++)
        if (bytes_equal(name, bytes_of(*tree, strlen(*tree) - 1)))
            return true;
    return false;
}

static bool lacks_slash_when_decoded(const struct http_paths *paths, struct bytes path)
{
    struct buf name = {0};

    append_decoded(&name, path, false);
    bool lacks = lacks_slash(paths, buf_bytes(&name));
    buf_free(&name);
    return lacks;
}

static void append_here(struct buf *out, const struct http_paths *paths, struct bytes path)
{
    size_t below = 0;

    if (path.len == 0) /* a tunnel's */
        return;
    for (const char *const *tree = trees_of(paths); *tree && below == 0; tree++)
        below = find_tree(path, *tree);
    append_decoded(out, bytes_of(path.at, below), false);
    append_decoded(out, bytes_of(path.at + below, path.len - below), below > 0);
}

/* --- reading --- */

static bool has_alias(const struct http_paths *paths, struct bytes path)
{
    return paths && paths->alias && bytes_starts_with(path, bytes_of_str(paths->alias));
}

/* The path decoded, and with what is meant in place of the alias. */
static bool append_meant(struct buf *out, const struct http_paths *paths, struct bytes path)
{
    struct buf whole = {0};

    append_decoded(&whole, path, true);
    struct bytes all = buf_bytes(&whole);
    bool is_alias = has_alias(paths, all);
    if (is_alias) {
        size_t len = strlen(paths->alias);
        buf_append_str(out, paths->meant);
        all = bytes_of(all.at + len, all.len - len);
    }
    buf_append(out, all);
    buf_free(&whole);
    return is_alias;
}

/* Where a client goes is encoded once more, as Go's mux does it: a path that is encoded already has
 * its percent signs encoded. */
static enum http_path_kind read_odd(const struct http_paths *paths, struct bytes verb,
                                    struct bytes path, struct buf *out)
{
    bool is_tunnel = bytes_equal(verb, BYTES("CONNECT"));
    struct buf meant = {0}, encoded = {0}, clean = {0};
    enum http_path_kind kind = HTTP_PATH_HERE;

    bool is_alias = append_meant(&meant, paths, path);
    if (is_alias || !is_read_as_it_came(path))
        append_escaped(&encoded, buf_bytes(&meant));
    else
        buf_append(&encoded, path);
    if (is_tunnel)
        buf_append(&clean, buf_bytes(&encoded));
    else
        append_clean(&clean, buf_bytes(&encoded));

    if (lacks_slash_when_decoded(paths, buf_bytes(&clean))) {
        kind = HTTP_PATH_ELSEWHERE;
        buf_clear(&clean);
        append_clean(&clean, buf_bytes(&meant));
        buf_append_byte(&clean, '/');
        append_escaped(out, buf_bytes(&clean));
    } else if (!bytes_equal(buf_bytes(&clean), buf_bytes(&encoded))) {
        kind = HTTP_PATH_ELSEWHERE;
        append_escaped(out, buf_bytes(&clean));
    } else {
        append_here(out, paths, buf_bytes(&encoded));
    }
    buf_free(&meant);
    buf_free(&encoded);
    buf_free(&clean);
    return kind;
}

struct bytes http_path_of_target(struct bytes target, struct bytes *query)
{
    const uint8_t *mark = target.len > 0 ? memchr(target.at, '?', target.len) : NULL;
    size_t len = mark ? (size_t)(mark - target.at) : target.len;

    *query = mark ? bytes_of(mark + 1, target.len - len - 1) : bytes_of(NULL, 0);
    return bytes_of(target.at, len);
}

enum http_path_kind http_path_read(const struct http_paths *paths, struct bytes verb,
                                   struct bytes target, struct buf *text, struct bytes *out)
{
    struct bytes query, path = http_path_of_target(target, &query);

    assert(http_path_is_sound(path));

    *out = path;
    if (bytes_equal(path, BYTES("*")))
        return HTTP_PATH_STAR;
    if (is_simple(path) && !has_alias(paths, path) && !lacks_slash(paths, path))
        return HTTP_PATH_HERE;
    if (target.len > HTTP_ODD_TARGET_BYTES_MAX)
        return HTTP_PATH_TOO_LONG;
    buf_clear(text);
    enum http_path_kind kind = read_odd(paths, verb, path, text);
    *out = buf_bytes(text);
    return kind;
}

/* --- the way there --- */

unsigned http_path_status(enum http_path_kind kind, struct bytes verb)
{
    assert(kind != HTTP_PATH_HERE);

    if (kind == HTTP_PATH_TOO_LONG)
        return 414;
    if (kind == HTTP_PATH_ELSEWHERE)
        return 307;
    /* The server is there for whoever asks what it can do, and for nothing else. */
    return bytes_equal(verb, BYTES("OPTIONS")) ? 200 : 400;
}

/* What is not ASCII may not be in a field: then as Go encodes it. */
void http_path_location(struct bytes path, struct bytes query, struct buf *out)
{
    buf_append(out, path);
    if (query.len == 0)
        return;
    uint8_t *at = buf_reserve(out, 1 + ENCODED_BYTES * query.len);
    *at++ = '?';
    for (size_t i = 0; i < query.len; i++) {
        if (query.at[i] < 0x80)
            *at++ = query.at[i];
        else
            at = write_encoded(at, query.at[i], "0123456789abcdef");
    }
    out->len = (size_t)(at - out->at);
}

static struct bytes entity_of(uint8_t c)
{
    switch (c) {
    case '&':
        return BYTES("&amp;");
    case '<':
        return BYTES("&lt;");
    case '>':
        return BYTES("&gt;");
    case '"':
        return BYTES("&#34;");
    case '\'':
        return BYTES("&#39;");
    default:
        return bytes_of(NULL, 0);
    }
}

static void append_html(struct buf *out, struct bytes text)
{
    uint8_t *at = buf_reserve(out, ENTITY_BYTES_MAX * text.len);

    for (size_t i = 0; i < text.len; i++) {
        struct bytes entity = entity_of(text.at[i]);
        if (entity.len == 0) {
            *at++ = text.at[i];
            continue;
        }
        memcpy(at, entity.at, entity.len);
        at += entity.len;
    }
    out->len = (size_t)(at - out->at);
}

void http_path_page(struct bytes path, struct bytes query, struct buf *out)
{
    buf_append_str(out, "<a href=\"");
    append_html(out, path);
    if (query.len > 0)
        buf_append_byte(out, '?');
    append_html(out, query);
    buf_append_str(out, "\">Temporary Redirect</a>.\n\n");
}
