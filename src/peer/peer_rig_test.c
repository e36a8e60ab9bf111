#include "peer/peer_rig_test.h"

#include "base/limits.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t peer_rig_id(unsigned number)
{
    return number * 0x11;
}

static void keep_line(void *context, struct bytes line)
{
    struct rig_member *m = context;

    buf_append(&m->log, line);
}

static int64_t no_time(void *context)
{
    (void)context;
    return 0;
}

static void on_accept(struct listener *l, struct conn *c)
{
    struct rig_member *m = l->options.context;

    peers_accept(m->peers, c);
}

static struct logger *logger_of(struct rig_member *m)
{
    static struct logger loggers[RIG_MEMBERS_MAX + 1];

    loggers[m->number] = (struct logger){.level = LOG_INFO,
                                         .format = LOG_JSON,
                                         .sink = keep_line,
                                         .sink_context = m,
                                         .clock = no_time,
                                         .clock_context = NULL};
    return &loggers[m->number];
}

void peer_rig_start(struct peer_rig *r, unsigned number)
{
    struct rig_member *m = &r->at[number];
    char address[64];
    struct net_address where;

    CHECK(!m->peers);
    snprintf(address, sizeof(address), "10.0.0.%u:2380", number);
    CHECK_EQ(net_address_parse(address, &where), ERR_OK);
    struct listener_options listening = {.on_accept = on_accept, .limit = &m->limit, .context = m};
    conn_limit_init(&m->limit, PEER_CONNS_MAX);
    m->limit.reserved = PEER_CONNS_RESERVED;
    CHECK_EQ(net_listen(m->io.net, &where, &listening, &m->listener), ERR_OK);
    m->peers = peers_open(&(struct peers_options){.io = &m->io,
                                                  .logger = logger_of(m),
                                                  .self = peer_rig_id(number),
                                                  .cluster_id = RIG_CLUSTER,
                                                  .urls = "http://10.0.0.1:2380",
                                                  .version = "3.7.1",
                                                  .seed = test_seed() + number,
                                                  .heartbeat_ms = 100,
                                                  .election_ms = 1000});
}

void peer_rig_know(struct peer_rig *r, unsigned who, unsigned whom)
{
    char text[64];
    const char *url = text;

    snprintf(text, sizeof(text), "http://10.0.0.%u:2380", whom);
    peers_add(r->at[who].peers, peer_rig_id(whom), &url, 1);
}

struct peer_rig *peer_rig_open(unsigned members)
{
    struct peer_rig *r = mem_new(struct peer_rig);

    r->world = fake_world_new(test_seed());
    r->count = members;
    for (unsigned i = 1; i <= members; i++) {
        char ip[32];
        struct rig_member *m = &r->at[i];

        snprintf(ip, sizeof(ip), "10.0.0.%u", i);
        m->rig = r;
        m->number = i;
        inbox_init(&m->inbox, NULL, NULL);
        fake_clock_init(&m->clock, &r->world->time, &m->inbox);
        fake_resolver_init(&m->resolver, &r->world->time, &m->inbox);
        m->io = (struct io){.inbox = &m->inbox,
                            .clock = &m->clock.base,
                            .net = fake_wire_add_host(r->world->wire, &m->inbox, ip),
                            .resolver = &m->resolver.base};
        peer_rig_start(r, i);
    }
    for (unsigned i = 1; i <= members; i++)
        for (unsigned j = 1; j <= members; j++)
            if (i != j)
                peer_rig_know(r, i, j);
    return r;
}

/* --- what happens --- */

static const char *type_name(enum raft_message_type type)
{
    switch (type) {
    case RAFT_MSG_PROP:
        return "prop";
    case RAFT_MSG_APP:
        return "app";
    case RAFT_MSG_APP_RESP:
        return "app-resp";
    case RAFT_MSG_VOTE:
        return "vote";
    case RAFT_MSG_HEARTBEAT:
        return "heartbeat";
    case RAFT_MSG_PRE_VOTE:
        return "pre-vote";
    default:
        return "other";
    }
}

static void note_message(struct rig_member *m, struct buf *out, const struct raft_message *msg)
{
    if (m->is_silent)
        return;
    buf_printf(out, "%s %" PRIx64 ">%" PRIx64 " term=%" PRIu64, type_name(msg->type), msg->from,
               msg->to, msg->term);
    if (msg->type == RAFT_MSG_APP) {
        buf_printf(out, " at=%" PRIu64 "/%" PRIu64 " commit=%" PRIu64, msg->log_term, msg->index,
                   msg->commit);
        for (size_t i = 0; i < msg->entry_count && i < 4; i++)
            buf_printf(out, " %" PRIu64 "/%" PRIu64 ":%.*s", msg->entries[i].term,
                       msg->entries[i].index,
                       (int)(msg->entries[i].data.len < 8 ? msg->entries[i].data.len : 8),
                       (const char *)msg->entries[i].data.at);
    }
    buf_append_str(out, "\n");
}

