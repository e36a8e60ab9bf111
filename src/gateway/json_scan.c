#include "gateway/json_scan.h"

#include "base/assert.h"
#include "base/text.h"

#include <stdio.h>

enum state {
    BEFORE,       /* nothing but white space so far */
    VALUE,        /* one must follow */
    VALUE_OR_END, /* or the end of a list that has just begun */
    KEY,          /* behind a comma */
    KEY_OR_END,   /* or the end of an object that has just begun */
    COLON,
    AFTER_VALUE, /* a comma or an end */
    IN_STRING,   /* or in a key: the state behind it tells */
    IN_ESCAPE,
    IN_HEX_1,
    IN_HEX_2,
    IN_HEX_3,
    IN_HEX_4,
    MINUS,
    ZERO, /* a number that may end, but has all its digits before the point */
    DIGITS,
    POINT,
    FRACTION,
    EXPONENT, /* behind e */
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
    IN_WORD,
    ENDED, /* whole */
};

/* Beside the state: the string that is being passed over is a key. */
#define OF_KEY 0x100u

void json_scan_free(struct json_scan *s)
{
    mem_free(s->open);
    buf_free(&s->why);
    *s = (struct json_scan){0};
}

void json_scan_reset(struct json_scan *s)
{
    s->state = BEFORE;
    s->depth = s->skipped = s->taken = 0;
    buf_clear(&s->why);
}

/* --- what is wrong --- */

