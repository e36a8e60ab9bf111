#include "server/sending.h"

#include "base/text.h"
#include "io/clock.h"
#include "peer/peer.h"
#include "raft/raft.h"

void sending_init(struct sending *s, const struct sending_options *options)
{
    *s = (struct sending){.o = *options};
    for (size_t i = 0; i < CUTTING_MEMBERS_MAX; i++)
        s->at[i].sending = s;
}

void sending_free(struct sending *s)
{
    for (size_t i = 0; i < CUTTING_MEMBERS_MAX; i++)
        raft_message_free(s->at[i].message);
}

void sending_offer(struct raft *r, uint64_t index, uint64_t term,
                   const struct raft_conf_state *conf_state)
{
    struct raft_snapshot offer = {.index = index, .term = term, .conf_state = *conf_state};

    raft_set_snapshot(r, &offer);
}

/* --- words --- */

static void say(const struct sending_one *o, enum log_level level, const char *text)
{
    const struct sending *s = o->sending;
    uint64_t took_ms = s->o.facts->now_ms - o->began_ms;
    struct buf size = {0};

    text_append_size(&size, o->bytes);
    struct log_field fields[] = {
        LOG_ID("from", s->o.facts->member_id),
        LOG_ID("to", o->message->to),
        LOG_U64("bytes", o->bytes),
        LOG_BYTES("size", buf_bytes(&size)),
        LOG_NS("took", (int64_t)(took_ms * NS_PER_MS)),
    };
    size_t count = ARRAY_LEN(fields) - (o->step == SENDING_IMAGE); /* as long as nothing took */
    if (s->o.logger->level <= level)
        log_write(s->o.logger, level, LOG_CALLER, text, fields, count);
    buf_free(&size);
}

/* --- beginning and end --- */

static struct sending_one *find_sending(struct sending *s, uint64_t member)
{
    for (size_t i = 0; i < CUTTING_MEMBERS_MAX; i++)
        if (s->at[i].step != SENDING_FREE && s->at[i].message->to == member)
            return &s->at[i];
    return NULL;
}

static struct sending_one *find_free(struct sending *s)
{
    for (size_t i = 0; i < CUTTING_MEMBERS_MAX; i++)
        if (s->at[i].step == SENDING_FREE)
            return &s->at[i];
    return NULL;
}

static void drop_image(struct sending_one *o)
{
    image_close(o->image);
    o->image = NULL;
}

static void end_sending(struct sending_one *o, bool is_sent)
{
    raft_report_snapshot(o->sending->o.raft, o->message->to, is_sent);
    raft_message_free(o->message);
    *o = (struct sending_one){.sending = o->sending};
}

/* Raft would ask again with the next heartbeat. */
static void pause_sending(struct sending_one *o)
{
    drop_image(o);
    cutting_forget(o->sending->o.cutting, &o->request);
    o->step = SENDING_PAUSE;
    o->pause_until_ms = o->sending->o.facts->now_ms + SENDING_PAUSE_MS;
}

static void on_cut(struct cutting_request *r, struct image *image, const char *why)
{
    struct sending_one *o = container_of(r, struct sending_one, request);

    assert(o->step == SENDING_CUTTING);
    if (image) {
        o->image = image;
        o->step = SENDING_IMAGE;
        return;
    }
    log_warn(o->sending->o.logger, "cannot make a snapshot for a member",
             LOG_ID("to", o->message->to), LOG_STR("error", why));
    pause_sending(o);
}

/* Somebody who is being sent one already, or for whom there is no place, is asked for again. */
void sending_ask(struct sending *s, const struct raft_message *m)
{
    struct sending_one *o = find_sending(s, m->to) ? NULL : find_free(s);

    assert(m->type == RAFT_MSG_SNAP);
    if (!o) {
        raft_report_snapshot(s->o.raft, m->to, false);
        return;
    }
    o->step = SENDING_CUTTING;
    o->message = raft_message_clone(m);
    o->request = (struct cutting_request){.on_cut = on_cut, .is_for_member = true};
    cutting_ask(s->o.cutting, &o->request);
}

