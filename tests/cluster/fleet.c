#include "cluster/fleet.h"

#include "base/buf.h"
#include "harness/port.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOG_TAIL_BYTES = 700 };

static bool failed(struct fleet *f, const char *what)
{
    if (!f->problem[0])
        snprintf(f->problem, sizeof(f->problem), "%s: %s", what, strerror(errno));
    return false;
}

static bool free_port(struct fleet *f, uint16_t *out)
{
    *out = port_take();
    return *out != 0 || failed(f, "no free port");
}

static struct net_address on_loopback(uint16_t port)
{
    return (struct net_address){.family = NET_IP4, .port = port, .ip = {127, 0, 0, 1}};
}

bool fleet_renew_certs(struct fleet *f)
{
    return !f->certs || system(arena_printf(&f->arena, "scripts/certs %s", f->certs)) == 0 ||
           failed(f, "scripts/certs");
}

bool fleet_open(struct fleet *f, const struct fleet_options *options)
{
    *f = (struct fleet){.count = options->count, .election_ms = options->election_ms};
    assert(f->count > 0 && f->count <= FLEET_MAX);
    f->dir = arena_printf(&f->arena, "%s", options->dir);
    f->flags = arena_printf(&f->arena, "%s", options->flags ? options->flags : "");
    if (options->is_by_tls)
        f->certs = arena_printf(&f->arena, "%s/certs", f->dir);
    if (!fleet_renew_certs(f))
        return false;
    for (unsigned i = 0; i < f->count; i++) {
        struct fleet_member *m = &f->members[i];
        bool is_other = options->other && i % 2 == 1;
        m->program = arena_printf(&f->arena, "%s", is_other ? options->other : options->program);
        if (access(m->program, X_OK) != 0)
            return failed(f, m->program);
        if (!free_port(f, &m->client_port) || !free_port(f, &m->peer_port))
            return false;
        if (options->has_probes && !free_port(f, &m->metrics_port))
            return false;
        m->advertised_port = m->peer_port;
        m->address = on_loopback(m->client_port);
        m->peer_address = on_loopback(m->peer_port);
    }
    return true;
}

void fleet_close(struct fleet *f)
{
    for (unsigned i = 0; i < f->count; i++)
        fleet_kill(f, i);
    arena_free(&f->arena);
}

/* --- starting --- */

static void append_certs(const struct fleet *f, struct buf *line)
{
    static const char *const sides[] = {"", "peer-"};

    for (unsigned i = 0; f->certs && i < 2; i++) {
        buf_printf(line, " --%scert-file %s/cert.pem --%skey-file %s/key.pem", sides[i], f->certs,
                   sides[i], f->certs);
        buf_printf(line, " --%strusted-ca-file %s/ca.pem --%sclient-cert-auth", sides[i], f->certs,
                   sides[i]);
    }
}

static const char *command_line(struct fleet *f, unsigned member)
{
    const struct fleet_member *m = &f->members[member];
    const char *scheme = f->certs ? "https" : "http";
    struct buf line = {0};

    buf_printf(&line, "exec %s --name m%u --data-dir %s/m%u", m->program, member + 1, f->dir,
               member + 1);
    buf_printf(&line,
               " --listen-client-urls %s://127.0.0.1:%u --advertise-client-urls "
               "%s://127.0.0.1:%u --listen-peer-urls %s://127.0.0.1:%u",
               scheme, m->client_port, scheme, m->client_port, scheme, m->peer_port);
    buf_printf(&line, " --initial-advertise-peer-urls %s://127.0.0.1:%u --initial-cluster ", scheme,
               m->advertised_port);
    for (unsigned i = 0; i < f->count; i++)
        buf_printf(&line, "%sm%u=%s://127.0.0.1:%u", i ? "," : "", i + 1, scheme,
                   f->members[i].advertised_port);
    append_certs(f, &line);
    if (m->metrics_port != 0)
        buf_printf(&line, " --listen-metrics-urls http://127.0.0.1:%u", m->metrics_port);
    if (m->joins)
        buf_append_str(&line, " --initial-cluster-state existing");
    buf_printf(&line, " --heartbeat-interval %u --election-timeout %u %s >>%s/m%u.log 2>&1",
               f->election_ms / 10, f->election_ms, f->flags, f->dir, member + 1);
    const char *text = arena_copy_str(&f->arena, buf_bytes(&line));
    buf_free(&line);
    return text;
}

/* A paused parent is not a dead one: the members of a program that is stopped with ^Z live on. */
static void become_member(const char *line, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* it has died in between, and nobody would tell us */
    setpgid(0, 0);  /* ^C is for the parent, which then decides */
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
}

bool fleet_start(struct fleet *f, unsigned member)
{
    struct fleet_member *m = &f->members[member];
    const char *line = command_line(f, member);
    pid_t parent = getpid();

    assert(m->pid == 0);
    pid_t pid = fork();
    if (pid == 0)
        become_member(line, parent);
    if (pid < 0)
        return failed(f, "cannot fork");
    m->pid = pid;
    m->is_stopping = false;
    return true;
}

