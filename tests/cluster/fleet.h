/*
 * fleet: the members of one cluster as processes, to be killed, paused and brought back.
 *
 *     struct fleet f;
 *     fleet_open(&f, &options);            names and ports
 *     fleet_start(&f, 0); ...              each member is a process of its own
 *     fleet_kill(&f, 2); fleet_start(&f, 2);
 *     fleet_close(&f);                     whatever still runs is killed
 *
 * The program is cleat, or real etcd for comparison, or some members are one and some the other:
 * the flags are the same. Logs go to <dir>/m1.log and so on. Members die with the process that
 * started them, however that ends.
 */
#pragma once

#include "base/arena.h"
#include "io/net.h"

#include <sys/types.h>

enum { FLEET_MAX = 7 };

struct fleet_member {
    const char *program;
    pid_t pid;        /* 0 when it does not run */
    bool is_stopping; /* it was told to, and may end */
    bool joins;       /* its cluster is there already: all others are in it */
    uint16_t client_port, peer_port;
    uint16_t metrics_port;      /* plain HTTP, for probes; 0: there is none */
    uint16_t advertised_port;   /* where its peers look for it */
    struct net_address address; /* of its client port */
    struct net_address peer_address;
};

struct fleet {
    struct arena arena;
    const char *dir, *flags;
    const char *certs; /* the directory of certificates (scripts/certs); NULL: none are used */
    unsigned count, election_ms;
    struct fleet_member members[FLEET_MAX];
    char problem[1024]; /* why something could not be done, or has ended by itself; else empty */
};

struct fleet_options {
    const char *program;
    const char *other;    /* of every second member, m2 and so on; NULL: the same */
    const char *dir;      /* of the caller: made and removed by him */
    const char *flags;    /* further ones; NULL: none */
    unsigned count;       /* members */
    unsigned election_ms; /* the election timeout; heartbeats are a tenth of it */
    bool is_by_tls;       /* members and clients, by certificates that all of them show */
    bool has_probes;      /* a port for them (--listen-metrics-urls), without TLS */
};

/* Chooses ports; between that and the first start advertised_port may be set to somebody else's. */
MUST_CHECK bool fleet_open(struct fleet *f, const struct fleet_options *options);
void fleet_close(struct fleet *f);

MUST_CHECK bool fleet_start(struct fleet *f, unsigned member);

/* Their certificate is replaced by a new one, if they have one. */
MUST_CHECK bool fleet_renew_certs(struct fleet *f);

/* SIGKILL, at whatever it was doing, and waits for its end. One that does not run is fine. */
void fleet_kill(struct fleet *f, unsigned member);

/* Removes the data of a member that does not run. */
void fleet_forget(struct fleet *f, unsigned member);

/* SIGTERM. It runs on until fleet_look finds that it has ended: then its pid is 0. */
void fleet_stop(struct fleet *f, unsigned member);

/* It is being removed from its cluster, and will end by itself. */
void fleet_let_end(struct fleet *f, unsigned member);

/* SIGSTOP, SIGCONT. */
void fleet_pause(struct fleet *f, unsigned member);
void fleet_resume(struct fleet *f, unsigned member);

/* Looks who has ended. False, and a problem with the end of its log, if that was nobody's will, or
 * a bad end. */
MUST_CHECK bool fleet_look(struct fleet *f);

/* The most that it has had resident since it was started; 0 if it does not run. */
uint64_t fleet_peak_bytes(const struct fleet *f, unsigned member);

/* Resident, and no file's: what it has allocated; 0 if it does not run. */
uint64_t fleet_anonymous_bytes(const struct fleet *f, unsigned member);

/* The member's CPU time since it was started; 0 if it does not run. */
double fleet_cpu_s(const struct fleet *f, unsigned member);

/* All that is resident; how many files and connections it has open. 0 if it does not run. */
uint64_t fleet_resident_bytes(const struct fleet *f, unsigned member);
unsigned fleet_open_files(const struct fleet *f, unsigned member);

/* How often it has said this, in the lines of its log that begin there or later; then it is where
 * the next one will begin. */
unsigned fleet_said(const struct fleet *f, unsigned member, const char *text, long *from);
