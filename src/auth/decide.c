#include "auth/auth_int.h"
#include "base/mem.h"

/* ---- Root ---- */

static bool is_root(const struct pb_user *u)
{
    return auth_has_role(u, auth_root);
}

/* The revision is not looked at, as in etcd: what root may do does not depend on it. */
static enum auth_result need_root(const struct auth *a, const struct identity *who)
{
    if (who->user.len == 0)
        return AUTH_USER_EMPTY;
    const struct auth_record *u = auth_find_user(a, who->user);
    if (!u)
        return AUTH_USER_NOT_FOUND;
    return is_root(&u->user) ? AUTH_OK : AUTH_PERMISSION_DENIED;
}

static enum auth_result need_somebody(const struct identity *who)
{
    return who->is_known ? AUTH_OK : AUTH_USER_EMPTY;
}

/* ---- Keys ---- */

/* Who asks for keys. Everything else about him was looked at once: a request may name thousands. */
struct asker {
    const struct auth *a;
    struct auth_record *user; /* NULL: may do everything */
    int64_t lease; /* the last whose keys he may write; 0: none yet. Many puts name the same one */
};

/* In etcd each key is asked about alone, and the first of them finds these out. So a request that
 * names no key is not refused for them, and whoever calls this has one. */
static enum auth_result know_asker(struct auth *a, const struct identity *who, struct asker *out)
{
    *out = (struct asker){.a = a};
    if (who->auth_revision == 0)
        return AUTH_USER_EMPTY;
    if (who->auth_revision < a->revision)
        return AUTH_OLD_REVISION;
    struct auth_record *u = auth_find_asker(a, who->user);
    if (!u)
        return AUTH_PERMISSION_DENIED;
    auth_merge(a, u);
    out->user = u->is_root ? NULL : u;
    return AUTH_OK;
}

enum access { READ, WRITE };

static enum auth_result need_range(const struct asker *asker, enum access access, struct bytes key,
                                   struct bytes range_end)
{
    struct auth_record *u = asker->user;

    if (!u)
        return AUTH_OK;
    bool is_permitted = auth_ranges_cover(access == READ ? &u->reads : &u->writes, key, range_end);
    if (is_permitted && auth_range_is_inverted(key, range_end)) {
        auth_plant(asker->a, u);
        is_permitted =
            auth_tree_permits(access == READ ? &u->read_tree : &u->write_tree, key, range_end);
    }
    return is_permitted ? AUTH_OK : AUTH_PERMISSION_DENIED;
}

static enum auth_result need_key(const struct asker *asker, enum access access, struct bytes key)
{
    return need_range(asker, access, key, bytes_of(NULL, 0));
}

/* All keys of a lease. From a key that is permitted to the end of the range that permits it there
 * is no need to look at the others. */
static enum auth_result need_lease_keys(const struct asker *asker, enum access access, int64_t id)
{
    const struct auth_leases *leases = &asker->a->leases;
    const struct auth_record *u = asker->user;
    struct bytes from = {0}, key;

    if (!u || !leases->next_key)
        return AUTH_OK;
    const struct auth_ranges *ranges = access == READ ? &u->reads : &u->writes;
    while (leases->next_key(leases->leases, id, from, &key)) {
        const struct auth_range *range = auth_ranges_find(ranges, key);
        if (!range)
            return AUTH_PERMISSION_DENIED;
        if (range->end.len == 0)
            break;
        from = range->end;
    }
    return AUTH_OK;
}

static bool lease_has_keys(const struct auth *a, int64_t id)
{
    struct bytes key;

    return a->leases.next_key && a->leases.next_key(a->leases.leases, id, bytes_of(NULL, 0), &key);
}

/* Root may, whatever he knows of the tables; a lease without keys is anybody's. */
static enum auth_result decide_lease(struct auth *a, const struct identity *who, enum access access,
                                     int64_t id)
{
    struct asker asker;

    if (need_root(a, who) == AUTH_OK || !lease_has_keys(a, id))
        return AUTH_OK;
    enum auth_result result = know_asker(a, who, &asker);
    return result == AUTH_OK ? need_lease_keys(&asker, access, id) : result;
}

/* ---- Operations ---- */

