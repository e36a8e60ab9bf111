#include "server/receiving.h"

#include "base/list.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "peer/peer.h"
#include "raft/raft.h"
#include "server/boot.h"
#include "server/server_int.h"
#include "snap/db.h"
#include "snap/snapfile.h"

#include <inttypes.h>

void receiving_init(struct receiving *r, const struct receiving_options *options)
{
    *r = (struct receiving){.o = *options};
}

static void forget_post(struct receiving_post *p)
{
    raft_message_free(p->message);
    *p = (struct receiving_post){0};
}

/* The rooms and the store, as far as they are open. On disk the image stays. */
static void close_image(struct receiving *r)
{
    state_close(&r->image);
    backend_close(r->image.backend);
    r->image = (struct state){0};
}

/* Back to nothing, but for the post that comes next. */
static void forget(struct receiving *r)
{
    forget_post(&r->now);
    mem_free(r->path);
    mem_free(r->db_path);
    buf_free(&r->gathered);
    buf_free(&r->being_written);
    buf_free(&r->why);
    r->path = r->db_path = NULL;
    r->file = NULL;
    r->bytes = r->spaced_bytes = 0;
    r->is_beyond_us = r->is_unsynced = false;
    r->step = RECEIVING_IDLE;
}

void receiving_free(struct receiving *r)
{
    close_image(r);
    forget(r);
    forget_post(&r->next);
}

/* --- what is said --- */

static const struct raft_snapshot *snapshot_of(const struct receiving_post *p)
{
    return p->message->snapshot;
}

static void respond(struct receiving *r, struct receiving_post *p, unsigned status,
                    const char *text)
{
    struct buf body = {0};

    if (p->is_answered)
        return;
    if (text)
        buf_printf(&body, "%s\n", text);
    peers_respond(r->o.peers, p->id,
                  &(struct peer_response){.status = status,
                                          .content_type = text ? "text/plain; charset=utf-8" : NULL,
                                          .body = buf_bytes(&body),
                                          .with_cluster_id = true});
    p->is_answered = true;
    buf_free(&body);
}

/* As etcd has it, whatever the reason. */
static void refuse(struct receiving *r, struct receiving_post *p, const char *why)
{
    struct buf text = {0};

    log_warn(r->o.logger, "failed to save incoming database snapshot",
             LOG_ID("local-member-id", r->o.member_id),
             LOG_ID("remote-snapshot-sender-id", p->message->from),
             LOG_U64("incoming-snapshot-index", snapshot_of(p)->index), LOG_STR("error", why));
    buf_printf(&text, "failed to save KV snapshot (%s)", why);
    respond(r, p, 500, buf_str(&text));
    buf_free(&text);
}

static void say_it_is_here(const struct receiving *r, uint64_t now_ms)
{
    struct buf size = {0};

    text_append_size(&size, r->bytes);
    log_info(r->o.logger, "received and saved database snapshot",
             LOG_ID("local-member-id", r->o.member_id),
             LOG_ID("remote-snapshot-sender-id", r->now.message->from),
             LOG_U64("incoming-snapshot-index", snapshot_of(&r->now)->index),
             LOG_U64("incoming-snapshot-size-bytes", r->bytes),
             LOG_STR("incoming-snapshot-size", buf_str(&size)),
             LOG_NS("download-took", (int64_t)((now_ms - r->began_ms) * NS_PER_MS)));
    buf_free(&size);
}

/* --- the end of one --- */

/* Of a file that is nobody's truth: if it cannot be removed now, the next boot does. */
static void remove_file(struct disk *disk, const char *path)
{
    enum err e = disk_remove(disk, path);

    (void)e;
}

static void close_file(struct receiving *r)
{
    enum err e = r->file ? disk_close(r->o.disk, r->file) : ERR_OK;

    (void)e; /* whatever is not in the file is missed when it is read */
    r->file = NULL;
}

