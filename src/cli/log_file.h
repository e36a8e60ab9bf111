/*
 * log_file: the file that the log goes to, and the old ones beside it.
 *
 * With --enable-log-rotation a file that is full gets another name, with the time in it, and a new
 * one is begun, as in etcd (whose names are lumberjack's):
 *
 *     server.log    server-2026-01-02T03-04-05.678.log    server-2026-01-01T...
 *
 * Old ones go when they are too many or too old. Without rotation it is one file, appended to.
 *
 * Promises   1. A line is whole, in one file; lines are in order. From any thread.
 *            2. Where a new file cannot be begun, the old one goes on: a line is worth more than
 *               its bound.
 *            3. No file is removed whose name is not this log's with a time in it.
 * Not here   What is in a line (base/logger.h). compress, of etcd's settings.
 */
#pragma once

#include "base/bytes.h"
#include "config/config.h"

#include <pthread.h>

struct log_file {
    const char *path;
    struct config_rotation rotation;
    int fd;
    uint64_t bytes; /* in the file */
    pthread_mutex_t lock;
};

/* False, and errno says why not. The path is lent until log_file_close. */
bool log_file_open(struct log_file *f, const char *path, const struct config_rotation *rotation);

/* One line, newline included. now_ns: since 1970. */
void log_file_write(struct log_file *f, struct bytes line, int64_t now_ns);

void log_file_close(struct log_file *f);
