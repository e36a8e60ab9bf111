#include "cluster/attacks.h"

#include "base/assert.h"
#include "base/gzip.h"
#include "base/mem.h"
#include "cluster/caller_tls.h"
#include "cluster/raw_h2.h"
#include "io/clock.h"
#include "pb/codec.h"
#include "pb/etcd_messages.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NICENESS = 10,
    SILENT_PEERS = 1100,
    SILENT_PROBES = 40,
    REOPENED_AT_ONCE = 50, /* of silent connections, in a turn of 50 ms */
    DRIBBLERS = 20,
    DRIBBLE_MS = 3500,
    BOMB_INDEXES = 63000,
    BOMB_VALUE_BYTES = 4000,
    GZIP_BOMB_BYTES = 48 * 1024 * 1024, /* of zeros: 47 KB, which fit into a window */
    UNREAD_LINES = 10,
    UNREAD_REQUESTS = 60,
    LARGE_PUT_BYTES = 1024 * 1024,
    BACKUPS = 4,
    BACKUP_BYTES_PER_S = 2700, /* of each */
};

/* What an attacker has. */
struct attacker {
    struct attack_ports ports;
    SSL_CTX *context;
    const char *certs;
    atomic_uint_fast64_t *efforts;
};

static void made(struct attacker *a)
{
    atomic_fetch_add(a->efforts, 1);
}

static void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

/* --- connections that say nothing, or little --- */

static bool is_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

/* So many, and as many again as are closed. Each step a byte is sent on all of them, if there are
 * any. */
