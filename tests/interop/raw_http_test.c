#include "interop/raw_http_test.h"

#include "base/buf.h"
#include "base/text.h"
#include "harness/test.h"
#include "http/http1.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 30000, FIELDS_MAX = 64 };

uint16_t raw_port_of(const char *url)
{
    return (uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10);
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* 0: the server has hung up. */
static size_t receive(int fd, uint8_t *at, size_t max)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (poll(&p, 1, WAIT_MS_MAX) != 1)
        test_fail(__FILE__, __LINE__, "no word from the server");
    ssize_t n = recv(fd, at, max, 0);
    return n > 0 ? (size_t)n : 0;
}

static int compare_fields(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

static void append_head(struct buf *out, struct arena *arena, struct bytes version,
                        const struct http1_reader *r)
{
    const char *lines[FIELDS_MAX];
    size_t count = 0;

    CHECK(r->field_count <= FIELDS_MAX);
    buf_append(out, version);
    buf_printf(out, " %u %.*s\n", r->status, (int)r->reason.len, (const char *)r->reason.at);
    for (size_t i = 0; i < r->field_count; i++) {
        struct bytes name = r->fields[i].name, value = r->fields[i].value;
        const char *line = arena_printf(arena, "%.*s: %.*s", (int)name.len, (const char *)name.at,
                                        (int)value.len, (const char *)value.at);
        if (strncasecmp(line, "Date:", 5) != 0 && strncasecmp(line, "Access-Control-", 15) != 0)
            lines[count++] = line;
    }
    qsort(lines, count, sizeof(*lines), compare_fields);
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s\n", lines[i]);
    buf_append_byte(out, '\n');
}

struct answer {
    struct arena *arena;
    struct http1_reader reader;
    struct buf text;
};

/* True when there is nothing more to come. */
static bool take(struct answer *a, struct bytes in)
{
    struct bytes piece;
    enum http1_found found;

    while ((found = http1_read(&a->reader, &in, &piece)) != HTTP1_MORE) {
        if (found == HTTP1_BAD)
            test_fail(__FILE__, __LINE__, "not a response: %s", a->reader.why);
        bool is_interim = a->reader.status < 200;
        if (found == HTTP1_HEAD && !is_interim)
            append_head(&a->text, a->arena, bytes_of(a->reader.head.at, strlen("HTTP/1.1")),
                        &a->reader);
        else if (found == HTTP1_BODY)
            buf_append(&a->text, piece);
        else if (found == HTTP1_END && !is_interim)
            return true;
        else if (found == HTTP1_END)
            http1_next(&a->reader);
    }
    return false;
}

const char *raw_http(struct arena *arena, uint16_t port, struct bytes request)
{
    struct answer a = {.arena = arena};
    int fd = dial(port);
    uint8_t some[16 * 1024];
    size_t sent = 0, got;

    http1_init(&a.reader, HTTP1_RESPONSE);
    a.reader.no_body = bytes_starts_with(request, BYTES("HEAD "));
    /* A server that refuses hangs up before it was told all. */
    for (ssize_t n = 1; n > 0 && sent < request.len; sent += n > 0 ? (size_t)n : 0)
        n = send(fd, request.at + sent, request.len - sent, MSG_NOSIGNAL);
    while ((got = receive(fd, some, sizeof(some))) > 0 && !take(&a, bytes_of(some, got)))
        ;
    if (got == 0 && a.text.len == 0)
        buf_append_str(&a.text, "(nothing)");
    else if (got == 0 && http1_close(&a.reader) != HTTP1_END)
        buf_append_str(&a.text, "(more)");
    close(fd);
    const char *text = arena_copy_str(arena, buf_bytes(&a.text));
    buf_free(&a.text);
    http1_free(&a.reader);
    return text;
}
