/*
 * etcdctl, old and new, speaks to real etcd and to us, and prints the same.
 *
 * A file of testdata/ is a list of commands. Each is run against both servers at the same moment;
 * what it prints on either stream and its exit status must be equal, after the rules below.
 *
 *     get a b              etcdctl's words, as the shell takes them apart
 *     $CTL get a | wc -c   a line with $CTL in it is the shell's altogether
 *     * get a              the same in each of etcdctl's common formats
 *     [3.7] get a          this client alone; [3.4] is Debian's
 *       words              indented lines are the command's input, blank ones between them too;
 *                          three blank ones follow
 *     & watch k            runs in the background until ...
 *     await TEXT           (by now it has printed TEXT)
 *     await-version        both stores have the version of the cluster, some seconds after the start
 *     until TEXT           ... it has printed TEXT; then it is interrupted and compared up to there
 *
 * $REV is the store's revision before the command, $L1, $L2, ... are the leases granted so far.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "harness/line_diff.h"
#include "harness/peer_test.h"
#include "harness/stream.h"
#include "harness/test.h"

#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What may differ. What matches becomes the replacement. Leases are replaced before this, by the
 * names they have in the file. Ids, revisions, terms and indexes of the log are compared. */
static const struct rule {
    const char *pattern, *replacement;
} rules[] = {
    {"127\\.0\\.0\\.1:[0-9]+", "HOST"},                     /* either has its own ports */
    {"\"ts\":\"[^\"]*\"", "\"ts\":TIME"},                   /* the client's own log lines */
    {"etcd-endpoints://0x[0-9a-f]+", "etcd-endpoints://0"}, /* an address in the client's memory */
    {"endpoint://client-[0-9a-f-]+", "endpoint://client"},  /* the old client's name for itself */
    {"took = [0-9.]+(µ|n|m)?s", "took = TIME"},
    {"remaining\\([0-9]+s\\)", "remaining(TIME)"}, /* of a lease: the second may just end */
    {"\"ttl\":[0-9]+", "\"ttl\":TIME"},
    {"\"TTL\" : [0-9]+", "\"TTL\" : TIME"},
    {"\"dbSize\":[0-9]+", "\"dbSize\":BYTES"}, /* the page stores differ */
    {"\"dbSizeInUse\":[0-9]+", "\"dbSizeInUse\":BYTES"},
    {"\"DBSize\" : [0-9]+", "\"DBSize\" : BYTES"},
    {"\"DBSizeInUse\" : [0-9]+", "\"DBSizeInUse\" : BYTES"},
    {", [0-9.]+ [kM]?B, [0-9.]+ [kM]?B, [0-9]+%", ", BYTES, BYTES, PERCENT"},
    {", [0-9.]+ [kM]?B, true", ", BYTES, true"},
    /* etcd counts an entry as applied a moment after it has answered the call that proposed it. */
    {", [0-9]+, , , false", ", APPLIED, , , false"},
    {"\"raftAppliedIndex\":[0-9]+", "\"raftAppliedIndex\":APPLIED"},
    {"\"RaftAppliedIndex\" : [0-9]+", "\"RaftAppliedIndex\" : APPLIED"},
    {"held/[0-9a-f]+", "held/LEASE"}, /* of a lock's own lease */
    {"took [0-9.]+(µ|n|m)?s", "took TIME"},
    {"\"Took\" : [0-9.]+(µ|n|m)?s", "\"Took\" : TIME"},
    {"\"took\":\"?[0-9.]+(µ|n|m)?s?\"?", "\"took\":TIME"},
    {"Member [ 0-9a-f]+ added", "Member ID added"}, /* by the time at which it was added */
    {"Member [ 0-9a-f]+ removed", "Member ID removed"},
    {"[0-9a-f]+, unstarted", "ID, unstarted"},
};

enum { LEASES_MAX = 16 };

/* A command under way. */
struct job {
    pid_t pid;
    int output;
    struct buf printed;
};

struct side {
    struct peer peer;
    const char *leases[LEASES_MAX]; /* in hexadecimal */
    size_t lease_count;
    struct job front, back;
};

struct table {
    struct side etcd, ours;
    const char *client;  /* "3.7" or "3.4" */
    const char *program; /* etcdctl */
    struct arena arena;  /* of one command */
    regex_t compiled[ARRAY_LEN(rules)];
    const char *file;
    const char *background; /* the line left running, or NULL; in the peers' arena */
    unsigned line, compared, different;
};

/* --- servers --- */