void sending_result(struct sending *s, uint64_t member, bool is_sent)
{
    struct sending_one *o = find_sending(s, member);

    if (!o || !o->has_begun)
        return;
    o->has_begun = false;
    if (!is_sent) {
        pause_sending(o);
        return;
    }
    drop_image(o); /* a member that has no use for it says so before it has all of it */
    say(o, LOG_INFO, "sent merged snapshot");
    s->keep_log_until_ms = s->o.facts->now_ms + (s->o.log_ms ? s->o.log_ms : SENDING_LOG_MS);
    end_sending(o, true);
}

/* --- bytes --- */

/* The message is raft's, of this term; the snapshot in it is what the image is of. */
static void begin_post(struct sending_one *o)
{
    struct raft_message m = *o->message;

    m.snapshot = image_snapshot(o->image);
    assert(m.snapshot->index >= o->message->snapshot->index);
    o->has_begun = true;
    o->began_ms = o->sending->o.facts->now_ms;
    o->bytes = image_bytes(o->image);
    peers_snapshot_begin(o->sending->o.peers, &m, o->bytes);
    say(o, LOG_INFO, "sending merged snapshot");
}

static void write_some(struct sending_one *o)
{
    struct peers *p = o->sending->o.peers;
    uint64_t to = o->message->to;
    struct bytes some;
    size_t credit;

    while ((credit = peers_snapshot_credit(p, to)) > 0 && image_peek(o->image, &some)) {
        if (some.len > credit)
            some.len = credit;
        peers_snapshot_write(p, to, some);
        image_consume(o->image, some.len);
    }
    if (!image_is_over(o->image))
        return;
    drop_image(o); /* compaction need not wait while it is looked at over there */
    o->step = SENDING_WAITING;
}

/* The post is cut off, if there is one; its failure comes as an event. */
static void give_up(struct sending_one *o)
{
    if (!o->has_begun) {
        pause_sending(o);
        return;
    }
    drop_image(o);
    o->step = SENDING_WAITING;
    peers_snapshot_cancel(o->sending->o.peers, o->message->to);
}

static void image_failed(struct sending_one *o)
{
    if (o->sending->o.facts->is_stopping && o->has_begun)
        say(o, LOG_WARN, "canceled sending merged snapshot; server stopping");
    give_up(o);
}

/* Nobody believes the leader of an earlier term, so what it sends is of no use. */
static bool is_outdated(const struct sending_one *o)
{
    struct raft_status now = raft_status(o->sending->o.raft);

    return now.soft_state.role != RAFT_LEADER || now.hard_state.term != o->message->term;
}

static void work_on_sending(struct sending_one *o)
{
    switch (o->step) {
    case SENDING_CUTTING:
        if (is_outdated(o))
            pause_sending(o);
        return;
    case SENDING_IMAGE:
        if (image_state(o->image) == IMAGE_FAILED) {
            image_failed(o);
        } else if (is_outdated(o)) {
            give_up(o);
        } else if (image_state(o->image) == IMAGE_READY) {
            if (!o->has_begun)
                begin_post(o);
            write_some(o);
        }
        return;
    case SENDING_PAUSE:
        if (o->sending->o.facts->now_ms >= o->pause_until_ms || is_outdated(o))
            end_sending(o, false);
        return;
    case SENDING_FREE:
    case SENDING_WAITING:
        return;
    }
    unreachable();
}

void sending_some(struct sending *s)
{
    for (size_t i = 0; i < CUTTING_MEMBERS_MAX; i++)
        work_on_sending(&s->at[i]);
}

/* --- asking --- */

/* A failed one needs none: the next will be of a later index. */
bool sending_keeps_log(const struct sending *s)
{
    for (size_t i = 0; i < CUTTING_MEMBERS_MAX; i++)
        if (s->at[i].step != SENDING_FREE && s->at[i].step != SENDING_PAUSE)
            return true;
    return s->o.facts->now_ms < s->keep_log_until_ms;
}

void sending_check(const struct sending *s)
{
    for (size_t i = 0; i < CUTTING_MEMBERS_MAX; i++) {
        const struct sending_one *o = &s->at[i];
        assert((o->step == SENDING_FREE) == (o->message == NULL));
        assert((o->step == SENDING_IMAGE) == (o->image != NULL));
        assert(!o->has_begun || o->step == SENDING_IMAGE || o->step == SENDING_WAITING);
        for (size_t n = 0; n < i && o->message; n++)
            assert(!s->at[n].message || s->at[n].message->to != o->message->to);
    }
}
