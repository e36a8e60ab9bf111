#include "cluster/urls.h"

#include "base/mem.h"
#include "base/text.h"
#include "io/net.h"

#include <stdlib.h>

static const char *const scheme_names[] = {
    [URL_HTTP] = "http", [URL_HTTPS] = "https", [URL_UNIX] = "unix", [URL_UNIXS] = "unixs"};

const char *url_scheme_name(enum url_scheme scheme)
{
    return scheme_names[scheme];
}

bool url_scheme_is_secure(enum url_scheme scheme)
{
    return scheme == URL_HTTPS || scheme == URL_UNIXS;
}

bool url_scheme_is_unix(enum url_scheme scheme)
{
    return scheme == URL_UNIX || scheme == URL_UNIXS;
}

/* ---- Characters ---- */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_one_of(uint8_t c, const char *set)
{
    return c != 0 && strchr(set, c) != NULL;
}

static bool is_unreserved(uint8_t c)
{
    return is_letter(c) || is_digit(c) || is_one_of(c, "-_.~");
}

/* What stands in a host as it is. */
static bool is_host_character(uint8_t c)
{
    return is_unreserved(c) || is_one_of(c, "!$&'()*+,;=:[]<>\"");
}

/* What a path may keep where it came well encoded, and what it keeps when it is encoded anew. */
static bool is_path_character(uint8_t c)
{
    return is_unreserved(c) || is_one_of(c, "!$&'()*+,;=:@[]/%");
}

static bool is_plain_path_character(uint8_t c)
{
    return is_unreserved(c) || is_one_of(c, "$&+,/:;=@");
}

static struct bytes slice(struct bytes text, size_t from, size_t to)
{
    return bytes_of(text.at ? text.at + from : NULL, to - from);
}

/* Where `c` is first, or text.len. */
static size_t find(struct bytes text, char c)
{
    const uint8_t *at = text.len ? memchr(text.at, c, text.len) : NULL;

    return at ? (size_t)(at - text.at) : text.len;
}

static size_t find_last(struct bytes text, char c)
{
    const uint8_t *at = text.len ? memrchr(text.at, c, text.len) : NULL;

    return at ? (size_t)(at - text.at) : text.len;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct bytes trim(struct bytes text)
{
    while (text.len > 0 && is_space(text.at[0]))
        text = slice(text, 1, text.len);
    while (text.len > 0 && is_space(text.at[text.len - 1]))
        text = slice(text, 0, text.len - 1);
    return text;
}

/* ---- One URL ---- */

/* What a URL is before anybody asks whether it is one for us. */
struct parts {
    struct bytes scheme; /* empty: none */
    struct bytes user;
    struct bytes authority; /* decoded */
    struct bytes path;      /* decoded */
    struct bytes raw_path;
    bool has_user, has_authority, has_query, has_fragment;
};

struct parse {
    struct arena *arena;
    struct buf *why;
    struct bytes text; /* whole, for messages */
};

/* Each reason comes after the URL in quotes. Returns false. */
static bool refuse(struct parse *p, const char *reason)
{
    buf_append_str(p->why, "parse ");
    text_append_quoted(p->why, p->text);
    buf_printf(p->why, ": %s", reason);
    return false;
}

static bool refuse_quoting(struct parse *p, const char *before, struct bytes what,
                           const char *after)
{
    refuse(p, before);
    text_append_quoted(p->why, what);
    buf_append_str(p->why, after);
    return false;
}

static bool has_control_byte(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < ' ' || text.at[i] == 0x7f)
            return true;
    }
    return false;
}

/* Takes "http:" off the front. Text that cannot be a scheme belongs to what follows. */
static bool split_scheme(struct parse *p, struct bytes *rest, struct parts *out)
{
    for (size_t i = 0; i < rest->len; i++) {
        uint8_t c = rest->at[i];
        if (c == ':' && i == 0)
            return refuse(p, "missing protocol scheme");
        if (c == ':') {
            out->scheme = slice(*rest, 0, i);
            *rest = slice(*rest, i + 1, rest->len);
            return true;
        }
        if (!is_letter(c) && (i == 0 || !(is_digit(c) || is_one_of(c, "+-."))))
            return true;
    }
    return true;
}