static void note_snapshot(struct rig_member *m, const struct peer_event *e)
{
    struct rig_snapshot *s = &m->snapshot;

    if (e->kind != PEER_SNAPSHOT_BEGIN && e->id != s->id) {
        s->of_others++;
        return;
    }
    switch (e->kind) {
    case PEER_SNAPSHOT_BEGIN:
        buf_printf(&s->story, "begin from %" PRIx64 " index=%" PRIu64 " data=%.*s", e->member,
                   e->message->snapshot->index, (int)e->message->snapshot->data.len,
                   (const char *)e->message->snapshot->data.at);
        if (e->image_bytes != UINT64_MAX)
            buf_printf(&s->story, " bytes=%" PRIu64, e->image_bytes);
        buf_append_str(&s->story, "\n");
        s->begun++;
        s->id = e->id;
        s->granted = s->received = 0;
        buf_clear(&s->image);
        break;
    case PEER_SNAPSHOT_BYTES:
        CHECK(e->body.len > 0);
        s->received += e->body.len;
        CHECK(s->received <= s->granted);
        if (!m->is_silent)
            buf_append(&s->image, e->body);
        s->events++;
        break;
    case PEER_SNAPSHOT_END:
        buf_printf(&s->story, "end after %" PRIu64 "\n", s->received);
        s->ended++;
        break;
    case PEER_SNAPSHOT_GONE:
        buf_printf(&s->story, "gone after %" PRIu64 ": %.*s\n", s->received, (int)e->body.len,
                   (const char *)e->body.at);
        s->gone++;
        break;
    default:
        break;
    }
}

static void note(struct rig_member *m, const struct peer_event *e)
{
    switch (e->kind) {
    case PEER_MESSAGE:
        m->heard_count++;
        note_message(m, &m->heard, e->message);
        break;
    case PEER_UNREACHABLE:
        m->unreachable++;
        break;
    case PEER_REMOVED:
        m->removed++;
        break;
    case PEER_REQUEST:
        m->last_request = e->id;
        buf_printf(&m->heard, "request %.*s %.*s body=%.*s cluster=%.*s auth=%.*s\n",
                   (int)e->verb.len, (const char *)e->verb.at, (int)e->path.len,
                   (const char *)e->path.at, (int)e->body.len, (const char *)e->body.at,
                   (int)e->cluster_id.len, (const char *)e->cluster_id.at,
                   (int)e->authorization.len, (const char *)e->authorization.at);
        m->heard_count++;
        break;
    case PEER_RESULT:
        buf_printf(&m->results, "%" PRIu64 " %u %.*s cluster=%" PRIx64 "%s\n", e->id, e->status,
                   (int)e->body.len, (const char *)e->body.at, e->result_cluster_id,
                   e->is_too_large ? " too-large" : "");
        break;
    case PEER_SNAPSHOT_SENT:
        m->snapshot_sent++;
        break;
    case PEER_SNAPSHOT_FAILED:
        m->snapshot_failed++;
        break;
    case PEER_SNAPSHOT_BEGIN:
    case PEER_SNAPSHOT_BYTES:
    case PEER_SNAPSHOT_END:
    case PEER_SNAPSHOT_GONE:
        note_snapshot(m, e);
        break;
    }
}

/* As a server does it: credit for what it has dealt with, and of an image that it sends as much as
 * there is credit for. */
static void move_snapshots(struct rig_member *m)
{
    struct rig_snapshot *s = &m->snapshot;

    if (s->id > 0 && s->window > s->granted - s->received) {
        uint64_t more = s->window - (s->granted - s->received);
        s->granted += more;
        peers_snapshot_grant(m->peers, s->id, more);
    }
    for (size_t credit; (credit = peers_snapshot_credit(m->peers, s->to)) > 0;) {
        size_t now = s->piece > 0 && s->piece < credit ? s->piece : credit;
        if (s->stops_at > 0 && now > s->stops_at - s->handed_in)
            now = s->stops_at - s->handed_in;
        if (now == 0)
            break;
        peers_snapshot_write(m->peers, s->to, bytes_of(s->source.at + s->handed_in, now));
        s->handed_in += now;
    }
}

static void take_turns(struct peer_rig *r)
{
    for (unsigned i = 1; i <= r->count; i++) {
        struct rig_member *m = &r->at[i];
        struct peer_event e;

        if (!m->peers)
            continue;
        peers_check(m->peers);
        while (!m->takes_nothing && peers_take(m->peers, &e)) {
            note(m, &e);
            peer_event_free(&e);
        }
        while (!m->takes_no_appends && peers_take_append(m->peers, &e)) {
            m->append_count++;
            for (size_t k = 0; k < e.message->entry_count; k++)
                m->append_bytes += e.message->entries[k].data.len;
            note_message(m, &m->appends, e.message);
            peer_event_free(&e);
        }
        move_snapshots(m);
        peers_flush(m->peers);
    }
}

