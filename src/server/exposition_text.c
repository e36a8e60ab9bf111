/*
 * Prometheus' own text, version 0.0.4.
 *
 *     # HELP etcd_server_has_leader Whether or not a leader exists. ...
 *     # TYPE etcd_server_has_leader gauge
 *     etcd_server_has_leader 1
 */
#include "server/exposition_int.h"

#include <math.h>

static bool is_special(uint8_t c)
{
    return c == '\\' || c == '"' || c == '\n';
}

static void put_escaped(struct buf *out, struct bytes value)
{
    for (size_t from = 0, at = 0; from < value.len; from = at) {
        while (at < value.len && !is_special(value.at[at]))
            at++;
        buf_append(out, bytes_of(value.at + from, at - from));
        if (at == value.len)
            return;
        buf_append_byte(out, '\\');
        buf_append_byte(out, value.at[at] == '\n' ? 'n' : value.at[at]);
        at++;
    }
}

/* a="b",c="d": once for all lines of a sample. */
static void put_labels(struct bytes labels, struct buf *out)
{
    struct exposition_pair pair;

    while (exposition_next_pair(&labels, &pair)) {
        if (out->len > 0)
            buf_append_byte(out, ',');
        buf_append(out, pair.name);
        buf_append_str(out, "=\"");
        put_escaped(out, pair.value);
        buf_append_byte(out, '"');
    }
}

/* What the lines of a sample have in common. */
struct lines {
    struct bytes name, labels;
    struct buf *out;
};

static void begin_line(const struct lines *l, struct bytes suffix)
{
    buf_append(l->out, l->name);
    buf_append(l->out, suffix);
}

static void put_line(const struct lines *l, struct bytes suffix, double value)
{
    begin_line(l, suffix);
    if (l->labels.len > 0) {
        buf_append_byte(l->out, '{');
        buf_append(l->out, l->labels);
        buf_append_byte(l->out, '}');
    }
    buf_append_byte(l->out, ' ');
    exposition_put_float(l->out, value);
    buf_append_byte(l->out, '\n');
}

/* Of a bucket or a quantile: with its bound as another label. */
static void put_bound_line(const struct lines *l, bool is_histogram, double bound, double value)
{
    begin_line(l, is_histogram ? BYTES("_bucket{") : BYTES("{"));
    buf_append(l->out, l->labels);
    if (l->labels.len > 0)
        buf_append_byte(l->out, ',');
    buf_append(l->out, is_histogram ? BYTES("le=\"") : BYTES("quantile=\""));
    exposition_put_float(l->out, bound);
    buf_append(l->out, BYTES("\"} "));
    exposition_put_float(l->out, value);
    buf_append_byte(l->out, '\n');
}

static void put_observed(const struct exposition *x, const struct lines *l, bool is_histogram,
                         const struct exposition_sample *s)
{
    for (size_t i = 0; i < s->bucket_count; i++) {
        const struct exposition_bucket *b = exposition_bucket_at(x, s, i);
        put_bound_line(l, is_histogram, b->bound, b->value);
    }
    if (is_histogram)
        put_bound_line(l, true, INFINITY, (double)s->count);
    put_line(l, BYTES("_sum"), s->value);
    put_line(l, BYTES("_count"), (double)s->count);
}

void exposition_put_text(const struct exposition *x, const struct exposition_family *f,
                         struct buf *out)
{
    buf_append_str(out, "# HELP ");
    buf_append_str(out, f->name);
    buf_append_byte(out, ' ');
    buf_append_str(out, f->help); /* of ours, without a backslash or a line's end */
    buf_append_str(out, "\n# TYPE ");
    buf_append_str(out, f->name);
    buf_append_byte(out, ' ');
    buf_append_str(out, f->type_name);
    buf_append_byte(out, '\n');
    struct buf labels = {0};
    for (size_t i = 0; i < f->sample_count; i++) {
        const struct exposition_sample *s = exposition_sample_at(x, f, i);
        buf_clear(&labels);
        put_labels(exposition_labels(x, s), &labels);
        struct lines l = {bytes_of_str(f->name), buf_bytes(&labels), out};
        if (f->type == EXPOSITION_HISTOGRAM || f->type == EXPOSITION_SUMMARY)
            put_observed(x, &l, f->type == EXPOSITION_HISTOGRAM, s);
        else
            put_line(&l, BYTES(""), s->value);
    }
    buf_free(&labels);
}
