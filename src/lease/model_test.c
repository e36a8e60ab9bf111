/*
 * Random steps, and a slow model that is too simple to be wrong: a few leases in an array, each key
 * with the number of its lease. Everything the room says is compared after every step.
 */
#include "lease/lease_rig_test.h"

#include "base/buf.h"
#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

enum { LEASES = 40, KEYS = 30, MIN_TTL = 2, INTERVAL_MS = 7000 };

struct model_lease {
    bool there;
    int64_t ttl, remaining_ttl;
    int64_t recorded_remaining; /* in the store */
    uint64_t expires_ms;        /* while leading */
    uint64_t due_ms;
    uint64_t granted; /* in which order, where nobody leads */
};

struct model {
    struct lease_rig r;
    struct rng rng;
    struct model_lease leases[LEASES + 1]; /* by id; 0 is not used */
    unsigned lease_of[KEYS];
    bool ended[KEYS]; /* by a large delete, and not yet detached */
    bool primary;
    uint64_t step;
    uint64_t expiries, restarts, checkpoints, promotions;
};

static const char *key_name(unsigned key)
{
    static char name[8];

    snprintf(name, sizeof(name), "k%02u", key * 7 % KEYS);
    return name;
}

static unsigned some_id(struct model *m)
{
    return 1 + (unsigned)rng_below(&m->rng, LEASES);
}

static void do_grant(struct model *m)
{
    unsigned id = some_id(m);
    int64_t ttl = (int64_t)rng_between(&m->rng, 0, 20);
    struct model_lease *l = &m->leases[id];

    CHECK_EQ(lease_rig_grant(&m->r, id, ttl), l->there ? LEASE_EXISTS : LEASE_OK);
    if (l->there)
        return;
    *l = (struct model_lease){
        .there = true, .ttl = ttl < MIN_TTL ? MIN_TTL : ttl, .granted = m->step * 100};
    l->expires_ms = l->due_ms = m->r.now_ms + (uint64_t)l->ttl * 1000;
}

static void revoke(struct model *m, unsigned id)
{
    CHECK_EQ(lease_rig_revoke(&m->r, id), m->leases[id].there ? LEASE_OK : LEASE_NOT_FOUND);
    m->leases[id].there = false;
    for (unsigned key = 0; key < KEYS; key++)
        if (m->lease_of[key] == id) {
            m->lease_of[key] = 0;
            m->ended[key] = false;
        }
}

static void do_attach(struct model *m)
{
    unsigned most = rng_chance(&m->rng, 1, 2) ? 2 : LEASES; /* some have many keys */
    unsigned id = (unsigned)rng_below(&m->rng, most + 1);
    unsigned key = (unsigned)rng_below(&m->rng, KEYS);
    bool may = id == 0 || m->leases[id].there;

    CHECK_EQ(lease_rig_attach(&m->r, id, key_name(key)), may ? LEASE_OK : LEASE_NOT_FOUND);
    if (may) {
        m->lease_of[key] = id;
        m->ended[key] = false;
    }
}

static void do_detach(struct model *m)
{
    unsigned key = (unsigned)rng_below(&m->rng, KEYS);

    lease_rig_detach(&m->r, key_name(key));
    m->lease_of[key] = 0;
    m->ended[key] = false;
}

/* What the last one has ended is settled before the next. */
static void do_end_range(struct model *m)
{
    char from[8], to[8];
    bool has_end = rng_chance(&m->rng, 3, 4);

    for (unsigned key = 0; key < KEYS; key++)
        if (m->ended[key]) {
            lease_rig_detach(&m->r, key_name(key));
            m->lease_of[key] = 0;
            m->ended[key] = false;
        }
    snprintf(from, sizeof(from), "k%02u", (unsigned)rng_below(&m->rng, KEYS));
    snprintf(to, sizeof(to), "k%02u", (unsigned)rng_below(&m->rng, KEYS));
    lease_end_range(m->r.set, bytes_of_str(from), has_end ? bytes_of_str(to) : (struct bytes){0});
    for (unsigned key = 0; key < KEYS; key++)
        m->ended[key] = m->lease_of[key] && strcmp(key_name(key), from) >= 0 &&
                        (!has_end || strcmp(key_name(key), to) < 0);
}

