#include "apply/answer.h"

#include "base/assert.h"

static const struct {
    unsigned code;
    const char *text;
} rows[ANSWER_COUNT] = {
#define ANSWER_ROW(name, code, text) [ANSWER_##name] = {code, text},
    ANSWER_LIST(ANSWER_ROW)
#undef ANSWER_ROW
};

unsigned answer_code(enum answer a)
{
    assert(a < ANSWER_COUNT);
    return rows[a].code;
}

const char *answer_text(enum answer a)
{
    assert(a < ANSWER_COUNT);
    return rows[a].text;
}
