#include "mvcc/keyindex_int.h"

#include "base/mem.h"

/* 128 changes, and the number of the first change of the life that the block's first one is in.
 * Numbers count from the first change that ever was in this trunk. */
struct block {
    struct change *changes;
    uint64_t life;
};

struct trunk {
    struct block *blocks; /* the first `gone` of them are freed */
    size_t gone, count, cap;
    uint64_t number;  /* of the first change of blocks[0] */
    uint64_t life;    /* as in a block, of the first change that is not in the trunk */
    unsigned dropped; /* changes of blocks[gone] */
};

enum {
    TRUNK_CAP_MIN = 4,
    BLOCK_BYTES = HISTORY_BLOCK * sizeof(struct change),
};

/* --- reading ------------------------------------------------------------------------------ */

static uint64_t trunk_len(const struct trunk *t)
{
    return t ? (uint64_t)(t->count - t->gone) * HISTORY_BLOCK - t->dropped : 0;
}

/* How many are older than the newest. */
static uint64_t older_len(const struct record *r)
{
    return r->older ? trunk_len(r->older->trunk) + r->count - r->first : 0;
}

static const struct change *older_at(const struct record *r, uint64_t i)
{
    const struct trunk *t = r->older->trunk;
    uint64_t before = trunk_len(t);

    if (i >= before)
        return &r->older->changes[r->first + (i - before)];
    uint64_t slot = i + t->dropped;
    return &t->blocks[t->gone + slot / HISTORY_BLOCK].changes[slot % HISTORY_BLOCK];
}

uint64_t keyindex_record_changes(const struct record *r)
{
    return older_len(r) + 1;
}

const struct change *keyindex_record_change(const struct record *r, uint64_t i)
{
    return i == older_len(r) ? &r->newest : older_at(r, i);
}

