/*
 * version: numbers that servers and clusters call themselves by, such as 3.7.1.
 *
 * A cluster's version is the lowest minor version among its servers, with a zero at the end. It
 * decides what may be written into the log, so every member agrees on it through the log.
 */
#pragma once

#include "base/bytes.h"

/* What we claim to be: the etcd whose behaviour this is. */
#define SERVER_VERSION "3.7.1"

/* What a cluster is before its servers have told their versions, and the oldest one to talk to. */
#define CLUSTER_VERSION_MIN "3.0.0"

struct version {
    uint64_t major, minor, patch;
};

/* What the servers of a cluster run. */
struct version_range {
    struct version lowest, highest;
};

enum { VERSION_TEXT_MAX = 64 }; /* with its final zero */

/* Three decimal numbers; what follows a '-' or '+' (a pre-release, say) is checked and left out. */
bool version_parse(struct bytes text, struct version *out);

/* "3.7.1". Returns out. */
const char *version_text(struct version v, char out[static VERSION_TEXT_MAX]);
/* "3.7": what etcd shows of a cluster's version. Returns out. */
const char *version_minor_text(struct version v, char out[static VERSION_TEXT_MAX]);

/* As numbers, the leftmost first. */
int version_compare(struct version a, struct version b);

/* Of SERVER_VERSION. */
struct version version_of_server(void);
