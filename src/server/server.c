/*
 * The life of a member: everything is opened in order, and closed in the opposite one.
 *
 *     places to listen --> [founding or joining] --> disk: log, store and state --> raft -->
 *     clients --> set going
 *
 * All of it happens in server_open, unless a cluster is founded with others, or joined: what must
 * be found out for that takes time (founding.h, joining.h), so the rest is done in a later turn. So
 * it is if the disk is full, once there is space. And where the operator wants a member's store to
 * be compared with the others' before it serves (corruption.h), it takes part in nothing but that
 * until it is over.
 */
#include "backend/backend.h"
#include "config/config.h"
#include "io/entropy.h"
#include "mvcc/mvcc.h"
#include "raft/raft.h"
#include "rpc/line.h"
#include "server/boot.h"
#include "server/digest.h"
#include "server/server_int.h"
#include "server/token_keys.h"
#include "snap/transfer.h"
#include "wal/wal.h"

#include <stdarg.h>

uint64_t server_now_ms(const struct server *s)
{
    return clock_now_ns(s->io->clock) / NS_PER_MS;
}

void server_fail(struct server *s, const char *format, ...)
{
    struct buf text = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    if (!s->options.on_failed)
        fatal("%s", buf_str(&text));
    if (!s->failed)
        s->options.on_failed(s->options.context, buf_str(&text));
    s->failed = true;
    buf_free(&text);
}

void server_on_failed(void *context, const char *text)
{
    server_fail(context, "%s", text);
}

/* --- beginning --- */

static struct server *new_server(const struct server_options *options)
{
    struct server *s = mem_new(struct server);

    uint64_t seed;

    s->metrics = metrics_open();
    s->options = *options;
    s->config = options->config;
    s->logger = options->logger;
    s->raft_logger = *options->logger;
    s->raft_logger.name = "raft";
    s->io = options->io;
    entropy_fill(s->io->entropy, &seed, sizeof(seed));
    rng_seed(&s->rng, seed);
    s->map_seed = rng_next(&s->rng);
    struct buf dir = {0};
    buf_printf(&dir, "%s/member/snap", s->config->data_dir);
    s->snap_dir = (char *)mem_alloc(dir.len + 1);
    memcpy(s->snap_dir, dir.at, dir.len);
    buf_free(&dir);
    if (!s->options.memory)
        s->store_dir = snap_store_dir(s->config->data_dir);
    return s;
}

/* What tools and operators look for first. */
static void say_how_we_start(const struct server *s)
{
    const struct config *c = s->config;

    log_info(s->logger, "starting an etcd server", LOG_STR("etcd-version", SERVER_VERSION),
             LOG_STR("name", c->name), LOG_STR("data-dir", c->data_dir),
             LOG_STR("wal-dir", c->wal_dir), LOG_BOOL("pre-vote", c->pre_vote),
             LOG_NS("heartbeat-interval", (int64_t)(c->heartbeat_ms * NS_PER_MS)),
             LOG_NS("election-timeout", (int64_t)(c->election_ms * NS_PER_MS)),
             LOG_U64("snapshot-count", c->snapshot_count), LOG_U64("max-wals", c->max_wals),
             LOG_U64("max-snapshots", c->max_snapshots),
             LOG_U64("snapshot-catchup-entries", c->snapshot_catchup_entries),
             LOG_STR("initial-cluster", c->initial_cluster),
             LOG_STR("initial-cluster-state", c->joins_existing ? "existing" : "new"),
             LOG_STR("initial-cluster-token", c->initial_cluster_token),
             LOG_I64("quota-backend-bytes", c->quota_backend_bytes),
             LOG_U64("max-request-bytes", c->max_request_bytes),
             LOG_STR("v2-deprecation", "write-only"));
}

static void tick_is_due(struct timer *t)
{
    container_of(t, struct server, tick_timer)->tick_due = true;
}

/* Never 0 for what is not. */
static uint64_t whole_ms(int64_t ns)
{
    return ((uint64_t)ns + NS_PER_MS - 1) / NS_PER_MS;
}