/* On a worker. To free the index of a million keys takes longer than a turn may. */
static void remove_rest(struct receiving *r)
{
    close_file(r);
    remove_file(r->o.disk, r->path);
    remove_file(r->o.disk, r->db_path);
    close_image(r);
    if (r->has_image && backend_image_remove(&r->store) == ERR_OK)
        r->has_image = false;
}

static void run_ending(struct job *j)
{
    remove_rest(container_of(j, struct receiving, job));
}

static void job_is_done(struct job *j)
{
    container_of(j, struct receiving, job)->is_done = true;
}

static void submit(struct receiving *r, enum receiving_step step, void (*run)(struct job *j))
{
    r->step = step;
    r->is_done = false;
    r->job = (struct job){.run = run, .on_done = job_is_done};
    job_submit(r->o.workers, &r->job);
}

static void end(struct receiving *r)
{
    submit(r, RECEIVING_ENDING, run_ending);
}

/* Disk or worker may have it in hand: what is left goes when they are done. */
static void give_up(struct receiving *r, const char *why)
{
    refuse(r, &r->now, why);
    atomic_store_explicit(&r->is_canceled, true, memory_order_relaxed);
}

static bool is_canceled(const struct receiving *r)
{
    return atomic_load_explicit(&r->is_canceled, memory_order_relaxed);
}

/* --- the file --- */

static void op_is_done(struct disk_op *op)
{
    struct receiving *r = container_of(op, struct receiving, op);

    r->is_writing = false;
    r->has_written = true;
}

static void submit_op(struct receiving *r, const struct disk_op *op)
{
    assert(!r->is_writing);

    r->op = *op;
    r->op.on_done = op_is_done;
    r->is_writing = true;
    disk_submit(r->o.disk, DISK_OTHER, &r->op);
}

static char *path_in(const char *dir, const char *begin, uint64_t number, const char *end)
{
    struct buf path = {0};

    buf_printf(&path, "%s/%s%016" PRIx64 "%s", dir, begin, number, end);
    buf_append_byte(&path, 0);
    return (char *)path.at;
}

static void ask_space(struct receiving *r)
{
    r->spaced_bytes = r->bytes;
    submit_op(r, &(struct disk_op){.kind = DISK_SPACE, .path = r->o.snap_dir});
}

/*
 * What is still to come of the file, and the store. Values of 1000 bytes take a quarter more in our
 * pages than in etcd's; those of somewhat more than half a page take twice as much, but to count on
 * that would turn away most of those who have enough.
 */
static uint64_t space_needed(const struct receiving *r)
{
    uint64_t announced = r->now.image_bytes;
    uint64_t all = announced == UINT64_MAX || announced < r->bytes ? r->bytes : announced;

    return all > UINT64_MAX / 4 ? UINT64_MAX : all - r->bytes + all + all / 2;
}

/* If nobody can say how much there is, writing will tell. */
static void spaced(struct receiving *r)
{
    struct buf why = {0};
    uint64_t needed = space_needed(r);

    if (r->op.err == ERR_OK && r->op.size < needed && !is_canceled(r)) {
        buf_printf(&why,
                   "%s: %" PRIu64 " bytes of space are needed for it and its store, and there are "
                   "%" PRIu64,
                   r->o.snap_dir, needed, r->op.size);
        give_up(r, buf_str(&why));
    }
    buf_free(&why);
}

static void start(struct receiving *r, const struct receiving_post *post, uint64_t now_ms)
{
    assert(r->step == RECEIVING_IDLE);

    r->now = *post;
    r->began_ms = now_ms;
    atomic_store_explicit(&r->is_canceled, false, memory_order_relaxed);
    r->path = path_in(r->o.snap_dir, "tmp", post->id, "");
    r->db_path = path_in(r->o.snap_dir, "", snapshot_of(post)->index, ".snap.db");
    r->step = RECEIVING_OPENING;
    ask_space(r);
}

