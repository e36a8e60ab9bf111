#include "config/value.h"

#include "base/text.h"

static const char not_parsed[] = "parse error";
static const char out_of_range[] = "value out of range";

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static struct bytes behind(struct bytes text, size_t count)
{
    return bytes_of(text.at + count, text.len - count);
}

const char *value_parse_bool(struct bytes text, bool *out)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"1", true},    {"t", true},      {"T", true},      {"true", true},
                 {"TRUE", true}, {"True", true},   {"0", false},     {"f", false},
                 {"F", false},   {"false", false}, {"FALSE", false}, {"False", false}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (bytes_equal(text, bytes_of_str(words[i].word))) {
            *out = words[i].value;
            return NULL;
        }
    }
    return not_parsed;
}

/* ---- Whole numbers ---- */

/* Takes the prefix off that names the base. */
static unsigned take_base(struct bytes *text)
{
    unsigned base = 8;

    if (text->len == 0 || text->at[0] != '0')
        return 10;
    if (text->len == 1)
        return 10;
    switch (text->at[1] | 0x20) {
    case 'x':
        base = 16;
        break;
    case 'b':
        base = 2;
        break;
    case 'o':
        break;
    default:
        *text = behind(*text, 1); /* a zero alone, and what follows may begin with an underscore */
        return 8;
    }
    *text = behind(*text, 2);
    return base;
}

static unsigned digit_value(uint8_t c)
{
    if (is_digit(c))
        return (unsigned)(c - '0');
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? (unsigned)(c - 'a' + 10) : 99;
}

/* An underscore has a digit on each side; the base's prefix counts as one. */
static bool underscores_are_good(struct bytes digits, bool has_prefix)
{
    bool after_digit = has_prefix;

    for (size_t i = 0; i < digits.len; i++) {
        bool is_underscore = digits.at[i] == '_';
        if (is_underscore && !after_digit)
            return false;
        after_digit = !is_underscore;
    }
    return after_digit;
}

static const char *parse_digits(struct bytes digits, unsigned base, uint64_t max, uint64_t *out)
{
    uint64_t number = 0;

    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] == '_')
            continue;
        unsigned digit = digit_value(digits.at[i]);
        if (digit >= base)
            return not_parsed;
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit, &number) || number > max)
            return out_of_range;
    }
    *out = number;
    return NULL;
}

const char *value_parse_uint(struct bytes text, uint64_t max, uint64_t *out)
{
    struct bytes digits = text;
    unsigned base = take_base(&digits);
    bool has_prefix = digits.len < text.len;
    bool is_named_base = text.len - digits.len == 2;

    if (digits.len == 0 && (!has_prefix || is_named_base))
        return not_parsed;
    const char *reason = parse_digits(digits, base, max, out);
    if (!reason && !underscores_are_good(digits, has_prefix))
        return not_parsed;
    return reason;
}

const char *value_parse_int(struct bytes text, int64_t *out)
{
    bool is_negative = text.len > 0 && text.at[0] == '-';
    bool has_sign = is_negative || (text.len > 0 && text.at[0] == '+');
    uint64_t max = is_negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, size;
    const char *reason = value_parse_uint(has_sign ? behind(text, 1) : text, max, &size);

    if (reason)
        return reason;
    *out = is_negative ? (int64_t)(0 - size) : (int64_t)size;
    return NULL;
}

/* ---- Durations ---- */

#define NS_MAX ((uint64_t)1 << 63) /* of either sign; the positive one is checked at the end */

static size_t count_digits(struct bytes text)
{
    size_t count = 0;

    while (count < text.len && is_digit(text.at[count]))
        count++;
    return count;
}

/* What may be wrong with one; Go tells these apart. */
enum duration_flaw {
    DURATION_GOOD,
    DURATION_INVALID,
    DURATION_WITHOUT_UNIT,
    DURATION_STRANGE_UNIT
};

static enum duration_flaw take_unit(struct bytes *text, uint64_t *out_ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},           {"us", 1000},    {"\xc2\xb5s", 1000}, /* the micro sign, and
                                                                               the Greek letter */
                 {"\xce\xbcs", 1000}, {"ms", 1000000}, {"s", 1000000000},   {"m", 60000000000},
                 {"h", 3600000000000}};
    size_t len = 0;

    while (len < text->len && text->at[len] != '.' && !is_digit(text->at[len]))
        len++;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (bytes_equal(bytes_of(text->at, len), bytes_of_str(units[i].name))) {
            *text = behind(*text, len);
            *out_ns = units[i].ns;
            return DURATION_GOOD;
        }
    }
    *text = bytes_of(text->at, len); /* for who is to be told of it */
    return len == 0 ? DURATION_WITHOUT_UNIT : DURATION_STRANGE_UNIT;
}