static void open_log(struct server *s, const struct boot *b)
{
    const struct config *c = s->config;
    struct log_snapshot_options snapshots = {.disk = s->io->disk,
                                             .workers = s->io->workers,
                                             .logger = s->logger,
                                             .dir = s->snap_dir,
                                             .keep = (unsigned)c->max_snapshots,
                                             .count = c->snapshot_count,
                                             .catch_up = c->snapshot_catchup_entries,
                                             .member_id = s->facts.member_id};

    storage_work_init(&s->work, b->log.applied);
    s->work.durable_index = raft_status(s->raft).stable_index;
    if (!raft_term_at(s->raft, s->work.durable_index, &s->work.durable_term))
        s->work.durable_term = 0; /* an empty log */
    log_snapshot_init(&s->snapshot, &snapshots, b->snapshot.index);
}

/* What moves the state as a whole, here and between members, and the space it takes. */
static void open_images(struct server *s, const struct boot *b)
{
    const struct config *c = s->config;

    space_init(&s->space, &(struct space_options){.disk = s->io->disk,
                                                  .logger = s->logger,
                                                  .dir = s->config->data_dir});
    install_init(&s->install, &(struct install_options){.disk = s->io->disk,
                                                        .workers = s->io->workers,
                                                        .logger = s->logger,
                                                        .snap_dir = s->snap_dir,
                                                        .keep = (unsigned)c->max_snapshots});
    cutting_init(&s->cutting,
                 &(struct cutting_options){.workers = s->io->workers, .logger = s->logger});
    receiving_init(&s->receiving, &(struct receiving_options){.disk = s->io->disk,
                                                              .workers = s->io->workers,
                                                              .peers = s->peering.peers,
                                                              .logger = s->logger,
                                                              .snap_dir = s->snap_dir,
                                                              .member_id = s->facts.member_id});
    sending_init(&s->sending, &(struct sending_options){.raft = s->raft,
                                                        .peers = s->peering.peers,
                                                        .cutting = &s->cutting,
                                                        .logger = s->logger,
                                                        .facts = &s->facts,
                                                        .log_ms = s->options.sending_log_ms});
    sending_offer(s->raft, b->log.applied, s->facts.applied_term, &s->conf_state);
    backups_init(&s->backups, &s->cutting);
}

static void open_housekeeping(struct server *s, uint64_t limit_ms)
{
    const struct config *c = s->config;
    struct housekeeping_options house = {
        .backend = s->state.backend,
        .mvcc = s->state.mvcc,
        .leases = s->state.leases,
        .cluster = s->state.cluster,
        .apply = s->state.apply,
        .auth = s->state.auth,
        .clock = s->io->clock,
        .logger = s->logger,
        .snapshot = &s->snapshot,
        .facts = &s->facts,
        .attributes = {.name = bytes_of_str(c->name),
                       .client_urls = {c->advertise_clients.at, c->advertise_clients.count}},
        .commit_interval_ms = (uint64_t)c->backend_batch_interval_ns / NS_PER_MS,
        .publish_retry_ms = limit_ms,
        .downgrade_check_ms = c->downgrade_check_ms,
        .settle_steps = s->options.settle_steps,
        .compact_steps = s->options.compact_steps,
        .compact_batch = c->compaction_batch,
        .compact_pause_ns = (uint64_t)c->compaction_sleep_ns};
    struct auto_compaction_options compactions = {.clock = s->io->clock,
                                                  .logger = s->logger,
                                                  .facts = &s->facts,
                                                  .counts_revisions =
                                                      c->auto_compaction_counts_revisions,
                                                  .retention = c->auto_compaction_retention,
                                                  .limit_ms = limit_ms};

    housekeeping_init(&s->housekeeping, &house, s->state.storage_version);
    auto_compaction_init(&s->auto_compaction, &compactions, mvcc_revision(s->state.mvcc));
}

