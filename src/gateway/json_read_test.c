#include "gateway/json_read.h"

#include "base/mem.h"
#include "gateway/json_scan.h"
#include "harness/test.h"
#include "pb/codec.h"

/* At once, and in the smallest steps: either way the same. */
static enum err read_both_ways(const struct pb_schema *schema, struct bytes text, struct buf *wire,
                               struct buf *why)
{
    struct buf wire_in_steps = {0}, why_in_steps = {0};
    struct json_reader *r = json_reader_new(schema);
    enum json_read_result found;
    enum err e = json_read(schema, text, wire, why);

    do {
        size_t work = 1;
        found = json_reader_go_on(r, text, &work, &wire_in_steps, &why_in_steps);
    } while (found == JSON_READ_MORE);
    CHECK_EQ(found == JSON_READ_DONE, e == ERR_OK);
    CHECK_BYTES(buf_bytes(&wire_in_steps), buf_bytes(wire));
    CHECK_BYTES(buf_bytes(&why_in_steps), buf_bytes(why));
    json_reader_free(r);
    buf_free(&wire_in_steps);
    buf_free(&why_in_steps);
    return e;
}

/* A text becomes protobuf's text format, or the reason why not. */
static const char *read_as(const struct pb_schema *schema, struct bytes text, struct buf *out)
{
    struct json_scan scan = {0};
    struct bytes left = text;
    struct buf wire = {0};
    struct arena arena = {0};

    buf_clear(out);
    enum json_scan_result found = json_scan(&scan, &left);
    if (found == JSON_SCAN_MORE)
        found = json_scan_end(&scan);
    if (found == JSON_SCAN_BAD) {
        buf_append(out, buf_bytes(&scan.why));
    } else if (read_both_ways(schema, bytes_of(text.at + scan.skipped, scan.taken - scan.skipped),
                              &wire, out) == ERR_OK) {
        void *message = arena_alloc(&arena, schema->size);
        CHECK_EQ(pb_decode(schema, buf_bytes(&wire), &arena, message), ERR_OK);
        pb_dump(schema, message, out);
    }
    json_scan_free(&scan);
    buf_free(&wire);
    arena_free(&arena);
    return buf_str(out);
}

struct pair {
    const char *text, *want;
};

static void check_all(const struct pb_schema *schema, const struct pair *pairs, size_t count)
{
    struct buf got = {0};

    for (size_t i = 0; i < count; i++)
        CHECK_STR(read_as(schema, bytes_of_str(pairs[i].text), &got), pairs[i].want);
    buf_free(&got);
}

TEST(a_request_in_json_is_that_in_protobuf)
{
    static const struct pair pairs[] = {
        {"{}", ""},
        {" {\"key\":\"Zm9v\", \"range_end\" : \"AA==\"} ", "key: \"foo\"\nrange_end: \"\\000\"\n"},
        {"{\"rangeEnd\":\"AA\",\"key\":null,\"nobody\":[{\"a\":[1,{}]},\"x\"]}",
         "range_end: \"\\000\"\n"},
        {"{\"limit\":5,\"revision\":\"7\"}", "limit: 5\nrevision: 7\n"},
        {"{\"sort_order\":\"DESCEND\",\"sortTarget\":3}",
         "sort_order: DESCEND\nsort_target: MOD\n"},
        {"{\"sort_order\":\"SIDEWAYS\",\"serializable\":true}", "serializable: true\n"},
        {"{\"limit\":0,\"count_only\":false,\"key\":\"\"}", ""},
        {"{\"k\\u0065y\":\"\\u005am9v\"}", "key: \"foo\"\n"},
        {"{\"key\":\"-_-_\",\"range_end\":\"+/+/\"}",
         "key: \"\\373\\377\\277\"\nrange_end: \"\\373\\377\\277\"\n"},
        {"{\"key\":\"Zm\\n9v\\r\\n\"}", "key: \"foo\"\n"},
        {"{\"key\":\"Zm9v\\n\\n\\n\\n\"}", "key: \"foo\"\n"},
    };
    check_all(&pb_range_request_schema, pairs, ARRAY_LEN(pairs));
}

