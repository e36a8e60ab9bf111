/* Gathering, the order, and what the writers share. */
#include "base/assert.h"
#include "server/exposition_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void exposition_free(struct exposition *x)
{
    buf_free(&x->families);
    buf_free(&x->samples);
    buf_free(&x->buckets);
    buf_free(&x->labels);
    *x = (struct exposition){0};
}

/* --- what is in the bufs --- */

#define COUNT_OF(buf, type)   ((buf).len / sizeof(type))
#define ELEMENT(buf, type, i) ((type *)(void *)(buf).at + (i))

static void *push(struct buf *b, const void *element, size_t size)
{
    void *at = buf_extend(b, size);

    memcpy(at, element, size);
    return at;
}

size_t exposition_family_count(const struct exposition *x)
{
    return COUNT_OF(x->families, struct exposition_family);
}

const struct exposition_family *exposition_family_at(const struct exposition *x, size_t i)
{
    assert(i < exposition_family_count(x));

    return ELEMENT(x->families, struct exposition_family, i);
}

const struct exposition_sample *exposition_sample_at(const struct exposition *x,
                                                     const struct exposition_family *f, size_t i)
{
    assert(i < f->sample_count);

    return ELEMENT(x->samples, struct exposition_sample, f->first_sample + i);
}

const struct exposition_bucket *exposition_bucket_at(const struct exposition *x,
                                                     const struct exposition_sample *s, size_t i)
{
    assert(i < s->bucket_count);

    return ELEMENT(x->buckets, struct exposition_bucket, s->first_bucket + i);
}

/* --- gathering --- */

static enum exposition_type type_of(const char *name)
{
    switch (name[0]) {
    case 'c':
        return EXPOSITION_COUNTER;
    case 'g':
        return EXPOSITION_GAUGE;
    case 's':
        return EXPOSITION_SUMMARY;
    case 'h':
        return EXPOSITION_HISTOGRAM;
    }
    unreachable();
}

void exposition_family(struct exposition *x, const char *name, const char *type, const char *help)
{
    enum exposition_type kind = type_of(type);

    assert(!x->is_sorted);
    push(&x->families,
         &(struct exposition_family){.name = name,
                                     .help = help,
                                     .type_name = type,
                                     .type = kind,
                                     .first_sample =
                                         (uint32_t)COUNT_OF(x->samples, struct exposition_sample),
                                     .has_time = kind != EXPOSITION_GAUGE && !x->is_without_time},
         sizeof(struct exposition_family));
}

/* Its buckets follow. The pointer is good until the next sample. */
static struct exposition_sample *add_sample(struct exposition *x, const char *labels, double value)
{
    struct bytes text = labels ? bytes_of_str(labels) : bytes_of(NULL, 0);
    size_t family_count = exposition_family_count(x);

    assert(family_count > 0);
    ELEMENT(x->families, struct exposition_family, family_count - 1)->sample_count++;
    struct exposition_sample sample = {.labels_at = (uint32_t)x->labels.len,
                                       .labels_len = (uint32_t)text.len,
                                       .first_bucket =
                                           (uint32_t)COUNT_OF(x->buckets, struct exposition_bucket),
                                       .value = value};
    buf_append(&x->labels, text);
    return push(&x->samples, &sample, sizeof(sample));
}

static void add_bucket(struct exposition *x, struct exposition_sample *s, double bound,
                       double value)
{
    s->bucket_count++;
    push(&x->buckets, &(struct exposition_bucket){bound, value}, sizeof(struct exposition_bucket));
}

void exposition_number(struct exposition *x, const char *labels, uint64_t value)
{
    (void)add_sample(x, labels, (double)value);
}

void exposition_float(struct exposition *x, const char *labels, double value)
{
    (void)add_sample(x, labels, value);
}

void exposition_parts(struct exposition *x, const char *labels, uint64_t value, uint64_t parts)
{
    (void)add_sample(x, labels, (double)value / (double)parts);
}

void exposition_histogram(struct exposition *x, const char *labels, const struct histogram *h,
                          struct histogram_shape shape, uint64_t parts)
{
    struct exposition_sample *s = add_sample(x, labels, (double)h->sum / (double)parts);

    for (unsigned i = 0; i < shape.count; i++) {
        s->count += h->at[i];
        add_bucket(x, s, (double)(shape.first << i) / (double)parts, (double)s->count);
    }
    s->count += h->at[shape.count];
}

