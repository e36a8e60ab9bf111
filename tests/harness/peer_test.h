/*
 * peer: real etcd beside us, for the tests that compare (make peers builds it), and our own server
 * as a program, for the tests that want it whole.
 *
 *     struct peer etcd;
 *     peer_open(&etcd, dir);                 skips the test where there is none
 *     peer_start(&etcd, "");                 returns when it serves
 *     PEER_CTL(&etcd, "put %s %s", k, v);    what etcdctl prints
 *     peer_stop(&etcd);                      may be started again on the same directory
 *     peer_close(&etcd);
 *
 *     struct peer cleat;
 *     peer_open_ours(&cleat, dir);           the one built together with this test program
 *     peer_start(&cleat, "");                and so on, all the same
 *
 * A test that fails leaves nothing running: either dies with its parent.
 */
#pragma once

#include "base/arena.h"
#include "harness/gate_test.h"

#include <sys/types.h>

struct peer {
    struct arena arena; /* of everything printed and named; peer_close frees it */
    const char *program;
    const char *dir, *client_url, *peer_url;
    const char *advertised_url; /* of itself, to itself; peer_url unless the test says otherwise */
    unsigned files_max;         /* that it may have open, however it asks; 0: as many as we may */
    pid_t pid;                  /* 0 when it does not run */
    bool is_ours;
};

/* As many files as the system allows, at least so many, may be open here and in programs started
 * from now on; skips the test where it does not allow that many. */
void peer_allow_files(unsigned count);

/* Passes the gate of real etcd, 3.7, and its tools: the test is skipped where they are missing. */
void peer_need(void);

/* The path of a program of ours, built together with this test program. Where it is below the
 * working directory it is told from there: command lines then work in a directory with a space in
 * its name, too. A test that changes its directory first takes realpath of it. */
const char *peer_own_program(struct arena *arena, const char *name);

/* Names a member "m" of its own cluster, with free ports on 127.0.0.1. */
void peer_open(struct peer *p, const char *dir);
void peer_open_ours(struct peer *p, const char *dir);
void peer_close(struct peer *p);

/* Starts it with these further flags; its log goes to <dir>.log. */
void peer_start(struct peer *p, const char *flags);

/* The same without waiting until it serves, and the waiting. */
void peer_launch(struct peer *p, const char *flags);
void peer_await(struct peer *p);
/* Launches it with these flags and no others. */
void peer_launch_as(struct peer *p, const char *flags);

/* SIGTERM, and waits for its end, which must be a good one. */
void peer_stop(struct peer *p);

/* SIGKILL, at whatever it was doing. */
void peer_kill(struct peer *p);

/* How many lines of its log have this text; and waits until so many have. */
unsigned peer_said(struct peer *p, const char *text);
void peer_await_said(struct peer *p, const char *text, unsigned count);

/* Anonymous memory it holds just now: what it has allocated, not the pages of files it maps. */
size_t peer_memory_bytes(const struct peer *p);

/* All it holds, the pages of files in memory too. */
size_t peer_resident_bytes(const struct peer *p);

/* Do these two say anything? Sanitizers keep what was freed, and much of their own. */
bool peer_memory_counts(void);

/* Until its store has the version of the cluster, 3.7.0, which etcd writes some seconds after its
 * start. Asked by etcdctl: behind its gate. */
void peer_await_storage_version(struct peer *p);

/* For how long its first thread, which everything is decided on, has been at work so far: whatever
 * else this machine does takes no part in it. Skips the test where the kernel does not say. */
uint64_t peer_core_ns(const struct peer *p);
/* For how long that thread has waited for a processor, because others had them all. */
uint64_t peer_core_waited_ns(const struct peer *p);

/* Runs a command line, which must succeed; what it prints, without the last newline. The line names
 * programs of a gate by its variable: $PEERS/etcdctl. */
__attribute__((format(printf, 2, 3))) const char *peer_run(struct arena *arena, const char *format,
                                                           ...);

/* Where it listens for clients, on 127.0.0.1; and a connection to there, which must succeed. */
uint16_t peer_port(const struct peer *p);
int peer_connect(const struct peer *p);

/* The number after "name": in JSON that somebody printed; it must be there. */
int64_t peer_json_number(const char *json, const char *name);

#define PEER_CTL(p, format, ...)                                                                   \
    peer_run(&(p)->arena, "$PEERS/etcdctl --endpoints %s " format, (p)->client_url, ##__VA_ARGS__)
