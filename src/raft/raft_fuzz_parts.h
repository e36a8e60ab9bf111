/*
 * raft_fuzz_parts: what the fuzzer's member stands on: the input, read byte by byte, and a log as
 * its disk keeps it, with assertions instead of checks, as raft must never ask for anything else.
 */
#pragma once

#include "base/assert.h"
#include "raft/raft.h"

/* --- the input --- */

struct feed {
    const uint8_t *at;
    size_t len;
};

static inline uint8_t take(struct feed *f)
{
    if (f->len == 0)
        return 0;
    f->len--;
    return *f->at++;
}

static inline uint64_t take_long(struct feed *f)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | take(f);
    return value;
}

/* Mostly close to what is believed, since a number that is far off is dropped at the door. */
static inline uint64_t take_near(struct feed *f, uint64_t believed)
{
    uint8_t how = take(f);

    switch (how % 16) {
    case 0:
        return believed + 1;
    case 1:
        return believed - 1;
    case 2:
        return believed + how / 16;
    case 3:
        return believed - how / 16;
    case 4:
        return 0;
    case 5:
        return how / 16;
    case 6:
        return UINT64_MAX;
    case 7:
        return RAFT_NUMBER_MAX;
    case 8:
        return take_long(f);
    default:
        return believed;
    }
}

/* --- the log on disk --- */

struct log {
    uint64_t base_index, base_term;
    struct raft_entry *at;
    size_t count, cap;
};

static inline uint64_t log_last(const struct log *l)
{
    return l->base_index + l->count;
}

static inline void log_cut(struct log *l, uint64_t index)
{
    while (log_last(l) >= index && l->count > 0)
        blob_unref(l->at[--l->count].blob);
}

static inline void log_push(struct log *l, const struct raft_entry *e)
{
    assert(e->index == log_last(l) + 1);
    if (l->count == l->cap) {
        l->cap = 2 * l->cap + 16;
        l->at = mem_resize(l->at, l->cap, sizeof(*l->at));
    }
    struct raft_entry *own = &l->at[l->count++];
    *own = *e;
    own->blob = e->blob ? blob_ref(e->blob) : blob_copy(e->data);
    own->data = e->blob ? e->data : blob_bytes(own->blob);
}

static inline const struct raft_entry *log_at(const struct log *l, uint64_t index)
{
    if (index <= l->base_index || index > log_last(l))
        return NULL;
    return &l->at[index - l->base_index - 1];
}

static inline void log_write(struct log *l, const struct raft_entry *entries, size_t count)
{
    if (count == 0)
        return;
    assert(entries[0].index > l->base_index);
    assert(entries[0].index <= log_last(l) + 1);
    log_cut(l, entries[0].index);
    for (size_t i = 0; i < count; i++)
        log_push(l, &entries[i]);
}

static inline void log_reset(struct log *l, uint64_t index, uint64_t term)
{
    log_cut(l, 0);
    l->base_index = index;
    l->base_term = term;
}

static inline void log_compact(struct log *l, uint64_t index)
{
    if (index <= l->base_index)
        return;
    size_t dropped = index - l->base_index;
    assert(dropped <= l->count);
    l->base_term = l->at[dropped - 1].term;
    l->base_index = index;
    for (size_t i = 0; i < dropped; i++)
        blob_unref(l->at[i].blob);
    l->count -= dropped;
    memmove(l->at, l->at + dropped, l->count * sizeof(*l->at));
}

static inline void log_copy(struct log *to, const struct log *from)
{
    log_reset(to, from->base_index, from->base_term);
    for (size_t i = 0; i < from->count; i++)
        log_push(to, &from->at[i]);
}

static inline void log_free(struct log *l)
{
    log_cut(l, 0);
    mem_free(l->at);
}
