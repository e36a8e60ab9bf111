#include "raft/raft_rig_test.h"

#include "base/assert.h"
#include "harness/test.h"

#include <inttypes.h>

struct blob *text_blob(const char *text)
{
    return blob_copy(bytes_of_str(text));
}

static void keep_line(void *context, enum raft_log_level level, const char *text)
{
    (void)level;
    buf_append_str(context, text);
    buf_append_byte(context, '\n');
}

struct raft_config raft_group_config(uint64_t id)
{
    struct raft_config config = {
        .id = id,
        .election_ticks = 10,
        .heartbeat_ticks = 1,
        .max_message_bytes = RAFT_NO_LIMIT,
        .max_inflight_messages = 256,
        .log = keep_line,
    };
    rng_seed(&config.rng, test_seed() * 1000 + id);
    return config;
}

/* --- life --- */

static void open_member(struct raft_rig *g, uint64_t id, void (*tweak)(struct raft_config *))
{
    struct raft_rig_member *m = &g->member[id];

    m->config = raft_group_config(id);
    m->config.log_context = &m->log;
    if (tweak)
        tweak(&m->config);
    struct raft_boot boot = {.conf_state = m->conf_state};
    m->raft = raft_open(&m->config, &boot);
    raft_check(m->raft);
}

void raft_group_open(struct raft_rig *g, size_t count, void (*tweak)(struct raft_config *))
{
    struct raft_conf_state conf = {0};

    *g = (struct raft_rig){0};
    for (size_t i = 0; i < count; i++)
        conf.voters.at[conf.voters.count++] = i + 1;
    for (size_t i = 0; i < count; i++)
        raft_group_add(g, &conf, tweak);
}

void raft_group_add(struct raft_rig *g, const struct raft_conf_state *conf,
                    void (*tweak)(struct raft_config *))
{
    assert(g->count < RAFT_RIG_MAX);
    uint64_t id = ++g->count;
    if (conf)
        g->member[id].conf_state = *conf;
    open_member(g, id, tweak);
}

static void truncate_disk(struct raft_rig_member *m, size_t count)
{
    while (m->disk_count > count)
        blob_unref(m->disk[--m->disk_count].blob);
}

void raft_group_close(struct raft_rig *g)
{
    raft_group_lose(g, -1);
    for (uint64_t id = 1; id <= g->count; id++) {
        struct raft_rig_member *m = &g->member[id];
        raft_close(m->raft);
        truncate_disk(m, 0);
        mem_free(m->disk);
        blob_unref(m->snapshot.blob);
        buf_free(&m->machine);
        buf_free(&m->reads);
        buf_free(&m->sent);
        buf_free(&m->log);
    }
    mem_free(g->flying);
}

void raft_group_restart(struct raft_rig *g, uint64_t id)
{
    struct raft_rig_member *m = &g->member[id];
    struct raft_status was = raft_status(m->raft);
    uint64_t base = was.base_index, base_term = 0;

    CHECK(raft_term_at(m->raft, base, &base_term));
    struct raft_boot boot = {
        .hard_state = m->hard_state,
        .conf_state = m->conf_state,
        .base_index = base,
        .base_term = base_term,
        .entries = m->disk ? m->disk + base : NULL,
        .entry_count = m->disk_count - base,
        .applied = m->applied,
    };
    raft_close(m->raft);
    m->raft = raft_open(&m->config, &boot);
    raft_check(m->raft);
}

struct raft *raft_group_raft(struct raft_rig *g, uint64_t id)
{
    return g->member[id].raft;
}

/* --- one output --- */

static void write_entries(struct raft_rig_member *m, const struct raft_entry *entries, size_t count)
{
    if (count == 0)
        return;
    truncate_disk(m, entries[0].index - 1);
    m->disk = mem_resize(m->disk, m->disk_count + count, sizeof(*m->disk));
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(entries[i].index, m->disk_count + 1);
        m->disk[m->disk_count++] = raft_entry_share(&entries[i]);
    }
}

/* The disk after a snapshot: entries nobody will ask for. */
static void write_snapshot(struct raft_rig_member *m, const struct raft_snapshot *s)
{
    truncate_disk(m, 0);
    m->disk = mem_resize(m->disk, s->index, sizeof(*m->disk));
    for (uint64_t i = 0; i < s->index; i++)
        m->disk[m->disk_count++] = (struct raft_entry){.index = i + 1, .term = s->term};
    blob_unref(m->snapshot.blob);
    m->snapshot = *s;
    blob_ref(s->blob);
    m->conf_state = s->conf_state;
    m->applied = s->index;
    buf_clear(&m->machine);
    buf_append(&m->machine, s->data);
}

