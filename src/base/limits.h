/*
 * limits: the bound of every queue, window, batch and budget, and how the bounds relate.
 *
 * Memory is bounded by these and by live data, not by what clients do; a turn's time by them and by
 * the number of connections. Allocation never fails here, so what is refused is admission: whoever
 * takes something in asks first, and stops at one of these numbers. They stand in one place because
 * each was chosen with others in view; what must hold between two of them is asserted at the end,
 * so that whoever changes one is told which other he has to change.
 *
 * Grouped by room, from the lowest floor up. The room's header says what happens at the bound. Not
 * here: what a protocol or a file format says (lengths of heads and names, largest numbers), and
 * how a data structure is built (nodes of a tree, the first size of a buffer).
 */
#pragma once

#include "base/assert.h"

#include <stddef.h>
#include <stdint.h>

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
};

/* --- a client's request -------------------------------------------------------------------- */

/* etcd's defaults for what a client may send in one request (--max-request-bytes). */
#define REQUEST_BYTES_DEFAULT     (3 * MIB / 2)
#define GRPC_OVERHEAD_BYTES       (512 * KIB)
#define RPC_MESSAGE_BYTES_DEFAULT (REQUEST_BYTES_DEFAULT + GRPC_OVERHEAD_BYTES)

/* The most that --max-request-bytes may say: the wire's limit, less what is around a request. */
#define REQUEST_BYTES_MAX (PB_MESSAGE_BYTES_MAX - GRPC_OVERHEAD_BYTES)

/* --- base ---------------------------------------------------------------------------------- */

enum {
    LOG_LINE_BYTES_MAX = 4096,   /* a longer line is cut */
    LOG_SAMPLE_EACH = 100,       /* lines of a kind in a second, then each hundredth: etcd's */
    LOG_SAMPLE_KINDS_MAX = 1024, /* places in the code that write lines: there are some 400 */
    LOG_KEY_BYTES_MAX = 256,     /* of a client's key in a line: more, and the rest would be cut */
    LOG_TEXT_BYTES_MAX = 1024,   /* of a request's description */
    PB_DESCRIBED_DEPTH_MAX = 16, /* of messages in one another, in it */
    LOG_TRACE_STEPS_MAX = 8,     /* of a trace: nothing has more stages */
    LOG_TRACE_MS = 100,          /* what takes longer has its stages told: etcd's */
    MEM_SPARE_BYTES_MAX = 4 * MIB, /* of freed small pieces that one thread keeps */
    MEM_PREPARED_BYTES = 2 * MIB,  /* a region of huge pages, */
    MEM_PREPARED_MAX = 2,          /* and how many of them are kept ready */

    BUF_POOL_COUNT_MAX = 1024,
    BUF_POOL_BYTES_MAX = 4 * KIB, /* of each: a larger one is not kept */
    BUF_POOL_ALL_BYTES_MAX = 512 * KIB,
};

/* --- io ------------------------------------------------------------------------------------ */

enum {
    NET_READ_BYTES = 64 * KIB,      /* of one read at most */
    NET_READ_BUFFERS_MAX = 256,     /* that wait in the inbox at once, over all connections */
    NET_SPARE_BUFFERS_MAX = 16,     /* of them, kept for the next read */
    NET_READS_AT_ONCE_MAX = 128,    /* before the turn: with 5 to 10 us each, a millisecond */
    NET_UNSENT_BYTES = 512 * KIB,   /* that the kernel holds for a peer whose window is shut */
    NET_BACKLOG_DEFAULT = 1024,     /* connections that nobody has accepted yet */
    NET_ACCEPTS_AT_ONCE_MAX = 64,   /* before others are looked at */
    NET_PATIENCE_MS = 250,          /* with a connection that proves nothing, while others wait */
    NET_SWEPT_AT_ONCE_MAX = 256,    /* connections that turn out to have proved themselves */
    NET_LOOK_NS_PER_CONN = 1000,    /* between two looks at all that have: a tenth of the time */
    NET_ACCEPT_RETRY_MS_MIN = 5,    /* after one that failed; then twice as long each time, */
    NET_ACCEPT_RETRY_MS_MAX = 1000, /* as Go's servers do */
    IO_PIECES_AT_ONCE_MAX = 64,     /* of a write, in one system call */
    IO_THREADS_MAX = 16,            /* for clients' connections, beside the core's */
    TLS_RECORD_BYTES = 16 * KIB,    /* of content in one record: the protocol's */
    TLS_HEAD_BYTES = 5,             /* of a record, in front of that */
    TLS_HANDSHAKES_MAX = 2048,      /* under way at once, of those who connect to us: some 100 MB */
    TLS_PATIENCE_MS = 500,          /* with one that keeps us waiting while others have no place */
    TLS_HANDSHAKE_MS = 10 * 1000,   /* etcd's, for all of it */
    TLS_JOBS_MAX = 8,               /* steps submitted at once: the threads are never without */
    TLS_HELD_BYTES_MAX = 4 * KIB,   /* answers about keys, to somebody who does not read them */
    TLS_FILE_BYTES_MAX = MIB,       /* of certificates, or a key */
    TLS_HOST_BYTES_MAX = 255,       /* of a name: DNS has no longer ones */
    TLS_SANS_MAX = 64,              /* names of a certificate that a connection keeps, */
    TLS_SANS_BYTES_MAX = 4 * KIB,   /* and bytes of them: no more is read */
    DISK_READ_STEP_BYTES = 64 * KIB, /* of a whole file, in one system call */
    CLOCK_FIRED_AT_ONCE_MAX = 64,    /* timers that one event of the inbox may fire */
    LOOKUP_ADDRESSES_MAX = 16,       /* of one name; more are left out */
    LOOKUP_NAMES_MAX = 8,            /* of one address, too */
    LOOKUP_NAME_BYTES_MAX = 255,     /* DNS has no longer ones */
};

/* --- pb ------------------------------------------------------------------------------------ */

/* Nesting: a Txn inside a Txn costs two levels. etcd takes as many of them as one may have
 * operations, and what their responses hold is three levels further down. */
#define PB_DEPTH_MAX 300

/* How deep an entry of the log may be nested, which is Go's own bound: another member, a real etcd,
 * lets deeper transactions into the log than PB_DEPTH_MAX, and what is committed is executed. */
#define PB_LOG_DEPTH_MAX 10000

/* The largest message of any kind: a raft message on a peer stream may be this big in etcd. */
#define PB_MESSAGE_BYTES_MAX ((size_t)512 * MIB)

/* Memory that decoding may take: the floor, so much for each byte, so much for each level. */
#define PB_ARENA_FLOOR  ((size_t)64 * KIB)
#define PB_ARENA_FACTOR 16
#define PB_ARENA_LEVEL  80

/* --- gateway ------------------------------------------------------------------------------- */

/* Objects and lists within one another in a JSON text: Go's. */
#define JSON_DEPTH_MAX 10000

/* Of a long response, turned into text at a time, which is up to ten times as long; and text that
 * is sent with its length before it, not in chunks. */
#define GATEWAY_CHUNK_BYTES (32 * KIB)
#define GATEWAY_WHOLE_BYTES (64 * KIB)

/* Of JSON: a longer request waits for its turn, and a turn reads so much of those that wait. */
#define GATEWAY_AT_ONCE_BYTES (64 * KIB)
#define GATEWAY_TURN_BYTES    (128 * KIB)

/* --- entry --------------------------------------------------------------------------------- */

/* Members of all kinds that one configuration can hold. etcd has no such bound and recommends
 * seven; with one, a configuration is a value that can be copied and never allocates. */
#define RAFT_MEMBERS_MAX 64

/* Single changes in one conf change. More do not decode. */
#define RAFT_CHANGES_MAX 64

/* --- http ---------------------------------------------------------------------------------- */

enum {
    HTTP1_HEAD_BYTES_MAX = 256 * KIB, /* of a request or a response, with the list of its fields */
    HTTP1_LINE_MAX = 256,             /* of a chunk's size */
    HTTP1_TRAILER_BYTES_MAX = 8 * KIB,

    /* A target whose path is cleaned or decoded, and the field and the page by which a client is
     * sent elsewhere: "%2522" for a byte of the path in each, "&#34;" for one of the query. */
    HTTP_ODD_TARGET_BYTES_MAX = 8 * KIB,
    HTTP_DIRECTIONS_BYTES_MAX = 11 * HTTP_ODD_TARGET_BYTES_MAX,

    HTTP_HEAD_USUAL_BYTES = 16 * KIB, /* of each connection's head; what is beyond it counts: */
    HTTP_HEADS_BYTES_MAX = 16 * MIB,  /* of all that share a budget, those of a thread's clients */

