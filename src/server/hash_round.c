#include "server/hash_round.h"

#include "api/api.h"
#include "base/assert.h"
#include "peer/peer.h"
#include "server/peering.h"

#include <string.h>

void hash_round_init(struct hash_round *r, const struct hash_round_options *options)
{
    *r = (struct hash_round){.o = *options};
}

void hash_round_free(struct hash_round *r)
{
    arena_free(&r->arena);
}

/* --- asking --- */

static uint64_t round_token(const struct hash_round *r, size_t nth)
{
    static_assert(CLUSTER_MEMBERS_MAX <= UINT8_MAX, "a token ends with a byte for the member");

    return (uint64_t)PEERING_TOKEN_HASH << PEERING_TOKEN_SHIFT | (r->number & UINT32_MAX) << 8 |
           nth;
}

/* By URL, not by member: so it is told which of them has failed, and the next is tried. */
static void ask_next_url(struct hash_round *r, size_t nth)
{
    struct hash_reply *reply = &r->replies[nth];
    struct buf body = {0};

    hash_json_write(r->revision, &body);
    const char *url = arena_copy_str(&r->arena, reply->urls[reply->asked++]);
    peers_ask(r->o.peers, &(struct peer_ask){.token = round_token(r, nth),
                                             .member = RAFT_NONE,
                                             .url = url,
                                             .verb = "GET",
                                             .path = "/members/hashkv",
                                             .content_type = "application/json",
                                             .body = buf_bytes(&body),
                                             .with_cluster_id = true,
                                             .timeout_ms = r->o.limit_ms});
    buf_free(&body);
}

/* The members may change while they are being asked. */
static void add_member(struct hash_round *r, const struct pb_member *m)
{
    struct bytes *urls = arena_new_array(&r->arena, m->peer_urls.count, struct bytes);

    for (size_t i = 0; i < m->peer_urls.count; i++)
        urls[i] = arena_copy(&r->arena, m->peer_urls.at[i]);
    assert(r->count < ARRAY_LEN(r->replies));
    r->replies[r->count++] =
        (struct hash_reply){.member = m->id, .urls = urls, .url_count = m->peer_urls.count};
}

void hash_round_start(struct hash_round *r, const struct pb_member *members, size_t count,
                      int64_t revision)
{
    assert(hash_round_is_over(r));

    arena_free(&r->arena);
    r->number++;
    r->revision = revision;
    r->count = 0;
    for (size_t i = 0; i < count; i++)
        if (members[i].id != r->o.facts->member_id && members[i].peer_urls.count > 0)
            add_member(r, &members[i]);
    r->waiting = r->count;
    for (size_t i = 0; i < r->count; i++)
        ask_next_url(r, i);
}

void hash_round_cancel(struct hash_round *r)
{
    for (size_t i = 0; i < r->count && r->waiting > 0; i++)
        peers_forget(r->o.peers, round_token(r, i));
    r->waiting = 0;
}

bool hash_round_is_over(const struct hash_round *r)
{
    return r->waiting == 0;
}

/* --- hearing --- */

static bool says(struct bytes body, const char *text)
{
    return body.len > 0 && memmem(body.at, body.len, text, strlen(text));
}

static enum hash_reply_kind read_reply(const struct peer_event *e, struct member_hash *out)
{
    if (e->status == 400 && says(e->body, "mvcc: required revision has been compacted"))
        return HASH_REPLY_COMPACTED;
    if (e->status == 400 && says(e->body, "mvcc: required revision is a future revision"))
        return HASH_REPLY_FUTURE;
    if (e->status == 412 && says(e->body, "cluster ID mismatch"))
        return HASH_REPLY_OTHER_CLUSTER;
    if (e->status == 200 && member_hash_json_read(e->body, out) == ERR_OK)
        return HASH_REPLY_OK;
    return HASH_REPLY_NONE;
}

static void say_failed(const struct hash_round *r, const struct hash_reply *reply,
                       const struct peer_event *e)
{
    static const char *const texts[] = {
        [HASH_REPLY_COMPACTED] = "etcdserver: mvcc: required revision has been compacted",
        [HASH_REPLY_FUTURE] = "etcdserver: mvcc: required revision is a future revision",
        [HASH_REPLY_OTHER_CLUSTER] = "etcdserver: cluster ID mismatch",
    };
    struct bytes error =
        reply->kind == HASH_REPLY_NONE ? e->body : bytes_of_str(texts[reply->kind]);

    log_warn(r->o.logger, "failed hash kv request",
             LOG_ID("local-member-id", r->o.facts->member_id),
             LOG_I64("requested-revision", r->revision),
             LOG_BYTES("remote-peer-endpoint", reply->urls[reply->asked - 1]),
             LOG_U64("status", e->status), LOG_BYTES("error", error));
}

void hash_round_result(struct hash_round *r, const struct peer_event *e)
{
    size_t nth = e->id & UINT8_MAX;

    if (r->waiting == 0 || e->id != round_token(r, nth))
        return;
    assert(nth < r->count);
    struct hash_reply *reply = &r->replies[nth];
    reply->kind = read_reply(e, &reply->hash);
    if (reply->kind != HASH_REPLY_OK)
        say_failed(r, reply, e);
    if (reply->kind != HASH_REPLY_OK && reply->asked < reply->url_count)
        ask_next_url(r, nth);
    else
        r->waiting--;
}
