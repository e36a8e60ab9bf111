#include "base/err.h"

#include "base/assert.h"

const char *err_text(enum err e)
{
#define ERR_TEXT(name, text) text,
    static const char *const texts[] = { ERR_LIST(ERR_TEXT) };
#undef ERR_TEXT

    assert((unsigned)e < ARRAY_LEN(texts));
    return texts[e];
}
