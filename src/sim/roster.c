#include "sim/roster.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t mix(uint64_t hash, uint64_t what)
{
    hash = (hash ^ what) * 0x100000001b3ull;
    return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, struct bytes what)
{
    hash = mix(hash, what.len);
    for (size_t i = 0; i < what.len; i++)
        hash = mix(hash, what.at[i]);
    return hash;
}

uint64_t roster_table(const struct pb_member *members, size_t count)
{
    uint64_t hash = mix(0xcbf29ce484222325ull, count);

    for (size_t i = 0; i < count; i++) {
        hash = mix(hash, members[i].id);
        hash = mix(hash, members[i].is_learner);
        hash = mix(hash, members[i].peer_urls.count);
        for (size_t u = 0; u < members[i].peer_urls.count; u++)
            hash = mix_bytes(hash, members[i].peer_urls.at[u]);
    }
    return hash != 0 ? hash : 1;
}

void roster_free(struct roster *r)
{
    mem_free(r->spans);
    *r = (struct roster){0};
}

const char *roster_problem(const struct roster *r)
{
    return r->problem[0] != '\0' ? r->problem : NULL;
}

static void insert(struct roster *r, size_t at, uint64_t applied, uint64_t table)
{
    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 32;
        r->spans = mem_resize(r->spans, r->cap, sizeof(*r->spans));
    }
    for (size_t i = r->count++; i > at; i--)
        r->spans[i] = r->spans[i - 1];
    r->spans[at] = (struct roster_span){.table = table, .from = applied, .to = applied};
}

/* The first span that does not lie below this entry is r->spans[at]. */
void roster_shown(struct roster *r, uint64_t applied, uint64_t table)
{
    size_t at = r->count;

    while (at > 0 && r->spans[at - 1].to >= applied)
        at--;
    struct roster_span *next = at < r->count ? &r->spans[at] : NULL;
    struct roster_span *before = at > 0 ? &r->spans[at - 1] : NULL;
    if (next && next->from <= applied) {
        if (next->table != table && r->problem[0] == '\0')
            snprintf(r->problem, sizeof(r->problem),
                     "after entry %" PRIu64 " two members do not know the same members", applied);
    } else if (before && before->table == table)
        before->to = applied;
    else if (next && next->table == table)
        next->from = applied;
    else
        insert(r, at, applied, table);
}

/* The last entry after which it may have been so; and whether there is something nobody has shown
 * between it and the next. */
static uint64_t span_end(const struct roster *r, size_t at)
{
    return at + 1 < r->count ? r->spans[at + 1].from - 1 : UINT64_MAX;
}

static bool has_gap_behind(const struct roster *r, size_t at)
{
    return at + 1 < r->count && r->spans[at + 1].from - r->spans[at].to > 1;
}

static void check_told(struct roster *r, uint64_t floor, uint64_t table, uint64_t *from)
{
    uint64_t old_end = 0;

    r->heard++;
    for (size_t i = 0; i < r->count; i++) {
        uint64_t end = span_end(r, i);
        if (r->spans[i].table == table)
            old_end = end;
        if (end < floor)
            continue;
        if (r->spans[i].table == table) {
            *from = r->spans[i].from;
            return;
        }
        if (has_gap_behind(r, i))
            return;
    }
    if (r->problem[0] == '\0' && old_end > 0)
        snprintf(r->problem, sizeof(r->problem),
                 "a client was told of members that were so until entry %" PRIu64
                 ", and before it asked somebody was told of those after entry %" PRIu64,
                 old_end, floor);
    else if (r->problem[0] == '\0')
        snprintf(r->problem, sizeof(r->problem), "a client was told of members that never were so");
}

void roster_told(struct roster *r, uint64_t floor, uint64_t table)
{
    uint64_t from = 0;

    check_told(r, floor, table, &from);
    if (from > r->told)
        r->told = from;
}

void roster_told_of_old(struct roster *r, uint64_t table)
{
    uint64_t from = 0;

    check_told(r, 0, table, &from);
}
