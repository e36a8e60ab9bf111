#include "harness/peer_test.h"
#include "rpc/rpc_rig_test.h"

#include <stdio.h>
#include <string.h>

/* The same bytes to real etcd and to us: what is refused before any method sees it must be refused
 * alike. And our client against the real server. */

struct probe {
    const char *what;
    const char *path, *name, *value; /* one field more, or NULL */
    const char *data;
    size_t data_len;
    bool no_data, ends;
};

#define PAYLOAD(literal) .data = (literal), .data_len = sizeof(literal) - 1

static const struct probe probes[] = {
    {"unknown service", "/nobody.Knows/It", PAYLOAD("\0\0\0\0\0"), .ends = true},
    {"unknown method", "/etcdserverpb.KV/Sing", PAYLOAD("\0\0\0\0\0"), .ends = true},
    {"two slashes", "/a/b/c", PAYLOAD("\0\0\0\0\0"), .ends = true},
    {"one slash", "/justone", PAYLOAD("\0\0\0\0\0"), .ends = true},
    {"no method", "/etcdserverpb.KV/", PAYLOAD("\0\0\0\0\0"), .ends = true},
    {"json", "/etcdserverpb.KV/Range", "content-type", "application/json", .no_data = true},
    {"almost grpc", "/etcdserverpb.KV/Range", "content-type", "application/grpcx", .no_data = true},
    {"no content type", "/etcdserverpb.KV/Range", "x-a", "b", .no_data = true, .ends = true},
    {"timeout unit", "/etcdserverpb.KV/Range", "grpc-timeout", "10x", .no_data = true},
    {"timeout digits", "/etcdserverpb.KV/Range", "grpc-timeout", "1.5S", .no_data = true},
    {"timeout short", "/etcdserverpb.KV/Range", "grpc-timeout", "S", .no_data = true},
    {"timeout long", "/etcdserverpb.KV/Range", "grpc-timeout", "1234567890S", .no_data = true},
    {"no time left", "/etcdserverpb.KV/Range", "grpc-timeout", "0S", .no_data = true},
    {"snappy", "/etcdserverpb.KV/Range", "grpc-encoding", "snappy", PAYLOAD("\0\0\0\0\0"),
     .ends = true},
    {"snappy stream", "/etcdserverpb.Watch/Watch", "grpc-encoding", "snappy", PAYLOAD("\0\0\0\0\0"),
     .ends = true},
    {"too large", "/etcdserverpb.KV/Range", PAYLOAD("\0\xff\xff\xff\xff")},
    {"too large stream", "/etcdserverpb.Watch/Watch", PAYLOAD("\0\xff\xff\xff\xff")},
    {"too large snapshot", "/etcdserverpb.Maintenance/Snapshot", PAYLOAD("\0\xff\xff\xff\xff")},
    {"no message", "/etcdserverpb.KV/Range", PAYLOAD(""), .ends = true},
    {"half a message", "/etcdserverpb.KV/Range", PAYLOAD("\0\0\0\0\5abc"), .ends = true},
    {"half a prefix", "/etcdserverpb.KV/Range", PAYLOAD("\0\0"), .ends = true},
    {"half a message stream", "/etcdserverpb.Watch/Watch", PAYLOAD("\0\0\0\0\5abc"), .ends = true},
    {"snapshot, no message", "/etcdserverpb.Maintenance/Snapshot", PAYLOAD(""), .ends = true},
    {"snapshot, two messages", "/etcdserverpb.Maintenance/Snapshot",
     PAYLOAD("\0\0\0\0\0\0\0\0\0\0"), .ends = true},
    {"format 2", "/etcdserverpb.KV/Range", PAYLOAD("\2\0\0\0\1x"), .ends = true},
    {"packed, not said", "/etcdserverpb.KV/Range", PAYLOAD("\1\0\0\0\1x"), .ends = true},
    {"packed badly", "/etcdserverpb.KV/Range", "grpc-encoding", "gzip", PAYLOAD("\1\0\0\0\1x"),
     .ends = true},
    {"packed nothing", "/etcdserverpb.KV/Range", "grpc-encoding", "gzip", PAYLOAD("\1\0\0\0\0"),
     .ends = true},
    {"packed, no header", "/etcdserverpb.KV/Range", "grpc-encoding", "gzip",
     PAYLOAD("\1\0\0\0\x14"
             "01234567890123456789"),
     .ends = true},
};

