#include "io/tls.h"

#include "base/assert.h"
#include "base/logger.h"
#include "base/mem.h"
#include "io/io.h"
#include "io/tls_int.h"

#include <openssl/err.h>

static struct tls_conn *conn_of(struct conn *base)
{
    return container_of(base, struct tls_conn, base);
}

static struct tls *tls_of(struct net *base)
{
    return container_of(base, struct tls, base);
}

static void fail(struct tls_conn *c, enum err reason);
static void begin_some(struct tls *t);

static void work_soon(struct tls_conn *c)
{
    if (!c->work.queued)
        inbox_put(c->tls->io->inbox, &c->work);
}

/* --- what leaves --- */

static void on_left(struct conn_write *w, enum err e);

/* What the kernel does not take at once has to stay where it is until it does. */
static void send_held(struct tls_conn *c)
{
    if (c->leaving.len > 0 || c->held.len == 0 || !c->lower)
        return;
    size_t taken = conn_try_write(c->lower, buf_bytes(&c->held));
    if (taken == c->held.len) {
        buf_free(&c->held);
        return;
    }
    c->leaving = c->held;
    c->held = (struct buf){0};
    c->piece = bytes_of(c->leaving.at + taken, c->leaving.len - taken);
    c->write = (struct conn_write){.pieces = &c->piece, .piece_count = 1, .on_done = on_left};
    conn_write(c->lower, &c->write);
}

/* Mostly the kernel takes all of it, and the buffer serves the next connection. */
static void send_cipher(struct tls_conn *c)
{
    struct bytes all = buf_bytes(&c->tls->cipher);
    bool is_free = c->leaving.len == 0 && c->held.len == 0;
    size_t taken = is_free && all.len > 0 ? conn_try_write(c->lower, all) : 0;

    if (taken < all.len)
        buf_append(&c->held, bytes_of(all.at + taken, all.len - taken));
    buf_clear(&c->tls->cipher);
    send_held(c);
}

static bool is_leaving(const struct tls_conn *c)
{
    return c->leaving.len > 0 || c->held.len > 0;
}

/* One record. Nothing that SSL could want keeps it from taking all of it. */
static void encrypt(struct tls_conn *c, struct bytes what)
{
    size_t written;

    assert(what.len > 0);
    assert(what.len <= TLS_RECORD_BYTES);
    ERR_clear_error();
    if (SSL_write_ex(c->ssl, what.at, what.len, &written) != 1 || written != what.len) {
        fail(c, ERR_IO);
        return;
    }
    send_cipher(c);
}

/* The next record's content, from one piece or gathered from several. */
static struct bytes next_record(struct tls_conn *c)
{
    struct bytes pieces[IO_PIECES_AT_ONCE_MAX];
    size_t count = conn_queue_peek(&c->queue, pieces, IO_PIECES_AT_ONCE_MAX), len = 0;

    if (count == 1 || pieces[0].len >= TLS_RECORD_BYTES) {
        len = pieces[0].len < TLS_RECORD_BYTES ? pieces[0].len : TLS_RECORD_BYTES;
        return bytes_of(pieces[0].at, len);
    }
    for (size_t i = 0; i < count && len < TLS_RECORD_BYTES; i++) {
        size_t space = TLS_RECORD_BYTES - len;
        size_t part = pieces[i].len < space ? pieces[i].len : space;
        memcpy(c->tls->plain + len, pieces[i].at, part);
        len += part;
    }
    return bytes_of(c->tls->plain, len);
}

static void say_goodbye(struct tls_conn *c)
{
    if (c->shutdown_sent)
        return;
    c->shutdown_sent = true;
    ERR_clear_error();
    (void)SSL_shutdown(c->ssl); /* it only writes; what is wrong otherwise, reading tells */
    send_cipher(c);
}

static void send_queued(struct tls_conn *c)
{
    if (c->phase != TLS_OPEN || c->closing)
        return;
    conn_queue_sent(&c->queue, 0, c->tls->io->inbox); /* writes that have no bytes */
    while (c->queue.bytes > 0 && !is_leaving(c) && !c->closing) {
        struct bytes record = next_record(c);
        encrypt(c, record);
        if (c->closing)
            return;
        if (is_leaving(c))
            c->leaving_plain = record.len;
        else
            conn_queue_sent(&c->queue, record.len, c->tls->io->inbox);
    }
    if (c->shutdown_wanted && !c->shutdown_sent && c->queue.bytes == 0 && !is_leaving(c)) {
        say_goodbye(c);
        conn_shutdown(c->lower);
    }
}

