/*
 * entry: what raft speaks of, said once: entries, hard and conf states, snapshots, messages.
 *
 * raft decides about these, wal and snap keep them, peers send them, cluster and apply act on them.
 * They are one set of plain structs on a floor below all of those, so that an entry goes from a
 * proposal into the log, onto the disk, out to a peer and into the store as the same value, and
 * nobody translates. The names begin with raft_, since the words are raft's (raftpb in etcd),
 * whoever uses them.
 *
 *     wire <--raft_..._encode, _decode--> struct            protobuf, by pb's tables (schema.c)
 *
 *     entry     | term | index | type | data ----+  a look into blob
 *               | blob -------------------> [ one received frame, or one proposal: shared ]
 *     message   | type, numbers | entries[] | snapshot | context | responses[] |
 *
 * Use        Values are lent down a call. Whoever keeps one takes references of its own:
 *            raft_entry_share for an entry, raft_message_clone for a message with all it shows.
 *
 * Promises   1. Any bytes at all are safe to decode: a peer, or a disk, wrote them. Lengths are
 *               checked, memory is bounded (pb/codec.h, promise 2), a list beyond its bound
 *               (RAFT_MEMBERS_MAX, RAFT_CHANGES_MAX) is ERR_TOO_LARGE. What Go's decoder skips
 *               or merges is skipped or merged.
 *            2. What goes into files has etcd 3.7's bytes. Between members it now and then writes a
 *               zero where we write nothing; being present has no meaning, absent is zero.
 *            3. Decoding copies no data: it looks into the wire, and shares its blob.
 *
 * Not here   What any of it means (raft, apply), which of it a peer may say (raft_step), framing
 *            (wal, peer).
 * Leans on   pb and base.
 */
#pragma once

#include "base/arena.h"
#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/mem.h"
#include "pb/schema.h"

/* ---- Numbers ------------------------------------------------------------------------------- */

/* No member. Also "no leader" and "no vote". */
#define RAFT_NONE 0

/* Not members but the two places where this member's own work is done. They appear as targets of
 * storage messages and as senders of their answers, in async mode only. */
#define RAFT_APPEND_THREAD UINT64_MAX
#define RAFT_APPLY_THREAD  (UINT64_MAX - 1)

/* Terms and indexes above this are refused when a peer sends them, so that adding one to a number
 * we accepted never overflows. Counting there honestly takes a few hundred thousand years. */
#define RAFT_NUMBER_MAX ((uint64_t)INT64_MAX)

#define RAFT_NO_LIMIT UINT64_MAX

enum raft_entry_type {
    RAFT_ENTRY_NORMAL = 0,
    RAFT_ENTRY_CONF_CHANGE = 1,    /* data is an encoded raft_conf_change */
    RAFT_ENTRY_CONF_CHANGE_V2 = 2, /* data is an encoded raft_conf_change_v2; empty: leave joint */
};

/*
 * One command in the log. data looks into blob, which several entries may share (one received
 * frame backs all of its entries). Where an entry is lent to raft with data but no blob, raft makes
 * a copy of the data for itself: right for tests, wasteful for servers.
 */
struct raft_entry {
    uint64_t term, index;
    enum raft_entry_type type;
    struct bytes data;
    struct blob *blob; /* NULL when data is empty */
};

/* A reference of one's own to an entry's data; copies it if the lender had no blob. */
static inline struct raft_entry raft_entry_share(const struct raft_entry *e)
{
    struct raft_entry own = *e;

    if (e->blob) {
        blob_ref(e->blob);
    } else if (e->data.len > 0) {
        own.blob = blob_copy(e->data);
        own.data = blob_bytes(own.blob);
    }
    return own;
}

struct raft_hard_state {
    uint64_t term, vote, commit;
};

/* A list of member ids; ascending and without repeats wherever raft hands one out. */
struct raft_ids {
    size_t count;
    uint64_t at[RAFT_MEMBERS_MAX];
};

/* A configuration as it is stored in snapshots. While it is joint, voters_outgoing is not empty and
 * decisions need a majority of voters and one of voters_outgoing. */
