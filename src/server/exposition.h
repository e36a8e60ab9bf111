/*
 * exposition: numbers as Prometheus reads them.
 *
 *     # HELP etcd_server_has_leader Whether or not a leader exists. ...
 *     # TYPE etcd_server_has_leader gauge
 *     etcd_server_has_leader 1
 *
 * A family begins with exposition_family; samples of it follow, in whatever order. Whole numbers
 * are written as Go writes floats, with an exponent from a million on, so that what looks for
 * etcd's lines finds ours. Labels are given as text: a="b",c="d"; what comes from outside goes
 * through exposition_label.
 */
#pragma once

#include "base/buf.h"
#include "base/histogram.h"

struct exposition {
    struct buf *out;
    const char *name; /* of the family */
};

void exposition_family(struct exposition *x, const char *name, const char *type, const char *help);

/* Labels: NULL for none. */
void exposition_number(struct exposition *x, const char *labels, uint64_t value);
void exposition_float(struct exposition *x, const char *labels, double value);
/* A whole number of so many parts of one: nanoseconds and 1e9, as seconds. */
void exposition_parts(struct exposition *x, const char *suffix, const char *labels, uint64_t value,
                      uint64_t parts);
void exposition_histogram(struct exposition *x, const char *labels, const struct histogram *h,
                          struct histogram_shape shape, uint64_t parts);
/* One with other bounds, in thousandths; counts has one more, for what is beyond. */
void exposition_buckets(struct exposition *x, const char *labels, const unsigned *bounds_ms,
                        size_t count, const uint64_t *counts, uint64_t sum_ns);

/* Families of one sample. */
void exposition_counter(struct exposition *x, const char *name, const char *help, uint64_t value);
void exposition_gauge(struct exposition *x, const char *name, const char *help, uint64_t value);

/* Appends name="value", with a comma in front unless it is the first. */
void exposition_label(struct buf *labels, const char *name, struct bytes value);