static void on_left(struct conn_write *w, enum err e)
{
    struct tls_conn *c = container_of(w, struct tls_conn, write);

    buf_free(&c->leaving);
    if (e != ERR_OK || c->closing || c->phase == TLS_STEPPING)
        return; /* on_closed will tell; or a job has what is held, and it goes when that reports */
    send_held(c);
    if (is_leaving(c))
        return;
    size_t done = c->leaving_plain;
    c->leaving_plain = 0;
    conn_queue_sent(&c->queue, done, c->tls->io->inbox);
    send_queued(c);
}

static void write_queued(struct conn *base, struct conn_write *w)
{
    struct tls_conn *c = conn_of(base);

    assert(!c->shutdown_wanted);
    conn_queue_add(&c->queue, w);
    if (c->closing)
        conn_queue_cancel(&c->queue, c->tls->io->inbox);
    else
        work_soon(c); /* with whatever else this turn writes: in one record */
}

static size_t try_write(struct conn *base, struct bytes what)
{
    struct tls_conn *c = conn_of(base);
    size_t taken = 0;

    assert(!c->shutdown_wanted);
    if (c->phase != TLS_OPEN || c->queue.bytes > 0)
        return 0;
    while (taken < what.len && !is_leaving(c) && !c->closing) {
        size_t left = what.len - taken;
        size_t part = left < TLS_RECORD_BYTES ? left : TLS_RECORD_BYTES;
        encrypt(c, bytes_of(what.at + taken, part));
        if (!c->closing)
            taken += part;
    }
    return taken;
}

static size_t write_credit(const struct conn *base)
{
    const struct tls_conn *c = container_of(base, struct tls_conn, base);

    return c->phase != TLS_OPEN || c->closing || is_leaving(c) ? 0 : conn_write_credit(c->lower);
}

static size_t queued_bytes(const struct conn *base)
{
    return container_of(base, struct tls_conn, base)->queue.bytes;
}

static void shutdown_after_writes(struct conn *base)
{
    struct tls_conn *c = conn_of(base);

    c->shutdown_wanted = true;
    if (!c->closing)
        work_soon(c);
}

/* --- what comes in --- */

static void tell_end(struct tls_conn *c)
{
    if (!c->ended || c->end_shown || c->paused || c->closing)
        return;
    c->end_shown = true;
    if (c->base.on->on_end)
        c->base.on->on_end(&c->base);
}

/* To keep it from being asked about its keys without end, nobody is answered who does not read. */
static bool answers_too_much(const struct tls_conn *c)
{
    return c->held.len > TLS_HELD_BYTES_MAX;
}

/* By TLS 1.3 whoever connects thinks that he is in, and hears only then that he is not wanted. */
static void fail_to_read(struct tls_conn *c, int error)
{
    tls_describe_error(c, error);
    c->base.info.failure = buf_str(&c->why);
    fail(c, ERR_MALFORMED);
}

/* A new key, or an alert. Our goodbye was the last that goes out, though whoever lingers is heard,
 * and SSL answers him still: that is dropped, as the connection below takes no more. */
static void send_answer(struct tls_conn *c)
{
    if (c->shutdown_sent)
        buf_clear(&c->tls->cipher);
    else
        send_cipher(c);
}

static void read_record(struct tls_conn *c)
{
    size_t got;

    ERR_clear_error();
    int result = SSL_read_ex(c->ssl, c->tls->plain, TLS_RECORD_BYTES, &got);
    int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(c->ssl, result);
    if (c->tls->cipher.len > 0)
        send_answer(c);
    if (result == 1)
        c->base.on->on_data(&c->base, bytes_of(c->tls->plain, got));
    else if (error == SSL_ERROR_ZERO_RETURN)
        c->ended = true;
    else if (error != SSL_ERROR_WANT_READ)
        fail_to_read(c, error);
    if (!c->closing && answers_too_much(c))
        fail(c, ERR_TOO_LARGE);
}

