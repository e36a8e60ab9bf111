#include "http/http.h"

#include "base/assert.h"
#include "io/clock.h"

enum { HTTP_REDIRECT_FIELDS_MAX = 8 }; /* of its own and of others */

static bool is_server(const struct http_conn *c)
{
    return c->reader.kind == HTTP1_REQUEST;
}

/* --- life --- */

void http_open(struct http_conn *c, const struct http_conn_options *options)
{
    *c = (struct http_conn){
        .on = options->on,
        .context = options->context,
        .conn = options->conn,
        .clock = options->clock,
        .wire = options->wire,
        .paths = options->paths,
        .heads = options->heads,
        .window = HTTP_BODY_WINDOW_BYTES,
    };
    http1_init(&c->reader, options->reads);
}

/* What is kept of this head beyond what is usual. */
static void charge_head(struct http_conn *c, size_t bytes)
{
    if (!c->heads)
        return;
    assert(c->heads->charged >= c->charged);
    c->heads->charged += bytes - c->charged;
    c->charged = bytes;
}

static void allow_head(struct http_conn *c)
{
    size_t charged = c->heads ? c->heads->charged - c->charged : 0; /* by others */
    size_t left = charged < HTTP_HEADS_BYTES_MAX ? HTTP_HEADS_BYTES_MAX - charged : 0;
    size_t most = HTTP1_HEAD_BYTES_MAX - HTTP_HEAD_USUAL_BYTES;

    c->reader.head_bytes_max = HTTP_HEAD_USUAL_BYTES + (left < most ? left : most);
}

static enum http1_found read_next(struct http_conn *c, struct bytes *in, struct bytes *piece)
{
    if (c->reader.part != HTTP1_IN_HEAD)
        return http1_read(&c->reader, in, piece);
    allow_head(c);
    enum http1_found found = http1_read(&c->reader, in, piece);
    size_t bytes = http1_head_bytes(&c->reader);
    charge_head(c, bytes > HTTP_HEAD_USUAL_BYTES ? bytes - HTTP_HEAD_USUAL_BYTES : 0);
    return found;
}

void http_close(struct http_conn *c)
{
    charge_head(c, 0);
    c->heads = NULL;
    c->on = NULL;
    c->in = HTTP_IN_NOTHING;
    http1_free(&c->reader);
    c->reader = (struct http1_reader){.kind = c->reader.kind, .part = HTTP1_BROKEN};
    buf_free(&c->ahead);
    buf_free(&c->path_text);
    c->path = bytes_of(NULL, 0);
}

/* --- reading --- */

/* Somebody who asks and asks and reads no answer is not listened to: answers would pile up. */
static bool is_held_back(const struct http_conn *c)
{
    return is_server(c) && c->in == HTTP_IN_IDLE && wire_is_blocked(c->wire);
}

/*
 * Behind a message that is whole, further bytes are the next request of a client that does not wait
 * for answers. A few of them are taken in, or we would not hear that he has left while he waits.
 */
static bool wants_more(const struct http_conn *c)
{
    switch (c->in) {
    case HTTP_IN_IDLE:
        return !is_held_back(c) || c->ahead.len < HTTP_AHEAD_BYTES;
    case HTTP_IN_DISCARD:
    case HTTP_IN_NOTHING:
        return true;
    case HTTP_IN_MESSAGE:
    case HTTP_IN_SWITCHED:
        return c->unconsumed < c->window;
    case HTTP_IN_WHOLE:
        return c->ahead.len < HTTP_AHEAD_BYTES;
    }
    unreachable();
}

static void pause_or_resume(struct http_conn *c)
{
    bool pause = !wants_more(c);

    if (pause == c->paused)
        return;
    c->paused = pause;
    if (pause)
        conn_pause(c->conn);
    else
        conn_resume(c->conn);
}

/* May the reader go on with what is there? */
static bool may_read(const struct http_conn *c)
{
    return c->on && c->in != HTTP_IN_WHOLE && c->in != HTTP_IN_NOTHING && !is_held_back(c) &&
           ((c->in != HTTP_IN_MESSAGE && c->in != HTTP_IN_SWITCHED) || c->unconsumed < c->window);
}

