#include "server/corruption.h"

#include "apply/result.h"
#include "base/assert.h"
#include "cluster/cluster.h"
#include "io/clock.h"
#include "server/state.h"

#include <stdio.h>

void corruption_init(struct corruption *c, const struct corruption_options *options)
{
    *c = (struct corruption){.o = *options};
    c->next_periodic_ms = options->facts->now_ms + options->periodic_ms;
    c->next_compaction_ms = options->facts->now_ms + options->compact_period_ms;
    hash_round_init(&c->round, &(struct hash_round_options){.peers = options->peers,
                                                            .facts = options->facts,
                                                            .logger = options->logger,
                                                            .limit_ms = options->limit_ms});
    if (options->periodic_ms > 0)
        log_info(options->logger, "enabled corruption checking",
                 LOG_ID("local-member-id", options->facts->member_id),
                 LOG_NS("interval", (int64_t)(options->periodic_ms * NS_PER_MS)));
}

void corruption_stop(struct corruption *c)
{
    if (c->o.clock)
        timer_stop(c->o.clock, &c->timer);
}

void corruption_free(struct corruption *c)
{
    if (c->o.mvcc)
        mvcc_hash_close(c->o.mvcc, &c->hashing);
    hash_round_free(&c->round);
}

bool corruption_is_idle(const struct corruption *c)
{
    return c->step == CORRUPTION_IDLE;
}

bool corruption_differs(const struct corruption *c)
{
    return c->differs;
}

static void end_check(struct corruption *c)
{
    c->step = CORRUPTION_IDLE;
    if (c->kind == CORRUPTION_COMPACTION)
        c->next_compaction_ms = c->o.facts->now_ms + c->o.compact_period_ms;
}

/* --- steps that checks have in common --- */

static void begin_hashing(struct corruption *c, enum corruption_step step)
{
    c->step = step;
    c->hashing = (struct mvcc_hash){0};
    enum mvcc_result result = mvcc_hash_open(c->o.mvcc, &c->hashing);
    assert(result == MVCC_OK); /* the newest revision is always there */
}

static struct own_hash own_hash(const struct mvcc_hash *h)
{
    return (struct own_hash){.revision = h->revision,
                             .compact_revision = h->compact_revision,
                             .hash = h->hash,
                             .other = h->other};
}

static bool is_of_same(const struct corruption *c, uint32_t hash)
{
    return hash == c->own.hash || hash == c->own.other;
}

static void ask_others(struct corruption *c, const struct own_hash *own)
{
    size_t count;
    const struct pb_member *members = cluster_members(c->o.cluster, &count);

    c->own = *own;
    c->step = CORRUPTION_ASKING;
    hash_round_start(&c->round, members, count, own->revision);
}

/* --- naming --- */

static void name_member(struct corruption *c, uint64_t member)
{
    for (size_t i = 0; i < c->alarm_count; i++)
        if (c->alarms[i] == member)
            return; /* and not yet taken */
    assert(c->alarm_count < ARRAY_LEN(c->alarms));
    c->alarms[c->alarm_count++] = member;
}

bool corruption_take_proposal(struct corruption *c, struct pb_internal_raft_request *out)
{
    if (c->alarm_count == 0)
        return false;
    c->alarm = (struct pb_alarm_request){.action = PB_ALARM_ACTIVATE,
                                         .member_id = c->alarms[--c->alarm_count],
                                         .alarm = PB_ALARM_CORRUPT};
    *out = (struct pb_internal_raft_request){.alarm = &c->alarm};
    return true;
}

/* --- initial --- */

void corruption_begin_initial(struct corruption *c)
{
    assert(corruption_is_idle(c));

    log_info(c->o.logger, "starting initial corruption check",
             LOG_ID("local-member-id", c->o.facts->member_id),
             LOG_NS("timeout", (int64_t)(c->o.limit_ms * NS_PER_MS)));
    c->kind = CORRUPTION_INITIAL;
    begin_hashing(c, CORRUPTION_HASHING);
}

