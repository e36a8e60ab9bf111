#include "harness/stream.h"

bool stream_read_all(FILE *f, struct buf *out)
{
    char piece[8192];

    if (fseek(f, 0, SEEK_SET) != 0)
        return false;
    while (!feof(f) && !ferror(f)) {
        size_t len = fread(piece, 1, sizeof(piece), f);
        buf_append(out, bytes_of(piece, len));
    }
    return !ferror(f);
}