/* How many of the older ones are not later. */
static uint64_t older_until(const struct record *r, struct revision at)
{
    uint64_t low = 0;
    uint64_t high = older_len(r);

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (revision_compare(change_revision(older_at(r, middle)), at) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where behind the last tombstone before changes[i] a life begins; 0 and *all if there is none. */
static unsigned life_among(const struct change *changes, unsigned i, bool *all)
{
    while (i > 0 && !changes[i - 1].tombstone)
        i--;
    *all = i == 0;
    return i;
}

/* The first change that is there of the life of the older change i. */
static uint64_t older_life(const struct record *r, uint64_t i)
{
    const struct trunk *t = r->older->trunk;
    uint64_t before = trunk_len(t);
    uint64_t life;
    bool all;

    if (!t)
        return life_among(r->older->changes + r->first, (unsigned)i, &all);

    uint64_t start = t->number + t->gone * (uint64_t)HISTORY_BLOCK + t->dropped;
    if (i >= before) {
        life = start + before + life_among(r->older->changes, (unsigned)(i - before), &all);
        if (all)
            life = t->life;
    } else {
        uint64_t slot = i + t->dropped;
        uint64_t number = t->gone + slot / HISTORY_BLOCK;
        const struct block *b = &t->blocks[number];
        life = t->number + number * HISTORY_BLOCK +
               life_among(b->changes, (unsigned)(slot % HISTORY_BLOCK), &all);
        if (all)
            life = b->life;
    }
    return life > start ? life - start : 0;
}

static void fill(const struct record *r, const struct change *c, struct keyindex_found *out)
{
    out->key = record_key(r);
    out->mod = change_revision(c);
    out->length = c->length;
}

bool keyindex_record_find_newest(const struct record *r, struct keyindex_found *out)
{
    if (r->newest.tombstone)
        return false;
    fill(r, &r->newest, out);
    out->created = r->created;
    out->version = r->version;
    return true;
}

bool keyindex_record_find(const struct record *r, struct revision at, struct keyindex_found *out)
{
    if (revision_compare(change_revision(&r->newest), at) <= 0)
        return keyindex_record_find_newest(r, out);
    uint64_t until = older_until(r, at);
    if (until == 0)
        return false;
    const struct change *c = older_at(r, until - 1);
    if (c->tombstone)
        return false;
    fill(r, c, out);
    uint64_t life = older_life(r, until - 1);
    bool described = life <= (uint64_t)older_at(r, 0)->tombstone;
    out->created = described ? r->older->created : older_at(r, life)->main;
    out->version = (described ? r->older->version : 1) + (int64_t)(until - 1 - life);
    return true;
}

/* --- growing ------------------------------------------------------------------------------ */

static_assert(offsetof(struct record, key) == sizeof(struct record), "no padding before the key");

static size_t record_bytes(size_t key_len)
{
    return sizeof(struct record) + key_len;
}

struct record *keyindex_record_new(struct slabs *s, struct bytes key)
{
    assert(key.len <= UINT32_MAX);

    struct record *r = slabs_take(s, record_bytes(key.len));
    r->older = NULL;
    r->first = 0;
    r->count = 0;
    r->cap = 0;
    r->key_len = (uint32_t)key.len;
    if (key.len > 0)
        memcpy(r->key, key.at, key.len);
    return r;
}

void keyindex_record_free(struct slabs *s, struct record *r)
{
    assert(!r->older);

    slabs_give(s, r, record_bytes(r->key_len));
}

static size_t history_bytes(unsigned cap)
{
    return sizeof(struct history) + cap * sizeof(struct change);
}

static void history_free(struct slabs *s, struct record *r)
{
    slabs_give(s, r->older, history_bytes(r->cap));
    r->older = NULL;
    r->first = 0;
    r->count = 0;
    r->cap = 0;
}

/* Gives the history another size; its changes move to the front. */
static void history_resize(struct slabs *s, struct record *r, unsigned cap)
{
    struct history *resized = slabs_take(s, history_bytes(cap));
    unsigned count = r->count - r->first;

    assert(count <= cap);
    *resized = *r->older;
    memcpy(resized->changes, r->older->changes + r->first, count * sizeof(struct change));
    slabs_give(s, r->older, history_bytes(r->cap));
    r->older = resized;
    r->first = 0;
    r->count = (uint8_t)count;
    r->cap = (uint8_t)cap;
}

static size_t blocks_bytes(const struct trunk *t)
{
    return t->cap * sizeof(struct block);
}

/* Space for another block: blocks that are gone make it, if they are half of all. */
static void trunk_reserve(struct slabs *s, struct trunk *t)
{
    if (t->count < t->cap)
        return;
    size_t kept = t->count - t->gone;
    size_t cap = kept * 2 > TRUNK_CAP_MIN ? kept * 2 : TRUNK_CAP_MIN;
    struct block *blocks = slabs_take(s, cap * sizeof(struct block));
    if (t->cap > 0) {
        memcpy(blocks, t->blocks + t->gone, kept * sizeof(struct block));
        slabs_give(s, t->blocks, blocks_bytes(t));
    }
    t->number += t->gone * (uint64_t)HISTORY_BLOCK;
    t->blocks = blocks;
    t->cap = cap;
    t->count = kept;
    t->gone = 0;
}

static void trunk_free(struct slabs *s, struct trunk *t)
{
    slabs_give(s, t->blocks, blocks_bytes(t));
    slabs_give(s, t, sizeof(*t));
}

/* All changes of the history itself become a block. */
static void history_move_to_trunk(struct slabs *s, struct record *r)
{
    struct history *h = r->older;

    assert(r->first == 0);
    assert(r->count == HISTORY_BLOCK);

    if (!h->trunk) {
        h->trunk = slabs_take(s, sizeof(struct trunk));
        *h->trunk = (struct trunk){0};
    }
    struct trunk *t = h->trunk;
    trunk_reserve(s, t);
    struct block b = {.changes = slabs_take(s, BLOCK_BYTES), .life = t->life};
    memcpy(b.changes, h->changes, BLOCK_BYTES);
    uint64_t number = t->number + t->count * (uint64_t)HISTORY_BLOCK;
    bool all;
    unsigned life = life_among(b.changes, HISTORY_BLOCK, &all);
    if (!all)
        t->life = number + life;
    t->blocks[t->count++] = b;
    r->count = 0;
}

/* The history is full. */
static void history_reserve(struct slabs *s, struct record *r)
{
    unsigned count = r->count - r->first;

    if (r->first >= count) { /* at least half is dropped: moving the rest costs no more than that */
        memmove(r->older->changes, r->older->changes + r->first, count * sizeof(struct change));
        r->first = 0;
        r->count = (uint8_t)count;
    } else if (r->cap < HISTORY_BLOCK) {
        history_resize(s, r, r->cap * 2u);
    } else if (r->first > 0) {
        history_resize(s, r, HISTORY_BLOCK);
    } else {
        history_move_to_trunk(s, r);
    }
}

/* The newest becomes one of the older ones. What comes after it may begin the life to describe. */
static void record_push(struct slabs *s, struct record *r, int64_t created, int64_t version)
{
    if (!r->older) {
        bool ended = r->newest.tombstone;
        r->older = slabs_take(s, history_bytes(HISTORY_CAP_MIN));
        r->cap = HISTORY_CAP_MIN;
        *r->older = (struct history){.created = ended ? created : r->created,
                                     .version = ended ? version : r->version};
    } else if (r->count == r->cap) {
        history_reserve(s, r);
    }
    r->older->changes[r->count++] = r->newest;
}

void keyindex_record_note(struct slabs *s, struct record *r, struct change next, int64_t created,
                          int64_t version)
{
    assert(revision_compare(change_revision(&r->newest), change_revision(&next)) < 0);

    record_push(s, r, created, version);
    r->newest = next;
    r->created = created;
    r->version = version;
}

/* --- forgetting --------------------------------------------------------------------------- */

/*
 * etcd's rule: look at the first life that goes on at `main`, or ends there or later. Of it, the
 * newest change not after `main` is kept, and all after that. So a tombstone at `main` itself is
 * kept, one before it is not.
 */
uint64_t keyindex_record_dropped_by(const struct record *r, int64_t main)
{
    uint64_t count = keyindex_record_changes(r);
    uint64_t before = 0; /* changes below main */

    if (r->newest.main < main)
        before = count;
    else if (r->older)
        before = older_until(r, revision_whole(main - 1));

    uint64_t newest = before; /* the newest not after main, plus one */
    while (newest < count && keyindex_record_change(r, newest)->main == main) {
        newest++;
        if (keyindex_record_change(r, newest - 1)->tombstone)
            break;
    }
    if (newest == 0)
        return 0;
    const struct change *c = keyindex_record_change(r, newest - 1);
    return c->tombstone && c->main < main ? newest : newest - 1;
}

static void trunk_drop_oldest(struct slabs *s, struct history *h)
{
    struct trunk *t = h->trunk;

    if (++t->dropped < HISTORY_BLOCK)
        return;
    slabs_give(s, t->blocks[t->gone].changes, BLOCK_BYTES);
    t->gone++;
    t->dropped = 0;
    if (t->gone == t->count) {
        trunk_free(s, t);
        h->trunk = NULL;
    }
}

void keyindex_record_drop_oldest(struct slabs *s, struct record *r)
{
    assert(older_len(r) > 0);

    bool ended = older_at(r, 0)->tombstone;
    if (r->older->trunk)
        trunk_drop_oldest(s, r->older);
    else
        r->first++;
    if (older_len(r) == 0) {
        history_free(s, r);
    } else if (older_at(r, 0)->tombstone) { /* the life after it is whole */
        r->older->created = keyindex_record_change(r, 1)->main;
        r->older->version = 1;
    } else if (!ended) {
        r->older->version++;
    }
}

void keyindex_record_shrink(struct slabs *s, struct record *r)
{
    unsigned cap = r->cap;
    unsigned count = r->count - r->first;

    if (!r->older || r->older->trunk)
        return;
    while (cap > HISTORY_CAP_MIN && cap / 2 >= count)
        cap /= 2;
    if (cap < r->cap)
        history_resize(s, r, cap);
}

/* --- invariants --------------------------------------------------------------------------- */

static void check_trunk(const struct trunk *t)
{
    assert(t->gone < t->count);
    assert(t->count <= t->cap);
    assert(t->dropped < HISTORY_BLOCK);
}

static void check_older(const struct record *r)
{
    assert(r->first <= r->count);
    assert(r->count <= r->cap);
    assert(r->cap <= HISTORY_BLOCK);
    assert((r->cap > 0) == (r->older != NULL));
    if (!r->older)
        return;
    assert(older_len(r) > 0);
    if (r->older->trunk) {
        assert(r->first == 0);
        assert(r->cap == HISTORY_BLOCK);
        check_trunk(r->older->trunk);
    }
}

/* Walks all changes, counting lives by hand, and compares with what a find would say. */
void keyindex_record_check(const struct record *r)
{
    uint64_t count = keyindex_record_changes(r);
    uint64_t life = 0;
    struct keyindex_found found;

    check_older(r);
    for (uint64_t i = 0; i < count; i++) {
        const struct change *c = keyindex_record_change(r, i);
        if (i > 0) {
            const struct change *last = keyindex_record_change(r, i - 1);
            assert(revision_compare(change_revision(last), change_revision(c)) < 0);
            life = last->tombstone ? i : life;
        }
        assert(i == count - 1 || older_life(r, i) == life);
        bool alive = keyindex_record_find(r, change_revision(c), &found);
        assert(alive == !c->tombstone);
        if (!alive)
            continue;
        assert(found.version >= (int64_t)(i - life) + 1);
        bool whole = life > (uint64_t)keyindex_record_change(r, 0)->tombstone;
        assert(!whole || found.version == (int64_t)(i - life) + 1);
        assert(!whole || found.created == keyindex_record_change(r, life)->main);
    }
    /* A described life that is not yet over says the same in both places. */
    if (r->older && !r->newest.tombstone && !keyindex_record_change(r, count - 2)->tombstone) {
        assert(
            keyindex_record_find(r, change_revision(keyindex_record_change(r, count - 2)), &found));
        assert(found.version + 1 == r->version);
        assert(found.created == r->created);
    }
}
