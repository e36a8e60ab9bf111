/*
 * peer_rig: rooms of several members on one fake wire, and a raw client to any of them.
 *
 * Member n lives at 10.0.0.n, port 2380, and has the id n * 0x11. Each turn takes what came and
 * notes it as text, so that tests compare lines.
 */
#pragma once

#include "harness/test.h"
#include "io/fake_world.h"
#include "peer/peer.h"

enum { RIG_MEMBERS_MAX = 5, RIG_CLUSTER = 0xabcd };

/* A snapshot that a member sends, and the last one that it is sent. */
struct rig_snapshot {
    struct buf source;      /* the image */
    uint64_t to, handed_in; /* of it */
    size_t piece;           /* so much at once; 0: as much as possible */
    uint64_t stops_at;      /* no more than that; 0: all */

    struct buf story; /* "begin from 11 index=7 data={} bytes=100", "end after 100", "gone ..." */
    struct buf image;
    uint64_t id, window; /* kept granted: tests set it */
    uint64_t granted, received;
    size_t begun, ended, gone, events, of_others;
};

struct rig_member {
    struct peer_rig *rig;
    unsigned number;
    struct inbox inbox;
    struct fake_clock clock;
    struct fake_resolver resolver;
    struct io io;
    struct peers *peers;
    struct conn_limit limit;
    struct listener *listener;
    struct buf log;   /* lines of the logger */
    struct buf heard; /* "vote 11>22 term=3", one line each, but for appends */
    struct buf appends;
    size_t heard_count, append_count, unreachable, removed, snapshot_sent, snapshot_failed;
    struct rig_snapshot snapshot;
    uint64_t last_request;
    struct buf results;                              /* "token status body" */
    bool takes_nothing, takes_no_appends, is_silent; /* notes nothing but counts */
    uint64_t append_bytes;
};

struct peer_rig {
    struct fake_world *world;
    unsigned count;
    struct net *stranger;                      /* 10.9.9.9 */
    struct rig_member at[RIG_MEMBERS_MAX + 1]; /* from 1 */
};

struct peer_rig *peer_rig_open(unsigned members);      /* they know each other */
struct peer_rig *peer_rig_connected(unsigned members); /* and have all their streams */
struct peer_rig *peer_rig_lonely(void); /* member 1 knows member 2, who is not there */
void peer_rig_close(struct peer_rig *r);

uint64_t peer_rig_id(unsigned number);
void peer_rig_start(struct peer_rig *r,
                    unsigned number); /* again, after peer_rig_crash or peer_rig_stop */
void peer_rig_know(struct peer_rig *r, unsigned who, unsigned whom);
void peer_rig_crash(struct peer_rig *r, unsigned number);
void peer_rig_stop(struct peer_rig *r, unsigned number);

/* Lets things happen, the turn of every member after each event. */
void peer_rig_run_ms(struct peer_rig *r, uint64_t ms);
/* Until the member has this many streams with the other, of at most four; fails if that takes
 * long. */
void peer_rig_until_streams(struct peer_rig *r, unsigned who, unsigned whom, uint64_t streams);
void peer_rig_until(struct peer_rig *r, const size_t *count, size_t want);

struct peer_status peer_rig_status(struct peer_rig *r, unsigned who, unsigned whom);
bool peer_rig_has_logged(struct peer_rig *r, unsigned who, const char *text);

/* A message of this type with entries "e<index>" from index + 1 on, sent and flushed. */
void peer_rig_send(struct peer_rig *r, const struct raft_message *m);
void peer_rig_append(struct peer_rig *r, unsigned from, unsigned to, uint64_t term, uint64_t index,
                     size_t count, size_t data_bytes);

/* Begins to send an image of so many bytes, all of it in turns to come. */
void peer_rig_snapshot(struct peer_rig *r, unsigned from, unsigned to, uint64_t index,
                       size_t bytes);

/* Somebody at 10.9.9.9 who writes raw bytes to a member's port, and notes what comes back. */
struct rig_raw {
    struct conn *conn;
    struct buf sent, got;
    size_t ended, closed, written;
    struct bytes piece;
    struct conn_write write;
};
struct rig_raw *peer_rig_raw_open(struct peer_rig *r, unsigned number, struct bytes what);
void peer_rig_raw_say(struct rig_raw *raw, struct bytes what); /* when all before was written */
void peer_rig_raw_close(struct peer_rig *r, struct rig_raw *raw);

/* All that comes back until the member ends it or `ms` have passed, without the date. The text is
 * the rig's until the next. */
const char *peer_rig_exchange(struct peer_rig *r, unsigned number, struct bytes what, uint64_t ms,
                              bool *ended);