static bool refuse_escape(struct parse *p, struct bytes at)
{
    return refuse_quoting(p, "invalid URL escape ", slice(at, 0, at.len < 3 ? at.len : 3), "");
}

/* The byte that %XX at the start of `at` stands for, or -1. */
static int escaped_byte(struct bytes at)
{
    if (at.len < 3 || text_hex_value(at.at[1]) < 0 || text_hex_value(at.at[2]) < 0)
        return -1;
    return text_hex_value(at.at[1]) * 16 + text_hex_value(at.at[2]);
}

/* In a host only bytes beyond ASCII may be escaped, and there is nothing else that needs it. */
static bool decode_host(struct parse *p, struct bytes raw, struct bytes *out)
{
    uint8_t *at = arena_alloc(p->arena, raw.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < raw.len; i++) {
        struct bytes here = slice(raw, i, raw.len);
        uint8_t c = raw.at[i];
        if (c == '%') {
            int byte = escaped_byte(here);
            if (byte < 0x80)
                return refuse_escape(p, here);
            at[len++] = (uint8_t)byte;
            i += 2;
            continue;
        }
        if (c < 0x80 && !is_host_character(c))
            return refuse_quoting(p, "invalid character ", slice(here, 0, 1), " in host name");
        at[len++] = c;
    }
    *out = bytes_of(at, len);
    return true;
}

static bool decode_path(struct parse *p, struct bytes raw, struct bytes *out)
{
    uint8_t *at = arena_alloc(p->arena, raw.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < raw.len; i++) {
        struct bytes here = slice(raw, i, raw.len);
        if (raw.at[i] != '%') {
            at[len++] = raw.at[i];
            continue;
        }
        int byte = escaped_byte(here);
        if (byte < 0)
            return refuse_escape(p, here);
        at[len++] = (uint8_t)byte;
        i += 2;
    }
    *out = bytes_of(at, len);
    return true;
}

/* Empty, or a colon and digits. */
static bool is_optional_port(struct bytes port)
{
    if (port.len > 0 && port.at[0] != ':')
        return false;
    for (size_t i = 1; i < port.len; i++) {
        if (!is_digit(port.at[i]))
            return false;
    }
    return true;
}

static bool check_port(struct parse *p, struct bytes port)
{
    if (is_optional_port(port))
        return true;
    return refuse_quoting(p, "invalid port ", port, " after host");
}

/* "[fe80::1%25eth0]:2380". The zone, a part of the text alone, is checked no further than that. */
static bool check_literal(struct parse *p, struct bytes raw)
{
    size_t close = find_last(raw, ']');
    struct net_address address;

    if (raw.at[0] != '[')
        return refuse(p, "invalid IP-literal");
    if (close == raw.len)
        return refuse(p, "missing ']' in host");
    if (!check_port(p, slice(raw, close + 1, raw.len)))
        return false;

    struct bytes inside = slice(raw, 1, close);
    size_t zone = find(inside, '%');
    if (zone < inside.len && !bytes_starts_with(slice(inside, zone, inside.len), BYTES("%25")))
        return refuse_escape(p, slice(inside, zone, inside.len));
    const char *number = arena_copy_str(p->arena, slice(inside, 0, zone));
    if (net_address_of_host(number, 0, &address) == ERR_OK && address.family == NET_IP6)
        return true;
    refuse_quoting(p, "invalid host: ParseAddr(", inside, "): unable to parse IP");
    return false;
}

/* "user@host:port", of which the user is put aside. */
static bool split_authority(struct parse *p, struct bytes raw, struct parts *out)
{
    size_t at = find_last(raw, '@');
    bool is_web =
        bytes_equal(out->scheme, BYTES("http")) || bytes_equal(out->scheme, BYTES("https"));

    out->has_authority = true;
    if (at < raw.len) {
        out->has_user = true;
        out->user = slice(raw, 0, at);
        raw = slice(raw, at + 1, raw.len);
    }
    if (find(raw, '[') < raw.len) {
        out->authority = raw; /* kept as it is: a zone's %25 among it */
        return check_literal(p, raw);
    }
    size_t colon = is_web ? find(raw, ':') : find_last(raw, ':');
    return check_port(p, slice(raw, colon, raw.len)) && decode_host(p, raw, &out->authority);
}

