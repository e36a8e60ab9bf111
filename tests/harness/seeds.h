/*
 * seeds: for programs that try one seed after the other until one of them breaks a rule.
 *
 *     program [--seed N | --seeds FROM TO] [--verbose]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct seeds {
    uint64_t from, to; /* both included */
    bool verbose;
};

/* If argv[*i] is one of the arguments above, takes it and leaves *i at its last word. False if it
 * is another one, or malformed. */
bool seeds_argument(struct seeds *s, int argc, char **argv, int *i);

/* A whole number, decimal or in one of C's other notations. */
bool seeds_number(const char *text, uint64_t *out);

/* Should an assertion end the process between these two, the last line names the seed: that is the
 * bug report. */
void seeds_now_trying(uint64_t seed);
void seeds_tried(void);