    HTTP_BODY_WINDOW_BYTES = 256 * KIB, /* shown and not consumed: then reading stops */
    HTTP_AHEAD_BYTES = 64 * KIB,        /* of the next request, before the first is answered */
    HTTP_DISCARD_BYTES = 256 * KIB,     /* of a request that nobody wants to read any more */
    HTTP_INTERIM_MAX = 5,               /* 1xx before a response */

    WIRE_FRAME_BYTES = 16 * KIB + 9,           /* the longest that is added at once */
    WIRE_BYTES_MAX = 16 * WIRE_FRAME_BYTES,    /* of one gathering */
    WIRE_SPARE_MAX = 4,                        /* gatherings kept: they follow one another */
    WIRE_SPARE_BYTES_MAX = 2 * WIRE_BYTES_MAX, /* a buffer that has grown beyond is given back */
};

/* --- raft ---------------------------------------------------------------------------------- */

/* One raft append message carries at most this much entry data, unless a single entry is larger. */
#define RAFT_MESSAGE_BYTES_MAX (1 * MIB)

/* Append messages to one follower that it has not responded to. */
#define RAFT_INFLIGHT_MESSAGES_MAX 512
#define RAFT_INFLIGHT_BYTES_MAX    (PEER_IN_BYTES_MAX / 2) /* one that is slow drops the rest */

/* Entries that are applied and durable, kept in memory for followers that are a little behind. */
#define RAFT_RESIDENT_ENTRIES_MAX 10000
#define RAFT_RESIDENT_BYTES_MAX   (32 * MIB)

/* Entries that are committed and wait for the store, which may be slower than the log for minutes:
 * with more of them a follower takes in no further ones. */
#define RAFT_UNAPPLIED_BYTES_MAX (16 * MIB)

/* Entries that a leader has taken in and not applied: with more of them it takes in no further
 * ones. */
#define RAFT_UNCOMMITTED_BYTES_MAX (64 * MIB)

/* The same for a follower whose log ends before what is committed. Nobody waits for it, and all
 * that it has missed is sent to it as fast as it can take it: it takes less at a time. What is
 * under way to the log, or waits to be applied; and the store's batches, one that is committed and
 * one that is open. */
#define CATCH_UP_LOG_BYTES_MAX   (4 * MIB)
#define CATCH_UP_STORE_BYTES_MAX (16 * MIB)

/* Reads waiting to be confirmed, or for the term's first commit. Reads may be lost, so beyond this
 * many the newest are. */
#define RAFT_READS_MAX 65536

/* --- wal ----------------------------------------------------------------------------------- */

#define WAL_SEGMENT_BYTES 64000000 /* etcd's, and not MiB */

/* The largest record. A file that claims more is damaged. */
#define WAL_RECORD_BYTES_MAX ((uint64_t)512 * MIB)

/* Segments with a file descriptor each: the newest. Older ones are opened to be read. */
#define WAL_SEGMENTS_OPEN_MAX 4

/* Whoever makes work for the log stops when wal_pending_bytes reaches this. wal_append itself takes
 * what comes: it is raft's word, and there is no giving it back. */
#define WAL_PENDING_BYTES_MAX ((size_t)32 * MIB)

/* A segment is cut when less than this is left of it, or a sixteenth if that is less, since the
 * last append may go beyond its end; there, on a full disk, it would find no space although the
 * next segment has its own. */
#define WAL_SLACK_BYTES ((size_t)2 * MIB)

/* Of a segment that is the last one there is space for, or a quarter if that is less: kept for
 * votes and terms, of which thousands fit, and for the one entry by which a budget is overdrawn. */
#define WAL_RESERVE_BYTES ((size_t)4 * MIB)

enum {
    WAL_SLOW_SYNC_NS = 1000000000,   /* a sync that takes longer is told of: etcd's */
    WAL_LINGER_BYTES_MAX = 64 * KIB, /* of records that nobody waits for */
    WAL_SHARE_BYTES_MIN = 16 * KIB,  /* shorter data is copied, longer is shared: see wal_bench.c */
    WAL_SPARE_BYTES_MAX = 1 * MIB,   /* of a batch's buffer, kept for the next one */
    WAL_WINDOW_BYTES = 256 * KIB,    /* of a segment that is replayed: what is in memory */
    WAL_COPY_BYTES = 1 * MIB,        /* of a segment that is copied, at a time */
    WAL_NAMES_BYTES_MAX = 4 * MIB,   /* of a directory's listing */
    WAL_MARK_ENTRIES = 64,           /* between two marks of the index of segments, */
    WAL_MARK_BYTES = 64 * KIB,       /* or so many bytes: what a wal_read may read in vain */
};

/* --- backend ------------------------------------------------------------------------------- */

enum {
    BACKEND_KEY_BYTES_MAX = 2 * MIB,          /* a user name that fills a whole request fits */
    BACKEND_PENDING_BYTES_DEFAULT = 64 * MIB, /* changes not committed: then nothing is applied */
    BACKEND_PART_BYTES = 4 * MIB,             /* of an entry that is committed in parts */
    BACKEND_UPKEEP_BYTES = 4 * MIB,           /* in a batch: 190,000 deletes ahead */
    BACKEND_DIRTY_BYTES_DEFAULT = 4 * MIB,    /* as much is kept by LMDB, for good: see backend.h */
    BACKEND_SLICE_BYTES_DEFAULT = 4 * MIB,    /* a commit may wait for one: tens of milliseconds */
    BACKEND_WORKER_VIEWS_MAX = 64,            /* open at once, by all workers together */
    BACKEND_CORE_VIEWS_MAX = 16,              /* and in the turn */

    LMDB_SPACE_BYTES = 1 * MIB,  /* of a disk that was full: with less no commit is tried */
    LMDB_TELL_BYTES = 1 * MIB,   /* of mapped pages, a thread's own count: then the store is told */
    LMDB_LET_GO_BYTES = 4 * MIB, /* the store's, before it lets go of them */
    LMDB_LET_GO_NS_MAX = 500000, /* a page takes 14 to 60 ns: nobody wants to wait for a GB */
    LMDB_REGIONS_MAX = 64,       /* maps of the whole process: a handful are there at a time */
};
#define BACKEND_VALUE_BYTES_MAX (1u << 30)

/* What the map reserves: addresses, not memory or disk. */
#define LMDB_MAP_BYTES     ((size_t)1 << 40)
#define LMDB_MAP_BYTES_MIN ((size_t)1 << 30) /* where more is refused */

/* --- mvcc ---------------------------------------------------------------------------------- */

enum {
    MVCC_CHANGES_MAX = 1024, /* of one revision, shown one by one; more must be read from history */
    MVCC_SLICE_STEPS = 500,  /* a sensible budget for one slice: half a millisecond or so */
    MVCC_RANGE_TOMBSTONE_KEYS_MIN = 1000, /* a delete of fewer keys is done on the spot */
    MVCC_VIEW_ENTRIES = 4096,    /* loaded through one view: then its pages may be used again */
    MVCC_HASHES_MAX = 10,        /* of compactions, remembered for HashKV: as many as etcd does */
    MVCC_HASH_STEP_BYTES = 4096, /* so much of a value costs as much as one more entry: whoever
                                  * reads it has its checksum computed */
    MVCC_TOMBSTONE_STEP_BYTES = 4096, /* of a key that is deleted, the same */
    MVCC_LOOKS = 8,                   /* at stored KeyValues, between two looks at the clock */
    MVCC_WARMUP_KEYS = 64,            /* that a worker reads in one go, of a cold store */
    MVCC_WARMUP_BYTES = 256 * 1024,   /* of them, and of history; one more than that at most */
    MVCC_WARM_VALUE_BYTES_MAX = 512 * 1024, /* of a value that is copied, */
    MVCC_WARM_BYTES_MAX = 4 * 1024 * 1024,  /* and of all copies that are kept */
    MVCC_WARMUP_ENTRIES = 1024,             /* of history */
};

/* --- watch --------------------------------------------------------------------------------- */

enum {
    WATCH_WATCHER_BYTES = 200,      /* at most, with its key if that has up to 32 bytes */
    WATCH_LONG_KEY_BYTES = 1 * KIB, /* longer ones, with their range's end, are counted: */
    WATCH_STREAM_LONG_KEYS_BYTES_MAX = 16 * MIB, /* of the watchers of a stream, */
    WATCH_LONG_KEYS_BYTES_MAX = 64 * MIB,        /* and of all */
    WATCH_BATCH_BYTES = 64 * KIB,                /* of encoded events that are held as one blob */
    WATCH_PART_BYTES = 16 * KIB,                 /* of an event that is longer, read at a time */
    WATCH_CATCH_UP_REVISIONS = 1000,             /* in one message to a lagging watcher, */
    WATCH_CATCH_UP_BYTES = 8 * KIB,   /* with so much of several revisions: it may not read them */
    WATCH_CHUNK_BYTES_MAX = 4 * MIB,  /* held by one chunk: events, and notes of who gets which */
    WATCH_CHUNK_CHANGES_MAX = 2048,   /* looked at before the next group has its turn */
    WATCH_SPARE_BYTES_MAX = 64 * KIB, /* of a chunk, kept for the next; what is larger is freed */
    WATCH_WAVE_BYTES = 1024,          /* of credit for each watcher that is unparked at once */
    WATCH_MESSAGE_BYTES_MIN = 64,     /* what the smallest message counts */
    WATCH_REAP_AT_ONCE = 256,         /* watchers that end with the call that closes their stream */
    WATCH_PROGRESS_INTERVAL_MS = 600000,
    WATCH_PROGRESS_MIN_MS = 100, /* between two rounds of progress messages */
    WATCH_FLOOR_MS = 60000,      /* a client that does not read holds history back so long */
    WATCH_GATHER_MS = 1000,      /* a grace takes in watchers for so long: there are not many */
    WATCH_PROMPT_MS = 1000,      /* and counts as live for so long after the last of them */
};