/* A record that is not whole yet SSL keeps itself. */
static void read_input(struct tls_conn *c)
{
    while (c->input.len > 0 && !c->paused && !c->ended && !c->closing)
        read_record(c);
    if (c->ended)
        c->input = (struct bytes){0}; /* nothing counts after goodbye */
}

static void keep(struct tls_conn *c, struct bytes what)
{
    struct buf kept = {0};

    buf_reserve(&kept, what.len);
    buf_append(&kept, what);
    buf_free(&c->kept);
    c->kept = kept;
    c->input = buf_bytes(&c->kept);
}

static void read_kept(struct tls_conn *c)
{
    if (c->kept.len == 0)
        return;
    read_input(c);
    if (c->input.len == 0 || c->closing)
        buf_free(&c->kept);
}

/* In the inbox: what a resumed connection has kept, and what the turn has written. */
static void work(struct event *e)
{
    struct tls_conn *c = container_of(e, struct tls_conn, work);

    if (c->phase != TLS_OPEN || c->closing)
        return;
    read_kept(c);
    tell_end(c);
    if (!c->closing && !c->paused && c->kept.len == 0)
        conn_resume(c->lower);
    send_queued(c);
}

static void pause_reading(struct conn *base)
{
    struct tls_conn *c = conn_of(base);

    c->paused = true;
    if (c->phase == TLS_OPEN && !c->closing)
        conn_pause(c->lower);
}

static void resume_reading(struct conn *base)
{
    struct tls_conn *c = conn_of(base);

    c->paused = false;
    if (c->phase == TLS_OPEN && !c->closing)
        work_soon(c);
}

/* --- the end --- */

static void leave_handshake(struct tls_conn *c)
{
    bool was_under_way = c->listener && (c->phase == TLS_HALF || c->phase == TLS_READY ||
                                         c->phase == TLS_STEPPING || c->phase == TLS_CHECKING);

    list_remove(&c->link);
    timer_stop(c->tls->io->clock, &c->timer);
    tls_san_leave(c);
    c->tls->under_way -= was_under_way;
    if (c->phase != TLS_OPEN)
        c->phase = TLS_OVER;
}

static void listener_free_if_unused(struct tls_listener *l)
{
    if (!l->is_closed || l->conns > 0)
        return;
    l->tls->listeners--;
    mem_free(l);
}

static void finish(struct event *e)
{
    struct tls_conn *c = container_of(e, struct tls_conn, gone);
    struct tls *t = c->tls;
    struct tls_listener *l = c->listener;

    /* A write queued since is behind us in the inbox, and must be told first. */
    if (c->queue.unreported > 0 || c->work.queued) {
        inbox_put(t->io->inbox, e);
        return;
    }
    if (c->base.on)
        c->base.on->on_closed(&c->base, c->reason);
    assert(list_empty(&c->link));
    assert(c->queue.unreported == 0);
    SSL_free(c->ssl);
    X509_free(c->refused);
    buf_free(&c->kept);
    buf_free(&c->leaving);
    buf_free(&c->held);
    buf_free(&c->why);
    arena_free(&c->names);
    mem_free(c);
    t->conns--;
    if (l) {
        l->conns--;
        listener_free_if_unused(l);
    }
}

static void finish_if_over(struct tls_conn *c)
{
    if (!c->lower && c->closing && c->phase != TLS_STEPPING && !c->gone.queued)
        inbox_put(c->tls->io->inbox, &c->gone);
}

static void close_quietly(struct tls_conn *c, enum err reason)
{
    struct tls *t = c->tls;
    bool is_stepping = c->phase == TLS_STEPPING; /* then the job still has it */

    c->closing = true;
    c->reason = reason;
    if (!is_stepping)
        leave_handshake(c);
    timer_stop(t->io->clock, &c->timer);
    conn_queue_cancel(&c->queue, t->io->inbox);
}