static void apply(struct raft_rig *g, struct raft_rig_member *m, const struct raft_entry *e)
{
    struct raft_conf_change_v2 cc;

    CHECK_EQ(e->index, m->applied + 1);
    m->applied = e->index;
    if (raft_entry_conf_change(e, &cc)) {
        CHECK_EQ(raft_apply_conf_change(m->raft, &cc, &m->conf_state), RAFT_OK);
        raft_check(m->raft);
    } else if (e->data.len > 0) {
        buf_append(&m->machine, e->data);
        buf_append_byte(&m->machine, ' ');
    }
    if (g->offer_snapshots) {
        struct raft_snapshot s = {.index = e->index,
                                  .term = e->term,
                                  .conf_state = m->conf_state,
                                  .data = buf_bytes(&m->machine)};
        raft_set_snapshot(m->raft, &s);
    }
}

static void fly(struct raft_rig *g, struct raft_rig_member *m, const struct raft_message *message)
{
    raft_describe_message(&m->sent, message, NULL);
    buf_append_byte(&m->sent, '\n');
    if (g->flying_count == g->flying_cap) {
        g->flying_cap = g->flying_cap ? g->flying_cap * 2 : 16;
        g->flying = mem_resize(g->flying, g->flying_cap, sizeof(struct raft_message *));
    }
    g->flying[g->flying_count++] = raft_message_clone(message);
}

static void respond(struct raft_rig *g, struct raft_rig_member *m, const struct raft_message *work)
{
    struct raft_message *own = raft_message_clone(work);

    for (size_t i = 0; i < own->response_count; i++) {
        if (own->responses[i].to == m->config.id)
            raft_step_own(m->raft, &own->responses[i]);
        else
            fly(g, m, &own->responses[i]);
        raft_check(m->raft);
    }
    raft_message_free(own);
}

static void fetch(struct raft_rig_member *m, const struct raft_fetch *f)
{
    m->last_fetch = *f;
    m->fetch_count++;
    if (m->lose_fetches)
        return;
    CHECK(f->low < f->high);
    CHECK(f->high <= m->disk_count + 1);
    raft_fetched(m->raft, f->token, m->disk + f->low - 1, f->high - f->low);
    raft_check(m->raft);
}

static void take_reads(struct raft_rig_member *m, const struct raft_output *out)
{
    for (size_t i = 0; i < out->read_state_count; i++) {
        buf_append(&m->reads, out->read_states[i].context);
        buf_printf(&m->reads, "@%" PRIu64 " ", out->read_states[i].index);
    }
}

static bool take_one(struct raft_rig *g, struct raft_rig_member *m)
{
    struct raft_output out;

    if (!raft_take_output(m->raft, &out))
        return false;
    raft_check(m->raft);
    if (out.has_hard_state)
        m->hard_state = out.hard_state;
    if (out.snapshot)
        write_snapshot(m, out.snapshot);
    write_entries(m, out.entries, out.entry_count);
    take_reads(m, &out);
    for (size_t i = 0; i < out.send_count; i++)
        fly(g, m, &out.messages[i]);
    for (size_t i = 0; i < out.committed_count; i++)
        apply(g, m, &out.committed[i]);
    struct raft_message *append = out.append ? raft_message_clone(out.append) : NULL;
    struct raft_message *applied = out.apply ? raft_message_clone(out.apply) : NULL;
    if (append)
        respond(g, m, append);
    if (applied)
        respond(g, m, applied);
    raft_message_free(append);
    raft_message_free(applied);
    for (size_t i = 0; i < out.fetch_count; i++)
        fetch(m, &out.fetches[i]);
    if (!m->config.async_storage_writes)
        raft_advance(m->raft);
    raft_check(m->raft);
    return true;
}

void raft_group_take(struct raft_rig *g, uint64_t id)
{
    for (int rounds = 0; take_one(g, &g->member[id]); rounds++)
        CHECK(rounds < 1000);
}

const char *raft_group_sent(struct raft_rig *g, uint64_t id)
{
    buf_clear(&g->member[id].sent);
    raft_group_take(g, id);
    return buf_str(&g->member[id].sent);
}

/* --- the network --- */

