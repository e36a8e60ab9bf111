/*
 * roster: who the members were after which entry, and what clients were told of it.
 *
 * The simulator shows, after every turn of a member, the table of members it has and the entry that
 * it is the state after. Whoever has asked for the list of members hands in what it was told, and
 * that must be such a table:
 *
 *     entry    5 ........ 9 | 12 .............. 30 | 31 ...
 *     table    a            | b                    | c         a change was one of 10, 11, 12
 *
 * Checks     1. After the same entry all have the same table.
 *            2. A list that was asked for linearizably, and one that comes with a change that was
 *               made, is not older than what anybody was told before it was asked for.
 *            3. Any other is a table that there was.
 *
 * A table is its hash, of ids, peer URLs, and who is a learner. Names and client URLs are left out:
 * a member tells them when it likes. What nobody has shown lies between two that somebody has,
 * where two changes were applied in one turn; there, any is right.
 */
#pragma once

#include "pb/codec.h"

struct roster_span {
    uint64_t table;
    uint64_t from, to; /* entries after which somebody has shown it */
};

/* All zeroes is an empty one. */
struct roster {
    struct roster_span *spans; /* in order */
    size_t count, cap;
    uint64_t told;  /* somebody was told of a table that came with this entry, at the earliest */
    uint64_t heard; /* how many lists were */
    char problem[256];
};

void roster_free(struct roster *r);

/* Never 0. In order of id, as all lists are. */
uint64_t roster_table(const struct pb_member *members, size_t count);

/* A member has this table after this entry. */
void roster_shown(struct roster *r, uint64_t applied, uint64_t table);

/* A client was told of this one. `floor`: r->told when it asked. */
void roster_told(struct roster *r, uint64_t floor, uint64_t table);
/* The same, and it may be of any age. */
void roster_told_of_old(struct roster *r, uint64_t table);

/* The first thing that did not hold, or NULL. */
const char *roster_problem(const struct roster *r);
