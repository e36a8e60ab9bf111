#include "cluster/raw_h2.h"

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { FRAME_DATA, FRAME_HEADERS, FRAME_SETTINGS = 4, FRAME_WINDOW_UPDATE = 8, FRAME_CONTINUATION };
enum { FLAG_ACK = 1, FLAG_END_STREAM = 1, FLAG_END_HEADERS = 4 };
enum {
    SETTINGS_INITIAL_WINDOW_SIZE = 4,
    TABLE_PATH_BYTES_MAX = 4000,
    READ_BYTES = 16384,
    DRAINED_AT_ONCE = 64
};

static bool bind_to(int fd, uint8_t from)
{
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK + from - 1)}};
    int yes = 1; /* the port is chosen when it is known where to */

    return from == 0 ||
           (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes)) == 0 &&
            bind(fd, (struct sockaddr *)&here, sizeof(here)) == 0);
}

int raw_h2_socket(uint16_t port, uint8_t from)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && (!bind_to(fd, from) || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

SSL_CTX *raw_h2_context(const char *certs)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    char cert[512], key[512];

    snprintf(cert, sizeof(cert), "%s/cert.pem", certs);
    snprintf(key, sizeof(key), "%s/key.pem", certs);
    if (context && SSL_CTX_use_certificate_chain_file(context, cert) == 1 &&
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 &&
        SSL_CTX_set_alpn_protos(context, h2, sizeof(h2)) == 0)
        return context;
    SSL_CTX_free(context);
    return NULL;
}

/* --- frames --- */

static bool send_all(struct raw_h2 *r, struct bytes what)
{
    return what.len == 0 || SSL_write(r->ssl, what.at, (int)what.len) == (int)what.len;
}

static void put_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream,
                      struct bytes content)
{
    uint8_t head[9] = {(uint8_t)(content.len >> 16),
                       (uint8_t)(content.len >> 8),
                       (uint8_t)content.len,
                       type,
                       flags,
                       (uint8_t)(stream >> 24),
                       (uint8_t)(stream >> 16),
                       (uint8_t)(stream >> 8),
                       (uint8_t)stream};

    buf_append(out, bytes_of(head, sizeof(head)));
    buf_append(out, content);
}

static void put_window(struct buf *out, uint32_t window)
{
    uint8_t setting[6] = {0,
                          SETTINGS_INITIAL_WINDOW_SIZE,
                          (uint8_t)(window >> 24),
                          (uint8_t)(window >> 16),
                          (uint8_t)(window >> 8),
                          (uint8_t)window};

    put_frame(out, FRAME_SETTINGS, 0, 0, bytes_of(setting, sizeof(setting)));
}

static void put_window_update(struct buf *out, uint32_t stream, uint32_t bytes)
{
    uint8_t content[4] = {(uint8_t)(bytes >> 24), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8),
                          (uint8_t)bytes};

    put_frame(out, FRAME_WINDOW_UPDATE, 0, stream, bytes_of(content, sizeof(content)));
}

