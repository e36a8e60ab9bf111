/*
 * The confchange grammar.
 *
 *     simple                         one step, at most one voter differs
 *     v1 l2 r3 u4                    (voter, learner, remove, update)
 *     enter-joint autoleave=true     the first of two steps
 *     leave-joint                    the second
 *
 * The answer is the new configuration with everyone's progress, or why there is none. The log's
 * last index grows with every command, so a member's `next` tells when it was added.
 */
#include "raft/scenarios.h"

#include "raft/confchange.h"
#include "raft/describe.h"

struct changer {
    struct tracker tracker;
    uint64_t last_index;
};

void *confchange_scenario_open(void)
{
    struct changer *c = mem_new(struct changer);

    c->tracker.max_inflight_messages = 10;
    return c;
}

void confchange_scenario_close(void *context)
{
    struct changer *c = context;

    tracker_free(&c->tracker);
    mem_free(c);
}

/* False, and the reason in `problem`, when a given autoleave is not a truth value. */
static bool read_auto_leave(const struct scenario_command *command, bool *out, struct buf *problem)
{
    const struct scenario_arg *arg = scenario_find(command, "autoleave");

    *out = false;
    if (command->arg_count == 0)
        return true;
    if (arg && arg->count == 1)
        return scenarios_parse_bool(arg->values[0], out, problem);
    buf_append_str(problem, "cannot run: missing argument: autoleave");
    return false;
}

/* The next tracker, or why not, in `problem`. */
static bool change(const struct changer *c, const struct scenario_command *command,
                   struct tracker *next, struct buf *problem)
{
    struct raft_conf_change_single changes[RAFT_CHANGES_MAX];
    size_t count;
    bool auto_leave;
    const char *reason = "unknown command";

    if (!scenarios_parse_changes(command->input, changes, &count, problem))
        return false;
    if (strcmp(command->name, "simple") == 0) {
        reason = confchange_simple(&c->tracker, c->last_index, changes, count, next);
    } else if (strcmp(command->name, "enter-joint") == 0) {
        if (!read_auto_leave(command, &auto_leave, problem))
            return false;
        reason =
            confchange_enter_joint(&c->tracker, c->last_index, auto_leave, changes, count, next);
    } else if (strcmp(command->name, "leave-joint") == 0) {
        reason =
            count > 0 ? "this command takes no input" : confchange_leave_joint(&c->tracker, next);
    }
    if (reason)
        buf_append_str(problem, reason);
    return !reason;
}

void confchange_scenario_answer(void *context, const struct scenario_command *command,
                                struct buf *out)
{
    struct changer *c = context;
    struct tracker next;

    if (change(c, command, &next, out)) {
        confchange_switch(&c->tracker, &next);
        tracker_check(&c->tracker);
        raft_describe_conf(out, &c->tracker.conf);
        buf_append_byte(out, '\n');
        raft_describe_tracker(out, &c->tracker);
    }
    c->last_index++;
}
