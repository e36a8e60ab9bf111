/* Whoever comes to the peer port, with whatever. The expected texts are those of etcd 3.7.1, asked
 * the same; only the order of fields is our own. */
#include "base/limits.h"
#include "peer/peer_int.h"
#include "peer/peer_rig_test.h"

#include <stdio.h>

#define VERSIONS "X-Server-Version: 3.7.1\r\nX-Min-Cluster-Version: 3.0.0\r\n"
#define CLUSTER  "X-Etcd-Cluster-ID: abcd\r\n"
#define FROM_TWO "Host: x\r\nX-Server-From: 22\r\n" VERSIONS CLUSTER "X-Raft-To: 11\r\n"

#define TEXT          "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
#define STREAM_FIELDS "X-Server-Version: 3.7.1\r\n" CLUSTER

static void check_response(struct peer_rig *r, struct bytes request, bool is_ended,
                           const char *expected)
{
    bool ended;
    const char *text = peer_rig_exchange(r, 1, request, 200, &ended);

    CHECK_STR(text, expected);
    CHECK_EQ(ended, is_ended);
    CHECK_EQ(r->at[1].peers->receiving, 0);
    CHECK_EQ(r->at[1].heard_count, 0);
    CHECK_EQ(r->at[1].append_count, 0);
}

static const char *refused(const char *status, const char *fields, const char *text)
{
    static struct buf all;

    buf_clear(&all);
    buf_printf(&all, "HTTP/1.1 %s\r\n" TEXT "%sContent-Length: %zu\r\n\r\n%s\n", status, fields,
               strlen(text) + 1, text);
    return buf_str(&all);
}

/* With another value of one field. */
static struct bytes with(const char *line, const char *field, const char *value)
{
    static struct buf all;
    const char *at = strstr(FROM_TWO, field);

    CHECK(at);
    buf_clear(&all);
    buf_printf(&all, "%s HTTP/1.1\r\n%.*s", line, (int)(at - FROM_TWO), FROM_TWO);
    if (value)
        buf_printf(&all, "%s: %s\r\n", field, value);
    buf_printf(&all, "%s\r\n", strstr(at, "\r\n") + 2);
    return buf_bytes(&all);
}

