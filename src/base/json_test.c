#include "base/json.h"

#include "base/mem.h"
#include "harness/test.h"

struct pair {
    struct bytes text;
    const char *want;
};

/* The wanted bytes were printed by Go 1.26's encoding/json. */
TEST(json_text_is_spelled_as_go_spells_it)
{
    static const struct pair pairs[] = {
        {BYTES(""), "\"\""},
        {BYTES("http://10.0.0.1:2380"), "\"http://10.0.0.1:2380\""},
        {BYTES("a\"b\\c/d"), "\"a\\\"b\\\\c/d\""},
        {BYTES("\b\f\n\r\t\v\x01\x7f"), "\"\\b\\f\\n\\r\\t\\u000b\\u0001\x7f\""},
        {BYTES("<&>"), "\"\\u003c\\u0026\\u003e\""},
        {BYTES("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"), "\"\\u2028\\u2029\xe2\x80\xaa\""},
        {BYTES("a\xff\xc3"), "\"a\\ufffd\\ufffd\""},
        {BYTES("\0"), "\"\\u0000\""},
        {BYTES("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct buf got = {0};
        json_put_text(&(struct json){.out = &got}, NULL, pairs[i].text);
        CHECK_STR(buf_str(&got), pairs[i].want);
        buf_free(&got);
    }
}

TEST(commas_stand_between_values_and_nowhere_else)
{
    struct buf out = {0};
    struct json j = {.out = &out};

    json_begin_object(&j, NULL);
    json_begin_list(&j, "none");
    json_end_list(&j);
    json_begin_list(&j, "two");
    json_begin_object(&j, NULL);
    json_end_object(&j);
    json_begin_object(&j, NULL);
    json_put_number(&j, "n", UINT64_MAX);
    json_put_id(&j, "id", 0xab);
    json_put_bool(&j, "b", false);
    json_put_null(&j, "nothing");
    json_end_object(&j);
    json_end_list(&j);
    json_put_texts(&j, "texts", (const struct bytes[]){BYTES("a"), BYTES("<")}, 2);
    json_end_object(&j);

    CHECK_STR(buf_str(&out),
              "{\"none\":[],\"two\":[{},{\"n\":18446744073709551615,\"id\":\"ab\",\"b\":false,"
              "\"nothing\":null}],\"texts\":[\"a\",\"\\u003c\"]}");
    buf_free(&out);
}

/* Whatever the text, pieces end, and each has something in it. */
TEST(pieces_in_either_spelling_take_a_text_to_its_end)
{
    static const uint8_t text[] = "a<b\b\n\xff\xe2\x80\xa8\xc3";
    char scratch[8];

    for (int spelling = JSON_GO; spelling <= JSON_ZAP; spelling++) {
        struct bytes left = bytes_of(text, sizeof(text) - 1);
        struct buf got = {0};

        while (left.len > 0) {
            struct bytes piece = json_next_piece(&left, (enum json_spelling)spelling, scratch);
            CHECK(piece.len > 0);
            buf_append(&got, piece);
        }
        CHECK_STR(buf_str(&got), spelling == JSON_GO ? "a\\u003cb\\b\\n\\ufffd\\u2028\\ufffd"
                                                     : "a<b\\u0008\\n\\ufffd\xe2\x80\xa8\\ufffd");
        buf_free(&got);
    }
}
