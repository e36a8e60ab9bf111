/*
 * err: an operating error that someone can act on.
 *
 * Bugs are assertions, failed syncs are fatal(), answers a client may get are data. What is left is
 * this short list: the world outside (a file, a peer, some bytes) was not as hoped.
 */
#pragma once

#include "base/mem.h" /* MUST_CHECK, which every function that returns one carries */

#define ERR_LIST(X)                                                                                \
    X(ERR_OK, "ok")                                                                                \
    X(ERR_IO, "input/output error")                                                                \
    X(ERR_SYNC, "a sync failed: what the disk has kept is unknown")                                \
    X(ERR_NO_SPACE, "no space left on device")                                                     \
    X(ERR_NO_FILES, "too many open files")                                                         \
    X(ERR_NOT_FOUND, "not found")                                                                  \
    X(ERR_EXISTS, "already exists")                                                                \
    X(ERR_DENIED, "permission denied")                                                             \
    X(ERR_BUSY, "in use")                                                                          \
    X(ERR_CORRUPT, "corrupt data")                                                                 \
    X(ERR_MALFORMED, "malformed message")                                                          \
    X(ERR_TOO_LARGE, "too large")                                                                  \
    X(ERR_TOO_DEEP, "nested too deep")                                                             \
    X(ERR_BAD_UTF8, "string is not valid UTF-8")                                                   \
    X(ERR_END, "end of data")                                                                      \
    X(ERR_REFUSED, "connection refused")                                                           \
    X(ERR_RESET, "connection reset")                                                               \
    X(ERR_TIMEOUT, "timed out")                                                                    \
    X(ERR_CANCELED, "canceled")                                                                    \
    X(ERR_UNSUPPORTED, "not supported")                                                            \
    X(ERR_EVICTED, "closed to make a place for another connection")

#define ERR_ENUM(name, text) name,
enum err { ERR_LIST(ERR_ENUM) };
#undef ERR_ENUM

/* A short lower-case text, for logs. */
const char *err_text(enum err e);
