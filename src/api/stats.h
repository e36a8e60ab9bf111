/*
 * stats: what clients have asked for so far, counted as etcd's interceptors count it.
 *
 * Plain numbers that the files of this room add to and the server shows (server/metrics.h). Times
 * are differences of facts->now_ns, which the server sets whenever it looks at the clock anyway.
 */
#pragma once

#include "api/methods.h"
#include "base/histogram.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

enum { API_CODES = 17, API_PROBES = 2, API_CHECKS = 4 };

struct api_method_stats {
    uint64_t started, received, sent; /* calls; messages of them */
    uint64_t handled[API_CODES];
};

/* Calls by what clients say they are. */
struct api_client_stats {
    char version[API_CLIENT_VERSION_BYTES_MAX + 1];
    uint64_t unary, streams;
};

/* A check of /livez or /readyz. */
struct api_check_stats {
    uint64_t succeeded, failed;
    bool is_well; /* the last time */
};

/* Whether it went well: [false] and [true]. */
struct api_timed {
    struct histogram took[2];
};

struct api_stats {
    struct api_method_stats methods[API_METHOD_COUNT];
    uint64_t received_bytes, sent_bytes; /* of messages */
    struct api_client_stats clients[API_CLIENT_VERSIONS_MAX];
    size_t client_count;
    uint64_t other_unary, other_streams; /* of versions that there was no place for */

    struct api_timed ranges;           /* executing one: HISTOGRAM_100US_20 */
    struct api_timed range_requests;   /* with all the waiting: HISTOGRAM_1MS_14 */
    struct api_timed readonly_txns;    /* likewise */
    struct histogram watch_events;     /* making a message of events: HISTOGRAM_1MS_14; */
    struct histogram watch_per_event;  /* the same by the number of its events, */
    struct histogram watch_controls;   /* of others, */
    struct histogram watch_progress;   /* and of those of progress */
    struct histogram hash, hash_kv;    /* HISTOGRAM_10MS_15 */
    struct histogram defragmentations; /* HISTOGRAM_100MS_13 */
    struct histogram snapshots;        /* HISTOGRAM_10MS_17 */
    uint64_t *handling;                /* API_HANDLING_BUCKETS and a sum for each method, or NULL */

    uint64_t healthy, unhealthy; /* results of /health */
    struct api_check_stats checks[API_PROBES][API_CHECKS];
    uint64_t scrapes;
    uint64_t slow_reads; /* that took longer than an entry should */
};

/* Bounds of the time that calls take, in milliseconds, as gRPC's interceptors have them. */
enum { API_HANDLING_BUCKETS = 12 };
extern const unsigned api_handling_bounds_ms[API_HANDLING_BUCKETS - 1];

/* "livez", "readyz"; "serializable_read". NULL: that probe has no such check. */
const char *api_probe_name(unsigned probe);
const char *api_check_name(unsigned probe, unsigned check);