/* Whoever attaches a key to a lease could have the others on it deleted with it. */
static enum auth_result need_lease(struct asker *asker, int64_t id)
{
    if (id == asker->lease)
        return AUTH_OK;
    enum auth_result result = need_lease_keys(asker, WRITE, id);
    if (result == AUTH_OK)
        asker->lease = id;
    return result;
}

static enum auth_result need_put(struct asker *asker, const struct pb_put_request *r)
{
    enum auth_result result = need_key(asker, WRITE, r->key);

    if (result == AUTH_OK && r->lease != 0)
        result = need_lease(asker, r->lease);
    if (result == AUTH_OK && r->prev_kv)
        result = need_key(asker, READ, r->key);
    return result;
}

static enum auth_result need_delete(const struct asker *asker,
                                    const struct pb_delete_range_request *r)
{
    enum auth_result result = need_range(asker, WRITE, r->key, r->range_end);

    if (result == AUTH_OK && r->prev_kv)
        result = need_range(asker, READ, r->key, r->range_end);
    return result;
}

/* Transactions within a transaction, still to be looked at. */
struct nested {
    const struct pb_txn_request **at;
    size_t count, cap;
};

static void nested_push(struct nested *n, const struct pb_txn_request *txn)
{
    if (n->count == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 16;
        n->at = mem_resize(n->at, n->cap, sizeof(*n->at));
    }
    n->at[n->count++] = txn;
}

static enum auth_result need_op(struct asker *asker, const struct pb_request_op *op,
                                struct nested *nested)
{
    switch (op->which) {
    case PB_OP_RANGE:
        return need_range(asker, READ, op->range->key, op->range->range_end);
    case PB_OP_PUT:
        return need_put(asker, op->put);
    case PB_OP_DELETE_RANGE:
        return need_delete(asker, op->delete_range);
    case PB_OP_TXN:
        nested_push(nested, op->txn);
        break;
    case PB_OP_NONE:
        break;
    }
    return AUTH_OK;
}

/* Both branches: which of them will run is nobody's to know who may not read what is compared. */
static enum auth_result need_txn(struct asker *asker, const struct pb_txn_request *txn,
                                 struct nested *nested)
{
    enum auth_result result = AUTH_OK;

    for (size_t i = 0; i < txn->compare.count && result == AUTH_OK; i++)
        result = need_range(asker, READ, txn->compare.at[i].key, txn->compare.at[i].range_end);
    for (size_t i = 0; i < txn->success.count && result == AUTH_OK; i++)
        result = need_op(asker, &txn->success.at[i], nested);
    for (size_t i = 0; i < txn->failure.count && result == AUTH_OK; i++)
        result = need_op(asker, &txn->failure.at[i], nested);
    return result;
}

static bool names_keys(const struct pb_request_op *ops, size_t count, struct nested *nested)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i].which == PB_OP_TXN)
            nested_push(nested, ops[i].txn);
        else if (ops[i].which != PB_OP_NONE)
            return true;
    }
    return false;
}

/* Does it name a key anywhere? One that does not asks for nothing, and anybody may. */
static bool txn_names_keys(const struct pb_txn_request *txn)
{
    struct nested nested = {0};
    bool names = false;

    nested_push(&nested, txn);
    while (nested.count > 0 && !names) {
        txn = nested.at[--nested.count];
        names = txn->compare.count > 0 ||
                names_keys(txn->success.at, txn->success.count, &nested) ||
                names_keys(txn->failure.at, txn->failure.count, &nested);
    }
    mem_free(nested.at);
    return names;
}

/* The order does not matter, since all keys are refused in the same words; so what is nested waits
 * on a list of our own: an entry may have thousands of levels. */
static enum auth_result decide_txn(struct auth *a, const struct identity *who,
                                   const struct pb_txn_request *txn)
{
    struct asker asker;
    struct nested nested = {0};

    if (!txn_names_keys(txn))
        return AUTH_OK;
    enum auth_result result = know_asker(a, who, &asker);
    if (result != AUTH_OK || !asker.user)
        return result;
    nested_push(&nested, txn);
    while (nested.count > 0 && result == AUTH_OK)
        result = need_txn(&asker, nested.at[--nested.count], &nested);
    mem_free(nested.at);
    return result;
}

/* ---- Rules ---- */

