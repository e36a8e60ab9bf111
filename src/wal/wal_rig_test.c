#include "wal/wal_rig_test.h"

#include "base/crc32c.h"

#include <stdio.h>

static void on_durable(void *context, uint64_t seq)
{
    struct wal_rig *rig = context;

    CHECK(seq > rig->durable);
    rig->durable = seq;
    for (size_t i = 0; i < rig->waiting_count; i++)
        if (rig->waiting[i].seq <= seq && rig->waiting[i].records > rig->acknowledged)
            rig->acknowledged = rig->waiting[i].records;
}

static void on_failed(void *context, const char *text)
{
    struct wal_rig *rig = context;

    CHECK(!rig->failed[0]);
    snprintf(rig->failed, sizeof(rig->failed), "%s", text);
}

static void sink(void *context, struct bytes line)
{
    (void)context;
    (void)line;
}

struct wal_rig *wal_rig_new(uint64_t seed, uint64_t segment_bytes)
{
    struct wal_rig *rig = mem_new(struct wal_rig);

    rig->world = fake_world_new(seed);
    rig->disk = fake_world_io(rig->world)->disk;
    rig->logger = (struct logger){.level = LOG_DEBUG, .sink = sink, .clock = log_clock_none};
    rig->opt = (struct wal_options){.dir = "/member/wal",
                                    .logger = &rig->logger,
                                    .segment_bytes = segment_bytes,
                                    .on_durable = on_durable,
                                    .on_failed = on_failed,
                                    .context = rig};
    rng_seed(&rig->rng, seed + 1);
    CHECK_EQ(disk_make_dir(rig->disk, "/member", 0700, DISK_PARENTS), ERR_OK);
    CHECK_EQ(disk_sync_dir(rig->disk, "/"), ERR_OK);
    return rig;
}

void wal_rig_free(struct wal_rig *rig)
{
    mem_free(rig->records);
    fake_world_free(rig->world);
    mem_free(rig);
}

void wal_rig_settle(struct wal_rig *rig)
{
    for (int i = 0; !rig->failed[0] && !wal_is_idle(rig->wal); i++) {
        CHECK(i < 1000000);
        CHECK(fake_world_step(rig->world));
    }
    if (!rig->failed[0])
        wal_check(rig->wal);
}

void wal_rig_close(struct wal_rig *rig)
{
    wal_rig_settle(rig);
    wal_close(rig->wal);
    rig->wal = NULL;
    rig->acknowledged = rig->record_count; /* closing writes what nobody waited for */
}

/* A crash in the middle of a write leaves whole pages of it: the kernel copies page by page. (The
 * disk itself would cut at any byte.) */
static void interrupt_write(struct wal_rig *rig)
{
    struct disk_op *op = &rig->wal->op;
    uint64_t total = 0, sent = 0;

    if (rig->wal->step != WAL_STEP_WRITING || !op->event.queued)
        return;
    for (size_t i = 0; i < op->piece_count; i++)
        total += op->pieces[i].len;
    uint64_t stop = (op->offset + rng_below(&rig->rng, total + 1)) / 512 * 512;
    for (size_t i = 0; i < op->piece_count && op->offset + sent < stop; i++) {
        uint64_t left = stop - op->offset - sent;
        struct bytes piece = op->pieces[i];
        piece.len = piece.len < left ? piece.len : (size_t)left;
        CHECK_EQ(disk_write(rig->disk, op->file, op->offset + sent, piece), ERR_OK);
        sent += piece.len;
    }
    op->piece_count = 0;
}

void wal_rig_crash(struct wal_rig *rig, enum fake_crash how)
{
    if (rig->wal)
        interrupt_write(rig);
    fake_disk_crash(rig->world->disk, how);
    inbox_init(&rig->world->inbox, NULL, NULL);
    if (rig->wal)
        wal_abandon(rig->wal);
    rig->wal = NULL;
    rig->failed[0] = 0;
}

/* --- the model --- */

static struct model_record *note(struct wal_rig *rig, enum wal_record_type type)
{
    rig->records = mem_resize(rig->records, rig->record_count + 1, sizeof(*rig->records));
    struct model_record *r = &rig->records[rig->record_count++];
    *r = (struct model_record){.type = type};
    return r;
}

