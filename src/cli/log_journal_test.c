#include "cli/log_journal.h"

#include "base/arena.h"
#include "harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A journal of our own. */
static int listen_at(const char *path)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(where.sun_path, sizeof(where.sun_path), "%s", path);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0);
    return fd;
}

static void check_entry(struct log_journal *j, int fd, struct bytes line, const char *want)
{
    char got[512];

    log_journal_write(j, line);
    ssize_t len = recv(fd, got, sizeof(got) - 1, 0);
    CHECK(len > 0);
    got[len] = 0;
    CHECK_STR(got, want);
}

TEST(lines_are_entries_of_the_journal)
{
    struct arena arena = {0};
    const char *path = arena_printf(&arena, "%s/journal", test_tmp_dir());
    struct log_journal j;
    int fd = listen_at(path);
    CHECK(log_journal_open(&j, path, "etcd"));

    check_entry(&j, fd, BYTES("{\"level\":\"info\",\"msg\":\"x\"}\n"),
                "PRIORITY=6\nSYSLOG_IDENTIFIER=etcd\nMESSAGE={\"level\":\"info\",\"msg\":\"x\"}\n");
    check_entry(&j, fd, BYTES("{\"level\":\"warn\"}\n"),
                "PRIORITY=4\nSYSLOG_IDENTIFIER=etcd\nMESSAGE={\"level\":\"warn\"}\n");
    check_entry(&j, fd, BYTES("{\"level\":\"fatal\"}\n"),
                "PRIORITY=2\nSYSLOG_IDENTIFIER=etcd\nMESSAGE={\"level\":\"fatal\"}\n");

    log_journal_close(&j);
    close(fd);
    arena_free(&arena);
}

TEST(a_journal_that_is_not_there_is_told)
{
    struct arena arena = {0};
    struct log_journal j;

    CHECK(!log_journal_open(&j, arena_printf(&arena, "%s/none", test_tmp_dir()), "etcd"));
    CHECK_EQ(errno, ENOENT);
    arena_free(&arena);
}