static enum auth_result decide_read(struct auth *a, const struct identity *who, struct bytes key,
                                    struct bytes range_end)
{
    struct asker asker;
    enum auth_result result = know_asker(a, who, &asker);

    return result == AUTH_OK ? need_range(&asker, READ, key, range_end) : result;
}

static enum auth_result decide_put(struct auth *a, const struct identity *who,
                                   const struct pb_put_request *r)
{
    struct asker asker;
    enum auth_result result = know_asker(a, who, &asker);

    return result == AUTH_OK ? need_put(&asker, r) : result;
}

static enum auth_result decide_delete(struct auth *a, const struct identity *who,
                                      const struct pb_delete_range_request *r)
{
    struct asker asker;
    enum auth_result result = know_asker(a, who, &asker);

    return result == AUTH_OK ? need_delete(&asker, r) : result;
}

/* An empty key is the first of all. */
static enum auth_result decide_watch(struct auth *a, const struct identity *who,
                                     const struct pb_watch_create_request *r)
{
    return decide_read(a, who, r->key.len > 0 ? r->key : BYTES("\0"), r->range_end);
}

static enum auth_result decide_read_lease(struct auth *a, const struct identity *who,
                                          const struct pb_lease_time_to_live_request *r)
{
    enum auth_result result = need_somebody(who);

    return result == AUTH_OK && r->keys ? decide_lease(a, who, READ, r->id) : result;
}

static enum auth_result decide_write_lease(struct auth *a, const struct identity *who,
                                           const struct pb_lease_id *r)
{
    enum auth_result result = need_somebody(who);

    return result == AUTH_OK ? decide_lease(a, who, WRITE, r->id) : result;
}

static enum auth_result decide_self(const struct auth *a, const struct identity *who,
                                    const struct pb_auth_name *r)
{
    return bytes_equal(r->name, who->user) ? AUTH_OK : need_root(a, who);
}

static enum auth_result decide_own_role(const struct auth *a, const struct identity *who,
                                        const struct pb_auth_role_name *r)
{
    const struct auth_record *u = auth_find_user(a, who->user);

    return u && auth_has_role(&u->user, r->role) ? AUTH_OK : need_root(a, who);
}

/* No default: a rule without a case here is a warning, and warnings do not compile. */
enum auth_result auth_decide(struct auth *a, const struct identity *who, enum auth_rule rule,
                             const void *request)
{
    if (!a->enabled)
        return AUTH_OK;
    switch (rule) {
    case RULE_ANYBODY:
    case RULE_BY_INNER_CALLS:
        return AUTH_OK;
    case RULE_ANY_USER:
        return need_somebody(who);
    case RULE_ROOT:
        return need_root(a, who);
    case RULE_ROOT_OR_SELF:
        return decide_self(a, who, request);
    case RULE_ROOT_OR_OWN_ROLE:
        return decide_own_role(a, who, request);
    case RULE_READ_RANGE: {
        const struct pb_range_request *r = request;
        return decide_read(a, who, r->key, r->range_end);
    }
    case RULE_WRITE_KEY:
        return decide_put(a, who, request);
    case RULE_WRITE_RANGE:
        return decide_delete(a, who, request);
    case RULE_TXN:
        return decide_txn(a, who, request);
    case RULE_WATCH:
        return request ? decide_watch(a, who, request) : AUTH_OK;
    case RULE_READ_LEASE:
        return decide_read_lease(a, who, request);
    case RULE_WRITE_LEASE:
        return request ? decide_write_lease(a, who, request) : AUTH_OK;
    case RULE_LEASE_KEYS:
        return decide_lease(a, who, WRITE, ((const struct pb_lease_id *)request)->id);
    case RULE_ALARM:
        return ((const struct pb_alarm_request *)request)->action == PB_ALARM_GET
                   ? need_somebody(who)
                   : need_root(a, who);
    case RULE_COUNT:
        break;
    }
    unreachable();
}

/* Also where auth is disabled: a certificate's name has a revision even then. */
bool auth_is_outdated(const struct auth *a, const struct identity *who)
{
    return who->auth_revision != 0 && who->auth_revision != a->revision;
}

struct identity auth_root_identity(const struct auth *a)
{
    if (!a->enabled)
        return (struct identity){0};
    return (struct identity){.is_known = true, .user = auth_root, .auth_revision = a->revision};
}
