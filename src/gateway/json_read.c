#include "gateway/json_read.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "pb/codec.h"
#include "pb/wire.h"

#include <limits.h>

enum { FIELDS_MAX = 64 }; /* of a message that a client sends */

/* A message that is open. */
struct open_message {
    const struct pb_schema *schema;
    const struct pb_field *list; /* of which this is the list that is open; NULL: none is */
    uint64_t seen;               /* rows that were there, a bit for each */
    bool has_oneof;
    size_t hole;
};

/*
 * The length of a message stands before it and is known after it. So lengths are left out at first,
 * their places remembered, and put in when all are known: once, however deep the message is.
 */
struct hole {
    size_t at;       /* in `raw` */
    size_t before;   /* bytes that the lengths before it take in all, while it is open */
    uint64_t length; /* when it is closed */
};

enum token_kind { TOKEN_NULL, TOKEN_BOOL, TOKEN_NUMBER, TOKEN_STRING, TOKEN_OPEN, TOKEN_CLOSE };

struct token {
    enum token_kind kind;
    size_t at;         /* where it begins */
    struct bytes raw;  /* as it stands there */
    struct bytes text; /* TOKEN_STRING: what it means; lives until the next one is read */
};

struct json_reader {
    const struct pb_schema *schema;
    struct bytes in;
    size_t at;
    struct buf string; /* of the last token, if it had escapes */
    struct buf raw, scratch;
    struct buf *why;
    struct open_message *open;
    size_t depth, depth_cap;
    bool has_begun;
    size_t skipping; /* brackets that are open in a value that nobody asks for */
    struct hole *holes;
    size_t hole_count, hole_cap;
    size_t lengths; /* bytes that the lengths of closed messages take */
};

/* --- what is wrong --- */

/* Lines and characters are counted from 1; a byte that is no character counts as one. */
static void append_place(const struct json_reader *r, size_t at, struct buf *out)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < at;) {
        size_t len = bytes_utf8_len(bytes_of(r->in.at + i, r->in.len - i));
        bool ends_line = r->in.at[i] == '\n';
        line += ends_line;
        column = ends_line ? 1 : column + 1;
        i += len > 0 ? len : 1;
    }
    buf_printf(out, "(line %zu:%zu): ", line, column);
}

static struct buf *begin_error(struct json_reader *r, const char *front, size_t at)
{
    buf_append_str(r->why, "proto: ");
    buf_append_str(r->why, front);
    append_place(r, at, r->why);
    return r->why;
}

static bool unexpected(struct json_reader *r, const struct token *t)
{
    struct buf *why = begin_error(r, "syntax error ", t->at);

    buf_append_str(why, "unexpected token ");
    buf_append(why, t->raw);
    return false;
}

static bool cut_short(struct json_reader *r)
{
    buf_append_str(r->why, "proto: unexpected EOF");
    return false;
}

/* --- tokens --- */

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.' || c == '_';
}

static bool bad_escape(struct json_reader *r, size_t string_at, struct bytes escape)
{
    struct buf *why = begin_error(r, "syntax error ", string_at);

    buf_append_str(why, "invalid escape code ");
    text_append_quoted(why, escape);
    buf_append_str(why, " in string");
    return false;
}

/* The other half of a character is looked for in the whole text, whose end may be nearer than six
 * bytes. */
static bool read_escape(struct json_reader *r, size_t string_at)
{
    struct bytes rest = bytes_of(r->in.at + r->at, r->in.len - r->at);
    bool is_whole = json_take_escape(&rest, &r->string);

    r->at = r->in.len - rest.len;
    if (is_whole)
        return true;
    return rest.len < 6 ? cut_short(r) : bad_escape(r, string_at, bytes_of(rest.at, 6));
}

/* From here to the next escape or the end. */
static bool read_run(struct json_reader *r, size_t string_at, struct bytes *run)
{
    size_t front = r->at;

    while (r->in.at[r->at] != '"' && r->in.at[r->at] != '\\')
        r->at++;
    *run = bytes_of(r->in.at + front, r->at - front);
    if (bytes_are_utf8(*run))
        return true;
    buf_append_str(begin_error(r, "syntax error ", string_at), "invalid UTF-8 in string");
    return false;
}

