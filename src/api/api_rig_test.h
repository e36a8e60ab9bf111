/*
 * counter: api behind its counter and a client in front of it, for tests.
 *
 * Everything below api is real, on fakes: rpc and its client on the fake wire, apply with the rooms
 * it stands on (apply's rig) on the memory twin. The server is a few lines: what is proposed is
 * applied at once, what is to be confirmed is; unless the test says that it holds them back. Nobody
 * gets an image: there are none without a server.
 */
#pragma once

#include "api/api.h"
#include "apply/apply_rig_test.h"
#include "io/fake_world.h"
#include "rpc/client.h"
#include "rpc/rpc.h"
#include "watch/watch.h"

#define API_RIG_CLUSTER_ID 0xc1
#define API_RIG_TERM       3
#define API_RIG_HASH       77 /* of any store */
#define API_RIG_TOKEN_MS   300000

/* One call, as the client sees it. */
struct visit {
    struct client_call *call;
    struct buf *messages; /* each a message that came */
    size_t message_count, message_cap;
    bool is_over;
    enum rpc_code code;
    struct buf text;
};

struct api_rig {
    struct fake_world *world;
    struct apply_rig apply_rig;
    struct watch *watch;
    struct rpc_line *line;
    struct rpc *rpc;
    struct api *api;
    struct api_facts facts;
    struct logger logger;
    struct net_address address;
    struct client *client;

    bool is_slow;                                    /* needs are held back until api_rig_fulfil */
    bool keeps_commits;                              /* the page store commits nothing */
    enum result failure;                             /* what needs are told instead; OK: nothing */
    struct api_forward forward;                      /* what was asked of the leader last */
    const struct api_forwarded *leader_says;         /* NULL: there is none */
    unsigned api_steps;                              /* of each api_work */
    unsigned proposed, confirmed, forgotten, alarms; /* needs so far */
    unsigned passwords;
    struct held_need *held_needs;
};

/* With a client connected to it. */
void api_rig_open(struct api_rig *k);
void api_rig_close(struct api_rig *k);
/* The same with everything under way dropped on the spot. */
void api_rig_crash(struct api_rig *k);

/* Before api_rig_open: other options for the room itself, another quota for all, and what JWTs are
 * signed by (it is closed with the rig; NULL: tokens are simple ones). */
extern struct api_options api_rig_options;
extern int64_t api_rig_quota_bytes;
extern struct jwt *api_rig_jwt;

/* One turn of the server, and one of the client. */
void api_rig_turn(struct api_rig *k);
/* Turns and time, until the call is over, or has so many messages, or for a while. */
void api_rig_until_over(struct api_rig *k, struct visit *v);
void api_rig_until_messages(struct api_rig *k, struct visit *v, size_t count);
void api_rig_for_ms(struct api_rig *k, uint64_t ms);

/* The client stops reading its connection, or goes on. */
void api_rig_client_reads(struct api_rig *k, bool reads);

/* Fulfils what was held back, in order; what came of it goes out with the next turns. */
void api_rig_fulfil(struct api_rig *k);

/* A call with one message, its only one, or a stream that goes on. */
void api_rig_ask(struct api_rig *k, struct visit *v, const char *path,
                 const struct pb_schema *schema, const void *message);
void api_rig_ask_with(struct api_rig *k, struct visit *v, const struct client_request *request,
                      const struct pb_schema *schema, const void *message);
void api_rig_stream(struct api_rig *k, struct visit *v, const char *path);
void api_rig_say(struct visit *v, const struct pb_schema *schema, const void *message);
void visit_free(struct visit *v);
/* What has come for all visits of this client; and sends what they have said. */
void visit_hear(struct client *client);

/* The call must end with this. */
void api_rig_expect(struct api_rig *k, struct visit *v, enum rpc_code code, const char *text);

/* Asks and waits; the only message, decoded into *out, whose memory is the arena's. */
void api_rig_get(struct api_rig *k, const char *path, const struct pb_schema *schema,
                 const void *message, const struct pb_schema *result, struct arena *arena,
                 void *out);
/* Asks and expects a refusal. */
void api_rig_refused(struct api_rig *k, const char *path, const struct pb_schema *schema,
                     const void *message, enum rpc_code code, const char *text);

/* The nth message of a call. */
void visit_decode(const struct visit *v, size_t nth, const struct pb_schema *schema,
                  struct arena *arena, void *out);

/* Another client's write, past the counter. It must succeed. */
void api_rig_apply(struct api_rig *k, const struct pb_internal_raft_request *request);

/* Shorter words: through the client. */
int64_t api_rig_put(struct api_rig *k, const char *key, const char *value); /* its revision */

/* A plain request, and its answer up to the end of the body. */
void api_rig_http(struct api_rig *k, const char *request, struct buf *out);
/* One whose client goes half a second later, before it was answered. */
void api_rig_http_cut(struct api_rig *k, const char *request);