/* The server's SETTINGS are acknowledged before they are seen: they come first in any case. */
static bool greet(struct raw_h2 *r, uint32_t window)
{
    struct buf out = {0};

    buf_append_str(&out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    put_window(&out, window);
    put_frame(&out, FRAME_SETTINGS, FLAG_ACK, 0, bytes_of(NULL, 0));
    if (window > RAW_H2_WINDOW_USUAL)
        put_window_update(&out, 0, window - RAW_H2_WINDOW_USUAL);
    bool is_sent = send_all(r, buf_bytes(&out));
    buf_free(&out);
    return is_sent;
}

static bool open_socket(struct raw_h2 *r, SSL_CTX *context, uint16_t port)
{
    struct timeval patience = {.tv_sec = 5};

    *r = (struct raw_h2){.from = r->from};
    r->fd = raw_h2_socket(port, r->from);
    if (r->fd < 0)
        return false;
    setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(r->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    r->ssl = SSL_new(context);
    return r->ssl && SSL_set_fd(r->ssl, r->fd) == 1;
}

bool raw_h2_open(struct raw_h2 *r, SSL_CTX *context, uint16_t port, uint32_t window)
{
    if (open_socket(r, context, port) && SSL_connect(r->ssl) == 1 && greet(r, window))
        return true;
    raw_h2_close(r);
    return false;
}

bool raw_h2_open_tls(struct raw_h2 *r, SSL_CTX *context, uint16_t port)
{
    if (open_socket(r, context, port) && SSL_set_alpn_protos(r->ssl, NULL, 0) == 0 &&
        SSL_connect(r->ssl) == 1)
        return true;
    raw_h2_close(r);
    return false;
}

bool raw_h2_send(struct raw_h2 *r, struct bytes what)
{
    return send_all(r, what);
}

bool raw_h2_is_gone(const struct raw_h2 *r)
{
    struct pollfd p = {.fd = r->fd, .events = POLLRDHUP};

    return r->fd < 0 || poll(&p, 1, 0) > 0;
}

void raw_h2_close(struct raw_h2 *r)
{
    SSL_free(r->ssl);
    if (r->fd >= 0)
        close(r->fd);
    *r = (struct raw_h2){.fd = -1, .from = r->from};
}

/* --- requests --- */

static void put_integer(struct buf *block, uint8_t first, unsigned prefix_max, size_t value)
{
    if (value < prefix_max) {
        buf_append_byte(block, (uint8_t)(first | value));
        return;
    }
    buf_append_byte(block, (uint8_t)(first | prefix_max));
    for (value -= prefix_max; value >= 128; value >>= 7)
        buf_append_byte(block, (uint8_t)(value | 128));
    buf_append_byte(block, (uint8_t)value);
}

static void put_string(struct buf *block, struct bytes text)
{
    put_integer(block, 0, 127, text.len);
    buf_append(block, text);
}

void raw_h2_put_field(struct buf *block, const char *name, struct bytes value)
{
    buf_append_byte(block, 0); /* a literal that no table keeps */
    put_string(block, bytes_of_str(name));
    put_string(block, value);
}

void raw_h2_put_request(struct buf *block, const char *path)
{
    buf_append_byte(block, 0x83); /* :method: POST */
    buf_append_byte(block, 0x87); /* :scheme: https */
    raw_h2_put_field(block, ":path", bytes_of_str(path));
    raw_h2_put_field(block, ":authority", BYTES("127.0.0.1"));
    raw_h2_put_field(block, "content-type", BYTES("application/grpc"));
    raw_h2_put_field(block, "te", BYTES("trailers"));
}

void raw_h2_put_get(struct buf *block, struct bytes path)
{
    bool is_kept = path.len <= TABLE_PATH_BYTES_MAX;

    buf_append_byte(block, 0x82);                  /* :method: GET */
    buf_append_byte(block, 0x87);                  /* :scheme: https */
    buf_append_byte(block, is_kept ? 0x44 : 0x04); /* :path */
    put_string(block, path);
    raw_h2_put_field(block, ":authority", BYTES("127.0.0.1"));
}

bool raw_h2_headers(struct raw_h2 *r, struct bytes block, bool is_last)
{
    struct buf out = {0};
    uint8_t type = FRAME_HEADERS;

    r->stream = r->stream == 0 ? 1 : r->stream + 2;
    do {
        size_t len = block.len < RAW_H2_FRAME_BYTES ? block.len : RAW_H2_FRAME_BYTES;
        uint8_t flags = (uint8_t)((len == block.len ? FLAG_END_HEADERS : 0) |
                                  (is_last && type == FRAME_HEADERS ? FLAG_END_STREAM : 0));
        put_frame(&out, type, flags, r->stream, bytes_of(block.at, len));
        block = bytes_of(block.at + len, block.len - len);
        type = FRAME_CONTINUATION;
    } while (block.len > 0);
    bool is_sent = send_all(r, buf_bytes(&out));
    buf_free(&out);
    return is_sent;
}

bool raw_h2_message(struct raw_h2 *r, struct bytes message, bool is_packed, bool is_last)
{
    struct buf body = {0}, out = {0};
    uint8_t prefix[5] = {is_packed, (uint8_t)(message.len >> 24), (uint8_t)(message.len >> 16),
                         (uint8_t)(message.len >> 8), (uint8_t)message.len};

    buf_append(&body, bytes_of(prefix, sizeof(prefix)));
    buf_append(&body, message);
    for (size_t at = 0; at < body.len; at += RAW_H2_FRAME_BYTES) {
        size_t len = body.len - at < RAW_H2_FRAME_BYTES ? body.len - at : RAW_H2_FRAME_BYTES;
        put_frame(&out, FRAME_DATA, is_last && at + len == body.len ? FLAG_END_STREAM : 0,
                  r->stream, bytes_of(body.at + at, len));
    }
    bool is_sent = send_all(r, buf_bytes(&out));
    buf_free(&body);
    buf_free(&out);
    return is_sent;
}

bool raw_h2_set_window(struct raw_h2 *r, uint32_t window)
{
    struct buf out = {0};

    put_window(&out, window);
    bool is_sent = send_all(r, buf_bytes(&out));
    buf_free(&out);
    return is_sent;
}

bool raw_h2_request(struct raw_h2 *r, const char *path, const char *field, const char *value,
                    struct bytes message)
{
    struct buf block = {0};

    raw_h2_put_request(&block, path);
    if (field)
        raw_h2_put_field(&block, field, bytes_of_str(value));
    bool is_sent =
        raw_h2_headers(r, buf_bytes(&block), false) && raw_h2_message(r, message, false, true);
    buf_free(&block);
    return is_sent;
}

bool raw_h2_allow(struct raw_h2 *r, uint32_t bytes)
{
    struct buf out = {0};

    put_window_update(&out, 0, bytes);
    put_window_update(&out, r->stream, bytes);
    bool is_sent = send_all(r, buf_bytes(&out));
    buf_free(&out);
    return is_sent;
}

/* --- reading --- */

static bool has_something(struct raw_h2 *r, int wait_ms)
{
    struct pollfd p = {.fd = r->fd, .events = POLLIN};

    return SSL_pending(r->ssl) > 0 || poll(&p, 1, wait_ms) > 0;
}

bool raw_h2_read(struct raw_h2 *r, size_t bytes, size_t *got)
{
    uint8_t space[READ_BYTES];

    *got = 0;
    if (!has_something(r, 1000))
        return true;
    int count = SSL_read(r->ssl, space, (int)(bytes < sizeof(space) ? bytes : sizeof(space)));
    if (count <= 0)
        return false;
    *got = (size_t)count;
    return true;
}

bool raw_h2_drain(struct raw_h2 *r)
{
    size_t got;

    for (unsigned i = 0; i < DRAINED_AT_ONCE && has_something(r, 0); i++)
        if (!raw_h2_read(r, READ_BYTES, &got))
            return false;
    return true;
}
