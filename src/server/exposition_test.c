/* The same few families in each format; the protobuf is read by protobuf-c, which none of ours
 * wrote. */
#include "base/rng.h"
#include "gen/pb/metrics.pb-c.h"
#include "harness/test.h"
#include "pb/wire.h"
#include "server/exposition_int.h"

#include <math.h>
#include <stdlib.h>

static const unsigned bounds_ms[] = {5, 2500};

/* Out of order in every way there is. */
static void gather(struct exposition *x)
{
    struct histogram h = {.sum = 5000000, .at = {[0] = 1, [3] = 2}};
    struct buf labels = {0};

    x->created_unix = 1234.5;
    exposition_family(x, "b_seconds", "histogram", "How long.");
    exposition_histogram(x, "kind=\"b\"", &h, (struct histogram_shape){1000000, 3}, 1000000000);
    exposition_buckets(x, "kind=\"a\"", bounds_ms, 2, (uint64_t[]){1, 2, 4}, 1500000000);
    exposition_family(x, "none_total", "counter", "Of which there is none.");
    exposition_counter(x, "c_total", "How many.", 1234567);
    exposition_family(x, "a", "gauge", "Who.");
    exposition_label(&labels, "name", BYTES("x y"));
    exposition_label(&labels, "of", BYTES("2"));
    exposition_number(x, buf_str(&labels), 1);
    buf_clear(&labels);
    exposition_label(&labels, "name", BYTES("x"));
    exposition_label(&labels, "of", BYTES("\"\\\n"));
    exposition_float(x, buf_str(&labels), -1);
    x->is_without_time = true;
    exposition_family(x, "pause_seconds", "summary", "Pauses.");
    exposition_nothing(x, (double[]){0, 0.5}, 2);
    buf_free(&labels);
    exposition_sort(x);
}

static const char *written(enum api_format format)
{
    static struct buf out;
    struct exposition x = {0};

    gather(&x);
    buf_clear(&out);
    exposition_write(&x, format, &out);
    exposition_free(&x);
    return buf_str(&out);
}

TEST(families_are_shown_by_name_and_samples_by_the_values_of_their_labels)
{
    CHECK_STR(written(API_FORMAT_TEXT), "# HELP a Who.\n"
                                        "# TYPE a gauge\n"
                                        "a{name=\"x\",of=\"\\\"\\\\\\n\"} -1\n"
                                        "a{name=\"x y\",of=\"2\"} 1\n"
                                        "# HELP b_seconds How long.\n"
                                        "# TYPE b_seconds histogram\n"
                                        "b_seconds_bucket{kind=\"a\",le=\"0.005\"} 1\n"
                                        "b_seconds_bucket{kind=\"a\",le=\"2.5\"} 3\n"
                                        "b_seconds_bucket{kind=\"a\",le=\"+Inf\"} 7\n"
                                        "b_seconds_sum{kind=\"a\"} 1.5\n"
                                        "b_seconds_count{kind=\"a\"} 7\n"
                                        "b_seconds_bucket{kind=\"b\",le=\"0.001\"} 1\n"
                                        "b_seconds_bucket{kind=\"b\",le=\"0.002\"} 1\n"
                                        "b_seconds_bucket{kind=\"b\",le=\"0.004\"} 1\n"
                                        "b_seconds_bucket{kind=\"b\",le=\"+Inf\"} 3\n"
                                        "b_seconds_sum{kind=\"b\"} 0.005\n"
                                        "b_seconds_count{kind=\"b\"} 3\n"
                                        "# HELP c_total How many.\n"
                                        "# TYPE c_total counter\n"
                                        "c_total 1.234567e+06\n"
                                        "# HELP pause_seconds Pauses.\n"
                                        "# TYPE pause_seconds summary\n"
                                        "pause_seconds{quantile=\"0\"} 0\n"
                                        "pause_seconds{quantile=\"0.5\"} 0\n"
                                        "pause_seconds_sum 0\n"
                                        "pause_seconds_count 0\n");
}