static void fail(struct tls_conn *c, enum err reason)
{
    if (c->closing)
        return;
    /* Who reads on is told that nothing is missing. Of what has not left, there is. */
    if (c->phase == TLS_OPEN && c->queue.bytes == 0 && !is_leaving(c))
        say_goodbye(c);
    close_quietly(c, reason);
    if (c->lower)
        conn_close(c->lower, reason);
    begin_some(c->tls);
}

static void close_now(struct conn *base, enum err reason)
{
    fail(conn_of(base), reason);
}

/* Whoever leaves before he has said anything is no news. */
static void log_rejected(struct tls_conn *c, const char *why)
{
    struct tls *t = c->tls;
    enum log_level level = strcmp(why, "EOF") == 0 ? LOG_DEBUG : LOG_WARN;
    const char *name = c->ssl && c->phase != TLS_STEPPING
                           ? SSL_get_servername(c->ssl, TLSEXT_NAMETYPE_host_name)
                           : NULL;
    struct log_field fields[5] = {LOG_STR("remote-addr", c->base.info.remote),
                                  LOG_STR("server-name", name ? name : "")};
    size_t count = 2;
    struct tls_sans sans;

    if (!t->options.logger || !log_takes(t->options.logger, level, LOG_CALLER))
        return;
    if (c->phase != TLS_STEPPING && c->refused) {
        tls_sans_of(c, c->refused, &sans);
        fields[count++] = LOG_TEXTS("ip-addresses", sans.ips, sans.ip_count);
        fields[count++] = LOG_TEXTS("dns-names", sans.hosts, sans.host_count);
    }
    fields[count++] = LOG_STR("error", why);
    log_write(t->options.logger, level, LOG_CALLER, t->options.rejected, fields, count);
}

/* Of one that we make its owner is told: he knows what it was for, and how often he has tried. */
static void reject(struct tls_conn *c, const char *why, enum err reason)
{
    if (c->listener)
        log_rejected(c, why);
    c->base.info.failure = why;
    fail(c, reason);
}

/* Of files that were good at the start, and are not now, the log has a line of its own. */
static void log_unusable_files(struct tls_conn *c)
{
    const struct tls *t = c->tls;
    const struct tls_identity *files = c->listener ? &t->serving : &t->dialling;
    bool is_missing = strstr(buf_str(&c->why), "no such file or directory") != NULL;
    const char *message = c->listener ? (is_missing ? "failed to find peer cert files"
                                                    : "failed to create peer certificate")
                                      : (is_missing ? "failed to find client cert files"
                                                    : "failed to create client certificate");

    if (c->ssl || !t->options.logger || !log_takes(t->options.logger, LOG_WARN, LOG_CALLER))
        return;
    log_write(t->options.logger, LOG_WARN, LOG_CALLER, message,
              (const struct log_field[]){LOG_STR("cert-file", files->cert_file),
                                         LOG_STR("key-file", files->key_file),
                                         LOG_BYTES("error", buf_bytes(&c->why))},
              3);
}

/* --- handshakes --- */

static void submit_some(struct tls *t)
{
    while (t->jobs < TLS_JOBS_MAX && !list_empty(&t->ready)) {
        struct tls_conn *c = container_of(list_pop_front(&t->ready), struct tls_conn, link);
        assert(c->phase == TLS_READY);
        c->phase = TLS_STEPPING;
        c->output = &c->held;
        t->jobs++;
        job_submit(t->io->handshakes, &c->job);
    }
}

static void make_ready(struct tls_conn *c)
{
    list_remove(&c->link);
    conn_set_waits(&c->base, true);
    c->phase = TLS_READY;
    list_push_back(&c->tls->ready, &c->link);
    submit_some(c->tls);
}

static void await_bytes(struct tls_conn *c)
{
    conn_set_waits(&c->base, false);
    c->phase = TLS_HALF;
    c->since_ns = clock_now_ns(c->tls->io->clock);
    list_push_back(&c->tls->halves, &c->link);
    conn_resume(c->lower);
}

