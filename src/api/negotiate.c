#include "api/negotiate.h"

#include "base/assert.h"
#include "base/limits.h"
#include "rpc/line.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum escaping { ESCAPING_UNDERSCORES, ESCAPING_UTF8, ESCAPING_DOTS, ESCAPING_VALUES, ESCAPINGS };

static const char *const escapings[ESCAPINGS] = {"underscores", "allow-utf-8", "dots", "values"};

#define TYPES(type)                                                                                \
    {type "; escaping=underscores", type "; escaping=allow-utf-8", type "; escaping=dots",         \
     type "; escaping=values"}
#define PROTO(encoding)                                                                            \
    TYPES("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "             \
          "encoding=" encoding)

const char *negotiate_type(struct api_scrape scrape)
{
    static const char *const types[API_FORMATS][ESCAPINGS] = {
        [API_FORMAT_TEXT] = TYPES("text/plain; version=0.0.4; charset=utf-8"),
        [API_FORMAT_PROTO] = PROTO("delimited"),
        [API_FORMAT_PROTO_TEXT] = PROTO("text"),
        [API_FORMAT_PROTO_COMPACT] = PROTO("compact-text")};

    assert(scrape.format < API_FORMATS);
    assert(scrape.escaping < ESCAPINGS);
    return types[scrape.format][scrape.escaping];
}

/* --- Accept --- */

/* One of the kinds that are accepted. */
struct clause {
    struct bytes kind, subkind;
    struct bytes proto, encoding, version;
    float weight;
    bool has_escaping;
    enum escaping escaping;
};

/* What stands before the first such character, or all; `text` then begins behind it. */
static struct bytes cut(struct bytes *text, char at)
{
    const uint8_t *found = text->len ? memchr(text->at, at, text->len) : NULL;
    size_t len = found ? (size_t)(found - text->at) : text->len;
    struct bytes head = bytes_of(text->at, len);

    *text = bytes_of(text->at + len + (found != NULL), text->len - len - (found != NULL));
    return head;
}

static struct bytes trim(struct bytes text)
{
    while (text.len > 0 && text.at[0] == ' ')
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len > 0 && text.at[text.len - 1] == ' ')
        text.len--;
    return text;
}

/* 0 for what is no number. */
static float weight_of(struct bytes text)
{
    char copy[32], *end;

    if (text.len == 0 || text.len >= sizeof(copy) || isspace(text.at[0]))
        return 0;
    memcpy(copy, text.at, text.len);
    copy[text.len] = 0;
    float weight = strtof(copy, &end);
    return *end == 0 ? weight : 0;
}

static void read_parameter(struct clause *c, struct bytes name, struct bytes value)
{
    if (bytes_equal(name, BYTES("q"))) {
        c->weight = weight_of(value);
        return;
    }
    value = trim(value);
    if (bytes_equal(name, BYTES("proto")))
        c->proto = value;
    else if (bytes_equal(name, BYTES("encoding")))
        c->encoding = value;
    else if (bytes_equal(name, BYTES("version")))
        c->version = value;
    if (!bytes_equal(name, BYTES("escaping")))
        return;
    c->has_escaping = false; /* the last one counts, even if it is unknown */
    for (unsigned i = 0; i < ESCAPINGS; i++) {
        if (!bytes_equal(value, bytes_of_str(escapings[i])))
            continue;
        c->has_escaping = true;
        c->escaping = (enum escaping)i;
    }
}

/* False if it is none. */
static bool read_clause(struct bytes text, struct clause *out)
{
    struct bytes rest = trim(text), kinds = cut(&rest, ';');

    *out = (struct clause){.weight = 1, .kind = trim(cut(&kinds, '/'))};
    if (kinds.len == 0) {
        out->subkind = BYTES("*");
        if (!bytes_equal(out->kind, BYTES("*")))
            return false;
    } else {
        out->subkind = trim(cut(&kinds, '/'));
        if (kinds.len > 0)
            return false;
    }
    while (rest.len > 0) {
        struct bytes behind = cut(&rest, ';'), name = cut(&behind, '=');
        bool has_value = behind.len > 0;
        struct bytes value = cut(&behind, '=');
        if (has_value && behind.len == 0)
            read_parameter(out, trim(name), value);
    }
    return true;
}

static bool is_any(struct bytes kind)
{
    return bytes_equal(kind, BYTES("*"));
}

static bool is_before(const struct clause *a, const struct clause *b)
{
    return a->weight > b->weight || (!is_any(a->kind) && is_any(b->kind)) ||
           (!is_any(a->subkind) && is_any(b->subkind));
}

/* By weight, but what names its kind goes before what does not. That is no order when both weights
 * and stars are there, and then the way of sorting decides: Go inserts, while there are few. */
