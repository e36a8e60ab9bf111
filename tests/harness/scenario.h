/*
 * scenario: interactions as text, the expected answer below each command.
 *
 *     # A comment.
 *     command word key=value key=(a, b)
 *     optional input lines
 *     ----
 *     the expected output, up to a blank line
 *
 * A command's line may end in a backslash and go on in the next. "subtest NAME" and "subtest end"
 * are headings without an answer. When the output itself has blank lines, it stands between doubled
 * dashes:
 *
 *     ----
 *     ----
 *     output
 *
 *     more output
 *     ----
 *     ----
 *
 * With REWRITE=1 in the environment the file is written anew with what was answered; the change is
 * then read like code. This is the format of the raft library's own scenario files, which we
 * replay.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

#include <stdbool.h>

struct scenario_arg {
    const char *key;           /* "key" of key=value, or the bare word */
    const char *const *values; /* one for key=value, several for key=(a, b), none for a bare word */
    size_t count;
};

struct scenario_command {
    const char *file;
    int line;         /* of the command, for messages */
    const char *name; /* the first word */
    const struct scenario_arg *args;
    size_t arg_count;
    struct bytes input;  /* the lines between the command and the dashes */
    struct arena *arena; /* dies after the command */
};

/* Answers one command into `out`. */
typedef void scenario_answer(void *context, const struct scenario_command *command,
                             struct buf *out);

struct scenario_result {
    int commands;
    int mismatches;
};

/*
 * Runs every command of the file. Differences are printed to standard output, expected and got;
 * a file that cannot be read or parsed counts as a mismatch. With `rewrite`, the file is replaced.
 */
struct scenario_result scenario_run_file(const char *path, bool rewrite, scenario_answer *answer,
                                         void *context);

/* The argument with this key, or NULL. */
const struct scenario_arg *scenario_find(const struct scenario_command *command, const char *key);
