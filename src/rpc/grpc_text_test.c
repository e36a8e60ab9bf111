#include "rpc/grpc_text.h"

#include "base/rng.h"
#include "harness/test.h"

TEST(grpc_timeouts_are_a_number_and_a_unit)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"1n", 1},
        {"20u", 20000},
        {"300m", 300000000},
        {"0S", 0},
        {"99999999S", 99999999000000000},
        {"5M", 300000000000},
        {"2H", 7200000000000},
        {"99999999H", INT64_MAX},
        {"00000001S", 1000000000},
    };
    static const char *const malformed[] = {"",    "1",   "S",   "1s",   "1 S",
                                            "-1S", "+1S", "x1S", "1.5S", "1SS"};
    uint64_t ns;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CHECK_EQ(grpc_parse_timeout(bytes_of_str(good[i].text), &ns), ERR_OK);
        CHECK_EQ(ns, good[i].ns);
    }
    for (size_t i = 0; i < ARRAY_LEN(malformed); i++)
        CHECK_EQ(grpc_parse_timeout(bytes_of_str(malformed[i]), &ns), ERR_MALFORMED);
    CHECK_EQ(grpc_parse_timeout(BYTES("123456789S"), &ns), ERR_TOO_LARGE);
}

TEST(grpc_timeouts_survive_being_written)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (unsigned i = 0; i < 10000; i++) {
        char text[GRPC_TIMEOUT_TEXT_MAX];
        unsigned shift = (unsigned)rng_below(&rng, 63) + 1;
        uint64_t want = rng_next(&rng) >> shift;
        uint64_t got;

        CHECK_EQ(grpc_parse_timeout(bytes_of_str(grpc_timeout_text(want, text)), &got), ERR_OK);
        CHECK(got >= want);
        CHECK(got - want <= want / 50000 + (want > INT64_MAX / 2 ? want : 0));
    }
}

TEST(a_bad_grpc_timeout_is_explained_as_grpc_does)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"S", "malformed grpc-timeout: transport: timeout string is too short: \"S\""},
        {"123456789S",
         "malformed grpc-timeout: transport: timeout string is too long: \"123456789S\""},
        {"12x", "malformed grpc-timeout: transport: timeout unit is not recognized: \"12x\""},
        {"1.5S", "malformed grpc-timeout: strconv.ParseUint: parsing \"1.5\": invalid syntax"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out = {0};
        grpc_explain_timeout(bytes_of_str(cases[i].text), &out);
        CHECK_STR(buf_str(&out), cases[i].why);
        buf_free(&out);
    }
}

TEST(grpc_messages_are_percent_encoded)
{
    static const struct {
        const char *plain, *encoded;
    } cases[] = {
        {"", ""},
        {"etcdserver: key not found", "etcdserver: key not found"},
        {"100%", "100%25"},
        {"a\nb\x7f", "a%0Ab%7F"},
        {"\xc3\xa9", "%C3%A9"},
        {"~ !", "~ !"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf encoded = {0}, plain = {0};
        grpc_percent_encode(bytes_of_str(cases[i].plain), &encoded);
        CHECK_STR(buf_str(&encoded), cases[i].encoded);
        grpc_percent_decode(buf_bytes(&encoded), &plain);
        CHECK_STR(buf_str(&plain), cases[i].plain);
        buf_free(&encoded);
        buf_free(&plain);
    }
}

TEST(percent_signs_that_mean_nothing_stay)
{
    static const struct {
        const char *encoded, *plain;
    } cases[] = {{"%", "%"},     {"%4", "%4"},   {"%zz", "%zz"},
                 {"a%2", "a%2"}, {"%41%", "A%"}, {"%4g%42", "%4gB"}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf plain = {0};
        grpc_percent_decode(bytes_of_str(cases[i].encoded), &plain);
        CHECK_STR(buf_str(&plain), cases[i].plain);
        buf_free(&plain);
    }
}