/* The ids of member and cluster come from the URL it advertises to others; there are none. */
static void table_open(struct table *t, const char *client, const char *program)
{
    *t = (struct table){.client = client, .program = program};
    peer_open(&t->etcd.peer, arena_printf(&t->arena, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&t->ours.peer, arena_printf(&t->arena, "%s/ours", test_tmp_dir()));
    t->ours.peer.advertised_url = t->etcd.peer.advertised_url;
    peer_launch(&t->etcd.peer, "--bcrypt-cost 4");
    peer_launch(&t->ours.peer, "--bcrypt-cost 4");
    peer_await(&t->etcd.peer);
    peer_await(&t->ours.peer);
    PEER_CTL(&t->ours.peer, "endpoint health 2>&1"); /* as etcd was asked: it leaves an entry */
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        CHECK_EQ(regcomp(&t->compiled[i], rules[i].pattern, REG_EXTENDED), 0);
}

static void side_close(struct side *s)
{
    peer_stop(&s->peer);
    peer_close(&s->peer);
    buf_free(&s->front.printed);
    buf_free(&s->back.printed);
}

static void table_close(struct table *t)
{
    CHECK(!t->background);
    side_close(&t->etcd);
    side_close(&t->ours);
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        regfree(&t->compiled[i]);
    arena_free(&t->arena);
}

/* --- running one command --- */

static long long revision_of(struct table *t, struct side *s)
{
    const char *status =
        peer_run(&t->arena, "$PEERS/etcdctl --endpoints %s get x -w json", s->peer.client_url);
    const char *at = strstr(status, "\"revision\":");

    CHECK(at != NULL);
    return strtoll(at + strlen("\"revision\":"), NULL, 10);
}

/* The words that come before the command: what it may refer to. */
static const char *surroundings(struct table *t, struct side *s, const char *line)
{
    struct buf out = {0};

    buf_printf(&out, "export ETCDCTL_API=3; CTL='%s --endpoints %s'; ", t->program,
               s->peer.client_url);
    if (strcmp(t->client, "3.7") == 0)
        buf_append_str(&out, "unset ETCDCTL_API; ");
    if (strstr(line, "REV"))
        buf_printf(&out, "REV=%lld; ", revision_of(t, s));
    for (size_t i = 0; i < s->lease_count; i++)
        buf_printf(&out, "L%zu=%s; ", i + 1, s->leases[i]);
    const char *text = arena_copy_str(&t->arena, buf_bytes(&out));
    buf_free(&out);
    return text;
}

/* The words that give it its input: a file of its own, for a command may still be reading it. */
static const char *redirection(struct table *t, struct bytes input)
{
    static unsigned number;

    if (input.len == 0)
        return "";
    const char *path = arena_printf(&t->arena, "%s/input%u", test_tmp_dir(), number++);
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(input.at, 1, input.len, f), input.len);
    CHECK_EQ(fclose(f), 0);
    return arena_printf(&t->arena, " < %s", path);
}

static void begin(struct table *t, struct side *s, struct job *j, const char *line,
                  struct bytes input)
{
    bool whole = strstr(line, "$CTL") != NULL;
    const char *script = arena_printf(&t->arena, "%s%s%s%s", surroundings(t, s, line),
                                      whole ? "" : "exec $CTL ", line, redirection(t, input));
    int ends[2];

    CHECK_EQ(pipe(ends), 0);
    j->pid = fork();
    CHECK(j->pid >= 0);
    if (j->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", script, NULL);
        _exit(127);
    }
    close(ends[1]);
    j->output = ends[0];
    buf_clear(&j->printed);
}

/* Reads on; false at the end. */
static bool read_some(struct job *j)
{
    ssize_t count = read(j->output, buf_reserve(&j->printed, 4096), 4096);

    CHECK(count >= 0);
    j->printed.len += (size_t)count;
    return count > 0;
}

static void end(struct job *j)
{
    int status;

    while (read_some(j))
        ;
    close(j->output);
    CHECK_EQ(waitpid(j->pid, &status, 0), j->pid);
    j->pid = 0;
    if (WIFEXITED(status))
        buf_printf(&j->printed, "exit %d\n", WEXITSTATUS(status));
}

/* --- comparing --- */

static void replace_all(struct buf *text, const char *from, const char *to)
{
    struct buf out = {0};
    const char *at = buf_str(text), *found;

    for (; (found = strstr(at, from)); at = found + strlen(from)) {
        buf_append(&out, bytes_of(at, (size_t)(found - at)));
        buf_append_str(&out, to);
    }
    buf_append_str(&out, at);
    buf_free(text);
    *text = out;
}

static void apply_rule(struct buf *text, const regex_t *pattern, const char *replacement)
{
    struct buf out = {0};
    const char *at = buf_str(text);
    regmatch_t match;

    for (; regexec(pattern, at, 1, &match, 0) == 0; at += match.rm_eo) {
        buf_append(&out, bytes_of(at, (size_t)match.rm_so));
        buf_append_str(&out, replacement);
    }
    buf_append_str(&out, at);
    buf_free(text);
    *text = out;
}

