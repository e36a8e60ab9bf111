/* A cluster that is yet to be: what --initial-cluster says, and the log it begins with. */
#include "base/mem.h"
#include "base/text.h"
#include "cluster/cluster.h"

#include <stdlib.h>

/* ---- Parsing: "name=url,name=url" ---- */

/* One member on its way: URLs as they were typed. */
struct draft {
    struct bytes name;
    struct bytes *urls;
    size_t count;
};

static struct bytes split_at(struct bytes *text, char separator)
{
    const uint8_t *at = text->len ? memchr(text->at, separator, text->len) : NULL;
    size_t len = at ? (size_t)(at - text->at) : text->len;
    struct bytes before = bytes_of(text->at, len);

    *text = at ? bytes_of(at + 1, text->len - len - 1) : (struct bytes){0};
    return before;
}

static struct draft *find_draft(struct draft *drafts, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_equal(drafts[i].name, name))
            return &drafts[i];
    }
    return NULL;
}

/* Gathers the URLs of each name, in the order the names came. Returns how many names; one above
 * CLUSTER_MEMBERS_MAX is where it stops. */
static size_t gather(struct url_list pieces, struct arena *arena, struct draft *drafts)
{
    size_t count = 0;

    for (size_t i = 0; i < pieces.count && count <= CLUSTER_MEMBERS_MAX; i++) {
        struct bytes url = pieces.at[i], name = split_at(&url, '=');
        if (pieces.at[i].len == 0)
            continue;
        struct draft *draft = find_draft(drafts, count, name);
        if (!draft) {
            draft = &drafts[count++];
            *draft = (struct draft){.name = name};
            draft->urls = arena_new_array(arena, pieces.count, struct bytes);
        }
        draft->urls[draft->count++] = url;
    }
    return count;
}

static bool finish(const struct draft *draft, struct bytes token, struct arena *arena,
                   struct buf *why, struct pb_member *out)
{
    struct url_list urls;

    if (!url_list_check((struct url_list){draft->urls, draft->count}, arena, why, &urls))
        return false;
    *out = (struct pb_member){.id = cluster_member_id(urls, token),
                              .name = arena_copy(arena, draft->name)};
    out->peer_urls.at = urls.at;
    out->peer_urls.count = urls.count;
    return true;
}

static int compare_members(const void *a, const void *b)
{
    uint64_t left = ((const struct pb_member *)a)->id, right = ((const struct pb_member *)b)->id;

    return (left > right) - (left < right);
}

/* Equal URLs and so equal ids, or the one id that means nobody. */
static bool check_ids(const struct cluster_initial *initial, struct buf *why)
{
    for (size_t i = 0; i < initial->count; i++) {
        const struct pb_member *m = &initial->members[i];
        if (m->id == RAFT_NONE) {
            buf_append_str(why, "cannot use 0 as member id");
            return false;
        }
        if (i > 0 && m[-1].id == m->id) {
            buf_append_str(why, "member exists with identical ID ");
            member_json_write(m, why);
            return false;
        }
    }
    return true;
}

static void set_cluster_id(struct cluster_initial *initial)
{
    uint64_t ids[CLUSTER_MEMBERS_MAX];

    for (size_t i = 0; i < initial->count; i++)
        ids[i] = initial->members[i].id;
    initial->cluster_id = cluster_id_of(ids, initial->count);
}

bool cluster_initial_parse(struct bytes text, struct bytes token, struct buf *why,
                           struct cluster_initial *out)
{
    struct draft drafts[CLUSTER_MEMBERS_MAX + 1];
    struct buf reason = {0};
    bool is_good = true;

    *out = (struct cluster_initial){0};
    size_t count = gather(url_list_split(text, &out->arena), &out->arena, drafts);
    if (count > CLUSTER_MEMBERS_MAX) {
        buf_printf(&reason, "more than %d members", CLUSTER_MEMBERS_MAX);
        is_good = false;
        count = 0;
    }
    out->members = arena_new_array(&out->arena, count, struct pb_member);
    for (size_t i = 0; i < count && is_good; i++)
        is_good = finish(&drafts[i], token, &out->arena, &reason, &out->members[out->count++]);
    if (!is_good) {
        buf_append_str(why, "error setting up initial cluster: ");
        buf_append(why, buf_bytes(&reason));
    }
    buf_free(&reason);
    if (!is_good)
        return false;

