/*
 * raft-scenarios: runs raft's text scenarios and shows where the answers differ.
 *
 * Exits with 0 when every answer is as written, 1 when one is not, 2 when it was called wrongly.
 * With REWRITE=1, files of our own (src/raft/testdata) are replaced by what was answered.
 */
#include "raft/scenarios.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: raft-scenarios [--grammar quorum|confchange|interaction] FILE...\n"
    "\n"
    "Without --grammar, the nearest folder with one of these names above the file tells it.\n"
    "REWRITE=1 replaces our own files, those in src/raft/testdata, by what was answered.\n";

struct options {
    bool has_grammar;
    enum scenarios_grammar grammar;
};

static bool wants_rewrite(void)
{
    const char *value = getenv("REWRITE");

    return value && strcmp(value, "1") == 0;
}

/* 0, 1 or 2, as the program's exit status. */
static int run_file(const char *path, const struct options *opt)
{
    enum scenarios_grammar grammar = opt->grammar;

    if (!opt->has_grammar && !scenarios_grammar_of_file(path, &grammar)) {
        fprintf(stderr, "%s: no such file, or no folder tells its grammar: use --grammar\n", path);
        return 2;
    }
    bool rewrite = wants_rewrite() && scenarios_may_rewrite(path);
    struct scenario_result result = scenarios_run(path, grammar, rewrite);
    if (result.mismatches > 0) {
        printf("FAIL %s: %d of %d commands\n", path, result.mismatches, result.commands);
        return 1;
    }
    printf("ok   %s: %d commands\n", path, result.commands);
    return 0;
}

/* The value of "--grammar VALUE" or "--grammar=VALUE" at argv[*i], or NULL. */
static const char *grammar_option(char **argv, int *i)
{
    if (strncmp(argv[*i], "--grammar=", 10) == 0)
        return argv[*i] + 10;
    if (strcmp(argv[*i], "--grammar") == 0)
        return argv[*i + 1] ? argv[++*i] : "";
    return NULL;
}

static int called_wrongly(void)
{
    fputs(usage, stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct options opt = {0};
    int worst = 0, files = 0;

    setvbuf(stdout, NULL, _IOLBF, 0); /* what was found is seen even if the core then aborts */
    for (int i = 1; i < argc; i++) {
        const char *name = grammar_option(argv, &i);
        if (name) {
            if (!scenarios_grammar_named(name, &opt.grammar))
                return called_wrongly();
            opt.has_grammar = true;
            continue;
        }
        if (argv[i][0] == '-')
            return called_wrongly();
        int status = run_file(argv[i], &opt);
        worst = status > worst ? status : worst;
        files++;
    }
    return files == 0 ? called_wrongly() : worst;
}
