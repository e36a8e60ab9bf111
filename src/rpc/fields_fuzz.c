/*
 * What fields.h says of a request, beside what nghttp2's own checks say of it, which a second
 * session makes: they agree. The input chooses fields from a table that holds every case but those
 * in which we mean to be different (fields.h, "Not here").
 *
 *     input   length of the body u8, flags u8, then a name and a value for each field: u8 u8
 */
#include "base/assert.h"
#include "rpc/fields.h"
#include "rpc/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS_MAX = 24, FRAME_BYTES_MAX = 4096, HAS_TRAILERS = 1, IN_TWO_PARTS = 2 };

static const char *const names[] = {
    ":method",
    ":scheme",
    ":path",
    ":authority",
    ":status",
    ":protocol",
    ":",
    ":Path",
    "te",
    "connection",
    "keep-alive",
    "upgrade",
    "proxy-connection",
    "a",
    "x-long-name",
    "transfer-encoding",
    "Upper",
    "with space",
    "with:colon",
    "b!#$%&'*+-.^_`|~9",
    "caf\xc3\xa9",
    "content-length",
    "user-agent",
    "",
};

/* Each is a value that nghttp2 takes for every pseudo-field, or for none. */
static const char *const values[] = {"/a", "trailers", "TRAILERS", "0",    "3",
                                     "10", "x",        "a\nb",     "\x01", "CONNECT"};

struct field {
    const char *name, *value;
};

/* Where the two mean to be different, or what nghttp2 looks at depends on its version. It takes a
 * length in trailers, if it is right. */
static bool is_debatable(struct field f, bool is_trailer)
{
    bool is_text = f.value[0] == '/' || f.value[0] == 't' || f.value[0] == 'T';

    if (strcmp(f.name, "content-length") == 0)
        return is_trailer;
    if (strcmp(f.name, ":path") == 0)
        return f.value[0] != '/';
    if (strcmp(f.name, ":method") == 0)
        return f.value[0] == '/';
    if (strcmp(f.name, ":scheme") == 0)
        return is_text || f.value[0] == '0' || f.value[0] == '1' || f.value[0] == '3';
    if (strcmp(f.name, ":authority") == 0)
        return f.value[0] == '/';
    return false;
}

static int on_invalid(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name,
                      size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                      void *context)
{
    (void)s;
    (void)f;
    (void)name;
    (void)name_len;
    (void)value;
    (void)value_len;
    (void)flags;
    *(bool *)context = true; /* it would be passed over */
    return 0;
}

static int on_sent(nghttp2_session *s, const nghttp2_frame *f, void *context)
{
    (void)s;
    if (f->hd.type == NGHTTP2_RST_STREAM || f->hd.type == NGHTTP2_GOAWAY)
        *(bool *)context = true;
    return 0;
}

static void receive(nghttp2_session *s, uint8_t type, uint8_t flags, struct bytes payload)
{
    uint8_t head[H2_FRAME_HEAD_BYTES] = {
        0, (uint8_t)(payload.len >> 8), (uint8_t)payload.len, type, flags, 0, 0, 0, 1};
    ssize_t taken = nghttp2_session_mem_recv(s, head, sizeof(head));

    assert(taken == sizeof(head));
    if (payload.len > 0)
        taken = nghttp2_session_mem_recv(s, payload.at, payload.len);
    assert(taken > 0);
}

static void receive_fields(nghttp2_session *s, nghttp2_hd_deflater *deflater,
                           const struct field *fields, size_t count, bool ends)
{
    uint8_t block[FRAME_BYTES_MAX];
    nghttp2_nv list[FIELDS_MAX];

    for (size_t i = 0; i < count; i++)
        list[i] = h2_field(bytes_of_str(fields[i].name), bytes_of_str(fields[i].value));
    ssize_t len = nghttp2_hd_deflate_hd(deflater, block, sizeof(block), list, count);
    assert(len >= 0);
    receive(s, NGHTTP2_HEADERS, (uint8_t)(NGHTTP2_FLAG_END_HEADERS | ends),
            bytes_of(block, (size_t)len));
}

