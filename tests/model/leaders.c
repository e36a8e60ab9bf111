/*
 * Time, leadership, expiry.
 */
#include "model/episode_int.h"

#include <inttypes.h>

void leaders_restarted(struct episode *e)
{
    e->leading = false;
    if (!e->climate.persist)
        for (int i = 0; i < NAIVE_LEASES; i++)
            e->naive.leases[i].remaining_ttl = 0; /* entries that are replayed tell it again */
}

void leaders_granted(struct episode *e, struct naive_lease *l)
{
    l->expires_ms = l->due_ms = e->now_ms + (uint64_t)l->ttl * 1000;
}

static void promote(struct episode *e)
{
    uint64_t extend_ms = pick(e, 3000);

    lease_promote(e->leases, e->now_ms, extend_ms);
    e->leading = true;
    episode_say(e, "promoted, %" PRIu64 " ms on top", extend_ms);
    for (int i = 0; i < NAIVE_LEASES; i++) {
        struct naive_lease *l = &e->naive.leases[i];
        int64_t left = l->remaining_ttl > 0 ? l->remaining_ttl : l->ttl;
        l->expires_ms = l->due_ms = e->now_ms + extend_ms + (uint64_t)left * 1000;
    }
}

/* A revoke under way takes its lease off the list before the model hears of it. */
static bool is_being_revoked(const struct episode *e, int64_t id)
{
    return e->applying.entry && e->applying.entry->kind == ENTRY_REVOKE &&
           e->applying.entry->id == id;
}

static void renew(struct episode *e)
{
    struct naive_lease *l = &e->naive.leases[pick(e, NAIVE_LEASES)];
    int64_t ttl;
    bool needs_checkpoint;
    enum lease_result want = !e->leading                  ? LEASE_NOT_PRIMARY
                             : !l->there                  ? LEASE_NOT_FOUND
                             : is_being_revoked(e, l->id) ? LEASE_EXPIRED
                             : l->expires_ms <= e->now_ms ? LEASE_EXPIRED
                                                          : LEASE_OK;
    enum lease_result got = lease_renew(e->leases, l->id, e->now_ms, &ttl, &needs_checkpoint);

    if (got != want || (got == LEASE_OK && ttl != l->ttl))
        episode_broken(e, "lease", "renewal says %d, not %d", got, want);
    if (got != LEASE_OK)
        return;
    l->expires_ms = l->due_ms = e->now_ms + (uint64_t)l->ttl * 1000;
    if (needs_checkpoint)
        entries_propose(e, ENTRY_CHECKPOINT, l->id, 0);
}

/* The one that must come out next, ties by id; NULL if none is due. */
static struct naive_lease *first_due(struct episode *e)
{
    struct naive_lease *best = NULL;

    for (int i = 0; i < NAIVE_LEASES; i++) {
        struct naive_lease *l = &e->naive.leases[i];
        if (!l->there || l->due_ms > e->now_ms || is_being_revoked(e, l->id))
            continue;
        if (!best || l->due_ms < best->due_ms || (l->due_ms == best->due_ms && l->id < best->id))
            best = l;
    }
    return best;
}

static void expire(struct episode *e)
{
    int64_t ids[4];
    size_t max = 1 + pick(e, 4);
    size_t count = lease_take_expired(e->leases, e->now_ms, ids, max);

    for (size_t i = 0; i < count; i++) {
        struct naive_lease *l = e->leading ? first_due(e) : NULL;
        if (!l || l->id != ids[i])
            episode_broken(e, "lease", "%" PRId64 " is said to have expired, not %" PRId64, ids[i],
                           l ? l->id : 0);
        l->due_ms = e->now_ms + LEASE_RETRY_MS;
        e->totals.expired++;
        episode_say(e, "lease %" PRId64 " has expired", ids[i]);
        if (chance(e, 4, 5)) /* else the proposal is lost */
            entries_propose(e, ENTRY_REVOKE, ids[i], 0);
    }
    if (count < max && e->leading && first_due(e))
        episode_broken(e, "lease", "%" PRId64 " is not said to have expired", first_due(e)->id);
}

static void tell_checkpoints(struct episode *e)
{
    struct lease_remaining told[4];
    size_t count = lease_take_checkpoints(e->leases, e->now_ms, told, 4);

    for (size_t i = 0; i < count; i++) {
        const struct naive_lease *l = naive_find_lease(&e->naive, told[i].id);
        int64_t left = l ? ((int64_t)(l->expires_ms - e->now_ms) + 999) / 1000 : 0;
        if (!e->leading || told[i].remaining_ttl != left)
            episode_broken(e, "lease", "%" PRId64 " has %" PRId64 " s left, not %" PRId64,
                           told[i].id, left, told[i].remaining_ttl);
        if (chance(e, 3, 4))
            entries_propose(e, ENTRY_CHECKPOINT, told[i].id, left);
    }
}

static void grant(struct episode *e)
{
    int64_t id = e->naive.leases[pick(e, NAIVE_LEASES)].id;
    int64_t ttl = chance(e, 1, 30) ? LEASE_TTL_MAX + 1 : (int64_t)pick(e, 12) - 1;

    entries_propose(e, ENTRY_GRANT, id, ttl);
}

void leaders_step(struct episode *e)
{
    switch (pick(e, 16)) {
    case 0:
        promote(e);
        break;
    case 1:
        if (chance(e, 1, 3)) {
            lease_demote(e->leases);
            e->leading = false;
        }
        break;
    case 2:
        if (chance(e, 1, 2))
            entries_propose(e, ENTRY_REVOKE, e->naive.leases[pick(e, NAIVE_LEASES)].id, 0);
        break;
    case 3:
    case 4:
    case 5:
        grant(e);
        break;
    case 6:
    case 7:
    case 8:
        renew(e);
        break;
    case 9:
        tell_checkpoints(e);
        break;
    default:
        e->now_ms += pick(e, 1500);
        expire(e);
    }
}

void leaders_compare(struct episode *e)
{
    for (int i = 0; i < NAIVE_LEASES; i++) {
        const struct naive_lease *l = &e->naive.leases[i];
        struct lease_info info = {0};
        if (lease_look(e->leases, l->id, e->now_ms, &info) != l->there)
            episode_broken(e, "lease", "%" PRId64 " is %sthere", l->id, l->there ? "not " : "");
        int64_t left = e->leading ? (int64_t)(l->expires_ms - e->now_ms) / 1000 : l->ttl;
        if (l->there && (info.granted_ttl != l->ttl || info.remaining != left))
            episode_broken(e, "lease",
                           "%" PRId64 " has %" PRId64 " of %" PRId64 " s left, not %" PRId64
                           " of %" PRId64,
                           l->id, info.remaining, info.granted_ttl, left, l->ttl);
    }
    if (lease_is_primary(e->leases) != e->leading)
        episode_broken(e, "lease", "leads or does not");
}