/* --- lease --------------------------------------------------------------------------------- */

enum {
    LEASE_REVOKES_MAX = 500, /* in one lease_take_expired, which the server calls twice a second */
    LEASE_RETRY_MS = 3000,   /* before a lease that was taken and is still there is taken again */
    LEASE_CHECKPOINTS_MAX = 1000,          /* in one entry of the log */
    LEASE_CHECKPOINT_INTERVAL_MS = 300000, /* between two of one lease */
    LEASE_SPREAD_FROM = 1000,              /* leases: with fewer, a pile of expiries does no harm */
    LEASE_SPREAD_PER_S = 750,   /* which leaves a quarter of the revokes to those that come later */
    LEASE_SETTLE_STEPS = 1000,  /* a sensible budget for one slice: about a millisecond */
    LEASE_LISTING_RUN = 256,    /* leases that are sorted at once, when all are listed: 20 us */
    LEASE_LISTING_BUCKETS = 16, /* empty ones, looked at in one step of that */
};

/* --- cluster ------------------------------------------------------------------------------- */

enum {
    CLUSTER_MEMBERS_MAX = RAFT_MEMBERS_MAX, /* as many as one raft configuration can hold */
    CLUSTER_LEARNERS_DEFAULT = 1,
    MEMBER_JSON_BYTES_MAX = 16 * MIB, /* a request's worth of URLs, every byte of it escaped */
    MEMBER_JSON_DEPTH_MAX = 32,
};

/* --- snap ---------------------------------------------------------------------------------- */

enum {
    SNAPFILE_BYTES_MAX = 64 * MIB, /* a dump of some thousand members; a larger file is not ours */
    SNAPFILE_NAMES_BYTES_MAX = 16 * MIB, /* of the listing of snap/ */
    SNAP_NAMES_BYTES_MAX = 1 * MIB,      /* of the listing of member/ */
    SNAP_IMPORT_BATCH_BYTES = 4 * MIB,   /* committed at once; a member that takes in a snapshot has
                                            it beside everything else */
    SNAP_EXPORT_PIECE_BYTES = 1 * MIB,   /* written at once */
    IMAGE_CHUNK_BYTES = 256 * KIB,       /* of an image: one is read while another is made */
    IMAGE_SLICE_BYTES = 4 * MIB,         /* looked at while it is planned, with one view */
    IMAGE_SLICE_ENTRIES = 16384,         /* or so many entries: some milliseconds, either */
    IMAGE_STALLED_MS = 30000,            /* of nothing consumed: it holds up compaction */
    IMAGE_PACE_MS = 60000,               /* in so long a backup is read this far, half a megabit */
    IMAGE_PACE_BYTES = 4 * MIB,          /* a second, or gives way to those that wait for it */
    BOLT_CACHE_BYTES = 1 * MIB,          /* of pages of a file that is read */
    BOLT_CHECK_PIECE_BYTES = 64 * KIB,   /* of a file that is summed up, read at once */
    BOLT_DEPTH_MAX = 32, /* a branch has two children or more: no tree of honest make comes near */
};

/* --- apply --------------------------------------------------------------------------------- */

enum {
    REPLY_INLINE_BYTES_MAX = 4 * KIB, /* a scan of up to this size is read at once, in one chunk */
    REPLY_TEXT_BYTES_MAX = 64 * KIB,  /* of a whole reply: beyond it scans stay in the store, */
    REPLY_SMALL_BYTES_MAX = 400,      /* except those that take more memory there than as text */
    APPLY_STEP_BYTES = 4 * KIB,       /* of a KeyValue, read or written: worth one more step */
    APPLY_COMPARE_BYTES = 64 * KIB,   /* of a range that a transaction compares, read at a time */
    APPLY_COMPARE_STEPS = 200,        /* what reading and comparing that much is worth */
    APPLY_FRAMES_KEPT_MAX = 64,       /* of nested transactions: what is beyond is given back */
};
#define APPLY_QUOTA_BYTES_DEFAULT (2ll * 1024 * MIB)
#define APPLY_QUOTA_FREE_BYTES    (96 * KIB) /* that are not held against it */

/* --- rpc ----------------------------------------------------------------------------------- */

/*
 * What may wait between rpc and whoever serves its calls.
 *
 * A stream begins with credit for so many bytes to send, and gets them back in steps; so who has
 * less than a step missing may never hear of it, and must not wait for more.
 */
#define RPC_STREAM_CREDIT_BYTES (256 * KIB)
#define RPC_STREAM_CREDIT_BYTES_MIN                                                                \
    (32 * KIB) /* of a stream both ways; of others on a busy connection */
#define RPC_STREAM_CREDIT_BYTES_LEAST 512 /* where the connection, or all, have had what there is */
#define RPC_SENT_STEP_BYTES           (8 * KIB)
#define RPC_MESSAGE_OVERHEAD_BYTES    128         /* of a queued message, beside its bytes */
#define RPC_CHUNK_BYTES               (64 * KIB)  /* of a body, wanted at a time */
#define RPC_CONN_WANTED_BYTES_MAX     (256 * KIB) /* a connection's bodies: wanted, not sent */
#define RPC_CONN_BYTES_MAX            (8 * MIB)   /* not answered yet, or not sent: all calls */

/* Of all connections together, of each io thread if there are some: replies that clients have not
 * read, and what calls may still take for theirs (rpc/budget.c). No connection has more than half
 * of what is left, and one that reads nothing while others wait is cut. */
#define RPC_REPLIES_BYTES_MAX  (64 * MIB)
#define RPC_RESERVED_BYTES_MAX (4 * MIB) /* charged for one reply, however large */
#define RPC_ALWAYS_BYTES_MAX   RPC_STREAM_CREDIT_BYTES_MIN /* a connection may always owe it */
#define RPC_HTTP_REPLY_BYTES   (32 * KIB)                  /* charged for a plain one over HTTP/2 */
#define RPC_PROBE_BYTES_MAX    (512 * KIB) /* owed by a connection at a place for probes */
#define RPC_CHUNK_BYTES_MIN    (4 * KIB)   /* of a body, wanted at a time where little is left */
#define RPC_PATIENCE_MS        5000        /* with clients that read less than this */
#define RPC_NOTICE_MS          1000        /* and left it there for the last of that time */
#define RPC_CUTS_MAX           32          /* of such clients at once; then others have a turn */
#define RPC_CUTS_PAUSE_MS      10
#define RPC_PATIENCE_BYTES     (16 * KIB) /* in that time, while others wait, */
#define RPC_IMPATIENCE_MAX     5          /* and four times as much in the next, so many times */

/* Values of either lane that wait to be taken, and the bytes in them; and of replies. */
#define RPC_LINE_EVENTS_MAX      4096
#define RPC_LINE_EVENT_BYTES_MAX (16 * MIB)
#define RPC_LINE_REPLIES_MAX     4096
#define RPC_LINE_REPLY_BYTES_MAX (2 * MIB)

enum {
    RPC_CONN_BACKLOG_BYTES_MAX = 8 * MIB, /* of a connection, received and not yet looked at */

    /*
     * Header fields, counted as HTTP/2 counts them. A list that is too long is refused, and its
     * fields are not looked at; one that goes on nevertheless ends the connection. When all calls
     * together keep a lot, a connection has no more than a little.
     */
    RPC_HEADER_BYTES_MAX = 256 * KIB, /* of one request: no token is so long */
    RPC_HEADER_BYTES_CUT = 2 * RPC_HEADER_BYTES_MAX,
    RPC_FIELDS_BYTES_MAX = 64 * MIB,     /* of all calls */
    RPC_CONN_FIELDS_BYTES_MAX = 4 * MIB, /* of the calls of a connection */
    RPC_CONN_FIELDS_BYTES_LEAST = 64 * KIB,

