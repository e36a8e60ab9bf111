/*
 * actor_int: what the files of the actors share.
 *
 *     actor.c      its connection and its turn
 *     writer.c     calls: what is made next, who waits for what, what the answers say
 *     requests.c   what can be asked: puts, deletes, ranges, transactions
 *     operator.c   what an operator asks of members
 *     administrator.c   what an administrator asks for
 *     login.c      tokens, and what is refused without a good one
 *     watcher.c    the witness and the watchers
 */
#pragma once

#include "rpc/client.h"
#include "sim/actor.h"

#include <inttypes.h>

enum {
    PAUSE_MS_MAX = 40, /* before it does something at all */
    LIVES_MAX = 64,    /* watches one after the other */
    CROWD_MAX = 2500,  /* calls at a time */
    POLLS_MAX = 4,     /* that a poller has under way */
    HERD_CHUNK = 128,  /* keys in a transaction: as many as it may have */
    BACKUP_S_MAX = 30, /* a slow reader's; then it gives up */
    SENDS_MAX = 4,     /* of a call that may be sent again */
    OPERATOR_PAUSE_MS_MAX = 1500,
    LIMIT_MS_MIN = 500,
    LIMIT_MS_MAX = 4000, /* to connect, to hear of a watch, to have a lease renewed */
};

/*
 * A call under way:
 *
 *     free --> sent, has a call --> answered, failed, given up --> free
 *               ^          |
 *               +- waits <-+  for a connection, to be sent again
 */
struct asked {
    struct client_call *call; /* NULL: it is free, or waits */
    bool waits;
    unsigned sends;
    const char *path;
    struct buf wire; /* while it may be sent again */
    uint64_t op;
    int64_t floor;        /* the member said that it was at this revision, when it was sent */
    int64_t old_revision; /* that it reads; 0: the newest */
    bool stale;
    bool is_future;           /* a compaction that must be refused */
    bool is_headless;         /* its response has no header */
    bool is_backup;           /* it is answered in pieces */
    bool is_login, is_status; /* of auth */
    struct permits_login login;
    size_t change; /* of users and roles, plus one; 0: none */
};

/* What an actor has of a user, where there are some. */
struct login {
    struct rng rng;
    struct buf token;
    unsigned number;       /* of the token; PERMITS_NO_TOKEN: it has none */
    unsigned used;         /* that of the request in the making */
    unsigned stream_token; /* that the stream of renewals was opened with */
    bool is_due;           /* it has to log in */
    bool is_denied;        /* a watcher's last watch */
    size_t status_since;   /* permits_count when it began to ask for the status */
    struct permits_watch watch;
    struct buf key, end; /* of that */
};

struct actor {
    struct actor_options o;
    struct history *h;
    struct rng rng;
    struct rng past; /* for reads of the past in transactions */
    struct client *client;
    size_t server;        /* that it is, or will be, connected to */
    uint32_t endpoints;   /* that it knows of, where members come and go */
    bool follows;         /* it always knows the newest of them */
    int64_t conn_told;    /* the highest revision that this connection was told */
    bool requires_leader; /* and says so */
    bool is_open, winding_down;
    struct timer timer, limit; /* what it does next; when it has waited long enough */
    bool timer_due, limit_due;
    uint64_t calls;
    struct arena arena;            /* of the request in the making */
    struct client_field fields[2]; /* likewise */
    struct login login;

    /* a writer */
    struct asked *asked;
    size_t asked_max, asked_count;
    bool impatient, disarms;
    unsigned haste;                /* calls to be made at once, behind a large delete */
    struct client_call *keepalive; /* a lessee's stream; NULL: none */
    uint64_t call_timeout_ns;
    bool reads_final, final_done;
    bool is_kept;      /* a keeper's: it has a key */
    bool reads_slowly; /* an operator */
    int64_t lease;
    int64_t oldest_in_txn; /* the lowest revision that the last transaction reads; 0: none */
    struct buf backup;     /* an operator's, as far as it has come */
    uint64_t backup_bytes; /* that there are to be */
    uint64_t ids[ACTOR_SERVERS_MAX]; /* of members, as far as one has heard of them */

