/*
 * text: strings put into other people's notations, byte for byte as they would.
 *
 * etcd writes its error messages and file names with Go's printer. Where those bytes are compared
 * or grepped for, ours must be the same ones. JSON is in json.h.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* In quotes, as Go's %q prints it: for messages that repeat what somebody typed. */
void text_append_quoted(struct buf *out, struct bytes text);

/* "4.2 MB", as etcd's log has sizes: in powers of a thousand, with a decimal below ten. */
void text_append_size(struct buf *out, uint64_t bytes);

/* What a hex digit of either case stands for; -1 if it is none. */
int text_hex_value(uint8_t digit);

/* Reads the number that sixteen lower-case hex digits stand for, as files are named by; false if
 * `text` begins otherwise. What follows them is not looked at. */
bool text_read_hex16(const char *text, uint64_t *out);

/* Decimal digits alone, no sign: ERR_MALFORMED, ERR_TOO_LARGE past `max`. */
MUST_CHECK enum err text_read_number(struct bytes text, uint64_t max, uint64_t *out);
