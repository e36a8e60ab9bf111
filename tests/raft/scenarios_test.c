/*
 * The files of ../shared/raft-testdata (or of $RAFT_TESTDATA), which are etcd-io/raft's and not
 * part of this project, and our own in src/raft/testdata. REWRITE=1 refreshes only the latter.
 */
#include "raft/scenarios.h"

#include "harness/test.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void run_folder(const char *folder, const char *grammar_name)
{
    char pattern[4096];
    glob_t files;
    enum scenarios_grammar grammar;
    const char *rewrite = getenv("REWRITE");

    snprintf(pattern, sizeof(pattern), "%s/%s/*.txt", folder, grammar_name);
    CHECK_EQ(glob(pattern, 0, NULL, &files), 0); /* a folder without files is a mistake */
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *path = files.gl_pathv[i];
        CHECK(scenarios_grammar_of_file(path, &grammar));
        bool replace = rewrite && strcmp(rewrite, "1") == 0 && scenarios_may_rewrite(path);
        struct scenario_result result = scenarios_run(path, grammar, replace);
        if (result.mismatches > 0)
            test_fail(path, 0, "%d of %d commands answered otherwise", result.mismatches,
                      result.commands);
        CHECK(result.commands > 0);
    }
    globfree(&files);
}

static void run_given(const char *grammar)
{
    const char *folder = getenv("RAFT_TESTDATA");

    if (!folder)
        folder = "../shared/raft-testdata";
    if (access(folder, R_OK) != 0)
        SKIP("etcd-io/raft's scenarios were NOT replayed: there is no %s", folder);
    run_folder(folder, grammar);
}

TEST(the_given_quorum_scenarios_read_byte_for_byte)
{
    run_given("quorum");
}

TEST(the_given_confchange_scenarios_read_byte_for_byte)
{
    run_given("confchange");
}

TEST(the_given_interaction_scenarios_read_byte_for_byte)
{
    run_given("interaction");
}

TEST(our_own_quorum_scenarios_hold)
{
    run_folder("src/raft/testdata", "quorum");
}

TEST(our_own_confchange_scenarios_hold)
{
    run_folder("src/raft/testdata", "confchange");
}

TEST(our_own_interaction_scenarios_hold)
{
    run_folder("src/raft/testdata", "interaction");
}

/* --- the harness itself --- */

static const char *write_file(const char *folder, const char *text)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", test_tmp_dir(), folder);
    snprintf(path + strlen(path), sizeof(path) - strlen(path), ".txt");
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
    return path;
}

static int mismatches(enum scenarios_grammar grammar, const char *text)
{
    return scenarios_run(write_file("scenario", text), grammar, false).mismatches;
}

TEST(a_wrong_expectation_is_found_in_each_grammar)
{
    CHECK_EQ(mismatches(SCENARIOS_QUORUM, "vote cfg=(1) votes=(y)\n----\nVoteWon\n"), 0);
    CHECK_EQ(mismatches(SCENARIOS_QUORUM, "vote cfg=(1) votes=(n)\n----\nVoteWon\n"), 1);
    CHECK_EQ(mismatches(SCENARIOS_CONFCHANGE, "simple\nl1\n----\nremoved all voters\n"), 0);
    CHECK_EQ(mismatches(SCENARIOS_CONFCHANGE, "simple\nv1\n----\nremoved all voters\n"), 1);
    CHECK_EQ(mismatches(SCENARIOS_INTERACTION, "log-level none\n----\nok\n"), 0);
    CHECK_EQ(mismatches(SCENARIOS_INTERACTION, "log-level some\n----\nok\n"), 1);
}

