/*
 * A family as a message, io.prometheus.client.MetricFamily, with its length before it.
 *
 *     MetricFamily   name 1, help 2, type 3, metric 4
 *     Metric         label 1 {name 1, value 2}, gauge 2, counter 3, summary 4, histogram 7
 *     Gauge          value 1
 *     Counter        value 1, created_timestamp 3
 *     Summary        sample_count 1, sample_sum 2, quantile 3 {quantile 1, value 2}
 *     Histogram      sample_count 1, sample_sum 2, bucket 3 {cumulative_count 1, upper_bound 2},
 *                    created_timestamp 15 {seconds 1, nanos 2}
 *
 * The last bucket, without a bound, is not sent: it is the count. Zeros are written, since the
 * message is proto2 and Go's library sets every field of these.
 *
 * Written backwards, as all protobuf here is (pb/wire.h), but not by tables: they know no doubles,
 * and nothing else does either. The memory for it is reserved by what a family takes at most.
 */
#include "base/assert.h"
#include "pb/wire.h"
#include "server/exposition_int.h"

enum {
    DOUBLE_BYTES = 1 + 8,  /* with its tag */
    VARINT_BYTES = 1 + 10, /* the same */
    LENGTH_BYTES = 1 + 5,  /* the same, before what is counted by uint32_t */
    PAIR_BYTES = 3 * LENGTH_BYTES,
    TIME_BYTES = LENGTH_BYTES + 2 * VARINT_BYTES,
    BUCKET_BYTES = LENGTH_BYTES + VARINT_BYTES + DOUBLE_BYTES + DOUBLE_BYTES,
    SAMPLE_BYTES = 2 * LENGTH_BYTES + VARINT_BYTES + DOUBLE_BYTES + TIME_BYTES,
    FAMILY_BYTES = 3 * LENGTH_BYTES + VARINT_BYTES,
    LEAST_PAIR_BYTES = 2, /* two zeros, in the sorted labels */
};

/* Enough for any, without a walk along the labels. */
static size_t bound_of(const struct exposition *x, const struct exposition_family *f)
{
    size_t bound = FAMILY_BYTES + strlen(f->name) + strlen(f->help);

    for (size_t i = 0; i < f->sample_count; i++) {
        const struct exposition_sample *s = exposition_sample_at(x, f, i);
        bound += SAMPLE_BYTES + (size_t)s->bucket_count * BUCKET_BYTES + s->labels_len +
                 s->labels_len / LEAST_PAIR_BYTES * PAIR_BYTES;
    }
    return bound;
}

static uint8_t *put_number(uint8_t *end, unsigned field, uint64_t value)
{
    end = pb_put_varint(end, value);
    *--end = (uint8_t)PB_TAG_VARINT(field);
    return end;
}

static uint8_t *put_double(uint8_t *end, unsigned field, double value)
{
    end -= sizeof(value);
    memcpy(end, &value, sizeof(value)); /* little endian, as the wire is */
    *--end = (uint8_t)(field << 3 | PB_WIRE_FIXED64);
    return end;
}

static uint8_t *put_string(uint8_t *end, unsigned field, struct bytes text)
{
    end = pb_put_bytes(end, text);
    *--end = (uint8_t)PB_TAG_BYTES(field);
    return end;
}

/* The message from `end` to `behind` is complete, and a field of another. */
static uint8_t *put_frame(uint8_t *end, const uint8_t *behind, unsigned field)
{
    end = pb_put_varint(end, (uint64_t)(behind - end));
    *--end = (uint8_t)PB_TAG_BYTES(field);
    return end;
}

static uint8_t *put_time(const struct exposition *x, const struct exposition_family *f,
                         unsigned field, uint8_t *end)
{
    const uint8_t *behind = end;
    uint64_t seconds = (uint64_t)x->created_unix;

    if (!f->has_time || x->created_unix <= 0)
        return end;
    end = put_number(end, 2, (uint64_t)((x->created_unix - (double)seconds) * 1e9));
    end = put_number(end, 1, seconds);
    return put_frame(end, behind, field);
}

