/*
 * exposition: what a scrape shows, and how it is written down.
 *
 * The core thread only gathers: families with their samples, as values. To sort them and to write
 * them is the work of whoever has time for it, which is a worker (metrics.h).
 *
 *     family    | name, type, help | samples ...
 *     sample    | labels | a value; of a histogram or a summary: sum, count, buckets or quantiles
 *
 * Life       exposition_family, then the samples of that family, in whatever order; more families;
 *            exposition_sort; exposition_write as often as there are formats to be written;
 *            exposition_free.
 *
 * The order is that of Prometheus' library for Go: families by name, samples by the values of their
 * labels. A family without samples is not shown. Numbers are written as Go writes floats, with an
 * exponent from a million on, so that what looks for etcd's lines finds ours.
 *
 * Labels are given as text, a="b",c="d", in the order of their names; what comes from outside goes
 * through exposition_label. Names, types and help texts are static data.
 */
#pragma once

#include "api/api.h"
#include "base/buf.h"
#include "base/histogram.h"

/* All zeroes is an empty one. What is in the bufs is exposition_int.h's concern. */
struct exposition {
    struct buf families, samples, buckets, labels;
    double created_unix;  /* since when the counters count; 0: it is not known */
    bool is_without_time; /* the next families do not say since when */
    bool is_sorted;
};

void exposition_free(struct exposition *x);

/* --- gathering --- */

/* The type: "counter", "gauge", "histogram" or "summary". */
void exposition_family(struct exposition *x, const char *name, const char *type, const char *help);

/* Labels: NULL for none. */
void exposition_number(struct exposition *x, const char *labels, uint64_t value);
void exposition_float(struct exposition *x, const char *labels, double value);
/* A whole number of so many parts of one: nanoseconds and 1e9, as seconds. */
void exposition_parts(struct exposition *x, const char *labels, uint64_t value, uint64_t parts);
void exposition_histogram(struct exposition *x, const char *labels, const struct histogram *h,
                          struct histogram_shape shape, uint64_t parts);
/* One with other bounds, in thousandths; counts has one more, for what is beyond. */
void exposition_buckets(struct exposition *x, const char *labels, const unsigned *bounds_ms,
                        size_t count, const uint64_t *counts, uint64_t sum_ns);
/* A summary of nothing yet. */
void exposition_nothing(struct exposition *x, const double *quantiles, size_t count);

/* Families of one sample. */
void exposition_counter(struct exposition *x, const char *name, const char *help, uint64_t value);
void exposition_gauge(struct exposition *x, const char *name, const char *help, uint64_t value);

/* Appends name="value", with a comma in front unless it is the first. */
void exposition_label(struct buf *labels, const char *name, struct bytes value);

/* --- writing --- */

/* Once, when all is gathered. */
void exposition_sort(struct exposition *x);

/* Appends all of it, sorted before. */
void exposition_write(const struct exposition *x, enum api_format format, struct buf *out);