static void say_initial(const struct corruption *c, const char *message,
                        const struct hash_reply *reply)
{
    const struct own_hash *own = &c->own;
    const struct member_hash *remote = &reply->hash;
    struct bytes url = reply->urls[reply->asked - 1];

    if (reply->kind == HASH_REPLY_OK)
        log_warn(c->o.logger, message, LOG_ID("local-member-id", c->o.facts->member_id),
                 LOG_I64("local-member-revision", own->revision),
                 LOG_I64("local-member-compact-revision", own->compact_revision),
                 LOG_U64("local-member-hash", own->hash), LOG_ID("remote-peer-id", reply->member),
                 LOG_BYTES("remote-peer-endpoint", url),
                 LOG_I64("remote-peer-revision", remote->newest),
                 LOG_I64("remote-peer-compact-revision", remote->compact_revision),
                 LOG_U64("remote-peer-hash", remote->hash));
    else
        log_warn(c->o.logger, message, LOG_ID("local-member-id", c->o.facts->member_id),
                 LOG_I64("local-member-revision", own->revision),
                 LOG_I64("local-member-compact-revision", own->compact_revision),
                 LOG_U64("local-member-hash", own->hash), LOG_ID("remote-peer-id", reply->member),
                 LOG_BYTES("remote-peer-endpoint", url));
}

/* True: there it is certain that one of the two is wrong. */
static bool differs_from(const struct corruption *c, const struct hash_reply *reply)
{
    switch (reply->kind) {
    case HASH_REPLY_NONE:
        return false;
    case HASH_REPLY_FUTURE:
        say_initial(c, "cannot fetch hash from slow remote peer", reply);
        return false;
    case HASH_REPLY_COMPACTED:
        say_initial(c, "cannot fetch hash from remote peer; local member is behind", reply);
        return false;
    case HASH_REPLY_OTHER_CLUSTER:
        say_initial(c, "cluster ID mismatch", reply);
        return false;
    case HASH_REPLY_OK:
        break;
    }
    if (is_of_same(c, reply->hash.hash))
        return false;
    if (reply->hash.compact_revision != c->own.compact_revision) {
        say_initial(c, "found different compact revision values from remote peer", reply);
        return false;
    }
    say_initial(c, "found different hash values from remote peer", reply);
    return true;
}

static void decide_initial(struct corruption *c)
{
    for (size_t i = 0; i < c->round.count; i++)
        if (differs_from(c, &c->round.replies[i]))
            c->differs = true;
    end_check(c);
    if (!c->differs)
        log_info(c->o.logger, "initial corruption checking passed; no corruption",
                 LOG_ID("local-member-id", c->o.facts->member_id));
}

/* --- periodic --- */

/* Only the first that is found: what the others are is seen when that is repaired. */
static void name_first(struct corruption *c, uint64_t member, bool *has_named)
{
    if (!*has_named)
        name_member(c, member);
    *has_named = true;
}

static void judge_follower(struct corruption *c, const struct hash_reply *reply, int64_t newest,
                           int64_t compacted, bool *has_named)
{
    const struct member_hash *h = &reply->hash;

    if (h->newest > newest) {
        log_warn(c->o.logger, "revision from follower must be less than or equal to leader's",
                 LOG_I64("leader-revision", newest), LOG_I64("follower-revision", h->newest),
                 LOG_ID("follower-peer-id", reply->member));
        name_first(c, reply->member, has_named);
    }
    if (h->compact_revision > compacted) {
        log_warn(c->o.logger,
                 "compact revision from follower must be less than or equal to leader's",
                 LOG_I64("leader-compact-revision", compacted),
                 LOG_I64("follower-compact-revision", h->compact_revision),
                 LOG_ID("follower-peer-id", reply->member));
        name_first(c, reply->member, has_named);
    }
    if (h->compact_revision == c->own.compact_revision && !is_of_same(c, h->hash)) {
        log_warn(c->o.logger, "same compact revision then hashes must match",
                 LOG_I64("leader-compact-revision", compacted), LOG_U64("leader-hash", c->own.hash),
                 LOG_I64("follower-compact-revision", h->compact_revision),
                 LOG_U64("follower-hash", h->hash), LOG_ID("follower-peer-id", reply->member));
        name_first(c, reply->member, has_named);
    }
}

/* `again`: our own hash a second time, if nothing was written in between; else NULL. */
static void decide_periodic(struct corruption *c, const struct mvcc_hash *again)
{
    int64_t newest = mvcc_revision(c->o.mvcc), compacted = mvcc_compact_revision(c->o.mvcc);
    bool has_named = false;
    size_t checked = 0;

    if (again && again->revision == c->own.revision &&
        again->compact_revision == c->own.compact_revision && again->hash != c->own.hash) {
        log_warn(c->o.logger, "found hash mismatch", LOG_I64("revision-1", c->own.revision),
                 LOG_I64("compact-revision-1", c->own.compact_revision),
                 LOG_U64("hash-1", c->own.hash), LOG_I64("revision-2", again->revision),
                 LOG_I64("compact-revision-2", again->compact_revision),
                 LOG_U64("hash-2", again->hash));
        name_first(c, c->o.facts->member_id, &has_named);
    }
    for (size_t i = 0; i < c->round.count; i++) {
        if (c->round.replies[i].kind != HASH_REPLY_OK)
            continue;
        judge_follower(c, &c->round.replies[i], newest, compacted, &has_named);
        checked++;
    }
    end_check(c);
    log_info(c->o.logger, "finished peer corruption check",
             LOG_U64("number-of-peers-checked", checked));
}

