/* What a scrape costs the core thread, which everybody else waits for meanwhile. */
#include "base/sanitized.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "pb/etcd_messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WATCHERS = 1000, LEASES = 10000, AT_ONCE = 100, SCRAPES = 50 };

static const double SCRAPE_MS_MAX = 2;

static void count_created(struct ask *a, struct bytes message)
{
    unsigned *created = a->context;

    (void)message;
    (*created)++;
}

static void watch_many(struct ask *watch, unsigned *created)
{
    struct pb_watch_create_request create = {0};
    struct pb_watch_request request = {.which = PB_WATCH_CREATE, .create = &create};
    char key[32];

    watch->on_message = count_created;
    watch->context = created;
    ask_stream(watch, "/etcdserverpb.Watch/Watch");
    for (unsigned i = 0; i < WATCHERS; i++) {
        snprintf(key, sizeof(key), "watched/%u", i);
        create.key = bytes_of_str(key);
        ask_say(watch, &pb_watch_request_schema, &request);
    }
    while (*created < WATCHERS)
        caller_turn(watch->line->caller, 100);
}

static void grant_one(struct ask *a)
{
    unsigned *left = a->context;

    if (*left == 0)
        return;
    (*left)--;
    ask_start(a, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
              &(struct pb_lease_grant_request){.ttl = 3600});
}

static void grant_many(struct line *l)
{
    static struct ask asks[AT_ONCE];
    unsigned left = LEASES;

    for (unsigned i = 0; i < AT_ONCE; i++) {
        asks[i] = (struct ask){.line = l, .on_over = grant_one, .context = &left};
        grant_one(&asks[i]);
    }
    for (unsigned i = 0; i < AT_ONCE; i++) {
        while (!ask_is_over(&asks[i]))
            caller_turn(l->caller, 100);
        CHECK_EQ(asks[i].code, RPC_OK);
        ask_free(&asks[i]);
    }
}

TEST(a_scrape_takes_less_than_two_milliseconds_of_the_core_thread)
{
    struct peer cleat;
    struct caller caller;
    struct arena a = {0};
    unsigned created = 0;
    peer_open_ours(&cleat, arena_printf(&a, "%s/cleat", test_tmp_dir()));
    peer_start(&cleat, "--metrics=extensive");
    caller_open(&caller, &cleat);
    struct ask watch = {.line = caller_connect(&caller)};
    watch_many(&watch, &created);
    grant_many(caller_connect(&caller));
    CHECK_STR(peer_run(&a,
                       "curl -s %s/metrics | grep -E '^etcd_debugging_(mvcc_watcher_total|"
                       "lease_granted_total) '",
                       cleat.client_url),
              "etcd_debugging_lease_granted_total 10000\netcd_debugging_mvcc_watcher_total 1000");

    uint64_t before_ns = peer_core_ns(&cleat);
    const char *bytes =
        peer_run(&a, "curl -s $(for i in $(seq %d); do echo %s/metrics; done) | wc -c", SCRAPES,
                 cleat.client_url);
    double ms = (double)(peer_core_ns(&cleat) - before_ns) / 1e6 / (int)SCRAPES;

    printf("%d watchers, %d leases: a scrape of %lu KB takes %.2f ms of the core thread\n",
           WATCHERS, LEASES, strtoul(bytes, NULL, 10) / SCRAPES / 1000, ms);
    CHECK(ms < (SANITIZED ? 20 : 1) * SCRAPE_MS_MAX);
    ask_cancel(&watch);
    ask_free(&watch);
    caller_close(&caller);
    peer_stop(&cleat);
    peer_close(&cleat);
    arena_free(&a);
}