    /* Those that are looked at in one turn: a millisecond's worth. A busy client that asks a
     * thousand times in a turn stays below. */
    RPC_TURN_FIELD_BYTES = 2 * MIB,
    RPC_TURN_CONN_FIELD_BYTES = 512 * KIB, /* of one connection */
    RPC_TURN_FIELD_BYTES_LEAST = 16 * KIB, /* of each, whatever the others had */

    /* Bytes that gzip'd messages unpack to: of all calls, until these are answered, or for
     * RPC_PATIENCE_MS where others wait; and in one turn. */
    RPC_UNPACKED_BYTES_MAX = 64 * MIB,
    RPC_TURN_UNPACKED_BYTES = 512 * KIB,

    RPC_LISTENERS_MAX = 32,
    RPC_PROBE_CONNS_MAX =
        32, /* at places for probes: a few scrapers, however many clients there are */
    RPC_PROBE_PATIENCE_MS =
        NET_PATIENCE_MS / 5, /* with a silent one there: they are few, and a prober asks at once */
    RPC_CONN_CALLS_MAX = 16384,              /* streams of a connection, announced or not */
    RPC_STREAM_WINDOW_BYTES = 64 * KIB,      /* what may come on a stream before it is looked at */
    RPC_STREAM_WINDOW_LARGE_BYTES = 1 * MIB, /* the same, once a large message was let in */
    RPC_CLIENT_WINDOW_BYTES = 256 * KIB,     /* of our client: replies that nobody takes */
    RPC_CLIENT_FIELDS_BYTES_MAX = 16 * MIB,  /* of one reply, as gRPC's clients allow */
    RPC_CONSUME_STEP_BYTES = 16 * KIB,       /* of a stream's window, told to nghttp2 at once */
    RPC_STATUS_TEXT_BYTES_MAX = 5000,        /* some clients take 16 KiB of trailers at most */
    RPC_FLUSH_BULK_BYTES = 1 * MIB,  /* of long replies in one turn: the rest is for the next */
    RPC_FLUSH_EXTRA_BYTES = 1 * MIB, /* in one turn, beyond one gathering for each connection */
    RPC_FLUSH_CONNS_MAX = 128,       /* in one turn: with 10 to 20 us each, two milliseconds */
    RPC_PACKED_BYTES_MAX = 64 * KIB, /* a longer message is not worth the time that gzip takes */
    RPC_SPARE_CALLS_MAX = 1024,
    RPC_SPARE_ITEMS_MAX = 1024,           /* of queues of messages to send */
    RPC_SPARE_BUFFER_BYTES_MAX = 4 * KIB, /* of a spare call, or of a reader between messages */
    RPC_RESERVE_BYTES_MAX = 64 * KIB, /* of a message, set aside at once when its length is known */

    RPC_GRACE_MS = 5000,         /* for the acknowledgement of a GOAWAY */
    RPC_LINGER_MS = 1000,        /* for the other end to read our last words */
    RPC_HEAD_MS = 5 * 60 * 1000, /* etcd's, for a request to begin and its head to end */

    /* As RPC_HEAD_MS, for the first byte where that says whether it is by TLS. */
    EITHER_FIRST_BYTE_MS = 5 * 60 * 1000,

    /* gRPC's own defaults, where the options say nothing. */
    RPC_PING_MIN_MS = 5 * 60 * 1000,
    RPC_PING_IDLE_MS = 2 * 60 * 60 * 1000, /* between pings on a connection without calls */
    RPC_KEEPALIVE_MS = 2 * 60 * 60 * 1000,
    RPC_PONG_MS = 20 * 1000,
    RPC_PING_STRIKES_MAX = 2,

    /* What a client may ask for without use (resets, settings, ...): so many at once, and so many a
     * second. A busy client that gives up many calls together stays far below. */
    RPC_CONTROL_FRAMES_MAX = 20000,
    RPC_CONTROL_FRAMES_PER_S = 5000,
    RPC_CONTROL_FRAME_STREAMS = 256,         /* whose windows change: as much work as a frame */
    RPC_CONTROL_FRAME_FIELD_BYTES = 4 * KIB, /* of a header list that was too long: the same */

    H2_CONN_WINDOW_BYTES = 1 * MIB,
    H2_CONTINUATIONS_MAX = 20,
    H2_ACKS_QUEUED_MAX = 1000,
    H2_SETTINGS_MAX = 32, /* entries in one frame */
};

/* --- peer ---------------------------------------------------------------------------------- */

/*
 * Between members. Outgoing, per stream: what the other end does not read is kept up to this and
 * then dropped, as a network would. etcd counts messages alone; 4096 of them may be 4 GiB of
 * appends, so bytes are counted too. Messages without entries (heartbeats, votes, their responses)
 * may use the reserve behind it: entries that nobody reads must not silence them.
 */
#define PEER_OUT_BYTES_MAX     (64 * MIB)
#define PEER_OUT_RESERVE_BYTES (1 * MIB)
#define PEER_OUT_MESSAGES_MAX  4096

/* An append takes the message stream only while less than this waits there: heartbeats follow. */
#define PEER_DETOUR_BYTES_MAX (1 * MIB)

/* Single posts, while there is no stream: etcd's numbers. */
#define PEER_POSTS_MAX      64
#define PEER_POST_CONNS_MAX 4

/* Incoming, per peer and for appends and everything else each: received and not taken. One message
 * is let in whatever its size, or a large entry would never arrive. The number is four times
 * etcd's: two reads of a socket alone may bring more than 4096 heartbeats before it is our turn. */
#define PEER_IN_BYTES_MAX    (32 * MIB)
#define PEER_IN_MESSAGES_MAX 16384

/* One message while it is being received: etcd's bound. It grows with what arrives, not with what
 * is announced; and all of them together, posts included: */
#define PEER_FRAME_BYTES_MAX     (512 * MIB)
#define PEER_RECEIVING_BYTES_MAX (1024ull * MIB)

/* The peer port: what may be posted as a message, and as anything else; connections, each with one
 * request at most that waits for the server. Whoever knows nobody refuses all streams, and hears of
 * what it missed by posts alone: so what a stream may bring may be posted, by anybody. */
#define PEER_POST_BYTES_MAX    PEER_FRAME_BYTES_MAX
#define PEER_REQUEST_BYTES_MAX (1 * MIB)
#define PEER_CONNS_MAX         1024
#define PEER_CONNS_RESERVED    256 /* of them, not for connections that have proved nothing */

/*
 * Snapshots. The message in front of an image: etcd's bound. Of an image that is sent: what may
 * wait for the socket, and what one turn may hand in, however fast the socket is: a quarter of a
 * millisecond, and heartbeats are on time.
 */
#define PEER_SNAPSHOT_MESSAGE_BYTES_MAX (64 * MIB)
#define PEER_SNAPSHOT_CREDIT_BYTES      (256 * KIB)
#define PEER_SNAPSHOT_TURN_BYTES        (512 * KIB)

/* Requests of our own to other members: how many wait, and what may come back, unless whoever asks
 * expects more. */
#define PEER_ASKS_MAX         4096
#define PEER_ASK_CONNS_MAX    4
#define PEER_RESULT_BYTES_MAX (4 * MIB)

/* Members that we do not know yet and that told us where they live, so that we can respond. */
#define PEER_REMOTES_MAX 16

/* Connections of our own, with those that still look for an address. */
#define PEER_DIALS_MAX 1024

/* Places that are asked something before we know who lives there. */
#define PEER_GUESTS_MAX 64

enum {
    PEER_URLS_MAX = 16,         /* of one member; more are not tried */
    PEER_URLS_BYTES_MAX = 4096, /* as somebody we do not know may tell them */

    PEER_OUT_SLICE_BYTES = 1 * MIB,       /* handed to the socket at once, */
    PEER_OUT_SLICE_PIECES = 32,           /* in so many pieces */
    PEER_GATHER_SHARE_BYTES = 16 * KIB,   /* from this size on it is shared, not copied */
    PEER_GATHER_KEPT_BYTES = 256 * KIB,   /* by a gather between two turns */
    PEER_DECODER_AT_ONCE_BYTES = 2 * MIB, /* of a frame, set aside when its length is known */
    PEER_REFUSAL_BYTES_MAX = 1 * KIB,     /* of what a stream is refused with */

    /* Of one append: eight bytes announce one and make seven times that. An append has a megabyte
     * of entries at most, or a single one. */
    PEER_FRAME_ENTRIES_MAX = 1 << 20,