static void note_state(struct wal_rig *rig, struct raft_hard_state state)
{
    note(rig, WAL_STATE)->state = state;
    rig->term = state.term;
    rig->vote = state.vote;
    rig->commit = state.commit;
}

static void note_entry(struct wal_rig *rig, const struct raft_entry *e)
{
    note(rig, WAL_ENTRY)->entry =
        (struct model_entry){.at = {e->index, e->term}, .type = e->type, .crc = crc32c(0, e->data)};
    rig->last = e->index;
    rig->terms[e->index] = e->term;
}

/* The number an append returned stands for all records noted so far. */
static void note_seq(struct wal_rig *rig, uint64_t seq)
{
    if (seq == rig->seq)
        return; /* nothing to wait for */
    rig->seq = seq;
    CHECK(rig->waiting_count < ARRAY_LEN(rig->waiting));
    rig->waiting[rig->waiting_count].seq = seq;
    rig->waiting[rig->waiting_count++].records = rig->record_count;
}

static void keep_below(struct replayed *o, uint64_t index)
{
    while (o->count > 0 && o->entries[o->count - 1].at.index >= index)
        o->count--;
}

static void add(struct replayed *o, struct model_entry e)
{
    keep_below(o, e.at.index);
    o->entries = mem_resize(o->entries, o->count + 1, sizeof(*o->entries));
    o->entries[o->count++] = e;
}

void replayed_of_records(const struct wal_rig *rig, size_t count, struct replayed *out)
{
    *out = (struct replayed){0};
    for (size_t i = 0; i < count; i++)
        if (rig->records[i].type == WAL_STATE)
            out->state = rig->records[i].state;
    for (size_t i = 0; i < count; i++) {
        const struct model_record *r = &rig->records[i];
        if (r->type == WAL_ENTRY)
            add(out, r->entry);
        if (r->type != WAL_SNAPSHOT || r->snapshot.index > out->state.commit)
            continue;
        out->start = r->snapshot;
        if (r->installed)
            keep_below(out, 0);
    }
    size_t skip = 0;
    while (skip < out->count && out->entries[skip].at.index <= out->start.index)
        skip++;
    out->count -= skip;
    for (size_t i = 0; skip > 0 && i < out->count; i++)
        out->entries[i] = out->entries[i + skip];
}

bool replayed_equal(const struct replayed *a, const struct replayed *b)
{
    if (a->count != b->count || a->start.index != b->start.index ||
        a->start.term != b->start.term || memcmp(&a->state, &b->state, sizeof(a->state)) != 0)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct model_entry *x = &a->entries[i], *y = &b->entries[i];
        if (x->at.index != y->at.index || x->at.term != y->at.term || x->type != y->type ||
            x->crc != y->crc)
            return false;
    }
    return true;
}

void replayed_free(struct replayed *o)
{
    mem_free(o->entries);
    *o = (struct replayed){0};
}

static void see_entry(void *context, const struct raft_entry *e)
{
    struct replayed *o = context;

    CHECK(e->index == (o->count ? o->entries[o->count - 1].at.index : o->start.index) + 1);
    add(o, (struct model_entry){
               .at = {e->index, e->term}, .type = e->type, .crc = crc32c(0, e->data)});
}

static void see_truncate(void *context, uint64_t from)
{
    keep_below(context, from);
}

static enum err find_start(struct wal_rig *rig, struct wal_place *out)
{
    struct arena arena = {0};
    struct wal_snapshots all;
    enum err e = wal_snapshots(rig->disk, &rig->opt, &arena, &all);

    if (e == ERR_OK)
        *out = all.count
                   ? (struct wal_place){all.at[all.count - 1].index, all.at[all.count - 1].term}
                   : (struct wal_place){0};
    arena_free(&arena);
    return e;
}

enum err replayed_of_disk(struct wal_rig *rig, struct replayed *out, struct wal_found *found)
{
    struct wal_visitor visitor = {
        .on_entry = see_entry, .on_truncate = see_truncate, .context = out};

    *out = (struct replayed){0};
    *found = (struct wal_found){0};
    enum err e = find_start(rig, &out->start);
    if (e == ERR_OK || e == ERR_CORRUPT)
        e = wal_replay(rig->disk, &rig->opt, out->start, &visitor, found);
    out->state = found->state;
    return e;
}

