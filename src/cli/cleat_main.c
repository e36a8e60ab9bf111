/*
 * cleat: the daemon.
 *
 * Reads the flags, opens the log and the world, and runs a server in it until it is told to stop:
 * SIGTERM or SIGINT once for a graceful end, a second time for an immediate one. Of the other
 * signals it ignores those that etcd ignores.
 */
#include "base/assert.h"
#include "base/buf.h"
#include "base/sanitized.h"
#include "base/text.h"
#include "cli/log_file.h"
#include "cli/log_journal.h"
#include "cluster/urls.h"
#include "config/config.h"
#include "io/loop.h"
#include "io/net.h"
#include "io/worker.h"
#include "server/server.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct daemon {
    struct config config;
    struct logger logger;
    struct log_samples samples;
    int screens[CONFIG_LOG_OUTPUTS_MAX + 1]; /* standard output or error; one more for a refusal */
    struct log_file files[CONFIG_LOG_OUTPUTS_MAX];
    size_t screen_count, file_count;
    struct log_journal journal;
    bool has_journal;
    struct loop *loop;
    struct server *server;
    struct loop_signal terminate, interrupt;
    struct job prepare; /* memory, for the keys to come */
    bool is_preparing;
    int ended_by; /* the signal; 0: none */
};

static struct daemon d; /* signals have no other way to find it */

/* --- the log --- */

static int64_t wall_clock(void *context)
{
    struct timespec now;

    (void)context;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void write_line(void *context, struct bytes line)
{
    struct daemon *of = context;

    for (size_t i = 0; i < of->screen_count; i++)
        log_sink_fd(&of->screens[i], line);
    for (size_t i = 0; i < of->file_count; i++)
        log_file_write(&of->files[i], line, wall_clock(NULL));
    if (of->has_journal)
        log_journal_write(&of->journal, line);
}

static bool open_output(struct bytes name)
{
    bool is_error = bytes_equal(name, BYTES("stderr"));

    assert(d.screen_count < ARRAY_LEN(d.screens));
    assert(d.file_count < ARRAY_LEN(d.files));
    if (is_error || bytes_equal(name, BYTES("stdout"))) {
        d.screens[d.screen_count++] = is_error ? STDERR_FILENO : STDOUT_FILENO;
        return true;
    }
    if (bytes_equal(name, BYTES("systemd/journal")))
        return d.has_journal =
                   log_journal_open(&d.journal, LOG_JOURNAL_PATH, program_invocation_short_name);
    const char *path = arena_copy_str(&d.config.arena, name);
    if (!log_file_open(&d.files[d.file_count], path, &d.config.log_rotation))
        return false;
    d.file_count++;
    return true;
}

static void explain_output(struct bytes name, struct buf *why)
{
    const char *reason = strerror(errno);

    if (bytes_equal(name, BYTES("systemd/journal"))) {
        buf_printf(why, "can't find journal (dial unixgram " LOG_JOURNAL_PATH ": connect: %s)",
                   reason);
        return;
    }
    buf_append_str(why, "open sink ");
    text_append_quoted(why, name);
    buf_printf(why, ": open %.*s: %s", (int)name.len, (const char *)name.at, reason);
}

/* Opens what can be opened. False, and *why tells of the first output that could not. */
static bool open_log(struct buf *why)
{
    size_t before = why->len;

    d.logger = (struct logger){.level = d.config.log_level,
                               .format = d.config.log_format,
                               .sink = write_line,
                               .sink_context = &d,
                               .clock = wall_clock,
                               .samples = &d.samples};
    for (size_t i = 0; i < d.config.log_outputs.count; i++) {
        struct bytes name = d.config.log_outputs.at[i];
        if (!open_output(name) && why->len == before)
            explain_output(name, why);
    }
    return why->len == before;
}

static void close_log(void)
{
    for (size_t i = 0; i < d.file_count; i++)
        log_file_close(&d.files[i]);
    if (d.has_journal)
        log_journal_close(&d.journal);
}

static void log_notes(void)
{
    for (size_t i = 0; i < d.config.note_count; i++) {
        const struct config_note *note = &d.config.notes[i];
        struct log_field fields[ARRAY_LEN(note->fields)];
        size_t count = 0;

        while (count < ARRAY_LEN(note->fields) && note->fields[count].key) {
            fields[count] = LOG_STR(note->fields[count].key, note->fields[count].value);
            count++;
        }
        if (d.logger.level <= note->level)
            log_write(&d.logger, note->level, LOG_CALLER, note->message, fields, count);
    }
}

/* --- running --- */

static void on_signal(struct loop_signal *s)
{
    log_info(&d.logger, "received signal; shutting down",
             LOG_STR("signal", s->number == SIGTERM ? "terminated" : "interrupt"));
    d.ended_by = s->number;
    signal(SIGTERM, SIG_DFL); /* whoever insists gets his way */
    signal(SIGINT, SIG_DFL);
    server_stop(d.server);
}

/* Nothing is tidied up: what memory holds and what the disk has kept may differ. */
static void on_failed(void *context, const char *text)
{
    (void)context;
    log_write(&d.logger, LOG_FATAL, LOG_CALLER, "the server cannot go on",
              (const struct log_field[]){LOG_STR("error", text)}, 1);
    _Exit(1);
}

/*
 * What sd_notify(3) does: systemd waits for this datagram if the unit says Type=notify. An address
 * that begins with @ is an abstract one. Whoever is not waited for has no such variable.
 */
static void notify_init(void *context)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;

    (void)context;
    if (len == 0)
        return;
    log_info(&d.logger, "notifying init daemon");
    int fd = len < sizeof(to.sun_path) ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    memcpy(to.sun_path, path, fd >= 0 ? len : 0);
    if (path[0] == '@')
        to.sun_path[0] = 0;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    bool sent =
        fd >= 0 && sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (const struct sockaddr *)&to, size) == 7;
    int error = fd >= 0 ? errno : ENAMETOOLONG;
    if (fd >= 0)
        close(fd);
    if (sent)
        log_info(&d.logger, "successfully notified init daemon");
    else
        log_write(&d.logger, LOG_ERROR, LOG_CALLER, "failed to notify systemd for readiness",
                  (const struct log_field[]){LOG_STR("error", strerror(error))}, 1);
}

