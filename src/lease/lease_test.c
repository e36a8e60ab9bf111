#include "lease/lease_rig_test.h"

#include "base/buf.h"
#include "harness/test.h"

#include <stdio.h>

static void open_rig(struct lease_rig *r)
{
    lease_rig_open(r, &(struct lease_options){.min_ttl = 2});
}

/* --- what lies in the store --- */

static void put_record(struct lease_rig *r, struct bytes key, struct bytes value)
{
    backend_put(r->backend, BUCKET_LEASE, key, value);
}

static void check_refused(struct lease_rig *r, const char *want)
{
    struct lease_set *set = NULL;
    struct buf why = {0};

    CHECK_EQ(lease_open(&r->options, &why, &set), ERR_CORRUPT);

    CHECK_STR(buf_str(&why), want);
    CHECK(set == NULL);
    buf_free(&why);
    lease_rig_close(r);
}

TEST(a_record_of_etcd_is_read_and_a_short_ttl_raised)
{
    struct lease_rig r;
    open_rig(&r);

    put_record(&r, BYTES("\x12\x34\x56\x78\x9a\xbc\xde\xf0"),
               BYTES("\x08\xf0\xbd\xf3\xd5\x89\xcf\x95\x9a\x12\x10\x01\x18\x05"));
    lease_rig_restart(&r);

    struct lease_info info = lease_rig_look(&r, 0x123456789abcdef0);
    CHECK_EQ(info.granted_ttl, 2);
    lease_promote(r.set, 0, 0);
    CHECK_EQ(lease_rig_look(&r, 0x123456789abcdef0).remaining, 5);
    lease_rig_close(&r);
}

TEST(a_grant_is_written_as_etcd_writes_it)
{
    struct lease_rig r;
    struct backend_view v;
    struct bytes value;
    open_rig(&r);

    CHECK_EQ(lease_rig_grant(&r, 0x123456789abcdef0, 300), LEASE_OK);

    backend_view_open(r.backend, &v);
    CHECK_EQ(backend_get(&v, BUCKET_LEASE, BYTES("\x12\x34\x56\x78\x9a\xbc\xde\xf0"), &value),
             ERR_OK);
    CHECK_BYTES(value, BYTES("\x08\xf0\xbd\xf3\xd5\x89\xcf\x95\x9a\x12\x10\xac\x02"));
    backend_view_close(&v);
    lease_rig_close(&r);
}

TEST(a_record_with_a_short_key_is_refused)
{
    struct lease_rig r;
    open_rig(&r);

    put_record(&r, BYTES("\x01\x02"), BYTES("\x08\x01\x10\x05"));

    check_refused(&r, "lease: the record 0102 has a key that is no lease id");
}

TEST(a_record_that_is_no_protobuf_is_refused)
{
    struct lease_rig r;
    open_rig(&r);

    put_record(&r, BYTES("\0\0\0\0\0\0\0\1"), BYTES("\x08"));

    check_refused(&r, "lease: the record 0000000000000001 cannot be decoded");
}

TEST(a_record_about_another_lease_is_refused)
{
    struct lease_rig r;
    open_rig(&r);

    put_record(&r, BYTES("\0\0\0\0\0\0\0\1"), BYTES("\x08\x02\x10\x05"));

    check_refused(&r, "lease: the record 0000000000000001 is about another lease");
}

TEST(a_record_of_lease_nought_is_refused)
{
    struct lease_rig r;
    open_rig(&r);

    put_record(&r, BYTES("\0\0\0\0\0\0\0\0"), BYTES("\x10\x05"));

    check_refused(&r, "lease: the record 0000000000000000 is about another lease");
}