TEST(a_stream_is_refused_with_etcds_status_and_text)
{
    struct peer_rig *r = peer_rig_lonely();
    static const char get[] = "GET /raft/stream/message/22";

    check_response(r, with("POST /raft/stream/message/22", "Host", "x"), false,
                   refused("405 Method Not Allowed", "Allow: GET\r\n", "Method Not Allowed"));
    static const struct {
        const char *field, *value, *text;
    } cases[] = {
        {"X-Server-Version", NULL, "incompatible version"},
        {"X-Server-Version", "2.3.8", "incompatible version"},
        {"X-Server-Version", "abc", "incompatible version"},
        {"X-Min-Cluster-Version", "3.8.0", "incompatible version"},
        {"X-Min-Cluster-Version", "4.0.0", "incompatible version"},
        {"X-Etcd-Cluster-ID", NULL, "cluster ID mismatch"},
        {"X-Etcd-Cluster-ID", "abce", "cluster ID mismatch"},
        {"X-Etcd-Cluster-ID", "0abcd", "cluster ID mismatch"},
        {"X-Raft-To", NULL, "to field mismatch"},
        {"X-Raft-To", "12", "to field mismatch"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_response(r, with(get, cases[i].field, cases[i].value), false,
                       refused("412 Precondition Failed", STREAM_FIELDS, cases[i].text));
    CHECK(strstr(buf_str(&r->at[1].log), "failed version compatibility check"));
    CHECK(strstr(buf_str(&r->at[1].log), "request cluster ID mismatch"));
    CHECK(strstr(buf_str(&r->at[1].log), "\"remote-peer-cluster-id\":\"abce\""));
    CHECK(strstr(buf_str(&r->at[1].log), "ignored streaming request; ID mismatch"));

    static const struct {
        const char *path, *text;
    } paths[] = {
        {"/raft/stream/msgappv2/22", "invalid path"},
        {"/raft/stream/", "invalid path"},
        {"/raft/stream/message", "invalid path"},
        {"/raft/stream/message/", "invalid from"},
        {"/raft/stream/message/xyz", "invalid from"},
        {"/raft/stream/msgapp/-1", "invalid from"},
        {"/raft/stream/msgapp/10000000000000000", "invalid from"},
        {"/raft/stream/message/99", "error sender not found"},
        {"/raft/stream/message/11", "error sender not found"}, /* ourselves */
    };
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char line[128];
        snprintf(line, sizeof(line), "GET %s", paths[i].path);
        check_response(r, with(line, "Host", "x"), false,
                       refused("404 Not Found", STREAM_FIELDS, paths[i].text));
    }
    CHECK(strstr(buf_str(&r->at[1].log), "failed to find remote peer in cluster"));
    peers_remove(r->at[1].peers, peer_rig_id(2));
    check_response(r, with(get, "Host", "x"), false,
                   refused("410 Gone", STREAM_FIELDS, "removed member"));
    peer_rig_close(r);
}

TEST(a_stream_is_opened_at_once)
{
    struct peer_rig *r = peer_rig_lonely();

    /* Asking for no version means asking for an old one. */
    check_response(r, with("GET /raft/stream/message/22", "X-Min-Cluster-Version", NULL), false,
                   "HTTP/1.1 200 OK\r\n" STREAM_FIELDS "Transfer-Encoding: chunked\r\n\r\n");

    check_response(r, with("GET /raft/stream/message/22", "Host", "x"), false,
                   "HTTP/1.1 200 OK\r\n" STREAM_FIELDS "Transfer-Encoding: chunked\r\n\r\n");
    check_response(r, with("GET /raft/stream/msgapp/0022", "Host", "x"), false,
                   "HTTP/1.1 200 OK\r\n" STREAM_FIELDS "Transfer-Encoding: chunked\r\n\r\n");
    peer_rig_close(r);
}

/* A stream is asked for without a body. One with a body that breaks is a stream until then, and
 * what is sent next goes nowhere. */
TEST(a_stream_ends_with_the_body_of_its_request_that_breaks)
{
    struct peer_rig *r = peer_rig_lonely();
    static const char ask[] =
        "GET /raft/stream/message/22 HTTP/1.1\r\n" FROM_TWO "Transfer-Encoding: chunked\r\n\r\n";
    struct rig_raw *raw = peer_rig_raw_open(r, 1, bytes_of_str(ask));
    peer_rig_until_streams(r, 1, 2, 1);

    peer_rig_raw_say(raw, BYTES("zz\r\n"));
    peer_rig_until(r, &raw->ended, 1);
    peer_rig_send(
        r, &(struct raft_message){.type = RAFT_MSG_HEARTBEAT, .from = 0x11, .to = 0x22, .term = 3});
    peer_rig_run_ms(r, 10 * 1000); /* and several of the link's heartbeats */

    CHECK_EQ(peer_rig_status(r, 1, 2).streams, 0);
    CHECK_STR(strstr(buf_str(&raw->got), "\r\n\r\n"), "\r\n\r\n");
    CHECK(peer_rig_has_logged(r, 1, "lost TCP streaming connection with remote peer"));
    peer_rig_raw_close(r, raw);
    peer_rig_close(r);
}

TEST(a_link_heartbeat_is_a_chunk_of_the_stream)
{
    struct peer_rig *r = peer_rig_lonely();
    bool ended;

    const char *text =
        peer_rig_exchange(r, 1, with("GET /raft/stream/message/22", "Host", "x"), 2000, &ended);
    CHECK_BYTES(bytes_of(strstr(text, "\r\n\r\n") + 4, 22), BYTES("0000000a\r\n"
                                                                  "\0\0\0\0\0\0\0\2\x08\x08\r\n"));
    CHECK(!ended);
    peer_rig_close(r);
}

static struct bytes post(const char *field, const char *value, struct bytes body)
{
    static struct buf all;
    struct bytes head = with("POST /raft", field, value);

    buf_clear(&all);
    buf_append(&all, bytes_of(head.at, head.len - 2));
    buf_printf(&all, "Content-Length: %zu\r\n\r\n", body.len);
    buf_append(&all, body);
    return buf_bytes(&all);
}

TEST(a_post_is_refused_with_etcds_status_and_text)
{
    struct peer_rig *r = peer_rig_lonely();
    const struct bytes vote = BYTES("\x08\x05\x10\x11\x18\x22\x20\x07");

    check_response(r, with("GET /raft", "Host", "x"), false,
                   refused("405 Method Not Allowed", "Allow: POST\r\n", "Method Not Allowed"));
    check_response(r, post("X-Server-Version", NULL, vote), false,
                   refused("412 Precondition Failed", CLUSTER, "incompatible version"));
    check_response(r, post("X-Min-Cluster-Version", "3.8.0", vote), false,
                   refused("412 Precondition Failed", CLUSTER, "incompatible version"));
    check_response(r, post("X-Etcd-Cluster-ID", "77", vote), false,
                   refused("412 Precondition Failed", CLUSTER, "cluster ID mismatch"));
    check_response(r, post("Host", "x", BYTES("\xff\xff")), false,
                   refused("400 Bad Request", CLUSTER, "error unmarshalling raft message"));
    check_response(r, post("Host", "x", BYTES("\x08\x07\x10\x11\x18\x22")), false,
                   refused("400 Bad Request", CLUSTER, "wrong raft message type"));

    static const char failed[] =
        "HTTP/1.1 500 Internal Server Error\r\n" TEXT CLUSTER
        "Content-Length: 30\r\nConnection: close\r\n\r\nerror processing raft message\n";
    check_response(r, post("Host", "x", BYTES("\x08\x05\x10\x63\x18\x22")), true, failed);
    check_response(r, post("Host", "x", BYTES("")), true, failed);
    CHECK(strstr(buf_str(&r->at[1].log), "rejected Raft message to mismatch member"));
    peers_remove(r->at[1].peers, peer_rig_id(2));
    check_response(r, post("Host", "x", vote), true, failed);
    CHECK(strstr(buf_str(&r->at[1].log), "rejected Raft message from removed member"));
    peer_rig_close(r);
}

TEST(a_post_is_taken_with_204)
{
    struct peer_rig *r = peer_rig_lonely();

    const char *text = peer_rig_exchange(
        r, 1, post("Host", "x", BYTES("\x08\x05\x10\x11\x18\x22\x20\x07")), 100, NULL);
    CHECK_STR(text, "HTTP/1.1 204 No Content\r\n" CLUSTER "\r\n");
    CHECK_STR(buf_str(&r->at[1].heard), "vote 22>11 term=7\n");

    /* What only a member itself may produce is as good as processed. */
    text = peer_rig_exchange(r, 1, post("Host", "x", BYTES("\x08\x00\x10\x11\x18\x22")), 100, NULL);
    CHECK_STR(text, "HTTP/1.1 204 No Content\r\n" CLUSTER "\r\n");
    CHECK_EQ(r->at[1].heard_count, 1);
    peer_rig_close(r);
}

/* --- snapshots --- */

/* A message of this length and these bytes in front of an image, or of part of one. */
static struct bytes snapshot(const char *field, const char *value, uint64_t length,
                             struct bytes message, const char *image)
{
    static struct buf all;
    struct bytes head = with("POST /raft/snapshot", field, value);

    buf_clear(&all);
    buf_append(&all, bytes_of(head.at, head.len - 2));
    buf_printf(&all, "Content-Length: %zu\r\n\r\n", 8 + message.len + strlen(image));
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_append_byte(&all, (uint8_t)(length >> shift));
    buf_append(&all, message);
    buf_append_str(&all, image);
    return buf_bytes(&all);
}

/* MsgSnap from 22 to 11 with a snapshot of index 7, term 3 and "{}" in it. */
#define SNAP BYTES("\x08\x07\x10\x11\x18\x22\x20\x03\x4a\x0a\x0a\x02{}\x12\x04\x10\x07\x18\x03")

TEST(a_snapshot_is_refused_with_etcds_status_and_text)
{
    struct peer_rig *r = peer_rig_lonely();
    static const struct {
        uint64_t length;
        struct bytes message;
        const char *text;
    } malformed[] = {
        {20, BYTES(""), "EOF"},
        {100, SNAP, "unexpected EOF"},
        {4ull << 30, SNAP, "rafthttp: error limit exceeded"},
        {UINT64_MAX, SNAP, "rafthttp: error limit exceeded"},
        {64 * MIB + 1, SNAP, "rafthttp: error limit exceeded"},
        {2, BYTES("\xff\xff"), "proto: cannot parse invalid wire-format data"},
        {6, BYTES("\x08\x07\x10\x11\x18\x22"), "no snapshot in it"},
        {8, BYTES("\x08\x07\x10\x11\x18\x22\x4a\x00"), "no snapshot in it"},
    };

    check_response(r, with("GET /raft/snapshot", "Host", "x"), false,
                   refused("405 Method Not Allowed", "Allow: POST\r\n", "Method Not Allowed"));
    check_response(r, snapshot("X-Server-Version", NULL, 20, SNAP, "image"), false,
                   refused("412 Precondition Failed", CLUSTER, "incompatible version"));
    check_response(r, snapshot("X-Min-Cluster-Version", "3.8.0", 20, SNAP, "image"), false,
                   refused("412 Precondition Failed", CLUSTER, "incompatible version"));
    check_response(r, snapshot("X-Etcd-Cluster-ID", "77", 20, SNAP, "image"), false,
                   refused("412 Precondition Failed", CLUSTER, "cluster ID mismatch"));
    check_response(r, with("POST /raft/snapshot", "Host", "x"), false,
                   refused("400 Bad Request", CLUSTER, "failed to decode raft message (EOF)"));
    for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
        char text[128];
        snprintf(text, sizeof(text), "failed to decode raft message (%s)", malformed[i].text);
        check_response(r, snapshot("Host", "x", malformed[i].length, malformed[i].message, ""),
                       false, refused("400 Bad Request", CLUSTER, text));
    }
    CHECK(strstr(buf_str(&r->at[1].log), "failed to decode Raft message"));
    check_response(r, snapshot("Host", "x", 6, BYTES("\x08\x05\x10\x11\x18\x22"), "image"), false,
                   refused("400 Bad Request", CLUSTER, "wrong raft message type"));
    CHECK(strstr(buf_str(&r->at[1].log), "\"unexpected Raft message type\""));
    CHECK(strstr(buf_str(&r->at[1].log), "\"message-type\":\"MsgVote\""));

    /* Said of the message, before the image: etcd says the same after it. */
    struct buf other = {0};
    buf_append(&other, SNAP);
    other.at[3] = 0x63;
    check_response(
        r, snapshot("Host", "x", 20, buf_bytes(&other), "image"), false,
        refused("500 Internal Server Error", CLUSTER,
                "failed to process raft message (cannot process message to mismatch member)"));
    other.at[3] = other.at[5] = 0x11;
    check_response(r, snapshot("Host", "x", 20, buf_bytes(&other), "image"), false,
                   refused("400 Bad Request", CLUSTER,
                           "failed to decode raft message (from no other member)"));
    buf_free(&other);
    peers_remove(r->at[1].peers, peer_rig_id(2));
    check_response(
        r, snapshot("Host", "x", 20, SNAP, "image"), false,
        refused("500 Internal Server Error", CLUSTER,
                "failed to process raft message (cannot process message from removed member)"));
    CHECK_EQ(r->at[1].snapshot.begun, 0);
    peer_rig_close(r);
}

