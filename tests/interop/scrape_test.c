/* What a scrape costs the core thread, which everybody else waits for meanwhile; and in which form
 * it is answered, beside etcd. */
#include "base/sanitized.h"
#include "harness/peer_test.h"
#include "harness/port.h"
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

/* Fifty of them: what one takes of the core thread, and how many bytes of the network. */
static double scrape_ms(struct peer *p, struct arena *a, const char *headers, unsigned long *bytes)
{
    uint64_t before_ns = peer_core_ns(p);
    const char *all =
        peer_run(a, "curl -s %s $(for i in $(seq %d); do echo %s/metrics; done) | wc -c", headers,
                 SCRAPES, p->client_url);

    *bytes = strtoul(all, NULL, 10) / SCRAPES;
    return (double)(peer_core_ns(p) - before_ns) / 1e6 / (int)SCRAPES;
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

    unsigned long bytes, packed_bytes;
    double ms = scrape_ms(&cleat, &a, "", &bytes);
    double packed_ms = scrape_ms(&cleat, &a, "-H 'Accept-Encoding: gzip'", &packed_bytes);

    printf("%d watchers, %d leases: a scrape of %lu KB takes %.2f ms of the core thread, and by "
           "gzip %lu KB and %.2f ms\n",
           WATCHERS, LEASES, bytes / 1000, ms, packed_bytes / 1000, packed_ms);
    CHECK(ms < (SANITIZED ? 20 : 1) * SCRAPE_MS_MAX);
    CHECK(packed_ms < (SANITIZED ? 20 : 1) * SCRAPE_MS_MAX);
    CHECK(packed_bytes < bytes / 10);
    ask_cancel(&watch);
    ask_free(&watch);
    caller_close(&caller);
    peer_stop(&cleat);
    peer_close(&cleat);
    arena_free(&a);
}

/* --- the form --- */

#define PROTO "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding="

/* Lines of curl's, each for the headers of one request. */
static const char *const headers[] = {
    "-H 'Accept:'",
    "-H 'Accept: */*'",
    "-H 'Accept: text/html'",
    "-H 'Accept: text/plain;escaping=allow-utf-8'",
    "-H 'Accept: text/plain; escaping=values'",
    "-H 'Accept: text/plain;escaping=other'",
    "-H 'Accept: text/plain;version=1.0.0;escaping=dots'",
    "-H 'Accept: " PROTO "delimited'",
    "-H 'Accept: " PROTO "text'",
    "-H 'Accept: " PROTO "compact-text;escaping=values'",
    "-H 'Accept: " PROTO "other'",
    "-H 'Accept: application/vnd.google.protobuf;encoding=delimited'",
    "-H 'Accept: Application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
    "encoding=delimited'",
    "-H 'Accept: application / vnd.google.protobuf ; proto = io.prometheus.client.MetricFamily ; "
    "encoding = delimited'",
    "-H 'Accept: text/plain;q=0.5," PROTO "delimited;q=0.9'",
    "-H 'Accept: text/plain;q=0.9," PROTO "delimited;q=0.5'",
    "-H 'Accept: text/plain," PROTO "delimited'",
    "-H 'Accept: text/plain;q=high," PROTO "delimited;q=0.1'",
    "-H 'Accept: text/plain;q= 1," PROTO "delimited;q=0.1'",
    "-H 'Accept: text/plain;q=0x1p-1," PROTO "delimited;q=0.6'",
    "-H 'Accept: text/plain;q=inf," PROTO "delimited'",
    "-H 'Accept: */*;q=1," PROTO "delimited;q=0.1'",
    "-H 'Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'",
    "-H 'Accept: " PROTO "delimited;escaping=allow-utf-8;q=0.7,application/openmetrics-text;"
    "version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.2'",
    "-H 'Accept: application/openmetrics-text;version=1.0.0'",
    "-H 'Accept: text/plain/x,,;,=;q=1,text," PROTO "text'",
    "-H 'Accept: text/plain;escaping=dots=x;escaping=;version'",
    "-H 'Accept: text/html' -H 'Accept: " PROTO "text'",
    "-H 'Accept-Encoding: gzip'",
    "-H 'Accept-Encoding: deflate, gzip, br, zstd'",
    "-H 'Accept-Encoding: zstd'",
    "-H 'Accept-Encoding: GZIP'",
    "-H 'Accept-Encoding: *'",
    "-H 'Accept-Encoding: gzip;q=0'",
    "-H 'Accept-Encoding: gzip; q=0.001'",
    "-H 'Accept-Encoding: gzip;q=1.0, identity; q=0.5, *;q=0'",
    "-H 'Accept-Encoding: gzip;q=0.5, identity'",
    "-H 'Accept-Encoding: gzip, identity'",
    "-H 'Accept-Encoding: identity;q=0, gzip;q=0.1'",
    "-H 'Accept-Encoding: *;q=0.3, gzip;q=0.31'",
    "-H 'Accept-Encoding: gzip;q=high'",
    "-H 'Accept-Encoding: gzip;level=1'",
    "-H 'Accept-Encoding: br;x, gzip'",
    "-H 'Accept-Encoding: br;x' -H 'Accept-Encoding: gzip'",
    "-H 'Accept-Encoding: br gzip'",
    "-H 'Accept-Encoding: , gzip'",
    "-H 'Accept-Encoding: gzip' -H 'Accept: " PROTO "delimited'",
    "-I -H 'Accept-Encoding: gzip' -H 'Accept: " PROTO "text'",
    "-X POST -H 'Accept-Encoding: gzip'",
    "-X DELETE -H 'Accept: " PROTO "delimited'",
    "-X OPTIONS",
    "-X PATCH",
};