/* Those who wait for somebody: for the log, or for another member. */
static void open_waiting(struct server *s, uint64_t limit_ms)
{
    struct pending_options pending = {.facts = &s->facts,
                                      .salt = rng_next(&s->rng),
                                      .map_seed = s->map_seed,
                                      .request_bytes_max = s->config->max_request_bytes,
                                      .limit_ms = limit_ms};
    struct peer_requests_options requests = {.peers = s->peering.peers,
                                             .cluster = s->state.cluster,
                                             .leases = s->state.leases,
                                             .mvcc = s->state.mvcc,
                                             .apply = s->state.apply,
                                             .auth = s->state.auth,
                                             .tokens = s->tokens,
                                             .facts = &s->facts,
                                             .logger = s->logger,
                                             .storage_version = s->housekeeping.storage_version};

    pending_init(&s->pending, &pending);
    peer_requests_init(&s->peer_requests, &requests);
    forwarding_init(&s->forwarding, &(struct forwarding_options){.peers = s->peering.peers,
                                                                 .facts = &s->facts,
                                                                 .map_seed = s->map_seed,
                                                                 .limit_ms = limit_ms});
    hashing_init(&s->hashing);
    warming_init(&s->warming, s->io->clock, s->io->store_readers);
    warming_set_state(&s->warming, s->state.mvcc);
    passwords_init(&s->passwords, s->io->workers, s->io->entropy, s->config->bcrypt_cost);
}

static void open_corruption(struct server *s, uint64_t limit_ms)
{
    const struct config *c = s->config;
    bool compares = gates_compact_hash_check(c->gates);

    corruption_init(&s->corruption,
                    &(struct corruption_options){
                        .peers = s->peering.peers,
                        .cluster = s->state.cluster,
                        .mvcc = s->state.mvcc,
                        .clock = s->io->clock,
                        .facts = &s->facts,
                        .logger = s->logger,
                        .limit_ms = limit_ms,
                        .periodic_ms = whole_ms(c->corrupt_check_ns),
                        .compact_period_ms = compares ? whole_ms(c->compact_hash_check_ns) : 0});
}

static void open_parts(struct server *s, const struct boot *b)
{
    uint64_t limit_ms = PENDING_LIMIT_MS + 2 * s->config->election_ms;

    open_images(s, b);
    open_log(s, b);
    open_housekeeping(s, limit_ms);
    open_waiting(s, limit_ms);
    open_corruption(s, limit_ms);
}

static void say_if_downgrading(const struct server *s)
{
    struct cluster_downgrade downgrade = cluster_downgrade(s->state.cluster);

    if (downgrade.enabled)
        log_info(s->logger, "cluster is downgrading to target version",
                 LOG_BYTES("target-cluster-version", downgrade.target_version),
                 LOG_STR("current-server-version", SERVER_VERSION));
}

/* --bootstrap-defrag-threshold-megabytes: worth it? etcd does it before it serves; here it goes on
 * beside everything else, so nobody has to wait. */
static void defragment_at_start(struct server *s)
{
    struct backend_sizes sizes = backend_sizes(s->state.backend);
    uint64_t threshold = s->config->bootstrap_defrag_bytes;

    if (threshold == 0)
        return;
    if (sizes.file_bytes - sizes.used_bytes >= threshold)
        api_defragment(s->clients.api);
    else
        log_info(s->logger, "Skipping defragmentation",
                 LOG_U64("current-db-size-bytes", sizes.file_bytes),
                 LOG_U64("current-db-size-in-use-bytes", sizes.used_bytes),
                 LOG_U64("bootstrap-defrag-threshold-bytes", threshold));
}

static void begin_serving(struct server *s)
{
    s->skip_ticks_until_ms = s->config->initial_tick_advance ? s->facts.now_ms + SKIP_TICKS_MS : 0;
    s->tick_timer.on_time = tick_is_due;
    s->tick_due = true; /* which also sets the timer */
    peering_serve(&s->peering);
    log_info(s->logger, "starting etcd server", LOG_ID("local-member-id", s->facts.member_id),
             LOG_STR("local-server-version", SERVER_VERSION),
             LOG_ID("cluster-id", s->facts.cluster_id),
             LOG_U64("applied-index", s->facts.applied_index));
    say_if_downgrading(s);
    defragment_at_start(s);
}

static void set_going(struct server *s, const struct boot *b)
{
    s->conf_state = b->conf_state;
    s->facts.member_id = b->identity.node_id;
    s->facts.cluster_id = b->identity.cluster_id;
    s->facts.applied_index = b->log.applied;
    s->facts.applied_term = backend_applied(s->state.backend).term;
    s->facts.election_ms = s->config->election_ms;
    s->facts.heartbeat_ms = s->config->heartbeat_ms;
    s->facts.now_ms = server_now_ms(s);
    s->facts.is_learner = cluster_is_own_learner(s->state.cluster);
    open_parts(s, b);
    /* One without a log has nothing that could differ. */
    s->is_checking = b->has_log && gates_initial_corrupt_check(s->config->gates);
    if (s->is_checking)
        corruption_begin_initial(&s->corruption);
    else
        begin_serving(s);
    server_come_back(s);
}