static void lower(struct parse *p, struct bytes *text)
{
    uint8_t *at = arena_alloc(p->arena, text->len + 1);

    for (size_t i = 0; i < text->len; i++)
        at[i] =
            text->at[i] >= 'A' && text->at[i] <= 'Z' ? (uint8_t)(text->at[i] + 32) : text->at[i];
    *text = bytes_of(at, text->len);
}

static bool split_url(struct parse *p, struct parts *out)
{
    struct bytes rest = slice(p->text, 0, find(p->text, '#'));

    out->has_fragment = rest.len < p->text.len;
    if (has_control_byte(rest))
        return refuse(p, "net/url: invalid control character in URL");
    if (!split_scheme(p, &rest, out))
        return false;
    lower(p, &out->scheme);
    out->has_query = find(rest, '?') < rest.len;
    rest = slice(rest, 0, find(rest, '?'));

    if (rest.len == 0 || rest.at[0] != '/') {
        if (out->scheme.len > 0)
            return true; /* "http:10.0.0.1": neither host nor path */
        if (find(rest, ':') < find(rest, '/'))
            return refuse(p, "first path segment in URL cannot contain colon");
    }
    if (out->scheme.len > 0 && bytes_starts_with(rest, BYTES("//"))) {
        rest = slice(rest, 2, rest.len);
        size_t end = find(rest, '/');
        if (!split_authority(p, slice(rest, 0, end), out))
            return false;
        rest = slice(rest, end, rest.len);
    }
    out->raw_path = rest;
    return decode_path(p, rest, &out->path);
}

static bool find_scheme(struct bytes name, enum url_scheme *out)
{
    for (size_t i = 0; i < ARRAY_LEN(scheme_names); i++) {
        if (bytes_equal(name, bytes_of_str(scheme_names[i]))) {
            *out = (enum url_scheme)i;
            return true;
        }
    }
    return false;
}

/* "host:port" or "[host]:port" into its two halves. */
static bool split_port(struct bytes authority, struct url *out)
{
    size_t colon = find_last(authority, ':');

    if (colon == authority.len)
        return false;
    out->port = slice(authority, colon + 1, authority.len);
    out->host = slice(authority, 0, colon);
    if (out->host.len >= 2 && out->host.at[0] == '[' && out->host.at[colon - 1] == ']') {
        out->host = slice(out->host, 1, colon - 1);
        return true;
    }
    return find(out->host, ']') == out->host.len && find(out->host, '[') == out->host.len;
}

/* Bytes beyond ASCII, and nothing else, are escaped; a literal's text is as it came. */
static void append_host(struct buf *out, struct bytes host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (host.at[i] < 0x80)
            buf_append_byte(out, host.at[i]);
        else
            buf_printf(out, "%%%02X", host.at[i]);
    }
}

static void append_path(struct buf *out, const struct parts *parts)
{
    bool is_encoded = true;

    for (size_t i = 0; i < parts->raw_path.len; i++)
        is_encoded = is_encoded && is_path_character(parts->raw_path.at[i]);
    if (is_encoded) {
        buf_append(out, parts->raw_path);
        return;
    }
    for (size_t i = 0; i < parts->path.len; i++) {
        if (is_plain_path_character(parts->path.at[i]))
            buf_append_byte(out, parts->path.at[i]);
        else
            buf_printf(out, "%%%02X", parts->path.at[i]);
    }
}

static struct bytes spell(struct arena *arena, const struct parts *parts)
{
    struct buf text = {0};

    buf_append(&text, parts->scheme);
    buf_append_byte(&text, ':');
    if (parts->has_authority)
        buf_append_str(&text, "//");
    append_host(&text, parts->authority);
    append_path(&text, parts);

    struct bytes kept = arena_copy(arena, buf_bytes(&text));
    buf_free(&text);
    return kept;
}

