#include "mvcc/mvcc_int.h"

#include <inttypes.h>

static bool make_change(struct mvcc *m, struct bytes value, struct mvcc_change *change)
{
    struct pb_key_value kv;

    if (!kv_decode(value, &kv)) {
        mvcc_damage(m, "bucket key, revision %" PRId64 "_%" PRId64 ": not a KeyValue",
                    change->at.main, change->at.sub);
        return false;
    }
    change->key = kv.key;
    if (!change->tombstone) {
        change->kv = value;
        change->creates = kv.version == 1;
    }
    return true;
}

enum show_result { SHOWN, NOT_WANTED, BEYOND, DAMAGED };

static enum show_result show(struct mvcc *m, struct bytes key, struct bytes value,
                             mvcc_visit *visit, void *context, int64_t end, struct revision *next)
{
    struct mvcc_change change = {0};

    if (!revision_decode(key, &change.at, &change.tombstone)) {
        mvcc_damage(m, "bucket key: an entry that is not a revision");
        return DAMAGED;
    }
    if (change.at.main > end)
        return BEYOND;
    if (!kv_is_bump(value, change.tombstone)) {
        if (!make_change(m, value, &change))
            return DAMAGED;
        if (!visit(context, &change))
            return NOT_WANTED;
    }
    *next = (struct revision){change.at.main, change.at.sub + 1};
    return SHOWN;
}

static bool walk(struct mvcc *m, struct mvcc_history *h, struct revision *next, unsigned *steps,
                 mvcc_visit *visit, void *context)
{
    struct bytes key, value;
    int64_t end = mvcc_history_end(m, next->main);
    enum show_result o = SHOWN;

    while (*steps > 0 && o == SHOWN) {
        value = (struct bytes){0};
        enum err e = mvcc_history_next(h, &key, &value);
        if (e == ERR_OK) {
            o = show(m, key, value, visit, context, end, next);
        } else if (e == ERR_END) {
            o = BEYOND;
        } else if (e == ERR_NOT_FOUND) {
            return false; /* of the copies: the next call asks for more of them */
        } else {
            mvcc_walk_damage(m, &h->view);
            o = DAMAGED;
        }
        mvcc_spend(steps, 1 + mvcc_read_cost(value.len));
        if (mvcc_is_late(m))
            *steps = 0;
    }
    return o == BEYOND;
}

/* The store does not have all tombstones of a revision that is being settled. Who has still to pass
 * it reads up to there; who is behind it reads on. */
int64_t mvcc_history_end(const struct mvcc *m, int64_t next)
{
    int64_t settled = mvcc_unsettled_revision(m);

    return next <= settled && settled <= m->revision ? settled - 1 : m->revision;
}

bool mvcc_history_some(struct mvcc *m, struct revision *next, unsigned *steps, mvcc_visit *visit,
                       void *context)
{
    struct mvcc_history h;
    /* The floor may stand right behind an earlier compaction, at whose revision one may read. */
    assert(next->main >= m->compact_revision || next->main >= m->history_floor - 1);
    assert(next->main >= 0);

    if (next->main > mvcc_history_end(m, next->main))
        return true;
    if (!mvcc_history_open(m, *next, false, &h)) {
        *steps = 0;
        return false;
    }
    bool all = walk(m, &h, next, steps, visit, context);
    mvcc_history_close(&h);
    return all;
}
