/*
 * Every few seconds a small request to each member: how long does it take there and back, and what
 * time is it there? Nothing is decided by it; an operator reads it, and leases depend on clocks
 * that go equally fast.
 */
#include "peer/peer_int.h"

#include <stdlib.h>
#include <time.h>

static const int64_t DRIFT_MAX_NS = 1000 * 1000 * 1000;

/* The time in {"OK":true,"Now":"2026-01-02T03:04:05.678901234+01:00"}. False: it is none. */
static bool read_now(struct bytes body, int64_t *out_ns)
{
    char text[160];
    struct tm tm = {0};

    if (body.len == 0 || body.len >= sizeof(text))
        return false;
    memcpy(text, body.at, body.len);
    text[body.len] = '\0';
    if (!strstr(text, "\"OK\":true"))
        return false;
    const char *at = strstr(text, "\"Now\":\"");
    if (!at || !(at = strptime(at + 7, "%Y-%m-%dT%H:%M:%S", &tm)))
        return false;
    int64_t ns = (int64_t)timegm(&tm) * (int64_t)NS_PER_S;
    if (*at == '.') {
        at++;
        for (int64_t unit = NS_PER_S / 10; *at >= '0' && *at <= '9'; unit /= 10, at++)
            ns += (*at - '0') * unit;
    }
    if (*at == '+' || *at == '-') {
        struct tm zone = {0};
        int64_t sign = *at == '-' ? 1 : -1;
        if (!strptime(at + 1, "%H:%M", &zone))
            return false;
        ns += sign * (zone.tm_hour * 3600 + zone.tm_min * 60) * (int64_t)NS_PER_S;
    } else if (*at != 'Z') {
        return false;
    }
    *out_ns = ns;
    return true;
}

static void failed(struct peer *peer, const char *why)
{
    if (!peer->is_ill)
        log_warn(peer->peers->logger, "prober detected unhealthy status",
                 LOG_STR("round-tripper-name", "ROUND_TRIPPER_RAFT_MESSAGE"),
                 LOG_ID("remote-peer-id", peer->id),
                 LOG_NS("rtt", (int64_t)peer->status.round_trip_ns), LOG_STR("error", why));
    peer->is_ill = true;
}

static void measured(struct peer *peer, uint64_t round_trip_ns, int64_t there_ns)
{
    struct peers *p = peer->peers;
    int64_t here_ns = (int64_t)clock_wall_ns(p->clock);
    int64_t drift_ns = here_ns - there_ns - (int64_t)round_trip_ns / 2;
    bool is_large = drift_ns > DRIFT_MAX_NS || drift_ns < -DRIFT_MAX_NS;

    peer->is_ill = false;
    peer->status.round_trip_ns = round_trip_ns;
    histogram_observe(&peer->status.round_trips, HISTOGRAM_100US_16, round_trip_ns);
    peer->status.clock_drift_ns = drift_ns;
    if (is_large && !peer->is_drift_told)
        log_warn(p->logger, "prober found high clock drift",
                 LOG_STR("round-tripper-name", "ROUND_TRIPPER_RAFT_MESSAGE"),
                 LOG_ID("remote-peer-id", peer->id), LOG_NS("clock-drift", drift_ns),
                 LOG_NS("rtt", (int64_t)round_trip_ns));
    peer->is_drift_told = is_large;
}

static void on_done(struct request *r, unsigned status, struct bytes body, const char *why)
{
    struct peer *peer = r->context;
    uint64_t taken_ns = clock_now_ns(peer->peers->clock) - r->tag;
    int64_t there_ns;

    peer->is_probing = false;
    if (status == 200 && read_now(body, &there_ns))
        measured(peer, taken_ns > 0 ? taken_ns : 1, there_ns);
    else
        failed(peer, why ? why : "a response that is none");
    request_free(r);
}

void probe_all(struct peers *p)
{
    MAP_FOREACH (entry, &p->members) {
        struct peer *peer = entry->value;
        if (peer->is_remote || peer->is_probing)
            continue;
        struct request *r = mem_new(struct request);
        *r = (struct request){.verb = "GET",
                              .path = peer_copy_text(BYTES("/raft/probing")),
                              .timeout_ms = PEER_PROBE_INTERVAL_MS - 1,
                              .context = peer,
                              .tag = clock_now_ns(p->clock),
                              .on_done = on_done};
        peer->is_probing = true;
        requests_submit(&peer->probes, r);
    }
}