static void step(struct peer_rig *r)
{
    size_t ran = 0;

    for (unsigned i = 1; i <= r->count; i++)
        ran += inbox_drain(&r->at[i].inbox, 1);
    if (ran == 0)
        CHECK(fake_world_step(r->world));
    take_turns(r);
}

void peer_rig_run_ms(struct peer_rig *r, uint64_t ms)
{
    uint64_t end = r->world->time.now_ns + ms * NS_PER_MS;

    take_turns(r);
    while (r->world->time.now_ns < end)
        step(r);
}

static const uint64_t PATIENCE_NS = 60 * NS_PER_S;

void peer_rig_until(struct peer_rig *r, const size_t *count, size_t want)
{
    uint64_t end = r->world->time.now_ns + PATIENCE_NS;

    take_turns(r);
    while (*count < want) {
        CHECK(r->world->time.now_ns < end);
        step(r);
    }
}

void peer_rig_until_streams(struct peer_rig *r, unsigned who, unsigned whom, uint64_t streams)
{
    uint64_t end = r->world->time.now_ns + PATIENCE_NS;

    for (;;) {
        struct peer_status s;
        CHECK(peers_status(r->at[who].peers, peer_rig_id(whom), &s));
        if (s.streams == streams)
            return;
        CHECK(r->world->time.now_ns < end);
        step(r);
    }
}

struct peer_rig *peer_rig_connected(unsigned members)
{
    struct peer_rig *r = peer_rig_open(members);

    for (unsigned i = 1; i <= members; i++)
        for (unsigned j = 1; j <= members; j++)
            if (i != j)
                peer_rig_until_streams(r, i, j, 4);
    return r;
}

struct peer_status peer_rig_status(struct peer_rig *r, unsigned who, unsigned whom)
{
    struct peer_status s;

    CHECK(peers_status(r->at[who].peers, peer_rig_id(whom), &s));
    return s;
}

bool peer_rig_has_logged(struct peer_rig *r, unsigned who, const char *text)
{
    return strstr(buf_str(&r->at[who].log), text) != NULL;
}

/* --- the end --- */

static void forget_notes(struct rig_member *m)
{
    buf_free(&m->heard);
    buf_free(&m->appends);
    buf_free(&m->log);
    buf_free(&m->results);
    buf_free(&m->snapshot.story);
    buf_free(&m->snapshot.image);
    buf_free(&m->snapshot.source);
}

void peer_rig_stop(struct peer_rig *r, unsigned number)
{
    struct rig_member *m = &r->at[number];

    listener_close(m->listener);
    peers_stop(m->peers);
    while (!peers_is_idle(m->peers))
        step(r);
    peers_close(m->peers);
    conn_limit_free(&m->limit);
    m->peers = NULL;
}

void peer_rig_crash(struct peer_rig *r, unsigned number)
{
    struct rig_member *m = &r->at[number];

    fake_wire_crash(m->io.net);
    fake_clock_crash(&m->clock);
    fake_resolver_crash(&m->resolver);
    inbox_init(&m->inbox, NULL, NULL);
    peers_abandon(m->peers);
    conn_limit_free(&m->limit);
    m->peers = NULL;
}

struct peer_rig *peer_rig_lonely(void)
{
    struct peer_rig *r = peer_rig_open(2);

    peer_rig_crash(r, 2);
    return r;
}

void peer_rig_close(struct peer_rig *r)
{
    for (unsigned i = 1; i <= r->count; i++) {
        if (r->at[i].peers)
            peer_rig_stop(r, i);
        forget_notes(&r->at[i]);
        fake_clock_free(&r->at[i].clock);
    }
    fake_world_free(r->world);
    mem_free(r);
}

/* --- messages --- */

void peer_rig_send(struct peer_rig *r, const struct raft_message *m)
{
    struct peers *p = r->at[m->from / 0x11].peers;

    peers_send(p, m);
    peers_flush(p);
}

