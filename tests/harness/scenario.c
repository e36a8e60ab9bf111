#include "harness/scenario.h"

#include "harness/line_diff.h"
#include "harness/stream.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

/* A file being run: what is left to read, and what would be written in its place. */
struct run {
    const char *path;
    struct buf content;
    size_t at;
    int line;
    struct buf rewritten;
    bool broken; /* the rest makes no sense, so the file must not be replaced */
    struct scenario_result result;
};

static bool read_whole(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");

    if (!f)
        return false;
    bool ok = stream_read_all(f, out);
    fclose(f);
    return ok;
}

static bool write_whole(const char *path, struct bytes content)
{
    FILE *f = fopen(path, "wb");

    if (!f)
        return false;
    bool ok = fwrite(content.at, 1, content.len, f) == content.len;
    return fclose(f) == 0 && ok;
}

/* The next line without its newline; false at the end of the file. */
static bool next_line(struct run *r, struct bytes *out)
{
    if (r->at >= r->content.len)
        return false;
    const uint8_t *start = r->content.at + r->at;
    size_t left = r->content.len - r->at;
    const uint8_t *newline = memchr(start, '\n', left);
    size_t len = newline ? (size_t)(newline - start) : left;
    *out = bytes_of(start, len);
    r->at += newline ? len + 1 : len;
    r->line++;
    return true;
}

static struct bytes trim(struct bytes line)
{
    while (line.len > 0 && isspace(line.at[0]))
        line = bytes_of(line.at + 1, line.len - 1);
    while (line.len > 0 && isspace(line.at[line.len - 1]))
        line.len--;
    return line;
}

static bool is_dashes(struct bytes line)
{
    return bytes_equal(trim(line), BYTES("----"));
}

static void append_line(struct buf *b, struct bytes line)
{
    buf_append(b, line);
    buf_append_byte(b, '\n');
}

/* --- one command line: words, key=value, key=(a, b) --- */

struct words {
    struct arena *arena;
    struct bytes left;
};

static struct bytes take_while(struct bytes *left, bool (*more)(uint8_t))
{
    size_t len = 0;

    while (len < left->len && more(left->at[len]))
        len++;
    struct bytes taken = bytes_of(left->at, len);
    *left = bytes_of(left->at + len, left->len - len);
    return taken;
}

static bool in_key(uint8_t c)
{
    return !isspace(c) && c != '=';
}

static bool in_value(uint8_t c)
{
    return !isspace(c);
}

/* How far a list's value reaches: to the comma or parenthesis that ends it, not one inside a nested
 * pair. The whole length when neither comes. */
static size_t value_end(struct bytes left)
{
    size_t depth = 0;

    for (size_t i = 0; i < left.len; i++) {
        if (depth == 0 && (left.at[i] == ',' || left.at[i] == ')'))
            return i;
        depth += left.at[i] == '(';
        depth -= left.at[i] == ')';
    }
    return left.len;
}

/* The values of a parenthesised list, split at commas; false when it does not close. */
static bool parse_list(struct words *w, struct scenario_arg *arg)
{
    struct bytes left = bytes_of(w->left.at + 1, w->left.len - 1);
    const char **values = arena_new_array(w->arena, w->left.len, const char *);

    arg->values = values;
    for (;;) {
        size_t len = value_end(left);
        if (len == left.len)
            return false;
        struct bytes value = trim(bytes_of(left.at, len));
        bool closes = left.at[len] == ')';
        if (value.len > 0 || arg->count > 0 || !closes)
            values[arg->count++] = arena_copy_str(w->arena, value);
        left = bytes_of(left.at + len + 1, left.len - len - 1);
        if (closes)
            break;
    }
    w->left = left;
    return true;
}

static bool parse_arg(struct words *w, struct scenario_arg *arg)
{
    *arg = (struct scenario_arg){.key = arena_copy_str(w->arena, take_while(&w->left, in_key))};
    if (w->left.len == 0 || w->left.at[0] != '=')
        return true;
    w->left = bytes_of(w->left.at + 1, w->left.len - 1);
    if (w->left.len > 0 && w->left.at[0] == '(')
        return parse_list(w, arg);
    const char **value = arena_new(w->arena, const char *);
    *value = arena_copy_str(w->arena, take_while(&w->left, in_value));
    arg->values = value;
    arg->count = 1;
    return true;
}

static bool parse_command(struct bytes line, struct scenario_command *out)
{
    struct words w = {.arena = out->arena, .left = trim(line)};
    struct scenario_arg *args = arena_new_array(out->arena, line.len + 1, struct scenario_arg);

    out->name = arena_copy_str(out->arena, take_while(&w.left, in_value));
    out->args = args;
    out->arg_count = 0;
    for (w.left = trim(w.left); w.left.len > 0; w.left = trim(w.left))
        if (!parse_arg(&w, &args[out->arg_count++]))
            return false;
    return true;
}

const struct scenario_arg *scenario_find(const struct scenario_command *command, const char *key)
{
    for (size_t i = 0; i < command->arg_count; i++)
        if (strcmp(command->args[i].key, key) == 0)
            return &command->args[i];
    return NULL;
}

/* --- the file --- */

/* Takes the next line if `test` likes it, else leaves it where it is. */
static bool take_line_if(struct run *r, bool (*test)(struct bytes))
{
    size_t at = r->at;
    int number = r->line;
    struct bytes line;

    if (next_line(r, &line) && test(line))
        return true;
    r->at = at;
    r->line = number;
    return false;
}