static bool refuse_kind(struct parse *p, const char *reason)
{
    buf_printf(p->why, "%s: ", reason);
    buf_append(p->why, p->text);
    return false;
}

/* Is it a URL for us? The order of these questions is etcd's. */
static bool accept(struct parse *p, const struct parts *parts, struct url *out)
{
    if (!find_scheme(parts->scheme, &out->scheme))
        return refuse_kind(p, "URL scheme must be http, https, unix, or unixs");
    if (!url_scheme_is_unix(out->scheme)) {
        if (!split_port(parts->authority, out))
            return refuse_kind(p, "URL address does not have the form \"host:port\"");
        if (parts->path.len > 0)
            return refuse_kind(p, "URL must not contain a path");
    } else {
        out->host = parts->authority;
        out->path = parts->path;
    }
    /* etcd lets these through and nobody ever looks at them; a password would be told to all. */
    if (parts->has_user || parts->has_query || parts->has_fragment)
        return refuse_kind(p, "URL must not contain a user, query or fragment");
    return true;
}

bool url_parse(struct bytes text, struct arena *arena, struct buf *why, struct url *out)
{
    struct parse p = {.arena = arena, .why = why, .text = trim(text)};
    struct parts parts = {0};

    *out = (struct url){0};
    if (!split_url(&p, &parts) || !accept(&p, &parts, out))
        return false;
    out->text = spell(arena, &parts);
    return true;
}

/* ---- Lists ---- */

static int compare_texts(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

struct url_list url_list_sorted(struct url_list list, struct arena *arena)
{
    struct bytes *sorted = arena_new_array(arena, list.count, struct bytes);

    for (size_t i = 0; i < list.count; i++)
        sorted[i] = list.at[i];
    if (list.count > 1)
        qsort(sorted, list.count, sizeof(*sorted), compare_texts);
    return (struct url_list){sorted, list.count};
}

struct url_list url_list_unique(struct url_list sorted, struct arena *arena)
{
    struct bytes *unique = arena_new_array(arena, sorted.count, struct bytes);
    size_t count = 0;

    for (size_t i = 0; i < sorted.count; i++) {
        if (count == 0 || !bytes_equal(unique[count - 1], sorted.at[i]))
            unique[count++] = sorted.at[i];
    }
    return (struct url_list){unique, count};
}

bool url_list_check(struct url_list texts, struct arena *arena, struct buf *why,
                    struct url_list *out)
{
    struct bytes *spelled = arena_new_array(arena, texts.count, struct bytes);

    if (texts.count == 0) {
        buf_append_str(why, "no valid URLs given");
        return false;
    }
    for (size_t i = 0; i < texts.count; i++) {
        struct url url;
        if (!url_parse(texts.at[i], arena, why, &url))
            return false;
        spelled[i] = url.text;
    }
    *out = url_list_sorted((struct url_list){spelled, texts.count}, arena);
    return true;
}

struct url_list url_list_split(struct bytes text, struct arena *arena)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == ',';
    struct bytes *pieces = arena_new_array(arena, count, struct bytes);

    for (size_t i = 0; i < count; i++) {
        size_t end = find(text, ',');
        pieces[i] = slice(text, 0, end);
        text = slice(text, end < text.len ? end + 1 : end, text.len);
    }
    return (struct url_list){pieces, count};
}

bool url_list_parse(struct bytes text, struct arena *arena, struct buf *why, struct url_list *out)
{
    return url_list_check(url_list_split(text, arena), arena, why, out);
}

bool url_list_equal(struct url_list a, struct url_list b)
{
    if (a.count != b.count)
        return false;
    for (size_t i = 0; i < a.count; i++) {
        if (!bytes_equal(a.at[i], b.at[i]))
            return false;
    }
    return true;
}

bool url_list_has(struct url_list list, struct bytes url)
{
    for (size_t i = 0; i < list.count; i++) {
        if (bytes_equal(list.at[i], url))
            return true;
    }
    return false;
}

void url_list_join(struct url_list list, struct buf *out)
{
    for (size_t i = 0; i < list.count; i++) {
        if (i > 0)
            buf_append_byte(out, ',');
        buf_append(out, list.at[i]);
    }
}