void exposition_buckets(struct exposition *x, const char *labels, const unsigned *bounds_ms,
                        size_t count, const uint64_t *counts, uint64_t sum_ns)
{
    struct exposition_sample *s = add_sample(x, labels, (double)sum_ns / 1e9);

    for (size_t i = 0; i < count; i++) {
        s->count += counts[i];
        add_bucket(x, s, bounds_ms[i] / 1e3, (double)s->count);
    }
    s->count += counts[count];
}

void exposition_nothing(struct exposition *x, const double *quantiles, size_t count)
{
    struct exposition_sample *s = add_sample(x, NULL, 0);

    for (size_t i = 0; i < count; i++)
        add_bucket(x, s, quantiles[i], 0);
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
        else if (c != 0) /* it ends a value in the sorted form; no field of a request has one */
            buf_append_byte(labels, c);
    }
    buf_append_byte(labels, '"');
}

/* --- the order --- */

/* A value up to its quotation mark, and returns that. The text is ours, so it is well formed. */
static const uint8_t *unescape(const uint8_t *at, const uint8_t *end, struct buf *out)
{
    for (;; at++) {
        const uint8_t *from = at;
        while (at < end && *at != '"' && *at != '\\')
            at++;
        assert(at < end);
        buf_append(out, bytes_of(from, (size_t)(at - from)));
        if (*at == '"')
            return at;
        at++;
        assert(at < end);
        buf_append_byte(out, *at == 'n' ? '\n' : *at);
    }
}

/* name="value" and what is behind it, as name 0 value 0. */
static void split_pairs(struct bytes text, struct buf *out)
{
    const uint8_t *at = text.at, *end = text.at + text.len;

    while (at < end) {
        const uint8_t *name = at;
        at = memchr(at, '=', (size_t)(end - at));
        assert(at && end - at >= 3);
        buf_append(out, bytes_of(name, (size_t)(at - name)));
        buf_append_byte(out, 0);
        at = unescape(at + 2, end, out) + 1;
        buf_append_byte(out, 0);
        assert(at == end || *at == ',');
        at += at < end;
    }
}

static struct bytes labels_of(const struct exposition *x, const struct exposition_sample *s)
{
    if (s->labels_len == 0) /* there may be no labels at all */
        return bytes_of(NULL, 0);
    return bytes_of(x->labels.at + s->labels_at, s->labels_len);
}

struct bytes exposition_labels(const struct exposition *x, const struct exposition_sample *s)
{
    assert(x->is_sorted);

    return labels_of(x, s);
}

bool exposition_next_pair(struct bytes *labels, struct exposition_pair *out)
{
    struct bytes *parts[] = {&out->name, &out->value};

    if (labels->len == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        size_t len = strnlen((const char *)labels->at, labels->len);
        assert(len < labels->len); /* split_pairs ended it */
        *parts[i] = bytes_of(labels->at, len);
        *labels = bytes_of(labels->at + len + 1, labels->len - len - 1);
    }
    return true;
}

static void split_labels(struct exposition *x)
{
    struct buf split = {0};

    for (size_t i = 0; i < COUNT_OF(x->samples, struct exposition_sample); i++) {
        struct exposition_sample *s = ELEMENT(x->samples, struct exposition_sample, i);
        struct bytes text = labels_of(x, s);
        s->labels_at = (uint32_t)split.len;
        if (text.len > 0)
            split_pairs(text, &split);
        s->labels_len = (uint32_t)split.len - s->labels_at;
    }
    buf_free(&x->labels);
    x->labels = split;
}

static int compare_samples(const void *a, const void *b, void *context)
{
    const struct exposition *x = context;

    return bytes_compare(exposition_labels(x, a), exposition_labels(x, b));
}

static int compare_families(const void *a, const void *b)
{
    return strcmp(((const struct exposition_family *)a)->name,
                  ((const struct exposition_family *)b)->name);
}

void exposition_sort(struct exposition *x)
{
    assert(!x->is_sorted);
    split_labels(x);
    x->is_sorted = true;
    if (exposition_family_count(x) > 0)
        qsort(x->families.at, exposition_family_count(x), sizeof(struct exposition_family),
              compare_families);
    for (size_t i = 0; i < exposition_family_count(x); i++) {
        const struct exposition_family *f = exposition_family_at(x, i);
        if (f->sample_count > 1)
            qsort_r(ELEMENT(x->samples, struct exposition_sample, f->first_sample), f->sample_count,
                    sizeof(struct exposition_sample), compare_samples, x);
    }
}

/* --- writing --- */

