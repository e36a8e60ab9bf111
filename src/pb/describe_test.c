#include "pb/codec.h"

#include "base/limits.h"
#include "harness/test.h"
#include "pb/pb_int.h"

#define CHECK_DESCRIBED(schema, msg, expected)                                                     \
    do {                                                                                           \
        struct buf described_out = {0};                                                            \
        pb_describe((schema), (msg), &described_out);                                              \
        CHECK_STR(buf_str(&described_out), (expected));                                            \
        buf_free(&described_out);                                                                  \
    } while (0)

TEST(a_request_is_described_by_its_keys_and_the_sizes_of_its_values)
{
    struct pb_put_request put = {.key = BYTES("a\n"), .value = BYTES("hidden"), .lease = 7};
    struct pb_compare compare = {
        .key = BYTES("c"), .which = PB_OPERAND_VALUE, .target = 3, .value = BYTES("hidden")};
    struct pb_request_op op = {.which = PB_OP_PUT, .put = &put};
    struct pb_txn_request txn = {.compare = {&compare, 1}, .success = {&op, 1}};
    struct pb_request_header header = {.id = 5};

    CHECK_DESCRIBED(&pb_put_request_schema, &put, "key:\"a\\n\" value_size:6 lease:7");
    CHECK_DESCRIBED(&pb_internal_raft_request_schema,
                    &((struct pb_internal_raft_request){.header = &header, .txn = &txn}),
                    "txn:<compare:<target:VALUE key:\"c\" value_size:6> "
                    "success:<request_put:<key:\"a\\n\" value_size:6 lease:7>>> header:<ID:5>");
}

TEST(nothing_is_told_of_passwords_and_tokens)
{
    struct pb_auth_user_add_request add = {
        .name = BYTES("u"), .password = BYTES("secret"), .hashed_password = BYTES("secret")};
    struct pb_internal_authenticate_request login = {
        .name = BYTES("u"), .password = BYTES("secret"), .simple_token = BYTES("secret")};

    CHECK_DESCRIBED(&pb_auth_user_add_request_schema, &add, "name:\"u\"");
    CHECK_DESCRIBED(&pb_internal_raft_request_schema,
                    &((struct pb_internal_raft_request){.authenticate = &login}),
                    "authenticate:<name:\"u\">");
}

/* Whatever message is added with such a field: its content is in no description. */
TEST(no_message_has_a_secret_that_is_described)
{
    static const char *const names[] = {"password", "token"};
    size_t seen = 0;

    for (size_t i = 0; i < pb_schema_count; i++)
        for (const struct pb_field *f = pb_schemas[i]->fields;
             f < pb_schemas[i]->fields + pb_schemas[i]->field_count; f++)
            for (size_t k = 0; k < ARRAY_LEN(names); k++) {
                if ((f->kind != PB_BYTES && f->kind != PB_STRING) || f->place == PB_LIST ||
                    !strcasestr(f->name, names[k]))
                    continue;
                uint8_t msg[1024] = {0};
                struct buf out = {0};
                CHECK(pb_schemas[i]->size <= sizeof(msg));
                *(struct bytes *)(void *)(msg + f->offset) = BYTES("secret");
                pb_describe(pb_schemas[i], msg, &out);
                CHECK(!strstr(buf_str(&out), "secret"));
                buf_free(&out);
                seen++;
            }
    CHECK(seen >= 8);
}

/* Nested a thousand levels deep, with a thousand operations, or with a key of a megabyte. */
TEST(a_description_is_bounded)
{
    static struct pb_txn_request txns[1000];
    static struct pb_request_op ops[1000], many[1000];
    static uint8_t key[1 << 20];
    struct pb_range_request range = {.key = BYTES("0123456789")};
    for (unsigned i = 0; i < 1000; i++) {
        many[i] = (struct pb_request_op){.which = PB_OP_RANGE, .range = &range};
        ops[i] = (struct pb_request_op){.which = PB_OP_TXN, .txn = &txns[(i + 1) % 1000]};
        txns[i] = (struct pb_txn_request){.success = {&ops[i], i < 999}};
    }
    struct pb_txn_request wide = {.success = {many, 1000}};
    struct pb_put_request large = {.key = bytes_of(key, sizeof(key))};
    struct buf out[3] = {{0}};

    pb_describe(&pb_txn_request_schema, &txns[0], &out[0]);
    pb_describe(&pb_txn_request_schema, &wide, &out[1]);
    pb_describe(&pb_put_request_schema, &large, &out[2]);

    for (unsigned i = 0; i < 3; i++) {
        CHECK(out[i].len < LOG_TEXT_BYTES_MAX + 4 * LOG_KEY_BYTES_MAX + 100);
        CHECK(strstr(buf_str(&out[i]), "..."));
        buf_free(&out[i]);
    }
}