struct raft_conf_state {
    struct raft_ids voters, learners, voters_outgoing, learners_next;
    bool auto_leave; /* raft itself proposes to leave the joint configuration */
};

struct raft_snapshot {
    uint64_t index, term; /* the last entry it contains; index 0 means no snapshot */
    struct raft_conf_state conf_state;
    struct bytes data;
    struct blob *blob; /* NULL when data is empty */
};

/* A copy with a reference of its own to the data: blob_unref, mem_free. */
struct raft_snapshot *raft_snapshot_own(const struct raft_snapshot *s);

/* The numbers are those of raftpb.MessageType. */
enum raft_message_type {
    RAFT_MSG_HUP = 0,
    RAFT_MSG_BEAT = 1,
    RAFT_MSG_PROP = 2,
    RAFT_MSG_APP = 3,
    RAFT_MSG_APP_RESP = 4,
    RAFT_MSG_VOTE = 5,
    RAFT_MSG_VOTE_RESP = 6,
    RAFT_MSG_SNAP = 7,
    RAFT_MSG_HEARTBEAT = 8,
    RAFT_MSG_HEARTBEAT_RESP = 9,
    RAFT_MSG_UNREACHABLE = 10,
    RAFT_MSG_SNAP_STATUS = 11,
    RAFT_MSG_CHECK_QUORUM = 12,
    RAFT_MSG_TRANSFER_LEADER = 13,
    RAFT_MSG_TIMEOUT_NOW = 14,
    RAFT_MSG_READ_INDEX = 15,
    RAFT_MSG_READ_INDEX_RESP = 16,
    RAFT_MSG_PRE_VOTE = 17,
    RAFT_MSG_PRE_VOTE_RESP = 18,
    RAFT_MSG_STORAGE_APPEND = 19,
    RAFT_MSG_STORAGE_APPEND_RESP = 20,
    RAFT_MSG_STORAGE_APPLY = 21,
    RAFT_MSG_STORAGE_APPLY_RESP = 22,
    RAFT_MSG_FORGET_LEADER = 23,
};

/*
 * One envelope for everything; which fields mean something depends on the type.
 *
 *   App            index, log_term: the entry before `entries`; commit
 *   AppResp        index: matched up to, or with reject: refused there, reject_hint and log_term
 *                  name the place from which the logs might match
 *   Vote, PreVote  index, log_term: the candidate's last entry; context marks a leader transfer
 *   Heartbeat      commit; context comes back in HeartbeatResp
 *   StorageAppend  entries, snapshot; term, vote, commit: the hard state, all zero if unchanged;
 *                  responses: deliver these once all of it is durable
 *   StorageApply   entries; responses: deliver these once they are applied
 */
struct raft_message {
    enum raft_message_type type;
    bool reject;
    uint64_t to, from, term, log_term, index, commit, vote, reject_hint;
    const struct raft_entry *entries;
    size_t entry_count;
    const struct raft_snapshot *snapshot; /* NULL: none */
    struct bytes context;
    const struct raft_message *responses;
    size_t response_count;
};

/* A copy that owns itself (one allocation, sharing the blobs), for messages that must outlive
 * their lender: storage work under way, a network in a test. End it with raft_message_free. */
struct raft_message *raft_message_clone(const struct raft_message *m);
void raft_message_free(struct raft_message *m); /* NULL is fine */

/* Is this a message that only a member itself may produce: a timer, a report, storage work? */
bool raft_message_is_local(enum raft_message_type type);

/* ---- Changes of the configuration ----------------------------------------------------------- */

enum raft_conf_change_type {
    RAFT_ADD_NODE = 0,
    RAFT_REMOVE_NODE = 1,
    RAFT_UPDATE_NODE = 2, /* changes nothing here; etcd uses it to carry a member's new addresses */
    RAFT_ADD_LEARNER_NODE = 3,
};

enum raft_transition {
    RAFT_TRANSITION_AUTO = 0,           /* one change: simple; several: joint, left automatically */
    RAFT_TRANSITION_JOINT_IMPLICIT = 1, /* joint, left automatically */
    RAFT_TRANSITION_JOINT_EXPLICIT = 2, /* joint, until an empty change is proposed */
};

