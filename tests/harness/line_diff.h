/*
 * line_diff: where two texts differ, line by line.
 *
 *     @@ line 12
 *       a line both have
 *     - a line only `want` has
 *     + a line only `got` has
 */
#pragma once

#include "base/buf.h"

/* Appends the difference of the two texts to `out`: nothing when they are equal. */
void line_diff(struct buf *out, struct bytes want, struct bytes got);
