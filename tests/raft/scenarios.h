/*
 * scenarios: the raft core, or one of its parts, replaying interactions written as text.
 *
 * There are three grammars, those of etcd-io/raft's own test data. Each starts every file afresh.
 *
 *   quorum        committed cfg=(1,2,3) idx=(10,_,12)     vote cfg=(1,2) cfgj=(3) votes=(y,n,_)
 *   confchange    simple, enter-joint, leave-joint, with changes such as "v1 l2 r3" as input
 *   interaction   a cluster of members whose every step, message and log line is on the page;
 *                 interaction.h lists its commands
 *
 * The file's format is harness/scenario.h's. A command that makes no sense is answered with a line
 * starting "cannot run:", which no expected output has.
 */
#pragma once

#include "harness/scenario.h"
#include "raft/raft.h"

enum scenarios_grammar { SCENARIOS_QUORUM, SCENARIOS_CONFCHANGE, SCENARIOS_INTERACTION };

/* By name, and by the nearest folder of that name above the file. False when there is none. */
MUST_CHECK bool scenarios_grammar_named(const char *name, enum scenarios_grammar *out);
MUST_CHECK bool scenarios_grammar_of_file(const char *path, enum scenarios_grammar *out);

/* Runs one file. Differences are printed; with `rewrite`, the file is replaced. */
struct scenario_result scenarios_run(const char *path, enum scenarios_grammar grammar,
                                     bool rewrite);

/* Is this one of our own files, which REWRITE=1 may replace? Others are only ever read. */
bool scenarios_may_rewrite(const char *path);

/* The grammars: answers to one command. The contexts of the latter two are opaque. */
scenario_answer quorum_scenario_answer; /* without a context */

void *confchange_scenario_open(void);
scenario_answer confchange_scenario_answer;
void confchange_scenario_close(void *context);

void *interaction_open(void);
scenario_answer interaction_answer;
void interaction_close(void *context);

/* ---- Values in commands, read as Go's strconv reads them ------------------------------------- */

/* False, with strconv's words appended to `problem`, when the text is not such a value. */
MUST_CHECK bool scenarios_parse_u64(const char *text, uint64_t *out, struct buf *problem);
MUST_CHECK bool scenarios_parse_bool(const char *text, bool *out, struct buf *problem);

/* Changes such as "v1 l2 r3 u4", at most RAFT_CHANGES_MAX of them. */
MUST_CHECK bool scenarios_parse_changes(struct bytes text, struct raft_conf_change_single *out,
                                        size_t *count, struct buf *problem);
