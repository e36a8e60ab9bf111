#include "harness/seeds.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char obituary[96];

bool seeds_number(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 0);
    return *text && *end == '\0';
}

bool seeds_argument(struct seeds *s, int argc, char **argv, int *i)
{
    const char *name = argv[*i];
    int left = argc - *i - 1;

    if (strcmp(name, "--verbose") == 0) {
        s->verbose = true;
        return true;
    }
    if (strcmp(name, "--seed") == 0 && left >= 1) {
        bool good = seeds_number(argv[++*i], &s->from);
        s->to = s->from;
        return good;
    }
    if (strcmp(name, "--seeds") == 0 && left >= 2) {
        *i += 2;
        return seeds_number(argv[*i - 1], &s->from) && seeds_number(argv[*i], &s->to) &&
               s->from <= s->to;
    }
    return false;
}

static void on_abort(int signal_number)
{
    ssize_t written = write(STDERR_FILENO, obituary, strlen(obituary));

    (void)written; /* there is nothing left to be done about it */
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void seeds_now_trying(uint64_t seed)
{
    snprintf(obituary, sizeof(obituary), "seed %" PRIu64 ": ended by the assertion above\n", seed);
    signal(SIGABRT, on_abort);
}

void seeds_tried(void)
{
    signal(SIGABRT, SIG_DFL);
}