    /* By id, and not as they were typed: each founder makes the first entries of the log by itself,
     * and they must be the same. */
    if (count > 1)
        qsort(out->members, count, sizeof(*out->members), compare_members);
    set_cluster_id(out);
    return true;
}

void cluster_initial_free(struct cluster_initial *initial)
{
    arena_free(&initial->arena);
    *initial = (struct cluster_initial){0};
}

/* ---- Checking ---- */

static struct url_list urls_of(const struct pb_member *m)
{
    return (struct url_list){m->peer_urls.at, m->peer_urls.count};
}

const struct pb_member *cluster_initial_find(const struct cluster_initial *initial,
                                             struct bytes name)
{
    for (size_t i = 0; i < initial->count; i++) {
        if (bytes_equal(initial->members[i].name, name))
            return &initial->members[i];
    }
    return NULL;
}

/* "name=url" for each URL. */
static struct url_list pairs_of(struct bytes name, struct url_list urls, struct arena *arena)
{
    struct bytes *pairs = arena_new_array(arena, urls.count, struct bytes);

    for (size_t i = 0; i < urls.count; i++) {
        pairs[i] =
            bytes_of_str(arena_printf(arena, "%.*s=%.*s", (int)name.len, (const char *)name.at,
                                      (int)urls.at[i].len, (const char *)urls.at[i].at));
    }
    return (struct url_list){pairs, urls.count};
}

/* The whole of it, in order of the pairs, as etcd prints it. */
static struct url_list all_pairs(const struct cluster_initial *initial, struct arena *arena)
{
    size_t count = 0;
    for (size_t i = 0; i < initial->count; i++)
        count += initial->members[i].peer_urls.count;
    struct bytes *pairs = arena_new_array(arena, count, struct bytes);

    count = 0;
    for (size_t i = 0; i < initial->count; i++) {
        const struct pb_member *m = &initial->members[i];
        struct url_list own = pairs_of(m->name, urls_of(m), arena);
        for (size_t u = 0; u < own.count; u++)
            pairs[count++] = own.at[u];
    }
    return url_list_sorted((struct url_list){pairs, count}, arena);
}

static bool has_duplicate(const struct cluster_initial *initial, struct arena *arena)
{
    size_t count = 0;
    for (size_t i = 0; i < initial->count; i++)
        count += initial->members[i].peer_urls.count;
    struct bytes *urls = arena_new_array(arena, count, struct bytes);

    count = 0;
    for (size_t i = 0; i < initial->count; i++) {
        for (size_t u = 0; u < initial->members[i].peer_urls.count; u++)
            urls[count++] = initial->members[i].peer_urls.at[u];
    }
    struct url_list sorted = url_list_sorted((struct url_list){urls, count}, arena);
    return url_list_unique(sorted, arena).count < count;
}

/* What is in `urls` and not in `others`. */
static struct url_list missing_from(struct url_list urls, struct url_list others,
                                    struct arena *arena)
{
    struct bytes *missing = arena_new_array(arena, urls.count, struct bytes);
    size_t count = 0;

    for (size_t i = 0; i < urls.count; i++) {
        if (!url_list_has(others, urls.at[i]))
            missing[count++] = urls.at[i];
    }
    return (struct url_list){missing, count};
}

static void append_quoted_list(struct buf *out, struct url_list list)
{
    buf_append_byte(out, '[');
    for (size_t i = 0; i < list.count; i++) {
        if (i > 0)
            buf_append_byte(out, ' ');
        text_append_quoted(out, list.at[i]);
    }
    buf_append_byte(out, ']');
}

