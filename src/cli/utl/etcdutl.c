#include "cli/utl/etcdutl.h"

#include "base/assert.h"
#include "config/value.h"
#include "io/loop.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 4, FLAGS_MAX = 16 };
#define BAR_CELLS 30
#define NS_PER_MS ((int64_t)1000000)

int utl_fail(int status, const char *format, ...)
{
    va_list args;

    fputs("Error: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

/* ---- Progress ---- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void utl_progress_begin(struct utl_progress *p, const char *what, uint64_t total)
{
    *p = (struct utl_progress){.what = what, .total = total, .began_ns = now_ns()};
}

void utl_progress_add(struct utl_progress *p, uint64_t done)
{
    int64_t now = now_ns();

    p->done += done;
    if (!isatty(STDERR_FILENO) || now - p->began_ns < 500 * NS_PER_MS ||
        now - p->shown_ns < 100 * NS_PER_MS || p->total == 0)
        return;
    uint64_t seen = p->done < p->total ? p->done : p->total;
    double part = (double)seen / (double)p->total;
    int cells = (int)(part * BAR_CELLS);
    fprintf(stderr, "\r%s [%.*s%*s] %3d%%", p->what, cells, "##############################",
            BAR_CELLS - cells, "", (int)(part * 100));
    p->shown_ns = now;
}

void utl_progress_end(struct utl_progress *p)
{
    if (p->shown_ns != 0)
        fputs("\r\x1b[K", stderr); /* the bar goes; what was done is told otherwise */
}

/* ---- One row ---- */

static void show_simple(const struct utl_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i > 0 ? ", " : "", cells[i].shown);
    putchar('\n');
}

static void show_json(const struct utl_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%c\"%s\":%s", i > 0 ? ',' : '{', cells[i].key, cells[i].raw);
    puts("}");
}

static void show_fields(const struct utl_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *raw = cells[i].raw;
        bool is_quoted = raw[0] == '"';
        printf("\"%s\" : %.*s\n", cells[i].field, (int)strlen(raw) - 2 * is_quoted,
               raw + is_quoted);
    }
}

static int width_of(const struct utl_cell *cell)
{
    size_t header = strlen(cell->header), shown = strlen(cell->shown);

    return (int)(header > shown ? header : shown);
}

static void draw_line(const struct utl_cell *cells, size_t count, const char *const corners[3])
{
    for (size_t i = 0; i < count; i++) {
        fputs(corners[i > 0], stdout);
        for (int n = width_of(&cells[i]) + 2; n > 0; n--)
            fputs("─", stdout);
    }
    puts(corners[2]);
}

/* The header in the middle of its cell, the value at the right. */
static void show_table(const struct utl_cell *cells, size_t count)
{
    static const char *const top[] = {"┌", "┬", "┐"};
    static const char *const middle[] = {"├", "┼", "┤"};
    static const char *const bottom[] = {"└", "┴", "┘"};

    draw_line(cells, count, top);
    for (size_t i = 0; i < count; i++) {
        int space = width_of(&cells[i]) - (int)strlen(cells[i].header);
        printf("│ %*s%s%*s ", space / 2, "", cells[i].header, space - space / 2, "");
    }
    puts("│");
    draw_line(cells, count, middle);
    for (size_t i = 0; i < count; i++)
        printf("│ %*s ", width_of(&cells[i]), cells[i].shown);
    puts("│");
    draw_line(cells, count, bottom);
}

int utl_show(const char *format, const struct utl_cell *cells, size_t count)
{
    if (strcmp(format, "simple") == 0)
        show_simple(cells, count);
    else if (strcmp(format, "json") == 0)
        show_json(cells, count);
    else if (strcmp(format, "fields") == 0)
        show_fields(cells, count);
    else if (strcmp(format, "table") == 0)
        show_table(cells, count);
    else
        return utl_fail(UTL_BAD_FEATURE, "protobuf not supported as output format");
    if (fflush(stdout) != 0)
        return utl_fail(UTL_ERROR, "cannot write to standard output");
    return UTL_OK;
}

static bool is_format(const char *word)
{
    static const char *const words[] = {"simple", "json", "fields", "table", "protobuf"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i]) == 0)
            return true;
    }
    return false;
}

/* ---- The command line ---- */

struct line {
    const char *arguments[ARGUMENTS_MAX];
    int count;
    const char *format;
    struct utl_flag flags[FLAGS_MAX];
    size_t flag_count;
};

static void add_flag(struct line *l, const char *name, enum utl_flag_kind kind, void *to)
{
    assert(l->flag_count < FLAGS_MAX);
    l->flags[l->flag_count++] = (struct utl_flag){.name = name, .kind = kind, .to = to};
}