/* Who the others are; before the first entries are applied, only the flags know. */
static void open_peering(struct server *s, const struct boot *b)
{
    size_t count;

    if (!s->peering.peers)
        peering_open(&s->peering, b->identity.node_id, b->identity.cluster_id, rng_next(&s->rng));
    const uint64_t *removed = cluster_removed(s->state.cluster, &count);
    peering_set_removed(&s->peering, removed, count);
    if (b->founds || b->joins) {
        peering_set_members(&s->peering, b->initial.members, b->initial.count);
        return;
    }
    const struct pb_member *members = cluster_members(s->state.cluster, &count);
    peering_set_members(&s->peering, members, count);
}

/* The only thing that is said while it is waited for. */
static void say_no_space(struct server *s)
{
    uint64_t left = 0;
    const char *dir = s->config->data_dir;

    if (disk_space(s->io->disk, dir, &left) != ERR_OK)
        left = 0; /* there is no such directory yet, and no space for it */
    log_error(s->logger,
              "no space left on the disk; the member waits until there is some, and tries to start "
              "again every second",
              LOG_STR("data-dir", dir), LOG_U64("bytes-left", left),
              LOG_STR("error", buf_str(s->boot->why)));
}

/* Nothing is served meanwhile, but there is nobody to start the member again who would know when.
 */
static void await_space(struct server *s)
{
    if (!s->awaits_space)
        say_no_space(s);
    s->awaits_space = true;
    buf_clear(&s->why);
    s->boot->why = &s->why; /* the caller's is gone by then */
    boot_undo(s->boot);
    s->tick_timer.on_time = tick_is_due;
    s->tick_due = false;
    timer_start(s->io->clock, &s->tick_timer, SPACE_RETRY_MS * NS_PER_MS);
}

/* The boot ends here, well or not, unless there is no space: then it has been undone. */
static enum err open_rest(struct server *s)
{
    struct boot *b = s->boot;
    enum err e = boot_disk(b);

    if (e == ERR_NO_SPACE && b->may_wait) {
        await_space(s);
        return ERR_OK;
    }
    if (e == ERR_OK && s->awaits_space)
        log_info(s->logger, "there is space on the disk again",
                 LOG_STR("data-dir", s->config->data_dir));
    s->awaits_space = false;
    if (e == ERR_OK) {
        receiving_clean(s->io->disk, s->snap_dir, s->logger);
        boot_raft(b, s);
        boot_check(b);
        open_peering(s, b);
        clients_open(&s->clients, &s->state, s->io->entropy, &s->facts, s->map_seed,
                     rng_next(&s->rng));
        set_going(s, b);
    }
    boot_free(b);
    mem_free(b);
    s->boot = NULL;
    return e;
}

static void found_with_others(struct server *s)
{
    struct boot *b = s->boot;

    peering_open(&s->peering, b->identity.node_id, b->identity.cluster_id, rng_next(&s->rng));
    founding_start(&s->founding, &(struct founding_options){.io = s->io,
                                                            .logger = s->logger,
                                                            .config = s->config,
                                                            .initial = &b->initial,
                                                            .peers = s->peering.peers,
                                                            .why = &s->why});
    b->why = &s->why; /* the caller's is gone by then */
    server_come_back(s);
}

/* The initial cluster will have the ids that the others tell. */
static void join_others(struct server *s)
{
    struct boot *b = s->boot;

    peering_open(&s->peering, RAFT_NONE, 0, rng_next(&s->rng));
    joining_start(&s->joining, &(struct joining_options){.io = s->io,
                                                         .logger = s->logger,
                                                         .config = s->config,
                                                         .initial = &b->initial,
                                                         .peers = s->peering.peers,
                                                         .why = &s->why});
    b->why = &s->why;
    server_come_back(s);
}

static enum err open_all(struct server *s, struct buf *why)
{
    struct peering_options peering = {.io = s->io, .config = s->config, .logger = s->logger};

