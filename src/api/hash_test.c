#include "api/api_rig_test.h"

#include <stdio.h>

#define HASH_KV "/etcdserverpb.Maintenance/HashKV", &pb_hash_kv_request_schema

static void put_many(struct api_rig *k, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%04u", i);
        struct pb_put_request put = {.key = bytes_of_str(key)};
        api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
    }
}

/* The hash has the tombstones of the delete; and api does not spin until they are stored. */
TEST(hashkv_waits_for_a_large_delete_to_be_settled)
{
    struct api_rig k;
    struct visit v;
    struct mvcc_hash h = {0};
    struct arena arena = {0};
    struct pb_hash_kv_response response;
    api_rig_open(&k);
    struct mvcc *m = k.apply_rig.mvcc;
    put_many(&k, MVCC_RANGE_TOMBSTONE_KEYS_MIN + 10);
    struct pb_delete_range_request all = {.key = BYTES("\0"), .range_end = BYTES("\0")};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.delete_range = &all});
    CHECK(mvcc_is_settling(m));

    api_rig_ask(&k, &v, HASH_KV, &(struct pb_hash_kv_request){0});
    api_rig_for_ms(&k, 1000);
    CHECK(!v.is_over);
    CHECK_EQ(api_status(k.api).reads, 0);
    while (!mvcc_settle_some(m, 100))
        ;
    api_rig_until_over(&k, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_decode(&v, 0, &pb_hash_kv_response_schema, &arena, &response);
    CHECK_EQ(mvcc_hash_open(m, &h), MVCC_OK);
    while (!mvcc_hash_some(m, &h, 1000))
        ;
    CHECK_EQ(response.hash, h.hash);
    CHECK_EQ(response.hash_revision, MVCC_RANGE_TOMBSTONE_KEYS_MIN + 12);

    mvcc_hash_close(m, &h);
    arena_free(&arena);
    visit_free(&v);
    api_rig_close(&k);
}

/* Whoever goes while it is hashed leaves no pin behind. */
TEST(hashkv_is_left_by_its_client)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    put_many(&k, 1000);
    api_rig_for_ms(&k, 100); /* it has connected */
    k.api_steps = 1;

    api_rig_ask(&k, &v, HASH_KV, &(struct pb_hash_kv_request){0});
    while (mvcc_status(k.apply_rig.mvcc).pins == 0) {
        api_rig_turn(&k);
        fake_world_step(k.world);
    }
    visit_free(&v);
    api_rig_for_ms(&k, 1000);
    CHECK_EQ(mvcc_status(k.apply_rig.mvcc).pins, 0);

    api_rig_close(&k);
}
