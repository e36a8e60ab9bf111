#include "base/err.h"

#include "base/assert.h"
#include "harness/test.h"

TEST(every_error_has_a_text)
{
    CHECK_STR(err_text(ERR_OK), "ok");
    CHECK_STR(err_text(ERR_CORRUPT), "corrupt data");
    CHECK_STR(err_text(ERR_UNSUPPORTED), "not supported");
}

TEST(a_failed_assertion_says_what_and_where)
{
    CHECK_DIES(assert(1 + 1 == 3), "assertion failed: 1 + 1 == 3 (base/err_test.c:");
    CHECK_DIES(fatal("disk %s", "gone"), "cleat: fatal: disk gone");
}
