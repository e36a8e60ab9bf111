#include "wal/scan.h"

#include "base/assert.h"

/* Fields of the three messages, as tags of one byte. */
enum { TAG_1 = 0x08, TAG_2 = 0x10, TAG_3 = 0x18, TAG_3_BYTES = 0x1a, TAG_4_BYTES = 0x22 };

void scan_init(struct scan *s, struct wal_place start, uint64_t floor)
{
    *s = (struct scan){
        .start = start,
        .floor = floor,
        .last = start.index,
        .written = floor > 0 ? floor - 1 : 0,
    };
}

void scan_free(struct scan *s)
{
    buf_free(&s->metadata);
}

void scan_next_segment(struct scan *s)
{
    s->in_segment = 0;
}

/* --- the three messages --- */

bool scan_entry(struct bytes from, struct raft_entry *out)
{
    struct strict s = {.at = from.at, .end = from.at + from.len};
    uint64_t type = strict_take_tag(&s, TAG_1) ? strict_take_varint(&s) : 0;

    *out = (struct raft_entry){.type = (enum raft_entry_type)type};
    if (s.bad || type > RAFT_ENTRY_CONF_CHANGE_V2 || !strict_take_tag(&s, TAG_2))
        return false;
    out->term = strict_take_varint(&s);
    if (s.bad || !strict_take_tag(&s, TAG_3))
        return false;
    out->index = strict_take_varint(&s);
    if (!s.bad && strict_take_tag(&s, TAG_4_BYTES))
        out->data = strict_take_bytes(&s);
    if (s.bad || s.at != s.end)
        return false;
    if (out->type == RAFT_ENTRY_CONF_CHANGE && out->data.len == 0)
        return false; /* the message always has two fields */
    return out->term > 0 && out->term <= RAFT_NUMBER_MAX && out->index > 0 &&
           out->index <= RAFT_NUMBER_MAX;
}

static bool read_state(struct bytes from, struct raft_hard_state *out)
{
    struct strict s = {.at = from.at, .end = from.at + from.len};

    if (!strict_take_tag(&s, TAG_1))
        return false;
    out->term = strict_take_varint(&s);
    if (s.bad || !strict_take_tag(&s, TAG_2))
        return false;
    out->vote = strict_take_varint(&s);
    if (s.bad || !strict_take_tag(&s, TAG_3))
        return false;
    out->commit = strict_take_varint(&s);
    return !s.bad && s.at == s.end && out->term > 0;
}

static bool read_snapshot(struct bytes from, struct wal_place *out)
{
    struct strict s = {.at = from.at, .end = from.at + from.len};

    if (!strict_take_tag(&s, TAG_1))
        return false;
    out->index = strict_take_varint(&s);
    if (s.bad || !strict_take_tag(&s, TAG_2))
        return false;
    out->term = strict_take_varint(&s);
    if (!s.bad && strict_take_tag(&s, TAG_3_BYTES))
        strict_take_bytes(&s); /* logs written before etcd 3.5 have no conf state */
    return !s.bad && s.at == s.end && out->index <= RAFT_NUMBER_MAX && out->term <= RAFT_NUMBER_MAX;
}

/* --- the records --- */

static const char *on_crc(struct scan *s, const struct frame *f)
{
    if (f->data.len > 0)
        return "a crc record with data";
    if (s->crc_known && f->crc != s->crc)
        return "crc mismatch with the segment before";
    s->crc = f->crc;
    s->crc_known = true;
    return NULL;
}

static const char *on_metadata(struct scan *s, const struct frame *f)
{
    if (s->has_metadata && !bytes_equal(buf_bytes(&s->metadata), f->data))
        return "metadata that differs from the segment before";
    buf_clear(&s->metadata);
    buf_append(&s->metadata, f->data);
    s->has_metadata = true;
    return NULL;
}

