/*
 * tool: what the programs here have in common: flags, a directory, and being told to end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "--name VALUE": one of the places is filled in; or "--name" alone, which sets the flag. The list
 * ends with one that has no name. */
struct tool_option {
    const char *name;
    const char **text;
    unsigned *number;
    uint64_t *big;
    unsigned max; /* of the number */
    bool *flag;
};

/* False, with the usage printed, if something else was given. */
bool tool_parse(const struct tool_option *options, int argc, char **argv);

/* Makes a directory under /tmp and hears SIGINT and SIGTERM from now on. Its name, or NULL with a
 * line printed. */
const char *tool_open(void);

/* Removes the directory, unless somebody should look at it. */
void tool_close(bool all_was_well);

extern volatile bool tool_is_unwanted; /* a signal has come */
