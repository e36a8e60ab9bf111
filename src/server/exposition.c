#include "server/exposition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void exposition_family(struct exposition *x, const char *name, const char *type, const char *help)
{
    x->name = name;
    buf_append_str(x->out, "# HELP ");
    buf_append_str(x->out, name);
    buf_append_byte(x->out, ' ');
    buf_append_str(x->out, help);
    buf_append_str(x->out, "\n# TYPE ");
    buf_append_str(x->out, name);
    buf_append_byte(x->out, ' ');
    buf_append_str(x->out, type);
    buf_append_byte(x->out, '\n');
}

static void add_name(struct exposition *x, const char *suffix, const char *labels)
{
    buf_append_str(x->out, x->name);
    buf_append_str(x->out, suffix);
    if (labels && labels[0]) {
        buf_append_byte(x->out, '{');
        buf_append_str(x->out, labels);
        buf_append_byte(x->out, '}');
    }
    buf_append_byte(x->out, ' ');
}

/* The digits of a number, without a final zero; returns how many. */
static unsigned digits_of(uint64_t value, char *digits)
{
    char back[20];
    unsigned count = 0;

    do
        back[count++] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    for (unsigned i = 0; i < count; i++)
        digits[i] = back[count - 1 - i];
    return count;
}

/* 1234567 is 1.234567e+06. */
static void add_large(struct buf *out, const char *digits, unsigned count)
{
    unsigned exponent = count - 1, kept = count;

    while (kept > 1 && digits[kept - 1] == '0')
        kept--;
    buf_append(out, bytes_of(digits, 1));
    if (kept > 1) {
        buf_append_byte(out, '.');
        buf_append(out, bytes_of(digits + 1, kept - 1));
    }
    buf_append_str(out, "e+");
    buf_append_byte(out, (uint8_t)('0' + exponent / 10));
    buf_append_byte(out, (uint8_t)('0' + exponent % 10));
}

static void add_number(struct buf *out, uint64_t value)
{
    char digits[20];
    unsigned count = digits_of(value, digits);

    if (value < 1000000)
        buf_append(out, bytes_of(digits, count));
    else
        add_large(out, digits, count);
}

/* Written out, without zeros at the end. */
static void add_parts(struct buf *out, uint64_t value, uint64_t parts)
{
    add_number(out, value / parts);
    uint64_t rest = value % parts;
    if (rest == 0)
        return;
    buf_append_byte(out, '.');
    for (parts /= 10; rest > 0; rest %= parts, parts = parts > 1 ? parts / 10 : 1)
        buf_append_byte(out, (uint8_t)('0' + rest / parts));
}

void exposition_number(struct exposition *x, const char *labels, uint64_t value)
{
    add_name(x, "", labels);
    add_number(x->out, value);
    buf_append_byte(x->out, '\n');
}

void exposition_float(struct exposition *x, const char *labels, double value)
{
    add_name(x, "", labels);
    buf_printf(x->out, "%.17g\n", value);
}

void exposition_parts(struct exposition *x, const char *suffix, const char *labels, uint64_t value,
                      uint64_t parts)
{
    add_name(x, suffix, labels);
    add_parts(x->out, value, parts);
    buf_append_byte(x->out, '\n');
}

static void add_bucket(struct exposition *x, const char *labels, bool has_bound, uint64_t bound,
                       uint64_t parts, uint64_t count)
{
    buf_append_str(x->out, x->name);
    buf_append_str(x->out, "_bucket{");
    if (labels && labels[0]) {
        buf_append_str(x->out, labels);
        buf_append_byte(x->out, ',');
    }
    buf_append_str(x->out, "le=\"");
    if (has_bound)
        add_parts(x->out, bound, parts);
    else
        buf_append_str(x->out, "+Inf");
    buf_append_str(x->out, "\"} ");
    add_number(x->out, count);
    buf_append_byte(x->out, '\n');
}

static void add_sum_and_count(struct exposition *x, const char *labels, uint64_t sum,
                              uint64_t parts, uint64_t count)
{
    exposition_parts(x, "_sum", labels, sum, parts);
    add_name(x, "_count", labels);
    add_number(x->out, count);
    buf_append_byte(x->out, '\n');
}

void exposition_histogram(struct exposition *x, const char *labels, const struct histogram *h,
                          struct histogram_shape shape, uint64_t parts)
{
    uint64_t count = 0;

    for (unsigned i = 0; i <= shape.count; i++) {
        count += h->at[i];
        add_bucket(x, labels, i < shape.count, shape.first << i, parts, count);
    }
    add_sum_and_count(x, labels, h->sum, parts, count);
}

void exposition_buckets(struct exposition *x, const char *labels, const unsigned *bounds_ms,
                        size_t count, const uint64_t *counts, uint64_t sum_ns)
{
    uint64_t total = 0;

    for (size_t i = 0; i <= count; i++) {
        total += counts[i];
        add_bucket(x, labels, i < count, i < count ? bounds_ms[i] : 0, 1000, total);
    }
    add_sum_and_count(x, labels, sum_ns, 1000000000, total);
}

void exposition_counter(struct exposition *x, const char *name, const char *help, uint64_t value)
{
    exposition_family(x, name, "counter", help);
    exposition_number(x, NULL, value);
}

void exposition_gauge(struct exposition *x, const char *name, const char *help, uint64_t value)
{
    exposition_family(x, name, "gauge", help);
    exposition_number(x, NULL, value);
}

void exposition_label(struct buf *labels, const char *name, struct bytes value)
{
    if (labels->len > 0)
        buf_append_byte(labels, ',');
    buf_append_str(labels, name);
    buf_append_str(labels, "=\"");
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.at[i];
        if (c == '\\' || c == '"')
            buf_append_byte(labels, '\\');
        if (c == '\n')
            buf_append_str(labels, "\\n");
        else
            buf_append_byte(labels, c);
    }
    buf_append_byte(labels, '"');
}