void exposition_write(const struct exposition *x, enum api_format format, struct buf *out)
{
    for (size_t i = 0; i < exposition_family_count(x); i++) {
        const struct exposition_family *f = exposition_family_at(x, i);
        if (f->sample_count == 0)
            continue;
        switch (format) {
        case API_FORMAT_TEXT:
            exposition_put_text(x, f, out);
            break;
        case API_FORMAT_PROTO:
            exposition_put_proto(x, f, out);
            break;
        case API_FORMAT_PROTO_TEXT:
        case API_FORMAT_PROTO_COMPACT:
            exposition_put_proto_text(x, f, format == API_FORMAT_PROTO_COMPACT, out);
            break;
        }
    }
}

/* --- floats --- */

enum { DIGITS_MAX = 17, EXPONENT_FROM = 6 }; /* of significance; and where exponents begin */

struct decimal {
    char digits[DIGITS_MAX + 1]; /* without zeros at the end; "0" at least */
    int count;
    int point; /* 1: d.ddd, 0: 0.dddd, 3: ddd.d */
};

static void set_digits(struct decimal *d, const char *digits, int count)
{
    assert(count > 0 && count <= DIGITS_MAX);
    memcpy(d->digits, digits, (size_t)count);
    while (count > 1 && d->digits[count - 1] == '0')
        count--;
    d->count = count;
    d->digits[count] = 0;
}

/* Bounds and times are a number of billionths that is not large: then those are the digits. */
static bool in_billionths(double value, struct decimal *out)
{
    char back[DIGITS_MAX], digits[DIGITS_MAX];
    int count = 0;

    if (value >= 1e6) /* the digits would be more than 15 */
        return false;
    uint64_t billionths = (uint64_t)(value * 1e9 + 0.5);
    if ((double)billionths / 1e9 != value || billionths == 0)
        return false;
    for (; billionths > 0; billionths /= 10)
        back[count++] = (char)('0' + billionths % 10);
    for (int i = 0; i < count; i++)
        digits[i] = back[count - 1 - i];
    out->point = count - 9;
    set_digits(out, digits, count);
    return true;
}

/* The fewest digits that read as this number again, which is finite and above 0. Two numbers of at
 * most 15 digits are never the same float, but among the very smallest, so the first that fits
 * has the fewest. */
static struct decimal shortest(double value)
{
    struct decimal d = {0};
    char text[32], digits[DIGITS_MAX];
    int count = 0;

    if (in_billionths(value, &d))
        return d;
    for (int precision = 15; precision <= DIGITS_MAX; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision - 1, value);
        if (strtod(text, NULL) == value)
            break;
    }
    const char *exponent = strchr(text, 'e');
    for (const char *at = text; at < exponent; at++)
        if (*at != '.')
            digits[count++] = *at;
    d.point = atoi(exponent + 1) + 1;
    set_digits(&d, digits, count);
    return d;
}

static void put_with_exponent(struct buf *out, const struct decimal *d)
{
    int exponent = d->point - 1;

    buf_append_byte(out, (uint8_t)d->digits[0]);
    if (d->count > 1)
        buf_printf(out, ".%s", d->digits + 1);
    buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
}

static void put_plain(struct buf *out, const struct decimal *d)
{
    if (d->point <= 0)
        buf_append_str(out, "0.");
    for (int i = d->point; i < 0; i++)
        buf_append_byte(out, '0');
    for (int i = 0; i < d->count || i < d->point; i++) {
        if (i > 0 && i == d->point)
            buf_append_byte(out, '.');
        buf_append_byte(out, i < d->count ? (uint8_t)d->digits[i] : '0');
    }
}

/* Most numbers are counts, and small. */
static void put_small(struct buf *out, uint32_t value)
{
    char digits[10];
    size_t at = sizeof(digits);

    do
        digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    buf_append(out, bytes_of(digits + at, sizeof(digits) - at));
}

void exposition_put_float(struct buf *out, double value)
{
    if (isnan(value)) {
        buf_append_str(out, "NaN");
        return;
    }
    if (value < 0)
        buf_append_byte(out, '-');
    if (isinf(value)) {
        buf_append_str(out, value > 0 ? "+Inf" : "Inf");
        return;
    }
    value = fabs(value);
    if (value < 1e6 && value == (double)(uint32_t)value) {
        put_small(out, (uint32_t)value);
    } else {
        struct decimal d = shortest(value);
        if (d.point - 1 < -4 || d.point - 1 >= EXPONENT_FROM)
            put_with_exponent(out, &d);
        else
            put_plain(out, &d);
    }
}