static void put_probe(const struct probe *p, struct buf *out)
{
    struct buf more = {0};

    if (p->name) {
        if (strcmp(p->name, "content-type") != 0 && strcmp(p->name, "x-a") != 0)
            field_put(&more, "content-type", "application/grpc");
        field_put(&more, p->name, p->value);
    }
    frame_preface(out);
    frame_request(out, 1, p->path, p->no_data && p->ends, buf_bytes(&more));
    if (!p->no_data)
        frame_put(out, 0, p->ends, 1, bytes_of(p->data, p->data_len));
    buf_free(&more);
}

/* Sends the probe to the address and waits until stream 1 has a status. */
static void ask(struct rpc_rig *r, const struct net_address *to, const struct probe *p,
                struct buf *fields)
{
    struct net_address ours = r->address;
    struct raw raw = {0};
    struct buf out = {0};

    put_probe(p, &out);
    r->address = *to;
    raw_connect(r, &raw);
    raw_send(&raw, buf_bytes(&out));
    while (!strstr(buf_str(fields), "grpc-message") && !raw.ended && !raw.closed) {
        rpc_rig_step(r);
        buf_clear(fields);
        fields_found(buf_bytes(&raw.got), 1, fields);
    }
    raw_close(r, &raw);
    r->address = ours;
    buf_free(&out);
}

static void out_of_patience(struct timer *t)
{
    (void)t;
    test_fail(__FILE__, __LINE__, "no answer");
}

TEST(calls_are_refused_as_etcd_refuses_them)
{
    struct peer etcd;
    struct rpc_rig r;
    struct net_address real;
    struct timer patience = {.on_time = out_of_patience};
    unsigned different = 0;
    peer_open(&etcd, test_tmp_dir());
    peer_start(&etcd, "");
    CHECK_EQ(net_address_parse(etcd.client_url + strlen("http://"), &real), ERR_OK);
    rpc_rig_open_real(&r);
    timer_start(r.io->clock, &patience, 20 * NS_PER_S);

    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        struct buf want = {0}, got = {0};
        ask(&r, &real, &probes[i], &want);
        ask(&r, &r.address, &probes[i], &got);
        if (strcmp(buf_str(&got), buf_str(&want)) != 0) {
            printf("%s: etcd says\n%s\nwe say\n%s\n", probes[i].what, buf_str(&want),
                   buf_str(&got));
            different++;
        }
        buf_free(&want);
        buf_free(&got);
    }

    CHECK_EQ(different, 0);
    timer_stop(r.io->clock, &patience);
    rpc_rig_close(&r);
    peer_stop(&etcd);
    peer_close(&etcd);
}

/* A KV.Put and a KV.Range by hand: field 1 the key, field 2 the value. */
TEST(our_client_speaks_to_real_etcd)
{
    struct peer etcd;
    struct rpc_rig r;
    struct answer put = {0}, range = {0}, lost = {0};
    peer_open(&etcd, test_tmp_dir());
    peer_start(&etcd, "");
    rpc_rig_open_real(&r);
    struct net_address ours = r.address;
    CHECK_EQ(net_address_parse(etcd.client_url + strlen("http://"), &r.address), ERR_OK);
    rpc_rig_connect(&r);

    client_ask(r.client,
               &(struct client_request){
                   .path = "/etcdserverpb.KV/Put", .timeout_ns = 5 * NS_PER_S, .context = &put},
               BYTES("\x0a\3key\x12\5value"));
    rpc_rig_until(&r, &put.ended, 1);
    client_ask(
        r.client,
        &(struct client_request){.path = "/etcdserverpb.KV/Range", .gzip = true, .context = &range},
        BYTES("\x0a\3key"));
    rpc_rig_until(&r, &range.ended, 1);
    client_ask(r.client,
               &(struct client_request){.path = "/etcdserverpb.KV/Range", .context = &lost},
               BYTES(""));
    rpc_rig_until(&r, &lost.ended, 1);

    CHECK_EQ(put.code, RPC_OK);
    CHECK_EQ(range.code, RPC_OK);
    CHECK(memmem(range.got.at, range.got.len, "value", 5));
    CHECK_EQ(lost.code, RPC_INVALID_ARGUMENT);
    CHECK_STR(buf_str(&lost.text), "etcdserver: key is not provided");
    answer_free(&put);
    answer_free(&range);
    answer_free(&lost);
    r.address = ours;
    rpc_rig_close(&r);
    peer_stop(&etcd);
    peer_close(&etcd);
}
