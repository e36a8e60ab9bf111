#include "lease/lease_rig_test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

#include <stdlib.h>

enum { IDS = 3000, MIN_TTL = 1 };

struct fate {
    bool there, was_there_at_first, went;
    unsigned listed;
    uint64_t order; /* in which it is to be listed: by time, or by grant */
};

static struct fate fates[IDS + 1];

/* Without the rig's checks after each, which look at all of them. */
static void grant_or_revoke(struct lease_rig *r, int64_t id, int64_t ttl)
{
    int64_t granted_ttl;

    backend_entry_begin(r->backend);
    if (ttl > 0) {
        CHECK_EQ(lease_grant(r->set, id, ttl, r->now_ms, &granted_ttl), LEASE_OK);
    } else {
        CHECK_EQ(lease_revoke_begin(r->set, id), LEASE_OK);
        lease_revoke_end(r->set, id);
    }
    r->index++;
    backend_entry_end(r->backend, (struct backend_position){r->index, 1}, (struct bytes){0});
    fates[id].there = ttl > 0;
    fates[id].went |= ttl <= 0;
}

static void open_with_leases(struct lease_rig *r, struct rng *rng, bool leads)
{
    lease_rig_open(r, &(struct lease_options){.min_ttl = MIN_TTL, .hash_seed = rng_next(rng)});
    if (leads)
        lease_promote(r->set, r->now_ms, 0);
    memset(fates, 0, sizeof(fates));
    for (int64_t n = 0; n < IDS; n++) {
        int64_t id = (n * 1009) % IDS + 1, ttl = 100 + (n * 37) % 500;
        if (rng_chance(rng, 1, 3))
            continue;
        grant_or_revoke(r, id, ttl);
        fates[id].was_there_at_first = true;
        fates[id].order = leads ? (uint64_t)ttl << 32 | (uint64_t)id : (uint64_t)n;
    }
}

static void change_some(struct lease_rig *r, struct rng *rng, unsigned count)
{
    while (count-- > 0) {
        int64_t id = 1 + (int64_t)rng_below(rng, IDS);
        grant_or_revoke(r, id, fates[id].there ? 0 : 60);
    }
}

static void check_listed(struct lease_listing *l)
{
    uint64_t last = 0;
    int64_t id;

    while (lease_listing_next(l, &id)) {
        CHECK(id >= 1 && id <= IDS);
        CHECK(fates[id].was_there_at_first);
        CHECK_EQ(++fates[id].listed, 1);
        CHECK(last == 0 || fates[id].order > last);
        last = fates[id].order;
    }
    for (id = 1; id <= IDS; id++)
        CHECK(!fates[id].was_there_at_first || fates[id].went || fates[id].listed == 1);
}

/* A lease that is granted again under the id of a revoked one is another lease. */
TEST(a_lease_that_stays_is_listed_once_whatever_happens_between_slices)
{
    struct rng rng;

    rng_seed(&rng, test_seed());
    for (unsigned run = 0; run < 20; run++) {
        struct lease_rig r;
        open_with_leases(&r, &rng, run % 2);
        struct lease_listing *l = lease_listing_begin(r.set);
        for (unsigned steps = 0; !lease_listing_gather(l, &steps);) {
            change_some(&r, &rng, (unsigned)rng_below(&rng, run % 4 < 2 ? 60 : 5));
            steps = 1 + (unsigned)rng_below(&rng, 50);
        }
        change_some(&r, &rng, 100);
        check_listed(l);
        lease_listing_end(l);
        lease_rig_close(&r);
    }
}

/* Slices of a step are no shorter than a chain, which is a lease or two. */
TEST(a_slice_of_a_listing_takes_no_more_steps_than_it_may)
{
    enum { STEPS = 50 };
    struct lease_rig r;
    struct rng rng;
    unsigned slices = 0;
    rng_seed(&rng, test_seed());
    open_with_leases(&r, &rng, true);
    struct lease_listing *l = lease_listing_begin(r.set);

    for (unsigned steps = STEPS; !lease_listing_gather(l, &steps); steps = STEPS) {
        CHECK_EQ(steps, 0);
        slices++;
    }
    CHECK(slices >= lease_count(r.set) / (STEPS + 10));
    CHECK(slices <= lease_count(r.set) / STEPS + IDS * 2 / LEASE_LISTING_BUCKETS / STEPS + 2);
    check_listed(l);

    lease_listing_end(l);
    lease_rig_close(&r);
}

TEST(a_listing_may_be_ended_at_any_moment)
{
    struct lease_rig r;
    struct rng rng;
    int64_t id;
    rng_seed(&rng, test_seed());
    open_with_leases(&r, &rng, true);

    lease_listing_end(lease_listing_begin(r.set));
    struct lease_listing *l = lease_listing_begin(r.set);
    CHECK(!lease_listing_gather(l, &(unsigned){700}));
    lease_listing_end(l);
    l = lease_listing_begin(r.set);
    CHECK(lease_listing_gather(l, &(unsigned){2 * IDS}));
    CHECK(lease_listing_next(l, &id));
    lease_listing_end(l);
    lease_listing_end(NULL);

    lease_rig_close(&r);
}