static uint8_t *put_buckets(const struct exposition *x, const struct exposition_family *f,
                            const struct exposition_sample *s, uint8_t *end)
{
    for (size_t i = s->bucket_count; i-- > 0;) {
        const struct exposition_bucket *b = exposition_bucket_at(x, s, i);
        const uint8_t *behind = end;
        if (f->type == EXPOSITION_HISTOGRAM) {
            end = put_double(end, 2, b->bound);
            end = put_number(end, 1, (uint64_t)b->value);
        } else {
            end = put_double(end, 2, b->value);
            end = put_double(end, 1, b->bound);
        }
        end = put_frame(end, behind, 3);
    }
    return end;
}

static uint8_t *put_value(const struct exposition *x, const struct exposition_family *f,
                          const struct exposition_sample *s, uint8_t *end)
{
    static const unsigned fields[] = {[EXPOSITION_GAUGE] = 2,
                                      [EXPOSITION_COUNTER] = 3,
                                      [EXPOSITION_SUMMARY] = 4,
                                      [EXPOSITION_HISTOGRAM] = 7};
    static const unsigned times[] = {
        [EXPOSITION_COUNTER] = 3, [EXPOSITION_SUMMARY] = 4, [EXPOSITION_HISTOGRAM] = 15};
    const uint8_t *behind = end;

    if (f->type != EXPOSITION_GAUGE)
        end = put_time(x, f, times[f->type], end);
    if (f->type == EXPOSITION_SUMMARY || f->type == EXPOSITION_HISTOGRAM) {
        end = put_buckets(x, f, s, end);
        end = put_double(end, 2, s->value);
        end = put_number(end, 1, s->count);
    } else {
        end = put_double(end, 1, s->value);
    }
    return put_frame(end, behind, fields[f->type]);
}

/* They are read from the first to the last; each becomes a message of which the length comes from
 * its parts alone, so their place is reserved and filled forwards. */
static uint8_t *put_labels(const struct exposition *x, const struct exposition_sample *s,
                           uint8_t *end)
{
    struct bytes labels = exposition_labels(x, s);
    struct exposition_pair pair;
    size_t size = 0;

    while (exposition_next_pair(&labels, &pair))
        size += 1 + pb_bytes_size(2 + pb_bytes_size(pair.name.len) + pb_bytes_size(pair.value.len));
    uint8_t *start = end - size, *at = start;
    for (labels = exposition_labels(x, s); exposition_next_pair(&labels, &pair);) {
        size_t content = 2 + pb_bytes_size(pair.name.len) + pb_bytes_size(pair.value.len);
        uint8_t *behind = at + 1 + pb_bytes_size(content), *back = behind;
        back = put_string(back, 2, pair.value);
        back = put_string(back, 1, pair.name);
        back = put_frame(back, behind, 1);
        assert(back == at);
        at = behind;
    }
    assert(at == end);
    return start;
}

void exposition_put_proto(const struct exposition *x, const struct exposition_family *f,
                          struct buf *out)
{
    static const unsigned numbers[] = {[EXPOSITION_COUNTER] = 0,
                                       [EXPOSITION_GAUGE] = 1,
                                       [EXPOSITION_SUMMARY] = 2,
                                       [EXPOSITION_HISTOGRAM] = 4};
    size_t bound = bound_of(x, f);
    uint8_t *start = buf_reserve(out, bound), *behind = start + bound, *end = behind;

    for (size_t i = f->sample_count; i-- > 0;) {
        const struct exposition_sample *s = exposition_sample_at(x, f, i);
        const uint8_t *behind_sample = end;
        end = put_value(x, f, s, end);
        end = put_labels(x, s, end);
        end = put_frame(end, behind_sample, 4);
        assert(end > start);
    }
    end = put_number(end, 3, numbers[f->type]);
    end = put_string(end, 2, bytes_of_str(f->help));
    end = put_string(end, 1, bytes_of_str(f->name));
    end = pb_put_varint(end, (uint64_t)(behind - end));

    assert(end >= start);
    memmove(start, end, (size_t)(behind - end));
    out->len += (size_t)(behind - end);
}
