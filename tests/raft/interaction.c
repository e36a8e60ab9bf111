#include "raft/interaction.h"

#include "raft/describe.h"

#include <inttypes.h>
#include <strings.h>

static const char *const level_names[] = {"DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE"};
static_assert(ARRAY_LEN(level_names) == LEVEL_NONE + 1, "a name for each level");

/* --- output --- */

void scene_say(struct scene *s, const char *format, ...)
{
    va_list args;

    if (s->level == LEVEL_NONE)
        return;
    va_start(args, format);
    buf_vprintf(s->out, format, args);
    va_end(args);
}

void scene_say_message(struct scene *s, const struct raft_message *m)
{
    if (s->level == LEVEL_NONE)
        return;
    raft_describe_message(s->out, m, NULL);
    buf_append_byte(s->out, '\n');
}

void scene_say_entries(struct scene *s, const struct raft_entry *entries, size_t count)
{
    if (s->level != LEVEL_NONE)
        raft_describe_entries(s->out, entries, count, NULL);
}

void scene_indent_since(struct scene *s, size_t mark)
{
    struct buf said = {0};

    if (s->out->len == mark)
        return;
    buf_append(&said, bytes_of(s->out->at + mark, s->out->len - mark));
    s->out->len = mark;
    for (size_t at = 0; at < said.len;) {
        const uint8_t *newline = memchr(said.at + at, '\n', said.len - at);
        size_t len = newline ? (size_t)(newline - (said.at + at)) : said.len - at;
        buf_append_str(s->out, "  ");
        buf_append(s->out, bytes_of(said.at + at, len));
        buf_append_byte(s->out, '\n');
        at += len + 1;
    }
    buf_free(&said);
}

bool scene_fail(struct scene *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(&s->problem, format, args);
    va_end(args);
    return false;
}

bool scene_set_level(struct scene *s, const char *name)
{
    for (unsigned i = 0; i < ARRAY_LEN(level_names); i++) {
        if (strcasecmp(name, level_names[i]) == 0) {
            s->level = i;
            return true;
        }
    }
    return scene_fail(s, "log levels must be either of [DEBUG INFO WARN ERROR FATAL NONE]");
}

/* --- reading arguments --- */

/* The n-th argument as a number; false and a note if it is missing or something else. */
static bool number_at(struct scene *s, const struct scenario_command *c, size_t nth, uint64_t *out)
{
    *out = 0;
    if (nth >= c->arg_count || c->args[nth].count > 0)
        return scene_fail(s, "cannot run: argument %zu should be a number", nth + 1);
    return scenarios_parse_u64(c->args[nth].key, out, &s->problem);
}

static struct node *node_called(struct scene *s, uint64_t id)
{
    if (id == 0 || id > s->node_count) {
        scene_fail(s, "cannot run: there is no node %" PRIu64, id);
        return NULL;
    }
    return s->nodes[id - 1];
}

static struct node *node_at(struct scene *s, const struct scenario_command *c, size_t nth)
{
    uint64_t id;

    return number_at(s, c, nth, &id) ? node_called(s, id) : NULL;
}

/* All bare arguments as nodes. */
static bool read_nodes(struct scene *s, const struct scenario_command *c,
                       struct node *nodes[INTERACTION_NODES_MAX], size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < c->arg_count; i++) {
        if (c->args[i].count > 0)
            continue;
        if (*count == INTERACTION_NODES_MAX)
            return scene_fail(s, "cannot run: too many nodes");
        nodes[*count] = node_at(s, c, i);
        if (!nodes[(*count)++])
            return false;
    }
    return true;
}

static bool number_called(struct scene *s, const struct scenario_command *c, const char *key,
                          uint64_t *out)
{
    const struct scenario_arg *arg = scenario_find(c, key);

    *out = 0;
    if (!arg || arg->count != 1)
        return scene_fail(s, "cannot run: missing argument: %s", key);
    return scenarios_parse_u64(arg->values[0], out, &s->problem);
}

static bool note_result(struct scene *s, enum raft_result result)
{
    return result == RAFT_OK || scene_fail(s, "%s", raft_result_text(result));
}

/* --- the small commands --- */

static bool do_nothing(struct scene *s, const struct scenario_command *c)
{
    (void)s;
    (void)c;
    return true;
}

static bool do_log_level(struct scene *s, const struct scenario_command *c)
{
    if (c->arg_count == 0)
        return scene_fail(s, "cannot run: which level?");
    return scene_set_level(s, c->args[0].key);
}

static bool do_campaign(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);

    return n && note_result(s, raft_campaign(n->raft));
}

static bool do_compact(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);
    uint64_t index;

    return n && number_at(s, c, 1, &index) && scene_node_compact(s, n, index);
}

