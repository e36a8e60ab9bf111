#include "harness/scenario.h"

#include "harness/test.h"

#include <stdio.h>
#include <unistd.h>

/* Answers with what was understood, so that the file shows the grammar. */
static void describe(void *context, const struct scenario_command *c, struct buf *out)
{
    (void)context;
    if (strcmp(c->name, "blank") == 0) {
        buf_append_str(out, "first\n\nlast\n");
        return;
    }
    buf_printf(out, "%s", c->name);
    for (size_t i = 0; i < c->arg_count; i++) {
        buf_printf(out, " [%s", c->args[i].key);
        for (size_t j = 0; j < c->args[i].count; j++)
            buf_printf(out, " '%s'", c->args[i].values[j]);
        buf_append_str(out, "]");
    }
    buf_printf(out, "\ninput %zu\n", c->input.len);
}

TEST(the_scenario_grammar_is_understood)
{
    test_scenario("tests/harness/testdata/scenario.txt", describe, NULL);
}

static void answer_fixed(void *context, const struct scenario_command *c, struct buf *out)
{
    (void)c;
    buf_append_str(out, context);
}

static struct scenario_result run_text(const char *text, bool rewrite, const char *answer,
                                       char path[static 128])
{
    snprintf(path, 128, "%s/s.txt", test_tmp_dir());
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
    return scenario_run_file(path, rewrite, answer_fixed, (void *)answer);
}

TEST(another_answer_is_a_mismatch)
{
    char path[128];

    CHECK_EQ(run_text("say\n----\nyes\n", false, "yes", path).mismatches, 0);
    CHECK_EQ(run_text("say\n----\nyes\n", false, "no", path).mismatches, 1);
    CHECK_EQ(run_text("say\nyes\n", false, "yes", path).mismatches, 1);
    CHECK_EQ(scenario_run_file("/nonexistent", false, answer_fixed, "x").mismatches, 1);
}

TEST(rewriting_leaves_a_file_that_passes)
{
    char path[128];

    CHECK_EQ(run_text("# c\nsay\n----\nyes\n\nsay\nin\n----\n", true, "a\n\nb", path).mismatches,
             0);
    CHECK_EQ(scenario_run_file(path, false, answer_fixed, "a\n\nb").mismatches, 0);
    CHECK_EQ(scenario_run_file(path, false, answer_fixed, "a\n\nb").commands, 2);
}

/* What a rewrite does not understand, it must not throw away. */
TEST(a_malformed_file_is_not_rewritten)
{
    char path[128];
    const char *text = "say list=(a\n----\nyes\n\nsay\n----\nyes\n";

    CHECK_EQ(run_text(text, true, "no", path).mismatches, 1);
    CHECK_EQ(scenario_run_file(path, false, answer_fixed, "no").commands, 0);
}

TEST(a_line_of_spaces_is_a_blank_line)
{
    char path[128];

    CHECK_EQ(run_text("say\n----\n", true, "a\n  \nb", path).mismatches, 0);
    CHECK_EQ(scenario_run_file(path, false, answer_fixed, "a\n  \nb").mismatches, 0);
}