TEST(numbers_may_be_written_in_any_way_that_is_whole)
{
    static const struct pair pairs[] = {
        {"{\"limit\":1e3}", "limit: 1000\n"},
        {"{\"limit\":\"-1.50e1\"}", "limit: -15\n"},
        {"{\"limit\":\"10e-1\"}", "limit: 1\n"},
        {"{\"limit\":0e99999999999}", ""},
        {"{\"limit\":\"5 6\"}", "limit: 5\n"},
        {"{\"limit\":9223372036854775807}", "limit: 9223372036854775807\n"},
        {"{\"limit\":-9223372036854775808}", "limit: -9223372036854775808\n"},
        {"{\"limit\":9223372036854775808}",
         "proto: (line 1:10): invalid value for int64 field limit: 9223372036854775808"},
        {"{\"limit\":1.5}", "proto: (line 1:10): invalid value for int64 field limit: 1.5"},
        {"{\"limit\":1e20}", "proto: (line 1:10): invalid value for int64 field limit: 1e20"},
        {"{\"limit\":1e9999999999}",
         "proto: (line 1:10): invalid value for int64 field limit: 1e9999999999"},
        {"{\"limit\":\" 5\"}", "proto: (line 1:10): invalid value for int64 field limit: \" 5\""},
        {"{\"limit\":\"5\\u00a0\"}",
         "proto: (line 1:10): invalid value for int64 field limit: \"5\\u00a0\""},
        {"{\"limit\":\"\"}", "proto: (line 1:10): invalid value for int64 field limit: \"\""},
        {"{\"limit\":true}", "proto: (line 1:10): invalid value for int64 field limit: true"},
        {"{\"limit\":[1]}", "proto: (line 1:10): invalid value for int64 field limit: ["},
        {"{\"sort_order\":\"1\"}", ""},
        {"{\"sort_order\":2147483648}",
         "proto: (line 1:15): invalid value for enum field sortOrder: 2147483648"},
    };
    check_all(&pb_range_request_schema, pairs, ARRAY_LEN(pairs));
    check_all(
        &pb_member_remove_request_schema,
        (const struct pair[]){
            {"{\"ID\":18446744073709551615}", "ID: 18446744073709551615\n"},
            {"{\"ID\":\"-1\"}", "proto: (line 1:7): invalid value for uint64 field ID: \"-1\""},
            {"{\"ID\":-0}", ""},
        },
        3);
}

TEST(what_is_no_request_is_refused_in_etcds_words)
{
    static const struct pair pairs[] = {
        {"[]", "proto: syntax error (line 1:1): unexpected token ["},
        {"null", "proto: syntax error (line 1:1): unexpected token null"},
        {"17", "proto: syntax error (line 1:1): unexpected token 17"},
        {"{\"key\":\"Zm9v\",\n \"key\":\"Zm9v\"}", "proto: (line 2:2): duplicate field \"key\""},
        {"{\"range_end\":\"\",\"rangeEnd\":null}",
         "proto: (line 1:17): duplicate field \"rangeEnd\""},
        {"{\"key\":{}}", "proto: (line 1:8): invalid value for bytes field key: {"},
        {"{\"\xc3\xa9\":1,\"key\":\"!\"}",
         "proto: (line 1:14): invalid value for bytes field key: \"!\""},
        {"{\"key\":\"Zm9\"}", "key: \"fo\"\n"},
        {"{\"key\":\"Z\"}", "proto: (line 1:8): invalid value for bytes field key: \"Z\""},
        {"{\"key\":\"Zm=v\"}", "proto: (line 1:8): invalid value for bytes field key: \"Zm=v\""},
        {"{\"x\":\"\\ud800\"}", "proto: unexpected EOF"},
        {"{\"x\":\"\\ud800\",\"limit\":5}",
         "proto: syntax error (line 1:6): invalid escape code \"\\\",\\\"lim\" in string"},
        {"{\"x\":\"\\ud83d\\ude00\",\"limit\":5}", "limit: 5\n"},
        {"{\"x\":\"a\xff\"}", "proto: syntax error (line 1:6): invalid UTF-8 in string"},
        {"{", "unexpected EOF"},
        {"{\"key\"", "unexpected EOF"},
        {"{'key'}", "invalid character '\\'' looking for beginning of object key string"},
        {"{\"key\",}", "invalid character ',' after object key"},
        {"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"},
        {"{\"a\":[1,]}", "invalid character ']' looking for beginning of value"},
        {"{\"a\":[1 2]}", "invalid character '2' after array element"},
        {"{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"},
        {"{\"a\":01}", "invalid character '1' after object key:value pair"},
        {"{\"a\":-}", "invalid character '}' in numeric literal"},
        {"{\"a\":1.}", "invalid character '}' after decimal point in numeric literal"},
        {"{\"a\":1e}", "invalid character '}' in exponent of numeric literal"},
        {"{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')"},
        {"{\"a\":nil}", "invalid character 'i' in literal null (expecting 'u')"},
        {"{\"a\":\"\x01\"}", "invalid character '\\x01' in string literal"},
        {"{\"a\":\"\\x\"}", "invalid character 'x' in string escape code"},
        {"{\"a\":\"\\u12g4\"}", "invalid character 'g' in \\u hexadecimal character escape"},
        {"\xc3\xa9", "invalid character '\xc3\x83' looking for beginning of value"},
        {"/* */{}", "invalid character '/' looking for beginning of value"},
    };
    check_all(&pb_range_request_schema, pairs, ARRAY_LEN(pairs));
}