/* Is there space for one more? Whoever has kept us waiting for long makes some. */
static bool make_space(struct tls *t)
{
    if (t->under_way < TLS_HANDSHAKES_MAX)
        return true;
    LIST_FOREACH (link, &t->halves) {
        struct tls_conn *c = container_of(link, struct tls_conn, link);
        uint64_t due_ns = c->since_ns + TLS_PATIENCE_MS * NS_PER_MS;

        if (!c->listener)
            continue; /* one of ours */
        if (clock_now_ns(t->io->clock) < due_ns) {
            timer_start_at(t->io->clock, &t->patience, due_ns);
            return false;
        }
        reject(c, "tls: too many handshakes are under way", ERR_BUSY);
        return t->under_way < TLS_HANDSHAKES_MAX;
    }
    return false; /* all of them wait for us */
}

static void begin_some(struct tls *t)
{
    if (t->is_beginning)
        return;
    t->is_beginning = true;
    while (!list_empty(&t->unread) && make_space(t)) {
        struct tls_conn *c = container_of(list_pop_front(&t->unread), struct tls_conn, link);
        t->under_way++;
        await_bytes(c);
    }
    t->is_beginning = false;
}

static void on_patience(struct timer *timer)
{
    begin_some(container_of(timer, struct tls, patience));
}

static void opened(struct tls_conn *c)
{
    struct tls_listener *l = c->listener;

    leave_handshake(c);
    conn_set_waits(&c->base, false);
    c->phase = TLS_OPEN;
    c->output = &c->tls->cipher;
    c->base.info.tls = true;
    if (c->base.info.cn)
        conn_prove(&c->base,
                   conn_owner_of_names(c->base.info.cn, c->base.info.sans, c->base.info.san_count));
    if (l) {
        c->listener = NULL;
        l->conns--;
        c->paused = true; /* until it is accepted */
        l->base.options.on_accept(&l->base, &c->base);
        assert(c->base.on || c->closing);
    } else {
        if (c->base.on->on_open)
            c->base.on->on_open(&c->base);
        work_soon(c);
    }
    begin_some(c->tls);
}

/* Whom the address is looked up of is not read meanwhile. */
static void check_address(struct tls_conn *c)
{
    c->phase = TLS_CHECKING;
    list_push_back(&c->tls->checks, &c->link);
    tls_san_look_up(c);
}

void tls_san_checked(struct tls_conn *c, bool is_good)
{
    assert(c->phase == TLS_CHECKING);
    if (is_good) {
        opened(c);
        return;
    }
    tls_refuse(c, SSL_get0_peer_certificate(c->ssl));
    reject(c, buf_str(&c->why), ERR_DENIED);
}

static void stepped(struct job *j)
{
    struct tls_conn *c = container_of(j, struct tls_conn, job);
    struct tls *t = c->tls;

    t->jobs--;
    assert(c->phase == TLS_STEPPING);
    c->phase = TLS_READY;
    if (c->listener && c->listener->is_closed)
        fail(c, ERR_CANCELED);
    if (c->closing) {
        leave_handshake(c);
        finish_if_over(c);
        begin_some(t);
    } else {
        send_held(c); /* an alert, too, which says why */
        if (c->step == TLS_STEP_DONE && c->san) {
            check_address(c);
        } else if (c->step == TLS_STEP_DONE) {
            opened(c);
        } else if (c->step == TLS_STEP_FAILED) {
            log_unusable_files(c);
            reject(c, buf_str(&c->why), ERR_DENIED);
        } else if (c->input.len > 0) {
            make_ready(c);
        } else {
            buf_free(&c->kept);
            await_bytes(c);
        }
    }
    submit_some(t);
}

/* Says before a job is spent on it that this is no TLS at all: the type of a record comes first. */
static bool looks_like_tls(const struct tls_conn *c, struct bytes data)
{
    return c->ssl || c->kept.len > 0 || data.at[0] == TLS_RECORD_HANDSHAKE ||
           data.at[0] == TLS_RECORD_ALERT;
}

/* As of a handshake: what comes is kept until somebody looks at it. */
static void gather(struct tls_conn *c, struct bytes data)
{
    buf_append(&c->kept, data);
    c->input = buf_bytes(&c->kept);
}

/* Of whoever connects the first record has to be whole: SSL has 50 KB for each that it has begun
 * with, and whoever sends half of one may never send the rest. What is too long SSL will refuse. */
