#include "cluster/attacks_int.h"

#include "base/assert.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NICENESS = 19 };

void attacker_made(struct attacker *a)
{
    atomic_fetch_add(a->efforts, 1);
}

void attacker_pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

/* --- all of them --- */

static const struct {
    const char *name;
    void (*run)(struct attacker *a);
    const char *story;
} attacks[] = {
    {"silent-peers", attack_by_silent_peers,
     "connections at the peer port that say nothing, opened again when closed"},
    {"silent-probes", attack_by_silent_probes, "the same at the listener for metrics"},
    {"idle-probes", attack_by_idle_probes,
     "connections there that made one valid request and are kept"},
    {"dribblers", attack_by_dribblers, "half a record of TLS at the peer port, a byte each 3.5 s"},
    {"trickling-posts", attack_by_trickling_posts,
     "requests at the peer port whose head or body comes a byte a second"},
    {"large-posts", attack_by_large_posts, "messages of 8 MB at the peer port that are none"},
    {"broken-handshakes", attack_by_broken_handshakes,
     "handshakes without a certificate, or of garbage: a log line each"},
    {"hpack-bombs", attack_by_hpack_bombs, "one field of 4 KB named 63,000 times in a header list"},
    {"long-paths", attack_by_long_paths,
     "paths of 4 and 180 KB of characters that a redirect has to escape"},
    {"gzip-bombs", attack_by_gzip_bombs,
     "2 KB that unpack to a message of 2 MB, and 47 KB that would to 48 MB"},
    {"health-bombs", attack_by_health_bombs,
     "the same 2 KB, each to begin a Health/Watch that goes on"},
    {"unread-keys-of-a-lease", attack_by_unread_keys_of_a_lease,
     "LeaseTimeToLive with 2,000 keys, whose responses are not read"},
    {"unread-sorted-ranges", attack_by_unread_sorted_ranges,
     "sorted ranges of 2,000 keys, not read"},
    {"unread-leases", attack_by_unread_leases, "LeaseLeases of 5,000 leases, not read"},
    {"unread-metrics", attack_by_unread_metrics, "/metrics by HTTP/2, not read"},
    {"unread-watches", attack_by_unread_watches,
     "watches by keys of 8 KB of all that is written, not read"},
    {"long-watch-keys", attack_by_long_watch_keys, "the same by keys of 1 MB, packed to 1 KB each"},
    {"slow-backups", attack_by_slow_backups, "eight backups, read at 2.7 KB a second each"},
    {"logins", attack_by_logins, "wrong passwords of root, 200 a second: a log line each"},
    {"logins-of-eight", attack_by_logins_of_eight,
     "the same from eight addresses, 127.0.0.2 to 127.0.0.9"},
    {"costly-logins", attack_by_costly_logins,
     "wrong passwords of a user whose hash takes 16 s to compare"},
    {"bad-tokens", attack_by_bad_tokens,
     "calls with a JWT that nobody has signed: a log line each"},
    {"renewals", attack_by_renewals,
     "4,000 renewals a second, in two waves, of leases by way of a follower"},
    {"windows", attack_by_windows,
     "SETTINGS that change the windows of 5,000 streams, 200 a second"},
    {"large-puts", attack_by_large_puts, "eight puts of 1 MB a second"},
};
static_assert(ARRAY_LEN(attacks) <= ATTACKS_MAX, "each has its place on the board");

unsigned attack_count(void)
{
    return ARRAY_LEN(attacks);
}

const char *attack_name(unsigned i)
{
    assert(i < ARRAY_LEN(attacks));

    return attacks[i].name;
}

const char *attack_story(unsigned i)
{
    assert(i < ARRAY_LEN(attacks));

    return attacks[i].story;
}

uint64_t attackers_efforts(const struct attackers *a, unsigned i)
{
    return atomic_load(&a->board->efforts[i]);
}

static void allow_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void become_attacker(struct attackers *a, unsigned i, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    setpgid(0, 0); /* ^C is for the parent, which then ends us */
    signal(SIGPIPE, SIG_IGN);
    (void)!nice(NICENESS);
    allow_files();
    while (!atomic_load(&a->board->is_on))
        attacker_pause_ms(10);
    struct attacker me = {.target = a->board->target,
                          .context = raw_h2_context(a->certs),
                          .certs = a->certs,
                          .efforts = &a->board->efforts[i]};
    if (me.context)
        attacks[i].run(&me);
    _exit(1);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

/* In a list with commas. */
static bool is_among(const char *name, const char *list)
{
    size_t len = strlen(name);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == 0 || at[len] == ','))
            return true;
    }
    return false;
}

/* All that are named are there. */
static bool is_known(const char *list)
{
    unsigned named = 1, known = 0;

    for (const char *at = list; *at; at++)
        named += *at == ',';
    for (unsigned i = 0; i < ARRAY_LEN(attacks); i++)
        known += is_among(attacks[i].name, list);
    return named == known;
}

bool attackers_open(struct attackers *a, const char *certs, const char *only)
{
    pid_t parent = getpid();

    *a = (struct attackers){.certs = certs};
    a->board =
        mmap(NULL, sizeof(*a->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a->board == MAP_FAILED) {
        a->board = NULL;
        return false;
    }
    if (only && !is_known(only)) {
        errno = EINVAL;
        return false;
    }
    for (unsigned i = 0; i < ARRAY_LEN(attacks); i++) {
        if (only && !is_among(attacks[i].name, only))
            continue;
        a->pids[i] = fork();
        if (a->pids[i] == 0)
            become_attacker(a, i, parent);
        if (a->pids[i] < 0) {
            a->pids[i] = 0;
            return false;
        }
    }
    return true;
}

void attackers_begin(struct attackers *a, struct attack_target target)
{
    a->board->target = target;
    atomic_store(&a->board->is_on, true);
}

void attackers_close(struct attackers *a)
{
    for (unsigned i = 0; i < ARRAY_LEN(attacks); i++)
        if (a->pids[i] > 0)
            kill(a->pids[i], SIGKILL);
    for (unsigned i = 0; i < ARRAY_LEN(attacks); i++) {
        struct rusage took = {0};
        if (a->pids[i] <= 0)
            continue;
        while (wait4(a->pids[i], NULL, 0, &took) < 0 && errno == EINTR)
            ;
        a->cpu_s[i] = seconds_of(took.ru_utime) + seconds_of(took.ru_stime);
        a->pids[i] = 0;
    }
    if (a->board)
        munmap(a->board, sizeof(*a->board));
    a->board = NULL;
}