static void do_renew(struct model *m)
{
    unsigned id = some_id(m);
    struct model_lease *l = &m->leases[id];
    int64_t ttl;
    bool needs_checkpoint;
    enum lease_result a = lease_renew(m->r.set, id, m->r.now_ms, &ttl, &needs_checkpoint);

    if (!m->primary) {
        CHECK_EQ(a, LEASE_NOT_PRIMARY);
    } else if (!l->there) {
        CHECK_EQ(a, LEASE_NOT_FOUND);
    } else if (l->expires_ms <= m->r.now_ms) {
        CHECK_EQ(a, LEASE_EXPIRED);
    } else {
        CHECK_EQ(a, LEASE_OK);
        CHECK_EQ(ttl, l->ttl);
        CHECK(needs_checkpoint || l->remaining_ttl == 0);
        l->expires_ms = l->due_ms = m->r.now_ms + (uint64_t)l->ttl * 1000;
        if (needs_checkpoint) {
            lease_rig_checkpoint(&m->r, id, 0);
            l->remaining_ttl = l->recorded_remaining = 0;
        }
    }
}

static void do_promote(struct model *m)
{
    uint64_t extend_ms = rng_below(&m->rng, 3000);

    lease_promote(m->r.set, m->r.now_ms, extend_ms);
    m->primary = true;
    m->promotions++;
    for (unsigned id = 1; id <= LEASES; id++) {
        struct model_lease *l = &m->leases[id];
        int64_t left = l->remaining_ttl > 0 ? l->remaining_ttl : l->ttl;
        l->expires_ms = l->due_ms = m->r.now_ms + extend_ms + (uint64_t)left * 1000;
    }
}

/* The one that is due first, ties by id; 0 if none is. */
static unsigned first_due(const struct model *m)
{
    unsigned best = 0;

    for (unsigned id = 1; id <= LEASES; id++) {
        const struct model_lease *l = &m->leases[id];
        if (l->there && l->due_ms <= m->r.now_ms && (!best || l->due_ms < m->leases[best].due_ms))
            best = id;
    }
    return best;
}

static void do_expire(struct model *m)
{
    int64_t ids[LEASE_REVOKES_MAX];
    size_t max = rng_between(&m->rng, 1, 5);
    size_t count = lease_take_expired(m->r.set, m->r.now_ms, ids, max);

    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(ids[i], first_due(m));
        m->leases[ids[i]].due_ms = m->r.now_ms + LEASE_RETRY_MS;
        m->expiries++;
    }
    CHECK(count == max || !m->primary || first_due(m) == 0);
    for (size_t i = 0; i < count; i++)
        if (rng_chance(&m->rng, 2, 3)) /* the others' revokes are lost */
            revoke(m, (unsigned)ids[i]);
}

static void do_checkpoints(struct model *m)
{
    struct lease_remaining told[10];
    size_t count = lease_take_checkpoints(m->r.set, m->r.now_ms, told, ARRAY_LEN(told));

    CHECK(count == 0 || m->primary);
    for (size_t i = 0; i < count; i++) {
        struct model_lease *l = &m->leases[told[i].id];
        int64_t left = ((int64_t)(l->expires_ms - m->r.now_ms) + 999) / 1000;
        CHECK(l->there);
        CHECK_EQ(told[i].remaining_ttl, left);
        CHECK(left > 0);
        CHECK(left < l->ttl);
        m->checkpoints++;
        if (rng_chance(&m->rng, 1, 4))
            continue; /* this one is lost */
        lease_rig_checkpoint(&m->r, told[i].id, left);
        l->remaining_ttl = l->recorded_remaining = left;
    }
}

static void do_restart(struct model *m)
{
    lease_rig_restart(&m->r);
    m->primary = false;
    m->restarts++;
    for (unsigned id = 1; id <= LEASES; id++) {
        m->leases[id].remaining_ttl = m->leases[id].recorded_remaining;
        m->leases[id].granted = m->step * 100 + id; /* they are loaded in order of id */
    }
    for (unsigned key = 0; key < KEYS; key++) {
        if (m->ended[key])
            m->lease_of[key] = 0; /* only the living are shown */
        m->ended[key] = false;
        if (m->lease_of[key])
            CHECK_EQ(lease_rig_attach(&m->r, m->lease_of[key], key_name(key)), LEASE_OK);
    }
}

static void random_step(struct model *m)
{
    m->step++;
    switch (rng_below(&m->rng, 17)) {
    case 0:
    case 1:
        do_grant(m);
        break;
    case 2:
        revoke(m, some_id(m));
        break;
    case 3:
    case 4:
    case 5:
        do_attach(m);
        break;
    case 6:
        do_detach(m);
        break;
    case 7:
    case 8:
        do_renew(m);
        break;
    case 9:
        if (rng_chance(&m->rng, 1, 4))
            do_promote(m);
        break;
    case 10:
        if (rng_chance(&m->rng, 1, 8)) {
            lease_demote(m->r.set);
            m->primary = false;
        }
        break;
    case 11:
        do_checkpoints(m);
        break;
    case 12:
        if (rng_chance(&m->rng, 1, 8))
            do_restart(m);
        break;
    case 13:
        m->r.now_ms += rng_below(&m->rng, 4000);
        break;
    case 14:
        if (rng_chance(&m->rng, 1, 4))
            do_end_range(m);
        break;
    default:
        m->r.now_ms += rng_below(&m->rng, 500);
        do_expire(m);
    }
    lease_check(m->r.set);
}