/* --- opening --- */

enum err wal_rig_create(struct wal_rig *rig)
{
    struct pb_wal_metadata id = {.node_id = 0x8e9e05c52164694d, .cluster_id = 0xcdf818194e3a8c32};
    enum err e = wal_create(rig->disk, &rig->opt, &id, &rig->wal);

    if (e != ERR_OK)
        return e;
    note(rig, WAL_SNAPSHOT);
    rig->acknowledged = 1;
    return ERR_OK;
}

void wal_rig_start(struct wal_rig *rig)
{
    CHECK_EQ(wal_rig_create(rig), ERR_OK);
    wal_rig_state(rig, 1, 7, 0);
    wal_rig_settle(rig);
}

void wal_rig_end(struct wal_rig *rig)
{
    wal_rig_close(rig);
    wal_rig_free(rig);
}

/* Which first part of the model is this? */
static size_t match(struct wal_rig *rig, const struct replayed *found, bool exact)
{
    size_t most = exact ? rig->acknowledged : rig->record_count;

    for (size_t n = most + 1; n-- > rig->acknowledged;) {
        struct replayed o;
        replayed_of_records(rig, n, &o);
        bool equal = replayed_equal(&o, found);
        replayed_free(&o);
        if (equal)
            return n;
    }
    test_fail(__FILE__, __LINE__,
              "the log is not what %zu to %zu records come to: start %llu, %zu entries, commit "
              "%llu",
              rig->acknowledged, most, (unsigned long long)found->start.index, found->count,
              (unsigned long long)found->state.commit);
}

static void continue_from(struct wal_rig *rig, size_t records, const struct replayed *o)
{
    rig->record_count = records;
    rig->acknowledged = records;
    rig->waiting_count = 0;
    rig->durable = 0;
    rig->seq = 0;
    rig->term = o->state.term;
    rig->vote = o->state.vote;
    rig->commit = o->state.commit;
    rig->last = o->start.index + o->count;
    rig->orphan = (struct wal_place){0};
    for (size_t i = 0; i < records; i++)
        if (rig->records[i].installed && rig->records[i].snapshot.index > rig->commit)
            rig->orphan = rig->records[i].snapshot;
    for (size_t i = 0; i < o->count; i++) {
        rig->terms[o->entries[i].at.index] = o->entries[i].at.term;
        if (o->entries[i].at.term > rig->term)
            rig->term = o->entries[i].at.term;
    }
}

enum err wal_rig_open(struct wal_rig *rig, bool exact)
{
    struct replayed o = {0};
    struct wal_visitor visitor = {
        .on_entry = see_entry, .on_truncate = see_truncate, .context = &o};
    struct wal_found found = {0};
    enum err e = find_start(rig, &o.start);

    if (e == ERR_OK)
        e = wal_open(rig->disk, &rig->opt, o.start, &visitor, &found, &rig->wal);
    if (e == ERR_OK) {
        CHECK(found.start_found);
        CHECK(found.metadata.node_id == 0x8e9e05c52164694d);
        CHECK_EQ(found.last_index, o.start.index + o.count);
        o.state = found.state;
        continue_from(rig, match(rig, &o, exact), &o);
    }
    replayed_free(&o);
    return e;
}

/* --- appending --- */

struct blob *wal_rig_data(uint64_t index, uint64_t term, size_t len)
{
    uint8_t *fill;
    struct blob *b = blob_new(len, &fill);
    struct rng rng;

    rng_seed(&rng, index * 1000 + term);
    for (size_t i = 0; i < len; i++)
        fill[i] = (uint8_t)rng_between(&rng, 1, 255);
    return b;
}

static void save(struct wal_rig *rig, struct wal_save s, uint64_t first, size_t count,
                 size_t data_len)
{
    struct raft_entry *entries = mem_new_array(count + 1, struct raft_entry);

    for (size_t i = 0; i < count; i++) {
        struct blob *data = wal_rig_data(first + i, rig->term, data_len);
        entries[i] = (struct raft_entry){
            .term = rig->term, .index = first + i, .data = blob_bytes(data), .blob = data};
        note_entry(rig, &entries[i]);
    }
    s.entries = entries;
    s.entry_count = count;
    if (s.state.term)
        note_state(rig, s.state);
    note_seq(rig, wal_append(rig->wal, &s));
    for (size_t i = 0; i < count; i++)
        blob_unref(entries[i].blob);
    mem_free(entries);
    wal_check(rig->wal);
}