/* --- ending --- */

static void say_it_ended(struct fleet *f, unsigned member, int status)
{
    char tail[LOG_TAIL_BYTES + 1] = "";

    if (f->problem[0])
        return;
    FILE *log = fopen(arena_printf(&f->arena, "%s/m%u.log", f->dir, member + 1), "re");
    if (log) {
        if (fseek(log, -LOG_TAIL_BYTES, SEEK_END) != 0)
            clearerr(log); /* it is shorter: all of it */
        tail[fread(tail, 1, LOG_TAIL_BYTES, log)] = 0;
        fclose(log);
    }
    snprintf(f->problem, sizeof(f->problem), "m%u ended by itself, status 0x%x; its log ends:\n%s",
             member + 1, (unsigned)status, tail);
}

void fleet_kill(struct fleet *f, unsigned member)
{
    struct fleet_member *m = &f->members[member];
    int status = 0;

    if (m->pid == 0)
        return;
    kill(m->pid, SIGKILL);
    while (waitpid(m->pid, &status, 0) < 0 && errno == EINTR)
        ;
    m->pid = 0;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        say_it_ended(f, member, status);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

void fleet_forget(struct fleet *f, unsigned member)
{
    const char *path = arena_printf(&f->arena, "%s/m%u", f->dir, member + 1);

    assert(f->members[member].pid == 0);
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        failed(f, path);
}

void fleet_stop(struct fleet *f, unsigned member)
{
    assert(f->members[member].pid > 0);
    kill(f->members[member].pid, SIGTERM);
    f->members[member].is_stopping = true;
}

void fleet_let_end(struct fleet *f, unsigned member)
{
    assert(f->members[member].pid > 0);
    f->members[member].is_stopping = true;
}

void fleet_pause(struct fleet *f, unsigned member)
{
    assert(f->members[member].pid > 0);
    kill(f->members[member].pid, SIGSTOP);
}

void fleet_resume(struct fleet *f, unsigned member)
{
    assert(f->members[member].pid > 0);
    kill(f->members[member].pid, SIGCONT);
}

/* Real etcd, as many daemons do, dies of the signal in the end: that is a good end, too. */
static bool is_good_end(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM : WEXITSTATUS(status) == 0;
}

bool fleet_look(struct fleet *f)
{
    for (unsigned i = 0; i < f->count; i++) {
        struct fleet_member *m = &f->members[i];
        int status = 0;
        if (m->pid == 0 || waitpid(m->pid, &status, WNOHANG) != m->pid)
            continue;
        m->pid = 0;
        if (!m->is_stopping || !is_good_end(status))
            say_it_ended(f, i, status);
    }
    return !f->problem[0];
}

static uint64_t status_bytes(const struct fleet *f, unsigned member, const char *field)
{
    char path[64], line[256];
    uint64_t kilobytes = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)f->members[member].pid);
    FILE *status = f->members[member].pid > 0 ? fopen(path, "re") : NULL;
    while (status && fgets(line, sizeof(line), status))
        if (strncmp(line, field, strlen(field)) == 0)
            kilobytes = strtoull(line + strlen(field), NULL, 10);
    if (status)
        fclose(status);
    return kilobytes * 1024;
}

uint64_t fleet_peak_bytes(const struct fleet *f, unsigned member)
{
    return status_bytes(f, member, "VmHWM:");
}

uint64_t fleet_anonymous_bytes(const struct fleet *f, unsigned member)
{
    return status_bytes(f, member, "RssAnon:");
}

uint64_t fleet_resident_bytes(const struct fleet *f, unsigned member)
{
    return status_bytes(f, member, "VmRSS:");
}

double fleet_cpu_s(const struct fleet *f, unsigned member)
{
    struct timespec took;
    clockid_t clock;

    if (f->members[member].pid == 0 || clock_getcpuclockid(f->members[member].pid, &clock) != 0 ||
        clock_gettime(clock, &took) != 0)
        return 0;
    return (double)took.tv_sec + (double)took.tv_nsec / 1e9;
}

unsigned fleet_open_files(const struct fleet *f, unsigned member)
{
    char path[64];
    unsigned count = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)f->members[member].pid);
    DIR *dir = f->members[member].pid > 0 ? opendir(path) : NULL;
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count > 2 ? count - 2 : 0; /* without . and .. */
}

unsigned fleet_said(const struct fleet *f, unsigned member, const char *text, long *from)
{
    char path[4096];
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    unsigned count = 0;

    snprintf(path, sizeof(path), "%s/m%u.log", f->dir, member + 1);
    FILE *log = fopen(path, "re");
    if (!log)
        return 0;
    if (fseek(log, *from, SEEK_SET) == 0)
        while ((len = getline(&line, &cap, log)) > 0 && line[len - 1] == '\n') {
            count += strstr(line, text) != NULL;
            *from += len;
        }
    free(line);
    fclose(log);
    return count;
}
