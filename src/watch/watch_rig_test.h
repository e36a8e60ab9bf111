/*
 * watch_rig: the hub on a store of its own, for tests.
 *
 * Every change is told as it happens, and watch_check runs after everything that is done here.
 */
#pragma once

#include "mvcc/mvcc_rig_test.h"
#include "watch/watch.h"

struct watch_rig {
    struct mvcc_rig mvcc_rig;
    struct watch *w;
    uint64_t now_ms;
    bool away; /* changes are not told: they come with the store that replaces ours */
};

/* Options that are left out get values that suit tests. */
void watch_rig_init(struct watch_rig *r, const struct watch_options *options);
void watch_rig_free(struct watch_rig *r);

/* One change, or several between begin and end. */
void watch_rig_begin(struct watch_rig *r);
void watch_rig_end(struct watch_rig *r);
void watch_rig_put(struct watch_rig *r, const char *key, const char *value);
void watch_rig_delete(struct watch_rig *r, const char *key);
void watch_rig_delete_range(struct watch_rig *r, const char *from, const char *to);
void watch_rig_compact(struct watch_rig *r, int64_t revision);

/* Removes what is compacted, unless that has to wait for somebody. */
void watch_rig_remove(struct watch_rig *r);

/* The store is closed and opened again, as if another had taken its place. */
void watch_rig_replace(struct watch_rig *r);

struct watch_stream *watch_rig_stream(struct watch_rig *r, size_t credit_bytes);
void watch_rig_create(struct watch_rig *r, struct watch_stream *s,
                      const struct pb_watch_create_request *request);

/* Works in slices of this many steps until there is nothing to be done; how many slices it took. */
size_t watch_rig_settle(struct watch_rig *r, unsigned steps);

/* Appends the message's events, and ends what it owns. A long one is read in small chunks. False if
 * compaction has overtaken it. */
bool watch_rig_read(struct watch_message *m, struct buf *events);

/* Takes the next message, tells that it was sent, and describes it; "" if there is none. The text
 * lasts until the next call. */
const char *watch_rig_next(struct watch_rig *r);

/* Appends one line. Reads the events. */
void watch_rig_describe(struct watch_message *m, struct buf *out);