static void fail_op(struct receiving *r, const char *what)
{
    struct buf why = {0};

    buf_printf(&why, "%s %s: %s", what, r->path, err_text(r->op.err));
    if (!is_canceled(r))
        give_up(r, buf_str(&why));
    buf_free(&why);
}

static void open_file(struct receiving *r)
{
    submit_op(
        r, &(struct disk_op){
               .kind = DISK_OPEN, .path = r->path, .flags = DISK_CREATE | DISK_CUT, .mode = 0600});
}

static void opened(struct receiving *r)
{
    r->step = RECEIVING_BYTES;
    if (r->op.err != ERR_OK) {
        fail_op(r, "open");
        return;
    }
    r->file = r->op.file;
    if (!is_canceled(r))
        peers_snapshot_grant(r->o.peers, r->now.id, RECEIVING_WINDOW_BYTES);
}

/* As much again may come as is in the file now. */
static void wrote(struct receiving *r)
{
    if (r->op.err != ERR_OK) {
        fail_op(r, "write");
        return;
    }
    r->bytes += r->being_written.len;
    if (!is_canceled(r))
        peers_snapshot_grant(r->o.peers, r->now.id, r->being_written.len);
    buf_clear(&r->being_written);
}

static void write_some(struct receiving *r)
{
    if (r->step != RECEIVING_BYTES || r->is_writing || r->has_written || r->gathered.len == 0)
        return;
    struct buf full = r->gathered;
    r->gathered = r->being_written;
    r->being_written = full;
    r->piece = buf_bytes(&r->being_written);
    submit_op(r, &(struct disk_op){.kind = DISK_WRITE,
                                   .file = r->file,
                                   .offset = r->bytes,
                                   .pieces = &r->piece,
                                   .piece_count = 1});
}

/* The op was for this. */
static void look_at_op(struct receiving *r)
{
    r->has_written = false;
    if (r->op.kind == DISK_SPACE)
        spaced(r);
    else if (r->op.kind == DISK_OPEN)
        opened(r);
    else
        wrote(r);
}

static bool is_all_written(const struct receiving *r)
{
    return r->now.has_ended && r->gathered.len == 0;
}

/* Once more at the end: what is needed from then on is known, whatever the sender has said. */
static bool is_space_due(const struct receiving *r)
{
    uint64_t more = r->bytes - r->spaced_bytes;

    return more >= RECEIVING_SPACE_BYTES || (more > 0 && is_all_written(r));
}

static void go_on_with_file(struct receiving *r, uint64_t now_ms)
{
    if (r->is_writing)
        return;
    if (r->has_written)
        look_at_op(r);
    if (is_canceled(r)) {
        end(r);
        return;
    }
    if (r->step == RECEIVING_OPENING)
        open_file(r);
    else if (is_space_due(r))
        ask_space(r);
    else
        write_some(r);
    if (!r->is_writing && is_all_written(r)) {
        say_it_is_here(r, now_ms);
        histogram_observe(&r->saves, HISTOGRAM_100MS_10, (now_ms - r->began_ms) * NS_PER_MS);
        r->step = RECEIVING_WHOLE;
    }
}

/* --- the image, on a worker --- */

static void note_why(void *context, const char *text)
{
    buf_append_str(context, text);
}

static bool has_same_ids(const struct raft_ids *a, const struct raft_ids *b)
{
    size_t found = 0;

    for (size_t i = 0; i < a->count; i++)
        for (size_t j = 0; j < b->count; j++)
            found += a->at[i] == b->at[j];
    return a->count == b->count && found == a->count;
}

/*
 * Raft takes its configuration from the message, and everybody else from the table of members, at
 * the next boot raft as well. If they differ, this member would count other votes than the others
 * do. (etcd has no joint configurations, so that an image has no place for one.)
 */
static enum err check_members(struct receiving *r)
{
    const struct raft_conf_state *told = &snapshot_of(&r->now)->conf_state;
    struct raft_conf_state has;

