/*
 * file: etcd's configuration file, as values of flags.
 *
 * A key is mostly the name of a flag; some are in sections of their own (client-transport-security,
 * discovery-config). One table says which is which, and what etcd holds a key's value to: in a file
 * a number is a number and never a text in quotes, a duration is nanoseconds, a list is a list.
 * From there on a value of a file is the same as one of the command line.
 *
 * Keys that nobody knows are passed over, as in etcd, whose own sample has many; but they are named
 * to the caller, since most of them are misspelled.
 *
 * Where several things are wrong the first is told that etcd would tell: wrong types in the order
 * of the keys, then feature gates, then URLs.
 *
 * Private to the room.
 */
#pragma once

#include "config/flags.h"

enum config_file_result {
    CONFIG_FILE_OK,
    CONFIG_FILE_BAD,     /* *why, as a refusal of flags */
    CONFIG_FILE_BAD_URL, /* *why, which etcd prints by itself */
};

/* The whole file, as bytes. False, and *why says why not, in Go's words. */
bool config_file_load(const char *path, struct buf *out, struct buf *why);

/* Sets flags, which are all at their default, to what a file says. *unknown becomes the keys that
 * mean nothing, in order, with ", " between them; "" if there are none. */
enum config_file_result config_file_parse(struct bytes text, struct flags *f, struct buf *why,
                                          const char **unknown);
