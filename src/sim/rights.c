#include "sim/rights.h"

#include "base/assert.h"

#include <string.h>

static const char *const user_names[RIGHTS_USERS] = {"root", "u1", "u2", "u3"};
static const char *const role_names[RIGHTS_ROLES] = {"root", "r1", "r2", "r3"};

/* No two begin at the same key: those etcd keeps in an order of its own. Of a single key the end is
 * sent empty. */
static const struct {
    const char *key, *end;
    bool is_open;
} ranges[RIGHTS_RANGES] = {
    {"k", "l", false},   {"k00", "", false}, {"k02", "k06", false}, {"k06", "k09", false},
    {"k08", NULL, true}, {"k11", "", false}, {"z", "{", false},
};

const char *rights_user_name(unsigned user)
{
    assert(user < RIGHTS_USERS);
    return user_names[user];
}

const char *rights_role_name(unsigned role)
{
    assert(role < RIGHTS_ROLES);
    return role_names[role];
}

struct bytes rights_range_key(unsigned range)
{
    assert(range < RIGHTS_RANGES);
    return bytes_of_str(ranges[range].key);
}

struct bytes rights_range_end(unsigned range)
{
    assert(range < RIGHTS_RANGES);
    return ranges[range].is_open ? bytes_of("\0", 1) : bytes_of_str(ranges[range].end);
}

struct rights rights_at_first(void)
{
    return (struct rights){.revision = 1};
}

/* --- changes --- */

static const char *enable(struct rights *r)
{
    if (r->enabled)
        return NULL;
    if (!r->users[RIGHTS_ROOT].is_there)
        return "etcdserver: root user does not exist";
    if (!rights_is_root(r, RIGHTS_ROOT))
        return "etcdserver: root user does not have root role";
    r->enabled = true;
    return NULL;
}

static void disable(struct rights *r)
{
    if (!r->enabled)
        return;
    r->enabled = false;
    r->revision++;
    for (unsigned u = 0; u < RIGHTS_USERS; u++)
        r->users[u].logouts++;
}

/* Also one that is set to what it was: it is stored with other salt. */
static void set_password(struct rights *r, unsigned user)
{
    if (r->users[user].secret != 0)
        r->users[user].was = r->users[user].secret;
    r->users[user].secret = 0;
}

static const char *change_user(struct rights *r, const struct rights_change *c)
{
    bool is_there = r->users[c->user].is_there;

    if (c->kind == RIGHTS_USER_ADD) {
        if (is_there)
            return "etcdserver: user name already exists";
        r->users[c->user].is_there = true;
        r->users[c->user].roles = 0;
        set_password(r, c->user);
        r->revision++;
        return NULL;
    }
    if (c->kind == RIGHTS_USER_DELETE && r->enabled && c->user == RIGHTS_ROOT)
        return "etcdserver: invalid auth management";
    if (!is_there)
        return "etcdserver: user name not found";
    if (c->kind == RIGHTS_USER_DELETE) {
        r->users[c->user].is_there = false;
        r->users[c->user].roles = 0;
    } else {
        set_password(r, c->user);
    }
    r->users[c->user].logouts++;
    r->revision++;
    return NULL;
}

/* Whether the role is there matters for a grant alone, and not for root's. */
static const char *change_roles_of_user(struct rights *r, const struct rights_change *c)
{
    bool is_grant = c->kind == RIGHTS_ROLE_GRANT;
    bool has_it = (r->users[c->user].roles >> c->role & 1) != 0;

    if (!is_grant && r->enabled && c->user == RIGHTS_ROOT && c->role == RIGHTS_ROOT)
        return "etcdserver: invalid auth management";
    if (!r->users[c->user].is_there)
        return "etcdserver: user name not found";
    if (is_grant && c->role != RIGHTS_ROOT && !r->roles[c->role].is_there)
        return "etcdserver: role name not found";
    if (!is_grant && !has_it)
        return "etcdserver: role is not granted to the user";
    if (is_grant && has_it)
        return NULL;
    r->users[c->user].roles ^= (uint8_t)(1u << c->role);
    r->revision++;
    return NULL;
}