    cluster_conf_state(r->image.cluster, &has);
    if (has_same_ids(&told->voters, &has.voters) && has_same_ids(&told->learners, &has.learners) &&
        told->voters_outgoing.count == 0 && told->learners_next.count == 0)
        return ERR_OK;
    db_say(&r->why, r->db_path, "its members are not those of the snapshot's configuration");
    return ERR_CORRUPT;
}

static enum err check_position(struct receiving *r, struct backend_position has)
{
    const struct raft_snapshot *told = snapshot_of(&r->now);

    if (has.index == told->index && has.term == told->term)
        return ERR_OK;
    db_say(&r->why, r->db_path,
           "its consistent index %" PRIu64 " and term %" PRIu64 " are not the snapshot's, %" PRIu64
           " and %" PRIu64,
           has.index, has.term, told->index, told->term);
    return ERR_CORRUPT;
}

static enum err copy_store(struct receiving *r, struct db *db)
{
    struct db_copied copied;

    r->has_image = true;
    enum err e = backend_image_create(&r->store, &r->image.backend);
    if (e == ERR_OK)
        e = db_copy(db, r->image.backend, "the image", &copied);
    if (e != ERR_OK)
        return e;
    e = backend_image_filled(r->image.backend);
    if (e != ERR_OK)
        db_say(&r->why, "the image", "%s", backend_failure(r->image.backend));
    return e;
}

/* Nothing is made before the whole file is known to be sound. */
static enum err read_db(struct receiving *r)
{
    struct db db = {0};
    enum err e = db_open(&db, &(struct db_options){.disk = r->o.disk,
                                                   .path = r->db_path,
                                                   .kind = BOLT_IMAGE,
                                                   .is_canceled = &r->is_canceled,
                                                   .why = &r->why});

    if (e == ERR_OK)
        e = check_position(r, db.position);
    if (e == ERR_OK)
        e = db_check(&db);
    if (e == ERR_OK)
        e = copy_store(r, &db);
    db_close(&db);
    return e;
}

static enum err open_rooms(struct receiving *r)
{
    enum err e = state_open(&r->image, &r->rooms, &r->why);

    r->is_beyond_us = e == ERR_UNSUPPORTED;
    if (e == ERR_OK)
        e = check_members(r);
    if (e == ERR_OK && r->why.len > 0)
        e = ERR_CORRUPT; /* a room has found out that it can go no further */
    if (e != ERR_OK)
        return e;
    uint64_t began_ns = job_now_ns(&r->job);
    e = backend_commit_now(r->image.backend); /* what the rooms have put right */
    r->sync_ns = job_now_ns(&r->job) - began_ns;
    if (e != ERR_OK)
        db_say(&r->why, "the image", "cannot commit: %s", backend_failure(r->image.backend));
    return e;
}

/* Before raft hears of it: its record, which must not come before the file, has to be in the log at
 * once then, or what raft hands out next would be recorded before it. If raft does not take it, the
 * file tells of something committed all the same. */
static enum err save_snapfile(struct receiving *r)
{
    struct raft_snapshot snapshot;
    struct arena arena = {0};

    install_describe(&r->image, &arena, &snapshot);
    enum err e = snapfile_save(r->o.disk, r->o.snap_dir, &snapshot);
    r->is_unsynced = e == ERR_SYNC;
    if (e != ERR_OK)
        db_say(&r->why, r->o.snap_dir, "cannot save the snapshot file: %s", err_text(e));
    arena_free(&arena);
    return e;
}

static enum err build(struct receiving *r)
{
    close_file(r);
    enum err e = disk_rename(r->o.disk, r->path, r->db_path);

    if (e != ERR_OK)
        db_say(&r->why, r->path, "cannot rename: %s", err_text(e));
    if (e == ERR_OK)
        e = read_db(r);
    if (e == ERR_OK)
        e = open_rooms(r);
    if (e == ERR_OK)
        e = save_snapfile(r);
    return e;
}

