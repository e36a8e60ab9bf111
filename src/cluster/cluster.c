#include "cluster/cluster.h"

#include "backend/backend.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define VERSION_KEY   "clusterVersion"
#define DOWNGRADE_KEY "downgrade"

enum { ID_TEXT_MAX = 17 }; /* 16 digits and a zero */

/* All that comes from the backend, so that a reload can build it anew and then swap. */
struct tables {
    struct pb_member members[CLUSTER_MEMBERS_MAX]; /* in order of id */
    struct arena homes[CLUSTER_MEMBERS_MAX];       /* where each one's texts are */
    size_t count;

    uint64_t *removed; /* in order */
    size_t removed_count, removed_cap;

    char version[VERSION_TEXT_MAX]; /* empty: not decided */

    bool downgrade_known, downgrade_enabled;
    struct buf downgrade_target;
};

struct cluster {
    struct cluster_options options;
    struct tables *tables;
};

/* ---- Keys ---- */

/* The key of a member in both buckets. */
static struct bytes id_key(uint64_t id, char out[static ID_TEXT_MAX])
{
    int len = snprintf(out, ID_TEXT_MAX, "%" PRIx64, id);

    return bytes_of(out, (size_t)len);
}

static bool parse_id_key(struct bytes key, uint64_t *out)
{
    uint64_t id = 0;

    if (key.len == 0 || key.len >= ID_TEXT_MAX)
        return false;
    for (size_t i = 0; i < key.len; i++) {
        uint8_t c = key.at[i];
        bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
        if (!is_digit && !is_letter)
            return false;
        id = id << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    *out = id;
    return true;
}

/* ---- The tables in memory ---- */

static struct tables *tables_new(void)
{
    return mem_new(struct tables);
}

static void tables_free(struct tables *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        arena_free(&t->homes[i]);
    mem_free(t->removed);
    buf_free(&t->downgrade_target);
    mem_free(t);
}

/* Where the id is, or where it would have to go. */
static size_t member_place(const struct tables *t, uint64_t id)
{
    size_t place = 0;

    while (place < t->count && t->members[place].id < id)
        place++;
    return place;
}

static struct pb_member *find_member(struct tables *t, uint64_t id)
{
    size_t place = member_place(t, id);

    return place < t->count && t->members[place].id == id ? &t->members[place] : NULL;
}

/* The member's texts are in `home`, which moves in with it. */
static void insert_member(struct tables *t, const struct pb_member *m, struct arena home)
{
    size_t place = member_place(t, m->id), behind = t->count - place;

    assert(t->count < CLUSTER_MEMBERS_MAX);
    assert(place == t->count || t->members[place].id != m->id);

    memmove(&t->members[place + 1], &t->members[place], behind * sizeof(t->members[0]));
    memmove(&t->homes[place + 1], &t->homes[place], behind * sizeof(t->homes[0]));
    t->members[place] = *m;
    t->homes[place] = home;
    t->count++;
}

static void remove_member(struct tables *t, uint64_t id)
{
    size_t place = member_place(t, id), behind = t->count - place - 1;

    assert(place < t->count);
    assert(t->members[place].id == id);

    arena_free(&t->homes[place]);
    memmove(&t->members[place], &t->members[place + 1], behind * sizeof(t->members[0]));
    memmove(&t->homes[place], &t->homes[place + 1], behind * sizeof(t->homes[0]));
    t->count--;
}

static size_t removed_place(const struct tables *t, uint64_t id)
{
    size_t low = 0, high = t->removed_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->removed[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_removed(const struct tables *t, uint64_t id)
{
    size_t place = removed_place(t, id);

    return place < t->removed_count && t->removed[place] == id;
}

static void note_removed(struct tables *t, uint64_t id)
{
    if (is_removed(t, id))
        return;
    if (t->removed_count == t->removed_cap) {
        t->removed_cap = t->removed_cap ? 2 * t->removed_cap : 8;
        t->removed = mem_resize(t->removed, t->removed_cap, sizeof(*t->removed));
    }
    size_t place = removed_place(t, id);
    memmove(&t->removed[place + 1], &t->removed[place],
            (t->removed_count - place) * sizeof(*t->removed));
    t->removed[place] = id;
    t->removed_count++;
}

/* ---- A copy of a member, with its texts ---- */

static const struct bytes *copy_texts(struct arena *arena, const struct bytes *texts, size_t count)
{
    if (!texts)
        return NULL;
    struct bytes *copies = arena_new_array(arena, count, struct bytes);
    for (size_t i = 0; i < count; i++)
        copies[i] = arena_copy(arena, texts[i]);
    return copies;
}

static struct pb_member copy_member(struct arena *arena, const struct pb_member *m)
{
    struct pb_member copy = *m;

    copy.name = arena_copy(arena, m->name);
    copy.peer_urls.at = copy_texts(arena, m->peer_urls.at, m->peer_urls.count);
    copy.client_urls.at = copy_texts(arena, m->client_urls.at, m->client_urls.count);
    return copy;
}

/* ---- The tables in the backend ---- */

static void save_member(struct cluster *c, const struct pb_member *m)
{
    char key[ID_TEXT_MAX];
    struct buf json = {0};

    member_json_write(m, &json);
    backend_put(c->options.backend, BUCKET_MEMBERS, id_key(m->id, key), buf_bytes(&json));
    buf_free(&json);
}

static void save_removal(struct cluster *c, uint64_t id)
{
    char text[ID_TEXT_MAX];
    struct bytes key = id_key(id, text);

    backend_delete(c->options.backend, BUCKET_MEMBERS, key);
    backend_put(c->options.backend, BUCKET_MEMBERS_REMOVED, key, BYTES("removed"));
}

static enum err bad_item(struct buf *why, enum bucket bucket, struct bytes key, const char *problem)
{
    buf_printf(why, "bucket %s, key %.*s: %s", bucket_name(bucket), (int)key.len,
               (const char *)key.at, problem);
    return ERR_CORRUPT;
}

static enum err load_member(struct tables *t, struct bytes key, struct bytes value, struct buf *why)
{
    struct arena home = {0};
    struct member_change read;
    uint64_t id = 0;
    enum err e = ERR_OK;

    if (!parse_id_key(key, &id))
        e = bad_item(why, BUCKET_MEMBERS, key, "not a member's id");
    else if (member_json_read(value, &home, &read) != ERR_OK)
        e = bad_item(why, BUCKET_MEMBERS, key, "not a member");
    else if (read.member.id != id)
        e = bad_item(why, BUCKET_MEMBERS, key, "another member's entry");
    else if (find_member(t, id))
        e = bad_item(why, BUCKET_MEMBERS, key, "a member's second entry");
    else if (t->count == CLUSTER_MEMBERS_MAX) {
        buf_printf(why, "more than %d members", CLUSTER_MEMBERS_MAX);
        e = ERR_UNSUPPORTED;
    }
    if (e != ERR_OK) {
        arena_free(&home);
        return e;
    }
    insert_member(t, &read.member, home);
    return ERR_OK;
}

static enum err load_removed(struct tables *t, struct bytes key, struct bytes value,
                             struct buf *why)
{
    uint64_t id;

    (void)value; /* "removed", and nobody has ever looked */
    if (!parse_id_key(key, &id))
        return bad_item(why, BUCKET_MEMBERS_REMOVED, key, "not a member's id");
    note_removed(t, id);
    return ERR_OK;
}

typedef enum err load_item(struct tables *t, struct bytes key, struct bytes value, struct buf *why);

static enum err load_bucket(struct tables *t, struct backend_view *v, enum bucket bucket,
                            load_item *load, struct buf *why)
{
    struct backend_cursor cursor;
    struct bytes key, value;
    enum err e;

    backend_cursor_open(v, bucket, (struct bytes){0}, &cursor);
    while ((e = backend_cursor_next(&cursor, &key, &value)) == ERR_OK) {
        e = load(t, key, value, why);
        if (e != ERR_OK)
            break;
    }
    backend_cursor_close(&cursor);
    return e == ERR_END ? ERR_OK : e;
}

/* Not a version at all, or one that this server does not speak. */
static enum err version_problem(struct bytes text, struct buf *why, struct version *out)
{
    struct version own = version_of_server();
    struct version highest = {.major = own.major, .minor = own.minor};
    char highest_text[VERSION_TEXT_MAX];

    if (!version_parse(text, out)) {
        buf_printf(why, "cluster version %.*s is not a version", (int)text.len,
                   (const char *)text.at);
        return ERR_CORRUPT;
    }
    if (version_compare(*out, highest) > 0) {
        buf_printf(why,
                   "invalid downgrade; server version is lower than determined cluster version "
                   "(server %s, cluster %.*s)",
                   version_text(highest, highest_text), (int)text.len, (const char *)text.at);
        return ERR_UNSUPPORTED;
    }
    return ERR_OK;
}

static enum err load_version(struct tables *t, struct backend_view *v, struct buf *why)
{
    struct bytes text;
    struct version version;

    enum err e = backend_get(v, BUCKET_CLUSTER, BYTES(VERSION_KEY), &text);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    e = version_problem(text, why, &version);
    if (e == ERR_OK)
        version_text(version, t->version);
    return e;
}

static void set_downgrade(struct tables *t, bool enabled, struct bytes target)
{
    t->downgrade_known = true;
    t->downgrade_enabled = enabled;
    buf_clear(&t->downgrade_target);
    if (enabled)
        buf_append(&t->downgrade_target, target);
}

static enum err load_downgrade(struct tables *t, struct backend_view *v, struct buf *why)
{
    struct arena arena = {0};
    struct bytes json, target;
    struct version version;
    bool enabled;

    enum err e = backend_get(v, BUCKET_CLUSTER, BYTES(DOWNGRADE_KEY), &json);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (downgrade_json_read(json, &arena, &enabled, &target) != ERR_OK)
        e = bad_item(why, BUCKET_CLUSTER, BYTES(DOWNGRADE_KEY), "not a downgrade");
    else if (enabled && !version_parse(target, &version))
        e = bad_item(why, BUCKET_CLUSTER, BYTES(DOWNGRADE_KEY), "its target is not a version");
    else
        set_downgrade(t, enabled, target);
    arena_free(&arena);
    return e;
}

static enum err load_all(struct tables *t, struct backend_view *v, struct buf *why)
{
    enum err e = load_bucket(t, v, BUCKET_MEMBERS, load_member, why);

    if (e == ERR_OK)
        e = load_bucket(t, v, BUCKET_MEMBERS_REMOVED, load_removed, why);
    if (e == ERR_OK)
        e = load_version(t, v, why);
    if (e == ERR_OK)
        e = load_downgrade(t, v, why);
    return e;
}

enum err cluster_reload(struct cluster *c, struct buf *why)
{
    struct tables *fresh = tables_new(); /* the old ones stay if these make no sense */
    struct backend_view view;
    size_t said = why->len;

    backend_view_open(c->options.backend, &view);
    enum err e = load_all(fresh, &view, why);
    if (e != ERR_OK && why->len == said)
        buf_append_str(why, backend_view_damage(&view));
    backend_view_close(&view);

    if (e != ERR_OK) {
        tables_free(fresh);
        return e;
    }
    tables_free(c->tables);
    c->tables = fresh;
    cluster_check(c);
    return ERR_OK;
}

/* ---- Opening ---- */

enum err cluster_open(const struct cluster_options *options, struct buf *why, struct cluster **out)
{
    assert(options->backend);
    struct cluster *c = mem_new(struct cluster);

    c->options = *options;
    enum err e = cluster_reload(c, why);
    if (e != ERR_OK) {
        cluster_close(c);
        return e;
    }
    *out = c;
    return ERR_OK;
}

void cluster_close(struct cluster *c)
{
    if (!c)
        return;
    tables_free(c->tables);
    mem_free(c);
}

/* ---- Changes ---- */

const char *cluster_result_text(enum cluster_result result)
{
    static const char *const texts[] = {
#define CLUSTER_RESULT_TEXT(name, text) [name] = (text),
        CLUSTER_RESULT_LIST(CLUSTER_RESULT_TEXT)
#undef CLUSTER_RESULT_TEXT
    };

    return texts[result];
}

static int compare_texts(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* All peer URLs but those of one member, sorted: the log may bring lists of many thousands, and
 * comparing each with each would stop the member. */
static struct url_list taken_urls(const struct tables *t, uint64_t except, struct arena *arena)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++)
        count += t->members[i].peer_urls.count;
    struct bytes *urls = arena_new_array(arena, count, struct bytes);

    count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct pb_member *m = &t->members[i];
        for (size_t u = 0; m->id != except && u < m->peer_urls.count; u++)
            urls[count++] = m->peer_urls.at[u];
    }
    return url_list_sorted((struct url_list){urls, count}, arena);
}

static bool has_taken_url(const struct tables *t, const struct pb_member *m, uint64_t except)
{
    struct arena arena = {0};
    struct url_list taken = taken_urls(t, except, &arena);
    bool is_taken = false;

    for (size_t i = 0; i < m->peer_urls.count && !is_taken && taken.count > 0; i++) {
        is_taken = bsearch(&m->peer_urls.at[i], taken.at, taken.count, sizeof(struct bytes),
                           compare_texts) != NULL;
    }
    arena_free(&arena);
    return is_taken;
}

static size_t count_learners(const struct tables *t)
{
    size_t learners = 0;

    for (size_t i = 0; i < t->count; i++)
        learners += t->members[i].is_learner;
    return learners;
}

/*
 * The order of the questions is etcd's: a change that two reasons speak against must be refused for
 * the same one everywhere, and what is refused must not be looked at too closely, because etcd
 * compares the two ids only in a change that it accepts.
 */
static enum cluster_result check_add(const struct cluster *c, const struct raft_conf_change *cc,
                                     const struct pb_member *m)
{
    const struct tables *t = c->tables;

    if (cluster_find(c, cc->node_id))
        return CLUSTER_ID_EXISTS;
    if (has_taken_url(t, m, RAFT_NONE))
        return CLUSTER_PEER_URL_EXISTS;
    if (cc->type == RAFT_ADD_LEARNER_NODE && m->is_learner &&
        count_learners(t) >= c->options.max_learners)
        return CLUSTER_TOO_MANY_LEARNERS;
    if (cc->node_id != m->id || m->id == RAFT_NONE)
        return CLUSTER_BAD_CONTEXT;
    return t->count < CLUSTER_MEMBERS_MAX ? CLUSTER_OK : CLUSTER_TOO_MANY_MEMBERS;
}

static enum cluster_result check_promote(const struct cluster *c, const struct raft_conf_change *cc,
                                         const struct pb_member *m)
{
    const struct pb_member *known = cluster_find(c, cc->node_id);

    if (!known)
        return CLUSTER_ID_NOT_FOUND;
    if (!known->is_learner)
        return CLUSTER_NOT_LEARNER;
    return cc->node_id == m->id ? CLUSTER_OK : CLUSTER_BAD_CONTEXT;
}

static enum cluster_result check_update(const struct cluster *c, const struct raft_conf_change *cc,
                                        const struct pb_member *m)
{
    if (has_taken_url(c->tables, m, cc->node_id))
        return CLUSTER_PEER_URL_EXISTS;
    return cc->node_id == m->id ? CLUSTER_OK : CLUSTER_BAD_CONTEXT;
}

/* What the change says goes to *read, its texts into `home`. */
static enum cluster_result check_change(const struct cluster *c, const struct raft_conf_change *cc,
                                        struct arena *home, struct member_change *read)
{
    *read = (struct member_change){0};
    if (is_removed(c->tables, cc->node_id))
        return CLUSTER_ID_REMOVED;
    if (cc->type == RAFT_REMOVE_NODE)
        return cluster_find(c, cc->node_id) ? CLUSTER_OK : CLUSTER_ID_NOT_FOUND;
    if (cc->type == RAFT_UPDATE_NODE && !cluster_find(c, cc->node_id))
        return CLUSTER_ID_NOT_FOUND;
    if (member_json_read(cc->context, home, read) != ERR_OK)
        return CLUSTER_BAD_CONTEXT;

    switch (cc->type) {
    case RAFT_ADD_NODE:
    case RAFT_ADD_LEARNER_NODE:
        return read->is_promote ? check_promote(c, cc, &read->member)
                                : check_add(c, cc, &read->member);
    case RAFT_UPDATE_NODE:
        return check_update(c, cc, &read->member);
    case RAFT_REMOVE_NODE:
        break;
    }
    return CLUSTER_BAD_CONTEXT; /* a kind of change nobody has heard of */
}

enum cluster_result cluster_check_conf_change(const struct cluster *c,
                                              const struct raft_conf_change *cc)
{
    struct arena arena = {0};
    struct member_change read;
    enum cluster_result result = check_change(c, cc, &arena, &read);

    arena_free(&arena);
    return result;
}

/* Puts a member in the place of the one with its id, texts and all, and saves it. */
static void replace_member(struct cluster *c, const struct pb_member *m)
{
    size_t place = member_place(c->tables, m->id);
    struct arena home = {0};
    struct pb_member copy =
        copy_member(&home, m); /* first: most of m's texts are the old entry's */

    assert(c->tables->members[place].id == m->id);
    arena_free(&c->tables->homes[place]);
    c->tables->homes[place] = home;
    c->tables->members[place] = copy;
    save_member(c, &copy);
}

static void add_member(struct cluster *c, const struct pb_member *m)
{
    struct arena home = {0};
    struct pb_member copy = copy_member(&home, m);

    insert_member(c->tables, &copy, home);
    save_member(c, &copy);
}

static void change_member(struct cluster *c, const struct raft_conf_change *cc,
                          const struct member_change *read)
{
    if (cc->type != RAFT_UPDATE_NODE && !read->is_promote) {
        add_member(c, &read->member);
        return;
    }
    struct pb_member changed = *cluster_find(c, cc->node_id);
    if (cc->type == RAFT_UPDATE_NODE) {
        changed.peer_urls.at = read->member.peer_urls.at;
        changed.peer_urls.count = read->member.peer_urls.count;
    } else
        changed.is_learner = false;
    replace_member(c, &changed);
}

enum cluster_result cluster_apply_conf_change(struct cluster *c, const struct raft_conf_change *cc,
                                              bool *removed_self)
{
    struct arena arena = {0};
    struct member_change read;
    enum cluster_result result = check_change(c, cc, &arena, &read);
    bool removes = result == CLUSTER_OK && cc->type == RAFT_REMOVE_NODE;

    /* The id is noted for good: a member that was away meanwhile still speaks under it, and must be
     * told apart from one that was never there. */
    if (removes) {
        remove_member(c->tables, cc->node_id);
        note_removed(c->tables, cc->node_id);
        save_removal(c, cc->node_id);
    } else if (result == CLUSTER_OK)
        change_member(c, cc, &read);
    if (removed_self)
        *removed_self = removes && cc->node_id == c->options.own_id;
    arena_free(&arena);
    return result;
}

enum cluster_result cluster_set_attributes(struct cluster *c, uint64_t id, struct bytes name,
                                           struct url_list client_urls)
{
    const struct pb_member *known = cluster_find(c, id);

    if (!known)
        return is_removed(c->tables, id) ? CLUSTER_ID_REMOVED : CLUSTER_ID_NOT_FOUND;
    struct pb_member changed = *known;
    changed.name = name;
    changed.client_urls.at = client_urls.at;
    changed.client_urls.count = client_urls.count;
    replace_member(c, &changed);
    return CLUSTER_OK;
}

bool cluster_set_version(struct cluster *c, struct bytes text, struct buf *why)
{
    struct version version;

    if (version_problem(text, why, &version) != ERR_OK)
        return false;
    version_text(version, c->tables->version);
    backend_put(c->options.backend, BUCKET_CLUSTER, BYTES(VERSION_KEY), cluster_version(c));
    return true;
}

bool cluster_set_downgrade(struct cluster *c, bool enabled, struct bytes target_version,
                           struct buf *why)
{
    struct version version;
    struct buf json = {0};

    if (enabled && !version_parse(target_version, &version)) {
        buf_printf(why, "downgrade target %.*s is not a version", (int)target_version.len,
                   (const char *)target_version.at);
        return false;
    }
    set_downgrade(c->tables, enabled, target_version);
    downgrade_json_write(enabled, buf_bytes(&c->tables->downgrade_target), &json);
    backend_put(c->options.backend, BUCKET_CLUSTER, BYTES(DOWNGRADE_KEY), buf_bytes(&json));
    buf_free(&json);
    return true;
}

/* ---- Questions ---- */

uint64_t cluster_id(const struct cluster *c)
{
    return c->options.cluster_id;
}

uint64_t cluster_own_id(const struct cluster *c)
{
    return c->options.own_id;
}

const struct pb_member *cluster_members(const struct cluster *c, size_t *count)
{
    *count = c->tables->count;
    return c->tables->members;
}

const uint64_t *cluster_removed(const struct cluster *c, size_t *count)
{
    *count = c->tables->removed_count;
    return c->tables->removed;
}

const struct pb_member *cluster_find(const struct cluster *c, uint64_t id)
{
    return find_member(c->tables, id);
}

const struct pb_member *cluster_own(const struct cluster *c)
{
    return cluster_find(c, c->options.own_id);
}

bool cluster_is_removed(const struct cluster *c, uint64_t id)
{
    return is_removed(c->tables, id);
}

bool cluster_is_own_learner(const struct cluster *c)
{
    const struct pb_member *own = cluster_own(c);

    return own && own->is_learner;
}

struct bytes cluster_version(const struct cluster *c)
{
    return bytes_of_str(c->tables->version);
}

struct cluster_downgrade cluster_downgrade(const struct cluster *c)
{
    return (struct cluster_downgrade){.is_known = c->tables->downgrade_known,
                                      .enabled = c->tables->downgrade_enabled,
                                      .target_version = buf_bytes(&c->tables->downgrade_target)};
}

/* The one version that can be gone down to: the minor below. */
static bool is_one_below(struct version above, struct version v)
{
    return above.minor > 0 && v.major == above.major && v.minor == above.minor - 1 && v.patch == 0;
}

bool cluster_may_downgrade_to(const struct cluster *c, struct version target)
{
    struct version now;

    return version_parse(cluster_version(c), &now) && is_one_below(now, target);
}

/* Down to the target, once the whole cluster could go there. */
static bool next_while_downgrading(const struct cluster *c, struct version now,
                                   struct version lowest, struct version *out)
{
    bool is_version = version_parse(buf_bytes(&c->tables->downgrade_target), out);

    assert(is_version);
    return is_one_below(now, *out) && is_one_below(lowest, *out);
}

bool cluster_next_version(const struct cluster *c, const struct version *lowest,
                          char out[static VERSION_TEXT_MAX])
{
    struct version now, next = {.major = 3};

    if (lowest)
        next = (struct version){.major = lowest->major, .minor = lowest->minor};
    if (c->tables->version[0] == 0) {
        version_text(next, out);
        return true;
    }
    if (!lowest)
        return false;

    bool is_version = version_parse(cluster_version(c), &now);
    assert(is_version);
    if (c->tables->downgrade_enabled) {
        if (!next_while_downgrading(c, now, *lowest, &next))
            return false;
    } else if (next.major != now.major || next.minor <= now.minor)
        return false;
    version_text(next, out);
    return true;
}

bool cluster_is_downgraded(const struct cluster *c, const struct version_range *servers)
{
    struct version target, low = servers->lowest, high = servers->highest;

    if (!c->tables->downgrade_enabled)
        return false;
    bool is_version = version_parse(buf_bytes(&c->tables->downgrade_target), &target);
    assert(is_version);
    target.patch = low.patch = high.patch = 0;
    return version_compare(low, target) == 0 && version_compare(high, target) == 0;
}

struct voters {
    size_t all, started;
};

static struct voters count_voters(const struct cluster *c, uint64_t except)
{
    struct voters voters = {0};

    for (size_t i = 0; i < c->tables->count; i++) {
        const struct pb_member *m = &c->tables->members[i];
        if (m->is_learner || m->id == except)
            continue;
        voters.all++;
        voters.started += m->name.len > 0;
    }
    return voters;
}

static bool is_majority(size_t started, size_t all)
{
    return started >= all / 2 + 1;
}

bool cluster_may_add_voter(const struct cluster *c)
{
    struct voters voters = count_voters(c, RAFT_NONE);

    /* A cluster of one must be able to grow, though for a moment one of two have started. */
    return (voters.all == 1 && voters.started == 1) || is_majority(voters.started, voters.all + 1);
}

bool cluster_may_remove_voter(const struct cluster *c, uint64_t id)
{
    struct voters rest = count_voters(c, id);

    return is_majority(rest.started, rest.all);
}

bool cluster_may_promote(const struct cluster *c)
{
    struct voters voters = count_voters(c, RAFT_NONE);

    return is_majority(voters.started + 1, voters.all + 1);
}

void cluster_conf_state(const struct cluster *c, struct raft_conf_state *out)
{
    *out = (struct raft_conf_state){0};
    for (size_t i = 0; i < c->tables->count; i++) {
        const struct pb_member *m = &c->tables->members[i];
        struct raft_ids *ids = m->is_learner ? &out->learners : &out->voters;
        ids->at[ids->count++] = m->id;
    }
}

void cluster_check(const struct cluster *c)
{
    const struct tables *t = c->tables;
    struct version version;

    assert(t->count <= CLUSTER_MEMBERS_MAX);
    for (size_t i = 0; i < t->count; i++) {
        assert(i == 0 || t->members[i - 1].id < t->members[i].id);
        assert(t->members[i].peer_urls.at || t->members[i].peer_urls.count == 0);
        assert(t->members[i].client_urls.at || t->members[i].client_urls.count == 0);
    }
    for (size_t i = 1; i < t->removed_count; i++)
        assert(t->removed[i - 1] < t->removed[i]);
    assert(t->version[0] == 0 || version_parse(cluster_version(c), &version));
    assert(t->downgrade_enabled || t->downgrade_target.len == 0);
    assert(!t->downgrade_enabled || t->downgrade_known);
}
