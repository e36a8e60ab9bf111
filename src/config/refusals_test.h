/*
 * refusals: command lines and environments that are refused, why, and how. The parser is asked
 * (config_test.c), and the program (refusal_test.c).
 */
#pragma once

#include "base/arena.h"
#include "config/config.h"

enum { CONFIG_WORDS_MAX = 16 };

struct config_refusal {
    const char *args, *env; /* words with '|' between them */
    enum config_result want;
    const char *why;
};

extern const struct config_refusal config_refusals[];
extern const size_t config_refusal_count;

/* Takes such a text apart into at most CONFIG_WORDS_MAX words; how many there are. */
int config_words(struct arena *arena, const char *text, const char **out);