    PEER_STREAM_SILENCE_MS = 5000,                       /* then the other end is gone */
    PEER_LINK_HEARTBEAT_MS = PEER_STREAM_SILENCE_MS / 3, /* so that it is not taken for gone */
    PEER_DIAL_MS = 1000, /* for a stream to begin, and an election more */
    PEER_REDIAL_MIN_MS = 100,
    PEER_REDIAL_MAX_MS = 1000,   /* between two tries */
    PEER_PORT_SILENCE_MS = 5000, /* of somebody whose request is not whole, */
    PEER_PORT_PACE_MS = 10000,   /* or not whole after that, nor a later part of it, */
    PEER_PORT_BYTES_PER_MS =
        16,                /* unless so much came meanwhile: an eighth of a megabit a second */
    PEER_IDLE_MS = 4000,   /* etcd's port ends connections that say nothing for 5 s */
    PEER_LINGER_MS = 1000, /* for our last words to be read */
    PEER_POST_TIMEOUT_MS = 5000,
    PEER_PROBE_INTERVAL_MS = 4000,

    /* A post gets more time for what has to be sent first, as it would take a link of a megabit a
     * second; but not for ever. */
    PEER_POST_BYTES_PER_MS = 128,
    PEER_POST_LONGEST_MS = 600000,

    PEER_SNAPSHOT_SILENCE_MS = 5000,  /* of a sender that has credit: etcd's port reads no longer */
    PEER_SNAPSHOT_STALL_MS = 30000,   /* of a receiver: its disk may be slow, and it is trusted */
    PEER_SNAPSHOT_LOOK_MS = 5000,     /* how often that is looked at */
    PEER_SNAPSHOT_RESULT_MS = 600000, /* for a whole image to be checked: large ones take minutes */
};

/* --- api ----------------------------------------------------------------------------------- */

enum {
    API_FIRST_STEPS = 64,              /* of a read, at once: nearly all are done then */
    API_READ_STEPS = 500,              /* of a read that takes longer, in one slice */
    API_PAUSED_LOOKS = 256,            /* at reads that wait for copies of a cold store, per turn */
    API_STALLED_LOOKS = 256,           /* at replies that could not be read, in one turn, */
    API_STALLED_BYTES = 512 * 1024,    /* and how much of them may be read then */
    API_CLIENT_VERSIONS_MAX = 16,      /* that are counted apart: a client says what it likes */
    API_CLIENT_VERSION_BYTES_MAX = 31, /* and as long */
    API_ACCEPT_KINDS_MAX = 32,         /* that a scraper names; later ones are not looked at */
    API_SPARE_CALLS_MAX = 1024,
    API_RAISING_BYTES_MAX = 16 * MIB, /* of refused writes that wait for the NOSPACE alarm */
    API_TXN_OPS_DEFAULT = 128,        /* etcd's --max-txn-ops */
    API_SNAPSHOT_BLOB_BYTES = 32768,  /* in one message of a backup: etcd's */
    API_SNAPSHOT_BLOB_STEPS = 64,     /* what one of them costs: its bytes are hashed and copied */
    API_MOVE_LEADER_MS = 5000,  /* and two election timeouts: as long as any request may take */
    API_PIN_MS_MAX = 60000,     /* a reply that holds up a compaction for longer is given up */
    API_APPLIED_WAIT_MS = 1000, /* for the applied index, before a lease is said to be unknown */
};

/* Charged for a call of its kind (api/methods.h) until its reply is read. */
#define API_REPLY_USUAL_BYTES  (4 * KIB)
#define API_REPLY_MIDDLE_BYTES (8 * KIB)
#define API_REPLY_LARGE_BYTES  (1 * MIB)
#define API_SCRAPE_BYTES       (384 * KIB) /* for the first; then by what the last one was */

static_assert(2 * API_TXN_OPS_DEFAULT + 3 <= PB_DEPTH_MAX, "nested, and what responses hold");
/* Half of them of calls to Lock and Election that wait, a kilobyte or two each; the others let go
 * of what those wait for, or clear up behind them. */
#define API_INNER_CALLS_MAX 32768
#define API_REPLY_BYTES_MAX 2147483647u /* etcd's gRPC send limit */

/* What may wait for one watching client that does not read, and one message more. What many of them
 * wait for at the same place they share, but they need not be at the same place. A stream has less
 * if rpc gives it less. */
#define WATCH_CREDIT_BYTES RPC_STREAM_CREDIT_BYTES_MIN

/* --- server -------------------------------------------------------------------------------- */

enum {
    WARMING_THREADS = 3,      /* that read for a core thread that must not wait for the disk */
    WARMING_COLD_MS = 1000,   /* after the last fault the store counts as warm */
    WARMING_SUSPECT_US = 300, /* after which somebody asks whether there were faults */
    WARMING_PAUSE_US = 1000,  /* until slices that wait look again, if nothing has woken them */
};

enum {
    TURN_EVENTS_MAX = 4096,    /* of the inbox, in one turn */
    TURN_EVENTS_US = 1000,     /* and for how long */
    TURN_PEERS_MAX = 4096,     /* messages of other members, without entries */
    TURN_PEERS_US = 500,       /* of hearing them, */
    TURN_PEERS_LOOK = 64,      /* with a look at the clock after so many */
    TURN_PROBES_US = 500,      /* of hearing probes */
    TURN_CALLS_MAX = 1024,     /* of clients */
    TURN_CALLS_US = 1000,      /* of hearing them; one takes a few milliseconds at most */
    TURN_APPLY_US = 1500,      /* of applying; an entry takes at most a slice more */
    TURN_PROPOSALS_MAX = 4096, /* in one raft append */
    TURN_SLOW_US = 20000,      /* a turn that takes longer is counted as slow */
    /* By then, counted from the turn's beginning, these end, having done something. In the order in
     * which they come, so that none takes all the time of the next. */
    TURN_FLOW_US = 3000,     /* reading what clients can take of their replies */
    TURN_READS_US = 7000,    /* reads that were confirmed */
    TURN_SLICES_US = 10000,  /* slices */
    TURN_WATCH_STEPS = 2000, /* of catching up those who lag: about half a millisecond */
    STOP_GRACE_MS = 1000,    /* for calls under way */
    LEAVE_DELAY_MS = 1000,   /* from a member's removal to its stop; etcd's */
    SKIP_TICKS_MS = 5000,    /* after the start: so long a member may hurry */

    PENDING_QUEUE_BYTES_MAX = 16 * MIB, /* of proposals: calls beyond keep their requests */
    PENDING_QUEUE_MAX = 4 * TURN_PROPOSALS_MAX,
    PENDING_KEPT_BYTES_MAX = 64 * MIB,  /* of such requests, decoded: more are refused, */
    PENDING_KEPT_SMALL_BYTES = 4 * KIB, /* but those that are no larger are not counted */
    PENDING_GAP_MAX = 5000,             /* committed and not applied: more are refused */
    METRICS_FILES_MS = 600000,          /* between two looks at how many files are open: etcd's */
    PENDING_OWN_TIMES = 16,      /* own proposals under way whose time is measured: few there are */
    PENDING_LIMIT_MS = 5000,     /* etcd's, for proposals and reads, and two elections more */
    PENDING_READ_RETRY_MS = 500, /* a round of reads without a reply is asked again */
    STAGE_MARKS = 4096,          /* of how far a stage had come when: four seconds and more */
    STAGE_MARK_NS = 1000000,     /* apart: what is looked up took a hundred times that */
    PENDING_RUNS_MAX = 4096,     /* of proposals under way whose place in the log is known */

    HOUSEKEEPING_LEASE_MS = 500,    /* how often expired leases are looked for */
    HOUSEKEEPING_VERSION_MS = 4000, /* and the cluster's version */
    HOUSEKEEPING_PAUSE_US = 1000,   /* between two slices of settling: others want the log's disk */
    HOUSEKEEPING_COMMIT_BYTES = 8 * MIB, /* pending in the store: it is not waited any longer */

    AUTO_COMPACTION_INTERVAL_MIN_NS = 1000000, /* a retention of nothing must not keep us busy */

    SPACE_RETRY_MS = 1000,        /* on a full disk; so writes are taken again within two of them */
    SPACE_RESIGN_MS = 5000,       /* between two attempts not to lead: all members may be full */
    SPACE_OWN_BYTES = 64 * KIB,   /* of the server's own proposals while it is: to be known, say */
    LOG_SNAPSHOT_RETRY_MS = 1000, /* after one could not be written: until it is, the log grows */
    LOG_SNAPSHOT_PURGE_MS = 30000, /* old files stay for that long, as etcd's do */

    CUTTING_IMAGES_MAX = 16,       /* of the own state, open at once: half a megabyte each */
    CUTTING_MEMBERS_MAX = 8,       /* of them for other members: clients leave them these */
    CUTTING_COMPACTION_MS = 60000, /* a compaction waits for images of later clients, and no more */
    CUTTING_PATIENCE_MS = 1000,    /* for a moment between two commits; then no entry is begun */

    SENDING_PAUSE_MS = 1000, /* after a snapshot for a member has failed: the next costs a walk */
    SENDING_LOG_MS = 30000,  /* the log is kept for a member that has taken one; etcd's */