/* As Go's server does it. */
static void write_error(struct http_conn *c)
{
    const struct http1_reader *r = &c->reader;
    struct buf *out = wire_buf(c->wire), text = {0};

    buf_printf(&text, "%u %s", r->bad_status, http1_reason(r->bad_status));
    if (r->detail)
        buf_printf(&text, ": %s", r->detail);
    buf_printf(out, "HTTP/1.1 %s\r\n", buf_str(&text));
    http1_write_field(out, "Content-Type", BYTES("text/plain; charset=utf-8"));
    http1_write_field(out, "Connection", BYTES("close"));
    http1_write_head_end(out);
    if (r->bad_status == 501)
        buf_append_str(out, "Unsupported transfer encoding");
    else
        buf_append(out, buf_bytes(&text));
    buf_free(&text);
}

/* Once a response has begun nothing but its own rest may follow it: then the client learns from the
 * end of the connection alone. */
static void give_up(struct http_conn *c, const char *why)
{
    c->in = HTTP_IN_NOTHING;
    buf_free(&c->ahead);
    if (is_server(c) && c->out == HTTP_OUT_IDLE)
        write_error(c);
    c->out = HTTP_OUT_DONE;
    c->on->on_broken(c, why);
}

/* Both messages are whole: what is said now is about the next exchange. */
static void exchange_over(struct http_conn *c)
{
    /* Bytes behind a response would be taken for the answer to the next request: Go's client, too,
     * wants nothing more to do with whoever sends them. */
    bool is_overfull = !is_server(c) && c->in_hand + c->ahead.len > 0;
    bool kept = !c->last && !is_overfull;

    c->unconsumed = 0;
    c->window = HTTP_BODY_WINDOW_BYTES;
    buf_free(&c->path_text);
    c->path = bytes_of(NULL, 0);

    if (!kept) {
        c->in = HTTP_IN_NOTHING;
        buf_free(&c->ahead);
        c->on->on_over(c, false);
        return;
    }
    /* All of this before on_over, which may begin the next exchange. */
    http1_next(&c->reader);
    charge_head(c, 0);
    c->in = HTTP_IN_IDLE;
    c->out = HTTP_OUT_IDLE;
    c->interim = 0;
    c->discarded = 0;
    c->out_left = 0;
    c->said_continue = false;
    c->on->on_over(c, true);
}

/*
 * The message that is read is whole. A client whose request is not sent yet has been answered all
 * the same; the rest of the request would be taken for the beginning of the next.
 */
static void message_whole(struct http_conn *c)
{
    bool was_wanted = c->in == HTTP_IN_MESSAGE;

    c->in = HTTP_IN_WHOLE;
    if (was_wanted)
        c->on->on_end(c);
    if (!c->on || c->in != HTTP_IN_WHOLE)
        return;
    if (!is_server(c) && c->out != HTTP_OUT_DONE) {
        c->out = HTTP_OUT_DONE;
        c->last = true;
    }
    if (c->out == HTTP_OUT_DONE)
        exchange_over(c);
}

static void say_continue(struct http_conn *c)
{
    struct buf *out = wire_buf(c->wire);

    http1_write_status_line(out, false, 100);
    http1_write_head_end(out);
    c->said_continue = true;
}

static bool is_head(const struct http_conn *c)
{
    return bytes_equal(c->reader.verb, BYTES("HEAD"));
}

static void request_head(struct http_conn *c)
{
    c->in = HTTP_IN_MESSAGE;
    c->last = !c->reader.keep_alive;
    c->path_kind =
        http_path_read(c->paths, c->reader.verb, c->reader.target, &c->path_text, &c->path);
    if (c->reader.expects_other) {
        http_respond(c, 417,
                     &(struct http_message_options){.close = true, .no_length = is_head(c)});
        http_finish(c);
        return;
    }
    c->on->on_head(c);
    if (!c->on || c->in != HTTP_IN_MESSAGE)
        return;
    bool has_body = c->reader.part != HTTP1_AT_END;
    if (c->reader.expects_continue && has_body && c->out == HTTP_OUT_IDLE)
        say_continue(c);
}