/* --- comparing --- */

static void compare_keys(struct model *m, unsigned id, size_t want)
{
    struct bytes key = {0};
    char last[8] = "";
    size_t found = 0;

    while (lease_next_key(m->r.set, id, key, &key)) {
        CHECK(bytes_compare(bytes_of_str(last), key) < 0);
        snprintf(last, sizeof(last), "%.*s", (int)key.len, key.at);
        found++;
    }
    CHECK_EQ(found, want);
}

static void compare_living(struct model *m, unsigned id)
{
    struct bytes key;
    char from[8], want[8] = "";

    snprintf(from, sizeof(from), "k%02u", (unsigned)rng_below(&m->rng, KEYS));
    for (unsigned i = 0; i < KEYS; i++) {
        const char *name = key_name(i);
        if (m->lease_of[i] == id && !m->ended[i] && strcmp(name, from) >= 0 &&
            (!want[0] || strcmp(name, want) < 0))
            snprintf(want, sizeof(want), "%s", name);
    }
    CHECK_EQ(lease_living_key(m->r.set, id, bytes_of_str(from), &key), want[0] != 0);
    if (want[0])
        CHECK_BYTES(key, bytes_of_str(want));
}

static void compare_lease(struct model *m, unsigned id)
{
    const struct model_lease *l = &m->leases[id];
    struct lease_info info;
    size_t keys = 0;

    CHECK_EQ(lease_look(m->r.set, id, m->r.now_ms, &info), l->there);
    if (!l->there)
        return;
    for (unsigned key = 0; key < KEYS; key++)
        keys += m->lease_of[key] == id;
    CHECK_EQ(info.granted_ttl, l->ttl);
    CHECK_EQ(info.key_count, keys);
    int64_t left_ms = (int64_t)(l->expires_ms - m->r.now_ms);
    CHECK_EQ(info.remaining, m->primary ? left_ms / 1000 : l->ttl);
    CHECK_EQ(info.expired, m->primary && left_ms <= 0);
    compare_keys(m, id, keys);
    compare_living(m, id);
}

static bool listed_before(const struct model *m, int64_t a, int64_t b)
{
    const struct model_lease *x = &m->leases[a], *y = &m->leases[b];

    if (!m->primary)
        return x->granted < y->granted;
    return x->expires_ms != y->expires_ms ? x->expires_ms < y->expires_ms : a < b;
}

static void compare_list(struct model *m)
{
    struct buf ids = {0};
    int64_t last = 0;
    size_t there = 0;

    for (unsigned id = 1; id <= LEASES; id++)
        there += m->leases[id].there;
    lease_list(m->r.set, &ids);
    CHECK_EQ(ids.len / sizeof(int64_t), there);
    CHECK_EQ(lease_count(m->r.set), there);
    for (size_t i = 0; i < there; i++) {
        int64_t id;
        memcpy(&id, ids.at + i * sizeof(id), sizeof(id));
        CHECK(m->leases[id].there);
        CHECK(last == 0 || listed_before(m, last, id));
        last = id;
    }
    buf_free(&ids);
}

static void compare(struct model *m)
{
    for (unsigned id = 1; id <= LEASES; id++)
        compare_lease(m, id);
    for (unsigned key = 0; key < KEYS; key++)
        CHECK_EQ(lease_of_key(m->r.set, bytes_of_str(key_name(key))), m->lease_of[key]);
    CHECK_EQ(lease_is_primary(m->r.set), m->primary);
    compare_list(m);
}

TEST(leases_agree_with_a_model_whatever_happens)
{
    static struct model m;
    uint64_t expiries = 0, checkpoints = 0, restarts = 0, promotions = 0;

    for (uint64_t run = 0; run < 40 * test_effort(); run++) {
        m = (struct model){0};
        rng_seed(&m.rng, test_seed() * 1000 + run);
        lease_rig_open(&m.r, &(struct lease_options){.min_ttl = MIN_TTL,
                                                     .checkpoint = run % 2,
                                                     .checkpoint_persist = true,
                                                     .checkpoint_interval_ms = INTERVAL_MS,
                                                     .hash_seed = run});
        for (int i = 0; i < 1000; i++) {
            random_step(&m);
            compare(&m);
        }
        expiries += m.expiries;
        checkpoints += m.checkpoints;
        restarts += m.restarts;
        promotions += m.promotions;
        lease_rig_close(&m.r);
    }

    CHECK(expiries > 1000);
    CHECK(checkpoints > 100);
    CHECK(restarts > 100);
    CHECK(promotions > 100);
}