static void prepare(struct job *j)
{
    (void)j;
    mem_prepare_region();
}

static void prepared(struct job *j)
{
    (void)j;
    d.is_preparing = false;
}

static void prepare_memory(void)
{
    if (!mem_wants_region() || d.is_preparing)
        return;
    d.is_preparing = true;
    d.prepare = (struct job){.run = prepare, .on_done = prepared};
    job_submit(loop_io(d.loop)->workers, &d.prepare);
}

static void turn(void *context)
{
    struct server *server = context;

    server_turn(server);
    if (!server_has_stopped(server))
        prepare_memory();
    else if (!d.is_preparing)
        loop_stop(d.loop);
}

/*
 * Operators' scripts send a signal to "have the log reopened" or "dump the state", and timers and
 * limits of the system send others. What the system does by default is to end the process; Go's
 * runtime ignores these, and so etcd does. Where somebody has taken one for himself already, as
 * profilers that are loaded with the program do, it is his.
 */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGUSR1,   SIGUSR2, SIGALRM, SIGXCPU, SIGXFSZ,
                                  SIGVTALRM, SIGPROF, SIGIO,   SIGPWR};
    size_t count = ARRAY_LEN(ignored);
    struct sigaction now;

    for (size_t i = 0; i < count + (size_t)(SIGRTMAX - SIGRTMIN); i++) {
        int number = i < count ? ignored[i] : SIGRTMIN + 1 + (int)(i - count);
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            signal(number, SIG_IGN);
    }
}

static enum err watch_signals(void)
{
    d.terminate = (struct loop_signal){.number = SIGTERM, .on_signal = on_signal};
    d.interrupt = (struct loop_signal){.number = SIGINT, .on_signal = on_signal};
    enum err e = loop_watch_signal(d.loop, &d.terminate);
    return e == ERR_OK ? loop_watch_signal(d.loop, &d.interrupt) : e;
}

/*
 * Carrying the bytes of a put costs about as much as all else, and three times that by TLS. So one
 * thread more keeps the core busy, four do by TLS; and two cores are shared with the log and the
 * store, where another thread only adds the cost of waking it.
 */
static unsigned io_threads(void)
{
    unsigned cores = loop_cores();

    if (d.config.io_threads >= 0)
        return (unsigned)d.config.io_threads;
    return cores <= 2 ? 0 : cores < 8 ? 1 : cores < 16 ? 2 : 4;
}

static bool is_of_this_machine_alone(const struct net_address *a)
{
    static const uint8_t unspecified[16], loopback[16] = {[15] = 1};

    if (a->family == NET_IP4)
        return a->ip[0] == 127 || memcmp(a->ip, unspecified, 4) == 0;
    return memcmp(a->ip, unspecified, 16) == 0 || memcmp(a->ip, loopback, 16) == 0;
}

/* The host of the URL, if it is an address that will do; NULL otherwise. */
static const char *suitable_host(struct bytes text, struct arena *arena, struct net_address *out)
{
    struct buf why = {0};
    struct url url;
    bool is_url = url_parse(text, arena, &why, &url);

    buf_free(&why);
    if (!is_url || url_scheme_is_unix(url.scheme))
        return NULL;
    const char *host = arena_copy_str(arena, url.host);
    bool is_number = net_address_of_host(host, 0, out) == ERR_OK;
    return is_number && !is_of_this_machine_alone(out) ? host : NULL;
}

/* The first address that the others know, and that they can tell apart from their own. Where there
 * is none, the system chooses, as without the gate. */