/* Digits behind the point, as a number over a power of ten; what does not fit is left out. */
static void parse_fraction(struct bytes digits, uint64_t *number, double *scale)
{
    *number = 0;
    *scale = 1;
    for (size_t i = 0; i < digits.len && *number <= (NS_MAX - 1) / 10; i++) {
        uint64_t next = *number * 10 + (uint64_t)(digits.at[i] - '0');
        if (next > NS_MAX)
            return;
        *number = next;
        *scale *= 10;
    }
}

/* Takes "1.5h" off the front and adds it. Of a strange unit that is left. */
static enum duration_flaw add_piece(struct bytes *text, uint64_t *total_ns)
{
    size_t whole_len = count_digits(*text);
    struct bytes whole = bytes_of(text->at, whole_len), fraction = {0};
    uint64_t number, unit_ns, fraction_number;
    double scale;

    *text = behind(*text, whole_len);
    if (text->len > 0 && text->at[0] == '.') {
        *text = behind(*text, 1);
        fraction = bytes_of(text->at, count_digits(*text));
        *text = behind(*text, fraction.len);
    }
    if (whole.len + fraction.len == 0 || parse_digits(whole, 10, NS_MAX, &number))
        return DURATION_INVALID;
    enum duration_flaw flaw = take_unit(text, &unit_ns);
    if (flaw != DURATION_GOOD)
        return flaw;
    if (number > NS_MAX / unit_ns)
        return DURATION_INVALID;
    number *= unit_ns;
    if (fraction.len > 0) {
        parse_fraction(fraction, &fraction_number, &scale);
        number += (uint64_t)((double)fraction_number * ((double)unit_ns / scale));
    }
    *total_ns += number;
    return number <= NS_MAX && *total_ns <= NS_MAX ? DURATION_GOOD : DURATION_INVALID;
}

/* *unit: the one that is strange. */
static enum duration_flaw parse_duration(struct bytes text, int64_t *out_ns, struct bytes *unit)
{
    bool is_negative = text.len > 0 && text.at[0] == '-';
    uint64_t total_ns = 0;

    if (is_negative || (text.len > 0 && text.at[0] == '+'))
        text = behind(text, 1);
    if (bytes_equal(text, BYTES("0"))) {
        *out_ns = 0;
        return DURATION_GOOD;
    }
    if (text.len == 0)
        return DURATION_INVALID;
    while (text.len > 0) {
        enum duration_flaw flaw = add_piece(&text, &total_ns);
        *unit = text;
        if (flaw != DURATION_GOOD)
            return flaw;
    }
    if (!is_negative && total_ns > INT64_MAX)
        return DURATION_INVALID;
    *out_ns = is_negative ? (int64_t)(0 - total_ns) : (int64_t)total_ns;
    return DURATION_GOOD;
}

const char *value_parse_duration(struct bytes text, int64_t *out_ns)
{
    struct bytes unit;

    return parse_duration(text, out_ns, &unit) == DURATION_GOOD ? NULL : not_parsed;
}

/* ---- Retention ---- */

/* In Go's words. */
static void tell_flaw(enum duration_flaw flaw, struct bytes text, struct bytes unit,
                      struct buf *why)
{
    if (flaw == DURATION_STRANGE_UNIT) {
        buf_append_str(why, "time: unknown unit ");
        text_append_quoted(why, unit);
        buf_append_str(why, " in duration ");
    } else
        buf_append_str(why, flaw == DURATION_INVALID ? "time: invalid duration "
                                                     : "time: missing unit in duration ");
    text_append_quoted(why, text);
}

/* A whole number that is not negative, as strconv.Atoi reads it: no bases, no underscores. */
static bool parse_count(struct bytes text, uint64_t *out)
{
    bool has_sign = text.len > 0 && (text.at[0] == '-' || text.at[0] == '+');
    struct bytes digits = has_sign ? behind(text, 1) : text;

    return digits.len > 0 && count_digits(digits) == digits.len &&
           !parse_digits(digits, 10, INT64_MAX, out) && (text.at[0] != '-' || *out == 0);
}

bool value_parse_retention(struct bytes text, uint64_t unit, int64_t *out, struct buf *why)
{
    struct bytes strange;
    uint64_t count;

    if (text.len == 0)
        text = BYTES("0");
    if (parse_count(text, &count)) {
        *out = count > (uint64_t)INT64_MAX / unit ? INT64_MAX : (int64_t)(count * unit);
        return true;
    }
    enum duration_flaw flaw = parse_duration(text, out, &strange);
    if (flaw != DURATION_GOOD)
        tell_flaw(flaw, text, strange, why);
    return flaw == DURATION_GOOD;
}