static const char *change_role(struct rights *r, const struct rights_change *c)
{
    bool is_there = r->roles[c->role].is_there;

    if (c->kind == RIGHTS_ROLE_ADD && is_there)
        return "etcdserver: role name already exists";
    if (c->kind == RIGHTS_ROLE_DELETE && r->enabled && c->role == RIGHTS_ROOT)
        return "etcdserver: invalid auth management";
    if (c->kind == RIGHTS_ROLE_DELETE && !is_there)
        return "etcdserver: role name not found";
    memset(&r->roles[c->role], 0, sizeof(r->roles[c->role]));
    r->roles[c->role].is_there = c->kind == RIGHTS_ROLE_ADD;
    for (unsigned u = 0; u < RIGHTS_USERS && c->kind == RIGHTS_ROLE_DELETE; u++)
        r->users[u].roles &= (uint8_t)~(1u << c->role);
    r->revision++;
    return NULL;
}

static const char *change_permission(struct rights *r, const struct rights_change *c)
{
    uint8_t *type = &r->roles[c->role].types[c->range];

    if (!r->roles[c->role].is_there)
        return "etcdserver: role name not found";
    if (c->kind == RIGHTS_FORBID && *type == RIGHTS_NOTHING)
        return "etcdserver: permission is not granted to the role";
    *type = c->kind == RIGHTS_FORBID ? RIGHTS_NOTHING : (uint8_t)c->type;
    r->revision++;
    return NULL;
}

const char *rights_apply(struct rights *r, const struct rights_change *c)
{
    switch (c->kind) {
    case RIGHTS_ENABLE:
        return enable(r);
    case RIGHTS_DISABLE:
        disable(r);
        return NULL;
    case RIGHTS_USER_ADD:
    case RIGHTS_USER_DELETE:
    case RIGHTS_PASSWORD:
        return change_user(r, c);
    case RIGHTS_ROLE_GRANT:
    case RIGHTS_ROLE_REVOKE:
        return change_roles_of_user(r, c);
    case RIGHTS_ROLE_ADD:
    case RIGHTS_ROLE_DELETE:
        return change_role(r, c);
    case RIGHTS_PERMIT:
    case RIGHTS_FORBID:
        return change_permission(r, c);
    case RIGHTS_KINDS:
        break;
    }
    unreachable();
}

static bool have_same_password(const struct rights *a, const struct rights *b, unsigned user)
{
    uint32_t one = a->users[user].secret, other = b->users[user].secret;

    if (one != 0 && other != 0)
        return one == other;
    return one == other || (one != 0 ? one != b->users[user].was : other != a->users[user].was);
}

bool rights_are_equal(const struct rights *a, const struct rights *b)
{
    bool same = a->enabled == b->enabled && a->revision == b->revision;

    for (unsigned u = 0; u < RIGHTS_USERS; u++)
        same &= a->users[u].is_there == b->users[u].is_there &&
                a->users[u].roles == b->users[u].roles &&
                (!a->users[u].is_there || have_same_password(a, b, u));
    for (unsigned i = 0; i < RIGHTS_ROLES; i++)
        same &= a->roles[i].is_there == b->roles[i].is_there &&
                memcmp(a->roles[i].types, b->roles[i].types, RIGHTS_RANGES) == 0;
    return same;
}

bool rights_changes_are_equal(const struct rights_change *a, const struct rights_change *b)
{
    return a->kind == b->kind && a->user == b->user && a->role == b->role && a->range == b->range &&
           a->type == b->type;
}

/* --- who may --- */

/* Where a range or a single key ends: behind which no key of it is. An open one ends nowhere. */
struct end {
    uint8_t at[16];
    size_t len;
    bool is_open;
};

static struct end end_of(struct bytes key, struct bytes range_end)
{
    struct end e = {.is_open = range_end.len == 1 && range_end.at[0] == 0};
    struct bytes from = range_end.len > 0 ? range_end : key;

    assert(from.len < sizeof(e.at));
    if (from.len > 0)
        memcpy(e.at, from.at, from.len);
    e.len = from.len + (range_end.len == 0); /* a zero byte behind the key */
    return e;
}

static struct bytes end_bytes(const struct end *e)
{
    return bytes_of(e->at, e->len);
}

/* A step from `at` to the end of some permission that it lies in. False: it lies in none. */
static bool step(const struct rights *r, unsigned user, enum rights_type type, struct end *at)
{
    for (unsigned role = 0; role < RIGHTS_ROLES; role++) {
        if ((r->users[user].roles >> role & 1) == 0)
            continue;
        for (unsigned i = 0; i < RIGHTS_RANGES; i++) {
            struct end end = end_of(rights_range_key(i), rights_range_end(i));
            if ((r->roles[role].types[i] & type) == 0 ||
                bytes_compare(rights_range_key(i), end_bytes(at)) > 0)
                continue;
            if (!end.is_open && bytes_compare(end_bytes(at), end_bytes(&end)) >= 0)
                continue;
            *at = end;
            return true;
        }
    }
    return false;
}