static void normalise(struct table *t, const struct side *s, struct buf *printed)
{
    for (size_t i = 0; i < s->lease_count; i++) {
        const char *hex = s->leases[i];
        const char *name = arena_printf(&t->arena, "LEASE%zu", i + 1);
        replace_all(printed, hex, name);
        replace_all(printed, arena_printf(&t->arena, "%lld", (long long)strtoull(hex, NULL, 16)),
                    name);
    }
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        apply_rule(printed, &t->compiled[i], rules[i].replacement);
}

static void remember_lease(struct side *s)
{
    const char *text = buf_str(&s->front.printed), *at;
    unsigned long long id = 0;

    if ((at = strstr(text, "lease ")))
        id = strtoull(at + strlen("lease "), NULL, 16);
    else if ((at = strstr(text, "\"ID\"")))
        id = strtoull(at + strcspn(at, "0123456789"), NULL, 10);
    if (id == 0)
        return; /* it was refused */
    CHECK(s->lease_count < LEASES_MAX);
    s->leases[s->lease_count++] = arena_printf(&s->peer.arena, "%016llx", id);
}

static void compare(struct table *t, const char *line, struct buf *want, struct buf *got)
{
    struct buf diff = {0};

    normalise(t, &t->etcd, want);
    normalise(t, &t->ours, got);
    line_diff(&diff, buf_bytes(want), buf_bytes(got));
    if (diff.len > 0) {
        printf("%s:%u, etcdctl %s: %s\n%s", t->file, t->line, t->client, line, buf_str(&diff));
        t->different++;
    }
    t->compared++;
    buf_free(&diff);
}

static void run(struct table *t, const char *line, struct bytes input)
{
    struct side *etcd = &t->etcd, *ours = &t->ours;

    begin(t, etcd, &etcd->front, line, input);
    begin(t, ours, &ours->front, line, input);
    end(&etcd->front);
    end(&ours->front);
    if (bytes_starts_with(bytes_of_str(line), BYTES("lease grant"))) {
        remember_lease(etcd);
        remember_lease(ours);
    }
    compare(t, line, &etcd->front.printed, &ours->front.printed);
}

static void run_each_format(struct table *t, const char *line, struct bytes input)
{
    static const char *const formats[] = {"simple", "json", "fields"};

    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        run(t, arena_printf(&t->arena, "%s -w %s", line, formats[i]), input);
}

static void leave_running(struct table *t, const char *line)
{
    CHECK(!t->background);
    begin(t, &t->etcd, &t->etcd.back, line, BYTES(""));
    begin(t, &t->ours, &t->ours.back, line, BYTES(""));
    t->background = arena_printf(&t->etcd.peer.arena, "%s", line);
}

/* Where the text ends in what was printed. */
static size_t await_text(struct job *j, const char *text)
{
    const char *at;

    while (!(at = strstr(buf_str(&j->printed), text)))
        if (!read_some(j))
            test_fail(__FILE__, __LINE__, "no %s in:\n%s", text, buf_str(&j->printed));
    return (size_t)(at - buf_str(&j->printed)) + strlen(text);
}

static void interrupt(struct job *j, const char *text)
{
    size_t len = await_text(j, text);

    CHECK_EQ(kill(j->pid, SIGINT), 0);
    end(j);
    j->printed.len = len;
}

static void compare_background(struct table *t, const char *text)
{
    CHECK(t->background);
    interrupt(&t->etcd.back, text);
    interrupt(&t->ours.back, text);
    compare(t, t->background, &t->etcd.back.printed, &t->ours.back.printed);
    t->background = NULL;
}

/* --- a file of commands --- */

/* The next line without its end; NULL when there is none. */
static const char *next_line(struct table *t, struct bytes *text)
{
    if (text->len == 0)
        return NULL;
    const uint8_t *end = memchr(text->at, '\n', text->len);
    CHECK(end != NULL);
    size_t len = (size_t)(end - text->at);
    const char *line = arena_copy_str(&t->arena, bytes_of(text->at, len));
    *text = bytes_of(end + 1, text->len - len - 1);
    t->line++;
    return line;
}

/* Blank lines belong to the input only if an indented one comes after them. */
static struct bytes take_input(struct table *t, struct bytes *text)
{
    struct buf input = {0};
    size_t kept = 0;

    while (text->len > 0 && (text->at[0] == ' ' || (text->at[0] == '\n' && kept > 0))) {
        const char *line = next_line(t, text);
        buf_append_str(&input, *line ? line + 2 : "");
        buf_append_byte(&input, '\n');
        if (*line)
            kept = input.len;
    }
    input.len = kept;
    if (kept > 0)
        buf_append_str(&input, "\n\n\n");
    struct bytes copy = arena_copy(&t->arena, buf_bytes(&input));
    buf_free(&input);
    return copy;
}

