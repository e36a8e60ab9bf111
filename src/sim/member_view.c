#include "sim/member_view.h"

#include "auth/auth.h"
#include "base/map.h"
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

/* --- users and roles --- */

static bool find_name(const char *(*name_of)(unsigned), unsigned count, struct bytes name,
                      unsigned *out)
{
    for (unsigned i = 0; i < count; i++) {
        if (!bytes_equal(name, bytes_of_str(name_of(i))))
            continue;
        *out = i;
        return true;
    }
    return false;
}

static bool take_permission(const struct pb_permission *p, uint8_t types[static RIGHTS_RANGES])
{
    static const uint8_t type_of[] = {[PB_PERMISSION_READ] = RIGHTS_READ,
                                      [PB_PERMISSION_WRITE] = RIGHTS_WRITE,
                                      [PB_PERMISSION_READWRITE] = RIGHTS_BOTH};

    for (unsigned i = 0; i < RIGHTS_RANGES; i++) {
        if (!bytes_equal(p->key, rights_range_key(i)) ||
            !bytes_equal(p->range_end, rights_range_end(i)) || types[i] != RIGHTS_NOTHING)
            continue;
        types[i] = type_of[p->type];
        return true;
    }
    return false;
}

static bool take_user(const struct pb_user *u, struct rights *out)
{
    unsigned user, role;

    if (!find_name(rights_user_name, RIGHTS_USERS, u->name, &user))
        return false;
    out->users[user].is_there = true;
    out->users[user].secret = (uint32_t)map_hash(u->password, 0) | 1;
    for (size_t i = 0; i < u->roles.count; i++) {
        if (!find_name(rights_role_name, RIGHTS_ROLES, u->roles.at[i], &role))
            return false;
        out->users[user].roles |= (uint8_t)(1u << role);
    }
    return true;
}

bool member_rights(const struct server *s, struct rights *out)
{
    const struct auth *auth = server_auth(s);
    const struct pb_user *u;
    const struct pb_role *r;
    unsigned role;

    *out = (struct rights){.enabled = auth_is_enabled(auth), .revision = auth_revision(auth)};
    for (size_t n = 0; (u = auth_nth_user(auth, n)); n++)
        if (!take_user(u, out))
            return false;
    for (size_t n = 0; (r = auth_nth_role(auth, n)); n++) {
        if (!find_name(rights_role_name, RIGHTS_ROLES, r->name, &role))
            return false;
        out->roles[role].is_there = true;
        for (size_t i = 0; i < r->key_permission.count; i++)
            if (!take_permission(&r->key_permission.at[i], out->roles[role].types))
                return false;
    }
    return true;
}