TEST(times_beyond_any_bound_are_merely_long)
{
    struct lease_rig r;
    open_rig(&r);

    /* TTL and RemainingTTL of 2^63 - 1. */
    put_record(&r, BYTES("\0\0\0\0\0\0\0\1"),
               BYTES("\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
                     "\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
    lease_rig_restart(&r);
    lease_promote(r.set, 1000, 1000);

    CHECK_EQ(lease_rig_look(&r, 1).remaining, LEASE_TTL_MAX + 2);
    CHECK(lease_rig_renews(&r, 1));
    lease_rig_checkpoint(&r, 1, INT64_MIN);
    lease_promote(r.set, 1000, 0);
    CHECK_EQ(lease_rig_look(&r, 1).remaining, LEASE_TTL_MAX + 1);
    lease_rig_close(&r);
}

/* --- many --- */

static void grant_many(struct lease_rig *r, int64_t count, int64_t ttl)
{
    int64_t granted_ttl;

    backend_entry_begin(r->backend);
    for (int64_t id = 1; id <= count; id++)
        CHECK_EQ(lease_grant(r->set, id, ttl, r->now_ms, &granted_ttl), LEASE_OK);
    r->index++;
    backend_entry_end(r->backend, (struct backend_position){r->index, 1}, (struct bytes){0});
    lease_check(r->set);
}

TEST(no_more_than_five_hundred_are_to_be_revoked_at_a_time)
{
    struct lease_rig r;
    int64_t ids[LEASE_REVOKES_MAX + 1];
    open_rig(&r);

    lease_promote(r.set, 0, 0);
    grant_many(&r, 1100, 10);
    r.now_ms = 10000;

    CHECK_EQ(lease_take_expired(r.set, r.now_ms, ids, ARRAY_LEN(ids)), 500);
    CHECK_EQ(ids[0], 1);
    CHECK_EQ(ids[499], 500);
    CHECK_EQ(lease_take_expired(r.set, r.now_ms, ids, 3), 3);
    CHECK_EQ(ids[2], 503);
    CHECK_EQ(lease_take_expired(r.set, r.now_ms, ids, ARRAY_LEN(ids)), 500);
    CHECK_EQ(lease_take_expired(r.set, r.now_ms, ids, ARRAY_LEN(ids)), 97);
    CHECK_EQ(lease_take_expired(r.set, r.now_ms, ids, ARRAY_LEN(ids)), 0);
    lease_rig_close(&r);
}

static size_t expired_at(struct lease_rig *r, uint64_t now_ms)
{
    int64_t ids[LEASE_REVOKES_MAX];
    size_t sum = 0, count;

    while ((count = lease_take_expired(r->set, now_ms, ids, LEASE_REVOKES_MAX)) > 0)
        sum += count;
    return sum;
}

TEST(a_pile_of_expiries_is_spread_out_by_a_new_leader)
{
    struct lease_rig r;
    open_rig(&r);

    grant_many(&r, 2000, 10);
    lease_promote(r.set, 0, 1000);
    while (!lease_settle(r.set, 100))
        lease_check(r.set);

    CHECK_EQ(expired_at(&r, 10999), 0);
    CHECK_EQ(expired_at(&r, 11000), 750);
    CHECK_EQ(expired_at(&r, 11999), 0);
    CHECK_EQ(expired_at(&r, 12000), 1);
    CHECK_EQ(expired_at(&r, 12999), 749);
    CHECK_EQ(expired_at(&r, 13666), 500);
    lease_check(r.set);
    lease_rig_close(&r);
}

TEST(fewer_than_a_thousand_are_left_in_their_pile)
{
    struct lease_rig r;
    open_rig(&r);

    grant_many(&r, 999, 10);
    lease_promote(r.set, 0, 0);
    while (!lease_settle(r.set, 500))
        ;

    CHECK_EQ(expired_at(&r, 9999), 0);
    CHECK_EQ(expired_at(&r, 10000), 999);
    lease_rig_close(&r);
}

TEST(piles_that_lie_apart_are_spread_each_for_itself)
{
    struct lease_rig r;
    open_rig(&r);

    grant_many(&r, 900, 10);
    for (int64_t id = 901; id <= 1800; id++) {
        int64_t granted_ttl;
        CHECK_EQ(lease_grant(r.set, id, 100, 0, &granted_ttl), LEASE_OK);
    }
    lease_promote(r.set, 0, 0);
    while (!lease_settle(r.set, 500))
        ;

    CHECK_EQ(expired_at(&r, 10000), 750);
    CHECK_EQ(expired_at(&r, 10999), 0);
    CHECK_EQ(expired_at(&r, 12000), 150);
    for (int64_t id = 1; id <= 900; id++)
        CHECK_EQ(lease_revoke_begin(r.set, id), LEASE_OK);
    CHECK_EQ(expired_at(&r, 99999), 0);
    CHECK_EQ(expired_at(&r, 100000), 750);
    lease_check(r.set);
    lease_rig_close(&r);
}

/* --- while a promotion is being settled --- */

TEST(nothing_expires_before_everything_is_settled)
{
    enum { LEASES = 3 * LEASE_SETTLE_STEPS };
    struct lease_rig r;
    int64_t ids[LEASE_REVOKES_MAX];
    open_rig(&r);

    grant_many(&r, LEASES, 10);
    lease_promote(r.set, 0, 0);
    lease_check(r.set);

    /* Six slices' worth of steps: one was done by the promotion, the last by the sixth call here,
     * which then has the first ones to give. */
    for (int i = 0; i < 4; i++)
        CHECK_EQ(lease_take_expired(r.set, 60000, ids, LEASE_REVOKES_MAX), 0);
    CHECK_EQ(lease_take_expired(r.set, 60000, ids, LEASE_REVOKES_MAX), 500);
    CHECK_EQ(ids[0], 1);
    lease_check(r.set);
    lease_rig_close(&r);
}

TEST(leases_whose_turn_has_not_come_are_as_good_as_others)
{
    enum { LEASES = 2 * LEASE_SETTLE_STEPS };
    struct lease_rig r;
    open_rig(&r);

    grant_many(&r, LEASES, 10);
    lease_promote(r.set, 0, 1000);

    r.now_ms = 3000;
    CHECK_EQ(lease_rig_look(&r, LEASES).remaining, 8);
    CHECK(lease_rig_renews(&r, LEASES));
    CHECK_EQ(lease_rig_look(&r, LEASES).remaining, 10);
    CHECK(lease_rig_renews(&r, 1)); /* settled but not spread */
    CHECK_EQ(lease_rig_look(&r, 1).remaining, 10);
    CHECK_EQ(lease_rig_revoke(&r, 2), LEASE_OK);
    CHECK_EQ(lease_rig_revoke(&r, LEASES - 1), LEASE_OK);
    CHECK_EQ(lease_rig_grant(&r, LEASES + 1, 5), LEASE_OK);
    while (!lease_settle(r.set, 300))
        lease_check(r.set);

    CHECK_EQ(lease_rig_look(&r, LEASES).remaining, 10);
    CHECK_EQ(lease_rig_look(&r, 1).remaining, 10);
    CHECK_EQ(lease_rig_look(&r, LEASES + 1).remaining, 5);
    lease_rig_close(&r);
}

TEST(a_revoke_moves_on_where_settling_stands)
{
    struct lease_rig r;
    open_rig(&r);

    grant_many(&r, LEASE_SETTLE_STEPS + 3, 10);
    lease_promote(r.set, 0, 0);
    CHECK_EQ(lease_rig_revoke(&r, LEASE_SETTLE_STEPS + 1), LEASE_OK);
    CHECK_EQ(lease_rig_revoke(&r, LEASE_SETTLE_STEPS + 3), LEASE_OK);
    CHECK_EQ(lease_rig_revoke(&r, LEASE_SETTLE_STEPS + 2), LEASE_OK);
    while (!lease_settle(r.set, 300))
        lease_check(r.set);

    CHECK_EQ(lease_count(r.set), LEASE_SETTLE_STEPS);
    lease_rig_close(&r);
}

TEST(a_demotion_in_the_middle_leaves_nothing_behind)
{
    struct lease_rig r;
    int64_t ids[LEASE_REVOKES_MAX];
    open_rig(&r);

    grant_many(&r, 2 * LEASE_SETTLE_STEPS, 10);
    lease_promote(r.set, 0, 0);
    lease_demote(r.set);
    lease_check(r.set);
    CHECK(lease_settle(r.set, 1));
    CHECK_EQ(lease_take_expired(r.set, 60000, ids, LEASE_REVOKES_MAX), 0);

    lease_promote(r.set, 60000, 0);
    while (!lease_settle(r.set, 300))
        lease_check(r.set);
    CHECK_EQ(lease_take_expired(r.set, 69999, ids, LEASE_REVOKES_MAX), 0);
    CHECK_EQ(lease_take_expired(r.set, 70000, ids, LEASE_REVOKES_MAX), 500);
    lease_rig_close(&r);
}

/* --- a revoke in slices --- */

TEST(a_lease_whose_revoke_has_begun_is_there_but_cannot_be_renewed)
{
    struct lease_rig r;
    struct bytes key;
    int64_t ids[LEASE_REVOKES_MAX];
    open_rig(&r);
    lease_promote(r.set, 0, 0);
    CHECK_EQ(lease_rig_grant(&r, 7, 10), LEASE_OK);
    CHECK_EQ(lease_rig_attach(&r, 7, "b"), LEASE_OK);
    CHECK_EQ(lease_rig_attach(&r, 7, "a"), LEASE_OK);

    CHECK_EQ(lease_revoke_begin(r.set, 7), LEASE_OK);
    CHECK(lease_first_key(r.set, 7, &key));
    CHECK_BYTES(key, BYTES("a"));
    lease_detach(r.set, key);
    lease_check(r.set);

    struct lease_info info = lease_rig_look(&r, 7);
    CHECK_EQ(info.key_count, 1);
    CHECK(info.expired);
    CHECK_EQ(info.remaining, 10);
    CHECK(!lease_rig_renews(&r, 7));
    CHECK_EQ(lease_take_expired(r.set, 60000, ids, LEASE_REVOKES_MAX), 0);

    /* We lose leadership and win it again before the last slice. */
    lease_demote(r.set);
    lease_promote(r.set, 1000, 0);
    lease_check(r.set);
    CHECK_EQ(lease_take_expired(r.set, 60000, ids, LEASE_REVOKES_MAX), 0);
    CHECK_DIES(lease_revoke_end(r.set, 7), "l->keys.count == 0");
    CHECK_DIES(lease_attach(r.set, 7, BYTES("c")), "!l->revoking");
    lease_detach(r.set, BYTES("b"));
    lease_revoke_end(r.set, 7);
    lease_check(r.set);
    CHECK_EQ(lease_count(r.set), 0);
    lease_rig_close(&r);
}

TEST(keys_of_any_bytes_are_walked_in_order)
{
    struct lease_rig r;
    struct bytes key = {0};
    static const struct bytes keys[] = {
        {(const uint8_t *)"", 0},  {(const uint8_t *)"\0", 1},  {(const uint8_t *)"\0\0", 2},
        {(const uint8_t *)"a", 1}, {(const uint8_t *)"a\0", 2}, {(const uint8_t *)"\xff\xff", 2},
    };
    open_rig(&r);
    CHECK_EQ(lease_rig_grant(&r, 7, 10), LEASE_OK);

    for (size_t i = ARRAY_LEN(keys); i-- > 0;)
        CHECK_EQ(lease_attach(r.set, 7, keys[i]), LEASE_OK);

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        CHECK(lease_next_key(r.set, 7, key, &key));
        CHECK_BYTES(key, keys[i]);
    }
    CHECK(!lease_next_key(r.set, 7, key, &key));
    CHECK(!lease_next_key(r.set, 8, key, &key));
    lease_rig_close(&r);
}
