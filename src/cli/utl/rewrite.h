/*
 * rewrite: another bbolt file with the same content, but for some entries.
 *
 * bbolt changes pages in place; here there is only a reader and a writer of whole files. So what
 * etcdutl does to a db by a few transactions is here a copy on which other entries are laid:
 *
 *     source   a  b  c     e
 *     laid on     B     d        (an entry of the same key wins, or takes it away)
 *     result   a  B  c  d  e
 *
 * The copy has no holes, which is all that a defragmentation wants. It is made beside its place and
 * renamed when it is durable, so that at every moment there is one whole file or none.
 */
#pragma once

#include "cli/utl/etcd_file.h"

struct rewrite_entry {
    const char *bucket;
    struct bytes key, value;
    bool is_removal; /* of the source's entry of this key */
};

struct rewrite {
    struct etcd_file *from;
    const struct rewrite_entry *entries; /* in order of bucket and key */
    size_t count;
    const char *const *emptied; /* buckets whose content of before is left out; NULL at the end */
};

/* False, and it has been told. Nothing is left at `path` then that was not there before. */
bool rewrite_run(const struct rewrite *r, const char *path);