/* The only kind etcd itself proposes. node_id 0 stands for a change the application refused. */
struct raft_conf_change {
    uint64_t id; /* the application's, to find its waiting call */
    enum raft_conf_change_type type;
    uint64_t node_id;
    struct bytes context;
};

struct raft_conf_change_single {
    enum raft_conf_change_type type;
    uint64_t node_id;
};

struct raft_conf_change_v2 {
    enum raft_transition transition;
    size_t change_count;
    struct raft_conf_change_single changes[RAFT_CHANGES_MAX];
    struct bytes context;
};

/* Protobuf, as entries of the two conf change types carry it. Decoding takes anything a peer may
 * send, says false if it is not such a message, and leaves context looking into `from`. */
void raft_conf_change_encode(const struct raft_conf_change *cc, struct buf *out);
void raft_conf_change_v2_encode(const struct raft_conf_change_v2 *cc, struct buf *out);
MUST_CHECK bool raft_conf_change_decode(struct bytes from, struct raft_conf_change *out);
MUST_CHECK bool raft_conf_change_v2_decode(struct bytes from, struct raft_conf_change_v2 *out);

/* The same change as a v2; context is shared. */
struct raft_conf_change_v2 raft_conf_change_as_v2(const struct raft_conf_change *cc);

/* Decodes an entry of either conf change type, as a v2. False for any other entry or bad data. */
MUST_CHECK bool raft_entry_conf_change(const struct raft_entry *e, struct raft_conf_change_v2 *out);

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* What an entry takes, encoded. */
size_t raft_entry_size(const struct raft_entry *e);

/*
 * Writes an entry but for its data, which follows it, backwards from `end`; returns the start. At
 * most RAFT_ENTRY_HEAD_BYTES. For those who send the data from where it is.
 */
enum { RAFT_ENTRY_HEAD_BYTES = 4 * 11 };
uint8_t *raft_entry_put_head(const struct raft_entry *e, uint8_t *end);

/* Writes a hard state backwards, likewise. */
enum { RAFT_HARD_STATE_BYTES = 3 * 11 };
uint8_t *raft_hard_state_put(const struct raft_hard_state *s, uint8_t *end);

/* raftpb.Snapshot, as a file has it; data looks into `wire`, without a blob. The arena is only for
 * the decoder's own use. */
void raft_snapshot_encode(const struct raft_snapshot *s, struct buf *out);
MUST_CHECK enum err raft_snapshot_decode(struct bytes wire, struct arena *arena,
                                         struct raft_snapshot *out);

/* walpb.Snapshot, as a log records that there is such a file: all but the data. */
void raft_snapshot_encode_record(const struct raft_snapshot *s, struct buf *out);
MUST_CHECK enum err raft_snapshot_decode_record(struct bytes wire, struct arena *arena,
                                                struct raft_snapshot *out);

/* raftpb.Message, as peers send it. */
void raft_message_encode(const struct raft_message *m, struct buf *out);

/*
 * Fills *out from `wire`, a part of `frame`. Its arrays live in the arena; its data and context
 * look into the frame, which entries and snapshots show as their blob without a reference of their
 * own: all of *out is lent for as long as frame and arena are there.
 */
MUST_CHECK enum err raft_message_decode(struct blob *frame, struct bytes wire, struct arena *arena,
                                        struct raft_message *out);

/* The tables, for tests and tools that walk them (pb/codec.h). */
#define RAFT_MESSAGES(X)                                                                           \
    X(entry)                                                                                       \
    X(conf_state)                                                                                  \
    X(snapshot_metadata)                                                                           \
    X(snapshot)                                                                                    \
    X(message)                                                                                     \
    X(hard_state)                                                                                  \
    X(conf_change)                                                                                 \
    X(conf_change_single)                                                                          \
    X(conf_change_v2)                                                                              \
    X(snapshot_record)
#define RAFT_DECLARE(name) extern const struct pb_schema raft_##name##_schema;
RAFT_MESSAGES(RAFT_DECLARE)
#undef RAFT_DECLARE
