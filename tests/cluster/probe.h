/*
 * probe: a request for /livez or /readyz, as a kubelet makes it, that waits for nobody.
 *
 *     probe_begin(&p, port, "/livez", now_ns, timeout_ns)
 *     probe_look(&p, now_ns)     until it is PROBE_GOOD or PROBE_BAD
 *
 * A connection of its own for each, plain HTTP to 127.0.0.1.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum probe_state { PROBE_IDLE, PROBE_CONNECTING, PROBE_READING, PROBE_GOOD, PROBE_BAD };

struct probe {
    enum probe_state state;
    int fd;
    const char *path;
    uint64_t began_ns, until_ns;
    char answer[512];
    unsigned answered;
};

/* Not while one is under way. */
void probe_begin(struct probe *p, uint16_t port, const char *path, uint64_t now_ns,
                 uint64_t timeout_ns);
enum probe_state probe_look(struct probe *p, uint64_t now_ns);
bool probe_is_under_way(const struct probe *p);
void probe_end(struct probe *p); /* given up */