/* One without escapes is not copied. */
static bool read_string(struct json_reader *r, struct token *t)
{
    struct bytes run;

    r->at++;
    buf_clear(&r->string);
    if (!read_run(r, t->at, &run))
        return false;
    t->text = run;
    if (r->in.at[r->at] == '\\')
        buf_append(&r->string, run);
    while (r->in.at[r->at] == '\\') {
        if (!read_escape(r, t->at) || !read_run(r, t->at, &run))
            return false;
        buf_append(&r->string, run);
        t->text = buf_bytes(&r->string);
    }
    r->at++;
    return true;
}

static void skip_between(struct json_reader *r)
{
    while (r->at < r->in.len &&
           (is_space(r->in.at[r->at]) || r->in.at[r->at] == ',' || r->in.at[r->at] == ':'))
        r->at++;
}

/* The syntax is known to be good, so commas and colons tell nothing new. */
static bool next_token(struct json_reader *r, struct token *t)
{
    skip_between(r);
    assert(r->at < r->in.len);
    *t = (struct token){.at = r->at};
    switch (r->in.at[r->at]) {
    case '"':
        t->kind = TOKEN_STRING;
        if (!read_string(r, t))
            return false;
        break;
    case '{':
    case '[':
        t->kind = TOKEN_OPEN;
        r->at++;
        break;
    case '}':
    case ']':
        t->kind = TOKEN_CLOSE;
        r->at++;
        break;
    default:
        t->kind = r->in.at[r->at] == 'n'                             ? TOKEN_NULL
                  : r->in.at[r->at] == 't' || r->in.at[r->at] == 'f' ? TOKEN_BOOL
                                                                     : TOKEN_NUMBER;
        while (r->at < r->in.len && is_word(r->in.at[r->at]))
            r->at++;
        break;
    }
    t->raw = bytes_of(r->in.at + t->at, r->at - t->at);
    return true;
}

static bool opens(const struct token *t, char bracket)
{
    return t->kind == TOKEN_OPEN && t->raw.at[0] == (uint8_t)bracket;
}

/* The next token of a value that nobody asks for; its strings must be good all the same. */
static bool skip_some(struct json_reader *r)
{
    struct token t;

    if (!next_token(r, &t))
        return false;
    r->skipping += t.kind == TOKEN_OPEN;
    r->skipping -= t.kind == TOKEN_CLOSE;
    return true;
}

/* --- numbers --- */

struct number {
    bool negative;
    struct bytes whole, fraction, exponent; /* digits; the exponent with its sign */
};

static struct bytes take_digits(struct bytes *s)
{
    size_t len = 0;

    while (len < s->len && s->at[len] >= '0' && s->at[len] <= '9')
        len++;
    struct bytes digits = bytes_of(s->at, len);
    *s = bytes_of(s->at + len, s->len - len);
    return digits;
}

static uint8_t at_or_0(struct bytes s, size_t i)
{
    return i < s.len ? s.at[i] : 0;
}

static void drop(struct bytes *s, size_t count)
{
    *s = bytes_of(s->at + count, s->len - count);
}

/* The number that `s` begins with; behind it there may be what no number goes on with, since one in
 * a string is read up to there, and not to the string's end. */
static bool split_number(struct bytes s, struct number *out)
{
    *out = (struct number){.negative = at_or_0(s, 0) == '-'};
    drop(&s, out->negative);
    if (at_or_0(s, 0) == '0') {
        drop(&s, 1);
    } else {
        out->whole = take_digits(&s);
        if (out->whole.len == 0)
            return false;
    }
    if (at_or_0(s, 0) == '.' && at_or_0(s, 1) >= '0' && at_or_0(s, 1) <= '9') {
        drop(&s, 1);
        out->fraction = take_digits(&s);
    }
    if (s.len >= 2 && (s.at[0] == 'e' || s.at[0] == 'E')) {
        drop(&s, 1);
        struct bytes exponent = s;
        if (s.at[0] == '+' || s.at[0] == '-')
            drop(&s, 1);
        if (s.len == 0)
            return false;
        take_digits(&s);
        out->exponent = bytes_of(exponent.at, exponent.len - s.len);
    }
    while (out->fraction.len > 0 && out->fraction.at[out->fraction.len - 1] == '0')
        out->fraction.len--;
    return s.len == 0 || !is_word(s.at[0]);
}