static void response_head(struct http_conn *c)
{
    if (c->reader.status < 200) /* its end follows at once, and is passed over */
        return;
    c->in = HTTP_IN_MESSAGE;
    c->last |= !c->reader.keep_alive;
    if (c->out == HTTP_OUT_AWAITS_CONTINUE)
        c->asked_credit = false; /* nobody wants the body: on_end is the end of it */
    c->on->on_head(c);
}

/* An interim response: nothing but a sign. */
static void interim_whole(struct http_conn *c)
{
    bool is_switch = c->reader.status == 101, go_on = c->reader.status == 100;
    bool no_body = c->reader.no_body;

    if (is_switch) {
        give_up(c, "the other end switches to a protocol that nobody asked for");
        return;
    }
    if (++c->interim > HTTP_INTERIM_MAX) {
        give_up(c, "too many interim responses");
        return;
    }
    http1_next(&c->reader);
    c->reader.no_body = no_body;
    if (go_on)
        http_continue(c);
}

static void body_piece(struct http_conn *c, struct bytes piece)
{
    if (c->in == HTTP_IN_MESSAGE || c->in == HTTP_IN_SWITCHED) {
        c->unconsumed += piece.len;
        c->on->on_body(c, piece);
        return;
    }
    assert(c->in == HTTP_IN_DISCARD);
    c->discarded += piece.len;
    if (c->discarded > HTTP_DISCARD_BYTES) { /* it was answered; only the connection suffers */
        c->last = true;
        c->in = HTTP_IN_WHOLE;
        if (c->out == HTTP_OUT_DONE)
            exchange_over(c);
    }
}

/* False when there is nothing more to be had from *in for now. */
static bool read_part(struct http_conn *c, struct bytes *in)
{
    struct bytes piece;

    if (c->in == HTTP_IN_SWITCHED) {
        piece = *in;
        *in = bytes_of(NULL, 0);
        if (piece.len > 0)
            body_piece(c, piece);
        return piece.len > 0;
    }
    enum http1_found found = read_next(c, in, &piece);
    c->in_hand = in->len;
    switch (found) {
    case HTTP1_MORE:
        return false;
    case HTTP1_HEAD:
        if (is_server(c))
            request_head(c);
        else
            response_head(c);
        return true;
    case HTTP1_BODY:
        body_piece(c, piece);
        return true;
    case HTTP1_END:
        if (c->in == HTTP_IN_IDLE)
            interim_whole(c);
        else
            message_whole(c);
        return true;
    case HTTP1_BAD:
        give_up(c, c->reader.why);
        return false;
    }
    unreachable();
}

/* A client that hears something before it has asked cannot know what it answers. */
static bool is_unasked(const struct http_conn *c, struct bytes in)
{
    return !is_server(c) && c->in == HTTP_IN_IDLE && c->out == HTTP_OUT_IDLE && in.len > 0;
}

/*
 * Callbacks may end the exchange, and so begin to read the next request, or ask for what is there
 * already: all of that comes back here, where one loop reads, and never on a deeper stack.
 */
static void read_all(struct http_conn *c, struct bytes in)
{
    c->reading = true;
    while (may_read(c)) {
        if (is_unasked(c, in)) {
            give_up(c, "a response that nobody asked for");
            break;
        }
        if (!read_part(c, &in))
            break;
    }
    c->reading = false;
    c->in_hand = 0;
    if (!c->on)
        return;
    /* What is left is kept: the socket has handed it over, and will not do so again. */
    if (c->in != HTTP_IN_NOTHING && in.len > 0)
        buf_append(&c->ahead, in);
    pause_or_resume(c);
}

/* Goes on with what came too early, as far as that is now possible. */
static void read_ahead(struct http_conn *c)
{
    if (c->reading || !may_read(c))
        return;
    /* Taken out, since read_all puts back what it does not come to. */
    struct buf ahead = c->ahead;
    c->ahead = (struct buf){0};
    read_all(c, buf_bytes(&ahead)); /* which pauses or resumes the socket */
    buf_free(&ahead);
}

void http_data(struct http_conn *c, struct bytes data)
{
    assert(!c->reading);

    if (!c->on || c->in == HTTP_IN_NOTHING)
        return;
    if (c->ahead.len == 0) {
        read_all(c, data);
        return;
    }
    buf_append(&c->ahead, data); /* in order: something is before it */
    read_ahead(c);
    if (c->on)
        pause_or_resume(c);
}

