/*
 * value: what operators type behind a flag, read as Go's flag package reads it.
 *
 * Each returns NULL when it is good, else the reason in Go's words.
 */
#pragma once

#include "base/buf.h"

/* 1 0 t f T F true false TRUE FALSE True False */
const char *value_parse_bool(struct bytes text, bool *out);

/* Decimal, 0x, 0o or a leading 0, 0b; underscores between digits. */
const char *value_parse_uint(struct bytes text, uint64_t max, uint64_t *out);
const char *value_parse_int(struct bytes text, int64_t *out);

/* "300ms", "1h2m", "-1.5s", "0": nanoseconds. */
const char *value_parse_duration(struct bytes text, int64_t *out_ns);

/* A whole number of units, else a duration, in nanoseconds; nothing at all is 0. What is more than
 * an int64_t can hold is that. False: *why has the reason, in Go's words. */
bool value_parse_retention(struct bytes text, uint64_t unit, int64_t *out, struct buf *why);