static bool do_raft_log(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);

    return n && scene_say_log(s, n);
}

static bool do_raft_state(struct scene *s, const struct scenario_command *c)
{
    (void)c;
    for (size_t i = 0; i < s->node_count; i++) {
        struct raft_status status = raft_status(s->nodes[i]->raft);
        bool voter = raft_is_voter(s->nodes[i]->raft, status.id);
        scene_say(s, "%" PRIu64 ": %s (%s) Term:%" PRIu64 " Lead:%" PRIu64 "\n", status.id,
                  raft_role_text(status.soft_state.role), voter ? "Voter" : "Non-Voter",
                  status.hard_state.term, status.soft_state.lead);
    }
    return true;
}

static bool do_status(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);

    if (n && s->level != LEVEL_NONE)
        raft_describe_status(s->out, n->raft);
    return n != NULL;
}

static bool do_set_timeout(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);
    uint64_t ticks;

    if (!n || !number_called(s, c, "timeout", &ticks))
        return false;
    if (ticks == 0 || ticks > 1000000)
        return scene_fail(s, "cannot run: a timeout of %" PRIu64, ticks);
    raft_set_randomized_election_timeout(n->raft, (unsigned)ticks);
    return true;
}

static bool tick(struct scene *s, const struct scenario_command *c, bool election)
{
    struct node *n = node_at(s, c, 0);

    if (!n)
        return false;
    unsigned ticks = election ? n->config.election_ticks : n->config.heartbeat_ticks;
    for (unsigned i = 0; i < ticks; i++)
        raft_tick(n->raft);
    return true;
}

static bool do_tick_election(struct scene *s, const struct scenario_command *c)
{
    return tick(s, c, true);
}

static bool do_tick_heartbeat(struct scene *s, const struct scenario_command *c)
{
    return tick(s, c, false);
}

static bool do_transfer(struct scene *s, const struct scenario_command *c)
{
    uint64_t from, to;

    if (!number_called(s, c, "from", &from) || !number_called(s, c, "to", &to))
        return false;
    struct node *leader = node_called(s, from);
    if (!leader || !node_called(s, to))
        return false;
    raft_transfer_leader(leader->raft, to);
    return true;
}

/* What comes of it is not shown: etcd's harness drops the result as well. */
static bool do_forget_leader(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);

    if (n)
        raft_forget_leader(n->raft);
    return n != NULL;
}

static bool do_report_unreachable(struct scene *s, const struct scenario_command *c)
{
    struct node *nodes[INTERACTION_NODES_MAX];
    size_t count;

    if (!read_nodes(s, c, nodes, &count))
        return false;
    if (count != 2)
        return scene_fail(s, "must specify exactly two node indexes: node on which to report, and "
                             "reported node");
    raft_report_unreachable(nodes[0]->raft, nodes[1]->config.id);
    return true;
}

static bool do_report_snapshot(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);
    uint64_t peer;

    if (!n || !number_at(s, c, 1, &peer))
        return false;
    const char *how = c->arg_count == 3 ? c->args[2].key : "";
    if (strcmp(how, "ok") != 0 && strcmp(how, "failed") != 0)
        return scene_fail(s, "cannot run: the snapshot is either ok or failed");
    raft_report_snapshot(n->raft, peer, strcmp(how, "ok") == 0);
    return true;
}

static bool do_send_snapshot(struct scene *s, const struct scenario_command *c)
{
    struct node *nodes[INTERACTION_NODES_MAX];
    size_t count;

    if (!read_nodes(s, c, nodes, &count))
        return false;
    if (count != 2)
        return scene_fail(s, "cannot run: a snapshot goes from one node to another");
    struct raft_message snap = {
        .type = RAFT_MSG_SNAP,
        .term = raft_status(nodes[0]->raft).hard_state.term,
        .from = nodes[0]->config.id,
        .to = nodes[1]->config.id,
        .snapshot = &nodes[0]->latest,
    };
    scene_post(&s->network, &snap, false);
    scene_say_message(s, &snap);
    return true;
}

/* --- proposals and reads --- */

static bool do_propose(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);

    if (!n)
        return false;
    if (c->arg_count != 2 || c->args[1].count > 0)
        return scene_fail(s, "cannot run: expected exactly one key with no vals");
    struct blob *data = blob_copy(bytes_of_str(c->args[1].key));
    enum raft_result result = raft_propose(n->raft, data);
    blob_unref(data);
    return note_result(s, result);
}

static bool do_read_index(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);

    if (!n)
        return false;
    if (c->arg_count != 2)
        return scene_fail(s, "cannot run: a read needs a context");
    struct blob *context = blob_copy(bytes_of_str(c->args[1].key));
    raft_read_index(n->raft, context);
    blob_unref(context);
    return true;
}