static int set_flag(struct utl_flag *f, const char *text)
{
    const char *reason = NULL;

    switch (f->kind) {
    case UTL_TEXT:
        *(const char **)f->to = text;
        break;
    case UTL_BOOL:
        reason = value_parse_bool(bytes_of_str(text), f->to);
        break;
    case UTL_UINT:
        reason = value_parse_uint(bytes_of_str(text), UINT64_MAX, f->to);
        break;
    case UTL_INT:
        reason = value_parse_int(bytes_of_str(text), f->to);
        break;
    }
    if (reason)
        return utl_fail(UTL_ERROR, "invalid argument \"%s\" for \"--%s\" flag: %s", text, f->name,
                        reason);
    return UTL_OK;
}

static struct utl_flag *find_flag(struct line *l, const char *name, size_t len)
{
    for (size_t i = 0; i < l->flag_count; i++) {
        if (strlen(l->flags[i].name) == len && strncmp(l->flags[i].name, name, len) == 0)
            return &l->flags[i];
    }
    return NULL;
}

/* One flag at argv[*at], which moves to its last word. */
static int parse_flag(struct line *l, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    bool is_short = strncmp(word, "-w", 2) == 0;
    const char *name = is_short ? "write-out" : word + 2;
    const char *equals = strchr(word, '=');
    struct utl_flag *f =
        find_flag(l, name, equals && !is_short ? (size_t)(equals - name) : strlen(name));

    if (!f)
        return utl_fail(UTL_ERROR, "unknown flag: %s", word);
    if (equals)
        return set_flag(f, equals + 1);
    if (is_short && word[2])
        return set_flag(f, word + 2);
    if (f->kind == UTL_BOOL)
        return set_flag(f, "true");
    if (*at + 1 == argc)
        return utl_fail(UTL_ERROR, "flag needs an argument: %s", word);
    return set_flag(f, argv[++*at]);
}

/* Flags may stand anywhere. */
static int parse_line(struct line *l, int argc, char **argv, int from)
{
    int status = UTL_OK;
    bool flags_end = false;

    add_flag(l, "write-out", UTL_TEXT, &l->format);
    for (int i = from; i < argc && status == UTL_OK; i++) {
        if (!flags_end && strcmp(argv[i], "--") == 0)
            flags_end = true;
        else if (!flags_end && argv[i][0] == '-' && (argv[i][1] == '-' || argv[i][1] == 'w'))
            status = parse_flag(l, argc, argv, &i);
        else if (!flags_end && argv[i][0] == '-' && argv[i][1])
            status = utl_fail(UTL_ERROR, "unknown shorthand flag: '%c' in %s", argv[i][1], argv[i]);
        else if (l->count == ARGUMENTS_MAX)
            status = utl_fail(UTL_BAD_ARGUMENTS, "too many arguments");
        else
            l->arguments[l->count++] = argv[i];
    }
    return status;
}

/* ---- The commands ---- */

static int run_status(int argc, char **argv, struct loop *loop)
{
    struct line l = {.format = "simple"};
    int status = parse_line(&l, argc, argv, 3);

    if (status != UTL_OK)
        return status;
    if (l.count != 1)
        return utl_fail(UTL_BAD_ARGUMENTS, "snapshot status requires exactly one argument");
    if (!is_format(l.format))
        return utl_fail(UTL_BAD_FEATURE, "unsupported output format");
    return utl_snapshot_status(loop_io(loop)->disk, l.arguments[0], l.format);
}

static int run_hashkv(int argc, char **argv, struct loop *loop)
{
    struct line l = {.format = "simple"};
    int64_t revision = 0;

    add_flag(&l, "rev", UTL_INT, &revision);
    int status = parse_line(&l, argc, argv, 2);
    if (status != UTL_OK)
        return status;
    if (l.count != 1)
        return utl_fail(UTL_ERROR, "accepts 1 arg(s), received %d", l.count);
    if (!is_format(l.format))
        return utl_fail(UTL_BAD_FEATURE, "unsupported output format");
    return utl_hashkv(loop_io(loop)->disk, l.arguments[0], revision, l.format);
}

