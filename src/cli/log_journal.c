#include "cli/log_journal.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/logger.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool log_journal_open(struct log_journal *j, const char *path, const char *identifier)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};

    assert(strlen(path) < sizeof(where.sun_path));
    memcpy(where.sun_path, path, strlen(path));
    *j = (struct log_journal){.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
                              .identifier = identifier};
    if (j->fd >= 0 && connect(j->fd, (struct sockaddr *)&where, sizeof(where)) == 0)
        return true;
    int error = errno;
    log_journal_close(j);
    errno = error;
    return false;
}

void log_journal_close(struct log_journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

/* syslog's numbers. Every line begins with its level. */
static int priority_of(struct bytes line)
{
    static const struct {
        const char *start;
        int priority;
    } levels[] = {{"{\"level\":\"debug\"", 7},
                  {"{\"level\":\"info\"", 6},
                  {"{\"level\":\"warn\"", 4},
                  {"{\"level\":\"error\"", 3}};

    for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
        if (bytes_starts_with(line, bytes_of_str(levels[i].start)))
            return levels[i].priority;
    }
    return 2; /* fatal */
}

void log_journal_write(struct log_journal *j, struct bytes line)
{
    static int standard_error = STDERR_FILENO;
    struct buf entry = {0};

    buf_printf(&entry, "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nMESSAGE=", priority_of(line),
               j->identifier);
    buf_append(&entry, line); /* with the newline that ends the field */
    if (send(j->fd, entry.at, entry.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_sink_fd(&standard_error, line);
    buf_free(&entry);
}