void peer_rig_append(struct peer_rig *r, unsigned from, unsigned to, uint64_t term, uint64_t index,
                     size_t count, size_t data_bytes)
{
    struct raft_entry *entries = mem_new_array(count, struct raft_entry);

    for (size_t i = 0; i < count; i++) {
        uint8_t *fill;
        struct blob *b = blob_new(data_bytes, &fill);
        char name[32];
        int len = snprintf(name, sizeof(name), "e%" PRIu64, index + 1 + i);

        memset(fill, '.', data_bytes);
        memcpy(fill, name, (size_t)len < data_bytes ? (size_t)len : data_bytes);
        entries[i] = (struct raft_entry){
            .term = term, .index = index + 1 + i, .data = blob_bytes(b), .blob = b};
    }
    peer_rig_send(r, &(struct raft_message){.type = RAFT_MSG_APP,
                                            .from = peer_rig_id(from),
                                            .to = peer_rig_id(to),
                                            .term = term,
                                            .log_term = index > 0 ? term : 0,
                                            .index = index,
                                            .commit = index,
                                            .entries = entries,
                                            .entry_count = count});
    for (size_t i = 0; i < count; i++)
        blob_unref(entries[i].blob);
    mem_free(entries);
}

/* --- snapshots --- */

void peer_rig_snapshot(struct peer_rig *r, unsigned from, unsigned to, uint64_t index, size_t bytes)
{
    struct rig_member *m = &r->at[from];
    struct rig_snapshot *s = &m->snapshot;
    struct raft_snapshot snapshot = {.index = index, .term = 3, .data = BYTES("{}")};

    buf_clear(&s->source);
    if (bytes > 0) {
        uint8_t *fill = buf_extend(&s->source, bytes);
        for (size_t i = 0; i < bytes; i++)
            fill[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    s->to = peer_rig_id(to);
    s->handed_in = 0;
    peers_snapshot_begin(m->peers,
                         &(struct raft_message){.type = RAFT_MSG_SNAP,
                                                .from = peer_rig_id(from),
                                                .to = peer_rig_id(to),
                                                .term = 3,
                                                .snapshot = &snapshot},
                         bytes);
}

/* --- raw --- */

static void raw_data(struct conn *c, struct bytes data)
{
    buf_append(&((struct rig_raw *)c->context)->got, data);
}

static void raw_end(struct conn *c)
{
    ((struct rig_raw *)c->context)->ended++;
    conn_close(c, ERR_OK);
}

static void raw_closed(struct conn *c, enum err reason)
{
    (void)reason;
    ((struct rig_raw *)c->context)->closed++;
}

static void raw_sent(struct conn_write *w, enum err e)
{
    (void)e;
    container_of(w, struct rig_raw, write)->written++;
}

void peer_rig_raw_say(struct rig_raw *raw, struct bytes what)
{
    CHECK(!raw->closed);
    buf_clear(&raw->sent);
    buf_append(&raw->sent, what);
    raw->piece = buf_bytes(&raw->sent);
    raw->write = (struct conn_write){.pieces = &raw->piece, .piece_count = 1, .on_done = raw_sent};
    conn_write(raw->conn, &raw->write);
}

struct rig_raw *peer_rig_raw_open(struct peer_rig *r, unsigned number, struct bytes what)
{
    static const struct conn_handlers handlers = {
        .on_data = raw_data, .on_end = raw_end, .on_closed = raw_closed};
    struct rig_raw *raw = mem_new(struct rig_raw);
    char address[64];
    struct net_address where;

    snprintf(address, sizeof(address), "10.0.0.%u:2380", number);
    CHECK_EQ(net_address_parse(address, &where), ERR_OK);
    if (!r->stranger)
        r->stranger = fake_wire_add_host(r->world->wire, &r->world->inbox, "10.9.9.9");
    raw->conn = net_connect(r->stranger, &where, &handlers, raw);
    peer_rig_raw_say(raw, what);
    return raw;
}

void peer_rig_raw_close(struct peer_rig *r, struct rig_raw *raw)
{
    if (!raw->closed)
        conn_close(raw->conn, ERR_OK);
    peer_rig_until(r, &raw->closed, 1);
    peer_rig_until(r, &raw->written, 1);
    buf_free(&raw->got);
    buf_free(&raw->sent);
    mem_free(raw);
}

/* The text of a response, without its date. */
static void drop_date(struct buf *text)
{
    const uint8_t *date = text->len > 0 ? memmem(text->at, text->len, "Date: ", 6) : NULL;

    if (!date)
        return;
    size_t at = (size_t)(date - text->at), after = at + strlen("Date: ") + 31;
    memmove(text->at + at, text->at + after, text->len - after);
    text->len -= after - at;
}

const char *peer_rig_exchange(struct peer_rig *r, unsigned number, struct bytes what, uint64_t ms,
                              bool *ended)
{
    static struct buf text;
    struct rig_raw *raw = peer_rig_raw_open(r, number, what);
    uint64_t end = r->world->time.now_ns + ms * NS_PER_MS;

    while (!raw->closed && r->world->time.now_ns < end)
        step(r);
    if (ended)
        *ended = raw->closed > 0;
    buf_clear(&text);
    buf_append(&text, buf_bytes(&raw->got));
    peer_rig_raw_close(r, raw);
    drop_date(&text);
    return buf_str(&text);
}