static bool may(const struct rights *r, unsigned user, enum rights_type type, struct bytes key,
                struct bytes range_end)
{
    struct end last = end_of(key, range_end), at = {.len = key.len};

    if (rights_is_root(r, user))
        return true;
    assert(key.len <= sizeof(at.at));
    if (key.len > 0)
        memcpy(at.at, key.at, key.len);
    while (!at.is_open && (last.is_open || bytes_compare(end_bytes(&at), end_bytes(&last)) < 0))
        if (!step(r, user, type, &at))
            return false;
    return true;
}

bool rights_is_root(const struct rights *r, unsigned user)
{
    return r->users[user].is_there && (r->users[user].roles >> RIGHTS_ROOT & 1) != 0;
}

bool rights_may_read(const struct rights *r, unsigned user, struct bytes key, struct bytes end)
{
    return may(r, user, RIGHTS_READ, key, end);
}

/* The keys of a lease may be any of ours, and nobody knows here which: see permits.h. */
static bool may_put(const struct rights *r, unsigned user, const struct pb_put_request *q)
{
    return may(r, user, RIGHTS_WRITE, q->key, (struct bytes){0}) &&
           (!q->prev_kv || may(r, user, RIGHTS_READ, q->key, (struct bytes){0}));
}

static bool may_delete(const struct rights *r, unsigned user,
                       const struct pb_delete_range_request *q)
{
    return may(r, user, RIGHTS_WRITE, q->key, q->range_end) &&
           (!q->prev_kv || may(r, user, RIGHTS_READ, q->key, q->range_end));
}

static bool may_txn(const struct rights *r, unsigned user, const struct pb_txn_request *q);

/* NOLINTNEXTLINE(misc-no-recursion): the actors nest two levels */
static bool may_all(const struct rights *r, unsigned user, const struct pb_request_op *ops,
                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool ok = true;
        if (ops[i].which == PB_OP_PUT)
            ok = may_put(r, user, ops[i].put);
        else if (ops[i].which == PB_OP_DELETE_RANGE)
            ok = may_delete(r, user, ops[i].delete_range);
        else if (ops[i].which == PB_OP_RANGE)
            ok = rights_may_read(r, user, ops[i].range->key, ops[i].range->range_end);
        else if (ops[i].which == PB_OP_TXN)
            ok = may_txn(r, user, ops[i].txn);
        if (!ok)
            return false;
    }
    return true;
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static bool may_txn(const struct rights *r, unsigned user, const struct pb_txn_request *q)
{
    for (size_t i = 0; i < q->compare.count; i++)
        if (!rights_may_read(r, user, q->compare.at[i].key, q->compare.at[i].range_end))
            return false;
    return may_all(r, user, q->success.at, q->success.count) &&
           may_all(r, user, q->failure.at, q->failure.count);
}

#define MAY(name, call)                                                                            \
    do {                                                                                           \
        struct pb_##name##_request q;                                                              \
        enum err e = pb_decode_##name##_request(request, &arena, &q);                              \
        assert(e == ERR_OK); /* it is the actors' own */                                           \
        ok = call;                                                                                 \
    } while (0)

/* Leases are anybody's who is somebody, as far as their keys are not looked at. */
bool rights_may(const struct rights *r, unsigned user, enum history_kind kind, struct bytes request)
{
    struct arena arena = {0};
    bool ok = true;

    switch (kind) {
    case OP_PUT:
        MAY(put, may_put(r, user, &q));
        break;
    case OP_DELETE:
        MAY(delete_range, may_delete(r, user, &q));
        break;
    case OP_TXN:
        MAY(txn, may_txn(r, user, &q));
        break;
    case OP_RANGE:
        MAY(range, rights_may_read(r, user, q.key, q.range_end));
        break;
    case OP_KEYS:
    case OP_REVOKE:
    case OP_GRANT:
    case OP_RENEW:
        break;
    case OP_HASH_KV:
    case OP_MAINTENANCE:
    case OP_OTHER:
        ok = rights_is_root(r, user);
        break;
    }
    arena_free(&arena);
    return ok;
}
