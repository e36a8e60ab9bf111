#include "http/http1.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "http/path.h"
#include "io/clock.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

/* --- characters --- */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* RFC 9110's tchar: what a verb or a field name is made of. */
static bool is_token(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_value(uint8_t c)
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

static bool is_visible(uint8_t c)
{
    return c > ' ' && c < 0x7f;
}

/* Go takes these in a field "Host". */
static bool is_host(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!$%&'()*+,-.:;=[]_~", c));
}

/* And these in front of a path. */
static bool is_authority(uint8_t c)
{
    return c >= 0x80 || (c != '%' && is_host(c)) || (c && strchr("<>\"@", c));
}

/* In a target; what is not ASCII is Go's to take as well. */
static bool is_target(uint8_t c)
{
    return c > ' ' && c != 0x7f;
}

static bool all_are(struct bytes text, bool (*is)(uint8_t c))
{
    for (size_t i = 0; i < text.len; i++)
        if (!is(text.at[i]))
            return false;
    return true;
}

static struct bytes trim(struct bytes text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t'))
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool same_word(struct bytes a, const char *b)
{
    return a.len == strlen(b) && strncasecmp((const char *)a.at, b, a.len) == 0;
}

/* Cuts *text at the first `end`; what was before it is returned, all of it if there is none. */
static struct bytes cut_at(struct bytes *text, uint8_t end)
{
    const uint8_t *at = text->len > 0 ? memchr(text->at, end, text->len) : NULL;
    struct bytes before = bytes_of(text->at, at ? (size_t)(at - text->at) : text->len);
    size_t gone = before.len + (at != NULL);

    *text = bytes_of(text->at + gone, text->len - gone);
    return before;
}

bool http1_lists(struct bytes list, const char *word)
{
    while (list.len > 0)
        if (same_word(trim(cut_at(&list, ',')), word))
            return true;
    return false;
}

/* --- reading --- */

void http1_init(struct http1_reader *r, enum http1_kind kind)
{
    *r = (struct http1_reader){.kind = kind, .head_bytes_max = HTTP1_HEAD_BYTES_MAX};
}

void http1_free(struct http1_reader *r)
{
    buf_free(&r->head);
    buf_free(&r->line);
    mem_free(r->fields);
    r->fields = NULL;
    r->field_count = 0;
}

static enum http1_found bad(struct http1_reader *r, unsigned status, const char *why)
{
    r->part = HTTP1_BROKEN;
    r->bad_status = status;
    r->why = why;
    return HTTP1_BAD;
}

/* And the other end is told why, as by Go's server. */
static enum http1_found bad_since(struct http1_reader *r, unsigned status, const char *why)
{
    r->detail = why;
    return bad(r, status, why);
}

size_t http1_head_bytes(const struct http1_reader *r)
{
    return r->head.len + r->field_count * sizeof(*r->fields);
}

struct bytes http1_field(const struct http1_reader *r, const char *name, bool *found)
{
    for (size_t i = 0; i < r->field_count; i++) {
        if (same_word(r->fields[i].name, name)) {
            *found = true;
            return r->fields[i].value;
        }
    }
    *found = false;
    return bytes_of(NULL, 0);
}

static size_t count_fields(const struct http1_reader *r, const char *name)
{
    size_t count = 0;

    for (size_t i = 0; i < r->field_count; i++)
        count += same_word(r->fields[i].name, name);
    return count;
}

/* Is the word in any of the fields of this name, as if they were one list? */
static bool any_lists(const struct http1_reader *r, const char *name, const char *word)
{
    for (size_t i = 0; i < r->field_count; i++)
        if (same_word(r->fields[i].name, name) && http1_lists(r->fields[i].value, word))
            return true;
    return false;
}

static bool looks_like_version(struct bytes text)
{
    return text.len == 8 && bytes_starts_with(text, BYTES("HTTP/")) && is_digit(text.at[5]) &&
           text.at[6] == '.' && is_digit(text.at[7]);
}

/* A minor version that nobody has heard of is one that can be spoken to in 1.1. */
static bool parse_version(struct http1_reader *r, struct bytes text)
{
    r->is_1_0 = bytes_equal(text, BYTES("HTTP/1.0"));
    return looks_like_version(text) && text.at[5] == '1';
}

/* A number or nothing behind the colon, if there is one. With more of them, the first counts for
 * http and https, as Go has it, and the last for others. */
static bool is_port_fine(struct bytes host, bool is_strict)
{
    const uint8_t *colon = host.len == 0 ? NULL
                           : is_strict   ? memchr(host.at, ':', host.len)
                                         : memrchr(host.at, ':', host.len);

    return !colon ||
           all_are(bytes_of(colon + 1, host.len - (size_t)(colon + 1 - host.at)), is_digit);
}

static bool is_address(uint8_t c)
{
    return text_hex_value(c) >= 0 || c == ':' || c == '.';
}

/* "host:port", or an address in brackets in its place. */
static bool is_host_fine(struct bytes host, bool is_strict)
{
    const uint8_t *end = host.len > 0 ? memrchr(host.at, ']', host.len) : NULL;

    if (host.len == 0 || host.at[0] != '[')
        return host.len == 0 || (!memchr(host.at, '[', host.len) && is_port_fine(host, is_strict));
    if (!end)
        return false;
    struct bytes address = bytes_of(host.at + 1, (size_t)(end - host.at) - 1);
    struct bytes behind = bytes_of(end + 1, host.len - (size_t)(end + 1 - host.at));
    return memchr(address.at, ':', address.len) && all_are(address, is_address) &&
           (behind.len == 0 || behind.at[0] == ':') && is_port_fine(behind, true);
}

/* The bytes in front of the colon, if they are a scheme's name; otherwise nothing. */
static struct bytes scheme_of(struct bytes target)
{
    for (size_t i = 0; i < target.len; i++) {
        uint8_t c = target.at[i], lower = c | 0x20;
        bool is_letter = lower >= 'a' && lower <= 'z';
        if (c == ':')
            return bytes_of(target.at, i);
        if (!is_letter && (i == 0 || !(is_digit(c) || c == '+' || c == '-' || c == '.')))
            break;
    }
    return bytes_of(target.at, 0);
}

/* What is in front of the path and the query. */
static struct bytes cut_authority(struct bytes *target)
{
    size_t len = 0;

    while (len < target->len && target->at[len] != '/' && target->at[len] != '?')
        len++;
    struct bytes authority = bytes_of(target->at, len);
    *target = bytes_of(target->at + len, target->len - len);
    return authority;
}

/*
 * How a proxy is asked, "http://host/path", which servers take as well (RFC 9112, 3.2.2), and
 * "host:port" with CONNECT: cuts off what is before the path, which may then be empty. False if
 * there is anything else.
 */
static bool cut_host(struct http1_reader *r)
{
    struct bytes *target = &r->target;
    struct bytes scheme = scheme_of(*target);
    bool is_web = same_word(scheme, "http") || same_word(scheme, "https");

    if (target->len == 0 || target->at[0] == '/' || bytes_equal(*target, BYTES("*")))
        return target->len > 0;
    if (bytes_equal(r->verb, BYTES("CONNECT"))) {
        is_web = true;
    } else {
        if (scheme.len == 0)
            return false;
        *target = bytes_of(target->at + scheme.len + 1, target->len - scheme.len - 1);
        if (!bytes_starts_with(*target, BYTES("//")))
            return target->len > 0 && target->at[0] == '/'; /* "http:/path" names no host */
        *target = bytes_of(target->at + 2, target->len - 2);
    }
    struct bytes host = cut_authority(target);
    const uint8_t *at = host.len > 0 ? memrchr(host.at, '@', host.len) : NULL;
    if (!all_are(host, is_authority))
        return false;
    if (at) /* a user's name and password are nobody's here */
        host = bytes_of(at + 1, host.len - (size_t)(at + 1 - host.at));
    r->host = host;
    return is_host_fine(host, is_web);
}

static enum http1_found parse_request_line(struct http1_reader *r, struct bytes line)
{
    r->verb = cut_at(&line, ' ');
    r->target = cut_at(&line, ' ');
    if (r->verb.len == 0 || r->verb.len > HTTP1_VERB_MAX || !all_are(r->verb, is_token))
        return bad(r, 400, "malformed verb");
    if (!looks_like_version(line))
        return bad(r, 400, "malformed request line");
    if (!all_are(r->target, is_target) || !cut_host(r) || !http_path_is_sound(r->target))
        return bad(r, 400, "malformed target");
    /* How HTTP/2 begins, and gRPC with it: Go's server takes it for a request that its handlers
     * then find to be none. */
    if (bytes_equal(r->verb, BYTES("PRI")) && bytes_equal(line, BYTES("HTTP/2.0")))
        return bad(r, 400, "HTTP/2 is not spoken here");
    if (!parse_version(r, line))
        return bad_since(r, 505, "unsupported protocol version");
    return HTTP1_HEAD;
}

static enum http1_found parse_status_line(struct http1_reader *r, struct bytes line)
{
    struct bytes version = cut_at(&line, ' ');
    struct bytes code = cut_at(&line, ' ');
    uint64_t status;

    if (!parse_version(r, version))
        return bad(r, 502, "malformed version");
    if (code.len != 3 || text_read_number(code, 999, &status) != ERR_OK || status < 100)
        return bad(r, 502, "malformed status");
    if (!all_are(line, is_value))
        return bad(r, 502, "malformed reason");
    r->status = (unsigned)status;
    r->reason = line;
    return HTTP1_HEAD;
}

static enum http1_found parse_field(struct http1_reader *r, struct bytes line)
{
    const uint8_t *colon = memchr(line.at, ':', line.len);

    if (!colon)
        return bad(r, 400, "a field without a colon");
    struct bytes name = bytes_of(line.at, (size_t)(colon - line.at));
    struct bytes value = trim(bytes_of(colon + 1, line.len - name.len - 1));
    if (name.len == 0)
        return bad(r, 400, "a field without a name");
    if (!all_are(name, is_token))
        return bad_since(r, 400, "invalid header name");
    if (!all_are(value, is_value))
        return bad(r, 400, "malformed field value");
    r->fields[r->field_count++] = (struct http1_field){name, value};
    return HTTP1_HEAD;
}

/* Do all fields of this name say the same? */
static bool are_all_alike(const struct http1_reader *r, const char *name)
{
    bool found;
    struct bytes first = http1_field(r, name, &found);

    for (size_t i = 0; i < r->field_count; i++)
        if (same_word(r->fields[i].name, name) && !bytes_equal(r->fields[i].value, first))
            return false;
    return true;
}

/* How long the body is, by the rules of RFC 9112 section 6.3, leaving out what it merely permits.
 */
static enum http1_found find_body(struct http1_reader *r)
{
    size_t lengths = count_fields(r, "Content-Length");
    size_t codings = count_fields(r, "Transfer-Encoding");
    bool found;

    if (codings > 1 ||
        (codings > 0 &&
         (r->is_1_0 || !same_word(http1_field(r, "Transfer-Encoding", &found), "chunked"))))
        return bad(r, 501, "unsupported transfer coding");
    /* A proxy in front of us might take the other of two, and let through as a body what we then
     * read as the next request. */
    if (lengths > 0 && (codings > 0 || !are_all_alike(r, "Content-Length")))
        return bad(r, 400, "more than one length");
    if (lengths > 0 &&
        text_read_number(http1_field(r, "Content-Length", &found), INT64_MAX, &r->length) != ERR_OK)
        return bad(r, 400, "malformed length");
    r->has_length = lengths > 0;

    bool bodiless = r->kind == HTTP1_RESPONSE &&
                    (r->no_body || r->status < 200 || r->status == 204 || r->status == 304);
    if (bodiless) {
        r->part = HTTP1_AT_END;
    } else if (codings > 0) {
        r->part = HTTP1_IN_CHUNK_SIZE;
    } else if (lengths > 0 || r->kind == HTTP1_REQUEST) {
        r->left = r->length;
        r->part = r->left > 0 ? HTTP1_IN_LENGTH : HTTP1_AT_END;
    } else {
        r->part = HTTP1_UNTIL_CLOSE;
        r->keep_alive = false;
    }
    return HTTP1_HEAD;
}

/* Who is asked for? In 1.1 every request says so, but for one that names a tunnel's end. */
static enum http1_found check_host(struct http1_reader *r)
{
    size_t hosts = count_fields(r, "Host");
    bool found;

    if (hosts > 1)
        return bad(r, 400, "too many Host headers");
    if (hosts == 0 && !r->is_1_0 && !bytes_equal(r->verb, BYTES("CONNECT")))
        return bad_since(r, 400, "missing required Host header");
    if (!all_are(http1_field(r, "Host", &found), is_host))
        return bad_since(r, 400, "malformed Host header");
    for (size_t i = 0; i < r->field_count && r->host.len > 0; i++)
        if (same_word(r->fields[i].name, "Host"))
            r->fields[i].value = r->host;
    return HTTP1_HEAD;
}

static void find_expectation(struct http1_reader *r)
{
    bool found;
    struct bytes expected = http1_field(r, "Expect", &found);

    if (http1_lists(expected, "100-continue"))
        r->expects_continue = !r->is_1_0;
    else
        r->expects_other = expected.len > 0;
}

static enum http1_found too_large(struct http1_reader *r)
{
    return bad(r, 431, "the head is too large");
}

/* One for each line but the first and the last. False: the head is too large with them. */
static bool allow_fields(struct http1_reader *r)
{
    struct bytes rest = buf_bytes(&r->head);
    size_t lines = 0;

    for (; rest.len > 0; lines++)
        (void)cut_at(&rest, '\n');
    assert(lines >= 2);
    assert(!r->fields);
    if (lines - 2 > (r->head_bytes_max - r->head.len) / sizeof(*r->fields))
        return false;
    r->fields = mem_new_array(lines - 1, struct http1_field);
    return true;
}

/* A line ends in CR LF or, as Go and RFC 9112 (2.2) have it, in LF. The last one is empty. */
static enum http1_found parse_head(struct http1_reader *r)
{
    struct bytes rest = buf_bytes(&r->head);

    if (!allow_fields(r))
        return too_large(r);
    for (bool first = true;; first = false) {
        struct bytes line = cut_at(&rest, '\n');
        if (line.len > 0 && line.at[line.len - 1] == '\r')
            line.len--;
        if (line.len == 0)
            break;
        enum http1_found found = !first                     ? parse_field(r, line)
                                 : r->kind == HTTP1_REQUEST ? parse_request_line(r, line)
                                                            : parse_status_line(r, line);
        if (found == HTTP1_BAD)
            return found;
    }
    if (r->kind == HTTP1_REQUEST && check_host(r) == HTTP1_BAD)
        return HTTP1_BAD;
    r->keep_alive =
        r->is_1_0 ? any_lists(r, "Connection", "keep-alive") : !any_lists(r, "Connection", "close");
    find_expectation(r);
    return find_body(r);
}

/* What cannot become a head is told at once, not when enough of it has come. */
static bool can_begin_head(const struct http1_reader *r)
{
    struct bytes start = BYTES("HTTP/1.");
    size_t len = r->head.len;

    if (r->kind == HTTP1_RESPONSE)
        return bytes_starts_with(start, bytes_of(r->head.at, len < start.len ? len : start.len));
    for (size_t i = 0; i < len && i <= HTTP1_VERB_MAX; i++) {
        if (r->head.at[i] == ' ')
            return i > 0;
        if (!is_token(r->head.at[i]))
            return false;
    }
    return len <= HTTP1_VERB_MAX;
}

/* Behind the empty line that ends the head, which was sought before `from`; 0: it is not there. */
static size_t find_head_end(struct bytes head, size_t from)
{
    const uint8_t *at = head.at + from, *end = head.at + head.len;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        size_t cr = at < end && *at == '\r';
        if ((size_t)(end - at) > cr && at[cr] == '\n')
            return (size_t)(at + cr + 1 - head.at);
    }
    return 0;
}

static enum http1_found read_head(struct http1_reader *r, struct bytes *in)
{
    size_t before = r->head.len;
    size_t fits = r->head_bytes_max > before ? r->head_bytes_max - before : 0;
    size_t taken = in->len < fits ? in->len : fits;
    size_t search = before < 2 ? 0 : before - 2; /* the end may have come in pieces */

    if (in->len == 0)
        return HTTP1_MORE;
    if (taken == 0)
        return too_large(r);
    buf_append(&r->head, bytes_of(in->at, taken));
    size_t end = find_head_end(buf_bytes(&r->head), search);
    if (end > 0) {
        r->head.len = end;
        taken = r->head.len - before;
    }
    *in = bytes_of(in->at + taken, in->len - taken);
    if (!can_begin_head(r))
        return bad(r, r->kind == HTTP1_REQUEST ? 400 : 502, "not HTTP");
    if (end > 0)
        return parse_head(r);
    return r->head.len == r->head_bytes_max ? too_large(r) : HTTP1_MORE;
}

/* A line with its CR LF, gathered in r->line. HTTP1_END when it is there. */
static enum http1_found read_line(struct http1_reader *r, struct bytes *in)
{
    while (in->len > 0) {
        uint8_t c = in->at[0];

        *in = bytes_of(in->at + 1, in->len - 1);
        /* No lone LF or CR: where lines end is where two readers of the same bytes come to differ.
         */
        bool after_cr = r->line.len > 0 && r->line.at[r->line.len - 1] == '\r';
        if (after_cr != (c == '\n'))
            return bad(r, 400, "a line that does not end in CR LF");
        if (r->line.len == HTTP1_LINE_MAX)
            return bad(r, 400, "a line that is too long");
        buf_append_byte(&r->line, c);
        if (c == '\n')
            return HTTP1_END;
    }
    return HTTP1_MORE;
}

static enum http1_found read_chunk_size(struct http1_reader *r, struct bytes *in)
{
    enum http1_found found = read_line(r, in);
    uint64_t size = 0;

    if (found != HTTP1_END)
        return found;
    struct bytes line = bytes_of(r->line.at, r->line.len - 2);
    struct bytes digits = trim(cut_at(&line, ';'));
    /* 15 digits are 60 bits: the sum below cannot overflow. */
    if (digits.len == 0 || digits.len > 15 || !all_are(line, is_value))
        return bad(r, 400, "malformed chunk size");
    for (size_t i = 0; i < digits.len; i++) {
        int value = text_hex_value(digits.at[i]);
        if (value < 0)
            return bad(r, 400, "malformed chunk size");
        size = size << 4 | (uint64_t)value;
    }
    buf_clear(&r->line);
    r->left = size;
    r->part = size > 0 ? HTTP1_IN_CHUNK : HTTP1_IN_TRAILERS;
    return HTTP1_MORE;
}

static enum http1_found read_chunk_end(struct http1_reader *r, struct bytes *in)
{
    enum http1_found found = read_line(r, in);

    if (found != HTTP1_END)
        return found;
    if (r->line.len != 2)
        return bad(r, 400, "a chunk longer than its size");
    buf_clear(&r->line);
    r->part = HTTP1_IN_CHUNK_SIZE;
    return HTTP1_MORE;
}

static enum http1_found read_trailers(struct http1_reader *r, struct bytes *in)
{
    enum http1_found found;

    while ((found = read_line(r, in)) == HTTP1_END) {
        bool over = r->line.len == 2;

        r->trailer_bytes += r->line.len;
        buf_clear(&r->line);
        if (r->trailer_bytes > HTTP1_TRAILER_BYTES_MAX)
            return bad(r, 431, "too many trailers");
        if (over) {
            r->part = HTTP1_AT_END;
            return HTTP1_MORE;
        }
    }
    return found;
}

static enum http1_found read_body(struct http1_reader *r, struct bytes *in, struct bytes *piece)
{
    bool endless = r->part == HTTP1_UNTIL_CLOSE;
    size_t count = !endless && r->left < in->len ? (size_t)r->left : in->len;

    if (count == 0)
        return HTTP1_MORE;
    *piece = bytes_of(in->at, count);
    *in = bytes_of(in->at + count, in->len - count);
    if (endless)
        return HTTP1_BODY;
    r->left -= count;
    if (r->left == 0)
        r->part = r->part == HTTP1_IN_CHUNK ? HTTP1_IN_CHUNK_END : HTTP1_AT_END;
    return HTTP1_BODY;
}

static enum http1_found read_part(struct http1_reader *r, struct bytes *in, struct bytes *piece)
{
    switch (r->part) {
    case HTTP1_IN_HEAD:
        return read_head(r, in);
    case HTTP1_IN_CHUNK_SIZE:
        return read_chunk_size(r, in);
    case HTTP1_IN_CHUNK_END:
        return read_chunk_end(r, in);
    case HTTP1_IN_TRAILERS:
        return read_trailers(r, in);
    case HTTP1_IN_LENGTH:
    case HTTP1_IN_CHUNK:
    case HTTP1_UNTIL_CLOSE:
        return read_body(r, in, piece);
    case HTTP1_AT_END:
        return HTTP1_END;
    case HTTP1_BROKEN:
        return HTTP1_BAD;
    }
    unreachable();
}

enum http1_found http1_read(struct http1_reader *r, struct bytes *in, struct bytes *piece)
{
    enum http1_part part;
    enum http1_found found;

    *piece = bytes_of(NULL, 0);
    do { /* a part that ended without anything to tell gives way to the next */
        part = r->part;
        found = read_part(r, in, piece);
    } while (found == HTTP1_MORE && r->part != part);
    return found;
}

void http1_next(struct http1_reader *r)
{
    enum http1_kind kind = r->kind;
    struct buf head = r->head;
    struct buf line = r->line;

    assert(r->part == HTTP1_AT_END);
    mem_free(r->fields);
    buf_clear(&head);
    buf_clear(&line);
    if (head.cap > HTTP_HEAD_USUAL_BYTES) /* nobody would be charged for it meanwhile */
        buf_free(&head);
    *r = (struct http1_reader){
        .kind = kind, .head_bytes_max = HTTP1_HEAD_BYTES_MAX, .head = head, .line = line};
}

enum http1_found http1_close(struct http1_reader *r)
{
    if (r->part == HTTP1_UNTIL_CLOSE || r->part == HTTP1_AT_END) {
        r->part = HTTP1_AT_END;
        return HTTP1_END;
    }
    if (r->part == HTTP1_IN_HEAD && r->head.len == 0)
        return HTTP1_MORE;
    return bad(r, 400, "the connection ended within a message");
}

/* --- writing --- */

const char *http1_reason(unsigned status)
{
    switch (status) {
    case 100:
        return "Continue";
    case 101:
        return "Switching Protocols";
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 307:
        return "Temporary Redirect";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 410:
        return "Gone";
    case 412:
        return "Precondition Failed";
    case 413:
        return "Request Entity Too Large";
    case 414:
        return "Request URI Too Long";
    case 417:
        return "Expectation Failed";
    case 421:
        return "Misdirected Request";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 499:
        return "Client Closed Request";
    case 500:
        return "Internal Server Error";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Status";
    }
}

void http1_write_request_line(struct buf *out, const char *verb, struct bytes target)
{
    assert(all_are(bytes_of_str(verb), is_token));
    assert(target.len > 0);
    assert(all_are(target, is_visible));

    buf_append_str(out, verb);
    buf_append_byte(out, ' ');
    buf_append(out, target);
    buf_append_str(out, " HTTP/1.1\r\n");
}

void http1_write_status_line(struct buf *out, bool is_1_0, unsigned status)
{
    assert(status >= 100);
    assert(status <= 999);

    buf_printf(out, "HTTP/1.%d %u %s\r\n", !is_1_0, status, http1_reason(status));
}

void http1_write_field(struct buf *out, const char *name, struct bytes value)
{
    assert(*name);
    assert(all_are(bytes_of_str(name), is_token));
    assert(all_are(value, is_value));

    buf_append_str(out, name);
    buf_append_str(out, ": ");
    buf_append(out, value);
    buf_append_str(out, "\r\n");
}

void http1_write_length(struct buf *out, uint64_t length)
{
    buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
}

void http1_write_date(struct buf *out, uint64_t wall_ns)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm t;

    if (!gmtime_r(&seconds, &t))
        return; /* a clock past the year 2 billion: a response without a date is valid */
    buf_printf(out, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[t.tm_wday], t.tm_mday,
               months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

void http1_write_head_end(struct buf *out)
{
    buf_append_str(out, "\r\n");
}

void http1_write_chunk(struct buf *out, struct bytes data)
{
    if (data.len == 0)
        return;
    buf_printf(out, "%zx\r\n", data.len);
    buf_append(out, data);
    buf_append_str(out, "\r\n");
}

void http1_write_last_chunk(struct buf *out)
{
    buf_append_str(out, "0\r\n\r\n");
}
