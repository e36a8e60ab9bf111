/*
 * json_scan: where a JSON text ends, in bytes that come piece by piece, and what is wrong with one
 * that is none.
 *
 * A request's body is one JSON text, or for a stream of requests one after the other, with or
 * without white space between them. Its syntax is judged here, as Go's encoding/json does it and in
 * its words; what it means (json_read.h) is asked when it is whole, and may rely on the syntax.
 *
 *     json_scan(s, more) --> MORE | DONE, and where | BAD, and why
 *
 * Promises   1. However the bytes are cut, the result is the same.
 *            2. A byte costs the same however deep it stands; depth is bounded by JSON_DEPTH_MAX
 * and costs a bit. Leans on   base.
 */
#pragma once

#include "base/buf.h"
#include "base/limits.h"

enum json_scan_result { JSON_SCAN_MORE, JSON_SCAN_DONE, JSON_SCAN_BAD };

/* All zeroes is ready for the first text. */
struct json_scan {
    unsigned state;    /* json_scan.c */
    const char *word;  /* the rest of true, false or null */
    const char *whole; /* of which it is */
    uint8_t *open;     /* a bit for each that is: is it an object? */
    size_t depth, cap; /* bits in use, and in all */
    size_t skipped;    /* bytes of white space before the text */
    size_t taken;      /* bytes so far, those included */
    struct buf why;    /* BAD: in encoding/json's words */
};

void json_scan_free(struct json_scan *s);

/* Ready for the next text. */
void json_scan_reset(struct json_scan *s);

/* Takes the next bytes; of those that it took, the last is the text's last, if DONE. A number that
 * stands alone is known to be whole only by what follows it, which is not taken. */
enum json_scan_result json_scan(struct json_scan *s, struct bytes *in);

/* Nothing follows. DONE: there is a text, or none at all (taken == skipped). */
enum json_scan_result json_scan_end(struct json_scan *s);