/* A client may shut its side down and still wait for its answer. One that has said nothing since
 * the last has left. */
static void request_ended(struct http_conn *c)
{
    c->last = true;
    if (c->in == HTTP_IN_WHOLE)
        return;
    if (c->in == HTTP_IN_SWITCHED) {
        c->out = HTTP_OUT_DONE;
        exchange_over(c);
        return;
    }
    bool is_between = http1_close(&c->reader) == HTTP1_MORE;
    if (is_between || c->in == HTTP_IN_DISCARD) {
        c->out = HTTP_OUT_DONE;
        exchange_over(c);
        return;
    }
    give_up(c, "the connection ended within a request");
}

static void response_ended(struct http_conn *c)
{
    c->last = true;
    if (c->in == HTTP_IN_MESSAGE && http1_close(&c->reader) == HTTP1_END) {
        message_whole(c);
        return;
    }
    give_up(c, "the connection ended before a response did");
}

void http_ended(struct http_conn *c)
{
    assert(!c->reading);

    if (!c->on || c->in == HTTP_IN_NOTHING)
        return;
    if (is_server(c))
        request_ended(c);
    else
        response_ended(c);
}

void http_sent(struct http_conn *c)
{
    read_ahead(c); /* it may have been held back */
    if (!c->asked_credit || !c->on || c->out == HTTP_OUT_DONE || wire_is_blocked(c->wire))
        return;
    c->asked_credit = false;
    c->on->on_credit(c);
}

void http_set_window(struct http_conn *c, size_t bytes)
{
    assert(bytes > 0);
    c->window = bytes;
}

/* With the exchange its body was forgotten: whoever still works on it may say so all the same. */
void http_consumed(struct http_conn *c, size_t bytes)
{
    c->unconsumed -= bytes < c->unconsumed ? bytes : c->unconsumed;
    if (!c->on || c->reading)
        return;
    read_ahead(c);
    if (c->on)
        pause_or_resume(c);
}

/* --- writing --- */

static void write_fields(struct http_conn *c, const struct http_message_options *o)
{
    struct buf *out = wire_buf(c->wire);

    for (size_t i = 0; i < o->field_count; i++) {
        char name[64];
        size_t len = o->fields[i].name.len;
        assert(len < sizeof(name));
        memcpy(name, o->fields[i].name.at, len);
        name[len] = '\0';
        http1_write_field(out, name, o->fields[i].value);
    }
}

/* How the body is framed; writes the field that says so. */
static enum http_out write_framing(struct http_conn *c, const struct http_message_options *o)
{
    struct buf *out = wire_buf(c->wire);

    c->out_left = 0;
    if (o->length != HTTP_CHUNKED) {
        if (!o->no_length)
            http1_write_length(out, o->length);
        c->out_left = o->length;
        return HTTP_OUT_LENGTH;
    }
    if (is_server(c) && c->reader.is_1_0) {
        c->last = true;
        return HTTP_OUT_UNTIL_CLOSE;
    }
    http1_write_field(out, "Transfer-Encoding", BYTES("chunked"));
    return HTTP_OUT_CHUNKED;
}

void http_request(struct http_conn *c, const char *verb, struct bytes target,
                  const struct http_message_options *o)
{
    struct buf *out = wire_buf(c->wire);

    assert(!is_server(c));
    assert(http_is_idle(c));
    assert(!o->no_length || o->length == 0);

    c->last = o->close;
    c->reader.no_body = strcmp(verb, "HEAD") == 0;
    http1_write_request_line(out, verb, target);
    write_fields(c, o);
    c->out = write_framing(c, o);
    if (o->is_expected && o->length > 0) {
        http1_write_field(out, "Expect", BYTES("100-continue"));
        c->after_continue = c->out;
        c->out = HTTP_OUT_AWAITS_CONTINUE;
    }
    if (o->close)
        http1_write_field(out, "Connection", BYTES("close"));
    http1_write_head_end(out);
}