    RECEIVING_WINDOW_BYTES = 1 * MIB, /* of a snapshot that comes, on their way to its file */
    RECEIVING_SPACE_BYTES = 1 * MIB,  /* of it, between two looks at the disk's space */
    INSTALL_OLD_MAX = 4,              /* states that were replaced and that somebody still reads, */
    INSTALL_OLD_MS = 60000,           /* and for how long, from when they were replaced */
    OWN_IMAGE_AHEAD_MAX = 64,         /* entries that the image may be ahead of the cut */
    OWN_IMAGE_WAIT_MS = 50,           /* for as many to be committed: then it is fewer */

    FORWARDING_RETRY_MS = 50,
    RECONFIGURATION_HEALTH_MS = 5000,  /* connected for that long counts as healthy; etcd's */
    RECONFIGURATION_SPARE_MEMBERS = 8, /* that may be added at the same time, by several members */
    FORWARDING_LOOKS_MAX = 1000,       /* calls that wait for a leader's answer, in one turn */
    FORWARDING_ASKED_MAX = 1000,       /* of a leader at the same time; others wait */
    FORWARDING_BYTES_MAX = 100 * MIB,  /* of the keys of a lease; etcd's */
    FOUNDING_NAMES_MS = 30000,         /* for all names together */
    FOUNDING_RETRY_MS = 1000,          /* between two looks at those that are missing */
    FOUNDING_ASK_MS = 1000,            /* for one URL */
    JOINING_MEMBERS_MS = 10000,        /* the same for whoever joins; etcd's */
    PEERING_VERSION_MS = 7000,         /* for a member to say its version; etcd's request timeout */
    PEER_QUESTIONS_MAX = 4096,         /* of other members, that wait for a result */
    PEER_REQUESTS_APPLIED_MS = 1000,   /* for what was committed to be applied */

    AUTH_NAME_BYTES_MAX = 32768,   /* of a new user or role: bbolt's keys end there */
    AUTH_TOKENS_MAX = 1 << 16,     /* simple ones, known to a member: two hundred bytes each */
    AUTH_JWT_BYTES_MAX = 16 * KIB, /* longer ones are nobody's, and not looked at */
    AUTH_JWTS_MAX = 1 << 13,       /* that were found good, remembered: half a KB each, mostly */
    AUTH_KEY_FILE_BYTES_MAX = 64 * KIB, /* of JWTs: the longest of RSA have 13 KB in PEM */
    PASSWORDS_WAITING_MAX = 1024,       /* to be hashed or compared: a minute, at the usual cost */
    PASSWORDS_WAITING_PER_ADDRESS_MAX = 128, /* eight seconds, so who gets a place gets a turn */
    PASSWORDS_QUICK_COST_MAX = 12,    /* of a hash, a quarter of a second: so long others wait */
    PASSWORDS_COMPARED_COST_MAX = 18, /* 16 seconds: so long may a member that stops take */
    API_TOKEN_LOOK_MS =
        500, /* for so long a call need not look its token up again; a ttl is longer */
    API_TOKEN_WAIT_MS = 7000, /* for the entry that a token names to be applied here */

    FILES_RESERVED = 150,     /* of those that may be open: not for clients; etcd's */
    FILES_MIN = 80,           /* half of it is what a member needs itself, and some to spare */
    FILES_PER_PEER_CONN = 16, /* that may be open, to each connection that the peer port takes */
    FILES_FOR_PEER = 32, /* more for each other member: half of it for streams, posts and probes */
};

/* A configuration file. etcd's own sample has 6 KB and is three deep. */
#define CONFIG_FILE_BYTES_MAX (1 * MIB)
enum {
    YAML_DEPTH_MAX = 100, /* lists and maps within each other, by aliases too: the stack's bound */
    YAML_ANCHORS_MAX = 1000, /* each alias looks through all of them */
};

/* --- how they relate ----------------------------------------------------------------------- */

/* (Casts where the constants of two rooms are compared: compilers find that odd of two enums.) */

static_assert(RPC_MESSAGE_BYTES_DEFAULT == 2 * MIB, "etcd's gRPC receive limit");

/* A request on its way down: it fits every next place, or taking it in was a mistake. */
static_assert(PB_DEPTH_MAX <= PB_LOG_DEPTH_MAX, "what a client may send, the log may hold");
static_assert(REQUEST_BYTES_MAX + KIB <= WAL_RECORD_BYTES_MAX,
              "with entry and frame it fits a record");
static_assert(PB_MESSAGE_BYTES_MAX <= BACKEND_VALUE_BYTES_MAX, "whatever it puts fits a value");
static_assert(BACKEND_VALUE_BYTES_MAX <= UINT32_MAX,
              "whose length the index and bbolt keep in 32 bits");
static_assert(BACKEND_KEY_BYTES_MAX >= RPC_MESSAGE_BYTES_DEFAULT, "whatever a request can name");
static_assert(MEMBER_JSON_BYTES_MAX >= 6 * RPC_MESSAGE_BYTES_DEFAULT,
              "escaped: \\u0000 for a byte");
static_assert(SNAPFILE_BYTES_MAX <= PB_MESSAGE_BYTES_MAX, "a .snap file decodes as one message");

/* A turn: in all well below a heartbeat, which is 100 ms unless an operator wants it otherwise.
 * What one part of it takes in, the next can take on. */
static_assert(TURN_EVENTS_US + TURN_PEERS_US + TURN_PROBES_US + TURN_CALLS_US + TURN_APPLY_US <=
                  5000,
              "heartbeats are on time");
static_assert(TURN_FLOW_US + TURN_PROBES_US + TURN_CALLS_US + TURN_APPLY_US < TURN_READS_US,
              "reads have time left");
static_assert(TURN_READS_US < TURN_SLICES_US, "and so have slices");
static_assert(TURN_SLICES_US <= TURN_SLOW_US / 2, "slices that end early leave no slow turn");
static_assert((int)NET_READ_BUFFERS_MAX <= (int)TURN_EVENTS_MAX,
              "a turn can look at all that was read");
static_assert(PEER_CONNS_MAX <= PEER_QUESTIONS_MAX, "a question of each connection can wait");
static_assert(TURN_CALLS_MAX <= TURN_PROPOSALS_MAX, "a turn's calls go into one append");
static_assert(TURN_PROPOSALS_MAX <= PENDING_QUEUE_MAX, "which the queue can hold");
static_assert(RPC_MESSAGE_BYTES_DEFAULT <= PENDING_QUEUE_BYTES_MAX, "so does a single large one");
static_assert(PENDING_QUEUE_BYTES_MAX <= WAL_PENDING_BYTES_MAX, "the log takes a whole queue");
static_assert(PENDING_KEPT_BYTES_MAX >= 16 * RPC_MESSAGE_BYTES_DEFAULT,
              "a transaction is refused for others, not for its own size");
static_assert(PENDING_READ_RETRY_MS < PENDING_LIMIT_MS, "a lost round is asked again in time");
static_assert((int)FORWARDING_ASKED_MAX < PEER_ASKS_MAX / 2, "nobody else is refused for them");
static_assert((int)FORWARDING_RETRY_MS < (int)PENDING_LIMIT_MS, "and asked again, too");
static_assert(FOUNDING_RETRY_MS < FOUNDING_NAMES_MS, "a name is looked up more than once");
static_assert((int)LEASE_REVOKES_MAX <= (int)PENDING_QUEUE_MAX, "revokes do not fill the queue");
static_assert(LEASE_SPREAD_PER_S <= LEASE_REVOKES_MAX * (1000 / HOUSEKEEPING_LEASE_MS) * 3 / 4,
              "a quarter of what can be revoked is left to those that expire later");

/* The log. */
static_assert(RAFT_MESSAGE_BYTES_MAX <= RAFT_RESIDENT_BYTES_MAX, "an append can come from memory");
static_assert(RAFT_MESSAGE_BYTES_MAX <= WAL_PENDING_BYTES_MAX, "an append message fits the budget");
static_assert(RPC_MESSAGE_BYTES_DEFAULT <= WAL_PENDING_BYTES_MAX, "so does one large entry");
static_assert(WAL_PENDING_BYTES_MAX <= RAFT_UNCOMMITTED_BYTES_MAX, "a slow log is felt as one");
static_assert(RAFT_UNAPPLIED_BYTES_MAX <= RAFT_UNCOMMITTED_BYTES_MAX,
              "others hold back before their leader does");
static_assert(WAL_PENDING_BYTES_MAX <= WAL_SEGMENT_BYTES,
              "what is pending needs two segments at most");
static_assert(RPC_MESSAGE_BYTES_DEFAULT <= WAL_SLACK_BYTES, "the last entry finds its space");
static_assert(WAL_RESERVE_BYTES <= WAL_SEGMENT_BYTES / 4, "most of a segment is for entries");
static_assert(RPC_MESSAGE_BYTES_DEFAULT + RAFT_MESSAGE_BYTES_MAX <= WAL_RESERVE_BYTES,
              "what overdraws the budget still fits the segment");