TEST(in_protobufs_compact_text_a_family_is_a_line)
{
    CHECK_STR(
        written(API_FORMAT_PROTO_COMPACT),
        "name:\"a\" help:\"Who.\" type:GAUGE "
        "metric:{label:{name:\"name\" value:\"x\"} label:{name:\"of\" value:\"\\\"\\\\\\n\"} "
        "gauge:{value:-1}} "
        "metric:{label:{name:\"name\" value:\"x y\"} label:{name:\"of\" value:\"2\"} "
        "gauge:{value:1}}\n"
        "name:\"b_seconds\" help:\"How long.\" type:HISTOGRAM "
        "metric:{label:{name:\"kind\" value:\"a\"} histogram:{sample_count:7 sample_sum:1.5 "
        "bucket:{cumulative_count:1 upper_bound:0.005} "
        "bucket:{cumulative_count:3 upper_bound:2.5} "
        "created_timestamp:{seconds:1234 nanos:500000000}}} "
        "metric:{label:{name:\"kind\" value:\"b\"} histogram:{sample_count:3 sample_sum:0.005 "
        "bucket:{cumulative_count:1 upper_bound:0.001} "
        "bucket:{cumulative_count:1 upper_bound:0.002} "
        "bucket:{cumulative_count:1 upper_bound:0.004} "
        "created_timestamp:{seconds:1234 nanos:500000000}}}\n"
        "name:\"c_total\" help:\"How many.\" type:COUNTER "
        "metric:{counter:{value:1.234567e+06 "
        "created_timestamp:{seconds:1234 nanos:500000000}}}\n"
        "name:\"pause_seconds\" help:\"Pauses.\" type:SUMMARY "
        "metric:{summary:{sample_count:0 sample_sum:0 quantile:{quantile:0 value:0} "
        "quantile:{quantile:0.5 value:0}}}\n");
}

TEST(protobufs_text_has_a_line_for_each_field_and_an_empty_one_behind_a_family)
{
    const char *text = strstr(written(API_FORMAT_PROTO_TEXT), "name: \"c_total\"");

    CHECK(text != NULL);
    CHECK_STR(text, "name: \"c_total\"\n"
                    "help: \"How many.\"\n"
                    "type: COUNTER\n"
                    "metric: {\n"
                    "  counter: {\n"
                    "    value: 1.234567e+06\n"
                    "    created_timestamp: {\n"
                    "      seconds: 1234\n"
                    "      nanos: 500000000\n"
                    "    }\n"
                    "  }\n"
                    "}\n"
                    "\n"
                    "name: \"pause_seconds\"\n"
                    "help: \"Pauses.\"\n"
                    "type: SUMMARY\n"
                    "metric: {\n"
                    "  summary: {\n"
                    "    sample_count: 0\n"
                    "    sample_sum: 0\n"
                    "    quantile: {\n"
                    "      quantile: 0\n"
                    "      value: 0\n"
                    "    }\n"
                    "    quantile: {\n"
                    "      quantile: 0.5\n"
                    "      value: 0\n"
                    "    }\n"
                    "  }\n"
                    "}\n"
                    "\n");
}

/* --- what protobuf-c reads --- */

static void show_time(const Io__Prometheus__Client__Timestamp *t, struct buf *out)
{
    if (t)
        buf_printf(out, " since %ld.%09d", (long)t->seconds, t->nanos);
}