    say_how_we_start(s);
    enum err e = token_keys_open(s->config, s->io->disk, s->map_seed, why, &s->tokens);
    s->boot = mem_new(struct boot);
    boot_init(s->boot, s, why);
    if (e == ERR_OK)
        e = peering_listen(&s->peering, &peering, why);
    if (e == ERR_OK)
        e = clients_listen(&s->clients, s->io, s->config, s->logger, s->map_seed,
                           s->options.line_delay_turns_max, why);
    if (e == ERR_OK)
        e = boot_look(s->boot);
    if (e != ERR_OK)
        return e;
    if (s->boot->joins)
        join_others(s);
    else if (s->boot->has_log || !founding_is_needed(&s->boot->initial, s->config))
        return open_rest(s);
    else
        found_with_others(s);
    return ERR_OK;
}

/* --- founding or joining, in turns --- */

/* etcd would not have answered yet. */
static void turn_away(struct server *s, const struct peer_event *e)
{
    if (e->kind == PEER_REQUEST || e->kind == PEER_SNAPSHOT_BEGIN)
        peers_respond(s->peering.peers, e->id,
                      &(struct peer_response){.status = 503,
                                              .content_type = "text/plain; charset=utf-8",
                                              .body = BYTES("etcdserver: not started yet\n")});
}

static void hear_while_founding(struct server *s)
{
    struct peer_event e;

    while (s->peering.peers && peers_take(s->peering.peers, &e)) {
        if (e.kind == PEER_RESULT && s->boot->joins)
            joining_result(&s->joining, &e);
        else if (e.kind == PEER_RESULT)
            founding_result(&s->founding, &e);
        else
            turn_away(s, &e);
        peer_event_free(&e);
    }
}

/* There may be a log since the last time, or none any more. */
static enum err try_again(struct server *s)
{
    if (!s->tick_due)
        return ERR_OK;
    enum err e = boot_look(s->boot);

    return e == ERR_OK ? open_rest(s) : e;
}

/* True: it is over. */
static bool join_some(struct server *s, enum err *e)
{
    if (!joining_work(&s->joining))
        return false;
    *e = s->joining.err;
    if (*e != ERR_OK)
        return true;
    boot_identify(s->boot);
    peering_identify(&s->peering, s->boot->identity.node_id, s->boot->identity.cluster_id);
    return true;
}

static bool found_some(struct server *s, enum err *e)
{
    bool is_over = founding_work(&s->founding);

    *e = s->founding.err;
    return is_over;
}

bool server_found_some(struct server *s)
{
    enum err e = ERR_OK;

    hear_while_founding(s);
    bool is_over = !s->is_stopping && !s->awaits_space &&
                   (s->boot->joins ? join_some(s, &e) : found_some(s, &e));
    if (!s->is_stopping && s->awaits_space)
        e = try_again(s);
    else if (is_over && e == ERR_OK)
        e = open_rest(s);
    if (e != ERR_OK)
        server_fail(s, "%s", s->why.len > 0 ? buf_str(&s->why) : err_text(e));
    if (s->peering.peers)
        peers_flush(s->peering.peers);
    return !s->boot && !s->failed;
}

/* --- the check before it serves, in turns --- */

/*
 * Others that start at the same time ask us the same, and are told: were they turned away, members
 * that are all started at once would compare nothing. (In etcd they would not be heard, and wait in
 * vain.) Raft's messages are dropped: they come again. That this member was removed is told once,
 * and must not be.
 */
static void hear_while_checking(struct server *s)
{
    struct peer_event e;

    while (peers_take(s->peering.peers, &e)) {
        if (e.kind == PEER_RESULT)
            corruption_result(&s->corruption, &e);
        else if (e.kind == PEER_REQUEST && bytes_equal(e.path, BYTES("/members/hashkv")))
            peer_requests_hear(&s->peer_requests, &e);
        else if (e.kind == PEER_REMOVED)
            server_leave_later(s);
        else
            turn_away(s, &e);
        peer_event_free(&e);
    }
}

static void refuse_to_serve(struct server *s)
{
    struct buf why = {0};

    buf_printf(&why, "%llx found data inconsistency with peers",
               (unsigned long long)s->facts.member_id);
    log_error(s->logger, "checkInitialHashKV failed", LOG_STR("error", buf_str(&why)));
    server_fail(s, "%s", buf_str(&why));
    buf_free(&why);
}

