#include "apply/result.h"

#include "base/assert.h"

static const struct {
    unsigned code;
    const char *text;
} rows[RESULT_COUNT] = {
#define RESULT_ROW(name, code, text)      [RESULT_##name] = {code, text},
#define RESULT_AUTH_ROW(name, code, text) [RESULT_AUTH_##name] = {code, text},
    RESULT_LIST(RESULT_ROW) AUTH_RESULT_LIST(RESULT_AUTH_ROW)
#undef RESULT_AUTH_ROW
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

enum result result_of_auth(enum auth_result a)
{
    static const enum result results[AUTH_RESULT_COUNT] = {
#define RESULT_OF_AUTH(name, code, text) [AUTH_##name] = RESULT_AUTH_##name,
        AUTH_RESULT_LIST(RESULT_OF_AUTH)
#undef RESULT_OF_AUTH
    };

    assert(a < AUTH_RESULT_COUNT);
    return results[a]; /* RESULT_OK for AUTH_OK: both are 0 */
}
