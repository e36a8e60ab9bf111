#include "gateway/gateway.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"
#include "pb/codec.h"

TEST(every_route_leads_somewhere)
{
    for (size_t i = 0; i < gateway_route_count; i++) {
        const struct gateway_route *r = &gateway_routes[i];
        CHECK(gateway_has_path(bytes_of_str(r->path)));
        CHECK(gateway_route_find(bytes_of_str(r->path)) == r);
    }
    CHECK_EQ(gateway_route_count, 51);
    CHECK(!gateway_route_find(BYTES("/v3/kv/range/")));
    CHECK(!gateway_route_find(BYTES("/v3/")));
    CHECK(!gateway_has_path(BYTES("/v3")));
    CHECK(!gateway_has_path(BYTES("/v3alpha/kv/range")));
}

/* Feeds the body in pieces of `step` and tells what came out of it. */
static void tell_in(const char *body, size_t step, struct buf *out)
{
    struct gateway_in in = {0};
    struct bytes left = bytes_of_str(body);

    buf_clear(out);
    for (;;) {
        struct buf wire = {0}, why = {0};
        enum gateway_in_result found =
            gateway_in_next(&in, &pb_lease_keep_alive_request_schema, &wire, &why);
        if (found == GATEWAY_MESSAGE)
            buf_printf(out, "[%zu]", wire.len);
        if (found == GATEWAY_BAD)
            buf_printf(out, "%s", buf_str(&why));
        buf_free(&wire);
        buf_free(&why);
        if (found == GATEWAY_END || found == GATEWAY_BAD)
            break;
        if (found == GATEWAY_MESSAGE)
            continue;
        size_t now = left.len < step ? left.len : step;
        if (now == 0)
            gateway_in_end(&in);
        else
            gateway_in_add(&in, bytes_of(left.at, now));
        left = bytes_of(left.at + now, left.len - now);
    }
    gateway_in_free(&in);
}

TEST(requests_follow_one_another_however_they_are_cut)
{
    static const char *const pairs[][2] = {
        {"", ""},
        {" \n\t", ""},
        {"{\"ID\":1}{\"ID\":\"300\"}\n {}", "[2][3][0]"},
        {"{\"ID\":1}]", "[2]invalid character ']' looking for beginning of value"},
        {"{}{\"ID\":\"x\"}{}", "[0]proto: (line 1:7): invalid value for int64 field ID: \"x\""},
        {"{} {\"ID\":", "[0]unexpected EOF"},
        {"5 {}", "proto: syntax error (line 1:1): unexpected token 5"},
        {"5", "proto: syntax error (line 1:1): unexpected token 5"},
    };
    struct buf got = {0};

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        for (size_t step = 1; step < 20; step++) {
            tell_in(pairs[i][0], step, &got);
            CHECK_STR(buf_str(&got), pairs[i][1]);
        }
    }
    buf_free(&got);
}

static void frame(struct buf *out, const struct pb_schema *schema, const void *message)
{
    size_t len = pb_encoded_size(schema, message);
    uint8_t head[] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8),
                      (uint8_t)len};

    buf_append(out, bytes_of(head, sizeof(head)));
    pb_encode(schema, message, out);
}

static void check_out(const char *path, struct bytes framed, const char *want)
{
    const struct gateway_route *route = gateway_route_find(bytes_of_str(path));

    for (size_t step = 1; step <= framed.len; step += step < 20 ? 1 : step) {
        struct gateway_out o = {0};
        struct buf text = {0};
        for (size_t at = 0; at < framed.len; at += step)
            gateway_out_put(
                &o, route,
                bytes_of(framed.at + at, framed.len - at < step ? framed.len - at : step), &text);
        CHECK_STR(buf_str(&text), want);
        gateway_out_free(&o);
        buf_free(&text);
    }
}