    /* a witness or watcher */
    struct client_call *stream;
    int64_t next_revision;
    bool created, dozing, in_fragments;
    struct history_watch lives[LIVES_MAX];
    size_t life_count;
};

/* actor.c */
void actor_wait_ms(struct actor *a, uint64_t max);
void actor_wait_between_ms(struct actor *a, uint64_t min, uint64_t max);
/* It waits so long for something that may never come, from now on. */
void actor_limit(struct actor *a);
/* The connection is closed; another is made after a while, to another member if there is one. */
void actor_lost(struct actor *a);
/* Of a call on the connection, with the metadata that the actor sends. */
struct client_request actor_request(struct actor *a, const char *path);

/* requests.c: in the actor's arena, until the request is sent. */
struct bytes request_key(struct actor *a, unsigned key);
struct pb_put_request request_put(struct actor *a);
struct pb_put_request request_small_put(struct actor *a);
struct pb_delete_range_request request_delete(struct actor *a);
struct pb_delete_range_request request_herd_delete(struct actor *a);
struct pb_range_request request_read(struct actor *a);
struct pb_txn_request request_txn(struct actor *a);
/* As many puts at once as a transaction may have, with this lease. */
struct pb_txn_request request_herd(struct actor *a, int64_t lease);

/* writer.c */
bool actor_is_writer(const struct actor *a);
void writer_turn(struct actor *a);
void writer_lost(struct actor *a);
void writer_limit_reached(struct actor *a);
void writer_answered(struct actor *a, struct asked *q, struct bytes message);
/* Does this error say for certain that nothing has happened, now or when it was sent before? */
bool writer_is_refusal(enum rpc_code code, struct bytes text, bool repeated);
void writer_call_ended(struct actor *a, struct asked *q, const struct client_event *e);
/* Begins an operation and sends it; there is one free. The actor's arena is reset. */
struct asked *writer_ask(struct actor *a, enum history_kind kind, const char *path,
                         const struct pb_schema *schema, const void *msg);

/* operator.c */
extern const char operator_backup_path[];
void operator_begin(struct actor *a);
void operator_hashed(struct actor *a, const struct asked *q, struct bytes message);
void operator_hears_piece(struct actor *a, struct bytes message);
void operator_has_backup(struct actor *a, const struct asked *q);

/* administrator.c */
void administrator_begin(struct actor *a);
void administrator_answered(struct actor *a, const struct asked *q, struct bytes message);
/* False: it is none that was asked for, or it may still be made. */
bool administrator_hears_refusal(struct actor *a, const struct asked *q,
                                 const struct client_event *e);

/* login.c: nothing happens where there are no users and roles. */
extern const char login_path[];
void login_init(struct actor *a);
void login_free(struct actor *a);
/* The token, if it has one, for a request. Returns how many. */
size_t login_fields(struct actor *a, struct client_field *out);
/* It was sent, on a stream that was there before or not. */
void login_sent(struct actor *a, struct asked *q, bool is_old_stream);
void login_over(struct actor *a, const struct asked *q);
bool login_is_due(const struct actor *a);
void login_begin(struct actor *a);
void login_answered(struct actor *a, const struct asked *q, struct bytes message);
/* False: these words are about something else. */
bool login_hears_refusal(struct actor *a, const struct asked *q, struct bytes text);
void login_watch_begins(struct actor *a, struct bytes key, struct bytes end);
/* Why it was refused, or that it was created: no words. */
bool login_watch_hears(struct actor *a, struct bytes text);

/* watcher.c */
void watcher_turn(struct actor *a);
void watcher_heard(struct actor *a, struct bytes message);
void watcher_lost(struct actor *a);