static bool arrives(const struct raft_rig *g, const struct raft_message *m)
{
    bool sender_cut = m->from <= g->count && g->member[m->from].cut;

    return m->to >= 1 && m->to <= g->count && !g->member[m->to].cut && !sender_cut;
}

bool raft_group_deliver(struct raft_rig *g)
{
    struct raft_message **flying = g->flying;
    size_t count = g->flying_count;

    g->flying = NULL;
    g->flying_count = 0;
    g->flying_cap = 0;
    for (size_t i = 0; i < count; i++) {
        struct raft_message *m = flying[i];
        if (arrives(g, m)) {
            raft_step(g->member[m->to].raft, m);
            raft_check(g->member[m->to].raft);
        }
        if (m->type == RAFT_MSG_SNAP && arrives(g, m)) {
            raft_report_snapshot(g->member[m->from].raft, m->to, true);
            raft_check(g->member[m->from].raft);
        }
        raft_message_free(m);
    }
    mem_free(flying);
    return count > 0;
}

void raft_group_settle(struct raft_rig *g)
{
    for (int rounds = 0;; rounds++) {
        CHECK(rounds < 10000);
        for (uint64_t id = 1; id <= g->count; id++)
            raft_group_take(g, id);
        if (!raft_group_deliver(g))
            return;
    }
}

size_t raft_group_lose(struct raft_rig *g, int type)
{
    size_t kept = 0, lost = 0;

    for (size_t i = 0; i < g->flying_count; i++) {
        if (type < 0 || (int)g->flying[i]->type == type) {
            raft_message_free(g->flying[i]);
            lost++;
        } else {
            g->flying[kept++] = g->flying[i];
        }
    }
    g->flying_count = kept;
    return lost;
}

/* --- what tests do all the time --- */

void raft_group_elect(struct raft_rig *g, uint64_t id)
{
    raft_campaign(g->member[id].raft);
    raft_group_settle(g);
    CHECK_EQ(raft_status(g->member[id].raft).soft_state.role, RAFT_LEADER);
}

enum raft_result raft_group_propose(struct raft_rig *g, uint64_t id, const char *command)
{
    struct blob *data = text_blob(command);
    enum raft_result result = raft_propose(g->member[id].raft, data);

    blob_unref(data);
    raft_check(g->member[id].raft);
    return result;
}

void raft_group_tick(struct raft_rig *g, uint64_t id, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        raft_tick(g->member[id].raft);
        raft_check(g->member[id].raft);
    }
}

const char *raft_group_machine(struct raft_rig *g, uint64_t id)
{
    return buf_str(&g->member[id].machine);
}

struct raft_status raft_group_status(struct raft_rig *g, uint64_t id)
{
    return raft_status(g->member[id].raft);
}

enum raft_role raft_group_role(struct raft_rig *g, uint64_t id)
{
    return raft_group_status(g, id).soft_state.role;
}

const struct raft_progress *raft_group_progress(struct raft_rig *g, uint64_t id, uint64_t of)
{
    return raft_progress_at(g->member[id].raft, of - 1);
}

bool raft_group_logged(struct raft_rig *g, uint64_t id, const char *text)
{
    return strstr(buf_str(&g->member[id].log), text) != NULL;
}

void raft_group_check_conf(struct raft_rig *g, uint64_t id, const char *want)
{
    struct raft_conf_state conf;
    struct buf text = {0};

    raft_conf_state(g->member[id].raft, &conf);
    raft_describe_conf(&text, &conf);
    CHECK_STR(buf_str(&text), want);
    buf_free(&text);
}

void raft_group_change(struct raft_rig *g, uint64_t id, enum raft_conf_change_type type,
                       uint64_t node)
{
    struct raft_conf_change cc = {.type = type, .node_id = node};

    CHECK_EQ(raft_propose_conf_change(g->member[id].raft, &cc), RAFT_OK);
    raft_group_settle(g);
}

void raft_group_read(struct raft_rig *g, uint64_t id, const char *context)
{
    struct blob *blob = text_blob(context);

    raft_read_index(g->member[id].raft, blob);
    blob_unref(blob);
    raft_check(g->member[id].raft);
}

const char *raft_group_reads(struct raft_rig *g, uint64_t id)
{
    return buf_str(&g->member[id].reads);
}

enum raft_result raft_group_step(struct raft_rig *g, struct raft_message m)
{
    enum raft_result result = raft_step(g->member[m.to].raft, &m);

    raft_check(g->member[m.to].raft);
    return result;
}

unsigned strange_number(unsigned number)
{
    return number;
}