static void show_metric(const Io__Prometheus__Client__Metric *m, struct buf *out)
{
    const Io__Prometheus__Client__Histogram *h = m->histogram;
    const Io__Prometheus__Client__Summary *s = m->summary;

    for (size_t i = 0; i < m->n_label; i++)
        buf_printf(out, " %s=%s", m->label[i]->name, m->label[i]->value);
    if (m->gauge)
        buf_printf(out, " gauge %g", m->gauge->value);
    if (m->counter) {
        buf_printf(out, " counter %.9g", m->counter->value);
        show_time(m->counter->created_timestamp, out);
    }
    if (h) {
        CHECK(h->has_sample_count && h->has_sample_sum);
        buf_printf(out, " %lu sum %g", (unsigned long)h->sample_count, h->sample_sum);
        for (size_t i = 0; i < h->n_bucket; i++)
            buf_printf(out, " <=%g %lu", h->bucket[i]->upper_bound,
                       (unsigned long)h->bucket[i]->cumulative_count);
        show_time(h->created_timestamp, out);
    }
    if (s) {
        CHECK(s->has_sample_count && s->has_sample_sum);
        buf_printf(out, " %lu sum %g", (unsigned long)s->sample_count, s->sample_sum);
        for (size_t i = 0; i < s->n_quantile; i++)
            buf_printf(out, " q%g %g", s->quantile[i]->quantile, s->quantile[i]->value);
        show_time(s->created_timestamp, out);
    }
    buf_append_byte(out, '\n');
}

TEST(protobuf_c_reads_what_was_gathered)
{
    struct exposition x = {0};
    struct buf wire = {0}, shown = {0};
    gather(&x);

    exposition_write(&x, API_FORMAT_PROTO, &wire);

    struct pb_reader r = {.at = wire.at, .end = wire.at + wire.len};
    while (r.at < r.end) {
        struct bytes one = pb_take_bytes(&r);
        Io__Prometheus__Client__MetricFamily *f =
            io__prometheus__client__metric_family__unpack(NULL, one.len, one.at);
        CHECK(f != NULL && f->has_type);
        buf_printf(&shown, "%s (%s) %d\n", f->name, f->help, (int)f->type);
        for (size_t i = 0; i < f->n_metric; i++)
            show_metric(f->metric[i], &shown);
        io__prometheus__client__metric_family__free_unpacked(f, NULL);
    }
    CHECK_EQ(r.err, ERR_OK);
    CHECK_STR(buf_str(&shown),
              "a (Who.) 1\n"
              " name=x of=\"\\\n gauge -1\n"
              " name=x y of=2 gauge 1\n"
              "b_seconds (How long.) 4\n"
              " kind=a 7 sum 1.5 <=0.005 1 <=2.5 3 since 1234.500000000\n"
              " kind=b 3 sum 0.005 <=0.001 1 <=0.002 1 <=0.004 1 since 1234.500000000\n"
              "c_total (How many.) 0\n"
              " counter 1234567 since 1234.500000000\n"
              "pause_seconds (Pauses.) 2\n"
              " 0 sum 0 q0 0 q0.5 0\n");
    buf_free(&wire);
    buf_free(&shown);
    exposition_free(&x);
}

/* --- numbers --- */

static const char *float_text(double value)
{
    static struct buf out;

    buf_clear(&out);
    exposition_put_float(&out, value);
    return buf_str(&out);
}

TEST(floats_are_written_as_go_writes_them)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {7, "7"},
        {-1, "-1"},
        {999999, "999999"},
        {1000000, "1e+06"},
        {1048576, "1.048576e+06"},
        {1234567.5, "1.2345675e+06"},
        {9223372036854775807.0, "9.223372036854776e+18"},
        {18446744073709551615.0, "1.8446744073709552e+19"},
        {1795058474.4, "1.7950584744e+09"},
        {0.0001, "0.0001"},
        {0.000057065, "5.7065e-05"},
        {1e-9, "1e-09"},
        {0.25, "0.25"},
        {8.192, "8.192"},
        {819.2, "819.2"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {2.0 / 3 * 1e5, "66666.66666666666"},
        {1e100, "1e+100"},
        {INFINITY, "+Inf"},
        {-INFINITY, "-Inf"},
        {NAN, "NaN"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_STR(float_text(cases[i].value), cases[i].text);
}

TEST(any_time_in_nanoseconds_reads_as_the_same_number_again)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (unsigned i = 0; i < 20000; i++) {
        uint64_t ns = rng_next(&rng) >> (rng_next(&rng) % 64);
        double value = (double)ns / 1e9;
        CHECK(strtod(float_text(value), NULL) == value);
    }
}