static void insert(struct clause *clauses, size_t count, const struct clause *c)
{
    size_t at = count;

    for (; at > 0 && is_before(c, &clauses[at - 1]); at--)
        clauses[at] = clauses[at - 1];
    clauses[at] = *c;
}

/* The format that this kind names; false: none that we have. */
static bool format_of(const struct clause *c, enum api_format *out)
{
    static const struct {
        const char *encoding;
        enum api_format format;
    } protos[] = {{"delimited", API_FORMAT_PROTO},
                  {"text", API_FORMAT_PROTO_TEXT},
                  {"compact-text", API_FORMAT_PROTO_COMPACT}};

    *out = API_FORMAT_TEXT;
    if (bytes_equal(c->kind, BYTES("text")))
        return bytes_equal(c->subkind, BYTES("plain")) &&
               (c->version.len == 0 || bytes_equal(c->version, BYTES("0.0.4")));
    if (!bytes_equal(c->kind, BYTES("application")) ||
        !bytes_equal(c->subkind, BYTES("vnd.google.protobuf")) ||
        !bytes_equal(c->proto, BYTES("io.prometheus.client.MetricFamily")))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(protos); i++) {
        *out = protos[i].format;
        if (bytes_equal(c->encoding, bytes_of_str(protos[i].encoding)))
            return true;
    }
    return false;
}

static void choose_format(struct bytes accept, struct api_scrape *out)
{
    struct clause clauses[API_ACCEPT_KINDS_MAX], clause;
    size_t count = 0;
    enum api_format format;

    while (accept.len > 0 && count < API_ACCEPT_KINDS_MAX)
        if (read_clause(cut(&accept, ','), &clause))
            insert(clauses, count++, &clause);
    for (size_t i = 0; i < count; i++) {
        if (clauses[i].has_escaping)
            out->escaping = (uint8_t)clauses[i].escaping;
        if (format_of(&clauses[i], &format)) {
            out->format = (uint8_t)format;
            return;
        }
    }
}

/* --- Accept-Encoding --- */

static bool is_token(uint8_t c)
{
    return c > ' ' && c < 0x7f && !strchr("\"(),:;<=>?@[]\\{}", c);
}

static void skip_space(struct bytes *text)
{
    while (text->len > 0 && isspace(text->at[0]))
        *text = bytes_of(text->at + 1, text->len - 1);
}

static bool skip_byte(struct bytes *text, uint8_t byte)
{
    if (text->len == 0 || text->at[0] != byte)
        return false;
    *text = bytes_of(text->at + 1, text->len - 1);
    return true;
}

/* 0 or 1, and perhaps a fraction. False: it is neither. */
static bool take_quality(struct bytes *text, double *out)
{
    double digits = 0, scale = 1;

    *out = 0;
    if (skip_byte(text, '1'))
        *out = 1;
    else if (!skip_byte(text, '0'))
        return false;
    if (!skip_byte(text, '.'))
        return true;
    for (; text->len > 0 && isdigit(text->at[0]); *text = bytes_of(text->at + 1, text->len - 1)) {
        digits = digits * 10 + (text->at[0] - '0');
        scale *= 10;
    }
    *out += digits / scale;
    return true;
}

/* The next of a line; false at the end, or where it stops making sense. */
static bool take_coding(struct bytes *line, struct bytes *name, double *quality)
{
    size_t len = 0;

    if (line->len == 0)
        return false;
    while (len < line->len && is_token(line->at[len]))
        len++;
    *name = bytes_of(line->at, len);
    *line = bytes_of(line->at + len, line->len - len);
    *quality = 1;
    skip_space(line);
    if (len > 0 && skip_byte(line, ';')) {
        skip_space(line);
        if (!skip_byte(line, 'q') || !skip_byte(line, '=') || !take_quality(line, quality))
            return false;
        skip_space(line);
    }
    if (!skip_byte(line, ','))
        line->len = 0; /* what follows is not read */
    skip_space(line);
    return len > 0;
}

/* The best weight of such a coding or of any, if that is above `least`; else `least`. */
static double quality_of(struct bytes fields, const char *coding, double least)
{
    struct bytes line, name;
    double quality;

    while (rpc_next_field(&fields, "Accept-Encoding", &line))
        while (take_coding(&line, &name, &quality))
            if ((is_any(name) || bytes_equal(name, bytes_of_str(coding))) && quality > least)
                least = quality;
    return least;
}

struct api_scrape negotiate_scrape(struct bytes fields)
{
    struct api_scrape scrape = {0};
    struct bytes lines = fields, accept;

    if (rpc_next_field(&lines, "Accept", &accept))
        choose_format(accept, &scrape);
    double plain = quality_of(fields, "identity", 0);
    scrape.is_gzipped = quality_of(fields, "gzip", plain) > plain;
    return scrape;
}
