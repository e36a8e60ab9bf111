#include "apply/apply_rig_test.h"

static void check_stats(struct apply_rig *d, struct apply_stats expected)
{
    const struct apply_stats *s = apply_stats(d->apply);

    CHECK_EQ(s->ranges, expected.ranges);
    CHECK_EQ(s->puts, expected.puts);
    CHECK_EQ(s->deletes, expected.deletes);
    CHECK_EQ(s->txns, expected.txns);
    CHECK_EQ(s->put_bytes, expected.put_bytes);
}

/* As etcd does: the figures were read off its own, after the same requests. */
TEST(operations_are_counted_as_etcd_counts_them)
{
    struct apply_rig d;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    struct pb_put_request put = {.key = BYTES("a"), .value = BYTES("22"), .prev_kv = true};
    struct pb_range_request range = {.key = BYTES("a")};
    struct pb_compare compare = {.key = BYTES("a"), .target = PB_TARGET_VERSION};
    struct pb_request_op ops[] = {{.which = PB_OP_PUT, .put = &put},
                                  {.which = PB_OP_RANGE, .range = &range}};
    struct pb_txn_request txn = {0};
    txn.compare.at = &compare;
    txn.compare.count = 1;
    txn.failure.at = ops;
    txn.failure.count = 2;

    CHECK_EQ(apply_rig_put(&d, "a", "1", 0), RESULT_OK);
    check_stats(&d, (struct apply_stats){.puts = 1, .put_bytes = 2});
    CHECK_EQ(apply_rig_put(&d, "b", "1", 77), RESULT_LEASE_NOT_FOUND);
    check_stats(&d, (struct apply_stats){.puts = 1, .put_bytes = 2});
    /* a put that shows what was there has looked it up, and is two operations */
    struct pb_internal_raft_request request = {.put = &put};
    CHECK_EQ(apply_rig_do(&d, &request), RESULT_OK);
    check_stats(&d, (struct apply_stats){.ranges = 1, .puts = 2, .txns = 1, .put_bytes = 5});
    /* a compare and the check's look: two; the put, its look and the range: three */
    request = (struct pb_internal_raft_request){.txn = &txn};
    CHECK_EQ(apply_rig_do(&d, &request), RESULT_OK);
    check_stats(&d, (struct apply_stats){.ranges = 5, .puts = 3, .txns = 3, .put_bytes = 8});
    request = (struct pb_internal_raft_request){.compaction =
                                                    &(struct pb_compaction_request){.revision = 2}};
    CHECK_EQ(apply_rig_do(&d, &request), RESULT_OK);
    CHECK_EQ(apply_rig_do(&d, &request), RESULT_COMPACTED);
    check_stats(&d, (struct apply_stats){.ranges = 6, .puts = 3, .txns = 3, .put_bytes = 8});
    CHECK_EQ(apply_rig_delete(&d, "a", "z"), RESULT_OK);
    check_stats(
        &d, (struct apply_stats){.ranges = 6, .puts = 3, .deletes = 1, .txns = 3, .put_bytes = 8});

    apply_rig_free(&d);
}