TEST(a_probe_is_told_the_time)
{
    struct peer_rig *r = peer_rig_lonely();

    const char *text =
        peer_rig_exchange(r, 1, BYTES("GET /raft/probing HTTP/1.1\r\nHost: x\r\n\r\n"), 100, NULL);
    CHECK(strstr(text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n") == text);
    CHECK(strstr(text, "\r\n\r\n{\"OK\":true,\"Now\":\"2023-11-14T22:13:20."));
    peer_rig_close(r);
}

TEST(what_is_not_http_is_refused_and_closed)
{
    struct peer_rig *r = peer_rig_lonely();
    static const struct {
        struct bytes request;
        const char *status;
    } cases[] = {
        {BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"), "HTTP/1.1 400 Bad Request"},
        {BYTES("hello there\r\n\r\n"), "HTTP/1.1 400 Bad Request"},
        {BYTES("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 a client of TLS\r\n\r\n"),
         "HTTP/1.1 400 Bad Request"},
        {BYTES("GET /raft/probing HTTP/2.0\r\nHost: x\r\n\r\n"),
         "HTTP/1.1 505 HTTP Version Not Supported"},
        {BYTES("GET /raft/probing HTTP/1.1\r\n\r\n"), "HTTP/1.1 400 Bad Request"}, /* no host */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool ended;
        const char *text = peer_rig_exchange(r, 1, cases[i].request, 2000, &ended);
        CHECK(ended);
        CHECK_EQ(strncmp(text, cases[i].status, strlen(cases[i].status)), 0);
        CHECK(strstr(text, "Connection: close\r\n"));
    }
    CHECK(strstr(buf_str(&r->at[1].log), "rejected a connection to the peer port"));
    CHECK_EQ(r->at[1].heard_count, 0);
    peer_rig_close(r);
}

TEST(whoever_says_nothing_is_closed_after_five_seconds)
{
    struct peer_rig *r = peer_rig_lonely();
    bool ended;

    CHECK_STR(peer_rig_exchange(r, 1, BYTES("GET /raft/pro"), 4500, &ended), "");
    CHECK(!ended);
    CHECK_STR(peer_rig_exchange(r, 1, BYTES("GET /raft/pro"), 5500, &ended), "");
    CHECK(ended);
    peer_rig_run_ms(r, 100);
    CHECK_EQ(r->at[1].peers->conn_count, 0);
    peer_rig_close(r);
}

/* --- memory --- */

static struct bytes large_post(const char *from, size_t announced, size_t sent)
{
    static struct buf all;
    struct bytes head = with("POST /raft", "X-Server-From", from);

    buf_clear(&all);
    buf_append(&all, bytes_of(head.at, head.len - 2));
    buf_printf(&all, "Content-Length: %zu\r\n\r\n", announced);
    memset(buf_extend(&all, sent), 0, sent);
    return buf_bytes(&all);
}

TEST(a_post_of_four_gigabytes_is_refused_by_its_head)
{
    struct peer_rig *r = peer_rig_lonely();
    bool ended;

    const char *text = peer_rig_exchange(r, 1, large_post("22", 4ull << 30, 100), 2000, &ended);
    CHECK_EQ(strncmp(text, "HTTP/1.1 413 ", 13), 0);
    CHECK(ended);
    CHECK_EQ(r->at[1].peers->receiving, 0);
    peer_rig_close(r);
}

/* Who was started again before its first entry was durable knows no member, and hears by posts of
 * what it missed: appends with a whole message of entries, and what is around them. */
TEST(somebody_unknown_may_post_an_append)
{
    enum { ENTRIES = 64 };
    struct peer_rig *r = peer_rig_lonely();
    struct raft_entry entries[ENTRIES];
    struct buf post = {0}, wire = {0}, data = {0};
    bool ended;
    memset(buf_extend(&data, RAFT_MESSAGE_BYTES_MAX / ENTRIES), 'x',
           RAFT_MESSAGE_BYTES_MAX / ENTRIES);
    for (size_t i = 0; i < ENTRIES; i++)
        entries[i] = (struct raft_entry){.term = 5, .index = i + 1, .data = buf_bytes(&data)};
    struct raft_message m = {.type = RAFT_MSG_APP,
                             .from = 0x99,
                             .to = peer_rig_id(1),
                             .term = 5,
                             .entries = entries,
                             .entry_count = ENTRIES};

    raft_message_encode(&m, &wire);
    CHECK(wire.len > RAFT_MESSAGE_BYTES_MAX);
    struct bytes head = large_post("99", wire.len, 0);
    buf_append(&post, head);
    buf_append(&post, buf_bytes(&wire));
    const char *text = peer_rig_exchange(r, 1, buf_bytes(&post), 2000, &ended);

    CHECK_EQ(strncmp(text, "HTTP/1.1 204 ", 13), 0);
    CHECK_EQ(r->at[1].append_count, 1);
    buf_free(&post);
    buf_free(&wire);
    buf_free(&data);
    peer_rig_close(r);
}

/* --max-request-bytes may allow more than the log's messages usually have. */
TEST(somebody_unknown_may_post_a_single_entry_of_any_size)
{
    enum { LARGE = 40 * MIB };
    struct peer_rig *r = peer_rig_lonely();
    struct buf post = {0}, wire = {0}, data = {0};
    bool ended;
    memset(buf_extend(&data, LARGE), 'x', LARGE);
    struct raft_entry entry = {.term = 5, .index = 1, .data = buf_bytes(&data)};
    struct raft_message m = {.type = RAFT_MSG_APP,
                             .from = 0x99,
                             .to = peer_rig_id(1),
                             .term = 5,
                             .entries = &entry,
                             .entry_count = 1};
    r->at[1].is_silent = true;

    raft_message_encode(&m, &wire);
    buf_append(&post, large_post("99", wire.len, 0));
    buf_append(&post, buf_bytes(&wire));
    const char *text = peer_rig_exchange(r, 1, buf_bytes(&post), 20000, &ended);

    CHECK_EQ(strncmp(text, "HTTP/1.1 204 ", 13), 0);
    CHECK_EQ(r->at[1].append_count, 1);
    CHECK_EQ(r->at[1].peers->receiving, 0);
    buf_free(&post);
    buf_free(&wire);
    buf_free(&data);
    peer_rig_close(r);
}

TEST(a_body_that_does_not_say_its_length_is_bounded_too)
{
    struct peer_rig *r = peer_rig_lonely();
    struct buf all = {0};
    bool ended;

    buf_append_str(&all, "POST /members HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < 40; i++) {
        buf_append_str(&all, "10000\r\n");
        memset(buf_extend(&all, 0x10000), 'x', 0x10000);
        buf_append_str(&all, "\r\n");
    }
    const char *text = peer_rig_exchange(r, 1, buf_bytes(&all), 3000, &ended);
    CHECK_EQ(strncmp(text, "HTTP/1.1 413 ", 13), 0);
    CHECK(ended);
    CHECK_EQ(r->at[1].heard_count, 0);
    buf_free(&all);
    peer_rig_close(r);
}

/* --- places --- */

/* More than there are places, from one address; each has begun a request. */
struct flood {
    struct peer_rig *rig;
    struct rig_raw *raw[PEER_CONNS_MAX + 100];
    size_t count;
};

static void flood_more(struct flood *f, struct bytes what)
{
    f->raw[f->count++] = peer_rig_raw_open(f->rig, 1, what);
}

static void flood_end(struct flood *f)
{
    for (size_t i = 0; i < f->count; i++)
        peer_rig_raw_close(f->rig, f->raw[i]);
    f->count = 0;
}

TEST(strangers_at_the_port_leave_places_to_members)
{
    static struct flood f;
    f = (struct flood){.rig = peer_rig_lonely()};
    const struct rig_member *m = &f.rig->at[1];

    while (f.count < ARRAY_LEN(f.raw))
        flood_more(&f, BYTES("G"));
    peer_rig_run_ms(f.rig, PEER_PORT_SILENCE_MS / 2);

    CHECK_EQ(m->limit.open, PEER_CONNS_MAX - PEER_CONNS_RESERVED);
    CHECK_EQ(m->peers->conn_count, PEER_CONNS_MAX - PEER_CONNS_RESERVED);
    CHECK_EQ(m->limit.evicted, f.count - (PEER_CONNS_MAX - PEER_CONNS_RESERVED));
    conn_limit_check(&m->limit);
    flood_end(&f);
    peer_rig_close(f.rig);
}

/* A member that starts meanwhile has its streams at once, and keeps them. */
TEST(a_member_gets_in_while_strangers_come_again_and_again)
{
    static struct flood f;
    f = (struct flood){.rig = peer_rig_lonely()};
    while (f.count < PEER_CONNS_MAX)
        flood_more(&f, BYTES("G"));
    peer_rig_run_ms(f.rig, 2 * NET_PATIENCE_MS);

    peer_rig_start(f.rig, 2);
    peer_rig_know(f.rig, 2, 1);
    peer_rig_until_streams(f.rig, 1, 2, 4);
    for (unsigned round = 0; round < 5; round++) {
        uint64_t before = f.rig->at[1].limit.evicted;
        for (unsigned i = 0; i < 400; i++) {
            size_t nth = (round * 400 + i) % f.count; /* whoever was cut comes back */
            peer_rig_raw_close(f.rig, f.raw[nth]);
            f.raw[nth] = peer_rig_raw_open(f.rig, 1, BYTES("G"));
        }
        peer_rig_run_ms(f.rig, 2 * NET_PATIENCE_MS);
        CHECK(f.rig->at[1].limit.evicted > before);
        CHECK_EQ(peer_rig_status(f.rig, 1, 2).streams, 4);
    }

    flood_end(&f);
    peer_rig_close(f.rig);
}

/* --- slow ones --- */

/* Says a byte now and then, and never for so long nothing that it counts as silent. For how long is
 * that put up with? */
static uint64_t trickle_ms(struct bytes begin)
{
    struct peer_rig *r = peer_rig_lonely();
    struct rig_raw *raw = peer_rig_raw_open(r, 1, begin);
    uint64_t lived_ms = 0;

    while (!raw->closed && !raw->ended && lived_ms < 300000) {
        peer_rig_run_ms(r, 3500);
        lived_ms += 3500;
        if (!raw->closed && !raw->ended)
            peer_rig_raw_say(raw, BYTES("x"));
    }
    CHECK_EQ(r->at[1].peers->receiving, 0);
    peer_rig_raw_close(r, raw);
    peer_rig_close(r);
    return lived_ms;
}

TEST(a_head_or_a_body_that_trickles_is_cut)
{
    CHECK(trickle_ms(BYTES("GET /members HTTP/1.1\r\nHost: x\r\nX-Long: ")) <=
          PEER_PORT_PACE_MS + 3500);
    CHECK(trickle_ms(BYTES("POST /members HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")) <=
          PEER_PORT_PACE_MS + 3500);
    CHECK(trickle_ms(BYTES("POST /raft HTTP/1.1\r\n" FROM_TWO "Content-Length: 1000000\r\n\r\n")) <=
          PEER_PORT_PACE_MS + 3500);
    /* Of a snapshot, the message in front of its image. */
    CHECK(trickle_ms(BYTES("POST /raft/snapshot HTTP/1.1\r\n" FROM_TWO
                           "Content-Length: 1000000\r\n\r\n")) <= PEER_PORT_PACE_MS + 3500);
}

/* What came fast at first does not buy hours for the rest, during which it would stay in memory. */
TEST(a_body_that_began_fast_may_not_trickle)
{
    struct buf begin = {0};

    buf_append_str(&begin, "POST /raft HTTP/1.1\r\n" FROM_TWO "Content-Length: 9000000\r\n\r\n");
    memset(buf_extend(&begin, 8 * MIB), 0xff, 8 * MIB);
    CHECK(trickle_ms(buf_bytes(&begin)) <= 2 * PEER_PORT_PACE_MS + 3500);
    buf_free(&begin);
}

/* A tenth of a megabit each tenth of a second, for longer than any head may take. */
TEST(a_post_over_a_link_of_a_megabit_is_taken)
{
    enum { BYTES_ALL = 2500000, BYTES_AT_ONCE = 12500 };
    struct peer_rig *r = peer_rig_lonely();
    struct buf head = {0}, piece = {0};

    buf_printf(&head, "POST /raft HTTP/1.1\r\n" FROM_TWO "Content-Length: %d\r\n\r\n", BYTES_ALL);
    memset(buf_extend(&piece, BYTES_AT_ONCE), 0xff, BYTES_AT_ONCE);
    struct rig_raw *raw = peer_rig_raw_open(r, 1, buf_bytes(&head));
    for (unsigned sent = 0; sent < BYTES_ALL; sent += BYTES_AT_ONCE) {
        peer_rig_run_ms(r, 100);
        peer_rig_raw_say(raw, buf_bytes(&piece));
    }
    peer_rig_run_ms(r, 100);

    CHECK(strstr(buf_str(&raw->got), "HTTP/1.1 400 ")); /* whole, and no message */
    peer_rig_raw_close(r, raw);
    buf_free(&head);
    buf_free(&piece);
    peer_rig_close(r);
}

/* Messages by posts of somebody who is no member wait together, in bounds. */
TEST(posts_of_strangers_are_bounded)
{
    struct peer_rig *r = peer_rig_lonely();
    struct raft_message m = {.type = RAFT_MSG_VOTE, .from = 0x99, .to = peer_rig_id(1)};
    struct peers *p = r->at[1].peers;
    unsigned full = 0;

    for (unsigned i = 0; i < 2 * PEER_IN_MESSAGES_MAX; i++)
        full += peers_received(p, NULL, &m, 100) == RECEIPT_FULL;
    CHECK_EQ(full, PEER_IN_MESSAGES_MAX);
    peers_check(p);
    r->at[1].is_silent = true;
    peer_rig_run_ms(r, 1);
    CHECK_EQ(p->strangers.count, 0);
    peer_rig_close(r);
}

/* --- requests of the server --- */

TEST(other_paths_are_the_servers)
{
    struct peer_rig *r = peer_rig_lonely();
    struct rig_raw *raw = peer_rig_raw_open(
        r, 1,
        BYTES("GET /members/hashkv?x=1 HTTP/1.1\r\nHost: x\r\nX-Etcd-Cluster-ID: abcd\r\n"
              "Authorization: token\r\nContent-Length: 2\r\n\r\n{}"
              "POST /nothing HTTP/1.1\r\nHost: x\r\n\r\n"));

    peer_rig_until(r, &r->at[1].heard_count, 1);
    peer_rig_run_ms(r, 6000); /* the server may think for as long as it likes */
    CHECK_EQ(raw->closed, 0);
    peers_respond(r->at[1].peers, r->at[1].last_request,
                  &(struct peer_response){.status = 200,
                                          .content_type = "application/json",
                                          .body = BYTES("{\"hash\":7}"),
                                          .with_cluster_id = true});
    peer_rig_until(r, &r->at[1].heard_count, 2);
    peers_respond(r->at[1].peers, r->at[1].last_request,
                  &(struct peer_response){.status = 405,
                                          .content_type = "text/plain; charset=utf-8",
                                          .allow = "GET",
                                          .body = BYTES("Method Not Allowed\n")});
    peer_rig_run_ms(r, 100);

    CHECK_STR(buf_str(&r->at[1].heard),
              "request GET /members/hashkv body={} cluster=abcd auth=token\n"
              "request POST /nothing body= cluster= auth=\n");
    const char *text = buf_str(&raw->got);
    CHECK(strstr(text, "{\"hash\":7}HTTP/1.1 405 Method Not Allowed\r\n"));
    CHECK(strstr(text, "Allow: GET\r\n"));
    CHECK(strstr(text, "Content-Type: application/json\r\n" CLUSTER));
    peer_rig_raw_close(r, raw);

    /* One who does not wait for the response. */
    raw = peer_rig_raw_open(r, 1, BYTES("GET /version HTTP/1.1\r\nHost: x\r\n\r\n"));
    peer_rig_until(r, &r->at[1].heard_count, 3);
    peer_rig_raw_close(r, raw);
    peer_rig_run_ms(r, PEER_LINGER_MS + 100);
    CHECK_EQ(r->at[1].peers->requests.count, 0);
    peers_respond(r->at[1].peers, r->at[1].last_request, &(struct peer_response){.status = 200});
    peer_rig_close(r);
}

TEST(an_unknown_path_of_rafts_is_not_found)
{
    struct peer_rig *r = peer_rig_lonely();

    check_response(r, with("GET /raft/", "Host", "x"), false,
                   refused("404 Not Found", "", "404 page not found"));
    check_response(r, with("GET /raft/x", "Host", "x"), false,
                   refused("404 Not Found", "", "404 page not found"));
    peer_rig_close(r);
}
