/*
 * log_journal: lines of the log as entries of systemd's journal, by its own protocol.
 *
 * A line is one datagram, fields with a newline behind each. The message is the whole line, as in
 * etcd; its level is the priority:
 *
 *     PRIORITY=6
 *     SYSLOG_IDENTIFIER=etcd
 *     MESSAGE={"level":"info","ts":...}
 *
 * A datagram that cannot be sent (nobody is there any more, or is too slow) goes to standard error
 * instead. From any thread.
 */
#pragma once

#include "base/bytes.h"

#define LOG_JOURNAL_PATH "/run/systemd/journal/socket"

struct log_journal {
    int fd;
    const char *identifier;
};

/* False, and errno says why not. The identifier is lent until log_journal_close. */
bool log_journal_open(struct log_journal *j, const char *path, const char *identifier);

/* One line in JSON, newline included. */
void log_journal_write(struct log_journal *j, struct bytes line);

void log_journal_close(struct log_journal *j);