static int64_t wall_clock(void *context)
{
    struct timespec now;

    (void)context;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int screen = STDERR_FILENO;
static const struct logger console = {.level = LOG_INFO,
                                      .format = LOG_CONSOLE,
                                      .sink = log_sink_fd,
                                      .sink_context = &screen,
                                      .clock = wall_clock};

static int run_defrag(int argc, char **argv, struct loop *loop)
{
    struct line l = {.format = "simple"};
    const char *data_dir = NULL;

    add_flag(&l, "data-dir", UTL_TEXT, &data_dir);
    int status = parse_line(&l, argc, argv, 2);
    if (status != UTL_OK)
        return status;
    if (!data_dir)
        return utl_fail(UTL_ERROR, "required flag(s) \"data-dir\" not set");
    return utl_defrag(loop_io(loop)->disk, data_dir, &console);
}

static int run_migrate(int argc, char **argv, struct loop *loop)
{
    struct line l = {.format = "simple"};
    const char *data_dir = NULL, *target = NULL;
    bool is_forced = false;

    add_flag(&l, "data-dir", UTL_TEXT, &data_dir);
    add_flag(&l, "target-version", UTL_TEXT, &target);
    add_flag(&l, "force", UTL_BOOL, &is_forced);
    int status = parse_line(&l, argc, argv, 2);
    if (status != UTL_OK)
        return status;
    if (!data_dir || !target)
        return utl_fail(UTL_ERROR, "required flag(s) %s%s%s not set",
                        data_dir ? "" : "\"data-dir\"", data_dir || target ? "" : ", ",
                        target ? "" : "\"target-version\"");
    return utl_migrate(loop_io(loop)->disk, data_dir, target, is_forced, &console);
}

static int run_restore(int argc, char **argv, struct loop *loop)
{
    struct line l = {.format = "simple"};
    struct arena arena = {0};
    uint64_t map_bytes = 0; /* bbolt's, of which there is none here */
    struct utl_restore r = {.name = "default",
                            .initial_cluster = "default=http://localhost:2380",
                            .token = "etcd-cluster",
                            .peer_urls = "http://localhost:2380"};

    add_flag(&l, "data-dir", UTL_TEXT, &r.data_dir);
    add_flag(&l, "wal-dir", UTL_TEXT, &r.wal_dir);
    add_flag(&l, "initial-cluster", UTL_TEXT, &r.initial_cluster);
    add_flag(&l, "initial-cluster-token", UTL_TEXT, &r.token);
    add_flag(&l, "initial-advertise-peer-urls", UTL_TEXT, &r.peer_urls);
    add_flag(&l, "name", UTL_TEXT, &r.name);
    add_flag(&l, "skip-hash-check", UTL_BOOL, &r.skip_hash_check);
    add_flag(&l, "initial-memory-map-size", UTL_UINT, &map_bytes);
    add_flag(&l, "bump-revision", UTL_UINT, &r.bump_revision);
    add_flag(&l, "mark-compacted", UTL_BOOL, &r.mark_compacted);
    int status = parse_line(&l, argc, argv, 3);
    if (status == UTL_OK && l.count != 1)
        status = utl_fail(UTL_BAD_ARGUMENTS, "snapshot restore requires exactly one argument");
    if (status == UTL_OK && (r.bump_revision > 0) != r.mark_compacted)
        status = utl_fail(UTL_BAD_ARGUMENTS, "--mark-compacted required if --revision-bump > 0");
    if (status == UTL_OK) {
        r.path = l.arguments[0];
        if (!r.data_dir || !r.data_dir[0])
            r.data_dir = arena_printf(&arena, "%s.etcd", r.name);
        if (!r.wal_dir || !r.wal_dir[0])
            r.wal_dir = arena_printf(&arena, "%s/member/wal", r.data_dir);
        status = utl_snapshot_restore(loop, &r, &console);
    }
    arena_free(&arena);
    return status;
}

bool etcdutl_has(const char *word)
{
    return strcmp(word, "snapshot") == 0 || strcmp(word, "hashkv") == 0 ||
           strcmp(word, "defrag") == 0 || strcmp(word, "migrate") == 0;
}

int etcdutl_run(int argc, char **argv, struct loop *loop)
{
    const char *inner = argc > 2 ? argv[2] : "";

    assert(argc > 1);
    if (strcmp(argv[1], "hashkv") == 0)
        return run_hashkv(argc, argv, loop);
    if (strcmp(argv[1], "defrag") == 0)
        return run_defrag(argc, argv, loop);
    if (strcmp(argv[1], "migrate") == 0)
        return run_migrate(argc, argv, loop);
    if (strcmp(inner, "status") == 0)
        return run_status(argc, argv, loop);
    if (strcmp(inner, "restore") == 0)
        return run_restore(argc, argv, loop);
    return utl_fail(UTL_ERROR, "unknown command \"%s\" for \"cleatutl snapshot\"", inner);
}