static void end_checking(struct server *s)
{
    s->is_checking = false;
    if (corruption_differs(&s->corruption))
        refuse_to_serve(s);
    else
        begin_serving(s);
}

/* The store goes on with what it was doing before: hashes wait for large deletes to be settled. */
bool server_check_some(struct server *s)
{
    s->facts.now_ms = server_now_ms(s);
    hear_while_checking(s);
    bool more = housekeeping_work(&s->housekeeping);
    if (!peer_requests_work(&s->peer_requests, MVCC_SLICE_STEPS))
        more = true;
    if (!corruption_work(&s->corruption, MVCC_SLICE_STEPS))
        more = true;
    peers_flush(s->peering.peers);
    if (corruption_is_idle(&s->corruption) || s->is_stopping)
        end_checking(s);
    else if (more)
        server_come_back(s);
    return !s->is_checking && !s->failed;
}

/* --- ending --- */

/* What a crash leaves is freed without a word to the disk; what a boot was refused with may be
 * anything that was open by then. */
static void server_free(struct server *s, bool crashed)
{
    if (crashed)
        clients_abandon(&s->clients);
    else
        clients_close(&s->clients);
    peer_requests_free(&s->peer_requests);
    pending_free(&s->pending);
    forwarding_free(&s->forwarding);
    storage_work_free(&s->work);
    raft_close(s->raft);
    own_image_free(&s->own_image);
    sending_free(&s->sending);
    backups_free(&s->backups);
    cutting_free(&s->cutting);
    receiving_free(&s->receiving);
    hashing_free(&s->hashing);
    warming_free(&s->warming);
    passwords_free(&s->passwords);
    corruption_free(&s->corruption);
    auto_compaction_free(&s->auto_compaction);
    install_free(&s->install);
    state_close(&s->state);
    auth_tokens_close(s->tokens);
    if (crashed && s->wal)
        wal_abandon(s->wal);
    else
        wal_close(s->wal);
    if (crashed) /* after the log: reads of it for others may have been under way */
        peering_abandon(&s->peering);
    else
        peering_close(&s->peering);
    backend_close(s->state.backend);
    log_snapshot_free(&s->snapshot);
    founding_free(&s->founding);
    joining_free(&s->joining);
    if (s->boot)
        boot_free(s->boot);
    mem_free(s->boot);
    mem_free(s->snap_dir);
    mem_free(s->store_dir);
    buf_free(&s->why);
    metrics_close(s->metrics);
    mem_free(s);
}

enum err server_open(const struct server_options *options, struct buf *why, struct server **out)
{
    struct server *s = new_server(options);
    enum err e = open_all(s, why);

    if (e != ERR_OK) {
        server_free(s, false);
        return e;
    }
    *out = s;
    return ERR_OK;
}

void server_close(struct server *s)
{
    if (!s)
        return;
    assert(server_has_stopped(s));
    timer_stop(s->io->clock, &s->tick_timer);
    housekeeping_stop(&s->housekeeping);
    corruption_stop(&s->corruption);
    auto_compaction_stop(&s->auto_compaction);
    warming_stop(&s->warming);
    log_info(s->logger, "closed etcd server", LOG_NS("longest-turn", (int64_t)s->longest_turn_ns),
             LOG_NS("longest-turn-cpu", (int64_t)s->longest_busy_ns), LOG_U64("turns", s->turns),
             LOG_U64("slow-turns", s->slow_turns));
    server_free(s, false);
}

void server_abandon(struct server *s)
{
    if (!s)
        return;
    server_free(s, true);
}

/* --- looking --- */

/*
 * By what was written, not by what raft knows of it. It believes a snapshot at once, while its
 * record may not be in the log yet; and a term that has come meanwhile makes it deaf to the end of
 * a write, which is durable all the same. An entry that the log still has stands for all before it.
 */
static uint64_t log_durable(const struct server *s, const struct raft_status *raft)
{
    uint64_t written = s->work.durable_index, term;

    if (raft_term_at(s->raft, written, &term) && term == s->work.durable_term)
        return written;
    return written < raft->stable_index ? written : raft->stable_index;
}