static void run_build(struct job *j)
{
    struct receiving *r = container_of(j, struct receiving, job);
    enum err e = build(r);

    if (e == ERR_OK) {
        remove_file(r->o.disk, r->db_path);
        return;
    }
    if (r->why.len == 0)
        buf_append_str(&r->why, err_text(e));
    remove_rest(r);
}

/* There is one place for an image beside the store, and it may be taken: by the last one, which is
 * being installed, or by one that a test has asked for. */
static void build_when_possible(struct server *s)
{
    struct receiving *r = &s->receiving;

    if (is_canceled(r)) {
        end(r);
        return;
    }
    if (!install_may_begin(&s->install) || s->own_image.step > OWN_IMAGE_ASKED)
        return;
    r->store = boot_store_options(s);
    r->store.why = &r->why;
    r->rooms = s->state.o;
    r->rooms.on_failed = note_why;
    r->rooms.context = &r->why;
    submit(r, RECEIVING_BUILDING, run_build);
}

/* --- raft --- */

/* Is raft going to take it? Then its log begins with the snapshot. While the image came, an entry
 * may have removed its sender: raft would follow that member again. */
static bool step(struct server *s, struct receiving_post *p)
{
    if (peers_rejects_sender(s->receiving.o.peers, p->message)) {
        respond(&s->receiving, p, 500,
                "failed to process raft message (cannot process message from removed member)");
        return false;
    }
    struct raft_status before = raft_status(s->raft);
    enum raft_result result = raft_step(s->raft, p->message);
    struct buf text = {0};

    if (result == RAFT_OK) {
        respond(&s->receiving, p, 204, NULL);
    } else {
        buf_printf(&text, "failed to process raft message (%s)", raft_result_text(result));
        respond(&s->receiving, p, 500, buf_str(&text));
        buf_free(&text);
    }
    return snapshot_of(p)->index > before.hard_state.commit &&
           raft_status(s->raft).base_index == snapshot_of(p)->index;
}

/*
 * The cluster is in a state that this server cannot execute, as with an entry that it cannot apply:
 * this member ends, and says why. If it only refused, the leader would send it all again at once,
 * ten times a second, for ever. One that is old news is no reason to end.
 */
static void end_if_beyond_us(struct server *s)
{
    struct receiving *r = &s->receiving;
    struct raft_status status = raft_status(s->raft);

    if (r->is_beyond_us && r->now.message->term >= status.hard_state.term &&
        snapshot_of(&r->now)->index > status.hard_state.commit)
        server_fail(s, "cannot go on from the leader's snapshot: %s", buf_str(&r->why));
}

/* Also if the snapshot is not wanted any more: the next one may write to the same file, and a sync
 * that goes well then says nothing of what this one has lost. */
static void end_if_unsynced(struct server *s)
{
    struct receiving *r = &s->receiving;

    if (r->is_unsynced)
        server_fail(s, "cannot keep the leader's snapshot: %s", buf_str(&r->why));
}

static void offer(struct server *s)
{
    struct receiving *r = &s->receiving;

    end_if_unsynced(s);
    if (r->why.len > 0 && !is_canceled(r)) {
        refuse(r, &r->now, buf_str(&r->why));
        end_if_beyond_us(s);
    }
    if (r->why.len > 0 || is_canceled(r)) {
        end(r);
        return;
    }
    if (log_snapshot_is_busy(&s->snapshot))
        return; /* its record must not come after this one's, which is higher */
    if (!step(s, &r->now)) {
        log_info(r->o.logger, "raft has no use for the incoming snapshot any more",
                 LOG_U64("incoming-snapshot-index", snapshot_of(&r->now)->index));
        end(r);
        return;
    }
    r->count++;
    r->step = RECEIVING_OFFERED;
}

struct state receiving_take_image(struct receiving *r, const struct raft_snapshot *snapshot)
{
    struct state image = r->image;

    assert(r->step == RECEIVING_OFFERED);
    assert(snapshot->index == snapshot_of(&r->now)->index);
    assert(snapshot->term == snapshot_of(&r->now)->term);
    assert(backend_durable(image.backend).index == snapshot->index);

