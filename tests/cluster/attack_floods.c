/* Requests as fast as a client does that waits for no response. */
#include "cluster/attacks_int.h"

#include "base/mem.h"
#include "cluster/caller_tls.h"
#include "io/clock.h"
#include "pb/codec.h"
#include "pb/etcd_messages.h"

#include <string.h>

enum {
    LARGE_PUT_BYTES = 1024 * 1024,
};

/* As fast as a client does that waits for no response, in handfuls. */
static void flood(struct attacker *a, const char *path, const char *field, const char *value,
                  struct bytes message)
{
    enum { HANDFUL = 10, PAUSE_MS = 50 };
    struct raw_h2 r;

    for (;; attacker_pause_ms(PAUSE_MS)) {
        if (!raw_h2_open(&r, a->context, a->ports.client, RAW_H2_WINDOW_MAX))
            continue;
        for (bool is_well = true; is_well; attacker_pause_ms(PAUSE_MS)) {
            for (unsigned i = 0; i < HANDFUL && is_well; i++) {
                is_well = raw_h2_request(&r, path, field, value, message);
                attacker_made(a);
            }
            is_well = is_well && raw_h2_drain(&r);
        }
        raw_h2_close(&r);
    }
}

void attack_by_logins(struct attacker *a)
{
    struct buf wire = {0};

    pb_encode(&pb_authenticate_request_schema,
              &(struct pb_authenticate_request){.name = BYTES("root"), .password = BYTES("wrong")},
              &wire);
    flood(a, "/etcdserverpb.Auth/Authenticate", NULL, NULL, buf_bytes(&wire));
}

/* Of root, says this one, until 2099; but nobody has signed it. */
void attack_by_bad_tokens(struct attacker *a)
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
        attacker_made(p->attacker);
}

/* Eight a second at most, to a few keys; a client that behaves, but for what it writes. */
void attack_by_large_puts(struct attacker *a)
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
