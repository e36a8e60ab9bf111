/* Shared by the files of tls: who we are (tls_context.c), steps of handshakes (tls_handshake.c),
 * whether somebody is where his certificate says (tls_san.c), and the connections (tls.c). */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "io/clock.h"
#include "io/conn_queue.h"
#include "io/resolve.h"
#include "io/tls.h"
#include "io/worker.h"

#include <openssl/ssl.h>
#include <pthread.h>

enum {
    TLS_RECORD_ALERT = 21,
    TLS_RECORD_HANDSHAKE = 22
}; /* what the first byte of a record says */

/* A certificate with its key, as it was read last. */
struct tls_identity {
    const char *cert_file, *key_file;
    struct buf cert, key;
    SSL_CTX *context; /* made of them */
};

struct tls {
    struct net base;
    struct tls_options options;
    const struct io *io;

    /* Of the core thread. */
    struct list ready;  /* connections with a step to make, which no job is free for */
    struct list halves; /* those that we wait for bytes of, who has waited longest first */
    struct list unread; /* those that came when too many were under way */
    struct list checks; /* those whose address is looked up */
    struct timer patience;
    unsigned under_way, jobs, sans, conns, listeners;
    bool is_beginning; /* some of the unread: closing one of the others leads there again */
    struct buf cipher; /* what was encrypted last, until the kernel has it */
    uint8_t *plain;    /* a record's content */

    /* Of whoever has the lock: steps run on several threads. */
    pthread_mutex_t lock;
    struct tls_identity serving, dialling;
    BIO_METHOD *bio;
    X509_STORE *trusted;
    STACK_OF(X509_NAME) * ca_names;
};

enum tls_phase {
    TLS_CONNECTING, /* the connection below is not there yet */
    TLS_UNREAD,     /* too many are under way */
    TLS_HALF,       /* bytes are waited for */
    TLS_READY,      /* a job is waited for */
    TLS_STEPPING,   /* the job has it */
    TLS_CHECKING,   /* nameservers are waited for */
    TLS_OVER,       /* the handshake, well or not */
    TLS_OPEN,
};

enum tls_step { TLS_STEP_MORE, TLS_STEP_DONE, TLS_STEP_FAILED };

struct tls_listener {
    struct listener base;
    struct tls *tls;
    struct listener *lower;
    unsigned conns; /* not yet announced */
    bool is_closed;
};

/* Nameservers are asked whether somebody is where his certificate says. */
struct tls_san {
    struct tls *tls;       /* NULL until then */
    struct tls_conn *conn; /* NULL: it has gone meanwhile */
    struct arena arena;
    const char *host; /* where he comes from: "10.0.0.1" */
    const char *names[TLS_SANS_MAX];
    size_t name_count, next;
    struct lookup lookup;
    const char *failed; /* what was looked up last in vain */
    enum err failed_err;
};

struct tls_conn {
    struct conn base;
    struct tls *tls;
    struct tls_listener *listener; /* until it is announced; NULL: we connect */
    struct conn *lower;            /* NULL: it has gone */
    const char *host;              /* of whom we connect to */
    enum tls_phase phase;
    struct list link;  /* by its phase */
    uint64_t since_ns; /* for how long we have waited for bytes */
    struct timer timer;

    /* The job's while it has the connection. */
    SSL *ssl;
    struct bytes input; /* what SSL has not read yet: of on_data, or of kept */
    struct buf kept;
    struct buf *output; /* where SSL writes */
    struct job job;
    enum tls_step step;
    struct buf why;
    X509 *refused;       /* whose it is was verified, and he is not wanted; NULL otherwise */
    struct arena names;  /* of conn_info, and host */
    struct tls_san *san; /* NULL: nothing has to be looked up */

    struct conn_queue queue;  /* not encrypted yet */
    size_t leaving_plain;     /* of it, at the front, in the record that is leaving */
    struct buf leaving, held; /* encrypted: lent to the kernel, and what comes after that */
    struct bytes piece;
    struct conn_write write;

    struct event work, gone;
    bool paused, ended, end_shown, shutdown_wanted, shutdown_sent, closing;
    enum err reason;
};

/* --- tls_context.c --- */

bool tls_contexts_open(struct tls *t, struct buf *why);
void tls_contexts_close(struct tls *t);
/* On a worker. The caller's own, of files as they are now; NULL: *why. */
SSL_CTX *tls_context(struct tls *t, struct tls_identity *identity, struct buf *why);
bool tls_is_allowed(const struct tls *t, X509 *leaf);
/* Appends the common name in UTF-8, whatever it is written in; nothing if it is no text. */
void tls_common_name(X509 *leaf, struct buf *out);

/* --- tls_handshake.c --- */

/* The job. */
void tls_step(struct job *j);
BIO_METHOD *tls_bio_method_new(void);
/* Notes why SSL has failed, in Go's words where it has some. */
void tls_describe_error(struct tls_conn *c, int error);
/* While it is verified: its names are others than those we wanted. Notes why. */
void tls_describe_mismatch(struct tls_conn *c, X509 *leaf);
void tls_describe_names(struct tls_conn *c, X509 *leaf); /* the end of that text */

/* Notes whose certificate it was that was good, and not good enough. */
void tls_refuse(struct tls_conn *c, X509 *leaf);

/* What a certificate is for, as far as the log tells it. */
struct tls_sans {
    struct bytes ips[TLS_SANS_MAX], hosts[TLS_SANS_MAX];
    size_t ip_count, host_count;
};
void tls_sans_of(struct tls_conn *c, X509 *leaf, struct tls_sans *out); /* good as long as c is */

/* --- tls_san.c --- */

/* In the job. False: he is somewhere else, and it is noted why. If nameservers have to be asked,
 * c->san is there. */
bool tls_san_begin(struct tls_conn *c, X509 *leaf);
void tls_san_look_up(struct tls_conn *c);
void tls_san_leave(struct tls_conn *c); /* nobody wants to know any more */
/* In tls.c: it was looked up. */
void tls_san_checked(struct tls_conn *c, bool is_good);
