#include "raft/scenarios.h"

#include "base/assert.h"

#include <limits.h>
#include <stdlib.h>

struct grammar {
    const char *name;
    void *(*open)(void); /* NULL: no context */
    scenario_answer *answer;
    void (*close)(void *context);
};

static const struct grammar grammars[] = {
    [SCENARIOS_QUORUM] = {"quorum", NULL, quorum_scenario_answer, NULL},
    [SCENARIOS_CONFCHANGE] = {"confchange", confchange_scenario_open, confchange_scenario_answer,
                              confchange_scenario_close},
    [SCENARIOS_INTERACTION] = {"interaction", interaction_open, interaction_answer,
                               interaction_close},
};

static bool grammar_called(struct bytes name, enum scenarios_grammar *out)
{
    for (size_t i = 0; i < ARRAY_LEN(grammars); i++) {
        if (bytes_equal(name, bytes_of_str(grammars[i].name))) {
            *out = (enum scenarios_grammar)i;
            return true;
        }
    }
    return false;
}

bool scenarios_grammar_named(const char *name, enum scenarios_grammar *out)
{
    return grammar_called(bytes_of_str(name), out);
}

/* A path without its last component; empty when it had only one. */
static struct bytes folder_of(struct bytes path)
{
    const uint8_t *slash = memrchr(path.at, '/', path.len);

    return bytes_of(path.at, slash ? (size_t)(slash - path.at) : 0);
}

bool scenarios_grammar_of_file(const char *path, enum scenarios_grammar *out)
{
    char *whole = realpath(path, NULL); /* "." is a folder with a name as well */
    bool found = false;

    if (!whole)
        return false;
    for (struct bytes at = folder_of(bytes_of_str(whole)); at.len > 0 && !found;) {
        struct bytes above = folder_of(at);
        found = grammar_called(bytes_of(at.at + above.len + 1, at.len - above.len - 1), out);
        at = above;
    }
    free(whole);
    return found;
}

bool scenarios_may_rewrite(const char *path)
{
    char *whole = realpath(path, NULL);
    bool ours = whole && strstr(whole, "/src/raft/testdata/");

    free(whole);
    return ours;
}

struct scenario_result scenarios_run(const char *path, enum scenarios_grammar grammar, bool rewrite)
{
    const struct grammar *g = &grammars[grammar];
    void *context = g->open ? g->open() : NULL;
    struct scenario_result result = scenario_run_file(path, rewrite, g->answer, context);

    if (g->close)
        g->close(context);
    return result;
}