void server_store_is_cold(struct server *s)
{
    if (s->warming.mvcc && !s->failed)
        warming_chill(&s->warming);
}

uint64_t server_warmups(const struct server *s)
{
    return s->warming.warmups;
}

struct server_status server_status(const struct server *s)
{
    if (!s->raft)
        return (struct server_status){.turns = s->turns,
                                      .awaits_space = s->awaits_space}; /* being founded */
    struct raft_status raft = raft_status(s->raft);

    return (struct server_status){
        .member_id = s->facts.member_id,
        .cluster_id = s->facts.cluster_id,
        .leader = raft.soft_state.lead,
        .term = raft.hard_state.term,
        .committed = raft.hard_state.commit,
        .applied = s->facts.applied_index,
        .durable_store = backend_durable(s->state.backend).index,
        .log_base = raft.base_index,
        .log_last = raft.last_index,
        .log_durable = log_durable(s, &raft),
        .vote = raft.hard_state.vote,
        .is_leader = raft.soft_state.role == RAFT_LEADER,
        .revision = mvcc_revision(s->state.mvcc),
        .compact_revision = mvcc_compact_revision(s->state.mvcc),
        .turns = s->turns,
        .longest_turn_ns = s->longest_turn_ns,
        .longest_busy_ns = s->longest_busy_ns,
        .waiting = pending_count(&s->pending),
        .log_pending_bytes = wal_pending_bytes(s->wal),
        .store_pending_bytes = backend_pending_bytes(s->state.backend),
        .unapplied_bytes = raft.unapplied_bytes,
        .reply_bytes_most = rpc_line_status(s->clients.line).reply_bytes_most,
        .ready = housekeeping_is_published(&s->housekeeping),
    };
}

bool server_install_own_image(struct server *s, uint64_t ahead)
{
    if (s->failed || s->is_stopping || !own_image_ask(&s->own_image, ahead, server_now_ms(s)))
        return false;
    server_come_back(s);
    return true;
}

uint64_t server_received(const struct server *s)
{
    return s->receiving.count;
}

uint64_t server_installed(const struct server *s)
{
    return s->install.count;
}

bool server_term_at(const struct server *s, uint64_t index, uint64_t *out)
{
    return raft_term_at(s->raft, index, out);
}

bool server_members(const struct server *s, const struct cluster **table,
                    struct raft_conf_state *conf)
{
    if (!s->raft || s->failed)
        return false;
    *table = s->state.cluster;
    raft_conf_state(s->raft, conf);
    return true;
}

const struct auth *server_auth(const struct server *s)
{
    return s->raft && !s->failed ? s->state.auth : NULL;
}

bool server_digest(const struct server *s, struct digest *out)
{
    if (!s->raft || s->failed || !digest_take(&s->state, out))
        return false;
    assert(out->applied == s->facts.applied_index);
    return true;
}

uint16_t server_client_port(const struct server *s, size_t nth)
{
    return clients_port(&s->clients, nth);
}

void server_check(const struct server *s)
{
    peering_check(&s->peering);
    if (!s->raft)
        return;
    raft_check(s->raft);
    wal_check(s->wal);
    state_check(&s->state);
    clients_check(&s->clients);
    pending_check(&s->pending);
    peer_requests_check(&s->peer_requests);
    forwarding_check(&s->forwarding);
    backups_check(&s->backups);
    storage_work_check(&s->work);
    assert(s->work.applied_index == s->facts.applied_index);
    struct raft_status raft = raft_status(s->raft);
    log_snapshot_check(&s->snapshot);
    install_check(&s->install);
    cutting_check(&s->cutting);
    receiving_check(&s->receiving);
    sending_check(&s->sending);
    assert(s->facts.applied_index <= s->install.apply_up_to);
    housekeeping_check(&s->housekeeping);
    corruption_check(&s->corruption);
    auto_compaction_check(&s->auto_compaction);
    assert(s->snapshot.recorded_index <= backend_durable(s->state.backend).index);
    assert(s->snapshot.mark.index <= s->facts.applied_index);
    assert(backend_durable(s->state.backend).index <= s->facts.applied_index);
    assert(s->facts.applied_index == raft.applied);
    assert(raft.applied <= raft.hard_state.commit);
}
