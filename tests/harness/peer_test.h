/*
 * peer: real etcd beside us, for the tests that compare (make peers builds it).
 *
 *     struct peer etcd;
 *     peer_open(&etcd, dir);                 skips the test where there is none
 *     peer_start(&etcd, "");                 returns when it answers
 *     PEER_CTL(&etcd, "put %s %s", k, v);    what etcdctl prints
 *     peer_stop(&etcd);                      may be started again on the same directory
 *     peer_close(&etcd);
 *
 * A test that fails leaves nothing running: etcd dies with its parent.
 */
#pragma once

#include "base/arena.h"

#include <sys/types.h>

#define PEERS "build/peers/"

struct peer {
    struct arena arena; /* of everything printed and named; peer_close frees it */
    const char *dir, *client_url, *peer_url;
    pid_t pid; /* 0 when it does not run */
};

/* Skips the test, loudly, where the programs are missing. */
void peer_need(void);

/* Names a member "m" of its own cluster, with free ports on 127.0.0.1. */
void peer_open(struct peer *p, const char *dir);
void peer_close(struct peer *p);

/* Starts etcd with these further flags; its log goes to <dir>.log. */
void peer_start(struct peer *p, const char *flags);

/* SIGTERM, and waits for its end. */
void peer_stop(struct peer *p);

/* Runs a command line, which must succeed; what it prints, without the last newline. */
__attribute__((format(printf, 2, 3))) const char *peer_run(struct arena *arena, const char *format,
                                                           ...);

#define PEER_CTL(p, format, ...)                                                                   \
    peer_run(&(p)->arena, PEERS "etcdctl --endpoints %s " format, (p)->client_url, ##__VA_ARGS__)
