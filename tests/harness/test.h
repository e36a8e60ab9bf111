/*
 * test: a test is a sentence; each one runs in a process of its own.
 *
 * TEST registers a function before main. The runner forks one child per test, two at a time by
 * default, so a crash, a failed assertion, a leak or a hang is that test's failure and nobody
 * else's, and tests never share state. The total is printed last.
 *
 *     TEST(an_empty_buffer_has_no_length)
 *     {
 *         struct buf b = {0};
 *
 *         CHECK_EQ(b.len, 0);
 *     }
 *
 * Why not cmocka: it neither isolates nor parallelises, which is most of what a runner is for when
 * the code under test aborts on bugs by design (docs/decisions/test-runner.md).
 */
#pragma once

#include "base/bytes.h"
#include "harness/scenario.h"

#include <stdbool.h>
#include <stdint.h>

struct test {
    const char *file, *name;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *t);

#define TEST(test_name)                                                                            \
    static void test_name(void);                                                                   \
    static struct test test_name##_test = {                                                        \
        .file = __FILE__, .name = #test_name, .run = test_name};                                   \
    __attribute__((constructor)) static void test_name##_register(void)                            \
    {                                                                                              \
        test_register(&test_name##_test);                                                          \
    }                                                                                              \
    static void test_name(void)

/* Each ends the test with a message when it does not hold. */
#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "not true: %s", #condition))
#define CHECK_EQ(got, want)                                                                        \
    test_check_eq(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))
#define CHECK_STR(got, want)   test_check_str(__FILE__, __LINE__, #got, (got), (want))
#define CHECK_BYTES(got, want) test_check_bytes(__FILE__, __LINE__, #got, (got), (want))

/* The statement must end the process, saying `text` on standard error. */
#define CHECK_DIES(statement, text)                                                                \
    do {                                                                                           \
        if (test_fork_to_die())                                                                    \
            test_check_died(__FILE__, __LINE__, #statement, (text));                               \
        else {                                                                                     \
            statement;                                                                             \
            test_survived();                                                                       \
        }                                                                                          \
    } while (0)

/* Ends the test as skipped; the reason is printed with the total. */
#define SKIP(...) test_skip(__VA_ARGS__)

/* Ends the test as skipped for want of programs that `command` builds. The runner counts such tests
 * by command and names the commands in one closing line (gate_test.h has the gates). */
__attribute__((noreturn, format(printf, 2, 3))) void test_lacks(const char *command,
                                                                const char *format, ...);

/* The seed for this run: TEST_SEED from the environment, else 1. Printed when the test fails. */
uint64_t test_seed(void);

/* How much harder than usual random tests should try: TEST_EFFORT from the environment, else 1. */
uint64_t test_effort(void);

/* Said first by a long test that has one thread and runs on fakes: ThreadSanitizer has nothing to
 * look for there and takes tenfold time over it, so under it the test is skipped. */
void test_runs_in_one_thread(void);

/* A directory of this test's own, removed when the test ends. */
const char *test_tmp_dir(void);

/* Runs a scenario file, as seen from the project's root; REWRITE=1 refreshes it. */
void test_scenario(const char *path, scenario_answer *answer, void *context);

__attribute__((noreturn, format(printf, 3, 4))) void test_fail(const char *file, int line,
                                                               const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void test_skip(const char *format, ...);
void test_check_eq(const char *file, int line, const char *what, long long got, long long want);
void test_check_str(const char *file, int line, const char *what, const char *got,
                    const char *want);
void test_check_bytes(const char *file, int line, const char *what, struct bytes got,
                      struct bytes want);
bool test_fork_to_die(void);
void test_check_died(const char *file, int line, const char *what, const char *text);
__attribute__((noreturn)) void test_survived(void);