/* How the two differ, both sorted. */
static void append_difference(struct buf *out, struct url_list a, struct url_list b,
                              const struct cluster_resolved *resolved)
{
    if (resolved && resolved->failure.len > 0) {
        buf_append(out, resolved->failure);
        return;
    }
    if (resolved) {
        a = resolved->advertised;
        b = resolved->configured;
    }
    if (a.count != b.count) {
        buf_append_str(out, "len(");
        append_quoted_list(out, a);
        buf_append_str(out, ") != len(");
        append_quoted_list(out, b);
        buf_append_byte(out, ')');
        return;
    }
    size_t i = 0;
    while (i + 1 < a.count && bytes_equal(a.at[i], b.at[i]))
        i++;
    buf_append_str(out, "resolved urls: ");
    text_append_quoted(out, a.at[i]);
    buf_append_str(out, " != ");
    text_append_quoted(out, b.at[i]);
}

static bool is_same_place(const struct cluster_resolved *resolved)
{
    return resolved && resolved->failure.len == 0 &&
           url_list_equal(resolved->advertised, resolved->configured);
}

static bool check_advertised(const struct pb_member *own, struct url_list advertised,
                             const struct cluster_resolved *resolved, struct arena *arena,
                             struct buf *why)
{
    struct url_list configured = urls_of(own), told = url_list_sorted(advertised, arena);
    if (url_list_equal(told, configured) || is_same_place(resolved))
        return true;

    struct url_list missing = missing_from(configured, told, arena);
    if (missing.count > 0) {
        buf_append_str(why, "--initial-cluster has ");
        url_list_join(pairs_of(own->name, missing, arena), why);
        buf_append_str(why, " but missing from --initial-advertise-peer-urls=");
        url_list_join(told, why);
        buf_append_str(why, " (");
        append_difference(why, told, configured, resolved);
        buf_append_byte(why, ')');
        return false;
    }
    missing = missing_from(told, configured, arena);
    if (missing.count == 0)
        return true; /* one of them is there twice, which the next check is for */
    buf_append_str(why, "--initial-advertise-peer-urls has ");
    url_list_join(missing, why);
    buf_append_str(why, " but missing from --initial-cluster=");
    url_list_join(pairs_of(own->name, told, arena), why);
    return false;
}

static bool verify(const struct cluster_initial *initial, struct bytes name,
                   struct url_list advertised, const struct cluster_resolved *resolved,
                   bool joins_existing, struct arena *arena, struct buf *why)
{
    const struct pb_member *own = cluster_initial_find(initial, name);

    if (!own) {
        buf_append_str(why, "couldn't find local name ");
        text_append_quoted(why, name);
        buf_append_str(why, " in the initial cluster configuration");
        return false;
    }
    if (!joins_existing && !check_advertised(own, advertised, resolved, arena, why))
        return false;
    if (has_duplicate(initial, arena)) {
        buf_append_str(why, "initial cluster ");
        url_list_join(all_pairs(initial, arena), why);
        buf_append_str(why, " has duplicate url");
        return false;
    }
    return check_ids(initial, why);
}

bool cluster_initial_needs_names(const struct cluster_initial *initial, struct bytes name,
                                 struct url_list advertised)
{
    const struct pb_member *own = cluster_initial_find(initial, name);
    struct arena arena = {0};

    bool differs = own && own->peer_urls.count == advertised.count &&
                   !url_list_equal(url_list_sorted(advertised, &arena), urls_of(own));
    arena_free(&arena);
    return differs;
}

bool cluster_initial_verify(const struct cluster_initial *initial, struct bytes name,
                            struct url_list advertised, const struct cluster_resolved *resolved,
                            bool joins_existing, struct buf *why)
{
    struct arena arena = {0};
    bool is_good = verify(initial, name, advertised, resolved, joins_existing, &arena, why);

    arena_free(&arena);
    return is_good;
}

/* ---- Joining ---- */

static bool is_same_member(const struct cluster_initial *initial, size_t configured,
                           const struct cluster_existing *existing, size_t nth,
                           const struct cluster_places *resolved, struct arena *arena)
{
    struct url_list told = url_list_sorted(urls_of(&existing->members[nth]), arena);

    return url_list_equal(told, urls_of(&initial->members[configured])) ||
           (resolved && resolved->failure.len == 0 &&
            url_list_equal(resolved->existing[nth], resolved->configured[configured]));
}

/* Numbers of the configured members, by the order of those that exist. How many were found, up to
 * the first that was not. */