TEST(messages_in_messages_lists_and_oneofs)
{
    static const struct pair pairs[] = {
        {"{\"compare\":[{\"key\":\"YQ\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
         "\"success\":[{\"request_put\":{\"key\":\"YQ\"}},{\"requestTxn\":{\"failure\":[{}]}}]}",
         "compare {\n  target: CREATE\n  key: \"a\"\n  create_revision: 0\n}\nsuccess {\n"
         "  request_put {\n    key: \"a\"\n  }\n}\nsuccess {\n  request_txn {\n    failure {\n"
         "    }\n  }\n}\n"},
        {"{\"compare\":[{\"version\":1,\"value\":\"\"}]}",
         "proto: (line 1:26): error parsing \"value\", oneof etcdserverpb.Compare.target_union is "
         "already set"},
        {"{\"success\":[{\"request_put\":{},\"request_range\":{}}]}",
         "proto: (line 1:31): error parsing \"request_range\", oneof "
         "etcdserverpb.RequestOp.request is already set"},
        {"{\"success\":[{\"request_put\":null,\"request_range\":{}}]}",
         "success {\n  request_range {\n  }\n}\n"},
        {"{\"success\":{}}", "proto: syntax error (line 1:12): unexpected token {"},
        {"{\"success\":[null]}", "proto: syntax error (line 1:13): unexpected token null"},
        {"{\"success\":[[]]}", "proto: syntax error (line 1:13): unexpected token ["},
        {"{\"success\":null}", ""},
    };
    check_all(&pb_txn_request_schema, pairs, ARRAY_LEN(pairs));
    check_all(&pb_watch_request_schema,
              (const struct pair[]){{"{\"create_request\":{\"filters\":[\"NOPUT\",1,\"OTHER\"]}}",
                                     "create_request {\n  filters: NOPUT\n  filters: NODELETE\n"
                                     "}\n"}},
              1);
}

/* Every level costs little, and the last one that Go allows is read. */
TEST(ten_thousand_levels_are_the_most)
{
    struct buf text = {0}, got = {0};

    for (unsigned levels = JSON_DEPTH_MAX - 1; levels <= JSON_DEPTH_MAX; levels++) {
        buf_clear(&text);
        buf_append_str(&text, "{\"x\":");
        for (unsigned i = 0; i < levels; i++)
            buf_append_byte(&text, '[');
        for (unsigned i = 0; i < levels; i++)
            buf_append_byte(&text, ']');
        buf_append_str(&text, ",\"limit\":5}");
        CHECK_STR(read_as(&pb_range_request_schema, buf_bytes(&text), &got),
                  levels < JSON_DEPTH_MAX ? "limit: 5\n"
                                          : "invalid character '[' exceeded max depth");
    }
    buf_free(&text);
    buf_free(&got);
}

/* 3,333 transactions in one another; lengths within lengths are written once each. */
TEST(a_deep_transaction_is_read_in_one_go)
{
    struct buf text = {0}, wire = {0}, why = {0};
    enum { DEEP = 3333 };

    for (unsigned i = 0; i < DEEP; i++)
        buf_append_str(&text, "{\"success\":[{\"request_txn\":");
    buf_append_str(&text, "{}");
    for (unsigned i = 0; i < DEEP; i++)
        buf_append_str(&text, "}]}");

    CHECK_EQ(json_read(&pb_txn_request_schema, buf_bytes(&text), &wire, &why), ERR_OK);

    CHECK(wire.len > 2 * 2 * DEEP);
    CHECK(wire.len < 2 * 4 * DEEP);
    buf_free(&text);
    buf_free(&wire);
    buf_free(&why);
}
