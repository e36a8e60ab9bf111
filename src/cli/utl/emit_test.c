#include "cli/utl/emit.h"

#include "harness/test.h"

/* Bytes from a file may be anything: quotes, escapes of a terminal, half a character. */
static const char hostile[] = "a\"\\\x1b[2J\n\xc3\xa9\xff\x7f";

static void describe(struct emit *e)
{
    emit_begin(e, NULL, EMIT_OBJECT);
    emit_bytes(e, "name", bytes_of(hostile, sizeof(hostile) - 1));
    emit_begin(e, "none", EMIT_LIST);
    emit_end(e);
    emit_begin(e, "rows", EMIT_LIST);
    for (uint64_t i = 1; i <= 2; i++) {
        emit_begin(e, NULL, EMIT_OBJECT);
        emit_number(e, "n", i);
        emit_bool(e, "odd", i % 2 == 1);
        emit_end(e);
    }
    emit_end(e);
    emit_begin(e, "part", EMIT_OBJECT);
    emit_id(e, "id", UINT64_MAX);
    emit_number(e, "max", UINT64_MAX);
    emit_end(e);
    emit_str(e, "last", "");
    emit_end(e);
}

TEST(a_description_is_one_line_of_json)
{
    struct emit e = {.json = true};

    describe(&e);

    CHECK_STR(buf_str(&e.out),
              "{\"name\":\"a\\\"\\\\\\u001b[2J\\n\xc3\xa9\\ufffd\x7f\",\"none\":[],"
              "\"rows\":[{\"n\":1,\"odd\":true},{\"n\":2,\"odd\":false}],"
              "\"part\":{\"id\":\"ffffffffffffffff\",\"max\":18446744073709551615},"
              "\"last\":\"\"}\n");
    buf_free(&e.out);
}

TEST(a_description_is_lines_of_text_that_no_terminal_obeys)
{
    struct emit e = {0};

    describe(&e);

    CHECK_STR(buf_str(&e.out), "name: a\"\\\\x1b[2J\\x0a\\xc3\\xa9\\xff\\x7f\n"
                               "none:\n"
                               "rows:\n"
                               "  n=1 odd=true\n"
                               "  n=2 odd=false\n"
                               "part:\n"
                               "  id: ffffffffffffffff\n"
                               "  max: 18446744073709551615\n"
                               "last: \n");
    buf_free(&e.out);
}