void http_continue(struct http_conn *c)
{
    if (c->out != HTTP_OUT_AWAITS_CONTINUE)
        return;
    c->out = c->after_continue;
    if (c->asked_credit && c->on) {
        c->asked_credit = false;
        c->on->on_credit(c);
    }
}

static bool has_no_body(const struct http_conn *c, unsigned status)
{
    return is_head(c) || status == 204 || status == 304;
}

/* Will so much of the request never be read that a new connection is cheaper? And a client that was
 * not told to go on may send the body or not: nobody could tell what comes next. */
static bool is_too_much_left(const struct http_conn *c)
{
    if (c->in != HTTP_IN_MESSAGE || c->reader.part == HTTP1_AT_END)
        return false;
    return c->reader.left > HTTP_DISCARD_BYTES || c->reader.expects_other ||
           (c->reader.expects_continue && !c->said_continue);
}

void http_respond(struct http_conn *c, unsigned status, const struct http_message_options *o)
{
    struct buf *out = wire_buf(c->wire);
    bool no_body = has_no_body(c, status);

    assert(is_server(c));
    assert(c->out == HTTP_OUT_IDLE);
    assert(c->in == HTTP_IN_MESSAGE || c->in == HTTP_IN_WHOLE);
    assert(status >= 200);

    c->last |= o->close || is_too_much_left(c);
    http1_write_status_line(out, c->reader.is_1_0, status);
    write_fields(c, o);
    http1_write_date(out, clock_wall_ns(c->clock));
    if (status != 204 && status != 304)
        c->out = write_framing(c, o);
    if (no_body)
        c->out = HTTP_OUT_NO_BODY;
    if (c->last != c->reader.is_1_0) /* what is not usual is said */
        http1_write_field(out, "Connection", c->last ? BYTES("close") : BYTES("keep-alive"));
    http1_write_head_end(out);
}

/* As Go: a page for those who read, a field for all. */
void http_redirect(struct http_conn *c, const struct http1_field *fields, size_t field_count)
{
    struct http1_field all[HTTP_REDIRECT_FIELDS_MAX];
    bool is_get = bytes_equal(c->reader.verb, BYTES("GET")), is_said = is_get || is_head(c);
    struct buf location = {0}, page = {0};

    assert(http_is_misdirected(c));
    unsigned status = http_path_status(c->path_kind, c->reader.verb);
    if (status != 307) {
        http_respond(c, status,
                     &(struct http_message_options){.fields = fields,
                                                    .field_count = field_count,
                                                    .no_length = is_head(c),
                                                    .close = status != 200});
        http_finish(c);
        return;
    }
    assert(field_count + 2 <= ARRAY_LEN(all));
    if (field_count > 0)
        memcpy(all, fields, field_count * sizeof(*fields));
    http_path_location(c->path, http_query(c), &location);
    if (is_get)
        http_path_page(c->path, http_query(c), &page);
    all[field_count++] = (struct http1_field){BYTES("Location"), buf_bytes(&location)};
    if (is_said)
        all[field_count++] =
            (struct http1_field){BYTES("Content-Type"), BYTES("text/html; charset=utf-8")};
    http_respond(c, status,
                 &(struct http_message_options){.fields = all,
                                                .field_count = field_count,
                                                .length = page.len,
                                                .no_length = is_head(c)});
    http_send(c, buf_bytes(&page));
    buf_free(&location);
    buf_free(&page);
    http_finish(c);
}

void http_switch(struct http_conn *c, const char *protocol, const struct http1_field *fields,
                 size_t field_count)
{
    struct buf *out = wire_buf(c->wire);

    assert(is_server(c));
    assert(c->out == HTTP_OUT_IDLE);
    assert(c->in == HTTP_IN_WHOLE);
    assert(c->reading); /* so that what came behind the request is shown in its turn */

    http1_write_status_line(out, false, 101);
    http1_write_field(out, "Upgrade", bytes_of_str(protocol));
    http1_write_field(out, "Connection", BYTES("Upgrade"));
    write_fields(c, &(struct http_message_options){.fields = fields, .field_count = field_count});
    http1_write_head_end(out);
    c->last = true;
    c->in = HTTP_IN_SWITCHED;
    c->out = HTTP_OUT_UNTIL_CLOSE;
}

