/*
 * json_caller: unary calls in JSON, one after the other on one connection of HTTP/1.1.
 *
 *     struct json_caller j;
 *     json_caller_open(&j, &peer);
 *     json_caller_start(&j, "/v3/kv/range", &pb_range_request_schema, &request);
 *     json_caller_wait(&j);          j.status, j.body
 *     json_caller_close(&j);
 */
#pragma once

#include "base/buf.h"
#include "harness/peer_test.h"
#include "pb/codec.h"

struct json_caller {
    int fd;
    struct buf request, received; /* received: and not looked at yet */
    unsigned status;
    struct buf body; /* of the last response */
};

void json_caller_open(struct json_caller *j, const struct peer *to);
void json_caller_close(struct json_caller *j);

/* Writes the request down in JSON, and sends it. */
void json_caller_start(struct json_caller *j, const char *path, const struct pb_schema *schema,
                       const void *message);
void json_caller_wait(struct json_caller *j);

/* Without what is each server's own: ids of cluster and member and raft's term, and the spaces that
 * protojson puts in or not, by a hash of its program. */
const char *json_plain(struct arena *arena, struct bytes text);