/* As Go quotes a character; a byte beyond ASCII counts as the character of that number. */
static void append_char(struct buf *out, uint8_t c)
{
    struct buf quoted = {0};

    if (c == '\'' || c == '"') {
        buf_append_str(out, c == '"' ? "'\"'" : "'\\''");
    } else if (c < 0x80) {
        text_append_quoted(&quoted, bytes_of(&c, 1));
        buf_printf(out, "'%.*s'", (int)quoted.len - 2, (const char *)quoted.at + 1);
    } else if (c <= 0xa0 || c == 0xad) { /* those that cannot be seen */
        buf_printf(out, "'\\u%04x'", c);
    } else {
        buf_printf(out, "'%c%c'", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
    }
    buf_free(&quoted);
}

static bool bad(struct json_scan *s, uint8_t c, const char *where)
{
    buf_clear(&s->why);
    buf_append_str(&s->why, "invalid character ");
    append_char(&s->why, c);
    buf_append_byte(&s->why, ' ');
    buf_append_str(&s->why, where);
    return false;
}

static bool bad_word(struct json_scan *s, uint8_t c)
{
    char where[48];

    snprintf(where, sizeof(where), "in literal %s (expecting '%c')", s->whole, s->word[0]);
    return bad(s, c, where);
}

/* --- nesting --- */

static bool top_is_object(const struct json_scan *s)
{
    return s->open[(s->depth - 1) / 8] >> (s->depth - 1) % 8 & 1;
}

static bool enter(struct json_scan *s, uint8_t c)
{
    if (s->depth == JSON_DEPTH_MAX)
        return bad(s, c, "exceeded max depth");
    if (s->depth == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->open = mem_resize(s->open, s->cap / 8, 1);
    }
    uint8_t bit = (uint8_t)(1u << s->depth % 8);
    uint8_t *at = &s->open[s->depth / 8];
    *at = (uint8_t)(c == '{' ? *at | bit : *at & ~bit);
    s->depth++;
    s->state = c == '{' ? KEY_OR_END : VALUE_OR_END;
    return true;
}

static void value_over(struct json_scan *s)
{
    s->state = s->depth > 0 ? AFTER_VALUE : ENDED;
}

static void leave(struct json_scan *s)
{
    s->depth--;
    value_over(s);
}

/* --- one byte --- */

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static void begin_word(struct json_scan *s, const char *word)
{
    s->whole = word;
    s->word = word + 1;
    s->state = IN_WORD;
}

static bool begin_value(struct json_scan *s, uint8_t c)
{
    switch (c) {
    case '{':
    case '[':
        return enter(s, c);
    case '"':
        s->state = IN_STRING;
        return true;
    case '-':
        s->state = MINUS;
        return true;
    case '0':
        s->state = ZERO;
        return true;
    case 't':
        begin_word(s, "true");
        return true;
    case 'f':
        begin_word(s, "false");
        return true;
    case 'n':
        begin_word(s, "null");
        return true;
    default:
        if (!is_digit(c))
            return bad(s, c, "looking for beginning of value");
        s->state = DIGITS;
        return true;
    }
}

static bool begin_key(struct json_scan *s, uint8_t c)
{
    if (c != '"')
        return bad(s, c, "looking for beginning of object key string");
    s->state = IN_STRING | OF_KEY;
    return true;
}

static bool after_value(struct json_scan *s, uint8_t c)
{
    bool is_object = top_is_object(s);

    if (c == ',')
        s->state = is_object ? KEY : VALUE;
    else if (c == (is_object ? '}' : ']'))
        leave(s);
    else
        return bad(s, c, is_object ? "after object key:value pair" : "after array element");
    return true;
}

static bool in_string(struct json_scan *s, uint8_t c, unsigned of_key)
{
    if (c == '\\') {
        s->state = IN_ESCAPE | of_key;
    } else if (c == '"') {
        if (of_key)
            s->state = COLON;
        else
            value_over(s);
    } else if (c < 0x20) {
        return bad(s, c, "in string literal");
    }
    return true;
}

static bool in_escape(struct json_scan *s, uint8_t c, unsigned of_key)
{
    if (c == 'u')
        s->state = IN_HEX_1 | of_key;
    else if (c != 0 && strchr("bfnrt\\/\"", c))
        s->state = IN_STRING | of_key;
    else
        return bad(s, c, "in string escape code");
    return true;
}

static bool in_hex(struct json_scan *s, uint8_t c, unsigned of_key)
{
    unsigned state = s->state & ~OF_KEY;

    if (text_hex_value(c) < 0)
        return bad(s, c, "in \\u hexadecimal character escape");
    s->state = (state == IN_HEX_4 ? IN_STRING : state + 1) | of_key;
    return true;
}

/* False, and no reason: the number ended before this byte. */
static bool number_goes_on(struct json_scan *s, uint8_t c)
{
    bool may_have_point = s->state == ZERO || s->state == DIGITS;

    if (is_digit(c) && s->state != ZERO)
        return true;
    if (c == '.' && may_have_point)
        s->state = POINT;
    else if ((c == 'e' || c == 'E') && s->state != EXPONENT_DIGITS)
        s->state = EXPONENT;
    else
        return false;
    return true;
}

static bool in_word(struct json_scan *s, uint8_t c)
{
    if (c != (uint8_t)s->word[0])
        return bad_word(s, c);
    s->word++;
    if (!s->word[0])
        value_over(s);
    return true;
}

/* Where a number must go on with a digit. */
static bool digit_or(struct json_scan *s, uint8_t c, enum state next, const char *where)
{
    if (!is_digit(c))
        return bad(s, c, where);
    s->state = next;
    return true;
}

/* False: bad, or the text ended before this byte (ENDED). */
static bool step(struct json_scan *s, uint8_t c)
{
    unsigned of_key = s->state & OF_KEY;
    enum state state = (enum state)(s->state & ~OF_KEY);

    switch (state) {
    case BEFORE:
        if (is_space(c)) {
            s->skipped++;
            return true;
        }
        return begin_value(s, c);
    case VALUE:
        return is_space(c) || begin_value(s, c);
    case VALUE_OR_END:
        if (c == ']') {
            leave(s);
            return true;
        }
        return is_space(c) || begin_value(s, c);
    case KEY:
        return is_space(c) || begin_key(s, c);
    case KEY_OR_END:
        if (c == '}') {
            leave(s);
            return true;
        }
        return is_space(c) || begin_key(s, c);
    case COLON:
        if (c == ':')
            s->state = VALUE;
        else if (!is_space(c))
            return bad(s, c, "after object key");
        return true;
    case AFTER_VALUE:
        return is_space(c) || after_value(s, c);
    case IN_STRING:
        return in_string(s, c, of_key);
    case IN_ESCAPE:
        return in_escape(s, c, of_key);
    case IN_HEX_1:
    case IN_HEX_2:
    case IN_HEX_3:
    case IN_HEX_4:
        return in_hex(s, c, of_key);
    case MINUS:
        return digit_or(s, c, c == '0' ? ZERO : DIGITS, "in numeric literal");
    case POINT:
        return digit_or(s, c, FRACTION, "after decimal point in numeric literal");
    case EXPONENT:
        if (c == '+' || c == '-') {
            s->state = EXPONENT_SIGN;
            return true;
        }
        return digit_or(s, c, EXPONENT_DIGITS, "in exponent of numeric literal");
    case EXPONENT_SIGN:
        return digit_or(s, c, EXPONENT_DIGITS, "in exponent of numeric literal");
    case ZERO:
    case DIGITS:
    case FRACTION:
    case EXPONENT_DIGITS:
        if (number_goes_on(s, c))
            return true;
        value_over(s);
        return s->state == AFTER_VALUE && (is_space(c) || after_value(s, c));
    case IN_WORD:
        return in_word(s, c);
    case ENDED:
        return false;
    }
    unreachable();
}

/* Values of keys are long strings: most bytes are passed over here. */
static size_t plain_run(const struct json_scan *s, struct bytes in)
{
    size_t run = 0;

    if ((s->state & ~OF_KEY) != IN_STRING)
        return 0;
    while (run < in.len && in.at[run] != '"' && in.at[run] != '\\' && in.at[run] >= 0x20)
        run++;
    return run;
}

enum json_scan_result json_scan(struct json_scan *s, struct bytes *in)
{
    while (in->len > 0 && s->state != ENDED) {
        size_t run = plain_run(s, *in);
        if (run == 0) {
            if (!step(s, in->at[0]))
                break;
            run = 1;
        }
        s->taken += run;
        *in = bytes_of(in->at + run, in->len - run);
    }
    if (s->state == ENDED)
        return JSON_SCAN_DONE;
    return s->why.len > 0 ? JSON_SCAN_BAD : JSON_SCAN_MORE;
}

enum json_scan_result json_scan_end(struct json_scan *s)
{
    if (s->state == BEFORE && s->why.len == 0)
        return JSON_SCAN_DONE;
    bool is_number = s->state == ZERO || s->state == DIGITS || s->state == FRACTION ||
                     s->state == EXPONENT_DIGITS;
    if (s->state == ENDED || (is_number && s->depth == 0))
        return JSON_SCAN_DONE;
    if (s->why.len == 0)
        buf_append_str(&s->why, "unexpected EOF");
    return JSON_SCAN_BAD;
}