size_t http_credit(struct http_conn *c)
{
    /* A full gathering is handed over: the wire reports only what had to wait, so whoever asks now
     * and is told no would not be told yes if the socket took all of it later. */
    if (wire_is_full(c->wire))
        wire_send(c->wire);
    if (c->out == HTTP_OUT_AWAITS_CONTINUE || wire_is_blocked(c->wire)) {
        c->asked_credit = true;
        return 0;
    }
    return WIRE_FRAME_BYTES;
}

void http_send(struct http_conn *c, struct bytes piece)
{
    assert(c->out != HTTP_OUT_IDLE);
    assert(c->out != HTTP_OUT_AWAITS_CONTINUE);

    switch (c->out) {
    case HTTP_OUT_LENGTH:
        assert(piece.len <= c->out_left);
        c->out_left -= piece.len;
        buf_append(wire_buf(c->wire), piece);
        return;
    case HTTP_OUT_CHUNKED:
        http1_write_chunk(wire_buf(c->wire), piece);
        return;
    case HTTP_OUT_UNTIL_CLOSE:
        buf_append(wire_buf(c->wire), piece);
        return;
    case HTTP_OUT_IDLE:
    case HTTP_OUT_AWAITS_CONTINUE:
    case HTTP_OUT_NO_BODY:
    case HTTP_OUT_DONE: /* the exchange broke meanwhile: nobody reads it */
        return;
    }
    unreachable();
}

/* Answered, and the request is not whole: its rest is let pass, since the next one is behind it. */
static void discard_rest(struct http_conn *c)
{
    if (is_too_much_left(c)) {
        c->last = true;
        exchange_over(c);
        return;
    }
    c->in = HTTP_IN_DISCARD;
    c->unconsumed = 0;
    read_ahead(c);
    if (c->on)
        pause_or_resume(c);
}

void http_finish(struct http_conn *c)
{
    if (c->out == HTTP_OUT_DONE)
        return; /* it broke meanwhile */
    assert(c->out != HTTP_OUT_IDLE);
    assert(c->out != HTTP_OUT_AWAITS_CONTINUE);
    assert(c->out != HTTP_OUT_LENGTH || c->out_left == 0);

    if (c->out == HTTP_OUT_CHUNKED)
        http1_write_last_chunk(wire_buf(c->wire));
    c->out = HTTP_OUT_DONE;
    if (!is_server(c))
        return;
    if (c->in == HTTP_IN_MESSAGE) {
        discard_rest(c);
        return;
    }
    if (c->in == HTTP_IN_SWITCHED) {
        exchange_over(c);
        return;
    }
    assert(c->in == HTTP_IN_WHOLE);
    if (c->reading)
        return; /* message_whole, or the loop, sees to it */
    exchange_over(c);
    if (c->on) {
        read_ahead(c);
        pause_or_resume(c);
    }
}

/* --- asking --- */

struct bytes http_path(const struct http_conn *c)
{
    return c->path;
}

struct bytes http_query(const struct http_conn *c)
{
    struct bytes query;

    (void)http_path_of_target(c->reader.target, &query);
    return query;
}

void http_check(const struct http_conn *c)
{
    assert(c->unconsumed == 0 || c->in == HTTP_IN_MESSAGE || c->in == HTTP_IN_WHOLE ||
           c->in == HTTP_IN_SWITCHED || c->in == HTTP_IN_NOTHING || c->in == HTTP_IN_IDLE);
    assert(c->out != HTTP_OUT_AWAITS_CONTINUE || !is_server(c));
    assert(c->out_left == 0 || c->out == HTTP_OUT_LENGTH || c->out == HTTP_OUT_NO_BODY ||
           c->out == HTTP_OUT_AWAITS_CONTINUE || c->out == HTTP_OUT_DONE);
    assert(c->discarded == 0 || is_server(c));
    assert(c->interim <= HTTP_INTERIM_MAX + 1);
    assert(c->charged <= HTTP1_HEAD_BYTES_MAX - HTTP_HEAD_USUAL_BYTES);
    assert(!c->heads || c->charged <= c->heads->charged);
    if (!c->on)
        assert(c->ahead.len == 0);
}
