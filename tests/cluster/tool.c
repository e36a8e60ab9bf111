#include "cluster/tool.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile bool tool_is_unwanted;
static char dir[] = "/tmp/cleat-cluster.XXXXXX";

static bool number_of(const char *text, uint64_t max, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *text >= '0' && *text <= '9' && !*end && *out <= max;
}

static bool fill_in(const struct tool_option *o, const char *value)
{
    uint64_t n;

    if (o->text) {
        *o->text = value;
        return true;
    }
    if (!number_of(value, o->big ? UINT64_MAX : o->max, &n))
        return false;
    if (o->big)
        *o->big = n;
    else
        *o->number = (unsigned)n;
    return true;
}

static bool usage(const struct tool_option *options, const char *program)
{
    fprintf(stderr, "usage: %s", program);
    for (; options->name; options++)
        fprintf(stderr, options->flag ? " [%s]" : " [%s VALUE]", options->name);
    fprintf(stderr, "\n");
    return false;
}

bool tool_parse(const struct tool_option *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const struct tool_option *o = options;
        while (o->name && strcmp(o->name, argv[i]) != 0)
            o++;
        if (!o->name)
            return usage(options, argv[0]);
        if (o->flag) {
            *o->flag = true;
            continue;
        }
        i++;
        if (i == argc || !fill_in(o, argv[i]))
            return usage(options, argv[0]);
    }
    return true;
}

static void on_signal(int number)
{
    (void)number;
    tool_is_unwanted = true;
}

const char *tool_open(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (!mkdtemp(dir)) {
        perror("cannot make a directory in /tmp");
        return NULL;
    }
    return dir;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

void tool_close(bool all_was_well)
{
    if (all_was_well)
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