static bool takes(const char **line, const char *word)
{
    if (!bytes_starts_with(bytes_of_str(*line), bytes_of_str(word)))
        return false;
    *line += strlen(word);
    return true;
}

static void follow(struct table *t, const char *line, struct bytes input)
{
    bool is_new = strcmp(t->client, "3.7") == 0;

    if ((takes(&line, "[3.7] ") && !is_new) || (takes(&line, "[3.4] ") && is_new))
        return;
    if (takes(&line, "& "))
        leave_running(t, line);
    else if (takes(&line, "until "))
        compare_background(t, line);
    else if (takes(&line, "await ")) {
        await_text(&t->etcd.back, line);
        await_text(&t->ours.back, line);
    } else if (strcmp(line, "await-version") == 0) {
        peer_await_storage_version(&t->etcd.peer);
        peer_await_storage_version(&t->ours.peer);
    } else if (takes(&line, "* "))
        run_each_format(t, line, input);
    else
        run(t, line, input);
}

static void follow_file(struct table *t, const char *path)
{
    struct buf text = {0};
    FILE *f = fopen(path, "re");

    CHECK(f != NULL);
    CHECK(stream_read_all(f, &text));
    fclose(f);
    t->file = path;
    struct bytes left = buf_bytes(&text);
    for (const char *line; (line = next_line(t, &left));) {
        if (*line && *line != '#')
            follow(t, line, take_input(t, &left));
        arena_reset(&t->arena);
    }
    buf_free(&text);
}

static void compare_file(const char *client, const char *program, const char *name)
{
    struct table t;
    char path[128];

    if (access(program, X_OK) != 0)
        SKIP("NOT compared: no %s", program);
    snprintf(path, sizeof(path), "tests/interop/testdata/%s.txt", name);
    table_open(&t, client, program);
    follow_file(&t, path);
    CHECK(t.compared > 10);
    CHECK_EQ(t.different, 0);
    table_close(&t);
}

#define NEW_CTL "3.7", gate_program(GATE_PEERS, "etcdctl")
#define CTL_36  "3.7", gate_program(GATE_PEERS36, "etcdctl") /* speaks as 3.7's does */
#define OLD_CTL "3.4", "/usr/bin/etcdctl"

TEST(etcdctl_sees_no_difference_in_keys)
{
    compare_file(NEW_CTL, "keys");
}

TEST(etcdctl_sees_no_difference_in_transactions)
{
    compare_file(NEW_CTL, "transactions");
}

TEST(etcdctl_sees_no_difference_in_watches)
{
    compare_file(NEW_CTL, "watches");
}

TEST(etcdctl_sees_no_difference_in_leases)
{
    compare_file(NEW_CTL, "leases");
}

TEST(etcdctl_sees_no_difference_in_the_member)
{
    compare_file(NEW_CTL, "member");
}

TEST(etcdctl_sees_no_difference_in_maintenance)
{
    compare_file(NEW_CTL, "maintenance");
}

TEST(etcdctl_sees_no_difference_in_locks)
{
    compare_file(NEW_CTL, "locks");
}

TEST(etcdctl_sees_no_difference_in_mirrors)
{
    compare_file(NEW_CTL, "mirror");
}

TEST(old_etcdctl_sees_no_difference_in_mirrors)
{
    compare_file(OLD_CTL, "mirror");
}

TEST(old_etcdctl_sees_no_difference_in_maintenance)
{
    compare_file(OLD_CTL, "maintenance");
}

TEST(old_etcdctl_sees_no_difference_in_locks)
{
    compare_file(OLD_CTL, "locks");
}

TEST(etcdctl_sees_no_difference_in_users_and_roles)
{
    compare_file(NEW_CTL, "auth");
}

TEST(etcdctl_sees_no_difference_in_a_downgrade)
{
    compare_file(NEW_CTL, "downgrade");
}

TEST(the_etcdctl_before_sees_no_difference_in_a_downgrade)
{
    compare_file(CTL_36, "downgrade");
}

TEST(old_etcdctl_sees_no_difference_in_keys)
{
    compare_file(OLD_CTL, "keys");
}

TEST(old_etcdctl_sees_no_difference_in_transactions)
{
    compare_file(OLD_CTL, "transactions");
}

TEST(old_etcdctl_sees_no_difference_in_watches)
{
    compare_file(OLD_CTL, "watches");
}

TEST(old_etcdctl_sees_no_difference_in_leases)
{
    compare_file(OLD_CTL, "leases");
}

TEST(old_etcdctl_sees_no_difference_in_the_member)
{
    compare_file(OLD_CTL, "member");
}