    r->image = (struct state){0};
    r->has_image = false;
    forget(r);
    return image;
}

/* --- posts --- */

static bool includes(const struct raft_ids *ids, uint64_t id)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->at[i] == id)
            return true;
    return false;
}

/* The same that raft asks first, in this order: so it is certain to ignore the message. */
static bool is_useless(const struct server *s, const struct raft_message *m)
{
    struct raft_status now = raft_status(s->raft);
    const struct raft_conf_state *c = &m->snapshot->conf_state;

    if (m->term < now.hard_state.term || m->snapshot->index <= now.hard_state.commit)
        return true;
    return !includes(&c->voters, now.id) && !includes(&c->learners, now.id) &&
           !includes(&c->voters_outgoing, now.id);
}

/* The members' dump, which may be long, is read by nobody. */
static struct raft_message *keep_message(const struct raft_message *m)
{
    struct raft_snapshot snapshot = *m->snapshot;
    struct raft_message kept = *m;

    snapshot.data = (struct bytes){0};
    snapshot.blob = NULL;
    kept.snapshot = &snapshot;
    return raft_message_clone(&kept);
}

static bool supersedes(const struct receiving *r, const struct raft_message *m)
{
    const struct raft_message *now = r->now.message;

    if (r->step == RECEIVING_OFFERED)
        return false; /* raft has it already: this one may come again in the next turn */
    if (r->next.message)
        return m->term > r->next.message->term;
    if (r->step == RECEIVING_ENDING || is_canceled(r))
        return true;
    return m->term > now->term || (m->from == now->from && r->step <= RECEIVING_BYTES);
}

static void begin(struct server *s, const struct peer_event *e)
{
    struct receiving *r = &s->receiving;
    struct receiving_post post = {
        .id = e->id, .message = keep_message(e->message), .image_bytes = e->image_bytes};

    if (s->is_stopping) {
        refuse(r, &post, "the server is stopping");
    } else if (is_useless(s, post.message)) {
        step(s, &post);
    } else if (r->step == RECEIVING_IDLE) {
        start(r, &post, s->facts.now_ms);
        return;
    } else if (!supersedes(r, post.message)) {
        refuse(r, &post, "another one is being received");
    } else {
        if (r->next.message)
            refuse(r, &r->next, "another one is of a later term");
        forget_post(&r->next);
        if (!is_canceled(r) && r->step != RECEIVING_ENDING)
            give_up(r, "another one has begun");
        r->next = post;
        return;
    }
    forget_post(&post);
}

static void end_of_body(struct receiving *r, uint64_t id)
{
    if (r->now.message && r->now.id == id)
        r->now.has_ended = true;
    else if (r->next.message && r->next.id == id)
        r->next.has_ended = true;
}

static void gone(struct receiving *r, const struct peer_event *e)
{
    struct buf why = {0};

    buf_printf(&why, "the sender has gone: %.*s", (int)e->body.len, (const char *)e->body.at);
    if (r->next.message && r->next.id == e->id) {
        forget_post(&r->next);
    } else if (r->now.message && r->now.id == e->id) {
        r->now.is_answered = true;
        if (!is_canceled(r) && r->step <= RECEIVING_BYTES)
            give_up(r, buf_str(&why));
    }
    buf_free(&why);
}

void receiving_hear(struct server *s, const struct peer_event *e)
{
    struct receiving *r = &s->receiving;

    if (e->kind == PEER_SNAPSHOT_BEGIN) {
        begin(s, e);
    } else if (e->kind == PEER_SNAPSHOT_BYTES) {
        if (r->now.message && r->now.id == e->id && !is_canceled(r))
            buf_append(&r->gathered, e->body);
        write_some(r);
    } else if (e->kind == PEER_SNAPSHOT_END) {
        end_of_body(r, e->id);
    } else {
        gone(r, e);
    }
    server_come_back(s); /* for receiving_some */
}