static void hold_open(struct attacker *a, uint16_t port, unsigned count, const char *said,
                      unsigned each_ms)
{
    int *fds = mem_alloc_array(count, sizeof(*fds));
    unsigned waited_ms = 0;
    size_t at = 0;

    memset(fds, -1, count * sizeof(*fds));
    for (;; pause_ms(50), waited_ms += 50) {
        unsigned reopened = 0;
        for (unsigned i = 0; i < count && reopened < REOPENED_AT_ONCE; i++) {
            if (fds[i] >= 0 && !is_closed(fds[i]))
                continue;
            if (fds[i] >= 0)
                close(fds[i]);
            fds[i] = raw_h2_socket(port);
            reopened++;
            made(a);
        }
        if (!said || waited_ms < each_ms)
            continue;
        waited_ms = 0;
        for (unsigned i = 0; i < count; i++)
            if (fds[i] >= 0)
                (void)!send(fds[i], said + at % strlen(said), 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        at++;
    }
}

static void silent_peers(struct attacker *a)
{
    hold_open(a, a->ports.peer, SILENT_PEERS, NULL, 0);
}

static void silent_probes(struct attacker *a)
{
    hold_open(a, a->ports.metrics, SILENT_PROBES, NULL, 0);
}

/* A record of TLS that would be 512 bytes long, if it ever came. */
static void dribblers(struct attacker *a)
{
    hold_open(a, a->ports.peer, DRIBBLERS, "\x16\x03\x01\x02", DRIBBLE_MS);
}

/* --- handshakes that come to nothing --- */

static void broken_handshakes(struct attacker *a)
{
    const uint16_t ports[] = {a->ports.client, a->ports.peer};
    uint8_t garbage[600] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    SSL_CTX *nobody = SSL_CTX_new(TLS_client_method());

    for (unsigned i = 0;; i++, pause_ms(20)) {
        int fd = raw_h2_socket(ports[i % ARRAY_LEN(ports)]);
        if (fd < 0)
            continue;
        struct timeval patience = {.tv_sec = 1};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        if (i % 4 < 2) { /* no certificate */
            SSL *ssl = SSL_new(nobody);
            uint8_t byte;
            if (SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1)
                (void)SSL_read(ssl, &byte, 1);
            SSL_free(ssl);
        } else {
            garbage[20 + i % 500]++;
            (void)!send(fd, garbage, sizeof(garbage) - i % 300, MSG_NOSIGNAL);
        }
        close(fd);
        made(a);
    }
}

/* --- bombs --- */

/* One value as large as the table, sixty thousand times: 67 KB that stand for 254 MB. */
static void put_hpack_bomb(struct buf *block)
{
    uint8_t *value = mem_alloc(BOMB_VALUE_BYTES);
    static const uint8_t head[] = {
        0x40, 1, 'x', 0x7f, (BOMB_VALUE_BYTES - 127) % 128 | 128, (BOMB_VALUE_BYTES - 127) / 128};

    memset(value, 'y', BOMB_VALUE_BYTES);
    raw_h2_put_request(block, "/etcdserverpb.KV/Range");
    buf_append(block, bytes_of(head, sizeof(head)));
    buf_append(block, bytes_of(value, BOMB_VALUE_BYTES));
    memset(buf_extend(block, BOMB_INDEXES), 0xbe, BOMB_INDEXES); /* 62, the newest entry */
    mem_free(value);
}

static void hpack_bombs(struct attacker *a)
{
    struct buf block = {0};
    struct raw_h2 r;

    put_hpack_bomb(&block);
    for (;; pause_ms(20)) {
        if (!raw_h2_open(&r, a->context, a->ports.client, RAW_H2_WINDOW_USUAL))
            continue;
        do {
            made(a);
            pause_ms(20);
        } while (raw_h2_headers(&r, buf_bytes(&block), true) && raw_h2_drain(&r));
        raw_h2_close(&r);
    }
}

static void gzip_bombs(struct attacker *a)
{
    struct buf plain = {0}, packed = {0}, block = {0};
    struct gzip *gzip = gzip_new();
    struct raw_h2 r;

    memset(buf_extend(&plain, GZIP_BOMB_BYTES), 0, GZIP_BOMB_BYTES);
    gzip_pack(gzip, buf_bytes(&plain), &packed);
    buf_free(&plain);
    gzip_free(gzip);
    raw_h2_put_request(&block, "/etcdserverpb.KV/Put");
    raw_h2_put_field(&block, "grpc-encoding", BYTES("gzip"));
    for (;; pause_ms(50)) {
        if (!raw_h2_open(&r, a->context, a->ports.client, RAW_H2_WINDOW_USUAL))
            continue;
        if (raw_h2_headers(&r, buf_bytes(&block), false) &&
            raw_h2_message(&r, buf_bytes(&packed), true, true)) {
            made(a);
            pause_ms(50);
            (void)!raw_h2_drain(&r);
        }
        raw_h2_close(&r);
    }
}

/* --- replies that are never read --- */

/* Many requests on each of some connections, whose windows are as wide as can be. Then nothing is
 * read until the member has had enough. */
static void leave_unread(struct attacker *a, const char *path, struct bytes message)
{
    struct raw_h2 lines[UNREAD_LINES];

    for (unsigned i = 0; i < UNREAD_LINES; i++)
        lines[i] = (struct raw_h2){.fd = -1};
    for (;; pause_ms(100))
        for (unsigned i = 0; i < UNREAD_LINES; i++) {
            struct raw_h2 *r = &lines[i];
            struct pollfd p = {.fd = r->fd, .events = POLLRDHUP};
            if (r->fd >= 0 && poll(&p, 1, 0) == 0)
                continue;
            raw_h2_close(r);
            if (!raw_h2_open(r, a->context, a->ports.client, RAW_H2_WINDOW_MAX))
                continue;
            for (unsigned k = 0; k < UNREAD_REQUESTS; k++)
                if (raw_h2_request(r, path, NULL, NULL, message))
                    made(a);
        }
}

static void leave_message_unread(struct attacker *a, const char *path,
                                 const struct pb_schema *schema, const void *message)
{
    struct buf wire = {0};

    pb_encode(schema, message, &wire);
    leave_unread(a, path, buf_bytes(&wire));
}

static void unread_keys_of_a_lease(struct attacker *a)
{
    leave_message_unread(a, "/etcdserverpb.Lease/LeaseTimeToLive",
                         &pb_lease_time_to_live_request_schema,
                         &(struct pb_lease_time_to_live_request){.id = SIEGE_LEASE, .keys = true});
}

static void unread_sorted_ranges(struct attacker *a)
{
    leave_message_unread(a, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                         &(struct pb_range_request){.key = BYTES(SIEGE_PREFIX),
                                                    .range_end = BYTES("siege0"),
                                                    .sort_order = PB_SORT_DESCEND,
                                                    .sort_target = PB_SORT_BY_VALUE});
}

static void unread_leases(struct attacker *a)
{
    leave_unread(a, "/etcdserverpb.Lease/LeaseLeases", bytes_of(NULL, 0));
}

static void unread_watches(struct attacker *a)
{
    static uint8_t key[8192];
    struct pb_watch_create_request create = {
        .key = bytes_of(key, sizeof(key)), .range_end = BYTES("\xff"), .prev_kv = true};

    memset(key, 'a', sizeof(key));
    leave_message_unread(a, "/etcdserverpb.Watch/Watch", &pb_watch_request_schema,
                         &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
}

static bool begin_backup(struct attacker *a, struct raw_h2 *r)
{
    if (!raw_h2_open(r, a->context, a->ports.client, RAW_H2_WINDOW_USUAL))
        return false;
    made(a);
    return raw_h2_request(r, "/etcdserverpb.Maintenance/Snapshot", NULL, NULL, bytes_of(NULL, 0));
}

static void slow_backups(struct attacker *a)
{
    struct raw_h2 backups[BACKUPS];
    size_t got;

    for (unsigned i = 0; i < BACKUPS; i++)
        backups[i] = (struct raw_h2){.fd = -1};
    for (;; pause_ms(1000))
        for (unsigned i = 0; i < BACKUPS; i++) {
            struct raw_h2 *r = &backups[i];
            bool is_well = r->fd >= 0 || begin_backup(a, r);
            is_well = is_well && raw_h2_read(r, BACKUP_BYTES_PER_S, &got) &&
                      raw_h2_allow(r, BACKUP_BYTES_PER_S);
            if (!is_well)
                raw_h2_close(r);
        }
}

/* --- floods --- */

/* As fast as a client does that waits for no response, in handfuls. */
static void flood(struct attacker *a, const char *path, const char *field, const char *value,
                  struct bytes message)
{
    enum { HANDFUL = 10, PAUSE_MS = 50 };
    struct raw_h2 r;

    for (;; pause_ms(PAUSE_MS)) {
        if (!raw_h2_open(&r, a->context, a->ports.client, RAW_H2_WINDOW_MAX))
            continue;
        for (bool is_well = true; is_well; pause_ms(PAUSE_MS)) {
            for (unsigned i = 0; i < HANDFUL && is_well; i++) {
                is_well = raw_h2_request(&r, path, field, value, message);
                made(a);
            }
            is_well = is_well && raw_h2_drain(&r);
        }
        raw_h2_close(&r);
    }
}

static void logins(struct attacker *a)
{
    struct buf wire = {0};

    pb_encode(&pb_authenticate_request_schema,
              &(struct pb_authenticate_request){.name = BYTES("root"), .password = BYTES("wrong")},
              &wire);
    flood(a, "/etcdserverpb.Auth/Authenticate", NULL, NULL, buf_bytes(&wire));
}

/* Of root, says this one, until 2099; but nobody has signed it. */
static void bad_tokens(struct attacker *a)
{
    struct buf wire = {0};

    pb_encode(&pb_range_request_schema, &(struct pb_range_request){.key = BYTES("a")}, &wire);
    flood(a, "/etcdserverpb.KV/Range", "token",
          "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9."
          "eyJ1c2VybmFtZSI6InJvb3QiLCJyZXZpc2lvbiI6MSwiZXhwIjo0MTAyNDQ0ODAwfQ."
          "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4_QA",
          buf_bytes(&wire));
}

struct large_put {
    struct attacker *attacker;
    struct ask ask;
    uint64_t next_ns;
};

static void large_put_over(struct ask *a)
{
    struct large_put *p = a->context;

    if (a->code == RPC_OK)
        made(p->attacker);
}

/* Eight a second at most, to a few keys; a client that behaves, but for what it writes. */
static void large_puts(struct attacker *a)
{
    enum { AT_ONCE = 4, PERIOD_MS = 500 };
    struct large_put puts[AT_ONCE] = {0};
    static uint8_t value[LARGE_PUT_BYTES];
    static const char *const keys[AT_ONCE] = {"large0", "large1", "large2", "large3"};
    struct net_address to = {.family = NET_IP4, .port = a->ports.client, .ip = {127, 0, 0, 1}};
    struct caller caller;
    struct tls *tls;
    struct arena arena = {0};
    struct buf why = {0};

    if (caller_init(&caller) != ERR_OK ||
        caller_tls_open(&caller, a->certs, &arena, &why, &tls) != ERR_OK)
        return;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        puts[i].attacker = a;
        puts[i].ask = (struct ask){.line = caller_connect_to(&caller, &to),
                                   .on_over = large_put_over,
                                   .context = &puts[i]};
    }
    for (;; caller_turn(&caller, 50))
        for (unsigned i = 0; i < AT_ONCE; i++) {
            struct large_put *p = &puts[i];
            if (p->ask.line->is_gone) {
                ask_cancel(&p->ask);
                line_reconnect(p->ask.line, &to);
            }
            if (!ask_is_over(&p->ask) || caller_now_ns(&caller) < p->next_ns)
                continue;
            p->next_ns = caller_now_ns(&caller) + PERIOD_MS * NS_PER_MS;
            ask_start(&p->ask, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                      &(struct pb_put_request){.key = bytes_of_str(keys[i]),
                                               .value = bytes_of(value, sizeof(value))});
        }
}

/* --- all of them --- */

static const struct {
    const char *name;
    void (*run)(struct attacker *a);
} attacks[] = {
    {"silent-peers", silent_peers},
    {"silent-probes", silent_probes},
    {"dribblers", dribblers},
    {"broken-handshakes", broken_handshakes},
    {"hpack-bombs", hpack_bombs},
    {"gzip-bombs", gzip_bombs},
    {"unread-keys-of-a-lease", unread_keys_of_a_lease},
    {"unread-sorted-ranges", unread_sorted_ranges},
    {"unread-leases", unread_leases},
    {"unread-watches", unread_watches},
    {"slow-backups", slow_backups},
    {"logins", logins},
    {"bad-tokens", bad_tokens},
    {"large-puts", large_puts},
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
        pause_ms(10);
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
