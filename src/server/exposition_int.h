/*
 * exposition_int: a gathered scrape as its writers see it.
 *
 * Everything is in four bufs, and refers to the others by index, since they grow. Until
 * exposition_sort a sample's labels are the text that was given, after it they are its pairs:
 *
 *     a="b",c="d\"e"  -->  a 0 b 0 c 0 d"e 0
 *
 * Of two samples with the same label names, bytes in this form are in the order of the values.
 */
#pragma once

#include "server/exposition.h"

enum exposition_type {
    EXPOSITION_COUNTER,
    EXPOSITION_GAUGE,
    EXPOSITION_SUMMARY,
    EXPOSITION_HISTOGRAM,
};

struct exposition_family {
    const char *name, *help, *type_name;
    enum exposition_type type;
    uint32_t first_sample, sample_count;
    bool has_time; /* its samples say since when they count */
};

struct exposition_sample {
    uint32_t labels_at, labels_len;
    uint32_t first_bucket, bucket_count;
    double value; /* or the sum of what was observed */
    uint64_t count;
};

/* Of a histogram: how many were not above the bound. Of a summary: a quantile and where it is. */
struct exposition_bucket {
    double bound, value;
};

size_t exposition_family_count(const struct exposition *x);
const struct exposition_family *exposition_family_at(const struct exposition *x, size_t i);
const struct exposition_sample *exposition_sample_at(const struct exposition *x,
                                                     const struct exposition_family *f, size_t i);
const struct exposition_bucket *exposition_bucket_at(const struct exposition *x,
                                                     const struct exposition_sample *s, size_t i);

/* The next pair of a sorted sample's labels; false at the end. */
struct exposition_pair {
    struct bytes name, value;
};
struct bytes exposition_labels(const struct exposition *x, const struct exposition_sample *s);
bool exposition_next_pair(struct bytes *labels, struct exposition_pair *out);

/* As Go writes a float, in the fewest digits that read as the same number. */
void exposition_put_float(struct buf *out, double value);

/* exposition_text.c, exposition_proto.c, exposition_proto_text.c: a family, appended. */
void exposition_put_text(const struct exposition *x, const struct exposition_family *f,
                         struct buf *out);
void exposition_put_proto(const struct exposition *x, const struct exposition_family *f,
                          struct buf *out);
void exposition_put_proto_text(const struct exposition *x, const struct exposition_family *f,
                               bool is_compact, struct buf *out);