static bool is_worth_a_step(const struct tls_conn *c)
{
    const uint8_t *at = c->input.at;

    if (c->ssl)
        return true;
    if (c->input.len < TLS_HEAD_BYTES)
        return false;
    size_t content = (size_t)at[3] << 8 | at[4];
    return content > TLS_RECORD_BYTES || c->input.len - TLS_HEAD_BYTES >= content;
}

static void on_time(struct timer *timer)
{
    reject(container_of(timer, struct tls_conn, timer), "i/o timeout", ERR_TIMEOUT);
}

/* --- the connection below --- */

static void on_lower_open(struct conn *lower)
{
    struct tls_conn *c = lower->context;

    conn_pause(lower);
    if (!c->closing)
        make_ready(c);
}

static void on_lower_data(struct conn *lower, struct bytes data)
{
    struct tls_conn *c = lower->context;

    if (c->closing)
        return;
    if (c->phase == TLS_OPEN && c->kept.len == 0) {
        c->input = data;
        read_input(c);
        if (c->input.len > 0 && !c->closing) {
            keep(c, c->input);
            conn_pause(lower);
        }
        if (!c->closing)
            tell_end(c);
        return;
    }
    assert(c->phase == TLS_HALF);
    if (!looks_like_tls(c, data)) {
        reject(c, "tls: first record does not look like a TLS handshake", ERR_MALFORMED);
        return;
    }
    gather(c, data);
    if (!is_worth_a_step(c))
        return;
    conn_pause(lower); /* the job looks at what is kept */
    make_ready(c);
}

static void on_lower_end(struct conn *lower)
{
    struct tls_conn *c = lower->context;

    if (c->closing)
        return;
    if (c->phase != TLS_OPEN)
        reject(c, "EOF", ERR_END);
    else if (!c->ended)
        fail(c, ERR_RESET);
}

static void on_lower_closed(struct conn *lower, enum err reason)
{
    struct tls_conn *c = lower->context;

    c->lower = NULL;
    c->base.admission = NULL;
    if (!c->closing && c->phase != TLS_OPEN)
        reject(c, reason == ERR_END ? "EOF" : err_text(reason), reason);
    else if (!c->closing)
        close_quietly(c, reason);
    finish_if_over(c);
}

static const struct conn_handlers lower_handlers = {.on_open = on_lower_open,
                                                    .on_data = on_lower_data,
                                                    .on_end = on_lower_end,
                                                    .on_closed = on_lower_closed};

static struct tls_conn *tls_conn_new(struct tls *t)
{
    static const struct conn_ops ops = {
        .write = write_queued,
        .try_write = try_write,
        .write_credit = write_credit,
        .queued_bytes = queued_bytes,
        .pause = pause_reading,
        .resume = resume_reading,
        .shutdown = shutdown_after_writes,
        .close = close_now,
    };
    struct tls_conn *c = mem_new(struct tls_conn);

    c->base.ops = &ops;
    c->tls = t;
    c->work.run = work;
    c->gone.run = finish;
    c->timer.on_time = on_time;
    c->job = (struct job){.run = tls_step, .on_done = stepped};
    conn_queue_init(&c->queue);
    list_init(&c->link);
    t->conns++;
    timer_start(t->io->clock, &c->timer, TLS_HANDSHAKE_MS * NS_PER_MS);
    return c;
}

/* --- a net --- */

static void on_lower_accept(struct listener *lower, struct conn *below)
{
    struct tls_listener *l = lower->options.context;
    struct tls *t = l->tls;
    struct tls_conn *c = tls_conn_new(t);

    c->listener = l;
    c->lower = below;
    memcpy(c->base.info.remote, below->info.remote, sizeof(c->base.info.remote));
    c->base.admission = below->admission;
    l->conns++;
    c->phase = TLS_UNREAD;
    list_push_back(&t->unread, &c->link);
    conn_accept(below, &lower_handlers, c);
    conn_pause(below);
    begin_some(t);
}

static void on_lower_failed(struct listener *lower, enum err e)
{
    struct tls_listener *l = lower->options.context;

    if (l->base.options.on_failed)
        l->base.options.on_failed(&l->base, e);
}