/*
 * A follower may have been asked after it had applied what we have not: we are behind, not it. With
 * a read round between its answer and our look at our own revision, whatever it had then is
 * applied here.
 */
static void confirm_leading(struct corruption *c)
{
    c->step = CORRUPTION_CONFIRMING;
    c->call = (struct api_call){0};
    c->call_is_due = true;
}

bool corruption_take_need(struct corruption *c, struct api_need *out)
{
    if (!c->call_is_due)
        return false;
    c->call_is_due = false;
    *out = (struct api_need){.need = API_READ_INDEX, .call = &c->call};
    return true;
}

/* The second hash says something only where it is of the same. */
void corruption_confirmed(struct corruption *c)
{
    assert(c->step == CORRUPTION_CONFIRMING);

    if (mvcc_revision(c->o.mvcc) == c->own.revision &&
        mvcc_compact_revision(c->o.mvcc) == c->own.compact_revision)
        begin_hashing(c, CORRUPTION_HASHING_AGAIN);
    else
        decide_periodic(c, NULL);
}

void corruption_unconfirmed(struct corruption *c, enum result why)
{
    assert(c->step == CORRUPTION_CONFIRMING);

    log_warn(c->o.logger, "failed to check hash KV", LOG_STR("error", result_text(why)));
    end_check(c);
}

/* --- compactions --- */

/* Members with the same hash. */
struct alike {
    uint32_t hash;
    uint64_t members[CLUSTER_MEMBERS_MAX + 1];
    size_t count;
};

static void add_alike(struct alike *groups, size_t *count, uint32_t hash, uint64_t member)
{
    size_t i = 0;

    while (i < *count && groups[i].hash != hash)
        i++;
    if (i == *count)
        groups[(*count)++] = (struct alike){.hash = hash};
    groups[i].members[groups[i].count++] = member;
}

static void say_skipped(const struct corruption *c, const struct hash_reply *reply)
{
    char why[128];

    if (reply->kind != HASH_REPLY_OK)
        snprintf(why, sizeof(why), "no response");
    else
        snprintf(why, sizeof(why),
                 "the peer's CompactRevision %lld doesn't match leader's CompactRevision %lld",
                 (long long)reply->hash.compact_revision, (long long)c->own.compact_revision);
    log_warn(c->o.logger, "Skipped peer's hash", LOG_U64("number-of-peers", c->round.count),
             LOG_ID("leader-id", c->o.facts->member_id), LOG_ID("peer-id", reply->member),
             LOG_STR("reason", why));
}

/* How many members could be compared with us. */
static size_t group_replies(const struct corruption *c, struct alike *groups, size_t *count)
{
    size_t compared = 0;

    for (size_t i = 0; i < c->round.count; i++) {
        const struct hash_reply *reply = &c->round.replies[i];
        if (reply->kind != HASH_REPLY_OK ||
            reply->hash.compact_revision != c->own.compact_revision) {
            say_skipped(c, reply);
            continue;
        }
        uint32_t hash = is_of_same(c, reply->hash.hash) ? c->own.hash : reply->hash.hash;
        add_alike(groups, count, hash, reply->member);
        compared++;
    }
    return compared;
}

static void say_mismatch(const struct corruption *c, const struct alike *group, bool has_majority)
{
    struct buf members = {0};

    for (size_t i = 0; i < group->count; i++)
        buf_printf(&members, "%s%llx", i > 0 ? "," : "", (unsigned long long)group->members[i]);
    log_error(c->o.logger, "Detected compaction hash mismatch",
              LOG_ID("leader-id", c->o.facts->member_id),
              LOG_I64("leader-revision", c->own.revision),
              LOG_I64("leader-compact-revision", c->own.compact_revision),
              LOG_U64("leader-hash", c->own.hash), LOG_U64("peer-hash", group->hash),
              LOG_STR("peer-ids", buf_str(&members)), LOG_BOOL("quorum-exist", has_majority));
    buf_free(&members);
}