static bool read_transition(struct scene *s, const char *text, enum raft_transition *out)
{
    static const char *const names[] = {
        [RAFT_TRANSITION_AUTO] = "auto",
        [RAFT_TRANSITION_JOINT_IMPLICIT] = "implicit",
        [RAFT_TRANSITION_JOINT_EXPLICIT] = "explicit",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum raft_transition)i;
            return true;
        }
    }
    return scene_fail(s, "unknown transition %s", text);
}

static bool read_conf_change(struct scene *s, const struct scenario_command *c, bool *v1,
                             struct raft_conf_change_v2 *out)
{
    for (size_t i = 1; i < c->arg_count; i++) {
        const struct scenario_arg *arg = &c->args[i];
        for (size_t j = 0; j < arg->count; j++) {
            bool ok = strcmp(arg->key, "v1") == 0
                          ? scenarios_parse_bool(arg->values[j], v1, &s->problem)
                      : strcmp(arg->key, "transition") == 0
                          ? read_transition(s, arg->values[j], &out->transition)
                          : scene_fail(s, "unknown command %s", arg->key);
            if (!ok)
                return false;
        }
    }
    return scenarios_parse_changes(c->input, out->changes, &out->change_count, &s->problem);
}

static bool do_propose_conf_change(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);
    struct raft_conf_change_v2 change = {0};
    bool v1 = false;

    if (!n || !read_conf_change(s, c, &v1, &change))
        return false;
    if (!v1)
        return note_result(s, raft_propose_conf_change_v2(n->raft, &change));
    if (change.change_count > 1 || change.transition != RAFT_TRANSITION_AUTO)
        return scene_fail(s, "v1 conf change can only have one operation and no transition");
    if (change.change_count == 0)
        return scene_fail(s, "cannot run: v1 conf change without an operation");
    struct raft_conf_change single = {.type = change.changes[0].type,
                                      .node_id = change.changes[0].node_id};
    return note_result(s, raft_propose_conf_change(n->raft, &single));
}

static bool do_evict(struct scene *s, const struct scenario_command *c)
{
    struct node *n = node_at(s, c, 0);
    uint64_t index;

    if (!n || !number_at(s, c, 1, &index))
        return false;
    raft_evict(n->raft, index);
    struct raft_status status = raft_status(n->raft);
    scene_say(s, "in memory from index %" PRIu64 " to %" PRIu64 "\n", status.resident_index,
              status.last_index);
    return true;
}

/* --- commands that make members work --- */

typedef bool node_work(struct scene *s, struct node *n);