static size_t match_all(const struct cluster_initial *initial,
                        const struct cluster_existing *existing,
                        const struct cluster_places *resolved, size_t *matches)
{
    struct arena arena = {0};
    size_t found = 0;

    for (; found < existing->count; found++) {
        size_t at = 0;
        while (at < initial->count &&
               !is_same_member(initial, at, existing, found, resolved, &arena))
            at++;
        if (at == initial->count)
            break;
        matches[found] = at;
    }
    arena_free(&arena);
    return found;
}

static void append_plain_list(struct buf *out, const struct bytes *texts, size_t count)
{
    buf_append_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_append_byte(out, ' ');
        buf_append(out, texts[i]);
    }
    buf_append_byte(out, ']');
}

/* As Go prints the struct that etcd has. */
static void append_existing(struct buf *out, const struct cluster_existing *existing)
{
    buf_printf(out, "{ClusterID:%llx Members:[", (unsigned long long)existing->cluster_id);
    for (size_t i = 0; i < existing->count; i++) {
        const struct pb_member *m = &existing->members[i];
        buf_printf(out, "%s&{ID:%llx RaftAttributes:{PeerURLs:", i > 0 ? " " : "",
                   (unsigned long long)m->id);
        append_plain_list(out, m->peer_urls.at, m->peer_urls.count);
        buf_printf(out, " IsLearner:%s} Attributes:{Name:", m->is_learner ? "true" : "false");
        buf_append(out, m->name);
        buf_append_str(out, " ClientURLs:");
        append_plain_list(out, m->client_urls.at, m->client_urls.count);
        buf_append_str(out, "}}");
    }
    buf_append_str(out, "] RemovedMemberIDs:[]}");
}

/* With the difference to the last one that it was compared with. */
static void append_unmatched(struct buf *out, const struct cluster_initial *initial,
                             const struct cluster_existing *existing, size_t nth,
                             const struct cluster_places *resolved)
{
    const struct pb_member *m = &existing->members[nth];
    size_t last = initial->count - 1;
    struct cluster_resolved pair = {.failure = resolved->failure};
    struct arena arena = {0};

    if (pair.failure.len == 0) {
        pair.advertised = resolved->existing[nth];
        pair.configured = resolved->configured[last];
    }
    buf_printf(out, "PeerURLs: no match found for existing member (%llx, ",
               (unsigned long long)m->id);
    append_plain_list(out, m->peer_urls.at, m->peer_urls.count);
    buf_append_str(out, "), last resolver error (");
    append_difference(out, url_list_sorted(urls_of(m), &arena), urls_of(&initial->members[last]),
                      &pair);
    buf_append_byte(out, ')');
    arena_free(&arena);
}

static void take_ids(struct cluster_initial *initial, const struct cluster_existing *existing,
                     const size_t *matches)
{
    for (size_t i = 0; i < existing->count; i++)
        initial->members[matches[i]].id = existing->members[i].id;
    qsort(initial->members, initial->count, sizeof(*initial->members), compare_members);
    initial->cluster_id = existing->cluster_id;
}

bool cluster_initial_join(struct cluster_initial *initial, const struct cluster_existing *existing,
                          const struct cluster_places *resolved, struct buf *why)
{
    size_t matches[CLUSTER_MEMBERS_MAX];
    bool is_equal = existing->count == initial->count;
    size_t found = is_equal ? match_all(initial, existing, resolved, matches) : 0;

    if (is_equal && found == existing->count) {
        take_ids(initial, existing, matches);
        return true;
    }
    if (!why)
        return false;
    buf_append_str(why, "error validating peerURLs ");
    append_existing(why, existing);
    buf_append_str(why, ": ");
    if (is_equal)
        append_unmatched(why, initial, existing, found, resolved);
    else
        buf_append_str(why, "member count is unequal");
    return false;
}

/* ---- The first entries ---- */

void cluster_initial_entry(const struct cluster_initial *initial, size_t nth, struct buf *out)
{
    assert(nth < initial->count);
    struct buf context = {0};

    member_json_write(&initial->members[nth], &context);
    struct raft_conf_change cc = {
        .type = RAFT_ADD_NODE, .node_id = initial->members[nth].id, .context = buf_bytes(&context)};
    raft_conf_change_encode(&cc, out);
    buf_free(&context);
}