static void name_minority(struct corruption *c, const struct alike *groups, size_t count)
{
    size_t quorum = (c->round.count + 1) / 2 + 1, majority = 0;

    while (majority < count && groups[majority].count < quorum)
        majority++;
    bool has_majority = majority < count;
    if (!has_majority) {
        log_error(c->o.logger,
                  "Detected compaction hash mismatch but cannot identify the corrupted members, so "
                  "intentionally set the memberID as 0",
                  LOG_ID("leader-id", c->o.facts->member_id),
                  LOG_I64("leader-revision", c->own.revision),
                  LOG_I64("leader-compact-revision", c->own.compact_revision),
                  LOG_U64("leader-hash", c->own.hash));
        name_member(c, 0);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == majority)
            continue;
        for (size_t m = 0; has_majority && m < groups[i].count; m++)
            name_member(c, groups[i].members[m]);
        say_mismatch(c, &groups[i], has_majority);
    }
}

/* True: all members have it, and agree. */
static bool is_whole(struct corruption *c, size_t compared)
{
    const struct own_hash *own = &c->own;

    if (compared < c->round.count) {
        log_warn(c->o.logger,
                 "skipped revision in compaction hash check; was not able to check all peers",
                 LOG_U64("number-of-peers-checked", compared),
                 LOG_U64("number-of-peers", c->round.count), LOG_I64("revision", own->revision),
                 LOG_I64("compactRevision", own->compact_revision));
        return false;
    }
    log_info(c->o.logger, "successfully checked hash on whole cluster",
             LOG_U64("number-of-peers-checked", compared), LOG_I64("revision", own->revision),
             LOG_I64("compactRevision", own->compact_revision));
    if (own->revision > c->checked_revision)
        c->checked_revision = own->revision;
    return true;
}

static void end_compactions(struct corruption *c)
{
    end_check(c);
    log_info(c->o.logger, "finished compaction hash check",
             LOG_U64("number-of-hashes-checked", c->compared));
}

/* Older ones are looked at only where this one has not told of all members. */
static void ask_next_compaction(struct corruption *c)
{
    if (c->compared < c->compaction_count)
        ask_others(c, &c->compactions[c->compared]);
    else
        end_compactions(c);
}

static void decide_compaction(struct corruption *c)
{
    struct alike groups[CLUSTER_MEMBERS_MAX + 1];
    size_t count = 0;

    c->compared++;
    if (c->round.count == 0) { /* nobody else is there */
        ask_next_compaction(c);
        return;
    }
    add_alike(groups, &count, c->own.hash, c->o.facts->member_id);
    size_t compared = group_replies(c, groups, &count);
    if (count == 1 && !is_whole(c, compared)) {
        ask_next_compaction(c);
        return;
    }
    if (count > 1)
        name_minority(c, groups, count);
    end_compactions(c);
}

static void begin_compactions(struct corruption *c)
{
    struct mvcc_hash h;

    log_info(c->o.logger, "starting compact hash check",
             LOG_ID("local-member-id", c->o.facts->member_id),
             LOG_NS("timeout", (int64_t)(c->o.limit_ms * NS_PER_MS)));
    c->kind = CORRUPTION_COMPACTION;
    c->compaction_count = c->compared = 0;
    for (size_t i = 0; mvcc_compaction_hash(c->o.mvcc, i, &h); i++) {
        if (h.revision <= c->checked_revision)
            break;
        c->compactions[c->compaction_count++] = own_hash(&h);
    }
    ask_next_compaction(c);
}

/* --- all of it --- */

static void begin_periodic(struct corruption *c)
{
    c->kind = CORRUPTION_PERIODIC;
    begin_hashing(c, CORRUPTION_HASHING);
}

static void go_on_checking(struct timer *t)
{
    (void)t; /* it made the inbox wake us: that was all */
}

/* Heartbeats wake us often enough, but not when it is due: an operator who has asked for a second
 * gets a second. */
static void wait_for_next(struct corruption *c)
{
    uint64_t now_ms = c->o.facts->now_ms;
    uint64_t next_ms = c->o.periodic_ms > 0 ? c->next_periodic_ms : UINT64_MAX;

    if (c->o.compact_period_ms > 0 && c->next_compaction_ms < next_ms)
        next_ms = c->next_compaction_ms;
    if (next_ms == UINT64_MAX || timer_is_set(&c->timer))
        return;
    c->timer.on_time = go_on_checking;
    /* Of two that were due one has begun, and was over at once: then it is the other's turn. */
    timer_start(c->o.clock, &c->timer, next_ms > now_ms ? (next_ms - now_ms) * NS_PER_MS : 0);
}

