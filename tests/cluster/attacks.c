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

enum { NICENESS = 10 };

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
} attacks[] = {
    {"silent-peers", attack_by_silent_peers},
    {"silent-probes", attack_by_silent_probes},
    {"dribblers", attack_by_dribblers},
    {"broken-handshakes", attack_by_broken_handshakes},
    {"hpack-bombs", attack_by_hpack_bombs},
    {"gzip-bombs", attack_by_gzip_bombs},
    {"unread-keys-of-a-lease", attack_by_unread_keys_of_a_lease},
    {"unread-sorted-ranges", attack_by_unread_sorted_ranges},
    {"unread-leases", attack_by_unread_leases},
    {"unread-watches", attack_by_unread_watches},
    {"slow-backups", attack_by_slow_backups},
    {"logins", attack_by_logins},
    {"bad-tokens", attack_by_bad_tokens},
    {"large-puts", attack_by_large_puts},
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
    struct attacker me = {.ports = a->board->ports,
                          .context = raw_h2_context(a->certs),
                          .certs = a->certs,
                          .efforts = &a->board->efforts[i]};
    if (me.context)
        attacks[i].run(&me);
    _exit(1);
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
    for (unsigned i = 0; i < ARRAY_LEN(attacks); i++) {
        if (only && strcmp(only, attacks[i].name) != 0)
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

void attackers_begin(struct attackers *a, struct attack_ports ports)
{
    a->board->ports = ports;
    atomic_store(&a->board->is_on, true);
}

void attackers_close(struct attackers *a)
{
    for (unsigned i = 0; i < ARRAY_LEN(attacks); i++) {
        if (a->pids[i] <= 0)
            continue;
        kill(a->pids[i], SIGKILL);
        while (waitpid(a->pids[i], NULL, 0) < 0 && errno == EINTR)
            ;
        a->pids[i] = 0;
    }
    if (a->board)
        munmap(a->board, sizeof(*a->board));
    a->board = NULL;
}
