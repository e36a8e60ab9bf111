#include "auth/claims.h"

#include "base/assert.h"
#include "base/json.h"
#include "gateway/json_scan.h"

#include <math.h>
#include <stdlib.h>

/* What is left of a text whose syntax is known to be good: so there is always a next byte. */
struct walk {
    const uint8_t *at, *end;
};

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Or another text that ends by itself: a number that stands alone does not. */
static bool is_one_object(struct bytes json)
{
    struct json_scan scan = {0};
    enum json_scan_result result = json_scan(&scan, &json);
    bool is_text = result == JSON_SCAN_DONE;

    json_scan_free(&scan);
    for (; json.len > 0 && is_text; json = bytes_of(json.at + 1, json.len - 1))
        is_text = is_space(json.at[0]);
    return is_text;
}

/* Commas and colons tell nothing new. */
static uint8_t next_byte(struct walk *w)
{
    while (w->at < w->end && (is_space(*w->at) || *w->at == ',' || *w->at == ':'))
        w->at++;
    assert(w->at < w->end);
    return *w->at;
}

static bool take_escape(struct walk *w, struct buf *out)
{
    struct bytes rest = bytes_of(w->at, (size_t)(w->end - w->at));
    bool is_whole = json_take_escape(&rest, out);

    w->at = rest.at;
    return is_whole;
}

static bool take_text(struct walk *w, struct buf *out)
{
    buf_clear(out);
    for (w->at++; *w->at != '"';) {
        if (*w->at != '\\')
            buf_append_byte(out, *w->at++);
        else if (!take_escape(w, out))
            return false;
    }
    w->at++;
    return bytes_are_utf8(buf_bytes(out));
}

static bool ends_word(uint8_t c)
{
    return is_space(c) || c == ',' || c == '}' || c == ']';
}

/* A number, true, false or null. */
static struct bytes take_word(struct walk *w)
{
    const uint8_t *front = w->at;

    while (w->at < w->end && !ends_word(*w->at))
        w->at++;
    return bytes_of(front, (size_t)(w->at - front));
}

static void skip_text(struct walk *w)
{
    for (w->at++; *w->at != '"'; w->at++)
        if (*w->at == '\\')
            w->at++;
    w->at++;
}

/* A whole list or object: by counting, so that nobody chooses how deep our stack gets. */
static void skip_nested(struct walk *w)
{
    size_t depth = 0;

    do {
        uint8_t c = next_byte(w);
        depth += c == '[' || c == '{';
        depth -= c == ']' || c == '}';
        if (c == '"')
            skip_text(w);
        else
            w->at++;
    } while (depth > 0);
}

static bool read_number(struct bytes word, struct claim *out)
{
    struct buf text = {0};

    buf_append(&text, word);
    out->kind = CLAIM_NUMBER;
    out->number = strtod(buf_str(&text), NULL);
    buf_free(&text);
    return isfinite(out->number);
}

static bool take_value(struct walk *w, struct claim *out)
{
    uint8_t c = next_byte(w);

    out->kind = CLAIM_OTHER;
    if (c == '"') {
        out->kind = CLAIM_TEXT;
        return take_text(w, &out->text);
    }
    if (c == '{' || c == '[') {
        skip_nested(w);
        return true;
    }
    struct bytes word = take_word(w);
    return c == 't' || c == 'f' || c == 'n' || read_number(word, out);
}

static struct claim *find(struct claim *wanted, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(bytes_of_str(wanted[i].name), name))
            return &wanted[i];
    return NULL;
}

bool claims_read(struct bytes json, struct claim *wanted, size_t count)
{
    struct buf name = {0};
    struct claim other = {0};

    if (json.len == 0) /* and so, perhaps, nowhere */
        return false;
    struct walk w = {json.at, json.at + json.len};
    bool is_good = is_one_object(json) && next_byte(&w) == '{';

    if (is_good)
        w.at++;
    while (is_good && next_byte(&w) != '}') {
        is_good = take_text(&w, &name);
        struct claim *c = is_good ? find(wanted, count, buf_bytes(&name)) : NULL;
        is_good = is_good && take_value(&w, c ? c : &other);
    }
    buf_free(&name);
    buf_free(&other.text);
    return is_good;
}

void claims_free(struct claim *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_free(&wanted[i].text);
}