static const char *on_entry(struct scan *s, const struct frame *f, struct scan_event *out)
{
    struct raft_entry *e = &out->entry;

    if (!scan_entry(f->data, e))
        return "not an entry";
    if (e->index <= s->state.commit)
        return "an entry that replaces a committed one";
    if (e->index == s->written + 1 && e->term < s->term)
        return "an entry of a lower term than the one before";
    if (e->index > s->start.index && e->index > s->last + 1)
        return "a gap between entries";

    if (e->index > s->start.index) {
        out->is_news = true;
        out->truncates = e->index <= s->last;
        out->truncate_from = e->index;
        s->last = e->index;
    } else {
        /* It lies below the start and is of no interest, but it was written after those above: a
         * new leader has replaced them all, from here on. */
        out->truncates = s->last > s->start.index;
        out->truncate_from = s->start.index + 1;
        s->last = s->start.index;
        s->start_entry_term = e->index == s->start.index ? e->term : 0;
    }
    s->written = e->index;
    s->term = e->term;
    if (s->entry_term < e->term)
        s->entry_term = e->term;
    return NULL;
}

static const char *on_state(struct scan *s, const struct frame *f)
{
    struct raft_hard_state state;

    if (!read_state(f->data, &state))
        return "not a hard state";
    if (state.term < s->state.term || state.term < s->entry_term)
        return "a hard state whose term falls";
    if (state.commit < s->state.commit)
        return "a hard state whose commit index falls";
    if (s->written < s->floor && s->written < state.commit && !s->state.term)
        s->written = state.commit; /* before the first entry that is here, one may have been read */
    if (state.commit > s->written)
        return "a commit index beyond the last entry";
    s->state = state;
    return NULL;
}

/*
 * A snapshot that was made from this log stands behind the entry it ends with, or behind a commit
 * index that reaches it. One that a leader sent does not match the log it was written into: it took
 * the log's place, and entries from before it are void, even those above it. (etcd keeps them, and
 * can come up with a log whose terms fall.)
 */
static void meet_start(struct scan *s, struct scan_event *out)
{
    bool installed = s->start.index >= s->floor && s->start_entry_term != s->start.term &&
                     s->start.index > s->state.commit;

    if (installed && s->last > s->start.index) {
        out->truncates = true;
        out->truncate_from = s->start.index + 1;
        s->last = s->start.index;
    }
    s->start_found = true;
}

static const char *on_snapshot(struct scan *s, const struct frame *f, struct scan_event *out)
{
    struct wal_place at = {0};

    if (!read_snapshot(f->data, &at))
        return "not a snapshot";
    if (at.index == s->start.index && at.term != s->start.term)
        return "a snapshot of another term than the one to start from";
    out->data = f->data;
    if (at.index == s->start.index)
        meet_start(s, out);
    else if (at.index > s->start.index && at.index > s->state.commit)
        s->replaced = true;
    if (s->written < at.index) {
        s->written = at.index;
        s->term = at.term;
    }
    return NULL;
}

static const char *check_order(struct scan *s, const struct frame *f)
{
    static const enum wal_record_type head[] = {WAL_CRC, WAL_METADATA};

    if (s->in_segment < ARRAY_LEN(head))
        return f->type == head[s->in_segment++] ? NULL : "a segment without its first two records";
    return f->type == WAL_CRC || f->type == WAL_METADATA ? "a first record in mid-segment" : NULL;
}

const char *scan_record(struct scan *s, const struct frame *f, struct scan_event *out)
{
    *out = (struct scan_event){.type = f->type};
    const char *why = check_order(s, f);

    if (why)
        return why;
    if (f->type != WAL_CRC)
        s->crc = f->crc; /* as frame_read has checked */
    switch (f->type) {
    case WAL_METADATA:
        return on_metadata(s, f);
    case WAL_ENTRY:
        return on_entry(s, f, out);
    case WAL_STATE:
        return on_state(s, f);
    case WAL_CRC:
        return on_crc(s, f);
    case WAL_SNAPSHOT:
        return on_snapshot(s, f, out);
    }
    unreachable();
}