static bool read_exponent(struct bytes s, int64_t *out)
{
    bool negative = at_or_0(s, 0) == '-';
    uint64_t value;

    *out = 0;
    if (s.len == 0)
        return true;
    if (negative || s.at[0] == '+')
        drop(&s, 1);
    if (text_read_number(s, (uint64_t)INT32_MAX + negative, &value) != ERR_OK)
        return false;
    *out = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool append_digit(uint64_t *value, uint8_t digit)
{
    return !__builtin_mul_overflow(*value, 10u, value) &&
           !__builtin_add_overflow(*value, (uint64_t)(digit - '0'), value);
}

/* What the digits stand for once the point was moved; false if that is not whole, or too large. */
static bool join_number(const struct number *n, uint64_t *out)
{
    int64_t exponent;

    *out = 0;
    if (n->whole.len == 0 && n->fraction.len == 0)
        return true;
    if (!read_exponent(n->exponent, &exponent))
        return false;
    if (exponent >= 0) {
        enum { DIGITS_MAX = 20 };
        if ((int64_t)n->fraction.len > exponent || (int64_t)n->whole.len + exponent > DIGITS_MAX)
            return false;
        for (size_t i = 0; i < n->whole.len; i++)
            if (!append_digit(out, n->whole.at[i]))
                return false;
        for (int64_t i = 0; i < exponent; i++)
            if (!append_digit(out, i < (int64_t)n->fraction.len ? n->fraction.at[i] : '0'))
                return false;
        return true;
    }
    int64_t kept = (int64_t)n->whole.len + exponent;
    if (n->fraction.len > 0 || kept < 0)
        return false;
    for (int64_t i = 0; i < (int64_t)n->whole.len; i++) {
        if (i >= kept && n->whole.at[i] != '0')
            return false;
        if (i < kept && !append_digit(out, n->whole.at[i]))
            return false;
    }
    return true;
}

static bool read_signed(struct bytes s, uint64_t max, uint64_t *out)
{
    struct number n;

    if (!split_number(s, &n) || !join_number(&n, out) || *out > max + n.negative)
        return false;
    if (n.negative)
        *out = 0 - *out;
    return true;
}

static bool read_unsigned(struct bytes s, uint64_t max, uint64_t *out)
{
    struct number n;

    return split_number(s, &n) && join_number(&n, out) && *out <= max && (!n.negative || *out == 0);
}

/* Those that Unicode calls white space: Go's TrimSpace. */
static bool is_wide_space(struct bytes s)
{
    static const char *const spaces[] = {" ",      "\t",       "\n",       "\v",     "\f",
                                         "\r",     "\xc2\x85", "\xc2\xa0", "\u1680", "\u2000",
                                         "\u2001", "\u2002",   "\u2003",   "\u2004", "\u2005",
                                         "\u2006", "\u2007",   "\u2008",   "\u2009", "\u200a",
                                         "\u2028", "\u2029",   "\u202f",   "\u205f", "\u3000"};

    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        if (bytes_starts_with(s, bytes_of_str(spaces[i])))
            return true;
    return false;
}

/* White space before a number makes it none; so does some behind it. */
static bool is_trimmed(struct bytes s)
{
    if (is_wide_space(s))
        return false;
    for (size_t len = 1; len <= 3 && len <= s.len; len++) {
        struct bytes last = bytes_of(s.at + s.len - len, len);
        if (bytes_utf8_len(last) == len && is_wide_space(last))
            return false;
    }
    return true;
}

/* --- values --- */

static bool read_name(const struct pb_enum *choices, struct bytes name, int32_t *out)
{
    for (size_t i = 0; i < choices->count; i++) {
        if (bytes_equal(bytes_of_str(choices->values[i].name), name)) {
            *out = choices->values[i].number;
            return true;
        }
    }
    return false;
}

/* *is_known: false for an enum's name that nobody knows. */
static bool read_enum(const struct pb_enum *choices, const struct token *t, uint64_t *out,
                      bool *is_known)
{
    int32_t number;

    if (t->kind == TOKEN_STRING) {
        *is_known = read_name(choices, t->text, &number);
        *out = *is_known ? (uint64_t)(int64_t)number : 0;
        return true;
    }
    return t->kind == TOKEN_NUMBER && read_signed(t->raw, INT32_MAX, out);
}

static bool read_number(const struct pb_field *f, const struct token *t, uint64_t *out)
{
    struct bytes s = t->kind == TOKEN_STRING ? t->text : t->raw;

    if (t->kind != TOKEN_NUMBER && t->kind != TOKEN_STRING)
        return false;
    if (t->kind == TOKEN_STRING && !is_trimmed(s))
        return false;
    switch (f->kind) {
    case PB_INT64:
        return read_signed(s, INT64_MAX, out);
    case PB_UINT64:
        return read_unsigned(s, UINT64_MAX, out);
    default:
        return read_unsigned(s, UINT32_MAX, out);
    }
}

/* --- the wire --- */

static void append_varint(struct buf *out, uint64_t value)
{
    size_t size = pb_varint_size(value);

    pb_put_varint(buf_extend(out, size) + size, value);
}

/* Is something without content to be said all the same? A member of a list or of a oneof is. */
static bool says_nothing(const struct pb_field *f)
{
    return f->place != PB_ONEOF && f->place != PB_LIST;
}

static void append_number(struct json_reader *r, const struct pb_field *f, uint64_t value)
{
    if (value == 0 && says_nothing(f))
        return;
    append_varint(&r->raw, PB_TAG_VARINT(f->number));
    append_varint(&r->raw, value);
}

static void append_content(struct json_reader *r, const struct pb_field *f, struct bytes content)
{
    if (content.len == 0 && says_nothing(f))
        return;
    append_varint(&r->raw, PB_TAG_BYTES(f->number));
    append_varint(&r->raw, content.len);
    buf_append(&r->raw, content);
}

/* --- names --- */

/* lowerCamelCase of a field's name, as protoc makes it. */
static void append_json_name(struct buf *out, const char *name)
{
    bool after_bar = false;

    for (; *name; name++) {
        char c = *name;
        if (c != '_')
            buf_append_byte(out, (uint8_t)(after_bar && c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c));
        after_bar = c == '_';
    }
}

static bool is_json_name(const char *name, struct bytes as)
{
    size_t i = 0;
    bool after_bar = false;

    for (; *name; name++) {
        char c = *name;
        if (c != '_') {
            char want = (char)(after_bar && c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
            if (at_or_0(as, i++) != (uint8_t)want)
                return false;
        }
        after_bar = c == '_';
    }
    return i == as.len;
}

static const struct pb_field *find_field(const struct pb_schema *s, struct bytes name)
{
    for (const struct pb_field *f = s->fields; f < s->fields + s->field_count; f++)
        if (is_json_name(f->name, name))
            return f;
    for (const struct pb_field *f = s->fields; f < s->fields + s->field_count; f++)
        if (bytes_equal(bytes_of_str(f->name), name))
            return f;
    return NULL;
}

/* No message that a client sends has two. */
static const char *oneof_name(const struct pb_schema *s)
{
    return s == &pb_request_op_schema      ? "request"
           : s == &pb_compare_schema       ? "target_union"
           : s == &pb_watch_request_schema ? "request_union"
                                           : "response";
}

/* --- reading --- */

static void open_message(struct json_reader *r, const struct pb_schema *schema)
{
    assert(schema->field_count <= FIELDS_MAX);
    if (r->depth == r->depth_cap) {
        r->depth_cap = r->depth_cap ? 2 * r->depth_cap : 8;
        r->open = mem_resize(r->open, r->depth_cap, sizeof(*r->open));
    }
    if (r->hole_count == r->hole_cap) {
        r->hole_cap = r->hole_cap ? 2 * r->hole_cap : 8;
        r->holes = mem_resize(r->holes, r->hole_cap, sizeof(*r->holes));
    }
    r->open[r->depth++] = (struct open_message){.schema = schema, .hole = r->hole_count};
    r->holes[r->hole_count++] = (struct hole){.at = r->raw.len, .before = r->lengths};
}

static void close_message(struct json_reader *r)
{
    struct hole *h = &r->holes[r->open[--r->depth].hole];

    h->length = r->raw.len - h->at + (r->lengths - h->before);
    r->lengths += pb_varint_size(h->length);
}

static void begin_sub_message(struct json_reader *r, const struct pb_field *f)
{
    append_varint(&r->raw, PB_TAG_BYTES(f->number));
    open_message(r, f->sub);
}

static const char *kind_name(const struct pb_field *f)
{
    static const char *const names[] = {
        [PB_BOOL] = "bool", [PB_INT64] = "int64", [PB_UINT64] = "uint64", [PB_UINT32] = "uint32",
        [PB_ENUM] = "enum", [PB_BYTES] = "bytes", [PB_STRING] = "string"};

    assert(f->kind < ARRAY_LEN(names));
    return names[f->kind];
}

static bool bad_value(struct json_reader *r, const struct pb_field *f, const struct token *t)
{
    struct buf *why = begin_error(r, "", t->at);

    buf_printf(why, "invalid value for %s field ", kind_name(f));
    append_json_name(why, f->name);
    buf_append_str(why, ": ");
    buf_append(why, t->raw);
    return false;
}

static bool read_scalar(struct json_reader *r, const struct pb_field *f, const struct token *t)
{
    uint64_t number;
    bool is_known = true;

    switch (f->kind) {
    case PB_BOOL:
        if (t->kind != TOKEN_BOOL)
            return bad_value(r, f, t);
        append_number(r, f, t->raw.at[0] == 't');
        return true;
    case PB_STRING:
        if (t->kind != TOKEN_STRING)
            return bad_value(r, f, t);
        append_content(r, f, t->text);
        return true;
    case PB_BYTES:
        buf_clear(&r->scratch);
        if (t->kind != TOKEN_STRING || !base64_decode(BASE64_ANY, t->text, &r->scratch))
            return bad_value(r, f, t);
        append_content(r, f, buf_bytes(&r->scratch));
        return true;
    case PB_ENUM:
        if (!read_enum(f->choices, t, &number, &is_known))
            return bad_value(r, f, t);
        if (is_known)
            append_number(r, f, number);
        return true;
    default:
        if (!read_number(f, t, &number))
            return bad_value(r, f, t);
        append_number(r, f, number);
        return true;
    }
}

static bool is_first_time(struct json_reader *r, struct open_message *m, const struct pb_field *f,
                          const struct token *name)
{
    uint64_t bit = 1ull << (f - m->schema->fields);

    if (m->seen & bit) {
        struct buf *why = begin_error(r, "", name->at);
        buf_append_str(why, "duplicate field ");
        buf_append(why, name->raw);
        return false;
    }
    m->seen |= bit;
    return true;
}

static bool is_first_of_oneof(struct json_reader *r, struct open_message *m,
                              const struct pb_field *f, const struct token *name)
{
    if (f->place != PB_ONEOF)
        return true;
    if (m->has_oneof) {
        struct buf *why = begin_error(r, "", name->at);
        buf_append_str(why, "error parsing ");
        buf_append(why, name->raw);
        buf_printf(why, ", oneof %s.%s is already set", m->schema->name, oneof_name(m->schema));
        return false;
    }
    m->has_oneof = true;
    return true;
}

/* The value of a field, as far as it can be read without going deeper. */
static bool read_field(struct json_reader *r, struct open_message *m, const struct pb_field *f,
                       const struct token *name)
{
    struct token t;

    if (!is_first_time(r, m, f, name) || !next_token(r, &t))
        return false;
    if (t.kind == TOKEN_NULL)
        return true;
    if (f->place == PB_LIST) {
        m->list = f;
        return opens(&t, '[') || unexpected(r, &t);
    }
    if (!is_first_of_oneof(r, m, f, name))
        return false;
    if (f->kind != PB_MESSAGE)
        return read_scalar(r, f, &t);
    if (!opens(&t, '{'))
        return unexpected(r, &t);
    begin_sub_message(r, f);
    return true;
}

static bool read_element(struct json_reader *r, struct open_message *m)
{
    const struct pb_field *f = m->list;
    struct token t;

    if (!next_token(r, &t))
        return false;
    if (t.kind == TOKEN_CLOSE) {
        m->list = NULL;
        return true;
    }
    if (f->kind != PB_MESSAGE)
        return read_scalar(r, f, &t);
    if (!opens(&t, '{'))
        return unexpected(r, &t);
    begin_sub_message(r, f);
    return true;
}

/* The next thing in the innermost message that is open. */
static bool read_step(struct json_reader *r)
{
    struct open_message *m = &r->open[r->depth - 1];
    struct token t;

    if (r->skipping > 0)
        return skip_some(r);
    if (m->list)
        return read_element(r, m);
    if (!next_token(r, &t))
        return false;
    if (t.kind == TOKEN_CLOSE) {
        close_message(r);
        return true;
    }
    assert(t.kind == TOKEN_STRING);
    const struct pb_field *f = find_field(m->schema, t.text);
    return f ? read_field(r, m, f, &t) : skip_some(r);
}

static bool read_front(struct json_reader *r)
{
    struct token t;

    r->has_begun = true;
    if (!next_token(r, &t))
        return false;
    if (!opens(&t, '{'))
        return unexpected(r, &t);
    open_message(r, r->schema);
    return true;
}

/* The first hole is that of the whole message, whose length nobody writes. */
static void fill_holes(const struct json_reader *r, struct buf *out)
{
    struct bytes left = buf_bytes(&r->raw);
    size_t at = 0;

    buf_reserve(out, r->raw.len + r->lengths);
    for (size_t i = 1; i < r->hole_count; i++) {
        size_t len = r->holes[i].at - at;
        buf_append(out, bytes_of(left.at, len));
        append_varint(out, r->holes[i].length);
        left = bytes_of(left.at + len, left.len - len);
        at += len;
    }
    buf_append(out, left);
}

struct json_reader *json_reader_new(const struct pb_schema *schema)
{
    struct json_reader *r = mem_new(struct json_reader);

    r->schema = schema;
    return r;
}

static void free_content(struct json_reader *r)
{
    buf_free(&r->string);
    buf_free(&r->raw);
    buf_free(&r->scratch);
    mem_free(r->open);
    mem_free(r->holes);
}

void json_reader_free(struct json_reader *r)
{
    if (!r)
        return;
    free_content(r);
    mem_free(r);
}

enum json_read_result json_reader_go_on(struct json_reader *r, struct bytes text, size_t *work,
                                        struct buf *out, struct buf *why)
{
    r->in = text;
    r->why = why;
    while (*work > 0) {
        size_t before = r->at;
        bool sound = r->has_begun ? read_step(r) : read_front(r);
        size_t used = r->at - before;

        *work -= used < *work ? used : *work;
        if (!sound)
            return JSON_READ_BAD;
        if (r->depth == 0) {
            fill_holes(r, out);
            return JSON_READ_DONE;
        }
    }
    return JSON_READ_MORE;
}

enum err json_read(const struct pb_schema *schema, struct bytes text, struct buf *out,
                   struct buf *why)
{
    struct json_reader r = {.schema = schema};
    size_t work = SIZE_MAX;
    enum json_read_result result = json_reader_go_on(&r, text, &work, out, why);

    assert(result != JSON_READ_MORE);
    free_content(&r);
    return result == JSON_READ_DONE ? ERR_OK : ERR_MALFORMED;
}