static bool is_blank(struct bytes line)
{
    return trim(line).len == 0;
}

/* The output between doubled dashes; a single row of dashes inside is part of it. */
static void read_doubled(struct run *r, struct buf *out)
{
    struct bytes line;

    while (next_line(r, &line)) {
        if (is_dashes(line) && take_line_if(r, is_dashes))
            break;
        append_line(out, line);
    }
    take_line_if(r, is_blank);
}

static void read_expected(struct run *r, struct buf *out)
{
    struct bytes line;

    if (take_line_if(r, is_dashes)) {
        read_doubled(r, out);
        return;
    }
    while (next_line(r, &line) && !is_blank(line))
        append_line(out, line);
}

static bool has_blank_line(struct bytes text)
{
    while (text.len > 0) {
        const uint8_t *newline = memchr(text.at, '\n', text.len);
        size_t len = newline ? (size_t)(newline - text.at) : text.len;
        if (is_blank(bytes_of(text.at, len)))
            return true;
        text = bytes_of(text.at + len, text.len - len);
        if (text.len > 0)
            text = bytes_of(text.at + 1, text.len - 1);
    }
    return false;
}

static void write_answer(struct buf *to, struct bytes answer)
{
    bool doubled = has_blank_line(answer);

    buf_append_str(to, doubled ? "----\n----\n" : "----\n");
    buf_append(to, answer);
    buf_append_str(to, doubled ? "----\n----\n" : "");
}

static void report_difference(struct run *r, const struct scenario_command *c, struct bytes want,
                              struct bytes got)
{
    struct buf diff = {0};

    line_diff(&diff, want, got);
    r->result.mismatches++;
    printf("%s:%d: %s: - expected, + got\n%s", r->path, c->line, c->name, buf_str(&diff));
    buf_free(&diff);
}

/* Reads the lines up to the dashes; false when the file ends before them. */
static bool read_input(struct run *r, struct buf *input)
{
    struct bytes line;

    while (next_line(r, &line)) {
        if (is_dashes(line))
            return true;
        append_line(input, line);
    }
    return false;
}

static void malformed(struct run *r, const char *why)
{
    printf("%s:%d: %s\n", r->path, r->line, why);
    r->result.mismatches++;
    r->at = r->content.len;
    r->broken = true;
}

/* A command's line ending in a backslash goes on in the next. */
static struct bytes join_lines(struct run *r, struct bytes line, struct arena *arena)
{
    struct bytes next;

    append_line(&r->rewritten, line);
    line = trim(line);
    while (line.len > 0 && line.at[line.len - 1] == '\\' && next_line(r, &next)) {
        append_line(&r->rewritten, next);
        next = trim(next);
        line =
            bytes_of_str(arena_printf(arena, "%.*s %.*s", (int)line.len - 1, (const char *)line.at,
                                      (int)next.len, (const char *)next.at));
    }
    return line;
}

static void answer_command(struct run *r, struct scenario_command *c, scenario_answer *answer,
                           void *context)
{
    struct buf want = {0};
    struct buf got = {0};

    read_expected(r, &want);
    answer(context, c, &got);
    if (got.len > 0 && got.at[got.len - 1] != '\n')
        buf_append_byte(&got, '\n');
    r->result.commands++;
    if (!bytes_equal(buf_bytes(&want), buf_bytes(&got)))
        report_difference(r, c, buf_bytes(&want), buf_bytes(&got));
    write_answer(&r->rewritten, buf_bytes(&got));
    if (r->at < r->content.len)
        buf_append_byte(&r->rewritten, '\n');
    buf_free(&got);
    buf_free(&want);
}

static void run_command(struct run *r, struct bytes line, scenario_answer *answer, void *context)
{
    struct arena arena = {0};
    struct buf input = {0};
    struct scenario_command c = {.file = r->path, .line = r->line, .arena = &arena};

    line = join_lines(r, line, &arena);
    if (!parse_command(line, &c)) {
        malformed(r, "a list that does not close");
    } else if (strcmp(c.name, "subtest") == 0) {
        /* Only a heading: it has neither input nor answer. */
    } else if (!read_input(r, &input)) {
        malformed(r, "a command without ----");
    } else {
        buf_append(&r->rewritten, buf_bytes(&input));
        c.input = buf_bytes(&input);
        answer_command(r, &c, answer, context);
    }
    buf_free(&input);
    arena_free(&arena);
}

struct scenario_result scenario_run_file(const char *path, bool rewrite, scenario_answer *answer,
                                         void *context)
{
    struct run r = {.path = path};
    struct bytes line;

    if (!read_whole(path, &r.content)) {
        printf("%s: cannot be read: %s\n", path, strerror(errno));
        r.result.mismatches++;
        r.broken = true;
    }
    while (next_line(&r, &line)) {
        struct bytes trimmed = trim(line);
        if (trimmed.len == 0 || trimmed.at[0] == '#')
            append_line(&r.rewritten, line);
        else
            run_command(&r, line, answer, context);
    }
    if (rewrite && !r.broken && !write_whole(path, buf_bytes(&r.rewritten))) {
        printf("%s: cannot be written: %s\n", path, strerror(errno));
        r.result.mismatches++;
    } else if (rewrite && !r.broken) {
        r.result.mismatches = 0;
    }
    buf_free(&r.rewritten);
    buf_free(&r.content);
    return r.result;
}