/* A file may be anything; what makes no sense is a difference and never the end of the program. */
TEST(commands_that_make_no_sense_are_differences)
{
    static const char *const texts[] = {
        "campaign 1",
        "campaign",
        "campaign x",
        "add-nodes",
        "add-nodes 1 inflight=0",
        "add-nodes 1 read-only=lease-based",
        "add-nodes 1 index=2 voters=(1,1)",
        "add-nodes 1 index=2 voters=(1) learners=(1)",
        "add-nodes 1 index=2 voters=(1,0)",
        "add-nodes 1 index=18446744073709551615 voters=(1)",
        "add-nodes 99999999999999999999",
        "add-nodes 100 index=2 voters=(1)",
        "compact 1 2",
        "deliver-msgs 1 drop=(1)",
        "deliver-msgs 1 type=MsgNone",
        "propose 1",
        "process-ready 0",
        "propose-conf-change 1 v1=maybe\nv1",
        "read-index 1",
        "report-snapshot 1 2 perhaps",
        "report-unreachable 1",
        "send-snapshot 1",
        "set-randomized-election-timeout 1 timeout=0",
        "status 7",
        "tick-election 2",
        "transfer-leadership from=1",
    };
    char text[256];

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        snprintf(text, sizeof(text), "%s\n----\nok\n", texts[i]);
        CHECK_EQ(mismatches(SCENARIOS_INTERACTION, text), 1);
    }
    CHECK_EQ(mismatches(SCENARIOS_QUORUM, "committed cfg=(1) idx=(x)\n----\n1\n"), 1);
    CHECK_EQ(mismatches(SCENARIOS_QUORUM, "guess cfg=(1) idx=(1)\n----\n1\n"), 1);
    CHECK_EQ(mismatches(SCENARIOS_CONFCHANGE, "simple\nx\n----\nok\n"), 1);
    CHECK_EQ(mismatches(SCENARIOS_CONFCHANGE, "enter-joint autoleave=maybe\nv1\n----\nok\n"), 1);
}

TEST(the_nearest_folder_tells_the_grammar)
{
    enum scenarios_grammar grammar;

    CHECK(scenarios_grammar_of_file("src/raft/testdata/quorum/../quorum/wide.txt", &grammar));
    CHECK_EQ(grammar, SCENARIOS_QUORUM);
    CHECK(scenarios_may_rewrite("src/raft/testdata/quorum/wide.txt"));

    const char *elsewhere = write_file("elsewhere", "");
    CHECK(!scenarios_grammar_of_file(elsewhere, &grammar));
    CHECK(!scenarios_may_rewrite(elsewhere));
    CHECK(!scenarios_grammar_named("elsewhere", &grammar));
}

TEST(values_are_read_and_refused_as_strconv_does)
{
    struct buf problem = {0};
    struct raft_conf_change_single changes[RAFT_CHANGES_MAX];
    uint64_t number;
    size_t count;
    bool flag;

    CHECK(scenarios_parse_u64("18446744073709551615", &number, &problem));
    CHECK(number == UINT64_MAX);
    CHECK(!scenarios_parse_u64("18446744073709551616", &number, &problem));
    CHECK_STR(buf_str(&problem),
              "strconv.ParseUint: parsing \"18446744073709551616\": value out of range");
    buf_clear(&problem);
    CHECK(!scenarios_parse_u64("", &number, &problem));
    CHECK_STR(buf_str(&problem), "strconv.ParseUint: parsing \"\": invalid syntax");
    buf_clear(&problem);
    CHECK(scenarios_parse_bool("F", &flag, &problem) && !flag);
    CHECK(scenarios_parse_bool("1", &flag, &problem) && flag);
    CHECK(!scenarios_parse_bool("yes", &flag, &problem));
    CHECK_STR(buf_str(&problem), "strconv.ParseBool: parsing \"yes\": invalid syntax");
    buf_clear(&problem);
    CHECK(scenarios_parse_changes(BYTES(" v1 l22\n"), changes, &count, &problem));
    CHECK_EQ(count, 2);
    CHECK_EQ(changes[1].node_id, 22);
    CHECK(!scenarios_parse_changes(BYTES("v1  l2"), changes, &count, &problem));
    CHECK_STR(buf_str(&problem), "unknown token ");
    buf_free(&problem);
}
