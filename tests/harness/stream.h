/* stream: the whole of a stdio stream at once. */
#pragma once

#include "base/buf.h"

#include <stdio.h>

/* Appends everything from the start of the stream; false on a read error. */
bool stream_read_all(FILE *f, struct buf *out);