/* Under a heading each, if it is for several nodes. */
static bool work_on_each(struct scene *s, const struct scenario_command *c, const char *heading,
                         node_work *work)
{
    struct node *nodes[INTERACTION_NODES_MAX];
    size_t count;

    if (!read_nodes(s, c, nodes, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (count > 1)
            scene_say(s, "> %" PRIu64 " %s\n", nodes[i]->config.id, heading);
        size_t mark = s->out->len;
        bool ok = work(s, nodes[i]);
        if (count > 1)
            scene_indent_since(s, mark);
        if (!ok)
            return false;
    }
    return true;
}

static bool do_process_ready(struct scene *s, const struct scenario_command *c)
{
    return work_on_each(s, c, "handling Ready", scene_process_ready);
}

static bool do_process_append(struct scene *s, const struct scenario_command *c)
{
    return work_on_each(s, c, "processing append thread", scene_process_append);
}

static bool do_process_apply(struct scene *s, const struct scenario_command *c)
{
    return work_on_each(s, c, "processing apply thread", scene_process_apply);
}

static bool do_process_fetches(struct scene *s, const struct scenario_command *c)
{
    const struct scenario_arg *arg = scenario_find(c, "fail");
    bool failing = false;

    if (arg && arg->count == 1 && !scenarios_parse_bool(arg->values[0], &failing, &s->problem))
        return false;
    return work_on_each(s, c, "processing fetches",
                        failing ? scene_fail_fetches : scene_process_fetches);
}

static bool do_stabilize(struct scene *s, const struct scenario_command *c)
{
    struct node *nodes[INTERACTION_NODES_MAX];
    const struct scenario_arg *arg = scenario_find(c, "log-level");
    unsigned level = s->level;
    size_t count;

    if (!read_nodes(s, c, nodes, &count))
        return false;
    bool ok = !arg || arg->count == 0 || scene_set_level(s, arg->values[0]);
    ok = ok && (count > 0 ? scene_stabilize(s, nodes, count)
                          : scene_stabilize(s, s->nodes, s->node_count));
    s->level = level;
    return ok;
}

static bool read_type(struct scene *s, const char *text, int *out)
{
    const char *name;

    for (int i = 0; (name = raft_message_type_text((enum raft_message_type)i)); i++) {
        if (strcmp(name, text) == 0) {
            *out = i;
            return true;
        }
    }
    return scene_fail(s, "cannot run: unknown message type %s", text);
}

struct recipients {
    struct recipient at[2 * INTERACTION_NODES_MAX];
    size_t count;
};

static bool add_recipient(struct scene *s, struct recipients *list, const char *text, bool drop)
{
    struct recipient r = {.drop = drop};

    if (!scenarios_parse_u64(text, &r.id, &s->problem))
        return false;
    for (size_t i = 0; i < list->count && drop; i++)
        if (list->at[i].id == r.id)
            return scene_fail(s, "cannot run: can't both deliver and drop msgs to %" PRIu64, r.id);
    if (list->count == ARRAY_LEN(list->at))
        return scene_fail(s, "cannot run: too many recipients");
    list->at[list->count++] = r;
    return true;
}

static bool read_delivery(struct scene *s, const struct scenario_command *c,
                          struct recipients *list, int *type)
{
    for (size_t i = 0; i < c->arg_count; i++) {
        const struct scenario_arg *arg = &c->args[i];
        if (arg->count == 0 && !add_recipient(s, list, arg->key, false))
            return false;
        for (size_t j = 0; j < arg->count; j++) {
            if (strcmp(arg->key, "drop") == 0 && !add_recipient(s, list, arg->values[j], true))
                return false;
            if (strcmp(arg->key, "type") == 0 && !read_type(s, arg->values[j], type))
                return false;
        }
    }
    return true;
}

static bool do_deliver(struct scene *s, const struct scenario_command *c)
{
    struct recipients list = {0};
    int type = ANY_TYPE;
    size_t delivered = 0;

    if (!read_delivery(s, c, &list, &type))
        return false;
    for (size_t i = 0; i < list.count; i++)
        if (!scene_deliver(s, &list.at[i], type, &delivered))
            return false;
    if (delivered == 0)
        scene_say(s, "no messages\n");
    return true;
}

/* --- answering --- */

static const struct command {
    const char *name;
    bool (*run)(struct scene *s, const struct scenario_command *c);
} commands[] = {
    {"_breakpoint", do_nothing},
    {"add-nodes", scene_add_nodes},
    {"campaign", do_campaign},
    {"compact", do_compact},
    {"deliver-msgs", do_deliver},
    {"evict", do_evict},
    {"forget-leader", do_forget_leader},
    {"log-level", do_log_level},
    {"process-append-thread", do_process_append},
    {"process-apply-thread", do_process_apply},
    {"process-fetches", do_process_fetches},
    {"process-ready", do_process_ready},
    {"propose", do_propose},
    {"propose-conf-change", do_propose_conf_change},
    {"raft-log", do_raft_log},
    {"raft-state", do_raft_state},
    {"read-index", do_read_index},
    {"report-snapshot", do_report_snapshot},
    {"report-unreachable", do_report_unreachable},
    {"send-snapshot", do_send_snapshot},
    {"set-randomized-election-timeout", do_set_timeout},
    {"stabilize", do_stabilize},
    {"status", do_status},
    {"tick-election", do_tick_election},
    {"tick-heartbeat", do_tick_heartbeat},
    {"transfer-leadership", do_transfer},
};

static bool run_command(struct scene *s, const struct scenario_command *c)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(c->name, commands[i].name) == 0)
            return commands[i].run(s, c);
    return scene_fail(s, "unknown command");
}

static void settle_and_check(const struct scene *s)
{
    for (size_t i = 0; i < s->node_count; i++) {
        scene_node_settle(s->nodes[i]);
        raft_check(s->nodes[i]->raft);
    }
}

void interaction_answer(void *context, const struct scenario_command *c, struct buf *out)
{
    struct scene *s = context;

    s->out = out;
    buf_clear(&s->problem);
    if (!run_command(s, c)) {
        if (s->level == LEVEL_NONE)
            buf_clear(out);
        buf_append(out, buf_bytes(&s->problem)); /* whatever the level */
    }
    settle_and_check(s);
    if (out->len == 0)
        buf_append_str(out, "ok");
}

void *interaction_open(void)
{
    struct scene *s = mem_new(struct scene);

    list_init(&s->network);
    return s;
}

void interaction_close(void *context)
{
    struct scene *s = context;

    for (size_t i = 0; i < s->node_count; i++)
        scene_node_free(s->nodes[i]);
    scene_letters_free(&s->network);
    buf_free(&s->problem);
    mem_free(s);
}