static_assert(WAL_LINGER_BYTES_MAX <= WAL_PENDING_BYTES_MAX,
              "lingering records do not stop proposals");

/* The store: nothing that is put aside for a batch may fill it alone. */
static_assert(BACKEND_PART_BYTES <= BACKEND_PENDING_BYTES_DEFAULT / 2,
              "a part is cut before it is full");
static_assert(BACKEND_UPKEEP_BYTES <= BACKEND_PENDING_BYTES_DEFAULT / 2,
              "upkeep leaves entries a share");
static_assert((int)SNAP_IMPORT_BATCH_BYTES <= (int)BACKEND_PENDING_BYTES_DEFAULT,
              "an import's batch fits");
static_assert((int)HOUSEKEEPING_COMMIT_BYTES <= (int)BACKEND_PENDING_BYTES_DEFAULT / 2,
              "a commit is begun long before nothing can be applied");
static_assert(LMDB_TELL_BYTES <= LMDB_LET_GO_BYTES, "a thread tells before it is too much");

/* History: who reads it, and how long that may hold back a compaction. */
static_assert(MVCC_RANGE_TOMBSTONE_KEYS_MIN <= MVCC_CHANGES_MAX,
              "a delete that is done on the spot can be shown change by change");
static_assert(MVCC_SLICE_STEPS <= MVCC_RANGE_TOMBSTONE_KEYS_MIN, "and takes two slices or so");
static_assert(MVCC_WARMUP_BYTES + MVCC_WARM_VALUE_BYTES_MAX <= MVCC_WARM_BYTES_MAX / 4,
              "what workers have read last is kept until it is used");
static_assert(WATCH_BATCH_BYTES <= WATCH_CHUNK_BYTES_MAX, "a chunk holds a batch");
static_assert(WATCH_SPARE_BYTES_MAX <= WATCH_CHUNK_BYTES_MAX, "what is kept is part of one");
static_assert((int)WATCH_STREAM_LONG_KEYS_BYTES_MAX >= (int)RPC_MESSAGE_BYTES_DEFAULT,
              "the longest key of a usual request can be watched");
static_assert(WATCH_STREAM_LONG_KEYS_BYTES_MAX <= WATCH_LONG_KEYS_BYTES_MAX / 4,
              "and a few streams leave some for others");
static_assert(WATCH_GATHER_MS + WATCH_PROMPT_MS < WATCH_FLOOR_MS, "a grace has time to be used");
static_assert(WATCH_PROGRESS_MIN_MS <= WATCH_PROGRESS_INTERVAL_MS,
              "progress rounds do not pile up");
static_assert((int)API_PIN_MS_MAX == (int)WATCH_FLOOR_MS,
              "whoever does not read, in either way, holds back a compaction for a minute");
static_assert((int)INSTALL_OLD_MS >= (int)API_PIN_MS_MAX,
              "and is not ended sooner because the state is replaced");
static_assert(WATCH_WAVE_BYTES <= WATCH_CREDIT_BYTES, "credit unparks watchers in waves, not all");
static_assert(WATCH_MESSAGE_BYTES_MIN <= WATCH_CREDIT_BYTES, "and is good for a message at least");
static_assert(WATCH_CATCH_UP_BYTES <= WATCH_CREDIT_BYTES / 4, "lagging it has several under way");
static_assert(API_FIRST_STEPS <= API_READ_STEPS, "the first look is the shorter one");
static_assert((int)API_READ_STEPS <= (int)MVCC_SLICE_STEPS, "a slice of a read is one of mvcc's");
static_assert((int)API_PAUSED_LOOKS <= (int)MVCC_SLICE_STEPS, "a turn has steps for all of them");
static_assert(LEASE_CHECKPOINTS_MAX * 32 <= REQUEST_BYTES_DEFAULT, "checkpoints fit a request");

/* Images: what is read at once, and by how many. */
static_assert(PASSWORDS_WAITING_PER_ADDRESS_MAX < PASSWORDS_WAITING_MAX, "one leaves others some");
static_assert((int)IMAGE_PACE_MS > (int)IMAGE_STALLED_MS, "a pace is looked at while one reads");
static_assert((int)IMAGE_PACE_BYTES > (int)IMAGE_CHUNK_BYTES, "and is none of single chunks");
static_assert(CUTTING_MEMBERS_MAX < CUTTING_IMAGES_MAX, "clients get some, too");
static_assert((int)CUTTING_COMPACTION_MS <= (int)IMAGE_PACE_MS,
              "whoever comes and goes at a pace that is not known yet gets no longer");
static_assert((int)CUTTING_IMAGES_MAX <= (int)BACKEND_WORKER_VIEWS_MAX / 2,
              "each has one view at a time, and others have views as well");
static_assert((int)IMAGE_SLICE_BYTES <= (int)BACKEND_SLICE_BYTES_DEFAULT,
              "a slice is no longer than one of the store's own");

/* Sockets: what is read and what is gathered. */
static_assert(RPC_STREAM_WINDOW_BYTES <= RPC_STREAM_WINDOW_LARGE_BYTES,
              "a window is opened, not shut");
static_assert(RPC_STREAM_WINDOW_LARGE_BYTES <= H2_CONN_WINDOW_BYTES,
              "one stream may use all of it");
static_assert(H2_CONN_WINDOW_BYTES <= RPC_CONN_BACKLOG_BYTES_MAX,
              "what the window lets in can wait");
static_assert(RPC_CONSUME_STEP_BYTES <= RPC_STREAM_WINDOW_BYTES / 2, "a window is told of in time");
static_assert(HTTP_HEAD_USUAL_BYTES <= HTTP1_HEAD_BYTES_MAX, "a usual head is a head");
static_assert(HTTP_ODD_TARGET_BYTES_MAX <= HTTP_HEAD_USUAL_BYTES,
              "a head that is charged to all has no path that is made longer");
static_assert(HTTP_DIRECTIONS_BYTES_MAX < RPC_TURN_CONN_FIELD_BYTES / 4,
              "a turn sends a client elsewhere a few times");
static_assert(HTTP_HEADS_BYTES_MAX / 16 >= HTTP1_HEAD_BYTES_MAX,
              "one client with a large head keeps few others from having one");
static_assert((H2_CONTINUATIONS_MAX + 1) * 16 * KIB > RPC_HEADER_BYTES_MAX,
              "frames of one block hold the longest list, even if nothing in it is packed");
static_assert(RPC_CONN_FIELDS_BYTES_MAX >= 16 * RPC_HEADER_BYTES_MAX,
              "some calls may have long ones");
static_assert(RPC_FIELDS_BYTES_MAX >= 16 * RPC_CONN_FIELDS_BYTES_MAX, "and some connections");
static_assert(RPC_TURN_CONN_FIELD_BYTES >= RPC_HEADER_BYTES_CUT,
              "a turn comes to the end of one list");
static_assert(RPC_TURN_FIELD_BYTES_LEAST < RPC_TURN_CONN_FIELD_BYTES,
              "more is to be had than that");
static_assert(RPC_TURN_CONN_FIELD_BYTES < RPC_TURN_FIELD_BYTES, "no connection has all of it");
static_assert(RPC_UNPACKED_BYTES_MAX >= 8 * RPC_CONN_BYTES_MAX,
              "some connections may have as many unpacked messages as fit in one");
static_assert(RPC_TURN_UNPACKED_BYTES >= RPC_MESSAGE_BYTES_DEFAULT / 4,
              "a large message does not take many turns");
static_assert(GATEWAY_AT_ONCE_BYTES <= GATEWAY_TURN_BYTES, "a text in its turn gets no less");
static_assert(RPC_CONN_CALLS_MAX / RPC_CONTROL_FRAME_STREAMS +
                      RPC_HEADER_BYTES_CUT / RPC_CONTROL_FRAME_FIELD_BYTES <
                  RPC_CONTROL_FRAMES_MAX / 100,
              "no frame takes more than a small part of what a connection may ask for");
static_assert((int)WIRE_BYTES_MAX <= (int)RPC_FLUSH_BULK_BYTES,
              "a turn sends a gathering of a long reply");
static_assert(BUF_POOL_BYTES_MAX <= BUF_POOL_ALL_BYTES_MAX / 64, "a pool is not filled by a few");
static_assert(NET_SPARE_BUFFERS_MAX <= NET_READ_BUFFERS_MAX, "only what was used is kept");
static_assert((int)NET_READ_BYTES <= (int)HTTP_BODY_WINDOW_BYTES, "one read fits the window");
static_assert(HTTP_AHEAD_BYTES <= HTTP_BODY_WINDOW_BYTES,
              "a connection between two requests holds no more than one within a body");