/* As a clock does that strikes: however late the last one was, the next is on time. */
static uint64_t next_strike(uint64_t last_ms, uint64_t period_ms, uint64_t now_ms)
{
    return now_ms - last_ms < period_ms ? last_ms + period_ms : now_ms + period_ms;
}

/* Who does not lead is not late: it begins to count anew. */
static void begin_what_is_due(struct corruption *c)
{
    uint64_t now_ms = c->o.facts->now_ms;
    bool periodic = c->o.periodic_ms > 0 && now_ms >= c->next_periodic_ms;
    bool compaction = c->o.compact_period_ms > 0 && now_ms >= c->next_compaction_ms;

    if (periodic && compaction && c->o.facts->is_leader) {
        periodic = c->next_periodic_ms <= c->next_compaction_ms;
        compaction = !periodic;
    }
    if (periodic)
        c->next_periodic_ms = next_strike(c->next_periodic_ms, c->o.periodic_ms, now_ms);
    if (compaction)
        c->next_compaction_ms = now_ms + c->o.compact_period_ms;
    if (periodic && c->o.facts->is_leader)
        begin_periodic(c);
    else if (compaction && c->o.facts->is_leader)
        begin_compactions(c);
}

static void hashed(struct corruption *c)
{
    struct mvcc_hash h = c->hashing;
    struct own_hash own = own_hash(&h);

    mvcc_hash_close(c->o.mvcc, &c->hashing);
    if (c->step == CORRUPTION_HASHING_AGAIN)
        decide_periodic(c, &h);
    else
        ask_others(c, &own);
}

static void asked(struct corruption *c)
{
    switch (c->kind) {
    case CORRUPTION_INITIAL:
        decide_initial(c);
        return;
    case CORRUPTION_PERIODIC:
        confirm_leading(c);
        return;
    case CORRUPTION_COMPACTION:
        decide_compaction(c);
        return;
    }
    unreachable();
}

bool corruption_work(struct corruption *c, unsigned steps)
{
    switch (c->step) {
    case CORRUPTION_IDLE:
        begin_what_is_due(c);
        if (corruption_is_idle(c))
            wait_for_next(c);
        return corruption_is_idle(c);
    case CORRUPTION_HASHING:
    case CORRUPTION_HASHING_AGAIN:
        if (!mvcc_hash_some(c->o.mvcc, &c->hashing, steps))
            return mvcc_is_settling(c->o.mvcc); /* that goes on by itself */
        hashed(c);
        return corruption_is_idle(c);
    case CORRUPTION_ASKING:
        if (!hash_round_is_over(&c->round))
            return true;
        asked(c);
        return corruption_is_idle(c);
    case CORRUPTION_CONFIRMING:
        return true;
    }
    unreachable();
}

void corruption_result(struct corruption *c, const struct peer_event *e)
{
    hash_round_result(&c->round, e);
}

/* A hash begins again. What was asked of others goes on: the hash that they are compared with is
 * that of a revision, whichever state it was read from. */
void corruption_state_replaced(struct corruption *c, const struct state *state)
{
    bool is_hashing = c->step == CORRUPTION_HASHING || c->step == CORRUPTION_HASHING_AGAIN;

    mvcc_hash_close(c->o.mvcc, &c->hashing);
    c->o.mvcc = state->mvcc;
    c->o.cluster = state->cluster;
    if (is_hashing)
        begin_hashing(c, c->step);
}

void corruption_check(const struct corruption *c)
{
    bool is_hashing = c->step == CORRUPTION_HASHING || c->step == CORRUPTION_HASHING_AGAIN;

    assert(c->hashing.open == is_hashing);
    assert(c->step == CORRUPTION_ASKING || hash_round_is_over(&c->round));
    assert(!c->call_is_due || c->step == CORRUPTION_CONFIRMING);
    assert(c->step != CORRUPTION_CONFIRMING || c->kind == CORRUPTION_PERIODIC);
    assert(c->step != CORRUPTION_HASHING_AGAIN || c->kind == CORRUPTION_PERIODIC);
    assert(c->compared <= c->compaction_count);
    assert(c->compaction_count <= ARRAY_LEN(c->compactions));
    assert(c->alarm_count <= ARRAY_LEN(c->alarms));
}
