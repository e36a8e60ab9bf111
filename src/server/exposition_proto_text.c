/*
 * The same messages as exposition_proto.c writes, as protobuf's text: in lines for people, or each
 * family in a line.
 *
 *     name: "etcd_server_has_leader"          name:"etcd_server_has_leader" ... type:GAUGE
 *     type: GAUGE                             metric:{gauge:{value:1}}
 *     metric: {
 *       gauge: {
 *         value: 1
 *       }
 *     }
 */
#include "server/exposition_int.h"

#include <inttypes.h>

struct writer {
    struct buf *out;
    bool is_compact;
    bool is_first; /* nothing stands in this message yet */
    unsigned depth;
};

static void begin(struct writer *w, const char *field)
{
    if (!w->is_compact)
        for (unsigned i = 0; i < w->depth; i++)
            buf_append_str(w->out, "  ");
    else if (!w->is_first)
        buf_append_byte(w->out, ' ');
    w->is_first = false;
    buf_append_str(w->out, field);
    buf_append_str(w->out, w->is_compact ? ":" : ": ");
}

static void end_line(struct writer *w)
{
    if (!w->is_compact)
        buf_append_byte(w->out, '\n');
}

static void open_message(struct writer *w, const char *field)
{
    begin(w, field);
    buf_append_byte(w->out, '{');
    end_line(w);
    w->is_first = true;
    w->depth++;
}

static void close_message(struct writer *w)
{
    w->depth--;
    if (!w->is_compact)
        for (unsigned i = 0; i < w->depth; i++)
            buf_append_str(w->out, "  ");
    buf_append_byte(w->out, '}');
    end_line(w);
    w->is_first = false;
}

static void put_word(struct writer *w, const char *field, const char *word)
{
    begin(w, field);
    buf_append_str(w->out, word);
    end_line(w);
}

static void put_number(struct writer *w, const char *field, uint64_t value)
{
    begin(w, field);
    buf_printf(w->out, "%" PRIu64, value);
    end_line(w);
}

static void put_double(struct writer *w, const char *field, double value)
{
    begin(w, field);
    exposition_put_float(w->out, value);
    end_line(w);
}

static void put_string(struct writer *w, const char *field, struct bytes text)
{
    begin(w, field);
    buf_append_byte(w->out, '"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        if (c == '"' || c == '\\')
            buf_append_byte(w->out, '\\');
        if (c == '\n')
            buf_append_str(w->out, "\\n");
        else if (c < ' ' || c == 0x7f)
            buf_printf(w->out, "\\x%02x", c);
        else
            buf_append_byte(w->out, c);
    }
    buf_append_byte(w->out, '"');
    end_line(w);
}

static void put_time(struct writer *w, const struct exposition *x,
                     const struct exposition_family *f)
{
    uint64_t seconds = (uint64_t)x->created_unix;

    if (!f->has_time || x->created_unix <= 0)
        return;
    open_message(w, "created_timestamp");
    put_number(w, "seconds", seconds);
    put_number(w, "nanos", (uint64_t)((x->created_unix - (double)seconds) * 1e9));
    close_message(w);
}

static void put_observed(struct writer *w, const struct exposition *x,
                         const struct exposition_family *f, const struct exposition_sample *s)
{
    bool is_histogram = f->type == EXPOSITION_HISTOGRAM;

    put_number(w, "sample_count", s->count);
    put_double(w, "sample_sum", s->value);
    for (size_t i = 0; i < s->bucket_count; i++) {
        const struct exposition_bucket *b = exposition_bucket_at(x, s, i);
        open_message(w, is_histogram ? "bucket" : "quantile");
        if (is_histogram) {
            put_number(w, "cumulative_count", (uint64_t)b->value);
            put_double(w, "upper_bound", b->bound);
        } else {
            put_double(w, "quantile", b->bound);
            put_double(w, "value", b->value);
        }
        close_message(w);
    }
}

static void put_sample(struct writer *w, const struct exposition *x,
                       const struct exposition_family *f, const struct exposition_sample *s)
{
    struct bytes labels = exposition_labels(x, s);
    struct exposition_pair pair;

    open_message(w, "metric");
    while (exposition_next_pair(&labels, &pair)) {
        open_message(w, "label");
        put_string(w, "name", pair.name);
        put_string(w, "value", pair.value);
        close_message(w);
    }
    open_message(w, f->type_name);
    if (f->type == EXPOSITION_HISTOGRAM || f->type == EXPOSITION_SUMMARY)
        put_observed(w, x, f, s);
    else
        put_double(w, "value", s->value);
    put_time(w, x, f);
    close_message(w);
    close_message(w);
}

void exposition_put_proto_text(const struct exposition *x, const struct exposition_family *f,
                               bool is_compact, struct buf *out)
{
    static const char *const types[] = {[EXPOSITION_COUNTER] = "COUNTER",
                                        [EXPOSITION_GAUGE] = "GAUGE",
                                        [EXPOSITION_SUMMARY] = "SUMMARY",
                                        [EXPOSITION_HISTOGRAM] = "HISTOGRAM"};
    struct writer w = {.out = out, .is_compact = is_compact, .is_first = true};

    put_string(&w, "name", bytes_of_str(f->name));
    put_string(&w, "help", bytes_of_str(f->help));
    put_word(&w, "type", types[f->type]);
    for (size_t i = 0; i < f->sample_count; i++)
        put_sample(&w, x, f, exposition_sample_at(x, f, i));
    buf_append_byte(out, '\n');
}