struct request {
    struct field header[FIELDS_MAX], trailers[FIELDS_MAX];
    size_t header_count, trailer_count;
    size_t body;
    bool has_trailers, in_two_parts;
};

static bool nghttp2_refuses(const struct request *r)
{
    static const uint8_t zeros[UINT8_MAX];
    bool refused = false;
    nghttp2_session_callbacks *callbacks = h2_callbacks_new();
    nghttp2_option *options = h2_options_new();
    nghttp2_hd_deflater *deflater;
    const uint8_t *out;

    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session *s = h2_session_new(true, callbacks, options, &refused);
    h2_must(nghttp2_hd_deflate_new(&deflater, FRAME_BYTES_MAX));
    nghttp2_session_mem_recv(s, (const uint8_t *)NGHTTP2_CLIENT_MAGIC, H2_PREFACE_BYTES);
    nghttp2_session_mem_recv(s, (const uint8_t *)"\0\0\0\4\0\0\0\0\0", H2_FRAME_HEAD_BYTES);
    bool has_more = r->body > 0 || r->has_trailers;
    receive_fields(s, deflater, r->header, r->header_count, !has_more);
    size_t first = r->in_two_parts ? r->body / 2 : r->body;
    if (r->body > 0 && first < r->body)
        receive(s, NGHTTP2_DATA, 0, bytes_of(zeros, first));
    if (r->body > 0)
        receive(s, NGHTTP2_DATA, !r->has_trailers,
                bytes_of(zeros, first < r->body ? r->body - first : r->body));
    if (r->has_trailers)
        receive_fields(s, deflater, r->trailers, r->trailer_count, true);
    while (nghttp2_session_mem_send(s, &out) > 0)
        ;
    nghttp2_hd_deflate_del(deflater);
    nghttp2_session_del(s);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    return refused;
}

static bool we_refuse(const struct request *r)
{
    struct fields f = {0};

    for (size_t i = 0; i < r->header_count; i++)
        fields_add(&f, bytes_of_str(r->header[i].name), bytes_of_str(r->header[i].value));
    fields_end(&f);
    fields_add_body(&f, r->body);
    for (size_t i = 0; r->has_trailers && i < r->trailer_count; i++)
        fields_add_trailer(&f, bytes_of_str(r->trailers[i].name),
                           bytes_of_str(r->trailers[i].value));
    fields_end_body(&f);
    return f.is_malformed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request r = {0};

    if (size < 2)
        return 0;
    r.body = data[0];
    r.has_trailers = data[1] & HAS_TRAILERS;
    r.in_two_parts = data[1] & IN_TWO_PARTS;
    /* Proper fields come first, or may be missing: chance alone would hardly make a request. One
     * without :authority, which nghttp2 refuses, we take. */
    static const struct field proper[] = {
        {":method", "POST"}, {":scheme", "http"}, {":path", "/a"}, {":authority", "x"}};
    for (size_t i = 0; i < ARRAY_LEN(proper); i++)
        if (i == 3 || !(data[1] & (16u << i)))
            r.header[r.header_count++] = proper[i];
    for (size_t i = 2; i + 1 < size; i += 2) {
        struct field f = {names[data[i] % 128 % ARRAY_LEN(names)],
                          values[data[i + 1] % ARRAY_LEN(values)]};
        bool is_trailer = data[i] >= 128;
        if (is_debatable(f, is_trailer) || r.header_count == FIELDS_MAX ||
            r.trailer_count == FIELDS_MAX)
            continue;
        if (is_trailer)
            r.trailers[r.trailer_count++] = f;
        else
            r.header[r.header_count++] = f;
    }
    assert(nghttp2_refuses(&r) == we_refuse(&r));
    return 0;
}
