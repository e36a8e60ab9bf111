/*
 * The runner: one child process per test, a few at a time, the total last.
 *
 *     cleat-test [-j N] [-t SECONDS] [-s SECONDS] [-o FILE] [-l] [SUBSTRING...] [@FILE...]
 *
 * -j runs so many at a time, -t ends one that takes longer, -s names each that takes more CPU than
 * that, -o writes to FILE the names of tests skipped for want of programs that make can build, -l
 * only prints the names. A test runs if its name has one of the substrings or is a line of an
 * @FILE.
 *
 * Exit status 0 when nothing failed and something ran, or an @FILE had nothing to run. With
 * TEST_VERBOSE in the environment, tests that passed say so too, with what they printed: figures,
 * say.
 */
#include "harness/test.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "harness/stream.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_SKIPPED = 77, STATUS_SURVIVED = 78, STATUS_LACKS = 79 };

/* A running test: its process, and the file its output goes to. */
struct child {
    const struct test *test;
    pid_t pid;
    FILE *output;
    int number; /* names its directory below run_dir */
    struct timespec started;
    bool timed_out;
};

/* A command that builds what some tests lack. */
struct lack {
    char command[64];
    int count;
};

struct totals {
    int passed, failed, skipped;
    struct lack lacks[4]; /* unused at the end; their counts are part of skipped */
    double cpu_seconds;   /* the tests' own and that of the programs they waited for */
};

struct run {
    int jobs;
    double limit_seconds, slow_seconds;
    struct buf patterns;     /* each ends with 0; one that begins with '=' is a whole name */
    bool runs_all, has_list; /* no pattern was given; an @FILE was */
    FILE *lacking;           /* names go here; or NULL */
};

static struct test *tests; /* in reverse order of registration */
static char run_dir[64];   /* holds one directory for each test that asks for one */
static char current_tmp_dir[96];
static FILE *death_output;

/* --- what tests call --- */

void test_register(struct test *t)
{
    t->next = tests;
    tests = t;
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

uint64_t test_seed(void)
{
    return env_number("TEST_SEED", 1);
}

uint64_t test_effort(void)
{
    uint64_t effort = env_number("TEST_EFFORT", 1);

    return effort ? effort : 1;
}

void test_runs_in_one_thread(void)
{
    if (SANITIZED_THREADS)
        test_skip("it has one thread, so there are no races to look for");
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void test_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(STATUS_SKIPPED);
}

void test_lacks(const char *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n%s\n", command); /* the last line: child_lacks() reads it */
    va_end(args);
    exit(STATUS_LACKS);
}

void test_check_eq(const char *file, int line, const char *what, long long got, long long want)
{
    if (got != want)
        test_fail(file, line, "%s is %lld (0x%llx), not %lld (0x%llx)", what, got,
                  (unsigned long long)got, want, (unsigned long long)want);
}

void test_check_str(const char *file, int line, const char *what, const char *got, const char *want)
{
    if (!got || strcmp(got, want) != 0)
        test_fail(file, line, "%s is\n  %s\nnot\n  %s", what, got ? got : "(null)", want);
}

static void print_hex(const char *title, struct bytes b)
{
    fprintf(stderr, "  %s (%zu bytes):", title, b.len);
    for (size_t i = 0; i < b.len && i < 256; i++)
        fprintf(stderr, " %02x", b.at[i]);
    fprintf(stderr, b.len > 256 ? " ...\n" : "\n");
}

void test_check_bytes(const char *file, int line, const char *what, struct bytes got,
                      struct bytes want)
{
    if (bytes_equal(got, want))
        return;
    print_hex("got", got);
    print_hex("want", want);
    test_fail(file, line, "%s differs", what);
}

bool test_fork_to_die(void)
{
    death_output = tmpfile();
    assert(death_output);
    fflush(NULL);
    pid_t pid = fork();
    assert(pid >= 0);
    if (pid == 0) {
        dup2(fileno(death_output), STDERR_FILENO);
        return false;
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_SURVIVED) {
        fclose(death_output);
        death_output = tmpfile(); /* what it said does not count: it lived */
    }
    return true;
}

void test_survived(void)
{
    _exit(STATUS_SURVIVED);
}

void test_check_died(const char *file, int line, const char *what, const char *text)
{
    struct buf said = {0};

    CHECK(stream_read_all(death_output, &said));
    fclose(death_output);
    if (!strstr(buf_str(&said), text))
        test_fail(file, line, "%s did not die saying \"%s\" but said: %s", what, text,
                  buf_str(&said));
    buf_free(&said);
}

const char *test_tmp_dir(void)
{
    if (mkdir(current_tmp_dir, 0700) != 0 && errno != EEXIST)
        test_fail(__FILE__, __LINE__, "cannot make %s: %s", current_tmp_dir, strerror(errno));
    return current_tmp_dir;
}

void test_scenario(const char *path, scenario_answer *answer, void *context)
{
    bool rewrite = env_number("REWRITE", 0) == 1;
    struct scenario_result result = scenario_run_file(path, rewrite, answer, context);

    if (result.mismatches > 0)
        test_fail(path, 0, "%d of %d commands answered otherwise", result.mismatches,
                  result.commands);
    CHECK(result.commands > 0);
}

/* --- the runner --- */

static void reverse_tests(void)
{
    struct test *reversed = NULL;

    while (tests) {
        struct test *t = tests;
        tests = t->next;
        t->next = reversed;
        reversed = t;
    }
    tests = reversed;
}

static bool wanted(const struct test *t, const struct run *run)
{
    char name[512];
    size_t at = 0;

    snprintf(name, sizeof(name), "%s/%s", t->file, t->name);
    while (at < run->patterns.len) {
        const char *pattern = (const char *)run->patterns.at + at;
        if (*pattern == '=' ? strcmp(name, pattern + 1) == 0 : strstr(name, pattern) != NULL)
            return true;
        at += strlen(pattern) + 1;
    }
    return run->runs_all;
}

static void add_pattern(struct run *run, const char *before, const char *text)
{
    buf_printf(&run->patterns, "%s%s", before, text);
    buf_append_byte(&run->patterns, 0);
}

static void add_list(struct run *run, const char *path)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;

    if (!f)
        fatal("cannot read %s: %s", path, strerror(errno));
    run->has_list = true;
    while (getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        add_pattern(run, "=", line);
    }
    free(line);
    fclose(f);
}