static enum err listen_at(struct net *base, const struct net_address *a,
                          const struct listener_options *options, struct listener **out)
{
    struct tls *t = tls_of(base);
    struct listener_options below = *options;
    struct tls_listener *l = mem_new(struct tls_listener);

    assert(t->serving.context);
    l->tls = t;
    below.on_accept = on_lower_accept;
    below.on_failed = on_lower_failed;
    below.context = l;
    enum err e = net_listen(t->io->net, a, &below, &l->lower);
    if (e != ERR_OK) {
        mem_free(l);
        return e;
    }
    l->base = (struct listener){.net = base, .options = *options, .address = l->lower->address};
    list_init(&l->base.waiting);
    t->listeners++;
    *out = &l->base;
    return ERR_OK;
}

static void close_those_of(struct tls_listener *l, struct list *conns)
{
    LIST_FOREACH (link, conns) {
        struct tls_conn *c = container_of(link, struct tls_conn, link);
        if (c->listener == l)
            fail(c, ERR_CANCELED);
    }
}

static void close_listener(struct listener *base)
{
    struct tls_listener *l = container_of(base, struct tls_listener, base);
    struct tls *t = l->tls;

    assert(!l->is_closed);
    l->is_closed = true;
    listener_close(l->lower);
    t->is_beginning = true; /* the lists stay as they are meanwhile */
    close_those_of(l, &t->unread);
    close_those_of(l, &t->halves);
    close_those_of(l, &t->ready); /* those that a job has are closed when it reports */
    close_those_of(l, &t->checks);
    t->is_beginning = false;
    begin_some(t);
    listener_free_if_unused(l);
}

struct conn *tls_connect(struct tls *t, const struct net_address *a, const char *host,
                         const struct conn_handlers *on, void *context)
{
    struct tls_conn *c = tls_conn_new(t);

    c->base.on = on;
    c->base.context = context;
    c->phase = TLS_CONNECTING;
    c->host = arena_printf(&c->names, "%s", host);
    c->lower = net_connect(t->io->net, a, &lower_handlers, c);
    memcpy(c->base.info.remote, c->lower->info.remote, sizeof(c->base.info.remote));
    return &c->base;
}

static struct conn *connect_to(struct net *base, const struct net_address *a,
                               const struct conn_handlers *on, void *context)
{
    struct net_address place = *a;
    char text[NET_TEXT_MAX];

    net_address_text(&place, text);
    char *colon = strrchr(text, ':');
    if (colon && a->family != NET_UNIX)
        *colon = 0;
    bool has_brackets = text[0] == '[';
    if (has_brackets)
        text[strlen(text) - 1] = 0;
    return tls_connect(tls_of(base), a, text + has_brackets, on, context);
}

/* --- life --- */

bool tls_open(const struct tls_options *options, struct buf *why, struct tls **out)
{
    static const struct net_ops ops = {
        .listen = listen_at,
        .listener_close = close_listener,
        /* Nobody asks ours to look: the listener below it is the one that waits. */
        .connect = connect_to,
    };
    struct tls *t = mem_new(struct tls);

    t->base.ops = &ops;
    t->options = *options;
    t->io = options->io;
    t->patience.on_time = on_patience;
    list_init(&t->ready);
    list_init(&t->halves);
    list_init(&t->unread);
    list_init(&t->checks);
    t->plain = mem_alloc(TLS_RECORD_BYTES);
    if (!tls_contexts_open(t, why)) {
        tls_close(t);
        return false;
    }
    *out = t;
    return true;
}

struct net *tls_net(struct tls *t)
{
    return &t->base;
}

bool tls_is_idle(const struct tls *t)
{
    return t->conns == 0 && t->listeners == 0 && t->sans == 0;
}

void tls_close(struct tls *t)
{
    if (!t)
        return;
    assert(tls_is_idle(t));
    assert(t->jobs == 0);
    timer_stop(t->io->clock, &t->patience);
    tls_contexts_close(t);
    buf_free(&t->cipher);
    mem_free(t->plain);
    mem_free(t);
}

void tls_check(const struct tls *t)
{
    assert(t->jobs <= TLS_JOBS_MAX);
    assert(t->under_way <= TLS_HANDSHAKES_MAX);
    assert(t->under_way <= t->conns);
    assert(t->jobs == TLS_JOBS_MAX || list_empty(&t->ready));
}
