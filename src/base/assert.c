#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *condition, const char *file, int line, const char *function)
{
    fprintf(stderr, "cleat: assertion failed: %s (%s:%d, in %s)\n", condition, file, line,
            function);
    abort();
}

void fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("cleat: fatal: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _Exit(2);
}