static double seconds_since(const struct timespec *then)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

/* Tests' command lines hold the directory unquoted, and addresses of sockets hold it at all. */
static bool is_plain_and_short(const char *path)
{
    return strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") ==
               strlen(path) &&
           strlen(path) < 40;
}

static void run_dir_make(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(run_dir, sizeof(run_dir), "%s/cleat-test.XXXXXX",
             base && is_plain_and_short(base) ? base : "/tmp");
    if (!mkdtemp(run_dir))
        fatal("cannot make %s: %s", run_dir, strerror(errno));
}

static void tmp_dir_name(int number, char out[static 96])
{
    snprintf(out, 96, "%s/%d", run_dir, number);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void tmp_dir_remove(int number)
{
    char path[96];

    tmp_dir_name(number, path);
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Whoever started the runner may have had signals ignored, as nohup and a shell's `&` have, and that
 * is inherited by the test and by each program that it starts. */
static void take_all_signals(void)
{
    sigset_t none;

    for (int n = 1; n <= SIGRTMAX; n++) {
        struct sigaction now;
        if (sigaction(n, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            signal(n, SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void child_run(const struct child *c)
{
    setsid(); /* a group to kill as one; and the scheduler's, where it groups by session */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take_all_signals();
    dup2(fileno(c->output), STDOUT_FILENO);
    dup2(fileno(c->output), STDERR_FILENO);
    tmp_dir_name(c->number, current_tmp_dir);
    c->test->run();
    exit(0);
}

static void child_start(struct child *c, const struct test *t)
{
    static int number;

    *c = (struct child){.test = t, .output = tmpfile(), .number = number++};
    assert(c->output);
    clock_gettime(CLOCK_MONOTONIC, &c->started);
    fflush(NULL);
    c->pid = fork();
    assert(c->pid >= 0);
    if (c->pid == 0)
        child_run(c);
}

static void print_output(FILE *f)
{
    struct buf said = {0};

    if (stream_read_all(f, &said))
        fwrite(said.at, 1, said.len, stdout);
    buf_free(&said);
}

static void count_lack(struct totals *totals, const char *command)
{
    struct lack *l = totals->lacks;

    while (l->count > 0 && strcmp(l->command, command) != 0)
        l++;
    assert(l < totals->lacks + ARRAY_LEN(totals->lacks) - 1);
    snprintf(l->command, sizeof(l->command), "%s", command);
    l->count++;
}

/* The test's last words are the command it lacks. */
static void child_lacks(struct child *c, const struct run *run, struct totals *totals)
{
    struct buf said = {0};

    assert(stream_read_all(c->output, &said));
    assert(said.len > 1 && said.at[said.len - 1] == '\n');
    said.at[said.len - 1] = 0;
    const char *last = strrchr((const char *)said.at, '\n');
    count_lack(totals, last ? last + 1 : (const char *)said.at);
    totals->skipped++;
    if (run->lacking)
        fprintf(run->lacking, "%s/%s\n", c->test->file, c->test->name);
    buf_free(&said);
}

static void child_report(struct child *c, int status, const struct run *run, struct totals *totals)
{
    const char *result = "FAILED";

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        totals->passed++;
        if (getenv("TEST_VERBOSE")) {
            printf("passed %s/%s\n", c->test->file, c->test->name);
            print_output(c->output);
        }
        fclose(c->output);
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_LACKS) {
        child_lacks(c, run, totals);
        fclose(c->output);
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_SKIPPED) {
        totals->skipped++;
        result = "SKIPPED";
    } else {
        totals->failed++;
    }
    printf("%s %s/%s", result, c->test->file, c->test->name);
    if (c->timed_out)
        printf(" (timed out)");
    else if (WIFSIGNALED(status))
        printf(" (%s)", strsignal(WTERMSIG(status)));
    if (result[0] == 'F')
        printf(" TEST_SEED=%llu", (unsigned long long)test_seed());
    printf("\n");
    print_output(c->output);
    fflush(stdout);
    fclose(c->output);
}

static void kill_overdue(struct child *children, int count, double limit)
{
    for (int i = 0; i < count; i++) {
        if (children[i].pid && seconds_since(&children[i].started) > limit) {
            children[i].timed_out = true;
            kill(-children[i].pid, SIGKILL);
        }
    }
}

/* Waits until one child ends, with an eye on the clock; returns its place. */
static int wait_for_one(struct child *children, int count, double limit, int *status,
                        struct rusage *used)
{
    sigset_t child_signal;
    const struct timespec a_while = {.tv_nsec = 200000000};

    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    for (;;) {
        pid_t pid = wait4(-1, status, WNOHANG, used);
        for (int i = 0; i < count && pid > 0; i++)
            if (children[i].pid == pid)
                return i;
        if (pid == 0) {
            sigtimedwait(&child_signal, NULL, &a_while);
            kill_overdue(children, count, limit);
        }
    }
}

static double cpu_seconds(const struct rusage *used)
{
    return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
}

static void child_ended(struct child *c, int status, double cpu, const struct run *run,
                        struct totals *totals)
{
    kill(-c->pid, SIGKILL); /* whatever the test left running */
    tmp_dir_remove(c->number);
    child_report(c, status, run, totals);
    if (cpu > run->slow_seconds)
        printf("%.1f s of CPU, %.1f s in all: %s/%s\n", cpu, seconds_since(&c->started),
               c->test->file, c->test->name);
    totals->cpu_seconds += cpu;
    c->pid = 0;
}

static void run_all(const struct run *run, struct totals *totals)
{
    struct child *children = mem_new_array((size_t)run->jobs, struct child);
    const struct test *next = tests;
    int running = 0;

    for (;;) {
        for (int i = 0; i < run->jobs && next; i++) {
            while (next && !wanted(next, run))
                next = next->next;
            if (next && children[i].pid == 0) {
                child_start(&children[i], next);
                next = next->next;
                running++;
            }
        }
        if (running == 0)
            break;
        int status;
        struct rusage used;
        int ended = wait_for_one(children, run->jobs, run->limit_seconds, &status, &used);
        child_ended(&children[ended], status, cpu_seconds(&used), run, totals);
        running--;
    }
    mem_free(children);
}

static void print_lacks(const struct totals *totals)
{
    int count = 0;

    for (const struct lack *l = totals->lacks; l->count > 0; l++)
        count += l->count;
    if (count == 0)
        return;
    printf("%d tests were skipped: they need programs that are not built here.", count);
    for (const struct lack *l = totals->lacks; l->count > 0; l++)
        printf("%s `%s` adds %d", l == totals->lacks ? "" : ",", l->command, l->count);
    printf(".\n");
}

static int list_all(void)
{
    for (const struct test *t = tests; t; t = t->next)
        printf("%s/%s\n", t->file, t->name);
    return 0;
}

int main(int argc, char **argv)
{
    struct totals totals = {0};
    struct run run = {
        .jobs = 2, .limit_seconds = (double)env_number("TEST_TIMEOUT", 300), .slow_seconds = 1e9};
    const char *lacking = NULL;
    int option;
    sigset_t child_signal;

    reverse_tests();
    while ((option = getopt(argc, argv, "j:t:s:o:l")) != -1) {
        if (option == 'j')
            run.jobs = (int)strtol(optarg, NULL, 10);
        else if (option == 't')
            run.limit_seconds = strtod(optarg, NULL);
        else if (option == 's')
            run.slow_seconds = strtod(optarg, NULL);
        else if (option == 'o')
            lacking = optarg;
        else if (option == 'l')
            return list_all();
        else
            return 2;
    }
    run.jobs = run.jobs > 0 ? run.jobs : 1;
    run.runs_all = optind == argc;
    for (int i = optind; i < argc; i++) {
        if (argv[i][0] == '@')
            add_list(&run, argv[i] + 1);
        else
            add_pattern(&run, "", argv[i]);
    }
    if (lacking && !(run.lacking = fopen(lacking, "we")))
        fatal("cannot write %s: %s", lacking, strerror(errno));
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, NULL);

    run_dir_make();
    run_all(&run, &totals);
    rmdir(run_dir);
    if (run.lacking && fclose(run.lacking) != 0)
        fatal("cannot write %s: %s", lacking, strerror(errno));
    buf_free(&run.patterns);
    print_lacks(&totals);
    printf("%d passed, %d failed, %d skipped, %.0f s of CPU\n", totals.passed, totals.failed,
           totals.skipped, totals.cpu_seconds);
    return totals.failed == 0 && (totals.passed + totals.skipped > 0 || run.has_list) ? 0 : 1;
}
