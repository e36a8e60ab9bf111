#include "sim/member_view.h"

#include "cluster/cluster.h"
#include "server/server.h"
#include "sim/roster.h"
#include "wal/wal.h"

/* A turn begins when there is credit left, and adds what one turn may: a few large entries. */
#define LOG_BYTES_MAX (2 * WAL_PENDING_BYTES_MAX)

static bool term_at(const void *context, uint64_t index, uint64_t *out)
{
    return server_term_at(context, index, out);
}

void member_view(const struct server *s, struct member_view *out)
{
    struct server_status now = server_status(s);

    out->bounds[0] =
        (struct cluster_bound){"bytes waiting for its log", now.log_pending_bytes, LOG_BYTES_MAX};
    const struct cluster *table = NULL;
    const uint64_t *removed = NULL;
    size_t removed_count = 0;
    bool has_members = server_members(s, &table, &out->conf);
    out->table = 0;
    if (has_members) {
        size_t count;
        const struct pb_member *members = cluster_members(table, &count);
        removed = cluster_removed(table, &removed_count);
        out->table = roster_table(members, count);
    }
    out->view = (struct cluster_view){
        .id = now.member_id,
        .term = now.term,
        .lead = now.leader,
        .vote = now.vote,
        .is_leader = now.is_leader,
        .base = now.log_base,
        .last = now.log_last,
        .stable = now.log_durable,
        .commit = now.committed,
        .applied = now.applied,
        .revision = now.revision,
        .conf = has_members ? &out->conf : NULL,
        .removed = removed,
        .removed_count = removed_count,
        .term_at = term_at,
        .context = s,
        .bounds = out->bounds,
        .bound_count = MEMBER_BOUNDS,
    };
}