/* Of each request a line: the status, and how the body is written. */
static const char *answers(struct arena *a, const char *url)
{
    struct buf line = {0};

    buf_append_str(&line, "for i in 1; do ");
    for (size_t i = 0; i < ARRAY_LEN(headers); i++)
        buf_printf(
            &line,
            "curl -s -D- -o /dev/null %s %s/metrics | tr -d '\\r' | "
            "grep -Ei '^(HTTP|Content-Type:|Content-Encoding:|Vary:)' | sort | tr '\\n' ' '; "
            "echo; ",
            headers[i], url);
    buf_append_str(&line, "done");
    const char *printed = peer_run(a, "%s", buf_str(&line));
    buf_free(&line);
    return printed;
}

TEST(every_accept_is_answered_in_the_form_that_etcd_chooses)
{
    struct peer both[2];
    struct arena a = {0};
    const char *of_clients[2], *of_probes[2];
    peer_open(&both[0], arena_printf(&a, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&both[1], arena_printf(&a, "%s/cleat", test_tmp_dir()));

    for (int i = 0; i < 2; i++) {
        const char *url = arena_printf(&a, "http://127.0.0.1:%u", port_take());
        peer_start(&both[i], arena_printf(&a, "--listen-metrics-urls=%s", url));
        of_clients[i] = answers(&a, both[i].client_url);
        of_probes[i] = answers(&a, url);
    }

    CHECK(strstr(of_clients[0], "Content-Encoding: gzip") && strstr(of_clients[0], "delimited"));
    CHECK_STR(of_clients[1], of_clients[0]);
    CHECK_STR(of_probes[1], of_probes[0]);
    for (int i = 0; i < 2; i++) {
        peer_stop(&both[i]);
        peer_close(&both[i]);
    }
    arena_free(&a);
}

/* All that is said of a scrape but for its numbers: names, help texts, types, labels, bounds and
 * the order of them, in each of the formats. The Go version is in a label, and each of protobuf's
 * texts has blanks as that build of its library puts them. */
TEST(families_and_samples_are_in_etcds_order_in_every_format)
{
    static const struct {
        const char *accept, *filter;
    } formats[] = {
        {"text/plain", "sed 's/ [^ ]*$//'"},
        {PROTO "text",
         "tr -s ' ' | grep -vE ' (value: [^\"]|(sample|cumulative)_|seconds:|nanos:)'"},
        {PROTO "compact-text",
         "tr -s ' ' | sed -E 's/ ?(value|sample_count|sample_sum|cumulative_count|seconds|nanos): "
         "?[-+e.0-9]+//g; s/: /:/g'"},
    };
    struct peer both[2];
    struct arena a = {0};
    peer_open(&both[0], arena_printf(&a, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&both[1], arena_printf(&a, "%s/cleat", test_tmp_dir()));
    for (int i = 0; i < 2; i++) {
        peer_start(&both[i], "--metrics=extensive");
        peer_run(&a, "until curl -sf %s/metrics | grep -q '^etcd_cluster_version{'; do :; done",
                 both[i].client_url);
        PEER_CTL(&both[i], "put a b");
        PEER_CTL(&both[i], "get a");
        PEER_CTL(&both[i], "alarm list");
    }

    for (size_t f = 0; f < ARRAY_LEN(formats); f++) {
        const char *seen[2];
        for (int i = 0; i < 2; i++)
            seen[i] = peer_run(&a,
                               "curl -sf --compressed -H 'Accept: %s' %s/metrics | %s | "
                               "sed -E 's/\"(go1[^\"]*|none|[0-9a-f]{12,16})\"/\"...\"/g'",
                               formats[f].accept, both[i].client_url, formats[f].filter);
        CHECK(strlen(seen[0]) > 50000);
        CHECK_STR(seen[1], seen[0]);
    }
    for (int i = 0; i < 2; i++) {
        peer_stop(&both[i]);
        peer_close(&both[i]);
    }
    arena_free(&a);
}
