#include "interop/json_caller_test.h"

#include "gateway/json_write.h"
#include "harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE_S = 30 };

void json_caller_open(struct json_caller *j, const struct peer *to)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};

    *j = (struct json_caller){.fd = peer_connect(to)};
    CHECK_EQ(setsockopt(j->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
}

void json_caller_close(struct json_caller *j)
{
    close(j->fd);
    buf_free(&j->request);
    buf_free(&j->received);
    buf_free(&j->body);
}

static void send_all(struct json_caller *j, struct bytes what)
{
    while (what.len > 0) {
        ssize_t sent = send(j->fd, what.at, what.len, MSG_NOSIGNAL);
        CHECK(sent > 0);
        what = bytes_of(what.at + sent, what.len - (size_t)sent);
    }
}

void json_caller_start(struct json_caller *j, const char *path, const struct pb_schema *schema,
                       const void *message)
{
    struct buf wire = {0}, head = {0};
    struct json_write w = {0};

    pb_encode(schema, message, &wire);
    buf_clear(&j->request);
    json_write_begin(&w, schema, wire.len, &j->request);
    if (wire.len > 0)
        json_write(&w, buf_bytes(&wire), &j->request);
    CHECK(json_write_is_over(&w));
    buf_printf(&head, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
               j->request.len);
    buf_append(&head, buf_bytes(&j->request)); /* in one piece, or the rest waits for an ack */
    send_all(j, buf_bytes(&head));
    json_write_free(&w);
    buf_free(&wire);
    buf_free(&head);
}

/* --- the response --- */

static void receive_more(struct json_caller *j)
{
    uint8_t piece[65536];
    ssize_t got = recv(j->fd, piece, sizeof(piece), 0);

    if (got <= 0)
        test_fail(__FILE__, __LINE__, "no response to %.200s: %s", buf_str(&j->request),
                  got == 0 ? "closed" : strerror(errno));
    buf_append(&j->received, bytes_of(piece, (size_t)got));
}

static void drop(struct json_caller *j, size_t count)
{
    if (count == 0)
        return; /* there may be nothing to drop it from */
    memmove(j->received.at, j->received.at + count, j->received.len - count);
    j->received.len -= count;
}

/* Up to this, and without it; NUL-terminated, the caller frees it. */
static struct buf take_until(struct json_caller *j, const char *end)
{
    struct buf out = {0};
    const uint8_t *at;

    if (j->received.len == 0)
        receive_more(j);
    while (!(at = memmem(j->received.at, j->received.len, end, strlen(end))))
        receive_more(j);
    size_t len = (size_t)(at - j->received.at);
    buf_append(&out, bytes_of(j->received.at, len));
    drop(j, len + strlen(end));
    return out;
}

static void take_body(struct json_caller *j, size_t count)
{
    while (j->received.len < count)
        receive_more(j);
    if (count > 0)
        buf_append(&j->body, bytes_of(j->received.at, count));
    drop(j, count);
}

static void take_chunks(struct json_caller *j)
{
    for (size_t size = 1; size > 0;) {
        struct buf line = take_until(j, "\r\n");
        size = strtoul(buf_str(&line), NULL, 16);
        buf_free(&line);
        take_body(j, size);
        line = take_until(j, "\r\n");
        CHECK_EQ(line.len, 0);
        buf_free(&line);
    }
}

void json_caller_wait(struct json_caller *j)
{
    struct buf head = take_until(j, "\r\n\r\n");
    const char *text = buf_str(&head), *length = strcasestr(text, "\r\ncontent-length:");

    CHECK(strncmp(text, "HTTP/1.1 ", 9) == 0);
    j->status = (unsigned)strtoul(text + 9, NULL, 10);
    buf_clear(&j->body);
    if (length)
        take_body(j, strtoul(strchr(length, ':') + 1, NULL, 10));
    else
        take_chunks(j);
    buf_free(&head);
}

/* --- texts --- */

/* Behind one of these names come digits in quotes. */
static size_t own_name(const char *at)
{
    static const char *const names[] = {"\"cluster_id\":\"", "\"member_id\":\"",
                                        "\"raft_term\":\""};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(at, names[i], strlen(names[i])) == 0)
            return strlen(names[i]);
    return 0;
}

static const char *without_spaces(struct arena *arena, struct bytes text)
{
    char *out = (char *)arena_alloc(arena, text.len + 1);
    size_t len = 0;
    bool within = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = (char)text.at[i];
        if (c == '"' && (i == 0 || text.at[i - 1] != '\\'))
            within = !within;
        if (within || (c != ' ' && c != '\n'))
            out[len++] = c;
    }
    out[len] = 0;
    return out;
}

const char *json_plain(struct arena *arena, struct bytes text)
{
    char *plain = (char *)without_spaces(arena, text), *to = plain;

    for (const char *at = plain; *at;) {
        size_t name = own_name(at);
        memmove(to, at, name + (name == 0));
        to += name + (name == 0);
        at += name + (name == 0);
        if (name > 0)
            at += strspn(at, "0123456789");
    }
    *to = 0;
    return plain;
}
