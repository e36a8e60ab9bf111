/*
 * Which messages are local, and copies that own themselves.
 */
#include "entry/entry.h"

#include <string.h>

bool raft_message_is_local(enum raft_message_type type)
{
    switch (type) {
    case RAFT_MSG_HUP:
    case RAFT_MSG_BEAT:
    case RAFT_MSG_UNREACHABLE:
    case RAFT_MSG_SNAP_STATUS:
    case RAFT_MSG_CHECK_QUORUM:
    case RAFT_MSG_STORAGE_APPEND:
    case RAFT_MSG_STORAGE_APPEND_RESP:
    case RAFT_MSG_STORAGE_APPLY:
    case RAFT_MSG_STORAGE_APPLY_RESP:
        return true;
    default:
        return false;
    }
}

/* --- copies --- */

static struct raft_snapshot snapshot_share(const struct raft_snapshot *s)
{
    struct raft_snapshot own = *s;

    if (s->blob) {
        blob_ref(s->blob);
    } else if (s->data.len > 0) {
        own.blob = blob_copy(s->data);
        own.data = blob_bytes(own.blob);
    }
    return own;
}

struct raft_snapshot *raft_snapshot_own(const struct raft_snapshot *s)
{
    struct raft_snapshot *own = mem_new(struct raft_snapshot);

    *own = snapshot_share(s);
    return own;
}

/*
 * A clone is one block:  | message | responses ... | entries ... | snapshot | context |, with the
 * responses' own parts behind. Where a response shows the very entries or snapshot of its message,
 * as storage work does, the clone's shows the clone's.
 */
struct block {
    uint8_t *at; /* NULL while only counting */
    size_t used;
};

static void *block_take(struct block *b, size_t size)
{
    size_t aligned = (size + 15) & ~(size_t)15;
    void *taken = b->at ? b->at + b->used : NULL;

    b->used += aligned;
    return taken;
}

static const struct raft_entry *clone_entries(struct block *b, const struct raft_message *m)
{
    struct raft_entry *copy = block_take(b, m->entry_count * sizeof(*copy));

    if (copy)
        for (size_t i = 0; i < m->entry_count; i++)
            copy[i] = raft_entry_share(&m->entries[i]);
    return copy;
}

static const struct raft_snapshot *clone_snapshot(struct block *b, const struct raft_snapshot *s)
{
    struct raft_snapshot *copy = block_take(b, sizeof(*copy));

    if (copy)
        *copy = snapshot_share(s);
    return copy;
}

static struct bytes clone_bytes(struct block *b, struct bytes what)
{
    uint8_t *copy = block_take(b, what.len);

    if (copy && what.len > 0)
        memcpy(copy, what.at, what.len);
    return bytes_of(copy, what.len);
}

/* Fills *to (or only counts, when b has no memory yet). `whole` is the message that m answers, with
 * its clone, or NULL. */
static void clone_into(struct block *b, const struct raft_message *m, struct raft_message *to,
                       const struct raft_message *whole, const struct raft_message *whole_clone)
{
    struct raft_message copy = *m;
    /* The same, and not equal ones: release tells by the pointers whose references they are. */
    bool same_entries =
        whole && whole->entries == m->entries && whole->entry_count == m->entry_count;
    bool same_snapshot = whole && whole->snapshot == m->snapshot;

    struct raft_message *responses = block_take(b, m->response_count * sizeof(*responses));
    copy.entries = same_entries ? whole_clone->entries : clone_entries(b, m);
    copy.snapshot = same_snapshot ? whole_clone->snapshot : NULL;
    if (!same_snapshot && m->snapshot)
        copy.snapshot = clone_snapshot(b, m->snapshot);
    copy.context = clone_bytes(b, m->context);
    copy.responses = responses;
    for (size_t i = 0; i < m->response_count; i++)
        clone_into(b, &m->responses[i], responses ? &responses[i] : NULL, m, &copy);
    if (to)
        *to = copy;
}

struct raft_message *raft_message_clone(const struct raft_message *m)
{
    struct block b = {0};

    /* Twice the same code, first without memory: so counting and filling cannot disagree. */
    block_take(&b, sizeof(*m));
    clone_into(&b, m, NULL, NULL, NULL);
    b.at = mem_resize(NULL, b.used, 1);
    b.used = 0;
    struct raft_message *clone = block_take(&b, sizeof(*clone));
    clone_into(&b, m, clone, NULL, NULL);
    return clone;
}

static void release(const struct raft_message *m, const struct raft_message *whole)
{
    if (!whole || whole->entries != m->entries || whole->entry_count != m->entry_count)
        for (size_t i = 0; i < m->entry_count; i++)
            blob_unref(m->entries[i].blob);
    if (m->snapshot && (!whole || whole->snapshot != m->snapshot))
        blob_unref(m->snapshot->blob);
    for (size_t i = 0; i < m->response_count; i++)
        release(&m->responses[i], m);
}

void raft_message_free(struct raft_message *m)
{
    if (!m)
        return;
    release(m, NULL);
    mem_free(m);
}
