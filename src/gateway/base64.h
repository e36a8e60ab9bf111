/*
 * base64: bytes in sixty-four letters, as JSON has them.
 */
#pragma once

#include "base/buf.h"

/* Appends the bytes in the standard alphabet, with padding. */
void base64_append(struct bytes what, struct buf *out);

/* Appends what the text stands for, in either alphabet, padded or not; false: it is none. */
bool base64_read(struct bytes text, struct buf *out);