void receiving_stop(struct receiving *r)
{
    if (r->next.message)
        refuse(r, &r->next, "the server is stopping");
    forget_post(&r->next);
    if (r->step != RECEIVING_IDLE && r->step != RECEIVING_ENDING && r->step != RECEIVING_OFFERED &&
        !is_canceled(r))
        give_up(r, "the server is stopping");
}

static void ended(struct server *s)
{
    struct receiving *r = &s->receiving;
    struct receiving_post next = r->next;

    forget(r);
    r->next = (struct receiving_post){0};
    if (!next.message)
        return;
    if (!is_useless(s, next.message)) {
        start(r, &next, s->facts.now_ms);
        return;
    }
    step(s, &next);
    forget_post(&next);
}

void receiving_some(struct server *s)
{
    struct receiving *r = &s->receiving;

    if (r->step == RECEIVING_OPENING || r->step == RECEIVING_BYTES)
        go_on_with_file(r, s->facts.now_ms);
    if (r->step == RECEIVING_WHOLE)
        build_when_possible(s);
    if (r->step == RECEIVING_BUILDING && r->is_done) {
        r->step = RECEIVING_BUILT;
        if (r->why.len == 0)
            histogram_observe(&r->syncs, HISTOGRAM_1MS_14, r->sync_ns);
    }
    if (r->step == RECEIVING_BUILT)
        offer(s);
    if (r->step == RECEIVING_ENDING && r->is_done)
        ended(s);
}

/* --- asking --- */

bool receiving_is_idle(const struct receiving *r)
{
    return r->step == RECEIVING_IDLE;
}

bool receiving_has_image(const struct receiving *r)
{
    return r->step >= RECEIVING_BUILDING;
}

bool receiving_is_ready(const struct receiving *r)
{
    return r->step == RECEIVING_BUILT || r->step == RECEIVING_OFFERED;
}

void receiving_check(const struct receiving *r)
{
    assert((r->now.message != NULL) == (r->step != RECEIVING_IDLE));
    assert(!r->next.message || r->step != RECEIVING_IDLE);
    assert(r->gathered.len + r->being_written.len <= RECEIVING_WINDOW_BYTES);
    assert(!r->is_writing || r->step == RECEIVING_OPENING || r->step == RECEIVING_BYTES);
    assert(r->step != RECEIVING_OFFERED); /* raft's output was taken since */
    if (r->step == RECEIVING_BUILT && r->why.len == 0)
        assert(backend_durable(r->image.backend).index == snapshot_of(&r->now)->index);
}

/* --- at boot --- */

static bool is_left_over(struct bytes name)
{
    struct bytes tmp = BYTES("tmp"), db = BYTES(".snap.db");

    return (name.len > tmp.len && memcmp(name.at, tmp.at, tmp.len) == 0) ||
           (name.len == 16 + db.len && memcmp(name.at + 16, db.at, db.len) == 0);
}

void receiving_clean(struct disk *disk, const char *snap_dir, const struct logger *logger)
{
    struct buf names = {0}, path = {0};
    enum err e = disk_list(disk, snap_dir, SNAPFILE_NAMES_BYTES_MAX, &names);
    struct bytes left = buf_bytes(&names);

    for (const char *name; e == ERR_OK && (name = disk_next_name(&left));) {
        if (!is_left_over(bytes_of_str(name)))
            continue;
        buf_clear(&path);
        buf_printf(&path, "%s/%s", snap_dir, name);
        e = disk_remove(disk, buf_str(&path));
        log_info(logger, "removed what was left of an incoming snapshot",
                 LOG_STR("path", buf_str(&path)), LOG_STR("result", err_text(e)));
    }
    if (e != ERR_OK)
        log_warn(logger, "failed to remove temp file(s) in snapshot directory",
                 LOG_STR("path", snap_dir), LOG_STR("error", err_text(e)));
    buf_free(&names);
    buf_free(&path);
}
