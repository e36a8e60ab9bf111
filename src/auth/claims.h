/*
 * claims: single values out of a JSON object, for JWTs.
 *
 *     struct claim wanted[] = {{.name = "username"}, {.name = "exp"}};
 *     if (claims_read(json, wanted, 2))
 *         ... wanted[0].kind == CLAIM_TEXT ...
 *     claims_free(wanted, 2);
 *
 * The syntax is that of Go's encoding/json, and so is what counts: names are compared as they are
 * meant, not as they are spelled, and of two of the same name the last. What it would mend, it
 * refuses: a text that is not UTF-8, half a surrogate pair, a number beyond a double.
 *
 * Leans on   gateway/json_scan.h for the syntax; base.
 */
#pragma once

#include "base/buf.h"

enum claim_kind { CLAIM_ABSENT, CLAIM_TEXT, CLAIM_NUMBER, CLAIM_OTHER };

struct claim {
    const char *name;
    enum claim_kind kind;
    double number;   /* of NUMBER: finite */
    struct buf text; /* of TEXT: UTF-8 */
};

/* False: it is not an object, or nothing that may be relied on. To be freed in either case. */
bool claims_read(struct bytes json, struct claim *wanted, size_t count);
void claims_free(struct claim *wanted, size_t count);