void wal_rig_entries(struct wal_rig *rig, uint64_t first, size_t count, size_t data_len)
{
    save(rig, (struct wal_save){0}, first, count, data_len);
}

void wal_rig_write_over(struct wal_rig *rig, unsigned segments)
{
    uint64_t until = wal_status(rig->wal).segment + segments;

    while (wal_status(rig->wal).segment < until)
        wal_rig_entries(rig, rig->last + 1, 1, 1000);
}

void wal_rig_state(struct wal_rig *rig, uint64_t term, uint64_t vote, uint64_t commit)
{
    struct raft_hard_state state = {.term = term, .vote = vote, .commit = commit};

    note_state(rig, state);
    note_seq(rig, wal_append(rig->wal, &(struct wal_save){.state = state}));
}

static const struct raft_conf_state conf_state = {.voters = {1, {0x8e9e05c52164694d}}};

void wal_rig_snapshot(struct wal_rig *rig, uint64_t index)
{
    struct raft_snapshot s = {.index = index, .term = rig->terms[index], .conf_state = conf_state};

    note(rig, WAL_SNAPSHOT)->snapshot = (struct wal_place){s.index, s.term};
    note_seq(rig, wal_append_snapshot(rig->wal, &s));
}

void wal_rig_install(struct wal_rig *rig, uint64_t index, uint64_t term, size_t entries)
{
    struct raft_snapshot s = {.index = index, .term = term, .conf_state = conf_state};
    struct model_record *r = note(rig, WAL_SNAPSHOT);

    r->snapshot = (struct wal_place){index, term};
    r->installed = true;
    rig->terms[index] = term;
    rig->term = rig->term < term ? term : rig->term;
    struct raft_hard_state state = {.term = rig->term, .vote = 0, .commit = index};
    if (entries > 0)
        note_state(rig, state); /* as the wal does, before the entries */
    save(rig, (struct wal_save){.installed = &s, .state = state}, index + 1, entries, 100);
    rig->last = index + entries;
}

/* Gives up and deletes what a durable snapshot has made superfluous. */
static void forget(struct wal_rig *rig)
{
    struct replayed o;

    replayed_of_records(rig, rig->acknowledged, &o);
    wal_release(rig->wal, o.start.index);
    replayed_free(&o);
    wal_purge(rig->wal, 1);
}

void wal_rig_do_something(struct wal_rig *rig)
{
    size_t sizes[] = {0, 1, 7, 100, 500, 511, 513, 1500, 20000};
    size_t len = sizes[rng_below(&rig->rng, ARRAY_LEN(sizes))];
    size_t count = rng_between(&rig->rng, 1, 4);

    if (rig->orphan.index > 0) {
        struct wal_place again = rig->orphan;
        rig->orphan = (struct wal_place){0};
        wal_rig_install(rig, again.index, again.term, rng_below(&rig->rng, 3));
    }
    switch (rng_below(&rig->rng, 12)) {
    case 0: /* a new leader replaces what is not committed */
        wal_rig_state(rig, rig->term + 1, rng_below(&rig->rng, 3), rig->commit);
        wal_rig_entries(rig, rng_between(&rig->rng, rig->commit + 1, rig->last + 1), count, len);
        break;
    case 1: /* a commit index alone */
    case 2:
        if (rig->term > 0)
            wal_rig_state(rig, rig->term, rig->vote,
                          rng_between(&rig->rng, rig->commit, rig->last));
        break;
    case 3:
        if (rig->commit > 0)
            wal_rig_snapshot(rig, rig->commit);
        break;
    case 4:
        if (rig->term > 0 && rng_chance(&rig->rng, 1, 3))
            wal_rig_install(rig, rig->last + rng_between(&rig->rng, 1, 9), rig->term + 1,
                            rng_below(&rig->rng, 3));
        break;
    case 5:
        forget(rig);
        break;
    default:
        if (rig->term == 0)
            wal_rig_state(rig, 1, 7, 0);
        wal_rig_entries(rig, rig->last + 1, count, len);
    }
}
