/*
 * sparse: where in the segments the living entries are, roughly.
 *
 * A mark stands every WAL_MARK_ENTRIES (64), or WAL_MARK_BYTES (64 KiB), and knows the rolling crc
 * there, so that reading can begin at it with every byte checked.
 *
 *     marks     | 1: segment 0, offset 104 | 65: segment 0, offset 9,000 | 129: segment 1, ...
 *     a mark    covers the entries from its own index to the next mark's, in bytes [offset, end)
 *
 * When a new leader's entries replace the end of the log, the marks from there on are taken off and
 * the next entry begins a new one. So a mark's last bytes may hold entries that are void, but the
 * next mark's index says where they begin, and nobody looks at them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wal_segment;

struct mark {
    uint64_t index;
    struct wal_segment *segment;
    uint64_t offset, end;
    uint32_t crc; /* before offset */
    uint32_t entries;
};

struct sparse {
    struct mark *at;
    size_t first, count, cap; /* marks at[first] ... at[first + count - 1] */
    uint64_t last;            /* the last entry covered, if there is a mark at all */
    bool broken;              /* the next entry begins a mark */
};

void sparse_free(struct sparse *s);

/* An entry was written here. One at or before the last voids those from it on. */
void sparse_add(struct sparse *s, uint64_t index, struct wal_segment *segment, uint64_t offset,
                uint64_t end, uint32_t crc);

/* Entries from this one on are void. */
void sparse_truncate(struct sparse *s, uint64_t from);

/* The mark that covers the entry, and the first index that it does not cover; or NULL. */
const struct mark *sparse_find(const struct sparse *s, uint64_t index, uint64_t *limit);

/* The segment, which is the oldest, is given up. */
void sparse_drop(struct sparse *s, const struct wal_segment *segment);
