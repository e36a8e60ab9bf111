#include "rpc/fields.h"

#include "base/mem.h"
#include "harness/test.h"

#include <string.h>

/* Fields as lines of "name value"; a name may begin with a colon. */
static void add_lines(struct fields *f, const char *lines,
                      void (*add)(struct fields *, struct bytes, struct bytes))
{
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        const char *space = memchr(lines, ' ', len);
        size_t name_len = space ? (size_t)(space - lines) : len;
        size_t value_at = space ? name_len + 1 : len;
        add(f, bytes_of(lines, name_len), bytes_of(lines + value_at, len - value_at));
        lines += len + (lines[len] == '\n');
    }
}

static bool is_sound(const char *lines)
{
    struct fields f = {0};

    add_lines(&f, lines, fields_add);
    fields_end(&f);
    return !f.is_malformed;
}

#define REQUEST ":method POST\n:scheme http\n:path /a\n"

TEST(requests_of_every_client_are_well_formed)
{
    static const char *const good[] = {
        REQUEST,
        REQUEST ":authority a:2379\ncontent-type application/grpc\nte trailers\nuser-agent x/1 (y)",
        ":path /\n:authority\n:scheme https\n:method GET\naccept */*\nempty",
        REQUEST ":authority http://10.0.0.1:2379",
        REQUEST ":authority #initially=[unix://localhost:m0]",
        REQUEST "te Trailers\nx-words  with spaces \t",
        REQUEST "a-bin \xc3\xa9\xff\nb!#$%&'*+-.^_`|~9 c",
        REQUEST "content-length 0",
        REQUEST "cookie a\ncookie b\nhost a",
        ":method OPTIONS\n:scheme http\n:path *",
        ":method CONNECT\n:authority a:1",
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!is_sound(good[i]))
            test_fail(__FILE__, __LINE__, "refused: %s", good[i]);
}

TEST(requests_that_break_a_rule_of_fields_are_malformed)
{
    static const char *const bad[] = {
        "",
        ":method POST\n:scheme http",
        ":method POST\n:path /a",
        ":scheme http\n:path /a",
        ":method POST\n:scheme http\n:path",
        REQUEST ":method POST",
        REQUEST ":scheme http",
        REQUEST ":path /b",
        REQUEST ":authority a\n:authority a",
        REQUEST ":status 200",
        REQUEST ":protocol websocket",
        REQUEST ":",
        REQUEST ":Authority a",
        REQUEST "a b\n:authority c",
        REQUEST " empty",
        REQUEST "Upper a",
        REQUEST "a:b c",
        REQUEST "a(b c",
        REQUEST "a\x7f b",
        REQUEST "a\xc3\xa9 b",
        REQUEST "a two\rlines",
        REQUEST "a \x01",
        REQUEST "a \x7f",
        REQUEST ":authority \x1f",
        REQUEST "connection close",
        REQUEST "keep-alive 1",
        REQUEST "proxy-connection close",
        REQUEST "transfer-encoding chunked",
        REQUEST "upgrade h2c",
        REQUEST "te",
        REQUEST "te gzip",
        REQUEST "te trailers, gzip",
        REQUEST "content-length",
        REQUEST "content-length -1",
        REQUEST "content-length 1x",
        REQUEST "content-length 18446744073709551616",
        REQUEST "content-length 1\ncontent-length 1",
        ":method CONNECT",
        ":method CONNECT\n:authority a:1\n:path /",
        ":method CONNECT\n:authority a:1\n:scheme http",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (is_sound(bad[i]))
            test_fail(__FILE__, __LINE__, "taken: %s", bad[i]);
}

/* The body comes in these pieces (a zero ends them). */
static bool is_honest(const char *stated, const size_t *pieces)
{
    struct fields f = {0};

    add_lines(&f, REQUEST, fields_add);
    fields_add(&f, BYTES("content-length"), bytes_of_str(stated));
    fields_end(&f);
    for (size_t i = 0; pieces[i] > 0; i++)
        fields_add_body(&f, pieces[i]);
    fields_end_body(&f);
    return !f.is_malformed;
}

/* Values are looked at in words: every byte in every place of one, short and long, beside bytes
 * that could hide it. */
TEST(a_value_may_have_any_byte_but_controls)
{
    static const uint8_t others[] = {0xff, 0x80, 'a', ' ', '\t'};
    uint8_t text[20];

    for (size_t len = 1; len <= sizeof(text); len++)
        for (size_t place = 0; place < len; place++)
            for (unsigned i = 0; i < 256 * ARRAY_LEN(others); i++) {
                struct fields f = {0};
                uint8_t byte = (uint8_t)i;
                memset(text, others[i / 256], sizeof(text));
                text[place] = byte;
                bool is_control = (byte < ' ' && byte != '\t') || byte == 0x7f;

                fields_add(&f, BYTES("token"), bytes_of(text, len));

                CHECK(f.is_malformed == is_control);
            }
}

TEST(a_content_length_is_the_length_of_the_body)
{
    CHECK(is_honest("0", (size_t[]){0}));
    CHECK(is_honest("7", (size_t[]){3, 4, 0}));
    CHECK(!is_honest("7", (size_t[]){3, 3, 0}));
    CHECK(!is_honest("7", (size_t[]){3, 5, 0}));
    CHECK(!is_honest("0", (size_t[]){1, 0}));
    CHECK(!is_honest("1", (size_t[]){0}));

    /* Too much is so before the end. */
    struct fields f = {0};
    fields_add(&f, BYTES("content-length"), BYTES("3"));
    fields_add_body(&f, 3);
    CHECK(!f.is_malformed);
    fields_add_body(&f, 1);
    CHECK(f.is_malformed);
}

TEST(a_tunnel_is_no_body_that_a_length_could_be_of)
{
    struct fields f = {0};

    add_lines(&f, ":method CONNECT\n:authority x\ncontent-length 3", fields_add);
    fields_end(&f);
    fields_add_body(&f, 243);
    fields_end_body(&f);
    CHECK(!f.is_malformed);
}

TEST(trailers_have_no_pseudo_fields)
{
    static const struct {
        const char *lines;
        bool is_sound;
    } cases[] = {
        {"", true},
        {"grpc-status 0\nx y", true},
        {":path /b", false},
        {":status 200", false},
        {"Upper a", false},
        {"connection close", false},
        {"content-length 0", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fields f = {0};
        add_lines(&f, REQUEST "a b", fields_add);
        fields_end(&f);
        add_lines(&f, cases[i].lines, fields_add_trailer);
        fields_end_body(&f);
        CHECK_EQ(f.is_malformed, !cases[i].is_sound);
    }
}
