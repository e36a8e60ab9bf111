/*
 * config_value: what operators type behind a flag, read as Go's flag package reads it.
 *
 * Each returns NULL when it is good, else the reason in Go's words.
 */
#pragma once

#include "base/bytes.h"

/* 1 0 t f T F true false TRUE FALSE True False */
const char *value_parse_bool(struct bytes text, bool *out);

/* Decimal, 0x, 0o or a leading 0, 0b; underscores between digits. */
const char *value_parse_uint(struct bytes text, uint64_t max, uint64_t *out);
const char *value_parse_int(struct bytes text, int64_t *out);

/* "300ms", "1h2m", "-1.5s", "0": nanoseconds. */
const char *value_parse_duration(struct bytes text, int64_t *out_ns);
