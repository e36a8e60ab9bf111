#include "harness/line_diff.h"

#include "base/arena.h"

enum {
    CONTEXT = 3,               /* lines shown around each difference */
    TABLE_CELLS_MAX = 1 << 22, /* beyond this all lines count as different */
};

struct lines {
    struct bytes *at;
    size_t count;
};

static struct lines split(struct arena *arena, struct bytes text)
{
    struct lines lines = {.at = arena_new_array(arena, text.len + 1, struct bytes)};

    while (text.len > 0) {
        const uint8_t *newline = memchr(text.at, '\n', text.len);
        size_t len = newline ? (size_t)(newline - text.at) : text.len;
        lines.at[lines.count++] = bytes_of(text.at, len);
        size_t taken = newline ? len + 1 : len;
        text = bytes_of(text.at + taken, text.len - taken);
    }
    return lines;
}

/* What is left to compare of the two texts, and how to print it. */
struct diff {
    struct buf *out;
    struct lines want, got;
    uint32_t
        *common;  /* [i][j]: lines that want from i and got from j on have in common, in order */
    size_t shown; /* lines of want up to here are printed */
    size_t since; /* lines in common since the last difference */
};

static uint32_t *common_at(const struct diff *d, size_t i, size_t j)
{
    return &d->common[i * (d->got.count + 1) + j];
}

static bool same_line(const struct diff *d, size_t i, size_t j)
{
    return bytes_equal(d->want.at[i], d->got.at[j]);
}

static void fill_common(struct diff *d)
{
    for (size_t i = d->want.count; i-- > 0;) {
        for (size_t j = d->got.count; j-- > 0;) {
            uint32_t skip_want = *common_at(d, i + 1, j);
            uint32_t skip_got = *common_at(d, i, j + 1);
            uint32_t best = skip_want > skip_got ? skip_want : skip_got;
            *common_at(d, i, j) = same_line(d, i, j) ? *common_at(d, i + 1, j + 1) + 1 : best;
        }
    }
}

static void print_line(struct diff *d, char mark, struct bytes line)
{
    buf_append_byte(d->out, (uint8_t)mark);
    buf_append_byte(d->out, ' ');
    buf_append(d->out, line);
    buf_append_byte(d->out, '\n');
}

/* Before a difference at line i of want: the lines leading up to it, under a heading if lines were
 * left out. */
static void print_context(struct diff *d, size_t i)
{
    size_t from = i > CONTEXT ? i - CONTEXT : 0;

    if (from > d->shown || (d->shown == 0 && d->out->len == 0))
        buf_printf(d->out, "@@ line %zu\n", (from > d->shown ? from : d->shown) + 1);
    for (size_t k = from > d->shown ? from : d->shown; k < i; k++)
        print_line(d, ' ', d->want.at[k]);
    d->shown = i;
    d->since = 0;
}

static void walk(struct diff *d)
{
    size_t i = 0, j = 0;
    bool differed = false;

    while (i < d->want.count || j < d->got.count) {
        bool more_want = i < d->want.count, more_got = j < d->got.count;
        if (more_want && more_got && same_line(d, i, j)) {
            if (differed && d->since++ < CONTEXT)
                print_line(d, ' ', d->want.at[d->shown++]);
            i++;
            j++;
            continue;
        }
        differed = true;
        print_context(d, i);
        if (more_want && (!more_got || *common_at(d, i + 1, j) >= *common_at(d, i, j + 1))) {
            print_line(d, '-', d->want.at[i++]);
            d->shown = i;
        } else {
            print_line(d, '+', d->got.at[j++]);
        }
    }
}

static void print_all(struct diff *d)
{
    for (size_t i = 0; i < d->want.count; i++)
        print_line(d, '-', d->want.at[i]);
    for (size_t j = 0; j < d->got.count; j++)
        print_line(d, '+', d->got.at[j]);
}

void line_diff(struct buf *out, struct bytes want, struct bytes got)
{
    struct arena arena = {0};
    struct buf text = {0};
    struct diff d = {.out = &text, .want = split(&arena, want), .got = split(&arena, got)};
    size_t cells = (d.want.count + 1) * (d.got.count + 1);

    if (cells > TABLE_CELLS_MAX) {
        print_all(&d);
    } else {
        d.common = arena_new_array(&arena, cells, uint32_t);
        fill_common(&d);
        walk(&d);
    }
    buf_append(out, buf_bytes(&text));
    buf_free(&text);
    arena_free(&arena);
}
