/*
 * What agreement costs: three members in one thread, no network and a disk that is always done.
 *
 * The figure is CPU per committed entry over all three members: proposing, replicating, the
 * answers, committing, handing out for writing and for applying. Entries have 256 bytes and come in
 * batches of 64; their blobs are made before, once, as making them is the caller's work. It must
 * not grow with the log: so it is taken on a short log, and again behind a million entries,
 * compacted, evicted or all in memory.
 */
#include "raft/raft.h"

#include "base/assert.h"
#include "base/limits.h"
#include "harness/bench.h"

enum {
    MEMBERS = 3,
    BATCH = 64,
    ENTRY_BYTES = 256,
    MANY = 1000000,
    KEEP = 5000, /* entries kept behind the applied one, as etcd does */
};

struct group {
    struct raft *members[MEMBERS];
    struct blob *batch[BATCH];
    bool compacts;
    uint64_t applied[MEMBERS];
    uint64_t compacted;
};

static void deliver(struct group *g, unsigned from, const struct raft_message *m)
{
    if (m->to == from + 1)
        raft_step_own(g->members[from], m);
    else
        raft_step(g->members[m->to - 1], m);
}

static void finish(struct group *g, unsigned at, const struct raft_message *work)
{
    for (size_t i = 0; i < work->response_count; i++)
        deliver(g, at, &work->responses[i]);
}

static bool turn(struct group *g, unsigned at)
{
    struct raft_output out;

    if (!raft_take_output(g->members[at], &out))
        return false;
    for (size_t i = 0; i < out.send_count; i++)
        deliver(g, at, &out.messages[i]);
    if (out.append)
        finish(g, at, out.append);
    if (out.apply) {
        g->applied[at] = out.committed[out.committed_count - 1].index;
        finish(g, at, out.apply);
    }
    return true;
}

static void settle(struct group *g)
{
    bool busy = true;

    while (busy) {
        busy = false;
        for (unsigned i = 0; i < MEMBERS; i++)
            busy = turn(g, i) || busy;
    }
}

static void compact(struct group *g)
{
    if (!g->compacts || g->applied[0] < g->compacted + 2 * (uint64_t)KEEP)
        return;
    g->compacted = g->applied[0] - KEEP;
    for (unsigned i = 0; i < MEMBERS; i++)
        raft_compact(g->members[i], g->compacted);
}

static void commit_entries(void *context, uint64_t times)
{
    struct group *g = context;
    uint64_t before = g->applied[MEMBERS - 1];

    for (uint64_t done = 0; done < times; done += BATCH) {
        enum raft_result result = raft_propose_batch(g->members[0], g->batch, BATCH);
        assert(result == RAFT_OK);
        settle(g);
        compact(g);
    }
    assert(g->applied[MEMBERS - 1] >= before + times);
}

/* --- life --- */

static void group_open(struct group *g, bool compacts, size_t max_resident_entries)
{
    struct raft_boot boot = {.conf_state.voters = {.count = MEMBERS, .at = {1, 2, 3}}};

    *g = (struct group){.compacts = compacts};
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct raft_config config = {
            .id = i + 1,
            .election_ticks = 10,
            .heartbeat_ticks = 1,
            .max_message_bytes = RAFT_MESSAGE_BYTES_MAX,
            .max_inflight_messages = 512,
            .max_resident_entries = max_resident_entries,
            .async_storage_writes = true,
            .check_quorum = true,
            .pre_vote = true,
        };
        rng_seed(&config.rng, i);
        g->members[i] = raft_open(&config, &boot);
    }
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t *fill;
        g->batch[i] = blob_new(ENTRY_BYTES, &fill);
        memset(fill, 'x', ENTRY_BYTES);
    }
    raft_campaign(g->members[0]);
    settle(g);
    assert(raft_status(g->members[0]).soft_state.role == RAFT_LEADER);
}

static void group_close(struct group *g)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        raft_close(g->members[i]);
    for (unsigned i = 0; i < BATCH; i++)
        blob_unref(g->batch[i]);
}

static void measure(struct group *g, const char *suffix)
{
    bench_run(&(struct bench_work){.suffix = suffix, .body = commit_entries, .context = g});
}

BENCH(raft_commit)
{
    struct group g;

    group_open(&g, true, 0);
    measure(&g, "compacted");
    commit_entries(&g, MANY);
    measure(&g, "compacted_after_1m");
    group_close(&g);

    group_open(&g, false, KEEP);
    measure(&g, "evicted");
    commit_entries(&g, MANY);
    measure(&g, "evicted_after_1m");
    group_close(&g);

    group_open(&g, false, 0);
    measure(&g, "resident");
    commit_entries(&g, MANY);
    measure(&g, "resident_after_1m");
    bench_report("log_length", (double)raft_status(g.members[0]).last_index, "entries");
    group_close(&g);
}
