#include "apply/result.h"

#include "base/assert.h"

static const struct {
    unsigned code;
    const char *text;
} rows[RESULT_COUNT] = {
#define RESULT_ROW(name, code, text) [RESULT_##name] = {code, text},
    RESULT_LIST(RESULT_ROW)
#undef RESULT_ROW
};

unsigned result_code(enum result a)
{
    assert(a < RESULT_COUNT);
    return rows[a].code;
}

const char *result_text(enum result a)
{
    assert(a < RESULT_COUNT);
    return rows[a].text;
}
