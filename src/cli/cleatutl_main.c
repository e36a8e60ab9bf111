/*
 * cleatutl: looks at the files of a member while it does not run, and hands them back to etcd.
 *
 * Exit status: 0, or 1 when something is wrong with what was looked at, or 2 when the call is.
 */
#include "cli/utl/etcdutl.h"
#include "cli/utl/utl.h"
#include "io/loop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ETCD_VERSION "3.7.1"
#define API_VERSION  "3.7"

enum { EXIT_USAGE = 2 };

static const char usage[] =
    "cleatutl looks at the files of a member while it does not run, and hands them back to etcd.\n"
    "\n"
    "Usage:\n"
    "  cleatutl wal DIR [--json]    what the log of a data directory holds: segments, entries, "
    "hard\n"
    "                               state, snapshots; DIR may also be the log's own directory\n"
    "  cleatutl db FILE [--json]    what a bbolt file holds: buckets, indexes, revisions, digest\n"
    "  cleatutl export DIR [--wal-dir DIR] [--json]\n"
    "                               makes a data directory of cleat's one that etcd starts on;\n"
    "                               --wal-dir as the member has it\n"
    "  cleatutl snapshot status FILE [-w simple|json|fields|table]\n"
    "  cleatutl snapshot restore FILE --data-dir DIR [--wal-dir DIR] [--name NAME]\n"
    "           [--initial-cluster NAME=URL,...] [--initial-cluster-token TOKEN]\n"
    "           [--initial-advertise-peer-urls URL,...] [--skip-hash-check]\n"
    "           [--bump-revision N --mark-compacted]\n"
    "  cleatutl hashkv FILE [--rev N] [-w simple|json|fields|table]\n"
    "  cleatutl defrag --data-dir DIR\n"
    "  cleatutl migrate --data-dir DIR --target-version X.Y [--force]\n"
    "                               as etcdutl's, with its output and exit status\n"
    "  cleatutl version\n"
    "  cleatutl --help\n"
    "\n"
    "Exit status 1: damage or an error, told on standard error with file and offset.\n";

struct call {
    const char *words[2]; /* command and argument */
    int count;
    const char *wal_dir;
    bool json, help;
};

static int refuse(const char *what, const char *word)
{
    fprintf(stderr, "cleatutl: %s%s%s\n\n%s", what, word ? ": " : "", word ? word : "", usage);
    return EXIT_USAGE;
}

/* 0, or the exit status. */
static int parse(int argc, char **argv, struct call *out)
{
    static const char wal_dir[] = "--wal-dir";
    const size_t wal_dir_len = sizeof(wal_dir) - 1;

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--json") == 0)
            out->json = true;
        else if (strcmp(word, wal_dir) == 0 && i + 1 == argc)
            return refuse("a directory is missing for", word);
        else if (strcmp(word, wal_dir) == 0)
            out->wal_dir = argv[++i];
        else if (strncmp(word, wal_dir, wal_dir_len) == 0 && word[wal_dir_len] == '=')
            out->wal_dir = word + wal_dir_len + 1;
        else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            out->help = true;
        else if (word[0] == '-')
            return refuse("unknown flag", word);
        else if (out->count == 2)
            return refuse("one argument too many", word);
        else
            out->words[out->count++] = word;
    }
    return 0;
}

/* A reader that has left, or a full disk, must not look like success. */
static int print(struct bytes text, int status)
{
    if (fwrite(text.at, 1, text.len, stdout) == text.len && fflush(stdout) == 0)
        return status;
    fprintf(stderr, "cleatutl: cannot write to standard output: %s\n", strerror(errno));
    return 1;
}

/* With etcdutl's flags, and its exit status. */
static int run_etcdutl(int argc, char **argv)
{
    struct loop *loop;
    enum err e = loop_open(&(struct loop_options){0}, &loop);

    if (e != ERR_OK) {
        fprintf(stderr, "cleatutl: cannot start: %s\n", err_text(e));
        return 1;
    }
    int status = etcdutl_run(argc, argv, loop);
    loop_close(loop);
    return status;
}

typedef int command(struct disk *disk, const struct call *call, struct emit *out);

static int run_wal(struct disk *disk, const struct call *call, struct emit *out)
{
    return utl_wal(disk, call->words[1], out);
}

static int run_db(struct disk *disk, const struct call *call, struct emit *out)
{
    return utl_db(disk, call->words[1], out);
}

static int run_export(struct disk *disk, const struct call *call, struct emit *out)
{
    return utl_export(disk, call->words[1], call->wal_dir, out);
}

static int run(command *c, const struct call *call)
{
    struct emit out = {.json = call->json};
    struct loop *loop;
    enum err e = loop_open(&(struct loop_options){0}, &loop);

    if (e != ERR_OK) {
        fprintf(stderr, "cleatutl: cannot start: %s\n", err_text(e));
        return 1;
    }
    int status = c(loop_io(loop)->disk, call, &out);
    status = print(buf_bytes(&out.out), status);
    buf_free(&out.out);
    loop_close(loop);
    return status;
}

static command *find_command(const char *name)
{
    static const struct {
        const char *name;
        command *command;
    } commands[] = {{"wal", run_wal}, {"db", run_db}, {"export", run_export}};

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].command;
    return NULL;
}

int main(int argc, char **argv)
{
    struct call call = {0};

    if (argc > 1 && etcdutl_has(argv[1]))
        return run_etcdutl(argc, argv);
    int status = parse(argc, argv, &call);
    if (status != 0)
        return status;
    if (call.help)
        return print(bytes_of_str(usage), 0);
    if (call.count == 0)
        return refuse("no command", NULL);
    if (strcmp(call.words[0], "version") == 0 && call.count == 1)
        return print(BYTES("cleatutl version: " ETCD_VERSION "\nAPI version: " API_VERSION "\n"),
                     0);
    command *c = find_command(call.words[0]);
    if (!c)
        return refuse("unknown command", call.words[0]);
    if (call.count < 2)
        return refuse("an argument is missing for", call.words[0]);
    if (call.wal_dir && c != run_export)
        return refuse("--wal-dir does not go with", call.words[0]);
    return run(c, &call);
}