static void set_member_local_addr(void)
{
    struct url_list urls = d.config.advertise_peers;
    struct log_field field = LOG_TEXTS("advertise-peer-urls", urls.at, urls.count);
    struct net_address local;
    struct arena arena = {0};
    const char *host = NULL;

    log_info(&d.logger, "searching for a suitable member local address in AdvertisePeerURLs",
             field);
    for (size_t i = 0; i < urls.count && !host; i++)
        host = suitable_host(urls.at[i], &arena, &local);
    if (host) {
        log_info(&d.logger, "setting member local address", LOG_STR("LocalAddr", host));
        loop_connect_from(d.loop, &local);
    } else {
        log_warn(&d.logger,
                 "unable to set a member local address due to lack of suitable local addresses",
                 field);
    }
    arena_free(&arena);
}

/* The first line of the reason is for the log; a second one tells people what to do. */
static void report_failed_start(const struct buf *why, enum err e)
{
    struct bytes reason = why->len ? buf_bytes(why) : bytes_of_str(err_text(e));
    const uint8_t *newline = memchr(reason.at, '\n', reason.len);
    size_t len = newline ? (size_t)(newline - reason.at) : reason.len;

    log_write(&d.logger, LOG_FATAL, LOG_CALLER, "failed to start",
              (const struct log_field[]){LOG_BYTES("error", ((struct bytes){reason.at, len}))}, 1);
    if (newline)
        fprintf(stderr, "cleat: %.*s\n", (int)(reason.len - len - 1), (const char *)newline + 1);
}

static int serve(void)
{
    struct buf why = {0};
    struct server_options options = {
        .config = &d.config, .logger = &d.logger, .on_failed = on_failed, .on_ready = notify_init};

    struct loop_options loop = {.worker_threads = 2, .io_threads = io_threads()};

    enum err e = loop_open(&loop, &d.loop);
    if (e == ERR_OK) {
        options.io = loop_io(d.loop);
        if (gates_set_member_local_addr(d.config.gates))
            set_member_local_addr();
        e = server_open(&options, &why, &d.server);
        mem_tune();
    }
    if (e == ERR_OK)
        e = watch_signals();
    if (e != ERR_OK) {
        report_failed_start(&why, e);
        buf_free(&why);
        if (!d.server)
            loop_close(d.loop);
        return 1;
    }
    buf_free(&why);
    loop_run(d.loop, turn, d.server);
    server_close(d.server);
    loop_close(d.loop);
    return 0;
}

static int tell(void (*text)(struct buf *), FILE *to, int status)
{
    struct buf out = {0};

    text(&out);
    fwrite(out.at, 1, out.len, to);
    buf_free(&out);
    return status;
}

/*
 * Says why into the log as it is set up by then, whatever its level. A refusal that is only in a
 * file, or in a log that goes nowhere, looks like a program that ended without a word: standard
 * error has it too then.
 */
static int refuse(const struct buf *why)
{
    if (d.screen_count == 0)
        d.screens[d.screen_count++] = STDERR_FILENO;
    log_notes();
    log_write(&d.logger, LOG_WARN, LOG_CALLER, "failed to verify flags",
              (const struct log_field[]){LOG_BYTES("error", buf_bytes(why))}, 1);
    return 1;
}

static int refuse_flag(const struct buf *why)
{
    fprintf(stderr, "%.*s\n", (int)why->len, why->at);
    return tell(config_usage, stderr, 2);
}

/* The flags were refused: an output that cannot be opened is the lesser trouble then. */
static int refuse_config(const struct buf *why)
{
    struct buf no_output = {0};

    open_log(&no_output);
    buf_free(&no_output);
    return refuse(why);
}

static int start(struct buf *why)
{
    if (!open_log(why))
        return refuse(why);
    log_notes();
    return serve();
}

int main(int argc, char **argv)
{
    struct buf why = {0};
    enum config_result result = config_parse(argc, (const char *const *)argv,
                                             (const char *const *)environ, &d.config, &why);
    int status = 1;

    ignore_signals();
    switch (result) {
    case CONFIG_HELP:
        tell(config_usage, stderr, 0);
        status = tell(config_help, stdout, 0);
        break;
    case CONFIG_VERSION:
        status = tell(config_version, stdout, 0);
        break;
    case CONFIG_BAD_FLAG:
        status = refuse_flag(&why);
        break;
    case CONFIG_BAD_FILE:
        fprintf(stderr, "%.*s\n", (int)why.len, why.at);
        break;
    case CONFIG_BAD:
        status = refuse_config(&why);
        break;
    case CONFIG_OK:
        status = start(&why);
        break;
    }
    close_log();
    config_free(&d.config);
    buf_free(&why);
    /* As etcd ends: whoever has sent the signal sees that it was this. The first process of a
     * system gets no signals that it does not wait for, so it just ends. */
    if (d.ended_by != 0 && getpid() != 1 && !SANITIZED) { /* who looks for leaks when it exits */
        signal(d.ended_by, SIG_DFL);
        raise(d.ended_by);
    }
    return status;
}