static_assert(HTTP1_HEAD_BYTES_MAX <= HTTP_BODY_WINDOW_BYTES, "nor does one within a head");
static_assert(WIRE_BYTES_MAX >= HTTP_BODY_WINDOW_BYTES,
              "one gathering can fill the other end's window");
static_assert((int)WIRE_BYTES_MAX <= (int)NET_UNSENT_BYTES,
              "and goes to a kernel that has nothing unsent");

/* Calls: what waits on the line between rpc and those who serve them. */
static_assert(RPC_CONN_BYTES_MAX <= RPC_LINE_EVENT_BYTES_MAX,
              "one connection does not fill the line");
static_assert(RPC_CONN_BYTES_MAX <= RPC_REPLIES_BYTES_MAX / 4, "nor do a few take all there is");
static_assert(RPC_NOTICE_MS < RPC_PATIENCE_MS, "it is the end of that time");
static_assert(RPC_PATIENCE_BYTES << 2 * RPC_IMPATIENCE_MAX >= RPC_CONN_BYTES_MAX,
              "in the end a client takes all that it owes, or is cut");
static_assert(RPC_RESERVED_BYTES_MAX <= RPC_CONN_BYTES_MAX / 2,
              "a large reply fits beside what its connection has under way");
static_assert(RPC_RESERVED_BYTES_MAX <= RPC_REPLIES_BYTES_MAX / 4,
              "and where others were cut to make room for it");
static_assert(API_REPLY_LARGE_BYTES <= RPC_RESERVED_BYTES_MAX, "so does a list");
static_assert(RPC_PROBE_CONNS_MAX * RPC_PROBE_BYTES_MAX <= RPC_REPLIES_BYTES_MAX / 4,
              "probes leave clients most of what there is");
static_assert((int)API_SCRAPE_BYTES <= (int)RPC_PROBE_BYTES_MAX,
              "a scraper's first reply is one of few");
static_assert((int)API_REPLY_USUAL_BYTES >= (int)REPLY_INLINE_BYTES_MAX,
              "what is charged for a range is what may be held of it");
static_assert(API_REPLY_MIDDLE_BYTES >= 2 * API_REPLY_USUAL_BYTES,
              "a transaction that shows a key needs no more");
static_assert(API_REPLY_MIDDLE_BYTES <= RPC_ALWAYS_BYTES_MAX, "and who reads is always served");
static_assert(RPC_CHUNK_BYTES_MIN <= RPC_CHUNK_BYTES, "chunks get smaller, not larger");
static_assert(RPC_CONN_WANTED_BYTES_MAX <= RPC_LINE_REPLY_BYTES_MAX,
              "nor do the chunks that it wants");
static_assert(RPC_SENT_STEP_BYTES <= RPC_STREAM_CREDIT_BYTES_MIN / 4, "most of it is of use");
static_assert(RPC_CONN_CALLS_MAX * RPC_STREAM_CREDIT_BYTES_LEAST <= RPC_CONN_BYTES_MAX,
              "the least for every stream is as much again as a connection may owe");
static_assert((int)WATCH_MESSAGE_BYTES_MIN <= RPC_STREAM_CREDIT_BYTES_LEAST,
              "and is good for a message");
static_assert(RPC_CHUNK_BYTES <= RPC_CONN_WANTED_BYTES_MAX,
              "a chunk fits in what a connection wants");
static_assert(RPC_STREAM_CREDIT_BYTES <= RPC_CONN_BYTES_MAX, "so does a stream");
static_assert(RPC_MESSAGE_BYTES_DEFAULT <= RPC_CONN_BYTES_MAX, "so does a request");

/* Members: what waits for one of them, and what has come from it. */
static_assert(PEER_DETOUR_BYTES_MAX < PEER_OUT_BYTES_MAX, "a detour is a part of the way");
static_assert(RAFT_MESSAGE_BYTES_MAX < PEER_IN_BYTES_MAX, "more than one append is taken in");
static_assert(RAFT_MESSAGE_BYTES_MAX < PEER_OUT_BYTES_MAX, "more than one append is sent");
static_assert(RAFT_INFLIGHT_BYTES_MAX + RAFT_MESSAGE_BYTES_MAX <= PEER_IN_BYTES_MAX,
              "what is under way to a follower fits where it waits there");
static_assert(RAFT_INFLIGHT_BYTES_MAX <= PEER_OUT_BYTES_MAX, "and where it waits here");
static_assert(RAFT_INFLIGHT_MESSAGES_MAX <= PEER_IN_MESSAGES_MAX, "in number, too, there");
static_assert(RAFT_INFLIGHT_MESSAGES_MAX <= PEER_OUT_MESSAGES_MAX, "and here");
static_assert(PEER_IN_BYTES_MAX <= WAL_PENDING_BYTES_MAX,
              "what one member has sent, the log can take");
static_assert(REQUEST_BYTES_MAX + KIB <= PEER_FRAME_BYTES_MAX,
              "the largest request goes to another member, with entry and message around it");
static_assert(PEER_FRAME_BYTES_MAX <= PB_MESSAGE_BYTES_MAX, "where it decodes");
static_assert(PEER_FRAME_BYTES_MAX <= PEER_RECEIVING_BYTES_MAX, "and one can be received whole");
static_assert(RAFT_MESSAGE_BYTES_MAX < PEER_POST_BYTES_MAX, "an append can be posted");
static_assert(REQUEST_BYTES_MAX + KIB <= PEER_POST_BYTES_MAX, "so can the largest entry");
static_assert(PEER_POST_BYTES_MAX <= PEER_RECEIVING_BYTES_MAX, "and is received whole");
static_assert(RAFT_MESSAGE_BYTES_MAX <= PEER_FRAME_ENTRIES_MAX, "an entry is a byte or more");
static_assert(RAFT_MESSAGE_BYTES_MAX < PEER_DECODER_AT_ONCE_BYTES,
              "usual appends are received without copies");
static_assert(RAFT_MEMBERS_MAX * (3 + PEER_POST_CONNS_MAX + PEER_ASK_CONNS_MAX) <= PEER_DIALS_MAX,
              "streams, a snapshot, posts and requests of every member can be dialled at once");
static_assert(2 * PEER_LINK_HEARTBEAT_MS < PEER_STREAM_SILENCE_MS,
              "one heartbeat may be late without a stream being cut");
static_assert(PEER_REDIAL_MIN_MS < PEER_REDIAL_MAX_MS, "a pause grows");
static_assert(FORWARDING_BYTES_MAX <= PEER_RECEIVING_BYTES_MAX / 4,
              "the keys of a few leases can be received at once");
static_assert(FORWARDING_BYTES_MAX <= PB_MESSAGE_BYTES_MAX, "and decode");
static_assert(PEER_SNAPSHOT_MESSAGE_BYTES_MAX <= PEER_RECEIVING_BYTES_MAX / 4,
              "a few snapshots are announced at once, and appends still come in");
static_assert(PEER_SNAPSHOT_MESSAGE_BYTES_MAX <= PB_MESSAGE_BYTES_MAX, "the message decodes");
static_assert(PEER_SNAPSHOT_CREDIT_BYTES <= WIRE_BYTES_MAX, "one gathering takes all credit");
static_assert(PEER_SNAPSHOT_CREDIT_BYTES <= PEER_SNAPSHOT_TURN_BYTES, "a turn can use it");
static_assert(PEER_SNAPSHOT_LOOK_MS < PEER_SNAPSHOT_STALL_MS, "a stall is seen in time");
static_assert(PEER_SNAPSHOT_SILENCE_MS < PEER_SNAPSHOT_STALL_MS,
              "whoever gives up first is the end that can tell slow from dead");
static_assert(PEER_PORT_SILENCE_MS < PEER_PORT_PACE_MS, "silence is seen first");
static_assert((int)HTTP1_HEAD_BYTES_MAX < 2 * PEER_PORT_PACE_MS * PEER_PORT_BYTES_PER_MS,
              "the slowest head is whole after two looks at its pace");
static_assert(4 * PEER_PORT_BYTES_PER_MS < PEER_POST_BYTES_PER_MS,
              "a sender that gives up later than that is not cut by the port");
static_assert(PEER_CONNS_RESERVED < PEER_CONNS_MAX, "strangers get in, too");
static_assert((int)NET_PATIENCE_MS < (int)TLS_HANDSHAKE_MS, "at the limit nobody has longer");
static_assert((int)RPC_PROBE_PATIENCE_MS < (int)NET_PATIENCE_MS,
              "silent connections hold the few places for probes no longer than those of clients");
static_assert((int)RPC_PROBE_CONNS_MAX * 1000 / (int)RPC_PROBE_PATIENCE_MS >= 500,
              "and a flood of them is let through by the hundred");
static_assert((int)NET_PATIENCE_MS < PEER_PORT_SILENCE_MS, "nor at the peer port");
static_assert(PEER_IDLE_MS < PEER_PORT_SILENCE_MS,
              "who dials ends an idle connection before the port does");
