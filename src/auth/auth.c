#include "auth/auth_int.h"
#include "backend/backend.h"
#include "base/base64.h"
#include "base/mem.h"

static const struct bytes enabled_key = BYTES("authEnabled");
static const struct bytes revision_key = BYTES("authRevision");
const struct bytes auth_root = BYTES("root");

/* ---- Tables in memory ---- */

static struct bytes name_of(const struct auth_record *r)
{
    static_assert(offsetof(struct pb_user, name) == offsetof(struct pb_role, name),
                  "both have it in the same place");
    return r->user.name;
}

/* Where the name is, or where it belongs. */
static size_t place_of(const struct auth_table *t, struct bytes name)
{
    size_t low = 0, high = t->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(name_of(t->at[middle]), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: another one is there, or none. */
static struct auth_record *record_at(const struct auth_table *t, size_t place, struct bytes name)
{
    return place < t->count && bytes_equal(name_of(t->at[place]), name) ? t->at[place] : NULL;
}

static struct auth_record *find(const struct auth_table *t, struct bytes name)
{
    return record_at(t, place_of(t, name), name);
}

static void record_free(struct auth_record *r)
{
    arena_free(&r->home);
    arena_free(&r->ends);
    auth_ranges_free(&r->reads);
    auth_ranges_free(&r->writes);
    auth_tree_free(&r->read_tree);
    auth_tree_free(&r->write_tree);
    mem_free(r);
}

static void table_put(struct auth_table *t, struct auth_record *r)
{
    size_t place = place_of(t, name_of(r));

    if (place < t->count && bytes_equal(name_of(t->at[place]), name_of(r))) {
        record_free(t->at[place]);
        t->at[place] = r;
        return;
    }
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 8;
        t->at = mem_resize(t->at, t->cap, sizeof(*t->at));
    }
    memmove(t->at + place + 1, t->at + place, (t->count - place) * sizeof(*t->at));
    t->at[place] = r;
    t->count++;
}

static void table_remove(struct auth_table *t, struct bytes name)
{
    size_t place = place_of(t, name);
    struct auth_record *gone = t->at[place];

    assert(place < t->count);
    t->count--;
    memmove(t->at + place, t->at + place + 1, (t->count - place) * sizeof(*t->at));
    record_free(gone); /* last: the name may be its own */
}

static void table_free(struct auth_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        record_free(t->at[i]);
    mem_free(t->at);
    *t = (struct auth_table){0};
}

struct auth_record *auth_find_user(const struct auth *a, struct bytes name)
{
    return find(&a->users, name);
}

struct auth_record *auth_find_asker(struct auth *a, struct bytes name)
{
    const struct auth_table *t = &a->users;
    struct auth_record *r = record_at(t, a->last_asker, name);

    if (r)
        return r;
    a->last_asker = place_of(t, name);
    return record_at(t, a->last_asker, name);
}

bool auth_has_role(const struct pb_user *u, struct bytes role)
{
    for (size_t i = 0; i < u->roles.count; i++)
        if (bytes_equal(u->roles.at[i], role))
            return true;
    return false;
}

/* ---- Records, as they are stored ---- */

/* The record's texts lie in a copy of its bytes, in its own memory. */
static enum err decode_record(const struct pb_schema *schema, struct bytes stored,
                              struct auth_record **out)
{
    struct auth_record *r = mem_new(struct auth_record);
    enum err e = pb_decode(schema, arena_copy(&r->home, stored), &r->home, &r->user);

    if (e != ERR_OK) {
        record_free(r);
        return e;
    }
    *out = r;
    return ERR_OK;
}

/* Into both, the store and memory. What the message refers to may be the record it replaces. */
static void save(struct auth *a, const struct pb_schema *schema, const void *message)
{
    bool is_user = schema == &pb_user_schema;
    struct auth_record *r = NULL;
    struct buf stored = {0};

    pb_encode(schema, message, &stored);
    enum err e = decode_record(schema, buf_bytes(&stored), &r);
    assert(e == ERR_OK); /* what was just encoded */
    backend_put(a->backend, is_user ? BUCKET_AUTH_USERS : BUCKET_AUTH_ROLES, name_of(r),
                buf_bytes(&stored));
    table_put(is_user ? &a->users : &a->roles, r);
    buf_free(&stored);
}

static void save_revision(struct auth *a)
{
    uint64_t big_endian = __builtin_bswap64(++a->revision);

    a->changes++;
    backend_put(a->backend, BUCKET_AUTH, revision_key, bytes_of(&big_endian, sizeof(big_endian)));
}

static void save_enabled(struct auth *a, bool enabled)
{
    a->enabled = enabled;
    a->changes++;
    backend_put(a->backend, BUCKET_AUTH, enabled_key, enabled ? BYTES("\1") : BYTES("\0"));
}

/* ---- Opening ---- */

static enum err load_table(struct backend_view *v, enum bucket bucket,
                           const struct pb_schema *schema, struct auth_table *t, struct buf *why)
{
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    backend_cursor_open(v, bucket, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK) {
        struct auth_record *r = NULL;
        if (decode_record(schema, value, &r) != ERR_OK || !bytes_equal(name_of(r), key)) {
            buf_printf(why, "bucket %s: a record cannot be understood", bucket_name(bucket));
            if (r)
                record_free(r);
            e = ERR_CORRUPT;
            break;
        }
        table_put(t, r);
    }
    backend_cursor_close(&c);
    return e == ERR_END ? ERR_OK : e;
}

/* Of a store in which nobody has ever been added both may be missing. The revision is 1 then. */
static enum err load_settings(struct auth *a, struct backend_view *v, struct buf *why)
{
    struct bytes value;
    enum err e = backend_get(v, BUCKET_AUTH, enabled_key, &value);

    a->enabled = e == ERR_OK && value.len == 1 && value.at[0] == 1;
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        e = backend_get(v, BUCKET_AUTH, revision_key, &value);
    if (e == ERR_OK && value.len == sizeof(a->revision)) {
        memcpy(&a->revision, value.at, sizeof(a->revision));
        a->revision = __builtin_bswap64(a->revision);
    } else if (e == ERR_OK) {
        buf_append_str(why, "bucket auth, key authRevision: not a number");
        return ERR_CORRUPT;
    }
    if (a->revision == 0)
        a->revision = 1;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err load(struct auth *a, struct buf *why)
{
    struct backend_view v;

    backend_view_open(a->backend, &v);
    enum err e = load_settings(a, &v, why);
    if (e == ERR_OK)
        e = load_table(&v, BUCKET_AUTH_USERS, &pb_user_schema, &a->users, why);
    if (e == ERR_OK)
        e = load_table(&v, BUCKET_AUTH_ROLES, &pb_role_schema, &a->roles, why);
    if (e != ERR_OK && why->len == 0)
        buf_append_str(why, backend_view_damage(&v));
    backend_view_close(&v);
    return e;
}

enum err auth_open(struct backend *backend, struct buf *why, struct auth **out)
{
    struct auth *a = mem_new(struct auth);

    a->backend = backend;
    a->revision = 1;
    a->changes = 1;
    enum err e = load(a, why);
    if (e != ERR_OK) {
        auth_close(a);
        return e;
    }
    *out = a;
    return ERR_OK;
}

void auth_close(struct auth *a)
{
    if (!a)
        return;
    table_free(&a->users);
    table_free(&a->roles);
    mem_free(a);
}

void auth_use_leases(struct auth *a, const struct auth_leases *leases)
{
    a->leases = *leases;
}

/* ---- On and off ---- */

enum auth_result auth_enable(struct auth *a)
{
    if (a->enabled)
        return AUTH_OK;
    const struct auth_record *root = find(&a->users, auth_root);
    if (!root)
        return AUTH_ROOT_USER_NOT_EXIST;
    if (!auth_has_role(&root->user, auth_root))
        return AUTH_ROOT_ROLE_NOT_EXIST;
    save_enabled(a, true);
    return AUTH_OK;
}

void auth_disable(struct auth *a)
{
    if (!a->enabled)
        return;
    save_enabled(a, false);
    save_revision(a);
}

/* ---- Users ---- */

/* False: it is not base64. */
static bool decode_hash(struct bytes base64, struct buf *out)
{
    return base64_decode(BASE64_PADDED, base64, out);
}

enum auth_result auth_user_add(struct auth *a, const struct pb_auth_user_add_request *r)
{
    struct pb_user_add_options with_password = {0};
    struct pb_user user = {.name = r->name, .options = r->options ? r->options : &with_password};
    struct buf hash = {0};

    if (r->name.len == 0)
        return AUTH_USER_EMPTY;
    if (find(&a->users, r->name))
        return AUTH_USER_ALREADY_EXIST;
    if (!user.options->no_password && !decode_hash(r->hashed_password, &hash)) {
        buf_free(&hash);
        return AUTH_NO_PASSWORD_USER;
    }
    user.password = buf_bytes(&hash);
    save(a, &pb_user_schema, &user);
    save_revision(a);
    buf_free(&hash);
    return AUTH_OK;
}

enum auth_result auth_user_delete(struct auth *a, struct bytes name)
{
    if (a->enabled && bytes_equal(name, auth_root))
        return AUTH_INVALID_MANAGEMENT;
    if (!find(&a->users, name))
        return AUTH_USER_NOT_FOUND;
    backend_delete(a->backend, BUCKET_AUTH_USERS, name);
    table_remove(&a->users, name);
    save_revision(a);
    return AUTH_OK;
}

enum auth_result auth_user_change_password(struct auth *a,
                                           const struct pb_auth_user_change_password_request *r)
{
    const struct auth_record *u = find(&a->users, r->name);
    struct buf hash = {0};

    if (!u)
        return AUTH_USER_NOT_FOUND;
    struct pb_user user = u->user;
    bool has_password = !user.options || !user.options->no_password;
    if (has_password && !decode_hash(r->hashed_password, &hash)) {
        buf_free(&hash);
        return AUTH_NO_PASSWORD_USER;
    }
    user.password = buf_bytes(&hash);
    save(a, &pb_user_schema, &user);
    save_revision(a);
    buf_free(&hash);
    return AUTH_OK;
}

/* Where a role stands among those of a user, or belongs: they are sorted. */
static size_t role_place(const struct pb_user *u, struct bytes role)
{
    size_t place = 0;

    while (place < u->roles.count && bytes_compare(u->roles.at[place], role) < 0)
        place++;
    return place;
}

enum auth_result auth_user_grant_role(struct auth *a, struct bytes user, struct bytes role)
{
    const struct auth_record *u = find(&a->users, user);

    if (!u)
        return AUTH_USER_NOT_FOUND;
    if (!bytes_equal(role, auth_root) && !find(&a->roles, role))
        return AUTH_ROLE_NOT_FOUND;
    if (auth_has_role(&u->user, role))
        return AUTH_OK; /* and the revision stays */
    struct pb_user changed = u->user;
    size_t place = role_place(&u->user, role), count = u->user.roles.count;
    struct bytes *roles = mem_new_array(count + 1, struct bytes);
    if (count > 0) {
        memcpy(roles, u->user.roles.at, place * sizeof(*roles));
        memcpy(roles + place + 1, u->user.roles.at + place, (count - place) * sizeof(*roles));
    }
    roles[place] = role;
    changed.roles.at = roles;
    changed.roles.count = count + 1;
    save(a, &pb_user_schema, &changed);
    mem_free(roles);
    save_revision(a);
    return AUTH_OK;
}

/* False: the user has not got it. */
static bool take_role_away(struct auth *a, const struct pb_user *u, struct bytes role)
{
    struct pb_user changed = *u;
    size_t kept = 0;

    if (!auth_has_role(u, role))
        return false;
    struct bytes *roles = mem_new_array(u->roles.count, struct bytes);
    for (size_t i = 0; i < u->roles.count; i++)
        if (!bytes_equal(u->roles.at[i], role))
            roles[kept++] = u->roles.at[i];
    changed.roles.at = roles;
    changed.roles.count = kept;
    save(a, &pb_user_schema, &changed);
    mem_free(roles);
    return true;
}

enum auth_result auth_user_revoke_role(struct auth *a, struct bytes user, struct bytes role)
{
    if (a->enabled && bytes_equal(user, auth_root) && bytes_equal(role, auth_root))
        return AUTH_INVALID_MANAGEMENT;
    const struct auth_record *u = find(&a->users, user);
    if (!u)
        return AUTH_USER_NOT_FOUND;
    if (!take_role_away(a, &u->user, role))
        return AUTH_ROLE_NOT_GRANTED;
    save_revision(a);
    return AUTH_OK;
}

/* ---- Roles ---- */

enum auth_result auth_role_add(struct auth *a, struct bytes name)
{
    if (name.len == 0)
        return AUTH_ROLE_EMPTY;
    if (find(&a->roles, name))
        return AUTH_ROLE_ALREADY_EXIST;
    save(a, &pb_role_schema, &(struct pb_role){.name = name});
    save_revision(a);
    return AUTH_OK;
}

enum auth_result auth_role_delete(struct auth *a, struct bytes name)
{
    if (a->enabled && bytes_equal(name, auth_root))
        return AUTH_INVALID_MANAGEMENT;
    if (!find(&a->roles, name))
        return AUTH_ROLE_NOT_FOUND;
    backend_delete(a->backend, BUCKET_AUTH_ROLES, name);
    table_remove(&a->roles, name);
    for (size_t i = 0; i < a->users.count; i++)
        take_role_away(a, &a->users.at[i]->user, name);
    save_revision(a);
    return AUTH_OK;
}

static bool is_good_range(struct bytes key, struct bytes range_end)
{
    if (key.len == 0)
        return false;
    return range_end.len == 0 || bytes_compare(key, range_end) < 0 ||
           bytes_equal(range_end, BYTES("\0"));
}

/* The first that is not before this key. */
static size_t permission_place(const struct pb_role *role, struct bytes key)
{
    size_t low = 0, high = role->key_permission.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(role->key_permission.at[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * Only the first permission with this key is looked at, as in etcd: one that shares its key with
 * others, and not the end, may come to be there twice. A new one goes behind all of its key, where
 * etcd's sort leaves it too (for more than twelve it is not stable, and may not).
 */
static void add_permission(const struct pb_role *role, const struct pb_permission *perm,
                           struct pb_permission *out, size_t *count)
{
    size_t place = permission_place(role, perm->key);
    const struct pb_permission *had = role->key_permission.at;

    *count = role->key_permission.count;
    if (*count > 0)
        memcpy(out, had, *count * sizeof(*out));
    if (place < *count && bytes_equal(had[place].key, perm->key) &&
        bytes_equal(had[place].range_end, perm->range_end)) {
        out[place].type = perm->type;
        return;
    }
    while (place < *count && bytes_equal(had[place].key, perm->key))
        place++;
    memmove(out + place + 1, out + place, (*count - place) * sizeof(*out));
    out[place] = *perm;
    ++*count;
}

enum auth_result auth_role_grant_permission(struct auth *a,
                                            const struct pb_auth_role_grant_permission_request *r)
{
    if (!r->perm)
        return AUTH_PERMISSION_NOT_GIVEN;
    if (!is_good_range(r->perm->key, r->perm->range_end))
        return AUTH_INVALID_MANAGEMENT;
    const struct auth_record *role = find(&a->roles, r->name);
    if (!role)
        return AUTH_ROLE_NOT_FOUND;
    struct pb_role changed = {.name = role->role.name};
    struct pb_permission *all =
        mem_new_array(role->role.key_permission.count + 1, struct pb_permission);
    add_permission(&role->role, r->perm, all, &changed.key_permission.count);
    changed.key_permission.at = all;
    save(a, &pb_role_schema, &changed);
    mem_free(all);
    save_revision(a);
    return AUTH_OK;
}

enum auth_result auth_role_revoke_permission(struct auth *a,
                                             const struct pb_auth_role_revoke_permission_request *r)
{
    const struct auth_record *found = find(&a->roles, r->role);

    if (!found)
        return AUTH_ROLE_NOT_FOUND;
    const struct pb_role *role = &found->role;
    size_t had = role->key_permission.count, kept = 0;
    struct pb_role changed = {.name = role->name};
    struct pb_permission *left = mem_new_array(had, struct pb_permission);
    for (size_t i = 0; i < had; i++) {
        const struct pb_permission *p = &role->key_permission.at[i];
        if (!bytes_equal(p->key, r->key) || !bytes_equal(p->range_end, r->range_end))
            left[kept++] = *p;
    }
    changed.key_permission.at = left;
    changed.key_permission.count = kept;
    if (kept < had) {
        save(a, &pb_role_schema, &changed);
        save_revision(a);
    }
    mem_free(left);
    return kept < had ? AUTH_OK : AUTH_PERMISSION_NOT_GRANTED;
}

/* ---- Permissions, merged ---- */

static void add_merged(struct auth_record *u, bool reads, bool writes, struct auth_range range)
{
    if (reads)
        auth_ranges_add(&u->reads, range);
    if (writes)
        auth_ranges_add(&u->writes, range);
}

static void add_planted(struct auth_record *u, bool reads, bool writes, struct auth_range range)
{
    if (reads)
        auth_tree_add(&u->read_tree, range);
    if (writes)
        auth_tree_add(&u->write_tree, range);
}

/* Every permission of every role, in the order in which user and roles name them. */
static void add_permissions(const struct auth *a, struct auth_record *u,
                            void (*add)(struct auth_record *u, bool reads, bool writes,
                                        struct auth_range range))
{
    for (size_t r = 0; r < u->user.roles.count; r++) {
        const struct auth_record *role = find(&a->roles, u->user.roles.at[r]);
        for (size_t i = 0; role && i < role->role.key_permission.count; i++) {
            const struct pb_permission *p = &role->role.key_permission.at[i];
            add(u, p->type == PB_PERMISSION_READ || p->type == PB_PERMISSION_READWRITE,
                p->type == PB_PERMISSION_WRITE || p->type == PB_PERMISSION_READWRITE,
                auth_range_of(p->key, p->range_end, &u->ends));
        }
    }
}

void auth_merge(const struct auth *a, struct auth_record *u)
{
    if (u->merged_at == a->changes)
        return;
    u->is_root = auth_has_role(&u->user, auth_root);
    u->reads.count = u->writes.count = 0;
    u->has_trees = false;
    arena_reset(&u->ends);
    add_permissions(a, u, add_merged);
    auth_ranges_merge(&u->reads);
    auth_ranges_merge(&u->writes);
    u->merged_at = a->changes;
}

void auth_plant(const struct auth *a, struct auth_record *u)
{
    assert(u->merged_at == a->changes);

    if (u->has_trees)
        return;
    auth_tree_clear(&u->read_tree);
    auth_tree_clear(&u->write_tree);
    add_permissions(a, u, add_planted);
    auth_tree_finish(&u->read_tree);
    auth_tree_finish(&u->write_tree);
    u->has_trees = true;
}

/* ---- Asking ---- */

bool auth_is_enabled(const struct auth *a)
{
    return a->enabled;
}

uint64_t auth_revision(const struct auth *a)
{
    return a->revision;
}

const struct pb_user *auth_user(const struct auth *a, struct bytes name)
{
    const struct auth_record *r = find(&a->users, name);

    return r ? &r->user : NULL;
}

const struct pb_role *auth_role(const struct auth *a, struct bytes name)
{
    const struct auth_record *r = find(&a->roles, name);

    return r ? &r->role : NULL;
}

const struct pb_user *auth_nth_user(const struct auth *a, size_t nth)
{
    return nth < a->users.count ? &a->users.at[nth]->user : NULL;
}

const struct pb_role *auth_nth_role(const struct auth *a, size_t nth)
{
    return nth < a->roles.count ? &a->roles.at[nth]->role : NULL;
}

enum auth_result auth_may_log_in(const struct auth *a, struct bytes name)
{
    if (!a->enabled)
        return AUTH_NOT_ENABLED;
    const struct auth_record *u = find(&a->users, name);
    if (!u)
        return AUTH_FAILED;
    return u->user.options && u->user.options->no_password ? AUTH_NO_PASSWORD_USER : AUTH_OK;
}

static void check_table(const struct auth_table *t)
{
    for (size_t i = 1; i < t->count; i++)
        assert(bytes_compare(name_of(t->at[i - 1]), name_of(t->at[i])) < 0);
}

void auth_check(const struct auth *a)
{
    assert(a->revision > 0);
    assert(a->changes > 0);
    check_table(&a->users);
    check_table(&a->roles);
    for (size_t i = 0; i < a->users.count; i++) {
        if (a->users.at[i]->merged_at != a->changes)
            continue; /* they look into roles that are gone */
        auth_ranges_check(&a->users.at[i]->reads);
        auth_ranges_check(&a->users.at[i]->writes);
    }
}