TEST(responses_become_text_however_they_are_cut)
{
    struct pb_response_header header = {.cluster_id = UINT64_MAX, .revision = -1};
    struct pb_key_value kvs[] = {
        {.key = BYTES("a"), .value = BYTES("ab"), .mod_revision = 3, .lease = 1},
        {.key = BYTES("abc"), .value = BYTES("\xff\xfe\xfd\xfc")},
        {.key = BYTES("\0")},
    };
    struct pb_range_response range = {
        .header = &header, .kvs = {kvs, 3}, .more = true, .count = 1000};
    struct buf framed = {0};

    frame(&framed, &pb_range_response_schema, &range);
    check_out("/v3/kv/range", buf_bytes(&framed),
              "{\"header\":{\"cluster_id\":\"18446744073709551615\",\"revision\":\"-1\"},\"kvs\":"
              "[{\"key\":\"YQ==\",\"mod_revision\":\"3\",\"value\":\"YWI=\",\"lease\":\"1\"},"
              "{\"key\":\"YWJj\",\"value\":\"//79/A==\"},{\"key\":\"AA==\"}],"
              "\"more\":true,\"count\":\"1000\"}");

    buf_clear(&framed);
    frame(&framed, &pb_range_response_schema, &(struct pb_range_response){0});
    check_out("/v3/kv/range", buf_bytes(&framed), "{}");

    struct pb_alarm_member alarms[] = {{.member_id = 1, .alarm = 2}, {.member_id = 2, .alarm = 77}};
    buf_clear(&framed);
    frame(&framed, &pb_alarm_response_schema, &(struct pb_alarm_response){.alarms = {alarms, 2}});
    check_out("/v3/maintenance/alarm", buf_bytes(&framed),
              "{\"alarms\":[{\"memberID\":\"1\",\"alarm\":\"CORRUPT\"},"
              "{\"memberID\":\"2\",\"alarm\":77}]}");
    buf_free(&framed);
}

TEST(a_streams_responses_are_lines)
{
    struct pb_key_value kv = {.key = BYTES("a")};
    struct pb_event events[] = {{.kv = &kv}, {.type = 1, .kv = &kv}};
    struct buf framed = {0};

    frame(&framed, &pb_watch_response_schema,
          &(struct pb_watch_response){.watch_id = 7, .created = true});
    frame(&framed, &pb_watch_response_schema, &(struct pb_watch_response){.events = {events, 2}});
    frame(&framed, &pb_watch_response_schema,
          &(struct pb_watch_response){.canceled = true,
                                      .cancel_reason = BYTES("a \"reason\" \xc3\xa9")});
    check_out("/v3/watch", buf_bytes(&framed),
              "{\"result\":{\"watch_id\":\"7\",\"created\":true}}\n"
              "{\"result\":{\"events\":[{\"kv\":{\"key\":\"YQ==\"}},"
              "{\"type\":\"DELETE\",\"kv\":{\"key\":\"YQ==\"}}]}}\n"
              "{\"result\":{\"canceled\":true,\"cancel_reason\":\"a \\\"reason\\\" \xc3\xa9\"}}\n");
    buf_free(&framed);
}

/* A list of numbers is packed on the wire. */
TEST(lists_of_numbers_and_texts_become_lists)
{
    struct bytes names[] = {BYTES("a"), BYTES("")};
    struct buf framed = {0};

    frame(&framed, &pb_auth_user_list_response_schema,
          &(struct pb_auth_user_list_response){.users = {names, 2}});
    check_out("/v3/auth/user/list", buf_bytes(&framed), "{\"users\":[\"a\",\"\"]}");
    buf_free(&framed);
}

TEST(errors_are_objects_and_have_their_status)
{
    struct buf text = {0};

    gateway_write_error(5, BYTES("Not Found"), false, &text);
    gateway_write_error(13, BYTES("a \"b\""), true, &text);
    gateway_write_error(2, BYTES(""), false, &text);
    CHECK_STR(buf_str(&text), "{\"code\":5,\"message\":\"Not Found\"}"
                              "{\"error\":{\"code\":13,\"message\":\"a \\\"b\\\"\"}}\n"
                              "{\"code\":2}");
    CHECK_EQ(gateway_http_status(0), 200);
    CHECK_EQ(gateway_http_status(9), 400);
    CHECK_EQ(gateway_http_status(14), 503);
    CHECK_EQ(gateway_http_status(16), 401);
    CHECK_EQ(gateway_http_status(99), 500);
    buf_free(&text);
}
